"""Requirements on node labels: sets of values, complements and integer bounds, with their intersection.

Upstream: pkg/scheduling/requirement.go, requirements.go (sigs.k8s.io/karpenter v1.14.1), from which the texts are
copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kschedctl.api.objects import NodeSelectorTerm, Pod
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.autoscaling.karpenter.go_order import compute_go_sort_order
from kschedctl.autoscaling.karpenter.labels import HOSTNAME, NORMALIZED, suggest_label

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
BOUNDS = ("Gt", "Lt", "Gte", "Lte")
NEGATIVE = frozenset((NOT_IN, DOES_NOT_EXIST))
NONE: frozenset[str] = frozenset()
_SHOWN = 5
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")


class SelectorTerm(NamedTuple):
    """A requirement in the form that NodeClaims use."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """The values that a label may have."""

    key: str
    complement: bool = True
    """True if ``values`` are excluded rather than allowed."""
    values: frozenset[str] = NONE
    minimum: int | None = None
    """Smallest allowed integer."""
    maximum: int | None = None
    """Largest allowed integer."""
    min_values: int | None = None
    """Minimum number of distinct values among the instance types of a claim."""

    @classmethod
    def from_operator(
        cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> LabelRequirement:
        """Create a requirement from an operator, such as In, and its values. Deprecated labels are normalized.

        An unknown operator is treated like Exists. A bound that is not an integer counts as 0.
        """
        key = NORMALIZED.get(key, key)
        match operator:
            case "In":
                return cls(key, complement=False, values=frozenset(values), min_values=min_values)
            case "DoesNotExist":
                return cls(key, complement=False, min_values=min_values)
            case "NotIn":
                return cls(key, complement=True, values=frozenset(values), min_values=min_values)
            case "Gt" | "Gte" | "Lt" | "Lte":
                first_value = next(iter(values), "")
                return _build_bounded_requirement(key, operator, parse_integer(first_value) or 0, min_values)
        return cls(key, min_values=min_values)

    @property
    def operator(self) -> str:
        """The operator that expresses the requirement if it has no bounds."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    @property
    def negative(self) -> bool:
        """True if a node without the label meets the requirement."""
        return bool(self.values) if self.complement else not self.values

    def allows_value(self, value: str) -> bool:
        """Return whether the requirement allows this value."""
        return (value in self.values) is not self.complement and _is_within_bounds(value, self.minimum, self.maximum)

    def intersection(self, other: LabelRequirement) -> LabelRequirement:
        """Return the requirement for the same label that allows only the values that both requirements allow.

        The larger minValues applies.
        """
        minimum = _get_larger_if_set(self.minimum, other.minimum)
        maximum = _get_smaller_if_set(self.maximum, other.maximum)
        min_values = _get_larger_if_set(self.min_values, other.min_values)
        if minimum is not None and maximum is not None and minimum > maximum:
            return LabelRequirement(self.key, complement=False, min_values=min_values)  # no value is allowed

        complement = self.complement and other.complement
        values = self._intersect_values(other)
        if minimum is not None or maximum is not None:
            values = frozenset(value for value in values if _is_within_bounds(value, minimum, maximum))
        if not complement:  # the listed values already respect the bounds
            minimum = maximum = None
        return LabelRequirement(self.key, complement, values, minimum=minimum, maximum=maximum, min_values=min_values)

    def _intersect_values(self, other: LabelRequirement) -> frozenset[str]:
        """Return the listed values of the intersection, disregarding bounds.

        If both are complements, these are excluded values. Otherwise, they are allowed values.
        """
        if self.complement and other.complement:
            return self.values | other.values
        if self.complement:
            return other.values - self.values
        if other.complement:
            return self.values - other.values
        return self.values & other.values

    def intersects(self, other: LabelRequirement) -> bool:
        """Return whether any value meets both requirements.

        Two requirements that both only exclude values always have a common value within their bounds.
        """
        minimum = _get_larger_if_set(self.minimum, other.minimum)
        maximum = _get_smaller_if_set(self.maximum, other.maximum)
        if minimum is not None and maximum is not None and minimum > maximum:
            return False
        if self.complement and other.complement:
            return True
        values = self._intersect_values(other)
        if minimum is None and maximum is None:
            return bool(values)
        return any(_is_within_bounds(value, minimum, maximum) for value in values)

    def agrees_with(self, other: LabelRequirement) -> bool:
        """Return whether any node could meet both requirements, with some label value or without the label."""
        return (self.negative and other.negative) or self.intersects(other)

    def choose_value(self) -> str:
        """Choose a value that meets the requirement. Return "" if it allows no value.

        The first allowed value in alphabetical order is chosen. If the allowed values are not listed, it is the minimum
        or else 0.
        """
        if not self.complement:
            return min(self.values, default="")
        return str(self.minimum or 0)

    def to_selector_terms(self) -> list[SelectorTerm]:
        """Convert the requirement to terms of a NodeClaim: two terms if it has two bounds, otherwise one."""
        bounds = [("Gte", self.minimum), ("Lte", self.maximum)]
        terms = [
            SelectorTerm(self.key, operator, (str(bound),), self.min_values)
            for operator, bound in bounds
            if bound is not None
        ]
        return terms or [SelectorTerm(self.key, self.operator, tuple(sorted(self.values)), self.min_values)]

    def __str__(self) -> str:
        return f"{self.key} {self.text_without_key}"

    @property
    def text_without_key(self) -> str:
        """The requirement as text without its label."""
        text = self.operator
        if self.values:
            values = sorted(self.values)
            shown = values[:_SHOWN]
            if len(values) > _SHOWN:
                shown.append(f"and {len(values) - _SHOWN} others")
            text += f" [{' '.join(shown)}]"
        if self.minimum is not None:
            text += f" >={self.minimum}"
        if self.maximum is not None:
            text += f" <={self.maximum}"
        if self.min_values is not None:
            text += f" minValues {self.min_values}"
        return text


class Requirements(dict[str, LabelRequirement]):
    """Requirements by label. A label that is missing may have any value."""

    @classmethod
    def from_list(cls, requirements: Iterable[LabelRequirement]) -> Requirements:
        """Create requirements from a list. Several requirements on the same label are intersected."""
        combined = cls()
        combined.add(requirements)
        return combined

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Create requirements that require each of these labels with its value."""
        return cls.from_list(LabelRequirement.from_operator(key, IN, (value,)) for key, value in labels.items())

    def add(self, requirements: Iterable[LabelRequirement]) -> None:
        """Add further requirements in place. A label that already has a requirement gets the intersection of both."""
        for requirement in requirements:
            existing = self.get(requirement.key)
            self[requirement.key] = requirement if existing is None else requirement.intersection(existing)

    def combined_with(self, other: Mapping[str, LabelRequirement]) -> Requirements:
        """Return the requirements that demand both these and the other requirements."""
        combined = Requirements(self)
        combined.add(other.values())
        return combined

    def get_requirement(self, key: str) -> LabelRequirement:
        """Return the requirement for a label. If there is none, it allows any value."""
        return self.get(key) or LabelRequirement(key)

    def find_undefined_label(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Return the first label by name that ``other`` requires but that is neither defined here nor in ``allowed``.

        A label may be undefined if nodes without the label meet the requirement. Return "" if there is no such label.
        """
        undefined_keys = (
            key
            for key, requirement in other.items()
            if key not in self and key not in allowed and not requirement.negative
        )
        return min(undefined_keys, default="")

    def intersects(self, other: Mapping[str, LabelRequirement]) -> bool:
        """Return whether the requirements on each shared label can be met together."""
        smaller, larger = (self, other) if len(self) <= len(other) else (other, self)
        return all(larger[key].agrees_with(requirement) for key, requirement in smaller.items() if key in larger)

    def is_compatible_with(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> bool:
        """Return whether nodes with these requirements can also meet ``other``.

        The labels that ``other`` requires must be defined here or ``allowed``.
        """
        return not self.find_undefined_label(other, allowed) and self.intersects(other)

    def describe_conflict(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Describe in Karpenter's words why ``other`` is not compatible with these requirements, or return "" if it is.

        ``allowed`` are labels that need not be defined here.
        """
        if key := self.find_undefined_label(other, allowed):
            return f'label "{key}" does not have known values{suggest_label(key, self, allowed)}'
        return "; ".join(
            f"key {key}, {other[key]} not in {self[key]}"
            for key in sorted(self.keys() & other.keys())
            if not self[key].agrees_with(other[key])
        )

    @property
    def have_min_values(self) -> bool:
        """True if any requirement has minValues."""
        return any(requirement.min_values is not None for requirement in self.values())

    def set_min_values(self, key: str, count: int) -> None:
        """Set the minValues of the requirement for the label ``key`` to ``count``, in place."""
        self[key] = replace(self.get_requirement(key), min_values=count)

    def __str__(self) -> str:
        return ", ".join(sorted(str(requirement) for key, requirement in self.items() if key != HOSTNAME))


def build_term_requirements(term: NodeSelectorTerm) -> Requirements:
    """Build the requirements that a term's label expressions set. Its match fields are ignored."""
    return Requirements.from_list(
        LabelRequirement.from_operator(expression.key, expression.operator, expression.values or ())
        for expression in term.match_expressions
    )


def get_required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternative terms of the pod's required node affinity, or () if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def build_strict_requirements(pod: Pod) -> Requirements:
    """Build a pod's requirements from its node selector and its first required term, without preferences."""
    requirements = Requirements.from_labels(pod.spec.node_selector)
    if terms := get_required_terms(pod):
        requirements.add(build_term_requirements(terms[0]).values())
    return requirements


def build_pod_requirements(pod: Pod) -> Requirements:
    """Build a pod's requirements from its node selector, its heaviest preferred term and its first required term."""
    requirements = Requirements.from_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    if preferred:
        heaviest_index, *_ = compute_go_sort_order([-term.weight for term in preferred])
        heaviest = preferred[heaviest_index]
        requirements.add(build_term_requirements(heaviest.preference).values())
    if terms := get_required_terms(pod):
        requirements.add(build_term_requirements(terms[0]).values())
    return requirements


def parse_integer(text: str) -> int | None:
    """Parse an integer as Go's strconv.Atoi does, or return None if the text is not a 64-bit integer."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None


def _build_bounded_requirement(key: str, operator: str, bound: int, min_values: int | None) -> LabelRequirement:
    """Build the requirement that a label is an integer above or below ``bound``, depending on ``operator``.

    If no 64-bit integer is above the bound, the requirement allows no value.
    """
    if operator == "Gt" and bound == INT64_MAX:
        return LabelRequirement(key, complement=False)  # no integer is larger
    minimum = {"Gt": bound + 1, "Gte": bound}.get(operator)
    maximum = {"Lt": bound - 1, "Lte": bound}.get(operator)
    return LabelRequirement(key, minimum=minimum, maximum=maximum, min_values=min_values)


def _is_within_bounds(value: str, minimum: int | None, maximum: int | None) -> bool:
    """Return whether a value is an integer within the bounds. Without bounds, any value is allowed."""
    if minimum is None and maximum is None:
        return True
    number = parse_integer(value)
    if number is None:
        return False
    return (minimum is None or number >= minimum) and (maximum is None or number <= maximum)


def _get_larger_if_set(a: int | None, b: int | None) -> int | None:
    """Return the larger of two numbers. If one of them is None, return the other."""
    if a is None:
        return b
    return a if b is None else max(a, b)


def _get_smaller_if_set(a: int | None, b: int | None) -> int | None:
    """Return the smaller of two numbers. If one of them is None, return the other."""
    if a is None:
        return b
    return a if b is None else min(a, b)
