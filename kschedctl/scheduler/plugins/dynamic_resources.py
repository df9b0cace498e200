"""DynamicResources: devices for the pod's ResourceClaims, and for extended resources that a DeviceClass backs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import DeviceRequest, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.scheduler.dynamic_resources.claims import (
    ClaimError,
    PodClaims,
    binding_failed,
    can_be_deallocated,
    extended_resource_claim,
    key,
    pod_claims,
)
from kschedctl.scheduler.dynamic_resources.evaluation import Evaluation, Outcome
from kschedctl.scheduler.dynamic_resources.extended_resources import (
    IN_MEMORY_NAME,
    backed,
    classes_by_resource,
    empty_claim,
)
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.scheduler.dynamic_resources.inventory import Bools, Inventory, inventory_of
from kschedctl.scheduler.dynamic_resources.node_allocatable import lacking, shared_claims
from kschedctl.scheduler.dynamic_resources.requests import AllocationError
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    SUCCESS,
    Code,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    Rejection,
    Rows,
    Scores,
    Status,
    normalize_by_max,
    required_state,
)
from kschedctl.scheduler.plugin_args import DynamicResourcesArgs
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Snapshot

NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_NOT_SCHEDULABLE = "still not schedulable"


class DynamicResources:
    """Rejects nodes on which the pod's claims cannot be allocated, or cannot be used; prefers those with the devices
    that a claim would rather have.

    Upstream: pkg/scheduler/framework/plugins/dynamicresources (v1.36).
    """

    name = "DynamicResources"
    skips_for_good = True

    def __init__(self, args: DynamicResourcesArgs, features: Features) -> None:
        self.binding_timeout = float(args.binding_timeout or 0)
        self.features = features
        self.ignores_pods = not features.node_allocatable
        self._latest: tuple[PodInfo, Inventory, Evaluation | None] | None = None  # Score wants what PreFilter found

    def pre_enqueue(self, info: PodInfo, view: Snapshot) -> Status:
        if not info.spec.resource_claims:
            return SUCCESS
        try:
            self._own_claims(info, inventory_of(view, self.features))
        except ClaimError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return SUCCESS

    def pre_filter(self, info: PodInfo, view: Snapshot) -> PreFilterResult:
        try:
            evaluation = self._evaluation(info, view)
        except ClaimError as error:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(error),)))
        return PRE_FILTER_SKIP if evaluation is None else PreFilterResult(state=evaluation)

    def filter(self, info: PodInfo, view: Snapshot, state: Any, delta: Delta) -> Iterator[Rejection]:
        evaluation: Evaluation = required_state(state, self.name, "PreFilter")
        try:
            outcomes = evaluation.outcomes
        except AllocationError as error:
            raise PluginError(str(error)) from None
        undecided = np.ones(len(view.nodes), np.bool_)
        if self.features.node_allocatable:
            for mask, outcome in shared_claims(evaluation, view, delta):
                yield Rejection(mask & undecided, outcome.code, outcome.reason)
                undecided &= ~mask
            for mask, outcome in lacking(evaluation, info, view, delta):
                yield Rejection(mask & undecided, outcome.code, outcome.reason)
        for outcome, mask in _refusals(outcomes):
            yield Rejection(mask & undecided, outcome.code, outcome.reason, evaluation.fact)

    def post_filter(self, cycle: Any) -> PostFilterResult:
        """What upstream would do to the pod's claims when no node passes: it frees one that is in the way."""
        if not _was_asked(cycle.pre_filter, self.name):
            raise PluginError("not found")
        evaluation: Evaluation | None = cycle.pre_filter.results[self.name].state
        if evaluation is None:
            return _unschedulable(NOTHING_TO_DEALLOCATE)
        reached = _reached(cycle, self.name)
        own = [
            i for i, mask in evaluation.unavailable.items() if i < len(evaluation.claims.own) and (mask & reached).any()
        ]
        if any(can_be_deallocated(evaluation.claims.own[i], cycle.info.pod) for i in own):
            return _unschedulable(DEALLOCATED)
        extended = evaluation.claims.extended
        if extended is not None and extended.metadata.name != IN_MEMORY_NAME:
            return _unschedulable(DELETED)
        return _unschedulable(STILL_NOT_SCHEDULABLE)

    def score(self, info: PodInfo, view: Snapshot, state: Any, rows: Rows) -> Scores:
        evaluation = self._evaluation(info, view) if self.features.prioritized_list else None
        if evaluation is None:
            return np.zeros(len(rows), np.int64)
        return np.array([evaluation.score(row) for row in rows.tolist()], np.int64)

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return normalize_by_max(scores)

    def allocations(self, info: PodInfo, view: Snapshot, state: Any, row: int) -> list[dict[str, Any]]:
        """What each of the pod's unallocated claims would get on a node that passes, as their status would show it."""
        evaluation: Evaluation | None = state
        found = evaluation.allocations(row) if evaluation else []
        plain: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(found))
        return plain

    # -- claims ----------------------------------------------------------------------------------------------------

    def _own_claims(self, info: PodInfo, inventory: Inventory) -> tuple[ResourceClaim, ...]:
        return tuple(claim for _, claim in pod_claims(info.pod, inventory.claims, self.features.workload_claims))

    def _evaluation(self, info: PodInfo, view: Snapshot) -> Evaluation | None:
        """None for a pod that needs no devices. Raises ClaimError and PluginError."""
        inventory = inventory_of(view, self.features)
        if self._latest is None or self._latest[0] is not info or self._latest[1] is not inventory:
            self._latest = (info, inventory, self._evaluate(info, view, inventory))
        return self._latest[2]

    def _evaluate(self, info: PodInfo, view: Snapshot, inventory: Inventory) -> Evaluation | None:
        requests = info.amounts(info.options._replace(use_status=False, pod_level=True, dra_node_allocatable=False))
        classes = classes_by_resource(view.cluster.device_classes) if self.features.extended_resource else {}
        own, extended = self._own_claims(info, inventory), None
        if backed(requests, classes):
            extended = extended_resource_claim(info.pod, inventory.claims) or empty_claim(info.pod)
        resources = tuple(name for name, amount in requests.items() if amount and is_dra_extended(name))
        claims = PodClaims(own, extended)
        if not claims.all:
            return None
        for claim in own:
            if claim.status.allocation is None:
                _check(claim, inventory)
        unselected = {i: _unselected(claim, inventory) for i, claim in enumerate(claims.all) if claim.status.allocation}
        failures = {i: self._failure(claims.all[i]) for i in unselected}
        unavailable = {i: mask | bool(failures[i]) for i, mask in unselected.items()}
        why = {
            i: f"claim {key(claims.all[i])} {failure or 'has its devices on other nodes'}"
            for i, failure in failures.items()
        }
        return Evaluation(
            inventory, info.pod, claims, unavailable, unselected, why, resources if extended else (), classes
        )

    def _failure(self, claim: ResourceClaim) -> str:
        """Why an allocated claim's devices will not become ready, if they will not."""
        return (
            binding_failed(claim, self.binding_timeout, datetime.now(UTC)) if self.features.binding_conditions else ""
        )


def _check(claim: ResourceClaim, inventory: Inventory) -> None:
    """Whether a claim can be allocated as far as its classes go. Raises ClaimError and PluginError."""
    for request in claim.spec.devices.requests:
        for name, class_name in _class_names(claim, request, inventory.features):
            if not class_name:
                raise PluginError(f"request {name}: unsupported request type")
            if class_name not in inventory.classes:
                raise ClaimError(f"request {name}: device class {class_name} does not exist")


def _unselected(claim: ResourceClaim, inventory: Inventory) -> Bools:
    """(N,): the nodes that an allocated claim's node selector leaves out. Raises PluginError."""
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    if selector is None:
        return np.zeros(len(inventory.nodes), np.bool_)
    compiled = compile_node_selector(selector)
    try:
        compiled.check()
    except NodeSelectorError as error:
        raise PluginError(str(error)) from None
    return ~inventory.nodes.evaluate(compiled.match, compiled.keys, compiled.uses_name).astype(np.bool_)


def _class_names(claim: ResourceClaim, request: DeviceRequest, features: Features) -> Iterator[tuple[str, str]]:
    """The name of a request, or of each of its alternatives, and its class. Raises ClaimError."""
    where = f"resource claim {key(claim)}, request {request.name}"
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
    elif not request.first_available:
        raise ClaimError(f"{where}: unknown request type")
    elif not features.prioritized_list:
        raise ClaimError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
    else:
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative.device_class_name


def _refusals(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, Bools]]:
    """The distinct refusals and the nodes (N,) that each is about."""
    rows: dict[tuple[Code, str], list[int]] = {}
    for row, outcome in enumerate(outcomes):
        if outcome.code is not Code.SUCCESS:
            rows.setdefault((outcome.code, outcome.reason), []).append(row)
    for same in rows.values():
        mask = np.zeros(len(outcomes), np.bool_)
        mask[same] = True
        yield outcomes[same[0]], mask


def _unschedulable(reason: str) -> PostFilterResult:
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (reason,)))


def _was_asked(outcome: Any, name: str) -> bool:
    """Whether the framework came as far as this plugin's PreFilter."""
    if not outcome.status.rejected or outcome.status.code is not Code.UNRESOLVABLE:
        return name in outcome.results
    order = list(outcome.results)
    last = outcome.plugin or (outcome.narrowed_by[-1] if outcome.narrowed_by else "")
    return name in order and (last not in order or order.index(name) <= order.index(last))


def _reached(cycle: Any, name: str) -> Bools:
    """(N,): the nodes for which this plugin's Filter was asked."""
    found = cycle.filter
    if name not in found.order:
        return np.zeros_like(cycle.considered)
    reached: Bools = cycle.considered & ((found.first < 0) | (found.first >= found.order.index(name)))
    return reached
