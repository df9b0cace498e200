"""PodDisruptionBudgets, and whether nodes can be drained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.objects import PodDisruptionBudget
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import SERVING, Workload, compiled, scaled
from kschedctl.lint.world import World


def covered(world: World) -> Iterator[tuple[Subject, PodDisruptionBudget, list[Workload]]]:
    """Every linted budget with the workloads that it selects."""
    for subject, budget in world.linted("PodDisruptionBudget"):
        selector = compiled(budget.spec.selector)
        yield subject, budget, [] if selector is None else world.selected(subject.namespace or "default", selector)


def zero_disruptions(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        spec = budget.spec
        if spec.max_unavailable in (0, "0%"):
            yield subject.problem(
                ("spec", "maxUnavailable"), f"maxUnavailable {spec.max_unavailable} allows no eviction"
            )
        elif spec.min_available == "100%":
            yield subject.problem(("spec", "minAvailable"), "minAvailable 100% allows no eviction")
        elif isinstance(spec.min_available, int):
            for workload in workloads:
                if len(workloads) == 1 and workload.kind in SERVING and 0 < workload.at_most <= spec.min_available:
                    message = (
                        f"minAvailable {spec.min_available} of {workload.at_most} replicas of "
                        f"{workload.subject} allows no eviction"
                    )
                    yield subject.problem(("spec", "minAvailable"), message)


def over_autoscaler_minimum(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        wanted = budget.spec.min_available
        for workload in workloads:
            if isinstance(wanted, int) and workload.most is not None and workload.at_least <= wanted < workload.at_most:
                message = (
                    f"minAvailable {wanted}, but the autoscaler goes down to {workload.at_least}: then "
                    "nothing can be evicted"
                )
                yield subject.problem(("spec", "minAvailable"), message)


def percent_rounding(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        percent = budget.spec.min_available
        if not isinstance(percent, str) or percent == "100%":
            continue
        for workload in workloads:
            count = workload.at_least
            if workload.kind in SERVING and count and scaled(percent, count, up=True) >= count:
                message = f"{percent} of {count} rounds up to {count}: no pod of {workload.subject} may be evicted"
                yield subject.problem(("spec", "minAvailable"), message)


def overlap(world: World) -> Iterator[Problem]:
    for workload, names in _budgets_of(world).items():
        if len(names) > 1:
            message = (
                f"{len(names)} budgets select its pods ({', '.join(sorted(names))}): "
                "the eviction API refuses all of them"
            )
            yield Problem(workload.subject, (*workload.at, "metadata", "labels"), message)


def selects_nothing(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        namespace, selector = subject.namespace or "default", compiled(budget.spec.selector)
        if workloads or selector is None or not world.all_known("Pod"):
            continue
        if world.cluster is None and not world.by_namespace.get(namespace):
            continue
        if world.cluster is None or not world.facts.view.pods.matching(selector, frozenset((namespace,))).any():
            yield subject.problem(("spec", "selector"), f'"{selector}" selects no pod of namespace {namespace}')


def missing(world: World) -> Iterator[Problem]:
    protected = _budgets_of(world)
    for workload in world.workloads if world.all_known("PodDisruptionBudget") else ():
        if workload.serving and workload not in protected:
            message = f"no budget covers its {workload.at_most} replicas: drains may take all at once"
            yield workload.subject.problem((), message)


def unhealthy_policy(world: World) -> Iterator[Problem]:
    for subject, budget, _ in covered(world):
        if budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow":
            yield subject.problem(("spec",), "pods that are not ready can block a drain for ever")


def arbitrary_controller(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        bare = workloads and all(workload.kind == "Pod" for workload in workloads)
        integer = isinstance(budget.spec.min_available, int)
        if bare and not integer and (budget.spec.min_available or budget.spec.max_unavailable) is not None:
            field = "minAvailable" if budget.spec.min_available is not None else "maxUnavailable"
            yield subject.problem(("spec", field), "for pods without a controller only an integer minAvailable works")


def no_policy(world: World) -> Iterator[Problem]:
    for subject, budget, _ in covered(world):
        spec = budget.spec
        if spec.min_available is None and spec.max_unavailable is None:
            yield subject.problem(("spec",), "neither minAvailable nor maxUnavailable: no eviction is ever allowed")
        elif spec.min_available is not None and spec.max_unavailable is not None:
            yield subject.problem(("spec", "maxUnavailable"), "minAvailable and maxUnavailable exclude each other")


def no_headroom(world: World) -> Iterator[Problem]:
    facts = world.facts
    for workload in world.workloads:
        rows = facts.rows_of(workload)
        if workload.kind not in SERVING or not rows or facts.selected(workload).sum() < 2:
            continue
        room = np.flatnonzero(facts.eligible(workload) & facts.room(workload)).tolist()
        tight = [row for row in dict.fromkeys(rows) if not room or room == [row]]
        if tight and _nowhere_else(world, workload, tight[0]):
            name = facts.view.nodes.names[tight[0]]
            message = f"a pod of it that is evicted from {name} fits on no other node"
            yield workload.problem((), message)


def _nowhere_else(world: World, workload: Workload, row: int) -> bool:
    """Whether its pod that is on this node would fit on no other, by a replay without it.

    One that would not come back to this node either fits nowhere at all: that is not a matter of drains.
    """
    view = world.facts.view.fork()
    names = {pod.key for pod in world.facts.owners[workload.owner]}
    position = next(p for p in view.pods_on(row) if view.pods.objects[p].key in names)
    view.forget(position)
    cycle = world.facts.replay(workload, view)
    if cycle is None or cycle.error is not None:
        return False
    feasible = cycle.feasible.tolist()
    return feasible == [row] or (not feasible and bool(view.nodes.unschedulable[row]))


def order_deadlock(world: World) -> Iterator[Problem]:
    assert world.cluster is not None
    view = world.facts.view
    pods = view.pods
    held: dict[int, list[str]] = {}
    for budget in world.cluster.pod_disruption_budgets:
        selector = compiled(budget.spec.selector)
        if budget.status.disruptions_allowed > 0 or selector is None:
            continue
        selected = pods.matching(selector, frozenset((budget.metadata.namespace,)))[pods.info] & (view.node >= 0)
        for row in np.unique(view.node[selected]).tolist():
            held.setdefault(row, []).append(f"{budget.metadata.namespace}/{budget.metadata.name}")
    together: dict[tuple[str, ...], list[int]] = {}
    for row, budgets in held.items():
        if len(budgets) > 1:
            together.setdefault(tuple(budgets), []).append(row)
    for sharing, rows in together.items():
        namespace, _, name = sharing[0].partition("/")
        node = world.facts.view.nodes.names[rows[0]]
        message = (
            f"it and {', '.join(sharing[1:])} allow no eviction and share {len(rows)} nodes ({node}): no "
            "order of drains works"
        )
        yield Subject("PodDisruptionBudget", name, namespace).problem(("spec",), message)


def _budgets_of(world: World) -> dict[Workload, list[str]]:
    """The workloads that are selected by known budgets, with the names of these."""
    found: dict[Workload, list[str]] = {}
    for budget in world.known("PodDisruptionBudget"):
        selector = compiled(budget.spec.selector)
        if selector is not None and not selector.nothing:
            for workload in world.selected(budget.metadata.namespace or "default", selector):
                found.setdefault(workload, []).append(budget.metadata.name)
    return found


RULES = (
    Rule(
        "pdb-zero-disruptions",
        WARNING,
        zero_disruptions,
        summary="Budget that never allows an eviction",
        why="No drain of a node with such a pod ends; upgrades and scale-downs hang.",
        fix="Allow at least one: maxUnavailable: 1",
        source=doc.BUDGETS,
    ),
    Rule(
        "pdb-over-hpa-min",
        WARNING,
        over_autoscaler_minimum,
        summary="minAvailable that the autoscaler's minimum does not exceed",
        why="At the minimum there is nothing to spare, and drains hang in quiet hours.",
        fix="Use maxUnavailable, or raise minReplicas above minAvailable",
        source=doc.BUDGETS,
    ),
    Rule(
        "pdb-percent-rounding",
        WARNING,
        percent_rounding,
        summary="A percentage that rounds up to all replicas",
        why="Percentages are rounded up to pods: with few replicas nothing is left that may be evicted.",
        fix="Use maxUnavailable: 1",
        source=f"{doc.BUDGETS}#rounding-logic-when-specifying-percentages",
    ),
    Rule(
        "pdb-overlap",
        ERROR,
        overlap,
        summary="Pods that more than one budget selects",
        why="The eviction API answers with an error for such pods, so drains never end.",
        fix="Make the selectors disjoint",
        source=f"{doc.BUDGETS}; https://github.com/kubernetes/kubernetes/issues/75957",
    ),
    Rule(
        "pdb-selects-nothing",
        WARNING,
        selects_nothing,
        summary="Budget that selects no pods",
        why="It protects nothing. Checked against the cluster, or where the manifests have workloads in its namespace.",
        fix="Make the selector match the labels of the pod template",
        source=doc.BUDGETS,
    ),
    Rule(
        "pdb-missing",
        NOTE,
        missing,
        summary="Several replicas without a budget",
        why="Drains evict all pods of a node at once; several drains together may take the whole workload down.",
        fix="Add a PodDisruptionBudget with maxUnavailable: 1",
        source=doc.DISRUPTIONS,
    ),
    Rule(
        "pdb-unhealthy-policy",
        NOTE,
        unhealthy_policy,
        summary="Budget without unhealthyPodEvictionPolicy: AlwaysAllow",
        why="By default pods that are not ready may not be evicted while the budget is not met: a crash-looping "
        "workload "
        "blocks drains.",
        fix="Set unhealthyPodEvictionPolicy: AlwaysAllow",
        source=f"{doc.BUDGETS}#unhealthy-pod-eviction-policy",
    ),
    Rule(
        "pdb-arbitrary-controller",
        WARNING,
        arbitrary_controller,
        summary="maxUnavailable or a percentage for bare pods",
        why="Without a controller that has a scale the budget cannot know how many pods there should be, and allows "
        "none.",
        fix="Use an integer minAvailable",
        source=f"{doc.BUDGETS}#arbitrary-controllers-and-selectors",
    ),
    Rule(
        "pdb-no-policy",
        ERROR,
        no_policy,
        summary="Budget with neither, or both, of minAvailable and maxUnavailable",
        why="With neither, no eviction is ever allowed; with both, the API server refuses it.",
        fix="Set one of them: maxUnavailable: 1",
        source=f"{doc.BUDGETS}; pkg/controller/disruption/disruption.go (v1.36)",
    ),
    Rule(
        "drain-no-headroom",
        WARNING,
        no_headroom,
        summary="Pods that fit nowhere else once evicted",
        why="Even where the budget permits it, a drained pod stays Pending. Proved by replay on the cluster without "
        "it.",
        fix="Add room, or loosen what the pods demand of their node",
        source="https://github.com/kubernetes-sigs/descheduler/issues/1584",
        needs_cluster=True,
    ),
    Rule(
        "drain-order-deadlock",
        WARNING,
        order_deadlock,
        summary="Two budgets that allow nothing share nodes",
        why="Each waits for pods that cannot come up until the other lets go: such nodes cannot be drained in any "
        "order.",
        fix="Let at least one of them allow an eviction",
        source=doc.DISRUPTIONS,
        needs_cluster=True,
    ),
)
