"""Pod affinity and anti-affinity: require less of where other pods are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api.objects import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)
from kschedctl.api.ownership import TEMPLATE_HASH, has_template_hash
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, waiting
from kschedctl.fixes.ways.node_labels import iter_other_topologies, label_node
from kschedctl.fixes.ways.selected_pods import label_namespaces, other_pods
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import REASON_AFFINITY, REASON_ANTI_AFFINITY
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

CORRECT, ROLLOUT, SOFTEN = 10, 12, 55
ABOUT = {REASON_AFFINITY: "pod_affinity", REASON_ANTI_AFFINITY: "pod_anti_affinity"}
"""Which of its own terms a refusal is about; that of other pods' anti-affinity is about none."""
MOST_DOMAINS = 3
WORDS = {
    "pod_affinity": ("SoftenPodAffinity", "be near", "it may run far from the pods that it wants to be near"),
    "pod_anti_affinity": (
        "SoftenAntiAffinity",
        "keep away from",
        "it may run beside pods that it wants to keep away from",
    ),
}


def terms(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Each required term that may be to blame: corrected, or preferred instead."""
    field = ABOUT.get(refusal.reason)
    if field is None:
        return
    kind, words, weakens = WORDS[field]
    pod, labels = tried.trial.own, tried.cycle.view.nodes
    for place, term in enumerate(required(pod, field)):
        if isinstance(refusal.fact, TopologyLabelMissing) or not labels.label(term.topology_key).present.any():
            yield from _other_key(tried, field, place, term)
        if field == "pod_affinity":
            for kind_of_other, target, text, cost, other in other_pods(tried, place, term):
                edits = on_pod(pod, _with_term(field, place, other))
                yield Fix(kind_of_other, (place, *target), text, "author", edits, cost)
        else:
            yield from _of_revision(tried, place, term)
        text = f"prefer to {words} pods instead of requiring it (term {place + 1}, {term.topology_key})"
        edits = on_pod(pod, _softened(field, term))
        yield Fix(kind, (field, str(term)), text, "author", edits, SOFTEN, weakens)
    if isinstance(refusal.fact, TopologyLabelMissing):
        for value in labels.label(refusal.fact.key).values[:MOST_DOMAINS]:
            yield from label_node(tried, refusal.fact.key, value)


def required(pod: Pod, field: str) -> tuple[PodAffinityTerm, ...]:
    """The required terms of one of the two."""
    own = getattr(pod.spec.affinity, field, None)
    return own.required_during_scheduling_ignored_during_execution if own else ()


def _other_key(tried: TriedNode, field: str, place: int, term: PodAffinityTerm) -> Iterator[Fix]:
    for right, price in iter_other_topologies(term.topology_key, tried):
        text = f"use the topology {right} instead of {term.topology_key} in its {field.replace('_', ' ')}"
        edits = on_pod(tried.trial.pod, _with_term(field, place, replace(term, topology_key=right)))
        yield Fix("CorrectTopologyKey", (field, place, right), text, "author", edits, CORRECT, price=price)


def _of_revision(tried: TriedNode, place: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """A term that speaks of pods of its own revision alone, as a rolling update needs it.

    The scheduler reads the selector, to which the API server adds the keys when a pod is created.
    """
    pod = tried.trial.own
    revision = pod.metadata.labels.get(TEMPLATE_HASH)
    if (
        revision is None
        or not has_template_hash(pod)
        or TEMPLATE_HASH in term.match_label_keys
        or term.label_selector is None
    ):
        return
    keys = replace(term, match_label_keys=(*term.match_label_keys, TEMPLATE_HASH))
    if tried.trial.created and not tried.cycle.view.cluster.admit:
        only = SelectorRequirement(TEMPLATE_HASH, "In", (revision,))
        expressions = (*term.label_selector.match_expressions, only)
        keys = replace(keys, label_selector=replace(term.label_selector, match_expressions=expressions))
    text = f"keep away only from pods of its own revision (matchLabelKeys: {TEMPLATE_HASH}, term {place + 1})"
    edits = on_pod(pod, _with_term("pod_anti_affinity", place, keys))
    yield Fix("MatchLabelKeys", ("pod_anti_affinity", place), text, "author", edits, ROLLOUT)


def _with_term(field: str, place: int, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        terms = list(required(pod, field))
        if place >= len(terms):
            return pod
        terms[place] = term
        return _with(pod, field, required_during_scheduling_ignored_during_execution=tuple(terms))

    return change


def _softened(field: str, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        terms = list(required(pod, field))
        if term not in terms:
            return pod
        terms.remove(term)
        own: PodAffinity = getattr(pod.spec.affinity, field)
        preferred = (*own.preferred_during_scheduling_ignored_during_execution, WeightedPodAffinityTerm(100, term))
        return _with(
            pod,
            field,
            required_during_scheduling_ignored_during_execution=tuple(terms),
            preferred_during_scheduling_ignored_during_execution=preferred,
        )

    return change


def _with(pod: Pod, field: str, **fields: object) -> Pod:
    affinity = pod.spec.affinity
    assert isinstance(affinity, Affinity)
    own = replace(getattr(affinity, field), **fields)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{field: own})))


REMEDIES = {
    InterPodAffinity: PluginRemedies(
        (waiting.await_terminating, terms, label_namespaces, neighbours.move_or_drop), indirect=True
    )
}
