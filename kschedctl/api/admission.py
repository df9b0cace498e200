"""Changes that the API server makes to a pod when it is created.

Label keys of affinity terms and spread constraints become selector requirements, and the RuntimeClass adds its
settings.

Upstream: pkg/registry/core/pod/strategy.go and plugin/pkg/admission/runtimeclass (v1.36), KEP-3633 and KEP-3243.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import (
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    RuntimeClass,
    RuntimeClassScheduling,
    SelectorRequirement,
    TopologySpreadConstraint,
)


def admit_runtime_class(pod: Pod, classes: Iterable[RuntimeClass]) -> Pod:
    """Return the pod with the overhead, node selector and tolerations of its RuntimeClass, if that is known."""
    class_ = next((c for c in classes if c.metadata.name == pod.spec.runtime_class_name), None)
    if class_ is None:
        return pod
    spec, scheduling = pod.spec, class_.scheduling or RuntimeClassScheduling()
    added = tuple(toleration for toleration in scheduling.tolerations if toleration not in spec.tolerations)
    admitted = replace(
        spec,
        overhead=class_.overhead.pod_fixed if class_.overhead else spec.overhead,
        node_selector={**spec.node_selector, **scheduling.node_selector},
        tolerations=(*spec.tolerations, *added),
    )
    return replace(pod, spec=admitted)


def merge_affinity_label_keys(pod: Pod) -> Pod:
    """Turn matchLabelKeys and mismatchLabelKeys of affinity terms into In and NotIn requirements on the pod's own
    labels.
    """
    affinity, labels = pod.spec.affinity, pod.metadata.labels
    if affinity is None or not labels:
        return pod
    merged = replace(
        affinity,
        pod_affinity=_merge_terms(affinity.pod_affinity, labels),
        pod_anti_affinity=_merge_terms(affinity.pod_anti_affinity, labels),
    )
    return replace(pod, spec=replace(pod.spec, affinity=merged))


def merge_spread_label_keys(pod: Pod) -> Pod:
    """Turn matchLabelKeys of topology spread constraints into In requirements on the pod's own labels."""
    constraints = tuple(
        merge_constraint_label_keys(c, pod.metadata.labels) for c in pod.spec.topology_spread_constraints
    )
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints)) if constraints else pod


def merge_constraint_label_keys(
    constraint: TopologySpreadConstraint, labels: dict[str, str]
) -> TopologySpreadConstraint:
    """Merge matchLabelKeys into the selector of one constraint of a pod with these labels."""
    selector = _add_label_requirements(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _merge_terms(affinity: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    """Add the selectors for label keys to all terms of a pod affinity."""
    if affinity is None:
        return None
    return PodAffinity(
        tuple(_merge_term(t, labels) for t in affinity.required_during_scheduling_ignored_during_execution),
        tuple(
            replace(t, pod_affinity_term=_merge_term(t.pod_affinity_term, labels))
            for t in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _merge_term(term: PodAffinityTerm, labels: dict[str, str]) -> PodAffinityTerm:
    selector = _add_label_requirements(term.label_selector, term.match_label_keys, "In", labels)
    selector = _add_label_requirements(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _add_label_requirements(
    selector: LabelSelector | None, keys: Sequence[str], operator: str, labels: dict[str, str]
) -> LabelSelector | None:
    """Add a requirement for each key that the pod has as a label. A missing selector stays missing."""
    added = tuple(SelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels)
    if selector is None or not added:
        return selector
    return replace(selector, match_expressions=(*selector.match_expressions, *added))
