"""One scheduling cycle: PreEnqueue, PreFilter, Filter, extenders, scores, choice of the host.

Upstream: pkg/scheduler/schedule_one.go and pkg/scheduler/framework/runtime/framework.go (v1.36). Where upstream stops
at the first refusal, the cycle goes on, so that all of a node's refusals are known; ``Cycle`` keeps both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kschedctl.api.arrays import Bools, Row, Rows
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.extenders.consultation import Consultation
from kschedctl.scheduler.engine.extenders.extender import NAME as EXTENDERS
from kschedctl.scheduler.engine.extenders.extender import NOTHING_OFFERED, Offered
from kschedctl.scheduler.engine.kept_victims import KeptVictims
from kschedctl.scheduler.engine.pre_filter import PreFilterOutcome, run_pre_filter, selected_by_name
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import NodeSearch, Sampling, Terms
from kschedctl.scheduler.engine.scoring import ScoreOutcome, run_score
from kschedctl.scheduler.framework import (
    SUCCESS,
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PluginVerdict,
    PreEnqueuePlugin,
    Reads,
    Rejection,
    Status,
    offers,
    reads_of,
)
from kschedctl.scheduler.framework.declaration import OwnRowPlugin
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.own_rows import OwnRows
from kschedctl.snapshot.pod_info import PodInfo

NO_NODES = "no nodes available to schedule pods"
LEFT_OUT = ByVersion(
    "what is said of nodes that PreFilter plugins left out",
    (("", "node is filtered out by the prefilter result"), ("1.30.2", "node(s) didn't satisfy plugin(s) [{}]")),
    "#125197, brought back by #125306",
)
NARROWING_REFUSES = ByVersion(
    "whether plugins that left out nodes in PreFilter are remembered as having refused the pod",
    (("", False), ("1.31", True)),
    "#122251",
)
Verdicts = Mapping[str, PluginVerdict]


@dataclass(frozen=True)
class FilterOutcome:
    """What the Filter plugins said of all nodes.

    ``verdicts``: every plugin on every node, nominated pods aside. ``first`` (N,): index into ``order`` of the plugin
    that the framework reports for a node, -1 when it passes. ``with_nominated``: the verdicts with the nominated pods
    counted, where they decide; ``by_nominated`` (N,): that is so for the node.
    """

    order: tuple[str, ...]
    verdicts: Verdicts
    with_nominated: Verdicts
    first: Rows
    by_nominated: Bools

    @property
    def passing(self) -> Bools:
        return self.first < 0

    def first_fail(self, row: int) -> tuple[str, Status]:
        """The plugin that the framework reports for a refused node, and its status."""
        plugin = self.order[self.first[row]]
        return plugin, (self.with_nominated if self.by_nominated[row] else self.verdicts)[plugin].status(row)

    @cached_property
    def unresolvable(self) -> Bools:
        """(N,): reported as refused for good, so that fewer pods would not help."""
        mask = np.zeros(len(self.first), np.bool_)
        for _, verdict, mine in self.reported():
            mask |= mine & verdict.unresolvable
        return mask

    @cached_property
    def failed(self) -> Bools:
        """(N,): a plugin fails there on which nothing before it refuses the pod."""
        mask = np.zeros(len(self.first), np.bool_)
        for _, verdict, mine in self.reported():
            mask |= verdict.failed & mine
        return mask

    def reason_counts(self, among: Bools) -> Counter[str]:
        """How many of these nodes (N,) the framework reports for each reason."""
        counts: Counter[str] = Counter()
        for _, verdict, mine in self.reported():
            for rejection in verdict.rejections:
                counts[rejection.reason] += int((rejection.mask & mine & among).sum())
        return +counts

    def reported(self) -> Iterator[tuple[str, PluginVerdict, Bools]]:
        """Each plugin's verdicts, and (N,) the nodes for which the framework reports them."""
        for position, plugin in enumerate(self.order):
            mine = self.first == position
            yield plugin, self.verdicts[plugin], mine & ~self.by_nominated
            if plugin in self.with_nominated:
                yield plugin, self.with_nominated[plugin], mine & self.by_nominated


@dataclass(frozen=True)
class Cycle:
    """All that one cycle found. ``error``: a plugin or an extender failed, and the cycle ended there.

    ``considered`` (N,): the nodes that the framework looked at; the others stay absent from its diagnosis. Among them
    is ``promised``, the row of the node that the pod was nominated for, even where PreFilter plugins left it out.
    ``passed``: the nodes that extenders leave, which are scored; ``consultation``: what they were asked. ``search``:
    how a part of the nodes was looked at, None where all were or none had to be searched. ``kept_victims``: what dry
    runs of preemption for pods alike came to, where pods come one after the other. ``best_alone``: of preemption's
    candidates those that cannot be best are not asked for.
    """

    info: PodInfo
    view: Fork
    framework: FrameworkLike
    queue: Mapping[str, Status]
    pre_filter: PreFilterOutcome
    filter: FilterOutcome
    considered: Bools
    promised: int | None
    passed: Offered
    scores: ScoreOutcome
    consultation: Consultation
    error: str | None = None
    search: NodeSearch | None = None
    kept_victims: KeptVictims | None = None
    best_alone: bool = False

    @property
    def feasible(self) -> Rows:
        """The rows that passed; nodes that an extender made up are none of them."""
        return self.passed.rows[self.passed.rows >= 0]

    @property
    def gated(self) -> bool:
        return any(status.rejected for status in self.queue.values())

    @property
    def schedulable(self) -> bool:
        return self.error is None and len(self.passed.rows) > 0

    @cached_property
    def told(self) -> dict[Row, Status]:
        """What the diagnosis says of nodes in the words of extenders."""
        index = self.view.nodes.index
        return {index[name]: status for name, status in self.consultation.statuses.items() if name in index}

    @property
    def dropped(self) -> Bools:
        """(N,): the nodes that extenders left out without a word."""
        dropped = self.considered & self.filter.passing
        dropped[[*self.feasible.tolist(), *self.told]] = False
        return dropped

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """What the diagnosis names as having refused the pod: plugins, and the extenders together."""
        status, by = self.pre_filter.status, self.pre_filter.plugin
        narrowed = self.pre_filter.narrowed_by if NARROWING_REFUSES.at(self.framework.release) else ()
        if status.rejected and by:
            return frozenset((by, *(narrowed if status.code is Code.UNSCHEDULABLE else ())))
        refusing = (plugin for plugin, _, mine in self.filter.reported() if (mine & self.considered).any())
        return frozenset(refusing).union(narrowed, (EXTENDERS,) * self.consultation.narrowed)

    def status(self, row: int) -> Status:
        """What the framework's diagnosis says of a node: Success, its refusal, or the status of those not looked at."""
        if row in self.told:
            return self.told[Row(row)]
        if not self.considered[row]:
            return self.absent_status()
        return SUCCESS if self.filter.passing[row] else self.filter.first_fail(row)[1]

    def absent_status(self) -> Status:
        """The status of the nodes that the framework did not look at."""
        if self.pre_filter.status.rejected:
            return self.pre_filter.status
        plugins = set(self.pre_filter.narrowed_by)
        if self.promised is not None and not self.filter.passing[self.promised]:
            plugins.add(self.filter.first_fail(self.promised)[0])  # upstream keeps both in one set
        names = " ".join(sorted(plugins))
        return Status(Code.UNRESOLVABLE, (LEFT_OUT.at(self.framework.release).format(names),))


def run_cycle(framework: FrameworkLike, info: PodInfo, view: Fork, sampling: Sampling | None = None) -> Cycle:
    """Replay a cycle for a pod, with ``sampling`` on a part of the nodes, the next part from then on.

    Errors of plugins and extenders end up in ``Cycle.error``, as upstream words them.
    """
    queue = _run_pre_enqueue(framework.at("preEnqueue"), info, view)
    error = None
    before = PreFilterOutcome({})
    try:
        before = run_pre_filter(framework.at("preFilter"), info, view)
    except PluginError as failure:
        error = str(failure)
    outcome = FilterOutcome((), {}, {}, np.full(len(view.nodes), -1), np.zeros(len(view.nodes), np.bool_))
    considered = np.zeros(len(view.nodes), np.bool_)
    promised = _promised(info, view)
    consultation = Consultation(framework.extenders, info.pod, framework.release)
    passed, search = NOTHING_OFFERED, None
    scores = ScoreOutcome(passed.rows)
    if error is None:
        try:
            outcome = Filtering.of(framework, before, info, view).judge()
            considered = _considered(before, promised, view)
            kept = _kept_promise(outcome, considered, promised, consultation, view)
            if sampling and kept is None and not before.status.rejected:
                offered = np.flatnonzero(selected_by_name(before, view) & view.in_placement)
                terms = Terms.of(framework.profile, framework.release, len(consultation.statuses))
                terms = terms._replace(nodes=view.nodes_in_placement)
                search = sampling.search(~outcome.passing, offered, terms, outcome.failed, promised)
                considered = search.examined
            passed = kept or _passed(outcome, considered, consultation, view)
            scores = run_score(framework, before.results, info, view, passed)
            scores = replace(scores, extended=tuple(consultation.prioritize(view, passed)))
        except PluginError as failure:
            error = str(failure)
    return Cycle(
        info, view, framework, queue, before, outcome, considered, promised, passed, scores, consultation, error, search
    )


def _run_pre_enqueue(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> dict[str, Status]:
    return {p.name: p.pre_enqueue(info, view) for p in plugins if offers(p, PreEnqueuePlugin)}


@dataclass(frozen=True)
class Filtering:
    """The Filter plugins of a cycle, ready to judge all nodes under one hypothesis after another."""

    plugins: Sequence[FilterPlugin]
    pre_filter: PreFilterOutcome
    info: PodInfo
    view: Fork

    @classmethod
    def of(cls, framework: FrameworkLike, pre_filter: PreFilterOutcome, info: PodInfo, view: Fork) -> Filtering:
        """The framework's Filter plugins less those whose PreFilter skipped or refused the pod."""
        off = {name for name, result in pre_filter.results.items() if result.status.code is not Code.SUCCESS}
        plugins = [p for p in framework.at("filter") if offers(p, FilterPlugin) and p.name not in off]
        return cls(plugins, pre_filter, info, view)

    def judge(
        self, delta: Delta = NO_CHANGE, known: Verdicts | None = None, among: Bools | None = None
    ) -> FilterOutcome:
        """All plugins on all nodes; twice when pods are nominated that this one must yield to. Raises PluginError.

        Upstream's RunFilterPluginsWithNominatedPods: a node must pass with the nominated pods there, and without
        them. ``known`` are the verdicts without a hypothesis, for the plugins that it does not concern. Of nodes that
        are not ``among`` these (N,) nothing has to hold.
        """
        nodes = len(self.view.nodes)
        verdicts = self._evaluate(delta, known)
        first = first_refusal(verdicts, nodes)
        with_nominated: Verdicts = {}
        by_nominated = np.zeros(nodes, np.bool_)
        nominated = self.view.nominated_against(self.info)
        if nominated and (among is None or among[nominated.node].any()):
            with_nominated = self._evaluate(delta.then(nominated), known or verdicts)
            sooner = first_refusal(with_nominated, nodes)
            by_nominated[nominated.node] = sooner[nominated.node] >= 0
            first = np.where(by_nominated, sooner, first)
        return FilterOutcome(tuple(verdicts), verdicts, with_nominated, first, by_nominated)

    def _evaluate(self, delta: Delta, known: Verdicts | None) -> Verdicts:
        """Each plugin's verdict; it is asked only when the hypothesis may make a difference to what is known."""
        known = known or {}
        return {
            plugin.name: known[plugin.name]
            if plugin.name in known and (not delta or self.reads(plugin) is Reads.NODES)
            else self._verdict(plugin, delta)
            for plugin in self.plugins
        }

    def refused_alone(self, rows: OwnRows, delta: Delta) -> Bools:
        """(M,): which of some nodes the plugins refuse that look at no more than a node's own pods, nominated aside.

        Raises PluginError.
        """
        refused = np.zeros(len(rows.rows), np.bool_)
        for plugin in self._of_own_rows:
            for rejection in self._rejections(plugin, delta, rows):
                refused |= rejection.mask
        return refused

    def room_helps(self) -> bool:
        """Whether the plugins that look at a node's own pods let pass each node without some that they let pass."""
        return all(isinstance(p, OwnRowPlugin) and p.room_helps(self.view) for p in self._of_own_rows)

    @cached_property
    def _of_own_rows(self) -> list[FilterPlugin]:
        return [plugin for plugin in self.plugins if self.reads(plugin) is Reads.OWN_ROW]

    def refused_anyhow(self, known: Verdicts) -> Bools:
        """(N,): which nodes the plugins refuse that look at no pods; ``known`` are verdicts of theirs.

        Raises PluginError.
        """
        asked = [plugin for plugin in self.plugins if self.reads(plugin) is Reads.NODES]
        refused = [(known.get(plugin.name) or self._verdict(plugin, NO_CHANGE)).rejected for plugin in asked]
        return np.any(refused, axis=0) if refused else np.zeros(len(self.view.nodes), np.bool_)

    def reads(self, plugin: FilterPlugin) -> Reads:
        """What the plugin's verdict about this pod depends on."""
        return reads_of(plugin, self.pre_filter.results.get(plugin.name))

    def _verdict(self, plugin: FilterPlugin, delta: Delta) -> PluginVerdict:
        return PluginVerdict.from_rejections(self._rejections(plugin, delta), len(self.view.nodes))

    def _rejections(self, plugin: FilterPlugin, delta: Delta, rows: OwnRows | None = None) -> Iterator[Rejection]:
        """Raises PluginError."""
        view: Any = self.view if rows is None else rows  # a plugin that reads OWN_ROW takes either
        try:
            yield from plugin.filter(self.info, view, self._state(plugin), delta)
        except PluginError as failure:
            raise PluginError(f'running "{plugin.name}" filter plugin: {failure}') from None

    def _state(self, plugin: FilterPlugin) -> Any:
        result = self.pre_filter.results.get(plugin.name)
        return result.state if result else None


def first_refusal(verdicts: Verdicts, nodes: int) -> Rows:
    """(N,): index of the first plugin that refuses each node, -1 for none."""
    first = np.full(nodes, -1)
    for position, verdict in enumerate(verdicts.values()):
        first[(first < 0) & verdict.rejected] = position
    return first


def _promised(info: PodInfo, view: Fork) -> int | None:
    """The row of the node that the pod was nominated for, if that is one that may run it."""
    row = view.nodes.index.get(info.pod.status.nominated_node_name)
    return None if row is None or not view.in_placement[row] else row


def _considered(pre_filter: PreFilterOutcome, promised: int | None, view: Fork) -> Bools:
    if pre_filter.status.rejected:
        return np.zeros(len(view.nodes), np.bool_)
    considered = selected_by_name(pre_filter, view) & view.in_placement
    if promised is not None:
        considered[promised] = True
    return considered


def _kept_promise(
    outcome: FilterOutcome, considered: Bools, promised: int | None, consultation: Consultation, view: Fork
) -> Offered | None:
    """The node that was promised to the pod, where it passes plugins and extenders; errors about it alone are none."""
    if promised is None or not (considered & outcome.passing)[promised]:
        return None
    with suppress(PluginError):
        offered = consultation.filter(view, np.array([promised]))
        return offered if len(offered.rows) else None
    return None


def _passed(outcome: FilterOutcome, considered: Bools, consultation: Consultation, view: Fork) -> Offered:
    """The nodes that pass plugins and extenders. Raises PluginError."""
    _raise_filter_errors(outcome, considered)
    passing = outcome.passing & considered
    return consultation.find(view, view.nodes.rows if passing.all() else np.flatnonzero(passing))


def _raise_filter_errors(outcome: FilterOutcome, considered: Bools) -> None:
    """A plugin that fails on a node which nothing before it refuses fails the whole cycle."""
    for name, verdict, mine in outcome.reported():
        for rejection in verdict.rejections:
            failed = rejection.mask & considered & mine
            if rejection.code is Code.ERROR and failed.any():
                raise PluginError(f'running "{name}" filter plugin: {rejection.reason}')
