"""Validation of label selectors.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, forbidden, invalid, required
from kschedctl.api.objects import LabelSelector, SelectorRequirement
from kschedctl.api.validation import names

UNKNOWN_OPERATOR = "not a valid selector operator"
NO_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
SOME_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def validate_label_selector(selector: LabelSelector | None, path: Path) -> ValidationErrors:
    """Validate a label selector with all its requirements."""
    if selector is None:
        return
    yield from names.validate_labels(selector.match_labels, (*path, "matchLabels"))
    for i, requirement in enumerate(selector.match_expressions):
        yield from _validate_requirement(requirement, (*path, "matchExpressions", i))


def _validate_requirement(requirement: SelectorRequirement, path: Path) -> ValidationErrors:
    values = requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                yield required((*path, "values"), NO_VALUES)
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden((*path, "values"), SOME_VALUES)
        case operator:
            yield invalid((*path, "operator"), TypedString(operator), UNKNOWN_OPERATOR)
    yield from names.validate_syntax((*path, "key"), requirement.key, names.validate_qualified_name)
    yield from names.validate_syntax_of_each((*path, "values"), values, names.validate_label_value)
