"""Rollouts on a simulation, in which workloads replace old pods with new ones within their limits.

A pod counts as available as soon as it has a node. Upstream: pkg/controller/deployment/{rolling,recreate}.go,
pkg/controller/statefulset/stateful_set_control.go, pkg/controller/daemon/update.go (v1.36).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Protocol

from msgspec.structs import replace

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_failures import build_denied_pods_report
from kschedctl.replay.controllers.creation_fix_steps import FixStep
from kschedctl.replay.controllers.creation_fixes import build_object_change_fix, shrink_quota_raise
from kschedctl.replay.controllers.workload_change import Pace, WorkloadChange, get_slot
from kschedctl.replay.settling import remove_pods_of_failed_jobs
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.placements import ROLLOUT_COMPLETE
from kschedctl.scheduler.simulation.outcome import NOT_TRIED, SCHEDULED, Outcome, Progress
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import agreeing, counted


class RolloutCreation:
    """The admission of a rollout's pods, which are created as old pods are removed."""

    def __init__(self, admissions: Admissions, owner: Owner, workload: Struct | None, change: WorkloadChange) -> None:
        self.admissions = admissions
        self._owner = owner
        self._workload = workload
        self._change = change
        self._workload_denials = admissions.admit_workload(owner, change)
        self.denials: Sequence[str] = self._workload_denials
        """The reasons why the last denied pods were denied."""

    def admit_pods(self, pods: Sequence[Pod]) -> int:
        """Admit the pods in order, and return how many are created.

        The result is 0 if the workload itself is denied. The denials of the next pod are stored in ``self.denials``.
        """
        if not pods or self._workload_denials:
            return 0
        admitted = self.admissions.admit_pods_of(self._owner, self._workload, pods, len(pods))
        self.denials = admitted.denials
        return admitted.number

    def release(self, pods: Collection[Pod]) -> None:
        """Give the resources of removed pods back to their quotas."""
        self.admissions.release(pods)

    def find_quota_raise(self, pod: Pod, count: int) -> FixStep | None:
        """Return the step that raises quotas for ``count`` more pods, or None if quotas do not deny them."""
        return self.admissions.find_quota_raise(self._owner, pod, count)

    def report_missing_pods(self, missing: int) -> NotCreated | None:
        """Report the ``missing`` pods, or return None if no pod is denied."""
        if not missing or not self.denials:
            return None
        return build_denied_pods_report(self._owner, self.denials, self._change.desired, missing)


NOT_CREATED = "NotCreated"
WAITING_FOR_CONTROLLER = "to be created only after other pods of the workload run"
ENDED_WITH_JOB = "its Job failed because pods of the Job were preempted"
OLD_NAME_SUFFIX = " (old)"
"""Suffix for the name of an old pod if a new pod takes its name."""


class Rollout:
    """The rollout of one workload's change on a simulation, with pods as positions."""

    def __init__(
        self,
        change: WorkloadChange,
        simulation: Simulation,
        position: Callable[[Pod], Position],
        creation: RolloutCreation | None = None,
    ) -> None:
        self.change, self.simulation = change, simulation
        self.creation = creation
        """The admission of new pods; None to admit all."""

        # The pods by what happens to them
        self.kept = [position(pod) for pod in change.kept]
        """Pods that stay."""
        self.old = dict.fromkeys(position(pod) for pod in rename_replaced_pods(change))
        """Old pods that are still to be removed."""
        self.coming = [position(pod) for pod in change.new]
        """Pods that are still to be created."""
        self.present = len(self.kept)
        """The number of existing pods that the rollout does not remove: kept and new ones."""
        self.waiting = dict.fromkeys(filter(self._has_no_node, self.kept))
        """Kept and new pods that exist and have no node."""

        # Which new pod replaces which old one
        self.replaces: dict[Position, Position] = {}
        """New pod -> old pod whose place it takes, if there is one."""
        if change.pace is Pace.IN_PLACE:
            old_by_slot = dict(zip(map(get_slot, change.removed), self.old, strict=True))
            for new_position, new_pod in zip(self.coming, change.new, strict=True):
                slot = get_slot(new_pod)
                if slot in old_by_slot:
                    self.replaces[new_position] = old_by_slot[slot]
        replaced = set(self.replaces.values())
        self._removable_old_pods = [position for position in self.old if position not in replaced]
        """Old pods that may be removed at once: they have no successor, or their successor runs."""

    def advance(self) -> list[Position]:
        """Take one step of the rollout, and return the pods that it creates.

        A rolling update creates surge pods or, if it can create none, replaces old pods within its limits. An in-place
        update replaces pods slot by slot. Any other rollout removes all old pods, and then creates the new ones.
        """
        match self.change.pace:
            case Pace.ROLLING:
                return self._create_surge_pods() or self._replace_pods_within_limits()
            case Pace.IN_PLACE:
                return self._fill_slots_or_replace_pods()
        self._remove_old_pods([*self.old])
        return self._create_remaining_pods()

    def record_pod_change(self, position: Position) -> None:
        """Update the rollout after a new or kept pod was placed or lost its node.

        A pod without a node waits. Once a new pod has a node, the old pod that it replaces may be removed.
        """
        if self._has_no_node(position):
            self.waiting[position] = None
        elif position in self.waiting:
            del self.waiting[position]
            if self.replaces.get(position) in self.old:
                self._removable_old_pods.append(self.replaces[position])

    @property
    def denied(self) -> NotCreated | None:
        """A report on the pods that the API server does not create; None if there are none or after an interruption."""
        if self.creation is None or self.simulation.interrupted:
            return None
        return self.creation.report_missing_pods(len(self.coming))

    @property
    def status(self) -> str:
        """The progress of the rollout, ``complete`` or ``stuck: …``, or an empty string if nothing is replaced."""
        change = self.change
        if not (change.rolling and change.removed and change.new):
            return ""
        if not (self.old or self.waiting or self.coming):
            return ROLLOUT_COMPLETE
        new_count = len(change.new)
        waiting_new_pods = self.waiting.keys() - {*self.kept}
        running = new_count - len(self.coming) - len(waiting_new_pods)
        return (
            f"stuck: {running:,} of {counted(new_count, 'new pod')} {agreeing(running, 'runs', 'run')}, "
            f"{counted(len(self.old), 'old pod')} {agreeing(len(self.old), 'is', 'are')} left"
        )

    def _has_no_node(self, position: Position) -> bool:
        """Return whether the pod has no node."""
        return not self.simulation.view.has_node(position)

    def _create_next_pods(self, count: int) -> list[Position]:
        """Create up to ``count`` of the next pods, as admission allows, and return them.

        The created pods wait for a node now.
        """
        count = max(count, 0)
        if self.creation is not None:
            pods = self.simulation.view.pods.objects
            count = self.creation.admit_pods([pods[position] for position in self.coming[:count]])
        created = self.coming[:count]
        self.coming = self.coming[count:]
        self.present += len(created)
        self.waiting |= dict.fromkeys(created)
        return created

    def _create_remaining_pods(self) -> list[Position]:
        """Create all remaining pods. If pods are created in order, create only the next one once no pod waits."""
        if self.change.ordered:
            return [] if self.waiting else self._create_next_pods(1)
        return self._create_next_pods(len(self.coming))

    # -- Deployments ---------------------------------------------------------------------------------------------

    def _create_surge_pods(self) -> list[Position]:
        """Create and return as many of the next pods as maxSurge allows."""
        return self._create_next_pods(self.change.desired + self.change.surge - self.present - len(self.old))

    def _replace_pods_within_limits(self) -> list[Position]:
        """Remove old pods within maxUnavailable, and then create and return new ones.

        Old pods without a node are removed first. Upstream: reconcileOldReplicaSets in
        pkg/controller/deployment/rolling.go (v1.36).
        """
        min_available = self.change.desired - self.change.unavailable
        total = self.present + len(self.old)
        max_removed = total - min_available - len(self.waiting)
        if max_removed > 0:
            unbound = [position for position in self.old if self._has_no_node(position)]
            bound = [position for position in self.old if not self._has_no_node(position)]
            # Pods without a node are not available, so removing them costs no availability
            available = len(bound) + self.present - len(self.waiting)
            max_bound_removed = max(available - min_available, 0)
            self._remove_old_pods([*unbound[:max_removed], *bound[:max_bound_removed]])
        return self._create_surge_pods()

    # -- StatefulSets and DaemonSets -----------------------------------------------------------------------------

    def _fill_slots_or_replace_pods(self) -> list[Position]:
        """Create pods for empty slots or, if there are none, replace old pods. Return the created pods.

        Before old pods are replaced within the limits, old pods without a successor and old pods whose successor runs
        are removed. Old pods without a node are replaced even beyond the limits. An ordered workload does nothing while
        one of its pods has no node.
        """
        if self.change.ordered and self._has_pod_without_node():
            return []

        # New pods for empty slots come first in `coming`. Nothing is removed or replaced until all of them exist.
        is_slot_empty = bool(self.coming) and self.coming[0] not in self.replaces
        if is_slot_empty:
            return self._fill_empty_slots()

        self._remove_old_pods(self._removable_old_pods)
        self._removable_old_pods = []

        count = self._count_replaceable_pods()
        if not self.change.surge:  # without surge, an old pod leaves before its successor is created
            self._remove_old_pods([self.replaces[new] for new in self.coming[:count] if new in self.replaces])
        return self._create_next_pods(count)

    def _fill_empty_slots(self) -> list[Position]:
        """Create and return the new pods that replace no old pod. In an ordered workload, create only the first one."""
        empty_slot_count = sum(position not in self.replaces for position in self.coming)
        return self._create_next_pods(1 if self.change.ordered else empty_slot_count)

    def _count_replaceable_pods(self) -> int:
        """Return how many old pods may be replaced now: as many as the limits allow, and all that have no node.

        Every pod in `coming` must have a predecessor. The successors of old pods without a node come first.
        """
        limit = max(self.change.surge, self.change.unavailable) - len(self.waiting)
        successors_of_unbound = list(takewhile(lambda new: self._has_no_node(self.replaces[new]), self.coming))
        return max(limit, len(successors_of_unbound))

    def _has_pod_without_node(self) -> bool:
        """Return whether a new pod, or an old pod that has a successor, has no node."""
        replaced = (position for position in self.replaces.values() if position in self.old)
        return bool(self.waiting) or any(map(self._has_no_node, replaced))

    def _remove_old_pods(self, positions: Iterable[Position]) -> None:
        """Remove old pods from the simulation and from the rollout. Positions of other pods are skipped."""
        removed = [position for position in positions if position in self.old]
        if self.creation is not None:
            self.creation.release([self.simulation.view.pods.objects[position] for position in removed])
        self.simulation.remove([position for position in removed if not self._has_no_node(position)])
        self.simulation.gone.update(removed)  # also pods without a node
        for position in removed:
            del self.old[position]


def rename_replaced_pods(change: WorkloadChange) -> list[Pod]:
    """Return the removed pods, with a suffix for each pod whose name a new pod takes, so that both can exist."""
    new_keys = {pod.key for pod in change.new}
    return [_add_old_suffix(pod) if pod.key in new_keys else pod for pod in change.removed]


def _add_old_suffix(pod: Pod) -> Pod:
    """Return the pod with the suffix for old pods added to its name."""
    return replace(pod, metadata=replace(pod.metadata, name=pod.metadata.name + OLD_NAME_SUFFIX))


def run_rollouts(
    rollouts: Sequence[Rollout],
    simulation: Simulation,
    other_pods: Iterable[Position] = (),
    progress: Progress | None = None,
) -> list[Outcome]:
    """Carry out all rollouts side by side until nothing moves, and return all outcomes.

    ``other_pods`` are in the queue as well. Evicted pods of the workloads and of ``other_pods`` are recreated after
    each round. If the simulation recreates evicted pods itself, the outcomes of all recreated pods are also returned.
    If a Job fails because of evictions, its pods end. After an interruption, pods that still wait get the outcome
    NotTried.
    """
    rollout_by_pod: dict[Position, Rollout | None] = dict.fromkeys(other_pods)
    waiting = dict.fromkeys(other_pods)
    for rollout in rollouts:
        rollout_by_pod |= dict.fromkeys(rollout.kept, rollout)
        waiting |= dict.fromkeys(rollout.waiting)
    outcomes: dict[Position, Outcome] = {}
    ended: dict[Position, None] = {}
    try:
        while not simulation.interrupted:
            moves_before = simulation.move_count

            # Each controller removes and creates pods
            new_pods: dict[Position, Rollout] = {}
            for rollout in rollouts:
                new_pods |= dict.fromkeys(rollout.advance(), rollout)
            rollout_by_pod |= new_pods
            waiting |= dict.fromkeys(new_pods)

            # The scheduler tries all waiting pods
            latest = _run_scheduling_round(simulation, waiting, rollout_by_pod.keys(), progress)
            outcomes |= latest
            waiting |= dict.fromkeys(latest)

            # The pods of Jobs that failed end, which leaves room for others
            if simulation.evictions:
                ended |= dict.fromkeys(remove_pods_of_failed_jobs(simulation))
            tried = [position for position in waiting if position not in ended]

            # Each controller sees which of its pods got a node or lost one
            for position in tried:
                owner = rollout_by_pod.get(position)
                if owner is not None:
                    owner.record_pod_change(position)
            waiting = dict.fromkeys(position for position in tried if not simulation.view.has_node(position))
            if not new_pods and simulation.move_count == moves_before:
                break
        return [*_explain_outcomes(simulation, outcomes, ended), *_give_up_uncreated_pods(rollouts)]
    except KeyboardInterrupt:
        simulation.interrupted = True
        outcomes = {position: Outcome(position, NOT_TRIED) for position in waiting} | outcomes
    return [*outcomes.values(), *_give_up_uncreated_pods(rollouts)]


def _explain_outcomes(
    simulation: Simulation, outcomes: Mapping[Position, Outcome], ended: Container[Position]
) -> list[Outcome]:
    """Return the outcomes with explanations. Pods that ended with their Job come last and count as not created."""
    existing = [outcome for position, outcome in outcomes.items() if position not in ended]
    ended_pods = [position for position in outcomes if position in ended]
    ended_outcomes = [Outcome(position, NOT_CREATED, message=ENDED_WITH_JOB) for position in ended_pods]
    return [*simulation.explain(existing), *ended_outcomes]


def _run_scheduling_round(
    simulation: Simulation, waiting: Iterable[Position], recreated_here: Collection[Position], progress: Progress | None
) -> dict[Position, Outcome]:
    """Schedule the waiting pods once, and return all outcomes, including those of recreated pods.

    Evicted pods in ``recreated_here`` that the simulation did not recreate itself wait for the next round. Their
    outcomes come last, in the order of their positions.
    """
    nodes = simulation.view.node

    # Pods whose template sets spec.nodeName have a node from the beginning
    bound = [position for position in waiting if nodes[position] >= 0]
    outcomes = {position: Outcome(position, SCHEDULED, Row(int(nodes[position]))) for position in bound}

    scheduled = simulation.schedule([position for position in waiting if nodes[position] < 0], progress)
    outcomes |= {outcome.position: outcome for outcome in scheduled}

    # Evicted pods come back, and wait for the next round
    victims = {victim for outcome in scheduled for victim in outcome.victims if victim in recreated_here}
    evicted = victims & simulation.gone
    simulation.gone.difference_update(evicted)
    return outcomes | {victim: Outcome(victim, NOT_TRIED) for victim in sorted(evicted)}


def _give_up_uncreated_pods(rollouts: Sequence[Rollout]) -> list[Outcome]:
    """Mark the pods that were never created as gone, and return an outcome for each of them.

    The pods of denied rollouts get no outcome.
    """
    outcomes = []
    for rollout in rollouts:
        rollout.simulation.gone.update(rollout.coming)
        if rollout.denied:
            continue
        for position in rollout.coming:
            if rollout.simulation.interrupted:
                outcomes.append(Outcome(position, NOT_TRIED))
            else:
                outcomes.append(Outcome(position, NOT_CREATED, message=WAITING_FOR_CONTROLLER))
    return outcomes


class RolloutReplay(Protocol):
    """A function that replays all rollouts with other changes and quotas."""

    def __call__(self, changes: Sequence[WorkloadChange], admissions: Admissions) -> Sequence[Rollout]: ...


def iter_rollout_fixes(
    index: int, rollouts: Sequence[Rollout], admissions: Admissions, replay: RolloutReplay
) -> Iterator[CreationFix]:
    """Yield fixes for the denied rollout at this index: no surge, and the smallest raise of quotas that suffices.

    Each fix is replayed, and yielded only if the rollout then completes. ``admissions`` has the quotas from before all
    rollouts.
    """
    stuck = rollouts[index]
    changes = [rollout.change for rollout in rollouts]

    def completes(changes: Sequence[WorkloadChange], quotas: Admissions) -> bool:
        """Return whether the rollout completes with these changes and quotas."""
        replayed = replay(changes, quotas)[index]
        is_unfinished = bool(replayed.old or replayed.waiting or replayed.coming)
        return replayed.denied is None and not is_unfinished

    if stuck.change.pace is Pace.ROLLING and stuck.change.surge:
        without_surge = dataclasses.replace(stuck.change, surge=0, unavailable=1)
        if completes([*changes[:index], without_surge, *changes[index + 1 :]], admissions):
            summary = f"roll {stuck.change.workload} out with maxSurge 0 and maxUnavailable 1"
            weakens = "one pod fewer may run during the rollout"
            yield CreationFix(summary, by="author", kinds=("RollOutWithoutSurge",), weakens=weakens)

    for step in _iter_quota_increases(stuck):
        if completes(changes, admissions.with_raised_quotas(step)):
            smallest = shrink_quota_raise(
                step, lambda raised: completes(changes, admissions.with_raised_quotas(raised))
            )
            yield build_object_change_fix(smallest)
            return


def _iter_quota_increases(stuck: Rollout) -> Iterator[FixStep]:
    """Yield steps that increase quotas for one more pod, for the surge, and for all pods still to be created."""
    if stuck.creation is None or not stuck.coming:
        return
    pod = stuck.simulation.view.pods.objects[stuck.coming[0]]
    for count in sorted({1, max(stuck.change.surge, 1), len(stuck.coming)}):
        step = stuck.creation.find_quota_raise(pod, count)
        if step is not None:
            yield step
