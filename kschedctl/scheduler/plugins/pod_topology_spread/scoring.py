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


class RawScores(NamedTuple):
    """The scores of the soft constraints before normalization, for the scored nodes (F)."""

    scores: Scores
    """(F,) the scores, which grow with the number of matching pods."""
    ignored: Bools | None
    """(F,) a mask of the nodes that are ignored for missing labels, or None if all nodes count."""


def compute_raw_scores(
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    rows: Rows,
) -> RawScores:
    """Return, for each node in `rows`, the rounded sum of its scores for all constraints.

    Nodes without a required topology label score 0, and the result marks them as ignored. `constraints` must not be
    empty.
    """
    labelled = find_labelled_nodes(constraints, settings, info, view)
    scored = rows if labelled is None else rows[labelled[rows]]
    first_constraint, *other_constraints = constraints
    # Scores of all nodes in the view (N,), from which the nodes in `rows` (F,) are selected below
    node_scores = _score_constraint(first_constraint, settings, info, view, scored=scored, labelled=labelled)
    for constraint in other_constraints:
        constraint_scores = _score_constraint(constraint, settings, info, view, scored=scored, labelled=labelled)
        node_scores = node_scores + constraint_scores

    if labelled is None:
        scores_all_nodes = rows is view.nodes.rows
        selected_scores = node_scores if scores_all_nodes else node_scores.take(rows)
        return RawScores(round_half_away(selected_scores), ignored=None)
    is_labelled = labelled[rows]
    selected_scores = np.where(is_labelled, node_scores[rows], 0.0)
    return RawScores(round_half_away(selected_scores), ignored=~is_labelled)


def find_labelled_nodes(
    constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
) -> Bools | None:
    """Return a mask (N,) of the nodes that have the topology labels of all constraints, or None if all nodes count.

    All nodes count if all have the labels. They also count for the system's default constraints, which need no labels.
    """
    if not info.spec.topology_spread_constraints and settings.system_defaulted:
        return None

    def find_labelled() -> Bools | None:
        has_all_keys = find_nodes_with_all_keys(constraints, view)
        return None if has_all_keys.all() else has_all_keys

    return view.memo((NAME, "complete"), find_labelled, info)


def normalize_scores(scores: Scores, ignored: Bools | None) -> Scores:
    """Scale the raw scores to 0..100, so that nodes whose domains have fewer matching pods score higher.

    If no node has a raw score above 0, all get 100. Nodes in the mask `ignored` get 0 and do not influence the scale.
    If `ignored` is None, no node is ignored.
    """
    counted_scores = scores if ignored is None else scores[~ignored]
    if len(counted_scores) == 0:
        return np.zeros_like(scores)
    smallest, largest = find_min_and_max(counted_scores)
    if largest <= 0:
        scaled = np.full_like(scores, MAX_NODE_SCORE)
    else:
        scaled = MAX_NODE_SCORE * (largest + smallest - scores) // largest
    if ignored is None:
        return scaled
    return np.where(ignored, 0, scaled)


def _score_constraint(
    constraint: SpreadConstraint,
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
    *,
    scored: Rows,
    labelled: Bools | None,
) -> Points:
    """Return each node's raw score for one constraint, which grows with the number of pods in its domain.

    The weight of a pod depends on the number of domains among the `scored` rows. `labelled` is a mask (N,) of the nodes
    with all required labels, or None if all nodes count. Nodes without the constraint's label get 0.
    """
    column, domains, tally = build_scored_domains(constraint, settings, info, view, labelled)
    counts = tally.compute_current_sums(view.trail)
    if domains is None:  # each node is a domain
        score = score_counts(counts, len(scored), constraint)
    else:
        scores_all_nodes = scored is view.nodes.rows
        size = domains.occupied if scores_all_nodes else np.count_nonzero(domains.count_rows(scored))
        score = domains.map_to_nodes(score_counts(counts, size, constraint))
    if column.complete:
        return score
    return np.where(column.present, score, 0.0)


class ScoredDomains(NamedTuple):
    """The domains of the nodes for one constraint and the pods counted in them."""

    column: LabelColumn
    domains: Domains | None
    """The domain of each node, or None if each node is a domain of its own."""
    tally: Tally
    """The running count of matching pods per domain."""

    @property
    def is_by_hostname(self) -> bool:
        """True if the topology key is hostname, so that each node is a domain, even without the label."""
        return self.domains is None

    @property
    def has_domain_per_node(self) -> bool:
        """True if no two nodes share a domain, apart from nodes without the label."""
        return self.is_by_hostname or self.column.separates_nodes

    def get_codes(self, rows: Rows) -> Ints | Rows:
        """Return the code of the domain of each node in `rows`.

        If each node is a domain, the code is the row.
        """
        return rows if self.domains is None else self.domains.codes[rows]


def build_scored_domains(
    constraint: SpreadConstraint, settings: SpreadSettings, info: PodInfo, view: Fork, labelled: Bools | None
) -> ScoredDomains:
    """Build the domains of one constraint with the running count of matching pods in each domain.

    For the topology key hostname, each node is a domain and all pods are counted. For other keys, only the pods on
    certain nodes are counted. The constraint's policies must include the node, and the node must be in the mask
    `labelled` (N,), if it is given.
    """
    column = view.nodes.label(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        return ScoredDomains(column, domains=None, tally=tally_matching_pods(constraint, info, view))

    def build_domains() -> tuple[Domains, Domains]:
        """Build the domains of all nodes, and the domains of the nodes that count."""
        topology = constraint.topology_key, "with unlabelled"
        all_domains = view.memo((NAME, *topology), lambda: _build_domains_with_unlabelled(column))
        included = settings.find_included_nodes(constraint, info, view)
        if labelled is not None:
            included = included & labelled
        return all_domains, restrict_domains(all_domains, included, topology, view)

    key = (NAME, "domains", constraint)
    domains, counted_domains = view.memo(key, build_domains, info)
    return ScoredDomains(column, domains, tally_matching_pods(constraint, info, view, counted_domains, key))


def score_counts(counts: Counts, size: int | np.signedinteger, constraint: SpreadConstraint) -> Points:
    """Return the score for each count of matching pods in a domain. `size` is the number of scored domains.

    The more domains there are, the more each pod counts. The constraint's maxSkew adds a constant, which makes small
    differences matter less.
    """
    weighed: Points = counts * _compute_weight_per_pod(int(size))
    if constraint.max_skew == 1:
        return weighed
    return weighed + float(constraint.max_skew - 1)


@cache
def _compute_weight_per_pod(domains: int) -> np.float64:
    """Return the score of a single pod if this number of domains is scored, as upstream's topologyNormalizingWeight."""
    weight: np.float64 = np.log(float(domains + 2))
    return weight


def _build_domains_with_unlabelled(column: LabelColumn) -> Domains:
    """Build domains from a label of the nodes, in which nodes without the label are in the domain of an empty value."""
    unlabelled_code = column.values.index("") if "" in column.values else len(column.values)
    return Domains(np.where(column.present, column.codes, unlabelled_code).astype(np.int32), column.size + 1)


class _RowDomains(NamedTuple):
    """The domains of certain rows for one constraint."""

    codes: Ints | Rows
    """The code of each row's domain."""
    distinct_count: int | None
    """The number of distinct domains, or None if no two nodes share a domain."""


class SpreadRowScores:
    """Scores of identical pods among any subset of the nodes, given the number of domains in the subset."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self.constraints, self.view = constraints, view
        self._labelled = find_labelled_nodes(constraints, settings, info, view)
        self.counted: Bools = np.broadcast_to(np.True_, len(view.nodes))
        """A mask (N,) of the nodes that count for normalization."""
        if self._labelled is not None:
            self.counted = self._labelled
        self._scored_domains = [
            build_scored_domains(constraint, settings, info, view, self._labelled) for constraint in constraints
        ]
        """The domains of each constraint."""
        self._latest_rows: Rows | None = None
        self._domains_of_latest_rows: list[_RowDomains] = []

    @property
    def domains(self) -> list[Ints | Rows]:
        """The domain (N,) of each node, for each constraint. For hostnames each node is a domain."""
        return [scored_domains.get_codes(self.view.nodes.rows) for scored_domains in self._scored_domains]

    @property
    def distinctions(self) -> list[Distinction]:
        """The topology domains that distinguish nodes, with their current counts, for each soft constraint."""
        distinctions: list[Distinction] = []
        for scored_domains in self._scored_domains:
            distinctions += self._iter_distinctions(scored_domains)
        return distinctions

    def _iter_distinctions(self, scored_domains: ScoredDomains) -> Iterator[Distinction]:
        """Yield the domains that distinguish nodes for one constraint, with the domains' current counts.

        For hostnames, each node is distinguished by its count, and nodes without the label are distinguished from nodes
        with it.
        """
        column = scored_domains.column
        compute_counts = partial(scored_domains.tally.compute_current_sums, self.view.trail)
        if not scored_domains.is_by_hostname:
            yield Distinction(column, compute_counts)
            return
        yield Distinction(build_domain_per_node(self.view), compute_counts)
        if not column.complete:
            presence = Domains(np.where(column.present, 0, -1).astype(np.int32), 1)
            yield Distinction(presence, lambda: np.zeros(1, np.int64))

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        """Return, for each constraint, the number of domains that contain the nodes in `rows`.

        `counts` says how many equal nodes each row represents. Nodes that lack a required topology label are left out.
        """
        if self._labelled is not None:
            is_labelled = self._labelled[rows]
            rows, counts = rows[is_labelled], counts[is_labelled]
        domain_counts = []
        for scored_domains, row_domains in zip(self._scored_domains, self._get_row_domains(rows), strict=True):
            domain_count = row_domains.distinct_count
            if domain_count is None:  # each of the equal nodes that a row represents is a domain
                domain_count = _count_domains_of_rows(scored_domains, rows, counts)
            domain_counts.append(domain_count)
        return domain_counts

    def _get_row_domains(self, rows: Rows) -> list[_RowDomains]:
        """Return the domains of the nodes in `rows`, for each constraint.

        The domains are cached for the latest array `rows`, which identical pods that follow each other mostly share.
        """
        if rows is not self._latest_rows:
            row_domains = []
            for scored_domains in self._scored_domains:
                codes = scored_domains.get_codes(rows)
                distinct_count = None if scored_domains.has_domain_per_node else _count_distinct(codes)
                row_domains.append(_RowDomains(codes, distinct_count))
            self._latest_rows, self._domains_of_latest_rows = rows, row_domains
        return self._domains_of_latest_rows

    def compute_raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the scores of the nodes in `rows` before normalization. Nodes without a required label get 0.

        `sizes` has the number of scored domains of each constraint, as `count_domains` returns it.
        """
        score: Points = np.zeros(len(rows))
        for constraint, scored_domains, size, row_domains in zip(
            self.constraints, self._scored_domains, sizes, self._get_row_domains(rows), strict=True
        ):
            pods_per_domain = scored_domains.tally.compute_current_sums(self.view.trail)
            constraint_score = score_counts(pods_per_domain.take(row_domains.codes), size, constraint)
            if not scored_domains.column.complete:
                constraint_score = np.where(scored_domains.column.present[rows], constraint_score, 0.0)
            score = score + constraint_score
        if self._labelled is not None:
            score = np.where(self._labelled[rows], score, 0.0)
        return round_half_away(score)

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Scale the scores to 0..100 by the lowest and highest score in the mask `counted`. Other nodes get 0."""
        all_count = self._labelled is None or counted.all()
        return normalize_scores(scores, None if all_count else ~counted)


def build_domain_per_node(view: Fork) -> Domains:
    """Return domains in which every node is a separate domain, computed once."""
    nodes = len(view.nodes)
    return view.memo((NAME, "each"), lambda: Domains(np.arange(nodes, dtype=np.int32), nodes))


def _count_domains_of_rows(scored_domains: ScoredDomains, rows: Rows, counts: Counts) -> int:
    """Return the number of domains that contain the nodes in `rows`, each representing `counts` equal nodes.

    Every node must be in a domain of its own. Nodes without the label share one domain, except for the topology key
    hostname.
    """
    if scored_domains.is_by_hostname:  # even a node without the label is a domain
        return int(counts.sum())
    is_labelled = scored_domains.column.present[rows]
    unlabelled_domains = 0 if is_labelled.all() else 1  # unlabelled nodes share a domain
    return int(counts[is_labelled].sum()) + unlabelled_domains


def _count_distinct(codes: Ints | Rows) -> int:
    """Return the number of distinct codes, which are not negative."""
    if len(codes) < MIN_CODES_FOR_NUMPY:
        return len(set(codes.tolist()))
    return int(np.count_nonzero(np.bincount(codes)))
