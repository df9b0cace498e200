"""How many evictions PodDisruptionBudgets allow."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PodDisruptionBudget
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import SERVING, Workload, compiled, scaled
from kschedctl.lint.world import World


def covered(world: World) -> Iterator[tuple[Subject, PodDisruptionBudget, list[Workload]]]:
    """Every linted budget with the workloads that it selects."""
    for subject, budget in world.linted("PodDisruptionBudget"):
        selector = compiled(budget.spec.selector)
        namespace = subject.namespace or "default"
        yield subject, budget, [] if selector is None else world.selected_beside(subject, namespace, selector)


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
        fewest, most = sum(w.at_least for w in workloads), sum(w.at_most for w in workloads)
        autoscaled = any(workload.most is not None for workload in workloads)
        if isinstance(wanted, int) and autoscaled and fewest <= wanted < most:
            message = f"minAvailable {wanted}, but the autoscaler goes down to {fewest}: then nothing can be evicted"
            yield subject.problem(("spec", "minAvailable"), message)


def percent_rounding(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        percent = budget.spec.min_available
        if not isinstance(percent, str) or percent == "100%":
            continue
        count = sum(workload.at_least for workload in workloads)
        if all(w.kind in SERVING for w in workloads) and count and scaled(percent, count, up=True) >= count:
            whose = f"{workloads[0].subject}" + (f" and {len(workloads) - 1:,} more" if len(workloads) > 1 else "")
            message = f"{percent} of {count} rounds up to {count}: no pod of {whose} may be evicted"
            yield subject.problem(("spec", "minAvailable"), message)


def protects_nothing(world: World) -> Iterator[Problem]:
    for subject, budget, workloads in covered(world):
        field, number = ("maxUnavailable", budget.spec.max_unavailable)
        if budget.spec.min_available in (0, "0%"):
            field, number = ("minAvailable", budget.spec.min_available)
        kept = workloads and all(workload.kind in SERVING for workload in workloads)
        count = sum(workload.at_most for workload in workloads)
        if field == "minAvailable" or number == "100%" or (kept and isinstance(number, int) and number >= count > 1):
            yield subject.problem(("spec", field), f"{field} {number} lets all pods go at once")


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
        "pdb-protects-nothing",
        WARNING,
        protects_nothing,
        summary="Budget that lets all its pods go at once",
        why="A drain of several nodes takes the whole workload down, as if there were no budget.",
        fix="Set maxUnavailable: 1, or remove the budget",
        source=doc.BUDGETS,
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
        profile=RuleProfile.STRICT,
        once=True,
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
)
