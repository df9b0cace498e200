"""Rules about workloads and pods that use, or should use, PriorityClasses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kschedctl.api.objects import Pod, PriorityClass, ResourceQuota
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.owners import group_pods_by_owner
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile, for_each_workload
from kschedctl.lint.rules.priority.classes import RESERVED_PREFIX
from kschedctl.text.counts import agreeing, counted

SYSTEM_NAMESPACE_PREFIXES = ("openshift-", "kube-")
"""Prefixes of namespaces with a distribution's own pods."""


def _are_classes_known(context: LintContext) -> bool:
    """Return whether PriorityClasses were read. Every cluster has some, so none at all means that none were read."""
    return bool(context.list_all(PriorityClass)) and context.are_all_read("PriorityClass")


def find_missing_classes(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose priorityClassName does not exist."""
    are_classes_known = _are_classes_known(context)
    for workload in context.workloads:
        name = workload.spec.priority_class_name
        is_reserved = name.startswith(RESERVED_PREFIX)  # users cannot create such a class
        if name and name not in context.priority_classes and (are_classes_known or is_reserved):
            meant = find_similar_name(name, context.priority_classes)
            yield workload.build_problem(
                ("priorityClassName",), f'there is no PriorityClass "{name}"', f"Write {meant}" if meant else ""
            )


PC_MISSING = Rule(
    "pc-missing",
    ERROR,
    find_missing_classes,
    summary="priorityClassName of a class that does not exist",
    why="Admission refuses the pods; the controller keeps trying and nothing starts. Checked where "
    "some PriorityClass is known, of the cluster or among the manifests.",
    fix="Create the PriorityClass, or correct the name",
    source=doc.PRIORITY,
)


def find_workloads_without_class(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads without a class in namespaces where others have one above 0."""
    classes = [c for c in context.list_all(PriorityClass) if not c.metadata.name.startswith(RESERVED_PREFIX)]
    serving = [workload for workload in context.workloads if workload.kind in SERVING_KINDS]
    if not _are_classes_known(context) or any(c.global_default for c in classes):
        return
    uses = {(workload.namespace, workload.spec.priority_class_name) for workload in serving}
    pods = context.cluster.pods if context.cluster else ()
    uses |= {(pod.metadata.namespace, pod.spec.priority_class_name) for pod in pods}
    classes_above_zero = {c.metadata.name for c in classes if c.value > 0}
    namespaces = {namespace for namespace, name in uses if name in classes_above_zero}
    for workload in serving:
        spec = workload.spec
        if not spec.priority_class_name and not spec.priority and workload.namespace in namespaces:
            yield workload.build_problem(
                (), "no priorityClassName and no global default: its pods are the first victims"
            )


PC_NOT_SET = Rule(
    "pc-not-set",
    NOTE,
    find_workloads_without_class,
    summary="No PriorityClass where others in the namespace have one",
    why="Pods without a class have priority 0 and are evicted first when pods of a class with a value above 0 "
    "need room.",
    fix="Set priorityClassName",
    source=doc.PRIORITY,
    once_per_namespace=True,
)


def find_system_classes_in_user_namespaces(workload: Workload) -> Iterator[Problem]:
    """Find workloads with a system- class outside the namespaces of the system.

    DaemonSets are left out: node agents are part of the system in every namespace.
    """
    name, namespace = workload.spec.priority_class_name, workload.subject.namespace
    if workload.kind == "DaemonSet" or not namespace:
        return
    is_system_namespace = "system" in namespace or namespace.startswith(SYSTEM_NAMESPACE_PREFIXES)
    if name.startswith(RESERVED_PREFIX) and not is_system_namespace:
        yield workload.build_problem(
            ("priorityClassName",), f"{name} in namespace {namespace}: its pods evict all others"
        )


PC_SYSTEM_CRITICAL_IN_USER_NS = Rule(
    "pc-system-critical-in-user-ns",
    NOTE,
    for_each_workload(find_system_classes_in_user_namespaces),
    summary="A system-*-critical class outside system namespaces",
    why="With a priority of 2,000,000,000 such pods evict everything else, ingress and monitoring included.",
    fix="Use your own class with a value of at most 1000000000",
    source=doc.PRIORITY,
    once_per_namespace=True,
)


def find_deleted_classes_in_use(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses that running pods have and that no longer exist."""
    assert context.cluster is not None
    if not _are_classes_known(context):
        return
    pod_counts: Counter[str] = Counter()
    first_pods: dict[str, Pod] = {}
    for pod in context.cluster.pods:
        name = pod.spec.priority_class_name
        if pod.spec.node_name and name and name not in context.priority_classes:
            pod_counts[name] += 1
            first_pods.setdefault(name, pod)
    for name, count in pod_counts.items():
        pod = first_pods[name]
        subject = Subject("Pod", pod.metadata.name, pod.metadata.namespace)
        message = (
            f'PriorityClass "{name}" is gone, but {counted(count, "running pod")} {agreeing(count, "has", "have")} it: '
            "new ones will be refused"
        )
        yield subject.build_problem(("spec", "priorityClassName"), message)


PC_DELETED_IN_USE = Rule(
    "pc-deleted-in-use",
    ERROR,
    find_deleted_classes_in_use,
    summary="Running pods of a PriorityClass that was deleted",
    why="Running pods keep their priority, but every new pod that names the class is refused, so nothing is replaced.",
    fix="Create the class again, or move the workloads to another one",
    source=doc.PRIORITY,
    needs_cluster=True,
)


def find_owners_with_mixed_priorities(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose pods have different priorities."""
    assert context.cluster is not None
    for (kind, namespace, name), pods in group_pods_by_owner(context.cluster).items():
        priorities = {pod.spec.priority for pod in pods if pod.spec.priority is not None}
        if len(priorities) > 1:
            values = ", ".join(f"{value:,}" for value in sorted(priorities))
            yield Subject(kind, name, namespace).build_problem(
                ("spec",), f"its pods have different priorities: {values}"
            )


PC_GLOBAL_DEFAULT_DRIFT = Rule(
    "pc-global-default-drift",
    WARNING,
    find_owners_with_mixed_priorities,
    summary="Pods of one workload with different priorities",
    why="A new or changed (default) class only counts for new pods: old ones keep theirs, and become victims of "
    "their own siblings.",
    fix="Restart the workload, so that all its pods get the current priority",
    source=f"{doc.PRIORITY}#notes-about-podpriority-and-existing-clusters",
    needs_cluster=True,
)


def find_unused_classes(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses that no pod and no linted workload uses."""
    assert context.cluster is not None
    used = {pod.spec.priority_class_name for pod in context.cluster.pods}
    used |= {workload.spec.priority_class_name for workload in context.workloads}
    for subject, priority_class in context.list_linted(PriorityClass) if context.are_all_read("Pod") else ():
        name = priority_class.metadata.name
        if name not in used and not priority_class.global_default and not name.startswith(RESERVED_PREFIX):
            yield subject.build_problem((), "no pod and no workload uses it")


PC_UNUSED = Rule(
    "pc-unused",
    NOTE,
    find_unused_classes,
    summary="A PriorityClass that nothing uses",
    why="It is obsolete, or a workload that should use it misspells its name.",
    fix="Delete the class, or use it",
    source=doc.PRIORITY,
    needs_cluster=True,
)


def find_top_classes_without_quota(context: LintContext) -> Iterator[Problem]:
    """Find the highest PriorityClasses if no ResourceQuota among the manifests limits their use."""
    quotas = context.list_linted(ResourceQuota)
    if not quotas:
        return
    limited = set()
    for _, quota in quotas:
        for expression in quota.spec.scope_selector.match_expressions:
            if expression.scope_name == "PriorityClass":
                limited |= set(expression.values or context.priority_classes)
    classes = [c for c in context.list_all(PriorityClass) if not c.metadata.name.startswith(RESERVED_PREFIX)]
    top = max((c.value for c in classes), default=0)
    for subject, priority_class in context.list_linted(PriorityClass):
        if priority_class.value == top and priority_class.value > 0 and priority_class.metadata.name not in limited:
            yield subject.build_problem(
                (), "no ResourceQuota limits who may use it: every namespace may take top priority"
            )


PC_NO_QUOTA = Rule(
    "pc-no-quota",
    NOTE,
    find_top_classes_without_quota,
    summary="No ResourceQuota guards the highest class",
    why="Anyone who may create pods may choose the highest class and evict others. Checked when ResourceQuotas are "
    "among the manifests.",
    fix="Limit the class by a ResourceQuota with a scopeSelector for PriorityClass in each tenant's namespace",
    source="https://kubernetes.io/docs/concepts/policy/resource-quotas/#resource-quota-per-priorityclass",
    profile=RuleProfile.STRICT,
)
