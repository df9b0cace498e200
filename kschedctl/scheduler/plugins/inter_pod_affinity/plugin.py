"""InterPodAffinity: pods that want to be, or must not be, in one topology with others; both sides' terms count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import ClassVar, Self

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import format_aggregate
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import (
    PRE_SCORE_SKIP,
    SKIP,
    Code,
    Fragment,
    Peers,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Status,
    UpstreamFault,
    required_state,
)
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ClusterEventWithHint, node_actions, pod_actions
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import invalid
from kschedctl.scheduler.framework.strict_decoding import Int32
from kschedctl.scheduler.framework.waking import WakeTrigger
from kschedctl.scheduler.plugins.inter_pod_affinity import hints
from kschedctl.scheduler.plugins.inter_pod_affinity.facts import NoPodForAllTerms, NoPodToJoin, PodInTheWay
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import (
    AffinityVerdicts,
    FilterState,
    rejections,
    wants_itself,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.scoring import (
    AffinityAmong,
    added_up,
    normalized,
    own_terms,
    raw_scores,
    terms_of_others,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.terms import (
    terms_against,
    weights_of,
    weights_of_all,
    weights_of_each,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import (
    NAME,
    KeptWeights,
    RunningCounts,
    TopologyCounts,
    Weights,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

EXISTING = "existing"
"""The name of what pods that run have against a pod."""
TERMS = ("required_affinity", "required_anti_affinity", "preferred_affinity", "preferred_anti_affinity")


class ExcludingSelectorScope(StrEnum):
    """The namespaces whose pods match a term with a namespaceSelector that only excludes."""

    SELECTED_NAMESPACES = "those of the namespaces that it selects"
    EVERY_NAMESPACE = "those of every namespace"


EXCLUDING_SELECTOR_SCOPE = ByVersion(
    "whose pods a namespaceSelector of the pod's own terms takes that only excludes",
    (
        ("", ExcludingSelectorScope.SELECTED_NAMESPACES),
        ("1.34", ExcludingSelectorScope.EVERY_NAMESPACE),
        ("1.37", ExcludingSelectorScope.SELECTED_NAMESPACES),
    ),
    "#132457, #138198 (of which #141563 takes the fix alone back to older versions)",
)
EXCLUDING_SELECTOR = (
    "kube-scheduler departs from its documentation since 1.34: a namespaceSelector of the pod's own (anti-)affinity"
    " that only excludes (NotIn, DoesNotExist) takes the pods of every namespace"
)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """The weight of existing pods' required affinity terms, and whether their preferred ones count."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield invalid("hardPodAffinityWeight", self.hard_pod_affinity_weight, "not in valid range [0, 100]")


class InterPodAffinity(DeclaredPlugin[FilterState, TopologyCounts]):
    """Rejects nodes by required terms, of the pod and of the pods that run; prefers nodes by the preferred terms.

    Upstream: pkg/scheduler/framework/plugins/interpodaffinity (v1.36). Since 1.34 a namespaceSelector of the pod's own
    terms is matched against no labels at all, besides the namespaces that it selects: one that only excludes takes the
    pods of every namespace. ``as_documented``: it takes those of the namespaces that it selects, as before.
    """

    name = NAME
    facts = (TopologyLabelMissing, NoPodToJoin, NoPodForAllTerms, PodInTheWay)
    changed = (
        hints.COMPARES_NODES,
        hints.CHECKS_BOTH_WAYS,
        hints.ANY_IS_MET,
        EXCLUDING_SELECTOR_SCOPE,
    )
    hints_since = 31
    without = "affinity and anti-affinity between pods are ignored"
    takes_less_time = (
        "give affinity terms fewer pods to match: a namespace, exact labels; spread in place of anti-affinity by zone"
    )
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter", "score": "preScore"}
    next_step_within_reach = NextStep(
        "KeepApartLess",
        "Only where no such pod runs is there a place: more nodes or zones, fewer replicas, or a preferred term",
    )
    next_step = NextStep(
        "CompareTerms",
        "No such pod runs where it could go: compare labels and namespaces of its pod affinity with the pods'",
    )
    default_weight = 2
    peers = Peers.EXTREMES
    args_type = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs, as_documented: bool = False) -> None:
        self.args, self.as_documented = args, as_documented

    @classmethod
    def make(cls, args: InterPodAffinityArgs, gates: FeatureGates) -> Self:
        scope = EXCLUDING_SELECTOR_SCOPE.at(gates.release)
        return cls(args, as_documented=scope is ExcludingSelectorScope.SELECTED_NAMESPACES)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Terms that select namespaces by their labels: the pod's own, and those of the pods that run."""

        def running(*of: str) -> bool:
            return any(view.pods.distinct.ask_namespace_labels(field, info.namespace) for field in of)

        required = (*info.required_affinity, *info.required_anti_affinity)
        preferred = (*info.preferred_affinity, *info.preferred_anti_affinity)
        if any(term.by_namespace_labels for term in required) or running("required_anti_affinity"):
            yield Dependency("Namespace", Effect.EITHER)
        others = ("required_affinity", "preferred_affinity", "preferred_anti_affinity")
        if any(term.by_namespace_labels for term in preferred) or running(*others):
            yield Dependency("Namespace", Effect.SCORES)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[FilterState]:
        if errors := info.affinity_errors:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (f"parsing pod: {format_aggregate(errors)}",)))
        affinity = self._unrolled(info.required_affinity, view)
        anti_affinity = self._unrolled(info.required_anti_affinity, view)
        existing = TopologyCounts.of(EXISTING, info, view, partial(_weights_against, info, view))
        existing = existing.as_listed(partial(_with_terms, view, "required_anti_affinity"), view)
        if not affinity and not anti_affinity and existing.empty:
            return PreFilterResult(SKIP, reads=Reads.PODS if existing.counts else Reads.NODES)
        state = FilterState(
            affinity,
            anti_affinity,
            TopologyCounts.of(self._own("affinity"), info, view, lambda: weights_of_all(affinity, view)),
            TopologyCounts.of(self._own("anti-affinity"), info, view, lambda: weights_of_each(anti_affinity, view)),
            existing,
        )
        return PreFilterResult(state=state)

    def filter(self, info: PodInfo, view: Fork, state: FilterState | None, delta: Delta) -> Iterator[Rejection]:
        filtered = required_state(state, 'error reading "PreFilterInterPodAffinity" from cycleState: not found')
        yield from rejections(filtered, info, view, delta)

    def row_verdicts(self, info: PodInfo, view: Fork) -> AffinityVerdicts | None:
        if info.affinity_errors or view.group_since is not None:  # then it counts other pods
            return None
        affinity = self._unrolled(info.required_affinity, view)
        anti_affinity = self._unrolled(info.required_anti_affinity, view)
        return AffinityVerdicts(
            RunningCounts(self._own("affinity"), info, view, lambda: weights_of_all(affinity, view)),
            RunningCounts(self._own("anti-affinity"), info, view, lambda: weights_of_each(anti_affinity, view)),
            RunningCounts(EXISTING, info, view, partial(_weights_against, info, view)),
            wants_itself(affinity, info),
        )

    def row_scores(self, info: PodInfo, view: Fork) -> AffinityAmong:
        _, weights = self._kept_weights(info, view)
        return AffinityAmong(RunningCounts(self._own("score"), info, view, lambda: weights), view)

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[TopologyCounts]:
        own = (*info.preferred_affinity, *info.preferred_anti_affinity)
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return PRE_SCORE_SKIP
        if errors := info.affinity_errors:
            raise PluginError(f"failed to parse pod: {format_aggregate(errors)}")
        matches, weights = self._kept_weights(info, view)
        matched = TopologyCounts.of(self._own("matches"), info, view, lambda: matches)
        if (matched if own else matched.as_listed(partial(_with_terms, view), view)).empty:
            return PreScoreResult(skip=True, reads=Reads.PODS if matches else Reads.NODES)
        score = TopologyCounts.of(self._own("score"), info, view, lambda: weights)
        return PreScoreResult(score if own else score.as_listed(partial(_with_terms, view), view))

    def score(self, info: PodInfo, view: Fork, state: TopologyCounts | None, rows: Rows) -> Scores:
        counts = required_state(state, 'failed to read "PreScoreInterPodAffinity" from cycleState: not found')
        return raw_scores(counts, view, rows)

    def normalize(self, state: TopologyCounts | None, scores: Scores) -> Scores:
        return normalized(scores)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        of_pods = pod_actions(ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE, gates)
        newer, one = hints.CHECKS_BOTH_WAYS.at(gates.release), hints.ANY_IS_MET.at(gates.release)
        yield ClusterEventWithHint(POD, of_pods, partial(hints.after_pod_change, newer=newer, one=one), hints.spared)
        of_nodes = node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates)
        compares = hints.COMPARES_NODES.at(gates.release)
        yield ClusterEventWithHint(NODE, of_nodes, partial(hints.after_node_change, compares=compares))

    def _kept_weights(self, info: PodInfo, view: Fork) -> tuple[KeptWeights, KeptWeights]:
        """By topology key: how many terms a pod of each info matches, and what that adds to the score."""

        def made() -> tuple[KeptWeights, KeptWeights]:
            matches, weights = self._score_weights(info, view)
            return KeptWeights(matches), KeptWeights(weights)

        return view.memo_of_pods((self.name, self._own("terms")), made, info)

    def _score_weights(self, info: PodInfo, view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
        preferred = self._unrolled(info.preferred_affinity, view)
        avoided = self._unrolled(info.preferred_anti_affinity, view)
        others = terms_of_others(info, view, self.args.hard_pod_affinity_weight)
        return added_up((*own_terms(preferred, 1, view), *own_terms(avoided, -1, view), *others), view)

    def upstream_fault(self, cycle: Cycle) -> UpstreamFault | None:
        """A namespaceSelector that only excludes takes the pods of every namespace."""
        if self.as_documented or not any(map(_excludes, _own_terms(cycle.info))):
            return None
        return UpstreamFault(EXCLUDING_SELECTOR, InterPodAffinity(self.args, as_documented=True))

    def _unrolled(self, terms: Iterable[AffinityTerm], view: Fork) -> tuple[AffinityTerm, ...]:
        return tuple(term.unrolled(view.namespace_labels, replaced=self.as_documented) for term in terms)

    def _own(self, what: str) -> str:
        """The name of what depends on how the pod's own terms are read."""
        return f"{what} as documented" if self.as_documented else what

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        return hints.waking_changes(info, gates)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        affinity = info.spec.affinity
        if affinity and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
            return None
        return {} if self.args.ignore_preferred_terms_of_existing_pods else {"labels": info.labels}


def _weights_against(info: PodInfo, view: Fork) -> dict[str, Weights]:
    """Topology key -> (T,): by how many terms a pod of each info keeps this one away."""
    return weights_of(terms_against(info, view, "required_anti_affinity"), view)


def _own_terms(info: PodInfo) -> Iterator[AffinityTerm]:
    return (term for name in TERMS for term in getattr(info, name))


def _excludes(term: AffinityTerm) -> bool:
    """Whether its namespaceSelector says only which namespaces are not meant."""
    return not term.namespace_selector.selects_everything and term.namespace_selector.matches({})


def _with_terms(view: Fork, *of: str) -> Bools:
    """(T,): the pods that have such terms, or any."""
    names = of or TERMS
    key = _with_terms, names
    return view.memo_of_pods(key, lambda: view.pods.distinct.with_terms(*names))
