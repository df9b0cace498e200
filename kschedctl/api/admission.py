"""What the API server changes in a pod at the moment of its creation: label keys become selector requirements,
and its RuntimeClass adds to it.

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
    """The pod with the overhead, node selector and tolerations of its RuntimeClass, where that is known."""
    class_ = next((c for c in classes if c.metadata.name == pod.spec.runtime_class_name), None)
    if class_ is None:
        return pod
    spec, wanted = pod.spec, class_.scheduling or RuntimeClassScheduling()
    added = tuple(toleration for toleration in wanted.tolerations if toleration not in spec.tolerations)
    admitted = replace(
        spec,
        overhead=class_.overhead.pod_fixed if class_.overhead else spec.overhead,
        node_selector={**spec.node_selector, **wanted.node_selector},
        tolerations=(*spec.tolerations, *added),
    )
    return replace(pod, spec=admitted)


def merge_affinity_label_keys(pod: Pod) -> Pod:
    """(mis)matchLabelKeys of (anti-)affinity terms become In (NotIn) requirements on the pod's own label values."""
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
    """matchLabelKeys of topology spread constraints become In requirements on the pod's own label values."""
    constraints = tuple(merged_label_keys(c, pod.metadata.labels) for c in pod.spec.topology_spread_constraints)
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints)) if constraints else pod


def merged_label_keys(constraint: TopologySpreadConstraint, labels: dict[str, str]) -> TopologySpreadConstraint:
    """One of the constraints of a pod with these labels."""
    selector = _require(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _merge_terms(affinity: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    return PodAffinity(
        tuple(_merge(t, labels) for t in affinity.required_during_scheduling_ignored_during_execution),
        tuple(
            replace(t, pod_affinity_term=_merge(t.pod_affinity_term, labels))
            for t in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _merge(term: PodAffinityTerm, labels: dict[str, str]) -> PodAffinityTerm:
    selector = _require(term.label_selector, term.match_label_keys, "In", labels)
    selector = _require(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _require(
    selector: LabelSelector | None, keys: Sequence[str], operator: str, labels: dict[str, str]
) -> LabelSelector | None:
    """Add one requirement for each key that the pod is labelled with; a missing selector stays missing."""
    added = tuple(SelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels)
    if selector is None or not added:
        return selector
    return replace(selector, match_expressions=(*selector.match_expressions, *added))
