"""The cluster at one moment as columns: nodes are rows, resources are columns, pods refer to both by index.

Upstream: NodeInfo in pkg/scheduler/framework/types.go and pkg/scheduler/backend/cache (v1.36).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kschedctl.api import resource_names as names
from kschedctl.api.admission import merge_affinity_label_keys, merge_spread_label_keys
from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME, default_node, default_pod
from kschedctl.api.objects import Node, Pod
from kschedctl.api.pod_requests import Options, quantities
from kschedctl.api.priority import resolve_priority
from kschedctl.api.quantity import QuantityError
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.node_order import interleave_zones
from kschedctl.snapshot.node_subset import NodeSubset
from kschedctl.snapshot.nodes import Domains, NodeColumns
from kschedctl.snapshot.pod_info import PodInfo, amounts
from kschedctl.snapshot.pods import PodColumns, Repeated
from kschedctl.snapshot.trail import Tally, Trail

Matrix = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
V = TypeVar("V")


class Settings(NamedTuple):
    """What the scheduler's configuration and feature gates mean for the snapshot.

    ``served``: the schedulerNames of its profiles; it knows of no nomination of other schedulers' pods.
    """

    served: frozenset[str] = frozenset((DEFAULT_SCHEDULER_NAME,))
    requests: Options = Options()
    merge_affinity_label_keys: bool = True
    merge_spread_label_keys: bool = True


class Snapshot:
    """N nodes in the scheduler's order, R resources, P pods of T kinds (see NodeColumns, PodColumns)."""

    def __init__(self, cluster: Cluster, settings: Settings = Settings()) -> None:
        self.cluster, self.settings = cluster, settings
        self.nodes = NodeColumns(interleave_zones(map(default_node, cluster.nodes)))
        self.pods = PodColumns(cluster.pods, self.nodes.index, self.stored, settings.requests)
        self._memo: dict[Hashable, Any] | None = None
        self._tallies: dict[Hashable, Tally] = {}
        self._trail = Trail()
        self.touched = np.zeros(len(self.nodes), np.int64)
        """(N,): how long the trail was after the last move to or from each node."""

    def stored(self, pod: Pod) -> Pod:
        """A pod of the cluster's documents as the API server would hold it. Raises InputError."""
        try:
            pod = resolve_priority(default_pod(pod), self.cluster.priority_classes)
        except QuantityError as error:
            raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None
        return self.admitted(pod) if self.cluster.admit and not pod.spec.node_name else pod

    def admitted(self, pod: Pod) -> Pod:
        """The pod with its label keys merged into its selectors, as happens when it is created."""
        if self.settings.merge_affinity_label_keys:
            pod = merge_affinity_label_keys(pod)
        return merge_spread_label_keys(pod) if self.settings.merge_spread_label_keys else pod

    # -- resources -----------------------------------------------------------------------------------------------

    @cached_property
    def resources(self) -> dict[str, int]:
        """Resource name -> column."""
        found = dict.fromkeys((names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE, names.PODS))
        for amounts_ in (*self._allocatable, *(info.requests for info in self.pods.request_kinds[0])):
            found.update(dict.fromkeys(amounts_))
        return {name: column for column, name in enumerate(found)}

    @cached_property
    def allocatable(self) -> Matrix:
        """(N, R): what each node offers; millicores, bytes or units."""
        return self.matrix(self._allocatable)

    @cached_property
    def requests(self) -> Matrix:
        """(T, R): what a pod of each kind requests; 1 in the column of pods."""
        distinct, kind = self.pods.request_kinds
        matrix = self.matrix([info.requests for info in distinct])
        matrix[:, self.resources[names.PODS]] = 1
        return matrix[kind]

    @cached_property
    def nonzero_requests(self) -> Matrix:
        """(T, R): the same, containers without cpu or memory requests counted with a default."""
        distinct, kind = self.pods.request_kinds
        return self.matrix([info.nonzero_requests for info in distinct])[kind]

    @cached_property
    def requested(self) -> Matrix:
        """(N, R): what the pods of each node request together, and how many they are."""
        return self.sum_by_node(self.requests)

    @cached_property
    def nonzero_requested(self) -> Matrix:
        """(N, R): the same by ``nonzero_requests``."""
        return self.sum_by_node(self.nonzero_requests)

    def matrix(self, rows: Sequence[Mapping[str, int]]) -> Matrix:
        """Amounts by resource name as one row each of an int64 matrix with R columns."""
        matrix = np.zeros((len(rows), len(self.resources)), np.int64)
        for i, row in enumerate(rows):
            for name, amount in row.items():
                matrix[i, self.resources[name]] = amount
        return matrix

    def sum_by_node(self, values: Counts) -> Counts:
        """(T, ...) by kind of pod -> (N, ...): added up over the pods of each node."""
        total = np.zeros((len(self.nodes), *values.shape[1:]), np.int64)
        chosen = self.pods.of_kinds(np.asarray(values.any(axis=tuple(range(1, values.ndim)))))
        chosen = chosen[self.pods.node[chosen] >= 0]
        np.add.at(total, self.pods.node[chosen], values[self.pods.info[chosen]])
        return total

    @cached_property
    def _allocatable(self) -> list[dict[str, int]]:
        known: dict[tuple[tuple[str, object], ...], dict[str, int]] = {}
        found = []
        for node in self.nodes.objects:  # machines of a kind offer the same
            key = tuple(node.status.allocatable.items())
            if key not in known:
                known[key] = _allocatable(node)
            found.append(known[key])
        return found

    # -- counting pods -------------------------------------------------------------------------------------------

    def tally(self, key: Hashable, weights: Callable[[], Counts], domains: Domains | None = None) -> Counts:
        """Weights, (T,) by kind of pod, added up over the pods of each node (N,), or of each domain.

        ``key`` names the weights and domains: a fork of the snapshot makes them once and keeps their sums as pods come
        and go. The sums are not to be written to, and hold until the next pod moves.
        """
        if self._memo is None:
            return self._sum(weights(), domains)
        if key not in self._tallies:
            made = weights()
            self._tallies[key] = Tally(made, domains, self._sum(made, domains), len(self._trail))
        return self._tallies[key].brought_up(self._trail)

    def _sum(self, weights: Counts, domains: Domains | None) -> Counts:
        by_node = self.sum_by_node(weights)
        return by_node if domains is None else domains.sums(by_node)

    def count_by_node(self, selected: Bools) -> Counts:
        """(N,): how many of the pods selected, (T,) by kind, each node holds."""
        return self.sum_by_node(selected.astype(np.int64))

    def memo(self, key: Hashable, make: Callable[[], V]) -> V:
        """What depends on nodes and kinds of pod, but not on where pods are: made once for all forks."""
        if self._memo is None:
            return make()
        if key not in self._memo:
            self._memo[key] = make()
        found: V = self._memo[key]
        return found

    # -- moving pods ---------------------------------------------------------------------------------------------

    def fork(self) -> Snapshot:
        """A copy whose pods can be moved by ``assume`` and ``forget``; it remembers what plugins compute."""
        _ = self.allocatable, self.requests, self.nonzero_requests, self.pods.nominations  # made once, and shared
        fork = copy(self)
        fork.pods = copy(self.pods)
        fork.pods.node = self.pods.node.copy()
        fork.requested, fork.nonzero_requested = self.requested.copy(), self.nonzero_requested.copy()
        fork._memo = {} if self._memo is None else self._memo
        fork._trail, fork.touched = self._trail.copy(), self.touched.copy()
        fork._tallies = {key: tally.copy() for key, tally in self._tallies.items()}
        return fork

    def narrowed(self, rows: npt.NDArray[np.int64], more: Counts | None = None, info: int = 0) -> Snapshot:
        """The resources of some nodes alone (M,), for plugins that look at nothing else.

        As if each of them held ``more`` (M,) pods of a kind than it does.
        """
        narrow = object.__new__(Snapshot)
        narrow.__dict__.update(self.__dict__)
        narrow.nodes = NodeSubset(self.nodes, rows)
        narrow.allocatable = self.allocatable[rows]
        narrow.requested, narrow.nonzero_requested = self.requested[rows], self.nonzero_requested[rows]
        if more is not None:
            narrow.requested += more[:, None] * self.requests[info]
            narrow.nonzero_requested += more[:, None] * self.nonzero_requests[info]
        return narrow

    def without(self, gone: Bools) -> Snapshot:
        """A fork that lacks some nodes (N,); the pods on them have no node there. The others keep their order."""
        fork = self.fork()
        kept = np.flatnonzero(~gone)
        fork.nodes = NodeSubset(self.nodes, kept)
        names = fork.nodes.index
        nodes = tuple(node for node in self.cluster.nodes if node.metadata.name in names)
        fork.cluster = dataclasses.replace(self.cluster, nodes=nodes)
        row = np.full(len(self.nodes) + 1, -1, np.int32)  # the last one is that of pods without a node
        row[kept] = np.arange(len(kept))
        fork.pods.node = row[self.pods.node]
        fork.allocatable = self.allocatable[kept]
        fork.requested, fork.nonzero_requested = self.requested[kept], self.nonzero_requested[kept]
        fork._memo, fork._tallies, fork._trail = {}, {}, Trail()
        fork.touched = np.zeros(len(kept), np.int64)
        for derived in ("_by_node", "_nominations", "_allocatable"):
            fork.__dict__.pop(derived, None)
        return fork

    def clone(self, position: int, count: int) -> range:
        """Give a fork so many pods more, all like one that it has and under its name; their positions."""
        pods, known = self.pods, len(self.pods)
        pods.objects = Repeated(pods.objects, position, count)
        pods.node = np.append(pods.node, np.full(count, -1, np.int32))
        for derived in ("_by_info", "start"):
            pods.__dict__.pop(derived, None)
        pods.info = np.append(pods.info, np.full(count, pods.info[position], np.int32))
        return range(known, known + count)

    def assume(self, position: int, row: int) -> None:
        """Bind a pod of a fork to a node."""
        self.pods.node[position] = row
        self._moved(position, row, 1)

    def forget(self, position: int) -> None:
        """Take a bound pod of a fork off its node."""
        row = int(self.pods.node[position])
        self.pods.node[position] = -1
        self._moved(position, row, -1)

    @property
    def trail(self) -> Trail:
        """What happened to a fork since it was made, in order."""
        return self._trail

    def _moved(self, position: int, row: int, sign: int) -> None:
        info = int(self.pods.info[position])
        change = np.add if sign > 0 else np.subtract
        for total, request in (
            (self.requested[row], self.requests[info]),
            (self.nonzero_requested[row], self.nonzero_requests[info]),
        ):
            change(total, request, out=total)
        self._trail.append(row, info, sign)
        self.touched[row] = len(self._trail)
        self.__dict__.pop("_by_node", None)

    def pods_on(self, row: int) -> list[int]:
        """The positions of the pods bound to a node, in the order of the cluster."""
        order, starts = self._by_node
        positions: list[int] = order[starts[row] : starts[row + 1]].tolist()
        return positions

    @cached_property
    def _by_node(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of all pods sorted by node, and where each node's begin."""
        order = np.argsort(self.pods.node, kind="stable")
        return order, np.searchsorted(self.pods.node[order], np.arange(len(self.nodes) + 1))

    @cached_property
    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """Namespace -> labels, for the namespaces that exist."""
        return {namespace.metadata.name: namespace.metadata.labels for namespace in self.cluster.namespaces}

    # -- nominated pods ------------------------------------------------------------------------------------------

    @property
    def nominated(self) -> list[tuple[int, int]]:
        """(row, pod) of the unbound pods of this scheduler that were promised a node."""
        return [(row, position) for row, position in self._nominations if self.pods.node[position] < 0]

    @cached_property
    def _nominations(self) -> list[tuple[int, int]]:
        found = []
        for position in self.pods.nominations:
            pod = self.pods.objects[position]
            row = self.nodes.index.get(pod.status.nominated_node_name)
            if row is not None and not pod.spec.node_name:
                served = self.pods.infos[self.pods.info[position]].spec.scheduler_name in self.settings.served
                found += [(row, position)] if served else []
        return found

    def nominated_against(self, info: PodInfo) -> Delta:
        """The nominated pods, other than this one, to which a pod must yield: those of at least its priority."""
        pods = self.pods
        ahead = [
            (row, pods.info[position])
            for row, position in self.nominated
            if pods.infos[pods.info[position]].priority >= info.priority
            and not same_pod(pods.objects[position], info.pod)
        ]
        rows, infos = zip(*ahead, strict=True) if ahead else ((), ())
        return Delta.of(np.array(rows, np.int32), np.array(infos, np.int32), np.ones(len(ahead), np.int64))


def same_pod(left: Pod, right: Pod) -> bool:
    """By UID where both have one, else by name."""
    a, b = left.metadata, right.metadata
    return a.uid == b.uid if a.uid and b.uid else (a.namespace, a.name) == (b.namespace, b.name)


def _allocatable(node: Node) -> dict[str, int]:
    try:
        return amounts(quantities(node.status.allocatable))
    except QuantityError as error:
        where = f"Node {node.metadata.name}, status.allocatable"
        raise InputError(error.what, where=where, hint=error.hint) from None
