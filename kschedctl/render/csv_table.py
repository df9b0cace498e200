"""The main table of a document as CSV (RFC 4180): one header, one row for each thing that it is about."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from kschedctl.errors import UsageError
from kschedctl.render.tables import to_rows
from kschedctl.reports.answers import Answers
from kschedctl.reports.audit.races import RaceResult, Races
from kschedctl.reports.capacity import Capacity
from kschedctl.reports.document import Document
from kschedctl.reports.drain import Drain
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.failures import Failures
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.pending import PendingPods
from kschedctl.reports.simulation import SimulationReport
from kschedctl.reports.whatif import PodChange, WhatIf
from kschedctl.text.printable import printable

Rows = Iterable[Sequence[object]]
_FORMULA = ("=", "+", "-", "@")

_NODES = ("pod", "verdict", "node", "zone", "pool", "score", "plugin", "reason", "fact")


def to_csv(document: Document) -> str:
    """Raises UsageError for a kind of document that has no such table."""
    header, rows = table_of(document)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def table_of(document: Document) -> tuple[Sequence[str], Rows]:
    """Header and rows. Raises UsageError for a kind of document that has no such table."""
    return _several(document) if isinstance(document, Answers) else _one(document)


def _one(document: Document) -> tuple[Sequence[str], Rows]:
    header: Sequence[str]
    rows: Rows
    match document:
        case Explanation():
            header, rows = _NODES, _explanation(document)
        case Explanations():
            header, rows = _NODES, (row for explanation in document.explanations for row in _explanation(explanation))
        case PendingPods():
            header, rows = ("pod", "verdict", "cause"), _pending(document)
        case SimulationReport():
            header, rows = ("pod", "verdict", "node", "tied", "message"), _simulation(document)
        case Capacity():
            header, rows = ("shape", "fits", "node", "pods", "message"), _capacity(document)
        case Drain():
            header, rows = ("pod", "what", "from", "to", "message"), _drain(document)
        case Failures():
            header = ("rank", "failure", "nodes", "displaced", "unplaced", "evicted", "lost")
            rows = _failures(document)
        case Races():
            header, rows = to_rows(RaceResult, document.results)
        case WhatIf():
            header, rows = to_rows(PodChange, document.changes)
        case _:
            raise UsageError(f"{getattr(document, 'kind', 'this')} has no CSV form", hint="-o json has everything")
    return header, rows


def _several(report: Answers) -> tuple[Sequence[str], Rows]:
    """The rows of all clusters, each with the name of its own in front."""
    tables = [(answer.cluster, _one(answer.document)) for answer in report.answers]
    header = tables[0][1][0] if tables else ()
    return ("cluster", *header), ((name, *row) for name, (_, rows) in tables for row in rows)


def _cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula, blanks before it or not, is kept from being one.

    Source: OWASP, CSV Injection; the tab and the carriage return that it names too are written as escapes.
    """
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip().startswith(_FORMULA) else printable(value)


def _explanation(report: Explanation) -> Iterator[Sequence[object]]:
    """A row a node and reason; a pod about which no node was asked has one by itself, and what was not created, too."""
    lacking = report.not_created
    if lacking is not None and not lacking.past:
        yield lacking.workload, NOT_CREATED, "", "", "", "", "", lacking.headline, ""
    for node in report.nodes:
        at = (report.pod, report.verdict, node.name, node.zone, node.pool, "" if node.total is None else node.total)
        for refusal in node.refusals:
            yield *at, refusal.plugin, refusal.reason, refusal.fact
        if not node.refusals:
            yield *at, "", "", ""
    if not report.nodes:
        yield report.pod, report.verdict, "", "", "", "", "", report.message or report.headline, ""


def _pending(report: PendingPods) -> Iterator[Sequence[object]]:
    for lacking in report.not_created:
        yield lacking.workload, NOT_CREATED, lacking.headline
    for group in report.groups:
        for pod in group.pods:
            yield pod, group.verdict, group.cause


def _simulation(report: SimulationReport) -> Iterator[Sequence[object]]:
    for pod, node in report.placements.items():
        yield pod, "Scheduled", node, report.tied.get(pod, 1), ""
    for group in report.pending:
        for pod in group.pods:
            yield pod, group.verdict, "", "", group.message
    for evicted in report.evicted:
        yield evicted.pod, "Evicted", evicted.node, "", f"for {evicted.by}"


def _capacity(report: Capacity) -> Iterator[Sequence[object]]:
    for shape in report.shapes:
        for node, pods in shape.nodes.items() or [("", 0)]:
            yield shape.shape, shape.fits, node, pods, shape.message


def _drain(report: Drain) -> Iterator[Sequence[object]]:
    for moved in report.moved:
        yield moved.pod, "Moved", moved.source, moved.target, ""
    for group in report.unplaced:
        for pod in group.pods:
            yield pod, group.verdict, "", "", group.message
    for blocked in report.blocked:
        yield blocked.pod, "Blocked", blocked.node, "", blocked.why
    for evicted in report.evicted:
        yield evicted.pod, "Evicted", evicted.node, "", f"for {evicted.by}"
    for lost in report.lost:
        yield lost, "Lost", "", "", ""
    for returned in report.returned:
        yield returned, "Returned", "", "", ""


def _failures(report: Failures) -> Iterator[Sequence[object]]:
    for rank, failure in enumerate(report.failures, 1):
        counts = (failure.displaced, failure.unplaced, failure.evicted, failure.lost)
        yield rank, failure.name, len(failure.nodes), *counts
