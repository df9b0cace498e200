"""Workloads of Kueue without quota.

A Workload is reported with the quota that each pod set lacks, with who holds it, and with what a replay of Kueue does
with it. Where the replay is impossible, since a kind was not read, the ClusterQueue's own free quota is considered.
Upstream: pkg/workload/workload.go and apis/kueue/v1beta2/workload_types.go of kubernetes-sigs/kueue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.kinds import pluralize_kind
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.api.queueing import ClusterQueue, KueueResourceGroup, KueueWorkload, LocalQueue
from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.amounts import format_amount
from kschedctl.kueue.installation import detect_installation, iter_unreplayed_features
from kschedctl.kueue.outlook import NEEDED_KINDS, Outlook, WorkloadOutlook, predict_outlook, start_replay
from kschedctl.kueue.workloads import JOB_UID_LABEL, QuotaAdmission
from kschedctl.replay.waiting_elsewhere.entries import (
    NOTHING,
    PODS,
    build_waiting_entry,
    find_condition,
    find_controller_key,
    is_condition_true,
    parse_amount,
    render_amount,
    sum_template_requests,
)
from kschedctl.replay.waiting_elsewhere.kueue_placement import PodPlacement, place_admitted_pods
from kschedctl.replay.waiting_elsewhere.suspended_jobs import KUEUE, is_queued
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import agreeing, counted, join_words

QUOTA_RESERVED, ADMITTED, FINISHED = "QuotaReserved", "Admitted", "Finished"
_STOPPED = frozenset({"Hold", "HoldAndDrain"})

_OPTIONAL_KINDS = {
    "KueueWorkload": "Workloads were not among the files, so no other Workload is assumed to hold or wait for quota",
    "Namespace": "Namespaces were not among the files, so they are assumed to have no labels",
}
"""The kinds that files may leave out, and what a replay assumes then."""
_FIELD_BY_KIND = {"ClusterQueue": "cluster_queues", "LocalQueue": "local_queues", "ResourceFlavor": "resource_flavors"}
"""The kinds of which files must have at least one object, and the field of a Cluster with the objects."""

FlavorResource = tuple[str, str]
"""A flavor and a resource that it has a quota for."""


class _Shortage(NamedTuple):
    """A resource that a pod set lacks quota for."""

    description: str
    resource: str
    flavors: tuple[str, ...]
    """The flavors that were considered."""


class WaitReason(NamedTuple):
    """The reason why a Workload waits."""

    headline: str
    """One line."""
    details: Sequence[str] = ()
    """Facts behind the headline."""
    holders: Sequence[str] = ()
    """Workloads that hold the quota."""
    cause: str = ""
    """The headline without the words that the Workload waits, and for which quota; empty for the whole headline."""
    queue: str = ""
    """The ClusterQueue that the headline names and the cause does not; empty if there is none."""

    @classmethod
    def from_cause(cls, cause: str) -> WaitReason:
        """Return the reason of a Workload that waits because of this cause."""
        return cls(f"waits: {cause}", cause=cause)


def iter_waiting_workloads(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the Workloads that are not admitted, in the cluster's order.

    ``now`` is the RFC 3339 time of the replay of Kueue, or empty.
    """
    waiting_workloads = [workload for workload in cluster.kueue_workloads if is_waiting(workload)]
    if not waiting_workloads:
        return
    queues = replay_queues(cluster, now)
    for workload in waiting_workloads:
        yield build_workload_report(workload, queues, now)


def replay_queues(cluster: Cluster, now: str) -> WaitingQueues:
    """Replay Kueue at the RFC 3339 time ``now``, which may be empty, and return the queues with the predicted outlook.

    There is no outlook if a kind of objects that Kueue needs was not read, or if Kueue's objects are malformed. A kind
    that is merely incomplete in files does not prevent the replay. The replay then assumes that there are no other
    objects of the kind, and adds this to the assumptions.
    """
    gaps = {kind: gap for kind in NEEDED_KINDS if (gap := cluster.find_gap(kind)) is not None}
    unread = find_kinds_preventing_replay(cluster)
    if unread:
        return WaitingQueues(cluster, outlook=None, not_replayed=f"{', '.join(unread)} were not read")
    assumptions = [_OPTIONAL_KINDS[kind] for kind in gaps if kind in _OPTIONAL_KINDS]
    incomplete_kinds = [pluralize_kind(kind) for kind in gaps if kind not in _OPTIONAL_KINDS]
    if incomplete_kinds:
        assumptions.append(f"Assumption: there are no {', '.join(incomplete_kinds)} besides those in the files")
    installation = detect_installation(cluster)
    if installation.doubt:
        assumptions.append(f"Not certain: {installation.doubt}")
    assumptions += [f"Not certain: {feature}" for feature in iter_unreplayed_features(cluster.kueue_workloads)]
    try:
        outlook = predict_outlook(start_replay(cluster, parse_time(now), installation))
    except InputError as error:
        return WaitingQueues(cluster, outlook=None, not_replayed=error.what)
    return WaitingQueues(cluster, outlook, assumptions=assumptions)


def find_kinds_preventing_replay(cluster: Cluster) -> list[str]:
    """Return the unread kinds without which Kueue cannot be replayed.

    A kind is left out if the input files merely contain no list of it, and the replay may assume that there are no
    other objects of the kind.
    """
    kinds = []
    for kind in NEEDED_KINDS:
        gap = cluster.find_gap(kind)
        if gap is not None and not (gap.is_not_given and _may_assume_no_others(kind, cluster)):
            kinds.append(kind)
    return kinds


def _may_assume_no_others(kind: str, cluster: Cluster) -> bool:
    """Return whether the replay may assume that there are no other objects of the kind."""
    return kind in _OPTIONAL_KINDS or bool(getattr(cluster, _FIELD_BY_KIND[kind]))


def is_waiting(workload: KueueWorkload) -> bool:
    """Return whether a Workload has not ended and is not admitted."""
    conditions = workload.status.conditions
    return not is_condition_true(conditions, FINISHED) and not is_condition_true(conditions, ADMITTED)


def find_quota_owner(workload: KueueWorkload, cluster: Cluster) -> Owner | None:
    """Return the object for whose pods the Workload requests quota, or None if it is unknown.

    It is the Workload's owner, or else the Job that its UID label names or a queued Job of the same name.
    """
    meta = workload.metadata
    owner = find_controller_key(meta)
    if owner is not None:
        return owner
    uid = meta.labels.get(JOB_UID_LABEL)
    for job in cluster.list_in_namespace("jobs", meta.namespace):
        has_uid = bool(uid) and job.metadata.uid == uid
        has_name = job.metadata.name == meta.name
        if has_uid or (has_name and is_queued(job)):
            return Owner("Job", meta.namespace, job.metadata.name)
    return None


def build_workload_report(workload: KueueWorkload, queues: WaitingQueues, now: str) -> WaitingElsewhere:
    """Build the report on a waiting Workload. ``now`` is the RFC 3339 time for its age, or empty."""
    reason = find_wait_reason(workload, queues)
    job = find_quota_owner(workload, queues.cluster)
    return build_waiting_entry(
        "Workload",
        workload.metadata,
        WaitingState.NOT_ADMITTED,
        reason.headline,
        now=now,
        pods=sum(pod_set.count for pod_set in workload.spec.pod_sets),
        decides=KUEUE,
        details=[*reason.details, *queues.describe_outlook(workload)],
        conditions=workload.status.conditions,
        holders=reason.holders,
        part_of=(job,) if job else (),
    )


def find_wait_reason(workload: KueueWorkload, queues: WaitingQueues) -> WaitReason:
    """Return why a Workload is waiting.

    The first of these reasons counts: the Workload is deactivated, waits for admission checks, names no existing
    LocalQueue, or waits in its ClusterQueue. If LocalQueues were not read, the Workload's status gives the reason.
    """
    spec, status = workload.spec, workload.status
    if spec.active is False:
        return WaitReason("is deactivated: spec.active is false")

    # Kueue has reserved quota, but the Workload is not admitted yet
    if is_condition_true(status.conditions, QUOTA_RESERVED):
        states = []
        for check in status.admission_checks:
            if check.state != "Ready":
                message = f": {check.message}" if check.message else ""
                states.append(f"{check.name} is {check.state}{message}")
        details = f": {'; '.join(states)}" if states else ""
        return WaitReason(f"has quota and waits for admission checks{details}")

    # Without quota, the queues decide
    if not spec.queue_name:
        return WaitReason.from_cause("it names no LocalQueue")
    namespace = workload.metadata.namespace
    local_queue = queues.find_local_queue(namespace, spec.queue_name)
    if local_queue is not None:
        return _find_wait_reason_in_queue(workload, local_queue, queues)
    if queues.cluster.find_gap("LocalQueue"):
        return WaitReason(_build_status_headline(workload))
    return WaitReason.from_cause(f"LocalQueue {namespace}/{spec.queue_name} does not exist")


def _find_wait_reason_in_queue(workload: KueueWorkload, local_queue: LocalQueue, queues: WaitingQueues) -> WaitReason:
    """Return the reason why a Workload waits in the ClusterQueue of its LocalQueue.

    The first reason that applies counts. In order, they are: the ClusterQueue does not exist, a queue is stopped, the
    ClusterQueue is inactive, or the Workload waits for quota.
    """
    cluster, name = queues.cluster, local_queue.spec.cluster_queue
    cluster_queue = queues.cluster_queues.get(name)
    if cluster_queue is None:
        if cluster.find_gap("ClusterQueue"):
            return WaitReason(_build_status_headline(workload))
        return WaitReason.from_cause(f"ClusterQueue {name} does not exist")
    for kind, queue in (("LocalQueue", local_queue), ("ClusterQueue", cluster_queue)):
        if queue.spec.stop_policy in _STOPPED:
            return WaitReason.from_cause(f"{kind} {queue.metadata.name} is stopped ({queue.spec.stop_policy})")
    if problem := queues.find_inactive_reason(name):
        return WaitReason.from_cause(f"ClusterQueue {name} is inactive: {problem}")
    try:
        return _explain_quota_wait(workload, cluster_queue, queues)
    except QuantityError as error:
        return WaitReason(_build_status_headline(workload), (f"its quota was not evaluated: {error.what}",))


def _build_status_headline(workload: KueueWorkload) -> str:
    """Build the headline about a waiting Workload from its status alone, without evaluating its quota.

    It gives the message or the reason of the condition QuotaReserved, if there is one.
    """
    condition = find_condition(workload.status.conditions, QUOTA_RESERVED)
    queue = f" in LocalQueue {workload.spec.queue_name}" if workload.spec.queue_name else ""
    message = condition.message or condition.reason if condition else ""
    return f"waits for quota{queue}" + (f": {message}" if message else "")


def _explain_quota_wait(workload: KueueWorkload, queue: ClusterQueue, queues: WaitingQueues) -> WaitReason:
    """Explain why a Workload waits: which pod sets lack quota and who holds it, or why it waits despite free quota.

    Raises QuantityError for a malformed amount.
    """
    reservations = queues.find_reservations(queue)
    shortages = list(_iter_resource_shortages(workload, queue, queues.find_quotas(queue)))
    if not shortages:
        return _explain_wait_despite_free_quota(workload, queue, queues)

    descriptions = "; ".join(shortage.description for shortage in shortages)
    headline = f"waits for quota in ClusterQueue {queue.metadata.name}: {descriptions}"
    short_resources = {(flavor, shortage.resource) for shortage in shortages for flavor in shortage.flavors}
    holders = list(_iter_quota_holder_descriptions(reservations, short_resources))
    details = _describe_cohort_quota(queue, queues)
    return WaitReason(headline, details, holders, cause=descriptions, queue=queue.metadata.name)


def _explain_wait_despite_free_quota(workload: KueueWorkload, queue: ClusterQueue, queues: WaitingQueues) -> WaitReason:
    """Explain the wait by the replay of Kueue or, if there was none, by the Workload's status."""
    name = queue.metadata.name
    if queues.outlook is not None:
        return WaitReason(_build_outlook_headline(queues.outlook.workloads.get(format_key(workload)), name))
    details = [*_describe_cohort_quota(queue, queues), f"The free quota of ClusterQueue {name} is enough on its own"]
    return WaitReason(f"waits in ClusterQueue {name}: {_build_status_headline(workload)}", details)


def _describe_cohort_quota(queue: ClusterQueue, queues: WaitingQueues) -> list[str]:
    """Return a sentence on whether the quota of the ClusterQueue's cohort was counted, or [] without a cohort."""
    cohort = queue.spec.cohort_name or queue.spec.cohort
    if not cohort:
        return []
    if queues.outlook is None:
        return [f"Cohort {cohort} may lend more to ClusterQueue {queue.metadata.name}: that is not counted here"]
    return [f"The free quota includes what cohort {cohort} can lend"]


def _build_outlook_headline(outlook: WorkloadOutlook | None, queue: str) -> str:
    """Build the headline that says where a Workload stands in its queue, or why it gets no quota.

    If it gets quota, the headline says that it is next, or gives its place. Otherwise the headline gives the reason, or
    says that the replay ended before the Workload's turn. If there is no outlook, or the Workload has no place, the
    headline only names the queue.
    """
    if outlook is None or outlook.position is None:
        return f"waits in ClusterQueue {queue}"
    place = outlook.position.place
    if outlook.gets_quota and place == 1:
        return f"is next in ClusterQueue {queue}: there is enough quota for it"
    if outlook.gets_quota:
        return f"is number {place} of {outlook.position.length} in ClusterQueue {queue}"
    if outlook.is_undecided and not outlook.message:
        return f"waits in ClusterQueue {queue}; the replay of Kueue ended before its turn"
    return f"waits in ClusterQueue {queue}: {outlook.message or 'Workloads before it take the quota'}"


def format_key(workload: KueueWorkload) -> str:
    """Return the Workload's key, ``namespace/name``."""
    return f"{workload.metadata.namespace}/{workload.metadata.name}"


class _Quota(NamedTuple):
    """The quota of a resource in a flavor."""

    free: Quantity
    total: Quantity


_NO_QUOTA = _Quota(NOTHING, NOTHING)


class WaitingQueues:
    """The queues of a cluster with their reservations, and what a replay of Kueue does with the waiting Workloads."""

    def __init__(
        self, cluster: Cluster, outlook: Outlook | None, not_replayed: str = "", assumptions: Sequence[str] = ()
    ) -> None:
        self.cluster = cluster
        self.outlook = outlook
        """None if Kueue could not be replayed."""
        self.assumptions = assumptions
        """Sentences about kinds that were not among the files, and what the replay assumes about their objects."""
        self._not_replayed = not_replayed
        """The reasons why Kueue could not be replayed."""
        self._reservations: dict[str, dict[str, dict[FlavorResource, Quantity]]] = {}
        self._local_queues: dict[str, dict[str, LocalQueue]] = {}
        """The LocalQueues by name, for each namespace that was looked at."""
        # Files may repeat a name, and then the first object counts
        self.cluster_queues = {queue.metadata.name: queue for queue in reversed(cluster.cluster_queues)}

    def find_local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return the LocalQueue of that name, or None."""
        by_name = self._local_queues.get(namespace)
        if by_name is None:
            queues: list[LocalQueue] = list(self.cluster.list_in_namespace("local_queues", namespace))
            # Files may repeat a name, and then the first object counts
            by_name = {queue.metadata.name: queue for queue in reversed(queues)}
            self._local_queues[namespace] = by_name
        return by_name.get(name)

    def find_inactive_reason(self, name: str) -> str:
        """Return why the ClusterQueue admits nothing, or an empty string if it is active."""
        message = self.outlook.inactive.get(name, "") if self.outlook is not None else ""
        return message.removeprefix("Can't admit new workloads: ").removesuffix(".")

    def find_outlook(self, workload: KueueWorkload) -> WorkloadOutlook | None:
        """Return what the replay predicts for a Workload, or None if it predicts nothing or Kueue was not replayed."""
        return self.outlook.workloads.get(format_key(workload)) if self.outlook is not None else None

    def find_quotas(self, queue: ClusterQueue) -> dict[FlavorResource, _Quota]:
        """Return the free and total quota of a ClusterQueue by flavor and resource.

        If Kueue was replayed, the quota includes what the ClusterQueue can borrow. Raises QuantityError if an amount is
        malformed.
        """
        quotas = self.outlook.quotas.get(queue.metadata.name) if self.outlook is not None else None
        if quotas is not None:
            replayed_quotas = {}
            for key, quota in quotas.items():
                # The replay computes with integers, as Kueue does. CPU, for example, is in millicores.
                free_amount = parse_quantity(format_amount(key.resource, quota.free))
                total_amount = parse_quantity(format_amount(key.resource, quota.capacity))
                replayed_quotas[key.flavor, key.resource] = _Quota(free_amount, total_amount)
            return replayed_quotas
        free = _compute_free_quota(queue, self.find_reservations(queue))
        total = _get_nominal_quota(queue)
        return {key: _Quota(free[key], total[key]) for key in total}

    def find_reservations(self, queue: ClusterQueue) -> dict[str, dict[FlavorResource, Quantity]]:
        """Return the amounts that each Workload reserves in a ClusterQueue, by the Workload's title.

        The amounts of a Workload are by flavor and resource. Results are cached. Raises QuantityError for a malformed
        amount.
        """
        name = queue.metadata.name
        if name not in self._reservations:
            self._reservations[name] = {
                _build_workload_title(workload): _sum_reserved_amounts(workload)
                for workload in self._quota_holders_by_queue.get(name, ())
            }
        return self._reservations[name]

    @cached_property
    def _quota_holders_by_queue(self) -> dict[str, list[KueueWorkload]]:
        """The Workloads that hold quota and have not ended, by ClusterQueue."""
        holders: dict[str, list[KueueWorkload]] = {}
        for workload in self.cluster.kueue_workloads:
            admission = workload.status.admission
            if admission is not None and not is_condition_true(workload.status.conditions, FINISHED):
                holders.setdefault(admission.cluster_queue, []).append(workload)
        return holders

    @cached_property
    def _placements(self) -> dict[str, PodPlacement]:
        """The placements of the pods of Workloads that get quota, by the Workload's key, or {} without an outlook."""
        if self.outlook is None:
            return {}
        jobs = {
            format_key(workload): find_quota_owner(workload, self.cluster) for workload in self.cluster.kueue_workloads
        }
        return place_admitted_pods(self.cluster, self.outlook, jobs)

    def describe_outlook(self, workload: KueueWorkload) -> Iterator[str]:
        """Yield sentences about what the replay of Kueue predicts for a Workload without quota.

        If Kueue could not be replayed, the only sentence says why. For a Workload that the replay does not know, only
        problems of the replay are named.
        """
        key = format_key(workload)
        if self.outlook is None:
            yield f"Kueue was not replayed: {self._not_replayed}"
            return
        for problem in self.outlook.problems:
            yield f"Not certain: {problem}"
        outlook = self.outlook.workloads.get(key)
        if outlook is None:
            return
        if outlook.position is not None:
            position = outlook.position
            place = f"{position.place} of {position.length}"
            yield f"This Workload is number {place} in ClusterQueue {position.cluster_queue}"
        if outlook.message:
            yield f"Kueue's message at the first attempt: {outlook.message}"
        if outlook.victims:
            yield f"To admit this Workload, Kueue would preempt {', '.join(outlook.victims)}"
        if outlook.admission is not None:
            condition = "If nothing else changes"
            if outlook.victims:
                single = f"{outlook.victims[0]} has released its quota"
                released = agreeing(len(outlook.victims), single, "these Workloads have released their quota")
                condition = f"Once {released}"
            yield f"{condition}, Kueue admits this Workload with {describe_flavors(outlook.admission)}"
            yield from self._describe_placement(key)
        yield from self.assumptions

    def _describe_placement(self, key: str) -> Iterator[str]:
        """Yield a sentence that says whether the pods of an admitted Workload get nodes, if they were placed.

        ``key`` is the Workload's key.
        """
        placement = self._placements.get(key)
        if placement is not None and placement.placed < placement.pods:
            yield (
                f"Not all of its pods would then get a node: {placement.placed} of {placement.pods} fit. "
                f"kube-scheduler: {placement.message}"
            )
        elif placement is not None:
            yield f"kube-scheduler would then place {counted(placement.pods, 'pod')}"


def describe_flavors(admission: QuotaAdmission) -> str:
    """Describe the flavors of an admission, for each pod set if they differ."""
    flavors_by_pod_set = {pod_set.name: sorted(set(pod_set.flavors.values())) for pod_set in admission.pod_sets}
    first_flavors = next(iter(flavors_by_pod_set.values()), [])
    if flavors_by_pod_set and all(flavors == first_flavors for flavors in flavors_by_pod_set.values()):
        noun = "flavors" if len(first_flavors) > 1 else "flavor"
        return f"{noun} {', '.join(first_flavors)}"
    per_pod_set = [f"{', '.join(flavors)} (pod set {name})" for name, flavors in flavors_by_pod_set.items()]
    return f"flavors {join_words(per_pod_set)}"


def parse_time(now: str) -> int:
    """Parse a time as microseconds since 1970.

    An empty string stands for now. Raises InputError for a malformed time.
    """
    return parse_microseconds(now) if now else time.time_ns() // 1000


def _build_workload_title(workload: KueueWorkload) -> str:
    """Return a title such as ``Workload team/train (priority 5)``."""
    return f"Workload {format_key(workload)} (priority {workload.spec.priority or 0:,})"


def _sum_reserved_amounts(workload: KueueWorkload) -> dict[FlavorResource, Quantity]:
    """Return the amounts that a Workload reserves, by flavor and resource.

    Raises QuantityError for a malformed amount.
    """
    usage: dict[FlavorResource, Quantity] = {}
    admission = workload.status.admission
    if admission is None:
        return usage
    for assignment in admission.pod_set_assignments:
        for resource, amount in assignment.resource_usage.items():
            key = (assignment.flavors.get(resource, ""), resource)
            usage[key] = usage.get(key, NOTHING).add(parse_amount(amount))
    return usage


def _compute_free_quota(
    queue: ClusterQueue, reserved: Mapping[str, Mapping[FlavorResource, Quantity]]
) -> dict[FlavorResource, Quantity]:
    """Return the nominal quota minus the reservations, by flavor and resource.

    The reservations are read from the queue's status or, if it has none, summed over the Workloads (``reserved``).
    Raises QuantityError for a malformed amount.
    """
    used: dict[FlavorResource, Quantity] = {}
    for flavor in queue.status.flavors_reservation:
        used |= {(flavor.name, resource.name): parse_amount(resource.total) for resource in flavor.resources}
    if not used:
        for usage in reserved.values():
            for key, amount in usage.items():
                used[key] = used.get(key, NOTHING).add(amount)
    return {key: nominal.sub(used.get(key, NOTHING)) for key, nominal in _get_nominal_quota(queue).items()}


def _iter_resource_shortages(
    workload: KueueWorkload, queue: ClusterQueue, quotas: Mapping[FlavorResource, _Quota]
) -> Iterator[_Shortage]:
    """Yield the resources of which pod sets lack quota.

    Either no flavor has enough of the resource, or the ClusterQueue has no quota for it. A pod set that fits takes its
    requests from the quotas before the next pod set is checked. Raises QuantityError for a malformed amount.
    """
    remaining = dict(quotas)
    covered = {resource for group in queue.spec.resource_groups for resource in group.covered_resources}
    for pod_set in workload.spec.pod_sets:
        requests = sum_template_requests(pod_set.template, pod_set.count)
        requests = {name: amount for name, amount in requests.items() if amount > NOTHING}
        for name in requests.keys() - covered - {PODS}:
            queue_name = queue.metadata.name
            description = f"pod set {pod_set.name} requests {name}, for which ClusterQueue {queue_name} has no quota"
            yield _Shortage(description, name, flavors=())
        for group in queue.spec.resource_groups:
            group_requests = {name: amount for name, amount in requests.items() if name in group.covered_resources}
            if not _take_from_first_fitting_flavor(group_requests, group, remaining):
                yield from _iter_shortages_in_group(pod_set.name, group_requests, group, remaining)


def _take_from_first_fitting_flavor(
    requests: Quantities, group: KueueResourceGroup, quotas: dict[FlavorResource, _Quota]
) -> bool:
    """Subtract the requests from the first flavor of the group that has enough for all of them.

    Return whether there is such a flavor.
    """
    for flavor in group.flavors:
        if all(amount <= quotas.get((flavor.name, name), _NO_QUOTA).free for name, amount in requests.items()):
            for name, amount in requests.items():
                quota = quotas[flavor.name, name]
                quotas[flavor.name, name] = quota._replace(free=quota.free.sub(amount))
            return True
    return False


def _iter_shortages_in_group(
    pod_set: str, requests: Quantities, group: KueueResourceGroup, quotas: Mapping[FlavorResource, _Quota]
) -> Iterator[_Shortage]:
    """Yield a shortage for each requested resource that no flavor of the group has enough of.

    `requests` are the requests of the pod set. `quotas` has the quota of each flavor and resource.
    """
    for name, amount in requests.items():
        quota_by_flavor = {flavor.name: quotas.get((flavor.name, name), _NO_QUOTA) for flavor in group.flavors}
        if any(amount <= quota.free for quota in quota_by_flavor.values()):
            continue
        flavors = [
            f"flavor {flavor} has {render_amount(quota.free)} of {render_amount(quota.total)} free"
            for flavor, quota in quota_by_flavor.items()
        ]
        description = f"pod set {pod_set} needs {render_amount(amount)} {name}, but {join_words(flavors)}"
        yield _Shortage(description, name, tuple(quota_by_flavor))


def _get_nominal_quota(queue: ClusterQueue) -> dict[FlavorResource, Quantity]:
    """Return the nominal quota of a ClusterQueue by flavor and resource.

    Raises QuantityError for a malformed amount.
    """
    return {
        (flavor.name, resource.name): parse_amount(resource.nominal_quota)
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for resource in flavor.resources
    }


def _iter_quota_holder_descriptions(
    reserved: Mapping[str, Mapping[FlavorResource, Quantity]], short_resources: set[FlavorResource]
) -> Iterator[str]:
    """Yield a description of each Workload that holds some of the short resources, with amounts and flavors.

    ``reserved`` has the reserved amounts of each Workload by flavor and resource.
    """
    for workload, usage in reserved.items():
        held_amounts = {key: amount for key, amount in usage.items() if key in short_resources and amount > NOTHING}
        if held_amounts:
            amounts = join_words(
                [
                    f"{render_amount(amount)} {resource} of flavor {flavor}"
                    for (flavor, resource), amount in held_amounts.items()
                ]
            )
            yield f"{workload} holds {amounts}"
