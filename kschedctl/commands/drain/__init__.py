"""The command `drain`: where would the pods of these nodes go, and what blocks the drain?

Nodes are drained as `kubectl drain` does, with one or several seeds. All nodes are cordoned first and then drained in
the given order. As with --ignore-daemonsets, --delete-emptydir-data and --force, DaemonSet and static pods stay, and
pods without a controller are lost. A pod that a budget protects does not hold up the others, and is retried as long as
something changes. A replacement counts as healthy as soon as it has a node. If it tolerates the cordon, it may come
back, and then the node is not empty. The pods of a node that is unreachable or not ready stay Terminating. Upstream:
staging/src/k8s.io/kubectl/pkg/drain (v1.36).

The eviction of a node's pods is in `kschedctl/replay/node_drain.py`. Pending pods that can run only on the drained
nodes, whatever room is made elsewhere, are stranded. Other pending pods are left out of the replay. If some of them
get a node, a second replay schedules them before the drain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_health import NodeHealth
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.drain.report import DisplacedWorkload, Drain, HarmAfterPendingPods, QuotaOutcome
from kschedctl.commands.whatif.one_more_node import build_scenario_with_enough_nodes
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.budget_fixes import choose_budget_fix, find_pods_without_node
from kschedctl.replay.controllers.budget_statuses import with_current_budget_statuses
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.edits import cordon_nodes, find_node_names, is_recreated_elsewhere, with_current_priorities
from kschedctl.replay.eviction_harms import find_eviction_harms
from kschedctl.replay.node_drain import (
    NodeDrain,
    compute_unplaced_spreads,
    count_always_unplaced_pods,
    iter_moved_pods,
    iter_pod_homes,
    merge_proven_unplaced_counts,
    render_drain,
)
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, compute_spreads, run_seeds
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.placements import (
    build_pod_count_fields,
    compute_headroom,
    find_violated_budgets,
    group_unplaced_pods,
    list_lost_victims,
    list_pods_evicted_elsewhere,
    report_evictions,
    summarize_evictions,
)
from kschedctl.replay.pools import find_unready_nodes
from kschedctl.replay.settling import find_pending_pods_left_out, settle
from kschedctl.replay.shared_cluster import SharedCluster, build_cluster_basis, describe_search_start, limit_workers
from kschedctl.replay.terminating_pods import find_down_nodes
from kschedctl.replay.unknown import build_unknown_fields, find_simulation_unknowns, merge_unknown_kinds
from kschedctl.replay.volumes import find_pinned_volumes
from kschedctl.reports.placements import PendingLeftOut, UnplacedPods, explain_pinned_pods, select_displaced_pods
from kschedctl.reports.unknown import ClusterBasis
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import first_few


def drain(
    cluster: Cluster,
    nodes: Sequence[str] = (),
    *,
    selector: str = "",
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Drain:
    """Find where the pods of these nodes would go, and what blocks the drain.

    The nodes are those in `nodes` and those that match the label `selector`. `seed` decides ties, and `runs` is the
    number of consecutive seeds to try, beginning with `seed`. With `sampling`, the scheduler looks at as many nodes as
    it really would. `call_extender` is as for `explain` and limits the runs to one process. Several runs are
    distributed to `workers`.

    The report's `drain_first` has other nodes if the drain is safe once these are drained first. Otherwise, if the
    drain leaves pods without a node, `remedy` is a scenario for `whatif` that adds enough nodes, if one was found.

    Raises UsageError for unknown nodes, ConfigurationError for an invalid configuration of the scheduler, and
    KeyboardInterrupt if the user interrupts before the first of several runs ends.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> kschedctl.drain(kschedctl.Cluster.from_objects([node]), ["n1"]).safe
    True
    """
    node_names = find_node_names(cluster, list(nodes), selector)
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = drain_nodes(cluster, node_names, runs=runs, workers=workers, progress=progress, **options)
    if report.interrupted:
        return report
    cordoned = Scheduler(cordon_nodes(cluster, node_names), call_extender)
    left_out = find_pending_pods_left_out(cordoned)
    if left_out.pods and left_out.fitting is None and not cordoned.extenders:  # the user interrupted
        return replace(report, pending_left_out=left_out, safe=False, drained=False, interrupted=True)
    harm = _find_harm_after_pending_pods(cluster, report, left_out, options)
    if harm is None:
        return replace(report, pending_left_out=left_out, safe=False, drained=False, interrupted=True)
    report = replace(
        report,
        pending_left_out=left_out,
        harm_after_pending_pods=harm,
        safe=report.safe and harm == HarmAfterPendingPods(),
    )
    drain_first = _find_nodes_to_drain_first(cluster, report, options)
    if drain_first:  # no other remedy is needed
        return replace(report, drain_first=drain_first)
    return replace(
        report,
        unplaced_without_budgets=_find_pods_unplaced_without_budgets(cluster, report, options),
        remedy=_find_scenario_with_enough_nodes(cluster, report, options),
    )


def _find_harm_after_pending_pods(
    cluster: Cluster, report: Drain, left_out: PendingLeftOut, options: SearchOptions
) -> HarmAfterPendingPods | None:
    """Find the harm that the drain does only if the pending pods are scheduled first, as `whatif` does.

    The drain is replayed a second time, but only if pending pods get a node. What happens to pods that are pending now
    does not count as harm, and neither does what the pending pods do without the drain. Return None if the user
    interrupts, since the harm is then unknown.
    """
    if not left_out.may_take_room:
        return HarmAfterPendingPods()
    settled = settle(cluster, **options)
    if settled.interrupted:
        return None
    settled_cluster = with_current_budget_statuses(settled.cluster, before=cluster)
    later_report = drain_nodes(settled_cluster, report.nodes, **options)
    if later_report.interrupted:
        return None

    pending = {pod.key for pod in cluster.unbound_pods()} | settled.waiting.keys()
    unplaced = _list_unplaced_pods(report)
    evicted = {eviction.pod for eviction in select_displaced_pods(report.evicted)}
    blocked = {blocked.pod for blocked in report.blocked}
    newly_unplaced = [pod for pod in _list_unplaced_pods(later_report) if pod not in {*pending, *unplaced}]
    lost = {*report.lost, *report.lost_victims}
    newly_lost = [pod for pod in (*later_report.lost, *later_report.lost_victims) if pod not in {*pending, *lost}]
    newly_evicted = dict.fromkeys(eviction.pod for eviction in select_displaced_pods(later_report.evicted))
    return HarmAfterPendingPods(
        blocked=tuple(entry.pod for entry in later_report.blocked if entry.pod not in {*pending, *blocked}),
        unplaced=tuple(newly_unplaced),
        lost=tuple(newly_lost),
        evicted=tuple(pod for pod in newly_evicted if pod not in {*pending, *evicted, *newly_unplaced, *newly_lost}),
    )


def _list_unplaced_pods(report: Drain) -> list[str]:
    """List the keys of the evicted and preempted pods that fit on no other node."""
    return [pod for group in report.unplaced for pod in group.pods]


def _find_nodes_to_drain_first(cluster: Cluster, report: Drain, options: SearchOptions) -> tuple[str, ...]:
    """Find the other nodes whose unhealthy pods keep pods from being evicted.

    A replay verified that this drain is safe once these nodes are drained first. Return () if the drain is still not
    safe, or if no such pod is on another node.
    """
    unhealthy = {pod for blocked in report.blocked for pod in blocked.unhealthy}
    pods = (cluster.pod(*key.split("/", 1)) for key in sorted(unhealthy))
    other_nodes = {pod.spec.node_name: None for pod in pods if pod is not None}
    first = [name for name in other_nodes if name and name not in report.nodes]
    if not first or not drain_nodes(cluster, [*first, *report.nodes], **options).safe:
        return ()
    return tuple(first)


def _find_pods_unplaced_without_budgets(
    cluster: Cluster, report: Drain, options: SearchOptions
) -> tuple[UnplacedPods, ...]:
    """Find the blocked pods that would fit nowhere else if no PodDisruptionBudget denied their eviction.

    Return () if no pod is blocked by a PodDisruptionBudget.
    """
    if not any(pod.budgets for pod in report.blocked):
        return ()
    without_budgets = drain_nodes(replace(cluster, pod_disruption_budgets=()), report.nodes, **options)
    blocked = frozenset(pod.pod for pod in report.blocked)
    groups = (
        replace(group, pods=tuple(pod for pod in group.pods if pod in blocked)) for group in without_budgets.unplaced
    )
    return tuple(group for group in groups if group.pods)


def _find_scenario_with_enough_nodes(cluster: Cluster, report: Drain, options: SearchOptions) -> JsonObject | None:
    """Find a scenario in which additional nodes take all pods of the drained nodes.

    Return None if the drain leaves no pod without a node, or if no such scenario was found.
    """
    if not report.unplaced:
        return None
    return build_scenario_with_enough_nodes(
        cluster,
        {"drain": {"nodes": list(report.nodes)}},
        report.nodes,
        report.unplaced,
        options,
        deletes_nodes=False,
        lost_anyway=(*report.lost, *report.lost_victims),
    )


@dataclass(eq=False)
class _CordonedNodes(SharedCluster):
    """A cluster whose nodes to drain are cordoned."""

    nodes: Sequence[str] = ()
    """The names of the nodes to drain."""
    sequential_seed: int = 0
    """The seed with which pods are evicted one by one. With other seeds, pods are evicted in parallel, and their
    replacements arrive in random order.
    """


def drain_nodes(
    cluster: Cluster,
    nodes: Sequence[str],
    *,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> Drain:
    """Drain nodes with one or several seeds, and report on the first run, with the spread over all runs.

    The drain is safe only if it is safe in every run. Raises UsageError for an unknown node, InputError and
    ConfigurationError for invalid input, and KeyboardInterrupt if the user interrupts before a run ends.
    """
    nodes = find_node_names(cluster, nodes)
    cordoned_cluster = with_current_priorities(cordon_nodes(cluster, nodes), nodes)
    shared = _CordonedNodes(cordoned_cluster, sampling, call_extender, nodes=nodes, sequential_seed=seed)
    workers = limit_workers(workers, call_extender)
    if runs == 1:
        return _drain_once(shared, seed, progress)
    results = run_seeds(_drain_once, shared, range(seed, seed + runs), workers, progress)
    drains, interrupted = results.completed, results.interrupted
    if not drains:
        raise KeyboardInterrupt
    return replace(
        drains[0],
        safe=not interrupted and all(report.safe for report in drains),
        drained=not interrupted and all(report.drained for report in drains),
        runs=len(drains),
        over_runs=compute_spreads([_build_outcome_counts(report) for report in drains]),
        unplaced_over_runs=compute_unplaced_spreads([report.unplaced for report in drains]),
        in_no_order=merge_proven_unplaced_counts(report.in_no_order for report in drains),
        interrupted=interrupted,
        **build_unknown_fields(merge_unknown_kinds(report.unknown for report in drains)),
    )


def _build_outcome_counts(report: Drain) -> dict[str, int]:
    """Return the drain's count of pods with each outcome, by the outcome's JSON key."""
    return {
        "moved": len(report.list_pods_moved_off_nodes()),
        "unplaced": sum(len(group.pods) for group in report.unplaced),
        "blocked": len(report.blocked),
        "lost": len(report.lost),
        "returned": len(report.returned),
        "evicted": len(select_displaced_pods(report.evicted)),
    }


def _drain_once(shared: _CordonedNodes, seed: int, progress: Progress = NO_PROGRESS) -> Drain:
    """Drain the nodes with one seed: one pod after the other with `sequential_seed`, otherwise in random order.

    An interrupted drain gives a partial report.
    """
    simulation = Simulation(shared.scheduler, seed=seed, sampling=shared.sampling)
    before = simulation.view.requested.copy()
    random_order = None if seed == shared.sequential_seed else Random(seed)
    node_drain = NodeDrain(simulation, shared.nodes, random_order, Admissions(shared.cluster, manifests={}))
    evictable = list(node_drain.evictable)
    evictable_pods = [simulation.view.pods.objects[position] for position in evictable]
    terminating = [pod for pod in evictable_pods if _is_terminating(pod)]
    nominated = _find_nominated_pods(simulation, shared.nodes)
    stranded = _find_stranded_pods(simulation, shared.nodes, shared.cluster.unbound_pods())
    node_drain.run(progress.begin("Draining", len(node_drain.evictable)))

    # What becomes of the pods
    pods = simulation.view.pods.objects
    evicted_pods = [pods[position] for position in evictable if position not in node_drain.evictable]
    unplaced = [outcome for outcome in node_drain.outcomes.values() if not outcome.is_placed]
    evicted = report_evictions(simulation)
    blocked = tuple(node_drain.report_blocked_pods())
    returned = tuple(pods[position].key for position in node_drain.find_returned_pods())
    rows = np.array([simulation.view.nodes.index[name] for name in shared.nodes], np.int64)
    is_drained_node = np.zeros(len(simulation.view.nodes), np.bool_)
    is_drained_node[rows] = True
    pinned = find_pinned_volumes(shared.scheduler.view, rows, evictable)
    lost = [pods[position].key for position in node_drain.lost]
    lost_victims = tuple(victim for victim in list_lost_victims(simulation) if victim not in lost)
    not_created = tuple(node_drain.report_workloads_lacking_pods())
    displaced_workloads = _report_displaced_workloads(
        shared, [pods[position] for position in (*node_drain.outcomes, *node_drain.lost)]
    )
    has_waiting = any(workload.outcome is QuotaOutcome.WAITS for workload in displaced_workloads)
    always_unplaced: dict[str, int] = {}
    if random_order and unplaced:
        always_unplaced = count_always_unplaced_pods(_build_simulation_without_pods(shared, evictable), unplaced)

    # Pods on nodes without a working kubelet do not disappear
    waiting_for_end = [pod for pod in terminating if pod not in evicted_pods]
    down_nodes = find_down_nodes(simulation.view, [*evicted_pods, *waiting_for_end])
    has_unreachable_pods = any(down.health is NodeHealth.UNREACHABLE for down in down_nodes)
    is_unready = find_unready_nodes(simulation.view)

    cluster = shared.scheduler.view.cluster
    is_drained = not any((blocked, returned, simulation.interrupted, has_unreachable_pods))
    has_consequences = any((unplaced, not_created, select_displaced_pods(evicted), node_drain.lost, has_waiting))
    harms_pending_pods = bool(nominated or stranded)
    return Drain(
        nodes=tuple(shared.nodes),
        seed=seed,
        drained=is_drained,
        safe=is_drained and not has_consequences and not harms_pending_pods and not down_nodes,
        moved=tuple(iter_moved_pods(node_drain)),
        unplaced=group_unplaced_pods(
            simulation,
            unplaced,
            {},
            displaced_from=frozenset(shared.nodes),
            causes=explain_pinned_pods(pinned),
        ),
        in_no_order=always_unplaced,
        blocked=blocked,
        delayed=tuple(node_drain.report_delayed_pods()),
        **find_eviction_harms(cluster, evicted_pods, lost)._asdict(),
        evicted=evicted,
        violated_budgets=find_violated_budgets(cluster, evicted),
        evictions=node_drain.evictions_by_node.total(),
        evictions_by_node=dict(node_drain.evictions_by_node),
        lost=tuple(lost),
        without_controller=tuple(
            pods[position].key for position in node_drain.lost if find_owner(pods[position]).kind == "Pod"
        ),
        failed_jobs=JobFailures.of(simulation.view.objects).report_failed_jobs(simulation.scheduler.view.cluster),
        returned=returned,
        staying=node_drain.staying_count,
        terminating=tuple(pod.key for pod in terminating),
        grace_ends=max((pod.metadata.deletion_timestamp or "" for pod in terminating), default=""),
        nominated=nominated,
        stranded=stranded,
        untried=len(node_drain.evictable) - len(blocked),
        headroom=compute_headroom(
            simulation.view, before, ~simulation.view.nodes.unschedulable, drained=is_drained_node | is_unready
        ),
        down_nodes=down_nodes,
        other_unready_nodes=tuple(_iter_other_unready_nodes(shared)),
        **build_pod_count_fields(simulation.view, before, simulation.view.requested),
        search_start=describe_search_start(shared.sampling, len(simulation.view.nodes), seed),
        **_build_report_basis(node_drain),
        interrupted=simulation.interrupted,
        not_created=not_created,
        displaced_workloads=displaced_workloads,
        chain=summarize_evictions(simulation, evicted),
        evicted_elsewhere=list_pods_evicted_elsewhere(simulation, frozenset(shared.nodes)),
        lost_victims=lost_victims,
        pinned_volumes=pinned,
        waiting_in_budgets=find_pods_without_node(
            shared.scheduler.view, dict.fromkeys(key for pod in blocked for key in pod.unhealthy)
        ),
        budget_fixes=_choose_budget_fixes(shared, [pod.pod for pod in blocked]) if blocked else (),
        commands=(_build_drain_command(shared, node_drain),) if is_drained else (),
    )


def _iter_other_unready_nodes(shared: _CordonedNodes) -> Iterator[str]:
    """Yield the names of the unready nodes that are not drained and have pods which controllers recreate elsewhere."""
    view = shared.scheduler.view
    for row in map(Row, np.flatnonzero(find_unready_nodes(view)).tolist()):
        pods = (view.pods.objects[position] for position in view.pods_on(row))
        if view.nodes.names[row] not in shared.nodes and any(is_recreated_elsewhere(pod) for pod in pods):
            yield view.nodes.names[row]


def _build_drain_command(shared: _CordonedNodes, node_drain: NodeDrain) -> str:
    """Build the command that drains the nodes.

    Nodes with pods that can be evicted only once replacements of others run come last, since kubectl finishes one node
    before it begins the next one.
    """
    view = shared.scheduler.view
    pods = [view.pods.objects[position] for name in shared.nodes for position in view.pods_on(view.nodes.index[name])]
    later_nodes = {delayed.node for delayed in node_drain.report_delayed_pods()}
    return render_drain(sorted(shared.nodes, key=lambda name: name in later_nodes), pods)


def _choose_budget_fixes(shared: _CordonedNodes, blocked_pods: Sequence[str]) -> tuple[str, ...]:
    """Return advice for each set of PodDisruptionBudgets that would already deny evicting some of these pods.

    The pods are tried in the cluster as it is before the drain begins, apart from the cordons.
    """
    evictions = Evictions(Simulation(shared.scheduler))
    positions_by_budgets: dict[tuple[str, ...], list[Position]] = {}
    for key in blocked_pods:
        position = Position(evictions.simulation.view.pods.index[key])
        if evictions.find_denial(position):
            positions_by_budgets.setdefault(evictions.find_budgets(position), []).append(position)
    return tuple(
        f"PodDisruptionBudget {first_few(budgets)}: {choose_budget_fix(evictions, positions, budgets)}"
        for budgets, positions in positions_by_budgets.items()
        if budgets
    )


def _is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted, so a drain waits for it without evicting it."""
    return pod.metadata.deletion_timestamp is not None


def _find_nominated_pods(simulation: Simulation, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the pending pods for which preemption reserved one of these nodes."""
    view = simulation.view
    pods = (view.pods.objects[position] for position in view.pods.nominated_positions if not view.has_node(position))
    return tuple(pod.key for pod in pods if pod.status.nominated_node_name in nodes)


def _report_displaced_workloads(shared: _CordonedNodes, pods: Sequence[Pod]) -> tuple[DisplacedWorkload, ...]:
    """Report on Kueue's Workloads to which some of the evicted pods belong. Return () if there are none."""
    if not shared.cluster.kueue_workloads or not pods:
        return ()
    from kschedctl.commands.drain.displaced_workloads import report_displaced_workloads  # noqa: PLC0415 - few clusters

    return report_displaced_workloads(shared.cluster, pods)


def _build_report_basis(node_drain: NodeDrain) -> ClusterBasis:
    """Build the report fields about data that was not read and checks that are not replayed.

    Evicted pods have to be created again, so these fields also cover the admission of their replacements.
    """
    simulation = node_drain.simulation
    recreated_pods = [simulation.view.pods.objects[position] for position in (*node_drain.outcomes, *node_drain.denied)]
    # Quotas and LimitRanges are replayed, but not the rest of admission, since the pods were not read in full
    is_all_admission_replayed = False
    return build_cluster_basis(
        find_simulation_unknowns(simulation, *node_drain.dependencies),
        simulation.scheduler,
        created_pods=(pod.key for pod in recreated_pods),
        replayed={pod.metadata.namespace: is_all_admission_replayed for pod in recreated_pods},
    )


def _build_simulation_without_pods(shared: _CordonedNodes, positions: Sequence[Position]) -> Simulation:
    """Build a simulation without the pods at these positions."""
    simulation = Simulation(shared.scheduler)
    simulation.remove(positions)
    return simulation


def _find_stranded_pods(simulation: Simulation, nodes: Collection[str], pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pending pods that can run on some of these cordoned nodes, but on no other node.

    A node counts as one where the pod can run if only room is missing there. A pod that tolerates the cordon can run on
    the nodes all the same.
    """
    view = simulation.view
    rows = [view.nodes.index[name] for name in nodes]
    pending = (Position(view.pods.index[pod.key]) for pod in pods if is_pending(pod))
    homes = iter_pod_homes(simulation, pending)
    return tuple(home.pod for home in homes if home.cordoned[rows].any() and not home.open.any())
