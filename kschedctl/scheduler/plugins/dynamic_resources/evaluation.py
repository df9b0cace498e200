"""Evaluation of one pod's claims on every node, with a single search for nodes with equivalent devices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import AllocationResult, DeviceClaim, Pod, ResourceClaim, ResourceClaimSpec
from kschedctl.api.quantity import parse_value
from kschedctl.scheduler.framework import Code, PluginError
from kschedctl.scheduler.framework.extended_resources import build_device_requests
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.plugins.dynamic_resources.allocator import InvalidPoolsError, Search
from kschedctl.scheduler.plugins.dynamic_resources.claims import CANNOT_ALLOCATE, NOT_AVAILABLE, PodClaims
from kschedctl.scheduler.plugins.dynamic_resources.diagnosis import FreeDevices, diagnose_node, iter_free_devices
from kschedctl.scheduler.plugins.dynamic_resources.facts import (
    ClaimsUnusable,
    DeviceSearchFailed,
    ResourceNotOffered,
    UnusableClaim,
)
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.requests import (
    AllocatedDevice,
    Allocation,
    AllocationError,
    ClaimRequests,
    build_allocation_result,
    read_claim,
    reject_combined_node_selectors,
)
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import FILTER_SECONDS, SearchTimeoutError
from kschedctl.snapshot.fork import drop_oldest_if_full

MAX_CACHED_VERDICTS = 4096
MAX_ALTERNATIVES = 8
"""Alternatives that a request can have (resource/v1 FirstAvailableDeviceRequestMaxSize)."""


TIMED_OUT = ByVersion(
    "status and reason for a node on which the device search times out",
    (
        ("", (Code.UNRESOLVABLE, "timed out trying to allocate devices")),
        ("1.36", (Code.ERROR, "{}: timed out trying to allocate devices")),
    ),
)


class _ResourceNotProvidedError(Exception):
    """An extended resource that neither the node nor a DeviceClass provides."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


class DeviceVerdict(NamedTuple):
    """The result of Filter for a node, with the allocation if the node passes."""

    code: Code = Code.SUCCESS
    reason: str = ""
    allocation: Allocation | None = None
    searched: bool = False
    """True if devices were searched."""
    expression: str = ""
    """The CEL selector that failed."""
    decided_before_claims: bool = False
    """True if the result was clear before any claim was examined."""
    places: tuple[tuple[int, ...], ...] = ()
    """The indices of the allocated devices among the node's devices, by claim, valid for all nodes with equal keys."""


NOTHING_TO_DO = DeviceVerdict(decided_before_claims=True)
NOTHING_TO_ALLOCATE = DeviceVerdict()


class AllocatedClaim(NamedTuple):
    """An allocated claim and the nodes on which it cannot be used."""

    unselected: Bools
    """Mask of nodes (N,) that the allocation's node selector excludes."""
    unavailable: Bools
    """Mask of nodes (N,) on which the claim cannot be used, for whatever reason."""
    why: UnusableClaim
    """The claim's name and the reason."""


@dataclass(eq=False)
class Evaluation:
    """The claims of a pod and the results of Filter and Score for every node."""

    inventory: Inventory
    pod: Pod
    claims: PodClaims
    allocated_claims: Mapping[int, AllocatedClaim]
    """The claims that are allocated, by their position among all."""
    resources: tuple[str, ...] = ()
    """The extended resources that the pod requests."""
    like: Hashable = None
    """A key that is equal for pods whose claims request the same, or None if verdicts cannot be shared."""
    seconds: float = FILTER_SECONDS
    """The time limit of a search in seconds, or 0 for none."""

    @property
    def outcomes(self) -> list[DeviceVerdict]:
        """The verdicts for all nodes (N,). They are valid until a claim changes."""
        return self._unshared_outcomes if self.shared_verdicts is None else self.shared_verdicts.outcomes

    @cached_property
    def shared_verdicts(self) -> SharedVerdicts | None:
        """The up-to-date verdicts that pods with an equal `like` share, or None if the verdicts cannot be shared.

        Verdicts cannot be shared if `like` is None, or if the verdict for some node is an error.
        """
        if self.like is None:
            return None
        verdicts = self.inventory.shared_verdicts.get_or_make(self.like, lambda: SharedVerdicts(self))
        verdicts.reevaluate_changed_nodes()
        return None if verdicts.failing else verdicts

    @cached_property
    def _unshared_outcomes(self) -> list[DeviceVerdict]:
        """The verdict for each node, by row, computed for this pod only. Equivalent nodes are evaluated once."""
        verdicts_by_key: dict[object, DeviceVerdict] = {}
        outcomes = []
        for row, claim_unavailable in enumerate(self.unavailable_nodes.tolist()):
            key = self.build_node_key(row, claim_unavailable=claim_unavailable)
            outcome = verdicts_by_key.get(key)
            if outcome is None or outcome.code is Code.ERROR:  # an error is not shared, because it may name the node
                outcome = verdicts_by_key[key] = self.evaluate_node(row, claim_unavailable=claim_unavailable)
            outcomes.append(outcome)
        return outcomes

    @cached_property
    def unavailable_nodes(self) -> Bools:
        """Mask of nodes (N,) on which some allocated claim cannot be used."""
        masks = [claim.unavailable for claim in self.allocated_claims.values()]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(self.inventory.nodes), np.bool_)

    def list_rejections(self) -> list[tuple[Bools, DeviceVerdict]]:
        """Return, for each code and reason, the mask (N,) of the rejected nodes and the verdict for the first of them.

        Rejections are ordered by their first nodes. Raises PluginError if the node selector of a slice cannot be read.
        """
        try:
            if self.shared_verdicts is not None:
                return self.shared_verdicts.list_rejections()
            outcomes = self.outcomes
        except AllocationError as error:
            raise PluginError(str(error)) from None

        rejected_rows: dict[tuple[Code, str], list[int]] = {}
        for row, outcome in enumerate(outcomes):
            if outcome.code is not Code.SUCCESS:
                rejected_rows.setdefault((outcome.code, outcome.reason), []).append(row)
        rejections = []
        for rows in rejected_rows.values():
            is_rejected = np.zeros(len(outcomes), np.bool_)
            is_rejected[rows] = True
            first_row = rows[0]
            rejections.append((is_rejected, outcomes[first_row]))
        return rejections

    def build_allocations(self, row: int) -> list[AllocationResult]:
        """Build the allocation results that the pod's unallocated claims would get on a node, in the order of claims.

        The list is empty if the node is rejected or nothing has to be allocated.
        """
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or not outcome.searched:
            return []
        # The verdict may come from an equivalent node, so its devices are looked up again by their places.
        visible, features = self.inventory.visible, self.inventory.features
        devices, node_selector = visible.list_devices(row), visible.get_node_selector(row)
        return [
            build_allocation_result(results, [devices[place] for place in places], node_selector, features)
            for results, places in zip(outcome.allocation or (), outcome.places, strict=True)
        ]

    def compute_scores(self, rows: Rows) -> Scores:
        """Score the nodes in `rows`: the earlier the allocated alternatives, the higher the score.

        All scores are 0 if no request has alternatives, and a rejected node always scores 0.
        """
        example = self if self.shared_verdicts is None else self.shared_verdicts.example
        if not example.has_alternatives:
            return np.zeros(len(rows), np.int64)
        return np.array([self._score_node(row) for row in rows.tolist()], np.int64)

    @cached_property
    def has_alternatives(self) -> bool:
        """True if some request of the pod's claims has a prioritized list of alternatives."""
        return any(request.exactly is None for claim in self.claims.all for request in claim.spec.devices.requests)

    def _score_node(self, row: int) -> int:
        """Return the score of one node, or 0 if it is rejected or no devices were allocated on it."""
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or outcome.allocation is None:
            return 0
        new_devices = iter(outcome.allocation)  # one entry for each claim without an allocation
        score = 0
        for claim in self.claims.all:
            if claim.status.allocation:
                score += score_alternatives(claim)
            else:
                score += score_alternatives(claim, next(new_devices))
        return score

    def explain_rejection(self, row: int) -> Fact:
        """Return the fact that explains why the node is rejected.

        The fact names the allocated claims that cannot be used on the node, or an extended resource that the node does
        not offer. Otherwise, the fact is an error of the search or a diagnosis of the devices.
        """
        outcome = self.outcomes[row]
        if outcome.reason == NOT_AVAILABLE:
            unavailable = [claim for claim in self.allocated_claims.values() if claim.unavailable[row]]
            return ClaimsUnusable(tuple(claim.why for claim in unavailable))
        try:
            resources = self._find_device_backed_resources(row)
        except _ResourceNotProvidedError as error:
            return ResourceNotOffered(error.resource)
        try:
            claims = self._read_unallocated_claims(resources)
        except AllocationError as error:  # a claim is faulty, so no devices were searched
            return DeviceSearchFailed(str(error))

        # Devices can only be diagnosed if the search for them ended without an error.
        was_searched_without_error = outcome.searched and outcome.code is not Code.ERROR
        if not was_searched_without_error:
            return DeviceSearchFailed(outcome.reason, outcome.expression)
        return diagnose_node(self.inventory, row, claims)

    def list_free_devices(self, row: int) -> list[FreeDevices]:
        """Return the free devices of the node for each request and alternative.

        The list is empty if a claim or pool cannot be read.
        """
        try:
            claims = self._read_unallocated_claims(self._find_device_backed_resources(row))
            return list(iter_free_devices(self.inventory, row, claims))
        except (_ResourceNotProvidedError, AllocationError, InvalidPoolsError):
            return []

    def evaluate_node(self, row: int, *, claim_unavailable: bool) -> DeviceVerdict:
        """Return the verdict for a node, after a search for devices if some claim has to be allocated.

        The node is rejected without a search if the pod still has a claim for extended resources from an earlier
        attempt. It is also rejected if neither the node nor devices can provide an extended resource.
        `claim_unavailable` says that an allocated claim cannot be used on the node. As in upstream, this rejects the
        node only after a successful search.
        """
        extended = self.claims.extended
        # A claim that this attempt would create has no requests yet
        is_from_earlier_attempt = extended is not None and bool(extended.spec.devices.requests)
        if is_from_earlier_attempt:  # PostFilter deletes the claim
            return DeviceVerdict(
                Code.UNRESOLVABLE, "cannot schedule extended resource claim", decided_before_claims=True
            )
        try:
            resources = self._find_device_backed_resources(row)
        except _ResourceNotProvidedError:
            return DeviceVerdict(Code.UNRESOLVABLE, "cannot fit resource", decided_before_claims=True)
        is_extended_allocated = extended is not None and extended.status.allocation is not None
        needs_extended_claim = bool(resources) and not is_extended_allocated
        if not self.claims.own_claims and not needs_extended_claim:
            return NOTHING_TO_DO

        outcome = NOTHING_TO_ALLOCATE
        if self.claims.to_allocate:
            outcome = self._search_devices(row, resources)
        if outcome.code is Code.SUCCESS and claim_unavailable:
            return outcome._replace(code=Code.UNRESOLVABLE, reason=NOT_AVAILABLE)
        return outcome

    def _search_devices(self, row: int, resources: tuple[str, ...]) -> DeviceVerdict:
        """Search a node for devices for the unallocated claims, and return the verdict.

        `resources` are the extended resources that need devices. On success, the verdict has the allocation and
        the places of its devices. Errors and timeouts become verdicts as well.
        """
        try:
            search = Search(self.inventory, row, self._read_unallocated_claims(resources), self.seconds)
            allocation = search.run()
            if allocation is not None:
                reject_combined_node_selectors(self.claims.to_allocate, allocation)
        except AllocationError as error:
            return DeviceVerdict(Code.ERROR, str(error), searched=True, expression=error.expression)
        except InvalidPoolsError as error:
            return DeviceVerdict(Code.UNRESOLVABLE, str(error), searched=True)
        except SearchTimeoutError as error:
            return self._build_timeout_verdict(row, error)
        if allocation is None:
            return DeviceVerdict(Code.UNRESOLVABLE, CANNOT_ALLOCATE, searched=True)

        # An equivalent node takes over the verdict, with its own devices at the same places of its device list.
        devices = self.inventory.visible.list_devices(row)
        places = tuple([tuple([devices.index(result.device) for result in results]) for results in allocation])
        return DeviceVerdict(allocation=allocation, searched=True, places=places)

    def _build_timeout_verdict(self, row: int, error: SearchTimeoutError) -> DeviceVerdict:
        """Build the verdict for a node whose search timed out.

        If kschedctl gave up searching before upstream would have, the verdict is an error, because upstream's result is
        unknown.
        """
        node = f"node {self.inventory.nodes.names[row]}"
        if not error.upstream:
            return DeviceVerdict(Code.ERROR, f"{node}: {error}", searched=True)
        code, reason = TIMED_OUT.at(self.inventory.features.release)
        return DeviceVerdict(code, reason.format(node), searched=True)

    def _find_device_backed_resources(self, row: int) -> tuple[str, ...]:
        """Return the requested extended resources that only devices can provide on the node.

        These resources have a DeviceClass, and the node itself offers nothing of them. Raises _ResourceNotProvidedError
        if neither the node nor a DeviceClass provides one of the resources.
        """
        allocatable = self.inventory.nodes.objects[row].status.allocatable
        names = []
        for name in self.resources:
            if name in self.inventory.classes_by_resource and parse_value(allocatable.get(name, 0)) == 0:
                names.append(name)
            elif name not in allocatable:
                raise _ResourceNotProvidedError(name)
        return tuple(names)

    def _read_unallocated_claims(self, resources: tuple[str, ...]) -> tuple[ClaimRequests, ...]:
        """Read the requests of the unallocated claims, and cache the result by `resources`.

        The claim for extended resources gets one request for each of `resources`. Raises AllocationError for a faulty
        claim.
        """
        if resources not in self._claims_by_resources:
            classes, features = self.inventory.classes, self.inventory.features
            claims = []
            for claim in self.claims.to_allocate:
                is_extended = claim is self.claims.extended
                complete_claim = self._add_device_requests(claim, resources) if is_extended else claim
                claims.append(read_claim(complete_claim, classes, features))
            self._claims_by_resources[resources] = tuple(claims)
        return self._claims_by_resources[resources]

    @cached_property
    def _claims_by_resources(self) -> dict[tuple[str, ...], tuple[ClaimRequests, ...]]:
        """A cache of the parsed claims by the extended resources that devices provide."""
        return {}

    def _add_device_requests(self, claim: ResourceClaim, resources: tuple[str, ...]) -> ResourceClaim:
        """Return the claim for extended resources with requests for devices that provide `resources`."""
        requests = build_device_requests(self.pod, resources, self.inventory.classes_by_resource)
        return replace(claim, spec=ResourceClaimSpec(DeviceClaim(requests)))

    def build_node_key(self, row: int, *, claim_unavailable: bool) -> object:
        """Build a key that is equal for nodes with the same verdict.

        The key consists of the node's devices with their allocations, and the offered amounts of the requested extended
        resources. It also says whether an allocated claim cannot be used on the node (`claim_unavailable`).
        """
        device_key = self.inventory.build_device_key(row)
        if not self.resources:
            return claim_unavailable, device_key
        allocatable = self.inventory.nodes.objects[row].status.allocatable
        return claim_unavailable, device_key, tuple(str(allocatable.get(name)) for name in self.resources)


class SharedVerdicts:
    """The verdicts for all nodes, shared by pods whose claims request the same and updated as claims change."""

    def __init__(self, example: Evaluation) -> None:
        self.example = example
        """The evaluation of one of the pods, which represents all of them."""
        self.failing = False
        """True once some verdict is an error. Then nothing is shared, because errors name the pod's own claims."""
        self.outcomes = [NOTHING_TO_ALLOCATE] * len(example.inventory.nodes)
        """The verdicts for all nodes (N,)."""
        self._verdicts_by_key: dict[object, DeviceVerdict] = {}
        self._rejections: dict[tuple[Code, str], tuple[Bools, DeviceVerdict]] = {}
        """The rejections with their masks of nodes (N,), by code and reason."""
        self._sorted_rejections: list[tuple[Bools, DeviceVerdict]] | None = None
        """The cached result of list_rejections, or None if a verdict has changed."""
        self._num_changes_seen = len(example.inventory.changed_pools)
        self._evaluate_nodes(range(len(self.outcomes)))

    def reevaluate_changed_nodes(self) -> None:
        """Evaluate again the nodes that see a changed pool.

        A pool has changed if devices in it were allocated or released since the last update. After a verdict has been
        an error, nothing is done, because the verdicts are no longer shared.
        """
        changed_pools = self.example.inventory.changed_pools
        if self._num_changes_seen == len(changed_pools) or self.failing:
            return
        distinct_pools = dict.fromkeys(changed_pools[self._num_changes_seen :])
        self._num_changes_seen = len(changed_pools)
        for pool in distinct_pools:
            self._evaluate_nodes(self.example.inventory.visible.find_rows_of_nodes_seeing_pool(pool))

    def list_rejections(self) -> list[tuple[Bools, DeviceVerdict]]:
        """Return, for each code and reason, the mask (N,) of the rejected nodes and the verdict for one of them.

        Rejections are ordered by their first nodes. The result is cached until a verdict changes.
        """
        if self._sorted_rejections is None:
            rejections = [(mask.copy(), outcome) for mask, outcome in self._rejections.values() if mask.any()]
            rejections.sort(key=lambda rejection: int(rejection[0].argmax()))  # argmax is the first rejected row
            self._sorted_rejections = rejections
        return self._sorted_rejections

    def _evaluate_nodes(self, rows: Iterable[int]) -> None:
        """Evaluate the nodes in `rows` and record their verdicts. Equivalent nodes are evaluated once."""
        for row in rows:
            key = self.example.build_node_key(row, claim_unavailable=False)
            outcome = self._verdicts_by_key.get(key)
            if outcome is None:
                drop_oldest_if_full(self._verdicts_by_key, MAX_CACHED_VERDICTS)
                outcome = self._verdicts_by_key[key] = self.example.evaluate_node(row, claim_unavailable=False)
            self._record_verdict(row, outcome)

    def _record_verdict(self, row: int, outcome: DeviceVerdict) -> None:
        """Record the verdict for a node, and keep the masks of rejected nodes up to date.

        There is one mask for each code and reason. An error sets `failing`, so that the verdicts are no longer shared.
        """
        previous = self.outcomes[row]
        self.outcomes[row] = outcome
        if outcome.code is Code.ERROR:
            self.failing = True
        if previous.code is Code.SUCCESS and outcome.code is Code.SUCCESS:
            return  # no mask changes

        # Take the node out of its previous mask, and put it into its new one.
        self._sorted_rejections = None  # outdated
        if previous.code is not Code.SUCCESS:
            mask, _ = self._rejections[previous.code, previous.reason]
            mask[row] = False
        if outcome.code is not Code.SUCCESS:
            key = outcome.code, outcome.reason
            if key not in self._rejections:
                no_nodes = np.zeros(len(self.outcomes), np.bool_)
                self._rejections[key] = (no_nodes, outcome)
            mask, _ = self._rejections[key]
            mask[row] = True


def score_alternatives(claim: ResourceClaim, new_devices: tuple[AllocatedDevice, ...] = ()) -> int:
    """Return the total score of the alternatives to which devices of the claim are allocated.

    The earlier an alternative comes in its request's list, the higher its score. `new_devices` are the devices that an
    unallocated claim would get.
    """
    allocated_names = {result.request.full_name for result in new_devices}
    if claim.status.allocation:
        allocated_names.update(result.request for result in claim.status.allocation.devices.results)
    score = 0
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            continue
        for position, alternative in enumerate(request.first_available):
            if f"{request.name}/{alternative.name}" in allocated_names:
                score += MAX_ALTERNATIVES - position
    return score
