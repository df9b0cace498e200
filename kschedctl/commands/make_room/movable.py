"""Which pods may be moved, why others may not, and which ones to prefer.

A pod may move if a controller recreates it, nothing of it is lost for good, no Job fails for it, no annotation forbids
its disruption, and the budget that selects it, if any, allows a disruption.
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
from kschedctl.replay.controllers.eviction import JOB_WOULD_FAIL, Evictions, job_would_fail
from kschedctl.replay.edits import is_recreated
from kschedctl.scheduler.engine.preemption.budgets import budget_key
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

PLAIN, GUARDED, STATEFUL, UNWILLING = 0, 1, 2, 3
"""How readily a pod is moved: one like others; one that a budget selects; one with an identity or scratch data; one
whose annotation says that it prefers no eviction.
"""

NO_DISRUPTION = "their PodDisruptionBudget allows no disruption"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget selects them, which evictions do not support"


class MovablePods(NamedTuple):
    """The pods that may move, and the cost of moving each."""

    pods: Rows
    """Positions, shape (M,)."""
    held: dict[str, int]
    """The number of other pods on nodes by the reason why they may not move."""
    reluctance: Rows
    """Lower is better, shape (P,)."""
    priority: Rows
    """Lower is better, shape (P,)."""
    size: Amounts
    """Lower is better, shape (P,)."""


def find_movable(
    simulation: Simulation, among: Bools, keep: Selector | None, spared: Collection[Position]
) -> MovablePods:
    """Find the movable pods on the nodes ``among`` (N,), except those that ``keep`` selects and the ``spared`` ones."""
    view = simulation.view
    reasons, numbers = _find_reasons(view, keep), view.pods.info
    bound = view.node >= 0
    bound[bound] = among[view.node[bound]]  # without nodes there is nothing to index
    bound[list(spared)] = False
    held = np.array([bool(why) for why in reasons], np.bool_)[numbers]
    counts = Counter[str]()
    for number, count in enumerate(np.bincount(numbers[bound & held], minlength=len(reasons)).tolist()):
        if count:
            counts[reasons[number]] += count
    free = np.flatnonzero(bound & ~held)
    guarded = _find_budgeted(simulation)
    refused = _find_denied_by_budgets(simulation, free, guarded, counts)
    return MovablePods(free[~refused], dict(counts), *_compute_costs(view, guarded))


def _find_reasons(view: Fork, keep: Selector | None) -> list[str]:
    """Return for each PodInfo why its pods may not move, or "", (T,)."""
    return [
        find_reason_against_moving(info.pod)
        or (JOB_WOULD_FAIL if job_would_fail(info.pod, view.objects) else "")
        or ("--keep selects them" if keep is not None and keep.matches(info.pod.metadata.labels) else "")
        for info in view.pods.infos
    ]


def find_reason_against_moving(pod: Pod) -> str:
    """Return why the pod itself may not be moved, whatever its budgets say, or ""."""
    kind, notes = find_owner(pod).kind, pod.metadata.annotations
    if pod.metadata.deletion_timestamp is not None:
        return "they are being deleted"
    if kind in ("DaemonSet", "Node"):
        return "they belong to their node (DaemonSets, static pods)"
    if not is_recreated(pod):
        return "nobody makes them again"
    if notes.safe_to_evict == "false" or notes.do_not_disrupt == "true":
        return "an annotation says not to evict them"
    if any(volume.host_path is not None for volume in pod.spec.volumes):
        return "they would leave files of hostPath volumes behind"
    return ""


def has_scratch_data(pod: Pod) -> bool:
    """Return whether data in emptyDir volumes on disk is lost when the pod moves."""
    return any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in pod.spec.volumes)


def _find_budgeted(simulation: Simulation) -> Bools:
    """Return which PodInfos some budget selects, (T,)."""
    guarded = np.zeros(len(simulation.view.pods.infos), np.bool_)
    for budget in simulation.view.objects.of("PodDisruptionBudget"):
        guarded |= simulation.budgets.find_selected(budget_key(budget))
    return guarded


def _find_denied_by_budgets(simulation: Simulation, pods: Rows, guarded: Bools, counts: Counter[str]) -> Bools:
    """Return which pods no budget lets go now, (M,), and count the reasons. Readiness matters, too."""
    refused = np.zeros(len(pods), np.bool_)
    evictions = Evictions(simulation)
    for place in np.flatnonzero(guarded[simulation.view.pods.info[pods]]).tolist():
        position = Position(int(pods[place]))
        if evictions.find_denial(position):
            refused[place] = True
            counts[SEVERAL_BUDGETS if len(evictions.find_budgets(position)) > 1 else NO_DISRUPTION] += 1
    return refused


MAX_SHARE = 10**6
"""The share of the cluster from which all pods count as equally large, since larger ones overflow int64."""


def _compute_costs(view: Fork, guarded: Bools) -> tuple[Rows, Rows, Amounts]:
    """Return reluctance, priority, and size as a share of all cpu and memory in trillionths, (P,) each."""
    pods = view.pods
    stateful = pods.where(lambda info: find_owner(info.pod).kind == "StatefulSet" or has_scratch_data(info.pod))
    unwilling = pods.where(lambda info: info.pod.metadata.annotations.prefers_no_eviction is not None)
    reluctance = np.select([unwilling, stateful, guarded], [UNWILLING, STATEFUL, GUARDED], PLAIN)
    columns = [view.resources[name] for name in (CPU, MEMORY)]
    whole = np.maximum(view.allocatable[:, columns].sum(axis=0), 1)
    shares = np.minimum(view.requests[:, columns] / whole, MAX_SHARE)
    size = (shares * 10**12).astype(np.int64).sum(axis=1)
    return reluctance[pods.info], pods.priority[pods.info], size[pods.info]
