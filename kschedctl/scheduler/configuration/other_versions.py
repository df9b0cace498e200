"""What a KubeSchedulerConfiguration names that the version that reads it does not have, and which version has it.

It all follows from what plugins, points and arguments say of themselves; whether it is refused or ignored is said where
the configuration is loaded.
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


class OfOtherVersion(NamedTuple):
    """Something at a field, by its name, and what is to be said of it: ``NodeDeclaredFeatures``, ``needs 1.35``."""

    path: Path
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name} {self.what}"


def of_other_versions(document: JsonObject | None, minor: int) -> Iterator[OfOtherVersion]:
    """All of it in a document, of whatever form that may be."""
    if not isinstance(document, Mapping):
        return
    version = str(document.get("apiVersion"))
    if said := describe_lifecycle(version, KIND):
        yield OfOtherVersion(("apiVersion",), version, said)
    for path, since in iter_unknown_fields(document, KubeSchedulerConfiguration, minor):
        if since is not None:
            yield OfOtherVersion(split_path(path), path.rpartition(".")[2], f"needs 1.{since}")
    for i, profile in enumerate(_objects(document, "profiles")):
        yield from _of_plugins(profile, ("profiles", i), minor)
        yield from _of_arguments(profile, ("profiles", i), minor)


def _of_plugins(profile: JsonObject, path: Path, minor: int) -> Iterator[OfOtherVersion]:
    plugins = profile.get("plugins")
    for point, plugin_set in plugins.items() if isinstance(plugins, Mapping) else ():
        for how in ("enabled", "disabled"):
            for j, entry in enumerate(_objects(plugin_set, how)):
                name = str(entry.get("name"))
                what = _of_plugin(name, minor) or (_of_point(name, point, minor) if how == "enabled" else "")
                if what:
                    yield OfOtherVersion((*path, "plugins", point, how, j, "name"), name, what)


def _of_arguments(profile: JsonObject, path: Path, minor: int) -> Iterator[OfOtherVersion]:
    for j, config in enumerate(_objects(profile, "pluginConfig")):
        at, name = (*path, "pluginConfig", j), str(config.get("name"))
        declared = IN_TREE.get(name)
        if what := _of_plugin(name, minor):
            yield OfOtherVersion((*at, "name"), name, what)
        elif declared is not None and declared.args_type is not None:
            if minor < declared.args_since:
                yield OfOtherVersion(at, f"arguments of {name}", f"need 1.{declared.args_since}")
                continue
            for field, since in iter_unknown_fields(config.get("args"), declared.args_type, minor):
                if since is not None:
                    yield OfOtherVersion((*at, "args", *split_path(field)), field, f"needs 1.{since}")


def _of_plugin(name: str, minor: int) -> str:
    """What is to be said of a plugin, "" where the version has it or nobody ever had."""
    if name in FORMER_PLUGINS:
        return f"was removed before 1.{OLDEST_MINOR}"
    declared = IN_TREE.get(name)
    if declared is None or declared.for_minor(minor) is not None:
        return ""
    if declared.until is not None and minor > declared.until:
        return f"was removed in 1.{declared.until + 1}"
    return f"needs 1.{declared.since}"


def _of_point(name: str, point: str, minor: int) -> str:
    declared = IN_TREE.get(name)
    since = declared.points_since.get(point, minor) if declared is not None else minor
    return f"needs 1.{since} at {point}" if since > minor else ""


def _objects(value: Json, key: str) -> list[JsonObject]:
    """The objects of a list; what is none counts as an empty one."""
    items = value.get(key) if isinstance(value, Mapping) else None
    return [item if isinstance(item, Mapping) else {} for item in items] if isinstance(items, list) else []
