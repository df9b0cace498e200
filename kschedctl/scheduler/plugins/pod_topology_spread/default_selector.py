"""The selector of a pod by the services and the controller that it belongs to.

Upstream: pkg/scheduler/framework/plugins/helper/spread.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.labels import (
    Requirement,
    Selector,
    SelectorError,
    build_selector,
    selector_from_api,
    selector_from_set,
)
from kschedctl.api.objects import OwnerReference, Service
from kschedctl.api.ownership import find_controller
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.pod_info import PodInfo

OWNERS = ("ReplicaSet", "StatefulSet")
"""Kinds of apps/v1 whose selector counts."""
SELECTING_KINDS = ("Service", "ReplicationController", *OWNERS)
"""The kinds of all that may select a pod."""


def default_selector(info: PodInfo, objects: ClusterObjects) -> Selector:
    """All requirements of the services that select the pod and of its owner, where that is known; maybe empty."""
    labels: dict[str, str] = {}
    for service in pod_services(info, objects):
        labels.update(service.spec.selector)
    owner = find_controller(info.pod.metadata)
    if owner is None:
        return selector_from_set(labels)
    controlled = (owner.api_version, owner.kind) == ("v1", "ReplicationController")
    if controlled and (controller := objects.named(owner.kind, info.namespace, owner.name)) is not None:
        labels.update(controller.spec.selector)
    return build_selector((*selector_from_set(labels).requirements, *_owner_requirements(info, owner, objects)))


def selecting_kinds(info: PodInfo) -> tuple[str, ...]:
    """The kinds of what may select the pod: services, and that of its owner."""
    owner = find_controller(info.pod.metadata)
    known = owner is not None and owner.kind in ("ReplicationController", *OWNERS)
    return ("Service", owner.kind) if owner is not None and known else ("Service",)


def pod_services(info: PodInfo, objects: ClusterObjects) -> list[Service]:
    """The services of the pod's namespace that select it; one without a selector selects nothing."""
    return [
        service
        for service in objects.in_namespace("Service", info.namespace)
        if service.spec.selector and service.spec.selector.items() <= info.labels.items()
    ]


def _owner_requirements(info: PodInfo, owner: OwnerReference, objects: ClusterObjects) -> tuple[Requirement, ...]:
    if owner.api_version != "apps/v1" or owner.kind not in OWNERS:
        return ()
    workload = objects.named(owner.kind, info.namespace, owner.name)
    try:
        return selector_from_api(workload.spec.selector).requirements if workload is not None else ()
    except SelectorError:
        return ()
