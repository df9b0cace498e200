"""A settled cluster: pending pods have passed the queue, and so have evicted pods after they were recreated."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, find_positions
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.replay.edits import change_pods, recreate_pod_with_current_priority
from kschedctl.replay.pending_pods import build_queue_entry_key
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.placements import EvictedPod, FailedJob, PendingLeftOut
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome, Progress, Recreation
from kschedctl.scheduler.simulation.simulation import Simulation

ONE_PER_SLOT = frozenset({"DaemonSet", "StatefulSet"})
"""Kinds that create the replacement of a pod only after its deletion, which frees its node or name.

Upstream: pkg/controller/daemon/daemon_controller.go, pkg/controller/statefulset/stateful_set_control.go (v1.36).
"""


def enable_pod_recreation(simulation: Simulation, scaled_down: Container[Position] = ()) -> Simulation:
    """Make the simulation recreate evicted pods while it runs the queue, as controllers do, and return the simulation.

    A pod of a kind in ONE_PER_SLOT is recreated once its predecessor is gone, and any other pod at once. Pods in
    ``scaled_down`` are not recreated, since their workload replaces or drops them. Pods without a controller that
    recreates pods are not recreated either.
    """
    view = simulation.view

    def choose_recreation(position: Position) -> Recreation:
        """Record the eviction, and return when the pod is recreated: at once, when it is gone, or never."""
        if position in scaled_down or not _record_eviction(simulation, position):
            return Recreation.NEVER
        kind = find_owner(view.pods.objects[position]).kind
        return Recreation.WHEN_GONE if kind in ONE_PER_SLOT else Recreation.AT_ONCE

    simulation.recreation = choose_recreation
    return simulation


@dataclass(frozen=True)
class SettledCluster:
    """A cluster in which all pods have passed the queue."""

    cluster: Cluster
    waiting: dict[str, str]
    """Pods that still wait, with kube-scheduler's reasons."""
    placed: int = 0
    """The number of pods that were placed."""
    evicted: tuple[str, ...] = ()
    """The pods that were preempted, apart from pods that were being deleted anyway. A pod may occur several times."""
    preempted: tuple[EvictedPod, ...] = ()
    """Reports on all evictions by preemption, in their order, also of pods that were being deleted anyway."""
    violated_budgets: dict[str, int] = field(default_factory=dict)
    """PodDisruptionBudget that preemption violates -> the number of disruptions that it allowed before."""
    interrupted: bool = False
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that failed because pending pods preempted their pods."""
    unknown: tuple[UnknownKind, ...] = ()
    """The unread kinds of objects on which the result depends."""


def settle(
    cluster: Cluster, seed: int = 0, sampling: SampledFrom | None = None, call_extender: CallExtender | None = None
) -> SettledCluster:
    """Schedule all pending pods that fit, and recreated victims of preemption, and return the resulting cluster."""
    simulation = enable_pod_recreation(Simulation(Scheduler(cluster, call_extender), seed=seed, sampling=sampling))
    return settle_simulation(simulation)


def settle_simulation(simulation: Simulation) -> SettledCluster:
    """Schedule all pending pods of a simulation that recreates evicted pods, and return the resulting cluster."""
    return build_settled_cluster(simulation, schedule_with_victims(simulation, find_pods_still_pending(simulation)))


def find_pending_pods_left_out(scheduler: Scheduler) -> PendingLeftOut:
    """Count the pending pods of a scheduler's cluster, and list those that would get a node if nothing else changes.

    Pods that fit only after preemption are in `preempting`, and all other pods that get a node are in `fitting`. Pods
    that get no node are in `nominated` if they have a nominated node that is not cordoned. `fitting` is None if
    extenders would have to be called, or if the user interrupts.
    """
    simulation = enable_pod_recreation(Simulation(scheduler))
    pending = find_pods_still_pending(simulation)
    if not pending or scheduler.extenders:
        return PendingLeftOut(len(pending), fitting=None)
    schedule_victims_until_stable(simulation, simulation.schedule(pending))
    if simulation.interrupted:
        return PendingLeftOut(len(pending), fitting=None)

    # The pods that get a node, at once or only after evictions
    view = simulation.view
    placed = [position for position in pending if view.node[position] >= 0]
    fitting = _select_pods_that_fit_now(scheduler, placed) if simulation.evictions else placed
    fits_now = frozenset(fitting)
    only_by_preemption = [position for position in placed if position not in fits_now]

    # The pods that get no node, but have a nominated node without a cordon
    is_node_open = dict(zip(view.nodes.names, ~view.nodes.unschedulable, strict=True))
    nominated = [
        position
        for position in pending
        if view.node[position] < 0 and is_node_open.get(view.pods.objects[position].status.nominated_node_name, False)
    ]
    return PendingLeftOut(
        len(pending),
        fitting=tuple(view.pods.objects[position].key for position in fitting),
        nominated=tuple(view.pods.objects[position].key for position in nominated),
        preempting=tuple(view.pods.objects[position].key for position in only_by_preemption),
    )


def _select_pods_that_fit_now(scheduler: Scheduler, positions: Sequence[Position]) -> list[Position]:
    """Return the pods that fit on a node of the scheduler's cluster as it is."""
    simulation = Simulation(scheduler)
    return [position for position in positions if simulation.run_cycle(position).schedulable]


@dataclass(frozen=True)
class UnexplainedSettling:
    """A settled cluster without the reasons why pods wait, which are expensive to compute."""

    simulation: Simulation
    outcomes: list[Outcome]

    @classmethod
    def settle(cls, cluster: Cluster, call_extender: CallExtender | None = None) -> UnexplainedSettling:
        """Schedule all pending pods without explaining why others still wait."""
        simulation = enable_pod_recreation(Simulation(Scheduler(cluster, call_extender)))
        outcomes = simulation.schedule(find_pods_still_pending(simulation))
        return cls(simulation, schedule_victims_until_stable(simulation, outcomes))

    @cached_property
    def waiting(self) -> frozenset[str]:
        """The pods that still wait, as ``namespace/name``."""
        pods = self.simulation.view.pods.objects
        waiting_outcomes = get_waiting_outcomes(self.simulation, self.outcomes)
        return frozenset(pods[outcome.position].key for outcome in waiting_outcomes)

    def explain(self) -> SettledCluster:
        """Return the settled cluster with the reasons why pods wait."""
        return build_settled_cluster(self.simulation, self.simulation.explain(self.outcomes))


def find_pods_still_pending(simulation: Simulation) -> list[Position]:
    """Return the positions of the pending pods that still have no node and are not gone, the oldest first."""
    pods = simulation.view.pods.objects
    without_node = find_positions(~simulation.view.mask_placed())
    pending = [position for position in without_node if position not in simulation.gone and _is_pending(pods[position])]
    return sorted(pending, key=lambda position: build_queue_entry_key(pods[position]))


def _is_pending(pod: Pod) -> bool:
    """Return whether the pod has no node and is not being deleted."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def schedule_with_victims(
    simulation: Simulation, positions: Iterable[Position], progress: Progress | None = None
) -> list[Outcome]:
    """Schedule the pods and the pods that they displace, and return all outcomes with reasons.

    ``progress`` is called with the number of new outcomes after each attempt to schedule one of ``positions``.
    """
    return explain_with_victims(simulation, simulation.schedule(positions, progress))


def explain_with_victims(simulation: Simulation, latest: list[Outcome]) -> list[Outcome]:
    """Schedule the victims of the outcomes, and return all outcomes with reasons."""
    return simulation.explain(schedule_victims_until_stable(simulation, latest))


def schedule_victims_until_stable(simulation: Simulation, latest: list[Outcome]) -> list[Outcome]:
    """Schedule the victims of the latest outcomes until no more pods are preempted, and return all outcomes.

    The messages of pods that fit nowhere are not filled in. These pods come last, each once. Victims that were
    recreated while the simulation ran have outcomes in ``latest``. Other victims, such as members of gangs, are
    recreated here. If a Job fails because of the evictions, its pods end, and pods without a node are tried again. The
    loop ends because a victim has a lower priority than its preemptor or may itself preempt only a few times.
    """
    placed_outcomes: list[Outcome] = []
    while not simulation.interrupted:
        recreated = recreate_gone_pods(simulation, list_victims(latest))
        ended = remove_pods_of_failed_jobs(simulation) if simulation.evictions else []
        if not recreated and not ended:
            break
        placed_outcomes += [outcome for outcome in latest if outcome.is_placed]
        unplaced = [outcome.position for outcome in latest if not outcome.is_placed]
        still_pending = [position for position in unplaced if position not in simulation.gone]
        latest = simulation.schedule([*still_pending, *recreated])
    return placed_outcomes + latest


def list_victims(outcomes: Iterable[Outcome]) -> list[Position]:
    """Return the pods that the outcomes preempted."""
    return [victim for outcome in outcomes for victim in outcome.victims]


def list_displaced_victims(simulation: Simulation, outcomes: Iterable[Outcome]) -> list[Position]:
    """Return the pods that the outcomes preempted, without pods that were being deleted anyway."""
    pods = simulation.view.pods.objects
    return [victim for victim in list_victims(outcomes) if pods[victim].metadata.deletion_timestamp is None]


def recreate_gone_pods(simulation: Simulation, positions: Iterable[Position]) -> list[Position]:
    """Recreate the gone pods among ``positions`` as their controllers would, and return the recreated pods.

    Recreated pods are removed from ``simulation.gone`` and wait for a node from now on.
    """
    gone = simulation.gone
    recreated = [position for position in positions if position in gone and _record_eviction(simulation, position)]
    gone.difference_update(recreated)
    return recreated


def _record_eviction(simulation: Simulation, position: Position) -> bool:
    """Count the evicted pod as failed if a Job controls it, and return whether a controller recreates the pod."""
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions

    return JobFailures.of(simulation.view.objects).record_eviction(simulation.view.pods.objects[position])


def remove_pods_of_failed_jobs(simulation: Simulation) -> list[Position]:
    """Remove the pods of Jobs that failed because of evictions, and return those that were not gone before."""
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions

    view = simulation.view
    ended_pods = []
    for pod in JobFailures.of(view.objects).list_pods_of_failed_jobs(view.cluster):
        position = view.pods.find_position(pod.key)
        if position is None or position in simulation.gone:
            continue
        if view.has_node(position):
            simulation.remove([position])
        simulation.gone.add(position)
        ended_pods.append(position)
    return ended_pods


def find_ended_pods(simulation: Simulation) -> list[Position]:
    """Return the pods that ended with Jobs that failed because of evictions, apart from the preempted ones."""
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions

    view = simulation.view
    preempted = {eviction.victim for eviction in simulation.evictions}
    pods = JobFailures.of(view.objects).list_pods_of_failed_jobs(view.cluster)
    positions = (view.pods.find_position(pod.key) for pod in pods)
    return [position for position in positions if position is not None and position not in preempted]


def build_settled_cluster(simulation: Simulation, outcomes: list[Outcome]) -> SettledCluster:
    """Build the settled cluster that results from a simulation.

    `outcomes` has the outcomes of all pods that were tried. A waiting pod's reason is its outcome's message, or the
    verdict if the message is empty.
    """
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions
    from kschedctl.replay.placements import find_violated_budgets, report_evictions  # noqa: PLC0415 - likewise

    view = simulation.view
    pods = view.pods.objects
    preempted = report_evictions(simulation)
    waiting = {}
    for outcome in get_waiting_outcomes(simulation, outcomes):
        waiting[pods[outcome.position].key] = outcome.message or outcome.verdict
    return SettledCluster(
        build_resulting_cluster(simulation),
        waiting,
        placed=sum(
            outcome.is_placed and outcome.position not in simulation.gone
            for outcome in _select_latest_outcomes(outcomes)
        ),
        evicted=tuple(map(pods.get_key, list_displaced_victims(simulation, outcomes))),
        preempted=preempted,
        violated_budgets=find_violated_budgets(simulation.scheduler.cluster, preempted),
        interrupted=simulation.interrupted,
        failed_jobs=JobFailures.of(view.objects).report_failed_jobs(view.cluster),
        unknown=find_simulation_unknowns(simulation),
    )


def get_waiting_outcomes(simulation: Simulation, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the latest outcome of each pod that found no node, is not gone, and did not end with its Job."""
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions

    waiting = [
        outcome
        for outcome in _select_latest_outcomes(outcomes)
        if not outcome.is_placed and outcome.position not in simulation.gone
    ]
    job_failures = JobFailures.of(simulation.view.objects)
    if not job_failures.failed_jobs:
        return waiting
    pods = simulation.view.pods.objects
    return [outcome for outcome in waiting if not job_failures.is_of_failed_job(pods[outcome.position])]


def _select_latest_outcomes(outcomes: Iterable[Outcome]) -> Iterable[Outcome]:
    """Return the last outcome of each pod, since a pod may be tried or displaced several times."""
    return {outcome.position: outcome for outcome in outcomes}.values()


def build_resulting_cluster(simulation: Simulation) -> Cluster:
    """Build the cluster as it is after the simulation.

    Pods that moved are on their new nodes, and pods that lost their node are pending. Gone pods are left out, as well
    as the pods of Jobs that failed because their pods were evicted.
    """
    from kschedctl.replay.controllers.job_failures import JobFailures  # noqa: PLC0415 - only after evictions

    view = simulation.view
    job_failures = JobFailures.of(view.objects)
    moved = np.flatnonzero(view.node != simulation.scheduler.view.node).tolist()
    changes: dict[tuple[str, str], Pod | None] = {}
    for position in (*moved, *simulation.gone):
        pod = view.pods.objects[position]
        row = int(view.node[position])
        key = pod.metadata.namespace, pod.metadata.name
        if position in simulation.gone:
            changes[key] = None
        else:
            node_name = view.nodes.names[row] if row >= 0 else ""
            changes[key] = build_replacement(pod, node_name, view.cluster)
    for pod in job_failures.list_pods_of_failed_jobs(view.cluster):
        changes[pod.metadata.namespace, pod.metadata.name] = None
    cluster = view.cluster
    if changed_jobs := job_failures.list_changed_jobs():
        cluster = cluster.with_objects({"Job": changed_jobs})
    return change_pods(cluster, changes)


def build_replacement(pod: Pod, node: str, cluster: Cluster) -> Pod:
    """Build the replacement that a controller creates for the pod. It runs on ``node``, or is pending if that is "".

    A pod that never had a node keeps its priority. Any other pod gets the current priority of its PriorityClass.
    """
    replacement = recreate_pod_with_current_priority(pod, cluster) if pod.spec.node_name else recreate_pod(pod, cluster)
    if not node:
        return replacement
    spec = replace(replacement.spec, node_name=node)
    status = replace(replacement.status, phase="Running")
    return replace(replacement, spec=spec, status=status)
