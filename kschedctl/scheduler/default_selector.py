"""The selector of a pod by the services and the controller that it belongs to.

Upstream: pkg/scheduler/framework/plugins/helper/spread.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.labels import Requirement, Selector, SelectorError, from_label_selector, from_set, selector
from kschedctl.api.objects import OwnerReference, Service
from kschedctl.cluster import Cluster
from kschedctl.snapshot.pod_info import PodInfo


def default_selector(info: PodInfo, cluster: Cluster) -> Selector:
    """All requirements of the services that select the pod and of its owner, where that is known; maybe empty."""
    labels: dict[str, str] = {}
    for service in pod_services(info, cluster):
        labels.update(service.spec.selector)
    owner = next((o for o in info.pod.metadata.owner_references if o.controller), None)
    if owner is None:
        return from_set(labels)
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        for controller in cluster.replication_controllers:
            if _is(controller.metadata.namespace, controller.metadata.name, info, owner):
                labels.update(controller.spec.selector)
    return selector((*from_set(labels).requirements, *_owner_requirements(info, owner, cluster)))


def pod_services(info: PodInfo, cluster: Cluster) -> list[Service]:
    """The services of the pod's namespace that select it; one without a selector selects nothing."""
    return [
        service
        for service in cluster.services
        if service.metadata.namespace == info.namespace
        and service.spec.selector
        and service.spec.selector.items() <= info.labels.items()
    ]


def _owner_requirements(info: PodInfo, owner: OwnerReference, cluster: Cluster) -> tuple[Requirement, ...]:
    kinds = {"ReplicaSet": cluster.replica_sets, "StatefulSet": cluster.stateful_sets}
    for workload in kinds.get(owner.kind, ()) if owner.api_version == "apps/v1" else ():
        if _is(workload.metadata.namespace, workload.metadata.name, info, owner):
            try:
                return from_label_selector(workload.spec.selector).requirements
            except SelectorError:
                return ()
    return ()


def _is(namespace: str, name: str, info: PodInfo, owner: OwnerReference) -> bool:
    return (namespace, name) == (info.namespace, owner.name)
