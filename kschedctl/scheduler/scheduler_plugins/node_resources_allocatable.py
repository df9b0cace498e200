"""NodeResourcesAllocatable: prefer the smallest or the largest nodes, regardless of their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.resource_names import is_counted
from kschedctl.scheduler.framework import Peers, Reads
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, truncating_divide
from kschedctl.scheduler.plugins.helper.resource_allocation import ResourceSpec
from kschedctl.snapshot.fork import NodeView
from kschedctl.snapshot.pod_info import PodInfo

LEAST, MOST = "Least", "Most"
MILLICORE_IN_BYTES = 1 << 20


class NodeResourcesAllocatableArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesAllocatable.

    Upstream: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go of scheduler-plugins.
    """

    resources: tuple[ResourceSpec, ...] = ()
    """The weight of one unit (millicore, byte) of each resource."""
    mode: str = LEAST
    """The best nodes: those with the Least or the Most allocatable resources."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the default resources and mode in place of empty ones."""
        resources = self.resources or (ResourceSpec("cpu", MILLICORE_IN_BYTES), ResourceSpec("memory", 1))
        return type(self)(resources, self.mode or LEAST)

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for each resource without a positive weight, and for an unknown mode."""
        for i, resource in enumerate(self.resources):
            if resource.weight <= 0:
                message = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield invalid(f"resources[{i}].weight", resource.weight, message)
        if self.mode not in (LEAST, MOST):
            yield invalid("mode", self.mode, "invalid support ModeType")


class NodeResourcesAllocatable(DeclaredPlugin):
    """Plugin that scores nodes by the weighted mean of their allocatable resources.

    Scores are scaled to 0..100 over the feasible nodes.

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
        """Build the plugin for the profile's arguments."""
        return cls(args)

    def score(self, info: PodInfo, view: NodeView, state: None, rows: Rows) -> Scores:
        """Return the weighted mean of each node's allocatable resources, negated if fewer resources are better.

        Resources that no node and no pod has, and resources that NodeResourcesFit ignores, add nothing to the mean.
        """
        total = np.zeros(len(rows), np.int64)
        for name, weight in self.weights.items():
            column = view.resources.get(name)
            if column is not None and is_counted(name):
                total += self.sign * view.allocatable[rows, column] * weight
        return truncating_divide(total, sum(self.weights.values()))

    def normalize(self, state: None, scores: Scores) -> Scores:
        """Scale scores so that the lowest becomes 0 and the highest 100. Equal scores all become 0."""
        if not len(scores):
            return scores
        lowest = int(scores.min())
        width = int(scores.max()) - lowest
        return truncating_divide((scores - lowest) * MAX_NODE_SCORE, width) if width else np.zeros_like(scores)
