"""Node selectors and preferred scheduling terms, compiled once and matched against (labels, node name).

Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go and
staging/src/k8s.io/apimachinery/pkg/fields/selector.go (v1.36). Error texts are upstream's.

Everything compiled tells which labels it reads (``keys``) and which nodes' ``names`` it tells from others, so that
a caller can match once for all nodes that are alike in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kschedctl.api import labels as api_labels
from kschedctl.api.labels import EVERYTHING, Requirement, Selector, child, invalid, not_supported
from kschedctl.errors import InputError

if TYPE_CHECKING:
    from kschedctl.api.objects import (
        NodeSelector,
        NodeSelectorTerm,
        PodSpec,
        PreferredSchedulingTerm,
        SelectorRequirement,
    )

_OPERATORS = {
    "In": api_labels.IN,
    "NotIn": api_labels.NOT_IN,
    "Exists": api_labels.EXISTS,
    "DoesNotExist": api_labels.DOES_NOT_EXIST,
    "Gt": api_labels.GREATER_THAN,
    "Lt": api_labels.LESS_THAN,
}
_FIELD_OPERATORS = ("In", "NotIn")
_NAME_FIELD = "metadata.name"


class NodeSelectorError(InputError, ValueError):
    """A term that upstream cannot parse, in upstream's words."""


@dataclass(frozen=True, slots=True)
class CompiledTerm:
    """A conjunction of label and field requirements; with ``errors`` it could not be parsed and matches nothing."""

    selector: Selector = EVERYTHING
    fields: tuple[SelectorRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node of that name with these labels meets the term; a node without a name meets any field."""
        if self.errors or not self.selector.matches(labels):
            return False
        return not node_name or all(_field_matches(field, node_name) for field in self.fields)

    @property
    def keys(self) -> frozenset[str]:
        """The labels that matching reads."""
        return self.selector.keys

    @property
    def names(self) -> frozenset[str]:
        """The names of nodes that matching tells from others."""
        return frozenset(value for field in self.fields for value in field.values or ())


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """A disjunction of terms; empty terms, which match nothing, are left out."""

    terms: tuple[CompiledTerm, ...]

    def match(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether any term matches. Raises NodeSelectorError where none does and some could not be parsed."""
        if any(term.matches(labels, node_name) for term in self.terms):
            return True
        self.check()
        return False

    def check(self) -> None:
        """Raise NodeSelectorError if any term could not be parsed, whatever the others match."""
        _raise(error for term in self.terms for error in term.errors)

    @property
    def keys(self) -> frozenset[str]:
        """The labels that matching reads."""
        return frozenset().union(*(term.keys for term in self.terms))

    @property
    def names(self) -> frozenset[str]:
        """The names of nodes that matching tells from others."""
        return frozenset().union(*(term.names for term in self.terms))


@dataclass(frozen=True, slots=True)
class CompiledPreferredTerms:
    """Terms, none of them faulty, with their weights."""

    terms: tuple[tuple[int, CompiledTerm], ...]

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """The sum of the weights of the terms that match."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))

    @property
    def keys(self) -> frozenset[str]:
        """The labels that scoring reads."""
        return frozenset().union(*(term.keys for _, term in self.terms))

    @property
    def names(self) -> frozenset[str]:
        """The names of nodes that scoring tells from others."""
        return frozenset().union(*(term.names for _, term in self.terms))


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """What a pod demands of its node: its nodeSelector and its required node affinity."""

    selector: Selector
    affinity: CompiledNodeSelector | None

    def match(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether both are met. Raises NodeSelectorError as CompiledNodeSelector does, if the nodeSelector is met."""
        return self.selector.matches(labels) and (self.affinity is None or self.affinity.match(labels, node_name))

    def allows(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether both allow a node; terms that cannot be parsed match none, as most of upstream takes it."""
        try:
            return self.match(labels, node_name)
        except NodeSelectorError:
            return False

    @property
    def keys(self) -> frozenset[str]:
        """The labels that matching reads."""
        return self.selector.keys | (self.affinity.keys if self.affinity else frozenset())

    @property
    def names(self) -> frozenset[str]:
        """The names of nodes that matching tells from others."""
        return self.affinity.names if self.affinity else frozenset()


def compile_node_selector(node_selector: NodeSelector, path: str = "") -> CompiledNodeSelector:
    """Compile a NodeSelector; faults are kept until ``match`` or ``check``, named from the field at ``path``."""
    at = child(path, "nodeSelectorTerms")
    terms = enumerate(node_selector.node_selector_terms)
    return CompiledNodeSelector(tuple(_compile(term, f"{at}[{i}]") for i, term in terms if not _is_empty(term)))


def compile_preferred_terms(terms: Sequence[PreferredSchedulingTerm], path: str = "") -> CompiledPreferredTerms:
    """Compile preferred terms, without those that are empty or weigh 0. Raises NodeSelectorError with all faults."""
    compiled = tuple(
        (term.weight, _compile(term.preference, f"{path}[{i}]"))
        for i, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )
    _raise(error for _, term in compiled for error in term.errors)
    return CompiledPreferredTerms(compiled)


def required_node_affinity(spec: PodSpec) -> RequiredNodeAffinity:
    """What a pod's spec demands of its node; faulty terms are reported when matching."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return RequiredNodeAffinity(
        api_labels.from_set(spec.node_selector), None if required is None else compile_node_selector(required)
    )


def _compile(term: NodeSelectorTerm, path: str) -> CompiledTerm:
    selector, errors = compile_requirements(term.match_expressions, child(path, "matchExpressions"))
    at = child(path, "matchFields")
    errors += [error for i, field in enumerate(term.match_fields) for error in _field_errors(field, f"{at}[{i}]")]
    return CompiledTerm(errors=tuple(errors)) if errors else CompiledTerm(selector, tuple(term.match_fields))


def compile_requirements(requirements: Iterable[SelectorRequirement], path: str) -> tuple[Selector, list[str]]:
    """The conjunction of node selector requirements, of those that are valid, and what is wrong with the others."""
    valid, errors = [], []
    for i, requirement in enumerate(requirements):
        at = f"{path}[{i}]"
        operator = _OPERATORS.get(requirement.operator)
        if operator is None:
            errors.append(not_supported(child(at, "operator"), requirement.operator, _OPERATORS))
            continue
        faults = api_labels.requirement_errors(requirement.key, operator, requirement.values, at)
        errors += faults
        valid += [] if faults else [Requirement(requirement.key, operator, tuple(requirement.values or ()))]
    return api_labels.selector(valid), errors


def _field_errors(field: SelectorRequirement, path: str) -> list[str]:
    if field.operator not in _FIELD_OPERATORS:
        return [not_supported(child(path, "operator"), field.operator, _FIELD_OPERATORS)]
    if len(field.values or ()) != 1:
        return [invalid(child(path, "values"), field.values, "must have one element")]
    return []


def _field_matches(field: SelectorRequirement, node_name: str) -> bool:
    """Whether the field has (In) or has not (NotIn) the one value; any field but the name is empty."""
    actual = node_name if field.key == _NAME_FIELD else ""
    return ((actual,) == tuple(field.values or ())) == (field.operator == "In")


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _raise(errors: Iterable[str]) -> None:
    if messages := tuple(errors):
        raise NodeSelectorError(api_labels.aggregate(messages))
