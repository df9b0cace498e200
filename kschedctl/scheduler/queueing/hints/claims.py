"""DynamicResources: the claims that a pod may wait for.

Upstream: plugins/dynamicresources/dynamicresources.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.dynamic_resources.claims import ClaimError
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.scheduler.queueing.events import NODE, POD, ActionType, ChangedObject, ClusterEventWithHint, node_actions
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo


def events_to_register(gates: FeatureGates, features: Features) -> Iterator[ClusterEventWithHint]:
    """What DynamicResources asks for."""
    if not gates.enabled("DynamicResourceAllocation"):
        return
    either = ActionType.ADD | ActionType.UPDATE
    of_nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    yield ClusterEventWithHint(NODE, node_actions(of_nodes, gates))
    yield ClusterEventWithHint("ResourceClaim", either, partial(after_claim_change, features=features))
    of_pods = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    yield ClusterEventWithHint(POD, of_pods, partial(after_pod_change, features=features))
    yield ClusterEventWithHint("DeviceClass", either)
    yield ClusterEventWithHint("ResourceSlice", either)


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
    return old is None or change.differs("status")


def after_pod_change(info: PodInfo, change: ChangedObject, view: Fork, features: Features) -> bool:
    """The pod itself, once all of its claims are there."""
    updated: Pod = change.new
    if not same_pod(updated, info.pod):
        return False
    try:
        _claims(PodInfo(updated, info.options), view, features)
    except ClaimError:
        return False
    return True


def _claims(info: PodInfo, view: Fork, features: Features) -> tuple[ResourceClaim, ...]:
    from kschedctl.scheduler.dynamic_resources.pre_filter import claims_of  # noqa: PLC0415 - few clusters have claims

    return claims_of(info, view, features)


def _same(claim: ResourceClaim, other: ResourceClaim) -> bool:
    a, b = claim.metadata, other.metadata
    return a.uid == b.uid if a.uid and b.uid else (a.namespace, a.name) == (b.namespace, b.name)
