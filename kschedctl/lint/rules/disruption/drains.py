"""Rules about nodes that cannot be drained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Row
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.text.counts import counted


def find_pods_without_other_node(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with a pod that would fit on no other node after an eviction."""
    facts = context.facts
    for workload in context.workloads:
        rows = facts.list_pod_rows(workload)
        if workload.kind not in SERVING_KINDS or not rows or facts.get_selected_nodes(workload).sum() < 2:
            continue
        room = np.flatnonzero(facts.get_eligible_nodes(workload) & facts.get_nodes_with_room(workload)).tolist()
        tight = [row for row in dict.fromkeys(rows) if not room or room == [row]]
        if tight and _fits_only_on(context, workload, tight[0]):
            name = facts.view.nodes.names[tight[0]]
            message = f"a pod evicted from {name} fits on no other node"
            yield workload.build_problem((), message)


DRAIN_NO_HEADROOM = Rule(
    "drain-no-headroom",
    WARNING,
    find_pods_without_other_node,
    summary="Pods that fit nowhere else once evicted",
    why="Even where the budget permits it, a drained pod stays Pending. Proved by replay on the cluster without it.",
    fix="Add capacity, or relax the pods' constraints",
    source="https://github.com/kubernetes-sigs/descheduler/issues/1584",
    needs_cluster=True,
)


def _fits_only_on(context: LintContext, workload: Workload, row: Row) -> bool:
    """Return whether the workload's pod on a node would fit on no other node, by a replay without the pod.

    Returns False if the pod would not fit on its present node either, unless that node is cordoned: a drain does not
    make it worse.
    """
    view = context.facts.view.fork()
    names = {pod.key for pod in context.facts.pods_by_owner[workload.owner]}
    position = next(p for p in view.pods_on(row) if view.pods.objects[p].key in names)
    view.forget(position)
    cycle = context.facts.replay(workload, view)
    if cycle is None or cycle.error is not None:
        return False
    feasible = cycle.feasible.tolist()
    return feasible == [row] or (not feasible and bool(view.nodes.unschedulable[row]))


def find_drain_deadlocks(context: LintContext) -> Iterator[Problem]:
    """Find PDBs that allow no disruptions and cover pods on the same node, which no order of drains can empty."""
    assert context.cluster is not None
    view = context.facts.view
    pods = view.pods
    budgets_on_node: dict[int, list[str]] = {}
    for budget in context.cluster.pod_disruption_budgets:
        selector = compile_selector(budget.spec.selector)
        if budget.status.disruptions_allowed > 0 or selector is None:
            continue
        selected = pods.matching(selector, frozenset((budget.metadata.namespace,)))[pods.info] & (view.node >= 0)
        for row in np.unique(view.node[selected]).tolist():
            budgets_on_node.setdefault(row, []).append(f"{budget.metadata.namespace}/{budget.metadata.name}")
    shared_nodes: dict[tuple[str, ...], list[int]] = {}
    for row, budgets in budgets_on_node.items():
        if len(budgets) > 1:
            shared_nodes.setdefault(tuple(budgets), []).append(row)
    for sharing, rows in shared_nodes.items():
        namespace, _, name = sharing[0].partition("/")
        node = context.facts.view.nodes.names[rows[0]]
        message = (
            f"it and {', '.join(sharing[1:])} allow no eviction and share {counted(len(rows), 'node')} ({node}): no "
            "order of drains works"
        )
        yield Subject("PodDisruptionBudget", name, namespace).build_problem(("spec",), message)


DRAIN_ORDER_DEADLOCK = Rule(
    "drain-order-deadlock",
    WARNING,
    find_drain_deadlocks,
    summary="Two budgets that allow nothing share nodes",
    why="Each waits for pods that cannot come up until the other lets go: such nodes cannot be drained in any order.",
    fix="Let at least one of them allow an eviction",
    source=doc.DISRUPTIONS,
    needs_cluster=True,
)
