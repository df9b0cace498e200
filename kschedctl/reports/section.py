"""The base of an audit section's document: apiVersion kschedctl.dev/v1, kind AuditSection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from kschedctl.reports.findings import SEVERITIES_BY_GRAVITY, Finding, Findings, FoundRule, has_finding_at_least
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.reports.unknown import VERDICT, UnknownKind, describe_unread_kinds
from kschedctl.text.counts import counted

SOUND, FINDINGS, UNKNOWN = "sound", "findings", "unknown"
"""The states of a section: nothing is wrong; something is; nobody knows, since its grounds are missing."""
NOT_JUDGED = "not judged"
"""The words for a section that is sound only because there was nothing to judge."""
COMMAND = "audit"
PENDING_PODS = "pendingPods"
"""The figure of an audit's summary that counts pending pods. The others count the findings of sections."""
NOTE = SEVERITIES_BY_GRAVITY[-1]


class Section(Report, frozen=True, kw_only=True, tag_field="name"):
    """The answer of one section of the audit."""

    title: str
    headline: str
    """The answer in one line."""
    state: str
    """sound (no errors or warnings), findings, or unknown."""
    findings: tuple[Finding, ...] = ()
    """The findings, the gravest first."""
    rules: tuple[FoundRule, ...] = ()
    """The rules of the findings, which say why they matter."""
    unknown: tuple[UnknownKind, ...] = ()
    """The kinds of objects that were not read."""
    not_replayed: tuple[str, ...] = ()
    """The things that are not replayed and could change the answer."""
    nothing_judged: bool = False
    """True if there was nothing to judge, so that "sound" says nothing."""
    undecided: bool = False
    """True if what was not read could change the state, also where something was found."""
    interrupted: bool = False
    """True if the user interrupted the section, so that it is partial."""
    kind: str = "AuditSection"

    @property
    def name(self) -> str:
        """The name by which the section is selected."""
        return str(self.__struct_config__.tag)

    @property
    def is_not_judged(self) -> bool:
        """True if the section is sound only because there was nothing to judge."""
        return self.nothing_judged and self.state == SOUND

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the section's state and its findings, the gravest first."""
        return replace(
            summary,
            verdict=self.state,
            warnings=tuple(map(describe_finding, iter_problems(self.findings))),
            advice=tuple(map(describe_finding, iter_notes(self.findings))),
            figures=dict(Counter(finding.severity for finding in self.findings)),
        )

    def has_at_least(self, severity: str) -> bool:
        """Return whether there is a finding of this severity or worse."""
        return has_finding_at_least(self.findings, severity)

    def describe_state(self) -> str:
        """Return the numbers of errors and warnings, such as "2 errors, 1 warning", or another state.

        The other states are "ok" (sound) and "unknown", and "not judged" for a section that is sound only because there
        was nothing to judge. Notes are not counted, because a section with notes only is still sound.
        """
        if self.is_not_judged:
            return NOT_JUDGED
        if self.state != FINDINGS:
            return "ok" if self.state == SOUND else self.state
        numbers = Counter(finding.severity for finding in self.findings)
        named_severities = [severity for severity in SEVERITIES_BY_GRAVITY if severity != NOTE and numbers[severity]]
        return ", ".join(counted(numbers[severity], severity) for severity in named_severities)

    def as_findings(self) -> Findings:
        """Return the findings for the formats of CI systems."""
        return collect_findings((self,), checked=0)


def describe_finding(finding: Finding) -> str:
    """Return the object and the message of a finding, as one line."""
    return f"{finding.object}: {finding.message}"


def iter_problems(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the errors and warnings among findings."""
    return (finding for finding in findings if finding.severity != NOTE)


def iter_notes(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the notes among findings."""
    return (finding for finding in findings if finding.severity == NOTE)


def order_findings(sections: Iterable[Section]) -> tuple[Finding, ...]:
    """Return the findings of sections in the order of short forms, which are cut off after the first findings.

    The gravest finding of each unsound section comes first, then all other findings, the gravest first.
    """
    findings = [finding for section in sections for finding in section.findings]
    findings.sort(key=lambda finding: SEVERITIES_BY_GRAVITY.index(finding.severity))
    first_findings = [
        next((finding for finding in findings if finding in section.findings), None)
        for section in sections
        if section.state == FINDINGS
    ]
    return tuple(sorted(findings, key=lambda finding: finding not in first_findings))  # a stable order


def collect_findings(sections: Iterable[Section], checked: int) -> Findings:
    """Collect the findings of sections, the most severe first, then in the order of the sections.

    A section whose data is missing becomes a finding too, because the formats for CI contain nothing else. `checked` is
    the number of checked objects.
    """
    sections = tuple(sections)
    findings = list(chain.from_iterable(section.findings for section in sections))
    findings += [_build_unknown_finding(section) for section in sections if section.undecided]
    rules = {rule.id: rule for section in sections for rule in section.rules}
    unknown = dict.fromkeys(chain.from_iterable(section.unknown for section in sections))
    return Findings(
        checked=checked,
        rules_run=0,
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES_BY_GRAVITY.index(finding.severity))),
        rules=tuple(rules.values()),
        unknown=tuple(unknown),
        command=COMMAND,
    )


def _build_unknown_finding(section: Section) -> Finding:
    """Build the note that some findings of a section may be missing, because kinds were not read."""
    rule = f"audit-{section.name}-not-known"
    missing = [unknown for unknown in section.unknown if unknown.affects == VERDICT]
    return Finding(
        rule=rule,
        severity="note",
        object=section.title,
        path="",
        message=f"incomplete: {describe_unread_kinds(missing)}, so some findings may be missing",
        fix="Also read what is missing",
        fingerprint=rule,
    )
