"""The command `make-room`: which pods have to move so that these pods fit?

Read `plan`, then `room` (one plan per pod), `search` (the fewest moves), `sets` (sets of pods on one node) and
`rehearsal` (a plan replayed step by step). `document` builds the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import find_target
from kschedctl.commands.make_room.plan import collect_waiting_pods, find_room
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import RoomWishes
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.engine.extenders import CallExtender


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
    """Find which pods have to move so that these pods fit. Every step is replayed.

    The report has the moves in order, each with the node where kube-scheduler puts the replacement.

    Raises UsageError for a pod that has a node or does not exist, and InputError for invalid input.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> kschedctl.make_room(kschedctl.Cluster.from_objects([node]), [web]).fits
    True
    """
    if isinstance(pods, str):
        return make_room_for_waiting(
            [find_target(cluster, pods, call_extender)],
            wishes,
            seed=seed,
            call_extender=call_extender,
            workers=workers,
            progress=progress,
        )
    return make_room_for_manifests(
        cluster, pods, wishes, seed=seed, call_extender=call_extender, workers=workers, progress=progress
    )


def make_room_for_waiting(
    targets: Sequence[TargetPod],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Make room for waiting pods. The other arguments and the errors are those of `find_room`."""
    failures = [target.never_created for target in targets if target.never_created]
    if failures:
        raise _build_no_pod_error(failures)
    cluster, keys = collect_waiting_pods(targets)
    return find_room(cluster, keys, wishes, seed=seed, call_extender=call_extender, workers=workers, progress=progress)


def make_room_for_manifests(
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
    """Make room for all pods that the manifests create.

    `written` maps workloads to their manifests as written, as for `simulate`. The other arguments are those of
    `find_room`.
    """
    prepared = prepare_simulation(cluster, manifests, documents=dict(written or {}))
    if not prepared.workload_by_pod:
        raise _build_no_pod_error(prepared.not_created)
    return find_room(
        prepared.cluster,
        list(prepared.workload_by_pod),
        wishes,
        seed=seed,
        call_extender=call_extender,
        workers=workers,
        progress=progress,
    )


def _build_no_pod_error(failures: Iterable[NotCreated]) -> UsageError:
    """Build the error for workloads that create no pod, with the reasons."""
    reasons = "; ".join(f"{failure.workload}: {failure.headline}" for failure in failures)
    return UsageError(f"no pod to make room for: {reasons or 'the manifests create none'}")
