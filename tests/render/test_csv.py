"""Check tables for spreadsheets."""

from __future__ import annotations

import csv
import io

import pytest

from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.main_table import to_csv


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@A1", " =1", "\u3000=1", "\t=1", "\r=1", "\n=1", "  \t @A1"])
def test_no_cell_is_a_formula(name: str) -> None:
    """By OWASP's page on CSV injection, no cell begins with =, +, -, @, a tab or a carriage return, nor with blanks and
    these."""
    report = SimulationReport(0, False, placed=1, unplaced=0, placements={name: name})
    (row,) = csv.DictReader(io.StringIO(to_csv(report)))
    for cell in (row["pod"], row["node"]):
        assert cell[0] in "'\\"
