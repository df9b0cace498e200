"""What is on a node, and where the pods of a workload are, as lines that lead on to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import NODE, POD, WARNING, Layout, ListLine, Openable, TableLines, cut, wrapped
from kschedctl.commands.browse.listing import FAINT, HEADING, of_workload
from kschedctl.commands.browse.report import NodeContents, PodOfWorkload, WorkloadPods
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.render.page import count
from kschedctl.render.tables import format_rounded

MOST_FITTING = 20
MOST_BAR = 20


def node_lines(session: BrowseSession, contents: NodeContents) -> Layout:
    """Room, who would fit, who is there, and how it is labelled."""
    owners = {pod.pod: session.owner(pod.pod) for pod in contents.pods}

    def lines(width: int) -> list[ListLine]:
        about = [
            contents.node,
            *([f"pool {contents.pool}"] if contents.pool else []),
            *([contents.zone] if contents.zone else []),
        ]
        head = [ListLine(line, HEADING) for line in wrapped("Node " + " · ".join(about), width, "  ")]
        cordoned = [ListLine("cordoned", WARNING)] if contents.unschedulable else []
        taints = [
            ListLine(line, WARNING) for taint in contents.taints for line in wrapped(f"taint {taint}", width, "  ")
        ]
        labels = [f"{key}={value}" for key, value in contents.labels.items()]
        return [
            *(*head, *cordoned, *taints),
            *_room(contents, width),
            *_fitting(contents, width),
            *_pods_of_node(contents, owners, width),
            *_titled("Labels", [ListLine(line) for label in labels for line in wrapped(f" {label}", width, "   ")]),
        ]

    return lines


def _titled(title: str, lines: Sequence[ListLine]) -> list[ListLine]:
    return [ListLine(""), ListLine(title, HEADING), *lines] if lines else []


def _table(
    rows: Sequence[Sequence[str]], width: int, subjects: Sequence[Openable | None], right: int = -1
) -> list[ListLine]:
    """The first row are the titles; nothing of it without others."""
    made = TableLines(rows, subjects, width - 1, right)
    return [line._replace(text=f" {line.text}") for line in map(made.__getitem__, range(len(made)))]


def _room(contents: NodeContents, width: int) -> list[ListLine]:
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
    return _titled(
        "Room", _table(shown, width, [None] * len(contents.resources), right=1) if contents.resources else []
    )


def _fitting(contents: NodeContents, width: int) -> list[ListLine]:
    refused = sum(contents.refused.values())
    pending = count(len(contents.fit) + refused, "pending pod")
    lines = [ListLine(f" {cut(pod, width - 1)}", "", Openable(POD, pod)) for pod in contents.fit[:MOST_FITTING]]
    if len(contents.fit) > MOST_FITTING:
        lines.append(ListLine(f" … {len(contents.fit) - MOST_FITTING:,} more", FAINT))
    for why, number in contents.refused.items():
        lines += [ListLine(line, FAINT) for line in wrapped(f" {number:,} not: {why}", width, "   ")]
    return [
        ListLine(""),
        ListLine(f"Would fit here, each by itself: {len(contents.fit):,} of {pending}", HEADING),
        *lines,
    ]


def _pods_of_node(contents: NodeContents, owners: dict[str, Owner | None], width: int) -> list[ListLine]:
    rows = [("pod", "priority", "requests")]
    subjects = []
    for pod in contents.pods:
        asked = ", ".join(
            f"{name} {format_rounded(name, amount)}" for name, amount in pod.requests.items() if name != "pods"
        )
        rows.append((pod.pod, f"{pod.priority:,}", asked))
        owner = owners[pod.pod]
        subjects.append(of_workload(owner)._replace(of=pod.pod) if owner else None)
    return _titled(
        f"Pods ({len(contents.pods):,})", _table(rows, width, subjects, right=1) if subjects else [ListLine(" none")]
    )


def workload_lines(workload_pods: WorkloadPods) -> Layout:
    """By zone, then those that wait, and the others with their nodes."""
    waiting = [pod for pod in workload_pods.pods if not pod.node and pod.phase not in ("Succeeded", "Failed")]
    others = [pod for pod in workload_pods.pods if pod not in waiting]

    def lines(width: int) -> list[ListLine]:
        title = f"{workload_pods.workload} · {count(len(workload_pods.pods), 'pod')}, {len(waiting):,} pending"
        head = [ListLine(line, HEADING) for line in wrapped(title, width, "  ")]
        return [*head, *_by_zone(workload_pods, width), *_waiting(waiting, width), *_placed(others, width)]

    return lines


def _by_zone(workload_pods: WorkloadPods, width: int) -> list[ListLine]:
    most = max((zone.pods for zone in workload_pods.zones), default=0)
    rows = [("pods", "nodes", "zone", "")]
    for zone in workload_pods.zones:
        bar = "■" * -(-zone.pods * MOST_BAR // most) if most else ""
        rows.append((f"{zone.pods:>4,}", f"{zone.nodes:,}", zone.zone or "(no zone)", bar))
    return _titled(
        "By zone", _table(rows, width, [None] * len(workload_pods.zones), right=1) if workload_pods.zones else []
    )


def _waiting(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    subjects = [Openable(POD, pod.pod) for pod in pods]
    rows = [("pod", "why"), *((pod.pod, pod.why) for pod in pods)]
    return _titled(f"Pending ({len(pods):,})", _table(rows, width, subjects) if pods else [])


def _placed(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    subjects = [Openable(NODE, pod.node, of=pod.pod) if pod.node else None for pod in pods]
    rows = [("pod", "node", "zone", "phase"), *((pod.pod, pod.node, pod.zone, pod.phase) for pod in pods)]
    return _titled(f"Placed ({len(pods):,})", _table(rows, width, subjects) if pods else [])


def drilled(session: BrowseSession, subject: Openable, between: Callable[[], object]) -> Layout:
    """What is to be shown of a node or a workload."""
    if subject.kind == NODE:
        contents = session.node(subject.name, between)
        if contents is None:
            return lambda width: [ListLine(line) for line in wrapped(f"node {subject.name} is gone", width)]
        return node_lines(session, contents)
    assert subject.owner is not None
    return workload_lines(session.workload(subject.owner))
