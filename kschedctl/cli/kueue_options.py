"""Options for the Kueue that is replayed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KUEUE_MAP
from kschedctl.api.objects import ConfigMap, ObjectMeta
from kschedctl.api.queueing import KueueRelease
from kschedctl.cli.source import HELD_BACK_KINDS, LiveKinds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.sources.read import read_objects

KUEUE_KINDS = HELD_BACK_KINDS.union(LiveKinds(("RuntimeClass",)))
"""Kinds that Kueue reads, and those that tell how it is installed."""
_CONFIG_KEY = "controller_manager_config.yaml"
_RELEASES = "|".join(KueueRelease)


@dataclass(frozen=True)
class KueueInput:
    """The release and the Configuration of Kueue."""

    kueue_version: Annotated[
        str,
        typer.Option(
            "--kueue-version",
            metavar=_RELEASES,
            help="Kueue release to replay.  [default: the cluster's, else the newest]",
            show_default=False,
        ),
    ] = ""
    kueue_config: Annotated[
        str,
        typer.Option(
            "--kueue-config",
            metavar="FILE",
            help="Read Kueue's Configuration from this file, or from the ConfigMap kueue-manager-config in it. "
            " [default: the cluster's]",
            show_default=False,
        ),
    ] = ""

    def apply_to(self, cluster: Cluster) -> Cluster:
        """Return the cluster with the Kueue release and Configuration that the options name.

        Raises UsageError if the release cannot be replayed, and InputError if the Configuration cannot be read.
        """
        if self.kueue_version:
            cluster = replace(cluster, kueue_version=self._parse_version())
        if self.kueue_config:
            config_maps = [m for m in cluster.config_maps if m.metadata.name != KUEUE_MAP]
            config_map = _read_kueue_config_map(self.kueue_config)
            cluster = replace(cluster, config_maps=(*config_maps, config_map))
        return cluster

    def _parse_version(self) -> KueueRelease:
        """Parse --kueue-version. Raises UsageError if the release cannot be replayed."""
        try:
            return KueueRelease(self.kueue_version.removeprefix("v"))
        except ValueError:
            hint = f"releases: {', '.join(KueueRelease)}"
            raise UsageError(f"--kueue-version {self.kueue_version} cannot be replayed", hint=hint) from None


def _read_kueue_config_map(path: str) -> ConfigMap:
    """Read Kueue's ConfigMap from a file that holds either the ConfigMap or just its Configuration.

    Raises InputError if the file holds neither, or the ConfigMap's Configuration is not valid YAML.
    """
    import yaml  # noqa: PLC0415 - rarely needed

    documents = read_objects(path)
    document: JsonObject = documents[0] if len(documents) == 1 else {}
    data = document.get("data")
    text: object = None
    if document.get("kind") == "Configuration":
        text = yaml.safe_dump(document)
    elif isinstance(data, dict):
        text = data.get(_CONFIG_KEY)
    if not isinstance(text, str):
        hint = f"expected one document of kind Configuration, or a ConfigMap with {_CONFIG_KEY}"
        raise InputError("contains no Configuration of Kueue", where=path, hint=hint)
    try:
        yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"data.{_CONFIG_KEY} is not valid YAML: {error}", where=path) from None
    return ConfigMap(ObjectMeta(KUEUE_MAP, "kueue-system"), {_CONFIG_KEY: text})
