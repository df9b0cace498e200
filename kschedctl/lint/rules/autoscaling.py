"""NodePools of Karpenter that launch or lose nothing, and pods that Karpenter treats otherwise than kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import SelectorRequirement
from kschedctl.lint.analysis.node_requirements import Conditions, alternatives, equal
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
ENDS = frozenset(("Job", "CronJob", "Pod"))
"""What ends by itself, or is nobody's to run for ever."""
NONE_MAY_GO = ("0", "0%")
SCHEDULING = "https://karpenter.sh/docs/concepts/scheduling/"
DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
_STRICT = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}
"""What Karpenter writes besides Gt and Lt -> the same in these, and by how much their number differs."""


def contradictory(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        asked = Conditions().also(equal(pool.labels)).also(map(_strict, pool.requirements))
        for key in asked.conflicts:
            yield subject.problem(REQUIREMENTS, f"no value of {key} meets all requirements and labels of the pool")


def _strict(requirement: SelectorRequirement) -> SelectorRequirement:
    operator, by = _STRICT.get(requirement.operator, (requirement.operator, 0))
    values = requirement.values or ()
    if not by or len(values) != 1 or not values[0].isdecimal():
        return requirement
    return SelectorRequirement(requirement.key, operator, (str(int(values[0]) + by),))


def too_few_values(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        for at, requirement in enumerate(pool.spec.template.spec.requirements):
            if (
                requirement.operator == "In"
                and requirement.min_values is not None
                and len(requirement.values) < requirement.min_values
            ):
                message = (
                    f"minValues {requirement.min_values} of {requirement.key}, but {len(requirement.values)} values"
                )
                yield subject.problem((*REQUIREMENTS, at, "minValues"), message)


def never_disrupted(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        for at, budget in enumerate(pool.spec.disruption.budgets):
            if str(budget.nodes) in NONE_MAY_GO and not budget.schedule and not budget.reasons:
                yield subject.problem(
                    ("spec", "disruption", "budgets", at), "no node of the pool is ever consolidated or replaced"
                )


def protected_for_ever(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads:
        if workload.annotations.get(DO_NOT_DISRUPT) == "true" and workload.kind not in ENDS:
            path: Path = (*workload.at, "metadata", "annotations", DO_NOT_DISRUPT)
            yield workload.subject.problem(path, f"Karpenter never consolidates a node with a pod of {_name(workload)}")


def several_terms(context: LintContext) -> Iterator[Problem]:
    has_pools = context.linted(WrittenNodePool) or (context.cluster and context.cluster.karpenter_node_pools)
    for workload in context.workloads if has_pools else ():
        count = len(alternatives(workload.spec))
        preferred = workload.spec.affinity and workload.spec.affinity.node_affinity
        if count > 1 and preferred and preferred.preferred_during_scheduling_ignored_during_execution:
            yield workload.problem(
                ("affinity", "nodeAffinity"),
                f"Karpenter tries the first of {count} required terms, and drops it before any preference",
            )


def _name(workload: Workload) -> str:
    return f"{workload.kind} {workload.subject.name}"


RULES = (
    Rule(
        "kp-contradictory",
        ERROR,
        contradictory,
        summary="Requirements of a NodePool that exclude each other",
        why="No instance type meets them: the pool launches nothing, and Karpenter says so only in an event.",
        fix="Remove one of them",
        source=SCHEDULING,
    ),
    Rule(
        "kp-min-values",
        ERROR,
        too_few_values,
        summary="A NodePool that asks for more values than it allows",
        why="The API server refuses the pool.",
        fix="Name more values, or lower minValues",
        source=SCHEDULING,
    ),
    Rule(
        "kp-never-disrupted",
        WARNING,
        never_disrupted,
        summary="A NodePool of which no node may ever go",
        why="A budget of 0 without a schedule forbids consolidation, and drifted nodes are never replaced.",
        fix="Give the budget a schedule, or reasons, or allow a node",
        source=f"{DISRUPTION}#nodepool-disruption-budgets",
    ),
    Rule(
        "kp-do-not-disrupt",
        NOTE,
        protected_for_ever,
        summary="Pods that keep their nodes from Karpenter for ever",
        why="The node is neither consolidated nor, without a terminationGracePeriod, replaced while such a pod runs.",
        fix="Use a PodDisruptionBudget, or a duration such as 4h",
        source=f"{DISRUPTION}#pod-level-controls",
    ),
    Rule(
        "kp-several-terms",
        NOTE,
        several_terms,
        summary="Required node affinity terms that Karpenter drops before preferences",
        why="kube-scheduler takes any of the terms. Karpenter tries one at a time, in the order written, and gives all "
        "but the last up before a preference: the pod may get a node that its preferences would not choose.",
        fix="Put the term that should win first, or use one term",
        source=SCHEDULING,
    ),
)
