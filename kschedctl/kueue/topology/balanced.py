"""Balanced placement: spread a pod set evenly over as few domains as necessary.

Upstream: pkg/cache/scheduler/tas_balanced_placement.go, behind the gate TASBalancedPlacement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key, partial
from typing import NamedTuple

from kschedctl.kueue.feature_gates import FeatureGates
from kschedctl.kueue.topology.domain_search import DomainSearch, PlacementRequest
from kschedctl.kueue.topology.tree import DomainCapacities, LevelCapacities


class _GreedyChoice(NamedTuple):
    """The size and the end of a greedy choice of domains."""

    number: int
    """The number of domains that were taken."""
    last_with_leader: int | None
    """The last domain that was taken for a leader."""
    last: int | None
    """The last domain that was taken only for workers."""


class _Candidate(NamedTuple):
    """Sibling domains that together hold all pods. Each used domain holds at least ``threshold`` slices."""

    threshold: int
    number: int
    """The number of domains that are needed."""
    capacities: DomainCapacities
    """A copy of the capacities, without room in domains below the threshold."""
    domains: list[int]


class EvenPlacement(NamedTuple):
    """An even distribution of slices over domains of one level."""

    capacities: DomainCapacities
    """A copy of the capacities, in which the chosen domains have what they get."""
    level: int
    domains: list[int]
    """The indexes of the domains that get slices."""


def place_slices_evenly(
    capacities: DomainCapacities, request: PlacementRequest, gates: FeatureGates
) -> EvenPlacement | None:
    """Distribute the slices evenly over as few domains as necessary, or return None if this is impossible.

    The domains are siblings at the requested level or, if slices share a domain of a lower level, children of such
    siblings. Each chosen domain gets at least as many slices as the threshold of the best siblings.
    """
    best = _find_best_sibling_domains(capacities, request, gates)
    if best is None:
        return None
    search = DomainSearch(best.capacities, request, gates)
    level, domains = request.level, best.domains
    if request.level < request.slice_level:
        parents = _choose_fewest_domains(search, level, domains, by_entropy=True)
        if parents is None:
            return None
        domains = best.capacities.list_children(level, parents)
        level += 1
    chosen = _spread_slices(search, level, domains, best.threshold)
    return None if chosen is None else EvenPlacement(best.capacities, level, chosen)


def _find_best_sibling_domains(
    capacities: DomainCapacities, request: PlacementRequest, gates: FeatureGates
) -> _Candidate | None:
    """Return the best group of sibling domains at the requested level, or None if no group holds all pods.

    The best group has the highest threshold and, among equal thresholds, needs the fewest domains.
    """
    levels = capacities.tree.levels
    if request.level == 0:
        groups = [list(range(len(levels[0].values)))]
    else:
        above = request.level - 1
        groups = [list(capacities.get_children(above, parent)) for parent in range(len(levels[above].values))]

    best: _Candidate | None = None
    for siblings in groups:
        best_threshold = best.threshold if best else 0
        candidate = _evaluate_siblings(capacities, siblings, request, gates, best_threshold)
        if candidate is None or candidate.threshold <= 0:
            continue
        if best is None or (candidate.threshold, -candidate.number) > (best.threshold, -best.number):
            best = candidate
    return best


def _evaluate_siblings(
    capacities: DomainCapacities,
    siblings: list[int],
    request: PlacementRequest,
    gates: FeatureGates,
    best_threshold: int,
) -> _Candidate | None:
    """Return the siblings with their threshold, the number of slices for which every used domain has room.

    Domains with room for fewer slices are emptied in the candidate's copy of the capacities. Return None if the
    siblings do not hold all pods, or only with a threshold below ``best_threshold``.
    """
    # Choose the domains that are needed without a threshold. If a slice needs a domain of a lower level, these are
    # domains of the level below.
    search = DomainSearch(capacities, request, gates)
    if request.level < request.slice_level:
        level = request.level + 1
        domains = capacities.list_children(request.level, siblings)
    else:
        level = request.level
        domains = siblings
    greedy = _choose_domains_greedily(search, level, domains)
    if greedy is None:
        return None

    thresholds = _compute_thresholds(capacities.at_level(level), greedy, request)
    if thresholds.without_leader < best_threshold:
        return None

    # If the pods do not fit, a lower threshold that leaves room for the leader in the last domain may help
    candidate = _prune_siblings(capacities, siblings, request, gates, thresholds.without_leader)
    if candidate is None and max(best_threshold, 1) <= thresholds.beside_leader < thresholds.without_leader:
        candidate = _prune_siblings(capacities, siblings, request, gates, thresholds.beside_leader)
    return candidate


class _Thresholds(NamedTuple):
    """Numbers of slices for which each of the chosen domains has room."""

    without_leader: int
    """The threshold if the last domain without a leader stays without one."""
    beside_leader: int
    """The threshold if the last domain without a leader gets one. It is not above the other threshold."""


def _compute_thresholds(room: LevelCapacities, greedy: _GreedyChoice, request: PlacementRequest) -> _Thresholds:
    """Compute the thresholds of greedily chosen domains: an equal share of the slices, limited by the least room."""
    threshold = request.slices // greedy.number
    if greedy.last_with_leader is not None:
        threshold = min(threshold, int(room.slices_with_leader[greedy.last_with_leader]))
    if greedy.last is not None:
        threshold = min(threshold, int(room.slices[greedy.last]))
    beside_leader = threshold
    if request.leaders > 0 and greedy.last is not None:
        beside_leader = min(threshold, int(room.slices_with_leader[greedy.last]))
    return _Thresholds(threshold, beside_leader)


def _prune_siblings(
    capacities: DomainCapacities, siblings: list[int], request: PlacementRequest, gates: FeatureGates, threshold: int
) -> _Candidate | None:
    """Empty the domains below the threshold in a copy of the capacities, and return the siblings with this copy.

    The result also has the number of domains that are needed. Return None if the pods do not fit into the domains that
    are left.
    """
    search = DomainSearch(capacities.copy(), request, gates)
    _clear_small_domains_on_two_levels(search.capacities, request.level, siblings, threshold, request)
    greedy = _choose_domains_greedily(search, request.level, siblings)
    return None if greedy is None else _Candidate(threshold, greedy.number, search.capacities, siblings)


def _choose_domains_greedily(search: DomainSearch, level: int, domains: Sequence[int]) -> _GreedyChoice | None:
    """Choose domains greedily until all slices fit, and return how many were chosen and which came last.

    The domains with the most room are taken first, and leaders get domains before workers. Return None if all domains
    together are too small.
    """
    room, request = search.capacities.at_level(level), search.request
    remaining, remaining_leaders = request.slices, request.leaders

    # The domains for the leaders, and the slices beside them
    taken_with_leader: list[int] = []
    if request.leaders > 0:
        ordered = search.sort_domains_for_leader(level, domains)
        for domain in ordered:
            if remaining_leaders <= 0 or room.leaders[domain] <= 0:
                break
            taken_with_leader.append(domain)
            remaining_leaders -= int(room.leaders[domain])
            remaining -= int(room.slices_with_leader[domain])
        domains = ordered[len(taken_with_leader) :]
    if remaining_leaders > 0:
        return None

    # The domains for the remaining slices
    taken: list[int] = []
    for domain in search.sort_domains(level, domains):
        if remaining <= 0 or room.slices[domain] <= 0:
            break
        taken.append(domain)
        remaining -= int(room.slices[domain])
    if remaining > 0:
        return None
    return _GreedyChoice(
        number=len(taken_with_leader) + len(taken),
        last_with_leader=taken_with_leader[-1] if taken_with_leader else None,
        last=taken[-1] if taken else None,
    )


def _clear_small_domains_on_two_levels(
    capacities: DomainCapacities, level: int, domains: Sequence[int], threshold: int, request: PlacementRequest
) -> None:
    """Zero the counts of domains that hold fewer than ``threshold`` slices, at the level below and at this level.

    The level below comes first, and the counts of this level are summed up again in between.
    """
    needs_leader = request.leaders > 0
    if level + 1 < len(capacities.tree.levels):
        _clear_domains_below_threshold(
            capacities, level + 1, capacities.list_children(level, domains), threshold, needs_leader=needs_leader
        )
    capacities.sum_up_levels(
        request.slice_size, request.slice_level, inner_sizes={}, needs_leader=needs_leader, top_level=level
    )
    _clear_domains_below_threshold(capacities, level, domains, threshold, needs_leader=needs_leader)


def _clear_domains_below_threshold(
    capacities: DomainCapacities, level: int, domains: Sequence[int], threshold: int, *, needs_leader: bool
) -> None:
    """Set to zero the counts of the domains at a level that hold fewer than ``threshold`` slices.

    With ``needs_leader``, a domain that can take the leader must also hold ``threshold`` slices beside the leader. If
    it holds enough slices only without a leader, only its counts with the leader are set to zero.
    """
    room = capacities.at_level(level)
    for domain in domains:
        takes_leader = needs_leader and room.leaders[domain] > 0
        if room.slices[domain] < threshold:
            _clear_domain_counts(capacities, level, domain, only_leader=False)
        elif takes_leader and room.slices_with_leader[domain] < threshold:
            _clear_domain_counts(capacities, level, domain, only_leader=True)


def _clear_domain_counts(capacities: DomainCapacities, level: int, domain: int, *, only_leader: bool) -> None:
    """Set the counts of a domain and all domains below it to 0, or only their counts with a leader."""
    arrays = [capacities.pods_with_leader, capacities.slices_with_leader, capacities.leaders]
    if not only_leader:
        arrays += [capacities.pods, capacities.slices]

    # The descendants of a domain are next to each other in each level
    start, end = domain, domain + 1
    for current in range(level, len(capacities.tree.levels)):
        for array in arrays:
            array[current][start:end] = 0
        if current + 1 < len(capacities.tree.levels):
            domains = capacities.tree.levels[current]
            start, end = int(domains.child_starts[start]), int(domains.child_ends[end - 1])


def _choose_fewest_domains(
    search: DomainSearch, level: int, domains: Sequence[int], *, by_entropy: bool
) -> list[int] | None:
    """Return the fewest domains that hold all slices, with the least spare capacity, or None if the slices do not fit.

    With ``by_entropy``, domains with more leaders, more slices and a more even split are preferred. Otherwise, domains
    with a lower index are preferred. Upstream: selectOptimalDomainSetToFit.
    """
    greedy = _choose_domains_greedily(search, level, domains)
    if greedy is None:
        return None
    request = search.request
    ordered = sorted(domains)
    if by_entropy:
        ordered.sort(key=cmp_to_key(partial(_compare_domains, search.capacities, level)))

    # Of the combinations with room for all leaders and pods, choose the one with the least room to spare
    combinations = _combine_domains(search.capacities.at_level(level), ordered, greedy.number, request)
    sufficient = [
        (pods_left, combination)
        for (leaders_left, pods_left), combination in combinations.items()
        if leaders_left == 0 and pods_left <= 0
    ]
    if not sufficient:
        return None
    # The numbers of pods left are not positive, so the largest spares the least room.
    _most_pods_left, combination = max(sufficient)
    return combination


def _combine_domains(
    room: LevelCapacities, domains: Sequence[int], count: int, request: PlacementRequest
) -> dict[tuple[int, int], list[int]]:
    """Return combinations of ``count`` domains, by the leaders and the pods that each leaves to be placed.

    A negative number of pods is room to spare. Of combinations that leave the same numbers, the first is returned.
    """
    # Dynamic programming over the domains: combinations[number] has the combinations of `number` domains
    combinations: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(count + 1)]
    combinations[0][request.leaders, request.slices * request.slice_size] = []
    for domain in domains:
        leaders = int(room.leaders[domain])
        pods = int(room.pods[domain])
        pods_with_leader = int(room.pods_with_leader[domain])

        # From the largest number down, so that no combination contains the domain twice
        for number in range(count, 0, -1):
            larger = combinations[number]
            for (leaders_left, pods_left), combination in sorted(combinations[number - 1].items()):
                if leaders_left <= 0 and pods_left <= 0:
                    continue
                extended = [*combination, domain]
                if leaders_left > 0 and leaders > 0:
                    larger.setdefault((leaders_left - leaders, pods_left - pods_with_leader), extended)
                if room.slices[domain] > 0:
                    larger.setdefault((leaders_left, pods_left - pods), extended)
    return combinations[count]


def _compare_domains(capacities: DomainCapacities, level: int, a: int, b: int) -> int:
    """Compare two domains for sorting: a negative result puts ``a`` first.

    More leaders come first, then more slices, then the more even split among the children, then the lower index.
    """
    room = capacities.at_level(level)
    if more_leaders := int(room.leaders[b] - room.leaders[a]):
        return more_leaders
    if more_slices := int(room.slices_with_leader[b] - room.slices_with_leader[a]):
        return more_slices
    entropy_a = _compute_entropy(capacities, level, a)
    entropy_b = _compute_entropy(capacities, level, b)
    if entropy_a != entropy_b:
        return 1 if entropy_b > entropy_a else -1
    return a - b


def _compute_entropy(capacities: DomainCapacities, level: int, domain: int) -> float:
    """Return the entropy of the fitting pods' distribution among a domain's children, or 0 without children.

    A more even distribution has a higher entropy.
    """
    if level + 1 >= len(capacities.tree.levels):
        return 0.0
    children = capacities.get_children(level, domain)
    pods: list[int] = capacities.pods[level + 1][children.start : children.stop].tolist()
    total = sum(pods)
    if total == 0:
        return 0.0
    shares = [count / total for count in pods if count > 0]
    return sum(-share * math.log2(share) for share in shares)


def _spread_slices(search: DomainSearch, level: int, domains: Sequence[int], threshold: int) -> list[int] | None:
    """Distribute the slices and leaders over the fewest sufficient domains.

    Each chosen domain gets ``threshold`` slices. The first domains also get a leader each and the remaining slices, as
    far as they have room. The counts of the chosen domains are overwritten with what they get. Return the chosen
    domains, or None if the slices or leaders do not fit. Upstream: placeSlicesOnDomainsBalanced.
    """
    room, request = search.capacities.at_level(level), search.request
    chosen = _choose_fewest_domains(search, level, domains, by_entropy=False)
    if chosen is None or request.slices < len(chosen) * threshold:
        return None
    chosen = search.sort_domains_for_leader(level, chosen)
    remaining_extra = request.slices - len(chosen) * threshold
    remaining_leaders = request.leaders
    for domain in chosen:
        leaders = min(remaining_leaders, 1)
        if leaders:
            extra = min(int(room.slices_with_leader[domain]) - threshold, remaining_extra)
        elif remaining_extra > 0:
            extra = min(int(room.slices[domain]) - threshold, remaining_extra)
        else:
            extra = 0
        remaining_leaders -= leaders
        remaining_extra -= extra

        # Overwrite the domain's capacities with what it gets
        slices = threshold + extra
        pods = slices * request.slice_size
        room.slices[domain] = room.slices_with_leader[domain] = slices
        room.leaders[domain] = leaders
        room.pods[domain] = pods
        room.pods_with_leader[domain] = pods - leaders
    return None if remaining_extra > 0 or remaining_leaders > 0 else chosen
