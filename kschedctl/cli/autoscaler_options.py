"""Options for what the autoscalers know beyond the cluster: instance types, node groups, and settings.

Karpenter is asked if the cluster has NodePools, otherwise Cluster Autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.options import Source
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, get_cluster_time
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.new_node import NewNode, NodeGrowth
from kschedctl.reports.remedy import Remedy
from kschedctl.sources.read import read_objects

if TYPE_CHECKING:
    from kschedctl.autoscaling.node_groups.discovery import UserGroups

SUFFIXES = (".json", ".yaml", ".yml")
SETTINGS = {"preferencePolicy": str, "minValuesPolicy": str, "maxInstanceTypes": int}
"""Setting of Karpenter -> the type of its value."""
GATES = ("SpotToSpotConsolidation", "NodeOverlay", "ReservedCapacity")
"""Feature gates of Karpenter."""
_TYPES_SHAPE = "expected a list of instance types, in the format of Karpenter's kwok provider"
NODE_CLASSES = ("EC2NodeClass", "AKSNodeClass", "GCENodeClass", "EKSNodeClass")
POOL_KINDS = LiveKinds(("NodePool", *NODE_CLASSES))
"""Kinds that describe Karpenter's node pools."""
KARPENTER_KINDS = POOL_KINDS.union(LiveKinds(("NodeClaim", "NodeOverlay", "DaemonSet")))
"""Kinds that Karpenter reads and kube-scheduler does not."""
GROUPS, OPTIONS = "nodeGroups", "options"
_GROUPS_SHAPE = "expected nodeGroups (a list with id, min, max, target, nodes, template) and, optionally, options"
MACHINES = ("MachineDeployment", "MachineSet", "MachinePool", "Machine", "OpenShiftMachineSet", "OpenShiftMachine")
AUTOSCALER_STATUS_KINDS = LiveKinds(("ConfigMap", "DaemonSet", *MACHINES))
"""Kinds that show node groups, their owners and the DaemonSets of a new node."""
AUTOSCALER_KINDS = LiveKinds((*AUTOSCALER_STATUS_KINDS.kinds, "Job"))
"""Kinds that Cluster Autoscaler reads and kube-scheduler does not."""


@dataclass(frozen=True)
class InstanceTypeInput:
    """The instance types that can be launched."""

    instance_types: Annotated[
        str,
        typer.Option(
            "--instance-types",
            metavar="FILE|DIR",
            help="Read instance types, their offerings and prices from this file or folder, in the format of kwok's "
            "instance_types.json.",
            show_default=False,
        ),
    ] = ""

    def read_types(self) -> list[JsonObject] | None:
        """Read the instance types from the named file or folder, or return None if no file is named.

        The files of a folder are read in the order of their names. Raises InputError if a file contains no instance
        types or malformed ones.
        """
        if not self.instance_types:
            return None
        path = Path(self.instance_types)
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [path]
        return [instance_type for file in files for instance_type in _read_instance_types_file(str(file))]


@dataclass(frozen=True)
class KarpenterInput(InstanceTypeInput):
    """Instance types and settings of Karpenter."""

    karpenter: Annotated[
        list[str] | None,
        typer.Option(
            "--karpenter",
            metavar="SETTING=VALUE",
            help="Karpenter setting: preferencePolicy, minValuesPolicy, maxInstanceTypes or a feature gate. "
            "Repeatable.",
            show_default=False,
        ),
    ] = None

    def to_cli_options(self) -> list[str]:
        """Return the command-line options for these instance types and settings, to repeat them in a command."""
        arguments = ["--instance-types", self.instance_types] if self.instance_types else []
        for setting in self.karpenter or ():
            arguments += ["--karpenter", setting]
        return arguments

    def parse_settings(self) -> JsonObject:
        """Parse the values of `--karpenter` into one document, with feature gates under `featureGates`.

        Raises UsageError if a setting or value is unknown.
        """
        settings: dict[str, object] = {}
        gates: dict[str, bool] = {}
        for text in self.karpenter or ():
            name, equals, value = text.partition("=")
            setting_type = SETTINGS.get(name)  # str or int
            if name in GATES and value in ("true", "false"):
                gates[name] = value == "true"
            elif setting_type is str and equals:
                settings[name] = value
            elif setting_type is int and value.isdecimal():
                settings[name] = int(value)
            else:
                known = ", ".join((*SETTINGS, *GATES))
                raise UsageError(f"--karpenter {text}: needs SETTING=VALUE of a known setting", hint=f"known: {known}")
        return {**settings, "featureGates": gates} if gates else settings


@dataclass(frozen=True)
class NodeGroupInput:
    """The node groups and flags of Cluster Autoscaler."""

    node_groups: Annotated[
        str,
        typer.Option(
            "--node-groups",
            metavar="FILE",
            help="Read the Cluster Autoscaler's options and node groups (min, max, target, nodes, template) from this "
            "file instead of deriving the groups from node labels.",
            show_default=False,
        ),
    ] = ""
    pool_label: Annotated[
        str,
        typer.Option(
            "--pool-label",
            metavar="KEY",
            help="Node label that holds the name of the node's pool.  [default: well-known labels]",
            show_default=False,
        ),
    ] = ""

    @property
    def is_given(self) -> bool:
        """True if the options name node groups."""
        return bool(self.node_groups or self.pool_label)

    def to_cli_options(self) -> list[str]:
        """Return the command-line options for these node groups, to repeat them in a command."""
        arguments = ["--node-groups", self.node_groups] if self.node_groups else []
        if self.pool_label:
            arguments += ["--pool-label", self.pool_label]
        return arguments

    def read_groups(self) -> UserGroups:
        """Read the node groups and the autoscaler's flags that the options name.

        Raises InputError if the file contains no well-formed node groups.
        """
        from kschedctl.autoscaling.node_groups.discovery import UserGroups  # noqa: PLC0415 - few commands ask for groups

        if not self.node_groups:
            return UserGroups(label=self.pool_label)
        entries = read_objects(self.node_groups)
        # A file has either one document with groups and options, or only the groups
        document: JsonObject = entries[0] if len(entries) == 1 and GROUPS in entries[0] else {GROUPS: entries}
        groups = document[GROUPS]
        options = document.get(OPTIONS) or {}
        if not isinstance(groups, list) or not isinstance(options, dict) or not all(map(_has_id, groups)):
            raise InputError("no node groups", where=self.node_groups, hint=_GROUPS_SHAPE)
        return UserGroups(groups, options, self.pool_label, self.node_groups)


@dataclass(frozen=True)
class Autoscalers:
    """Options about whichever autoscaler the cluster has, and its answers for pending pods."""

    source: Source
    karpenter: KarpenterInput
    node_groups: NodeGroupInput

    @property
    def live(self) -> LiveKinds:
        """The kinds to read from a live cluster in addition to those that plugins read."""
        options_are_given = bool(self.karpenter.instance_types) or self.node_groups.is_given
        karpenter_kinds = KARPENTER_KINDS if options_are_given else NOTHING_MORE
        return karpenter_kinds.union(AUTOSCALER_STATUS_KINDS)

    def simulate_growth(self, cluster: Cluster) -> NodeGrowth | None:
        """Simulate which nodes the autoscaler adds for all pending pods. Return None without an autoscaler.

        Raises InputError if the instance types, settings or node groups are malformed.
        """
        from kschedctl.fixes.new_node import simulate_node_growth  # noqa: PLC0415 - only pods that wait need it

        now = get_cluster_time(cluster, self.source)
        return simulate_node_growth(
            cluster, now, self.node_groups.read_groups(), self.karpenter.read_types(), self.karpenter.parse_settings()
        )

    def find_fixes(self, target_pod: TargetPod, new_node: NewNode) -> tuple[Remedy, ...]:
        """Find the fixes that would make the autoscaler add a node for the pod.

        Raises InputError if the instance types, settings or node groups are malformed.
        """
        from kschedctl.fixes.new_node import find_autoscaler_fixes  # noqa: PLC0415 - only pods that were explained need it

        now = get_cluster_time(target_pod.scheduler.cluster, self.source)
        types, settings = self.karpenter.read_types(), self.karpenter.parse_settings()
        return find_autoscaler_fixes(
            target_pod, new_node, now, self.node_groups.read_groups(), types=types, settings=settings
        )

    def predict_new_node(self, target_pod: TargetPod) -> NewNode | None:
        """Explain whether the autoscaler would add a node for the pod. Return None without an autoscaler.

        Raises InputError if the instance types, settings or node groups are malformed.
        """
        from kschedctl.fixes.new_node import predict_new_node  # noqa: PLC0415 - only pods that were explained need it

        now = get_cluster_time(target_pod.scheduler.cluster, self.source)
        types, settings = self.karpenter.read_types(), self.karpenter.parse_settings()
        return predict_new_node(target_pod, now, self.node_groups.read_groups(), types, settings)


def require_node_pools(cluster: Cluster) -> None:
    """Raise UsageError if the cluster has no NodePools."""
    if not cluster.karpenter_node_pools:
        raise UsageError("the cluster has no Karpenter NodePools")


def _read_instance_types_file(path: str) -> Sequence[JsonObject]:
    """Read the instance types in one file. Raises InputError if it contains none or malformed ones."""
    entries = read_objects(path)
    if not entries or not all("name" in entry and "offerings" in entry for entry in entries):
        raise InputError("no instance types", where=path, hint=_TYPES_SHAPE)
    from kschedctl.autoscaling.karpenter.instance_types import read_instance_types  # noqa: PLC0415 - few name a file

    try:
        read_instance_types(entries)  # only to validate the entries
    except InputError as error:
        raise InputError(f"{error.where}: {error.what}", where=path, hint=error.hint) from None
    return entries


def _has_id(group: object) -> bool:
    """Return whether a node group in the file has an id."""
    return isinstance(group, dict) and isinstance(group.get("id"), str)
