"""Fixes for pod affinity and anti-affinity: correct a term, prefer it instead of requiring it, or label a node."""

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
from kschedctl.fixes.trial.changes import Fix, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRejection, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, waiting
from kschedctl.fixes.ways.node_labels import iter_other_topologies, iter_role_label_fix
from kschedctl.fixes.ways.selected_pods import iter_namespace_label_fixes, iter_term_corrections
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import REASON_AFFINITY, REASON_ANTI_AFFINITY
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

CORRECT, ROLLOUT, SOFTEN = 10, 12, 55
FIELD_BY_REASON = {REASON_AFFINITY: "pod_affinity", REASON_ANTI_AFFINITY: "pod_anti_affinity"}
"""Reason of a rejection -> the pod's field with the terms that cause it. Other pods' anti-affinity has no field."""
MOST_DOMAINS = 3
"""How many label values are proposed for a node without the topology label."""
SOFTENING_TEXTS = {
    "pod_affinity": (FixKind.SOFTEN_POD_AFFINITY, "be near", "it may run far from the pods that it wants to be near"),
    "pod_anti_affinity": (
        FixKind.SOFTEN_ANTI_AFFINITY,
        "keep away from",
        "it may run beside pods that it wants to keep away from",
    ),
}
"""Field -> the kind of the fix that softens its terms, a verb for its text, and what the fix weakens."""


def iter_affinity_term_fixes(tried: TriedNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for the pod's required affinity or anti-affinity terms that may cause the rejection.

    Each affinity term is corrected, each anti-affinity term is limited to pods of the same revision, and both are
    turned into preferences. If the node lacks the topology label, fixes that add the label come last. There are no
    fixes if the anti-affinity of other pods causes the rejection.
    """
    field = FIELD_BY_REASON.get(rejection.reason)
    if field is None:
        return
    nodes = tried.cycle.view.nodes
    lacks_label = isinstance(rejection.fact, TopologyLabelMissing)
    for index, term in enumerate(get_required_terms(tried.trial.authored_pod, field)):
        if lacks_label or not nodes.label(term.topology_key).present.any():
            yield from _iter_topology_key_fixes(tried, field, index, term)
        if field == "pod_affinity":
            yield from _iter_selector_fixes(tried, index, term)
        else:
            yield from _iter_own_revision_fix(tried, index, term)
        yield _build_term_softening_fix(tried.trial.authored_pod, field, index, term)
    if isinstance(rejection.fact, TopologyLabelMissing):
        for value in nodes.label(rejection.fact.key).values[:MOST_DOMAINS]:
            yield from iter_role_label_fix(tried, rejection.fact.key, value)


def get_required_terms(pod: Pod, field: str) -> tuple[PodAffinityTerm, ...]:
    """Return the pod's required terms in `field`, which is `pod_affinity` or `pod_anti_affinity`."""
    affinity = getattr(pod.spec.affinity, field, None)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _iter_topology_key_fixes(tried: TriedNode, field: str, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield fixes that replace a term's topology key, which no node has, by a similar or a usual key.

    `field` and `index` locate the term in the pod's spec.
    """
    for new_key, price in iter_other_topologies(term.topology_key, tried):
        text = f"use the topology {new_key} instead of {term.topology_key} in its {field.replace('_', ' ')}"
        edits = build_pod_edits(tried.trial.pod, _build_term_change(field, index, replace(term, topology_key=new_key)))
        yield Fix(
            FixKind.CORRECT_TOPOLOGY_KEY,
            (field, index, new_key),
            text,
            by="author",
            edits=edits,
            cost=CORRECT,
            price=price,
        )


def _iter_selector_fixes(tried: TriedNode, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield fixes that correct the selector or namespaces of the affinity term at this index, if it selects no pod."""
    pod = tried.trial.authored_pod
    for correction in iter_term_corrections(tried, index, term):
        edits = build_pod_edits(pod, _build_term_change("pod_affinity", index, correction.term))
        target = (index, *correction.target)
        yield Fix(correction.kind, target, correction.text, by="author", edits=edits, cost=correction.cost)


def _build_term_softening_fix(pod: Pod, field: str, index: int, term: PodAffinityTerm) -> Fix:
    """Build the fix that turns the required term at this index into a preference."""
    kind, verb, weakens = SOFTENING_TEXTS[field]
    text = f"prefer to {verb} pods instead of requiring it (term {index + 1}, {term.topology_key})"
    edits = build_pod_edits(pod, _build_softening_change(field, term))
    return Fix(kind, (field, str(term)), text, by="author", edits=edits, cost=SOFTEN, weakens=weakens)


def _iter_own_revision_fix(tried: TriedNode, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield the fix that limits an anti-affinity term to pods of the same revision, by matchLabelKeys.

    Otherwise, old replicas would keep new ones away during a rolling update. Nothing is yielded for pods without a
    template hash, or if the term is already limited. The scheduler reads only the term's selector. The API server
    extends the selector by the match label keys when the pod is created. If admission is not replayed, the fix extends
    the selector.
    """
    pod = tried.trial.authored_pod
    revision = pod.metadata.labels.get(TEMPLATE_HASH)
    if revision is None or not has_template_hash(pod):
        return
    if TEMPLATE_HASH in term.match_label_keys or term.label_selector is None:
        return
    limited_term = replace(term, match_label_keys=(*term.match_label_keys, TEMPLATE_HASH))
    if tried.trial.created and not tried.cycle.view.cluster.admit:
        same_revision = SelectorRequirement(TEMPLATE_HASH, "In", (revision,))
        expressions = (*term.label_selector.match_expressions, same_revision)
        limited_term = replace(limited_term, label_selector=replace(term.label_selector, match_expressions=expressions))
    text = f"keep away only from pods of its own revision (matchLabelKeys: {TEMPLATE_HASH}, term {index + 1})"
    edits = build_pod_edits(pod, _build_term_change("pod_anti_affinity", index, limited_term))
    yield Fix(FixKind.MATCH_LABEL_KEYS, ("pod_anti_affinity", index), text, by="author", edits=edits, cost=ROLLOUT)


def _build_term_change(field: str, index: int, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    """Return a function that replaces the pod's required term at this index, if the pod has a term there."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the new term."""
        terms = list(get_required_terms(pod, field))
        if index >= len(terms):
            return pod
        terms[index] = term
        return _set_affinity_fields(pod, field, required_during_scheduling_ignored_during_execution=tuple(terms))

    return change


def _build_softening_change(field: str, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    """Return a function that turns the required term of a pod into a preferred one, if the pod has the term."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the preferred term."""
        terms = list(get_required_terms(pod, field))
        if term not in terms:
            return pod
        terms.remove(term)
        own: PodAffinity = getattr(pod.spec.affinity, field)
        preferred = (*own.preferred_during_scheduling_ignored_during_execution, WeightedPodAffinityTerm(100, term))
        return _set_affinity_fields(
            pod,
            field,
            required_during_scheduling_ignored_during_execution=tuple(terms),
            preferred_during_scheduling_ignored_during_execution=preferred,
        )

    return change


def _set_affinity_fields(pod: Pod, field: str, **fields: object) -> Pod:
    """Return the pod with fields of its pod affinity or anti-affinity replaced. `field` says which of the two."""
    affinity = pod.spec.affinity
    assert isinstance(affinity, Affinity)
    changed = replace(getattr(affinity, field), **fields)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{field: changed})))


REMEDIES = {
    InterPodAffinity: PluginRemedies(
        (
            waiting.iter_termination_wait_fix,
            iter_affinity_term_fixes,
            iter_namespace_label_fixes,
            neighbours.iter_neighbour_removal_fixes,
        ),
        indirect=True,
    )
}
