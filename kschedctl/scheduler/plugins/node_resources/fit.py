"""NodeResourcesFit plugin: rejects nodes without room for the pod's requests, and scores the others by their usage.

Upstream: plugins/noderesources/fit.go, and for the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from msgspec.structs import replace

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Row, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import AnyGroup
from kschedctl.api.pod_requests import is_resize_deferred, revert_pending_resize
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.resource_names import is_dra_extended
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
from kschedctl.scheduler.framework.facts import CauseScope, Detail, Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    DEFAULT_RESOURCES,
    STRATEGIES,
    DemandedAmounts,
    NodeUsage,
    ScoringStrategy,
    Usage,
    compute_node_usage,
    fill_in_weights,
    get_demanded_amounts,
    list_pod_amounts,
    score_most_allocated,
    validate_utilization_shape,
)
from kschedctl.scheduler.plugins.helper.signing import sign_resources
from kschedctl.scheduler.plugins.node_resources import hints
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, NodeView, get_whole_fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import agreeing, counted

if TYPE_CHECKING:
    from kschedctl.scheduler.engine.pod_groups.placement import PodGroupAssignments


class DeferredResize(Detail, frozen=True):
    """A pod on the node whose deferred in-place resize reserves more of a resource than the pod currently has."""

    pod: str
    reserved: int
    running: int


class Insufficient(Fact, frozen=True):
    """A resource of which a node has less free than the pod requests."""

    names_best_node = True
    names_node = True

    resource: str
    requested: int
    free: int
    """The free amount on the node."""
    offered: int
    """The allocatable amount of the node."""
    largest: int
    """The largest allocatable amount of any node."""
    deferred_resizes: tuple[DeferredResize, ...] = ()
    """The deferred resizes on the node that reserve more of the resource than is used, largest difference first."""

    @property
    def exceeds_every_node(self) -> bool:
        """True if the request is larger than any node, even an empty one."""
        return self.requested > self.largest

    def describe(self) -> str:
        """Describe the requested and the free amounts, and the deferred resizes that reserve part of the resource.

        >>> Insufficient("cpu", requested=6000, free=2260, offered=8000, largest=8000).describe()
        'the pod needs 6 CPUs, but the node has 2.26 of 8 free'
        >>> Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000).describe()
        'the pod needs 9 CPUs, but the node has only 4'
        >>> print(Insufficient("cpu", 2000, 0, 12000, 12000, (DeferredResize("shop/big", 12000, 1000),)).describe())
        the pod needs 2 CPUs, but the node has 0 of 12 free: shop/big reserves 12 for a deferred resize but runs with 1
        >>> Insufficient("nvidia.com/gpu", requested=1, free=0, offered=0, largest=4).describe()
        'the pod needs 1 nvidia.com/gpu, but the node has none'
        """
        return f"the pod {self._describe_need('the node')}"

    def describe_node(self) -> str:
        """Describe the free amount on the node.

        >>> Insufficient("cpu", requested=6000, free=2260, offered=8000, largest=8000).describe_node()
        '2.26 of 8 CPUs free'
        >>> Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000).describe_node()
        'only 4 CPUs in all'
        >>> Insufficient("nvidia.com/gpu", requested=1, free=0, offered=0, largest=4).describe_node()
        'no nvidia.com/gpu'
        """
        (_, free, offered), unit = names.format_amounts_for_sentence(
            self.resource, self.requested, self.free, self.offered
        )
        if not self.offered:
            return f"no {unit}"
        return f"only {offered} {unit} in all" if self.exceeds_every_node else f"{free} of {offered} {unit} free"

    def describe_with_nominations(self) -> str:
        """Return the description, which already says if nominated pods were counted."""
        return self.describe()

    def _describe_need(self, node: str) -> str:
        """Describe what the pod needs and what the node has, as in "needs 6 CPUs, but the node has 2.26 of 8 free".

        `node` names the node in the text.
        """
        amounts = names.format_amounts_for_sentence(self.resource, self.requested, self.free, self.offered)
        (requested, free, offered), unit = amounts
        if not self.largest:
            return f"needs {requested} {unit}, which no node offers"
        need = f"needs {requested} {unit}, but {node} has"
        if not self.offered:
            return f"{need} none"
        if self.exceeds_every_node:
            return f"{need} only {offered}{amounts.unit_suffix}"
        stock = f"{free} of {offered}{amounts.unit_suffix} free{self._describe_nominations()}"
        return f"{need} {stock}{self._describe_resizes()}"

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the requested amount and the largest free amount, which is on the node of `scope`.

        A request that exceeds every node is compared with the size of the largest node instead.

        >>> all_nodes = CauseScope("w4", "", " (rules out all 9 nodes)", no_node="none of the 9 nodes")
        >>> print(Insufficient("cpu", 6000, 2260, 8000, 8000).describe_cause(all_nodes))
        needs 6 CPUs, but none of the 9 nodes has more than 2.26 free (w4)
        >>> print(Insufficient("cpu", 6000, 0, 8000, 8000).describe_cause(all_nodes))
        needs 6 CPUs, but none of the 9 nodes has any free
        >>> print(Insufficient("cpu", 9000, 2260, 4000, 8000).describe_cause(CauseScope("w4", "", "")))
        needs 9 CPUs, but the largest node has only 8
        >>> print(Insufficient("cpu", 6000, 2260, 8000, 8000, nominated=True).describe_cause(CauseScope("w4", "", "")))
        needs 6 CPUs, but no node has more than 2.26 free after reserving room for nominated pods (w4)
        """
        if scope.is_only_node or (scope.is_only_eligible_node and not self.exceeds_every_node):
            return self._describe_need(scope.describe_node())
        if scope.is_partial and scope.is_single and not self.exceeds_every_node:
            return f"{self._describe_need(scope.node)}{scope.share}"
        return self.describe_cause_with_full_node(scope)

    def describe_cause_with_full_node(
        self, scope: CauseScope, full_node: str = "", full: Insufficient | None = None
    ) -> str:
        """Describe the requested amount and the largest free amount, disregarding a node that is full of pods.

        The amount is free on the node of `scope`. On `full_node`, more of the resource is free, but no pod can be
        added. `full` is the same shortage on `full_node`. Without `full`, no full node is mentioned. If other nodes
        have enough, the text says which nodes the amount is about.

        >>> full = Insufficient("cpu", 3500, 2200, 3900, 3900)
        >>> fact, scope = Insufficient("cpu", 3500, 600, 3900, 3900), CauseScope("a4", "", "")
        >>> print(fact.describe_cause_with_full_node(scope, "a6", full))
        needs 3.5 CPUs, but no node has more than 0.6 free (a4), apart from a6, which has 2.2 free but is full of pods
        >>> print(fact.describe_cause(scope._replace(nodes="6 of 7 candidate nodes", is_partial=True)))
        needs 3.5 CPUs, but 6 of 7 candidate nodes have at most 0.6 free (a4)
        """
        full_node_amount = full.free if full else 0
        amounts = names.format_amounts_for_sentence(
            self.resource, self.requested, self.free, full_node_amount, self.largest
        )
        (requested, free, free_on_full, largest), unit = amounts
        suffix = amounts.unit_suffix

        # The request exceeds the size of every node.
        if not self.largest:
            return f"needs {requested} {unit}, which no node offers"
        need = f"needs {requested} {unit}, but"
        if self.exceeds_every_node:
            return f"{need} the largest node has only {largest}{suffix}{scope.share}"

        # The request fits on an empty node, but exceeds what is free.
        after = self._describe_nominations()
        full_node_text = f", apart from {full_node}, which has {free_on_full}{suffix} free but is full of pods"
        details = full_node_text if full else ""
        details += self._describe_resizes()
        if scope.is_partial:
            at_most = f"at most {free}{suffix}" if self.free else "none"
            return f"{need} {scope.nodes} have {at_most} free{after} ({scope.node}){details}"
        if full:  # the full node is one of the nodes that the share counts
            return f"{need} no node has more than {free}{suffix} free{after} ({scope.node}){details}{scope.share}"
        if not self.free:
            return f"{need} {scope.no_node} has any free{after}{details}"
        return f"{need} {scope.no_node} has more than {free}{suffix} free{after} ({scope.node}){details}"

    def describe_cause_with_small_candidates(self, scope: CauseScope) -> str:
        """Describe a request that exceeds the node even if it is empty, and with it all candidate nodes of `scope`.

        No candidate node offers more than this node. Other nodes may.

        >>> candidates = CauseScope("w4", "", " (rules out all 9 candidate nodes)")
        >>> print(Insufficient("cpu", 9000, 2260, 4000, 64000).describe_cause_with_small_candidates(candidates))
        needs 9 CPUs, but the largest candidate node has only 4 (rules out all 9 candidate nodes)
        >>> print(Insufficient("a/b", 1, 0, 0, 4).describe_cause_with_small_candidates(candidates))
        needs 1 a/b, which no candidate node offers (rules out all 9 candidate nodes)
        """
        amounts = names.format_amounts_for_sentence(self.resource, self.requested, self.offered)
        (requested, offered), unit = amounts
        if not self.offered:
            return f"needs {requested} {unit}, which no candidate node offers{scope.share}"
        largest = f"the largest candidate node has only {offered}{amounts.unit_suffix}"
        return f"needs {requested} {unit}, but {largest}{scope.share}"

    def _describe_nominations(self) -> str:
        """Return a phrase that says that nominated pods were counted, or "" if there are none."""
        return " after reserving room for nominated pods" if self.nominated else ""

    def _describe_resizes(self) -> str:
        """Return a clause about the pods whose deferred resize reserves part of the resource.

        The clause describes the largest resize and counts the others. It is empty if there are no deferred resizes.
        """
        if not self.deferred_resizes:
            return ""
        first, *others = self.deferred_resizes
        amounts = names.format_amounts_for_sentence(self.resource, first.reserved, first.running)
        (reserved, running), suffix = amounts.numbers, amounts.unit_suffix
        clause = f": {first.pod} reserves {reserved}{suffix} for a deferred resize but runs with {running}{suffix}"
        if others:
            clause += f", and {counted(len(others), 'more pod')} {agreeing(len(others), 'does', 'do')} so"
        return clause


class TooManyPods(Fact, frozen=True):
    """A node that already has its maximum number of pods."""

    pods: int
    limit: int
    """The maximum number of pods of the node."""

    def describe(self) -> str:
        """Return the number of pods on the node together with its limit.

        >>> TooManyPods(5, 5).describe(), TooManyPods(6, 5).describe()
        ('the node already runs its maximum of 5 pods', 'the node already runs 6 pods, and its maximum is 5')
        """
        return self._describe_pods("the node")

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the number of pods on the node and its limit, followed by the nodes to which the cause applies.

        If no other node is eligible, the node is named instead.

        >>> TooManyPods(5, 5).describe_cause(CauseScope("w2", "", "", is_only_eligible_node=True))
        'the only candidate node, w2, already runs its maximum of 5 pods'
        """
        if scope.is_only_node or scope.is_only_eligible_node:
            return self._describe_pods(scope.describe_node())
        return super().describe_cause(scope)

    def _describe_pods(self, node: str) -> str:
        """Describe the number of pods on a node and their maximum. `node` names the node in the text."""
        if self.pods > self.limit:
            return f"{node} already runs {counted(self.pods, 'pod')}, and its maximum is {self.limit:,}"
        return f"{node} already runs its maximum of {counted(self.limit, 'pod')}"


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
        """Return the arguments, with default weights and, if none are set, the default resources of the strategy."""
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=fill_in_weights(strategy.resources)))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors in the names of ignored resources and resource groups, and in the scoring strategy."""
        for i, name in enumerate(self.ignored_resources):
            yield from validate_qualified_name(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(f"ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'")
            yield from validate_qualified_name(f"ignoredResourceGroups[{i}]", group)
        yield from _validate_scoring_strategy(self.scoring_strategy)


def _validate_scoring_strategy(strategy: ScoringStrategy) -> Iterator[str]:
    """Yield the errors for an unknown type, for weights out of range, and for a missing or forbidden shape."""
    if strategy.type not in SCORING_STRATEGIES:
        yield not_supported("scoringStrategy.type", strategy.type, SCORING_STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            rule = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"scoringStrategy.resources[{i}].weight", resource.weight, rule)
    path = "scoringStrategy.requestedToCapacityRatio"
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from validate_utilization_shape(ratio.shape, f"{path}.shape")


TOO_MANY_PODS = "Too many pods"
TOO_LARGE = ByVersion(
    "status code for a request that is larger than the node",
    (("", Code.UNSCHEDULABLE), ("1.34", Code.UNRESOLVABLE)),
    "#131345",
)
SCORES_DEVICES = ByVersion(
    "extended resources that are backed by devices are scored", (("", False), ("1.35", True)), "#134058"
)
MAX_PODS_PER_NODE = 2**20
"""More pods than any node runs."""
REGISTERS_DEVICE_CLASS_EVENTS = ByVersion(
    "a changed DeviceClass can make the scheduler retry a rejected pod", (("", False), ("1.35", True))
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
    without = "nodes are filled beyond their resources, and kubelets reject the pods"
    fixes = "requests"
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
        scores_devices = features.extended_resource and SCORES_DEVICES.at(version)
        self.scored_features = features._replace(extended_resource=scores_devices)
        """The features with which devices count in scores."""
        self.strategy = args.scoring_strategy

    @classmethod
    def make(cls, args: NodeResourcesFitArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments for the feature gates and their version."""
        return cls(args, Features.from_gates(gates), gates.release)

    def pre_filter(self, info: PodInfo, view: NodeView) -> PreFilterResult[Mapping[str, int]]:
        """Return the pod's requests as the state for Filter."""
        return PreFilterResult(state=info.incoming_requests)

    def filter(
        self, info: PodInfo, view: NodeView, state: Mapping[str, int] | None, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield a rejection of nodes with too many pods, then up to two rejections for each requested resource.

        One rejection has the nodes that are too small even if empty, and the other has the nodes without enough free
        capacity. Rejections without nodes are left out. Resources that the profile ignores are not checked. Raises
        PluginError if PreFilter did not run.
        """
        requests = require_state(state, 'error reading "PreFilterNodeResourcesFit" from cycleState: not found')
        usage = Usage(view, view.requested, view.requests, delta)
        if usage.fits_everywhere(requests):
            return

        pods = usage.get_column(names.PODS)
        is_full = pods.used >= pods.allocatable
        if is_full.any():
            yield Rejection(
                is_full,
                Code.UNSCHEDULABLE,
                TOO_MANY_PODS,
                lambda row: TooManyPods(int(pods.used[row]), int(pods.allocatable[row])),
                distance=(pods.used + 1 - pods.allocatable).astype(np.float64),
            )

        devices = DeviceBackedResources(view, self.features)
        for name, request in requests.items():
            # A request below zero has overflowed int64. Upstream checks it only for scalar resources.
            is_requested = request != 0 if names.is_scalar(name) else request > 0
            if is_requested and not self._is_resource_ignored(name):
                yield from self._iter_rejections_for_resource(
                    name, request, usage, from_devices=devices.is_backed(name)
                )

    def can_evictions_only_help(self, view: Fork) -> bool:
        """Return whether evicting pods can never make Filter reject a node.

        Evictions can have this effect only if requests overflow int64.
        """
        return view.memo((NodeResourcesFit, "sums"), lambda: _is_overflow_impossible(view))

    def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[DemandedAmounts]:
        """Return the pod's requests for the scored resources as the state for Score."""
        return PreScoreResult(self._get_demanded_amounts(info, view))

    def score(self, info: PodInfo, view: NodeView, state: DemandedAmounts | None, rows: Rows) -> Scores:
        """Score the nodes in `rows` from 0 to 100 by the profile's scoring strategy.

        If PreScore did not run, the pod's demanded amounts are computed here.
        """
        demanded = self._get_demanded_amounts(info, view) if state is None else state
        devices = partial(DeviceBackedResources, view, self.scored_features)
        usage = compute_node_usage(demanded, view, view.nonzero_requested, rows, devices)
        return STRATEGIES[self.strategy.type](self.strategy, usage)

    def normalize(self, state: DemandedAmounts | None, scores: Scores) -> Scores:
        """Return the scores unchanged."""
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
        node_actions = resolve_node_actions(
            ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, gates, all_updates_before_1_32=True
        )
        yield ClusterEventWithHint(NODE, node_actions, adapt_node_hint(node_hint, gates))

        if self.features.extended_resource and REGISTERS_DEVICE_CLASS_EVENTS.at(gates.release):
            class_actions = ActionType.ADD | ActionType.UPDATE
            yield ClusterEventWithHint("DeviceClass", class_actions, hints.is_schedulable_after_device_class_event)

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """Return the utilization of all nodes of the placement together, with the group's pods, from 0 to 100.

        The utilization is the weighted mean over the scored resources. Devices are not counted.
        """
        resources = self.strategy.resources
        pod_requests = [self._list_scored_requests(assignment.info, view) for assignment in proposal.assignments]
        requests = np.array(pod_requests, np.int64).reshape(-1, len(resources)).sum(axis=0)
        demanded = get_demanded_amounts(resources, requests.tolist(), view)
        devices = partial(DeviceBackedResources, view, self.scored_features._replace(extended_resource=False))
        usage = compute_node_usage(demanded, view, view.nonzero_requested, proposal.placement.rows, devices)

        # All nodes of the placement together are scored like a single node.
        used = usage.used.sum(axis=1)[:, None]
        offered = usage.allocatable.sum(axis=1)[:, None]
        total_usage = NodeUsage(requests[:, None] + used, used, offered, usage.weights)
        (score,) = score_most_allocated(self.strategy, total_usage)
        return int(score)

    def normalize_placements(self, scores: Scores) -> Scores:
        """Return the scores unchanged."""
        return scores

    def _get_demanded_amounts(self, info: PodInfo, view: NodeView) -> DemandedAmounts:
        """Return the pod's requests for the scored resources, aligned with the nodes' columns."""
        return get_demanded_amounts(self.strategy.resources, self._list_scored_requests(info, view), view)

    def _list_scored_requests(self, info: PodInfo, view: NodeView) -> list[int]:
        """Return the pod's requests for the scored resources, in the order of the resources.

        Containers without a request for cpu or memory count with the scheduler's nonzero defaults. As in upstream, only
        the containers' requests in the spec are used, not pod-level requests.
        """
        resources = self.strategy.resources
        options = info.options._replace(use_status=False, pod_level=False)
        # The key starts with the class, because other plugins cache other amounts of the same pod.
        key = NodeResourcesFit, resources
        return view.memo(key, lambda: list_pod_amounts(info, resources, options, nonzero=True), info)

    def limits_resource(self, name: str, view: NodeView) -> bool:
        """Return whether the plugin rejects nodes that have too little of the resource.

        Such nodes are not rejected if the profile ignores the resource, or if devices may back it.
        """
        return not self._is_resource_ignored(name) and not DeviceBackedResources(view, self.features).is_backed(name)

    def _is_resource_ignored(self, name: str) -> bool:
        """Return whether the profile ignores the extended resource or its group."""
        if not names.is_extended(name):
            return False
        group, _, _ = name.partition("/")
        return name in self.args.ignored_resources or group in self.args.ignored_resource_groups

    def _iter_rejections_for_resource(
        self, name: str, request: int, usage: Usage, *, from_devices: bool
    ) -> Iterator[Rejection]:
        """Yield one rejection of the nodes that are too small for the request, and one of those that are too full.

        Nothing is yielded if the request fits on all nodes, and the first is left out if no node is too small. If
        `from_devices` is true, nodes that offer none of the resource pass, because DynamicResources checks their
        devices.
        """
        column = usage.get_column(name)
        free = column.allocatable - column.used
        insufficient = request > free
        if from_devices:
            insufficient &= column.allocatable > 0
        if not insufficient.any():
            return

        too_small = insufficient & (request > column.allocatable)
        too_full = insufficient & ~too_small
        missing_amounts = request - free.astype(np.float64)
        largest = int(column.allocatable.max())

        def build_fact(row: int) -> Insufficient:
            """Build the fact that the node at `row` has too little of the resource left."""
            offered = int(column.allocatable[row])
            return Insufficient(
                name,
                request,
                free=max(offered - int(column.used[row]), 0),
                offered=offered,
                largest=largest,
                deferred_resizes=find_deferred_resizes(name, row, usage.view),
            )

        reason = f"Insufficient {name}"
        if too_small.any():
            yield Rejection(too_small, self.too_large, reason, fact=build_fact, distance=missing_amounts)
        yield Rejection(too_full, Code.UNSCHEDULABLE, reason, fact=build_fact, distance=missing_amounts)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        requests = {name: amount for name, amount in info.incoming_requests.items() if amount > 0}
        amounts = [names.describe_amount(name, amount) for name, amount in requests.items()]
        demand = join_words(amounts) or "room for one more pod"
        resources = join_words(["CPU" if name == names.CPU else name for name in requests], "or") or "pods"

        yield WakeTrigger(POD, DELETE, f"a pod leaves a node (to fit there, this pod needs {demand})")
        less_requested = f"a running pod, or this pod, is resized to request less {resources}"
        yield WakeTrigger(POD, ActionType.UPDATE_POD_SCALE_DOWN, less_requested)

        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, f"a node that offers {demand} is added or changes")
        else:
            yield WakeTrigger(NODE, ADD, f"a node that offers {demand} is added")
            more_offered = f"a node's allocatable resources grow to at least {demand}"
            yield WakeTrigger(NODE, ActionType.UPDATE_NODE_ALLOCATABLE, more_offered)

        extended_resources = [name for name in requests if is_dra_extended(name)]
        if extended_resources:
            newly_backed = f"a DeviceClass starts to back {join_words(extended_resources, 'or')}"
            yield WakeTrigger("DeviceClass", ADD_OR_UPDATE, newly_backed)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return the pod's requests as part of its signature, or None if devices may back its extended resources."""
        return sign_resources(info, view, self.features)


def _is_overflow_impossible(view: Fork) -> bool:
    """Return whether the requests of the pods that a node can run never overflow int64 when added up."""
    smallest, largest = int(view.requests.min(initial=0)), int(view.requests.max(initial=0))
    return smallest >= 0 and largest * MAX_PODS_PER_NODE <= INT64_MAX


class ResizeAmounts(NamedTuple):
    """The requests of a pod with a deferred resize, by resource: millicores of cpu, bytes, or counts."""

    reserved: dict[str, int]
    """The amounts that the scheduler counts."""
    running: dict[str, int]
    """The amounts with which the pod runs."""


def find_deferred_resizes(resource: str, row: int, view: NodeView) -> tuple[DeferredResize, ...]:
    """Return the deferred resizes of pods on the node that reserve more of the resource than the pods run with.

    The resize with the largest difference comes first. `row` is the node's row in the view. The result is () if there
    are none.

    Upstream: determineContainerReqs in staging/src/k8s.io/component-helpers/resource/helpers.go (v1.36).
    """
    fork = get_whole_fork(view)
    # A view that is not a fork has some of the fork's nodes, so its rows differ from those of the fork.
    row_in_fork = Row(row if isinstance(view, Fork) else int(view.rows[row]))
    amounts_by_info = fork.memo_of_pods("amounts of deferred resizes", lambda: _compute_resize_amounts(fork))
    if not amounts_by_info:
        return ()
    resizes = []
    for position in fork.pods_on(row_in_fork):
        amounts = amounts_by_info.get(fork.pods.get_info_number(position))
        if amounts is None or resource not in amounts.reserved:
            continue
        reserved, running = amounts.reserved[resource], amounts.running.get(resource, 0)
        if reserved > running:
            resizes.append(DeferredResize(fork.pods.objects[position].key, reserved, running))
    return tuple(sorted(resizes, key=lambda resize: resize.reserved - resize.running, reverse=True))


def _compute_resize_amounts(view: Fork) -> dict[int, ResizeAmounts]:
    """Return the amounts that are reserved for each PodInfo with a deferred resize, and its amounts before the resize.

    The result is keyed by the number of the PodInfo.
    """
    by_info = {}
    for number in np.flatnonzero(view.pods.distinct.mask_templates(is_resize_deferred)).tolist():
        info = view.pods.infos[number]
        reverted = PodInfo(revert_pending_resize(info.pod), info.options)
        by_info[number] = ResizeAmounts(info.requests, reverted.requests)
    return by_info
