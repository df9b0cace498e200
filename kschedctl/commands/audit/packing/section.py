"""Fragmentation and packing: free capacity that no pod can use, and nodes that the others could do without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from kschedctl.api.digits import format_significant
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing.emptying import Emptying, Limits, emptying
from kschedctl.commands.audit.packing.report import PackingSection, PoolRoom, PoolSavings, ResourceRoom, StrandedRoom
from kschedctl.commands.audit.packing.stranded import Stranded, stranded
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.replay.pools import Pools, free_resources, reported_amounts, reported_resources
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.plugins.node_unschedulable import REASON as CORDONED
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted

USUAL = Limits(nodes=30, pods=600)
"""What is tried when nothing else is asked for: a few seconds' work in a big cluster."""
MUCH = 0.1
"""From this share of a pool's cpu or memory on stranded capacity is worth a warning."""
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


def packing_section(audited: AuditedCluster, limits: Limits = USUAL) -> PackingSection:
    """What is stranded, and what can be emptied as far as the limits go."""
    view = audited.scheduler.view
    pools = Pools.of(view)
    pending = [view.pods.index[pod.key] for pod in audited.pending if pod.key in view.pods.index]
    room = stranded(audited.scheduler, pools, pending)
    spare = emptying(audited.scheduler, pools, pending, limits, audited.progress)
    rooms, savings = tuple(_rooms(view, pools, room)), tuple(_savings(view, pools, spare))
    return PackingSection(
        title="Fragmentation and packing",
        headline=_headline(view, pools, room, spare),
        pools=rooms,
        typical=room.typical,
        stranded=room.rooms,
        emptied=spare.emptied,
        kept=spare.kept,
        empty=tuple(view.nodes.names[row] for row in spare.empty.tolist()),
        candidates=spare.candidates,
        tried=spare.tried,
        savings=savings,
        **build_verdict(
            (STRANDED, SPARE),
            [*_stranded_findings(rooms, room.rooms), *_spare_findings(rooms, savings, spare)],
            merge_unknown_kinds(
                [
                    [
                        *audited.iter_unread_kinds("Node", "Pod"),
                        *find_simulation_unknowns(room.simulation),
                        *spare.unknown,
                    ]
                ]
            ),
        ),
    )


def _rooms(view: Fork, pools: Pools, room: Stranded) -> Iterator[PoolRoom]:
    """The pools with workers, the largest first."""
    free, workers = free_resources(view), pools.workers[:, None]
    sums = [
        pools.sum_by_pool(by_node * mask)
        for by_node, mask in (
            (view.allocatable, workers),
            (view.requested, workers),
            (free, workers),
            (free, room.nodes[:, None]),
        )
    ]
    nodes = np.bincount(pools.code[pools.workers], minlength=len(pools.names))
    for code in np.argsort(-nodes, kind="stable").tolist():
        resources = tuple(
            ResourceRoom(name, *(int(amounts[code, view.resources[name]]) for amounts in sums))
            for name in reported_resources(view)
            if sums[0][code, view.resources[name]]
        )
        if nodes[code]:
            yield PoolRoom(pools.names[code], int(nodes[code]), resources)


def _savings(view: Fork, pools: Pools, spare: Emptying) -> Iterator[PoolSavings]:
    """By pool, those with most nodes first."""
    rows = [*spare.empty.tolist(), *(view.nodes.index[emptied.node] for emptied in spare.emptied)]
    spared, empty = Counter(pools.code[rows].tolist()), Counter(pools.code[spare.empty].tolist())
    for code, nodes in spared.most_common():
        mine = [row for row in rows if pools.code[row] == code]
        saves = reported_amounts(view, view.allocatable[mine].sum(axis=0))
        yield PoolSavings(pools.names[code], nodes, empty[code], saves)


def _headline(view: Fork, pools: Pools, room: Stranded, spare: Emptying) -> str:
    """What could go, of how many that were tried, and the share of the free cpu and memory that is of no use; short."""
    if not pools.workers.any():
        return "no worker nodes are known"
    free = free_resources(view)
    parts: list[str] = []
    for name in (CPU, MEMORY):
        column = view.resources[name]
        if useless := int(free[room.nodes, column].sum()):
            share = useless / int(free[pools.workers, column].sum())
            parts.append(f"{format_significant(share * 100, 2)} % of {name if parts else f'free {name}'}")
    lost = f"{', '.join(parts)} stranded" if parts else "no free capacity is stranded"
    tried = counted(spare.tried, "node")
    emptied = f"{len(spare.emptied):,} of {tried} tried can go" if spare.tried else ""
    empty = f"{len(spare.empty):,} {'is' if len(spare.empty) == 1 else 'are'} empty" if len(spare.empty) else ""
    return "; ".join(part for part in (lost, emptied, empty) if part)


def _stranded_findings(rooms: Sequence[PoolRoom], lost: Sequence[StrandedRoom]) -> Iterator[Finding]:
    """One of each pool, about cpu and memory."""
    for pool in rooms:
        shares = {
            resource.resource: resource.stranded / resource.allocatable
            for resource in pool.resources
            if resource.stranded
        }
        main = {name: shares[name] for name in (CPU, MEMORY) if name in shares}
        if not main:
            continue
        here = [room for room in lost if room.pool == pool.pool and room.reason != CORDONED]
        most = sorted(main.items(), key=lambda item: -item[1])
        shown = " and ".join(f"{format_significant(share * 100, 3)} % of its {name}" for name, share in most)
        nodes = sum(room.nodes for room in here)
        reasons = ", ".join(dict.fromkeys(room.reason for room in here if room.reason))
        yield STRANDED.build_finding(
            f"Pool {pool.pool}" if pool.pool else "Nodes without a pool",
            f"{shown} is free on {nodes:,} of {counted(pool.nodes, 'node')} that "
            f"{agreeing(nodes, 'takes', 'take')} none of the pods that wait or usually go "
            f"there: {reasons}",
            severity=WARNING if max(main.values()) >= MUCH else NOTE,
        )


def _spare_findings(rooms: Sequence[PoolRoom], savings: Sequence[PoolSavings], spare: Emptying) -> Iterator[Finding]:
    nodes = {pool.pool: pool.nodes for pool in rooms}
    for pool in savings:
        names = [emptied.node for emptied in spare.emptied if emptied.pool == pool.pool]
        moved = sum(emptied.moved for emptied in spare.emptied if emptied.pool == pool.pool)
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
