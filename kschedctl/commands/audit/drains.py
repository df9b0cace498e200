"""Section "drains": nodes that cannot be drained now, and nodes that should be, since they are not ready but have pods.

PodDisruptionBudgets keep nodes from being drained if they deny the eviction of their pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kschedctl.api.arrays import Position, Row, find_positions
from kschedctl.api.node_health import NodeHealth, get_node_health
from kschedctl.api.ownership import find_owner
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.report import BlockedDrains, DrainsSection, UnreadyNode
from kschedctl.replay.audit_rules import ERROR, WARNING, AuditRule, build_verdict
from kschedctl.replay.controllers.budget_fixes import (
    ALLOW_ONE,
    RUN_ONE_MORE,
    SEPARATE_BUDGETS,
    choose_budget_fix,
    find_strict_budgets,
)
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.eviction_harms import KINDS_NOT_EVICTED
from kschedctl.reports.findings import Finding
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few

UPSTREAM_SOURCE = "pkg/registry/core/pod/storage/eviction.go"
NEVER = AuditRule(
    "audit-drains-never",
    WARNING,
    "A PodDisruptionBudget never allows an eviction",
    "A drain of a node with one of its pods never ends, and neither does an upgrade or a scale-down of the node.",
    ALLOW_ONE,
    source=UPSTREAM_SOURCE,
)
NOW = AuditRule(
    "audit-drains-now",
    WARNING,
    "A PodDisruptionBudget allows no eviction now",
    "A drain of a node with one of its pods hangs until more of its pods are healthy.",
    f"{RUN_ONE_MORE}, and repair pods that are not Ready, if there are any",
    source=UPSTREAM_SOURCE,
)
OVERLAP = AuditRule(
    "audit-drains-overlap",
    WARNING,
    "Several PodDisruptionBudgets select the same pods",
    "The eviction API answers with an error for these pods, so a drain of their nodes never ends.",
    SEPARATE_BUDGETS,
    source=UPSTREAM_SOURCE,
)
UNREADY = AuditRule(
    "audit-drains-unready-node",
    ERROR,
    "A node with pods is not ready",
    "Its pods may not work, and they stay Terminating once they are evicted, so that some are not replaced.",
    "Repair the node. If it does not come back, delete it, so that controllers replace its pods elsewhere",
    source="pkg/controller/nodelifecycle/node_lifecycle_controller.go",
)
RULES = (UNREADY, NEVER, NOW, OVERLAP)


def build_drains_section(audited: AuditedCluster) -> DrainsSection:
    """Build the section about nodes that are not ready but have pods, and about nodes that cannot be drained now.

    Pods of DaemonSets and static pods stay on their node in a drain, so they do not count.
    """
    evictions = Evictions(Simulation(audited.scheduler))
    blocked = tuple(_iter_blocked_drains(evictions))
    budgets = audited.cluster.pod_disruption_budgets
    strict_budgets = find_strict_budgets(evictions)
    unready = tuple(_iter_unready_nodes(evictions.simulation.view))
    return DrainsSection(
        title="Nodes that are not ready, and blocked drains" if unready else "Drains blocked by PodDisruptionBudgets",
        headline=_build_headline(unready, blocked, len(budgets), len(audited.cluster.nodes)),
        unready=unready,
        blocked=blocked,
        nothing_judged=not budgets and not unready,
        **build_verdict(
            RULES,
            [
                *map(_build_unready_finding, unready),
                *(_build_blocked_drains_finding(drains, strict_budgets) for drains in blocked),
            ],
            audited.iter_unread_kinds("PodDisruptionBudget"),
        ),
    )


def _iter_unready_nodes(view: Fork) -> Iterator[UnreadyNode]:
    """Yield the nodes that are not ready and have other pods than those of DaemonSets and static pods."""
    for row, node in enumerate(view.nodes.objects):
        health = get_node_health(node)
        if health is NodeHealth.READY:
            continue
        pods = [view.pods.objects[position] for position in view.pods_on(Row(row))]
        leaving = tuple(pod.key for pod in pods if find_owner(pod).kind not in KINDS_NOT_EVICTED)
        if leaving:
            yield UnreadyNode(node=node.metadata.name, health=health, pods=leaving)


def _iter_blocked_drains(evictions: Evictions) -> Iterator[BlockedDrains]:
    """Yield the pods that cannot be evicted now, with their nodes, grouped by budgets and reason.

    Pods of DaemonSets and static pods are left out. The reason is empty for pods that several budgets select, since the
    eviction API never evicts such pods.
    """
    pods_by_cause: dict[tuple[tuple[str, ...], str], list[Position]] = {}
    objects = evictions.simulation.view.pods.objects
    for position in _find_pods_with_possible_denial(evictions):
        if evictions.find_denial(position) and find_owner(objects[position]).kind not in KINDS_NOT_EVICTED:
            budgets = evictions.find_budgets(position)
            reason = "" if len(budgets) > 1 else evictions.explain_denial_by_budget(position, budgets[0])
            pods_by_cause.setdefault((budgets, reason), []).append(position)

    for (budgets, reason), positions in pods_by_cause.items():
        pods = [objects[position] for position in positions]
        nodes = dict.fromkeys(pod.spec.node_name for pod in pods)
        yield BlockedDrains(
            budgets=budgets,
            reason=reason,
            pods=tuple(pod.key for pod in pods),
            nodes=tuple(sorted(nodes)),
            fix=choose_budget_fix(evictions, positions, budgets),
        )


def _find_pods_with_possible_denial(evictions: Evictions) -> list[Position]:
    """Return the positions of the placed pods that a budget may protect from eviction.

    Such a pod is selected by a budget that allows no disruption now, or by several budgets.
    """
    view = evictions.simulation.view
    budgets = evictions.simulation.budgets
    exhausted_budgets = set(evictions.find_exhausted_budgets())
    budget_count_by_info = np.zeros(len(view.pods.infos), np.int64)
    is_exhausted_info = np.zeros(len(view.pods.infos), np.bool_)
    for name in map(get_budget_key, view.objects.of("PodDisruptionBudget")):
        is_selected_info = budgets.find_selected_pods(name)
        budget_count_by_info += is_selected_info
        if name in exhausted_budgets:
            is_exhausted_info |= is_selected_info
    may_be_denied_info = is_exhausted_info | (budget_count_by_info > 1)
    may_be_denied_pod = may_be_denied_info[view.pods.info]
    return find_positions(may_be_denied_pod & view.mask_placed())


def _build_unready_finding(unready: UnreadyNode) -> Finding:
    """Build the finding about a node that is not ready and has pods."""
    message = f"is {unready.health.adjective} and has {counted(len(unready.pods), 'pod')}: {first_few(unready.pods)}"
    return UNREADY.build_finding(f"Node {unready.node}", message)


def _build_blocked_drains_finding(drains: BlockedDrains, strict_budgets: set[str]) -> Finding:
    """Build the finding about the budgets that keep nodes from being drained.

    Its rule depends on whether several budgets select the same pods, the budget never allows an eviction, or the budget
    allows none now. `strict_budgets` are the budgets that never allow an eviction.
    """
    budget, *other_budgets = drains.budgets
    if other_budgets:
        rule = OVERLAP
        select = agreeing(len(other_budgets), "selects", "select")
        names = join_first_few(other_budgets)
        reason = f"selects pods that {names} also {select}, which the eviction API does not support"
    else:
        rule = NEVER if budget in strict_budgets else NOW
        reason = drains.reason
    message = f"{reason}, so {counted(len(drains.pods), 'pod')} on {join_first_few(drains.nodes)} cannot be evicted"
    namespace, _, _ = budget.partition("/")
    return rule.build_finding(f"PodDisruptionBudget {budget}", message, drains.fix, namespace=namespace)


def _build_headline(
    unready: Sequence[UnreadyNode], blocked: Sequence[BlockedDrains], budget_count: int, node_count: int
) -> str:
    """Return a headline with the names of the unready nodes and the number of nodes that budgets keep from a drain."""
    drains = _describe_blocked_drains(blocked, budget_count, node_count)
    if not unready:
        return drains
    names = join_first_few([node.node for node in unready])
    state = agreeing(len(unready), "is not ready but has pods", "are not ready but have pods")
    return f"{names} {state}; {drains}"


def _describe_blocked_drains(blocked: Sequence[BlockedDrains], budget_count: int, node_count: int) -> str:
    """Return a clause with the number of nodes that cannot be drained now and the number of budgets that block them.

    If the cluster has no budgets, or if they block no drain, the clause says so.
    """
    if not budget_count:
        return "there are no PodDisruptionBudgets"
    if not blocked:
        return f"no drain is blocked now, with {counted(budget_count, 'PodDisruptionBudget')}"
    nodes = {node for drains in blocked for node in drains.nodes}
    budgets = {budget for drains in blocked for budget in drains.budgets}
    cause = counted(len(budgets), "PodDisruptionBudget")
    return f"{len(nodes):,} of {counted(node_count, 'node')} cannot be drained now because of {cause}"
