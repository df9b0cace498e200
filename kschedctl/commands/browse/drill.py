"""The detail screens of nodes, workloads and objects that wait without pods. Their lines open other screens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import (
    HELD_BACK,
    NODE,
    NOT_CREATED,
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
from kschedctl.render.page import Style, count
from kschedctl.render.tables import format_rounded
from kschedctl.render.terminal import render_text
from kschedctl.render.unseen_pods import build_held_back_section, build_not_created_section

MAX_FITTING = 20
"""The maximum number of fitting pods that are listed."""
MAX_BAR = 20
"""The length of the longest bar, in characters."""


def lay_out_node(session: BrowseSession, contents: NodeContents) -> Layout:
    """Return the layout of a node's screen: facts, free resources, pending pods that fit, pods and labels."""
    owners = {pod.pod: session.find_workload(pod.pod) for pod in contents.pods}

    def lay_out_lines(width: int) -> list[ListLine]:
        """Lay out the sections of the node's screen."""
        return [
            *_list_node_fact_lines(contents, width),
            *_list_free_resource_lines(contents, width),
            *_list_fitting_pod_lines(contents, width),
            *_list_lines_of_pods_on_node(contents, owners, width),
            *_list_label_lines(contents, width),
        ]

    return lay_out_lines


def _list_node_fact_lines(contents: NodeContents, width: int) -> list[ListLine]:
    """List the node's name with pool and zone, whether it is cordoned, and its taints."""
    pool = f"pool {contents.pool}" if contents.pool else ""
    title = "Node " + " · ".join(filter(None, (contents.node, pool, contents.zone)))
    lines = [ListLine(line, HEADING) for line in wrap_text(title, width, "  ")]
    if contents.unschedulable:
        lines.append(ListLine("cordoned", WARNING))
    for taint in contents.taints:
        lines += [ListLine(line, WARNING) for line in wrap_text(f"taint {taint}", width, "  ")]
    return lines


def _list_label_lines(contents: NodeContents, width: int) -> list[ListLine]:
    """List the node's labels below a heading. Long labels are wrapped."""
    lines: list[ListLine] = []
    for key, value in contents.labels.items():
        lines += [ListLine(line) for line in wrap_text(f" {key}={value}", width, "   ")]
    return _build_section("Labels", lines)


def _build_section(title: str, lines: Sequence[ListLine]) -> list[ListLine]:
    """Return the lines below a blank line and a title. Without lines, there is no section."""
    return [ListLine(""), ListLine(title, HEADING), *lines] if lines else []


def _build_table_lines(
    rows: Sequence[Sequence[str]], width: int, subjects: Sequence[Openable | None], right_column: int = -1
) -> list[ListLine]:
    """Lay out a table as indented lines. The first row has the column titles."""
    table = TableLines(rows, subjects, width - 1, right_column)
    return [table[row]._replace(text=f" {table[row].text}") for row in range(len(table))]


def _list_free_resource_lines(contents: NodeContents, width: int) -> list[ListLine]:
    """List how much of each resource is free and allocatable. Return [] if the node has no resources."""
    if not contents.resources:
        return []
    rows = [("resource", "free", "of")]
    for resource in contents.resources:
        free = max(resource.allocatable - resource.requested, 0)
        allocatable = format_rounded(resource.resource, resource.allocatable)
        rows.append((resource.resource, format_rounded(resource.resource, free), allocatable))
    last_width = max(len(allocatable) for _, _, allocatable in rows)
    aligned_rows = [(name, free, allocatable.rjust(last_width)) for name, free, allocatable in rows]
    no_subjects = [None] * len(contents.resources)  # the lines open nothing
    return _build_section("Room", _build_table_lines(aligned_rows, width, no_subjects, right_column=1))


def _list_fitting_pod_lines(contents: NodeContents, width: int) -> list[ListLine]:
    """List the pending pods that would each fit on the node, and count the other pods by reason.

    Only the first MAX_FITTING pods are listed.
    """
    rejected = sum(contents.refused.values())
    pending = count(len(contents.fit) + rejected, "pending pod")
    heading = f"Would fit here on their own: {len(contents.fit):,} of {pending}"
    lines = [ListLine(f" {shorten(pod, width - 1)}", "", Openable(POD, pod)) for pod in contents.fit[:MAX_FITTING]]
    if len(contents.fit) > MAX_FITTING:
        lines.append(ListLine(f" … {len(contents.fit) - MAX_FITTING:,} more", FAINT))
    for why, number in contents.refused.items():
        lines += [ListLine(line, FAINT) for line in wrap_text(f" {number:,} not: {why}", width, "   ")]
    return [
        ListLine(""),
        *(ListLine(line, HEADING) for line in wrap_text(heading, width, "  ")),
        *lines,
    ]


def _list_lines_of_pods_on_node(contents: NodeContents, owners: dict[str, Owner | None], width: int) -> list[ListLine]:
    """List the pods on the node with their priorities and requests.

    `owners` has the owner of each pod, or None. The line of a pod with an owner opens the owner's screen.
    """
    rows = [("pod", "priority", "requests")]
    subjects = []
    for pod in contents.pods:
        requests = ", ".join(
            f"{name} {format_rounded(name, amount)}" for name, amount in pod.requests.items() if name != "pods"
        )
        rows.append((pod.pod, f"{pod.priority:,}", requests))
        owner = owners[pod.pod]
        subjects.append(build_workload_subject(owner)._replace(from_pod=pod.pod) if owner else None)
    return _build_section(
        f"Pods ({len(contents.pods):,})",
        _build_table_lines(rows, width, subjects, right_column=1) if subjects else [ListLine(" none")],
    )


def lay_out_workload(workload_pods: WorkloadPods) -> Layout:
    """Return the layout of a workload's screen: pods by zone, pending pods and placed pods.

    Pods that ended without a node count as placed.
    """

    def is_pending(pod: PodOfWorkload) -> bool:
        """Return whether the pod has no node and has not ended."""
        return not pod.node and pod.phase not in ("Succeeded", "Failed")

    pending = [pod for pod in workload_pods.pods if is_pending(pod)]
    placed = [pod for pod in workload_pods.pods if not is_pending(pod)]

    def lay_out_lines(width: int) -> list[ListLine]:
        """Lay out the title and the sections of the workload's screen."""
        title = f"{workload_pods.workload} · {count(len(workload_pods.pods), 'pod')}, {len(pending):,} pending"
        head = [ListLine(line, HEADING) for line in wrap_text(title, width, "  ")]
        return [
            *head,
            *_list_zone_lines(workload_pods, width),
            *_list_pending_pod_lines(pending, width),
            *_list_placed_pod_lines(placed, width),
        ]

    return lay_out_lines


def _list_zone_lines(workload_pods: WorkloadPods, width: int) -> list[ListLine]:
    """List how many of the workload's pods are in each zone and on how many nodes, with bars.

    Return [] if there are no zones.
    """
    if not workload_pods.zones:
        return []
    max_pods = max(zone.pods for zone in workload_pods.zones)
    rows = [("pods", "nodes", "zone", "")]
    for zone in workload_pods.zones:
        bar_length = math.ceil(zone.pods * MAX_BAR / max_pods) if max_pods else 0
        rows.append((f"{zone.pods:>4,}", f"{zone.nodes:,}", zone.zone or "(no zone)", "■" * bar_length))
    no_subjects = [None] * len(workload_pods.zones)
    return _build_section("By zone", _build_table_lines(rows, width, no_subjects, right_column=1))


def _list_pending_pod_lines(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    """List the pending pods with their causes."""
    subjects = [Openable(POD, pod.pod) for pod in pods]
    rows = [("pod", "why"), *((pod.pod, pod.why) for pod in pods)]
    return _build_section(f"Pending ({len(pods):,})", _build_table_lines(rows, width, subjects) if pods else [])


def _list_placed_pod_lines(pods: Sequence[PodOfWorkload], width: int) -> list[ListLine]:
    """List the placed pods with their nodes, zones and phases."""
    subjects = [Openable(NODE, pod.node, from_pod=pod.pod) if pod.node else None for pod in pods]
    rows = [("pod", "node", "zone", "phase"), *((pod.pod, pod.node, pod.zone, pod.phase) for pod in pods)]
    return _build_section(f"Placed ({len(pods):,})", _build_table_lines(rows, width, subjects) if pods else [])


def lay_out_details(session: BrowseSession, subject: Openable, checkpoint: Callable[[], object]) -> Layout:
    """Return the layout of the screen of a node, a workload or an object without pods.

    If the node no longer exists, the layout is a message that says so. `checkpoint` is called before each pending pod
    is tried on a node.
    """
    if subject.kind in (NOT_CREATED, HELD_BACK):
        return _lay_out_missing_pods(session, subject)
    if subject.kind == NODE:
        contents = session.build_node_contents(subject.name, checkpoint)
        if contents is None:
            return lambda width: [ListLine(line) for line in wrap_text(f"node {subject.name} is gone", width)]
        return lay_out_node(session, contents)
    assert subject.owner is not None
    return lay_out_workload(session.build_workload_pods(subject.owner))


def _lay_out_missing_pods(session: BrowseSession, subject: Openable) -> Layout:
    """Return the layout that says why a workload's pods are missing, or what an object without pods waits for.

    If the subject no longer waits, the layout is a message that says so.
    """
    failure, entry = session.missing_workloads.get(subject.name), session.held_back.get(subject.name)

    def lay_out_lines(width: int) -> list[ListLine]:
        """Lay out the section that `explain` shows about the object."""
        style = Style(width=width)
        if subject.kind == NOT_CREATED and failure is not None:
            text = render_text(build_not_created_section((failure,), style), style)
        elif subject.kind == HELD_BACK and entry is not None:
            text = render_text(build_held_back_section((entry,), style), style)
        else:
            text = f"{subject.name} no longer waits"
        return [ListLine(line) for text_line in text.splitlines() for line in wrap_text(text_line, width, "  ") or [""]]

    return lay_out_lines
