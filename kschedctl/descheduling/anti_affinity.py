"""Pods that share a domain with others which their own required anti-affinity keeps away.

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
from kschedctl.descheduling.node_fit import anti_affinity_terms, selected
from kschedctl.descheduling.plugin import DeschedulerPlugin


class RepellingTerm:
    """How many of the pods of a term share a domain with each node. ``itself``: the term is about its own pod, too."""

    def __init__(self, about: Bools, domains: Rows, number: int) -> None:
        self.about, self.itself = about, bool(about[number])
        self._domains = domains
        self._counts: Counts = np.zeros(int(domains.max(initial=-1)) + 1, np.int64)

    def count(self, infos: Rows, rows: Rows | Ints, step: int = 1) -> None:
        """Pods of these infos on these rows come, or go."""
        np.add.at(self._counts, self._domains[rows[self.about[infos]]], step)

    def others(self, row: int) -> int:
        return int(self._counts[self._domains[row]]) - self.itself


class RemovePodsViolatingInterPodAntiAffinity(DeschedulerPlugin[RemovePodsViolatingInterPodAntiAffinityArgs]):
    """One pod after the other goes until none is left that another repels."""

    name = "RemovePodsViolatingInterPodAntiAffinity"

    def run(self) -> None:
        self.evict_node_by_node(self._repelled())

    def _repelled(self) -> Iterator[int]:
        """The pods that others repel as they are asked for: who has gone since repels nobody."""
        for position in self._candidates().tolist():
            row, number = int(self.view.node[position]), int(self.seen.info[position])
            if any(term.others(row) > 0 for term in self._terms(number)):
                yield position
                if self.seen.evicted[position]:
                    self._goes(position)

    def _candidates(self) -> Rows:
        """By node, on each as evictions go."""
        having = self.seen.where(lambda pod: bool(anti_affinity_terms(pod)))
        positions = self.seen.by_priority(self.evictable(having & self._selected))
        return positions[np.argsort(self.view.node[positions], kind="stable")]

    @cached_property
    def _selected(self) -> Bools:
        """(T,): the infos of pods that the plugin looks at, who alone repel and are repelled."""
        return self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)

    @cached_property
    def _counted(self) -> Rows:
        """The positions of these pods on nodes that count."""
        there = self.seen.on_ready & self._selected[self.seen.info] & ~self.seen.evicted
        return np.flatnonzero(there)

    @cached_property
    def _known(self) -> dict[int, list[RepellingTerm]]:
        return {}

    def _terms(self, number: int) -> list[RepellingTerm]:
        if number not in self._known:
            self._known[number] = list(self._terms_of(number))
        return self._known[number]

    def _terms_of(self, number: int) -> Iterator[RepellingTerm]:
        """Up to the first that cannot be read."""
        pod, nodes = self.seen.infos[number].pod, self.view.nodes
        there = self._counted[~self.seen.evicted[self._counted]]
        for affinity_term in anti_affinity_terms(pod):
            try:
                about = selected(self.seen, affinity_term, pod, selector_from_api(affinity_term.label_selector))
            except SelectorError:
                return
            codes = nodes.label(affinity_term.topology_key).codes.astype(np.int64)
            alone = codes.max(initial=-1) + 1 + np.arange(len(codes))  # a node without the label is a domain of its own
            term = RepellingTerm(about, np.where(codes < 0, alone, codes), number)
            term.count(self.seen.info[there], self.view.node[there])
            yield term

    def _goes(self, position: int) -> None:
        info, row = self.seen.info[[position]], self.view.node[[position]]
        for term in (term for terms in self._known.values() for term in terms):
            term.count(info, row, -1)
