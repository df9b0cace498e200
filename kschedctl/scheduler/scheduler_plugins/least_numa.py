"""The strategy LeastNUMANodes of NodeResourceTopologyMatch: how few NUMA nodes give a pod all, and how near they are.

Upstream: pkg/noderesourcetopology/least_numa.go of kubernetes-sigs/scheduler-plugins. Where that takes from a NUMA node
whose number is none of a place in the list it stops with a panic; here nothing is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Counts, Scores
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import FAR, NumaList

MOST_COMBINATIONS = 20_000
"""Upstream tries as many as there are; a machine with 16 NUMA nodes has 12,870 of one size at the most."""
TOO_MANY = "a node has too many NUMA nodes to try all combinations of {}"


class Chosen(NamedTuple):
    """For each of F nodes: ``places`` (F, Z) of the NUMA nodes, none where they do not suffice; ``nearest`` (F,): no
    combination of as many is nearer to each other."""

    places: Bools
    nearest: Bools

    @property
    def number(self) -> Counts:
        """(F,)"""
        count: Counts = np.count_nonzero(self.places, axis=1)
        return count


def score_of_containers(containers: Iterable[Requests], numa: NumaList) -> Scores:
    """(F,): by the container that needs most, each with what those before leave."""
    left = dict(numa.available)
    most, nearest = np.zeros(len(numa), np.int64), np.ones(len(numa), np.bool_)
    hopeless = np.zeros(len(numa), np.bool_)
    for requests in containers:
        concerned = _concerned(requests, numa) & ~hopeless
        if not concerned.any():
            continue
        chosen = numa_nodes_required(requests, left, numa, concerned)
        hopeless |= concerned & (chosen.number == 0)
        nearest &= chosen.nearest | ~concerned
        most = np.maximum(most, chosen.number)
        _subtract(requests, chosen.places, left, numa)
    return np.where(hopeless, 0, np.where(most == 0, MAX_NODE_SCORE, _score(most, nearest, numa.most)))


def score_of_pod(requests: Requests, numa: NumaList) -> Scores:
    """(F,): by what the pod needs as a whole."""
    concerned = _concerned(requests, numa)
    chosen = numa_nodes_required(requests, numa.available, numa, concerned)
    scores = np.where(chosen.number == 0, 0, _score(chosen.number, chosen.nearest, numa.most))
    return np.where(concerned, scores, MAX_NODE_SCORE)


def _concerned(requests: Requests, numa: NumaList) -> Bools:
    """(F,): where some NUMA node has some of what is requested."""
    mask = np.zeros(len(numa), np.bool_)
    for name in requests:
        mask |= (numa.of(name) >= 0).any(axis=1)
    return mask


def _score(count: Counts, nearest: Bools, most: Counts) -> Scores:
    step = MAX_NODE_SCORE // most
    return MAX_NODE_SCORE - count * step + np.where(nearest, step // 2, 0)


def numa_nodes_required(requests: Requests, left: Mapping[str, Amounts], numa: NumaList, concerned: Bools) -> Chosen:
    """The smallest combination of NUMA nodes with enough of all, the nearest to each other of these; of equally near
    ones the first. Raises PluginError."""
    places, nearest = np.zeros(numa.there.shape, np.bool_), np.zeros(len(numa), np.bool_)
    has_all = numa.there.copy()
    for name in requests:
        has_all &= numa.of(name) >= 0
    for size in range(1, numa.there.shape[1] + 1):
        rows = np.flatnonzero(concerned & ~places.any(axis=1) & (numa.there.sum(axis=1) >= size))
        if not len(rows):
            break
        if comb(numa.there.shape[1], size) > MOST_COMBINATIONS:
            raise PluginError(TOO_MANY.format(size))
        search = _Search(numa.taken(rows), has_all[rows], {name: amounts[rows] for name, amounts in left.items()})
        places[rows], nearest[rows] = search.nearest_of(size, requests)
    return Chosen(places, nearest)


class _Search(NamedTuple):
    """F nodes on which combinations of NUMA nodes are tried; only those in ``has_all`` (F, Z) have some of all."""

    numa: NumaList
    has_all: Bools
    left: Mapping[str, Amounts]

    def nearest_of(self, size: int, requests: Requests) -> tuple[Bools, Bools]:
        """The places (F, Z) of the nearest combination of so many, and whether none at all is nearer."""
        rows = len(self.numa)
        least = np.full(rows, FAR, np.float32)
        best = np.full(rows, FAR + 1, np.float32)
        places: Bools = np.zeros(self.numa.there.shape, np.bool_)
        for combination in combinations(range(self.numa.there.shape[1]), size):
            these = list(combination)
            there = self.numa.there[:, these].all(axis=1)
            distance = self._distance(these)
            least = np.where(there, np.minimum(least, distance), least)
            better = self._fits(these, requests) & (distance < best)
            best[better] = distance[better]
            places[better] = np.isin(np.arange(places.shape[1]), these)
        return places, places.any(axis=1) & (best == least)

    def _distance(self, places: list[int]) -> Amounts:
        """(F,): the mean distance of each to each, itself included, with the precision of a float32."""
        total = self.numa.costs[:, places][:, :, places].sum(axis=(1, 2))
        mean: Amounts = total.astype(np.float32) / np.float32(len(places) ** 2)
        return mean

    def _fits(self, places: list[int], requests: Requests) -> Bools:
        fits: Bools = np.all(self.has_all[:, places], axis=1)
        for name, amount in requests.items():
            if amount and name in self.left:
                together: Amounts = self.left[name][:, places].sum(axis=1)
                fits[together < amount] = False
        return fits


def _subtract(requests: Requests, places: Bools, left: dict[str, Amounts], numa: NumaList) -> None:
    """Take what is requested from the NUMA nodes that were chosen, in the order of their numbers, as much as is there.

    Upstream counts by number where it means the place in the list.
    """
    rows, chosen = np.nonzero(places)
    numbers = numa.number[rows, chosen]
    inside = numbers < numa.there.sum(axis=1)[rows]
    taken = np.zeros(places.shape, np.bool_)
    taken[rows[inside], numbers[inside]] = True
    for name, amount in requests.items():
        if name not in left:
            continue
        after, wanted = left[name].copy(), np.full(len(numa), amount, np.int64)
        for place in range(after.shape[1]):
            here = np.where(taken[:, place], np.minimum(np.maximum(after[:, place], 0), wanted), 0)
            after[:, place] -= here
            wanted -= here
        left[name] = after
