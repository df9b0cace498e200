"""Grouping of nodes that plugins cannot distinguish, so that one node can represent all nodes of its group.

A plugin that looks at other pods builds an object, shared by equal pods, that returns what its Filter or Score would
answer for any rows in the current state, as long as no other pod is nominated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Ints, Rows, Scores
from kschedctl.scheduler.framework import Plugin
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.pod_info import PodInfo


class Distinction(NamedTuple):
    """Topology domains and their current values, by which a plugin distinguishes nodes.

    Nodes in domains of equal value, and nodes in no domain, are interchangeable for the plugin.
    """

    domains: Domains
    compute_values: Callable[[], Counts]
    """Returns the current value of each domain, read-only."""

    def get_domain_values(self, rows: Rows) -> Counts:
        """Return the value of each node's domain, such as its number of pods, or 0 for a node in no domain.

        `rows` are the rows of the nodes.
        """
        codes = self.domains.codes[rows]
        domain_values = self.compute_values()
        if not len(domain_values):  # no node has the label
            return np.zeros(len(rows), np.int64)
        values = domain_values.take(codes)  # code -1, of nodes in no domain, takes the last value
        if self.domains.complete:
            return values
        return np.where(codes < 0, 0, values)

    def get_domain_value(self, row: int) -> int:
        """Return the current value of the domain of the node at `row`, such as its number of pods.

        Return 0 if the node is in no domain.
        """
        code = self.domains.codes[row]
        if code < 0:
            return 0
        return int(self.compute_values()[code])


class RowVerdicts(Protocol):
    """A plugin's Filter answers for any rows. Rows with equal values of all `distinctions` get the same answer."""

    @property
    def distinctions(self) -> Sequence[Distinction]:
        """The topology domains with the values that decide the answer for a node."""

    def mask_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the rejected rows."""


class RowScores(Protocol):
    """A plugin's scores for any of the N nodes, given how many topology domains the scored nodes are in.

    Rows that the `distinctions` do not separate have the same raw score.
    """

    @property
    def counted(self) -> Bools:
        """A mask (N,) of the nodes whose domains count."""

    @property
    def domains(self) -> Sequence[Ints | Rows]:
        """The domain (N,) of each node, for each topology key. For hostnames each node is a domain."""

    @property
    def distinctions(self) -> Sequence[Distinction]:
        """The topology domains with the values that decide the raw score of a node."""

    def count_domains(self, rows: Rows, counts: Counts) -> list[int]:
        """Return the number of scored domains per topology key if each row stands for `counts` equal nodes."""

    def compute_raw_scores(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """Return the raw score of each row for the given number of scored domains per topology key."""

    def normalize(self, scores: Scores, counted: Bools) -> Scores:
        """Return the normalized scores, using the extremes of the scores that count."""


@runtime_checkable
class DistinguishingFilter(Plugin, Protocol):
    """A plugin that can answer Filter for any rows without a full run."""

    def build_row_verdicts(self, info: PodInfo, view: Fork) -> RowVerdicts | None:
        """Return Filter's answers for any rows, or None if this needs a full run.

        Raises PluginError if a plugin fails.
        """


class AlikeNodes(Protocol):
    """Groups of nodes to which a plugin gives equal scores, while copies of one pod are placed one after another."""

    group: Rows
    """The group of each node (N,)."""

    def score_groups(self) -> Scores:
        """Return the normalized score of each group. Groups without feasible nodes have any score."""

    def update_row(self, row: int, is_feasible: bool) -> None:
        """Update the group of a node on which a copy was placed. An infeasible node does not count any more."""


@runtime_checkable
class NodeGroupingScore(Plugin, Protocol):
    """A plugin that can score copies of one pod by groups of nodes."""

    def group_nodes(self, info: PodInfo, view: Fork, feasible: Bools) -> AlikeNodes | None:
        """Group the nodes for copies of the pod, or return None if the nodes cannot be grouped.

        `feasible` (N,) marks the nodes that are scored. Raises PluginError if a plugin fails.
        """


@runtime_checkable
class DistinguishingScore(Plugin, Protocol):
    """A plugin that can answer Score for any rows without a full run."""

    def build_row_scores(self, info: PodInfo, view: Fork) -> RowScores:
        """Return Score's answers for any rows. Raises PluginError if a plugin fails."""
