"""Filtering by hard constraints: nodes whose domain would exceed the maximum skew.

Upstream: plugins/podtopologyspread/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import NAME, SpreadConstraint, SpreadSettings
from kschedctl.scheduler.plugins.pod_topology_spread.domains import (
    nodes_with_all_keys,
    restrict_domains,
    tally_matching_pods,
)
from kschedctl.scheduler.plugins.pod_topology_spread.facts import EmptiestDomain, TooSkewed
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import Domains, LabelColumn, find_untolerated_taints, match_required_affinity
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"
NO_MINIMUM = 2**31 - 1


class DomainCounts(msgspec.Struct, frozen=True):
    """The counts of one constraint: V topology domains on N nodes."""

    constraint: SpreadConstraint
    column: LabelColumn
    """The topology label of the nodes, with the domain of each node."""
    eligible: Bools
    """(N,) a mask of the nodes that count."""
    exists: Bools
    """(V,) a mask of the domains with an eligible node."""
    counts: Counts
    """(V,) the number of matching pods on the eligible nodes of each domain."""

    def counts_and_minimum(self, change: Counts | None) -> tuple[Counts, Counts]:
        """Return (N,) the pods in each node's domain and (N,) the global minimum, both after a hypothetical change.

        `change` (N,) is by how much the hypothesis about each node changes the pods of its domain.
        """
        domain = self.column.codes
        if not self.exists.any():
            return np.zeros(len(domain), np.int64), self._apply_min_domains(np.full(len(domain), NO_MINIMUM))
        smallest, runner_up, smallest_domain = _two_smallest(self.counts, self.exists)
        if change is None:
            pods_in_domain = self.column.at_nodes(np.append(np.where(self.exists, self.counts, 0), 0))
            return pods_in_domain, np.broadcast_to(self._apply_min_domains(np.array([smallest])), pods_in_domain.shape)
        in_existing_domain = (domain >= 0) & self.exists[domain]
        pods_in_domain = np.where(in_existing_domain, self.counts[domain] + change, 0)
        minimum_elsewhere = np.where(domain == smallest_domain, runner_up, smallest)
        minimum = np.where(in_existing_domain, np.minimum(minimum_elsewhere, pods_in_domain), smallest)
        return pods_in_domain, self._apply_min_domains(minimum)

    def _apply_min_domains(self, minimum: Counts) -> Counts:
        """Return the minimum, or 0 if there are fewer domains than minDomains."""
        return np.zeros_like(minimum) if self.exists.sum() < self.constraint.min_domains else minimum


def count_pods_per_domain(
    constraint: SpreadConstraint,
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
) -> DomainCounts:
    """Count the matching pods in each domain, on the nodes that the constraint's policies include."""
    column = view.nodes.label(constraint.topology_key)
    nodes, exists, tally = _prepare_counting(constraint, constraints, settings, info, view)
    return DomainCounts(constraint, column, nodes, exists, tally.bring_up_to_date(view.trail).copy())


def _prepare_counting(
    constraint: SpreadConstraint,
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
) -> tuple[Bools, Bools, Tally]:
    """Return (N,) the eligible nodes, (V,) the domains that have some, and the tally of their matching pods."""
    column = view.nodes.label(constraint.topology_key)

    def find_eligible() -> tuple[Bools, Bools, Domains]:
        nodes = nodes_with_all_keys(constraints, view) & settings.included_nodes(constraint, info, view)
        domains = restrict_domains(column, nodes, constraint.topology_key, view)
        return nodes, column.counts(np.flatnonzero(nodes)) > 0, domains

    key = (NAME, "eligible", constraint)
    nodes, exists, domains = view.memo(key, find_eligible, info)
    return nodes, exists, tally_matching_pods(constraint, info, view, domains, key)


class ConstraintTally(NamedTuple):
    """The running counts of one hard constraint."""

    column: LabelColumn
    """The topology label of the nodes."""
    tally: Tally
    """The matching pods of each domain."""
    exists: Bools | None
    """(V,) a mask of the domains with an eligible node, or None if all domains have one."""
    too_few_domains: bool
    """Whether the global minimum counts as 0 because there are fewer domains than minDomains."""
    max_above_minimum: int
    """The largest number by which the pods of a domain may exceed the global minimum before the pod is placed."""


class SpreadVerdicts:
    """Verdicts of the hard constraints for identical pods, kept up to date as pods come and go."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self._trail = view.trail
        self._tallies = []
        for constraint in constraints:
            _, exists, tally = _prepare_counting(constraint, constraints, settings, info, view)
            self._tallies.append(
                ConstraintTally(
                    view.nodes.label(constraint.topology_key),
                    tally,
                    None if exists.all() else exists,
                    too_few_domains=int(exists.sum()) < constraint.min_domains,
                    max_above_minimum=constraint.max_skew - constraint.selects(info),
                )
            )

    @property
    def distinctions(self) -> list[Distinction]:
        """The label columns and counts that distinguish nodes."""
        return [Distinction(part.column, partial(part.tally.bring_up_to_date, self._trail)) for part in self._tallies]

    def rejected(self, rows: Rows) -> Bools:
        """Return (F,) a mask of the rows that a hard constraint rejects."""
        refused = np.zeros(len(rows), np.bool_)
        for column, tally, exists, too_few_domains, max_above_minimum in self._tallies:
            counts, codes = tally.bring_up_to_date(self._trail), column.codes[rows]
            if not len(counts):  # no node has the label
                return np.ones(len(rows), np.bool_)
            minimum = 0 if too_few_domains else int((counts if exists is None else counts[exists]).min())
            refused |= counts.take(codes) - minimum > max_above_minimum
            if not column.complete:
                refused |= codes < 0
        return refused


def iter_rejections(
    spreads: Iterable[DomainCounts], info: PodInfo, view: Fork, delta: Delta, comparison_operators: bool = False
) -> Iterator[Rejection]:
    """Yield for each constraint the nodes without its label, then those whose domain would have too many pods."""
    passing = np.ones(len(view.nodes), np.bool_)
    for spread in spreads:
        missing = passing & ~spread.column.present
        if missing.any():
            yield Rejection(missing, Code.UNRESOLVABLE, REASON_NO_LABEL, _build_missing_label_fact(spread))
            passing &= ~missing
        pods_in_domain, minimum = spread.counts_and_minimum(_count_hypothetical_change(spread, info, view, delta))
        skew = pods_in_domain + spread.constraint.selects(info) - minimum
        uneven = passing & (skew > spread.constraint.max_skew)
        if uneven.any():
            find_emptiest = partial(find_emptiest_domain, spread, info, view, comparison_operators)
            fact = _build_skew_fact_finder(spread, pods_in_domain, minimum, skew, cache(find_emptiest))
            excess = (skew - spread.constraint.max_skew).astype(np.float64)
            yield Rejection(uneven, Code.UNSCHEDULABLE, REASON, fact, excess)
            passing &= ~uneven


def _count_hypothetical_change(spread: DomainCounts, info: PodInfo, view: Fork, delta: Delta) -> Counts | None:
    """Return (N,) by how much the count of each node's domain changes. Terminating pods count here, as upstream."""
    if not delta:
        return None
    selected = view.pods.matching(spread.constraint.selector, frozenset((info.namespace,)))
    return np.where(spread.eligible, delta.counts(selected, len(view.nodes)), 0)


def _two_smallest(counts: Counts, exists: Bools) -> tuple[int, int, int]:
    """Return the smallest count of an existing domain, the second smallest (equal if tied), and the index of the
    first.
    """
    limited = np.where(exists, counts, NO_MINIMUM)
    index = int(limited.argmin())
    smallest = int(limited[index])
    limited[index] = NO_MINIMUM
    return smallest, int(limited.min()), index


def _build_missing_label_fact(spread: DomainCounts) -> Callable[[int], TopologyLabelMissing]:
    """Return a function from a node's row to the fact that the topology label is missing."""
    fact = TopologyLabelMissing(spread.constraint.topology_key)
    return lambda row: fact


def _build_skew_fact_finder(
    spread: DomainCounts,
    pods_in_domain: Counts,
    minimum: Counts,
    skew: Counts,
    find_emptiest: Callable[[int], EmptiestDomain | None],
) -> Callable[[int], TooSkewed]:
    """Return a function from a node's row to the fact behind its rejection.

    `pods_in_domain`, `minimum` and `skew` are (N,). `find_emptiest` gets the number of pods of the emptiest domain.
    """
    constraint, column, domains = spread.constraint, spread.column, int(spread.exists.sum())

    def build_fact(row: int) -> TooSkewed:
        too_few_domains = domains < constraint.min_domains
        return TooSkewed(
            key=constraint.topology_key,
            domain=column.values[column.codes[row]],
            pods=int(pods_in_domain[row]),
            fewest=int(minimum[row]),
            skew=int(skew[row]),
            max_skew=constraint.max_skew,
            domains=domains,
            min_domains=constraint.min_domains,
            emptiest=None if too_few_domains else find_emptiest(int(minimum[row])),
        )

    return build_fact


def find_emptiest_domain(
    spread: DomainCounts, info: PodInfo, view: Fork, comparison_operators: bool, fewest: int
) -> EmptiestDomain | None:
    """Return the first domain with the fewest pods, preferably one that the pod could go to.

    A domain that the pod's taints and node selection leave out explains the skew only if all of the emptiest domains
    are left out: otherwise the skew would stay the same without that domain.
    """
    emptiest = spread.exists & (spread.counts == fewest)
    if not emptiest.any():
        return None
    selected = match_required_affinity(view.nodes, compile_required_node_affinity(info.spec))
    taints, set_of_node = find_untolerated_taints(view.nodes, info.spec.tolerations, comparison_operators)
    usable_nodes = spread.eligible & selected & np.array([taint is None for taint in taints], np.bool_)[set_of_node]
    usable = emptiest & (spread.column.counts(np.flatnonzero(usable_nodes)) > 0)
    domains = np.flatnonzero(usable if usable.any() else emptiest)
    name, equally_empty = spread.column.values[domains[0]], int(emptiest.sum()) - 1
    if usable.any():
        return EmptiestDomain(name, equally_empty)
    row = int(np.flatnonzero(spread.eligible & (spread.column.codes == domains[0]))[0])
    taint = taints[set_of_node[row]] if selected[row] else None
    policy = "nodeAffinityPolicy" if taint is None else "nodeTaintsPolicy"
    return EmptiestDomain(name, equally_empty, policy, view.nodes.names[row], "" if taint is None else str(taint))
