"""The outlook of each waiting Workload: what Kueue would do with it if nothing ended and nothing new came."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kschedctl.api.copying import replace
from kschedctl.api.objects import Namespace, ObjectMeta
from kschedctl.api.queueing import ClusterQueue, Cohort, KueueWorkload
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.amounts import FlavorResource
from kschedctl.kueue.cluster_queues import read_queue_settings
from kschedctl.kueue.conditions import ConditionType
from kschedctl.kueue.installation import KueueInstallation
from kschedctl.kueue.pod_requests import compute_requests
from kschedctl.kueue.quota_tree import parse_quotas, parse_weight
from kschedctl.kueue.replay import KueueReplay
from kschedctl.kueue.scheduler import WARNING, CycleResult
from kschedctl.kueue.workloads import (
    ADMISSION_CHECK,
    QuotaAdmission,
    ScanProgress,
    WorkloadInfo,
    WorkloadState,
    read_workload,
)
from kschedctl.text.counts import counted

NEEDED_KINDS = ("KueueWorkload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Namespace")
"""The kinds without which nothing can be predicted."""
_MOST_CYCLES = 200
_MOST_WORK = 3_000_000
"""The number of tries, multiplied by the number of ClusterQueues, after which no further cycle is run.

A cycle tries one Workload of each ClusterQueue, and a try takes longer the more ClusterQueues there are.
"""
_QUEUEING_CONDITIONS = frozenset({ConditionType.EVICTED, ConditionType.PREEMPTED})
_QUEUEING_REASONS = frozenset({ADMISSION_CHECK, "PodsReadyTimeout", "InCohortReclaimWhileBorrowing"})
"""The reasons of these conditions whose time may decide the place of a Workload in its queue."""

_Stored = TypeVar("_Stored", ClusterQueue, Cohort, KueueWorkload)


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
    """The amount that could be used if nothing else were used."""


@dataclass(slots=True)
class WorkloadOutlook:
    """The prediction for one waiting Workload."""

    priority: int = 0
    position: QueuePosition | None = None
    """None if it is in no queue."""
    message: str = ""
    """The message of Kueue's scheduler when it first tries the Workload, or ""."""
    victims: list[str] = field(default_factory=list)
    """The Workloads that are preempted for it."""
    admission: QuotaAdmission | None = None
    """The quota that it gets, or None if it gets none."""
    admitted_in: int = 0
    """The number of the cycle in which it gets quota, 0 for none."""
    is_undecided: bool = False
    """True if the replay stopped early, before it was known whether the Workload gets quota."""

    @property
    def gets_quota(self) -> bool:
        """True if the Workload gets quota in one of the replayed cycles."""
        return self.admitted_in > 0


@dataclass(slots=True)
class Outlook:
    """The predictions for all waiting Workloads, with the state of their queues."""

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
    tries: int = 0
    """The number of times that a Workload was tried."""

    @property
    def doubt(self) -> str:
        """A clause with the number of Workloads that are undecided because the replay stopped early, or ""."""
        undecided = [outlook for outlook in self.workloads.values() if outlook.is_undecided]
        if not undecided:
            return ""
        untried = sum(not outlook.message for outlook in undecided)
        verb = "was" if untried == 1 else "were"
        return (
            f"The replay of Kueue stopped early, after {counted(self.tries, 'try', 'tries')}: "
            f"whether {counted(len(undecided), 'Workload')} would get quota is unknown, "
            f"and {untried:,} of them {verb} not tried at all"
        )


def start_replay(cluster: Cluster, now: int, installation: KueueInstallation) -> KueueReplay:
    """Start a replay of Kueue with the objects of a cluster.

    Missing namespaces of Workloads are assumed to be created. Unreadable objects are left out and added to the replay's
    ``cache.problems``. ``now`` is in microseconds since 1970.
    """
    readable, problems = _drop_malformed_objects(_with_missing_namespaces(cluster))
    replay = KueueReplay(readable, now, installation.configuration, installation.release, keeps_former_admission=False)
    replay.cache.problems.extend(problems)
    replay.start()
    return replay


def _with_missing_namespaces(cluster: Cluster) -> Cluster:
    """Return the cluster with a namespace added for each Workload whose namespace does not exist."""
    existing = {namespace.metadata.name for namespace in cluster.namespaces}
    missing = {workload.metadata.namespace for workload in cluster.kueue_workloads} - existing
    if not missing:
        return cluster
    return cluster.with_objects({"Namespace": [Namespace(metadata=ObjectMeta(name=name)) for name in sorted(missing)]})


def predict_outlook(replay: KueueReplay) -> Outlook:
    """Run a started replay until nothing changes or its states repeat, and return the outlook of each waiting Workload.

    The replay stops early after _MOST_CYCLES cycles, or when the tries times the number of ClusterQueues reach
    _MOST_WORK. Workloads that it would still try are then undecided.
    """
    workloads = replay.queues.store.workloads
    outlooks = {
        key: WorkloadOutlook(workload.priority) for key, workload in workloads.items() if not workload.has_quota
    }
    shapes = _record_queue_positions(replay, outlooks)
    quotas = _collect_free_and_total_quotas(replay)
    order: list[str] = []
    history = _StateHistory(replay)
    history.record_state()  # the start is a state that may come back
    tries = 0

    is_finished = False
    for cycle in range(1, _MOST_CYCLES + 1):
        if tries * len(replay.cache.queues) >= _MOST_WORK:
            break
        result = replay.run_cycle()
        if result is not None:
            _record_cycle_outcome(replay, result, cycle, outlooks, order)
            tries += len(result.order)
            replay.settle()
        # Nothing is left to try, or everything would repeat from here
        is_finished = result is None or history.record_state()
        if is_finished:
            break
    if not is_finished:
        _mark_undecided_workloads(replay, outlooks)

    _share_failure_messages(outlooks, shapes)
    inactive = {
        name: queue.readiness.message
        for name, queue in replay.cache.queues.items()
        if not replay.cache.is_queue_active(name)
    }
    return Outlook(outlooks, quotas, inactive, order=order, problems=replay.cache.problems, tries=tries)


def _record_queue_positions(replay: KueueReplay, outlooks: dict[str, WorkloadOutlook]) -> dict[str, bytes]:
    """Record each Workload's place in its queue in ``outlooks``, and return the shape of each queued Workload by key.

    Kueue treats Workloads of the same shape alike, so all of them fail if one fails. A shape begins with the name of
    the ClusterQueue, because Workloads in different queues may fare differently.
    """
    shapes = {}
    for name, queue in replay.queues.pending.items():
        waiting: list[WorkloadInfo] = [*queue.sort_active_workloads(), *queue.inadmissible.values()]
        for place, info in enumerate(waiting, start=1):
            key = info.workload.key
            shapes[key] = name.encode() + info.shape
            if key in outlooks:
                outlooks[key].position = QueuePosition(name, place, len(waiting))
    return shapes


def _collect_free_and_total_quotas(replay: KueueReplay) -> dict[str, dict[FlavorResource, FlavorQuota]]:
    """Return the free and total quota of each active ClusterQueue, by its name and by flavor and resource.

    Both amounts include what the ClusterQueue may borrow. A ClusterQueue that exceeds its quota has no free quota.
    """
    return {
        name: {
            key: FlavorQuota(max(0, queue.node.compute_available_quota(key)), queue.node.compute_capacity(key))
            for key in queue.node.quotas
        }
        for name, queue in replay.cache.queues.items()
        if replay.cache.is_queue_active(name)
    }


class _StateHistory:
    """The states that a replay has passed through, to detect that it repeats itself.

    Workloads that preempt each other in turn would repeat it forever. A state consists of everything that the next
    cycles depend on. Times and messages, which differ between repetitions, are left out. A state is kept as a hash of
    64 bits.
    """

    def __init__(self, replay: KueueReplay) -> None:
        self._replay = replay
        self._start = replay.now
        self._workloads: dict[str, WorkloadState] = {}
        self._hashes: dict[str, int] = {}
        self._total = 0
        """The hashes of all Workloads, combined by exclusive or."""
        self._seen: set[int] = set()

    def record_state(self) -> bool:
        """Record the state between two cycles, and return whether the same state was recorded before.

        Only the hashes of Workloads that changed since the last call are recomputed.
        """
        self._update_workload_hashes()
        queues = hash(tuple(map(self._build_waiting_state_key, self._replay.queues.pending)))
        state = hash((self._total, self._build_reservation_order(), queues))
        is_repeated = state in self._seen
        self._seen.add(state)
        return is_repeated

    def _update_workload_hashes(self) -> None:
        """Update the total of the Workloads' hashes. A Workload is hashed again only if its state was replaced."""
        for key, workload in self._replay.queues.store.workloads.items():
            if self._workloads.get(key) is not workload:
                self._workloads[key] = workload
                updated = hash((key, _build_state_key(workload)))
                # XOR takes the former hash out of the total and puts the new one in
                self._total ^= self._hashes.get(key, 0) ^ updated
                self._hashes[key] = updated

    def _build_reservation_order(self) -> tuple[frozenset[str], ...]:
        """Return the Workloads that got quota during the replay, grouped and sorted by the time at which they got it.

        This order is part of the state, since candidates for preemption are sorted by this time. The times themselves
        differ between repetitions, and are left out.
        """
        keys_by_time: dict[int, list[str]] = {}
        for key, workload in self._replay.queues.store.workloads.items():
            reserved = workload.conditions.get(ConditionType.QUOTA_RESERVED)
            if reserved is not None and reserved.status and reserved.since >= self._start:
                keys_by_time.setdefault(reserved.since, []).append(key)
        return tuple(frozenset(keys_by_time[time]) for time in sorted(keys_by_time))

    def _build_waiting_state_key(self, name: str) -> Hashable:
        """Build a hashable key of one ClusterQueue's waiting Workloads.

        If the key is equal in two states, the queue behaves the same in later cycles.
        """
        pending = self._replay.queues.pending[name]
        # Next attempts continue at the flavors that were tried, unless the queue has released quota since
        generation = self._replay.cache.queues[name].generation
        progress_keys = frozenset(
            (key, _build_progress_key(info.last_assignment, generation))
            for key, info in (*pending.active.items(), *pending.inadmissible.items())
            if info.last_assignment is not None
        )
        return (
            pending.preemptor,
            frozenset(pending.active),
            frozenset(pending.inadmissible),
            frozenset(pending.failed_shapes),  # new Workloads of these shapes are not tried
            progress_keys,
        )


def _build_progress_key(progress: ScanProgress, generation: int) -> Hashable:
    """Build a key from the flavors that were tried and from whether quota was released afterwards.

    ``generation`` is the ClusterQueue's current generation, which increases whenever quota is released.
    """
    tried = tuple(frozenset(pod_set.items()) for pod_set in progress.tried_flavors)
    return tried, generation > progress.generation


def _build_state_key(workload: WorkloadState) -> Hashable:
    """Build a hashable key of those parts of a Workload's state that affect later cycles.

    The time of a condition is included only if it determines the Workload's place in its queue.
    """
    conditions = set()
    for kind, condition in workload.conditions.items():
        decides_place = kind in _QUEUEING_CONDITIONS and condition.reason in _QUEUEING_REASONS
        conditions.add((kind, condition.status, condition.reason, condition.since if decides_place else 0))

    admission = workload.admission
    assigned: Hashable = None
    if admission is not None:
        pod_sets = tuple(
            (pod_set.name, frozenset(pod_set.flavors.items()), pod_set.count, pod_set.topology)
            for pod_set in admission.pod_sets
        )
        assigned = (admission.cluster_queue, pod_sets)

    checks = frozenset((name, check.state) for name, check in workload.checks.items())
    return frozenset(conditions), assigned, checks, workload.active


def _record_cycle_outcome(
    replay: KueueReplay, result: CycleResult, cycle: int, outlooks: dict[str, WorkloadOutlook], order: list[str]
) -> None:
    """Record in ``outlooks`` what happened to waiting Workloads in a cycle: warnings, quota and preempted victims.

    Only the first warning about a Workload is kept. The keys of Workloads that got quota are appended to ``order``.
    """
    for key, events in result.events.items():
        outlook = outlooks.get(key)
        if outlook is None:
            continue
        if not outlook.message:
            outlook.message = next((event.message for event in events if event.type == WARNING), "")
        workload = replay.queues.store.workloads[key]
        if workload.has_quota and not outlook.gets_quota:
            outlook.admission, outlook.admitted_in = workload.admission, cycle
            order.append(key)

    for preemption in result.preemptions:
        if preemption.preemptor in outlooks:
            outlooks[preemption.preemptor].victims.append(preemption.victim)


def _mark_undecided_workloads(replay: KueueReplay, outlooks: Mapping[str, WorkloadOutlook]) -> None:
    """Mark Workloads as undecided if they have no quota yet and another cycle would try them."""
    for name, queue in replay.queues.pending.items():
        if replay.cache.is_queue_active(name):
            for key in queue.active:
                if key in outlooks and not outlooks[key].gets_quota:
                    outlooks[key].is_undecided = True


def _share_failure_messages(outlooks: dict[str, WorkloadOutlook], shapes: Mapping[str, bytes]) -> None:
    """Give each Workload that was not tried the message of a failed Workload of the same shape.

    Kueue does not try a Workload if another Workload of the same shape has just failed.
    """
    queued = {key: outlook for key, outlook in outlooks.items() if key in shapes}
    message_by_shape = {shapes[key]: outlook.message for key, outlook in queued.items() if outlook.message}
    for key, outlook in queued.items():
        if not outlook.message and not outlook.gets_quota:
            outlook.message = message_by_shape.get(shapes[key], "")


def _drop_malformed_objects(cluster: Cluster) -> tuple[Cluster, list[str]]:
    """Return the cluster without malformed ClusterQueues, Cohorts and Workloads, and a message about each."""
    problems: list[str] = []
    readable = {
        "cluster_queues": _select_readable("ClusterQueue", cluster.cluster_queues, read_queue_settings, problems),
        "cohorts": _select_readable("Cohort", cluster.cohorts, _raise_if_cohort_unreadable, problems),
        "kueue_workloads": _select_readable(
            "Workload", cluster.kueue_workloads, _raise_if_workload_unreadable, problems
        ),
    }
    if not problems:
        return cluster, problems
    return replace(cluster, **readable), problems


def _select_readable(
    kind: str, objects: Iterable[_Stored], read: Callable[[_Stored], Any], problems: list[str]
) -> tuple[_Stored, ...]:
    """Return the objects that ``read`` accepts. Append a message to ``problems`` for each object that it rejects."""
    readable = []
    for stored in objects:
        try:
            read(stored)
        except InputError as error:
            problems.append(f"{kind} {_format_object_name(stored.metadata)} was left out: {error}")
        else:
            readable.append(stored)
    return tuple(readable)


def _format_object_name(metadata: ObjectMeta) -> str:
    """Return the name of an object, preceded by its namespace if it has one."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _raise_if_cohort_unreadable(cohort: Cohort) -> None:
    """Raise QuantityError if the quotas or the weight of a cohort cannot be read."""
    parse_quotas(cohort.spec.resource_groups)
    parse_weight(cohort.spec.fair_sharing)


def _raise_if_workload_unreadable(workload: KueueWorkload) -> None:
    """Raise InputError if the times, the usage or the requests of a Workload cannot be read."""
    # The results are not needed, only the errors
    read_workload(workload, adjusted=(), priority=0)
    for pod_set in workload.spec.pod_sets:
        compute_requests(pod_set.template.spec)
