"""NodeUnschedulable plugin: rejects cordoned nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import PodSpec
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, is_tolerated
from kschedctl.scheduler.framework import Code, Fragment, Reads, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import (
    ADD,
    NODE,
    POD,
    QUEUEING_HINTS,
    UPDATE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    adapt_node_hint,
    resolve_node_actions,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.framework.facts import CauseScope, Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.signing import sign_tolerations
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) were unschedulable"
REGISTERS_TOLERATION_EVENTS = ByVersion(
    "a change to a rejected pod's tolerations can make the scheduler retry the pod", (("", False), ("1.32", True))
)


class Cordoned(Fact, frozen=True):
    """The fact that the node is marked unschedulable."""

    def describe(self) -> str:
        """Say that the node is cordoned."""
        return "the node is cordoned"

    def describe_cause(self, scope: CauseScope) -> str:
        """Say which nodes are cordoned.

        >>> Cordoned().describe_cause(CauseScope("w3", "", "", nodes="2 of 9 candidate nodes"))
        '2 of 9 candidate nodes are cordoned, for example w3'
        >>> Cordoned().describe_cause(CauseScope("w3", "", "", nodes="the only candidate node", is_single=True))
        'the only candidate node, w3, is cordoned'
        """
        if scope.is_only_node or not scope.nodes:
            return f"{self.describe()}{scope.text}"
        if scope.is_single:
            return f"{scope.nodes}, {scope.node}, is cordoned"
        return f"{scope.nodes} are cordoned, for example {scope.node}"


class NodeUnschedulable(DeclaredPlugin):
    """Plugin that rejects cordoned nodes unless the pod tolerates the taint that cordoning adds.

    Upstream: pkg/scheduler/framework/plugins/nodeunschedulable (v1.36).
    """

    name = "NodeUnschedulable"
    facts = (Cordoned,)
    changed = (REGISTERS_TOLERATION_EVENTS,)
    looks_at_cordons = True
    without = "pods are placed on cordoned nodes"
    fixes = "taints"
    reads = Reads.NODES

    def __init__(self, comparison_operators: bool) -> None:
        self.comparison_operators = comparison_operators

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin, which takes no arguments. A gate decides whether tolerations have comparison operators."""
        return cls(gates.enabled("TaintTolerationComparisonOperators"))

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield a rejection of the cordoned nodes, or nothing if the pod tolerates the taint of cordoned nodes."""
        if not self._tolerates_unschedulable_taint(info.spec):
            yield Rejection(view.nodes.unschedulable, Code.UNRESOLVABLE, REASON, lambda row: Cordoned())

    def rejects_cordoned(self, info: PodInfo) -> bool:
        """Return whether the pod does not tolerate the taint of cordoned nodes."""
        return not self._tolerates_unschedulable_taint(info.spec)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        actions = resolve_node_actions(
            ActionType.ADD | ActionType.UPDATE_NODE_TAINT, gates, all_updates_before_1_32=True
        )
        yield ClusterEventWithHint(NODE, actions, adapt_node_hint(self._is_schedulable_after_node_change, gates))
        if gates.enabled(QUEUEING_HINTS) and REGISTERS_TOLERATION_EVENTS.at(gates.release):
            yield ClusterEventWithHint(
                POD, ActionType.UPDATE_POD_TOLERATION, self._is_schedulable_after_pod_toleration_change
            )

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node is now uncordoned, and is new or was cordoned before."""
        if change.new.spec.unschedulable:
            return False
        return change.old is None or bool(change.old.spec.unschedulable)

    def _is_schedulable_after_pod_toleration_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the pod itself was updated and now tolerates cordoned nodes."""
        return is_same_pod(change.new, info.pod) and self._tolerates_unschedulable_taint(change.new.spec)

    def _tolerates_unschedulable_taint(self, spec: PodSpec) -> bool:
        """Return whether the pod tolerates the taint of cordoned nodes."""
        return is_tolerated(spec.tolerations, UNSCHEDULABLE_TAINT, comparison_operators=self.comparison_operators)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        if treats_updated_nodes_as_new(gates):
            yield WakeTrigger(NODE, ADD | UPDATE, "a node that is not cordoned is added or changes")
            return
        yield WakeTrigger(NODE, ADD, "a node that is not cordoned is added")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, "a node is uncordoned")
        yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, f"the pod gets a toleration for {UNSCHEDULABLE_TAINT}")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the pod's tolerations as part of its signature."""
        return sign_tolerations(info)
