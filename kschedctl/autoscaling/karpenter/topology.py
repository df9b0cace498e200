"""Topology spread constraints and pod affinities in a run, as groups that pods share.

Upstream: pkg/controllers/provisioning/scheduling/topology.go, topologydomaingroup.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kschedctl.api.copying import replace
from kschedctl.api.karpenter import NodePool
from kschedctl.api.labels import NOTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import (
    LabelSelector,
    Pod,
    PodAffinityTerm,
    SelectorRequirement,
    Taint,
    TopologySpreadConstraint,
)
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.requirements import IN, Requirements
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.templates import build_pool_requirements
from kschedctl.autoscaling.karpenter.topology_counts import DomainTallies, get_required_anti_affinity
from kschedctl.autoscaling.karpenter.topology_group import (
    IGNORE,
    TopologyGroup,
    TopologyNodeFilter,
    TopologyRule,
    TopologyType,
)
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns

Domains = dict[str, list[tuple[Taint, ...]]]
"""Domain -> the taints of each pool that has it; a pool without taints stands for all."""
NamespaceLabels = Mapping[str, Mapping[str, str]]


def build_domains(pools: Sequence[NodePool], columns: Mapping[str, TypeColumns]) -> dict[str, Domains]:
    """Return the topology domains in which the pools may launch nodes, by label."""
    domains: dict[str, Domains] = {}
    for pool in pools:
        taints = pool.spec.template.spec.taints
        own_requirements = build_pool_requirements(pool)
        types = columns[pool.metadata.name].types if pool.metadata.name in columns else ()
        for instance_type in types:
            for key, requirement in own_requirements.plus(instance_type.requirements).items():
                _insert_domains(domains.setdefault(key, {}), requirement.values, taints)
        for key, requirement in own_requirements.items():
            if types and requirement.operator == IN:
                _insert_domains(domains.setdefault(key, {}), requirement.values, taints)
    return domains


def _insert_domains(domains: Domains, values: Iterable[str], taints: tuple[Taint, ...]) -> None:
    """Add domains of a pool with these taints. A pool without taints replaces all others."""
    for value in values:
        existing = domains.get(value)
        if existing is None or not taints:
            domains[value] = [taints]
        elif existing[0] and taints not in existing:
            existing.append(taints)


@dataclass(frozen=True)
class TopologyRefusal:
    """A topology constraint that leaves no domain for a pod."""

    message: str
    """In Karpenter's words."""
    empty_label: str = ""
    """The topology key, if only its empty value keeps Karpenter from finding a domain."""


@dataclass(eq=False)
class RunTopology:
    """The topology groups of one run."""

    domains: Mapping[str, Domains]
    counts: DomainTallies
    removed_nodes: Sequence[StateNode]
    """Nodes that are treated as removed."""
    excluded: Mapping[str, Pod]
    """Pods to be placed, by key. They do not count on their present nodes."""
    namespaces: NamespaceLabels
    ignores_preferences: bool
    """Whether soft constraints are ignored."""
    groups: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    """Groups of the constraints of pods to be placed, by identity."""
    inverse: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    """Groups of required anti-affinities by identity, which keep other pods away."""

    def __post_init__(self) -> None:
        for pod, node in self.counts.with_anti_affinity:
            if pod.key not in self.excluded and node.node is not None:
                self._update_inverse_affinity(pod, node.node.metadata.labels)

    def assign_to_groups(self, pod: Pod) -> Pod:
        """Assign the pod to the groups of its constraints, and return it with its matchLabelKeys expanded.

        New groups are created with the counts of existing pods. Earlier assignments are removed, because the pod may
        have lost constraints when its preferences were relaxed.
        """
        for group in self.groups.values():
            group.owners.discard(pod.key)
        self._update_inverse_affinity(pod, {})

        constraints = tuple(
            self._expand_match_label_keys(constraint, pod) if self._is_enforced(constraint) else constraint
            for constraint in pod.spec.topology_spread_constraints
        )
        if constraints != pod.spec.topology_spread_constraints:
            pod = replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))

        for rule in (*self._iter_spread_rules(pod), *self._iter_affinity_rules(pod)):
            identity = rule.identity
            if identity not in self.groups:
                self.groups[identity] = self._build_group(rule, pod)
                self._count_domains(self.groups[identity])
            self.groups[identity].owners.add(pod.key)
        return pod

    def register(self, hosts: Collection[str]) -> None:
        """Add the hostnames of new nodes as domains of the hostname groups."""
        for group in (*self.groups.values(), *self.inverse.values()):
            if group.rule.key == HOSTNAME:
                group.register(hosts)

    def record(self, pod: Pod, taints: Sequence[Taint], requirements: Requirements) -> None:
        """Count a pod that is placed on a node with these taints and requirements."""
        for group in self.groups.values():
            domains = requirements.label(group.rule.key)
            is_single_domain = domains.operator == IN and len(domains.values) == 1
            if (is_single_domain or group.rule.type is TopologyType.ANTI_AFFINITY) and group.rule.counts(
                pod, taints, requirements
            ):
                group.record(domains.values)
        for group in self.inverse.values():
            if pod.key in group.owners:
                group.record(requirements.label(group.rule.key).values)

    def add_requirements(
        self, pod: Pod, taints: Sequence[Taint], pod_requirements: Requirements, node_requirements: Requirements
    ) -> Requirements | TopologyRefusal:
        """Narrow a node's requirements to the domains that the pod allows, or return why none is left."""
        narrowed = Requirements(node_requirements)
        for group in self._find_matching_groups(pod, taints, node_requirements):
            key = group.rule.key
            pod_domains, node_domains = pod_requirements.label(key), node_requirements.label(key)
            allowed = group.find_allowed_domains(pod, pod_domains, node_domains)
            if not allowed.values:
                empty_label = key if group.is_blocked_by_empty_value(pod, pod_domains, node_domains) else ""
                return TopologyRefusal(group.describe_refusal(pod_domains, node_domains), empty_label)
            narrowed.add((allowed,))
        return narrowed

    def iter_domain_predicates(
        self, pod: Pod, pod_requirements: Requirements
    ) -> Iterator[tuple[str, Callable[[str], bool]]]:
        """Yield each topology key of the pod's constraints, with a predicate of the allowed domains.

        Constraints on hostnames are left out.
        """
        for group in self.groups.values():
            if pod.key in group.owners and group.rule.key != HOSTNAME:
                yield group.rule.key, partial(group.allows_domain, pod, pod_requirements.label(group.rule.key))

    def _find_matching_groups(
        self, pod: Pod, taints: Sequence[Taint], node_requirements: Requirements
    ) -> list[TopologyGroup]:
        """Return the groups of the pod's constraints and the inverse groups that select the pod."""
        owned = [group for group in self.groups.values() if pod.key in group.owners]
        return owned + [group for group in self.inverse.values() if group.rule.counts(pod, taints, node_requirements)]

    def _is_enforced(self, constraint: TopologySpreadConstraint) -> bool:
        """Return whether the spread constraint counts under the preference policy."""
        return not self.ignores_preferences or constraint.when_unsatisfiable == "DoNotSchedule"

    @staticmethod
    def _expand_match_label_keys(constraint: TopologySpreadConstraint, pod: Pod) -> TopologySpreadConstraint:
        """Return the constraint with its matchLabelKeys as expressions of its selector."""
        labels = pod.metadata.labels
        expressions = tuple(
            SelectorRequirement(k, IN, (labels[k],)) for k in constraint.match_label_keys if k in labels
        )
        selector = constraint.label_selector
        if not expressions or selector is None:
            return constraint
        return replace(
            constraint, label_selector=replace(selector, match_expressions=(*selector.match_expressions, *expressions))
        )

    def _iter_spread_rules(self, pod: Pod) -> Iterable[TopologyRule]:
        """Yield a rule for each spread constraint of the pod."""
        for constraint in pod.spec.topology_spread_constraints:
            if self._is_enforced(constraint):
                yield TopologyRule(
                    TopologyType.SPREAD,
                    constraint.topology_key,
                    frozenset((pod.metadata.namespace,)),
                    selector=_parse_selector(constraint.label_selector),
                    label_selector=constraint.label_selector,
                    nodes=TopologyNodeFilter.from_pod(
                        pod, constraint.node_affinity_policy, constraint.node_taints_policy
                    ),
                    max_skew=constraint.max_skew,
                    min_domains=constraint.min_domains,
                )

    def _iter_affinity_rules(self, pod: Pod) -> Iterable[TopologyRule]:
        """Yield a rule for each affinity and anti-affinity term of the pod."""
        affinity = pod.spec.affinity
        if affinity is None:
            return
        both = (
            (TopologyType.AFFINITY, affinity.pod_affinity),
            (TopologyType.ANTI_AFFINITY, affinity.pod_anti_affinity),
        )
        for type, terms in both:
            if terms is None:
                continue
            for term in terms.required_during_scheduling_ignored_during_execution:
                yield self._build_affinity_rule(type, term, pod)
            if not self.ignores_preferences:
                for weighted_term in terms.preferred_during_scheduling_ignored_during_execution:
                    yield self._build_affinity_rule(type, weighted_term.pod_affinity_term, pod)

    def _build_affinity_rule(self, type: TopologyType, term: PodAffinityTerm, pod: Pod) -> TopologyRule:
        """Build the rule of an affinity term."""
        selector = _parse_selector(term.label_selector)
        return TopologyRule(type, term.topology_key, self._find_namespaces(term, pod), selector, term.label_selector)

    def _find_namespaces(self, term: PodAffinityTerm, pod: Pod) -> frozenset[str]:
        """Return the namespaces that an affinity term selects."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (pod.metadata.namespace,))
        selector = selector_from_api(term.namespace_selector)
        return frozenset(term.namespaces).union(n for n, labels in self.namespaces.items() if selector.matches(labels))

    def _update_inverse_affinity(self, pod: Pod, labels: Mapping[str, str]) -> None:
        """Record the pod's required anti-affinity, which keeps other pods away from its node."""
        for term in get_required_anti_affinity(pod):
            rule = self._build_affinity_rule(TopologyType.ANTI_AFFINITY, term, pod)
            identity = rule.identity
            if identity not in self.inverse:
                self.inverse[identity] = self._build_group(rule, pod)
            if rule.key in labels:
                self.inverse[identity].record((labels[rule.key],))
            self.inverse[identity].owners.add(pod.key)

    def _build_group(self, rule: TopologyRule, pod: Pod) -> TopologyGroup:
        """Build a group with the domains of the pools.

        If the rule honors taints, only domains of pools whose taints the pod tolerates are added.
        """
        group = TopologyGroup(rule, {})
        for domain, pools in self.domains.get(rule.key, {}).items():
            if rule.nodes.taints_policy == IGNORE or any(_tolerates_taints(pod, taints) for taints in pools):
                group.register((domain,))
        return group

    def _count_domains(self, group: TopologyGroup) -> None:
        """Add the existing nodes' domains and the pods in them to the group."""
        counts = self.counts.count_nodes_and_pods(group.rule, self.removed_nodes, self.excluded.values())
        group.register(counts.nodes)
        for domain, count in counts.pods.items():
            group.record((domain,), count)


def _parse_selector(label_selector: LabelSelector | None) -> Selector:
    """Parse a selector. An invalid selector matches nothing."""
    try:
        return selector_from_api(label_selector)
    except SelectorError:
        return NOTHING


def _tolerates_taints(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates all taints."""
    return all(is_tolerated(pod.spec.tolerations, taint, comparison_operators=True) for taint in taints)
