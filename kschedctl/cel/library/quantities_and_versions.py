"""Quantities of Kubernetes, and semantic versions in device attributes and expressions.

Upstream: github.com/blang/semver/v4 and staging/src/k8s.io/apiserver/pkg/cel/library/{quantity,semverlib}.go (v1.36).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kschedctl.api.quantity import (
    INT64_MAX,
    INT64_MIN,
    Format,
    Quantity,
    QuantityError,
    TooManyDigitsError,
    parse_quantity,
)
from kschedctl.cel.errors import CelError, build_validity_predicate
from kschedctl.cel.values import INT_MAX, UINT_MAX, Opaque, Value

QUANTITY = "kubernetes.Quantity"


def parse_cel_quantity(text: str) -> Opaque:
    """Parse a quantity into a value for expressions. Raises CelError if it is invalid."""
    try:
        return Opaque(QUANTITY, parse_quantity(text))
    except QuantityError as error:
        raise CelError(error.what) from None


def is_quantity(text: str) -> bool:
    """Return whether the text is a valid quantity.

    A quantity with too many digits to compute with is still valid.
    """
    try:
        parse_quantity(text)
    except TooManyDigitsError:
        return True
    except QuantityError:
        return False
    return True


def _try_convert_to_int64(value: Opaque) -> int | None:
    """Return the quantity as an integer, or None if upstream cannot hold it as an int64.

    Upstream does not reduce fractions, so 1000m is not an integer.
    """
    quantity: Quantity = value.wrapped
    if quantity.big or quantity.scale < 0:
        return None
    number = quantity.mantissa * 10**quantity.scale
    return number if INT64_MIN <= number <= INT64_MAX else None


def _convert_to_integer(value: Opaque) -> int:
    """Convert a quantity to an integer. Raises CelError if it is not a whole number within 64 bits."""
    number = _try_convert_to_int64(value)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def _convert_to_float(value: Opaque) -> float:
    """Convert a quantity to a float, or infinity if it is out of range."""
    quantity: Quantity = value.wrapped
    try:
        return float(quantity.mantissa) * 10.0**quantity.scale
    except OverflowError:
        return math.copysign(math.inf, quantity.mantissa)


def _build_quantity_adder(sign: int) -> Callable[[Opaque, Value], Opaque]:
    """Build the function that adds a second operand to a quantity, or subtracts it if ``sign`` is negative.

    The second operand is a quantity or an integer.
    """

    def add(left: Opaque, right: Value) -> Opaque:
        """Return the sum or difference."""
        other = Quantity(right, 0, Format.DECIMAL_EXPONENT) if isinstance(right, int) else right.wrapped
        total = left.wrapped.add(other) if sign > 0 else left.wrapped.sub(other)
        return Opaque(QUANTITY, total, computed=True)

    return add


def _compare_quantities(left: Opaque, right: Opaque) -> int:
    """Return -1, 0 or 1 as the order of two quantities."""
    return int(left.wrapped.cmp(right.wrapped))


_QUANTITY_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "quantity(string) kubernetes.Quantity": parse_cel_quantity,
    "isQuantity(string) bool": is_quantity,
    "sign(kubernetes.Quantity) int": lambda q: (q.wrapped.mantissa > 0) - (q.wrapped.mantissa < 0),
    "{kubernetes.Quantity}.isGreaterThan(kubernetes.Quantity) bool": lambda a, b: _compare_quantities(a, b) > 0,
    "{kubernetes.Quantity}.isLessThan(kubernetes.Quantity) bool": lambda a, b: _compare_quantities(a, b) < 0,
    "{kubernetes.Quantity}.compareTo(kubernetes.Quantity) int": _compare_quantities,
    "{kubernetes.Quantity}.asApproximateFloat() double": _convert_to_float,
    "{kubernetes.Quantity}.asInteger() int": _convert_to_integer,
    "{kubernetes.Quantity}.isInteger() bool": lambda q: _try_convert_to_int64(q) is not None,
    "{kubernetes.Quantity}.add(kubernetes.Quantity) kubernetes.Quantity": _build_quantity_adder(1),
    "{kubernetes.Quantity}.add(int) kubernetes.Quantity": _build_quantity_adder(1),
    "{kubernetes.Quantity}.sub(kubernetes.Quantity) kubernetes.Quantity": _build_quantity_adder(-1),
    "{kubernetes.Quantity}.sub(int) kubernetes.Quantity": _build_quantity_adder(-1),
}


_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")


class PreRelease(NamedTuple):
    """An identifier of a pre-release. Numbers sort before texts."""

    number: int | None
    text: str

    @property
    def rank(self) -> tuple[bool, int, str]:
        """The sort key, by which numbers come before texts."""
        return (True, 0, self.text) if self.number is None else (False, self.number, "")


class SemanticVersion(NamedTuple):
    """A version without its build metadata, which comparisons ignore."""

    major: int
    minor: int
    patch: int
    pre: tuple[PreRelease, ...] = ()

    def compare(self, other: SemanticVersion) -> int:
        """Return -1, 0 or 1 if this version is lower than, equal to or higher than the other version.

        A pre-release is lower than its release.
        """
        numbers = (self.major, self.minor, self.patch)
        other_numbers = (other.major, other.minor, other.patch)
        if numbers != other_numbers:
            return 1 if numbers > other_numbers else -1
        if bool(self.pre) != bool(other.pre):
            return -1 if self.pre else 1
        ranks = [identifier.rank for identifier in self.pre]
        other_ranks = [identifier.rank for identifier in other.pre]
        return (ranks > other_ranks) - (ranks < other_ranks)

    def __str__(self) -> str:
        pre = ".".join(p.text for p in self.pre)
        return f"{self.major}.{self.minor}.{self.patch}{'-' if pre else ''}{pre}"


def parse_semantic_version(text: str, normalize: bool = False) -> SemanticVersion:
    """Parse a semantic version. Raises ValueError if it is invalid.

    With ``normalize``, a leading ``v``, leading zeros, and fewer than three numbers are valid too. The build metadata
    is validated and dropped.

    >>> str(parse_semantic_version("1.2.3-rc.1+build")), str(parse_semantic_version("v1.02", normalize=True))
    ('1.2.3-rc.1', '1.2.0')
    """
    parts = (_normalize_version(text) if normalize else text).split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found" if text else "Version string empty")
    major, minor, patch_and_suffixes = parts  # PATCH[-PRERELEASE][+BUILD]
    patch_and_pre_release, plus, build = patch_and_suffixes.partition("+")
    patch, dash, pre_release = patch_and_pre_release.partition("-")
    if plus:
        for identifier in build.split("."):
            _validate_identifier(identifier, "Build meta data")
    return SemanticVersion(
        _parse_version_number(major, "major"),
        _parse_version_number(minor, "minor"),
        _parse_version_number(patch, "patch"),
        tuple(map(_parse_pre_release, pre_release.split("."))) if dash else (),
    )


def _normalize_version(text: str) -> str:
    """Drop a leading `v` and leading zeros, and extend a short version to three parts.

    Raises ValueError for a short version with a pre-release or build metadata.
    """
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped[:1].isdigit() else f"0{stripped}"  # one zero stays before other characters
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _parse_version_number(text: str, which: str) -> int:
    """Parse a part of a version. Raises ValueError with the message of Go's semver package.

    `which` names the part in messages.
    """
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'Invalid character(s) found in {which} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{which.capitalize()} number must not contain leading zeroes "{text}"')
    return _parse_uint64(text)


def _parse_uint64(text: str) -> int:
    """Parse digits as a uint64. Raises ValueError if the number is out of range."""
    if len(text) > _UINT64_DIGITS or int(text) > UINT_MAX:
        raise ValueError(f'strconv.ParseUint: parsing "{text[:100]}": value out of range')
    return int(text)


def _parse_pre_release(text: str) -> PreRelease:
    """Parse one identifier of a pre-release, which may be a number. Raises ValueError if it is invalid."""
    _validate_identifier(text, "Prerelease")
    if not text.isdigit():
        return PreRelease(None, text)
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    return PreRelease(_parse_uint64(text), text)


def _validate_identifier(identifier: str, what: str) -> None:
    """Raise ValueError if an identifier, called `what` in the message, is empty or has invalid characters."""
    if not identifier:
        raise ValueError(f"{what} is empty")
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError(f'Invalid character(s) found in {what.lower()} "{identifier}"')


SEMVER = "kubernetes.Semver"
_UINT64_DIGITS = len(str(UINT_MAX))


def parse_version(text: str, normalize: bool = False) -> Opaque:
    """Parse a semantic version into a value for expressions. Raises CelError if it is invalid.

    With ``normalize``, a leading ``v``, leading zeros, and fewer than three numbers are valid too.
    """
    try:
        return Opaque(SEMVER, parse_semantic_version(text, normalize))
    except ValueError as error:
        raise CelError(str(error)) from None


def _build_version_part_getter(name: str) -> Callable[[Opaque], int]:
    """Build a function that returns the named part of a version as a signed 64-bit integer."""

    def get_part(value: Opaque) -> int:
        """Return the part of the version as a signed number."""
        number: int = getattr(value.wrapped, name)
        return number if number <= INT_MAX else number - 2**64  # as the conversion of Go wraps

    return get_part


def _compare_versions(left: Opaque, right: Opaque) -> int:
    """Return -1, 0 or 1 as the order of two versions."""
    version: SemanticVersion = left.wrapped
    return version.compare(right.wrapped)


_VERSION_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "semver(string) kubernetes.Semver": parse_version,
    "semver(string, bool) kubernetes.Semver": parse_version,
    "isSemver(string) bool": build_validity_predicate(parse_semantic_version),
    "isSemver(string, bool) bool": build_validity_predicate(parse_semantic_version),
    "{kubernetes.Semver}.isGreaterThan(kubernetes.Semver) bool": lambda a, b: _compare_versions(a, b) > 0,
    "{kubernetes.Semver}.isLessThan(kubernetes.Semver) bool": lambda a, b: _compare_versions(a, b) < 0,
    "{kubernetes.Semver}.compareTo(kubernetes.Semver) int": _compare_versions,
    **{f"{{kubernetes.Semver}}.{name}() int": _build_version_part_getter(name) for name in ("major", "minor", "patch")},
}


FUNCTIONS: Mapping[str, Callable[..., Value]] = {**_QUANTITY_FUNCTIONS, **_VERSION_FUNCTIONS}
