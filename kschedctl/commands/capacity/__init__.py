"""``capacity``: how many more of these pods fit, and what stops the next one?

The analysis is in this module: ``prepare`` builds the cluster with one pod of each shape, ``run_trial`` places pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, Row
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import DaemonSet, identity, made_again
from kschedctl.cluster import Cluster
from kschedctl.commands.capacity.report import Capacity, RoomLeft, ShapeCapacity
from kschedctl.commands.explain.eliminations import report_eliminations
from kschedctl.commands.explain.reach import but_for_room, find_obstacles
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.admissions import Admissions, create_new_objects
from kschedctl.replay.controllers.creation import MAX_PODS, Creation, create
from kschedctl.replay.controllers.manifests import sort_manifests, validate_new_manifests
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.unreplayed_admission import has_mutating_hooks
from kschedctl.replay.edits import add_pods
from kschedctl.replay.missing_storage_classes import MissingStorageClasses
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, run_all
from kschedctl.replay.placements import compute_headroom, count_by_domain, count_by_node, find_topology_keys
from kschedctl.replay.repeated_runs import build_spread
from kschedctl.replay.settling import find_pending, schedule_victims
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.simulation.outcome import SCHEDULED, UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

CLAIMING_PODS = 1000
"""How many pods that need claims of their own are tried, unless more are asked for."""
AT_ONCE = 256
POINTS = 400
"""About how many points a curve has."""


@dataclass(eq=False)
class Shapes(SharedCluster):
    """A cluster that holds the pods to try, without nodes: ``pods`` of each shape.

    One pod without claims of its own stands for any number. No more than ``most`` are tried, None for MAX_PODS.
    ``admitted``: how many of each shape the API server creates, where that is not all of these, and what it says then;
    ``counted``: the namespaces whose pods pass admission, and whether all of admission.
    """

    shapes: Sequence[str] = ()
    pods: Sequence[Sequence[str]] = ()
    repeated: Sequence[bool] = ()
    most: int | None = None
    admitted: Sequence[tuple[int | None, Sequence[str]]] = ()
    counted: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One shape under one seed."""

    shape: int
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
    """Count how many more pods of each shape fit, each shape by itself and without evicting any pod.

    A workload counts as the pods that it makes. Waiting pods that are ahead in the queue get their nodes first.
    ``call_extender``, ``written``: as for simulate. Raises UsageError without any shape, InputError and
    ConfigurationError.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> capacity(Cluster.from_objects([node]), [web]).shapes[0].fits
    2
    """
    shared = prepare(cluster, manifests, most, sampling, written or {})
    shared.call_extender, workers = call_extender, limit_workers(workers, call_extender)
    trials = [Trial(shape, seed + run) for shape in range(len(shared.shapes)) for run in range(runs)]
    if len(trials) == 1:
        capacities = [run_trial(shared, trials[0], progress.begin("Placing", most or 0))]
        return _report(shared, seed, capacities, interrupted=capacities[0].verdict == "")
    results = run_all(_whole_trial, shared, trials, workers, progress.begin("Trials", len(trials)))
    by_shape = [results.by_task[i * runs : (i + 1) * runs] for i in range(len(shared.shapes))]
    shapes = [_over_runs([r for r in some if r is not None]) for some in by_shape if any(some)]
    return _report(shared, seed, shapes, results.interrupted)


def _report(shared: Shapes, seed: int, shapes: Sequence[ShapeCapacity], interrupted: bool) -> Capacity:
    unknown = merge_unknown_kinds(shape.unknown for shape in shapes)
    start = describe_search_start(shared.sampling, len(shared.cluster.nodes), seed)
    created = (pod for pods in shared.pods for pod in pods)
    basis = build_cluster_basis(unknown, shared.scheduler, created_pods=created, replayed=shared.counted)
    if _too_few(shared) and not has_mutating_hooks(shared.cluster):
        basis["undecided"] = False  # however much room there is
    return Capacity(seed, tuple(shapes), interrupted=interrupted, search_start=start, **basis)


def _too_few(shared: Shapes) -> bool:
    """Whether the API server creates fewer of some shape than are asked for, or none."""
    return any(number is not None and number < (shared.most or 1) for number, _ in shared.admitted)


def _over_runs(capacities: Sequence[ShapeCapacity]) -> ShapeCapacity:
    if len(capacities) == 1:
        return capacities[0]
    unknown = merge_unknown_kinds(one.unknown for one in capacities)
    return replace(capacities[0], over_runs=build_spread(one.fits for one in capacities), unknown=unknown)


def prepare(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct],
    most: int | None,
    sampling: SampledFrom | None,
    written: Mapping[Owner, JsonObject] = MappingProxyType({}),
) -> Shapes:
    """The cluster with one pod of each shape; with many of those that need claims of their own."""
    sorted_out = sort_manifests(manifests)
    workloads = list(sorted_out.workloads.values())
    if not workloads:
        raise UsageError("no shape to try", hint="give a manifest of a workload, or of a pod without UID and node")
    for workload in workloads:
        if isinstance(workload, DaemonSet):
            raise UsageError(f"{' '.join(identity(workload)[::2])} runs once on each node", hint="simulate says where")
    cluster = cluster.with_objects(sorted_out.objects)
    validate_new_manifests(sorted_out, cluster, admission=False, validated=written)
    cluster = create_new_objects(cluster).cluster
    creation, own = _creation(cluster, workloads, most)
    documents = {**written, **sorted_out.documents}
    trials = zip(workloads, creation.pods.values(), strict=True)
    admitted = [_admitted(Admissions(cluster, documents), workload, pods, most) for workload, pods in trials]
    named = {name: [_apart(pod, cluster) for pod in made] for name, made in creation.pods.items()}
    cluster = add_pods(creation.apply_to(cluster), [pod for made in named.values() for pod in made])
    keys = [[pod.key for pod in made] for made in named.values()]
    repeated = [not claims for claims in own]
    return Shapes(
        cluster,
        sampling,
        shapes=list(named),
        pods=keys,
        repeated=repeated,
        most=most,
        admitted=admitted,
        counted=Admissions(cluster, documents).replayed_namespaces(workloads),
    )


def _creation(cluster: Cluster, workloads: Sequence[Struct], most: int | None) -> tuple[Creation, list[bool]]:
    """A pod of each workload, of those that need claims of their own many; and of which that is so."""
    creation = create(cluster, [_scaled(workload, 1) for workload in workloads], include_denied=True)
    own = []
    for workload, (name, pods) in zip(workloads, list(creation.pods.items()), strict=True):
        own.append(bool(pods) and _claims_of_its_own(workload, pods[0]))
        if own[-1]:
            many = create(cluster, [_scaled(workload, most or CLAIMING_PODS)], include_denied=True)
            create_allowed_claims(cluster, many, many.pods)
            creation.pods[name] = many.pods[name]
            for kind, objects in many.objects.items():
                creation.objects.setdefault(kind, []).extend(objects)
    return creation, own


def _admitted(
    admissions: Admissions, workload: Struct, pods: Sequence[Pod], most: int | None
) -> tuple[int | None, Sequence[str]]:
    """How many of a shape are created, None for all that are tried, and what is said to the next one."""
    wanted = most or (MAX_PODS if len(pods) == 1 else len(pods))
    number, words = admissions.admit_up_to(workload, pods, wanted) if pods else (0, ())
    return (number, words) if words else (None, ())


def _scaled(workload: Struct, replicas: int) -> Struct:
    spec = workload.spec  # type: ignore[attr-defined]
    fields = {"replicas": replicas, "parallelism": replicas, "completions": None, "suspend": False}
    known = {name: value for name, value in fields.items() if name in spec.__struct_fields__}
    return replace(workload, spec=replace(spec, **known)) if known else workload


def _claims_of_its_own(workload: Struct, pod: Pod) -> bool:
    templates = getattr(workload.spec, "volume_claim_templates", ())  # type: ignore[attr-defined]
    devices = any(claim.resource_claim_template_name for claim in pod.spec.resource_claims)
    return bool(templates) or devices or any(volume.ephemeral for volume in pod.spec.volumes)


def _apart(pod: Pod, cluster: Cluster) -> Pod:
    """Without a node, under a name that no pod of the cluster has."""
    pod = made_again(pod) if pod.spec.node_name else pod
    if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
        return pod
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.metadata.name}~more"))


# -- one trial ----------------------------------------------------------------------------------------------------


def run_trial(shared: Shapes, trial: Trial, done: Callable[[int], None] = lambda number: None) -> ShapeCapacity:
    """As many pods of the shape as fit."""
    view, ahead = _place_pods_ahead(shared, trial)
    simulation = Simulation(shared.scheduler, view, seed=trial.seed, sampling=shared.sampling, preemption=False)
    before = view.requested.copy()
    positions = [view.pods.index[key] for key in shared.pods[trial.shape]]
    last = Outcome(positions[0], SCHEDULED)
    rows: list[Row] = []
    fitting: list[int] = []
    try:
        for position in islice(_pods(view, positions, shared.repeated[trial.shape]), shared.most or MAX_PODS):
            last = simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)
            if last.row < 0:
                break
            rows.append(last.row)
            fitting.append(last.feasible)
            done(1)
    except KeyboardInterrupt:
        last = Outcome(positions[0], "")
    placed = np.array(rows, np.int32)
    stopped = simulation.cycle(last.position) if last.verdict == UNSCHEDULABLE else None
    shape_capacity = ShapeCapacity(
        shape=shared.shapes[trial.shape],
        fits=len(rows),
        limited=last.verdict in (SCHEDULED, ""),
        nodes=count_by_node(view, placed),
        domains=count_by_domain(view, placed, find_topology_keys(view, view.pods.objects[positions[0]])),
        verdict=last.verdict,
        message=simulation.message(last.position) if stopped else last.message,
        eliminations=report_eliminations(find_obstacles(stopped), stopped) if stopped else (),
        headroom=compute_headroom(view, before, but_for_room(stopped) if stopped else None),
        unknown=find_simulation_unknowns(simulation),
        curve=() if shared.sampling else tuple(_curve(fitting, ended=last.verdict == UNSCHEDULABLE)),
        created=shared.admitted[trial.shape][0],
        refused=tuple(shared.admitted[trial.shape][1]),
        ahead=ahead,
        cause=MissingStorageClasses(view.cluster).explain(view.pods.objects[last.position]) if stopped else "",
    )
    return replace(shape_capacity, evicts=_evicts(shared, trial, view, last.position)) if stopped else shape_capacity


def _place_pods_ahead(shared: Shapes, trial: Trial) -> tuple[Fork, tuple[str, ...]]:
    """Place the waiting pods that kube-scheduler tries before new pods of the shape.

    New pods join the queue behind pods of a higher or equal priority. Return the cluster state afterwards, and the
    ``namespace/name`` of each pod that got a node.
    """
    simulation = Simulation(shared.scheduler, seed=trial.seed, sampling=shared.sampling)
    view = simulation.view
    new_pods = {view.pods.index[key] for keys in shared.pods for key in keys}
    priorities = view.pods.priority[view.pods.info]
    shape_priority = priorities[view.pods.index[shared.pods[trial.shape][0]]]
    waiting_ahead = [
        position
        for position in find_pending(simulation)
        if position not in new_pods and priorities[position] >= shape_priority
    ]
    if not waiting_ahead:
        return view, ()
    outcomes = schedule_victims(simulation, simulation.schedule(waiting_ahead))
    placed = {outcome.position for outcome in outcomes if outcome.row >= 0}
    return view, tuple(view.pods.objects[position].key for position in waiting_ahead if position in placed)


def _curve(fitting: Sequence[int], ended: bool) -> Iterator[RoomLeft]:
    """``fitting``: on how many nodes each pod fitted; ``ended``: then one more fits on none."""
    changes = [i for i, nodes in enumerate(fitting) if i == 0 or nodes != fitting[i - 1]]
    yield from (RoomLeft(i, fitting[i]) for i in changes[:: len(changes) // POINTS + 1])
    if ended:
        yield RoomLeft(len(fitting), 0)


def _evicts(shared: Shapes, trial: Trial, view: Fork, position: Position) -> tuple[str, ...]:
    """The pods that would have to go for one more; after this the view is of no use any more."""
    outcome = Simulation(shared.scheduler, view, seed=trial.seed).attempt(position)
    return tuple(view.pods.objects[victim].key for victim in outcome.victims) if outcome else ()


def _whole_trial(shared: Shapes, trial: Trial) -> ShapeCapacity:
    """One of several trials, which is of no use when it is cut short."""
    shape_capacity = run_trial(shared, trial)
    if not shape_capacity.verdict:
        raise KeyboardInterrupt
    return shape_capacity


def _pods(view: Fork, positions: Sequence[Position], repeated: bool) -> Iterator[Position]:
    """The pods that there are, then ever more like the only one."""
    yield from positions
    while repeated:
        yield from view.clone(positions[0], AT_ONCE)
