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
from kschedctl.snapshot.nodes import match_tolerations


class NodeFit:
    """A check of which nodes the pods of a round fit on. It is valid as long as no pod moves.

    ``placed`` are the pods that occupy the nodes. By default, these are the pods that are checked.
    """

    def __init__(self, seen: SeenPods, placed: SeenPods | None = None) -> None:
        self._seen, self._view = seen, seen.view
        self._placed = placed or seen
        self._fitting_by_info: dict[int, Bools] = {}
        self._affinity_nodes_by_info: dict[int, Bools] = {}

    def find_pods_fitting_elsewhere(self, positions: Rows, allowed: Bools) -> Bools:
        """Return a mask of the pods at these positions that fit on an allowed node other than their own node.

        ``allowed`` is an (N,) mask. The result has one element per position.
        """
        fits_elsewhere = np.zeros(len(positions), np.bool_)
        info_numbers, rows = self._seen.info[positions], self._view.node[positions]
        for info_number in np.unique(info_numbers).tolist():
            fitting_nodes = self._find_fitting_nodes(info_number) & allowed
            has_info = info_numbers == info_number
            own_rows = rows[has_info]
            # A pod without a node has the row -1
            own_node_is_fitting = fitting_nodes[own_rows] & (own_rows >= 0)
            fits_elsewhere[has_info] = np.count_nonzero(fitting_nodes) - own_node_is_fitting > 0
        return fits_elsewhere

    def find_pods_fitting_anywhere(self, positions: Rows, allowed: Bools) -> Bools:
        """Return a mask of the pods at these positions that fit on an allowed node, which may be their own node.

        ``allowed`` is an (N,) mask. The result has one element per position.
        """
        fits = self.find_pods_fitting_elsewhere(positions, allowed)
        rows = self._view.node[positions]
        is_on_allowed_node = allowed[rows] & (rows >= 0)
        for index in np.flatnonzero(~fits & is_on_allowed_node).tolist():
            fits[index] = self._fits_own_node(Position(int(positions[index])))
        return fits

    def find_affinity_nodes(self, info_number: int) -> Bools:
        """Return an (N,) mask of the nodes that the node selector and required node affinity of a PodInfo allow.

        Masks are cached.
        """
        if info_number not in self._affinity_nodes_by_info:
            required = compile_required_node_affinity(self._seen.infos[info_number].spec)
            self._affinity_nodes_by_info[info_number] = self._view.nodes.match_required_affinity(required)
        return self._affinity_nodes_by_info[info_number]

    def find_nodes_by_affinity_and_taints(self, info_number: int) -> Bools:
        """Return an (N,) mask of the nodes that match a PodInfo's node affinity and tolerations."""
        tolerations = self._seen.infos[info_number].spec.tolerations
        is_tolerated = match_tolerations(self._view.nodes, tolerations, comparison_operators=True)
        return self.find_affinity_nodes(info_number) & is_tolerated

    def _find_fitting_nodes(self, info_number: int) -> Bools:
        """Return an (N,) mask of the nodes that would accept a pod of a PodInfo from another node. Masks are cached."""
        if info_number not in self._fitting_by_info:
            fits = (
                self.find_nodes_by_affinity_and_taints(info_number)
                & ~self._view.nodes.unschedulable
                & self._find_nodes_with_room(info_number)
            )
            for has_label, counts in self._count_repelling_pods(info_number):
                fits &= ~(has_label & (counts > 0))
            self._fitting_by_info[info_number] = fits
        return self._fitting_by_info[info_number]

    def _fits_own_node(self, position: Position) -> bool:
        """Return whether a pod fits on its current node, which already has room for its requests.

        The pod does not repel itself by its own anti-affinity.
        """
        info_number, row = int(self._seen.info[position]), int(self._view.node[position])
        if self._view.nodes.unschedulable[row] or not self.find_nodes_by_affinity_and_taints(info_number)[row]:
            return False
        pod = self._seen.infos[info_number].pod
        repelling_counts = self._count_repelling_pods(info_number)
        terms = _parse_anti_affinity_terms(pod)
        for (has_label, counts), (term, selector) in zip(repelling_counts, terms, strict=True):
            other_pods = counts[row] - _matches_own_pod(term, pod, selector)
            if has_label[row] and other_pods > 0:
                return False
        return True

    def _find_nodes_with_room(self, info_number: int) -> Bools:
        """Return an (N,) mask of the nodes with enough free resources for the requests of a PodInfo."""
        columns = self._placed.view.resources
        requests = self._seen.infos[info_number].requests
        if any(name not in columns for name in requests):  # no node offers the resource
            return np.zeros(len(self._view.nodes), np.bool_)
        requested_columns = [columns[name] for name in requests]
        has_room = (np.array([*requests.values()]) <= self._free_resources[:, requested_columns]).all(axis=1)
        return has_room & (self._free_resources[:, columns[PODS]] > 0)

    @cached_property
    def _free_resources(self) -> Counts:
        """The allocatable resources minus the requests of pods on each node, (N, R)."""
        return self._placed.view.allocatable - self._placed.view.requested

    def _count_repelling_pods(self, info_number: int) -> list[tuple[Bools, Counts]]:
        """Count the pods on each node that match each required anti-affinity term of a PodInfo.

        The result has two arrays (N,) per term: a mask of the nodes with the topology label, and the number of matching
        pods on each node.
        """
        pod = self._seen.infos[info_number].pod
        repelling_counts = []
        for term, selector in _parse_anti_affinity_terms(pod):
            has_label = self._view.nodes.label(term.topology_key).present
            matching_infos = find_infos_matching_term(self._placed, term, pod, selector)
            repelling_counts.append((has_label, self._placed.view.count_by_node(matching_infos)))
        return repelling_counts


def _parse_anti_affinity_terms(pod: Pod) -> list[tuple[PodAffinityTerm, Selector]]:
    """Return a pod's required anti-affinity terms with their parsed selectors, up to the first invalid term."""
    terms = []
    for term in get_anti_affinity_terms(pod):
        try:
            terms.append((term, selector_from_api(term.label_selector)))
        except SelectorError:  # as upstream, which gives up on the pod's terms at the first error
            break
    return terms


def get_anti_affinity_terms(pod: Pod) -> Iterable[PodAffinityTerm]:
    """Return the required anti-affinity terms of a pod, or () if it has none."""
    affinity = pod.spec.affinity
    anti_affinity = affinity.pod_anti_affinity if affinity else None
    return anti_affinity.required_during_scheduling_ignored_during_execution if anti_affinity else ()


def find_term_namespaces(term: PodAffinityTerm, pod: Pod) -> frozenset[str]:
    """Return the namespaces listed in a pod's affinity term, or the pod's own namespace if it lists none.

    As in upstream, namespace selectors are ignored.
    """
    return frozenset(term.namespaces or (pod.metadata.namespace,))


def find_infos_matching_term(seen: SeenPods, term: PodAffinityTerm, pod: Pod, selector: Selector) -> Bools:
    """Return a (T,) mask of the PodInfos with pods that an affinity term of ``pod``, with this selector, matches."""
    return seen.view.pods.match_infos(selector, find_term_namespaces(term, pod))


def _matches_own_pod(term: PodAffinityTerm, pod: Pod, selector: Selector) -> bool:
    """Return whether a term of the pod matches the pod itself."""
    return pod.metadata.namespace in find_term_namespaces(term, pod) and selector.matches(pod.metadata.labels)
