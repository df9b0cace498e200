"""The Cluster Autoscaler's flags, and the node groups of its cloud provider.

Upstream: config/autoscaling_options.go and config/flags/flags.go (1.36). The names are those of the flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node, Pod, Struct
from kschedctl.errors import InputError

T = TypeVar("T", bound=Struct)


EXPANDERS = ("random", "most-pods", "least-nodes", "least-waste", "priority")


class ResourceLimit(Struct, frozen=True):
    """Limits on a resource of all nodes together, in whole cores, bytes or GPUs."""

    min: int | None = None
    max: int | None = None


class AutoscalerOptions(Struct, frozen=True):
    """The flags, with the defaults of release 1.36. Durations are in Go's notation."""

    expander: str = "least-waste"
    balance_similar_node_groups: bool = False
    balancing_ignore_labels: tuple[str, ...] = ()
    balancing_labels: tuple[str, ...] = ()
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    scale_down_unneeded_time: str = "0s"
    scale_down_unready_time: str = "0s"
    scale_down_unready_enabled: bool = True
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0
    bsp_disruption_timeout: str = "1h"
    ignore_daemon_sets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    new_pod_scale_up_delay: str = "0s"
    max_nodes_total: int = 0
    max_nodes_per_scale_up: int = 1000
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    expendable_pods_priority_cutoff: int = -10
    force_daemon_sets: bool = False
    scale_up_from_zero: bool = True
    scale_up_simulation_for_skipped_node_groups: bool = False
    startup_taints: tuple[str, ...] = ()
    status_taints: tuple[str, ...] = ()
    resource_limits: dict[str, ResourceLimit] = msgspec.field(default_factory=dict)
    gpu_label: str = "cloud.google.com/gke-accelerator"


class GroupOptions(Struct, frozen=True):
    """Options of a node group that override the flags. None means that the flag applies."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time: str | None = None
    scale_down_unready_time: str | None = None
    ignore_daemon_sets_utilization: bool | None = None
    zero_or_max_node_scaling: bool = False


class AutoscaledGroup(Struct, frozen=True):
    """A node group as its cloud provider reports it."""

    id: str
    min: int = 0
    max: int = 0
    target: int = 0
    """The size that the cloud provider tries to reach."""
    nodes: tuple[str, ...] = ()
    """The names of existing nodes."""
    template: Node | None = None
    """The node that the group would add, or None if the provider does not know it."""
    options: GroupOptions = GroupOptions()
    template_unknown: bool = False
    """True if the provider knows the template but it was not given."""
    template_pods: tuple[Pod, ...] = ()
    """Pods that run on each new node according to the provider."""
    back_off: str | None = None
    """The autoscaler's message if it backs off, otherwise None."""
    unhealthy: bool = False
    """True if the autoscaler reported the group as unhealthy."""

    @property
    def headroom(self) -> int:
        """The number of nodes by which the group may still grow."""
        return self.max - self.target


class NodeGroupList(NamedTuple):
    """All node groups in order, with the group of each node."""

    all: tuple[AutoscaledGroup, ...]
    of_node: Mapping[str, AutoscaledGroup]
    """Node -> its group."""
    errors: tuple[str, ...] = ()
    """Descriptions of invalid groups, which are left out."""


def read_autoscaler_options(document: Mapping[str, object]) -> tuple[AutoscalerOptions, tuple[str, ...]]:
    """Read the autoscaler's options from a document, and return them with descriptions of invalid options.

    Invalid options keep their defaults.
    """
    valid: dict[str, object] = {}
    errors: list[str] = []
    for key, value in document.items():
        try:
            # Each option is decoded alone, so that an invalid one does not affect the others.
            decoded = _decode_struct({key: value}, AutoscalerOptions, "options")
            _validate_expander_chain(decoded.expander)
            valid[key] = value
        except InputError as error:
            errors.append(str(error))
    return _decode_struct(valid, AutoscalerOptions, "options"), tuple(errors)


def read_autoscaled_groups(documents: Sequence[JsonObject]) -> NodeGroupList:
    """Read the node groups. Invalid groups are left out and described in the result's ``errors``.

    A node that is listed in two groups belongs to the first one, and ``errors`` also describes its second listing.
    """
    groups: dict[str, AutoscaledGroup] = {}
    of_node: dict[str, AutoscaledGroup] = {}
    errors: list[str] = []
    for index, document in enumerate(documents):
        where = f"nodeGroups[{index}]"
        try:
            decoded_group = _decode_struct(document, AutoscaledGroup, where)
            _validate_group(decoded_group, groups, where)
        except InputError as error:
            errors.append(str(error))
            continue
        own_nodes = []
        for node_name in decoded_group.nodes:
            earlier_group = of_node.get(node_name)
            if earlier_group is None:
                own_nodes.append(node_name)
            else:
                fault = f'node "{node_name}" is in two groups: "{earlier_group.id}" and "{decoded_group.id}"'
                errors.append(f"{where}: {fault}")
        group = replace(decoded_group, nodes=tuple(own_nodes))
        groups[group.id] = group
        of_node |= dict.fromkeys(group.nodes, group)
    return NodeGroupList(tuple(groups.values()), of_node, tuple(errors))


def _validate_group(group: AutoscaledGroup, earlier_groups: Mapping[str, AutoscaledGroup], where: str) -> None:
    """Raise InputError if the group's minimum exceeds its maximum or an earlier group has the same id."""
    if group.id in earlier_groups:
        raise InputError(f'two node groups have the id "{group.id}"', where=where)
    if group.min > group.max:
        raise InputError(f"min {group.min} is above max {group.max}", where=where)


def _validate_expander_chain(chain: str) -> None:
    """Raise InputError if the chain names an unknown expander, or has another expander after "random"."""
    names = chain.split(",")
    for name in names:
        if name not in EXPANDERS:
            raise InputError(
                f'unknown expander "{name}"', where="options.expander", hint=f"known: {', '.join(EXPANDERS)}"
            )
    if "random" in names[:-1]:
        raise InputError('expander "random" must be the last one', where="options.expander")


def _decode_struct(document: Mapping[str, object], struct: type[T], where: str) -> T:
    """Decode a document to the struct. Raises InputError if it is invalid or has unknown fields."""
    _validate_field_names(document, struct, where)  # msgspec ignores unknown fields
    if struct is AutoscaledGroup and isinstance(group_options := document.get("options"), Mapping):
        _validate_field_names(group_options, GroupOptions, f"{where}.options")
    try:
        return convert_builtins(document, struct)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where) from None


def _validate_field_names(document: Mapping[str, object], struct: type[Struct], where: str) -> None:
    """Raise InputError if the document has a field that the struct does not have."""
    if unknown := [str(key) for key in document if key not in struct.__struct_encode_fields__]:
        known_fields = ", ".join(struct.__struct_encode_fields__)
        raise InputError(f'unknown field "{unknown[0]}"', where=where, hint=f"known: {known_fields}")
