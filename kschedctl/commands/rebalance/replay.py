"""Evictions requested by the descheduler, carried out one by one: the pod leaves and its replacement is placed.

The replacement is tried while the pod is still terminating and, if it fits nowhere, once more afterwards. Replacements
in StatefulSets are created only when the pod is gone. Then pods that were pending before are tried, since the eviction
wakes them. Harmful evictions are left out of the plan and reported: pods that nobody recreates, replacements that fit
nowhere, and evictions that a PodDisruptionBudget forbids. Within a round budgets do not recover, since the descheduler
does not wait for replacements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import (
    Evictions,
    find_jobs_awaiting_termination,
    may_terminate_during_rescheduling,
)
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.edits import is_recreated, is_recreated_elsewhere
from kschedctl.replay.settling import find_pods_still_pending, recreate_gone_pods
from kschedctl.replay.terminating_pods import LingeringPods, add_stand_ins
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork


class EvictionHarm(StrEnum):
    """A harm of an eviction that the descheduler accepts but a plan must not do."""

    LOST = "nothing recreates it"
    ENDS_JOB = "its Job allows no more failed pods"
    HOMELESS = "it fits nowhere else"


MAX_EXPLAINED = 25
"""The number of unplaceable pods for which the reason is determined."""


class PlayedEviction(NamedTuple):
    """A pod that left one node for another at the request of a plugin."""

    round: int
    plugin: str
    position: Position
    source: Row
    """The node that the pod left."""
    target: Row
    tied: int
    """The number of equally good targets."""
    again: bool
    """True if an earlier eviction of the plan had brought the pod to `source`."""


@dataclass
class EvictionReplay:
    """The simulated cluster in which evictions are carried out."""

    simulation: Simulation
    was_moved: Bools
    """A mask (P,) of the pods that came to their nodes by an eviction."""
    evictions: Evictions
    lingering: LingeringPods
    view_at_start: Fork
    """The pods on their nodes before any pending pod was placed."""
    round: int = 0
    played: list[PlayedEviction] = field(default_factory=list)
    recovering: list[Position] = field(default_factory=list)
    """The pods evicted in this round, whose replacements do not count for their budgets yet."""
    reasons: dict[Position, str] = field(default_factory=dict)
    """The reason why a replacement fits nowhere, by pod."""
    pending: list[Position] = field(default_factory=list)
    """The pods that were pending at the start and still are."""
    placed: dict[Position, Row] = field(default_factory=dict)
    """The nodes that pods got that were pending at the start."""

    @classmethod
    def start(cls, scheduler: Scheduler, seed: int, stand_ins: dict[str, str]) -> EvictionReplay:
        """Schedule the pending pods and return a replay that is ready for its first round.

        `stand_ins` maps one pod of each template to the stand-in for terminating pods of this template, both as
        `namespace/name`. The stand-ins are taken off their nodes first. Raises KeyboardInterrupt if the user
        interrupts.
        """
        simulation = Simulation(scheduler, seed=seed, preemption=False)
        lingering = LingeringPods.take_off_nodes(simulation.view, stand_ins)
        view_at_start = simulation.view.fork()
        simulation.schedule_or_raise_interrupt(find_pods_still_pending(simulation))
        was_moved = np.zeros(len(simulation.view.pods), np.bool_)
        still_pending = find_pods_still_pending(simulation)
        return cls(simulation, was_moved, Evictions(simulation), lingering, view_at_start, pending=still_pending)

    def begin_round(self) -> None:
        """Begin another round. The replacements of the previous round are running now and count for their budgets."""
        for position in self.recovering:
            self.evictions.record_recovery(position)
        self.recovering = []
        self.round += 1

    def evict(self, position: Position, plugin: str) -> str:
        """Evict a pod at the request of a plugin, place its replacement, and try the pending pods again.

        Return "" or, if the pod was not evicted, the reason: a denial, or harm that the eviction would do.
        """
        view = self.simulation.view
        pod = view.pods.objects[position]
        denial = self.evictions.find_denial(position)
        if denial:
            return denial
        if not is_recreated(pod):
            return EvictionHarm.LOST
        if JobFailures.of(view.objects).would_fail_job_or_index(pod):
            return EvictionHarm.ENDS_JOB

        source = Row(int(view.node[position]))
        outcome = self._place_replacement(position, source)
        if outcome is None or not outcome.is_placed:
            self._undo_eviction(position, source, outcome.message if outcome else "")
            return EvictionHarm.HOMELESS

        self.evictions.record_eviction(position)
        self.recovering.append(position)
        was_evicted_before = bool(self.was_moved[position])
        self.was_moved[position] = True
        self.played.append(
            PlayedEviction(
                self.round,
                plugin,
                position=position,
                source=source,
                target=outcome.row,
                tied=outcome.tied,
                again=was_evicted_before,
            )
        )
        self._try_pending_pods()
        return ""

    def _place_replacement(self, position: Position, source: Row) -> Outcome | None:
        """Try to schedule the replacement of a pod evicted from `source`. Return None if no profile serves the pod.

        If the evicted pod terminates slowly, the replacement is first tried beside the terminating pod and, if it does
        not fit, again afterwards.
        """
        self.simulation.remove([position])
        recreate_gone_pods(self.simulation, [position])
        terminating_pod = self.lingering.start_termination(position, source)
        outcome = self.simulation.attempt_pod(position)
        if terminating_pod is None:
            return outcome
        self.lingering.finish_termination(terminating_pod)
        if outcome is not None and outcome.is_placed:
            return outcome
        return self.simulation.attempt_pod(position)

    def _try_pending_pods(self) -> None:
        """Try the pending pods again and record the pods that get a node."""
        if self.pending:
            outcomes = self.simulation.schedule_or_raise_interrupt(self.pending)
            self.placed |= {outcome.position: outcome.row for outcome in outcomes if outcome.is_placed}
            self.pending = [position for position in self.pending if position not in self.placed]

    def _undo_eviction(self, position: Position, source: Row, message: str) -> None:
        """Put the pod back on its node, and record why its replacement fits nowhere.

        `message` is the scheduler's message, of which the first sentence is recorded. If it is empty, the message is
        computed, but only for the first MAX_EXPLAINED pods.
        """
        if not message and len(self.reasons) < MAX_EXPLAINED and self.simulation.find_framework(position):
            message = self.simulation.build_message(position)
        view = self.simulation.view
        JobFailures.of(view.objects).undo_eviction(view.pods.objects[position])
        try:
            self.simulation.bind(position, source)
        except PluginError:  # a plugin cannot reserve again what the pod held, but the pod stays anyway
            self.simulation.view.assume(position, source)
        if message:
            first_sentence, _, _ = message.partition(". ")
            self.reasons[position] = first_sentence

    def compute_placement_hash(self) -> int:
        """Return a hash of the placement.

        Two placements have the same hash if every node runs the same numbers of equal pods in both.
        """
        view = self.simulation.view
        # Code each pod by its PodInfo and its node, which is from -1 to N - 1.
        codes = view.pods.info.astype(np.int64) * (len(view.nodes) + 1) + (view.node + 1)
        return hash(np.sort(codes).tobytes())


def add_lingering_stand_ins(cluster: Cluster, grace_seconds: int | None) -> tuple[Cluster, dict[str, str]]:
    """Add stand-ins for the evicted pods that may still terminate while their replacements are placed.

    `grace_seconds` is the grace period of evictions in seconds, or None if each pod's own period counts. Return the
    cluster, and a mapping from one pod of each template to its stand-in, both as `namespace/name`.
    """
    waiting_jobs = find_jobs_awaiting_termination(cluster)

    def may_linger(pod: Pod) -> bool:
        """Return whether an evicted pod terminates while its replacement is placed."""
        if not is_recreated_elsewhere(pod) or pod.terminated:
            return False
        return may_terminate_during_rescheduling(pod, waiting_jobs, grace_seconds)

    return add_stand_ins(cluster, may_linger)
