"""Filtering by hard constraints, which reject nodes whose domain would exceed the maximum skew.

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
from kschedctl.snapshot.nodes import Domains, LabelColumn, find_untolerated_taints
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally
from kschedctl.text.counts import agreeing, counted


class EmptiestDomain(Detail, frozen=True):
    """The domain with the fewest matching pods, and the reason why it counts although the pod cannot go there."""

    domain: str
    equally_empty: int = 0
    """The number of other domains with as few pods."""
    policy: str = ""
    """The field that includes the domain, nodeTaintsPolicy or nodeAffinityPolicy, or empty if the pod can go there."""
    node: str = ""
    """The first node of the domain, if ``policy`` is set."""
    taint: str = ""
    """A taint of the node that the pod does not tolerate."""

    def describe(self, fewest: int) -> str:
        """Describe the domain and its number of matching pods. If the pod cannot go there, say why the domain counts.

        >>> EmptiestDomain("b").describe(0), EmptiestDomain("b", equally_empty=2).describe(0)
        ('the emptiest domain, b, has 0', 'the emptiest domains, b and 2 others, have 0')
        >>> print(EmptiestDomain("c", 0, "nodeAffinityPolicy", "n3").describe(0))
        the emptiest domain, c, has 0; nodeAffinityPolicy: Ignore makes c count although the pod does not select node n3
        """
        others = self.equally_empty
        if others:
            count = f"the emptiest domains, {self.domain} and {counted(others, 'other')}, have {fewest}"
        else:
            count = f"the emptiest domain, {self.domain}, has {fewest}"
        return f"{count}; {self.explain_policy()}" if self.policy else count

    def explain_policy(self) -> str:
        """Return a clause that says why the domain counts although the pod cannot go there. ``policy`` must be set.

        The clause names the taint of the domain's first node, or says that the pod does not select this node.

        >>> EmptiestDomain("cp1", 0, "nodeTaintsPolicy", "cp1", "master:NoSchedule").explain_policy()
        'nodeTaintsPolicy: Ignore makes cp1 count despite its taint master:NoSchedule'
        >>> print(EmptiestDomain("c", 1, "nodeTaintsPolicy", "n3", "sick:NoExecute").explain_policy())
        nodeTaintsPolicy: Ignore makes c count despite node n3's taint sick:NoExecute
        """
        is_domain_of_node = self.node == self.domain
        if self.taint:
            owner = "its taint" if is_domain_of_node else f"node {self.node}'s taint"
            obstacle = f"despite {owner} {self.taint}"
        else:
            rejected_node = "it" if is_domain_of_node else f"node {self.node}"
            obstacle = f"although the pod does not select {rejected_node}"
        return f"{self.policy}: Ignore makes {self.domain} count {obstacle}"


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

    def describe_node(self) -> str:
        """Describe the number of matching pods in the node's domain and in the emptiest one.

        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, emptiest=EmptiestDomain("b")).describe_node()
        'a has 1 pod, fewest is 0'
        """
        return f"{self.domain} has {counted(self.pods, 'pod')}, fewest is {self.fewest:,}"

    def describe(self) -> str:
        """Describe the number of pods in the domain, the resulting skew, and the reason for the low minimum.

        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, emptiest=EmptiestDomain("b")).describe()
        'skew would be 2, but maxSkew is 1: zone=a has 1 matching pod, and the emptiest domain, b, has 0'
        >>> TooSkewed("zone", "a", 1, 0, 2, 1, domains=2, min_domains=3).describe().partition(", and ")[2]
        'the minimum counts as 0 because there are 2 domains, fewer than minDomains 3'
        """
        pods = f"{self.key}={self.domain} has {counted(self.pods, 'matching pod')}"
        skew = f"skew would be {self.skew}, but maxSkew is {self.max_skew}"
        if self.has_too_few_domains:
            are = agreeing(self.domains, "is", "are")
            domains = f"{counted(self.domains, 'domain')}, fewer than minDomains {self.min_domains}"
            return f"{skew}: {pods}, and the minimum counts as 0 because there {are} {domains}"
        if self.emptiest is None:
            return f"{skew}: {pods}, and the emptiest domain has {self.fewest}"
        return f"{skew}: {pods}, and {self.emptiest.describe(self.fewest)}"


REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = REASON + " (missing required label)"
NO_MINIMUM = 2**31 - 1
"""Upstream's initial value of the global minimum, which stays if there are no domains."""


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
        """Return, for each node, the number of pods in its domain and the global minimum.

        `change` has the hypothetical change of the number of pods on each node, or is None if there is no change. Each
        node's values include only the change on that node. A node in no existing domain counts as having 0 pods. With
        fewer domains than minDomains, the minimum is 0.
        """
        codes = self.column.codes
        if not self.exists.any():
            return np.zeros(len(codes), np.int64), self._apply_min_domains(np.full(len(codes), NO_MINIMUM))
        smallest = _find_smallest_counts(self.counts, self.exists)
        if change is None:
            pods_by_domain = np.where(self.exists, self.counts, 0)
            pods_in_domain = self.column.map_to_nodes(np.append(pods_by_domain, 0))  # 0 for nodes without the label
            minimum = self._apply_min_domains(np.array([smallest.fewest]))
            return pods_in_domain, np.broadcast_to(minimum, pods_in_domain.shape)

        in_existing_domain = (codes >= 0) & self.exists[codes]
        pods_in_domain = np.where(in_existing_domain, self.counts[codes] + change, 0)
        # Only the count of the node's own domain changes. The minimum is either this count or that of another domain.
        minimum_elsewhere = np.where(codes == smallest.domain, smallest.second_fewest, smallest.fewest)
        minimum = np.where(in_existing_domain, np.minimum(minimum_elsewhere, pods_in_domain), smallest.fewest)
        return pods_in_domain, self._apply_min_domains(minimum)

    def _apply_min_domains(self, minimum: Counts) -> Counts:
        """Return the global minimum unchanged, or zeros if there are fewer domains than minDomains."""
        if self.exists.sum() < self.constraint.min_domains:
            return np.zeros_like(minimum)
        return minimum


def compute_constraint_skew(counts: Counts, constraint: SpreadConstraint) -> int:
    """Return the difference between the most and the fewest pods in a domain, 0 without domains.

    As in upstream, the minimum counts as 0 if there are fewer domains than minDomains.
    """
    if not len(counts):
        return 0
    minimum = 0 if len(counts) < constraint.min_domains else counts.min()
    return int(counts.max() - minimum)


def count_pods_per_domain(
    constraint: SpreadConstraint,
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
) -> DomainCounts:
    """Count the pods that match `constraint`, in each of its domains.

    A pod counts if the constraint's policies include its node, and if the node has the topology keys of all
    `constraints`.
    """
    column = view.nodes.label(constraint.topology_key)
    counting = _build_domain_counting(constraint, constraints, settings, info, view)
    counts = counting.tally.compute_current_sums(view.trail).copy()
    return DomainCounts(constraint, column, counting.eligible, exists=counting.exists, counts=counts)


class DomainCounting(NamedTuple):
    """The nodes and domains that count for a constraint, with the running count of the pods there."""

    eligible: Bools
    """(N,) a mask of the nodes that count."""
    exists: Bools
    """(V,) a mask of the domains with an eligible node, one entry per value of the topology key."""
    tally: Tally
    """The matching pods of each domain."""


def _build_domain_counting(
    constraint: SpreadConstraint,
    constraints: Sequence[SpreadConstraint],
    settings: SpreadSettings,
    info: PodInfo,
    view: Fork,
) -> DomainCounting:
    """Find the nodes and domains that count for `constraint`, and get a tally of the matching pods in these domains.

    A node counts if it has the topology keys of all `constraints` and if this constraint's policies include it. The
    nodes and domains are computed once for identical pods.
    """
    column = view.nodes.label(constraint.topology_key)

    def find_eligible() -> tuple[Bools, Bools, Domains]:
        eligible = find_nodes_with_all_keys(constraints, view) & settings.find_included_nodes(constraint, info, view)
        exists = column.count_rows(np.flatnonzero(eligible)) > 0
        return eligible, exists, restrict_domains(column, eligible, constraint.topology_key, view)

    key = (NAME, "eligible", constraint)
    eligible, exists, domains = view.memo(key, find_eligible, info)
    return DomainCounting(eligible, exists, tally_matching_pods(constraint, info, view, domains, key))


class ConstraintTally(NamedTuple):
    """The running counts of one hard constraint."""

    column: LabelColumn
    """The topology label of the nodes."""
    tally: Tally
    """The matching pods of each domain."""
    exists: Bools | None
    """(V,) a mask of the domains with an eligible node, or None if all domains have one."""
    too_few_domains: bool
    """True if the global minimum counts as 0 because there are fewer domains than minDomains."""
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
            counting = _build_domain_counting(constraint, constraints, settings, info, view)
            own_pods = 1 if constraint.selects(info) else 0
            self._tallies.append(
                ConstraintTally(
                    view.nodes.label(constraint.topology_key),
                    counting.tally,
                    None if counting.exists.all() else counting.exists,
                    too_few_domains=int(counting.exists.sum()) < constraint.min_domains,
                    max_above_minimum=constraint.max_skew - own_pods,
                )
            )

    @property
    def distinctions(self) -> list[Distinction]:
        """The topology domains that distinguish nodes, with their current counts, for each hard constraint."""
        return [
            Distinction(counted.column, partial(counted.tally.compute_current_sums, self._trail))
            for counted in self._tallies
        ]

    def mask_rejected_rows(self, rows: Rows) -> Bools:
        """Return a mask over `rows` of the nodes that a hard constraint rejects.

        A node without the label of a constraint's topology key is rejected.
        """
        rejected = np.zeros(len(rows), np.bool_)
        for constraint in self._tallies:
            counts = constraint.tally.compute_current_sums(self._trail)
            codes = constraint.column.codes[rows]
            if not len(counts):  # no node has the label
                return np.ones(len(rows), np.bool_)
            minimum = 0
            if not constraint.too_few_domains:
                existing_counts = counts if constraint.exists is None else counts[constraint.exists]
                minimum = int(existing_counts.min())
            # Code -1, of nodes without the label, takes the last count. These nodes are rejected in any case.
            rejected |= counts.take(codes) - minimum > constraint.max_above_minimum
            if not constraint.column.complete:
                rejected |= codes < 0
        return rejected


def iter_rejections(
    spreads: Iterable[DomainCounts], info: PodInfo, view: Fork, delta: Delta, comparison_operators: bool = False
) -> Iterator[Rejection]:
    """Yield the rejections of nodes without a constraint's label and of nodes that would exceed its skew.

    A node is rejected only by the first constraint that it violates. ``delta`` has the pods that are hypothetically
    added or removed. ``comparison_operators`` says whether tolerations can have comparison operators.
    """
    passing = np.ones(len(view.nodes), np.bool_)
    for spread in spreads:
        lacks_label = passing & ~spread.column.present
        if lacks_label.any():
            yield Rejection(lacks_label, Code.UNRESOLVABLE, REASON_NO_LABEL, _build_missing_label_fact_finder(spread))
            passing &= ~lacks_label

        change = _count_hypothetical_change(spread, info, view, delta)
        pods_in_domain, minimum = spread.compute_counts_and_minimum(change)
        own_pods = 1 if spread.constraint.selects(info) else 0
        skew = pods_in_domain + own_pods - minimum
        is_too_skewed = passing & (skew > spread.constraint.max_skew)
        if is_too_skewed.any():
            find_emptiest = partial(find_emptiest_domain, spread, info, view, comparison_operators)
            find_fact = _build_skew_fact_finder(spread, pods_in_domain, minimum, skew, cache(find_emptiest))
            excess = (skew - spread.constraint.max_skew).astype(np.float64)
            yield Rejection(is_too_skewed, Code.UNSCHEDULABLE, REASON, fact=find_fact, distance=excess)
            passing &= ~is_too_skewed


def _count_hypothetical_change(spread: DomainCounts, info: PodInfo, view: Fork, delta: Delta) -> Counts | None:
    """Return, for each node, by how much the hypothetical changes raise its number of matching pods.

    Return None if there are no hypothetical changes. As in upstream, terminating pods are included, unlike in the
    counts of running pods. Nodes that do not count for the constraint have 0.
    """
    if not delta:
        return None
    selected = view.pods.match_infos(spread.constraint.selector, frozenset((info.namespace,)))
    return np.where(spread.eligible, delta.count_changes(selected, len(view.nodes)), 0)


class SmallestCounts(NamedTuple):
    """The two smallest counts of existing domains."""

    fewest: int
    """The smallest count."""
    domain: int
    """The first domain with this count."""
    second_fewest: int
    """The smallest count of the other domains, or NO_MINIMUM if there is none."""


def _find_smallest_counts(counts: Counts, exists: Bools) -> SmallestCounts:
    """Return the two smallest counts of the existing domains, and the first domain with the smallest count.

    `counts` and the mask `exists` have one entry per domain. A count is NO_MINIMUM if there are too few domains.
    """
    existing_counts = np.where(exists, counts, NO_MINIMUM)
    domain = int(existing_counts.argmin())
    fewest = int(existing_counts[domain])
    existing_counts[domain] = NO_MINIMUM
    return SmallestCounts(fewest, domain, second_fewest=int(existing_counts.min()))


def _build_missing_label_fact_finder(spread: DomainCounts) -> Callable[[int], TopologyLabelMissing]:
    """Build a function that returns the fact that a node lacks the constraint's topology label, for any row."""
    fact = TopologyLabelMissing(spread.constraint.topology_key)
    return lambda row: fact


def _build_skew_fact_finder(
    spread: DomainCounts,
    pods_in_domain: Counts,
    minimum: Counts,
    skew: Counts,
    find_emptiest: Callable[[int], EmptiestDomain | None],
) -> Callable[[int], TooSkewed]:
    """Build a function that returns, for a node's row, the fact about the skew in the node's domain.

    `pods_in_domain`, `minimum` and `skew` have one entry per node. `find_emptiest` returns the domain with the given,
    lowest number of pods. It is not called if there are fewer domains than minDomains.
    """
    constraint, column = spread.constraint, spread.column
    domains = int(spread.exists.sum())
    too_few_domains = domains < constraint.min_domains

    def build_fact(row: int) -> TooSkewed:
        """Build the fact about the skew in the domain of the node at `row`."""
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
    """Return the first of the emptiest domains, those with `fewest` pods, that the pod could go to.

    If taints or the node selection keep the pod out of all these domains, return the first of them with the reason,
    because the skew would be smaller if these domains did not count. Return None if no domain has `fewest` pods.
    `comparison_operators` says whether tolerations can have comparison operators.
    """
    is_emptiest = spread.exists & (spread.counts == fewest)
    if not is_emptiest.any():
        return None
    equally_empty = int(is_emptiest.sum()) - 1  # besides the domain that is returned

    # A domain that the pod could go to
    is_selected = view.nodes.match_required_affinity(compile_required_node_affinity(info.spec))
    taint_by_set, set_of_node = find_untolerated_taints(view.nodes, info.spec.tolerations, comparison_operators)
    is_tolerated = np.array([taint is None for taint in taint_by_set], np.bool_)[set_of_node]
    usable_rows = np.flatnonzero(spread.eligible & is_selected & is_tolerated)
    is_usable = is_emptiest & (spread.column.count_rows(usable_rows) > 0)
    if is_usable.any():
        return EmptiestDomain(spread.column.values[int(is_usable.argmax())], equally_empty)

    # An excluded domain, with the reason that excludes its first node
    domain = int(is_emptiest.argmax())
    row = int((spread.eligible & (spread.column.codes == domain)).argmax())
    taint = taint_by_set[set_of_node[row]] if is_selected[row] else None
    return EmptiestDomain(
        spread.column.values[domain],
        equally_empty,
        policy="nodeAffinityPolicy" if taint is None else "nodeTaintsPolicy",
        node=view.nodes.names[row],
        taint="" if taint is None else str(taint),
    )
