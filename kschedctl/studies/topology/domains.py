"""How many pods of each workload are in each domain of a topology key, in a few passes over all pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Ints, Rows
from kschedctl.reports.audit.topology import LostDomain, WorkloadDomains
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.studies.topology.workloads import Workloads

MOST_LOSSES = 20
"""Of so many domains the loss of each is told, of more that of the fullest."""


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
        found: Bools = (self.used == 1) & (whole == workloads.pods)
        return found

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
