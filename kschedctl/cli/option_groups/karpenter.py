"""Options for what Karpenter knows beyond the cluster: instance types with prices, and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.source import LiveKinds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.read import read_objects

SUFFIXES = (".json", ".yaml", ".yml")
SETTINGS = {"preferencePolicy": str, "minValuesPolicy": str, "maxInstanceTypes": int}
"""Setting of Karpenter -> the type of its value."""
GATES = ("SpotToSpotConsolidation", "NodeOverlay", "ReservedCapacity")
"""Feature gates of Karpenter."""
_SHAPE = "want a list of types, as Karpenter's kwok provider reads it"


@dataclass(frozen=True)
class InstanceTypeInput:
    """The instance types that can be launched."""

    instance_types: Annotated[
        str,
        typer.Option(
            "--instance-types",
            metavar="FILE|DIR",
            help="Instance types with offerings and prices, in the form of kwok's instance_types.json.",
            show_default=False,
        ),
    ] = ""

    def read_types(self) -> list[JsonObject] | None:
        """Read the instance types of a file or folder, or return None if none is named. Raises InputError."""
        if not self.instance_types:
            return None
        path = Path(self.instance_types)
        files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        return [instance_type for file in files for instance_type in _read_types_file(str(file))]


@dataclass(frozen=True)
class KarpenterInput(InstanceTypeInput):
    """Instance types and settings of Karpenter."""

    karpenter: Annotated[
        list[str] | None,
        typer.Option(
            "--karpenter",
            metavar="SETTING=VALUE",
            help="A setting of Karpenter: preferencePolicy, minValuesPolicy, maxInstanceTypes or a feature gate.",
            show_default=False,
        ),
    ] = None

    def arguments(self) -> list[str]:
        """Return the options that name the same instance types and settings again."""
        types = ["--instance-types", self.instance_types] if self.instance_types else []
        return [*types, *(part for setting in self.karpenter or () for part in ("--karpenter", setting))]

    def parse_settings(self) -> JsonObject:
        """Parse the settings into a document. Raises UsageError."""
        given: dict[str, object] = {}
        gates: dict[str, bool] = {}
        for text in self.karpenter or ():
            name, equals, value = text.partition("=")
            if name in GATES and value in ("true", "false"):
                gates[name] = value == "true"
            elif name in SETTINGS and equals and (SETTINGS[name] is str or value.isdecimal()):
                given[name] = SETTINGS[name](value)
            else:
                known = ", ".join((*SETTINGS, *GATES))
                raise UsageError(f"--karpenter {text}: not SETTING=VALUE of a known setting", hint=f"known: {known}")
        return {**given, "featureGates": gates} if gates else given


NODE_CLASSES = ("EC2NodeClass", "AKSNodeClass", "GCENodeClass", "EKSNodeClass")
POOL_KINDS = LiveKinds(("NodePool", *NODE_CLASSES))
"""Kinds that describe Karpenter's node pools."""
KARPENTER_KINDS = POOL_KINDS.union(LiveKinds(("NodeClaim", "NodeOverlay", "DaemonSet")))
"""Kinds that Karpenter reads and kube-scheduler does not."""


def check_pools(cluster: Cluster) -> None:
    """Raise UsageError if the cluster has no NodePools."""
    if not cluster.karpenter_node_pools:
        raise UsageError("the cluster has no NodePools of Karpenter")


def _read_types_file(path: str) -> Sequence[JsonObject]:
    """Read and check the instance types of one file. Raises InputError."""
    entries = read_objects(path)
    if not entries or not all("name" in entry and "offerings" in entry for entry in entries):
        raise InputError("no instance types", where=path, hint=_SHAPE)
    from kschedctl.autoscaling.karpenter.instance_types import read_instance_types  # noqa: PLC0415 - few name a file

    try:
        read_instance_types(entries)
    except InputError as error:
        raise InputError(f"{error.where}: {error.what}", where=path, hint=error.hint) from None
    return entries
