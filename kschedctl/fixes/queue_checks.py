"""Verify a fix with all waiting pods: they are tried in the queue's order, and the pod must have a node in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.fixes.concerned_pods import changed_nodes, concerned_pods, nodes_for_pods_ahead
from kschedctl.fixes.ranking import CheckedFix, QueueResult, Ranked
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.immutable import is_updated
from kschedctl.fixes.trial.trials import RemedyTrial, Trials, changed_cluster
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.edits import add_pods
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.settling import find_pending, recreate_evicted, schedule_victims
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

MOST_RUNS = 60
"""The number of times that the whole queue is run for the fixes of one pod."""
MOST_VARIANTS = 3
"""The number of variants of a fix that are tried, and of alternatives that are kept."""
MOST_NODES = 64
"""The number of nodes that a fix adds at most."""


HOLDS = QueueResult(True)


@dataclass
class QueueChecks:
    """Checks of one pod's fixes, with one run of the queue for each of them.

    The run of the unchanged cluster is shared by all pods of a scheduler.
    """

    trials: Trials
    runs: int = 0
    """The number of times that the queue was run."""
    _results: dict[frozenset[Fix], QueueResult | None] = field(default_factory=dict)

    def check(self, trial: RemedyTrial) -> QueueResult | None:
        """Return what happens after the fix in the queue; None if extenders would have to be asked about all pods, or
        too many runs were needed already."""
        name = frozenset(trial.changes)
        if name not in self._results:
            self._results[name] = self._check(trial)
        return self._results[name]

    def _check(self, trial: RemedyTrial) -> QueueResult | None:
        scheduler = self.trials.scheduler
        if scheduler.call_extender is not None and scheduler.extenders:
            return None
        if trial.fits and not _others_waiting(scheduler, trial):
            return HOLDS
        if self.runs >= MOST_RUNS:
            return None
        self.runs += 1
        return _run_with_fix(trial)

    def best_variant(self, candidate: Ranked) -> CheckedFix:
        """Return the variant of a fix that holds in the queue, if any does, with the alternatives that hold, too.

        If the first few variants do not hold and the fix adds a node, more nodes are added until it holds.
        """
        variants = (candidate.trial, *candidate.others[: MOST_VARIANTS - 1])
        result = self.check(candidate.trial)
        if result is None or (result.holds and not candidate.others):
            return CheckedFix(candidate, result)
        for trial in variants:
            held = self.check(trial)
            if held is not None and held.holds:
                others = (other for other in candidate.others if other is not trial)
                return CheckedFix(Ranked(trial, tuple(self._holding(others))), held)
        return self._multiplied(candidate.trial) or CheckedFix(Ranked(candidate.trial), result)

    def _holding(self, trials: Iterator[RemedyTrial]) -> Iterator[RemedyTrial]:
        """Yield the first few of the trials that hold in the queue."""
        for _, trial in zip(range(MOST_VARIANTS), trials, strict=False):
            result = self.check(trial)
            if result is not None and result.holds:
                yield trial

    def _multiplied(self, trial: RemedyTrial) -> CheckedFix | None:
        """Find the smallest number of nodes, of those that the fix adds, that suffices for the pod and those ahead."""
        adding = next((fix for fix in trial.changes if fix.times is not None), None)
        if adding is None or adding.times is None:
            return None
        best: CheckedFix | None = None
        too_few, enough, step = 1, MOST_NODES + 1, 1
        count = min(max(nodes_for_pods_ahead(trial), 2), MOST_NODES)
        while enough - too_few > 1:
            several = adding.times(count)
            more = self.trials.of(several if fix is adding else fix for fix in trial.changes)
            result = self.check(more)
            if result is None:
                break
            if result.holds:
                best, enough = CheckedFix(Ranked(more), result), count
            else:
                too_few = count
            if best is not None and too_few > 1:
                count = (too_few + enough) // 2
            else:
                count = max(enough - step, 2) if best else min(too_few + step, MOST_NODES)
                step *= 2
        return best


class RunWithoutFix(NamedTuple):
    """What happens to the waiting pods of the unchanged cluster."""

    placed: frozenset[str]
    """The pods that get a node, as ``namespace/name``."""
    nothing_moves: bool
    """Whether no pod gets a node and none is evicted."""


def run_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    """Try all waiting pods of the unchanged cluster, once for each scheduler."""
    run: RunWithoutFix = scheduler.view.memo(run_without_fix, lambda: _run_without_fix(scheduler))
    return run


def _run_without_fix(scheduler: Scheduler) -> RunWithoutFix:
    simulation = recreate_evicted(Simulation(scheduler))
    waiting = find_pending(simulation)
    _run(simulation, waiting)
    placed = frozenset(simulation.view.pods.objects[at].key for at in waiting if simulation.view.node[at] >= 0)
    return RunWithoutFix(placed, not placed and not simulation.evictions)


def _others_waiting(scheduler: Scheduler, trial: RemedyTrial) -> bool:
    """Return whether any pod besides that of the trial waits for a node."""
    return any(is_pending(pod) and pod.key != trial.own.key for pod in scheduler.cluster.unbound_pods())


def _run_with_fix(trial: RemedyTrial) -> QueueResult:
    """Apply the fix, try all waiting pods in the queue's order, and look at the pod that the fix is for."""
    own = ObjectKey.of(trial.own)
    edits = {key: edit for key, edit in trial.edits.items() if key != own}
    cluster = changed_cluster(trial.scheduler.cluster, edits, whole=True)
    if own in trial.edits or not _is_in_cluster(trial):
        cluster = add_pods(cluster, [trial.own if trial.created else trial.pod])
    simulation, outcomes = _run_concerned(Scheduler(cluster, trial.scheduler.call_extender), trial, own)
    pods, node = simulation.view.pods, simulation.view.node
    names = simulation.view.nodes.names
    placed = {
        pods.objects[outcome.position].key: names[node[outcome.position]]
        for outcome in outcomes
        if node[outcome.position] >= 0
    }
    without_fix = run_without_fix(trial.scheduler).placed
    others = [key for key in placed if key != trial.own.key]
    gained = tuple(key for key in others if key not in without_fix and _waited(trial.scheduler, key))
    makes_room_on = frozenset(trial.opens)
    on_the_room = tuple(key for key in others if placed[key] in makes_room_on)
    if trial.own.key not in placed:
        return QueueResult(False, rivals=on_the_room or gained)
    before = list(placed).index(trial.own.key)
    ahead = frozenset([*placed][:before])
    return QueueResult(True, ahead=tuple(key for key in on_the_room if key in ahead), also_places=gained)


def _run_concerned(scheduler: Scheduler, trial: RemedyTrial, own: ObjectKey) -> tuple[Simulation, list[Outcome]]:
    """Try the pods that the fix may concern or, if that is not known or pods are evicted, all waiting pods."""
    changed = changed_nodes(trial, own) if run_without_fix(trial.scheduler).nothing_moves else None
    simulation = recreate_evicted(Simulation(scheduler))
    position = Position(simulation.view.pods.index[trial.own.key])
    waiting = find_pending(simulation)
    if _comes_last(trial, own):
        waiting = [*(other for other in waiting if other != position), position]
    if changed is not None:
        outcomes = _run(simulation, concerned_pods(simulation, waiting, changed, position))
        if not simulation.evictions:
            return simulation, outcomes
        simulation = recreate_evicted(Simulation(scheduler))
    return simulation, _run(simulation, waiting)


def _run(simulation: Simulation, waiting: Collection[Position]) -> list[Outcome]:
    """Try all pods until nothing moves any more. Raises KeyboardInterrupt."""
    outcomes = schedule_victims(simulation, simulation.schedule(waiting))
    if simulation.interrupted:
        raise KeyboardInterrupt
    return outcomes


def _waited(scheduler: Scheduler, key: str) -> bool:
    """Return whether a pod of the unchanged cluster waits for a node."""
    namespace, _, name = key.partition("/")
    pod = scheduler.cluster.pod(namespace, name)
    return isinstance(pod, Pod) and is_pending(pod)


def _is_in_cluster(trial: RemedyTrial) -> bool:
    """Return whether the cluster has the pod. A pod that stands for a manifest may have a UID without being there."""
    return trial.scheduler.cluster.pod(trial.own.metadata.namespace, trial.own.metadata.name) is not None


def _comes_last(trial: RemedyTrial, own: ObjectKey) -> bool:
    """Return whether the pod is created with the fix, or recreated, and so enters the queue behind all others."""
    edit = trial.edits.get(own)
    return not _is_in_cluster(trial) or (edit is not None and not is_updated(edit.before, edit.after))
