"""The distribution of workloads over topology domains, their spread constraints, and the effect of losing a domain.

Pods are counted as the plugin counts them for a pod of the workload, by nodeAffinityPolicy, nodeTaintsPolicy,
matchLabelKeys and minDomains. Upstream: calPreFilterState and Filter in plugins/podtopologyspread/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Counts, Ints, Rows
from kschedctl.api.labels import SelectorError
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.commands.audit.topology.report import BrokenDomain, LostDomain, SpreadPromise, WorkloadDomains
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, NAME, SOFT, SpreadConstraint
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import (
    DomainCounts,
    compute_constraint_skew,
    count_pods_per_domain,
    find_emptiest_domain,
)
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.snapshot.pod_info import PodInfo

MAX_LOSSES = 20
"""The maximum number of domains for which each loss is reported. With more, only that of the fullest domain is."""


@dataclass(frozen=True)
class TopologyDomains:
    """The domains of a topology key."""

    key: str
    names: Sequence[str]
    """The names of the V domains."""
    codes: Ints | Rows
    """The domain of each node, -1 for none, shape (N,)."""

    @classmethod
    def from_view(cls, key: str, view: Fork) -> TopologyDomains:
        """Return the domains of a topology key. For kubernetes.io/hostname every node is a domain."""
        if key == HOSTNAME:
            return cls(key, view.nodes.names, view.nodes.rows)
        column = view.nodes.label(key)
        return cls(key, column.values, column.codes)

    @property
    def with_nodes(self) -> Bools:
        """A mask (V,) of the domains that have nodes."""
        is_used: Bools = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names)) > 0
        return is_used


@dataclass(frozen=True)
class DomainPlacement:
    """The pods of W workloads by topology domain, as E pairs of a workload and a domain, sorted by workload."""

    domains: TopologyDomains
    size: int
    """The number of domains with nodes."""
    starts: Rows
    """The first pair of each workload, shape (W + 1,)."""
    domain: Rows
    """The domain of each pair, shape (E,)."""
    pods: Counts
    """The number of pods of each pair, shape (E,)."""

    @classmethod
    def from_workloads(cls, domains: TopologyDomains, workloads: Workloads) -> DomainPlacement:
        """Count the pods of each workload in each domain. Pods on nodes without a domain are not counted."""
        codes = domains.codes[workloads.row_by_pod].astype(np.int64)
        has_domain = codes >= 0
        # pairs of workload and domain, coded as one number
        domain_count = max(len(domains.names), 1)
        coded_pairs = workloads.workload_by_pod[has_domain] * domain_count + codes[has_domain]
        pairs, counts = np.unique(coded_pairs, return_counts=True)
        return cls(
            domains=domains,
            size=int(domains.with_nodes.sum()),
            starts=np.searchsorted(pairs // domain_count, np.arange(len(workloads) + 1)),
            domain=pairs % domain_count,
            pods=counts,
        )

    @property
    def used(self) -> Counts:
        """The number of domains with pods of each workload, shape (W,)."""
        return np.diff(self.starts)

    def find_single_domain_workloads(self, workloads: Workloads) -> Bools:
        """Return a mask (W,) of the workloads whose pods are all in one domain.

        A workload with a pod on a node without a domain does not count.
        """
        workload_by_pair = np.repeat(np.arange(len(workloads)), self.used)
        pods_in_domains = np.zeros(len(workloads), np.int64)
        np.add.at(pods_in_domains, workload_by_pair, self.pods)
        has_all_in_one: Bools = (self.used == 1) & (pods_in_domains == workloads.pods)
        return has_all_in_one

    def build_report(self, workload: int, pods: int) -> WorkloadDomains:
        """Build the report about the distribution of a workload over domains, the fullest domain first.

        `pods` is the number of the workload's pods. The report includes the effect of losing each domain. If there are
        more than MAX_LOSSES domains, only the loss of the fullest is included.
        """
        # The entries of the workload, one for each of its domains
        entries = slice(self.starts[workload], self.starts[workload + 1])
        pods_by_domain, domains = self.pods[entries], self.domain[entries]
        fullest_first = np.argsort(-pods_by_domain, kind="stable")
        counts = pods_by_domain[fullest_first].tolist()
        names = [self.domains.names[domain] for domain in domains[fullest_first].tolist()]

        losses = []
        loss_count = len(counts) if self.size <= MAX_LOSSES else min(len(counts), 1)
        for lost in range(loss_count):
            other_counts = counts[:lost] + counts[lost + 1 :]
            losses.append(LostDomain(names[lost], counts[lost], compute_skew(other_counts, self.size - 1)))
        return WorkloadDomains(
            key=self.domains.key,
            domains=self.size,
            used=len(counts),
            unlabelled=pods - sum(counts),
            skew=compute_skew(counts, self.size),
            most=names[0] if names else "",
            most_pods=counts[0] if counts else 0,
            losses=tuple(losses),
        )


def compute_skew(counts: Sequence[int], domains: int) -> int:
    """Return the difference between the most and the fewest pods of a domain.

    `counts` are the pods in the domains that have some, `domains` is the number of all domains.

    >>> compute_skew([3, 1], 2), compute_skew([3, 1], 3), compute_skew([], 2)
    (2, 3, 0)
    """
    if not counts:
        return 0
    return max(counts) - (min(counts) if len(counts) >= domains else 0)


INDEPENDENT_POD_KINDS = frozenset({"DaemonSet", "Node", "Job"})
"""Owner kinds whose pods do not replace each other: they run once per node, or end."""
MIN_PODS = 2
"""The number of pods on nodes from which a workload is examined."""


@dataclass(frozen=True)
class Workloads:
    """The W workloads with at least two pods on nodes, and their M pods."""

    owners: tuple[Owner, ...]
    workload_by_pod: Rows
    """The workload of each pod, shape (M,)."""
    row_by_pod: Rows
    """The node row of each pod, shape (M,)."""
    pods: Counts
    """The number of pods of each workload, shape (W,)."""
    infos_by_workload: tuple[tuple[int, ...], ...]
    """The numbers of the PodInfos of each workload, the most frequent first."""

    @classmethod
    def from_view(cls, view: Fork) -> Workloads:
        """Return the workloads with at least MIN_PODS pods on nodes, ordered by kind, namespace and name."""
        # Give each workload a code. Pods without a workload have -1.
        owner_by_info = _find_replicated_owners(view)
        all_owners = sorted({owner for owner in owner_by_info if owner is not None})
        code_by_owner = {owner: code for code, owner in enumerate(all_owners)}
        code_by_info = np.array([-1 if owner is None else code_by_owner[owner] for owner in owner_by_info], np.int64)

        # Find the workloads with enough pods on nodes.
        code_by_pod = code_by_info[view.pods.info]
        bound_positions = np.flatnonzero(view.mask_placed() & (code_by_pod >= 0))
        bound_codes = code_by_pod[bound_positions]
        has_enough_pods = np.bincount(bound_codes, minlength=len(all_owners)) >= MIN_PODS

        # Number these workloads from 0 without gaps.
        number_by_code = np.cumsum(has_enough_pods) - 1
        workload_count = int(has_enough_pods.sum())
        positions = bound_positions[has_enough_pods[bound_codes]]
        workload_by_pod = number_by_code[code_by_pod[positions]]
        infos = view.pods.info[positions]
        return cls(
            owners=tuple(all_owners[code] for code in np.flatnonzero(has_enough_pods).tolist()),
            workload_by_pod=workload_by_pod,
            row_by_pod=view.node[positions].astype(np.int64),
            pods=np.bincount(workload_by_pod, minlength=workload_count),
            infos_by_workload=_group_infos_by_workload(infos, workload_by_pod, workload_count),
        )

    def __len__(self) -> int:
        return len(self.owners)

    def get_main_info(self, workload: int) -> int:
        """Return the number of the PodInfo that most pods of a workload have."""
        return self.infos_by_workload[workload][0]


def _find_replicated_owners(view: Fork) -> list[Owner | None]:
    """Return the owner of each PodInfo, or None if no controller would recreate the pods or they are terminating."""
    owners: list[Owner | None] = []
    for info in view.pods.infos:
        controller = find_controller(info.pod.metadata)
        is_replicated = controller is not None and controller.kind not in INDEPENDENT_POD_KINDS and not info.terminating
        owners.append(find_owner(info.pod) if is_replicated else None)
    return owners


def _group_infos_by_workload(
    info_by_pod: Ints, workload_by_pod: Rows, workload_count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the PodInfos of each workload, the PodInfo with the most pods first.

    `info_by_pod` and `workload_by_pod` have the PodInfo and the workload of each pod.
    """
    numbers, first_pods, counts = np.unique(info_by_pod, return_index=True, return_counts=True)
    infos_by_workload: list[list[int]] = [[] for _ in range(workload_count)]
    for index in np.argsort(-counts, kind="stable").tolist():
        workload = workload_by_pod[first_pods[index]]  # all pods with a PodInfo belong to the same workload
        infos_by_workload[workload].append(int(numbers[index]))
    return tuple(map(tuple, infos_by_workload))


class WorkloadConstraint(NamedTuple):
    """A spread constraint of a workload's pods."""

    workload: int
    """The number of the workload."""
    report: SpreadPromise


def iter_constraint_reports(scheduler: Scheduler, workloads: Workloads) -> Iterator[WorkloadConstraint]:
    """Yield a report about each distinct spread constraint of the workloads' pods.

    Pods are left out if no profile serves them, or if their profile does not run PodTopologySpread.
    """
    for workload, numbers in enumerate(workloads.infos_by_workload):
        seen_constraints: set[tuple[str, SpreadConstraint]] = set()  # filled by _iter_new_constraints
        for number in numbers:
            info = scheduler.view.pods.infos[number]
            if not info.spec.topology_spread_constraints:
                continue
            for when_unsatisfiable, domain_counts in _iter_new_constraints(scheduler, info, seen_constraints):
                owner = str(workloads.owners[workload])
                report = _build_constraint_report(owner, when_unsatisfiable, domain_counts, info)
                report = _explain_unusable_domain(report, domain_counts, info, scheduler.view)
                yield WorkloadConstraint(workload, report)


def _explain_unusable_domain(
    constraint: SpreadPromise, domain_counts: DomainCounts, info: PodInfo, view: Fork
) -> SpreadPromise:
    """Return the constraint with the reason why its emptiest domain counts although that domain takes no pods.

    The constraint is returned unchanged if it holds, if it has too few domains, or if its emptiest domain can take
    pods.
    """
    if constraint.holds or constraint.domains < constraint.min_domains:
        return constraint
    emptiest = find_emptiest_domain(domain_counts, info, view, comparison_operators=False, fewest=constraint.least_pods)
    if emptiest is None or not emptiest.policy:
        return constraint
    reason = emptiest.explain_policy()
    return replace(constraint, least=emptiest.domain, least_why=reason, least_policy=emptiest.policy)


def _iter_new_constraints(
    scheduler: Scheduler, info: PodInfo, seen_constraints: set[tuple[str, SpreadConstraint]]
) -> Iterator[tuple[str, DomainCounts]]:
    """Yield the spread constraints of a pod that are not in `seen_constraints`, and add them to this set.

    Each constraint is yielded as its whenUnsatisfiable and the numbers of pods in its domains. Nothing is yielded for a
    pod that no profile serves, or whose selector is invalid.
    """
    framework = scheduler.find_framework(info.spec.scheduler_name)
    plugin = framework.plugins.get(NAME) if framework else None
    if not isinstance(plugin, PodTopologySpread):
        return
    view, settings = scheduler.view, plugin.settings
    for when_unsatisfiable in (HARD, SOFT):
        try:
            constraints = settings.get_constraints(info, view, when_unsatisfiable)
        except SelectorError:
            continue  # a pod with an invalid selector cannot be scheduled at all, and lint reports it
        for constraint in constraints:
            if (when_unsatisfiable, constraint) not in seen_constraints:
                seen_constraints.add((when_unsatisfiable, constraint))
                yield when_unsatisfiable, count_pods_per_domain(constraint, constraints, settings, info, view)


def _build_constraint_report(
    workload: str, when_unsatisfiable: str, domain_counts: DomainCounts, info: PodInfo
) -> SpreadPromise:
    """Build the report on how a workload's pods are spread over the domains of one of its spread constraints.

    The names of the fullest and the emptiest domain are empty if there are no domains.
    """
    constraint, names = domain_counts.constraint, domain_counts.column.values
    existing_domains = np.flatnonzero(domain_counts.exists)
    fullest_first_order = np.argsort(-domain_counts.counts[existing_domains], kind="stable")
    fullest_first = existing_domains[fullest_first_order]
    counts = domain_counts.counts[fullest_first]
    fullest = names[fullest_first[0]] if len(counts) else ""
    emptiest = names[fullest_first[-1]] if len(counts) else ""
    skew = compute_constraint_skew(counts, constraint)
    is_hard = when_unsatisfiable == HARD and constraint.selects(info)
    match_label_keys = {
        key
        for written in info.spec.topology_spread_constraints
        if (written.topology_key, written.when_unsatisfiable) == (constraint.topology_key, when_unsatisfiable)
        for key in written.match_label_keys
    }
    return SpreadPromise(
        workload=workload,
        key=constraint.topology_key,
        when_unsatisfiable=when_unsatisfiable,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        match_label_keys=tuple(sorted(match_label_keys)),
        min_domains_set=constraint.min_domains > 1,
        domains=len(counts),
        pods=int(counts.sum()),
        skew=skew,
        holds=skew <= constraint.max_skew,
        most=fullest,
        most_pods=int(counts[0]) if len(counts) else 0,
        least=emptiest,
        least_pods=int(counts[-1]) if len(counts) else 0,
        losses=tuple(_iter_domain_losses(names, fullest_first, counts, constraint, is_hard=is_hard)),
    )


def _iter_domain_losses(
    names: Sequence[str], domains: Rows, counts: Counts, constraint: SpreadConstraint, *, is_hard: bool
) -> Iterator[BrokenDomain]:
    """Yield the effects of losing each domain that has pods.

    If there are more than MAX_LOSSES domains, only the fullest is considered. `domains` holds indices into `names`, the
    fullest domain first, and `counts` holds the number of pods in each of these domains. Pods are stranded if a hard
    constraint then leaves them no node.
    """
    max_losses = len(counts) if len(counts) <= MAX_LOSSES else 1
    for i in np.flatnonzero(counts[:max_losses]).tolist():
        remaining_counts = np.delete(counts, i)
        lost = int(counts[i])
        stranded = stranded_while_down = 0
        if is_hard:
            stranded = count_stranded_pods(remaining_counts, lost, constraint, unusable_domains=0)
            # unless nodeTaintsPolicy leaves it out, a domain whose nodes are down counts with 0 pods
            unusable_domains = 0 if constraint.honor_taints else 1
            stranded_while_down = count_stranded_pods(
                remaining_counts, lost, constraint, unusable_domains=unusable_domains
            )
        yield BrokenDomain(
            domain=names[domains[i]],
            lost=lost,
            skew=compute_constraint_skew(remaining_counts, constraint),
            stranded=stranded,
            stranded_while_down=stranded_while_down,
        )


def count_stranded_pods(
    remaining_counts: Counts, lost: int, constraint: SpreadConstraint, unusable_domains: int
) -> int:
    """Return how many of the pods of a lost domain fit in none of the remaining domains.

    `remaining_counts` are the numbers of pods in the remaining domains. `unusable_domains` is the number of further
    domains that count but take no pods. With such a domain, or with fewer domains than minDomains, the minimum is 0 and
    no domain gets more than maxSkew pods. Otherwise the emptiest domain can always take another pod.
    """
    if len(remaining_counts) and not unusable_domains and len(remaining_counts) >= constraint.min_domains:
        return 0
    return max(lost - int(np.maximum(constraint.max_skew - remaining_counts, 0).sum()), 0)
