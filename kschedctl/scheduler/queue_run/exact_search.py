"""Exact node search for a queue replay: which node the scheduler takes, with sampling, hints and ties broken by name.

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
    """Runs full cycles for individual pods. The search's start index and batches carry over from pod to pod."""

    def __init__(self, pods: PodsOnNodes, queue: SchedulingQueue, queued: Mapping[Position, QueuedPod]) -> None:
        self.pods, self.view, self.queue, self.queued = pods, pods.view, queue, queued
        names = self.view.nodes.names
        self.sampling = SampledFrom().start_sampling(pods.scheduler.configuration, len(names))
        self._batches: dict[str, OpportunisticBatch] = {}
        self._name_ranks = (
            np.argsort(np.argsort(np.array(names, dtype=object))) if len(names) else np.empty(0, np.int64)
        )
        self._current_pods: dict[Position, Pod] = {}
        self._latest_cycle: Cycle | None = None

    # -- pods ----------------------------------------------------------------------------------------------------

    def get_pod(self, position: Position) -> Pod:
        """Return the pod in its current state."""
        if position not in self._current_pods:
            self._current_pods[position] = self.view.stored(self.view.pods.objects[position])
        return self._current_pods[position]

    def replace_pod(self, position: Position, pod: Pod) -> None:
        """Record that the pod changed."""
        self._current_pods[position] = pod

    def build_info(self, position: Position) -> PodInfo:
        """Return the PodInfo of the pod in its current state."""
        info = self.pods.arriving(position)
        return PodInfo(self.get_pod(position), info.options, info.number, info.alike)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def find(self, position: Position, framework: Framework) -> Choice | None:
        """Return the node for a pod, or None if it fits nowhere. Raises PluginError."""
        info, signature, cycle_number = self.build_info(position), self.queued[position].signature, self.queue.cycle
        cycle = self._latest_cycle = run_cycle(framework, info, self.view)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        if cycle.pre_filter.status.rejected or not len(self.view.nodes):
            return None
        batch = self._batches.setdefault(info.spec.scheduler_name, OpportunisticBatch())
        hint = batch.pop_hint(signature, cycle, cycle_number)
        nominated = self.view.nodes.index.get(info.pod.status.nominated_node_name)
        first = hint if not info.pod.status.nominated_node_name else None if nominated is None else Row(nominated)
        if first is not None and cycle.filter.passing[first]:
            batch.store(signature, cycle_number, hint, first, deque())
            return _build_choice(info, first, 1, 1, batched=first == hint)
        rows, evaluated = self._search(framework, cycle, first)
        if not len(rows):
            return None
        best = self._sort_by_score(cycle, rows)
        row = best.popleft()
        batch.store(signature, cycle_number, hint, row, best)
        return _build_choice(info, row, len(rows), evaluated, batched=row == hint)

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """Return what preemption could do for a pod for which no node was found just now."""
        cycle = self._latest_cycle
        if cycle is None or not len(self.view.nodes):
            return PostFilterEffect(Failed(Code.UNRESOLVABLE, NO_NODES))
        outcome = run_post_filter(cycle)
        nominated = self._find_nominated_row(outcome)
        victims = self._find_victims(outcome, nominated) if nominated is not None else ()
        failure = Failed(Code.UNSCHEDULABLE, fit_error(cycle, outcome.message), find_rejectors(cycle), nominated)
        evicted_later = bool(victims) and are_victims_evicted_asynchronously(outcome, self.pods.scheduler.gates)
        return PostFilterEffect(failure, victims, outcome.results, evicted_later)

    def _find_nominated_row(self, outcome: PostFilterOutcome) -> Row | None:
        """Return the row that PostFilter nominated, NO_ROW if it cleared the nomination, or None if it left it
        unchanged.
        """
        names = [result.nominated_node for result in outcome.results.values() if result.nominated_node]
        if outcome.status.code is Code.SUCCESS and names:
            return Row(self.view.nodes.index[names[-1]])
        return NO_ROW if clears_nomination(outcome) else None

    def _find_victims(self, outcome: PostFilterOutcome, row: Row) -> tuple[Position, ...]:
        """Return the pods that preemption evicts on the row."""
        for tied in map(tied_candidates, outcome.results.values() if row != NO_ROW else ()):
            if tied:
                chosen = next(candidate for candidate in tied if candidate.row == row)
                return tuple(victim for victim in chosen.victims if not self.build_info(victim).terminating)
        return ()

    def _search(self, framework: Framework, cycle: Cycle, rejected_first: Row | None) -> tuple[Rows, int]:
        """Return the feasible rows, and the number of rows examined including `rejected_first`, which was tried
        before.
        """
        offered = np.flatnonzero(selected_by_name(cycle.pre_filter, self.view))
        terms = SearchTerms.from_profile(framework.profile, framework.release)
        search = self.sampling.search(~cycle.filter.passing, offered, terms, cycle.filter.failed, rejected_first)
        return np.sort(search.feasible), int(search.examined.sum())

    def _sort_by_score(self, cycle: Cycle, rows: Rows) -> deque[Row]:
        """Return the rows by score, best first, with ties broken by name. Raises PluginError."""
        scores = cycle.scores
        if len(rows) == 1:
            return deque([Row(int(rows[0]))])
        if not np.array_equal(scores.rows, rows):
            feasible_nodes = OfferedNodes.from_rows(self.view.nodes, rows)
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, self.view, feasible_nodes)
        order = np.lexsort((self._name_ranks[rows], -scores.total))
        return deque(map(Row, rows[order].tolist()))


def _build_choice(info: PodInfo, row: Row, feasible: int, evaluated: int, *, batched: bool) -> Choice:
    return Choice(info, row, np.array([row]), feasible, NO_PRE_FILTER_RESULTS, evaluated, batched)
