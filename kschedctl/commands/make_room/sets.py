"""Sets of pods of a node without which an incoming pod fits there, the cheapest first.

A set is judged by the scheduler's own filters under the hypothesis that its pods are gone, on all nodes at once. What
is plainly too little by the resources that the incoming pod lacks is left out before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools, Position, Rows
from kschedctl.api.resource_names import PODS
from kschedctl.commands.make_room.giving_back import GivingBack
from kschedctl.commands.make_room.movable import Movable
from kschedctl.scheduler.engine.cycle import Cycle, Filtering
from kschedctl.scheduler.engine.preemption.candidates import rank_within_runs
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.snapshot.delta import Delta

Sets = npt.NDArray[np.int64]
"""(S, K): sets of K pods each, as positions; the pods of one are on one node."""
JUDGED_AT_ONCE, JUDGED_WITH_OBJECTS = 2_048, 256
MOST_OF_NODE = {1: 256, 2: 96, 3: 24}
"""Size of a set -> of how many distinct pods of a node, the cheapest, it is made."""


LARGEST_SHORTAGE = 2.0**62
"""The largest amount that a node is taken to be short of. A larger float may not fit into int64."""


class SetsOnNodes:
    """The sets for one incoming pod, whose ``cycle`` it is, among ``movable`` pods on the nodes ``among`` (N,).

    ``promising`` (N,): where the pod fits without all of them; ``giving``: what pods hold that it lacks; ``truncated``:
    not all sets were looked at, as a node has too many pods.
    """

    truncated = False

    def __init__(self, cycle: Cycle, movable: Movable, pods: Rows, among: Bools) -> None:
        self.cycle, self.movable, self.view = cycle, movable, cycle.view
        self.filtering = Filtering.from_framework(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
        self.giving = GivingBack(cycle)
        pods = pods[self.view.node[pods] >= 0]
        order = np.lexsort((pods, *self._costs(pods[:, None])[::-1], self.view.node[pods]))
        self.pods = pods[order]
        self.promising = self._promising(among & cycle.considered & ~cycle.filter.passing)
        self.held_elsewhere = self._held_elsewhere()
        self.pods = self.pods[self._of_use()]

    def _promising(self, among: Bools) -> Bools:
        """(N,): where it fits without all the pods that may go."""
        if not among.any() or not len(self.pods):
            return np.zeros(len(among), np.bool_)
        return among & self._fits(self.pods, among)

    def _of_use(self) -> Bools:
        """(M,): the pods on promising nodes, but for those that hold nothing where nothing else is lacking."""
        node = self.view.node[self.pods]
        return self.promising[node] & (self._holding | ~(self.giving.alone[node] & bool(self.giving)))

    @property
    def _holding(self) -> Bools:
        """(M,): the pods that may hold what the incoming one lacks."""
        return self.giving.holders[self.view.pods.info[self.pods]]

    def _held_elsewhere(self) -> Bools:
        """(T,): the pods of which some hold what the incoming one lacks on a node that has none of them."""
        infos = self.giving.holders.copy()
        if self.giving:
            own = np.zeros(len(self.promising), np.bool_)
            own[self.view.node[self.pods[self._holding]]] = True
            infos &= bool((self.promising & ~own).any())
        return infos

    def _fits(self, gone: Rows, among: Bools) -> Bools:
        """(N,): where it fits, were these pods gone."""
        info = self.view.pods.info[gone]
        delta = Delta.of(self.view.node[gone], info, np.full(len(gone), -1, np.int64))
        if self.giving:
            return self.giving.passing(gone, delta, among)
        return self.filtering.judge(delta, self.cycle.filter.verdicts, among).passing

    def _costs(self, sets: Sets) -> tuple[Rows, Rows, Amounts]:
        """(S,) each, the most important first: how reluctantly pods go, the highest priority, the size of all."""
        movable = self.movable
        return (
            movable.reluctance[sets].max(axis=1),
            movable.priority[sets].max(axis=1),
            movable.size[sets].sum(axis=1),
        )

    def of(self, size: int) -> Iterator[tuple[Position, ...]]:
        """Sets of so many pods that are enough, the cheapest first."""
        sets = self._enough(size)
        sets = sets[np.lexsort((sets[:, 0], *self._costs(sets)[::-1]))]
        at_once = JUDGED_WITH_OBJECTS if self.giving else JUDGED_AT_ONCE
        for start in range(0, len(sets), at_once):
            some = sets[start : start + at_once]
            for chosen in some[self._fitting(some)].tolist():
                yield tuple(map(Position, chosen))

    def _fitting(self, sets: Sets) -> Bools:
        """(S,): which of the sets are enough; one of each node is judged at a time."""
        node = self.view.node[sets[:, 0]]
        order = np.argsort(node, kind="stable")
        turns = np.empty(len(sets), np.int64)
        turns[order] = rank_within_runs(node[order])
        enough = np.zeros(len(sets), np.bool_)
        for number in range(int(turns.max(initial=-1)) + 1):
            now = turns == number
            enough[now] = self._fits(sets[now].reshape(-1), self.promising)[node[now]]
        return enough

    def _enough(self, size: int) -> Sets:
        """The sets that free enough of what the pod requests, made of distinct pods of each node."""
        columns, short = self._shortages()
        pods = self._distinct(self._large_enough(size, columns, short), size)
        node = self.view.node[pods]
        starts = np.searchsorted(node, np.unique(node))
        counts = np.diff(starts, append=len(pods))
        requests = self._requests(pods, columns)
        sets = [np.empty((0, size), np.int64)]
        for places in combinations(range(int(counts.max(initial=0))), size):
            first = starts[counts > places[-1]]
            chosen = first[:, None] + np.array(places)
            frees = requests[chosen].sum(axis=1)
            sets.append(pods[chosen[(frees >= short[node[first]]).all(axis=1)]])
        return np.concatenate(sets)

    def _requests(self, pods: Rows, columns: list[int]) -> Amounts:
        """(M, C)."""
        return self.view.requests[self.view.pods.info[pods]][:, columns]

    def _large_enough(self, size: int, columns: list[int], short: Amounts) -> Rows:
        """The pods that with the largest others of their node free enough of each resource."""
        node, requests = self.view.node[self.pods], self._requests(self.pods, columns)
        largest = np.zeros_like(short)
        np.maximum.at(largest, node, requests)
        return self.pods[(requests + (size - 1) * largest[node] >= short[node]).all(axis=1)]

    def _distinct(self, pods: Rows, size: int) -> Rows:
        """Distinct pods: of those alike on a node no more than a set has, and of a node no more than are combined."""
        node, info = self.view.node[pods], self.view.pods.info[pods]
        alike = np.lexsort((np.arange(len(info)), info, node))
        _, group = np.unique(np.stack((node, info)), axis=1, return_inverse=True)
        among = np.empty(len(info), np.int64)
        among[alike] = rank_within_runs(group.reshape(-1)[alike])
        pods = pods[among < size]
        within = rank_within_runs(self.view.node[pods]) < MOST_OF_NODE[size]
        self.truncated |= not within.all()
        return pods[within]

    def _shortages(self) -> tuple[list[int], Amounts]:
        """The resources that nodes are short of for the pod, C of them, and by how much each is: (N, C)."""
        verdict = self.cycle.filter.verdicts.get(NodeResourcesFit.name)
        columns, amounts = list[int](), list[Amounts]()
        for rejection in verdict.rejections if verdict else ():
            rows = np.flatnonzero(rejection.mask)
            if rejection.fact is None or rejection.distance is None or not len(rows):
                continue
            match rejection.fact(int(rows[0])):
                case Insufficient(resource=resource):
                    columns.append(self.view.resources[resource])
                case TooManyPods():
                    columns.append(self.view.resources[PODS])
                case _:
                    continue
            distance = np.minimum(np.ceil(rejection.distance), LARGEST_SHORTAGE)
            amounts.append(np.where(rejection.mask, distance, 0).astype(np.int64))
        nothing = np.empty((len(self.view.nodes), 0), np.int64)
        return columns, np.stack(amounts, axis=1) if amounts else nothing
