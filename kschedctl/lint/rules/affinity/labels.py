"""Affinity to pods, and against them, by labels that no template has: misspelt, elsewhere, or nobody's at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kschedctl.api.labels import EQUALS, IN
from kschedctl.api.objects import PodAffinityTerm
from kschedctl.lint.analysis.near_names import one_meant
from kschedctl.lint.analysis.placement import Term, pod_terms, required_terms
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import WARNING, Rule
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, compiled
from kschedctl.lint.rules.affinity.fields import anti_affinity_not_self

_FIXED = (EQUALS, IN)
_MOST_COMPARED = 500
"""Values of one label; nobody finds a slip among more of them."""


class _Labels:
    """The labels that templates of a namespace have, and whose they are."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._values: dict[str, dict[str, list[Workload]]] = {}
        self._keys: dict[str, dict[str, list[Workload]]] = {}
        for workload in workloads:
            for key, value in workload.labels.items():
                self._values.setdefault(key, {}).setdefault(value, []).append(workload)
                self._keys.setdefault(value, {}).setdefault(key, []).append(workload)

    def has(self, key: str, value: str) -> bool:
        return value in self._values.get(key, ())

    def nearly(self, key: str, value: str) -> tuple[str, list[Workload]]:
        """A label with this key and nearly this value, else with nearly this key and this value; and who has it."""
        values, keys = self._values.get(key, {}), self._keys.get(value, {})
        if len(values) <= _MOST_COMPARED and (meant := one_meant(value, values)):
            return f"{key}={meant}", values[meant]
        if not values and len(keys) <= _MOST_COMPARED and (meant := one_meant(key, keys, least=2)):
            return f"{meant}={value}", keys[meant]
        return "", []


def misspelt(context: LintContext) -> Iterator[Problem]:
    if context.cluster is not None:
        return
    reported = {(problem.subject, problem.path) for problem in anti_affinity_not_self(context)}
    labels = {namespace: _Labels(workloads) for namespace, workloads in context.by_namespace.items()}
    for workload in context.workloads:
        for path, term in pod_terms(workload):
            at = (*path, "labelSelector")
            if (workload.subject, workload.at_field(*at)) in reported:
                continue
            own = not term.namespaces and term.namespace_selector is None
            among = [workload.namespace] if own else list(context.by_namespace)
            for label, meant, owner in _slips(context, workload, term, {n: labels[n] for n in among}):
                whose = "its own pods" if owner is workload else f"those of {owner.subject}"
                yield workload.problem(at, f"no pods have the label {label}; {whose} have {meant}", f"Write {meant}")


AF_MISSPELT = Rule(
    "af-misspelt",
    WARNING,
    misspelt,
    summary="Pod (anti-)affinity by a label that looks misspelt",
    why="It selects no pods: required affinity can then never be met, anything else does nothing.",
    fix="Correct the label",
    source=doc.AFFINITY,
)


def _slips(
    context: LintContext, workload: Workload, term: PodAffinityTerm, labels: Mapping[str, _Labels]
) -> Iterator[tuple[str, str, Workload]]:
    """(label that no pods have, the one that was meant, who has that) of a term that selects nothing."""
    selector = compiled(term.label_selector)
    fixed = [r for r in selector.requirements if r.operator in _FIXED and len(r.values) == 1] if selector else []
    if selector is None or not fixed or any(context.selected(namespace, selector) for namespace in labels):
        return
    for key, value in ((requirement.key, requirement.values[0]) for requirement in fixed):
        if any(known.has(key, value) for known in labels.values()):
            continue
        for known in labels.values():
            meant, owners = known.nearly(key, value)
            beside = [owner for owner in owners if context.variants.together(workload.subject, owner.subject)]
            if beside:
                yield f"{key}={value}", meant, workload if workload in beside else beside[0]
                break


def nobody(context: LintContext) -> Iterator[Problem]:
    if context.cluster is not None or not context.whole:  # with a cluster af-target-absent speaks
        return
    reported = {(problem.subject, problem.path) for problem in misspelt(context)}
    reported |= {(problem.subject, problem.path) for problem in elsewhere(context)}
    for workload in context.workloads:
        for term in required_terms(workload):
            paths = (workload.at_field(*term.path), workload.at_field(*term.path, "labelSelector"))
            explained = any((workload.subject, path) in reported for path in paths)
            if explained or not _absent(context, workload, term):
                continue
            where = ", ".join(sorted(term.namespaces))
            message = f'no template of namespace {where} has the labels "{term.selector}"'
            yield workload.problem((*term.path, "labelSelector"), message)


AF_NOBODY = Rule(
    "af-nobody",
    WARNING,
    nobody,
    summary="Required affinity to labels that no pod template in the namespace has",
    why="Unless something else creates such pods, no node ever matches and the pods stay Pending. Checked where "
    "the manifests have other workloads in the namespace, and nothing that makes pods of its own.",
    fix="Correct the labels, or deploy the workload that is meant",
    source=doc.AFFINITY,
)


def _absent(context: LintContext, workload: Workload, term: Term) -> bool:
    """Whether others of the namespaces of the term are here, but none that it selects."""
    if term.selects_itself or term.selector.matches_nothing or not term.namespace_selector.matches_nothing:
        return False
    others = [
        any(w is not workload and context.variants.together(w.subject, workload.subject) for w in of_namespace)
        for of_namespace in (context.by_namespace.get(namespace, ()) for namespace in term.namespaces)
    ]
    selected = any(context.selected(namespace, term.selector) for namespace in term.namespaces)
    return bool(others) and all(others) and not selected and not context.others_own(term.namespaces)


def elsewhere(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads if context.cluster is None else ():
        for term in required_terms(workload):
            own = term.namespaces == {workload.namespace} and term.namespace_selector.matches_nothing
            if not own or term.selects_itself or context.selected(workload.namespace, term.selector):
                continue
            others = [
                other
                for namespace in context.by_namespace
                for other in context.selected_beside(workload.subject, namespace, term.selector)
            ]
            if others and not context.others_own((workload.namespace,)):
                message = f"speaks of pods of namespace {workload.namespace} only, not of those of {others[0].subject}"
                yield workload.problem(term.path, message)


AF_OTHER_NAMESPACE = Rule(
    "af-other-namespace",
    WARNING,
    elsewhere,
    summary="Required affinity to pods in another namespace",
    why="A term without namespaces applies to the pod's own namespace: no node ever matches, the pods stay Pending.",
    fix="Add namespaces or namespaceSelector to the term",
    source=doc.AFFINITY,
)
