"""Trial drains of one node after the other, each in the cluster that the earlier successful drains left.

A drain that does not empty its node is undone. All drains share one simulation and thereby its cached results for equal
pods. In this simulation a node is closed rather than cordoned. If a cordon could have another effect on one of the pods
than to keep it off the node, or if preemption has to be tried, the drain is run separately on the cordoned cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.emptying_drain import EmptyingDrain, is_pre_filter_rejection_lasting
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.edits import cordon_node
from kschedctl.replay.node_drain import report_moved_pods
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.placements import MovedPod
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.diagnosis import format_pre_filter_rejection
from kschedctl.scheduler.engine.pre_filter import run_pre_filter
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import PluginError, has_only_local_cordon_effect
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.registry.in_tree import IN_TREE
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.changed_nodes import ClosedNodes
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import AnyObject


class NodeTrial(NamedTuple):
    """The result of a trial drain of one node."""

    evictable: int
    """The number of pods that had to be evicted."""
    moved: tuple[MovedPod, ...]
    pod: str = ""
    """The first pod that keeps the node from being emptied (`namespace/name`), empty if there is none."""
    why: str = ""
    """The reason why that pod cannot leave, empty if the node was emptied."""


class _NeedsSeparateDrainError(Exception):
    """Raised if only a separate drain on the cordoned cluster can decide."""


@dataclass
class UndoableDrain(EmptyingDrain):
    """A drain that can be undone, and that evicts only pods of its own node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        view = self.simulation.view
        self.all_pods = tuple(self.evictable)
        self.row = view.nodes.index[self.nodes[0]]
        self._cordoned = cordon_node(view.nodes.objects[self.row])
        self._closed = view.closed or ClosedNodes(len(view.nodes))
        self._claims = self._get_reservations()

    def run(self, done: Callable[[int], None] = lambda number: None) -> None:
        """Close the node and drain it. Raises _NeedsSeparateDrainError if preemption would have to be tried."""
        self._closed.close(self.row, self._cordoned)
        super().run(done)

    def undo(self) -> None:
        """Put all pods back on the node and open it. Claims and volumes that were reserved stay reserved."""
        simulation, view = self.simulation, self.simulation.view
        for position in self.all_pods:
            if view.node[position] == self.row:
                continue
            is_running = bool(view.node[position] >= 0)
            if is_running:
                simulation.take_back(position)
            view.assume(position, self.row)
            self._evictions.undo_eviction(position, runs=is_running)
            simulation.gone.discard(position)
        self._closed.open(self.row)

    @property
    def has_new_reservations(self) -> bool:
        """Whether claims or volumes changed since the drain began."""
        return any(
            current is not earlier for current, earlier in zip(self._get_reservations(), self._claims, strict=True)
        )

    def build_cluster_before(self) -> Cluster:
        """Return the cluster with the claims and volumes from before the drain."""
        claims, volumes, devices = self._claims
        cluster = self.simulation.view.cluster
        return replace(cluster, persistent_volume_claims=claims, persistent_volumes=volumes, resource_claims=devices)

    def _get_reservations(self) -> tuple[AnyObject, AnyObject, AnyObject]:
        """Return the claims, volumes and device claims, as tuples that are replaced when an object changes."""
        get_objects = self.simulation.view.objects.of
        return get_objects("PersistentVolumeClaim"), get_objects("PersistentVolume"), get_objects("ResourceClaim")

    # -- what keeps the node -----------------------------------------------------------------------------------------

    def _iter_immediate_blockers(self) -> Iterator[tuple[str, str]]:
        """Yield the pods that keep the node in any case, with the reasons."""
        yield from super()._iter_immediate_blockers()
        yield from self._iter_pods_without_target()

    def _iter_pods_without_target(self) -> Iterator[tuple[str, str]]:
        """Yield the pods that no other node can ever take, with the reasons.

        These reasons only get worse while nodes fill up.
        """
        simulation, checked_demands = self.simulation, set[int]()
        view = simulation.view
        for position in self.all_pods:
            info, demand = simulation.incoming(position), int(view.pods.distinct.demand[view.pods.info[position]])
            if uses_claims(info, view):
                reason = self._find_lasting_pre_filter_rejection(position)
            else:
                reason = (
                    self._find_lasting_rejection_elsewhere(position)
                    if demand not in checked_demands and not self._has_room_elsewhere(position)
                    else ""
                )
                checked_demands.add(demand)
            if reason:
                yield self._get_pod_key(position), reason

    def _has_room_elsewhere(self, position: Position) -> bool:
        """Return whether another node may have room for the pod."""
        rows = self.simulation.placements.find_locally_feasible(self.simulation.require_framework(position), position)
        rows[self.row] = False
        return bool(rows.any())

    def _find_lasting_pre_filter_rejection(self, position: Position) -> str:
        """Return why a PreFilter rejects a pod with claims independently of other pods, empty if none does."""
        info, framework = self.simulation.arriving(position), self.simulation.require_framework(position)
        pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, self.simulation.view)
        if (
            not pre_filter.status.rejected
            or info.spec.resource_claims
            or not is_pre_filter_rejection_lasting(pre_filter, framework)
        ):
            return ""
        message = format_pre_filter_rejection(self.simulation.view.nodes_in_placement, pre_filter.status)
        return f"{self._get_pod_key(position)}: {message.removesuffix('.')}"

    def _find_lasting_rejection_elsewhere(self, position: Position) -> str:
        """Return why no other node can ever take the pod, empty if that is not certain."""
        self._closed.close(self.row, self._cordoned)
        try:
            return self._find_lasting_rejection(position)
        finally:
            self._closed.open(self.row)

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
        """The cluster after the drains that emptied their nodes, which take no more pods."""
        return self.simulation.view

    @property
    def unknown(self) -> tuple[UnknownKind, ...]:
        """The unread data that the drains depend on."""
        return merge_unknown_kinds(
            [*self._unknown, find_simulation_unknowns(self._state.simulation, *self._dependencies)]
        )

    def drain_node(self, row: Row) -> NodeTrial:
        """Drain one more node as `kschedctl drain` does, and undo the drain unless it empties the node.

        A drain empties its node only if no pod is lost, preempted or left without a node.
        """
        simulation, evictions, _ = self._state
        drain = UndoableDrain(simulation, [self.view.nodes.names[row]], evictions=evictions)
        self._dependencies.update(dict.fromkeys(drain.dependencies))
        if not (drain.all_pods and all(map(self._can_share_simulation, drain.all_pods))):
            return self._drain_separately(row)
        self._latest = drain
        try:
            return self._try_drain(drain)
        except (_NeedsSeparateDrainError, PluginError):
            self.undo()
            return self._drain_separately(row)
        except KeyboardInterrupt:
            self.undo()
            raise

    def replay_drain(self, row: Row, targets: Mapping[Position, Row]) -> None:
        """Repeat a drain that emptied a node elsewhere.

        Moves its pods to the target rows in order, and drops the others.
        """
        simulation, evictions, closed = self._state
        cordoned = cordon_node(self.view.nodes.objects[row])
        drain = UndoableDrain(simulation, [self.view.nodes.names[row]], evictions=evictions)
        if not drain.all_pods:
            nodes = {**closed.cordoned, row: cordoned}
            self._switch_state(_SharedState.from_view(self.scheduler, self.view.with_changes(self.view.cluster, nodes)))
            return
        closed.close(row, cordoned)
        for position in (*targets, *(position for position in drain.all_pods if position not in targets)):
            evictions.evict(position)
            if position in targets:
                simulation.gone.discard(position)
                simulation.bind(position, targets[position])
                evictions.count_recovery(position)

    def undo(self) -> None:
        """Undo the last drain."""
        latest, self._latest = self._latest, None
        if isinstance(latest, _SharedState):
            self._switch_state(latest)
        elif latest is not None:
            latest.undo()
            if latest.has_new_reservations:
                view = self.view.with_changes(latest.build_cluster_before(), self._state.closed.cordoned)
                self._switch_state(_SharedState.from_view(self.scheduler, view))

    def _try_drain(self, drain: UndoableDrain) -> NodeTrial:
        """Run a drain and undo it if it does not empty the node. Raises _NeedsSeparateDrainError or PluginError."""
        simulation = self.simulation
        simulation.placements.random.seed(0)
        pod, reason = drain.run_until_blocked()
        if simulation.interrupted:
            simulation.interrupted = False
            raise KeyboardInterrupt
        trial = NodeTrial(len(drain.all_pods), tuple(report_moved_pods(drain)), pod, reason)
        if reason:
            self.undo()
        return trial

    def _drain_separately(self, row: Row) -> NodeTrial:
        """Drain the node in a separate simulation of the cordoned cluster."""
        names, cordoned = self.view.nodes.names, dict(self._state.closed.cordoned)
        cordoned[row] = cordon_node(self.view.nodes.objects[row])
        simulation = Simulation(self.scheduler, self.view.with_changes(self.view.cluster, cordoned))
        drain = EmptyingDrain(simulation, [names[row]])
        evictable = len(drain.evictable)
        pod, reason = drain.run_until_blocked()
        if simulation.interrupted:
            raise KeyboardInterrupt
        self._unknown.append(find_simulation_unknowns(simulation, *drain.dependencies))
        if not reason:
            self._latest = self._state
            self._switch_state(_SharedState.from_view(self.scheduler, simulation.view))
        return NodeTrial(evictable, tuple(report_moved_pods(drain)), pod, reason)

    def _switch_state(self, state: _SharedState) -> None:
        """Continue with another state, and keep the unknowns of the old one."""
        self._unknown.append(find_simulation_unknowns(self._state.simulation, *self._dependencies))
        self._state = state

    def _can_share_simulation(self, position: Position) -> bool:
        """Return whether the pod can be drained in the shared simulation. The result is cached by PodInfo."""
        number = int(self.view.pods.info[position])
        if number not in self._can_share:
            self._can_share[number] = self._is_cordon_only_rejection(position)
        return self._can_share[number]

    def _is_cordon_only_rejection(self, position: Position) -> bool:
        """Return whether a cordon has no effect on the pod except to keep it off the node."""
        simulation = self.simulation
        framework, info = simulation.framework(position), simulation.incoming(position)
        if framework is None or framework.extenders or simulation.gangs.find_group_key(position) is not None:
            return False
        in_tree = framework.plugins.keys() <= IN_TREE.keys()
        return in_tree and has_only_local_cordon_effect(
            framework.plugins_at("filter"), framework.plugins_at("score"), info
        )
