"""Makes the document of problems: which of them are reported, how grave they are, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from kschedctl.lint.findings.bounds import bounded
from kschedctl.lint.findings.fingerprint import fingerprint
from kschedctl.lint.rule import Rule, Severity
from kschedctl.lint.subject import Problem, Subject, path_text
from kschedctl.lint.suppression import PathIgnores, new_findings, reason_to_ignore
from kschedctl.reports.findings import Finding, Findings, FoundRule, Suppressed


@dataclass(frozen=True)
class Reporting:
    """``severities`` overrides those of rules; nothing less grave than ``least`` is reported, nor what is known.

    ``bounded``: what rules say of many alike is told once; what is selected is told wherever it is found.
    """

    severities: Mapping[str, Severity] = field(default_factory=dict)
    least: Severity = Severity.NOTE
    baseline: Counter[str] = field(default_factory=Counter)
    path_ignores: PathIgnores = field(default_factory=PathIgnores)
    bounded: bool = False

    def severity(self, rule: Rule) -> Severity:
        return self.severities.get(rule.id, rule.severity)


EVERYTHING = Reporting()


def report_of(
    found: Iterable[tuple[Rule, Problem]],
    checked: int,
    reporting: Reporting = EVERYTHING,
    maker: Callable[[Subject], str] = lambda subject: "",
) -> Findings:
    """The document of these problems, less those that are silenced or known already.

    ``maker``: what makes an object, where that has to be changed instead.
    """
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    rules: dict[str, Rule] = {}
    for rule, problem in found:
        finding = _finding(rule, reporting.severity(rule), problem, maker(problem.subject))
        rules[rule.id] = rule
        if reason := reason_to_ignore(rule.id, problem.subject):
            suppressed.append(Suppressed(finding, reason))
        elif pattern := reporting.path_ignores.pattern(finding):
            suppressed.append(Suppressed(finding, f"settings: {pattern}", in_settings=True))
        else:
            findings.append(finding)
    findings = _once(sorted(findings, key=_gravest_first))
    new = new_findings(findings, reporting.baseline)
    grave = [f for f in new if Severity(f.severity).rank <= reporting.least.rank]
    shown = bounded(grave, rules.values()) if reporting.bounded else tuple(grave)
    fired = {finding.rule for finding in shown}
    return Findings(
        checked=checked,
        rules_run=0,
        findings=shown,
        rules=tuple(_found_rule(rule, reporting.severity(rule)) for rule in rules.values() if rule.id in fired),
        suppressed=tuple(suppressed),
        known=len(findings) - len(new),
        below=len(new) - len(grave),
        alike=len(grave) - len(shown),
    )


def _gravest_first(f: Finding) -> tuple[object, ...]:
    return Severity(f.severity).rank, f.file, f.line, f.column, f.object, f.rule, f.path


def _finding(rule: Rule, severity: Severity, problem: Problem, owner: str) -> Finding:
    subject, path = problem.subject, path_text(problem.path)
    line, column = subject.place.locate(problem.path) if subject.place else (0, 0)
    file = subject.place.file_of(problem.path) if subject.place else ""
    return Finding(
        rule=rule.id,
        severity=severity,
        object=str(subject),
        namespace=subject.namespace,
        path=path,
        message=problem.message,
        fix=(problem.fix or rule.fix) + (f", in {owner}, which makes this {subject.kind}" if owner else ""),
        fingerprint=fingerprint(rule.id, subject, problem.path),
        owner=owner,
        file=file,
        line=line,
        column=column,
        builds=(subject.place.build,) if subject.place and subject.place.build else (),
    )


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """What stands at one place of a file is told once, however many builds it goes into."""
    told: list[list[Finding]] = []
    at: dict[tuple[object, ...], list[list[Finding]]] = {}
    for finding in findings:
        groups = at.setdefault((finding.rule, finding.file, finding.line, finding.column, finding.path), [])
        alike = (group for group in groups if all(other.builds != finding.builds for other in group))
        group = next(alike, None) if finding.builds else None
        if group is None:
            told.append(group := [])
            groups.append(group)
        group.append(finding)
    return [_of_builds(group) for group in told]


def _of_builds(group: Sequence[Finding]) -> Finding:
    """The first, which tells of the others."""
    first, others = group[0], len(group) - 1
    if not others:
        return first
    builds = tuple(build for finding in group for build in finding.builds)
    message = f"{first.message} (so in {others} other build{'s' * (others > 1)})"
    return structs.replace(first, message=message, builds=builds)


def _found_rule(rule: Rule, severity: Severity) -> FoundRule:
    return FoundRule(rule.id, severity, rule.summary, rule.why, rule.fix, rule.source)
