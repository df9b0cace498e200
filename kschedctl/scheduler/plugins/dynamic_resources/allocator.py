"""The structured allocator, which finds devices for a pod's claims on one node by exhaustive first-fit search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.cel.errors import allow_deep_recursion
from kschedctl.scheduler.plugins.dynamic_resources import capacity
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId, PoolId, Quantities, add_quantities
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL
from kschedctl.scheduler.plugins.dynamic_resources.constraints import Constraint, build_constraint
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import Allocatability, Counters, Pool, PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import (
    MAX_RESULTS,
    TOO_MANY_RESULTS,
    AllocatedDevice,
    Allocation,
    AllocationError,
    ClaimRequests,
    Request,
    TooManyResults,
)
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import FILTER_SECONDS, StepLimit

NONE_IS_ALL = ByVersion(
    "a request with allocationMode: All succeeds if no device matches", (("", True), ("1.33", False))
)


class UnavailableOfAll(StrEnum):
    """The ways to continue when a request for all devices cannot get one of them."""

    SKIP_DEVICE = "satisfied without that device"
    END_SEARCH = "fails, and the search ends"
    KEEP_TAKEN = "fails, and devices already allocated stay allocated during the search"
    RELEASE_TAKEN = "fails, and devices already allocated are released"


UNAVAILABLE_OF_ALL = ByVersion(
    "outcome of a request with allocationMode: All if one of its devices cannot be allocated",
    (
        ("", UnavailableOfAll.SKIP_DEVICE),
        ("1.32", UnavailableOfAll.END_SEARCH),
        ("1.33", UnavailableOfAll.KEEP_TAKEN),
        ("1.34", UnavailableOfAll.RELEASE_TAKEN),
    ),
)
ALL_OF_CLASS = ByVersion(
    "the DeviceClass's selectors apply to a request with allocationMode: All", (("", False), ("1.32", True))
)
ADMIN_TWICE = ByVersion(
    "a request with adminAccess can get the same device several times", (("", True), ("1.34", False)), "#131299"
)


class DuplicateDeviceHandling(StrEnum):
    """The cases in which a pool with two devices of one name ends the search with an error."""

    NEVER = "never"
    ON_CANDIDATE = "once a device of the pool matches"
    ON_VISIT = "once the search reaches the pool"


INVALID_POOL_ERROR = ByVersion(
    "when the search fails because a pool has two devices of the same name",
    (
        ("", DuplicateDeviceHandling.NEVER),
        ("1.32", DuplicateDeviceHandling.ON_CANDIDATE),
        ("1.33", DuplicateDeviceHandling.ON_VISIT),
        ("1.35", DuplicateDeviceHandling.NEVER),
    ),
)


class SelectorsOfSecond(StrEnum):
    """The alternative whose selectors apply to the second alternative if both of the first two want all devices."""

    FIRST = "those of the first alternative (a bug)"
    SECOND = "its own"


SELECTORS_OF_SECOND = ByVersion(
    "selectors applied to the second alternative of firstAvailable if it and the first have allocationMode: All",
    (("", SelectorsOfSecond.FIRST), ("1.36", SelectorsOfSecond.SECOND)),
)


class NextAlternative(StrEnum):
    """The alternative with which the search continues after an alternative that wants all devices."""

    FIRST = "those of the request's first alternative (a bug)"
    SAME = "its own"


NEXT_ALTERNATIVE = ByVersion(
    "selectors applied to all but the first device of a firstAvailable alternative with allocationMode: All",
    (("", NextAlternative.FIRST), ("1.36", NextAlternative.SAME)),
)
COUNTER_CONSUMERS = ByVersion(
    "devices that consume counters while the gate DRAPartitionableDevices is off",
    (("", Allocatability.ALLOCATABLE), ("1.34", Allocatability.UNALLOCATABLE)),
)
EACH_SHARE = ByVersion(
    "shares of a device (allowMultipleAllocations) that consume its pool's shared counters",
    (("", True), ("1.35", False)),
    bool_texts=("only the first share", "every share"),
)
CHARGED_IN_VAIN = ByVersion(
    "a device that could not be allocated may still consume shared counters",
    (("", True), ("1.37", False)),
    "#140431",
)
CHARGED_TWICE = ByVersion(
    "a shareable device consumes its shared counters again with each further allocation if its earlier allocations "
    "consumed no capacity",
    (("", True), ("1.37", False)),
    "#140437",
)
ALL_HAVE_ROOM = ByVersion(
    "a request with allocationMode: All fails if a matching device has too little capacity left",
    (("", False), ("1.37", True)),
    "#140769",
)


class CounterSetKey(StrEnum):
    """The names that distinguish sets of shared counters."""

    POOL = "pool and name"
    DRIVER_AND_POOL = "driver, pool and name"


COUNTER_SET_KEY = ByVersion(
    "fields that identify a set of shared counters",
    (("", CounterSetKey.POOL), ("1.37", CounterSetKey.DRIVER_AND_POOL)),
    "#140435",
)


class TakenCounters:
    """The shared counters that tried devices consume, by pool."""

    def __init__(self, available: Callable[[Pool], Counters], release: KubeVersion) -> None:
        self._compute_available = available
        self._by_driver = COUNTER_SET_KEY.at(release) is CounterSetKey.DRIVER_AND_POOL
        self._available: dict[PoolId, Counters] = {}
        self._taken: dict[PoolId, Counters] = {}

    def try_take_counters(self, pool: Pool, device: PooledDevice) -> bool:
        """Charge the counters that the device consumes to its pool, and return True.

        If the pool has too few counters left, charge nothing and return False.
        """
        key = self._build_counter_key(pool)
        if key not in self._available:
            self._available[key] = self._compute_available(pool)
        available = self._available[key]
        self._charge_counters(key, device, sign=1)
        taken = self._taken[key]
        is_enough = all(taken.get(counter, 0) <= amount for counter, amount in available.items())
        if not is_enough:
            self._charge_counters(key, device, sign=-1)
        return is_enough

    def give_back_counters(self, pool: Pool, device: PooledDevice) -> None:
        """Give the device's counters back to its pool."""
        self._charge_counters(self._build_counter_key(pool), device, sign=-1)

    def _build_counter_key(self, pool: Pool) -> PoolId:
        """Return the key under which the pool's counters are kept: its ID, with an empty driver before 1.37.

        Versions before 1.37 mix up the counters of pools that have the same name but different drivers.
        """
        _, pool_name = pool.id
        return pool.id if self._by_driver else ("", pool_name)

    def _charge_counters(self, key: PoolId, device: PooledDevice, *, sign: int) -> None:
        """Add the device's counters to the counters taken from the pool, or subtract them if `sign` is -1."""
        taken = self._taken.setdefault(key, {})
        for counter, amount in device.consumes.items():
            taken[counter] = taken.get(counter, 0) + sign * amount


class InvalidPoolsError(Exception):
    """The error if no allocation was found and an invalid pool was left out. ``str()`` is upstream's wording."""


class _TooManyResultsError(Exception):
    """The error for a request that would give its claim more devices than a claim can hold."""


class _SearchEndedError(Exception):
    """The error that ends the search without trying further devices."""


class SearchPosition(NamedTuple):
    """A position in the search: the indices of a claim, of a request in it and of an alternative of the request."""

    claim: int
    request: int
    alternative: int = 0


class Search:
    """A depth-first search for devices for the claims of one pod on one node, given by its row."""

    def __init__(
        self, inventory: Inventory, row: int, claims: Sequence[ClaimRequests], seconds: float = FILTER_SECONDS
    ) -> None:
        self.inventory, self.features, self.state = inventory, inventory.features, inventory.state
        self.row, self.claims = row, claims
        self.pools = inventory.get_pools(row)
        self.places = [(pool, device) for pool in self.pools for device in pool.devices]
        """The devices that the node sees, with their pools, in the order of the search."""
        self.may_consume_counters = any(device.consumes for _, device in self.places)
        """True if a device consumes counters, not all of which upstream gives back.

        Twins then cannot replace each other, and the order of the search matters.
        """

        # The state of the search
        self.all_devices: dict[SearchPosition, list[tuple[Pool, PooledDevice]]] = {}
        """The devices that each request with mode All must get."""
        self.constraints: list[list[Constraint]] = []
        """The constraints of each claim."""
        self.results: list[list[AllocatedDevice]] = [[] for _ in claims]
        """The devices that each claim has so far."""
        self.users: defaultdict[DeviceId, set[int]] = defaultdict(set)
        """The indices of the claims that have a device as a whole."""
        self.taken: dict[DeviceId, Quantities] = {}
        """The capacity that claims have taken of shared devices in this search."""
        self.counters = TakenCounters(inventory.compute_available_counters, self.features.release)
        self.selectable: dict[tuple[SearchPosition, DeviceId], bool] = {}
        """A cache of `is_selectable`."""
        self.limit = StepLimit(seconds, self.features)

        # The behavior of the version
        self.arithmetic = capacity.RangeArithmetic.from_features(self.features)
        self.duplicate_device_handling = INVALID_POOL_ERROR.at(self.features.release)
        self.unavailable_of_all = UNAVAILABLE_OF_ALL.at(self.features.release)
        self.undoes_all = not CHARGED_IN_VAIN.at(self.features.release)
        """True if all effects of an allocation that fails are undone."""
        self.all_consumers = COUNTER_CONSUMERS.at(self.features.release) is Allocatability.ALLOCATABLE
        """True if devices that consume counters can be allocated without DRAPartitionableDevices."""

    def run(self) -> Allocation | None:
        """Search the node for devices for all claims, and return each claim's devices, in the order of the claims.

        Return None if not all claims can get their devices on the node. Raises AllocationError for a faulty claim or
        pool, and SearchTimeoutError if the search takes too long. If nothing is found and the node sees an invalid
        pool, raises InvalidPoolsError.
        """
        for index, claim in enumerate(self.claims):
            self._prepare_claim(index, claim)
        try:
            # The search recurses through at most four methods per allocated device.
            with allow_deep_recursion(1000 + 4 * MAX_RESULTS * len(self.claims)):
                # Not _search_from_claim(0), because too many devices for the first claim are an error in upstream.
                found_all = not self.claims or self._search_from_request(claim_index=0, request_index=0)
        except _TooManyResultsError:
            raise AllocationError("allocation max size exceeded") from None
        except _SearchEndedError:
            return None
        if found_all:
            return tuple(map(tuple, self.results))
        if any(pool.invalid for pool in self.pools):
            raise InvalidPoolsError("invalid resource pools were encountered")
        return None

    def _prepare_claim(self, claim_index: int, claim: ClaimRequests) -> None:
        """Fill `all_devices` and `constraints` for a claim, and check the number of devices that it requests.

        Raises AllocationError if even the claim's smallest alternatives need more than MAX_RESULTS devices. For a
        request with mode All, it is also raised if a pool is unusable or a selector fails.
        """
        min_devices = 0
        for request_index, alternatives in enumerate(claim.requests):
            positions = [SearchPosition(claim_index, request_index, i) for i in range(len(alternatives))]
            for position in positions:
                if self._get_request(position).mode == ALL:
                    self.all_devices[position] = self._list_devices_for_mode_all(position)
            min_devices += min((self._count_requested_devices(position) for position in positions), default=0)
        if min_devices > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {min_devices} exceeds the claim limit of {MAX_RESULTS}"
            )
        self.constraints.append([build_constraint(constraint, self.features) for constraint in claim.constraints])

    def _get_request(self, position: SearchPosition) -> Request:
        """Return the request at a position of the search."""
        alternatives = self.claims[position.claim].requests[position.request]
        return alternatives[position.alternative]

    def _count_requested_devices(self, position: SearchPosition) -> int:
        """Return the number of devices that the request at a position asks for."""
        return len(self.all_devices[position]) if position in self.all_devices else self._get_request(position).count

    def _list_devices_for_mode_all(self, position: SearchPosition) -> list[tuple[Pool, PooledDevice]]:
        """Return the devices, with their pools, that a request with mode All must get.

        These are the devices that match the request's selectors and have the requested capacity. Raises AllocationError
        if one of the node's pools is incomplete or invalid, or if a selector fails.
        """
        request = self._get_request(position)
        selector_position = self._find_selector_position(position)
        devices = []
        for pool in self.pools:
            if not pool.usable:
                raise AllocationError(
                    f"claim {self.claims[position.claim].key}, request {request.name}: asks for all devices, but "
                    f"resource pool {pool.label} is currently {'being updated' if pool.incomplete else 'invalid'}"
                )
            for device in pool.devices:
                if self.is_selectable(selector_position, device) and self._is_large_enough(request, device):
                    devices.append((pool, device))
        return devices

    def _find_selector_position(self, position: SearchPosition) -> SearchPosition:
        """Return the position of the request whose selectors upstream applies with mode All at this position.

        Versions before 1.36 apply the first alternative's selectors to the second one by mistake.
        """
        mixes_up_selectors = SELECTORS_OF_SECOND.at(self.features.release) is SelectorsOfSecond.FIRST
        first = position._replace(alternative=0)
        if position.alternative == 1 and mixes_up_selectors and first in self.all_devices:
            return first
        return position

    # -- the search: each step returns True if all later steps succeed, or undoes its changes --------------------------

    def _search_from_claim(self, claim_index: int) -> bool:
        """Search for devices for a claim and all later claims. Return whether all devices were found.

        Return True if `claim_index` is past the last claim, and False if the claim would hold too many devices.
        """
        if claim_index == len(self.claims):
            return True
        try:
            return self._search_from_request(claim_index, request_index=0)
        except _TooManyResultsError:
            return False

    def _search_from_request(self, claim_index: int, request_index: int) -> bool:
        """Search for devices for a request and for all later requests and claims. Return whether all were found.

        The alternatives of the request are tried in order. Raises _TooManyResultsError if the request, or each of its
        alternatives, has too many devices.
        """
        requests = self.claims[claim_index].requests
        if request_index == len(requests):
            return self._search_from_claim(claim_index + 1)
        alternatives = requests[request_index]
        is_exact_request = not alternatives[0].parent
        if is_exact_request:
            return self._search_missing_devices(SearchPosition(claim_index, request_index))

        all_exceed_limit = True
        for alternative in range(len(alternatives)):
            try:
                if self._search_missing_devices(SearchPosition(claim_index, request_index, alternative)):
                    return True
                all_exceed_limit = False
            except _TooManyResultsError:
                continue
        if all_exceed_limit:
            raise _TooManyResultsError
        return False

    def _search_missing_devices(self, position: SearchPosition, num_allocated: int = 0, start: int = 0) -> bool:
        """Search for the devices that a request still lacks and for the devices of all later requests.

        Return whether all devices were found. Since 1.33, a request with mode All fails if it selects no device. The
        request already has `num_allocated` devices, and the search begins at index `start` of `self.places`. Raises
        _TooManyResultsError if the claim cannot hold the devices and the version then tries the next alternative.
        """
        num_requested = self._count_requested_devices(position)
        wants_all = position in self.all_devices
        if wants_all and num_requested == 0 and not NONE_IS_ALL.at(self.features.release):
            return False
        if num_allocated >= num_requested:
            return self._search_from_request(position.claim, position.request + 1)
        if self._exceeds_claim_limit(position, num_allocated, num_requested):
            return False
        if not wants_all:
            return self._search_next_device(position, num_allocated, start)
        pool, device = self.all_devices[position][num_allocated]
        return self._try_device(position, num_allocated, next_place=0, pool=pool, device=device)

    def _exceeds_claim_limit(self, position: SearchPosition, num_allocated: int, num_requested: int) -> bool:
        """Return whether the claim cannot hold all devices of the request.

        `num_allocated` of the `num_requested` devices are already among the claim's results. Raises
        _TooManyResultsError in versions that try the request's next alternative in this case.
        """
        consequence = TOO_MANY_RESULTS.at(self.features.release)
        total = len(self.results[position.claim]) + num_requested
        # By mistake, some versions count the devices that the request already has twice.
        if consequence is not TooManyResults.REQUEST_FAILS_COUNTING_TWICE:
            total -= num_allocated
        if total <= MAX_RESULTS:
            return False
        if consequence is TooManyResults.NEXT_ALTERNATIVE:
            raise _TooManyResultsError
        return True

    def _search_next_device(self, position: SearchPosition, num_allocated: int, start: int) -> bool:
        """Try the devices of `self.places` from index `start` on as the request's next device.

        Return True once a device leads to a complete allocation, and False if none does. A device that is equal to a
        failed device is not tried. Raises AllocationError for the first device of an invalid pool that the request
        could get. Some versions raise it for the first device of an invalid pool in any case.
        """
        if num_allocated == 0 and self._has_too_few_devices(position):
            return False
        failed_twins: set[object] = set()
        for place in range(start, len(self.places)):
            pool, device = self.places[place]
            if pool.invalid and self.duplicate_device_handling is DuplicateDeviceHandling.ON_VISIT:
                raise AllocationError(pool.fault)

            twin_key = self._build_twin_key(device)
            is_known_to_fail = twin_key in failed_twins
            if is_known_to_fail or not self.is_candidate(position, device):
                continue
            if pool.invalid:
                raise AllocationError(pool.fault)
            next_place = self._find_next_search_index(position, place, device)
            if self._try_device(position, num_allocated, next_place=next_place, pool=pool, device=device):
                return True
            if twin_key is not None:
                failed_twins.add(twin_key)
        return False

    def _build_twin_key(self, device: PooledDevice) -> object | None:
        """Return a key that is equal for devices with which the search fails alike, or None if there is no such key.

        Twins with equal allocations are equal only as long as this search has not allocated one of them.
        """
        is_untouched = not self.may_consume_counters and not self.users.get(device.id) and device.id not in self.taken
        return (device.twin, self.state.build_device_state(device.id)) if is_untouched else None

    def _try_device(
        self, position: SearchPosition, num_allocated: int, *, next_place: int, pool: Pool, device: PooledDevice
    ) -> bool:
        """Allocate the device to the request, and search for all remaining devices. Return whether they were found.

        The request already has `num_allocated` devices, and the search for its next device begins at index
        `next_place`. If the search fails, the allocation is undone, except for mode All in versions that keep it.
        """
        self.limit.count_step()
        wants_all = position in self.all_devices
        if not self._try_allocate_device(position, pool, device):
            return wants_all and self._search_past_unavailable_device(position, num_allocated)

        keeps_device_on_failure = wants_all and self.unavailable_of_all is not UnavailableOfAll.RELEASE_TAKEN
        found_all = False
        try:
            if wants_all:
                found_all = self._search_missing_devices_of_mode_all(position, num_allocated)
            else:
                found_all = self._search_missing_devices(position, num_allocated + 1, next_place)
        finally:
            if not found_all and not keeps_device_on_failure:
                self._release_device(position, pool, device)
        return found_all

    def _search_past_unavailable_device(self, position: SearchPosition, num_allocated: int) -> bool:
        """Handle a device of a request with mode All that cannot be allocated. Return whether the search succeeds.

        Some versions skip the device and search on, and other versions fail. Others raise _SearchEndedError, which ends
        the whole search. `num_allocated` is the number of devices before this device.
        """
        match self.unavailable_of_all:
            case UnavailableOfAll.END_SEARCH:
                raise _SearchEndedError
            case UnavailableOfAll.SKIP_DEVICE:
                return self._search_missing_devices_of_mode_all(position, num_allocated)
        return False

    def _search_missing_devices_of_mode_all(self, position: SearchPosition, num_allocated: int) -> bool:
        """Search for the devices of a request with mode All that follow the current device, and for all later requests.

        Return whether all devices were found. `num_allocated` is the number of devices before the current device.
        Before 1.36, the search goes on with the request's first alternative. Before 1.32, AllocationError is raised
        if devices are missing.
        """
        forgets_alternative = NEXT_ALTERNATIVE.at(self.features.release) is NextAlternative.FIRST
        if forgets_alternative:
            position = position._replace(alternative=0)
        found_all = self._search_missing_devices(position, num_allocated + 1)
        if not found_all and self.unavailable_of_all is UnavailableOfAll.SKIP_DEVICE:
            raise AllocationError("stop allocation")  # upstream's internal errStop, which these versions let through
        return found_all

    def _has_too_few_devices(self, position: SearchPosition) -> bool:
        """Return whether the search can be skipped, because the node certainly has too few devices for the request.

        Return False if the result of the search is uncertain. Raises AllocationError if a selector fails for a device,
        and SearchTimeoutError if upstream's search would certainly time out.
        """
        num_requested = self._count_requested_devices(position)
        if num_requested < 2:  # the search of a single device is short
            return False
        # Upstream does not give back all counters, so the order of the search may change the result.
        if self.may_consume_counters:
            return False
        num_candidates = 0
        for pool, device in self.places:
            if pool.invalid:  # the search may raise an error
                return False
            # A search in any order comes back to a device, so that the same device may fill the whole request.
            if self.limit.any_order and self._can_take_again(position, device):
                return False
            is_allocatable = (
                self.is_candidate(position, device)
                and self._can_consume_counters(device)
                and not self._is_tainted(position, device)
            )
            num_candidates += is_allocatable
            if num_candidates == num_requested:
                return False

        # The search would fail. Skipping it must not hide that upstream times out in it. Without constraints, upstream
        # has no reason to stop before it has tried all sequences of candidates.
        has_constraints = bool(self.claims[position.claim].constraints)
        return self.limit.can_skip_search(num_candidates, all_tried=not has_constraints)

    def _find_next_search_index(self, position: SearchPosition, index: int, device: PooledDevice) -> int:
        """Return the index in `self.places` from which to search for the request's next device.

        `device`, at `index`, is the request's latest device. In some versions, upstream's search begins again at the
        first device. This search does so only if the order of devices can change the result. A device that the request
        can take again is tried again in these versions.
        """
        if not self.limit.any_order:
            return index + 1

        constraints = self.claims[position.claim].constraints
        has_distinct_attribute = any(constraint.distinct_attribute is not None for constraint in constraints)
        distinct_depends_on_order = has_distinct_attribute and self.features.uses_newer_allocator
        order_can_change_result = self.may_consume_counters or distinct_depends_on_order
        if order_can_change_result:
            return 0  # search in upstream's order
        return index if self._can_take_again(position, device) else index + 1

    def _can_take_again(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether the request can get the same device a second time.

        The device must be shareable or, in older versions, the request may have adminAccess instead.
        """
        if self.is_shareable(device):
            return True
        return bool(self._get_request(position).admin_access) and ADMIN_TWICE.at(self.features.release)

    # -- one device ------------------------------------------------------------------------------------------------

    def is_candidate(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether the device is free, selected and large enough. Raises AllocationError if a selector fails."""
        if self.is_in_use(position, device):
            return False
        return self.is_selectable(position, device) and self.has_capacity(self._get_request(position), device)

    def is_in_use(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether the request cannot get the device because an allocated claim or this search has taken it.

        A request with adminAccess can also get a taken device. Since 1.34, it cannot get a device that its claim
        already got in this search.
        """
        users = self.users.get(device.id, ())
        if self._get_request(position).admin_access:
            return position.claim in users and not ADMIN_TWICE.at(self.features.release)
        return device.id in self.state.dedicated or bool(users)

    def is_selectable(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether all selectors of the request match the device and the device is available on the node.

        Devices with binding conditions are not selectable if the version does not support them. Before 1.32, the
        selectors of the device class do not apply to mode All. The answer is cached. Raises AllocationError if a
        selector fails.
        """
        if device.device.binding_conditions and not self.features.binding_conditions:
            return False
        key = (position, device.id)
        if key not in self.selectable:
            request = self._get_request(position)
            selectors = request.selectors
            if request.mode == ALL and not ALL_OF_CLASS.at(self.features.release):
                selectors = tuple(selector for selector in selectors if not selector.of_class)
            shows_sharing = self.features.uses_newer_allocator  # whether selectors see allowMultipleAllocations
            is_selected = all(self.inventory.matches_selector(cel, device, shares=shows_sharing) for cel in selectors)
            self.selectable[key] = is_selected and self.inventory.is_on_node(device, self.row)
        return self.selectable[key]

    def has_capacity(self, request: Request, device: PooledDevice) -> bool:
        """Return whether the device has enough capacity left for the request.

        Without DRAConsumableCapacity, capacity is not checked. Raises AllocationError if an amount is negative or
        cannot be represented, in versions that reject such amounts.
        """
        if not self.features.consumable_capacity:
            return True
        taken = self.state.consumed.get(device.id, {}), self.taken.get(device.id, {})
        return capacity.fits_capacity(request.capacity, device.device.capacity, *taken, arithmetic=self.arithmetic)

    def _is_large_enough(self, request: Request, device: PooledDevice) -> bool:
        """Return whether the device's capacity is large enough for a request with mode All to include the device.

        Since 1.37, the device's total capacity decides. The request then fails if a large enough device has too little
        capacity left. Older versions leave out such a device, because they look at its remaining capacity. Raises
        AllocationError if the requested amount is rejected.
        """
        if self.features.consumable_capacity and ALL_HAVE_ROOM.at(self.features.release):
            return capacity.fits_capacity(request.capacity, device.device.capacity, arithmetic=self.arithmetic)
        return self.has_capacity(request, device)

    def is_shareable(self, device: PooledDevice) -> bool:
        """Return whether the device can be allocated several times."""
        return self.features.consumable_capacity and bool(device.device.allow_multiple_allocations)

    def _try_allocate_device(self, position: SearchPosition, pool: Pool, device: PooledDevice) -> bool:
        """Allocate a device that the request selects, and return True.

        Return False if the device is taken or tainted, has too little capacity or too few counters left, or violates a
        constraint. In this case, changes made so far are undone, except for changes that the version of upstream
        forgets to undo. For a request with mode All, AllocationError is raised if the device violates a constraint.
        """
        if not self._is_device_available(position, device):
            return False

        # Charge the counters.
        charged = bool(device.consumes) and not self._is_already_charged(device)
        if charged and not self.counters.try_take_counters(pool, device):
            return False

        # Check the taints, and add the device to the constraints.
        if self._is_tainted(position, device) or not self._try_add_to_constraints(position, device):
            if charged and self.undoes_all:
                self.counters.give_back_counters(pool, device)
            return False

        # Check the capacity.
        if not self.has_capacity(self._get_request(position), device):
            self._undo_charge_and_constraints(position, pool, device, charged=charged)
            return False

        self._record_allocation(position, device, charged=charged)
        return True

    def _record_allocation(self, position: SearchPosition, device: PooledDevice, *, charged: bool) -> None:
        """Append the device to the claim's results, and record that the device, or a share of it, is taken.

        `charged` says whether its counters were charged. Raises AllocationError for an invalid amount of a share.
        """
        request = self._get_request(position)
        consumed: Quantities = {}
        is_first_share = False
        is_shared = self.is_shareable(device)
        if is_shared:
            is_first_share = device.id not in self.taken
            consumed = capacity.compute_consumption(request.capacity, device.device.capacity, self.arithmetic)
            add_quantities(self.taken.setdefault(device.id, {}), consumed)
        else:
            self.users[device.id].add(position.claim)
        self.results[position.claim].append(
            AllocatedDevice(request, device, consumed=consumed, shared=is_shared, charged=charged, first=is_first_share)
        )

    def _undo_charge_and_constraints(
        self, position: SearchPosition, pool: Pool, device: PooledDevice, *, charged: bool
    ) -> None:
        """Undo the choice of a device that turned out to have too little capacity.

        The device is removed from the constraints and, if `charged` is set, its counters are given back. Before 1.37,
        nothing is undone, and a device that cannot be shared even counts as used by the claim.
        """
        if not self.undoes_all:
            if not self.is_shareable(device):
                self.users[device.id].add(position.claim)
            return
        for constraint in self.constraints[position.claim]:
            constraint.remove(self._get_request(position))
        if charged:
            self.counters.give_back_counters(pool, device)

    def _is_device_available(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether the device's counters can be consumed and no other use keeps the request from the device.

        A shareable device may be in use if the request has adminAccess.
        """
        if not self._can_consume_counters(device):
            return False
        is_shared_by_admin = self.is_shareable(device) and bool(self._get_request(position).admin_access)
        return is_shared_by_admin or not self.is_in_use(position, device)

    def _is_already_charged(self, device: PooledDevice) -> bool:
        """Return whether another share of the device has already been charged for the device's counters.

        Before 1.35, every share is charged. Before 1.37, only shares that consume capacity count as charged.
        """
        release, state = self.features.release, self.state
        if EACH_SHARE.at(release) or not self.is_shareable(device):
            return False
        if device.id in state.shared and not CHARGED_TWICE.at(release):
            return True
        return device.id in state.consumed or device.id in self.taken

    def _can_consume_counters(self, device: PooledDevice) -> bool:
        """Return whether the device needs no counters or may consume them with the enabled feature gates."""
        return not device.device.consumes_counters or self.features.partitionable_devices or self.all_consumers

    def _is_tainted(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Return whether the device has a taint that the request does not tolerate.

        Return False if DRADeviceTaints is off.
        """
        if not self.features.device_taints:
            return False
        return self._get_request(position).find_untolerated_taint(device.device) is not None

    def _try_add_to_constraints(self, position: SearchPosition, device: PooledDevice) -> bool:
        """Add the device to all constraints of the claim, and return whether it violates none of them.

        If it violates one, it is removed from the constraints to which it was already added. For a request with mode
        All, AllocationError is raised instead.
        """
        request = self._get_request(position)
        constraints = self.constraints[position.claim]
        for i, constraint in enumerate(constraints):
            if constraint.add(request, device):
                continue
            if position in self.all_devices:
                raise AllocationError(
                    f"claim {self.claims[position.claim].key}, request {request.name}: cannot add device "
                    f"{device.label} because a claim constraint would not be satisfied"
                )
            for earlier in constraints[:i]:
                earlier.remove(request)
            return False
        return True

    def _release_device(self, position: SearchPosition, pool: Pool, device: PooledDevice) -> None:
        """Undo the claim's latest allocation, which must be the allocation of `device`.

        Before 1.37, some effects of the allocation of a shared device stay, because upstream forgets to undo them.
        """
        for constraint in self.constraints[position.claim]:
            constraint.remove(self._get_request(position))
        self.users[device.id].discard(position.claim)
        result = self.results[position.claim].pop()
        if result.charged and (self.undoes_all or not result.shared):
            self.counters.give_back_counters(pool, device)

        # Give back the capacity of a share, and forget the device with its last share. Upstream before 1.37 never
        # forgets a share that consumes no capacity.
        is_share_forgotten = result.shared and (self.undoes_all or bool(result.consumed))
        if not is_share_forgotten:
            return
        taken = self.taken[device.id]
        for name, amount in result.consumed.items():
            taken[name] = taken[name].sub(amount)
        # The search releases devices in reverse order, so the share that was allocated first is released last.
        is_last_share = result.first if self.undoes_all else all(amount.mantissa == 0 for amount in taken.values())
        if is_last_share:
            del self.taken[device.id]
