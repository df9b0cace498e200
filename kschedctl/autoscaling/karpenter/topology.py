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
from kschedctl.autoscaling.karpenter.topology_group import (
    IGNORE,
    DomainTallies,
    TopologyGroup,
    TopologyNodeFilter,
    TopologyRule,
    TopologyType,
    get_required_anti_affinity,
)
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns

Domains = dict[str, list[tuple[Taint, ...]]]
"""Domain -> the taints of each pool that has it; a pool without taints stands for all."""
NamespaceLabels = Mapping[str, Mapping[str, str]]


def build_topology_domains(pools: Sequence[NodePool], columns: Mapping[str, TypeColumns]) -> dict[str, Domains]:
    """Return, by label, the topology domains in which the pools may launch nodes.

    ``columns`` has the instance types by pool. Pools without instance types add no domains.
    """
    domains: dict[str, Domains] = {}
    for pool in pools:
        taints = pool.spec.template.spec.taints
        own_requirements = build_pool_requirements(pool)
        types = columns[pool.metadata.name].types if pool.metadata.name in columns else ()
        for instance_type in types:
            for key, requirement in own_requirements.combined_with(instance_type.requirements).items():
                _add_pool_domains(domains.setdefault(key, {}), requirement.values, taints)
        # as upstream, also values of the pool that no instance type has
        for key, requirement in own_requirements.items():
            if types and requirement.operator == IN:
                _add_pool_domains(domains.setdefault(key, {}), requirement.values, taints)
    return domains


def _add_pool_domains(domains: Domains, values: Iterable[str], taints: tuple[Taint, ...]) -> None:
    """Add to ``domains`` a pool's values of a label, with the pool's taints.

    A pool without taints replaces all other pools of a domain, because every pod can use it.
    """
    for value in values:
        pool_taints = domains.get(value)
        if pool_taints is None or not taints:
            domains[value] = [taints]
        elif pool_taints != [()] and taints not in pool_taints:  # [()] stands for a pool without taints
            pool_taints.append(taints)


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
    """True if soft constraints are ignored."""
    groups: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    """Groups of the constraints of pods to be placed, by identity."""
    inverse: dict[Hashable, TopologyGroup] = field(default_factory=dict)
    """Groups of required anti-affinities by identity, which keep other pods away."""

    def __post_init__(self) -> None:
        for pod, state in self.counts.pods_with_anti_affinity:
            if pod.key not in self.excluded and state.node is not None:
                self._record_anti_affinity(pod, state.node.metadata.labels)

    def assign_to_groups(self, pod: Pod) -> Pod:
        """Assign the pod to the groups of its topology constraints, and return it with its matchLabelKeys expanded.

        New groups are created with the counts of existing pods. Earlier assignments are removed, because the pod may
        have lost constraints when its preferences were relaxed.
        """
        for group in self.groups.values():
            group.owners.discard(pod.key)
        # Without node labels, because the pod has no node yet
        self._record_anti_affinity(pod, labels={})

        constraints = tuple(
            self._expand_match_label_keys(constraint, pod) if self._is_constraint_enforced(constraint) else constraint
            for constraint in pod.spec.topology_spread_constraints
        )
        if constraints != pod.spec.topology_spread_constraints:
            pod = replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))

        for rule in (*self._iter_spread_rules(pod), *self._iter_affinity_rules(pod)):
            identity = rule.identity
            if identity not in self.groups:
                self.groups[identity] = self._build_empty_group(rule, pod)
                self._add_existing_nodes_and_pods(self.groups[identity])
            self.groups[identity].owners.add(pod.key)
        return pod

    def register_hosts(self, hosts: Collection[str]) -> None:
        """Add the hostnames of new nodes as domains of the hostname groups."""
        for group in (*self.groups.values(), *self.inverse.values()):
            if group.rule.key == HOSTNAME:
                group.add_domains(hosts)

    def record_placement(self, pod: Pod, taints: Sequence[Taint], requirements: Requirements) -> None:
        """Count a placed pod in the domains of all groups that match it.

        ``taints`` and ``requirements`` are those of the pod's node. If the node may be in several domains, the pod
        counts in all of them for anti-affinity, and in none of them for other constraints.
        """
        for group in self.groups.values():
            domains = requirements.get_requirement(group.rule.key)
            is_single_domain = domains.operator == IN and len(domains.values) == 1
            has_countable_domains = is_single_domain or group.rule.type is TopologyType.ANTI_AFFINITY
            if has_countable_domains and group.rule.counts_pod(pod, taints, requirements):
                group.add_pods(domains.values)
        for group in self.inverse.values():
            if pod.key in group.owners:
                group.add_pods(requirements.get_requirement(group.rule.key).values)

    def narrow_requirements(
        self, pod: Pod, taints: Sequence[Taint], pod_requirements: Requirements, node_requirements: Requirements
    ) -> Requirements | TopologyRefusal:
        """Return a node's requirements, narrowed to the domains in which the pod's constraints allow the pod.

        ``taints`` are the node's taints. If a constraint leaves no domain, return a refusal.
        """
        narrowed = Requirements(node_requirements)
        for group in self._find_matching_groups(pod, taints, node_requirements):
            key = group.rule.key
            pod_domains, node_domains = pod_requirements.get_requirement(key), node_requirements.get_requirement(key)
            allowed = group.find_allowed_domains(pod, pod_domains, node_domains)
            if not allowed.values:
                empty_label = key if group.is_blocked_by_empty_value(pod, pod_domains, node_domains) else ""
                return TopologyRefusal(group.describe_refusal(pod_domains, node_domains), empty_label)
            narrowed.add((allowed,))
        return narrowed

    def iter_domain_predicates(
        self, pod: Pod, pod_requirements: Requirements
    ) -> Iterator[tuple[str, Callable[[str], bool]]]:
        """Yield each topology key of the pod's constraints, with a predicate that says whether a domain is allowed.

        Constraints on hostnames are left out.
        """
        for group in self.groups.values():
            key = group.rule.key
            if pod.key in group.owners and key != HOSTNAME:
                yield key, partial(group.allows_domain, pod, pod_requirements.get_requirement(key))

    def _find_matching_groups(
        self, pod: Pod, taints: Sequence[Taint], node_requirements: Requirements
    ) -> list[TopologyGroup]:
        """Return the groups of the pod's own constraints, then other pods' anti-affinity groups that match the pod."""
        own_groups = [group for group in self.groups.values() if pod.key in group.owners]
        opposing_groups = [
            group for group in self.inverse.values() if group.rule.counts_pod(pod, taints, node_requirements)
        ]
        return own_groups + opposing_groups

    def _is_constraint_enforced(self, constraint: TopologySpreadConstraint) -> bool:
        """Return whether the spread constraint applies: it is hard, or preferences are not ignored."""
        return not self.ignores_preferences or constraint.when_unsatisfiable == "DoNotSchedule"

    @staticmethod
    def _expand_match_label_keys(constraint: TopologySpreadConstraint, pod: Pod) -> TopologySpreadConstraint:
        """Return the constraint with the pod's values of its matchLabelKeys added to its selector.

        A constraint without a selector is returned unchanged.
        """
        labels = pod.metadata.labels
        added = tuple(
            SelectorRequirement(key, IN, (labels[key],)) for key in constraint.match_label_keys if key in labels
        )
        selector = constraint.label_selector
        if not added or selector is None:
            return constraint
        expanded_selector = replace(selector, match_expressions=(*selector.match_expressions, *added))
        return replace(constraint, label_selector=expanded_selector)

    def _iter_spread_rules(self, pod: Pod) -> Iterable[TopologyRule]:
        """Yield a rule for each spread constraint of the pod that applies."""
        for constraint in pod.spec.topology_spread_constraints:
            if self._is_constraint_enforced(constraint):
                yield TopologyRule(
                    TopologyType.SPREAD,
                    constraint.topology_key,
                    frozenset((pod.metadata.namespace,)),
                    selector=_parse_label_selector(constraint.label_selector),
                    label_selector=constraint.label_selector,
                    nodes=TopologyNodeFilter.from_pod(
                        pod, constraint.node_affinity_policy, constraint.node_taints_policy
                    ),
                    max_skew=constraint.max_skew,
                    min_domains=constraint.min_domains,
                )

    def _iter_affinity_rules(self, pod: Pod) -> Iterable[TopologyRule]:
        """Yield a rule for each affinity and anti-affinity term of the pod.

        Preferred terms are left out if preferences are ignored.
        """
        affinity = pod.spec.affinity
        if affinity is None:
            return
        affinities = (
            (TopologyType.AFFINITY, affinity.pod_affinity),
            (TopologyType.ANTI_AFFINITY, affinity.pod_anti_affinity),
        )
        for type, terms in affinities:
            if terms is None:
                continue
            for term in terms.required_during_scheduling_ignored_during_execution:
                yield self._build_affinity_rule(type, term, pod)
            if not self.ignores_preferences:
                for weighted_term in terms.preferred_during_scheduling_ignored_during_execution:
                    yield self._build_affinity_rule(type, weighted_term.pod_affinity_term, pod)

    def _build_affinity_rule(self, type: TopologyType, term: PodAffinityTerm, pod: Pod) -> TopologyRule:
        """Build the rule of an affinity or anti-affinity term of the pod."""
        selector = _parse_label_selector(term.label_selector)
        return TopologyRule(
            type,
            term.topology_key,
            self._resolve_term_namespaces(term, pod),
            selector=selector,
            label_selector=term.label_selector,
        )

    def _resolve_term_namespaces(self, term: PodAffinityTerm, pod: Pod) -> frozenset[str]:
        """Return the namespaces to which an affinity term applies: those it lists and those its selector matches.

        Without both, it applies to the pod's namespace.
        """
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (pod.metadata.namespace,))
        selector = selector_from_api(term.namespace_selector)
        selected_names = (name for name, labels in self.namespaces.items() if selector.matches(labels))
        return frozenset(term.namespaces).union(selected_names)

    def _record_anti_affinity(self, pod: Pod, labels: Mapping[str, str]) -> None:
        """Record the pod in the inverse groups of its required anti-affinity, which keeps other pods away.

        ``labels`` are the labels of the pod's node, or {} if the pod is not placed yet.
        """
        for term in get_required_anti_affinity(pod):
            rule = self._build_affinity_rule(TopologyType.ANTI_AFFINITY, term, pod)
            identity = rule.identity
            if identity not in self.inverse:
                self.inverse[identity] = self._build_empty_group(rule, pod)
            if rule.key in labels:
                self.inverse[identity].add_pods((labels[rule.key],))
            self.inverse[identity].owners.add(pod.key)

    def _build_empty_group(self, rule: TopologyRule, pod: Pod) -> TopologyGroup:
        """Build a group without pods that has the domains in which the pools may launch nodes.

        If the rule honors taints, only domains of pools whose taints the pod tolerates are added.
        """
        group = TopologyGroup(rule, domains={})
        for domain, taints_by_pool in self.domains.get(rule.key, {}).items():
            ignores_taints = rule.nodes.taints_policy == IGNORE
            if ignores_taints or any(_tolerates_all_taints(pod, taints) for taints in taints_by_pool):
                group.add_domains((domain,))
        return group

    def _add_existing_nodes_and_pods(self, group: TopologyGroup) -> None:
        """Add the domains of existing nodes, and the number of pods in each, to the group."""
        counts = self.counts.count_nodes_and_pods(group.rule, self.removed_nodes, self.excluded.values())
        group.add_domains(counts.nodes)
        for domain, count in counts.pods.items():
            group.add_pods((domain,), count)


def _parse_label_selector(label_selector: LabelSelector | None) -> Selector:
    """Parse a label selector. An invalid selector is parsed to one that matches nothing."""
    try:
        return selector_from_api(label_selector)
    except SelectorError:
        return NOTHING


def _tolerates_all_taints(pod: Pod, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates all taints."""
    return all(is_tolerated(pod.spec.tolerations, taint, comparison_operators=True) for taint in taints)
