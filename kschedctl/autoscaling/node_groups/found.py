"""The node groups of a cluster and the autoscaler's flags, merged from all sources.

The status ConfigMap has limits, targets and states. Cluster API's objects also have nodes and capacity. The flag
``--nodes`` has limits, and labels have nodes. What the user specifies takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.component_flags import AutoscalerInstance
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import STATUS_MAP
from kschedctl.api.node_pools import find_pool
from kschedctl.autoscaling.node_groups.flags import RELEASE, Flags, parse_minor_version, read_flags
from kschedctl.autoscaling.node_groups.machines import find_machine_groups
from kschedctl.autoscaling.node_groups.members import assign_nodes
from kschedctl.autoscaling.node_groups.status import BACKOFF, IN_PROGRESS, UNHEALTHY, AutoscalerStatus, read_status
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted, first_few

NO_LIMIT = 1_000_000
UNKNOWN = "templateUnknown"
BY_LABELS = "node groups: labels of nodes"


@dataclass(frozen=True)
class UserGroups:
    """Node groups and options that the user specified."""

    groups: Sequence[JsonObject] = ()
    """Groups as in a ``--node-groups`` file."""
    options: JsonObject = field(default_factory=dict)
    """Options as in a ``--node-groups`` file."""
    label: str = ""
    """Node label that names a node's group."""
    where: str = ""
    """The file that specifies them, for messages."""


@dataclass(frozen=True)
class NodeGroups:
    """The node groups and options of the autoscaler."""

    groups: tuple[JsonObject, ...]
    """Groups in the form that ``scale_up`` takes."""
    options: JsonObject
    """Options in the form that ``scale_up`` takes."""
    active_scale_ups: Mapping[str, int]
    """Group -> number of requested nodes that are not registered yet."""
    sources: tuple[str, ...]
    """Descriptions of where groups and flags come from."""
    limits_known: bool
    """Whether the groups come from a source other than labels."""
    doubts: tuple[str, ...]
    """Descriptions of what is uncertain."""
    faults: tuple[str, ...]
    """Descriptions of invalid input, which is left out."""
    waits: Mapping[str, str]
    """Flag -> how long nodes wait before they are deleted."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the groups."""
        return tuple(str(group.get("id", "")) for group in self.groups)

    @property
    def are_certain(self) -> bool:
        """Whether these are known to be exactly the autoscaler's groups."""
        return self.limits_known and not self.faults and not self.doubts


def find_node_groups(cluster: Cluster, user_groups: UserGroups = UserGroups()) -> NodeGroups:
    """Merge the node groups of all sources, those of the user first. There may be none."""
    flags = read_flags(cluster.autoscaler)
    merger = _GroupMerger(cluster, user_groups, flags)
    groups, sources = merger.merge_groups()
    return NodeGroups(
        tuple(groups),
        {**flags.options, **user_groups.options},
        merger.active,
        (*sources, *_iter_flag_sources(cluster.autoscaler, user_groups)),
        sources != (BY_LABELS,),
        tuple(merger.doubts),
        (*merger.faults, *flags.faults),
        flags.waits,
    )


def has_node_groups(cluster: Cluster) -> bool:
    """Return whether a source in the cluster defines node groups with limits."""
    has_status = any(config_map.metadata.name == STATUS_MAP for config_map in cluster.config_maps)
    return has_status or bool(read_flags(cluster.autoscaler).groups or find_machine_groups(cluster).groups)


def _iter_flag_sources(instance: AutoscalerInstance | None, user_groups: UserGroups) -> Iterator[str]:
    """Yield descriptions of where options and flags come from."""
    if user_groups.options:
        yield f"options: {user_groups.where}"
    if instance is None:
        yield f"flags: the defaults of release 1.{RELEASE}"
        return
    minor = parse_minor_version(instance) or RELEASE
    replay_note = f", replayed as 1.{RELEASE}" if minor != RELEASE else ""
    yield f"flags: {instance.where or 'its container'}, else the defaults of release 1.{minor}{replay_note}"


class _GroupMerger:
    """Merges node groups, and collects doubts and faults on the way."""

    def __init__(self, cluster: Cluster, user_groups: UserGroups, flags: Flags) -> None:
        self._cluster, self._user_groups, self._flags = cluster, user_groups, flags
        self.active: dict[str, int] = {}
        self.doubts: list[str] = []
        self.faults: list[str] = []

    def merge_groups(self) -> tuple[list[JsonObject], tuple[str, ...]]:
        """Return the merged groups of the user and the cluster, and descriptions of their sources."""
        groups, sources = self._read_cluster()
        user_documents = self._user_groups.groups
        if not user_documents:
            return groups, sources
        by_id = {str(group["id"]): group for group in groups}
        names = {group.get("id") for group in user_documents}
        cluster_only = [] if sources == (BY_LABELS,) else [group for name, group in by_id.items() if name not in names]
        merged = [{**by_id.get(str(group.get("id")), {}), **group} for group in user_documents]
        source = f"node groups: {self._user_groups.where}"
        return [*self._iter_groups_with_nodes(merged, {}), *cluster_only], (source, *(sources if cluster_only else ()))

    def _read_cluster(self) -> tuple[list[JsonObject], tuple[str, ...]]:
        """Return the groups of the first source in the cluster that has any: status, Cluster API, flags or labels."""
        machines = find_machine_groups(self._cluster)
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
            groups = [group for status in statuses for group in self._iter_status_groups(status, by_machines)]
            return groups, tuple(f"node groups: {status.where}, {status.time}" for status in statuses)
        if by_machines:
            return [self._mark_unknown_template(group) for group in machines.groups], ("node groups: Cluster API",)
        if self._flags.groups and self._cluster.autoscaler:
            groups = list(self._iter_groups_with_nodes(self._flags.groups, {}))
            return groups, (f"node groups: --nodes of {self._cluster.autoscaler.where}",)
        return _build_groups_by_label(self._cluster, self._user_groups.label), (BY_LABELS,)

    def _iter_status_groups(
        self, status: AutoscalerStatus, by_machines: Mapping[str, JsonObject]
    ) -> Iterator[JsonObject]:
        """Yield the groups of a status ConfigMap with nodes and templates of Cluster API. Record active scale-ups."""
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
                **({"backOff": group.backoff_reason} if group.scale_up == BACKOFF else {}),
                **({"unhealthy": True} if UNHEALTHY in (group.scale_up, group.health) else {}),
            }
            for group in status.groups
        ]
        yield from self._iter_groups_with_nodes(documents, {group.name: group.registered for group in status.groups})

    def _iter_groups_with_nodes(
        self, groups: Sequence[JsonObject], registered: Mapping[str, int]
    ) -> Iterator[JsonObject]:
        """Yield the groups with their nodes. Record a doubt if ``registered``, the autoscaler's own count, is
        different.
        """
        names = [str(group["id"]) for group in groups if "nodes" not in group]
        members = assign_nodes(names, self._cluster.nodes, self._user_groups.label)
        self._record_unsure_nodes(members.unsure)
        for group in groups:
            name = str(group["id"])
            nodes = members.nodes.get(name, []) if "nodes" not in group else group["nodes"]
            assigned_count = (
                len(nodes) if isinstance(nodes, list) else 0
            )  # of any other type: that is said where it is read
            registered_count = registered.get(name, assigned_count)
            if registered_count != assigned_count:
                registered_nodes = counted(registered_count, "node")
                self.doubts.append(
                    f"{name}: the autoscaler counts {registered_nodes}, of which {assigned_count} can be told"
                )
            yield self._mark_unknown_template({"target": assigned_count, **group, "nodes": nodes})

    def _mark_unknown_template(self, group: JsonObject) -> JsonObject:
        """Return the group, marked as having an unknown template if it has neither nodes nor a template."""
        if group.get("nodes") or group.get("template"):
            return {name: value for name, value in group.items() if name != UNKNOWN}
        return group if "template" in group else {**group, UNKNOWN: True}

    def _record_unsure_nodes(self, unsure: Mapping[str, Iterable[str]]) -> None:
        """Record a doubt about nodes that could belong to several groups."""
        for node, groups in list(unsure.items())[:1]:
            more = f" (and {counted(len(unsure) - 1, 'more node')})" if len(unsure) > 1 else ""
            self.doubts.append(f"node {node}{more} could be of {first_few(tuple(groups))}")


def _build_groups_by_label(cluster: Cluster, label: str) -> list[JsonObject]:
    """Build groups from node labels. They have no limits, and their nodes serve as templates."""
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        pool = node.metadata.labels.get(label, "") if label else find_pool(node)
        if pool:
            groups.setdefault(pool, []).append(node.metadata.name)
    return [
        {"id": pool, "min": 0, "max": NO_LIMIT, "target": len(nodes), "nodes": nodes}
        for pool, nodes in sorted(groups.items())
    ]
