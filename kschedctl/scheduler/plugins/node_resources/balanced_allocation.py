"""NodeResourcesBalancedAllocation: nodes whose resources the pod would fill evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Amounts, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import PRE_SCORE_SKIP, Fragment, Peers, PreScoreResult, UpstreamFault
from kschedctl.scheduler.framework.arguments import Naming, PluginArgs
from kschedctl.scheduler.framework.declaration import OwnRowPlugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import duplicate, invalid
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.plugins.dynamic_resources.device_backed import DeviceBackedResources
from kschedctl.scheduler.plugins.helper.device_features import DEFAULT_FEATURES, Features
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    AskedAmounts,
    NodeUsage,
    Usage,
    asked_of,
    node_usage,
    pod_amounts,
)
from kschedctl.scheduler.plugins.helper.scoring_strategy import ResourceSpec, with_weights
from kschedctl.scheduler.plugins.helper.signing import signed_resources
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import NodeView
from kschedctl.snapshot.pod_info import PodInfo

CRASH = (
    "kube-scheduler 1.36 crashes when its NodeResourcesBalancedAllocation scores {}, which DeviceClass {} backs by"
    " selectors (nil CEL cache); its scores here are what they should be"
)

FORMULA = ByVersion(
    "what NodeResourcesBalancedAllocation scores",
    (("", "balance with the pod"), ("1.36", "balance with the pod beside that without it")),
    "#135573",
)
BEST_EFFORT = ByVersion(
    "whether it scores pods that request none of the resources",
    (("", True), ("1.33", False)),
    "#130260",
)
HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose utilizations should be alike."""

    naming: ClassVar[Mapping[str, Naming]] = {"name": "resource"}
    resources: tuple[ResourceSpec, ...] = ()

    def with_defaults(self, gates: FeatureGates) -> Self:
        return replace(self, resources=with_weights(self.resources))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        seen = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield duplicate(f"resources[{i}].name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(f"resources[{i}].weight", resource.weight, "must be 1")


class NodeResourcesBalancedAllocation(OwnRowPlugin[None, AskedAmounts]):
    """Prefers nodes on which the pod makes the utilizations of the resources more alike: 50 worse, 75 same, 100 better.

    Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go (v1.36).
    """

    name = "NodeResourcesBalancedAllocation"
    changed = (
        FORMULA,
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
        self.compares, self.best_effort = "without" in FORMULA.at(version), BEST_EFFORT.at(version)

    @classmethod
    def make(cls, args: NodeResourcesBalancedAllocationArgs, gates: FeatureGates) -> Self:
        return cls(args, Features.of(gates), gates.release)

    def pre_score(self, info: PodInfo, view: NodeView, rows: Rows) -> PreScoreResult[AskedAmounts]:
        requests = self._requests(info, view)
        if not (any(requests) or self.best_effort):
            return PRE_SCORE_SKIP
        return PreScoreResult(asked_of(self.resources, requests, view))

    def score(self, info: PodInfo, view: NodeView, state: AskedAmounts | None, rows: Rows) -> Scores:
        asked = self.pre_score(info, view, rows).state if state is None else state
        if asked is None:
            return np.zeros(len(rows), np.int64)
        devices = partial(DeviceBackedResources, view, self.features)
        of_nodes = node_usage(asked, view, view.requested, rows, devices)
        with_pod, without = _balance(np.array((of_nodes.requested, of_nodes.used)), of_nodes)
        if not self.compares:
            return with_pod
        compared: Scores = HALF + ((HALF + with_pod - without) / 2).astype(np.int64)  # Go rounds towards zero
        return compared

    def upstream_fault(self, cycle: Cycle) -> UpstreamFault | None:
        """Upstream has no cache for the selectors of DeviceClasses here, and crashes when it looks into it."""
        rows = cycle.feasible
        if len(rows) < 2 or self.name not in cycle.scores.raw:  # a single node is not scored
            return None
        devices = DeviceBackedResources(cycle.view, self.features)
        usage = Usage(cycle.view, cycle.view.requested, cycle.view.requests)
        requests = self._requests(cycle.info, cycle.view)
        for resource, request in zip(self.resources, requests, strict=True):
            selecting = devices.selecting_class(resource.name) if request else ""
            if selecting and (devices.any_device()[rows] & (usage.of(resource.name).allocatable[rows] == 0)).any():
                return UpstreamFault(CRASH.format(resource.name, selecting), None)
        return None

    def normalize(self, state: AskedAmounts | None, scores: Scores) -> Scores:
        return scores

    def _requests(self, info: PodInfo, view: NodeView) -> list[int]:
        key = NodeResourcesBalancedAllocation, self.resources
        return view.memo(key, lambda: pod_amounts(info, self.resources, info.options), info)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        return signed_resources(info, view, self.features)


def _balance(amounts: Amounts, usage: NodeUsage) -> tuple[Scores, Scores]:
    """(2, X, F) amounts -> (F,) twice, 0..100: 100 less the standard deviation of the utilizations, in percent."""
    if usage.plain and amounts.shape[1] == 2:  # the usual case, in fewer steps
        fractions = np.minimum(amounts / usage.allocatable, 1.0)
        deviation = np.abs((fractions[:, 0] - fractions[:, 1]) / 2)
    else:
        deviation = np.array([_deviation(amount, usage.allocatable) for amount in amounts])
    with_pod, without = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return with_pod, without


def _deviation(amounts: Amounts, allocatable: Amounts) -> npt.NDArray[np.float64]:
    """(X, F) amounts -> (F,): the standard deviation of the utilizations.

    Resources that a node does not offer are left out; the sums run in the order of the resources, as upstream's do.
    """
    offered = allocatable != 0
    fraction = np.where(offered, np.minimum(amounts / np.where(offered, allocatable, 1), 1.0), 0.0)
    count = offered.sum(axis=0)
    mean = _ordered_sum(fraction) / np.maximum(count, 1)
    differences = np.where(offered, fraction - mean, 0.0)
    many = np.sqrt(_ordered_sum(differences * differences) / np.maximum(count, 1))
    at = np.arange(fraction.shape[1])
    earliest = np.argmax(offered, axis=0)
    latest = len(offered) - 1 - np.argmax(offered[::-1], axis=0)
    two = np.abs((fraction[earliest, at] - fraction[latest, at]) / 2)
    return np.where(count == 2, two, np.where(count > 2, many, 0.0))


def _ordered_sum(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(X, F) -> (F,), from the first to the last: floating point addition depends on the order."""
    total = np.zeros(values.shape[1])
    for row in values:
        total = total + row
    return total
