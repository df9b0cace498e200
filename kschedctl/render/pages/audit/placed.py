"""What an audit tells of places: overcommitted nodes and who came last, pods against rules, what kubelets refused."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.resource_names import CPU, alike, readable
from kschedctl.render.page import Column, Marked, Page, Style, Table, Tone, count, first_rows, names, paragraph
from kschedctl.render.pages.sections import ROWS_SHOWN, rounded
from kschedctl.reports.audit.placed import MisplacedPods, OvercommittedNode, PlacedSection, RefusedPods


def placed_blocks(section: PlacedSection, style: Style) -> Page:
    """What was judged; then a table for each kind of evidence."""
    others = f"; {count(section.others, 'pod')} of schedulers that are not replayed" if section.others else ""
    return (
        paragraph(Marked("judged:", Tone.FAINT), f"{count(section.judged, 'bound pod')}{others}"),
        *_overcommitted(section.overcommitted, style),
        *_misplaced(section.misplaced, style),
        *_refused(section.refused, style),
    )


def _overcommitted(nodes: Sequence[OvercommittedNode], style: Style) -> Page:
    """With the pods that came last, those marked that were too much."""
    if not nodes:
        return ()
    rows = [
        (
            node.node if first else "",
            node.resource if first else "",
            " of ".join(_amounts(node.resource, node.requested, node.allocatable)) if first else "",
            Marked(each.pod, Tone.WARNING) if each.beyond else each.pod,
            rounded(CPU, each.requests) if node.resource == CPU else readable(node.resource, each.requests),
            each.at or "?",
        )
        for node in nodes
        for first, each in zip([True] + [False] * len(node.arrivals), node.arrivals, strict=False)
    ]
    shown, note = first_rows(rows, style, ROWS_SHOWN)
    columns = (Column("node", keep=True), Column("resource"), Column("requested", right=True), Column("came last"))
    return (Table((*columns, Column("requests", right=True), Column("at")), tuple(shown), note),)


def _amounts(resource: str, *amounts: int) -> tuple[str, ...]:
    """Cores, as in all tables; of other resources a unit in which different amounts look different."""
    return tuple(rounded(CPU, each) for each in amounts) if resource == CPU else alike(resource, *amounts)


def _misplaced(found: Sequence[MisplacedPods], style: Style) -> Page:
    if not found:
        return ()
    shown, note = first_rows(found, style, ROWS_SHOWN)
    rows = tuple((each.workload, f"{each.pods:,}", each.refuses, each.reason, names(each.examples)) for each in shown)
    columns = (Column("pods of", keep=True), Column("pods", right=True), Column("refused by"), Column("as"))
    return (Table((*columns, Column("such as", beneath="such as")), rows, note),)


def _refused(found: Sequence[RefusedPods], style: Style) -> Page:
    if not found:
        return ()
    shown, note = first_rows(found, style, ROWS_SHOWN)
    rows = tuple((r.reason, f"{r.pods:,}", f"{r.gone:,}", names(r.nodes), r.last) for r in shown)
    columns = (Column("kubelets said", keep=True), Column("failed", right=True), Column("gone", right=True))
    return (Table((*columns, Column("on", beneath="on"), Column("last at", beneath="last at")), rows, note),)
