"""Rules about nodes that cannot be drained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Row
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.text.counts import counted, join_words


def find_pods_without_other_node(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with a pod that would fit on no other node after an eviction.

    A replay confirms each case. Workloads that may use only one node are left out.
    """
    facts = context.facts
    for workload in context.workloads:
        pod_rows = facts.list_node_rows_of_pods(workload)
        if workload.kind not in SERVING_KINDS or not pod_rows or facts.get_selected_nodes(workload).sum() < 2:
            continue
        has_room = facts.get_eligible_nodes(workload) & facts.get_nodes_with_room(workload)
        rows_with_room = set(np.flatnonzero(has_room).tolist())
        row = next((row for row in pod_rows if rows_with_room <= {row}), None)  # no other node has room
        if row is not None and _fits_only_on_present_node(context, workload, row):
            yield workload.build_problem((), f"a pod evicted from {facts.view.nodes.names[row]} fits on no other node")


DRAIN_NO_HEADROOM = Rule(
    "drain-no-headroom",
    WARNING,
    find_pods_without_other_node,
    summary="Pods that fit on no other node once evicted",
    why="Even if the PodDisruptionBudget allows the eviction, the replacement pod stays Pending. Verified by replay "
    "on the cluster without the evicted pod.",
    fix="Add capacity, or relax the pods' constraints",
    source="https://github.com/kubernetes-sigs/descheduler/issues/1584",
    needs_cluster=True,
)


def _fits_only_on_present_node(context: LintContext, workload: Workload, row: Row) -> bool:
    """Return whether the workload's pod on this node would fit on no other node if it were evicted.

    The pod is removed and a scheduling cycle is replayed. If no node is feasible, not even the present one, the result
    is True only if the present node is cordoned. Otherwise the pod would not fit anyway, and a drain makes nothing
    worse. Returns False if the replay fails.
    """
    view = context.facts.view.fork()
    pod_keys = {pod.key for pod in context.facts.pods_by_owner[workload.owner]}
    position = next(candidate for candidate in view.pods_on(row) if view.pods.objects[candidate].key in pod_keys)
    view.forget(position)
    cycle = context.facts.replay_cycle(workload, view)
    if cycle is None or cycle.error is not None:
        return False
    feasible_rows = cycle.feasible.tolist()
    if not feasible_rows:
        return bool(view.nodes.unschedulable[row])
    return bool(feasible_rows == [row])


def find_budgets_blocking_each_other(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that allow no disruptions and have pods on the same node.

    A drain of the node has to evict pods of both budgets, and each budget may block the other one's pods. Then no order
    of drains works. Each group of budgets with pods on the same nodes is reported once, at its first budget.
    """
    view = context.facts.view
    budgets_by_row = _find_blocking_budgets(context)
    rows_by_budgets: dict[tuple[Subject, ...], list[int]] = {}
    for row, budgets in budgets_by_row.items():
        if len(budgets) > 1:
            rows_by_budgets.setdefault(tuple(budgets), []).append(row)
    for (first, *others), rows in rows_by_budgets.items():
        names = join_words(["it", *(f"{budget.namespace}/{budget.name}" for budget in others)])
        nodes = f"{counted(len(rows), 'node')} ({join_names([view.nodes.names[row] for row in rows], 1)})"
        all_of_them = "both" if len(others) == 1 else "all"
        message = (
            f"{names} allow no evictions and {all_of_them} cover pods on {nodes}, which cannot be drained in any order"
        )
        yield first.build_problem(("spec",), message)


DRAIN_ORDER_DEADLOCK = Rule(
    "drain-order-deadlock",
    WARNING,
    find_budgets_blocking_each_other,
    summary="Two PodDisruptionBudgets that allow no evictions cover pods on the same nodes",
    why="A drain of such a node has to evict pods of both PodDisruptionBudgets, and neither allows it, so the nodes "
    "cannot be drained in any order.",
    fix="Let at least one of the two PodDisruptionBudgets allow an eviction",
    source=doc.DISRUPTIONS,
    needs_cluster=True,
)


def _find_blocking_budgets(context: LintContext) -> dict[int, list[Subject]]:
    """Return the cluster's PodDisruptionBudgets that allow no disruptions, by the row of each node with a covered pod.

    Budgets with an invalid selector are left out.
    """
    assert context.cluster is not None
    view = context.facts.view
    pods = view.pods
    budgets_by_row: dict[int, list[Subject]] = {}
    for budget in context.cluster.pod_disruption_budgets:
        selector = compile_selector(budget.spec.selector)
        if budget.status.disruptions_allowed > 0 or selector is None:
            continue
        subject = Subject("PodDisruptionBudget", budget.metadata.name, budget.metadata.namespace)
        is_covered = pods.match_infos(selector, frozenset((budget.metadata.namespace,)))[pods.info] & view.mask_placed()
        for row in np.unique(view.node[is_covered]).tolist():
            budgets_by_row.setdefault(row, []).append(subject)
    return budgets_by_row
