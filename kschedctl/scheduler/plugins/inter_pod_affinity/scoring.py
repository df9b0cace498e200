"""Scoring by the preferred terms of the incoming pod and of running pods.

Upstream: plugins/interpodaffinity/scoring.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows, Scores
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, find_min_and_max
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import (
    Infos,
    RunningCounts,
    TopologyCounts,
    Weights,
    find_infos_matching_term,
    find_terms_matching_pod,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

WeightedTerm = tuple[AffinityTerm, Infos, int]
"""A term, the infos of the pods on whose nodes it counts, and its weight."""


def iter_own_terms(terms: Iterable[AffinityTerm], sign: int, view: Fork) -> Iterator[WeightedTerm]:
    """Yield the incoming pod's terms with resolved namespaces and a sign: 1 for affinity, -1 for anti-affinity."""
    for term in terms:
        yield term, find_infos_matching_term(term, view), sign * term.weight


def iter_terms_of_running_pods(info: PodInfo, view: Fork, hard_weight: int) -> Iterator[WeightedTerm]:
    """Yield the terms of running pods that match the incoming pod. Required terms have the weight `hard_weight`."""
    if hard_weight > 0:
        for term, infos in find_terms_matching_pod(info, view, "required_affinity"):
            yield term, infos, hard_weight
    for term, infos in find_terms_matching_pod(info, view, "preferred_affinity"):
        yield term, infos, term.weight
    for term, infos in find_terms_matching_pod(info, view, "preferred_anti_affinity"):
        yield term, infos, -term.weight


def sum_terms_per_key(terms: Iterable[WeightedTerm], view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
    """Return two maps from topology key to sums (T,): the number of matching terms, and the sum of their weights."""
    matches: dict[str, Weights] = {}
    weights: dict[str, Weights] = {}
    for term, infos, weight in terms:
        key = term.topology_key
        if key not in matches:
            matches[key] = np.zeros(len(view.pods.infos), np.int64)
            weights[key] = np.zeros(len(view.pods.infos), np.int64)
        matches[key][infos] += 1
        weights[key][infos] += weight
    return matches, weights


def compute_raw_scores(counts: TopologyCounts, view: Fork, rows: Rows) -> Scores:
    """Return the sum of the weights in each row's domains (F,)."""
    total = np.zeros(len(rows), np.int64)
    for key in counts.counts:
        total += view.nodes.label(key).map_to_nodes(counts.counts[key])[rows]
    return total


class AffinityAmong:
    """Current scores of identical pods among any subset of the nodes.

    Arrays are (F,) except `counted` (N,).
    """

    domains: Sequence[Rows] = ()
    """Empty, because the scores do not depend on the number of domains."""

    def __init__(self, running: RunningCounts, view: Fork) -> None:
        self._running = running
        self.counted: Bools = np.broadcast_to(np.True_, len(view.nodes))
        """A mask of the nodes that count for normalization, which are all."""

    @property
    def distinctions(self) -> list[Distinction]:
        """The label columns and counts that distinguish nodes."""
        return self._running.distinctions

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        """Return no sizes, because the scores do not depend on the number of domains."""
        return []

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the scores (F,) of the rows before normalization."""
        total = np.zeros(len(rows), np.int64)
        for counts in self._running.iter_counts(rows):
            total += counts
        return total

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Scale the scores from 0 for the lowest to 100 for the highest. All nodes count."""
        return normalize_scores(scores)


def normalize_scores(scores: Scores) -> Scores:
    """Scale the scores from 0 for the lowest to 100 for the highest, or all to 0 if they are equal."""
    smallest, largest = find_min_and_max(scores)
    if largest == smallest:
        return np.zeros_like(scores)
    return (float(MAX_NODE_SCORE) * ((scores - smallest) / float(largest - smallest))).astype(np.int64)
