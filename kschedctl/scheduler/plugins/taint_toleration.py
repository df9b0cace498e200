"""TaintToleration: taints that a pod does not tolerate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated, is_tolerated
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
    pre_checked_resources,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.framework.waking import ADD, WakeTrigger, join_words
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


UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint that a kubelet with an external cloud provider sets, and the cloud controller manager removes."""


class UntoleratedTaint(Fact, frozen=True):
    """The first taint of the node that the pod does not tolerate.

    It is the taint of uninitialized nodes, whichever is the first, if every node has it: nothing else matters before
    the cloud controller manager runs.
    """

    key: str
    value: str
    effect: str
    uninitialized_nodes: int = 0
    """The number of nodes with the taint of uninitialized nodes, set for this taint only."""
    nodes: int = 0
    """The number of all nodes, set for the taint of uninitialized nodes only."""

    @property
    def no_node_is_initialized(self) -> bool:
        """Whether every node waits for the cloud controller manager."""
        return 0 < self.nodes == self.uninitialized_nodes

    def words(self) -> str:
        """Return the taint, and who removes it if it is that of uninitialized nodes.

        >>> UntoleratedTaint("dedicated", "batch", "NoSchedule").words()
        'taint dedicated=batch:NoSchedule is not tolerated'
        >>> print(UntoleratedTaint("uninitialized", "", "NoSchedule", uninitialized_nodes=1, nodes=5).words())
        taint uninitialized:NoSchedule is not tolerated: the cloud controller manager has not initialized the node
        >>> print(UntoleratedTaint("uninitialized", "", "NoSchedule", uninitialized_nodes=5, nodes=5).words())
        taint uninitialized:NoSchedule is on every node: the cloud controller manager is not running, or fails
        """
        taint = f"taint {self.key}{'=' * bool(self.value)}{self.value}:{self.effect}"
        if self.no_node_is_initialized:
            return f"{taint} is on every node: the cloud controller manager is not running, or fails"
        why = ": the cloud controller manager has not initialized the node" if self.uninitialized_nodes else ""
        return f"{taint} is not tolerated{why}"


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
            fact = self._describe_taint(info, view, untolerated)
            yield Rejection(refused, Code.UNRESOLVABLE, reason, fact, self._count_further_taints(info, view))

    def _describe_taint(
        self, info: PodInfo, view: Fork, untolerated: Sequence[Taint | None]
    ) -> Callable[[int], UntoleratedTaint | None]:
        """Return a function from a node's row to the fact about the taint that rejects the pod there.

        ``untolerated`` has the first taint that is not tolerated for each distinct list of taints.
        """
        taint_sets, taint_set = view.nodes.taint_sets
        uninitialized = np.array([any(t.key == UNINITIALIZED for t in taints) for taints in taint_sets], np.bool_)
        number, nodes = int(uninitialized[taint_set].sum()), len(view.nodes)

        def fact(row: int) -> UntoleratedTaint | None:
            taint, taints = untolerated[taint_set[row]], taint_sets[taint_set[row]]
            if number == nodes:
                root = [t for t in taints if t.key == UNINITIALIZED]
                taint = find_untolerated(root, info.spec.tolerations, HARD_EFFECTS, self.comparison_operators) or taint
            if taint is None:
                return None
            if taint.key != UNINITIALIZED:
                return UntoleratedTaint(taint.key, taint.value, taint.effect)
            return UntoleratedTaint(taint.key, taint.value, taint.effect, number, nodes)

        return fact

    def _count_further_taints(self, info: PodInfo, view: Fork) -> npt.NDArray[np.float64]:
        """Return (N,) how many more taints than the first the pod does not tolerate: a node with fewer is closer."""
        taint_sets, taint_set = view.nodes.taint_sets
        counts = [
            sum(
                taint.effect in HARD_EFFECTS
                and not is_tolerated(info.spec.tolerations, taint, self.comparison_operators)
                for taint in taints
            )
            for taints in taint_sets
        ]
        return np.maximum(np.array(counts, np.float64) - 1, 0)[taint_set]

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[list[Toleration]]:
        return PreScoreResult([t for t in info.spec.tolerations if t.effect in ("", SOFT_EFFECT)])

    def score(self, info: PodInfo, view: Fork, state: list[Toleration] | None, rows: Rows) -> Scores:
        tolerations = required_state(state, 'failed to read "PreScoreTaintToleration" from cycleState: not found')
        taint_sets, taint_set = view.nodes.taint_sets
        counts = [
            sum(
                taint.effect == SOFT_EFFECT
                and not is_tolerated(tolerations, taint, comparison_operators=self.comparison_operators)
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
        if UNSCHEDULABLE_POD not in pre_checked_resources(gates):
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
        but = f" except those it tolerates ({join_words(tolerated)})" if tolerated else ""
        yield WakeTrigger(NODE, ADD, f"a node is added without NoSchedule and NoExecute taints{but}")
        yield WakeTrigger(
            NODE, ActionType.UPDATE_NODE_TAINT, "the last taint that keeps the pod away is removed from a node"
        )
        yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, "the pod's tolerations change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return signed_tolerations(info)
