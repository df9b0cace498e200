"""The effective configuration with the origin of each part, and all errors that kube-scheduler would report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Annotated, Any

import msgspec

from kschedctl.api.json_values import JsonObject, array_at, field_at, object_at
from kschedctl.errors import ConfigurationError
from kschedctl.lint.objects.subject import Path, format_path
from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.scheduler.configuration import validation
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration, load_configuration
from kschedctl.scheduler.configuration.document import add_document_defaults, parse_document
from kschedctl.scheduler.configuration.profile import Profile
from kschedctl.scheduler.configuration.secrets import redact_secrets
from kschedctl.scheduler.configuration.validation import VersionMismatch, validate_configuration
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration, split_path
from kschedctl.scheduler.third_party_plugins import find_registered_plugins
from kschedctl.text.counts import counted
from kschedctl.text.printable import strip_url


class EffectivePlugin(Document, frozen=True):
    """A plugin at an extension point."""

    name: str
    origin: str
    """The place at which the plugin is enabled: default, multiPoint, or the extension point."""
    weight: int | None = None
    """The weight of a Score plugin."""


class EffectivePoint(Document, frozen=True):
    """The plugins at an extension point, in the order in which they run."""

    point: str
    plugins: tuple[EffectivePlugin, ...]


class EffectiveArgs(Document, frozen=True):
    """The arguments of a plugin."""

    plugin: Annotated[str, Column(keep=True)]
    origin: Annotated[str, Column("given by")]
    """The source of the arguments: pluginConfig or default."""
    args: Annotated[Any, Column("arguments")]


class EffectiveProfile(Document, frozen=True):
    """A profile with its plugins and their arguments."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    """0 means that the percentage adapts to the number of nodes."""
    points: tuple[EffectivePoint, ...]
    args: tuple[EffectiveArgs, ...]


class EffectiveConfiguration(Report, frozen=True):
    """The profiles and settings of a scheduler, with defaults filled in."""

    profiles: tuple[EffectiveProfile, ...]
    parallelism: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    extenders: tuple[str, ...] = ()
    """The URLs of the extenders, in calling order."""
    configured_by: str = ""
    """The place at which the configuration of a live cluster's scheduler was found."""
    kube_version: str = ""
    """The version of kube-scheduler that reads the configuration."""
    ignored: tuple[str, ...] = ()
    """Settings that this version does not know and ignores, with the versions that have them."""
    kind: str = "EffectiveConfiguration"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the number and names of the profiles, and the version that reads them."""
        names = ", ".join(profile.scheduler_name for profile in self.profiles)
        reader = f"as kube-scheduler {self.kube_version} reads it" if self.kube_version else ""
        return counted(len(self.profiles), "profile"), f"({names})", reader


RUN_ORDER = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "placementGenerate", "placementScore"),
)
"""The extension points in the order in which a pod passes them."""


def build_effective_configuration(document: JsonObject | None, gates: FeatureGates) -> EffectiveConfiguration:
    """Build the effective form of a configuration document, or of the default configuration if it is None.

    Raises ConfigurationError if the document is invalid, and ThirdPartyError if a registered plugin fails.
    """
    configuration = load_with_registered_plugins(document, gates)
    written_profiles = array_at(document, "profiles") or ({},)
    profiles = (
        _build_profile(profile, written_profile, configuration.percentage_of_nodes_to_score)
        for profile, written_profile in zip(configuration.profiles.values(), written_profiles, strict=True)
    )
    return EffectiveConfiguration(
        profiles=tuple(profiles),
        parallelism=configuration.parallelism,
        pod_initial_backoff_seconds=configuration.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=configuration.pod_max_backoff_seconds,
        extenders=tuple(strip_url(extender.url_prefix) for extender in configuration.extenders),
        kube_version=gates.version,
        ignored=tuple(
            f"{format_path(mismatch.path)}: {mismatch}" for mismatch in list_unknown_to_version(document, gates)
        ),
    )


def _build_profile(profile: Profile, profile_document: object, default_percentage: int) -> EffectiveProfile:
    """Build the effective form of a profile, with defaults filled in.

    ``profile_document`` is the profile in the configuration document. ``default_percentage`` is the
    percentageOfNodesToScore of a profile that sets none.
    """
    configured_plugins = {str(object_at(config).get("name")) for config in array_at(profile_document, "pluginConfig")}
    args = (
        EffectiveArgs(name, "pluginConfig" if name in configured_plugins else "default", _convert_args_to_json(value))
        for name, value in sorted(profile.args.items())
    )
    points = (EffectivePoint(point, _list_plugins(profile, point)) for point in RUN_ORDER if profile.plugins[point])
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = default_percentage
    return EffectiveProfile(profile.scheduler_name, percentage, tuple(points), tuple(args))


def _convert_args_to_json(value: object) -> object:
    """Convert a plugin's arguments, or a value within them, to JSON values.

    Null fields are left out, and secrets in the arguments of third-party plugins are redacted.
    """
    if isinstance(value, msgspec.Struct):
        fields = ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return {name: _convert_args_to_json(item) for name, item in fields if item is not None}
    if isinstance(value, GoDuration):
        return f"{value:g}s"
    if isinstance(value, Mapping):  # arguments of a plugin that is not in-tree
        return redact_secrets(value)
    if isinstance(value, tuple):
        return [_convert_args_to_json(item) for item in value]
    return value


def _list_plugins(profile: Profile, point: str) -> tuple[EffectivePlugin, ...]:
    """Return a profile's plugins at an extension point, in running order, with their origins and weights."""
    weights = {"score": profile.weights, "placementScore": profile.placement_weights}.get(point, {})
    return tuple(
        EffectivePlugin(name, profile.origins[point][name], weights.get(name)) for name in profile.plugins[point]
    )


ConfigurationFault = tuple[Path, str]
"""The path of a field and what is wrong with it."""
MAX_ERRORS = 100
"""The maximum number of errors that are collected."""
_UNKNOWN = re.compile(r'(?:decoding \.(\S+): [^"]*?)?unknown field "([^"]*)"')
_STRICT = "strict decoding error"


def load_with_registered_plugins(document: JsonObject | None, gates: FeatureGates) -> SchedulerConfiguration:
    """Load the configuration, or the default one if ``document`` is None, together with registered plugins.

    Raises ConfigurationError if the document is invalid, and ThirdPartyError if a registered plugin fails.
    """
    return load_configuration(document, gates, find_registered_plugins(other_builds=True), other_builds=True)


def list_unknown_to_version(document: JsonObject | None, gates: FeatureGates) -> list[VersionMismatch]:
    """List the fields and plugins of the document that only other versions have.

    Plugins that a package registers are left out.
    """
    registered_plugins = find_registered_plugins(other_builds=True)
    mismatches = validation.iter_version_mismatches(document, gates.minor)
    return [mismatch for mismatch in mismatches if mismatch.name not in registered_plugins]


def find_configuration_errors(document: JsonObject, gates: FeatureGates) -> list[ConfigurationFault]:
    """Find all errors that kube-scheduler would report for a configuration, at most `MAX_ERRORS`.

    Errors in types and field names come before errors in values. If there are neither, each profile is tried, since it
    may still fail to start. Raises ThirdPartyError if a registered plugin fails.
    """
    errors: list[ConfigurationFault] = []
    while len(errors) < MAX_ERRORS:
        try:
            parsed = parse_document(document, gates.minor)
        except ConfigurationError as error:
            # Decoding stops at the first wrong type, so remove the faulty fields and decode again.
            decoding_errors = list(_iter_decoding_errors(error))
            errors += decoding_errors
            reduced = _remove_fields(document, [path for path, _ in decoding_errors])
            if reduced == document:
                return errors
            document = reduced
            continue
        value_errors = validate_configuration(add_document_defaults(parsed, gates), gates)
        errors += [(parse_error_path(error), error) for error in value_errors]
        break
    return errors[:MAX_ERRORS] or list(_iter_profile_errors(document, gates))


def format_error(error: ConfigurationError) -> str:
    """Format an error in kube-scheduler's words, without our hint."""
    return f"{error.where}: {error.what}" if error.where else error.what


def parse_error_path(message: str) -> Path:
    """Return the path of the first field that an error of kube-scheduler names, or () if it names none.

    >>> parse_error_path('profiles[0].schedulerName: Required value'), parse_error_path("parallelism: Invalid value: 0")
    (('profiles', 0, 'schedulerName'), ('parallelism',))
    """
    match = re.search(r"\b(profiles|extenders)\[\d+\][\w.\[\]]*", message) or re.search(r"\b[a-z]\w+(?=: )", message)
    return split_path(match[0]) if match else ()


def _iter_decoding_errors(error: ConfigurationError) -> Iterator[ConfigurationFault]:
    """Yield the path and message of each unknown field that a decoding error lists.

    An error about a wrong type yields only itself.
    """
    if _STRICT not in error.what:
        yield split_path(error.where) or parse_error_path(str(error)), str(error)
        return
    for plugin_config, field in _UNKNOWN.findall(error.what):
        path = f"{plugin_config}.args.{field}" if plugin_config else field
        yield split_path(path), f'{_STRICT}: unknown field "{path}"'


def _iter_profile_errors(document: JsonObject, gates: FeatureGates) -> Iterator[ConfigurationFault]:
    """Yield the error of each profile that cannot be loaded. kube-scheduler itself stops at the first error."""
    for i, profile in enumerate(array_at(document, "profiles")):
        try:
            load_with_registered_plugins({**document, "profiles": [profile]}, gates)
        except ConfigurationError as error:
            yield ("profiles", i, *_find_args_path(profile, format_error(error))), format_error(error)


def _find_args_path(profile: object, message: str) -> Path:
    """Return the path in a profile to the arguments of the plugin that fails to start, or () if there are none.

    The error message names the plugin.
    """
    match = re.search(r'initializing plugin "([^"]+)"', message)
    for number, entry in enumerate(array_at(profile, "pluginConfig")):
        if match and object_at(entry).get("name") == match[1]:
            return ("pluginConfig", number, "args")
    return ()


def _remove_fields(document: JsonObject, paths: list[Path]) -> JsonObject:
    """Return a copy of the document without the fields, or the document itself if nothing would remain."""
    for path in sorted(paths, key=str, reverse=True):  # later items of a list first
        document = _remove_field(document, path) or document
    return document


def _remove_field(document: JsonObject, path: Path) -> JsonObject:
    """Return a copy of the document without the field at a path. If there is no such field, the copy is equal.

    A list item is emptied instead of removed, so that the other items keep their index.
    """
    copied = deepcopy(document)
    parent = field_at(copied, *path[:-1])
    if path and isinstance(parent, dict):
        parent.pop(path[-1], None)
    elif isinstance(parent, list) and field_at(parent, *path[-1:]) is not None:
        parent[int(path[-1])] = {}
    return copied
