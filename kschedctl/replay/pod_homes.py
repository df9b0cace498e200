"""The nodes that pending pods depend on: where they can run as soon as there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.scheduler.framework import looks_at_cordons
from kschedctl.scheduler.simulation.simulation import Simulation


class PodHomes(NamedTuple):
    """The nodes where a pending pod can run, even if room is missing there now."""

    pod: str
    """The pod (`namespace/name`)."""
    open: Bools
    """The nodes that take the pod as soon as there is room, shape (N,)."""
    cordoned: Bools
    """The nodes that only their cordon closes to the pod, shape (N,)."""

    def are_lost_without(self, removed: Bools) -> bool:
        """Return whether the pod can run nowhere once the nodes in the mask `removed` (N,) are gone.

        Return False if it could not run on any of them either. A cordoned node that remains is of no use to the pod.
        """
        return bool((self.open | self.cordoned)[removed].any()) and not self.open[~removed].any()


def iter_pod_homes(simulation: Simulation, positions: Iterable[Position]) -> Iterator[PodHomes]:
    """Yield the homes of the pending pods at these positions.

    Pods of DaemonSets are left out. So are pods that no filter looks at, because they are gated, wait for a claim, or
    have another scheduler.
    """
    # Pods with the same spec share a PodInfo, and so the answer
    masks_by_template: dict[tuple[int, str], tuple[Bools, Bools] | None] = {}
    view = simulation.view
    for position in positions:
        pod = view.pods.objects[position]
        if find_owner(pod).kind == "DaemonSet":
            continue
        template = int(view.pods.info[position]), pod.spec.scheduler_name
        if template not in masks_by_template:
            masks_by_template[template] = _find_home_masks(simulation, position, pod)
        if masks := masks_by_template[template]:
            yield PodHomes(pod.key, *masks)


def _find_home_masks(simulation: Simulation, position: Position, pod: Pod) -> tuple[Bools, Bools] | None:
    """Return the masks (N,) of the nodes where the pod can run, and of those that only their cordon closes to it.

    Return None if no filter looks at the pod.
    """
    if simulation.framework(position) is None:
        return None
    cycle = simulation.run_cycle(position)
    if cycle.error is not None or cycle.gated or cycle.pre_filter.status.rejected:
        return None
    is_cordoned = cycle.considered & cycle.filter.unresolvable & simulation.view.nodes.unschedulable
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is not None and not looks_at_cordons(plugin):
            is_cordoned &= ~verdict.unresolvable
    for row in np.flatnonzero(is_cordoned).tolist():
        is_cordoned[row] = _tolerates_other_taints(simulation, pod, row)
    return cycle.considered & ~cycle.filter.unresolvable, is_cordoned


def _tolerates_other_taints(simulation: Simulation, pod: Pod, row: int) -> bool:
    """Return whether the pod tolerates all taints of the node at `row` except the one of the cordon."""
    taints = [taint for taint in simulation.view.nodes.objects[row].spec.taints if taint.key != UNSCHEDULABLE_TAINT.key]
    return find_untolerated_taint(taints, pod.spec.tolerations, HARD_EFFECTS) is None
