"""How often the terms of pods are matched in each topology, and under hypotheses about nodes.

Upstream: plugins/interpodaffinity/filtering.go, topologyToMatchedTermCount (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

NAME = "InterPodAffinity"
Weights = npt.NDArray[np.int64]
NOWHERE: Counts = np.zeros(1, np.int64)
"""The count where a node has no such label."""


class KeptWeights(Mapping[str, Weights]):
    """Weights by topology key, (T,) each, of one of thousands of kinds of pods: no zeros are kept."""

    def __init__(self, weights: Mapping[str, Weights]) -> None:
        self._infos = max(map(len, weights.values()), default=0)
        numbers = {key: of_infos.nonzero()[0].astype(np.int32) for key, of_infos in weights.items()}
        self._kept = {key: (chosen, weights[key][chosen]) for key, chosen in numbers.items()}

    @classmethod
    def of(cls, weights: Mapping[str, Weights]) -> KeptWeights:
        """The weights in this form, which they may have already."""
        return weights if isinstance(weights, cls) else cls(weights)

    def __getitem__(self, key: str) -> Weights:
        """(T,), made anew each time."""
        numbers, amounts = self._kept[key]
        weights = np.zeros(self._infos, np.int64)
        weights[numbers] = amounts
        return weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


class TopologyCounts(msgspec.Struct, frozen=True):
    """How often terms were matched, by topology key: ``counts`` (V + 1,) in each domain, 0 in the last place.

    ``weights`` (T,): what one pod of each info adds on its node.
    """

    weights: Mapping[str, Weights]
    counts: Mapping[str, Counts]

    @classmethod
    def of(cls, what: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]) -> TopologyCounts:
        """``what`` names the weights of this incoming pod among its others."""
        weights_of = _kept(what, info, view, weights)
        counts = {}
        for key in weights_of:
            counts[key] = np.concatenate((_tally(what, key, weights_of, info, view).brought_up(view.trail), NOWHERE))
        return cls(weights_of, counts)

    def as_listed(self, selects: Callable[[], Bools], view: Fork) -> TopologyCounts:
        """The counts as upstream takes them, from the nodes that had pods selected (T,) when the cycle began.

        In the cycle of a pod group it keeps those lists of nodes: members that were assumed since on other nodes do not
        count. Upstream: AssumePod in pkg/scheduler/backend/cache/snapshot.go (v1.36).
        """
        if view.group_since is None or not self.counts:
            return self
        selected = selects()
        rows, infos, signs = view.trail.since(view.group_since).astype(np.int64)
        had = view.count_by_node(selected)
        np.subtract.at(had, rows, signs * selected[infos])
        rows, infos, signs = (column[had[rows] == 0] for column in (rows, infos, signs))
        listed = {}
        for key, counts in self.counts.items():
            listed[key] = counts.copy()
            codes = view.nodes.label(key).codes[rows]
            np.subtract.at(listed[key], codes[codes >= 0], (signs * self.weights[key][infos])[codes >= 0])
        return TopologyCounts(self.weights, listed)

    @property
    def empty(self) -> bool:
        return not any(counts.any() for counts in self.counts.values())

    def at_nodes(self, key: str, view: Fork, delta: Delta) -> Counts:
        """(N,): the count in each node's domain of this key under the hypothesis; 0 where the label is missing."""
        column = view.nodes.label(key)
        here = column.at_nodes(self.counts[key])
        if delta:
            here = np.where(column.present, here + delta.sums(self.weights[key], len(view.nodes)), 0)
        return here

    def vanishes(self, view: Fork, delta: Delta) -> Bools:
        """(N,): no pod is counted anywhere under the node's hypothesis."""
        nonzero = np.full(len(view.nodes), sum(int((counts != 0).sum()) for counts in self.counts.values()))
        for key in self.counts if delta else ():
            before = view.nodes.label(key).at_nodes(self.counts[key]) != 0
            nonzero += (self.at_nodes(key, view, delta) != 0).astype(np.int64) - before
        gone: Bools = nonzero == 0
        return gone


class RunningCounts:
    """The same counts for pods alike, kept up to date as pods come and go."""

    def __init__(self, what: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]) -> None:
        weights_of = _kept(what, info, view, weights)
        self._trail = view.trail
        self._tallies = [(view.nodes.label(key), _tally(what, key, weights_of, info, view)) for key in weights_of]

    @property
    def distinctions(self) -> list[Distinction]:
        return [Distinction(column, partial(tally.brought_up, self._trail)) for column, tally in self._tallies]

    def at(self, rows: Rows) -> Iterator[Counts]:
        """(F,) for each topology key: the count in each row's domain; 0 where the label is missing."""
        return (distinction.values_at(rows) for distinction in self.distinctions)

    def unlabelled(self, rows: Rows) -> Bools:
        """(F,): the rows that lack the label of some key."""
        lacking = np.zeros(len(rows), np.bool_)
        for column, _ in self._tallies:
            lacking |= ~column.present[rows]
        return lacking

    def any_positive(self, rows: Rows) -> Bools:
        """(F,): a term was matched in some topology that the row is part of."""
        positive = np.zeros(len(rows), np.bool_)
        for counts in self.at(rows):
            positive |= counts > 0
        return positive

    @property
    def empty(self) -> bool:
        """No pod is counted anywhere."""
        return not any(tally.brought_up(self._trail).any() for _, tally in self._tallies)


def _kept(what: str, info: PodInfo, view: Fork, weights: Callable[[], Mapping[str, Weights]]) -> KeptWeights:
    return view.memo_of_pods((NAME, what), lambda: KeptWeights.of(weights()), info)


def _tally(what: str, key: str, weights: Mapping[str, Weights], info: PodInfo, view: Fork) -> Tally:
    return view.kept_tally((NAME, what, key), partial(weights.__getitem__, key), view.nodes.label(key), info)
