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
"""How many kinds of things that instance types lack are counted in the text."""
NO_TYPE = "no instance type is known"


def describe_closest_type(
    template: ClaimTemplate, groups: Sequence[DaemonGroup], data: PodData, requirements: Requirements
) -> str:
    """Return how many instance types lack what, and which type comes closest to taking the pod.

    The closest type lacks the fewest things, then the smallest share of an amount, then is the cheapest. The types
    have to meet ``requirements``. The text is empty if some type lacks nothing by itself.
    """
    columns = template.columns
    if not len(columns):
        return NO_TYPE
    needs = [sum_quantities(data.requests, _daemon_overhead(groups, at)) for at in range(len(columns))]
    counts, shares = _score_shortfalls(columns, needs, requirements)
    eligible = template.options if template.options.any() else np.ones(len(columns), np.bool_)
    if not counts[eligible].all():
        return _describe_unmet_min_values(columns, eligible & (counts == 0), requirements)
    prices = columns.cheapest_prices(requirements)
    at = min(np.flatnonzero(eligible).tolist(), key=lambda n: (counts[n], shares[n], prices[n], columns.types[n].name))
    lacks = ", ".join(_describe_shortfalls(columns, at, needs[at], requirements))
    total = int(eligible.sum())
    if total == 1:
        return f"the only instance type, {columns.types[at].name}: {lacks}"
    numbers = ", ".join(_count_lacking(columns, eligible, needs, requirements))
    return f"none of {counted(total, 'instance type')} fits: {numbers}; closest type {columns.types[at].name}: {lacks}"


def _count_lacking(
    columns: TypeColumns, eligible: Bools, needs: Sequence[Quantities], requirements: Requirements
) -> Iterator[str]:
    """Yield how many of the eligible instance types lack each thing that is needed, the most frequent first."""
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


def _daemon_overhead(groups: Sequence[DaemonGroup], at: int) -> Quantities:
    """Return the DaemonSets' requests on an instance type."""
    return next((group.overhead for group in groups if group.types[at]), {})


def _score_shortfalls(
    columns: TypeColumns, needs: Sequence[Quantities], requirements: Requirements
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return two (T,) arrays: the number of unmet needs of each type, and the summed share of missing amounts."""
    counts = (~columns.offered(requirements)).astype(np.int64)
    for key, requirement in requirements.items():
        counts += ~columns.compatible({key: requirement})
    shares = np.zeros(len(columns))
    for at, need in enumerate(needs):
        short = _find_short_resources(columns.types[at], need)
        counts[at] += len(short)
        amounts, own = to_thousandths(need), to_thousandths(columns.types[at].allocatable)
        shares[at] = sum(1 - own.get(name, 0) / amounts[name] for name in short)
    return counts, shares


def _find_short_resources(instance_type: InstanceType, need: Quantities) -> list[str]:
    """Return the resources of which the type has too little, sorted by name."""
    own = instance_type.allocatable
    return [name for name, amount in sorted(need.items()) if amount > max(own.get(name, ZERO), ZERO)]


def _describe_shortfalls(columns: TypeColumns, at: int, need: Quantities, requirements: Requirements) -> Iterator[str]:
    """Yield what one instance type lacks: resources, labels, offerings."""
    own = columns.types[at]
    for name in _find_short_resources(own, need):
        amount = own.allocatable.get(name, ZERO)
        yield f"has {f'{amount} of' if amount > ZERO else 'no'} {name} for pods, {need[name]} needed"
    both = sorted(requirements.keys() & own.requirements.keys())
    differing = [key for key in both if not own.requirements[key].agrees(requirements[key])]
    for key in differing:
        yield f"is {own.requirements[key]}, {requirements[key].without_key} needed"
    places = [key for key in (ZONE, CAPACITY_TYPE) if key in requirements]
    if not columns.offered(requirements)[at] and not set(places) & set(differing):
        yield f"not offered{' as ' * bool(places)}{', '.join(str(requirements[key]) for key in places)}"


def _describe_unmet_min_values(columns: TypeColumns, left: Bools, requirements: Requirements) -> str:
    """Describe the minValues that the remaining types do not meet."""
    too_few = columns.find_unmet_min_values(left, requirements)
    return "; ".join(f"minValues {requirements[key].min_values} of {key}, {n} left" for key, n in too_few.items())
