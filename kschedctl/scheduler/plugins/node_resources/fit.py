"""NodeResourcesFit: room for the pod's requests, and how full a node would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, Self

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import AnyGroup
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
    required_state,
)
from kschedctl.scheduler.framework.declaration import NextStep, OwnRowPlugin
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    ActionType,
    ClusterEventWithHint,
    adapt_node_hint,
    node_actions,
    pod_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import (
    ADD,
    ADD_OR_UPDATE,
    DELETE,
    UPDATE,
    WakeTrigger,
    join_words,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.scheduler.plugins.helper.placed_pods import FREES_PROMISES
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    STRATEGIES,
    AskedAmounts,
    NodeUsage,
    Usage,
    asked_of,
    most_allocated,
    node_usage,
    pod_amounts,
)
from kschedctl.scheduler.plugins.helper.signing import signed_resources
from kschedctl.scheduler.plugins.node_resources import hints
from kschedctl.scheduler.plugins.node_resources.deferred_resizes import deferred_resizes
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_resources.fit_arguments import NodeResourcesFitArgs
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import agreeing

TOO_MANY_PODS = "Too many pods"
TOO_LARGE = ByVersion(
    "the code for a request that is larger than the node",
    (("", Code.UNSCHEDULABLE), ("1.34", Code.UNRESOLVABLE)),
    "#131345",
)
SCORES_DEVICES = ByVersion(
    "whether NodeResourcesFit scores extended resources that devices back", (("", False), ("1.35", True)), "#134058"
)
MOST_PODS = 2**20
"""More than any node holds."""
HEARS_OF_CLASSES = ByVersion("whether NodeResourcesFit asks to be told of DeviceClasses", (("", False), ("1.35", True)))


class NodeResourcesFit(OwnRowPlugin[Mapping[str, int], AskedAmounts]):
    """Rejects nodes that lack some requested resource, scores them by the profile's strategy.

    Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go (v1.36). A request above what the node offers when
    empty is UnschedulableAndUnresolvable.
    """

    name = "NodeResourcesFit"
    facts = (Insufficient, TooManyPods)
    changed = (
        TOO_LARGE,
        SCORES_DEVICES,
        HEARS_OF_CLASSES,
        hints.OWN_RESIZE_COUNTS,
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
        self.scored = features._replace(extended_resource=features.extended_resource and SCORES_DEVICES.at(version))
        self.strategy = args.scoring_strategy

    @classmethod
    def make(cls, args: NodeResourcesFitArgs, gates: FeatureGates) -> Self:
        return cls(args, Features.of(gates), gates.release)

    def pre_filter(self, info: PodInfo, view: NodeView) -> PreFilterResult[Mapping[str, int]]:
        return PreFilterResult(state=info.incoming_requests)

    def filter(
        self, info: PodInfo, view: NodeView, state: Mapping[str, int] | None, delta: Delta
    ) -> Iterator[Rejection]:
        requests = required_state(state, 'error reading "PreFilterNodeResourcesFit" from cycleState: not found')
        usage = Usage(view, view.requested, view.requests, delta)
        if usage.leaves(requests):
            return
        pods = usage.of(names.PODS)
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
            asked = request != 0 if names.is_scalar(name) else request > 0  # below zero: beyond int64
            if asked and not self._ignored(name):
                yield from self._insufficient(name, request, usage, devices.backs(name))

    def room_helps(self, view: Fork) -> bool:
        """So it is unless a sum of requests is beyond int64."""
        return view.memo((NodeResourcesFit, "sums"), lambda: _adds_up(view))

    def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[AskedAmounts]:
        return PreScoreResult(self._asked(info, view))

    def score(self, info: PodInfo, view: NodeView, state: AskedAmounts | None, rows: Rows) -> Scores:
        asked = self._asked(info, view) if state is None else state
        used = node_usage(asked, view, view.nonzero_requested, rows, partial(DeviceBackedResources, view, self.scored))
        return STRATEGIES[self.strategy.type](self.strategy, used)

    def normalize(self, state: AskedAmounts | None, scores: Scores) -> Scores:
        return scores

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        resizes = gates.enabled("InPlacePodVerticalScaling")
        shrinks = pod_actions(ActionType.UPDATE_POD_SCALE_DOWN, gates) if resizes else ActionType(0)
        promised = FREES_PROMISES.at(gates.release)
        anyhow = hints.OWN_RESIZE_COUNTS.at(gates.release)
        after_pod_event = partial(hints.after_pod_event, resizes=resizes, promised=promised, anyhow=anyhow)
        yield ClusterEventWithHint(POD, ActionType.DELETE | shrinks, after_pod_event)
        after_node_change = partial(hints.after_node_change, from_devices=self.features.extended_resource)
        actions = node_actions(ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, gates, broad=True)
        yield ClusterEventWithHint(NODE, actions, adapt_node_hint(after_node_change, gates))
        if self.features.extended_resource and HEARS_OF_CLASSES.at(gates.release):
            actions = ActionType.ADD | ActionType.UPDATE
            yield ClusterEventWithHint("DeviceClass", actions, hints.after_device_class_event)

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """How full the nodes of the placement would be together; devices do not count."""
        resources = self.strategy.resources
        wanted = np.array([self._requests(assignment.info, view) for assignment in proposal.assignments], np.int64)
        wanted = wanted.reshape(-1, len(resources)).sum(axis=0)
        asked = asked_of(resources, wanted.tolist(), view)
        devices = partial(DeviceBackedResources, view, self.scored._replace(extended_resource=False))
        of_nodes = node_usage(asked, view, view.nonzero_requested, proposal.placement.rows, devices)
        used, offered = (amounts.sum(axis=1)[:, None] for amounts in (of_nodes.used, of_nodes.allocatable))
        return int(most_allocated(self.strategy, NodeUsage(wanted[:, None] + used, used, offered, of_nodes.weights))[0])

    def normalize_placements(self, scores: Scores) -> Scores:
        return scores

    def _asked(self, info: PodInfo, view: NodeView) -> AskedAmounts:
        return asked_of(self.strategy.resources, self._requests(info, view), view)

    def _requests(self, info: PodInfo, view: NodeView) -> list[int]:
        """Upstream scores with the containers' requests alone: no pod-level resources, no status."""
        resources, options = self.strategy.resources, info.options._replace(use_status=False, pod_level=False)
        key = NodeResourcesFit, resources
        return view.memo(key, lambda: pod_amounts(info, resources, options, nonzero=True), info)

    def _ignored(self, name: str) -> bool:
        if not names.is_extended(name):
            return False
        return name in self.args.ignored_resources or name.partition("/")[0] in self.args.ignored_resource_groups

    def _insufficient(self, name: str, request: int, usage: Usage, from_devices: bool) -> Iterator[Rejection]:
        """One rejection for the nodes that are too small, one for those that are too full.

        ``from_devices``: nodes that offer none of the resource may have it as devices, which DynamicResources looks at.
        """
        column = usage.of(name)
        free = column.allocatable - column.used
        short = request > free
        if from_devices:
            short &= column.allocatable > 0
        if not short.any():
            return
        small, lacking = request > column.allocatable, request - free.astype(np.float64)
        largest = int(column.allocatable.max())

        def fact(row: int) -> Insufficient:
            offered = int(column.allocatable[row])
            free_there = max(offered - int(column.used[row]), 0)
            return Insufficient(name, request, free_there, offered, largest, deferred_resizes(name, row, usage.view))

        reason = f"Insufficient {name}"
        if small.any():
            yield Rejection(small & short, self.too_large, reason, fact, lacking)
            short &= ~small
        yield Rejection(short, Code.UNSCHEDULABLE, reason, fact, lacking)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        requests = {name: amount for name, amount in info.incoming_requests.items() if amount > 0}
        asked = (
            join_words([f"{format_amount(name, amount)} {name}" for name, amount in requests.items()])
            or "room for one more pod"
        )
        are = agreeing(max(len(requests), 1), "is", "are")
        of = join_words(list(requests), "or") or "pods"
        yield WakeTrigger(POD, DELETE, f"any pod leaves a node (this one fits where {asked} {are} free then)")
        yield WakeTrigger(
            POD, ActionType.UPDATE_POD_SCALE_DOWN, f"a pod on a node, or the pod itself, requests less {of}"
        )
        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, f"a node is added, or changes, that offers {asked}")
        else:
            yield WakeTrigger(NODE, ADD, f"a node is added that offers {asked}")
            more = f"a node offers more {of}, in total {asked}"
            yield WakeTrigger(NODE, ActionType.UPDATE_NODE_ALLOCATABLE, more)
        extended = [name for name in requests if is_dra_extended(name)]
        if extended:
            yield WakeTrigger(
                "DeviceClass", ADD_OR_UPDATE, f"a DeviceClass starts to back {join_words(extended, 'or')}"
            )

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        return signed_resources(info, view, self.features)


def _adds_up(view: Fork) -> bool:
    """Whether no number of pods requests less than none, or more than int64 holds."""
    least, most = int(view.requests.min(initial=0)), int(view.requests.max(initial=0))
    return least >= 0 and most * MOST_PODS <= INT64_MAX
