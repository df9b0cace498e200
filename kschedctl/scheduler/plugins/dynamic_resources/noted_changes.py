"""What the release notes of 1.37 tell of allocating devices, and whom that concerns.

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation, of
which these changes came after what could be read of v1.37 (1 July 2026).
"""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import DeviceClaim, ResourceSlice
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.framework.extended_resources import backed, backing_classes
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

_1_37 = "1.37"
SETS_TOLD_APART = ByVersion(
    "what tells sets of shared counters apart", (("", "the pool"), (_1_37, "driver and pool")), "#140435", _1_37
)
CHARGED_IN_VAIN = ByVersion(
    "whether counters may stay charged for a device that was tried in vain",
    (("", True), (_1_37, False)),
    "#140431",
    _1_37,
)
CHARGED_TWICE = ByVersion(
    "whether a shared device that was allocated without capacity is charged to its counters again",
    (("", True), (_1_37, False)),
    "#140437",
    _1_37,
)
BEYOND_RANGE = ByVersion(
    "a request for capacity that the arithmetic of a validRange cannot hold",
    (("", "is granted"), (_1_37, "is refused")),
    "#140442",
    _1_37,
)
FRACTIONS = ByVersion(
    "whether a validRange of capacity may have fractions", (("", False), (_1_37, True)), "#140161", _1_37
)
EACH_DISTINCT = ByVersion(
    "whether distinctAttribute holds for each of several devices of a request",
    (("", False), (_1_37, True)),
    "#140600",
    _1_37,
)
ALL_HAVE_ROOM = ByVersion(
    "whether allocationMode All fails where one of the devices has too little capacity left",
    (("", False), (_1_37, True)),
    "#140769",
    _1_37,
)


def asks(info: PodInfo, view: Fork) -> bool:
    """Whether the pod asks for devices."""
    return bool(info.spec.resource_claims or backed(info.incoming_requests, backing_classes(view.objects)))


def _of_slices(name: str, holds: Callable[[ResourceSlice], bool]) -> Callable[[PodInfo, Fork], bool]:
    def concerns(info: PodInfo, view: Fork) -> bool:
        return asks(info, view) and view.memo(
            ("noted", name), lambda: any(map(holds, view.objects.of("ResourceSlice")))
        )

    return concerns


def _distinct(info: PodInfo, view: Fork) -> bool:
    def holds(claim: DeviceClaim) -> bool:
        return any(constraint.distinct_attribute is not None for constraint in claim.constraints)

    def found() -> bool:
        claims = (claim.spec.devices for claim in view.objects.of("ResourceClaim"))
        templates = (template.spec.spec.devices for template in view.objects.of("ResourceClaimTemplate"))
        return any(map(holds, (*claims, *templates)))

    return asks(info, view) and view.memo(("noted", "distinct"), found)


counters = _of_slices(
    "counters", lambda piece: bool(piece.spec.shared_counters or any(d.consumes_counters for d in piece.spec.devices))
)
shared = _of_slices("shared", lambda piece: any(device.allow_multiple_allocations for device in piece.spec.devices))

GATES = tuple(
    (ByVersion(f"what gate {gate} does", (("", "no such gate"), (_1_37, "not replayed")), gate, _1_37), gate)
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)

NOTED = (
    *(NotedChange(change, Effect.EITHER, counters) for change in (SETS_TOLD_APART, CHARGED_IN_VAIN, CHARGED_TWICE)),
    *(NotedChange(change, Effect.EITHER, shared) for change in (BEYOND_RANGE, FRACTIONS, ALL_HAVE_ROOM)),
    NotedChange(EACH_DISTINCT, Effect.EITHER, _distinct),
    *(NotedChange(change, Effect.EITHER, asks, gate) for change, gate in GATES),
)
CHANGES: tuple[ByVersion[object], ...] = tuple(change.change for change in NOTED)
