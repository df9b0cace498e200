"""One section of an audit as a document: apiVersion kschedctl.dev/v1, kind AuditSection."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.reports.findings import LEVELS, Finding, Findings, FoundRule
from kschedctl.reports.report import Report
from kschedctl.reports.unknown import VERDICT, UnknownKind, reasons

SOUND, FINDINGS, UNKNOWN = "sound", "findings", "unknown"
"""The states of a section: nothing is wrong; something is; nobody knows, since its grounds are missing."""
COMMAND = "audit"


class Section(Report, frozen=True, kw_only=True, tag_field="name"):
    """``headline``: the answer in a line. ``findings``: the gravest first, of which ``rules`` tells why they matter.

    ``state`` is sound, findings (errors or warnings; notes leave it sound) or unknown; ``undecided``: what was not read
    (``unknown``) could change it, also where something was found.
    """

    title: str
    headline: str
    state: str
    findings: tuple[Finding, ...] = ()
    rules: tuple[FoundRule, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    not_replayed: tuple[str, ...] = ()
    undecided: bool = False
    tool_version: str = ""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "AuditSection"

    @property
    def name(self) -> str:
        """``pending``: by which it is asked for."""
        return str(self.__struct_config__.tag)

    def at_least(self, severity: str) -> bool:
        """Whether it found something of that severity, or graver."""
        return any(LEVELS.index(finding.severity) <= LEVELS.index(severity) for finding in self.findings)

    def as_findings(self) -> Findings:
        """What it found, for readers of findings."""
        return findings_of((self,), 0, self.tool_version)


def findings_of(sections: Iterable[Section], checked: int, tool_version: str) -> Findings:
    """What sections found, the gravest first, then in their order; ``checked``: among how many objects.

    Where nothing is found since grounds are missing, that is a finding too: readers of findings know no other word.
    """
    sections = tuple(sections)
    findings = [finding for section in sections for finding in section.findings]
    findings += [_not_known(section) for section in sections if section.undecided]
    rules = {rule.id: rule for section in sections for rule in section.rules}
    return Findings(
        checked=checked,
        rules_run=0,
        findings=tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.severity))),
        rules=tuple(rules.values()),
        unknown=tuple(dict.fromkeys(unknown for section in sections for unknown in section.unknown)),
        tool_version=tool_version,
        command=COMMAND,
    )


def _not_known(section: Section) -> Finding:
    rule = f"audit-{section.name}-not-known"
    missing = [unknown for unknown in section.unknown if unknown.affects == VERDICT]
    return Finding(
        rule=rule,
        severity="note",
        object=section.title,
        path="",
        message=f"not known: {reasons(missing)}; the answer could differ",
        fix="Read what is missing too",
        fingerprint=rule,
    )
