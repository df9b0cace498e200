"""InterPodAffinity plugin: filters and scores by affinity and anti-affinity between pods."""

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
    require_state,
)
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
    resolve_node_actions,
    resolve_pod_actions,
)
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import Int32
from kschedctl.scheduler.plugins.inter_pod_affinity import hints
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import (
    AffinityVerdicts,
    FilterState,
    NoPodForAllTerms,
    NoPodToJoin,
    PodInTheWay,
    do_terms_select_pod,
    iter_rejections,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.scoring import (
    AffinityRowScores,
    compute_raw_scores,
    iter_own_terms,
    iter_terms_of_running_pods,
    normalize_scores,
    sum_terms_per_key,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import (
    NAME,
    RunningCounts,
    SparseWeights,
    TopologyCounts,
    Weights,
    count_each_match_per_key,
    count_matches_per_key,
    count_terms_per_key_if_all_match,
    find_terms_matching_pod,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

EXISTING_TERMS = "existing"
"""The cache key of the running pods' terms that match a pod."""
TERM_FIELDS = ("required_affinity", "required_anti_affinity", "preferred_affinity", "preferred_anti_affinity")


class ExcludingSelectorScope(StrEnum):
    """The namespaces whose pods match a term with a namespaceSelector that only excludes."""

    SELECTED_NAMESPACES = "those that the selector matches"
    EVERY_NAMESPACE = "all (a bug)"


EXCLUDING_SELECTOR_SCOPE = ByVersion(
    "namespaces selected by the pod's own affinity terms if namespaceSelector has only NotIn or DoesNotExist",
    (
        ("", ExcludingSelectorScope.SELECTED_NAMESPACES),
        ("1.34", ExcludingSelectorScope.EVERY_NAMESPACE),
        ("1.37", ExcludingSelectorScope.SELECTED_NAMESPACES),
    ),
    "#132457, #138198 (#141563 backports only the fix)",
)
EXCLUDING_SELECTOR = (
    "kube-scheduler departs from its documentation since 1.34: a namespaceSelector of the pod's own (anti-)affinity"
    " that only excludes (NotIn, DoesNotExist) takes the pods of every namespace"
)


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Int32 = 1
    """The weight with which required affinity terms of existing pods are scored."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """True if only the incoming pod's preferred terms are scored."""

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error if the weight is not between 0 and 100."""
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield invalid("hardPodAffinityWeight", self.hard_pod_affinity_weight, "not in valid range [0, 100]")


class InterPodAffinity(DeclaredPlugin[FilterState, TopologyCounts]):
    """Plugin that filters by required terms and scores by preferred terms of the pod and of running pods.

    Since 1.34 upstream matches a namespaceSelector of the pod's own terms against an empty set of labels, in addition
    to the labels of each namespace. A selector that only excludes namespaces therefore matches the pods of every
    namespace. With `as_documented`, it matches only pods of the namespaces that it selects, as before.

    Upstream: pkg/scheduler/framework/plugins/interpodaffinity (v1.36).
    """

    name = NAME
    facts = (TopologyLabelMissing, NoPodToJoin, NoPodForAllTerms, PodInTheWay)
    changed = (
        hints.COMPARES_WITH_OLD_NODE,
        hints.CHECKS_BOTH_WAYS,
        hints.ONE_TERM_SUFFICES,
        EXCLUDING_SELECTOR_SCOPE,
    )
    hints_since = 31
    counts_pods_elsewhere = True
    without = "affinity and anti-affinity between pods are ignored"
    fixes = "pod_affinity"
    takes_less_time = (
        "give affinity terms fewer pods to match: a namespace, exact labels; spread in place of anti-affinity by zone"
    )
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter", "score": "preScore"}
    next_step_within_reach = NextStep(
        "KeepApartLess",
        "Anti-affinity rules out the nodes with room: add nodes or zones, reduce replicas, or make the term preferred",
    )
    next_step = NextStep(
        "CompareTerms",
        "Check the label selector and the namespaces of the pod affinity: they match no pod in any topology domain "
        "that this pod can use",
    )
    default_weight = 2
    peers = Peers.EXTREMES
    args_type = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs, as_documented: bool = False) -> None:
        self.args, self.as_documented = args, as_documented

    @classmethod
    def make(cls, args: InterPodAffinityArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments for the version of the feature gates."""
        scope = EXCLUDING_SELECTOR_SCOPE.at(gates.release)
        return cls(args, as_documented=scope is ExcludingSelectorScope.SELECTED_NAMESPACES)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield dependencies on Namespaces if terms of the pod or of running pods select namespaces by labels.

        Filter evaluates the pod's required terms and the required anti-affinity of running pods. Score evaluates the
        pod's preferred terms and all other terms of running pods.
        """

        def does_any_depend(own_terms: Iterable[AffinityTerm], fields_of_running_pods: Iterable[str]) -> bool:
            """Return whether a term of the pod, or a term of running pods in these fields, selects by labels."""
            if any(term.by_namespace_labels for term in own_terms):
                return True
            infos = view.pods.distinct
            return any(
                infos.do_terms_depend_on_namespace_labels(field, info.namespace) for field in fields_of_running_pods
            )

        filter_terms = (*info.required_affinity, *info.required_anti_affinity)
        if does_any_depend(filter_terms, ("required_anti_affinity",)):
            yield Dependency("Namespace", Effect.EITHER)
        score_terms = (*info.preferred_affinity, *info.preferred_anti_affinity)
        if does_any_depend(score_terms, ("required_affinity", "preferred_affinity", "preferred_anti_affinity")):
            yield Dependency("Namespace", Effect.SCORES)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[FilterState]:
        """Count, per topology domain, the matches of required terms between the pod and running pods.

        The pod's affinity, its anti-affinity and the anti-affinity of running pods are counted separately. Filter is
        skipped if the pod has no required terms and no required anti-affinity term of a running pod matches the pod. If
        terms cannot be parsed, the pod is rejected as unresolvable.
        """
        if info.affinity_errors:
            reason = f"parsing pod: {format_aggregate(info.affinity_errors)}"
            return PreFilterResult(Status(Code.UNRESOLVABLE, (reason,)))
        affinity = self._resolve_namespaces(info.required_affinity, view)
        anti_affinity = self._resolve_namespaces(info.required_anti_affinity, view)
        count_existing = partial(_count_existing_anti_affinity, info, view)
        all_existing_counts = TopologyCounts.build_for_pod(EXISTING_TERMS, info, view, count_existing)
        existing_anti_affinity = all_existing_counts.without_pods_overlooked_upstream(
            partial(_find_infos_with_terms, view, "required_anti_affinity"), view
        )
        if not affinity and not anti_affinity and existing_anti_affinity.is_empty:
            # If no term matches the pod at all, this result does not depend on where the pods with terms are.
            has_matching_terms = bool(existing_anti_affinity.counts)
            return PreFilterResult(SKIP, reads=Reads.PODS if has_matching_terms else Reads.NODES)

        count_affinity = partial(count_terms_per_key_if_all_match, affinity, view)
        count_anti_affinity = partial(count_each_match_per_key, anti_affinity, view)
        state = FilterState(
            affinity,
            anti_affinity,
            TopologyCounts.build_for_pod(self._build_cache_key("affinity"), info, view, count_affinity),
            anti_affinity=TopologyCounts.build_for_pod(
                self._build_cache_key("anti-affinity"), info, view, count_anti_affinity
            ),
            existing_anti_affinity=existing_anti_affinity,
        )
        return PreFilterResult(state=state)

    def filter(self, info: PodInfo, view: Fork, state: FilterState | None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes by required terms of the pod and of running pods.

        Raises PluginError if PreFilter did not run.
        """
        filter_state = require_state(state, 'error reading "PreFilterInterPodAffinity" from cycleState: not found')
        yield from iter_rejections(filter_state, info, view, delta)

    def build_row_verdicts(self, info: PodInfo, view: Fork) -> AffinityVerdicts | None:
        """Build an object that finds the rows rejected by required terms and is updated as pods come and go.

        Return None for terms that cannot be parsed. Also return None in the cycle of a pod group, in which upstream
        counts pods differently.
        """
        if info.affinity_errors or view.group_since is not None:
            return None
        affinity = self._resolve_namespaces(info.required_affinity, view)
        anti_affinity = self._resolve_namespaces(info.required_anti_affinity, view)
        count_affinity = partial(count_terms_per_key_if_all_match, affinity, view)
        count_anti_affinity = partial(count_each_match_per_key, anti_affinity, view)
        count_existing = partial(_count_existing_anti_affinity, info, view)
        return AffinityVerdicts(
            RunningCounts(self._build_cache_key("affinity"), info, view, count_affinity),
            RunningCounts(self._build_cache_key("anti-affinity"), info, view, count_anti_affinity),
            RunningCounts(EXISTING_TERMS, info, view, count_existing),
            wants_itself=do_terms_select_pod(affinity, info),
        )

    def build_row_scores(self, info: PodInfo, view: Fork) -> AffinityRowScores:
        """Return an object that scores any rows by the preferred terms and is updated as pods come and go."""
        _, weights = self._get_score_weights(info, view)
        return AffinityRowScores(RunningCounts(self._build_cache_key("score"), info, view, lambda: weights), view)

    def may_score(self, info: PodInfo, view: Fork) -> bool:
        """Return whether any scored term matches between the pod and another pod, whether or not that pod has a node.

        Return False if the arguments ignore all terms. Raises PluginError for terms that cannot be parsed.
        """
        if self._ignores_all_terms(info):
            return False
        matches, _ = self._get_score_weights(info, view)
        return bool(matches)

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[TopologyCounts]:
        """Sum the weights of the matching scored terms per topology domain, or skip Score if no term matches.

        Score is also skipped for a pod without preferred terms if the preferred terms of running pods are ignored.
        Raises PluginError for terms that cannot be parsed.
        """
        if self._ignores_all_terms(info):
            return PRE_SCORE_SKIP

        # Skip Score if no term matches. Weights can cancel each other out, so matches are counted separately.
        matches, weights = self._get_score_weights(info, view)
        match_counts = self._build_listed_counts("matches", matches, info, view)
        if match_counts.is_empty:
            # If no term matches any pod, with or without a node, the answer does not depend on where pods are.
            return PreScoreResult(skip=True, reads=Reads.PODS if matches else Reads.NODES)

        return PreScoreResult(self._build_listed_counts("score", weights, info, view))

    def _build_listed_counts(self, purpose: str, weights: SparseWeights, info: PodInfo, view: Fork) -> TopologyCounts:
        """Build the counts per topology domain for scoring, without the pods that upstream overlooks.

        `weights` has the weight of each PodInfo, and `purpose` is its name in the cache. For a pod without preferred
        terms, upstream lists only nodes that had pods with affinity terms when the cycle of the pod's group began. Pods
        that this cycle placed on other nodes are not counted.
        """
        counts = TopologyCounts.build_for_pod(self._build_cache_key(purpose), info, view, lambda: weights)
        has_preferred_terms = bool(info.preferred_affinity or info.preferred_anti_affinity)
        if has_preferred_terms:
            return counts
        return counts.without_pods_overlooked_upstream(partial(_find_infos_with_terms, view), view)

    def _ignores_all_terms(self, info: PodInfo) -> bool:
        """Return whether the arguments make the scores ignore all terms.

        This is the case if the arguments ignore the preferred terms of existing pods and the pod has no preferred
        terms. Raises PluginError for terms that cannot be parsed, unless they are ignored.
        """
        has_preferred_terms = bool(info.preferred_affinity or info.preferred_anti_affinity)
        if self.args.ignore_preferred_terms_of_existing_pods and not has_preferred_terms:
            return True
        if info.affinity_errors:
            raise PluginError(f"failed to parse pod: {format_aggregate(info.affinity_errors)}")
        return False

    def score(self, info: PodInfo, view: Fork, state: TopologyCounts | None, rows: Rows) -> Scores:
        """Return, for each node in `rows`, the sum of the weights of the terms that match in the node's domains.

        Raises PluginError if PreScore did not run.
        """
        counts = require_state(state, 'failed to read "PreScoreInterPodAffinity" from cycleState: not found')
        return compute_raw_scores(counts, view, rows)

    def normalize(self, state: TopologyCounts | None, scores: Scores) -> Scores:
        """Scale the scores so that the lowest becomes 0 and the highest 100. Equal scores all become 0."""
        return normalize_scores(scores)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        pod_actions = resolve_pod_actions(ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE, gates)
        # Upstream changed what the hints check, so the release decides.
        pod_hint = partial(
            hints.is_schedulable_after_pod_change,
            checks_both_ways=hints.CHECKS_BOTH_WAYS.at(gates.release),
            one_term_suffices=hints.ONE_TERM_SUFFICES.at(gates.release),
        )
        yield ClusterEventWithHint(POD, pod_actions, pod_hint, always_skips=hints.is_unaffected)

        node_actions = resolve_node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates)
        node_hint = partial(
            hints.is_schedulable_after_node_change,
            compares_with_old_node=hints.COMPARES_WITH_OLD_NODE.at(gates.release),
        )
        yield ClusterEventWithHint(NODE, node_actions, node_hint)

    def _get_score_weights(self, info: PodInfo, view: Fork) -> tuple[SparseWeights, SparseWeights]:
        """Return the result of `_compute_score_weights`, computed once for identical pods."""

        def compute() -> tuple[SparseWeights, SparseWeights]:
            matches, weights = self._compute_score_weights(info, view)
            return SparseWeights(matches), SparseWeights(weights)

        return view.memo_of_pods((self.name, self._build_cache_key("terms")), compute, info)

    def _compute_score_weights(self, info: PodInfo, view: Fork) -> tuple[dict[str, Weights], dict[str, Weights]]:
        """Return two maps from topology key to an array with one entry per pod info.

        The first map has the number of scored terms that match between the incoming pod and a pod with this info. The
        second map has the sum of these terms' weights, negative for anti-affinity.
        """
        affinity = self._resolve_namespaces(info.preferred_affinity, view)
        anti_affinity = self._resolve_namespaces(info.preferred_anti_affinity, view)
        terms = [
            *iter_own_terms(affinity, sign=1, view=view),
            *iter_own_terms(anti_affinity, sign=-1, view=view),
            *iter_terms_of_running_pods(info, view, self.args.hard_pod_affinity_weight),
        ]
        return sum_terms_per_key(terms, view)

    def find_upstream_fault(self, cycle: Cycle) -> UpstreamFault | None:
        """Return the upstream fault by which a namespaceSelector that only excludes namespaces selects all namespaces.

        Return None if no term of the pod has such a selector, or if the version does not have the fault.
        """
        if self.as_documented or not any(map(_only_excludes_namespaces, _iter_all_terms(cycle.info))):
            return None
        return UpstreamFault(EXCLUDING_SELECTOR, InterPodAffinity(self.args, as_documented=True))

    def _resolve_namespaces(self, terms: Iterable[AffinityTerm], view: Fork) -> tuple[AffinityTerm, ...]:
        """Return the terms with their namespaceSelectors resolved to the names of the selected namespaces."""
        return tuple(
            term.with_selected_namespaces(view.namespace_labels, replace_selector=self.as_documented) for term in terms
        )

    def _build_cache_key(self, purpose: str) -> str:
        """Return the cache key for results about the pod's own terms, which differ with `as_documented`."""
        return f"{purpose} as documented" if self.as_documented else purpose

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        return hints.iter_waking_changes(info, gates)

    def can_more_pods_help(self, info: PodInfo) -> bool:
        """Return whether the pod has required affinity, which added pods may satisfy."""
        return bool(info.required_affinity)

    def sign(self, info: PodInfo, view: Fork) -> Fragment | None:
        """Return the pod's labels as a fragment of its signature, or None for a pod with pod affinity or anti-affinity.

        A pod without a signature is never batched. The fragment is empty if preferred terms of running pods are
        ignored.
        """
        affinity = info.spec.affinity
        if affinity and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
            return None
        if self.args.ignore_preferred_terms_of_existing_pods:
            return {}
        return {"labels": info.labels}


def _count_existing_anti_affinity(info: PodInfo, view: Fork) -> dict[str, Weights]:
    """Return, by topology key, how many required anti-affinity terms of each pod info match the incoming pod."""
    return count_matches_per_key(find_terms_matching_pod(info, view, "required_anti_affinity"), view)


def _iter_all_terms(info: PodInfo) -> Iterator[AffinityTerm]:
    """Yield all affinity and anti-affinity terms of the pod."""
    return (term for name in TERM_FIELDS for term in getattr(info, name))


def _only_excludes_namespaces(term: AffinityTerm) -> bool:
    """Return whether the term's namespaceSelector only excludes namespaces.

    Such a selector matches a namespace without labels, but not every namespace.
    """
    return not term.namespace_selector.selects_everything and term.namespace_selector.matches({})


def _find_infos_with_terms(view: Fork, *fields: str) -> Bools:
    """Return a mask over the pod infos that have terms in one of the fields, by default in any field."""
    term_fields = fields or TERM_FIELDS
    key = _find_infos_with_terms, term_fields
    return view.memo_of_pods(key, lambda: view.pods.distinct.mask_with_terms(*term_fields))
