"""Quantities of Kubernetes.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/quantity.go (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from kschedctl.api.quantity import INT64_MAX, INT64_MIN, Format, Quantity, QuantityError, parse
from kschedctl.cel.errors import CelError
from kschedctl.cel.values import Opaque, Value

QUANTITY = "kubernetes.Quantity"


def parse_quantity(text: str) -> Opaque:
    """Parse a quantity. Raises CelError."""
    try:
        return Opaque(QUANTITY, parse(text))
    except QuantityError as error:
        raise CelError(error.what) from None


def is_quantity(text: str) -> bool:
    """Return whether the text is a quantity, including those with too many digits for us."""
    try:
        parse(text)
    except QuantityError as error:
        return "are not supported" in error.what
    return True


def _to_whole(value: Opaque) -> int | None:
    """Return the integer of upstream's small form, or None. Upstream does not reduce fractions."""
    held: Quantity = value.held
    if held.big or held.scale < 0:
        return None
    number = held.mantissa * 10**held.scale
    return number if INT64_MIN <= number <= INT64_MAX else None


def _as_integer(value: Opaque) -> int:
    """Convert a quantity to an integer. Raises CelError if it is not a whole number within 64 bits."""
    number = _to_whole(value)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def _as_float(value: Opaque) -> float:
    """Convert a quantity to a float, or infinity if it is out of range."""
    held: Quantity = value.held
    try:
        return float(held.mantissa) * 10.0**held.scale
    except OverflowError:
        return math.copysign(math.inf, held.mantissa)


def _build_addition(sign: int) -> Callable[[Opaque, Value], Opaque]:
    """Build addition or, for a negative sign, subtraction of quantities and integers."""

    def added(left: Opaque, right: Value) -> Opaque:
        other = Quantity(right, 0, Format.DECIMAL_EXPONENT) if isinstance(right, int) else right.held
        return Opaque(QUANTITY, left.held.add(other) if sign > 0 else left.held.sub(other), computed=True)

    return added


def _compare(left: Opaque, right: Opaque) -> int:
    return int(left.held.cmp(right.held))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "quantity(string) kubernetes.Quantity": parse_quantity,
    "isQuantity(string) bool": is_quantity,
    "sign(kubernetes.Quantity) int": lambda q: (q.held.mantissa > 0) - (q.held.mantissa < 0),
    "{kubernetes.Quantity}.isGreaterThan(kubernetes.Quantity) bool": lambda a, b: _compare(a, b) > 0,
    "{kubernetes.Quantity}.isLessThan(kubernetes.Quantity) bool": lambda a, b: _compare(a, b) < 0,
    "{kubernetes.Quantity}.compareTo(kubernetes.Quantity) int": _compare,
    "{kubernetes.Quantity}.asApproximateFloat() double": _as_float,
    "{kubernetes.Quantity}.asInteger() int": _as_integer,
    "{kubernetes.Quantity}.isInteger() bool": lambda q: _to_whole(q) is not None,
    "{kubernetes.Quantity}.add(kubernetes.Quantity) kubernetes.Quantity": _build_addition(1),
    "{kubernetes.Quantity}.add(int) kubernetes.Quantity": _build_addition(1),
    "{kubernetes.Quantity}.sub(kubernetes.Quantity) kubernetes.Quantity": _build_addition(-1),
    "{kubernetes.Quantity}.sub(int) kubernetes.Quantity": _build_addition(-1),
}
