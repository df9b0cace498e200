"""Scores of nodes for copies of one pod that are placed one after another, computed once per group of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.scheduler.framework.scores import round_half_away
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
from kschedctl.scheduler.plugins.pod_topology_spread.scoring import (
    Points,
    ScoredDomains,
    normalize_scores,
    score_counts,
)
from kschedctl.snapshot.trail import Trail


class _GroupDomains(NamedTuple):
    """The domains of the feasible groups for one constraint."""

    codes: Rows
    """The code of each group's domain."""
    domain_count: int


class EquallySpreadNodes:
    """Groups of nodes whose nodes have equal scores, because no soft constraint distinguishes them.

    The nodes of a group are in the same domains and, for constraints on hostnames, have equally many matching pods.
    Every node must have the labels of all constraints.
    """

    def __init__(
        self,
        constraints: Sequence[SpreadConstraint],
        scored_domains: Sequence[ScoredDomains],
        trail: Trail,
        feasible: Bools,
    ) -> None:
        self._constraints, self._scored_domains, self._trail = constraints, scored_domains, trail
        columns = [
            domains.tally.compute_current_sums(trail) if domains.domains is None else domains.domains.codes
            for domains in scored_domains
        ]
        keys, group = np.unique(np.stack(columns), axis=1, return_inverse=True)
        self._keys = keys.T
        """By group and constraint, the code of the domain or, for hostnames, the number of matching pods per node."""
        self._group_by_key = {tuple(key): number for number, key in enumerate(self._keys.tolist())}
        self.group: Rows = group.reshape(-1)  # some versions of numpy return it as a row
        """The group of each node (N,)."""
        self._sizes = np.bincount(self.group[feasible], minlength=len(self._keys))
        """The number of feasible nodes of each group."""
        self._feasible_count = int(np.count_nonzero(feasible))
        self._are_groups_outdated = True
        self._feasible_groups = self._keys[:0, 0]
        self._parts: list[_GroupDomains | Points] = []
        """For each constraint, the scores of the feasible groups or, if copies change these, the groups' domains."""
        self._scores: Scores = np.zeros(0, np.int64)

    def score_groups(self) -> Scores:
        """Return the normalized score of each group, in an array that the next call overwrites.

        The scores of groups without feasible nodes are meaningless.
        """
        if self._are_groups_outdated:
            self._prepare_feasible_groups()
        raw = round_half_away(reduce(add, self._iter_constraint_scores()))
        self._scores[self._feasible_groups] = normalize_scores(raw, ignored=None)
        return self._scores

    def update_row(self, row: int, is_feasible: bool) -> None:
        """Move a node to its new group after a copy was placed there.

        `is_feasible` is False if the node has no room for another copy. The node then has a group, but is not counted
        in it.
        """
        old_group = int(self.group[row])
        key = self._keys[old_group].tolist()
        for place, domains in enumerate(self._scored_domains):
            if domains.is_by_hostname:  # the key has the number of matching pods, which the new copy changes
                key[place] = int(domains.tally.compute_current_sums(self._trail)[row])
        group = self._find_or_add_group(tuple(key))
        self.group[row] = group
        self._change_group_size(old_group, -1)
        if is_feasible:
            self._change_group_size(group, 1)
        else:
            self._feasible_count -= 1
            self._are_groups_outdated = True

    def _find_or_add_group(self, key: tuple[int, ...]) -> int:
        """Return the number of the group with this key, adding an empty group if there is none."""
        group = self._group_by_key.get(key)
        if group is None:
            group = self._group_by_key[key] = len(self._keys)
            self._keys = np.append(self._keys, [key], axis=0)
            self._sizes = np.append(self._sizes, 0)
        return group

    def _change_group_size(self, group: int, change: int) -> None:
        """Add `change` to the number of feasible nodes of a group.

        If the group gets its first feasible node or loses its last one, mark the values computed by
        `_prepare_feasible_groups` as outdated.
        """
        old_size = int(self._sizes[group])
        new_size = old_size + change
        self._sizes[group] = new_size
        if old_size == 0 or new_size == 0:
            self._are_groups_outdated = True

    def _prepare_feasible_groups(self) -> None:
        """Recompute the parts of the scores that stay valid while the same groups have feasible nodes.

        There is one part per constraint. For the topology key hostname, the part is the scores themselves. For any
        other key, the part is the domain of each group and the number of these domains.
        """
        self._feasible_groups = self._sizes.nonzero()[0]
        self._scores = np.zeros(len(self._sizes), np.int64)
        self._parts = []
        feasible_keys = self._keys[self._feasible_groups]
        for values, constraint, domains in zip(feasible_keys.T, self._constraints, self._scored_domains, strict=True):
            if domains.is_by_hostname:  # a copy changes the group of its node, but not the score of a group
                self._parts.append(score_counts(values, self._feasible_count, constraint))
            else:
                self._parts.append(_GroupDomains(values.astype(np.intp), len(np.unique(values))))
        self._are_groups_outdated = False

    def _iter_constraint_scores(self) -> Iterator[Points]:
        """Yield the scores of the feasible groups for each constraint before rounding."""
        for constraint, domains, part in zip(self._constraints, self._scored_domains, self._parts, strict=True):
            if isinstance(part, _GroupDomains):  # not for hostnames: each copy changes the counts of the domains
                counts = domains.tally.compute_current_sums(self._trail)
                yield score_counts(counts.take(part.codes), part.domain_count, constraint)
            else:
                yield part
