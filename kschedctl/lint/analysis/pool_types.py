"""What NodePools of Karpenter may launch of instance types that somebody named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.karpenter import NodeClaimSpec, NodeClaimTemplate, NodePool, NodePoolSpec, RequirementWithMinValues
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.amounts import ZERO
from kschedctl.autoscaling.karpenter.instance_types import Sold
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, reference_of
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate, claim_template
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.cluster import Cluster
from kschedctl.lint.objects.kinds import WrittenNodePool


class FewValues(NamedTuple):
    """A label of which the types of a pool have fewer values than its minValues."""

    key: str
    wanted: int
    values: int


class PoolTypes:
    """The types that the requirements of one pool leave, of ``all``; minValues aside."""

    def __init__(self, template: ClaimTemplate) -> None:
        self._template = template

    @property
    def all(self) -> int:
        return len(self._template.columns)

    @cached_property
    def number(self) -> int:
        return int(self._template.options.sum())

    def too_few(self) -> Iterator[FewValues]:
        """Why minValues leave none of them."""
        requirements = self._template.requirements
        for key, values in self._template.columns.too_few(self._template.options, requirements).items():
            yield FewValues(key, requirements[key].min_values or 0, values)

    def in_the_way(self) -> list[str]:
        """The labels whose requirements alone leave none: without one of these some type would do."""
        columns, requirements = self._template.columns, self._template.requirements
        declared = [requirement.key for requirement in self._template.pool.spec.template.spec.requirements]
        without = {key: {k: r for k, r in requirements.items() if k != key} for key in declared if key in requirements}
        return [key for key, rest in without.items() if (columns.compatible(rest) & columns.offered(rest)).any()]

    def smallest(self, resource: str) -> Quantity:
        """The least of it that a node of the pool would have."""
        columns = self._template.columns
        chosen = [columns.types[at].capacity for at in self._template.options.nonzero()[0].tolist()]
        return min((capacity.get(resource, ZERO) for capacity in chosen), default=ZERO)


class SoldToPools:
    """``sold``: all instance types that there are. The cluster's node classes say where a pool may launch them."""

    def __init__(self, sold: Sold, cluster: Cluster | None) -> None:
        self._sold, self._classes = sold, NodeClasses(cluster or Cluster())
        self._columns: dict[object, TypeColumns] = {}

    def of(self, name: str, pool: WrittenNodePool) -> PoolTypes:
        """The types of a pool that is written so."""
        typed = _typed(name, pool)
        return PoolTypes(claim_template(typed, self._of_class(typed), self._sold.well_known, relax_min_values=True))

    def _of_class(self, pool: NodePool) -> TypeColumns:
        key = reference_of(pool) if self._classes.of(pool) else None
        if key not in self._columns:
            self._columns[key] = TypeColumns(self._classes.sold(pool, self._sold.types))
        return self._columns[key]


def _typed(name: str, pool: WrittenNodePool) -> NodePool:
    """What decides which types a pool may launch."""
    written = pool.spec.template.spec
    requirements = tuple(
        RequirementWithMinValues(r.key, r.operator, _texts(r.values), r.min_values) for r in written.requirements
    )
    claim = NodeClaimSpec(requirements=requirements, taints=written.taints, node_class_ref=written.node_class_ref)
    template = NodeClaimTemplate(ObjectMeta(labels=pool.labels), claim)
    return NodePool(ObjectMeta(name=name), NodePoolSpec(template))


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))
