"""Which node the scheduler takes for one pod after another: sampling, hints, and ties broken by name.

Upstream: schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go (v1.36), with a parallelism of 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row, Rows
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle, run_cycle
from kschedctl.scheduler.engine.extenders.extender import OfferedNodes
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.engine.preemption.evaluator import clears_nomination, tied_candidates
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.engine.rejectors import find_rejectors
from kschedctl.scheduler.engine.reserve import NO_PRE_FILTER_RESULTS
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchTerms
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.framework import Code, PluginError
from kschedctl.scheduler.plugins.default_preemption import are_victims_evicted_asynchronously
from kschedctl.scheduler.queue_run.batching import OpportunisticBatch
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, PodsOnNodes
from kschedctl.scheduler.queueing.scheduling_loop import Failed, PostFilterEffect
from kschedctl.scheduler.queueing.scheduling_queue import SchedulingQueue
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.pod_info import PodInfo


class ExactSearch:
    """Full cycles of the very pods: where the search starts, and what is left of earlier ones, goes on from pod to pod.

    ``queued``: the pods by their positions, as the queue knows them.
    """

    def __init__(self, pods: PodsOnNodes, queue: SchedulingQueue, queued: Mapping[Position, QueuedPod]) -> None:
        self.pods, self.view, self.queue, self.queued = pods, pods.view, queue, queued
        names = self.view.nodes.names
        self.sampling = SampledFrom().start_sampling(pods.scheduler.configuration, len(names))
        self._batches: dict[str, OpportunisticBatch] = {}
        self._by_name = np.argsort(np.argsort(np.array(names, dtype=object))) if len(names) else np.empty(0, np.int64)
        self._objects: dict[Position, Pod] = {}
        self._cycle: Cycle | None = None

    # -- pods ----------------------------------------------------------------------------------------------------

    def object(self, position: Position) -> Pod:
        """The pod as it is now."""
        if position not in self._objects:
            self._objects[position] = self.view.stored(self.view.pods.objects[position])
        return self._objects[position]

    def replace(self, position: Position, pod: Pod) -> None:
        """The pod changed."""
        self._objects[position] = pod

    def build_info(self, position: Position) -> PodInfo:
        """What scheduling reads of the very pod, as it is now."""
        info = self.pods.arriving(position)
        return PodInfo(self.object(position), info.options, info.number, info.alike)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def find(self, position: Position, framework: Framework) -> Choice | None:
        """The node for a pod; None when it fits nowhere. Raises PluginError."""
        info, signature, number = self.build_info(position), self.queued[position].signature, self.queue.cycle
        cycle = self._cycle = run_cycle(framework, info, self.view)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        if cycle.pre_filter.status.rejected or not len(self.view.nodes):
            return None
        batch = self._batches.setdefault(info.spec.scheduler_name, OpportunisticBatch())
        hint = batch.hint(signature, cycle, number)
        named = self.view.nodes.index.get(info.pod.status.nominated_node_name)
        first = hint if not info.pod.status.nominated_node_name else None if named is None else Row(named)
        if first is not None and cycle.filter.passing[first]:
            batch.store(signature, number, hint, first, deque())
            return _choice(info, first, 1, 1, batched=first == hint)
        rows, evaluated = self._search(framework, cycle, first)
        if not len(rows):
            return None
        best = self._best_first(cycle, rows)
        row = best.popleft()
        batch.store(signature, number, hint, row, best)
        return _choice(info, row, len(rows), evaluated, batched=row == hint)

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """What could be done for a pod for which no node was found just now."""
        cycle = self._cycle
        if cycle is None or not len(self.view.nodes):
            return PostFilterEffect(Failed(Code.UNRESOLVABLE, NO_NODES))
        outcome = run_post_filter(cycle)
        nominated = self._nominated(outcome)
        victims = self._victims(outcome, nominated) if nominated is not None else ()
        failure = Failed(Code.UNSCHEDULABLE, fit_error(cycle, outcome.message), find_rejectors(cycle), nominated)
        later = bool(victims) and are_victims_evicted_asynchronously(outcome, self.pods.scheduler.gates)
        return PostFilterEffect(failure, victims, outcome.results, later)

    def _nominated(self, outcome: PostFilterOutcome) -> Row | None:
        """The row that PostFilter nominated; NO_ROW when it took back what was promised, None when it left it."""
        names = [result.nominated_node for result in outcome.results.values() if result.nominated_node]
        if outcome.status.code is Code.SUCCESS and names:
            return Row(self.view.nodes.index[names[-1]])
        return NO_ROW if clears_nomination(outcome) else None

    def _victims(self, outcome: PostFilterOutcome, row: Row) -> tuple[Position, ...]:
        """The pods that preemption evicts on the row."""
        for tied in map(tied_candidates, outcome.results.values() if row != NO_ROW else ()):
            if tied:
                chosen = next(candidate for candidate in tied if candidate.row == row)
                return tuple(victim for victim in chosen.victims if not self.build_info(victim).terminating)
        return ()

    def _search(self, framework: Framework, cycle: Cycle, refused: Row | None) -> tuple[Rows, int]:
        """The rows that are found to fit, and how many were looked at, also the one that was ``refused`` before."""
        offered = np.flatnonzero(selected_by_name(cycle.pre_filter, self.view))
        terms = SearchTerms.from_profile(framework.profile, framework.release)
        search = self.sampling.search(~cycle.filter.passing, offered, terms, cycle.filter.failed, refused)
        return np.sort(search.feasible), int(search.examined.sum())

    def _best_first(self, cycle: Cycle, rows: Rows) -> deque[Row]:
        """The rows by score, those of the same score by name. Raises PluginError."""
        scores = cycle.scores
        if len(rows) == 1:
            return deque([Row(int(rows[0]))])
        if not np.array_equal(scores.rows, rows):
            passed = OfferedNodes.from_rows(self.view.nodes, rows)
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, self.view, passed)
        order = np.lexsort((self._by_name[rows], -scores.total))
        return deque(map(Row, rows[order].tolist()))


def _choice(info: PodInfo, row: Row, feasible: int, evaluated: int, *, batched: bool) -> Choice:
    return Choice(info, row, np.array([row]), feasible, NO_PRE_FILTER_RESULTS, evaluated, batched)
