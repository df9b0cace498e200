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
    check_node_selectors,
    read_claim,
)
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import FILTER_SECONDS, SearchTimeoutError
from kschedctl.snapshot.fork import drop_oldest_if_full

OUTCOMES_KEPT = 4096
MAX_ALTERNATIVES = 8
"""Alternatives that a request can have (resource/v1 FirstAvailableDeviceRequestMaxSize)."""


TIMED_OUT = ByVersion(
    "what is said of a node for which the search took too long",
    (
        ("", (Code.UNRESOLVABLE, "timed out trying to allocate devices")),
        ("1.36", (Code.ERROR, "{}: timed out trying to allocate devices")),
    ),
)


class DeviceVerdict(NamedTuple):
    """The answer of Filter for a node, with the allocation if the node passes."""

    code: Code = Code.SUCCESS
    reason: str = ""
    allocation: Allocation | None = None
    searched: bool = False
    """Whether devices were searched."""
    expression: str = ""
    """The CEL selector that failed."""
    settled: bool = False
    """Whether the answer was clear before any claim was examined."""
    places: tuple[tuple[int, ...], ...] = ()
    """The indices of the allocated devices among the node's devices, by claim. They hold for all nodes that are
    alike.
    """


NOTHING_TO_DO = DeviceVerdict(settled=True)
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
    """The claims of a pod and the answers of Filter and Score for every node."""

    inventory: Inventory
    pod: Pod
    claims: PodClaims
    allocated_claims: Mapping[int, AllocatedClaim]
    """The claims that are allocated, by their position among all."""
    resources: tuple[str, ...] = ()
    """The extended resources that the pod requests."""
    like: Hashable = None
    """A key that is equal for pods whose claims request the same, or None if answers cannot be shared."""
    seconds: float = FILTER_SECONDS
    """The time limit of a search in seconds, or 0 for none."""

    @property
    def outcomes(self) -> list[DeviceVerdict]:
        """The verdicts for all nodes (N,). They are valid until a claim changes."""
        return self._own_outcomes if self.shared_answers is None else self.shared_answers.outcomes

    @cached_property
    def shared_answers(self) -> NodeAnswers | None:
        """The answers shared by all pods whose claims request the same, or None if this pod needs answers of its
        own.
        """
        if self.like is None:
            return None
        node_answers = self.inventory.answers.get_or_make(self.like, lambda: NodeAnswers(self))
        node_answers.update()
        return None if node_answers.failing else node_answers

    @cached_property
    def _own_outcomes(self) -> list[DeviceVerdict]:
        """The verdicts for all nodes (N,), computed for this pod alone."""
        device_verdicts: dict[object, DeviceVerdict] = {}
        answers = []
        refused = self.unavailable_nodes
        for row in range(len(self.inventory.nodes)):
            key = self.build_node_key(row, bool(refused[row]))
            outcome = device_verdicts.get(key)
            if outcome is None or outcome.code is Code.ERROR:  # an error names its own pool, device or node
                outcome = device_verdicts[key] = self.evaluate_node(row, bool(refused[row]))
            answers.append(outcome)
        return answers

    @cached_property
    def unavailable_nodes(self) -> Bools:
        """Mask of nodes (N,) on which some allocated claim cannot be used."""
        masks = [claim.unavailable for claim in self.allocated_claims.values()]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(self.inventory.nodes), np.bool_)

    def list_rejections(self) -> list[tuple[Bools, DeviceVerdict]]:
        """Return the distinct rejections, each with its mask of nodes (N,). Raises PluginError."""
        try:
            answers = self.shared_answers
            if answers is not None:
                return answers.list_rejections()
            outcomes = self.outcomes
        except AllocationError as error:  # slices whose node selector cannot be read
            raise PluginError(str(error)) from None
        rows: dict[tuple[Code, str], list[int]] = {}
        for row, outcome in enumerate(outcomes):
            if outcome.code is not Code.SUCCESS:
                rows.setdefault((outcome.code, outcome.reason), []).append(row)
        numbers = np.arange(len(outcomes))
        return [(np.isin(numbers, rejected_rows), outcomes[rejected_rows[0]]) for rejected_rows in rows.values()]

    def build_allocations(self, row: int) -> list[AllocationResult]:
        """Build the allocation results that the pod's unallocated claims would get on a node.

        The list is empty if the node is rejected or nothing has to be allocated.
        """
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or not outcome.searched:
            return []
        visible, features = self.inventory.visible, self.inventory.features
        devices, itself = visible.list_devices(row), visible.get_node_selector(row)
        return [
            build_allocation_result(results, [devices[place] for place in places], itself, features)
            for results, places in zip(outcome.allocation or (), outcome.places, strict=True)
        ]

    def compute_scores(self, rows: Rows) -> Scores:
        """Return the scores (F,) of the nodes in `rows`. Earlier alternatives of requests score higher."""
        example = self if self.shared_answers is None else self.shared_answers.example
        if not example.has_alternatives:
            return np.zeros(len(rows), np.int64)
        return np.array([self._score_node(row) for row in rows.tolist()], np.int64)

    @cached_property
    def has_alternatives(self) -> bool:
        """True if some request has a prioritised list of alternatives."""
        return any(request.exactly is None for claim in self.claims.all for request in claim.spec.devices.requests)

    def _score_node(self, row: int) -> int:
        """Return the score of one node."""
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or outcome.allocation is None:
            return 0
        chosen = iter(outcome.allocation)
        return sum(
            score_alternatives(claim) if claim.status.allocation else score_alternatives(claim, next(chosen))
            for claim in self.claims.all
        )

    def explain_rejection(self, row: int) -> Fact:
        """Return the fact that explains why the node is rejected."""
        outcome = self.outcomes[row]
        if outcome.reason == NOT_AVAILABLE:
            return ClaimsUnusable(
                tuple(claim.why for claim in self.allocated_claims.values() if claim.unavailable[row])
            )
        try:
            claims = self._read_claims(self._find_device_backed_resources(row))
        except LookupError as missing:
            return ResourceNotOffered(missing.args[0])
        except AllocationError as error:
            return DeviceSearchFailed(str(error))
        if outcome.searched and outcome.code is not Code.ERROR:
            return diagnose_node(self.inventory, row, claims)
        return DeviceSearchFailed(outcome.reason, outcome.expression)

    def list_free_devices(self, row: int) -> list[FreeDevices]:
        """Return the free devices of the node for each request, or an empty list if they are unknown."""
        try:
            return list(
                iter_free_devices(self.inventory, row, self._read_claims(self._find_device_backed_resources(row)))
            )
        except (LookupError, AllocationError, InvalidPoolsError):
            return []

    def evaluate_node(self, row: int, claim_unavailable: bool) -> DeviceVerdict:
        """Return the verdict for a node."""
        extended = self.claims.extended
        if extended is not None and extended.spec.devices.requests:
            return DeviceVerdict(Code.UNRESOLVABLE, "cannot schedule extended resource claim", settled=True)
        try:
            resources = self._find_device_backed_resources(row)
        except LookupError:
            return DeviceVerdict(Code.UNRESOLVABLE, "cannot fit resource", settled=True)
        if not self.claims.own_claims and (not resources or (extended and extended.status.allocation)):
            return NOTHING_TO_DO
        outcome = self._search_devices(row, resources) if self.claims.to_allocate else NOTHING_TO_ALLOCATE
        if outcome.code is Code.SUCCESS and claim_unavailable:
            return outcome._replace(code=Code.UNRESOLVABLE, reason=NOT_AVAILABLE)
        return outcome

    def _search_devices(self, row: int, resources: tuple[str, ...]) -> DeviceVerdict:
        """Search for devices for the unallocated claims on a node and return the verdict."""
        try:
            search = Search(self.inventory, row, self._read_claims(resources), self.seconds)
            allocation = search.run()
            if allocation is not None:
                check_node_selectors(self.claims.to_allocate, allocation)
        except AllocationError as error:
            return DeviceVerdict(Code.ERROR, str(error), searched=True, expression=error.expression)
        except InvalidPoolsError as error:
            return DeviceVerdict(Code.UNRESOLVABLE, str(error), searched=True)
        except SearchTimeoutError as error:
            return self._build_timeout_verdict(row, error)
        if allocation is None:
            return DeviceVerdict(Code.UNRESOLVABLE, CANNOT_ALLOCATE, searched=True)
        devices = self.inventory.visible.list_devices(row)
        places = tuple([tuple([devices.index(result.device) for result in results]) for results in allocation])
        return DeviceVerdict(allocation=allocation, searched=True, places=places)

    def _build_timeout_verdict(self, row: int, error: SearchTimeoutError) -> DeviceVerdict:
        """Build the verdict for a node whose search timed out."""
        node = f"node {self.inventory.nodes.names[row]}"
        if not error.upstream:
            return DeviceVerdict(Code.ERROR, f"{node}: {error}", searched=True)
        code, reason = TIMED_OUT.at(self.inventory.features.release)
        return DeviceVerdict(code, reason.format(node), searched=True)

    def _find_device_backed_resources(self, row: int) -> tuple[str, ...]:
        """Return the requested extended resources that the node provides by devices only.

        Raises LookupError with the name of a resource that the node does not provide at all.
        """
        offered = self.inventory.nodes.objects[row].status.allocatable
        names = []
        for name in self.resources:
            if name in self.inventory.classes_by_resource and parse_value(offered.get(name, 0)) == 0:
                names.append(name)
            elif name not in offered:
                raise LookupError(name)
        return tuple(names)

    def _read_claims(self, resources: tuple[str, ...]) -> tuple[ClaimRequests, ...]:
        """Read the unallocated claims, with requests for `resources` added. Raises AllocationError."""
        if resources not in self._claims_by_resources:
            classes, features = self.inventory.classes, self.inventory.features
            claims = [self._fill_extended_claim(claim, resources) for claim in self.claims.to_allocate]
            self._claims_by_resources[resources] = tuple(read_claim(claim, classes, features) for claim in claims)
        return self._claims_by_resources[resources]

    @cached_property
    def _claims_by_resources(self) -> dict[tuple[str, ...], tuple[ClaimRequests, ...]]:
        """A cache of the parsed claims by the extended resources that devices provide."""
        return {}

    def _fill_extended_claim(self, claim: ResourceClaim, resources: tuple[str, ...]) -> ResourceClaim:
        """Add device requests for `resources` to the claim if it is the one for extended resources."""
        if claim is not self.claims.extended:
            return claim
        requests = build_device_requests(self.pod, resources, self.inventory.classes_by_resource)
        return replace(claim, spec=ResourceClaimSpec(DeviceClaim(requests)))

    def build_node_key(self, row: int, claim_unavailable: bool) -> object:
        """Return a key that is equal for nodes with the same verdict."""
        if not self.resources:
            return claim_unavailable, self.inventory.build_device_key(row)
        offered = self.inventory.nodes.objects[row].status.allocatable
        return (
            claim_unavailable,
            self.inventory.build_device_key(row),
            tuple(str(offered.get(name)) for name in self.resources),
        )


class NodeAnswers:
    """The verdicts for all nodes, shared by pods whose claims request the same and updated as claims change.

    ``failing`` is set once some node's verdict is an error, because errors name the pod's own claims.
    """

    def __init__(self, example: Evaluation) -> None:
        self.example, self.failing = example, False
        self.outcomes = [NOTHING_TO_ALLOCATE] * len(example.inventory.nodes)
        self._known: dict[object, DeviceVerdict] = {}
        self._refused: dict[tuple[Code, str], tuple[Bools, DeviceVerdict]] = {}
        self._refusals: list[tuple[Bools, DeviceVerdict]] | None = None
        self._seen = len(example.inventory.changed)
        self._evaluate_nodes(range(len(self.outcomes)))

    def update(self) -> None:
        """Evaluate again the nodes that see pools with newly allocated or released devices."""
        changed = self.example.inventory.changed
        if self._seen < len(changed) and not self.failing:
            pools = dict.fromkeys(changed[self._seen :])
            self._seen = len(changed)
            for pool in pools:
                self._evaluate_nodes(self.example.inventory.visible.find_rows(pool))

    def list_rejections(self) -> list[tuple[Bools, DeviceVerdict]]:
        """Return the distinct rejections, each with its mask of nodes (N,), ordered by first node."""
        if self._refusals is None:
            by_outcome = [(mask.copy(), outcome) for mask, outcome in self._refused.values() if mask.any()]
            self._refusals = sorted(by_outcome, key=lambda refusal: int(refusal[0].argmax()))
        return self._refusals

    def _evaluate_nodes(self, rows: Iterable[int]) -> None:
        """Evaluate the nodes in `rows` and record their verdicts."""
        for row in rows:
            key = self.example.build_node_key(row, claim_unavailable=False)
            outcome = self._known.get(key)
            if outcome is None:
                drop_oldest_if_full(self._known, OUTCOMES_KEPT)
                outcome = self._known[key] = self.example.evaluate_node(row, claim_unavailable=False)
            self._record_verdict(row, outcome)

    def _record_verdict(self, row: int, outcome: DeviceVerdict) -> None:
        """Record the verdict for a node and update the masks of rejected nodes."""
        previous = self.outcomes[row]
        self.outcomes[row] = outcome
        if previous.code is outcome.code is Code.SUCCESS:
            return
        self._refusals = None
        self.failing |= outcome.code is Code.ERROR
        if previous.code is not Code.SUCCESS:
            self._refused[previous.code, previous.reason][0][row] = False
        if outcome.code is not Code.SUCCESS:
            no_nodes = np.zeros(len(self.outcomes), np.bool_)
            self._refused.setdefault((outcome.code, outcome.reason), (no_nodes, outcome))[0][row] = True


def score_alternatives(claim: ResourceClaim, chosen: tuple[AllocatedDevice, ...] = ()) -> int:
    """Return the score of the alternatives for which a claim has devices, or would get devices with `chosen`.

    An alternative scores higher the earlier it stands in its request's list.
    """
    held = claim.status.allocation.devices.results if claim.status.allocation else ()
    names = {result.request for result in held} | {result.request.full_name for result in chosen}
    return sum(
        MAX_ALTERNATIVES - position
        for request in claim.spec.devices.requests
        if request.exactly is None
        for position, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in names
    )
