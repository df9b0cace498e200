"""Which pods have to move so that these fit?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.reports.make_room import MakeRoom
from kschedctl.reports.remedies import Remedies
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.basics.parallel import ALONE, UNSEEN, Progress, Workers, crew
from kschedctl.studies.controllers.asked_pod import AskedPod
from kschedctl.studies.making_room.asked import waiting_with
from kschedctl.studies.making_room.document import document
from kschedctl.studies.making_room.movable import movable
from kschedctl.studies.making_room.room import DraftTask, RoomMaking, RoomWishes
from kschedctl.studies.making_room.search import depends_on_others
from kschedctl.studies.making_room.sets import SetsOnNodes
from kschedctl.studies.remedies.search import RemedyWishes
from kschedctl.studies.what_if.shared_cluster import those_who_may_ask

MOVE = "MovePod"
BESIDE_REMEDIES = RoomWishes(seconds=10)
ONE_AT_A_TIME = Lock()
"""A worker may have several threads, which share what was made."""


def make_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> MakeRoom:
    """The moves that let pods of the cluster fit that wait, ``namespace/name``.

    Raises UsageError, InputError, ClusterError where workers are lost.
    """
    shared = SharedRoom(cluster, tuple(dict.fromkeys(keys)), wishes, seed)
    room = shared.made = _begun(Scheduler(cluster, call_extender), shared)
    with crew(judged, shared, those_who_may_ask(workers, call_extender)) as room.hands:
        room.done = progress.begin("Trying plans", 0)
        return _made(room)


@dataclass(eq=False)
class SharedRoom:
    """What workers share; what is made of it stays behind when it travels."""

    cluster: Cluster
    keys: tuple[str, ...]
    wishes: RoomWishes
    seed: int
    made: RoomMaking | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "made": None}


def judged(shared: SharedRoom, task: DraftTask) -> bool:
    """Whether a draft holds after the plans that were taken."""
    with ONE_AT_A_TIME:
        if shared.made is None:
            shared.made = _begun(Scheduler(shared.cluster), shared)
        shared.made.follow(task.taken[len(shared.made.taken) :])
        return shared.made.accepts(task.draft)


def _begun(scheduler: Scheduler, shared: SharedRoom) -> RoomMaking:
    wanted = [Position(scheduler.view.pods.index[key]) for key in shared.keys]
    return RoomMaking.of(scheduler, wanted, shared.wishes, shared.seed)


def _made(room: RoomMaking) -> MakeRoom:
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
    room = _made(_begun(scheduler, SharedRoom(cluster, tuple(keys), BESIDE_REMEDIES, seed=0)))
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
