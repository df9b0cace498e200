"""How many like pods there are where a pod would go, for its soft constraints.

Upstream: plugins/podtopologyspread/scoring.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, min_and_max, round_half_away
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import NAME, SpreadConstraint, SpreadSettings
from kschedctl.scheduler.plugins.pod_topology_spread.domains import has_all_keys, limited, tally_of_matching
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.nodes import Domains, LabelColumn
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

MANY = 100
"""Of fewer codes Python finds the distinct ones sooner than numpy."""
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
    smallest, largest = min_and_max(counted)
    if largest <= 0:
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
    column, domains, tally = scored_domains(constraint, settings, info, view, complete)
    counts = tally.brought_up(view.trail)
    if domains is None:
        value = points(counts, len(scored), constraint)
    else:
        size = domains.occupied if scored is view.nodes.rows else np.count_nonzero(domains.counts(scored))
        value = domains.at_nodes(points(counts, size, constraint))
    return value if column.complete else np.where(column.present, value, 0.0)


class ScoredDomains(NamedTuple):
    """The domains of nodes for one constraint, None where each node is one by itself, and the pods counted there."""

    column: LabelColumn
    domains: Domains | None
    tally: Tally

    def codes(self, rows: Rows) -> Ints | Rows:
        """(F,): the domain of each row."""
        return rows if self.domains is None else self.domains.codes[rows]


def scored_domains(
    constraint: SpreadConstraint, settings: SpreadSettings, info: PodInfo, view: Fork, complete: Bools | None
) -> ScoredDomains:
    """What one constraint counts, and where; of hosts the pods on each node."""
    column = view.nodes.label(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        return ScoredDomains(column, None, tally_of_matching(constraint, info, view))

    def labelled() -> tuple[Domains, Domains]:
        topology = constraint.topology_key, "with unlabelled"
        every = view.memo((NAME, *topology), lambda: _with_unlabelled(column))
        included = settings.included(constraint, info, view)
        return every, limited(every, included if complete is None else included & complete, topology, view)

    key = (NAME, "domains", constraint)
    domains, counting = view.memo(key, labelled, info)
    return ScoredDomains(column, domains, tally_of_matching(constraint, info, view, counting, key))


def points(counts: Counts, size: int | np.signedinteger, constraint: SpreadConstraint) -> Points:
    """What so many matching pods add where so many domains are scored."""
    added: Points = counts * _weight(int(size))
    return added if constraint.max_skew == 1 else added + float(constraint.max_skew - 1)


@cache
def _weight(domains: int) -> np.float64:
    """Of each pod where so many domains are scored."""
    weight: np.float64 = np.log(float(domains + 2))
    return weight


def _with_unlabelled(column: LabelColumn) -> Domains:
    """The domain of each node, where having no label and having an empty one are the same domain."""
    unlabelled = column.values.index("") if "" in column.values else len(column.values)
    return Domains(np.where(column.present, column.codes, unlabelled).astype(np.int32), column.size + 1)


class SpreadAmong:
    """The scores of pods alike among any of the nodes: they depend on how many domains those are in.

    ``counted`` (N,): the nodes that count; the others score 0 and are in no domain.
    """

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self.constraints, self.view = constraints, view
        self._labelled = labelled_nodes(constraints, settings, info, view)
        every = np.broadcast_to(np.True_, len(view.nodes))
        self.counted: Bools = every if self._labelled is None else self._labelled
        self._parts = [scored_domains(c, settings, info, view, self._labelled) for c in constraints]

    @property
    def domains(self) -> list[Ints | Rows]:
        """(N,) for each constraint: the domain that a node is in; of hosts each node is one by itself."""
        return [part.codes(self.view.nodes.rows) for part in self._parts]

    @property
    def distinctions(self) -> list[Distinction]:
        return [distinction for part in self._parts for distinction in self._distinctions(part)]

    def _distinctions(self, part: ScoredDomains) -> Iterator[Distinction]:
        column, values = part.column, partial(part.tally.brought_up, self.view.trail)
        if part.domains is not None:
            yield Distinction(column, values)
            return
        yield Distinction(each_by_itself(self.view), values)
        if not column.complete:
            labelled = Domains(np.where(column.present, 0, -1).astype(np.int32), 1)
            yield Distinction(labelled, lambda: np.zeros(1, np.int64))

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        if self._labelled is not None:
            chosen = self._labelled[rows]
            rows, counts = rows[chosen], counts[chosen]
        return [_size(part, rows, counts) for part in self._parts]

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """(F,): of these rows, where so many domains of each constraint are scored."""
        score: Points | None = None
        for constraint, part, size in zip(self.constraints, self._parts, sizes, strict=True):
            value = points(part.tally.brought_up(self.view.trail).take(part.codes(rows)), size, constraint)
            if not part.column.complete:
                value = np.where(part.column.present[rows], value, 0.0)
            score = value if score is None else score + value
        assert score is not None
        return round_half_away(score if self._labelled is None else np.where(self._labelled[rows], score, 0.0))

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """(F,): by the extremes of these scores, of those that count."""
        return normalized(scores, None if self._labelled is None or counted.all() else ~counted)


def each_by_itself(view: Fork) -> Domains:
    """Every node is a domain."""
    nodes = len(view.nodes)
    return view.memo((NAME, "each"), lambda: Domains(np.arange(nodes, dtype=np.int32), nodes))


def _size(part: ScoredDomains, rows: Rows, counts: Counts) -> int:
    """How many domains the rows are in, each of which stands for so many nodes alike."""
    if part.domains is None:
        return int(counts.sum())
    if not part.column.alone:
        codes = part.codes(rows)
        return len(set(codes.tolist())) if len(codes) < MANY else int(np.count_nonzero(np.bincount(codes)))
    labelled = part.column.present[rows]
    return int(counts[labelled].sum()) + (not labelled.all())
