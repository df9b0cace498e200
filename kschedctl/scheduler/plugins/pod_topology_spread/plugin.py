"""PodTopologySpread plugin: spreads similar pods evenly over zones, hosts and other topology domains.

Upstream: plugins/podtopologyspread/plugin.go, and for the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import SelectorError
from kschedctl.api.objects import Pod, TopologySpreadConstraint
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    Fragment,
    Peers,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Rejection,
    require_state,
)
from kschedctl.scheduler.framework.arguments import (
    Naming,
    PluginArgs,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    validate_qualified_name,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    ADD,
    DELETE,
    NODE,
    POD,
    QUEUEING_HINTS,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    adapt_node_hint,
    describe_selected_labels,
    frees_room,
    join_words,
    resolve_pod_actions,
    treats_updated_nodes_as_new,
)
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.pod_topology_spread.alike_nodes import EquallySpreadNodes
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import (
    HARD,
    NAME,
    SELECTING_KINDS,
    SOFT,
    SYSTEM_CONSTRAINTS,
    SpreadConstraint,
    SpreadSettings,
    find_nodes_with_all_keys,
    find_selecting_kinds,
)
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import (
    DomainCounts,
    SpreadVerdicts,
    TooSkewed,
    count_pods_per_domain,
    iter_rejections,
)
from kschedctl.scheduler.plugins.pod_topology_spread.scoring import (
    RawScores,
    SpreadRowScores,
    build_scored_domains,
    compute_raw_scores,
    normalize_scores,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

COUNTS_NOMINATED = ByVersion("the queueing hint considers nominated pods", (("", False), ("1.36", True)))
COUNTS_ITSELF = ByVersion("the queueing hint considers updates to the rejected pod", (("", False), ("1.32", True)))


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Default constraints for pods without constraints."""

    naming: ClassVar[Mapping[str, Naming]] = {"topologyKey": "key"}
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"
    """"List" for `default_constraints`, "System" for the scheduler's own."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the defaultingType System if none is set."""
        return replace(self, defaulting_type=self.defaulting_type or "System")

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors in defaultingType and in each default constraint.

        It is also an error if two constraints have the same topologyKey and whenUnsatisfiable.
        """
        if self.defaulting_type not in ("System", "List"):
            yield not_supported("defaultingType", self.defaulting_type, ("System", "List"))
        elif self.defaulting_type == "System" and self.default_constraints:
            yield invalid("defaultingType", self.defaulting_type, "when .defaultConstraints are not empty")
        earlier_keys = set()
        for i, constraint in enumerate(self.default_constraints):
            yield from _validate_constraint(constraint, f"defaultConstraints[{i}]")
            key = (constraint.topology_key, constraint.when_unsatisfiable)
            if key in earlier_keys:
                yield duplicate(f"defaultConstraints[{i}]", f"{{{', '.join(key)}}}")
            earlier_keys.add(key)


def _validate_constraint(constraint: TopologySpreadConstraint, path: str) -> Iterator[str]:
    """Yield the validation errors of a default constraint. `path` is the field named in the messages."""
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from validate_qualified_name(f"{path}.topologyKey", constraint.topology_key)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not constraint.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif constraint.when_unsatisfiable not in actions:
        yield not_supported(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, actions)
    if constraint.label_selector is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", rule)


REGISTERS_TOLERATION_EVENTS = ByVersion(
    "a change to a rejected pod's tolerations can make the scheduler retry the pod", (("", False), ("1.32", True))
)
NO_PRE_SCORE = 'error reading "PreScorePodTopologySpread" from cycleState: not found'


class PodTopologySpread(DeclaredPlugin[list[DomainCounts], RawScores]):
    """Plugin that rejects nodes in whose domain the pod would violate the maximum skew of a hard constraint.

    Its scores prefer nodes in domains with fewer matching pods.

    Upstream: pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
    """

    name = NAME
    facts = (TopologyLabelMissing, TooSkewed)
    changed = (
        REGISTERS_TOLERATION_EVENTS,
        COUNTS_NOMINATED,
        COUNTS_ITSELF,
    )
    counts_pods_elsewhere = True
    without = "topologySpreadConstraints are ignored"
    fixes = "spread"
    takes_less_time = "fewer constraints per pod, across fewer domains"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter", "score": "preScore"}
    next_step_within_reach = NextStep(
        "FillEmptierDomains", "The constraint allows only the emptier domains: find out what rejects the pod there"
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
        self.settings = SpreadSettings(
            defaults,
            system,
            match_label_keys,
            inclusion_policies=inclusion_policies,
            comparison_operators=comparison_operators,
        )

    @classmethod
    def make(cls, args: PodTopologySpreadArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments, with the rules that the feature gates enable."""
        return cls(
            args,
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
            inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        )

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield dependencies on Services and the kind of the pod's owner, whose selectors the default constraints use.

        Nothing is yielded if the pod has its own constraints or the profile has no default constraints.
        """
        if info.spec.topology_spread_constraints or not self.settings.defaults:
            return
        has_hard_defaults = any(constraint.when_unsatisfiable == HARD for constraint in self.settings.defaults)
        for kind in find_selecting_kinds(info):
            yield Dependency(kind, Effect.EITHER if has_hard_defaults else Effect.SCORES)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        pod_actions = resolve_pod_actions(ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE, gates)
        if gates.enabled(QUEUEING_HINTS) and REGISTERS_TOLERATION_EVENTS.at(gates.release):
            pod_actions |= ActionType.UPDATE_POD_TOLERATION
        pod_hint = partial(
            self._is_schedulable_after_pod_change,
            counts_nominated=COUNTS_NOMINATED.at(gates.release),
            counts_itself=COUNTS_ITSELF.at(gates.release),
        )
        yield ClusterEventWithHint(POD, pod_actions, pod_hint, self._is_unaffected)
        node_actions = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        yield ClusterEventWithHint(NODE, node_actions, adapt_node_hint(self._is_schedulable_after_node_change, gates))

    def _is_schedulable_after_pod_change(
        self, info: PodInfo, change: ChangedObject, view: Fork, *, counts_nominated: bool, counts_itself: bool
    ) -> bool:
        """Return whether the pod change may make the waiting pod schedulable, given the pod's hard constraints.

        `counts_nominated` says whether nominated pods count, and `counts_itself` whether changes of the waiting pod
        itself do. Raises PluginError for invalid selectors.
        """
        constraints = self.find_hard_constraints(info, view)
        return is_schedulable_after_pod_change(
            info, change, constraints, counts_nominated=counts_nominated, counts_itself=counts_itself
        )

    def _is_unaffected(self, info: PodInfo, actions: ActionType, view: Fork) -> bool:
        """Return whether the pod has no hard constraints, so that changes of pods do not matter.

        Return False if its constraints cannot be parsed. `actions` is not used.
        """
        try:
            return not self.find_hard_constraints(info, view)
        except PluginError:
            return False

    def _is_schedulable_after_node_change(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the node change alters the domains or nodes that count for the pod's hard constraints."""
        return is_schedulable_after_node_change(change, self.find_hard_constraints(info, view))

    def find_hard_constraints(self, info: PodInfo, view: Fork) -> list[SpreadConstraint]:
        """Return the pod's hard constraints, or the profile's hard defaults if the pod has no constraints at all.

        Raises PluginError for invalid selectors.
        """
        try:
            return self.settings.get_constraints(info, view, HARD)
        except SelectorError as error:
            raise PluginError(f"get constraints from pod: {error}") from None

    def depends_on_cordons(self, info: PodInfo) -> bool:
        """Return whether a constraint excludes nodes with untolerated taints.

        Such a constraint depends on cordons, because a cordoned node has a taint.
        """
        constraints = (*info.spec.topology_spread_constraints, *self.settings.defaults)
        return any(constraint.node_taints_policy == "Honor" for constraint in constraints)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[list[DomainCounts]]:
        """Count the matching pods in each domain of each hard constraint, or skip Filter if there is no constraint.

        Raises PluginError for invalid selectors.
        """
        constraints = self.find_hard_constraints(info, view)
        if not constraints:
            return PRE_FILTER_SKIP
        spreads = [
            count_pods_per_domain(constraint, constraints, self.settings, info, view) for constraint in constraints
        ]
        return PreFilterResult(state=spreads)

    def filter(self, info: PodInfo, view: Fork, state: list[DomainCounts] | None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes by hard constraints. Raises PluginError if PreFilter did not run."""
        spreads = require_state(state, 'reading "PreFilterPodTopologySpread" from cycleState: not found')
        yield from iter_rejections(spreads, info, view, delta, self.settings.comparison_operators)

    def find_soft_constraints(self, info: PodInfo, view: Fork) -> list[SpreadConstraint]:
        """Return the pod's soft constraints, or the profile's soft defaults if the pod has no constraints at all.

        Raises PluginError for invalid selectors.
        """
        try:
            return self.settings.get_constraints(info, view, SOFT)
        except SelectorError as error:
            raise PluginError(f"obtaining pod's soft topology spread constraints: {error}") from None

    def may_score(self, info: PodInfo, view: Fork) -> bool:
        """Return whether the pod has soft constraints. Raises PluginError for invalid selectors."""
        return bool(self.find_soft_constraints(info, view))

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[RawScores]:
        """Compute the raw scores of the soft constraints, or skip Score if there are none.

        Raises PluginError for invalid selectors.
        """
        constraints = self.find_soft_constraints(info, view)
        if not constraints:
            return PRE_SCORE_SKIP
        return PreScoreResult(compute_raw_scores(constraints, self.settings, info, view, rows))

    def score(self, info: PodInfo, view: Fork, state: RawScores | None, rows: Rows) -> Scores:
        """Return the raw scores that PreScore has computed. Raises PluginError if it did not run."""
        return require_state(state, NO_PRE_SCORE).scores

    def normalize(self, state: RawScores | None, scores: Scores) -> Scores:
        """Scale the scores to 0..100, higher for fewer matching pods. Nodes without the topology labels get 0."""
        return normalize_scores(scores, require_state(state, NO_PRE_SCORE).ignored)

    def build_row_verdicts(self, info: PodInfo, view: Fork) -> SpreadVerdicts:
        """Return an object that judges any rows by the hard constraints and is updated as pods come and go.

        Raises PluginError for invalid selectors.
        """
        return SpreadVerdicts(self.find_hard_constraints(info, view), self.settings, info, view)

    def build_row_scores(self, info: PodInfo, view: Fork) -> SpreadRowScores:
        """Return an object that scores any nodes by the soft constraints and is updated as pods come and go.

        The pod must have soft constraints.
        """
        return SpreadRowScores(self.settings.get_constraints(info, view, SOFT), self.settings, info, view)

    def group_nodes(self, info: PodInfo, view: Fork, feasible: Bools) -> EquallySpreadNodes | None:
        """Group the nodes with equal scores for copies of a pod with soft constraints.

        Return None if some node lacks a topology label. Raises SelectorError for invalid selectors.
        """
        constraints = self.settings.get_constraints(info, view, SOFT)
        if not find_nodes_with_all_keys(constraints, view).all():
            return None
        scored_domains = [build_scored_domains(c, self.settings, info, view, labelled=None) for c in constraints]
        return EquallySpreadNodes(constraints, scored_domains, view.trail, feasible)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue.

        Raises PluginError for invalid selectors.
        """
        constraints = self.find_hard_constraints(info, view)
        keys = join_words(list(dict.fromkeys(constraint.topology_key for constraint in constraints)))
        selectors = list(dict.fromkeys(describe_selected_labels(constraint.selector) for constraint in constraints))
        matching_pod = f"a pod {join_words(selectors, 'or')} in namespace {info.namespace}"
        yield WakeTrigger(POD, ADD, f"{matching_pod} gets a node")
        yield WakeTrigger(POD, DELETE, f"{matching_pod} leaves its node")
        yield WakeTrigger(
            POD, ActionType.UPDATE_POD_LABEL, "a pod's labels change so that it is counted, or no longer counted"
        )
        if any(constraint.honor_taints for constraint in constraints):
            yield WakeTrigger(POD, ActionType.UPDATE_POD_TOLERATION, "the pod's tolerations change")
        if treats_updated_nodes_as_new(gates):
            actions = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
            yield WakeTrigger(NODE, actions, f"a node with label {keys} is added, or its labels or taints change")
            return
        yield WakeTrigger(NODE, ADD | DELETE, f"a node with label {keys} is added or deleted")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"label {keys} of a node changes")
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, f"taints of a node with label {keys} change")

    def can_more_pods_help(self, info: PodInfo) -> bool:
        """Return True, as more pods in the emptiest domain reduce the skew of the others."""
        return True

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return an empty fragment of the pod's signature.

        Return None for a pod with constraints, including default constraints. Such a pod is never batched.
        """
        if info.spec.topology_spread_constraints or self.settings.defaults:
            return None
        return {}


def is_schedulable_after_pod_change(
    info: PodInfo,
    change: ChangedObject,
    constraints: Sequence[SpreadConstraint],
    *,
    counts_nominated: bool,
    counts_itself: bool,
) -> bool:
    """Return whether a pod change may make the waiting pod schedulable.

    The changed pod must start or stop matching a constraint, or the waiting pod's tolerations must change while a
    constraint excludes nodes with untolerated taints. Only pods of the same namespace that have a node count. With
    `counts_nominated`, nominated pods count as well, and with `counts_itself`, the waiting pod itself.
    """
    old, new = change.old, change.new
    for pod in (old, new):
        if pod is not None and not _counts_towards_constraints(
            pod, info.pod, counts_nominated=counts_nominated, counts_itself=counts_itself
        ):
            return False
    if old is None or new is None:  # the pod was added or deleted
        return any(constraint.selector.matches(change.object.metadata.labels) for constraint in constraints)

    own_tolerations_changed = is_same_pod(new, info.pod) and change.has_changed("spec", "tolerations")
    if own_tolerations_changed and any(constraint.honor_taints for constraint in constraints):
        return True
    old_labels, new_labels = old.metadata.labels, new.metadata.labels
    return any(
        constraint.selector.matches(old_labels) != constraint.selector.matches(new_labels) for constraint in constraints
    )


def is_schedulable_after_node_change(change: ChangedObject, constraints: Sequence[SpreadConstraint]) -> bool:
    """Return whether a node change may make the pod schedulable.

    This is the case if a node with all topology keys is added or deleted, or if its domains or taints change. A node
    that gains its last missing topology key, or loses a topology key, counts as well.
    """
    if change.old is None or change.new is None:  # the node was added or deleted
        return _has_all_topology_keys(change.object.metadata.labels, constraints)
    old_labels, new_labels = change.old.metadata.labels, change.new.metadata.labels
    had_keys = _has_all_topology_keys(old_labels, constraints)
    has_keys = _has_all_topology_keys(new_labels, constraints)
    if had_keys != has_keys:
        return True
    if not has_keys:
        return False
    keys = [constraint.topology_key for constraint in constraints]
    changes_domain = any(old_labels[key] != new_labels[key] for key in keys)
    return changes_domain or change.has_changed("spec", "taints")


def _has_all_topology_keys(labels: Mapping[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    """Return whether the node labels include the topology keys of all constraints."""
    return all(constraint.topology_key in labels for constraint in constraints)


def _counts_towards_constraints(pod: Pod, waiting_pod: Pod, *, counts_nominated: bool, counts_itself: bool) -> bool:
    """Return whether a changed pod counts for the constraints of the waiting pod.

    It counts if it is in the same namespace and has a node or, with `counts_nominated`, a nominated node. With
    `counts_itself`, the waiting pod itself counts as well.
    """
    if counts_itself and is_same_pod(pod, waiting_pod):
        return True
    has_same_namespace = pod.metadata.namespace == waiting_pod.metadata.namespace
    return has_same_namespace and frees_room(pod, counts_nominated=counts_nominated)
