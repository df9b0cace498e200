"""What a node holds and would take, and where the pods of a workload are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kschedctl.api.node_pools import pool_of
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, owner_of
from kschedctl.reports.browsing.contents import NodeContents, NodeResource, PodOfNode, PodOfWorkload, WorkloadPods
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.node_order import zone_key
from kschedctl.studies.controllers.workload_pods import pods_of


def node_contents(scheduler: Scheduler, name: str, pending: Sequence[Pod]) -> NodeContents:
    """Of the node with that name; ``pending``: the pods of which it is asked whether they would fit there."""
    view = scheduler.view
    row = view.nodes.index[name]
    node = view.nodes.objects[row]
    fit = _fitting(scheduler, row, pending)
    positions = np.flatnonzero(view.node == row).tolist()
    pods = [_pod_of_node(scheduler, position) for position in positions]
    return NodeContents(
        node=name,
        pool=pool_of(node),
        zone=zone_key(node)[1],
        unschedulable=node.spec.unschedulable,
        taints=tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints),
        resources=tuple(
            NodeResource(resource, int(view.allocatable[row, column]), int(view.requested[row, column]))
            for resource, column in view.resources.items()
            if view.allocatable[row, column] or view.requested[row, column]
        ),
        pods=tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.pod))),
        fit=fit,
        refused=len(pending) - len(fit),
    )


def _pod_of_node(scheduler: Scheduler, position: int) -> PodOfNode:
    view = scheduler.view
    pod, info = view.pods.objects[position], int(view.pods.info[position])
    amounts = {name: int(view.requests[info, column]) for name, column in view.resources.items()}
    asked = {name: amount for name, amount in amounts.items() if amount}
    return PodOfNode(pod.key, str(owner_of(pod)), view.pods.infos[info].priority, asked)


def _fitting(scheduler: Scheduler, row: int, pending: Sequence[Pod]) -> tuple[str, ...]:
    """The pods that no plugin keeps from the node; those alike are asked once."""
    pods, asked = scheduler.view.pods, {}
    for pod in pending:
        alike = int(pods.info[pods.index[pod.key]])
        if alike not in asked:
            asked[alike] = _fits(scheduler, row, pod)
    return tuple(pod.key for pod in pending if asked[int(pods.info[pods.index[pod.key]])])


def _fits(scheduler: Scheduler, row: int, pod: Pod) -> bool:
    stored = scheduler.view.stored(pod)
    framework = scheduler.framework(stored.spec.scheduler_name)
    if framework is None:
        return False
    cycle = scheduler.cycle(framework.unasked(), stored)
    return cycle.error is None and not cycle.gated and bool(cycle.considered[row] and cycle.filter.passing[row])


def workload_pods(scheduler: Scheduler, owner: Owner) -> WorkloadPods:
    """All that the cluster has of it, those that wait first."""
    nodes = {node.metadata.name: zone_key(node)[1] for node in scheduler.cluster.nodes}
    found = [
        PodOfWorkload(
            pod.key,
            pod.spec.node_name,
            nodes.get(pod.spec.node_name, ""),
            pod.status.phase or "Pending",
            pod.metadata.creation_timestamp or "",
        )
        for pod in pods_of(scheduler.cluster, owner)
    ]
    found.sort(key=lambda pod: (bool(pod.node), pod.pod))
    zones = Counter(pod.zone for pod in found if pod.node)
    return WorkloadPods(str(owner), tuple(found), dict(sorted(zones.items())))
