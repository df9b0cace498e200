"""Build the reports of the detail screens: a node, the pods of a workload, and a changed answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.commands.browse.report import (
    ChangedAnswer,
    NodeContents,
    NodeResource,
    PodOfNode,
    PodOfWorkload,
    RefusingReason,
    WorkloadPods,
    ZonePods,
)
from kschedctl.commands.explain.report import Explanation
from kschedctl.replay.controllers.workload_pods import find_pods_of_owner
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.nodes import get_region_and_zone

FITS = ""
"""The answer for a pod that fits."""


def build_node_report(
    scheduler: Scheduler, name: str, pending: Sequence[Pod], checkpoint: Callable[[], object] = lambda: None
) -> NodeContents | None:
    """Report on a node and the pending pods that would fit on it. Return None if the node does not exist.

    `checkpoint` is called before each pending pod is tried.
    """
    view = scheduler.view
    row = view.nodes.index.get(name)
    if row is None:
        return None
    node = view.nodes.objects[row]
    outcomes = _find_pod_obstacles(scheduler, row, pending, checkpoint)
    fitting = [pod.key for pod, outcome in zip(pending, outcomes, strict=True) if outcome == FITS]
    reasons = [outcome for outcome in outcomes if outcome != FITS]
    pods = [_build_node_pod_entry(scheduler, position) for position in np.flatnonzero(view.node == row).tolist()]
    return NodeContents(
        node=name,
        pool=find_node_pool_name(node),
        zone=_get_zone(node),
        unschedulable=node.spec.unschedulable,
        taints=tuple(map(_format_taint, node.spec.taints)),
        labels=dict(sorted(node.metadata.labels.items())),
        resources=tuple(
            NodeResource(resource, int(view.allocatable[row, column]), int(view.requested[row, column]))
            for resource, column in view.resources.items()
            if view.allocatable[row, column] or view.requested[row, column]
        ),
        pods=tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.pod))),
        fit=tuple(fitting),
        refused=dict(Counter(reasons).most_common()),
    )


def _format_taint(taint: Taint) -> str:
    """Format a taint like `kubectl taint`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _build_node_pod_entry(scheduler: Scheduler, position: int) -> PodOfNode:
    """Build the entry for the pod at index `position` of the view's pods, for the list of a node's pods."""
    view = scheduler.view
    pod = view.pods.objects[position]
    info_index = int(view.pods.info[position])
    amounts = {name: int(view.requests[info_index, column]) for name, column in view.resources.items()}
    return PodOfNode(
        pod=pod.key,
        workload=str(find_owner(pod)),
        priority=view.pods.infos[info_index].priority,
        requests={name: amount for name, amount in amounts.items() if amount},
    )


def _find_pod_obstacles(
    scheduler: Scheduler, row: int, pending: Sequence[Pod], checkpoint: Callable[[], object]
) -> list[str]:
    """Return, for each pending pod, why it does not fit on the node, or FITS.

    Equal pods are tried once. `row` is the node's row in the view. `checkpoint` is called before each try.
    """
    pods = scheduler.view.pods
    info_indices = [pods.get_info_number(pods.index[pod.key]) for pod in pending]  # equal for equal pods
    obstacle_by_info: dict[int, str] = {}
    for info_index, pod in zip(info_indices, pending, strict=True):
        if info_index not in obstacle_by_info:
            checkpoint()
            obstacle_by_info[info_index] = _find_obstacle(scheduler, row, pod)
    return [obstacle_by_info[info_index] for info_index in info_indices]


def _find_obstacle(scheduler: Scheduler, row: int, pod: Pod) -> str:
    """Return why a pending pod does not fit on the node in `row`, or FITS.

    Preemption is not tried, and extenders are not called.
    """
    stored = scheduler.view.build_stored_pod(pod)
    framework = scheduler.find_framework(stored.spec.scheduler_name)
    if framework is None:
        return f'no scheduler profile is named "{stored.spec.scheduler_name}"'
    cycle = scheduler.run_cycle(framework.without_extenders(), stored)
    if cycle.error is not None:
        return cycle.error
    if cycle.gated:
        return "held back before scheduling"
    if not cycle.considered[row]:
        return ", ".join(cycle.build_unexamined_status().reasons)
    if cycle.filter.passing[row]:
        return FITS
    _, rejection = cycle.filter.find_first_rejection(row)
    return ", ".join(rejection.reasons)


def build_workload_pods_report(scheduler: Scheduler, owner: Owner, causes: Mapping[str, str]) -> WorkloadPods:
    """Report on a workload's pods and how they spread over zones. A pod without a controller is its own workload.

    `causes` maps keys of pending pods to their causes.
    """
    zone_by_node = {node.metadata.name: _get_zone(node) for node in scheduler.cluster.nodes}
    bare_pod = scheduler.cluster.pod(owner.namespace, owner.name) if owner.kind == "Pod" else None
    stored_pods = find_pods_of_owner(scheduler.cluster, owner) if bare_pod is None else [bare_pod]
    pods = [_build_workload_pod_entry(pod, zone_by_node, causes) for pod in stored_pods]
    pods.sort(key=lambda pod: (bool(pod.node), pod.pod))

    bound_pods = [pod for pod in pods if pod.node]
    pod_counts = Counter(pod.zone for pod in bound_pods)
    used_nodes = {(pod.zone, pod.node) for pod in bound_pods}
    node_counts = Counter(zone for zone, _ in used_nodes)

    zones = sorted({*zone_by_node.values(), *pod_counts})
    return WorkloadPods(
        workload=str(owner),
        pods=tuple(pods),
        zones=tuple(ZonePods(zone, pod_counts[zone], node_counts[zone]) for zone in zones),
    )


def _get_zone(node: Node) -> str:
    """Return the zone of a node, empty if it has none."""
    _, zone = get_region_and_zone(node)
    return zone


def _build_workload_pod_entry(pod: Pod, zone_by_node: Mapping[str, str], causes: Mapping[str, str]) -> PodOfWorkload:
    """Build the entry for a pod of the workload. A pod without a phase counts as pending."""
    return PodOfWorkload(
        pod=pod.key,
        node=pod.spec.node_name,
        zone=zone_by_node.get(pod.spec.node_name, ""),
        phase=pod.status.phase or "Pending",
        created=pod.metadata.creation_timestamp or "",
        why=causes.get(pod.key, ""),
    )


def compare_explanations(before: Explanation, after: Explanation) -> ChangedAnswer:
    """Compare the explanation without assumptions with the explanation under assumptions.

    Reasons are reported only if the number of nodes that they reject has changed.
    """
    nodes_before = _count_nodes_by_reason(before)
    nodes_after = _count_nodes_by_reason(after)
    reasons = (
        RefusingReason(plugin, reason, nodes_before[plugin, reason], nodes_after[plugin, reason])
        for plugin, reason in dict.fromkeys((*nodes_before, *nodes_after))
    )
    feasible_before, feasible_after = frozenset(before.feasible), frozenset(after.feasible)
    return ChangedAnswer(
        fit=(len(feasible_before), len(feasible_after)),
        gained=tuple(name for name in after.feasible if name not in feasible_before),
        lost=tuple(name for name in before.feasible if name not in feasible_after),
        best=(before.best, after.best),
        reasons=tuple(reason for reason in reasons if reason.before != reason.after),
    )


def _count_nodes_by_reason(explanation: Explanation) -> Counter[tuple[str, str]]:
    """Return the number of rejected nodes by plugin and reason."""
    return Counter(
        {(elimination.plugin, elimination.reason): elimination.nodes for elimination in explanation.eliminations}
    )
