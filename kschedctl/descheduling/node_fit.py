"""The descheduler's check whether a pod fits on other nodes, which covers less than kube-scheduler.

It covers cordons, the pod's node selector and required node affinity, taints, the pod's own anti-affinity to pods of
the node itself, and requests. Each rule is evaluated once for alike pods. Upstream: NodeFit in
pkg/descheduler/node/node.go.
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
from kschedctl.snapshot.nodes import match_required_affinity, match_tolerations


class NodeFit:
    """Answers whether pods of a round fit on nodes; no pod moves meanwhile."""

    def __init__(self, seen: SeenPods, placed: SeenPods | None = None) -> None:
        self._seen, self._view = seen, seen.view
        self._placed = placed or seen
        self._fitting_by_info: dict[int, Bools] = {}
        self._affinity_nodes_by_info: dict[int, Bools] = {}

    def fits_elsewhere(self, positions: Rows, among: Bools) -> Bools:
        """Return whether each of the pods fits on one of the nodes ``among`` (N,) other than its own."""
        answers = np.zeros(len(positions), np.bool_)
        numbers, node = self._seen.info[positions], self._view.node[positions]
        for info_number in np.unique(numbers).tolist():
            of_info = numbers == info_number
            fits = self._find_fitting_nodes(info_number) & among
            fits_own = fits[node[of_info]] & (node[of_info] >= 0)
            answers[of_info] = np.count_nonzero(fits) - fits_own > 0
        return answers

    def fits_anywhere(self, positions: Rows, among: Bools) -> Bools:
        """Return whether each of the pods fits on one of the nodes ``among`` (N,), including its own."""
        answers = self.fits_elsewhere(positions, among)
        node = self._view.node[positions]
        for index in np.flatnonzero(~answers & among[node] & (node >= 0)).tolist():
            answers[index] = self._fits_own_node(Position(int(positions[index])))
        return answers

    def find_affinity_nodes(self, info_number: int) -> Bools:
        """Return a mask (N,) of the nodes that node selector and required node affinity of an info allow."""
        if info_number not in self._affinity_nodes_by_info:
            required = compile_required_node_affinity(self._seen.infos[info_number].spec)
            self._affinity_nodes_by_info[info_number] = match_required_affinity(self._view.nodes, required)
        return self._affinity_nodes_by_info[info_number]

    def find_permitted_nodes(self, info_number: int) -> Bools:
        """Return a mask (N,) of the nodes that an info's node affinity allows and whose taints it tolerates."""
        tolerations = self._seen.infos[info_number].spec.tolerations
        return self.find_affinity_nodes(info_number) & match_tolerations(
            self._view.nodes, tolerations, comparison_operators=True
        )

    def _find_fitting_nodes(self, info_number: int) -> Bools:
        """Return a mask (N,) of the nodes where a pod of an info that comes from elsewhere fits."""
        if info_number not in self._fitting_by_info:
            fits = (
                self.find_permitted_nodes(info_number) & ~self._view.nodes.unschedulable & self._has_room(info_number)
            )
            for has_label, counts in self._count_repelling(info_number):
                fits &= ~(has_label & (counts > 0))
            self._fitting_by_info[info_number] = fits
        return self._fitting_by_info[info_number]

    def _fits_own_node(self, position: Position) -> bool:
        """Return whether a pod fits on its own node, where requests are not checked."""
        info_number, row = int(self._seen.info[position]), int(self._view.node[position])
        if self._view.nodes.unschedulable[row] or not self.find_permitted_nodes(info_number)[row]:
            return False
        pod = self._seen.infos[info_number].pod
        matches_itself = [_matches_pod(term, pod, selector) for term, selector in _parse_terms(pod)]
        repelled = self._count_repelling(info_number)
        return not any(
            has_label[row] and counts[row] - is_self > 0
            for (has_label, counts), is_self in zip(repelled, matches_itself, strict=True)
        )

    def _has_room(self, info_number: int) -> Bools:
        """Return a mask (N,) of the nodes with enough free resources for an info's requests."""
        columns, requests = self._placed.view.resources, self._seen.infos[info_number].requests
        if any(name not in columns for name in requests):
            return np.zeros(len(self._view.nodes), np.bool_)
        room = (np.array([*requests.values()]) <= self._free[:, [columns[name] for name in requests]]).all(axis=1)
        return room & (self._free[:, columns[PODS]] > 0)

    @cached_property
    def _free(self) -> Counts:
        """Return the free resources of each node."""
        return self._placed.view.allocatable - self._placed.view.requested

    def _count_repelling(self, info_number: int) -> list[tuple[Bools, Counts]]:
        """Return, for each anti-affinity term, nodes with its label (N,) and pods that it matches on each (N,)."""
        pod, nodes = self._seen.infos[info_number].pod, self._view.nodes
        return [
            (
                nodes.label(term.topology_key).present,
                self._placed.view.count_by_node(match_infos(self._placed, term, pod, selector)),
            )
            for term, selector in _parse_terms(pod)
        ]


def _parse_terms(pod: Pod) -> list[tuple[PodAffinityTerm, Selector]]:
    """Return the required anti-affinity terms of a pod up to the first invalid one."""
    terms = []
    for term in get_anti_affinity_terms(pod):
        try:
            terms.append((term, selector_from_api(term.label_selector)))
        except SelectorError:
            break
    return terms


def get_anti_affinity_terms(pod: Pod) -> Iterable[PodAffinityTerm]:
    """Return the required anti-affinity terms of a pod."""
    affinity = pod.spec.affinity
    anti_affinity = affinity.pod_anti_affinity if affinity else None
    return anti_affinity.required_during_scheduling_ignored_during_execution if anti_affinity else ()


def find_term_namespaces(term: PodAffinityTerm, pod: Pod) -> frozenset[str]:
    """Return the namespaces that a term names, else the pod's own. The descheduler ignores namespace selectors."""
    return frozenset(term.namespaces or (pod.metadata.namespace,))


def match_infos(seen: SeenPods, term: PodAffinityTerm, pod: Pod, selector: Selector) -> Bools:
    """Return a mask (T,) of the infos whose pods a term of a pod matches."""
    return seen.view.pods.matching(selector, find_term_namespaces(term, pod))


def _matches_pod(term: PodAffinityTerm, pod: Pod, selector: Selector) -> bool:
    """Return whether a term matches its own pod."""
    return pod.metadata.namespace in find_term_namespaces(term, pod) and selector.matches(pod.metadata.labels)
