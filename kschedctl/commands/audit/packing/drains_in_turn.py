"""Nodes drained in turn, each on top of those that went: what a drain moved is put back where its node has to stay.

All drains share one simulation, and so what is known of pods alike. In it a node is closed, not cordoned: where a
cordon may mean more to one of the pods than that they cannot go there, or preemption has to be tried, the drain is run
by itself on the cordoned cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.emptying_drain import EmptyingDrain, refused_for_good
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.edits import cordon_node
from kschedctl.replay.node_drain import report_moved_pods
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.placements import MovedPod
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.messages import format_pre_filter_rejection
from kschedctl.scheduler.engine.pre_filter import run_pre_filter
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.cordons import cordon_only_rejects
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.registry.in_tree import IN_TREE
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.closed_nodes import ClosedNodes
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import AnyObject


class NodeTrial(NamedTuple):
    """A drain of one node: which pods it moved, and why it does not empty the node, if so.

    ``evictable``: how many had to go; ``pod``: the first one that keeps the node, ``namespace/name``.
    """

    evictable: int
    moved: tuple[MovedPod, ...]
    pod: str = ""
    why: str = ""


class _UnsureError(Exception):
    """Only a drain by itself tells."""


@dataclass
class RevocableDrain(EmptyingDrain):
    """A drain that can be put back: it evicts nobody but the pods of its node. Raises _UnsureError."""

    def __post_init__(self) -> None:
        super().__post_init__()
        view = self.simulation.view
        self.all_pods = tuple(self.evictable)
        self.row = view.nodes.index[self.nodes[0]]
        self._cordoned = cordon_node(view.nodes.objects[self.row])
        self._closed = view.closed or ClosedNodes(len(view.nodes))
        self._claims = self._claims_now()

    def run(self, done: Callable[[int], None] = lambda number: None) -> None:
        self._closed.close(self.row, self._cordoned)
        super().run(done)

    def put_back(self) -> None:
        """All pods are on the node again, as if nothing had been tried, but for what was ``reserved``."""
        simulation, view = self.simulation, self.simulation.view
        for position in self.all_pods:
            if view.node[position] == self.row:
                continue
            runs = bool(view.node[position] >= 0)
            if runs:
                simulation.leave(position)
            view.assume(position, self.row)
            self._evictions.undo_eviction(position, runs=runs)
            simulation.gone.discard(position)
        self._closed.open(self.row)

    @property
    def reserved(self) -> bool:
        """Whether claims of pods, or volumes, are others than before."""
        return any(now is not known for now, known in zip(self._claims_now(), self._claims, strict=True))

    def before(self) -> Cluster:
        """The objects, with the claims that were there before."""
        claims, volumes, devices = self._claims
        cluster = self.simulation.view.cluster
        return replace(cluster, persistent_volume_claims=claims, persistent_volumes=volumes, resource_claims=devices)

    def _claims_now(self) -> tuple[AnyObject, AnyObject, AnyObject]:
        """All that is reserved for pods: of each kind a tuple, which is another one once an object of it is."""
        of = self.simulation.view.objects.of
        return of("PersistentVolumeClaim"), of("PersistentVolume"), of("ResourceClaim")

    # -- what keeps the node -----------------------------------------------------------------------------------------

    def _at_once(self) -> Iterator[tuple[str, str]]:
        yield from super()._at_once()
        yield from self._homeless()

    def _homeless(self) -> Iterator[tuple[str, str]]:
        """Pods that no other node takes as it is, for what only gets worse: none ever will."""
        simulation, asked = self.simulation, set[int]()
        view = simulation.view
        for position in self.all_pods:
            info, demand = simulation.incoming(position), int(view.pods.distinct.demand[view.pods.info[position]])
            if uses_claims(info, view):
                why = self._refused_at_once(position)
            else:
                why = self._closed_for_good(position) if demand not in asked and not self._roomy(position) else ""
                asked.add(demand)
            if why:
                yield self._key(position), why

    def _roomy(self, position: Position) -> bool:
        """Whether another node may have room."""
        rows = self.simulation.placements.find_locally_feasible(self.simulation.require_framework(position), position)
        rows[self.row] = False
        return bool(rows.any())

    def _refused_at_once(self, position: Position) -> str:
        """Why a PreFilter refuses a pod that has claims whatever pods there are, as it will when nodes are cordoned."""
        info, framework = self.simulation.arriving(position), self.simulation.require_framework(position)
        before = run_pre_filter(framework.plugins_at("preFilter"), info, self.simulation.view)
        if not before.status.rejected or info.spec.resource_claims or not refused_for_good(before, framework):
            return ""
        said = format_pre_filter_rejection(self.simulation.view.nodes_in_placement, before.status)
        return f"{self._key(position)}: {said.removesuffix('.')}"

    def _closed_for_good(self, position: Position) -> str:
        """Why no other node takes the pod."""
        self._closed.close(self.row, self._cordoned)
        try:
            return self._for_good(position)
        finally:
            self._closed.open(self.row)

    def _preempting(self, position: Position) -> Outcome:
        raise _UnsureError

    def _run_queue(self) -> None:
        if self._waiting_pods():
            raise _UnsureError


class _State(NamedTuple):
    """A simulation that drains share: nodes that went are closed in it, or cordoned in its snapshot."""

    simulation: Simulation
    evictions: Evictions
    closed: ClosedNodes

    @classmethod
    def of(cls, scheduler: Scheduler, view: Fork) -> _State:
        simulation = Simulation(scheduler, view)
        view.closed = ClosedNodes(len(view.nodes))
        return cls(simulation, Evictions(simulation), view.closed)


class DrainsInTurn:
    """Drains on a fork, each on top of those that emptied their nodes. The fork given stays as it is."""

    def __init__(self, scheduler: Scheduler, view: Fork) -> None:
        self.scheduler = scheduler
        self._state = _State.of(scheduler, view.fork())
        self._latest: RevocableDrain | _State | None = None
        """What puts the node back that was drained last."""
        self._unknown: list[tuple[UnknownKind, ...]] = []
        self._dependencies: dict[Dependency, None] = {}
        self._plain: dict[int, bool] = {}

    @property
    def simulation(self) -> Simulation:
        """The one that drains share now."""
        return self._state.simulation

    @property
    def view(self) -> Fork:
        """The cluster without what was moved away from the nodes that went, which take no more pods."""
        return self.simulation.view

    @property
    def unknown(self) -> tuple[UnknownKind, ...]:
        """What the drains lean on that was not read."""
        return merge_unknown_kinds(
            [*self._unknown, find_simulation_unknowns(self._state.simulation, *self._dependencies)]
        )

    def drained(self, row: Row) -> NodeTrial:
        """Drain one more node, as kschedctl drain does it. Nobody may be lost, evicted or left without a node.

        A node that cannot be emptied is as it was before.
        """
        simulation, evictions, _ = self._state
        draining = RevocableDrain(simulation, [self.view.nodes.names[row]], evictions=evictions)
        self._dependencies.update(dict.fromkeys(draining.dependencies))
        if not (draining.all_pods and all(map(self._are_plain, draining.all_pods))):
            return self._drained_alone(row)
        self._latest = draining
        try:
            return self._tried(draining)
        except (_UnsureError, PluginError):
            self.put_back()
            return self._drained_alone(row)
        except KeyboardInterrupt:
            self.put_back()
            raise

    def follow(self, row: Row, targets: Mapping[Position, Row]) -> None:
        """A node goes as a drain elsewhere emptied it: its pods to these rows, in this order, the others for good."""
        simulation, evictions, closed = self._state
        cordoned = cordon_node(self.view.nodes.objects[row])
        draining = RevocableDrain(simulation, [self.view.nodes.names[row]], evictions=evictions)
        if not draining.all_pods:
            nodes = {**closed.cordoned, row: cordoned}
            self._begin(_State.of(self.scheduler, self.view.with_changes(self.view.cluster, nodes)))
            return
        closed.close(row, cordoned)
        for position in (*targets, *(position for position in draining.all_pods if position not in targets)):
            evictions.evict(position)
            if position in targets:
                simulation.gone.discard(position)
                simulation.bind(position, targets[position])
                evictions.count_recovery(position)

    def put_back(self) -> None:
        """The node that was drained last stays, and its pods with it."""
        latest, self._latest = self._latest, None
        if isinstance(latest, _State):
            self._begin(latest)
        elif latest is not None:
            latest.put_back()
            if latest.reserved:
                view = self.view.with_changes(latest.before(), self._state.closed.cordoned)
                self._begin(_State.of(self.scheduler, view))

    def _tried(self, draining: RevocableDrain) -> NodeTrial:
        """Raises _UnsureError, PluginError."""
        simulation = self.simulation
        simulation.placements.random.seed(0)
        pod, why = draining.keeping()
        if simulation.interrupted:
            simulation.interrupted = False
            raise KeyboardInterrupt
        trial = NodeTrial(len(draining.all_pods), tuple(report_moved_pods(draining)), pod, why)
        if why:
            self.put_back()
        return trial

    def _drained_alone(self, row: Row) -> NodeTrial:
        """On the cordoned cluster, whatever that means to pods."""
        names, cordoned = self.view.nodes.names, dict(self._state.closed.cordoned)
        cordoned[row] = cordon_node(self.view.nodes.objects[row])
        simulation = Simulation(self.scheduler, self.view.with_changes(self.view.cluster, cordoned))
        draining = EmptyingDrain(simulation, [names[row]])
        evictable = len(draining.evictable)
        pod, why = draining.keeping()
        if simulation.interrupted:
            raise KeyboardInterrupt
        self._unknown.append(find_simulation_unknowns(simulation, *draining.dependencies))
        if not why:
            self._latest = self._state
            self._begin(_State.of(self.scheduler, simulation.view))
        return NodeTrial(evictable, tuple(report_moved_pods(draining)), pod, why)

    def _begin(self, state: _State) -> None:
        self._unknown.append(find_simulation_unknowns(self._state.simulation, *self._dependencies))
        self._state = state

    def _are_plain(self, position: Position) -> bool:
        """Whether a cordon means no more to such pods than that they cannot go there."""
        number = int(self.view.pods.info[position])
        if number not in self._plain:
            self._plain[number] = self._is_plain(position)
        return self._plain[number]

    def _is_plain(self, position: Position) -> bool:
        simulation = self.simulation
        framework, info = simulation.framework(position), simulation.incoming(position)
        if framework is None or framework.extenders or simulation.gangs.find_group_key(position) is not None:
            return False
        in_tree = framework.plugins.keys() <= IN_TREE.keys()
        return in_tree and cordon_only_rejects(framework.plugins_at("filter"), framework.plugins_at("score"), info)
