"""What topology spread constraints promise, against what there is, and what they do once a domain is lost.

Counted as the plugin counts for a pod of the workload, by nodeAffinityPolicy, nodeTaintsPolicy, matchLabelKeys and
minDomains.
Upstream: calPreFilterState and Filter in plugins/podtopologyspread/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Counts, Ints, Rows
from kschedctl.api.labels import SelectorError
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.commands.audit.topology.report import BrokenDomain, LostDomain, SpreadPromise, WorkloadDomains
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, NAME, SOFT, SpreadConstraint
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import (
    DomainCounts,
    count_pods_per_domain,
    find_emptiest_domain,
)
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.pod_info import PodInfo

MOST_LOSSES = 20
"""Up to so many domains the loss of each is told, else that of the fullest."""


@dataclass(frozen=True)
class DomainsOfKey:
    """``names``: V domains; ``codes`` (N,): that of each node, -1 for none."""

    key: str
    names: Sequence[str]
    codes: Ints | Rows

    @classmethod
    def of(cls, key: str, view: Fork) -> DomainsOfKey:
        """Nodes are hosts by their names."""
        if key == HOSTNAME:
            return cls(key, view.nodes.names, view.nodes.rows)
        column = view.nodes.label(key)
        return cls(key, column.values, column.codes)

    @property
    def there(self) -> Bools:
        """(V,): the domain has nodes."""
        there: Bools = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names)) > 0
        return there


@dataclass(frozen=True)
class Placement:
    """The pods of W workloads by one key: E pairs of a workload and a domain that has some, sorted by workload.

    ``begin`` (W + 1,): where the pairs of each workload begin; ``domain`` and ``pods`` (E,).
    """

    domains: DomainsOfKey
    size: int
    begin: Rows
    domain: Rows
    pods: Counts

    @classmethod
    def of(cls, domains: DomainsOfKey, workloads: Workloads) -> Placement:
        codes = domains.codes[workloads.row].astype(np.int64)
        known, width = codes >= 0, max(len(domains.names), 1)
        pairs, counts = np.unique(workloads.of[known] * width + codes[known], return_counts=True)
        begin = np.searchsorted(pairs // width, np.arange(len(workloads) + 1))
        return cls(domains, int(domains.there.sum()), begin, pairs % width, counts)

    @property
    def used(self) -> Counts:
        """(W,): in how many domains each workload has pods."""
        return np.diff(self.begin)

    def single(self, workloads: Workloads) -> Bools:
        """(W,): all pods of the workload are in one domain."""
        whole = np.zeros(len(workloads), np.int64)
        np.add.at(whole, np.repeat(np.arange(len(workloads)), self.used), self.pods)
        single: Bools = (self.used == 1) & (whole == workloads.pods)
        return single

    def told(self, workload: int, pods: int) -> WorkloadDomains:
        """One workload, which has so many pods."""
        mine = slice(self.begin[workload], self.begin[workload + 1])
        order = np.argsort(-self.pods[mine], kind="stable")
        domains, counts = self.domain[mine][order].tolist(), self.pods[mine][order].tolist()
        names = [self.domains.names[domain] for domain in domains]
        losses = range(len(counts) if self.size <= MOST_LOSSES else min(len(counts), 1))
        return WorkloadDomains(
            key=self.domains.key,
            domains=self.size,
            used=len(counts),
            unlabelled=pods - sum(counts),
            skew=skew(counts, self.size),
            most=names[0] if names else "",
            most_pods=counts[0] if counts else 0,
            losses=tuple(
                LostDomain(names[i], counts[i], skew(counts[:i] + counts[i + 1 :], self.size - 1)) for i in losses
            ),
        )


def skew(counts: Sequence[int], domains: int) -> int:
    """The most less the fewest pods, of so many domains, those without pods among them.

    >>> skew([3, 1], 2), skew([3, 1], 3), skew([], 2)
    (2, 3, 0)
    """
    if not counts:
        return 0
    return max(counts) - (min(counts) if len(counts) >= domains else 0)


ALONE = frozenset({"DaemonSet", "Node", "Job"})
"""Whose pods are each for one node, or end."""
REPLICAS = 2


@dataclass(frozen=True)
class Workloads:
    """``owners``: W of them, with at least two pods on nodes that are not being deleted.

    Of the M pods of these: ``of`` (M,), whose each is, ``row`` (M,), on which node. ``pods`` (W,): how many there are.
    ``infos``: of each the numbers of its PodInfos, the most frequent first.
    """

    owners: tuple[Owner, ...]
    of: Rows
    row: Rows
    pods: Counts
    infos: tuple[tuple[int, ...], ...]

    @classmethod
    def of_view(cls, view: Fork) -> Workloads:
        """The workloads of a view, in order of kind, namespace and name."""
        owner = _owners(view)
        names = sorted({name for name in owner if name is not None})
        numbers = {name: number for number, name in enumerate(names)}
        code = np.array([-1 if name is None else numbers[name] for name in owner], np.int64)
        placed = np.flatnonzero((view.node >= 0) & (code[view.pods.info] >= 0))
        of = code[view.pods.info[placed]]
        enough = np.bincount(of, minlength=len(names)) >= REPLICAS
        placed, kept = placed[enough[of]], np.cumsum(enough) - 1
        of = kept[code[view.pods.info[placed]]]
        return cls(
            tuple(name for name, chosen in zip(names, enough.tolist(), strict=True) if chosen),
            of,
            view.node[placed].astype(np.int64),
            np.bincount(of, minlength=int(enough.sum())),
            _infos(view.pods.info[placed], of, int(enough.sum())),
        )

    def __len__(self) -> int:
        return len(self.owners)


def _owners(view: Fork) -> list[Owner | None]:
    """The workload of each info whose pods are one's."""
    owners: list[Owner | None] = []
    for info in view.pods.infos:
        controller = find_controller(info.pod.metadata)
        apart = controller is not None and controller.kind not in ALONE and not info.terminating
        owners.append(find_owner(info.pod) if apart else None)
    return owners


def _infos(info: Ints, of: Rows, workloads: int) -> tuple[tuple[int, ...], ...]:
    numbers, first, counts = np.unique(info, return_index=True, return_counts=True)
    infos: list[list[int]] = [[] for _ in range(workloads)]
    for position in np.argsort(-counts, kind="stable").tolist():
        infos[of[first[position]]].append(int(numbers[position]))
    return tuple(map(tuple, infos))


def promises(scheduler: Scheduler, workloads: Workloads) -> Iterator[tuple[int, SpreadPromise]]:
    """Each constraint that the workloads' pods have themselves, with whose it is; pods alike in it are told once.

    Those of pods that no profile serves, or whose profile does not run the plugin, promise nothing.
    """
    infos = scheduler.view.pods.infos
    for workload, numbers in enumerate(workloads.infos):
        known: set[tuple[str, SpreadConstraint]] = set()
        for info in (infos[number] for number in numbers if infos[number].spec.topology_spread_constraints):
            for action, counted in _counted(scheduler, info, known):
                promise = _promise(str(workloads.owners[workload]), action, counted, info)
                yield workload, _with_unusable_domain(promise, counted, info, scheduler.view)


def _with_unusable_domain(promise: SpreadPromise, counted: DomainCounts, info: PodInfo, view: Fork) -> SpreadPromise:
    """Return the promise with the reason why its emptiest domain counts, if pods of the workload cannot go there."""
    if promise.holds or promise.domains < promise.min_domains:
        return promise
    emptiest = find_emptiest_domain(counted, info, view, False, promise.least_pods)
    if emptiest is None or not emptiest.policy:
        return promise
    words = emptiest.words(promise.least_pods)
    return replace(promise, least=emptiest.domain, least_why=words, least_policy=emptiest.policy)


def _counted(
    scheduler: Scheduler, info: PodInfo, known: set[tuple[str, SpreadConstraint]]
) -> Iterator[tuple[str, DomainCounts]]:
    """The constraints of a pod that are not known yet, each with its action."""
    framework = scheduler.framework(info.spec.scheduler_name)
    plugin = framework.plugins.get(NAME) if framework else None
    if not isinstance(plugin, PodTopologySpread):
        return
    view, settings = scheduler.view, plugin.settings
    for action in (HARD, SOFT):
        try:
            constraints = settings.constraints(info, view, action)
        except SelectorError:
            continue  # such a pod cannot be scheduled at all, and lint tells why
        for constraint in constraints:
            if (action, constraint) not in known:
                known.add((action, constraint))
                yield action, count_pods_per_domain(constraint, constraints, settings, info, view)


def _promise(workload: str, action: str, counted: DomainCounts, info: PodInfo) -> SpreadPromise:
    constraint, names = counted.constraint, counted.column.values
    there = np.flatnonzero(counted.exists)
    order = there[np.argsort(-counted.counts[there], kind="stable")]
    counts = counted.counts[order]
    actual = skew_of(counts, constraint)
    return SpreadPromise(
        workload=workload,
        key=constraint.topology_key,
        when_unsatisfiable=action,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        min_domains_set=constraint.min_domains > 1,
        domains=len(counts),
        pods=int(counts.sum()),
        skew=actual,
        holds=actual <= constraint.max_skew,
        most=names[order[0]] if len(order) else "",
        most_pods=int(counts[0]) if len(order) else 0,
        least=names[order[-1]] if len(order) else "",
        least_pods=int(counts[-1]) if len(order) else 0,
        losses=tuple(_losses(names, order, counts, constraint, hard=action == HARD and constraint.selects(info))),
    )


def skew_of(counts: Counts, constraint: SpreadConstraint) -> int:
    """The most pods of a domain less the fewest, which count as 0 with fewer domains than minDomains."""
    if not len(counts):
        return 0
    return int(counts.max() - (0 if len(counts) < constraint.min_domains else counts.min()))


def _losses(
    names: Sequence[str], order: Rows, counts: Counts, constraint: SpreadConstraint, hard: bool
) -> Iterator[BrokenDomain]:
    """The losses of domains in ``order``. ``hard``: pods come back only where the constraint lets them."""
    shown = len(counts) if len(counts) <= MOST_LOSSES else 1
    for i in np.flatnonzero(counts[:shown]).tolist():
        left, lost = np.delete(counts, i), int(counts[i])
        gone = stranded(left, lost, constraint, empty=0) if hard else 0
        down = stranded(left, lost, constraint, empty=1) if hard and not constraint.honor_taints else gone
        yield BrokenDomain(
            domain=names[order[i]],
            lost=lost,
            skew=skew_of(left, constraint),
            stranded=gone,
            stranded_while_down=down,
        )


def stranded(left: Counts, lost: int, constraint: SpreadConstraint, empty: int) -> int:
    """How many of the lost pods no domain that is left may take, of which ``left`` says what they have.

    ``empty``: domains that count and take none. With one, or with fewer domains than minDomains, the fewest pods are 0,
    and no domain gets more than maxSkew; else the emptiest one always takes another.
    """
    if len(left) and not empty and len(left) >= constraint.min_domains:
        return 0
    return max(lost - int(np.maximum(constraint.max_skew - left, 0).sum()), 0)
