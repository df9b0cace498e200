"""Rules about the room that workloads need on the nodes, ever or now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.resource_names import PODS, format_amount
from kschedctl.lint.analysis.facts import NODE_PLUGINS, ClusterFacts, PlacementResult, has_room, place_now
from kschedctl.lint.analysis.placement import iter_host_ports, iter_pod_terms
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import SERVING, Workload
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
        unknown = facts.list_unoffered_resources(workload)
        requests = facts.get_requests(workload)
        if not eligible.any() or (eligible & facts.get_nodes_with_room(workload)).any():
            continue
        fits = eligible & has_room(facts.view.allocatable, requests)
        if (unknown or not fits.any() or _is_full_of_fixed_pods(context, requests, fits)) and facts.can_never_schedule(
            workload, (NodeResourcesFit, *NODE_PLUGINS)
        ):
            what = (
                f"no node offers {', '.join(unknown)}" if unknown else _describe_shortage(context, requests, eligible)
            )
            yield workload.problem(("containers",), what)


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
    bare = context.facts.scheduler_with_fixed_pods.view
    columns = [bare.resources[name] for name in context.facts.view.resources if name in bare.resources]
    ours = [context.facts.view.resources[name] for name in context.facts.view.resources if name in bare.resources]
    free = (bare.allocatable - bare.requested)[:, columns]
    return not (candidates & has_room(free, requests[ours])).any()


def _describe_shortage(context: LintContext, requests: Amounts, eligible: Bools) -> str:
    """Return which requests exceed the largest eligible node."""
    view = context.facts.view
    most = view.allocatable[eligible].max(axis=0)
    asked = {name: column for name, column in view.resources.items() if requests[column] and name != PODS}
    beyond = {name: column for name, column in asked.items() if requests[column] > most[column]}
    parts = [
        f"{name} {format_amount(name, int(requests[column]))} of at most {format_amount(name, int(most[column]))}"
        for name, column in (beyond or asked).items()
    ]
    return (
        f"fits on none of {counted(eligible.sum(), 'usable node')}, even without movable pods: requests "
        f"{', '.join(parts)}"
    )


def find_fragmented_room(context: LintContext) -> Iterator[Problem]:
    """Find workloads that lack pods although enough is free in total, but not on one node."""
    facts = context.facts
    for workload in context.workloads:
        eligible = facts.get_eligible_nodes(workload)
        waits = len(facts.list_pod_rows(workload)) < workload.at_least
        if not waits or not eligible.any() or (eligible & facts.get_nodes_with_room(workload)).any():
            continue
        requests, free = facts.get_requests(workload), np.maximum(facts.free_amounts[eligible], 0)
        possible = has_room(facts.view.allocatable[eligible], requests).any() and not facts.list_unoffered_resources(
            workload
        )
        if not possible or (free.sum(axis=0) < requests).any():
            continue
        if facts.get_rejected_nodes(workload, NodeResourcesFit)[eligible].all():
            short = [name for name, c in facts.view.resources.items() if requests[c] > free[:, c].max()]
            message = f"{', '.join(short) or 'what it asks for'} is free in total, but on no single node"
            yield workload.problem(("containers",), message)


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
        wanted, there = facts.get_requests(workload), np.zeros(len(facts), np.bool_)
        there[facts.list_pod_rows(workload)] = True
        if workload.subject.document:
            there[:] = False
        room = facts.free_amounts + _sum_own_requests(context, workload)
        full = facts.get_eligible_nodes(workload) & ~there & ~has_room(room, wanted)
        if full.any():
            nodes = counted(facts.get_eligible_nodes(workload).sum(), "node")
            names = facts.format_node_names(full)
            message = f"no room for it on {full.sum():,} of {nodes} unless it evicts others: {names}"
            yield workload.problem(("containers",), message)


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
    held = np.zeros_like(context.facts.free_amounts)
    pods = context.facts.pods_by_owner.get(workload.owner, ())
    for pod in pods:
        if pod.spec.node_name in view.nodes.index:
            held[view.nodes.index[pod.spec.node_name]] += view.requests[view.pods.info[view.pods.index[pod.key]]]
    return held


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
        yield Subject("Node", first).problem(("status", "allocatable", PODS), message)


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
    explained = {
        problem.subject
        for check in (find_pods_larger_than_any_node, find_fragmented_room)
        for problem in check(context)
    }
    for workload, have, placed in _iter_workloads_without_room(context, lambda workload: workload.at_least):
        if workload.subject not in explained:
            yield workload.problem((), _describe_missing_room(workload.at_least, have + placed.number, placed))


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
    """Return how many replicas find room and what nodes lack: ``5 replicas, but only 3 find room now: 2 stay Pending
    (…)``.
    """
    remaining = wanted - placed_count
    find, stay, evict = (
        (verb + "s" * (n == 1)) for verb, n in (("find", placed_count or 1), ("stay", remaining), ("evict", remaining))
    )
    replicas = (
        f"{counted(wanted, 'replica')}, but {f'only {placed_count:,}' if placed_count else 'none'} {find} room now"
    )
    what = f"{stay} Pending{f' or {evict} others' if placed.preempts else ''}"
    return f"{replicas}: {remaining:,} {what} (nodes that would do: {placed.shortage})"


def find_autoscaler_maximum_without_room(context: LintContext) -> Iterator[Problem]:
    """Find autoscalers whose maximum of replicas does not fit, though the minimum does."""
    for workload, have, placed in _iter_workloads_without_room(context, lambda workload: workload.most or 0):
        if workload.at_least <= have + placed.number:
            message = f"the autoscaler may ask for {workload.most:,} replicas, but only {have + placed.number:,} find"
            yield workload.problem((), f"{message} room now (nodes that would do: {placed.shortage})")


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
    context: LintContext, wanted: Callable[[Workload], int]
) -> Iterator[tuple[Workload, int, PlacementResult]]:
    """Yield workloads without room for as many replicas as ``wanted`` returns.

    Yields the workload, its number of running pods, and the replay of the additional ones.
    """
    facts = context.facts
    have = {
        workload: len(facts.list_pod_rows(workload)) for workload in context.workloads if _is_countable(facts, workload)
    }
    more = {workload: wanted(workload) - there for workload, there in have.items()}
    asked = {
        workload: count
        for workload, count in more.items()
        if count > 0 and not _fits_without_replay(facts, workload, count)
    }
    for workload, placed in place_now(facts, asked).items():
        if placed.shortage and placed.number < asked[workload]:
            yield workload, have[workload], placed


def _is_countable(facts: ClusterFacts, workload: Workload) -> bool:
    """Return whether the workload's pods are long-running and its running pods can be counted."""
    if workload.kind not in SERVING or workload.spec.scheduling_gates or not facts.get_eligible_nodes(workload).any():
        return False
    name = workload.subject.name
    return bool(workload.subject.namespace) or not any(
        o.kind == workload.kind and o.name == name for o in facts.pods_by_owner
    )


def _fits_without_replay(facts: ClusterFacts, workload: Workload, count: int) -> bool:
    """Return whether so many more pods surely fit, as only requests restrict them."""
    spec = workload.spec
    ports = spec.host_network or any(iter_host_ports(workload))
    if ports or spec.topology_spread_constraints or next(iter_pod_terms(workload), None):
        return False
    requests, eligible = facts.get_requests(workload), facts.get_eligible_nodes(workload)
    asked = requests > 0
    fits = (np.maximum(facts.free_amounts[eligible][:, asked], 0) // requests[asked]).min(axis=1).sum()
    return not facts.list_unoffered_resources(workload) and bool(fits >= count)


def _has_node_autoscaler(facts: ClusterFacts) -> bool:
    """Return whether a Cluster Autoscaler or Karpenter seems to run."""
    if facts.get_nodes_with_label(KARPENTER_LABEL).any():
        return True
    return any(name in owner.name for owner in facts.pods_by_owner for name in AUTOSCALER_NAMES)
