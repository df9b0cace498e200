"""Readiness and resources of nodes, limits on their sums, and the health of groups, as Cluster Autoscaler sees them.

The cores, memory and GPUs of all nodes together may be limited. A node counts with its capacity: whole cores rounded
up, bytes of memory, and GPUs by the type in its label.

Upstream: utils/kubernetes/ready.go, utils/taints/taints.go, processors/customresources/gpu_processor.go,
clusterstate/clusterstate.go, resourcequotas/tracker.go and cache.go, core/scaledown/resource/limits.go (1.36). In its
first loop, a process knows only the scale-ups it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions, NodeGroupList
from kschedctl.snapshot.pod_info import convert_to_amounts

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
STARTUP_PREFIXES = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
STATUS_PREFIXES = ("status-taint.cluster-autoscaler.kubernetes.io/",)
CONDITION_TAINTS = frozenset(
    (
        *(
            f"node.kubernetes.io/{name}"
            for name in (
                "not-ready",
                "unreachable",
                "unschedulable",
                "memory-pressure",
                "disk-pressure",
                "network-unavailable",
                "pid-pressure",
            )
        ),
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    )
)
_NOT_READY = {f"node.kubernetes.io/{name}" for name in ("not-ready", "disk-pressure", "network-unavailable")}
_UNREADY_IF = {"Ready": ("False", "Unknown"), "DiskPressure": ("True",), "NetworkUnavailable": ("True",)}
GPU = "nvidia.com/gpu"
GPU_RESOURCES = (GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
NEVER = parse_microseconds("0001-01-01T00:00:00Z")
STARTUP_TIME = 15 * 60 * 10**6
"""Microseconds within which a new node may become ready (--max-node-startup-time)."""
STABLE_AFTER = 60 * 10**6
OK_UNREADY, MOST_UNREADY = 3, 0.45
"""--ok-total-unready-count and --max-total-unready-percentage."""

Amounts = dict[str, int]
"""Resource -> whole cores, bytes, GPUs or nodes."""


class NodeReadiness(NamedTuple):
    """The readiness of a node, with the time of its last change."""

    ready: bool
    since: int
    """Microseconds since 1970."""


def get_readiness(node: Node) -> NodeReadiness:
    """Return whether a node is ready according to its conditions and not-ready taints, and since when.

    The time is the latest transition of these conditions, or NEVER.
    """
    conditions = [condition for condition in node.status.conditions if condition.type in _UNREADY_IF]
    transition_times = [condition.last_transition_time for condition in conditions if condition.last_transition_time]
    since = max(map(parse_microseconds, transition_times), default=NEVER)
    has_ready_condition = any(condition.type == "Ready" for condition in conditions)
    has_unready_condition = any(condition.status in _UNREADY_IF[condition.type] for condition in conditions)
    has_unready_taint = any(taint.key in _NOT_READY for taint in node.spec.taints)
    return NodeReadiness(has_ready_condition and not has_unready_condition and not has_unready_taint, since)


def mark_node_unready_if_starting(node: Node, options: AutoscalerOptions) -> Node:
    """Return the node, marked as unready if it is still starting.

    A node is starting if it has a startup taint or lacks a GPU that its label announces. Nodes that are already unready
    or unschedulable are returned unchanged.
    """
    if not is_ready_and_schedulable(node):
        return node
    has_startup_taint = any(is_startup_taint(taint.key, options) for taint in node.spec.taints)
    if has_startup_taint or _lacks_gpu(node, options):
        return _mark_node_unready(node)
    return node


def is_ready_and_schedulable(node: Node) -> bool:
    """Return whether the node is ready and not cordoned."""
    return get_readiness(node).ready and not node.spec.unschedulable


def is_startup_taint(key: str, options: AutoscalerOptions) -> bool:
    """Return whether a taint with this key marks nodes that are still starting."""
    return key in options.startup_taints or key.startswith(STARTUP_PREFIXES)


def is_status_taint(key: str, options: AutoscalerOptions) -> bool:
    """Return whether a taint with this key reports a node's status, so that new nodes do not have it."""
    return key in options.status_taints or key.startswith(STATUS_PREFIXES)


def get_allocatable_amounts(node: Node) -> dict[str, int]:
    """Return the node's allocatable amounts, or its capacity if there are none, in millicores, bytes or units."""
    return convert_to_amounts(parse_quantities(node.status.allocatable or node.status.capacity))


def get_capacity(node: Node) -> dict[str, int]:
    """Return the node's capacity in millicores, bytes or units."""
    return convert_to_amounts(parse_quantities(node.status.capacity))


def _lacks_gpu(node: Node, options: AutoscalerOptions) -> bool:
    """Return whether the node's label promises a GPU but none is allocatable."""
    if options.gpu_label not in node.metadata.labels:
        return False
    return not any(get_allocatable_amounts(node).get(resource, 0) for resource in GPU_RESOURCES)


def _mark_node_unready(node: Node) -> Node:
    """Return a copy of the node with the condition Ready set to False since its creation."""
    since = node.metadata.creation_timestamp
    other_conditions = tuple(condition for condition in node.status.conditions if condition.type != "Ready")
    conditions = (*other_conditions, Condition("Ready", "False", last_transition_time=since))
    return replace(node, status=replace(node.status, conditions=conditions))


@dataclass
class GroupReadiness:
    """The names of nodes by readiness."""

    ready: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)

    @property
    def registered(self) -> int:
        """The number of nodes that exist."""
        return len(self.ready) + len(self.not_started) + len(self.unready)

    def add_node(self, node: Node, now: int) -> None:
        """Record the node as ready or unready. An unready node that is still new is recorded as not started."""
        created = parse_microseconds(node.metadata.creation_timestamp) if node.metadata.creation_timestamp else NEVER
        if get_readiness(node).ready:
            self.ready.append(node.metadata.name)
        elif created + STARTUP_TIME > now:
            self.not_started.append(node.metadata.name)
        else:
            self.unready.append(node.metadata.name)


@dataclass
class ClusterHealth:
    """The readiness of nodes in the whole cluster and in each group."""

    groups: NodeGroupList
    increases: Mapping[str, int]
    """Group -> number of nodes that an unfinished scale-up adds to it."""
    total: GroupReadiness = field(default_factory=GroupReadiness)
    by_group: dict[str, GroupReadiness] = field(default_factory=dict)

    @classmethod
    def build_health(
        cls, groups: NodeGroupList, nodes: Sequence[Node], increases: Mapping[str, int], now: int
    ) -> ClusterHealth:
        """Classify all nodes by their readiness at ``now``, in total and by group.

        ``increases`` are the numbers of nodes that unfinished scale-ups have requested, by group. Groups without nodes
        have no entry, unless the cloud lists nodes of the group that have not registered.
        """
        health = cls(groups, increases)
        for node in nodes:
            health.total.add_node(node, now)
            if group := groups.of_node.get(node.metadata.name):
                health.by_group.setdefault(group.id, GroupReadiness()).add_node(node, now)
        registered = {node.metadata.name for node in nodes}
        for group in groups.all:  # the cloud reports nodes that have not registered
            if not registered.issuperset(group.nodes):
                health.by_group.setdefault(group.id, GroupReadiness())
        return health

    @property
    def cluster_is_healthy(self) -> bool:
        """True if so few of all nodes are unready that the autoscaler acts at all."""
        return not _are_too_many_unready(len(self.total.unready), self.total.registered)

    def is_group_healthy(self, group: AutoscaledGroup) -> bool:
        """Return whether enough of the nodes that the group should have are ready.

        Nodes that unfinished scale-ups have requested are not expected yet. A group without nodes is healthy if none
        are expected.
        """
        expected = group.target - self.increases.get(group.id, 0)
        state = self.by_group.get(group.id)
        if state is None:  # without any node, the group is healthy if it should not have one yet
            wants_no_node = group.target == 0
            are_all_nodes_upcoming = group.target > 0 and expected == 0
            return wants_no_node or are_all_nodes_upcoming
        return not _are_too_many_unready(max(expected - len(state.ready), 0), state.registered)

    def count_upcoming_nodes(self) -> dict[str, int]:
        """Return how many requested nodes of each growing group do not exist or have not started yet.

        Groups without such nodes are left out.
        """
        missing_counts = {
            group.id: self._count_missing_nodes(group) for group in self.groups.all if group.id in self.increases
        }
        return {group: count for group, count in missing_counts.items() if count > 0}

    def list_not_started_nodes(self, group: str) -> list[str]:
        """Return the names of the group's existing nodes that have not become ready yet."""
        return self.by_group[group].not_started if group in self.by_group else []

    def _count_missing_nodes(self, group: AutoscaledGroup) -> int:
        """Return how many nodes of the group's target do not exist or have not started yet."""
        state = self.by_group.get(group.id, GroupReadiness())
        return group.target - len(state.ready) - len(state.unready)


def _are_too_many_unready(unready: int, total: int) -> bool:
    """Return whether so many of ``total`` nodes are unready that upstream considers them unhealthy."""
    return unready > OK_UNREADY and unready > MOST_UNREADY * total


class ResourceTracker:
    """A tracker of the amount of each limited resource that scaling may still add or remove.

    All nodes of a group count with the amounts of the first node counted, which may be the template.
    """

    def __init__(self, options: AutoscalerOptions, remaining: Amounts) -> None:
        self.options = options
        self.remaining = remaining
        self._amounts_by_group: dict[str, Amounts] = {}

    @classmethod
    def build_scale_up_tracker(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], group_by_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Build the tracker of how much of each resource may be added: the maximum minus the nodes' amounts.

        ``group_by_node`` maps the names of nodes to their groups. Nodes of virtual kubelets do not count.
        """
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        tracker = cls(options, maxima)
        for node in nodes:
            if not _is_virtual_kubelet_node(node):
                amounts = tracker.get_node_amounts(group_by_node.get(node.metadata.name), node)
                tracker._add_to_remaining_amounts(amounts, factor=-1)
        return tracker

    @classmethod
    def build_scale_down_tracker(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], group_by_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Build the tracker of how much of each resource may be removed: the nodes' amounts minus the minimum.

        ``group_by_node`` maps the names of nodes to their groups. Nodes of virtual kubelets do not count.
        """
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        tracker = cls(options, {name: -minimum for name, minimum in minima.items()})
        for node in nodes:
            if not _is_virtual_kubelet_node(node):
                amounts = tracker.get_node_amounts(group_by_node.get(node.metadata.name), node)
                tracker._add_to_remaining_amounts(amounts, factor=1)
        return tracker

    def get_node_amounts(self, group: str | None, node: Node) -> Amounts:
        """Return how much of each resource a node counts for.

        All nodes of a group count like the first one that was measured.
        """
        if group is None:
            return _measure_node_amounts(node, self.options)
        if group not in self._amounts_by_group:
            self._amounts_by_group[group] = _measure_node_amounts(node, self.options)
        return self._amounts_by_group[group]

    def find_exceeded_limits(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """Return the sorted names of the resources whose limits ``count`` more nodes of the group would exceed.

        A limit is exceeded if the nodes count for more than the remaining amount. ``node`` represents the group's
        nodes. Resources without a limit are never exceeded.
        """
        amounts = self.get_node_amounts(group, node)
        exceeded = [
            name
            for name, remaining in self.remaining.items()
            if amounts.get(name) and amounts[name] * count > remaining
        ]
        return tuple(sorted(exceeded))

    def limit_node_count(self, group: str, node: Node, count: int) -> int:
        """Return how many of up to ``count`` nodes of the group fit into the remaining amounts."""
        amounts = self.get_node_amounts(group, node)
        for name, remaining in self.remaining.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(remaining, 0) // amount)
        return count

    def charge_nodes(self, group: str, node: Node, count: int) -> None:
        """Subtract the amounts of ``count`` nodes of the group from the remaining amounts."""
        self._add_to_remaining_amounts(self.get_node_amounts(group, node), -count)

    def _add_to_remaining_amounts(self, amounts: Amounts, factor: int) -> None:
        """Add a node's amounts, multiplied by ``factor``, to the remaining amounts of limited resources."""
        for name in self.remaining:
            self.remaining[name] += amounts.get(name, 0) * factor


def _is_virtual_kubelet_node(node: Node) -> bool:
    """Return whether the node belongs to Virtual Kubelet. The limits do not count such nodes."""
    return node.metadata.labels.get("type") == "virtual-kubelet"


def _measure_node_amounts(node: Node, options: AutoscalerOptions) -> Amounts:
    """Return how much of each resource a node counts for: whole cores, bytes, one node, and GPUs by type."""
    capacity = get_capacity(node)
    cores = math.ceil(Fraction(capacity.get("cpu", 0), 1000))
    amounts = {"cpu": cores, "memory": capacity.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and capacity.get(GPU):
        amounts[gpu_type] = capacity[GPU]
    return amounts
