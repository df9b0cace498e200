"""InterPodAffinity: pods that want to be, or must not be, in one topology with others; both sides' terms count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.labels import aggregate
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.plugin_args import InterPodAffinityArgs
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.facts import AnyFact, NoPodForAllTerms, NoPodToJoin, PodInTheWay, TopologyLabelMissing
from kschedctl.scheduler.framework import (
    MAX_NODE_SCORE,
    PRE_SCORE_SKIP,
    SKIP,
    Bools,
    Code,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Rows,
    Scores,
    Status,
    UpstreamFault,
    required_state,
)
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo
from kschedctl.snapshot.trail import Counts

REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"

EXCLUDING_SELECTOR = (
    "kube-scheduler departs from its documentation since 1.34: a namespaceSelector of the pod's own (anti-)affinity"
    " that only excludes (NotIn, DoesNotExist) takes the pods of every namespace"
)

Weights = npt.NDArray[np.int64]
Kinds = Bools | int
"""Kinds of pod: a mask (T,) or one index."""


@dataclass(frozen=True)
class TopologyCounts:
    """How often terms were matched, by topology key: ``counts`` (V + 1,) in each domain, 0 in the last place.

    ``weights`` (T,): what one pod of each kind adds on its node.
    """

    weights: Mapping[str, Weights]
    counts: Mapping[str, Counts]

    @classmethod
    def of(cls, what: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]) -> TopologyCounts:
        """``what`` names the weights of this incoming pod among its others."""
        found = view.memo((InterPodAffinity.name, what), weights, info)
        counts = {}
        for key in found:
            weigh = partial(found.__getitem__, key)
            summed = view.tally((InterPodAffinity.name, what, key), weigh, view.nodes.label(key), info)
            counts[key] = np.append(summed, 0)
        return cls(found, counts)

    @property
    def empty(self) -> bool:
        return not any(counts.any() for counts in self.counts.values())

    def at_nodes(self, key: str, view: Fork, delta: Delta) -> Counts:
        """(N,): the count in each node's domain of this key under the hypothesis; 0 where the label is missing."""
        column = view.nodes.label(key)
        here = column.at_nodes(self.counts[key])
        if delta:
            here = np.where(column.present, here + delta.sums(self.weights[key], len(view.nodes)), 0)
        return here

    def vanishes(self, view: Fork, delta: Delta) -> Bools:
        """(N,): no pod is counted anywhere under the node's hypothesis."""
        nonzero = np.full(len(view.nodes), sum(int((counts != 0).sum()) for counts in self.counts.values()))
        for key in self.counts if delta else ():
            before = view.nodes.label(key).at_nodes(self.counts[key]) != 0
            nonzero += (self.at_nodes(key, view, delta) != 0).astype(np.int64) - before
        gone: Bools = nonzero == 0
        return gone


@dataclass(frozen=True)
class FilterState:
    """The pod's own required terms, and what the cluster's pods add up to for them and against the pod."""

    affinity_terms: tuple[AffinityTerm, ...]
    anti_affinity_terms: tuple[AffinityTerm, ...]
    affinity: TopologyCounts
    anti_affinity: TopologyCounts
    existing_anti_affinity: TopologyCounts


class InterPodAffinity(DeclaredPlugin):
    """Rejects nodes by required terms, of the pod and of the pods that run; prefers nodes by the preferred terms.

    Upstream: pkg/scheduler/framework/plugins/interpodaffinity (v1.36). Since 1.34 a namespaceSelector of the pod's own
    terms is matched against no labels at all, besides the namespaces that it selects: one that only excludes takes the
    pods of every namespace. ``as_documented``: it takes those of the namespaces that it selects, as before.
    """

    name = "InterPodAffinity"
    default_weight = 2
    args_type = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs, as_documented: bool = False) -> None:
        self.args, self.as_documented = args, as_documented

    @classmethod
    def make(cls, args: InterPodAffinityArgs, gates: FeatureGates) -> Self:
        return cls(args, as_documented=gates.minor < 34)

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        """Terms that select namespaces by their labels: the pod's own, and those of the pods that run."""

        def running(*of: str) -> Iterator[AffinityTerm]:
            return (term for each in of for term, _ in view.pods.affinity_terms(each, info.namespace))

        required = (*info.required_affinity, *info.required_anti_affinity, *running("required_anti_affinity"))
        preferred = (*info.preferred_affinity, *info.preferred_anti_affinity)
        if any(term.by_namespace_labels for term in required):
            yield Lean("Namespace", Effect.EITHER)
        others = running("required_affinity", "preferred_affinity", "preferred_anti_affinity")
        if any(term.by_namespace_labels for term in (*preferred, *others)):
            yield Lean("Namespace", Effect.SCORES)

    # -- Filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        if errors := info.affinity_errors:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (f"parsing pod: {aggregate(errors)}",)))
        affinity = self._unrolled(info.required_affinity, view)
        anti_affinity = self._unrolled(info.required_anti_affinity, view)

        def against() -> dict[str, Weights]:
            return _weights(_terms_against(info, view, "required_anti_affinity"), view)

        existing = TopologyCounts.of("existing", info, view, against)
        if existing.empty and not affinity and not anti_affinity:
            return PreFilterResult(SKIP, reads=Reads.PODS if existing.counts else Reads.NODES)
        state = FilterState(
            affinity,
            anti_affinity,
            TopologyCounts.of(self._own("affinity"), info, view, lambda: _weights_of_all(affinity, view)),
            TopologyCounts.of(self._own("anti-affinity"), info, view, lambda: _weights_of_each(anti_affinity, view)),
            existing,
        )
        return PreFilterResult(state=state)

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        found: FilterState = required_state(
            state, 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
        )
        unmet = ~_affinity_met(found, info, view, delta)
        yield Rejection(unmet, Code.UNRESOLVABLE, REASON_AFFINITY, _affinity_fact(found, view))
        repelled = _any_positive(found.anti_affinity, view, delta) & ~unmet
        yield Rejection(repelled, Code.UNSCHEDULABLE, REASON_ANTI_AFFINITY, _pod_fact(found.anti_affinity, view))
        unwanted = _any_positive(found.existing_anti_affinity, view, delta) & ~unmet & ~repelled
        fact = _pod_fact(found.existing_anti_affinity, view)
        yield Rejection(unwanted, Code.UNSCHEDULABLE, REASON_EXISTING, fact)

    # -- Score ---------------------------------------------------------------------------------------------------

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult:
        own = (*info.preferred_affinity, *info.preferred_anti_affinity)
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return PRE_SCORE_SKIP
        if errors := info.affinity_errors:
            raise PluginError(f"failed to parse pod: {aggregate(errors)}")
        matches, weights = view.memo((self.name, self._own("terms")), lambda: self._score_weights(info, view), info)
        if TopologyCounts.of(self._own("matches"), info, view, lambda: matches).empty:
            return PreScoreResult(skip=True, reads=Reads.PODS if matches else Reads.NODES)
        return PreScoreResult(TopologyCounts.of(self._own("score"), info, view, lambda: weights))

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
        counts: TopologyCounts = required_state(
            state, 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'
        )
        total = np.zeros(len(rows), np.int64)
        for key in counts.counts:
            total += view.nodes.label(key).at_nodes(counts.counts[key])[rows]
        return total

    def normalize(self, state: Any, scores: Scores) -> Scores:
        smallest, largest = int(scores.min()), int(scores.max())
        if largest == smallest:
            return np.zeros_like(scores)
        return (float(MAX_NODE_SCORE) * ((scores - smallest) / float(largest - smallest))).astype(np.int64)

    def _score_weights(self, info: PodInfo, view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
        """Topology key -> (T,), for a pod of each kind: how many terms match it, and what they add to the score."""
        matches: dict[str, Weights] = {}
        weights: dict[str, Weights] = {}
        for term, kinds, weight in self._score_terms(info, view):
            for found, amount in ((matches, 1), (weights, weight)):
                found.setdefault(term.topology_key, np.zeros(len(view.pods.infos), np.int64))[kinds] += amount
        return matches, weights

    def _score_terms(self, info: PodInfo, view: Fork) -> Iterator[tuple[AffinityTerm, Kinds, int]]:
        """Terms with the kinds of pod on whose node they count, and the weight with which they do."""
        for sign, own in ((1, info.preferred_affinity), (-1, info.preferred_anti_affinity)):
            for term in self._unrolled(own, view):
                yield term, _selected(term, view), sign * term.weight
        hard = self.args.hard_pod_affinity_weight
        if hard > 0:
            for term, kinds in _terms_against(info, view, "required_affinity"):
                yield term, kinds, hard
        for term, kinds in _terms_against(info, view, "preferred_affinity"):
            yield term, kinds, term.weight
        for term, kinds in _terms_against(info, view, "preferred_anti_affinity"):
            yield term, kinds, -term.weight

    def upstream_fault(self, cycle: Any) -> UpstreamFault | None:
        """A namespaceSelector that only excludes takes the pods of every namespace."""
        info: PodInfo = cycle.info
        own = (*info.required_affinity, *info.required_anti_affinity)
        own += (*info.preferred_affinity, *info.preferred_anti_affinity)
        selectors = [term.namespace_selector for term in own if not term.namespace_selector.empty]
        if self.as_documented or not any(selector.matches({}) for selector in selectors):
            return None
        return UpstreamFault(EXCLUDING_SELECTOR, InterPodAffinity(self.args, as_documented=True))

    def _unrolled(self, terms: Iterable[AffinityTerm], view: Fork) -> tuple[AffinityTerm, ...]:
        return tuple(term.unrolled(view.namespace_labels, replaced=self.as_documented) for term in terms)

    def _own(self, what: str) -> str:
        """The name of what depends on how the pod's own terms are read."""
        return f"{what} as documented" if self.as_documented else what


def _terms_against(info: PodInfo, view: Fork, of: str) -> Iterator[tuple[AffinityTerm, int]]:
    """The terms of the cluster's pods that match this pod, each with the kind of pod that has it."""
    namespace_labels = view.namespace_labels.get(info.namespace, {})
    for term, position in view.pods.affinity_terms(of, info.namespace):
        if term.matches(info.namespace, info.labels, namespace_labels):
            yield term, position


def _selected(term: AffinityTerm, view: Fork) -> Bools:
    """(T,): the pods that one of the incoming pod's terms, its namespaces unrolled, is about."""
    anywhere = term.namespace_selector.matches({})  # after unrolling: matches either all namespaces or none
    return view.pods.matching(term.selector, None if anywhere else term.namespaces)


def _weights(matches: Iterable[tuple[AffinityTerm, Kinds]], view: Fork) -> dict[str, Weights]:
    """Topology key -> (T,): how many of the terms with that key a pod of each kind counts for."""
    weights: dict[str, Weights] = {}
    for term, kinds in matches:
        weights.setdefault(term.topology_key, np.zeros(len(view.pods.infos), np.int64))[kinds] += 1
    return weights


def _weights_of_each(terms: Iterable[AffinityTerm], view: Fork) -> dict[str, Weights]:
    """Each term counts the pods that it selects."""
    return _weights(((term, _selected(term, view)) for term in terms), view)


def _weights_of_all(terms: tuple[AffinityTerm, ...], view: Fork) -> dict[str, Weights]:
    """Each term counts the pods that all terms select."""
    if not terms:
        return {}
    selected = np.logical_and.reduce([_selected(term, view) for term in terms])
    return _weights(((term, selected) for term in terms), view)


def _any_positive(counts: TopologyCounts, view: Fork, delta: Delta) -> Bools:
    """(N,): a term was matched in some topology that the node is part of."""
    found = np.zeros(len(view.nodes), np.bool_)
    for key in counts.counts:
        found |= counts.at_nodes(key, view, delta) > 0
    return found


def _affinity_met(state: FilterState, info: PodInfo, view: Fork, delta: Delta) -> Bools:
    """(N,): every term has a pod in the node's topology; or the pod is the first of a group that wants itself."""
    labelled = np.ones(len(view.nodes), np.bool_)
    company = np.ones(len(view.nodes), np.bool_)
    for key in state.affinity.counts:
        labelled &= view.nodes.label(key).present
        company &= state.affinity.at_nodes(key, view, delta) > 0
    wants_itself = bool(state.affinity_terms) and all(
        term.matches(info.namespace, info.labels, {}) for term in state.affinity_terms
    )
    if not wants_itself:
        return labelled & company
    return labelled & (company | state.affinity.vanishes(view, delta))


def _affinity_fact(state: FilterState, view: Fork) -> Callable[[int], AnyFact]:
    def fact(row: int) -> AnyFact:
        for term in state.affinity_terms:
            column = view.nodes.label(term.topology_key)
            if column.codes[row] < 0:
                return TopologyLabelMissing(term.topology_key)
            if state.affinity.counts[term.topology_key][column.codes[row]] <= 0:
                value = column.values[column.codes[row]]
                selector = None if term.selector.nothing else str(term.selector)
                return NoPodToJoin(selector, term.topology_key, value)
        return NoPodForAllTerms()

    return fact


def _pod_fact(counts: TopologyCounts, view: Fork) -> Callable[[int], PodInTheWay]:
    """Names one pod that stands against the incoming one, in the topology that it is in."""

    @cache
    def first_pods(key: str) -> dict[int, tuple[int, int]]:
        """Domain -> the first pod that counts there, and how many there are."""
        column = view.nodes.label(key)
        pods = np.flatnonzero((view.node >= 0) & (counts.weights[key][view.pods.info] > 0))
        domains, first, number = np.unique(column.codes[view.node[pods]], return_index=True, return_counts=True)
        return dict(zip(domains.tolist(), zip(pods[first].tolist(), number.tolist(), strict=True), strict=True))

    def fact(row: int) -> PodInTheWay:
        for key in counts.weights:
            column = view.nodes.label(key)
            domain = int(column.codes[row])
            if domain >= 0 and counts.counts[key][domain] > 0:
                pod, number = first_pods(key)[domain]
                return PodInTheWay(view.pods.objects[pod].key, number - 1, key, column.values[domain])
        return PodInTheWay()

    return fact
