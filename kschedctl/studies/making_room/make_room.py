"""Which pods have to move so that these fit?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.reports.make_room import MakeRoom
from kschedctl.reports.remedies import Remedies
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.controllers.asked_pod import AskedPod
from kschedctl.studies.making_room.asked import waiting_with
from kschedctl.studies.making_room.document import document
from kschedctl.studies.making_room.movable import movable
from kschedctl.studies.making_room.room import RoomMaking, RoomWishes
from kschedctl.studies.making_room.search import depends_on_others
from kschedctl.studies.making_room.sets import SetsOnNodes
from kschedctl.studies.remedies.search import RemedyWishes

MOVE = "MovePod"
BESIDE_REMEDIES = RoomWishes(seconds=10)


def make_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
) -> MakeRoom:
    """The moves that let pods of the cluster fit that wait, ``namespace/name``. Raises UsageError, InputError."""
    return _made(Scheduler(cluster, call_extender), keys, wishes, seed)


def _made(scheduler: Scheduler, keys: Sequence[str], wishes: RoomWishes, seed: int) -> MakeRoom:
    index = scheduler.view.pods.index
    wanted = [Position(index[key]) for key in dict.fromkeys(keys)]
    room = RoomMaking.of(scheduler, wanted, wishes, seed)
    try:
        room.make()
    except KeyboardInterrupt:
        room.interrupted = True
    return document(room)


def with_room(report: Remedies, asked: AskedPod, wishes: RemedyWishes) -> Remedies:
    """The remedies of a pod, with a plan that moves others, where none of them is that and it is wished for."""
    moved = any(set(remedy.kinds) == {MOVE} for remedy in report.remedies)
    if report.verdict != "Unschedulable" or moved or not wishes.considers(MOVE, "operator"):
        return report
    cluster, keys = waiting_with([asked])
    known = cluster is asked.scheduler.cluster
    scheduler = asked.scheduler if known else Scheduler(cluster, asked.scheduler.call_extender)
    if not _may_help(scheduler, keys[0]):
        return report
    room = _made(scheduler, keys, BESIDE_REMEDIES, seed=0)
    return replace(report, make_room=room) if room.fits and room.moves else report


def _may_help(scheduler: Scheduler, key: str) -> bool:
    """Whether the pod fits somewhere without others, or where these are makes a difference."""
    simulation = Simulation(scheduler)
    position = Position(simulation.view.pods.index[key])
    if simulation.framework(position) is None:
        return False
    everywhere = np.ones(len(simulation.view.nodes), np.bool_)
    movable_pods, cycle = movable(simulation, everywhere, None, [position]), simulation.cycle(position)
    return depends_on_others(cycle) or bool(
        SetsOnNodes(cycle, movable_pods, movable_pods.pods, everywhere).promising.any()
    )
