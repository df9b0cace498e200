"""Preferences of pods: their description, and their removal one by one until the pod can be placed.

Upstream: pkg/controllers/provisioning/scheduling/preferences.go (sigs.k8s.io/karpenter v1.14.1), from which the texts
are copied.

Karpenter drops a preference only if no node and no NodePool can take the pod. It therefore keeps a node whose pod would
need a new node to meet a preference, even if another existing node has room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodAffinity,
    PreferredSchedulingTerm,
    Toleration,
    WeightedPodAffinityTerm,
)
from kschedctl.autoscaling.karpenter.requirements import get_required_terms

PREFER_NO_SCHEDULE = Toleration(operator="Exists", effect="PreferNoSchedule")
_ALWAYS_RENDERED = {
    "PreferredSchedulingTerm": ("weight", "preference"),
    "WeightedPodAffinityTerm": ("weight", "podAffinityTerm"),
    "PodAffinityTerm": ("topologyKey",),
    "TopologySpreadConstraint": ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    "SelectorRequirement": ("key", "operator"),
}
"""The fields that Go prints even if they are empty."""
SCHEDULE_ANYWAY = "ScheduleAnyway"


class RelaxedPod(NamedTuple):
    """A pod after a relaxation."""

    pod: Pod
    change: str
    """Description of the relaxation, in Karpenter's words."""


def relax_pod(pod: Pod, *, tolerate_prefer_no_schedule: bool) -> RelaxedPod | None:
    """Return the pod after the next relaxation, or None if nothing can be relaxed.

    The last relaxation is to tolerate PreferNoSchedule taints, if ``tolerate_prefer_no_schedule`` is set.
    """
    for step in _STEPS:
        if relaxed := step(pod):
            return relaxed
    return tolerate_prefer_no_schedule_taints(pod) if tolerate_prefer_no_schedule else None


def remove_next_preference(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its next preference, or None if it has no preferences."""
    for step in _PREFERENCE_STEPS:
        if relaxed := step(pod):
            return relaxed
    return None


def remove_required_node_affinity_term(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its first required node affinity term, or None if no other term would be left."""
    terms = get_required_terms(pod)
    if len(terms) < 2:
        return None
    node_affinity = _get_node_affinity(pod)
    changed = replace(node_affinity, required_during_scheduling_ignored_during_execution=NodeSelector(terms[1:]))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    change = f"removing: {path}={render_like_go(terms[0])}"
    return RelaxedPod(_replace_affinity(pod, node_affinity=changed), change)


def tolerate_prefer_no_schedule_taints(pod: Pod) -> RelaxedPod | None:
    """Return the pod with a toleration of PreferNoSchedule taints, or None if it already has this toleration."""
    if any(replace(toleration, toleration_seconds=None) == PREFER_NO_SCHEDULE for toleration in pod.spec.tolerations):
        return None
    spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, PREFER_NO_SCHEDULE))
    return RelaxedPod(replace(pod, spec=spec), "adding: toleration for PreferNoSchedule taints")


def _remove_preferred_pod_affinity_term(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its heaviest preferred pod affinity term, or None if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_affinity
    if not affinity:
        return None
    return _remove_heaviest_term(affinity, "podAffinity", lambda changed: _replace_affinity(pod, pod_affinity=changed))


def _remove_preferred_pod_anti_affinity_term(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its heaviest preferred pod anti-affinity term, or None if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    if not affinity:
        return None
    return _remove_heaviest_term(
        affinity, "podAntiAffinity", lambda changed: _replace_affinity(pod, pod_anti_affinity=changed)
    )


def _remove_preferred_node_affinity_term(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its heaviest preferred node affinity term, or None if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity:
        return None
    return _remove_heaviest_term(
        affinity, "nodeAffinity", lambda changed: _replace_affinity(pod, node_affinity=changed)
    )


def _remove_heaviest_term(
    affinity: PodAffinity | NodeAffinity, name: str, replace_in_pod: Callable[[object], Pod]
) -> RelaxedPod | None:
    """Return the pod without the heaviest preferred term of an affinity, or None if there is no preferred term.

    The remaining terms are sorted by weight. ``name`` is the affinity's field in the manifest, and ``replace_in_pod``
    returns the pod with the changed affinity.
    """
    terms: Sequence[PreferredSchedulingTerm | WeightedPodAffinityTerm] = (
        affinity.preferred_during_scheduling_ignored_during_execution
    )
    if not terms:
        return None
    heaviest, *remaining = sorted(terms, key=lambda term: -term.weight)
    changed_affinity = replace(affinity, preferred_during_scheduling_ignored_during_execution=tuple(remaining))
    path = f"spec.affinity.{name}.preferredDuringSchedulingIgnoredDuringExecution[0]"
    return RelaxedPod(replace_in_pod(changed_affinity), f"removing: {path}={render_like_go(heaviest)}")


def _remove_schedule_anyway_spread(pod: Pod) -> RelaxedPod | None:
    """Return the pod without its first ScheduleAnyway spread constraint, or None if it has none.

    As in upstream, the pod's last constraint takes the place of the removed one.
    """
    constraints = list(pod.spec.topology_spread_constraints)
    for index, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            constraints[index] = constraints[-1]
            spec = replace(pod.spec, topology_spread_constraints=tuple(constraints[:-1]))
            change = f"removing: spec.topologySpreadConstraints = {render_like_go(constraint)}"
            return RelaxedPod(replace(pod, spec=spec), change)
    return None


_PREFERENCE_STEPS = (
    _remove_preferred_pod_affinity_term,
    _remove_preferred_pod_anti_affinity_term,
    _remove_preferred_node_affinity_term,
    _remove_schedule_anyway_spread,
)
_STEPS = (remove_required_node_affinity_term, *_PREFERENCE_STEPS)


def _get_node_affinity(pod: Pod) -> NodeAffinity:
    """Return the pod's node affinity, or an empty node affinity if it has none."""
    return (pod.spec.affinity and pod.spec.affinity.node_affinity) or NodeAffinity()


def _replace_affinity(pod: Pod, **fields: object) -> Pod:
    """Return the pod with these fields of its affinity replaced."""
    affinity = msgspec.structs.replace(pod.spec.affinity or Affinity(), **fields)
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


def render_like_go(value: msgspec.Struct) -> str:
    """Render a term or constraint as JSON like Go, omitting empty fields and sorting labels."""
    return msgspec.json.encode(_convert_to_builtins(value)).decode()


def _convert_to_builtins(value: object) -> object:
    """Convert structs, dicts and tuples recursively to dicts and lists.

    The keys of dicts are sorted. Fields of structs that Go omits are left out.
    """
    if isinstance(value, msgspec.Struct):
        always_rendered = _ALWAYS_RENDERED.get(type(value).__name__, ())
        document = {}
        for field, json_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            field_value = getattr(value, field)
            if json_name in always_rendered or not _is_omitted_by_go(field_value):
                document[json_name] = _convert_to_builtins(field_value)
        return document
    if isinstance(value, dict):
        return {key: _convert_to_builtins(value[key]) for key in sorted(value)}
    if isinstance(value, tuple):
        return [_convert_to_builtins(element) for element in value]
    return value


def _is_omitted_by_go(value: object) -> bool:
    """Return whether Go's ``omitempty`` omits the value. Selectors are never omitted."""
    return value is None or (not isinstance(value, msgspec.Struct) and not value)


def describe_soft_constraints(pod: Pod) -> tuple[str, ...]:
    """Describe each soft constraint of the pod with its topology key, without repetitions."""
    return tuple(dict.fromkeys(_iter_soft_constraints(pod)))


def remove_soft_constraints(pod: Pod) -> Pod:
    """Return the pod without its soft constraints, as Karpenter sees it with preferencePolicy=Ignore."""
    while relaxed := remove_next_preference(pod):
        pod = relaxed.pod
    return pod


def _iter_soft_constraints(pod: Pod) -> Iterator[str]:
    """Yield a description of each soft constraint of the pod. Descriptions may occur several times."""
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            yield f"ScheduleAnyway spread over {constraint.topology_key}"
    affinity = pod.spec.affinity
    if affinity is None:
        return
    yield from (f"preferred pod affinity over {key}" for key in _iter_preferred_topology_keys(affinity.pod_affinity))
    yield from (
        f"preferred pod anti-affinity over {key}" for key in _iter_preferred_topology_keys(affinity.pod_anti_affinity)
    )
    if affinity.node_affinity and affinity.node_affinity.preferred_during_scheduling_ignored_during_execution:
        yield "preferred node affinity"


def _iter_preferred_topology_keys(affinity: PodAffinity | None) -> Iterator[str]:
    """Yield the topology key of each preferred term of a pod affinity or anti-affinity."""
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return (term.pod_affinity_term.topology_key for term in terms)
