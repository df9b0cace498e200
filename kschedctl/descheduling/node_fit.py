"""The descheduler's check of whether a pod fits on other nodes, which covers less than kube-scheduler.

It covers cordons, the pod's node selector and required node affinity, taints, the pod's own anti-affinity to pods of
the node itself, and requests. Each rule is evaluated once for similar pods. Upstream: NodeFit in
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
    """A check of which nodes the pods of a round fit on. It is valid as long as no pod moves.

    ``placed`` are the pods that occupy the nodes, if they are others than the pods that are checked.
    """

    def __init__(self, seen: SeenPods, placed: SeenPods | None = None) -> None:
        self._seen, self._view = seen, seen.view
        self._placed = placed or seen
        self._fitting_by_info: dict[int, Bools] = {}
        self._affinity_nodes_by_info: dict[int, Bools] = {}

    def find_fitting_elsewhere(self, positions: Rows, allowed: Bools) -> Bools:
        """Return a mask of the pods at these positions that fit on an allowed node other than their own.

        ``allowed`` is an (N,) mask of the allowed nodes.
        """
        fits_elsewhere = np.zeros(len(positions), np.bool_)
        info_numbers, rows = self._seen.info[positions], self._view.node[positions]
        for info_number in np.unique(info_numbers).tolist():
            has_info = info_numbers == info_number
            fitting_nodes = self._find_fitting_nodes(info_number) & allowed
            fits_own_node = fitting_nodes[rows[has_info]] & (rows[has_info] >= 0)
            fits_elsewhere[has_info] = np.count_nonzero(fitting_nodes) - fits_own_node > 0
        return fits_elsewhere

    def find_fitting_anywhere(self, positions: Rows, allowed: Bools) -> Bools:
        """Return a mask of the pods at these positions that fit on an allowed node, including their own.

        ``allowed`` is an (N,) mask of the allowed nodes.
        """
        fits = self.find_fitting_elsewhere(positions, allowed)
        rows = self._view.node[positions]
        for index in np.flatnonzero(~fits & allowed[rows] & (rows >= 0)).tolist():
            fits[index] = self._fits_own_node(Position(int(positions[index])))
        return fits

    def find_affinity_nodes(self, info_number: int) -> Bools:
        """Return the nodes that an info's node selector and required node affinity allow, as an (N,) mask."""
        if info_number not in self._affinity_nodes_by_info:
            required = compile_required_node_affinity(self._seen.infos[info_number].spec)
            self._affinity_nodes_by_info[info_number] = match_required_affinity(self._view.nodes, required)
        return self._affinity_nodes_by_info[info_number]

    def find_permitted_nodes(self, info_number: int) -> Bools:
        """Return the nodes, shape (N,), that match the pod's node affinity and whose taints it tolerates."""
        tolerations = self._seen.infos[info_number].spec.tolerations
        return self.find_affinity_nodes(info_number) & match_tolerations(
            self._view.nodes, tolerations, comparison_operators=True
        )

    def _find_fitting_nodes(self, info_number: int) -> Bools:
        """Return the nodes on which pods of an info fit if they come from elsewhere, as an (N,) mask."""
        if info_number not in self._fitting_by_info:
            fits = (
                self.find_permitted_nodes(info_number)
                & ~self._view.nodes.unschedulable
                & self._find_nodes_with_room(info_number)
            )
            for has_label, counts in self._count_repelling_pods(info_number):
                fits &= ~(has_label & (counts > 0))
            self._fitting_by_info[info_number] = fits
        return self._fitting_by_info[info_number]

    def _fits_own_node(self, position: Position) -> bool:
        """Return whether a pod fits on its own node, disregarding requests and its anti-affinity to itself."""
        info_number, row = int(self._seen.info[position]), int(self._view.node[position])
        if self._view.nodes.unschedulable[row] or not self.find_permitted_nodes(info_number)[row]:
            return False
        pod = self._seen.infos[info_number].pod
        repelling_counts = self._count_repelling_pods(info_number)
        for (has_label, counts), (term, selector) in zip(
            repelling_counts, _parse_anti_affinity_terms(pod), strict=True
        ):
            other_pods = counts[row] - _matches_own_pod(term, pod, selector)
            if has_label[row] and other_pods > 0:
                return False
        return True

    def _find_nodes_with_room(self, info_number: int) -> Bools:
        """Return the nodes with enough free resources for an info's requests, as an (N,) mask."""
        columns = self._placed.view.resources
        requests = self._seen.infos[info_number].requests
        if any(name not in columns for name in requests):
            return np.zeros(len(self._view.nodes), np.bool_)
        requested_columns = [columns[name] for name in requests]
        has_room = (np.array([*requests.values()]) <= self._free[:, requested_columns]).all(axis=1)
        return has_room & (self._free[:, columns[PODS]] > 0)

    @cached_property
    def _free(self) -> Counts:
        """The free resources of each node, (N, R)."""
        return self._placed.view.allocatable - self._placed.view.requested

    def _count_repelling_pods(self, info_number: int) -> list[tuple[Bools, Counts]]:
        """Count the pods on each node that match each anti-affinity term of an info.

        The result for each term is a mask of the nodes with its topology label and the number of matching pods, both
        (N,).
        """
        pod = self._seen.infos[info_number].pod
        nodes = self._view.nodes
        return [
            (
                nodes.label(term.topology_key).present,
                self._placed.view.count_by_node(match_infos(self._placed, term, pod, selector)),
            )
            for term, selector in _parse_anti_affinity_terms(pod)
        ]


def _parse_anti_affinity_terms(pod: Pod) -> list[tuple[PodAffinityTerm, Selector]]:
    """Parse a pod's required anti-affinity terms. Return them with their selectors, up to the first invalid term."""
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
    """Return the namespaces that a term names, or else the pod's own. Namespace selectors are ignored as upstream."""
    return frozenset(term.namespaces or (pod.metadata.namespace,))


def match_infos(seen: SeenPods, term: PodAffinityTerm, pod: Pod, selector: Selector) -> Bools:
    """Return a (T,) mask of the infos with pods that an affinity term of ``pod`` matches."""
    return seen.view.pods.matching(selector, find_term_namespaces(term, pod))


def _matches_own_pod(term: PodAffinityTerm, pod: Pod, selector: Selector) -> bool:
    """Return whether a term of the pod matches the pod itself."""
    return pod.metadata.namespace in find_term_namespaces(term, pod) and selector.matches(pod.metadata.labels)
