"""Sets of nodes that take all pods: more nodes than a start has until everybody has one, then fewer and cheaper ones.

A program of requests (``program.py``) proposes nodes, replays tell whether they do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.reports.unknown import UnknownKind
from kschedctl.studies.sizing.plain import PlainPacking
from kschedctl.studies.sizing.program import Counts, PackingProgram, named
from kschedctl.studies.sizing.replays import NodeSets
from kschedctl.studies.sizing.solved import SolvedPacking

MOST_ROUNDS = 8
"""So often nodes are added, each time four times as many where that helped little."""
MOST_REFILLS = 3
TOO_LITTLE = 1e-4
"""A share of what a set costs that is not worth a replay."""
Unknown = tuple[UnknownKind, ...]


class SearchTask(NamedTuple):
    """A set to begin with; ``until``: when to stop, in seconds since the epoch, which other machines know, too.

    ``homeless``: the pods that no set takes; ``before``: the set of which this one came.
    """

    counts: Counts
    until: float
    homeless: frozenset[str] = frozenset()
    before: Counts | None = None

    @property
    def late(self) -> bool:
        return time.time() > self.until


class SearchedSet(NamedTuple):
    """``homeless``: the pods that get no node of it, and why; None where others might, had there been more time.

    ``complete``: there was time to look on; ``before``: the set to begin with.
    """

    counts: Counts
    homeless: Mapping[str, str] | None = None
    complete: bool = True
    unknown: Unknown = ()
    before: Counts | None = None


@dataclass(eq=False)
class SetSearch:
    """``best``: what ``improved`` has reached by now, for who interrupts it."""

    sets: NodeSets
    program: PackingProgram
    packing: PlainPacking | SolvedPacking
    best: dict[str, Counts] = field(default_factory=dict)


def grown(search: SetSearch, task: SearchTask) -> SearchedSet:
    """So many nodes, of shapes as the start has them where that does, that all pods get one."""
    sets, program, counts = search.sets, search.program, dict(task.counts)
    fewest, step = len(program.group_of) + 1, 1
    for _ in range(MOST_ROUNDS):
        if task.late:
            return SearchedSet(counts, complete=False, unknown=tuple(sets.unknown))
        waiting = sets.waiting(counts)
        helped = {key: takers for key, takers in waiting.items() if takers}
        if not helped:
            break
        step = 1 if 2 * len(waiting) < fewest else 4 * step  # others may take what is meant for those that wait
        fewest, most = min(fewest, len(waiting)), sum(counts.values())
        for name, number in search.packing.more(program.among(helped), counts).items():
            counts[name] = counts.get(name, 0) + max(number, min(step * number, most))
    homeless = sets.why(counts, waiting) if waiting else {}
    return SearchedSet(counts, homeless, True, tuple(sets.unknown), task.counts)


def improved(search: SetSearch, task: SearchTask) -> SearchedSet:
    """A cheaper set that takes as many: fewer of a shape, and others for those that get no node then.

    First of what was added to the set to begin with, ``task.before``, then of the dearest.
    """
    counts, start, improves = dict(task.counts), named(task.counts), True
    while improves and not task.late:
        improves = False
        for name in sorted(counts, key=lambda name: _dearest(search, task, counts, name), reverse=True):
            step = max(counts.get(name, 0) // 2, 1)
            while step and counts.get(name) and not task.late:
                fewer = {**counts, name: max(counts[name] - step, 0)}
                better = _refilled(search, fewer, search.program.cost(counts), task.homeless)
                if better is None:
                    step //= 2
                else:
                    counts, improves = better, True
                    search.best[start] = counts
    return SearchedSet(counts, {}, not task.late, tuple(search.sets.unknown))


def _dearest(search: SetSearch, task: SearchTask, counts: Counts, name: str) -> tuple[float, float]:
    added, cost = counts.get(name, 0) - (task.before or {}).get(name, 0), search.program.cost({name: 1})
    return max(added, 0) * cost, cost


def _refilled(search: SetSearch, counts: dict[str, int], below: float, homeless: Set[str]) -> dict[str, int] | None:
    """The set with other nodes for the pods that wait, where that costs less than ``below``."""
    program, most = search.program, len(search.program.group_of)
    for _ in range(MOST_REFILLS):
        if search.program.cost(counts) > below - TOO_LITTLE * below or not any(counts.values()):
            return None
        waiting = {key: takers for key, takers in search.sets.waiting(counts).items() if key not in homeless}
        if not waiting:
            return {name: number for name, number in counts.items() if number}
        if not all(waiting.values()) or len(waiting) > most:
            return None
        most = len(waiting) // 2
        more = search.packing.more(program.among(waiting), program.names)
        counts = {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}
    return None
