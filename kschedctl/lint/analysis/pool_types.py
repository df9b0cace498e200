"""The instance types that Karpenter's NodePools may launch, out of a given list."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.karpenter import NodeClaimSpec, NodeClaimTemplate, NodePool, NodePoolSpec, RequirementWithMinValues
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.amounts import ZERO
from kschedctl.autoscaling.karpenter.instance_types import InstanceTypeCatalog
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, get_class_reference
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate, build_claim_template
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.cluster import Cluster
from kschedctl.lint.objects.kinds import WrittenNodePool


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
        """Return the number of instance types that there are."""
        return len(self._template.columns)

    @cached_property
    def matching(self) -> int:
        """Return the number of instance types that the pool may launch."""
        return int(self._template.options.sum())

    def iter_few_values(self) -> Iterator[FewValues]:
        """Yield the labels whose minValues the instance types do not reach."""
        requirements = self._template.requirements
        for key, values in self._template.columns.find_unmet_min_values(self._template.options, requirements).items():
            yield FewValues(key, requirements[key].min_values or 0, values)

    def find_blocking_labels(self) -> list[str]:
        """Return the labels without whose requirement some instance type would match."""
        columns, requirements = self._template.columns, self._template.requirements
        declared = [requirement.key for requirement in self._template.pool.spec.template.spec.requirements]
        blocking = []
        for label in declared:
            if label not in requirements:
                continue
            others = {key: requirement for key, requirement in requirements.items() if key != label}
            if (columns.find_compatible_types(others) & columns.find_offered_types(others)).any():
                blocking.append(label)
        return blocking

    def get_smallest_capacity(self, resource: str) -> Quantity:
        """Return the smallest capacity of a resource among the instance types that the pool may launch."""
        columns = self._template.columns
        rows = self._template.options.nonzero()[0].tolist()
        return min((columns.types[row].capacity.get(resource, ZERO) for row in rows), default=ZERO)


class PoolTypeCatalog:
    """Finds the instance types of NodePools. The cluster's node classes decide where a pool may launch them."""

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
    """Return the parts of a written NodePool that decide which instance types it may launch."""
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
