"""The search for topology domains that hold all pods of a pod set.

Counting fixed what fits where. Here the level is chosen at which as few domains as possible hold all pods, then the
pods are distributed level by level down to the lowest.

Upstream: findTopologyAssignment of pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.topology.balanced import place_balanced
from kschedctl.queueing.kueue.topology.counts import DomainCapacities
from kschedctl.queueing.kueue.topology.domain_search import DomainSearch, PlacementRequest


def place(
    counts: DomainCapacities, request: PlacementRequest, gates: FeatureGates, exclusions: str
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the number of workers and of leaders by index in the lowest level. Raises PlacementError.

    ``exclusions`` ends the message of the error. The counts are changed.
    """
    # Choose the level and its domains, which balanced placement may have filled already
    balanced = None
    if Gate.TAS_BALANCED_PLACEMENT in gates and not (request.is_required or request.is_unconstrained):
        balanced = place_balanced(counts, request, gates)
    if balanced is None:
        search = DomainSearch(counts, request, gates, exclusions)
        level, domains = search.find_level(request.level)
    else:
        counts, level, domains = balanced
        search = DomainSearch(counts, request, gates, exclusions)

    # Go down to the level of slices with whole slices, then to the lowest level domain by domain
    domains = search.take_fewest(level, domains, request.count, request.leaders, request.slice_size, by_slices=True)
    last = len(counts.tree.levels) - 1
    while level < min(last, request.slice_level) and balanced is None:
        children = search.sort(level + 1, counts.list_children(level, domains))
        level += 1
        domains = search.take_fewest(
            level, children, request.count, request.leaders, request.slice_size, by_slices=True
        )
    while level < last:
        domains = _distribute_to_children(search, level, domains)
        level += 1

    leaders = {index: int(counts.leaders[last][index]) for index in domains if counts.leaders[last][index] > 0}
    workers = {index: int(counts.pods[last][index]) for index in domains if counts.pods[last][index] > 0}
    return workers, leaders if request.leaders else {}


def _distribute_to_children(search: DomainSearch, level: int, domains: Sequence[int]) -> list[int]:
    """Distribute the pods of each domain among its children. Return the children that get some."""
    counts, request = search.counts, search.request
    below = level + 1
    size = request.slice_size
    if level >= request.slice_level:
        size = request.inner_sizes.get(below, 1)
    chosen: list[int] = []
    for domain in domains:
        children = search.sort(below, list(counts.get_children(level, domain)))
        if size > 1:
            counts.slices[below][children] = counts.pods[below][children] // size
            counts.slices_with_leader[below][children] = counts.pods_with_leader[below][children] // size
        pods, leaders = int(counts.pods[level][domain]), int(counts.leaders[level][domain])
        chosen += search.take_fewest(below, children, pods, leaders, size, by_slices=size > 1)
    return chosen
