"""Runs rules on a world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kschedctl.errors import UsageError
from kschedctl.lint.catalogue import IGNORE_FAULTY, INVALID, RULES, UNREADABLE
from kschedctl.lint.findings.reporting import EVERYTHING, Reporting, report_of
from kschedctl.lint.findings.scope import ALL_OBJECTS, LintScope
from kschedctl.lint.rule import Rule, RuleProfile
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.suppression import ANNOTATION, annotation_of, ignores, matches
from kschedctl.lint.world import World
from kschedctl.reports.findings import Findings
from kschedctl.reports.unknown import UnknownKind


def lint(
    world: World,
    rules: Sequence[Rule] = RULES,
    reporting: Reporting = EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """What the rules find in the world."""
    return findings_of(world, rules, problems_of(world, rules), reporting, scope)


def problems_of(world: World, rules: Sequence[Rule]) -> list[tuple[Rule, Problem]]:
    """The problems that the rules see in the world, each with its rule."""
    found: list[tuple[Rule, Problem]] = [(INVALID, problem) for problem in world.invalid]
    found += [(UNREADABLE, problem) for problem in world.unreadable]
    found += [(IGNORE_FAULTY, problem) for problem in faulty_ignores(world)]
    for rule in _running(world, rules):
        found += [(rule, _advised(rule, problem, world)) for problem in seen_together(rule, world)]
    return found


def seen_together(rule: Rule, world: World) -> Iterator[Problem]:
    """The problems that a rule sees in the whole world and in a set of objects that are applied together.

    What only the whole has, as two budgets of one pod, is in no cluster; what only a set has, as a name that nothing
    there has, may be elsewhere.
    """
    problems = list(rule.check(world))
    if len(set(world.sets.values())) < 2:
        yield from problems
        return
    worlds = {id(each): each for problem in problems for each in world.sets_with(problem.subject)}
    told: dict[tuple[Subject, Path], int] = dict.fromkeys(map(_at, problems), 0)
    for number, each in enumerate(worlds.values(), 1):
        for problem in rule.check(each):
            told[_at(problem)] = told.get(_at(problem), -1) or number
            if told[_at(problem)] == number:
                yield problem
    yield from (problem for problem in problems if not world.sets.get(problem.subject))


def _at(problem: Problem) -> tuple[Subject, Path]:
    return problem.subject, problem.path


def findings_of(
    world: World,
    rules: Sequence[Rule],
    found: Iterable[tuple[Rule, Problem]],
    reporting: Reporting = EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """The document of the problems that these rules saw in the world."""
    told = scope.of(world)
    checked = sum(map(told, world.objects))
    report = report_of(
        [(rule, problem) for rule, problem in found if told(problem.subject)], checked, reporting, world.maker
    )
    unknown = tuple(UnknownKind(kind, gap.why, "findings") for kind, gap in world.gaps.items())
    return msgspec.structs.replace(
        report, rules_run=len(_running(world, rules)), unknown=unknown, passed_over=world.passed_over
    )


def _running(world: World, rules: Sequence[Rule]) -> list[Rule]:
    """Rules that need a cluster run only when all its nodes are known."""
    nodes_known = world.cluster is not None and world.all_known("Node")
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


def faulty_ignores(world: World) -> Iterator[Problem]:
    """Annotations that silence nothing."""
    for subject in world.subjects:
        path = ("metadata", "annotations", ANNOTATION)
        for ignore in ignores(annotation_of(subject)):
            if not ignore.reason:
                yield subject.problem(path, f"{', '.join(ignore.patterns)} is not ignored: no reason is given")
            for pattern in ignore.patterns:
                if not any(matches(rule.id, (pattern,)) for rule in (INVALID, UNREADABLE, *RULES)):
                    yield subject.problem(path, f'there is no rule "{pattern}"')


def _advised(rule: Rule, problem: Problem, world: World) -> Problem:
    """The problem, with a word on the version where its advice is a field that the linted one does not read."""
    field = rule.advises
    if field is None or not (needs := field.needs(world.gates)):
        return problem
    return problem._replace(fix=f"{problem.fix or rule.fix} ({field.name} {needs})")
