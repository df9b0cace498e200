"""Resource quantities ("1500m", "2Gi", "1e3"): exact parsing, arithmetic and canonical form.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/{quantity,amount,scale_int,suffix}.go (v1.36).

Upstream keeps an amount either as an int64 with a decimal scale or, where that is too small, as a big decimal that is
rounded up to nano units. Both forms give the same answers within int64 and different ones beyond it (an overflowing
int64 amount is 0 or wraps, a big one wraps), so ``Quantity.big`` says which form upstream would hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, total_ordering

from kschedctl.errors import InputError

NANO = -9  # powers of ten
MILLI = -3
_NANOS_PER_UNIT = 10**-NANO
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
_INT64_DIGITS = 18  # decimal digits that always fit into an int64
_INT64_DIGITS_WITH_BINARY_SUFFIX = 15  # upstream's more cautious limit for numbers such as 1Gi
_SINGLE_STEP_SHIFTS = (1, 2, 3, 6, 9)  # powers of ten that upstream multiplies by at once, ignoring an overflow
_MAX_DIGITS = 1000  # upstream has no limit and would hang on 1234567890123456789e999999999


class Format(StrEnum):
    """The family of suffixes that a quantity was written with and is printed with."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

_QUANTITY = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,30})")

_WRONG_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # upstream's words
)
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class QuantityError(InputError, ValueError):
    """An error for a string that is not a quantity. ``what`` is upstream's message, ``hint`` shows the string."""


class TooManyDigitsError(QuantityError):
    """An error for a quantity that is valid, but has more digits than can be computed with here."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number ``mantissa * 10**scale``, which is compared and hashed whatever its format."""

    mantissa: int
    scale: int = 0
    format: Format = Format.DECIMAL_SI
    big: bool = False
    """True if upstream stores the amount as a big decimal, which behaves differently beyond int64."""
    written: str = ""
    """The parsed string, if upstream prints the string unchanged."""

    def value(self) -> int:
        """Return the amount as an int64, rounded away from zero."""
        return self._scale_to_int64(0)

    def milli_value(self) -> int:
        """Return the amount in thousandths as an int64, rounded away from zero."""
        return self._scale_to_int64(MILLI)

    def cmp(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if this amount is smaller than, equal to or larger than the other."""
        scale = min(self.scale, other.scale)
        own_mantissa = _multiply_by_power_of_ten(self.mantissa, self.scale - scale)
        other_mantissa = _multiply_by_power_of_ten(other.mantissa, other.scale - scale)
        return (own_mantissa > other_mantissa) - (own_mantissa < other_mantissa)

    def add(self, other: Quantity) -> Quantity:
        """Return the sum in this quantity's format, or in the other's format if this quantity is zero."""
        sum_format = self.format if self.mantissa else other.format
        if not (self.mantissa and other.mantissa):
            quantity = self if self.mantissa else other
            big = self.big or other.big
            # A big zero has no positive scale, so the sum does not have a positive scale either.
            shift = max(quantity.scale, 0) if big else 0
            return Quantity(
                _multiply_by_power_of_ten(quantity.mantissa, shift), quantity.scale - shift, sum_format, big
            )
        scale = min(self.scale, other.scale)
        own_mantissa = _multiply_by_power_of_ten(self.mantissa, self.scale - scale)
        other_mantissa = _multiply_by_power_of_ten(other.mantissa, other.scale - scale)
        total = own_mantissa + other_mantissa
        big = self.big or other.big or not all(map(_is_int64, (own_mantissa, other_mantissa, total)))
        return Quantity(total, scale, sum_format, big)

    def sub(self, other: Quantity) -> Quantity:
        """Return the difference, in the format that ``add`` would choose."""
        return self.add(replace(other, mantissa=-other.mantissa))

    def round_up(self, scale: int) -> Quantity:
        """Return the amount rounded away from zero to a multiple of ``10**scale``."""
        if self.scale >= scale:
            return self
        # The power of ten is negative, so the product is a quotient, which the function rounds away from zero
        rounded_mantissa = _multiply_by_power_of_ten(self.mantissa, self.scale - scale)
        return replace(self, mantissa=rounded_mantissa, scale=scale, written="")

    def __eq__(self, other: object) -> bool:
        return self.cmp(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.cmp(other) < 0

    def __hash__(self) -> int:
        return hash(_divide_out_factor(self.mantissa, 10, self.scale))

    def __str__(self) -> str:
        """Return the canonical form: without a fraction or lost precision, and with the largest possible suffix."""
        if self.written:
            return self.written
        if not self.mantissa:
            return "0"
        if self.format is Format.BINARY_SI and self.round_up(0) == self and abs(self._to_integer()) >= 1024:
            number, power = _divide_out_factor(self._to_integer(), 1024)
            return f"{number}{_BINARY_SUFFIX.get(power * 10, '')}"
        number, exponent = _divide_out_factor(self.mantissa, 10, self.scale)
        number *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"  # beyond 999E upstream prints no suffix either

    def _to_integer(self) -> int:
        """Return the amount as an integer of any size, rounded away from zero."""
        return _multiply_by_power_of_ten(self.mantissa, self.scale)

    def _scale_to_int64(self, scale: int) -> int:
        """Return ``amount / 10**scale`` as an int64, rounded away from zero, like upstream's ScaledValue.

        As in upstream, a result beyond int64 is wrapped around or replaced by 0.
        """
        shift = self.scale - scale
        if self.big:
            return self._shift_big_to_int64(shift)
        if shift > _INT64_DIGITS:  # overflows whatever the mantissa is
            return 0
        scaled = _multiply_by_power_of_ten(self.mantissa, shift)
        if _is_int64(scaled):
            return scaled
        # Upstream ignores an overflow if it multiplies at once, and returns 0 if it multiplies by ten repeatedly
        multiplies_at_once = shift in _SINGLE_STEP_SHIFTS
        return _wrap_int64(scaled) if multiplies_at_once else 0

    def _shift_big_to_int64(self, shift: int) -> int:
        """Return ``mantissa * 10**shift`` of a decimal of any length, rounded and overflowing as in upstream."""
        if shift >= 0:  # on amd64, Go converts a float beyond int64 to the smallest int64
            factor = 10**shift if shift <= _INT64_DIGITS else INT64_MIN
            return _wrap_int64(self.mantissa * factor)
        divisor = 10**-shift
        if self.mantissa >= INT64_MAX or -shift > _INT64_DIGITS:
            quotient, remainder = divmod(self.mantissa, divisor)
        else:  # in int64 arithmetic: wraps large negative amounts, truncates towards zero, adds one for any remainder
            dividend = _wrap_int64(self.mantissa)
            quotient, remainder = divmod(abs(dividend), divisor)
            quotient = quotient if dividend >= 0 else -quotient
        return _wrap_int64(quotient + bool(remainder))


@lru_cache(maxsize=65536, typed=True)
def parse_quantity(text: str | int | float) -> Quantity:
    """Parse a quantity from a string or a JSON number. Raises QuantityError if the text is malformed.

    Numbers of more than 1000 digits are rejected. Digits below nano units are rounded up.
    """
    text = str(text)
    match = _QUANTITY.fullmatch(text)
    if not text or match is None:
        raise QuantityError(_WRONG_FORMAT, hint=f"got {_shorten(text)}")
    sign, zeros, whole, fraction, suffix = match.groups(default="")
    digits = (whole or "0") + fraction
    exponent, suffix_format = _parse_suffix(suffix, text)
    scale = -len(fraction)
    if suffix_format is Format.BINARY_SI:
        is_read_as_int64 = not fraction and _has_int64_precision(digits, exponent)
        mantissa = _parse_digits(digits, 0, text) << exponent
    else:
        scale += exponent
        is_read_as_int64 = len(digits) <= _INT64_DIGITS and scale >= NANO
        mantissa = _parse_digits(digits, scale, text)

    # Upstream's int64 parser reads a text without digits as 0, and the parser of big decimals rejects it
    has_digits = bool(zeros or whole or fraction)
    if not has_digits and not is_read_as_int64:
        raise QuantityError(_WRONG_NUMBER, hint=f"got {_shorten(text)}")

    if sign == "-":
        mantissa = -mantissa
    if not is_read_as_int64 or not _is_int64(mantissa):
        return _build_big_decimal_quantity(mantissa, scale, suffix_format)
    written = text if _is_canonical_on_sight(digits, scale, suffix_format) else ""
    return Quantity(mantissa, scale if mantissa else 0, suffix_format, written=written)


def _has_int64_precision(digits: str, binary_exponent: int) -> bool:
    """Return whether upstream expects the digits times ``2**binary_exponent`` to fit an int64.

    Upstream estimates this from the number of decimal digits, and takes three digits for ten bits.
    """
    suffix_digits = binary_exponent * 3 // 10 + 1
    return len(digits) + suffix_digits <= _INT64_DIGITS_WITH_BINARY_SUFFIX


@lru_cache(maxsize=65536, typed=True)
def parse_value(text: str | int | float) -> int:
    """Return the int64 value of a quantity in a document, which may have surrounding blanks."""
    return parse_quantity(text.strip() if isinstance(text, str) else text).value()


@lru_cache(maxsize=65536, typed=True)
def parse_milli_value(text: str | int | float) -> int:
    """Return the int64 value in thousandths of a quantity in a document, which may have surrounding blanks."""
    return parse_quantity(text.strip() if isinstance(text, str) else text).milli_value()


def _parse_suffix(suffix: str, text: object) -> tuple[int, Format]:
    """Return the exponent and the format of a suffix.

    The base of the exponent is 2 for BinarySI and 10 for other formats. Raises QuantityError quoting ``text``, the
    whole quantity, for an unknown suffix.
    """
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not _is_int64(int(match[1])):
        raise QuantityError(_WRONG_SUFFIX, hint=f"got {_shorten(text)}")
    exponent = (int(match[1]) + 2**31) % 2**32 - 2**31  # truncated to an int32, as upstream does
    return exponent, Format.DECIMAL_EXPONENT


def _parse_digits(digits: str, scale: int, text: object) -> int:
    """Parse digits as an integer.

    Raises QuantityError quoting ``text``, the whole quantity, if the number times ``10**scale`` would be too long.
    """
    added_zeros = max(scale, 0) if digits.strip("0") else 0
    if len(digits) + added_zeros > _MAX_DIGITS:
        problem = f"quantities of more than {_MAX_DIGITS} digits are not supported"
        raise TooManyDigitsError(problem, hint=f"got {_shorten(text)}")
    return int(digits)


def _is_canonical_on_sight(digits: str, scale: int, suffix_format: Format) -> bool:
    """Return whether upstream prints a quantity unchanged.

    Upstream does so if a quick look at the digits suggests that they are in canonical form.
    """
    if suffix_format is Format.BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _build_big_decimal_quantity(mantissa: int, scale: int, suffix_format: Format) -> Quantity:
    """Build a quantity that upstream stores as a decimal of any length (inf.Dec), rounded up to nano units.

    A BinarySI quantity is limited to the largest int64, and one below 1 becomes DecimalSI.
    """
    nanos = _multiply_by_power_of_ten(mantissa, scale - NANO)
    if suffix_format is Format.BINARY_SI and abs(nanos) > INT64_MAX * _NANOS_PER_UNIT:
        limited_mantissa = INT64_MAX if nanos > 0 else -INT64_MAX
        return Quantity(limited_mantissa, 0, suffix_format, big=True)
    if suffix_format is Format.BINARY_SI and 0 < abs(nanos) < _NANOS_PER_UNIT:
        suffix_format = Format.DECIMAL_SI
    return Quantity(nanos, NANO, suffix_format, big=True)


def _multiply_by_power_of_ten(mantissa: int, exponent: int) -> int:
    """Return ``mantissa * 10**exponent`` rounded away from zero.

    >>> _multiply_by_power_of_ten(-15, 1), _multiply_by_power_of_ten(-15, -1)
    (-150, -2)
    >>> _multiply_by_power_of_ten(1, -2_000_000_000)
    1
    """
    sign = (mantissa > 0) - (mantissa < 0)
    if -exponent > mantissa.bit_length():  # 10**n > 2**n > |mantissa|
        return sign
    if exponent < 0:
        return -(-abs(mantissa) // int(10**-exponent)) * sign
    return mantissa * int(10**exponent) if mantissa else 0


def _divide_out_factor(number: int, factor: int, power: int = 0) -> tuple[int, int]:
    """Divide a number by a factor as often as it is divisible.

    Returns the remaining number and ``power`` plus the number of divisions, or 0 as the power if the number is 0.

    >>> _divide_out_factor(-1200, 10)
    (-12, 2)
    """
    if not number:  # zero is divisible for ever, and has no power in its canonical form
        return 0, 0
    while number % factor == 0:
        number //= factor
        power += 1
    return number, power


def _is_int64(number: int) -> bool:
    """Return whether the number fits an int64."""
    return INT64_MIN <= number <= INT64_MAX


def _wrap_int64(number: int) -> int:
    """Return the low 64 bits as an int64, like Go's conversion of a big integer."""
    return (number + 2**63) % 2**64 - 2**63


def _shorten(text: object) -> str:
    """Return the representation of a value in at most 60 characters."""
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
