"""A topology group: a spread constraint or affinity term that pods share, with the number of pods in each domain.

`DomainTallies` counts nodes and pods once for all runs, while countDomains upstream counts them for each group of each
run. Upstream: topologygroup.go, topologynodefilter.go and topology.go in pkg/controllers/provisioning/scheduling
(sigs.k8s.io/karpenter v1.14.1). Where upstream depends on the order of a Go map, the first domain by name is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.labels import Selector
from kschedctl.api.objects import LabelSelector, Pod, PodAffinityTerm, Taint, Toleration
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.requirements import (
    IN,
    LabelRequirement,
    Requirements,
    build_term_requirements,
    get_required_terms,
)
from kschedctl.autoscaling.karpenter.state_nodes import StateNode

HONOR, IGNORE = "Honor", "Ignore"
_SHOWN = 25

_Counts = Counter[str]
"""Domain -> number."""


class TopologyType(Enum):
    """A kind of topology constraint, with Karpenter's name as value."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"


@dataclass(frozen=True)
class TopologyNodeFilter:
    """A filter that decides which nodes count for a spread constraint."""

    requirements: tuple[Requirements, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity_policy: str = ""
    taints_policy: str = ""

    @classmethod
    def from_pod(cls, pod: Pod, affinity_policy: str | None, taints_policy: str | None) -> TopologyNodeFilter:
        """Build the filter of a pod's spread constraint from its node selector, required affinity and tolerations.

        Without a policy, the affinity is honored and taints are ignored.
        """
        selected = Requirements.from_labels(pod.spec.node_selector)
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        if affinity and affinity.required_during_scheduling_ignored_during_execution is not None:
            alternatives = tuple(
                selected.combined_with(build_term_requirements(term)) for term in get_required_terms(pod)
            )
        else:
            alternatives = (selected,)
        return cls(alternatives, pod.spec.tolerations, affinity_policy or HONOR, taints_policy or IGNORE)

    def matches(self, taints: Iterable[Taint], requirements: Requirements) -> bool:
        """Return whether a node with these taints and requirements counts.

        If the affinity policy is Honor, the requirements must be compatible with at least one of the pod's
        alternatives. If the taints policy is Honor, the pod must tolerate all taints.
        """
        alternatives = self.requirements if self.affinity_policy == HONOR else ()
        if alternatives and not any(requirements.is_compatible_with(alternative) for alternative in alternatives):
            return False
        if self.taints_policy != HONOR:
            return True
        return all(is_tolerated(self.tolerations, taint, comparison_operators=True) for taint in taints)

    @property
    def identity(self) -> Hashable:
        """A key that is equal for filters with the same hash in upstream.

        Upstream's hash ignores the values of labels, and entries that occur twice cancel out.
        """
        keys_and_min_values = (
            frozenset((key, requirement.min_values) for key, requirement in alternative.items())
            for alternative in self.requirements
        )
        return (
            _keep_odd_items(keys_and_min_values),
            _keep_odd_items(self.tolerations),
            self.affinity_policy,
            self.taints_policy,
        )


@dataclass(frozen=True)
class TopologyRule:
    """The constraint that a group enforces."""

    type: TopologyType
    key: str
    namespaces: frozenset[str]
    selector: Selector
    label_selector: LabelSelector | None
    nodes: TopologyNodeFilter = TopologyNodeFilter()
    max_skew: int = 2**31 - 1
    min_domains: int | None = None

    @property
    def identity(self) -> Hashable:
        """A key that is equal for rules with the same hash in upstream.

        The pods of such rules share a group.
        """
        return (
            self.type,
            self.key,
            self.namespaces,
            self.max_skew,
            self.nodes.identity,
            _build_selector_key(self.label_selector),
        )

    @property
    def count_key(self) -> Hashable:
        """A key that is equal for rules that count the same nodes and pods."""
        filters = tuple(str(requirement) for requirement in self.nodes.requirements), self.nodes.tolerations
        policies = self.nodes.affinity_policy, self.nodes.taints_policy
        return self.key, self.namespaces, self.selector, self.label_selector is None, filters, policies

    def selects_pod(self, pod: Pod) -> bool:
        """Return whether the rule's namespaces and selector match the pod."""
        return pod.metadata.namespace in self.namespaces and self.selector.matches(pod.metadata.labels)

    def counts_pod(self, pod: Pod, taints: Sequence[Taint], requirements: Requirements) -> bool:
        """Return whether the rule counts the pod on a node with these taints and requirements."""
        return self.selects_pod(pod) and self.nodes.matches(taints, requirements)


@dataclass(eq=False)
class TopologyGroup:
    """The number of pods in each domain of one rule."""

    rule: TopologyRule
    domains: dict[str, int]
    """Domain -> number of pods."""
    empty: set[str] = field(default_factory=set)
    """Domains in which no pod has been recorded."""
    owners: set[str] = field(default_factory=set)
    """Keys of the pods with this constraint."""

    def add_pods(self, domains: Iterable[str], pods: int = 1) -> None:
        """Add this many pods to each of the domains, which need not be known."""
        for domain in domains:
            self.domains[domain] = self.domains.get(domain, 0) + pods
            self.empty.discard(domain)

    def add_domains(self, domains: Iterable[str]) -> None:
        """Add domains without pods, unless they are known already."""
        for domain in domains:
            if domain not in self.domains:
                self.domains[domain] = 0
                self.empty.add(domain)

    def find_allowed_domains(
        self, pod: Pod, pod_domains: LabelRequirement, node_domains: LabelRequirement
    ) -> LabelRequirement:
        """Return the domains in which the pod may be placed on the node, as a requirement for the topology key.

        ``pod_domains`` and ``node_domains`` are the pod's and the node's own requirements for the topology key. The
        result has no values if there is no such domain.
        """
        if self.rule.type is TopologyType.SPREAD:
            chosen = self._find_spread_domain(pod, pod_domains, node_domains)
        elif self.rule.type is TopologyType.AFFINITY:
            chosen = self._find_affinity_domains(pod, pod_domains, node_domains)
        else:
            chosen = self._find_anti_affinity_domains(pod_domains, node_domains)
        return LabelRequirement.from_operator(self.rule.key, IN, chosen)

    def is_blocked_by_empty_value(
        self, pod: Pod, pod_domains: LabelRequirement, node_domains: LabelRequirement
    ) -> bool:
        """Return whether the pod is refused only because Karpenter never chooses a domain with an empty name.

        This happens with spread constraints if no other domain is allowed.
        """
        if self.rule.type is not TopologyType.SPREAD or "" not in self.domains or not node_domains.allows_value(""):
            return False
        if self.find_allowed_domains(pod, pod_domains, node_domains).values:
            return False
        return self.domains[""] <= self._compute_max_pods_in_domain(pod, pod_domains)

    def allows_domain(self, pod: Pod, pod_domains: LabelRequirement, domain: str) -> bool:
        """Return whether a node in the domain may take the pod."""
        node_domains = LabelRequirement.from_operator(self.rule.key, IN, (domain,))
        return bool(self.find_allowed_domains(pod, pod_domains, node_domains).values)

    def _get_single_hostname(self, node_domains: LabelRequirement) -> str:
        """Return the node's hostname, or "" if it has several possible hostnames.

        Also return "" if the topology key is not the hostname.
        """
        if self.rule.key != HOSTNAME or len(node_domains.values) != 1:
            return ""
        return next(iter(node_domains.values))

    def _iter_node_domains(self, node_domains: LabelRequirement) -> Iterable[str]:
        """Return an iterable of the known domains in which the node may be."""
        if node_domains.operator == IN:
            return (domain for domain in node_domains.values if domain in self.domains)
        return (domain for domain in self.domains if node_domains.allows_value(domain))

    def _find_spread_domain(
        self, pod: Pod, pod_domains: LabelRequirement, node_domains: LabelRequirement
    ) -> Iterable[str]:
        """Return, in a tuple, the allowed domain with the fewest pods, or return () if maxSkew allows no domain.

        Of several such domains, the first by name is returned. If the node has a single hostname, only this hostname is
        considered, even if the pod does not allow it. As in upstream, a domain with an empty name is never chosen.
        """
        if host := self._get_single_hostname(node_domains):
            # The smallest count of any hostname is 0, since a new node is always possible
            count_with_pod = self.domains.get(host, 0) + int(self.rule.selects_pod(pod))
            return (host,) if count_with_pod <= self.rule.max_skew else ()
        max_pods = self._compute_max_pods_in_domain(pod, pod_domains)
        allowed = [domain for domain in self._iter_node_domains(node_domains) if self.domains[domain] <= max_pods]
        emptiest = min(allowed, key=lambda domain: (self.domains[domain], domain), default="")
        return (emptiest,) if emptiest else ()

    def _compute_max_pods_in_domain(self, pod: Pod, pod_domains: LabelRequirement) -> int:
        """Return the number of pods that a domain may have at most before maxSkew forbids to add this pod."""
        return self.rule.max_skew + self._compute_smallest_domain_count(pod_domains) - int(self.rule.selects_pod(pod))

    def _compute_smallest_domain_count(self, pod_domains: LabelRequirement) -> int:
        """Return the smallest number of pods in any domain where the pod may be placed.

        The number is 0 for hostnames, because a new node can always be added, and if there are fewer domains than
        minDomains. If the pod may be placed in no domain, the number is the largest 32-bit integer.
        """
        if self.rule.key == HOSTNAME:
            return 0
        pod_counts = [count for domain, count in self.domains.items() if pod_domains.allows_value(domain)]
        has_too_few_domains = self.rule.min_domains is not None and len(pod_counts) < self.rule.min_domains
        if has_too_few_domains:
            return 0
        return min(pod_counts, default=2**31 - 1)  # math.MaxInt32 in upstream

    def _find_affinity_domains(
        self, pod: Pod, pod_domains: LabelRequirement, node_domains: LabelRequirement
    ) -> Iterable[str]:
        """Return the domains that have matching pods and that both the pod and the node allow.

        If no domain that the pod allows has matching pods, a pod that matches its own term may be the first. Then the
        domains are the first by name that both the pod and the node allow, and the first that the pod allows. If the
        node has a single hostname, only this domain is considered.
        """
        if host := self._get_single_hostname(node_domains):
            has_matching_pods = self.domains.get(host, 0) > 0
            if not pod_domains.allows_value(host):
                return ()
            return (host,) if has_matching_pods or self._can_be_first_matching_pod(pod, pod_domains) else ()

        occupied = [
            domain
            for domain in self._iter_node_domains(node_domains)
            if self.domains[domain] > 0 and pod_domains.allows_value(domain)
        ]
        if occupied or not self._can_be_first_matching_pod(pod, pod_domains):
            return occupied

        shared = pod_domains.intersection(node_domains)
        first_shared = min((domain for domain in self.domains if shared.allows_value(domain)), default=None)
        first_of_pod = min((domain for domain in self.domains if pod_domains.allows_value(domain)), default=None)
        return {domain for domain in (first_shared, first_of_pod) if domain is not None}

    def _can_be_first_matching_pod(self, pod: Pod, pod_domains: LabelRequirement) -> bool:
        """Return whether the pod matches its own term and no domain that it allows has a matching pod."""
        if not self.rule.selects_pod(pod):
            return False
        if len(self.domains) == len(self.empty):  # no domain at all has a matching pod
            return True
        return not any(count > 0 and pod_domains.allows_value(domain) for domain, count in self.domains.items())

    def _find_anti_affinity_domains(
        self, pod_domains: LabelRequirement, node_domains: LabelRequirement
    ) -> Iterable[str]:
        """Return the domains that have no matching pods and that both the pod and the node allow.

        If the node has a single hostname, only this hostname is considered, even if the pod does not allow it.
        """
        if host := self._get_single_hostname(node_domains):
            return () if self.domains.get(host, 0) else (host,)
        return [
            domain for domain in self.empty if node_domains.allows_value(domain) and pod_domains.allows_value(domain)
        ]

    def describe_refusal(self, pod_domains: LabelRequirement, node_domains: LabelRequirement) -> str:
        """Describe in Karpenter's words why no domain is allowed.

        As in upstream, the closing parenthesis is missing.
        """
        counts = [f"{domain}: {self.domains[domain]}" for domain in sorted(self.domains)]
        shown = ", ".join(counts[:_SHOWN])
        if len(counts) > _SHOWN:
            shown += f" and {len(counts) - _SHOWN} other(s)"
        return (
            f"unsatisfiable topology constraint for {self.rule.type.value}, key={self.rule.key} (counts = {shown}, "
            f"podDomains = {pod_domains}, nodeDomains = {node_domains}"
        )


def _keep_odd_items(items: Iterable[Hashable]) -> frozenset[Hashable]:
    """Return the items that occur an odd number of times. In upstream's XOR of hashes, all others cancel out."""
    return frozenset(item for item, count in Counter(items).items() if count % 2)


def _build_selector_key(selector: LabelSelector | None) -> Hashable:
    """Build a key of a selector that ignores the order of expressions and values. Without a selector, it is None."""
    if selector is None:
        return None
    expressions = frozenset(
        (expression.key, expression.operator, frozenset(expression.values or ()))
        for expression in selector.match_expressions
    )
    return expressions, frozenset(selector.match_labels.items())


class _NodeAndPodCounts(NamedTuple):
    """The numbers of nodes and pods in each topology domain."""

    nodes: _Counts
    pods: _Counts


class DomainTallies:
    """The numbers of nodes and pods in each topology domain, cached by rule."""

    def __init__(self, nodes: Sequence[StateNode]) -> None:
        self.nodes = [state for state in nodes if state.node is not None]
        self._counts: dict[Hashable, _NodeAndPodCounts] = {}

    @cached_property
    def _staying_nodes(self) -> list[StateNode]:
        """The tracked nodes that exist and are not being deleted."""
        return [node for node in self.nodes if not node.deleting]

    @cached_property
    def node_by_pod(self) -> dict[str, StateNode]:
        """The node of each pod that is on a node, by the pod's key."""
        return {pod.key: node for node in self.nodes for pod in node.pods}

    @cached_property
    def pods_with_anti_affinity(self) -> list[tuple[Pod, StateNode]]:
        """The pods with required anti-affinity, each with its node."""
        return [(pod, node) for node in self.nodes for pod in node.pods if get_required_anti_affinity(pod)]

    @cached_property
    def _pod_counts_by_labels(self) -> dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]]:
        """The number of pods with the same namespace and labels on each node, by namespace and labels.

        Pods that are being deleted do not count.
        """
        by_labels: dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]] = {}
        for node in self.nodes:
            for pod in node.pods:
                if pod.metadata.deletion_timestamp is None:
                    identity = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
                    by_labels.setdefault(identity, Counter())[node] += 1
        return by_labels

    def count_nodes_and_pods(
        self, rule: TopologyRule, removed_nodes: Iterable[StateNode], excluded: Iterable[Pod]
    ) -> _NodeAndPodCounts:
        """Count the nodes and pods in each domain of a rule, without removed nodes and excluded pods.

        Nodes and pods that are being deleted do not count either, and counts of 0 are left out. Totals are cached, and
        the removed nodes and excluded pods are subtracted from them.
        """
        nodes, pods = (counts.copy() for counts in self._count_staying_nodes_and_selected_pods(rule))
        for node in removed_nodes:
            if rule.key in node.labels and _is_node_counted(rule, node):
                nodes[node.labels[rule.key]] -= 1
        for pod in excluded:
            node_of_pod = self.node_by_pod.get(pod.key)
            if node_of_pod is None or not _is_pod_counted(rule, pod):
                continue
            domain = _find_node_domain(rule, node_of_pod)
            if domain is not None:
                pods[domain] -= 1
        return _NodeAndPodCounts(+nodes, +pods)  # unary plus drops counts of zero

    def _count_staying_nodes_and_selected_pods(self, rule: TopologyRule) -> _NodeAndPodCounts:
        """Count the nodes and the selected pods in each domain of a rule. The result is cached.

        Nodes count if they are not being deleted and the rule's node filter accepts them.
        """
        key = rule.count_key
        if key not in self._counts:
            nodes = Counter(
                node.labels[rule.key]
                for node in self._staying_nodes
                if rule.key in node.labels and _is_node_counted(rule, node)
            )
            self._counts[key] = _NodeAndPodCounts(nodes, self._count_selected_pods(rule))
        return self._counts[key]

    def _count_selected_pods(self, rule: TopologyRule) -> _Counts:
        """Count the pods that the rule selects, by domain. Pods with equal labels are matched only once."""
        pod_counts: _Counts = Counter()  # by domain
        for (namespace, labels), node_counts in self._pod_counts_by_labels.items():
            if namespace in rule.namespaces and _matches_rule_labels(rule, dict(labels)):
                for node, count in node_counts.items():
                    if (domain := _find_node_domain(rule, node)) is not None:
                        pod_counts[domain] += count
        return pod_counts


def get_required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of the pod's required anti-affinity, or () if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _is_pod_counted(rule: TopologyRule, pod: Pod) -> bool:
    """Return whether the rule counts the pod: it is active, and its namespace and labels match the rule."""
    if pod.metadata.deletion_timestamp is not None or pod.terminated:
        return False
    return pod.metadata.namespace in rule.namespaces and _matches_rule_labels(rule, pod.metadata.labels)


def _matches_rule_labels(rule: TopologyRule, labels: Mapping[str, str]) -> bool:
    """Return whether the rule counts pods with these labels. Without a selector, all labels match."""
    return rule.label_selector is None or rule.selector.matches(labels)


def _find_node_domain(rule: TopologyRule, state: StateNode) -> str | None:
    """Return the node's domain, or None if the rule does not count the node or the node is in no domain.

    If the rule's key is the hostname, a node without this label is in the domain of its name.
    """
    assert state.node is not None
    metadata = state.node.metadata
    default_domain = metadata.name if rule.key == HOSTNAME else None
    domain = metadata.labels.get(rule.key, default_domain)
    if domain is None or not _is_node_counted(rule, state):
        return None
    return domain


def _is_node_counted(rule: TopologyRule, state: StateNode) -> bool:
    """Return whether the node passes the rule's filter of nodes by affinity and taints."""
    assert state.node is not None
    return rule.nodes.matches(state.node.spec.taints, state.own_labels)
