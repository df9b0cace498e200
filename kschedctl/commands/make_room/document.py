"""The report of a finished search, with the commands to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kschedctl.api.arrays import Position, Row
from kschedctl.api.ownership import find_owner
from kschedctl.commands.make_room.fragmentation import find_fragmented
from kschedctl.commands.make_room.movable import has_scratch_data
from kschedctl.commands.make_room.report import HeldPods, MakeRoom, PlacedPod, PodMove, SearchedPlans
from kschedctl.commands.make_room.room import PlanPart, RoomMaking, find_gate
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.eviction import is_of_job
from kschedctl.replay.missing_storage_classes import MissingStorageClasses
from kschedctl.replay.pools import compare_pools
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.simulation import Simulation


def build_report(room: RoomMaking) -> MakeRoom:
    """Build the report."""
    view, pods = room.before.view, room.before.view.pods.objects
    missing = [pods[position].key for position in room.wanted if position not in room.rows]
    simulation = room.stage.build_simulation()
    leans_on = (Dependency("PodDisruptionBudget", Effect.EITHER),) if room.searches else ()
    if any(is_of_job(pods[move.position]) for part in room.parts for move in part.moved):
        leans_on = (*leans_on, Dependency("Job", Effect.EITHER))
    return MakeRoom(
        pods=tuple(pods[position].key for position in room.wanted),
        fits=not missing,
        moves=tuple(move for part in room.parts for move in _iter_moves(room, part)),
        placed=tuple(PlacedPod(pods[position].key, view.nodes.names[row]) for position, row in room.rows.items()),
        also_placed=tuple(
            PlacedPod(pods[position].key, view.nodes.names[row]) for position, row in room.besides.items()
        ),
        missing=tuple(missing),
        message=_find_message(simulation, missing),
        cause=_find_cause(simulation, missing),
        preempts=_find_preempted(room),
        commands=tuple(command for part in room.parts for command in _iter_commands(room, part)),
        pools=compare_pools(room.before.view, simulation.view) if room.parts else (),
        fragmented=tuple(find_fragmented(room.searches[0])) if room.searches else (),
        held=tuple(HeldPods(why, count) for why, count in sorted(room.held.items(), key=lambda item: -item[1])),
        searched=_summarize_search(room),
        interrupted=room.interrupted,
        **build_cluster_basis(find_simulation_unknowns(simulation, *leans_on), room.before.scheduler),
    )


def _iter_moves(room: RoomMaking, part: PlanPart) -> Iterator[PodMove]:
    view = room.before.view
    for (position, source, target, tied), targets in zip(part.moved, part.targets, strict=True):
        pod = view.pods.objects[position]
        yield PodMove(
            pod=pod.key,
            workload=str(find_owner(pod)),
            source=view.nodes.names[source],
            target=view.nodes.names[target],
            tied=tied,
            others=tuple(view.nodes.names[row] for row in sorted(targets - {target})),
            priority=int(view.pods.priority[view.pods.info[position]]),
            budgets=room.simulation.budgets.find_selecting(position),
            loses="what is in its emptyDir volumes" if has_scratch_data(pod) else "",
        )


def _iter_commands(room: RoomMaking, part: PlanPart) -> Iterator[str]:
    """Yield the commands to type in order. Evictions go through the Eviction API, so that budgets hold.

    Nodes that are already cordoned stay cordoned.
    """
    nodes, pods = room.before.view.nodes.objects, room.before.view.pods.objects
    emptied = [row for row in sorted(part.emptied) if not nodes[row].spec.unschedulable]
    yield from (kubectl.render_command("cordon", nodes[row].metadata.name) for row in emptied)
    cordoned: Row | None = None
    for position, source, _, _ in part.moved:
        if cordoned is not None and cordoned != source:
            yield kubectl.render_command("uncordon", nodes[cordoned].metadata.name)
            cordoned = None
        if cordoned is None and source not in emptied and not nodes[source].spec.unschedulable:
            cordoned = source
            yield kubectl.render_command("cordon", nodes[source].metadata.name)
        yield kubectl.render_eviction(pods[position])
    left = emptied if cordoned is None else [cordoned, *emptied]
    yield from (kubectl.render_command("uncordon", nodes[row].metadata.name) for row in left)


def _find_preempted(room: RoomMaking) -> tuple[str, ...]:
    """Return whom kube-scheduler would preempt for the first pod that needs room, since it does not wait for the
    plan.
    """
    if not room.searches:
        return ()
    stage = replace(room.before, view=room.before.view.fork())
    outcome = stage.build_simulation().attempt(room.searches[0].wanted)
    pods = room.before.view.pods.objects
    return tuple(pods[victim].key for victim in outcome.victims) if outcome else ()


def _find_cause(simulation: Simulation, missing: Sequence[str]) -> str:
    """Return which missing StorageClass the first unplaced pod names, or ""."""
    pods = simulation.view.pods
    return (
        MissingStorageClasses(simulation.view.cluster).explain(pods.objects[pods.index[missing[0]]]) if missing else ""
    )


def _find_message(simulation: Simulation, missing: Sequence[str]) -> str:
    """Return kube-scheduler's message for the first pod that fits nowhere even after moves."""
    if not missing:
        return ""
    position = Position(simulation.view.pods.index[missing[0]])
    return find_gate(simulation, position) or simulation.build_message(position)


def _summarize_search(room: RoomMaking) -> SearchedPlans | None:
    if not room.searches:
        return None
    last = room.searches[-1]
    return SearchedPlans(
        max_moves=room.wishes.most,
        plans=sum(search.tried for search in room.searches),
        nodes=0 if last.helped is None else int(last.helped.sum()),
        movable=len(last.movable.pods),
        complete=len(room.wanted) == 1 and all(search.complete for search in room.searches),
        timed_out=any(search.timed_out for search in room.searches),
    )
