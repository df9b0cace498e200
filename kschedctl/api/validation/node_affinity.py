"""Validation of node selectors and preferred node terms."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, forbidden, invalid, required
from kschedctl.api.objects import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from kschedctl.api.validation import names
from kschedctl.api.validation.selectors import NO_VALUES, SOME_VALUES, UNKNOWN_OPERATOR

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_node_affinity(affinity: NodeAffinity, path: Path) -> ValidationErrors:
    """Validate a node affinity. Upstream: validateNodeAffinity."""
    if (selector := affinity.required_during_scheduling_ignored_during_execution) is not None:
        yield from validate_node_selector(selector, (*path, REQUIRED))
    for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from validate_preferred_term(term, (*path, PREFERRED, i))


def validate_node_selector(selector: NodeSelector, path: Path) -> ValidationErrors:
    """Validate a node selector. Upstream: ValidateNodeSelector."""
    at = (*path, "nodeSelectorTerms")
    if not selector.node_selector_terms:
        yield required(at, "must have at least one node selector term")
    for i, term in enumerate(selector.node_selector_terms):
        yield from _validate_term(term, (*at, i), check_values=True)


def validate_preferred_term(term: PreferredSchedulingTerm, path: Path) -> ValidationErrors:
    """Validate a preferred term. Upstream: ValidatePreferredSchedulingTerms, which does not check the syntax of
    values.
    """
    yield from validate_weight(term.weight, (*path, "weight"))
    yield from _validate_term(term.preference, (*path, "preference"), check_values=False)


def validate_weight(value: int, path: Path) -> ValidationErrors:
    """Validate the weight of a preference for nodes or pods."""
    if not 1 <= value <= 100:
        yield invalid(path, value, "must be in the range 1-100")


def _validate_term(term: NodeSelectorTerm, path: Path, *, check_values: bool) -> ValidationErrors:
    for i, requirement in enumerate(term.match_expressions):
        yield from _validate_requirement(requirement, (*path, "matchExpressions", i), check_values)
    for i, requirement in enumerate(term.match_fields):
        yield from _validate_field_requirement(requirement, (*path, "matchFields", i))


def _validate_requirement(requirement: SelectorRequirement, path: Path, check_values: bool) -> ValidationErrors:
    values = requirement.values or ()
    yield from _validate_value_count(requirement.operator, values, path)
    yield from names.validate_syntax((*path, "key"), requirement.key, names.validate_qualified_name)
    if check_values:
        yield from names.validate_syntax_of_each((*path, "values"), values, names.validate_label_value)


def _validate_value_count(operator: str, values: Iterable[str], path: Path) -> ValidationErrors:
    count = len(tuple(values))
    match operator:
        case "In" | "NotIn":
            if not count:
                yield required((*path, "values"), NO_VALUES)
        case "Exists" | "DoesNotExist":
            if count:
                yield forbidden((*path, "values"), SOME_VALUES)
        case "Gt" | "Lt":
            if count != 1:
                yield required((*path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid((*path, "operator"), TypedString(operator), UNKNOWN_OPERATOR)


def _validate_field_requirement(requirement: SelectorRequirement, path: Path) -> ValidationErrors:
    """Validate a requirement on a node field. Upstream: ValidateNodeFieldSelectorRequirement."""
    values = requirement.values or ()
    if requirement.operator not in ("In", "NotIn"):
        yield invalid((*path, "operator"), TypedString(requirement.operator), UNKNOWN_OPERATOR)
    elif len(values) != 1:
        one = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required((*path, "values"), one)
    if requirement.key != "metadata.name":
        yield invalid((*path, "key"), requirement.key, "not a valid field selector key")
    else:
        yield from names.validate_syntax_of_each((*path, "values"), values, names.validate_dns_subdomain)
