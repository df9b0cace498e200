"""Names in a KubeSchedulerConfiguration that the given version does not have, and which version has them.

Everything follows from what plugins, points and arguments declare. Whether such a name is rejected or ignored is
decided where the configuration is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.decoding import iter_unknown_fields
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import describe_lifecycle
from kschedctl.api.kube_version import OLDEST_MINOR
from kschedctl.scheduler.configuration.document import KIND, KubeSchedulerConfiguration
from kschedctl.scheduler.configuration.profile import FORMER_PLUGINS
from kschedctl.scheduler.framework.strict_decoding import split_path
from kschedctl.scheduler.registry.in_tree import IN_TREE

Path = tuple[str | int, ...]


class VersionMismatch(NamedTuple):
    """A name in a configuration that the version does not have."""

    path: Path
    name: str
    """For example `NodeDeclaredFeatures`."""
    what: str
    """For example `needs 1.35`."""

    def __str__(self) -> str:
        return f"{self.name} {self.what}"


def iter_version_mismatches(document: JsonObject | None, minor: int) -> Iterator[VersionMismatch]:
    """Yield all version mismatches of a document, which need not be valid."""
    if not isinstance(document, Mapping):
        return
    version = str(document.get("apiVersion"))
    if explanation := describe_lifecycle(version, KIND):
        yield VersionMismatch(("apiVersion",), version, explanation)
    for path, since in iter_unknown_fields(document, KubeSchedulerConfiguration, minor):
        if since is not None:
            yield VersionMismatch(split_path(path), path.rpartition(".")[2], f"needs 1.{since}")
    for i, profile in enumerate(_list_objects(document, "profiles")):
        yield from _iter_plugin_mismatches(profile, ("profiles", i), minor)
        yield from _iter_argument_mismatches(profile, ("profiles", i), minor)


def _iter_plugin_mismatches(profile: JsonObject, path: Path, minor: int) -> Iterator[VersionMismatch]:
    """Yield the mismatches of a profile's plugin sets."""
    plugins = profile.get("plugins")
    for point, plugin_set in plugins.items() if isinstance(plugins, Mapping) else ():
        for list_name in ("enabled", "disabled"):
            for j, entry in enumerate(_list_objects(plugin_set, list_name)):
                name = str(entry.get("name"))
                explanation = _explain_plugin(name, minor) or (
                    _explain_point(name, point, minor) if list_name == "enabled" else ""
                )
                if explanation:
                    yield VersionMismatch((*path, "plugins", point, list_name, j, "name"), name, explanation)


def _iter_argument_mismatches(profile: JsonObject, path: Path, minor: int) -> Iterator[VersionMismatch]:
    """Yield the mismatches of a profile's plugin arguments."""
    for j, config in enumerate(_list_objects(profile, "pluginConfig")):
        entry_path, name = (*path, "pluginConfig", j), str(config.get("name"))
        declared = IN_TREE.get(name)
        if explanation := _explain_plugin(name, minor):
            yield VersionMismatch((*entry_path, "name"), name, explanation)
        elif declared is not None and declared.args_type is not None:
            if minor < declared.args_since:
                yield VersionMismatch(entry_path, f"arguments of {name}", f"need 1.{declared.args_since}")
                continue
            for field, since in iter_unknown_fields(config.get("args"), declared.args_type, minor):
                if since is not None:
                    yield VersionMismatch((*entry_path, "args", *split_path(field)), field, f"needs 1.{since}")


def _explain_plugin(name: str, minor: int) -> str:
    """Return why the version lacks the plugin, or "" if it has it or no version ever had."""
    if name in FORMER_PLUGINS:
        return f"was removed before 1.{OLDEST_MINOR}"
    declared = IN_TREE.get(name)
    if declared is None or declared.for_minor(minor) is not None:
        return ""
    if declared.until is not None and minor > declared.until:
        return f"was removed in 1.{declared.until + 1}"
    return f"needs 1.{declared.since}"


def _explain_point(name: str, point: str, minor: int) -> str:
    """Return since which version the plugin runs at the point, or "" if it does in this one."""
    declared = IN_TREE.get(name)
    since = declared.points_since.get(point, minor) if declared is not None else minor
    return f"needs 1.{since} at {point}" if since > minor else ""


def _list_objects(value: Json, key: str) -> list[JsonObject]:
    """Return the items of a list in a document, with {} for items that are not objects."""
    items = value.get(key) if isinstance(value, Mapping) else None
    return [item if isinstance(item, Mapping) else {} for item in items] if isinstance(items, list) else []
