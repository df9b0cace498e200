"""Claims for devices that the resourceclaim controller makes of templates: quotas may refuse them, and pods wait.

Upstream: pkg/controller/resourceclaim/controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kschedctl.admission import resource_quota
from kschedctl.admission.request import NotAdmittedError
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod, PodResourceClaimStatus, ResourceClaim, Struct
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import Creation
from kschedctl.replay.controllers.quotas_left import QuotasLeft

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
    creation.assumed += claims.told.values()
    return claims.quotas.counted(cluster)


class _Claims:
    """Claims as they are created; ``quotas``: what is left of them; ``told``: why some are not, once a workload."""

    def __init__(self, cluster: Cluster, creation: Creation) -> None:
        self.kept: list[Struct] = []
        self.told: dict[str, str] = {}
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
            self.told.setdefault(workload, f"{workload}: pods wait for claims that are not created: {words}")
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
