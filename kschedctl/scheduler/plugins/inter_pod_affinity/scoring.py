"""How much the pods of each topology want a pod, and it them, by preferred terms of both sides.

Upstream: plugins/interpodaffinity/scoring.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows, Scores
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, min_and_max
from kschedctl.scheduler.plugins.inter_pod_affinity.terms import Infos, selected_pods, terms_against
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import RunningCounts, TopologyCounts, Weights
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

WeightedTerm = tuple[AffinityTerm, Infos, int]
"""A term, the infos of the pods on whose node it counts, and the weight with which it does."""


def own_terms(terms: Iterable[AffinityTerm], sign: int, view: Fork) -> Iterator[WeightedTerm]:
    """The incoming pod's, their namespaces unrolled: preferred ones (``sign`` 1), or those that it avoids (-1)."""
    for term in terms:
        yield term, selected_pods(term, view), sign * term.weight


def terms_of_others(info: PodInfo, view: Fork, hard_weight: int) -> Iterator[WeightedTerm]:
    """Terms of the cluster's pods that are about the incoming one; required ones count ``hard_weight``."""
    if hard_weight > 0:
        for term, infos in terms_against(info, view, "required_affinity"):
            yield term, infos, hard_weight
    for term, infos in terms_against(info, view, "preferred_affinity"):
        yield term, infos, term.weight
    for term, infos in terms_against(info, view, "preferred_anti_affinity"):
        yield term, infos, -term.weight


def added_up(terms: Iterable[WeightedTerm], view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
    """Topology key -> (T,), for a pod of each info: how many terms match it, and what they add to the score."""
    matches: dict[str, Weights] = {}
    weights: dict[str, Weights] = {}
    for term, infos, weight in terms:
        for sums, amount in ((matches, 1), (weights, weight)):
            sums.setdefault(term.topology_key, np.zeros(len(view.pods.infos), np.int64))[infos] += amount
    return matches, weights


def raw_scores(counts: TopologyCounts, view: Fork, rows: Rows) -> Scores:
    """(F,): what the pods in each row's topologies add up to."""
    total = np.zeros(len(rows), np.int64)
    for key in counts.counts:
        total += view.nodes.label(key).at_nodes(counts.counts[key])[rows]
    return total


class AffinityAmong:
    """The scores of pods alike among any of the nodes, as pods are now. Arrays are (F,) but for ``counted`` (N,)."""

    domains: Sequence[Rows] = ()

    def __init__(self, running: RunningCounts, view: Fork) -> None:
        self._running = running
        self.counted: Bools = np.broadcast_to(np.True_, len(view.nodes))

    @property
    def distinctions(self) -> list[Distinction]:
        return self._running.distinctions

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        return []

    def raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        total = np.zeros(len(rows), np.int64)
        for counts in self._running.at(rows):
            total += counts
        return total

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        return normalized(scores)


def normalized(scores: Scores) -> Scores:
    """The lowest score becomes 0, the highest 100; all 0 where they are the same."""
    smallest, largest = min_and_max(scores)
    if largest == smallest:
        return np.zeros_like(scores)
    return (float(MAX_NODE_SCORE) * ((scores - smallest) / float(largest - smallest))).astype(np.int64)
