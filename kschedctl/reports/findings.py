"""The findings of lint, as a document: apiVersion kschedctl.dev/v1, kind Findings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Protocol, Self, runtime_checkable

from msgspec.structs import replace

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document, RootDocument
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import agreeing, counted, join_words

SEVERITIES_BY_GRAVITY = ("error", "warning", "note")
"""The severities, the gravest first."""
SEVERITIES = {"error": Tone.BAD, "warning": Tone.WARNING, "note": Tone.FAINT}


def join_message_and_fix(finding: Finding) -> str:
    """Return the message and the fix of a finding as two sentences.

    >>> join_message_and_fix(Finding("api-unknown-field", "error", "Pod a", "spec.x", "unknown field", "Add y?", ""))
    'unknown field. Add y?'
    """
    end = "" if finding.fix.endswith((".", "?", "!")) else "."
    return f"{finding.message}. {finding.fix}{end}"


class FoundRule(Document, frozen=True):
    """A rule with findings."""

    id: str
    severity: str
    summary: str
    why: str
    """The consequence of ignoring the finding."""
    fix: str
    source: str


class Finding(Document, frozen=True):
    """One problem of an object."""

    rule: str
    severity: str
    object: str
    """`Kind namespace/name`."""
    path: str
    """The field of the object."""
    message: str
    fix: str
    fingerprint: str
    """An identity that survives moved lines, renamed files, and additions to the lists on the way to the field."""
    file: str = ""
    """The file that contains the object; empty for an object of a cluster."""
    line: int = 0
    """The line in the file; 0 for an object of a cluster."""
    column: int = 0
    """The column in the file; 0 for an object of a cluster."""
    owner: str = ""
    """The object of the cluster that creates this one and has to be changed instead."""
    builds: tuple[str, ...] = ()
    """The folders of kustomizations or charts whose objects have the problem, if the file itself does not."""
    namespace: str = ""
    """The object's namespace; empty if none is given."""
    also_in: tuple[str, ...] = ()
    """Other files with variants of the object that have the same problem."""


def describe_place(finding: Finding) -> str:
    """Return the file and line of a finding, ending with a space, or "" for an object of a cluster.

    >>> describe_place(Finding("r", "error", "Pod a", "spec", "m", "f", "", file="a.yaml", line=3))
    'a.yaml:3 '
    """
    return f"{finding.file}:{finding.line} " if finding.file else ""


def has_finding_at_least(findings: Iterable[Finding], severity: str) -> bool:
    """Return whether a finding has this severity or worse."""
    limit = SEVERITIES_BY_GRAVITY.index(severity)
    return any(SEVERITIES_BY_GRAVITY.index(finding.severity) <= limit for finding in findings)


class Suppressed(Document, frozen=True):
    """A finding that is not reported, with the reason."""

    finding: Finding
    reason: str
    """The reason in the annotation, or the path in the settings."""
    in_settings: bool = False


class PassedOver(Document, frozen=True):
    """Content of files that was not linted."""

    what: str
    """The object or file that was not linted."""
    where: tuple[str, ...]
    """The files, or documents in them."""
    hint: str = ""
    """The step after which it is linted."""


class Findings(Report, frozen=True):
    """Everything that lint found."""

    checked: int
    """The number of objects."""
    rules_run: int
    findings: tuple[Finding, ...] = ()
    """The findings, the gravest first, then by file, line and rule."""
    rules: tuple[FoundRule, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    known: int = 0
    """The number of findings that the baseline contains."""
    below: int = 0
    """The number of findings below the requested severity."""
    fixable: int = 0
    """The number of findings that --fix can correct."""
    alike: int = 0
    """The number of findings like a reported one: in another file, or of a rule that reports once per namespace."""
    unknown: tuple[UnknownKind, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    """Content of the files that was not linted."""
    fixed: tuple[Finding, ...] = ()
    """The findings that --fix corrected."""
    command: str = "lint"
    """The command that found them."""
    kind: str = "Findings"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return texts with the number of findings by severity, of linted objects and rules, and of omitted findings.

        The last text is left out if no finding was omitted. If there is neither an object nor a finding, the texts say
        so.
        """
        if not self.checked and not self.findings:
            return ("Nothing was linted", "(no object was found)")
        counts = [counted(self.count(level), level) for level in SEVERITIES_BY_GRAVITY if self.count(level)]
        verdict = join_words(counts) or "Nothing found"
        checked = f"in {counted(self.checked, 'object')}"
        if self.rules_run:
            checked += f", checked against {counted(self.rules_run, 'rule')}"
        remarks = {
            "ignored": len(self.suppressed),
            "in the baseline": self.known,
            "less severe": self.below,
            f"more {agreeing(self.alike, 'finding', 'findings')} with --profile all": self.alike,
        }
        listed = [f"{number} {remark}" for remark, number in remarks.items() if number]
        return (verdict, checked, f"({', '.join(listed)})") if listed else (verdict, checked)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the findings, most severe first, and their counts by severity."""
        findings = tuple(
            f"{describe_place(finding)}{finding.severity}: {finding.object}: {self.describe_problem(finding)}"
            for finding in self.findings
        )
        return replace(summary, advice=findings, figures={level: self.count(level) for level in SEVERITIES_BY_GRAVITY})

    def describe_problem(self, finding: Finding) -> str:
        """Return the message of a finding, followed by its fix.

        The fix is left out if it is the general fix of the rule, or if it only says to write a word of the message.
        """
        rule_fixes = {rule.id: rule.fix for rule in self.rules}
        is_general = finding.fix.startswith(rule_fixes.get(finding.rule, finding.fix))
        correction = re.fullmatch(r"Write (?:apiVersion: )?(\S+)", finding.fix)
        if is_general or (correction and correction[1] in finding.message.replace('"', "").split()):
            return finding.message
        return f"{finding.message} → {finding.fix}"

    def as_findings(self) -> Self:
        """Return the findings themselves."""
        return self

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def has_at_least(self, severity: str) -> bool:
        """Return whether there is a finding of this severity or worse."""
        return has_finding_at_least(self.findings, severity)


@runtime_checkable
class WithFindings(Protocol):
    """A document that can be printed in the formats in which other programs read findings."""

    def as_findings(self) -> Findings:
        """Return all findings of the document."""


class RuleReport(RootDocument, frozen=True):
    """A rule with its documentation."""

    id: Annotated[str, Column("rule", keep=True, place=-2)]
    severity: Annotated[str, Column(keep=True, tones=SEVERITIES)]
    summary: Annotated[str, Column("what it finds")]
    why: str
    fix: str
    source: str
    needs_cluster: Annotated[bool, Column(" ", place=-1)]
    bad: str = ""
    """YAML of objects that the rule reports."""
    good: str = ""
    """YAML of the same objects without the problem."""
    around: str = ""
    """YAML of the example's cluster, for rules that need one."""
    profile: str = "default"
    """The smallest profile that contains the rule."""
    once: bool = False
    """True if the rule reports once per namespace, except in the profile `all`."""
    kind: str = "LintRule"


class RuleFamily(Document, frozen=True):
    """A family of rules."""

    heading: str
    rules: tuple[RuleReport, ...]


class RuleList(RootDocument, frozen=True):
    """All rules, by family."""

    families: tuple[RuleFamily, ...]
    kind: str = "LintRules"
