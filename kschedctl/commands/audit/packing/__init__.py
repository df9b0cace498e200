"""Section "packing": free capacity that no pod can use, and nodes that can be removed.

`stranded` finds the capacity. `emptying` drains nodes on trial with `drains_in_turn`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing.emptying import EmptyingResult, TrialLimits, find_removable_nodes
from kschedctl.commands.audit.packing.report import PackingSection, PoolRoom, PoolSavings, ResourceRoom, StrandedRoom
from kschedctl.commands.audit.packing.stranded import StrandedCapacity, find_stranded_capacity
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.pools import Pools, compute_free_resources, list_reported_resources, select_reported_amounts
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.plugins.node_unschedulable import REASON as CORDONED
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted, format_significant

DEFAULT_LIMITS = TrialLimits(nodes=30, pods=600)
"""The default number of trial drains: a few seconds of work in a large cluster."""
WARNING_SHARE = 0.1
"""The share of a pool's cpu or memory from which stranded capacity is a warning."""
STRANDED = AuditRule(
    "audit-packing-stranded",
    WARNING,
    "Free capacity of a pool that no pod can use",
    "It is on nodes where none of the pods fit that are pending or usually go there: one resource is used up, and what "
    "is left of the others is wasted.",
    "Match nodes to requests: nodes with more of what runs out, or pods that request less of it",
)
SPARE = AuditRule(
    "audit-packing-spare-nodes",
    NOTE,
    "Nodes that can be removed",
    "Everything on them that would have to move fits on other nodes, within disruption budgets.",
    "Drain and remove them; a cluster autoscaler or descheduler does so if it is allowed to",
)


def build_packing_section(audited: AuditedCluster, limits: TrialLimits = DEFAULT_LIMITS) -> PackingSection:
    """Build the section about stranded capacity and removable nodes. `limits` are the limits of the trial drains."""
    view = audited.scheduler.view
    pools = Pools.of(view)
    pending = [view.pods.index[pod.key] for pod in audited.pending if pod.key in view.pods.index]
    stranded = find_stranded_capacity(audited.scheduler, pools, pending)
    emptying = find_removable_nodes(audited.scheduler, pools, pending, limits, audited.progress)
    rooms = tuple(_iter_pool_rooms(view, pools, stranded))
    savings = tuple(_iter_pool_savings(view, pools, emptying))
    unread = [
        *audited.iter_unread_kinds("Node", "Pod"),
        *find_simulation_unknowns(stranded.simulation),
        *emptying.unknown,
    ]
    return PackingSection(
        title="Fragmentation and packing",
        headline=_build_headline(view, pools, stranded, emptying),
        pools=rooms,
        typical=stranded.typical,
        stranded=stranded.rooms,
        emptied=emptying.emptied,
        kept=emptying.kept,
        empty=tuple(view.nodes.names[row] for row in emptying.empty.tolist()),
        candidates=emptying.candidates,
        tried=emptying.tried,
        savings=savings,
        interrupted=emptying.interrupted,
        **build_verdict(
            (STRANDED, SPARE),
            [*_iter_stranded_room_findings(rooms, stranded.rooms), *_iter_spare_findings(rooms, savings, emptying)],
            merge_unknown_kinds([unread]),
        ),
    )


def _iter_pool_rooms(view: Fork, pools: Pools, stranded: StrandedCapacity) -> Iterator[PoolRoom]:
    """Yield how much of each resource is used, free and stranded in each pool with workers, largest pool first."""
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

    Pools without removable nodes are left out.
    """
    removable_rows = [*emptying.empty.tolist(), *(view.nodes.index[emptied.node] for emptied in emptying.emptied)]
    removable_counts = Counter(pools.code[removable_rows].tolist())
    empty_counts = Counter(pools.code[emptying.empty].tolist())
    for code, count in removable_counts.most_common():
        pool_rows = [row for row in removable_rows if pools.code[row] == code]
        saves = select_reported_amounts(view, view.allocatable[pool_rows].sum(axis=0))
        yield PoolSavings(pools.names[code], count, empty_counts[code], saves)


def _build_headline(view: Fork, pools: Pools, stranded: StrandedCapacity, emptying: EmptyingResult) -> str:
    """Return the share of free cpu and memory that is stranded and the numbers of removable nodes, as text."""
    if not pools.workers.any():
        return "no worker nodes are known"
    parts = [_format_stranded_shares(view, pools, stranded)]
    if emptying.tried:
        parts.append(f"{len(emptying.emptied):,} of {counted(emptying.tried, 'node')} tried can be removed")
    empty_count = len(emptying.empty)
    if empty_count:
        parts.append(f"{empty_count:,} {agreeing(empty_count, 'is', 'are')} empty")
    return "; ".join(parts)


def _format_stranded_shares(view: Fork, pools: Pools, stranded: StrandedCapacity) -> str:
    """Return a clause with the stranded shares of free CPU and memory, such as `8% of the free CPU is stranded`.

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
            shares.append(f"{format_significant(share * 100, 2)}% of the free {noun}")
    if not shares:
        return "no free capacity is stranded"
    return f"{' and '.join(shares)} {agreeing(len(shares), 'is', 'are')} stranded"


def _iter_stranded_room_findings(
    rooms: Sequence[PoolRoom], stranded_rooms: Sequence[StrandedRoom]
) -> Iterator[Finding]:
    """Yield a finding for each pool with stranded CPU or memory.

    The finding is a warning if a large share of the pool's CPU or memory is stranded, otherwise a note.
    """
    for pool in rooms:
        shares = {
            room.resource: room.stranded / room.allocatable
            for room in pool.resources
            if room.stranded and room.resource in (CPU, MEMORY)
        }
        if not shares:
            continue
        pool_stranded_rooms = [room for room in stranded_rooms if room.pool == pool.pool and room.reason != CORDONED]
        nodes = sum(room.nodes for room in pool_stranded_rooms)
        reasons = ", ".join(dict.fromkeys(room.reason for room in pool_stranded_rooms if room.reason))

        # The largest share comes first. Small shares need fewer digits.
        shares_text = " and ".join(
            f"{format_significant(shares[name] * 100, 3 if shares[name] >= 0.01 else 2)}% of its {name}"
            for name in sorted(shares, key=lambda name: (-shares[name], name))
        )
        yield STRANDED.build_finding(
            _format_pool_object(pool.pool),
            f"{shares_text} are stranded on {nodes:,} of {counted(pool.nodes, 'node')}: "
            f"none of the pods that are pending or usually go there fits ({reasons})",
            severity=WARNING if max(shares.values()) >= WARNING_SHARE else NOTE,
        )


def _format_pool_object(pool: str) -> str:
    """Return a pool, or the nodes without a pool if the name is empty, as the object of a finding."""
    return f"Pool {pool}" if pool else "Nodes without a pool"


def _iter_spare_findings(
    rooms: Sequence[PoolRoom], savings: Sequence[PoolSavings], emptying: EmptyingResult
) -> Iterator[Finding]:
    """Yield a finding about the removable nodes of each pool: nodes that are empty or can be emptied."""
    node_counts = {pool.pool: pool.nodes for pool in rooms}
    for pool in savings:
        parts, fix = [], ""
        if pool.empty:
            nodes = counted(node_counts[pool.pool], "node")
            verb = agreeing(pool.empty, "runs", "run")
            parts.append(f"{pool.empty:,} of {nodes} {verb} nothing that would have to move")
        emptied_nodes = [emptied for emptied in emptying.emptied if emptied.pool == pool.pool]
        if emptied_nodes:
            moved = counted(sum(emptied.moved for emptied in emptied_nodes), "pod")
            parts.append(f"{counted(len(emptied_nodes), 'node')} can be emptied by moving {moved}")
            fix = "Drain and remove it"
            if len(emptied_nodes) > 1:
                fix = "Drain and remove them one after the other"
        yield SPARE.build_finding(_format_pool_object(pool.pool), "; ".join(parts), fix)
