"""The lint engine: it runs rules on a context by the settings of a project, and builds the report.

Settings are ``[tool.kschedctl.lint]`` in pyproject.toml, or ``lint:`` in .kschedctl.yaml. ``kschedctl schema
lint-settings`` prints the JSON Schema of .kschedctl.yaml.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.kube_version import KubeVersion
from kschedctl.errors import ConfigurationError, InputError, UsageError
from kschedctl.lint.catalogue import IGNORE_FAULTY, INVALID, RULES, UNREADABLE
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.reporting import ALL_OBJECTS, REPORT_EVERYTHING, LintScope, Reporting, build_report
from kschedctl.lint.rule import Rule, RuleProfile, Severity
from kschedctl.lint.suppression import matches_rule
from kschedctl.reports.findings import Findings
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import join_words


def lint(
    context: LintContext,
    rules: Sequence[Rule] = RULES,
    reporting: Reporting = REPORT_EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """Run the rules on the context and report their findings."""
    return build_findings(context, rules, find_all_problems(context, rules), reporting, scope)


def find_all_problems(context: LintContext, rules: Sequence[Rule]) -> list[tuple[Rule, Problem]]:
    """Return the problems of the linted objects, each with its rule.

    Invalid objects, unreadable files and faulty ignore annotations come first, followed by the problems that ``rules``
    find.
    """
    problems: list[tuple[Rule, Problem]] = [(INVALID, problem) for problem in context.invalid]
    problems += [(UNREADABLE, problem) for problem in context.unreadable]
    problems += [(IGNORE_FAULTY, problem) for problem in IGNORE_FAULTY.check(context)]
    for rule in _select_runnable_rules(context, rules):
        problems += [
            (rule, _add_version_note(rule, problem, context))
            for problem in find_problems_within_applied_sets(rule, context)
        ]
    return problems


def find_problems_within_applied_sets(rule: Rule, context: LintContext) -> Iterator[Problem]:
    """Yield the problems of a rule that exist both among all linted objects and within one applied set.

    An applied set is a set of objects that are applied together. A problem between objects of different sets, such as
    two budgets that select one pod, is left out, because no cluster has both objects. A problem that only one set by
    itself has, such as a missing name, is left out, because another set may have the name. Each field is reported for
    only one set.

    Objects in no set keep all their problems, and so do all objects if they have the same sets.
    """
    problems = list(rule.check(context))
    if len(set(context.applied_sets.values())) < 2:
        yield from problems
        return

    yield from _find_problems_of_sets(rule, context, problems)
    yield from (problem for problem in problems if not context.applied_sets.get(problem.subject))


def _find_problems_of_sets(rule: Rule, context: LintContext, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems that the rule finds within single applied sets, at the fields of `problems`.

    If several sets have a problem at a field, only the first set's problems there are yielded.
    """
    set_contexts: dict[LintContext, None] = {}  # a dict, so that the order is kept
    for problem in problems:
        set_contexts.update(dict.fromkeys(context.iter_applied_set_contexts(problem.subject)))

    fields_with_problem = {(problem.subject, problem.path) for problem in problems}
    first_set_by_field: dict[tuple[Subject, Path], LintContext] = {}
    for set_context in set_contexts:
        for problem in rule.check(set_context):
            field = problem.subject, problem.path
            if field not in fields_with_problem:
                continue
            first_set = first_set_by_field.setdefault(field, set_context)
            if set_context is first_set:
                yield problem


def build_findings(
    context: LintContext,
    rules: Sequence[Rule],
    problems: Iterable[tuple[Rule, Problem]],
    reporting: Reporting = REPORT_EVERYTHING,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """Build the report of the problems of objects in scope.

    The report also says how many rules were run, which kinds were not fully read, and which files were skipped.
    """
    is_in_scope = scope.build_filter(context)
    checked_count = sum(map(is_in_scope, context.objects))
    problems_in_scope = [(rule, problem) for rule, problem in problems if is_in_scope(problem.subject)]
    report = build_report(problems_in_scope, checked_count, reporting, context.find_creator)
    unknown = tuple(UnknownKind(kind, gap.why, "findings") for kind, gap in context.gaps.items())
    return msgspec.structs.replace(
        report, rules_run=len(_select_runnable_rules(context, rules)), unknown=unknown, passed_over=context.passed_over
    )


def _select_runnable_rules(context: LintContext, rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that can run. Rules that need a cluster run only if all its nodes are known."""
    nodes_known = context.cluster is not None and context.are_all_read("Node")
    return [rule for rule in rules if nodes_known or not rule.needs_cluster]


def choose_rules(
    select: Iterable[str], ignore: Iterable[str], profile: RuleProfile = RuleProfile.ALL, additional: Iterable[str] = ()
) -> list[Rule]:
    """Return the selected rules, or else the rules of the profile, without the ignored ones.

    ``select`` and ``ignore`` are rule ids or patterns. ``additional`` are ids of rules to add to those of the profile.
    Raises UsageError for a pattern that no rule matches.
    """
    select, ignore, additional = tuple(select), tuple(ignore), tuple(additional)
    check_rules_exist((*select, *ignore), RULES)
    if select:
        chosen = [rule for rule in RULES if matches_rule(rule.id, select)]
    else:
        chosen = [rule for rule in RULES if rule.profile.rank <= profile.rank or rule.id in additional]
    return [rule for rule in chosen if not matches_rule(rule.id, ignore)]


def check_rules_exist(
    patterns: Iterable[str], rules: Iterable[Rule] = (INVALID, UNREADABLE, IGNORE_FAULTY, *RULES)
) -> None:
    """Raise UsageError for a pattern that no rule matches."""
    for pattern in patterns:
        if not any(matches_rule(rule.id, (pattern,)) for rule in rules):
            raise _build_unknown_rule_error(pattern, rules)


def get_rule(rule_id: str) -> Rule:
    """Return the rule with this id. Raises UsageError if there is none."""
    for rule in RULES:
        if rule.id == rule_id:
            return rule
    raise _build_unknown_rule_error(rule_id, RULES)


def _build_unknown_rule_error(name: str, rules: Iterable[Rule]) -> UsageError:
    """Build the error for a rule that does not exist, which suggests rules of similar names."""
    similar = get_close_matches(name, [rule.id for rule in rules])
    hint = "list all rules with: kschedctl lint rules"
    if similar:
        hint = f"did you mean {join_words(similar, 'or')}? Otherwise, {hint}"
    return UsageError(f'no rule is named "{name}"', hint=hint)


def _add_version_note(rule: Rule, problem: Problem, context: LintContext) -> Problem:
    """Return the problem, with a note in its fix if the fix sets a field that the linted version does not have."""
    field = rule.advised_field
    requirement = field.describe_requirement(context.gates) if field else ""
    if field is None or not requirement:
        return problem
    return problem._replace(fix=f"{problem.fix or rule.fix} ({field.name} {requirement})")


class LintSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The lint settings of a project. Paths start at the folder of the settings file."""

    profile: RuleProfile = RuleProfile.DEFAULT
    """The rules that run if none are selected."""
    select: tuple[str, ...] = ()
    """Rule ids or patterns; if there are any, only these rules run."""
    ignore: tuple[str, ...] = ()
    """Rule ids or patterns that do not run."""
    fail_on: Severity = Severity.WARNING
    """The lowest severity that makes lint fail."""
    baseline: str | None = None
    """The baseline file."""
    severity: dict[str, Severity] = {}
    """Severities that replace those of rules. Such rules run in every profile."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths that are not read."""
    per_path_ignores: dict[str, tuple[str, ...]] = {}
    """Rule ids that are not reported, by pattern of paths."""
    kube_version: str | None = None
    """The version of Kubernetes that files are linted for unless the command line names one."""
    together: tuple[tuple[str, ...], ...] = ()
    """Lists of paths. The manifests under the paths of a list go to one cluster."""


class ProjectSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The whole settings file or table."""

    lint: LintSettings = LintSettings()


def parse_settings(document: object, file: str) -> ProjectSettings:
    """Convert a parsed settings file to ProjectSettings.

    Raises InputError, which names the faulty field of ``file``, if a value is invalid or the Kubernetes version is not
    supported.
    """
    try:
        settings = convert_builtins(document, ProjectSettings)
    except msgspec.ValidationError as error:
        message, field = _split_conversion_error(error)
        where = f"{file}, {field}" if field else file
        raise InputError(message, where=where) from None
    if settings.lint.kube_version is not None:
        try:
            KubeVersion.parse_supported(settings.lint.kube_version)
        except ConfigurationError as error:
            raise InputError(error.what, where=f"{file}, lint.kube-version", hint=error.hint) from None
    return settings


def _split_conversion_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the message, which begins with a lower-case letter, and the field that is faulty or ""."""
    message, _, field = str(error).replace("`", "").partition(" - at $.")
    return message[:1].lower() + message[1:], field


def build_settings_schema() -> dict[str, object]:
    """Build the JSON Schema (2020-12) of .kschedctl.yaml."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(ProjectSettings)}
