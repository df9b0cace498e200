"""Conditions on node labels, and whether nodes or the instance types of NodePools can meet them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.karpenter import NodeClaimSpec, NodeClaimTemplate, NodePool, NodePoolSpec, RequirementWithMinValues
from kschedctl.api.labels import parse_int64
from kschedctl.api.objects import NodeSelectorTerm, ObjectMeta, PodSpec, SelectorRequirement
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.amounts import ZERO
from kschedctl.autoscaling.karpenter.instance_types import InstanceTypeCatalog
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, get_class_reference
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate, build_claim_template
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.cluster import Cluster
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.snapshot.nodes import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

DEPRECATED_LABELS = {
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
}
"""The label that replaced a deprecated node label. Nodes with both have the same value."""
MISTAKEN_LABELS = {
    "topology.kubernetes.io/hostname": HOSTNAME,
    "kubernetes.io/zone": ZONE,
    "topology.kubernetes.io/host": HOSTNAME,
    "kubernetes.io/host": HOSTNAME,
}
"""The label that is meant by keys that look like node labels but are none."""


@dataclass(frozen=True)
class AllowedValues:
    """The values that a node label may have."""

    allowed: frozenset[str] | None = None
    """The allowed values, or None for any."""
    excluded: frozenset[str] = frozenset()
    """Values that are not allowed."""
    present: bool | None = None
    """Whether the label must exist (True) or must not exist (False)."""
    above: int | None = None
    """The exclusive lower bound."""
    below: int | None = None
    """The exclusive upper bound."""

    @property
    def is_possible(self) -> bool:
        """Return whether some value, or the absence of the label, is allowed."""
        if self.present is False:
            return not self.requires_label
        if self.allowed is not None:
            return any(map(self.is_in_bounds, self.allowed - self.excluded))
        above = -1 if self.above is None else max(self.above, -1)  # no label begins with a minus sign
        return self.below is None or self.below - above > 1

    @property
    def requires_label(self) -> bool:
        """Return whether a node without the label does not meet the conditions on its value."""
        return self.allowed is not None or self.above is not None or self.below is not None

    def is_in_bounds(self, value: str) -> bool:
        """Return whether a value is within the bounds of Gt and Lt."""
        if self.above is None and self.below is None:
            return True
        number = parse_int64(value)
        if number is None:
            return False
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)

    def restrict(self, requirement: SelectorRequirement) -> AllowedValues:
        """Restrict the values by one more requirement.

        Exists together with DoesNotExist leaves an empty set of allowed values.
        """
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
                return self._restrict_bounds(requirement.operator, number)
        return self

    def _restrict_bounds(self, operator: str, number: int) -> AllowedValues:
        """Restrict the bounds of the values by a Gt or Lt requirement."""
        if operator == "Gt":
            return replace(self, above=number if self.above is None else max(self.above, number))
        return replace(self, below=number if self.below is None else min(self.below, number))


@dataclass(frozen=True)
class Conditions:
    """Conditions on several node labels that all must hold. Deprecated labels count as their successors."""

    by_key: dict[str, AllowedValues] = field(default_factory=dict)

    def restrict(self, requirements: Iterable[SelectorRequirement]) -> Conditions:
        """Return the conditions with further requirements."""
        by_key = dict(self.by_key)
        for requirement in requirements:
            key = DEPRECATED_LABELS.get(requirement.key, requirement.key)
            by_key[key] = by_key.get(key, AllowedValues()).restrict(requirement)
        return Conditions(by_key)

    @property
    def conflicts(self) -> list[str]:
        """Return the labels for which no value is possible."""
        return [key for key, values in self.by_key.items() if not values.is_possible]


class Alternative(NamedTuple):
    """One way to meet the node conditions of a pod."""

    term: int | None
    """The index of the node selector term, or None if there are no terms."""
    conditions: Conditions


def to_requirements(labels: dict[str, str]) -> Iterator[SelectorRequirement]:
    """Return the requirements that a map of labels stands for."""
    return (SelectorRequirement(key, "In", (value,)) for key, value in labels.items())


def list_alternatives(spec: PodSpec) -> list[Alternative]:
    """Return nodeSelector combined with each required node affinity term that is not empty."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    base = Conditions().restrict(to_requirements(spec.node_selector))
    if required is None:
        return [Alternative(None, base)]
    terms: list[tuple[int, NodeSelectorTerm]] = list(enumerate(required.node_selector_terms))
    return [
        Alternative(i, base.restrict(t.match_expressions)) for i, t in terms if t.match_expressions or t.match_fields
    ]


class FewValues(NamedTuple):
    """A label for which a pool's instance types have fewer values than minValues asks for."""

    key: str
    min_values: int
    value_count: int


class PoolTypes:
    """The instance types that the requirements of one pool leave, without regard to minValues."""

    def __init__(self, template: ClaimTemplate) -> None:
        self._template = template

    @property
    def total(self) -> int:
        """The number of instance types in the list."""
        return len(self._template.columns)

    @cached_property
    def matching(self) -> int:
        """The number of instance types that the pool may launch."""
        return int(self._template.options.sum())

    def iter_few_values(self) -> Iterator[FewValues]:
        """Yield the labels whose minValues the instance types do not reach."""
        requirements = self._template.requirements
        for key, values in self._template.columns.find_unmet_min_values(self._template.options, requirements).items():
            yield FewValues(key, requirements[key].min_values or 0, values)

    def find_blocking_labels(self) -> list[str]:
        """Find the labels without whose requirement some instance type would match."""
        columns, requirements = self._template.columns, self._template.requirements
        declared = [requirement.key for requirement in self._template.pool.spec.template.spec.requirements]
        blocking = []
        for label in declared:
            if label not in requirements:
                continue
            other_requirements = {key: requirement for key, requirement in requirements.items() if key != label}
            if (
                columns.find_compatible_types(other_requirements) & columns.find_offered_types(other_requirements)
            ).any():
                blocking.append(label)
        return blocking

    def get_smallest_capacity(self, resource: str) -> Quantity:
        """Return the smallest capacity of a resource among the instance types that the pool may launch."""
        columns = self._template.columns
        rows = self._template.options.nonzero()[0].tolist()
        return min((columns.types[row].capacity.get(resource, ZERO) for row in rows), default=ZERO)


class PoolTypeCatalog:
    """A catalog of the instance types that NodePools may launch, as far as their node classes allow."""

    def __init__(self, sold: InstanceTypeCatalog, cluster: Cluster | None) -> None:
        self._sold, self._classes = sold, NodeClasses(cluster or Cluster())
        self._columns: dict[object, TypeColumns] = {}

    def find_types(self, name: str, pool: WrittenNodePool) -> PoolTypes:
        """Return the instance types of a NodePool."""
        typed = _to_node_pool(name, pool)
        return PoolTypes(
            build_claim_template(typed, self._get_class_types(typed), self._sold.well_known, relax_min_values=True)
        )

    def _get_class_types(self, pool: NodePool) -> TypeColumns:
        """Return the instance types that the pool's node class allows."""
        key = get_class_reference(pool) if self._classes.find_class(pool) else None
        if key not in self._columns:
            self._columns[key] = TypeColumns(self._classes.adjust_types(pool, self._sold.types))
        return self._columns[key]


def _to_node_pool(name: str, pool: WrittenNodePool) -> NodePool:
    """Convert the parts of a written NodePool that decide which instance types it may launch."""
    written_spec = pool.spec.template.spec
    requirements = tuple(
        RequirementWithMinValues(r.key, r.operator, tuple(map(str, r.values)), r.min_values)
        for r in written_spec.requirements
    )
    claim = NodeClaimSpec(
        requirements=requirements, taints=written_spec.taints, node_class_ref=written_spec.node_class_ref
    )
    template = NodeClaimTemplate(ObjectMeta(labels=pool.labels), claim)
    return NodePool(ObjectMeta(name=name), NodePoolSpec(template))
