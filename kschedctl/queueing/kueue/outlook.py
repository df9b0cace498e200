"""What Kueue would do with each waiting Workload, if nothing ended and nothing new came.

The replay runs on until no cycle changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.objects import Namespace, ObjectMeta
from kschedctl.cluster import Cluster
from kschedctl.queueing.kueue.amounts import FlavorResource
from kschedctl.queueing.kueue.installation import KueueInstallation
from kschedctl.queueing.kueue.malformed_objects import drop_malformed_objects
from kschedctl.queueing.kueue.replay import KueueReplay
from kschedctl.queueing.kueue.scheduler import WARNING, CycleResult
from kschedctl.queueing.kueue.workloads import QuotaAdmission, WorkloadInfo, WorkloadState

NEEDED_KINDS = ("KueueWorkload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Namespace")
"""The kinds without which nothing can be foreseen."""
_MOST_CYCLES = 200


class QueuePosition(NamedTuple):
    """The place of a Workload in its ClusterQueue, before the first cycle."""

    cluster_queue: str
    place: int
    """1 for the Workload that is tried first."""
    length: int
    """The number of Workloads that wait there."""


class FlavorQuota(NamedTuple):
    """The quota of a resource in a flavor, with what may be borrowed, in the units of the resource."""

    free: int
    capacity: int
    """What could be used if nothing else was."""


@dataclass(slots=True)
class WorkloadOutlook:
    """What becomes of a waiting Workload."""

    priority: int = 0
    position: QueuePosition | None = None
    """None if it is in no queue."""
    message: str = ""
    """What Kueue's scheduler says when it first tries the Workload, or ""."""
    victims: list[str] = field(default_factory=list)
    """The Workloads that are preempted for it."""
    admission: QuotaAdmission | None = None
    """The quota that it gets, or None if it gets none."""
    admitted_in: int = 0
    """The number of the cycle in which it gets quota, 0 for none."""


@dataclass(slots=True)
class Outlook:
    """What becomes of all waiting Workloads."""

    workloads: dict[str, WorkloadOutlook]
    """By namespace and name."""
    quotas: Mapping[str, Mapping[FlavorResource, FlavorQuota]]
    """The quota of each ClusterQueue before the first cycle."""
    inactive: Mapping[str, str]
    """The ClusterQueues that admit nothing, and why."""
    order: list[str]
    """The Workloads that get quota, in order."""
    problems: list[str]
    """Objects that were left out or that Kueue would refuse, and why."""


def start_replay(cluster: Cluster, now: int, installation: KueueInstallation) -> KueueReplay:
    """Start Kueue with the objects of a cluster, as if namespaces that are missing were created.

    Objects that cannot be read are left out and reported as ``cache.problems``. ``now`` is in microseconds since 1970.
    """
    readable, problems = drop_malformed_objects(_with_namespaces(cluster))
    replay = KueueReplay(readable, now, installation.configuration, installation.release, keeps_former_admission=False)
    replay.cache.problems.extend(problems)
    replay.start()
    return replay


def _with_namespaces(cluster: Cluster) -> Cluster:
    """Return the cluster with a namespace for each Workload."""
    existing = {namespace.metadata.name for namespace in cluster.namespaces}
    missing = {workload.metadata.namespace for workload in cluster.kueue_workloads} - existing
    if not missing:
        return cluster
    return cluster.with_objects({"Namespace": [Namespace(metadata=ObjectMeta(name=name)) for name in sorted(missing)]})


def foresee(replay: KueueReplay) -> Outlook:
    """Run a replay that was started until nothing changes."""
    outlooks = {key: WorkloadOutlook(w.priority) for key, w in replay.queues.store.workloads.items() if not w.has_quota}
    shapes = _note_positions(replay, outlooks)
    quotas = _read_quotas(replay)
    order: list[str] = []
    for cycle in range(1, _MOST_CYCLES + 1):
        before = _describe_state(replay)
        result = replay.run_cycle()
        if result is None:
            break
        _note_cycle(replay, result, cycle, outlooks, order)
        replay.settle()
        if _describe_state(replay) == before:
            break
    _share_messages(outlooks, shapes)
    inactive = {
        name: queue.readiness.message for name, queue in replay.cache.queues.items() if not replay.cache.is_active(name)
    }
    return Outlook(outlooks, quotas, inactive, order, replay.cache.problems)


def _note_positions(replay: KueueReplay, outlooks: dict[str, WorkloadOutlook]) -> dict[str, bytes]:
    """Record the place of each Workload in its queue. Return the shapes of the Workloads."""
    shapes = {}
    for name, queue in replay.queues.pending.items():
        waiting: list[WorkloadInfo] = [*queue.sort_active(), *queue.inadmissible.values()]
        for place, info in enumerate(waiting, start=1):
            key = info.workload.key
            shapes[key] = name.encode() + info.shape
            if key in outlooks:
                outlooks[key].position = QueuePosition(name, place, len(waiting))
    return shapes


def _read_quotas(replay: KueueReplay) -> dict[str, dict[FlavorResource, FlavorQuota]]:
    """Return the quota of each active ClusterQueue."""
    return {
        name: {
            key: FlavorQuota(max(0, queue.node.compute_available(key)), queue.node.compute_capacity(key))
            for key in queue.node.quotas
        }
        for name, queue in replay.cache.queues.items()
        if replay.cache.is_active(name)
    }


def _describe_state(
    replay: KueueReplay,
) -> tuple[dict[str, WorkloadState], list[tuple[frozenset[str], frozenset[str]]]]:
    """Return all that a cycle may change."""
    pending = [
        (frozenset(queue.active), frozenset(queue.inadmissible)) for _, queue in sorted(replay.queues.pending.items())
    ]
    return dict(replay.queues.store.workloads), pending


def _note_cycle(
    replay: KueueReplay, result: CycleResult, cycle: int, outlooks: dict[str, WorkloadOutlook], order: list[str]
) -> None:
    """Record what a cycle did with each Workload that it tried."""
    for key, events in result.events.items():
        outlook = outlooks.get(key)
        workload = replay.queues.store.workloads[key]
        if outlook is None:
            continue
        warning = next((event.message for event in events if event.type == WARNING), "")
        outlook.message = outlook.message or warning
        if workload.has_quota and not outlook.admitted_in:
            outlook.admission, outlook.admitted_in = workload.admission, cycle
            order.append(key)
    for preemption in result.preemptions:
        if preemption.preemptor in outlooks:
            outlooks[preemption.preemptor].victims.append(preemption.victim)


def _share_messages(outlooks: dict[str, WorkloadOutlook], shapes: Mapping[str, bytes]) -> None:
    """Give Workloads that were not tried the message of an equivalent one that failed."""
    by_shape = {shapes[key]: outlook.message for key, outlook in outlooks.items() if outlook.message and key in shapes}
    for key, outlook in outlooks.items():
        if not outlook.message and not outlook.admitted_in and key in shapes:
            outlook.message = by_shape.get(shapes[key], "")
