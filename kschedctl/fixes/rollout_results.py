"""The result of rolling out a changed pod template, with the pods that are evicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.placements import report_evictions, summarize_evictions
from kschedctl.reports.placements import EvictionChain, FailedJob
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, first_few


class RolloutResult(NamedTuple):
    """The result of rolling out a changed pod template."""

    owner: Owner
    restarted: int = 0
    """The number of running pods of the owner that were restarted."""
    waiting: int | None = None
    """The number of the workload's pods without a node after the rollout, or None if there was only a preemption."""
    nodes: tuple[str, ...] = ()
    """The names of the nodes that the new pods get, each once."""
    victims: tuple[str, ...] = ()
    """Evicted pods of other owners."""
    harm: str = ""
    """The harm that the rollout would do; empty if more pods of the workload get a node."""
    find_sufficient_max_unavailable: Callable[[], int | None] | None = None
    """Returns a maxUnavailable with which the rollout completes if its maxSurge is 0, or None if there is none.

    Only for a Deployment's rollout that does not complete with its own limits.
    """
    running_before: int | None = None
    """The number of the workload's pods with a node before the rollout, if a maxUnavailable can be searched."""
    chain: EvictionChain | None = None
    """The chain of evictions that follows, or None without victims."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because of the evictions."""


def add_evictions_to_result(
    rolled_out: RolloutResult, simulation: Simulation, own_positions: Sequence[Position]
) -> RolloutResult:
    """Return the result with the simulation's evicted pods, where their replacements end up, and Jobs that fail.

    The rollout's own pods, at `own_positions`, are not listed as victims. The nodes that they get are added as well.
    """
    evicted = report_evictions(simulation)
    keys = {simulation.view.pods.objects[position].key for position in own_positions}
    victims = tuple(dict.fromkeys(pod.pod for pod in evicted if pod.pod not in keys))
    failed_jobs = JobFailures.of(simulation.view.objects).report_failed_jobs(simulation.view.cluster)
    chain = summarize_evictions(simulation, evicted)
    view = simulation.view
    new_nodes = {
        view.get_node_name(position): None
        for position in own_positions
        if view.has_node(position) and not simulation.scheduler.view.has_node(position)
    }
    return rolled_out._replace(nodes=tuple(new_nodes), victims=victims, chain=chain, failed_jobs=failed_jobs)


def explain_useless_eviction(rolled_out: RolloutResult) -> str:
    """Say which pods a pod evicts without getting a node, and whether the replacements of these pods take the node."""
    victims, chain = rolled_out.victims, rolled_out.chain
    evicts = f"the pod would preempt {first_few(victims)}" if victims else "the pod would preempt no pods"
    if chain is not None and chain.outrun:
        replacements = agreeing(len(victims), "its replacement", "their replacements")
        return f"{evicts}, but {replacements} would take the node first"
    return f"{evicts} and would still get no node"


def get_position(view: Fork, pod: Pod) -> Position:
    """Return the position of a pod, which the view must have."""
    position = view.pods.find_position(pod.key)
    assert position is not None
    return position
