"""PodGroups and Jobs of Volcano that wait for their Queue, with the short resource and the PodGroups that hold it.

A Queue with a capability admits a PodGroup if its minResources fit beside those of the PodGroups that it has admitted
already. Other rules of Volcano are not replayed. Upstream: pkg/scheduler/plugins/capacity and
pkg/scheduler/plugins/proportion (enqueueable) of volcano-sh/volcano.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.defaults import apply_pod_defaults
from kschedctl.api.gangs import GangKey, GangProject, find_gangs
from kschedctl.api.objects import Pod, VolcanoPodGroup
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import Quantity, QuantityError
from kschedctl.api.queueing import VolcanoJob, VolcanoQueue
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import (
    NOTHING,
    add_amounts,
    build_waiting_entry,
    find_controller_key,
    find_largest_allocatable,
    parse_amounts,
    render_amount,
    render_amounts,
)
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState

VOLCANO = "Volcano"
DEFAULT_QUEUE = "default"
_ADMITTED_PHASES = frozenset({"Inqueue", "Running", "Unknown"})
_ENDED_PHASES = frozenset({"Completed", "Succeeded", "Failed"})
_WAITING_JOB_PHASES = frozenset({"", "Pending"})


def iter_waiting_volcano_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the PodGroups that are not admitted by their Queue, and on Inqueue PodGroups without pods.

    PodGroups that have ended are left out. ``now`` is the RFC 3339 time for their ages, or empty.
    """
    queues = _Queues(cluster)
    for group in cluster.volcano_pod_groups:
        phase = group.status.phase
        awaits_pods = phase == "Inqueue" and not queues.find_pods_of_group(group)
        if phase in _ENDED_PHASES or (phase in _ADMITTED_PHASES and not awaits_pods):
            continue
        reason = _find_wait_reason(group, queues)
        job = find_pod_group_owner(group, cluster)
        yield build_waiting_entry(
            "PodGroup",
            group.metadata,
            WaitingState.NOT_ADMITTED,
            reason.headline,
            now=now,
            pods=_count_pods(group, cluster),
            decides=VOLCANO,
            details=(
                f"the PodGroup's phase is {phase or 'not set yet'}, and its minMember is {group.spec.min_member:,}",
            ),
            conditions=group.status.conditions,
            holders=reason.holders,
            names_holder=reason.names_holder,
            part_of=(job,) if job else (),
        )


def iter_jobs_without_pod_group(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the Jobs of Volcano in a waiting phase that have no PodGroup yet.

    Their pods are not checked, because Volcano creates no pods for a Job without a PodGroup. ``now`` is the RFC 3339
    time for the ages of the Jobs, or empty.
    """
    with_group = {find_pod_group_owner(group, cluster) for group in cluster.volcano_pod_groups}
    for job in cluster.volcano_jobs:
        owner, state = Owner("Job", job.metadata.namespace, job.metadata.name), job.status.state
        if owner in with_group or state.phase not in _WAITING_JOB_PHASES:
            continue
        message = state.message or state.reason
        headline = f"waits for {VOLCANO}, which has not created its PodGroup yet" + (f": {message}" if message else "")
        pods = sum(task.replicas for task in job.spec.tasks)
        yield build_waiting_entry(
            "Job", job.metadata, WaitingState.NOT_ADMITTED, headline, now=now, pods=pods, decides=VOLCANO
        )


def find_pod_group_owner(group: VolcanoPodGroup, cluster: Cluster) -> Owner | None:
    """Return the controller of a PodGroup. Without one, return the Job with the PodGroup's name, or None.

    Volcano may append the Job's UID to the PodGroup's name.
    """
    owner = find_controller_key(group.metadata)
    if owner is not None:
        return owner
    job = _find_job_by_name(group, cluster)
    return Owner("Job", job.metadata.namespace, job.metadata.name) if job else None


def _find_job_by_name(group: VolcanoPodGroup, cluster: Cluster) -> VolcanoJob | None:
    """Return the Job that has the name of the PodGroup or of its first owner, or None.

    The PodGroup's name may end with the Job's UID.
    """
    group_name = group.metadata.name
    owner_name = next((owner.name for owner in group.metadata.owner_references), "")
    jobs: Sequence[VolcanoJob] = cluster.list_in_namespace("volcano_jobs", group.metadata.namespace)
    for job in jobs:
        name, uid = job.metadata.name, job.metadata.uid
        if name in (group_name, owner_name) or group_name == f"{name}-{uid}":
            return job
    return None


def _count_pods(group: VolcanoPodGroup, cluster: Cluster) -> int:
    """Return how many pods the group's Job wants or, without a Job, minMember."""
    job = _find_job_by_name(group, cluster)
    return sum(task.replicas for task in job.spec.tasks) if job else group.spec.min_member


class _Queues:
    """The Queues of Volcano with the PodGroups that they have admitted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admitted: dict[str, list[VolcanoPodGroup]] = {}
        for group in cluster.volcano_pod_groups:
            if group.status.phase in _ADMITTED_PHASES:
                self.admitted.setdefault(group.spec.queue or DEFAULT_QUEUE, []).append(group)
        self._pods: dict[GangKey, list[Pod]] = {}
        for pod in cluster.unbound_pods() if cluster.volcano_pod_groups else ():
            for key in find_gangs(pod):
                self._pods.setdefault(key, []).append(pod)
        self._too_large: dict[str, str] = {}

    def find_queue(self, name: str) -> VolcanoQueue | None:
        """Return the Queue of this name, or None."""
        return next((queue for queue in self.cluster.volcano_queues if queue.metadata.name == name), None)

    def find_pods_of_group(self, group: VolcanoPodGroup) -> list[Pod]:
        """Return the pods of a group that have no node."""
        key = GangKey(GangProject.VOLCANO, group.metadata.namespace, group.metadata.name)
        return self._pods.get(key, [])

    @cached_property
    def _largest(self) -> Quantities:
        """The highest allocatable amount of each resource over the nodes."""
        return find_largest_allocatable(self.cluster)

    def explain_unplaceable_pod(self, group: VolcanoPodGroup) -> str:
        """Return a clause about a pod of the group that requests more than any node has.

        Return an empty string if there is no such pod, or if nodes were not read. Results are cached. Raises
        QuantityError for a malformed amount.
        """
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        if key not in self._too_large:
            self._too_large[key] = "" if self.cluster.find_gap("Node") else self._explain_too_large_pod(group)
        return self._too_large[key]

    def _explain_too_large_pod(self, group: VolcanoPodGroup) -> str:
        """Return a clause about the first pod that requests more than any node has, or an empty string."""
        for pod in self.find_pods_of_group(group):
            for resource, amount in compute_pod_requests(apply_pod_defaults(pod)).items():
                largest = self._largest.get(resource, NOTHING)
                if amount > largest:
                    request = f"{render_amount(amount)} {resource}"
                    return (
                        f"no node is large enough for its pod {pod.key}, which requests {request}: the largest node "
                        f"has {render_amount(largest)}"
                    )
        return ""


class _WaitReason(NamedTuple):
    """The reason why a PodGroup waits."""

    headline: str
    holders: Sequence[str] = ()
    """The other PodGroups that hold the short resources."""
    names_holder: bool = False
    """True if the headline names the only holder."""


def _find_wait_reason(group: VolcanoPodGroup, queues: _Queues) -> _WaitReason:
    """Return the reason why a PodGroup waits: for its pods, a missing or closed Queue, or resources of its Queue.

    If an amount is malformed, the reason is the last message of the PodGroup's conditions.
    """
    if group.status.phase == "Inqueue":
        return _WaitReason(f"is admitted by {VOLCANO}'s queue, but none of its pods exists yet")
    name = group.spec.queue or DEFAULT_QUEUE
    queue = queues.find_queue(name)
    if queue is None:
        missing = ", which does not exist" if queues.cluster.find_gap("VolcanoQueue") is None else ""
        return _WaitReason(f"waits for {VOLCANO}'s queue {name}{missing}{_format_last_message(group)}")
    if queue.status.state not in ("", "Open"):
        return _WaitReason(f"waits: {VOLCANO}'s queue {name} is {queue.status.state}")
    try:
        return _explain_quota_wait(group, queue, queues)
    except QuantityError:
        return _WaitReason(f"waits for {VOLCANO}'s queue {name}{_format_last_message(group)}")


def _format_last_message(group: VolcanoPodGroup) -> str:
    """Return a clause with the last message of the group's conditions, or an empty string."""
    messages = [condition.message for condition in group.status.conditions if condition.message]
    return f": {messages[-1]}" if messages else ""


def _explain_quota_wait(group: VolcanoPodGroup, queue: VolcanoQueue, queues: _Queues) -> _WaitReason:
    """Explain why a PodGroup waits: which resources of the Queue are short, and which PodGroups hold them.

    If no resource is short, the reason is the last message of the group's conditions. Raises QuantityError for a
    malformed amount.
    """
    headline = f"waits for {VOLCANO}'s queue {queue.metadata.name}"
    admitted_groups = queues.admitted.get(queue.metadata.name, [])
    shortages = _find_shortages(group, queue, admitted_groups)
    if not shortages:
        return _WaitReason(f"{headline}{_format_last_message(group)}")

    headline += ": " + "; ".join(
        f"the group needs {render_amount(shortage.request)} {resource}, but {render_amount(shortage.held)} of the "
        f"queue's {render_amount(shortage.capability)} are in use"
        for resource, shortage in shortages.items()
    )
    quota_holders = list(_iter_quota_holders(admitted_groups, shortages, queues))
    descriptions = [holder.describe() for holder in quota_holders]
    if len(quota_holders) == 1:
        return _WaitReason(
            f"{headline} by {quota_holders[0].describe_as_only_holder()}", descriptions, names_holder=True
        )
    return _WaitReason(headline, descriptions)


class _QuotaHolder(NamedTuple):
    """A PodGroup that holds short resources of a Queue."""

    title: str
    """The PodGroup with its phase."""
    amounts: str
    """The short resources that it holds, in words."""
    obstacle: str
    """A clause about a pod of the PodGroup that is too large for every node, or an empty string."""

    def describe(self) -> str:
        """Describe the PodGroup and what it holds.

        >>> _QuotaHolder("PodGroup ml/big (Inqueue)", "2 cpu", "no node is large enough for its pod ml/a").describe()
        'PodGroup ml/big (Inqueue), which holds 2 cpu; no node is large enough for its pod ml/a'
        """
        text = f"{self.title}, which holds {self.amounts}"
        return f"{text}; {self.obstacle}" if self.obstacle else text

    def describe_as_only_holder(self) -> str:
        """Describe the PodGroup after a clause that already gives the amounts.

        >>> _QuotaHolder("PodGroup ml/big (Inqueue)", "2 cpu", "").describe_as_only_holder()
        'PodGroup ml/big (Inqueue)'
        """
        return f"{self.title}, although {self.obstacle}" if self.obstacle else self.title


class _Shortage(NamedTuple):
    """A resource of which a Queue has too little left for a PodGroup."""

    request: Quantity
    """The amount that the PodGroup needs."""
    held: Quantity
    """The amount that the admitted PodGroups of the Queue hold."""
    capability: Quantity
    """The amount that the Queue has in total."""


def _find_shortages(
    group: VolcanoPodGroup, queue: VolcanoQueue, admitted_groups: Sequence[VolcanoPodGroup]
) -> dict[str, _Shortage]:
    """Return, by resource, the shortages of the Queue that keep a PodGroup from being admitted.

    A resource is short if the requests of the PodGroup and of ``admitted_groups`` together exceed the Queue's
    capability. Raises QuantityError for a malformed amount.
    """
    capability = parse_amounts(queue.spec.capability)
    held_amounts: Quantities = {}
    for admitted_group in admitted_groups:
        add_amounts(held_amounts, parse_amounts(admitted_group.spec.min_resources))

    shortages = {}
    for resource, request in parse_amounts(group.spec.min_resources).items():
        held = held_amounts.get(resource, NOTHING)
        if resource in capability and held.add(request) > capability[resource]:
            shortages[resource] = _Shortage(request, held, capability[resource])
    return shortages


def _iter_quota_holders(
    groups: Sequence[VolcanoPodGroup], short_resources: Iterable[str], queues: _Queues
) -> Iterator[_QuotaHolder]:
    """Yield each PodGroup that holds short resources, with the amounts, and whether a pod of it fits on no node."""
    for group in groups:
        group_amounts = parse_amounts(group.spec.min_resources)
        amounts = {
            resource: group_amounts[resource]
            for resource in short_resources
            if group_amounts.get(resource, NOTHING) > NOTHING
        }
        if amounts:
            title = f"PodGroup {group.metadata.namespace}/{group.metadata.name} ({group.status.phase})"
            yield _QuotaHolder(title, render_amounts(amounts), queues.explain_unplaceable_pod(group))
