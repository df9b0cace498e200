"""Makes the document of problems: which of them are reported, how grave they are, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs
from msgspec.structs import replace

from kschedctl.lint.findings.fingerprint import fingerprint
from kschedctl.lint.findings.suppression import PathIgnores, new_findings, reason_to_ignore
from kschedctl.lint.framework.rule import Rule, Severity
from kschedctl.lint.objects.subject import Problem, Subject, listed, path_text
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
    problems: Iterable[tuple[Rule, Problem]],
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
    for rule, problem in problems:
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
    groups_in_order: list[list[Finding]] = []
    at: dict[tuple[object, ...], list[list[Finding]]] = {}
    for finding in findings:
        groups = at.setdefault((finding.rule, finding.file, finding.line, finding.column, finding.path), [])
        alike = (group for group in groups if all(other.builds != finding.builds for other in group))
        group = next(alike, None) if finding.builds else None
        if group is None:
            groups_in_order.append(group := [])
            groups.append(group)
        group.append(finding)
    return [_of_builds(group) for group in groups_in_order]


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


def bounded(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """The findings of these rules, without those that say again what another one says."""
    rules = tuple(rules)
    of_objects = once_an_object(findings, {rule.id for rule in rules if rule.once_per_object})
    return once_a_namespace(once_for_variants(of_objects), {rule.id for rule in rules if rule.once_per_namespace})


def once_a_namespace(findings: Iterable[Finding], rules: Collection[str]) -> tuple[Finding, ...]:
    """The findings, of each of these rules only the first of a namespace, which says how many it stands for.

    What names no namespace is in one of its own.
    """
    findings = tuple(findings)
    alike = Counter((finding.rule, finding.namespace) for finding in findings)
    reported: set[tuple[str, str]] = set()
    kept = []
    for finding in findings:
        group = finding.rule, finding.namespace
        if finding.rule not in rules:
            kept.append(finding)
        elif group not in reported:
            reported.add(group)
            kept.append(_standing_for(finding, alike[group] - 1))
    return tuple(kept)


def once_an_object(findings: Iterable[Finding], rules: Collection[str]) -> tuple[Finding, ...]:
    """The findings, of each of these rules only the first of an object, which says how many it stands for."""
    kept: dict[object, Finding] = {}
    alike: Counter[object] = Counter()
    for number, finding in enumerate(findings):
        key = (finding.rule, finding.file, finding.object) if finding.rule in rules else number
        kept.setdefault(key, finding)
        alike[key] += 1
    return tuple(
        replace(finding, message=f"{finding.message} ({alike[key] - 1:,} more of it too)")
        if alike[key] > 1
        else finding
        for key, finding in kept.items()
    )


def once_for_variants(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, of those that say the same of one object in several files the first, which names the other files.

    Errors are told in each: all of them have to be corrected before anything can be applied.
    """
    kept: dict[object, Finding] = {}
    others: dict[object, dict[str, None]] = {}
    for number, finding in enumerate(findings):
        key: object = (finding.rule, finding.object, finding.fingerprint, finding.message)
        named = " " in finding.object and finding.file
        first = kept.setdefault(key, finding) if named and finding.severity != Severity.ERROR else finding
        if first.file == finding.file:
            kept[key if kept.get(key) is finding else number] = finding
        else:
            others.setdefault(key, {})[finding.file] = None
    return tuple(_told_of(finding, tuple(others.get(key, ()))) for key, finding in kept.items())


def _told_of(finding: Finding, files: tuple[str, ...]) -> Finding:
    if not files:
        return finding
    return replace(finding, message=f"{finding.message} (so in {listed(files, 1)})", also_in=files)


def _standing_for(finding: Finding, others: int) -> Finding:
    if not others:
        return finding
    where = f"in namespace {finding.namespace}" if finding.namespace else "without a namespace"
    return replace(finding, message=f"{finding.message} ({others:,} more {where})")
