"""Rules about PodDisruptionBudgets: how many evictions they allow, and which pods they select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kschedctl.api.labels import EVERYTHING, Selector
from kschedctl.api.objects import PodDisruptionBudget
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector, resolve_int_or_percent
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile


def find_zero_disruption_budgets(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that never allow an eviction.

    A minAvailable that is a number is judged only if the budget selects exactly one workload, and only if this workload
    runs permanently.
    """
    for subject, budget, workloads in context.iter_disruption_budgets(also_of_cluster=True):
        spec = budget.spec
        if spec.max_unavailable in (0, "0%"):
            message = f"maxUnavailable {spec.max_unavailable} allows no eviction"
            yield subject.build_problem(("spec", "maxUnavailable"), message)
        elif spec.min_available == "100%":
            yield subject.build_problem(("spec", "minAvailable"), "minAvailable 100% allows no eviction")
        elif isinstance(spec.min_available, int) and len(workloads) == 1:
            (workload,) = workloads
            if workload.kind in SERVING_KINDS and 0 < workload.highest_replicas <= spec.min_available:
                message = (
                    f"minAvailable {spec.min_available} allows no eviction, as {workload.subject} has "
                    f"{workload.highest_replicas_text}"
                )
                yield subject.build_problem(("spec", "minAvailable"), message)


PDB_ZERO_DISRUPTIONS = Rule(
    "pdb-zero-disruptions",
    WARNING,
    find_zero_disruption_budgets,
    summary="PodDisruptionBudget that never allows an eviction",
    why="Draining a node that runs one of the PDB's pods never finishes, so node upgrades and scale-downs hang.",
    fix="Allow at least one eviction, for example with maxUnavailable: 1",
    source=doc.BUDGETS,
)


def find_budgets_blocking_at_autoscaler_minimum(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that allow no eviction once the autoscaler has scaled down.

    Their minAvailable is at least the autoscaler's minimum number of replicas, but below the maximum.
    """
    for subject, budget, workloads in context.iter_disruption_budgets():
        min_available = budget.spec.min_available
        lowest_replicas = sum(workload.lowest_replicas for workload in workloads)
        highest_replicas = sum(workload.highest_replicas for workload in workloads)
        is_autoscaled = any(workload.max_replicas is not None for workload in workloads)
        if not isinstance(min_available, int) or not is_autoscaled:
            continue
        if lowest_replicas <= min_available < highest_replicas:
            message = (
                f"minAvailable is {min_available}, but the autoscaler may scale down to {lowest_replicas}: then no pod "
                "may be evicted"
            )
            yield subject.build_problem(("spec", "minAvailable"), message)


PDB_OVER_HPA_MIN = Rule(
    "pdb-over-hpa-min",
    WARNING,
    find_budgets_blocking_at_autoscaler_minimum,
    summary="minAvailable is at least the minReplicas of the HorizontalPodAutoscaler",
    why="At minReplicas, no pod may be evicted, so drains hang when the load is low.",
    fix="Use maxUnavailable, or raise minReplicas above minAvailable",
    source=doc.BUDGETS,
)


def find_percentages_rounded_to_all(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets with a minAvailable percentage that rounds up to all replicas.

    Budgets are left out if they also select workloads that do not run permanently.
    """
    for subject, budget, workloads in context.iter_disruption_budgets(also_of_cluster=True):
        percentage = budget.spec.min_available
        if not isinstance(percentage, str) or percentage == "100%":
            continue
        count = sum(workload.lowest_replicas for workload in workloads)
        if not count or any(workload.kind not in SERVING_KINDS for workload in workloads):
            continue
        if resolve_int_or_percent(percentage, count, round_up=True) >= count:
            names = join_names([str(workload.subject) for workload in workloads], 1)
            message = f"{percentage} of {count} rounds up to {count}: no pod of {names} may be evicted"
            yield subject.build_problem(("spec", "minAvailable"), message)


PDB_PERCENT_ROUNDING = Rule(
    "pdb-percent-rounding",
    WARNING,
    find_percentages_rounded_to_all,
    summary="A minAvailable percentage that rounds up to all replicas",
    why="minAvailable percentages round up to whole pods: with few replicas, no pod may be evicted.",
    fix="Use maxUnavailable: 1",
    source=f"{doc.BUDGETS}#rounding-logic-when-specifying-percentages",
)


def find_budgets_that_protect_nothing(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that allow all pods to be evicted at once."""
    for subject, budget, workloads in context.iter_disruption_budgets(also_of_cluster=True):
        min_available, max_unavailable = budget.spec.min_available, budget.spec.max_unavailable
        if min_available in (0, "0%"):
            message = f"minAvailable {min_available} allows all pods to be evicted at once"
            yield subject.build_problem(("spec", "minAvailable"), message)
        elif max_unavailable == "100%" or _allows_all_replicas(max_unavailable, workloads):
            message = f"maxUnavailable {max_unavailable} allows all pods to be evicted at once"
            yield subject.build_problem(("spec", "maxUnavailable"), message)


PDB_PROTECTS_NOTHING = Rule(
    "pdb-protects-nothing",
    WARNING,
    find_budgets_that_protect_nothing,
    summary="PodDisruptionBudget that allows all its pods to be evicted at once",
    why="A drain of several nodes may stop the whole workload, as if it had no PodDisruptionBudget.",
    fix="Set maxUnavailable: 1, or remove the PodDisruptionBudget",
    source=doc.BUDGETS,
)


def _allows_all_replicas(max_unavailable: object, workloads: Sequence[Workload]) -> bool:
    """Return whether maxUnavailable is a number that allows all replicas to be evicted at once.

    Returns False for a single replica, or if any workload is not a serving one.
    """
    if not isinstance(max_unavailable, int) or not workloads:
        return False
    if any(workload.kind not in SERVING_KINDS for workload in workloads):
        return False
    count = sum(workload.highest_replicas for workload in workloads)
    return count > 1 and max_unavailable >= count


def find_budgets_without_always_allow(context: LintContext) -> Iterator[Problem]:
    """Find budgets whose unhealthyPodEvictionPolicy is not AlwaysAllow, so that unready pods may block a drain."""
    for subject, budget, _ in context.iter_disruption_budgets():
        if budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow":
            yield subject.build_problem(("spec",), "pods that are not ready may block a drain forever")


PDB_UNHEALTHY_POLICY = Rule(
    "pdb-unhealthy-policy",
    NOTE,
    find_budgets_without_always_allow,
    summary="PodDisruptionBudget without unhealthyPodEvictionPolicy: AlwaysAllow",
    why="By default, pods that are not ready may not be evicted while fewer pods are healthy than the "
    "PodDisruptionBudget requires, so a crash-looping workload blocks drains.",
    fix="Set unhealthyPodEvictionPolicy: AlwaysAllow",
    source=f"{doc.BUDGETS}#unhealthy-pod-eviction-policy",
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_unusable_budgets_of_bare_pods(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that use maxUnavailable or a percentage for pods without a controller."""
    for subject, budget, workloads in context.iter_disruption_budgets():
        spec = budget.spec
        bare_pods_only = workloads and all(workload.kind == "Pod" for workload in workloads)
        if not bare_pods_only or isinstance(spec.min_available, int):
            continue
        if spec.min_available is None and spec.max_unavailable is None:
            continue
        field = "maxUnavailable" if spec.min_available is None else "minAvailable"
        message = "only an integer minAvailable works for pods without a controller"
        yield subject.build_problem(("spec", field), message)


PDB_ARBITRARY_CONTROLLER = Rule(
    "pdb-arbitrary-controller",
    WARNING,
    find_unusable_budgets_of_bare_pods,
    summary="maxUnavailable or a percentage for pods without a controller",
    why="Without a controller that can be scaled, the number of expected pods is unknown, and the "
    "PodDisruptionBudget allows no eviction.",
    fix="Use an integer minAvailable",
    source=f"{doc.BUDGETS}#arbitrary-controllers-and-selectors",
)


def find_budgets_without_one_limit(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that set both minAvailable and maxUnavailable, or neither of them."""
    for subject, budget, _ in context.iter_disruption_budgets():
        spec = budget.spec
        if spec.min_available is None and spec.max_unavailable is None:
            message = "neither minAvailable nor maxUnavailable is set, so no eviction is ever allowed"
            yield subject.build_problem(("spec",), message)
        elif spec.min_available is not None and spec.max_unavailable is not None:
            message = "minAvailable and maxUnavailable cannot be combined"
            yield subject.build_problem(("spec", "maxUnavailable"), message)


PDB_NO_POLICY = Rule(
    "pdb-no-policy",
    ERROR,
    find_budgets_without_one_limit,
    summary="PodDisruptionBudget with neither or both of minAvailable and maxUnavailable",
    why="With neither field, no eviction is ever allowed; with both, the API server rejects the PodDisruptionBudget.",
    fix="Set exactly one of the two fields, such as maxUnavailable: 1",
    source=f"{doc.BUDGETS}; pkg/controller/disruption/disruption.go (v1.36)",
)


_MAX_NAMED = 5
_MAX_COMPARED = 10


def find_overlapping_budgets(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose pods are selected by several PodDisruptionBudgets that can be in the same cluster.

    The message names the first `_MAX_NAMED` budgets.
    """
    for workload, budgets in _group_budgets_by_workload(context).items():
        names = _find_coexisting_budget_names(context, workload, budgets)
        if len(names) > 1:
            listed_names = join_names(sorted(names), _MAX_NAMED)
            message = (
                f"{len(names)} PodDisruptionBudgets select its pods ({listed_names}), so the eviction API denies every "
                "eviction"
            )
            yield Problem(workload.subject, (*workload.template_path, "metadata", "labels"), message)


PDB_OVERLAP = Rule(
    "pdb-overlap",
    ERROR,
    find_overlapping_budgets,
    summary="Pods that more than one PodDisruptionBudget selects",
    why="The eviction API returns an error for these pods, so drains never end.",
    fix="Make the selectors disjoint",
    source=f"{doc.BUDGETS}; https://github.com/kubernetes/kubernetes/issues/75957",
)


def find_budgets_without_pods(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets that select no pods. Budgets that may select unread pods are left out.

    Without a cluster, a budget is reported only if the manifests contain other workloads in its namespace, or workloads
    in another namespace that the selector matches.
    """
    for subject, budget, workloads in context.iter_disruption_budgets():
        namespace = subject.namespace or "default"
        selector = compile_selector(budget.spec.selector)
        if workloads or selector is None or context.select_workloads(namespace, selector):
            continue
        if not context.are_all_read("Pod") or not context.all_manifests_read:
            continue
        if context.may_have_unknown_pods((namespace,)):
            continue

        misplaced_matches: list[Workload] = []
        if subject.namespace:
            misplaced_matches = _find_matches_in_other_namespaces(context, subject, selector)
        if misplaced_matches:
            message = (
                f'"{selector}" matches {misplaced_matches[0].subject}, but a budget selects only pods in its own '
                "namespace"
            )
            yield subject.build_problem(("metadata", "namespace"), message, "Put both into one namespace")
            continue

        if context.cluster is None:
            is_certain = bool(context.workloads_by_namespace.get(namespace))
        else:
            is_certain = not context.facts.view.pods.match_infos(selector, frozenset((namespace,))).any()
        if is_certain:
            yield _build_no_pods_problem(subject, selector, namespace)


PDB_SELECTS_NOTHING = Rule(
    "pdb-selects-nothing",
    WARNING,
    find_budgets_without_pods,
    summary="PodDisruptionBudget that selects no pods",
    why="The PodDisruptionBudget protects nothing. Checked only with a cluster, or if the manifests have workloads "
    "in its namespace.",
    fix="Make the selector match the labels of the pod template",
    source=doc.BUDGETS,
)


def _build_no_pods_problem(subject: Subject, selector: Selector, namespace: str) -> Problem:
    """Build the problem that a budget's selector matches no pods of its namespace."""
    return subject.build_problem(("spec", "selector"), f'"{selector}" selects no pods in namespace {namespace}')


def _find_matches_in_other_namespaces(context: LintContext, subject: Subject, selector: Selector) -> list[Workload]:
    """Find workloads of other namespaces that a budget's selector matches.

    Returns [] if the selector is empty or a cluster is known. Workloads that name no namespace are left out.
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
    """Find PodDisruptionBudgets with an empty selector that cover several workloads of their namespace."""
    for subject, budget, workloads in context.iter_disruption_budgets():
        has_empty_selector = budget.spec.selector is not None and compile_selector(budget.spec.selector) == EVERYTHING
        if has_empty_selector and len(workloads) > 1:
            message = (
                f"the empty selector matches every pod in the namespace, so {len(workloads)} workloads share its limit"
            )
            yield subject.build_problem(("spec", "selector"), message)


PDB_WHOLE_NAMESPACE = Rule(
    "pdb-whole-namespace",
    WARNING,
    find_namespace_wide_budgets,
    summary="One PodDisruptionBudget for all pods in a namespace",
    why="The pods of all workloads, including Jobs, are counted together, so one workload may lose all of its pods.",
    fix="Give each workload its own PodDisruptionBudget",
    source=doc.BUDGETS,
)


def find_workloads_without_budget(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with several replicas that no PodDisruptionBudget covers.

    Finds nothing unless all budgets are known.
    """
    if not context.are_all_read("PodDisruptionBudget"):
        return
    budgets_by_workload = _group_budgets_by_workload(context)
    for workload in context.workloads:
        if workload.is_serving_replicas and workload.lowest_replicas > 1 and workload not in budgets_by_workload:
            message = (
                f"no PodDisruptionBudget covers its {workload.replica_range} replicas, so drains may evict all of "
                "them at once"
            )
            yield workload.subject.build_problem((), message)


PDB_MISSING = Rule(
    "pdb-missing",
    NOTE,
    find_workloads_without_budget,
    summary="Several replicas without a PodDisruptionBudget",
    why="A drain evicts all pods of a node at once, and several drains together may stop the whole workload.",
    fix="Add a PodDisruptionBudget with maxUnavailable: 1",
    source=doc.DISRUPTIONS,
    once_per_namespace=True,
)


def _find_coexisting_budget_names(
    context: LintContext, workload: Workload, budgets: list[TypedObject[PodDisruptionBudget]]
) -> set[str]:
    """Return the names of budgets that can all be in one cluster together with the workload.

    Without variants of manifests, these are all budgets. Otherwise, only the first ``_MAX_COMPARED`` budgets that can
    coexist with the workload are compared. The result is a large group of them, but not always the largest one.
    """
    if not context.variants:
        return {budget.subject.name for budget in budgets}
    coexisting = (
        budget.subject for budget in budgets if context.variants.can_coexist(workload.subject, budget.subject)
    )
    group = context.variants.find_coexisting_group(list(islice(coexisting, _MAX_COMPARED)))
    return {subject.name for subject in group}


def _group_budgets_by_workload(context: LintContext) -> dict[Workload, list[TypedObject[PodDisruptionBudget]]]:
    """Return the budgets of the manifests and the cluster that select each linted workload.

    Workloads that no budget selects are left out.
    """
    budgets: dict[Workload, list[TypedObject[PodDisruptionBudget]]] = {}
    for item in context.list_all_items(PodDisruptionBudget):
        budget = item.value
        selector = compile_selector(budget.spec.selector)
        if selector is not None and not selector.matches_nothing:
            for workload in context.select_workloads(budget.metadata.namespace or "default", selector):
                budgets.setdefault(workload, []).append(item)
    return budgets
