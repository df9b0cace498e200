"""Which pods have to move so that these fit?"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.reports.make_room import MakeRoom
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.making_room.document import document
from kschedctl.studies.making_room.room import RoomMaking, RoomWishes


def make_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
) -> MakeRoom:
    """The moves that let pods of the cluster fit that wait, ``namespace/name``. Raises UsageError, InputError."""
    scheduler = Scheduler(cluster, call_extender)
    index = scheduler.view.pods.index
    wanted = [Position(index[key]) for key in dict.fromkeys(keys)]
    room = RoomMaking.of(scheduler, wanted, wishes, seed)
    try:
        room.make()
    except KeyboardInterrupt:
        room.interrupted = True
    return document(room)
