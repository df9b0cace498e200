"""Verify fixes against the scheduling queue, in which other waiting pods may take the room that a fix makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.ranking import CheckedFix, QueueResult, RankedFix
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trials import RemedyTrial, Trials
from kschedctl.replay.edits import is_made_up
from kschedctl.replay.pending_pods import is_pending
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo

MOST_RUNS = 60
"""The number of times that the whole queue is run for the fixes of one pod."""
MOST_VARIANTS = 3
"""The number of variants of a fix that are tried, and of alternatives that are kept."""
MOST_ENLARGEMENTS = 4
"""The number of times that a node is enlarged for the pods ahead in the queue."""
MOST_NODES = 64
"""The number of nodes that a fix adds at most."""
HOLDS = QueueResult(holds=True)
"""The result of a fix with which no other pod can interfere."""


@dataclass
class QueueChecks:
    """Checks of one pod's fixes, each with one replay of the queue.

    The replay of the unchanged cluster is shared by all pods of a scheduler.
    """

    trials: Trials
    for_all_replicas: bool = False
    """True if the pod stands for all pending pods of its workload, so that a fix should be enough for all of them."""
    runs: int = 0
    """The number of times that the queue was replayed."""
    _results: dict[frozenset[Fix], QueueResult | None] = field(default_factory=dict)

    def check_in_queue(self, trial: RemedyTrial) -> QueueResult | None:
        """Return the outcome of scheduling all waiting pods with the trial's fix, or None if this was not replayed.

        The queue is not replayed if extenders would have to be called for all pods, or after `MOST_RUNS` replays.
        Outcomes are cached.
        """
        name = frozenset(trial.changes)
        if name not in self._results:
            self._results[name] = self._replay_queue(trial)
        return self._results[name]

    def _replay_queue(self, trial: RemedyTrial) -> QueueResult | None:
        """Replay the queue with the fix, or return `HOLDS` without a replay if the pod fits and no other pod waits.

        Return None if the scheduler calls extenders, or if the queue was already replayed `MOST_RUNS` times.
        """
        scheduler = self.trials.scheduler
        if scheduler.call_extender is not None and scheduler.extenders:
            return None
        if trial.fits and not _has_other_waiting_pods(scheduler, trial):
            return HOLDS
        if self.runs >= MOST_RUNS:
            return None
        self.runs += 1
        from kschedctl.fixes.queue_replay import replay_queue_with_fix  # noqa: PLC0415 - only if other pods wait

        return replay_queue_with_fix(trial)

    def find_best_variant(self, candidate: RankedFix) -> CheckedFix:
        """Return the variant of a fix to propose, with its outcome in the queue.

        If the pod stands for all pending replicas and other replicas still wait with the first variant that holds, the
        fix adds as many nodes as all of them need, provided that more nodes are enough for all.
        """
        checked_fix = self._find_first_variant_that_holds(candidate)
        if self.for_all_replicas and checked_fix.result is not None and checked_fix.result.waiting_siblings:
            return self._find_fix_with_nodes_for_all_replicas(checked_fix.ranked.trial) or checked_fix
        return checked_fix

    def _find_first_variant_that_holds(self, candidate: RankedFix) -> CheckedFix:
        """Return the first variant of a fix that holds in the queue, with the alternatives that also hold.

        If none of the first `MOST_VARIANTS` variants holds and the fix adds a node, the fix is tried with more nodes or
        with a larger node. If nothing holds, the fix is returned without alternatives, and its result says whether the
        fix is enough for some replicas of a workload that has no pods yet. If the queue was not replayed, the fix is
        returned unchanged.
        """
        trials = (candidate.trial, *candidate.variants[: MOST_VARIANTS - 1])
        result = self.check_in_queue(candidate.trial)
        if result is None or (result.holds and not candidate.variants):
            return CheckedFix(candidate, result)
        for trial in trials:
            variant_result = self.check_in_queue(trial)
            if variant_result is not None and variant_result.holds:
                remaining_variants = (other for other in candidate.variants if other is not trial)
                holding_variants = tuple(self._iter_trials_that_hold(remaining_variants))
                return CheckedFix(RankedFix(trial, holding_variants), variant_result)
        return (
            self._find_fix_with_fewest_nodes(candidate.trial)
            or self._find_fix_with_larger_node(candidate.trial)
            or CheckedFix(RankedFix(candidate.trial), self._check_for_some_replicas(candidate.trial, result))
        )

    def _check_for_some_replicas(self, trial: RemedyTrial, result: QueueResult) -> QueueResult:
        """Return the outcome for the target as the first of its workload's replicas that do not exist yet.

        The fix then holds if it is enough for some of the replicas. Return `result`, which is the outcome for the
        target as the last replica, if no other replica takes the target's room, or after `MOST_RUNS` replays.
        """
        if not self._has_new_replicas(trial.authored_pod, result.rivals) or self.runs >= MOST_RUNS:
            return result
        self.runs += 1
        from kschedctl.fixes.queue_replay import replay_queue_with_fix  # noqa: PLC0415 - only if other pods wait

        return replay_queue_with_fix(trial, stays_first_replica=True)

    def _has_new_replicas(self, target: Pod, keys: Sequence[str]) -> bool:
        """Return whether some of the pods are replicas of the target's workload, and neither they nor it exist yet."""
        cluster, owner = self.trials.scheduler.cluster, find_owner(target)
        if owner.kind == "Pod" or cluster.pod(target.metadata.namespace, target.metadata.name) is not None:
            return False
        pods = (cluster.pod(*key.split("/", 1)) for key in keys)
        return any(pod is not None and is_made_up(pod) and find_owner(pod) == owner for pod in pods)

    def _iter_trials_that_hold(self, trials: Iterator[RemedyTrial]) -> Iterator[RemedyTrial]:
        """Yield the trials that hold in the queue, among the first `MOST_VARIANTS` of them."""
        for trial in islice(trials, MOST_VARIANTS):
            result = self.check_in_queue(trial)
            if result is not None and result.holds:
                yield trial

    def _find_fix_with_fewest_nodes(self, trial: RemedyTrial) -> CheckedFix | None:
        """Return the variant of the fix with the fewest added nodes that holds in the queue.

        From 2 to `MOST_NODES` added nodes are tried. The search stops early if it needs too many replays, and the best
        variant so far is returned. Return None if the fix adds no node, if no variant was found to hold, or if most of
        what special nodes offer would stay unused.
        """
        adding = next((fix for fix in trial.changes if fix.with_node_count is not None), None)
        if adding is None or adding.with_node_count is None:
            return None
        from kschedctl.fixes.queue_replay import estimate_nodes_needed  # noqa: PLC0415 - only if one node is too few

        # Search for the smallest sufficient count, from the estimate with doubling steps, and then by bisection
        best: CheckedFix | None = None
        too_few = 1  # the largest count that is known not to be enough
        enough = MOST_NODES + 1  # the smallest count that is known or assumed to be enough
        step = 1
        count = min(max(estimate_nodes_needed(trial), 2), MOST_NODES)
        while enough - too_few > 1:
            multiplied_trial = self._replay_with_replaced_fix(trial, adding, adding.with_node_count(count))
            result = self.check_in_queue(multiplied_trial)
            if result is None:
                break  # too many replays
            if result.holds:
                best = CheckedFix(RankedFix(multiplied_trial), result)
                enough = count
            else:
                too_few = count

            count = _choose_next_node_count(too_few, enough, step)
            step *= 2

        # Nodes that are special, such as nodes with GPUs, are only added if the pods make use of them.
        if best is None or best.result is None or adding.needs_special_node is None:
            return best
        assert trial.cycle is not None
        infos = [trial.cycle.info, *map(self._get_info, best.result.ahead)]
        return best if _are_special_nodes_used(adding, enough, infos) else None

    def _find_fix_with_nodes_for_all_replicas(self, trial: RemedyTrial) -> CheckedFix | None:
        """Return the variant of the fix that adds the fewest nodes with which no replica of the workload waits.

        Return None if the fix adds no node, if a node for each waiting replica and for each pod ahead in the queue is
        not enough, or after too many replays.
        """
        adding = next((fix for fix in trial.changes if fix.with_node_count is not None), None)
        result = self.check_in_queue(trial)
        if adding is None or adding.with_node_count is None or result is None:
            return None

        best: CheckedFix | None = None
        too_few = 1
        count = enough = min(1 + result.waiting_siblings + len(result.ahead), MOST_NODES)
        while count > too_few:
            multiplied_trial = self._replay_with_replaced_fix(trial, adding, adding.with_node_count(count))
            result = self.check_in_queue(multiplied_trial)
            if result is not None and result.holds and not result.waiting_siblings:
                best = CheckedFix(RankedFix(multiplied_trial), result)
                enough = count
            elif best is None:
                return None
            else:
                too_few = count
            count = (too_few + enough) // 2
        return best

    def _get_info(self, key: str) -> PodInfo:
        """Return the PodInfo of the pod with this key (`namespace/name`)."""
        pods = self.trials.scheduler.view.pods
        return pods.get_info(pods.index[key])

    def _replay_with_replaced_fix(self, trial: RemedyTrial, replaced: Fix, replacement: Fix) -> RemedyTrial:
        """Replay the trial's changes with one of its fixes replaced by another."""
        return self.trials.replay_changes(replacement if fix is replaced else fix for fix in trial.changes)

    def _find_fix_with_larger_node(self, trial: RemedyTrial) -> CheckedFix | None:
        """Return the variant of the fix with a node that also has room for the pods ahead in the queue.

        The node is enlarged for the pods that took the room of the previous variant. Return None if the fix adds no
        larger node, or if none of the first `MOST_ENLARGEMENTS` variants holds in the queue.
        """
        adding = next((fix for fix in trial.changes if fix.with_room_for is not None), None)
        if adding is None or adding.with_room_for is None:
            return None
        rivals: dict[str, PodInfo] = {}
        result = self.check_in_queue(trial)
        for _ in range(MOST_ENLARGEMENTS):
            if result is None:
                return None
            rivals |= {key: self._get_info(key) for key in result.rivals}
            enlarged_fix = adding.with_room_for(list(rivals.values()))
            if enlarged_fix is None:
                return None
            enlarged_trial = self._replay_with_replaced_fix(trial, adding, enlarged_fix)
            result = self.check_in_queue(enlarged_trial)
            if result is not None and result.holds:
                return CheckedFix(RankedFix(enlarged_trial), result)
        return None


def _are_special_nodes_used(adding: Fix, nodes: int, infos: Sequence[PodInfo]) -> bool:
    """Return whether the pods make use of the special nodes that the fix adds.

    This holds if each node takes a pod that needs such a node, or if the pods request more than half of what the larger
    nodes offer.
    """
    assert adding.needs_special_node is not None
    if nodes <= sum(map(adding.needs_special_node, infos)):
        return True
    used = {name: sum(info.incoming_requests.get(name, 0) for info in infos) for name in adding.larger_amounts}
    return bool(used) and all(2 * used[name] > nodes * amount for name, amount in adding.larger_amounts.items())


def _choose_next_node_count(too_few: int, enough: int, step: int) -> int:
    """Return the number of nodes to try next, between `too_few` and `enough`.

    `too_few` and `enough` are the largest insufficient and the smallest sufficient number. As long as only one of them
    was tried, the next number is up to `step` away from it. Afterwards, the next number is halfway between them.
    """
    was_enough_tried = enough <= MOST_NODES
    was_too_few_tried = too_few > 1
    if was_enough_tried and was_too_few_tried:
        return (too_few + enough) // 2
    if was_enough_tried:
        return max(enough - step, 2)
    return min(too_few + step, MOST_NODES)


def _has_other_waiting_pods(scheduler: Scheduler, trial: RemedyTrial) -> bool:
    """Return whether a pod other than the trial's target pod waits for a node."""
    return any(is_pending(pod) and pod.key != trial.authored_pod.key for pod in scheduler.cluster.unbound_pods())
