"""The remaining ResourceQuotas of each namespace while objects are created and deleted.

The quota's status counts, as for the API server. ResourceClaims that the resourceclaim controller creates from
templates may be denied by quotas. Upstream: pkg/controller/resourceclaim/controller.go (v1.36).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

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


class TightestQuota(NamedTuple):
    """The ResourceQuota that allows the fewest further pods of a kind."""

    quota: str
    """The name of the ResourceQuota."""
    pods: int
    """The number of further pods that it allows."""


@dataclass
class RemainingQuotas:
    """The quotas of each namespace, charged with objects that are created and deleted."""

    cluster: Cluster
    charged: dict[str, Quotas] = field(default_factory=dict)
    """Quotas by namespace, for namespaces that were looked at."""

    def get_quotas(self, namespace: str) -> Quotas:
        """Return the quotas of a namespace with their current use."""
        if namespace not in self.charged:
            self.charged[namespace] = tuple(self.cluster.list_in_namespace("resource_quotas", namespace))
        return self.charged[namespace]

    def copy(self) -> RemainingQuotas:
        """Return a copy whose quotas can be charged without changing these."""
        return RemainingQuotas(self.cluster, dict(self.charged))

    def build_request(self, kind: str, document: JsonObject, namespace: str, name: str = "") -> AdmissionRequest:
        """Build the admission request for an object (`document`), with the quotas that are enforced."""
        obj: Writable = dict(document)
        quotas = [quota for quota in self.get_quotas(namespace) if quota.status.hard]
        return AdmissionRequest(self.cluster, kind, obj, namespace=namespace, limit_ranges=(), quotas=quotas, name=name)

    def charge(self, request: AdmissionRequest, count: int) -> None:
        """Charge ``count`` objects like the request's to the quotas. A negative count releases objects."""
        charged_by_name = {quota.metadata.name: quota for quota in resource_quota.charge_quotas(request, count)}
        self.charged[request.namespace] = tuple(
            charged_by_name.get(quota.metadata.name, quota) for quota in self.get_quotas(request.namespace)
        )

    def release(self, pods: Collection[Pod]) -> None:
        """Release the resources of deleted pods from the quotas that they used."""
        # Pods of one template share its containers, so the identity of the containers tells templates apart.
        groups: dict[tuple[str, str, int], list[Pod]] = {}
        for pod in pods:
            key = pod.metadata.namespace, pod.spec.priority_class_name, id(pod.spec.containers)
            groups.setdefault(key, []).append(pod)

        for group in groups.values():
            namespace = group[0].metadata.namespace
            if self.get_quotas(namespace):
                request = self.build_request("Pod", msgspec.to_builtins(group[0]), namespace)
                self.charge(request, -len(group))

    def find_tightest_quota(self, pod: Pod, max_count: int) -> TightestQuota | None:
        """Return the quota that allows the fewest more pods like this one, or None if all allow ``max_count`` pods.

        Quotas that cannot be replayed because the pod is not known in full are left out.
        """
        request = self.build_request("Pod", msgspec.to_builtins(pod), pod.metadata.namespace)
        tightest = None
        for quota in request.quotas:
            if not resource_quota.is_replayable(quota, in_full=False):
                continue
            room = resource_quota.count_admissible_objects(dataclasses.replace(request, quotas=[quota]), max_count)
            if room < max_count and (tightest is None or room < tightest.pods):
                tightest = TightestQuota(quota.metadata.name, room)
        return tightest

    @contextmanager
    def release_temporarily(self, pod: Pod) -> Iterator[None]:
        """Release the resources of a pod within a `with` block. All charges to its namespace are undone at the end."""
        namespace = pod.metadata.namespace
        quotas_before = self.get_quotas(namespace)
        self.release([pod])
        try:
            yield
        finally:
            self.charged[namespace] = quotas_before

    def apply_to(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the current quotas, or the same cluster if no namespace with quotas was used."""
        quotas = [quota for namespace_quotas in self.charged.values() for quota in namespace_quotas]
        return cluster.with_objects({"ResourceQuota": quotas}) if quotas else cluster


KIND = "ResourceClaim"


def create_allowed_claims(cluster: Cluster, creation: Creation, pods: Mapping[str, list[Pod]]) -> Cluster:
    """Charge the ResourceClaims of ``creation`` to their quotas, and drop the denied claims from ``creation``.

    ``pods`` maps workloads to their pods. In these lists, a pod with a denied claim is replaced by a copy whose status
    does not name the claim, so that the pod waits. Return the cluster with the charged quotas.
    """
    if KIND not in creation.objects:
        return cluster
    claims = _ClaimCreation(cluster, creation)
    for workload, workload_pods in pods.items():
        workload_pods[:] = [claims.create_pod_claims(pod, workload) for pod in workload_pods]
    creation.objects[KIND] = claims.created
    creation.notes += claims.notes.values()
    return claims.quotas.apply_to(cluster)


class _ClaimCreation:
    """The creation of ResourceClaims one after the other."""

    def __init__(self, cluster: Cluster, creation: Creation) -> None:
        self.created: list[Struct] = []
        self.notes: dict[str, WorkloadNote] = {}
        self.quotas = RemainingQuotas(cluster)
        created_claims = (claim for claim in creation.objects[KIND] if isinstance(claim, ResourceClaim))
        self._claims_by_key = {(claim.metadata.namespace, claim.metadata.name): claim for claim in created_claims}

    def create_pod_claims(self, pod: Pod, workload: str) -> Pod:
        """Create the pod's claims that quotas allow, and return the pod with only the existing claims in its status.

        Claims that were not created from templates exist already. The first denial of the ``workload`` becomes a note.
        """
        statuses = pod.status.resource_claim_statuses
        allowed = tuple(status for status in statuses if self._create_claim(status, pod.metadata.namespace, workload))
        if len(allowed) == len(statuses):
            return pod
        return replace(pod, status=replace(pod.status, resource_claim_statuses=allowed))

    def _create_claim(self, status: PodResourceClaimStatus, namespace: str, workload: str) -> bool:
        """Create the claim that an entry of the pod's status names if quotas allow it, and return whether it exists.

        Only claims from claim templates are created here. All others exist already. The first denial of each workload
        becomes a note.
        """
        claim = self._claims_by_key.get((namespace, status.resource_claim_name or ""))
        if claim is None:
            return True
        denial = self._charge_claim_or_deny(claim)
        if denial:
            note = WorkloadNote(workload, f"pods wait for claims that are not created: {denial}")
            self.notes.setdefault(workload, note)
            return False
        self.created.append(claim)
        return True

    def _charge_claim_or_deny(self, claim: ResourceClaim) -> str:
        """Charge the claim to its quotas, or return the message with which the API server denies it.

        Return "" if the claim is charged.
        """
        obj = {"apiVersion": "resource.k8s.io/v1", "spec": msgspec.to_builtins(claim.spec)}
        request = self.quotas.build_request(KIND, obj, claim.metadata.namespace, claim.metadata.name)
        try:
            resource_quota.check_quotas(request)
        except NotAdmittedError as error:
            return error.message
        self.quotas.charge(request, 1)
        return ""
