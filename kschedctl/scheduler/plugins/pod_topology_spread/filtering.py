"""Filtering by hard constraints, and the facts behind the rejections: nodes whose domain would exceed the maximum skew.

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
from kschedctl.scheduler.framework.facts import Detail, Fact, TopologyLabelMissing
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import (
    NAME,
    SpreadConstraint,
    SpreadSettings,
    find_nodes_with_all_keys,
    restrict_domains,
    tally_matching_pods,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import Domains, LabelColumn, find_untolerated_taints, match_required_affinity
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally


class EmptiestDomain(Detail, frozen=True):
    """The domain with the fewest matching pods, and the reason why it counts although the pod cannot go there."""

    domain: str
    equally_empty: int = 0
    """The number of other domains with as few pods."""
    policy: str = ""
    """The field of the constraint that includes the domain, nodeTaintsPolicy or nodeAffinityPolicy. Empty if the pod
    fits.
    """
    node: str = ""
    """The first node of the domain, if ``policy`` is set."""
    taint: str = ""
    """A taint of the node that the pod does not tolerate."""

    def words(self, fewest: int) -> str:
        """Describe the domain and the reason why it counts, given its number of matching pods.

        >>> EmptiestDomain("b").words(0), EmptiestDomain("b", equally_empty=2).words(0)
        ('the emptiest domain b has 0', 'the emptiest domains b and 2 more have 0')
        >>> EmptiestDomain("cp1", 0, "nodeTaintsPolicy", "cp1", "master:NoSchedule").words(0)
        'cp1 (taint master:NoSchedule) counts as an empty domain, since nodeTaintsPolicy is Ignore'
        >>> EmptiestDomain("c", 1, "nodeTaintsPolicy", "n3", "sick:NoExecute").words(2)
        'c (taint sick:NoExecute of node n3) and 1 more count with 2, since nodeTaintsPolicy is Ignore'
        >>> EmptiestDomain("c", 0, "nodeAffinityPolicy", "n3").words(0)
        'c (the pod does not select node n3) counts as an empty domain, since nodeAffinityPolicy is Ignore'
        """
        and_more = f" and {self.equally_empty} more" if self.equally_empty else ""
        if not self.policy:
            verb = "s %s have" if and_more else " %s has"
            return f"the emptiest domain{verb % (self.domain + and_more)} {fewest}"
        of_node = f" of node {self.node}" if self.node != self.domain else ""
        reason = f"taint {self.taint}{of_node}" if self.taint else f"the pod does not select node {self.node}"
        role = "as empty domains" if and_more else "as an empty domain"
        if fewest:
            role = f"with {fewest}"
        verb = "count" if and_more else "counts"
        return f"{self.domain} ({reason}){and_more} {verb} {role}, since {self.policy} is Ignore"


class TooSkewed(Fact, frozen=True):
    """A topology domain that has too many matching pods compared with the emptiest domain."""

    key: str
    domain: str
    pods: int
    """The number of matching pods in the domain."""
    fewest: int
    """The global minimum: 0 if there are fewer ``domains`` than ``min_domains``."""
    skew: int
    max_skew: int
    domains: int = 0
    """The number of domains that count."""
    min_domains: int = 1
    emptiest: EmptiestDomain | None = None
    """None if the minimum counts as 0 because of ``min_domains``."""

    @property
    def has_too_few_domains(self) -> bool:
        """True if the minimum counts as 0 because there are fewer domains than minDomains."""
        return self.domains < self.min_domains

    def words(self) -> str:
        """Describe the number of pods in the domain, the resulting skew, and the reason for the low minimum.

        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, emptiest=EmptiestDomain("b")).words()
        'zone=a has 1 matching pod, the emptiest domain b has 0: skew would be 2, at most 1 is allowed'
        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, min_domains=3).words().partition("; ")[2]
        '2 domains, fewer than minDomains 3, so the minimum counts as 0: skew would be 2, at most 1 is allowed'
        """
        has = f"{self.key}={self.domain} has {self.pods} matching pod{'s' * (self.pods != 1)}"
        skew = f"skew would be {self.skew}, at most {self.max_skew} is allowed"
        if self.has_too_few_domains:
            count = f"{self.domains} domain{'s' * (self.domains != 1)}"
            return f"{has}; {count}, fewer than minDomains {self.min_domains}, so the minimum counts as 0: {skew}"
        if self.emptiest is None:
            return f"{has}, the emptiest domain {self.fewest}: {skew}"
        separator = ";" if self.emptiest.policy else ","
        return f"{has}{separator} {self.emptiest.words(self.fewest)}: {skew}"


REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"
NO_MINIMUM = 2**31 - 1


class DomainCounts(msgspec.Struct, frozen=True):
    """The counts of one constraint: V topology domains on N nodes."""

    constraint: SpreadConstraint
    column: LabelColumn
    """The topology label of the nodes, with the domain of each node."""
    eligible: Bools
    """A mask (N,) of the nodes that count."""
    exists: Bools
    """(V,) a mask of the domains with an eligible node."""
    counts: Counts
    """(V,) the number of matching pods on the eligible nodes of each domain."""

    def compute_counts_and_minimum(self, change: Counts | None) -> tuple[Counts, Counts]:
        """Return the pods in each node's domain and the global minimum, both (N,), after a hypothetical change.

        `change` (N,) is the change in the number of pods of each node's domain.
        """
        domain = self.column.codes
        if not self.exists.any():
            return np.zeros(len(domain), np.int64), self._apply_min_domains(np.full(len(domain), NO_MINIMUM))
        smallest, runner_up, smallest_domain = _find_two_smallest(self.counts, self.exists)
        if change is None:
            pods_in_domain = self.column.map_to_nodes(np.append(np.where(self.exists, self.counts, 0), 0))
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
    """Return a mask of the eligible nodes, a mask of the domains that have some, and the tally of matching pods.

    The masks are (N,), one per node, and (V,), one per value of the topology key.
    """
    column = view.nodes.label(constraint.topology_key)

    def find_eligible() -> tuple[Bools, Bools, Domains]:
        nodes = find_nodes_with_all_keys(constraints, view) & settings.find_included_nodes(constraint, info, view)
        domains = restrict_domains(column, nodes, constraint.topology_key, view)
        return nodes, column.count_rows(np.flatnonzero(nodes)) > 0, domains

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
        return [
            Distinction(constraint_tally.column, partial(constraint_tally.tally.bring_up_to_date, self._trail))
            for constraint_tally in self._tallies
        ]

    def rejected(self, rows: Rows) -> Bools:
        """Return a mask (F,) of the rows that a hard constraint rejects."""
        rejected = np.zeros(len(rows), np.bool_)
        for column, tally, exists, too_few_domains, max_above_minimum in self._tallies:
            counts = tally.bring_up_to_date(self._trail)
            codes = column.codes[rows]
            if not len(counts):  # no node has the label
                return np.ones(len(rows), np.bool_)
            existing_counts = counts if exists is None else counts[exists]
            minimum = 0 if too_few_domains else int(existing_counts.min())
            rejected |= counts.take(codes) - minimum > max_above_minimum
            if not column.complete:
                rejected |= codes < 0
        return rejected


def iter_rejections(
    spreads: Iterable[DomainCounts], info: PodInfo, view: Fork, delta: Delta, comparison_operators: bool = False
) -> Iterator[Rejection]:
    """Yield, for each constraint, the nodes without its label and then the nodes whose domain would exceed the skew."""
    passing = np.ones(len(view.nodes), np.bool_)
    for spread in spreads:
        missing = passing & ~spread.column.present
        if missing.any():
            yield Rejection(missing, Code.UNRESOLVABLE, REASON_NO_LABEL, _build_missing_label_fact_finder(spread))
            passing &= ~missing
        pods_in_domain, minimum = spread.compute_counts_and_minimum(
            _count_hypothetical_change(spread, info, view, delta)
        )
        skew = pods_in_domain + spread.constraint.selects(info) - minimum
        uneven = passing & (skew > spread.constraint.max_skew)
        if uneven.any():
            find_emptiest = partial(find_emptiest_domain, spread, info, view, comparison_operators)
            fact = _build_skew_fact_finder(spread, pods_in_domain, minimum, skew, cache(find_emptiest))
            excess = (skew - spread.constraint.max_skew).astype(np.float64)
            yield Rejection(uneven, Code.UNSCHEDULABLE, REASON, fact, excess)
            passing &= ~uneven


def _count_hypothetical_change(spread: DomainCounts, info: PodInfo, view: Fork, delta: Delta) -> Counts | None:
    """Return the change (N,) in the count of each node's domain. As upstream, terminating pods count here."""
    if not delta:
        return None
    selected = view.pods.matching(spread.constraint.selector, frozenset((info.namespace,)))
    return np.where(spread.eligible, delta.count_changes(selected, len(view.nodes)), 0)


def _find_two_smallest(counts: Counts, exists: Bools) -> tuple[int, int, int]:
    """Return the smallest count of an existing domain, the second smallest (equal if tied), and the index of the
    first.
    """
    limited = np.where(exists, counts, NO_MINIMUM)
    index = int(limited.argmin())
    smallest = int(limited[index])
    limited[index] = NO_MINIMUM
    return smallest, int(limited.min()), index


def _build_missing_label_fact_finder(spread: DomainCounts) -> Callable[[int], TopologyLabelMissing]:
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
    constraint, column = spread.constraint, spread.column
    domains = int(spread.exists.sum())

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

    A domain that taints or node selection exclude explains the skew only if all of the emptiest domains are excluded.
    Otherwise the skew would be the same without that domain.
    """
    emptiest = spread.exists & (spread.counts == fewest)
    if not emptiest.any():
        return None
    selected = match_required_affinity(view.nodes, compile_required_node_affinity(info.spec))
    taints, set_of_node = find_untolerated_taints(view.nodes, info.spec.tolerations, comparison_operators)
    usable_nodes = spread.eligible & selected & np.array([taint is None for taint in taints], np.bool_)[set_of_node]
    usable = emptiest & (spread.column.count_rows(np.flatnonzero(usable_nodes)) > 0)
    domains = np.flatnonzero(usable if usable.any() else emptiest)
    name = spread.column.values[domains[0]]
    equally_empty = int(emptiest.sum()) - 1
    if usable.any():
        return EmptiestDomain(name, equally_empty)
    row = int(np.flatnonzero(spread.eligible & (spread.column.codes == domains[0]))[0])
    taint = taints[set_of_node[row]] if selected[row] else None
    policy = "nodeAffinityPolicy" if taint is None else "nodeTaintsPolicy"
    return EmptiestDomain(name, equally_empty, policy, view.nodes.names[row], "" if taint is None else str(taint))
