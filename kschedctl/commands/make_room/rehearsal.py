"""A replay in which pods move one by one according to a plan, each to the node that kube-scheduler chooses.

The node that a pod leaves is cordoned during evictions from it, and a node that is emptied for the target pods is
cordoned from the beginning: no replacement returns to where room is made, whenever its controller creates it. A step is
taken only if budgets allow it and the pod gets a node at once, without preemption.

Evicted pods may still be terminating while kube-scheduler tries their replacements. Their node is cordoned, so their
requests keep no pod away, but pods with affinity or anti-affinity by zone count them, whereas spread constraints do
not. Upstream: interpodaffinity, and countPodsMatchSelector of podtopologyspread, in pkg/scheduler/framework/plugins
(v1.36).

Meanwhile waiting pods are in the queue. A step may wake them, and nothing decides whether they are tried before or
after the replacement, so plans are replayed in both orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Node
from kschedctl.commands.make_room.waiting import WaitingPodsOfPlan
from kschedctl.replay.controllers.eviction import (
    Evictions,
    ObjectNames,
    build_terminating_pod,
    find_jobs_awaiting_termination,
    may_terminate_during_rescheduling,
)
from kschedctl.replay.edits import change_pods, cordon_node
from kschedctl.replay.settling import build_resulting_cluster, recreate_gone_pods
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full


class PlayedMove(NamedTuple):
    """A replayed move of a pod from one node to another."""

    position: Position
    source: Row
    target: Row
    tied: int
    """The number of equally good targets."""


@dataclass(frozen=True)
class Rehearsal:
    """A cluster in which a plan is being replayed."""

    scheduler: Scheduler
    view: Fork
    """The current state."""
    nodes: Sequence[Node]
    """The nodes as they are without the plan."""
    cordoned: frozenset[Row] = frozenset()
    """The nodes that the plan keeps cordoned at the moment."""
    seed: int = 0
    """Decides between equally good nodes."""
    waiting: tuple[Position, ...] = ()
    """Pods that are tried whenever something has changed."""
    waiting_first: bool = False
    """True if waiting pods are tried before the replacement."""
    lingering: Mapping[Position, Position] = field(default_factory=dict)
    """Pods that terminate slowly -> the position that each has while it terminates."""
    waiting_pods: WaitingPodsOfPlan | None = None
    """Tells which waiting pods need not be tried while nodes are cordoned, if it is known."""

    def with_cordoned(self, rows: frozenset[Row]) -> Rehearsal:
        """Return a copy in which the plan keeps exactly the nodes in these rows cordoned.

        Nodes that the plan had cordoned before get their original state back.
        """
        changes = {row: self.nodes[row] for row in self.cordoned - rows}
        changes |= {row: cordon_node(self.nodes[row]) for row in rows - self.cordoned}
        view = self.view.with_changes(self.view.cluster, changes) if changes else self.view.fork()
        return replace(self, view=view, cordoned=rows)

    def fork(self) -> Rehearsal:
        """Return an independent copy of the current state."""
        return replace(self, view=self.view.fork())

    def without_placement(self, position: Position) -> Rehearsal:
        """Return a copy in which the pod has left its node and waits for another."""
        stage = self.fork()
        stage.build_simulation().remove([position])
        return stage

    def build_simulation(self) -> Simulation:
        """Build a simulation that changes the current state."""
        return Simulation(self.scheduler, self.view, seed=self.seed)

    def _build_simulation_without_preemption(self) -> Simulation:
        """Build a simulation that changes the current state and in which no pod preempts another."""
        return Simulation(self.scheduler, self.view, seed=self.seed, preemption=False)

    def fits_no_waiting_pod(self) -> bool:
        """Return whether no waiting pod fits in the current state without preemption. The state does not change."""
        tried = self.fork()
        if tried._unplaced:
            tried._schedule_waiting_pods(tried._build_simulation_without_preemption())
        has_placed_a_pod = len(tried.view.trail) > len(self.view.trail)  # a placement extends the trail
        return not has_placed_a_pod

    def move_pods(self, positions: Sequence[Position], *, no_waiting_pod_fits: bool = False) -> list[PlayedMove]:
        """Evict the pods one after the other, and return the moves.

        Each replacement must get a node before the next pod is evicted. Waiting pods are scheduled first and in
        between. They are not scheduled first if the caller knows that none of them fits. There are fewer moves than
        pods if the replay stops early: at a pod without a node, at a denied eviction, or at a replacement that gets no
        node without preemption.
        """
        simulation = self._build_simulation_without_preemption()
        evictions = Evictions(simulation)
        moved: list[PlayedMove] = []
        if not no_waiting_pod_fits:
            self._schedule_waiting_pods(simulation)
        for position in positions:
            if not self.view.has_node(position) or evictions.find_denial(position):
                break
            source = Row(int(self.view.node[position]))
            evictions.evict(position)
            outcome = self._place_replacement(simulation, position, source)
            if outcome is None or not outcome.is_placed or outcome.victims:
                break
            evictions.record_recovery(position)
            moved.append(PlayedMove(position, source, outcome.row, outcome.tied))
            self._schedule_waiting_pods(simulation)
        return moved

    def _place_replacement(self, simulation: Simulation, position: Position, source: Row) -> Outcome | None:
        """Schedule the replacement of a pod that was evicted from the node `source`, and return the outcome.

        If the evicted pod lingers while it terminates, its replacement is first tried beside it, and may preempt other
        pods. If the replacement is not attempted at that time, it is tried once the evicted pod is gone. Return None if
        the evicted pod does not linger and is not recreated.
        """
        terminating_position = self.lingering.get(position)
        if terminating_position is not None:
            self.view.assume(terminating_position, source)
        if self.waiting_first:
            self._schedule_waiting_pods(simulation)
        is_recreated = bool(recreate_gone_pods(simulation, [position]))
        if terminating_position is None:
            return simulation.attempt_pod(position) if is_recreated else None

        outcome = None
        if is_recreated:
            simulation.preemption = True
            outcome = simulation.attempt_pod(position)
            simulation.preemption = False
        self.view.forget(terminating_position)
        return outcome or simulation.attempt_pod(position)

    def _schedule_waiting_pods(self, simulation: Simulation) -> None:
        """Schedule the waiting pods that have no node yet, without preemption if it is off in the simulation.

        Pods that certainly fit nowhere are not tried. Whether waiting pods would preempt is checked at the end of the
        plan.
        """
        pods_to_try = self._select_pods_that_may_fit(self._unplaced)
        if pods_to_try:
            simulation.schedule_or_raise_interrupt(pods_to_try)

    @property
    def _unplaced(self) -> list[Position]:
        """The waiting pods that have no node yet."""
        return [position for position in self.waiting if not self.view.has_node(position)]

    def may_fit_all(self, positions: Sequence[Position]) -> bool:
        """Return False if one of these waiting pods has no node and certainly fits nowhere without preemption."""
        unplaced_pods = [position for position in positions if not self.view.has_node(position)]
        return len(self._select_pods_that_may_fit(unplaced_pods)) == len(unplaced_pods)

    def _select_pods_that_may_fit(self, positions: list[Position]) -> list[Position]:
        """Return the waiting pods without those that certainly fit nowhere without preemption."""
        if self.waiting_pods is None:
            return positions
        return self.waiting_pods.select_pods_that_may_fit(positions, self.view, self.cordoned)

    def place_all_waiting_pods(self) -> dict[Position, Row] | None:
        """Schedule the waiting pods, and map each to the row of its node, or to -1 if it gets no node.

        Return None if one of the pods would preempt other pods. Pods may have been placed even then.
        """
        outcomes = self.build_simulation().schedule_or_raise_interrupt(self._unplaced)
        if any(outcome.victims for outcome in outcomes):
            return None
        return {position: Row(int(self.view.node[position])) for position in self.waiting}


class PlayedPlan(NamedTuple):
    """The result of replaying a plan."""

    stage: Rehearsal
    """The cluster after the plan."""
    moves: list[PlayedMove]


def count_safe_moves(stage: Rehearsal, pod_set: Sequence[Position], emptied: frozenset[Row]) -> int:
    """Return how many pods of one node can move in this order before a step is not safe.

    The `emptied` nodes, which include the pods' node, are cordoned during the moves.
    """
    return len(stage.with_cordoned(emptied).move_pods(pod_set))


def replay_plan(stage: Rehearsal, plan: Sequence[Position], emptied: frozenset[Row]) -> PlayedPlan | None:
    """Replay a plan while the `emptied` nodes are cordoned, or return None if a step is not safe."""
    return PlanReplays(stage).replay(plan, emptied)


class MovesFromNode(NamedTuple):
    """Successive moves of a plan from one node, which is cordoned meanwhile."""

    source: Row
    positions: tuple[Position, ...]
    """The pods that move, in order."""


class StageBeforeMoves(NamedTuple):
    """A stage in which pods are about to be evicted from a node."""

    stage: Rehearsal
    no_waiting_pod_fits: bool
    """True if no waiting pod fits in this stage."""


MAX_CACHED_PODS = 4_000_000
"""The maximum number of pods in all cached stages together, which limits memory."""
MIN_CACHED_STAGES = 8
"""The minimum number of cached stages, however many pods each has."""
_Beginning = tuple[tuple[MovesFromNode, ...], frozenset[Row]]
"""The moves with which a plan begins, and the nodes that are cordoned from the start."""


class PlanReplays:
    """Replays of plans from one stage. Plans that begin with the same moves share the replay of these moves."""

    def __init__(self, stage: Rehearsal) -> None:
        waiting_pods = WaitingPodsOfPlan(stage.fork().build_simulation(), stage.cordoned) if stage.waiting else None
        self._stage = replace(stage, waiting_pods=waiting_pods)
        self._max_stages = max(MAX_CACHED_PODS // max(len(stage.view.pods), 1), MIN_CACHED_STAGES)
        self._beginnings: dict[_Beginning, PlayedPlan | None] = {}
        """Moves with which plans begin and the emptied nodes -> the replay, or None if a step is not safe."""
        self._stages_before_moves: dict[tuple[object, frozenset[Row]], StageBeforeMoves] = {}
        """Beginning and the nodes that are then cordoned -> the stage in which the next pod is evicted."""

    def replay(self, plan: Sequence[Position], emptied: frozenset[Row]) -> PlayedPlan | None:
        """Replay a plan while the `emptied` nodes are cordoned.

        The `emptied` nodes are still cordoned in the result. Return None if a step is not safe.
        """
        node = self._stage.view.node
        moves = tuple(
            MovesFromNode(source, tuple(positions))
            for source, positions in groupby(plan, lambda position: Row(int(node[position])))
        )
        played = self._replay_moves(moves, emptied)
        if played is None:
            return None
        return played._replace(stage=played.stage.with_cordoned(emptied))

    def _replay_moves(self, moves: tuple[MovesFromNode, ...], emptied: frozenset[Row]) -> PlayedPlan | None:
        """Replay these moves, or return None if some pod cannot be moved safely.

        A move is not safe if the eviction is denied, or if the replacement gets no node without preemption. The nodes
        in `emptied` are cordoned from the start. The node of the last moves remains cordoned.
        """
        if not moves:
            return PlayedPlan(self._stage.with_cordoned(emptied), moves=[])
        *earlier_moves, last_moves = moves
        beginning = tuple(earlier_moves), emptied
        before = self._replay_beginning(beginning)
        if before is None:
            return None

        stage, no_waiting_pod_fits = self._prepare_stage(before, beginning, cordoned=emptied | {last_moves.source})
        after = stage.fork()
        moved = after.move_pods(last_moves.positions, no_waiting_pod_fits=no_waiting_pod_fits)
        if len(moved) < len(last_moves.positions):
            return None
        return PlayedPlan(after, before.moves + moved)

    def _replay_beginning(self, beginning: _Beginning) -> PlayedPlan | None:
        """Replay the beginning of a plan. The result is cached, since plans often begin with the same moves."""
        if beginning not in self._beginnings:
            drop_oldest_if_full(self._beginnings, self._max_stages)
            self._beginnings[beginning] = self._replay_moves(*beginning)
        return self._beginnings[beginning]

    def _prepare_stage(self, before: PlayedPlan, beginning: _Beginning, cordoned: frozenset[Row]) -> StageBeforeMoves:
        """Return the cached stage after the replay `before` of a beginning, with the `cordoned` nodes cordoned."""
        # Without earlier moves, the stage depends only on the nodes that are cordoned
        earlier_moves, _ = beginning
        key = (beginning if earlier_moves else None), cordoned
        if key not in self._stages_before_moves:
            drop_oldest_if_full(self._stages_before_moves, self._max_stages)
            stage = before.stage.with_cordoned(cordoned)
            self._stages_before_moves[key] = StageBeforeMoves(stage, stage.fits_no_waiting_pod())
        return self._stages_before_moves[key]


class PlanCourse(NamedTuple):
    """A plan to replay for a unit of pods, while other pods wait."""

    stage: Rehearsal
    """The cluster before the plan."""
    unit: tuple[Position, ...]
    """The pods for which room is made."""
    others: tuple[Position, ...]
    """Other waiting pods."""
    plan: tuple[Position, ...]
    """The pods to evict, in order."""


def add_terminating_pods(course: PlanCourse) -> PlanCourse | None:
    """Return the course in a cluster where evicted pods still terminate when their replacements are tried.

    Return None if no evicted pod may linger in a way that affects its replacement.
    """
    stage, view = course.stage, course.stage.view
    waiting_jobs = find_jobs_awaiting_termination(view.cluster)
    lingering = [position for position in course.plan if _may_affect_replacement(view, position, waiting_jobs)]
    if not lingering:
        return None
    terminating = {
        position: build_terminating_pod(view.pods.objects[position], _get_node_name(view, position))
        for position in lingering
    }

    # A cluster with the terminating pods, which are on no node until their originals are evicted.
    added_pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in terminating.values()}
    cluster = change_pods(build_resulting_cluster(stage.build_simulation()), added_pods)
    scheduler = Scheduler(cluster, stage.scheduler.call_extender)
    later_view = scheduler.view.fork()
    index = later_view.pods.index
    for pod in terminating.values():
        later_view.forget(index[pod.key])

    def map_positions(positions: Sequence[Position]) -> tuple[Position, ...]:
        """Return the positions of the pods in the new cluster."""
        return tuple(index[view.pods.objects[position].key] for position in positions)

    terminating_positions = {
        index[view.pods.objects[position].key]: index[pod.key] for position, pod in terminating.items()
    }
    later_stage = Rehearsal(
        scheduler, later_view, later_view.nodes.objects, seed=stage.seed, lingering=terminating_positions
    )
    return PlanCourse(
        later_stage,
        unit=map_positions(course.unit),
        others=map_positions(course.others),
        plan=map_positions(course.plan),
    )


def _may_affect_replacement(view: Fork, position: Position, waiting_jobs: ObjectNames) -> bool:
    """Return whether the pod may still be terminating when its replacement is placed, and affect it.

    The pod affects its replacement if the affinity or anti-affinity of the replacement matches the pod.
    """
    info = view.pods.get_info(position)
    if not may_terminate_during_rescheduling(info.pod, waiting_jobs):
        return False
    # The replacement has the same spec as the pod, so the pod's own terms are those of the replacement.
    terms_of_replacement = (
        *info.required_affinity,
        *info.required_anti_affinity,
        *info.preferred_affinity,
        *info.preferred_anti_affinity,
    )
    namespace_labels = view.namespace_labels.get(info.namespace, {})
    return any(term.matches(info.namespace, info.labels, namespace_labels) for term in terms_of_replacement)


def _get_node_name(view: Fork, position: Position) -> str:
    """Return the name of the pod's node."""
    return view.get_node_name(position)
