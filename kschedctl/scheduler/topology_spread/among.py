"""Scores by soft constraints among any of the nodes: they depend on how many domains those are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Rows, Scores
from kschedctl.scheduler.topology_spread.constraints import SpreadConstraint, SpreadSettings
from kschedctl.scheduler.topology_spread.scoring import labelled_nodes, normalized, raw_scores, with_unlabelled
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class SpreadAmong:
    """The scores of one pod."""

    constraints: Sequence[SpreadConstraint]
    settings: SpreadSettings
    info: PodInfo
    view: Fork

    @property
    def counted(self) -> Bools:
        """(N,): the nodes that count; the others score 0 and are no domain."""
        return labelled_nodes(self.constraints, self.settings, self.info, self.view)

    @property
    def domains(self) -> list[Ints]:
        """(N,) for each constraint: the domain that a node is in; of hosts each node is one by itself."""
        return [self._domains(constraint.topology_key) for constraint in self.constraints]

    def _domains(self, key: str) -> Ints:
        if key == HOSTNAME:
            return np.arange(len(self.view.nodes), dtype=np.int32)
        return with_unlabelled(self.view.nodes.label(key)).codes

    def raw(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """(F,): of these rows, where so many domains of each constraint are scored."""
        return raw_scores(self.constraints, self.settings, self.info, self.view, rows, sizes=sizes)[0]

    def normalized(self, scores: Scores, counted: Bools) -> Scores:
        """(F,): by the extremes of these scores, of those that count."""
        return normalized(scores, None if counted.all() else ~counted)
