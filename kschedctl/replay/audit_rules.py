"""What a section of an audit may find, and what follows from all that it found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kschedctl.replay.unknown import together, unread
from kschedctl.reports.findings import LEVELS, Finding, FoundRule
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.reports.unknown import UnknownKind, Unread, undecided

ERROR, WARNING, NOTE = LEVELS


@dataclass(frozen=True)
class AuditRule:
    """``id``: ``audit-<section>-<what>``. ``summary``: one line. ``why``: what goes wrong. ``fix``: what to do in
    general. ``source``: where upstream says so."""

    id: str
    severity: str
    summary: str
    why: str
    fix: str
    source: str = ""

    def finding(self, object_: str, message: str, fix: str = "", *, namespace: str = "", **fields: str) -> Finding:
        """A finding about an object (``Kind namespace/name``); ``message`` has the evidence, with its figures.

        ``fix``: what to do about this one. ``fields``: others of the Finding, as ``severity``, ``path`` or ``owner``.
        """
        known_by = hashlib.sha256("\n".join((self.id, object_, fields.get("path", ""))).encode()).hexdigest()[:16]
        return Finding(
            rule=self.id,
            severity=fields.pop("severity", self.severity),
            object=object_,
            path=fields.pop("path", ""),
            message=message,
            fix=fix or self.fix,
            fingerprint=known_by,
            namespace=namespace,
            **fields,  # type: ignore[arg-type]  # the other fields that are given are texts
        )

    def described(self) -> FoundRule:
        return FoundRule(self.id, self.severity, self.summary, self.why, self.fix, self.source)


class Judgement(Unread):
    """The fields of a Section that say what was found, and whether it is sound."""

    state: str
    findings: tuple[Finding, ...]
    rules: tuple[FoundRule, ...]


def judged(rules: Sequence[AuditRule], findings: Iterable[Finding], unknown: Iterable[UnknownKind] = ()) -> Judgement:
    """The fields of a Section that say what was found by its rules, and whether it is sound.

    ``unknown``: what its claims lean on and was not read; what ``affects`` the verdict takes its grounds.
    """
    worst_first = sorted(findings, key=lambda finding: LEVELS.index(finding.severity))
    missing = together([unknown])
    spoke = {finding.rule for finding in worst_first}
    return {
        "state": _state(worst_first, undecided(missing)),
        "findings": tuple(worst_first),
        "rules": tuple(rule.described() for rule in rules if rule.id in spoke),
        **unread(missing),
    }


def _state(findings: Iterable[Finding], groundless: bool) -> str:
    if any(finding.severity != NOTE for finding in findings):
        return FINDINGS
    return UNKNOWN if groundless else SOUND
