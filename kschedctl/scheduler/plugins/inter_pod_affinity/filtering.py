"""Which nodes required terms refuse, and the facts about them.

Upstream: plugins/interpodaffinity/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.facts import Fact, TopologyLabelMissing
from kschedctl.scheduler.plugins.inter_pod_affinity.facts import NoPodForAllTerms, NoPodToJoin, PodInTheWay
from kschedctl.scheduler.plugins.inter_pod_affinity.terms import selected_pods, terms_against
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import RunningCounts, TopologyCounts
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"


class FilterState(msgspec.Struct, frozen=True):
    """The pod's own required terms, and what the cluster's pods add up to for them and against the pod."""

    affinity_terms: tuple[AffinityTerm, ...]
    anti_affinity_terms: tuple[AffinityTerm, ...]
    affinity: TopologyCounts
    anti_affinity: TopologyCounts
    existing_anti_affinity: TopologyCounts


class AffinityVerdicts(msgspec.Struct, frozen=True):
    """Of which rows required terms refuse pods alike, as pods are now.

    ``wants_itself``: its own affinity terms, of which it has some, all select the pod.
    """

    affinity: RunningCounts
    anti_affinity: RunningCounts
    existing_anti_affinity: RunningCounts
    wants_itself: bool

    @property
    def distinctions(self) -> list[Distinction]:
        counts = (self.affinity, self.anti_affinity, self.existing_anti_affinity)
        return [distinction for running in counts for distinction in running.distinctions]

    def rejected(self, rows: Rows) -> Bools:
        refused = self.affinity.unlabelled(rows)
        if not (self.wants_itself and self.affinity.empty):
            for counts in self.affinity.at(rows):
                refused |= counts <= 0
        return refused | self.anti_affinity.any_positive(rows) | self.existing_anti_affinity.any_positive(rows)


def rejections(filtered: FilterState, info: PodInfo, view: Fork, delta: Delta) -> Iterator[Rejection]:
    """By the pod's own affinity, its anti-affinity, and the anti-affinity of pods that run, in upstream's order."""
    unmet = ~_affinity_met(filtered, info, view, delta)
    yield Rejection(unmet, Code.UNRESOLVABLE, REASON_AFFINITY, _affinity_fact(filtered, view))
    repelled = _any_positive(filtered.anti_affinity, view, delta) & ~unmet
    own_fact = _pod_fact(filtered.anti_affinity, view, partial(_find_own_term, filtered.anti_affinity_terms, view))
    yield Rejection(repelled, Code.UNSCHEDULABLE, REASON_ANTI_AFFINITY, own_fact)
    unwanted = _any_positive(filtered.existing_anti_affinity, view, delta) & ~unmet & ~repelled
    existing_term = partial(_find_existing_term, info, view)
    existing_fact = _pod_fact(filtered.existing_anti_affinity, view, existing_term, of_existing_pods=True)
    yield Rejection(unwanted, Code.UNSCHEDULABLE, REASON_EXISTING, existing_fact)


def _find_own_term(terms: Sequence[AffinityTerm], view: Fork, key: str, number: int) -> AffinityTerm | None:
    """Return the first of the incoming pod's terms with the topology key that selects pods of PodInfo ``number``."""
    return next((t for t in terms if t.topology_key == key and selected_pods(t, view)[number]), None)


def _find_existing_term(info: PodInfo, view: Fork, key: str, number: int) -> AffinityTerm | None:
    """Return the first anti-affinity term of PodInfo ``number`` with the topology key that matches the incoming pod."""
    against = terms_against(info, view, "required_anti_affinity")
    return next((term for term, owner in against if owner == number and term.topology_key == key), None)


def _any_positive(counts: TopologyCounts, view: Fork, delta: Delta) -> Bools:
    """(N,): a term was matched in some topology that the node is part of."""
    positive = np.zeros(len(view.nodes), np.bool_)
    for key in counts.counts:
        positive |= counts.at_nodes(key, view, delta) > 0
    return positive


def _affinity_met(state: FilterState, info: PodInfo, view: Fork, delta: Delta) -> Bools:
    """(N,): every term has a pod in the node's topology; or the pod is the first of a group that wants itself."""
    labelled = np.ones(len(view.nodes), np.bool_)
    company = np.ones(len(view.nodes), np.bool_)
    for key in state.affinity.counts:
        labelled &= view.nodes.label(key).present
        company &= state.affinity.at_nodes(key, view, delta) > 0
    if not wants_itself(state.affinity_terms, info):
        return labelled & company
    return labelled & (company | state.affinity.vanishes(view, delta))


def wants_itself(terms: Sequence[AffinityTerm], info: PodInfo) -> bool:
    """Whether there are terms, and all select the pod itself."""
    return bool(terms) and all(term.matches(info.namespace, info.labels, {}) for term in terms)


def _affinity_fact(state: FilterState, view: Fork) -> Callable[[int], Fact]:
    def fact(row: int) -> Fact:
        for term in state.affinity_terms:
            column = view.nodes.label(term.topology_key)
            if column.codes[row] < 0:
                return TopologyLabelMissing(term.topology_key)
            if state.affinity.counts[term.topology_key][column.codes[row]] <= 0:
                value = column.values[column.codes[row]]
                selector = None if term.selector.matches_nothing else str(term.selector)
                return NoPodToJoin(selector, term.topology_key, value)
        return NoPodForAllTerms()

    return fact


def _pod_fact(
    counts: TopologyCounts,
    view: Fork,
    find_term: Callable[[str, int], AffinityTerm | None],
    of_existing_pods: bool = False,
) -> Callable[[int], PodInTheWay]:
    """Return a function from a node's row to the fact that names the first pod in the way and the term behind it.

    ``find_term`` gets a topology key and the number of a PodInfo.
    """

    @cache
    def first_pods(key: str) -> dict[int, tuple[int, int]]:
        """Return for each domain the first pod that counts there, and the number of such pods."""
        column = view.nodes.label(key)
        pods = np.flatnonzero((view.node >= 0) & (counts.weights[key][view.pods.info] > 0))
        domains, first, number = np.unique(column.codes[view.node[pods]], return_index=True, return_counts=True)
        return dict(zip(domains.tolist(), zip(pods[first].tolist(), number.tolist(), strict=True), strict=True))

    @cache
    def selector(key: str, number: int) -> str:
        term = find_term(key, number)
        return "" if term is None else str(term.selector)

    def fact(row: int) -> PodInTheWay:
        for key in counts.weights:
            column = view.nodes.label(key)
            domain = int(column.codes[row])
            if domain >= 0 and counts.counts[key][domain] > 0:
                pod, number = first_pods(key)[domain]
                return PodInTheWay(
                    view.pods.objects[pod].key,
                    number - 1,
                    key,
                    column.values[domain],
                    selector(key, int(view.pods.info[pod])),
                    of_existing_pods,
                )
        return PodInTheWay()

    return fact
