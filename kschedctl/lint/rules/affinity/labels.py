"""Rules about pod affinity and anti-affinity by labels that no pod template has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.labels import EQUALS, IN
from kschedctl.api.objects import PodAffinityTerm
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.placement import RequiredTerm, iter_pod_terms, iter_required_affinity
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.affinity.fields import find_anti_affinity_without_matches

_EQUALITY_OPERATORS = (EQUALS, IN)
_MAX_COMPARED = 500
"""Labels with more values, and values of more labels, are not searched for misspellings."""


class _MisspeltLabel(NamedTuple):
    """A label in a term that no pods have."""

    label: str
    meant: str
    """The similar label that some pods have."""
    owner: Workload
    """The workload with these pods."""


class _TemplateLabels:
    """The labels of pod templates, each with the workloads that have it."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._values: dict[str, dict[str, list[Workload]]] = {}
        self._keys: dict[str, dict[str, list[Workload]]] = {}
        for workload in workloads:
            for key, value in workload.labels.items():
                self._values.setdefault(key, {}).setdefault(value, []).append(workload)
                self._keys.setdefault(value, {}).setdefault(key, []).append(workload)

    def has_label(self, key: str, value: str) -> bool:
        """Return whether some template has the label."""
        return value in self._values.get(key, ())

    def find_similar_label(self, key: str, value: str) -> tuple[str, list[Workload]]:
        """Find a label with a similar value or else a similar key, and its workloads.

        Return ("", []) if there is none.
        """
        values, keys = self._values.get(key, {}), self._keys.get(value, {})
        if len(values) <= _MAX_COMPARED and (meant := find_similar_name(value, values)):
            return f"{key}={meant}", values[meant]
        if not values and len(keys) <= _MAX_COMPARED and (meant := find_similar_name(key, keys, min_length=2)):
            return f"{meant}={value}", keys[meant]
        return "", []


def find_misspelt_terms(context: LintContext) -> Iterator[Problem]:
    """Find pod affinity terms that select nothing because of a label that looks misspelt."""
    if context.cluster is not None:
        return
    reported = {(problem.subject, problem.path) for problem in find_anti_affinity_without_matches(context)}
    labels = {namespace: _TemplateLabels(workloads) for namespace, workloads in context.workloads_by_namespace.items()}
    for workload in context.workloads:
        for path, term in iter_pod_terms(workload):
            at = (*path, "labelSelector")
            if (workload.subject, workload.get_path(*at)) in reported:
                continue
            own_namespace_only = not term.namespaces and term.namespace_selector is None
            namespaces = [workload.namespace] if own_namespace_only else list(context.workloads_by_namespace)
            labels_of_term = {namespace: labels[namespace] for namespace in namespaces}
            for label, meant, owner in _iter_misspelt_labels(context, workload, term, labels_of_term):
                whose = "its own pods" if owner is workload else f"those of {owner.subject}"
                yield workload.build_problem(
                    at, f"no pods have the label {label}; {whose} have {meant}", f"Write {meant}"
                )


AF_MISSPELT = Rule(
    "af-misspelt",
    WARNING,
    find_misspelt_terms,
    summary="Pod (anti-)affinity by a label that looks misspelt",
    why="It selects no pods: required affinity can then never be met, anything else does nothing.",
    fix="Correct the label",
    source=doc.AFFINITY,
)


def _iter_misspelt_labels(
    context: LintContext, workload: Workload, term: PodAffinityTerm, labels_by_namespace: Mapping[str, _TemplateLabels]
) -> Iterator[_MisspeltLabel]:
    """Yield the labels of a term that no pods have and that are similar to a label of a template.

    Yields nothing if the term selects pods.
    """
    selector = compile_selector(term.label_selector)
    if selector is None or any(context.select_workloads(namespace, selector) for namespace in labels_by_namespace):
        return
    for requirement in selector.requirements:
        if requirement.operator not in _EQUALITY_OPERATORS or len(requirement.values) != 1:
            continue
        key, value = requirement.key, requirement.values[0]
        if any(labels.has_label(key, value) for labels in labels_by_namespace.values()):
            continue
        for labels in labels_by_namespace.values():
            meant, owners = labels.find_similar_label(key, value)
            coexisting = [w for w in owners if context.variants.can_coexist(workload.subject, w.subject)]
            if coexisting:
                owner = workload if workload in coexisting else coexisting[0]
                yield _MisspeltLabel(f"{key}={value}", meant, owner)
                break


def find_terms_without_template(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms whose labels no template in the manifests has.

    With a cluster, ``af-target-absent`` checks its pods instead.
    """
    if context.cluster is not None or not context.all_manifests_read:
        return
    reported = {(problem.subject, problem.path) for problem in find_misspelt_terms(context)}
    reported |= {(problem.subject, problem.path) for problem in find_terms_for_other_namespaces(context)}
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            paths = (workload.get_path(*term.path), workload.get_path(*term.path, "labelSelector"))
            explained = any((workload.subject, path) in reported for path in paths)
            if explained or not _selects_no_workload(context, workload, term):
                continue
            where = ", ".join(sorted(term.namespaces))
            message = f'no template of namespace {where} has the labels "{term.selector}"'
            yield workload.build_problem((*term.path, "labelSelector"), message)


AF_NOBODY = Rule(
    "af-nobody",
    WARNING,
    find_terms_without_template,
    summary="Required affinity to labels that no pod template in the namespace has",
    why="Unless something else creates such pods, no node ever matches and the pods stay Pending. Checked where "
    "the manifests have other workloads in the namespace, and nothing that makes pods of its own.",
    fix="Correct the labels, or deploy the workload that is meant",
    source=doc.AFFINITY,
)


def _selects_no_workload(context: LintContext, workload: Workload, term: RequiredTerm) -> bool:
    """Return whether a term selects no workload although each of its namespaces has other workloads."""
    if term.selects_itself or term.selector.matches_nothing or not term.namespace_selector.matches_nothing:
        return False
    for namespace in term.namespaces:
        neighbours = [w for w in context.workloads_by_namespace.get(namespace, ()) if w is not workload]
        if not any(context.variants.can_coexist(w.subject, workload.subject) for w in neighbours):
            return False
        if context.select_workloads(namespace, term.selector):
            return False
    return bool(term.namespaces) and not context.may_have_unknown_pods(term.namespaces)


def find_terms_for_other_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that only match pods of another namespace, where the term does not apply."""
    for workload in context.workloads if context.cluster is None else ():
        for term in iter_required_affinity(workload):
            own_namespace_only = term.namespaces == {workload.namespace} and term.namespace_selector.matches_nothing
            if (
                not own_namespace_only
                or term.selects_itself
                or context.select_workloads(workload.namespace, term.selector)
            ):
                continue
            matches = [
                match
                for namespace in context.workloads_by_namespace
                for match in context.select_coexisting_workloads(workload.subject, namespace, term.selector)
            ]
            if matches and not context.may_have_unknown_pods((workload.namespace,)):
                message = f"speaks of pods of namespace {workload.namespace} only, not of those of {matches[0].subject}"
                yield workload.build_problem(term.path, message)


AF_OTHER_NAMESPACE = Rule(
    "af-other-namespace",
    WARNING,
    find_terms_for_other_namespaces,
    summary="Required affinity to pods in another namespace",
    why="A term without namespaces applies to the pod's own namespace: no node ever matches, the pods stay Pending.",
    fix="Add namespaces or namespaceSelector to the term",
    source=doc.AFFINITY,
)
