"""The descheduler plugin RemovePodsViolatingTopologySpreadConstraint.

Only evictable pods count. Where upstream iterates over a Go map or has no order, pods come by node, namespace and name.
Upstream: pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.objects import LabelSelector, Pod, SelectorRequirement, TopologySpreadConstraint
from kschedctl.descheduling.arguments import RemovePodsViolatingTopologySpreadConstraintArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.snapshot.nodes import match_tolerations

HONOR, IGNORE = "Honor", "Ignore"
DEFAULT_CONSTRAINTS = ("DoNotSchedule",)


class SpreadRule(NamedTuple):
    """A topology spread constraint in a namespace."""

    max_skew: int
    key: str
    matching: Bools
    """The PodInfos whose pods the constraint counts, as a (T,) mask."""
    eligible: Bools
    """The nodes of its domains, as an (N,) mask."""


class RemovePodsViolatingTopologySpreadConstraint(DeschedulerPlugin[RemovePodsViolatingTopologySpreadConstraintArgs]):
    """A plugin that evicts pods from large domains, as many as would have to move for balance."""

    name = "RemovePodsViolatingTopologySpreadConstraint"

    def run(self) -> None:
        """Evict the surplus pods of all domains, for each spread constraint whose maxSkew is exceeded."""
        selected = self.seen.select_matching_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable_pods(selected, pre_eviction=False)
        surplus_positions: set[int] = set()
        for rule in self._iter_spread_rules(positions):
            pods_by_domain = self._group_pods_by_domain(rule, positions)
            sizes = [len(pods) for pods in pods_by_domain.values()]
            if sizes and max(sizes) - min(sizes) > rule.max_skew:
                surplus_positions.update(_Balancing(self, rule, pods_by_domain).move_surplus_pods())
        self._evict_pods_at(surplus_positions)

    def _group_pods_by_domain(self, rule: SpreadRule, positions: Rows) -> dict[int, Rows]:
        """Return the positions of the pods that a rule counts, by domain, in ascending order of domain codes.

        A domain's code is the code of its label value. Domains of eligible nodes that have no counted pods are
        included. Pods on nodes without the label are left out.
        """
        is_matching = rule.matching[self.seen.info[positions]]
        matching = positions[is_matching]
        code_by_row = self.view.nodes.label(rule.key).codes
        codes_of_matching = code_by_row[self.view.node[matching]]
        has_label = codes_of_matching >= 0
        counted, codes = matching[has_label], codes_of_matching[has_label]
        domains = np.union1d(self._find_domain_codes(rule), codes)
        return {int(domain): counted[codes == domain] for domain in domains}

    def _evict_pods_at(self, positions: Collection[int]) -> None:
        """Evict the pods at these positions, node by node, except pods that PreEvictionFilter rejects."""
        is_selected = np.isin(np.arange(len(self.view.pods)), list(positions))
        sorted_positions = self.seen.list_positions_by_node(is_selected)
        passes_filter = self.current_round.evictor.find_pods_passing_pre_eviction(sorted_positions)
        self.evict_node_by_node(sorted_positions[passes_filter].tolist())

    def _find_domain_codes(self, rule: SpreadRule) -> Rows:
        """Return the codes of the domains of a rule's eligible nodes, in ascending order."""
        codes = self.view.nodes.label(rule.key).codes[rule.eligible].astype(np.int64)
        return np.unique(codes[codes >= 0])

    # -- constraints -------------------------------------------------------------------------------------------------

    def _iter_spread_rules(self, positions: Rows) -> Iterator[SpreadRule]:
        """Yield the distinct spread constraints of the pods at these positions as rules.

        Constraints that the arguments do not select and constraints with an invalid selector are left out.
        """
        seen_rules: set[tuple[object, ...]] = set()
        for info_number in np.unique(self.seen.info[positions]).tolist():
            pod = self.seen.infos[info_number].pod
            for constraint in pod.spec.topology_spread_constraints:
                if constraint.when_unsatisfiable not in (self.arguments.constraints or DEFAULT_CONSTRAINTS):
                    continue
                rule = self._build_spread_rule(constraint, pod, info_number)
                if rule is None:
                    continue
                # arrays cannot be hashed, so the bytes of the masks stand for the pods and nodes
                masks = rule.matching.tobytes(), rule.eligible.tobytes()
                identity = (pod.metadata.namespace, rule.max_skew, rule.key, *masks)
                if identity not in seen_rules:
                    seen_rules.add(identity)
                    yield rule

    def _build_spread_rule(self, constraint: TopologySpreadConstraint, pod: Pod, info_number: int) -> SpreadRule | None:
        """Build the rule of a pod's spread constraint, or return None if its selector is invalid.

        The eligible nodes are the ready nodes. Depending on the constraint's policies, they must also match the pod's
        affinity and tolerations.
        """
        try:
            selector = selector_from_api(_add_match_label_keys(constraint, pod))
        except SelectorError:
            return None
        matching = self.view.pods.match_infos(selector, frozenset((pod.metadata.namespace,)))
        eligible = self.seen.ready.copy()
        if (constraint.node_affinity_policy or HONOR) == HONOR:
            eligible &= self.current_round.fit.find_affinity_nodes(info_number)
        if (constraint.node_taints_policy or IGNORE) == HONOR:
            eligible &= match_tolerations(self.view.nodes, pod.spec.tolerations, comparison_operators=True)
        return SpreadRule(
            max_skew=constraint.max_skew, key=constraint.topology_key, matching=matching, eligible=eligible
        )


def _add_match_label_keys(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """Return the constraint's selector with the pod's values of its matchLabelKeys, or None without a selector."""
    selector, labels = constraint.label_selector, pod.metadata.labels
    if selector is None:
        return None
    requirements = tuple(
        SelectorRequirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels
    )
    return LabelSelector(selector.match_labels, (*selector.match_expressions, *requirements))


class _Balancing:
    """A plan that balances the domains of one rule.

    ``pods_by_domain`` has the positions of the pods in each domain.
    """

    def __init__(
        self,
        plugin: RemovePodsViolatingTopologySpreadConstraint,
        rule: SpreadRule,
        pods_by_domain: Mapping[int, Rows],
    ) -> None:
        self.plugin, self.rule = plugin, rule
        self.ideal = sum(len(pods) for pods in pods_by_domain.values()) / len(pods_by_domain)
        """The average number of pods per domain."""
        self.domains = [self._sort_for_eviction(pods) for pods in sorted(pods_by_domain.values(), key=len)]
        """The positions of the pods in each domain, the smallest domain first."""
        small_domains = [domain for domain, pods in pods_by_domain.items() if len(pods) < self.ideal]
        codes = plugin.view.nodes.label(rule.key).codes
        self.small_domain_nodes = rule.eligible & np.isin(codes, small_domains)
        """The eligible nodes in domains below the average, as an (N,) mask."""

    def _sort_for_eviction(self, positions: Rows) -> list[int]:
        """Return the positions sorted so that the pods to evict first come last.

        Pods without node selector and node affinity are evicted before other pods. Within both kinds, pods of higher
        priority are evicted first.
        """
        infos, info_numbers = self.plugin.seen.infos, self.plugin.seen.info

        def get_sort_key(position: int) -> tuple[bool, float]:
            """Return whether a pod may use any node, and its priority. A missing priority is the lowest."""
            spec = infos[info_numbers[position]].spec
            has_node_affinity = spec.affinity is not None and spec.affinity.node_affinity is not None
            may_use_any_node = not spec.node_selector and not has_node_affinity
            priority = -math.inf if spec.priority is None else spec.priority
            return may_use_any_node, priority

        return sorted(positions.tolist(), key=get_sort_key)

    def move_surplus_pods(self) -> Iterator[int]:
        """Move surplus pods from large to small domains in ``domains``, and yield the positions of the pods to evict.

        If topologyBalanceNodeFit is set, a pod that fits in no small domain is not evicted. As in upstream, it still
        counts as moved.
        """
        requires_fit = self.plugin.arguments.topology_balance_node_fit
        small, large = 0, len(self.domains) - 1  # indexes into `domains`, which were sorted by size
        while small < large:
            # A domain at the average gives no more pods away
            if len(self.domains[large]) <= self.ideal:
                large -= 1
            count = self._count_pods_to_move(len(self.domains[small]), len(self.domains[large]))
            if count <= 0:
                small += 1
                continue

            fits = self._find_pods_fitting_in_small_domains(self.domains[large])
            fitting_last = sorted(self.domains[large], key=lambda position: fits[position])
            moved = fitting_last[-count:]
            yield from (position for position in moved if fits[position] or not requires_fit)
            self.domains[large] = fitting_last[:-count]
            self.domains[small] += moved

    def _count_pods_to_move(self, small_size: int, large_size: int) -> int:
        """Return how many pods should move from a large domain to a small one, given the domains' sizes.

        The number is limited by how far either domain is from the average, rounded up. It is 0 if the skew is allowed,
        and may be negative if a domain is already past the average.
        """
        skew = large_size - small_size
        max_skew = self.rule.max_skew
        if skew <= max_skew:
            return 0
        above_average = math.ceil(large_size - self.ideal)
        below_average = math.ceil(self.ideal - small_size)
        return min(above_average, below_average, math.ceil((skew - max_skew) / 2))

    def _find_pods_fitting_in_small_domains(self, positions: Sequence[int]) -> dict[int, bool]:
        """Return, by position, whether each pod fits on another node in a domain below the average."""
        fit = self.plugin.current_round.fit
        fits = fit.find_pods_fitting_elsewhere(np.array(positions, np.int64), self.small_domain_nodes)
        return dict(zip(positions, fits.tolist(), strict=True))
