"""``make-room``: which pods have to move so that these fit?

Read ``plan``, then ``room`` (plans for one pod after the other), ``search`` (the fewest moves), ``sets`` (pods of one
node) and ``rehearsal`` (a plan played step by step). ``document`` makes the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import find_target
from kschedctl.commands.make_room import plan as study
from kschedctl.commands.make_room.asked import waiting_with
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import RoomWishes
from kschedctl.commands.simulate import prepare
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.engine.extenders.extender import CallExtender


def make_room(
    cluster: Cluster,
    pods: str | Sequence[JsonObject],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Which pods have to move so that these fit, in which order, and where does each go? Every step is replayed.

    ``pods``: one of the cluster that waits, ``namespace/name``, with its group; or manifests (dicts), of which all pods
    are to fit. ``wishes``: how many moves, for how many seconds, which pods stay. ``seed`` decides between nodes that
    are equal; ``call_extender``: as for ``explain``. Raises UsageError for a pod that has a node or is not there,
    InputError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> make_room(kschedctl.Cluster.from_objects([node]), [web]).fits
    True
    """
    if isinstance(pods, str):
        return room_for_asked(
            [find_target(cluster, pods, call_extender)],
            wishes,
            seed=seed,
            call_extender=call_extender,
            workers=workers,
            progress=progress,
        )
    return room_for_manifests(
        cluster, pods, wishes, seed=seed, call_extender=call_extender, workers=workers, progress=progress
    )


def room_for_asked(
    asked: Sequence[TargetPod],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """For pods that wait; arguments and errors as for ``make_room``."""
    if refused := [lacking for pod in asked if (lacking := pod.never_created)]:
        raise _nobody(refused)
    cluster, keys = waiting_with(asked)
    return study.make_room(
        cluster, keys, wishes, seed=seed, call_extender=call_extender, workers=workers, progress=progress
    )


def room_for_manifests(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
    written: Mapping[Owner, JsonObject] | None = None,
) -> MakeRoom:
    """For all pods of manifests that are created; ``written``: as for ``simulate``, else as for ``make_room``."""
    prepared = prepare(cluster, manifests, counting=dict(written or {}))
    if not prepared.workloads:
        raise _nobody(prepared.not_created)
    return study.make_room(
        prepared.cluster,
        list(prepared.workloads),
        wishes,
        seed=seed,
        call_extender=call_extender,
        workers=workers,
        progress=progress,
    )


def _nobody(refused: Iterable[NotCreated]) -> UsageError:
    said = (f"{lacking.workload}: {lacking.headline}" for lacking in refused)
    return UsageError(f"no pod to make room for: {'; '.join(said) or 'none is created'}")
