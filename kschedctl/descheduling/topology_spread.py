"""Pods in domains that have more of them than topology spread constraints allow.

Upstream: pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint. Of the pods only those count that may be
evicted. Where upstream's order is that of a Go map, or none, pods come by node, namespace and name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.objects import LabelSelector, Pod, SelectorRequirement, TopologySpreadConstraint
from kschedctl.descheduling.arguments import RemovePodsViolatingTopologySpreadConstraintArgs
from kschedctl.descheduling.plugin import DeschedulerPlugin
from kschedctl.snapshot.node_masks import find_tolerated

HONOR, IGNORE = "Honor", "Ignore"
BY_DEFAULT = ("DoNotSchedule",)


class SpreadRule(NamedTuple):
    """A constraint in a namespace: ``about`` (T,), the infos that it counts; ``eligible`` (N,), the nodes that are of
    its domains.
    """

    max_skew: int
    key: str
    about: Bools
    eligible: Bools


class RemovePodsViolatingTopologySpreadConstraint(DeschedulerPlugin[RemovePodsViolatingTopologySpreadConstraintArgs]):
    """As few pods leave large domains as would make all even, if they went to small ones."""

    name = "RemovePodsViolatingTopologySpreadConstraint"

    def run(self) -> None:
        chosen = self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(chosen, finally_too=False)
        leaving: dict[int, None] = {}
        for rule in self._rules(positions):
            counted = positions[rule.about[self.seen.info[positions]]]
            codes = self.view.nodes.label(rule.key).codes[self.view.node[counted]]
            counted, codes = counted[codes >= 0], codes[codes >= 0]
            domains = np.union1d(self._domains(rule), codes)
            sizes = np.bincount(np.searchsorted(domains, codes), minlength=len(domains))
            if len(domains) and int(sizes.max() - sizes.min()) > rule.max_skew:
                members = [(int(domain), counted[codes == domain]) for domain in domains]
                leaving |= dict.fromkeys(_Balance(self, rule, members).leaving())
        self._evict_all(leaving)

    def _evict_all(self, leaving: Iterable[int]) -> None:
        pods = self.seen.by_node(np.isin(np.arange(len(self.view.pods)), list(leaving)))
        self.evict_node_by_node(pods[self.here.evictor.passes(pods)].tolist())

    def _domains(self, rule: SpreadRule) -> Rows:
        codes = self.view.nodes.label(rule.key).codes[rule.eligible].astype(np.int64)
        return np.unique(codes[codes >= 0])

    # -- constraints -------------------------------------------------------------------------------------------------

    def _rules(self, positions: Rows) -> Iterator[SpreadRule]:
        """The different ones of pods that count, by namespace."""
        known: set[tuple[object, ...]] = set()
        for number in np.unique(self.seen.info[positions]).tolist():
            pod = self.seen.infos[number].pod
            for constraint in pod.spec.topology_spread_constraints:
                if constraint.when_unsatisfiable not in (self.arguments.constraints or BY_DEFAULT):
                    continue
                rule = self._rule(constraint, pod, number)
                if rule is None:
                    continue
                same = pod.metadata.namespace, rule.max_skew, rule.key, rule.about.tobytes(), rule.eligible.tobytes()
                if same not in known:
                    known.add(same)
                    yield rule

    def _rule(self, constraint: TopologySpreadConstraint, pod: Pod, number: int) -> SpreadRule | None:
        """None for one whose selector cannot be read."""
        try:
            selector = selector_from_api(_with_own_labels(constraint, pod))
        except SelectorError:
            return None
        about = self.view.pods.matching(selector, frozenset((pod.metadata.namespace,)))
        eligible = self.seen.ready.copy()
        if (constraint.node_affinity_policy or HONOR) == HONOR:
            eligible &= self.here.fit.allowed(number)
        if (constraint.node_taints_policy or IGNORE) == HONOR:
            eligible &= find_tolerated(self.view.nodes, pod.spec.tolerations, comparison_operators=True)
        return SpreadRule(constraint.max_skew, constraint.topology_key, about, eligible)


def _with_own_labels(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The selector with the pod's values of ``matchLabelKeys``."""
    selector, labels = constraint.label_selector, pod.metadata.labels
    if selector is None:
        return None
    own = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels)
    return LabelSelector(selector.match_labels, (*selector.match_expressions, *own))


class _Balance:
    """What leaves the domains (their codes and pods) of a rule."""

    def __init__(
        self,
        plugin: RemovePodsViolatingTopologySpreadConstraint,
        rule: SpreadRule,
        members: Sequence[tuple[int, Rows]],
    ) -> None:
        self.plugin, self.rule = plugin, rule
        by_size = sorted(members, key=lambda domain: len(domain[1]))
        self.ideal = sum(len(pods) for _, pods in members) / len(members)
        self.domains = [self._in_order(pods) for _, pods in by_size]
        small = [code for code, pods in by_size if len(pods) < self.ideal]
        codes = plugin.view.nodes.label(rule.key).codes
        self.below = rule.eligible & np.isin(codes, small)

    def _in_order(self, positions: Rows) -> list[int]:
        """Those that go first stand last: without node selector and node affinity, and of high priority."""
        infos, info = self.plugin.seen.infos, self.plugin.seen.info

        def place(position: int) -> tuple[bool, float]:
            spec = infos[info[position]].spec
            bound = bool(spec.node_selector) or (spec.affinity is not None and spec.affinity.node_affinity is not None)
            return not bound, -math.inf if spec.priority is None else spec.priority

        return sorted(positions.tolist(), key=place)

    def leaving(self) -> Iterator[int]:
        """The pods that leave one domain after the other."""
        small, large = 0, len(self.domains) - 1
        while small < large:
            if len(self.domains[large]) <= self.ideal:
                large -= 1
            count = self._how_many(len(self.domains[small]), len(self.domains[large]))
            if count <= 0:
                small += 1
                continue
            fits = self._fits(self.domains[large])
            ordered = sorted(self.domains[large], key=lambda position: fits[position])
            going = ordered[-count:]
            yield from (p for p in going if fits[p] or not self.plugin.arguments.topology_balance_node_fit)
            self.domains[large] = ordered[:-count]
            self.domains[small] += going

    def _how_many(self, small: int, large: int) -> int:
        """How many pods go from a large domain to a small one; nothing where that is within the skew."""
        skew, most = large - small, self.rule.max_skew
        if skew <= most:
            return 0
        above, below = math.ceil(large - self.ideal), math.ceil(self.ideal - small)
        return min(above, below, math.ceil((skew - most) / 2))

    def _fits(self, positions: Sequence[int]) -> dict[int, bool]:
        """Whether each would fit on another node of a small domain."""
        fits = self.plugin.here.fit.any_other(np.array(positions, np.int64), self.below)
        return dict(zip(positions, fits.tolist(), strict=True))
