"""The selector that default constraints use: that of the pod's Services and of its owner.

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

OWNER_KINDS = ("ReplicaSet", "StatefulSet")
"""The kinds of apps/v1 whose selector counts."""
SELECTING_KINDS = ("Service", "ReplicationController", *OWNER_KINDS)
"""The kinds of all objects whose selector may count."""


def build_default_selector(info: PodInfo, objects: ClusterObjects) -> Selector:
    """Return the combined selectors of the Services that select the pod and of its owner, which may be empty."""
    labels: dict[str, str] = {}
    for service in find_pod_services(info, objects):
        labels.update(service.spec.selector)
    owner = find_controller(info.pod.metadata)
    if owner is None:
        return selector_from_set(labels)
    is_replication_controller = (owner.api_version, owner.kind) == ("v1", "ReplicationController")
    if is_replication_controller and (controller := objects.find(owner.kind, info.namespace, owner.name)) is not None:
        labels.update(controller.spec.selector)
    return build_selector((*selector_from_set(labels).requirements, *_owner_requirements(info, owner, objects)))


def find_selecting_kinds(info: PodInfo) -> tuple[str, ...]:
    """Return the kinds of the objects that may select the pod: Service and the kind of its owner."""
    owner = find_controller(info.pod.metadata)
    has_selecting_owner = owner is not None and owner.kind in ("ReplicationController", *OWNER_KINDS)
    return ("Service", owner.kind) if owner is not None and has_selecting_owner else ("Service",)


def find_pod_services(info: PodInfo, objects: ClusterObjects) -> list[Service]:
    """Return the Services of the pod's namespace that select it. A Service without a selector selects nothing."""
    return [
        service
        for service in objects.in_namespace("Service", info.namespace)
        if service.spec.selector and service.spec.selector.items() <= info.labels.items()
    ]


def _owner_requirements(info: PodInfo, owner: OwnerReference, objects: ClusterObjects) -> tuple[Requirement, ...]:
    """Return the requirements of the selector of the pod's ReplicaSet or StatefulSet, if it is known and valid."""
    if owner.api_version != "apps/v1" or owner.kind not in OWNER_KINDS:
        return ()
    workload = objects.find(owner.kind, info.namespace, owner.name)
    try:
        return selector_from_api(workload.spec.selector).requirements if workload is not None else ()
    except SelectorError:
        return ()
