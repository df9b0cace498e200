"""Requirements on node labels: sets of values, complements and integer bounds, with their intersection.

Upstream: pkg/scheduling/requirement.go, requirements.go (sigs.k8s.io/karpenter v1.14.1), whose words these are.
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
    """A requirement as NodeClaims write it."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """The values that a label may have."""

    key: str
    complement: bool = True
    """Whether ``values`` are excluded instead of allowed."""
    values: frozenset[str] = NONE
    minimum: int | None = None
    """Smallest allowed integer."""
    maximum: int | None = None
    """Largest allowed integer."""
    min_values: int | None = None
    """Minimum number of distinct values among the instance types of a claim."""

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> LabelRequirement:
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
                return _build_bounded(key, operator, parse_integer(next(iter(values), "")) or 0, min_values)
        return cls(key, min_values=min_values)

    @property
    def operator(self) -> str:
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
        """Return the requirement for values that meet both."""
        least, most = _max_optional(self.minimum, other.minimum), _min_optional(self.maximum, other.maximum)
        min_values = _max_optional(self.min_values, other.min_values)
        if least is not None and most is not None and least > most:
            return LabelRequirement(self.key, False, min_values=min_values)
        complement = self.complement and other.complement
        values = self._intersect_values(other)
        if least is not None or most is not None:
            values = frozenset(value for value in values if _is_within_bounds(value, least, most))
        if not complement:
            least = most = None
        return LabelRequirement(self.key, complement, values, least, most, min_values)

    def _intersect_values(self, other: LabelRequirement) -> frozenset[str]:
        """Return the values of the intersection, without regard to bounds."""
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
        """Return whether both can be met, possibly by a node without the label."""
        return (self.negative and other.negative) or self.intersects(other)

    def any(self) -> str:
        """Return the smallest value that meets the requirement, or ""."""
        if not self.complement:
            return min(self.values, default="")
        return str(self.minimum or 0)

    def terms(self) -> list[SelectorTerm]:
        """Return the requirement as terms of a NodeClaim; two if it has both bounds."""
        bounds = [("Gte", self.minimum), ("Lte", self.maximum)]
        terms = [
            SelectorTerm(self.key, operator, (str(bound),), self.min_values)
            for operator, bound in bounds
            if bound is not None
        ]
        return terms or [SelectorTerm(self.key, self.operator, tuple(sorted(self.values)), self.min_values)]

    def __str__(self) -> str:
        return f"{self.key} {self.without_key}"

    @property
    def without_key(self) -> str:
        """The requirement as text, without its label."""
        text = self.operator
        if self.values:
            values = sorted(self.values)
            more = [f"and {len(values) - _SHOWN} others"] if len(values) > _SHOWN else []
            text += f" [{' '.join(values[:_SHOWN] + more)}]"
        marks = ((" >=", self.minimum), (" <=", self.maximum), (" minValues ", self.min_values))
        return text + "".join(f"{mark}{number}" for mark, number in marks if number is not None)


class Requirements(dict[str, LabelRequirement]):
    """Requirements by label; a missing label may have any value."""

    @classmethod
    def of(cls, requirements: Iterable[LabelRequirement]) -> Requirements:
        """Create requirements; those for the same label are intersected."""
        made = cls()
        made.add(requirements)
        return made

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Create requirements that are met by exactly these labels."""
        return cls.of(LabelRequirement.of(key, IN, (value,)) for key, value in labels.items())

    def add(self, requirements: Iterable[LabelRequirement]) -> None:
        """Intersect with further requirements in place."""
        for requirement in requirements:
            known = self.get(requirement.key)
            self[requirement.key] = requirement if known is None else requirement.intersection(known)

    def plus(self, other: Mapping[str, LabelRequirement]) -> Requirements:
        """Return the intersection with other requirements."""
        made = Requirements(self)
        made.add(other.values())
        return made

    def label(self, key: str) -> LabelRequirement:
        """Return the requirement for a label, by default that of any value."""
        return self.get(key) or LabelRequirement(key)

    def find_undefined(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Return the first required label of ``other`` that is neither defined here nor allowed, or ""."""
        keys = (k for k, wanted in other.items() if not (k in self or k in allowed or wanted.negative))
        return min(keys, default="")

    def intersects(self, other: Mapping[str, LabelRequirement]) -> bool:
        """Return whether labels defined by both can meet both."""
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        return all(large[key].agrees(mine) for key, mine in small.items() if key in large)

    def compatible(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> bool:
        """Return whether ``other`` can be met, too. Its labels must be defined here or ``allowed``."""
        return not self.find_undefined(other, allowed) and self.intersects(other)

    def describe_conflict(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Return why ``other`` cannot be met, in Karpenter's words, or ""."""
        if key := self.find_undefined(other, allowed):
            return f'label "{key}" does not have known values{suggest_label(key, self, allowed)}'
        return "; ".join(
            f"key {key}, {other[key]} not in {self[key]}"
            for key in sorted(self.keys() & other.keys())
            if not self[key].agrees(other[key])
        )

    @property
    def have_min_values(self) -> bool:
        return any(requirement.min_values is not None for requirement in self.values())

    def with_min_values(self, key: str, count: int) -> None:
        self[key] = replace(self.label(key), min_values=count)

    def __str__(self) -> str:
        return ", ".join(sorted(str(requirement) for key, requirement in self.items() if key != HOSTNAME))


def build_term_requirements(term: NodeSelectorTerm) -> Requirements:
    """Return the requirements of a term's expressions."""
    return Requirements.of(LabelRequirement.of(e.key, e.operator, e.values or ()) for e in term.match_expressions)


def get_required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms of the required node affinity, of which one has to be met."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def strict_requirements(pod: Pod) -> Requirements:
    """Return the pod's requirements without preferences: its node selector and first required term."""
    made = Requirements.of_labels(pod.spec.node_selector)
    if terms := get_required_terms(pod):
        made.add(build_term_requirements(terms[0]).values())
    return made


def pod_requirements(pod: Pod) -> Requirements:
    """Return the pod's requirements, with its heaviest preferred term treated as required."""
    made = Requirements.of_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    if preferred:
        heaviest = preferred[go_sort_order([-term.weight for term in preferred])[0]]
        made.add(build_term_requirements(heaviest.preference).values())
    if terms := get_required_terms(pod):
        made.add(build_term_requirements(terms[0]).values())
    return made


def parse_integer(text: str) -> int | None:
    """Parse an integer as Go's strconv.Atoi does, or return None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def _build_bounded(key: str, operator: str, bound: int, min_values: int | None) -> LabelRequirement:
    """Build a requirement with one integer bound."""
    if operator == "Gt" and bound == INT64_MAX:
        return LabelRequirement(key, False)
    least = {"Gt": bound + 1, "Gte": bound}.get(operator)
    most = {"Lt": bound - 1, "Lte": bound}.get(operator)
    return LabelRequirement(key, minimum=least, maximum=most, min_values=min_values)


def _is_within_bounds(value: str, least: int | None, most: int | None) -> bool:
    """Return whether a value is an integer within the bounds, if there are any."""
    if least is None and most is None:
        return True
    number = parse_integer(value)
    return number is not None and (least is None or number >= least) and (most is None or number <= most)


def _max_optional(a: int | None, b: int | None) -> int | None:
    """Return the larger number; None is ignored."""
    return b if a is None else a if b is None else max(a, b)


def _min_optional(a: int | None, b: int | None) -> int | None:
    """Return the smaller number; None is ignored."""
    return b if a is None else a if b is None else min(a, b)
