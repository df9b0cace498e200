"""The main table of a document as CSV (RFC 4180): one header, one row for each thing that it is about."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kschedctl.errors import UsageError
from kschedctl.render.printable import printable
from kschedctl.reports.capacity import Capacity
from kschedctl.reports.simulation import Simulation

Rows = Iterable[Sequence[object]]
_FORMULA = ("=", "+", "-", "@")


def to_csv(document: Any) -> str:
    """Raises UsageError for a kind of document that has no such table."""
    if document.kind not in TABLES:
        raise UsageError(f"a {document.kind} has no CSV form", hint="-o json has everything")
    header, rows = TABLES[document.kind]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows(document))
    return text.getvalue()


def _cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula is kept from being one."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.startswith(_FORMULA) else printable(value)


def _simulation(report: Simulation) -> Iterator[Sequence[object]]:
    for pod, node in report.placements.items():
        yield pod, "Scheduled", node, report.tied.get(pod, 1), ""
    for group in report.pending:
        for pod in group.pods:
            yield pod, group.verdict, "", "", group.message
    for evicted in report.evicted:
        yield evicted.pod, "Evicted", evicted.node, "", f"for {evicted.by}"


def _capacity(report: Capacity) -> Iterator[Sequence[object]]:
    for shape in report.shapes:
        for node, pods in shape.nodes.items():
            yield shape.shape, shape.fits, node, pods


TABLES: dict[str, tuple[Sequence[str], Callable[[Any], Rows]]] = {
    "Simulation": (("pod", "verdict", "node", "tied", "message"), _simulation),
    "Capacity": (("shape", "fits", "node", "pods"), _capacity),
}
"""The kind of a document -> the header of its table, and what makes the rows."""
