"""The descheduler plugin RemovePodsViolatingInterPodAntiAffinity.

Upstream: pkg/framework/plugins/removepodsviolatinginterpodantiaffinity, and CheckPodsWithAntiAffinityExist in
pkg/utils/predicates.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Ints, Rows
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.descheduling.arguments import RemovePodsViolatingInterPodAntiAffinityArgs
from kschedctl.descheduling.node_fit import find_infos_matching_term, get_anti_affinity_terms
from kschedctl.descheduling.plugin import DeschedulerPlugin


class RepellingTerm:
    """A required anti-affinity term, with the number of matching pods in the domain of each node."""

    def __init__(self, matching: Bools, domains: Rows, info_number: int) -> None:
        self.matching = matching
        self.matches_itself = bool(matching[info_number])
        self._domains = domains
        self._counts: Counts = np.zeros(int(domains.max(initial=-1)) + 1, np.int64)

    def add_to_counts(self, info_numbers: Rows, rows: Rows | Ints, step: int = 1) -> None:
        """Add ``step`` to the domain's count for each pod that matches the term.

        The pods are given by the numbers of their PodInfos and the rows of their nodes.
        """
        matches = self.matching[info_numbers]
        np.add.at(self._counts, self._domains[rows[matches]], step)

    def count_other_pods(self, row: int) -> int:
        """Return how many pods other than the term's own pod the term matches in the domain of the node in a row."""
        return int(self._counts[self._domains[row]]) - self.matches_itself


class RemovePodsViolatingInterPodAntiAffinity(DeschedulerPlugin[RemovePodsViolatingInterPodAntiAffinityArgs]):
    """A plugin that evicts pods one by one until no pod is repelled by another one."""

    name = "RemovePodsViolatingInterPodAntiAffinity"

    def run(self) -> None:
        """Evict the pods that other pods repel, node by node."""
        self.evict_node_by_node(self._iter_repelled_pods())

    def _iter_repelled_pods(self) -> Iterator[int]:
        """Yield the positions of pods that other pods repel. Pods that the caller evicts in between no longer count."""
        for position in self._find_eviction_candidates().tolist():
            row = int(self.view.node[position])
            info_number = int(self.seen.info[position])
            if any(term.count_other_pods(row) > 0 for term in self._get_repelling_terms(info_number)):
                yield position
                # the caller may have evicted the pod before it requested the next one
                if self.seen.evicted[position]:
                    self._remove_pod_from_counts(position)

    def _find_eviction_candidates(self) -> Rows:
        """Return the positions of the evictable pods with required anti-affinity, sorted by node, then by priority."""
        has_terms = self.seen.select_infos(lambda pod: bool(get_anti_affinity_terms(pod)))
        positions = self.seen.sort_positions_by_priority(self.find_evictable_pods(has_terms & self._selected_infos))
        return positions[np.argsort(self.view.node[positions], kind="stable")]

    @cached_property
    def _selected_infos(self) -> Bools:
        """The PodInfos that the plugin considers, as a (T,) mask. Only their pods repel and are repelled."""
        return self.seen.select_matching_infos(self.arguments.namespaces, self.arguments.label_selector)

    @cached_property
    def _counted_positions(self) -> Rows:
        """The positions of the considered pods on ready nodes that had not been evicted at the first access."""
        is_counted = self.seen.on_ready_nodes & self._selected_infos[self.seen.info] & ~self.seen.evicted
        return np.flatnonzero(is_counted)

    @cached_property
    def _terms_by_info(self) -> dict[int, list[RepellingTerm]]:
        """The cache of ``_get_repelling_terms``: the terms of the pods of each PodInfo, by the PodInfo's number."""
        return {}

    def _get_repelling_terms(self, info_number: int) -> list[RepellingTerm]:
        """Return the required anti-affinity terms of a PodInfo, with up-to-date counts. They are built on first use."""
        if info_number not in self._terms_by_info:
            self._terms_by_info[info_number] = list(self._iter_repelling_terms(info_number))
        return self._terms_by_info[info_number]

    def _iter_repelling_terms(self, info_number: int) -> Iterator[RepellingTerm]:
        """Yield the required anti-affinity terms of a PodInfo, with the number of matching pods in each domain.

        Stop at the first term with an invalid selector. Evicted pods are not counted. A node without the topology label
        forms its own domain.
        """
        pod = self.seen.infos[info_number].pod
        nodes = self.view.nodes
        remaining = self._counted_positions[~self.seen.evicted[self._counted_positions]]
        for affinity_term in get_anti_affinity_terms(pod):
            try:
                selector = selector_from_api(affinity_term.label_selector)
            except SelectorError:
                return
            matching = find_infos_matching_term(self.seen, affinity_term, pod, selector)
            codes = nodes.label(affinity_term.topology_key).codes.astype(np.int64)
            # Nodes without the label get codes above the codes of the label's values, a different code for each node.
            single_node_domains = codes.max(initial=-1) + 1 + np.arange(len(codes))
            term = RepellingTerm(matching, np.where(codes < 0, single_node_domains, codes), info_number)
            term.add_to_counts(self.seen.info[remaining], self.view.node[remaining])
            yield term

    def _remove_pod_from_counts(self, position: int) -> None:
        """Remove an evicted pod from the counts of all terms."""
        info_numbers, rows = self.seen.info[[position]], self.view.node[[position]]
        for terms in self._terms_by_info.values():
            for term in terms:
                term.add_to_counts(info_numbers, rows, -1)
