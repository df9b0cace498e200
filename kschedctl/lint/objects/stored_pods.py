"""Pods of a cluster as somebody wrote them, before the API server and their controller completed them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api import objects as api


def as_written(pod: api.Pod) -> api.PodSpec:
    """The spec less the requirements that label keys became at creation, and without the node that it runs on.

    Upstream: mutatePodAffinity and mutateTopologySpreadConstraints in pkg/registry/core/pod/strategy.go (v1.36).
    """
    spec, labels = pod.spec, pod.metadata.labels
    constraints = tuple(
        replace(c, label_selector=_less(c.label_selector, c.match_label_keys, "In", labels))
        for c in spec.topology_spread_constraints
    )
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(
            affinity,
            pod_affinity=_less_in_terms(affinity.pod_affinity, labels),
            pod_anti_affinity=_less_in_terms(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, node_name="", topology_spread_constraints=constraints, affinity=affinity)


def without_own_claims(spec: api.PodSpec, pod: str) -> api.PodSpec:
    """The spec less the claims that a StatefulSet made for this one pod of it, by its volumeClaimTemplates."""
    return replace(spec, volumes=tuple(v for v in spec.volumes if not _is_own(v, pod)))


def without_node_pin(spec: api.PodSpec) -> api.PodSpec:
    """The spec less the requirement on the node's name by which the DaemonSet controller places each pod."""
    affinity = spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if affinity is None or node_affinity is None or required is None:
        return spec
    terms = [replace(term, match_fields=()) for term in required.node_selector_terms if term.match_expressions]
    selector = replace(required, node_selector_terms=tuple(terms)) if terms else None
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _is_own(volume: api.Volume, pod: str) -> bool:
    claim = volume.persistent_volume_claim
    return claim is not None and claim.claim_name == f"{volume.name}-{pod}"


def _less_in_terms(affinity: api.PodAffinity | None, labels: dict[str, str]) -> api.PodAffinity | None:
    if affinity is None:
        return None
    return api.PodAffinity(
        tuple(_less_in_term(t, labels) for t in affinity.required_during_scheduling_ignored_during_execution),
        tuple(
            replace(t, pod_affinity_term=_less_in_term(t.pod_affinity_term, labels))
            for t in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _less_in_term(term: api.PodAffinityTerm, labels: dict[str, str]) -> api.PodAffinityTerm:
    selector = _less(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_less(selector, term.mismatch_label_keys, "NotIn", labels))


def _less(
    selector: api.LabelSelector | None, keys: Sequence[str], operator: str, labels: dict[str, str]
) -> api.LabelSelector | None:
    if selector is None or not keys:
        return selector
    added = {api.SelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels}
    return replace(selector, match_expressions=tuple(e for e in selector.match_expressions if e not in added))
