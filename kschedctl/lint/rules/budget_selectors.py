"""Which pods PodDisruptionBudgets select: none, some twice, or not those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kschedctl.api.labels import EVERYTHING, Selector
from kschedctl.lint import documentation as doc
from kschedctl.lint.manifests.objects import Item
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.budgets import covered
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World

_MOST_NAMED = 5
_MOST_COMPARED = 10


def overlap(world: World) -> Iterator[Problem]:
    for workload, budgets in _budgets_of(world).items():
        names = _in_one_cluster(world, workload, budgets)
        if len(names) > 1:
            more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
            named = ", ".join(sorted(names)[:_MOST_NAMED]) + more
            message = f"{len(names)} budgets select its pods ({named}): the eviction API refuses all of them"
            yield Problem(workload.subject, (*workload.at, "metadata", "labels"), message)


def selects_nothing(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        namespace, selector = subject.namespace or "default", compiled(budget.spec.selector)
        if workloads or selector is None or world.selected(namespace, selector):
            continue
        if not world.all_known("Pod") or not world.whole or world.others_own((namespace,)):
            continue
        if subject.namespace and (others := _elsewhere(world, subject, selector)):
            message = f'"{selector}" selects {others[0].subject}, but a budget counts in its own namespace only'
            yield subject.problem(("metadata", "namespace"), message, "Put both into one namespace")
            continue
        if world.cluster is None and not world.by_namespace.get(namespace):
            continue
        if world.cluster is None or not world.facts.view.pods.matching(selector, frozenset((namespace,))).any():
            yield subject.problem(("spec", "selector"), f'"{selector}" selects no pod of namespace {namespace}')


def _elsewhere(world: World, subject: Subject, selector: Selector) -> list[Workload]:
    """The workloads of other namespaces that a selector matches, if it says more than "all"."""
    if world.cluster is not None or not selector.requirements:
        return []
    return [
        found
        for namespace in world.by_namespace
        for found in world.selected_beside(subject, namespace, selector)
        if found.subject.namespace
    ]


def whole_namespace(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        if budget.spec.selector is not None and compiled(budget.spec.selector) == EVERYTHING and len(workloads) > 1:
            message = f"the empty selector selects every pod of the namespace: {len(workloads)} workloads share it"
            yield subject.problem(("spec", "selector"), message)


def missing(world: World) -> Iterator[Problem]:
    protected = _budgets_of(world)
    for workload in world.workloads if world.all_known("PodDisruptionBudget") else ():
        if workload.serving and workload.at_least > 1 and workload not in protected:
            message = f"no budget covers its {workload.range} replicas: drains may take all at once"
            yield workload.subject.problem((), message)


def _in_one_cluster(world: World, workload: Workload, budgets: list[Item]) -> set[str]:
    """The names of the most budgets that are together somewhere, with the workload."""
    if not world.variants:
        return {budget.subject.name for budget in budgets}
    beside = (b.subject for b in budgets if world.variants.together(workload.subject, b.subject))
    return {subject.name for subject in world.variants.largest(list(islice(beside, _MOST_COMPARED)))}


def _budgets_of(world: World) -> dict[Workload, list[Item]]:
    """The workloads that are selected by known budgets, with these."""
    found: dict[Workload, list[Item]] = {}
    for item in world.known_items("PodDisruptionBudget"):
        budget = item.value
        selector = compiled(budget.spec.selector)
        if selector is not None and not selector.nothing:
            for workload in world.selected(budget.metadata.namespace or "default", selector):
                found.setdefault(workload, []).append(item)
    return found


RULES = (
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
        "pdb-whole-namespace",
        WARNING,
        whole_namespace,
        summary="One budget for all pods of a namespace",
        why="The pods of all workloads, Jobs included, are counted together: one workload may lose all of its own.",
        fix="Give each workload a budget of its own",
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
        once=True,
    ),
)
