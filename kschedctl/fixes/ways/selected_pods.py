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
        """The namespaces in which the term looks for pods, including those that its namespaceSelector matches."""
        return self.parsed_term.with_selected_namespaces(self.view.namespace_labels).namespaces

    @property
    def matching_namespaces(self) -> list[str]:
        """The first namespaces, by name, with pods that the term's label selector matches."""
        pods = self.view.pods
        matching = np.flatnonzero(pods.matching(self.parsed_term.selector, None)).tolist()
        return sorted({pods.infos[number].namespace for number in matching})[:MOST_NAMESPACES]


def iter_term_corrections(tried: TriedNode, index: int, term: PodAffinityTerm) -> Iterator[TermCorrection]:
    """Yield corrections of the pod affinity term at this index, if it selects no pod."""
    unmatched_term = _find_unmatched_term(tried, index, term)
    if unmatched_term is None:
        return
    selector = term.label_selector
    if selector is not None:
        label_values = _collect_pod_labels(unmatched_term.view, unmatched_term.namespaces)
        for old, new, corrected in _iter_similar_selectors(selector, label_values):
            text = f"require pods with {new} instead of {old}"
            yield TermCorrection(
                FixKind.CORRECT_POD_SELECTOR, (new,), text, CORRECT, replace(term, label_selector=corrected)
            )
    yield from _iter_namespace_corrections(unmatched_term)


def iter_namespace_label_fixes(tried: TriedNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that label namespaces with matching pods, so that a term's namespaceSelector selects them."""
    affinity = tried.trial.own.spec.affinity
    terms = (
        affinity.pod_affinity.required_during_scheduling_ignored_during_execution
        if (affinity and affinity.pod_affinity)
        else ()
    )
    for index, term in enumerate(terms):
        unmatched_term = _find_unmatched_term(tried, index, term)
        if unmatched_term is not None and term.namespace_selector is not None:
            labels = _find_selected_labels(term.namespace_selector)
            namespaces = {namespace.metadata.name: namespace for namespace in tried.cycle.view.cluster.namespaces}
            for name in unmatched_term.matching_namespaces if labels else ():
                if name in namespaces and name not in unmatched_term.namespaces:
                    yield _build_namespace_label_fix(namespaces[name], labels)


def _find_unmatched_term(tried: TriedNode, index: int, term: PodAffinityTerm) -> UnmatchedTerm | None:
    """Return the pod's required affinity term at this index if it selects no pod, or None."""
    parsed_terms, view = tried.cycle.info.required_affinity, tried.cycle.view
    if index >= len(parsed_terms):
        return None
    unmatched_term = UnmatchedTerm(term, parsed_terms[index], view)
    unrolled = parsed_terms[index].with_selected_namespaces(view.namespace_labels)
    return None if find_infos_matching_term(unrolled, view).any() else unmatched_term


def _collect_pod_labels(view: Fork, namespaces: frozenset[str]) -> LabelValues:
    """Return the labels of the pods in these namespaces with all their values."""

    def collect() -> dict[str, set[str]]:
        """Collect the labels from the pods of the namespaces."""
        infos = [info for info in view.pods.infos if info.namespace in namespaces]
        return _collect_label_values(info.labels for info in infos)

    return view.memo(("labels of pods", namespaces), collect)


def _collect_label_values(all_labels: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Map each label to the set of its values."""
    values: dict[str, set[str]] = {}
    for labels in all_labels:
        for key, value in labels.items():
            values.setdefault(key, set()).add(value)
    return values


def _iter_similar_selectors(
    selector: LabelSelector, label_values: LabelValues
) -> Iterator[tuple[str, str, LabelSelector]]:
    """Yield selectors with one key or value replaced by a similar one that occurs.

    Each comes after the label as the selector has it and the corrected label, both as ``key=value``.
    """
    labels = selector.match_labels
    for key, value in labels.items():
        other_labels = {k: v for k, v in labels.items() if k != key}
        for similar_key in _find_meant_words(key, label_values):
            similar_values = (
                [value] if value in label_values[similar_key] else _find_meant_words(value, label_values[similar_key])
            )
            for similar_value in similar_values:
                yield (
                    f"{key}={value}",
                    f"{similar_key}={similar_value}",
                    replace(selector, match_labels={**other_labels, similar_key: similar_value}),
                )
        for similar_value in _find_meant_words(value, label_values.get(key, ())):
            yield (
                f"{key}={value}",
                f"{key}={similar_value}",
                replace(selector, match_labels={**other_labels, key: similar_value}),
            )
    for index, requirement in enumerate(selector.match_expressions):
        for value in (requirement.values or ()) if requirement.operator == "In" else ():
            for similar_value in _find_meant_words(value, label_values.get(requirement.key, ())):
                values = tuple(similar_value if other == value else other for other in requirement.values or ())
                expressions = list(selector.match_expressions)
                expressions[index] = replace(requirement, values=values)
                corrected = replace(selector, match_expressions=tuple(expressions))
                yield f"{requirement.key}={value}", f"{requirement.key}={similar_value}", corrected


def _find_meant_words(word: str, known: Collection[str]) -> list[str]:
    """Return the known words that an unknown word probably means, or none if the word is known."""
    if word in known:
        return []
    return find_similar_words(word, known)


def _iter_namespace_corrections(unmatched_term: UnmatchedTerm) -> Iterator[TermCorrection]:
    """Yield corrections of a term's namespaces: similar names or labels, or namespaces with matching pods."""
    term, namespace_labels = unmatched_term.api_term, unmatched_term.view.namespace_labels
    for name in term.namespaces:
        for similar_name in _find_meant_words(name, namespace_labels):
            names = tuple(similar_name if namespace == name else namespace for namespace in term.namespaces)
            text = f"match pods in namespace {similar_name} instead of {name}"
            yield TermCorrection(
                FixKind.CORRECT_NAMESPACE, (name, similar_name), text, CORRECT, replace(term, namespaces=names)
            )
    if term.namespace_selector is not None:
        for old, new, selector in _iter_similar_selectors(
            term.namespace_selector, _collect_label_values(namespace_labels.values())
        ):
            text = f"match pods in namespaces with {new} instead of {old}"
            corrected = replace(term, namespace_selector=selector)
            yield TermCorrection(FixKind.CORRECT_NAMESPACE_SELECTOR, (new,), text, CORRECT, corrected)
    for name in unmatched_term.matching_namespaces:
        if name not in unmatched_term.namespaces:
            text = f"match pods in namespace {name}, too"
            wider = replace(term, namespaces=tuple(sorted(unmatched_term.namespaces | {name})))
            yield TermCorrection(FixKind.OTHER_NAMESPACE, (name,), text, ELSEWHERE, wider)


def _find_selected_labels(selector: LabelSelector) -> dict[str, str]:
    """Return labels that make a namespace match the selector, or none if an operator is not In."""
    if any(expression.operator != "In" or not expression.values for expression in selector.match_expressions):
        return {}
    return {
        **{expression.key: expression.values[0] for expression in selector.match_expressions if expression.values},
        **selector.match_labels,
    }


def _build_namespace_label_fix(namespace: Namespace, new_labels: dict[str, str]) -> Fix:
    """Build the fix that adds labels to a namespace."""
    name = namespace.metadata.name

    def change(namespace: Namespace) -> Namespace:
        """Return the namespace with the labels."""
        return replace(
            namespace, metadata=replace(namespace.metadata, labels={**namespace.metadata.labels, **new_labels})
        )

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
