"""Rules about the room that workloads need on the nodes, ever or now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.resource_names import PODS, format_amount
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.facts import NODE_PLUGINS, ClusterFacts, PlacementResult, has_room, place_additional_pods
from kschedctl.lint.analysis.placement import iter_host_ports, iter_pod_terms
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.resources.amounts import REQUIRED_RESOURCES
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.text.counts import agreeing, counted

IDLE_SHARE = 0.2
"""A node at its pod limit is reported if more than this share of its cpu and memory is free."""


def find_pods_larger_than_any_node(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose requests no eligible node can satisfy, even without movable pods."""
    facts = context.facts
    for workload in context.workloads:
        eligible = facts.get_eligible_nodes(workload)
        unoffered = facts.list_unoffered_resources(workload)
        requests = facts.get_requests(workload)
        if not eligible.any() or (eligible & facts.get_nodes_with_room(workload)).any():
            continue
        fits = eligible & has_room(facts.view.allocatable, requests)
        if not unoffered and fits.any() and not _is_full_of_fixed_pods(context, requests, fits):
            continue
        if facts.can_never_schedule(workload, (NodeResourcesFit, *NODE_PLUGINS)):
            if unoffered:
                message = f"no node offers {', '.join(unoffered)}"
            else:
                message = _describe_shortage(context, requests, eligible)
            yield workload.build_problem(("containers",), message)


RQ_LARGER_THAN_ANY_NODE = Rule(
    "rq-larger-than-any-node",
    ERROR,
    find_pods_larger_than_any_node,
    summary="Requests that no usable node can ever satisfy",
    why="Even with all pods gone that can move, no node has the room; preemption does not help. Proved by replay.",
    fix="Lower the requests, or add larger nodes",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


def _is_full_of_fixed_pods(context: LintContext, requests: Amounts, candidates: Bools) -> bool:
    """Return whether DaemonSet and static pods leave no room for the requests on any of the nodes."""
    fixed_view, view = context.facts.scheduler_with_fixed_pods.view, context.facts.view
    names = [name for name in view.resources if name in fixed_view.resources]
    free = (fixed_view.allocatable - fixed_view.requested)[:, [fixed_view.resources[name] for name in names]]
    return not (candidates & has_room(free, requests[[view.resources[name] for name in names]])).any()


def _describe_shortage(context: LintContext, requests: Amounts, eligible: Bools) -> str:
    """Return which requests exceed the largest eligible node."""
    view = context.facts.view
    largest = view.allocatable[eligible].max(axis=0)
    requested = {name: column for name, column in view.resources.items() if requests[column] and name != PODS}
    excessive = {name: column for name, column in requested.items() if requests[column] > largest[column]}
    parts = []
    for name, column in (excessive or requested).items():
        request, maximum = format_amount(name, int(requests[column])), format_amount(name, int(largest[column]))
        parts.append(f"{name} {request} of at most {maximum}")
    nodes = counted(eligible.sum(), "usable node")
    return f"fits on none of {nodes}, even without movable pods: requests {', '.join(parts)}"


def find_fragmented_room(context: LintContext) -> Iterator[Problem]:
    """Find workloads that lack pods although enough is free in total, but not on one node."""
    facts = context.facts
    for workload in context.workloads:
        eligible = facts.get_eligible_nodes(workload)
        lacks_pods = len(facts.list_pod_rows(workload)) < workload.lowest_replicas
        if not lacks_pods or not eligible.any() or (eligible & facts.get_nodes_with_room(workload)).any():
            continue
        requests, free = facts.get_requests(workload), np.maximum(facts.free_amounts[eligible], 0)
        if facts.list_unoffered_resources(workload) or (free.sum(axis=0) < requests).any():
            continue
        if not has_room(facts.view.allocatable[eligible], requests).any():
            continue
        if facts.get_rejected_nodes(workload, NodeResourcesFit)[eligible].all():
            short = [name for name, c in facts.view.resources.items() if requests[c] > free[:, c].max()]
            message = f"{', '.join(short) or 'what it asks for'} is free in total, but on no single node"
            yield workload.build_problem(("containers",), message)


RQ_FRAGMENTED = Rule(
    "rq-fragmented",
    WARNING,
    find_fragmented_room,
    summary="Enough is free in total, but not on any one node",
    why="The workload lacks pods, and they stay Pending although dashboards show free capacity. Proved by replay.",
    fix="Move small pods together, or add a node",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


def find_daemon_sets_without_room(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets that do not fit on some of their nodes."""
    facts = context.facts
    for workload in context.workloads:
        if workload.kind != "DaemonSet":
            continue
        has_pod = np.zeros(len(facts), np.bool_)
        if not workload.subject.document:  # a manifest may change the requests of running pods
            has_pod[facts.list_pod_rows(workload)] = True
        free = facts.free_amounts + _sum_own_requests(context, workload)
        full = facts.get_eligible_nodes(workload) & ~has_pod & ~has_room(free, facts.get_requests(workload))
        if full.any():
            nodes = counted(facts.get_eligible_nodes(workload).sum(), "node")
            names = facts.format_node_names(full)
            message = f"no room for it on {full.sum():,} of {nodes} unless it evicts others: {names}"
            yield workload.build_problem(("containers",), message)


RQ_DAEMONSET_OVERHEAD = Rule(
    "rq-daemonset-overhead",
    WARNING,
    find_daemon_sets_without_room,
    summary="DaemonSet that does not fit on some of its nodes",
    why="Those nodes stay without it, or ordinary pods are evicted for it.",
    fix="Lower its requests, or give it a priority that makes room",
    source="https://github.com/kubernetes/kubernetes/pull/32677",
    needs_cluster=True,
)


def _sum_own_requests(context: LintContext, workload: Workload) -> Amounts:
    """Return (N, R) what the workload's pods request on each node."""
    view = context.facts.view
    requests = np.zeros_like(context.facts.free_amounts)
    for pod in context.facts.pods_by_owner.get(workload.owner, ()):
        if pod.spec.node_name in view.nodes.index:
            row, info = view.nodes.index[pod.spec.node_name], view.pods.info[view.pods.index[pod.key]]
            requests[row] += view.requests[info]
    return requests


def find_nodes_at_pod_limit(context: LintContext) -> Iterator[Problem]:
    """Find nodes at their pod limit that have much cpu and memory left."""
    view, free = context.facts.view, context.facts.free_amounts
    full = (free[:, view.resources[PODS]] <= 0) & (view.allocatable[:, view.resources[PODS]] > 0)
    for name in REQUIRED_RESOURCES:
        full &= free[:, view.resources[name]] > IDLE_SHARE * view.allocatable[:, view.resources[name]]
    if full.any():
        first = view.nodes.names[int(np.flatnonzero(full)[0])]
        are_at = agreeing(full.sum(), "is at its", "are at their")
        message = f"{counted(full.sum(), 'node')} {are_at} pod limit, with over {IDLE_SHARE:.0%} of cpu and memory free"
        yield Subject("Node", first).build_problem(("status", "allocatable", PODS), message)


RQ_MAX_PODS = Rule(
    "rq-max-pods",
    NOTE,
    find_nodes_at_pod_limit,
    summary="Nodes at their pod limit while cpu and memory are free",
    why="The kubelet's pod limit, 110 by default, is reached first: capacity is paid for and cannot be used.",
    fix="Raise maxPods of the kubelets, or use smaller nodes",
    source=doc.LARGE_CLUSTERS,
    needs_cluster=True,
)


AUTOSCALER_NAMES = ("cluster-autoscaler", "karpenter")
"""Names that the pods of node autoscalers contain."""
KARPENTER_LABEL = "karpenter.sh/nodepool"
"""A label of nodes that Karpenter created."""


def find_replicas_without_room(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose replicas do not all fit now, unless a node autoscaler seems to run."""
    if _has_node_autoscaler(context.facts):
        return
    reported = {problem.subject for problem in find_pods_larger_than_any_node(context)}
    reported |= {problem.subject for problem in find_fragmented_room(context)}
    for workload, running, placed in _iter_workloads_without_room(context, lambda workload: workload.lowest_replicas):
        if workload.subject not in reported:
            yield workload.build_problem(
                (), _describe_missing_room(workload.lowest_replicas, running + placed.number, placed)
            )


RQ_NO_ROOM_NOW = Rule(
    "rq-no-room-now",
    WARNING,
    find_replicas_without_room,
    summary="Not all replicas fit",
    why="The others stay Pending, or preempt other pods. Not reported where a Cluster Autoscaler or Karpenter is "
    "seen. Proved by replay.",
    fix="Lower replicas or requests, or add nodes",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


def _describe_missing_room(wanted: int, placed_count: int, placed: PlacementResult) -> str:
    """Return how many replicas find room and what nodes lack.

    For example ``5 replicas, but only 3 find room now: 2 stay Pending (nodes that would do: 4 Insufficient cpu)``.
    """
    remaining = wanted - placed_count
    placed_text = f"only {placed_count:,} {agreeing(placed_count, 'finds', 'find')}" if placed_count else "none finds"
    consequence = f"{agreeing(remaining, 'stays', 'stay')} Pending"
    if placed.preempts:
        consequence += f" or {agreeing(remaining, 'evicts', 'evict')} others"
    return (
        f"{counted(wanted, 'replica')}, but {placed_text} room now: {remaining:,} {consequence} "
        f"(nodes that would do: {placed.shortage})"
    )


def find_autoscaler_maximum_without_room(context: LintContext) -> Iterator[Problem]:
    """Find autoscalers whose maximum of replicas does not fit, though the minimum does."""
    for workload, running, placed in _iter_workloads_without_room(context, lambda workload: workload.max_replicas or 0):
        with_room = running + placed.number
        if workload.lowest_replicas <= with_room:
            message = f"the autoscaler may ask for {workload.max_replicas:,} replicas, but only {with_room:,} find"
            yield workload.build_problem((), f"{message} room now (nodes that would do: {placed.shortage})")


RQ_HPA_BURST = Rule(
    "rq-hpa-burst",
    NOTE,
    find_autoscaler_maximum_without_room,
    summary="Autoscaler maximum above the room there is",
    why="At peak load replicas stay Pending unless nodes are added in time. Proved by replay.",
    fix="Lower maxReplicas, or make sure that nodes are added",
    source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
    needs_cluster=True,
)


def _iter_workloads_without_room(
    context: LintContext, get_wanted: Callable[[Workload], int]
) -> Iterator[tuple[Workload, int, PlacementResult]]:
    """Yield workloads without room for as many replicas as ``get_wanted`` returns.

    Yields the workload, its number of running pods, and the replay of the additional ones.
    """
    facts = context.facts
    running: dict[Workload, int] = {}
    additional: dict[Workload, int] = {}
    for workload in context.workloads:
        if not _is_countable(facts, workload):
            continue
        running[workload] = len(facts.list_pod_rows(workload))
        count = get_wanted(workload) - running[workload]
        if count > 0 and not _fits_without_replay(facts, workload, count):
            additional[workload] = count
    for workload, placed in place_additional_pods(facts, additional).items():
        if placed.shortage and placed.number < additional[workload]:
            yield workload, running[workload], placed


def _is_countable(facts: ClusterFacts, workload: Workload) -> bool:
    """Return whether the workload's pods are long-running and its running pods can be counted."""
    if (
        workload.kind not in SERVING_KINDS
        or workload.spec.scheduling_gates
        or not facts.get_eligible_nodes(workload).any()
    ):
        return False
    if workload.subject.namespace:
        return True
    # Without a namespace, running pods of an owner of the same name may or may not be the workload's.
    return not any(o.kind == workload.kind and o.name == workload.subject.name for o in facts.pods_by_owner)


def _fits_without_replay(facts: ClusterFacts, workload: Workload, count: int) -> bool:
    """Return whether so many more pods surely fit, as only requests restrict them."""
    spec = workload.spec
    uses_host_ports = spec.host_network or any(iter_host_ports(workload))
    if uses_host_ports or spec.topology_spread_constraints or next(iter_pod_terms(workload), None):
        return False
    requests, eligible = facts.get_requests(workload), facts.get_eligible_nodes(workload)
    requested = requests > 0
    fits = (np.maximum(facts.free_amounts[eligible][:, requested], 0) // requests[requested]).min(axis=1).sum()
    return not facts.list_unoffered_resources(workload) and bool(fits >= count)


def _has_node_autoscaler(facts: ClusterFacts) -> bool:
    """Return whether a Cluster Autoscaler or Karpenter seems to run."""
    if facts.get_nodes_with_label(KARPENTER_LABEL).any():
        return True
    return any(name in owner.name for owner in facts.pods_by_owner for name in AUTOSCALER_NAMES)
