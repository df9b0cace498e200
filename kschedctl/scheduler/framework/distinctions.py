"""By what plugins that look at other pods tell nodes apart, so that one node can stand for all that are alike to them.

Such a plugin makes an object for pods alike, which says of any rows what its Filter or its Score would say as pods are
now, no node being nominated for another pod.
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
    """Nodes are told apart by which of the ``domains`` they are in, and whether in any; these by their ``values`` now.

    ``values()``: (size,), not to be written to.
    """

    domains: Domains
    values: Callable[[], Counts]

    def at(self, rows: Rows) -> Counts:
        """(F,): the values of the rows' domains, 0 for a row in none."""
        codes, known = self.domains.codes[rows], self.values()
        if not len(known):  # no node has the label
            return np.zeros(len(rows), np.int64)
        values = known.take(codes)
        return values if self.domains.complete else np.where(codes < 0, 0, values)

    def of(self, row: int) -> int:
        """The value of one row's domain."""
        code = self.domains.codes[row]
        return int(self.values()[code]) if code >= 0 else 0


class RowVerdicts(Protocol):
    """Which rows are refused; two that the ``distinctions`` do not tell apart share the verdict."""

    @property
    def distinctions(self) -> Sequence[Distinction]: ...

    def refused(self, rows: Rows) -> Bools:
        """(F,)."""


class RowScores(Protocol):
    """The scores of any of the N nodes, which depend on how many domains those are in that are scored.

    ``counted`` (N,): the nodes that count, the others score 0. ``domains``: (N,) each, of the nodes. Two rows that the
    ``distinctions`` do not tell apart share the raw score.
    """

    @property
    def counted(self) -> Bools: ...

    @property
    def domains(self) -> Sequence[Ints | Rows]: ...

    @property
    def distinctions(self) -> Sequence[Distinction]: ...

    def sizes(self, rows: Rows, counts: Counts) -> list[int]:
        """How many domains of each kind are scored where each row stands for so many (F,) nodes alike."""

    def raw(self, rows: Rows, sizes: Sequence[int]) -> Scores:
        """(F,): of these rows, where so many domains of each kind are scored."""

    def normalized(self, scores: Scores, counted: Bools) -> Scores:
        """(F,): by the extremes of these scores, of those that count."""


@runtime_checkable
class DistinguishingFilter(Plugin, Protocol):
    def verdicts(self, info: PodInfo, view: Fork) -> RowVerdicts | None:
        """What Filter says after PreFilter, of any rows; None where it cannot be told so. Raises PluginError."""


@runtime_checkable
class DistinguishingScore(Plugin, Protocol):
    def among(self, info: PodInfo, view: Fork) -> RowScores:
        """What Score says after PreScore, of any rows. Raises PluginError."""
