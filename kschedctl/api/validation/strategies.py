"""Validation of a Deployment's update strategy. Upstream: pkg/apis/apps/validation/validation.go (v1.36)."""

from __future__ import annotations

import re

import msgspec

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, forbidden, invalid, not_supported
from kschedctl.api.validation.written import RollingUpdate, Strategy

STRATEGIES = ("Recreate", "RollingUpdate")


class _PrintedRollingUpdate(msgspec.Struct, frozen=True, rename="pascal"):
    """The settings of a rolling update as upstream prints them."""

    max_unavailable: int | str
    max_surge: int | str


class _PrintedStrategy(msgspec.Struct, frozen=True, rename="pascal"):
    """A strategy as upstream prints it."""

    type: str
    rolling_update: _PrintedRollingUpdate | None


def _to_printed_update(update: RollingUpdate | None) -> _PrintedRollingUpdate | None:
    """Return the settings of a rolling update as upstream prints them in errors. None stays None."""
    if update is None:
        return None
    return _PrintedRollingUpdate(update.max_unavailable or 0, update.max_surge or 0)


def validate_deployment_strategy(update: Strategy, path: Path) -> ValidationErrors:
    """Validate a Deployment's update strategy. Upstream: ValidateDeploymentStrategy."""
    if update.type not in ("", *STRATEGIES):
        yield not_supported(path, _PrintedStrategy(update.type, _to_printed_update(update.rolling_update)), STRATEGIES)
    elif update.type == "Recreate":
        if update.rolling_update is not None:
            rule = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden((*path, "rollingUpdate"), rule)
    elif update.rolling_update is not None:
        yield from _validate_surge_and_unavailable(
            update.rolling_update.max_surge, update.rolling_update.max_unavailable, path
        )


def _validate_surge_and_unavailable(
    surge: int | str | None, unavailable: int | str | None, path: Path
) -> ValidationErrors:
    """Validate maxSurge and maxUnavailable of a rolling update, which both default to 25 %.

    They must not both be 0.
    """
    surge = "25%" if surge is None else surge
    unavailable = "25%" if unavailable is None else unavailable
    update_path = (*path, "rollingUpdate")
    yield from validate_int_or_percent(unavailable, (*update_path, "maxUnavailable"))
    yield from validate_int_or_percent(surge, (*update_path, "maxSurge"))
    if _parse_int_or_percent(surge) == _parse_int_or_percent(unavailable) == 0:
        yield invalid(
            (*update_path, "maxUnavailable"), _to_printed_number(unavailable), "may not be 0 when `maxSurge` is 0"
        )
    yield from validate_at_most_100_percent(unavailable, (*update_path, "maxUnavailable"))


def validate_int_or_percent(value: int | str, path: Path) -> ValidationErrors:
    """Validate that a value is a non-negative number or a percentage.

    Upstream: ValidatePositiveIntOrPercent.
    """
    if isinstance(value, int):
        yield from validate_not_negative(value, path)
    elif not re.fullmatch(r"[0-9]+%", value):
        example = "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        rule = f"a valid percent string must be a numeric string followed by an ending '%' {example}"
        yield invalid(path, _to_printed_number(value), rule)


def validate_at_most_100_percent(value: int | str, path: Path) -> ValidationErrors:
    """Validate a percentage of at most 100 %. Upstream: IsNotMoreThan100Percent."""
    if isinstance(value, str) and value.endswith("%") and _parse_int_or_percent(value) > 100:
        yield invalid(path, TypedString(value), "must not be greater than 100%")


def _parse_int_or_percent(value: int | str) -> int:
    """Return a number, or the number in a percentage, or 0 for any other text."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0


def _to_printed_number(value: int | str) -> int | TypedString:
    """Return a number or percentage as upstream prints it in errors."""
    return value if isinstance(value, int) else TypedString(value)


def validate_not_negative(number: int, path: Path) -> ValidationErrors:
    """Validate a number of at least 0. Upstream: ValidateNonnegativeField."""
    if number < 0:
        yield invalid(path, number, "must be greater than or equal to 0")
