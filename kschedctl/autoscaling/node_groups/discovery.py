"""Discovery of a cluster's node groups, their nodes and the autoscaler's flags, merged from all sources.

The status ConfigMap has limits, targets and states. Cluster API's objects also have nodes and capacity. The flag
``--nodes`` has limits, and labels have nodes. What the user specifies takes precedence.

No cloud is queried. A node belongs to a group if its labels, annotations, provider ID or name identify the group
unambiguously.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.component_flags import AutoscalerInstance
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import STATUS_MAP
from kschedctl.api.node_pools import KARPENTER_LABELS, POOL_ANNOTATION, POOL_LABELS, PoolLabel, find_node_pool_name
from kschedctl.api.objects import Node
from kschedctl.autoscaling.node_groups.flags import RELEASE, Flags, parse_autoscaler_flags, parse_minor_version
from kschedctl.autoscaling.node_groups.machines import build_machine_groups
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted, first_few

if TYPE_CHECKING:
    from kschedctl.autoscaling.node_groups.status import AutoscalerStatus

NO_LIMIT = 1_000_000
UNKNOWN = "templateUnknown"
DIGITALOCEAN_ID = "doks.digitalocean.com/node-pool-id"
OWNER_NAME = "cluster.x-k8s.io/owner-name"
_SCALE_SET = re.compile(r"/virtualMachineScaleSets/([^/]+)/", re.IGNORECASE)
_PATTERNS = tuple(label for label in POOL_LABELS if label.group_pattern)


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
    """True if the groups come from a source other than labels."""
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
        """True if the groups are certainly complete and have the right limits."""
        return self.limits_known and not self.faults and not self.doubts


def discover_node_groups(cluster: Cluster, user_groups: UserGroups = UserGroups()) -> NodeGroups:
    """Find the node groups in all sources and merge them, the user's groups first. There may be none."""
    flags = parse_autoscaler_flags(cluster.autoscaler)
    merger = _GroupMerger(cluster, user_groups, flags)
    groups, sources, limits_known = merger.merge_groups()
    return NodeGroups(
        tuple(groups),
        {**flags.options, **user_groups.options},
        merger.active,
        sources=(*sources, *_iter_flag_sources(cluster.autoscaler, user_groups)),
        limits_known=limits_known,
        doubts=tuple(merger.doubts),
        faults=(*merger.faults, *flags.faults),
        waits=flags.waits,
    )


def has_node_groups(cluster: Cluster) -> bool:
    """Return whether the cluster's own objects or flags define node groups with limits."""
    has_status = any(config_map.metadata.name == STATUS_MAP for config_map in cluster.config_maps)
    return has_status or bool(parse_autoscaler_flags(cluster.autoscaler).groups or build_machine_groups(cluster).groups)


def _iter_flag_sources(instance: AutoscalerInstance | None, user_groups: UserGroups) -> Iterator[str]:
    """Yield descriptions of the sources of options and flags: the user, the instance, and a release's defaults."""
    if user_groups.options:
        yield f"options from {user_groups.where}"
    if instance is None:
        yield f"flags from the defaults of release 1.{RELEASE}"
        return
    minor = parse_minor_version(instance) or RELEASE
    replay_note = f", replayed as 1.{RELEASE}" if minor != RELEASE else ""
    yield f"flags from {instance.where or 'its container'}, else the defaults of release 1.{minor}{replay_note}"


class _SourcedGroups(NamedTuple):
    """Node groups with descriptions of their sources."""

    groups: list[JsonObject]
    sources: tuple[str, ...]
    limits_known: bool = True
    """False if the groups are known only from node labels."""


class _GroupMerger:
    """A merger of node groups that collects doubts and faults on the way."""

    def __init__(self, cluster: Cluster, user_groups: UserGroups, flags: Flags) -> None:
        self._cluster, self._user_groups, self._flags = cluster, user_groups, flags
        self.active: dict[str, int] = {}
        self.doubts: list[str] = []
        self.faults: list[str] = []

    def merge_groups(self) -> _SourcedGroups:
        """Return the user's groups, followed by the cluster's other groups.

        Fields that the user did not specify are taken from the cluster's group of the same name. Cluster groups that
        are known only from node labels are left out, unless the user specified no groups.
        """
        cluster_groups = self._read_groups_of_cluster()
        if not self._user_groups.groups:
            return cluster_groups
        cluster_group_by_id = {str(group["id"]): group for group in cluster_groups.groups}
        user_groups = self._complete_user_groups(cluster_group_by_id)
        user_source = f"node groups from {self._user_groups.where}"

        user_ids = {str(group.get("id")) for group in self._user_groups.groups}
        other_groups = [group for group_id, group in cluster_group_by_id.items() if group_id not in user_ids]
        are_known_only_from_labels = not cluster_groups.limits_known
        if not other_groups or are_known_only_from_labels:
            return _SourcedGroups(user_groups, (user_source,))
        return _SourcedGroups([*user_groups, *other_groups], (user_source, *cluster_groups.sources))

    def _complete_user_groups(self, cluster_group_by_id: Mapping[str, JsonObject]) -> list[JsonObject]:
        """Return the user's groups with their nodes, and with fields that only the cluster's group of that name has."""
        completed = [
            {**cluster_group_by_id.get(str(group.get("id")), {}), **group} for group in self._user_groups.groups
        ]
        return self._add_nodes_to_groups(completed, registered_counts={})  # the autoscaler's counts are not compared

    def _read_groups_of_cluster(self) -> _SourcedGroups:
        """Return the groups of the first source in the cluster that has any groups, and record faults and doubts.

        The sources are the status ConfigMaps, Cluster API, the flags and the node labels, in this order.
        """
        # Both sources are read in any case, because their faults are recorded even if they have no groups.
        machines = build_machine_groups(self._cluster)
        self.faults += machines.faults
        machine_group_by_id = {str(group["id"]): group for group in machines.groups}
        statuses = self._read_autoscaler_statuses()

        if any(status.groups for status in statuses):
            groups = []
            for status in statuses:
                groups += self._build_status_groups(status, machine_group_by_id)
            return _SourcedGroups(
                groups, tuple(f"node groups from {status.where}, {status.time}" for status in statuses)
            )
        if machines.groups:
            groups = [self._with_updated_template_mark(group) for group in machines.groups]
            return _SourcedGroups(groups, ("node groups from Cluster API",))
        if self._flags.groups and self._cluster.autoscaler:
            groups = self._add_nodes_to_groups(self._flags.groups, registered_counts={})
            return _SourcedGroups(groups, (f"node groups from --nodes of {self._cluster.autoscaler.where}",))
        return _SourcedGroups(
            _build_groups_by_label(self._cluster, self._user_groups.label),
            ("node groups from node labels",),
            limits_known=False,
        )

    def _read_autoscaler_statuses(self) -> list[AutoscalerStatus]:
        """Read the status ConfigMaps of all Cluster Autoscalers, and record their faults, also as doubts."""
        from kschedctl.autoscaling.node_groups.status import read_autoscaler_status  # noqa: PLC0415 - only if groups are read

        statuses = [
            read_autoscaler_status(config_map)
            for config_map in self._cluster.config_maps
            if config_map.metadata.name == STATUS_MAP
        ]
        for status in statuses:
            self.faults += status.faults
            self.doubts += [f"node groups: {fault}" for fault in status.faults]
        return statuses

    def _build_status_groups(
        self, status: AutoscalerStatus, machine_group_by_id: Mapping[str, JsonObject]
    ) -> list[JsonObject]:
        """Build the groups of a status ConfigMap, completed with nodes and templates of Cluster API.

        Active scale-ups are recorded in ``active``.
        """
        from kschedctl.autoscaling.node_groups.status import BACKOFF, IN_PROGRESS, UNHEALTHY  # noqa: PLC0415 - only with a status

        documents = []
        for group in status.groups:
            if group.scale_up == IN_PROGRESS and group.target > group.registered:
                self.active[group.name] = group.target - group.registered
            document: dict[str, object] = {
                **machine_group_by_id.get(group.name, {}),
                "id": group.name,
                "min": group.min,
                "max": group.max,
                "target": group.target,
            }
            if group.scale_up == BACKOFF:
                document["backOff"] = group.backoff_reason
            if UNHEALTHY in (group.scale_up, group.health):
                document["unhealthy"] = True
            documents.append(document)
        registered_counts = {group.name: group.registered for group in status.groups}
        return self._add_nodes_to_groups(documents, registered_counts)

    def _add_nodes_to_groups(
        self, groups: Sequence[JsonObject], registered_counts: Mapping[str, int]
    ) -> list[JsonObject]:
        """Return the groups with the names of their nodes. Groups that do not list their nodes get assigned nodes.

        ``registered_counts`` is the autoscaler's own count of each group's nodes. A different number is recorded as a
        doubt. Nodes that could belong to several groups are also recorded as doubts.
        """
        names = [str(group["id"]) for group in groups if "nodes" not in group]
        members = assign_nodes_to_groups(names, self._cluster.nodes, self._user_groups.label)
        self._record_unsure_nodes(members.unsure)
        completed = []
        for group in groups:
            name = str(group["id"])
            nodes = group["nodes"] if "nodes" in group else members.nodes.get(name, [])
            # read_autoscaled_groups reports nodes that are not a list
            assigned_count = len(nodes) if isinstance(nodes, list) else 0
            registered_count = registered_counts.get(name, assigned_count)
            if registered_count != assigned_count:
                registered_nodes = counted(registered_count, "node")
                self.doubts.append(
                    f"{name}: the autoscaler counts {registered_nodes}; {assigned_count} could be identified"
                )
            completed.append(self._with_updated_template_mark({"target": assigned_count, **group, "nodes": nodes}))
        return completed

    def _with_updated_template_mark(self, group: JsonObject) -> JsonObject:
        """Return the group with its template marked as unknown if it has neither nodes nor a template.

        Otherwise, return it without the mark. A group without nodes whose template is empty is returned unchanged: the
        empty template says that the provider has none.
        """
        if group.get("nodes") or group.get("template"):
            return {name: value for name, value in group.items() if name != UNKNOWN}
        if "template" in group:  # the template is empty: the provider has none
            return group
        return {**group, UNKNOWN: True}

    def _record_unsure_nodes(self, unsure: Mapping[str, Iterable[str]]) -> None:
        """Record one doubt about all nodes that could belong to several groups. It names the first such node."""
        if unsure:
            node, groups = next(iter(unsure.items()))
            further_nodes = f" (and {counted(len(unsure) - 1, 'more node')})" if len(unsure) > 1 else ""
            self.doubts.append(f"node {node}{further_nodes} may belong to any of {first_few(tuple(groups))}")


def _build_groups_by_label(cluster: Cluster, label: str) -> list[JsonObject]:
    """Build a group without limits from each value of a node label, sorted by value.

    Without ``label``, the well-known labels of cloud providers are used. Karpenter's nodes belong to no node group,
    unless ``label`` is Karpenter's own.
    """
    groups: dict[str, list[str]] = {}
    for node in cluster.nodes:
        pool = node.metadata.labels.get(label, "") if label else find_node_pool_name(node)
        is_of_karpenter = label not in KARPENTER_LABELS and not KARPENTER_LABELS.isdisjoint(node.metadata.labels)
        if pool and not is_of_karpenter:
            groups.setdefault(pool, []).append(node.metadata.name)
    return [
        {"id": pool, "min": 0, "max": NO_LIMIT, "target": len(nodes), "nodes": nodes}
        for pool, nodes in sorted(groups.items())
    ]


class Members(NamedTuple):
    """Nodes by the group to which they are assigned."""

    nodes: Mapping[str, list[str]]
    """Group -> its nodes in order."""
    unsure: Mapping[str, tuple[str, ...]]
    """Node -> the groups to which it could belong."""


def assign_nodes_to_groups(groups: Sequence[str], nodes: Sequence[Node], label: str = "") -> Members:
    """Assign nodes to groups by the user's label, well-known labels, and naming conventions of clouds.

    A node that matches several groups is returned as unsure, and a node that matches none is left out.
    """
    index = _GroupIndex(groups)
    by_group: dict[str, list[str]] = {group: [] for group in groups}
    unsure: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        matches = index.find_groups_of_node(node, label)
        if len(matches) == 1:
            by_group[matches[0]].append(node.metadata.name)
        elif matches:
            unsure[node.metadata.name] = matches
    return Members(by_group, unsure)


class _GroupIndex:
    """An index of node groups by the names with which nodes refer to them."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._exact: dict[str, list[str]] = {}
        for group in groups:
            for name in {group, group.rpartition("/")[2], group.partition(".")[2]} - {""}:
                self._exact.setdefault(name.casefold(), []).append(group)
        self._by_value: dict[tuple[str, str], tuple[str, ...]] = {}

    def find_groups_of_node(self, node: Node, label: str) -> tuple[str, ...]:
        """Return the groups to which the node could belong, usually one. ``label`` is the user's label for groups.

        Names that match exactly are preferred to patterns for labels. Return () if no group is known for the node.
        """
        for name in _iter_possible_group_names(node, label):
            if exact := self._exact.get(name.casefold()):
                return tuple(exact)
        for pool_label in _PATTERNS:
            value = node.metadata.labels.get(pool_label.key)
            if value and (groups := self._find_groups_by_pattern(pool_label, value)):
                return groups
        return ()

    def _find_groups_by_pattern(self, label: PoolLabel, value: str) -> tuple[str, ...]:
        """Return the groups whose names match a label's pattern for this value. The result is cached."""
        cache_key = label.key, value
        if cache_key not in self._by_value:
            pattern = re.compile(label.group_pattern.format(re.escape(value)))
            self._by_value[cache_key] = tuple(group for group in self._groups if pattern.fullmatch(group))
        return self._by_value[cache_key]


def _iter_possible_group_names(node: Node, label: str) -> Iterator[str]:
    """Yield possible names of the node's group, the most reliable first. Some of them may be empty.

    The sources are the user's label, annotations, the provider ID, well-known labels and the node's name.
    """
    labels = node.metadata.labels
    annotations = node.metadata.annotations
    yield from (labels[key] for key in (label, DIGITALOCEAN_ID) if key in labels)
    yield from (annotations[key] for key in (POOL_ANNOTATION, OWNER_NAME) if key in annotations)
    yield annotations.get(OWNER_NAME, "").rpartition("-")[0]  # the MachineDeployment of a MachineSet
    if scale_set := _SCALE_SET.search(node.spec.provider_id):
        yield scale_set[1]
    yield from (labels[pool_label.key] for pool_label in POOL_LABELS if pool_label.key in labels)
    base = node.metadata.name.rpartition("-")[0]
    yield f"{base}-grp"  # GKE: instances are named like their group, with a random suffix for grp
    yield base.rpartition("-")[0]  # Gardener: the MachineDeployment's name and two more words
