"""A cluster at one moment as columns: nodes are rows, resources are columns, and pods refer to both by index.

Upstream: NodeInfo in pkg/scheduler/framework/types.go and pkg/scheduler/backend/cache (v1.36).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Amounts, Bools, Ints, Row, Rows
from kschedctl.api.defaults import (
    DEFAULT_SCHEDULER_NAME,
    apply_node_defaults,
    apply_pod_defaults,
    merge_affinity_label_keys,
    merge_spread_label_keys,
)
from kschedctl.api.objects import Node, Pod
from kschedctl.api.pod_requests import Options, parse_quantities
from kschedctl.api.priority import resolve_priority
from kschedctl.api.quantity import QuantityError
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.errors import InputError
from kschedctl.snapshot.changed_nodes import ChangedNodes, NodeSubset
from kschedctl.snapshot.indexes import Indexes
from kschedctl.snapshot.nodes import AllNodes, NodeColumns, interleave_zones
from kschedctl.snapshot.pod_info import PodInfo, convert_to_amounts
from kschedctl.snapshot.pods import PodColumns


class Demands:
    """R resources of the nodes and pods of a snapshot, in millicores, bytes or units. Properties raise InputError."""

    def __init__(self, nodes: NodeColumns, pods: PodColumns) -> None:
        self._nodes, self._pods = nodes, pods

    @cached_property
    def column_by_resource(self) -> dict[str, int]:
        """The column of each resource, by name. Native resources come first, then all resources of nodes and pods."""
        resource_names = dict.fromkeys((names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE, names.PODS))
        for offer in self._offers:
            resource_names.update(dict.fromkeys(offer))
        for info in self._distinct:
            resource_names.update(dict.fromkeys(info.requests))
        return {name: column for column, name in enumerate(resource_names)}

    @cached_property
    def allocatable(self) -> Amounts:
        """A matrix (nodes, resources) of what each node offers."""
        return self.build_matrix(self._offers)

    @cached_property
    def requests(self) -> Amounts:
        """A matrix (distinct pods, resources) of the requests, with 1 in the column of pods."""
        matrix = self.build_matrix([info.requests for info in self._distinct])
        matrix[:, self.column_by_resource[names.PODS]] = 1
        return matrix[self._pods.distinct.demand]

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """Like `requests`, with a default for containers without CPU or memory requests."""
        return self.build_matrix([info.nonzero_requests for info in self._distinct])[self._pods.distinct.demand]

    def build_matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        """Convert mappings from resource to amount into an int64 matrix (mappings, resources). Missing amounts are 0.

        Raises KeyError for a resource that the snapshot does not have.
        """
        matrix = np.zeros((len(rows), len(self.column_by_resource)), np.int64)
        for index, row in enumerate(rows):
            for name, amount in row.items():
                matrix[index, self.column_by_resource[name]] = amount
        return matrix

    def build_offer_matrix(self, nodes: Sequence[Node]) -> Amounts:
        """Return a matrix (nodes, resources) of the amounts that the nodes offer.

        Resources that the snapshot does not have are left out. Raises InputError for an invalid amount.
        """
        rows = []
        for node in nodes:
            offer = compute_allocatable_amounts(node)
            rows.append({name: amount for name, amount in offer.items() if name in self.column_by_resource})
        return self.build_matrix(rows)

    @property
    def _distinct(self) -> list[PodInfo]:
        """One PodInfo for each distinct set of requests."""
        return self._pods.distinct.demands

    @cached_property
    def _offers(self) -> list[dict[str, int]]:
        """The amounts that each node offers, by resource name."""
        offer_by_amounts: dict[tuple[tuple[str, object], ...], dict[str, int]] = {}
        offers = []
        for node in self._nodes.objects:  # nodes of the same shape offer the same
            key = tuple(node.status.allocatable.items())
            if key not in offer_by_amounts:
                offer_by_amounts[key] = compute_allocatable_amounts(node)
            offers.append(offer_by_amounts[key])
        return offers


def compute_allocatable_amounts(node: Node) -> dict[str, int]:
    """Return the node's allocatable amounts, in millicores, bytes or units. Raises InputError if one is invalid."""
    try:
        return convert_to_amounts(parse_quantities(node.status.allocatable))
    except QuantityError as error:
        location = f"Node {node.metadata.name}, status.allocatable"
        raise InputError(error.what, where=location, hint=error.hint) from None


def _find_rows(nodes: Sequence[Node], columns: NodeColumns) -> Rows:
    """Return the row of each node in the columns, or -1 if the columns do not have the node."""
    return np.array([columns.index.get(node.metadata.name, -1) for node in nodes], np.int64)


class Settings(NamedTuple):
    """The settings of a snapshot that follow from the scheduler's configuration and feature gates."""

    served_profiles: frozenset[str] = frozenset((DEFAULT_SCHEDULER_NAME,))
    """schedulerNames of its profiles. Nominations of other schedulers' pods are ignored."""
    requests: Options = Options()
    merge_affinity_label_keys: bool = True
    merge_spread_label_keys: bool = True
    migrates_portworx: bool = True
    held_back: Callable[[PodInfo, Any], bool] | None = None
    """Returns whether a pod of a Fork does not enter the queue, or None if that does not matter."""
    groups_of_groups: bool = False
    """True if CompositePodGroups count."""
    policies_of_groups: bool = False
    """True if the preemptionPolicy of groups counts."""
    ended: bool = False
    """True if the snapshot has the pods that have ended, instead of all others."""

    def merge_label_keys(self, pod: Pod) -> Pod:
        """Return the pod with its label keys merged into its selectors, as the API server stores it."""
        if self.merge_affinity_label_keys:
            pod = merge_affinity_label_keys(pod)
        return merge_spread_label_keys(pod) if self.merge_spread_label_keys else pod

    def build_stored_pod(self, pod: Pod, cluster: Cluster) -> Pod:
        """Return a pod of the cluster's documents as the API server would store it, with defaults and its priority.

        If admission has not run for the cluster's pods yet, the label keys of a pod without a node are merged into its
        selectors. Raises InputError for an invalid amount.
        """
        try:
            pod = resolve_priority(apply_pod_defaults(pod), cluster.priority_classes)
        except QuantityError as error:
            raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None
        return self.merge_label_keys(pod) if cluster.admit and not pod.spec.node_name else pod


@dataclass(frozen=True, eq=False)
class Snapshot:
    """N nodes in the scheduler's order, R resources and P pods with T distinct PodInfos.

    A snapshot never changes. Moves of pods belong to a Fork.
    """

    cluster: Cluster
    settings: Settings
    nodes: NodeColumns
    pods: PodColumns
    node: Ints
    """(P,): the row of the node that each pod was bound to, -1 for none."""
    demands: Demands
    demand_rows: Rows | None = None
    """Rows of these nodes among all nodes of `demands`; None for all."""
    resized: Mapping[int, Node] = field(default_factory=dict)
    """Row -> node, for nodes whose offer differs from that of the node in `demands`."""
    indexes: Indexes = field(default_factory=Indexes)

    @classmethod
    def from_cluster(
        cls, cluster: Cluster, settings: Settings = Settings(), *, nodes: NodeColumns | None = None
    ) -> Snapshot:
        """Build the snapshot of a cluster, with the nodes in the scheduler's order.

        The snapshot has the pods that have not ended. With `settings.ended`, the snapshot has only the pods that have
        ended. `nodes` has the columns of the cluster's nodes if another snapshot of the same nodes has built them.
        """
        if nodes is None:
            nodes = AllNodes(interleave_zones(map(apply_node_defaults, cluster.nodes)))
        pod_table = cluster.pods.select_terminated() if settings.ended else cluster.pods.drop_terminated()
        pods = PodColumns.from_table(
            pod_table,
            stored=lambda pod: settings.build_stored_pod(pod, cluster),
            options=settings.requests,
            recreated=lambda pod: recreate_pod(pod, cluster),
        )
        return cls(
            cluster,
            settings,
            nodes=nodes,
            pods=pods,
            node=pods.find_node_rows(nodes.index),
            demands=Demands(nodes, pods),
        )

    def without_nodes(self, removed: Bools, cluster: Cluster, node: Ints) -> Snapshot:
        """Return the snapshot without the nodes in the mask `removed` (N,).

        The remaining nodes keep their order. `cluster` has the other objects, and `node` has the row of each pod's node
        in this snapshot. Pods of removed nodes get row -1.
        """
        remaining_rows = np.flatnonzero(~removed)
        nodes = NodeSubset(self.nodes, remaining_rows)
        node_objects = self._select_remaining_nodes(removed, cluster)
        new_rows = np.full(len(self.nodes) + 1, -1, np.int32)  # the last entry is for pods without a node
        new_rows[remaining_rows] = np.arange(len(remaining_rows))
        resized = {}
        for old_row, resized_node in self.resized.items():
            if not removed[old_row]:
                resized[int(new_rows[old_row])] = resized_node
        return dataclasses.replace(
            self,
            cluster=dataclasses.replace(cluster, nodes=node_objects),
            nodes=nodes,
            node=new_rows[node],
            demand_rows=remaining_rows if self.demand_rows is None else self.demand_rows[remaining_rows],
            resized=resized,
        )

    def _select_remaining_nodes(self, removed: Bools, cluster: Cluster) -> tuple[Node, ...]:
        """Return the nodes of the cluster, in its order, except the nodes in the mask `removed` (N,).

        The rows of the nodes are cached, because thousands of nodes may be removed one by one from the same snapshot.
        """
        rows = self.indexes.get_or_make(
            "rows of nodes", (cluster.nodes, self.nodes), lambda: _find_rows(cluster.nodes, self.nodes)
        )
        is_kept = np.append(~removed, False)[rows]  # the last entry is for nodes without a row, which are left out
        return tuple(compress(cluster.nodes, is_kept.tolist()))

    def with_changes(
        self, cluster: Cluster, node: Ints, nodes: Mapping[Row, Node], added: Sequence[tuple[Row, Node]]
    ) -> Self:
        """Return this snapshot with the objects of `cluster`, in which some nodes are changed or added.

        `node` has the row of each pod's node. `nodes` has the changed nodes by row. `added` has new nodes, each with
        the row of an existing node that it resembles. The order of nodes stays as it is, even if zones change.
        """
        if not nodes and not added:
            return dataclasses.replace(self, cluster=cluster, node=node)
        similar_rows = [similar_row for similar_row, _ in added]
        added_nodes = [node_to_add for _, node_to_add in added]

        # `demands` stays as it is. An added node uses the row there of its similar node, unless it is in `resized`.
        demand_rows = np.arange(len(self.nodes)) if self.demand_rows is None else self.demand_rows
        return dataclasses.replace(
            self,
            cluster=cluster,
            nodes=ChangedNodes(self.nodes, nodes, added_nodes),
            node=node,
            demand_rows=np.append(demand_rows, demand_rows[similar_rows]),
            resized={**self.resized, **dict(self._iter_resized_nodes(nodes, added))},
        )

    def _iter_resized_nodes(
        self, nodes: Mapping[Row, Node], added: Sequence[tuple[Row, Node]]
    ) -> Iterator[tuple[int, Node]]:
        """Yield the row and the node of each changed or added node that may be resized.

        Such a node may offer different amounts than in `demands`.
        """
        for row, node in nodes.items():
            if self._may_be_resized(node, row):
                yield row, node
        for new_row, (similar_row, node) in enumerate(added, len(self.nodes)):
            if self._may_be_resized(node, similar_row):
                yield new_row, node

    def _may_be_resized(self, node: Node, row: Row) -> bool:
        """Return whether a node may offer something else than `demands` has for the node on this row."""
        return row in self.resized or node.status.allocatable != self.nodes.objects[row].status.allocatable

    @cached_property
    def allocatable(self) -> Amounts:
        """A matrix (nodes, resources) of what each node offers, in millicores, bytes or units."""
        if self.demand_rows is None:  # the nodes are those of `demands`, whose matrix is shared
            return self.demands.allocatable
        allocatable = self.demands.allocatable[self.demand_rows]  # a copy
        if self.resized:
            resized_rows = list(self.resized)
            allocatable[resized_rows] = self.demands.build_offer_matrix(list(self.resized.values()))
        return allocatable

    @cached_property
    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of each existing namespace, by name."""
        return {namespace.metadata.name: namespace.metadata.labels for namespace in self.cluster.namespaces}

    @cached_property
    def nominations(self) -> tuple[Rows, Rows]:
        """The nominated rows of this scheduler's pods, and the positions of these pods.

        A nomination counts if a profile serves the pod, the pod has no node yet, and the nominated node exists.
        """
        rows, positions = [], []
        for position in self.pods.nominated_positions:
            pod = self.pods.objects[position]
            row = self.nodes.index.get(pod.status.nominated_node_name)
            is_served = self.pods.get_info(position).spec.scheduler_name in self.settings.served_profiles
            if row is not None and is_served and not pod.spec.node_name:
                rows.append(row)
                positions.append(position)
        return np.array(rows, np.int64), np.array(positions, np.int64)
