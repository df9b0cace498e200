"""What is left of the quotas of each namespace as objects come and go. A quota's status counts, as for the server."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from kschedctl.admission import resource_quota
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, ResourceQuota
from kschedctl.cluster import Cluster

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
