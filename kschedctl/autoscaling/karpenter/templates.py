"""NodePools that may launch nodes, in the order in which they are tried, and the templates of their NodeClaims.

Upstream: NewScheduler in pkg/controllers/provisioning/provisioner.go and scheduling/scheduler.go, nodeclaimtemplate.go,
pkg/utils/nodepool/nodepool.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Taint
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import INITIALIZED, NODE_POOL, REGISTERED
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns


@dataclass(frozen=True, eq=False)
class ClaimTemplate:
    """The template of a pool's NodeClaims."""

    pool: NodePool
    labels: Mapping[str, str]
    requirements: Requirements
    columns: TypeColumns
    options: Bools
    """(T,) the instance types that meet the pool's own requirements."""
    well_known: frozenset[str]
    """Labels that pods may require although the pool does not define them."""

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self.pool.metadata.name

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints of the pool's nodes."""
        return self.pool.spec.template.spec.taints

    @property
    def instance_types(self) -> list[InstanceType]:
        """The instance types that meet the pool's own requirements."""
        return [self.columns.types[index] for index in np.flatnonzero(self.options).tolist()]


def select_usable_pools(pools: Iterable[NodePool], classes: NodeClasses) -> list[NodePool]:
    """Return the pools that may launch nodes, by descending weight and then by descending name.

    Such a pool is ready, not static and not being deleted.
    """
    dynamic = (pool for pool in pools if pool.spec.replicas is None and pool.metadata.deletion_timestamp is None)
    ready = (pool for pool in dynamic if _is_pool_ready(pool, classes))
    by_name = sorted(ready, key=lambda pool: pool.metadata.name, reverse=True)
    return sorted(by_name, key=lambda pool: -(pool.spec.weight or 0))


def _is_pool_ready(pool: NodePool, classes: NodeClasses) -> bool:
    """Return whether the pool is ready. A pool without conditions is ready unless its node class is unready."""
    if not pool.status.conditions:
        return not classes.is_class_unready(pool)
    return any(condition.type == "Ready" and condition.status == "True" for condition in pool.status.conditions)


def build_pool_requirements(pool: NodePool) -> Requirements:
    """Build the requirements that all nodes of a pool meet, from the requirements and labels of its template."""
    template = pool.spec.template
    requirements = Requirements.from_list(
        LabelRequirement.from_operator(term.key, term.operator, term.values, term.min_values)
        for term in template.spec.requirements
    )
    requirements.add(Requirements.from_labels(template.metadata.labels).values())
    return requirements


def build_claim_template(
    pool: NodePool, columns: TypeColumns, well_known: frozenset[str], relax_min_values: bool
) -> ClaimTemplate:
    """Build the template of a pool's NodeClaims, with the instance types that the pool allows as its ``options``.

    If too few types meet the pool's minValues, the template has no options, unless ``relax_min_values`` is true.
    """
    reference = pool.spec.template.spec.node_class_ref
    class_label = f"{reference.group}/{reference.kind.lower()}"
    labels = {**pool.spec.template.metadata.labels, NODE_POOL: pool.metadata.name, class_label: reference.name}
    requirements = build_pool_requirements(pool)
    requirements.add(Requirements.from_labels(labels).values())
    # DaemonSets may require these labels, which nodes get once they have started
    requirements.add(LabelRequirement.from_operator(key, IN, ("true",)) for key in (REGISTERED, INITIALIZED))
    options = _find_offered_options(columns, requirements)
    if not relax_min_values and columns.find_unmet_min_values(options, requirements):
        options = np.zeros(len(columns), np.bool_)  # without an option, the pool launches no nodes
    return ClaimTemplate(pool, labels, requirements, columns=columns, options=options, well_known=well_known)


def has_unmet_min_values(template: ClaimTemplate) -> bool:
    """Return whether too few instance types meet the template's requirements to satisfy its minValues."""
    options = _find_offered_options(template.columns, template.requirements)
    return bool(template.columns.find_unmet_min_values(options, template.requirements))


def _find_offered_options(columns: TypeColumns, requirements: Requirements) -> Bools:
    """Return a (T,) mask of the instance types that meet the requirements and have a matching offering.

    Types with a negative allocatable amount are left out.
    """
    return (
        columns.find_compatible_types(requirements)
        & columns.find_fitting_types({})  # no requests fit if an amount is negative
        & columns.find_offered_types(requirements)
    )
