"""The pods that affinity terms match, counted per topology domain, also under hypothetical pod changes.

Upstream: plugins/interpodaffinity/filtering.go, topologyToMatchedTermCount (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo
from kschedctl.snapshot.tallies import Tally

NAME = "InterPodAffinity"
Weights = npt.NDArray[np.int64]
"""(T,) the amount that one pod of each info adds to the count of its domain."""
COUNT_WITHOUT_LABEL: Counts = np.zeros(1, np.int64)
"""The count for nodes without the topology label."""


class SparseWeights(Mapping[str, Weights]):
    """Weights by topology key, (T,) each, stored without zeros because there may be thousands of kinds of pods."""

    def __init__(self, weights: Mapping[str, Weights]) -> None:
        self._num_infos = max(map(len, weights.values()), default=0)
        self._nonzero: dict[str, tuple[npt.NDArray[np.int32], Weights]] = {}
        """The numbers of the pod infos with a weight other than 0, and these weights, by topology key."""
        for key, info_weights in weights.items():
            numbers = np.flatnonzero(info_weights).astype(np.int32)
            self._nonzero[key] = numbers, info_weights[numbers]

    @classmethod
    def from_weights(cls, weights: Mapping[str, Weights]) -> SparseWeights:
        """Return the weights in sparse form. Weights that are sparse already are returned unchanged."""
        return weights if isinstance(weights, cls) else cls(weights)

    def __getitem__(self, key: str) -> Weights:
        """Return the weights of a topology key for all pod infos, including zeros, as a new array."""
        numbers, amounts = self._nonzero[key]
        weights = np.zeros(self._num_infos, np.int64)
        weights[numbers] = amounts
        return weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._nonzero)

    def __len__(self) -> int:
        return len(self._nonzero)


class TopologyCounts(msgspec.Struct, frozen=True):
    """Counts of matched terms by topology key."""

    weights: Mapping[str, Weights]
    """Topology key -> (T,) the amount that one pod of each info adds on its node."""
    counts: Mapping[str, Counts]
    """Topology key -> (V + 1,) the count in each domain. The last entry, 0, is for nodes without the label."""

    @classmethod
    def build_for_pod(
        cls, purpose: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]
    ) -> TopologyCounts:
        """Build the current counts of matched terms for an incoming pod, in each domain of each topology key.

        `weights` computes, for each PodInfo, how much one of its pods adds to a count. `purpose` is the name of these
        weights in the cache.
        """
        sparse_weights = _get_cached_weights(purpose, info, view, weights)
        counts = {}
        for key in sparse_weights:
            tally = _get_tally(purpose, key, sparse_weights, info, view)
            counts[key] = np.concatenate((tally.compute_current_sums(view.trail), COUNT_WITHOUT_LABEL))
        return cls(sparse_weights, counts)

    def without_pods_overlooked_upstream(
        self, find_infos_with_terms: Callable[[], Bools], view: Fork
    ) -> TopologyCounts:
        """Return the counts without the pods that upstream overlooks during the cycle of a pod group.

        In such a cycle, upstream counts only pods on nodes that had pods with affinity terms when the cycle began.
        Outside of such a cycle, the counts are returned unchanged. `find_infos_with_terms` returns a mask (T,) of the
        pod infos with affinity terms.

        Upstream: AssumePod in pkg/scheduler/backend/cache/snapshot.go (v1.36).
        """
        if view.group_since is None or not self.counts:
            return self
        has_terms = find_infos_with_terms()

        # Find how many pods with terms each node had at the start of the cycle by undoing the moves since then. A
        # move has the sign 1 if it placed a pod, and -1 if it removed one, so that subtraction undoes both.
        rows, infos, signs = view.trail.list_moves_since(view.group_since).astype(np.int64)
        pods_with_terms_at_start = view.count_by_node(has_terms)
        np.subtract.at(pods_with_terms_at_start, rows, signs * has_terms[infos])

        # Undo only the moves on unlisted nodes in the counts.
        is_on_unlisted_node = pods_with_terms_at_start[rows] == 0
        ignored_rows = rows[is_on_unlisted_node]
        ignored_infos = infos[is_on_unlisted_node]
        ignored_signs = signs[is_on_unlisted_node]
        reduced_counts = {}
        for key, counts in self.counts.items():
            reduced_counts[key] = counts.copy()
            domains = view.nodes.label(key).codes[ignored_rows]
            ignored_weights = ignored_signs * self.weights[key][ignored_infos]
            has_label = domains >= 0
            np.subtract.at(reduced_counts[key], domains[has_label], ignored_weights[has_label])
        return TopologyCounts(self.weights, reduced_counts)

    @property
    def is_empty(self) -> bool:
        """True if no term is matched anywhere."""
        return not any(counts.any() for counts in self.counts.values())

    def get_domain_counts_by_node(self, key: str, view: Fork, delta: Delta) -> Counts:
        """Return, for each node, the count in its domain of the topology key, or 0 if the node lacks the label.

        Of the hypothetical changes in `delta`, a node's count includes only those on that node.
        """
        column = view.nodes.label(key)
        counts = column.map_to_nodes(self.counts[key])
        if delta:
            counts = np.where(column.present, counts + delta.sum_changes(self.weights[key], len(view.nodes)), 0)
        return counts

    def find_nodes_without_any_match(self, view: Fork, delta: Delta) -> Bools:
        """Return a mask (N,) of the nodes whose hypothetical changes leave no match in any domain.

        Each node's changes are considered separately. If there are no changes, the mask is all True or all False.
        """
        num_domains_with_match = sum(int((counts != 0).sum()) for counts in self.counts.values())
        remaining_domains = np.full(len(view.nodes), num_domains_with_match)
        if delta:
            # The changes of a node can only give or take the match of the node's own domains.
            for key in self.counts:
                had_match = view.nodes.label(key).map_to_nodes(self.counts[key]) != 0
                has_match = self.get_domain_counts_by_node(key, view, delta) != 0
                remaining_domains += has_match.astype(np.int64) - had_match
        is_empty: Bools = remaining_domains == 0
        return is_empty


class RunningCounts:
    """Counts of matched terms for identical pods, kept up to date as pods come and go."""

    def __init__(self, purpose: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]) -> None:
        sparse_weights = _get_cached_weights(purpose, info, view, weights)
        self._trail = view.trail
        self._tallies = [
            (view.nodes.label(key), _get_tally(purpose, key, sparse_weights, info, view)) for key in sparse_weights
        ]
        """The label column and the running count of each topology key."""

    @property
    def distinctions(self) -> list[Distinction]:
        """The topology domains and current counts by which nodes are distinguished, for each topology key."""
        return [
            Distinction(column, partial(tally.compute_current_sums, self._trail)) for column, tally in self._tallies
        ]

    def iter_counts(self, rows: Rows) -> Iterator[Counts]:
        """Yield, for each topology key, the count in the domain of each node in `rows`, 0 without the label."""
        return (distinction.get_domain_values(rows) for distinction in self.distinctions)

    def mask_rows_without_topology_label(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the nodes that lack the label of some topology key."""
        missing = np.zeros(len(rows), np.bool_)
        for column, _ in self._tallies:
            missing |= ~column.present[rows]
        return missing

    def mask_rows_in_matched_domains(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the nodes in whose topology domain any term matches a pod."""
        has_match = np.zeros(len(rows), np.bool_)
        for counts in self.iter_counts(rows):
            has_match |= counts > 0
        return has_match

    @property
    def is_empty(self) -> bool:
        """True if no term is matched anywhere."""
        return not any(tally.compute_current_sums(self._trail).any() for _, tally in self._tallies)


def _get_cached_weights(
    purpose: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]
) -> SparseWeights:
    """Return the weights in sparse form, cached for identical pods. The function `weights` computes missing ones."""
    return view.memo_of_pods((NAME, purpose), lambda: SparseWeights.from_weights(weights()), info)


def _get_tally(purpose: str, key: str, weights: Mapping[str, Weights], info: PodInfo, view: Fork) -> Tally:
    """Return the running count of matched terms in each domain of one topology key, shared by identical pods."""
    return view.get_or_build_tally((NAME, purpose, key), partial(weights.__getitem__, key), view.nodes.label(key), info)


Infos = Bools | int
"""Pod infos, as a mask (T,) or as one number."""


def find_terms_matching_pod(info: PodInfo, view: Fork, field: str) -> list[tuple[AffinityTerm, int]]:
    """Return the terms of running pods that match the incoming pod, each with the number of its pod info.

    `field` is the field of PodInfo with the terms, such as required_anti_affinity.
    """
    return view.pods.distinct.find_terms_matching(field, info, view.namespace_labels.get(info.namespace, {}))


def find_infos_matching_term(term: AffinityTerm, view: Fork) -> Bools:
    """Return a mask over the pod infos that match a term of the incoming pod.

    The term's namespaces must be resolved.
    """
    all_namespaces = term.namespace_selector.matches({})  # a resolved selector matches either all namespaces or none
    return view.pods.match_infos(term.selector, None if all_namespaces else term.namespaces)


def count_matches_per_key(matches: Iterable[tuple[AffinityTerm, Infos]], view: Fork) -> dict[str, Weights]:
    """Count the terms that match each pod info.

    The result maps a topology key to an array with one entry per pod info.
    """
    counts: dict[str, Weights] = {}
    for term, infos in matches:
        if term.topology_key not in counts:
            counts[term.topology_key] = np.zeros(len(view.pods.infos), np.int64)
        counts[term.topology_key][infos] += 1
    return counts


def count_each_match_per_key(terms: Iterable[AffinityTerm], view: Fork) -> dict[str, Weights]:
    """Return, by topology key, how many of the terms match each pod info. The terms' namespaces must be resolved."""
    return count_matches_per_key(((term, find_infos_matching_term(term, view)) for term in terms), view)


def count_terms_per_key_if_all_match(terms: tuple[AffinityTerm, ...], view: Fork) -> dict[str, Weights]:
    """Count, by topology key, the terms that match each pod info. Only pod infos that match all terms count.

    The arrays have one entry per pod info, 0 for all other pod infos. Without terms, the result is empty.
    """
    if not terms:
        return {}
    matches_all = np.logical_and.reduce([find_infos_matching_term(term, view) for term in terms])
    return count_matches_per_key(((term, matches_all) for term in terms), view)
