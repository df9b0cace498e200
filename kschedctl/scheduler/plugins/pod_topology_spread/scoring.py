"""Scoring by soft constraints: nodes whose domains have fewer matching pods score higher.

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
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, find_min_and_max, round_half_away
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import (
    NAME,
    SpreadConstraint,
    SpreadSettings,
    find_nodes_with_all_keys,
    restrict_domains,
    tally_matching_pods,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, Domains, LabelColumn
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

MIN_CODES_FOR_NUMPY = 100
"""The number of codes from which numpy finds the distinct ones faster than Python."""
Points = npt.NDArray[np.float64]


def compute_raw_scores(
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    rows: Rows,
) -> tuple[Scores, Bools | None]:
    """Return the scores (F,) before normalization, and a mask (F,) of the nodes ignored for missing labels.

    The mask is None if all nodes count.
    """
    labelled = find_labelled_nodes(constraints, settings, info, view)
    scored = rows if labelled is None else rows[labelled[rows]]
    score = _score_constraint(constraints[0], settings, info, view, scored=scored, labelled=labelled)
    for constraint in constraints[1:]:
        score = score + _score_constraint(constraint, settings, info, view, scored=scored, labelled=labelled)
    if labelled is None:
        return round_half_away(score if rows is view.nodes.rows else score.take(rows)), None
    return round_half_away(np.where(labelled, score, 0.0)[rows]), ~labelled[rows]


def find_labelled_nodes(
    constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
) -> Bools | None:
    """Return a mask (N,) of the nodes that have all topology labels, or None if all nodes count.

    All nodes count for the constraints that the scheduler applies to every pod by default.
    """
    if not info.spec.topology_spread_constraints and settings.system_defaulted:
        return None

    def find_labelled() -> Bools | None:
        complete = find_nodes_with_all_keys(constraints, view)
        return None if complete.all() else complete

    return view.memo((NAME, "complete"), find_labelled, info)


def normalize_scores(scores: Scores, ignored: Bools | None) -> Scores:
    """Scale the scores to 0..100, higher for fewer pods, and to 0 for ignored nodes."""
    counted = scores if ignored is None else scores[~ignored]
    if not len(counted):
        return np.zeros_like(scores)
    smallest, largest = find_min_and_max(counted)
    if largest <= 0:
        scaled = np.full_like(scores, MAX_NODE_SCORE)
    else:
        scaled = MAX_NODE_SCORE * (largest + smallest - scores) // largest
    return scaled if ignored is None else np.where(ignored, 0, scaled)


def _score_constraint(
    constraint: SpreadConstraint,
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    *,
    scored: Rows,
    labelled: Bools | None,
) -> Points:
    """Return the constraint's contribution (N,) to the raw score, which grows with the matching pods in the domain."""
    column, domains, tally = build_scored_domains(constraint, settings, info, view, labelled)
    counts = tally.bring_up_to_date(view.trail)
    if domains is None:
        score = weigh_counts(counts, len(scored), constraint)
    else:
        size = domains.occupied if scored is view.nodes.rows else np.count_nonzero(domains.counts(scored))
        score = domains.at_nodes(weigh_counts(counts, size, constraint))
    return score if column.complete else np.where(column.present, score, 0.0)


class ScoredDomains(NamedTuple):
    """The domains of the nodes for one constraint and the pods counted in them."""

    column: LabelColumn
    domains: Domains | None
    """The domain of each node, or None if each node is a domain of its own."""
    tally: Tally
    """The running count of matching pods per domain."""

    def get_codes(self, rows: Rows) -> Ints | Rows:
        """Return the domain (F,) of each row."""
        return rows if self.domains is None else self.domains.codes[rows]


def build_scored_domains(
    constraint: SpreadConstraint, settings: SpreadSettings, info: PodInfo, view: Fork, labelled_mask: Bools | None
) -> ScoredDomains:
    """Return the domains of the constraint with their counts. For hostnames each node is a domain."""
    column = view.nodes.label(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        return ScoredDomains(column, None, tally_matching_pods(constraint, info, view))

    def build_domains() -> tuple[Domains, Domains]:
        topology = constraint.topology_key, "with unlabelled"
        every = view.memo((NAME, *topology), lambda: _build_domains_with_unlabelled(column))
        included = settings.find_included_nodes(constraint, info, view)
        return every, restrict_domains(
            every, included if labelled_mask is None else included & labelled_mask, topology, view
        )

    key = (NAME, "domains", constraint)
    domains, counting = view.memo(key, build_domains, info)
    return ScoredDomains(column, domains, tally_matching_pods(constraint, info, view, counting, key))


def weigh_counts(counts: Counts, size: int | np.signedinteger, constraint: SpreadConstraint) -> Points:
    """Return the contribution of the counts of matching pods to the score if `size` domains are scored."""
    weighed: Points = counts * _compute_weight_per_pod(int(size))
    return weighed if constraint.max_skew == 1 else weighed + float(constraint.max_skew - 1)


@cache
def _compute_weight_per_pod(domains: int) -> np.float64:
    """Return the weight of each pod if this number of domains is scored."""
    weight: np.float64 = np.log(float(domains + 2))
    return weight


def _build_domains_with_unlabelled(column: LabelColumn) -> Domains:
    """Return the domain of each node, with no label and an empty label as the same domain."""
    unlabelled = column.values.index("") if "" in column.values else len(column.values)
    return Domains(np.where(column.present, column.codes, unlabelled).astype(np.int32), column.size + 1)


class SpreadAmong:
    """Scores of identical pods among any subset of the nodes, given the number of domains in the subset."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self.constraints, self.view = constraints, view
        self._labelled = find_labelled_nodes(constraints, settings, info, view)
        every = np.broadcast_to(np.True_, len(view.nodes))
        self.counted: Bools = every if self._labelled is None else self._labelled
        self._parts = [build_scored_domains(c, settings, info, view, self._labelled) for c in constraints]

    @property
    def domains(self) -> list[Ints | Rows]:
        """The domain (N,) of each node, for each constraint. For hostnames each node is a domain."""
        return [scored_domains.get_codes(self.view.nodes.rows) for scored_domains in self._parts]

    @property
    def distinctions(self) -> list[Distinction]:
        """The label columns and counts that distinguish nodes."""
        return [
            distinction for scored_domains in self._parts for distinction in self._iter_distinctions(scored_domains)
        ]

    def _iter_distinctions(self, scored_domains: ScoredDomains) -> Iterator[Distinction]:
        """Yield the label columns and counts that distinguish nodes for one constraint."""
        column = scored_domains.column
        values = partial(scored_domains.tally.bring_up_to_date, self.view.trail)
        if scored_domains.domains is not None:
            yield Distinction(column, values)
            return
        yield Distinction(build_domain_per_node(self.view), values)
        if not column.complete:
            labelled = Domains(np.where(column.present, 0, -1).astype(np.int32), 1)
            yield Distinction(labelled, lambda: np.zeros(1, np.int64))

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        """Return the number of domains that the rows are in, for each constraint. Each row stands for `counts`
        nodes.
        """
        if self._labelled is not None:
            chosen = self._labelled[rows]
            rows, counts = rows[chosen], counts[chosen]
        return [_count_domains(scored_domains, rows, counts) for scored_domains in self._parts]

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the scores (F,) of the rows before normalization, given the number of domains per constraint."""
        score: Points | None = None
        for constraint, scored_domains, size in zip(self.constraints, self._parts, sizes, strict=True):
            constraint_score = weigh_counts(
                scored_domains.tally.bring_up_to_date(self.view.trail).take(scored_domains.get_codes(rows)),
                size,
                constraint,
            )
            if not scored_domains.column.complete:
                constraint_score = np.where(scored_domains.column.present[rows], constraint_score, 0.0)
            score = constraint_score if score is None else score + constraint_score
        assert score is not None
        return round_half_away(score if self._labelled is None else np.where(self._labelled[rows], score, 0.0))

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Return the scores (F,), normalized by the extremes of those that count."""
        return normalize_scores(scores, None if self._labelled is None or counted.all() else ~counted)


def build_domain_per_node(view: Fork) -> Domains:
    """Return domains in which every node is a domain of its own."""
    nodes = len(view.nodes)
    return view.memo((NAME, "each"), lambda: Domains(np.arange(nodes, dtype=np.int32), nodes))


def _count_domains(scored_domains: ScoredDomains, rows: Rows, counts: Counts) -> int:
    """Return the number of domains that the rows are in. Each row stands for `counts` identical nodes."""
    if scored_domains.domains is None:
        return int(counts.sum())
    if not scored_domains.column.alone:
        codes = scored_domains.get_codes(rows)
        return (
            len(set(codes.tolist())) if len(codes) < MIN_CODES_FOR_NUMPY else int(np.count_nonzero(np.bincount(codes)))
        )
    labelled = scored_domains.column.present[rows]
    return int(counts[labelled].sum()) + (not labelled.all())
