"""Preemption on one node in plain loops, the reference for the dry run over all nodes.

Upstream: SelectVictimsOnNode and filterPodsWithPDBViolation in plugins/defaultpreemption/default_preemption.go,
MoreImportantPod in pkg/scheduler/util/utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
from go_sort import sort_by_insertion

from kschedctl.api.objects import Pod, PodDisruptionBudget
from kschedctl.scheduler.engine.preemption.dry_run import dry_run
from kschedctl.scheduler.engine.preemption.victims import LowerPriority
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PENDING = "default/pending"


class NodeState(Protocol):
    """One node, from which pods are removed and to which they are added again."""

    def remove(self, pod: Pod) -> None: ...

    def add(self, pod: Pod) -> None: ...

    def fits(self) -> bool: ...


class Victims(NamedTuple):
    """``namespace/name`` of the pods to evict in order, and the number of PDB violations."""

    keys: list[str]
    violations: int


EMPTY, HOPELESS = "no victims", "does not fit without them"


def select_victims(
    node: NodeState, pods: Sequence[Pod], priority: int, budgets: Sequence[PodDisruptionBudget]
) -> Victims | str:
    """Select the victims on a node with these pods for a pod with this priority, or return why there are none."""
    lower = [pod for pod in pods if get_priority(pod) < priority]
    if not lower:
        return EMPTY
    for pod in lower:
        node.remove(pod)
    if not node.fits():
        return HOPELESS
    violating, others = split_by_budgets(sort_by_importance(lower), budgets)
    victims = []
    for pod in [*violating, *others]:
        node.add(pod)
        if not node.fits():
            node.remove(pod)
            victims.append(pod)
    violations = sum(pod in violating for pod in victims)
    if violating and others:
        victims = sort_by_importance(victims)
    return Victims([pod.key for pod in victims], violations)


def get_priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def sort_by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """Sort by insertion, as Go sorts up to twelve elements. A pod without start time starts at each comparison."""
    now = count(int(datetime(2999, 1, 1).timestamp()))

    def start(pod: Pod) -> float:
        text = pod.status.start_time
        return datetime.fromisoformat(text).timestamp() if text else next(now)

    def more_important(left: Pod, right: Pod) -> bool:
        if get_priority(left) != get_priority(right):
            return get_priority(left) > get_priority(right)
        asked_first, asked_second = start(left), start(right)
        return asked_first < asked_second

    return sort_by_insertion(pods, more_important)


def split_by_budgets(pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """Split the pods into those whose eviction, in this order, violates a budget, and the others."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        breaks = False
        for i, budget in enumerate(budgets):
            if is_protecting(budget, pod) and pod.metadata.name not in budget.status.disrupted_pods:
                left[i] -= 1
                breaks |= left[i] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def is_protecting(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a budget with matchLabels only selects the pod. An empty selector protects no pod."""
    wanted = budget.spec.selector.match_labels if budget.spec.selector else {}
    same_namespace = budget.metadata.namespace == pod.metadata.namespace
    return bool(wanted) and same_namespace and wanted.items() <= pod.metadata.labels.items()


def dry_run_all_nodes(scheduler: Scheduler, pod: Pod) -> dict[str, Victims | str]:
    """Return the result of the tested dry run for each node, in the form of the naive one."""
    view = scheduler.view
    framework = scheduler.find_framework(pod.spec.scheduler_name)
    assert framework is not None
    cycle = scheduler.run_cycle(framework, pod)
    result = dry_run(cycle, np.ones(len(view.nodes), np.bool_), LowerPriority(view, cycle.info.priority))
    found: dict[str, Victims | str] = {
        view.nodes.names[c.row]: Victims([view.pods.objects[p].key for p in c.victims], c.pdb_violations)
        for c in result.candidates
    }
    for row, name in enumerate(view.nodes.names):
        if result.without_evictable_pods[row]:
            found[name] = EMPTY
        if result.rejected_by_filters[row]:
            found[name] = HOPELESS
    return found


def build_node(name: str, zone: str | None, cpu: int) -> Json:
    labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    allocatable = {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
