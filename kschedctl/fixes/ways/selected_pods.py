"""Which pods a term of pod affinity speaks of: labels and namespaces that are nearly right, or others that are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import LabelSelector, Namespace, PodAffinityTerm
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.fixes.ways.node_labels import near_words
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.inter_pod_affinity.terms import find_infos_matching_term
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import AffinityTerm

CORRECT, ELSEWHERE, LABEL = 10, 20, 30
MOST_NAMESPACES = 3
Values = Mapping[str, Collection[str]]
"""Label -> its values."""


class OtherPods(NamedTuple):
    """A term with other pods: what kind of change that is, and to what."""

    kind: str
    target: tuple[object, ...]
    text: str
    cost: int
    term: PodAffinityTerm


class OwnTerm(NamedTuple):
    """A required term of the pod's affinity that selects no pod: as it is written, and as it is read."""

    written: PodAffinityTerm
    read: AffinityTerm
    view: Fork

    @property
    def namespaces(self) -> frozenset[str]:
        """Where it looks for pods; by labels, those that have them."""
        return self.read.with_selected_namespaces(self.view.namespace_labels).namespaces

    @property
    def where_pods_are(self) -> list[str]:
        """The namespaces in which there are pods with the labels."""
        pods = self.view.pods
        matching = np.flatnonzero(pods.matching(self.read.selector, None)).tolist()
        return sorted({pods.infos[number].namespace for number in matching})[:MOST_NAMESPACES]


def other_pods(tried: TriedNode, place: int, term: PodAffinityTerm) -> Iterator[OtherPods]:
    """The term corrected, where it selects no pod at all."""
    own = _own(tried, place, term)
    if own is None:
        return
    selector = term.label_selector
    if selector is not None:
        known = _labels_of_pods(own.view, own.namespaces)
        for old, new, right in _nearly(selector, known):
            text = f"require pods with {new} instead of {old}"
            yield OtherPods("CorrectPodSelector", (new,), text, CORRECT, replace(term, label_selector=right))
    yield from _other_namespaces(own)


def label_namespaces(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """The labels by which a term looks for namespaces, given to those that have its pods."""
    affinity = tried.trial.own.spec.affinity
    terms = (
        affinity.pod_affinity.required_during_scheduling_ignored_during_execution
        if (affinity and affinity.pod_affinity)
        else ()
    )
    for place, term in enumerate(terms):
        own = _own(tried, place, term)
        if own is not None and term.namespace_selector is not None:
            wanted = _wanted(term.namespace_selector)
            known = {namespace.metadata.name: namespace for namespace in tried.cycle.view.cluster.namespaces}
            for name in own.where_pods_are if wanted else ():
                if name in known and name not in own.namespaces:
                    yield _labelled(known[name], wanted)


def _own(tried: TriedNode, place: int, term: PodAffinityTerm) -> OwnTerm | None:
    read, view = tried.cycle.info.required_affinity, tried.cycle.view
    if place >= len(read):
        return None
    own = OwnTerm(term, read[place], view)
    unrolled = read[place].with_selected_namespaces(view.namespace_labels)
    return None if find_infos_matching_term(unrolled, view).any() else own


def _labels_of_pods(view: Fork, namespaces: frozenset[str]) -> Values:
    def make() -> dict[str, set[str]]:
        infos = [info for info in view.pods.infos if info.namespace in namespaces]
        return _values(info.labels for info in infos)

    return view.memo(("labels of pods", namespaces), make)


def _values(all_labels: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for labels in all_labels:
        for key, value in labels.items():
            values.setdefault(key, set()).add(value)
    return values


def _nearly(selector: LabelSelector, known: Values) -> Iterator[tuple[str, str, LabelSelector]]:
    """What is written, what is probably meant, and the selector with that."""
    labels = selector.match_labels
    for key, value in labels.items():
        rest = {k: v for k, v in labels.items() if k != key}
        for right in _near(key, known):
            fitting = [value] if value in known[right] else _near(value, known[right])
            for near in fitting:
                yield f"{key}={value}", f"{right}={near}", replace(selector, match_labels={**rest, right: near})
        for near in _near(value, known.get(key, ())):
            yield f"{key}={value}", f"{key}={near}", replace(selector, match_labels={**rest, key: near})
    for place, wanted in enumerate(selector.match_expressions):
        for value in (wanted.values or ()) if wanted.operator == "In" else ():
            for near in _near(value, known.get(wanted.key, ())):
                values = tuple(near if other == value else other for other in wanted.values or ())
                expressions = list(selector.match_expressions)
                expressions[place] = replace(wanted, values=values)
                right_one = replace(selector, match_expressions=tuple(expressions))
                yield f"{wanted.key}={value}", f"{wanted.key}={near}", right_one


def _near(wrong: str, known: Collection[str]) -> list[str]:
    """The known words that are probably meant by one that nobody has."""
    if wrong in known:
        return []
    return near_words(wrong, known)


def _other_namespaces(own: OwnTerm) -> Iterator[OtherPods]:
    """Namespaces that exist for those that do not, and those where the pods are."""
    term, known = own.written, own.view.namespace_labels
    for name in term.namespaces:
        for right in _near(name, known):
            names = tuple(right if namespace == name else namespace for namespace in term.namespaces)
            text = f"match pods in namespace {right} instead of {name}"
            yield OtherPods("CorrectNamespace", (name, right), text, CORRECT, replace(term, namespaces=names))
    if term.namespace_selector is not None:
        for old, new, right_one in _nearly(term.namespace_selector, _values(known.values())):
            text = f"match pods in namespaces with {new} instead of {old}"
            corrected = replace(term, namespace_selector=right_one)
            yield OtherPods("CorrectNamespaceSelector", (new,), text, CORRECT, corrected)
    for name in own.where_pods_are:
        if name not in own.namespaces:
            text = f"match pods in namespace {name}, too"
            wider = replace(term, namespaces=tuple(sorted(own.namespaces | {name})))
            yield OtherPods("OtherNamespace", (name,), text, ELSEWHERE, wider)


def _wanted(selector: LabelSelector) -> dict[str, str]:
    """Labels that a namespace needs to be selected; none where others than labels of one value are wanted."""
    if any(expression.operator != "In" or not expression.values for expression in selector.match_expressions):
        return {}
    return {
        **{expression.key: expression.values[0] for expression in selector.match_expressions if expression.values},
        **selector.match_labels,
    }


def _labelled(namespace: Namespace, wanted: dict[str, str]) -> Fix:
    name = namespace.metadata.name

    def change(namespace: Namespace) -> Namespace:
        return replace(namespace, metadata=replace(namespace.metadata, labels={**namespace.metadata.labels, **wanted}))

    labels = [f"{key}={value}" for key, value in sorted(wanted.items())]
    pairs = " ".join(labels)
    return Fix(
        "LabelNamespace",
        (name, pairs),
        f"label namespace {name} with {pairs}",
        "operator",
        (ObjectEdit(ObjectKey.of(namespace), change),),
        LABEL,
        commands=(kubectl.render_command("label", "namespace", name, *labels, "--overwrite"),),
    )
