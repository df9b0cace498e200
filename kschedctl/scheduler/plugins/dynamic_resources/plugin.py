"""The plugin DynamicResources, which allocates devices for ResourceClaims and for requests that DeviceClasses back.

Upstream: pkg/scheduler/framework/plugins/dynamicresources, and for the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.decoding import introduced_in
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    SUCCESS,
    Changes,
    Code,
    Fragment,
    Peers,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    Reads,
    Rejection,
    Reservation,
    Status,
    require_state,
)
from kschedctl.scheduler.framework.arguments import PluginArgs, forbidden, invalid
from kschedctl.scheduler.framework.declaration import USES_DEVICES, DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import (
    ADD,
    ADD_OR_UPDATE,
    NODE,
    POD,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
    join_words,
)
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME, find_backing_classes, is_any_backed
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.scheduler.framework.version_changes import NotedChange, find_version_changes
from kschedctl.scheduler.plugins.dynamic_resources import hints
from kschedctl.scheduler.plugins.dynamic_resources.claims import (
    ClaimError,
    can_be_deallocated,
    find_claim_rejected_nodes,
    format_claim_key,
)
from kschedctl.scheduler.plugins.dynamic_resources.facts import (
    ClaimsUnusable,
    DeviceSearchFailed,
    DevicesUnfit,
    ResourceNotOffered,
)
from kschedctl.scheduler.plugins.dynamic_resources.reservation import get_pod_user, release_claims, reserve_claims
from kschedctl.scheduler.plugins.helper import device_features
from kschedctl.scheduler.plugins.helper.device_features import TAINT_RULES_GATE, Features
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kschedctl.scheduler.plugins.dynamic_resources.evaluation import Evaluation


DEFAULT_FILTER_TIMEOUT = GoDuration(10)
DEFAULT_BINDING_TIMEOUT = GoDuration(600)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """The arguments of DynamicResources: time limits in seconds, None for no limit."""

    filter_timeout: GoDuration | None = None
    """The limit for allocating devices on one node."""
    binding_timeout: Annotated[GoDuration | None, introduced_in(35)] = None
    """The limit for devices to meet their binding conditions."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with defaults for the missing time limits whose feature gates are enabled."""
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and waits_for_binding(gates):
            binding_timeout = DEFAULT_BINDING_TIMEOUT
        return replace(self, filter_timeout=filter_timeout, binding_timeout=binding_timeout)

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for each time limit that is too small or whose feature gate is disabled."""
        if self.filter_timeout is not None:
            if not gates.enabled("DRASchedulerFilterTimeout"):
                # Upstream's own message, which misspells the gate's name (ValidateDynamicResourcesArgs)
                yield forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
            elif self.filter_timeout < 0:
                yield invalid("filterTimeout", f"{self.filter_timeout:g}s", "must be zero or positive")
        if self.binding_timeout is not None:
            if not waits_for_binding(gates):
                gates_text = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
                yield forbidden("bindingTimeout", f"{gates_text} feature gate is disabled")
            elif self.binding_timeout < 1:
                yield invalid("bindingTimeout", f"{self.binding_timeout:g}s", "must be at least 1 second")


def waits_for_binding(gates: FeatureGates) -> bool:
    """Return whether the feature gates make binding wait for the conditions of allocated devices."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")


LOOK_AT_DEVICES = NextStep(
    "LookAtDevices", "Compare the device classes and selectors of the claims with the devices in the ResourceSlices"
)
CLAIM_NAMES_RECORDED = "the pod's status records the names of its generated claims"
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
UNRESERVED = "ResourceClaim unreserved for PodGroup"
STILL_NOT_SCHEDULABLE = "still not schedulable"

SILENT_WITHOUT_CLAIMS = ByVersion(
    "PostFilter's reason for a pod without resource claims",
    (("", False), ("1.33", True), ("1.34", False)),
    bool_texts=(STILL_NOT_SCHEDULABLE, "none"),
)


class DynamicResources(DeclaredPlugin["Evaluation", "Evaluation"]):
    """The plugin that rejects nodes on which the pod's claims cannot be allocated or used.

    It scores nodes higher if they have devices for the earlier alternatives of a request.

    Upstream: pkg/scheduler/framework/plugins/dynamicresources (v1.36).
    """

    name = "DynamicResources"
    facts = (ClaimsUnusable, ResourceNotOffered, DevicesUnfit, DeviceSearchFailed)
    without = "resource claims are never allocated"
    fixes = "devices"
    takes_less_time = "fewer requests and selectors in device claims, fewer devices that only nearly match"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step = LOOK_AT_DEVICES
    peers = Peers.EXTREMES
    points_since: ClassVar[Mapping[str, int]] = {"score": 35}  # #134711: alternatives of a request
    points = ("preBind",)
    default_weight = 2
    gate = "DynamicResourceAllocation"
    kinds = ("ResourceClaim", "DeviceClass", "ResourceSlice")
    gated_kinds: ClassVar = {"DeviceTaintRule": TAINT_RULES_GATE}
    kinds_matter_to = USES_DEVICES
    args_type = DynamicResourcesArgs
    args_since = 34

    @classmethod
    def list_version_changes(cls) -> tuple[ByVersion[object], ...]:
        """Return the version changes of this package's modules and of the device features, and the noted changes."""
        package, _, _ = __name__.rpartition(".")
        from_notes = (noted_change.change for noted_change in cls.list_noted_changes())
        return (*find_version_changes(package, device_features.__name__), *from_notes)

    @classmethod
    def list_noted_changes(cls) -> tuple[NotedChange, ...]:
        """Return the changes of the plugin that are known only from release notes."""
        return NOTED

    def __init__(self, args: DynamicResourcesArgs, features: Features) -> None:
        self.timeouts = float(args.filter_timeout or 0), float(args.binding_timeout or 0)
        self.features = features
        self.reads = Reads.PODS if features.node_allocatable else Reads.NODES

    @classmethod
    def make(cls, args: object, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments, or with default arguments in versions in which it takes none."""
        own_args = args if isinstance(args, DynamicResourcesArgs) else DynamicResourcesArgs()
        return cls(own_args, Features.from_gates(gates))

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the plugin's results for the pod.

        Nothing is yielded if all kinds were read, or for a pod without claims and extended resources.
        """
        requested = [name for name, amount in info.incoming_requests.items() if amount]
        may_be_backed = self.features.extended_resource and any(map(is_dra_extended, requested))
        if not view.objects.gaps or not (info.spec.resource_claims or may_be_backed):
            return
        from kschedctl.scheduler.plugins.dynamic_resources.claim_dependencies import iter_device_dependencies  # noqa: PLC0415 - for few pods

        yield from iter_device_dependencies(info, view, self.features)

    def iter_unknowns(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """Yield an unknown for each kind of object that has a selector for the pod's devices and needs RE2 for it.

        Nothing is yielded if RE2 is installed. Nothing is yielded for a pod without claims either, unless there are
        DeviceClasses that could back extended resources.
        """
        if info.spec.resource_claims or (self.features.extended_resource and view.objects.of("DeviceClass")):
            from kschedctl.scheduler.plugins.dynamic_resources.claim_dependencies import iter_re2_unknowns  # noqa: PLC0415 - for few pods

            yield from iter_re2_unknowns(self.name, info, view, self.features)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events that can make a rejected pod schedulable, with their queueing hints."""
        return hints.events_to_register(gates, self.features)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success if the pod's claims exist and can be used, otherwise a rejection that says why not."""
        if not info.spec.resource_claims:
            return SUCCESS
        try:
            _import_pre_filter().list_pod_claims(info, view, self.features)
        except ClaimError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return SUCCESS

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[Evaluation]:
        """Prepare the evaluation of the pod's claims on all nodes.

        Filter is skipped if the pod needs no devices. The pod is rejected if one of its claims cannot be used. Raises
        PluginError if upstream's plugin would fail.
        """
        try:
            evaluation = self._prepare_evaluation(info, view)
        except ClaimError as error:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(error),)))
        if evaluation is None:
            return PRE_FILTER_SKIP
        if self.features.node_allocatable:  # not shared between pods, because its reasons name their claims
            return PreFilterResult(state=evaluation)
        return PreFilterResult(state=evaluation, like=evaluation.like)

    def filter(self, info: PodInfo, view: Fork, state: Evaluation | None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes that cannot provide the pod's devices.

        With DRANodeAllocatableResources, a node is also rejected if another pod there uses a claim for node resources,
        or if the node lacks the resources behind its devices. Raises PluginError if PreFilter did not run.
        """
        evaluation = require_state(state, "not found")
        if not self.features.node_allocatable:
            for mask, outcome in evaluation.list_rejections():
                yield Rejection(mask, outcome.code, outcome.reason, evaluation.explain_rejection)
            return
        from kschedctl.scheduler.plugins.dynamic_resources import node_allocatable  # noqa: PLC0415 - behind a gate

        # Each check decides only about the nodes that the checks before it have not rejected.
        is_rejected = np.zeros(len(view.nodes), np.bool_)
        for mask, outcome in node_allocatable.list_shared_claim_rejections(evaluation, view, delta):
            yield Rejection(mask & ~is_rejected, outcome.code, outcome.reason)
            is_rejected |= mask
        insufficiencies = node_allocatable.list_missing_resource_rejections(evaluation, info, view, delta)
        for mask, outcome in insufficiencies:  # one node can lack several resources, each of which is a reason
            yield Rejection(mask & ~is_rejected, outcome.code, outcome.reason)
        for mask, _ in insufficiencies:
            is_rejected |= mask
        for mask, outcome in evaluation.list_rejections():
            yield Rejection(mask & ~is_rejected, outcome.code, outcome.reason, evaluation.explain_rejection)

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        """Return a rejection that says what upstream does to the claims that keep the pod from being scheduled.

        Upstream deallocates a claim, deletes the claim for extended resources, unreserves the claims of the pod's group
        or does nothing. Here, no claim is changed. In some versions, the reason is empty for a pod without claims.
        Raises PluginError if PreFilter did not run.
        """
        if not cycle.info.spec.resource_claims and SILENT_WITHOUT_CLAIMS.at(self.features.release):
            return PostFilterResult(Status(Code.UNSCHEDULABLE))
        if self.name not in cycle.pre_filter.reached:
            raise PluginError("not found")
        evaluation = cycle.pre_filter.find_state(DynamicResources)
        if evaluation is None:
            return _build_unschedulable_result(NOTHING_TO_DEALLOCATE)

        rejected_nodes = find_claim_rejected_nodes(cycle, self.name)
        for claim_index, claim in enumerate(evaluation.claims.own_claims):
            allocated_claim = evaluation.allocated_claims.get(claim_index)
            is_blocking = allocated_claim is not None and (allocated_claim.unavailable & rejected_nodes).any()
            if is_blocking and can_be_deallocated(claim, cycle.info.pod):
                return _build_unschedulable_result(DEALLOCATED)

        extended = evaluation.claims.extended
        if extended is not None and extended.metadata.name != IN_MEMORY_NAME:
            return _build_unschedulable_result(DELETED)
        if self.features.workload_claims and _import_pre_filter().can_unreserve_claims(
            cycle.info.pod, evaluation.inventory, cycle.view
        ):
            return PostFilterResult(Status(Code.UNRESOLVABLE, (UNRESERVED,)))
        return _build_unschedulable_result(STILL_NOT_SCHEDULABLE)

    def score(self, info: PodInfo, view: Fork, state: Evaluation | None, rows: Rows) -> Scores:
        """Score the nodes in `rows`: the earlier the allocated alternatives of requests, the higher the score.

        All scores are 0 if DRAPrioritizedList is off or the pod needs no devices.
        """
        if state is None or not self.features.prioritized_list:
            return np.zeros(len(rows), np.int64)
        return state.compute_scores(rows)

    def normalize(self, state: Evaluation | None, scores: Scores) -> Scores:
        """Scale the scores so that the highest one is 100."""
        return normalize_by_max(scores)

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: Evaluation | None) -> Changes:
        """Return the pod's claims as they are after binding: allocated on the node and reserved for the pod.

        Nothing changes for a pod that needs no devices.
        """
        return {"ResourceClaim": reserve_claims(state, pod, row)} if state else {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """Return the claims that were reserved for the deleted pods at `positions`, with these reservations removed.

        A claim that no other pod uses loses its allocation.
        """
        claims = view.objects.of("ResourceClaim")
        if not claims:
            return {"ResourceClaim": []}
        deleted_pods = {get_pod_user(view.pods.objects[position]) for position in positions}
        return {"ResourceClaim": list(release_claims(claims, deleted_pods))}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: Evaluation | None) -> Reservation:
        """Return the allocation that each unallocated claim would get on the node, by the claim's ``namespace/name``.

        The reservation is empty for a pod that needs no devices, and for a node that is rejected.
        """
        if state is None:
            return Reservation()
        allocations = state.build_allocations(row)
        if not allocations:  # the node is rejected, or nothing has to be allocated
            return Reservation()
        names = map(format_claim_key, state.claims.to_allocate)
        return Reservation(allocations=dict(zip(names, allocations, strict=True)))

    def _prepare_evaluation(self, info: PodInfo, view: Fork) -> Evaluation | None:
        """Prepare the evaluation of the pod's claims, or return None if the pod needs no devices.

        Raises ClaimError if a claim cannot be used, and PluginError if upstream's plugin would fail.
        """
        may_need_devices = bool(info.spec.resource_claims) or (
            self.features.extended_resource and bool(view.objects.of("DeviceClass"))
        )
        # With workload_claims, the evaluation also checks the group of a pod that needs no devices
        if not may_need_devices and not self.features.workload_claims:
            return None
        evaluation: Evaluation | None = _import_pre_filter().prepare_evaluation(
            info, view, self.features, *self.timeouts
        )
        return evaluation

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each kind of change that moves a rejected pod back to the queue."""
        names = hints.list_claim_names(info)
        claim_change = "any claim releases its devices"
        if names:
            claim_change = f"claim {join_words(names, 'or')} is created or its status changes, or {claim_change}"
        yield WakeTrigger("ResourceClaim", ADD_OR_UPDATE, claim_change)
        yield WakeTrigger(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, CLAIM_NAMES_RECORDED)
        yield WakeTrigger("DeviceClass", ADD_OR_UPDATE, "a DeviceClass is added or changed")
        yield WakeTrigger("ResourceSlice", ADD_OR_UPDATE, "devices are published or change (ResourceSlice)")
        node_actions = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        yield WakeTrigger(NODE, node_actions, "a node is added, or its labels or allocatable resources change")

    def iter_admitting_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that completes the pod's claims, so that the pod can enter the queue.

        Claims are completed by their creation. The names of generated claims must also be recorded in the pod's status.
        """
        names = hints.list_claim_names(info)
        if names:
            condition = "" if len(info.spec.resource_claims) == 1 else ", and the pod's other claims exist"
            yield WakeTrigger("ResourceClaim", ADD, f"claim {join_words(names, 'or')} is created{condition}")
        if any(claim.resource_claim_name is None for claim in info.spec.resource_claims):
            yield WakeTrigger(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, CLAIM_NAMES_RECORDED)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return an empty fragment, or None for a pod with claims, whose results cannot be reused for equal pods."""
        return None if info.spec.resource_claims else {}


@cache
def _import_pre_filter() -> ModuleType:
    """Import the module `pre_filter` and return it. It is imported on first use, because few clusters have claims."""
    from kschedctl.scheduler.plugins.dynamic_resources import pre_filter  # noqa: PLC0415 - for few clusters

    return pre_filter


def _build_unschedulable_result(reason: str) -> PostFilterResult:
    """Build the result of PostFilter with which the pod stays unschedulable for the reason."""
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (reason,)))


def requests_devices(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod requests devices, by claims or by extended resources that a DeviceClass backs."""
    return bool(info.spec.resource_claims or is_any_backed(info.incoming_requests, find_backing_classes(view.objects)))


NOTED = tuple(
    NotedChange(
        ByVersion(
            f"feature gate {gate}",
            (("", "absent"), ("1.37", "exists (kschedctl does not replay its effect)")),
            gate,
            from_notes="1.37",
        ),
        Effect.EITHER,
        requests_devices,
        gate,
    )
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)
"""Changes known only from the release notes of 1.37. They are newer than the source that could be read (1 July 2026).

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation.
"""
