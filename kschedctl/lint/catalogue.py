"""All lint rules by family, and the rules whose problems are found while manifests are read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from kschedctl.api.json_values import field_at
from kschedctl.lint import rules
from kschedctl.lint.findings.suppression import ANNOTATION, get_ignore_annotation, matches_rule, parse_ignores
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.field_edits import FieldEdit, SetField, is_pod_count
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule, find_nothing
from kschedctl.lint.objects.subject import Problem

HEADINGS = {
    "api": "What the API server refuses",
    "priority": "Priority",
    "spread": "Topology spread",
    "affinity": "Affinity",
    "node_selection": "Node selection",
    "taints": "Taints and tolerations",
    "disruption": "Disruption budgets and drains",
    "resources": "Requests and capacity",
    "storage": "Volumes, host ports, labels",
    "special": "Schedulers, gates, gangs, devices",
    "autoscaling": "Autoscalers",
    "names": "Names that nothing has",
}
"""The heading of each family. A family is a module in ``kschedctl/lint/rules/``, or a folder of modules."""


def find_rules(family: str) -> Iterator[Rule]:
    """Yield the ``Rule`` constants of a family's module, or of each module in its folder, in source order."""
    package = import_module(f"{rules.__name__}.{family}")
    names = sorted(module_info.name for module_info in iter_modules(getattr(package, "__path__", ())))
    for module in [import_module(f"{package.__name__}.{name}") for name in names] or [package]:
        yield from (value for value in vars(module).values() if isinstance(value, Rule))


FAMILIES: dict[str, tuple[Rule, ...]] = {heading: tuple(find_rules(family)) for family, heading in HEADINGS.items()}
"""The rules of each family, by its heading."""
RULES: tuple[Rule, ...] = tuple(rule for family_rules in FAMILIES.values() for rule in family_rules)
"""All rules, in the order of the table."""


def _unquote_number(problem: Problem) -> FieldEdit | None:
    """Return the edit that removes the quotes around a number, or None if the field is anything else."""
    value = field_at(problem.subject.document, *problem.path)
    if isinstance(value, str) and is_pod_count(value) and ": expected int" in problem.message:
        return SetField(problem.path, int(value))
    return None


INVALID = Rule(
    "doc-invalid",
    ERROR,
    find_nothing,
    summary="A field of the wrong type, or a quantity that cannot be read",
    why="The API server refuses the object. No other rule is checked on it.",
    fix="Correct the value",
    source="https://kubernetes.io/docs/reference/kubernetes-api/",
    safe_fix=_unquote_number,
)
"""Reported for objects that cannot be decoded. It cannot be deselected."""

UNREADABLE = Rule(
    "doc-unreadable",
    ERROR,
    find_nothing,
    summary="A file of manifests that cannot be read",
    why="Nothing in it is checked, and kubectl does not apply it.",
    fix="Correct the file, or exclude it with --exclude",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/",
)
"""Reported for files that cannot be parsed. It cannot be deselected."""


def find_faulty_ignores(context: LintContext) -> Iterator[Problem]:
    """Find ignore annotations without a reason or with rules that do not exist."""
    for subject in context.subjects:
        path = ("metadata", "annotations", ANNOTATION)
        for ignore in parse_ignores(get_ignore_annotation(subject)):
            if not ignore.reason:
                yield subject.build_problem(path, f"{', '.join(ignore.patterns)} is not ignored: no reason is given")
            for pattern in ignore.patterns:
                if not any(matches_rule(rule.id, (pattern,)) for rule in (INVALID, UNREADABLE, *RULES)):
                    yield subject.build_problem(path, f'there is no rule "{pattern}"')


IGNORE_FAULTY = Rule(
    "ignore-faulty",
    WARNING,
    find_faulty_ignores,
    summary="An annotation kschedctl/ignore that ignores nothing",
    why="It names no rule, or gives no reason: what it should silence is still reported.",
    fix="Write kschedctl/ignore: RULE reason",
    source="kschedctl lint",
)
