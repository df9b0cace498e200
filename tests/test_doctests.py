"""Check every example in a docstring."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import kschedctl

PACKAGE = Path(kschedctl.__file__).parent
SDK = "mcp"
"""An optional extra with many dependencies, which the modules of its command need."""
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if ">>>" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_examples_in_docstrings(file: Path) -> None:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    if SDK in parts:
        pytest.importorskip(SDK)
    assert doctest.testmod(import_module(".".join(parts).removesuffix(".__init__"))).failed == 0
