"""A copy-on-write state on a snapshot: the nodes that pods are on now, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Amounts, Bools, Counts, Ints, Position, Row, Rows
from kschedctl.api.objects import Node, Pod
from kschedctl.cluster import Cluster
from kschedctl.snapshot.changed_nodes import ClosedNodes, NodeSubset
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.nodes import Domains, NodeColumns
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Settings, Snapshot
from kschedctl.snapshot.tallies import SharedSums, Tally
from kschedctl.snapshot.trail import Arrivals, PodsByNode, Trail

if TYPE_CHECKING:
    from kschedctl.snapshot.gang_history import GangHistory

MAX_TALLIES, MAX_MEMOS = 1024, 4096
MAX_MEMOS_OF_PODS = 65_536
"""Results that depend on no node are small and shared by all forks, so those of all kinds of pods are kept."""
MAX_COLUMNS = 256
Memo: TypeAlias = dict[Hashable, Any]
"""Cached results by key."""
Weigh: TypeAlias = Callable[[], Counts]
SELECTING_FIELDS = ("namespaces", "services", "replication_controllers", "replica_sets", "stateful_sets")
"""Fields of a cluster that determine which pods belong together."""
K = TypeVar("K")
V = TypeVar("V")


class Fork:
    """A snapshot in which pods can be moved by `assume` and `forget`. Plugins look at a Fork."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.nodes, self.pods = snapshot, snapshot.nodes, snapshot.pods
        self.objects = ClusterObjects(snapshot.cluster, snapshot.indexes)
        """The other objects as they are now, after claims were bound and disruptions used up."""
        self.node = snapshot.node.copy()
        """The row of each pod's node (P,), -1 for none."""
        self.trail = Trail()
        """All moves in order."""
        self.touched = np.zeros(len(self.nodes), np.int64)
        """The length of the trail after the last move to or from each node (N,)."""
        self.time_passes = True
        """True if each comparison of pods that have not started reads a later time."""
        self.preempting: set[str] = set()
        """The pods, as `namespace/name`, whose victims are being evicted."""
        self.absent: Bools | None = None
        """A mask (P,) of the pods that have not come yet or are gone for good."""
        self.placement: Bools | None = None
        """A mask (N,) of the nodes that may run pods while a pod group is tried on a part of the nodes."""
        self.closed: ClosedNodes | None = None
        """Nodes that take no more pods, besides those cordoned in the snapshot."""
        self.group_since: int | None = None
        """The length of the trail when the cycle of a pod group began."""
        self.gang_history: GangHistory | None = None
        """The past of gangs while a queue is replayed."""
        self.part_of: PartOfFork | None = None
        """The fork from which this one was made by leaving out nodes."""
        self._columns: dict[Hashable, Amounts] = {}
        self._shared_answers: Memo = {}
        self._arrivals: Arrivals | None = None
        self._by_node: PodsByNode | None = None
        self._tallies: dict[Hashable, Tally] = {}
        self._nominated_by_priority: dict[int, Delta] = {}
        self._nominated_rows: dict[int, int] | None = None
        self._memo: Memo = {}
        self._memo_of_pods: Memo = {}

    @classmethod
    def from_cluster(
        cls, cluster: Cluster, settings: Settings = Settings(), *, nodes: NodeColumns | None = None
    ) -> Fork:
        """Build the fork of a cluster's snapshot.

        `nodes` has the columns of the cluster's nodes if another snapshot of the same nodes has built them.
        """
        return cls(Snapshot.from_cluster(cluster, settings, nodes=nodes))

    def fork(self) -> Fork:
        """Return an independent copy, which shares the results that plugins cached."""
        requested = self.requested  # computed before copying, so that both forks share the work
        nonzero_requested = self.nonzero_requested

        # Copy all that changes as pods move.
        copied = copy(self)
        copied.node = self.node.copy()
        copied.touched = self.touched.copy()
        copied.trail = self.trail.copy()
        copied._arrivals = self._arrivals and self._arrivals.copy()
        copied.requested = requested.copy()
        copied.nonzero_requested = nonzero_requested.copy()
        copied._tallies = {key: tally.copy() for key, tally in self._tallies.items()}
        copied._nominated_by_priority = dict(self._nominated_by_priority)
        copied.preempting = set(self.preempting)
        copied.objects = self.objects.fork()

        # Drop the caches that would be wrong once the forks differ, such as those that compare only the trail's length.
        copied._nominated_rows = None
        copied._by_node = None
        copied._columns = {}
        copied._shared_answers = {}
        return copied

    def without_nodes(self, removed: Bools) -> Fork:
        """Return a fork without the nodes in the mask `removed` (N,). Their pods become unplaced.

        Columns about single nodes are shared with this fork and with other forks made from it, as `PartOfFork`
        explains.
        """
        # The new snapshot gives the pods the rows that their nodes have now, or -1 if the node is removed.
        fork = Fork(self.snapshot.without_nodes(removed, self.cluster, self.node))
        fork.pods = self.pods
        fork._memo_of_pods = self._memo_of_pods  # what is cached about the same pods stays valid
        fork.requested = self.requested[~removed]
        fork.nonzero_requested = self.nonzero_requested[~removed]
        rows = np.flatnonzero(~removed)
        row_in_part = np.full(len(removed), -1, np.int32)
        row_in_part[rows] = np.arange(len(rows))
        moves_before = len(self.trail)
        fork.part_of = PartOfFork(self, rows, row_in_part, moves_before)
        return fork

    def with_changes(
        self, cluster: Cluster, nodes: Mapping[Row, Node] = {}, added: Sequence[tuple[Row, Node]] = ()
    ) -> Fork:
        """Return a fork with the objects of another cluster that has the same pods.

        `nodes` has the changed nodes by row. `added` has new nodes, each with the row of an existing node that it
        resembles. Cached results about pods are shared if both clusters have the same namespaces, Services and workload
        controllers.
        """
        fork = Fork(self.snapshot.with_changes(cluster, self.node, nodes, added))
        fork.pods = self.pods
        if all(getattr(self.cluster, field) is getattr(cluster, field) for field in SELECTING_FIELDS):
            fork._memo_of_pods = self._memo_of_pods
        # Added nodes have no pods yet.
        empty = np.zeros((len(added), self.requested.shape[1]), np.int64)
        fork.requested = np.concatenate((self.requested, empty))
        fork.nonzero_requested = np.concatenate((self.nonzero_requested, empty))
        return fork

    # -- the snapshot's columns ----------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """All objects as they are now, except that pods and nodes are as in the snapshot."""
        return self.objects.cluster

    @property
    def settings(self) -> Settings:
        """The settings of the snapshot."""
        return self.snapshot.settings

    @property
    def in_placement(self) -> Bools:
        """A mask (N,) of the nodes that may run pods."""
        return np.ones(len(self.nodes), np.bool_) if self.placement is None else self.placement

    @property
    def nodes_in_placement(self) -> int:
        """Number of nodes that may run pods."""
        return len(self.nodes) if self.placement is None else int(self.placement.sum())

    @property
    def arrivals(self) -> Arrivals:
        """The order in which pods came to their nodes, valid until the next move."""
        if self._arrivals is None:
            self._arrivals = Arrivals(self.snapshot.node.copy())
        return self._arrivals.bring_up_to_date(self.trail, len(self.pods))

    @cached_property
    def nominations(self) -> tuple[Rows, Rows]:
        """The nominated rows (M,), and the positions (M,) of the nominated pods."""
        rows, positions = self.snapshot.nominations
        is_counted = ~self._held_back_nominees
        return rows[is_counted], positions[is_counted]

    @property
    def unsure_nominations(self) -> tuple[Rows, Rows]:
        """Rows and positions of the nominations of pods that do not enter the queue.

        The scheduler records a nomination when the pod enters the queue, and at each update of a pod outside of the
        queue. A scheduler that has just started does not know these nominations. A scheduler that saw the pod change
        does. Upstream: moveToActiveQ and Update in pkg/scheduler/backend/queue/scheduling_queue.go (v1.36).
        """
        rows, positions = self.snapshot.nominations
        return rows[self._held_back_nominees], positions[self._held_back_nominees]

    @cached_property
    def _held_back_nominees(self) -> Bools:
        """A mask over the snapshot's nominations. It marks pods that PreEnqueue plugins keep out of the queue."""
        _, positions = self.snapshot.nominations
        mask = np.zeros(len(positions), np.bool_)
        if self.settings.held_back is not None:
            for index, position in enumerate(positions.tolist()):
                # PreEnqueue plugins may look at the pod's own name and status.
                stored_pod = self.build_stored_pod(self.pods.objects[position])
                info = self.pods.get_info(position).for_pod(stored_pod)
                mask[index] = self.settings.held_back(info, self)
        return mask

    @cached_property
    def resources(self) -> dict[str, int]:
        """The column of each resource, by name."""
        return self.snapshot.demands.column_by_resource

    @cached_property
    def allocatable(self) -> Amounts:
        """A matrix (nodes, resources) of the amounts that each node offers."""
        return self.snapshot.allocatable

    @cached_property
    def requests(self) -> Amounts:
        """A matrix (distinct pods, resources) of the requested amounts, with 1 in the column of pods."""
        return self.snapshot.demands.requests

    def get_requests(self, positions: int | Rows | Sequence[int]) -> Amounts:
        """Return the requested amounts (R,) of the pod at a position, or the matrix (P, R) of several pods."""
        return self.requests[self.pods.info[positions]]

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """Like `requests`, with a default for containers without CPU or memory requests."""
        return self.snapshot.demands.nonzero_requests

    @property
    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of each existing namespace, by name."""
        return self.snapshot.namespace_labels

    def build_matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        """Convert mappings from resource to amount into a matrix, as `Demands.build_matrix` does."""
        return self.snapshot.demands.build_matrix(rows)

    def build_stored_pod(self, pod: Pod) -> Pod:
        """Build the pod as the API server would store it, with defaults and its priority, from the pod as it was read.

        Raises InputError for an invalid amount.
        """
        return self.settings.build_stored_pod(pod, self.cluster)

    def merge_label_keys(self, pod: Pod) -> Pod:
        """Return the pod with its label keys merged into its selectors, as the API server stores it."""
        return self.settings.merge_label_keys(pod)

    # -- sums ----------------------------------------------------------------------------------------------------

    @cached_property
    def requested(self) -> Amounts:
        """A matrix (nodes, resources) of the requests of each node's pods, with the number of pods as a resource."""
        return self.sum_by_node(self.requests)

    @cached_property
    def nonzero_requested(self) -> Amounts:
        """A matrix (nodes, resources) of the totals of `nonzero_requests`."""
        return self.sum_by_node(self.nonzero_requests)

    def sum_by_node(self, values: Counts) -> Counts:
        """Return the sum of the values over each node's pods, as an array (nodes, …).

        `values` has one entry per PodInfo, which may be a number or an array.
        """
        has_value = np.asarray(values.any(axis=tuple(range(1, values.ndim))))
        # Only placed pods with a value other than 0 count.
        positions = self.pods.find_positions(has_value)
        placed = positions[self.node[positions] >= 0]
        node = self.node[placed]
        info = self.pods.info[placed]

        total = np.zeros((len(self.nodes), *values.shape[1:]), np.int64)
        if values.ndim == 1:
            np.add.at(total, node, values[info])
            return total
        for sums, amounts in zip(total.T, values.T, strict=True):
            np.add.at(sums, node, amounts[info])  # several times as fast as on all columns at once
        return total

    def count_by_node(self, selected: Bools) -> Counts:
        """Return the number of selected pods on each node. `selected` is a mask over the distinct pods."""
        return self.sum_by_node(selected.astype(np.int64))

    def tally(
        self, key: Hashable, weights: Weigh, domains: Domains | None = None, info: PodInfo | None = None
    ) -> Counts:
        """Return the sums of pod weights on each node or in each domain.

        `key` identifies the weights and domains. With `info`, the sums are for pods like this one, as in `memo`.
        Weights are computed once per distinct pod, and their sums are kept up to date as pods move. The sums are
        read-only and valid until the next move.
        """
        return self.get_or_build_tally(key, weights, domains, info).compute_current_sums(self.trail)

    def get_or_build_tally(
        self,
        key: Hashable,
        weights: Weigh,
        domains: Domains | None = None,
        info: PodInfo | None = None,
        by_node: Hashable = None,
    ) -> Tally:
        """Return the tally of the sums of pod weights by node or by `domains`, from the cache if possible.

        `weights` computes the weights, and `key` identifies the weights and the domains. With `info`, the tally is for
        pods like this one, and is not cached if `info` has no number. Sums by domain are computed from the tally by
        node with the key `by_node`, if that is cached. The caller must bring the tally up to date with the trail.
        """
        pod_key = _build_pod_key(key, info)
        tally = self._tallies.get(pod_key)
        if tally is not None:
            return tally

        if self.part_of is not None and pod_key is not None:  # the other parts of the fork may have the same sums
            sums_key = by_node or pod_key  # sums by domain are derived from the sums by node, if these have a key
            shared_tally = self.part_of.find_shared_tally(sums_key, weights, domains)
            if shared_tally is not None:
                self._cache_tally(pod_key, shared_tally)
                return shared_tally

        tally = self._build_tally(weights, domains, by_node)
        if pod_key is not None:
            if self.closed is not None:  # many kinds of pods are tallied, so memory is scarce
                tally = tally.compact()
            self._cache_tally(pod_key, tally)
        return tally

    def _cache_tally(self, pod_key: Hashable, tally: Tally) -> None:
        """Cache a tally. If MAX_TALLIES are cached already, the oldest is dropped."""
        drop_oldest_if_full(self._tallies, MAX_TALLIES)
        self._tallies[pod_key] = tally

    def _build_tally(self, weights: Weigh, domains: Domains | None, by_node: Hashable) -> Tally:
        """Build the tally that keeps the sums of pod weights on each node or in each of the `domains`.

        `by_node` is the key of a tally that has the same weights by node. If that tally is cached, the sums by domain
        are computed from it.
        """
        tally_by_node = self._tallies.get(by_node)
        # Compact tallies, which are used while nodes are closed, have no array of weights.
        if tally_by_node is not None and domains is not None and type(tally_by_node) is Tally:
            weight_by_pod = tally_by_node.weights
            sums = tally_by_node.compute_current_sums(self.trail)
        else:
            weight_by_pod = weights()
            sums = self.sum_by_node(weight_by_pod)
        if domains is not None:
            sums = domains.sum_nodes(sums)
        return Tally(weight_by_pod, domains, sums, len(self.trail))

    def memo(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """Return a cached result that depends on nodes and distinct pods, but not on where pods are.

        `key` identifies the result. With `info`, the result is for pods like this one, and is computed each time if
        `info` has no number. Forks share the cache.
        """
        return _get_or_make_result(self._memo, _build_pod_key(key, info), make, MAX_MEMOS)

    def memo_of_pods(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """Return a cached result that depends on distinct pods and SELECTING_FIELDS but on no node.

        Unlike with `memo`, the result is kept even if nodes change.
        """
        return _get_or_make_result(self._memo_of_pods, _build_pod_key(key, info), make, MAX_MEMOS_OF_PODS)

    def share_column(self, key: Hashable, compute: Callable[[Fork], Amounts]) -> Amounts:
        """Return a read-only array (N,) that `compute` makes from this fork. The array is cached.

        `key` must also identify where the pods are, for example by the number of moves so far.
        """
        return _get_or_make_result(self._columns, key, lambda: compute(self), MAX_COLUMNS)

    def share_answer(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return a cached small result about this fork that forks without some of its nodes share.

        `key` must also say where the pods are, for example by the number of moves so far.
        """
        return _get_or_make_result(self._shared_answers, key, make, MAX_MEMOS_OF_PODS)

    # -- moving pods ---------------------------------------------------------------------------------------------

    def add_clones(self, position: Position, count: int) -> list[Position]:
        """Add `count` copies of a pod without a node, and return their positions.

        The copies share the pod's name. Use `with_clone_name` to get distinct names.
        """
        first = len(self.pods)
        self.pods = self.pods.with_clones(position, count)
        self.node = np.append(self.node, np.full(count, -1, np.int32))
        self.absent = None if self.absent is None else np.append(self.absent, np.zeros(count, np.bool_))
        self._by_node = None
        return [Position(number) for number in range(first, first + count)]

    def with_clone_name(self, position: Position, pod: Pod) -> Pod:
        """Return the pod of a position. If it is a clone, the pod gets a name and a UID that no other pod has."""
        if position < len(self.snapshot.pods):
            return pod
        metadata = pod.metadata
        uid = f"{metadata.uid}-{position}" if metadata.uid else metadata.uid
        return replace(pod, metadata=replace(metadata, name=f"{metadata.name}-{position}", uid=uid))

    def assume(self, position: Position, row: Row) -> None:
        """Put a pod on a node. Its sums and caches follow."""
        self._record_move(position, row, 1)

    def forget(self, position: Position) -> None:
        """Take a pod off its node. Its sums and caches follow."""
        self._record_move(position, Row(int(self.node[position])), -1)

    def _record_move(self, position: Position, row: Row, sign: int) -> None:
        """Update the sums, the trail and the caches for a pod that joins a node (`sign` 1) or leaves it (-1)."""
        info = self.pods.get_info_number(position)

        # Change the sums of the node in place.
        change = np.add if sign > 0 else np.subtract
        requested = self.requested[row]
        nonzero_requested = self.nonzero_requested[row]
        change(requested, self.requests[info], out=requested)
        change(nonzero_requested, self.nonzero_requests[info], out=nonzero_requested)

        self.node[position] = row if sign > 0 else -1
        self.trail.append(row, info, sign, position)
        self.touched[row] = len(self.trail)
        self._by_node = None

        # A nominated pod counts only while it has no node.
        if self._nominated_by_priority:
            _, nominated_positions = self.nominations
            if position in nominated_positions:
                self._nominated_by_priority = {}

    def mask_placed_before_group(self) -> Bools:
        """Return a mask over all pods that marks the pods with a node.

        During the cycle of a pod group, return the pods that had a node when the cycle began.
        """
        placed = self.node >= 0
        if self.group_since is not None:
            _, signs, positions = self.trail.list_pod_moves_since(self.group_since)
            moved, first_moves = np.unique(positions, return_index=True)
            placed[moved] = signs[first_moves] < 0  # pods whose first move was to leave had a node
        return placed

    def has_node(self, position: int) -> bool:
        """Return whether the pod at a position is on a node."""
        return bool(self.node[position] >= 0)

    def get_node_name(self, position: int) -> str:
        """Return the name of the node of the pod at a position, which must be on a node."""
        return self.nodes.names[int(self.node[position])]

    def mask_placed(self) -> Bools:
        """Return a mask (P,) of the pods that are on nodes."""
        mask: Bools = self.node >= 0
        return mask

    def pods_on(self, row: Row) -> list[Position]:
        """Return the positions of the pods on a node, in the order of the cluster."""
        if self._by_node is None:
            self._by_node = PodsByNode(self.node, len(self.nodes))
        return self._by_node.list_pods(row)

    # -- nominated pods ------------------------------------------------------------------------------------------

    def nominate(self, position: Position, row: Row) -> None:
        """Nominate a node for a pod, replacing any earlier nomination. NO_ROW clears the pod's nomination."""
        rows, positions = self.nominations
        is_other = positions != position
        rows, positions = rows[is_other], positions[is_other]
        if row != NO_ROW:
            rows, positions = np.append(rows, row), np.append(positions, position)
        self.nominations = (rows, positions)
        self._nominated_by_priority = {}
        if self._nominated_rows is not None:
            self._nominated_rows[position] = row

    def get_nominated_row(self, position: Position) -> Row:
        """Return the row nominated for a pod, or NO_ROW if the pod is not nominated.

        The nominations are indexed on first use.
        """
        if self._nominated_rows is None:
            rows, positions = self.nominations
            self._nominated_rows = dict(zip(positions.tolist(), rows.tolist(), strict=True))
        return Row(self._nominated_rows.get(position, NO_ROW))

    def get_nominated_delta(self, priority: int) -> Delta:
        """Return a delta that adds the nominated pods of at least this priority that have no node.

        The delta is cached until nominations change.
        """
        if priority not in self._nominated_by_priority:
            _, positions = self.nominations
            every_nomination = np.ones(len(positions), np.bool_)
            self._nominated_by_priority[priority] = self._build_nominated_delta(every_nomination, priority)
        return self._nominated_by_priority[priority]

    def build_nominated_delta_besides(self, position: Position, priority: int) -> Delta:
        """Build a delta that adds the nominated pods of at least this priority, except one pod.

        `position` is the pod to leave out. Pods that have a node are not added.
        """
        _, positions = self.nominations
        return self._build_nominated_delta(positions != position, priority)

    def _build_nominated_delta(self, selected: Bools, priority: int) -> Delta:
        """Build a delta that adds the pods of the selected nominations. `selected` is a mask over the nominations.

        Pods that have a node or a lower priority are left out.
        """
        rows, positions = self.nominations
        infos = self.pods.info[positions]
        counted = selected & (self.node[positions] < 0) & (self.pods.priority[infos] >= priority)
        ones = np.ones(int(counted.sum()), np.int64)
        return Delta.from_changes(rows[counted].astype(np.int32), infos[counted], ones)

    def build_nominated_delta_against(self, info: PodInfo) -> Delta:
        """Build a delta that adds the nominated pods to which a pod must yield, without the pod itself.

        A pod must yield to nominated pods that have no node and at least its own priority.
        """
        delta = self.get_nominated_delta(info.priority)
        if not delta:
            return delta
        _, positions = self.nominations

        # The usual case: the pod is in the snapshot under its name.
        position = self.pods.find_position(info.pod.key)
        if position is not None and is_same_pod(self.pods.objects[position], info.pod):
            return self.build_nominated_delta_besides(position, info.priority) if position in positions else delta

        # A clone has the name of another pod in the snapshot.
        is_itself = np.zeros(len(positions), np.bool_)
        for index, nominated in enumerate(positions.tolist()):
            is_itself[index] = is_same_pod(self.with_clone_name(nominated, self.pods.objects[nominated]), info.pod)
        if not is_itself.any():
            return delta
        return self._build_nominated_delta(~is_itself, info.priority)


class PartOfFork(NamedTuple):
    """The fork from which another fork was made by leaving out nodes."""

    whole: Fork
    rows: Rows
    """The rows in the whole fork of the remaining nodes."""
    row_in_part: Ints
    """The row among the remaining nodes of each node of the whole fork, -1 for none."""
    moves: int
    """The length of the whole fork's trail when the nodes were left out."""

    def find_column(self, key: Hashable, compute: Callable[[Fork], Amounts]) -> Amounts | None:
        """Return a column about the remaining nodes as they were when the other nodes were left out.

        `compute` returns the column (N,) for the whole fork, and each entry must depend only on the node and its pods.
        All forks that leave out some nodes of the whole fork share one call. Return None if pods have moved in the
        whole fork since.
        """
        if len(self.whole.trail) != self.moves:
            return None
        return self.whole.share_column((key, self.moves), compute).take(self.rows)

    def find_answer(self, key: Hashable, compute: Callable[[Fork], V]) -> V | None:
        """Return what `compute` derives from the whole fork, computed once for all its parts.

        The answer must be the same for the part, or the caller has to adapt it. Return None if pods have moved in the
        whole fork since the nodes were left out.
        """
        if len(self.whole.trail) != self.moves:
            return None
        return self.whole.share_answer((key, self.moves), lambda: compute(self.whole))

    def find_shared_tally(self, key: Hashable, weights: Weigh, domains: Domains | None) -> Tally | None:
        """Return a tally by node, or by `domains`, for the nodes of this part before any pod moves in it.

        The sums of the whole fork are computed once per `key`, which identifies the weights, and shared by all its
        parts. Return None if too many pods or nodes have a weight other than 0. Also return None if pods have moved in
        the whole fork since the nodes were left out.
        """

        def build_shared_sums(whole: Fork) -> SharedSums | None:
            """Sum the weights by node of the whole fork. Return None if too many pods or nodes have a weight."""
            weight_by_pod = weights()
            shared_sums = SharedSums(weight_by_pod, whole.sum_by_node(weight_by_pod))
            return shared_sums if shared_sums.is_small else None

        shared_sums = self.find_answer(("tally", key), build_shared_sums)
        return None if shared_sums is None else shared_sums.restrict_to_part(self.row_in_part, len(self.rows), domains)


def _build_pod_key(key: Hashable, info: PodInfo | None) -> Hashable:
    """Return the cache key for all pods like `info`. Without `info`, the cache key is `key` itself.

    Return None if the pod has no number. In this case, nothing is cached.
    """
    if info is None:
        return key
    return None if info.number is None else (key, info.number)


def _get_or_make_result(memo: Memo, key: Hashable, make: Callable[[], V], max_memos: int) -> V:
    """Return the result for a key from the cache ``memo``, or compute it with ``make`` and cache it.

    At most `max_memos` results are cached, and the oldest makes room for a new one. A result whose key is None is not
    cached.
    """
    if key in memo:
        cached: V = memo[key]
        return cached
    value = make()
    if key is not None:
        drop_oldest_if_full(memo, max_memos)
        memo[key] = value
    return value


def drop_oldest_if_full(cache: dict[K, V], max_entries: int) -> None:
    """Drop the oldest entry of a cache that has reached `max_entries` entries."""
    if len(cache) >= max_entries:
        del cache[next(iter(cache))]


def is_same_pod(left: Pod, right: Pod) -> bool:
    """Return whether two pods are the same, by UID if both have one, otherwise by namespace and name."""
    if left.metadata.uid and right.metadata.uid:
        return left.metadata.uid == right.metadata.uid
    return left.key == right.key


class OwnRows:
    """Some rows (M,) of a fork, as if each had `added_pods` (M,) more pods like `info`. Columns are as in a Fork."""

    def __init__(self, fork: Fork, rows: Rows, added_pods: Counts | None = None, info: int = 0) -> None:
        self.fork, self.rows = fork, rows
        self.nodes = NodeSubset(fork.nodes, rows)
        self.objects = fork.objects
        self.allocatable = fork.allocatable.take(rows, axis=0)
        self.requested = fork.requested.take(rows, axis=0)
        self.nonzero_requested = fork.nonzero_requested.take(rows, axis=0)
        self.resources = fork.resources
        self.requests = fork.requests
        self.nonzero_requests = fork.nonzero_requests
        if added_pods is not None:
            self.requested += added_pods[:, None] * fork.requests[info]
            self.nonzero_requested += added_pods[:, None] * fork.nonzero_requests[info]

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError for attributes of a Fork that are not offered here.

        A plugin that declares to read only a node's own row must not read them.
        """
        raise AttributeError(f"a plugin that declares Reads.OWN_ROW cannot read {name}: it judges each node by itself")

    def build_matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        """Convert mappings from resource to amount into a matrix, as `Demands.build_matrix` does."""
        return self.fork.build_matrix(rows)

    def memo(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """Return a cached result as `Fork.memo` does."""
        return self.fork.memo(key, make, info)


NodeView = Fork | OwnRows
"""The view that a plugin gets which reads only a node's own row."""


def get_whole_fork(view: NodeView) -> Fork:
    """Return the whole fork behind a view, which is the view itself unless it shows only some rows."""
    return view.fork if isinstance(view, OwnRows) else view
