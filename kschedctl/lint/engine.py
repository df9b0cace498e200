"""Runs rules on what is linted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kschedctl.errors import UsageError
from kschedctl.lint.catalogue import IGNORE_FAULTY, INVALID, RULES, UNREADABLE
from kschedctl.lint.findings.reporting import EVERYTHING, Reporting, report_of
from kschedctl.lint.findings.scope import ALL_OBJECTS, LintScope
from kschedctl.lint.findings.suppression import ANNOTATION, annotation_of, ignores, matches
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import Rule, RuleProfile
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.reports.findings import Findings
from kschedctl.reports.unknown import UnknownKind


def lint(
    context: LintContext,
    rules: Sequence[Rule] = RULES,
    reporting: Reporting = EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """What the rules find."""
    return findings_of(context, rules, problems_of(context, rules), reporting, scope)


def problems_of(context: LintContext, rules: Sequence[Rule]) -> list[tuple[Rule, Problem]]:
    """The problems that the rules see, each with its rule."""
    problems: list[tuple[Rule, Problem]] = [(INVALID, problem) for problem in context.invalid]
    problems += [(UNREADABLE, problem) for problem in context.unreadable]
    problems += [(IGNORE_FAULTY, problem) for problem in faulty_ignores(context)]
    for rule in _running(context, rules):
        problems += [(rule, _advised(rule, problem, context)) for problem in seen_together(rule, context)]
    return problems


def seen_together(rule: Rule, context: LintContext) -> Iterator[Problem]:
    """The problems that a rule sees in all that is linted and in a set of objects that are applied together.

    What only the whole has, as two budgets of one pod, is in no cluster; what only a set has, as a name that nothing
    there has, may be elsewhere.
    """
    problems = list(rule.check(context))
    if len(set(context.applied_sets.values())) < 2:
        yield from problems
        return
    sets = {id(applied): applied for problem in problems for applied in context.iter_set_contexts(problem.subject)}
    reported_by: dict[tuple[Subject, Path], int] = dict.fromkeys(map(_field_of, problems), 0)
    for number, applied in enumerate(sets.values(), 1):
        for problem in rule.check(applied):
            field = _field_of(problem)
            reported_by[field] = reported_by.get(field, -1) or number
            if reported_by[field] == number:
                yield problem
    yield from (problem for problem in problems if not context.applied_sets.get(problem.subject))


def _field_of(problem: Problem) -> tuple[Subject, Path]:
    return problem.subject, problem.path


def findings_of(
    context: LintContext,
    rules: Sequence[Rule],
    problems: Iterable[tuple[Rule, Problem]],
    reporting: Reporting = EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """The document of the problems that these rules saw."""
    in_scope = scope.of(context)
    checked = sum(map(in_scope, context.objects))
    reported = [(rule, problem) for rule, problem in problems if in_scope(problem.subject)]
    report = report_of(reported, checked, reporting, context.find_creator)
    unknown = tuple(UnknownKind(kind, gap.why, "findings") for kind, gap in context.gaps.items())
    return msgspec.structs.replace(
        report, rules_run=len(_running(context, rules)), unknown=unknown, passed_over=context.passed_over
    )


def _running(context: LintContext, rules: Sequence[Rule]) -> list[Rule]:
    """Rules that need a cluster run only when all its nodes are known."""
    nodes_known = context.cluster is not None and context.are_all_read("Node")
    return [rule for rule in rules if nodes_known or not rule.needs_cluster]


def chosen_rules(
    select: Iterable[str], ignore: Iterable[str], profile: RuleProfile = RuleProfile.ALL, besides: Iterable[str] = ()
) -> list[Rule]:
    """The rules that match ``select``, else those of the profile and ``besides``, and that do not match ``ignore``.

    Raises UsageError for unknown ids.
    """
    select, ignore, besides = tuple(select), tuple(ignore), tuple(besides)
    check_rules_exist((*select, *ignore), RULES)
    if select or profile is RuleProfile.ALL:
        chosen = [rule for rule in RULES if not select or matches(rule.id, select)]
    else:
        chosen = [rule for rule in RULES if rule.profile.rank <= profile.rank or rule.id in besides]
    return [rule for rule in chosen if not matches(rule.id, ignore)]


def check_rules_exist(
    patterns: Iterable[str], among: Iterable[Rule] = (INVALID, UNREADABLE, IGNORE_FAULTY, *RULES)
) -> None:
    """Raises UsageError for a pattern that no rule matches."""
    for pattern in patterns:
        if not any(matches(rule.id, (pattern,)) for rule in among):
            raise UsageError(f'no rule "{pattern}"', hint="kschedctl lint rules lists them")


def rule_named(name: str) -> Rule:
    """Raises UsageError."""
    for rule in RULES:
        if rule.id == name:
            return rule
    raise UsageError(f'no rule "{name}"', hint="kschedctl lint rules lists them")


def faulty_ignores(context: LintContext) -> Iterator[Problem]:
    """Annotations that silence nothing."""
    for subject in context.subjects:
        path = ("metadata", "annotations", ANNOTATION)
        for ignore in ignores(annotation_of(subject)):
            if not ignore.reason:
                yield subject.problem(path, f"{', '.join(ignore.patterns)} is not ignored: no reason is given")
            for pattern in ignore.patterns:
                if not any(matches(rule.id, (pattern,)) for rule in (INVALID, UNREADABLE, *RULES)):
                    yield subject.problem(path, f'there is no rule "{pattern}"')


def _advised(rule: Rule, problem: Problem, context: LintContext) -> Problem:
    """The problem, with a word on the version where its advice is a field that the linted one does not read."""
    field = rule.advised_field
    if field is None or not (needs := field.needs(context.gates)):
        return problem
    return problem._replace(fix=f"{problem.fix or rule.fix} ({field.name} {needs})")
