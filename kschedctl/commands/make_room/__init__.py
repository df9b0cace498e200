"""The command `make-room`: which pods have to move so that these pods fit?

Read `find_room`, then the modules `room` (one plan per pod), `search` (the fewest moves), `sets` (sets of pods on one
node), `rehearsal` (a plan replayed step by step), `waiting` (the waiting pods that need not be tried meanwhile) and
`shortage` (a proof that no moves can help). `document` builds the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import find_or_create_target
from kschedctl.commands.make_room.document import build_report
from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.commands.make_room.room import DraftTask, RoomCriteria, RoomMaking
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, find_groups_of_pod
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, open_worker_pool
from kschedctl.replay.shared_cluster import limit_workers
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.deprecation import accept_old_names


@accept_old_names(wishes="criteria")
def make_room(
    cluster: Cluster,
    pods: str | Sequence[JsonObject],
    criteria: RoomCriteria = RoomCriteria(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Find which pods have to move so that these pods fit. Every step is replayed.

    `pods` is the key of a waiting pod, or the manifests of new pods or workloads. The report has the moves in order,
    each with the node where kube-scheduler puts the replacement. The other arguments are those of `find_room`.

    Raises UsageError for a pod that has a node or does not exist, and InputError for invalid input.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> kschedctl.make_room(kschedctl.Cluster.from_objects([node]), [web]).fits
    True
    """
    if isinstance(pods, str):
        return make_room_for_waiting_pods(
            [find_or_create_target(cluster, pods, call_extender)],
            criteria,
            seed=seed,
            call_extender=call_extender,
            workers=workers,
            progress=progress,
        )
    return make_room_for_manifests(
        cluster, pods, criteria, seed=seed, call_extender=call_extender, workers=workers, progress=progress
    )


def make_room_for_waiting_pods(
    targets: Sequence[TargetPod],
    criteria: RoomCriteria = RoomCriteria(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Make room for waiting pods and the other waiting pods of their groups or workloads.

    The other arguments and the errors are those of `find_room`. Also raises UsageError if a pod was never created, if
    it has a node, or if the pods are in different clusters.
    """
    failures = [target.never_created for target in targets if target.never_created]
    if failures:
        raise _build_no_pod_error(failures)
    cluster, keys = collect_pods_needing_room(targets)
    return find_room(
        cluster, keys, criteria, seed=seed, call_extender=call_extender, workers=workers, progress=progress
    )


def make_room_for_manifests(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    criteria: RoomCriteria = RoomCriteria(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
    written: Mapping[Owner, JsonObject] | None = None,
) -> MakeRoom:
    """Find out what has to move so that all pods that the manifests create fit.

    `written` has the manifest of each workload as its author wrote it, as for `simulate`. The other arguments and the
    errors are those of `find_room`. UsageError is also raised if the manifests create no pod.
    """
    prepared = prepare_simulation(cluster, manifests, documents=dict(written or {}))
    if not prepared.workload_by_pod:
        raise _build_no_pod_error(prepared.not_created)
    report = find_room(
        prepared.remove_old_pods(),
        list(prepared.workload_by_pod),
        criteria,
        seed=seed,
        call_extender=call_extender,
        workers=workers,
        progress=progress,
    )
    return replace(report, not_created=tuple(prepared.not_created))


def _build_no_pod_error(failures: Iterable[NotCreated]) -> UsageError:
    """Build the error for workloads that create no pod, with the reasons."""
    reasons = "; ".join(f"{failure.workload}: {failure.headline}" for failure in failures)
    return UsageError(f"no pod to make room for: {reasons or 'the manifests create no pods'}")


STATE_LOCK = Lock()
"""Serializes the threads of a worker, which share state."""


def find_room(
    cluster: Cluster,
    keys: Sequence[str],
    criteria: RoomCriteria = RoomCriteria(),
    *,
    seed: int = 0,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> MakeRoom:
    """Find moves after which the waiting pods `keys` (`namespace/name`) fit, and report on the search.

    The search runs in this process, with `workers` that judge plans in parallel. Raises UsageError and InputError if
    the criteria are invalid, and ClusterError if workers are lost.
    """
    shared_room = SharedRoom(cluster, tuple(dict.fromkeys(keys)), criteria, seed)
    room = start_room_making(Scheduler(cluster, call_extender), shared_room)
    shared_room.room = room
    with open_worker_pool(check_drafts, shared_room, limit_workers(workers, call_extender)) as pool:
        room.pool = pool
        room.advance = progress.begin("Trying plans", 0)
        return make_room_and_report(room)


@dataclass(eq=False)
class SharedRoom:
    """The input of a search, which workers share. Each process builds its own RoomMaking from it."""

    cluster: Cluster
    keys: tuple[str, ...]
    criteria: RoomCriteria
    seed: int
    room: RoomMaking | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "room": None}  # not sent to workers


def check_drafts(shared: SharedRoom, task: DraftTask) -> list[bool]:
    """Return, for each draft plan in the task, whether it works.

    This runs in a worker process. The worker first adopts the plans that the main process has adopted since the last
    task.
    """
    with STATE_LOCK:
        if shared.room is None:
            shared.room = start_room_making(Scheduler(shared.cluster), shared)
        shared.room.adopt_all(task.taken[len(shared.room.adopted) :])
        return [shared.room.accepts(draft) for draft in task.drafts]


def start_room_making(scheduler: Scheduler, shared: SharedRoom) -> RoomMaking:
    """Build the RoomMaking for the pods of a shared input. Raises UsageError and InputError for invalid criteria."""
    wanted = [Position(scheduler.view.pods.index[key]) for key in shared.keys]
    return RoomMaking.after_scheduling_other_pods(scheduler, wanted, shared.criteria, shared.seed)


def make_room_and_report(room: RoomMaking) -> MakeRoom:
    """Make room for all pods, and build the report.

    If the user interrupts, the report is marked as interrupted.
    """
    try:
        room.make_room()
    except KeyboardInterrupt:
        room.interrupted = True
    return build_report(room)


def collect_pods_needing_room(targets: Sequence[TargetPod]) -> tuple[Cluster, list[str]]:
    """Return the cluster with the target pods added, and the keys of all pods to make room for.

    These are the targets and the pods that get their nodes together with them. Raises UsageError for targets of several
    clusters, and for a pod that already has a node.
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
            cluster = add_or_replace_pods(cluster, [pod])
        keys |= dict.fromkeys([pod.key, *(companion.key for companion in _find_companion_pods(target, cluster))])
    return cluster, list(keys)


def _find_companion_pods(target: TargetPod, cluster: Cluster) -> list[Pod]:
    """Find the waiting pods that need nodes together with the target.

    These are the pods of its groups and, if the user named the target's workload, all waiting pods of the workload.
    """
    owner, groups = find_owner(target.pod), find_groups_of_pod(target.pod)
    # A note says that the target was chosen among the pods of the workload that the user named.
    stands_for_workload = bool(target.note) and owner.kind != "Pod"

    def is_companion(pod: Pod) -> bool:
        """Return whether the waiting pod gets its node together with the target."""
        if pod.metadata.deletion_timestamp is not None or pod.terminated:
            return False
        return (stands_for_workload and find_owner(pod) == owner) or bool(groups & find_groups_of_pod(pod))

    return [pod for pod in cluster.unbound_pods() if is_companion(pod)]
