"""Conditions on node labels, and the instance types of NodePools that can meet them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.karpenter import NodeClaimSpec, NodeClaimTemplate, NodePool, NodePoolSpec, RequirementWithMinValues
from kschedctl.api.labels import parse_int64
from kschedctl.api.objects import ObjectMeta, PodSpec, SelectorRequirement
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
"""Deprecated node label -> the label that replaced it. Nodes with both have the same value."""
MISTAKEN_LABELS = {
    "topology.kubernetes.io/hostname": HOSTNAME,
    "kubernetes.io/zone": ZONE,
    "topology.kubernetes.io/host": HOSTNAME,
    "kubernetes.io/host": HOSTNAME,
}
"""Key that looks like a node label but is not one -> the label that is probably meant."""


@dataclass(frozen=True)
class AllowedValues:
    """The values that a node label may have."""

    allowed: frozenset[str] | None = None
    """The allowed values, or None for any."""
    excluded: frozenset[str] = frozenset()
    """Values that are not allowed."""
    present: bool | None = None
    """True if the label must exist, False if it must not exist, None if neither is required."""
    above: int | None = None
    """The exclusive lower bound."""
    below: int | None = None
    """The exclusive upper bound."""

    @property
    def is_possible(self) -> bool:
        """True if some value, or the absence of the label, is allowed."""
        if self.present is False:
            # In, Gt and Lt need a value. NotIn does not: a node without the label meets it.
            return not self.requires_value
        if self.allowed is not None:
            return any(map(self.is_in_bounds, self.allowed - self.excluded))

        # Exclusions do not matter here. They are texts, but bounds compare integers: without "4", "04" is still a 4.
        if self.below is None:
            return True
        lowest = 0 if self.above is None else max(self.above + 1, 0)  # no label begins with a minus sign
        return lowest < self.below

    @property
    def requires_value(self) -> bool:
        """True if the conditions on the label's value are not met without the label."""
        return self.allowed is not None or self.above is not None or self.below is not None

    @property
    def requires_label(self) -> bool:
        """True if a node without the label does not meet the conditions, be they on its presence or its value."""
        return bool(self.present) or self.requires_value

    def is_in_bounds(self, value: str) -> bool:
        """Return whether a value is within the bounds of Gt and Lt. With a bound, only an integer can be."""
        if self.above is None and self.below is None:
            return True
        number = parse_int64(value)
        if number is None:
            return False
        is_above = self.above is None or number > self.above
        is_below = self.below is None or number < self.below
        return is_above and is_below

    def restrict(self, requirement: SelectorRequirement) -> AllowedValues:
        """Return the values that are still allowed with one more requirement.

        An unknown or invalid requirement changes nothing. Exists together with DoesNotExist allows no value.
        """
        values = frozenset(requirement.values or ())
        number = parse_int64(next(iter(values), ""))
        match requirement.operator:
            case "In":
                return replace(self, allowed=values if self.allowed is None else self.allowed & values)
            case "NotIn":
                return replace(self, excluded=self.excluded | values)
            case "Exists":
                return self._require_presence(present=True)
            case "DoesNotExist":
                return self._require_presence(present=False)
            case "Gt" | "Lt" if number is not None:
                return self._restrict_bounds(requirement.operator, number)
        return self

    def _require_presence(self, *, present: bool) -> AllowedValues:
        """Return the values with the label required or, unless ``present`` is set, forbidden.

        If the opposite is already required, no value is left.
        """
        if self.present is (not present):
            return replace(self, allowed=frozenset())
        return replace(self, present=present)

    def _restrict_bounds(self, operator: str, number: int) -> AllowedValues:
        """Return the values with the lower bound of a Gt requirement or the upper bound of an Lt requirement."""
        if operator == "Gt":
            return replace(self, above=number if self.above is None else max(self.above, number))
        return replace(self, below=number if self.below is None else min(self.below, number))


@dataclass(frozen=True)
class Conditions:
    """Conditions on several node labels that all must hold. Deprecated labels count as their successors."""

    by_key: dict[str, AllowedValues] = field(default_factory=dict)

    def restrict(self, requirements: Iterable[SelectorRequirement]) -> Conditions:
        """Return a copy of these conditions with further requirements.

        Deprecated labels in the requirements get their current names.
        """
        by_key = dict(self.by_key)
        for requirement in requirements:
            key = DEPRECATED_LABELS.get(requirement.key, requirement.key)
            by_key[key] = by_key.get(key, AllowedValues()).restrict(requirement)
        return Conditions(by_key)

    @property
    def conflicts(self) -> list[str]:
        """The labels for which no value is possible."""
        return [key for key, values in self.by_key.items() if not values.is_possible]


class Alternative(NamedTuple):
    """One way to meet the node conditions of a pod."""

    term: int | None
    """The index of the node selector term, or None if there are no terms."""
    conditions: Conditions


def to_requirements(labels: dict[str, str]) -> Iterator[SelectorRequirement]:
    """Yield a requirement for each label of a map, as in nodeSelector."""
    return (SelectorRequirement(key, "In", (value,)) for key, value in labels.items())


def list_node_condition_alternatives(spec: PodSpec) -> list[Alternative]:
    """Return the alternative ways to meet a pod's nodeSelector and required node affinity.

    Each way combines nodeSelector with the matchExpressions of one affinity term. Empty terms match no node and are
    left out. Without required node affinity, nodeSelector is the only way. The matchFields of a term are not among its
    conditions.
    """
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    selector_conditions = Conditions().restrict(to_requirements(spec.node_selector))
    if required is None:
        return [Alternative(None, selector_conditions)]
    alternatives = []
    for i, term in enumerate(required.node_selector_terms):
        is_empty = not (term.match_expressions or term.match_fields)
        if not is_empty:
            alternatives.append(Alternative(i, selector_conditions.restrict(term.match_expressions)))
    return alternatives


class UnmetMinValues(NamedTuple):
    """A label for which a pool's instance types have fewer values than minValues requires."""

    key: str
    min_values: int
    value_count: int


class PoolTypes:
    """The instance types that the requirements of one pool allow, without regard to minValues."""

    def __init__(self, template: ClaimTemplate) -> None:
        self._template = template

    @property
    def total_count(self) -> int:
        """The number of instance types that the pool's node class allows."""
        return len(self._template.columns)

    @cached_property
    def matching_count(self) -> int:
        """The number of instance types that the pool may launch."""
        return int(self._template.options.sum())

    def iter_unmet_min_values(self) -> Iterator[UnmetMinValues]:
        """Yield the labels for which the pool's instance types have fewer values than minValues requires."""
        template = self._template
        unmet = template.columns.find_unmet_min_values(template.options, template.requirements)
        for key, value_count in unmet.items():
            yield UnmetMinValues(key, template.requirements[key].min_values or 0, value_count)

    def find_blocking_labels(self) -> list[str]:
        """Return the labels whose requirements alone keep the pool from matching any instance type.

        Without the requirements on such a label, at least one offered instance type would match. Call this only for a
        pool that matches no offered type: for any other pool, every label in its requirements is returned.
        """
        columns, requirements = self._template.columns, self._template.requirements
        declared_labels = [requirement.key for requirement in self._template.pool.spec.template.spec.requirements]
        blocking_labels = []
        for label in declared_labels:
            if label not in requirements:
                continue
            other_requirements = {key: requirement for key, requirement in requirements.items() if key != label}
            compatible = columns.find_compatible_types(other_requirements)
            if (compatible & columns.find_offered_types(other_requirements)).any():
                blocking_labels.append(label)
        return blocking_labels

    def get_smallest_capacity(self, resource: str) -> Quantity:
        """Return the smallest capacity of a resource among the types that the pool may launch, or 0 without any."""
        columns = self._template.columns
        rows = self._template.options.nonzero()[0].tolist()
        return min((columns.types[row].capacity.get(resource, ZERO) for row in rows), default=ZERO)


class PoolTypeCatalog:
    """A catalog of the instance types that NodePools may launch, restricted by the cluster's node classes."""

    def __init__(self, instance_types: InstanceTypeCatalog, cluster: Cluster | None) -> None:
        self._instance_types = instance_types
        self._classes = NodeClasses(cluster or Cluster())
        self._columns: dict[object, TypeColumns] = {}

    def find_pool_types(self, name: str, pool: WrittenNodePool) -> PoolTypes:
        """Return the instance types that the requirements and the node class of a NodePool allow.

        Types are also returned if they have too few values for the pool's minValues.
        """
        node_pool = _convert_to_node_pool(name, pool)
        class_types = self._get_types_allowed_by_node_class(node_pool)
        well_known_labels = self._instance_types.well_known
        # The template's options are the types that meet the pool's requirements
        return PoolTypes(build_claim_template(node_pool, class_types, well_known_labels, relax_min_values=True))

    def _get_types_allowed_by_node_class(self, pool: NodePool) -> TypeColumns:
        """Return the instance types that the pool's node class allows, or all types if the class is unknown.

        The types are cached by node class.
        """
        key = get_class_reference(pool) if self._classes.find_node_class(pool) else None
        if key not in self._columns:
            self._columns[key] = TypeColumns(self._classes.adjust_instance_types(pool, self._instance_types.types))
        return self._columns[key]


def _convert_to_node_pool(name: str, pool: WrittenNodePool) -> NodePool:
    """Convert a NodePool from a manifest, keeping only the fields that determine its instance types."""
    written_spec = pool.spec.template.spec
    requirements = tuple(
        RequirementWithMinValues(
            requirement.key, requirement.operator, tuple(map(str, requirement.values)), requirement.min_values
        )
        for requirement in written_spec.requirements
    )
    claim = NodeClaimSpec(
        requirements=requirements, taints=written_spec.taints, node_class_ref=written_spec.node_class_ref
    )
    template = NodeClaimTemplate(ObjectMeta(labels=pool.labels), claim)
    return NodePool(ObjectMeta(name=name), NodePoolSpec(template))
