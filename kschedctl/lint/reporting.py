"""The report of problems: which objects and problems are in it, how severe they are, and in which order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kschedctl.api.json_values import object_at
from kschedctl.api.labels import Selector
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject, format_path, join_names
from kschedctl.lint.rule import Rule, Severity
from kschedctl.lint.suppression import (
    PathIgnores,
    build_fingerprint,
    drop_baseline_findings,
    find_ignore_reason,
)
from kschedctl.reports.findings import Finding, Findings, FoundRule, Suppressed


@dataclass(frozen=True)
class Reporting:
    """What to report of the problems that rules find."""

    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities that replace those of rules, by rule id."""
    min_severity: Severity = Severity.NOTE
    """The lowest severity to report."""
    baseline: Counter[str] = field(default_factory=Counter)
    """How often each fingerprint is in the baseline, whose findings are not reported."""
    path_ignores: PathIgnores = field(default_factory=PathIgnores)
    """Rules that are not reported for some files."""
    condensed: bool = False
    """Whether repeated findings are reported once per object, namespace or variant."""

    def get_severity(self, rule: Rule) -> Severity:
        """Return the severity of a rule's findings."""
        return self.severities.get(rule.id, rule.severity)


REPORT_EVERYTHING = Reporting()


def build_report(
    problems: Iterable[tuple[Rule, Problem]],
    checked_count: int,
    reporting: Reporting = REPORT_EVERYTHING,
    find_creator: Callable[[Subject], str] = lambda subject: "",
) -> Findings:
    """Build the report of these problems without suppressed findings and those of the baseline.

    ``find_creator`` returns what creates an object and so has to be changed instead of it, or "".
    """
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    rules: dict[str, Rule] = {}
    for rule, problem in problems:
        finding = _build_finding(rule, reporting.get_severity(rule), problem, find_creator(problem.subject))
        rules[rule.id] = rule
        if reason := find_ignore_reason(rule.id, problem.subject):
            suppressed.append(Suppressed(finding, reason))
        elif pattern := reporting.path_ignores.find_pattern(finding):
            suppressed.append(Suppressed(finding, f"settings: {pattern}", in_settings=True))
        else:
            findings.append(finding)
    findings = _merge_builds(sorted(findings, key=_severity_sort_key))
    new = drop_baseline_findings(findings, reporting.baseline)
    severe = [f for f in new if Severity(f.severity).rank <= reporting.min_severity.rank]
    reported = condense_findings(severe, rules.values()) if reporting.condensed else tuple(severe)
    shown_rules = {finding.rule for finding in reported}
    return Findings(
        checked=checked_count,
        rules_run=0,
        findings=reported,
        rules=tuple(
            _describe_rule(rule, reporting.get_severity(rule)) for rule in rules.values() if rule.id in shown_rules
        ),
        suppressed=tuple(suppressed),
        known=len(findings) - len(new),
        below=len(new) - len(severe),
        alike=len(severe) - len(reported),
    )


def _severity_sort_key(finding: Finding) -> tuple[object, ...]:
    """Return a sort key that puts the most severe findings first and orders equally severe ones by location."""
    return (
        Severity(finding.severity).rank,
        finding.file,
        finding.line,
        finding.column,
        finding.object,
        finding.rule,
        finding.path,
    )


def _build_finding(rule: Rule, severity: Severity, problem: Problem, owner: str) -> Finding:
    """Build the finding of a problem. ``owner`` is what has to be changed instead of the object, or ""."""
    subject, path = problem.subject, format_path(problem.path)
    line, column = subject.location.locate(problem.path) if subject.location else (0, 0)
    file = subject.location.find_file(problem.path) if subject.location else ""
    return Finding(
        rule=rule.id,
        severity=severity,
        object=str(subject),
        namespace=subject.namespace,
        path=path,
        message=problem.message,
        fix=(problem.fix or rule.fix) + (f", in {owner}, which makes this {subject.kind}" if owner else ""),
        fingerprint=build_fingerprint(rule.id, subject, problem.path),
        owner=owner,
        file=file,
        line=line,
        column=column,
        builds=(subject.location.build,) if subject.location and subject.location.build else (),
    )


def _merge_builds(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings at the same location that come from different builds."""
    groups: list[list[Finding]] = []
    groups_at: dict[tuple[object, ...], list[list[Finding]]] = {}
    for finding in findings:
        location = finding.rule, finding.file, finding.line, finding.column, finding.path
        candidates = groups_at.setdefault(location, [])
        group = None
        if finding.builds:  # findings of one build are different problems
            without_build = (g for g in candidates if all(member.builds != finding.builds for member in g))
            group = next(without_build, None)
        if group is None:
            group = []
            groups.append(group)
            candidates.append(group)
        group.append(finding)
    return [_merge_group(group) for group in groups]


def _merge_group(group: Sequence[Finding]) -> Finding:
    """Merge a group into its first finding, with the builds of all and a note on the other builds."""
    first, other_count = group[0], len(group) - 1
    if not other_count:
        return first
    builds = tuple(build for finding in group for build in finding.builds)
    message = f"{first.message} (so in {other_count} other build{'s' * (other_count > 1)})"
    return replace(first, message=message, builds=builds)


def _describe_rule(rule: Rule, severity: Severity) -> FoundRule:
    """Build the description of a rule for a report."""
    return FoundRule(rule.id, severity, rule.summary, rule.why, rule.fix, rule.source)


def condense_findings(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Drop findings that repeat another one for the same object, namespace or variant."""
    rules = tuple(rules)
    findings = keep_one_per_object(findings, {rule.id for rule in rules if rule.once_per_object})
    findings = merge_variants(findings)
    return keep_one_per_namespace(findings, {rule.id for rule in rules if rule.once_per_namespace})


def keep_one_per_namespace(findings: Iterable[Finding], rule_ids: Collection[str]) -> tuple[Finding, ...]:
    """Keep only the first finding of each of these rules in a namespace, with the number of the others.

    Objects without a namespace form a group of their own.
    """
    findings = tuple(findings)
    group_sizes = Counter((finding.rule, finding.namespace) for finding in findings)
    reported: set[tuple[str, str]] = set()
    result = []
    for finding in findings:
        group = finding.rule, finding.namespace
        if finding.rule not in rule_ids:
            result.append(finding)
        elif group not in reported:
            reported.add(group)
            result.append(_add_count(finding, group_sizes[group] - 1))
    return tuple(result)


def keep_one_per_object(findings: Iterable[Finding], rule_ids: Collection[str]) -> tuple[Finding, ...]:
    """Keep only the first finding of each of these rules in an object, with the number of the others."""
    first_of_group: dict[object, Finding] = {}
    group_sizes: Counter[object] = Counter()
    for number, finding in enumerate(findings):
        group: object = (finding.rule, finding.file, finding.object) if finding.rule in rule_ids else number
        first_of_group.setdefault(group, finding)
        group_sizes[group] += 1
    result = []
    for key, finding in first_of_group.items():
        other_count = group_sizes[key] - 1
        message = f"{finding.message} ({other_count:,} more of it too)"
        result.append(replace(finding, message=message) if other_count else finding)
    return tuple(result)


def merge_variants(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings that say the same about one object in several files. Errors are not merged.

    All errors have to be corrected before anything can be applied.
    """
    merged: dict[object, Finding] = {}
    other_files: dict[object, dict[str, None]] = {}
    for number, finding in enumerate(findings):
        group: object = (finding.rule, finding.object, finding.fingerprint, finding.message)
        has_name = " " in finding.object
        if not has_name or not finding.file or finding.severity == Severity.ERROR:
            merged[number] = finding
        elif group not in merged:
            merged[group] = finding
        elif merged[group].file == finding.file:
            merged[number] = finding
        else:
            other_files.setdefault(group, {})[finding.file] = None
    return tuple(_add_files(finding, tuple(other_files.get(key, ()))) for key, finding in merged.items())


def _add_files(finding: Finding, files: tuple[str, ...]) -> Finding:
    """Add a note on the other files that contain the finding."""
    if not files:
        return finding
    return replace(finding, message=f"{finding.message} (so in {join_names(files, 1)})", also_in=files)


def _add_count(finding: Finding, other_count: int) -> Finding:
    """Add a note on how many other findings this one stands for."""
    if not other_count:
        return finding
    where = f"in namespace {finding.namespace}" if finding.namespace else "without a namespace"
    return replace(finding, message=f"{finding.message} ({other_count:,} more {where})")


@dataclass(frozen=True)
class LintScope:
    """A selection of objects, by namespace or labels, whose findings are reported.

    Rules still see all linted objects.
    """

    namespace: str = ""
    """Only objects in this namespace, or "" for all. Cluster-scoped objects are in none."""
    selector: Selector | None = None
    """Only objects that have such labels, themselves or on their pods."""

    def build_filter(self, context: LintContext) -> Callable[[Subject], bool]:
        """Build a function that returns whether findings of an object are reported."""
        if self.selector is None:
            return self._is_in_namespace
        labels = _collect_labels(context)
        return lambda subject: (
            self._is_in_namespace(subject) and self._matches_any([_get_own_labels(subject), labels[subject]])
        )

    def _is_in_namespace(self, subject: Subject) -> bool:
        """Return whether the object is in the namespace."""
        return self.namespace in ("", subject.namespace)

    def _matches_any(self, label_sets: list[Mapping[str, str]]) -> bool:
        """Return whether the selector matches one of the label sets."""
        return any(map(self.selector.matches, label_sets)) if self.selector else True


ALL_OBJECTS = LintScope()


def _collect_labels(context: LintContext) -> Mapping[Subject, Mapping[str, str]]:
    """Collect the labels of workloads' pods, and the labels of the cluster's other objects."""
    labels: dict[Subject, Mapping[str, str]] = defaultdict(dict)
    for items in context.items.values():
        for item in items:
            if not item.subject.document:
                labels[item.subject] = item.value.metadata.labels
    return labels | {workload.subject: workload.labels for workload in context.workloads}


def _get_own_labels(subject: Subject) -> Mapping[str, str]:
    """Return the labels of a manifest whose values are strings, as the API demands."""
    labels = object_at(subject.document, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}
