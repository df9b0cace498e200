"""What versions changed in allocating devices."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.scheduler.plugins.dynamic_resources import (
    allocator,
    capacity,
    claims,
    constraints,
    devices,
    evaluation,
    hints,
    pools,
    pre_filter,
    requests,
    step_limit,
)
from kschedctl.scheduler.plugins.helper import device_features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def requests_devices(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod requests devices, by claims or by extended resources that a DeviceClass backs."""
    return bool(info.spec.resource_claims or is_any_backed(info.incoming_requests, find_backing_classes(view.objects)))


NOTED = tuple(
    NotedChange(
        ByVersion(f"what gate {gate} does", (("", "no such gate"), ("1.37", "not replayed")), gate, from_notes="1.37"),
        Effect.EITHER,
        requests_devices,
        gate,
    )
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)
"""Changes known only from the release notes of 1.37. They came after the source that could be read (1 July 2026).

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation.
"""

VERSION_CHANGES: tuple[ByVersion[object], ...] = (
    claims.NOT_OWNER,
    pre_filter.HAS_ALTERNATIVES,
    device_features.NEWER_ALLOCATOR,
    device_features.CHECKS_ADMIN_ACCESS,
    device_features.TAINT_RULES_GATE,
    device_features.LISTS_IN_CEL,
    devices.SELECTS_BY_CEL,
    devices.COUNTER_SLICES,
    devices.NAMES_DEVICE,
    devices.MISSING_KEY_HINT,
    allocator.NONE_IS_ALL,
    allocator.UNAVAILABLE_OF_ALL,
    allocator.ALL_OF_CLASS,
    allocator.ADMIN_TWICE,
    allocator.SELECTORS_OF_SECOND,
    allocator.NEXT_ALTERNATIVE,
    allocator.COUNTER_CONSUMERS,
    allocator.EACH_SHARE,
    allocator.INVALID_POOL_ERROR,
    allocator.CHARGED_IN_VAIN,
    allocator.CHARGED_TWICE,
    allocator.ALL_HAVE_ROOM,
    requests.TOO_MANY_RESULTS,
    constraints.DISTINCT_BETWEEN,
    constraints.EACH_DISTINCT,
    allocator.COUNTER_SET_KEY,
    pools.INCOMPLETE,
    pools.NEWER_SLICES,
    pools.CHECKS_NAMES,
    pools.COUNTER_SCOPE,
    pools.COUNTS_SHARES,
    evaluation.TIMED_OUT,
    step_limit.SEARCH_ORDER,
    hints.HEARS_OF_ALLOCATABLE,
    hints.HEARS_OF_SLICES,
    hints.SLICES_NEED_CLAIMS,
    capacity.UNREPRESENTABLE_REQUEST,
    capacity.FRACTIONS,
    *(noted_change.change for noted_change in NOTED),
)
