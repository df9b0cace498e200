"""The spread constraints of a pod, its own or the profile's defaults, and the nodes that they include.

Upstream: plugins/podtopologyspread/common.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.labels import Requirement, Selector, build_selector, selector_from_api, selector_from_set
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.scheduler.plugins.pod_topology_spread.default_selector import build_default_selector
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE
from kschedctl.snapshot.nodes import find_tolerated, match_required_affinity
from kschedctl.snapshot.pod_info import PodInfo

NAME = "PodTopologySpread"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
"""Upstream's constraints for pods of a Service or controller that have no constraints of their own."""


class SpreadConstraint(NamedTuple):
    """A constraint with a complete selector and defaulted policies."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def selects(self, info: PodInfo) -> bool:
        """Return whether the selector matches the pod's labels, whatever its namespace."""
        return self.selector.matches(info.labels)


class SpreadSettings(msgspec.Struct, frozen=True):
    """Everything in a profile and its feature gates that affects spread constraints."""

    defaults: tuple[TopologySpreadConstraint, ...]
    """The constraints of pods that have none of their own."""
    system_defaulted: bool
    """Whether the defaults are SYSTEM_CONSTRAINTS."""
    match_label_keys: bool
    inclusion_policies: bool
    comparison_operators: bool

    def constraints(self, info: PodInfo, view: Fork, action: str) -> list[SpreadConstraint]:
        """Return the pod's constraints with this action, or the profile's defaults. Raises SelectorError."""
        return view.memo_of_pods((NAME, action), lambda: self._resolve_constraints(info, view, action), info)

    def _resolve_constraints(self, info: PodInfo, view: Fork, action: str) -> list[SpreadConstraint]:
        """Return the pod's constraints with this action, or the profile's defaults, uncached. Raises SelectorError."""
        if info.spec.topology_spread_constraints:
            return self._complete_constraints(info.spec.topology_spread_constraints, info, action)
        constraints = self._complete_constraints(self.defaults, info, action)
        if not constraints:
            return []
        selector = build_default_selector(info, view.objects)
        return [] if selector.selects_everything else [c._replace(selector=selector) for c in constraints]

    def _complete_constraints(
        self, constraints: Sequence[TopologySpreadConstraint], info: PodInfo, action: str
    ) -> list[SpreadConstraint]:
        """Return the constraints with this action, with policies defaulted and selectors completed."""
        policies = self.inclusion_policies
        return [
            SpreadConstraint(
                c.max_skew,
                c.topology_key,
                self._complete_selector(c, info),
                1 if c.min_domains is None else c.min_domains,
                honor_affinity=c.node_affinity_policy != "Ignore" or not policies,
                honor_taints=c.node_taints_policy == "Honor" and policies,
            )
            for c in constraints
            if c.when_unsatisfiable == action
        ]

    def _complete_selector(self, constraint: TopologySpreadConstraint, info: PodInfo) -> Selector:
        """Return the constraint's selector with the requirements of its matchLabelKeys."""
        selector = selector_from_api(constraint.label_selector)
        keys = constraint.match_label_keys if self.match_label_keys else ()
        own_labels = {key: info.labels[key] for key in keys if key in info.labels}
        if not own_labels or selector.matches_nothing:
            return selector
        requirements: tuple[Requirement, ...] = (*selector_from_set(own_labels).requirements, *selector.requirements)
        return build_selector(requirements)

    def included_nodes(self, constraint: SpreadConstraint, info: PodInfo, view: Fork) -> Bools:
        """Return (N,) a mask of the nodes that count by nodeAffinityPolicy and nodeTaintsPolicy."""
        included = np.ones(len(view.nodes), np.bool_)
        if constraint.honor_affinity:
            included &= match_required_affinity(view.nodes, compile_required_node_affinity(info.spec))
        if constraint.honor_taints:
            included &= find_tolerated(view.nodes, info.spec.tolerations, self.comparison_operators)
        return included
