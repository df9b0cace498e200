"""PodTopologySpread: even spreading of like pods over zones, hosts and other topologies."""

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
from kschedctl.scheduler.plugins.pod_topology_spread.default_selector import SELECTING_KINDS, selecting_kinds
from kschedctl.scheduler.plugins.pod_topology_spread.facts import TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts, SpreadVerdicts, count, rejections
from kschedctl.scheduler.plugins.pod_topology_spread.scoring import SpreadAmong, normalized, raw_scores
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

HEARS_OF_TOLERATIONS = ByVersion(
    "whether PodTopologySpread asks to be told of the pod's tolerations", (("", False), ("1.32", True))
)
NO_PRE_SCORE = 'error reading "PreScorePodTopologySpread" from cycleState: not found'


class PodTopologySpread(DeclaredPlugin[list[DomainCounts], tuple[Scores, Bools | None]]):
    """Rejects nodes in whose domain the pod would exceed a hard constraint's skew, prefers emptier domains.

    Upstream: pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
    """

    name = NAME
    facts = (TopologyLabelMissing, TooSkewed)
    changed = (
        HEARS_OF_TOLERATIONS,
        hints.COUNTS_PROMISED,
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
        """Default constraints count the pods that services and the owner select."""
        if info.spec.topology_spread_constraints or not self.settings.defaults:
            return
        hard = any(constraint.when_unsatisfiable == HARD for constraint in self.settings.defaults)
        for kind in selecting_kinds(info):
            yield Dependency(kind, Effect.EITHER if hard else Effect.SCORES)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        of_pods = pod_actions(ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE, gates)
        if gates.enabled(QUEUEING_HINTS) and HEARS_OF_TOLERATIONS.at(gates.release):
            of_pods |= ActionType.UPDATE_POD_TOLERATION
        counts = hints.COUNTS_PROMISED.at(gates.release), hints.COUNTS_ITSELF.at(gates.release)
        yield ClusterEventWithHint(POD, of_pods, partial(self._after_pod_change, counts=counts), self._spared)
        of_nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        yield ClusterEventWithHint(NODE, of_nodes, adapt_node_hint(self._after_node_change, gates))

    def _after_pod_change(self, info: PodInfo, change: ChangedObject, view: Fork, counts: tuple[bool, bool]) -> bool:
        return hints.after_pod_change(info, change, self.hard_constraints(info, view), *counts)

    def _spared(self, info: PodInfo, actions: ActionType, view: Fork) -> bool:
        """Whether a pod has no hard constraints, so that it does not matter how pods count."""
        try:
            return not self.hard_constraints(info, view)
        except PluginError:
            return False

    def _after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        return hints.after_node_change(change, self.hard_constraints(info, view))

    def hard_constraints(self, info: PodInfo, view: Fork) -> list[SpreadConstraint]:
        """The hard ones. Raises PluginError."""
        try:
            return self.settings.constraints(info, view, HARD)
        except SelectorError as error:
            raise PluginError(f"get constraints from pod: {error}") from None

    def depends_on_cordons(self, info: PodInfo) -> bool:
        """A cordon is a taint, and a constraint may leave out what is tainted."""
        constraints = (*info.spec.topology_spread_constraints, *self.settings.defaults)
        return any(constraint.node_taints_policy == "Honor" for constraint in constraints)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[list[DomainCounts]]:
        constraints = self.hard_constraints(info, view)
        if not constraints:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=[count(c, constraints, self.settings, info, view) for c in constraints])

    def filter(self, info: PodInfo, view: Fork, state: list[DomainCounts] | None, delta: Delta) -> Iterator[Rejection]:
        required = required_state(state, 'reading "PreFilterPodTopologySpread" from cycleState: not found')
        yield from rejections(required, info, view, delta, self.settings.comparison_operators)

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[tuple[Scores, Bools | None]]:
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
        return normalized(scores, required_state(state, NO_PRE_SCORE)[1])

    def row_verdicts(self, info: PodInfo, view: Fork) -> SpreadVerdicts:
        return SpreadVerdicts(self.hard_constraints(info, view), self.settings, info, view)

    def row_scores(self, info: PodInfo, view: Fork) -> SpreadAmong:
        """The scores among some of the nodes, for a pod that has soft constraints."""
        return SpreadAmong(self.settings.constraints(info, view, SOFT), self.settings, info, view)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        constraints = self.hard_constraints(info, view)
        keys = join_words(list(dict.fromkeys(constraint.topology_key for constraint in constraints)))
        selectors = list(dict.fromkeys(describe_selected_labels(constraint.selector) for constraint in constraints))
        counted = f"a pod {join_words(selectors, 'or')} in namespace {info.namespace}"
        yield WakeTrigger(POD, ADD, f"{counted} gets a node")
        yield WakeTrigger(POD, DELETE, f"{counted} leaves its node")
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
