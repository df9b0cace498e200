"""The rules: those of all modules in ``kschedctl/lint/rules/``, and those that reading manifests applies."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from kschedctl.lint import rules
from kschedctl.lint.fixes.safe_fixes import unquote_number
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
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
"""Family -> its heading; a family is a module of rules, or a folder of such modules."""


def rules_of(family: str) -> Iterator[Rule]:
    """What the module of a family has, or those of its folder, by name."""
    module = import_module(f"{rules.__name__}.{family}")
    names = sorted(module_info.name for module_info in iter_modules(getattr(module, "__path__", ())))
    for part in [import_module(f"{module.__name__}.{name}") for name in names] or [module]:
        yield from part.RULES


FAMILIES: dict[str, tuple[Rule, ...]] = {heading: tuple(rules_of(family)) for family, heading in HEADINGS.items()}
"""Heading -> its rules."""
RULES: tuple[Rule, ...] = tuple(rule for of_family in FAMILIES.values() for rule in of_family)


def _nothing(context: LintContext) -> Iterator[Problem]:
    return iter(())


INVALID = Rule(
    "doc-invalid",
    ERROR,
    _nothing,
    summary="A field of the wrong type, or a quantity that cannot be read",
    why="The API server refuses the object. No other rule is checked on it.",
    fix="Correct the value",
    source="https://kubernetes.io/docs/reference/kubernetes-api/",
    safe_fix=unquote_number,
)
"""Found while reading, not by a check; it cannot be deselected."""

UNREADABLE = Rule(
    "doc-unreadable",
    ERROR,
    _nothing,
    summary="A file of manifests that cannot be read",
    why="Nothing in it is checked, and kubectl does not apply it.",
    fix="Correct the file, or exclude it with --exclude",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/",
)
"""Found while reading too; it cannot be deselected."""

IGNORE_FAULTY = Rule(
    "ignore-faulty",
    WARNING,
    _nothing,
    summary="An annotation kschedctl/ignore that ignores nothing",
    why="It names no rule, or gives no reason: what it should silence is still reported.",
    fix="Write kschedctl/ignore: RULE reason",
    source="kschedctl lint",
)
