"""The state at the start of an autoscaler loop: the cluster as the autoscaler sees it, templates and waiting pods.

Upstream: core/static_autoscaler.go, core/podlistprocessor (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kschedctl.api.arrays import Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, place_pods
from kschedctl.autoscaling.cluster_autoscaler.nodes import (
    ClusterHealth,
    is_ready_and_schedulable,
    mark_node_unready_if_starting,
)
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions, NodeGroupList
from kschedctl.autoscaling.cluster_autoscaler.pods import (
    BoundOrNominatedPod,
    PodLists,
    is_daemon_set_pod,
    is_expendable,
    is_old_enough_for_scale_up,
    list_placed_and_unschedulable_pods,
)
from kschedctl.autoscaling.cluster_autoscaler.templates import (
    NodeTemplate,
    TemplateSources,
    build_suffixed_name,
    build_templates,
    copy_node_with_name,
)
from kschedctl.cluster import Cluster


@dataclass(eq=False)
class AutoscalerLoop:
    """The state of one loop of the autoscaler."""

    cluster: Cluster
    groups: NodeGroupList
    options: AutoscalerOptions
    now: int
    nodes: list[Node]
    """The nodes in list order, as the loop sees them."""
    health: ClusterHealth
    templates: dict[str, NodeTemplate]
    """Group -> template, for groups that have one."""
    unschedulable: list[Pod]
    upcoming: dict[str, int]
    """Group -> number of requested nodes that do not exist yet."""
    not_started: frozenset[str]
    """Names of nodes that exist but have not become ready yet, in groups with upcoming nodes."""
    snapshot: ClusterSnapshot
    """The existing nodes including upcoming ones. Templates are further rows of its universe."""

    @classmethod
    def from_cluster(
        cls, cluster: Cluster, groups: NodeGroupList, options: AutoscalerOptions, now: str, increases: Mapping[str, int]
    ) -> AutoscalerLoop:
        """Build the state of a loop that starts at the RFC 3339 time ``now``. Raises InputError if the time is invalid.

        ``increases`` maps groups to the numbers of nodes that their unfinished scale-ups have requested.
        """
        # Templates of the groups
        moment = parse_microseconds(now)
        nodes = [mark_node_unready_if_starting(node, options) for node in _order_nodes_as_listed(cluster)]
        lists = list_placed_and_unschedulable_pods(cluster.pods, _order_pod_rows_as_listed(cluster), options)
        templates = build_templates(
            groups, nodes, TemplateSources(_build_pod_lookup(cluster, lists), cluster.daemon_sets, options, moment)
        )

        # Nodes that were requested but do not exist or have not started yet
        health = ClusterHealth.build_health(groups, nodes, increases, moment)
        upcoming = health.count_upcoming_nodes() if health.cluster_is_healthy else {}
        not_started = {name for group in upcoming for name in health.list_not_started_nodes(group)}
        upcoming_nodes = list(_iter_upcoming_nodes(upcoming, templates))

        # The snapshot of started and upcoming nodes. Upcoming nodes stand for those that have not started.
        started_names = [node.metadata.name for node in nodes if node.metadata.name not in not_started]
        upcoming_names = [template.node.metadata.name for template in upcoming_nodes]
        extended_cluster = _build_cluster_with_templates(cluster, nodes, [*templates.values(), *upcoming_nodes])
        snapshot = ClusterSnapshot.from_cluster(extended_cluster, [*started_names, *upcoming_names])
        _put_pods_where_loop_sees_them(snapshot, lists.placed, cluster.pods.keys())
        return cls(
            cluster,
            groups,
            options,
            now=moment,
            nodes=nodes,
            health=health,
            templates=templates,
            unschedulable=lists.unschedulable,
            upcoming=upcoming,
            not_started=frozenset(not_started),
            snapshot=snapshot,
        )

    def get_position(self, pod: Pod) -> Position:
        """Return the pod's position in the snapshot's pod table."""
        return self.positions[pod.key]

    @cached_property
    def positions(self) -> dict[str, Position]:
        """The position of each pod in the snapshot's universe, by the pod's key."""
        return self.snapshot.universe.pods.index

    def get_pod(self, position: Position) -> Pod:
        """Return the pod at a position of the snapshot's pod table. Pods are built on access, and then cached."""
        if position not in self._pod_cache:
            self._pod_cache[position] = self.snapshot.universe.pods.objects[position]
        return self._pod_cache[position]

    @cached_property
    def _pod_cache(self) -> dict[Position, Pod]:
        """The pods that were already looked up, by position."""
        return {}

    def get_pod_requests(self, position: Position) -> Mapping[str, int]:
        """Return the requests of the pod at a position, in millicores, bytes or units."""
        pods = self.snapshot.universe.pods
        requests: Mapping[str, int] = pods.get_info(position).requests
        return requests

    def get_node_row(self, node_name: str) -> Row:
        """Return the row of a node in the snapshot's universe."""
        return Row(self.snapshot.universe.nodes.index[node_name])

    def get_template_row(self, group: str) -> Row:
        """Return the row of a group's template in the snapshot's universe."""
        return self.get_node_row(self.templates[group].node.metadata.name)

    @cached_property
    def ready_count(self) -> int:
        """The number of ready and schedulable nodes."""
        return sum(map(is_ready_and_schedulable, self.nodes))

    @cached_property
    def ends_immediately(self) -> bool:
        """True if the loop ends immediately because no node is ready and scaling up from zero is off."""
        return not self.options.scale_up_from_zero and (not self.nodes or not self.ready_count)

    def place_waiting_pods(self) -> list[Pod]:
        """Place unschedulable pods on existing and upcoming nodes. Return the pods that do not fit.

        Pods with a higher priority are placed first. Expendable pods are ignored. Pods of DaemonSets are placed, but
        never returned, because they do not trigger a scale-up.
        """
        pods = [pod for pod in self.unschedulable if not is_expendable(pod, self.options)]
        pods.sort(key=lambda pod: -(pod.spec.priority or 0))
        placed = place_pods(self.snapshot, [(pod, self.get_position(pod)) for pod in pods])
        return [pod for pod in pods if pod.key not in placed and not is_daemon_set_pod(pod)]

    def filter_old_enough_pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that have waited long enough for a scale-up."""
        return [pod for pod in pods if is_old_enough_for_scale_up(pod, self.options, self.now)]


def _build_cluster_with_templates(
    cluster: Cluster, nodes: Sequence[Node], templates: Sequence[NodeTemplate]
) -> Cluster:
    """Return the cluster with ``nodes`` in place of its own, and with the nodes and pods of the templates added."""
    all_nodes = (*nodes, *(template.node for template in templates))
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for template in templates for pod in template.pods}
    return replace(cluster, nodes=all_nodes, pods=cluster.pods.apply_changes(pods))


def _put_pods_where_loop_sees_them(
    snapshot: ClusterSnapshot, placed: Sequence[BoundOrNominatedPod], keys: Sequence[str]
) -> None:
    """Remove ignored pods from their nodes, and put the other nominated pods on their nominated nodes.

    Pods arrive on their nodes in the order of ``placed``, bound pods before nominated ones. ``keys`` are the keys of
    the pod table's rows.
    """
    universe = snapshot.universe
    bound_first = sorted(placed, key=lambda pod: not pod.bound)
    positions = [Position(universe.pods.index[keys[pod.row]]) for pod in bound_first]
    snapshot.set_arrival_order(positions)

    node_rows = universe.node.tolist()
    for pod, position in zip(bound_first, positions, strict=True):
        is_on_node = node_rows[position] >= 0
        target_row = universe.nodes.index.get(pod.node)
        if is_on_node and not pod.is_considered:
            snapshot.remove_pod(position)
        elif not is_on_node and pod.is_considered and target_row is not None:
            snapshot.put_pod(position, Row(target_row))


def _iter_upcoming_nodes(upcoming: Mapping[str, int], templates: Mapping[str, NodeTemplate]) -> Iterator[NodeTemplate]:
    """Yield a copy of a group's template for each upcoming node of the group. `upcoming` has their number by group."""
    for group, count in upcoming.items():
        template = templates[group]
        for index in range(count):
            yield copy_template(template, build_suffixed_name(template.node, f"upcoming-{index}"))


def copy_template(template: NodeTemplate, name: str) -> NodeTemplate:
    """Return a copy of a template under another name, with renamed copies of its pods on it."""
    node = copy_node_with_name(template.node, name)
    pods = tuple(
        replace(
            pod,
            metadata=replace(pod.metadata, name=f"{pod.metadata.name}-{name}"),
            spec=replace(pod.spec, node_name=node.metadata.name),
        )
        for pod in template.pods
    )
    return NodeTemplate(node, pods)


def _order_nodes_as_listed(cluster: Cluster) -> Sequence[Node]:
    """Return the nodes in the order in which the API server listed them.

    If this order is unknown, keep the cluster's order.
    """
    ranks = cluster.listed.get("Node")
    if not ranks:
        return cluster.nodes
    # The ranks are by namespace and name, and nodes, which have no namespace, are recorded under "default".
    return sorted(cluster.nodes, key=lambda node: ranks.get(("default", node.metadata.name), len(ranks)))


def _order_pod_rows_as_listed(cluster: Cluster) -> Sequence[int]:
    """Return the pods' rows in the order in which the API server listed the pods. Unlisted pods come last.

    If no order is known, the rows are in the table's order.
    """
    ranks = cluster.listed.get("Pod")
    rows = range(len(cluster.pods))
    if not ranks:
        return rows
    rank_by_row = [ranks.get(key, len(ranks)) for key in cluster.pods.list_keys()]
    return sorted(rows, key=rank_by_row.__getitem__)


def _build_pod_lookup(cluster: Cluster, lists: PodLists) -> Callable[[str], Sequence[Pod]]:
    """Build a function that returns the pods on the node with a given name.

    Pods that the autoscaler ignores are left out.
    """
    rows: dict[str, list[int]] = {}
    for pod in lists.placed:
        if pod.is_considered:
            rows.setdefault(pod.node, []).append(pod.row)
    return lambda node: [cluster.pods[row] for row in rows.get(node, ())]
