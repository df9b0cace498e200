"""NodePools of Karpenter that launch or lose nothing, and pods that Karpenter treats otherwise than kube-scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kschedctl.api.objects import SelectorRequirement
from kschedctl.api.quantity import Quantity, QuantityError, parse
from kschedctl.api.tolerations import is_tolerated
from kschedctl.lint.analysis.node_requirements import Conditions, Values, alternatives, equal
from kschedctl.lint.analysis.placement import pod_terms
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload, compiled
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.text.counts import counted

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
ENDS = frozenset(("Job", "CronJob", "Pod"))
"""What ends by itself, or is nobody's to run for ever."""
NONE_MAY_GO = ("0", "0%")
SCHEDULING = "https://karpenter.sh/docs/concepts/scheduling/"
NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
INSTANCE_TYPE, ARCH, EC2 = "node.kubernetes.io/instance-type", "kubernetes.io/arch", "karpenter.k8s.aws"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SMALLEST = {"cpu": "1", "memory": "256Mi", "nodes": "1"}
"""Less than any machine in a cloud has."""
_SIZES = {"cpu": (f"{EC2}/instance-cpu", 1), "memory": (f"{EC2}/instance-memory", 2**20)}
"""The labels that tell the size of a type, and in how much of it."""
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)(?P<more>[a-z]*)")
_STRICT = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}
"""What Karpenter writes besides Gt and Lt -> the same in these, and by how much their number differs."""


def contradictory(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        asked = Conditions().also(equal(pool.labels)).also(map(_strict, pool.requirements))
        for key in asked.conflicts:
            yield subject.problem(REQUIREMENTS, f"no value of {key} meets all requirements and labels of the pool")


KP_CONTRADICTORY = Rule(
    "kp-contradictory",
    ERROR,
    contradictory,
    summary="Requirements of a NodePool that exclude each other",
    why="No instance type meets them: the pool launches nothing, and Karpenter says so only in an event.",
    fix="Remove one of them",
    source=SCHEDULING,
)


def _strict(requirement: SelectorRequirement) -> SelectorRequirement:
    operator, by = _STRICT.get(requirement.operator, (requirement.operator, 0))
    values = requirement.values or ()
    if not by or len(values) != 1 or not values[0].isdecimal():
        return requirement
    return SelectorRequirement(requirement.key, operator, (str(int(values[0]) + by),))


def too_few_values(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        too_few = False
        for at, requirement in enumerate(pool.spec.template.spec.requirements):
            if (
                requirement.operator == "In"
                and requirement.min_values is not None
                and len(requirement.values) < requirement.min_values
            ):
                message = (
                    f"minValues {requirement.min_values} of {requirement.key}, but "
                    f"{counted(len(requirement.values), 'value')}"
                )
                yield subject.problem((*REQUIREMENTS, at, "minValues"), message)
                too_few = True
        if context.pool_types and not too_few:
            for few in context.pool_types.of(subject.name, pool).too_few():
                message = f"minValues {few.wanted} of {few.key}, but the instance types left have {few.values}"
                yield subject.problem(REQUIREMENTS, message)


KP_MIN_VALUES = Rule(
    "kp-min-values",
    ERROR,
    too_few_values,
    summary="A NodePool that asks for more values than it allows",
    why="The API server refuses the pool; where the instance types that are left have fewer values, Karpenter "
    "launches none of them, unless its minValuesPolicy is BestEffort.",
    fix="Name more values, or lower minValues",
    source=SCHEDULING,
)


def never_disrupted(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        for at, budget in enumerate(pool.spec.disruption.budgets):
            if str(budget.nodes) in NONE_MAY_GO and not budget.schedule and not budget.reasons:
                yield subject.problem(
                    ("spec", "disruption", "budgets", at), "no node of the pool is ever consolidated or replaced"
                )


KP_NEVER_DISRUPTED = Rule(
    "kp-never-disrupted",
    WARNING,
    never_disrupted,
    summary="A NodePool of which no node may ever go",
    why="A budget of 0 without a schedule forbids consolidation, and drifted nodes are never replaced.",
    fix="Give the budget a schedule, or reasons, or allow a node",
    source=f"{DISRUPTION}#nodepool-disruption-budgets",
)


def protected_for_ever(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads:
        if workload.annotations.get(DO_NOT_DISRUPT) == "true" and workload.kind not in ENDS:
            path: Path = (*workload.at, "metadata", "annotations", DO_NOT_DISRUPT)
            yield workload.subject.problem(path, f"Karpenter never consolidates a node with a pod of {_name(workload)}")


KP_DO_NOT_DISRUPT = Rule(
    "kp-do-not-disrupt",
    NOTE,
    protected_for_ever,
    summary="Pods that keep their nodes from Karpenter for ever",
    why="The node is neither consolidated nor, without a terminationGracePeriod, replaced while such a pod runs.",
    fix="Use a PodDisruptionBudget, or a duration such as 4h",
    source=f"{DISRUPTION}#pod-level-controls",
)


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


KP_SEVERAL_TERMS = Rule(
    "kp-several-terms",
    NOTE,
    several_terms,
    summary="Required node affinity terms that Karpenter drops before preferences",
    why="kube-scheduler takes any of the terms. Karpenter tries one at a time, in the order written, and gives all "
    "but the last up before a preference: the pod may get a node that its preferences would not choose.",
    fix="Put the term that should win first, or use one term",
    source=SCHEDULING,
)


def no_type(context: LintContext) -> Iterator[Problem]:
    pools = context.linted(WrittenNodePool)
    sold = context.pool_types if pools else None
    if sold is None:
        yield from _types_of_other_kinds(pools)
        return
    for subject, pool in pools:
        types = sold.of(subject.name, pool)
        if not types.number:
            without = types.in_the_way()
            hint = f"; without {' or '.join(without)} some would" if without else ""
            message = f"none of {counted(types.all, 'instance type')} meets all requirements of the pool{hint}"
            yield subject.problem(REQUIREMENTS, message)


KP_NO_TYPE = Rule(
    "kp-no-type",
    ERROR,
    no_type,
    summary="A NodePool of which no instance type meets all requirements",
    why="The pool launches nothing. With --instance-types all types are tried, else EC2's by what their names say, "
    "such as arm64 for m7g.",
    fix="Name other types, or correct the requirement",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html",
)


def _types_of_other_kinds(pools: Iterable[TypedObject[WrittenNodePool]]) -> Iterator[Problem]:
    """What the names of EC2's types say."""
    for subject, pool in pools:
        asked = Conditions().also(equal(pool.labels)).also(map(_strict, pool.requirements))
        names = asked.by_key.get(INSTANCE_TYPE, Values()).allowed
        families = asked.by_key.get(f"{EC2}/instance-family", Values()).allowed
        described = [{INSTANCE_TYPE: name, **_of_family(name.partition(".")[0])} for name in names or ()] or [
            _of_family(family) for family in families or ()
        ]
        if (
            described
            and not any(asked.also(equal(labels)).conflicts == [] for labels in described)
            and not asked.conflicts
        ):
            what = ", ".join(sorted(names or families or ()))
            yield subject.problem(REQUIREMENTS, f"none of {what} meets the other requirements of the pool")


def _of_family(family: str) -> dict[str, str]:
    """What the name of a family of EC2 says: m7gd is of category m, and its processors are Graviton's."""
    parts = _FAMILY.fullmatch(family)
    if parts is None:
        return {}
    arm = "g" in parts["more"] or family == "a1"
    own = {f"{EC2}/instance-family": family, f"{EC2}/instance-category": parts["category"]}
    return own | {f"{EC2}/instance-generation": parts["generation"], ARCH: "arm64" if arm else "amd64"}


def limits_below_a_node(context: LintContext) -> Iterator[Problem]:
    for subject, pool in context.linted(WrittenNodePool):
        asked = Conditions().also(equal(pool.labels)).also(map(_strict, pool.requirements))
        for name, limit in (pool.spec.limits or {}).items():
            smallest = SMALLEST.get(name)
            if smallest is None or not (amount := _quantity(limit)):
                continue
            key, factor = _SIZES.get(name, ("", 0))
            sizes = asked.by_key.get(key, Values())
            least = max(parse(smallest), parse(str(factor * _least(sizes))))
            if context.pool_types:
                least = max(least, context.pool_types.of(subject.name, pool).smallest(name))
            if amount < least:
                message = f"limit {limit} of {name}: a node of the pool has at least {least}"
                yield subject.problem(("spec", "limits", name), message)


KP_LIMIT_BELOW_NODE = Rule(
    "kp-limit-below-node",
    ERROR,
    limits_below_a_node,
    summary="A limit of a NodePool that is less than one node has",
    why="Karpenter launches no node that would exceed the limit: the pool launches none at all.",
    fix="Raise the limit, or give it a unit",
    source=f"{NODE_POOLS}#speclimits",
)


def _quantity(limit: object) -> Quantity | None:
    """None where it is no quantity, or zero, which stops a pool on purpose."""
    try:
        amount = parse(str(limit))
    except QuantityError:
        return None
    return amount if amount.mantissa > 0 else None


def _least(sizes: Values) -> int:
    """The smallest size that is left, 0 where nothing says so."""
    allowed = [int(value) for value in sizes.allowed or () if value.isdecimal() and sizes.accepts(value)]
    return min(allowed) if allowed else (sizes.above or -1) + 1


def shadowed(context: LintContext) -> Iterator[Problem]:
    pools = context.linted(WrittenNodePool)
    for subject, pool in pools:
        for heavier, other in pools:
            if (other.spec.weight or 0) > (pool.spec.weight or 0) and _takes_all_of(other, pool):
                message = f"NodePool {heavier.name}, of more weight, takes every pod that does not ask for this pool"
                yield subject.problem(("spec", "weight") if pool.spec.weight else ("spec",), message)
                break


KP_SHADOWED = Rule(
    "kp-shadowed",
    WARNING,
    shadowed,
    summary="A NodePool of which a heavier one takes all pods",
    why="Karpenter tries pools by weight and takes the first that fits; it does not compare prices between pools.",
    fix="Give the heavier pool limits or requirements, or change the weights",
    source=f"{NODE_POOLS}#specweight",
)


def _takes_all_of(other: WrittenNodePool, pool: WrittenNodePool) -> bool:
    """Whether a pool without limits offers all that another does, and asks for no more tolerations."""
    own, theirs = pool.spec.template.spec, other.spec.template.spec
    if other.spec.limits is not None or own.node_class_ref != theirs.node_class_ref:
        return False
    if not {(t.key, t.value, t.effect) for t in theirs.taints} <= {(t.key, t.value, t.effect) for t in own.taints}:
        return False
    wanted, given = ({(r.key, r.operator, r.values) for r in one_of.requirements} for one_of in (other, pool))
    private = {key for key, *_ in given if not any(domain in key for domain in WELL_KNOWN_DOMAINS)}
    return wanted <= given and pool.labels.items() <= other.labels.items() and private <= {key for key, *_ in wanted}


def startup_taints_stay(context: LintContext) -> Iterator[Problem]:
    pools = context.linted(WrittenNodePool)
    if not pools or context.cluster is None or not context.all_known("DaemonSet"):
        return
    tolerations = [workload.spec.tolerations for workload in context.workloads if workload.kind == "DaemonSet"]
    tolerations += [daemon_set.spec.template.spec.tolerations for daemon_set in context.cluster.daemon_sets]
    for subject, pool in pools:
        for at, taint in enumerate(pool.spec.template.spec.startup_taints):
            if not any(is_tolerated(toleration, taint, comparison_operators=True) for toleration in tolerations):
                path = ("spec", "template", "spec", "startupTaints", at)
                yield subject.problem(path, f"no DaemonSet tolerates {taint}, so none on the node can remove it")


KP_STARTUP_TAINT = Rule(
    "kp-startup-taint",
    NOTE,
    startup_taints_stay,
    summary="A startup taint that no DaemonSet tolerates",
    why="Somebody has to remove it before the node counts as initialized, mostly a DaemonSet on the node itself.",
    fix="Let the DaemonSet tolerate it, or remove the taint",
    source=f"{NODE_POOLS}#cilium-startup-taint",
    needs_cluster=True,
)


def a_node_each(context: LintContext) -> Iterator[Problem]:
    has_pools = context.linted(WrittenNodePool) or (context.cluster and context.cluster.karpenter_node_pools)
    for workload in context.workloads if has_pools else ():
        if workload.at_most > 1:
            for path in _soft_by_host(workload):
                yield workload.problem(path, "Karpenter takes it for required first, and launches a node for each pod")


KP_NODE_EACH = Rule(
    "kp-node-each",
    NOTE,
    a_node_each,
    summary="Preferred anti-affinity or ScheduleAnyway spread by host, with Karpenter",
    why="Karpenter takes preferences for required first, and can always launch another node: it launches one for "
    "each pod, where kube-scheduler would put several on a node.",
    fix="Spread over zones, or set Karpenter's preferencePolicy to Ignore",
    source=SCHEDULING,
)


def _soft_by_host(workload: Workload) -> Iterator[Path]:
    """Wishes that keep pods of the workload on nodes of their own."""
    for path, term in pod_terms(workload):
        selector = compiled(term.label_selector)
        apart = path[1] == "podAntiAffinity" and PREFERRED in path and term.topology_key == HOSTNAME
        if apart and selector is not None and workload.selected_by(selector):
            yield path
    for at, constraint in enumerate(workload.spec.topology_spread_constraints):
        selector = compiled(constraint.label_selector)
        soft = constraint.when_unsatisfiable == "ScheduleAnyway" and constraint.topology_key == HOSTNAME
        if soft and constraint.max_skew == 1 and selector is not None and workload.selected_by(selector):
            yield "topologySpreadConstraints", at


def _name(workload: Workload) -> str:
    return f"{workload.kind} {workload.subject.name}"
