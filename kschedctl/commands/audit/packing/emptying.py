"""Search for nodes that can be removed, by draining them in turn within disruption budgets.

The search is greedy: nodes with the least to move are tried first, and a node that could be emptied stays empty for the
rest. Another order may empty more. Pending pods that fit are placed first, since the room that they need is not spare,
and so are the pods of nodes that are not ready. Nominated nodes are not tried, and the last ready node is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row, Rows, find_positions
from kschedctl.api.node_health import NodeHealth, get_node_health
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn, NodeTrial
from kschedctl.commands.audit.packing.report import EmptiedNode, KeptNode
from kschedctl.replay.edits import is_recreated_elsewhere
from kschedctl.replay.eviction_harms import KINDS_NOT_EVICTED, find_eviction_harms
from kschedctl.replay.node_drain import PodHomes, iter_pod_homes
from kschedctl.replay.parallel import Progress
from kschedctl.replay.pools import Pools, find_unready_nodes, select_reported_amounts
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.reports.unknown import UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingState
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

KEEPS_LAST = NodeTrial(0, (), why="it is the last ready node")
"""The result for a node that is kept because no other ready worker would be left."""


class TrialLimits(NamedTuple):
    """The numbers of nodes and pods up to which nodes are drained on trial."""

    nodes: int
    """The maximum number of nodes, 0 for all."""
    pods: int
    """The maximum number of pods, 0 for any number."""


class EmptyingResult(NamedTuple):
    """The nodes that can be emptied and the nodes that cannot."""

    emptied: tuple[EmptiedNode, ...]
    kept: tuple[KeptNode, ...]
    empty: Rows
    """The rows of nodes on which nothing has to move."""
    candidates: int
    """The number of other nodes that may be removed."""
    unknown: tuple[UnknownKind, ...]
    """The unread data that the replays depend on."""
    interrupted: bool
    """True if the user interrupted, so that not all nodes were tried."""
    last: str = ""
    """The empty node that is kept because all other ready workers can be removed, or ""."""

    @property
    def tried(self) -> int:
        """The number of nodes that were drained on trial."""
        return len(self.emptied) + len(self.kept)


class EmptyingOrder(NamedTuple):
    """The nodes that may be removed, in the order in which they are tried."""

    view: Fork
    """The cluster with the pending pods placed that fit."""
    empty: Rows
    """The rows of nodes on which nothing has to move."""
    order: list[Row]
    """The rows of the other nodes, those with the least to move first."""
    movable: Rows
    """The number of pods that would have to move, by node, shape (N,)."""
    unknown: tuple[UnknownKind, ...]
    """The unread data that the placements depend on."""
    displaced: Sequence[Position] = ()
    """The pods of nodes that are not ready, which controllers recreate on other nodes."""
    homes: Sequence[PodHomes] = ()
    """The nodes on which pods that still wait can run."""

    def find_stranded_pods(self, removed: Sequence[Row] | Rows) -> tuple[str, ...]:
        """Return the pods (`namespace/name`) that can run nowhere once the nodes at these rows are gone, or ()."""
        if not self.homes:
            return ()
        is_removed = np.zeros(len(self.view.nodes), np.bool_)
        is_removed[np.asarray(removed)] = True
        return tuple(home.pod for home in self.homes if home.are_lost_without(is_removed))


def _build_emptied_node(view: Fork, pools: Pools, row: Row, trial: NodeTrial) -> EmptiedNode:
    """Build the report about a node that can be removed, with what its removal saves and what its pods lose."""
    moved_pods = [view.pods.get_pod(move.pod) for move in trial.moved]
    return EmptiedNode(
        node=view.nodes.names[row],
        pool=pools.get_name(row),
        moved=trial.evictable,
        saves=select_reported_amounts(view, view.allocatable[row]),
        **find_eviction_harms(view.cluster, moved_pods)._asdict(),
    )


def _build_kept_node(view: Fork, pools: Pools, row: Row, trial: NodeTrial, *, removed_count: int) -> KeptNode:
    """Build the report about a node that is kept, with the reason why its trial drain failed.

    `removed_count` is the number of nodes that were removed before the trial. If the trial has a message of
    kube-scheduler, these nodes and the kept node count as cordoned in the message.
    """
    cordoned_in_replay = removed_count + 1 if trial.message else 0
    return KeptNode(
        view.nodes.names[row],
        pools.get_name(row),
        trial.why,
        lets_run=trial.lets_run,
        pod=trial.pod,
        message=trial.message,
        cordoned_in_replay=cordoned_in_replay,
    )


def find_removable_nodes(
    scheduler: Scheduler, pools: Pools, pending: Sequence[Position], limits: TrialLimits, progress: Progress
) -> EmptyingResult:
    """Try to drain workers one after the other, and report which nodes can be removed.

    Before the drains, the `pending` pods and the pods of nodes that are not ready are placed, and empty nodes are
    removed. A node is kept if pending pods fit there once it is emptied, or if it is the last ready node. `limits`
    decides how many workers are tried. If the user interrupts the drains, the result covers the workers tried so far.
    Raises KeyboardInterrupt if the user interrupts before the drains.
    """
    candidates = order_removal_candidates(scheduler, pools, pending)  # places the pending pods first
    view = candidates.view

    # Remove the empty nodes
    drains = DrainsInTurn(scheduler, view)
    empty, kept_nodes = _split_empty_nodes(candidates, pools)
    kept_empty_count = len(kept_nodes)
    drains.remove_empty_nodes(empty)
    ready_count = int((pools.workers & ~find_unready_nodes(view)).sum())
    is_all_empty = len(empty) > 0 and len(empty) == ready_count

    # Drain further nodes
    tried_rows = list(_iter_rows_within_limits(limits, candidates.order, candidates.movable))
    on_done = progress.begin("Emptying nodes", len(tried_rows))
    emptied: list[EmptiedNode] = []
    removed = list(empty)
    interrupted = False
    try:
        for row in tried_rows:
            trial = _try_to_remove_node(candidates, drains, row, removed, pending)
            is_last = len(removed) + 1 == ready_count
            if is_last and not trial.why:
                drains.undo()
                trial = KEEPS_LAST
            if trial.why:
                kept_nodes.append(_build_kept_node(view, pools, row, trial, removed_count=len(removed)))
            else:
                removed.append(row)
                emptied.append(_build_emptied_node(view, pools, row, trial))
            on_done(1)
    except KeyboardInterrupt:
        interrupted = True

    return EmptyingResult(
        emptied=tuple(emptied),
        kept=tuple(kept_nodes),
        empty=np.array(empty, np.int64),
        candidates=len(candidates.order) + kept_empty_count,
        unknown=merge_unknown_kinds([candidates.unknown, drains.unknown]),
        interrupted=interrupted,
        last=view.nodes.names[empty[-1]] if is_all_empty else "",
    )


def _try_to_remove_node(
    candidates: EmptyingOrder, drains: DrainsInTurn, row: Row, removed: Sequence[Row], pending: Sequence[Position]
) -> NodeTrial:
    """Drain a node unless pending pods need it once it is emptied, and return the trial.

    `removed` are the rows of the nodes that are removed already.
    """
    stranded = candidates.find_stranded_pods([*removed, row])
    if stranded:
        return NodeTrial.kept_for(stranded)
    return drains.drain_node_unless_pending_pods_fit(row, [*pending, *candidates.displaced])


def _split_empty_nodes(candidates: EmptyingOrder, pools: Pools) -> tuple[list[Row], list[KeptNode]]:
    """Return the empty nodes that can be removed, and those without which a pending pod could run nowhere."""
    removable: list[Row] = []
    kept_nodes = []
    for row in map(Row, candidates.empty.tolist()):
        stranded = candidates.find_stranded_pods([*removable, row])
        if stranded:
            trial = NodeTrial.kept_for(stranded)
            kept_nodes.append(_build_kept_node(candidates.view, pools, row, trial, removed_count=len(removable)))
        else:
            removable.append(row)
    return removable, kept_nodes


def order_removal_candidates(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> EmptyingOrder:
    """Place the pending pods that fit, and return the workers that may be removed, the emptiest first.

    Pods of nodes that are not ready need room on other nodes as well, and are placed after the pending pods. Workers
    are ordered by the share of their capacity that their movable pods request. Workers without movable pods are listed
    separately. Nodes that are nominated for pods are left out. So are nodes that are not ready, which are only empty
    because no pod can run there. Raises KeyboardInterrupt if the simulation was interrupted.
    """
    simulation = Simulation(scheduler, preemption=False)
    displaced = find_pods_to_recreate(simulation.view)
    simulation.remove(displaced)
    simulation.gone.difference_update(displaced)  # they are placed again
    simulation.schedule_or_raise_interrupt([*pending, *displaced])
    view = simulation.view
    waiting = [position for position in (*pending, *displaced) if not view.has_node(position)]

    movable_counts, movable_shares = _measure_movable_pods(view)
    nominated_rows, _ = view.nominations
    is_candidate = pools.workers & ~find_unready_nodes(view)
    is_candidate[nominated_rows] = False
    least_first = np.argsort(movable_shares, kind="stable").tolist()
    return EmptyingOrder(
        view=view,
        empty=np.flatnonzero(is_candidate & (movable_counts == 0)),
        order=[Row(row) for row in least_first if is_candidate[row] and movable_counts[row]],
        movable=movable_counts,
        unknown=find_simulation_unknowns(simulation),
        displaced=displaced,
        homes=tuple(iter_pod_homes(simulation, waiting)),
    )


def find_pods_to_recreate(view: Fork) -> list[Position]:
    """Return the pods of unhealthy nodes that controllers recreate elsewhere.

    Terminating pods are left out if their controllers have replaced them already.
    """
    is_unhealthy = np.array([get_node_health(node) is not NodeHealth.READY for node in view.nodes.objects], np.bool_)
    positions = find_positions(np.append(is_unhealthy, False)[view.node])  # pods without a node have row -1
    return [position for position in positions if _will_be_recreated(view.pods.objects[position])]


def _will_be_recreated(pod: Pod) -> bool:
    """Return whether a controller is still to recreate the pod on another node."""
    is_replaced = pod.metadata.deletion_timestamp is not None and find_owner(pod).kind != "StatefulSet"
    return is_recreated_elsewhere(pod) and not is_replaced


def _measure_movable_pods(view: Fork) -> tuple[Rows, Rows]:
    """Return two arrays (N,): how many pods a drain evicts from each node, and the share of the node that they request.

    The share is the largest of the shares of CPU, memory and pods.
    """
    is_staying = view.pods.where(lambda info: find_owner(info.pod).kind in KINDS_NOT_EVICTED)
    movable_requests = view.sum_by_node(np.where(is_staying[:, None], 0, view.requests))
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    shares = movable_requests[:, columns] / np.maximum(view.allocatable[:, columns], 1)
    return movable_requests[:, view.resources[PODS]], shares.max(axis=1)


def _iter_rows_within_limits(limits: TrialLimits, order: list[Row], movable: Rows) -> Iterator[Row]:
    """Yield the first rows within the limits of nodes and of movable pods, but always at least one row.

    A limit of 0 means no limit. `movable` (N,) is the number of movable pods of each node.
    """
    pod_count = 0
    for index, row in enumerate(order):
        pod_count += int(movable[row])
        exceeds_nodes = limits.nodes and index >= limits.nodes
        exceeds_pods = limits.pods and pod_count > limits.pods and index > 0
        if exceeds_nodes or exceeds_pods:
            return
        yield row


WAITING_STATES = (WaitingState.NOT_ADMITTED, WaitingState.ADMISSIBLE)


def find_unreplayed_workloads(scheduler: Scheduler, pending: Sequence[Position]) -> tuple[str, ...]:
    """Return the waiting objects whose need for nodes is not replayed, such as "PodGroup ml/small".

    These are Workloads, PodGroups and jobs in queues, and pending pods of other schedulers. `pending` has the positions
    of the pending pods.
    """
    waiting = find_objects_waiting_elsewhere(scheduler.view.cluster)
    in_queues = (entry.resource for entry in waiting if entry.state in WAITING_STATES)
    return tuple(dict.fromkeys((*in_queues, *_iter_pods_of_other_schedulers(scheduler, pending))))


def _iter_pods_of_other_schedulers(scheduler: Scheduler, pending: Sequence[Position]) -> Iterator[str]:
    """Yield the pending pods that no profile serves, such as "Pod ml/big-t-0"."""
    for position in pending:
        pods = scheduler.view.pods
        if scheduler.find_framework(pods.get_info(position).spec.scheduler_name) is None:
            yield f"Pod {pods.objects[position].key}"
