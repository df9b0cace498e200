"""The report of a finished search: moves, commands to run, and resources that are free but fragmented."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from msgspec import structs

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import PODS
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.movable import has_scratch_data
from kschedctl.commands.make_room.rehearsal import Rehearsal
from kschedctl.commands.make_room.report import (
    FragmentedResource,
    HeldPods,
    MakeRoom,
    PlacedPod,
    PodMove,
    PreemptionMeanwhile,
    SearchedPlans,
    TerminatingRoom,
)
from kschedctl.commands.make_room.room import PlanPart, RoomMaking, find_reason_not_tried
from kschedctl.commands.make_room.search import PlanSearch
from kschedctl.commands.make_room.shortage import find_shortages, find_sufficient_new_nodes
from kschedctl.fixes.queue_replay import find_node_once_others_are_gone, replay_queue_without_pods
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.job_failures import find_job_name
from kschedctl.replay.edits import is_made_up
from kschedctl.replay.pending_pods import are_other_replicas_available, describe_overdue_time
from kschedctl.replay.placements import MissingStorageClasses
from kschedctl.replay.pools import compare_pools
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.plugins.dynamic_resources.diagnosis import FreeDevices
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def build_report(room: RoomMaking) -> MakeRoom:
    """Build the report of a finished or interrupted search.

    The plan is discarded if a pod for which it makes room would preempt other pods before the plan is done.
    """
    preemption = _find_preemption_meanwhile(room)
    if preemption is not None:
        return _build_report_without_plan(room, preemption)
    return _build_report_with_plan(room)


def _build_report_without_plan(room: RoomMaking, preemption: PreemptionMeanwhile) -> MakeRoom:
    """Build the report of a search whose plan is discarded because of a preemption."""
    pods = room.before.view.pods.objects
    moving_for = {search.wanted for search in room.searches}
    rows = {position: row for position, row in room.rows.items() if position not in moving_for}
    without_plan = replace(room, stage=room.before, parts=[], rows=rows, also_placed={}, adopted=[])
    report = _build_report_with_plan(without_plan)
    return structs.replace(
        report,
        missing=tuple(pods[position].key for position in room.wanted if position in moving_for),
        preemption_meanwhile=preemption,
    )


def _find_preemption_meanwhile(room: RoomMaking) -> PreemptionMeanwhile | None:
    """Find the first preemption by a pod for which the plan makes room, while the plan keeps nodes cordoned.

    The eviction of a pod wakes the waiting pod, which cannot use the room on the cordoned nodes yet. Pods that are
    alike are tried once. Pods that do not exist yet need not be created before the plan is done.
    """
    pods = room.before.view.pods
    wanted = {
        pods.get_info_number(search.wanted): search.wanted
        for search in room.searches
        if not is_made_up(pods.objects[search.wanted])
    }
    names = room.before.view.nodes.names
    for stage in _iter_cordoned_stages(room):
        for position in wanted.values():
            attempted = stage.fork()
            outcome = attempted.build_simulation().attempt_pod(position)
            if outcome is not None and outcome.victims:
                return PreemptionMeanwhile(
                    pod=pods.objects[position].key,
                    node=room.before.view.get_node_name(outcome.victims[0]),
                    evicted=tuple(pods.objects[victim].key for victim in outcome.victims),
                    cordoned=tuple(names[row] for row in sorted(stage.cordoned)),
                )
    return None


def _iter_cordoned_stages(room: RoomMaking) -> Iterator[Rehearsal]:
    """Yield the cluster after the moves off each node, with the nodes that the plan keeps cordoned at that time."""
    stage = room.before
    for part in room.parts:
        for source, moves in itertools.groupby(part.moved, key=lambda move: move.source):
            stage = stage.with_cordoned(part.emptied | {source})
            for move in moves:
                stage.view.forget(move.position)
                stage.view.assume(move.position, move.target)
            yield stage


def _build_report_with_plan(room: RoomMaking) -> MakeRoom:
    """Build the report with the moves of the plan, if there are any."""
    pods = room.before.view.pods.objects
    missing_pods = [pods[position].key for position in room.wanted if position not in room.rows]
    simulation = room.stage.build_simulation()

    # The kinds that the answer depends on, in case that they were not read.
    dependencies: list[Dependency] = []
    if room.searches:
        dependencies.append(Dependency("PodDisruptionBudget", Effect.EITHER))
    if any(find_job_name(pods[move.position]) for part in room.parts for move in part.moved):
        dependencies.append(Dependency("Job", Effect.EITHER))

    shortages = find_shortages(room) if missing_pods and room.searches else ()
    short_resources = {shortage.resource for shortage in shortages}
    fragmented = iter_fragmented_resources(room.searches[0]) if room.searches else ()
    terminating_room = None if room.interrupted else find_terminating_room(room)
    return MakeRoom(
        pods=tuple(pods[position].key for position in room.wanted),
        fits=not missing_pods,
        moves=tuple(move for part in room.parts for move in _iter_pod_moves(room, part)),
        placed=_list_placed_pods(room, room.rows),
        also_placed=_list_placed_pods(room, room.also_placed),
        missing=tuple(missing_pods),
        message=_explain_first_missing_pod(simulation, missing_pods),
        cause=_describe_missing_storage_class(simulation, missing_pods),
        outranking=_find_outranking_pods(room),
        preempts=_find_preempted_pods(room),
        preemptor=pods[room.searches[0].wanted].key if room.searches else "",
        rivals=_find_rivals(room) if missing_pods else (),
        commands=tuple(_iter_commands(room, terminating_room)),
        terminating_room=terminating_room,
        pools=compare_pools(room.before.view, simulation.view) if room.parts else (),
        fragmented=tuple(resource for resource in fragmented if resource.resource not in short_resources),
        shortages=shortages,
        new_nodes=find_sufficient_new_nodes(room, shortages[0]) if shortages and not room.interrupted else None,
        placed_first=_list_placed_pods(
            room, {position: Row(int(room.before.view.node[position])) for position in room.placed_first}
        ),
        preempted_first=tuple(pods[position].key for position in room.preempted_first),
        held=tuple(HeldPods(reason, count) for reason, count in sorted(room.held.items(), key=lambda item: -item[1])),
        searched=_summarize_search(room),
        interrupted=room.interrupted,
        **build_cluster_basis(find_simulation_unknowns(simulation, *dependencies), room.before.scheduler),
    )


def _list_placed_pods(room: RoomMaking, rows: Mapping[Position, Row]) -> tuple[PlacedPod, ...]:
    """List the pods in `rows`, which maps pods to the rows of their nodes, with the names of these nodes."""
    view = room.before.view
    return tuple(PlacedPod(view.pods.objects[position].key, view.nodes.names[row]) for position, row in rows.items())


def _iter_pod_moves(room: RoomMaking, part: PlanPart) -> Iterator[PodMove]:
    """Yield the moves of one part of the plan in order, with alternative targets, PDBs and lost data."""
    view = room.before.view
    for move, targets in zip(part.moved, part.targets, strict=True):
        pod = view.pods.objects[move.position]
        yield PodMove(
            pod=pod.key,
            workload=str(find_owner(pod)),
            source=view.nodes.names[move.source],
            target=view.nodes.names[move.target],
            tied=move.tied,
            others=tuple(view.nodes.names[row] for row in sorted(targets - {move.target})),
            priority=view.pods.get_priority(move.position),
            budgets=room.simulation.budgets.find_selecting_budgets(move.position),
            loses=_describe_loss(pod),
            is_only_pod=find_owner(pod).kind != "Job" and _is_only_running_pod(room, pod),
        )


def _iter_commands(room: RoomMaking, terminating_room: TerminatingRoom | None) -> Iterator[str]:
    """Yield the commands that carry out the plan.

    If no pod moves, and it is enough to wait for the terminating pods of `terminating_room`, yield commands that wait
    for them. If these pods are overdue, yield commands that show what keeps them instead.
    """
    for part in room.parts:
        yield from _iter_plan_commands(room, part)
    has_moves = any(part.moved for part in room.parts)
    if terminating_room and not terminating_room.rivals and not has_moves:
        pods = room.before.view.pods
        leaving = [pods.get_pod(key) for key in terminating_room.pods]
        yield from _iter_commands_for_leaving_pods(leaving, is_overdue=bool(terminating_room.overdue))


def _iter_commands_for_leaving_pods(leaving: Sequence[Pod], *, is_overdue: bool) -> Iterator[str]:
    """Yield a command for each namespace that waits until its leaving pods are gone.

    If the pods are overdue, yield commands that show what keeps them, for each namespace and node.
    """
    for namespace in dict.fromkeys(pod.metadata.namespace for pod in leaving):
        in_namespace = [pod for pod in leaving if pod.metadata.namespace == namespace]
        if not is_overdue:
            yield kubectl.render_wait_until_gone(*in_namespace)
            continue
        for node in dict.fromkeys(pod.spec.node_name for pod in in_namespace):
            on_node = [pod for pod in in_namespace if pod.spec.node_name == node]
            yield from kubectl.render_stuck_deletion_checks(node, *on_node)


def _find_nodes_of_terminating_pods(cluster: Cluster) -> dict[str, str]:
    """Return the name of the node of each pod that is being deleted and still has a node, by the pod's key."""
    return {
        pod.key: pod.spec.node_name
        for pod in cluster.pods
        if pod.spec.node_name and pod.metadata.deletion_timestamp is not None and not pod.terminated
    }


def find_terminating_room(room: RoomMaking) -> TerminatingRoom | None:
    """Find out whether the pods only have to wait until terminating pods are gone.

    All waiting pods pass the queue of a cluster without terminating pods. A single pod may get no node there because
    other waiting pods take the room first. The result then names these pods. Return None if no search was needed, if
    terminating pods make no room, or if extenders would have to be called for all pods.
    """
    scheduler = room.before.scheduler
    terminating = _find_nodes_of_terminating_pods(scheduler.cluster)
    needs_extenders = scheduler.call_extender is not None and scheduler.extenders
    if not room.searches or not terminating or needs_extenders:
        return None
    freed = _find_freed_nodes(room, scheduler, frozenset(terminating))
    if freed is None:
        return None
    leaving = tuple(key for key, node in terminating.items() if node in freed.nodes)
    if not leaving:
        return None
    leaving_pods = (pod for pod in scheduler.cluster.pods if pod.key in leaving)
    return TerminatingRoom(
        nodes=freed.nodes,
        pods=leaving,
        rivals=freed.rivals,
        overdue=describe_overdue_time(scheduler.cluster, leaving_pods),
    )


class _FreedNodes(NamedTuple):
    """The nodes on which the pods fit once terminating pods are gone."""

    nodes: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    """Other waiting pods that get the room on these nodes first."""


def _find_freed_nodes(room: RoomMaking, scheduler: Scheduler, terminating: frozenset[str]) -> _FreedNodes | None:
    """Find the nodes that the wanted pods get in a cluster without the `terminating` pods.

    If there is only one wanted pod, and it gets no node because other waiting pods take the room first, return the node
    that it would get if it were tried first, and these pods. Return None in all other cases in which a wanted pod gets
    no node, and if a wanted pod preempts other pods even in this cluster.
    """
    wanted_pods = [room.before.view.pods.objects[position] for position in room.wanted]
    first_pod = wanted_pods[0]
    node_by_pod, preemptors = replay_queue_without_pods(scheduler, terminating, first_pod)
    if any(pod.key in preemptors for pod in wanted_pods):
        return None
    if all(pod.key in node_by_pod for pod in wanted_pods):
        return _FreedNodes(tuple(dict.fromkeys(node_by_pod[pod.key] for pod in wanted_pods)))
    is_only_unplaced_pod = len(wanted_pods) == 1 and not room.rows  # `room.rows` has the wanted pods that already fit
    if not is_only_unplaced_pod:
        return None
    # The node that the pod would get if no other waiting pod took the room first
    node = find_node_once_others_are_gone(scheduler, terminating, first_pod)
    rivals = tuple(key for key, node_of_pod in node_by_pod.items() if node_of_pod == node)
    return _FreedNodes((node,), rivals) if rivals else None


def _iter_plan_commands(room: RoomMaking, part: PlanPart) -> Iterator[str]:
    """Yield the commands that carry out one part of the plan, in order.

    Pods are evicted through the Eviction API, so that PDBs are respected. Emptied nodes are cordoned until the end,
    and other nodes while pods leave them. Nodes that were already cordoned before the plan stay cordoned.
    """
    view = room.before.view
    nodes = view.nodes.objects
    emptied = [row for row in sorted(part.emptied) if not nodes[row].spec.unschedulable]
    for row in emptied:
        yield kubectl.render_command("cordon", nodes[row].metadata.name)

    for source, moves in itertools.groupby(part.moved, key=lambda move: move.source):
        must_cordon = source not in emptied and not nodes[source].spec.unschedulable
        if must_cordon:
            yield kubectl.render_command("cordon", nodes[source].metadata.name)
        for move in moves:
            pod = view.pods.objects[move.position]
            yield kubectl.render_eviction(pod)
            yield kubectl.render_wait_until_gone(pod)
            are_others_available = are_other_replicas_available(view, pod)
            yield kubectl.render_wait_for_replacement(pod, are_others_available=are_others_available)
        if must_cordon:
            yield kubectl.render_command("uncordon", nodes[source].metadata.name)

    for row in emptied:
        yield kubectl.render_command("uncordon", nodes[row].metadata.name)


def _describe_loss(pod: Pod) -> str:
    """Describe what the pod loses when it moves, or return "" if it loses nothing."""
    losses = ["the data in its emptyDir volumes"] if has_scratch_data(pod) else []
    if find_owner(pod).kind == "Job":
        losses.append("its progress, since its Job starts it again")
    return " and ".join(losses)


def _is_only_running_pod(room: RoomMaking, pod: Pod) -> bool:
    """Return whether no other pod of the pod's workload has a node before the moves."""
    owner = find_owner(pod)
    view = room.before.view
    running = (view.pods.objects[position] for position in np.flatnonzero(view.mask_placed()).tolist())
    return not any(other.key != pod.key and find_owner(other) == owner for other in running)


def _find_outranking_pods(room: RoomMaking) -> tuple[str, ...]:
    """Return the keys of the moved pods with a higher priority than all pods for which room is made."""
    pods = room.before.view.pods
    highest = max(pods.get_priority(position) for position in room.wanted)
    moved = (move.position for part in room.parts for move in part.moved)
    return tuple(pods.objects[position].key for position in moved if pods.get_priority(position) > highest)


def _find_preempted_pods(room: RoomMaking) -> tuple[str, ...]:
    """Return the keys of the pods that kube-scheduler would preempt for the first pod that needs room.

    kube-scheduler does so as soon as it tries the pod, before anyone can carry out the plan. Return () if all pods fit
    without a search.
    """
    if not room.searches:
        return ()
    stage = replace(room.before, view=room.before.view.fork())
    outcome = stage.build_simulation().attempt_pod(room.searches[0].wanted)
    pods = room.before.view.pods.objects
    return tuple(pods[victim].key for victim in outcome.victims) if outcome else ()


def _find_rivals(room: RoomMaking) -> tuple[str, ...]:
    """Return the waiting pods of the same workload that the queue pops before the pod for which room is made.

    Return () if room is made for several pods, or for a pod without a workload.
    """
    if len(room.wanted) != 1:
        return ()
    (wanted,) = room.wanted
    pods = room.before.view.pods.objects
    owner = find_owner(pods[wanted])
    if owner.kind == "Pod":  # no controller
        return ()
    replicas = [position for position in room.unplaced if find_owner(pods[position]) == owner]
    if wanted not in replicas:
        replicas.append(wanted)
    order = room.simulation.sort_for_queue(replicas)
    return tuple(pods[position].key for position in order[: order.index(wanted)])


def _describe_missing_storage_class(simulation: Simulation, missing: Sequence[str]) -> str:
    """Describe the missing StorageClass that the first of the `missing` pods needs, or return an empty string."""
    if not missing:
        return ""
    first_pod = simulation.view.pods.get_pod(missing[0])
    return MissingStorageClasses(simulation.view.cluster).explain_missing_class(first_pod)


def _explain_first_missing_pod(simulation: Simulation, missing: Sequence[str]) -> str:
    """Return kube-scheduler's message for the first of the `missing` pods, or "" if there are none.

    If kube-scheduler does not try this pod, return the reason instead.
    """
    if not missing:
        return ""
    position = Position(simulation.view.pods.index[missing[0]])
    return find_reason_not_tried(simulation, position) or simulation.build_message(position)


def _summarize_search(room: RoomMaking) -> SearchedPlans | None:
    """Summarize how many plans were tried and whether the search was complete, or return None if none was needed."""
    if not room.searches:
        return None
    last_search = room.searches[-1]
    return SearchedPlans(
        max_moves=room.criteria.max_moves,
        plans=sum(search.tried for search in room.searches),
        nodes=0 if last_search.promising is None else int(last_search.promising.sum()),
        movable=len(last_search.movable.pods),
        complete=len(room.wanted) == 1 and all(search.complete for search in room.searches),
        timed_out=any(search.limit_reached for search in room.searches),
        pod=room.before.view.pods.objects[last_search.wanted].key,
        seconds=room.criteria.seconds,
    )


def iter_fragmented_resources(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield the resources and devices that are free in total, but not on any single node that the pod may use."""
    yield from _iter_fragmented_resources(search)
    yield from _iter_fragmented_devices(search)


def _iter_fragmented_resources(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield each requested resource that is free in sufficient amount, but not on a single eligible node.

    A resource of which no eligible node would have enough even without its movable pods is left out: gathering the free
    amounts on one node does not help. Nodes at their pod limit are left out, because they take no pod. `explain` does
    not count their free resources either.
    """
    view, eligible = search.stage.view, search.eligible
    if eligible is None:
        return
    free = np.maximum(view.allocatable - view.requested, 0)
    takes_more_pods = free[:, view.resources[PODS]] > 0
    movable_pods = search.movable.pods[view.node[search.movable.pods] >= 0]
    freeable = free.copy()
    np.add.at(freeable, view.node[movable_pods], view.get_requests(movable_pods))
    most_freeable = freeable[eligible].max(axis=0, initial=0)
    free = free[eligible & takes_more_pods]
    if not len(free):
        return
    requests = view.get_requests(search.wanted)
    for name, column in view.resources.items():
        free_by_node = free[:, column]
        total = int(free_by_node.sum())
        largest = int(free_by_node.max())
        can_be_gathered = most_freeable[column] >= requests[column]
        if name != PODS and can_be_gathered and largest < requests[column] <= total:
            nodes_with_free = int((free_by_node > 0).sum())
            yield FragmentedResource(
                name, requested=int(requests[column]), free=total, on_one=largest, nodes=nodes_with_free
            )


class _FreeDeviceCounts(NamedTuple):
    """The free devices for one alternative of a request."""

    wanted: int
    free: int
    """The number on all nodes together."""
    on_one: int
    """The number on the node that has the most."""
    nodes: int
    """The number of nodes that have any."""


def _iter_fragmented_devices(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield each device request that no node can satisfy, although enough devices are free in total.

    If a request has alternatives, it counts only if no node can satisfy any of them. Only nodes that would otherwise
    take the pod are considered. Nothing is yielded for a pod without device requests.
    """
    cycle = search.stage.build_simulation().run_cycle(search.wanted)
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None or search.eligible_except_devices is None:
        return

    # (claim, request) -> alternative of the request -> its free devices on each node
    free_devices: dict[tuple[str, str], dict[str, list[FreeDevices]]] = {}
    for row in np.flatnonzero(search.eligible_except_devices).tolist():
        for free in evaluation.list_free_devices(row):
            alternatives = free_devices.setdefault((free.claim, free.request), {})
            alternatives.setdefault(free.alternative, []).append(free)

    for (claim, _), alternatives in free_devices.items():
        counts_by_alternative = {name: _count_free_devices(on_nodes) for name, on_nodes in alternatives.items()}
        if any(counts.on_one >= counts.wanted for counts in counts_by_alternative.values()):
            continue
        for name, counts in counts_by_alternative.items():
            if counts.free >= counts.wanted:
                resource = f"devices for claim {claim}, request {name}"
                yield FragmentedResource(
                    resource, requested=counts.wanted, free=counts.free, on_one=counts.on_one, nodes=counts.nodes
                )


def _count_free_devices(free_by_node: Sequence[FreeDevices]) -> _FreeDeviceCounts:
    """Count the free devices on all nodes together, and on the node that has the most. Shared devices count once."""
    free_counts = [len(free.devices) for free in free_by_node]
    all_devices = frozenset().union(*(free.devices for free in free_by_node))  # nodes may share devices
    nodes_with_devices = sum(count > 0 for count in free_counts)
    return _FreeDeviceCounts(
        wanted=free_by_node[0].wanted, free=len(all_devices), on_one=max(free_counts), nodes=nodes_with_devices
    )
