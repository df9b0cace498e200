"""PodGroups of Volcano that wait for their Queue: which resource is short, and which PodGroups hold it.

A Queue with a capability lets a PodGroup in if its minResources fit beside those of the PodGroups that are in it
already. Of Volcano's other rules nothing is replayed.
Upstream: pkg/scheduler/plugins/capacity and pkg/scheduler/plugins/proportion (enqueueable) of volcano-sh/volcano.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from kschedctl.api.defaults import default_pod
from kschedctl.api.gangs import GangKey, GangProject, find_gangs
from kschedctl.api.objects import Pod, VolcanoPodGroup
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import VolcanoJob, VolcanoQueue
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.amounts import NOTHING, add_to, amounts_of, largest_allocatable, listed, written
from kschedctl.replay.waiting_elsewhere.entries import controller, entry
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState

VOLCANO = "Volcano"
DEFAULT_QUEUE = "default"
_LET_IN = frozenset({"Inqueue", "Running", "Unknown"})
_ENDED = frozenset({"Completed", "Succeeded", "Failed"})
_JOB_WAITS = frozenset({"", "Pending"})


def waiting_pod_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield the PodGroups that their Queue has not let in, and those let in without any pod."""
    queues = _Queues(cluster)
    for group in cluster.volcano_pod_groups:
        phase = group.status.phase
        if phase in _ENDED or (phase in _LET_IN and (phase != "Inqueue" or queues.pods_of(group))):
            continue
        headline, holders = _reason(group, queues)
        job = job_of(group, cluster)
        yield entry(
            "PodGroup",
            group.metadata,
            WaitingState.NOT_ADMITTED,
            headline,
            now=now,
            pods=_number_of_pods(group, cluster),
            decides=VOLCANO,
            details=(f"its phase is {phase or 'not set yet'}, minMember {group.spec.min_member:,}",),
            conditions=group.status.conditions,
            holders=holders,
            part_of=(job,) if job else (),
        )


def waiting_jobs_without_group(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield the Jobs of Volcano that have neither a PodGroup nor a pod yet."""
    with_group = {job_of(group, cluster) for group in cluster.volcano_pod_groups}
    for job in cluster.volcano_jobs:
        owner, state = Owner("Job", job.metadata.namespace, job.metadata.name), job.status.state
        if owner in with_group or state.phase not in _JOB_WAITS:
            continue
        said = state.message or state.reason
        headline = f"waits for {VOLCANO}, which has made no PodGroup of it yet" + (f": {said}" if said else "")
        pods = sum(task.replicas for task in job.spec.tasks)
        yield entry("Job", job.metadata, WaitingState.NOT_ADMITTED, headline, now=now, pods=pods, decides=VOLCANO)


def job_of(group: VolcanoPodGroup, cluster: Cluster) -> Owner | None:
    """Return the Job of a PodGroup: its controller, else the Job of its name, which Volcano may extend by a UID."""
    owner = controller(group.metadata)
    if owner is not None:
        return owner
    job = _find_job(group, cluster)
    return Owner("Job", job.metadata.namespace, job.metadata.name) if job else None


def _find_job(group: VolcanoPodGroup, cluster: Cluster) -> VolcanoJob | None:
    names = group.metadata.name, next((o.name for o in group.metadata.owner_references), "")
    jobs: Sequence[VolcanoJob] = cluster.in_namespace("volcano_jobs", group.metadata.namespace)
    return next(
        (job for job in jobs if job.metadata.name in names or names[0] == f"{job.metadata.name}-{job.metadata.uid}"),
        None,
    )


def _number_of_pods(group: VolcanoPodGroup, cluster: Cluster) -> int:
    job = _find_job(group, cluster)
    return sum(task.replicas for task in job.spec.tasks) if job else group.spec.min_member


class _Queues:
    """The Queues of Volcano with the PodGroups that they have let in; computed once for all that wait."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.let_in: dict[str, list[VolcanoPodGroup]] = {}
        for group in cluster.volcano_pod_groups:
            if group.status.phase in _LET_IN:
                self.let_in.setdefault(group.spec.queue or DEFAULT_QUEUE, []).append(group)
        self._pods: dict[GangKey, list[Pod]] = {}
        for pod in cluster.unbound_pods() if cluster.volcano_pod_groups else ():
            for key in find_gangs(pod):
                self._pods.setdefault(key, []).append(pod)
        self._too_large: dict[str, str] = {}

    def find(self, name: str) -> VolcanoQueue | None:
        """Return the Queue of this name, None if there is none."""
        return next((queue for queue in self.cluster.volcano_queues if queue.metadata.name == name), None)

    def pods_of(self, group: VolcanoPodGroup) -> list[Pod]:
        """Return the pods of a group that have no node."""
        key = GangKey(GangProject.VOLCANO, group.metadata.namespace, group.metadata.name)
        return self._pods.get(key, [])

    @cached_property
    def _largest(self) -> Quantities:
        return largest_allocatable(self.cluster)

    def why_nowhere(self, group: VolcanoPodGroup) -> str:
        """Return which pod of the group requests more than any node has, "" if none does. Raises QuantityError."""
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        if key not in self._too_large:
            self._too_large[key] = "" if self.cluster.gap("Node") else self._find_too_large(group)
        return self._too_large[key]

    def _find_too_large(self, group: VolcanoPodGroup) -> str:
        for pod in self.pods_of(group):
            for resource, amount in compute_pod_requests(default_pod(pod)).items():
                most = self._largest.get(resource, NOTHING)
                if amount > most:
                    return (
                        f" but can be placed nowhere: its pod {pod.key} requests {written(amount)} {resource}, and the "
                        f"largest node has {written(most)}"
                    )
        return ""


def _reason(group: VolcanoPodGroup, queues: _Queues) -> tuple[str, Sequence[str]]:
    """Return what a PodGroup waits for, and which other PodGroups hold it."""
    if group.status.phase == "Inqueue":
        return f"is let in by {VOLCANO}'s queue, but none of its pods exists yet", ()
    name = group.spec.queue or DEFAULT_QUEUE
    queue = queues.find(name)
    if queue is None:
        missing = ", which does not exist" if queues.cluster.gap("VolcanoQueue") is None else ""
        return f"waits for {VOLCANO}'s queue {name}{missing}{_said(group)}", ()
    if queue.status.state not in ("", "Open"):
        return f"waits: {VOLCANO}'s queue {name} is {queue.status.state}", ()
    try:
        return _quota_reason(group, queue, queues)
    except QuantityError:
        return f"waits for {VOLCANO}'s queue {name}{_said(group)}", ()


def _said(group: VolcanoPodGroup) -> str:
    messages = [condition.message for condition in group.status.conditions if condition.message]
    return f": {messages[-1]}" if messages else ""


def _quota_reason(group: VolcanoPodGroup, queue: VolcanoQueue, queues: _Queues) -> tuple[str, Sequence[str]]:
    """Return which resource of the Queue is short, and its holders. Raises QuantityError."""
    name, capability = queue.metadata.name, amounts_of(queue.spec.capability)
    inside = queues.let_in.get(name, [])
    held: Quantities = {}
    for other in inside:
        add_to(held, amounts_of(other.spec.min_resources))
    short = {
        resource: amount
        for resource, amount in amounts_of(group.spec.min_resources).items()
        if resource in capability and held.get(resource, NOTHING).add(amount) > capability[resource]
    }
    if not short:
        return f"waits for {VOLCANO}'s queue {name}{_said(group)}", ()
    lacks = "; ".join(
        f"it needs {written(amount)} {resource}, and {written(held.get(resource, NOTHING))} of the queue's "
        f"{written(capability[resource])} are held"
        for resource, amount in short.items()
    )
    holders = list(_holders(inside, short, queues))
    by = f" by {holders[0]}" if len(holders) == 1 else ""
    return f"waits for {VOLCANO}'s queue {name}: {lacks}{by}", holders


def _holders(groups: Sequence[VolcanoPodGroup], short: Quantities, queues: _Queues) -> Iterator[str]:
    """Yield the PodGroups that hold some of what is short, and whether their own pods fit on no node at all."""
    for group in groups:
        mine = amounts_of(group.spec.min_resources)
        amounts = {resource: mine[resource] for resource in short if mine.get(resource, NOTHING) > NOTHING}
        if amounts:
            title = f"PodGroup {group.metadata.namespace}/{group.metadata.name} ({group.status.phase})"
            yield f"{title}, which holds {listed(amounts)}{queues.why_nowhere(group)}"
