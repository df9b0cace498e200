"""A cluster after its pending pods passed the queue, and what the cluster of a simulation is in the end.

Whom preemption drives away passes the queue too, where somebody makes the pod anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation import Outcome, Simulation
from kschedctl.studies.edits import returns, with_pods


@dataclass(frozen=True)
class Settled:
    """A cluster at rest: the pods that still wait, each with kube-scheduler's reason, and how many were evicted."""

    cluster: Cluster
    waiting: dict[str, str]
    placed: int = 0
    evicted: int = 0
    interrupted: bool = False


def settle(
    cluster: Cluster, seed: int = 0, sampling: bool = False, done: Callable[[int], None] = lambda number: None
) -> Settled:
    """Schedule all that is pending, as far as it fits."""
    simulation = Simulation(Scheduler(cluster), seed=seed, sampling=sampling)
    pods = simulation.view.pods
    pending = [
        position
        for position in np.flatnonzero(pods.node < 0).tolist()
        if not pods.objects[position].spec.node_name and pods.objects[position].metadata.deletion_timestamp is None
    ]
    return settled(simulation, run_on(simulation, pending, done))


def run_on(
    simulation: Simulation, positions: Sequence[int], done: Callable[[int], None] = lambda number: None
) -> list[Outcome]:
    """Schedule the pods, and those that they drive away; the outcomes of all."""
    return driven_away_too(simulation, simulation.run(positions, done))


def driven_away_too(simulation: Simulation, latest: list[Outcome]) -> list[Outcome]:
    """The outcomes, and those of pods that preemption drove away and controllers make anew.

    Those that fit nowhere come last, each once.
    """
    found: list[Outcome] = []
    while not simulation.interrupted and (back := _driven_away(simulation, latest)):
        simulation.gone.difference_update(back)
        found += [outcome for outcome in latest if outcome.row >= 0]
        latest = simulation.run([*(o.position for o in latest if o.row < 0), *back])
    return found + latest


def _driven_away(simulation: Simulation, outcomes: Sequence[Outcome]) -> list[int]:
    """The victims that come back: each preemption's have a lower priority than who preempts, so that it ends."""
    pods = simulation.view.pods.objects
    victims = (victim for outcome in outcomes for victim in outcome.victims)
    return [victim for victim in victims if victim in simulation.gone and returns(pods[victim])]


def settled(simulation: Simulation, outcomes: list[Outcome]) -> Settled:
    """What a simulation left, after these outcomes."""
    pods = simulation.view.pods.objects
    last = {outcome.position: outcome for outcome in outcomes}
    waiting = {
        pods[o.position].key: o.message or o.verdict
        for o in last.values()
        if o.row < 0 and o.position not in simulation.gone
    }
    return Settled(
        after(simulation),
        waiting,
        sum(outcome.row >= 0 for outcome in last.values()),
        sum(len(outcome.victims) for outcome in outcomes),
        simulation.interrupted,
    )


def after(simulation: Simulation) -> Cluster:
    """The cluster as the simulation left it: pods on their new nodes, or waiting for one; others gone."""
    view = simulation.view
    moved = np.flatnonzero(view.pods.node != simulation.scheduler.view.pods.node).tolist()
    changes: dict[tuple[str, str], Pod | None] = {}
    for position in (*moved, *simulation.gone):
        pod = view.pods.objects[position]
        row = int(view.pods.node[position])
        key = pod.metadata.namespace, pod.metadata.name
        changes[key] = None if position in simulation.gone else _on(pod, view.nodes.names[row] if row >= 0 else "")
    return with_pods(view.cluster, changes)


def _on(pod: Pod, node: str) -> Pod:
    again = made_again(pod)
    if not node:
        return again
    return replace(again, spec=replace(again.spec, node_name=node), status=replace(again.status, phase="Running"))
