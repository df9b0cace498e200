"""Filtering by required affinity and anti-affinity terms, and the facts behind the rejections.

Upstream: plugins/interpodaffinity/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Rows, find_distinct
from kschedctl.api.labels import Selector
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.facts import CauseScope, Fact, TopologyLabelMissing
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import (
    RunningCounts,
    TopologyCounts,
    find_infos_matching_term,
    find_terms_matching_pod,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo
from kschedctl.text.counts import agreeing, counted, first_few


class NoPodToJoin(Fact, frozen=True):
    """A term of pod affinity that selects no pod in the node's domain."""

    selector: str | None
    """The labelSelector. An empty one selects all pods. None (no labelSelector) selects no pod."""
    key: str
    domain: str
    namespaces: tuple[str, ...] = ()
    """The namespaces in which the term looks for pods, if it selects none in any domain; otherwise empty."""
    other_namespaces: tuple[str, ...] = ()
    """Namespaces in which the term does not look and in which pods with these labels run, if it selects no pod."""

    @property
    def is_same_on_all_nodes(self) -> bool:
        """True if the term selects no pod in any domain."""
        return bool(self.namespaces)  # set only in this case

    def describe(self) -> str:
        """Say which pods are missing, in the node's domain or in the term's namespaces.

        >>> NoPodToJoin("app=db", "zone", "a").describe(), NoPodToJoin("", "zone", "a").describe()
        ('no pod in zone=a matches app=db', 'no pod runs in zone=a')
        >>> NoPodToJoin("app=db", "zone", "a", ("web",), ("shop",)).describe()
        'no pod in namespace web matches app=db (pods in namespace shop do, but the term does not look there)'
        >>> NoPodToJoin(None, "zone", "a").describe()
        'a term without labelSelector matches no pod'
        """
        if self.selector is None:
            return "a term without labelSelector matches no pod"
        place = _describe_namespaces(self.namespaces) if self.namespaces else f"{self.key}={self.domain}"
        missing = f"no pod in {place} matches {self.selector}" if self.selector else f"no pod runs in {place}"
        if not self.other_namespaces:
            return missing
        other_namespaces = _describe_namespaces(self.other_namespaces)
        return f"{missing} (pods in {other_namespaces} do, but the term does not look there)"


def _describe_namespaces(namespaces: Sequence[str]) -> str:
    """Describe namespaces by their names.

    >>> _describe_namespaces(["a"]), _describe_namespaces(["a", "b"])
    ('namespace a', 'namespaces a, b')
    """
    return f"{agreeing(len(namespaces), 'namespace', 'namespaces')} {first_few(namespaces)}"


class NoPodForAllTerms(Fact, frozen=True):
    """A domain in which each affinity term selects some pod, but no pod is selected by all terms."""

    def describe(self) -> str:
        """Say that no pod matches all terms."""
        return "no single pod in the node's topology domains matches all affinity terms"


class PodInTheWay(Fact, frozen=True):
    """A pod in the node's domain from which anti-affinity keeps the incoming pod away.

    All fields are empty if only a nominated pod is in the way.
    """

    pod: str = ""
    others: int = 0
    """The number of further such pods in the domain."""
    key: str = ""
    domain: str = ""
    selector: str = ""
    """The labelSelector of the anti-affinity term, empty if the term selects all pods."""
    of_existing_pod: bool = False
    """True if the term belongs to the existing pod, not to the incoming pod."""

    def describe(self) -> str:
        """Describe the pods in the way and the anti-affinity term that rejects the node.

        >>> print(PodInTheWay("shop/web", 2, "zone", "a", "app=db", of_existing_pod=True).describe())
        the anti-affinity of shop/web and 2 more pods in zone=a keeps out pods matching app=db
        >>> PodInTheWay("shop/web", 0, "zone", "a", "app=web").describe()
        "the pod's anti-affinity to app=web keeps it away from shop/web in zone=a"
        >>> PodInTheWay().describe()
        'a nominated pod is in the same topology'
        """
        if not self.pod:
            return "a nominated pod is in the same topology"
        pods = self._describe_pods()
        if self.of_existing_pod:
            kept_out = f"pods matching {self.selector}" if self.selector else "all pods"
            return f"the anti-affinity of {pods} keeps out {kept_out}"
        return f"the pod's anti-affinity to {self.selector or 'all pods'} keeps it away from {pods}"

    def _describe_pods(self) -> str:
        """Describe the pods in the way and where they are."""
        location = f"on host {self.domain}" if self.key == HOSTNAME else f"in {self.key}={self.domain}"
        return f"{self._name_pods()} {location}"

    def _name_pods(self) -> str:
        """Name one of the pods in the way, and give the number of the others."""
        return f"{self.pod} and {counted(self.others, 'more pod')}" if self.others else self.pod

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the anti-affinity as the reason why the pod is not placed, with an example of a pod in the way.

        For a single node, or if no pod in the way is known, there is no example.

        >>> two_nodes = CauseScope("g1", "", " (rules out 2 of 8 nodes)", nodes="2 of 8 nodes")
        >>> print(PodInTheWay("shop/web", 2, "zone", "a", "app=web").describe_cause(two_nodes))
        the pod's anti-affinity to app=web rules out 2 of 8 nodes (g1, for example: shop/web and 2 more pods in zone=a)
        >>> print(PodInTheWay("shop/web", 0, "zone", "a", "app=db", of_existing_pod=True).describe_cause(two_nodes))
        other pods' anti-affinity to app=db rules out 2 of 8 nodes (g1, for example: shop/web in zone=a)
        """
        if not self.pod or not scope.has_several_nodes:
            return super().describe_cause(scope)
        if self.key == HOSTNAME and self.domain == scope.node:
            example = f"on {scope.node}, for example: {self._name_pods()}"
        else:
            example = f"{scope.node}, for example: {self._describe_pods()}"
        whose = "other pods'" if self.of_existing_pod else "the pod's"
        return f"{whose} anti-affinity to {self.selector or 'all pods'} rules out {scope.nodes} ({example})"


REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"


class FilterState(msgspec.Struct, frozen=True):
    """The counts of required terms that PreFilter passes to Filter."""

    affinity_terms: tuple[AffinityTerm, ...]
    """The pod's required affinity terms."""
    anti_affinity_terms: tuple[AffinityTerm, ...]
    """The pod's required anti-affinity terms."""
    affinity: TopologyCounts
    """Counts of the pods that match all affinity terms."""
    anti_affinity: TopologyCounts
    """Counts of the pods that match an anti-affinity term."""
    existing_anti_affinity: TopologyCounts
    """Counts of the pods whose anti-affinity terms match the incoming pod."""


class AffinityVerdicts(msgspec.Struct, frozen=True):
    """Verdicts of the required terms for identical pods, kept up to date as pods come and go."""

    affinity: RunningCounts
    anti_affinity: RunningCounts
    existing_anti_affinity: RunningCounts
    wants_itself: bool
    """True if the pod has affinity terms and all of them select the pod itself."""

    @property
    def distinctions(self) -> list[Distinction]:
        """The topology domains and current counts by which nodes are distinguished, for each topology key."""
        counts = (self.affinity, self.anti_affinity, self.existing_anti_affinity)
        return [distinction for running in counts for distinction in running.distinctions]

    def mask_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the nodes that a required term of the pod or of a running pod rejects.

        A node without the label of a topology key of the pod's affinity is rejected as well.
        """
        rejected = self.affinity.mask_rows_without_topology_label(rows)
        # A pod whose affinity selects itself may go anywhere if no other pod matches yet.
        is_first_of_its_group = self.wants_itself and self.affinity.is_empty
        if not is_first_of_its_group:
            for counts in self.affinity.iter_counts(rows):
                rejected |= counts <= 0
        rejected |= self.anti_affinity.mask_rows_in_matched_domains(rows)
        rejected |= self.existing_anti_affinity.mask_rows_in_matched_domains(rows)
        return rejected


def iter_rejections(state: FilterState, info: PodInfo, view: Fork, delta: Delta) -> Iterator[Rejection]:
    """Yield the rejections by the pod's affinity, its anti-affinity, and existing pods' anti-affinity, in this order.

    As in upstream, each rejection leaves out the nodes of earlier rejections. Rejections without nodes are yielded as
    well.
    """
    affinity_unmet = ~_find_nodes_meeting_affinity(state, info, view, delta)
    yield Rejection(affinity_unmet, Code.UNRESOLVABLE, REASON_AFFINITY, _build_affinity_fact_finder(state, view))

    rejected_by_own_terms = _find_nodes_in_matched_domains(state.anti_affinity, view, delta) & ~affinity_unmet
    find_matching_term = partial(_find_term_selecting_info, state.anti_affinity_terms, view)
    own_facts = ForbiddenPodFacts(state.anti_affinity, view, find_matching_term, of_running_pods=False)
    yield Rejection(rejected_by_own_terms, Code.UNSCHEDULABLE, REASON_ANTI_AFFINITY, own_facts.build_fact)

    rejected_by_running_pods = _find_nodes_in_matched_domains(state.existing_anti_affinity, view, delta)
    rejected_by_running_pods &= ~affinity_unmet & ~rejected_by_own_terms
    find_term = partial(_find_running_pods_term, info, view)
    facts = ForbiddenPodFacts(state.existing_anti_affinity, view, find_term, of_running_pods=True)
    yield Rejection(rejected_by_running_pods, Code.UNSCHEDULABLE, REASON_EXISTING, facts.build_fact)


def _find_term_selecting_info(
    terms: Sequence[AffinityTerm], view: Fork, key: str, info_number: int
) -> AffinityTerm | None:
    """Return the first of the incoming pod's terms that has this topology key and selects the pods of a PodInfo.

    `info_number` is the number of the PodInfo in the view. Return None if there is no such term.
    """
    for term in terms:
        if term.topology_key == key and find_infos_matching_term(term, view)[info_number]:
            return term
    return None


def _find_running_pods_term(info: PodInfo, view: Fork, key: str, info_number: int) -> AffinityTerm | None:
    """Return the first anti-affinity term of running pods with this topology key that matches the incoming pod.

    Only running pods with the PodInfo number `info_number` are considered. Return None if they have no such term.
    """
    for term, owner_number in find_terms_matching_pod(info, view, "required_anti_affinity"):
        if owner_number == info_number and term.topology_key == key:
            return term
    return None


def _find_nodes_in_matched_domains(counts: TopologyCounts, view: Fork, delta: Delta) -> Bools:
    """Return a mask (N,) of the nodes in whose topology domain any term matches a pod.

    `delta` holds hypothetical changes of the pods on nodes. A change counts only for its own node.
    """
    has_match = np.zeros(len(view.nodes), np.bool_)
    for key in counts.counts:
        has_match |= counts.get_domain_counts_by_node(key, view, delta) > 0
    return has_match


def _find_nodes_meeting_affinity(state: FilterState, info: PodInfo, view: Fork, delta: Delta) -> Bools:
    """Return a mask (N,) of the nodes that meet the pod's required affinity terms after the hypothetical changes.

    A node needs all topology labels and, for each term, a matching pod in its domain. If the terms select the pod
    itself and match no pod anywhere, the labels are enough.
    """
    labelled = np.ones(len(view.nodes), np.bool_)
    has_matching_pods = np.ones(len(view.nodes), np.bool_)
    for key in state.affinity.counts:
        labelled &= view.nodes.label(key).present
        has_matching_pods &= state.affinity.get_domain_counts_by_node(key, view, delta) > 0
    if not do_terms_select_pod(state.affinity_terms, info):
        return labelled & has_matching_pods
    return labelled & (has_matching_pods | state.affinity.find_nodes_without_any_match(view, delta))


def do_terms_select_pod(terms: Sequence[AffinityTerm], info: PodInfo) -> bool:
    """Return whether there are terms and all of them select the pod."""
    return bool(terms) and all(term.matches(info.namespace, info.labels, {}) for term in terms)


def _build_affinity_fact_finder(state: FilterState, view: Fork) -> Callable[[int], Fact]:
    """Build a function that returns, for a node's row, the fact about the first unmet affinity term there.

    If each term is met by some pod, but no pod meets all terms, the fact says so.
    """

    def find_fact(row: int) -> Fact:
        """Return the fact about the first unmet term on a node, or that no pod meets all terms at once.

        A term is also unmet if the node lacks the label of its topology key.
        """
        for term in state.affinity_terms:
            column = view.nodes.label(term.topology_key)
            domain = column.codes[row]
            if domain < 0:  # the code of nodes without the label
                return TopologyLabelMissing(term.topology_key)
            domain_counts = state.affinity.counts[term.topology_key]
            if domain_counts[domain] <= 0:
                return _build_missing_pod_fact(term, column.values[domain], view)
        return NoPodForAllTerms()

    return find_fact


def _build_missing_pod_fact(term: AffinityTerm, domain: str, view: Fork) -> NoPodToJoin:
    """Build the fact that the term selects no pod in the domain.

    If the term selects no pod in any domain, the fact also lists the term's namespaces, and other namespaces with
    running pods that match the term's labels. It lists no namespaces if the term selects all of them.
    """
    if term.selector.matches_nothing:
        return NoPodToJoin(selector=None, key=term.topology_key, domain=domain)
    fact = NoPodToJoin(str(term.selector), term.topology_key, domain)
    selects_some_pod = find_infos_matching_term(term, view).any()
    if selects_some_pod or term.namespace_selector.selects_everything:
        return fact
    other_namespaces = _find_namespaces_with_labels(term.selector, view)
    return msgspec.structs.replace(
        fact, namespaces=tuple(sorted(term.namespaces)), other_namespaces=tuple(sorted(other_namespaces))
    )


def _find_namespaces_with_labels(selector: Selector, view: Fork) -> set[str]:
    """Return the names of the namespaces in which the labels of running pods match the selector."""
    info_has_labels = view.pods.match_infos(selector, namespaces=None)
    if not info_has_labels.any():
        return set()
    positions = view.pods.find_positions(info_has_labels)
    running_positions = positions[view.node[positions] >= 0]
    running_infos = find_distinct(view.pods.info[running_positions], len(view.pods.infos)).tolist()
    return {view.pods.infos[number].namespace for number in running_infos}


class ForbiddenPods(NamedTuple):
    """The pods in one topology domain that the incoming pod must not join."""

    first: int
    """The position of the first pod."""
    num_pods: int


class ForbiddenPodFacts:
    """Builder of the facts about pods that anti-affinity forbids the incoming pod to join.

    `counts` has the matches of the anti-affinity terms, and `find_term` returns the term for a topology key and the
    number of a PodInfo. `of_running_pods` tells whether the terms belong to the running pods.
    """

    def __init__(
        self,
        counts: TopologyCounts,
        view: Fork,
        find_term: Callable[[str, int], AffinityTerm | None],
        of_running_pods: bool,
    ) -> None:
        self.counts, self.view, self.find_term, self.of_running_pods = counts, view, find_term, of_running_pods
        self._pods_by_key: dict[str, dict[int, ForbiddenPods]] = {}
        """A cache of `_group_forbidden_pods`."""
        self._selectors: dict[tuple[str, int], str] = {}
        """A cache of `_find_forbidding_selector`."""

    def build_fact(self, row: int) -> PodInTheWay:
        """Build the fact about the first forbidden pod in a topology domain of the node.

        If no pod there is forbidden, a nominated pod must be, and the fact names no pod.
        """
        for key, domain_counts in self.counts.counts.items():
            column = self.view.nodes.label(key)
            domain = int(column.codes[row])
            has_label = domain >= 0
            if has_label and domain_counts[domain] > 0:
                if key not in self._pods_by_key:
                    self._pods_by_key[key] = self._group_forbidden_pods(key)
                pods = self._pods_by_key[key][domain]
                return PodInTheWay(
                    pod=self.view.pods.objects[pods.first].key,
                    others=pods.num_pods - 1,
                    key=key,
                    domain=column.values[domain],
                    selector=self._find_forbidding_selector(key, self.view.pods.get_info_number(pods.first)),
                    of_existing_pod=self.of_running_pods,
                )
        return PodInTheWay()

    def _find_forbidding_selector(self, key: str, info_number: int) -> str:
        """Return the selector of the term that forbids the pods of a PodInfo in a domain of this topology key.

        Return "" if no term does. The selector is cached.
        """
        cache_key = key, info_number
        if cache_key not in self._selectors:
            term = self.find_term(key, info_number)
            self._selectors[cache_key] = "" if term is None else str(term.selector)
        return self._selectors[cache_key]

    def _group_forbidden_pods(self, key: str) -> dict[int, ForbiddenPods]:
        """Return the first forbidden pod and the number of forbidden pods in each domain of the topology key.

        The result is keyed by the codes of the domains. Domains without forbidden pods are left out.
        """
        view = self.view
        is_forbidden_info = self.counts.weights[key] > 0
        positions = np.flatnonzero((view.node >= 0) & is_forbidden_info[view.pods.info])
        domain_of_node = view.nodes.label(key).codes
        domain_of_pod = domain_of_node[view.node[positions]]
        domains, first_indices, pod_counts = np.unique(domain_of_pod, return_index=True, return_counts=True)
        first_positions = positions[first_indices]
        pods = map(ForbiddenPods, first_positions.tolist(), pod_counts.tolist())
        return dict(zip(domains.tolist(), pods, strict=True))
