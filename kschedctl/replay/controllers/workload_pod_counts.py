"""The objects that create pods in a cluster, and how many pods each wants and has.

Upstream: pkg/controller/{replicaset,statefulset,daemon,job,deployment,cronjob} (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kschedctl.api.events import JOB_ENDED, POD_CREATORS
from kschedctl.api.objects import Pod, StoredJob
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.edits import select_pods

CREATED_KINDS = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Workload kind -> kind that it creates instead of pods."""


class PodNumbers(NamedTuple):
    """The numbers of pods that a workload wants and has."""

    wanted: int | None
    """None if that is not known."""
    existing: int
    """Pods that have not ended and are not being deleted."""

    @property
    def missing(self) -> int | None:
        """The number of missing pods, or None if that is not known."""
        return None if self.wanted is None else max(self.wanted - self.existing, 0)


class WorkloadPodCounts:
    """The numbers of pods that the workloads of a cluster want and have."""

    def __init__(self, cluster: Cluster, owners: Collection[Owner]) -> None:
        self._cluster = cluster
        self._owners = owners

    @cached_property
    def workloads(self) -> Mapping[Owner, Any]:
        """All objects that create pods and were read, by owner."""
        return find_pod_creators(self._cluster)

    def find_created_workloads(self, owner: Owner) -> Sequence[Owner]:
        """Return the ReplicaSets of a Deployment, or the Jobs of a CronJob. Return () if none were read."""
        return self._created_workloads_by_controller.get(owner, ())

    def find_top_owner(self, owner: Owner) -> Owner:
        """Return the Deployment or CronJob that created the owner, or the owner itself if it has no such creator.

        If a ReplicaSet was not read, one of its pods tells which Deployment created it.
        """
        controller = self._find_workload_controller(owner)
        if controller is not None and controller.kind in CREATED_KINDS:
            return controller
        pods = self._pods_by_owner.get(owner, ())
        return find_owner(pods[0]) if pods and owner.kind == "ReplicaSet" else owner

    def count_pods(self, owner: Owner) -> PodNumbers:
        """Count the wanted and existing pods of a workload, or of all objects that it has created.

        The wanted number is None if it is unknown. Pods that have ended or are being deleted do not count as existing.
        """
        created = self.find_created_workloads(owner)
        if created:
            numbers = [self.count_pods(created_owner) for created_owner in created]
            return PodNumbers(
                wanted=_sum_known_counts(counts.wanted for counts in numbers),
                existing=sum(counts.existing for counts in numbers),
            )

        workload = self.workloads.get(owner)
        wanted = None if workload is None else _count_wanted_pods(owner.kind, workload)
        pods = self._pods_by_owner.get(owner, ())
        existing = sum(not (pod.terminated or pod.metadata.deletion_timestamp) for pod in pods)
        return PodNumbers(wanted, existing)

    def find_last_creation_time(self, owner: Owner) -> str:
        """Return the time when the workload created its newest pod, ReplicaSet or Job, or "" if it is unknown."""
        created = self.find_created_workloads(owner) if owner.kind in CREATED_KINDS else ()
        if created:
            return max(self.workloads[created_owner].metadata.creation_timestamp or "" for created_owner in created)
        return max((pod.metadata.creation_timestamp or "" for pod in self._pods_by_owner.get(owner, ())), default="")

    def _find_workload_controller(self, owner: Owner) -> Owner | None:
        """Return the controller of a workload. Return None if it has none or was not read."""
        obj = self.workloads.get(owner)
        controller = find_controller(obj.metadata) if obj is not None else None
        return None if controller is None else Owner(controller.kind, owner.namespace, controller.name)

    @cached_property
    def _created_workloads_by_controller(self) -> dict[Owner, list[Owner]]:
        """The workloads that another workload created, keyed by that controller."""
        created: dict[Owner, list[Owner]] = {}
        for owner in self.workloads:
            controller = self._find_workload_controller(owner)
            if controller is not None:
                created.setdefault(controller, []).append(owner)
        return created

    @cached_property
    def _pods_by_owner(self) -> dict[Owner, list[Pod]]:
        """The pods by their controller and by the workload behind it, including pods that have ended.

        Only pods of certain workloads are included: the ``owners`` given to the constructor, the workloads that created
        these, and all workloads that those created.
        """
        # A Deployment's pods are counted over all its ReplicaSets. A pod may name a Deployment that was not read.
        owners = frozenset(self._owners)
        controllers = {self._find_workload_controller(owner) or owner for owner in owners}
        owners_named_by_pods = {
            find_owner(pod) for pod in self._cluster.pods.templates if owners & _find_pod_owners(pod)
        }
        top_owners = controllers | owners_named_by_pods
        created = {created for top_owner in top_owners for created in self.find_created_workloads(top_owner)}
        relevant_owners = owners | top_owners | created

        pods_by_owner: dict[Owner, list[Pod]] = {}
        for pod in select_pods(
            self._cluster, lambda pod: not relevant_owners.isdisjoint(_find_pod_owners(pod)), include_ended=True
        ):
            for owner in relevant_owners & _find_pod_owners(pod):
                pods_by_owner.setdefault(owner, []).append(pod)
        return pods_by_owner


def find_pod_creators(cluster: Cluster) -> dict[Owner, Any]:
    """Return the objects of the cluster that create pods, such as Deployments and Jobs, keyed by their own identity."""
    return {
        Owner(kind, obj.metadata.namespace, obj.metadata.name): obj
        for kind in POD_CREATORS
        for obj in getattr(cluster, FIELDS[kind])
    }


def _find_pod_owners(pod: Pod) -> set[Owner]:
    """Return the pod's controller and the workload behind it, or an empty set for a bare pod."""
    controller = find_controller(pod.metadata)
    if controller is None:
        return set()
    return {Owner(controller.kind, pod.metadata.namespace, controller.name), find_owner(pod)}


def _sum_known_counts(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the counts, or None if one of them is unknown (None)."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _count_wanted_pods(kind: str, obj: Any) -> int | None:
    """Return how many pods a workload wants, or None for a DaemonSet whose controller has not counted nodes yet."""
    if kind == "DaemonSet":
        wanted: int | None = obj.status.desired_number_scheduled
        return wanted
    if isinstance(obj, StoredJob):
        return count_pods_wanted_by_job(obj)
    return 1 if obj.spec.replicas is None else int(obj.spec.replicas)


def count_pods_wanted_by_job(job: StoredJob) -> int:
    """Return how many pods a Job wants at the same time. The number is 0 if the Job has ended or is suspended."""
    ended = any(condition.type in JOB_ENDED and condition.status == "True" for condition in job.status.conditions)
    if ended or job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return parallelism
    return min(parallelism, max(job.spec.completions - (job.status.succeeded or 0), 0))
