"""Scores by soft constraints among any of the nodes: they depend on how many domains those are in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores
from kschedctl.scheduler.framework.scores import round_half_away
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint, SpreadSettings
from kschedctl.scheduler.plugins.pod_topology_spread.scoring import counted, labelled_nodes, normalized, points
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class SpreadAmong:
    """The scores of one pod. ``counted`` (N,): the nodes that count; the others score 0 and are in no domain."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self.constraints, self.settings, self.info, self.view = constraints, settings, info, view
        self._labelled = labelled_nodes(constraints, settings, info, view)
        every = np.ones(len(view.nodes), np.bool_)
        self.counted: Bools = every if self._labelled is None else self._labelled

    @property
    def domains(self) -> list[Ints | Rows]:
        """(N,) for each constraint: the domain that a node is in; of hosts each node is one by itself."""
        return [codes for codes, _ in self._parts]

    @cached_property
    def _parts(self) -> list[tuple[Ints | Rows, Counts]]:
        """(N,) each: the domain of a node, and the matching pods in it."""
        found: list[tuple[Ints | Rows, Counts]] = []
        for constraint in self.constraints:
            domains, counts = counted(constraint, self.settings, self.info, self.view, self._labelled)
            rows = self.view.nodes.rows
            found.append((rows, counts) if domains is None else (domains.codes, domains.at_nodes(counts)))
        return found

    def raw(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """(F,): of these rows, where so many domains of each constraint are scored."""
        score = np.zeros(len(rows), np.float64)
        for constraint, (_, counts), size in zip(self.constraints, self._parts, sizes, strict=True):
            present = self.view.nodes.label(constraint.topology_key).present[rows]
            score += np.where(present, points(counts[rows], size, constraint), 0.0)
        return round_half_away(np.where(self.counted[rows], score, 0.0))

    def normalized(self, scores: Scores, counted: Bools) -> Scores:
        """(F,): by the extremes of these scores, of those that count."""
        return normalized(scores, None if counted.all() else ~counted)
