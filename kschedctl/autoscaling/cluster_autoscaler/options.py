"""What the Cluster Autoscaler is told: its flags, and the node groups of its cloud.

Upstream: config/autoscaling_options.go and config/flags/flags.go (1.36); the names are those of the flags.
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
    """How much of a resource all nodes may have together: whole cores, bytes, or GPUs of a type."""

    min: int | None = None
    max: int | None = None


class AutoscalerOptions(Struct, frozen=True):
    """The flags, with the defaults of release 1.36; durations as Go writes them."""

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
    """What a node group says otherwise than the flags; None: as the flag."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time: str | None = None
    scale_down_unready_time: str | None = None
    ignore_daemon_sets_utilization: bool | None = None
    zero_or_max_node_scaling: bool = False


class AutoscaledGroup(Struct, frozen=True):
    """A node group as its cloud tells it.

    ``target``: the size that the cloud tries to have; ``nodes``: the names of those there are; ``template``: what a new
    node would be, None where the cloud cannot say; ``template_unknown``: it can, and nobody told us;
    ``template_pods``: what the cloud says that runs there. ``back_off``: that the autoscaler said that it backs off,
    and why; ``unhealthy``: as it said, too.
    """

    id: str
    min: int = 0
    max: int = 0
    target: int = 0
    nodes: tuple[str, ...] = ()
    template: Node | None = None
    options: GroupOptions = GroupOptions()
    template_unknown: bool = False
    template_pods: tuple[Pod, ...] = ()
    back_off: str | None = None
    unhealthy: bool = False

    @property
    def free(self) -> int:
        """How many nodes it may have more."""
        return self.max - self.target


class Groups(NamedTuple):
    """All node groups in order, and by the names of their nodes; ``faults``: what was left out of them, a line each."""

    all: tuple[AutoscaledGroup, ...]
    of_node: Mapping[str, AutoscaledGroup]
    faults: tuple[str, ...] = ()


def read_options(document: Mapping[str, object]) -> tuple[AutoscalerOptions, tuple[str, ...]]:
    """The options of a document, and what is wrong with the others, for which their defaults stand."""
    sound: dict[str, object] = {}
    faults: list[str] = []
    for key, value in document.items():
        try:
            _check_expander(_read({key: value}, AutoscalerOptions, "options").expander)
            sound[key] = value
        except InputError as error:
            faults.append(str(error))
    return _read(sound, AutoscalerOptions, "options"), tuple(faults)


def read_groups(documents: Sequence[JsonObject]) -> Groups:
    """The node groups that make sense, and what is wrong with the others: a node of two groups is the first one's."""
    groups: dict[str, AutoscaledGroup] = {}
    of_node: dict[str, AutoscaledGroup] = {}
    faults: list[str] = []
    for at, document in enumerate(documents):
        where = f"nodeGroups[{at}]"
        try:
            group = _sound(_read(document, AutoscaledGroup, where), groups, where)
        except InputError as error:
            faults.append(str(error))
            continue
        taken = [name for name in group.nodes if name in of_node]
        faults += [f'{where}: node "{n}" is in the groups "{of_node[n].id}" and "{group.id}"' for n in taken]
        group = replace(group, nodes=tuple(name for name in group.nodes if name not in of_node))
        groups[group.id] = group
        of_node |= dict.fromkeys(group.nodes, group)
    return Groups(tuple(groups.values()), of_node, tuple(faults))


def _sound(group: AutoscaledGroup, known: Mapping[str, AutoscaledGroup], where: str) -> AutoscaledGroup:
    """Raises InputError."""
    if group.id in known:
        raise InputError(f'two node groups are called "{group.id}"', where=where)
    if group.min > group.max:
        raise InputError(f"min {group.min} is above max {group.max}", where=where)
    return group


def _check_expander(chain: str) -> None:
    """Raises InputError for what names no expander, or one behind that which leaves nothing to choose."""
    names = chain.split(",")
    for name in names:
        if name not in EXPANDERS:
            raise InputError(
                f'unknown expander "{name}"', where="options.expander", hint=f"known: {', '.join(EXPANDERS)}"
            )
    if "random" in names[:-1]:
        raise InputError('expander "random" has to be the last', where="options.expander")


def _read(document: Mapping[str, object], struct: type[T], where: str) -> T:
    """Raises InputError."""
    _check_fields(document, struct, where)
    if struct is AutoscaledGroup and isinstance(inner := document.get("options"), Mapping):
        _check_fields(inner, GroupOptions, f"{where}.options")
    try:
        return convert_builtins(document, struct)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where) from None


def _check_fields(document: Mapping[str, object], struct: type[Struct], where: str) -> None:
    """Raises InputError for a field that there is not."""
    if unknown := [str(key) for key in document if key not in struct.__struct_encode_fields__]:
        known = ", ".join(struct.__struct_encode_fields__)
        raise InputError(f'unknown field "{unknown[0]}"', where=where, hint=f"known: {known}")
