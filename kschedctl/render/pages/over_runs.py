"""How numbers vary over the runs, as every report with several of them shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.render.page import Page, Table, count, section
from kschedctl.reports.columns import Column
from kschedctl.reports.simulation import Spread, Variation


def over_runs_section(runs: int, numbers: Mapping[str, Spread], words: Mapping[str, str]) -> Page:
    """``words``: a number's name -> how it is told."""
    if not numbers:
        return ()
    told = ((words.get(name, name), found) for name, found in numbers.items())
    return section(f"{runs:,} runs; what is shown besides is of the first", _table(told))


def order_section(runs: int, unplaced: Mapping[str, Spread], proven: Mapping[str, int]) -> Page:
    """How many pods of each workload get no node: in whatever order, in each that was tried, and in some only."""
    if not any(found.most for found in unplaced.values()):
        return ()
    titles = ("in any order", "in each tried", "in some only")
    columns = (Column("workload", keep=True), *(Column(title, right=True) for title in titles))
    rows = tuple((name, *map(_told, _parts(found, proven.get(name, 0)))) for name, found in unplaced.items())
    title = f"Without a node, of {count(runs, 'order')} in which pods may come back"
    return section(title, Table(columns, rows).without_empty_columns())


def _parts(found: Spread, proven: int) -> tuple[int, int, int]:
    """Those of whom it is proven, the others that no order tried gave a node, and those that some did."""
    return proven, max(found.least - proven, 0), found.most - found.least


def _told(number: int) -> str:
    return f"{number:,}" if number else ""


def variation_section(variation: Variation | None) -> Page:
    """The numbers of a simulation, of its workloads, and of the domains in which they are not always the same."""
    if variation is None:
        return ()
    told = [("placed", variation.placed), ("not scheduled", variation.pending), ("evicted", variation.evicted)]
    told += [(f"{w.workload}: running", w.running) for w in variation.workloads]
    told += [
        (f"{w.workload}: {value}", found)
        for w in variation.workloads
        for values in w.domains.values()
        for value, found in values.items()
        if found.least != found.most
    ]
    title = f"{count(variation.runs, 'run')}, {count(variation.outcomes, 'different outcome')}"
    return section(title, _table(told))


def _table(numbers: Iterable[tuple[str, Spread]]) -> Table:
    rows = tuple((what, spread_text(found)) for what, found in numbers)
    return Table((Column("pods", keep=True), Column("over the runs", right=True)), rows)


def spread_text(found: Spread) -> str:
    """``3 to 5``, or the number itself where it is always the same."""
    return f"{found.least:,}" if found.least == found.most else f"{found.least:,} to {found.most:,}"
