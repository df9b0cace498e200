"""Node selectors and preferred scheduling terms, compiled once and matched against node labels and names.

Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go and
staging/src/k8s.io/apimachinery/pkg/fields/selector.go (v1.36). Error texts are upstream's.

Every compiled object has ``keys``, the labels it reads, and ``names``, the node names it mentions, so that a caller can
match once for all nodes that do not differ in these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kschedctl.api import labels as api_labels
from kschedctl.api.labels import EVERYTHING, Requirement, Selector, format_invalid, format_not_supported, join_path
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
    """A term that upstream cannot parse, with upstream's message."""


@dataclass(frozen=True, slots=True)
class CompiledTerm:
    """A conjunction of label and field requirements."""

    selector: Selector = EVERYTHING
    fields: tuple[SelectorRequirement, ...] = ()
    errors: tuple[str, ...] = ()
    """Parse errors. A term with errors matches nothing."""

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether a node with these labels and this name satisfies the term.

        A node without a name satisfies every field requirement, as upstream skips them.
        """
        if self.errors or not self.selector.matches(labels):
            return False
        return not node_name or all(_matches_field(field, node_name) for field in self.fields)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that matching reads."""
        return self.selector.keys

    @property
    def names(self) -> frozenset[str]:
        """The node names that the field requirements mention."""
        return frozenset(value for field in self.fields for value in field.values or ())


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """A disjunction of terms. Empty terms, which match nothing, are left out."""

    terms: tuple[CompiledTerm, ...]

    def match(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether any term matches the node.

        Raises NodeSelectorError if no term matches and some could not be parsed.
        """
        if any(term.matches(labels, node_name) for term in self.terms):
            return True
        self.raise_errors()
        return False

    def raise_errors(self) -> None:
        """Raise NodeSelectorError if any term could not be parsed, even if another term matches."""
        _raise_if_any(error for term in self.terms for error in term.errors)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that matching reads."""
        return frozenset().union(*(term.keys for term in self.terms))

    @property
    def names(self) -> frozenset[str]:
        """The node names that the terms mention."""
        return frozenset().union(*(term.names for term in self.terms))


@dataclass(frozen=True, slots=True)
class CompiledPreferredTerms:
    """Valid preferred terms with their weights."""

    terms: tuple[tuple[int, CompiledTerm], ...]

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """Return the sum of the weights of the matching terms."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that scoring reads."""
        return frozenset().union(*(term.keys for _, term in self.terms))

    @property
    def names(self) -> frozenset[str]:
        """The node names that the terms mention."""
        return frozenset().union(*(term.names for _, term in self.terms))


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's nodeSelector combined with its required node affinity."""

    selector: Selector
    affinity: CompiledNodeSelector | None

    def match(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether nodeSelector and affinity both match.

        Raises NodeSelectorError if the nodeSelector matches, no term of the affinity matches, and some terms could not
        be parsed.
        """
        return self.selector.matches(labels) and (self.affinity is None or self.affinity.match(labels, node_name))

    def allows(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether nodeSelector and required affinity both match the node.

        As in most upstream code, a term that cannot be parsed matches no node.
        """
        try:
            return self.match(labels, node_name)
        except NodeSelectorError:
            return False

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that matching reads."""
        return self.selector.keys | (self.affinity.keys if self.affinity else frozenset())

    @property
    def names(self) -> frozenset[str]:
        """The node names that the affinity mentions."""
        return self.affinity.names if self.affinity else frozenset()


def compile_node_selector(node_selector: NodeSelector, path: str = "") -> CompiledNodeSelector:
    """Compile a NodeSelector. ``path`` is its field path, which error messages contain.

    Parse errors are raised later, by ``match`` and ``raise_errors``.
    """
    terms_path = join_path(path, "nodeSelectorTerms")
    terms = enumerate(node_selector.node_selector_terms)
    return CompiledNodeSelector(
        tuple(_compile_node_selector_term(term, f"{terms_path}[{i}]") for i, term in terms if not _is_empty(term))
    )


def compile_preferred_terms(terms: Sequence[PreferredSchedulingTerm], path: str = "") -> CompiledPreferredTerms:
    """Compile preferred node affinity terms. Terms that are empty or have weight 0 are left out.

    Raises NodeSelectorError with the parse errors of all terms.
    """
    compiled = tuple(
        (term.weight, _compile_node_selector_term(term.preference, f"{path}[{i}]"))
        for i, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )
    _raise_if_any(error for _, term in compiled for error in term.errors)
    return CompiledPreferredTerms(compiled)


def compile_required_node_affinity(spec: PodSpec) -> RequiredNodeAffinity:
    """Compile a pod's nodeSelector and required node affinity. Parse errors are raised when matching."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    compiled_affinity = None if required is None else compile_node_selector(required)
    return RequiredNodeAffinity(api_labels.selector_from_set(spec.node_selector), compiled_affinity)


def _compile_node_selector_term(term: NodeSelectorTerm, path: str) -> CompiledTerm:
    """Compile a term. If the term has errors, the result contains only the errors."""
    selector, errors = compile_requirements(term.match_expressions, join_path(path, "matchExpressions"))
    fields_path = join_path(path, "matchFields")
    for i, field in enumerate(term.match_fields):
        errors += _find_match_field_errors(field, f"{fields_path}[{i}]")
    if errors:
        return CompiledTerm(errors=tuple(errors))
    return CompiledTerm(selector, tuple(term.match_fields))


def compile_requirements(requirements: Iterable[SelectorRequirement], path: str) -> tuple[Selector, list[str]]:
    """Return the conjunction of the valid requirements, and the error messages of the invalid ones.

    ``path`` is the field path of the requirements.
    """
    valid_requirements: list[Requirement] = []
    errors: list[str] = []
    for i, requirement in enumerate(requirements):
        requirement_path = f"{path}[{i}]"
        operator = _OPERATORS.get(requirement.operator)
        if operator is None:
            errors.append(
                format_not_supported(join_path(requirement_path, "operator"), requirement.operator, _OPERATORS)
            )
            continue
        requirement_errors = api_labels.validate_requirement(
            requirement.key, operator, requirement.values, requirement_path
        )
        if requirement_errors:
            errors += requirement_errors
        else:
            valid_requirements.append(Requirement(requirement.key, operator, tuple(requirement.values or ())))
    return api_labels.build_selector(valid_requirements), errors


def _find_match_field_errors(field: SelectorRequirement, path: str) -> list[str]:
    """Return the error of a matchFields requirement: an unsupported operator, or not exactly one value.

    The list is empty if the requirement is valid.
    """
    if field.operator not in _FIELD_OPERATORS:
        return [format_not_supported(join_path(path, "operator"), field.operator, _FIELD_OPERATORS)]
    if len(field.values or ()) != 1:
        return [format_invalid(join_path(path, "values"), field.values, "must have one element")]
    return []


def _matches_field(field: SelectorRequirement, node_name: str) -> bool:
    """Return whether an In or NotIn requirement holds for the node name.

    Fields other than metadata.name are empty.
    """
    actual_value = node_name if field.key == _NAME_FIELD else ""
    is_equal = tuple(field.values or ()) == (actual_value,)
    return is_equal if field.operator == "In" else not is_equal


def _is_empty(term: NodeSelectorTerm) -> bool:
    """Return whether the term has no requirements."""
    return not term.match_expressions and not term.match_fields


def _raise_if_any(errors: Iterable[str]) -> None:
    """Raise NodeSelectorError with all messages, if there are any."""
    if messages := tuple(errors):
        raise NodeSelectorError(api_labels.format_aggregate(messages))
