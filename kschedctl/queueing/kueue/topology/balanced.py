"""Balanced placement: spread a pod set evenly over as few domains as necessary.

Upstream: pkg/cache/scheduler/tas_balanced_placement.go, behind the gate TASBalancedPlacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key, partial
from typing import NamedTuple

from kschedctl.queueing.kueue.feature_gates import FeatureGates
from kschedctl.queueing.kueue.topology.counts import DomainCapacities
from kschedctl.queueing.kueue.topology.domain_search import DomainSearch, PlacementRequest


class _Greedy(NamedTuple):
    """The domains that a greedy choice takes."""

    number: int
    last_with_leader: int | None
    """The last domain that was taken for a leader."""
    last: int | None
    """The last domain that was taken for workers alone."""


class _Candidate(NamedTuple):
    """Sibling domains that hold all pods, with at least ``threshold`` slices in each that is used."""

    threshold: int
    number: int
    counts: DomainCapacities
    domains: list[int]


def place_balanced(
    counts: DomainCapacities, request: PlacementRequest, gates: FeatureGates
) -> tuple[DomainCapacities, int, list[int]] | None:
    """Return the counts, the level and the domains of an even distribution, or None if there is none."""
    best = _find_best_siblings(counts, request, gates)
    if best is None:
        return None
    search = DomainSearch(best.counts, request, gates)
    level, domains = request.level, best.domains
    if request.level < request.slice_level:
        chosen = _choose_domains(search, level, domains, by_entropy=True)
        if chosen is None:
            return None
        domains = best.counts.list_children(level, chosen)
        level += 1
    placed = _spread_slices(search, level, domains, best.threshold)
    return None if placed is None else (best.counts, level, placed)


def _find_best_siblings(counts: DomainCapacities, request: PlacementRequest, gates: FeatureGates) -> _Candidate | None:
    """Return the siblings of the requested level with the highest threshold, then the fewest domains."""
    if request.level == 0:
        groups = [list(range(len(counts.tree.levels[0].values)))]
    else:
        above = request.level - 1
        groups = [list(counts.get_children(above, index)) for index in range(len(counts.tree.levels[above].values))]
    best: _Candidate | None = None
    for siblings in groups:
        candidate = _evaluate_siblings(counts, siblings, request, gates, best.threshold if best else 0)
        if candidate is None or candidate.threshold <= 0:
            continue
        if best is None or (candidate.threshold, -candidate.number) > (best.threshold, -best.number):
            best = candidate
    return best


def _evaluate_siblings(
    counts: DomainCapacities, siblings: list[int], request: PlacementRequest, gates: FeatureGates, best_threshold: int
) -> _Candidate | None:
    """Return the siblings without domains below the threshold, or None if they do not hold all pods."""
    search = DomainSearch(counts.copy(), request, gates)
    level = request.level
    has_lower = level < request.slice_level
    lower_level = level + 1 if has_lower else level
    lower = search.counts.list_children(level, siblings) if has_lower else siblings
    greedy = _take_greedily(search, lower_level, lower)
    if greedy is None:
        return None
    slices, slices_with_leader = search.counts.slices[lower_level], search.counts.slices_with_leader[lower_level]
    threshold = request.slices // greedy.number
    if greedy.last_with_leader is not None:
        threshold = min(threshold, int(slices_with_leader[greedy.last_with_leader]))
    if greedy.last is not None:
        threshold = min(threshold, int(slices[greedy.last]))
    reserved = threshold
    if request.leaders > 0 and greedy.last is not None:
        reserved = min(threshold, int(slices_with_leader[greedy.last]))
    if threshold < best_threshold:
        return None
    _prune(search.counts, level, siblings, threshold, request)
    pruned = _take_greedily(search, level, siblings)
    if pruned is None and reserved < threshold:
        if reserved <= 0 or reserved < best_threshold:
            return None
        threshold = reserved
        search = DomainSearch(counts.copy(), request, gates)
        _prune(search.counts, level, siblings, threshold, request)
        pruned = _take_greedily(search, level, siblings)
    if pruned is None:
        return None
    return _Candidate(threshold, pruned.number, search.counts, siblings)


def _take_greedily(search: DomainSearch, level: int, domains: Sequence[int]) -> _Greedy | None:
    """Take the domains with the most room until all slices fit, or return None if they do not."""
    counts, request = search.counts, search.request
    slices, slices_with_leader = counts.slices[level], counts.slices_with_leader[level]
    remaining, remaining_leaders = request.slices, request.leaders
    number = 0
    last_with_leader: int | None = None
    last: int | None = None
    if request.leaders > 0:
        ordered = search.sort_for_leader(level, domains)
        position = 0
        while remaining_leaders > 0 and position < len(ordered) and counts.leaders[level][ordered[position]] > 0:
            last_with_leader = ordered[position]
            number += 1
            remaining_leaders -= int(counts.leaders[level][last_with_leader])
            remaining -= int(slices_with_leader[last_with_leader])
            position += 1
        domains = ordered[position:]
    if remaining_leaders > 0:
        return None
    for domain in search.sort(level, domains):
        if remaining <= 0 or slices[domain] <= 0:
            break
        number += 1
        last = domain
        remaining -= int(slices[domain])
    return None if remaining > 0 else _Greedy(number, last_with_leader, last)


def _prune(
    counts: DomainCapacities, level: int, domains: Sequence[int], threshold: int, request: PlacementRequest
) -> None:
    """Empty the domains that hold fewer slices than the threshold, at the level and below it."""
    needs_leader = request.leaders > 0
    if level + 1 < len(counts.tree.levels):
        _prune_level(counts, level + 1, counts.list_children(level, domains), threshold, needs_leader=needs_leader)
    counts.sum_up(request.slice_size, request.slice_level, inner_sizes={}, needs_leader=needs_leader, top_level=level)
    _prune_level(counts, level, domains, threshold, needs_leader=needs_leader)


def _prune_level(
    counts: DomainCapacities, level: int, domains: Sequence[int], threshold: int, *, needs_leader: bool
) -> None:
    """Empty the domains of one level that hold fewer slices than the threshold."""
    for domain in domains:
        if counts.slices[level][domain] < threshold:
            _clear(counts, level, domain, only_leader=False)
        elif (
            needs_leader and counts.leaders[level][domain] > 0 and counts.slices_with_leader[level][domain] < threshold
        ):
            _clear(counts, level, domain, only_leader=True)


def _clear(counts: DomainCapacities, level: int, domain: int, *, only_leader: bool) -> None:
    """Set the counts of a domain and all below it to zero, or those that concern a leader."""
    arrays = [counts.pods_with_leader, counts.slices_with_leader, counts.leaders]
    if not only_leader:
        arrays += [counts.pods, counts.slices]
    start, end = domain, domain + 1
    for current in range(level, len(counts.tree.levels)):
        for array in arrays:
            array[current][start:end] = 0
        if current + 1 < len(counts.tree.levels):
            domains = counts.tree.levels[current]
            start, end = int(domains.child_starts[start]), int(domains.child_ends[end - 1])


def _choose_domains(search: DomainSearch, level: int, domains: Sequence[int], *, by_entropy: bool) -> list[int] | None:
    """Return the fewest domains that hold all slices with the least room to spare, or None.

    Upstream: selectOptimalDomainSetToFit.
    """
    greedy = _take_greedily(search, level, domains)
    if greedy is None:
        return None
    counts, request = search.counts, search.request
    ordered = sorted(domains)
    if by_entropy:
        ordered.sort(key=cmp_to_key(partial(_compare_capacity, counts, level)))
    # placements[number][leaders left][pods left] -> domains
    placements: list[dict[int, dict[int, list[int]]]] = [{} for _ in range(greedy.number + 1)]
    placements[0][request.leaders] = {request.slices * request.slice_size: []}
    for domain in ordered:
        leaders = int(counts.leaders[level][domain])
        pods = int(counts.pods[level][domain])
        pods_with_leader = int(counts.pods_with_leader[level][domain])
        has_slices = counts.slices[level][domain] > 0
        for number in range(greedy.number, 0, -1):
            for leaders_left in sorted(placements[number - 1]):
                for pods_left in sorted(placements[number - 1][leaders_left]):
                    if leaders_left <= 0 and pods_left <= 0:
                        continue
                    extended = [*placements[number - 1][leaders_left][pods_left], domain]
                    if leaders_left > 0 and leaders > 0:
                        by_pods = placements[number].setdefault(leaders_left - leaders, {})
                        by_pods.setdefault(pods_left - pods_with_leader, extended)
                    if has_slices:
                        placements[number].setdefault(leaders_left, {}).setdefault(pods_left - pods, extended)
    complete = placements[greedy.number].get(0, {})
    sufficient = [left for left in complete if left <= 0]
    return complete[max(sufficient)] if sufficient else None


def _compare_capacity(counts: DomainCapacities, level: int, a: int, b: int) -> int:
    """Order two domains: more leaders first, then more slices, then the more even split below, then the lower index."""
    leaders, slices = counts.leaders[level], counts.slices_with_leader[level]
    if difference := int(leaders[b] - leaders[a]):
        return difference
    if difference := int(slices[b] - slices[a]):
        return difference
    entropy_a, entropy_b = _compute_entropy(counts, level, a), _compute_entropy(counts, level, b)
    if entropy_a != entropy_b:
        return 1 if entropy_b > entropy_a else -1
    return a - b


def _compute_entropy(counts: DomainCapacities, level: int, domain: int) -> float:
    """Return the entropy of how the pods that fit are distributed among a domain's children."""
    if level + 1 >= len(counts.tree.levels):
        return 0.0
    pods = [int(counts.pods[level + 1][child]) for child in counts.get_children(level, domain)]
    total = sum(pods)
    if total == 0:
        return 0.0
    return sum(-(count / total) * math.log2(count / total) for count in pods if count > 0)


def _spread_slices(search: DomainSearch, level: int, domains: Sequence[int], threshold: int) -> list[int] | None:
    """Give each of the fewest domains the threshold, and the rest to the first. Return None if that is impossible."""
    counts, request = search.counts, search.request
    chosen = _choose_domains(search, level, domains, by_entropy=False)
    if chosen is None or request.slices < len(chosen) * threshold:
        return None
    chosen = search.sort_for_leader(level, chosen)
    slices, slices_with_leader = counts.slices[level], counts.slices_with_leader[level]
    extra, leaders_left, taken = request.slices - len(chosen) * threshold, request.leaders, 0
    for domain in chosen:
        if leaders_left > 0:
            taken = min(int(slices_with_leader[domain]) - threshold, extra)
            counts.leaders[level][domain] = 1
            leaders_left -= 1
        else:
            taken = min(int(slices[domain]) - threshold, extra) if extra > 0 else 0
            counts.leaders[level][domain] = 0
        number = threshold + taken
        counts.pods[level][domain] = number * request.slice_size
        slices[domain] = slices_with_leader[domain] = number
        counts.pods_with_leader[level][domain] = number * request.slice_size - counts.leaders[level][domain]
        extra -= taken
    return None if extra > 0 or leaders_left > 0 else chosen
