"""Which pods have to move so that these fit?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.document import document
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import DraftTask, RoomMaking, RoomWishes
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, open_worker_pool
from kschedctl.replay.shared_cluster import limit_workers
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler

ONE_AT_A_TIME = Lock()
"""A worker may have several threads, which share what was made."""


def make_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """The moves that let pods of the cluster fit that wait, ``namespace/name``.

    Raises UsageError, InputError, ClusterError where workers are lost.
    """
    shared = SharedRoom(cluster, tuple(dict.fromkeys(keys)), wishes, seed)
    room = shared.made = _begun(Scheduler(cluster, call_extender), shared)
    with open_worker_pool(judged, shared, limit_workers(workers, call_extender)) as room.hands:
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
