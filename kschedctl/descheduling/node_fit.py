"""Whether a pod would fit on other nodes, as far as the descheduler looks: less than kube-scheduler does.

Cordons, the pod's node selector and required node affinity, taints, its own anti-affinity to pods of the very node, and
what is requested. Each rule is judged once for pods alike. Upstream: NodeFit in pkg/descheduler/node/node.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Position, Rows
from kschedctl.api.labels import Selector, SelectorError, selector_from_api
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Pod, PodAffinityTerm
from kschedctl.api.resource_names import PODS
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.snapshot.node_masks import find_tolerated, match_required_affinity


class NodeFit:
    """Answers about the pods of a round, of which none moves meanwhile. ``there``: those that hold something."""

    def __init__(self, seen: SeenPods, there: SeenPods | None = None) -> None:
        self._seen, self._view = seen, seen.view
        self._there = there or seen
        self._elsewhere: dict[int, Bools] = {}
        self._allowed: dict[int, Bools] = {}

    def any_other(self, positions: Rows, among: Bools) -> Bools:
        """Whether each of the pods fits on one of the nodes ``among`` (N,) that it is not on."""
        answers = np.zeros(len(positions), np.bool_)
        numbers, node = self._seen.info[positions], self._view.node[positions]
        for number in np.unique(numbers).tolist():
            alike = numbers == number
            fits = self._fits(number) & among
            own = fits[node[alike]] & (node[alike] >= 0)
            answers[alike] = np.count_nonzero(fits) - own > 0
        return answers

    def anywhere(self, positions: Rows, among: Bools) -> Bools:
        """Whether each of the pods fits on one of the nodes, that on which it is counted too."""
        answers = self.any_other(positions, among)
        node = self._view.node[positions]
        for place in np.flatnonzero(~answers & among[node] & (node >= 0)).tolist():
            answers[place] = self._stays(Position(int(positions[place])))
        return answers

    def allowed(self, number: int) -> Bools:
        """(N,): the nodes that the node selector and the required node affinity of an info allow."""
        if number not in self._allowed:
            required = compile_required_node_affinity(self._seen.infos[number].spec)
            self._allowed[number] = match_required_affinity(self._view.nodes, required)
        return self._allowed[number]

    def permitted(self, number: int) -> Bools:
        """(N,): of these the ones of which it tolerates the taints that repel pods."""
        tolerations = self._seen.infos[number].spec.tolerations
        return self.allowed(number) & find_tolerated(self._view.nodes, tolerations, comparison_operators=True)

    def _fits(self, number: int) -> Bools:
        """(N,): the nodes where a pod of an info would fit if it came from elsewhere."""
        if number not in self._elsewhere:
            fits = self.permitted(number) & ~self._view.nodes.unschedulable & self._has_room(number)
            for at, counts in self._repelled(number):
                fits &= ~(at & (counts > 0))
            self._elsewhere[number] = fits
        return self._elsewhere[number]

    def _stays(self, position: Position) -> bool:
        """Whether a pod fits on the node that it is on, where its requests are not asked about."""
        number, row = int(self._seen.info[position]), int(self._view.node[position])
        if self._view.nodes.unschedulable[row] or not self.permitted(number)[row]:
            return False
        pod = self._seen.infos[number].pod
        own = [_is_about(term, pod, selector) for term, selector in _terms(pod)]
        repelled = self._repelled(number)
        return not any(at[row] and counts[row] - itself > 0 for (at, counts), itself in zip(repelled, own, strict=True))

    def _has_room(self, number: int) -> Bools:
        """(N,): the nodes that have enough left of all that it requests."""
        columns, asked = self._there.view.resources, self._seen.infos[number].requests
        if any(name not in columns for name in asked):
            return np.zeros(len(self._view.nodes), np.bool_)
        room = (np.array([*asked.values()]) <= self._left[:, [columns[name] for name in asked]]).all(axis=1)
        return room & (self._left[:, columns[PODS]] > 0)

    @cached_property
    def _left(self) -> Counts:
        return self._there.view.allocatable - self._there.view.requested

    def _repelled(self, number: int) -> list[tuple[Bools, Counts]]:
        """For each term of its required anti-affinity the nodes with the topology's label, and how many pods of each
        it is about, all (N,).
        """
        pod, nodes = self._seen.infos[number].pod, self._view.nodes
        return [
            (
                nodes.label(term.topology_key).present,
                self._there.view.count_by_node(selected(self._there, term, pod, selector)),
            )
            for term, selector in _terms(pod)
        ]


def _terms(pod: Pod) -> list[tuple[PodAffinityTerm, Selector]]:
    """The required anti-affinity of a pod up to the first term that cannot be read."""
    known = []
    for term in anti_affinity_terms(pod):
        try:
            known.append((term, selector_from_api(term.label_selector)))
        except SelectorError:
            break
    return known


def anti_affinity_terms(pod: Pod) -> Iterable[PodAffinityTerm]:
    affinity = pod.spec.affinity
    against = affinity.pod_anti_affinity if affinity else None
    return against.required_during_scheduling_ignored_during_execution if against else ()


def namespaces_of(term: PodAffinityTerm, pod: Pod) -> frozenset[str]:
    """Those that a term names, else the pod's own: the descheduler reads no namespace selector."""
    return frozenset(term.namespaces or (pod.metadata.namespace,))


def selected(seen: SeenPods, term: PodAffinityTerm, pod: Pod, selector: Selector) -> Bools:
    """(T,): the infos of the pods that a term of a pod is about."""
    return seen.view.pods.matching(selector, namespaces_of(term, pod))


def _is_about(term: PodAffinityTerm, pod: Pod, selector: Selector) -> bool:
    return pod.metadata.namespace in namespaces_of(term, pod) and selector.matches(pod.metadata.labels)
