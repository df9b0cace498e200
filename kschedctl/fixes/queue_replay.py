"""Replay the scheduling queue with a fix: waiting pods are scheduled in order, and the target must get a node.

Nobody applies a fix at once, so the waiting pods that get a node without the fix get it first. The fix is then applied
to the cluster with these pods on their nodes.

If the unchanged cluster evicts no pod, only some pods are scheduled: those that get a node without the fix, and those
that the fix may affect. A fix may affect pods that fit on a node that it adds or changes, that depend on an object that
it edits, or that select pods whose places may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs

from kschedctl.api.arrays import NO_ROW, Amounts, Ints, Position, Rows, find_positions
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.fixes.ranking import QueueResult
from kschedctl.fixes.trial.changes import (
    EditedObject,
    ObjectReader,
    apply_fixes,
    build_object_reader,
    is_valid_update,
)
from kschedctl.fixes.trial.trials import RemedyTrial, apply_edits_to_cluster, build_changed_replicas, get_anti_affinity
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.controllers.target_pod import find_groups_of_pod
from kschedctl.replay.edits import ObjectKey, add_or_replace_pods, change_pods, is_made_up
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.placements import report_evictions
from kschedctl.replay.settling import (
    build_resulting_cluster,
    enable_pod_recreation,
    find_pods_still_pending,
    schedule_victims_until_stable,
)
from kschedctl.reports.placements import EvictedPod, FailedJob
from kschedctl.scheduler.engine.cycle import Filtering, run_pre_filter
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import PluginError, Reads, get_answer_dependency
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.reused_answers import preempts_only_lower_priority
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import match_tolerations
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo


class RunWithoutFix(NamedTuple):
    """The result of scheduling all waiting pods in the unchanged cluster."""

    node_by_pod: dict[str, str]
    """Names of the nodes by the keys of the pods that get them. A key is `namespace/name`."""
    victims_by_pod: dict[str, tuple[str, ...]]
    """Keys of the evicted pods by the keys of the pods for which they are evicted."""
    cluster: Cluster
    """The cluster with all these pods on their nodes, and without the evicted pods that get no other node."""
    evicted: tuple[EvictedPod, ...] = ()
    """Reports on all evictions, in order."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because of the evictions."""

    @property
    def evicts_pods(self) -> bool:
        """True if any pod is evicted."""
        return bool(self.victims_by_pod)


def replay_queue_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    """Try all waiting pods of the unchanged cluster, once for each view of a scheduler, and return the result."""
    run: RunWithoutFix = scheduler.view.memo(replay_queue_without_fix, lambda: _compute_run_without_fix(scheduler))
    return run


def _compute_run_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    """Schedule all waiting pods without a fix, and return which pods get a node and which pods are evicted."""
    simulation = enable_pod_recreation(Simulation(scheduler))
    waiting = find_pods_still_pending(simulation)
    _schedule_until_stable(simulation, waiting)
    return RunWithoutFix(
        _map_pods_to_nodes(simulation, waiting),
        _map_pods_to_victims(simulation),
        build_resulting_cluster(simulation),
        evicted=report_evictions(simulation),
        failed_jobs=JobFailures.of(simulation.view.objects).report_failed_jobs(scheduler.cluster),
    )


def settle_queue_without_fix(scheduler: Scheduler) -> Scheduler:
    """Return a scheduler of the cluster in which the waiting pods that get a node without a fix have it.

    Return the scheduler itself if no pod gets a node. The result is cached for each view of a scheduler.
    """
    settled: Scheduler = scheduler.view.memo(settle_queue_without_fix, lambda: _build_settled_scheduler(scheduler))
    return settled


def _build_settled_scheduler(scheduler: Scheduler) -> Scheduler:
    """Build the scheduler of the cluster that `replay_queue_without_fix` leaves behind."""
    run = replay_queue_without_fix(scheduler)
    return Scheduler(run.cluster, scheduler.call_extender) if run.node_by_pod or run.evicts_pods else scheduler


def _map_pods_to_nodes(simulation: Simulation, positions: Iterable[Position]) -> dict[str, str]:
    """Return the names of the pods' nodes by the pods' keys, in the order of `positions`. Waiting pods are left out."""
    view = simulation.view
    return {
        view.pods.objects[position].key: view.get_node_name(position)
        for position in positions
        if view.has_node(position)
    }


def _map_pods_to_victims(simulation: Simulation) -> dict[str, tuple[str, ...]]:
    """Return the keys of the evicted pods by the keys of the pods for which they were evicted."""
    pods = simulation.view.pods.objects
    victims_by_pod: dict[str, tuple[str, ...]] = {}
    for eviction in simulation.evictions:
        preemptor = pods[eviction.preemptor].key
        victims_by_pod[preemptor] = (*victims_by_pod.get(preemptor, ()), pods[eviction.victim].key)
    return victims_by_pod


class RunWithoutPods(NamedTuple):
    """The result of scheduling all waiting pods in a cluster without some of its pods."""

    node_by_pod: dict[str, str]
    """Names of the nodes by the keys of the pods that get them, in the order in which they get them."""
    preemptors: frozenset[str]
    """The keys of the pods that evict others."""


def replay_queue_without_pods(scheduler: Scheduler, gone_pods: frozenset[str], pod: Pod) -> RunWithoutPods:
    """Schedule all waiting pods in a cluster without `gone_pods`.

    Return the nodes that they get, and the pods that preempted others. `pod` is one of the waiting pods and replaces
    the pod of its name in the cluster. The result for an unchanged pod is cached for each view of a scheduler.
    """
    stored = scheduler.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    is_changed = stored is None or scheduler.view.build_stored_pod(stored) != pod

    def schedule() -> RunWithoutPods:
        """Schedule all waiting pods of the changed cluster."""
        changes: dict[tuple[str, str], Pod | None] = {}
        for key in gone_pods:
            namespace, _, name = key.partition("/")
            changes[namespace, name] = None
        if is_changed:
            changes[pod.metadata.namespace, pod.metadata.name] = pod
        simulation = enable_pod_recreation(Simulation(Scheduler(change_pods(scheduler.cluster, changes))))
        outcomes = _schedule_until_stable(simulation, find_pods_still_pending(simulation))
        pods = simulation.view.pods.objects
        return RunWithoutPods(
            _map_pods_to_nodes(simulation, (outcome.position for outcome in outcomes)),
            frozenset(pods[eviction.preemptor].key for eviction in simulation.evictions),
        )

    if is_changed:
        return schedule()
    run: RunWithoutPods = scheduler.view.memo((replay_queue_without_pods, gone_pods), schedule)
    return run


def find_node_once_others_are_gone(scheduler: Scheduler, gone_pods: frozenset[str], pod: Pod) -> str:
    """Return the node that the waiting pod gets if it is tried first once the `gone_pods` are gone.

    Return an empty string if it gets none without preempting other pods.
    """
    changes: dict[tuple[str, str], Pod | None] = {}
    for key in gone_pods:
        namespace, _, name = key.partition("/")
        changes[namespace, name] = None
    simulation = Simulation(Scheduler(change_pods(scheduler.cluster, changes)), preemption=False)
    outcome = simulation.attempt_pod(Position(simulation.view.pods.index[pod.key]))
    return simulation.view.nodes.names[outcome.row] if outcome and outcome.is_placed else ""


def replay_queue_with_fix(trial: RemedyTrial, *, stays_first_replica: bool = False) -> QueueResult:
    """Apply the fix, schedule the waiting pods in queue order, and report whether the target pod gets a node.

    The fix is applied after the waiting pods that need no fix have their nodes, unless the target is one of them. It
    does not hold if these pods displace a pod that the fix moves or removes, or take the room for a pod that it moves.

    If the target evicts pods, the fix holds only if the trial of the fix evicts pods as well. The node may then be
    another one than that of the trial only if no more pods are evicted there.

    A pod that does not exist yet is the last one in the queue, so that a fix that holds is enough for all replicas.
    With `stays_first_replica`, it stays ahead of the other replicas that do not exist yet.

    The result also names other pods. If the fix does not hold, these are the target's rivals. Otherwise, they are the
    pods that also get a node thanks to the fix, and the pods ahead of the target on nodes that the fix opened.
    """
    trial_now = trial
    settled = settle_queue_without_fix(trial.scheduler)
    placed_now = replay_queue_without_fix(trial.scheduler).node_by_pod
    is_settled = settled is not trial.scheduler and trial.authored_pod.key not in placed_now
    if is_settled:
        trial = _apply_changes_to_settled_cluster(trial, settled)
    settled_pods = placed_now if is_settled else {}

    target_key = ObjectKey.of(trial.authored_pod)
    changed_scheduler = Scheduler(_build_cluster_with_fix(trial), trial.scheduler.call_extender)

    # A fix that moves or removes pods needs them to be where they are now.
    nodes_with_room = frozenset(trial.feasible_or_nominated_nodes)
    settled_in_new_room = tuple(key for key, node in settled_pods.items() if node in nodes_with_room)
    if is_settled and not _are_edited_pods_unaffected(trial_now.edits, trial.edits, changed_scheduler, target_key):
        return QueueResult(holds=False, rivals=settled_in_new_room or tuple(settled_pods))
    simulation, outcomes = _schedule_affected_pods(
        changed_scheduler, trial, target_key, stays_first_replica=stays_first_replica
    )

    node_by_pod = _map_pods_to_nodes(simulation, (outcome.position for outcome in outcomes))

    # Find the pods that gain from the fix, and the pods that take the room that it makes.
    placed_without_fix = replay_queue_without_fix(trial.scheduler).node_by_pod.keys()
    other_pods = [key for key in node_by_pod if key != trial.authored_pod.key]
    gaining_pods = tuple(
        key for key in other_pods if key not in placed_without_fix and _is_waiting_without_fix(trial.scheduler, key)
    )
    pods_in_new_room = [key for key in other_pods if node_by_pod[key] in nodes_with_room]

    # The fix holds if the target gets a node, and evicts pods only where the costs of the fix name the evictions.
    rivals = (*settled_in_new_room, *pods_in_new_room) or gaining_pods
    node = node_by_pod.get(trial.authored_pod.key)
    if node is None:
        return QueueResult(holds=False, rivals=rivals)
    victims = _map_pods_to_victims(simulation).get(trial.authored_pod.key, ())
    # The costs of the fix name the evictions of its trial, which preempts on one of several equally good nodes.
    has_no_more_victims = node in nodes_with_room or len(victims) <= len(trial.victims)
    if victims and not (trial.victims and has_no_more_victims):
        return QueueResult(holds=False, rivals=rivals, preemption_node=node, preemption_victims=victims)

    placed_pods = list(node_by_pod)  # in the order in which they got their nodes
    pods_ahead = frozenset(placed_pods[: placed_pods.index(trial.authored_pod.key)])
    ahead_in_new_room = tuple(key for key in pods_in_new_room if key in pods_ahead)
    return QueueResult(
        holds=True,
        other_node="" if node in nodes_with_room or trial.victims else node,
        ahead=ahead_in_new_room,
        also_places=gaining_pods,
        waiting_siblings=_count_waiting_siblings(simulation, find_owner(trial.authored_pod)),
    )


def _build_cluster_with_fix(trial: RemedyTrial) -> Cluster:
    """Build the trial's cluster with its edits applied, and with the target pod, which may be new."""
    target_key = ObjectKey.of(trial.authored_pod)
    edits = {key: edit for key, edit in trial.edits.items() if key != target_key}
    cluster = apply_edits_to_cluster(trial.scheduler.cluster, edits, with_pods_and_nodes=True)
    if target_key in trial.edits:
        pod_before = trial.edits[target_key].before
        assert isinstance(pod_before, Pod)
        cluster = change_pods(cluster, build_changed_replicas(cluster, pod_before, trial.authored_pod))
    if target_key in trial.edits or not _is_pod_in_cluster(trial):
        cluster = add_or_replace_pods(cluster, [trial.authored_pod if trial.created else trial.pod])
    return cluster


def _apply_changes_to_settled_cluster(trial: RemedyTrial, settled: Scheduler) -> RemedyTrial:
    """Return the trial with its changes applied to the settled cluster's objects. Its cycle is not replayed."""
    target_key = ObjectKey.of(trial.authored_pod)
    read_object: ObjectReader = settled.view.memo(build_object_reader, lambda: build_object_reader(settled.cluster))

    def read(key: ObjectKey) -> Struct | None:
        """Return the object of the settled cluster, or the target pod as the trial read it."""
        return trial.edits[key].before if key == target_key else read_object(key)

    return replace(trial, scheduler=settled, edits=apply_fixes(trial.changes, read))


def _are_edited_pods_unaffected(
    edits_now: Mapping[ObjectKey, EditedObject],
    settled_edits: Mapping[ObjectKey, EditedObject],
    scheduler: Scheduler,
    target_key: ObjectKey,
) -> bool:
    """Return whether the running pods that a fix edits are still on their nodes, and the moved ones fit on the new one.

    `edits_now` are the edits of the current cluster, and `settled_edits` are those of the settled one. `scheduler` has
    the settled cluster with the fix. The target pod at `target_key` does not count.
    """
    for key, edit in edits_now.items():
        before, after = edit.before, edit.after
        if key == target_key or not isinstance(before, Pod) or not before.spec.node_name:
            continue
        settled_before = settled_edits[key].before
        if not isinstance(settled_before, Pod) or settled_before.spec.node_name != before.spec.node_name:
            return False
        is_moved = isinstance(after, Pod) and after.spec.node_name not in ("", before.spec.node_name)
        if is_moved and not _does_pod_fit_on_its_node(scheduler, f"{key.namespace}/{key.name}"):
            return False
    return True


def _does_pod_fit_on_its_node(scheduler: Scheduler, key: str) -> bool:
    """Return whether the pod would fit on its node beside the other pods there if it were scheduled now."""
    position = scheduler.view.pods.index[key]
    pod = scheduler.view.pods.objects[position]
    unbound_pod = structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))
    cluster = add_or_replace_pods(scheduler.cluster, [unbound_pod])
    simulation = Simulation(Scheduler(cluster, scheduler.call_extender), preemption=False)
    cycle = simulation.run_cycle(Position(simulation.view.pods.index[key]))
    return simulation.view.nodes.index[pod.spec.node_name] in cycle.feasible


def _count_waiting_siblings(simulation: Simulation, owner: Owner) -> int:
    """Return how many pods of a workload have no node after the simulation. Bare pods have no siblings."""
    if owner.kind == "Pod":
        return 0
    pods = simulation.view.pods.objects
    return sum(find_owner(pods[position]) == owner for position in find_pods_still_pending(simulation))


MOST_PARTIAL_RUNS = 3
"""The number of times that only some pods are scheduled, before all of them are."""


def _schedule_affected_pods(
    scheduler: Scheduler, trial: RemedyTrial, target_key: ObjectKey, *, stays_first_replica: bool
) -> tuple[Simulation, list[Outcome]]:
    """Schedule the waiting pods that the fix may affect, and return the simulation and the outcomes in their order.

    Pods that get a node without the fix are also scheduled. All waiting pods are scheduled if it is unknown which ones
    the fix affects, or if pods are evicted without the fix.

    If pods leave nodes in a run, or do not get the nodes that they get without the fix, more pods may be affected. A
    new run then includes these additional pods. After `MOST_PARTIAL_RUNS` runs, all waiting pods are scheduled.
    """
    without_fix = replay_queue_without_fix(trial.scheduler)
    changes = None if without_fix.evicts_pods else FixedParts.from_trial(trial, target_key)
    simulation = enable_pod_recreation(Simulation(scheduler))
    position = simulation.view.pods.find_position(trial.authored_pod.key)
    assert position is not None, trial.authored_pod.key
    waiting = find_pods_still_pending(simulation)
    if _enters_queue_last(trial, target_key):
        waiting = _move_new_pod_back(simulation, waiting, position, stays_first_replica=stays_first_replica)
    if changes is None:
        return simulation, _schedule_until_stable(simulation, waiting)

    # Schedule the affected pods, and schedule them anew with more pods until the attempts affect no others
    pods = simulation.view.pods.objects
    always_included = {position} | {other for other in waiting if pods[other].key in without_fix.node_by_pod}
    affected = find_affected_pods(simulation, waiting, changes, always_included)
    for _ in range(MOST_PARTIAL_RUNS):
        outcomes = _schedule_until_stable(simulation, affected)
        departures = _find_departures(simulation, without_fix.node_by_pod)
        if not departures:
            return simulation, outcomes
        changes = changes.with_departures(simulation, departures)
        affected_before = affected
        affected = find_affected_pods(simulation, waiting, changes, set(affected_before))
        if affected == affected_before:
            return simulation, outcomes
        simulation = enable_pod_recreation(Simulation(scheduler))
    return simulation, _schedule_until_stable(simulation, waiting)


def _find_departures(simulation: Simulation, node_by_pod: Mapping[str, str]) -> set[tuple[Position, str]]:
    """Return the pods that left nodes in the simulation, or that do not get the nodes that they get without the fix.

    Each pod comes with the name of the node that it left or does not get. `node_by_pod` has the nodes that waiting pods
    get without the fix.
    """
    view, before = simulation.view, simulation.scheduler.view
    names = view.nodes.names
    departures = {(eviction.victim, names[eviction.row]) for eviction in simulation.evictions}
    moved = np.flatnonzero((before.node != NO_ROW) & (view.node != before.node))  # also pods that ended with their Jobs
    departures.update((Position(position), names[before.node[position]]) for position in moved.tolist())
    for key, node in node_by_pod.items():
        position = view.pods.find_position(key)
        if position is not None and view.get_node_name(position) != node:
            departures.add((position, node))
    return departures


def _schedule_until_stable(simulation: Simulation, waiting: Collection[Position]) -> list[Outcome]:
    """Schedule the waiting pods, and then evicted pods, until nothing changes any more, and return the outcomes.

    Raises KeyboardInterrupt if the user interrupts.
    """
    first_outcomes = simulation.schedule(waiting)
    outcomes = schedule_victims_until_stable(simulation, first_outcomes)
    if simulation.interrupted:
        raise KeyboardInterrupt
    return outcomes


def _is_waiting_without_fix(scheduler: Scheduler, key: str) -> bool:
    """Return whether the pod waits for a node in the unchanged cluster."""
    namespace, _, name = key.partition("/")
    pod = scheduler.cluster.pod(namespace, name)
    return isinstance(pod, Pod) and is_pending(pod)


def _is_pod_in_cluster(trial: RemedyTrial) -> bool:
    """Return whether the cluster has the target pod. A UID does not prove this, as a manifest may contain one."""
    return (
        trial.scheduler.cluster.pod(trial.authored_pod.metadata.namespace, trial.authored_pod.metadata.name) is not None
    )


def _enters_queue_last(trial: RemedyTrial, target_key: ObjectKey) -> bool:
    """Return whether the fix creates or recreates the target pod. The pod is then the last one in the queue."""
    edit = trial.edits.get(target_key)
    return not _is_pod_in_cluster(trial) or (edit is not None and not is_valid_update(edit.before, edit.after))


def _move_new_pod_back(
    simulation: Simulation, waiting: Sequence[Position], position: Position, *, stays_first_replica: bool
) -> list[Position]:
    """Return the waiting pods with the new pod at `position` moved to the end of the queue.

    With `stays_first_replica`, it stays ahead of the replicas that do not exist yet.
    """
    replicas = _list_new_replicas(simulation.view, position) if stays_first_replica else frozenset()
    others = [other for other in waiting if other != position]
    return [
        *(other for other in others if other not in replicas),
        position,
        *(other for other in others if other in replicas),
    ]


def _list_new_replicas(view: Fork, position: Position) -> frozenset[Position]:
    """Return the positions of the other pods of the pod's owner that do not exist yet. Bare pods have none."""
    pods = view.pods.objects
    owner = find_owner(pods[position])
    if owner.kind == "Pod":
        return frozenset()
    without_node = find_positions(~view.mask_placed())
    return frozenset(
        other
        for other in without_node
        if other != position and is_made_up(pods[other]) and find_owner(pods[other]) == owner
    )


SINGLE_NODE_KINDS = frozenset({"Node", "CSINode", "Pod"})
"""The kinds of objects whose edits matter for a single node, if other nodes do not count its pods."""


class FixedParts(NamedTuple):
    """The parts of the cluster that change with a fix, apart from the target pod."""

    nodes: frozenset[str]
    """Names of the nodes on which there may be more room."""
    pods: tuple[Pod, ...]
    """The pods that are edited or change their nodes, edited ones as they were before and as they are afterwards."""
    departing: tuple[PodInfo, ...]
    """The pods that leave their nodes or are edited, as they were before."""
    gone: frozenset[Position]
    """The positions of the pods that leave their nodes without being edited."""
    kinds: frozenset[str]
    """Kinds of the edited objects other than `SINGLE_NODE_KINDS`."""
    edits_nodes: bool
    """True if any object other than a pod is edited or added."""

    @classmethod
    def from_trial(cls, trial: RemedyTrial, target_key: ObjectKey) -> FixedParts | None:
        """Return the parts that the trial's fix changes, or None if these cannot be limited."""
        names = find_nodes_with_new_room(trial, target_key)
        if names is None:
            return None
        edits = {key: edit for key, edit in trial.edits.items() if key != target_key}
        view = trial.scheduler.view
        edited_pods = [edit.before for edit in edits.values() if isinstance(edit.before, Pod)]
        return cls(
            names,
            tuple(pod for edit in edits.values() for pod in (edit.before, edit.after) if isinstance(pod, Pod)),
            departing=tuple(view.pods.get_info(view.pods.index[pod.key]) for pod in edited_pods),
            gone=frozenset(),
            kinds=frozenset(key.kind for key in edits) - SINGLE_NODE_KINDS,
            edits_nodes=any(key.kind != "Pod" for key in edits),
        )

    def with_departures(self, simulation: Simulation, departures: Collection[tuple[Position, str]]) -> FixedParts:
        """Return these parts together with pods of the simulation that left the named nodes."""
        pods = simulation.view.pods
        positions = {position for position, _ in departures}
        return self._replace(
            nodes=self.nodes.union(node for _, node in departures),
            pods=(*self.pods, *(pods.objects[position] for position in positions)),
            departing=(*self.departing, *map(pods.get_info, positions)),
            gone=self.gone | positions,
        )


def find_nodes_with_new_room(trial: RemedyTrial, target_key: ObjectKey) -> frozenset[str] | None:
    """Return the names of the nodes that may get room: nodes that the fix edits or adds, and nodes of edited pods.

    Return None if other nodes may get room as well. They may if the fix changes the labels of a node, or the required
    anti-affinity of the target pod, which its running replicas may share. Other edits of the target pod are ignored.
    """
    names: set[str] = set()
    for key, edit in trial.edits.items():
        before, after = edit.before, edit.after
        if key == target_key:
            assert isinstance(before, Pod)
            assert isinstance(after, Pod)
            if get_anti_affinity(before) != get_anti_affinity(after):
                return None
            continue
        if isinstance(before, Node) and isinstance(after, Node) and before.metadata.labels != after.metadata.labels:
            return None  # the node moves to another topology domain, which matters to pods on other nodes
        if isinstance(before, Pod):
            names.add(before.spec.node_name)
        elif key.kind in SINGLE_NODE_KINDS - {"Pod"}:  # a Node, or a CSINode of the same name
            names.add(key.name)
    return frozenset(names)


def find_affected_pods(
    simulation: Simulation, waiting: Sequence[Position], changes: FixedParts, always: Container[Position]
) -> list[Position]:
    """Return the positions of the waiting pods that may get a node thanks to the fix, in the order of `waiting`.

    `simulation` has the cluster with the fix. Pods in `always` are always included. If any pod is nominated, all
    waiting pods are returned.
    """
    scheduler = simulation.scheduler
    view = scheduler.view  # before any pod of the simulation is placed
    rows_of_nominees, _ = view.nominations
    if len(rows_of_nominees):
        return list(waiting)  # a nominated pod that gets another node leaves room on its nominated node
    room = RoomOnNodes(view, changes.nodes, changes.gone)
    claim_users = Counter(claim for position in waiting for claim in _iter_shared_claims(view.pods.objects[position]))
    departing_claim_user = any(uses_claims(info, view) for info in changes.departing)

    def shares_claim(position: Position) -> bool:
        """Return whether the pod shares a claim with another waiting pod."""
        return any(claim_users[claim] > 1 for claim in _iter_shared_claims(view.pods.objects[position]))

    def may_get_node(position: Position, info: PodInfo) -> bool:
        """Return whether the fix may make a node feasible for the pod if no other pod comes to a node."""
        if _may_depend_on_places(info, changes.pods, may_leave=True, edits_nodes=changes.edits_nodes):
            return True
        if departing_claim_user and uses_claims(info, view):
            return True
        if changes.kinds and not changes.kinds <= scheduler.find_irrelevant_kinds([info.spec]).keys():
            return True
        if any(_may_repel(departing, info) for departing in changes.departing):
            return True
        return room.may_fit(simulation.find_framework(position), info)

    # Find the pods that the fix itself may help. Pods that are alike share an info.
    included = {position for position in waiting if position in always or shares_claim(position)}
    examples = {view.pods.get_info_number(position): position for position in waiting if position not in included}
    affected = {number for number, position in examples.items() if may_get_node(position, view.pods.infos[number])}

    # Add those that depend on the places of affected pods, until there are no more.
    latest = affected.union(map(view.pods.get_info_number, included))
    while latest:
        coming_pods = [view.pods.infos[number].pod for number in latest]
        latest = {
            number
            for number in examples.keys() - affected
            if _may_depend_on_places(view.pods.infos[number], coming_pods, may_leave=False, edits_nodes=False)
        }
        affected |= latest
    return [position for position in waiting if position in included or view.pods.get_info_number(position) in affected]


def _may_repel(running: PodInfo, info: PodInfo) -> bool:
    """Return whether the required anti-affinity of a running pod may keep the other pod off nodes.

    Labels of namespaces are assumed to match.
    """
    return any(_may_select(term, info.pod) for term in running.required_anti_affinity)


def _may_select(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether the term selects the pod if the labels of its namespace match."""
    in_namespaces = pod.metadata.namespace in term.namespaces or not term.namespace_selector.matches_nothing
    return in_namespaces and term.selector.matches(pod.metadata.labels)


class RoomOnNodes:
    """The room on some nodes of a view, which must not change: what each node offers beside pods that have to stay.

    The pods at the positions `gone` do not count.
    """

    def __init__(self, view: Fork, nodes: Iterable[str], gone: Collection[Position] = ()) -> None:
        self._view = view
        self._gone = np.array(sorted(gone), np.int64)
        rows = [view.nodes.index[name] for name in nodes if name in view.nodes.index]
        self._rows = np.array(sorted(rows), np.int32)
        self._free_by_priority: dict[int, Amounts] = {}

    @cached_property
    def _pods(self) -> Rows:
        """The positions of all pods on the nodes."""
        return np.flatnonzero(np.isin(self._view.node, self._rows))

    def may_fit(self, framework: FrameworkLike | None, info: PodInfo) -> bool:
        """Return whether one of the nodes might accept the pod once all pods that it may preempt are gone.

        The rules of `_may_fit_on_any_row` are checked first. The profile's filters are then run, if all of them are
        in-tree plugins and pods are preempted only by priority. The result is True if no profile serves the pod.
        """
        if framework is None:
            return True  # no profile can be asked
        if not len(self._rows):
            return False
        if not preempts_only_lower_priority(framework):
            # Pods of any priority may be preempted, so assume that the nodes are empty.
            return _may_fit_on_any_row(framework, info, self._view, self._rows, self._view.allocatable[self._rows])
        free = self._compute_free_amounts(info.priority)
        if not _may_fit_on_any_row(framework, info, self._view, self._rows, free):
            return False
        has_other_filters = any(plugin.name not in IN_TREE for plugin in framework.plugins_at("filter"))
        return has_other_filters or self._does_any_node_pass_filters(framework, info)

    def _compute_free_amounts(self, priority: int) -> Amounts:
        """Return what each node has free if only pods of at least this priority remain, as an array (nodes, resources).

        Pods in `gone` do not remain. The amounts are cached by priority.
        """
        if priority not in self._free_by_priority:
            view = self._view
            is_gone = np.isin(self._pods, self._gone)
            remaining = self._pods[~is_gone & (view.pods.get_priorities(self._pods) >= priority)]
            free = view.allocatable[self._rows]
            index_in_free = np.searchsorted(self._rows, view.node[remaining])
            np.subtract.at(free, index_in_free, view.get_requests(remaining))
            self._free_by_priority[priority] = free
        return self._free_by_priority[priority]

    def _does_any_node_pass_filters(self, framework: FrameworkLike, info: PodInfo) -> bool:
        """Return whether a node passes the profile's filters once its pods of lower priority and gone pods have left.

        If PreFilter rejects the pod, the result tells whether pods on nodes may be the reason. It is True if a plugin
        fails.
        """
        view = self._view
        leaves = (view.pods.get_priorities(self._pods) < info.priority) | np.isin(self._pods, self._gone)
        leaving = self._pods[leaves]
        signs = np.full(len(leaving), -1)  # each of these pods is removed from its node
        removal = Delta.from_changes(view.node[leaving], view.pods.info[leaving], signs)
        try:
            plugins = framework.plugins_at("preFilter")
            pre_filter = run_pre_filter(plugins, info, view)
            if pre_filter.status.rejected:
                rejecting = next((plugin for plugin in plugins if plugin.name == pre_filter.plugin), None)
                result = pre_filter.results.get(pre_filter.plugin)
                return rejecting is None or get_answer_dependency(rejecting, result) is not Reads.NODES
            outcome = Filtering.from_framework(framework, pre_filter, info, view).run_filters(removal)
        except PluginError:
            return True
        return bool(outcome.passing[self._rows].any())


def estimate_nodes_needed(trial: RemedyTrial) -> int:
    """Estimate how many copies of the added node the target pod and the pods ahead of it in the queue need.

    Each pod takes the first copy that has room for its requests. Pods ahead that cannot use such a node are left out.
    """
    assert trial.cycle is not None
    view = trial.cycle.view
    simulation = Simulation(trial.scheduler, view.fork())

    # The pods ahead of the target in the queue: by priority, then by age.
    waiting = find_pods_still_pending(simulation)
    target_position = view.pods.find_position(trial.authored_pod.key)
    target_age_rank = waiting.index(target_position) if target_position in waiting else len(waiting)
    target_turn = (-trial.cycle.info.priority, target_age_rank)
    turns = {position: (-view.pods.get_priority(position), age_rank) for age_rank, position in enumerate(waiting)}
    pods_ahead = sorted((position for position in turns if turns[position] < target_turn), key=turns.__getitem__)

    # Fill copies of the added node with these pods, and then with the target pod.
    added_row = len(trial.scheduler.view.nodes)  # added nodes come after the existing ones
    added_rows = np.array([added_row], np.int32)
    free_on_new_node = view.allocatable[added_row] - view.requested[added_row]
    free_on_copies = [free_on_new_node.copy()]  # reduced in place with each reserved pod
    for position in pods_ahead:
        number = int(view.pods.info[position])
        info = view.pods.infos[number]
        framework = simulation.find_framework(position)
        if not _may_fit_on_any_row(framework, info, view, added_rows, view.allocatable[added_rows]):
            continue
        if not _reserve_on_first_fit(free_on_copies, view.requests[number]):
            free_on_copies.append(free_on_new_node - view.requests[number])
    (target_requests,) = view.build_matrix([trial.cycle.info.incoming_requests])
    has_room_for_target = _reserve_on_first_fit(free_on_copies, target_requests)
    return len(free_on_copies) if has_room_for_target else len(free_on_copies) + 1


def _reserve_on_first_fit(nodes: Iterable[Ints], requests: Ints) -> bool:
    """Reserve the requests (R,) on the first node where they fit, and return whether there is such a node.

    `nodes` are the free amounts (R,) of each node. The amounts of the chosen node are reduced in place.
    """
    free = next((free for free in nodes if (requests <= free).all()), None)
    if free is None:
        return False
    free -= requests
    return True


def _may_depend_on_places(info: PodInfo, pods: Sequence[Pod], *, may_leave: bool, edits_nodes: bool) -> bool:
    """Return whether a change of the places of `pods` may make a node feasible for the pod.

    Return True for a pod in a group, for a pod whose required terms or hard spread constraints select one of the
    `pods`, and for a pod with invalid terms or selectors. Anti-affinity matters only if the pods `may_leave` nodes.
    Also return True for a pod with hard spread constraints if nodes are edited, since edited nodes may add domains.
    """
    if find_groups_of_pod(info.pod) or info.affinity_errors:
        return True
    constraints = [
        constraint
        for constraint in info.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    if constraints and edits_nodes:
        return True
    try:
        spread_selectors = [selector_from_api(constraint.label_selector) for constraint in constraints]
    except SelectorError:
        return True
    terms = (*info.required_affinity, *(info.required_anti_affinity if may_leave else ()))
    if not spread_selectors and not terms:
        return False

    def may_be_selected(pod: Pod) -> bool:
        """Return whether a term or constraint may select the pod. Labels of namespaces are assumed to match."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if namespace == info.namespace and any(selector.matches(labels) for selector in spread_selectors):
            return True
        return any(_may_select(term, pod) for term in terms)

    return any(map(may_be_selected, pods))


def _iter_shared_claims(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, namespace and name of each claim to which the pod refers by name, so that pods may share it."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield "PersistentVolumeClaim", namespace, volume.persistent_volume_claim.claim_name
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield "ResourceClaim", namespace, claim.resource_claim_name


def _may_fit_on_any_row(framework: FrameworkLike | None, info: PodInfo, view: Fork, rows: Ints, free: Amounts) -> bool:
    """Return whether the pod might fit on one of the nodes in these rows (K,) if the nodes had `free` (K, R) free.

    Only pod affinity, node affinity, taints and requests are checked, each only if the pod's profile has the filter for
    it. The result is True if no profile serves the pod.
    """
    if framework is None:
        return True
    filters = {plugin.name: plugin for plugin in framework.plugins_at("filter")}
    if InterPodAffinity.name in filters and not _can_satisfy_pod_affinity(info, view):
        return False
    accepting = np.ones(len(rows), np.bool_)
    if NodeAffinity.name in filters:
        accepting &= view.nodes.match_required_affinity(compile_required_node_affinity(info.spec))[rows]
    if TaintToleration.name in filters:
        accepting &= match_tolerations(view.nodes, info.spec.tolerations, comparison_operators=True)[rows]
    fit_plugin = filters.get(NodeResourcesFit.name)
    if isinstance(fit_plugin, NodeResourcesFit):
        for resource, amount in info.incoming_requests.items():
            column = view.resources.get(resource)
            if column is not None and amount and fit_plugin.limits_resource(resource, view):
                accepting &= free[:, column] >= amount
    return bool(accepting.any())


def _can_satisfy_pod_affinity(info: PodInfo, view: Fork) -> bool:
    """Return whether any pod, placed or not, may match all required pod affinity terms.

    Labels of namespaces are assumed to match. The result is True if there are no terms.
    """
    matches = [
        view.pods.distinct.match_infos(
            term.selector, term.namespaces if term.namespace_selector.matches_nothing else None
        )
        for term in info.required_affinity
    ]
    return not matches or bool(np.logical_and.reduce(matches).any())
