"""The node groups of a cluster and the flags of its Cluster Autoscaler, from all that tells of them.

The status ConfigMap has limits, targets and states; Cluster API's objects have nodes and capacity as well; ``--nodes``
of the autoscaler has limits; labels have nodes. What people give wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import STATUS_MAP
from kschedctl.api.node_pools import find_pool
from kschedctl.api.observed.autoscaler import AutoscalerInstance
from kschedctl.autoscaling.node_groups.flags import RELEASE, Flags, minor_of, read_flags
from kschedctl.autoscaling.node_groups.machines import machine_groups
from kschedctl.autoscaling.node_groups.members import members
from kschedctl.autoscaling.node_groups.status import BACKOFF, IN_PROGRESS, UNHEALTHY, AutoscalerStatus, read_status
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted, first_few

NO_LIMIT = 1_000_000
UNKNOWN = "templateUnknown"
BY_LABELS = "node groups: labels of nodes"


@dataclass(frozen=True)
class Given:
    """What people say: groups and options as ``--node-groups`` has them, and the label that names a node's group."""

    groups: Sequence[JsonObject] = ()
    options: JsonObject = field(default_factory=dict)
    label: str = ""
    where: str = ""


@dataclass(frozen=True)
class NodeGroups:
    """``groups`` and ``options`` as ``scale_up`` takes them; ``active``: group -> nodes that were asked for.

    ``sources``: where groups and flags are from; ``limits_known``: whether anything but labels tells of the groups;
    ``doubts``: what is not certain, a line each; ``faults``: what makes no sense and is left out; ``waits``: how long
    nodes wait before they go, by flag.
    """

    groups: tuple[JsonObject, ...]
    options: JsonObject
    active: Mapping[str, int]
    sources: tuple[str, ...]
    limits_known: bool
    doubts: tuple[str, ...]
    faults: tuple[str, ...]
    waits: Mapping[str, str]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(str(group.get("id", "")) for group in self.groups)

    @property
    def certain(self) -> bool:
        """Whether these are all the groups, as they are."""
        return self.limits_known and not self.faults and not self.doubts


def find_node_groups(cluster: Cluster, given: Given = Given()) -> NodeGroups:
    """All that can be known. No groups: nothing names any."""
    flags = read_flags(cluster.autoscaler)
    read = _Told(cluster, given, flags)
    groups, sources = read.groups()
    return NodeGroups(
        tuple(groups),
        {**flags.options, **given.options},
        read.active,
        (*sources, *_flag_source(cluster.autoscaler, given)),
        sources != (BY_LABELS,),
        tuple(read.doubts),
        (*read.faults, *flags.faults),
        flags.waits,
    )


def has_node_groups(cluster: Cluster) -> bool:
    """Whether the cluster itself tells of node groups with limits."""
    named = any(config_map.metadata.name == STATUS_MAP for config_map in cluster.config_maps)
    return named or bool(read_flags(cluster.autoscaler).groups or machine_groups(cluster).groups)


def _flag_source(instance: AutoscalerInstance | None, given: Given) -> Iterator[str]:
    if given.options:
        yield f"options: {given.where}"
    if instance is None:
        yield f"flags: the defaults of release 1.{RELEASE}"
        return
    minor = minor_of(instance) or RELEASE
    other = f", replayed as 1.{RELEASE}" if minor != RELEASE else ""
    yield f"flags: {instance.where or 'its container'}, else the defaults of release 1.{minor}{other}"


class _Told:
    """Puts together what is told."""

    def __init__(self, cluster: Cluster, given: Given, flags: Flags) -> None:
        self._cluster, self._given, self._flags = cluster, given, flags
        self.active: dict[str, int] = {}
        self.doubts: list[str] = []
        self.faults: list[str] = []

    def groups(self) -> tuple[list[JsonObject], tuple[str, ...]]:
        """The groups, and where they are from."""
        groups, sources = self._of_cluster()
        given = self._given.groups
        if not given:
            return groups, sources
        by_id = {str(group["id"]): group for group in groups}
        names = {group.get("id") for group in given}
        kept = [] if sources == (BY_LABELS,) else [group for name, group in by_id.items() if name not in names]
        merged = [{**by_id.get(str(group.get("id")), {}), **group} for group in given]
        source = f"node groups: {self._given.where}"
        return [*self._placed(merged, {}), *kept], (source, *(sources if kept else ()))

    def _of_cluster(self) -> tuple[list[JsonObject], tuple[str, ...]]:
        machines = machine_groups(self._cluster)
        self.faults += machines.faults
        statuses = [
            read_status(config_map)
            for config_map in self._cluster.config_maps
            if config_map.metadata.name == STATUS_MAP
        ]
        self.faults += [fault for status in statuses for fault in status.faults]
        self.doubts += [f"node groups: {fault}" for status in statuses for fault in status.faults]
        by_machines = {str(group["id"]): group for group in machines.groups}
        if any(status.groups for status in statuses):
            groups = [group for status in statuses for group in self._of_status(status, by_machines)]
            return groups, tuple(f"node groups: {status.where}, {status.time}" for status in statuses)
        if by_machines:
            return [self._with_template(group) for group in machines.groups], ("node groups: Cluster API",)
        if self._flags.groups and self._cluster.autoscaler:
            groups = list(self._placed(self._flags.groups, {}))
            return groups, (f"node groups: --nodes of {self._cluster.autoscaler.where}",)
        return _of_labels(self._cluster, self._given.label), (BY_LABELS,)

    def _of_status(self, status: AutoscalerStatus, by_machines: Mapping[str, JsonObject]) -> Iterator[JsonObject]:
        for group in status.groups:
            if group.scale_up == IN_PROGRESS and group.target > group.registered:
                self.active[group.name] = group.target - group.registered
        documents = [
            {
                **by_machines.get(group.name, {}),
                "id": group.name,
                "min": group.min,
                "max": group.max,
                "target": group.target,
                **({"backOff": group.why} if group.scale_up == BACKOFF else {}),
                **({"unhealthy": True} if UNHEALTHY in (group.scale_up, group.health) else {}),
            }
            for group in status.groups
        ]
        yield from self._placed(documents, {group.name: group.registered for group in status.groups})

    def _placed(self, groups: Sequence[JsonObject], registered: Mapping[str, int]) -> Iterator[JsonObject]:
        """The groups with their nodes; ``registered``: how many the autoscaler counts."""
        names = [str(group["id"]) for group in groups if "nodes" not in group]
        of_groups = members(names, self._cluster.nodes, self._given.label)
        self._doubt(of_groups.unsure)
        for group in groups:
            name = str(group["id"])
            nodes = of_groups.nodes.get(name, []) if "nodes" not in group else group["nodes"]
            placed = len(nodes) if isinstance(nodes, list) else 0  # of any other type: that is said where it is read
            count = registered.get(name, placed)
            if count != placed:
                said = f"{name}: the autoscaler counts {counted(count, 'node')}, of which {placed} can be told"
                self.doubts.append(said)
            yield self._with_template({"target": placed, **group, "nodes": nodes})

    def _with_template(self, group: JsonObject) -> JsonObject:
        """Marked where nobody can say what a new node of it would be."""
        if group.get("nodes") or group.get("template"):
            return {name: value for name, value in group.items() if name != UNKNOWN}
        return group if "template" in group else {**group, UNKNOWN: True}

    def _doubt(self, unsure: Mapping[str, Iterable[str]]) -> None:
        for node, groups in list(unsure.items())[:1]:
            more = f" (and {counted(len(unsure) - 1, 'more node')})" if len(unsure) > 1 else ""
            self.doubts.append(f"node {node}{more} could be of {first_few(tuple(groups))}")


def _of_labels(cluster: Cluster, label: str) -> list[JsonObject]:
    """Groups as large as they are, from none to any number of nodes; a node tells what a new one would be."""
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        pool = node.metadata.labels.get(label, "") if label else find_pool(node)
        if pool:
            groups.setdefault(pool, []).append(node.metadata.name)
    return [
        {"id": pool, "min": 0, "max": NO_LIMIT, "target": len(nodes), "nodes": nodes}
        for pool, nodes in sorted(groups.items())
    ]
