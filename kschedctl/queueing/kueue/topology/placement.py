"""The search for topology domains that hold all pods of a pod set.

Counting fixed what fits where. Here the level is chosen at which as few domains as possible hold all pods, then the
pods are distributed level by level down to the lowest.

Upstream: findTopologyAssignment of pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.topology.balanced import place_slices_evenly
from kschedctl.queueing.kueue.topology.domain_search import DomainSearch, PlacementRequest
from kschedctl.queueing.kueue.topology.tree import DomainCapacities


def place_pods(
    counts: DomainCapacities, request: PlacementRequest, gates: FeatureGates, exclusions: str
) -> tuple[dict[int, int], dict[int, int]]:
    """Distribute the pods of a request among domains of the lowest level.

    Return the numbers of workers and of leaders, each by domain index. The counts are changed in place. Raises
    PlacementError if the pods do not fit. ``exclusions`` is appended to its message.
    """
    # Choose the level and its domains, which balanced placement may have filled already
    balanced = None
    if Gate.TAS_BALANCED_PLACEMENT in gates and not (request.is_required or request.is_unconstrained):
        balanced = place_slices_evenly(counts, request, gates)
    if balanced is None:
        search = DomainSearch(counts, request, gates, exclusions)
        level, domains = search.choose_level_and_domains(request.level)
    else:
        counts, level, domains = balanced
        search = DomainSearch(counts, request, gates, exclusions)

    # Go down to the level of slices with whole slices, choosing among the children of all domains
    domains = search.distribute_pods(level, domains, request.count, request.leaders, request.slice_size, by_slices=True)
    last = len(counts.tree.levels) - 1
    while level < min(last, request.slice_level) and balanced is None:
        children = search.sort_domains(level + 1, counts.list_children(level, domains))
        level += 1
        domains = search.distribute_pods(
            level, children, request.count, request.leaders, request.slice_size, by_slices=True
        )

    # Go down to the lowest level, choosing among the children of each domain separately
    while level < last:
        domains = _distribute_to_children(search, level, domains)
        level += 1

    lowest = counts.at_level(last)
    workers = {domain: int(lowest.pods[domain]) for domain in domains if lowest.pods[domain] > 0}
    leaders: dict[int, int] = {}
    if request.leaders:
        leaders = {domain: int(lowest.leaders[domain]) for domain in domains if lowest.leaders[domain] > 0}
    return workers, leaders


def _distribute_to_children(search: DomainSearch, level: int, domains: Sequence[int]) -> list[int]:
    """Distribute each domain's pods among its children, in slices that must not be split at this level.

    Return the children that get pods.
    """
    counts, request = search.counts, search.request
    here, below = counts.at_level(level), counts.at_level(level + 1)

    # Below the level of slices, only the slices within slices have to stay together
    size = request.slice_size
    if level >= request.slice_level:
        size = request.inner_sizes.get(level + 1, 1)

    chosen: list[int] = []
    for domain in domains:
        children = search.sort_domains(level + 1, counts.get_children(level, domain))
        if size > 1:
            below.slices[children] = below.pods[children] // size
            below.slices_with_leader[children] = below.pods_with_leader[children] // size
        pods, leaders = int(here.pods[domain]), int(here.leaders[domain])
        chosen += search.distribute_pods(level + 1, children, pods, leaders, size, by_slices=size > 1)
    return chosen
