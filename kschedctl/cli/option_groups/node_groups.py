"""Options for what Cluster Autoscaler knows beyond the cluster: node groups with limits, and its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.source import LiveKinds
from kschedctl.errors import InputError
from kschedctl.sources.read import read_objects

if TYPE_CHECKING:
    from kschedctl.autoscaling.node_groups.discovery import UserGroups

GROUPS, OPTIONS = "nodeGroups", "options"
_SHAPE = "want nodeGroups, a list of id, min, max, target, nodes and template, and perhaps options"
MACHINES = ("MachineDeployment", "MachineSet", "MachinePool", "Machine", "OpenShiftMachineSet", "OpenShiftMachine")
AUTOSCALER_STATUS_KINDS = LiveKinds(("ConfigMap", "DaemonSet", *MACHINES))
"""Kinds that show node groups, their owners and the DaemonSets of a new node."""
AUTOSCALER_KINDS = LiveKinds((*AUTOSCALER_STATUS_KINDS.kinds, "Job"))
"""Kinds that Cluster Autoscaler reads and kube-scheduler does not."""


@dataclass(frozen=True)
class NodeGroupInput:
    """The node groups and flags of Cluster Autoscaler."""

    node_groups: Annotated[
        str,
        typer.Option(
            "--node-groups",
            metavar="FILE",
            help="Node groups with min, max, target, nodes and template, and the autoscaler's options.",
            show_default=False,
        ),
    ] = ""
    pool_label: Annotated[
        str,
        typer.Option(
            "--pool-label",
            metavar="KEY",
            help="The node label that names a node's group, where neither a file nor a well-known label does.",
            show_default=False,
        ),
    ] = ""

    @property
    def is_given(self) -> bool:
        """Whether the options name node groups."""
        return bool(self.node_groups or self.pool_label)

    def arguments(self) -> list[str]:
        """Return the options that name the same groups again."""
        named = {"--node-groups": self.node_groups, "--pool-label": self.pool_label}
        return [part for option, value in named.items() if value for part in (option, value)]

    def read_groups(self) -> UserGroups:
        """Read the groups and flags that the options name. Raises InputError."""
        from kschedctl.autoscaling.node_groups.discovery import UserGroups  # noqa: PLC0415 - few commands ask for groups

        if not self.node_groups:
            return UserGroups(label=self.pool_label)
        entries = read_objects(self.node_groups)
        document: JsonObject = entries[0] if len(entries) == 1 and GROUPS in entries[0] else {GROUPS: entries}
        named, options = document[GROUPS], document.get(OPTIONS) or {}
        if not isinstance(named, list) or not isinstance(options, dict) or not all(map(_has_id, named)):
            raise InputError("no node groups", where=self.node_groups, hint=_SHAPE)
        return UserGroups(named, options, self.pool_label, self.node_groups)


def _has_id(group: object) -> bool:
    return isinstance(group, dict) and isinstance(group.get("id"), str)
