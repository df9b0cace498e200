"""How many like pods there are where a pod would go, for its soft constraints.

Upstream: plugins/podtopologyspread/scoring.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, round_half_away
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import NAME, SpreadConstraint, SpreadSettings
from kschedctl.scheduler.plugins.pod_topology_spread.domains import has_all_keys, limited, matching_pods
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.nodes import Domains, LabelColumn
from kschedctl.snapshot.pod_info import PodInfo

Points = npt.NDArray[np.float64]


def raw_scores(
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    rows: Rows,
) -> tuple[Scores, Bools | None]:
    """(rows,) each: the scores before they are normalized, and which nodes are ignored for a label that they lack.

    None where all count.
    """
    complete = labelled_nodes(constraints, settings, info, view)
    scored = rows if complete is None else rows[complete[rows]]
    score = _score(constraints[0], settings, info, view, scored=scored, complete=complete)
    for constraint in constraints[1:]:
        score = score + _score(constraint, settings, info, view, scored=scored, complete=complete)
    if complete is None:
        return round_half_away(score if rows is view.nodes.rows else score.take(rows)), None
    return round_half_away(np.where(complete, score, 0.0)[rows]), ~complete[rows]


def labelled_nodes(
    constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
) -> Bools | None:
    """(N,): the nodes that count: those with all labels, but for the constraints that every pod gets. None for all."""
    if not info.spec.topology_spread_constraints and settings.system_defaulted:
        return None

    def some() -> Bools | None:
        complete = has_all_keys(constraints, view)
        return None if complete.all() else complete

    return view.memo((NAME, "complete"), some, info)


def normalized(scores: Scores, ignored: Bools | None) -> Scores:
    """From 0 to 100, the more the fewer pods there are; 0 for nodes that are ignored."""
    counted = scores if ignored is None else scores[~ignored]
    if not len(counted):
        return np.zeros_like(scores)
    smallest, largest = int(counted.min()), max(int(counted.max()), 0)
    if largest == 0:
        normal = np.full_like(scores, MAX_NODE_SCORE)
    else:
        normal = MAX_NODE_SCORE * (largest + smallest - scores) // largest
    return normal if ignored is None else np.where(ignored, 0, normal)


def _score(
    constraint: SpreadConstraint,
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    *,
    scored: Rows,
    complete: Bools | None,
) -> Points:
    """(N,): what one constraint adds to the raw score; the more matching pods in the domain, the more."""
    column = view.nodes.label(constraint.topology_key)
    domains, counts = counted(constraint, settings, info, view, complete)
    if domains is None:
        value = points(counts, len(scored), constraint)
    else:
        size = domains.occupied if scored is view.nodes.rows else np.count_nonzero(domains.counts(scored))
        value = domains.at_nodes(points(counts, size, constraint))
    return value if column.complete else np.where(column.present, value, 0.0)


def counted(
    constraint: SpreadConstraint, settings: SpreadSettings, info: PodInfo, view: Fork, complete: Bools | None
) -> tuple[Domains | None, Counts]:
    """The domains of one constraint, and the matching pods in each; without domains those on each node (N,)."""
    if constraint.topology_key == HOSTNAME:
        return None, matching_pods(constraint, info, view)
    column = view.nodes.label(constraint.topology_key)

    def labelled() -> tuple[Domains, Domains]:
        every, included = _with_unlabelled(column), settings.included(constraint, info, view)
        return every, limited(every, included if complete is None else included & complete)

    key = (NAME, "domains", constraint)
    domains, counting = view.memo(key, labelled, info)
    return domains, matching_pods(constraint, info, view, counting, key)


def points(counts: Counts, size: int | np.signedinteger, constraint: SpreadConstraint) -> Points:
    """What so many matching pods add where so many domains are scored."""
    added: Points = counts * np.log(float(size + 2)) + float(constraint.max_skew - 1)
    return added


def _with_unlabelled(column: LabelColumn) -> Domains:
    """The domain of each node, where having no label and having an empty one are the same domain."""
    unlabelled = column.values.index("") if "" in column.values else len(column.values)
    return Domains(np.where(column.present, column.codes, unlabelled).astype(np.int32), column.size + 1)


class SpreadAmong:
    """The scores of one pod among any of the nodes: they depend on how many domains those are in.

    ``counted`` (N,): the nodes that count; the others score 0 and are in no domain.
    """

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
        parts: list[tuple[Ints | Rows, Counts]] = []
        for constraint in self.constraints:
            domains, counts = counted(constraint, self.settings, self.info, self.view, self._labelled)
            rows = self.view.nodes.rows
            parts.append((rows, counts) if domains is None else (domains.codes, domains.at_nodes(counts)))
        return parts

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
