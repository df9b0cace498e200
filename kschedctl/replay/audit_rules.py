"""The rules of audit sections, and the verdict that follows from their findings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kschedctl.replay.unknown import build_unknown_fields, merge_unknown_kinds
from kschedctl.reports.findings import SEVERITIES_BY_GRAVITY, Finding, FoundRule
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.reports.unknown import UnknownKind, Unread, is_undecided

ERROR, WARNING, NOTE = SEVERITIES_BY_GRAVITY


@dataclass(frozen=True)
class AuditRule:
    """A rule of an audit section."""

    id: str
    """``audit-<section>-<subject>``."""
    severity: str
    summary: str
    """One line."""
    why: str
    """The consequence of a violation of the rule."""
    fix: str
    """The usual correction."""
    source: str = ""
    """The place in upstream's documentation."""

    def build_finding(
        self,
        object_: str,
        message: str,
        fix: str = "",
        *,
        namespace: str = "",
        path: str = "",
        severity: str = "",
        **fields: str,
    ) -> Finding:
        """Build a finding about an object, such as ``Node n1``. The message gives the evidence with figures.

        ``fix`` and ``severity`` default to those of the rule. ``fields`` are other fields of the Finding, such as
        ``owner``. The fingerprint is a hash of the rule, the object and the path.
        """
        # Equal in all runs that find the same problem, whatever the figures in the message.
        identity = "\n".join((self.id, object_, path))
        return Finding(
            rule=self.id,
            severity=severity or self.severity,
            object=object_,
            path=path,
            message=message,
            fix=fix or self.fix,
            fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:16],
            namespace=namespace,
            **fields,  # type: ignore[arg-type]  # all other fields are strings
        )

    def describe(self) -> FoundRule:
        """Return the rule as it appears in a report."""
        return FoundRule(self.id, self.severity, self.summary, why=self.why, fix=self.fix, source=self.source)


class SectionVerdict(Unread):
    """The fields of a Section that hold its findings and verdict."""

    state: str
    findings: tuple[Finding, ...]
    rules: tuple[FoundRule, ...]


def build_verdict(
    rules: Sequence[AuditRule], findings: Iterable[Finding], unknown: Iterable[UnknownKind] = ()
) -> SectionVerdict:
    """Build the fields of a Section: its state, its findings, the violated rules, and what is unknown.

    The worst findings come first. ``unknown`` lists inputs that were not read. If such an input could change the state,
    the state is unknown.
    """
    worst_first = sorted(findings, key=lambda finding: SEVERITIES_BY_GRAVITY.index(finding.severity))
    merged_unknown = merge_unknown_kinds([unknown])
    violated_ids = {finding.rule for finding in worst_first}
    return {
        "state": _decide_section_state(worst_first, is_undecided=is_undecided(merged_unknown)),
        "findings": tuple(worst_first),
        "rules": tuple(rule.describe() for rule in rules if rule.id in violated_ids),
        **build_unknown_fields(merged_unknown),
    }


def _decide_section_state(findings: Iterable[Finding], is_undecided: bool) -> str:
    """Return the section's state: "findings" if one is more than a note, else "unknown" if undecided, else "sound"."""
    if any(finding.severity != NOTE for finding in findings):
        return FINDINGS
    return UNKNOWN if is_undecided else SOUND
