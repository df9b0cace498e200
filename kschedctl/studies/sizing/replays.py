"""All pods of a cluster placed on a set of nodes.

Nobody preempts: where all get a node nobody would, and else there will be more nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.what_if.settling import pending, still_waiting


def replayed(cluster: Cluster) -> tuple[Simulation, list[Outcome]]:
    """All pods pass the queue."""
    simulation = Simulation(Scheduler(cluster))
    simulation.preemption = False
    outcomes = simulation.schedule(pending(simulation))
    if simulation.interrupted:
        raise KeyboardInterrupt
    return simulation, outcomes


def waiting_keys(simulation: Simulation, outcomes: Iterable[Outcome]) -> list[str]:
    """The pods that wait."""
    pods = simulation.view.pods.objects
    return [pods[outcome.position].key for outcome in still_waiting(simulation, outcomes)]


def messages(cluster: Cluster) -> dict[str, str]:
    """The pods that wait, and what kube-scheduler says of each."""
    simulation, outcomes = replayed(cluster)
    pods = simulation.view.pods.objects
    waiting = still_waiting(simulation, simulation.explained(outcomes))
    return {pods[outcome.position].key: outcome.message or outcome.verdict for outcome in waiting}
