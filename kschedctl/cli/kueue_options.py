"""Options for the Kueue that is replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
import yaml

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.source import HELD_BACK_KINDS, LiveKinds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.queueing.kueue.feature_gates import KueueRelease
from kschedctl.queueing.kueue.installation import KueueInstallation, find_installation
from kschedctl.sources.read import read_objects

KUEUE_KINDS = HELD_BACK_KINDS.union(LiveKinds(("Deployment", "LimitRange", "RuntimeClass")))
"""Kinds that Kueue reads, and the Deployment that tells its release."""
_MANAGER_CONFIG = "controller_manager_config.yaml"
_RELEASES = "|".join(KueueRelease)


@dataclass(frozen=True)
class KueueInput:
    """The release and the Configuration of Kueue."""

    kueue_version: Annotated[
        str,
        typer.Option(
            "--kueue-version",
            metavar=_RELEASES,
            help="The release of Kueue, by default that of its Deployment, else the newest.",
            show_default=False,
        ),
    ] = ""
    kueue_config: Annotated[
        str,
        typer.Option(
            "--kueue-config",
            metavar="FILE",
            help="Kueue's Configuration, or the ConfigMap kueue-manager-config with it.",
            show_default=False,
        ),
    ] = ""

    def find_installation(self, cluster: Cluster) -> KueueInstallation:
        """Return the Kueue that the options name, and otherwise the one of the cluster.

        Raises InputError or UsageError.
        """
        installation = find_installation(cluster)
        if self.kueue_version:
            installation = KueueInstallation(self._parse_version())
        if self.kueue_config:
            installation = installation._replace(configuration=_read_configuration(self.kueue_config))
        return installation

    def _parse_version(self) -> KueueRelease:
        """Parse --kueue-version. Raises UsageError."""
        try:
            return KueueRelease(self.kueue_version.removeprefix("v"))
        except ValueError:
            hint = f"releases: {', '.join(KueueRelease)}"
            raise UsageError(f"--kueue-version {self.kueue_version} cannot be replayed", hint=hint) from None


def _read_configuration(path: str) -> JsonObject:
    """Read Kueue's Configuration from a file. Raises InputError."""
    documents = read_objects(path)
    document = documents[0] if len(documents) == 1 else {}
    if document.get("kind") == "ConfigMap":
        document = _parse_config_map(document, path)
    if document.get("kind") != "Configuration":
        hint = f"want one document of kind Configuration, or a ConfigMap with {_MANAGER_CONFIG}"
        raise InputError("no Configuration of Kueue", where=path, hint=hint)
    return document


def _parse_config_map(config_map: JsonObject, path: str) -> JsonObject:
    """Parse Kueue's Configuration in its ConfigMap. Return {} if there is none. Raises InputError."""
    data = config_map.get("data")
    text = data.get(_MANAGER_CONFIG) if isinstance(data, dict) else None
    try:
        document = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError as error:
        raise InputError(f"data.{_MANAGER_CONFIG} is not valid YAML: {error}", where=path) from None
    return document if isinstance(document, dict) else {}
