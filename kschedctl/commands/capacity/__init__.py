"""The command `capacity`: how many more of these pods fit, and what stops the next one?

`prepare_shapes` builds the cluster with one pod of each shape, and `run_trial` places pods of one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Amounts, Position, Row
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_requests import compute_pod_requests
from kschedctl.api.quantity import Quantity
from kschedctl.api.workloads import DaemonSet, get_identity, with_replicas
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.capacity.report import Capacity, RoomLeft, ShapeCapacity
from kschedctl.commands.explain.eliminations import report_eliminations
from kschedctl.commands.explain.reach import NEAR, find_obstacles, measure_node_closeness
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.admissions import Admissions, create_new_claims_and_groups
from kschedctl.replay.controllers.creation import MAX_PODS, Creation, create_workload_objects
from kschedctl.replay.controllers.manifests import classify_manifests, validate_new_manifests
from kschedctl.replay.controllers.plan_change import ExistingPods
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.stored_workloads import add_autoscaled_workloads, clamp_replicas_to_autoscaler
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, build_spread, run_tasks
from kschedctl.replay.placements import (
    MissingObjects,
    compute_headroom,
    count_by_domain,
    count_by_node,
    find_topology_keys,
)
from kschedctl.replay.settling import find_pods_still_pending, schedule_victims_until_stable
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.volumes import describe_exceeded_storage, describe_volumes_on_several_nodes
from kschedctl.replay.waiting_elsewhere.suspended_jobs import has_queues
from kschedctl.reports.placements import Headroom
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.simulation.outcome import SCHEDULED, UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

ZERO = Quantity(0)
INTERRUPTED = ""
"""The verdict of a trial that the user interrupted."""
CLAIMING_PODS = 1000
"""The default number of pods tried if each needs claims of its own."""
CLONE_BATCH = 256
MAX_CURVE_POINTS = 400
"""The approximate number of points of a curve."""


class AdmittedPods(NamedTuple):
    """The number of pods of a shape that the API server creates."""

    number: int | None
    """The number of pods, or None if all are created."""
    messages: Sequence[str]
    """The API server's messages about the first pod that it denies."""


@dataclass(eq=False)
class PodShapes(SharedCluster):
    """A cluster that also holds the pods to try, without nodes."""

    shapes: Sequence[str] = ()
    pods: Sequence[Sequence[str]] = ()
    """The keys of the pods of each shape. One pod without own claims stands for any number."""
    repeated: Sequence[bool] = ()
    """For each shape, True if its only pod is cloned."""
    limit: int | None = None
    """The maximum number of pods to try; None is MAX_PODS."""
    admitted: Sequence[AdmittedPods] = ()
    """For each shape, how many pods the API server creates."""
    replayed_by_namespace: Mapping[str, bool] = field(default_factory=dict)
    """Namespace of the pods -> whether all of admission is replayed for it."""
    autoscaled: Sequence[str] = ()
    """Notes on workloads whose replicas a HorizontalPodAutoscaler changes at once."""
    not_counted: Sequence[str] = ()
    """The DaemonSets of the manifests, which run one pod on each node."""
    workloads: Sequence[Struct] = ()
    """The workload of each shape, for the quota of Kueue. Empty if the cluster has no queues."""


@dataclass(frozen=True)
class Trial:
    """A shape to try with a seed."""

    shape: int
    """The index of the shape."""
    seed: int


def capacity(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    *,
    most: int | None = None,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
    written: Mapping[Owner, JsonObject] | None = None,
) -> Capacity:
    """Count how many more pods of each shape fit, each shape on its own and without evicting any pod.

    A workload counts as the pods that it creates. Waiting pods ahead in the queue get their nodes first.

    `most` is the maximum number of pods to try. `seed` decides ties, and `runs` is the number of consecutive seeds to
    try, beginning with `seed`. With `sampling`, the scheduler looks at as many nodes as it really would.
    `call_extender` and `written` are as for `simulate`.

    Raises UsageError if there is no shape, InputError if a manifest is invalid, and ConfigurationError if the
    scheduler's configuration is invalid.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> capacity(Cluster.from_objects([node]), [web]).shapes[0].fits
    2
    """
    shared = prepare_shapes(cluster, manifests, most, sampling, written or {})
    shared.call_extender = call_extender
    workers = limit_workers(workers, call_extender)
    trials_by_shape = [[Trial(shape, seed + run) for run in range(runs)] for shape in range(len(shared.shapes))]
    trials = list(chain.from_iterable(trials_by_shape))

    # A single trial runs in this process and keeps its partial result if it is interrupted
    if len(trials) == 1:
        shape_capacity = run_trial(shared, trials[0], progress.begin("Placing", most or 0))
        is_interrupted = shape_capacity.verdict == INTERRUPTED
        return _build_capacity_report(
            shared, seed, _add_quota_room(shared, [shape_capacity]), interrupted=is_interrupted
        )

    results = run_tasks(_run_uninterrupted_trial, shared, trials, workers, progress.begin("Trials", len(trials)))
    remaining_results = iter(results.by_task)
    shapes = []
    for trials_of_shape in trials_by_shape:
        results_of_shape = list(islice(remaining_results, len(trials_of_shape)))
        completed = [result for result in results_of_shape if result is not None]
        if completed:
            shapes.append(_combine_runs(completed))
    return _build_capacity_report(shared, seed, _add_quota_room(shared, shapes), results.interrupted)


def _add_quota_room(shared: PodShapes, capacities: Sequence[ShapeCapacity]) -> Sequence[ShapeCapacity]:
    """Add to each shape that Kueue manages how many of its pods Kueue would admit. Other shapes are returned unchanged.

    A shape then counts as evicting pods only if Kueue admits more pods than fit.
    """
    if not shared.workloads:
        return capacities
    from kschedctl.commands.capacity.quota_room import find_quota_room  # noqa: PLC0415 - few clusters

    workloads = dict(zip(shared.shapes, shared.workloads, strict=True))
    with_room = []
    for shape in capacities:
        # One pod more than fit shows what stops the next pod
        pod_count = shape.fits if shape.limited else shape.fits + 1
        room = find_quota_room(shared.cluster, workloads[shape.shape], pod_count)
        if room is None:
            with_room.append(shape)
            continue

        # The first pod that does not fit preempts only if Kueue admits it
        is_next_pod_admitted = room.pods > shape.fits
        evicts = shape.evicts if is_next_pod_admitted else ()
        with_room.append(
            replace(shape, by_quota=room.pods, flavors=room.flavors, beyond_quota=room.reason, evicts=evicts)
        )
    return with_room


def _build_capacity_report(
    shared: PodShapes, seed: int, shapes: Sequence[ShapeCapacity], interrupted: bool
) -> Capacity:
    """Build the report on all shapes.

    If the API server denies some of the requested pods and no mutating webhook can change the pods, the report is
    decided even if some kinds were not read.
    """
    unknown = merge_unknown_kinds(shape.unknown for shape in shapes)
    start = describe_search_start(shared.sampling, len(shared.cluster.nodes), seed)
    created_pods = (pod for pods in shared.pods for pod in pods)
    basis = build_cluster_basis(
        unknown, shared.scheduler, created_pods=created_pods, replayed=shared.replayed_by_namespace
    )
    if _has_denied_pods(shared) and not has_mutating_hooks(shared.cluster):
        basis["undecided"] = False  # the answer is no, however much room there is
    return Capacity(
        seed=seed,
        shapes=tuple(shapes),
        interrupted=interrupted,
        search_start=start,
        autoscaled=tuple(shared.autoscaled),
        not_counted=tuple(shared.not_counted),
        **basis,
    )


def _has_denied_pods(shared: PodShapes) -> bool:
    """Return whether the API server denies some of the requested pods."""
    requested_count = shared.limit or 1
    return any(admitted.number is not None and admitted.number < requested_count for admitted in shared.admitted)


def _combine_runs(capacities: Sequence[ShapeCapacity]) -> ShapeCapacity:
    """Combine the runs for one shape: the first run's result, with the spread of `fits` over all runs."""
    if len(capacities) == 1:
        return capacities[0]
    unknown = merge_unknown_kinds(shape_capacity.unknown for shape_capacity in capacities)
    return replace(
        capacities[0], over_runs=build_spread(shape_capacity.fits for shape_capacity in capacities), unknown=unknown
    )


def prepare_shapes(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    max_pods: int | None,
    sampling: SampledFrom | None,
    written: Mapping[Owner, JsonObject] = MappingProxyType({}),
) -> PodShapes:
    """Build a cluster that also has one pod of each shape, or many if each pod needs claims of its own.

    `max_pods` is the maximum number of pods to try, or None for no limit. DaemonSets are not counted. Raises UsageError
    if there is no other workload.
    """
    # The workloads, which are the shapes
    classified_manifests = classify_manifests(manifests)
    cluster = cluster.with_objects(classified_manifests.objects)
    add_autoscaled_workloads(classified_manifests, cluster)
    workloads, daemon_sets = _separate_daemon_sets(classified_manifests.workloads.values())
    existing = ExistingPods(cluster)
    current_workloads = map(existing.with_current_replicas, workloads)
    autoscaled = [clamp_replicas_to_autoscaler(cluster, workload) for workload in current_workloads]

    # Their pods and other objects, and how many pods the API server admits
    validate_new_manifests(classified_manifests, cluster, admission=False, validated=written)
    cluster = create_new_claims_and_groups(cluster).cluster
    creation, has_own_claims = _create_pods_to_try(cluster, workloads, max_pods)
    documents = {**written, **classified_manifests.documents}
    trials = zip(workloads, creation.pods.values(), strict=True)
    admitted = [
        _count_admitted_pods(Admissions(cluster, documents), workload, pods, max_pods) for workload, pods in trials
    ]

    # The pods to try, in the flavors of their queue
    pods_by_shape = {
        name: [_prepare_additional_pod(pod, cluster) for pod in pods_of_shape]
        for name, pods_of_shape in creation.pods.items()
    }
    queued_workloads = workloads if has_queues(cluster) else []
    if queued_workloads:
        from kschedctl.commands.capacity.quota_room import add_flavors_of_queue  # noqa: PLC0415 - few clusters

        for workload, (name, pods) in zip(queued_workloads, pods_by_shape.items(), strict=True):
            pods_by_shape[name] = add_flavors_of_queue(cluster, workload, pods)
    all_pods = [pod for pods_of_shape in pods_by_shape.values() for pod in pods_of_shape]
    cluster = add_or_replace_pods(creation.apply_to(cluster), all_pods)
    return PodShapes(
        cluster,
        sampling,
        shapes=list(pods_by_shape),
        pods=[[pod.key for pod in pods_of_shape] for pods_of_shape in pods_by_shape.values()],
        repeated=[not claims for claims in has_own_claims],
        limit=max_pods,
        admitted=admitted,
        replayed_by_namespace=Admissions(cluster, documents).map_full_replay_by_namespace(workloads),
        workloads=queued_workloads,
        autoscaled=[entry.note for entry in autoscaled if entry.note],
        not_counted=[str(get_identity(daemon_set)) for daemon_set in daemon_sets],
    )


def _separate_daemon_sets(workloads: Collection[Struct]) -> tuple[list[Struct], list[DaemonSet]]:
    """Return the workloads whose pods can be tried, and the DaemonSets. Raises UsageError if no pods can be tried."""
    daemon_sets = [workload for workload in workloads if isinstance(workload, DaemonSet)]
    others = [workload for workload in workloads if not isinstance(workload, DaemonSet)]
    if others:
        return others, daemon_sets
    if daemon_sets:
        owner = get_identity(daemon_sets[0])
        raise UsageError(
            f"{owner.kind} {owner.name} runs one pod on each node", hint="run simulate to see on which nodes"
        )
    raise UsageError("no workload to try", hint="specify a manifest of a workload, or of a pod without UID and node")


class _CreatedPods(NamedTuple):
    """The pods to try, together with the other objects that the workloads create."""

    creation: Creation
    has_own_claims: list[bool]
    """For each workload, whether each of its pods needs claims of its own."""


def _create_pods_to_try(cluster: Cluster, workloads: Sequence[Struct], max_pods: int | None) -> _CreatedPods:
    """Create the pods of each workload: one to clone or, if each pod needs claims of its own, as many as are tried.

    If `max_pods` is None, CLAIMING_PODS pods with claims are created.
    """
    # Create one pod of each workload, which shows whether pods of the workload need claims of their own.
    single_pod_workloads = [with_replicas(workload, 1) for workload in workloads]
    creation = create_workload_objects(cluster, single_pod_workloads, include_denied=True)
    has_own_claims = [
        bool(pods) and _has_own_claims(workload, pods[0])
        for workload, pods in zip(workloads, creation.pods.values(), strict=True)
    ]

    # Pods with claims of their own cannot be clones, so create all of them.
    for workload, name, needs_claims in zip(workloads, tuple(creation.pods), has_own_claims, strict=True):
        if needs_claims:
            with_claims = _create_pods_with_claims(cluster, workload, max_pods or CLAIMING_PODS)
            _replace_pods_of_workload(creation, name, with_claims)
    return _CreatedPods(creation, has_own_claims)


def _replace_pods_of_workload(creation: Creation, name: str, recreated: Creation) -> None:
    """Replace the pods of the workload called `name` by those in `recreated`, and add the other objects in it."""
    creation.pods[name] = recreated.pods[name]
    for kind, objects in recreated.objects.items():
        creation.objects.setdefault(kind, []).extend(objects)


def _create_pods_with_claims(cluster: Cluster, workload: Struct, number: int) -> Creation:
    """Create this number of pods of a workload, together with the claims of each pod."""
    creation = create_workload_objects(cluster, [with_replicas(workload, number)], include_denied=True)
    create_allowed_claims(cluster, creation, creation.pods)
    return creation


def _count_admitted_pods(
    admissions: Admissions, workload: Struct, pods: Sequence[Pod], max_pods: int | None
) -> AdmittedPods:
    """Count how many pods of a workload the API server admits. The number is None if it denies none of them.

    `pods` is one pod that stands for all, or the distinct pods if each has claims of its own. Without `max_pods`, the
    limit is MAX_PODS for a single pod, and the number of `pods` otherwise.
    """
    if not pods:
        return AdmittedPods(None, ())
    stands_for_all = len(pods) == 1
    default_limit = MAX_PODS if stands_for_all else len(pods)
    number, messages, _ = admissions.admit_up_to(workload, pods, max_pods or default_limit)
    return AdmittedPods(number if messages else None, messages)


def _has_own_claims(workload: Struct, pod: Pod) -> bool:
    """Return whether each pod of the workload needs claims of its own."""
    templates = getattr(workload.spec, "volume_claim_templates", ())  # type: ignore[attr-defined]
    has_device_claims = any(claim.resource_claim_template_name for claim in pod.spec.resource_claims)
    return bool(templates) or has_device_claims or any(volume.ephemeral for volume in pod.spec.volumes)


def _prepare_additional_pod(pod: Pod, cluster: Cluster) -> Pod:
    """Return the pod without its node, under a name that no pod of the cluster has."""
    pod = recreate_pod(pod, cluster) if pod.spec.node_name else pod
    if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
        return pod
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.metadata.name}~more"))


# -- one trial ----------------------------------------------------------------------------------------------------


def run_trial(shared: PodShapes, trial: Trial, advance: Callable[[int], None] = lambda number: None) -> ShapeCapacity:
    """Place as many pods of a shape as fit, and report how many fit and why the next one does not.

    `advance` is called with 1 for each placed pod. After an interruption, the report covers the pods that were placed
    until then, and its verdict is INTERRUPTED.
    """
    view, ahead = _place_pods_ahead(shared, trial)
    simulation = Simulation(shared.scheduler, view, seed=trial.seed, sampling=shared.sampling, preemption=False)
    before = view.requested.copy()
    positions = [view.pods.index[key] for key in shared.pods[trial.shape]]
    first_pod = view.pods.objects[positions[0]]

    next_positions = _iter_pods_to_try(view, positions, repeated=shared.repeated[trial.shape])
    positions_to_try = islice(next_positions, shared.limit or MAX_PODS)
    placed, last_outcome = _place_until_one_does_not_fit(simulation, positions_to_try, positions[0], advance)

    # Report how many fit, and why the last one does not
    rows = np.array(placed.rows, np.int32)
    is_unschedulable = last_outcome.verdict == UNSCHEDULABLE
    admitted_count = shared.admitted[trial.shape].number  # None for no limit
    failed_cycle = simulation.run_cycle(last_outcome.position) if is_unschedulable else None
    curve = () if shared.sampling else tuple(_iter_curve_points(placed.feasible_counts, ended=is_unschedulable))
    shape_capacity = ShapeCapacity(
        shape=shared.shapes[trial.shape],
        fits=len(rows),
        limited=last_outcome.verdict in (SCHEDULED, INTERRUPTED),
        nodes=count_by_node(view, rows),
        domains=count_by_domain(view, rows, find_topology_keys(view, first_pod)),
        verdict=last_outcome.verdict,
        message=last_outcome.message,
        headroom=_compute_eligible_headroom(view, before, failed_cycle),
        unknown=find_simulation_unknowns(simulation),
        curve=curve,
        created=admitted_count,
        refused=tuple(shared.admitted[trial.shape].messages),
        ahead=ahead,
        exceeded_storage=describe_exceeded_storage(view, placed.positions),
        volumes_on_several_nodes=describe_volumes_on_several_nodes(view, placed.positions),
        requests_nothing=not any(amount > ZERO for amount in compute_pod_requests(first_pod).values()),
    )
    if failed_cycle is None:
        return shape_capacity
    is_next_admitted = admitted_count is None or admitted_count > len(
        rows
    )  # a pod that is not created evicts no other pods
    return replace(
        shape_capacity,
        message=simulation.build_message(last_outcome.position),
        eliminations=report_eliminations(find_obstacles(failed_cycle), failed_cycle),
        cause=MissingObjects(view.cluster).explain(view.pods.objects[last_outcome.position]),
        evicts=_find_preempted_pods(shared, trial, view, last_outcome.position) if is_next_admitted else (),
    )


class _PlacedPods(NamedTuple):
    """The nodes and positions of the placed pods, in the order of their placement."""

    rows: list[Row]
    positions: list[Position]
    feasible_counts: list[int]
    """For each pod, the number of nodes on which it fitted."""


def _place_until_one_does_not_fit(
    simulation: Simulation, positions: Iterable[Position], first: Position, advance: Callable[[int], None]
) -> tuple[_PlacedPods, Outcome]:
    """Place pods one after the other. Return the placed pods and the last outcome.

    The last outcome is that of the pod that does not fit, or of the last pod if all fit. After an interruption, its
    verdict is INTERRUPTED. `first` is the position of the first pod, and `advance` is called with 1 for each placed
    pod.
    """
    placed = _PlacedPods([], [], [])
    last_outcome = Outcome(first, SCHEDULED)
    try:
        for outcome in simulation.attempt_copies(positions):
            last_outcome = outcome
            if not outcome.is_placed:
                break
            placed.rows.append(outcome.row)
            placed.positions.append(outcome.position)
            placed.feasible_counts.append(outcome.feasible)
            advance(1)
    except KeyboardInterrupt:
        last_outcome = Outcome(first, INTERRUPTED)
    return placed, last_outcome


def _compute_eligible_headroom(view: Fork, before: Amounts, failed_cycle: Cycle | None) -> tuple[Headroom, ...]:
    """Return the headroom of each resource, with the largest free amounts on the nodes that the pods may use.

    These are the nodes that would take the rejected pod of ``failed_cycle`` if there were room. Room that is reserved
    for the nominated pods ahead of this pod is not free. If ``failed_cycle`` is None, all nodes are eligible and no
    room is reserved.
    """
    if failed_cycle is None:
        return compute_headroom(view, before)
    node_count = len(view.nodes)
    closeness = measure_node_closeness(find_obstacles(failed_cycle), node_count)
    would_fit_with_room = closeness.level == NEAR
    pods_ahead = view.build_nominated_delta_against(failed_cycle.info)
    reserved = pods_ahead.sum_changes(view.requests, node_count)
    return compute_headroom(view, before, would_fit_with_room, reserved=reserved)


def _place_pods_ahead(shared: PodShapes, trial: Trial) -> tuple[Fork, tuple[str, ...]]:
    """Place the waiting pods that kube-scheduler tries before new pods of the shape.

    These pods have the same or a higher priority than the new pods. Return the view afterwards, and the keys of the
    waiting pods that got a node.
    """
    simulation = Simulation(shared.scheduler, seed=trial.seed, sampling=shared.sampling)
    view, pods = simulation.view, simulation.view.pods
    pods_to_try = {pods.index[key] for keys in shared.pods for key in keys}
    keys_of_shape = shared.pods[trial.shape]
    shape_priority = pods.get_priority(pods.index[keys_of_shape[0]])
    waiting_ahead = [
        position
        for position in find_pods_still_pending(simulation)
        if position not in pods_to_try and pods.get_priority(position) >= shape_priority
    ]
    if not waiting_ahead:
        return view, ()
    outcomes = schedule_victims_until_stable(simulation, simulation.schedule(waiting_ahead))
    placed = {outcome.position for outcome in outcomes if outcome.is_placed}
    return view, tuple(pods.objects[position].key for position in waiting_ahead if position in placed)


def _iter_curve_points(feasible_counts: Sequence[int], ended: bool) -> Iterator[RoomLeft]:
    """Yield the points of the curve that shows how many nodes have room as pods are added.

    `feasible_counts` has, for each placed pod, the number of nodes on which it fitted. There is a point for each change
    of this number, but only for some of the changes if there are more than MAX_CURVE_POINTS. With `ended`, a last point
    says that one more pod fits on no node.
    """
    # The numbers of placed pods at which the number of nodes changes, starting with 0
    changes = [i for i, nodes in enumerate(feasible_counts) if i == 0 or nodes != feasible_counts[i - 1]]
    step = len(changes) // MAX_CURVE_POINTS + 1
    for placed in changes[::step]:
        yield RoomLeft(placed, feasible_counts[placed])
    if ended:
        yield RoomLeft(len(feasible_counts), 0)


def _find_preempted_pods(shared: PodShapes, trial: Trial, view: Fork, position: Position) -> tuple[str, ...]:
    """Return the pods that the pod at the position would preempt, or () if it preempts none.

    The view must not be used afterwards.
    """
    outcome = Simulation(shared.scheduler, view, seed=trial.seed).attempt_pod(position)
    return tuple(view.pods.objects[victim].key for victim in outcome.victims) if outcome else ()


def _run_uninterrupted_trial(shared: PodShapes, trial: Trial) -> ShapeCapacity:
    """Run one of several trials. Raises KeyboardInterrupt instead of returning a partial result."""
    shape_capacity = run_trial(shared, trial)
    if shape_capacity.verdict == INTERRUPTED:
        raise KeyboardInterrupt
    return shape_capacity


def _iter_pods_to_try(view: Fork, positions: Sequence[Position], repeated: bool) -> Iterator[Position]:
    """Yield the positions of the existing pods. With `repeated`, endless clones of the first pod follow.

    Each batch of clones is as large as all batches before it, because adding a batch copies the columns of all pods.
    """
    yield from positions
    batch_size = CLONE_BATCH
    while repeated:
        yield from view.add_clones(positions[0], batch_size)
        batch_size *= 2
