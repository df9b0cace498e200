"""What the Cluster Autoscaler knows and a cluster does not tell: node groups with their limits, and its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.autoscaling.cluster_autoscaler.seen_groups import seen_groups
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.read import read_objects

GROUPS, OPTIONS = "nodeGroups", "options"
_SHAPE = "want nodeGroups, a list of id, min, max, target, nodes and template, and perhaps options"


@dataclass(frozen=True)
class NodeGroupInput:
    """One file for both, or what labels tell."""

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
            help="The node label that names a node's group, where no file does.",
            show_default=False,
        ),
    ] = ""

    @property
    def asked(self) -> bool:
        """Whether somebody said which groups there are."""
        return bool(self.node_groups or self.pool_label)

    def read(self, cluster: Cluster) -> tuple[list[JsonObject], JsonObject]:
        """Groups and options. Raises InputError, UsageError."""
        if not self.node_groups:
            groups = seen_groups(cluster, self.pool_label)
            if not groups:
                raise UsageError("no label of a node names its group", hint="--pool-label KEY, --node-groups FILE")
            return groups, {}
        if self.pool_label:
            raise UsageError("--pool-label and --node-groups cannot be combined", hint="leave one of them out")
        found = read_objects(self.node_groups)
        document: JsonObject = found[0] if len(found) == 1 and GROUPS in found[0] else {GROUPS: found}
        named, options = document[GROUPS], document.get(OPTIONS) or {}
        if not isinstance(named, list) or not isinstance(options, dict) or not all("id" in each for each in named):
            raise InputError("no node groups", where=self.node_groups, hint=_SHAPE)
        return named, options
