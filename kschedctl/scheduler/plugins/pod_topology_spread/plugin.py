"""PodTopologySpread plugin: spreads similar pods evenly over zones, hosts and other topology domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, Self

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import SelectorError
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    Fragment,
    Peers,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Rejection,
    required_state,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    QUEUEING_HINTS,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    adapt_node_hint,
    pod_actions,
)
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import (
    ADD,
    DELETE,
    WakeTrigger,
    describe_selected_labels,
    join_words,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.plugins.pod_topology_spread import hints
from kschedctl.scheduler.plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import (
    HARD,
    NAME,
    SOFT,
    SYSTEM_CONSTRAINTS,
    SpreadConstraint,
    SpreadSettings,
)
from kschedctl.scheduler.plugins.pod_topology_spread.default_selector import SELECTING_KINDS, find_selecting_kinds
from kschedctl.scheduler.plugins.pod_topology_spread.facts import TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import (
    DomainCounts,
    SpreadVerdicts,
    count_pods_per_domain,
    iter_rejections,
)
from kschedctl.scheduler.plugins.pod_topology_spread.scoring import SpreadAmong, normalize_scores, raw_scores
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REGISTERS_TOLERATION_EVENTS = ByVersion(
    "whether PodTopologySpread asks to be told of the pod's tolerations", (("", False), ("1.32", True))
)
NO_PRE_SCORE = 'error reading "PreScorePodTopologySpread" from cycleState: not found'


class PodTopologySpread(DeclaredPlugin[list[DomainCounts], tuple[Scores, Bools | None]]):
    """Plugin that rejects nodes in whose domain the pod would exceed the maximum skew of a hard constraint.

    Its scores prefer nodes in domains with fewer matching pods.

    Upstream: pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
    """

    name = NAME
    facts = (TopologyLabelMissing, TooSkewed)
    changed = (
        REGISTERS_TOLERATION_EVENTS,
        hints.COUNTS_NOMINATED,
        hints.COUNTS_ITSELF,
    )
    without = "topologySpreadConstraints are ignored"
    takes_less_time = "fewer constraints per pod, across fewer domains"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter", "score": "preScore"}
    next_step_within_reach = NextStep(
        "FillEmptierDomains", "The emptier domains must take pods first: see what keeps pods out of them"
    )
    next_step = NextStep("LabelDomains", "Label the nodes, or change the topologyKey of its topologySpreadConstraints")
    default_weight = 2
    peers = Peers.DOMAINS
    kinds = SELECTING_KINDS
    args_type = PodTopologySpreadArgs

    def __init__(
        self, args: PodTopologySpreadArgs, match_label_keys: bool, inclusion_policies: bool, comparison_operators: bool
    ) -> None:
        system = args.defaulting_type == "System"
        defaults = SYSTEM_CONSTRAINTS if system else args.default_constraints
        self.settings = SpreadSettings(defaults, system, match_label_keys, inclusion_policies, comparison_operators)

    @classmethod
    def make(cls, args: PodTopologySpreadArgs, gates: FeatureGates) -> Self:
        return cls(
            args,
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
            inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        )

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield dependencies on Services and owners, whose selectors the default constraints use."""
        if info.spec.topology_spread_constraints or not self.settings.defaults:
            return
        hard = any(constraint.when_unsatisfiable == HARD for constraint in self.settings.defaults)
        for kind in find_selecting_kinds(info):
            yield Dependency(kind, Effect.EITHER if hard else Effect.SCORES)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        pod_events = pod_actions(ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE, gates)
        if gates.enabled(QUEUEING_HINTS) and REGISTERS_TOLERATION_EVENTS.at(gates.release):
            pod_events |= ActionType.UPDATE_POD_TOLERATION
        pod_hint = partial(
            self._is_schedulable_after_pod_change,
            counts_nominated=hints.COUNTS_NOMINATED.at(gates.release),
            counts_itself=hints.COUNTS_ITSELF.at(gates.release),
        )
        yield ClusterEventWithHint(POD, pod_events, pod_hint, self._is_unaffected)
        node_events = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        yield ClusterEventWithHint(NODE, node_events, adapt_node_hint(self._is_schedulable_after_node_change, gates))

    def _is_schedulable_after_pod_change(
        self, info: PodInfo, change: ChangedObject, view: Fork, *, counts_nominated: bool, counts_itself: bool
    ) -> bool:
        """Return whether the pod change alters how the hard constraints count."""
        constraints = self.hard_constraints(info, view)
        return hints.is_schedulable_after_pod_change(
            info, change, constraints, counts_nominated=counts_nominated, counts_itself=counts_itself
        )

    def _is_unaffected(self, info: PodInfo, actions: ActionType, view: Fork) -> bool:
        """Return whether the pod has no hard constraints, so that changes of pods do not matter."""
        try:
            return not self.hard_constraints(info, view)
        except PluginError:
            return False

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node change alters how the hard constraints count."""
        return hints.is_schedulable_after_node_change(change, self.hard_constraints(info, view))

    def hard_constraints(self, info: PodInfo, view: Fork) -> list[SpreadConstraint]:
        """Return the pod's hard constraints. Raises PluginError for invalid selectors."""
        try:
            return self.settings.constraints(info, view, HARD)
        except SelectorError as error:
            raise PluginError(f"get constraints from pod: {error}") from None

    def depends_on_cordons(self, info: PodInfo) -> bool:
        """Return whether a constraint excludes nodes with untolerated taints, since a cordon is a taint."""
        constraints = (*info.spec.topology_spread_constraints, *self.settings.defaults)
        return any(constraint.node_taints_policy == "Honor" for constraint in constraints)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[list[DomainCounts]]:
        """Count the matching pods of the hard constraints, or skip Filter if there are none."""
        constraints = self.hard_constraints(info, view)
        if not constraints:
            return PRE_FILTER_SKIP
        return PreFilterResult(
            state=[count_pods_per_domain(c, constraints, self.settings, info, view) for c in constraints]
        )

    def filter(self, info: PodInfo, view: Fork, state: list[DomainCounts] | None, delta: Delta) -> Iterator[Rejection]:
        required = required_state(state, 'reading "PreFilterPodTopologySpread" from cycleState: not found')
        yield from iter_rejections(required, info, view, delta, self.settings.comparison_operators)

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[tuple[Scores, Bools | None]]:
        """Compute the raw scores of the soft constraints, or skip Score if there are none."""
        try:
            constraints = self.settings.constraints(info, view, SOFT)
        except SelectorError as error:
            raise PluginError(f"obtaining pod's soft topology spread constraints: {error}") from None
        if not constraints:
            return PRE_SCORE_SKIP
        return PreScoreResult(raw_scores(constraints, self.settings, info, view, rows))

    def score(self, info: PodInfo, view: Fork, state: tuple[Scores, Bools | None] | None, rows: Rows) -> Scores:
        return required_state(state, NO_PRE_SCORE)[0]

    def normalize(self, state: tuple[Scores, Bools | None] | None, scores: Scores) -> Scores:
        return normalize_scores(scores, required_state(state, NO_PRE_SCORE)[1])

    def row_verdicts(self, info: PodInfo, view: Fork) -> SpreadVerdicts:
        return SpreadVerdicts(self.hard_constraints(info, view), self.settings, info, view)

    def row_scores(self, info: PodInfo, view: Fork) -> SpreadAmong:
        """Return the scores among any subset of the nodes, for a pod that has soft constraints."""
        return SpreadAmong(self.settings.constraints(info, view, SOFT), self.settings, info, view)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield the changes that move a rejected pod back to the queue, in words."""
        constraints = self.hard_constraints(info, view)
        keys = join_words(list(dict.fromkeys(constraint.topology_key for constraint in constraints)))
        selectors = list(dict.fromkeys(describe_selected_labels(constraint.selector) for constraint in constraints))
        matching_pod = f"a pod {join_words(selectors, 'or')} in namespace {info.namespace}"
        yield WakeTrigger(POD, ADD, f"{matching_pod} gets a node")
        yield WakeTrigger(POD, DELETE, f"{matching_pod} leaves its node")
        yield WakeTrigger(POD, ActionType.UPDATE_POD_LABEL, "a label change makes a pod such a one, or no longer one")
        if any(constraint.honor_taints for constraint in constraints):
            yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, "the pod's tolerations change")
        if treats_updated_nodes_as_new(gates):
            action = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
            yield WakeTrigger(NODE, action, f"a node with label {keys} is added, or its labels or taints change")
            return
        yield WakeTrigger(NODE, ADD | DELETE, f"a node with label {keys} is added or deleted")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"label {keys} of a node changes")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, f"taints of a node with label {keys} change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        return None if info.spec.topology_spread_constraints or self.settings.defaults else {}
