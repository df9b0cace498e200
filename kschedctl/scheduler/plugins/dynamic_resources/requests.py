"""Claims in the form that the allocator uses: requests read from specs, and allocation results for their status.

Exact requests and prioritized alternatives have one form, with API defaults. Upstream:
staging/src/k8s.io/api/resource/v1/types.go, pkg/apis/resource/v1/defaults.go, and Allocate and createNodeSelector in
structured/internal/incubating/allocator_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import (
    AllocationResult,
    CapacityRequirements,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    NodeSelector,
    NodeSelectorTerm,
    ResourceClaim,
    SelectorRequirement,
)
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.api.tolerations import HARD_EFFECTS
from kschedctl.errors import InputError
from kschedctl.scheduler.framework.extended_resources import EXACT_COUNT
from kschedctl.scheduler.plugins.dynamic_resources.allocated import Quantities
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL, format_claim_key
from kschedctl.scheduler.plugins.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.plugins.helper.device_features import Features

MAX_RESULTS = 32
"""Devices that one claim can hold (resource/v1 AllocationResultsMaxSize)."""


class TooManyResults(StrEnum):
    """The consequence if a request would give its claim more devices than a claim can hold."""

    REQUEST_FAILS = "fails"
    REQUEST_FAILS_COUNTING_TWICE = "fails, and its devices count twice"
    NEXT_ALTERNATIVE = "continues with its next alternative"


TOO_MANY_RESULTS = ByVersion(
    "treatment of a request that would give its claim too many devices",
    (
        ("", TooManyResults.REQUEST_FAILS),
        ("1.33", TooManyResults.REQUEST_FAILS_COUNTING_TWICE),
        ("1.33.1", TooManyResults.REQUEST_FAILS),
        ("1.34", TooManyResults.NEXT_ALTERNATIVE),
    ),
    "#131662 and #130593, structured/allocator.go",
)
"""Up to 1.32 this cannot happen in a search: without alternatives, the number of devices is known from the start.

With 1.33.0 a request for more than 16 devices is met on no node.
"""


class AllocationError(Exception):
    """The error for a faulty claim, class or pool, which makes the allocation fail with upstream's code Error.

    ``str()`` is upstream's message. ``text`` is its part about the CEL ``expression``, if there is one.
    """

    def __init__(self, message: str, text: str = "", expression: str = "") -> None:
        self.text = text or message
        self.expression = expression
        super().__init__(message)


@dataclass(frozen=True)
class Expression:
    """A CEL selector of a class or request."""

    holder: str
    """The class or claim that has the selector, such as ``class gpu``."""
    text: str
    number: int | None = None
    """The index among the holder's selectors, or None if messages do not show it."""
    of_class: bool = False
    """True if the selector belongs to the DeviceClass."""

    @property
    def source(self) -> str:
        """The selector's place as messages show it, such as ``class gpu: selector #0``."""
        return self.holder if self.number is None else f"{self.holder}: selector #{self.number}"


@dataclass(frozen=True)
class Request:
    """An exact request, or an alternative of a prioritized list."""

    name: str
    parent: str
    """The name of the request with the list, empty for an exact request."""
    mode: str
    count: int
    selectors: tuple[Expression, ...]
    tolerations: tuple[DeviceToleration, ...] = ()
    admin_access: bool | None = None
    capacity: Mapping[str, Quantity] = field(default_factory=dict)

    @cached_property
    def full_name(self) -> str:
        """The name in claims and messages, with the parent of an alternative."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def is_named_in(self, requests: tuple[str, ...]) -> bool:
        """Return whether a constraint on `requests` applies to this request. An empty list applies to all requests."""
        return not requests or self.full_name in requests or (self.parent or self.name) in requests

    def find_untolerated_taint(self, device: Device) -> DeviceTaint | None:
        """Return the device's first taint that the request does not tolerate, or None.

        Only taints that prevent scheduling are considered, namely NoSchedule and NoExecute taints.
        """
        for taint in device.taints:
            if taint.effect not in HARD_EFFECTS:
                continue
            if not any(_does_toleration_match(toleration, taint) for toleration in self.tolerations):
                return taint
        return None


def _does_toleration_match(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return whether the toleration matches the taint. An empty effect or key matches all effects or keys.

    Upstream: resourceclaim/devicetoleration.go.
    """
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


@dataclass(frozen=True)
class ClaimRequests:
    """A claim to allocate and the alternatives of each of its requests. An exact request is its only alternative."""

    claim: ResourceClaim
    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[DeviceConstraint, ...]

    @property
    def key(self) -> str:
        """The claim's namespace and name."""
        return format_claim_key(self.claim)


def read_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass], features: Features) -> ClaimRequests:
    """Read the requests and constraints of a claim, and check them as the allocator does before it looks at devices.

    Raises AllocationError for a missing class, a disabled feature, or a request or constraint of an unknown type.
    """
    requests = tuple(_read_alternatives(claim, request, classes, features) for request in claim.spec.devices.requests)
    for i, constraint in enumerate(claim.spec.devices.constraints):
        is_distinct_constraint = constraint.distinct_attribute is not None and features.uses_newer_allocator
        if constraint.match_attribute is None and not is_distinct_constraint:
            raise AllocationError(
                f"claim {format_claim_key(claim)}, constraint #{i}: empty constraint (unsupported constraint type?)"
            )
    return ClaimRequests(claim, requests, claim.spec.devices.constraints)


def _read_alternatives(
    claim: ResourceClaim, request: DeviceRequest, classes: Mapping[str, DeviceClass], features: Features
) -> tuple[Request, ...]:
    """Read the alternatives of a request, in order. An exact request is its only alternative.

    The result is empty if the request is of an unknown type. Raises AllocationError for a faulty request, and for a
    request that needs a disabled feature.
    """
    claim_label = f"claim {format_claim_key(claim)}"
    if request.first_available and not features.prioritized_list:
        problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
        raise AllocationError(f"{claim_label}, request {request.name}: {problem}")
    subrequests: Sequence[ExactDeviceRequest | DeviceSubRequest] = request.first_available
    if not subrequests and request.exactly:
        subrequests = (request.exactly,)
    if features.uses_newer_allocator and not features.consumable_capacity:
        for sub in subrequests:
            if sub.capacity is None:
                continue
            label = f"subrequest {sub.name}" if isinstance(sub, DeviceSubRequest) else f"request {request.name}"
            problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            raise AllocationError(f"{claim_label}, {label}: {problem}")
    return tuple(_read_request(claim, request.name, sub, classes, features) for sub in subrequests)


def _read_request(
    claim: ResourceClaim,
    request_name: str,
    source: ExactDeviceRequest | DeviceSubRequest,
    classes: Mapping[str, DeviceClass],
    features: Features,
) -> Request:
    """Read an exact request or an alternative, with the selectors of its class followed by its own selectors.

    ``request_name`` is the name of the exact request, or of the request whose list contains ``source``. Raises
    AllocationError if the class does not exist, a feature is disabled, or a field has an unsupported value.
    """
    if isinstance(source, DeviceSubRequest):
        name, parent, admin_access = source.name, request_name, None
    else:
        name, parent, admin_access = request_name, "", source.admin_access

    # Check the fields in upstream's order.
    location = f"claim {format_claim_key(claim)}, request {name}"
    for i, selector in enumerate(source.selectors):
        if selector.cel is None:
            raise AllocationError(f"{location}, selector #{i}: CEL expression empty (unsupported selector type?)")
    if admin_access is not None and not features.admin_access:
        raise AllocationError(f"{location}: admin access is requested, but the feature is disabled")
    if not source.device_class_name:
        raise AllocationError(f"{location}: missing device class name (unsupported request type?)")
    device_class = classes.get(source.device_class_name)
    if device_class is None:
        problem = f'deviceclass.resource.k8s.io "{source.device_class_name}" not found'
        raise AllocationError(f"{location}: could not retrieve device class {source.device_class_name}: {problem}")
    mode = source.allocation_mode or EXACT_COUNT
    if mode not in (EXACT_COUNT, ALL):
        raise AllocationError(f"{location}: unsupported count mode {mode}")

    class_expressions = _list_expressions(f"class {source.device_class_name}", device_class)
    own_expressions = _list_expressions(f"claim {format_claim_key(claim)}", source)
    return Request(
        name,
        parent,
        mode=mode,
        count=source.count or 1,
        selectors=(*class_expressions, *own_expressions),
        tolerations=source.tolerations,
        admin_access=admin_access,
        capacity=_parse_capacity_requests(source.capacity, location),
    )


def _list_expressions(
    holder: str, source: DeviceClass | ExactDeviceRequest | DeviceSubRequest
) -> tuple[Expression, ...]:
    """Return the CEL selectors of a class or request, in order. Selectors of other types are left out.

    `holder` is the name of the class or of the request's claim in messages.
    """
    of_class = isinstance(source, DeviceClass)
    selectors = source.spec.selectors if isinstance(source, DeviceClass) else source.selectors
    return tuple(
        Expression(holder, selector.cel.expression, i, of_class)
        for i, selector in enumerate(selectors)
        if selector.cel is not None
    )


def _parse_capacity_requests(capacity: CapacityRequirements | None, location: str) -> dict[str, Quantity]:
    """Return the requested capacities by name, or {} if no capacity is requested.

    Raises InputError, with `location` as the place of the error, if a quantity is malformed.
    """
    if capacity is None:
        return {}
    try:
        return {name: parse_quantity(str(text)) for name, text in capacity.requests.items()}
    except QuantityError as error:
        raise InputError(error.what, where=location, hint=error.hint) from None


class AllocatedDevice(NamedTuple):
    """A device that the search allocated to a request."""

    request: Request
    device: PooledDevice
    consumed: Quantities
    """The capacity that is consumed of a shared device."""
    shared: bool
    """True if the device can be allocated several times."""
    charged: bool = False
    """True if this allocation was charged to the counters of the pool."""
    first: bool = False
    """True if this is the first share of the device in the search."""


Allocation = tuple[tuple[AllocatedDevice, ...], ...]
"""The devices of each claim."""


def build_allocation_result(
    results: Sequence[AllocatedDevice], devices: Sequence[PooledDevice], node_selector: NodeSelector, features: Features
) -> AllocationResult:
    """Build the allocation of one claim on a node. Shares of devices have no ID yet.

    ``results`` may come from the search on an equivalent node. ``devices`` are the devices of this node that take the
    places of the devices in ``results``, and ``node_selector`` selects only this node.
    """
    allocated = [
        _build_device_result(result, device, features) for result, device in zip(results, devices, strict=True)
    ]
    return AllocationResult(DeviceAllocationResult(tuple(allocated)), _build_node_selector(devices, node_selector))


def reject_combined_node_selectors(claims: Iterable[ResourceClaim], allocation: Allocation) -> None:
    """Raise AllocationError if an allocated device has a node selector with several terms.

    Upstream cannot combine selectors with several terms. Like upstream, this function stops checking a claim at its
    first device that is usable on a single node only.
    """
    for claim, results in zip(claims, allocation, strict=True):
        for result in results:
            restriction = _get_node_restriction(result.device)
            if restriction.is_single_node:
                break
            terms = len(restriction.selector.node_selector_terms) if restriction.selector else 0
            if terms > 1:
                problem = f"unsupported ResourceSlice.NodeSelector with {terms} terms"
                raise AllocationError(f"create NodeSelector for claim {claim.metadata.name}: {problem}")


class NodeRestriction(NamedTuple):
    """The nodes on which an allocated device can be used."""

    is_single_node: bool
    """True if the device can be used only on the node of its allocation."""
    selector: NodeSelector | None
    """The selector of other nodes, None if there is no restriction by selector."""


def _get_node_restriction(pooled: PooledDevice) -> NodeRestriction:
    """Return the nodes to which an allocated device is restricted.

    If the slice selects nodes per device, the restriction comes from the device, otherwise from the slice.
    """
    spec, device = pooled.slice.spec, pooled.device
    holder = device if spec.per_device_node_selection else spec
    is_single_node = holder.node_name is not None or bool(device.binds_to_node)
    return NodeRestriction(is_single_node, holder.node_selector)


def _build_device_result(
    result: AllocatedDevice, pooled: PooledDevice, features: Features
) -> DeviceRequestAllocationResult:
    """Build the result for the device `pooled`, which replaces the device in the search's `result`.

    Binding conditions are left out if the version does not support them.
    """
    driver, pool, name = pooled.id
    device, request = pooled.device, result.request
    consumed = result.consumed or {}
    with_conditions = features.binding_conditions
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        consumed_capacity={capacity: str(quantity) for capacity, quantity in consumed.items()},
        binding_conditions=device.binding_conditions if with_conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if with_conditions else (),
    )


def _build_node_selector(devices: Iterable[PooledDevice], own_node: NodeSelector) -> NodeSelector | None:
    """Build the selector for the nodes on which all of the devices can be used, or None for any node.

    Return `own_node`, the selector for the node of the allocation, if a device can be used only there. Otherwise
    combine the requirements of all devices.
    """
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for pooled in devices:
        restriction = _get_node_restriction(pooled)
        if restriction.is_single_node:
            return own_node
        if restriction.selector is not None:
            # There is at most one term, because `reject_combined_node_selectors` rejects selectors with several terms.
            for term in restriction.selector.node_selector_terms:
                _append_new_requirements(fields, term.match_fields)
                _append_new_requirements(expressions, term.match_expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _append_new_requirements(
    requirements: list[SelectorRequirement], candidates: Iterable[SelectorRequirement]
) -> None:
    """Append to `requirements` the candidates that are not among them yet.

    The order of a requirement's values is ignored.
    """

    def build_key(requirement: SelectorRequirement) -> object:
        return requirement.key, requirement.operator, frozenset(requirement.values or ())

    keys = {build_key(requirement) for requirement in requirements}
    for candidate in candidates:
        if build_key(candidate) not in keys:
            keys.add(build_key(candidate))
            requirements.append(candidate)
