"""Section "packing": free capacity that no pod can use, and nodes that can be removed.

`stranded` finds the capacity. `emptying` drains nodes on trial with `drains_in_turn`, and finds the workloads whose
need for nodes is not replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing.emptying import (
    EmptyingResult,
    TrialLimits,
    find_removable_nodes,
    find_unreplayed_workloads,
)
from kschedctl.commands.audit.packing.report import (
    EmptiedNode,
    PackingSection,
    PoolRoom,
    PoolSavings,
    ResourceRoom,
    StrandedRoom,
    describe_condition,
)
from kschedctl.commands.audit.packing.stranded import StrandedCapacity, find_stranded_capacity
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.pools import (
    Pools,
    compute_free_resources,
    find_unready_nodes,
    list_reported_resources,
    select_reported_amounts,
)
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.findings import Finding
from kschedctl.reports.summary import EvictionHarms, list_eviction_costs
from kschedctl.scheduler.framework.events import join_words
from kschedctl.scheduler.plugins.node_unschedulable import REASON as CORDONED
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted, first_few, format_significant

DEFAULT_LIMITS = TrialLimits(nodes=30, pods=600)
"""The default number of trial drains: a few seconds of work in a large cluster."""
NEGLIGIBLE_SHARE = 0.01
"""The share of a pool's cpu or memory below which stranded capacity is not a finding."""
WARNING_SHARE = 0.1
"""The share of a pool's cpu or memory from which stranded capacity is a warning."""
STRANDED = AuditRule(
    "audit-packing-stranded",
    WARNING,
    "Free capacity of a pool that no pod can use",
    "None of the pods that are pending or usually run on these nodes fit there. One resource is used up, so the free "
    "part of the others is wasted.",
    "Use nodes with more of the resource that is short relative to the others, or lower the pods' requests for it",
)
USE_SMALLER_NODES = "Use smaller nodes, or relax the rules about other pods: more resources alone would not help"
FIX_OTHER_REASON = "Fix the reason in brackets so that pods can run there"
OR_REMOVE = ", or remove the nodes, which are empty or can be emptied"
UNUSED = AuditRule(
    "audit-packing-unused-pool",
    WARNING,
    "A pool that runs nothing and takes no pod",
    "Its nodes cost money, but neither the pending pods nor those that run in the cluster can use them.",
    "Remove the pool, or change the selectors, tolerations or requests that keep pods away from it",
)
SPARE = AuditRule(
    "audit-packing-spare-nodes",
    NOTE,
    "Nodes that can be removed",
    "All pods that would have to move fit on other nodes, within their disruption budgets.",
    "Drain and remove them; a cluster autoscaler or descheduler does this if it is configured to",
)


def build_packing_section(audited: AuditedCluster, limits: TrialLimits = DEFAULT_LIMITS) -> PackingSection:
    """Build the section about stranded capacity and removable nodes.

    Nodes that are not ready do not take part. If not all pods were read, no node counts as removable. `limits` are the
    limits of the trial drains.
    """
    view = audited.scheduler.view
    all_pools = Pools.from_view(view)
    pools = all_pools._replace(workers=all_pools.workers & ~find_unready_nodes(view))
    pending = [view.pods.index[pod.key] for pod in audited.pending if pod.key in view.pods.index]

    stranded = find_stranded_capacity(audited.scheduler, pools, pending)
    emptying = find_removable_nodes(audited.scheduler, pools, pending, limits, audited.progress)
    if audited.cluster.find_gap("Pod"):  # unread pods may run on any node
        no_rows = np.empty(0, np.int64)
        emptying = emptying._replace(emptied=(), empty=no_rows)

    unreplayed_workloads = find_unreplayed_workloads(audited.scheduler, pending)
    facts = _collect_pool_facts(view, pools, stranded, emptying, unreplayed_workloads)
    rooms = tuple(_iter_pool_rooms(view, pools, stranded))
    savings = tuple(_iter_pool_savings(view, pools, emptying))
    unread = [
        *audited.iter_unread_kinds("Node", "Pod"),
        *find_simulation_unknowns(stranded.simulation),
        *emptying.unknown,
    ]
    return PackingSection(
        title="Fragmentation and packing",
        headline=_build_headline(view, pools, stranded, emptying, unreplayed_workloads),
        pools=rooms,
        typical=stranded.typical,
        stranded=stranded.rooms,
        emptied=emptying.emptied,
        kept=emptying.kept,
        empty=tuple(view.nodes.names[row] for row in emptying.empty.tolist()),
        candidates=emptying.candidates,
        nothing_judged=not pools.workers.any(),
        tried=emptying.tried,
        savings=savings,
        waiting_workloads=unreplayed_workloads,
        interrupted=emptying.interrupted,
        **build_verdict(
            (STRANDED, UNUSED, SPARE),
            _list_findings(rooms, stranded.rooms, savings, emptying, facts),
            merge_unknown_kinds([unread]),
        ),
    )


class PoolFacts(NamedTuple):
    """The facts that decide which pools or nodes may be removed."""

    removable_if_stranded: Set[str]
    """The pools whose stranded nodes can all be removed."""
    closed_by_other_pods: Set[str]
    """The pools on whose stranded nodes rules about other pods reject the typical pods as well."""
    unreplayed_workloads: Sequence[str]
    """The waiting workloads that are not replayed."""


def _collect_pool_facts(
    view: Fork, pools: Pools, stranded: StrandedCapacity, emptying: EmptyingResult, unreplayed_workloads: Sequence[str]
) -> PoolFacts:
    """Collect the facts about pools that several findings need.

    These are the pools all of whose stranded nodes can be removed, the pools where pods would need more than resources,
    and the waiting workloads that are not replayed (`unreplayed_workloads`).
    """
    is_needed = stranded.nodes.copy()
    is_needed[emptying.empty] = False
    is_needed[[view.nodes.index[emptied.node] for emptied in emptying.emptied]] = False
    with_needed_nodes = {pools.names[code] for code in pools.code[is_needed].tolist()}
    lack_only_resources = stranded.nodes & ~stranded.closed_by_other_pods
    return PoolFacts(
        removable_if_stranded=set(pools.names) - with_needed_nodes,
        closed_by_other_pods=set(pools.names)
        - {pools.names[code] for code in pools.code[lack_only_resources].tolist()},
        unreplayed_workloads=unreplayed_workloads,
    )


def _iter_pool_rooms(view: Fork, pools: Pools, stranded: StrandedCapacity) -> Iterator[PoolRoom]:
    """Yield how much of each resource is requested, free and stranded in each pool with workers, largest pool first."""
    free = compute_free_resources(view)
    is_worker = pools.workers[:, None]
    is_stranded = stranded.nodes[:, None]
    # Sum amounts by pool and resource. Nodes that are not workers count as 0.
    allocatable_sums = pools.sum_by_pool(view.allocatable * is_worker)
    requested_sums = pools.sum_by_pool(view.requested * is_worker)
    free_sums = pools.sum_by_pool(free * is_worker)
    stranded_sums = pools.sum_by_pool(free * is_stranded)
    node_counts = np.bincount(pools.code[pools.workers], minlength=len(pools.names))

    for code in np.argsort(-node_counts, kind="stable").tolist():
        if not node_counts[code]:
            continue
        resources = []
        for name in list_reported_resources(view):
            column = view.resources[name]
            if allocatable_sums[code, column]:
                room = ResourceRoom(
                    resource=name,
                    allocatable=int(allocatable_sums[code, column]),
                    requested=int(requested_sums[code, column]),
                    free=int(free_sums[code, column]),
                    stranded=int(stranded_sums[code, column]),
                )
                resources.append(room)
        yield PoolRoom(pools.names[code], int(node_counts[code]), tuple(resources))


def _iter_pool_savings(view: Fork, pools: Pools, emptying: EmptyingResult) -> Iterator[PoolSavings]:
    """Yield the number and resources of the removable nodes of each pool, most removable nodes first.

    Pools without removable nodes are left out. An empty node that has to stay as the last ready node does not count.
    """
    empty_rows = [row for row in emptying.empty.tolist() if view.nodes.names[row] != emptying.last]
    removable_rows = [*empty_rows, *(view.nodes.index[emptied.node] for emptied in emptying.emptied)]
    removable_counts = Counter(pools.code[removable_rows].tolist())
    for code, count in removable_counts.most_common():
        pool_rows = [row for row in removable_rows if pools.code[row] == code]
        saves = select_reported_amounts(view, view.allocatable[pool_rows].sum(axis=0))
        empty_nodes = tuple(view.nodes.names[row] for row in empty_rows if pools.code[row] == code)
        yield PoolSavings(
            pool=pools.names[code], nodes=count, empty=len(empty_nodes), saves=saves, empty_nodes=empty_nodes
        )


def _build_headline(
    view: Fork, pools: Pools, stranded: StrandedCapacity, emptying: EmptyingResult, unreplayed_workloads: Sequence[str]
) -> str:
    """Summarize how many nodes can be removed, and the stranded shares of the free CPU and memory.

    The stranded shares come first if no node can be removed. `unreplayed_workloads` are waiting, and are not replayed.
    If no worker is ready, or if pods were not read, the headline only says so.
    """
    all_workers = Pools.from_view(view).workers
    unready = int((find_unready_nodes(view) & all_workers).sum())
    left_out = f"{counted(unready, 'node')} {agreeing(unready, 'is', 'are')} left out as not ready or not initialized"
    workers = int(pools.workers.sum())
    if not workers:
        return f"no worker node is ready: {left_out}" if unready else "no worker nodes are known"
    if view.cluster.find_gap("Pod"):
        unknown_nodes = f"which of {workers:,} nodes" if workers > 1 else "whether the only node"
        return f"unknown {unknown_nodes} can be removed"

    # An empty node has to stay if it is the last ready one
    is_some_empty_node_removable = len(emptying.empty) > (1 if emptying.last else 0)
    is_removable = is_some_empty_node_removable or bool(emptying.emptied)
    condition = describe_condition(unreplayed_workloads) if is_removable else ""
    removal_parts = _describe_removable_nodes(emptying, workers, condition)
    stranded_part = _format_stranded_shares(view, pools, stranded)
    parts = [*removal_parts, stranded_part] if is_removable else [stranded_part, *removal_parts]
    if unready:
        parts.append(left_out)
    return "; ".join(parts)


def _describe_removable_nodes(emptying: EmptyingResult, workers: int, condition: str) -> list[str]:
    """Describe how many of the `workers` are empty, and how many of the nodes that were tried can be removed.

    Either part is left out if there are no such nodes. `condition` is appended to the last part.
    """
    parts = []
    empty_count = len(emptying.empty)
    if empty_count:
        empty_part = f"{empty_count:,} of {counted(workers, 'node')} {agreeing(empty_count, 'is', 'are')} empty"
        if emptying.last:
            empty_part += f", but {emptying.last} has to stay as the last ready node"
        if condition and not emptying.tried:
            if emptying.last:
                removable = agreeing(empty_count - 1, "the other", "the others")
            else:
                removable = agreeing(empty_count, "it", "they")
            empty_part += f"; {removable} can be removed{condition}"
        parts.append(empty_part)
    if emptying.tried:
        parts.append(f"{_describe_tried_nodes(emptying)}{condition}")
    return parts


def _describe_tried_nodes(emptying: EmptyingResult) -> str:
    """Describe how many of the nodes that were tried can be removed, and which are kept for pending pods."""
    has_empty_nodes = len(emptying.empty) > 0
    noun = agreeing(emptying.tried, "other", "others") if has_empty_nodes else _choose_node_noun(emptying.tried)
    if emptying.tried == 1:
        can = "can" if emptying.emptied else "cannot"
        text = f"the only {'other ' if has_empty_nodes else ''}node checked {can} be removed"
    elif emptying.emptied:
        text = f"{len(emptying.emptied):,} of {emptying.tried:,} {noun} checked can be removed"
    else:
        text = f"none of the {emptying.tried:,} {noun} checked can be removed"
    not_tried = emptying.candidates - emptying.tried
    if not_tried:
        text += f" ({not_tried:,} not tried)"
    needed_nodes = [kept.node for kept in emptying.kept if kept.lets_run]
    if needed_nodes:
        text += f" (kept for pending pods: {first_few(needed_nodes)})"
    return text


def _choose_node_noun(number: int) -> str:
    """Return "node" or "nodes", whichever agrees with the number."""
    return agreeing(number, "node", "nodes")


def _format_stranded_shares(view: Fork, pools: Pools, stranded: StrandedCapacity) -> str:
    """Format the stranded shares of free CPU and memory as a clause, such as `8% of the free CPU is stranded`.

    If neither is stranded, the clause is `no free capacity is stranded`.
    """
    free = compute_free_resources(view)
    shares: list[str] = []
    for name in (CPU, MEMORY):
        column = view.resources[name]
        stranded_amount = int(free[stranded.nodes, column].sum())
        if stranded_amount:
            share = stranded_amount / int(free[pools.workers, column].sum())
            noun = "CPU" if name == CPU else name
            shares.append(f"{_format_share(share)} of the free {noun}")
    if not shares:
        return "no free capacity is stranded"
    return f"{' and '.join(shares)} {agreeing(len(shares), 'is', 'are')} stranded"


def _format_share(share: float) -> str:
    """Format a share in percent with two digits, or as `under 1%`.

    >>> _format_share(0.1234), _format_share(0.004)
    ('12%', 'under 1%')
    """
    return f"{format_significant(share * 100, 2)}%" if share >= NEGLIGIBLE_SHARE else "under 1%"


def _list_findings(
    rooms: Sequence[PoolRoom],
    stranded_rooms: Sequence[StrandedRoom],
    savings: Sequence[PoolSavings],
    emptying: EmptyingResult,
    facts: PoolFacts,
) -> list[Finding]:
    """Return the findings about stranded capacity and removable nodes.

    A pool with a finding that it is unused has no finding about removable nodes.
    """
    stranded = list(_iter_stranded_room_findings(rooms, stranded_rooms, savings, facts))
    unused = {finding.object for finding in stranded if finding.rule == UNUSED.id}
    spare = _iter_spare_findings(rooms, savings, emptying, facts)
    return [*stranded, *(finding for finding in spare if finding.object not in unused)]


def _describe_stranded_shares(shares: Mapping[str, float]) -> str:
    """Describe the stranded shares of a pool's free resources, the largest first.

    >>> _describe_stranded_shares({"memory": 0.04, "cpu": 0.3})
    '30% of its free CPU and 4% of its free memory'
    """
    texts = []
    for resource in sorted(shares, key=lambda name: (-shares[name], name)):
        share = shares[resource]
        percentage = f"{share * 100:.0f}" if share >= NEGLIGIBLE_SHARE else "under 1"
        texts.append(f"{percentage}% of its free {'CPU' if resource == CPU else resource}")
    return " and ".join(texts)


def _iter_stranded_room_findings(
    rooms: Sequence[PoolRoom],
    stranded_rooms: Sequence[StrandedRoom],
    savings: Sequence[PoolSavings],
    facts: PoolFacts,
) -> Iterator[Finding]:
    """Yield a finding for each pool in which at least NEGLIGIBLE_SHARE of the CPU or memory is stranded.

    A pool with only stranded and empty nodes has the finding that it is unused instead.
    """
    for pool in rooms:
        stranded_resources = [room for room in pool.resources if room.stranded and room.resource in (CPU, MEMORY)]
        largest_share = max((room.stranded / room.allocatable for room in stranded_resources), default=0.0)
        if largest_share < NEGLIGIBLE_SHARE:
            continue
        pool_stranded_rooms = [room for room in stranded_rooms if room.pool == pool.pool and room.reason != CORDONED]
        node_count = sum(room.nodes for room in pool_stranded_rooms)
        reasons = tuple(dict.fromkeys(room.reason for room in pool_stranded_rooms if room.reason))
        if node_count == pool.nodes and _is_empty_pool(pool, savings):
            yield _build_unused_pool_finding(pool, reasons, facts.unreplayed_workloads)
        else:
            severity = WARNING if largest_share >= WARNING_SHARE else NOTE
            yield _build_stranded_room_finding(pool, stranded_resources, node_count, reasons, facts, severity=severity)


def _build_stranded_room_finding(
    pool: PoolRoom,
    stranded_resources: Sequence[ResourceRoom],
    node_count: int,
    reasons: Sequence[str],
    facts: PoolFacts,
    *,
    severity: str,
) -> Finding:
    """Build the finding that part of a pool's free CPU or memory is stranded on `node_count` of its nodes.

    If typical pods need more of a resource than is free, the fix is about this resource. If they are kept off the nodes
    only for other reasons, the fix is about these reasons. If rules about other pods keep them off as well, more of the
    resource would not help.
    """
    free = _describe_stranded_shares({room.resource: room.stranded / room.free for room in stranded_resources})
    verb = agreeing(len(stranded_resources), "is", "are")
    nodes_text = f"{node_count:,} of {counted(pool.nodes, 'node')}" if pool.nodes > 1 else "its only node"
    # These are the reasons of NodeResourcesFit
    lacks_resources = not reasons or any(reason.startswith(("Insufficient ", "Too many pods")) for reason in reasons)
    if lacks_resources and pool.pool in facts.closed_by_other_pods:
        reasons_text = ", ".join([*reasons, "and rules about other pods, such as anti-affinity"])
        no_pod_fits = f"no pod that is pending or usually runs in this pool fits ({reasons_text})"
        message = f"{free} {verb} stranded on {nodes_text}: {no_pod_fits}"
        fix = USE_SMALLER_NODES
    elif lacks_resources:
        no_pod_fits = f"no pod that is pending or usually runs in this pool fits ({', '.join(reasons)})"
        message = f"{free} {verb} stranded on {nodes_text}: {no_pod_fits}"
        fix = _advise_on_short_resources(reasons)
    else:
        no_pod_may_go = f"no pod that is pending or usually runs in this pool may go ({', '.join(reasons)})"
        message = f"{free} {verb} on {nodes_text}, where {no_pod_may_go}"
        fix = FIX_OTHER_REASON + (OR_REMOVE if pool.pool in facts.removable_if_stranded else "")
    return STRANDED.build_finding(_format_pool_object(pool.pool), message, fix, severity=severity)


def _advise_on_short_resources(reasons: Sequence[str]) -> str:
    """Return advice on the resources that run out, or "" if the reasons name other limits.

    >>> _advise_on_short_resources(["Insufficient cpu"])
    "Use nodes with more CPU relative to their other resources, or lower the pods' CPU requests"
    """
    resources = [reason.removeprefix(INSUFFICIENT) for reason in reasons if reason.startswith(INSUFFICIENT)]
    if not resources or len(resources) < len(reasons):
        return ""
    short = join_words([resource.upper() if resource == CPU else resource for resource in resources])
    return f"Use nodes with more {short} relative to their other resources, or lower the pods' {short} requests"


INSUFFICIENT = "Insufficient "
"""The start of kube-scheduler's reason that a resource is short."""


def _build_unused_pool_finding(pool: PoolRoom, reasons: Sequence[str], unreplayed_workloads: Sequence[str]) -> Finding:
    """Build the finding that a pool is unused: all its nodes are empty, and no typical pod fits there.

    `reasons` say why no pod fits. `unreplayed_workloads` are waiting, are not replayed, and may need the pool.
    """
    nodes_text = f"its {counted(pool.nodes, 'node')}" if pool.nodes > 1 else "its only node"
    return UNUSED.build_finding(
        _format_pool_object(pool.pool),
        f"unused: {nodes_text} {agreeing(pool.nodes, 'runs', 'run')} nothing that would have to move, "
        f"and no pod that is pending or usually runs in this cluster fits there ({', '.join(reasons)})"
        f"{describe_condition(unreplayed_workloads)}",
    )


def _is_empty_pool(pool: PoolRoom, savings: Sequence[PoolSavings]) -> bool:
    """Return whether nothing on any node of the pool would have to move."""
    return any(saved.pool == pool.pool and saved.empty == pool.nodes for saved in savings)


def _format_pool_object(pool: str) -> str:
    """Return a pool, or the nodes without a pool if the name is empty, as the object of a finding."""
    return f"Pool {pool}" if pool else "Nodes without a pool"


def _iter_spare_findings(
    rooms: Sequence[PoolRoom], savings: Sequence[PoolSavings], emptying: EmptyingResult, facts: PoolFacts
) -> Iterator[Finding]:
    """Yield a finding about the removable nodes of each pool: nodes that are empty or can be emptied."""
    node_counts = {pool.pool: pool.nodes for pool in rooms}
    condition = describe_condition(facts.unreplayed_workloads)
    for pool in savings:
        emptied_nodes = [emptied for emptied in emptying.emptied if emptied.pool == pool.pool]
        parts = []
        if pool.empty:
            empty = _format_empty_nodes(pool.empty, node_counts[pool.pool])
            parts.append(f"{empty} nothing that would have to move: {first_few(pool.empty_nodes)}")
        if emptied_nodes:
            parts.append(f"{_describe_emptied_nodes(emptied_nodes)}{_describe_drain_costs(emptied_nodes)}")

        # The fix for nodes that can be emptied covers the empty nodes as well
        if emptied_nodes:
            removal = "Drain and remove them one after the other" if pool.nodes > 1 else "Drain and remove it"
            fix = f"{removal}{condition}"
        else:
            removal = "Drain and remove them" if pool.empty > 1 else "Drain and remove it"
            fix = f"{removal}{condition}; a cluster autoscaler or descheduler does this if it is configured to"
        yield SPARE.build_finding(_format_pool_object(pool.pool), "; ".join(parts), fix)


def _describe_emptied_nodes(emptied_nodes: Sequence[EmptiedNode]) -> str:
    """Describe which nodes can be emptied, and how many pods would have to move."""
    moved = counted(sum(emptied.moved for emptied in emptied_nodes), "pod")
    node_names = first_few([emptied.node for emptied in emptied_nodes])
    if len(emptied_nodes) == 1:
        return f"node {node_names} can be emptied by moving {moved}"
    return f"{counted(len(emptied_nodes), 'node')} can be emptied by moving {moved}: {node_names}"


def _describe_drain_costs(emptied_nodes: Sequence[EmptiedNode]) -> str:
    """Describe what is lost when these nodes are drained, as a clause.

    Return "" if the drains have no such cost. A pod that moves several times is named once.
    """
    harms = EvictionHarms(
        loses_data=tuple(dict.fromkeys(pod for emptied in emptied_nodes for pod in emptied.loses_data)),
        ask_to_stay=tuple(dict.fromkeys(pod for emptied in emptied_nodes for pod in emptied.ask_to_stay)),
        outages=tuple(dict.fromkeys(workload for emptied in emptied_nodes for workload in emptied.outages)),
        starting_over=tuple(dict.fromkeys(pod for emptied in emptied_nodes for pod in emptied.starting_over)),
        slow_pods={pod: seconds for emptied in emptied_nodes for pod, seconds in emptied.slow_pods.items()},
    )
    costs = list_eviction_costs(harms)
    return f", but this {' and '.join(cost.text for cost in costs)}" if costs else ""


def _format_empty_nodes(empty: int, total: int) -> str:
    """Return the number of a pool's empty nodes with the verb "run".

    >>> _format_empty_nodes(1, 1), _format_empty_nodes(2, 2), _format_empty_nodes(1, 5)
    ('the only node runs', 'both nodes run', '1 of 5 nodes runs')
    """
    if empty < total:
        return f"{empty:,} of {counted(total, 'node')} {agreeing(empty, 'runs', 'run')}"
    if total == 1:
        return "the only node runs"
    return "both nodes run" if total == 2 else f"all {total:,} nodes run"
