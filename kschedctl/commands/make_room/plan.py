"""The search for moves, alone or with workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.document import build_report
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import DraftTask, RoomMaking, RoomWishes
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, open_worker_pool
from kschedctl.replay.shared_cluster import limit_workers
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler

STATE_LOCK = Lock()
"""Serializes the threads of a worker, which share state."""


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
    """Find the moves that let waiting pods (``namespace/name``) of the cluster fit.

    Raises UsageError, InputError, and ClusterError if workers are lost.
    """
    shared = SharedRoom(cluster, tuple(dict.fromkeys(keys)), wishes, seed)
    room = shared.made = _start(Scheduler(cluster, call_extender), shared)
    with open_worker_pool(judge_draft, shared, limit_workers(workers, call_extender)) as room.crew:
        room.done = progress.begin("Trying plans", 0)
        return _finish(room)


@dataclass(eq=False)
class SharedRoom:
    """What workers share. The state built from it is not sent along."""

    cluster: Cluster
    keys: tuple[str, ...]
    wishes: RoomWishes
    seed: int
    made: RoomMaking | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "made": None}


def judge_draft(shared: SharedRoom, task: DraftTask) -> bool:
    """Return whether a draft holds after the plans that were adopted."""
    with STATE_LOCK:
        if shared.made is None:
            shared.made = _start(Scheduler(shared.cluster), shared)
        shared.made.adopt(task.taken[len(shared.made.adopted) :])
        return shared.made.accepts(task.draft)


def _start(scheduler: Scheduler, shared: SharedRoom) -> RoomMaking:
    wanted = [Position(scheduler.view.pods.index[key]) for key in shared.keys]
    return RoomMaking.start(scheduler, wanted, shared.wishes, shared.seed)


def _finish(room: RoomMaking) -> MakeRoom:
    try:
        room.make()
    except KeyboardInterrupt:
        room.interrupted = True
    return build_report(room)
