"""TODO."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kschedctl.api.objects import Pod, StoredJob
from kschedctl.api.observed.failed_creation import JOB_ENDED, POD_CREATORS
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.edits import pods_where

ABOVE = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kind -> what it makes in the place of pods."""


class Counts(NamedTuple):
    """Pods: how many are ``wanted`` (None: nobody knows) and ``there``, which have not ended and are not leaving."""

    wanted: int | None
    there: int

    @property
    def missing(self) -> int | None:
        return None if self.wanted is None else max(self.wanted - self.there, 0)


class WantedPods:
    """How many pods the workloads of a cluster want and have; ``asked``: those whose pods are asked about."""

    def __init__(self, cluster: Cluster, asked: Collection[Owner]) -> None:
        self._cluster, self._asked = cluster, asked

    @cached_property
    def objects(self) -> Mapping[Owner, Any]:
        """The objects of all that is read."""
        return objects_of(self._cluster)

    def made(self, owner: Owner) -> Sequence[Owner]:
        """What a Deployment or CronJob has made."""
        return self._made.get(owner, ())

    def top(self, owner: Owner) -> Owner:
        """The workload behind it, as far as that can be seen."""
        above = self._above(owner)
        if above is not None and above.kind in ABOVE:
            return above
        pods = self._pods.get(owner, ())
        return find_owner(pods[0]) if pods and owner.kind == "ReplicaSet" else owner

    def counts(self, owner: Owner) -> Counts:
        """The pods of a workload that makes pods itself, else of all the workloads that it has made."""
        if made := self.made(owner):
            several = [self.counts(inner) for inner in made]
            wanted = [counts.wanted for counts in several]
            whole = None if None in wanted else sum(count or 0 for count in wanted)
            return Counts(whole, sum(counts.there for counts in several))
        obj = self.objects.get(owner)
        there = sum(not (p.terminated or p.metadata.deletion_timestamp) for p in self._pods.get(owner, ()))
        return Counts(None if obj is None else _wanted(owner.kind, obj), there)

    def newest(self, owner: Owner) -> str:
        """When the last of what it makes was created; empty where nobody knows."""
        if owner.kind in ABOVE and self.made(owner):
            return max(self.objects[inner].metadata.creation_timestamp or "" for inner in self.made(owner))
        return max((pod.metadata.creation_timestamp or "" for pod in self._pods.get(owner, ())), default="")

    def _above(self, owner: Owner) -> Owner | None:
        obj = self.objects.get(owner)
        above = find_controller(obj.metadata) if obj is not None else None
        return None if above is None else Owner(above.kind, owner.namespace, above.name)

    @cached_property
    def _made(self) -> dict[Owner, list[Owner]]:
        owners: dict[Owner, list[Owner]] = {}
        for owner in self.objects:
            if (above := self._above(owner)) is not None:
                owners.setdefault(above, []).append(owner)
        return owners

    @cached_property
    def _pods(self) -> dict[Owner, list[Pod]]:
        """By their controller, and by the workload behind it: those of all that are asked about or beside these."""
        asked = frozenset(self._asked)
        tops = {self._above(owner) or owner for owner in asked}
        tops |= {find_owner(pod) for pod in self._cluster.pods.templates if asked & _owners(pod)}
        wanted = {*asked, *tops, *(made for top in tops for made in self.made(top))}
        pods: dict[Owner, list[Pod]] = {}
        for pod in pods_where(self._cluster, lambda pod: not wanted.isdisjoint(_owners(pod)), ended=True):
            for owner in wanted & _owners(pod):
                pods.setdefault(owner, []).append(pod)
        return pods


def objects_of(cluster: Cluster) -> dict[Owner, Any]:
    """All that makes pods and is read, by what it is."""
    return {
        Owner(kind, obj.metadata.namespace, obj.metadata.name): obj
        for kind in POD_CREATORS
        for obj in getattr(cluster, FIELDS[kind])
    }


def _owners(pod: Pod) -> set[Owner]:
    """The controller of a pod, and the workload behind that."""
    by, namespace = find_controller(pod.metadata), pod.metadata.namespace
    return set() if by is None else {Owner(by.kind, namespace, by.name), find_owner(pod)}


def _wanted(kind: str, obj: Any) -> int | None:
    """How many pods a workload wants; None of a DaemonSet until its controller has said it."""
    if kind == "DaemonSet":
        wanted: int | None = obj.status.desired_number_scheduled
        return wanted
    if isinstance(obj, StoredJob):
        return _wanted_by_job(obj)
    return 1 if obj.spec.replicas is None else int(obj.spec.replicas)


def _wanted_by_job(job: StoredJob) -> int:
    """Side by side, and no more than are still to complete."""
    ended = any(condition.type in JOB_ENDED and condition.status == "True" for condition in job.status.conditions)
    if ended or job.spec.suspend:
        return 0
    side_by_side = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return side_by_side
    return min(side_by_side, max(job.spec.completions - (job.status.succeeded or 0), 0))
