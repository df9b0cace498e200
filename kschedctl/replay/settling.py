"""A cluster after its pending pods passed the queue, and what the cluster of a simulation is in the end.

Controllers recreate the pods that preemption evicts; the replacements pass the queue, and preempt in turn.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, find_positions
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import job_would_fail
from kschedctl.replay.edits import change_pods, is_recreated
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome, Recreation
from kschedctl.scheduler.simulation.simulation import Simulation

ONE_PER_SLOT = frozenset({"DaemonSet", "StatefulSet"})
"""Kinds that create the replacement of a pod once the pod is deleted: its node, or its name, has to be free.
Upstream: pkg/controller/daemon/daemon_controller.go, pkg/controller/statefulset/stateful_set_control.go (v1.36)."""


def recreate_evicted(simulation: Simulation, scaled_down: Container[Position] = ()) -> Simulation:
    """Let controllers recreate the pods that preemption evicts while pods pass the queue; return the simulation.

    Pods that are ``scaled_down``, as their workload replaces or drops them, are not recreated.
    """
    view = simulation.view

    def recreation(position: Position) -> Recreation:
        if position in scaled_down or not _is_recreated(simulation, position):
            return Recreation.NEVER
        kind = find_owner(view.pods.objects[position]).kind
        return Recreation.WHEN_GONE if kind in ONE_PER_SLOT else Recreation.AT_ONCE

    simulation.recreation = recreation
    return simulation


@dataclass(frozen=True)
class Settled:
    """A cluster at rest: the pods that still wait, each with kube-scheduler's reason, and how many were evicted.

    ``unknown``: what that leans on and was not read.
    """

    cluster: Cluster
    waiting: dict[str, str]
    placed: int = 0
    evicted: int = 0
    interrupted: bool = False
    unknown: tuple[UnknownKind, ...] = ()


def settle(
    cluster: Cluster, seed: int = 0, sampling: SampledFrom | None = None, call_extender: CallExtender | None = None
) -> Settled:
    """Schedule all that is pending, as far as it fits."""
    simulation = recreate_evicted(Simulation(Scheduler(cluster, call_extender), seed=seed, sampling=sampling))
    return settled(simulation, run_on(simulation, pending(simulation)))


@dataclass(frozen=True)
class Unexplained:
    """A cluster at rest of which only is asked which pods wait; ``settled`` has the rest, at a price."""

    simulation: Simulation
    outcomes: list[Outcome]

    @classmethod
    def of(cls, cluster: Cluster, call_extender: CallExtender | None = None) -> Unexplained:
        simulation = recreate_evicted(Simulation(Scheduler(cluster, call_extender)))
        return cls(simulation, all_outcomes(simulation, simulation.schedule(pending(simulation))))

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Return the pods that still wait, as ``namespace/name``."""
        pods = self.simulation.view.pods.objects
        return frozenset(pods[outcome.position].key for outcome in still_waiting(self.simulation, self.outcomes))

    def settled(self) -> Settled:
        return settled(self.simulation, self.simulation.explained(self.outcomes))


def pending(simulation: Simulation) -> list[Position]:
    """The pods that came without a node, still wait for one and are there to stay."""
    pods, gone = simulation.view.pods, simulation.gone
    idle = (position for position in find_positions(simulation.view.node < 0) if position not in gone)
    return [position for position in idle if _waits(pods.objects[position])]


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def run_on(simulation: Simulation, positions: Iterable[Position]) -> list[Outcome]:
    """Schedule the pods, and those that they drive away; the outcomes of all."""
    return driven_away_too(simulation, simulation.schedule(positions))


def driven_away_too(simulation: Simulation, latest: list[Outcome]) -> list[Outcome]:
    """The outcomes, and those of pods that preemption drove away and controllers make anew, with reasons."""
    return simulation.explained(all_outcomes(simulation, latest))


def all_outcomes(simulation: Simulation, latest: list[Outcome]) -> list[Outcome]:
    """All outcomes, without the reasons of the pods that were driven away.

    Those that fit nowhere come last, each once. Victims that were recreated while the simulation ran are among
    ``latest``; the others, such as members of gangs, come back here. A victim has a lower priority than its preemptor,
    or may itself evict others a few times only, so that the loop ends.
    """
    outcomes: list[Outcome] = []
    while not simulation.interrupted and (back := come_back(simulation, victims(latest))):
        outcomes += [outcome for outcome in latest if outcome.row >= 0]
        there = (outcome.position for outcome in latest if outcome.row < 0)
        latest = simulation.schedule([*(position for position in there if position not in simulation.gone), *back])
    return outcomes + latest


def victims(outcomes: Iterable[Outcome]) -> list[Position]:
    """The pods that preemption drove away."""
    return [victim for outcome in outcomes for victim in outcome.victims]


def come_back(simulation: Simulation, positions: Iterable[Position]) -> list[Position]:
    """Return the pods that left and that controllers recreate: they wait for a node from now on."""
    gone = simulation.gone
    back = [position for position in positions if position in gone and _is_recreated(simulation, position)]
    gone.difference_update(back)
    return back


def _is_recreated(simulation: Simulation, position: Position) -> bool:
    """Return whether a controller recreates the pod: a Job does not if one more failed pod makes it fail."""
    pod = simulation.view.pods.objects[position]
    return is_recreated(pod) and not job_would_fail(pod, simulation.view.objects)


def settled(simulation: Simulation, outcomes: list[Outcome]) -> Settled:
    """What a simulation left, after these outcomes."""
    pods, waiting = simulation.view.pods.objects, still_waiting(simulation, outcomes)
    return Settled(
        after(simulation),
        {pods[outcome.position].key: outcome.message or outcome.verdict for outcome in waiting},
        sum(outcome.row >= 0 for outcome in _latest(outcomes)),
        len(victims(outcomes)),
        simulation.interrupted,
        find_simulation_unknowns(simulation),
    )


def still_waiting(simulation: Simulation, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The latest outcomes of the pods that are there and fit nowhere."""
    return [outcome for outcome in _latest(outcomes) if outcome.row < 0 and outcome.position not in simulation.gone]


def _latest(outcomes: Iterable[Outcome]) -> Iterable[Outcome]:
    return {outcome.position: outcome for outcome in outcomes}.values()


def after(simulation: Simulation) -> Cluster:
    """The cluster as the simulation left it: pods on their new nodes, or waiting for one; others gone."""
    view = simulation.view
    moved = np.flatnonzero(view.node != simulation.scheduler.view.node).tolist()
    changes: dict[tuple[str, str], Pod | None] = {}
    for position in (*moved, *simulation.gone):
        pod = view.pods.objects[position]
        row = int(view.node[position])
        key = pod.metadata.namespace, pod.metadata.name
        changes[key] = (
            None if position in simulation.gone else placed_on(pod, view.nodes.names[row] if row >= 0 else "")
        )
    return change_pods(view.cluster, changes)


def placed_on(pod: Pod, node: str) -> Pod:
    """The pod that a controller makes in its place, on a node, or waiting for one."""
    again = made_again(pod)
    if not node:
        return again
    return replace(again, spec=replace(again.spec, node_name=node), status=replace(again.status, phase="Running"))
