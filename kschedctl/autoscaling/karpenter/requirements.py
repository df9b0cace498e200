"""What labels of a node have to be: sets of values or all but those, between bounds, and what two such have in common.

Upstream: pkg/scheduling/requirement.go, requirements.go (sigs.k8s.io/karpenter v1.14.1), whose words these are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kschedctl.api.objects import NodeSelectorTerm, Pod
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.autoscaling.karpenter.go_order import go_order
from kschedctl.autoscaling.karpenter.labels import HOSTNAME, NORMALIZED, hint

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
    """The label is one of ``values``, or with ``complement`` none of them; ``least`` and ``most`` bound integers.

    ``min_values``: how many different values the instance types of a claim have to have at least.
    """

    key: str
    complement: bool = True
    values: frozenset[str] = NONE
    least: int | None = None
    most: int | None = None
    min_values: int | None = None

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> LabelRequirement:
        key = NORMALIZED.get(key, key)
        match operator:
            case "In":
                return cls(key, False, frozenset(values), min_values=min_values)
            case "DoesNotExist":
                return cls(key, False, min_values=min_values)
            case "NotIn":
                return cls(key, True, frozenset(values), min_values=min_values)
            case "Gt" | "Gte" | "Lt" | "Lte":
                return _bounded(key, operator, integer(next(iter(values), "")) or 0, min_values)
        return cls(key, min_values=min_values)

    @property
    def operator(self) -> str:
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    @property
    def negative(self) -> bool:
        """Whether a node without the label meets it."""
        return bool(self.values) if self.complement else not self.values

    def has(self, value: str) -> bool:
        """Whether the label may have this value."""
        return (value in self.values) is not self.complement and _within(value, self.least, self.most)

    def intersection(self, other: LabelRequirement) -> LabelRequirement:
        """What meets both."""
        least, most = _larger(self.least, other.least), _smaller(self.most, other.most)
        min_values = _larger(self.min_values, other.min_values)
        if least is not None and most is not None and least > most:
            return LabelRequirement(self.key, False, min_values=min_values)
        complement = self.complement and other.complement
        values = self._common(other)
        if least is not None or most is not None:
            values = frozenset(value for value in values if _within(value, least, most))
        if not complement:
            least = most = None
        return LabelRequirement(self.key, complement, values, least, most, min_values)

    def _common(self, other: LabelRequirement) -> frozenset[str]:
        if self.complement:
            return self.values | other.values if other.complement else other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def intersects(self, other: LabelRequirement) -> bool:
        """Whether anything meets both."""
        least, most = _larger(self.least, other.least), _smaller(self.most, other.most)
        if least is not None and most is not None and least > most:
            return False
        if self.complement and other.complement:
            return True
        values = self._common(other)
        if least is None and most is None:
            return bool(values)
        return any(_within(value, least, most) for value in values)

    def agrees(self, other: LabelRequirement) -> bool:
        """Whether both can be met, be it by a node without the label."""
        return (self.negative and other.negative) or self.intersects(other)

    def any(self) -> str:
        """A value that meets it, the smallest; empty where there is none."""
        if not self.complement:
            return min(self.values, default="")
        return str(self.least or 0)

    def terms(self) -> list[SelectorTerm]:
        """Terms as a NodeClaim writes them: two where a requirement is bounded on both sides."""
        bounds = [("Gte", self.least), ("Lte", self.most)]
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
        text = self.operator
        if self.values:
            values = sorted(self.values)
            more = [f"and {len(values) - _SHOWN} others"] if len(values) > _SHOWN else []
            text += f" [{' '.join(values[:_SHOWN] + more)}]"
        marks = ((" >=", self.least), (" <=", self.most), (" minValues ", self.min_values))
        return text + "".join(f"{mark}{number}" for mark, number in marks if number is not None)


class Requirements(dict[str, LabelRequirement]):
    """By label; a label that is not there may be anything."""

    @classmethod
    def of(cls, requirements: Iterable[LabelRequirement]) -> Requirements:
        made = cls()
        made.add(requirements)
        return made

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> Requirements:
        return cls.of(LabelRequirement.of(key, IN, (value,)) for key, value in labels.items())

    def add(self, requirements: Iterable[LabelRequirement]) -> None:
        """Add requirements that have to be met, too."""
        for requirement in requirements:
            known = self.get(requirement.key)
            self[requirement.key] = requirement if known is None else requirement.intersection(known)

    def plus(self, other: Mapping[str, LabelRequirement]) -> Requirements:
        """What meets both."""
        made = Requirements(self)
        made.add(other.values())
        return made

    def label(self, key: str) -> LabelRequirement:
        """What is required of a label: anything, where nothing is."""
        return self.get(key) or LabelRequirement(key)

    def undefined(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """The first label by name that the others want and that is not defined here; empty for none."""
        keys = (k for k, wanted in other.items() if not (k in self or k in allowed or wanted.negative))
        return min(keys, default="")

    def intersects(self, other: Mapping[str, LabelRequirement]) -> bool:
        """Whether what both define can be met."""
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        return all(large[key].agrees(mine) for key, mine in small.items() if key in large)

    def compatible(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> bool:
        """Whether the others can be met, too; labels that are not defined here are ``allowed`` ones only."""
        return not self.undefined(other, allowed) and self.intersects(other)

    def conflict(self, other: Mapping[str, LabelRequirement], allowed: frozenset[str] = NONE) -> str:
        """Why the others cannot be met, in Karpenter's words; empty where they can."""
        if key := self.undefined(other, allowed):
            return f'label "{key}" does not have known values{hint(key, self, allowed)}'
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


def of_term(term: NodeSelectorTerm) -> Requirements:
    """What the expressions of a term require."""
    return Requirements.of(LabelRequirement.of(e.key, e.operator, e.values or ()) for e in term.match_expressions)


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """The terms of the required node affinity: one of them has to be met."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def strict_requirements(pod: Pod) -> Requirements:
    """What a pod requires: its node selector, and the first required term."""
    made = Requirements.of_labels(pod.spec.node_selector)
    if terms := required_terms(pod):
        made.add(of_term(terms[0]).values())
    return made


def pod_requirements(pod: Pod) -> Requirements:
    """What a pod requires, and its heaviest preferred term, which is taken for a required one."""
    made = Requirements.of_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    if preferred:
        heaviest = preferred[go_order([-term.weight for term in preferred])[0]]
        made.add(of_term(heaviest.preference).values())
    if terms := required_terms(pod):
        made.add(of_term(terms[0]).values())
    return made


def integer(text: str) -> int | None:
    """What Go's strconv.Atoi makes of a text."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def _bounded(key: str, operator: str, bound: int, min_values: int | None) -> LabelRequirement:
    if operator == "Gt" and bound == INT64_MAX:
        return LabelRequirement(key, False)
    least = {"Gt": bound + 1, "Gte": bound}.get(operator)
    most = {"Lt": bound - 1, "Lte": bound}.get(operator)
    return LabelRequirement(key, least=least, most=most, min_values=min_values)


def _within(value: str, least: int | None, most: int | None) -> bool:
    if least is None and most is None:
        return True
    number = integer(value)
    return number is not None and (least is None or number >= least) and (most is None or number <= most)


def _larger(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
