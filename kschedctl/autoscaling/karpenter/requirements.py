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
from kschedctl.autoscaling.karpenter.go_order import go_sort_order
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
    """Whether ``values`` are excluded rather than allowed."""
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
        """Create a requirement from an operator and its values."""
        key = NORMALIZED.get(key, key)
        match operator:
            case "In":
                return cls(key, False, frozenset(values), min_values=min_values)
            case "DoesNotExist":
                return cls(key, False, min_values=min_values)
            case "NotIn":
                return cls(key, True, frozenset(values), min_values=min_values)
            case "Gt" | "Gte" | "Lt" | "Lte":
                return _build_bounded_requirement(key, operator, parse_integer(next(iter(values), "")) or 0, min_values)
        return cls(key, min_values=min_values)

    @property
    def operator(self) -> str:
        """The operator with which the requirement is written."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    @property
    def negative(self) -> bool:
        """Whether a node without the label meets the requirement."""
        return bool(self.values) if self.complement else not self.values

    def has(self, value: str) -> bool:
        """Return whether the label may have this value."""
        return (value in self.values) is not self.complement and _is_within_bounds(value, self.minimum, self.maximum)

    def intersection(self, other: LabelRequirement) -> LabelRequirement:
        """Return the requirement that allows the values that both allow."""
        least, most = _max_optional(self.minimum, other.minimum), _min_optional(self.maximum, other.maximum)
        min_values = _max_optional(self.min_values, other.min_values)
        if least is not None and most is not None and least > most:
            return LabelRequirement(self.key, False, min_values=min_values)
        complement = self.complement and other.complement
        values = self._intersect_values(other)
        if least is not None or most is not None:
            values = frozenset(value for value in values if _is_within_bounds(value, least, most))
        if not complement:  # the listed values already respect the bounds
            least = most = None
        return LabelRequirement(self.key, complement, values, minimum=least, maximum=most, min_values=min_values)

    def _intersect_values(self, other: LabelRequirement) -> frozenset[str]:
        """Return the values of the intersection, disregarding bounds."""
        if self.complement:
            return self.values | other.values if other.complement else other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def intersects(self, other: LabelRequirement) -> bool:
        """Return whether any value meets both requirements."""
        least, most = _max_optional(self.minimum, other.minimum), _min_optional(self.maximum, other.maximum)
        if least is not None and most is not None and least > most:
            return False
        if self.complement and other.complement:
            return True
        values = self._intersect_values(other)
        if least is None and most is None:
            return bool(values)
        return any(_is_within_bounds(value, least, most) for value in values)

    def agrees(self, other: LabelRequirement) -> bool:
        """Return whether a label value meets both requirements, or a node without the label does."""
        return (self.negative and other.negative) or self.intersects(other)

    def any(self) -> str:
        """Return a value that meets the requirement, the smallest if values are listed, or ""."""
        if not self.complement:
            return min(self.values, default="")
        return str(self.minimum or 0)

    def to_terms(self) -> list[SelectorTerm]:
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
        """Create requirements. Several requirements on the same label are intersected."""
        combined = cls()
        combined.add(requirements)
        return combined

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Create requirements that allow exactly these label values."""
        return cls.from_list(LabelRequirement.from_operator(key, IN, (value,)) for key, value in labels.items())

    def add(self, requirements: Iterable[LabelRequirement]) -> None:
        """Intersect these requirements with further ones in place."""
        for requirement in requirements:
            existing = self.get(requirement.key)
            self[requirement.key] = requirement if existing is None else requirement.intersection(existing)

    def plus(self, other: Mapping[str, LabelRequirement]) -> Requirements:
        """Return the intersection of these requirements and others."""
        combined = Requirements(self)
        combined.add(other.values())
        return combined

    def label(self, key: str) -> LabelRequirement:
        """Return the requirement for a label, which allows any value by default."""
        return self.get(key) or LabelRequirement(key)

    def find_undefined_label(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Return the first label that ``other`` requires but that is neither defined here nor ``allowed``, or ""."""
        keys = (k for k, wanted in other.items() if not (k in self or k in allowed or wanted.negative))
        return min(keys, default="")

    def intersects(self, other: Mapping[str, LabelRequirement]) -> bool:
        """Return whether the requirements on each shared label can be met together."""
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        return all(large[key].agrees(mine) for key, mine in small.items() if key in large)

    def compatible(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> bool:
        """Return whether ``other`` can be met as well. Labels that it requires must be defined here or ``allowed``."""
        return not self.find_undefined_label(other, allowed) and self.intersects(other)

    def describe_conflict(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Describe in Karpenter's words why ``other`` cannot be met, or return "" if it can."""
        if key := self.find_undefined_label(other, allowed):
            return f'label "{key}" does not have known values{suggest_label(key, self, allowed)}'
        return "; ".join(
            f"key {key}, {other[key]} not in {self[key]}"
            for key in sorted(self.keys() & other.keys())
            if not self[key].agrees(other[key])
        )

    @property
    def have_min_values(self) -> bool:
        """Whether any requirement has minValues."""
        return any(requirement.min_values is not None for requirement in self.values())

    def set_min_values(self, key: str, count: int) -> None:
        """Set the minValues of a label's requirement."""
        self[key] = replace(self.label(key), min_values=count)

    def __str__(self) -> str:
        return ", ".join(sorted(str(requirement) for key, requirement in self.items() if key != HOSTNAME))


def build_term_requirements(term: NodeSelectorTerm) -> Requirements:
    """Build the requirements of a term's expressions."""
    return Requirements.from_list(
        LabelRequirement.from_operator(e.key, e.operator, e.values or ()) for e in term.match_expressions
    )


def get_required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms of the pod's required node affinity, one of which has to be met."""
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
    """Build a pod's requirements, including its heaviest preferred term."""
    requirements = Requirements.from_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    if preferred:
        heaviest = preferred[go_sort_order([-term.weight for term in preferred])[0]]
        requirements.add(build_term_requirements(heaviest.preference).values())
    if terms := get_required_terms(pod):
        requirements.add(build_term_requirements(terms[0]).values())
    return requirements


def parse_integer(text: str) -> int | None:
    """Parse an integer as Go's strconv.Atoi does, or return None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def _build_bounded_requirement(key: str, operator: str, bound: int, min_values: int | None) -> LabelRequirement:
    """Build a requirement with one integer bound."""
    if operator == "Gt" and bound == INT64_MAX:
        return LabelRequirement(key, complement=False)  # no integer is larger
    least = {"Gt": bound + 1, "Gte": bound}.get(operator)
    most = {"Lt": bound - 1, "Lte": bound}.get(operator)
    return LabelRequirement(key, minimum=least, maximum=most, min_values=min_values)


def _is_within_bounds(value: str, least: int | None, most: int | None) -> bool:
    """Return whether a value is an integer within the bounds. Without bounds, any value is allowed."""
    if least is None and most is None:
        return True
    number = parse_integer(value)
    return number is not None and (least is None or number >= least) and (most is None or number <= most)


def _max_optional(a: int | None, b: int | None) -> int | None:
    """Return the larger number, or the other one if one is None."""
    if a is None:
        return b
    return a if b is None else max(a, b)


def _min_optional(a: int | None, b: int | None) -> int | None:
    """Return the smaller number, or the other one if one is None."""
    if a is None:
        return b
    return a if b is None else min(a, b)
