"""TaintToleration plugin: rejects and scores nodes by the taints that the pod does not tolerate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Node, Pod, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint, is_tolerated
from kschedctl.scheduler.framework import Code, Fragment, Peers, PreScoreResult, Reads, Rejection, require_state
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import (
    ADD,
    NODE,
    POD,
    UNSCHEDULABLE_POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    join_words,
    list_pre_checked_resources,
    resolve_node_actions,
    resolve_pod_actions,
)
from kschedctl.scheduler.framework.facts import CauseScope, Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.plugins.helper.signing import sign_tolerations
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.nodes import find_untolerated_taints
from kschedctl.snapshot.pod_info import PodInfo

REASON = ByVersion(
    "reason for an untolerated taint",
    (("", "node(s) had untolerated taint {{{key}: {value}}}"), ("1.34.2", "node(s) had untolerated taint(s)")),
    "#134740, backported by #135023",
)
SOFT_EFFECT = "PreferNoSchedule"
DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the DefaultTolerationSeconds admission plugin makes every pod tolerate for a while."""


UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint that a kubelet with an external cloud provider sets and the cloud controller manager removes."""


class UntoleratedTaint(Fact, frozen=True):
    """The first taint of the node that the pod does not tolerate.

    If every node has the taint of uninitialized nodes, the fact is about this taint. Nothing else matters before the
    cloud controller manager runs.
    """

    key: str
    value: str
    effect: str
    uninitialized_nodes: int = 0
    """The number of nodes with the taint of uninitialized nodes, set for this taint only."""
    nodes: int = 0
    """The number of all nodes, set for the taint of uninitialized nodes only."""

    @property
    def is_no_node_initialized(self) -> bool:
        """True if every node still has the taint of uninitialized nodes."""
        return self.nodes > 0 and self.uninitialized_nodes == self.nodes

    def describe(self) -> str:
        """Describe the taint and, if it marks uninitialized nodes, who should remove it.

        >>> UntoleratedTaint("dedicated", "batch", "NoSchedule").describe()
        'taint dedicated=batch:NoSchedule is not tolerated'
        >>> print(UntoleratedTaint("uninitialized", "", "NoSchedule", uninitialized_nodes=1, nodes=5).describe())
        taint uninitialized:NoSchedule is not tolerated: the cloud controller manager has not initialized the node
        >>> print(UntoleratedTaint("uninitialized", "", "NoSchedule", uninitialized_nodes=5, nodes=5).describe())
        taint uninitialized:NoSchedule is on every node: the cloud controller manager is not running or is failing
        """
        key_and_value = f"{self.key}={self.value}" if self.value else self.key
        taint = f"taint {key_and_value}:{self.effect}"
        if self.is_no_node_initialized:
            return f"{taint} is on every node: the cloud controller manager is not running or is failing"
        if self.uninitialized_nodes:
            return f"{taint} is not tolerated: the cloud controller manager has not initialized the node"
        return f"{taint} is not tolerated"

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the taint and the nodes concerned, unless the description says that it is on every node."""
        return self.describe() if self.is_no_node_initialized else super().describe_cause(scope)


class _RejectingTaints(NamedTuple):
    """The taints that reject pods with certain tolerations."""

    taint_by_set: Sequence[Taint | None]
    """The first untolerated taint of each distinct list of taints, or None if the list is tolerated."""
    mask_by_reason: Mapping[str, Bools]
    """The nodes (N,) that have an untolerated taint, by the reason that kube-scheduler gives. Masks are read-only."""
    further_taints: npt.NDArray[np.float64]
    """The number of untolerated taints after the first on each node, (N,)."""


class _UntoleratedTaintFinder:
    """Finds the untolerated taint by which a node rejects a pod.

    `untolerated_by_set` has the first untolerated taint, or None, of each distinct list of taints.
    """

    def __init__(
        self, info: PodInfo, view: Fork, untolerated_by_set: Sequence[Taint | None], comparison_operators: bool
    ) -> None:
        self._tolerations = info.spec.tolerations
        self._untolerated_by_set = untolerated_by_set
        self._comparison_operators = comparison_operators
        self._taint_sets, self._set_of_node = view.nodes.taint_sets

    def find_taint(self, row: int) -> UntoleratedTaint | None:
        """Return the taint of the node at `row` that rejects the pod, or None if no taint does.

        If all nodes are uninitialized, this is the taint of uninitialized nodes, unless the pod tolerates it. This
        taint comes with the number of uninitialized nodes and the number of all nodes.
        """
        node_count = len(self._set_of_node)
        taint_set = self._set_of_node[row]
        taint = self._untolerated_by_set[taint_set]
        if self._uninitialized_count == node_count:
            taint = self._find_uninitialized_taint(self._taint_sets[taint_set]) or taint
        if taint is None:
            return None
        if taint.key != UNINITIALIZED:
            return UntoleratedTaint(taint.key, taint.value, taint.effect)
        return UntoleratedTaint(taint.key, taint.value, taint.effect, self._uninitialized_count, node_count)

    @cached_property
    def _uninitialized_count(self) -> int:
        """The number of nodes with the taint of uninitialized nodes."""
        is_uninitialized = [any(taint.key == UNINITIALIZED for taint in taints) for taints in self._taint_sets]
        return int(np.array(is_uninitialized, np.bool_)[self._set_of_node].sum())

    def _find_uninitialized_taint(self, taints: Sequence[Taint]) -> Taint | None:
        """Return the taint of uninitialized nodes among these taints, or None if the pod tolerates it."""
        candidates = [taint for taint in taints if taint.key == UNINITIALIZED]
        return find_untolerated_taint(candidates, self._tolerations, HARD_EFFECTS, self._comparison_operators)


class TaintToleration(DeclaredPlugin[None, list[Toleration]]):
    """Plugin that rejects nodes with untolerated NoSchedule or NoExecute taints.

    Its scores prefer nodes with few untolerated PreferNoSchedule taints.

    Upstream: pkg/scheduler/framework/plugins/tainttoleration (v1.36).
    """

    name = "TaintToleration"
    facts = (UntoleratedTaint,)
    changed = (REASON,)
    hints_since = 31
    looks_at_cordons = True
    without = "taints are ignored"
    fixes = "taints"
    needs_state: ClassVar[Mapping[str, str]] = {"score": "preScore"}
    default_weight = 3
    peers = Peers.EXTREMES
    reads = Reads.NODES

    def __init__(self, comparison_operators: bool, version: KubeVersion = VERIFIED) -> None:
        self.comparison_operators = comparison_operators
        self.reason = REASON.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin for the feature gates and their version. It takes no arguments."""
        return cls(gates.enabled("TaintTolerationComparisonOperators"), gates.release)

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield rejections, one per reason, of the nodes that have an untolerated NoSchedule or NoExecute taint.

        Versions before 1.34.2 name the first untolerated taint in the reason. Newer versions have a single reason.
        """
        tolerations = info.spec.tolerations
        rejecting = view.memo((self.name, tolerations), lambda: self._find_rejecting_taints(tolerations, view))
        for reason, mask in rejecting.mask_by_reason.items():
            finder = _UntoleratedTaintFinder(info, view, rejecting.taint_by_set, self.comparison_operators)
            yield Rejection(mask, Code.UNRESOLVABLE, reason, fact=finder.find_taint, distance=rejecting.further_taints)

    def _find_rejecting_taints(self, tolerations: Sequence[Toleration], view: Fork) -> _RejectingTaints:
        """Find the untolerated taints that reject pods with these tolerations.

        The result also has the nodes that they reject, by reason, and the number of further untolerated taints on each
        node.
        """
        taint_by_set, set_of_node = find_untolerated_taints(view.nodes, tolerations, self.comparison_operators)
        # The reason is empty for a set without an untolerated taint.
        reason_by_set = [
            "" if taint is None else self.reason.format(key=taint.key, value=taint.value) for taint in taint_by_set
        ]
        mask_by_reason: dict[str, Bools] = {}
        for reason in dict.fromkeys(filter(None, reason_by_set)):
            has_reason = np.array([text == reason for text in reason_by_set], np.bool_)
            mask_by_reason[reason] = has_reason[set_of_node]
            mask_by_reason[reason].setflags(write=False)
        return _RejectingTaints(taint_by_set, mask_by_reason, self._count_further_taints(tolerations, view))

    def _count_further_taints(self, tolerations: Sequence[Toleration], view: Fork) -> npt.NDArray[np.float64]:
        """Return each node's number of untolerated taints after the first, as its distance from fitting."""
        taint_sets, set_of_node = view.nodes.taint_sets
        counts = self._count_untolerated_taints(taint_sets, tolerations, HARD_EFFECTS)
        return np.maximum(np.array(counts, np.float64) - 1, 0)[set_of_node]

    def _count_untolerated_taints(
        self, taint_sets: Sequence[Sequence[Taint]], tolerations: Sequence[Toleration], effects: Collection[str]
    ) -> list[int]:
        """Return, for each list in `taint_sets`, the number of untolerated taints that have one of the `effects`."""
        counts = []
        for taints in taint_sets:
            relevant = [taint for taint in taints if taint.effect in effects]
            counts.append(sum(not is_tolerated(tolerations, taint, self.comparison_operators) for taint in relevant))
        return counts

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[list[Toleration]]:
        """Return the tolerations that apply to PreferNoSchedule taints as the state for Score."""
        return PreScoreResult([t for t in info.spec.tolerations if t.effect in ("", SOFT_EFFECT)])

    def score(self, info: PodInfo, view: Fork, state: list[Toleration] | None, rows: Rows) -> Scores:
        """Return the number of untolerated PreferNoSchedule taints on each node in `rows`.

        Raises PluginError if PreScore did not run.
        """
        tolerations = require_state(state, 'failed to read "PreScoreTaintToleration" from cycleState: not found')
        taint_sets, set_of_node = view.nodes.taint_sets
        counts = self._count_untolerated_taints(taint_sets, tolerations, (SOFT_EFFECT,))
        return np.array(counts, np.int64)[set_of_node[rows]]

    def normalize(self, state: list[Toleration] | None, scores: Scores) -> Scores:
        """Scale the numbers of taints to scores: 100 for nodes without such taints, and 0 for nodes with the most."""
        return normalize_by_max(scores, reverse=True)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        actions = resolve_node_actions(
            ActionType.ADD | ActionType.UPDATE_NODE_TAINT, gates, all_updates_before_1_32=True
        )
        yield ClusterEventWithHint(NODE, actions, self._is_schedulable_after_node_change)
        if UNSCHEDULABLE_POD not in list_pre_checked_resources(gates):
            pod_events = resolve_pod_actions(ActionType.UPDATE_POD_TOLERATION, gates)
            yield ClusterEventWithHint(POD, pod_events, self._is_schedulable_after_pod_toleration_change)

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the pod tolerates the node now but did not before the change."""
        if not self._tolerates_node(change.new, info.pod):
            return False
        return change.old is None or not self._tolerates_node(change.old, info.pod)

    def _is_schedulable_after_pod_toleration_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the changed pod is the waiting pod and its number of tolerations changed.

        The API server allows only the addition of tolerations.
        """
        tolerations_added = len(change.new.spec.tolerations) != len(change.old.spec.tolerations)
        return is_same_pod(change.new, info.pod) and tolerations_added

    def _tolerates_node(self, node: Node, pod: Pod) -> bool:
        """Return whether the pod tolerates all NoSchedule and NoExecute taints of the node."""
        return (
            find_untolerated_taint(node.spec.taints, pod.spec.tolerations, HARD_EFFECTS, self.comparison_operators)
            is None
        )

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        tolerable = "a node is added whose NoSchedule and NoExecute taints the pod tolerates"
        tolerations = (toleration for toleration in info.spec.tolerations if toleration.key not in DEFAULT_TOLERATIONS)
        tolerated = [toleration.key or "everything" for toleration in tolerations]
        if tolerated:
            tolerable += f" (it tolerates {join_words(tolerated)})"
        yield WakeTrigger(NODE, ADD, tolerable)
        last_taint_removed = "a node loses its last untolerated NoSchedule or NoExecute taint"
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, last_taint_removed)
        yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, "the pod's tolerations change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the pod's tolerations as part of its signature."""
        return sign_tolerations(info)
