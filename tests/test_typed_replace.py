"""Check that mypy rejects `replace` with unknown fields or values of another type."""

from __future__ import annotations

from pathlib import Path

from mypy import api

ROOT = Path(__file__).parent.parent
STRUCTS = """
from msgspec import Struct
from msgspec.structs import replace

class Named(Struct, frozen=True):
    name: str = ""

class Sized(Named, frozen=True):
    size: int = 0

replace(Sized(), name="a", size=1)
replace(Sized(), **{"size": 2})
replace(Sized(), sise=1)
replace(Sized(), name=1)
"""


def test_fields_of_structs(tmp_path: Path) -> None:
    (tmp_path / "structs.py").write_text(STRUCTS)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nplugins = {ROOT / 'tests' / 'typed_replace.py'}\n")
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    printed, _, code = api.run([*options, str(tmp_path / "structs.py")])
    wrong = [line.partition("structs.py:")[2] for line in printed.splitlines() if " error: " in line]
    assert code == 1
    assert [line.partition(":")[0] for line in wrong] == ["13", "14"]
    assert '"sise"' in wrong[0]
    assert 'incompatible type "int"; expected "str"' in wrong[1]


def test_project_enables_the_plugin() -> None:
    assert 'plugins = ["tests/typed_replace.py"]' in (ROOT / "pyproject.toml").read_text()
