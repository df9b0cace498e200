"""`simulate`: where would the pods of these manifests go?

The analysis is in this module: `prepare` applies the manifests, `run_scene` schedules with one seed. `variation`
compares seeds. `follow_rollout` replays a rollout that really happened (`rollout_replay`), and `stepwise` schedules
named pods one after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kschedctl.admission.not_replayed import BUILT_IN_NAMESPACES
from kschedctl.api.arrays import Position
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, StoredJob, StoredJobSpec, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import Job, get_identity
from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_pods import explain_some_in_full
from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.commands.simulate import report as reports
from kschedctl.commands.simulate.variation import compare_runs
from kschedctl.fixes.new_node import simulate_growth
from kschedctl.replay.controllers.admissions import Admissions, create_new_objects
from kschedctl.replay.controllers.creation import Creation, create
from kschedctl.replay.controllers.manifests import sort_manifests, validate_new_manifests
from kschedctl.replay.controllers.plan_change import ExistingPods, plan_change
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.rollout import (
    Rollout,
    RolloutCreation,
    find_rollout_fixes,
    rename_replaced_pods,
    roll_out,
)
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.edits import add_pods, change_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, run_seeds
from kschedctl.replay.placements import (
    compute_headroom,
    count_by_domain,
    count_by_node,
    count_pods_by_place,
    find_topology_keys,
    find_waiting_at_permit,
    group_retried,
    group_unplaced,
    report_evictions,
    summarize_evictions,
)
from kschedctl.replay.settling import build_resulting_cluster, list_victims, recreate_evicted, recreate_gone
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds, unknown_fields
from kschedctl.replay.waiting_elsewhere import find_waiting_elsewhere
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.unknown import ClusterBasis
from kschedctl.reports.waiting_elsewhere import has_unadmitted, has_unchecked
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

MAX_STUCK_WITH_FIXES = 3
"""The number of rollouts stuck at quotas whose fixes are replayed."""


@dataclass(eq=False)
class Deployed(SharedCluster):
    """A cluster with both the pods that leave and those that arrive, and what to do with them."""

    changes: Sequence[WorkloadChange] = ()
    """The changes of each workload."""
    workloads: Mapping[str, str] = field(default_factory=dict)
    """The workload of each arriving pod."""
    others: Sequence[str] = ()
    """Pending pods of the cluster that take part."""
    assumed: Sequence[str] = ()
    in_full: Mapping[int, int] = field(default_factory=dict)
    """For a seed, how many kinds of pods without a node are explained node by node."""
    not_created: Sequence[NotCreated] = ()
    """Workloads whose pods are denied by admission."""
    counted: Mapping[str, bool] = field(default_factory=dict)
    """The namespaces whose pods pass admission, and whether all of admission is replayed."""
    autoscaler: Autoscaler | None = None
    """Adds nodes for pods that find no room."""
    admissions: Admissions | None = None
    """Admission for the pods of rolled-out workloads as they are created."""
    rolled: Sequence[Struct] = ()
    """The workloads that are rolled out."""
    suspended: Sequence[StoredJob] = ()
    """Jobs of the manifests that create no pods until they are resumed."""


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
    """Simulate what applying the manifests would do.

    ``seed`` decides ties, and ``runs`` tries as many seeds from there on. With ``sampling`` the scheduler looks at as
    many nodes as it really would. With ``rollout`` new versions replace old ones as their controllers do it. With
    ``pending`` the cluster's pending pods take part. ``call_extender`` is as for ``explain`` and limits the run to one
    process. ``in_full`` is the number of kinds of unplaced pods that are explained node by node. ``written`` holds the
    documents of manifests given as structs, since admission reads more than scheduling does. In a single run
    ``autoscaler`` adds nodes for pods without room until nothing changes, and pending pods take part.

    Raises InputError and ConfigurationError.

    >>> str(simulate(Cluster.from_objects([]), [], pending=True))
    'Nothing to schedule'
    """
    counting = dict(written or {})
    waiting = pending or autoscaler is not None
    shared = prepare(cluster, manifests, rollout=rollout, pending=waiting, sampling=sampling, counting=counting)
    shared.in_full, shared.autoscaler = {seed: in_full}, autoscaler
    shared.call_extender, workers = call_extender, limit_workers(workers, call_extender)
    if runs == 1:
        begun = progress.begin("Scheduling", len(shared.workloads) + len(shared.others))
        report = run_scene(shared, seed, begun)
    else:
        report = _run_several(shared, range(seed, seed + runs), workers, progress)
    return _add_waiting_elsewhere(report, shared, new_only=not waiting)


def _add_waiting_elsewhere(
    report: reports.SimulationReport, shared: Deployed, *, new_only: bool
) -> reports.SimulationReport:
    """Return the report with workloads that wait for other components. ``new_only`` limits it to the manifests."""
    elsewhere = find_waiting_elsewhere(shared.cluster.with_objects({"Job": shared.suspended}))
    waiting = tuple(entry for entry in elsewhere if not (new_only and entry.exists))
    certain = not report.good and not report.undecided
    return replace(
        report,
        waiting_elsewhere=waiting,
        undecided=not (certain or has_unadmitted(waiting)) and (report.undecided or has_unchecked(waiting)),
    )


def _run_several(shared: Deployed, seeds: range, workers: Workers, progress: Progress) -> reports.SimulationReport:
    """Return the report of the first run, with how other runs vary."""
    results = run_seeds(run_scene, shared, seeds, workers, progress)
    simulations = results.completed
    if not simulations:
        sampled = shared.sampling is not None
        return reports.SimulationReport(seeds.start, sampled, placed=0, unplaced=0, interrupted=True)
    unknown = merge_unknown_kinds(report.unknown for report in simulations)
    return replace(
        simulations[0], variation=compare_runs(simulations), interrupted=results.interrupted, **unknown_fields(unknown)
    )


def run_scene(
    shared: Deployed, seed: int, done: Callable[[int], None] = lambda number: None
) -> reports.SimulationReport:
    """Run the simulation once."""
    before = shared.scheduler.view.requested
    simulation, rollouts, of_all_pods = deploy(shared, seed, done)
    view, not_created = simulation.view, find_not_created(shared, rollouts, seed)
    own = _own_pods(shared, simulation)
    outcomes = [outcome for outcome in of_all_pods if outcome.position in own]
    evicted = report_evictions(simulation)
    keys = [view.pods.objects[outcome.position].key for outcome in outcomes]
    names = view.nodes.names
    placed = {key: outcome for key, outcome in zip(keys, outcomes, strict=True) if outcome.row >= 0}
    pending = group_unplaced(simulation, outcomes, shared.workloads, with_queues=True)
    retried = group_retried(simulation, outcomes, shared.workloads)
    explained = _explain_unplaced(shared, seed, simulation, outcomes)
    report = reports.SimulationReport(
        seed=seed,
        sampling=shared.sampling is not None,
        placed=len(placed),
        unplaced=len(outcomes) - len(placed),
        workloads=tuple(_build_placement(rollout, simulation) for rollout in rollouts),
        pending=pending,
        retried=retried,
        explained=explained,
        evicted=evicted,
        headroom=compute_headroom(view, before),
        **count_pods_by_place(view, before, view.requested),
        placements={key: names[outcome.row] for key, outcome in placed.items()},
        tied={key: outcome.tied for key, outcome in placed.items() if outcome.tied > 1},
        waiting=find_waiting_at_permit(simulation, placed.values()),
        assumed=tuple(shared.assumed),
        search_start=describe_search_start(shared.sampling, len(names), seed),
        **_build_basis(shared, simulation, not_created),
        interrupted=simulation.interrupted,
        not_created=tuple(not_created),
        chain=summarize_evictions(simulation, evicted),
    )
    return _add_new_nodes(report, shared, simulation)


def _own_pods(shared: Deployed, simulation: Simulation) -> frozenset[Position]:
    """Return the pods that the answer is about: those of the manifests, and pending pods that take part."""
    index = simulation.view.pods.index
    kept = (pod.key for change in shared.changes for pod in change.kept)
    return frozenset(index[key] for key in (*shared.workloads, *shared.others, *kept))


def _add_new_nodes(
    report: reports.SimulationReport, shared: Deployed, simulation: Simulation
) -> reports.SimulationReport:
    """Return the report with the nodes that an autoscaler adds for pods without room."""
    if shared.autoscaler is None or not report.unplaced or simulation.interrupted:
        return report
    growth = simulate_growth(build_resulting_cluster(simulation), shared.autoscaler, shared.call_extender)
    return replace(report, growth=growth, undecided=report.undecided or bool(growth.doubts))


def _build_basis(shared: Deployed, simulation: Simulation, not_created: Sequence[NotCreated]) -> ClusterBasis:
    """Return what the report depends on. That a pod is not created does not depend on unread kinds."""
    created, counted = _iter_to_create(shared), shared.counted
    basis = build_cluster_basis(
        find_simulation_unknowns(simulation), shared.scheduler, created_pods=created, replayed=counted
    )
    if not_created and not has_mutating_hooks(shared.cluster):
        basis["undecided"] = False
    return basis


def _iter_to_create(shared: Deployed) -> Iterator[str]:
    """Yield the arriving pods, and one pod of each workload that gets none."""
    yield from shared.workloads
    yield from (refused.workload.partition(" ")[2] for refused in shared.not_created)


def _explain_unplaced(
    shared: Deployed, seed: int, simulation: Simulation, outcomes: Iterable[Outcome]
) -> tuple[ExplainedPods, ...]:
    """Explain pods without a node once nothing moves any more."""
    kinds = 0 if simulation.interrupted else shared.in_full.get(seed, 0)
    if not kinds:
        return ()
    waiting = (simulation.view.pods.objects[outcome.position].key for outcome in outcomes if outcome.row < 0)
    return explain_some_in_full(Scheduler(build_resulting_cluster(simulation), shared.call_extender), waiting, kinds)


def deploy(
    shared: Deployed, seed: int, done: Callable[[int], None] = lambda number: None
) -> tuple[Simulation, list[Rollout], list[Outcome]]:
    """Carry out the changes until nothing moves. Return the simulation, how each workload fared, and all outcomes.

    The outcomes include those of evicted pods of other workloads, which their controllers recreate.
    """
    simulation = Simulation(shared.scheduler, seed=seed, sampling=shared.sampling)
    position = simulation.view.pods.index
    rollouts = [
        Rollout(change, simulation, lambda pod: position[pod.key], creation)
        for change, creation in zip(shared.changes, _build_creations(shared), strict=True)
    ]
    scaled_down = frozenset(old for rollout in rollouts for old in rollout.old)
    recreate_evicted(simulation, scaled_down)
    outcomes = roll_out(rollouts, simulation, [position[key] for key in shared.others], done)
    if not simulation.interrupted:  # members of gangs come back once nothing else moves
        evicted = recreate_gone(simulation, [victim for victim in list_victims(outcomes) if victim not in scaled_down])
        outcomes += simulation.schedule(evicted)
    return simulation, rollouts, outcomes


def _build_creations(shared: Deployed) -> list[RolloutCreation | None]:
    """Return the admission of each rollout's pods, or None where all pods are created at the beginning."""
    if shared.admissions is None:
        return [None] * len(shared.changes)
    admissions, rolled = shared.admissions.copy(), zip(shared.rolled, shared.changes, strict=True)
    return [RolloutCreation(admissions, get_identity(workload), workload, change) for workload, change in rolled]


def find_not_created(shared: Deployed, rollouts: Sequence[Rollout], seed: int) -> list[NotCreated]:
    """Return the workloads whose pods are denied at the beginning or during the rollout."""
    found = [(at, refused) for at, rollout in enumerate(rollouts) if (refused := rollout.denied)]
    return [
        *shared.not_created,
        *(
            replace(refused, fixes=_find_fixes(shared, rollouts, at, seed))
            for at, refused in found[:MAX_STUCK_WITH_FIXES]
        ),
        *(refused for _, refused in found[MAX_STUCK_WITH_FIXES:]),
    ]


def _find_fixes(shared: Deployed, rollouts: Sequence[Rollout], at: int, seed: int) -> tuple[CreationFix, ...]:
    """Find fixes that let one of the rollouts continue."""
    if shared.admissions is None:
        return ()

    def redeploy(changes: Sequence[WorkloadChange], admissions: Admissions) -> Sequence[Rollout]:
        other = dataclasses.replace(shared, changes=changes, admissions=admissions)
        return deploy(other, seed)[1]

    return tuple(find_rollout_fixes(at, rollouts, shared.admissions, redeploy))


def _build_placement(rollout: Rollout, simulation: Simulation) -> reports.WorkloadPlacement:
    view, change = simulation.view, rollout.change
    index = view.pods.index
    pods = [index[pod.key] for pod in (*change.kept, *rename_replaced_pods(change), *change.new)]
    rows = view.node[pods]
    rows = rows[rows >= 0]
    template = next(iter((*change.new, *change.kept)), None)
    return reports.WorkloadPlacement(
        workload=change.workload,
        desired=change.desired,
        created=len(change.new) - len(rollout.coming),
        running=len(rows),
        pending=len(rollout.waiting),
        removed=len(change.removed) - len(rollout.old),
        nodes=count_by_node(view, rows),
        domains=count_by_domain(view, rows, find_topology_keys(view, template)),
        rollout=rollout.status,
    )


def prepare(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    *,
    rollout: bool = False,
    pending: bool = False,
    sampling: SampledFrom | None = None,
    counting: Mapping[Owner, JsonObject] | None = None,
) -> Deployed:
    """Apply the manifests to the cluster, without what admission denies if ``counting`` (documents of structs) is
    given.
    """
    sorted_out = sort_manifests(manifests)
    cluster = cluster.with_objects(sorted_out.objects)
    validate_new_manifests(sorted_out, cluster, admission=counting is None, validated=counting or {})
    cluster, refused = create_new_objects(cluster) if counting is not None else (cluster, {})
    existing = ExistingPods(cluster)
    workloads = list(map(existing.with_current_replicas, sorted_out.workloads.values()))
    creation = create(cluster, workloads, include_denied=counting is not None)
    waiting = cluster.unbound_pods() if pending else ()
    created_pods = zip(workloads, creation.pods.items(), strict=True)
    changes = [plan_change(existing, workload, *of_name, rollout) for workload, of_name in created_pods]
    admissions = Admissions(cluster, {**(counting or {}), **sorted_out.documents})
    admitted_workloads = () if counting is None else workloads
    denied = admissions.admit_all(workloads, changes) if admitted_workloads and not rollout else []
    cluster = _update_quotas(cluster, admissions, creation, changes)
    gone = {(p.metadata.namespace, p.metadata.name): None for change in changes for p in change.removed}
    cluster = add_pods(
        change_pods(creation.apply_to(cluster), gone), [p for c in changes for p in (*rename_replaced_pods(c), *c.new)]
    )
    workload_of_pod = {pod.key: change.workload for change in changes for pod in change.new}
    return Deployed(
        cluster,
        sampling,
        changes=changes,
        workloads=workload_of_pod,
        others=[pod.key for pod in waiting if not _is_leaving(pod) and pod.key not in workload_of_pod],
        assumed=[
            *_iter_assumptions(cluster, creation),
            *map(str, admissions.notes),
            *_iter_notes(changes),
            *sorted_out.notes,
        ],
        not_created=[*refused.values(), *denied],
        counted=admissions.replayed_namespaces(admitted_workloads),
        admissions=admissions if admitted_workloads and rollout else None,
        rolled=admitted_workloads,
        suspended=[
            StoredJob(job.metadata, StoredJobSpec(job.spec.parallelism, job.spec.completions, suspend=True))
            for job in workloads
            if isinstance(job, Job) and job.spec.suspend
        ],
    )


def _update_quotas(
    cluster: Cluster, admissions: Admissions, creation: Creation, changes: Iterable[WorkloadChange]
) -> Cluster:
    """Return the cluster with quotas that count what arrives, including claims of templates."""
    coming = {change.workload: change.new for change in changes}
    return create_allowed_claims(admissions.with_current_quotas(cluster), creation, coming)


def _iter_notes(changes: Iterable[WorkloadChange]) -> Iterator[str]:
    return (change.note for change in changes if change.note)


def _iter_assumptions(cluster: Cluster, creation: Creation) -> Iterator[str]:
    """Yield notes on namespaces that the cluster does not have, and other assumptions."""
    there = {namespace.metadata.name for namespace in cluster.namespaces}
    wanted = dict.fromkeys(pod.metadata.namespace for pods in creation.pods.values() for pod in pods[:1])
    if there:
        yield from (
            f"namespace {name} is created, without labels"
            for name in wanted
            if name not in (*there, *BUILT_IN_NAMESPACES)
        )
    yield from creation.assumptions
    yield from map(str, creation.notes)


def _is_leaving(pod: Pod) -> bool:
    return pod.terminated or pod.metadata.deletion_timestamp is not None
