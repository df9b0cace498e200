"""The failure of every node, zone or pool in turn: which pods would no longer fit, and which failure is the worst.

The nodes disappear with their pods, and the pods that controllers recreate pass the queue on the remaining nodes.
PodDisruptionBudgets do not protect against failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from random import Random

import numpy as np

from kschedctl.admission.node_selector import SELECTOR
from kschedctl.admission.tolerations import DEFAULTS_ANNOTATION, WHITELIST_ANNOTATION
from kschedctl.api.arrays import Bools, Position, find_positions
from kschedctl.api.copying import replace
from kschedctl.api.node_pools import find_pool
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.edits import get_zone, group_nodes, is_recreated_elsewhere
from kschedctl.replay.node_drain import (
    combine_always_unplaced,
    count_always_unplaced,
    shuffle_returns,
    spread_unplaced,
)
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, run_all, spread_over_runs
from kschedctl.replay.placements import count_pods_by_place, group_unplaced
from kschedctl.replay.settling import list_victims, schedule_with_victims
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

UNITS: Mapping[str, Callable[[Cluster], Mapping[str, Sequence[str]]]] = {
    "node": lambda cluster: {node.metadata.name: [node.metadata.name] for node in cluster.nodes},
    "zone": lambda cluster: group_nodes(cluster, get_zone),
    "pool": lambda cluster: group_nodes(cluster, find_pool),
}
"""For each kind of unit, the function that returns its members with their nodes."""
MAX_PAIRS = 200_000
ADMISSION_ANNOTATIONS = frozenset((SELECTOR, DEFAULTS_ANNOTATION, WHITELIST_ANNOTATION))
"""Annotations of namespaces because of which admission may deny pods."""


@dataclass(frozen=True)
class Loss:
    """Nodes that fail at once."""

    name: str
    nodes: tuple[str, ...]
    seed: int = 0
    shuffled: bool = False
    """Whether pods come back in random order."""


def list_losses(cluster: Cluster, unit: str, pairs: bool = False) -> list[Loss]:
    """Return every unit, or every pair of units. Raises UsageError if nodes name no such unit, or too few."""
    units = UNITS[unit](cluster)
    if not units:
        raise UsageError(
            f"no node tells its {unit}", hint="nodes have no label for it" if cluster.nodes else "no nodes"
        )
    if not pairs:
        return [Loss(name, tuple(nodes)) for name, nodes in units.items()]
    if len(units) < 2:
        raise UsageError(f"there is one {unit} only, and no two to lose")
    if comb(len(units), 2) > MAX_PAIRS:
        what = f"{comb(len(units), 2):,} pairs of {unit}s are too many to try"
        raise UsageError(what, hint="ask for pairs of zones or of pools")
    return [Loss(f"{a} + {b}", (*units[a], *units[b])) for a, b in combinations(units, 2)]


def failures(
    cluster: Cluster,
    unit: str = "zone",
    *,
    pairs: bool = False,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Failures:
    """Simulate the failure of every ``unit``, a key of UNITS, worst first. Raises UsageError, InputError."""
    shared = SharedCluster(cluster, sampling, call_extender)
    workers = limit_workers(workers, call_extender)
    what = list_losses(cluster, unit, pairs)
    trials = [replace(loss, seed=seed + run, shuffled=run > 0) for loss in what for run in range(runs)]
    results = run_all(simulate_loss, shared, trials, workers, progress.begin("Failures", len(trials)))
    by_loss = ([f for f in results.by_task[i : i + runs] if f is not None] for i in range(0, len(trials), runs))
    ranked = sorted((_combine_runs(some) for some in by_loss if some), key=_severity, reverse=True)
    worst = [*ranked[:1], *(replace(failure, zones=(), nodes_changed=()) for failure in ranked[1:])]
    lost = {name for loss in what for name in loss.nodes}
    return Failures(
        unit=f"pair of {unit}s" if pairs else unit,
        scenarios=len(what),
        safe=all(failure.safe for failure in worst) and not results.interrupted,
        seed=seed,
        failures=tuple(worst),
        outside=tuple(node.metadata.name for node in cluster.nodes if node.metadata.name not in lost),
        search_start=describe_search_start(sampling, len(cluster.nodes), seed),
        **build_cluster_basis(merge_unknown_kinds(failure.unknown for failure in worst), shared.scheduler),
        interrupted=results.interrupted,
        runs=runs,
    )


def _severity(failure: Failure) -> tuple[int, ...]:
    refused = sum(workload.missing or 0 for workload in failure.not_created)
    return failure.unplaced + refused, failure.evicted, failure.lost, failure.displaced


def _combine_runs(runs: Sequence[Failure]) -> Failure:
    """Return the worst of several runs, with how the others differ."""
    spreads = spread_over_runs([{"unplaced": run.unplaced, "evicted": run.evicted} for run in runs])
    by_workload = spread_unplaced([run.reasons for run in runs])
    unknown, proven = (
        merge_unknown_kinds(run.unknown for run in runs),
        combine_always_unplaced(run.in_no_order for run in runs),
    )
    return replace(
        max(runs, key=_severity),
        over_runs=spreads,
        unplaced_over_runs=by_workload,
        in_no_order=proven,
        unknown=unknown,
    )


def simulate_loss(shared: SharedCluster, loss: Loss) -> Failure:
    """Simulate one failure."""
    view, (made_anew, bare) = shared.scheduler.view, shared.get_cached(_get_fates)
    gone = np.zeros(len(view.nodes), np.bool_)
    gone[[view.nodes.index[name] for name in loss.nodes]] = True
    there = np.append(gone, False)[view.node]
    displaced = find_positions(there & made_anew)
    not_created, refused = _find_denied(view, find_positions(there), displaced)
    simulation = Simulation(shared.scheduler, view.without_nodes(gone), seed=loss.seed, sampling=shared.sampling)
    simulation.release(find_positions(there))
    emptied = simulation.view.fork() if loss.shuffled else None
    if loss.shuffled:
        displaced = shuffle_returns(simulation, displaced, Random(loss.seed))
    outcomes = schedule_with_victims(simulation, [position for position in displaced if position not in refused])
    if simulation.interrupted:
        raise KeyboardInterrupt
    after = np.zeros_like(view.requested)
    after[~gone] = simulation.view.requested
    return Failure(
        name=loss.name,
        nodes=loss.nodes,
        displaced=len(displaced),
        unplaced=sum(outcome.row < 0 for outcome in outcomes),
        evicted=len(list_victims(outcomes)),
        lost=int((there & bare).sum()),
        reasons=group_unplaced(simulation, outcomes, {}),
        in_no_order={} if emptied is None else count_always_unplaced(Simulation(shared.scheduler, emptied), outcomes),
        **count_pods_by_place(view, view.requested, after),
        unknown=find_simulation_unknowns(simulation),
        not_created=not_created,
    )


def _find_denied(
    view: Fork, gone: Sequence[Position], displaced: Sequence[Position]
) -> tuple[tuple[NotCreated, ...], set[Position]]:
    """Return the displaced pods that admission denies once the failed ones are gone, with their positions."""
    cluster, pods = view.cluster, view.pods.objects
    bounded = _find_restricted_namespaces(cluster)
    if not bounded:
        return (), set()
    going = {at: pod for at in gone if (pod := pods[at]).metadata.namespace in bounded}
    coming = {at: going[at] for at in displaced if at in going}
    admissions = Admissions(cluster, {})
    refused = admissions.replace_pods(going.values(), coming.values())
    keys = {pod.key for pod, _ in refused}
    lacking = admissions.report_by_workload(coming.values(), refused)
    return tuple(lacking), {at for at, pod in coming.items() if pod.key in keys}


def _find_restricted_namespaces(cluster: Cluster) -> set[str]:
    """Return the namespaces in which a pod that was admitted once may be denied now."""
    limited = {quota.metadata.namespace for quota in cluster.resource_quotas}
    limited |= {limits.metadata.namespace for limits in cluster.limit_ranges}
    changed = (
        namespace.metadata
        for namespace in cluster.namespaces
        if namespace.metadata.deletion_timestamp or not ADMISSION_ANNOTATIONS.isdisjoint(namespace.metadata.annotations)
    )
    return limited | {meta.name for meta in changed}


def _get_fates(shared: SharedCluster) -> tuple[Bools, Bools]:
    """Return which pods are recreated when their node fails, and which are lost with it, (P,) each."""
    return classify_pods(shared.scheduler.view)


def classify_pods(view: Fork) -> tuple[Bools, Bools]:
    """Return which pods are recreated when their node fails, and which are lost with it, (P,) each."""
    anew = view.pods.where(lambda info: is_recreated_elsewhere(info.pod))
    bare = view.pods.where(lambda info: not info.terminating and find_owner(info.pod).kind == "Pod")
    return anew[view.pods.info], bare[view.pods.info]
