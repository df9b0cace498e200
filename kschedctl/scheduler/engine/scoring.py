"""Scoring of the feasible nodes: PreScore, Score, NormalizeScore and the weights of the plugins.

An extender may return whole nodes, which are then scored in place of the scheduler's own. Upstream makes a new NodeInfo
of each, without pods and images, while PreScore still counts on the scheduler's own nodes. Upstream: prioritizeNodes in
pkg/scheduler/schedule_one.go, pkg/scheduler/framework/runtime/framework.go and HTTPExtender.Filter in
pkg/scheduler/extender.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import NO_ROW, Row, Rows, Scores
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.extenders import OfferedNodes, parse_node
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import (
    PluginError,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    ScorePlugin,
    offers,
    scores_with_pre_filter_state,
)
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class ScoreOutcome:
    """Scores of the F feasible rows by plugin. Plugins that do not score this pod are absent."""

    rows: Rows
    raw: Mapping[str, Scores] = field(default_factory=dict)
    """Plugin -> raw scores, (F,)."""
    normalized: Mapping[str, Scores] = field(default_factory=dict)
    """Plugin -> scores from 0 to 100, (F,)."""
    weighted: Mapping[str, Scores] = field(default_factory=dict)
    """Plugin -> normalized scores times the plugin's weight, (F,)."""
    base: int = 0
    """Score of every node before plugins add theirs."""
    extended: Sequence[tuple[str, Scores]] = ()
    """URL of each scoring extender, and what it adds, (F,)."""

    @cached_property
    def total(self) -> Scores:
        """The sum of all weighted scores and `base`, per feasible row."""
        added = (scores for _, scores in self.extended)
        total: Scores = np.sum([np.full(len(self.rows), self.base), *self.weighted.values(), *added], axis=0)
        return total

    @cached_property
    def best(self) -> Rows:
        """The rows that share the highest total. The scheduler picks one of them at random."""
        return self.rows[self.top]

    @property
    def top(self) -> Rows:
        """Indices of the best rows among the F rows, none if there are no rows."""
        if not len(self.rows):
            return np.empty(0, np.int64)
        return np.flatnonzero(self.total == self.total.max())


def run_score(
    framework: FrameworkLike,
    pre_filter_results: Mapping[str, PreFilterResult],
    info: PodInfo,
    view: Fork,
    nodes: OfferedNodes,
) -> ScoreOutcome:
    """Score the feasible nodes with all plugins of the profile.

    `pre_filter_results` are the PreFilter results by plugin. The outcome has no scores of plugins whose PreScore skips
    Score. Raises PluginError if a plugin fails or a normalized score is not between 0 and 100.
    """
    if not len(nodes.rows):
        return ScoreOutcome(nodes.rows)
    scored = ScoredNodes.from_offered(view, nodes, framework.release)

    # Some plugins have no PreScore, and score with the state of their PreFilter.
    prepared: dict[str, PreScoreResult] = {}
    for plugin in framework.plugins_at("score"):
        if scores_with_pre_filter_state(plugin) and plugin.name in pre_filter_results:
            prepared[plugin.name] = PreScoreResult(pre_filter_results[plugin.name].state)

    # All others are prepared by PreScore.
    ran_pre_score = set()
    for plugin in framework.plugins_at("preScore"):
        if offers(plugin, PreScorePlugin):
            ran_pre_score.add(plugin.name)
            try:
                prepared[plugin.name] = plugin.pre_score(info, scored.view, scored.rows)
            except PluginError as failure:
                raise PluginError(f'running PreScore plugin "{plugin.name}": {failure}') from None

    # Score, normalize and weight.
    raw = {}
    normalized = {}
    weighted = {}
    for plugin in framework.plugins_at("score"):
        name = plugin.name
        pre_score = prepared.get(name, PreScoreResult())
        if pre_score.skip or not offers(plugin, ScorePlugin):
            continue
        uses_pre_filter_state = name in prepared and name not in ran_pre_score
        try:
            raw[name] = scored.score_with_plugin(plugin, info, pre_score.state, by_name=uses_pre_filter_state)
            normalized[name] = plugin.normalize(pre_score.state, raw[name])
        except PluginError as failure:
            raise PluginError(f'running Score plugins: plugin "{name}" failed with: {failure}') from None
        _check_score_range(name, normalized[name])
        weighted[name] = normalized[name] * framework.profile.weights[name]

    # Without Score plugins and extenders, upstream gives every node a score of 1.
    base = 0 if framework.plugins_at("score") or framework.extenders else 1
    return ScoreOutcome(nodes.rows, raw, normalized, weighted, base=base)


def _check_score_range(name: str, scores: Scores) -> None:
    """Raise PluginError if a plugin's normalized scores are not all between 0 and 100."""
    if scores.min() >= 0 and scores.max() <= MAX_NODE_SCORE:
        return
    score = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
    problem = f'plugin "{name}" returns an invalid score {score}, it should in the range of [0, 100]'
    raise PluginError(f"applying score defaultWeights on Score plugins: {problem} after normalizing")


SCORED_AS_RETURNED = ByVersion(
    "version of a node that Score plugins see if an extender returned the node",
    (("", False), ("1.33", True)),
    bool_texts=("the node in the cache", "the node that the extender returned"),
)


class ScoredNodes(NamedTuple):
    """The nodes to score."""

    view: Fork
    """The state that has the nodes."""
    rows: Rows
    """(F,): their rows in `view`."""
    cluster_view: Fork
    """The state with the cluster's nodes."""
    cluster_rows: Rows
    """(F,): their rows in `cluster_view`, -1 for nodes that it does not have."""

    @classmethod
    def from_offered(cls, view: Fork, nodes: OfferedNodes, release: KubeVersion) -> ScoredNodes:
        """Prepare the offered nodes for scoring.

        If an extender returned whole nodes, versions since 1.33 score the nodes as returned, and older versions score
        the cluster's nodes of the same names. Raises PluginError if a node that does not exist would have to be scored,
        or if a returned node has an invalid amount.
        """
        if nodes.returned is not None and SCORED_AS_RETURNED.at(release):
            view_with_returned, returned_rows = _add_returned_nodes(view, nodes)
            return cls(view_with_returned, returned_rows, cluster_view=view, cluster_rows=nodes.rows)
        for position in np.flatnonzero(nodes.rows < 0).tolist():
            name = nodes.names[position]
            problem = f'getting node "{name}" from Snapshot: nodeinfo not found for node name "{name}"'
            raise PluginError(f"running Score plugins: {problem}")
        return cls(view, nodes.rows, cluster_view=view, cluster_rows=nodes.rows)

    def score_with_plugin(self, plugin: ScorePlugin, info: PodInfo, state: object, *, by_name: bool) -> Scores:
        """Return a plugin's raw scores, one per node to score.

        With `by_name`, the plugin has no PreScore and looks nodes up by name in the state of its PreFilter. Nodes that
        an extender returned but the cluster does not have then score 0.
        """
        if not by_name or self.cluster_view is self.view:
            return plugin.score(info, self.view, state, self.rows)
        scores = np.zeros(len(self.cluster_rows), np.int64)
        is_in_cluster = self.cluster_rows >= 0
        scores[is_in_cluster] = plugin.score(info, self.cluster_view, state, self.cluster_rows[is_in_cluster])
        return scores


def _add_returned_nodes(view: Fork, offered: OfferedNodes) -> tuple[Fork, Rows]:
    """Return a fork to which the nodes from an extender are appended, and the rows of these nodes.

    Raises PluginError if a node has an invalid amount.
    """
    nodes = [parse_node(document) for document in offered.returned or ()]
    # A node that the cluster does not have is added like the first node.
    similar_rows = [Row(0 if row == NO_ROW else row) for row in offered.rows.tolist()]
    fork = view.with_changes(view.cluster, {}, list(zip(similar_rows, nodes, strict=True)))
    try:
        allocatable = view.snapshot.demands.build_offer_matrix(nodes)
    except InputError as error:
        raise PluginError(str(error)) from None
    fork.allocatable = np.concatenate((view.allocatable, allocatable))
    return fork, np.arange(len(view.nodes), len(fork.nodes))
