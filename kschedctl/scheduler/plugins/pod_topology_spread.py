"""PodTopologySpread: even spreading of like pods over zones, hosts and other topologies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.labels import (
    EVERYTHING,
    Requirement,
    Selector,
    SelectorError,
    from_label_selector,
    from_set,
    selector,
)
from kschedctl.api.node_selector import NodeSelectorError, required_node_affinity
from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.api.tolerations import find_untolerated
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.plugin_args import PodTopologySpreadArgs
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.default_selector import SELECTING_KINDS, default_selector, selecting_kinds
from kschedctl.scheduler.facts import TooSkewed, TopologyLabelMissing
from kschedctl.scheduler.framework import (
    MAX_NODE_SCORE,
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    Bools,
    Code,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Rejection,
    Rows,
    Scores,
    required_state,
)
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.resource_allocation import round_half_away
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE
from kschedctl.snapshot.nodes import Domains, LabelColumn
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.trail import Counts

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
NO_MINIMUM = 2**31 - 1

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
"""What upstream applies to pods of a service or controller that have no constraints of their own."""


class Constraint(NamedTuple):
    """A constraint with its selector complete and its policies defaulted."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def selects(self, info: PodInfo) -> bool:
        return self.selector.matches(info.labels)


@dataclass(frozen=True)
class Spread:
    """One constraint on one cluster: V domains, and of N nodes which domain each is in and whether it counts.

    ``exists`` (V,): the domain has an eligible node; ``counts`` (V,): matching pods on its eligible nodes.
    """

    constraint: Constraint
    column: LabelColumn
    eligible: Bools
    exists: Bools
    counts: Counts

    def matched(self, change: Counts | None) -> tuple[Counts, Counts]:
        """(N,) each: pods in the node's domain, changed by ``change``, and the global minimum then."""
        domain = self.column.codes
        if not self.exists.any():
            return np.zeros(len(domain), np.int64), self._minimum(np.full(len(domain), NO_MINIMUM))
        smallest, runner_up, at = _two_smallest(self.counts, self.exists)
        if change is None:
            here = self.column.at_nodes(np.append(np.where(self.exists, self.counts, 0), 0))
            return here, np.broadcast_to(self._minimum(np.array([smallest])), here.shape)
        known = (domain >= 0) & self.exists[domain]
        here = np.where(known, self.counts[domain] + change, 0)
        elsewhere = np.where(domain == at, runner_up, smallest)
        minimum = np.where(known, np.minimum(elsewhere, here), smallest)
        return here, self._minimum(minimum)

    def _minimum(self, minimum: Counts) -> Counts:
        """With fewer domains than minDomains the global minimum counts as 0."""
        return np.zeros_like(minimum) if self.exists.sum() < self.constraint.min_domains else minimum


class PodTopologySpread(DeclaredPlugin):
    """Rejects nodes in whose domain the pod would exceed a hard constraint's skew, prefers emptier domains.

    Upstream: pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
    """

    name = "PodTopologySpread"
    default_weight = 2
    kinds = SELECTING_KINDS
    args_type = PodTopologySpreadArgs

    def __init__(
        self, args: PodTopologySpreadArgs, match_label_keys: bool, inclusion_policies: bool, comparison_operators: bool
    ) -> None:
        self.system_defaulted = args.defaulting_type == "System"
        self.defaults = SYSTEM_CONSTRAINTS if self.system_defaulted else args.default_constraints
        self.match_label_keys = match_label_keys
        self.inclusion_policies = inclusion_policies
        self.comparison_operators = comparison_operators

    @classmethod
    def make(cls, args: PodTopologySpreadArgs, gates: FeatureGates) -> Self:
        return cls(
            args,
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
            inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        )

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        """Default constraints count the pods that services and the owner select."""
        if info.spec.topology_spread_constraints or not self.defaults:
            return
        hard = any(constraint.when_unsatisfiable == HARD for constraint in self.defaults)
        for kind in selecting_kinds(info):
            yield Lean(kind, Effect.EITHER if hard else Effect.SCORES)

    # -- Filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        try:
            constraints = self.constraints(info, view, HARD)
        except SelectorError as error:
            raise PluginError(f"get constraints from pod: {error}") from None
        if not constraints:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=[self.spread(c, constraints, info, view) for c in constraints])

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        spreads: list[Spread] = required_state(state, 'reading "PreFilterPodTopologySpread" from cycleState: not found')
        passing = np.ones(len(view.nodes), np.bool_)
        for spread in spreads:
            missing = passing & ~spread.column.present
            if missing.any():
                yield Rejection(missing, Code.UNRESOLVABLE, REASON_NO_LABEL, _missing_label(spread))
                passing &= ~missing
            here, minimum = spread.matched(_change(spread, info, view, delta))
            skew = here + spread.constraint.selects(info) - minimum
            uneven = passing & (skew > spread.constraint.max_skew)
            if uneven.any():
                excess = (skew - spread.constraint.max_skew).astype(np.float64)
                yield Rejection(uneven, Code.UNSCHEDULABLE, REASON, _uneven(spread, here, minimum, skew), excess)
                passing &= ~uneven

    def spread(self, constraint: Constraint, among: list[Constraint], info: PodInfo, view: Fork) -> Spread:
        """Count the matching pods in each domain, on the nodes that the constraint's policies include."""
        column = view.nodes.label(constraint.topology_key)

        def eligible() -> tuple[Bools, Bools, Domains]:
            nodes = _has_all_keys(among, view) & self.included(constraint, info, view)
            domains = _less(column, nodes)
            return nodes, column.counts(np.flatnonzero(nodes)) > 0, domains

        key = (self.name, "eligible", constraint)
        nodes, exists, domains = view.memo(key, eligible, info)
        return Spread(constraint, column, nodes, exists, _matching_pods(constraint, info, view, domains, key).copy())

    def included(self, constraint: Constraint, info: PodInfo, view: Fork) -> Bools:
        """(N,): the nodes that count by nodeAffinityPolicy and nodeTaintsPolicy."""
        included = np.ones(len(view.nodes), np.bool_)
        if constraint.honor_affinity:
            required = required_node_affinity(info.spec)

            def match(labels: Any, name: str) -> bool:
                try:
                    return required.match(labels, name)
                except NodeSelectorError:
                    return False

            included &= view.nodes.evaluate(match, required.keys, required.names).astype(np.bool_)
        if constraint.honor_taints:
            taint_sets, taint_set = view.nodes.taint_sets
            tolerable = [
                find_untolerated(
                    taints,
                    info.spec.tolerations,
                    ("NoSchedule", "NoExecute"),
                    comparison_operators=self.comparison_operators,
                )
                is None
                for taints in taint_sets
            ]
            included &= np.array(tolerable, np.bool_)[taint_set]
        return included

    # -- constraints ---------------------------------------------------------------------------------------------

    def constraints(self, info: PodInfo, view: Fork, action: str) -> list[Constraint]:
        """The pod's own constraints with this action, else the profile's defaults. Raises SelectorError."""
        return view.memo((self.name, action), lambda: self._constraints(info, view, action), info)

    def _constraints(self, info: PodInfo, view: Fork, action: str) -> list[Constraint]:
        if info.spec.topology_spread_constraints:
            return self._complete(info.spec.topology_spread_constraints, info, action)
        constraints = self._complete(self.defaults, info, action)
        if not constraints:
            return []
        default = default_selector(info, view.cluster)
        return [] if default.empty else [c._replace(selector=default) for c in constraints]

    def _complete(
        self, constraints: Sequence[TopologySpreadConstraint], info: PodInfo, action: str
    ) -> list[Constraint]:
        policies = self.inclusion_policies
        return [
            Constraint(
                c.max_skew,
                c.topology_key,
                self._selector(c, info),
                1 if c.min_domains is None else c.min_domains,
                honor_affinity=c.node_affinity_policy != "Ignore" or not policies,
                honor_taints=c.node_taints_policy == "Honor" and policies,
            )
            for c in constraints
            if c.when_unsatisfiable == action
        ]

    def _selector(self, constraint: TopologySpreadConstraint, info: PodInfo) -> Selector:
        chosen = from_label_selector(constraint.label_selector)
        keys = constraint.match_label_keys if self.match_label_keys else ()
        own = {key: info.labels[key] for key in keys if key in info.labels}
        if not own or chosen.nothing:
            return chosen
        requirements: tuple[Requirement, ...] = (*from_set(own).requirements, *chosen.requirements)
        return selector(requirements)

    # -- Score ---------------------------------------------------------------------------------------------------

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult:
        try:
            constraints = self.constraints(info, view, SOFT)
        except SelectorError as error:
            raise PluginError(f"obtaining pod's soft topology spread constraints: {error}") from None
        if not constraints:
            return PRE_SCORE_SKIP
        own = bool(info.spec.topology_spread_constraints)
        complete = np.ones(len(view.nodes), np.bool_)
        if own or not self.system_defaulted:
            complete = view.memo((self.name, "complete"), lambda: _has_all_keys(constraints, view), info)
        scored = rows if complete.all() else rows[complete[rows]]
        score = np.zeros(len(view.nodes), np.float64)
        for constraint in constraints:
            score += self._score(constraint, info, view, scored, complete)
        if scored is rows:
            return PreScoreResult((round_half_away(score if rows is view.nodes.rows else score[rows]), None))
        return PreScoreResult((round_half_away(np.where(complete, score, 0.0)[rows]), ~complete[rows]))

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
        scores: Scores = required_state(state, 'error reading "PreScorePodTopologySpread" from cycleState: not found')[
            0
        ]
        return scores

    def normalize(self, state: Any, scores: Scores) -> Scores:
        ignored: Bools | None = state[1]
        counted = scores if ignored is None else scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        smallest, largest = int(counted.min()), max(int(counted.max()), 0)
        if largest == 0:
            normalized = np.full_like(scores, MAX_NODE_SCORE)
        else:
            normalized = MAX_NODE_SCORE * (largest + smallest - scores) // largest
        return normalized if ignored is None else np.where(ignored, 0, normalized)

    def _score(
        self, constraint: Constraint, info: PodInfo, view: Fork, scored: Rows, complete: Bools
    ) -> npt.NDArray[np.float64]:
        """(N,): what one constraint adds to the raw score; the more matching pods in the domain, the more."""
        column = view.nodes.label(constraint.topology_key)
        least = float(constraint.max_skew - 1)
        if constraint.topology_key == HOSTNAME:
            value = _matching_pods(constraint, info, view) * np.log(float(len(scored) + 2)) + least
        else:

            def labelled() -> tuple[Domains, Domains]:
                every = _with_unlabelled(column)
                return every, _less(every, complete & self.included(constraint, info, view))

            key = (self.name, "domains", constraint)
            domains, counting = view.memo(key, labelled, info)
            size = domains.occupied if scored is view.nodes.rows else np.count_nonzero(domains.counts(scored))
            counts = _matching_pods(constraint, info, view, counting, key)
            value = domains.at_nodes(counts * np.log(float(size + 2)) + least)
        return value if column.complete else np.where(column.present, value, 0.0)


def _less(domains: Domains, counting: Bools) -> Domains:
    """The domains as far as their nodes (N,) count."""
    return Domains(np.where(counting, domains.codes, -1).astype(np.int32), domains.size)


def _matching_pods(
    constraint: Constraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Counts:
    """The pods that count: of the pod's namespace, selected, not terminating; an empty selector counts none.

    On each node (N,), or in each of the domains, which ``key`` names.
    """

    def weights() -> Counts:
        if constraint.selector == EVERYTHING:
            return np.zeros(len(view.pods.infos), np.int64)
        selected = view.pods.matching(constraint.selector, frozenset((info.namespace,)))
        return (selected & ~view.pods.terminating).astype(np.int64)

    name = (PodTopologySpread.name, constraint.selector, info.namespace, key)
    return view.tally(name, weights, domains, None if key is None else info)


def _change(spread: Spread, info: PodInfo, view: Fork, delta: Delta) -> Counts | None:
    """(N,): by how much the count of each node's domain changes; here upstream counts terminating pods, too."""
    if not delta:
        return None
    selected = view.pods.matching(spread.constraint.selector, frozenset((info.namespace,)))
    return np.where(spread.eligible, delta.counts(selected, len(view.nodes)), 0)


def _has_all_keys(constraints: Sequence[Constraint], view: Fork) -> Bools:
    """(N,): the nodes that have the topology labels of all constraints."""
    complete = np.ones(len(view.nodes), np.bool_)
    for constraint in constraints:
        complete &= view.nodes.label(constraint.topology_key).present
    return complete


def _two_smallest(counts: Counts, exists: Bools) -> tuple[int, int, int]:
    """The smallest count of an existing domain, the second smallest (as many when tied), and where the first is."""
    limited = np.where(exists, counts, NO_MINIMUM)
    at = int(limited.argmin())
    smallest = int(limited[at])
    limited[at] = NO_MINIMUM
    return smallest, int(limited.min()), at


def _with_unlabelled(column: LabelColumn) -> Domains:
    """The domain of each node, where having no label and having an empty one are the same domain."""
    unlabelled = column.values.index("") if "" in column.values else len(column.values)
    return Domains(np.where(column.present, column.codes, unlabelled).astype(np.int32), column.size + 1)


def _missing_label(spread: Spread) -> Callable[[int], TopologyLabelMissing]:
    fact = TopologyLabelMissing(spread.constraint.topology_key)
    return lambda row: fact


def _uneven(spread: Spread, here: Counts, minimum: Counts, skew: Counts) -> Callable[[int], TooSkewed]:
    key, limit, column = spread.constraint.topology_key, spread.constraint.max_skew, spread.column

    def fact(row: int) -> TooSkewed:
        domain = column.values[column.codes[row]]
        return TooSkewed(key, domain, int(here[row]), int(minimum[row]), int(skew[row]), limit)

    return fact
