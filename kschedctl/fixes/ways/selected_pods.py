"""Fixes for pod affinity terms that select no pod: correct their labels or namespaces, or label a namespace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import LabelSelector, Namespace, PodAffinityTerm
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRejection, TriedNode
from kschedctl.fixes.ways.node_labels import find_similar_words
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import find_infos_matching_term
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm

CORRECT, ELSEWHERE, LABEL = 10, 20, 30
MOST_NAMESPACES = 3
LabelValues = Mapping[str, Collection[str]]
"""Label -> the values that occur."""


class TermCorrection(NamedTuple):
    """A corrected pod affinity term, with the parts of the fix that applies it."""

    kind: FixKind
    """The kind of the fix."""
    target: tuple[object, ...]
    """What the correction changes and to what, which tells corrections of one kind apart."""
    text: str
    """The correction as a clause in the imperative."""
    cost: int
    term: PodAffinityTerm


class UnmatchedTerm(NamedTuple):
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
        matching = np.flatnonzero(pods.match_infos(self.parsed_term.selector, None)).tolist()
        return sorted({pods.infos[number].namespace for number in matching})[:MOST_NAMESPACES]


def iter_term_corrections(tried: TriedNode, index: int, term: PodAffinityTerm) -> Iterator[TermCorrection]:
    """Yield corrections of the pod affinity term at this index, if the term selects no pod.

    First, labels of its selector that no pod has are replaced by similar ones. Then its namespaces are corrected.
    """
    unmatched_term = _find_unmatched_term(tried, index, term)
    if unmatched_term is None:
        return
    selector = term.label_selector
    if selector is not None:
        label_values = _collect_pod_labels(unmatched_term.view, unmatched_term.namespaces)
        for similar in _iter_similar_selectors(selector, label_values):
            text = f"require pods with {similar.new_label} instead of {similar.old_label}"
            corrected = replace(term, label_selector=similar.selector)
            yield TermCorrection(FixKind.CORRECT_POD_SELECTOR, (similar.new_label,), text, CORRECT, corrected)
    yield from _iter_namespace_corrections(unmatched_term)


def iter_namespace_label_fixes(tried: TriedNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that label the namespaces of matching pods, so that a term's namespaceSelector selects them.

    Only required pod affinity terms are considered that select no pod and have a namespaceSelector.
    """
    affinity = tried.trial.authored_pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return
    for index, term in enumerate(affinity.pod_affinity.required_during_scheduling_ignored_during_execution):
        unmatched_term = _find_unmatched_term(tried, index, term)
        if unmatched_term is None or term.namespace_selector is None:
            continue
        labels = _choose_matching_labels(term.namespace_selector)
        if not labels:
            continue
        namespaces = {namespace.metadata.name: namespace for namespace in tried.cycle.view.cluster.namespaces}
        for name in unmatched_term.matching_namespaces:
            if name in namespaces and name not in unmatched_term.namespaces:
                yield _build_namespace_label_fix(namespaces[name], labels)


def _find_unmatched_term(tried: TriedNode, index: int, term: PodAffinityTerm) -> UnmatchedTerm | None:
    """Return the pod's required affinity term at this index if it selects no pod, or None if it selects any.

    None is also returned if the scheduler parsed fewer terms.
    """
    parsed_terms, view = tried.cycle.info.required_affinity, tried.cycle.view
    if index >= len(parsed_terms):
        return None
    parsed_term = parsed_terms[index]
    term_with_namespaces = parsed_term.with_selected_namespaces(view.namespace_labels)
    if find_infos_matching_term(term_with_namespaces, view).any():
        return None
    return UnmatchedTerm(term, parsed_term, view)


def _collect_pod_labels(view: Fork, namespaces: frozenset[str]) -> LabelValues:
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


class SimilarSelector(NamedTuple):
    """A label selector with one label corrected."""

    old_label: str
    """The label as the selector has it, as ``key=value``."""
    new_label: str
    """The corrected label, as ``key=value``."""
    selector: LabelSelector
    """The corrected selector."""


def _iter_similar_selectors(selector: LabelSelector, label_values: LabelValues) -> Iterator[SimilarSelector]:
    """Yield copies of the selector with one key or value replaced by a similar one that occurs in `label_values`."""
    yield from _iter_similar_match_labels(selector, label_values)
    yield from _iter_similar_match_expressions(selector, label_values)


def _iter_similar_match_labels(selector: LabelSelector, label_values: LabelValues) -> Iterator[SimilarSelector]:
    """Yield copies of the selector with the key, the value or both of one matchLabels entry replaced by similar ones.

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
            yield SimilarSelector(f"{key}={value}", f"{new_key}={new_value}", corrected)


def _iter_similar_match_expressions(selector: LabelSelector, label_values: LabelValues) -> Iterator[SimilarSelector]:
    """Yield copies of the selector with a value of one In requirement replaced by a similar one that occurs."""
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
                yield SimilarSelector(f"{key}={value}", f"{key}={similar_value}", corrected)


def _find_probable_words(word: str, known: Collection[str]) -> list[str]:
    """Return the known words that an unknown word probably means, or an empty list if the word is known."""
    if word in known:
        return []
    return find_similar_words(word, known)


def _iter_namespace_corrections(unmatched_term: UnmatchedTerm) -> Iterator[TermCorrection]:
    """Yield corrections of the namespaces in which the term looks for pods.

    They replace unknown names or labels of namespaces by similar ones, or add a namespace with matching pods.
    """
    term, namespace_labels = unmatched_term.api_term, unmatched_term.view.namespace_labels
    for name in term.namespaces:
        for similar_name in _find_probable_words(name, namespace_labels):
            names = tuple(similar_name if namespace == name else namespace for namespace in term.namespaces)
            text = f"match pods in namespace {similar_name} instead of {name}"
            yield TermCorrection(
                FixKind.CORRECT_NAMESPACE, (name, similar_name), text, CORRECT, replace(term, namespaces=names)
            )
    if term.namespace_selector is not None:
        label_values = _collect_label_values(namespace_labels.values())
        for similar in _iter_similar_selectors(term.namespace_selector, label_values):
            text = f"match pods in namespaces with {similar.new_label} instead of {similar.old_label}"
            corrected = replace(term, namespace_selector=similar.selector)
            yield TermCorrection(FixKind.CORRECT_NAMESPACE_SELECTOR, (similar.new_label,), text, CORRECT, corrected)
    for name in unmatched_term.matching_namespaces:
        if name not in unmatched_term.namespaces:
            text = f"also match pods in namespace {name}"
            wider = replace(term, namespaces=tuple(sorted(unmatched_term.namespaces | {name})))
            yield TermCorrection(FixKind.OTHER_NAMESPACE, (name,), text, ELSEWHERE, wider)


def _choose_matching_labels(selector: LabelSelector) -> dict[str, str]:
    """Return labels with which a namespace matches the selector, or {} if the selector uses operators other than In."""
    labels: dict[str, str] = {}
    for expression in selector.match_expressions:
        if expression.operator != "In" or not expression.values:
            return {}
        labels[expression.key] = expression.values[0]
    return labels | selector.match_labels


def _build_namespace_label_fix(namespace: Namespace, new_labels: dict[str, str]) -> Fix:
    """Build the fix that sets labels of a namespace."""
    name = namespace.metadata.name

    def change(known: Namespace) -> Namespace:
        """Return the namespace with the labels."""
        metadata = replace(known.metadata, labels={**known.metadata.labels, **new_labels})
        return replace(known, metadata=metadata)

    labels = [f"{key}={value}" for key, value in sorted(new_labels.items())]
    pairs = " ".join(labels)
    return Fix(
        FixKind.LABEL_NAMESPACE,
        (name, pairs),
        f"label namespace {name} with {pairs}",
        by="operator",
        edits=(ObjectEdit(ObjectKey.of(namespace), change),),
        cost=LABEL,
        commands=(kubectl.render_command("label", "namespace", name, *labels, "--overwrite"),),
    )
