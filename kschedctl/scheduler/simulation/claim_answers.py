"""The data on which plugins' answers about identical pods depend, and the answers that depend on a pod's claims.

An answer depends only on nodes, on a node's own row, or on all pods. While other pods bind volumes and allocate
devices, the plugins that read claims are asked for each pod, because identical pods may have different claims. Answers
that several pods share are cached where claims are looked up (scheduler/plugins/dynamic_resources and
scheduler/plugins/helper/volumes).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import RESERVED_KINDS
from kschedctl.scheduler.framework import (
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    Reads,
    ScorePlugin,
    get_answer_dependency,
    offers,
)
from kschedctl.scheduler.framework.declaration import PodTrait
from kschedctl.scheduler.simulation.local_scores import find_nodes_rejected_by_filter
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

EMPTY_RESULT = PreFilterResult()
"""The PreFilter result of a plugin that has no PreFilter."""
P = TypeVar("P", bound=Plugin)


def reads_claims(plugin: Plugin, info: PodInfo) -> bool:
    """Return whether a plugin's answer about a pod may change when claims are bound or allocated.

    A plugin that does not declare the kinds that it reads is assumed to read all kinds. A plugin that reads only a
    node's own row never reads claims. A plugin may also declare that its kinds matter only to pods with some trait.
    """
    if get_answer_dependency(plugin) is Reads.OWN_ROW:
        return False

    # Binding and allocation happen at Reserve, and change claims and volumes only
    reads_claims_of_some_pods = not RESERVED_KINDS.isdisjoint(_get_reserved_kinds_read(plugin))
    if not reads_claims_of_some_pods:
        return False
    relevant_trait: PodTrait | None = getattr(plugin, "kinds_matter_to", None)
    return relevant_trait is None or relevant_trait.has_trait(info.spec)


def _get_reserved_kinds_read(plugin: Plugin) -> Collection[str]:
    """Return the kinds of objects that a plugin reads, or all reservable kinds if it declares none."""
    kinds: Collection[str] | None = getattr(plugin, "kinds", None)
    return RESERVED_KINDS if kinds is None else kinds


class _LastingRejections(NamedTuple):
    """The nodes rejected for a pod no matter which pods move, valid until an object is replaced."""

    info: PodInfo
    replaced_count: int
    """The number of objects that had been replaced when this was computed."""
    rejected: Bools | bool


class ClaimAnswers:
    """The answers of a profile's plugins that read claims, for pods like `info`.

    These pods may have different claims.
    """

    def __init__(self, framework: FrameworkLike, info: PodInfo, view: Fork) -> None:
        self.framework, self.view = framework, view
        rejecting = list_rejecting_plugins(
            pre_filters=[plugin for plugin in framework.plugins_at("preFilter") if reads_claims(plugin, info)],
            filters=[plugin for plugin in framework.plugins_at("filter") if reads_claims(plugin, info)],
        )
        self._lasting = [asking for asking in rejecting if get_answer_dependency(asking.plugin) is Reads.NODES]
        self._changing = [asking for asking in rejecting if get_answer_dependency(asking.plugin) is not Reads.NODES]
        self._latest: _LastingRejections | None = None
        self.pre_filter_results: dict[str, PreFilterResult] = {}
        pre_scores = _map_claim_readers(framework, "preScore", PreScorePlugin, info)
        scorers = _map_claim_readers(framework, "score", ScorePlugin, info)
        self._scorers = [(scorer, pre_scores.get(name)) for name, scorer in scorers.items()]

    def find_rejected_nodes(self, info: PodInfo, nominated: Delta) -> Bools | bool:
        """Return a mask (N,) of the nodes that the plugins reject for this pod now, or one bool for all nodes.

        Nominated pods count as placed on their nodes. Raises PluginError if a plugin fails.
        """
        rejected = self.find_lastingly_rejected_nodes(info)
        for plugin in self._changing:
            rejected = rejected | self._find_nodes_rejected_by_plugin(plugin, info, nominated)
        return rejected

    def find_lastingly_rejected_nodes(self, info: PodInfo) -> Bools | bool:
        """Return a mask (N,) of the nodes that stay rejected whichever pods move, or one bool for all nodes.

        The answer is cached for the latest pod until a claim changes. A new answer also renews `pre_filter_results`.
        Raises PluginError if a plugin fails.
        """
        replaced_count = self.view.objects.replaced_count
        latest = self._latest
        if latest is not None and latest.info is info and latest.replaced_count == replaced_count:
            return latest.rejected
        self.pre_filter_results = {}
        rejected: Bools | bool = False
        for plugin in self._lasting:
            rejected = rejected | self._find_nodes_rejected_by_plugin(plugin, info)
        self._latest = _LastingRejections(info, replaced_count, rejected)
        return rejected

    def build_claims_key(self, info: PodInfo) -> Hashable:
        """Build a key that is equal for pods whose claims get the same answers now.

        Only plugins that read ResourceClaims contribute, because volume claims of identical pods get the same answers.
        Return None if the answers of such a plugin cannot be compared. Raises PluginError if a plugin fails.
        """
        keys = []
        for rejecting in (*self._lasting, *self._changing):
            if "ResourceClaim" in _get_reserved_kinds_read(rejecting.plugin):
                key = rejecting.run_pre_filter(info, self.view).like
                if key is None:
                    return None
                keys.append(key)
        return tuple(keys)

    def _find_nodes_rejected_by_plugin(
        self, plugin: RejectingPlugin, info: PodInfo, nominated: Delta = NO_CHANGE
    ) -> Bools | bool:
        """Return a mask (N,) of the nodes that one plugin rejects, or one bool for all nodes.

        The plugin's PreFilter result is stored in `pre_filter_results`. Raises PluginError if the plugin fails.
        """
        result = self.pre_filter_results[plugin.plugin.name] = plugin.run_pre_filter(info, self.view)
        return find_rejected_nodes(plugin, result, info, self.view, nominated)

    def add_scores(self, total: Scores, info: PodInfo, rows: Rows) -> None:
        """Add the plugins' weighted scores of the feasible `rows` to `total` in place.

        Scores that are equal on all rows are not added, since they make no difference.
        """
        for plugin, state, scores in self._iter_scores(info, rows):
            if np.count_nonzero(scores) and (scores != scores[:1]).any():
                total += self.framework.profile.weights[plugin.name] * plugin.normalize(state, scores)

    def are_scores_zero(self, info: PodInfo) -> bool:
        """Return whether the plugins score all nodes 0 for this pod now. If scoring fails, return False."""
        try:
            return not any(np.count_nonzero(scores) for _, _, scores in self._iter_scores(info, self.view.nodes.rows))
        except PluginError:
            return False

    def _iter_scores(self, info: PodInfo, rows: Rows) -> Iterator[tuple[ScorePlugin, Any, Scores]]:
        """Yield each plugin that scores the pod, with its state and the raw scores of `rows`.

        The state comes from PreScore or, if the plugin has no PreScore, from its PreFilter.
        """
        for plugin, prepare in self._scorers:
            if prepare is None:
                state = self.pre_filter_results.get(plugin.name, EMPTY_RESULT).state
            else:
                result = prepare.pre_score(info, self.view, rows)
                if result.skip:
                    continue
                state = result.state
            yield plugin, state, plugin.score(info, self.view, state, rows)


class RejectingPlugin(NamedTuple):
    """A plugin that may reject nodes in PreFilter, Filter or both."""

    plugin: Any
    runs_pre_filter: bool
    runs_filter: bool

    def run_pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        """Run the plugin's PreFilter in the current state. Raises PluginError if a plugin fails."""
        result: PreFilterResult = self.plugin.pre_filter(info, view) if self.runs_pre_filter else EMPTY_RESULT
        return result


def list_rejecting_plugins(pre_filters: Iterable[Plugin], filters: Iterable[Plugin]) -> list[RejectingPlugin]:
    """Combine PreFilter and Filter plugins into one list, in which each plugin occurs once.

    Each entry says whether the plugin runs at PreFilter, at Filter, or at both.
    """
    with_pre_filter = {plugin.name: plugin for plugin in pre_filters if offers(plugin, PreFilterPlugin)}
    with_filter = {plugin.name: plugin for plugin in filters if offers(plugin, FilterPlugin)}
    return [
        RejectingPlugin(plugin, runs_pre_filter=name in with_pre_filter, runs_filter=name in with_filter)
        for name, plugin in {**with_pre_filter, **with_filter}.items()
    ]


def _map_claim_readers(framework: FrameworkLike, point_name: str, point: type[P], info: PodInfo) -> dict[str, P]:
    """Return the plugins of an extension point whose answers may change with claims, by name."""
    return {
        plugin.name: plugin
        for plugin in framework.plugins_at(point_name)
        if offers(plugin, point) and reads_claims(plugin, info)
    }


def find_rejected_nodes(
    plugin: RejectingPlugin, pre_filter_result: PreFilterResult, info: PodInfo, view: Fork, nominated: Delta
) -> Bools | bool:
    """Return a mask (N,) of the nodes that a plugin rejects now, or one bool for all nodes.

    `pre_filter_result` is the plugin's PreFilter result for the pod. If this result is Skip, no node is rejected. If it
    rejects the pod, all nodes are rejected. A node with nominated pods has to pass both with and without these pods.
    Raises PluginError if a plugin fails.
    """
    if pre_filter_result.status.code is Code.SKIP:
        return False
    if pre_filter_result.status.rejected:
        return True

    # PreFilter may have restricted the nodes.
    names = pre_filter_result.node_names
    excluded_by_pre_filter = False if names is None else ~mask_named_rows(names, view)
    if not plugin.runs_filter:
        return excluded_by_pre_filter

    # Filter the nodes, also with the nominated pods.
    state = pre_filter_result.state
    rejected = find_nodes_rejected_by_filter(plugin.plugin, info, view, state)
    if nominated is not NO_CHANGE:
        rejected_with_nominated = find_nodes_rejected_by_filter(plugin.plugin, info, view, state, nominated)
        rejected[nominated.node] |= rejected_with_nominated[nominated.node]
    return rejected | excluded_by_pre_filter


def mask_named_rows(names: frozenset[str], view: Fork) -> Bools:
    """Return a mask (N,) of the nodes with these names. Names of nodes that do not exist are ignored."""
    mask = np.zeros(len(view.nodes), np.bool_)
    mask[[view.nodes.index[name] for name in names if name in view.nodes.index]] = True
    return mask


def get_answer_reads(plugin: Plugin, result: PreFilterResult | PreScoreResult | None) -> Reads:
    """Return what a plugin's answer about the identical pods depends on.

    The answer may narrow the plugin's declaration from all pods to nodes, but never to a node's own row.
    """
    if get_answer_dependency(plugin) is Reads.OWN_ROW:
        return Reads.OWN_ROW
    return Reads.NODES if get_answer_dependency(plugin, result) is Reads.NODES else Reads.PODS


def list_plugins(framework: FrameworkLike, point: str, info: PodInfo, *, reading_claims: bool) -> list[Plugin]:
    """Return the plugins of an extension point, without those that read the pod's claims unless `reading_claims`."""
    return [plugin for plugin in framework.plugins_at(point) if reading_claims or not reads_claims(plugin, info)]


def select_lasting_results(plugins: list[Plugin], results: Mapping[str, PreFilterResult]) -> dict[str, PreFilterResult]:
    """Return the PreFilter results of the `plugins` that hold no matter which pods run, by plugin."""
    names = {plugin.name for plugin in plugins if get_answer_reads(plugin, results.get(plugin.name)) is Reads.NODES}
    return {name: result for name, result in results.items() if name in names}


def list_changing_filters(
    pre_filters: list[Plugin], filters: list[Plugin], results: Mapping[str, PreFilterResult]
) -> list[RejectingPlugin]:
    """Return the plugins that may reject a node because of pods on other nodes.

    `results` are the PreFilter results for the identical pods, by plugin.
    """
    return [
        rejecting
        for rejecting in list_rejecting_plugins(pre_filters, filters)
        if get_answer_reads(rejecting.plugin, results.get(rejecting.plugin.name)) is Reads.PODS
    ]


def depends_on_other_nodes(
    framework: FrameworkLike, info: PodInfo, results: Mapping[str, PreFilterResult], *, has_claims: bool
) -> bool:
    """Return whether a plugin may reject a node for the pod because of pods on other nodes.

    If `has_claims` is true, plugins that read claims are left out. Return False if the pod can never fit on any node.
    `results` are the pod's PreFilter results, by plugin.
    """
    pre_filters = list_plugins(framework, "preFilter", info, reading_claims=not has_claims)
    lasting_results = select_lasting_results(pre_filters, results)
    if any(result.status.rejected for result in lasting_results.values()):
        return False
    filters = list_plugins(framework, "filter", info, reading_claims=not has_claims)
    return bool(list_changing_filters(pre_filters, filters, results))
