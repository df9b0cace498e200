"""Find which pods may be moved, and compute the cost of moving each.

A pod may move if a controller recreates it, no data of it is lost for good, its Job does not fail, no annotation
forbids its disruption, and its PodDisruptionBudget, if any, allows a disruption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Position, Rows
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.controllers.job_failures import JOB_WOULD_FAIL, JobFailures
from kschedctl.replay.edits import is_recreated
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

PLAIN, GUARDED, STATEFUL, UNWILLING = 0, 1, 2, 3
"""The reluctance to move a pod: an ordinary pod, a pod that a budget selects, a pod with an identity or scratch data,
and a pod with an annotation that it prefers no eviction.
"""

NO_DISRUPTION = "their PodDisruptionBudget allows no disruption"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget selects them, which the eviction API does not support"


class MovablePods(NamedTuple):
    """The pods that may be moved, and the cost of moving each."""

    pods: Rows
    """The positions (M,) of the pods."""
    held: dict[str, int]
    """Reason -> the number of other pods on nodes that it keeps from moving."""
    reluctance: Rows
    """The reluctance (P,) to move each pod, from PLAIN to UNWILLING."""
    priority: Rows
    """The priority (P,) of each pod."""
    size: Amounts
    """The share (P,) of the cluster that each pod requests, in trillionths of its cpu plus its memory."""


def find_movable_pods(
    simulation: Simulation, nodes: Bools, keep: Selector | None, spared: Collection[Position]
) -> MovablePods:
    """Find the pods that may be moved off the nodes in the mask `nodes` (N,). Count the pods that may not, by reason.

    Pods that the selector `keep` matches are not movable. `spared` pods are ignored: they are neither movable nor
    counted.
    """
    view = simulation.view
    info_by_pod = view.pods.info
    is_candidate = view.mask_placed()
    is_candidate[is_candidate] = nodes[view.node[is_candidate]]  # in two steps, as pods without a node have row -1
    is_candidate[list(spared)] = False

    # Count the candidates that a reason keeps from moving.
    reason_by_info = find_reasons_against_moving(view, keep)
    is_held = np.array([bool(reason) for reason in reason_by_info], np.bool_)[info_by_pod]
    held_count_by_info = np.bincount(info_by_pod[is_candidate & is_held], minlength=len(reason_by_info)).tolist()
    held_count_by_reason: Counter[str] = Counter()
    for reason, count in zip(reason_by_info, held_count_by_info, strict=True):
        if count:
            held_count_by_reason[reason] += count

    # Ask the PodDisruptionBudgets about the remaining candidates, and count those that may not be evicted.
    unheld_pods = np.flatnonzero(is_candidate & ~is_held)
    budgeted = _find_budgeted_infos(simulation)
    is_denied = _find_denied_by_budgets(simulation, unheld_pods, budgeted, held_count_by_reason)
    reluctance, priority, size = _compute_moving_costs(view, budgeted)
    return MovablePods(
        unheld_pods[~is_denied], held=dict(held_count_by_reason), reluctance=reluctance, priority=priority, size=size
    )


def find_reasons_against_moving(view: Fork, keep: Selector | None) -> list[str]:
    """Return, for each PodInfo, the reason why its pods may not be moved, or an empty string.

    Pods that the selector `keep` matches may not be moved. PDBs are not considered.
    """

    job_failures = JobFailures.of(view.objects)

    def find_reason(pod: Pod) -> str:
        """Return the reason against moving a pod, or "" if it may move."""
        reason = find_reason_against_moving(pod)
        if reason:
            return reason
        if job_failures.would_fail_job_or_index(pod):
            return JOB_WOULD_FAIL
        if keep is not None and keep.matches(pod.metadata.labels):
            return "--keep selects them"
        return ""

    return [find_reason(info.pod) for info in view.pods.infos]


def find_reason_against_moving(pod: Pod) -> str:
    """Return the reason why the pod may not be moved, or an empty string, judging by the pod object alone.

    The reasons are worded for several pods. PDBs and the pod's Job are not considered.
    """
    kind, annotations = find_owner(pod).kind, pod.metadata.annotations
    if pod.metadata.deletion_timestamp is not None:
        return "they are being deleted"
    if kind in ("DaemonSet", "Node"):
        return "they belong to their node (DaemonSets, static pods)"
    if not is_recreated(pod):
        return "no controller recreates them"
    if annotations.safe_to_evict == "false" or annotations.do_not_disrupt == "true":
        return "an annotation forbids evicting them"
    if any(volume.host_path is not None for volume in pod.spec.volumes):
        return "they would leave files in hostPath volumes behind"
    return ""


def has_scratch_data(pod: Pod) -> bool:
    """Return whether the pod has emptyDir volumes on disk, whose data is lost when it moves."""
    return any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in pod.spec.volumes)


def _find_budgeted_infos(simulation: Simulation) -> Bools:
    """Return the mask (T,) of PodInfos whose pods some PodDisruptionBudget selects."""
    budgeted = np.zeros(len(simulation.view.pods.infos), np.bool_)
    for budget in simulation.view.objects.of("PodDisruptionBudget"):
        budgeted |= simulation.budgets.find_selected_pods(get_budget_key(budget))
    return budgeted


def _find_denied_by_budgets(
    simulation: Simulation, pods: Rows, budgeted: Bools, held_count_by_reason: Counter[str]
) -> Bools:
    """Return the mask (M,) of the `pods` whose eviction a PDB denies now, and add the reasons to the counter.

    `budgeted` is the mask (T,) of PodInfos that some PDB selects.
    """
    denied = np.zeros(len(pods), np.bool_)
    evictions = Evictions(simulation)
    for index in np.flatnonzero(budgeted[simulation.view.pods.info[pods]]).tolist():
        position = Position(int(pods[index]))
        if evictions.find_denial(position):
            denied[index] = True
            has_several_budgets = len(evictions.find_budgets(position)) > 1
            held_count_by_reason[SEVERAL_BUDGETS if has_several_budgets else NO_DISRUPTION] += 1
    return denied


MAX_SHARE = 10**6
"""The share of the cluster from which on all pods count as equally large, because larger shares overflow int64."""


def _compute_moving_costs(view: Fork, budgeted: Bools) -> tuple[Rows, Rows, Amounts]:
    """Compute three arrays (P,) of costs: the reluctance, the priority and the size of each pod.

    `MovablePods` describes these costs. `budgeted` is the mask (T,) of PodInfos that some PDB selects.
    """
    pods = view.pods
    stateful = pods.where(lambda info: find_owner(info.pod).kind == "StatefulSet" or has_scratch_data(info.pod))
    unwilling = pods.where(lambda info: info.pod.metadata.annotations.prefers_no_eviction is not None)
    reluctance = np.select([unwilling, stateful, budgeted], [UNWILLING, STATEFUL, GUARDED], PLAIN)

    # Integers of trillionths, so that sums of sizes are exact.
    columns = [view.resources[name] for name in (CPU, MEMORY)]
    totals = np.maximum(view.allocatable[:, columns].sum(axis=0), 1)
    shares = np.minimum(view.requests[:, columns] / totals, MAX_SHARE)
    size = (shares * 10**12).astype(np.int64).sum(axis=1)
    return reluctance[pods.info], pods.priority[pods.info], size[pods.info]
