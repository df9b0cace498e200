"""The search for moves that make room for waiting pods, in this process or with workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.document import build_report
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import DraftTask, RoomMaking, RoomWishes
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, find_groups
from kschedctl.replay.edits import add_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, open_worker_pool
from kschedctl.replay.shared_cluster import limit_workers
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler

STATE_LOCK = Lock()
"""Serializes the threads of a worker, which share state."""


def find_room(
    cluster: Cluster,
    keys: Sequence[str],
    wishes: RoomWishes = RoomWishes(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Find the moves that let waiting pods of the cluster fit, given by `namespace/name`.

    The search runs in this process, with `workers` that judge plans in parallel. Raises UsageError, InputError, and
    ClusterError if workers are lost.
    """
    shared_room = SharedRoom(cluster, tuple(dict.fromkeys(keys)), wishes, seed)
    room = shared_room.room = start_room_making(Scheduler(cluster, call_extender), shared_room)
    with open_worker_pool(judge_draft, shared_room, limit_workers(workers, call_extender)) as room.pool:
        room.advance = progress.begin("Trying plans", 0)
        return make_room_and_report(room)


@dataclass(eq=False)
class SharedRoom:
    """The input of a search, which workers share. Each process builds its own RoomMaking from it."""

    cluster: Cluster
    keys: tuple[str, ...]
    wishes: RoomWishes
    seed: int
    room: RoomMaking | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "room": None}  # not sent to workers


def judge_draft(shared: SharedRoom, task: DraftTask) -> bool:
    """Return whether a draft works after the plans that were adopted, in a worker that catches up with these first."""
    with STATE_LOCK:
        if shared.room is None:
            shared.room = start_room_making(Scheduler(shared.cluster), shared)
        shared.room.adopt_all(task.taken[len(shared.room.adopted) :])
        return shared.room.accepts(task.draft)


def start_room_making(scheduler: Scheduler, shared: SharedRoom) -> RoomMaking:
    """Start to make room for the pods of a shared input."""
    wanted = [Position(scheduler.view.pods.index[key]) for key in shared.keys]
    return RoomMaking.start(scheduler, wanted, shared.wishes, shared.seed)


def make_room_and_report(room: RoomMaking) -> MakeRoom:
    """Make room until done or interrupted, and build the report."""
    try:
        room.make_room()
    except KeyboardInterrupt:
        room.interrupted = True
    return build_report(room)


def collect_waiting_pods(targets: Sequence[TargetPod]) -> tuple[Cluster, list[str]]:
    """Return the cluster with the target pods added, and the keys of all pods to make room for.

    Raises UsageError for targets of several clusters, and for a pod that has a node.
    """
    first_cluster = targets[0].scheduler.cluster
    cluster = first_cluster
    keys: dict[str, None] = {}
    for target in targets:
        pod = target.pod
        if pod.spec.node_name:
            raise UsageError(f"{pod.key} already has a node: {pod.spec.node_name}", hint="name a waiting pod")
        if target.scheduler.cluster is not first_cluster:
            raise UsageError("these pods are not in the same cluster", hint="name one of them")
        if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
            cluster = add_pods(cluster, [pod])
        keys |= dict.fromkeys([pod.key, *(companion.key for companion in _find_companions(target, cluster))])
    return cluster, list(keys)


def _find_companions(target: TargetPod, cluster: Cluster) -> list[Pod]:
    """Find the waiting pods of the target's group or, if the target stands for its workload, of that workload."""
    owner, groups = find_owner(target.pod), find_groups(target.pod)
    stands_for_workload = bool(target.note) and owner.kind != "Pod"

    def is_companion(pod: Pod) -> bool:
        """Return whether the waiting pod gets its node together with the target."""
        if pod.metadata.deletion_timestamp is not None or pod.terminated:
            return False
        return (stands_for_workload and find_owner(pod) == owner) or bool(groups & find_groups(pod))

    return [pod for pod in cluster.unbound_pods() if is_companion(pod)]
