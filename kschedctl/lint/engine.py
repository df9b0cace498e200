"""Runs rules on a world and makes the document of what they found."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kschedctl.errors import UsageError
from kschedctl.lint.catalogue import IGNORE_FAULTY, INVALID, RULES
from kschedctl.lint.rule import Rule, Severity
from kschedctl.lint.subject import Problem, path_text
from kschedctl.lint.suppression import ANNOTATION, annotation_of, ignores, matches, new_findings, reason_to_ignore
from kschedctl.lint.world import World
from kschedctl.reports.findings import Finding, Findings, FoundRule, Suppressed
from kschedctl.reports.unknown import UnknownKind


def lint(
    world: World,
    rules: Sequence[Rule] = RULES,
    severities: Mapping[str, Severity] | None = None,
    baseline: Counter[str] | None = None,
) -> Findings:
    """All problems that the rules see in the world; rules that need a cluster run only when all its nodes are known."""
    nodes_known = world.cluster is not None and world.all_known("Node")
    running = [rule for rule in rules if nodes_known or not rule.needs_cluster]
    found: list[tuple[Rule, Problem]] = [(INVALID, problem) for problem in world.invalid]
    found += [(IGNORE_FAULTY, problem) for problem in faulty_ignores(world)]
    found += [(rule, _advised(rule, problem, world)) for rule in running for problem in rule.check(world)]
    checked = len(world.subjects) or len(world.workloads) + sum(map(len, world.items.values()))
    report = report_of(found, checked, severities, baseline)
    unknown = tuple(UnknownKind(kind, gap.why, "findings") for kind, gap in world.gaps.items())
    return msgspec.structs.replace(report, rules_run=len(running), unknown=unknown)


def report_of(
    found: Iterable[tuple[Rule, Problem]],
    checked: int,
    severities: Mapping[str, Severity] | None = None,
    baseline: Counter[str] | None = None,
) -> Findings:
    """The document of these problems, less those that annotations or the baseline silence."""
    findings: list[Finding] = []
    suppressed: list[Suppressed] = []
    rules: dict[str, Rule] = {}
    for rule, problem in found:
        severity = (severities or {}).get(rule.id, rule.severity)
        finding, reason = _finding(rule, severity, problem), reason_to_ignore(rule.id, problem.subject)
        rules[rule.id] = rule
        if reason:
            suppressed.append(Suppressed(finding, reason))
        else:
            findings.append(finding)
    findings.sort(key=lambda f: (f.file, f.line, f.column, f.object, f.rule, f.path))
    new = new_findings(findings, baseline) if baseline else tuple(findings)
    fired = {finding.rule for finding in new}
    return Findings(
        checked=checked,
        rules_run=0,
        findings=new,
        rules=tuple(_found_rule(rule, severities) for rule in rules.values() if rule.id in fired),
        suppressed=tuple(suppressed),
        known=len(findings) - len(new),
    )


def chosen_rules(select: Iterable[str], ignore: Iterable[str]) -> list[Rule]:
    """The rules that match ``select`` (none given: all) and not ``ignore``. Raises UsageError for unknown ids."""
    select, ignore = tuple(select), tuple(ignore)
    for pattern in (*select, *ignore):
        if not any(matches(rule.id, (pattern,)) for rule in RULES):
            raise UsageError(f'no rule "{pattern}"', hint="kschedctl lint rules lists them")
    chosen = [rule for rule in RULES if not select or matches(rule.id, select)]
    return [rule for rule in chosen if not matches(rule.id, ignore)]


def rule_named(name: str) -> Rule:
    """Raises UsageError."""
    for rule in RULES:
        if rule.id == name:
            return rule
    raise UsageError(f'no rule "{name}"', hint="kschedctl lint rules lists them")


def faulty_ignores(world: World) -> Iterator[Problem]:
    """Annotations that silence nothing."""
    for subject in world.subjects:
        path = ("metadata", "annotations", ANNOTATION)
        for ignore in ignores(annotation_of(subject)):
            if not ignore.reason:
                yield subject.problem(path, f"{', '.join(ignore.patterns)} is not ignored: no reason is given")
            for pattern in ignore.patterns:
                if not any(matches(rule.id, (pattern,)) for rule in (INVALID, *RULES)):
                    yield subject.problem(path, f'there is no rule "{pattern}"')


def _advised(rule: Rule, problem: Problem, world: World) -> Problem:
    """The problem, with a word on the version where its advice is a field that the linted one does not read."""
    field = rule.advises
    if field is None or not (needs := field.needs(world.gates)):
        return problem
    return problem._replace(fix=f"{problem.fix or rule.fix} ({field.name} {needs})")


def _finding(rule: Rule, severity: Severity, problem: Problem) -> Finding:
    subject, path = problem.subject, path_text(problem.path)
    line, column = subject.place.locate(problem.path) if subject.place else (0, 0)
    file = subject.place.file if subject.place else ""
    identity = "\n".join((rule.id, file, str(subject), path))
    return Finding(
        rule=rule.id,
        severity=severity,
        object=str(subject),
        path=path,
        message=problem.message,
        fix=problem.fix or rule.fix,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:16],
        file=file,
        line=line,
        column=column,
    )


def _found_rule(rule: Rule, severities: Mapping[str, Severity] | None) -> FoundRule:
    severity = (severities or {}).get(rule.id, rule.severity)
    return FoundRule(rule.id, severity, rule.summary, rule.why, rule.fix, rule.source)
