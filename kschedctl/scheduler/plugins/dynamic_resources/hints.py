"""The cluster events that can make a pod with claims schedulable, with their queueing hints.

Upstream: plugins/dynamicresources/dynamicresources.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.claims import ClaimError
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

REGISTERS_ALLOCATABLE_EVENTS = ByVersion(
    "a change to a node's allocatable resources can make the scheduler retry a rejected pod",
    (("", False), ("1.34", True)),
)
REGISTERS_SLICE_EVENTS = ByVersion(
    "a new or changed ResourceSlice, or a claim generated for the pod, can make the scheduler retry a rejected pod",
    (("", False), ("1.32", True)),
)
SLICES_NEED_CLAIMS = ByVersion(
    "rejected pods that a new or changed ResourceSlice can make the scheduler retry",
    (("", True), ("1.33", False)),
    bool_texts=("all", "only pods whose claims all exist"),
)


def events_to_register(gates: FeatureGates, features: Features) -> Iterator[ClusterEventWithHint]:
    """Yield the events that DynamicResources registers, with their hints.

    Nothing is yielded if the plugin's feature gate is off. Older versions register fewer events.
    """
    if not gates.enabled("DynamicResourceAllocation"):
        return
    add_or_update = ActionType.ADD | ActionType.UPDATE
    node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    if REGISTERS_ALLOCATABLE_EVENTS.at(gates.release):
        node_actions |= ActionType.UPDATE_NODE_ALLOCATABLE
    yield ClusterEventWithHint(NODE, resolve_node_actions(node_actions, gates))
    claim_hint = partial(is_schedulable_after_claim_change, features=features)
    yield ClusterEventWithHint("ResourceClaim", add_or_update, claim_hint)
    yield ClusterEventWithHint("DeviceClass", add_or_update)
    if not REGISTERS_SLICE_EVENTS.at(gates.release):
        return
    pod_hint = partial(is_schedulable_after_pod_change, features=features)
    yield ClusterEventWithHint(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, pod_hint)
    slice_hint = partial(is_schedulable_after_slice_change, features=features)
    has_slice_hint = SLICES_NEED_CLAIMS.at(gates.release)
    yield ClusterEventWithHint("ResourceSlice", add_or_update, slice_hint if has_slice_hint else None)


def is_schedulable_after_claim_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """Return whether a created or changed claim can make the pod schedulable.

    This is the case if any claim loses its allocation, which frees its devices. It is also the case if one of the pod's
    own claims is new or has a new status. Return False while one of the pod's claims is missing or unusable.
    """
    old, new = change.old, change.new
    try:
        pod_claims = _list_claims(info, view, features)
    except ClaimError:
        return False
    was_allocated = old is not None and old.status.allocation is not None
    if was_allocated and new.status.allocation is None:
        return True
    is_of_pod = any(_is_same_claim(claim, new) for claim in pod_claims)
    if not is_of_pod:
        return False
    if old is None:  # the claim was created
        return True
    # `has_changed` looks at the written fields, in which an empty allocation differs from none.
    return old.status != new.status or change.has_changed("status")


def is_schedulable_after_slice_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """Return whether all claims of the pod exist and can be used, since a changed ResourceSlice can help only then."""
    return _are_claims_usable(info, view, features)


def is_schedulable_after_pod_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """Return whether the changed pod is the waiting pod and all of its claims now exist and can be used."""
    updated: Pod = change.new
    if not is_same_pod(updated, info.pod):
        return False
    return _are_claims_usable(PodInfo(updated, info.options), view, features)


def _are_claims_usable(info: PodInfo, view: Fork, features: Features) -> bool:
    """Return whether all claims of the pod exist and can be used."""
    try:
        _list_claims(info, view, features)  # raises if a claim is missing or unusable
    except ClaimError:
        return False
    return True


def _list_claims(info: PodInfo, view: Fork, features: Features) -> tuple[ResourceClaim, ...]:
    """Return the claims that the pod's spec references. Raises ClaimError if one is missing or unusable."""
    from kschedctl.scheduler.plugins.dynamic_resources.pre_filter import list_pod_claims  # noqa: PLC0415 - few clusters have claims

    return list_pod_claims(info, view, features)


def _is_same_claim(first: ResourceClaim, second: ResourceClaim) -> bool:
    """Return whether both claims have the same UID, or the same namespace and name if one has no UID."""
    if first.metadata.uid and second.metadata.uid:
        return first.metadata.uid == second.metadata.uid
    has_same_namespace = first.metadata.namespace == second.metadata.namespace
    return has_same_namespace and first.metadata.name == second.metadata.name


def list_claim_names(info: PodInfo) -> list[str]:
    """Return the ``namespace/name`` of each claim that the pod's spec references.

    A reference is left out if its claim has not been generated yet, or if it needs no claim.
    """
    generated_names = {status.name: status.resource_claim_name for status in info.pod.status.resource_claim_statuses}
    names = []
    for reference in info.spec.resource_claims:
        name = reference.resource_claim_name or generated_names.get(reference.name)
        if name:
            names.append(f"{info.namespace}/{name}")
    return names
