"""The packing program: groups of similar pods, their requests, and the shapes that take them, as numbers.

Relations between pods, such as spreading across zones, are left to the replays.
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
"""The number of nodes of each shape."""
SAFE = 1e-7
"""The share of a bound that may be rounding."""
FINEST = 4
"""The largest number of pods per node for which fill steps are built, see ``PackingProgram.measures``."""
PER_POD_LABELS = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
"""Labels in which pods of one workload differ."""


class Cut(NamedTuple):
    """A necessary condition for a set: its nodes must be worth enough together."""

    worth: Table
    """The worth of a node of each shape, shape (S,)."""
    minimum: float
    """What all nodes of a set must be worth together."""

    def is_satisfied(self, nodes: Table) -> Bools:
        """Return whether sets of shape (..., S) satisfy the cut, as shape (...)."""
        enough: Bools = nodes @ self.worth >= self.minimum * (1 - SAFE)
        return enough


class Starts(NamedTuple):
    """Sets to start from, and bounds on all sets."""

    sets: list[Counts]
    """Most promising first."""
    bound: float
    """What any set costs at least."""
    cuts: Sequence[Cut] = ()
    """Conditions that every set satisfies."""


@dataclass(frozen=True, eq=False)
class PackingProgram:
    """G groups of pods, S shapes and R resources."""

    names: tuple[str, ...]
    """The shapes, (S,)."""
    costs: Table
    """(S,)."""
    offered: npt.NDArray[np.int64]
    """What a node has for pods, (S, R)."""
    requested: npt.NDArray[np.int64]
    """What a pod requests, (G, R)."""
    takes: Bools
    """Which shapes take a pod of a group that is alone, (G, S)."""
    apart: Bools
    """Whether no two pods of a group may share a node, (G,)."""
    group_of: Mapping[str, int]
    """The group of each pod."""
    shared: Sequence[int] = ()
    """The resources of R that every pod needs: cpu and memory."""

    @cached_property
    def pods(self) -> Table:
        """Return the number of pods of each group, (G,)."""
        return self.count_by_group(self.group_of)

    def count_by_group(self, keys: Iterable[str]) -> Table:
        """Return how many of the given pods are in each group, (G,)."""
        groups = [self.group_of[key] for key in keys]
        return np.bincount(groups, minlength=len(self.requested)).astype(np.float64)

    def sum_requests(self, pods: Table) -> Table:
        """Return what ``pods`` (G,) request together, (R,)."""
        return np.asarray(pods @ self.requested.astype(np.float64))

    def cost(self, counts: Counts) -> float:
        """Return the cost of a set, with each node where it is cheapest."""
        return float(sum(self.costs[self.names.index(name)] * number for name, number in counts.items()))

    def with_slack(self, slack: float) -> PackingProgram:
        """Return a program whose nodes keep a share of the ``shared`` resources free."""
        return self.filled_to(np.full(len(self.names), 1 - slack))

    def filled_to(self, full: Table) -> PackingProgram:
        """Return a program whose nodes offer only the share ``full`` (S,) of the ``shared`` resources."""
        offered = self.offered.copy()
        offered[:, self.shared] = (offered[:, self.shared] * full[:, None]).astype(np.int64)
        return replace(self, offered=offered)

    def request_cuts(self) -> list[Cut]:
        """Return a cut per resource: the nodes must offer what all placeable pods request."""
        asked = self.sum_requests(np.where(self.takes.any(axis=1), self.pods, 0.0))
        some = np.flatnonzero(asked).tolist()
        return [Cut(self.offered[:, at].astype(np.float64), float(asked[at])) for at in some]

    def restrict_to(self, waiting: Mapping[str, tuple[str, ...]]) -> PackingProgram:
        """Return a program for some of the pods, with the shapes that take each of them now."""
        groups: dict[tuple[int, tuple[str, ...]], int] = {}
        group_of = {
            key: groups.setdefault((self.group_of[key], takers), len(groups)) for key, takers in waiting.items()
        }
        kept = [group for group, _ in groups]
        takes = np.array([np.isin(self.names, takers) for _, takers in groups], np.bool_)
        return replace(self, requested=self.requested[kept], takes=takes, apart=self.apart[kept], group_of=group_of)

    def prefer_shapes(self, names: Iterable[str]) -> Bools:
        """Return which shapes take which groups (G, S), limited to the preferred ones where these take the group."""
        among: Bools = self.takes & np.asarray(np.isin(self.names, list(names)))
        alone = np.asarray(among.any(axis=1))
        return np.where(alone[:, None], among, self.takes)

    def find_undominated(self, takes: Bools) -> Bools:
        """Return which shapes have no other shape that offers as much to as many groups for no more money, (S,)."""
        kept = np.ones(len(self.costs), np.bool_)
        for at in np.argsort(-self.costs, kind="stable").tolist():
            no_less = (self.offered >= self.offered[at]).all(axis=1) & (self.costs <= self.costs[at]) & kept
            no_less &= (takes >= takes[:, [at]]).all(axis=0)
            no_less[at] = False
            kept[at] = not no_less.any()
        return kept

    @cached_property
    def measures(self) -> list[Table]:
        """Return measures of how much of a node one pod fills, each (G, S), of which a node holds at most 1 in sum.

        A measure is the pod's share of a resource, or that share in steps of 1/k: of pods larger than a (k+1)th of a
        node at most k fit. These are dual feasible functions, see Fekete and Schepers, "New classes of fast lower
        bounds for bin packing problems" (2001).
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

    def count_nodes_if_alone(self, pods: Table) -> npt.NDArray[np.int64]:
        """Return how many nodes of each shape its pods (G,) need at least if no other shape takes any, (S,)."""
        mine = self.takes * pods[:, None]
        least = np.zeros(len(self.names))
        for measure in self.measures:
            least = np.maximum(least, (measure * mine).sum(axis=0))
        least = np.maximum(least, (self.apart[:, None] * mine).max(axis=0, initial=0.0))
        needed: npt.NDArray[np.int64] = np.ceil(least - 1e-9).astype(np.int64)
        return np.maximum(needed, mine.any(axis=0))


def build_program(
    view: Fork, shapes: Mapping[str, int], costs: Mapping[str, float], takers: Mapping[str, tuple[str, ...]]
) -> PackingProgram:
    """Build the program. ``shapes`` gives the row of one node per shape in ``view``, ``takers`` the shapes of each
    pod.
    """
    names = tuple(shapes)
    offered = np.maximum(view.allocatable - view.requested, 0)[list(shapes.values())]
    rows: dict[Hashable, int] = {}
    requested: list[Amounts] = []
    takes, apart, group_of, likes = list[list[bool]](), list[bool](), dict[str, int](), list(_iter_exclusion_keys(view))
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


def _iter_exclusion_keys(view: Fork) -> Iterator[Hashable]:
    """Yield for each PodInfo a key that is equal for pods that cannot share a node, or None, (T,)."""
    for info in view.pods.infos:
        labels = {key: value for key, value in info.labels.items() if key not in PER_POD_LABELS}
        if info.host_ports or _repels_own_workload(info, labels, view):
            ports = tuple(sorted(info.host_ports))
            yield (info.namespace, tuple(sorted(labels.items())), ports)
        else:
            yield None


def _repels_own_workload(info: PodInfo, labels: Mapping[str, str], view: Fork) -> bool:
    """Return whether the pod's anti-affinity keeps pods of its own workload off its node."""
    own = (term for term in info.required_anti_affinity if term.topology_key == HOSTNAME)
    spaces = view.namespace_labels.get(info.namespace, {})
    return any(all(term.matches(info.namespace, some, spaces) for some in (labels, info.labels)) for term in own)


def format_counts(counts: Counts) -> str:
    """Format a set; equal sets give equal strings."""
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
