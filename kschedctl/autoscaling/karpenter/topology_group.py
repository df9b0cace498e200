"""A topology group: a spread constraint or affinity term that pods share, with the pods in each domain.

Upstream: pkg/controllers/provisioning/scheduling/topologygroup.go, topologynodefilter.go (sigs.k8s.io/karpenter
v1.14.1). Where Go's map order decides, the first by name is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kschedctl.api.labels import Selector
from kschedctl.api.objects import LabelSelector, Pod, Taint, Toleration
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.requirements import (
    IN,
    LabelRequirement,
    Requirements,
    build_term_requirements,
    get_required_terms,
)

HONOR, IGNORE = "Honor", "Ignore"
_SHOWN = 25


class TopologyType(Enum):
    """A kind of topology constraint, with Karpenter's name as value."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"


@dataclass(frozen=True)
class TopologyNodeFilter:
    """A filter of the nodes that count for a spread constraint."""

    requirements: tuple[Requirements, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity_policy: str = ""
    taints_policy: str = ""

    @classmethod
    def from_pod(cls, pod: Pod, affinity_policy: str | None, taints_policy: str | None) -> TopologyNodeFilter:
        """Build the filter from the pod's selector, affinity and tolerations."""
        selected = Requirements.of_labels(pod.spec.node_selector)
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        if affinity and affinity.required_during_scheduling_ignored_during_execution is not None:
            alternatives = tuple(selected.plus(build_term_requirements(term)) for term in get_required_terms(pod))
        else:
            alternatives = (selected,)
        return cls(alternatives, pod.spec.tolerations, affinity_policy or HONOR, taints_policy or IGNORE)

    def matches(self, taints: Iterable[Taint], requirements: Requirements) -> bool:
        """Return whether a node with these taints and requirements counts."""
        chosen = self.requirements if self.affinity_policy == HONOR else ()
        if chosen and not any(requirements.compatible(requirement) for requirement in chosen):
            return False
        if self.taints_policy != HONOR:
            return True
        return all(is_tolerated(self.tolerations, taint, comparison_operators=True) for taint in taints)

    @property
    def identity(self) -> Hashable:
        """The hash key that upstream uses: labels without values; pairs cancel out."""
        labels = (
            frozenset((key, requirement.min_values) for key, requirement in own.items()) for own in self.requirements
        )
        return _odd_items(labels), _odd_items(self.tolerations), self.affinity_policy, self.taints_policy


@dataclass(frozen=True)
class TopologyRule:
    """The constraint that a group enforces."""

    type: TopologyType
    key: str
    namespaces: frozenset[str]
    selector: Selector
    written: LabelSelector | None
    nodes: TopologyNodeFilter = TopologyNodeFilter()
    max_skew: int = 2**31 - 1
    min_domains: int | None = None

    @property
    def identity(self) -> Hashable:
        return (
            self.type,
            self.key,
            self.namespaces,
            self.max_skew,
            self.nodes.identity,
            _selector_identity(self.written),
        )

    @property
    def count_key(self) -> Hashable:
        """Everything that decides which nodes and pods count."""
        filters = tuple(str(requirement) for requirement in self.nodes.requirements), self.nodes.tolerations
        policies = self.nodes.affinity_policy, self.nodes.taints_policy
        return self.key, self.namespaces, self.selector, self.written is None, filters, policies

    def selects(self, pod: Pod) -> bool:
        """Return whether namespace and labels of the pod match."""
        return pod.metadata.namespace in self.namespaces and self.selector.matches(pod.metadata.labels)

    def counts(self, pod: Pod, taints: Sequence[Taint], requirements: Requirements) -> bool:
        """Return whether the pod counts on a node with these taints and requirements."""
        return self.selects(pod) and self.nodes.matches(taints, requirements)


@dataclass(eq=False)
class TopologyGroup:
    """Pods in each domain of one rule."""

    rule: TopologyRule
    domains: dict[str, int]
    """Domain -> number of pods."""
    empty: set[str] = field(default_factory=set)
    """Domains in which there never was a pod."""
    owners: set[str] = field(default_factory=set)
    """Keys of the pods with this constraint."""

    def record(self, domains: Iterable[str], pods: int = 1) -> None:
        """Add pods to each of the domains."""
        for domain in domains:
            self.domains[domain] = self.domains.get(domain, 0) + pods
            self.empty.discard(domain)

    def register(self, domains: Iterable[str]) -> None:
        """Add domains that exist, with no pods yet."""
        for domain in domains:
            if domain not in self.domains:
                self.domains[domain] = 0
                self.empty.add(domain)

    def get(self, pod: Pod, of_pod: LabelRequirement, of_node: LabelRequirement) -> LabelRequirement:
        """Return the domains allowed for the pod on the node; no values if there is none."""
        if self.rule.type is TopologyType.SPREAD:
            chosen = self._next_domain_topology_spread(pod, of_pod, of_node)
        elif self.rule.type is TopologyType.AFFINITY:
            chosen = self._next_domain_affinity(pod, of_pod, of_node)
        else:
            chosen = self._next_domain_anti_affinity(of_pod, of_node)
        return LabelRequirement.of(self.rule.key, IN, chosen)

    def chooses_empty_value(self, pod: Pod, of_pod: LabelRequirement, of_node: LabelRequirement) -> bool:
        """Return whether a spread constraint finds no domain only because the value of the label is empty."""
        if self.rule.type is not TopologyType.SPREAD or "" not in self.domains or not of_node.has(""):
            return False
        return not self.get(pod, of_pod, of_node).values and self.domains[""] <= self._max_pods_in_domain(pod, of_pod)

    def allows_domain(self, pod: Pod, of_pod: LabelRequirement, domain: str) -> bool:
        """Return whether a node in the domain may take the pod."""
        return bool(self.get(pod, of_pod, LabelRequirement.of(self.rule.key, IN, (domain,))).values)

    def _single_hostname(self, of_node: LabelRequirement) -> str:
        """Return the node's hostname if that is the topology key, or ""."""
        return next(iter(of_node.values)) if self.rule.key == HOSTNAME and len(of_node.values) == 1 else ""

    def _iter_node_domains(self, of_node: LabelRequirement) -> Iterable[str]:
        """Return the known domains that the node may be in."""
        if of_node.operator == IN:
            return (domain for domain in of_node.values if domain in self.domains)
        return (domain for domain in self.domains if of_node.has(domain))

    def _next_domain_topology_spread(
        self, pod: Pod, of_pod: LabelRequirement, of_node: LabelRequirement
    ) -> Iterable[str]:
        """Return the domain with the fewest pods that maxSkew allows, or nothing if there is none.

        Upstream starts its search with the empty string, so a domain whose label value is empty counts as none found.
        """
        itself = int(self.rule.selects(pod))
        if host := self._single_hostname(of_node):
            return (host,) if self.domains.get(host, 0) + itself <= self.rule.max_skew else ()
        most = self._max_pods_in_domain(pod, of_pod)
        allowed = [(self.domains[d], d) for d in self._iter_node_domains(of_node) if self.domains[d] <= most]
        _, domain = min(allowed, default=(0, ""))
        return (domain,) if domain else ()

    def _max_pods_in_domain(self, pod: Pod, of_pod: LabelRequirement) -> int:
        """Return how many pods a domain may have so that maxSkew allows this pod there, too."""
        return self.rule.max_skew + self._domain_min_count(of_pod) - int(self.rule.selects(pod))

    def _domain_min_count(self, of_pod: LabelRequirement) -> int:
        """Return the number of pods in the emptiest domain that the pod may go to."""
        if self.rule.key == HOSTNAME:
            return 0
        counts = [count for domain, count in self.domains.items() if of_pod.has(domain)]
        if self.rule.min_domains is not None and len(counts) < self.rule.min_domains:
            return 0
        return min(counts, default=2**31 - 1)

    def _next_domain_affinity(self, pod: Pod, of_pod: LabelRequirement, of_node: LabelRequirement) -> Iterable[str]:
        """Return the domains with matching pods, or those where a self-selecting pod may be first."""
        if host := self._single_hostname(of_node):
            if not of_pod.has(host):
                return ()
            return (host,) if self.domains.get(host, 0) > 0 or self._can_be_first(pod, of_pod) else ()
        occupied = [d for d in self._iter_node_domains(of_node) if self.domains[d] > 0 and of_pod.has(d)]
        if occupied or not self._can_be_first(pod, of_pod):
            return occupied
        both = of_pod.intersection(of_node)
        first = min((domain for domain in self.domains if both.has(domain)), default=None)
        own = min((domain for domain in self.domains if of_pod.has(domain)), default=None)
        return {domain for domain in (first, own) if domain is not None}

    def _can_be_first(self, pod: Pod, of_pod: LabelRequirement) -> bool:
        """Return whether the pod selects itself and no matching pod is in its domains."""
        if not self.rule.selects(pod):
            return False
        if len(self.domains) == len(self.empty):
            return True
        return not any(count > 0 and of_pod.has(domain) for domain, count in self.domains.items())

    def _next_domain_anti_affinity(self, of_pod: LabelRequirement, of_node: LabelRequirement) -> Iterable[str]:
        """Return the allowed domains without matching pods."""
        if host := self._single_hostname(of_node):
            return () if self.domains.get(host, 0) else (host,)
        return [domain for domain in self.empty if of_node.has(domain) and of_pod.has(domain)]

    def describe_refusal(self, of_pod: LabelRequirement, of_node: LabelRequirement) -> str:
        """Describe the unsatisfiable constraint in Karpenter's words (with the unclosed bracket)."""
        counts = [f"{domain}: {self.domains[domain]}" for domain in sorted(self.domains)]
        shown = ", ".join(counts[:_SHOWN])
        if len(counts) > _SHOWN:
            shown += f" and {len(counts) - _SHOWN} other(s)"
        return (
            f"unsatisfiable topology constraint for {self.rule.type.value}, key={self.rule.key} (counts = {shown}, "
            f"podDomains = {of_pod}, nodeDomains = {of_node}"
        )


def _odd_items(items: Iterable[Hashable]) -> frozenset[Hashable]:
    """Return the items with an odd count, as upstream combines hashes of a set by exclusive or."""
    return frozenset(item for item, count in Counter(items).items() if count % 2)


def _selector_identity(selector: LabelSelector | None) -> Hashable:
    """Return a hashable form of a selector that does not depend on order."""
    if selector is None:
        return None
    expressions = frozenset((e.key, e.operator, frozenset(e.values or ())) for e in selector.match_expressions)
    return expressions, frozenset(selector.match_labels.items())
