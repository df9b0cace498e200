"""A KubeSchedulerConfiguration as written: its structs, strict parsing and defaults.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go, component-base/config/v1alpha1/types.go and
pkg/scheduler/apis/config/v1/{defaults,conversion}.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.api.objects import Struct
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.configuration.profile import Plugins, merge_default_plugins
from kschedctl.scheduler.engine.extenders import Extender
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration, Int32, Int64, decode_strictly, find_unknown_fields
from kschedctl.scheduler.in_tree_plugins import get_args_types

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
_TYPE_META = ("apiVersion", "kind")


class PluginConfig(Struct, frozen=True):
    """The arguments of one plugin: typed, or the plain document if the plugin has no arguments in this version."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(Struct, frozen=True):
    """A profile as written."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(Struct, frozen=True):
    """Settings of leader election, durations in seconds. They do not affect scheduling."""

    leader_elect: bool = True
    lease_duration: GoDuration = GoDuration(15)
    renew_deadline: GoDuration = GoDuration(10)
    retry_period: GoDuration = GoDuration(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Struct, frozen=True):
    """Settings of the connection to the API server. They do not affect scheduling."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class KubeSchedulerConfiguration(Struct, frozen=True):
    """The whole document, without apiVersion and kind."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


def parse_document(document: JsonObject, minor: int = NEWEST_MINOR) -> KubeSchedulerConfiguration:
    """Parse a document, including the plugins' arguments, as version 1.`minor` of kube-scheduler does.

    Defaults are not filled in. Raises ConfigurationError for another kind or API version, a value of the wrong type, or
    unknown fields.
    """
    _validate_kind(document)
    body = {key: value for key, value in document.items() if key not in _TYPE_META}
    parsed = decode_strictly(body, KubeSchedulerConfiguration)
    unknown_fields = find_unknown_fields(body, KubeSchedulerConfiguration, minor)

    # The arguments of each plugin have a type of their own.
    profiles = []
    for i, profile in enumerate(parsed.profiles):
        plugin_config = []
        for j, config in enumerate(profile.plugin_config):
            args, unknown_args = _decode_plugin_args(config, f"profiles[{i}].pluginConfig[{j}]", minor)
            plugin_config.append(PluginConfig(config.name, args))
            unknown_fields += unknown_args
        profiles.append(msgspec.structs.replace(profile, plugin_config=tuple(plugin_config)))

    if unknown_fields:
        raise ConfigurationError(f"strict decoding error: {', '.join(unknown_fields)}")
    return msgspec.structs.replace(parsed, profiles=tuple(profiles))


def add_document_defaults(parsed: KubeSchedulerConfiguration, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Return the document with at least one profile, and with default plugins and arguments in every profile.

    A single profile without a schedulerName gets the default name.
    """
    profiles = parsed.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    defaulted = tuple(_add_profile_defaults(profile, gates) for profile in profiles)
    return msgspec.structs.replace(parsed, profiles=defaulted)


def _add_profile_defaults(profile: KubeSchedulerProfile, gates: FeatureGates) -> KubeSchedulerProfile:
    """Return a profile with the default plugins and the defaults of all arguments."""
    plugins = merge_default_plugins(profile.plugins, gates)
    configured = {config.name for config in profile.plugin_config}
    types = get_args_types(gates.minor)
    missing = sorted((plugins.enabled_names & types.keys()) - configured)
    configs = (*profile.plugin_config, *(PluginConfig(name, types[name]()) for name in missing))
    defaulted = tuple(PluginConfig(config.name, _add_default_args(config.args, gates)) for config in configs)
    return msgspec.structs.replace(profile, plugins=plugins, plugin_config=defaulted)


def _add_default_args(args: object, gates: FeatureGates) -> object:
    """Return plugin arguments with their defaults. Arguments without a type stay as they are."""
    return args.with_defaults(gates) if isinstance(args, PluginArgs) else args


def _validate_kind(document: object) -> None:
    """Raise ConfigurationError unless the document is a KubeSchedulerConfiguration in the supported API version."""
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"a {KIND} must be an object, not {_format_redacted_excerpt(document)}")
    kind, version = document.get("kind"), document.get("apiVersion")
    for name, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            raise ConfigurationError(f"Object '{name}' is missing in '{_format_redacted_excerpt(document)}'")
    if (kind, version) != (KIND, API_VERSION):
        hint = f"only {KIND} in {API_VERSION} is supported"
        raise ConfigurationError(f'no kind "{kind}" is registered for version "{version}"', hint=hint)


def _decode_plugin_args(config: PluginConfig, path: str, minor: int) -> tuple[object, list[str]]:
    """Return a plugin's typed arguments, and the errors about their unknown fields.

    If the plugin takes no arguments in this version, its arguments are returned as they are written. Raises
    ConfigurationError for arguments of another kind or API version, and for a value of the wrong type.
    """
    args_type = get_args_types(minor).get(config.name)
    if args_type is None:
        return config.args, []
    if isinstance(config.args, Mapping):
        _validate_args_kind(config.name, config.args, path, minor)
    args, unknown = decode_args(config.args, args_type, f"{path}.args", minor)
    if not unknown:
        return args, []
    prefix = f"decoding .{path}: strict decoding error: decoding args for plugin {config.name}"
    return args, [f"{prefix}: strict decoding error: {', '.join(unknown)}"]


def decode_args(document: Json, args_type: type[Struct], path: str, minor: int) -> tuple[object, list[str]]:
    """Return the typed arguments found at `path`, and an error for each unknown field.

    The fields kind and apiVersion are ignored. A document of None gives the default arguments. Raises
    ConfigurationError for a wrong type.
    """
    body = {} if document is None else document
    if isinstance(body, Mapping):
        body = {key: value for key, value in body.items() if key not in _TYPE_META}
    return decode_strictly(body, args_type, path), find_unknown_fields(body, args_type, minor)


def _validate_args_kind(name: str, document: JsonObject, path: str, minor: int) -> None:
    """Raise ConfigurationError unless kind and apiVersion of the arguments fit the plugin.

    Missing fields fit every plugin.
    """
    kind = str(document.get("kind") or f"{name}Args")
    version = document.get("apiVersion") or API_VERSION
    if version != API_VERSION or kind.removesuffix("Args") not in get_args_types(minor):
        problem = f'decoding args for plugin {name}: no kind "{kind}" is registered for version "{version}"'
        raise ConfigurationError(f"decoding .{path}: {problem}")
    if kind != f"{name}Args":
        problem = f"args for plugin {name} were not of type {name}Args.{GROUP}, got {kind}.{GROUP}"
        raise ConfigurationError(f"decoding .{path}: {problem}")


def _format_redacted_excerpt(document: object, limit: int = 160) -> str:
    """Return the document as JSON without secrets, cut off at `limit` characters."""
    from kschedctl.scheduler.configuration.secrets import redact_secrets  # noqa: PLC0415 - only for errors

    text = json.dumps(redact_secrets(document), separators=(",", ":"), default=str)
    return text if len(text) <= limit else f"{text[:limit]}…"
