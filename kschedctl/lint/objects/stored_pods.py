"""Specs of a cluster's pods as their authors wrote them, without what the API server and controllers added."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api import objects as api


def to_written_spec(pod: api.Pod) -> api.PodSpec:
    """Return the pod's spec without its node and without the selectors that the API server added at creation.

    The API server adds selectors for matchLabelKeys and mismatchLabelKeys. Upstream: mutatePodAffinity and
    mutateTopologySpreadConstraints in pkg/registry/core/pod/strategy.go (v1.36).
    """
    spec, labels = pod.spec, pod.metadata.labels
    constraints = tuple(
        replace(
            constraint,
            label_selector=_remove_label_keys(constraint.label_selector, constraint.match_label_keys, "In", labels),
        )
        for constraint in spec.topology_spread_constraints
    )
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(
            affinity,
            pod_affinity=_remove_merged_selectors_from_affinity(affinity.pod_affinity, labels),
            pod_anti_affinity=_remove_merged_selectors_from_affinity(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, node_name="", topology_spread_constraints=constraints, affinity=affinity)


def remove_template_claims(spec: api.PodSpec, pod_name: str) -> api.PodSpec:
    """Return the spec without the claims that a StatefulSet created for this pod from its volumeClaimTemplates."""
    return replace(spec, volumes=tuple(v for v in spec.volumes if not _is_template_claim(v, pod_name)))


def remove_node_pin(spec: api.PodSpec) -> api.PodSpec:
    """Return the spec without the required node name with which the DaemonSet controller pins each pod.

    Other requirements of the node affinity stay, and terms without other requirements are dropped. A spec without
    required node affinity is returned as it is.
    """
    affinity = spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if affinity is None or node_affinity is None or required is None:
        return spec
    terms = [replace(term, match_fields=()) for term in required.node_selector_terms if term.match_expressions]
    selector = replace(required, node_selector_terms=tuple(terms)) if terms else None
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _is_template_claim(volume: api.Volume, pod_name: str) -> bool:
    """Return whether a volume uses a claim that a StatefulSet created for the pod."""
    claim = volume.persistent_volume_claim
    return claim is not None and claim.claim_name == f"{volume.name}-{pod_name}"


def _remove_merged_selectors_from_affinity(
    affinity: api.PodAffinity | None, labels: dict[str, str]
) -> api.PodAffinity | None:
    """Return the pod affinity or anti-affinity without the selectors added from label keys, or None if it is None."""
    if affinity is None:
        return None
    return api.PodAffinity(
        tuple(
            _remove_label_keys_from_term(term, labels)
            for term in affinity.required_during_scheduling_ignored_during_execution
        ),
        tuple(
            replace(term, pod_affinity_term=_remove_label_keys_from_term(term.pod_affinity_term, labels))
            for term in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _remove_label_keys_from_term(term: api.PodAffinityTerm, labels: dict[str, str]) -> api.PodAffinityTerm:
    """Return an affinity term without the selectors added from its matchLabelKeys and mismatchLabelKeys."""
    selector = _remove_label_keys(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_remove_label_keys(selector, term.mismatch_label_keys, "NotIn", labels))


def _remove_label_keys(
    selector: api.LabelSelector | None, keys: Sequence[str], operator: str, labels: dict[str, str]
) -> api.LabelSelector | None:
    """Return a selector without the requirements that the API server added for these label keys.

    ``operator`` is In for matchLabelKeys and NotIn for mismatchLabelKeys. ``labels`` are the pod's labels. A missing
    selector (None) stays missing.
    """
    if selector is None or not keys:
        return selector
    added = {api.SelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels}
    return replace(
        selector,
        match_expressions=tuple(expression for expression in selector.match_expressions if expression not in added),
    )
