"""Replay the scheduling queue with a fix: waiting pods are scheduled in order, and the target must get a node.

If the unchanged cluster evicts no pod, only some pods are scheduled: those that get a node without the fix, and those
that the fix may affect. A fix may affect pods that fit on a node that it adds or changes, that depend on an object that
it edits, or on the places of other pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Position
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.fixes.ranking import QueueResult
from kschedctl.fixes.trial.changes import is_valid_update
from kschedctl.fixes.trial.trials import RemedyTrial, apply_edits_to_cluster, change_replicas
from kschedctl.replay.controllers.target_pod import find_groups
from kschedctl.replay.edits import ObjectKey, add_pods, change_pods
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.settling import enable_pod_recreation, find_pods_still_pending, schedule_victims
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.nodes import match_tolerations
from kschedctl.snapshot.pod_info import PodInfo


class RunWithoutFix(NamedTuple):
    """The result of scheduling all waiting pods in the unchanged cluster."""

    node_by_pod: dict[str, str]
    """Names of the nodes by the keys of the pods that get them. A key is `namespace/name`."""
    evicts_pods: bool
    """True if any pod is evicted."""


def replay_queue_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    """Try all waiting pods of the unchanged cluster, once for each view of a scheduler, and return the result."""
    run: RunWithoutFix = scheduler.view.memo(replay_queue_without_fix, lambda: _compute_run_without_fix(scheduler))
    return run


def _compute_run_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    """Schedule all waiting pods without a fix, and return which pods get a node and whether any pod is evicted."""
    simulation = enable_pod_recreation(Simulation(scheduler))
    waiting = find_pods_still_pending(simulation)
    _schedule_until_stable(simulation, waiting)
    return RunWithoutFix(_find_node_by_pod(simulation, waiting), evicts_pods=bool(simulation.evictions))


def _find_node_by_pod(simulation: Simulation, positions: Iterable[Position]) -> dict[str, str]:
    """Return the names of the pods' nodes by the pods' keys, in the order of `positions`. Waiting pods are left out."""
    view = simulation.view
    return {
        view.pods.objects[position].key: view.get_node_name(position)
        for position in positions
        if view.has_node(position)
    }


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
            _find_node_by_pod(simulation, (outcome.position for outcome in outcomes)),
            frozenset(pods[eviction.preemptor].key for eviction in simulation.evictions),
        )

    if is_changed:
        return schedule()
    run: RunWithoutPods = scheduler.view.memo((replay_queue_without_pods, gone_pods), schedule)
    return run


def find_node_once_others_are_gone(scheduler: Scheduler, gone_pods: frozenset[str], pod: Pod) -> str:
    """Return the node that the waiting pod gets, tried before all other waiting pods, once the `gone_pods` are gone.

    Return an empty string if it gets none without preempting other pods.
    """
    changes: dict[tuple[str, str], Pod | None] = {}
    for key in gone_pods:
        namespace, _, name = key.partition("/")
        changes[namespace, name] = None
    simulation = Simulation(Scheduler(change_pods(scheduler.cluster, changes)), preemption=False)
    outcome = simulation.attempt_pod(Position(simulation.view.pods.index[pod.key]))
    return simulation.view.nodes.names[outcome.row] if outcome and outcome.is_placed else ""


def replay_queue_with_fix(trial: RemedyTrial) -> QueueResult:
    """Apply the fix, schedule the waiting pods in queue order, and report whether the target pod gets a node.

    The result also names other pods. If the target pod gets no node, these are its rivals. Otherwise, they are the pods
    that also get a node thanks to the fix, and the pods ahead of the target on nodes that the fix opened.
    """
    # Build the changed cluster with the target pod, which may be new.
    target_key = ObjectKey.of(trial.authored_pod)
    edits = {key: edit for key, edit in trial.edits.items() if key != target_key}
    cluster = apply_edits_to_cluster(trial.scheduler.cluster, edits, with_pods_and_nodes=True)
    if target_key in trial.edits:
        pod_before = trial.edits[target_key].before
        assert isinstance(pod_before, Pod)
        cluster = change_pods(cluster, change_replicas(cluster, pod_before, trial.authored_pod))
    if target_key in trial.edits or not _is_in_cluster(trial):
        cluster = add_pods(cluster, [trial.authored_pod if trial.created else trial.pod])
    simulation, outcomes = _schedule_affected_pods(Scheduler(cluster, trial.scheduler.call_extender), trial, target_key)

    # The placed pods in the order in which they got their nodes.
    node_by_pod = _find_node_by_pod(simulation, (outcome.position for outcome in outcomes))

    # Find the pods that gain from the fix, and the pods that take the room it makes.
    placed_without_fix = replay_queue_without_fix(trial.scheduler).node_by_pod.keys()
    other_pods = [key for key in node_by_pod if key != trial.authored_pod.key]
    gaining_pods = tuple(
        key for key in other_pods if key not in placed_without_fix and _is_waiting_without_fix(trial.scheduler, key)
    )
    nodes_with_room = frozenset(trial.opened_nodes)
    pods_in_new_room = [key for key in other_pods if node_by_pod[key] in nodes_with_room]

    if trial.authored_pod.key not in node_by_pod:
        return QueueResult(holds=False, rivals=tuple(pods_in_new_room) or gaining_pods)
    placed_pods = list(node_by_pod)
    pods_ahead = frozenset(placed_pods[: placed_pods.index(trial.authored_pod.key)])
    ahead_in_new_room = tuple(key for key in pods_in_new_room if key in pods_ahead)
    return QueueResult(
        holds=True,
        ahead=ahead_in_new_room,
        also_places=gaining_pods,
        waiting_siblings=_count_waiting_siblings(simulation, find_owner(trial.authored_pod)),
    )


def _count_waiting_siblings(simulation: Simulation, owner: Owner) -> int:
    """Return how many pods of a workload have no node after the simulation. Bare pods have no siblings."""
    if owner.kind == "Pod":
        return 0
    pods = simulation.view.pods.objects
    return sum(find_owner(pods[position]) == owner for position in find_pods_still_pending(simulation))


def _schedule_affected_pods(
    scheduler: Scheduler, trial: RemedyTrial, target_key: ObjectKey
) -> tuple[Simulation, list[Outcome]]:
    """Schedule the waiting pods that the fix may affect, and return the simulation and the outcomes in their order.

    Pods that get a node without the fix are also scheduled. All waiting pods are scheduled if it is unknown which ones
    the fix affects, or if pods are evicted without the fix.

    The first attempt may affect more pods: it may evict a pod, or leave room on the node that a pod gets without the
    fix. All waiting pods are then scheduled in a new simulation.
    """
    without_fix = replay_queue_without_fix(trial.scheduler)
    nodes_with_new_room = None if without_fix.evicts_pods else find_nodes_with_new_room(trial, target_key)
    simulation = enable_pod_recreation(Simulation(scheduler))
    position = simulation.view.pods.find_position(trial.authored_pod.key)
    assert position is not None, trial.authored_pod.key
    waiting = find_pods_still_pending(simulation)
    if _enters_queue_last(trial, target_key):
        waiting = [*(other for other in waiting if other != position), position]
    if nodes_with_new_room is None:
        return simulation, _schedule_until_stable(simulation, waiting)

    pods = simulation.view.pods.objects
    always_included = {position} | {other for other in waiting if pods[other].key in without_fix.node_by_pod}
    affected = find_affected_pods(simulation, waiting, nodes_with_new_room, always_included)
    outcomes = _schedule_until_stable(simulation, affected)

    # Pods that get other nodes than without the fix leave room, which may affect more pods.
    node_by_pod = _find_node_by_pod(simulation, affected)
    moved = {key: node for key, node in without_fix.node_by_pod.items() if node_by_pod.get(key) != node}
    leaves_room = any(pods[other].key in moved and _may_block_other_nodes(pods[other]) for other in affected)
    if moved and not leaves_room:
        nodes_with_room = nodes_with_new_room.union(moved.values())
        leaves_room = find_affected_pods(simulation, waiting, nodes_with_room, always_included) != affected
    if not leaves_room and not simulation.evictions:
        return simulation, outcomes
    simulation = enable_pod_recreation(Simulation(scheduler))
    return simulation, _schedule_until_stable(simulation, waiting)


def _schedule_until_stable(simulation: Simulation, waiting: Collection[Position]) -> list[Outcome]:
    """Schedule the waiting pods, and then evicted pods, until nothing changes any more, and return the outcomes.

    Raises KeyboardInterrupt if the user interrupts.
    """
    outcomes = schedule_victims(simulation, simulation.schedule(waiting))
    if simulation.interrupted:
        raise KeyboardInterrupt
    return outcomes


def _is_waiting_without_fix(scheduler: Scheduler, key: str) -> bool:
    """Return whether the pod waits for a node in the unchanged cluster."""
    namespace, _, name = key.partition("/")
    pod = scheduler.cluster.pod(namespace, name)
    return isinstance(pod, Pod) and is_pending(pod)


def _is_in_cluster(trial: RemedyTrial) -> bool:
    """Return whether the cluster has the target pod. A UID does not prove this, as a manifest may contain one."""
    return (
        trial.scheduler.cluster.pod(trial.authored_pod.metadata.namespace, trial.authored_pod.metadata.name) is not None
    )


def _enters_queue_last(trial: RemedyTrial, target_key: ObjectKey) -> bool:
    """Return whether the fix creates or recreates the target pod. The pod is then the last one in the queue."""
    edit = trial.edits.get(target_key)
    return not _is_in_cluster(trial) or (edit is not None and not is_valid_update(edit.before, edit.after))


SINGLE_NODE_KINDS = frozenset({"Node", "CSINode", "Pod"})
"""The kinds of objects whose edits matter for a single node, if other nodes do not count its pods."""


def find_nodes_with_new_room(trial: RemedyTrial, target_key: ObjectKey) -> frozenset[str] | None:
    """Return the names of the nodes on which the fix makes room, or None if it may make room on other nodes, too.

    Edits of the target pod are ignored. The result is None if another edit changes the labels of a node, or edits a pod
    that can block other nodes. It is also None for edits of kinds that are not in `SINGLE_NODE_KINDS`.
    """
    names: set[str] = set()
    for key, edit in trial.edits.items():
        if key == target_key:
            continue
        before, after = edit.before, edit.after
        if key.kind not in SINGLE_NODE_KINDS:
            return None
        if isinstance(before, Node) and isinstance(after, Node) and before.metadata.labels != after.metadata.labels:
            return None  # the node moves to another topology domain, which matters to pods on other nodes
        if isinstance(before, Pod):
            if _may_block_other_nodes(before):
                return None
            names.add(before.spec.node_name)
        elif key.kind != "Pod":  # a Node, or a CSINode of the same name. A new pod makes no room.
            names.add(key.name)
    return frozenset(names)


def _may_block_other_nodes(pod: Pod) -> bool:
    """Return whether a running pod may keep pods off other nodes: it uses claims or has pod anti-affinity."""
    uses_claims = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return uses_claims or bool(pod.spec.affinity and pod.spec.affinity.pod_anti_affinity)


def find_affected_pods(
    simulation: Simulation, waiting: Sequence[Position], nodes: frozenset[str], always: Container[Position]
) -> list[Position]:
    """Return the positions of the waiting pods that may get a node thanks to the fix, in the order of `waiting`.

    `nodes` are the names of the nodes on which the fix makes room. Pods in `always` are always included. If any pod is
    nominated, all waiting pods are returned.
    """
    view = simulation.view
    rows_of_nominees, _ = view.nominations
    if len(rows_of_nominees):
        return list(waiting)  # a nominated pod that gets another node leaves room on its nominated node
    rows = np.array([view.nodes.index[name] for name in sorted(nodes) if name in view.nodes.index], np.int32)
    claim_users = Counter(claim for position in waiting for claim in _iter_shared_claims(view.pods.objects[position]))
    may_get_node_by_info: dict[int, bool] = {}

    def may_get_node(position: Position) -> bool:
        """Return whether the pod shares a claim with a waiting pod, depends on other pods, or may fit on a node."""
        if any(claim_users[claim] > 1 for claim in _iter_shared_claims(view.pods.objects[position])):
            return True
        number = int(view.pods.info[position])  # pods that are alike share an info
        if number not in may_get_node_by_info:
            info = view.pods.infos[number]
            may_get_node_by_info[number] = _depends_on_other_pods(info) or _may_fit_on_empty_node(
                simulation, position, info, rows
            )
        return may_get_node_by_info[number]

    return [position for position in waiting if position in always or may_get_node(position)]


def estimate_nodes_needed(trial: RemedyTrial) -> int:
    """Estimate how many copies of the added node the target pod and the pods ahead of it in the queue need.

    Each pod takes the first copy that has room for its requests. Pods ahead that cannot use such a node are left out.
    """
    assert trial.cycle is not None
    view = trial.cycle.view
    simulation = Simulation(trial.scheduler, view.fork())

    # The pods ahead of the target in the queue: by priority, then by position.
    target_position = view.pods.index.get(trial.authored_pod.key, len(view.pods))
    target_turn = (-trial.cycle.info.priority, target_position)
    turns = {
        position: (-view.pods.get_priority(position), position) for position in find_pods_still_pending(simulation)
    }
    pods_ahead = sorted((position for position in turns if turns[position] < target_turn), key=turns.__getitem__)

    # Fill copies of the added node with these pods, and then with the target pod.
    added_row = len(trial.scheduler.view.nodes)  # added nodes come after the existing ones
    added_rows = np.array([added_row], np.int32)
    free_on_new_node = view.allocatable[added_row] - view.requested[added_row]
    nodes = [free_on_new_node.copy()]
    for position in pods_ahead:
        number = int(view.pods.info[position])
        if not _may_fit_on_empty_node(simulation, position, view.pods.infos[number], added_rows):
            continue
        if not _reserve_on_first_fit(nodes, view.requests[number]):
            nodes.append(free_on_new_node - view.requests[number])
    (target_requests,) = view.build_matrix([trial.cycle.info.incoming_requests])
    return len(nodes) if _reserve_on_first_fit(nodes, target_requests) else len(nodes) + 1


def _reserve_on_first_fit(nodes: Iterable[Ints], requests: Ints) -> bool:
    """Reserve the requests (R,) on the first node where they fit, and return whether there is such a node.

    `nodes` are the free amounts (R,) of each node. The amounts of the chosen node are reduced in place.
    """
    free = next((free for free in nodes if (requests <= free).all()), None)
    if free is None:
        return False
    free -= requests
    return True


def _depends_on_other_pods(info: PodInfo) -> bool:
    """Return whether placing other pods may make a node feasible for the pod.

    This holds for pods with pod affinity or anti-affinity, with a hard spread constraint, or in a group.
    """
    affinity = info.spec.affinity and (info.spec.affinity.pod_affinity or info.spec.affinity.pod_anti_affinity)
    constraints = info.spec.topology_spread_constraints
    spread = any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)
    return bool(spread or affinity or find_groups(info.pod))


def _iter_shared_claims(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, namespace and name of each claim to which the pod refers by name, so that pods may share it."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield "PersistentVolumeClaim", namespace, volume.persistent_volume_claim.claim_name
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield "ResourceClaim", namespace, claim.resource_claim_name


def _may_fit_on_empty_node(simulation: Simulation, position: Position, info: PodInfo, rows: Ints) -> bool:
    """Return whether one of the nodes in these rows (K,) might accept the pod if the node ran no other pods.

    Only node affinity, taints and requests are checked, as far as the pod's profile has the filters that check them.
    """
    framework = simulation.framework(position)
    if framework is None:
        return True
    filters = {plugin.name for plugin in framework.plugins_at("filter")}
    view = simulation.view
    accepting = np.ones(len(rows), bool)
    if NodeAffinity.name in filters:
        accepting &= view.nodes.match_required_affinity(compile_required_node_affinity(info.spec))[rows]
    if TaintToleration.name in filters:
        accepting &= match_tolerations(view.nodes, info.spec.tolerations, comparison_operators=True)[rows]
    if NodeResourcesFit.name in filters:
        for resource, amount in info.incoming_requests.items():
            column = view.resources.get(resource)
            if column is not None and amount:
                accepting &= view.allocatable[rows, column] >= amount
    return bool(accepting.any())
