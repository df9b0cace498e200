"""Whether conditions on node labels can be met by any node at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kschedctl.api.labels import parse_int64
from kschedctl.api.objects import NodeSelectorTerm, PodSpec, SelectorRequirement
from kschedctl.snapshot.node_order import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

DEPRECATED = {
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
}
"""Label of nodes -> the one that replaced it: where a node has both, they are equal."""
NO_LABELS = {
    "topology.kubernetes.io/hostname": HOSTNAME,
    "kubernetes.io/zone": ZONE,
    "topology.kubernetes.io/host": HOSTNAME,
    "kubernetes.io/host": HOSTNAME,
}
"""Keys that look like labels of nodes but are none -> the label that was meant."""


@dataclass(frozen=True)
class Values:
    """What the value of one label may be: ``allowed`` None is any; Gt and Lt bound it, exclusively."""

    allowed: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    present: bool | None = None
    above: int | None = None
    below: int | None = None

    @property
    def possible(self) -> bool:
        """Whether some value, or the absence of the label, is left."""
        if self.present is False:
            return not self.must_exist
        if self.allowed is not None:
            return any(map(self.accepts, self.allowed - self.excluded))
        above = -1 if self.above is None else max(self.above, -1)  # no label begins with a minus sign
        return self.below is None or self.below - above > 1

    @property
    def must_exist(self) -> bool:
        return self.allowed is not None or self.above is not None or self.below is not None

    def accepts(self, value: str) -> bool:
        """Whether Gt and Lt let a value pass."""
        if self.above is None and self.below is None:
            return True
        number = parse_int64(value)
        if number is None:
            return False
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)

    def also(self, requirement: SelectorRequirement) -> Values:
        """The values left by one more requirement. Both Exists and DoesNotExist are kept as an impossible allowance."""
        values = frozenset(requirement.values or ())
        number = parse_int64(next(iter(values), ""))
        match requirement.operator:
            case "In":
                return replace(self, allowed=values if self.allowed is None else self.allowed & values)
            case "NotIn":
                return replace(self, excluded=self.excluded | values)
            case "Exists":
                return replace(self, allowed=frozenset()) if self.present is False else replace(self, present=True)
            case "DoesNotExist":
                return replace(self, allowed=frozenset()) if self.present else replace(self, present=False)
            case "Gt" | "Lt" if number is not None:
                return self._bounded(requirement.operator, number)
        return self

    def _bounded(self, operator: str, number: int) -> Values:
        if operator == "Gt":
            return replace(self, above=number if self.above is None else max(self.above, number))
        return replace(self, below=number if self.below is None else min(self.below, number))


@dataclass(frozen=True)
class Conditions:
    """A conjunction of requirements, by label; what was asked of a deprecated one is asked of its successor."""

    by_key: dict[str, Values] = field(default_factory=dict)

    def also(self, requirements: Iterable[SelectorRequirement]) -> Conditions:
        by_key = dict(self.by_key)
        for requirement in requirements:
            key = DEPRECATED.get(requirement.key, requirement.key)
            by_key[key] = by_key.get(key, Values()).also(requirement)
        return Conditions(by_key)

    @property
    def conflicts(self) -> list[str]:
        """The labels for which no value is possible."""
        return [key for key, values in self.by_key.items() if not values.possible]


class Alternative(NamedTuple):
    """One way to meet a pod's demands: ``term`` is the index of the node selector term, None when there are none."""

    term: int | None
    conditions: Conditions


def equal(labels: dict[str, str]) -> Iterator[SelectorRequirement]:
    """A label map as requirements."""
    return (SelectorRequirement(key, "In", (value,)) for key, value in labels.items())


def alternatives(spec: PodSpec) -> list[Alternative]:
    """The nodeSelector together with each required node affinity term that is not empty."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    base = Conditions().also(equal(spec.node_selector))
    if required is None:
        return [Alternative(None, base)]
    terms: list[tuple[int, NodeSelectorTerm]] = list(enumerate(required.node_selector_terms))
    return [Alternative(i, base.also(t.match_expressions)) for i, t in terms if t.match_expressions or t.match_fields]
