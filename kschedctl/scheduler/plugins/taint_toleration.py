"""TaintToleration: taints that a pod does not tolerate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated, tolerated
from kschedctl.scheduler.framework import Code, Fragment, Peers, PreScoreResult, Reads, Rejection, required_state
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    UNSCHEDULABLE_POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    node_actions,
    pod_actions,
    pre_checked,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.framework.waking import ADD, WakeTrigger, listed
from kschedctl.scheduler.plugins.helper.signing import signed_tolerations
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.node_masks import first_untolerated
from kschedctl.snapshot.pod_info import PodInfo

REASON = ByVersion(
    "the reason for an untolerated taint",
    (("", "node(s) had untolerated taint {{{key}: {value}}}"), ("1.34.2", "node(s) had untolerated taint(s)")),
    "#134740, brought back by #135023",
)
SOFT_EFFECT = "PreferNoSchedule"
GIVEN_TO_ALL = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the API server makes every pod tolerate for a while."""


class UntoleratedTaint(Fact, frozen=True):
    """The first taint of the node that the pod does not tolerate."""

    key: str
    value: str
    effect: str

    def words(self) -> str:
        """
        >>> UntoleratedTaint("dedicated", "batch", "NoSchedule").words()
        'taint dedicated=batch:NoSchedule is not tolerated'
        """
        return f"taint {self.key}{'=' * bool(self.value)}{self.value}:{self.effect} is not tolerated"


class TaintToleration(DeclaredPlugin[None, list[Toleration]]):
    """Rejects nodes with an untolerated NoSchedule or NoExecute taint, prefers those with few PreferNoSchedule ones.

    Upstream: pkg/scheduler/framework/plugins/tainttoleration (v1.36).
    """

    name = "TaintToleration"
    facts = (UntoleratedTaint,)
    changed = (REASON,)
    hints_since = 31
    without = "taints are ignored"
    needs_state: ClassVar[Mapping[str, str]] = {"score": "preScore"}
    default_weight = 3
    peers = Peers.EXTREMES
    reads = Reads.NODES

    def __init__(self, comparison_operators: bool, version: KubeVersion = VERIFIED) -> None:
        self.comparison_operators, self.reason = comparison_operators, REASON.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("TaintTolerationComparisonOperators"), gates.release)

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        untolerated, taint_set = first_untolerated(view.nodes, info.spec.tolerations, self.comparison_operators)
        reasons = [self.reason.format(key=t.key, value=t.value) if t else "" for t in untolerated]
        for reason in dict.fromkeys(filter(None, reasons)):
            refused = np.array([text == reason for text in reasons], np.bool_)[taint_set]
            yield Rejection(refused, Code.UNRESOLVABLE, reason, lambda row: _fact(untolerated[taint_set[row]]))

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[list[Toleration]]:
        return PreScoreResult([t for t in info.spec.tolerations if t.effect in ("", SOFT_EFFECT)])

    def score(self, info: PodInfo, view: Fork, state: list[Toleration] | None, rows: Rows) -> Scores:
        tolerations = required_state(state, 'failed to read "PreScoreTaintToleration" from cycleState: not found')
        taint_sets, taint_set = view.nodes.taint_sets
        counts = [
            sum(
                taint.effect == SOFT_EFFECT
                and not tolerated(tolerations, taint, comparison_operators=self.comparison_operators)
                for taint in taints
            )
            for taints in taint_sets
        ]
        return np.array(counts, np.int64)[taint_set[rows]]

    def normalize(self, state: list[Toleration] | None, scores: Scores) -> Scores:
        return normalize_by_max(scores, reverse=True)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        actions = node_actions(ActionType.ADD | ActionType.UPDATE_NODE_TAINT, gates, broad=True)
        yield ClusterEventWithHint(NODE, actions, self._after_node_change)
        if UNSCHEDULABLE_POD not in pre_checked(gates):
            of_pods = pod_actions(ActionType.UPDATE_POD_TOLERATION, gates)
            yield ClusterEventWithHint(POD, of_pods, self._after_toleration_change)

    def _after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """A node without a taint that keeps the pod away, and that is new or had one."""
        kept_away = change.old is None or not self._admits(change.old, info.pod)
        return kept_away and self._admits(change.new, info.pod)

    def _after_toleration_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """The pod itself: the API server allows for no change but more tolerations."""
        more = len(change.new.spec.tolerations) != len(change.old.spec.tolerations)
        return same_pod(change.new, info.pod) and more

    def _admits(self, node: Node, pod: Pod) -> bool:
        return find_untolerated(node.spec.taints, pod.spec.tolerations, HARD_EFFECTS, self.comparison_operators) is None

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        tolerations = (toleration for toleration in info.spec.tolerations if toleration.key not in GIVEN_TO_ALL)
        tolerated = [toleration.key or "everything" for toleration in tolerations]
        but = f" except those it tolerates ({listed(tolerated)})" if tolerated else ""
        yield WakeTrigger(NODE, ADD, f"a node is added without NoSchedule and NoExecute taints{but}")
        yield WakeTrigger(
            NODE, ActionType.UPDATE_NODE_TAINT, "the last taint that keeps the pod away is removed from a node"
        )
        yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, "the pod's tolerations change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return signed_tolerations(info)


def _fact(taint: Taint | None) -> UntoleratedTaint | None:
    return UntoleratedTaint(taint.key, taint.value, taint.effect) if taint else None
