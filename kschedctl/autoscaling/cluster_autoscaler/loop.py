"""What a loop of the autoscaler begins with: the cluster as it counts it, templates, and the pods that wait.

Upstream: core/static_autoscaler.go, core/podlistprocessor (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kschedctl.api.arrays import Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.health import Health
from kschedctl.autoscaling.cluster_autoscaler.nodes import as_processed, is_ready_and_schedulable
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions, Groups
from kschedctl.autoscaling.cluster_autoscaler.placing import place_pods
from kschedctl.autoscaling.cluster_autoscaler.pods import (
    CountedPod,
    PodLists,
    is_daemon_set_pod,
    is_expendable,
    is_old_enough,
    list_pods,
)
from kschedctl.autoscaling.cluster_autoscaler.templates import (
    NodeTemplate,
    TemplateSources,
    named_copy,
    suffixed,
    templates,
)
from kschedctl.cluster import Cluster


@dataclass(eq=False)
class AutoscalerLoop:
    """``nodes``: in order, as the loop sees them. ``templates``: of the groups that have one.

    ``snapshot``: of the nodes that exist, those on their way among them; the templates are further rows of it.
    ``pods``: all that count, by name.
    """

    cluster: Cluster
    groups: Groups
    options: AutoscalerOptions
    now: int
    nodes: list[Node]
    health: Health
    templates: dict[str, NodeTemplate]
    unschedulable: list[Pod]
    upcoming: dict[str, int]
    not_started: frozenset[str]
    snapshot: ClusterSnapshot

    @classmethod
    def begin(
        cls, cluster: Cluster, groups: Groups, options: AutoscalerOptions, now: str, increases: Mapping[str, int]
    ) -> AutoscalerLoop:
        """Raises InputError."""
        moment = parse_microseconds(now)
        nodes = [as_processed(node, options) for node in _nodes_in_order(cluster)]
        lists = list_pods(cluster.pods, _pods_in_order(cluster), options)
        made = templates(groups, nodes, TemplateSources(_pods_on(cluster, lists), cluster.daemon_sets, options, moment))
        health = Health.of(groups, nodes, increases, moment)
        upcoming = health.upcoming() if health.cluster_is_healthy else {}
        not_started = frozenset(name for group in upcoming for name in health.not_started(group))
        coming = [
            copied(made[group], suffixed(made[group].node, f"upcoming-{at}"))
            for group, count in upcoming.items()
            for at in range(count)
        ]
        there = [node.metadata.name for node in nodes if node.metadata.name not in not_started]
        snapshot = ClusterSnapshot.of(
            _universe(cluster, nodes, [*made.values(), *coming]),
            [*there, *(template.node.metadata.name for template in coming)],
        )
        _settle(snapshot, lists.placed, cluster.pods.keys())
        unschedulable = lists.unschedulable
        return cls(
            cluster, groups, options, moment, nodes, health, made, unschedulable, upcoming, not_started, snapshot
        )

    def position(self, pod: Pod) -> Position:
        return self.positions[pod.key]

    @cached_property
    def positions(self) -> dict[str, Position]:
        return self.snapshot.universe.pods.index

    def pod(self, position: Position) -> Pod:
        """The pod of a position."""
        if position not in self._pods:
            self._pods[position] = self.snapshot.universe.pods.objects[position]
        return self._pods[position]

    @cached_property
    def _pods(self) -> dict[Position, Pod]:
        return {}

    def requests(self, position: Position) -> Mapping[str, int]:
        """What a pod requests; millicores, bytes or units."""
        pods = self.snapshot.universe.pods
        requests: Mapping[str, int] = pods.infos[pods.info[position]].requests
        return requests

    def row(self, node: str) -> Row:
        return Row(self.snapshot.universe.nodes.index[node])

    def template_row(self, group: str) -> Row:
        return self.row(self.templates[group].node.metadata.name)

    @cached_property
    def ready(self) -> int:
        """How many nodes are ready and schedulable."""
        return sum(map(is_ready_and_schedulable, self.nodes))

    @cached_property
    def is_over(self) -> bool:
        """Whether the loop ends before anything is done: there is no node to begin with."""
        return not self.options.scale_up_from_zero and (not self.nodes or not self.ready)

    def waiting(self) -> list[Pod]:
        """The unschedulable pods that still want a node more; those that fit where there is room are put there."""
        pods = [pod for pod in self.unschedulable if not is_expendable(pod, self.options)]
        pods.sort(key=lambda pod: -(pod.spec.priority or 0))
        placed = place_pods(self.snapshot, [(pod, self.position(pod)) for pod in pods])
        return [pod for pod in pods if pod.key not in placed and not is_daemon_set_pod(pod)]

    def old_enough(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if is_old_enough(pod, self.options, self.now)]


def _universe(cluster: Cluster, nodes: Sequence[Node], more: Sequence[NodeTemplate]) -> Cluster:
    """The cluster with these nodes, and with templates and their pods."""
    all_nodes = (*nodes, *(template.node for template in more))
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for template in more for pod in template.pods}
    return replace(cluster, nodes=all_nodes, pods=cluster.pods.apply_changes(pods))


def _settle(snapshot: ClusterSnapshot, placed: Sequence[CountedPod], keys: Sequence[str]) -> None:
    """Take the pods that do not count off their nodes, and put those that are nominated there."""
    view = snapshot.universe
    positions = [view.pods.index[keys[pod.row]] for pod in placed]
    scheduled_first = sorted(zip(placed, positions, strict=True), key=lambda each: not each[0].bound)
    snapshot.came_in_order(position for _, position in scheduled_first)
    node = view.node.tolist()
    for pod, position in scheduled_first:
        here, row = node[position] >= 0, view.nodes.index.get(pod.node)
        if here and not pod.counts:
            snapshot.take(position)
        elif not here and pod.counts and row is not None:
            snapshot.put(position, Row(row))


def copied(template: NodeTemplate, name: str) -> NodeTemplate:
    """Another node like a template, of a name, and its pods."""
    node = named_copy(template.node, name)
    pods = tuple(
        replace(
            pod,
            metadata=replace(pod.metadata, name=f"{pod.metadata.name}-{name}"),
            spec=replace(pod.spec, node_name=node.metadata.name),
        )
        for pod in template.pods
    )
    return NodeTemplate(node, pods)


def _nodes_in_order(cluster: Cluster) -> Sequence[Node]:
    """As they were listed, where that is known."""
    places = cluster.listed.get("Node")
    if not places:
        return cluster.nodes
    return sorted(cluster.nodes, key=lambda node: places.get(("default", node.metadata.name), len(places)))


def _pods_in_order(cluster: Cluster) -> Sequence[int]:
    """The rows of the pods as they were listed, where that is known."""
    places, rows = cluster.listed.get("Pod"), range(len(cluster.pods))
    if not places:
        return rows
    order = [places.get(key, len(places)) for key in cluster.pods.list_keys()]
    return sorted(rows, key=order.__getitem__)


def _pods_on(cluster: Cluster, lists: PodLists) -> Callable[[str], Sequence[Pod]]:
    """The pods that count, by their node."""
    rows: dict[str, list[int]] = {}
    for pod in lists.placed:
        if pod.counts:
            rows.setdefault(pod.node, []).append(pod.row)
    return lambda node: [cluster.pods[row] for row in rows.get(node, ())]
