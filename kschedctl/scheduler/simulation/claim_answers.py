"""What plugins say of a pod's claims while others are placed, which bind volumes and take devices.

It is asked for each pod, as pods alike have claims of their own; what is the same for several is kept by whoever
looks claims up (scheduler/dynamic_resources, scheduler/volumes).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
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
    Reads,
    ScorePlugin,
    offers,
    reads_of,
)
from kschedctl.scheduler.framework.pod_traits import PodTrait
from kschedctl.scheduler.simulation.local_scores import filter_nodes
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOTHING_SAID = PreFilterResult()
"""In place of what a PreFilter says, where there is none."""
P = TypeVar("P", bound=Plugin)


def reads_claims(plugin: Plugin, info: PodInfo) -> bool:
    """Whether an answer about a pod may change as claims are bound or allocated: who does not say may read any."""
    if reads_of(plugin) is Reads.OWN_ROW:
        return False
    trait: PodTrait | None = getattr(plugin, "kinds_matter_to", None)
    return not RESERVED_KINDS.isdisjoint(_kinds(plugin)) and (trait is None or trait.has_trait(info.spec))


def _kinds(plugin: Plugin) -> Collection[str]:
    """The kinds that a plugin reads, as far as these may be reserved."""
    kinds: Collection[str] | None = getattr(plugin, "kinds", None)
    return RESERVED_KINDS if kinds is None else kinds


class ClaimAnswers:
    """The answers of a profile's plugins that read claims of pods like ``info``, which may have other claims.

    ``before``: by plugin, what its PreFilter said of the latest pod.
    """

    def __init__(self, framework: FrameworkLike, info: PodInfo, view: Fork) -> None:
        self.framework, self.view = framework, view
        asked = refusing(
            [p for p in framework.plugins_at("preFilter") if reads_claims(p, info)],
            [p for p in framework.plugins_at("filter") if reads_claims(p, info)],
        )
        self._lasting = [asking for asking in asked if reads_of(asking.plugin) is Reads.NODES]
        self._moving = [asking for asking in asked if reads_of(asking.plugin) is not Reads.NODES]
        self._latest: tuple[PodInfo, int, Bools | bool] | None = None
        self.before: dict[str, PreFilterResult] = {}
        pre_scores = _reading_claims(framework, "preScore", PreScorePlugin, info)
        scorers = _reading_claims(framework, "score", ScorePlugin, info)
        self._scorers = [(scorer, pre_scores.get(name)) for name, scorer in scorers.items()]

    def refused(self, info: PodInfo, nominated: Delta) -> Bools | bool:
        """(N,): the nodes that they refuse as pods and claims are now, or would with the nominated pods on theirs; one
        bool for all of them.
        """
        refused = self._lastingly_refused(info)
        for asked in self._moving:
            refused = refused | self._ask(asked, info, nominated)
        return refused

    def _lastingly_refused(self, info: PodInfo) -> Bools | bool:
        """What no pod changes, kept for the latest pod until a claim changes."""
        seen = self.view.objects.replaced
        if self._latest is None or self._latest[0] is not info or self._latest[1] != seen:
            self.before = {}
            refused: Bools | bool = False
            for asked in self._lasting:
                refused = refused | self._ask(asked, info)
            self._latest = info, seen, refused
        return self._latest[2]

    def likeness(self, info: PodInfo) -> Hashable:
        """Equal for pods alike of whose claims the same is said as things are; None for one by itself.

        Those of volumes are the same for all that are alike. Raises PluginError.
        """
        asked = [asking for asking in (*self._lasting, *self._moving) if "ResourceClaim" in _kinds(asking.plugin)]
        likenesses = tuple([asking.before(info, self.view).like for asking in asked])
        return None if None in likenesses else likenesses

    def _ask(self, asked: Refusing, info: PodInfo, nominated: Delta = NO_CHANGE) -> Bools | bool:
        before = self.before[asked.plugin.name] = asked.before(info, self.view)
        return now_refused(asked, before, info, self.view, nominated)

    def add_scores(self, total: Scores, info: PodInfo, rows: Rows) -> None:
        """Add to the total (F,) what they score the feasible rows, weighted; but for what all rows have in common."""
        for plugin, state, scores in self._scores(info, rows):
            if np.count_nonzero(scores) and (scores != scores[:1]).any():  # what they share makes no difference
                total += self.framework.profile.weights[plugin.name] * plugin.normalize(state, scores)

    def score_nothing(self, info: PodInfo) -> bool:
        """Whether they score all nodes 0 now; not known where some cannot be scored."""
        try:
            return not any(np.count_nonzero(scores) for _, _, scores in self._scores(info, self.view.nodes.rows))
        except PluginError:
            return False

    def _scores(self, info: PodInfo, rows: Rows) -> Iterator[tuple[ScorePlugin, Any, Scores]]:
        """The plugins that score such a pod, what their PreScore leaves them, and the raw scores (F,)."""
        for plugin, prepare in self._scorers:
            if prepare is None:
                state = self.before.get(plugin.name, NOTHING_SAID).state
            else:
                before = prepare.pre_score(info, self.view, rows)
                if before.skip:
                    continue
                state = before.state
            yield plugin, state, plugin.score(info, self.view, state, rows)


class Refusing(NamedTuple):
    """A plugin that may refuse nodes, and whether its PreFilter and its Filter are asked."""

    plugin: Any
    prepares: bool
    filters: bool

    def before(self, info: PodInfo, view: Fork) -> PreFilterResult:
        """What its PreFilter says now. Raises PluginError."""
        result: PreFilterResult = self.plugin.pre_filter(info, view) if self.prepares else NOTHING_SAID
        return result


def refusing(pre_filters: Iterable[Plugin], filters: Iterable[Plugin]) -> list[Refusing]:
    """The plugins of the two extension points that may refuse nodes."""
    before = {plugin.name: plugin for plugin in pre_filters if offers(plugin, PreFilterPlugin)}
    after = {plugin.name: plugin for plugin in filters if offers(plugin, FilterPlugin)}
    return [Refusing(plugin, name in before, name in after) for name, plugin in {**before, **after}.items()]


def _reading_claims(framework: FrameworkLike, at: str, point: type[P], info: PodInfo) -> dict[str, P]:
    """By name, the plugins of an extension point of which answers may change with claims."""
    return {p.name: p for p in framework.plugins_at(at) if offers(p, point) and reads_claims(p, info)}


def now_refused(asked: Refusing, before: PreFilterResult, info: PodInfo, view: Fork, nominated: Delta) -> Bools | bool:
    """The nodes that a plugin refuses as pods are now, or would with the nominated ones on theirs. Raises PluginError.

    ``before``: what its PreFilter says now.
    """
    if before.status.code is Code.SKIP:
        return False
    if before.status.rejected:
        return True
    elsewhere = False if before.node_names is None else ~rows_named(before.node_names, view)
    if not asked.filters:
        return elsewhere
    refused = filter_nodes(asked.plugin, info, view, before.state)
    if nominated is not NO_CHANGE:
        refused[nominated.node] |= filter_nodes(asked.plugin, info, view, before.state, nominated)[nominated.node]
    return refused if before.node_names is None else refused | elsewhere


def rows_named(names: frozenset[str], view: Fork) -> Bools:
    """(N,): the nodes of these names."""
    mask = np.zeros(len(view.nodes), np.bool_)
    mask[[view.nodes.index[name] for name in names if name in view.nodes.index]] = True
    return mask
