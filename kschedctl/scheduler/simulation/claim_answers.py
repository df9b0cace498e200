"""What plugins say of a pod's claims while others are placed, which bind volumes and take devices.

It is asked for each pod, as pods alike have claims of their own; what is the same for several is kept by whoever
looks claims up (scheduler/dynamic_resources, scheduler/volumes).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.cycle import FrameworkLike
from kschedctl.scheduler.framework import (
    Code,
    FilterPlugin,
    Plugin,
    PreScorePlugin,
    PreScoreResult,
    Reads,
    ScorePlugin,
    offers,
    reads_of,
)
from kschedctl.scheduler.reserve import RESERVED_KINDS
from kschedctl.scheduler.simulation.local_scores import union
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def reads_claims(plugin: Plugin, info: PodInfo) -> bool:
    """Whether an answer about a pod may change as claims are bound or allocated: who does not say may read any."""
    if reads_of(plugin) is Reads.OWN_ROW:
        return False
    kinds, trait = getattr(plugin, "kinds", None), getattr(plugin, "kinds_matter_to", None)
    return kinds is None or (not RESERVED_KINDS.isdisjoint(kinds) and (trait is None or trait.of(info.spec)))


class ClaimAnswers:
    """The answers of a profile's plugins that read claims of pods like ``info``, which may have other claims."""

    def __init__(self, framework: FrameworkLike, info: PodInfo, view: Fork) -> None:
        self.framework, self.view = framework, view
        before = {p.name for p in framework.at("preFilter")}
        found = [p for p in framework.at("filter") if offers(p, FilterPlugin) and reads_claims(p, info)]
        filters = [(plugin, plugin.name in before) for plugin in found]
        self._lasting = [each for each in filters if reads_of(each[0]) is Reads.NODES]
        self._moving = [each for each in filters if reads_of(each[0]) is not Reads.NODES]
        self._latest: tuple[PodInfo, int, Bools] | None = None
        prepares = {p.name: p for p in framework.at("preScore") if offers(p, PreScorePlugin)}
        scorers = [p for p in framework.at("score") if offers(p, ScorePlugin) and reads_claims(p, info)]
        self._scorers = [(scorer, prepares.get(scorer.name)) for scorer in scorers]

    def refused(self, info: PodInfo, nominated: Delta) -> Bools:
        """(N,): the nodes that they refuse as pods and claims are now, or would with the nominated pods on theirs."""
        refused = self._lastingly_refused(info)
        for plugin, prepares in self._moving:
            refused = refused | now_refused(plugin, prepares, info, self.view, nominated)
        return refused

    def _lastingly_refused(self, info: PodInfo) -> Bools:
        """What no pod changes, kept for the latest pod until a claim changes."""
        seen = sum(map(self.view.objects.replacements.__getitem__, RESERVED_KINDS))
        if self._latest is None or self._latest[0] is not info or self._latest[1] != seen:
            refused = np.zeros(len(self.view.nodes), np.bool_)
            for plugin, prepares in self._lasting:
                refused |= now_refused(plugin, prepares, info, self.view)
            self._latest = info, seen, refused
        return self._latest[2]

    def scores(self, info: PodInfo, rows: Rows) -> Scores:
        """(F,): what they score the feasible rows, weighted and added up; but for what all rows have in common."""
        total = np.zeros(len(rows), np.int64)
        for plugin, prepare in self._scorers:
            before = prepare.pre_score(info, self.view, rows) if prepare else PreScoreResult()
            if not before.skip:
                scores = plugin.score(info, self.view, before.state, rows)
                if (scores == scores[:1]).all():  # what they share makes no difference
                    continue
                total += self.framework.profile.weights[plugin.name] * plugin.normalize(before.state, scores)
        return total


def now_refused(plugin: Any, prepares: bool, info: PodInfo, view: Fork, nominated: Delta | None = None) -> Bools | bool:
    """The nodes that a plugin refuses as pods are now, or would with the nominated ones on theirs. Raises PluginError.

    ``prepares``: its PreFilter is asked before.
    """
    state, elsewhere = None, None
    if prepares:
        result = plugin.pre_filter(info, view)
        if result.status.code is Code.SKIP:
            return False
        if result.status.rejected:
            return True
        state = result.state
        elsewhere = None if result.node_names is None else ~rows_named(result.node_names, view)
    refused = union(plugin, info, view, state)
    if nominated:
        refused[nominated.node] |= union(plugin, info, view, state, nominated)[nominated.node]
    return refused if elsewhere is None else refused | elsewhere


def rows_named(names: frozenset[str], view: Fork) -> Bools:
    """(N,): the nodes of these names."""
    found = np.zeros(len(view.nodes), np.bool_)
    found[[view.nodes.index[name] for name in names if name in view.nodes.index]] = True
    return found
