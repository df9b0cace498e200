"""The left pane: pending pods by cause, and the nodes and workloads that match a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import (
    NAMESPACE,
    NODE,
    POD,
    WORKLOAD,
    Layout,
    ListLine,
    Openable,
    shorten,
    wrap_text,
)
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.commands.explain.pending_report import PendingPod, PendingPods
from kschedctl.render.page import count

HEADING, FAINT = "bold", "dim"
BY_CAUSE, BY_AGE, BY_NAME = "cause", "age", "name"
POD_ORDERS = (BY_CAUSE, BY_AGE, BY_NAME)
MAX_CAUSE_LINES = 2
"""Maximum number of lines of a cause; the answer shows it in full."""


def build_workload_subject(owner: Owner) -> Openable:
    """Return the subject that opens a workload."""
    return Openable(WORKLOAD, str(owner), owner)


class PodListing(NamedTuple):
    """Which pending pods are listed, and in which order."""

    text: str = ""
    """Text to search for."""
    namespace: str = ""
    """Namespace of the pods, "" for all."""
    order: str = BY_CAUSE
    """One of POD_ORDERS."""

    @property
    def description(self) -> str:
        """The namespace and the order, as far as they differ from the default."""
        namespace = f"namespace {self.namespace}" if self.namespace else ""
        return " · ".join(filter(None, (namespace, f"by {self.order}" if self.order != BY_CAUSE else "")))

    @property
    def next_order(self) -> str:
        """The order after the current one."""
        return POD_ORDERS[(POD_ORDERS.index(self.order) + 1) % len(POD_ORDERS)]


def lay_out_listing(session: BrowseSession, pod_listing: PodListing) -> Layout:
    """Lay out the pending pods, and for a search also the matching nodes and workloads."""
    hits = session.search(pod_listing.text) if pod_listing.text else None
    pods = {
        pod: member
        for group in session.pods_by_cause.groups
        for pod, member in zip(group.pods, group.members, strict=True)
        if (hits is None or pod in hits.pods)
        and pod.startswith(f"{pod_listing.namespace}/" * bool(pod_listing.namespace))
    }

    def lines(width: int) -> list[ListLine]:
        by_cause = pod_listing.order == BY_CAUSE
        made = (
            _list_by_cause(session.pods_by_cause, pods, width)
            if by_cause
            else _list_sorted(pods, pod_listing.order, width)
        )
        if hits is not None:
            nodes = [Openable(NODE, name) for name in hits.nodes]
            made += _build_section("Nodes", nodes, hits.more_nodes, width)
            made += _build_section(
                "Workloads", list(map(build_workload_subject, hits.workloads)), hits.more_workloads, width
            )
        nothing = "no pod is pending here" if hits is None else "no pod, node or workload has this in its name"
        return made or [ListLine(line, HEADING) for line in wrap_text(nothing, width)]

    return lines


def describe_session(session: BrowseSession) -> str:
    """Return the numbers of pending pods and nodes, the scope, and the server."""
    nodes, pods = len(session.cluster.nodes), len(session.pending_pods)
    where = session.cluster.provenance.server if session.cluster.provenance else ""
    return " · ".join(
        filter(None, (count(pods, "pending pod"), session.pods_by_cause.scope, count(nodes, "node"), where))
    )


def lay_out_namespaces(session: BrowseSession) -> Layout:
    """Lay out the namespaces of pending pods with the number of pods."""
    numbers = Counter(pod.partition("/")[0] for group in session.pods_by_cause.groups for pod in group.pods)
    rows = [("", "all", numbers.total()), *((name, name, number) for name, number in sorted(numbers.items()))]

    def line(key: str, name: str, number: int, width: int) -> ListLine:
        return ListLine(f" {number:>6,}  {shorten(name, width - 9)}", "", Openable(NAMESPACE, key))

    def lines(width: int) -> list[ListLine]:
        return [ListLine("Namespace of the pending pods", HEADING), *(line(*row, width) for row in rows)]

    return lines


def _list_sorted(pods: Mapping[str, PendingPod], order: str, width: int) -> list[ListLine]:
    """List the pods by name or the oldest first. Pods without a creation time come last."""
    keys = sorted(pods, key=lambda pod: (pods[pod].created or "~", pod) if order == BY_AGE else ("", pod))
    heading = [ListLine("Oldest first" if order == BY_AGE else "By name", HEADING)] if keys else []
    return [*heading, *(ListLine(_format_pod_with_age(pods[pod], width), "", Openable(POD, pod)) for pod in keys)]


def _format_pod_with_age(member: PendingPod, width: int) -> str:
    """Return a pod's age and name."""
    return f" {member.age:>5} {shorten(member.pod, width - 7)}"


def _list_by_cause(pending: PendingPods, shown: Mapping[str, PendingPod], width: int) -> list[ListLine]:
    """List the pods below their causes."""
    lines: list[ListLine] = []
    for group in pending.groups:
        pods = [pod for pod in group.pods if pod in shown]
        if pods:
            cause = f"{len(pods):,} · {group.cause or group.verdict}"
            lines += [ListLine(line, HEADING) for line in wrap_text(cause, width, "  ", MAX_CAUSE_LINES)]
            lines += [ListLine(f" {shorten(pod, width - 1)}", "", Openable(POD, pod)) for pod in pods]
    return lines


def _build_section(title: str, subjects: Sequence[Openable], more: int, width: int) -> list[ListLine]:
    """Return subjects below a title, and how many more there are."""
    if not subjects:
        return []
    rest = [ListLine(f" … {more:,} more", FAINT)] if more else []
    return [ListLine(title, HEADING), *(ListLine(f" {shorten(s.name, width - 1)}", "", s) for s in subjects), *rest]
