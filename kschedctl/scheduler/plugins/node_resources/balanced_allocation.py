"""NodeResourcesBalancedAllocation plugin: prefers nodes whose resources would be used evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Amounts, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import PRE_SCORE_SKIP, Fragment, Peers, PreScoreResult, UpstreamFault
from kschedctl.scheduler.framework.arguments import Naming, PluginArgs, duplicate, invalid
from kschedctl.scheduler.framework.declaration import OwnRowPlugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    DemandedAmounts,
    NodeUsage,
    ResourceSpec,
    Usage,
    compute_node_usage,
    fill_in_weights,
    get_demanded_amounts,
    list_pod_amounts,
)
from kschedctl.scheduler.plugins.helper.signing import sign_resources
from kschedctl.snapshot.fork import Fork, NodeView
from kschedctl.snapshot.pod_info import PodInfo

Fractions = npt.NDArray[np.float64]
CRASH = (
    "kube-scheduler 1.36 crashes when its NodeResourcesBalancedAllocation scores {}, which DeviceClass {} backs by"
    " selectors (nil CEL cache); its scores here are what they should be"
)


class ScoredBalance(StrEnum):
    """The balance of a node that NodeResourcesBalancedAllocation scores."""

    WITH_POD = "how balanced the node would be with the pod"
    COMPARED = "how much the pod would change the node's balance"


SCORED_BALANCE = ByVersion(
    "what the score measures",
    (("", ScoredBalance.WITH_POD), ("1.36", ScoredBalance.COMPARED)),
    "#135573",
)
BEST_EFFORT = ByVersion(
    "pods that request none of the scored resources are scored",
    (("", True), ("1.33", False)),
    "#130260",
)
HALF_SCORE = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose utilizations should be similar."""

    naming: ClassVar[Mapping[str, Naming]] = {"name": "resource"}
    resources: tuple[ResourceSpec, ...] = ()

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments, with default weights and, if none are set, the default resources."""
        return replace(self, resources=fill_in_weights(self.resources))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for each duplicate resource and for each weight that is not 1."""
        earlier_names = set()
        for i, resource in enumerate(self.resources):
            if resource.name in earlier_names:
                yield duplicate(f"resources[{i}].name", resource.name)
            earlier_names.add(resource.name)
            if resource.weight != 1:
                yield invalid(f"resources[{i}].weight", resource.weight, "must be 1")


class NodeResourcesBalancedAllocation(OwnRowPlugin[None, DemandedAmounts]):
    """Plugin that prefers nodes where the pod makes the utilization of the resources more even.

    A node scores near 50 if the pod makes its balance worse, 75 if the balance stays the same, and near 100 if it
    improves.

    Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go (v1.36).
    """

    name = "NodeResourcesBalancedAllocation"
    changed = (
        SCORED_BALANCE,
        BEST_EFFORT,
    )
    default_weight = 1
    peers = Peers.NONE
    args_type = NodeResourcesBalancedAllocationArgs

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs,
        features: Features = DEFAULT_FEATURES,
        version: KubeVersion = VERIFIED,
    ) -> None:
        self.resources, self.features = args.resources, features
        self.compares_with_before = SCORED_BALANCE.at(version) is ScoredBalance.COMPARED
        self.scores_best_effort = BEST_EFFORT.at(version)

    @classmethod
    def make(cls, args: NodeResourcesBalancedAllocationArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments for the feature gates and their version."""
        return cls(args, Features.from_gates(gates), gates.release)

    def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[DemandedAmounts]:
        """Return the pod's requests as the state for Score, or skip Score if it requests none of the scored resources.

        Versions before 1.33 do not skip Score.
        """
        requests = self._list_scored_requests(info, view)
        if not (any(requests) or self.scores_best_effort):
            return PRE_SCORE_SKIP
        return PreScoreResult(get_demanded_amounts(self.resources, requests, view))

    def score(self, info: PodInfo, view: NodeView, state: DemandedAmounts | None, rows: Rows) -> Scores:
        """Score the nodes in `rows` by how evenly their resources would be used with the pod.

        Since 1.36, the balance with the pod is compared with the balance without it. If PreScore did not run, its state
        is computed here. All scores are 0 for a pod that PreScore would have skipped.
        """
        demanded = self.pre_score(info, view, rows).state if state is None else state
        if demanded is None:
            return np.zeros(len(rows), np.int64)
        devices = partial(DeviceBackedResources, view, self.features)
        usage = compute_node_usage(demanded, view, view.requested, rows, devices)
        with_pod, without_pod = _compute_balance_scores(np.array((usage.requested, usage.used)), usage)
        if not self.compares_with_before:
            return with_pod
        improvement = ((HALF_SCORE + with_pod - without_pod) / 2).astype(np.int64)  # rounded towards zero, as in Go
        compared: Scores = HALF_SCORE + improvement
        return compared

    def find_upstream_fault(self, cycle: Cycle) -> UpstreamFault | None:
        """Return the fault if kube-scheduler 1.36 crashes while it scores this pod, otherwise None.

        Upstream's plugin lacks the cache for CEL selectors of DeviceClasses. It crashes if a scored node has devices
        but does not itself offer a requested resource whose class has CEL selectors. A single feasible node is not
        scored.
        """
        rows = cycle.feasible
        has_scored_pod = len(rows) > 1 and self.name in cycle.scores.raw  # unless PreScore skipped this plugin
        if not has_scored_pod:
            return None

        # Look for a requested resource that makes the plugin crash on some scored node.
        devices = DeviceBackedResources(cycle.view, self.features)
        usage = Usage(cycle.view, cycle.view.requested, cycle.view.requests)
        requests = self._list_scored_requests(cycle.info, cycle.view)
        for resource, request in zip(self.resources, requests, strict=True):
            if not request:
                continue
            class_with_selectors = devices.find_class_with_selectors(resource.name)
            if not class_with_selectors:
                continue
            is_missing_on_node = usage.get_column(resource.name).allocatable[rows] == 0
            crashes_on_node = devices.find_nodes_with_devices()[rows] & is_missing_on_node
            if crashes_on_node.any():
                text = CRASH.format(resource.name, class_with_selectors)
                return UpstreamFault(text, plugin_without_fault=None)
        return None

    def normalize(self, state: DemandedAmounts | None, scores: Scores) -> Scores:
        """Return the scores unchanged."""
        return scores

    def _list_scored_requests(self, info: PodInfo, view: NodeView) -> list[int]:
        """Return the pod's requests for the scored resources, in the order of the resources.

        Unlike in NodeResourcesFit, no default is assumed for containers without a request.
        """
        key = NodeResourcesBalancedAllocation, self.resources
        return view.memo(key, lambda: list_pod_amounts(info, self.resources, info.options), info)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return the pod's requests as part of its signature, or None if devices may back its extended resources."""
        return sign_resources(info, view, self.features)


def _compute_balance_scores(amounts: Amounts, usage: NodeUsage) -> tuple[Scores, Scores]:
    """Return the balance of each node with the pod, and the balance of each node without the pod.

    The balance is 100 minus the standard deviation of the utilizations in percent. `amounts` has the used amounts with
    and without the pod, in the shape (2, resources, nodes).
    """
    num_resources = amounts.shape[1]
    if usage.offered_everywhere and num_resources == 2:  # the usual case, in fewer steps
        fractions = np.minimum(amounts / usage.allocatable, 1.0)
        deviation = _compute_deviation_of_two(fractions[:, 0], fractions[:, 1])
    else:
        deviation = np.array([_compute_utilization_deviation(used, usage.allocatable) for used in amounts])
    with_pod, without_pod = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return with_pod, without_pod


def _compute_utilization_deviation(amounts: Amounts, allocatable: Amounts) -> Fractions:
    """Return the standard deviation of the resources' utilizations on each node.

    `amounts` has the used amounts, in the shape (resources, nodes). Resources that a node does not offer are left out.
    With fewer than two resources, the deviation is 0. As in upstream, a separate formula for two resources rounds
    differently, and sums are added in the order of the resources.
    """
    offered = allocatable != 0
    divisor = np.where(offered, allocatable, 1)
    fraction = np.where(offered, np.minimum(amounts / divisor, 1.0), 0.0)
    count = offered.sum(axis=0)

    # More than two resources
    mean = _sum_in_order(fraction) / np.maximum(count, 1)
    differences = np.where(offered, fraction - mean, 0.0)
    deviation_of_many = np.sqrt(_sum_in_order(differences * differences) / np.maximum(count, 1))

    # Two resources: the first and the last that the node offers
    node_indices = np.arange(fraction.shape[1])
    first = np.argmax(offered, axis=0)
    last = len(offered) - 1 - np.argmax(offered[::-1], axis=0)
    deviation_of_two = _compute_deviation_of_two(fraction[first, node_indices], fraction[last, node_indices])
    return np.select([count == 2, count > 2], [deviation_of_two, deviation_of_many], 0.0)


def _compute_deviation_of_two(first: Fractions, second: Fractions) -> Fractions:
    """Return the standard deviation of two utilizations, which is half of their difference."""
    deviation: Fractions = np.abs((first - second) / 2)
    return deviation


def _sum_in_order(values: npt.NDArray[np.float64]) -> Fractions:
    """Return the sum over the first axis, added strictly in order because float addition is not associative."""
    total = np.zeros(values.shape[1])
    for row in values:
        total = total + row
    return total
