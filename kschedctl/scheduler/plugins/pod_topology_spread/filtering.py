"""Which nodes would make a domain exceed a hard constraint's skew.

Upstream: plugins/podtopologyspread/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.distinctions import Distinction
from kschedctl.scheduler.framework.facts import TopologyLabelMissing
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import NAME, SpreadConstraint, SpreadSettings
from kschedctl.scheduler.plugins.pod_topology_spread.domains import has_all_keys, limited, tally_of_matching
from kschedctl.scheduler.plugins.pod_topology_spread.facts import EmptiestDomain, TooSkewed
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_masks import allowed, first_untolerated
from kschedctl.snapshot.nodes import Domains, LabelColumn
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"
NO_MINIMUM = 2**31 - 1


class DomainCounts(msgspec.Struct, frozen=True):
    """One constraint on one cluster: V domains, and of N nodes which domain each is in and whether it counts.

    ``exists`` (V,): the domain has an eligible node; ``counts`` (V,): matching pods on its eligible nodes.
    """

    constraint: SpreadConstraint
    column: LabelColumn
    eligible: Bools
    exists: Bools
    counts: Counts

    def matched(self, change: Counts | None) -> tuple[Counts, Counts]:
        """(N,) each: pods in the node's domain, changed by ``change``, and the global minimum then."""
        domain = self.column.codes
        if not self.exists.any():
            return np.zeros(len(domain), np.int64), self._minimum(np.full(len(domain), NO_MINIMUM))
        smallest, runner_up, at = _two_smallest(self.counts, self.exists)
        if change is None:
            here = self.column.at_nodes(np.append(np.where(self.exists, self.counts, 0), 0))
            return here, np.broadcast_to(self._minimum(np.array([smallest])), here.shape)
        known = (domain >= 0) & self.exists[domain]
        here = np.where(known, self.counts[domain] + change, 0)
        elsewhere = np.where(domain == at, runner_up, smallest)
        minimum = np.where(known, np.minimum(elsewhere, here), smallest)
        return here, self._minimum(minimum)

    def _minimum(self, minimum: Counts) -> Counts:
        """With fewer domains than minDomains the global minimum counts as 0."""
        return np.zeros_like(minimum) if self.exists.sum() < self.constraint.min_domains else minimum


def count(
    constraint: SpreadConstraint, among: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
) -> DomainCounts:
    """Count the matching pods in each domain, on the nodes that the constraint's policies include."""
    column = view.nodes.label(constraint.topology_key)
    nodes, exists, tally = _counting(constraint, among, settings, info, view)
    return DomainCounts(constraint, column, nodes, exists, tally.brought_up(view.trail).copy())


def _counting(
    constraint: SpreadConstraint, among: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
) -> tuple[Bools, Bools, Tally]:
    """(N,) the eligible nodes, (V,) which domains have some, and the tally of their matching pods."""
    column = view.nodes.label(constraint.topology_key)

    def eligible() -> tuple[Bools, Bools, Domains]:
        nodes = has_all_keys(among, view) & settings.included(constraint, info, view)
        domains = limited(column, nodes, constraint.topology_key, view)
        return nodes, column.counts(np.flatnonzero(nodes)) > 0, domains

    key = (NAME, "eligible", constraint)
    nodes, exists, domains = view.memo(key, eligible, info)
    return nodes, exists, tally_of_matching(constraint, info, view, domains, key)


class SpreadVerdicts:
    """Of which rows hard constraints refuse pods alike, as pods are now."""

    def __init__(
        self, constraints: Sequence[SpreadConstraint], settings: SpreadSettings, info: PodInfo, view: Fork
    ) -> None:
        self._trail = view.trail
        self._parts = []
        for constraint in constraints:
            _, exists, tally = _counting(constraint, constraints, settings, info, view)
            column = view.nodes.label(constraint.topology_key)
            few = int(exists.sum()) < constraint.min_domains
            most = constraint.max_skew - constraint.selects(info)
            self._parts.append((column, tally, None if exists.all() else exists, few, most))

    @property
    def distinctions(self) -> list[Distinction]:
        return [Distinction(column, partial(tally.brought_up, self._trail)) for column, tally, *_ in self._parts]

    def rejected(self, rows: Rows) -> Bools:
        refused = np.zeros(len(rows), np.bool_)
        for column, tally, exists, few, most in self._parts:
            counts, codes = tally.brought_up(self._trail), column.codes[rows]
            if not len(counts):  # no node has the label
                return np.ones(len(rows), np.bool_)
            smallest = 0 if few else int((counts if exists is None else counts[exists]).min())
            refused |= counts.take(codes) - smallest > most
            if not column.complete:
                refused |= codes < 0
        return refused


def rejections(
    spreads: Iterable[DomainCounts], info: PodInfo, view: Fork, delta: Delta, comparison_operators: bool = False
) -> Iterator[Rejection]:
    """Yield for each constraint the nodes without its label, then those whose domain would have too many pods."""
    passing = np.ones(len(view.nodes), np.bool_)
    for spread in spreads:
        missing = passing & ~spread.column.present
        if missing.any():
            yield Rejection(missing, Code.UNRESOLVABLE, REASON_NO_LABEL, _missing_label(spread))
            passing &= ~missing
        here, minimum = spread.matched(_change(spread, info, view, delta))
        skew = here + spread.constraint.selects(info) - minimum
        uneven = passing & (skew > spread.constraint.max_skew)
        if uneven.any():
            find_emptiest = partial(find_emptiest_domain, spread, info, view, comparison_operators)
            fact = _uneven(spread, here, minimum, skew, cache(find_emptiest))
            excess = (skew - spread.constraint.max_skew).astype(np.float64)
            yield Rejection(uneven, Code.UNSCHEDULABLE, REASON, fact, excess)
            passing &= ~uneven


def _change(spread: DomainCounts, info: PodInfo, view: Fork, delta: Delta) -> Counts | None:
    """(N,): by how much the count of each node's domain changes; here upstream counts terminating pods, too."""
    if not delta:
        return None
    selected = view.pods.matching(spread.constraint.selector, frozenset((info.namespace,)))
    return np.where(spread.eligible, delta.counts(selected, len(view.nodes)), 0)


def _two_smallest(counts: Counts, exists: Bools) -> tuple[int, int, int]:
    """The smallest count of an existing domain, the second smallest (as many when tied), and where the first is."""
    limited = np.where(exists, counts, NO_MINIMUM)
    at = int(limited.argmin())
    smallest = int(limited[at])
    limited[at] = NO_MINIMUM
    return smallest, int(limited.min()), at


def _missing_label(spread: DomainCounts) -> Callable[[int], TopologyLabelMissing]:
    fact = TopologyLabelMissing(spread.constraint.topology_key)
    return lambda row: fact


def _uneven(
    spread: DomainCounts,
    here: Counts,
    minimum: Counts,
    skew: Counts,
    find_emptiest: Callable[[int], EmptiestDomain | None],
) -> Callable[[int], TooSkewed]:
    """Return a function from a node's row to the fact behind its rejection.

    ``here``, ``minimum`` and ``skew`` are (N,). ``find_emptiest`` gets the number of pods of the emptiest domain.
    """
    constraint, column, domains = spread.constraint, spread.column, int(spread.exists.sum())

    def fact(row: int) -> TooSkewed:
        too_few_domains = domains < constraint.min_domains
        return TooSkewed(
            key=constraint.topology_key,
            domain=column.values[column.codes[row]],
            pods=int(here[row]),
            fewest=int(minimum[row]),
            skew=int(skew[row]),
            max_skew=constraint.max_skew,
            domains=domains,
            min_domains=constraint.min_domains,
            emptiest=None if too_few_domains else find_emptiest(int(minimum[row])),
        )

    return fact


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
    selected = allowed(view.nodes, compile_required_node_affinity(info.spec))
    taints, taint_set = first_untolerated(view.nodes, info.spec.tolerations, comparison_operators)
    usable_nodes = spread.eligible & selected & np.array([taint is None for taint in taints], np.bool_)[taint_set]
    usable = emptiest & (spread.column.counts(np.flatnonzero(usable_nodes)) > 0)
    domains = np.flatnonzero(usable if usable.any() else emptiest)
    name, equally_empty = spread.column.values[domains[0]], int(emptiest.sum()) - 1
    if usable.any():
        return EmptiestDomain(name, equally_empty)
    row = int(np.flatnonzero(spread.eligible & (spread.column.codes == domains[0]))[0])
    taint = taints[taint_set[row]] if selected[row] else None
    policy = "nodeAffinityPolicy" if taint is None else "nodeTaintsPolicy"
    return EmptiestDomain(name, equally_empty, policy, view.nodes.names[row], "" if taint is None else str(taint))
