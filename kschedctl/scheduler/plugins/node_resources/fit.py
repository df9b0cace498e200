"""NodeResourcesFit plugin: rejects nodes without room for the pod's requests, and scores the others by their usage.

Upstream: plugins/noderesources/fit.go, and for the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from msgspec.structs import replace

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Row, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import AnyGroup
from kschedctl.api.pod_requests import is_resize_deferred, revert_resize
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.resource_names import format_amount, is_dra_extended
from kschedctl.scheduler.engine.pod_groups.placement import PodGroupAssignments
from kschedctl.scheduler.framework import (
    Code,
    Fragment,
    Peers,
    PreFilterResult,
    PreScoreResult,
    Rejection,
    require_state,
)
from kschedctl.scheduler.framework.arguments import (
    Naming,
    PluginArgs,
    forbidden,
    invalid,
    not_supported,
    required,
    validate_qualified_name,
)
from kschedctl.scheduler.framework.declaration import NextStep, OwnRowPlugin
from kschedctl.scheduler.framework.events import (
    ADD,
    ADD_OR_UPDATE,
    DELETE,
    NODE,
    NOMINATED_PODS_FREE_ROOM,
    POD,
    UPDATE,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
    adapt_node_hint,
    join_words,
    resolve_node_actions,
    resolve_pod_actions,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    STRATEGIES,
    DemandedAmounts,
    NodeUsage,
    Usage,
    compute_node_usage,
    get_demanded_amounts,
    list_pod_amounts,
    score_most_allocated,
)
from kschedctl.scheduler.plugins.helper.scoring_strategy import (
    DEFAULT_RESOURCES,
    ScoringStrategy,
    fill_in_weights,
    validate_shape,
)
from kschedctl.scheduler.plugins.helper.signing import sign_resources
from kschedctl.scheduler.plugins.node_resources import hints
from kschedctl.scheduler.plugins.node_resources.facts import DeferredResize, Insufficient, TooManyPods
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView, get_whole_fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import agreeing

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesFit: extended resources that Filter ignores, and the scoring strategy."""

    naming: ClassVar[Mapping[str, Naming]] = {
        "name": "resource",
        "ignoredResources": "resource",
        "ignoredResourceGroups": "domain",
    }
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    """Groups of ignored resources, by the part of their names before the slash."""
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated", DEFAULT_RESOURCES)

    def with_defaults(self, gates: FeatureGates) -> Self:
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=fill_in_weights(strategy.resources)))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the validation errors of the arguments."""
        for i, name in enumerate(self.ignored_resources):
            yield from validate_qualified_name(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(f"ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'")
            yield from validate_qualified_name(f"ignoredResourceGroups[{i}]", group)
        yield from _validate_scoring_strategy(self.scoring_strategy)


def _validate_scoring_strategy(strategy: ScoringStrategy) -> Iterator[str]:
    """Yield the validation errors of the scoring strategy."""
    if strategy.type not in SCORING_STRATEGIES:
        yield not_supported("scoringStrategy.type", strategy.type, SCORING_STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            rule = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"scoringStrategy.resources[{i}].weight", resource.weight, rule)
    path, ratio = "scoringStrategy.requestedToCapacityRatio", strategy.requested_to_capacity_ratio
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from validate_shape(ratio.shape, f"{path}.shape")


TOO_MANY_PODS = "Too many pods"
TOO_LARGE = ByVersion(
    "the code for a request that is larger than the node",
    (("", Code.UNSCHEDULABLE), ("1.34", Code.UNRESOLVABLE)),
    "#131345",
)
SCORES_DEVICES = ByVersion(
    "whether NodeResourcesFit scores extended resources that devices back", (("", False), ("1.35", True)), "#134058"
)
MAX_PODS_PER_NODE = 2**20
"""More pods than any node runs."""
REGISTERS_DEVICE_CLASS_EVENTS = ByVersion(
    "whether NodeResourcesFit asks to be told of DeviceClasses", (("", False), ("1.35", True))
)


class NodeResourcesFit(OwnRowPlugin[Mapping[str, int], DemandedAmounts]):
    """Plugin that rejects nodes that lack a requested resource and scores nodes by the profile's strategy.

    If the request exceeds what the node offers when empty, the code is UnschedulableAndUnresolvable.

    Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go (v1.36).
    """

    name = "NodeResourcesFit"
    facts = (Insufficient, TooManyPods)
    changed = (
        TOO_LARGE,
        SCORES_DEVICES,
        REGISTERS_DEVICE_CLASS_EVENTS,
        hints.ANY_OWN_RESIZE_COUNTS,
    )
    without = "nodes are filled beyond their resources, and kubelets refuse the pods"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step_within_reach = NextStep("MakeRoom", "Free up room on {node}, or add nodes")
    next_step = NextStep("AskForLess", "No node is large enough: request less, or add larger nodes")
    points = ("placementScore",)
    default_weight = 1
    peers = Peers.NONE
    args_type = NodeResourcesFitArgs

    def __init__(
        self, args: NodeResourcesFitArgs, features: Features = DEFAULT_FEATURES, version: KubeVersion = VERIFIED
    ) -> None:
        self.args, self.features = args, features
        self.too_large = TOO_LARGE.at(version)
        self.scored_features = features._replace(
            extended_resource=features.extended_resource and SCORES_DEVICES.at(version)
        )
        self.strategy = args.scoring_strategy

    @classmethod
    def make(cls, args: NodeResourcesFitArgs, gates: FeatureGates) -> Self:
        return cls(args, Features.from_gates(gates), gates.release)

    def pre_filter(self, info: PodInfo, view: NodeView) -> PreFilterResult[Mapping[str, int]]:
        return PreFilterResult(state=info.incoming_requests)

    def filter(
        self, info: PodInfo, view: NodeView, state: Mapping[str, int] | None, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield a rejection of the nodes with too many pods, then rejections of the nodes that lack each resource."""
        requests = require_state(state, 'error reading "PreFilterNodeResourcesFit" from cycleState: not found')
        usage = Usage(view, view.requested, view.requests, delta)
        if usage.fits_everywhere(requests):
            return
        pods = usage.column(names.PODS)
        full = pods.used >= pods.allocatable
        if full.any():
            yield Rejection(
                full,
                Code.UNSCHEDULABLE,
                TOO_MANY_PODS,
                lambda row: TooManyPods(int(pods.used[row]), int(pods.allocatable[row])),
                (pods.used + 1 - pods.allocatable).astype(np.float64),
            )
        devices = DeviceBackedResources(view, self.features)
        for name, request in requests.items():
            is_requested = request != 0 if names.is_scalar(name) else request > 0  # below zero: beyond int64
            if is_requested and not self._is_ignored(name):
                yield from self._reject_insufficient(name, request, usage, devices.is_backed(name))

    def room_helps(self, view: Fork) -> bool:
        """Return whether removing pods never makes Filter reject a node, which holds unless requests overflow int64."""
        return view.memo((NodeResourcesFit, "sums"), lambda: _is_overflow_impossible(view))

    def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[DemandedAmounts]:
        return PreScoreResult(self._get_demanded_amounts(info, view))

    def score(self, info: PodInfo, view: NodeView, state: DemandedAmounts | None, rows: Rows) -> Scores:
        """Return the scores (F,) of the profile's strategy, from 0 to 100."""
        demanded = self._get_demanded_amounts(info, view) if state is None else state
        usage = compute_node_usage(
            demanded, view, view.nonzero_requested, rows, partial(DeviceBackedResources, view, self.scored_features)
        )
        return STRATEGIES[self.strategy.type](self.strategy, usage)

    def normalize(self, state: DemandedAmounts | None, scores: Scores) -> Scores:
        return scores

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        resizes = gates.enabled("InPlacePodVerticalScaling")
        pod_hint = partial(
            hints.is_schedulable_after_pod_event,
            resizes=resizes,
            counts_nominated=NOMINATED_PODS_FREE_ROOM.at(gates.release),
            any_own_resize=hints.ANY_OWN_RESIZE_COUNTS.at(gates.release),
        )
        pod_actions = ActionType.DELETE
        if resizes:
            pod_actions |= resolve_pod_actions(ActionType.UPDATE_POD_SCALE_DOWN, gates)
        yield ClusterEventWithHint(POD, pod_actions, pod_hint)

        node_hint = partial(hints.is_schedulable_after_node_change, from_devices=self.features.extended_resource)
        node_actions = resolve_node_actions(ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, gates, broad=True)
        yield ClusterEventWithHint(NODE, node_actions, adapt_node_hint(node_hint, gates))

        if self.features.extended_resource and REGISTERS_DEVICE_CLASS_EVENTS.at(gates.release):
            class_actions = ActionType.ADD | ActionType.UPDATE
            yield ClusterEventWithHint("DeviceClass", class_actions, hints.is_schedulable_after_device_class_event)

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """Return the utilization of the placement's nodes in total. Devices do not count."""
        resources = self.strategy.resources
        requests = np.array(
            [self._list_scored_requests(assignment.info, view) for assignment in proposal.assignments], np.int64
        )
        requests = requests.reshape(-1, len(resources)).sum(axis=0)
        demanded = get_demanded_amounts(resources, requests.tolist(), view)
        devices = partial(DeviceBackedResources, view, self.scored_features._replace(extended_resource=False))
        usage = compute_node_usage(demanded, view, view.nonzero_requested, proposal.placement.rows, devices)
        used, offered = (amounts.sum(axis=1)[:, None] for amounts in (usage.used, usage.allocatable))
        return int(
            score_most_allocated(self.strategy, NodeUsage(requests[:, None] + used, used, offered, usage.weights))[0]
        )

    def normalize_placements(self, scores: Scores) -> Scores:
        return scores

    def _get_demanded_amounts(self, info: PodInfo, view: NodeView) -> DemandedAmounts:
        """Return the pod's requests for the scored resources, aligned with the nodes' columns."""
        return get_demanded_amounts(self.strategy.resources, self._list_scored_requests(info, view), view)

    def _list_scored_requests(self, info: PodInfo, view: NodeView) -> list[int]:
        """Return the pod's requests for the scored resources.

        Upstream scores with the containers' requests only, without pod-level resources and without status.
        """
        resources = self.strategy.resources
        options = info.options._replace(use_status=False, pod_level=False)
        key = NodeResourcesFit, resources
        return view.memo(key, lambda: list_pod_amounts(info, resources, options, nonzero=True), info)

    def _is_ignored(self, name: str) -> bool:
        """Return whether the profile ignores the extended resource or its group."""
        if not names.is_extended(name):
            return False
        return name in self.args.ignored_resources or name.partition("/")[0] in self.args.ignored_resource_groups

    def _reject_insufficient(self, name: str, request: int, usage: Usage, from_devices: bool) -> Iterator[Rejection]:
        """Yield a rejection of the nodes that are too small and one of the nodes that are too full.

        With `from_devices`, nodes that offer none of the resource pass, because DynamicResources looks at their
        devices.
        """
        column = usage.column(name)
        free = column.allocatable - column.used
        insufficient = request > free
        if from_devices:
            insufficient &= column.allocatable > 0
        if not insufficient.any():
            return
        too_small = request > column.allocatable
        missing_amounts = request - free.astype(np.float64)
        largest = int(column.allocatable.max())

        def build_fact(row: int) -> Insufficient:
            offered = int(column.allocatable[row])
            free_there = max(offered - int(column.used[row]), 0)
            return Insufficient(
                name,
                request,
                free=free_there,
                offered=offered,
                largest=largest,
                deferred_resizes=find_deferred_resizes(name, row, usage.view),
            )

        reason = f"Insufficient {name}"
        if too_small.any():
            yield Rejection(too_small & insufficient, self.too_large, reason, build_fact, missing_amounts)
            insufficient &= ~too_small
        yield Rejection(insufficient, Code.UNSCHEDULABLE, reason, build_fact, missing_amounts)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        requests = {name: amount for name, amount in info.incoming_requests.items() if amount > 0}
        demand = (
            join_words([f"{format_amount(name, amount)} {name}" for name, amount in requests.items()])
            or "room for one more pod"
        )
        verb = agreeing(max(len(requests), 1), "is", "are")
        resources = join_words(list(requests), "or") or "pods"
        yield WakeTrigger(POD, DELETE, f"any pod leaves a node (this one fits where {demand} {verb} free then)")
        yield WakeTrigger(
            POD, ActionType.UPDATE_POD_SCALE_DOWN, f"a pod on a node, or the pod itself, requests less {resources}"
        )
        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, f"a node is added, or changes, that offers {demand}")
        else:
            yield WakeTrigger(NODE, ADD, f"a node is added that offers {demand}")
            more_offered = f"a node offers more {resources}, in total {demand}"
            yield WakeTrigger(NODE, ActionType.UPDATE_NODE_ALLOCATABLE, more_offered)
        extended = [name for name in requests if is_dra_extended(name)]
        if extended:
            yield WakeTrigger(
                "DeviceClass", ADD_OR_UPDATE, f"a DeviceClass starts to back {join_words(extended, 'or')}"
            )

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        return sign_resources(info, view, self.features)


def _is_overflow_impossible(view: Fork) -> bool:
    """Return whether the requests of any number of pods add up to between 0 and the maximum of int64."""
    smallest, largest = int(view.requests.min(initial=0)), int(view.requests.max(initial=0))
    return smallest >= 0 and largest * MAX_PODS_PER_NODE <= INT64_MAX


class ResizeAmounts(NamedTuple):
    """The requests of a pod with a deferred resize, by resource: millicores of cpu, bytes, or counts."""

    reserved: dict[str, int]
    """The amounts that the scheduler counts."""
    running: dict[str, int]
    """The amounts with which the pod runs."""


def find_deferred_resizes(resource: str, row: int, view: NodeView) -> tuple[DeferredResize, ...]:
    """Return the node's deferred resizes that reserve more of the resource than is used, largest difference first.

    Upstream: determineContainerReqs in staging/src/k8s.io/component-helpers/resource/helpers.go (v1.36).
    """
    fork = get_whole_fork(view)
    node = Row(row if isinstance(view, Fork) else int(view.rows[row]))
    by_info = fork.memo_of_pods("amounts of deferred resizes", lambda: _index_resize_amounts(fork))
    if not by_info:
        return ()
    resizes = [
        DeferredResize(fork.pods.objects[position].key, amounts.reserved[resource], amounts.running.get(resource, 0))
        for position in fork.pods_on(node)
        if (amounts := by_info.get(int(fork.pods.info[position]))) and resource in amounts.reserved
    ]
    unused = [resize for resize in resizes if resize.reserved > resize.running]
    return tuple(sorted(unused, key=lambda resize: resize.running - resize.reserved))


def _index_resize_amounts(view: Fork) -> dict[int, ResizeAmounts]:
    """Return the resize amounts by PodInfo number, for the infos whose pods have a deferred resize."""
    by_info = {}
    for number in np.flatnonzero(view.pods.distinct.where_template(is_resize_deferred)).tolist():
        info = view.pods.infos[number]
        reverted = PodInfo(revert_resize(info.pod), info.options)
        by_info[number] = ResizeAmounts(info.requests, reverted.requests)
    return by_info
