"""NodeName plugin: rejects every node except the one in the pod's spec.nodeName."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.scheduler.framework import Code, Fragment, Reads, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.events import (
    ADD,
    NODE,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) didn't match the requested node name"


class AnotherNodeNamed(Fact, frozen=True):
    """The fact that the pod's spec.nodeName names another node."""

    node: str

    def describe(self) -> str:
        """Say which node the pod requests."""
        return f"the pod requests node {self.node}"


class NodeName(DeclaredPlugin):
    """Plugin that rejects all nodes except the one in the pod's spec.nodeName, if it is set.

    Upstream: pkg/scheduler/framework/plugins/nodename (v1.36).
    """

    name = "NodeName"
    facts = (AnotherNodeNamed,)
    without = "pods that name a node are placed on others, which reject them"
    next_step = NextStep("CorrectNodeName", "Correct spec.nodeName, or leave the choice to the scheduler")
    reads = Reads.NODES

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield a rejection of all nodes except the requested one, or nothing if the pod requests none."""
        node_name = info.spec.node_name
        if node_name:
            other_nodes = np.ones(len(view.nodes), np.bool_)
            if node_name in view.nodes.index:
                other_nodes[view.nodes.index[node_name]] = False
            yield Rejection(other_nodes, Code.UNRESOLVABLE, REASON, lambda row: AnotherNodeNamed(node_name))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the node events after which a rejected pod may become schedulable."""
        yield ClusterEventWithHint(NODE, resolve_node_actions(ActionType.ADD, gates, all_updates_before_1_32=True))

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of the change that moves a rejected pod back to the queue: the addition of a node."""
        yield WakeTrigger(NODE, ADD, f"a node is added (the pod requests {info.spec.node_name or 'one by name'})")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return an empty fragment, because pods with a spec.nodeName are never batched."""
        return {}
