"""What the release notes of 1.37 tell of allocating devices, and whom that concerns.

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation, of
which these changes came after what could be read of v1.37 (1 July 2026).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import (
    CapacityRequestPolicyRange,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceSlice,
)
from kschedctl.api.quantity import parse
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.framework.extended_resources import backed, backing_classes
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

_1_37 = "1.37"
SAFE = 1 << 62
"""What is rounded up to a step without leaving the range of int64, if the step is no larger."""
BEYOND_RANGE = ByVersion(
    "a request for capacity that the arithmetic of a validRange cannot hold",
    (("", "is granted"), (_1_37, "is refused")),
    "#140442",
    _1_37,
)
FRACTIONS = ByVersion(
    "whether a validRange of capacity may have fractions", (("", False), (_1_37, True)), "#140161", _1_37
)


def asks(info: PodInfo, view: Fork) -> bool:
    """Whether the pod asks for devices."""
    return bool(info.spec.resource_claims or backed(info.incoming_requests, backing_classes(view.objects)))


def _ranges(piece: ResourceSlice) -> Iterator[CapacityRequestPolicyRange]:
    """The ranges within which shares of a slice's devices are to be."""
    for device in piece.spec.devices:
        for capacity in device.capacity.values():
            if capacity.request_policy and capacity.request_policy.valid_range:
                yield capacity.request_policy.valid_range


def _has_fractions(valid: CapacityRequestPolicyRange) -> bool:
    amounts = (parse(str(amount)) for amount in (valid.min, valid.max, valid.step) if amount is not None)
    return any(amount.milli_value() % 1000 for amount in amounts)


def _fractional(info: PodInfo, view: Fork) -> bool:
    """Whether the pod asks for devices where some range has fractions."""

    def found() -> bool:
        return any(_has_fractions(valid) for piece in view.objects.of("ResourceSlice") for valid in _ranges(piece))

    return asks(info, view) and view.memo(("noted", "fractions"), found)


def _beyond(info: PodInfo, view: Fork) -> bool:
    """Whether the pod asks for devices where some request for capacity may be beyond what a range can hold."""

    def found() -> bool:
        claims = [claim.spec.devices for claim in view.objects.of("ResourceClaim")]
        claims += [template.spec.spec.devices for template in view.objects.of("ResourceClaimTemplate")]
        requests = (part for claim in claims for request in claim.requests for part in _parts(request))
        amounts = (amount for part in requests if part.capacity for amount in part.capacity.requests.values())
        return any(not 0 <= parse(str(amount)).value() <= SAFE for amount in amounts)

    return asks(info, view) and view.memo(("noted", "beyond"), found)


def _parts(request: DeviceRequest) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    yield from request.first_available
    if request.exactly is not None:
        yield request.exactly


GATES = tuple(
    (ByVersion(f"what gate {gate} does", (("", "no such gate"), (_1_37, "not replayed")), gate, _1_37), gate)
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)

NOTED = (
    NotedChange(BEYOND_RANGE, Effect.EITHER, _beyond),
    NotedChange(FRACTIONS, Effect.EITHER, _fractional, gate="DRAFractionalCapacityRange"),
    *(NotedChange(change, Effect.EITHER, asks, gate) for change, gate in GATES),
)
CHANGES: tuple[ByVersion[object], ...] = tuple(change.change for change in NOTED)
