"""Check quantities against upstream's own tables (pkg/api/resource/quantity_test.go, v1.36) and exact fractions."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api import quantity
from kschedctl.api.quantity import Format, Quantity, QuantityError, parse_quantity

TABLE = Path(__file__).parent.parent / "golden" / "tables" / "quantity.jsonl.gz"
with gzip.open(TABLE, "rt", encoding="utf-8") as lines:
    CASES = [json.loads(line) for line in lines]


def parametrize_cases(kind: str, *, error: bool = False) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] == kind and ("error" in case["want"]) == error]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] or "empty" for case in chosen])


def summarize_quantity(q: Quantity) -> dict[str, Any]:
    return {"canonical": str(q), "format": q.format, "value": q.value(), "milliValue": q.milli_value()}


def get_expected_summary(case: dict[str, Any]) -> dict[str, Any]:
    return {key: case["want"][key] for key in ("canonical", "format", "value", "milliValue")}


@parametrize_cases("quantity-parse")
def test_parse(case: dict[str, Any]) -> None:
    parsed = parse_quantity(case["input"])
    assert summarize_quantity(parsed) == get_expected_summary(case)
    assert parsed.cmp(Quantity(0)) == case["want"]["sign"]


@parametrize_cases("quantity-parse", error=True)
def test_parse_error(case: dict[str, Any]) -> None:
    with pytest.raises(QuantityError) as error:
        parse_quantity(case["input"])
    assert error.value.what == case["want"]["error"]


@parametrize_cases("quantity-cmp")
def test_cmp(case: dict[str, Any]) -> None:
    x, y, want = parse_quantity(case["x"]), parse_quantity(case["y"]), case["want"]["cmp"]
    assert x.cmp(y) == want
    assert (x < y, x == y, x > y) == (want < 0, want == 0, want > 0)


@parametrize_cases("quantity-roundup")
def test_round_up(case: dict[str, Any]) -> None:
    exact = parse_quantity(case["input"])
    rounded, want = exact.round_up(case["scale"]), case["want"]
    assert (str(rounded), rounded.value(), rounded.milli_value()) == (
        want["canonical"],
        want["value"],
        want["milliValue"],
    )
    assert (rounded == exact) == want["exact"]


@parametrize_cases("quantity-add")
def test_add(case: dict[str, Any]) -> None:
    assert summarize_quantity(build_operand(case, "x").add(build_operand(case, "y"))) == get_expected_summary(case)


@parametrize_cases("quantity-sub")
def test_sub(case: dict[str, Any]) -> None:
    assert summarize_quantity(build_operand(case, "x").sub(build_operand(case, "y"))) == get_expected_summary(case)


def build_operand(case: dict[str, Any], name: str) -> Quantity:
    return Quantity(int(case[name]), format=Format(case[f"{name}Format"]))


EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "e2": 2, "E-4": -4}
POWERS = {"Ki": 1, "Mi": 2, "Gi": 3}
numbers = st.decimals(min_value=0, max_value=10**6, places=4).map(lambda number: f"{number:f}")
texts = st.tuples(numbers, st.sampled_from([*EXPONENTS, *POWERS]))


def compute_amount(number: str, suffix: str) -> Fraction:
    """Compute the number by hand, rounded up to nano units."""
    factor = Fraction(1024) ** POWERS[suffix] if suffix in POWERS else Fraction(10) ** EXPONENTS[suffix]
    return Fraction(divide_up(Fraction(number) * factor * 10**9), 10**9)


def divide_up(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)


@given(texts)
def test_value_and_milli_value_round_up(text: tuple[str, str]) -> None:
    exact, parsed = compute_amount(*text), parse_quantity("".join(text))
    assert parsed.value() == divide_up(exact)
    assert parsed.milli_value() == divide_up(exact * 1000)


@given(texts)
def test_canonical_form_keeps_the_amount(text: tuple[str, str]) -> None:
    parsed = parse_quantity("".join(text))
    assert parse_quantity(str(parsed)) == parsed
    assert hash(parse_quantity(str(parsed))) == hash(parsed)


@given(texts, texts)
def test_order_sum_and_difference(first: tuple[str, str], second: tuple[str, str]) -> None:
    x, y, a, b = (
        parse_quantity("".join(first)),
        parse_quantity("".join(second)),
        compute_amount(*first),
        compute_amount(*second),
    )
    assert x.cmp(y) == (a > b) - (a < b)
    assert x.add(y).milli_value() == divide_up((a + b) * 1000)
    assert x.add(y).sub(y) == x


@pytest.mark.parametrize(("number", "same"), [(2, "2"), (0, "0"), (0.5, "500m"), (1e3, "1k"), (-1, "-1")])
def test_json_numbers(number: float, same: str) -> None:
    assert parse_quantity(number) == parse_quantity(same)
    assert quantity.parse_value(number) == parse_quantity(same).value()


def test_quantity_may_be_surrounded_by_white_space() -> None:
    assert quantity.parse_value(" 2Gi\n") == 2 * 2**30
    assert quantity.parse_milli_value("\t100m ") == 100
    with pytest.raises(QuantityError, match="must match"):
        quantity.parse_value("2 Gi")


@pytest.mark.parametrize(
    ("text", "canonical", "value"),
    [
        ("1e400", "10e399", 0),  # an int64 amount that overflows is 0 upstream
        ("1e-400", "1e-9", 1),
        ("1e-2000000000", "1e-9", 1),
        ("0e2000000000", "0", 0),
        ("1000e4294967296", "1e3", 1000),  # upstream cuts the exponent to 32 bits
        ("8Ei", "9223372036854775807", 2**63 - 1),  # BinarySI is capped
        ("+", "0", 0),
        (".", "0", 0),
    ],
)
def test_extremes(text: str, canonical: str, value: int) -> None:
    assert (str(parse_quantity(text)), parse_quantity(text).value()) == (canonical, value)


@pytest.mark.parametrize("text", ["1e2000000000", "1234567890123456789e5000", "9" * 100_000, "0." + "0" * 100_000])
def test_numbers_that_would_exhaust_memory_are_rejected(text: str) -> None:
    with pytest.raises(QuantityError, match="more than 1000 digits") as error:
        parse_quantity(text)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("text", ["1e99999999999999999999", "12-5", "1Kii", "1E+", "5+"])
def test_wrong_suffix(text: str) -> None:
    with pytest.raises(QuantityError, match="suffix"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["nan", "Infinity", "１２", "1_000", "0x10", "1Gi\n"])
def test_number_formats_of_python_are_rejected(text: str) -> None:
    with pytest.raises(QuantityError, match="must match"):
        parse_quantity(text)


def wrap_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("12E", 0, 0),  # 18 and 21 places one by one, until one is too many
        ("205551579022G", wrap_int64(205551579022 * 10**9), 0),  # 9 places at once, 12 one by one
        ("99000000000000000", 99 * 10**15, wrap_int64(99 * 10**18)),  # 3 places at once
        ("9e6", 9 * 10**6, 9 * 10**9),
        ("9223372036854775808", -(2**63), wrap_int64(2**63 * 1000)),  # a big decimal
        ("1e400", 0, 0),
    ],
)
def test_values_beyond_int64_are_zero_or_wrap(text: str, value: int, milli: int) -> None:
    """Upstream: positiveScaleInt64 in math.go returns 0 or the wrapped product, which AsScaledInt64 does not check."""
    assert (parse_quantity(text).value(), parse_quantity(text).milli_value()) == (value, milli)


def test_sum_with_a_big_zero_is_a_big_decimal() -> None:
    assert parse_quantity("8E").milli_value() == 0
    assert parse_quantity("0Ei").add(parse_quantity("8E")).milli_value() == wrap_int64(8 * 10**21)
    assert parse_quantity("8E").add(parse_quantity("0Ei")).milli_value() == wrap_int64(8 * 10**21)
