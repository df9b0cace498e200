"""What lint found as a document: apiVersion kschedctl.dev/v1, kind Findings."""

from __future__ import annotations

from typing import Annotated, Protocol, Self, runtime_checkable

from msgspec.structs import replace

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted

LEVELS = ("error", "warning", "note")
"""The severities, the gravest first."""
SEVERITIES = {"error": Tone.BAD, "warning": Tone.WARNING, "note": Tone.FAINT}


class FoundRule(Document, frozen=True):
    """A rule that found something; ``why`` is what goes wrong."""

    id: str
    severity: str
    summary: str
    why: str
    fix: str
    source: str


class Finding(Document, frozen=True):
    """One problem. ``object`` is ``Kind namespace/name``; ``path`` a field of it.

    ``namespace``: that of the object, empty where none is named or known.
    ``owner``: what makes the object of a cluster, and is to be changed instead. ``file`` is empty for an object of a
    cluster, ``line`` and ``column`` are then 0. ``fingerprint`` stays the same when lines move, files are renamed or
    others are put into the lists on the way to the field. ``builds``: the folders of the kustomizations or charts in
    whose objects it is, where that is not as it stands in the file. ``also_in``: other files of which the same is said,
    as they have variants of the object.
    """

    rule: str
    severity: str
    object: str
    path: str
    message: str
    fix: str
    fingerprint: str
    file: str = ""
    line: int = 0
    column: int = 0
    owner: str = ""
    builds: tuple[str, ...] = ()
    namespace: str = ""
    also_in: tuple[str, ...] = ()


class Suppressed(Document, frozen=True):
    """A finding that was silenced, and the reason: that of an annotation, or the path in the settings."""

    finding: Finding
    reason: str
    in_settings: bool = False


class PassedOver(Document, frozen=True):
    """``what`` of the files was not linted, and ``where`` that is: files, or documents of them; ``hint``: what does."""

    what: str
    where: tuple[str, ...]
    hint: str = ""


class Findings(Report, frozen=True):
    """``findings``: the gravest first, then by file, line and rule. ``checked``: how many objects.

    ``passed_over``: what of the files was not linted; ``fixed``: findings that --fix put right. Left out are ``known``
    findings, which the baseline has, those ``below`` the severity that was asked for, and those ``alike`` one that is
    told: of the same object in another file, or of rules that speak once a namespace. ``command``: which found them.
    """

    checked: int
    rules_run: int
    findings: tuple[Finding, ...] = ()
    rules: tuple[FoundRule, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    known: int = 0
    below: int = 0
    alike: int = 0
    unknown: tuple[UnknownKind, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    fixed: tuple[Finding, ...] = ()
    tool_version: str = ""
    command: str = "lint"
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Findings"

    def first_line(self) -> tuple[str, ...]:
        """How much was found among how much."""
        if not self.checked and not self.findings:
            return ("Nothing was linted", "(no object was found)")
        checked = f"in {counted(self.checked, 'object')}"
        checked += f", by {counted(self.rules_run, 'rule')}" if self.rules_run else ""
        counts = [counted(self.count(level), level) for level in LEVELS if self.count(level)]
        aside = [f"{len(self.suppressed)} ignored"] if self.suppressed else []
        aside += [f"{self.known} in the baseline"] if self.known else []
        aside += [f"{self.below} less grave"] if self.below else []
        aside += [f"{self.alike} more alike: --profile all"] if self.alike else []
        return (", ".join(counts) or "Nothing found", checked, *([f"({', '.join(aside)})"] if aside else []))

    def summarized(self, summary: Summary) -> Summary:
        """With the gravest."""
        findings = tuple(f"{finding.severity}: {finding.object}: {finding.message}" for finding in self.findings)
        return replace(summary, advice=findings, figures={level: self.count(level) for level in LEVELS})

    def as_findings(self) -> Self:
        return self

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def at_least(self, severity: str) -> bool:
        """Whether there is a finding of that severity or a graver one."""
        return any(LEVELS.index(f.severity) <= LEVELS.index(severity) for f in self.findings)


@runtime_checkable
class WithFindings(Protocol):
    """A document that says what was found, also in the forms in which other programs read findings."""

    def as_findings(self) -> Findings:
        """All that was found."""


class RuleReport(Document, frozen=True):
    """A rule in full. ``bad`` and ``good``: YAML of objects that it reports, and of the same ones put right.

    ``around``: the cluster of the example, for rules that need one. ``profile``: the first that has it; ``once``: told
    once a namespace, except in the profile ``all``.
    """

    id: Annotated[str, Column("rule", keep=True, place=-2)]
    severity: Annotated[str, Column(keep=True, tones=SEVERITIES)]
    summary: Annotated[str, Column("what it finds")]
    why: str
    fix: str
    source: str
    needs_cluster: Annotated[bool, Column(" ", place=-1)]
    bad: str = ""
    good: str = ""
    around: str = ""
    profile: str = "default"
    once: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "LintRule"


class RuleFamily(Document, frozen=True):
    heading: str
    rules: tuple[RuleReport, ...]


class RuleList(Document, frozen=True):
    """All rules, by family."""

    families: tuple[RuleFamily, ...]
    api_version: str = "kschedctl.dev/v1"
    kind: str = "LintRules"
