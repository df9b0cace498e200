"""The contents of a node's or a workload's screen, as lines that lead to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import (
    NODE,
    POD,
    WARNING,
    Layout,
    ListLine,
    Openable,
    TableLines,
    shorten,
    wrap_text,
)
from kschedctl.commands.browse.listing import FAINT, HEADING, build_workload_subject
from kschedctl.commands.browse.report import NodeContents, PodOfWorkload, WorkloadPods
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.render.page import count
from kschedctl.render.tables import format_rounded

MAX_FITTING = 20
"""Maximum number of fitting pods listed."""
MAX_BAR = 20
"""Length of the longest bar, in characters."""


def lay_out_node(session: BrowseSession, contents: NodeContents) -> Layout:
    """Lay out a node: taints, free resources, pending pods that would fit, its pods, and its labels."""
    owners = {pod.pod: session.find_owner_of(pod.pod) for pod in contents.pods}

    def lines(width: int) -> list[ListLine]:
        about = [
            contents.node,
            *([f"pool {contents.pool}"] if contents.pool else []),
            *([contents.zone] if contents.zone else []),
        ]
        head = [ListLine(line, HEADING) for line in wrap_text("Node " + " · ".join(about), width, "  ")]
        cordoned = [ListLine("cordoned", WARNING)] if contents.unschedulable else []
        taints = [
            ListLine(line, WARNING) for taint in contents.taints for line in wrap_text(f"taint {taint}", width, "  ")
        ]
        labels = [f"{key}={value}" for key, value in contents.labels.items()]
        return [
            *(*head, *cordoned, *taints),
            *_list_resources(contents, width),
            *_list_fitting_pods(contents, width),
            *_list_pods_of_node(contents, owners, width),
            *_build_section(
                "Labels", [ListLine(line) for label in labels for line in wrap_text(f" {label}", width, "   ")]
            ),
        ]

    return lines


def _build_section(title: str, lines: Sequence[ListLine]) -> list[ListLine]:
    """Return lines below a blank line and a title, or nothing without lines."""
    return [ListLine(""), ListLine(title, HEADING), *lines] if lines else []


def _build_table(
    rows: Sequence[Sequence[str]], width: int, subjects: Sequence[Openable | None], right: int = -1
) -> list[ListLine]:
    """Return the indented lines of a table whose first row has the column titles."""
    made = TableLines(rows, subjects, width - 1, right)
    return [line._replace(text=f" {line.text}") for line in map(made.__getitem__, range(len(made)))]


def _list_resources(contents: NodeContents, width: int) -> list[ListLine]:
    """List the free and allocatable amount of each resource."""
    rows = [("resource", "free", "of")]
    for resource in contents.resources:
        free = max(resource.allocatable - resource.requested, 0)
        rows.append(
            (
                resource.resource,
                format_rounded(resource.resource, free),
                format_rounded(resource.resource, resource.allocatable),
            )
        )
    most = max(len(row[2]) for row in rows)
    shown = [(*row[:2], row[2].rjust(most)) for row in rows]
    return _build_section(
        "Room", _build_table(shown, width, [None] * len(contents.resources), right=1) if contents.resources else []
    )


def _list_fitting_pods(contents: NodeContents, width: int) -> list[ListLine]:
    """List pending pods that would fit on the node, and why the others would not."""
    refused = sum(contents.refused.values())
    pending = count(len(contents.fit) + refused, "pending pod")
    lines = [ListLine(f" {shorten(pod, width - 1)}", "", Openable(POD, pod)) for pod in contents.fit[:MAX_FITTING]]
    if len(contents.fit) > MAX_FITTING:
        lines.append(ListLine(f" … {len(contents.fit) - MAX_FITTING:,} more", FAINT))
    for why, number in contents.refused.items():
        lines += [ListLine(line, FAINT) for line in wrap_text(f" {number:,} not: {why}", width, "   ")]
    return [
        ListLine(""),
        ListLine(f"Would fit here, each by itself: {len(contents.fit):,} of {pending}", HEADING),
        *lines,
    ]


def _list_pods_of_node(contents: NodeContents, owners: dict[str, Owner | None], width: int) -> list[ListLine]:
    """List the pods on the node with their priorities and requests."""
    rows = [("pod", "priority", "requests")]
    subjects = []
    for pod in contents.pods:
        asked = ", ".join(
            f"{name} {format_rounded(name, amount)}" for name, amount in pod.requests.items() if name != "pods"
        )
        rows.append((pod.pod, f"{pod.priority:,}", asked))
        owner = owners[pod.pod]
        subjects.append(build_workload_subject(owner)._replace(from_pod=pod.pod) if owner else None)
    return _build_section(
        f"Pods ({len(contents.pods):,})",
        _build_table(rows, width, subjects, right=1) if subjects else [ListLine(" none")],
    )


def lay_out_workload(workload_pods: WorkloadPods) -> Layout:
    """Lay out a workload: pods per zone, pending pods, and placed pods."""
    waiting = [pod for pod in workload_pods.pods if not pod.node and pod.phase not in ("Succeeded", "Failed")]
    others = [pod for pod in workload_pods.pods if pod not in waiting]

    def lines(width: int) -> list[ListLine]:
        title = f"{workload_pods.workload} · {count(len(workload_pods.pods), 'pod')}, {len(waiting):,} pending"
        head = [ListLine(line, HEADING) for line in wrap_text(title, width, "  ")]
        return [
            *head,
            *_list_zones(workload_pods, width),
            *_list_pending_pods(waiting, width),
            *_list_placed_pods(others, width),
        ]

    return lines


def _list_zones(workload_pods: WorkloadPods, width: int) -> list[ListLine]:
    """List the pods and nodes of the workload in each zone, with bars."""
    most = max((zone.pods for zone in workload_pods.zones), default=0)
    rows = [("pods", "nodes", "zone", "")]
    for zone in workload_pods.zones:
        bar = "■" * -(-zone.pods * MAX_BAR // most) if most else ""
        rows.append((f"{zone.pods:>4,}", f"{zone.nodes:,}", zone.zone or "(no zone)", bar))
    return _build_section(
        "By zone", _build_table(rows, width, [None] * len(workload_pods.zones), right=1) if workload_pods.zones else []
    )


def _list_pending_pods(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    """List the pending pods with their causes."""
    subjects = [Openable(POD, pod.pod) for pod in pods]
    rows = [("pod", "why"), *((pod.pod, pod.why) for pod in pods)]
    return _build_section(f"Pending ({len(pods):,})", _build_table(rows, width, subjects) if pods else [])


def _list_placed_pods(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    """List the other pods with their nodes, zones, and phases."""
    subjects = [Openable(NODE, pod.node, from_pod=pod.pod) if pod.node else None for pod in pods]
    rows = [("pod", "node", "zone", "phase"), *((pod.pod, pod.node, pod.zone, pod.phase) for pod in pods)]
    return _build_section(f"Placed ({len(pods):,})", _build_table(rows, width, subjects) if pods else [])


def build_details(session: BrowseSession, subject: Openable, between: Callable[[], object]) -> Layout:
    """Build the contents of a node's or workload's screen."""
    if subject.kind == NODE:
        contents = session.build_node_contents(subject.name, between)
        if contents is None:
            return lambda width: [ListLine(line) for line in wrap_text(f"node {subject.name} is gone", width)]
        return lay_out_node(session, contents)
    assert subject.owner is not None
    return lay_out_workload(session.build_workload_pods(subject.owner))
