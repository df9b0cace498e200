"""Claims for devices that the resourceclaim controller makes of templates: quotas may refuse them, and pods wait.

Upstream: pkg/controller/resourceclaim/controller.go (v1.36).
"""

from __future__ import annotations

import msgspec

from kschedctl.admission import resource_quota
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError
from kschedctl.api.objects import ResourceClaim, ResourceQuota
from kschedctl.cluster import Cluster


class TemplateClaims:
    """What is left of quotas as claims are created; ``told``: why some are not, once a workload."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: dict[str, str] = {}
        self._quotas: dict[str, tuple[ResourceQuota, ...]] = {}

    def is_refused(self, workload: str, claim: ResourceClaim) -> bool:
        """Whether the API server refuses the claim; where it does not, it counts."""
        namespace = claim.metadata.namespace
        if namespace not in self._quotas:
            quotas = self.cluster.in_namespace("resource_quotas", namespace)
            self._quotas[namespace] = tuple(quota for quota in quotas if quota.status.hard)
        if not self._quotas[namespace]:
            return False
        obj = {"apiVersion": "resource.k8s.io/v1", "spec": msgspec.to_builtins(claim.spec)}
        request = AdmissionRequest(
            self.cluster, "ResourceClaim", obj, namespace, (), self._quotas[namespace], claim.metadata.name
        )
        try:
            resource_quota.check(request)
        except NotAdmittedError as error:
            self.told.setdefault(workload, f"{workload}: pods wait for claims that are not created: {error.message}")
            return True
        self._quotas[namespace] = resource_quota.charged(request, 1)
        return False
