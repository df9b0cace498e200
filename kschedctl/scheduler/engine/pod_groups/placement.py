"""Placements: sets of nodes on which a pod group may be placed, and the plugins that generate and score them.

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
    """A set of nodes by rows, in order. The name is a topology domain's name, or empty for all nodes."""

    name: str
    rows: Rows


class ProposedAssignment(NamedTuple):
    """The node that a pod of the group would get."""

    info: PodInfo
    row: int


class PodGroupAssignments(NamedTuple):
    """The assignments of a group's pods in a placement."""

    placement: GroupPlacement
    assignments: tuple[ProposedAssignment, ...]


@runtime_checkable
class PlacementGeneratePlugin(Plugin, Protocol):
    """A plugin that generates placements."""

    def generate_placements(self, group: AnyGroup, view: Fork, parent: GroupPlacement) -> list[GroupPlacement]:
        """Return the placements within `parent` to try, sorted by name. Raises PluginError if a plugin fails."""


@runtime_checkable
class PlacementScorePlugin(Plugin, Protocol):
    """A plugin that scores placements."""

    def score_placement(self, group: AnyGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        """Return the score of a proposed placement, where higher is better. Raises PluginError if a plugin fails."""

    def normalize_placements(self, scores: Scores) -> Scores:
        """Return the scores of all placements scaled to 0 to 100.

        Scores stay unchanged if upstream's plugin does not scale them.
        """


def generate_placements(framework: FrameworkLike, group: AnyGroup, view: Fork) -> list[GroupPlacement]:
    """Return the placements that the profile's plugin generates within the view's current placement.

    Without such a plugin, the current placement is the only one. Raises PluginError if the plugin fails.
    """
    rows = np.arange(len(view.nodes)) if view.placement is None else np.flatnonzero(view.placement)
    current = GroupPlacement(name="", rows=rows)
    for plugin in framework.plugins_at("placementGenerate"):
        if offers(plugin, PlacementGeneratePlugin):
            return plugin.generate_placements(group, view, current)
    return [current]


def score_placements(
    framework: FrameworkLike, group: AnyGroup, view: Fork, proposals: Sequence[PodGroupAssignments]
) -> dict[str, Scores]:
    """Return each plugin's weighted scores, by plugin name, with one score per proposal.

    Raises PluginError if a plugin fails or a normalized score is not between 0 and 100.
    """
    scores: dict[str, Scores] = {}
    plugins = [plugin for plugin in framework.plugins_at("placementScore") if offers(plugin, PlacementScorePlugin)]

    # All plugins score before any scores are normalized.
    for plugin in plugins:
        try:
            raw = [plugin.score_placement(group, view, proposal) for proposal in proposals]
        except PluginError as failure:
            problem = f'plugin "{plugin.name}" failed with: {failure}'
            raise PluginError(f"running PlacementScore plugins: {problem}") from None
        scores[plugin.name] = np.array(raw, np.int64)

    for plugin in plugins:
        weight = framework.profile.placement_weights[plugin.name]
        scores[plugin.name] = _normalize_scores(plugin, scores[plugin.name]) * weight
    return scores


def _normalize_scores(plugin: PlacementScorePlugin, raw: Scores) -> Scores:
    """Return a plugin's normalized scores, one per placement.

    Raises PluginError if the plugin fails or a score is not between 0 and 100.
    """
    try:
        scores = plugin.normalize_placements(raw)
    except PluginError as failure:
        step = "running NormalizePlacementScore on PlacementScore plugins"
        raise PluginError(f'{step}: plugin "{plugin.name}" failed with: {failure}') from None
    for score in scores[(scores < 0) | (scores > MAX_NODE_SCORE)].tolist():
        problem = f'plugin "{plugin.name}" returns an invalid score {score}, it should in the range of [0, 100]'
        raise PluginError(f"applying score defaultWeights on PlacementScore plugins: {problem} after normalizing")
    return scores
