"""NodeUnschedulable: cordoned nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from kschedctl.api.tolerations import UNSCHEDULABLE, tolerated
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.facts import Cordoned
from kschedctl.scheduler.framework import Code, Reads, Rejection
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) were unschedulable"


class NodeUnschedulable(DeclaredPlugin):
    """Rejects cordoned nodes, unless the pod tolerates the taint that cordoning adds.

    Upstream: pkg/scheduler/framework/plugins/nodeunschedulable (v1.36).
    """

    name = "NodeUnschedulable"
    reads = Reads.NODES

    def __init__(self, comparison_operators: bool) -> None:
        self.comparison_operators = comparison_operators

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("TaintTolerationComparisonOperators"))

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        if not tolerated(info.spec.tolerations, UNSCHEDULABLE, comparison_operators=self.comparison_operators):
            yield Rejection(view.nodes.unschedulable, Code.UNRESOLVABLE, REASON, lambda row: Cordoned())
