"""Check that parsing numbers and durations takes time linear in their length, also for invalid text."""

from __future__ import annotations

from time import process_time

import pytest

from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.scheduler.framework.strict_decoding import GoDuration

SIZE = 1_000_000
SECONDS = 5
QUANTITIES = {
    "zeros": "0" * SIZE + "!",
    "digits": "1" * SIZE + "!",
    "zeros after the point": "0." + "0" * SIZE + "!",
    "letters": "1" + "e" * SIZE + "!",
    "digits of the exponent": "1e" + "9" * SIZE,
    "zeros on both sides": "0" * SIZE + "." + "0" * SIZE + "x",
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_quantity_of_a_million_characters(name: str) -> None:
    began = process_time()
    with pytest.raises(QuantityError):
        parse_quantity(QUANTITIES[name])
    assert process_time() - began < SECONDS


@pytest.mark.parametrize("text", ["1" * SIZE, "1." + "1" * SIZE, "1s" * SIZE + "x"])
def test_duration_of_a_million_characters(text: str) -> None:
    began = process_time()
    with pytest.raises(ValueError, match="invalid duration"):
        GoDuration.parse(text)
    assert process_time() - began < SECONDS
