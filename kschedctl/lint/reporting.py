"""The report of the problems that rules find: their selection, severity and order, and the merging of repeated ones."""

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
from kschedctl.text.counts import counted


@dataclass(frozen=True)
class Reporting:
    """Settings for reporting problems: which ones, and with which severity."""

    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities that replace those of rules, by rule id."""
    min_severity: Severity = Severity.NOTE
    """The lowest severity to report."""
    baseline: Counter[str] = field(default_factory=Counter)
    """The number of times that each fingerprint is in the baseline. Its findings are not reported."""
    path_ignores: PathIgnores = field(default_factory=PathIgnores)
    """Rules that are not reported for some files."""
    condensed: bool = False
    """True if repeated findings are reported once per object, namespace or variant."""

    def get_severity(self, rule: Rule) -> Severity:
        """Return the severity that the settings give a rule, or else the rule's own severity."""
        return self.severities.get(rule.id, rule.severity)


REPORT_EVERYTHING = Reporting()


def build_report(
    problems: Iterable[tuple[Rule, Problem]],
    checked_count: int,
    reporting: Reporting = REPORT_EVERYTHING,
    find_creator: Callable[[Subject], str] = lambda subject: "",
) -> Findings:
    """Build the report of these problems, with the most severe findings first.

    Suppressed findings are listed separately. Some findings are only counted: findings in the baseline, findings below
    the lowest severity and, in a condensed report, repeated findings. ``find_creator`` names the controller that
    created an object and that has to be changed instead, or returns "".
    """
    # Apply the ignores of annotations and settings.
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    rules: dict[str, Rule] = {}
    for rule, problem in problems:
        finding = _build_finding(rule, reporting.get_severity(rule), problem, find_creator(problem.subject))
        rules[rule.id] = rule
        if reason := find_ignore_reason(rule.id, problem.subject):
            suppressed.append(Suppressed(finding, reason))
        elif pattern := reporting.path_ignores.find_ignoring_pattern(finding):
            suppressed.append(Suppressed(finding, f"settings: {pattern}", in_settings=True))
        else:
            findings.append(finding)

    # Reduce the findings step by step.
    merged = _merge_findings_from_builds(sorted(findings, key=_build_severity_sort_key))
    not_in_baseline = drop_baseline_findings(merged, reporting.baseline)
    severe_enough = [
        finding for finding in not_in_baseline if Severity(finding.severity).rank <= reporting.min_severity.rank
    ]
    reported = condense_findings(severe_enough, rules.values()) if reporting.condensed else tuple(severe_enough)

    reported_rules = {finding.rule for finding in reported}
    return Findings(
        checked=checked_count,
        rules_run=0,
        findings=reported,
        rules=tuple(
            _describe_rule(rule, reporting.get_severity(rule)) for rule in rules.values() if rule.id in reported_rules
        ),
        suppressed=tuple(suppressed),
        known=len(merged) - len(not_in_baseline),
        below=len(not_in_baseline) - len(severe_enough),
        alike=len(severe_enough) - len(reported),
    )


def _build_severity_sort_key(finding: Finding) -> tuple[object, ...]:
    """Return a sort key that puts the most severe findings first and orders equally severe findings by location."""
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
    """Build the finding for a rule's problem.

    ``owner`` is the controller to change instead of the object, or "".
    """
    subject, location = problem.subject, problem.subject.location
    file, line, column = "", 0, 0
    builds: tuple[str, ...] = ()
    if location is not None:
        file = location.find_file(problem.path)
        line, column = location.locate(problem.path)
        if location.build:
            builds = (location.build,)
    fix = problem.fix or rule.fix
    if owner:
        fix += f", in {owner}, which creates this {subject.kind}"
    return Finding(
        rule=rule.id,
        severity=severity,
        object=str(subject),
        namespace=subject.namespace,
        path=format_path(problem.path),
        message=problem.message,
        fix=fix,
        fingerprint=build_fingerprint(rule.id, subject, problem.path),
        owner=owner,
        file=file,
        line=line,
        column=column,
        builds=builds,
    )


def _merge_findings_from_builds(findings: Iterable[Finding]) -> list[Finding]:
    """Merge a rule's findings at the same location into one finding if they come from different builds.

    Findings of the same build, or of no build, are different problems and stay separate.
    """
    groups: list[list[Finding]] = []
    groups_by_location: dict[tuple[object, ...], list[list[Finding]]] = {}
    for finding in findings:
        location = finding.rule, finding.file, finding.line, finding.column, finding.path
        candidates = groups_by_location.setdefault(location, [])
        group = _find_group_without_build(candidates, finding.builds) if finding.builds else None
        if group is None:
            group = []
            groups.append(group)
            candidates.append(group)
        group.append(finding)
    return [_merge_group_of_findings(group) for group in groups]


def _find_group_without_build(groups: Iterable[list[Finding]], builds: tuple[str, ...]) -> list[Finding] | None:
    """Return the first group in which no finding comes from these builds, or None."""
    for group in groups:
        if all(finding.builds != builds for finding in group):
            return group
    return None


def _merge_group_of_findings(group: Sequence[Finding]) -> Finding:
    """Return the first finding of a group with the builds of all, and a note on the number of other builds."""
    first = group[0]
    other_count = len(group) - 1
    if not other_count:
        return first
    builds = tuple(build for finding in group for build in finding.builds)
    message = f"{first.message} (also in {counted(other_count, 'other build')})"
    return replace(first, message=message, builds=builds)


def _describe_rule(rule: Rule, severity: Severity) -> FoundRule:
    """Build the description of a rule for a report."""
    return FoundRule(rule.id, severity, rule.summary, rule.why, rule.fix, rule.source)


def condense_findings(findings: Iterable[Finding], rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Merge findings that repeat another one for the same object, namespace or variant, if their rule allows it."""
    rules = tuple(rules)
    findings = keep_one_finding_per_object(findings, {rule.id for rule in rules if rule.once_per_object})
    findings = merge_repeated_findings(findings)
    return keep_one_finding_per_namespace(findings, {rule.id for rule in rules if rule.once_per_namespace})


def keep_one_finding_per_namespace(findings: Iterable[Finding], rule_ids: Collection[str]) -> tuple[Finding, ...]:
    """Keep one finding per rule in ``rule_ids`` and namespace, and say in it how many others were dropped.

    Objects without a namespace form one more group. Findings of other rules are all kept.
    """
    findings = tuple(findings)
    group_sizes = Counter((finding.rule, finding.namespace) for finding in findings)
    reported_groups: set[tuple[str, str]] = set()
    result = []
    for finding in findings:
        group = finding.rule, finding.namespace
        if finding.rule not in rule_ids:
            result.append(finding)
        elif group not in reported_groups:
            reported_groups.add(group)
            result.append(_note_dropped_findings(finding, group_sizes[group] - 1))
    return tuple(result)


def keep_one_finding_per_object(findings: Iterable[Finding], rule_ids: Collection[str]) -> tuple[Finding, ...]:
    """Keep one finding per object and file for each rule in ``rule_ids``, and say in it how many others were dropped.

    Findings of other rules are all kept.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        # Each finding of another rule is a group of its own, identified by its number.
        key: object = (finding.rule, finding.file, finding.object) if finding.rule in rule_ids else number
        groups.setdefault(key, []).append(finding)
    result = []
    for first, *others in groups.values():
        message = f"{first.message} (and {len(others):,} more in this object)"
        result.append(replace(first, message=message) if others else first)
    return tuple(result)


def merge_repeated_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings of one rule that differ only in their file into the first of them, which names the other files.

    Errors are not merged, since each has to be corrected. Findings about objects without a name or a file are not
    merged either, nor are further findings in the first finding's file.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        key: object = (finding.rule, finding.object, finding.fingerprint, finding.message)
        has_name = " " in finding.object
        can_be_merged = has_name and finding.file and finding.severity != Severity.ERROR
        is_in_first_file = key in groups and groups[key][0].file == finding.file
        if not can_be_merged or is_in_first_file:
            key = number  # the finding is a group of its own
        groups.setdefault(key, []).append(finding)
    return tuple(
        _note_other_files(first, tuple(dict.fromkeys(other.file for other in others)))
        for first, *others in groups.values()
    )


def _note_other_files(finding: Finding, files: tuple[str, ...]) -> Finding:
    """Add a note on the other files that contain the finding, if there are any."""
    if not files:
        return finding
    return replace(finding, message=f"{finding.message} (also in {join_names(files, 1)})", also_in=files)


def _note_dropped_findings(finding: Finding, other_count: int) -> Finding:
    """Add a note on how many more findings the namespace has, unless the count is 0."""
    if not other_count:
        return finding
    where = f"in namespace {finding.namespace}" if finding.namespace else "without a namespace"
    return replace(finding, message=f"{finding.message} (and {counted(other_count, 'similar finding')} {where})")


@dataclass(frozen=True)
class LintScope:
    """A selection of objects by namespace and labels. Only their findings are reported.

    Rules still see all linted objects.
    """

    namespace: str = ""
    """The namespace of the objects, or "" for all. Cluster-scoped objects are in none."""
    selector: Selector | None = None
    """A selector for the labels of the objects or of their pods, or None for all."""

    def build_filter(self, context: LintContext) -> Callable[[Subject], bool]:
        """Build a function that returns whether an object is in this scope, so that its findings are reported."""
        if self.selector is None:
            return self._is_in_namespace
        labels = _collect_labels_by_object(context)
        return lambda subject: (
            self._is_in_namespace(subject) and self._matches_any_label_set([_get_own_labels(subject), labels[subject]])
        )

    def _is_in_namespace(self, subject: Subject) -> bool:
        """Return whether the object is in the namespace of the scope, or the scope has all namespaces."""
        return self.namespace in ("", subject.namespace)

    def _matches_any_label_set(self, label_sets: list[Mapping[str, str]]) -> bool:
        """Return whether the selector matches one of the label sets. Without a selector, all match."""
        return self.selector is None or any(map(self.selector.matches, label_sets))


ALL_OBJECTS = LintScope()


def _collect_labels_by_object(context: LintContext) -> Mapping[Subject, Mapping[str, str]]:
    """Collect, by object, the pod labels of each workload and the labels of each other object of the cluster.

    Other objects from manifests have no labels in the result.
    """
    labels: dict[Subject, Mapping[str, str]] = defaultdict(dict)
    for items in context.items.values():
        for item in items:
            if not item.subject.document:
                labels[item.subject] = item.value.metadata.labels
    return labels | {workload.subject: workload.labels for workload in context.workloads}


def _get_own_labels(subject: Subject) -> Mapping[str, str]:
    """Return the labels of a manifest. Labels whose values are not strings are invalid and left out."""
    labels = object_at(subject.document, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}
