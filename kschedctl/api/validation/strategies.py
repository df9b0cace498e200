"""How a Deployment replaces its pods. Upstream: ValidateDeploymentStrategy in pkg/apis/apps/validation (v1.36)."""

from __future__ import annotations

import re

import msgspec

from kschedctl.api.field_errors import Path, TypedString, ValidationErrors, forbidden, invalid, not_supported
from kschedctl.api.validation.written import RollingUpdate, Strategy

STRATEGIES = ("Recreate", "RollingUpdate")


class _ShownUpdate(msgspec.Struct, frozen=True, rename="pascal"):
    max_unavailable: int | str
    max_surge: int | str


class _Shown(msgspec.Struct, frozen=True, rename="pascal"):
    """A strategy as upstream prints it."""

    type: str
    rolling_update: _ShownUpdate | None


def _shown_update(update: RollingUpdate | None) -> _ShownUpdate | None:
    return None if update is None else _ShownUpdate(update.max_unavailable or 0, update.max_surge or 0)


def strategy(update: Strategy, path: Path) -> ValidationErrors:
    """Upstream: ValidateDeploymentStrategy."""
    if update.type not in ("", *STRATEGIES):
        yield not_supported(path, _Shown(update.type, _shown_update(update.rolling_update)), STRATEGIES)
    elif update.type == "Recreate":
        if update.rolling_update is not None:
            rule = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden((*path, "rollingUpdate"), rule)
    elif update.rolling_update is not None:
        yield from _rolling_update(update.rolling_update.max_surge, update.rolling_update.max_unavailable, path)


def _rolling_update(surge: int | str | None, unavailable: int | str | None, path: Path) -> ValidationErrors:
    surge = "25%" if surge is None else surge
    unavailable = "25%" if unavailable is None else unavailable
    at = (*path, "rollingUpdate")
    yield from int_or_percent(unavailable, (*at, "maxUnavailable"))
    yield from int_or_percent(surge, (*at, "maxSurge"))
    if _number(surge) == _number(unavailable) == 0:
        yield invalid((*at, "maxUnavailable"), _shown(unavailable), "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(unavailable, (*at, "maxUnavailable"))


def int_or_percent(value: int | str, path: Path) -> ValidationErrors:
    """Upstream: ValidatePositiveIntOrPercent."""
    if isinstance(value, int):
        yield from not_negative(value, path)
    elif not re.fullmatch(r"[0-9]+%", value):
        example = "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        rule = f"a valid percent string must be a numeric string followed by an ending '%' {example}"
        yield invalid(path, _shown(value), rule)


def at_most_all(value: int | str, path: Path) -> ValidationErrors:
    """Upstream: IsNotMoreThan100Percent."""
    if isinstance(value, str) and value.endswith("%") and _number(value) > 100:
        yield invalid(path, TypedString(value), "must not be greater than 100%")


def _number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0


def _shown(value: int | str) -> int | TypedString:
    return value if isinstance(value, int) else TypedString(value)


def not_negative(number: int, path: Path) -> ValidationErrors:
    """Upstream: ValidateNonnegativeField."""
    if number < 0:
        yield invalid(path, number, "must be greater than or equal to 0")
