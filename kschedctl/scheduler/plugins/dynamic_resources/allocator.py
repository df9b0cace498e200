"""The structured allocator: devices for a pod's claims on one node, found by exhaustive search, first fit.

Upstream: structured/internal/incubating/allocator_incubating.go (v1.36), which kube-scheduler runs by default; its
older and newer siblings give the same answers for what they have in common. Upstream's order of the search is kept,
because it decides which devices are found, and so are its slips in undoing a step, because they decide whether any are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.cel.errors import deep_recursion
from kschedctl.scheduler.plugins.dynamic_resources import capacity
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId, PoolId, Quantities, add
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL
from kschedctl.scheduler.plugins.dynamic_resources.constraints import Constraint, make
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import Allocatability, Counters, Pool, PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import (
    MAX_RESULTS,
    TOO_MANY_RESULTS,
    AllocationError,
    ClaimRequests,
    Request,
    TooManyResults,
)
from kschedctl.scheduler.plugins.dynamic_resources.results import Allocation, Result
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import FILTER_SECONDS, StepLimit

NONE_IS_ALL = ByVersion("whether a request for all devices is met where there are none", (("", True), ("1.33", False)))


class UnavailableOfAll(StrEnum):
    """What happens when a request for all devices cannot get one of them."""

    SKIP_DEVICE = "it does without"
    END_SEARCH = "the search ends"
    KEEP_TAKEN = "those taken stay taken"
    RELEASE_TAKEN = "those taken are given back"


UNAVAILABLE_OF_ALL = ByVersion(
    "what follows when some of all the devices that a request wants cannot be had",
    (
        ("", UnavailableOfAll.SKIP_DEVICE),
        ("1.32", UnavailableOfAll.END_SEARCH),
        ("1.33", UnavailableOfAll.KEEP_TAKEN),
        ("1.34", UnavailableOfAll.RELEASE_TAKEN),
    ),
)
ALL_OF_CLASS = ByVersion(
    "whether a request for all devices heeds the selectors of its class", (("", False), ("1.32", True))
)
ADMIN_TWICE = ByVersion(
    "whether a request with adminAccess may be given one device several times", (("", True), ("1.34", False)), "#131299"
)


class InvalidPoolError(StrEnum):
    """When a pool in which two devices share a name ends the search with an error."""

    NEVER = "nothing"
    ON_CANDIDATE = "a device of it that would do"
    ON_VISIT = "coming to it"


INVALID_POOL_ERROR = ByVersion(
    "what ends a search with an error: a pool in which two devices share a name",
    (
        ("", InvalidPoolError.NEVER),
        ("1.32", InvalidPoolError.ON_CANDIDATE),
        ("1.33", InvalidPoolError.ON_VISIT),
        ("1.35", InvalidPoolError.NEVER),
    ),
)


class SelectorsOfSecond(StrEnum):
    """The alternative whose selectors apply to the second alternative, if both it and the first want all devices."""

    FIRST = "the first's"
    SECOND = "its own"


SELECTORS_OF_SECOND = ByVersion(
    "whose selectors count for the second alternative of a request where the first wants all devices, as it does",
    (("", SelectorsOfSecond.FIRST), ("1.36", SelectorsOfSecond.SECOND)),
)


class NextAlternative(StrEnum):
    """The alternative with which the search continues after the first of all devices."""

    FIRST = "the first"
    SAME = "the same"


NEXT_ALTERNATIVE = ByVersion(
    "with which alternative of a request the search goes on after the first of all devices",
    (("", NextAlternative.FIRST), ("1.36", NextAlternative.SAME)),
)
COUNTER_CONSUMERS = ByVersion(
    "devices that consume counters, while DRAPartitionableDevices is off",
    (("", Allocatability.ALLOCATABLE), ("1.34", Allocatability.UNALLOCATABLE)),
)
EACH_SHARE = ByVersion(
    "whether each share of a device takes counters of its pool, not only the first", (("", True), ("1.35", False))
)
CHARGED_IN_VAIN = ByVersion(
    "whether counters may stay charged for a device that was tried in vain", (("", True), ("1.37", False)), "#140431"
)
CHARGED_TWICE = ByVersion(
    "whether a shared device that was allocated without capacity is charged to its counters again",
    (("", True), ("1.37", False)),
    "#140437",
)
ALL_HAVE_ROOM = ByVersion(
    "whether allocationMode All fails where one of the devices has too little capacity left",
    (("", False), ("1.37", True)),
    "#140769",
)


class CounterSetKey(StrEnum):
    """The names that distinguish sets of shared counters."""

    POOL = "the pool"
    DRIVER_AND_POOL = "driver and pool"


COUNTER_SET_KEY = ByVersion(
    "what tells sets of shared counters apart",
    (("", CounterSetKey.POOL), ("1.37", CounterSetKey.DRIVER_AND_POOL)),
    "#140435",
)


class TakenCounters:
    """Counters that devices consume, by pool; ``available``: what allocated devices leave over of one's counters."""

    def __init__(self, available: Callable[[Pool], Counters], release: KubeVersion) -> None:
        self._available_of = available
        self._by_driver = COUNTER_SET_KEY.at(release) is CounterSetKey.DRIVER_AND_POOL
        self._available: dict[PoolId, Counters] = {}
        self._taken: dict[PoolId, Counters] = {}

    def take(self, pool: Pool, device: PooledDevice) -> bool:
        """Take those of a device if there are enough."""
        key = self._key(pool)
        if key not in self._available:
            self._available[key] = self._available_of(pool)
        self._add(key, device, 1)
        taken = self._taken[key]
        if all(amount >= taken.get(counter, 0) for counter, amount in self._available[key].items()):
            return True
        self._add(key, device, -1)
        return False

    def give_back(self, pool: Pool, device: PooledDevice) -> None:
        """Gives back what a device consumes that was given up."""
        self._add(self._key(pool), device, -1)

    def _key(self, pool: Pool) -> PoolId:
        """What its counters are kept by."""
        return pool.id if self._by_driver else ("", pool.id[1])

    def _add(self, key: PoolId, device: PooledDevice, sign: int) -> None:
        taken = self._taken.setdefault(key, {})
        for counter, amount in device.consumes.items():
            taken[counter] = taken.get(counter, 0) + sign * amount


class InvalidPoolsError(Exception):
    """Nothing could be allocated, perhaps for want of a pool that is invalid; ``str()`` is upstream's wording."""


class _TooManyResultsError(Exception):
    """More devices than one claim can hold, whatever else is tried."""


class _SearchEndedError(Exception):
    """Nothing more is tried."""


class At(NamedTuple):
    """Where the search stands: the claim, its request, and which of the request's alternatives."""

    claim: int
    request: int
    alternative: int = 0


class Search:
    """One search: the claims, on the node of a row, in its pools."""

    def __init__(
        self, inventory: Inventory, row: int, claims: Sequence[ClaimRequests], seconds: float = FILTER_SECONDS
    ) -> None:
        self.inventory, self.features, self.state = inventory, inventory.features, inventory.state
        self.row, self.claims = row, claims
        self.pools = inventory.pools(row)
        self.places = [(pool, device) for pool in self.pools for device in pool.devices]
        self.interchangeable = not any(device.consumes for _, device in self.places)
        self.every: dict[At, list[tuple[Pool, PooledDevice]]] = {}
        self.constraints: list[list[Constraint]] = []
        self.results: list[list[Result]] = [[] for _ in claims]
        self.users: dict[DeviceId, set[int]] = {}
        self.taken: dict[DeviceId, Quantities] = {}
        self.counters = TakenCounters(inventory.available, self.features.release)
        self.selectable: dict[tuple[At, DeviceId], bool] = {}
        self.arithmetic = capacity.Arithmetic.of(self.features)
        self.limit = StepLimit(seconds, self.features)
        self.invalid_pool_error = INVALID_POOL_ERROR.at(self.features.release)
        self.unavailable_of_all = UNAVAILABLE_OF_ALL.at(self.features.release)
        self.undoes_all = not CHARGED_IN_VAIN.at(self.features.release)
        self.all_consumers = COUNTER_CONSUMERS.at(self.features.release) is Allocatability.ALLOCATABLE

    def run(self) -> Allocation | None:
        """The devices for all claims, None when they cannot all be had.

        Raises AllocationError, InvalidPoolsError and SearchTimeoutError.
        """
        for index, claim in enumerate(self.claims):
            self._prepare(index, claim)
        try:
            with deep_recursion(1000 + 4 * MAX_RESULTS * len(self.claims)):
                done = not self.claims or self._request(0, 0)
        except _TooManyResultsError:
            raise AllocationError("allocation max size exceeded") from None
        except _SearchEndedError:
            return None
        if done:
            return tuple(map(tuple, self.results))
        if any(pool.invalid for pool in self.pools):
            raise InvalidPoolsError("invalid resource pools were encountered")
        return None

    def _prepare(self, index: int, claim: ClaimRequests) -> None:
        """How many devices each request is about, and which ones where it wants all."""
        least = 0
        for position, alternatives in enumerate(claim.requests):
            ats = [At(index, position, i) for i in range(len(alternatives))]
            for at in ats:
                if self._at(at).mode == ALL:
                    self.every[at] = self._all_devices(at)
            least += min(map(self._number, ats), default=0)
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            )
        self.constraints.append([make(constraint, self.features) for constraint in claim.constraints])

    def _at(self, at: At) -> Request:
        return self.claims[at.claim].requests[at.request][at.alternative]

    def _number(self, at: At) -> int:
        return len(self.every[at]) if at in self.every else self._at(at).count

    def _all_devices(self, at: At) -> list[tuple[Pool, PooledDevice]]:
        request, devices = self._at(at), []
        first = at._replace(alternative=0)
        by_first = SELECTORS_OF_SECOND.at(self.features.release) is SelectorsOfSecond.FIRST
        chooser = first if by_first and at.alternative == 1 and first in self.every else at
        for pool in self.pools:
            if not pool.usable:
                raise AllocationError(
                    f"claim {self.claims[at.claim].key}, request {request.name}: asks for all devices, but resource "
                    f"pool {pool.label} is currently {'being updated' if pool.incomplete else 'invalid'}"
                )
            for device in pool.devices:
                if self.is_selectable(chooser, device) and self._is_large_enough(request, device):
                    devices.append((pool, device))
        return devices

    # -- the search: each step either finds all the rest and is true, or undoes what it did -------------------------

    def _claim(self, index: int) -> bool:
        """Too many devices in a claim is no failure of the claims before it."""
        try:
            return index == len(self.claims) or self._request(index, 0)
        except _TooManyResultsError:
            return False

    def _request(self, index: int, position: int) -> bool:
        requests = self.claims[index].requests
        if position == len(requests):
            return self._claim(index + 1)
        if not requests[position][0].parent:
            return self._devices(At(index, position))
        exceeded = True
        for alternative in range(len(requests[position])):
            try:
                if self._devices(At(index, position, alternative)):
                    return True
                exceeded = False
            except _TooManyResultsError:
                continue
        if exceeded:
            raise _TooManyResultsError
        return False

    def _devices(self, at: At, have: int = 0, start: int = 0) -> bool:
        """The devices of a request from the ``have``-th on; those before place ``start`` were tried before."""
        number, every = self._number(at), self.every.get(at)
        if every is not None and not every and not NONE_IS_ALL.at(self.features.release):
            return False
        if have >= number:
            return self._request(at.claim, at.request + 1)
        if self._would_be_too_many(at, have, number):
            return False
        if every is not None:
            return self._try(at, have, 0, *every[have])
        return self._any_device(at, have, start)

    def _would_be_too_many(self, at: At, have: int, number: int) -> bool:
        """Whether the claim cannot hold all devices of the request. Raises _TooManyResultsError where that ends it."""
        consequence = TOO_MANY_RESULTS.at(self.features.release)
        total = len(self.results[at.claim]) + number - have
        if consequence is TooManyResults.REQUEST_FAILS_COUNTING_TWICE:
            total += have
        if total <= MAX_RESULTS:
            return False
        if consequence is TooManyResults.NEXT_ALTERNATIVE:
            raise _TooManyResultsError
        return True

    def _any_device(self, at: At, have: int, start: int) -> bool:
        """The first device from place ``start`` on with which all the rest is found."""
        if not have and self._are_too_few(at):
            return False
        failed: set[object] = set()
        for place in range(start, len(self.places)):
            pool, device = self.places[place]
            if pool.invalid and self.invalid_pool_error is InvalidPoolError.ON_VISIT:
                raise AllocationError(pool.fault)
            untouched = self.interchangeable and not self.users.get(device.id) and device.id not in self.taken
            if untouched and (device.twin, self.state.mark(device.id)) in failed:
                continue
            if self.is_candidate(at, device):
                if pool.invalid:
                    raise AllocationError(pool.fault)
                if self._try(at, have, self._next_place(at, place, device), pool, device):
                    return True
                if untouched:
                    failed.add((device.twin, self.state.mark(device.id)))
        return False

    def _try(self, at: At, have: int, next_place: int, pool: Pool, device: PooledDevice) -> bool:
        self.limit.step()
        one_of_all = at in self.every
        if not self._allocate(at, pool, device):
            if one_of_all and self.unavailable_of_all is UnavailableOfAll.END_SEARCH:
                raise _SearchEndedError
            skips = one_of_all and self.unavailable_of_all is UnavailableOfAll.SKIP_DEVICE
            return skips and self._rest_of_all(at, have)
        done = False
        stays_taken = one_of_all and self.unavailable_of_all is not UnavailableOfAll.RELEASE_TAKEN
        try:
            done = self._rest_of_all(at, have) if one_of_all else self._devices(at, have + 1, next_place)
        finally:
            if not done and not stays_taken:
                self._release(at, pool, device)
        return done

    def _rest_of_all(self, at: At, have: int) -> bool:
        """Raises AllocationError where upstream once took the end of a search for an error."""
        same = NEXT_ALTERNATIVE.at(self.features.release) is NextAlternative.SAME
        done = self._devices(at if same else at._replace(alternative=0), have + 1, 0)
        if not done and self.unavailable_of_all is UnavailableOfAll.SKIP_DEVICE:
            raise AllocationError("stop allocation")
        return done

    def _are_too_few(self, at: At) -> bool:
        """Whether there are fewer devices than the request wants, which needs no search. Raises AllocationError.

        Where devices take counters it matters that it is made: upstream does not give all of them back.
        """
        number, free = self._number(at), 0
        if number < 2 or not self.interchangeable:
            return False
        for pool, device in self.places:
            if pool.invalid or (self.limit.any_order and self._again(at, device)):
                return False
            free += self.is_candidate(at, device) and self._may_consume(device) and not self._is_tainted(at, device)
            if free == number:
                return False
        return self.limit.refuses(free, all_tried=not self.claims[at.claim].constraints)

    def _next_place(self, at: At, place: int, device: PooledDevice) -> int:
        """From where on the next device of the request is looked for after one at a place.

        Where any order is tried an earlier one is of use only where the order matters: to constraints, or for counters
        that are not given back.
        """
        if not self.limit.any_order:
            return place + 1
        distinct = any(c.distinct_attribute is not None for c in self.claims[at.claim].constraints)
        if not self.interchangeable or (distinct and self.features.newer_allocator):
            return 0
        return place + (not self._again(at, device))

    def _again(self, at: At, device: PooledDevice) -> bool:
        """Whether a device that was just taken can be taken once more."""
        twice = bool(self._at(at).admin_access) and ADMIN_TWICE.at(self.features.release)
        return twice or self.is_shareable(device)

    # -- one device ------------------------------------------------------------------------------------------------

    def is_candidate(self, at: At, device: PooledDevice) -> bool:
        """Whether the device is free, selected and big enough. Raises AllocationError."""
        if self.in_use(at, device):
            return False
        return self.is_selectable(at, device) and self.has_capacity(self._at(at), device)

    def in_use(self, at: At, device: PooledDevice) -> bool:
        """Whether another claim has the device, or this one for another request."""
        users = self.users.get(device.id, ())
        if self._at(at).admin_access:
            return at.claim in users and not ADMIN_TWICE.at(self.features.release)
        return device.id in self.state.dedicated or bool(users)

    def is_selectable(self, at: At, device: PooledDevice) -> bool:
        """Whether the selectors of class and request match, and the device is for the node. Raises AllocationError."""
        if device.device.binding_conditions and not self.features.binding_conditions:
            return False
        key = (at, device.id)
        if key not in self.selectable:
            request = self._at(at)
            heeded = request.selectors
            if request.mode == ALL and not ALL_OF_CLASS.at(self.features.release):
                heeded = tuple(selector for selector in heeded if not selector.of_class)
            selected = all(self.inventory.selects(cel, device, self.features.newer_allocator) for cel in heeded)
            self.selectable[key] = selected and self.inventory.on_node(device, self.row)
        return self.selectable[key]

    def has_capacity(self, request: Request, device: PooledDevice) -> bool:
        """Whether the device has, and has left, what the request wants of its capacities."""
        if not self.features.consumable_capacity:
            return True
        taken = self.state.consumed.get(device.id, {}), self.taken.get(device.id, {})
        return capacity.fits(request.capacity, device.device.capacity, *taken, arithmetic=self.arithmetic)

    def _is_large_enough(self, request: Request, device: PooledDevice) -> bool:
        """Whether a device is one of all that the request wants, by what it has of capacities, or has left of them."""
        if not (self.features.consumable_capacity and ALL_HAVE_ROOM.at(self.features.release)):
            return self.has_capacity(request, device)
        return capacity.fits(request.capacity, device.device.capacity, arithmetic=self.arithmetic)

    def is_shareable(self, device: PooledDevice) -> bool:
        return self.features.consumable_capacity and bool(device.device.allow_multiple_allocations)

    def _allocate(self, at: At, pool: Pool, device: PooledDevice) -> bool:
        """Take a selectable device, if nothing speaks against it. What upstream forgets to undo stays done."""
        request, shareable = self._at(at), self.is_shareable(device)
        if not self._is_available(at, device):
            return False
        charged = bool(device.consumes) and not self._is_charged(device)
        if charged and not self.counters.take(pool, device):
            return False
        if self._is_tainted(at, device) or not self._constrain(at, device):
            return self._rejected(pool, device, charged)
        users = self.users.setdefault(device.id, set())
        if not self.has_capacity(request, device):
            users.update(() if shareable or self.undoes_all else (at.claim,))
            for constraint in self.constraints[at.claim] if self.undoes_all else ():
                constraint.remove(request)
            return self._rejected(pool, device, charged)
        users.update(() if shareable else (at.claim,))
        taken = capacity.consumed(request.capacity, device.device.capacity, self.arithmetic) if shareable else {}
        first = shareable and device.id not in self.taken
        if shareable:
            add(self.taken.setdefault(device.id, {}), taken)
        self.results[at.claim].append(Result(request, device, taken, shareable, charged, first))
        return True

    def _rejected(self, pool: Pool, device: PooledDevice, charged: bool) -> bool:
        """False, once a device that is not taken is charged to no counters, as far as upstream undoes that."""
        if charged and self.undoes_all:
            self.counters.give_back(pool, device)
        return False

    def _is_available(self, at: At, device: PooledDevice) -> bool:
        """Whether the device is free, and may take counters where it does."""
        shared_by_admin = self.is_shareable(device) and self._at(at).admin_access
        return (bool(shared_by_admin) or not self.in_use(at, device)) and self._may_consume(device)

    def _is_charged(self, device: PooledDevice) -> bool:
        """Whether another share of the device took its counters."""
        release, state = self.features.release, self.state
        if EACH_SHARE.at(release) or not self.is_shareable(device):
            return False
        persisted = device.id in state.shared and not CHARGED_TWICE.at(release)
        return persisted or device.id in state.consumed or device.id in self.taken

    def _may_consume(self, device: PooledDevice) -> bool:
        return not device.device.consumes_counters or self.features.partitionable_devices or self.all_consumers

    def _is_tainted(self, at: At, device: PooledDevice) -> bool:
        return self.features.device_taints and self._at(at).taint_against(device.device) is not None

    def _constrain(self, at: At, device: PooledDevice) -> bool:
        """Whether the claim's constraints allow the device. Raises AllocationError where the request wants them all."""
        request, constraints = self._at(at), self.constraints[at.claim]
        for i, constraint in enumerate(constraints):
            if not constraint.add(request, device):
                if at in self.every:
                    raise AllocationError(
                        f"claim {self.claims[at.claim].key}, request {request.name}: cannot add device {device.label} "
                        "because a claim constraint would not be satisfied"
                    )
                for earlier in constraints[:i]:
                    earlier.remove(request)
                return False
        return True

    def _release(self, at: At, pool: Pool, device: PooledDevice) -> None:
        for constraint in self.constraints[at.claim]:
            constraint.remove(self._at(at))
        self.users[device.id].discard(at.claim)
        result = self.results[at.claim].pop()
        if result.charged and (self.undoes_all or not result.shared):
            self.counters.give_back(pool, device)
        if result.shared and (self.undoes_all or result.consumed):
            left = self.taken[device.id]
            for name, amount in result.consumed.items():
                left[name] = left[name].sub(amount)
            if result.first if self.undoes_all else not any(amount.mantissa for amount in left.values()):
                del self.taken[device.id]
