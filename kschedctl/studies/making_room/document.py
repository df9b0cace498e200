"""The plan of a room as the document that users see, and as commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import owner_of
from kschedctl.api.resource_names import PODS
from kschedctl.reports.make_room import FragmentedResource, HeldPods, MakeRoom, PlacedPod, PodMove, SearchedPlans
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.basics import kubectl
from kschedctl.studies.basics.unknown import of_simulation
from kschedctl.studies.making_room.movable import leaves_scratch
from kschedctl.studies.making_room.room import PlanPart, RoomMaking
from kschedctl.studies.packing.pool_changes import pool_changes
from kschedctl.studies.what_if.shared_cluster import cluster_basis


def document(room: RoomMaking) -> MakeRoom:
    """The room as it was made."""
    view, pods = room.before.view, room.before.view.pods.objects
    missing = [pods[position].key for position in room.wanted if position not in room.rows]
    simulation = room.stage.simulation()
    budgets = (Dependency("PodDisruptionBudget", Effect.EITHER),) if room.searches else ()
    return MakeRoom(
        pods=tuple(pods[position].key for position in room.wanted),
        fits=not missing,
        moves=tuple(move for part in room.parts for move in _moves(room, part)),
        placed=tuple(PlacedPod(pods[position].key, view.nodes.names[row]) for position, row in room.rows.items()),
        missing=tuple(missing),
        message=_message(simulation, missing),
        preempts=_preempts(room),
        commands=tuple(command for part in room.parts for command in _commands(room, part)),
        pools=pool_changes(room.before.view, simulation.view) if room.parts else (),
        fragmented=tuple(_fragmented(room)) if room.searches else (),
        held=tuple(HeldPods(why, count) for why, count in sorted(room.held.items(), key=lambda item: -item[1])),
        searched=_searched(room),
        interrupted=room.interrupted,
        **cluster_basis(of_simulation(simulation, *budgets), room.before.scheduler),
    )


def _moves(room: RoomMaking, part: PlanPart) -> Iterator[PodMove]:
    view = room.before.view
    for position, source, target, tied in part.moved:
        pod = view.pods.objects[position]
        yield PodMove(
            pod=pod.key,
            workload=str(owner_of(pod)),
            source=view.nodes.names[source],
            target=view.nodes.names[target],
            tied=tied,
            priority=int(view.pods.priority[view.pods.info[position]]),
            budgets=room.simulation.budgets.selecting(position),
            loses="what is in its emptyDir volumes" if leaves_scratch(pod) else "",
        )


def _commands(room: RoomMaking, part: PlanPart) -> Iterator[str]:
    """What is typed, one line after the other; each eviction is asked of the API server, which heeds budgets."""
    names, pods = room.before.view.nodes.names, room.before.view.pods.objects
    emptied = {names[row]: None for row in sorted(part.emptied)}
    yield from (kubectl.run("cordon", name) for name in emptied)
    cordoned = ""
    for position, source, _, _ in part.moved:
        name = names[source]
        if cordoned not in ("", name):
            yield kubectl.run("uncordon", cordoned)
            cordoned = ""
        if name not in emptied and not cordoned:
            cordoned = name
            yield kubectl.run("cordon", name)
        yield kubectl.evict(pods[position])
    yield from (kubectl.run("uncordon", name) for name in ([cordoned] if cordoned else []) + list(emptied))


def _preempts(room: RoomMaking) -> tuple[str, ...]:
    """Whom kube-scheduler would evict for the first pod that needs room, as it would not wait for the plan."""
    if not room.searches:
        return ()
    stage = replace(room.before, view=room.before.view.fork())
    outcome = stage.simulation().attempt(room.searches[0].wanted)
    pods = room.before.view.pods.objects
    return tuple(pods[victim].key for victim in outcome.victims) if outcome else ()


def _message(simulation: Simulation, missing: Sequence[str]) -> str:
    """kube-scheduler's words for the first pod that fits nowhere with what could be moved."""
    if not missing:
        return ""
    position = simulation.view.pods.index[missing[0]]
    return simulation.message(Position(position)) if simulation.framework(Position(position)) else ""


def _fragmented(room: RoomMaking) -> Iterator[FragmentedResource]:
    """Resources of which there is enough in all, but on no single node that the pod may use at all."""
    search = room.searches[0]
    view, eligible = search.stage.view, search.eligible
    if eligible is None or not eligible.any():
        return
    wanted = view.requests[view.pods.info[search.wanted]]
    free = np.maximum(view.allocatable - view.requested, 0)[eligible]
    for name, column in view.resources.items():
        total, most = int(free[:, column].sum()), int(free[:, column].max())
        if name != PODS and most < wanted[column] <= total:
            yield FragmentedResource(name, int(wanted[column]), total, most, int((free[:, column] > 0).sum()))


def _searched(room: RoomMaking) -> SearchedPlans | None:
    if not room.searches:
        return None
    last = room.searches[-1]
    return SearchedPlans(
        max_moves=room.wishes.most,
        plans=sum(search.tried for search in room.searches),
        nodes=0 if last.helped is None else int(last.helped.sum()),
        movable=len(last.movable.pods),
        complete=len(room.wanted) == 1 and all(search.complete for search in room.searches),
    )
