"""One scheduling cycle: PreEnqueue, PreFilter, Filter, extenders, scoring and the choice of a node.

Upstream: pkg/scheduler/schedule_one.go and pkg/scheduler/framework/runtime/framework.go (v1.36). Upstream stops at the
first rejection of a node; this cycle goes on to find all rejections, and `Cycle` reports both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from kschedctl.api.arrays import Bools, Row, Rows
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.dry_run_cache import VictimCache
from kschedctl.scheduler.engine.extenders import NAME as EXTENDERS
from kschedctl.scheduler.engine.extenders import NOTHING_OFFERED, Consultation, OfferedNodes
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import NodeSearch, Sampling, SearchTerms
from kschedctl.scheduler.engine.scoring import ScoreOutcome, run_score
from kschedctl.scheduler.framework import (
    SUCCESS,
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PluginVerdict,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    Rejection,
    Status,
    get_answer_dependency,
    offers,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, OwnRowPlugin
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork, OwnRows
from kschedctl.snapshot.pod_info import PodInfo

StateT = TypeVar("StateT")


@dataclass(frozen=True)
class PreFilterOutcome:
    """The combined answer of all PreFilter plugins."""

    results: Mapping[str, PreFilterResult]
    """Plugin -> its own answer."""
    status: Status = SUCCESS
    """The framework's answer."""
    plugin: str = ""
    """The plugin that gave `status`; empty if the framework did."""
    reached: tuple[str, ...] = ()
    """The plugins that upstream runs before it stops."""
    node_names: frozenset[str] | None = None
    """The only nodes that can pass; None for all."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that restricted the nodes."""

    def find_state(self, plugin: type[DeclaredPlugin[StateT, Any]]) -> StateT | None:
        """Return the state that a plugin's PreFilter passes to its Filter, or None."""
        result = self.results.get(plugin.name)
        return None if result is None else cast("StateT | None", result.state)


def run_pre_filter(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> PreFilterOutcome:
    """Run every PreFilter plugin and return the combined outcome. Raises PluginError if a plugin fails.

    Upstream stops at the first plugin that rejects the pod for good, or once no node is left. The outcome has the
    status that upstream gets, but the results of all plugins. Errors of plugins that upstream does not reach are
    ignored.
    """
    results: dict[str, PreFilterResult] = {}
    reached: list[str] = []
    narrowing_plugins: list[str] = []
    allowed_names: frozenset[str] | None = None
    status, deciding_plugin = SUCCESS, ""
    has_upstream_stopped = False
    for plugin in plugins:
        if not offers(plugin, PreFilterPlugin):
            continue
        if not has_upstream_stopped:
            reached.append(plugin.name)

        try:
            result = results[plugin.name] = plugin.pre_filter(info, view)
        except PluginError as failure:
            if has_upstream_stopped:
                continue
            raise PluginError(f'running PreFilter plugin "{plugin.name}": {failure}') from None

        # Only an answer that upstream reads decides.
        if has_upstream_stopped or result.status.code is Code.SKIP:
            continue
        if result.status.rejected:
            status, deciding_plugin = result.status, plugin.name
            has_upstream_stopped = result.status.code is Code.UNRESOLVABLE
        elif result.node_names is not None:
            narrowing_plugins.append(plugin.name)
            allowed_names = result.node_names if allowed_names is None else allowed_names & result.node_names
            if not allowed_names:
                status = Status(Code.UNRESOLVABLE, (_format_node_name_conflict(narrowing_plugins),))
                deciding_plugin = ""  # the framework decides
                has_upstream_stopped = True

    return PreFilterOutcome(
        results,
        status,
        plugin=deciding_plugin,
        reached=tuple(reached),
        node_names=allowed_names,
        narrowed_by=tuple(narrowing_plugins),
    )


def _format_node_name_conflict(plugins: list[str]) -> str:
    """Return upstream's message for plugins whose sets of node names have no node in common."""
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def mask_allowed_nodes(pre_filter: PreFilterOutcome, view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that PreFilter plugins allow: all nodes, unless a plugin names some."""
    names = pre_filter.node_names
    if names is None:
        return np.ones(len(view.nodes), np.bool_)
    return np.array([name in names for name in view.nodes.names], np.bool_)


NO_NODES = "no nodes available to schedule pods"
LEFT_OUT = ByVersion(
    "reason for nodes that PreFilter plugins excluded",
    (("", "node is filtered out by the prefilter result"), ("1.30.2", "node(s) didn't satisfy plugin(s) [{}]")),
    "#125197, backported by #125306",
)
NARROWING_REJECTS = ByVersion(
    "plugins that excluded nodes in PreFilter count as rejecting the pod, so events that they registered for retry it",
    (("", False), ("1.31", True)),
    "#122251",
)
Verdicts = Mapping[str, PluginVerdict]


@dataclass(frozen=True)
class FilterOutcome:
    """The answers of all Filter plugins for all N nodes."""

    order: tuple[str, ...]
    """Names of the plugins in the order in which they run."""
    verdicts: Verdicts
    """Each plugin's verdict on every node, without nominated pods."""
    with_nominated: Verdicts
    """Each plugin's verdict with the nominated pods counted, if any are nominated."""
    first: Rows
    """(N,): index into `order` of the plugin that upstream reports for the node, -1 if the node passes."""
    by_nominated: Bools
    """(N,): whether the node is rejected only with the nominated pods counted."""

    @property
    def passing(self) -> Bools:
        """A mask (N,) of the nodes that pass all filters."""
        return self.first < 0

    def find_first_rejection(self, row: int) -> tuple[str, Status]:
        """Return the plugin that upstream reports for a rejected node, and the status that it gives."""
        plugin = self.order[self.first[row]]
        verdicts = self.with_nominated if self.by_nominated[row] else self.verdicts
        return plugin, verdicts[plugin].get_status(row)

    @cached_property
    def unresolvable(self) -> Bools:
        """A mask (N,) of the nodes reported as UnschedulableAndUnresolvable, on which removing pods would not help."""
        mask = np.zeros(len(self.first), np.bool_)
        for _, verdict, reported in self.iter_reported_verdicts():
            mask |= reported & verdict.unresolvable
        return mask

    @cached_property
    def failed_nodes(self) -> Bools:
        """A mask (N,) of the nodes on which a plugin fails before any plugin rejects the pod."""
        mask = np.zeros(len(self.first), np.bool_)
        for _, verdict, reported in self.iter_reported_verdicts():
            mask |= verdict.failed & reported
        return mask

    def count_nodes_by_reason(self, nodes: Bools) -> Counter[str]:
        """Count the nodes in the mask `nodes` (N,) by the reason that upstream reports for them.

        A node with several reasons counts for each of them. Reasons without nodes are left out.
        """
        counts: Counter[str] = Counter()
        for _, verdict, reported in self.iter_reported_verdicts():
            for rejection in verdict.rejections:
                counts[rejection.reason] += int((rejection.mask & reported & nodes).sum())
        return +counts  # without zero counts

    def iter_reported_verdicts(self) -> Iterator[tuple[str, PluginVerdict, Bools]]:
        """Yield each plugin with its verdict and a mask (N,) of the nodes for which upstream reports the verdict.

        If a plugin has a second verdict, which counts the nominated pods, the plugin is yielded again with this
        verdict.
        """
        for number, plugin in enumerate(self.order):
            reported = self.first == number
            yield plugin, self.verdicts[plugin], reported & ~self.by_nominated
            if plugin in self.with_nominated:
                yield plugin, self.with_nominated[plugin], reported & self.by_nominated


@dataclass(frozen=True)
class Cycle:
    """The result of one scheduling cycle."""

    info: PodInfo
    """The pod."""
    view: Fork
    """The cluster state that the cycle looked at."""
    framework: FrameworkLike
    queue: Mapping[str, Status]
    """PreEnqueue plugin -> its status."""
    pre_filter: PreFilterOutcome
    filter: FilterOutcome
    considered: Bools
    """(N,): nodes that upstream examines and mentions in its diagnosis, including the nominated node."""
    nominated_row: int | None
    """Row of the pod's nominated node, examined even if PreFilter plugins exclude it; None if there is none."""
    passed: OfferedNodes
    """The nodes that pass filters and extenders, which are scored."""
    scores: ScoreOutcome
    consultation: Consultation
    """The calls of the extenders."""
    error: str | None = None
    """Message of the plugin or extender error that ended the cycle; None without an error."""
    search: NodeSearch | None = None
    """The search of a part of the nodes; None if all nodes were examined or no search was needed."""
    victim_cache: VictimCache | None = None
    """Cached preemption dry runs of equal pods, if many pods are scheduled one after another."""
    only_best_candidates: bool = False
    """True if preemption may leave out candidates that cannot be the best."""
    explains_failed_preemption: bool = True
    """True if preemption says why it found no node, which takes another run of the filters."""

    @property
    def feasible(self) -> Rows:
        """The rows that passed, without nodes that an extender made up."""
        return self.passed.rows[self.passed.rows >= 0]

    @property
    def gated(self) -> bool:
        """True if a PreEnqueue plugin keeps the pod out of the active queue."""
        return any(status.rejected for status in self.queue.values())

    @property
    def schedulable(self) -> bool:
        """True if at least one node passed and no error occurred."""
        return self.error is None and len(self.passed.rows) > 0

    @cached_property
    def extender_statuses(self) -> dict[Row, Status]:
        """The status that extenders gave each node in the diagnosis, by row."""
        index = self.view.nodes.index
        return {index[name]: status for name, status in self.consultation.statuses.items() if name in index}

    @property
    def silently_dropped(self) -> Bools:
        """A mask (N,) of the nodes that an extender dropped without a message."""
        mask = self.considered & self.filter.passing
        mask[[*self.feasible.tolist(), *self.extender_statuses]] = False
        return mask

    @property
    def rejecting_plugins(self) -> frozenset[str]:
        """The plugins that upstream's diagnosis lists as having rejected the pod.

        All extenders count as one plugin. Since v1.31, plugins that restricted the nodes in PreFilter count, too.
        """
        does_narrowing_count = NARROWING_REJECTS.at(self.framework.release)
        narrowing = frozenset(self.pre_filter.narrowed_by if does_narrowing_count else ())

        # If PreFilter rejects the pod, only the rejecting plugin counts, unless the code is Unschedulable.
        if self.pre_filter.status.rejected and self.pre_filter.plugin:
            rejecting_plugin = frozenset((self.pre_filter.plugin,))
            is_unschedulable = self.pre_filter.status.code is Code.UNSCHEDULABLE
            return rejecting_plugin | narrowing if is_unschedulable else rejecting_plugin

        # Otherwise, these are the plugins whose rejection is reported for an examined node.
        rejecting = {
            plugin for plugin, _, reported in self.filter.iter_reported_verdicts() if (reported & self.considered).any()
        }
        if self.consultation.narrowed:
            rejecting.add(EXTENDERS)
        return narrowing | rejecting

    def get_node_status(self, row: int) -> Status:
        """Return the status of a node in the diagnosis.

        A status from an extender takes precedence. All nodes that were not examined share one status. Any other node
        has the status of the first plugin that rejects it, or Success if no plugin does.
        """
        if row in self.extender_statuses:
            return self.extender_statuses[Row(row)]
        if not self.considered[row]:
            return self.build_unexamined_status()
        if self.filter.passing[row]:
            return SUCCESS
        _, status = self.filter.find_first_rejection(row)
        return status

    def build_unexamined_status(self) -> Status:
        """Build the status that the diagnosis gives to all nodes that upstream did not examine.

        If PreFilter rejects the pod, this is PreFilter's status. Otherwise, the status is UnschedulableAndUnresolvable,
        and its reason names the plugins that restricted the nodes and the plugin that rejects the nominated node.
        """
        if self.pre_filter.status.rejected:
            return self.pre_filter.status
        plugins = set(self.pre_filter.narrowed_by)
        if self.nominated_row is not None and not self.filter.passing[self.nominated_row]:
            # Upstream collects these plugins and those that reject the nominated node in one set.
            rejecting_plugin, _ = self.filter.find_first_rejection(self.nominated_row)
            plugins.add(rejecting_plugin)
        names = " ".join(sorted(plugins))
        return Status(Code.UNRESOLVABLE, (LEFT_OUT.at(self.framework.release).format(names),))


def run_cycle(framework: FrameworkLike, info: PodInfo, view: Fork, sampling: Sampling | None = None) -> Cycle:
    """Run the scheduling cycle of a pod and return its result.

    With `sampling`, only part of the nodes is searched, and the next cycle continues where this one stops. There is no
    search if PreFilter rejects the pod, or if the pod's nominated node is feasible, which is then taken. Errors of
    plugins and extenders are not raised: `Cycle.error` has upstream's message. A PreEnqueue plugin that rejects the pod
    does not end the cycle.
    """
    queue = _run_pre_enqueue(framework.plugins_at("preEnqueue"), info, view)
    error = None
    pre_filter = PreFilterOutcome({})
    try:
        pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, view)
    except PluginError as failure:
        error = str(failure)

    # A cycle that ends early has these empty results.
    outcome = FilterOutcome(
        order=(),
        verdicts={},
        with_nominated={},
        first=np.full(len(view.nodes), -1),
        by_nominated=np.zeros(len(view.nodes), np.bool_),
    )
    considered = np.zeros(len(view.nodes), np.bool_)
    nominated_row = _find_nominated_row(info, view)
    consultation = Consultation(framework.extenders, info.pod, framework.release)
    feasible, search = NOTHING_OFFERED, None
    scores = ScoreOutcome(feasible.rows)

    # Filter and score the nodes.
    if error is None:
        try:
            outcome = Filtering.from_framework(framework, pre_filter, info, view).run_filters()
            considered = _mask_examined_nodes(pre_filter, nominated_row, view)
            nominated_node = _find_feasible_nominated_node(outcome, considered, nominated_row, consultation, view)
            if sampling and nominated_node is None and not pre_filter.status.rejected:
                terms = SearchTerms.from_profile(
                    framework.profile, framework.release, extender_statuses=len(consultation.statuses)
                )
                search = _search_sample(sampling, terms, pre_filter, outcome, view, nominated_row=nominated_row)
                considered = search.examined
            feasible = nominated_node or _find_feasible_nodes(outcome, considered, consultation, view)
            scores = run_score(framework, pre_filter.results, info, view, feasible)
            scores = replace(scores, extended=tuple(consultation.prioritize(view, feasible)))
        except PluginError as failure:
            error = str(failure)
    return Cycle(
        info,
        view,
        framework=framework,
        queue=queue,
        pre_filter=pre_filter,
        filter=outcome,
        considered=considered,
        nominated_row=nominated_row,
        passed=feasible,
        scores=scores,
        consultation=consultation,
        error=error,
        search=search,
    )


def _run_pre_enqueue(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> dict[str, Status]:
    """Return the status that each PreEnqueue plugin gives the pod, by plugin name."""
    return {p.name: p.pre_enqueue(info, view) for p in plugins if offers(p, PreEnqueuePlugin)}


@dataclass(frozen=True)
class Filtering:
    """The Filter plugins of a cycle.

    They can also judge all nodes under the hypothesis that pods come or go.
    """

    plugins: Sequence[FilterPlugin]
    pre_filter: PreFilterOutcome
    info: PodInfo
    view: Fork

    @classmethod
    def from_framework(
        cls, framework: FrameworkLike, pre_filter: PreFilterOutcome, info: PodInfo, view: Fork
    ) -> Filtering:
        """Select the profile's Filter plugins, except those whose PreFilter skipped or rejected the pod."""
        inactive = {name for name, result in pre_filter.results.items() if result.status.code is not Code.SUCCESS}
        plugins = [p for p in framework.plugins_at("filter") if offers(p, FilterPlugin) and p.name not in inactive]
        return cls(plugins, pre_filter, info, view)

    def run_filters(
        self, delta: Delta = NO_CHANGE, known_verdicts: Verdicts | None = None, nodes_to_judge: Bools | None = None
    ) -> FilterOutcome:
        """Run all Filter plugins on all nodes, first without and then with the nominated pods that count for this pod.

        A node must pass both times, as in upstream's RunFilterPluginsWithNominatedPods. `delta` is a hypothetical
        change of pods on nodes. `known_verdicts` are verdicts without this change, which are reused for plugins that do
        not read pods. With `nodes_to_judge` (N,), only the verdicts on these nodes are valid. Raises PluginError if a
        plugin fails.
        """
        nodes = len(self.view.nodes)
        verdicts = self._collect_verdicts(delta, known_verdicts)
        # (N,), negative for nodes that no plugin rejects
        first_rejecting = find_first_rejecting_plugins(verdicts, nodes)

        # Nominated pods matter only on the nodes for which they are nominated, and only to plugins that read pods.
        with_nominated: Verdicts = {}
        by_nominated = np.zeros(nodes, np.bool_)
        nominated = self.view.build_nominated_delta_against(self.info)
        if nominated and (nodes_to_judge is None or nodes_to_judge[nominated.node].any()):
            with_nominated = self._collect_verdicts(delta.followed_by(nominated), known_verdicts or verdicts)
            first_with_nominated = find_first_rejecting_plugins(with_nominated, nodes)
            by_nominated[nominated.node] = first_with_nominated[nominated.node] >= 0
            first_rejecting = np.where(by_nominated, first_with_nominated, first_rejecting)
        return FilterOutcome(
            tuple(verdicts), verdicts, with_nominated, first=first_rejecting, by_nominated=by_nominated
        )

    def _collect_verdicts(self, delta: Delta, known_verdicts: Verdicts | None) -> Verdicts:
        """Return each plugin's verdict after the hypothetical change, by plugin name.

        A known verdict is reused if nothing changes or if the plugin does not read pods. Raises PluginError if a plugin
        fails.
        """
        verdicts: dict[str, PluginVerdict] = {}
        for plugin in self.plugins:
            known_verdict = known_verdicts.get(plugin.name) if known_verdicts else None
            if known_verdict is not None and (not delta or self.get_dependency(plugin) is Reads.NODES):
                verdicts[plugin.name] = known_verdict
            else:
                verdicts[plugin.name] = self._judge_with_plugin(plugin, delta)
        return verdicts

    def mask_rejected_rows(self, rows: OwnRows, delta: Delta) -> Bools:
        """Return a mask over `rows` of the rows that a plugin rejects.

        Only the plugins that read nothing but a node's own row are run. Nominated pods are not counted. Raises
        PluginError if a plugin fails.
        """
        rejected = np.zeros(len(rows.rows), np.bool_)
        for plugin in self._own_row_plugins:
            for rejection in self._iter_rejections(plugin, delta, rows):
                rejected |= rejection.mask
        return rejected

    def can_evictions_only_help(self) -> bool:
        """Return whether evictions from a node can only make plugins accept it.

        Only plugins that read only a node's own row are considered.
        """
        return all(isinstance(p, OwnRowPlugin) and p.can_evictions_only_help(self.view) for p in self._own_row_plugins)

    @cached_property
    def _own_row_plugins(self) -> list[FilterPlugin]:
        """The plugins that read nothing but a node's own row."""
        return [plugin for plugin in self.plugins if self.get_dependency(plugin) is Reads.OWN_ROW]

    def find_nodes_rejected_regardless_of_pods(self, known_verdicts: Verdicts) -> Bools:
        """Return a mask (N,) of the nodes that plugins reject no matter which pods run there.

        Verdicts in `known_verdicts` are reused. Raises PluginError if a plugin fails.
        """
        plugins = [plugin for plugin in self.plugins if self.get_dependency(plugin) is Reads.NODES]
        rejected = np.zeros(len(self.view.nodes), np.bool_)
        for plugin in plugins:
            verdict = known_verdicts.get(plugin.name) or self._judge_with_plugin(plugin, NO_CHANGE)
            rejected |= verdict.rejected
        return rejected

    def get_dependency(self, plugin: FilterPlugin) -> Reads:
        """Return what the plugin's verdict on this pod depends on, as the plugin or its PreFilter declares."""
        return get_answer_dependency(plugin, self.pre_filter.results.get(plugin.name))

    def _judge_with_plugin(self, plugin: FilterPlugin, delta: Delta) -> PluginVerdict:
        """Run one plugin on all nodes after a hypothetical change, and return its verdict."""
        return PluginVerdict.from_rejections(self._iter_rejections(plugin, delta), len(self.view.nodes))

    def _iter_rejections(self, plugin: FilterPlugin, delta: Delta, rows: OwnRows | None = None) -> Iterator[Rejection]:
        """Yield a plugin's rejections of all nodes, or only of the given rows. Raises PluginError if a plugin fails."""
        view: Any = self.view if rows is None else rows  # a plugin that reads OWN_ROW takes either
        try:
            yield from plugin.filter(self.info, view, self._find_state(plugin), delta)
        except PluginError as failure:
            raise PluginError(f'running "{plugin.name}" filter plugin: {failure}') from None

    def _find_state(self, plugin: FilterPlugin) -> Any:
        """Return the state that the plugin's PreFilter passes to its Filter, or None."""
        result = self.pre_filter.results.get(plugin.name)
        return result.state if result else None


def find_first_rejecting_plugins(verdicts: Verdicts, nodes: int) -> Rows:
    """Return, for each node, the index of the first plugin that rejects it, or -1 if the node passes."""
    first = np.full(nodes, -1)
    for index, verdict in enumerate(verdicts.values()):
        first[(first < 0) & verdict.rejected] = index
    return first


def _find_nominated_row(info: PodInfo, view: Fork) -> int | None:
    """Return the row of the pod's nominated node, or None if the node is unknown or outside the placement."""
    row = view.nodes.index.get(info.pod.status.nominated_node_name)
    return None if row is None or not view.in_placement[row] else row


def _mask_examined_nodes(pre_filter: PreFilterOutcome, nominated_row: int | None, view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that upstream would examine if it did not sample nodes.

    These are the nodes in the view's placement that PreFilter allows, and the nominated node even if PreFilter excludes
    it. If PreFilter rejects the pod, upstream examines no node.
    """
    if pre_filter.status.rejected:
        return np.zeros(len(view.nodes), np.bool_)
    examined = mask_allowed_nodes(pre_filter, view) & view.in_placement
    if nominated_row is not None:
        examined[nominated_row] = True
    return examined


def _search_sample(
    sampling: Sampling,
    terms: SearchTerms,
    pre_filter: PreFilterOutcome,
    outcome: FilterOutcome,
    view: Fork,
    *,
    nominated_row: int | None,
) -> NodeSearch:
    """Search the nodes that PreFilter allows in the view's placement until enough of them are feasible.

    `terms` are the search terms of the profile. The search ends early at a node on which a plugin fails. The nominated
    node, if there is one, was examined before.
    """
    offered = np.flatnonzero(mask_allowed_nodes(pre_filter, view) & view.in_placement)
    terms_in_placement = terms._replace(nodes=view.nodes_in_placement)
    return sampling.search_nodes(
        ~outcome.passing, offered, terms_in_placement, failed=outcome.failed_nodes, nominated_row=nominated_row
    )


def _find_feasible_nominated_node(
    outcome: FilterOutcome, considered: Bools, nominated_row: int | None, consultation: Consultation, view: Fork
) -> OfferedNodes | None:
    """Return the pod's nominated node if plugins and extenders accept it, otherwise None.

    A failing extender counts as a rejection, because upstream then searches all nodes.
    """
    if nominated_row is None or not (considered & outcome.passing)[nominated_row]:
        return None
    with suppress(PluginError):
        offered = consultation.filter(view, np.array([nominated_row]))
        return offered if len(offered.rows) else None
    return None


def _find_feasible_nodes(
    outcome: FilterOutcome, considered: Bools, consultation: Consultation, view: Fork
) -> OfferedNodes:
    """Return the examined nodes that pass plugins and extenders. Raises PluginError if a plugin fails."""
    _raise_filter_errors(outcome, considered)
    passing = outcome.passing & considered
    # If all nodes pass, use the shared array of rows, which saves a copy and which callers recognize by identity.
    rows = view.nodes.rows if passing.all() else np.flatnonzero(passing)
    return consultation.filter_all(view, rows)


def _raise_filter_errors(outcome: FilterOutcome, considered: Bools) -> None:
    """Raise PluginError if a plugin fails on an examined node that no earlier plugin rejects."""
    for name, verdict, reported in outcome.iter_reported_verdicts():
        for rejection in verdict.rejections:
            failed = rejection.mask & considered & reported
            if rejection.code is Code.ERROR and failed.any():
                raise PluginError(f'running "{name}" filter plugin: {rejection.reason}')
