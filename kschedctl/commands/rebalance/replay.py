"""Evictions requested by the descheduler, carried out one by one: the pod leaves and its replacement is placed.

The replacement is tried while the pod is still terminating and, if it fits nowhere, once more afterwards. Replacements
in StatefulSets come when the pod is gone. Then previously waiting pods are tried, since the eviction wakes them.

Harmful evictions are left out of the plan and reported: pods that nobody recreates, replacements that fit nowhere, and
evictions that a PodDisruptionBudget forbids. Within a round budgets do not recover, since the descheduler does not wait
for replacements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import (
    Evictions,
    as_terminating,
    find_jobs_that_wait,
    job_would_fail,
    terminates_beside_replacement,
)
from kschedctl.replay.edits import change_pods, is_recreated, is_recreated_elsewhere
from kschedctl.replay.settling import find_pending, recreate_gone_pods
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

ENDS_JOB = "its Job allows no more failed pods (backoffLimit)"
LOST, HOMELESS, BUDGET = "nothing recreates it", "it fits nowhere else", "PodDisruptionBudget"
MAX_EXPLAINED = 25
"""The number of unplaceable pods for which the reason is determined."""


class PlayedEviction(NamedTuple):
    """A pod that left one node for another at the request of a plugin."""

    round: int
    plugin: str
    position: Position
    source: Row
    target: Row
    tied: int
    """The number of equally good targets."""
    again: bool
    """Whether the pod had come to ``source`` by an earlier eviction of the plan."""


@dataclass
class EvictionReplay:
    """The cluster during the replay."""

    simulation: Simulation
    was_moved: Bools
    """Pods that came to their nodes by an eviction, (P,)."""
    evictions: Evictions
    lingering: LingeringPods
    round: int = 0
    played: list[PlayedEviction] = field(default_factory=list)
    recovering: list[Position] = field(default_factory=list)
    """Pods evicted in this round, which budgets still miss."""
    reasons: dict[Position, str] = field(default_factory=dict)
    waiting: list[Position] = field(default_factory=list)
    """Pods that waited from the beginning."""
    placed: dict[Position, Row] = field(default_factory=dict)
    """The nodes of formerly waiting pods."""

    @classmethod
    def start(cls, scheduler: Scheduler, seed: int, lingering: dict[str, str]) -> EvictionReplay:
        """Schedule the waiting pods and prepare the replay. Raises KeyboardInterrupt."""
        simulation = Simulation(scheduler, seed=seed, preemption=False)
        slow = LingeringPods.take_off_nodes(simulation.view, lingering)
        simulation.schedule(find_pending(simulation))
        if simulation.interrupted:
            raise KeyboardInterrupt
        replay = cls(simulation, np.zeros(len(simulation.view.pods), np.bool_), Evictions(simulation), slow)
        replay.waiting = find_pending(simulation)
        return replay

    def begin_round(self) -> None:
        """Begin another round: replacements of the previous one run and count for their budgets."""
        for position in self.recovering:
            self.evictions.count_recovery(position)
        self.recovering = []
        self.round += 1

    def evict(self, position: Position, plugin: str) -> str:
        """Evict a pod and place its replacement. Return why not if that does harm, else ""."""
        if refusal := self.evictions.find_denial(position):
            return refusal
        if not is_recreated(self.simulation.view.pods.objects[position]):
            return LOST
        if job_would_fail(self.simulation.view.pods.objects[position], self.simulation.view.objects):
            return ENDS_JOB
        source = Row(int(self.simulation.view.node[position]))
        outcome = self._place_replacement(position, source)
        if outcome is None or outcome.row < 0:
            return self._undo(position, source, outcome.message if outcome else "")
        self.evictions.count_eviction(position)
        self.recovering.append(position)
        again = bool(self.was_moved[position])
        self.was_moved[position] = True
        self.played.append(PlayedEviction(self.round, plugin, position, source, outcome.row, outcome.tied, again))
        self._try_waiting()
        return ""

    def _place_replacement(self, position: Position, source: Row) -> Outcome | None:
        """What becomes of the pod that is created instead of one that is evicted from a node."""
        self.simulation.remove([position])
        recreate_gone_pods(self.simulation, [position])
        leaving = self.lingering.start_terminating(position, source)
        outcome = self.simulation.attempt(position)
        if leaving is None:
            return outcome
        self.lingering.finish_terminating(leaving)
        return outcome if outcome is not None and outcome.row >= 0 else self.simulation.attempt(position)

    def _try_waiting(self) -> None:
        if self.waiting:
            outcomes = self.simulation.schedule(self.waiting)
            self.placed |= {outcome.position: outcome.row for outcome in outcomes if outcome.row >= 0}
            self.waiting = [position for position in self.waiting if position not in self.placed]

    def _undo(self, position: Position, source: Row, message: str) -> str:
        """Put the pod back on its node, and record why its replacement fits nowhere."""
        if not message and len(self.reasons) < MAX_EXPLAINED and self.simulation.framework(position):
            message = self.simulation.build_message(position)
        try:
            self.simulation.bind(position, source)
        except PluginError:  # what it held is not to be had again: it stays all the same
            self.simulation.view.assume(position, source)
        if message:
            self.reasons[position] = message.partition(". ")[0]
        return HOMELESS

    def placement_hash(self) -> int:
        """Return a hash that is equal if every node has the same numbers of equal pods."""
        view = self.simulation.view
        return hash(np.sort(view.pods.info.astype(np.int64) * (len(view.nodes) + 1) + view.node + 1).tobytes())


class LingeringPods(NamedTuple):
    """The stand-ins in a view."""

    view: Fork
    templates: Ints
    """The template of each pod, (P,)."""
    stand_ins: dict[int, Position]
    """The stand-in for each template, on no node at first."""

    @classmethod
    def take_off_nodes(cls, view: Fork, names: dict[str, str]) -> LingeringPods:
        """Take the stand-ins off their nodes. ``names`` maps each to its pod, both ``namespace/name``."""
        pods, absent = view.pods, np.zeros(len(view.pods), np.bool_)
        templates = pods.objects.table.template[pods.objects.rows]
        leaving = {int(templates[pods.index[of]]): pods.index[name] for of, name in names.items()}
        for position in leaving.values():
            view.forget(position)
            absent[position] = True
        view.absent = absent
        return cls(view, templates, leaving)

    def start_terminating(self, position: Position, row: Row) -> Position | None:
        """Put the stand-in of an evicted pod on its node. Return it, or None for a pod that leaves at once."""
        leaving = self.stand_ins.get(int(self.templates[position]))
        if leaving is not None:
            self.view.assume(leaving, row)
        return leaving

    def finish_terminating(self, leaving: Position) -> None:
        self.view.forget(leaving)


def add_stand_ins(cluster: Cluster, grace: int | None) -> tuple[Cluster, dict[str, str]]:
    """Return the cluster with one additional pod per template, and their names for LingeringPods.

    ``grace`` is the grace period of evictions in seconds, None for the pods' own.
    """
    pods, patient = cluster.pods, find_jobs_that_wait(cluster)
    slow = np.array(
        [
            is_recreated_elsewhere(pod) and not pod.terminated and terminates_beside_replacement(pod, patient, grace)
            for pod in pods.templates
        ],
        np.bool_,
    )
    named = np.array([bool(name) for name in pods.node.values], np.bool_)
    rows = np.flatnonzero(slow[pods.template] & named[pods.node.codes])
    _, first = np.unique(pods.template[rows], return_index=True)
    some = [pods[row] for row in rows[first].tolist()]
    more = {pod.key: as_terminating(pod, pod.spec.node_name) for pod in some}
    there = {(pod.metadata.namespace, pod.metadata.name): pod for pod in more.values()}
    return change_pods(cluster, there), {key: pod.key for key, pod in more.items()}
