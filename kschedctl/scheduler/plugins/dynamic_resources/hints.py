"""DynamicResources: the claims that a pod may wait for.

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
    node_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.claims import ClaimError
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

HEARS_OF_ALLOCATABLE = ByVersion(
    "whether DynamicResources asks to be told of what nodes offer", (("", False), ("1.34", True))
)
HEARS_OF_SLICES = ByVersion(
    "whether DynamicResources asks for ResourceSlices and generated claims", (("", False), ("1.32", True))
)
SLICES_NEED_CLAIMS = ByVersion(
    "whether ResourceSlices wake only pods all of whose claims are there", (("", True), ("1.33", False))
)


def events_to_register(gates: FeatureGates, features: Features) -> Iterator[ClusterEventWithHint]:
    """What DynamicResources asks for."""
    if not gates.enabled("DynamicResourceAllocation"):
        return
    either = ActionType.ADD | ActionType.UPDATE
    of_nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    if HEARS_OF_ALLOCATABLE.at(gates.release):
        of_nodes |= ActionType.UPDATE_NODE_ALLOCATABLE
    yield ClusterEventWithHint(NODE, node_actions(of_nodes, gates))
    yield ClusterEventWithHint("ResourceClaim", either, partial(after_claim_change, features=features))
    of_pods = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    yield ClusterEventWithHint("DeviceClass", either)
    if HEARS_OF_SLICES.at(gates.release):
        yield ClusterEventWithHint(POD, of_pods, partial(after_pod_change, features=features))
        hint = partial(after_slice_change, features=features) if SLICES_NEED_CLAIMS.at(gates.release) else None
        yield ClusterEventWithHint("ResourceSlice", either, hint)


def after_claim_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """A claim that gives its devices back, or one of the pod's own that came or of which the status changed.

    Never while one of the pod's claims is missing or cannot be used.
    """
    old, new = change.old, change.new
    try:
        own = _claims(info, view, features)
    except ClaimError:
        return False
    if old is not None and old.status.allocation is not None and new.status.allocation is None:
        return True
    if not any(_same(claim, new) for claim in own):
        return False
    return old is None or old.status != new.status or change.differs("status")  # an empty allocation is one


def after_slice_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """Any devices, once all claims of the pod are there."""
    return _usable(info, view, features)


def after_pod_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """The pod itself, once all of its claims are there."""
    updated: Pod = change.new
    if not is_same_pod(updated, info.pod):
        return False
    return _usable(PodInfo(updated, info.options), view, features)


def _usable(info: PodInfo, view: Fork, features: Features) -> bool:
    try:
        _claims(info, view, features)
    except ClaimError:
        return False
    return True


def _claims(info: PodInfo, view: Fork, features: Features) -> tuple[ResourceClaim, ...]:
    from kschedctl.scheduler.plugins.dynamic_resources.pre_filter import claims_of  # noqa: PLC0415 - few clusters have claims

    return claims_of(info, view, features)


def _same(claim: ResourceClaim, other: ResourceClaim) -> bool:
    a, b = claim.metadata, other.metadata
    return a.uid == b.uid if a.uid and b.uid else (a.namespace, a.name) == (b.namespace, b.name)


def claim_names(info: PodInfo) -> list[str]:
    """The pod's claims, as far as they have names yet."""
    generated = {status.name: status.resource_claim_name for status in info.pod.status.resource_claim_statuses}
    names = [claim.resource_claim_name or generated.get(claim.name) for claim in info.spec.resource_claims]
    return [f"{info.namespace}/{name}" for name in names if name]
