"""The command ``failures``: what would no longer fit if a node, a zone or a pool failed?

Each node, zone or pool fails in turn. The nodes disappear with their pods, and the pods that controllers recreate pass
the queue on the remaining nodes. PodDisruptionBudgets do not protect against failures. `certain_outcomes` finds the
failures whose outcome is certain without a replay of the queue.
`kschedctl/replay/before_deletion.py` replays the time before the nodes are deleted, if it makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from random import Random

import numpy as np

from kschedctl.admission.node_selector import SELECTOR
from kschedctl.admission.tolerations import DEFAULTS_ANNOTATION, WHITELIST_ANNOTATION
from kschedctl.api.arrays import Bools, Position, find_positions
from kschedctl.api.copying import replace
from kschedctl.api.garbage import collect_garbage_at_end
from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.failures.certain_outcomes import schedule_until_certain
from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.commands.whatif.one_more_node import build_scenario_with_enough_nodes
from kschedctl.errors import UsageError
from kschedctl.replay.before_deletion import find_healthy_lost_pods, report_pods_before_deletion
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.job_failures import JobFailures, find_job_name
from kschedctl.replay.edits import (
    find_nodes_with_outdated_priorities,
    get_zone,
    group_nodes,
    is_recreated_elsewhere,
    with_current_priorities,
)
from kschedctl.replay.node_drain import (
    compute_unplaced_spreads,
    count_always_unplaced_pods,
    merge_proven_unplaced_counts,
    shuffle_returning_pods,
)
from kschedctl.replay.parallel import (
    NO_PROGRESS,
    ONE_PROCESS,
    Progress,
    Workers,
    compute_spreads,
    run_tasks,
)
from kschedctl.replay.placements import (
    PodCountFields,
    build_pod_count_fields,
    group_unplaced_pods,
    list_lost_victims,
    list_pods_evicted_elsewhere,
    report_evictions,
)
from kschedctl.replay.pools import find_unready_nodes
from kschedctl.replay.settling import (
    find_ended_pods,
    find_pending_pods_left_out,
    remove_pods_of_failed_jobs,
)
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.volumes import find_pinned_volumes
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import explain_pinned_pods, list_unplaced_evicted_pods
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

_UNITS: Mapping[str, Callable[[Cluster], Mapping[str, Sequence[str]]]] = {
    "node": lambda cluster: {node.metadata.name: [node.metadata.name] for node in cluster.nodes},
    "zone": lambda cluster: group_nodes(cluster, get_zone),
    "pool": lambda cluster: group_nodes(cluster, find_node_pool_name),
}
"""Functions that map each unit of a cluster to the names of its nodes, by kind of unit."""
_MAX_PAIRS = 200_000
"""The maximum number of pairs of units that are simulated."""
_ADMISSION_ANNOTATIONS = frozenset((SELECTOR, DEFAULTS_ANNOTATION, WHITELIST_ANNOTATION))
"""The annotations of namespaces that may make admission deny pods."""


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
    """Find what would no longer fit if any one ``unit`` (node, zone or pool) failed.

    With ``pairs``, any two units fail at once. The report's ``remedy`` is a scenario with enough nodes to withstand the
    worst failure. The other arguments are as for ``drain``. Raises UsageError if no node belongs to such a unit, or if
    there are too few units or too many pairs, and ConfigurationError if the scheduler's configuration is invalid.

    >>> zones = [{"topology.kubernetes.io/zone": zone} for zone in ("a", "b")]
    >>> nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": zone}} for i, zone in enumerate(zones)]
    >>> str(failures(Cluster.from_objects(nodes), "zone"))
    'No zone has pods that its loss would displace (2 failures simulated)'
    """
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = simulate_failures(cluster, unit, pairs=pairs, runs=runs, workers=workers, progress=progress, **options)
    return replace(
        report,
        remedy=_find_scenario_with_enough_nodes(report, cluster, options),
        pending_left_out=find_pending_pods_left_out(Scheduler(cluster, call_extender)),
    )


def _find_scenario_with_enough_nodes(report: Failures, cluster: Cluster, options: SearchOptions) -> JsonObject | None:
    """Return a what-if scenario that adds enough nodes to withstand the worst failure, and then repeats the failure.

    The new nodes resemble the remaining nodes of the pools that the failure hits. Return None if the worst failure
    leaves no pod without a node, if no number of new nodes is enough, or after an interruption.
    """
    worst = report.failures[0] if report.failures else None
    if worst is None or not worst.unplaced or report.interrupted:
        return None
    return build_scenario_with_enough_nodes(
        cluster,
        build_worst_step(report),
        worst.nodes,
        worst.reasons,
        options,
        deletes_nodes=True,
        lost_anyway=worst.lost_pods,
    )


def build_worst_step(report: Failures) -> JsonObject:
    """Build the step of a scenario that repeats the report's worst failure."""
    worst = report.failures[0]
    can_be_named = report.unit in ("zone", "pool")  # a pair is given by its nodes
    return {"fail": {report.unit: worst.name} if can_be_named else {"nodes": list(worst.nodes)}}


@dataclass(frozen=True)
class Loss:
    """Nodes that fail at once."""

    name: str
    nodes: tuple[str, ...]
    seed: int = 0
    shuffled: bool = False
    """True if pods come back in random order."""
    needs_places: bool = False
    """True if the pods are replayed even if it is certain without a replay which of them get a node."""


def list_losses(cluster: Cluster, unit: str, pairs: bool = False) -> list[Loss]:
    """Return the loss of each unit, or of each pair of units if `pairs` is True.

    `unit` is a key of `_UNITS`. Raises UsageError if no node belongs to such a unit, or if there are too few units or
    too many pairs.
    """
    units = _UNITS[unit](cluster)
    if not units:
        raise UsageError(
            f"no node has a {unit}", hint="nodes have no label for it" if cluster.nodes else "there are no nodes"
        )
    if not pairs:
        return [Loss(name, tuple(nodes)) for name, nodes in units.items()]
    if len(units) < 2:
        raise UsageError(f"--pairs needs two {unit}s; there is only one")
    pair_count = comb(len(units), 2)
    if pair_count > _MAX_PAIRS:
        message = f"{pair_count:,} pairs of {unit}s are too many; at most {_MAX_PAIRS:,} can be simulated"
        raise UsageError(message, hint="try pairs of zones or pools")
    return [Loss(f"{a} + {b}", (*units[a], *units[b])) for a, b in combinations(units, 2)]


def simulate_failures(
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
    """Simulate the failure of every unit, and report the failures, the worst first.

    `unit` is a key of `_UNITS`. With `pairs`, any two units fail at once. Each failure is simulated `runs` times. From
    the second run on, the pods come back in random order. Only the worst failure is reported with its pods by name and
    place. Raises UsageError if there is no such unit, and InputError if a pod is invalid.
    """
    shared = SharedCluster(cluster, sampling, call_extender)
    workers = limit_workers(workers, call_extender)
    losses = list_losses(cluster, unit, pairs)
    likely_worst = _guess_worst_loss(shared, losses)
    trials = [
        replace(loss, seed=seed + run, shuffled=run > 0, needs_places=runs > 1 or loss is likely_worst)
        for loss in losses
        for run in range(runs)
    ]
    parts = _count_progress_steps(shared, trials)
    on_done = progress.begin("Rescheduling pods", sum(parts))
    results = run_tasks(simulate_loss, shared, trials, workers, on_done, parts=parts)

    worst_first = sorted(_iter_combined_failures(results.by_task, runs), key=_get_severity_sort_key, reverse=True)
    interrupted = results.interrupted
    lacks_places = bool(worst_first) and not worst_first[0].nodes_changed and runs == 1
    if lacks_places and not interrupted:
        # The outcome was certain without a replay, but only a replay tells the places of the pods.
        worst = next(loss for loss in trials if loss.name == worst_first[0].name)
        replayed = run_tasks(simulate_loss, shared, [replace(worst, needs_places=True)])
        interrupted = replayed.interrupted
        (failure_with_places,) = replayed.by_task
        if failure_with_places is not None:
            worst_first[0] = failure_with_places

    # Only the worst failure is reported with the numbers of pods by place, and with the evicted and lost pods.
    less_severe = (
        replace(failure, zones=(), nodes_changed=(), evicted_pods=(), lost_pods=(), pinned_volumes=(), late_pods=())
        for failure in worst_first[1:]
    )
    reported = [*worst_first[:1], *less_severe]
    covered_nodes = {name for loss in losses for name in loss.nodes}
    return Failures(
        unit=f"pair of {unit}s" if pairs else unit,
        single_unit=unit,
        pairs=pairs,
        scenarios=len(losses),
        safe=all(failure.safe for failure in reported) and not interrupted,
        seed=seed,
        failures=tuple(reported),
        outside=tuple(node.metadata.name for node in cluster.nodes if node.metadata.name not in covered_nodes),
        unready=tuple(
            shared.scheduler.view.nodes.names[row] for row in find_positions(find_unready_nodes(shared.scheduler.view))
        ),
        search_start=describe_search_start(sampling, len(cluster.nodes), seed),
        **build_cluster_basis(merge_unknown_kinds(failure.unknown for failure in reported), shared.scheduler),
        interrupted=interrupted,
        runs=runs,
    )


def _guess_worst_loss(shared: SharedCluster, losses: Sequence[Loss]) -> Loss:
    """Return the loss that is likely to be the worst, which is replayed in full at once. A wrong guess only costs time.

    The likely worst loss displaces the most pods with volumes, which may be confined to the lost nodes. Of several such
    losses, it displaces the most pods.
    """
    view = shared.scheduler.view
    with_claim = view.pods.distinct.mask_templates(
        lambda pod: any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    )
    with_volumes = _count_displaced_pods(shared, losses, with_claim[view.pods.info])
    displaced = _count_displaced_pods(shared, losses, np.ones(len(view.node), np.bool_))
    worst_index = max(range(len(losses)), key=lambda index: (with_volumes[index], displaced[index]))
    return losses[worst_index]


def _count_progress_steps(shared: SharedCluster, losses: Sequence[Loss]) -> list[int]:
    """Return the number of progress steps of each simulation: 1, and 1 more for each displaced pod."""
    every_pod = np.ones(len(shared.scheduler.view.node), np.bool_)
    return [1 + displaced for displaced in _count_displaced_pods(shared, losses, every_pod)]


def _count_displaced_pods(shared: SharedCluster, losses: Sequence[Loss], selected: Bools) -> list[int]:
    """Return how many of the pods in the mask (P,) each loss displaces."""
    view = shared.scheduler.view
    is_recreated, _ = shared.get_cached(_classify_pods)
    is_counted = is_recreated & selected & (view.node >= 0)
    displaced_by_row = np.bincount(view.node[is_counted], minlength=len(view.nodes)).tolist()
    return [sum(displaced_by_row[view.nodes.index[name]] for name in loss.nodes) for loss in losses]


def _get_severity_sort_key(failure: Failure) -> tuple[int, ...]:
    """Return a sort key by severity.

    It has the numbers of unplaced or denied, waiting, evicted, lost, late and displaced pods.
    """
    denied = sum(workload.missing or 0 for workload in failure.not_created)
    return (
        failure.unplaced + denied,
        len(failure.waiting_until_deleted),
        failure.evicted,
        failure.lost,
        failure.late,
        failure.displaced,
    )


def _iter_combined_failures(results: Sequence[Failure | None], runs: int) -> Iterator[Failure]:
    """Yield the combined runs of each loss. A loss of which an interruption left no run is left out.

    `results` has as many entries for each loss as there are runs. An entry is None if its run was not completed.
    """
    for start in range(0, len(results), runs):
        completed_runs = [run for run in results[start : start + runs] if run is not None]
        if completed_runs:
            yield _combine_runs_of_failure(completed_runs)


def _combine_runs_of_failure(runs: Sequence[Failure]) -> Failure:
    """Return the worst of several runs of one failure, with the minimum and maximum numbers over all runs."""
    spreads = compute_spreads([_build_outcome_counts(run) for run in runs])
    return replace(
        max(runs, key=_get_severity_sort_key),
        over_runs=spreads,
        unplaced_over_runs=compute_unplaced_spreads([run.reasons for run in runs]),
        in_no_order=merge_proven_unplaced_counts(run.in_no_order for run in runs),
        unknown=merge_unknown_kinds(run.unknown for run in runs),
    )


def _build_outcome_counts(run: Failure) -> dict[str, int]:
    """Return the failure's counts of unplaced and evicted pods, by their JSON key."""
    return {
        "unplaced": run.unplaced,
        "evicted": run.evicted,
        "unplacedDisplaced": run.unplaced_displaced,
        "unplacedEvicted": run.unplaced_evicted,
    }


def simulate_loss(shared: SharedCluster, loss: Loss) -> Failure:
    """Simulate the loss of nodes: their pods are gone, and recreated pods are scheduled on other nodes.

    Collects garbage at the end. Raises KeyboardInterrupt if the simulation was interrupted.
    """
    with collect_garbage_at_end():
        return _replay_loss(shared, loss)


def _replay_loss(shared: SharedCluster, loss: Loss) -> Failure:
    """Simulate the loss of nodes as `simulate_loss` does, but do not collect garbage at the end."""
    if not shared.get_cached(_find_nodes_with_outdated_priorities).isdisjoint(loss.nodes):
        cluster = with_current_priorities(shared.cluster, loss.nodes)
        shared = SharedCluster(cluster, shared.sampling, shared.call_extender)

    # Find the pods on the lost nodes, and those among them that are recreated.
    view = shared.scheduler.view
    is_recreated, is_bare = shared.get_cached(_classify_pods)
    is_lost_node = np.zeros(len(view.nodes), np.bool_)
    is_lost_node[[view.nodes.index[name] for name in loss.nodes]] = True
    is_on_lost_node = np.append(is_lost_node, False)[view.node]  # pods without a node have row -1
    displaced = find_positions(is_on_lost_node & is_recreated)
    not_created, denied_positions = _find_denied_pods(view, find_positions(is_on_lost_node), displaced)

    # Remove the nodes with their pods, and schedule the recreated pods.
    simulation = Simulation(
        shared.scheduler, view.without_nodes(is_lost_node), seed=loss.seed, sampling=shared.sampling
    )
    simulation.release_reserved_objects(find_positions(is_on_lost_node))
    ended = _end_failed_jobs(simulation, find_positions(is_on_lost_node & shared.get_cached(_find_pods_of_jobs)))
    displaced = [position for position in displaced if position not in ended]
    simulation.budgets.record_evicted_pods(find_healthy_lost_pods(shared, is_lost_node))
    view_without_lost_pods = simulation.view.fork() if loss.shuffled else None
    if loss.shuffled:
        displaced = shuffle_returning_pods(simulation, displaced, Random(loss.seed))
    recreated = [position for position in displaced if position not in denied_positions]
    result = schedule_until_certain(shared, simulation, is_lost_node, recreated, needs_places=loss.needs_places)
    if simulation.interrupted:
        raise KeyboardInterrupt
    ended |= dict.fromkeys(find_ended_pods(simulation))
    outcomes = [outcome for outcome in result.outcomes if outcome.position not in ended]

    # The time before the nodes are deleted, whose replay needs much memory itself
    simulation.placements.drop_cached_answers()
    waiting, late_pods = report_pods_before_deletion(
        shared, is_lost_node, recreated, outcomes, loss.seed, may_wait=not result.hold_before_deletion
    )

    counts_by_place: PodCountFields = {"zones": (), "nodes_changed": ()}
    if result.has_all_places:
        requested_after = np.zeros_like(view.requested)
        requested_after[~is_lost_node] = simulation.view.requested
        counts_by_place = build_pod_count_fields(view, view.requested, requested_after)
    always_unplaced: dict[str, int] = {}
    if view_without_lost_pods is not None:
        always_unplaced = count_always_unplaced_pods(Simulation(shared.scheduler, view_without_lost_pods), outcomes)
    lost = [*find_positions(is_on_lost_node & is_bare), *ended]
    lost_keys = [view.pods.objects[position].key for position in lost]
    lost_victims = [victim for victim in list_lost_victims(simulation) if victim not in lost_keys]
    unplaced = [outcome.position for outcome in outcomes if outcome.row < 0]
    pinned = find_pinned_volumes(view, np.flatnonzero(is_lost_node), [*unplaced, *lost])
    causes = explain_pinned_pods(pinned)
    reasons = group_unplaced_pods(simulation, outcomes, {}, displaced_from=frozenset(loss.nodes), causes=causes)
    ending = find_positions(is_on_lost_node & ~is_recreated & ~is_bare)
    return Failure(
        name=loss.name,
        nodes=loss.nodes,
        displaced=len(displaced),
        unplaced=len(unplaced),
        unplaced_evicted=len(list_unplaced_evicted_pods(reasons)),
        evicted=len(list_pods_evicted_elsewhere(simulation, frozenset(loss.nodes))),
        lost=len(lost) + len(lost_victims),
        lost_victims=len(lost_victims),
        failed_jobs=JobFailures.of(simulation.view.objects).report_failed_jobs(view.cluster),
        ending=sum(find_owner(view.pods.objects[position]).kind in ("DaemonSet", "Node") for position in ending),
        reasons=reasons,
        evicted_pods=report_evictions(simulation),
        waiting_until_deleted=tuple(pod for group in waiting for pod in group.pods),
        waiting_by_rule=waiting,
        late=sum(len(group.pods) for group in late_pods),
        late_pods=late_pods,
        lost_pods=(*lost_keys, *lost_victims),
        pinned_volumes=pinned,
        in_no_order=always_unplaced,
        **counts_by_place,
        unknown=find_simulation_unknowns(simulation),
        not_created=not_created,
    )


def _find_denied_pods(
    view: Fork, lost_pods: Sequence[Position], displaced: Sequence[Position]
) -> tuple[tuple[NotCreated, ...], set[Position]]:
    """Find the displaced pods that the API server does not create again once the lost pods are gone.

    Return a report for each workload with denied pods, and the positions of the denied pods. Only pods in namespaces
    with restrictions are checked.
    """
    cluster = view.cluster
    restricted_namespaces = _find_restricted_namespaces(cluster)
    if not restricted_namespaces:
        return (), set()
    lost_by_position = {}
    for position in lost_pods:
        pod = view.pods.objects[position]
        if pod.metadata.namespace in restricted_namespaces:
            lost_by_position[position] = pod
    recreated_by_position = {
        position: lost_by_position[position] for position in displaced if position in lost_by_position
    }
    admissions = Admissions(cluster, manifests={})
    denials = admissions.replace_pods(lost_by_position.values(), recreated_by_position.values())
    denied_keys = {pod.key for pod, _ in denials}
    reports = admissions.report_by_workload(recreated_by_position.values(), denials)
    denied_positions = {position for position, pod in recreated_by_position.items() if pod.key in denied_keys}
    return tuple(reports), denied_positions


def _find_restricted_namespaces(cluster: Cluster) -> set[str]:
    """Return the namespaces in which a pod that was once admitted may be denied now.

    These namespaces have quotas, LimitRanges or annotations that restrict pods, or are being deleted.
    """
    restricted = {quota.metadata.namespace for quota in cluster.resource_quotas}
    restricted |= {limits.metadata.namespace for limits in cluster.limit_ranges}
    for namespace in cluster.namespaces:
        has_annotations = not _ADMISSION_ANNOTATIONS.isdisjoint(namespace.metadata.annotations)
        if namespace.metadata.deletion_timestamp or has_annotations:
            restricted.add(namespace.metadata.name)
    return restricted


def _find_nodes_with_outdated_priorities(shared: SharedCluster) -> frozenset[str]:
    """Return the nodes with pods that would be recreated with another priority. The shared cluster caches them."""
    return find_nodes_with_outdated_priorities(shared.cluster)


def _end_failed_jobs(simulation: Simulation, lost_pods: Sequence[Position]) -> dict[Position, None]:
    """Count lost pods of Jobs as failed, and remove and return all pods of the Jobs that fail because of them."""
    job_failures = JobFailures.of(simulation.view.objects)
    for position in lost_pods:
        job_failures.record_eviction(simulation.view.pods.objects[position])
    return dict.fromkeys(remove_pods_of_failed_jobs(simulation))


def _find_pods_of_jobs(shared: SharedCluster) -> Bools:
    """Return the mask (P,) of the pods that Jobs control."""
    view = shared.scheduler.view
    return view.pods.where(lambda info: find_job_name(info.pod) is not None)[view.pods.info]


def _classify_pods(shared: SharedCluster) -> tuple[Bools, Bools]:
    """Return two masks (P,): the pods that are recreated elsewhere if their node fails, and the pods without an owner.

    Pods without an owner are lost with their node. Terminating pods are not counted among them.
    """
    view = shared.scheduler.view
    is_recreated = view.pods.where(lambda info: is_recreated_elsewhere(info.pod))
    is_bare = view.pods.where(lambda info: not info.terminating and find_owner(info.pod).kind == "Pod")
    return is_recreated[view.pods.info], is_bare[view.pods.info]
