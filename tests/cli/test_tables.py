"""Check the tables of every command at the widths of a small, a usual and a wide terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import Run

from kschedctl.cli.main import COMMANDS

WEB = str(Path(__file__).parent.parent / "lint" / "charts" / "web-app.yaml")
DRAIN = '{"steps": [{"addNodes": {"like": "general-a1", "count": 1}}, {"drain": {"nodes": ["general-a1"]}}]}'
ASKED: dict[str, tuple[str, ...]] = {
    "explain": ("explain", "shop/cart-5f7b8c9d4-zr5mt", "--demo"),
    "explain that fits": ("explain", "shop/web-6d4cf56db6-h8s2k", "--demo"),
    "explain -A": ("explain", "-A", "--demo"),
    "explain of several": ("explain", "-f", WEB, "--demo"),
    "remedies": ("remedies", "shop/cart-5f7b8c9d4-zr5mt", "--demo", "--max-changes", "1"),
    "wakes": ("wakes", "shop/cart-5f7b8c9d4-zr5mt", "--demo"),
    "wakes -A": ("wakes", "-A", "--demo"),
    "lint": ("lint", "--demo", "--show-fixes"),
    "lint rules": ("lint", "rules"),
    "audit": ("audit", "--demo"),
    "priorities": ("priorities", "--demo"),
    "packing": ("packing", "--demo", "--nodes", "3"),
    "topology": ("topology", "deploy/web", "-n", "shop", "--demo"),
    "races": ("races", "--nodes", "20", "--rate", "5"),
    "sampling": ("sampling", "--demo"),
    "config view": ("config", "view"),
    "simulate": ("simulate", "-f", WEB, "--demo"),
    "capacity": ("capacity", "-f", WEB, "--demo", "--max", "2"),
    "drain": ("drain", "general-a1", "--demo"),
    "failures": ("failures", "--zones", "--demo"),
    "whatif": ("whatif", DRAIN, "--demo"),
    "versions": ("versions", "1.33", "1.36"),
    "version": ("version", "--demo"),
    "demo": ("demo",),
}
WIDE = ("explain -A", "explain that fits", "lint", "audit", "priorities", "simulate", "packing")
"""Those of which ``-o wide`` shows much more."""
CASES = [(name, "table") for name in ASKED] + [(name, "wide") for name in WIDE]
NOUNS = "pods|nodes|causes|warnings|errors|notes|workloads|tiers|changes|rules|findings|replicas|objects|losses|zones"
ONE_OF_MANY = re.compile(rf"(?<![\d.,])1 (?:{NOUNS})\b")


def is_typed(line: str) -> bool:
    """Return whether the line is a command to copy, which is never folded."""
    return line.startswith(("  kschedctl ", "  kubectl ", "  printf ", "  echo ", "  # "))


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize(("name", "form"), CASES)
def test_lines_fit_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, form: str, width: int) -> None:
    monkeypatch.setattr("kschedctl.cli.output_options.get_output_width", lambda wide: width)
    out = run(*ASKED[name], "-o", form).out
    lines = out.splitlines()
    assert lines[0].strip()
    assert not [line for line in lines if len(line) > width and not is_typed(line)]
    assert not [line for line in lines if line != line.rstrip()]
    assert not re.search(r"\n\n\n", out)
    assert not ONE_OF_MANY.search(out)
    for line in filter(is_typed, lines):
        program, *words = shlex.split(line, comments=True) or ["#"]
        assert program != "kschedctl" or words[0] in COMMANDS


SUBCOMMANDS = [(name,) for name in COMMANDS] + [("snapshot", name) for name in ("save", "show", "diff")]


@pytest.mark.parametrize("words", SUBCOMMANDS, ids=" ".join)
def test_help_fits_80_columns_without_broken_options(run: Run, words: tuple[str, ...]) -> None:
    lines = run(*words, "--help").out.splitlines()
    assert not [line for line in lines if len(line) > 80]
    assert not [line for line in lines if line.endswith("-") and not line.endswith(" -")]


def test_useless_preemption_is_shown_only_in_wide_tables(run: Run) -> None:
    said = "Preemption is not helpful for scheduling"
    table, wide = (run(*ASKED["failures"], "-o", form).out for form in ("table", "wide"))
    assert said not in table
    assert said in wide


def test_changed_part_of_a_long_value_is_shown(run: Run, tmp_path: Path) -> None:
    before, after = str(tmp_path / "before.ksnap"), str(tmp_path / "after.ksnap")
    demo = (Path(__file__).parents[2] / "kschedctl" / "demo" / "cluster.yaml").read_text()
    changed = tmp_path / "changed.yaml"
    changed.write_text(demo.replace("cpu: 1500m", "cpu: 1700m"))
    assert run("snapshot", "save", "--demo", "-o", before).code == 0
    assert run("snapshot", "save", "-f", str(changed), "--assume-complete", "-o", after).code == 0
    out = run("snapshot", "diff", before, after).out
    assert '…s":{"cpu":"1500m"' in out
    assert '…s":{"cpu":"1700m"' in out
