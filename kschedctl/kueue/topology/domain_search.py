"""The choice of domains of one topology level for the pods of a pod set.

Upstream: pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.queueing import SliceConstraint
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.topology.tree import DomainCapacities, Indexes


class PlacementError(Exception):
    """No placement was found. The message is upstream's."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The pods to place, and the levels at which they and their slices have to share a domain."""

    topology: str
    count: int
    """The number of pods, without a leader."""
    leaders: int
    """1 if a leader is placed with them, else 0."""
    level: int
    """The index of the level at which the pods should share a domain."""
    slice_level: int
    """The index of the level at which each slice must share a domain."""
    slice_size: int
    inner_sizes: Mapping[int, int]
    """The sizes of slices within slices, by level."""
    constraints: Sequence[SliceConstraint]
    """The constraints of slices, if there are slices within slices."""
    is_required: bool
    is_unconstrained: bool

    @property
    def slices(self) -> int:
        """The number of slices into which the pods are divided."""
        return self.count // self.slice_size


class DomainSearch:
    """A choice of domains at one level for a request, based on the number of pods that fit into each domain."""

    def __init__(
        self, capacities: DomainCapacities, request: PlacementRequest, gates: FeatureGates, exclusions: str = ""
    ) -> None:
        self.capacities = capacities
        self.request = request
        self._exclusions = exclusions
        self._respects_affinity = Gate.TAS_RESPECT_PREFERRED_AFFINITY in gates
        self._least_free_first = request.is_unconstrained and Gate.TAS_PROFILE_MIXED in gates
        """True if domains are filled from the one with the least room up, which leaves large domains free."""

    def sort_domains(self, level: int, domains: Sequence[int]) -> list[int]:
        """Sort domains by the slices that fit: the fewest first if unconstrained, else the most first.

        If preferred node affinity counts, the highest scores come first. Ties are broken by the pods that fit, the
        fewest first, then by the index.
        """
        order: list[int] = self._sort_indexes(level, np.array(domains, dtype=np.int64)).tolist()
        return order

    def _sort_indexes(self, level: int, indexes: Indexes) -> Indexes:
        """Sort an array of domains as ``sort_domains`` does."""
        room = self.capacities.at_level(level)
        slices = room.slices[indexes]
        # np.lexsort sorts by the last key first
        keys = [indexes, room.pods[indexes], slices if self._least_free_first else -slices]
        if self._respects_affinity:
            keys.append(-room.affinity[indexes])
        return indexes[np.lexsort(keys)]

    def sort_domains_for_leader(self, level: int, domains: Sequence[int]) -> list[int]:
        """Sort domains by the leaders that fit, the most first.

        Domains with room for equally many leaders are sorted as by ``sort_domains``, but by what fits beside a leader.
        """
        order: list[int] = self._sort_indexes_for_leader(level, np.array(domains, dtype=np.int64)).tolist()
        return order

    def _sort_indexes_for_leader(self, level: int, indexes: Indexes) -> Indexes:
        """Sort an array of domains as ``sort_domains_for_leader`` does."""
        room = self.capacities.at_level(level)
        slices = room.slices_with_leader[indexes]
        # np.lexsort sorts by the last key first
        keys = [indexes, room.pods_with_leader[indexes], slices if self._least_free_first else -slices]
        if self._respects_affinity:
            keys.append(-room.affinity[indexes])
        keys.append(-room.leaders[indexes])
        return indexes[np.lexsort(keys)]

    def choose_level_and_domains(self, level: int) -> tuple[int, list[int]]:
        """Find domains at one level that hold all slices, and return the level and the domains.

        The search starts at ``level``. If one domain at this or a higher level is large enough, it is chosen.
        Otherwise, several domains are chosen at the highest level. For an unconstrained request, they are chosen at
        ``level``. Upstream: findLevelWithFitDomains.

        Raises PlacementError if ``level`` has no domains, or if all domains together are too small. Also raises
        PlacementError if the level is required and no single domain is large enough.
        """
        capacities, request = self.capacities, self.request
        domain_count = len(capacities.tree.levels[level].values)
        if domain_count == 0:
            raise PlacementError(f"no topology domains at level: {capacities.tree.keys[level]}")

        domains = self._sort_indexes_for_leader(level, np.arange(domain_count))
        domain = self._find_tightest_domain(level, domains)
        if domain is not None:
            return level, [domain]
        if request.is_required:
            # Report the room of the largest domain, which comes last if the domains with the least room come first
            room = capacities.at_level(level)
            largest_room = room.pods[domains[-1]] if self._least_free_first else room.slices[domains[0]]
            raise self._build_placement_error(level, int(largest_room))
        if level > 0 and not request.is_unconstrained:
            return self.choose_level_and_domains(level - 1)
        return level, self._choose_several_domains(level, domains.tolist())

    def _find_tightest_domain(self, level: int, domains: Indexes) -> int | None:
        """Return a single domain that holds all slices and leaders, or None if several domains have to be chosen.

        ``domains`` is sorted as by ``sort_domains_for_leader``. If the domains with the least free capacity come first,
        the first large enough domain is chosen. Otherwise, the domain with the least sufficient room is chosen, and the
        first domain must be large enough as well. If affinity counts, only domains with the affinity score of the first
        large enough domain are considered. For a required level, the first domain may then be too small.
        """
        room, request = self.capacities.at_level(level), self.request
        has_room_for_slices = room.slices_with_leader[domains] >= request.slices
        has_room_for_leaders = room.leaders[domains] >= request.leaders
        fitting = np.flatnonzero(has_room_for_slices & has_room_for_leaders)
        if not len(fitting):
            return None
        first_fitting = int(fitting[0])
        if self._least_free_first:
            return int(domains[first_fitting])

        may_lower_affinity = request.is_required and self._respects_affinity
        if first_fitting > 0 and not may_lower_affinity:
            return None
        # The search is limited to domains with the affinity score of the first one
        remaining_domains = domains[first_fitting:]
        return self._choose_best_fitting_domain(
            level, remaining_domains, request.slices, request.leaders, by_slices=True
        )

    def _choose_several_domains(self, level: int, domains: list[int]) -> list[int]:
        """Choose domains of a level that together hold all leaders and slices. `domains` are sorted for leaders.

        Domains for the leaders are chosen first, and their slices are used as well. Domains for the remaining slices
        follow, in the order for slices without a leader. Unless the profile prefers the least free domains, the domain
        that completes each of the two steps is the best-fitting one. Raises PlacementError if all domains together are
        too small.
        """
        room, request = self.capacities.at_level(level), self.request
        remaining, remaining_leaders = request.slices, request.leaders

        # Choose domains for the leaders, in the order in which leaders are placed
        leader_order = self._move_leader_domain_first(
            level, domains, request.count, request.leaders, request.slice_size, by_slices=True
        )
        chosen = []
        for position, next_domain in enumerate(leader_order):
            if remaining_leaders <= 0 or room.leaders[next_domain] <= 0:
                break
            domain = self._choose_next_domain(level, leader_order, position, remaining, remaining_leaders)
            chosen.append(domain)
            remaining_leaders -= int(room.leaders[domain])
            remaining -= int(room.slices_with_leader[domain])
        if remaining_leaders > 0:
            raise self._build_placement_error(level, request.leaders - remaining_leaders)

        # Choose domains for the remaining slices, in the order without a leader
        worker_order = self.sort_domains(level, leader_order[len(chosen) :])
        for position in range(len(worker_order)):
            if remaining <= 0:
                break
            domain = self._choose_next_domain(level, worker_order, position, remaining, leaders=0)
            chosen.append(domain)
            remaining -= int(room.slices[domain])
        if remaining > 0:
            raise self._build_placement_error(level, request.slices - remaining)
        return chosen

    def _choose_next_domain(self, level: int, order: Sequence[int], position: int, slices: int, leaders: int) -> int:
        """Return the domain at ``position`` in ``order``, or a better-fitting later one if it holds all ``slices``.

        If there are ``leaders``, only the room beside a leader counts. If the profile prefers the least free domains,
        the domain at ``position`` is always returned.
        """
        next_domain = order[position]
        capacities = self.capacities.at_level(level)
        room = capacities.slices_with_leader if leaders else capacities.slices
        holds_all_slices = room[next_domain] >= slices
        if self._least_free_first or not holds_all_slices:
            return next_domain
        return self._choose_best_fitting_domain(level, order[position:], slices, leaders, by_slices=True)

    def _choose_best_fitting_domain(
        self, level: int, domains: Sequence[int] | Indexes, needed: int, leaders: int, *, by_slices: bool
    ) -> int:
        """Return the domain with the least room that still suffices, or the first domain if none suffices.

        A domain suffices if it has room for ``leaders`` leaders, and for ``needed`` slices (with ``by_slices``) or
        pods. If there are leaders, only the room beside a leader counts. If affinity counts, only the domains at the
        beginning that have the same affinity score as the first domain are considered.
        """
        level_capacities = self.capacities.at_level(level)
        get_room = level_capacities.get_room_with_leader if leaders else level_capacities.get_room
        indexes = self._select_equal_affinity(level, np.asarray(domains, dtype=np.int64))
        room = get_room(by_slices=by_slices)[indexes]
        suffices = (room >= needed) & (level_capacities.leaders[indexes] >= leaders)
        if not suffices.any():
            return int(indexes[0])
        tightest = np.argmin(np.where(suffices, room, np.iinfo(np.int64).max))
        return int(indexes[tightest])

    def _select_equal_affinity(self, level: int, domains: Indexes) -> Indexes:
        """Return the leading domains with the same affinity score as the first domain.

        If affinity does not count, return all domains.
        """
        if not self._respects_affinity:
            return domains
        scores = self.capacities.at_level(level).affinity[domains]
        differing_places = np.flatnonzero(scores != scores[0])
        return domains[: int(differing_places[0])] if len(differing_places) else domains

    def _move_leader_domain_first(
        self, level: int, domains: list[int], count: int, leaders: int, slice_size: int, *, by_slices: bool
    ) -> list[int]:
        """Move the first domain that can hold the leader to the front, if the workers still fit with it.

        ``count`` is the number of worker pods, which must fit into all domains together. The order stays unchanged if
        no leader is placed, or if each domain that can hold the leader would leave too little room for the workers.
        """
        if leaders == 0 or len(domains) <= 1:
            return domains
        level_capacities = self.capacities.at_level(level)
        room = level_capacities.get_room(by_slices=by_slices)
        room_with_leader = level_capacities.get_room_with_leader(by_slices=by_slices)
        required = count // slice_size if by_slices else count
        available = int(room[domains].sum())
        for position, domain in enumerate(domains):
            lost = int(room[domain] - room_with_leader[domain])
            if level_capacities.leaders[domain] >= leaders and available - lost >= required:
                return [domain, *domains[:position], *domains[position + 1 :]]
        return domains

    def distribute_pods(
        self, level: int, domains: list[int], count: int, leaders: int, slice_size: int, *, by_slices: bool
    ) -> list[int]:
        """Distribute pods among as few of the sorted domains as possible, and return the domains that get pods.

        The domains get pods in their order. Once the next domain holds all remaining pods, the best fitting of the
        remaining domains gets them, unless domains with the least room come first anyway. Return [] if the domains have
        too little room. The counts of pods, slices and leaders of a chosen domain are overwritten with what it gets.
        Upstream: updateCountsToMinimumGeneric.

        Arguments:
            level: the level of the domains.
            domains: the domains, sorted by preference.
            count: the number of workers.
            leaders: the number of leaders.
            slice_size: the number of pods in a slice.
            by_slices: whether whole slices are distributed, otherwise single pods.
        """
        level_capacities = self.capacities.at_level(level)
        domains = self._move_leader_domain_first(level, domains, count, leaders, slice_size, by_slices=by_slices)
        size = slice_size if by_slices else 1
        room = level_capacities.get_room(by_slices=by_slices)
        room_with_leader = level_capacities.get_room_with_leader(by_slices=by_slices)
        pods, leader_counts = level_capacities.pods, level_capacities.leaders
        remaining, remaining_leaders = count // size, leaders
        chosen: list[int] = []
        for position, domain in enumerate(domains):
            # Leaders are placed first, each with as many workers as fit beside it; the other domains get workers only
            usable_room = room_with_leader if remaining_leaders > 0 else room

            # The last domain takes all that remains. It need not be the next one if another fits better
            holds_all_remaining = usable_room[domain] >= remaining and leader_counts[domain] >= remaining_leaders
            if holds_all_remaining:
                last = domain
                if not self._least_free_first:
                    last = self._choose_best_fitting_domain(
                        level, domains[position:], remaining, remaining_leaders, by_slices=by_slices
                    )
                room[last] = remaining
                pods[last] = remaining * size
                leader_counts[last] = remaining_leaders
                return [*chosen, last]

            taken = min(int(usable_room[domain]), remaining)
            usable_room[domain] = taken
            room[domain] = taken
            pods[domain] = taken * size
            leader_counts[domain] = min(int(leader_counts[domain]), remaining_leaders)
            remaining_leaders -= int(leader_counts[domain])
            remaining -= taken
            chosen.append(domain)
        return []

    def _build_placement_error(self, level: int, fitting: int) -> PlacementError:
        """Build the error that says how many slices fit or, for nested slices, how many of each size."""
        request = self.request
        if request.constraints:
            return PlacementError(self._describe_nested_slices(level))
        unit = "pod" if request.slice_size == 1 else "slice"
        if fitting == 0:
            message = f'topology "{request.topology}" doesn\'t allow to fit any of {request.slices} {unit}(s)'
        else:
            message = f'topology "{request.topology}" allows to fit only {fitting} out of {request.slices} {unit}(s)'
        return PlacementError(message + self._exclusions)

    def _describe_nested_slices(self, level: int) -> str:
        """Describe how many slices of each size fit into the level's largest domain."""
        capacities, request = self.capacities, self.request
        parts = [f'topology "{request.topology}" doesn\'t allow to fit']
        best = int(np.argmax(capacities.slices[level]))
        for constraint in request.constraints:
            target = capacities.tree.find_level(constraint.topology)
            if target is not None:
                fitting = self._count_slices_in_descendants(best, level, target, slice_size=constraint.size)
                needed = request.count // constraint.size
                parts.append(f"{fitting}/{needed} slice(s) fit on level {constraint.topology}")
        return "; ".join(parts) + self._exclusions

    def _count_slices_in_descendants(
        self, domain: int, domain_level: int, target_level: int, *, slice_size: int
    ) -> int:
        """Count the slices that fit into the domain's descendants at the target level."""
        descendants: Sequence[int] = [domain]
        for level in range(domain_level, target_level):
            descendants = self.capacities.list_children(level, descendants)
        pods = self.capacities.pods[target_level]
        return sum(int(pods[descendant]) // slice_size for descendant in descendants)
