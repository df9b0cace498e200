"""Rules about Karpenter's NodePools, and about pods that Karpenter and kube-scheduler treat differently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kschedctl.api.objects import SelectorRequirement
from kschedctl.api.quantity import Quantity, QuantityError, parse
from kschedctl.api.tolerations import is_tolerated
from kschedctl.lint.analysis.node_requirements import AllowedValues, Conditions, list_alternatives, to_requirements
from kschedctl.lint.analysis.placement import iter_pod_terms
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import counted

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
FINITE_KINDS = frozenset(("Job", "CronJob", "Pod"))
"""Kinds whose pods end by themselves or have no controller."""
NO_NODES = ("0", "0%")
SCHEDULING = "https://karpenter.sh/docs/concepts/scheduling/"
NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
INSTANCE_TYPE, ARCH, EC2 = "node.kubernetes.io/instance-type", "kubernetes.io/arch", "karpenter.k8s.aws"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SMALLEST_NODE = {"cpu": "1", "memory": "256Mi", "nodes": "1"}
"""Less than any cloud machine has."""
_SIZE_LABELS = {"cpu": (f"{EC2}/instance-cpu", 1), "memory": (f"{EC2}/instance-memory", 2**20)}
"""The label with the size of an instance type, and the unit of its value."""
_FAMILY_NAME = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)(?P<more>[a-z]*)")
_STRICT_OPERATORS = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}
"""Operators that only Karpenter has, each with the strict operator and the number to add to its value."""


def find_contradictory_requirements(context: LintContext) -> Iterator[Problem]:
    """Find NodePools whose requirements and labels no instance type can meet together."""
    for subject, pool in context.list_linted(WrittenNodePool):
        conditions = _get_conditions(pool)
        for key in conditions.conflicts:
            yield subject.build_problem(
                REQUIREMENTS, f"no value of {key} meets all requirements and labels of the pool"
            )


KP_CONTRADICTORY = Rule(
    "kp-contradictory",
    ERROR,
    find_contradictory_requirements,
    summary="Requirements of a NodePool that exclude each other",
    why="No instance type meets them: the pool launches nothing, and Karpenter says so only in an event.",
    fix="Remove one of them",
    source=SCHEDULING,
)


def _get_conditions(pool: WrittenNodePool) -> Conditions:
    """Return the conditions that a pool's labels and requirements set for its nodes."""
    requirements = map(_use_strict_operator, pool.requirements)
    return Conditions().restrict(to_requirements(pool.labels)).restrict(requirements)


def _use_strict_operator(requirement: SelectorRequirement) -> SelectorRequirement:
    """Return the requirement with Gt instead of Gte and Lt instead of Lte; others stay as they are."""
    values = requirement.values or ()
    if requirement.operator not in _STRICT_OPERATORS or len(values) != 1 or not values[0].isdecimal():
        return requirement
    operator, difference = _STRICT_OPERATORS[requirement.operator]
    return SelectorRequirement(requirement.key, operator, (str(int(values[0]) + difference),))


def find_too_few_values(context: LintContext) -> Iterator[Problem]:
    """Find requirements with fewer values, or instance types with fewer values, than minValues asks for."""
    for subject, pool in context.list_linted(WrittenNodePool):
        too_few = False
        for at, requirement in enumerate(pool.spec.template.spec.requirements):
            if requirement.operator != "In" or requirement.min_values is None:
                continue
            if len(requirement.values) < requirement.min_values:
                values = counted(len(requirement.values), "value")
                message = f"minValues {requirement.min_values} of {requirement.key}, but {values}"
                yield subject.build_problem((*REQUIREMENTS, at, "minValues"), message)
                too_few = True
        if context.pool_types and not too_few:
            for few in context.pool_types.find_types(subject.name, pool).iter_few_values():
                message = f"minValues {few.min_values} of {few.key}, but the instance types left have {few.value_count}"
                yield subject.build_problem(REQUIREMENTS, message)


KP_MIN_VALUES = Rule(
    "kp-min-values",
    ERROR,
    find_too_few_values,
    summary="A NodePool that asks for more values than it allows",
    why="The API server refuses the pool; where the instance types that are left have fewer values, Karpenter "
    "launches none of them, unless its minValuesPolicy is BestEffort.",
    fix="Name more values, or lower minValues",
    source=SCHEDULING,
)


def find_pools_without_disruption(context: LintContext) -> Iterator[Problem]:
    """Find NodePools with a budget that always forbids every disruption."""
    for subject, pool in context.list_linted(WrittenNodePool):
        for at, budget in enumerate(pool.spec.disruption.budgets):
            if str(budget.nodes) in NO_NODES and not budget.schedule and not budget.reasons:
                yield subject.build_problem(
                    ("spec", "disruption", "budgets", at), "no node of the pool is ever consolidated or replaced"
                )


KP_NEVER_DISRUPTED = Rule(
    "kp-never-disrupted",
    WARNING,
    find_pools_without_disruption,
    summary="A NodePool of which no node may ever go",
    why="A budget of 0 without a schedule forbids consolidation, and drifted nodes are never replaced.",
    fix="Give the budget a schedule, or reasons, or allow a node",
    source=f"{DISRUPTION}#nodepool-disruption-budgets",
)


def find_protected_pods(context: LintContext) -> Iterator[Problem]:
    """Find long-running workloads with the annotation karpenter.sh/do-not-disrupt."""
    for workload in context.workloads:
        if workload.annotations.get(DO_NOT_DISRUPT) == "true" and workload.kind not in FINITE_KINDS:
            path: Path = (*workload.template_path, "metadata", "annotations", DO_NOT_DISRUPT)
            message = f"Karpenter never consolidates a node with a pod of {workload.kind} {workload.subject.name}"
            yield workload.subject.build_problem(path, message)


KP_DO_NOT_DISRUPT = Rule(
    "kp-do-not-disrupt",
    NOTE,
    find_protected_pods,
    summary="Pods that keep their nodes from Karpenter for ever",
    why="The node is neither consolidated nor, without a terminationGracePeriod, replaced while such a pod runs.",
    fix="Use a PodDisruptionBudget, or a duration such as 4h",
    source=f"{DISRUPTION}#pod-level-controls",
)


def find_alternative_terms(context: LintContext) -> Iterator[Problem]:
    """Find pods with several required node affinity terms and preferences, if the cluster has NodePools."""
    has_pools = context.list_linted(WrittenNodePool) or (context.cluster and context.cluster.karpenter_node_pools)
    for workload in context.workloads if has_pools else ():
        count = len(list_alternatives(workload.spec))
        affinity = workload.spec.affinity and workload.spec.affinity.node_affinity
        if count > 1 and affinity and affinity.preferred_during_scheduling_ignored_during_execution:
            yield workload.build_problem(
                ("affinity", "nodeAffinity"),
                f"Karpenter tries the first of {count} required terms, and drops it before any preference",
            )


KP_SEVERAL_TERMS = Rule(
    "kp-several-terms",
    NOTE,
    find_alternative_terms,
    summary="Required node affinity terms that Karpenter drops before preferences",
    why="kube-scheduler takes any of the terms. Karpenter tries one at a time, in the order written, and gives all "
    "but the last up before a preference: the pod may get a node that its preferences would not choose.",
    fix="Put the term that should win first, or use one term",
    source=SCHEDULING,
)


def find_pools_without_instance_types(context: LintContext) -> Iterator[Problem]:
    """Find NodePools whose requirements no instance type meets.

    Without a list of instance types, only EC2's types and families are judged, by their names.
    """
    pools = context.list_linted(WrittenNodePool)
    pool_types = context.pool_types if pools else None
    if pool_types is None:
        yield from _find_excluded_type_names(pools)
        return
    for subject, pool in pools:
        types = pool_types.find_types(subject.name, pool)
        if not types.matching:
            blocking = types.find_blocking_labels()
            hint = f"; without {' or '.join(blocking)} some would" if blocking else ""
            message = f"none of {counted(types.total, 'instance type')} meets all requirements of the pool{hint}"
            yield subject.build_problem(REQUIREMENTS, message)


KP_NO_TYPE = Rule(
    "kp-no-type",
    ERROR,
    find_pools_without_instance_types,
    summary="A NodePool of which no instance type meets all requirements",
    why="The pool launches nothing. With --instance-types all types are tried, else EC2's by what their names say, "
    "such as arm64 for m7g.",
    fix="Name other types, or correct the requirement",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html",
)


def _find_excluded_type_names(pools: Iterable[TypedObject[WrittenNodePool]]) -> Iterator[Problem]:
    """Find NodePools that name EC2 types or families that their other requirements exclude."""
    for subject, pool in pools:
        conditions = _get_conditions(pool)
        names = conditions.by_key.get(INSTANCE_TYPE, AllowedValues()).allowed
        families = conditions.by_key.get(f"{EC2}/instance-family", AllowedValues()).allowed
        if names:
            label_sets = [{INSTANCE_TYPE: name, **_parse_family_labels(name.partition(".")[0])} for name in names]
        else:
            label_sets = [_parse_family_labels(family) for family in families or ()]
        if not label_sets or conditions.conflicts:
            continue  # kp-contradictory reports conflicts
        if all(conditions.restrict(to_requirements(labels)).conflicts for labels in label_sets):
            listed_names = ", ".join(sorted(names or families or ()))
            yield subject.build_problem(
                REQUIREMENTS, f"none of {listed_names} meets the other requirements of the pool"
            )


def _parse_family_labels(family: str) -> dict[str, str]:
    """Return the node labels that the name of an EC2 family implies: m7gd is of category m and arm64."""
    parts = _FAMILY_NAME.fullmatch(family)
    if parts is None:
        return {}
    arm = "g" in parts["more"] or family == "a1"
    return {
        f"{EC2}/instance-family": family,
        f"{EC2}/instance-category": parts["category"],
        f"{EC2}/instance-generation": parts["generation"],
        ARCH: "arm64" if arm else "amd64",
    }


def find_limits_below_one_node(context: LintContext) -> Iterator[Problem]:
    """Find NodePool limits that are smaller than the smallest node of the pool."""
    for subject, pool in context.list_linted(WrittenNodePool):
        conditions = _get_conditions(pool)
        for name, limit in (pool.spec.limits or {}).items():
            smallest, amount = SMALLEST_NODE.get(name), _parse_positive_quantity(limit)
            if smallest is None or amount is None:
                continue
            key, factor = _SIZE_LABELS.get(name, ("", 0))
            sizes = conditions.by_key.get(key, AllowedValues())
            least = max(parse(smallest), parse(str(factor * _find_smallest_size(sizes))))
            if context.pool_types:
                least = max(least, context.pool_types.find_types(subject.name, pool).get_smallest_capacity(name))
            if amount < least:
                message = f"limit {limit} of {name}: a node of the pool has at least {least}"
                yield subject.build_problem(("spec", "limits", name), message)


KP_LIMIT_BELOW_NODE = Rule(
    "kp-limit-below-node",
    ERROR,
    find_limits_below_one_node,
    summary="A limit of a NodePool that is less than one node has",
    why="Karpenter launches no node that would exceed the limit: the pool launches none at all.",
    fix="Raise the limit, or give it a unit",
    source=f"{NODE_POOLS}#speclimits",
)


def _parse_positive_quantity(limit: object) -> Quantity | None:
    """Return the quantity, or None if it is invalid or zero, which stops a pool on purpose."""
    try:
        amount = parse(str(limit))
    except QuantityError:
        return None
    return amount if amount.mantissa > 0 else None


def _find_smallest_size(sizes: AllowedValues) -> int:
    """Return the smallest size that the conditions allow, or 0 if they set no lower bound."""
    allowed = [int(value) for value in sizes.allowed or () if value.isdecimal() and sizes.is_in_bounds(value)]
    return min(allowed) if allowed else (sizes.above or -1) + 1


def find_shadowed_pools(context: LintContext) -> Iterator[Problem]:
    """Find NodePools that are never used since a pool of more weight takes all their pods."""
    pools = context.list_linted(WrittenNodePool)
    for subject, pool in pools:
        for heavier, other in pools:
            if (other.spec.weight or 0) > (pool.spec.weight or 0) and _covers_pool(other, pool):
                message = f"NodePool {heavier.name}, of more weight, takes every pod that does not ask for this pool"
                yield subject.build_problem(("spec", "weight") if pool.spec.weight else ("spec",), message)
                break


KP_SHADOWED = Rule(
    "kp-shadowed",
    WARNING,
    find_shadowed_pools,
    summary="A NodePool of which a heavier one takes all pods",
    why="Karpenter tries pools by weight and takes the first that fits; it does not compare prices between pools.",
    fix="Give the heavier pool limits or requirements, or change the weights",
    source=f"{NODE_POOLS}#specweight",
)


def _covers_pool(heavier_pool: WrittenNodePool, pool: WrittenNodePool) -> bool:
    """Return whether the heavier pool has no limits, offers all that the other offers and needs no more tolerations."""
    pool_spec, other_spec = pool.spec.template.spec, heavier_pool.spec.template.spec
    if heavier_pool.spec.limits is not None or pool_spec.node_class_ref != other_spec.node_class_ref:
        return False
    pool_taints = {(taint.key, taint.value, taint.effect) for taint in pool_spec.taints}
    if not {(taint.key, taint.value, taint.effect) for taint in other_spec.taints} <= pool_taints:
        return False
    pool_requirements = {(r.key, r.operator, r.values) for r in pool.requirements}
    other_requirements = {(r.key, r.operator, r.values) for r in heavier_pool.requirements}
    if not other_requirements <= pool_requirements or not pool.labels.items() <= heavier_pool.labels.items():
        return False
    custom_keys = {key for key, *_ in pool_requirements if not any(domain in key for domain in WELL_KNOWN_DOMAINS)}
    return custom_keys <= {key for key, *_ in other_requirements}


def find_untolerated_startup_taints(context: LintContext) -> Iterator[Problem]:
    """Find startup taints that no DaemonSet tolerates, so that no DaemonSet can remove them."""
    pools = context.list_linted(WrittenNodePool)
    if not pools or context.cluster is None or not context.are_all_read("DaemonSet"):
        return
    tolerations = [workload.spec.tolerations for workload in context.workloads if workload.kind == "DaemonSet"]
    tolerations += [daemon_set.spec.template.spec.tolerations for daemon_set in context.cluster.daemon_sets]
    for subject, pool in pools:
        for at, taint in enumerate(pool.spec.template.spec.startup_taints):
            if not any(is_tolerated(toleration, taint, comparison_operators=True) for toleration in tolerations):
                path = ("spec", "template", "spec", "startupTaints", at)
                yield subject.build_problem(path, f"no DaemonSet tolerates {taint}, so none on the node can remove it")


KP_STARTUP_TAINT = Rule(
    "kp-startup-taint",
    NOTE,
    find_untolerated_startup_taints,
    summary="A startup taint that no DaemonSet tolerates",
    why="Somebody has to remove it before the node counts as initialized, mostly a DaemonSet on the node itself.",
    fix="Let the DaemonSet tolerate it, or remove the taint",
    source=f"{NODE_POOLS}#cilium-startup-taint",
    needs_cluster=True,
)


def find_preferences_that_add_nodes(context: LintContext) -> Iterator[Problem]:
    """Find preferences by hostname for which Karpenter would launch one node per pod."""
    has_pools = context.list_linted(WrittenNodePool) or (context.cluster and context.cluster.karpenter_node_pools)
    for workload in context.workloads if has_pools else ():
        if workload.highest_replicas > 1:
            for path in _iter_soft_host_spreads(workload):
                yield workload.build_problem(
                    path, "Karpenter takes it for required first, and launches a node for each pod"
                )


KP_NODE_EACH = Rule(
    "kp-node-each",
    NOTE,
    find_preferences_that_add_nodes,
    summary="Preferred anti-affinity or ScheduleAnyway spread by host, with Karpenter",
    why="Karpenter takes preferences for required first, and can always launch another node: it launches one for "
    "each pod, where kube-scheduler would put several on a node.",
    fix="Spread over zones, or set Karpenter's preferencePolicy to Ignore",
    source=SCHEDULING,
)


def _iter_soft_host_spreads(workload: Workload) -> Iterator[Path]:
    """Yield the paths of preferred terms and soft constraints that keep a workload's pods on different nodes."""
    for path, term in iter_pod_terms(workload):
        selector = compile_selector(term.label_selector)
        apart = path[1] == "podAntiAffinity" and PREFERRED in path and term.topology_key == HOSTNAME
        if apart and selector is not None and workload.is_selected_by(selector):
            yield path
    for at, constraint in enumerate(workload.spec.topology_spread_constraints):
        selector = compile_selector(constraint.label_selector)
        soft = constraint.when_unsatisfiable == "ScheduleAnyway" and constraint.topology_key == HOSTNAME
        if soft and constraint.max_skew == 1 and selector is not None and workload.is_selected_by(selector):
            yield "topologySpreadConstraints", at
