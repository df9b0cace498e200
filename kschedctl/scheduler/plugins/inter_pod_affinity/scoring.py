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
    """Yield the incoming pod's terms, each with the pod infos that match it and its weight times `sign`.

    The sign is 1 for affinity and -1 for anti-affinity. The terms must have resolved namespaces.
    """
    for term in terms:
        yield term, find_infos_matching_term(term, view), sign * term.weight


def iter_terms_of_running_pods(info: PodInfo, view: Fork, hard_weight: int) -> Iterator[WeightedTerm]:
    """Yield the terms of running pods that match the incoming pod, each with its pod infos and its weight.

    Required affinity terms have the weight `hard_weight`, and are left out if it is 0. Preferred anti-affinity terms
    have negative weights.
    """
    if hard_weight > 0:
        for term, infos in find_terms_matching_pod(info, view, "required_affinity"):
            yield term, infos, hard_weight
    for term, infos in find_terms_matching_pod(info, view, "preferred_affinity"):
        yield term, infos, term.weight
    for term, infos in find_terms_matching_pod(info, view, "preferred_anti_affinity"):
        yield term, infos, -term.weight


def sum_terms_per_key(terms: Iterable[WeightedTerm], view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
    """Return the number and the total weight of the terms that match each pod info, by topology key.

    Both results map a topology key to an array with one entry per pod info.
    """
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
    """Return, for each node in `rows`, the sum of its domains' counts over all topology keys."""
    total = np.zeros(len(rows), np.int64)
    for key in counts.counts:
        total += view.nodes.label(key).map_to_nodes(counts.counts[key])[rows]
    return total


class AffinityRowScores:
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
        """The topology domains and current counts by which nodes are distinguished, for each topology key."""
        return self._running.distinctions

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        """Return an empty list, because the scores do not depend on the number of domains."""
        return []

    def compute_raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the scores of the nodes in `rows` before normalization.

        `sizes` is part of the interface and not used.
        """
        total = np.zeros(len(rows), np.int64)
        for counts in self._running.iter_counts(rows):
            total += counts
        return total

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Scale the scores so that the lowest becomes 0 and the highest 100. `counted` is not used: all nodes count."""
        return normalize_scores(scores)


def normalize_scores(scores: Scores) -> Scores:
    """Scale the scores so that the lowest becomes 0 and the highest 100. Equal scores all become 0."""
    smallest, largest = find_min_and_max(scores)
    if largest == smallest:
        return np.zeros_like(scores)
    return (float(MAX_NODE_SCORE) * ((scores - smallest) / float(largest - smallest))).astype(np.int64)
