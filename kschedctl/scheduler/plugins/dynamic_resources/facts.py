"""What stands behind a refusal of DynamicResources, with its words."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.text.counts import agreeing

EXPRESSION_TOLD = 80


class UnusableClaim(Detail, frozen=True):
    """An allocated claim, and ``why`` its devices will not be ready; empty where they are ready on other nodes."""

    claim: str
    why: str = ""


class ClaimsUnusable(Fact, frozen=True):
    claims: tuple[UnusableClaim, ...]

    def words(self) -> str:
        """
        >>> ClaimsUnusable((UnusableClaim("shop/gpu"),)).words()
        'claim shop/gpu has its devices on other nodes'
        """
        return "; ".join(
            f"claim {claim.claim} {claim.why or 'has its devices on other nodes'}" for claim in self.claims
        )


class ResourceNotOffered(Fact, frozen=True):
    """Neither the node nor a DeviceClass offers the extended resource."""

    resource: str

    def words(self) -> str:
        return f"{self.resource} is offered neither by the node nor by a DeviceClass"


class DeviceFault(Detail, frozen=True):
    """Why so many ``devices`` of a node do not fit a request.

    ``reason``: NotSelected, SelectorFails (with ``what``), HasBindingConditions, OnOtherNodes, Allocated,
    WithoutCapacity, ShortOfCounters, Tainted (with ``what``), WithoutAttribute (``what``). ``source``: whose the CEL
    ``expression`` of a selector is.
    """

    reason: str
    what: str = ""
    source: str = ""
    expression: str = ""
    devices: int = 0


class RequestedDevices(Detail, frozen=True):
    """How many devices are ``wanted``, None for all of the node's; of as many as it has ``free`` would do."""

    claim: str
    request: str
    wanted: int | None
    devices: int
    free: int
    faults: tuple[DeviceFault, ...] = ()


class PoolTrouble(Detail, frozen=True):
    """A pool of devices that is not used, as it is ``invalid``; else it is incomplete."""

    pool: str
    invalid: str = ""


class DevicesUnfit(Fact, frozen=True):
    """The ``requests`` that the node's devices cannot fill.

    ``together``: each by itself they could, all at once they cannot, at least not so that the ``constraints`` are met.
    """

    requests: tuple[RequestedDevices, ...]
    together: bool = False
    constraints: tuple[str, ...] = ()
    pools: tuple[PoolTrouble, ...] = ()

    def words(self) -> str:
        """
        >>> taken = DeviceFault("Allocated", devices=1)
        >>> DevicesUnfit((RequestedDevices("shop/gpu", "r", 2, devices=2, free=1, faults=(taken,)),)).words()
        'shop/gpu request r wants 2 devices, 1 of 2 fits (1 allocated)'
        """
        requests = map(_requested, self.requests)
        pools = (f"pool {p.pool} is {f'invalid: {p.invalid}' if p.invalid else 'incomplete'}" for p in self.pools)
        if not self.together:
            return "; ".join((*requests, *pools))
        met = f"no choice of devices meets {' and '.join(self.constraints)}" if self.constraints else "not all at once"
        return "; ".join((*requests, met, *pools))


class DeviceSearchFailed(Fact, frozen=True):
    """The search for devices ends with an error, maybe in a CEL ``expression``."""

    why: str
    expression: str = ""

    def words(self) -> str:
        """
        >>> DeviceSearchFailed("no such key: x", "device.x").words()
        'no such key: x, in device.x'
        """
        return f"{self.why.splitlines()[0]}, in {self.expression}" if self.expression else self.why


def _requested(devices: RequestedDevices) -> str:
    wanted = "all devices" if devices.wanted is None else f"{devices.wanted} device{'s' * (devices.wanted != 1)}"
    text = f"{devices.claim} request {devices.request} wants {wanted}"
    if not devices.devices:
        return f"{text}, the node has none"
    faults = ", ".join(f"{fault.devices} {_fault(fault)}" for fault in devices.faults)
    return (
        f"{text}, {devices.free} of {devices.devices} {agreeing(devices.free, 'fits', 'fit')}"
        + f" ({faults})" * bool(faults)
    )


def _fault(fault: DeviceFault) -> str:
    """
    >>> _fault(DeviceFault("NotSelected", source="claim shop/gpu", expression='device.driver == "x"'))
    'not selected by claim shop/gpu: device.driver == "x"'
    """
    line = " ".join(fault.expression.split())
    selector = f"{fault.source}: {line if len(line) <= EXPRESSION_TOLD else f'{line[: EXPRESSION_TOLD - 1]}…'}"
    return _OF_DEVICES[fault.reason].format(what=fault.what, selector=selector)


_OF_DEVICES = {
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
"""The reason of a DeviceFault -> what is said of such devices."""
