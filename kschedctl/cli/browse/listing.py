"""The list at the left: pending pods under their causes, and what else a search finds."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.ownership import Owner
from kschedctl.cli.browse.lines import NODE, POD, WORKLOAD, Layout, ListLine, Openable, cut, wrapped
from kschedctl.cli.browse.session import BrowseSession, SearchHits
from kschedctl.render.page import count
from kschedctl.reports.pending import PendingPods

HEADING, FAINT = "bold", "dim"
CAUSE_LINES = 2
"""So many has a cause at the most: the pods under it are what is looked for, and the answer has it in full."""


def of_workload(owner: Owner) -> Openable:
    return Openable(WORKLOAD, str(owner), owner)


def listing(session: BrowseSession, text: str = "") -> Layout:
    """All pending pods by cause; with a text those that have it, and nodes and workloads that have it."""
    hits = session.search(text) if text else None
    pending = session.pending

    def lines(width: int) -> list[ListLine]:
        made = _pods(pending, hits, width)
        if hits is not None:
            nodes = [Openable(NODE, name) for name in hits.nodes]
            made += _section("Nodes", nodes, hits.more_nodes, width)
            made += _section("Workloads", list(map(of_workload, hits.workloads)), hits.more_workloads, width)
        nothing = "no pod is pending here" if hits is None else "no pod, node or workload has this in its name"
        return made or [ListLine(line, HEADING) for line in wrapped(nothing, width)]

    return lines


def headline(session: BrowseSession) -> str:
    """What is looked at."""
    nodes, pods = len(session.cluster.nodes), len(session.waiting)
    where = session.cluster.provenance.server if session.cluster.provenance else ""
    return " · ".join(filter(None, (count(pods, "pending pod"), session.pending.scope, count(nodes, "node"), where)))


def _pods(pending: PendingPods, hits: SearchHits | None, width: int) -> list[ListLine]:
    lines: list[ListLine] = []
    for group in pending.groups:
        pods = [pod for pod in group.pods if hits is None or pod in hits.pods]
        if pods:
            cause = f"{len(pods):,} · {group.cause or group.verdict}"
            lines += [ListLine(line, HEADING) for line in wrapped(cause, width, "  ", CAUSE_LINES)]
            lines += [ListLine(f" {cut(pod, width - 1)}", "", Openable(POD, pod)) for pod in pods]
    return lines


def _section(title: str, subjects: Sequence[Openable], more: int, width: int) -> list[ListLine]:
    if not subjects:
        return []
    rest = [ListLine(f" … {more:,} more", FAINT)] if more else []
    return [ListLine(title, HEADING), *(ListLine(f" {cut(s.name, width - 1)}", "", s) for s in subjects), *rest]
