"""The facts that explain rejections by DynamicResources, with their wording."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.text.counts import agreeing, counted

MAX_EXPRESSION_LENGTH = 80
"""The length to which CEL expressions are cut in sentences."""


class UnusableClaim(Detail, frozen=True):
    """An allocated claim that cannot be used on a node."""

    claim: str
    why: str = ""
    """The reason why the devices will not become ready; empty if they are ready on other nodes."""


class ClaimsUnusable(Fact, frozen=True):
    """The allocated claims that cannot be used on the node."""

    claims: tuple[UnusableClaim, ...]

    def describe(self) -> str:
        """Describe why each claim cannot be used.

        >>> ClaimsUnusable((UnusableClaim("shop/gpu"),)).describe()
        'claim shop/gpu has its devices on other nodes'
        """
        return "; ".join(
            f"claim {claim.claim} {claim.why or 'has its devices on other nodes'}" for claim in self.claims
        )


class ResourceNotOffered(Fact, frozen=True):
    """The fact that neither the node nor a DeviceClass offers the extended resource."""

    resource: str

    def describe(self) -> str:
        """Describe the missing resource."""
        return f"{self.resource} is offered neither by the node nor by a DeviceClass"


class DeviceFault(Detail, frozen=True):
    """A reason why some devices of a node do not fit a request."""

    reason: str
    """A key of ``_FAULT_PHRASES``, such as NotSelected or Tainted."""
    what: str = ""
    """The error, taint or attribute, for reasons that have one."""
    source: str = ""
    """The claim or class with the CEL selector."""
    expression: str = ""
    """The CEL selector."""
    devices: int = 0
    """The number of devices with this fault."""
    of_class: bool = False
    """True if the selector belongs to a DeviceClass rather than to the claim."""


class RequestedDevices(Detail, frozen=True):
    """The number of devices that a request wants, and how many of the node's devices would fit."""

    claim: str
    request: str
    wanted: int | None
    """The number of devices wanted, None for all."""
    devices: int
    """The number of devices that the node sees."""
    free: int
    """The number of devices that fit and are free."""
    faults: tuple[DeviceFault, ...] = ()


class PoolTrouble(Detail, frozen=True):
    """A device pool that cannot be used."""

    pool: str
    invalid: str = ""
    """The reason why the pool is invalid; empty if it is incomplete."""


class DevicesUnfit(Fact, frozen=True):
    """The requests that the node's devices cannot fill."""

    requests: tuple[RequestedDevices, ...]
    together: bool = False
    """True if each request could be filled on its own, but not all together."""
    constraints: tuple[str, ...] = ()
    """The constraints that the devices have to meet together."""
    pools: tuple[PoolTrouble, ...] = ()
    """The pools that cannot be used."""

    @property
    def lacks_only_free_devices(self) -> bool:
        """True if requests have no free device only because other claims have their devices.

        Each request without a free device must match some device, and all devices that it matches must be allocated.
        False if every request has a free device.
        """
        requests_without_device = [request for request in self.requests if not request.free]
        allowed_reasons = {"Allocated", *_MISMATCHES}
        for request in requests_without_device:
            reasons = {fault.reason for fault in request.faults}
            if "Allocated" not in reasons or not reasons <= allowed_reasons:
                return False
        return bool(requests_without_device)

    def describe(self) -> str:
        """Describe the requests and the unusable pools.

        If each request can be filled alone, the text also says why the requests cannot be filled together.

        >>> taken = DeviceFault("Allocated", devices=1)
        >>> DevicesUnfit((RequestedDevices("shop/gpu", "r", 2, devices=2, free=1, faults=(taken,)),)).describe()
        'request r of claim shop/gpu needs 2 devices, but only 1 of 2 on the node fits (1 allocated)'
        """
        parts = list(map(_render_request, self.requests))
        if self.together:  # each request could be filled on its own
            if self.constraints:
                parts.append(f"no choice of devices meets {' and '.join(self.constraints)}")
            else:
                parts.append("these requests cannot all be filled at once")
        for pool in self.pools:
            parts.append(
                f"pool {pool.pool} is invalid: {pool.invalid}" if pool.invalid else f"pool {pool.pool} is incomplete"
            )
        return "; ".join(parts)


class DeviceSearchFailed(Fact, frozen=True):
    """The fact that the search for devices ended with an error, perhaps in a CEL selector."""

    why: str
    expression: str = ""

    def describe(self) -> str:
        """Return the error. If it comes from a CEL selector, only its first line is given, followed by the selector.

        >>> DeviceSearchFailed("no such key: x", "device.x").describe()
        'no such key: x, in device.x'
        """
        return f"{self.why.splitlines()[0]}, in {self.expression}" if self.expression else self.why


def _render_request(devices: RequestedDevices) -> str:
    """Render how many devices a request needs, how many would fit, and why the other devices do not."""
    requested = "all devices" if devices.wanted is None else counted(devices.wanted, "device")
    text = f"request {devices.request} of claim {devices.claim} needs {requested}"
    if not devices.devices:
        return f"{text}, but the node has none"
    if not devices.free:
        none_fits = "the only device on the node does not fit"
        if devices.devices > 1:
            none_fits = f"none of the {devices.devices:,} devices on the node fits"
        return f"{text}, but {none_fits}{_render_faults(devices.faults)}"
    is_enough = devices.free >= (devices.devices if devices.wanted is None else devices.wanted)
    conjunction = "and" if is_enough else "but only"
    text += f", {conjunction} {devices.free} of {devices.devices} on the node {agreeing(devices.free, 'fits', 'fit')}"
    return text + _render_faults(devices.faults)


def _render_faults(faults: Sequence[DeviceFault]) -> str:
    """Render, in parentheses, how many devices do not fit for each reason. Return "" if there are no reasons."""
    if not faults:
        return ""
    return f" ({', '.join(f'{fault.devices} {_render_fault(fault)}' for fault in faults)})"


def _render_fault(fault: DeviceFault) -> str:
    """Render a fault as a phrase that follows the number of devices. A long selector is cut.

    >>> _render_fault(DeviceFault("NotSelected", source="claim shop/gpu", expression='device.driver == "x"'))
    'not selected by claim shop/gpu: device.driver == "x"'
    """
    expression = " ".join(fault.expression.split())
    if len(expression) > MAX_EXPRESSION_LENGTH:
        expression = f"{expression[: MAX_EXPRESSION_LENGTH - 1]}…"
    return _FAULT_PHRASES[fault.reason].format(what=fault.what, selector=f"{fault.source}: {expression}")


_MISMATCHES = ("NotSelected", "OnOtherNodes")
"""The reasons why a device would not fit a request even if all devices were free."""
_FAULT_PHRASES = {
    "NotSelected": "not selected by {selector}",
    "SelectorFails": "failing by {what} in {selector}",
    "HasBindingConditions": "with binding conditions",
    "OnOtherNodes": "for other nodes",
    "Allocated": "allocated",
    "WithoutCapacity": "without the capacity",
    "ShortOfCounters": "short of shared counters",
    "Tainted": "tainted {what}",
    "WithoutAttribute": "without attribute {what}",
}
"""The phrase for each reason of a DeviceFault."""
