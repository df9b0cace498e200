"""The choice of domains of one topology level for the pods of a pod set.

Upstream: pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.queueing import SliceConstraint
from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.topology.counts import DomainCapacities


class PlacementError(Exception):
    """No placement was found. The message is upstream's."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What is to be placed."""

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
        """Return the number of slices."""
        return self.count // self.slice_size


class DomainSearch:
    """Chooses domains of one level after the other."""

    def __init__(
        self, counts: DomainCapacities, request: PlacementRequest, gates: FeatureGates, exclusions: str = ""
    ) -> None:
        self.counts = counts
        self.request = request
        self._exclusions = exclusions
        self._respects_affinity = Gate.TAS_RESPECT_PREFERRED_AFFINITY in gates
        self._least_free_first = request.is_unconstrained and Gate.TAS_PROFILE_MIXED in gates

    def sort(self, level: int, domains: Sequence[int]) -> list[int]:
        """Sort domains by the slices that fit: the fewest first if unconstrained, else the most first."""
        indexes = np.array(domains, dtype=np.int64)
        slices = self.counts.slices[level][indexes]
        keys = [indexes, self.counts.pods[level][indexes], slices if self._least_free_first else -slices]
        if self._respects_affinity:
            keys.append(-self.counts.affinity[level][indexes])
        return [int(index) for index in indexes[np.lexsort(keys)]]

    def sort_for_leader(self, level: int, domains: Sequence[int]) -> list[int]:
        """Sort domains like ``sort``, but by what fits beside a leader, those with room for a leader first."""
        indexes = np.array(domains, dtype=np.int64)
        slices = self.counts.slices_with_leader[level][indexes]
        keys = [indexes, self.counts.pods_with_leader[level][indexes], slices if self._least_free_first else -slices]
        if self._respects_affinity:
            keys.append(-self.counts.affinity[level][indexes])
        keys.append(-self.counts.leaders[level][indexes])
        return [int(index) for index in indexes[np.lexsort(keys)]]

    def find_level(self, level: int) -> tuple[int, list[int]]:
        """Return the lowest level from ``level`` up at which domains hold all slices, and these domains.

        Raises PlacementError. Upstream: findLevelWithFitDomains.
        """
        counts, request = self.counts, self.request
        number = len(counts.tree.levels[level].values)
        if number == 0:
            raise PlacementError(f"no topology domains at level: {counts.tree.keys[level]}")
        domains = self.sort_for_leader(level, range(number))
        slices_with_leader, leaders = counts.slices_with_leader[level], counts.leaders[level]
        top = domains[0]
        if not self._least_free_first and slices_with_leader[top] >= request.slices and leaders[top] >= request.leaders:
            top = self._find_best_fit(level, domains, request.slices, request.leaders, by_slices=True)
        if self._least_free_first:
            capacity = slices_with_leader if request.leaders else counts.slices[level]
            fitting = np.flatnonzero((capacity[domains] >= request.slices) & (leaders[domains] >= request.leaders))
            if len(fitting):
                return level, [domains[int(fitting[0])]]
            if request.is_required:
                raise self._build_error(level, int(counts.pods[level][domains[-1]]))
        if slices_with_leader[top] >= request.slices and leaders[top] >= request.leaders:
            return level, [top]
        if request.is_required:
            if self._respects_affinity:
                for position, domain in enumerate(domains[1:], start=1):
                    if slices_with_leader[domain] >= request.slices and leaders[domain] >= request.leaders:
                        rest = domains[position:]
                        return level, [
                            self._find_best_fit(level, rest, request.slices, request.leaders, by_slices=True)
                        ]
            raise self._build_error(level, int(counts.slices[level][top]))
        if level > 0 and not request.is_unconstrained:
            return self.find_level(level - 1)
        return level, self._take_several(level, domains)

    def _take_several(self, level: int, domains: list[int]) -> list[int]:
        """Return domains that hold all slices together. Raises PlacementError."""
        counts, request = self.counts, self.request
        slices_with_leader, leaders, slices = (
            counts.slices_with_leader[level],
            counts.leaders[level],
            counts.slices[level],
        )
        chosen = []
        remaining, remaining_leaders = request.slices, request.leaders
        domains = self._put_leader_first(
            level, domains, request.count, request.leaders, request.slice_size, by_slices=True
        )
        position = 0
        while remaining_leaders > 0 and position < len(domains) and leaders[domains[position]] > 0:
            domain = domains[position]
            if not self._least_free_first and slices_with_leader[domain] >= remaining:
                domain = self._find_best_fit(level, domains[position:], remaining, remaining_leaders, by_slices=True)
            chosen.append(domain)
            remaining_leaders -= int(leaders[domain])
            remaining -= int(slices_with_leader[domain])
            position += 1
        if remaining_leaders > 0:
            raise self._build_error(level, request.leaders - remaining_leaders)
        domains = self.sort(level, domains[position:])
        for position, domain in enumerate(domains):
            if remaining <= 0:
                break
            if not self._least_free_first and slices[domain] >= remaining:
                domain = self._find_best_fit(level, domains[position:], remaining, 0, by_slices=True)  # noqa: PLW2901
            chosen.append(domain)
            remaining -= int(slices[domain])
        if remaining > 0:
            raise self._build_error(level, request.slices - remaining)
        return chosen

    def _find_best_fit(self, level: int, domains: Sequence[int], needed: int, leaders: int, *, by_slices: bool) -> int:
        """Return the domain with the least room that suffices, or the first if none does."""
        counts = self.counts
        if by_slices:
            room = counts.slices_with_leader[level] if leaders else counts.slices[level]
        else:
            room = counts.pods_with_leader[level] if leaders else counts.pods[level]
        indexes = np.array(self._take_best_affinity(level, domains), dtype=np.int64)
        suffices = (room[indexes] >= needed) & (counts.leaders[level][indexes] >= leaders)
        if not suffices.any():
            return int(indexes[0])
        return int(indexes[np.argmin(np.where(suffices, room[indexes], np.iinfo(np.int64).max))])

    def _take_best_affinity(self, level: int, domains: Sequence[int]) -> Sequence[int]:
        """Return the leading domains with the same affinity score."""
        if not self._respects_affinity:
            return domains
        scores = self.counts.affinity[level][np.array(domains, dtype=np.int64)]
        differs = np.flatnonzero(scores != scores[0])
        return domains[: int(differs[0])] if len(differs) else domains

    def _put_leader_first(
        self, level: int, domains: list[int], count: int, leaders: int, slice_size: int, *, by_slices: bool
    ) -> list[int]:
        """Move the first domain to the front in which a leader takes no room that the workers need."""
        if leaders == 0 or len(domains) < 2:
            return domains
        counts = self.counts
        room = counts.slices[level] if by_slices else counts.pods[level]
        room_with_leader = counts.slices_with_leader[level] if by_slices else counts.pods_with_leader[level]
        required = count // slice_size if by_slices else count
        available = int(room[np.array(domains, dtype=np.int64)].sum())
        for position, domain in enumerate(domains):
            lost = int(room[domain] - room_with_leader[domain])
            if counts.leaders[level][domain] >= leaders and available - lost >= required:
                return [domain, *domains[:position], *domains[position + 1 :]]
        return domains

    def take_fewest(
        self, level: int, domains: list[int], count: int, leaders: int, slice_size: int, *, by_slices: bool
    ) -> list[int]:
        """Distribute pods among sorted domains, and return those that get some. The counts become what each gets.

        Upstream: updateCountsToMinimumGeneric.
        """
        counts = self.counts
        domains = self._put_leader_first(level, domains, count, leaders, slice_size, by_slices=by_slices)
        size = slice_size if by_slices else 1
        room = counts.slices[level] if by_slices else counts.pods[level]
        room_with_leader = counts.slices_with_leader[level] if by_slices else counts.pods_with_leader[level]
        pods, leader_counts = counts.pods[level], counts.leaders[level]
        remaining, remaining_leaders = count // size, leaders
        chosen = []
        for position, domain in enumerate(domains):
            if remaining_leaders > 0:
                if not self._least_free_first and (
                    room_with_leader[domain] >= remaining and leader_counts[domain] >= remaining_leaders
                ):
                    domain = self._find_best_fit(  # noqa: PLW2901
                        level, domains[position:], remaining, remaining_leaders, by_slices=by_slices
                    )
                chosen.append(domain)
                if room_with_leader[domain] >= remaining and leader_counts[domain] >= remaining_leaders:
                    room[domain] = remaining
                    leader_counts[domain] = remaining_leaders
                    pods[domain] = remaining * size
                    return chosen
                taken = min(int(room_with_leader[domain]), remaining)
                room_with_leader[domain] = taken
                leader_counts[domain] = min(int(leader_counts[domain]), remaining_leaders)
                room[domain] = taken
                pods[domain] = taken * size
                remaining_leaders -= int(leader_counts[domain])
                remaining -= taken
                continue
            if not self._least_free_first and room[domain] >= remaining:
                domain = self._find_best_fit(level, domains[position:], remaining, 0, by_slices=by_slices)  # noqa: PLW2901
            leader_counts[domain] = 0
            chosen.append(domain)
            if room[domain] >= remaining:
                room[domain] = remaining
                pods[domain] = remaining * size
                return chosen
            pods[domain] = int(room[domain]) * size
            remaining -= int(room[domain])
        return []

    def _build_error(self, level: int, fitting: int) -> PlacementError:
        """Build the error that says how many slices fit."""
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
        """Say for each kind of slices how many fit into the domain with the most room."""
        counts, request = self.counts, self.request
        parts = [f'topology "{request.topology}" doesn\'t allow to fit']
        best = int(np.argmax(counts.slices[level]))
        for constraint in request.constraints:
            target = counts.tree.find_level(constraint.topology)
            if target is not None:
                fitting = self._count_slices_below(level, best, target, constraint.size)
                needed = request.count // constraint.size
                parts.append(f"{fitting}/{needed} slice(s) fit on level {constraint.topology}")
        return "; ".join(parts) + self._exclusions

    def _count_slices_below(self, level: int, domain: int, target: int, size: int) -> int:
        """Count the slices that fit into the domains of a level below a domain."""
        domains: Sequence[int] = [domain]
        for current in range(level, target):
            domains = self.counts.list_children(current, domains)
        return sum(int(self.counts.pods[target][index]) // size for index in domains)
