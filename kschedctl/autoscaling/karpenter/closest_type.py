"""The instance type of a pool that comes closest to fitting a pod, and what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import ZERO, sum_quantities, to_thousandths
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, ZONE
from kschedctl.autoscaling.karpenter.pod_data import PodData
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.text.counts import counted

MOST_COUNTED = 3
"""Maximum number of different shortfalls that the text counts."""
NO_TYPE = "no instance type is known"


def describe_closest_type(
    template: ClaimTemplate, groups: Sequence[DaemonGroup], data: PodData, requirements: Requirements
) -> str:
    """Describe what the instance types lack to take the pod, and which type comes closest.

    The closest type has the fewest shortfalls, then the smallest missing share of a resource, then the lowest price. If
    some type lacks nothing by itself, only unmet minValues are described, and the text may be empty.
    """
    columns = template.columns
    if not len(columns):
        return NO_TYPE
    needs = [sum_quantities(data.requests, _find_daemon_overhead(groups, at)) for at in range(len(columns))]
    counts, shares = _score_shortfalls(columns, needs, requirements)
    eligible = template.options if template.options.any() else np.ones(len(columns), np.bool_)
    if not counts[eligible].all():
        return _describe_unmet_min_values(columns, eligible & (counts == 0), requirements)
    prices = columns.find_cheapest_prices(requirements)
    at = min(np.flatnonzero(eligible).tolist(), key=lambda n: (counts[n], shares[n], prices[n], columns.types[n].name))
    lacks = ", ".join(_iter_shortfalls(columns, at, needs[at], requirements))
    total = int(eligible.sum())
    if total == 1:
        return f"the only instance type, {columns.types[at].name}: {lacks}"
    numbers = ", ".join(_iter_shortfall_counts(columns, eligible, needs, requirements))
    return f"none of {counted(total, 'instance type')} fits: {numbers}; closest type {columns.types[at].name}: {lacks}"


def _iter_shortfall_counts(
    columns: TypeColumns, eligible: Bools, needs: Sequence[Quantities], requirements: Requirements
) -> Iterator[str]:
    """Yield how many eligible instance types have each kind of shortfall, the most frequent first."""
    counts: Counter[str] = Counter()
    for at in np.flatnonzero(eligible).tolist():
        counts.update(f"with too little {name}" for name in _find_short_resources(columns.types[at], needs[at]))
    for key, requirement in requirements.items():
        if mismatches := int((~columns.compatible({key: requirement}) & eligible).sum()):
            counts[f"not {requirement}"] = mismatches
    in_place = {key: requirements[key] for key in (ZONE, CAPACITY_TYPE) if key in requirements}
    if unoffered := int((~columns.offered(requirements) & columns.compatible(in_place) & eligible).sum()):
        counts[f"not offered{' as ' * bool(in_place)}{', '.join(map(str, in_place.values()))}"] = unoffered
    for lack, count in counts.most_common(MOST_COUNTED):
        yield f"{count:,} {lack}"


def _find_daemon_overhead(groups: Sequence[DaemonGroup], type_index: int) -> Quantities:
    """Return the requests of the DaemonSets' pods on an instance type."""
    return next((group.overhead for group in groups if group.types[type_index]), {})


def _score_shortfalls(
    columns: TypeColumns, needs: Sequence[Quantities], requirements: Requirements
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return two (T,) arrays: each type's number of unmet needs, and the summed shares of its missing resources."""
    counts = (~columns.offered(requirements)).astype(np.int64)
    for key, requirement in requirements.items():
        counts += ~columns.compatible({key: requirement})
    shares = np.zeros(len(columns))
    for at, need in enumerate(needs):
        short = _find_short_resources(columns.types[at], need)
        counts[at] += len(short)
        amounts, allocatable = to_thousandths(need), to_thousandths(columns.types[at].allocatable)
        shares[at] = sum(1 - allocatable.get(name, 0) / amounts[name] for name in short)
    return counts, shares


def _find_short_resources(instance_type: InstanceType, need: Quantities) -> list[str]:
    """Return the resources of which the type has too little, sorted by name."""
    allocatable = instance_type.allocatable
    return [name for name, amount in sorted(need.items()) if amount > max(allocatable.get(name, ZERO), ZERO)]


def _iter_shortfalls(
    columns: TypeColumns, type_index: int, need: Quantities, requirements: Requirements
) -> Iterator[str]:
    """Yield a description of each resource, label and offering that an instance type lacks."""
    instance_type = columns.types[type_index]
    for name in _find_short_resources(instance_type, need):
        amount = instance_type.allocatable.get(name, ZERO)
        yield f"has {f'{amount} of' if amount > ZERO else 'no'} {name} for pods, {need[name]} needed"
    shared_keys = sorted(requirements.keys() & instance_type.requirements.keys())
    differing = [key for key in shared_keys if not instance_type.requirements[key].agrees(requirements[key])]
    for key in differing:
        yield f"is {instance_type.requirements[key]}, {requirements[key].text_without_key} needed"
    places = [key for key in (ZONE, CAPACITY_TYPE) if key in requirements]
    if not columns.offered(requirements)[type_index] and not set(places) & set(differing):
        yield f"not offered{' as ' * bool(places)}{', '.join(str(requirements[key]) for key in places)}"


def _describe_unmet_min_values(columns: TypeColumns, remaining: Bools, requirements: Requirements) -> str:
    """Describe the minValues that the remaining instance types do not meet."""
    too_few = columns.find_unmet_min_values(remaining, requirements)
    return "; ".join(f"minValues {requirements[key].min_values} of {key}, {n} left" for key, n in too_few.items())
