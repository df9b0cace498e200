"""How numbers vary over the runs, as every report with several of them shows it."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.render.page import Column, Page, Table, section
from kschedctl.reports.simulation import Spread


def over_runs_section(runs: int, numbers: Mapping[str, Spread], words: Mapping[str, str]) -> Page:
    """``words``: a number's name -> how it is told."""
    if not numbers:
        return ()
    rows = tuple((words.get(name, name), spread_text(found)) for name, found in numbers.items())
    columns = (Column("pods", keep=True), Column("over the runs", right=True))
    return section(f"{runs:,} runs; what is shown besides is of the first", Table(columns, rows))


def spread_text(found: Spread) -> str:
    """``3 to 5``, or the number itself where it is always the same."""
    return f"{found.least:,}" if found.least == found.most else f"{found.least:,} to {found.most:,}"
