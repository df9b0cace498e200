"""TaintToleration: taints that a pod does not tolerate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.objects import Taint
from kschedctl.api.tolerations import tolerated
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.facts import UntoleratedTaint
from kschedctl.scheduler.framework import Code, PreScoreResult, Reads, Rejection, normalize_by_max, required_state
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_masks import first_untolerated
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) had untolerated taint(s)"
SOFT_EFFECT = "PreferNoSchedule"


class TaintToleration(DeclaredPlugin):
    """Rejects nodes with an untolerated NoSchedule or NoExecute taint, prefers those with few PreferNoSchedule ones.

    Upstream: pkg/scheduler/framework/plugins/tainttoleration (v1.36).
    """

    name = "TaintToleration"
    default_weight = 3
    reads = Reads.NODES

    def __init__(self, comparison_operators: bool) -> None:
        self.comparison_operators = comparison_operators

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("TaintTolerationComparisonOperators"))

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        untolerated, taint_set = first_untolerated(view.nodes, info.spec.tolerations, self.comparison_operators)
        refused = np.array([taint is not None for taint in untolerated], np.bool_)
        yield Rejection(refused[taint_set], Code.UNRESOLVABLE, REASON, lambda row: _fact(untolerated[taint_set[row]]))

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult:
        return PreScoreResult([t for t in info.spec.tolerations if t.effect in ("", SOFT_EFFECT)])

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
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

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return normalize_by_max(scores, reverse=True)


def _fact(taint: Taint | None) -> UntoleratedTaint | None:
    return UntoleratedTaint(taint.key, taint.value, taint.effect) if taint else None
