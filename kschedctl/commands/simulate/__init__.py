"""`simulate`: where would the pods of these manifests go?

The analysis is in this module: `prepare_simulation` applies the manifests, `run_once` schedules with one seed, and
`compare_runs` compares seeds. `stepwise` schedules named pods one after the other, and reads a rollout that really
happened, which `rollout_replay` replays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.admission.not_replayed import BUILT_IN_NAMESPACES
from kschedctl.api.arrays import Position
from kschedctl.api.json_values import JsonObject
from kschedctl.api.labels import SelectorError
from kschedctl.api.objects import Pod, StoredJob, StoredJobSpec, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import CronJob, Job, get_identity
from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_pods import explain_pods_by_node
from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.commands.simulate import report as reports
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.fixes.new_node import simulate_growth
from kschedctl.replay.controllers.admissions import Admissions, create_new_claims_and_groups
from kschedctl.replay.controllers.creation import Creation, create_workload_objects
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.controllers.manifests import classify_manifests, validate_new_manifests
from kschedctl.replay.controllers.plan_change import ExistingPods, plan_change
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.rollout import (
    Rollout,
    RolloutCreation,
    iter_rollout_fixes,
    rename_replaced_pods,
    run_rollouts,
)
from kschedctl.replay.controllers.stored_workloads import add_autoscaled_workloads, clamp_replicas_to_autoscaler
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.edits import add_or_replace_pods, change_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, build_spread, run_seeds
from kschedctl.replay.pending_pods import build_queue_entry_key
from kschedctl.replay.placements import (
    build_pod_count_fields,
    compute_headroom,
    count_by_domain,
    count_by_node,
    find_pods_waiting_at_permit,
    find_topology_keys,
    find_violated_budgets,
    group_retried_pods,
    group_unplaced_pods,
    report_evictions,
    summarize_evictions,
)
from kschedctl.replay.settling import (
    build_resulting_cluster,
    enable_pod_recreation,
    list_victims,
    recreate_gone_pods,
    schedule_victims_until_stable,
)
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import build_unknown_fields, find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.volumes import describe_exceeded_storage, describe_volumes_on_several_nodes
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.replay.waiting_elsewhere.suspended_jobs import has_queues
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.placements import EvictedPod, Spread, Variation, WorkloadVariation, select_displaced_pods
from kschedctl.reports.unknown import ClusterBasis
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, has_unadmitted, has_unchecked_objects
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import compute_constraint_skew, count_pods_per_domain
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

if TYPE_CHECKING:
    from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook
    from kschedctl.replay.waiting_elsewhere.kueue_placement import StartedPods

MAX_STUCK_WITH_FIXES = 3
"""The number of rollouts stuck at quotas whose fixes are replayed."""


@dataclass(eq=False)
class PreparedCluster(SharedCluster):
    """A cluster with the leaving and the arriving pods, and the changes to carry out."""

    changes: Sequence[WorkloadChange] = ()
    """The changes of each workload."""
    workload_by_pod: Mapping[str, str] = field(default_factory=dict)
    """The workload of each arriving pod."""
    manifest_by_pod: Mapping[str, Struct] = field(default_factory=dict)
    """The manifest of each arriving pod: of its workload, or of the pod itself."""
    pending_pods: Sequence[str] = ()
    """The pending pods of the cluster that take part."""
    left_out: Sequence[str] = ()
    """The pending pods of the cluster that take no part."""
    autoscaled: Sequence[str] = ()
    """Notes on workloads whose replicas a HorizontalPodAutoscaler changes at once."""
    assumptions: Sequence[str] = ()
    """Assumptions, and notes on the manifests."""
    kinds_in_full: Mapping[int, int] = field(default_factory=dict)
    """The number of kinds of unplaced pods to explain node by node, by seed."""
    not_created: Sequence[NotCreated] = ()
    """The workloads whose pods are denied by admission."""
    admitted_namespaces: Mapping[str, bool] = field(default_factory=dict)
    """The namespaces whose pods pass admission, and whether all of admission is replayed."""
    autoscaler: Autoscaler | None = None
    """The autoscaler that adds nodes for pods without room."""
    admissions: Admissions | None = None
    """Admission for the pods of rolled-out workloads, which are admitted when they are created."""
    rolled_workloads: Sequence[Struct] = ()
    """The workloads that are rolled out."""
    suspended_jobs: Sequence[StoredJob] = ()
    """The Jobs of the manifests that create no pods until they are resumed."""
    queued: Sequence[WaitingElsewhere] = ()
    """Kueue's decisions about the jobs that name a queue."""
    flavors: Mapping[str, str] = field(default_factory=dict)
    """The flavors in which Kueue admits jobs and Workloads, such as ``flavor spot``, by title."""

    def remove_old_pods(self) -> Cluster:
        """Return the cluster without the pods that the changes remove, as after all rollouts."""
        old_pods = (pod for change in self.changes for pod in rename_replaced_pods(change))
        return change_pods(self.cluster, {(pod.metadata.namespace, pod.metadata.name): None for pod in old_pods})


def simulate(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    *,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    rollout: bool = False,
    pending: bool = False,
    call_extender: CallExtender | None = None,
    in_full: int = 0,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
    written: Mapping[Owner, JsonObject] | None = None,
    autoscaler: Autoscaler | None = None,
) -> reports.SimulationReport:
    """Simulate applying the manifests and report where the pods would go.

    ``seed`` decides ties, and ``runs`` is the number of consecutive seeds to try, beginning with ``seed``. With
    ``sampling``, the scheduler looks at as many nodes as it really would. With ``rollout``, new versions replace old
    ones step by step, as their controllers replace them. With ``pending``, the cluster's pending pods take part.
    ``call_extender`` is as for ``explain`` and limits the run to one process. ``in_full`` is the number of kinds of
    unplaced pods that are explained node by node. ``written`` holds the documents of manifests given as structs, since
    admission reads more than scheduling does. In a single run, ``autoscaler`` adds nodes for pods without room until
    nothing changes, and pending pods take part. Without ``rollout``, the old pods are removed first, and a single run
    also says which rollouts would get stuck.

    Raises InputError if a manifest is invalid or denied, and ConfigurationError if the scheduler's configuration is
    invalid.

    >>> str(simulate(Cluster.from_objects([]), [], pending=True))
    'Nothing to schedule'
    """
    manifests = list(manifests)
    documents = dict(written or {})
    with_pending = pending or autoscaler is not None
    shared = prepare_simulation(
        cluster, manifests, rollout=rollout, pending=with_pending, sampling=sampling, documents=documents
    )
    shared.kinds_in_full = {seed: in_full}
    shared.autoscaler = autoscaler
    shared.call_extender = call_extender
    if runs == 1:
        report_done = progress.begin("Scheduling", len(shared.workload_by_pod) + len(shared.pending_pods))
        report = run_once(shared, seed, report_done)
    else:
        workers = limit_workers(workers, call_extender)
        report = _simulate_with_seeds(shared, range(seed, seed + runs), workers, progress)
    if report.left_out and report.placed and not report.interrupted:
        report = _add_prospects_of_left_out_pods(report, shared)
    if runs == 1 and report.replaces_at_once and report.good and not (autoscaler or report.interrupted):
        as_rollout = prepare_simulation(
            cluster, manifests, rollout=True, pending=pending, sampling=sampling, documents=dict(written or {})
        )
        as_rollout.call_extender = call_extender
        report = replace(report, stuck_rollouts=_list_stuck_rollouts(run_once(as_rollout, seed), report))
    return _add_objects_waiting_elsewhere(report, shared, new_only=not with_pending)


def _list_stuck_rollouts(as_rollout: reports.SimulationReport, at_once: reports.SimulationReport) -> tuple[str, ...]:
    """Return the workloads of `as_rollout` that get stuck, if `at_once` replaces their pods."""
    replaced = {workload.workload for workload in at_once.workloads if workload.removed and workload.created}
    return tuple(
        workload.workload
        for workload in as_rollout.workloads
        if workload.is_rollout_stuck and workload.workload in replaced
    )


def _add_prospects_of_left_out_pods(
    report: reports.SimulationReport, shared: PreparedCluster
) -> reports.SimulationReport:
    """Add how many left-out pods fit, and how many get a node by preemption.

    Old pods are removed first, and new pods are not placed. Return the report unchanged if extenders would have to be
    called for all left-out pods, or if the user interrupts.
    """
    if shared.call_extender is not None and shared.scheduler.extenders:
        return report
    without_preemption = _schedule_left_out_pods(shared, Simulation(shared.scheduler, preemption=False))
    with_preemption = _schedule_left_out_pods(shared, enable_pod_recreation(Simulation(shared.scheduler)))
    if without_preemption is None or with_preemption is None:
        return report
    return replace(
        report,
        left_out_fitting=len(without_preemption),
        left_out_preempting=len(with_preemption - without_preemption),
    )


def _schedule_left_out_pods(shared: PreparedCluster, simulation: Simulation) -> frozenset[Position] | None:
    """Remove the old pods, schedule the left-out pods, and return those that get a node, or None if interrupted."""
    index = simulation.view.pods.index
    old_pods = (index[pod.key] for change in shared.changes for pod in rename_replaced_pods(change))
    simulation.remove([position for position in old_pods if simulation.view.has_node(position)])
    left_out = [Position(index[key]) for key in shared.left_out]
    schedule_victims_until_stable(simulation, simulation.schedule(left_out))
    if simulation.interrupted:
        return None
    return frozenset(position for position in left_out if simulation.view.has_node(position))


def _add_objects_waiting_elsewhere(
    report: reports.SimulationReport, shared: PreparedCluster, *, new_only: bool
) -> reports.SimulationReport:
    """Add to the report the workloads that wait for other components, and Kueue's flavors for admitted workloads.

    Workloads in Kueue's queues come first. `new_only` leaves out workloads that the cluster already had. The report
    becomes undecided if the state of a workload is unknown, unless the verdict is bad whatever the state is.
    """
    queued = {entry.resource: entry for entry in shared.queued}
    waiting = list(queued.values())
    for entry in find_objects_waiting_elsewhere(shared.cluster.with_objects({"Job": shared.suspended_jobs})):
        is_left_out = new_only and entry.exists
        if entry.resource not in queued and not is_left_out:
            waiting.append(entry)
    entries = tuple(waiting)
    has_doubts = report.undecided or has_unchecked_objects(entries)
    some_pod_certainly_fails = not report.good and not report.undecided
    is_certainly_bad = some_pod_certainly_fails or has_unadmitted(entries)
    return replace(
        report,
        waiting_elsewhere=entries,
        admitted=dict(shared.flavors),
        undecided=has_doubts and not is_certainly_bad,
    )


def _simulate_with_seeds(
    shared: PreparedCluster, seeds: range, workers: Workers, progress: Progress
) -> reports.SimulationReport:
    """Run the simulation with several seeds. Return the first run's report, with the differences between the runs.

    If the user interrupts before any run has ended, the report is empty.
    """
    results = run_seeds(run_once, shared, seeds, workers, progress)
    simulations = results.completed
    if not simulations:
        return reports.SimulationReport(
            seed=seeds.start, sampling=shared.sampling is not None, placed=0, unplaced=0, interrupted=True
        )
    unknown = merge_unknown_kinds(report.unknown for report in simulations)
    return replace(
        simulations[0],
        variation=compare_runs(simulations),
        interrupted=results.interrupted,
        **build_unknown_fields(unknown),
    )


def run_once(
    shared: PreparedCluster, seed: int, on_done: Callable[[int], None] = lambda number: None
) -> reports.SimulationReport:
    """Run the simulation with one seed and report its result.

    `on_done` is called with the number of pods of each step.
    """
    requested_before = shared.scheduler.view.requested
    carried_out = carry_out_changes(shared, seed, on_done)
    simulation = carried_out.simulation
    view = simulation.view
    names = view.nodes.names

    not_created = list_denied_workloads(shared, carried_out.rollouts, seed)
    ended_pods = _find_waiting_pods_that_end(shared, simulation)
    reported_pods = _find_reported_pods(shared, simulation) - ended_pods
    outcomes = [outcome for outcome in carried_out.outcomes if outcome.position in reported_pods]
    placed = {view.pods.objects[outcome.position].key: outcome for outcome in outcomes if outcome.is_placed}
    all_pods = {view.pods.objects[outcome.position].key for outcome in outcomes}

    evicted = report_evictions(simulation)
    waiting_pods = _find_waiting_pods(shared)
    unplaced = group_unplaced_pods(simulation, outcomes, shared.workload_by_pod, with_queues=True)
    report = reports.SimulationReport(
        seed=seed,
        sampling=shared.sampling is not None,
        placed=len(placed),
        unplaced=len(outcomes) - len(placed),
        workloads=tuple(_build_workload_placement(rollout, simulation) for rollout in carried_out.rollouts),
        pending=tuple(sorted(unplaced, key=lambda group: waiting_pods.issuperset(group.pods))),
        retried=group_retried_pods(simulation, outcomes, shared.workload_by_pod),
        explained=_explain_unplaced_pods(shared, seed, simulation, outcomes),
        evicted=evicted,
        headroom=compute_headroom(view, requested_before),
        **build_pod_count_fields(view, requested_before, view.requested),
        placements={key: names[outcome.row] for key, outcome in placed.items()},
        tied={key: outcome.tied for key, outcome in placed.items() if outcome.tied > 1},
        waiting=find_pods_waiting_at_permit(simulation, placed.values()),
        assumed=tuple(shared.assumptions),
        search_start=describe_search_start(shared.sampling, len(names), seed),
        **_build_report_basis(shared, simulation, not_created),
        interrupted=simulation.interrupted,
        not_created=tuple(not_created),
        chain=summarize_evictions(simulation, evicted),
        exceeded_storage=describe_exceeded_storage(view, [outcome.position for outcome in placed.values()]),
        volumes_on_several_nodes=describe_volumes_on_several_nodes(
            view, [outcome.position for outcome in placed.values()]
        ),
        violated_budgets=find_violated_budgets(shared.cluster, evicted),
        outages=() if simulation.interrupted else tuple(_iter_workload_outages(simulation, evicted)),
        failed_jobs=JobFailures.of(view.objects).report_failed_jobs(view.cluster),
        left_out=len(shared.left_out),
        waiting_placed=len(waiting_pods & placed.keys()),
        still_waiting=tuple(sorted(waiting_pods & (all_pods - placed.keys()))),
        waiting_ended=tuple(sorted(map(view.pods.objects.get_key, ended_pods))),
        autoscaled=tuple(shared.autoscaled),
        evicted_for_waiting=_list_pods_evicted_for_waiting_pods(evicted, waiting_pods) if shared.changes else (),
    )
    return _add_simulated_growth(report, shared, simulation)


def _list_pods_evicted_for_waiting_pods(evicted: Iterable[EvictedPod], waiting_pods: frozenset[str]) -> tuple[str, ...]:
    """Return the pods that are evicted only for pods that were already waiting, directly or through further evictions.

    `evicted` has the evictions in their order.
    """
    is_only_for_waiting: dict[str, bool] = {}
    for eviction in select_displaced_pods(evicted):
        is_for_waiting = eviction.by in waiting_pods or is_only_for_waiting.get(eviction.by, False)
        # A pod may be evicted several times. One eviction for another pod is enough to leave it out.
        are_earlier_for_waiting = is_only_for_waiting.get(eviction.pod, True)
        is_only_for_waiting[eviction.pod] = is_for_waiting and are_earlier_for_waiting
    return tuple(pod for pod, only_for_waiting in is_only_for_waiting.items() if only_for_waiting)


def _iter_workload_outages(simulation: Simulation, evicted: Iterable[EvictedPod]) -> Iterator[str]:
    """Yield the workloads that lost pods and have no pod with a node at the end of the simulation, in order of name.

    Pods that were already being deleted do not count as lost. Pods without a workload are left out.
    """
    displaced_pods = select_displaced_pods(evicted)
    affected = {eviction.workload for eviction in displaced_pods if Owner.parse(eviction.workload).kind != "Pod"}
    if not affected:
        return
    view = simulation.view
    rows = view.node
    running = {str(find_owner(view.pods.objects[position])) for position in np.flatnonzero(rows >= 0).tolist()}
    yield from sorted(affected - running)


def _find_reported_pods(shared: PreparedCluster, simulation: Simulation) -> frozenset[Position]:
    """Return the pods to report on: new and kept pods of the workloads, and pending pods that take part."""
    index = simulation.view.pods.index
    kept_pods = (pod.key for change in shared.changes for pod in change.kept)
    return frozenset(index[key] for key in (*shared.workload_by_pod, *shared.pending_pods, *kept_pods))


def _find_waiting_pods(shared: PreparedCluster) -> frozenset[str]:
    """Return the keys of the pending pods that take part but belong to no workload of the manifests."""
    kept_keys = {pod.key for change in shared.changes for pod in change.kept}
    return frozenset(shared.pending_pods) - shared.workload_by_pod.keys() - kept_keys


def _find_waiting_pods_that_end(shared: PreparedCluster, simulation: Simulation) -> frozenset[Position]:
    """Return the pods that were already waiting and end because evictions made their Job fail."""
    view = simulation.view
    ended_pods = JobFailures.of(view.objects).list_pods_of_failed_jobs(view.cluster)
    waiting_pods = _find_waiting_pods(shared) if ended_pods else frozenset()
    return frozenset(view.pods.index[pod.key] for pod in ended_pods if pod.key in waiting_pods)


def _add_simulated_growth(
    report: reports.SimulationReport, shared: PreparedCluster, simulation: Simulation
) -> reports.SimulationReport:
    """Add to the report the nodes that the autoscaler would create for the pods without a node.

    The report becomes undecided if the simulated growth is in doubt. Return the report unchanged if there is no
    autoscaler, if all pods have a node, or if the user interrupted the simulation.
    """
    if shared.autoscaler is None or not report.unplaced or simulation.interrupted:
        return report
    growth = simulate_growth(build_resulting_cluster(simulation), shared.autoscaler, shared.call_extender)
    evicted_for_waiting = report.evicted_for_waiting
    if shared.changes and growth.preempted:
        evicted_for_waiting = _list_pods_evicted_for_waiting_pods(
            (*report.evicted, *growth.preempted), _find_waiting_pods(shared)
        )
    return replace(
        report,
        growth=growth,
        evicted_for_waiting=evicted_for_waiting,
        undecided=report.undecided or bool(growth.doubts),
    )


def _build_report_basis(
    shared: PreparedCluster, simulation: Simulation, not_created: Sequence[NotCreated]
) -> ClusterBasis:
    """Return the report fields about what the report depends on and what was not read.

    If pods are denied and no mutating webhook could change them, the report is decided even if kinds were not read.
    """
    basis = build_cluster_basis(
        find_simulation_unknowns(simulation),
        shared.scheduler,
        created_pods=(*shared.workload_by_pod, *(denied.workload_key for denied in shared.not_created)),
        replayed=shared.admitted_namespaces,
    )
    if not_created and not has_mutating_hooks(shared.cluster):
        basis["undecided"] = False
    return basis


def _explain_unplaced_pods(
    shared: PreparedCluster, seed: int, simulation: Simulation, outcomes: Iterable[Outcome]
) -> tuple[ExplainedPods, ...]:
    """Explain pods without a node in the cluster at the end of the simulation.

    `shared.kinds_in_full` says for each seed how many kinds of pods are explained. After an interruption, no pods are
    explained.
    """
    kinds = 0 if simulation.interrupted else shared.kinds_in_full.get(seed, 0)
    if not kinds:
        return ()
    unplaced = (simulation.view.pods.objects[outcome.position].key for outcome in outcomes if not outcome.is_placed)
    return explain_pods_by_node(Scheduler(build_resulting_cluster(simulation), shared.call_extender), unplaced, kinds)


class CarriedOutChanges(NamedTuple):
    """The result of carrying out all changes."""

    simulation: Simulation
    """The simulation at its end."""
    rollouts: list[Rollout]
    """The rollout of each workload."""
    outcomes: list[Outcome]
    """The outcomes of all pods, also of evicted pods of other workloads, which their controllers recreate."""


def carry_out_changes(
    shared: PreparedCluster, seed: int, on_done: Callable[[int], None] = lambda number: None
) -> CarriedOutChanges:
    """Carry out the changes of all workloads in a new simulation, until controllers and pods have nothing left to do.

    Controllers recreate evicted pods, except old pods that a rollout is about to remove. Evicted members of gangs are
    recreated last. `on_done` is called with the number of scheduled pods after each step.
    """
    simulation = Simulation(shared.scheduler, seed=seed, sampling=shared.sampling)
    position_by_key = simulation.view.pods.index
    rollouts = [
        Rollout(change, simulation, lambda pod: position_by_key[pod.key], creation)
        for change, creation in zip(shared.changes, _build_rollout_creations(shared), strict=True)
    ]

    # From here on, controllers recreate evicted pods, except old pods that a rollout removes anyway
    scaled_down = frozenset(old_pod for rollout in rollouts for old_pod in rollout.old)
    enable_pod_recreation(simulation, scaled_down)
    outcomes = run_rollouts(rollouts, simulation, [position_by_key[key] for key in shared.pending_pods], on_done)
    if not simulation.interrupted:  # members of gangs come back once nothing else moves
        victims = [victim for victim in list_victims(outcomes) if victim not in scaled_down]
        outcomes += simulation.schedule(recreate_gone_pods(simulation, victims))
    return CarriedOutChanges(simulation, rollouts, outcomes)


def _build_rollout_creations(shared: PreparedCluster) -> list[RolloutCreation | None]:
    """Return, for each change, the object that admits the rollout's pods when they are created.

    If the pods were created and admitted before the simulation begins, return None for each change.
    """
    if shared.admissions is None:
        return [None] * len(shared.changes)
    admissions = shared.admissions.copy()
    return [
        RolloutCreation(admissions, get_identity(workload), workload, change)
        for workload, change in zip(shared.rolled_workloads, shared.changes, strict=True)
    ]


def list_denied_workloads(shared: PreparedCluster, rollouts: Sequence[Rollout], seed: int) -> list[NotCreated]:
    """Return the workloads whose pods are denied, either when they are created or during a rollout.

    Fixes are added only to the first MAX_STUCK_WITH_FIXES stuck rollouts.
    """
    not_created = list(shared.not_created)
    stuck_count = 0
    for index, rollout in enumerate(rollouts):
        denied = rollout.denied
        if not denied:
            continue
        stuck_count += 1
        if stuck_count <= MAX_STUCK_WITH_FIXES:
            denied = replace(denied, fixes=_find_rollout_fixes(shared, rollouts, index, seed))
        not_created.append(denied)
    return not_created


def _find_rollout_fixes(
    shared: PreparedCluster, rollouts: Sequence[Rollout], index: int, seed: int
) -> tuple[CreationFix, ...]:
    """Find fixes that let the stuck rollout at `index` continue, by replaying all rollouts with each fix.

    If admission is not replayed, no fix can be verified and none is returned.
    """
    if shared.admissions is None:
        return ()

    def replay_rollouts(changes: Sequence[WorkloadChange], admissions: Admissions) -> Sequence[Rollout]:
        """Replay all rollouts with the changes and quotas of a fix, and return their outcomes."""
        prepared = dataclasses.replace(shared, changes=changes, admissions=admissions)
        return carry_out_changes(prepared, seed).rollouts

    return tuple(iter_rollout_fixes(index, rollouts, shared.admissions, replay=replay_rollouts))


def _build_workload_placement(rollout: Rollout, simulation: Simulation) -> reports.WorkloadPlacement:
    """Build the report about a workload at the end of the simulation: its counts of pods, its nodes and domains.

    Old pods that are not removed yet count as well. If a new pod takes the name of an old one, the old pod has a suffix
    in the simulation.
    """
    view = simulation.view
    change = rollout.change
    index = view.pods.index
    pods = [index[pod.key] for pod in (*change.kept, *rename_replaced_pods(change), *change.new)]
    all_rows = view.node[pods]
    rows = all_rows[all_rows >= 0]  # without pods that have no node
    template = next(iter((*change.new, *change.kept)), None)
    # An unfinished rollout has pods that are still to be created or removed
    created_so_far = len(change.new) - len(rollout.coming)
    removed_so_far = len(change.removed) - len(rollout.old)
    return reports.WorkloadPlacement(
        workload=change.workload,
        desired=change.desired,
        created=created_so_far,
        running=len(rows),
        pending=len(rollout.waiting),
        removed=removed_so_far,
        nodes=count_by_node(view, rows),
        domains=count_by_domain(view, rows, find_topology_keys(view, template)),
        rollout=rollout.status,
        surge=change.surge if rollout.status else 0,
        unavailable=change.unavailable if rollout.status else 0,
        may_be_unchanged=change.may_be_unchanged,
        uneven_spreads=tuple(_iter_uneven_spreads(rollout, simulation)) if rollout.status else (),
    )


def _iter_uneven_spreads(rollout: Rollout, simulation: Simulation) -> Iterator[reports.UnevenSpread]:
    """Yield the DoNotSchedule spread constraints of a rollout's new pods that the pods exceed in the end.

    Nothing is yielded while old pods are left, or if no profile with PodTopologySpread schedules the pods.
    """
    view = simulation.view
    new_pods = rollout.change.new
    if rollout.old or not new_pods:
        return
    position = Position(view.pods.index[new_pods[0].key])
    framework = simulation.find_framework(position)
    plugin = framework.plugins.get(PodTopologySpread.name) if framework else None
    if not isinstance(plugin, PodTopologySpread):
        return
    info = view.pods.get_info(position)
    try:
        constraints = plugin.settings.get_constraints(info, view, HARD)
    except SelectorError:
        return  # the pods cannot be scheduled at all
    keys_with_revisions = {
        written.topology_key for written in info.spec.topology_spread_constraints if written.match_label_keys
    }
    is_deployment = Owner.parse(rollout.change.workload).kind == "Deployment"
    for constraint in constraints:
        counts = count_pods_per_domain(constraint, constraints, plugin.settings, info, view)
        skew = compute_constraint_skew(counts.counts[counts.exists], constraint)
        if skew > constraint.max_skew:
            domains = np.flatnonzero(counts.exists).tolist()
            yield reports.UnevenSpread(
                key=constraint.topology_key,
                pods={counts.column.values[domain]: int(counts.counts[domain]) for domain in domains},
                skew=skew,
                max_skew=constraint.max_skew,
                counts_old_pods=is_deployment and constraint.topology_key not in keys_with_revisions,
            )


def prepare_simulation(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    *,
    rollout: bool = False,
    pending: bool = False,
    sampling: SampledFrom | None = None,
    documents: Mapping[Owner, JsonObject] | None = None,
) -> PreparedCluster:
    """Apply the manifests to the cluster and plan the changes of their workloads.

    `documents` has the documents of manifests that are given as structs. If it is not None, admission is replayed and
    pods that it denies are left out. `rollout`, `pending` and `sampling` are as for `simulate`.
    """
    # Create the objects of the manifests that are no workloads
    replays_admission = documents is not None
    classified_manifests = classify_manifests(manifests)
    cluster = cluster.with_objects(classified_manifests.objects)
    add_autoscaled_workloads(classified_manifests, cluster)
    validate_new_manifests(classified_manifests, cluster, admission=not replays_admission, validated=documents or {})
    denied_objects: Mapping[Owner, NotCreated] = {}
    if replays_admission:
        cluster, denied_objects = create_new_claims_and_groups(cluster)

    # Let Kueue admit or suspend the workloads, and create their objects and pods
    existing = ExistingPods(cluster)
    current_workloads = map(existing.with_current_replicas, classified_manifests.workloads.values())
    autoscaled = [clamp_replicas_to_autoscaler(cluster, workload) for workload in current_workloads]
    workloads = [entry.workload for entry in autoscaled]
    queued = _admit_workloads_through_queues(cluster, workloads, include_waiting=pending)
    cluster, workloads = queued.cluster, queued.workloads
    creation = create_workload_objects(cluster, workloads, include_denied=replays_admission)

    # Plan the change of each workload, and leave out pods that admission denies
    created_pods = zip(workloads, creation.pods.items(), strict=True)
    changes = [plan_change(existing, workload, title, pods, forced=rollout) for workload, (title, pods) in created_pods]
    admissions = Admissions(cluster, {**(documents or {}), **classified_manifests.documents})
    admitted_workloads = workloads if replays_admission else ()
    denied = admissions.admit_pods_of_workloads(workloads, changes) if admitted_workloads and not rollout else []

    # Replace the old pods by the new ones
    cluster_pods_waiting = [pod for pod in cluster.unbound_pods() if not _is_terminated_or_terminating(pod)]
    cluster = _update_quotas(cluster, admissions, creation, changes)
    removed = {(pod.metadata.namespace, pod.metadata.name): None for change in changes for pod in change.removed}
    arriving = [pod for change in changes for pod in (*rename_replaced_pods(change), *change.new)]
    cluster = add_or_replace_pods(change_pods(creation.apply_to(cluster), removed), arriving)
    workload_by_pod = {pod.key: change.workload for change in changes for pod in change.new}
    started_by_pod = {pod.key: started.owner for started in queued.started for pod in started.pods}
    kept_keys = {pod.key for change in changes for pod in change.kept}
    arriving_keys = workload_by_pod.keys() | started_by_pod.keys()
    waiting_keys = [
        pod.key
        for pod in sorted(cluster_pods_waiting, key=build_queue_entry_key)
        if (pod.metadata.namespace, pod.metadata.name) not in removed and pod.key not in arriving_keys
    ]
    return PreparedCluster(
        cluster,
        sampling,
        changes=changes,
        workload_by_pod=workload_by_pod | started_by_pod,
        manifest_by_pod={
            pod.key: workload for workload, change in zip(workloads, changes, strict=True) for pod in change.new
        },
        pending_pods=[*started_by_pod, *(waiting_keys if pending else ())],
        left_out=() if pending else [key for key in waiting_keys if key not in kept_keys],
        autoscaled=[entry.note for entry in autoscaled if entry.note],
        assumptions=[
            *_iter_assumptions(cluster, creation),
            *map(str, admissions.notes),
            *_iter_change_notes(changes),
            *classified_manifests.notes,
        ],
        not_created=[*denied_objects.values(), *denied],
        admitted_namespaces=admissions.map_full_replay_by_namespace(admitted_workloads),
        admissions=admissions if admitted_workloads and rollout else None,
        rolled_workloads=admitted_workloads,
        suspended_jobs=list(_iter_suspended_jobs(workloads, queued.outlooks)),
        queued=queued.entries,
        flavors=queued.flavors,
    )


def _iter_suspended_jobs(workloads: Iterable[Struct], outlooks: Mapping[Owner, JobOutlook]) -> Iterator[StoredJob]:
    """Yield the suspended Jobs among the workloads, except Jobs that wait in one of Kueue's queues."""
    for job in workloads:
        if isinstance(job, Job) and job.spec.suspend and get_identity(job) not in outlooks:
            spec = StoredJobSpec(job.spec.parallelism, job.spec.completions, suspend=True)
            yield StoredJob(job.metadata, spec)


class _QueuedWorkloads(NamedTuple):
    """The workloads of the manifests, after Kueue has admitted or suspended those that name a queue."""

    cluster: Cluster
    """Without the pods that Kueue preempts, and with those that it starts."""
    workloads: list[Struct]
    outlooks: Mapping[Owner, JobOutlook] = MappingProxyType({})
    """Kueue's predicted decisions about the jobs without a Workload."""
    entries: tuple[WaitingElsewhere, ...] = ()
    """The reports on these jobs, and on the Workloads that wait already."""
    flavors: Mapping[str, str] = MappingProxyType({})
    """The flavors of each admitted job or Workload, by title."""
    started: tuple[StartedPods, ...] = ()
    """The pods that Kueue starts, other than those of the workloads."""


def _admit_workloads_through_queues(
    cluster: Cluster, workloads: list[Struct], *, include_waiting: bool
) -> _QueuedWorkloads:
    """Let Kueue admit or suspend the new workloads that name a queue.

    In the resulting cluster, the pods that Kueue evicts are gone and the pods that it starts are there. CronJobs are
    skipped, because they create no pods yet. Existing objects are skipped, because Kueue has already created their
    Workloads. With `include_waiting`, Kueue also starts the Workloads that are already waiting. Without queues in the
    cluster, nothing changes.
    """
    if not has_queues(cluster):
        return _QueuedWorkloads(cluster, workloads)
    from kschedctl.replay.waiting_elsewhere import kueue_jobs  # noqa: PLC0415 - few clusters

    new_workloads = [
        workload
        for workload in workloads
        if not workload.metadata.uid and not isinstance(workload, CronJob)  # type: ignore[attr-defined]
    ]
    forecast = kueue_jobs.forecast_queues(cluster, new_workloads, include_waiting=include_waiting)

    # Apply Kueue's decisions to the workloads: it unsuspends a job or leaves it suspended
    outlooks = {outlook.owner: outlook for outlook in forecast.jobs}
    queued_workloads = []
    for workload in workloads:
        outlook = outlooks.get(get_identity(workload))
        queued_workloads.append(workload if outlook is None else kueue_jobs.apply_outlook(outlook, cluster))

    without_victims = change_pods(cluster, dict.fromkeys(forecast.victims))
    started_pods = [pod for started in forecast.started for pod in started.pods]
    return _QueuedWorkloads(
        add_or_replace_pods(without_victims, started_pods),
        queued_workloads,
        outlooks=outlooks,
        entries=(*(outlook.report for outlook in forecast.jobs), *forecast.workloads),
        flavors=forecast.flavors,
        started=forecast.started,
    )


def _update_quotas(
    cluster: Cluster, admissions: Admissions, creation: Creation, changes: Iterable[WorkloadChange]
) -> Cluster:
    """Return the cluster with quotas that include the arriving pods and the claims created from their templates."""
    new_pods = {change.workload: change.new for change in changes}
    return create_allowed_claims(admissions.with_current_quotas(cluster), creation, new_pods)


def _iter_change_notes(changes: Iterable[WorkloadChange]) -> Iterator[str]:
    """Yield the note on each change that has one."""
    for change in changes:
        if change.note:
            yield change.note


def _iter_assumptions(cluster: Cluster, creation: Creation) -> Iterator[str]:
    """Yield a note on each namespace that has to be created, then the assumptions and notes of the creation.

    If the cluster's namespaces were not read, there are no notes on namespaces.
    """
    existing_namespaces = {namespace.metadata.name for namespace in cluster.namespaces}
    if existing_namespaces:
        # All pods of a workload are in one namespace, so the first one says which
        used_namespaces = dict.fromkeys(pod.metadata.namespace for pods in creation.pods.values() for pod in pods[:1])
        for name in used_namespaces:
            if name not in (*existing_namespaces, *BUILT_IN_NAMESPACES):
                yield f"namespace {name} is created, without labels"
    yield from creation.assumptions
    yield from map(str, creation.notes)


def _is_terminated_or_terminating(pod: Pod) -> bool:
    """Return whether the pod has terminated or is being deleted."""
    return pod.terminated or pod.metadata.deletion_timestamp is not None


# -- differences between seeds -----------------------------------------------------------------------------------------


def compare_runs(runs: Sequence[SimulationReport]) -> Variation:
    """Compare runs by their numbers of placed, pending and evicted pods, and by the placement of each workload.

    Each number is given as the range over all runs.
    """
    return Variation(
        runs=len(runs),
        outcomes=len({_build_outcome_key(run) for run in runs}),
        placed=build_spread(run.placed for run in runs),
        pending=build_spread(run.unplaced for run in runs),
        new_pending=build_spread(len(run.new_pending_pods) for run in runs),
        evicted=build_spread(run.new_evicted_pods for run in runs),
        workloads=tuple(_compare_workload(runs, i) for i in range(len(runs[0].workloads))),
    )


def _build_outcome_key(run: SimulationReport) -> object:
    """Return a key that is equal for runs with the same outcome.

    The outcome consists of the number of pods of each workload in each domain, and the evicted pods.
    """
    placed = tuple((workload.running, repr(workload.domains)) for workload in run.workloads)
    return placed, frozenset(evicted.pod for evicted in run.evicted)


def _compare_workload(runs: Sequence[SimulationReport], index: int) -> WorkloadVariation:
    """Compare the placements of the workload at `index` in all runs: its running pods, and its pods per domain."""
    placements = [run.workloads[index] for run in runs]
    domains: dict[str, dict[str, Spread]] = {}
    for topology_key in placements[0].domains:
        counts_of_runs = [placement.domains[topology_key] for placement in placements]
        values = sorted({value for counts in counts_of_runs for value in counts})
        domains[topology_key] = {
            value: build_spread(counts.get(value, 0) for counts in counts_of_runs) for value in values
        }
    running = build_spread(placement.running for placement in placements)
    return WorkloadVariation(placements[0].workload, running, domains)
