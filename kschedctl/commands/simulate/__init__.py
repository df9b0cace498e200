"""``simulate``: where would the pods of these manifests go?

The analysis is in this module: ``prepare`` applies the manifests, ``run_scene`` schedules under one seed.
``variation`` compares seeds, ``following`` and ``follow_rollout`` replay placements that really happened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kschedctl.admission.unknown import BUILT_IN_NAMESPACES
from kschedctl.api.arrays import Position
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, StoredJob, StoredJobSpec, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import Job, identity
from kschedctl.autoscaling.growth import Autoscaler
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_groups import explained_in_full
from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.commands.simulate import report as reports
from kschedctl.commands.simulate.variation import variation
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
from kschedctl.replay.growth import simulate_growth
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
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
from kschedctl.replay.repeated_runs import run_seeds
from kschedctl.replay.settling import build_resulting_cluster, list_victims, recreate_evicted, recreate_gone
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds, unknown_fields
from kschedctl.replay.waiting_elsewhere import find_waiting_elsewhere
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.reports.unknown import ClusterBasis
from kschedctl.reports.waiting_elsewhere import is_not_admitted, is_not_checked
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

MOST_STUCK = 3
"""So many rollouts that quotas refuse have their fixes replayed."""


@dataclass(eq=False)
class Deployed(SharedCluster):
    """A cluster in which the pods that go and those that come both are, and what is to be done with them.

    ``workloads``: pod -> its workload, for the pods that come; ``others``: pending pods of the cluster that take part.
    ``in_full``: seed -> how many kinds of pods without a node are explained to the single node, if any.
    ``not_created``: of which workloads pods are refused; ``counted``: the namespaces whose pods pass admission, and
    whether all of admission. ``autoscaler``: makes nodes for pods that find no room.
    ``admissions``: what the pods of workloads that are ``rolled`` out meet as they come. ``suspended``: Jobs among the
    manifests that make no pods until they are resumed.
    """

    changes: Sequence[WorkloadChange] = ()
    workloads: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()
    assumed: Sequence[str] = ()
    in_full: Mapping[int, int] = field(default_factory=dict)
    not_created: Sequence[NotCreated] = ()
    counted: Mapping[str, bool] = field(default_factory=dict)
    autoscaler: Autoscaler | None = None
    admissions: Admissions | None = None
    rolled: Sequence[Struct] = ()
    suspended: Sequence[StoredJob] = ()


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
    """What applying the manifests would do.

    ``seed`` decides ties, ``runs`` tries as many seeds from there on; with ``sampling`` the scheduler looks at as many
    nodes as it really would; with ``rollout`` new versions replace old ones as their controllers do it; with
    ``pending`` the cluster's pending pods take part. ``call_extender``: as for explain; then one process does it all.
    ``in_full``: of how many kinds of pods that get no node each node is told. ``written``: manifests that are given as
    structs, as documents, of which admission reads more than scheduling does. ``autoscaler``: in a single run it makes
    nodes for pods that find no room, until nothing changes; pending pods take part.
    Raises InputError, ConfigurationError.

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
        report = _of_several(shared, range(seed, seed + runs), workers, progress)
    return _with_waiting_elsewhere(report, shared, new_only=not waiting)


def _with_waiting_elsewhere(
    report: reports.SimulationReport, shared: Deployed, *, new_only: bool
) -> reports.SimulationReport:
    """Return the report with what waits elsewhere; ``new_only``: of the manifests, not of the cluster before."""
    elsewhere = find_waiting_elsewhere(shared.cluster.with_objects({"Job": shared.suspended}))
    waiting = tuple(entry for entry in elsewhere if not (new_only and entry.exists))
    certain = not report.good and not report.undecided
    return replace(
        report,
        waiting_elsewhere=waiting,
        undecided=not (certain or is_not_admitted(waiting)) and (report.undecided or is_not_checked(waiting)),
    )


def _of_several(shared: Deployed, seeds: range, workers: Workers, progress: Progress) -> reports.SimulationReport:
    """The first run, and how others vary."""
    results = run_seeds(run_scene, shared, seeds, workers, progress)
    simulations = results.completed
    if not simulations:
        sampled = shared.sampling is not None
        return reports.SimulationReport(seeds.start, sampled, placed=0, unplaced=0, interrupted=True)
    unknown = merge_unknown_kinds(report.unknown for report in simulations)
    return replace(
        simulations[0], variation=variation(simulations), interrupted=results.interrupted, **unknown_fields(unknown)
    )


def run_scene(
    shared: Deployed, seed: int, done: Callable[[int], None] = lambda number: None
) -> reports.SimulationReport:
    """One run of the simulation."""
    before = shared.scheduler.view.requested
    simulation, rollouts, of_all_pods = deploy(shared, seed, done)
    view, not_created = simulation.view, refused_in(shared, rollouts, seed)
    own = _own_pods(shared, simulation)
    outcomes = [outcome for outcome in of_all_pods if outcome.position in own]
    evicted = report_evictions(simulation)
    keys = [view.pods.objects[outcome.position].key for outcome in outcomes]
    names = view.nodes.names
    placed = {key: outcome for key, outcome in zip(keys, outcomes, strict=True) if outcome.row >= 0}
    pending = group_unplaced(simulation, outcomes, shared.workloads, with_queues=True)
    retried = group_retried(simulation, outcomes, shared.workloads)
    explained = _explained(shared, seed, simulation, outcomes)
    report = reports.SimulationReport(
        seed=seed,
        sampling=shared.sampling is not None,
        placed=len(placed),
        unplaced=len(outcomes) - len(placed),
        workloads=tuple(_workload(rollout, simulation) for rollout in rollouts),
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
        **_basis(shared, simulation, not_created),
        interrupted=simulation.interrupted,
        not_created=tuple(not_created),
        chain=summarize_evictions(simulation, evicted),
    )
    return _with_new_nodes(report, shared, simulation)


def _own_pods(shared: Deployed, simulation: Simulation) -> frozenset[Position]:
    """Return the pods that the answer is about: those of the manifests, and pending pods that take part."""
    index = simulation.view.pods.index
    kept = (pod.key for change in shared.changes for pod in change.kept)
    return frozenset(index[key] for key in (*shared.workloads, *shared.others, *kept))


def _with_new_nodes(
    report: reports.SimulationReport, shared: Deployed, simulation: Simulation
) -> reports.SimulationReport:
    """With what an autoscaler makes for the pods that found no room."""
    if shared.autoscaler is None or not report.unplaced or simulation.interrupted:
        return report
    growth = simulate_growth(build_resulting_cluster(simulation), shared.autoscaler, shared.call_extender)
    return replace(report, growth=growth, undecided=report.undecided or bool(growth.doubts))


def _basis(shared: Deployed, simulation: Simulation, not_created: Sequence[NotCreated]) -> ClusterBasis:
    """What the report rests on; that a pod is not created hangs on nothing that was not read."""
    created, counted = _to_create(shared), shared.counted
    basis = build_cluster_basis(
        find_simulation_unknowns(simulation), shared.scheduler, created_pods=created, replayed=counted
    )
    if not_created and not has_mutating_hooks(shared.cluster):
        basis["undecided"] = False
    return basis


def _to_create(shared: Deployed) -> Iterator[str]:
    """The pods that come, and one of each workload that gets none."""
    yield from shared.workloads
    yield from (refused.workload.partition(" ")[2] for refused in shared.not_created)


def _explained(
    shared: Deployed, seed: int, simulation: Simulation, outcomes: Iterable[Outcome]
) -> tuple[ExplainedPods, ...]:
    """Pods without a node, where nothing moves any more."""
    kinds = 0 if simulation.interrupted else shared.in_full.get(seed, 0)
    if not kinds:
        return ()
    waiting = (simulation.view.pods.objects[outcome.position].key for outcome in outcomes if outcome.row < 0)
    return explained_in_full(Scheduler(build_resulting_cluster(simulation), shared.call_extender), waiting, kinds)


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
        for change, creation in zip(shared.changes, _creations(shared), strict=True)
    ]
    scaled_down = frozenset(old for rollout in rollouts for old in rollout.old)
    recreate_evicted(simulation, scaled_down)
    outcomes = roll_out(rollouts, simulation, [position[key] for key in shared.others], done)
    if not simulation.interrupted:  # members of gangs come back once nothing else moves
        evicted = recreate_gone(simulation, [victim for victim in list_victims(outcomes) if victim not in scaled_down])
        outcomes += simulation.schedule(evicted)
    return simulation, rollouts, outcomes


def _creations(shared: Deployed) -> list[RolloutCreation | None]:
    """What is said to the pods of each rollout, where they are not all created at the beginning."""
    if shared.admissions is None:
        return [None] * len(shared.changes)
    admissions, rolled = shared.admissions.copy(), zip(shared.rolled, shared.changes, strict=True)
    return [RolloutCreation(admissions, identity(workload), workload, change) for workload, change in rolled]


def refused_in(shared: Deployed, rollouts: Sequence[Rollout], seed: int) -> list[NotCreated]:
    """Workloads of which pods are refused, at the beginning or as they are rolled out."""
    found = [(at, refused) for at, rollout in enumerate(rollouts) if (refused := rollout.denied)]
    return [
        *shared.not_created,
        *(replace(refused, fixes=_fixes(shared, rollouts, at, seed)) for at, refused in found[:MOST_STUCK]),
        *(refused for _, refused in found[MOST_STUCK:]),
    ]


def _fixes(shared: Deployed, rollouts: Sequence[Rollout], at: int, seed: int) -> tuple[CreationFix, ...]:
    """What lets one of the rollouts go on."""
    if shared.admissions is None:
        return ()

    def again(changes: Sequence[WorkloadChange], admissions: Admissions) -> Sequence[Rollout]:
        other = dataclasses.replace(shared, changes=changes, admissions=admissions)
        return deploy(other, seed)[1]

    return tuple(find_rollout_fixes(at, rollouts, shared.admissions, again))


def _workload(rollout: Rollout, simulation: Simulation) -> reports.WorkloadPlacement:
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
    """The cluster with what the manifests bring, less what is refused if ``counting`` (documents of structs)."""
    sorted_out = sort_manifests(manifests)
    cluster = cluster.with_objects(sorted_out.objects)
    validate_new_manifests(sorted_out, cluster, admission=counting is None, validated=counting or {})
    cluster, refused = create_new_objects(cluster) if counting is not None else (cluster, {})
    existing = ExistingPods(cluster)
    workloads = list(map(existing.with_current_replicas, sorted_out.workloads.values()))
    creation = create(cluster, workloads, include_denied=counting is not None)
    waiting = cluster.unbound_pods() if pending else ()
    made = zip(workloads, creation.pods.items(), strict=True)
    changes = [plan_change(existing, workload, *of_name, rollout) for workload, of_name in made]
    admissions = Admissions(cluster, {**(counting or {}), **sorted_out.documents})
    asking = () if counting is None else workloads
    lacking = admissions.admit_all(workloads, changes) if asking and not rollout else []
    cluster = _counted(cluster, admissions, creation, changes)
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
        others=[pod.key for pod in waiting if not _leaving(pod) and pod.key not in workload_of_pod],
        assumed=[*_assumed(cluster, creation), *map(str, admissions.notes), *_notes(changes), *sorted_out.notes],
        not_created=[*refused.values(), *lacking],
        counted=admissions.replayed_namespaces(asking),
        admissions=admissions if asking and rollout else None,
        rolled=asking,
        suspended=[
            StoredJob(job.metadata, StoredJobSpec(job.spec.parallelism, job.spec.completions, suspend=True))
            for job in workloads
            if isinstance(job, Job) and job.spec.suspend
        ],
    )


def _counted(
    cluster: Cluster, admissions: Admissions, creation: Creation, changes: Iterable[WorkloadChange]
) -> Cluster:
    """The cluster with the quotas that count what comes, claims of templates too, less those that are refused."""
    coming = {change.workload: change.new for change in changes}
    return create_allowed_claims(admissions.with_current_quotas(cluster), creation, coming)


def _notes(changes: Iterable[WorkloadChange]) -> Iterator[str]:
    return (change.note for change in changes if change.note)


def _assumed(cluster: Cluster, creation: Creation) -> Iterator[str]:
    """What is said of namespaces that the cluster, where it tells of any, does not have; and the other guesses."""
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


def _leaving(pod: Pod) -> bool:
    return pod.terminated or pod.metadata.deletion_timestamp is not None
