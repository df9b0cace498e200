"""Pending pods that can run only on the drained nodes, whatever room is made elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.replay.pending_pods import is_pending
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.simulation.simulation import Simulation

CORDON_PLUGINS = (NodeUnschedulable.name, TaintToleration.name)
"""The plugins that reject a node because it is cordoned."""


def find_stranded_pods(simulation: Simulation, nodes: Collection[str], pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pending pods that can run on some of these cordoned nodes, but on no other node.

    A node counts as one where the pod can run if only room is missing there. Pods of DaemonSets are left out. So are
    pods that no filter looks at, because they are gated, wait for a claim, or have another scheduler.
    """
    rows = [simulation.view.nodes.index[name] for name in nodes]
    drained = np.zeros(len(simulation.view.nodes), np.bool_)
    drained[rows] = True

    # Pods with the same spec share a PodInfo, and so the answer
    is_stranded: dict[tuple[int, str], bool] = {}
    stranded = []
    for pod in pods:
        if not is_pending(pod) or find_owner(pod).kind == "DaemonSet":
            continue
        position = Position(simulation.view.pods.index[pod.key])
        template = int(simulation.view.pods.info[position]), pod.spec.scheduler_name
        if template not in is_stranded:
            is_stranded[template] = _can_run_only_on_drained_nodes(simulation, position, pod, drained)
        if is_stranded[template]:
            stranded.append(pod.key)
    return tuple(stranded)


def _can_run_only_on_drained_nodes(simulation: Simulation, position: Position, pod: Pod, drained: Bools) -> bool:
    """Return whether the pod can run on a node in the mask `drained` (N,), but on no other node."""
    if simulation.framework(position) is None:
        return False
    cycle = simulation.run_cycle(position)
    if cycle.error is not None or cycle.gated or cycle.pre_filter.status.rejected:
        return False
    if (cycle.considered & ~cycle.filter.unresolvable).any():
        return False  # another node may take the pod, or the pod tolerates the cordon

    # The nodes that nothing but a taint or the cordon excludes
    eligible = cycle.considered & drained
    for plugin, verdict in cycle.filter.verdicts.items():
        if plugin not in CORDON_PLUGINS:
            eligible &= ~verdict.unresolvable
    return any(_tolerates_other_taints(simulation, pod, int(row)) for row in np.flatnonzero(eligible))


def _tolerates_other_taints(simulation: Simulation, pod: Pod, row: int) -> bool:
    """Return whether the pod tolerates all taints of the node at `row` except the one of the cordon."""
    taints = [t for t in simulation.view.nodes.objects[row].spec.taints if t.key != UNSCHEDULABLE_TAINT.key]
    return find_untolerated_taint(taints, pod.spec.tolerations, HARD_EFFECTS) is None
