"""TODO."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from kschedctl.admission import resource_quota
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError, Writable
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, PodResourceClaimStatus, ResourceClaim, ResourceQuota, Struct
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import Creation
from kschedctl.replay.controllers.pod_defaults import WorkloadNote

Quotas = tuple[ResourceQuota, ...]


@dataclass
class QuotasLeft:
    """``now``: namespace -> its quotas, where they were looked at."""

    cluster: Cluster
    now: dict[str, Quotas] = field(default_factory=dict)

    def of(self, namespace: str) -> Quotas:
        if namespace not in self.now:
            self.now[namespace] = tuple(self.cluster.in_namespace("resource_quotas", namespace))
        return self.now[namespace]

    def again(self) -> QuotasLeft:
        """A copy for another run."""
        return QuotasLeft(self.cluster, dict(self.now))

    def request(self, kind: str, made: JsonObject, namespace: str, name: str = "") -> AdmissionRequest:
        """For an object, with the quotas that bind."""
        obj: Writable = dict(made)
        quotas = [quota for quota in self.of(namespace) if quota.status.hard]
        return AdmissionRequest(self.cluster, kind, obj, namespace, (), quotas, name)

    def charge(self, request: AdmissionRequest, number: int) -> None:
        """Count so many more such objects."""
        charged = {quota.metadata.name: quota for quota in resource_quota.charged(request, number)}
        self.now[request.namespace] = tuple(charged.get(q.metadata.name, q) for q in self.of(request.namespace))

    def release(self, pods: Collection[Pod]) -> None:
        """What goes is not used any more."""
        alike: dict[tuple[str, str, int], list[Pod]] = {}
        for pod in pods:
            key = pod.metadata.namespace, pod.spec.priority_class_name, id(pod.spec.containers)
            alike.setdefault(key, []).append(pod)
        for (namespace, *_), same in alike.items():
            if self.of(namespace):
                self.charge(self.request("Pod", msgspec.to_builtins(same[0]), namespace), -len(same))

    def counted(self, cluster: Cluster) -> Cluster:
        """A cluster with the quotas as they are now; itself where nothing was counted."""
        quotas = [quota for left in self.now.values() for quota in left]
        return cluster.with_objects({"ResourceQuota": quotas}) if quotas else cluster


KIND = "ResourceClaim"


def claims_within_quotas(cluster: Cluster, creation: Creation, pods: Mapping[str, list[Pod]]) -> Cluster:
    """Keep of the claims those of these pods, by workload, which are created, and that quotas allow for.

    A pod whose claim is refused loses its name for it, and waits. Returns the cluster with the claims counted.
    """
    if KIND not in creation.objects:
        return cluster
    claims = _Claims(cluster, creation)
    for workload, made in pods.items():
        made[:] = [claims.of(pod, workload) for pod in made]
    creation.objects[KIND] = claims.kept
    creation.notes += claims.notes.values()
    return claims.quotas.counted(cluster)


class _Claims:
    """Claims as they are created; ``quotas``: what is left of them; ``told``: why some are not, once a workload."""

    def __init__(self, cluster: Cluster, creation: Creation) -> None:
        self.kept: list[Struct] = []
        self.notes: dict[str, WorkloadNote] = {}
        self.quotas = QuotasLeft(cluster)
        made = (claim for claim in creation.objects[KIND] if isinstance(claim, ResourceClaim))
        self._made = {(claim.metadata.namespace, claim.metadata.name): claim for claim in made}

    def of(self, pod: Pod, workload: str) -> Pod:
        """The pod with the names of those of its claims that are created."""
        statuses = pod.status.resource_claim_statuses
        allowed = tuple(status for status in statuses if self._comes(status, pod.metadata.namespace, workload))
        if len(allowed) == len(statuses):
            return pod
        return replace(pod, status=replace(pod.status, resource_claim_statuses=allowed))

    def _comes(self, status: PodResourceClaimStatus, namespace: str, workload: str) -> bool:
        claim = self._made.get((namespace, status.resource_claim_name or ""))
        if claim is None:
            return True
        if words := self._refused(claim):
            note = WorkloadNote(workload, f"pods wait for claims that are not created: {words}")
            self.notes.setdefault(workload, note)
            return False
        self.kept.append(claim)
        return True

    def _refused(self, claim: ResourceClaim) -> str:
        """Why the API server refuses the claim; where it does not, it counts."""
        obj = {"apiVersion": "resource.k8s.io/v1", "spec": msgspec.to_builtins(claim.spec)}
        request = self.quotas.request(KIND, obj, claim.metadata.namespace, claim.metadata.name)
        try:
            resource_quota.check(request)
        except NotAdmittedError as error:
            return error.message
        self.quotas.charge(request, 1)
        return ""
