"""Trial drains of one node after the other, each in the cluster that the earlier successful drains left.

A drain that does not empty its node is undone. All drains share one simulation and thereby its cached results for equal
pods. In this simulation a node is closed rather than cordoned. If a cordon could have another effect on one of the pods
than to keep it off the node, or if preemption has to be tried, the drain is run separately on the cordoned cluster.

While a node is drained, the others only get fuller: whatever rejects a pod because of node data, or independently of
other pods, rejects it to the end. A PDB allows no more than at first if none of its pods on the node can be evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.edits import cordon_node, is_recreated
from kschedctl.replay.eviction_harms import KINDS_NOT_EVICTED
from kschedctl.replay.node_drain import NodeDrain, iter_moved_pods
from kschedctl.replay.pools import compute_free_resources
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.placements import MovedPod
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.cycle import Cycle, PreFilterOutcome, run_pre_filter
from kschedctl.scheduler.engine.diagnosis import build_fit_error, format_pre_filter_rejection
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import PluginError, Reads, does_cordon_affect_only_its_node, get_answer_dependency
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.changed_nodes import ClosedNodes
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import AnyObject
from kschedctl.text.counts import agreeing, counted, first_few


class Blocker(NamedTuple):
    """A pod that keeps a node from being emptied."""

    pod: str
    """The key of the pod, `namespace/name`."""
    why: str
    """The reason, which names the pod."""
    message: str = ""
    """kube-scheduler's message if the pod fits nowhere, empty if there is another reason."""

    @classmethod
    def unplaceable(cls, pod: str, message: str) -> Blocker:
        """Return the blocker for a pod that fits nowhere according to kube-scheduler's message."""
        return cls(pod, f"{pod}: {message}", message)


class _NodeBlockedError(Exception):
    """Raised when a pod keeps the node from being emptied."""

    def __init__(self, blocker: Blocker) -> None:
        self.blocker = blocker


@dataclass
class EmptyingDrain(NodeDrain):
    """A drain that succeeds only if no pod is lost, preempted or left without a node."""

    def run_until_blocked(self) -> Blocker | None:
        """Drain the node until a pod keeps it from being emptied. Return this pod, or None if the node was emptied."""
        immediate_blocker = next(self._iter_immediate_blockers(), None)
        if immediate_blocker is not None:
            return immediate_blocker
        try:
            self.run()
        except _NodeBlockedError as blocked:
            return blocked.blocker
        return self._find_remaining_blocker()

    def _iter_immediate_blockers(self) -> Iterator[Blocker]:
        """Yield the pods that certainly keep the node before the drain is tried."""
        yield from self._iter_pods_held_by_budgets()
        yield from self._iter_unmanaged_pods()

    def _iter_pods_held_by_budgets(self) -> Iterator[Blocker]:
        """Yield the pods that PDBs protect from eviction.

        A pod is left out if another pod on this node that its PDBs protect can be evicted. Once that pod is replaced
        elsewhere, the PDBs may allow further evictions.
        """
        evictions = self._evictions
        denials = {position: evictions.find_denial(position) for position in self.evictable}
        usable_budgets = set[str]()
        for position, denial in denials.items():
            if not denial:
                usable_budgets.update(evictions.find_budgets(position))
        for position, denial in denials.items():
            if denial and usable_budgets.isdisjoint(evictions.find_budgets(position)):
                key = self._get_pod_key(position)
                yield Blocker(key, f"{key}: {denial}")

    def _iter_unmanaged_pods(self) -> Iterator[Blocker]:
        """Yield the pods that no controller would recreate.

        Pods that are already being deleted are left out.
        """
        for position in self.evictable:
            pod = self.simulation.view.pods.objects[position]
            if not is_recreated(pod) and pod.metadata.deletion_timestamp is None:
                yield Blocker(pod.key, f"{pod.key} would be lost: no controller recreates it")

    def _try_to_place(self, position: Position) -> Outcome:
        """Try to place an evicted pod elsewhere.

        Raises _NodeBlockedError if the pod returns to one of the nodes to drain.
        """
        outcome = self._attempt_with_preemption_last(position)
        if outcome.is_placed and self.simulation.view.nodes.names[outcome.row] in self.nodes:
            key = self._get_pod_key(position)
            raise _NodeBlockedError(Blocker(key, f"{key} would come back: it tolerates the taint of cordoned nodes"))
        return outcome

    def _attempt_with_preemption_last(self, position: Position) -> Outcome:
        """Try to place a pod without preemption. If that fails, try it with preemption.

        Pods of gangs are placed as in other drains. Raises _NodeBlockedError if no node can ever take the pod, or if
        the pod would preempt other pods.
        """
        simulation = self.simulation
        if simulation.gangs.find_group_key(position) is not None:
            return super()._try_to_place(position)
        simulation.preemption = False
        outcome = simulation.attempt_pod(position)
        simulation.preemption = True
        if outcome is not None:
            return outcome
        if message := self._find_lasting_rejection(position):
            raise _NodeBlockedError(Blocker.unplaceable(self._get_pod_key(position), message))
        return self._attempt_with_preemption(position)

    def _attempt_with_preemption(self, position: Position) -> Outcome:
        """Try to place a pod with preemption. Raises _NodeBlockedError if the pod would preempt other pods."""
        # The attempt without preemption was remembered as a failure, which would be reused instead of preempting
        self.simulation.failures.forget()
        outcome = super()._try_to_place(position)
        if outcome.victims:
            key = self._get_pod_key(position)
            raise _NodeBlockedError(Blocker(key, f"{key} would preempt other pods if it were moved"))
        return outcome

    def _find_lasting_rejection(self, position: Position) -> str:
        """Return the message that says that no node can ever take the pod, or an empty string if that is not
        certain.
        """
        cycle = self.simulation.run_cycle(position)
        return _format_fit_error(cycle) if _is_rejected_for_good(cycle) else ""

    def _find_remaining_blocker(self) -> Blocker | None:
        """Return the pod that still blocks the node after the drain, or None if none does.

        Such a pod could not be evicted, would be lost, found no node, or would preempt other pods.
        """
        if blocked_pods := self.report_blocked_pods():
            blocked = blocked_pods[0]
            return Blocker(blocked.pod, f"{blocked.pod}: {blocked.why}")
        if self.lost:
            pod = self.simulation.view.pods.objects[self.lost[0]]
            owner = find_owner(pod)
            why = f"{owner} or its index would fail" if owner.kind == "Job" else "no controller recreates it"
            return Blocker(pod.key, f"{pod.key} would be lost: {why}")
        for outcome in self.simulation.explain(self.outcomes.values()):
            if not outcome.is_placed:
                key = self._get_pod_key(outcome.position)
                message = outcome.message or outcome.verdict
                rejection, _, _ = message.partition(". ")  # a sentence about preemption may follow
                return Blocker.unplaceable(key, rejection)
        if self.preemptions:
            key = self._get_pod_key(self.preemptions[0].position)
            return Blocker(key, f"{key} would preempt other pods if it were moved")
        return None

    def _get_pod_key(self, position: Position) -> str:
        """Return the key of the pod at a position, `namespace/name`."""
        return self.simulation.view.pods.objects[position].key


def _is_rejected_for_good(cycle: Cycle) -> bool:
    """Return whether every node rejects the pod for reasons that do not go away as further pods arrive.

    Return False for cycles with an error, and for pods with resource claims, since devices may become free.
    """
    if cycle.error is not None or cycle.info.spec.resource_claims:
        return False
    pre_filter = cycle.pre_filter
    if pre_filter.status.rejected:
        return is_pre_filter_rejection_lasting(pre_filter, cycle.framework)

    plugins = {plugin.name: plugin for point in ("preFilter", "filter") for plugin in cycle.framework.plugins_at(point)}

    # Nodes that a PreFilter left out could come back if the PreFilter looks at more than nodes.
    for name in pre_filter.narrowed_by:
        if get_answer_dependency(plugins[name], pre_filter.results.get(name)) is not Reads.NODES:
            return False

    # Only rejections by filters that look at all pods can go away.
    may_accept = cycle.considered.copy()
    for name, verdict in cycle.filter.verdicts.items():
        if name in plugins and get_answer_dependency(plugins[name], pre_filter.results.get(name)) is not Reads.PODS:
            may_accept &= ~verdict.rejected
    return not may_accept.any()


def is_pre_filter_rejection_lasting(outcome: PreFilterOutcome, framework: FrameworkLike) -> bool:
    """Return whether a PreFilter rejects the pod for a reason that no other pod can change.

    This is so if the rejecting plugin reads only nodes. Return False if no PreFilter plugin rejects the pod.
    """
    for plugin in framework.plugins_at("preFilter"):
        if plugin.name == outcome.plugin:
            return get_answer_dependency(plugin, outcome.results.get(plugin.name)) is Reads.NODES
    return False


def _format_fit_error(cycle: Cycle) -> str:
    """Return the scheduler's message that the pod fits nowhere."""
    return build_fit_error(cycle).removesuffix(".")


class NodeTrial(NamedTuple):
    """The result of a trial drain of one node."""

    evictable: int
    """The number of pods that had to be evicted."""
    moved: tuple[MovedPod, ...]
    pod: str = ""
    """The first pod that keeps the node from being emptied (`namespace/name`), empty if there is none."""
    why: str = ""
    """The reason why that pod cannot leave or the node is needed, empty if the node was emptied."""
    lets_run: tuple[str, ...] = ()
    """The pending pods for which the node is needed (`namespace/name`).

    They fit there once its pods have moved, or wait for room there and cannot run on any other node.
    """
    message: str = ""
    """kube-scheduler's message if `pod` fits nowhere, empty if there is another reason."""

    @classmethod
    def build(cls, evictable: int, moved: tuple[MovedPod, ...], blocker: Blocker | None) -> NodeTrial:
        """Return the result of a drain that ended at the blocker, or emptied the node if there is none."""
        if blocker is None:
            return cls(evictable, moved)
        return cls(evictable, moved, blocker.pod, blocker.why, message=blocker.message)

    @classmethod
    def kept_for(cls, pods: tuple[str, ...]) -> NodeTrial:
        """Return the result for a node that is kept untried, because pending pods cannot run on any other node."""
        wait = agreeing(len(pods), "pending pod waits", "pending pods wait")
        why = f"{len(pods):,} {wait} for room here and cannot run on any other node: {first_few(pods)}"
        return cls(0, (), why=why, lets_run=pods)


class _NeedsSeparateDrainError(Exception):
    """Raised if only a separate drain on the cordoned cluster can decide."""


@dataclass
class UndoableDrain(EmptyingDrain):
    """A drain that can be undone. It evicts only pods of the drained node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        view = self.simulation.view
        self.initial_pods = tuple(self.evictable)
        self.row = view.nodes.index[self.nodes[0]]
        self._cordoned = cordon_node(view.nodes.objects[self.row])
        self._closed = view.closed or ClosedNodes(len(view.nodes))
        self._reservations_before = self._get_reservations()

    def run(self, done: Callable[[int], None] = lambda number: None) -> None:
        """Close the node and drain it. Raises _NeedsSeparateDrainError if preemption would have to be tried."""
        self._closed.close_node(self.row, self._cordoned)
        super().run(done)

    def undo(self) -> None:
        """Put all evicted pods back on the node and uncordon the node.

        Claims and volumes that were reserved stay reserved.
        """
        simulation, view = self.simulation, self.simulation.view
        for position in self.initial_pods:
            if view.node[position] == self.row:
                continue  # it was not evicted
            has_moved = view.has_node(position)
            if has_moved:
                simulation.take_back(position)
            view.assume(position, self.row)
            self._evictions.undo_eviction(position, recovered=has_moved)
            simulation.gone.discard(position)
        self._closed.open_node(self.row)

    @property
    def has_new_reservations(self) -> bool:
        """True if claims or volumes changed since the drain began."""
        return any(
            current is not earlier
            for current, earlier in zip(self._get_reservations(), self._reservations_before, strict=True)
        )

    def build_cluster_before(self) -> Cluster:
        """Return the cluster with the claims and volumes from before the drain."""
        claims, volumes, devices = self._reservations_before
        cluster = self.simulation.view.cluster
        return replace(cluster, persistent_volume_claims=claims, persistent_volumes=volumes, resource_claims=devices)

    def _get_reservations(self) -> tuple[AnyObject, AnyObject, AnyObject]:
        """Return the claims, volumes and device claims.

        Each of these objects is replaced when a reservation in it changes.
        """
        objects = self.simulation.view.objects
        return objects.of("PersistentVolumeClaim"), objects.of("PersistentVolume"), objects.of("ResourceClaim")

    # -- what keeps the node -----------------------------------------------------------------------------------------

    def _iter_immediate_blockers(self) -> Iterator[Blocker]:
        """Yield the pods that certainly keep the node.

        Pods that no other node can take are included.
        """
        yield from super()._iter_immediate_blockers()
        yield from self._iter_pods_without_target()

    def _iter_pods_without_target(self) -> Iterator[Blocker]:
        """Yield the pods that no other node can ever take.

        Such a pod makes the drain fail, so the drain need not be tried. Of several pods of equal demand without claims,
        only the first is checked.
        """
        view = self.simulation.view
        demands = view.pods.distinct.demand
        checked_demands = set[int]()
        for position in self.initial_pods:
            message = ""
            has_claims = uses_claims(self.simulation.get_shared_incoming_info(position), view)
            if has_claims:
                message = self._find_lasting_pre_filter_rejection(position)
            else:
                # Pods of equal demand fit on the same nodes, so one of them is enough.
                demand = int(demands[view.pods.info[position]])
                if demand not in checked_demands and not self._has_room_elsewhere(position):
                    message = self._find_lasting_rejection_elsewhere(position)
                checked_demands.add(demand)
            if message:
                yield Blocker.unplaceable(self._get_pod_key(position), message)

    def _has_room_elsewhere(self, position: Position) -> bool:
        """Return whether the filters that look at single nodes accept the pod on another node."""
        framework = self.simulation.get_required_framework(position)
        is_feasible = self.simulation.placements.find_locally_feasible_mask(framework, position)
        is_feasible[self.row] = False
        return bool(is_feasible.any())

    def _find_lasting_pre_filter_rejection(self, position: Position) -> str:
        """Return the message of a PreFilter that rejects the pod whatever other pods do, or "" if none does.

        Also return "" for a pod with resource claims, since other pods may free devices.
        """
        view = self.simulation.view
        info = self.simulation.build_arriving_info(position)
        framework = self.simulation.get_required_framework(position)
        pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, view)
        may_devices_become_free = bool(info.spec.resource_claims)
        if may_devices_become_free or not pre_filter.status.rejected:
            return ""
        if not is_pre_filter_rejection_lasting(pre_filter, framework):
            return ""
        message = format_pre_filter_rejection(view.nodes_in_placement, pre_filter.status)
        return message.removesuffix(".")

    def _find_lasting_rejection_elsewhere(self, position: Position) -> str:
        """Return the message that says that no other node can ever take the pod, or "" if one may.

        The node is cordoned only during this check.
        """
        self._closed.close_node(self.row, self._cordoned)
        try:
            return self._find_lasting_rejection(position)
        finally:
            self._closed.open_node(self.row)

    def _attempt_with_preemption(self, position: Position) -> Outcome:
        """Raise _NeedsSeparateDrainError, since preemption cannot be undone."""
        raise _NeedsSeparateDrainError

    def _run_queue(self) -> None:
        """Raise _NeedsSeparateDrainError if pods wait in the queue."""
        if self._find_waiting_pods():
            raise _NeedsSeparateDrainError


class _SharedState(NamedTuple):
    """The simulation that drains share. Emptied nodes are closed in it or, in its snapshot, cordoned."""

    simulation: Simulation
    evictions: Evictions
    closed: ClosedNodes
    """The nodes that are closed in the simulation."""

    @classmethod
    def from_view(cls, scheduler: Scheduler, view: Fork) -> _SharedState:
        """Return the state for a view, with no nodes closed."""
        simulation = Simulation(scheduler, view)
        view.closed = ClosedNodes(len(view.nodes))
        return cls(simulation, Evictions(simulation), view.closed)


class DrainsInTurn:
    """Trial drains on a copy of a fork, each in the cluster that the earlier successful drains left."""

    def __init__(self, scheduler: Scheduler, view: Fork) -> None:
        self.scheduler = scheduler
        self._initial_view = view
        self._state = _SharedState.from_view(scheduler, view.fork())
        self._latest: UndoableDrain | _SharedState | None = None
        """The drain, or the earlier state, by which the last drain can be undone."""
        self._unknown: list[tuple[UnknownKind, ...]] = []
        self._dependencies: dict[Dependency, None] = {}
        self._can_share: dict[int, bool] = {}

    @property
    def simulation(self) -> Simulation:
        """The simulation that drains share at the moment."""
        return self._state.simulation

    @property
    def view(self) -> Fork:
        """The cluster after the successful drains. Drained nodes take no more pods."""
        return self.simulation.view

    @property
    def unknown(self) -> tuple[UnknownKind, ...]:
        """The unread data that the drains depend on."""
        return merge_unknown_kinds(
            [*self._unknown, find_simulation_unknowns(self._state.simulation, *self._dependencies)]
        )

    def drain_node(self, row: Row) -> NodeTrial:
        """Drain one more node as `kschedctl drain` does, and undo the drain unless it empties the node.

        A drain empties its node only if no pod is lost, preempted or left without a node. A separate simulation is used
        if cordoning the node could affect other pods, if no pod runs on the node, or if a plugin fails, because the
        shared simulation could then give another answer. Raises KeyboardInterrupt if the simulation was interrupted.
        """
        drain = UndoableDrain(self._state.simulation, [self.view.nodes.names[row]], evictions=self._state.evictions)
        self._dependencies.update(dict.fromkeys(drain.dependencies))
        can_share_simulation = bool(drain.initial_pods) and all(map(self._can_share_simulation, drain.initial_pods))
        if not can_share_simulation:
            return self._drain_separately(row)
        self._latest = drain  # the drain that undo() undoes
        try:
            return self._try_drain(drain)
        except (_NeedsSeparateDrainError, PluginError):
            self.undo()
            return self._drain_separately(row)
        except KeyboardInterrupt:
            self.undo()
            raise

    def remove_empty_nodes(self, rows: Sequence[Row]) -> None:
        """Cordon nodes on which nothing has to move, so that no pod of a later drain moves there."""
        if rows:
            cordoned = {row: cordon_node(self.view.nodes.objects[row]) for row in rows}
            view = self.view.with_changes(self.view.cluster, {**self._state.closed.cordoned, **cordoned})
            self._switch_state(_SharedState.from_view(self.scheduler, view))

    def drain_node_unless_pending_pods_fit(self, row: Row, pending: Sequence[Position]) -> NodeTrial:
        """Drain one more node, and undo the drain if it does not empty the node or if the empty node fits pending pods.

        `pending` has the positions of the pending pods. The result says why the drain was undone. Raises
        KeyboardInterrupt if the simulation was interrupted.
        """
        trial = self.drain_node(row)
        if trial.why or not trial.moved:
            return trial  # the drain failed and is already undone, or no pod moved, so that the node has no new room
        pods = self._find_pods_fitting_once_empty(row, pending)
        if not pods:
            return trial
        self.undo()
        fit = f"{counted(len(pods), 'pending pod')} {agreeing(len(pods), 'fits', 'fit')}"
        moved = f"its {counted(len(trial.moved), 'pod')} {agreeing(len(trial.moved), 'has', 'have')} moved"
        return trial._replace(why=f"{fit} on it once {moved}: {first_few(pods)}", lets_run=pods)

    def _find_pods_fitting_once_empty(self, row: Row, pending: Sequence[Position]) -> tuple[str, ...]:
        """Return the keys of the pending pods that would run on the node that was just drained if it were kept.

        Pods of DaemonSets and static pods are ignored, since a removed node needs no pod. What makes the result
        uncertain is recorded. Raises KeyboardInterrupt if the simulation was interrupted.
        """
        pods = self.view.pods.objects
        waiting = [
            position
            for position in pending
            if not self.view.has_node(position) and find_owner(pods[position]).kind not in KINDS_NOT_EVICTED
        ]
        if not waiting:
            return ()
        # Most pods need no replay, because they request more than is free on the node
        free = compute_free_resources(self.view)[row]
        has_room = np.all(self.view.get_requests(waiting) <= free, axis=1)
        if not has_room.any():
            return ()
        nodes = {**self._state.closed.cordoned, row: self._initial_view.nodes.objects[row]}
        view = self.view.with_changes(self.view.cluster, nodes)
        simulation = Simulation(self.scheduler, view, preemption=False)
        outcomes = simulation.schedule_or_raise_interrupt(waiting)
        fitting = tuple(pods[outcome.position].key for outcome in outcomes if outcome.row == row)
        if fitting:
            self._unknown.append(find_simulation_unknowns(simulation))
        return fitting

    def replay_drain(self, row: Row, targets: Mapping[Position, Row]) -> None:
        """Repeat, in this simulation, a drain that emptied the node in another simulation.

        Evict the node's pods, and bind the pods in `targets` to their target rows, in this order. The other evicted
        pods are not placed again. A node without pods to evict is only cordoned.
        """
        simulation, evictions, closed = self._state
        cordoned = cordon_node(self.view.nodes.objects[row])
        drain = UndoableDrain(simulation, [self.view.nodes.names[row]], evictions=evictions)
        if not drain.initial_pods:
            view = self.view.with_changes(self.view.cluster, {**closed.cordoned, row: cordoned})
            self._switch_state(_SharedState.from_view(self.scheduler, view))
            return

        closed.close_node(row, cordoned)
        for position, target in targets.items():
            evictions.evict(position)
            simulation.gone.discard(position)
            simulation.bind(position, target)
            evictions.record_recovery(position)
        for position in drain.initial_pods:
            if position not in targets:
                evictions.evict(position)

    def undo(self) -> None:
        """Undo the last drain. Further calls do nothing until the next drain.

        If the drain reserved claims or volumes, a new simulation is started.
        """
        latest = self._latest
        self._latest = None
        if latest is None:
            return
        if isinstance(latest, _SharedState):  # the drain used a separate simulation: return to the earlier one
            self._switch_state(latest)
            return
        latest.undo()
        if latest.has_new_reservations:
            view = self.view.with_changes(latest.build_cluster_before(), self._state.closed.cordoned)
            self._switch_state(_SharedState.from_view(self.scheduler, view))

    def _try_drain(self, drain: UndoableDrain) -> NodeTrial:
        """Run a drain, and undo it if it does not empty the node. Return the trial with its moves and the blocker.

        Raises _NeedsSeparateDrainError or PluginError if the drain cannot use the shared simulation, and
        KeyboardInterrupt if the simulation was interrupted.
        """
        simulation = self.simulation
        simulation.placements.random.seed(0)  # so that the result equals that of a separate simulation
        blocker = drain.run_until_blocked()
        if simulation.interrupted:
            simulation.interrupted = False  # the simulation is used again
            raise KeyboardInterrupt
        trial = NodeTrial.build(len(drain.initial_pods), tuple(iter_moved_pods(drain)), blocker)
        if blocker is not None:
            self.undo()
        return trial

    def _drain_separately(self, row: Row) -> NodeTrial:
        """Drain the node in a separate simulation of the cordoned cluster.

        If the node is emptied, later drains continue with this simulation. Raises KeyboardInterrupt if the simulation
        was interrupted.
        """
        cordoned = {**self._state.closed.cordoned, row: cordon_node(self.view.nodes.objects[row])}
        simulation = Simulation(self.scheduler, self.view.with_changes(self.view.cluster, cordoned))
        drain = EmptyingDrain(simulation, [self.view.nodes.names[row]])
        evictable_count = len(drain.evictable)  # the drain itself removes pods from this list
        blocker = drain.run_until_blocked()
        if simulation.interrupted:
            raise KeyboardInterrupt
        self._unknown.append(find_simulation_unknowns(simulation, *drain.dependencies))
        if blocker is None:
            self._latest = self._state
            self._switch_state(_SharedState.from_view(self.scheduler, simulation.view))
        return NodeTrial.build(evictable_count, tuple(iter_moved_pods(drain)), blocker)

    def _switch_state(self, state: _SharedState) -> None:
        """Continue with another state, and keep the unknowns of the old one."""
        self._unknown.append(find_simulation_unknowns(self._state.simulation, *self._dependencies))
        self._state = state

    def _can_share_simulation(self, position: Position) -> bool:
        """Return whether the pod can be drained in the simulation that several drains share.

        It can if a cordon certainly does nothing to the pod but keep it off its own node. The result is cached by
        PodInfo.
        """
        info_number = int(self.view.pods.info[position])
        if info_number not in self._can_share:
            self._can_share[info_number] = self._cordon_affects_only_its_node(position)
        return self._can_share[info_number]

    def _cordon_affects_only_its_node(self, position: Position) -> bool:
        """Return whether a cordon certainly does nothing to the pod but keep it off the cordoned node.

        The filter and score plugins of the pod's profile decide. The result is False for pods that no profile serves,
        pods of gangs, and profiles with extenders or third-party plugins.
        """
        simulation = self.simulation
        framework = simulation.find_framework(position)
        if framework is None or framework.extenders or simulation.gangs.find_group_key(position) is not None:
            return False
        if not framework.plugins.keys() <= IN_TREE.keys():
            return False
        filters, scorers = framework.plugins_at("filter"), framework.plugins_at("score")
        return does_cordon_affect_only_its_node(filters, scorers, simulation.get_shared_incoming_info(position))
