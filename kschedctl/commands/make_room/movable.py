"""Which pods may be moved to make room, why others may not, and which of them one would rather move.

A pod may go where somebody makes it again elsewhere, nothing of it is lost for good, no Job fails for it, nobody marked
it as not to be disrupted, and the one budget that selects it, if any, allows a disruption.
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
from kschedctl.replay.controllers.eviction import JOB_WOULD_FAIL, MORE_THAN_ONE, Evictions, job_would_fail
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


class Movable(NamedTuple):
    """``pods`` (M,): the positions of those that may move; ``held``: why others on nodes may not -> how many.

    ``reluctance`` (P,), ``priority`` (P,) and ``size`` (P,): the less of each the rather one moves a pod.
    """

    pods: Rows
    held: dict[str, int]
    reluctance: Rows
    priority: Rows
    size: Amounts


def movable(simulation: Simulation, among: Bools, keep: Selector | None, spared: Collection[Position]) -> Movable:
    """The pods on the nodes ``among`` (N,) that may move; not those that ``keep`` selects, nor the ``spared`` ones."""
    view = simulation.view
    said, numbers = _said_of_infos(view, keep), view.pods.info
    bound = view.node >= 0
    bound[bound] = among[view.node[bound]]  # without nodes there is nothing to index
    bound[list(spared)] = False
    held = np.array([bool(why) for why in said], np.bool_)[numbers]
    counts = Counter[str]()
    for number, count in enumerate(np.bincount(numbers[bound & held], minlength=len(said)).tolist()):
        if count:
            counts[said[number]] += count
    free = np.flatnonzero(bound & ~held)
    guarded = _guarded(simulation)
    refused = _refused_by_budgets(simulation, free, guarded, counts)
    return Movable(free[~refused], dict(counts), *_preferences(view, guarded))


def _said_of_infos(view: Fork, keep: Selector | None) -> list[str]:
    """(T,): why pods of an info may not be moved, empty where they may."""
    return [
        why_not(info.pod)
        or (JOB_WOULD_FAIL if job_would_fail(info.pod, view.objects) else "")
        or ("--keep selects them" if keep is not None and keep.matches(info.pod.metadata.labels) else "")
        for info in view.pods.infos
    ]


def why_not(pod: Pod) -> str:
    """Why the pod itself may not be moved, whatever its budget says; empty if it may."""
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


def leaves_scratch(pod: Pod) -> bool:
    """Whether what is in its emptyDir volumes on disk is gone when it moves."""
    return any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in pod.spec.volumes)


def _guarded(simulation: Simulation) -> Bools:
    """(T,): the infos that some budget selects."""
    guarded = np.zeros(len(simulation.view.pods.infos), np.bool_)
    for budget in simulation.view.objects.of("PodDisruptionBudget"):
        guarded |= simulation.budgets.selected(budget_key(budget))
    return guarded


def _refused_by_budgets(simulation: Simulation, pods: Rows, guarded: Bools, counts: Counter[str]) -> Bools:
    """(M,): which of the pods no budget lets go now, counted by why; whether it does depends on whether they are ready,
    too.
    """
    refused = np.zeros(len(pods), np.bool_)
    evictions = Evictions(simulation)
    for place in np.flatnonzero(guarded[simulation.view.pods.info[pods]]).tolist():
        position = Position(int(pods[place]))
        if why := evictions.find_denial(position):
            refused[place] = True
            counts[SEVERAL_BUDGETS if why.startswith(MORE_THAN_ONE) else NO_DISRUPTION] += 1
    return refused


LARGEST_SHARE = 10**6
"""The share of the cluster's resources from which all pods count as equally large: a larger one overflows int64."""


def _preferences(view: Fork, guarded: Bools) -> tuple[Rows, Rows, Amounts]:
    """(P,) each: reluctance, priority, and size as a share of all cpu and memory, in trillionths."""
    pods = view.pods
    stateful = pods.where(lambda info: find_owner(info.pod).kind == "StatefulSet" or leaves_scratch(info.pod))
    unwilling = pods.where(lambda info: info.pod.metadata.annotations.prefers_no_eviction is not None)
    reluctance = np.select([unwilling, stateful, guarded], [UNWILLING, STATEFUL, GUARDED], PLAIN)
    columns = [view.resources[name] for name in (CPU, MEMORY)]
    whole = np.maximum(view.allocatable[:, columns].sum(axis=0), 1)
    shares = np.minimum(view.requests[:, columns] / whole, LARGEST_SHARE)
    size = (shares * 10**12).astype(np.int64).sum(axis=1)
    return reluctance[pods.info], pods.priority[pods.info], size[pods.info]
