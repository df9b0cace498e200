"""The list at the left: pending pods under their causes, and what else a search finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import NAMESPACE, NODE, POD, WORKLOAD, Layout, ListLine, Openable, cut, wrapped
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.commands.explain.pending_report import PendingPod, PendingPods
from kschedctl.render.page import count

HEADING, FAINT = "bold", "dim"
BY_CAUSE, BY_AGE, BY_NAME = "cause", "age", "name"
POD_ORDERS = (BY_CAUSE, BY_AGE, BY_NAME)
CAUSE_LINES = 2
"""So many has a cause at the most: the pods under it are what is looked for, and the answer has it in full."""


def of_workload(owner: Owner) -> Openable:
    return Openable(WORKLOAD, str(owner), owner)


class PodListing(NamedTuple):
    """What of the pending pods is listed, in which of POD_ORDERS: of a namespace, with a text in them."""

    text: str = ""
    namespace: str = ""
    order: str = BY_CAUSE

    @property
    def told(self) -> str:
        """The namespace and the order of the list, where these were chosen."""
        namespace = f"namespace {self.namespace}" if self.namespace else ""
        return " · ".join(filter(None, (namespace, f"by {self.order}" if self.order != BY_CAUSE else "")))

    @property
    def next_order(self) -> str:
        return POD_ORDERS[(POD_ORDERS.index(self.order) + 1) % len(POD_ORDERS)]


def listing(session: BrowseSession, shown: PodListing) -> Layout:
    """The pending pods; where something is searched for, nodes and workloads that have the text, too."""
    hits = session.search(shown.text) if shown.text else None
    pods = {
        pod: member
        for group in session.pending.groups
        for pod, member in zip(group.pods, group.members, strict=True)
        if (hits is None or pod in hits.pods) and pod.startswith(f"{shown.namespace}/" * bool(shown.namespace))
    }

    def lines(width: int) -> list[ListLine]:
        by_cause = shown.order == BY_CAUSE
        made = _by_cause(session.pending, pods, width) if by_cause else _in_order(pods, shown.order, width)
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


def namespaces(session: BrowseSession) -> Layout:
    """The namespaces with pending pods, and how many."""
    numbers = Counter(pod.partition("/")[0] for group in session.pending.groups for pod in group.pods)
    rows = [("", "all", numbers.total()), *((name, name, number) for name, number in sorted(numbers.items()))]

    def line(key: str, name: str, number: int, width: int) -> ListLine:
        return ListLine(f" {number:>6,}  {cut(name, width - 9)}", "", Openable(NAMESPACE, key))

    def lines(width: int) -> list[ListLine]:
        return [ListLine("Namespace of the pending pods", HEADING), *(line(*row, width) for row in rows)]

    return lines


def _in_order(pods: Mapping[str, PendingPod], order: str, width: int) -> list[ListLine]:
    """A line a pod, by name or the oldest first; of which nobody knows when it was created last."""
    keys = sorted(pods, key=lambda pod: (pods[pod].created or "~", pod) if order == BY_AGE else ("", pod))
    heading = [ListLine("Oldest first" if order == BY_AGE else "By name", HEADING)] if keys else []
    return [*heading, *(ListLine(_aged(pods[pod], width), "", Openable(POD, pod)) for pod in keys)]


def _aged(member: PendingPod, width: int) -> str:
    return f" {member.age:>5} {cut(member.pod, width - 7)}"


def _by_cause(pending: PendingPods, shown: Mapping[str, PendingPod], width: int) -> list[ListLine]:
    lines: list[ListLine] = []
    for group in pending.groups:
        pods = [pod for pod in group.pods if pod in shown]
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
