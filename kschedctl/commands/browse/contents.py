"""Build the reports of the detail screens: a node, the pods of a workload, and a changed answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kschedctl.api.node_pools import find_pool
from kschedctl.api.objects import Pod, Taint
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
from kschedctl.replay.controllers.workload_pods import find_pods
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.nodes import get_region_and_zone

FITS = ""
"""The answer for a pod that fits."""


def report_node_contents(
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
    answers = _try_pending_pods(scheduler, row, pending, checkpoint)
    pods = [_build_pod_of_node(scheduler, position) for position in np.flatnonzero(view.node == row).tolist()]
    return NodeContents(
        node=name,
        pool=find_pool(node),
        zone=get_region_and_zone(node)[1],
        unschedulable=node.spec.unschedulable,
        taints=tuple(map(_format_taint, node.spec.taints)),
        labels=dict(sorted(node.metadata.labels.items())),
        resources=tuple(
            NodeResource(resource, int(view.allocatable[row, column]), int(view.requested[row, column]))
            for resource, column in view.resources.items()
            if view.allocatable[row, column] or view.requested[row, column]
        ),
        pods=tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.pod))),
        fit=tuple(pod.key for pod, why in zip(pending, answers, strict=True) if why == FITS),
        refused=dict(Counter(filter(None, answers)).most_common()),
    )


def _format_taint(taint: Taint) -> str:
    """Format a taint like `kubectl taint`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _build_pod_of_node(scheduler: Scheduler, position: int) -> PodOfNode:
    """Build the entry for a pod on the node."""
    view = scheduler.view
    pod, info = view.pods.objects[position], int(view.pods.info[position])
    amounts = {name: int(view.requests[info, column]) for name, column in view.resources.items()}
    requests = {name: amount for name, amount in amounts.items() if amount}
    return PodOfNode(pod.key, str(find_owner(pod)), view.pods.infos[info].priority, requests)


def _try_pending_pods(
    scheduler: Scheduler, row: int, pending: Sequence[Pod], checkpoint: Callable[[], object]
) -> list[str]:
    """Return why each pending pod does not fit on the node, or FITS. Equal pods are tried once."""
    pods, answer_by_info = scheduler.view.pods, dict[int, str]()
    infos = [int(pods.info[pods.index[pod.key]]) for pod in pending]
    for info, pod in zip(infos, pending, strict=True):
        if info not in answer_by_info:
            checkpoint()
            answer_by_info[info] = _try_pending_pod(scheduler, row, pod)
    return [answer_by_info[info] for info in infos]


def _try_pending_pod(scheduler: Scheduler, row: int, pod: Pod) -> str:
    """Return why a pending pod does not fit on the node, or FITS."""
    stored = scheduler.view.stored(pod)
    framework = scheduler.framework(stored.spec.scheduler_name)
    if framework is None:
        return f'no profile serves scheduler name "{stored.spec.scheduler_name}"'
    cycle = scheduler.run_cycle(framework.without_extenders(), stored)
    if cycle.error is not None:
        return cycle.error
    if cycle.gated:
        return "held back before scheduling"
    if not cycle.considered[row]:
        return ", ".join(cycle.build_unexamined_status().reasons)
    return FITS if cycle.filter.passing[row] else ", ".join(cycle.filter.find_first_rejection(row)[1].reasons)


def report_workload_pods(scheduler: Scheduler, owner: Owner, causes: Mapping[str, str]) -> WorkloadPods:
    """Report on a workload's pods and how they spread over zones.

    `causes` maps keys of pending pods to their causes.
    """
    zones = {node.metadata.name: get_region_and_zone(node)[1] for node in scheduler.cluster.nodes}
    workloads = [_build_pod_of_workload(pod, zones, causes) for pod in find_pods(scheduler.cluster, owner)]
    workloads.sort(key=lambda pod: (bool(pod.node), pod.pod))
    bound = [pod for pod in workloads if pod.node]
    pods, nodes = Counter(pod.zone for pod in bound), Counter(zone for zone, _ in {(p.zone, p.node) for p in bound})
    zone_names = sorted({*zones.values(), *pods})
    return WorkloadPods(
        str(owner), tuple(workloads), tuple(ZonePods(zone, pods[zone], nodes[zone]) for zone in zone_names)
    )


def _build_pod_of_workload(pod: Pod, zones: Mapping[str, str], causes: Mapping[str, str]) -> PodOfWorkload:
    """Build the entry for a pod of the workload."""
    node = pod.spec.node_name
    created, phase = pod.metadata.creation_timestamp or "", pod.status.phase or "Pending"
    return PodOfWorkload(
        pod.key, node, zone=zones.get(node, ""), phase=phase, created=created, why=causes.get(pod.key, "")
    )


def build_changed_answer(before: Explanation, after: Explanation) -> ChangedAnswer:
    """Compare the explanations without and with assumptions."""
    old, new = (
        {(elimination.plugin, elimination.reason): elimination.nodes for elimination in r.eliminations}
        for r in (before, after)
    )
    reasons = (
        RefusingReason(plugin, reason, old.get((plugin, reason), 0), new.get((plugin, reason), 0))
        for plugin, reason in dict.fromkeys((*old, *new))
    )
    was, now = frozenset(before.feasible), frozenset(after.feasible)
    return ChangedAnswer(
        fit=(len(was), len(now)),
        gained=tuple(name for name in after.feasible if name not in was),
        lost=tuple(name for name in before.feasible if name not in now),
        best=(before.best, after.best),
        reasons=tuple(reason for reason in reasons if reason.before != reason.after),
    )
