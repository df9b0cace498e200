"""Queueing hints of NodeResourcesFit.

Upstream: plugins/noderesources/fit.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import DeviceClass
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX
from kschedctl.scheduler.framework.events import ChangedObject, frees_room
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import compute_allocatable_amounts

ANY_OWN_RESIZE_COUNTS = ByVersion(
    "resizes of the rejected pod that can make the scheduler retry it",
    (("", False), ("1.32", True)),
    bool_texts=("only resizes that lower its requests", "all resizes"),
)


def is_schedulable_after_pod_event(
    info: PodInfo, change: ChangedObject, view: Fork, *, resizes: bool, counts_nominated: bool, any_own_resize: bool
) -> bool:
    """Return whether a pod's deletion freed room, or a pod's resize freed a resource that the waiting pod requests.

    Resizes are considered only if `resizes` (InPlacePodVerticalScaling) is True, and only of pods with a node or of the
    waiting pod itself. If `counts_nominated` is true, deleted pods that were only nominated for a node are considered
    as well. If `any_own_resize` is true, any resize of the waiting pod itself is enough.
    """
    if change.new is None:  # the pod was deleted
        return frees_room(change.old, counts_nominated=counts_nominated)
    if not resizes:
        return False

    is_own_resize = is_same_pod(change.new, info.pod)
    if is_own_resize and any_own_resize:
        return True
    if not is_own_resize and not change.new.spec.node_name:
        return False
    requested = [name for name, amount in _compute_effective_requests(info).items() if amount]
    old = _compute_effective_requests(PodInfo(change.old, view.settings.requests))
    new = _compute_effective_requests(PodInfo(change.new, view.settings.requests))
    return any(old.get(name, 0) > new.get(name, 0) for name in requested)


def is_schedulable_after_node_change(info: PodInfo, change: ChangedObject, view: Fork, from_devices: bool) -> bool:
    """Return whether a new or changed node may have room for the pod.

    The node must be large enough for the pod if it were empty. A changed node must also offer more than before. If
    `from_devices` (DRAExtendedResource) is True, the node need not offer extended resources that a DeviceClass backs.
    """
    backed = find_backing_classes(view.objects) if from_devices else {}
    new_offer = compute_allocatable_amounts(change.new)
    requests = info.incoming_requests
    if new_offer.get(names.PODS, 0) < 1 or any(_iter_missing_resources(requests, new_offer, backed)):
        return False
    if change.old is None:
        return True
    old_offer = compute_allocatable_amounts(change.old)
    return _does_node_offer_more(requests, old_offer, new_offer, backed)


def is_schedulable_after_device_class_event(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the DeviceClass newly backs an extended resource that the pod requests.

    A new class also backs the implicit resource with its name. A changed class is considered only if its
    extendedResourceName changed.
    """
    class_: DeviceClass = change.new
    # Only the requests in the pod's spec count, not those in its status or those that devices provide.
    requests = info.compute_amounts(info.options._replace(use_status=False, pod_level=True, dra_node_allocatable=False))
    if change.old is None:
        implicit_resource = f"{DEVICE_CLASS_PREFIX}{class_.metadata.name}"
        if implicit_resource in requests:
            return True
    elif (change.old.spec.extended_resource_name or "") == (class_.spec.extended_resource_name or ""):
        return False
    return class_.spec.extended_resource_name in requests


def _compute_effective_requests(info: PodInfo) -> dict[str, int]:
    """Compute the pod's requests with pod-level requests, but without node resources that devices provide."""
    return info.compute_amounts(info.options._replace(pod_level=True, dra_node_allocatable=False))


def _iter_missing_resources(
    requests: Mapping[str, int], allocatable: Mapping[str, int], backed: Mapping[str, object]
) -> Iterator[str]:
    """Yield the names of the resources of which the pod requests more than the node offers.

    `allocatable` is the node's offer. A resource that the node does not offer but a DeviceClass backs (`backed`) is
    left out, because DynamicResources checks its devices.
    """
    for name, amount in requests.items():
        offered_amount = allocatable.get(name, 0)
        if amount > offered_amount and not (offered_amount <= 0 and name in backed):
            yield name


def _does_node_offer_more(
    requests: Mapping[str, int], old: Mapping[str, int], new: Mapping[str, int], backed: Mapping[str, object]
) -> bool:
    """Return whether the node now offers more pods or more of a requested resource than before.

    A resource that the node does not list counts as more if a DeviceClass backs it (`backed`), since the node's devices
    may have changed.
    """
    if new.get(names.PODS, 0) > old.get(names.PODS, 0):
        return True
    for name, amount in requests.items():
        if amount <= 0:
            continue
        offers_more = new.get(name, 0) > old.get(name, 0)
        may_have_more_devices = new.get(name, 0) <= 0 and name in backed
        if offers_more or may_have_more_devices:
            return True
    return False
