"""Validation of tolerations. Upstream: ValidateTolerations."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, invalid, not_supported
from kschedctl.api.labels import parse_int64
from kschedctl.api.objects import Toleration
from kschedctl.api.validation import names
from kschedctl.api.validation.options import ValidationOptions

OPERATORS = ("Equal", "Exists")
COMPARISONS = ("Lt", "Gt")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_tolerations(written: Iterable[Toleration], path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate all tolerations of a pod."""
    for i, toleration in enumerate(written):
        yield from _validate_toleration(toleration, (*path, i), options)


def _validate_toleration(toleration: Toleration, path: Path, options: ValidationOptions) -> ValidationErrors:
    operator = TypedString(toleration.operator)
    if toleration.key:
        yield from names.validate_syntax((*path, "key"), toleration.key, names.validate_qualified_name)
    elif operator != "Exists":
        all_keys = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid((*path, "operator"), operator, all_keys)
    yield from validate_toleration_seconds(toleration, path)
    yield from _validate_operator_and_value(toleration, path, options)
    if toleration.effect and toleration.effect not in EFFECTS:
        yield not_supported((*path, "effect"), TypedString(toleration.effect), EFFECTS)


def validate_toleration_seconds(toleration: Toleration, path: Path) -> ValidationErrors:
    """Validate that tolerationSeconds is set only for NoExecute."""
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        only = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        fault = invalid((*path, "effect"), TypedString(toleration.effect), only)
        yield fault._replace(at=(*path, "tolerationSeconds"))


def _validate_operator_and_value(toleration: Toleration, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate the operator and its value. Upstream reports invalid values as errors of the operator."""
    at, value = (*path, "operator"), toleration.value
    match toleration.operator:
        case "Equal" | "":
            if problems := names.validate_label_value(value):
                yield invalid(at, value, ";".join(problems))._replace(at=(*path, "value"))
        case "Exists":
            if value:
                fault = invalid(at, value, "value must be empty when `operator` is 'Exists'")
                yield fault._replace(at=(*path, "value"))
        case "Lt" | "Gt" as comparison:
            if options.comparison_operators:
                yield from _validate_number(value, (*path, "value"))
            else:
                yield not_supported(at, TypedString(comparison), (*OPERATORS, *COMPARISONS))
        case operator:
            yield not_supported(at, TypedString(operator), OPERATORS)


def _validate_number(value: str, path: Path) -> ValidationErrors:
    yield from names.validate_syntax(path, value, names.validate_decimal_integer)
    if parse_int64(value) is None:
        digits = value.removeprefix("-").removeprefix("+")
        why = "value out of range" if digits.isdecimal() and digits.isascii() else "invalid syntax"
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": {why}')
