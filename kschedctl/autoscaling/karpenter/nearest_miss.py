"""The nearest miss of a NodePool: what it lacks to take a pod, and the instance type that comes closest.

Obstacles are found by removing one after another and replaying the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.copying import replace
from kschedctl.api.karpenter import NodePool, RequirementWithMinValues
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import Quantity
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import ZERO, convert_to_thousandths, subtract_quantities, sum_quantities
from kschedctl.autoscaling.karpenter.claims import ClaimRefusal
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingColumns
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_POOL,
    NORMALIZED,
    SIMULATION_LABELS,
    ZONE,
)
from kschedctl.autoscaling.karpenter.pod_data import PodData, build_pod_data
from kschedctl.autoscaling.karpenter.preferences import relax_pod
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting, UsablePools
from kschedctl.autoscaling.karpenter.state_nodes import NODES
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.reports.karpenter import shorten_error
from kschedctl.text.counts import agreeing, counted, first_few, join_words

ONE = Quantity(1)
EXAMPLE_VALUE = "some-value"
"""The label value that replaces an empty one when a pool is replayed."""
MAX_COUNTED_SHORTFALLS = 3
"""Maximum number of different shortfalls that the text counts."""
NO_TYPE = "no instance type is known"


class PoolObstacles(NamedTuple):
    """Everything that a pool lacks to take a pod."""

    obstacles: tuple[str, ...]
    """Descriptions of the obstacles. If no change of the pool removes one, the search ends there, and it comes last."""
    sufficient_limits: dict[str, str]
    """Resource -> the higher limit with which the pool takes the pod; empty if limits are not the only obstacle."""


def find_nearest_miss(
    setting: KarpenterSetting, pod: Pod, template: ClaimTemplate, existing: ExistingColumns
) -> PoolObstacles:
    """Return the obstacles that keep a pool from taking the pod, and the limits that would be sufficient."""
    search = _ObstacleSearch(setting, _relax_pod_fully(setting, pod), existing, template)
    obstacles = tuple(search.iter_obstacles())
    return PoolObstacles(obstacles, search.sufficient_limits)


def _relax_pod_fully(setting: KarpenterSetting, pod: Pod) -> Pod:
    """Return the pod without its preferences. Karpenter last tries to place the pod in this form."""
    while relaxed := relax_pod(pod, tolerate_prefer_no_schedule=setting.pools.has_soft_taints):
        pod = relaxed.pod
    return pod


class _Obstacle(NamedTuple):
    """Something that keeps a pool from taking the pod."""

    description: str
    """Empty if there is nothing to say."""
    edited_pool: NodePool | None
    """The pool without the obstacle, or None if the obstacle cannot be removed."""


@dataclass(eq=False)
class _ObstacleSearch:
    """A search that removes one obstacle after another from a pool until it takes the pod."""

    setting: KarpenterSetting
    pod: Pod
    existing: ExistingColumns
    template: ClaimTemplate
    pools: UsablePools | None = None
    """The edited pool, or None before the first edit."""
    sufficient_limits: dict[str, str] = field(default_factory=dict)
    """Resource -> the higher limit with which the unedited pool takes the pod, if limits are its only obstacle."""
    data: PodData = field(init=False)

    def __post_init__(self) -> None:
        self.data = build_pod_data(self.pod, (), {}, ignores_preferences=self.setting.options.ignores_preferences)

    def iter_obstacles(self) -> Iterator[str]:
        """Yield descriptions of obstacles, removing each from the pool, until the pool takes the pod.

        The search also ends with an obstacle that cannot be removed. If this is a missing subnet, the last description
        says which instance type would come closest if subnets did not matter.
        """
        while refusal := self.find_pod_refusal():
            missing_subnet = self._describe_missing_subnet(refusal)
            obstacle = self._find_obstacle_in_pool(refusal)
            if obstacle is None:
                obstacle = _Obstacle(missing_subnet or self._describe_refusal(refusal), edited_pool=None)
            if obstacle.description:
                yield obstacle.description
            if obstacle.edited_pool is None:
                # A missing subnet hides what else the instance types lack
                if missing_subnet and refusal.requirements is not None:
                    closest_type = self._describe_closest_type_regardless_of_subnets(refusal.requirements)
                    if closest_type:
                        yield closest_type
                return
            self.replace_pool(obstacle.edited_pool)

    def _find_obstacle_in_pool(self, refusal: ClaimRefusal) -> _Obstacle | None:
        """Return the first obstacle that follows from the pool's own fields, or None if there is none.

        ``refusal`` is the pool's refusal of the pod, which names a topology label with an empty value.
        """
        return (
            self._find_taint_obstacle()
            or self._find_label_obstacle()
            or self._find_empty_label_value_obstacle(refusal)
            or self._find_limit_obstacle()
        )

    def replace_pool(self, pool: NodePool) -> None:
        """Replace the pool, and its template, with an edited form of the pool."""
        self.pools = self.setting.pools.narrow_to_edited_pool(pool, self.setting)
        (self.template,) = self.pools.all_templates

    def find_pod_refusal(self) -> ClaimRefusal | None:
        """Return why the pool, as edited so far, refuses the pod, or None if it takes the pod.

        If the pool has no instance type, the reason is empty.
        """
        if not self.template.options.any():
            return ClaimRefusal("", requirements=self.template.requirements.combined_with(self.data.requirements))
        run = self.setting.run_scheduler(
            [self.pod], self.existing, new_nodes_only=True, templates=[self.template], pools=self.pools
        )
        return next(iter(run.refusals.get(self.pod.key, ())), None)

    def _find_taint_obstacle(self) -> _Obstacle | None:
        """Return, as an obstacle, the taints that the pod does not tolerate, or None if it tolerates all.

        The edited pool has only the tolerated taints.
        """
        taints = self.template.taints
        tolerated = tuple(
            taint for taint in taints if is_tolerated(self.pod.spec.tolerations, taint, comparison_operators=True)
        )
        if tolerated == taints:
            return None
        untolerated = ", ".join(str(taint) for taint in taints if taint not in tolerated)
        edited = _replace_template_fields(self.template.pool, taints=tolerated)
        return _Obstacle(f"the pod does not tolerate {untolerated}", edited)

    def _find_label_obstacle(self) -> _Obstacle | None:
        """Return, as an obstacle, the pod's label requirements that the pool does not meet, or None if it meets all.

        The edited pool has the pod's requirements in place of its own. There is no edited pool if a conflicting label
        cannot be changed in the pool.
        """
        pool_requirements, pod_requirements = self.template.requirements, self.data.requirements
        conflicts = [
            requirement
            for key, requirement in sorted(pod_requirements.items())
            if key in pool_requirements and not pool_requirements[key].agrees_with(requirement)
        ]
        # the requirement for a label that the pool would have to define, if there is one
        undefined_label = pool_requirements.find_undefined_label(pod_requirements, self.template.well_known)
        undefined = [pod_requirements[undefined_label]] if undefined_label else []
        if not conflicts and not undefined:
            return None

        mismatches = [
            f"the pod needs {conflict}; the pool has {pool_requirements[conflict.key].text_without_key}"
            for conflict in conflicts
        ]
        mismatches += [f"the pod needs {unmet}; the pool does not define the label" for unmet in undefined]
        description = "; ".join(mismatches)
        if {conflict.key for conflict in conflicts} & self._fixed_labels:
            return _Obstacle(description, edited_pool=None)
        pool = self.template.pool
        for unmet in (*conflicts, *undefined):
            pool = _replace_requirement(pool, unmet)
        return _Obstacle(description, edited_pool=pool)

    @property
    def _fixed_labels(self) -> frozenset[str]:
        """Labels that cannot be edited because they follow from the pool itself."""
        reference = self.template.pool.spec.template.spec.node_class_ref
        return SIMULATION_LABELS | {NODE_POOL, f"{reference.group}/{reference.kind.lower()}"}

    def _find_empty_label_value_obstacle(self, refusal: ClaimRefusal) -> _Obstacle | None:
        """Return the obstacle that a topology label has an empty value, because Karpenter ignores empty domains.

        In the edited pool, the label has an example value. Return None if the pod is refused for another reason, or if
        the label follows from the pool itself and cannot be edited.
        """
        key, pool = refusal.empty_label, self.template.pool
        if not key or key in self._fixed_labels:
            return None
        # If the pool does not define the label, the empty value comes from existing nodes
        nodes = () if key in self.template.requirements else tuple(self._iter_nodes_with_empty_label(key))
        location = f" on {first_few(nodes)}" if nodes else ""
        reason = f"the label {key} has an empty value{location}, so Karpenter finds no topology domain"
        example = LabelRequirement.from_operator(key, IN, (EXAMPLE_VALUE,))
        description = f"{reason}; set a value in NodePool {pool.metadata.name}"
        return _Obstacle(description, _replace_requirement(pool, example))

    def _iter_nodes_with_empty_label(self, key: str) -> Iterator[str]:
        """Yield the names of the nodes that have the label with an empty value."""
        return (node.name for node in self.setting.nodes if node.labels.get(key) == "")

    def _describe_missing_subnet(self, refusal: ClaimRefusal) -> str:
        """Describe the zones in which the pool's node class lacks a subnet, or return "" if it lacks none.

        The text also says how many instance types are offered in these zones. It is "" as well if the zones of the
        subnets are unknown or no zone is required.
        """
        zones = self.setting.node_classes.find_subnet_zones(self.template.pool)
        required_zone = refusal.requirements.get(ZONE) if refusal.requirements is not None else None
        if not zones or required_zone is None:
            return ""
        if required_zone.intersects(LabelRequirement.from_operator(ZONE, IN, zones)):
            return ""
        needed = " or ".join(sorted(required_zone.values)) if required_zone.operator == IN else str(required_zone)
        types = self.setting.catalog.types
        offered_count = sum(_is_offered_in_zone(instance_type, required_zone) for instance_type in types)
        offered = ""
        if offered_count:
            verb = agreeing(offered_count, "is", "are")
            offered_types = f"{offered_count:,} of {counted(len(types), 'instance type')}"
            offered = f"; with one, {offered_types} {verb} offered in {needed}"
        class_name = self.setting.node_classes.describe_class_reference(self.template.pool)
        return f"{class_name} has no subnet in {needed}, only in {join_words(sorted(zones))}{offered}"

    def _describe_closest_type_regardless_of_subnets(self, requirements: Requirements) -> str:
        """Describe what the instance types would lack if the node class had subnets in all zones.

        The text names the type that comes closest. Return "" if no type is offered in a required zone, or if nothing
        else is missing.
        """
        required_zone = requirements[ZONE]
        offerings = (offer for instance_type in self.setting.catalog.types for offer in instance_type.offerings)
        if not any(required_zone.allows_value(offer.zone) for offer in offerings):
            return ""

        # Let the template choose among all types again, also among types that are offered only in other zones
        pool = self.template.pool
        columns = TypeColumns(
            self.setting.node_classes.adjust_instance_types(pool, self.setting.catalog.types, anywhere=True)
        )
        template = replace(self.template, columns=columns, options=np.ones(len(columns), np.bool_))

        # The simulation labels exist only for DaemonSets, and no instance type has them
        pod_requirements = {
            key: requirement for key, requirement in requirements.items() if key not in SIMULATION_LABELS
        }
        groups = (self.pools or self.setting.pools).groups.get(pool.metadata.name, ())
        return describe_closest_type(template, groups, self.data, Requirements(pod_requirements))

    def _find_limit_obstacle(self) -> _Obstacle | None:
        """Return the pool's limits as an obstacle, or None if there are none or they do not keep the pod out.

        The limits are an obstacle if no instance type has room within them, or if the pool would take the pod without
        them. The edited pool has no limits. If the pool was not edited before, the limits that would be enough for the
        pod are stored in ``sufficient_limits``.
        """
        pool = self.template.pool
        remaining = self.setting.compute_remaining_limits(without=(), pools=[pool]).get(pool.metadata.name)
        if remaining is None:
            return None
        unlimited = replace(pool, spec=replace(pool.spec, limits=None))
        smallest = self._find_smallest_amounts(remaining)
        type_for_pod = self._find_smallest_type_for_pod(unlimited)

        # Name the resources of which less is left than any type has. If the smallest type has room, the smallest type
        # for the pod may still need more than is left.
        short_resources = [name for name, amount in remaining.items() if amount < smallest[name]]
        if not short_resources and type_for_pod is None:
            return None
        if type_for_pod is not None:
            needed = {**type_for_pod.capacity, NODES: ONE}
            exceeded = sorted(name for name, amount in remaining.items() if amount < needed.get(name, ZERO))
            if self.pools is None:  # the pool is not edited yet
                self.sufficient_limits = self._compute_sufficient_limits(exceeded, needed, remaining)
            # Name all limits if the pod fits only without them, although none of them is exceeded.
            short_resources = short_resources or exceeded or sorted(remaining)
        descriptions = self._describe_short_limits(short_resources, remaining, smallest, type_for_pod)
        return _Obstacle("; ".join(descriptions), unlimited)

    def _compute_sufficient_limits(
        self, exceeded: Iterable[str], needed: Quantities, remaining: Quantities
    ) -> dict[str, str]:
        """Return the limits on the exceeded resources that would be enough for one more node.

        ``needed`` is what the node needs, and ``remaining`` is what is left of the pool's limits.
        """
        limits = parse_quantities(self.template.pool.spec.limits or {})
        used = subtract_quantities(limits, remaining)
        return {name: str(used.get(name, ZERO).add(needed.get(name, ZERO))) for name in exceeded}

    def _describe_short_limits(
        self,
        short_resources: Sequence[str],
        remaining: Quantities,
        smallest: Quantities,
        type_for_pod: InstanceType | None,
    ) -> list[str]:
        """Describe the remaining limits of the pool on these resources, and how much an instance type needs.

        ``smallest`` has the smallest amount of each resource that any type has. If less is left, these amounts are
        given. Otherwise, the amounts of ``type_for_pod``, the smallest type for the pod, are given if it is known.
        """
        limits = self.template.pool.spec.limits or {}
        descriptions = [f"{name} limit {limits[name]}, {max(remaining[name], ZERO)} left" for name in short_resources]
        if any(remaining[name] < smallest[name] for name in short_resources):
            # Not even the smallest type fits within the limits. NODES is no resource of a type.
            sizes = _format_sizes({name: smallest[name] for name in short_resources if name != NODES})
            if sizes:
                descriptions.append(f"the smallest type has {sizes}")
        elif type_for_pod is not None:
            sizes = _format_sizes({name: type_for_pod.capacity.get(name, ZERO) for name in short_resources})
            descriptions.append(f"{type_for_pod.name}, the smallest type that takes the pod, has {sizes}")
        return descriptions

    def _find_smallest_amounts(self, names: Iterable[str]) -> Quantities:
        """Return the smallest amount of each resource that any instance type of the pool has.

        For the resource ``nodes``, the amount is 1.
        """
        capacities = [instance_type.capacity for instance_type in self.template.instance_types]
        smallest = {name: min((capacity.get(name, ZERO) for capacity in capacities), default=ZERO) for name in names}
        return {**smallest, NODES: ONE}

    def _find_smallest_type_for_pod(self, pool: NodePool) -> InstanceType | None:
        """Return the smallest instance type that ``pool``, an edited form of this pool, would launch for the pod.

        Types are compared by CPU, then memory, then name. Return None if the edited pool would launch no node.
        """
        edited = _ObstacleSearch(self.setting, self.pod, self.existing, self.template)
        edited.replace_pool(pool)
        has_types = edited.template.options.any()
        if not has_types:
            return None
        run = self.setting.run_scheduler(
            [self.pod], self.existing, new_nodes_only=True, templates=[edited.template], pools=edited.pools
        )
        if not run.claims:
            return None
        (claim,) = run.claims
        type_rows = np.flatnonzero(claim.options).tolist()
        types = [claim.template.columns.types[row] for row in type_rows]
        return min(types, key=lambda type: (type.capacity.get(CPU, ZERO), type.capacity.get(MEMORY, ZERO), type.name))

    def _describe_refusal(self, refusal: ClaimRefusal) -> str:
        """Describe what the instance types lack to take the pod.

        If this is unknown, return Karpenter's error for an edited pool. Return "" for an unedited pool, because its
        error is reported elsewhere.
        """
        if refusal.requirements is None:
            is_edited = self.pools is not None
            return shorten_error(refusal.reason) if is_edited else ""
        groups = (self.pools or self.setting.pools).groups.get(self.template.name, ())
        return describe_closest_type(self.template, groups, self.data, refusal.requirements)


def _is_offered_in_zone(instance_type: InstanceType, zone: LabelRequirement) -> bool:
    """Return whether the instance type has an available offering in a zone that meets the requirement."""
    return any(offering.available and zone.allows_value(offering.zone) for offering in instance_type.offerings)


def _replace_requirement(pool: NodePool, replacement: LabelRequirement) -> NodePool:
    """Return the pool with this requirement instead of all its requirements and labels for the same key."""

    def is_for_other_key(key: str) -> bool:
        """Return whether the label, after normalizing a deprecated one, is not the replaced label."""
        return NORMALIZED.get(key, key) != replacement.key

    template = pool.spec.template
    other_labels = {key: value for key, value in template.metadata.labels.items() if is_for_other_key(key)}
    other_terms = (term for term in template.spec.requirements if is_for_other_key(term.key))
    new_terms = (
        RequirementWithMinValues(term.key, term.operator, term.values) for term in replacement.to_selector_terms()
    )
    edited_template = replace(
        template,
        metadata=replace(template.metadata, labels=other_labels),
        spec=replace(template.spec, requirements=(*other_terms, *new_terms)),
    )
    return replace(pool, spec=replace(pool.spec, template=edited_template))


def _replace_template_fields(pool: NodePool, **fields: object) -> NodePool:
    """Return the pool with these fields of its node template's spec replaced."""
    template = pool.spec.template
    edited_template = replace(template, spec=replace(template.spec, **fields))
    return replace(pool, spec=replace(pool.spec, template=edited_template))


def _format_sizes(amounts: Quantities) -> str:
    """List resources with their amounts, as in ``cpu 2, memory 4Gi``."""
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def describe_closest_type(
    template: ClaimTemplate, groups: Sequence[DaemonGroup], data: PodData, requirements: Requirements
) -> str:
    """Describe what the instance types lack to take the pod, and which type comes closest.

    The closest type has the fewest shortfalls, then the smallest missing share of a resource, then the lowest price. If
    some type has no shortfall, only unmet minValues are described, and the text may be empty. Instance types that the
    pool lists but that could not be tried are named at the end.
    """
    columns = template.columns
    if not len(columns):
        return NO_TYPE
    needs = [sum_quantities(data.requests, _find_daemon_overhead(groups, row)) for row in range(len(columns))]
    shortfall_counts, missing_shares = _score_shortfalls(columns, needs, requirements)
    # If the pool launches none of the types, any of them may be the closest.
    eligible = template.options if template.options.any() else np.ones(len(columns), np.bool_)
    if not shortfall_counts[eligible].all():
        return _describe_unmet_min_values(columns, eligible & (shortfall_counts == 0), requirements)

    prices = columns.compute_cheapest_prices(requirements)

    def build_closeness_key(row: int) -> tuple[int, float, float, str]:
        """Build the key that sorts the closest type first."""
        return shortfall_counts[row], missing_shares[row], prices[row], columns.types[row].name

    closest_row = min(np.flatnonzero(eligible).tolist(), key=build_closeness_key)
    closest_name = columns.types[closest_row].name
    shortfalls = ", ".join(_iter_shortfalls(columns, closest_row, needs[closest_row], requirements))
    total = int(eligible.sum())
    untried = "".join(f"; {text}" for text in _iter_untried_types(template))
    if total == 1:
        return f"the only instance type, {closest_name}, falls short: {shortfalls}{untried}"
    numbers = ", ".join(_iter_shortfall_counts(columns, eligible, needs, requirements))
    return (
        f"none of {counted(total, 'instance type')} fits: {numbers}; closest type {closest_name}: {shortfalls}{untried}"
    )


def _iter_untried_types(template: ClaimTemplate) -> Iterator[str]:
    """Yield the instance types that the pool lists but that are not known, or that its other requirements rule out.

    Nothing is yielded for a pool that lists no types, or none of whose types meets its requirements.
    """
    requirement = template.requirements.get_requirement(INSTANCE_TYPE)
    if requirement.complement or not template.options.any():
        return
    known = {instance_type.name for instance_type in template.columns.types}
    tried = {template.columns.types[row].name for row in np.flatnonzero(template.options).tolist()}
    if unknown := sorted(requirement.values - known):
        yield f"not known: {first_few(unknown)}"
    if ruled_out := sorted((requirement.values & known) - tried):
        yield f"ruled out by the NodePool's other requirements: {first_few(ruled_out)}"


def _iter_shortfall_counts(
    columns: TypeColumns, eligible: Bools, needs: Sequence[Quantities], requirements: Requirements
) -> Iterator[str]:
    """Yield the most frequent kinds of shortfall, each with the number of eligible instance types that have it.

    The most frequent kind comes first. ``needs`` are the requests by type, including DaemonSets' pods.
    """
    type_counts: Counter[str] = Counter()  # by the description of a shortfall
    for index in np.flatnonzero(eligible).tolist():
        type_counts.update(
            f"with too little {name}" for name in _find_short_resources(columns.types[index], needs[index])
        )
    for key, requirement in requirements.items():
        if mismatches := int((~columns.find_compatible_types({key: requirement}) & eligible).sum()):
            type_counts[f"not {requirement}"] = mismatches
    # types that would be compatible but are not offered in the zone or with the capacity type
    offering_requirements = {key: requirements[key] for key in (ZONE, CAPACITY_TYPE) if key in requirements}
    is_unoffered = ~columns.find_offered_types(requirements) & columns.find_compatible_types(offering_requirements)
    if unoffered_count := int((is_unoffered & eligible).sum()):
        type_counts[_describe_missing_offering(offering_requirements.values())] = unoffered_count
    for shortfall, count in type_counts.most_common(MAX_COUNTED_SHORTFALLS):
        yield f"{count:,} {shortfall}"


def _find_daemon_overhead(groups: Sequence[DaemonGroup], type_index: int) -> Quantities:
    """Return the requests of the DaemonSets' pods on an instance type, or {} if the type is in no group."""
    return next((group.overhead for group in groups if group.types[type_index]), {})


def _score_shortfalls(
    columns: TypeColumns, needs: Sequence[Quantities], requirements: Requirements
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return how far each instance type is from taking the pod, as two arrays (T,).

    The first array counts the unmet requirements and the resources that are short, plus one if no offering meets the
    requirements. The second array adds up the missing shares of the resources that are short.
    """
    shortfall_counts = (~columns.find_offered_types(requirements)).astype(np.int64)
    for key, requirement in requirements.items():
        shortfall_counts += ~columns.find_compatible_types({key: requirement})
    missing_shares = np.zeros(len(columns))
    for index, need in enumerate(needs):
        short = _find_short_resources(columns.types[index], need)
        shortfall_counts[index] += len(short)
        amounts = convert_to_thousandths(need)
        allocatable = convert_to_thousandths(columns.types[index].allocatable)
        missing_shares[index] = sum(1 - allocatable.get(name, 0) / amounts[name] for name in short)
    return shortfall_counts, missing_shares


def _find_short_resources(instance_type: InstanceType, need: Quantities) -> list[str]:
    """Return the names of the resources of which the type has too little, in alphabetical order."""
    allocatable = instance_type.allocatable
    return [name for name, amount in sorted(need.items()) if amount > max(allocatable.get(name, ZERO), ZERO)]


def _iter_shortfalls(
    columns: TypeColumns, type_index: int, need: Quantities, requirements: Requirements
) -> Iterator[str]:
    """Yield a description of each resource of which the instance type has too little, and of each label that conflicts.

    A missing offering is described as well, unless a conflicting zone or capacity type explains it.
    """
    instance_type = columns.types[type_index]
    for name in _find_short_resources(instance_type, need):
        amount = instance_type.allocatable.get(name, ZERO)
        available = f"{amount} of {name}" if amount > ZERO else f"no {name}"
        yield f"has {available} for pods, {need[name]} needed"
    shared_keys = sorted(requirements.keys() & instance_type.requirements.keys())
    differing = [key for key in shared_keys if not instance_type.requirements[key].agrees_with(requirements[key])]
    for key in differing:
        yield f"is {instance_type.requirements[key]}, {requirements[key].text_without_key} needed"
    offering_keys = [key for key in (ZONE, CAPACITY_TYPE) if key in requirements]
    is_offered = columns.find_offered_types(requirements)[type_index]
    is_zone_or_capacity_type_described = bool(set(offering_keys) & set(differing))
    if not is_offered and not is_zone_or_capacity_type_described:
        yield _describe_missing_offering(requirements[key] for key in offering_keys)


def _describe_missing_offering(requirements: Iterable[LabelRequirement]) -> str:
    """Describe that an instance type is not offered under the requirements on zone and capacity type."""
    texts = ", ".join(map(str, requirements))
    return f"not offered as {texts}" if texts else "not offered"


def _describe_unmet_min_values(columns: TypeColumns, remaining: Bools, requirements: Requirements) -> str:
    """Describe the minValues that the remaining instance types do not meet, or return "" if they meet all."""
    too_few = columns.find_unmet_min_values(remaining, requirements)
    return "; ".join(
        f"minValues {requirements[key].min_values} of {key}, {count} left" for key, count in too_few.items()
    )
