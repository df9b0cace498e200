"""What the README shows is what the program prints."""

from __future__ import annotations

import pytest
from readme import examples, run


@pytest.mark.parametrize(("command", "printed"), examples(), ids=lambda value: value.split("\n")[0][:60])
def test_example(command: str, printed: str) -> None:
    assert run(command) == printed


def test_there_are_examples() -> None:
    assert len(examples()) >= 4
