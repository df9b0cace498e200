"""What a set of nodes has to offer, as numbers: pods that are alike, what they ask for, and which shapes take them.

What pods need of each other, such as spreading across zones, is not in it; the replays tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.snapshot.pod_info import PodInfo

Table = npt.NDArray[np.float64]
Counts = Mapping[str, int]
"""Shape -> how many of its nodes."""
SAFE = 1e-7
"""A share of a bound that may be rounding."""
FINEST = 4
"""Up to so many pods that share a node fill it in steps of their own, see ``PackingProgram.measures``."""
OF_ONE_POD = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
"""Labels that tell pods of a workload apart."""


class Cut(NamedTuple):
    """Nodes of a set, each worth ``worth`` of its shape (S,), are worth ``least`` together, or it does not take all."""

    worth: Table
    least: float

    def holds(self, nodes: Table) -> Bools:
        """(..., S) nodes of each shape -> (...): whether such a set may take all pods."""
        enough: Bools = nodes @ self.worth >= self.least * (1 - SAFE)
        return enough


class Starts(NamedTuple):
    """``sets`` to begin with, the most promising first; ``bound``: what any set costs at least; ``cuts``: more that
    holds of any.
    """

    sets: list[Counts]
    bound: float
    cuts: Sequence[Cut] = ()


@dataclass(frozen=True, eq=False)
class PackingProgram:
    """G groups of pods, S shapes, R resources.

    ``names`` and ``costs`` (S,), ``offered`` (S, R): what a node has for pods; ``requested`` (G, R); ``takes`` (G, S):
    which shapes take a pod of a group alone; ``apart`` (G,): no two of a group share a node. ``group_of``: by pod.
    ``shared``: resources, of R, that all pods have a part of, cpu and memory.
    """

    names: tuple[str, ...]
    costs: Table
    offered: npt.NDArray[np.int64]
    requested: npt.NDArray[np.int64]
    takes: Bools
    apart: Bools
    group_of: Mapping[str, int]
    shared: Sequence[int] = ()

    @cached_property
    def pods(self) -> Table:
        """(G,): how many pods there are of each group."""
        return self.counted(self.group_of)

    def counted(self, keys: Iterable[str]) -> Table:
        """(G,): how many of these pods are of each group."""
        groups = [self.group_of[key] for key in keys]
        return np.bincount(groups, minlength=len(self.requested)).astype(np.float64)

    def asked(self, pods: Table) -> Table:
        """(R,): what so many pods (G,) of the groups request together."""
        return np.asarray(pods @ self.requested.astype(np.float64))

    def cost(self, counts: Counts) -> float:
        """What the nodes of a set cost, each where it is cheapest."""
        return float(sum(self.costs[self.names.index(name)] * number for name, number in counts.items()))

    def with_slack(self, slack: float) -> PackingProgram:
        """The same, with such a share of what nodes offer of ``shared`` resources left free."""
        return self.filled_to(np.full(len(self.names), 1 - slack))

    def filled_to(self, full: Table) -> PackingProgram:
        """The same with nodes that offer such a share (S,) of their ``shared`` resources."""
        offered = self.offered.copy()
        offered[:, self.shared] = (offered[:, self.shared] * full[:, None]).astype(np.int64)
        return replace(self, offered=offered)

    def cuts(self) -> list[Cut]:
        """The nodes of a set offer of each resource what all pods request that some shape takes."""
        asked = self.asked(np.where(self.takes.any(axis=1), self.pods, 0.0))
        some = np.flatnonzero(asked).tolist()
        return [Cut(self.offered[:, at].astype(np.float64), float(asked[at])) for at in some]

    def among(self, waiting: Mapping[str, tuple[str, ...]]) -> PackingProgram:
        """The same for some of the pods, each of which these shapes take now."""
        groups: dict[tuple[int, tuple[str, ...]], int] = {}
        group_of = {
            key: groups.setdefault((self.group_of[key], takers), len(groups)) for key, takers in waiting.items()
        }
        kept = [group for group, _ in groups]
        takes = np.array([np.isin(self.names, takers) for _, takers in groups], np.bool_)
        return replace(self, requested=self.requested[kept], takes=takes, apart=self.apart[kept], group_of=group_of)

    def taking(self, names: Iterable[str]) -> Bools:
        """(G, S): which shapes take whom; for pods that shapes of these ``names`` take those alone."""
        among: Bools = self.takes & np.asarray(np.isin(self.names, list(names)))
        alone = np.asarray(among.any(axis=1))
        return np.where(alone[:, None], among, self.takes)

    def undominated(self, takes: Bools) -> Bools:
        """(S,): the shapes, less those of which another offers as much for no more to as many; ``takes`` (G, S)."""
        kept = np.ones(len(self.costs), np.bool_)
        for at in np.argsort(-self.costs, kind="stable").tolist():
            no_less = (self.offered >= self.offered[at]).all(axis=1) & (self.costs <= self.costs[at]) & kept
            no_less &= (takes >= takes[:, [at]]).all(axis=0)
            no_less[at] = False
            kept[at] = not no_less.any()
        return kept

    @cached_property
    def measures(self) -> list[Table]:
        """(G, S) each: by what a pod of a group fills a node of a shape, of which no node holds more than 1 together.

        Its share of each resource; and that share in steps of 1/k, as what is larger than a (k+1)th of a node fits into
        it k times at most: a dual feasible function, as in Fekete and Schepers, "New classes of fast lower bounds for
        bin packing problems" (2001).
        """
        measures = []
        for resource in np.flatnonzero(self.requested.any(axis=0)).tolist():
            asked, offered = self.requested[:, resource, None], np.maximum(self.offered[:, resource], 1)
            share = np.where(self.takes, np.minimum(asked / offered, 1.0), 0.0)
            measures.append(share)
            for k in range(1, FINEST + 1):
                whole, rest = np.divmod((k + 1) * asked, offered)
                steps = np.where(self.takes, np.where(rest == 0, share, np.minimum(whole / k, 1.0)), 0.0)
                if (steps > share).any():
                    measures.append(steps)
        return measures

    def alone(self, pods: Table) -> npt.NDArray[np.int64]:
        """(S,): how many nodes of each shape the pods (G,) that it takes need at least, where no other has any."""
        mine = self.takes * pods[:, None]
        least = np.zeros(len(self.names))
        for measure in self.measures:
            least = np.maximum(least, (measure * mine).sum(axis=0))
        least = np.maximum(least, (self.apart[:, None] * mine).max(axis=0, initial=0.0))
        needed: npt.NDArray[np.int64] = np.ceil(least - 1e-9).astype(np.int64)
        return np.maximum(needed, mine.any(axis=0))


def program_of(
    view: Fork, shapes: Mapping[str, int], costs: Mapping[str, float], takers: Mapping[str, tuple[str, ...]]
) -> PackingProgram:
    """``shapes``: name -> the row of such a node in ``view``; ``takers``: by pod, which shapes take it alone."""
    names = tuple(shapes)
    offered = np.maximum(view.allocatable - view.requested, 0)[list(shapes.values())]
    rows: dict[Hashable, int] = {}
    requested: list[Amounts] = []
    takes, apart, group_of, likes = list[list[bool]](), list[bool](), dict[str, int](), list(_likes(view))
    for key, taking in takers.items():
        number = int(view.pods.info[view.pods.index[key]])
        like = likes[number]
        group = rows.setdefault((view.requests[number].tobytes(), taking, like), len(rows))
        if group == len(requested):
            requested.append(view.requests[number])
            takes.append([name in taking for name in names])
            apart.append(like is not None)
        group_of[key] = group
    amounts = np.array(requested, np.int64).reshape(len(rows), view.requests.shape[1])
    amounts[:, view.resources[PODS]] = 1
    taken = np.array(takes, np.bool_).reshape(len(rows), len(names))
    taken &= (amounts[:, None, :] <= offered[None, :, :]).all(axis=2)  # where other pods may let it in, too
    some = np.array([max(costs[name], 1e-9) for name in names])
    shared = [view.resources[name] for name in (CPU, MEMORY)]
    return PackingProgram(names, some, offered, amounts, taken, np.array(apart, np.bool_), group_of, shared)


def _likes(view: Fork) -> Iterator[Hashable]:
    """(T,): equal for pods of which no two may share a node; None for others."""
    for info in view.pods.infos:
        labels = {key: value for key, value in info.labels.items() if key not in OF_ONE_POD}
        if info.host_ports or _repels(info, labels, view):
            ports = tuple(sorted(info.host_ports))
            yield (info.namespace, tuple(sorted(labels.items())), ports)
        else:
            yield None


def _repels(info: PodInfo, labels: Mapping[str, str], view: Fork) -> bool:
    """Whether it keeps pods of its own workload from its node."""
    own = (term for term in info.required_anti_affinity if term.topology_key == HOSTNAME)
    spaces = view.namespace_labels.get(info.namespace, {})
    return any(all(term.matches(info.namespace, some, spaces) for some in (labels, info.labels)) for term in own)


def named(counts: Counts) -> str:
    """The set in words, the same for equal ones."""
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
