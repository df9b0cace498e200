"""Placements: the sets of nodes on which a pod group may be placed, and the plugins that make and rank them.

Upstream: RunPlacementGeneratePlugins and RunPlacementScorePlugins in pkg/scheduler/framework/runtime/framework.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Plugin, PluginError, offers
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class GroupPlacement(NamedTuple):
    """Some nodes, by their rows in order; the name is that of a topology domain, empty for all nodes."""

    name: str
    rows: Rows


class ProposedAssignment(NamedTuple):
    """Where a pod of the group would go."""

    info: PodInfo
    row: int


class PodGroupAssignments(NamedTuple):
    """What placing the group in a placement came to."""

    placement: GroupPlacement
    assignments: tuple[ProposedAssignment, ...]


@runtime_checkable
class PlacementGeneratePlugin(Plugin, Protocol):
    def generate_placements(self, group: AnyGroup, view: Fork, parent: GroupPlacement) -> list[GroupPlacement]:
        """The placements to try, all within ``parent``, by name. Raises PluginError."""


@runtime_checkable
class PlacementScorePlugin(Plugin, Protocol):
    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """How good a placement is, the more the better. Raises PluginError."""

    def normalize_placements(self, scores: Scores) -> Scores:
        """(S,) in 0..100, of all placements. Plugins without upstream's extension return them unchanged."""


def generate_placements(framework: FrameworkLike, group: AnyGroup, view: Fork) -> list[GroupPlacement]:
    """What the profile's plugin makes of all nodes of a placement; without one it stays. Raises PluginError."""
    parent = np.arange(len(view.nodes)) if view.placement is None else np.flatnonzero(view.placement)
    everywhere = GroupPlacement("", parent)
    for plugin in framework.plugins_at("placementGenerate"):
        if offers(plugin, PlacementGeneratePlugin):
            return plugin.generate_placements(group, view, everywhere)
    return [everywhere]


def placement_scores(
    framework: FrameworkLike, group: AnyGroup, view: Fork, proposals: Sequence[PodGroupAssignments]
) -> dict[str, Scores]:
    """Plugin -> (S,): what it adds to the score of each placement. Raises PluginError, also for one outside 0..100."""
    scores: dict[str, Scores] = {}
    plugins = [plugin for plugin in framework.plugins_at("placementScore") if offers(plugin, PlacementScorePlugin)]
    for plugin in plugins:
        try:
            raw = [plugin.score_placement(group, view, proposal) for proposal in proposals]
        except PluginError as failure:
            raise PluginError(
                f'running PlacementScore plugins: plugin "{plugin.name}" failed with: {failure}'
            ) from None
        scores[plugin.name] = np.array(raw, np.int64)
    for plugin in plugins:
        scores[plugin.name] = (
            _normalized(plugin, scores[plugin.name]) * framework.profile.placement_weights[plugin.name]
        )
    return scores


def _normalized(plugin: PlacementScorePlugin, raw: Scores) -> Scores:
    try:
        scores = plugin.normalize_placements(raw)
    except PluginError as failure:
        what = "running NormalizePlacementScore on PlacementScore plugins"
        raise PluginError(f'{what}: plugin "{plugin.name}" failed with: {failure}') from None
    for score in scores[(scores < 0) | (scores > MAX_NODE_SCORE)].tolist():
        what = f'plugin "{plugin.name}" returns an invalid score {score}, it should in the range of [0, 100]'
        raise PluginError(f"applying score defaultWeights on PlacementScore plugins: {what} after normalizing")
    return scores
