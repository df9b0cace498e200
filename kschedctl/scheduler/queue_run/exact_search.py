"""Exact node search for a queue replay: the node that kube-scheduler takes, with sampling and opportunistic batching.

Ties are broken by name. In opportunistic batching, a pod identical to the previous one goes to the node that came
second for that pod, provided that the previous pod filled its node. Upstream: schedulePod and findNodesThatFitPod in
pkg/scheduler/schedule_one.go with a parallelism of 1, and batch.go and computeBatchablePlugins in
pkg/scheduler/framework/runtime (v1.36). Upstream's batches expire after half a second, but here time stands still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row, Rows
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle, mask_allowed_nodes, run_cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome, build_fit_error, find_rejectors, run_post_filter
from kschedctl.scheduler.engine.extenders import OfferedNodes
from kschedctl.scheduler.engine.preemption.evaluator import clears_nomination, get_tied_candidates
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.engine.reserve import NO_PRE_FILTER_RESULTS
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchTerms
from kschedctl.scheduler.engine.scoring import run_score
from kschedctl.scheduler.framework import Code, Plugin, PluginError, SignPlugin, offers
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.default_preemption import are_victims_evicted_asynchronously
from kschedctl.scheduler.plugins.helper.signing import encode
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, PodsOnNodes
from kschedctl.scheduler.queueing.scheduling_loop import Failed, PostFilterEffect
from kschedctl.scheduler.queueing.scheduling_queue import SchedulingQueue
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class ExactSearch:
    """A search by full cycles for single pods. The start index and the batches carry over from pod to pod."""

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
        """Return the pod in its current state, which is its stored state until `replace_pod` is called."""
        if position not in self._current_pods:
            self._current_pods[position] = self.view.build_stored_pod(self.view.pods.objects[position])
        return self._current_pods[position]

    def replace_pod(self, position: Position, pod: Pod) -> None:
        """Record that the pod changed, so that later cycles see `pod` in its place."""
        self._current_pods[position] = pod

    def build_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of the pod in its current state."""
        info = self.pods.build_arriving_info(position)
        return PodInfo(self.get_pod(position), info.options, info.number, info.alike)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def find_node(self, position: Position, framework: Framework) -> Choice | None:
        """Return the node for a pod, or None if no node is feasible. Raises PluginError if a plugin fails.

        The pod's nominated node is taken if it is feasible. For a pod without a nomination, the node that the batch
        suggests is taken if it is feasible. Otherwise, a sampled search decides. The placement is recorded for the
        batch.
        """
        # Filter all nodes.
        info = self.build_info(position)
        signature = self.queued[position].signature
        cycle_number = self.queue.cycle
        cycle = run_cycle(framework, info, self.view)
        self._latest_cycle = cycle
        if cycle.error is not None:
            raise PluginError(cycle.error)
        if cycle.pre_filter.status.rejected or not len(self.view.nodes):
            return None

        # Try the nominated node first, or the node that the batch suggests.
        batch = self._batches.setdefault(info.spec.scheduler_name, OpportunisticBatch())
        hint = batch.pop_hint(signature, cycle, cycle_number)
        nominated_name = info.pod.status.nominated_node_name
        first_row = self.view.nodes.index.get(nominated_name) if nominated_name else hint
        if first_row is not None and cycle.filter.passing[first_row]:
            batch.record_placement(signature, cycle_number, hinted=hint, chosen=first_row, remaining_rows=deque())
            return _build_untied_choice(info, first_row, feasible=1, evaluated=1, batched=first_row == hint)

        # Search for feasible nodes, and take the one with the highest score.
        rows, evaluated = self._search_nodes(framework, cycle, first_row)
        if not len(rows):
            return None
        remaining_rows = self._sort_by_score(cycle, rows)
        row = remaining_rows.popleft()
        batch.record_placement(signature, cycle_number, hinted=hint, chosen=row, remaining_rows=remaining_rows)
        return _build_untied_choice(info, row, feasible=len(rows), evaluated=evaluated, batched=row == hint)

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """Run PostFilter for a pod for which `find_node` just returned None, and return the effect.

        The cycle of that call is continued. If there are no nodes, PostFilter is not run, and the pod fails as
        unresolvable. `position` and `framework` are part of the interface and not used.
        """
        cycle = self._latest_cycle
        if cycle is None or not len(self.view.nodes):
            return PostFilterEffect(Failed(Code.UNRESOLVABLE, NO_NODES))
        outcome = run_post_filter(cycle)
        nominated = self._find_nominated_row(outcome)
        victims = self._find_victims(outcome, nominated) if nominated is not None else ()
        failure = Failed(Code.UNSCHEDULABLE, build_fit_error(cycle, outcome.message), find_rejectors(cycle), nominated)
        evicts_later = bool(victims) and are_victims_evicted_asynchronously(outcome, self.pods.scheduler.gates)
        return PostFilterEffect(failure, victims, plugins_run=outcome.results, evicts_later=evicts_later)

    def _find_nominated_row(self, outcome: PostFilterOutcome) -> Row | None:
        """Return the row that PostFilter nominated, or NO_ROW if PostFilter cleared the pod's nomination.

        Return None if the nomination has not changed.
        """
        names = [result.nominated_node for result in outcome.results.values() if result.nominated_node]
        if outcome.status.code is Code.SUCCESS and names:
            return Row(self.view.nodes.index[names[-1]])  # the plugin that succeeded was the last to run
        return NO_ROW if clears_nomination(outcome) else None

    def _find_victims(self, outcome: PostFilterOutcome, row: Row) -> tuple[Position, ...]:
        """Return the pods that the preemption candidate on this row evicts, except pods that are already terminating.

        Of the candidates that are equally good, PostFilter nominated the one on this row. There are no victims if the
        row is NO_ROW or no plugin preempts.
        """
        if row == NO_ROW:
            return ()
        for result in outcome.results.values():
            candidates = get_tied_candidates(result)
            if candidates:  # only the plugin that nominated the node has any
                chosen = next(candidate for candidate in candidates if candidate.row == row)
                return tuple(victim for victim in chosen.victims if not self.build_info(victim).terminating)
        return ()

    def _search_nodes(self, framework: Framework, cycle: Cycle, rejected_first: Row | None) -> tuple[Rows, int]:
        """Return the feasible rows that a sampled search finds, and the number of rows that it examines.

        `rejected_first` is a row that was found infeasible before the search and counts as examined, or None.
        """
        offered = np.flatnonzero(mask_allowed_nodes(cycle.pre_filter, self.view))
        terms = SearchTerms.from_profile(framework.profile, framework.release)
        search = self.sampling.search_nodes(
            ~cycle.filter.passing, offered, terms, failed=cycle.filter.failed_nodes, nominated_row=rejected_first
        )
        return np.sort(search.feasible), int(search.examined.sum())

    def _sort_by_score(self, cycle: Cycle, rows: Rows) -> deque[Row]:
        """Return the rows by score, best first, with ties broken by name. Raises PluginError if a plugin fails.

        Scores are normalized over these rows only, so they are computed again unless the cycle scored the same rows.
        """
        scores = cycle.scores
        if len(rows) == 1:
            return deque([Row(int(rows[0]))])
        if not np.array_equal(scores.rows, rows):
            feasible_nodes = OfferedNodes.from_rows(self.view.nodes, rows)
            scores = run_score(cycle.framework, cycle.pre_filter.results, cycle.info, self.view, feasible_nodes)
        order = np.lexsort((self._name_ranks[rows], -scores.total))
        return deque(map(Row, rows[order].tolist()))


def _build_untied_choice(info: PodInfo, row: Row, feasible: int, evaluated: int, *, batched: bool) -> Choice:
    """Build the choice of a row with which no other row ties for the highest score.

    `feasible` and `evaluated` are numbers of nodes. `batched` says whether opportunistic batching suggested the row.
    """
    return Choice(
        info,
        row,
        tied=np.array([row]),
        feasible=feasible,
        claim_results=NO_PRE_FILTER_RESULTS,
        evaluated=evaluated,
        batched=batched,
    )


SIGNED_POINTS = ("preFilter", "filter", "preScore", "score")


class Signer:
    """Computes signatures of pods for a profile, so that pods with equal signatures get the same answers.

    If the profile has extenders or a plugin that does not sign, no pod is signed.
    """

    def __init__(self, framework: Framework, gates: FeatureGates, *, extenders: bool, view: Fork) -> None:
        plugins: dict[str, Plugin] = {}
        for point in SIGNED_POINTS:
            plugins |= {plugin.name: plugin for plugin in framework.plugins_at(point)}
        signing = [plugin for plugin in plugins.values() if offers(plugin, SignPlugin)]
        do_all_sign = len(signing) == len(plugins) and not framework.missing
        can_batch = gates.enabled("OpportunisticBatching") and do_all_sign and not extenders
        self._plugins = signing if can_batch else None
        self._view = view

    def sign(self, info: PodInfo) -> bytes | None:
        """Return the pod's signature, or None if the profile does not sign pods or a plugin cannot sign this pod."""
        if self._plugins is None:
            return None
        fragments: dict[str, object] = {"scheduler": info.spec.scheduler_name}
        for plugin in self._plugins:
            fragment = plugin.sign(info, self._view)
            if fragment is None:
                return None
            fragments |= fragment
        return encode(fragments)


@dataclass
class OpportunisticBatch:
    """The remaining feasible nodes of a profile, best first, for pods with one signature."""

    signature: bytes | None = None
    remaining_rows: deque[Row] | None = None
    last_cycle: int = -1
    """Number of the cycle that placed a pod last."""
    last_row: Row | None = None
    """The node on which a pod was placed last."""

    def pop_hint(self, signature: bytes | None, cycle: Cycle, cycle_number: int) -> Row | None:
        """Take the next node off the list of the batch, and return it, or None if the batch proposes no node.

        The batch proposes a node only if the previous cycle placed a pod with this signature and thereby filled its
        node.
        """
        if not self.remaining_rows or cycle_number != self.last_cycle + 1:
            return None
        if signature is None or signature != self.signature:
            return None
        if self.last_row is None or not _is_full(cycle, self.last_row):
            return None
        return self.remaining_rows.popleft()

    def record_placement(
        self, signature: bytes | None, cycle_number: int, hinted: Row | None, chosen: Row, remaining_rows: deque[Row]
    ) -> None:
        """Record that a pod was placed on `chosen`. `remaining_rows` has the other feasible nodes, best first.

        If the pod went to the `hinted` node, the batch continues with its own remaining rows. Otherwise, the pod begins
        a new batch if it has a signature and there are other feasible nodes, and ends the batch if not.
        """
        self.last_cycle = cycle_number
        self.last_row = chosen
        if hinted == chosen:  # then no search was made, and `remaining_rows` is empty
            return
        if signature is not None and remaining_rows:
            self.signature, self.remaining_rows = signature, remaining_rows
        else:
            self.signature = self.remaining_rows = None


def _is_full(cycle: Cycle, row: Row) -> bool:
    """Return whether a Filter plugin rejects the node now, without counting nominated pods."""
    return any(verdict.rejected[row] for verdict in cycle.filter.verdicts.values())
