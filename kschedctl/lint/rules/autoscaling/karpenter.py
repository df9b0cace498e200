"""Rules about Karpenter's NodePools, and about pods that Karpenter and kube-scheduler treat differently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kschedctl.api.objects import SelectorRequirement
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.api.tolerations import is_tolerated
from kschedctl.lint.analysis.node_requirements import (
    AllowedValues,
    Conditions,
    list_node_condition_alternatives,
    to_requirements,
)
from kschedctl.lint.analysis.placement import iter_pod_affinity_terms
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import agreeing, counted, join_words

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
"""Resource -> an amount that every cloud machine has."""
_SIZE_LABELS = {"cpu": (f"{EC2}/instance-cpu", 1), "memory": (f"{EC2}/instance-memory", 2**20)}
"""Resource -> the label with the size of an instance type, and the unit of the label's value."""
_FAMILY_NAME = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)(?P<suffix>[a-z]*)")
_STRICT_OPERATORS = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}
"""Operators that only Karpenter has -> the strict operator, and the number to add to the value."""


def find_contradictory_requirements(context: LintContext) -> Iterator[Problem]:
    """Find NodePools with requirements and labels that no node can meet together."""
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        for key in _get_label_conditions(pool).conflicts:
            message = f"no value of {key} meets all requirements and labels of the pool"
            yield subject.build_problem(REQUIREMENTS, message)


KP_CONTRADICTORY = Rule(
    "kp-contradictory",
    ERROR,
    find_contradictory_requirements,
    summary="NodePool requirements that contradict each other",
    why="No instance type meets the requirements: the NodePool launches nothing, and Karpenter says so only in an "
    "event.",
    fix="Remove one of the requirements",
    source=SCHEDULING,
)


def _get_label_conditions(pool: WrittenNodePool) -> Conditions:
    """Return the conditions that a pool's labels and requirements set for its nodes."""
    requirements = map(_convert_to_strict_operator, pool.requirements)
    return Conditions().restrict(to_requirements(pool.labels)).restrict(requirements)


def _convert_to_strict_operator(requirement: SelectorRequirement) -> SelectorRequirement:
    """Return the requirement with Gt instead of Gte, or Lt instead of Lte, and its number adjusted.

    Requirements with other operators or an invalid number are returned unchanged.
    """
    values = requirement.values or ()
    if requirement.operator not in _STRICT_OPERATORS or len(values) != 1 or not values[0].isdecimal():
        return requirement
    operator, difference = _STRICT_OPERATORS[requirement.operator]
    return SelectorRequirement(requirement.key, operator, (str(int(values[0]) + difference),))


def find_unmet_min_values(context: LintContext) -> Iterator[Problem]:
    """Find NodePool requirements whose minValues exceeds the number of possible values.

    The values in each list are counted first. If every list is long enough and instance types are given, the values of
    the allowed instance types are counted as well.
    """
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        has_short_list = False
        for i, requirement in enumerate(pool.spec.template.spec.requirements):
            if requirement.operator != "In" or requirement.min_values is None:
                continue
            if len(requirement.values) < requirement.min_values:
                has_short_list = True
                listed = counted(len(requirement.values), "value")
                verb = agreeing(len(requirement.values), "is", "are")
                message = f"{requirement.key} has minValues {requirement.min_values}, but only {listed} {verb} listed"
                yield subject.build_problem((*REQUIREMENTS, i, "minValues"), message)
        if context.pool_types and not has_short_list:
            for unmet in context.pool_types.find_pool_types(subject.name, pool).iter_unmet_min_values():
                values = counted(unmet.value_count, "value")
                message = f"{unmet.key} has minValues {unmet.min_values}, but the allowed instance types have {values}"
                yield subject.build_problem(REQUIREMENTS, message)


KP_MIN_VALUES = Rule(
    "kp-min-values",
    ERROR,
    find_unmet_min_values,
    summary="A NodePool with minValues above the number of values that it allows",
    why="The API server rejects a NodePool that lists too few values. If the instance types that "
    "it allows have too few values, Karpenter launches no node unless its minValuesPolicy is BestEffort.",
    fix="Allow more values, or lower minValues",
    source=SCHEDULING,
)


def find_pools_without_disruption(context: LintContext) -> Iterator[Problem]:
    """Find NodePools with a budget that always forbids every disruption."""
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        for i, budget in enumerate(pool.spec.disruption.budgets):
            if str(budget.nodes) in NO_NODES and not budget.schedule and not budget.reasons:
                message = "no node of the pool is ever consolidated or replaced"
                yield subject.build_problem(("spec", "disruption", "budgets", i), message)


KP_NEVER_DISRUPTED = Rule(
    "kp-never-disrupted",
    WARNING,
    find_pools_without_disruption,
    summary="A NodePool whose nodes may never be disrupted",
    why="A disruption budget of 0 nodes without a schedule forbids consolidation, and drifted nodes are never "
    "replaced.",
    fix="Give the budget a schedule or reasons, or allow at least one node",
    source=f"{DISRUPTION}#nodepool-disruption-budgets",
)


def find_workloads_protected_from_karpenter(context: LintContext) -> Iterator[Problem]:
    """Find long-running workloads whose pods have the annotation karpenter.sh/do-not-disrupt."""
    for workload in context.workloads:
        if workload.annotations.get(DO_NOT_DISRUPT) == "true" and workload.kind not in FINITE_KINDS:
            path: Path = (*workload.template_path, "metadata", "annotations", DO_NOT_DISRUPT)
            message = f"Karpenter never consolidates nodes with pods of {workload.kind} {workload.subject.name}"
            yield workload.subject.build_problem(path, message)


KP_DO_NOT_DISRUPT = Rule(
    "kp-do-not-disrupt",
    NOTE,
    find_workloads_protected_from_karpenter,
    summary="Pods with karpenter.sh/do-not-disrupt: true, which protect their nodes forever",
    why="While such a pod runs, its node is not consolidated and, without a terminationGracePeriod, not replaced.",
    fix="Use a PodDisruptionBudget, or a duration such as 4h as the value of the annotation",
    source=f"{DISRUPTION}#pod-level-controls",
)


def find_alternative_affinity_terms(context: LintContext) -> Iterator[Problem]:
    """Find workloads that combine several required node affinity terms with preferred terms.

    Finds nothing if there are no NodePools.
    """
    if not _has_node_pools(context):
        return
    for workload in context.workloads:
        term_count = len(list_node_condition_alternatives(workload.spec))
        affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
        if term_count > 1 and affinity and affinity.preferred_during_scheduling_ignored_during_execution:
            message = (
                f"Karpenter tries the first of {term_count} required terms, and drops it before it drops any preference"
            )
            yield workload.build_problem(("affinity", "nodeAffinity"), message)


KP_SEVERAL_TERMS = Rule(
    "kp-several-terms",
    NOTE,
    find_alternative_affinity_terms,
    summary="Several nodeSelectorTerms together with preferences, in a cluster with Karpenter",
    why="kube-scheduler accepts a node that meets any of the terms. Karpenter tries one term at a time, in the order "
    "written, and drops all but the last before it drops a preference, so the pod may get a node that its preferences "
    "would not choose.",
    fix="Write the preferred term first, or use one term",
    source=SCHEDULING,
)


def _has_node_pools(context: LintContext) -> bool:
    """Return whether there are NodePools among the linted objects or in the cluster."""
    in_cluster = context.cluster is not None and bool(context.cluster.karpenter_node_pools)
    return in_cluster or bool(context.list_linted_objects(WrittenNodePool))


def find_pools_without_instance_types(context: LintContext) -> Iterator[Problem]:
    """Find NodePools whose requirements no instance type meets.

    Without a list of instance types, only EC2's types and families are judged, by their names.
    """
    pools = context.list_linted_objects(WrittenNodePool)
    pool_types = context.pool_types if pools else None
    if pool_types is None:
        yield from _find_excluded_type_names(pools)
        return
    for subject, pool in pools:
        types = pool_types.find_pool_types(subject.name, pool)
        if types.matching_count:
            continue
        message = f"none of {counted(types.total_count, 'instance type')} meets all requirements of the pool"
        blocking_labels = types.find_blocking_labels()
        if blocking_labels:
            message += f"; without the requirement on {' or '.join(blocking_labels)}, some would"
        yield subject.build_problem(REQUIREMENTS, message)


KP_NO_TYPE = Rule(
    "kp-no-type",
    ERROR,
    find_pools_without_instance_types,
    summary="A NodePool with requirements that no instance type meets",
    why="The NodePool launches nothing. The types in --instance-types FILE are checked. Without the file, only EC2 "
    "types "
    "are checked, by what their names reveal (m7g is arm64).",
    fix="Name other instance types, or correct the requirements",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html",
)


def _find_excluded_type_names(pools: Iterable[TypedObject[WrittenNodePool]]) -> Iterator[Problem]:
    """Find NodePools whose other requirements exclude all EC2 instance types or families that they name.

    If a pool names types, its families are not looked at. Pools whose requirements contradict each other are left out.
    """
    for subject, pool in pools:
        conditions = _get_label_conditions(pool)
        names = conditions.by_key.get(INSTANCE_TYPE, AllowedValues()).allowed
        families = conditions.by_key.get(f"{EC2}/instance-family", AllowedValues()).allowed
        if names:
            label_sets = [{INSTANCE_TYPE: name, **_parse_family_labels(name.partition(".")[0])} for name in names]
        else:
            label_sets = [_parse_family_labels(family) for family in families or ()]
        if not label_sets or conditions.conflicts:
            continue  # kp-contradictory reports conflicts
        if all(conditions.restrict(to_requirements(labels)).conflicts for labels in label_sets):
            listed_names = sorted(names or families or ())
            none_meets = (
                f"{listed_names[0]} does not meet"
                if len(listed_names) == 1
                else f"none of {join_words(listed_names)} meets"
            )
            message = f"{none_meets} the other requirements of the pool"
            yield subject.build_problem(REQUIREMENTS, message)


def _parse_family_labels(family: str) -> dict[str, str]:
    """Return the node labels that the name of an EC2 family implies, such as category m and arm64 for m7gd.

    Returns {} if the name does not look like a family.
    """
    parts = _FAMILY_NAME.fullmatch(family)
    if parts is None:
        return {}
    is_arm = "g" in parts["suffix"] or family == "a1"  # g stands for Graviton, whose first family was a1
    return {
        f"{EC2}/instance-family": family,
        f"{EC2}/instance-category": parts["category"],
        f"{EC2}/instance-generation": parts["generation"],
        ARCH: "arm64" if is_arm else "amd64",
    }


def find_limits_below_one_node(context: LintContext) -> Iterator[Problem]:
    """Find NodePool limits that are smaller than the smallest node of the pool.

    The size of the smallest node follows from a minimum for all machines, from the pool's requirements on instance size
    and, if they are given, from the instance types.
    """
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        conditions = _get_label_conditions(pool)
        for name, limit in (pool.spec.limits or {}).items():
            amount = _parse_positive_quantity(limit)
            if name not in SMALLEST_NODE or amount is None:
                continue
            # Without a label for the size of this resource, the requirements set no minimum.
            label, unit = _SIZE_LABELS.get(name, ("", 0))
            sizes = conditions.by_key.get(label, AllowedValues())
            smallest_by_requirements = parse_quantity(str(unit * _find_smallest_allowed_value(sizes)))
            smallest = max(parse_quantity(SMALLEST_NODE[name]), smallest_by_requirements)
            if context.pool_types:
                types = context.pool_types.find_pool_types(subject.name, pool)
                smallest = max(smallest, types.get_smallest_capacity(name))
            if amount < smallest:
                message = f"the {name} limit is {limit}, but the smallest node has {smallest}"
                yield subject.build_problem(("spec", "limits", name), message)


KP_LIMIT_BELOW_NODE = Rule(
    "kp-limit-below-node",
    ERROR,
    find_limits_below_one_node,
    summary="A NodePool whose limits are below the size of its smallest node",
    why="Karpenter never exceeds the limits, so this NodePool can never launch a node.",
    fix="Raise the limit, or add its missing unit",
    source=f"{NODE_POOLS}#speclimits",
)


def _parse_positive_quantity(limit: object) -> Quantity | None:
    """Parse a limit, or return None if it is invalid or not positive. A limit of 0 stops a pool on purpose."""
    try:
        amount = parse_quantity(str(limit))
    except QuantityError:
        return None
    return amount if amount.mantissa > 0 else None


def _find_smallest_allowed_value(sizes: AllowedValues) -> int:
    """Return the smallest size that the conditions allow, or 0 if they set no lower bound."""
    allowed = [int(value) for value in sizes.allowed or () if value.isdecimal() and sizes.is_in_bounds(value)]
    if allowed:
        return min(allowed)
    return sizes.above + 1 if sizes.above else 0


def find_shadowed_pools(context: LintContext) -> Iterator[Problem]:
    """Find NodePools that are hardly used because a pool with a higher weight takes all their pods.

    Each pool is reported once, with the first such pool.
    """
    pools = context.list_linted_objects(WrittenNodePool)
    for subject, pool in pools:
        for other_subject, other_pool in pools:
            has_higher_weight = (other_pool.spec.weight or 0) > (pool.spec.weight or 0)
            if has_higher_weight and _does_pool_cover(other_pool, pool):
                message = (
                    f"NodePool {other_subject.name} has a higher weight and takes every pod that does not select this "
                    "pool by name"
                )
                path: Path = ("spec", "weight") if pool.spec.weight else ("spec",)
                yield subject.build_problem(path, message)
                break


KP_SHADOWED = Rule(
    "kp-shadowed",
    WARNING,
    find_shadowed_pools,
    summary="A NodePool that is never used, because a NodePool with a higher weight fits all its pods",
    why="Karpenter tries NodePools from the highest to the lowest weight and uses the first that fits. It does not "
    "compare their prices.",
    fix="Give the NodePool with the higher weight limits or requirements, or change the weights",
    source=f"{NODE_POOLS}#specweight",
)


def _does_pool_cover(heavier_pool: WrittenNodePool, pool: WrittenNodePool) -> bool:
    """Return whether the heavier pool can launch a node for every pod for which the other pool can launch one.

    The heavier pool must have no limits, the same node class, no additional taints or requirements, and all labels of
    the other pool. It must also have a requirement for each custom label for which the other pool has one.
    """
    spec, heavier_spec = pool.spec.template.spec, heavier_pool.spec.template.spec
    if heavier_pool.spec.limits is not None or spec.node_class_ref != heavier_spec.node_class_ref:
        return False

    taints = {(taint.key, taint.value, taint.effect) for taint in spec.taints}
    heavier_taints = {(taint.key, taint.value, taint.effect) for taint in heavier_spec.taints}
    if not heavier_taints <= taints:
        return False

    requirements = {(requirement.key, requirement.operator, requirement.values) for requirement in pool.requirements}
    heavier_requirements = {
        (requirement.key, requirement.operator, requirement.values) for requirement in heavier_pool.requirements
    }
    if not heavier_requirements <= requirements or not pool.labels.items() <= heavier_pool.labels.items():
        return False

    # Karpenter's nodes have custom labels only if their pool declares the key.
    custom_keys = {
        requirement.key
        for requirement in pool.requirements
        if not any(domain in requirement.key for domain in WELL_KNOWN_DOMAINS)
    }
    return custom_keys <= {requirement.key for requirement in heavier_pool.requirements}


def find_untolerated_startup_taints(context: LintContext) -> Iterator[Problem]:
    """Find startup taints that no DaemonSet tolerates, so that no DaemonSet's pod can remove them.

    Finds nothing without a cluster, or if not all DaemonSets are known.
    """
    pools = context.list_linted_objects(WrittenNodePool)
    if not pools or context.cluster is None or not context.are_all_read("DaemonSet"):
        return
    toleration_sets = [workload.spec.tolerations for workload in context.workloads if workload.kind == "DaemonSet"]
    toleration_sets += [daemon_set.spec.template.spec.tolerations for daemon_set in context.cluster.daemon_sets]
    for subject, pool in pools:
        for i, taint in enumerate(pool.spec.template.spec.startup_taints):
            if not any(is_tolerated(tolerations, taint, comparison_operators=True) for tolerations in toleration_sets):
                path = ("spec", "template", "spec", "startupTaints", i)
                message = f"no DaemonSet tolerates {taint}, so no pod of a DaemonSet can remove the taint"
                yield subject.build_problem(path, message)


KP_STARTUP_TAINT = Rule(
    "kp-startup-taint",
    NOTE,
    find_untolerated_startup_taints,
    summary="startupTaints with a taint that no DaemonSet tolerates",
    why="A node counts as initialized only once the taint is removed, usually by a DaemonSet pod on the node itself.",
    fix="Add the toleration to the DaemonSet, or remove the taint",
    source=f"{NODE_POOLS}#cilium-startup-taint",
    needs_cluster=True,
)


def find_soft_spreading_that_adds_nodes(context: LintContext) -> Iterator[Problem]:
    """Find preferences to spread pods over hosts, for which Karpenter launches a node per pod.

    These are preferred anti-affinity terms and soft spread constraints. Finds nothing if there are no NodePools.
    """
    if not _has_node_pools(context):
        return
    for workload in context.workloads:
        if workload.highest_replicas > 1:
            for path in _iter_soft_spreading_over_hosts(workload):
                message = "Karpenter first treats the preference as required, and launches a node for each pod"
                yield workload.build_problem(path, message)


KP_NODE_EACH = Rule(
    "kp-node-each",
    NOTE,
    find_soft_spreading_that_adds_nodes,
    summary="Preferred anti-affinity or ScheduleAnyway spread by hostname, with Karpenter",
    why="Karpenter first treats preferences as required, and it can always launch another node. It launches one node "
    "per pod, although kube-scheduler would place several pods on a node.",
    fix="Spread across zones instead of hosts, or set Karpenter's preferencePolicy to Ignore",
    source=SCHEDULING,
)


def _iter_soft_spreading_over_hosts(workload: Workload) -> Iterator[Path]:
    """Yield the paths of preferred terms and soft constraints that keep a workload's pods on different nodes."""
    for path, term in iter_pod_affinity_terms(workload):
        selector = compile_selector(term.label_selector)
        is_preferred_anti_affinity = "podAntiAffinity" in path and PREFERRED in path
        if not is_preferred_anti_affinity or term.topology_key != HOSTNAME:
            continue
        if selector is not None and workload.is_selected_by(selector):
            yield path
    for i, constraint in enumerate(workload.spec.topology_spread_constraints):
        selector = compile_selector(constraint.label_selector)
        is_soft = constraint.when_unsatisfiable == "ScheduleAnyway"
        if not is_soft or constraint.topology_key != HOSTNAME or constraint.max_skew != 1:
            continue
        if selector is not None and workload.is_selected_by(selector):
            yield "topologySpreadConstraints", i
