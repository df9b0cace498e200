"""The list at the left: pending pods under their causes, and what else a search finds."""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.api.ownership import Owner
from kschedctl.cli.browse.session import BrowseSession
from kschedctl.render.page import count
from kschedctl.render.printable import printable

POD, NODE, WORKLOAD, HEADING = "pod ", "node ", "workload ", "heading "


@dataclass(frozen=True)
class Entry:
    """A line of the list. ``id`` begins with what it is; ``owner``: of a workload."""

    id: str
    text: str
    style: str = ""
    owner: Owner | None = None

    @property
    def is_heading(self) -> bool:
        return self.id.startswith(HEADING)

    @property
    def name(self) -> str:
        """Of what it is about."""
        return self.id.partition(" ")[2]


def entries(session: BrowseSession, text: str = "") -> list[Entry]:
    """All pending pods by cause; with a text those that have it, and nodes and workloads that have it."""
    if not text:
        return _pods(session, None)
    found = session.search(text)
    lines = _pods(session, frozenset(found.pods))
    if found.nodes:
        lines.append(_heading("Nodes"))
        lines += [Entry(f"{NODE}{name}", printable(name)) for name in found.nodes]
    if found.workloads:
        lines.append(_heading("Workloads"))
        lines += [Entry(f"{WORKLOAD}{owner}", printable(str(owner)), owner=owner) for owner in found.workloads]
    return lines or [_heading("nothing has this in its name")]


def headline(session: BrowseSession) -> str:
    """What is looked at."""
    nodes, pods = len(session.cluster.nodes), len(session.waiting)
    where = session.cluster.picture.server if session.cluster.picture else ""
    parts = (count(pods, "pending pod"), session.pending.scope, count(nodes, "node"), printable(where))
    return " · ".join(filter(None, parts))


def _pods(session: BrowseSession, chosen: frozenset[str] | None) -> list[Entry]:
    lines = []
    for group in session.pending.groups:
        pods = [pod for pod in group.pods if chosen is None or pod in chosen]
        if pods:
            lines.append(_heading(f"{group.cause or group.verdict} ({len(pods):,})"))
            lines += [Entry(f"{POD}{pod}", printable(pod)) for pod in pods]
    if not lines and chosen is None:
        return [_heading("no pod is pending here")]
    return lines


def _heading(text: str) -> Entry:
    return Entry(f"{HEADING}{text}", printable(text), "bold")
