"""Where the pods of a snapshot are now, and all that follows from it: they come and go, the snapshot stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Amounts, Bools, Counts, Position, Row, Rows
from kschedctl.api.objects import Node, Pod
from kschedctl.cluster import Cluster
from kschedctl.snapshot.arrivals import Arrivals
from kschedctl.snapshot.closed_nodes import ClosedNodes
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.gang_history import GangHistory
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods_by_node import PodsByNode
from kschedctl.snapshot.snapshot import Settings, Snapshot
from kschedctl.snapshot.tallies import Tally
from kschedctl.snapshot.trail import Trail

TALLIES_KEPT, MEMOS_KEPT = 1024, 4096
Memo: TypeAlias = dict[Hashable, Any]
"""What was made, by its name."""
Weigh: TypeAlias = Callable[[], Counts]
WHAT_SELECTS = ("namespaces", "services", "replication_controllers", "replica_sets", "stateful_sets")
"""The fields of a cluster that say which pods belong together."""
K = TypeVar("K")
V = TypeVar("V")


class Fork:
    """A snapshot whose pods can be moved by ``assume`` and ``forget``. This is what plugins look at.

    ``node`` (P,): the row of the node that each pod is on, -1 for none. ``objects``: the others as they are now, when
    claims are bound and budgets are spent. ``trail``: what happened, in order; ``touched`` (N,): how long it was after
    the last move to or from each node. ``nominations``, (M,) each: rows that were promised, and the positions of the
    pods that wait for them. ``preempting``: the pods, as ``namespace/name``, whose victims are being evicted.
    ``arrivals`` tells who came to a node when; ``time_passes``: the present is later at each look.
    ``absent`` (P,): pods that did not come yet, or are gone for good; None for none.
    ``placement`` (N,): the only nodes that may run pods while a pod group is tried on some, None for all.
    ``closed``: nodes that take no more pods, besides those cordoned in the snapshot; None for none.
    ``group_since``: in the cycle of a pod group, how long the trail was when it began; else None.
    ``gang_history``: what became of gangs, where a queue is worked off; else None.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.nodes, self.pods = snapshot, snapshot.nodes, snapshot.pods
        self.objects = ClusterObjects(snapshot.cluster, snapshot.indexes)
        self.node = snapshot.node.copy()
        self.trail = Trail()
        self.time_passes = True
        self.touched = np.zeros(len(self.nodes), np.int64)
        self.absent: Bools | None = None
        self.placement: Bools | None = None
        self.group_since: int | None = None
        self.closed: ClosedNodes | None = None
        self.gang_history: GangHistory | None = None
        self._arrivals: Arrivals | None = None
        self._by_node: PodsByNode | None = None
        self._tallies: dict[Hashable, Tally] = {}
        self.preempting: set[str] = set()
        self._ahead: dict[int, Delta] = {}
        self._promises: dict[int, int] | None = None
        self._memo: Memo = {}
        self._memo_of_pods: Memo = {}

    @classmethod
    def of(cls, cluster: Cluster, settings: Settings = Settings()) -> Fork:
        """The fork of a cluster's snapshot."""
        return cls(Snapshot.of(cluster, settings))

    def fork(self) -> Fork:
        """A copy that goes its own way; what plugins compute once serves both."""
        requested, nonzero_requested = self.requested, self.nonzero_requested  # made once
        other = copy(self)
        other.node, other.touched, other.trail = self.node.copy(), self.touched.copy(), self.trail.copy()
        other._arrivals = self._arrivals and self._arrivals.copy()
        other.requested, other.nonzero_requested = requested.copy(), nonzero_requested.copy()
        other._tallies = {key: tally.copy() for key, tally in self._tallies.items()}
        other._ahead, other.preempting = dict(self._ahead), set(self.preempting)
        other._promises = other._by_node = None
        other.objects = self.objects.fork()
        return other

    def without(self, gone: Bools) -> Fork:
        """A fork that lacks some nodes (N,); the pods on them have no node there."""
        other = Fork(self.snapshot.without(gone, self.cluster, self.node))
        other.pods, other._memo_of_pods = self.pods, self._memo_of_pods
        other.requested, other.nonzero_requested = self.requested[~gone], self.nonzero_requested[~gone]
        return other

    def changed(self, cluster: Cluster, nodes: Mapping[Row, Node] = {}, more: Sequence[tuple[Row, Node]] = ()) -> Fork:
        """A fork with the objects of another cluster, whose pods are these: see ``Snapshot.changed``."""
        other = Fork(self.snapshot.changed(cluster, self.node, nodes, more))
        other.pods = self.pods
        if all(getattr(self.cluster, field) is getattr(cluster, field) for field in WHAT_SELECTS):
            other._memo_of_pods = self._memo_of_pods
        empty = np.zeros((len(more), self.requested.shape[1]), np.int64)
        other.requested = np.concatenate((self.requested, empty))
        other.nonzero_requested = np.concatenate((self.nonzero_requested, empty))
        return other

    # -- the snapshot's columns ----------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """All objects as they are now, but the pods and the nodes, which are as they were."""
        return self.objects.cluster

    @property
    def settings(self) -> Settings:
        return self.snapshot.settings

    @property
    def in_placement(self) -> Bools:
        """(N,): the nodes that may run pods."""
        return np.ones(len(self.nodes), np.bool_) if self.placement is None else self.placement

    @property
    def nodes_in_placement(self) -> int:
        """How many these are."""
        return len(self.nodes) if self.placement is None else int(self.placement.sum())

    @property
    def arrivals(self) -> Arrivals:
        """Up to now; it holds until the next move."""
        if self._arrivals is None:
            self._arrivals = Arrivals(self.snapshot.node.copy())
        return self._arrivals.brought_up(self.trail, len(self.pods))

    @cached_property
    def nominations(self) -> tuple[Rows, Rows]:
        rows, positions = self.snapshot.nominations
        return rows[~self._held_back], positions[~self._held_back]

    @property
    def unsure_nominations(self) -> tuple[Rows, Rows]:
        """(K,) each: those of pods that do not come into the queue.

        The scheduler enters a nomination when the pod comes into the queue, and with each update of a pod outside of
        it. So one that starts now does not know of these; one that saw the pod change does.
        Upstream: moveToActiveQ and Update in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
        """
        rows, positions = self.snapshot.nominations
        return rows[self._held_back], positions[self._held_back]

    @cached_property
    def _held_back(self) -> Bools:
        """(M,): which of the snapshot's nominations are of such pods."""
        held_back, pods = self.settings.held_back, self.pods
        if held_back is None:
            return np.zeros(len(self.snapshot.nominations[1]), np.bool_)
        positions = self.snapshot.nominations[1].tolist()
        infos = (pods.infos[pods.info[position]].of(self.stored(pods.objects[position])) for position in positions)
        return np.fromiter((held_back(info, self) for info in infos), np.bool_, len(positions))

    @cached_property
    def resources(self) -> dict[str, int]:
        return self.snapshot.demands.resources

    @cached_property
    def allocatable(self) -> Amounts:
        return self.snapshot.allocatable

    @cached_property
    def requests(self) -> Amounts:
        return self.snapshot.demands.requests

    @cached_property
    def nonzero_requests(self) -> Amounts:
        return self.snapshot.demands.nonzero_requests

    @property
    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        return self.snapshot.namespace_labels

    def matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        return self.snapshot.demands.matrix(rows)

    def stored(self, pod: Pod) -> Pod:
        """A pod of the cluster's documents as the API server would hold it. Raises InputError."""
        return self.settings.stored(pod, self.cluster)

    def admitted(self, pod: Pod) -> Pod:
        """The pod as it is after its creation."""
        return self.settings.admitted(pod)

    # -- sums ----------------------------------------------------------------------------------------------------

    @cached_property
    def requested(self) -> Amounts:
        """(N, R): what the pods of each node request together, and how many they are."""
        return self.sum_by_node(self.requests)

    @cached_property
    def nonzero_requested(self) -> Amounts:
        """(N, R): the same by ``nonzero_requests``."""
        return self.sum_by_node(self.nonzero_requests)

    def sum_by_node(self, values: Counts) -> Counts:
        """(T, ...) by info -> (N, ...): added up over the pods of each node."""
        total = np.zeros((len(self.nodes), *values.shape[1:]), np.int64)
        chosen = self.pods.with_infos(np.asarray(values.any(axis=tuple(range(1, values.ndim)))))
        chosen = chosen[self.node[chosen] >= 0]
        node, info = self.node[chosen], self.pods.info[chosen]
        for sums, amounts in zip(total.T, values.T, strict=True) if values.ndim > 1 else [(total, values)]:
            np.add.at(sums, node, amounts[info])  # several times as fast as on all columns at once
        return total

    def count_by_node(self, selected: Bools) -> Counts:
        """(N,): how many of the pods selected, (T,) by info, each node holds."""
        return self.sum_by_node(selected.astype(np.int64))

    def tally(
        self, key: Hashable, weights: Weigh, domains: Domains | None = None, info: PodInfo | None = None
    ) -> Counts:
        """Weights, (T,) by info, added up over the pods of each node (N,), or of each domain.

        ``key`` names the weights and domains, for pods like ``info`` where one is given, as in ``memo``. They are made
        once, and their sums kept as pods come and go. The sums are not to be written to, and hold until the next move.
        """
        return self.kept_tally(key, weights, domains, info).brought_up(self.trail)

    def kept_tally(
        self, key: Hashable, weights: Weigh, domains: Domains | None = None, info: PodInfo | None = None
    ) -> Tally:
        """The same sums, for who asks for them again and again; they are to be brought up along this fork's trail."""
        named = _named(key, info)
        tally = self._tallies.get(named)
        if tally is None:
            by_node = self.sum_by_node(made := weights())
            tally = Tally(made, domains, by_node if domains is None else domains.sums(by_node), len(self.trail))
            if named is not None:
                make_room(self._tallies, TALLIES_KEPT)
                tally = self._tallies[named] = tally if self.closed is None else tally.small()
        return tally

    def memo(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """What depends on nodes and infos, but not on where pods are: made once for all forks.

        ``key`` names it, for pods like ``info`` where one is given; for one that no other is known to be like it is
        made each time.
        """
        return _kept(self._memo, _named(key, info), make)

    def memo_of_pods(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """What depends on infos, and on what ``WHAT_SELECTS`` them, but on no node: kept where nodes change, too."""
        return _kept(self._memo_of_pods, _named(key, info), make)

    # -- moving pods ---------------------------------------------------------------------------------------------

    def clone(self, position: Position, count: int) -> list[Position]:
        """Give the fork so many pods more, all like one that it has and under its name; their positions."""
        known = len(self.pods)
        self.pods = self.pods.with_more(position, count)
        self.node = np.append(self.node, np.full(count, -1, np.int32))
        self.absent = None if self.absent is None else np.append(self.absent, np.zeros(count, np.bool_))
        self._by_node = None
        return [Position(number) for number in range(known, known + count)]

    def renamed(self, position: Position, pod: Pod) -> Pod:
        """The pod of that position; a clone under a name and a UID of its own, where it has to be told from others."""
        if position < len(self.snapshot.pods):
            return pod
        meta = pod.metadata
        uid = meta.uid and f"{meta.uid}-{position}"
        return replace(pod, metadata=replace(meta, name=f"{meta.name}-{position}", uid=uid))

    def assume(self, position: Position, row: Row) -> None:
        """Bind a pod to a node."""
        self._move(position, row, 1)

    def forget(self, position: Position) -> None:
        """Take a bound pod off its node."""
        self._move(position, Row(int(self.node[position])), -1)

    def _move(self, position: Position, row: Row, sign: int) -> None:
        info = int(self.pods.info[position])
        change = np.add if sign > 0 else np.subtract
        for total, request in (
            (self.requested[row], self.requests[info]),
            (self.nonzero_requested[row], self.nonzero_requests[info]),
        ):
            change(total, request, out=total)
        self.node[position] = row if sign > 0 else -1
        self.trail.append(row, info, sign, position)
        self.touched[row] = len(self.trail)
        self._by_node = None
        if self._ahead and position in self.nominations[1]:
            self._ahead = {}

    def placed_before(self) -> Bools:
        """(P,): the pods that have a node, in the cycle of a pod group those that had one when it began."""
        placed = self.node >= 0
        if self.group_since is not None:
            _, signs, positions = self.trail.pods_since(self.group_since)
            moved, first = np.unique(positions, return_index=True)
            placed[moved] = signs[first] < 0
        return placed

    def pods_on(self, row: Row) -> list[Position]:
        """The positions of the pods on a node, in the order of the cluster."""
        if self._by_node is None:
            self._by_node = PodsByNode(self.node, len(self.nodes))
        return self._by_node.on(row)

    # -- nominated pods ------------------------------------------------------------------------------------------

    def nominate(self, position: Position, row: Row) -> None:
        """Promise a node to a pod instead of the one that it may have been promised; with NO_ROW none."""
        rows, positions = self.nominations
        others = positions != position
        rows, positions = rows[others], positions[others]
        if row != NO_ROW:
            rows, positions = np.append(rows, row), np.append(positions, position)
        self.nominations = rows, positions
        self._ahead = {}
        if self._promises is not None:
            self._promises[position] = row

    def nominated_row(self, position: Position) -> Row:
        """The row that a pod was promised, NO_ROW for none."""
        if self._promises is None:
            rows, positions = self.nominations
            self._promises = dict(zip(positions.tolist(), rows.tolist(), strict=True))
        return Row(self._promises.get(position, NO_ROW))

    def nominated_from(self, priority: int) -> Delta:
        """The pods of at least this priority that wait for the node that they were promised, as if they were there."""
        if priority not in self._ahead:
            rows, positions = self.nominations
            infos = self.pods.info[positions]
            ahead = (self.node[positions] < 0) & (self.pods.priority[infos] >= priority)
            ones = np.ones(int(ahead.sum()), np.int64)
            self._ahead[priority] = Delta.of(rows[ahead].astype(np.int32), infos[ahead], ones)
        return self._ahead[priority]

    def nominated_besides(self, position: Position, priority: int) -> Delta:
        """The nominated pods of at least this priority, as if they were there, without one of them."""
        rows, positions = self.nominations
        infos = self.pods.info[positions]
        ahead = (self.node[positions] < 0) & (self.pods.priority[infos] >= priority) & (positions != position)
        return Delta.of(rows[ahead].astype(np.int32), infos[ahead], np.ones(int(ahead.sum()), np.int64))

    def nominated_against(self, info: PodInfo) -> Delta:
        """The nominated pods, but for itself, to which a pod must yield."""
        delta = self.nominated_from(info.priority)
        if not delta:
            return delta
        rows, positions = self.nominations
        position = self.pods.position(info.pod.key)
        if position is not None and same_pod(self.pods.objects[position], info.pod):
            return self.nominated_besides(position, info.priority) if position in positions else delta
        itself = [
            i for i, p in enumerate(positions.tolist()) if same_pod(self.renamed(p, self.pods.objects[p]), info.pod)
        ]
        if not itself:
            return delta
        infos, others = self.pods.info[positions], np.ones(len(positions), np.bool_)
        others[itself] = False
        others &= (self.node[positions] < 0) & (self.pods.priority[infos] >= info.priority)
        return Delta.of(rows[others].astype(np.int32), infos[others], np.ones(int(others.sum()), np.int64))


def _named(key: Hashable, info: PodInfo | None) -> Hashable:
    """The key for all pods like ``info``; None when no other is known to be like it."""
    if info is None:
        return key
    return None if info.number is None else (key, info.number)


def _kept(memo: Memo, named: Hashable, make: Callable[[], V]) -> V:
    if named in memo:
        known: V = memo[named]
        return known
    made = make()
    if named is not None:
        make_room(memo, MEMOS_KEPT)
        memo[named] = made
    return made


def make_room(kept: dict[K, V], most: int) -> None:
    """Drop the oldest when there are enough."""
    if len(kept) >= most:
        del kept[next(iter(kept))]


def same_pod(left: Pod, right: Pod) -> bool:
    """By UID where both have one, else by name."""
    a, b = left.metadata, right.metadata
    return a.uid == b.uid if a.uid and b.uid else (a.namespace, a.name) == (b.namespace, b.name)
