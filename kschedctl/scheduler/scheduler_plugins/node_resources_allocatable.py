"""NodeResourcesAllocatable: the smallest nodes, or the largest, whatever runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.resource_names import is_counted
from kschedctl.scheduler.framework import Peers, Reads
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import invalid
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, truncating_divide
from kschedctl.scheduler.plugins.helper.scoring_strategy import ResourceSpec
from kschedctl.snapshot.own_rows import NodeView
from kschedctl.snapshot.pod_info import PodInfo

LEAST, MOST = "Least", "Most"
MILLICORE_IN_BYTES = 1 << 20


class NodeResourcesAllocatableArgs(PluginArgs, frozen=True):
    """``resources`` with what a unit of each weighs (millicores, bytes); whether the Least of it is best, or the Most.

    Upstream: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go of scheduler-plugins.
    """

    resources: tuple[ResourceSpec, ...] = ()
    mode: str = LEAST

    def with_defaults(self, gates: FeatureGates) -> Self:
        resources = self.resources or (ResourceSpec("cpu", MILLICORE_IN_BYTES), ResourceSpec("memory", 1))
        return type(self)(resources, self.mode or LEAST)

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        for i, resource in enumerate(self.resources):
            if resource.weight <= 0:
                what = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield invalid(f"resources[{i}].weight", resource.weight, what)
        if self.mode not in (LEAST, MOST):
            yield invalid("mode", self.mode, "invalid support ModeType")


class NodeResourcesAllocatable(DeclaredPlugin):
    """Prefers nodes by the weighted mean of what they can allocate in all, scaled to 0..100 over the feasible ones.

    Upstream: pkg/noderesources/allocatable.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "NodeResourcesAllocatable"
    args_type = NodeResourcesAllocatableArgs
    reads = Reads.NODES
    peers = Peers.EXTREMES

    def __init__(self, args: NodeResourcesAllocatableArgs) -> None:
        self.weights = {resource.name: resource.weight for resource in args.resources}
        self.sign = 1 if args.mode == MOST else -1

    @classmethod
    def make(cls, args: NodeResourcesAllocatableArgs, gates: FeatureGates) -> Self:
        return cls(args)

    def score(self, info: PodInfo, view: NodeView, state: None, rows: Rows) -> Scores:
        total = np.zeros(len(rows), np.int64)
        for name, weight in self.weights.items():
            column = view.resources.get(name)
            if column is not None and is_counted(name):
                total += self.sign * view.allocatable[rows, column] * weight
        return truncating_divide(total, sum(self.weights.values()))

    def normalize(self, state: None, scores: Scores) -> Scores:
        """The lowest becomes 0, the highest 100; all 0 where they are the same."""
        if not len(scores):
            return scores
        lowest = int(scores.min())
        width = int(scores.max()) - lowest
        return truncating_divide((scores - lowest) * MAX_NODE_SCORE, width) if width else np.zeros_like(scores)
