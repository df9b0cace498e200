"""Rules about PodDisruptionBudgets: how many evictions they allow, and which pods they select."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kschedctl.api.labels import EVERYTHING, Selector
from kschedctl.api.objects import PodDisruptionBudget
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector, resolve_int_or_percent
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile
from kschedctl.text.counts import counted


def find_zero_disruption_budgets(context: LintContext) -> Iterator[Problem]:
    """Find budgets that never allow an eviction."""
    for subject, budget, workloads in context.iter_budgets():
        spec = budget.spec
        if spec.max_unavailable in (0, "0%"):
            yield subject.build_problem(
                ("spec", "maxUnavailable"), f"maxUnavailable {spec.max_unavailable} allows no eviction"
            )
        elif spec.min_available == "100%":
            yield subject.build_problem(("spec", "minAvailable"), "minAvailable 100% allows no eviction")
        elif isinstance(spec.min_available, int):
            for workload in workloads:
                if (
                    len(workloads) == 1
                    and workload.kind in SERVING_KINDS
                    and 0 < workload.highest_replicas <= spec.min_available
                ):
                    message = (
                        f"minAvailable {spec.min_available} of {counted(workload.highest_replicas, 'replica')} of "
                        f"{workload.subject} allows no eviction"
                    )
                    yield subject.build_problem(("spec", "minAvailable"), message)


PDB_ZERO_DISRUPTIONS = Rule(
    "pdb-zero-disruptions",
    WARNING,
    find_zero_disruption_budgets,
    summary="Budget that never allows an eviction",
    why="Draining a node with such a pod never ends; upgrades and scale-downs hang.",
    fix="Allow at least one: maxUnavailable: 1",
    source=doc.BUDGETS,
)


def find_budgets_over_autoscaler_minimum(context: LintContext) -> Iterator[Problem]:
    """Find budgets whose minAvailable is not below the autoscaler's minimum of replicas."""
    for subject, budget, workloads in context.iter_budgets():
        min_available = budget.spec.min_available
        fewest, most = sum(w.lowest_replicas for w in workloads), sum(w.highest_replicas for w in workloads)
        autoscaled = any(workload.max_replicas is not None for workload in workloads)
        if isinstance(min_available, int) and autoscaled and fewest <= min_available < most:
            message = (
                f"minAvailable {min_available}, but the autoscaler may scale down to {fewest}: then nothing can be "
                "evicted"
            )
            yield subject.build_problem(("spec", "minAvailable"), message)


PDB_OVER_HPA_MIN = Rule(
    "pdb-over-hpa-min",
    WARNING,
    find_budgets_over_autoscaler_minimum,
    summary="minAvailable that is not below the autoscaler's minimum",
    why="At the minimum no pod can be spared, and drains hang in quiet hours.",
    fix="Use maxUnavailable, or raise minReplicas above minAvailable",
    source=doc.BUDGETS,
)


def find_percentages_rounded_to_all(context: LintContext) -> Iterator[Problem]:
    """Find budgets whose minAvailable percentage rounds up to all replicas."""
    for subject, budget, workloads in context.iter_budgets():
        percent = budget.spec.min_available
        if not isinstance(percent, str) or percent == "100%":
            continue
        count = sum(workload.lowest_replicas for workload in workloads)
        if (
            all(w.kind in SERVING_KINDS for w in workloads)
            and count
            and resolve_int_or_percent(percent, count, round_up=True) >= count
        ):
            whose = join_names([str(workload.subject) for workload in workloads], 1)
            message = f"{percent} of {count} rounds up to {count}: no pod of {whose} may be evicted"
            yield subject.build_problem(("spec", "minAvailable"), message)


PDB_PERCENT_ROUNDING = Rule(
    "pdb-percent-rounding",
    WARNING,
    find_percentages_rounded_to_all,
    summary="A percentage that rounds up to all replicas",
    why="Percentages round up to whole pods: with few replicas none may be evicted.",
    fix="Use maxUnavailable: 1",
    source=f"{doc.BUDGETS}#rounding-logic-when-specifying-percentages",
)


def find_budgets_that_protect_nothing(context: LintContext) -> Iterator[Problem]:
    """Find budgets that allow all pods to be evicted at once."""
    for subject, budget, workloads in context.iter_budgets():
        min_available, max_unavailable = budget.spec.min_available, budget.spec.max_unavailable
        serving_only = workloads and all(workload.kind in SERVING_KINDS for workload in workloads)
        count = sum(workload.highest_replicas for workload in workloads)
        if min_available in (0, "0%"):
            message = f"minAvailable {min_available} lets all pods go at once"
            yield subject.build_problem(("spec", "minAvailable"), message)
        elif max_unavailable == "100%" or (
            serving_only and isinstance(max_unavailable, int) and max_unavailable >= count > 1
        ):
            message = f"maxUnavailable {max_unavailable} lets all pods go at once"
            yield subject.build_problem(("spec", "maxUnavailable"), message)


PDB_PROTECTS_NOTHING = Rule(
    "pdb-protects-nothing",
    WARNING,
    find_budgets_that_protect_nothing,
    summary="Budget that lets all its pods go at once",
    why="A drain of several nodes takes the whole workload down, as if there were no budget.",
    fix="Set maxUnavailable: 1, or remove the budget",
    source=doc.BUDGETS,
)


def find_budgets_blocked_by_unhealthy_pods(context: LintContext) -> Iterator[Problem]:
    """Find budgets whose unhealthyPodEvictionPolicy is not AlwaysAllow."""
    for subject, budget, _ in context.iter_budgets():
        if budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow":
            yield subject.build_problem(("spec",), "pods that are not ready can block a drain forever")


PDB_UNHEALTHY_POLICY = Rule(
    "pdb-unhealthy-policy",
    NOTE,
    find_budgets_blocked_by_unhealthy_pods,
    summary="Budget without unhealthyPodEvictionPolicy: AlwaysAllow",
    why="By default pods that are not ready may not be evicted while the budget is not met: a crash-looping "
    "workload blocks drains.",
    fix="Set unhealthyPodEvictionPolicy: AlwaysAllow",
    source=f"{doc.BUDGETS}#unhealthy-pod-eviction-policy",
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_unusable_budgets_of_bare_pods(context: LintContext) -> Iterator[Problem]:
    """Find budgets of pods without a controller that have no integer minAvailable."""
    for subject, budget, workloads in context.iter_budgets():
        spec = budget.spec
        bare_pods_only = workloads and all(workload.kind == "Pod" for workload in workloads)
        if not bare_pods_only or isinstance(spec.min_available, int):
            continue
        if (spec.min_available or spec.max_unavailable) is not None:
            field = "minAvailable" if spec.min_available is not None else "maxUnavailable"
            yield subject.build_problem(
                ("spec", field), "for pods without a controller only an integer minAvailable works"
            )


PDB_ARBITRARY_CONTROLLER = Rule(
    "pdb-arbitrary-controller",
    WARNING,
    find_unusable_budgets_of_bare_pods,
    summary="maxUnavailable or a percentage for bare pods",
    why="Without a scalable controller the budget cannot know how many pods there should be, and allows no eviction.",
    fix="Use an integer minAvailable",
    source=f"{doc.BUDGETS}#arbitrary-controllers-and-selectors",
)


def find_budgets_without_one_limit(context: LintContext) -> Iterator[Problem]:
    """Find budgets with neither or both of minAvailable and maxUnavailable."""
    for subject, budget, _ in context.iter_budgets():
        spec = budget.spec
        if spec.min_available is None and spec.max_unavailable is None:
            yield subject.build_problem(
                ("spec",), "neither minAvailable nor maxUnavailable: no eviction is ever allowed"
            )
        elif spec.min_available is not None and spec.max_unavailable is not None:
            yield subject.build_problem(
                ("spec", "maxUnavailable"), "minAvailable and maxUnavailable cannot be combined"
            )


PDB_NO_POLICY = Rule(
    "pdb-no-policy",
    ERROR,
    find_budgets_without_one_limit,
    summary="Budget with neither, or both, of minAvailable and maxUnavailable",
    why="With neither, no eviction is ever allowed; with both, the API server refuses it.",
    fix="Set one of them: maxUnavailable: 1",
    source=f"{doc.BUDGETS}; pkg/controller/disruption/disruption.go (v1.36)",
)


_MAX_NAMED = 5
_MAX_COMPARED = 10


def find_overlapping_budgets(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose pods more than one budget selects."""
    for workload, budgets in _group_budgets_by_workload(context).items():
        names = _find_coexisting_budgets(context, workload, budgets)
        if len(names) > 1:
            named = join_names(sorted(names), _MAX_NAMED)
            message = f"{len(names)} budgets select its pods ({named}): the eviction API refuses all of them"
            yield Problem(workload.subject, (*workload.template_path, "metadata", "labels"), message)


PDB_OVERLAP = Rule(
    "pdb-overlap",
    ERROR,
    find_overlapping_budgets,
    summary="Pods that more than one budget selects",
    why="The eviction API answers with an error for such pods, so drains never end.",
    fix="Make the selectors disjoint",
    source=f"{doc.BUDGETS}; https://github.com/kubernetes/kubernetes/issues/75957",
)


def find_budgets_without_pods(context: LintContext) -> Iterator[Problem]:
    """Find budgets that select no pods."""
    for subject, budget, workloads in context.iter_budgets():
        namespace, selector = subject.namespace or "default", compile_selector(budget.spec.selector)
        if workloads or selector is None or context.select_workloads(namespace, selector):
            continue
        if (
            not context.are_all_read("Pod")
            or not context.all_manifests_read
            or context.may_have_unknown_pods((namespace,))
        ):
            continue
        if subject.namespace and (matches := _find_matches_in_other_namespaces(context, subject, selector)):
            message = f'"{selector}" selects {matches[0].subject}, but a budget counts in its own namespace only'
            yield subject.build_problem(("metadata", "namespace"), message, "Put both into one namespace")
            continue
        if context.cluster is None and not context.workloads_by_namespace.get(namespace):
            continue
        if context.cluster is None or not context.facts.view.pods.matching(selector, frozenset((namespace,))).any():
            yield subject.build_problem(("spec", "selector"), f'"{selector}" selects no pod of namespace {namespace}')


PDB_SELECTS_NOTHING = Rule(
    "pdb-selects-nothing",
    WARNING,
    find_budgets_without_pods,
    summary="Budget that selects no pods",
    why="It protects nothing. Checked against the cluster, or where the manifests have workloads in its namespace.",
    fix="Make the selector match the labels of the pod template",
    source=doc.BUDGETS,
)


def _find_matches_in_other_namespaces(context: LintContext, subject: Subject, selector: Selector) -> list[Workload]:
    """Find workloads of other namespaces that a budget's selector matches.

    Return [] if the selector is empty or a cluster is known.
    """
    if context.cluster is not None or not selector.requirements:
        return []
    return [
        workload
        for namespace in context.workloads_by_namespace
        for workload in context.select_coexisting_workloads(subject, namespace, selector)
        if workload.subject.namespace
    ]


def find_namespace_wide_budgets(context: LintContext) -> Iterator[Problem]:
    """Find budgets with an empty selector in namespaces with several workloads."""
    for subject, budget, workloads in context.iter_budgets():
        if (
            budget.spec.selector is not None
            and compile_selector(budget.spec.selector) == EVERYTHING
            and len(workloads) > 1
        ):
            message = f"the empty selector selects every pod of the namespace: {len(workloads)} workloads share it"
            yield subject.build_problem(("spec", "selector"), message)


PDB_WHOLE_NAMESPACE = Rule(
    "pdb-whole-namespace",
    WARNING,
    find_namespace_wide_budgets,
    summary="One budget for all pods in a namespace",
    why="The pods of all workloads, Jobs included, are counted together: one workload may lose all of its pods.",
    fix="Give each workload its own budget",
    source=doc.BUDGETS,
)


def find_workloads_without_budget(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with several replicas that no budget covers."""
    protected = _group_budgets_by_workload(context)
    for workload in context.workloads if context.are_all_read("PodDisruptionBudget") else ():
        if workload.is_serving_replicas and workload.lowest_replicas > 1 and workload not in protected:
            message = f"no budget covers its {workload.replica_range} replicas: drains may take all at once"
            yield workload.subject.build_problem((), message)


PDB_MISSING = Rule(
    "pdb-missing",
    NOTE,
    find_workloads_without_budget,
    summary="Several replicas without a budget",
    why="Drains evict all pods of a node at once; several drains together may take the whole workload down.",
    fix="Add a PodDisruptionBudget with maxUnavailable: 1",
    source=doc.DISRUPTIONS,
    once_per_namespace=True,
)


def _find_coexisting_budgets(
    context: LintContext, workload: Workload, budgets: list[TypedObject[PodDisruptionBudget]]
) -> set[str]:
    """Return the names in the largest set of budgets that can be in one cluster together with the workload."""
    if not context.variants:
        return {budget.subject.name for budget in budgets}
    coexisting = (b.subject for b in budgets if context.variants.can_coexist(workload.subject, b.subject))
    return {subject.name for subject in context.variants.find_largest_group(list(islice(coexisting, _MAX_COMPARED)))}


def _group_budgets_by_workload(context: LintContext) -> dict[Workload, list[TypedObject[PodDisruptionBudget]]]:
    """Return all known budgets of each linted workload that has any."""
    budgets: dict[Workload, list[TypedObject[PodDisruptionBudget]]] = {}
    for item in context.list_all_items(PodDisruptionBudget):
        budget = item.value
        selector = compile_selector(budget.spec.selector)
        if selector is not None and not selector.matches_nothing:
            for workload in context.select_workloads(budget.metadata.namespace or "default", selector):
                budgets.setdefault(workload, []).append(item)
    return budgets
