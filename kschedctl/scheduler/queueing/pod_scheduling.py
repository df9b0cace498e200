"""Which node the scheduler takes for one pod after another: sampling, hints, and ties broken by name.

Upstream: schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go (v1.36), with a parallelism of 1.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import NO_ROW, Row, Rows
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.extenders.extender import Offered
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.engine.sampling import Sampling, Terms
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.queueing.batch import OpportunisticBatch
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class Scheduled:
    """What came of it: ``row`` NO_ROW when nothing fits. ``cycle`` is what all nodes were found to say.

    ``feasible``: how many nodes were found to fit; ``evaluated``: how many were looked at. ``batched``: the node is the
    one that an earlier pod had left over.
    """

    cycle: Cycle
    row: Row = NO_ROW
    feasible: int = 0
    evaluated: int = 0
    batched: bool = False


class PodScheduling:
    """Goes on from pod to pod: where the search starts, and what is left of earlier searches, profile by profile."""

    def __init__(self, view: Fork, sampling: Sampling) -> None:
        self.view, self.sampling = view, sampling
        self._batches: dict[str, OpportunisticBatch] = {}
        names = view.nodes.names
        self._by_name = np.argsort(np.argsort(np.array(names, dtype=object))) if len(names) else np.empty(0, np.int64)

    def schedule(self, framework: Framework, info: PodInfo, signature: bytes | None, number: int) -> Scheduled:
        """Find a node for a pod, in the cycle of this number. Raises PluginError."""
        cycle = run_cycle(framework, info, self.view)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        if cycle.pre_filter.status.rejected or not len(self.view.nodes):
            return Scheduled(cycle)
        batch = self._batches.setdefault(info.spec.scheduler_name, OpportunisticBatch())
        hint = batch.hint(signature, cycle, number)
        named = self.view.nodes.index.get(info.pod.status.nominated_node_name)
        first = hint if not info.pod.status.nominated_node_name else None if named is None else Row(named)
        if first is not None and cycle.filter.passing[first]:
            batch.store(signature, number, hint, first, deque())
            return Scheduled(cycle, first, 1, 1, batched=first == hint)
        rows, evaluated = self._search(framework, cycle, first)
        if not len(rows):
            return Scheduled(cycle, evaluated=evaluated)
        best = self._best_first(cycle, rows)
        row = best.popleft()
        batch.store(signature, number, hint, row, best)
        return Scheduled(cycle, row, len(rows), evaluated, batched=row == hint)

    def _search(self, framework: Framework, cycle: Cycle, refused: Row | None) -> tuple[Rows, int]:
        """The rows that are found to fit, and how many were looked at, also the one that was ``refused`` before."""
        offered = np.flatnonzero(selected_by_name(cycle.pre_filter, self.view))
        terms = Terms.of(framework.profile, framework.release)
        search = self.sampling.search(~cycle.filter.passing, offered, terms, cycle.filter.failed, refused)
        return np.sort(search.found), int(search.examined.sum())

    def _best_first(self, cycle: Cycle, rows: Rows) -> deque[Row]:
        """The rows by score, those of the same score by name. Raises PluginError."""
        scores = cycle.scores
        if len(rows) == 1:
            return deque([Row(int(rows[0]))])
        if not np.array_equal(scores.rows, rows):
            passed = Offered.of(self.view.nodes, rows)
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, self.view, passed)
        order = np.lexsort((self._by_name[rows], -scores.total))
        return deque(map(Row, rows[order].tolist()))
