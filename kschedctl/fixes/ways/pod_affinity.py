"""Fixes for pod affinity and anti-affinity: correct a term, prefer it instead of requiring it, or label a node.

If a term selects no pod, the fixes correct its labels or namespaces, or label a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import (
    Affinity,
    LabelSelector,
    Namespace,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)
from kschedctl.api.ownership import TEMPLATE_HASH, has_template_hash
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import neighbours, waiting
from kschedctl.fixes.ways.node_labels import find_similar_words, iter_other_topologies, iter_role_label_fixes
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import REASON_AFFINITY, REASON_ANTI_AFFINITY
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import find_infos_matching_term
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, REGION, ZONE
from kschedctl.snapshot.pod_info import AffinityTerm

CORRECT, ROLLOUT, SOFTEN = 10, 12, 55
FIELD_BY_REASON = {REASON_AFFINITY: "pod_affinity", REASON_ANTI_AFFINITY: "pod_anti_affinity"}
"""Reason of a rejection -> the pod's field with the terms that cause it. Other pods' anti-affinity has no field."""
MOST_DOMAINS = 3
"""The maximum number of label values that are proposed for a node without the topology label."""
SOFTENING_TEXTS = {
    "pod_affinity": (
        FixKind.SOFTEN_POD_AFFINITY,
        "affinity",
        "the pod may run {in_a_domain} without pods {selected}",
    ),
    "pod_anti_affinity": (
        FixKind.SOFTEN_ANTI_AFFINITY,
        "anti-affinity",
        "the pod may share its {domain} with pods {selected}",
    ),
}
"""Field -> the kind of the fix that softens its terms, its name in texts, and what the fix weakens.

The last text has the placeholders {domain}, a noun, or {in_a_domain}, a phrase, and {selected}, which says what the
selected pods have in common.
"""

DOMAIN_PHRASES = {HOSTNAME: "on a node", ZONE: "in a zone", REGION: "in a region"}
"""Topology key -> the phrase that says that a pod runs in one of its domains."""
DOMAIN_NOUNS = {HOSTNAME: "node", ZONE: "zone", REGION: "region"}
"""Topology key -> the noun for one of its domains."""
_ELSEWHERE, _LABEL = 20, 30
_MOST_NAMESPACES = 3
_LabelValues = Mapping[str, Collection[str]]
"""Label -> the values that occur."""


def iter_affinity_term_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for the pod's required affinity or anti-affinity terms that may cause the rejection.

    Each affinity term is corrected, each anti-affinity term is limited to pods of the same revision, and both are
    turned into preferences. If the node lacks the topology label, fixes that add the label come last. There are no
    fixes if the anti-affinity of other pods causes the rejection.
    """
    field = FIELD_BY_REASON.get(rejection.reason)
    if field is None:
        return
    nodes = trial_node.cycle.view.nodes
    lacks_label = isinstance(rejection.fact, TopologyLabelMissing)
    for index, term in enumerate(get_required_terms(trial_node.trial.authored_pod, field)):
        if lacks_label or not nodes.label(term.topology_key).present.any():
            yield from _iter_topology_key_fixes(trial_node, field, index, term)
        if field == "pod_affinity":
            yield from _iter_selector_fixes(trial_node, index, term)
        else:
            yield from _iter_own_revision_fixes(trial_node, index, term)
        yield _build_term_softening_fix(trial_node.trial.authored_pod, field, index, term)
    if isinstance(rejection.fact, TopologyLabelMissing):
        for value in nodes.label(rejection.fact.key).values[:MOST_DOMAINS]:
            yield from iter_role_label_fixes(trial_node, rejection.fact.key, value)


def get_required_terms(pod: Pod, field: str) -> tuple[PodAffinityTerm, ...]:
    """Return the pod's required terms in `field`, or () if there are none.

    `field` is `pod_affinity` or `pod_anti_affinity`.
    """
    affinity = getattr(pod.spec.affinity, field, None)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _iter_topology_key_fixes(trial_node: TrialNode, field: str, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield fixes that replace a term's topology key, which no node has, with a similar or a common key.

    `field` and `index` locate the term in the pod's spec.
    """
    for new_key, price in iter_other_topologies(term.topology_key, trial_node):
        text = f"use the topology {new_key} instead of {term.topology_key} in the pod's {field.replace('_', ' ')}"
        edits = build_pod_edits(
            trial_node.trial.pod, _build_term_change(field, index, replace(term, topology_key=new_key))
        )
        yield Fix(
            kind=FixKind.CORRECT_TOPOLOGY_KEY,
            target=(field, index, new_key),
            text=text,
            by="author",
            edits=edits,
            cost=CORRECT,
            price=price,
        )


def _iter_selector_fixes(trial_node: TrialNode, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield fixes that correct the selector or namespaces of the affinity term at this index, if it selects no pod."""
    pod = trial_node.trial.authored_pod
    for correction in _iter_term_corrections(trial_node, index, term):
        edits = build_pod_edits(pod, _build_term_change("pod_affinity", index, correction.term))
        target = (index, *correction.target)
        yield Fix(
            kind=correction.kind, target=target, text=correction.text, by="author", edits=edits, cost=correction.cost
        )


def _describe_selected_pods(term: PodAffinityTerm) -> str:
    """Return a phrase that follows "pods" and says which pods the term selects, such as `that match app=web`.

    The phrase gives only the label selector, without the namespaces. If the selector matches all pods or none, the
    phrase is `that the term selects`.
    """
    selector = selector_from_api(term.label_selector)
    if selector.matches_nothing or selector.selects_everything:
        return "that the term selects"
    return f"that match {selector}"


def _build_term_softening_fix(pod: Pod, field: str, index: int, term: PodAffinityTerm) -> Fix:
    """Build the fix that turns the required term at this index into a preference.

    `field` says whether it is a term of the pod's affinity or anti-affinity.
    """
    kind, name, weakens_template = SOFTENING_TEXTS[field]
    domain = DOMAIN_NOUNS.get(term.topology_key, term.topology_key)
    in_a_domain = DOMAIN_PHRASES.get(term.topology_key, f"in a domain of {term.topology_key}")
    selected = _describe_selected_pods(term)
    weakens = weakens_template.format(domain=domain, in_a_domain=in_a_domain, selected=selected)
    text = f"make {name} term {index + 1} ({term.topology_key}) preferred instead of required"
    edits = build_pod_edits(pod, _build_softening_change(field, term))
    return Fix(kind=kind, target=(field, str(term)), text=text, by="author", edits=edits, cost=SOFTEN, weakens=weakens)


def _iter_own_revision_fixes(trial_node: TrialNode, index: int, term: PodAffinityTerm) -> Iterator[Fix]:
    """Yield the fix that limits an anti-affinity term to pods of the same revision, by matchLabelKeys.

    Otherwise, old replicas would keep new ones away during a rolling update. Nothing is yielded for pods without a
    template hash, or if the term is already limited. The scheduler reads only the term's selector, which the API server
    extends by matchLabelKeys. If admission is not replayed, the fix therefore extends the selector as well.
    """
    pod = trial_node.trial.authored_pod
    revision = pod.metadata.labels.get(TEMPLATE_HASH)
    if revision is None or not has_template_hash(pod):
        return
    if TEMPLATE_HASH in term.match_label_keys or term.label_selector is None:
        return
    limited_term = replace(term, match_label_keys=(*term.match_label_keys, TEMPLATE_HASH))
    if trial_node.trial.created and not trial_node.cycle.view.cluster.admit:
        same_revision = SelectorRequirement(TEMPLATE_HASH, "In", (revision,))
        expressions = (*term.label_selector.match_expressions, same_revision)
        limited_term = replace(limited_term, label_selector=replace(term.label_selector, match_expressions=expressions))
    text = f"keep the pod away only from pods of its own revision (matchLabelKeys: {TEMPLATE_HASH}, term {index + 1})"
    edits = build_pod_edits(pod, _build_term_change("pod_anti_affinity", index, limited_term))
    yield Fix(
        kind=FixKind.MATCH_LABEL_KEYS,
        target=("pod_anti_affinity", index),
        text=text,
        by="author",
        edits=edits,
        cost=ROLLOUT,
    )


def _build_term_change(field: str, index: int, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    """Return a function that replaces the pod's required term at this index, if the pod has a term there.

    `field` says whether it is a term of the pod's affinity or anti-affinity.
    """

    def change(pod: Pod) -> Pod:
        """Return the pod with the new term."""
        terms = list(get_required_terms(pod, field))
        if index >= len(terms):
            return pod
        terms[index] = term
        return _set_affinity_fields(pod, field, required_during_scheduling_ignored_during_execution=tuple(terms))

    return change


def _build_softening_change(field: str, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    """Return a function that turns the required term of a pod into a preferred one, if the pod has the term.

    `field` says whether it is a term of the pod's affinity or anti-affinity. The preferred term has the highest weight,
    100.
    """

    def change(pod: Pod) -> Pod:
        """Return the pod with the preferred term."""
        terms = list(get_required_terms(pod, field))
        if term not in terms:
            return pod
        terms.remove(term)
        affinity: PodAffinity = getattr(pod.spec.affinity, field)
        preferred = (*affinity.preferred_during_scheduling_ignored_during_execution, WeightedPodAffinityTerm(100, term))
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


class _TermCorrection(NamedTuple):
    """A corrected pod affinity term, with the parts of the fix that applies it."""

    kind: FixKind
    """The kind of the fix."""
    target: tuple[object, ...]
    """The changed field with its new value, which distinguishes corrections of one kind."""
    text: str
    """The correction as a clause in the imperative."""
    cost: int
    term: PodAffinityTerm


class _UnmatchedTerm(NamedTuple):
    """A required pod affinity term of the pod that selects no pod."""

    api_term: PodAffinityTerm
    """The term as the pod's spec has it."""
    parsed_term: AffinityTerm
    """The term as the scheduler parsed it."""
    view: Fork

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces in which the term looks for pods, including those matched by its namespaceSelector."""
        return self.parsed_term.with_selected_namespaces(self.view.namespace_labels).namespaces

    @property
    def matching_namespaces(self) -> list[str]:
        """The first namespaces, by name, with pods that the term's label selector matches."""
        pods = self.view.pods
        matching = np.flatnonzero(pods.match_infos(self.parsed_term.selector, namespaces=None)).tolist()
        return sorted({pods.infos[number].namespace for number in matching})[:_MOST_NAMESPACES]


def _iter_term_corrections(trial_node: TrialNode, index: int, term: PodAffinityTerm) -> Iterator[_TermCorrection]:
    """Yield corrections of the pod affinity term at this index, if the term selects no pod.

    First, labels of its selector that no pod has are replaced by similar ones. Then its namespaces are corrected.
    """
    unmatched_term = _find_unmatched_term(trial_node, index, term)
    if unmatched_term is None:
        return
    selector = term.label_selector
    if selector is not None:
        label_values = _collect_pod_labels(unmatched_term.view, unmatched_term.namespaces)
        for similar in _iter_similar_selectors(selector, label_values):
            text = f"require pods with {similar.new_label} instead of {similar.old_label}"
            corrected = replace(term, label_selector=similar.selector)
            yield _TermCorrection(
                FixKind.CORRECT_POD_SELECTOR, target=(similar.new_label,), text=text, cost=CORRECT, term=corrected
            )
    yield from _iter_namespace_corrections(unmatched_term)


def _iter_namespace_label_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that label the namespaces of matching pods, so that a term's namespaceSelector selects them.

    Only required pod affinity terms that select no pod and have a namespaceSelector are considered.
    """
    affinity = trial_node.trial.authored_pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return
    for index, term in enumerate(affinity.pod_affinity.required_during_scheduling_ignored_during_execution):
        unmatched_term = _find_unmatched_term(trial_node, index, term)
        if unmatched_term is None or term.namespace_selector is None:
            continue
        labels = _choose_matching_labels(term.namespace_selector)
        if not labels:
            continue
        namespaces = {namespace.metadata.name: namespace for namespace in trial_node.cycle.view.cluster.namespaces}
        for name in unmatched_term.matching_namespaces:
            if name in namespaces and name not in unmatched_term.namespaces:
                yield _build_namespace_label_fix(namespaces[name], labels)


def _find_unmatched_term(trial_node: TrialNode, index: int, term: PodAffinityTerm) -> _UnmatchedTerm | None:
    """Return the pod's required affinity term at this index if it selects no pod, or None if it selects a pod.

    None is also returned if the scheduler parsed fewer terms.
    """
    parsed_terms, view = trial_node.cycle.info.required_affinity, trial_node.cycle.view
    if index >= len(parsed_terms):
        return None
    parsed_term = parsed_terms[index]
    term_with_namespaces = parsed_term.with_selected_namespaces(view.namespace_labels)
    if find_infos_matching_term(term_with_namespaces, view).any():
        return None
    return _UnmatchedTerm(term, parsed_term, view)


def _collect_pod_labels(view: Fork, namespaces: frozenset[str]) -> _LabelValues:
    """Map each label of the pods in these namespaces to all its values, cached by the namespaces."""

    def collect() -> dict[str, set[str]]:
        """Collect the labels from the pods of the namespaces."""
        infos = [info for info in view.pods.infos if info.namespace in namespaces]
        return _collect_label_values(info.labels for info in infos)

    return view.memo(("labels of pods", namespaces), collect)


def _collect_label_values(all_labels: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Map each label key to the set of its values in these labels."""
    values: dict[str, set[str]] = {}
    for labels in all_labels:
        for key, value in labels.items():
            values.setdefault(key, set()).add(value)
    return values


class _SimilarSelector(NamedTuple):
    """A label selector with one label corrected."""

    old_label: str
    """The label as the selector has it, as ``key=value``."""
    new_label: str
    """The corrected label, as ``key=value``."""
    selector: LabelSelector
    """The corrected selector."""


def _iter_similar_selectors(selector: LabelSelector, label_values: _LabelValues) -> Iterator[_SimilarSelector]:
    """Yield copies of the selector with one key or value replaced by a similar one that occurs in `label_values`."""
    yield from _iter_selectors_with_similar_label(selector, label_values)
    yield from _iter_selectors_with_similar_expression(selector, label_values)


def _iter_selectors_with_similar_label(
    selector: LabelSelector, label_values: _LabelValues
) -> Iterator[_SimilarSelector]:
    """Yield copies of the selector in which one matchLabels entry has a similar key, a similar value or both.

    Only keys and values that occur in `label_values` are used.
    """
    for key, value in selector.match_labels.items():
        other_labels = {k: v for k, v in selector.match_labels.items() if k != key}

        # Similar keys, with the value if it occurs there, and similar values of the key.
        candidates: list[tuple[str, str]] = []
        for similar_key in _find_probable_words(key, label_values):
            values = label_values[similar_key]
            similar_values = [value] if value in values else _find_probable_words(value, values)
            candidates += [(similar_key, similar_value) for similar_value in similar_values]
        candidates += [(key, similar_value) for similar_value in _find_probable_words(value, label_values.get(key, ()))]

        for new_key, new_value in candidates:
            corrected = replace(selector, match_labels={**other_labels, new_key: new_value})
            yield _SimilarSelector(f"{key}={value}", f"{new_key}={new_value}", corrected)


def _iter_selectors_with_similar_expression(
    selector: LabelSelector, label_values: _LabelValues
) -> Iterator[_SimilarSelector]:
    """Yield copies of the selector in which one value of an In requirement is replaced by a similar existing value."""
    for index, requirement in enumerate(selector.match_expressions):
        if requirement.operator != "In" or not requirement.values:
            continue
        key = requirement.key
        for value in requirement.values:
            for similar_value in _find_probable_words(value, label_values.get(key, ())):
                values = tuple(similar_value if other == value else other for other in requirement.values)
                expressions = list(selector.match_expressions)
                expressions[index] = replace(requirement, values=values)
                corrected = replace(selector, match_expressions=tuple(expressions))
                yield _SimilarSelector(f"{key}={value}", f"{key}={similar_value}", corrected)


def _find_probable_words(word: str, known_words: Collection[str]) -> list[str]:
    """Return the known words that an unknown word probably means, or an empty list if the word itself is known."""
    if word in known_words:
        return []
    return find_similar_words(word, known_words)


def _iter_namespace_corrections(unmatched_term: _UnmatchedTerm) -> Iterator[_TermCorrection]:
    """Yield corrections of the term's namespaces.

    They replace unknown names or labels of namespaces with similar ones, or add a namespace with matching pods.
    """
    term, namespace_labels = unmatched_term.api_term, unmatched_term.view.namespace_labels
    for name in term.namespaces:
        for similar_name in _find_probable_words(name, namespace_labels):
            names = tuple(similar_name if namespace == name else namespace for namespace in term.namespaces)
            text = f"match pods in namespace {similar_name} instead of {name}"
            yield _TermCorrection(
                FixKind.CORRECT_NAMESPACE,
                target=(name, similar_name),
                text=text,
                cost=CORRECT,
                term=replace(term, namespaces=names),
            )
    if term.namespace_selector is not None:
        label_values = _collect_label_values(namespace_labels.values())
        for similar in _iter_similar_selectors(term.namespace_selector, label_values):
            text = f"match pods in namespaces with {similar.new_label} instead of {similar.old_label}"
            corrected = replace(term, namespace_selector=similar.selector)
            yield _TermCorrection(
                FixKind.CORRECT_NAMESPACE_SELECTOR, target=(similar.new_label,), text=text, cost=CORRECT, term=corrected
            )
    for name in unmatched_term.matching_namespaces:
        if name not in unmatched_term.namespaces:
            text = f"also match pods in namespace {name}"
            wider = replace(term, namespaces=tuple(sorted(unmatched_term.namespaces | {name})))
            yield _TermCorrection(FixKind.OTHER_NAMESPACE, target=(name,), text=text, cost=_ELSEWHERE, term=wider)


def _choose_matching_labels(selector: LabelSelector) -> dict[str, str]:
    """Return labels with which a namespace matches the selector.

    Return {} if the selector uses operators other than In, or an In without values.
    """
    labels: dict[str, str] = {}
    for expression in selector.match_expressions:
        if expression.operator != "In" or not expression.values:
            return {}
        labels[expression.key] = expression.values[0]
    return labels | selector.match_labels


def _build_namespace_label_fix(namespace: Namespace, new_labels: dict[str, str]) -> Fix:
    """Build the fix that sets labels of a namespace."""
    name = namespace.metadata.name

    def change(current: Namespace) -> Namespace:
        """Return the namespace with the labels."""
        metadata = replace(current.metadata, labels={**current.metadata.labels, **new_labels})
        return replace(current, metadata=metadata)

    labels = [f"{key}={value}" for key, value in sorted(new_labels.items())]
    pairs = " ".join(labels)
    return Fix(
        kind=FixKind.LABEL_NAMESPACE,
        target=(name, pairs),
        text=f"label namespace {name} with {pairs}",
        by="operator",
        edits=(ObjectEdit(ObjectKey.of(namespace), change),),
        cost=_LABEL,
        commands=(kubectl.render_command("label", "namespace", name, *labels, "--overwrite"),),
    )


REMEDIES = {
    InterPodAffinity: PluginRemedies(
        (
            waiting.iter_termination_wait_fixes,
            iter_affinity_term_fixes,
            _iter_namespace_label_fixes,
            neighbours.iter_neighbour_removal_fixes,
        ),
        indirect=True,
    )
}
