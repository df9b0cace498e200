"""Rules about PriorityClasses, and about workloads and pods that use, or should use, them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from kschedctl.api.objects import Pod, PriorityClass, ResourceQuota
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile, for_each_workload
from kschedctl.text.counts import agreeing, counted, first_few

HIGHEST_USER_DEFINABLE = 1_000_000_000
RESERVED_PREFIX = "system-"
_NEGATIONS = ("non-", "non", "not-", "not ", "no-", "no ", "no", "never-", "never ", "without ")
"""Words that turn one of ``PREEMPTING_WORDS`` into its opposite."""
PREEMPTING_WORDS = ("critical", "urgent", "preempt", "evict")

_MIN_SIMILARITY = 0.8
"""The similarity, from 0 to 1, from which on an existing class may be meant by a missing one."""
SYSTEM_NAMESPACE_PREFIXES = ("openshift-", "kube-")
"""Prefixes of namespaces with a distribution's own pods."""


def find_reserved_priority_values(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with a value above 1,000,000,000, which is reserved for the system's classes."""
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        is_reserved = priority_class.metadata.name.startswith(RESERVED_PREFIX)
        if priority_class.value > HIGHEST_USER_DEFINABLE and not is_reserved:
            yield subject.build_problem(("value",), f"{priority_class.value:,} is above 1,000,000,000")


PC_VALUE_OVER_1E9 = Rule(
    "pc-value-over-1e9",
    ERROR,
    find_reserved_priority_values,
    summary="PriorityClass value above 1,000,000,000",
    why="The API server rejects the class: higher values are reserved for the system's own classes.",
    fix="Choose a value of at most 1000000000",
    source=doc.PRIORITY,
)


def find_reserved_class_names(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses whose name begins with system-, except the classes that Kubernetes itself creates."""
    system_classes = {(system_class.metadata.name, system_class.value) for system_class in SYSTEM_CLASSES}
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        name = priority_class.metadata.name
        is_system_class = (name, priority_class.value) in system_classes and not priority_class.global_default
        if name.startswith(RESERVED_PREFIX) and not is_system_class:
            yield subject.build_problem(("metadata", "name"), f"{name}: the prefix system- is reserved")


PC_SYSTEM_PREFIX = Rule(
    "pc-system-prefix",
    ERROR,
    find_reserved_class_names,
    summary="PriorityClass name that begins with system-",
    why="The prefix is reserved: the API server rejects every such class except system-cluster-critical and "
    "system-node-critical.",
    fix="Give the class another name",
    source=doc.PRIORITY,
)


def find_several_global_defaults(context: LintContext) -> Iterator[Problem]:
    """Find global default PriorityClasses in a cluster that has several of them.

    The message names the class with the lowest value, which would apply.
    """
    defaults = [item for item in context.list_all_items(PriorityClass) if item.value.global_default]
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if not priority_class.global_default:
            continue
        coexisting_defaults = context.list_coexisting_values(subject, defaults)
        names = sorted({default.metadata.name for default in coexisting_defaults})
        if len(names) > 1:
            lowest = min(coexisting_defaults, key=lambda default: default.value).metadata.name
            message = (
                f"{len(names)} classes are the global default ({', '.join(names)}): {lowest}, which has the lowest "
                "value, applies"
            )
            yield subject.build_problem(("globalDefault",), message)


PC_MULTIPLE_GLOBAL_DEFAULT = Rule(
    "pc-multiple-global-default",
    ERROR,
    find_several_global_defaults,
    summary="More than one PriorityClass with globalDefault: true",
    why="The API server rejects the second class. If both got in through a race, the class with the lower value "
    "silently wins.",
    fix="Set globalDefault: true on one class only",
    source=f"{doc.PRIORITY}; https://github.com/kubernetes/kubernetes/issues/59987",
)


def find_global_defaults_with_highest_value(context: LintContext) -> Iterator[Problem]:
    """Find global default PriorityClasses whose value no other class exceeds.

    The system's classes and other global defaults do not count. A default of at most 0 is accepted if all other classes
    are below 0, because such classes are for placeholder pods.
    """
    user_classes = [
        item for item in context.list_all_items(PriorityClass) if not item.subject.name.startswith(RESERVED_PREFIX)
    ]
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if not priority_class.global_default:
            continue
        coexisting_classes = context.list_coexisting_values(subject, user_classes)
        other_values = [other.value for other in coexisting_classes if not other.global_default]
        if not other_values or priority_class.value < max(other_values):
            continue
        # Classes below 0 are for placeholder pods, which only reserve room.
        only_placeholders = priority_class.value <= 0 and all(value < 0 for value in other_values)
        if not only_placeholders:
            message = (
                f"pods without a class get priority {priority_class.value:,}, but the highest other class has only "
                f"{max(other_values):,}"
            )
            yield subject.build_problem(("globalDefault",), message)


PC_GLOBAL_DEFAULT_HIGH = Rule(
    "pc-global-default-high",
    WARNING,
    find_global_defaults_with_highest_value,
    summary="The PriorityClass with globalDefault: true outranks all other classes",
    why="Pods without a priorityClassName are scheduled before pods with one, and may preempt them.",
    fix="Give the global default a lower value than the classes for important pods",
    source=doc.PRIORITY,
)


def find_duplicate_priority_values(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with the same value as another class.

    Classes with the same value are reported once, at the linted class whose name comes first.
    """
    items_by_value: dict[int, list[TypedObject[PriorityClass]]] = {}
    for item in context.list_all_items(PriorityClass):
        items_by_value.setdefault(item.value.value, []).append(item)
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        equal_items = [
            item for item in items_by_value[priority_class.value] if context.variants.can_coexist(subject, item.subject)
        ]
        other_names = sorted({item.subject.name for item in equal_items} - {subject.name})
        is_reported = any(item.subject.location and item.subject.name < subject.name for item in equal_items)
        if other_names and not is_reported:
            message = f"{', '.join(other_names)} {agreeing(len(other_names), 'has', 'have')} the same value"
            yield subject.build_problem(("value",), f"{message}, {priority_class.value:,}")


PC_DUPLICATE_VALUE = Rule(
    "pc-duplicate-value",
    NOTE,
    find_duplicate_priority_values,
    summary="Two PriorityClasses with the same value",
    why="Two names suggest that one class outranks the other, but the scheduler treats their pods alike.",
    fix="Give the classes different values, or keep one of them",
    source=doc.PRIORITY,
    profile=RuleProfile.STRICT,
)


def find_classes_without_description(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses without a description, except for the classes of the system.

    Finds nothing in a cluster in which no class has a description, as snapshots may leave descriptions out.
    """
    classes = context.list_linted_objects(PriorityClass)
    if not any(subject.document or priority_class.description for subject, priority_class in classes):
        return
    for subject, priority_class in classes:
        if not priority_class.description and not priority_class.metadata.name.startswith(RESERVED_PREFIX):
            yield subject.build_problem((), "no description says which pods should use this class")


PC_NO_DESCRIPTION = Rule(
    "pc-no-description",
    NOTE,
    find_classes_without_description,
    summary="PriorityClass without a description",
    why="Users cannot tell which pods should use the class.",
    fix="Say in description which pods should use the class",
    source=doc.PRIORITY,
    profile=RuleProfile.STRICT,
)


def find_never_preempting_classes_described_as_preempting(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with preemptionPolicy Never whose name or description suggests preemption."""
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if priority_class.preemption_policy != "Never":
            continue
        text = f"{priority_class.metadata.name} {priority_class.description}".lower()
        for word in PREEMPTING_WORDS:
            if word in text and not any(negation + word in text for negation in _NEGATIONS):
                message = f'described as "{word}", but with preemptionPolicy Never its pods preempt no others'
                yield subject.build_problem(("preemptionPolicy",), message)
                break


PC_NEVER_BUT_URGENT = Rule(
    "pc-never-but-urgent",
    NOTE,
    find_never_preempting_classes_described_as_preempting,
    summary="preemptionPolicy: Never on a class whose name or description suggests preemption",
    why="The pods of the class go to the head of the queue, but wait with growing backoff until other pods leave.",
    fix="Remove preemptionPolicy: Never, or make clear in name and description that the class does not preempt",
    source=f"{doc.PRIORITY}#non-preempting-priority-class",
)


def find_missing_priority_classes(context: LintContext) -> Iterator[Problem]:
    """Find workloads that name a PriorityClass which does not exist.

    If not all classes are known, only names that begin with system- are reported.
    """
    are_classes_known = context.are_priority_classes_known()
    for workload in context.workloads:
        name = workload.spec.priority_class_name
        is_reserved = name.startswith(RESERVED_PREFIX)  # users cannot create such a class
        would_be_known = are_classes_known or is_reserved
        if name and name not in context.priority_classes and would_be_known:
            message = f'PriorityClass "{name}" does not exist'
            fix = _suggest_priority_class(name, context.priority_classes)
            yield workload.build_problem(("priorityClassName",), message, fix)


PC_MISSING = Rule(
    "pc-missing",
    ERROR,
    find_missing_priority_classes,
    summary="priorityClassName of a class that does not exist",
    why="The API server rejects the pods: the controller keeps retrying, and no pod starts. Checked only if the "
    "cluster or the manifests contain at least one PriorityClass.",
    fix="Create the PriorityClass, or correct the name",
    source=doc.PRIORITY,
)


def _suggest_priority_class(name: str, known_names: Collection[str]) -> str:
    """Suggest the known PriorityClass that a missing one resembles, or return "" if none is similar."""
    intended_name = find_similar_name(name, known_names)
    if intended_name:
        return f"Write {intended_name}"
    similar_names = difflib.get_close_matches(name, known_names, 1, _MIN_SIMILARITY)
    return f"Create the PriorityClass, or did you mean {similar_names[0]}?" if similar_names else ""


def find_workloads_without_priority_class(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads without a PriorityClass in namespaces where other workloads or pods have a class above 0.

    Finds nothing if there is a global default, or if not all classes are known.
    """
    classes = [
        priority_class
        for priority_class in context.list_all_objects(PriorityClass)
        if not priority_class.metadata.name.startswith(RESERVED_PREFIX)
    ]
    if not context.are_priority_classes_known() or any(priority_class.global_default for priority_class in classes):
        return
    serving_workloads = [workload for workload in context.workloads if workload.kind in SERVING_KINDS]
    uses = {(workload.namespace, workload.spec.priority_class_name) for workload in serving_workloads}
    pods = context.cluster.pods if context.cluster else ()
    uses |= {(pod.metadata.namespace, pod.spec.priority_class_name) for pod in pods}
    classes_above_zero = {priority_class.metadata.name for priority_class in classes if priority_class.value > 0}
    namespaces_with_class = {namespace for namespace, name in uses if name in classes_above_zero}
    classes_below_zero = sorted(priority_class.metadata.name for priority_class in classes if priority_class.value < 0)
    consequence = "so its pods have priority 0 and are the first to be preempted"
    if classes_below_zero:
        consequence = (
            f"so its pods have priority 0: only pods of {first_few(classes_below_zero)} are preempted before them"
        )
    for workload in serving_workloads:
        spec = workload.spec
        if not spec.priority_class_name and not spec.priority and workload.namespace in namespaces_with_class:
            yield workload.build_problem((), f"no priorityClassName and no global default, {consequence}")


PC_NOT_SET = Rule(
    "pc-not-set",
    NOTE,
    find_workloads_without_priority_class,
    summary="No priorityClassName although other workloads in the namespace have one",
    why="Pods without a class have priority 0 and are preempted first when pods of a class with a value above 0 "
    "need room.",
    fix="Set priorityClassName",
    source=doc.PRIORITY,
    once_per_namespace=True,
)


def find_system_classes_in_user_namespaces(workload: Workload) -> Iterator[Problem]:
    """Report a workload with a system- PriorityClass outside the namespaces of the system.

    DaemonSets are left out: node agents are part of the system in every namespace.
    """
    name, namespace = workload.spec.priority_class_name, workload.subject.namespace
    if workload.kind == "DaemonSet" or not namespace:
        return
    is_system_namespace = "system" in namespace or namespace.startswith(SYSTEM_NAMESPACE_PREFIXES)
    if name.startswith(RESERVED_PREFIX) and not is_system_namespace:
        message = f"with {name} in namespace {namespace}, its pods can preempt all others"
        yield workload.build_problem(("priorityClassName",), message)


PC_SYSTEM_CRITICAL_IN_USER_NS = Rule(
    "pc-system-critical-in-user-ns",
    NOTE,
    for_each_workload(find_system_classes_in_user_namespaces),
    summary="A system-*-critical class outside system namespaces",
    why="With a priority of 2,000,000,000 or more, the pods can preempt all others, including ingress and monitoring.",
    fix="Use a class of your own with a value of at most 1000000000",
    source=doc.PRIORITY,
    once_per_namespace=True,
)


def find_deleted_classes_in_use(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses that no longer exist although bound pods of the cluster use them.

    Each class is reported once, at the first of these pods. Finds nothing if not all classes are known.
    """
    assert context.cluster is not None
    if not context.are_priority_classes_known():
        return
    all_pods = context.cluster.pods
    existing_or_none = {"", *context.priority_classes}
    rows = all_pods.find_rows(lambda template: template.spec.priority_class_name not in existing_or_none)
    bound_pods_by_class: dict[str, list[Pod]] = {}
    for row in rows.tolist():
        pod = all_pods[row]
        if pod.spec.node_name:
            bound_pods_by_class.setdefault(pod.spec.priority_class_name, []).append(pod)
    for name, bound_pods in bound_pods_by_class.items():
        first_pod, count = bound_pods[0], len(bound_pods)
        subject = Subject("Pod", first_pod.metadata.name, first_pod.metadata.namespace)
        message = (
            f'PriorityClass "{name}" no longer exists, but {counted(count, "running pod")} '
            f"{agreeing(count, 'uses', 'use')} it: the API server will reject replacements"
        )
        yield subject.build_problem(("spec", "priorityClassName"), message)


PC_DELETED_IN_USE = Rule(
    "pc-deleted-in-use",
    ERROR,
    find_deleted_classes_in_use,
    summary="Running pods of a PriorityClass that was deleted",
    why="Running pods keep their priority, but the API server rejects every new pod of the class, so lost pods are not "
    "replaced.",
    fix="Create the class again, or move the workloads to another class",
    source=doc.PRIORITY,
    needs_cluster=True,
)


def find_owners_with_mixed_priorities(context: LintContext) -> Iterator[Problem]:
    """Find workloads of the cluster whose pods have different priorities.

    Pods without a priority do not count.
    """
    assert context.cluster is not None
    for (kind, namespace, name), pods in context.cluster.pods.pods_by_owner.items():
        priorities = {pod.spec.priority for pod in pods.list_distinct_templates() if pod.spec.priority is not None}
        if len(priorities) > 1:
            values = ", ".join(f"{value:,}" for value in sorted(priorities))
            message = f"its pods have different priorities: {values}"
            yield Subject(kind, name, namespace).build_problem(("spec",), message)


PC_GLOBAL_DEFAULT_DRIFT = Rule(
    "pc-global-default-drift",
    WARNING,
    find_owners_with_mixed_priorities,
    summary="Pods of one workload with different priorities",
    why="A new or changed PriorityClass applies only to new pods. Old pods keep their priority, and new pods of the "
    "same workload may preempt them.",
    fix="Restart the workload, so that all its pods get the current priority",
    source=f"{doc.PRIORITY}#notes-about-podpriority-and-existing-clusters",
    needs_cluster=True,
)


def find_unused_priority_classes(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses that no pod of the cluster and no linted workload uses.

    The global default and the system's classes are left out. Finds nothing if not all pods are known.
    """
    assert context.cluster is not None
    if not context.are_all_read("Pod"):
        return
    used_names = {template.spec.priority_class_name for template in context.cluster.pods.templates}
    used_names |= {workload.spec.priority_class_name for workload in context.workloads}
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        name = priority_class.metadata.name
        if name not in used_names and not priority_class.global_default and not name.startswith(RESERVED_PREFIX):
            yield subject.build_problem((), "no pod or workload uses this class")


PC_UNUSED = Rule(
    "pc-unused",
    NOTE,
    find_unused_priority_classes,
    summary="A PriorityClass that nothing uses",
    why="The class is obsolete, or a workload that should use it misspells its name.",
    fix="Delete the class, or use it",
    source=doc.PRIORITY,
    needs_cluster=True,
)


def find_highest_classes_without_quota(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses of the highest value whose use no ResourceQuota limits.

    Reserved classes do not count. Finds nothing if no ResourceQuota is linted.
    """
    quotas = context.list_linted_objects(ResourceQuota)
    if not quotas:
        return
    limited_classes = set()
    for _, quota in quotas:
        for expression in quota.spec.scope_selector.match_expressions:
            if expression.scope_name == "PriorityClass":
                # Without values, as with the operator Exists, the quota limits all classes
                limited_classes |= set(expression.values or context.priority_classes)
    values = [
        known_class.value
        for known_class in context.list_all_objects(PriorityClass)
        if not known_class.metadata.name.startswith(RESERVED_PREFIX)
    ]
    highest_value = max(values, default=0)
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        is_highest = highest_value > 0 and priority_class.value == highest_value
        if is_highest and priority_class.metadata.name not in limited_classes:
            message = "no ResourceQuota limits its use, so every namespace may use the highest priority"
            yield subject.build_problem((), message)


PC_NO_QUOTA = Rule(
    "pc-no-quota",
    NOTE,
    find_highest_classes_without_quota,
    summary="No ResourceQuota limits the use of the highest PriorityClass",
    why="Anyone who can create pods can choose the highest class and preempt other pods. Checked only if "
    "ResourceQuotas are linted.",
    fix="In each tenant's namespace, limit the use of the class with a ResourceQuota whose scopeSelector matches that "
    "PriorityClass",
    source="https://kubernetes.io/docs/concepts/policy/resource-quotas/#resource-quota-per-priorityclass",
    profile=RuleProfile.STRICT,
)
