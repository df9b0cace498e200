"""Section "packing": free capacity that no pod can use, and nodes that can be removed.

`stranded` finds the capacity. `emptying` drains nodes on trial, by `drains_in_turn` with `emptying_drain`.
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
    "It is on nodes where none of the pods fit that wait or usually go there: one resource is used up, and what is "
    "left of the others is wasted.",
    "Match nodes to requests: nodes with more of what runs out, or pods that request less of it",
)
SPARE = AuditRule(
    "audit-packing-spare-nodes",
    NOTE,
    "Nodes that can be removed",
    "Everything on them that would have to move fits on other nodes, within disruption budgets.",
    "Drain and remove them; a cluster autoscaler or descheduler does so where it may",
)


def build_packing_section(audited: AuditedCluster, limits: TrialLimits = DEFAULT_LIMITS) -> PackingSection:
    """Build the section about stranded capacity and removable nodes. `limits` are for the trial drains."""
    view = audited.scheduler.view
    pools = Pools.of(view)
    pending = [view.pods.index[pod.key] for pod in audited.pending if pod.key in view.pods.index]
    stranded = find_stranded_capacity(audited.scheduler, pools, pending)
    emptying = find_removable_nodes(audited.scheduler, pools, pending, limits, audited.progress)
    rooms, savings = tuple(_iter_pool_rooms(view, pools, stranded)), tuple(_iter_pool_savings(view, pools, emptying))
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
        **build_verdict(
            (STRANDED, SPARE),
            [*_iter_stranded_findings(rooms, stranded.rooms), *_iter_spare_findings(rooms, savings, emptying)],
            merge_unknown_kinds(
                [
                    [
                        *audited.iter_unread_kinds("Node", "Pod"),
                        *find_simulation_unknowns(stranded.simulation),
                        *emptying.unknown,
                    ]
                ]
            ),
        ),
    )


def _iter_pool_rooms(view: Fork, pools: Pools, stranded: StrandedCapacity) -> Iterator[PoolRoom]:
    """Yield the resources of each pool that has workers, the largest pool first."""
    free, workers = compute_free_resources(view), pools.workers[:, None]
    sums = [
        pools.sum_by_pool(by_node * mask)
        for by_node, mask in (
            (view.allocatable, workers),
            (view.requested, workers),
            (free, workers),
            (free, stranded.nodes[:, None]),
        )
    ]
    nodes = np.bincount(pools.code[pools.workers], minlength=len(pools.names))
    for code in np.argsort(-nodes, kind="stable").tolist():
        resources = tuple(
            ResourceRoom(name, *(int(amounts[code, view.resources[name]]) for amounts in sums))
            for name in list_reported_resources(view)
            if sums[0][code, view.resources[name]]
        )
        if nodes[code]:
            yield PoolRoom(pools.names[code], int(nodes[code]), resources)


def _iter_pool_savings(view: Fork, pools: Pools, emptying: EmptyingResult) -> Iterator[PoolSavings]:
    """Yield the removable nodes by pool, the pool with the most of them first."""
    rows = [*emptying.empty.tolist(), *(view.nodes.index[emptied.node] for emptied in emptying.emptied)]
    removable, empty = Counter(pools.code[rows].tolist()), Counter(pools.code[emptying.empty].tolist())
    for code, nodes in removable.most_common():
        pool_rows = [row for row in rows if pools.code[row] == code]
        saves = select_reported_amounts(view, view.allocatable[pool_rows].sum(axis=0))
        yield PoolSavings(pools.names[code], nodes, empty[code], saves)


def _build_headline(view: Fork, pools: Pools, stranded: StrandedCapacity, emptying: EmptyingResult) -> str:
    """Return the share of free cpu and memory that is stranded and the numbers of removable nodes, as text."""
    if not pools.workers.any():
        return "no worker nodes are known"
    free = compute_free_resources(view)
    parts: list[str] = []
    for name in (CPU, MEMORY):
        column = view.resources[name]
        if stranded_amount := int(free[stranded.nodes, column].sum()):
            share = stranded_amount / int(free[pools.workers, column].sum())
            parts.append(f"{format_significant(share * 100, 2)} % of {name if parts else f'free {name}'}")
    stranded_text = f"{', '.join(parts)} stranded" if parts else "no free capacity is stranded"
    tried_nodes = counted(emptying.tried, "node")
    emptied = f"{len(emptying.emptied):,} of {tried_nodes} tried can go" if emptying.tried else ""
    empty_count = len(emptying.empty)
    verb = "is" if empty_count == 1 else "are"
    empty = f"{empty_count:,} {verb} empty" if empty_count else ""
    return "; ".join(part for part in (stranded_text, emptied, empty) if part)


def _iter_stranded_findings(rooms: Sequence[PoolRoom], stranded_rooms: Sequence[StrandedRoom]) -> Iterator[Finding]:
    """Yield a finding about stranded cpu and memory for each pool that has some."""
    for pool in rooms:
        shares = {
            resource.resource: resource.stranded / resource.allocatable
            for resource in pool.resources
            if resource.stranded
        }
        main = {name: shares[name] for name in (CPU, MEMORY) if name in shares}
        if not main:
            continue
        pool_stranded_rooms = [room for room in stranded_rooms if room.pool == pool.pool and room.reason != CORDONED]
        largest_first = sorted(main.items(), key=lambda item: -item[1])
        shares_text = " and ".join(
            f"{format_significant(share * 100, 3)} % of its {name}" for name, share in largest_first
        )
        nodes = sum(room.nodes for room in pool_stranded_rooms)
        reasons = ", ".join(dict.fromkeys(room.reason for room in pool_stranded_rooms if room.reason))
        yield STRANDED.build_finding(
            f"Pool {pool.pool}" if pool.pool else "Nodes without a pool",
            f"{shares_text} is free on {nodes:,} of {counted(pool.nodes, 'node')} that "
            f"{agreeing(nodes, 'takes', 'take')} none of the pods that wait or usually go "
            f"there: {reasons}",
            severity=WARNING if max(main.values()) >= WARNING_SHARE else NOTE,
        )


def _iter_spare_findings(
    rooms: Sequence[PoolRoom], savings: Sequence[PoolSavings], emptying: EmptyingResult
) -> Iterator[Finding]:
    """Yield a finding about removable nodes for each pool that has some."""
    nodes = {pool.pool: pool.nodes for pool in rooms}
    for pool in savings:
        names = [emptied.node for emptied in emptying.emptied if emptied.pool == pool.pool]
        moved = sum(emptied.moved for emptied in emptying.emptied if emptied.pool == pool.pool)
        run = "runs" if pool.empty == 1 else "run"
        parts = [f"{pool.empty:,} of {counted(nodes[pool.pool], 'node')} {run} nothing that would have to move"] * bool(
            pool.empty
        )
        parts += [f"{len(names):,} can be emptied, drained in turn, by moving {counted(moved, 'pod')}"] * bool(names)
        yield SPARE.build_finding(
            f"Pool {pool.pool}" if pool.pool else "Nodes without a pool",
            "; ".join(parts),
            "Drain them in turn, and remove them" if names else "",
        )
