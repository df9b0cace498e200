"""What a NodePool lacks to take a pod, found by removing each obstacle and replaying the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.karpenter import NodePool, RequirementWithMinValues
from kschedctl.api.objects import Pod
from kschedctl.api.quantity import Quantity
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import ZERO
from kschedctl.autoscaling.karpenter.claims import ClaimRefusal
from kschedctl.autoscaling.karpenter.closest_type import describe_closest_type
from kschedctl.autoscaling.karpenter.labels import NODE_POOL, NORMALIZED, SIMULATION_LABELS, ZONE
from kschedctl.autoscaling.karpenter.node_columns import ExistingColumns
from kschedctl.autoscaling.karpenter.pod_data import PodData, build_pod_data
from kschedctl.autoscaling.karpenter.preferences import relax
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting, UsablePools
from kschedctl.autoscaling.karpenter.state_nodes import NODES
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.reports.provisioning import shorten_error
from kschedctl.text.counts import agreeing, counted, first_few

ONE = Quantity(1)
EXAMPLE_VALUE = "some-value"
"""The label value with which a pool is replayed in place of an empty one."""
Edited = tuple[str, NodePool | None]
"""What stops a pool, and the pool without it where that can be."""


def find_nearest_miss(
    setting: KarpenterSetting, pod: Pod, template: ClaimTemplate, existing: ExistingColumns
) -> tuple[str, ...]:
    """Return everything that a pool lacks to take the pod; what cannot be edited away comes last."""
    search = _ObstacleSearch(setting, _fully_relaxed(setting, pod), existing, template)
    return tuple(search.iter_obstacles())


def _fully_relaxed(setting: KarpenterSetting, pod: Pod) -> Pod:
    """Return the pod with all its preferences relaxed, as Karpenter tries it last."""
    while less := relax(pod, setting.pools.prefer_no_schedule):
        pod = less[0]
    return pod


@dataclass(eq=False)
class _ObstacleSearch:
    """A search that edits a pool until it takes the pod."""

    setting: KarpenterSetting
    pod: Pod
    existing: ExistingColumns
    template: ClaimTemplate
    pools: UsablePools | None = None
    """The pools with the pool as edited so far."""
    data: PodData = field(init=False)

    def __post_init__(self) -> None:
        self.data = build_pod_data(self.pod, (), {}, self.setting.options.ignores_preferences)

    def iter_obstacles(self) -> Iterator[str]:
        """Yield each obstacle and remove it from the pool, until the pool takes the pod."""
        while refusal := self.find_refusal():
            obstacle, edited = (
                self._check_taints()
                or self._check_labels()
                or self._check_empty_label(refusal)
                or self._check_limits()
                or (self._check_node_class_zones(refusal) or self._check_types(refusal), None)
            )
            if obstacle:
                yield obstacle
            if edited is None:
                if refusal.requirements is not None and self._check_node_class_zones(refusal):
                    yield from filter(None, (self._check_types_in_any_zone(refusal.requirements),))
                return
            self.replace_pool(edited)

    def replace_pool(self, pool: NodePool) -> None:
        """Replace the pool by its edited form."""
        self.pools = self.setting.pools.with_edited_pool(pool, self.setting)
        (self.template,) = self.pools.all_templates

    def find_refusal(self) -> ClaimRefusal | None:
        """Return why the pool refuses the pod now, or None if it takes the pod."""
        if not self.template.options.any():
            return ClaimRefusal("", requirements=self.template.requirements.plus(self.data.requirements))
        run = self.setting.run_scheduler(
            [self.pod], self.existing, new_nodes_only=True, templates=[self.template], pools=self.pools
        )
        return next(iter(run.refusals.get(self.pod.key, ())), None)

    def _check_taints(self) -> Edited | None:
        """Return the taints that the pod does not tolerate, and the pool without them."""
        taints = self.template.taints
        kept = tuple(
            taint for taint in taints if is_tolerated(self.pod.spec.tolerations, taint, comparison_operators=True)
        )
        if kept == taints:
            return None
        stopping = ", ".join(str(taint) for taint in taints if taint not in kept)
        return f"the pod does not tolerate {stopping}", _with_template_fields(self.template.pool, taints=kept)

    def _check_labels(self) -> Edited | None:
        """Return the pod's label requirements that the pool does not meet, and the pool with them."""
        pool_requirements, pod_requirements, pool = (
            self.template.requirements,
            self.data.requirements,
            self.template.pool,
        )
        conflicts = [
            requirement
            for key, requirement in sorted(pod_requirements.items())
            if key in pool_requirements and not pool_requirements[key].agrees(requirement)
        ]
        unknown = pool_requirements.find_undefined(pod_requirements, self.template.well_known)
        if not (conflicts or unknown):
            return None
        said = [
            f"the pod wants {conflict}, the pool has {pool_requirements[conflict.key].without_key}"
            for conflict in conflicts
        ]
        said += [f"the pod wants {pod_requirements[unknown]}, the pool does not define it"] if unknown else []
        if {conflict.key for conflict in conflicts} & self._fixed_labels:
            return "; ".join(said), None
        for requirement in (*conflicts, *([pod_requirements[unknown]] if unknown else [])):
            pool = _with_requirement(pool, requirement)
        return "; ".join(said), pool

    @property
    def _fixed_labels(self) -> frozenset[str]:
        """The labels that cannot be edited, as they follow from the pool itself."""
        reference = self.template.pool.spec.template.spec.node_class_ref
        return SIMULATION_LABELS | {NODE_POOL, f"{reference.group}/{reference.kind.lower()}"}

    def _check_empty_label(self, refusal: ClaimRefusal) -> Edited | None:
        """Return the topology key whose empty value Karpenter counts as no domain, and the pool with a value for it."""
        key, pool = refusal.empty_label, self.template.pool
        if not key or key in self._fixed_labels:
            return None
        nodes = () if key in self.template.requirements else tuple(self._nodes_with_empty(key))
        where = f" on {first_few(nodes)}" if nodes else ""
        why = f"the label {key} is empty{where}, and Karpenter finds no topology domain in an empty value"
        named = LabelRequirement.of(key, IN, (EXAMPLE_VALUE,))
        return f"{why}: give it a value in NodePool {pool.metadata.name}", _with_requirement(pool, named)

    def _nodes_with_empty(self, key: str) -> Iterator[str]:
        return (node.name for node in self.setting.nodes if node.labels.get(key) == "")

    def _check_node_class_zones(self, refusal: ClaimRefusal) -> str:
        """Return which zones the subnets of the pool's node class lack; empty if its subnets are not in the way."""
        zones = self.setting.node_classes.zones(self.template.pool)
        wanted = refusal.requirements.get(ZONE) if refusal.requirements is not None else None
        if not zones or wanted is None or wanted.intersects(LabelRequirement.of(ZONE, IN, zones)):
            return ""
        needed = " or ".join(sorted(wanted.values)) if wanted.operator == IN else str(wanted)
        types = self.setting.sold.types
        there = sum(any(wanted.has(offer.zone) for offer in each.offerings if offer.available) for each in types)
        offered = (
            f"; {there:,} of {counted(len(types), 'instance type')} {agreeing(there, 'is', 'are')} offered there"
            if there
            else ""
        )
        named = self.setting.node_classes.name(self.template.pool)
        return f"{named} has no subnet in {needed}, only in {', '.join(sorted(zones))}{offered}"

    def _check_types_in_any_zone(self, requirements: Requirements) -> str:
        """Return what the closest instance type lacks besides a subnet; empty if no type is known in such a zone."""
        wanted = requirements[ZONE]
        if not any(wanted.has(offer.zone) for each in self.setting.sold.types for offer in each.offerings):
            return ""
        pool = self.template.pool
        columns = TypeColumns(self.setting.node_classes.adjust_types(pool, self.setting.sold.types, anywhere=True))
        template = replace(self.template, columns=columns, options=np.ones(len(columns), np.bool_))
        own = {key: requirement for key, requirement in requirements.items() if key not in SIMULATION_LABELS}
        groups = (self.pools or self.setting.pools).groups.get(pool.metadata.name, ())
        return describe_closest_type(template, groups, self.data, Requirements(own))

    def _check_limits(self) -> Edited | None:
        """Return the limits that exclude suitable or all types, and the pool without limits."""
        pool, columns = self.template.pool, self.template.columns
        remaining = self.setting.remaining_limits((), [pool]).get(pool.metadata.name)
        if remaining is None:
            return None
        types = [columns.types[at].capacity for at in np.flatnonzero(self.template.options).tolist()]
        smallest = {name: min((capacity.get(name, ZERO) for capacity in types), default=ZERO) for name in remaining} | {
            NODES: ONE
        }
        short = [name for name, amount in remaining.items() if amount < smallest[name]]
        unlimited = replace(pool, spec=replace(pool.spec, limits=None))
        if not short and not self._would_take_pod(unlimited):
            return None
        limits = pool.spec.limits or {}
        said = (
            f"{name} limit {limits[name]}, {max(remaining[name], ZERO)} left" for name in short or sorted(remaining)
        )
        sizes = ", ".join(f"{name} {smallest[name]}" for name in short if name != NODES)
        return "; ".join(said) + f"; the smallest type has {sizes}" * bool(sizes), unlimited

    def _would_take_pod(self, pool: NodePool) -> bool:
        """Return whether an edited pool would take the pod."""
        edited = _ObstacleSearch(self.setting, self.pod, self.existing, self.template)
        edited.replace_pool(pool)
        return edited.find_refusal() is None

    def _check_types(self, refusal: ClaimRefusal) -> str:
        """Return what the closest type lacks, or else Karpenter's error."""
        if refusal.requirements is None:
            return shorten_error(refusal.why) if self.pools else ""
        groups = (self.pools or self.setting.pools).groups.get(self.template.name, ())
        return describe_closest_type(self.template, groups, self.data, refusal.requirements)


def _with_requirement(pool: NodePool, wanted: LabelRequirement) -> NodePool:
    """Return the pool with exactly this requirement for a label."""
    template = pool.spec.template
    labels = {key: value for key, value in template.metadata.labels.items() if NORMALIZED.get(key, key) != wanted.key}
    others = (
        requirement
        for requirement in template.spec.requirements
        if NORMALIZED.get(requirement.key, requirement.key) != wanted.key
    )
    asked = (RequirementWithMinValues(term.key, term.operator, term.values) for term in wanted.terms())
    pool = _with_template_fields(pool, requirements=(*others, *asked))
    template = replace(pool.spec.template, metadata=replace(template.metadata, labels=labels))
    return replace(pool, spec=replace(pool.spec, template=template))


def _with_template_fields(pool: NodePool, **fields: object) -> NodePool:
    """Return the pool with other fields in its node template's spec."""
    template = pool.spec.template
    template = replace(template, spec=replace(template.spec, **fields))
    return replace(pool, spec=replace(pool.spec, template=template))
