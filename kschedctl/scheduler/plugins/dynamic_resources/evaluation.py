"""What one pod's claims mean for every node: nodes that are alike for the search are searched once.

Upstream: Filter in plugins/dynamicresources/dynamicresources.go (v1.36).
"""

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
from kschedctl.scheduler.plugins.dynamic_resources.diagnosis import FreeDevices, diagnose, free_devices
from kschedctl.scheduler.plugins.dynamic_resources.facts import (
    ClaimsUnusable,
    DeviceSearchFailed,
    ResourceNotOffered,
    UnusableClaim,
)
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, ClaimRequests, read_claim
from kschedctl.scheduler.plugins.dynamic_resources.results import (
    Allocation,
    Result,
    allocation_result,
    check_node_selectors,
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
    """What Filter says of a node, and the devices when it passes.

    ``searched`` where devices were looked for; ``places``: where those found are among all devices of the node, also of
    another that is alike for the search. ``expression`` is the CEL selector that failed. ``settled``: it was said
    before any claim was looked at.
    """

    code: Code = Code.SUCCESS
    reason: str = ""
    allocation: Allocation | None = None
    searched: bool = False
    expression: str = ""
    settled: bool = False
    places: tuple[tuple[int, ...], ...] = ()


NOTHING_TO_DO = DeviceVerdict(settled=True)
NOTHING_TO_ALLOCATE = DeviceVerdict()


class HeldClaim(NamedTuple):
    """A claim that is allocated: the nodes (N,) that its node selector leaves out, those where it cannot be used for
    that or for another reason, and the reason."""

    unselected: Bools
    unavailable: Bools
    why: UnusableClaim


@dataclass(eq=False)
class Evaluation:
    """``held``: the claims that are allocated, by their position among all.

    ``resources``: the extended resources that the pod requests. ``like``: equal for pods whose claims ask for the same;
    None where that is not known, or some are allocated already. ``seconds``: after which a search is ended, 0: never.
    """

    inventory: Inventory
    pod: Pod
    claims: PodClaims
    held: Mapping[int, HeldClaim]
    resources: tuple[str, ...] = ()
    like: Hashable = None
    seconds: float = FILTER_SECONDS

    @property
    def outcomes(self) -> list[DeviceVerdict]:
        """(N,); they hold until a claim changes."""
        return self._by_itself if self.answers is None else self.answers.outcomes

    @cached_property
    def answers(self) -> NodeAnswers | None:
        """What is said to all pods whose claims ask for the same; None where it is about the very claims."""
        if self.like is None:
            return None
        node_answers = self.inventory.answers.get(self.like, lambda: NodeAnswers(self))
        node_answers.bring_up()
        return None if node_answers.failing else node_answers

    @cached_property
    def _by_itself(self) -> list[DeviceVerdict]:
        device_verdicts: dict[object, DeviceVerdict] = {}
        answers = []
        refused = self.refused
        for row in range(len(self.inventory.nodes)):
            key = self.key(row, bool(refused[row]))
            outcome = device_verdicts.get(key)
            if outcome is None or outcome.code is Code.ERROR:  # an error names its own pool, device or node
                outcome = device_verdicts[key] = self.outcome(row, bool(refused[row]))
            answers.append(outcome)
        return answers

    @cached_property
    def refused(self) -> Bools:
        """(N,): some allocated claim cannot be used there."""
        masks = [claim.unavailable for claim in self.held.values()]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(self.inventory.nodes), np.bool_)

    def refusals(self) -> list[tuple[Bools, DeviceVerdict]]:
        """The distinct refusals and the nodes (N,) that each is about. Raises PluginError."""
        try:
            answers = self.answers
            if answers is not None:
                return answers.refusals()
            outcomes = self.outcomes
        except AllocationError as error:  # slices whose node selector cannot be read
            raise PluginError(str(error)) from None
        rows: dict[tuple[Code, str], list[int]] = {}
        for row, outcome in enumerate(outcomes):
            if outcome.code is not Code.SUCCESS:
                rows.setdefault((outcome.code, outcome.reason), []).append(row)
        numbers = np.arange(len(outcomes))
        return [(np.isin(numbers, same), outcomes[same[0]]) for same in rows.values()]

    def allocations(self, row: int) -> list[AllocationResult]:
        """What each claim without an allocation would get on a node that passes; empty where nothing is searched."""
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or not outcome.searched:
            return []
        visible, features = self.inventory.visible, self.inventory.features
        devices, itself = visible.devices_of(row), visible.itself(row)
        return [
            allocation_result(results, [devices[place] for place in places], itself, features)
            for results, places in zip(outcome.allocation or (), outcome.places, strict=True)
        ]

    def scores(self, rows: Rows) -> Scores:
        """(F,): the earlier the alternatives that were chosen, the higher."""
        example = self if self.answers is None else self.answers.example
        if not example.has_alternatives:
            return np.zeros(len(rows), np.int64)
        return np.array([self._score(row) for row in rows.tolist()], np.int64)

    @cached_property
    def has_alternatives(self) -> bool:
        return any(request.exactly is None for claim in self.claims.all for request in claim.spec.devices.requests)

    def _score(self, row: int) -> int:
        outcome = self.outcomes[row]
        if outcome.code is not Code.SUCCESS or outcome.allocation is None:
            return 0
        chosen = iter(outcome.allocation)
        return sum(
            preference(claim) if claim.status.allocation else preference(claim, next(chosen))
            for claim in self.claims.all
        )

    def fact(self, row: int) -> Fact:
        """What stands behind a refusal."""
        outcome = self.outcomes[row]
        if outcome.reason == NOT_AVAILABLE:
            return ClaimsUnusable(tuple(claim.why for claim in self.held.values() if claim.unavailable[row]))
        try:
            claims = self._requests(self._from_devices(row))
        except LookupError as missing:
            return ResourceNotOffered(missing.args[0])
        except AllocationError as error:
            return DeviceSearchFailed(str(error))
        if outcome.searched and outcome.code is not Code.ERROR:
            return diagnose(self.inventory, row, claims)
        return DeviceSearchFailed(outcome.reason, outcome.expression)

    def free(self, row: int) -> list[FreeDevices]:
        """What of a node each request could have; empty where that cannot be told."""
        try:
            return list(free_devices(self.inventory, row, self._requests(self._from_devices(row))))
        except (LookupError, AllocationError, InvalidPoolsError):
            return []

    def outcome(self, row: int, refused: bool) -> DeviceVerdict:
        extended = self.claims.extended
        if extended is not None and extended.spec.devices.requests:
            return DeviceVerdict(Code.UNRESOLVABLE, "cannot schedule extended resource claim", settled=True)
        try:
            resources = self._from_devices(row)
        except LookupError:
            return DeviceVerdict(Code.UNRESOLVABLE, "cannot fit resource", settled=True)
        if not self.claims.own and (not resources or (extended and extended.status.allocation)):
            return NOTHING_TO_DO
        outcome = self._search(row, resources) if self.claims.to_allocate else NOTHING_TO_ALLOCATE
        if outcome.code is Code.SUCCESS and refused:
            return outcome._replace(code=Code.UNRESOLVABLE, reason=NOT_AVAILABLE)
        return outcome

    def _search(self, row: int, resources: tuple[str, ...]) -> DeviceVerdict:
        try:
            search = Search(self.inventory, row, self._requests(resources), self.seconds)
            allocation = search.run()
            if allocation is not None:
                check_node_selectors(self.claims.to_allocate, allocation)
        except AllocationError as error:
            return DeviceVerdict(Code.ERROR, str(error), searched=True, expression=error.expression)
        except InvalidPoolsError as error:
            return DeviceVerdict(Code.UNRESOLVABLE, str(error), searched=True)
        except SearchTimeoutError as error:
            return self._timed_out(row, error)
        if allocation is None:
            return DeviceVerdict(Code.UNRESOLVABLE, CANNOT_ALLOCATE, searched=True)
        there = self.inventory.visible.devices_of(row)
        places = tuple([tuple([there.index(result.device) for result in results]) for results in allocation])
        return DeviceVerdict(allocation=allocation, searched=True, places=places)

    def _timed_out(self, row: int, error: SearchTimeoutError) -> DeviceVerdict:
        node = f"node {self.inventory.nodes.names[row]}"
        if not error.upstream:
            return DeviceVerdict(Code.ERROR, f"{node}: {error}", searched=True)
        code, reason = TIMED_OUT.at(self.inventory.features.release)
        return DeviceVerdict(code, reason.format(node), searched=True)

    def _from_devices(self, row: int) -> tuple[str, ...]:
        """The extended resources that the node gives by devices. Raises LookupError if it gives one not at all."""
        offered = self.inventory.nodes.objects[row].status.allocatable
        names = []
        for name in self.resources:
            if name in self.inventory.classes_by_resource and parse_value(offered.get(name, 0)) == 0:
                names.append(name)
            elif name not in offered:
                raise LookupError(name)
        return tuple(names)

    def _requests(self, resources: tuple[str, ...]) -> tuple[ClaimRequests, ...]:
        if resources not in self._read:
            classes, features = self.inventory.classes, self.inventory.features
            claims = [self._for_node(claim, resources) for claim in self.claims.to_allocate]
            self._read[resources] = tuple(read_claim(claim, classes, features) for claim in claims)
        return self._read[resources]

    @cached_property
    def _read(self) -> dict[tuple[str, ...], tuple[ClaimRequests, ...]]:
        return {}

    def _for_node(self, claim: ResourceClaim, resources: tuple[str, ...]) -> ResourceClaim:
        if claim is not self.claims.extended:
            return claim
        requests = build_device_requests(self.pod, resources, self.inventory.classes_by_resource)
        return replace(claim, spec=ResourceClaimSpec(DeviceClaim(requests)))

    def key(self, row: int, refused: bool) -> object:
        """Equal for nodes that are alike for the search."""
        if not self.resources:
            return refused, self.inventory.look(row)
        offered = self.inventory.nodes.objects[row].status.allocatable
        return refused, self.inventory.look(row), tuple(str(offered.get(name)) for name in self.resources)


class NodeAnswers:
    """What is said of each node to pods whose claims ask for the same, brought up to date as claims change.

    ``failing``: of some node it is an error, which is about the very claims.
    """

    def __init__(self, example: Evaluation) -> None:
        self.example, self.failing = example, False
        self.outcomes = [NOTHING_TO_ALLOCATE] * len(example.inventory.nodes)
        self._known: dict[object, DeviceVerdict] = {}
        self._refused: dict[tuple[Code, str], tuple[Bools, DeviceVerdict]] = {}
        self._refusals: list[tuple[Bools, DeviceVerdict]] | None = None
        self._seen = len(example.inventory.changed)
        self._ask(range(len(self.outcomes)))

    def bring_up(self) -> None:
        """Ask the nodes anew whose devices changed."""
        changed = self.example.inventory.changed
        if self._seen < len(changed) and not self.failing:
            pools = dict.fromkeys(changed[self._seen :])
            self._seen = len(changed)
            for pool in pools:
                self._ask(self.example.inventory.visible.rows(pool))

    def refusals(self) -> list[tuple[Bools, DeviceVerdict]]:
        """The distinct refusals and the nodes (N,) that each is about."""
        if self._refusals is None:
            by_outcome = [(mask.copy(), outcome) for mask, outcome in self._refused.values() if mask.any()]
            self._refusals = sorted(by_outcome, key=lambda refusal: int(refusal[0].argmax()))
        return self._refusals

    def _ask(self, rows: Iterable[int]) -> None:
        for row in rows:
            key = self.example.key(row, refused=False)
            outcome = self._known.get(key)
            if outcome is None:
                drop_oldest_if_full(self._known, OUTCOMES_KEPT)
                outcome = self._known[key] = self.example.outcome(row, refused=False)
            self._say(row, outcome)

    def _say(self, row: int, outcome: DeviceVerdict) -> None:
        before, self.outcomes[row] = self.outcomes[row], outcome
        if before.code is outcome.code is Code.SUCCESS:
            return
        self._refusals = None
        self.failing |= outcome.code is Code.ERROR
        if before.code is not Code.SUCCESS:
            self._refused[before.code, before.reason][0][row] = False
        if outcome.code is not Code.SUCCESS:
            nobody = np.zeros(len(self.outcomes), np.bool_)
            self._refused.setdefault((outcome.code, outcome.reason), (nobody, outcome))[0][row] = True


def preference(claim: ResourceClaim, chosen: tuple[Result, ...] = ()) -> int:
    """How early in their lists the alternatives are for which a claim has devices, or would get the chosen ones."""
    held = claim.status.allocation.devices.results if claim.status.allocation else ()
    names = {result.request for result in held} | {result.request.full_name for result in chosen}
    return sum(
        MAX_ALTERNATIVES - position
        for request in claim.spec.devices.requests
        if request.exactly is None
        for position, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in names
    )
