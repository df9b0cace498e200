"""Pod affinity and anti-affinity: require less of where other pods are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from kschedctl.api.objects import Affinity, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from kschedctl.scheduler.facts import TopologyLabelMissing
from kschedctl.studies.remedies.changes import Fix, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site
from kschedctl.studies.remedies.ways.node_labels import near_keys

CORRECT, SOFTEN = 10, 55
WORDS = {
    "pod_affinity": ("SoftenPodAffinity", "be near", "it may run far from the pods that it wants to be near"),
    "pod_anti_affinity": (
        "SoftenAntiAffinity",
        "keep away from",
        "it may run beside pods that it wants to keep away from",
    ),
}


def terms(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """Each required term preferred instead, or with a topology that nodes have."""
    pod = site.trial.pod
    for field, (kind, words, weakens) in WORDS.items():
        for place, term in enumerate(required(pod, field)):
            if isinstance(refusal.fact, TopologyLabelMissing) or not _known(site, term.topology_key):
                yield from _other_key(site, field, place, term)
            text = f"prefer to {words} pods instead of requiring it (term {place + 1}, {term.topology_key})"
            edits = on_pod(pod, _softened(field, place))
            yield Fix(kind, (field, str(term)), text, "author", edits, SOFTEN, weakens)


def _known(site: Site, key: str) -> bool:
    return bool(site.cycle.view.nodes.label(key).occupied)


def required(pod: Pod, field: str) -> tuple[PodAffinityTerm, ...]:
    """The required terms of one of the two."""
    own = getattr(pod.spec.affinity, field, None)
    return own.required_during_scheduling_ignored_during_execution if own else ()


def _other_key(site: Site, field: str, place: int, term: PodAffinityTerm) -> Iterator[Fix]:
    for right in near_keys(term.topology_key, site.cycle.view.nodes):
        text = f"use the topology {right} instead of {term.topology_key} in its {field.replace('_', ' ')}"
        edits = on_pod(site.trial.pod, _with_term(field, place, replace(term, topology_key=right)))
        yield Fix("CorrectTopologyKey", (field, place, right), text, "author", edits, CORRECT)


def _with_term(field: str, place: int, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        found = list(required(pod, field))
        found[place] = term
        return _with(pod, field, required_during_scheduling_ignored_during_execution=tuple(found))

    return change


def _softened(field: str, place: int) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        found = list(required(pod, field))
        if place >= len(found):
            return pod
        term = found.pop(place)
        own: PodAffinity = getattr(pod.spec.affinity, field)
        preferred = (*own.preferred_during_scheduling_ignored_during_execution, WeightedPodAffinityTerm(100, term))
        return _with(
            pod,
            field,
            required_during_scheduling_ignored_during_execution=tuple(found),
            preferred_during_scheduling_ignored_during_execution=preferred,
        )

    return change


def _with(pod: Pod, field: str, **fields: Any) -> Pod:
    affinity = pod.spec.affinity
    assert isinstance(affinity, Affinity)
    own = replace(getattr(affinity, field), **fields)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{field: own})))
