"""Loading of a KubeSchedulerConfiguration document into profiles, extenders and limits.

Upstream: pkg/scheduler/scheduler.go and pkg/scheduler/profile/profile.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.labels import format_aggregate
from kschedctl.api.objects import Struct
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.configuration.document import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    add_document_defaults,
    decode_args,
    parse_document,
)
from kschedctl.scheduler.configuration.profile import Plugins, Profile, build_profile, find_foreign_plugins
from kschedctl.scheduler.configuration.validation import iter_version_mismatches, validate_configuration
from kschedctl.scheduler.engine.extenders import Extender
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.declaration import Declaration
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.scheduler.in_tree_plugins import get_in_tree_plugins_for_gates
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit

DEFAULT_EXTENDER_TIMEOUT = GoDuration(5)
NO_REGISTRATIONS: Mapping[str, Declaration] = {}


class SchedulerConfiguration(Struct, frozen=True):
    """The configuration of a scheduler."""

    profiles: Mapping[str, Profile]
    """schedulerName -> profile, in the document's order."""
    extenders: tuple[Extender, ...]
    """Extenders in the order in which they are called, ignorable ones last."""
    percentage_of_nodes_to_score: int
    """0 means adaptive. A profile's own value takes precedence."""
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    parallelism: int


def load_configuration(
    document: JsonObject | None,
    gates: FeatureGates,
    registered: Mapping[str, Declaration] = NO_REGISTRATIONS,
    *,
    other_builds: bool = False,
) -> SchedulerConfiguration:
    """Load a configuration from a parsed document, or the default configuration if the document is None.

    `registered` are third-party plugins, which are loaded only if a profile enables them. With `other_builds`, an
    unknown plugin is taken to be compiled into a custom scheduler. Otherwise, an unknown plugin is an error, as in the
    released kube-scheduler.

    Raises ThirdPartyError if a third-party plugin cannot be loaded. Raises ConfigurationError if the document is
    invalid, with kube-scheduler's message and a hint about the versions that have the rejected fields.
    """
    try:
        # The default configuration of each version is cached, unless plugins are added or versions are mixed
        if document is None and not registered and gates.mix is None:
            return _load_default_configuration(gates.version, frozenset((gates.overrides or {}).items()))
        return _load_document(document, gates, registered, other_builds=other_builds)
    except ConfigurationError as error:
        hints = [error.hint] if error.hint else []
        for mismatch in iter_version_mismatches(document, gates.minor):
            if mismatch.name in error.what:
                hints.append(str(mismatch))
        hint = "; ".join(dict.fromkeys(hints))
        raise ConfigurationError(error.what, where=error.where, hint=hint) from None


@lru_cache(maxsize=64)
def _load_default_configuration(version: str, overrides: frozenset[tuple[str, bool]]) -> SchedulerConfiguration:
    """Load the default configuration for feature gates, once: a program may build thousands of schedulers."""
    return _load_document(None, FeatureGates(version, dict(overrides)), NO_REGISTRATIONS, other_builds=False)


def _load_document(
    document: JsonObject | None,
    gates: FeatureGates,
    registered: Mapping[str, Declaration],
    *,
    other_builds: bool,
) -> SchedulerConfiguration:
    """Validate a document, or the defaults if it is None, and load it. Raises ConfigurationError if it is invalid.

    The other arguments are those of `load_configuration`.
    """
    # Parse and validate.
    written = KubeSchedulerConfiguration() if document is None else parse_document(document, gates.minor)
    parsed = add_document_defaults(written, gates)
    if errors := list(validate_configuration(parsed, gates)):
        raise ConfigurationError(format_aggregate(errors))
    _validate_tls(parsed.extenders)

    # Build the profiles, which also need their plugins as written to tell defaults from choices.
    ignored = _find_ignored_resources(parsed.extenders)
    custom_plugins = [profile.plugins for profile in written.profiles] or [Plugins()]
    profiles = [
        _load_profile(profile, custom, registered, ignored=ignored, gates=gates, other_builds=other_builds)
        for profile, custom in zip(parsed.profiles, custom_plugins, strict=True)
    ]
    _require_same_queue_sort(profiles)
    return SchedulerConfiguration(
        profiles={profile.scheduler_name: profile for profile in profiles},
        extenders=_set_timeouts_and_sort_extenders(parsed.extenders),
        percentage_of_nodes_to_score=parsed.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds=parsed.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=parsed.pod_max_backoff_seconds,
        parallelism=parsed.parallelism,
    )


def _load_profile(
    profile: KubeSchedulerProfile,
    custom: Plugins,
    registered: Mapping[str, Declaration],
    *,
    ignored: tuple[str, ...],
    gates: FeatureGates,
    other_builds: bool,
) -> Profile:
    """Build one profile from its defaulted document. Raises ConfigurationError if it is invalid.

    `custom` are the plugins as written, without defaults. `ignored` are the resources that NodeResourcesFit must
    ignore, because an extender manages them. Third-party plugins in `registered` are treated like in-tree plugins. With
    `other_builds`, all other unknown plugins become `Profile.foreign`.
    """
    location = f"creating profile for scheduler name {profile.scheduler_name}"
    args = _collect_plugin_args(profile, ignored=ignored, gates=gates, location=location)

    # Third-party plugins count like in-tree ones.
    third_party = {name: registered[name] for name in sorted(profile.plugins.enabled_names & registered.keys())}
    for name, declared in third_party.items():
        args[name] = _decode_third_party_args(name, args.get(name), declared.args_type, gates)
    declarations = {**get_in_tree_plugins_for_gates(gates), **third_party}
    registry = {name: declared.points for name, declared in declarations.items()}

    try:
        return build_profile(
            profile.scheduler_name or "",
            profile.plugins,
            custom,
            registry,
            args=args,
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            foreign=find_foreign_plugins(profile.plugins, registry) if other_builds else {},
        )
    except ConfigurationError as error:
        raise ConfigurationError(error.what, where=location) from None


def _collect_plugin_args(
    profile: KubeSchedulerProfile, *, ignored: tuple[str, ...], gates: FeatureGates, location: str
) -> dict[str, Any]:
    """Return the arguments of the profile's plugins by name. NodeResourcesFit ignores the resources in `ignored`.

    The arguments of NodeResourcesFit are validated if the plugin is enabled. Raises ConfigurationError, with `location`
    as the place of the error, if they are invalid. Also raises ConfigurationError if `ignored` is not empty and the
    profile has no arguments for NodeResourcesFit.
    """
    args = {config.name: config.args for config in profile.plugin_config}
    if ignored:
        if NodeResourcesFit.name not in args:
            raise ConfigurationError("couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")
        args[NodeResourcesFit.name] = msgspec.structs.replace(args[NodeResourcesFit.name], ignored_resources=ignored)
    if NodeResourcesFit.name in profile.plugins.enabled_names:
        errors = list(args[NodeResourcesFit.name].validate(gates))
        if errors:
            problem = f'initializing plugin "{NodeResourcesFit.name}": {format_aggregate(errors)}'
            raise ConfigurationError(problem, where=location)
    return args


def _decode_third_party_args(name: str, document: Json, args_type: type[Struct] | None, gates: FeatureGates) -> object:
    """Return the decoded and validated arguments of a third-party plugin, with defaults.

    If the plugin declares no `args_type`, the document is returned as it is. Raises ConfigurationError for invalid
    arguments.
    """
    if args_type is None:
        return document
    args, unknown = decode_args(document, args_type, f"args of plugin {name}", gates.minor)
    if unknown:
        raise ConfigurationError(f"decoding args for plugin {name}: strict decoding error: {', '.join(unknown)}")
    if isinstance(args, PluginArgs):
        args = args.with_defaults(gates)
        if errors := list(args.validate(gates)):
            raise ConfigurationError(f'initializing plugin "{name}": {format_aggregate(errors)}')
    return args


def _validate_tls(extenders: tuple[Extender, ...]) -> None:
    """Raise ConfigurationError for an extender with both a root certificate and `insecure`.

    Upstream: NewHTTPExtender, and TLSConfigFor in staging/src/k8s.io/client-go/transport/transport.go.
    """
    for extender in extenders:
        tls = extender.tls_config
        has_root_certificate = tls is not None and bool(tls.ca_file or tls.ca_data)
        if tls is not None and tls.insecure and has_root_certificate:
            problem = "specifying a root certificates file with the insecure flag is not allowed"
            raise ConfigurationError(f"couldn't build extenders: {problem}")


def _find_ignored_resources(extenders: tuple[Extender, ...]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit ignores because extenders manage them."""
    resources = (resource for extender in extenders for resource in extender.managed_resources)
    return tuple(resource.name for resource in resources if resource.ignored_by_scheduler)


def _set_timeouts_and_sort_extenders(extenders: tuple[Extender, ...]) -> tuple[Extender, ...]:
    """Return the extenders with default timeouts, in the order in which they are called.

    Ignorable extenders are called last.
    """
    timed = (
        msgspec.structs.replace(extender, http_timeout=extender.http_timeout or DEFAULT_EXTENDER_TIMEOUT)
        for extender in extenders
    )
    return tuple(sorted(timed, key=lambda extender: extender.ignorable))


def _require_same_queue_sort(profiles: list[Profile]) -> None:
    """Raise ConfigurationError unless all profiles sort their shared queue with the same plugin and arguments.

    Profiles without a QueueSort plugin are ignored.
    """
    sorting = [profile for profile in profiles if profile.plugins["queueSort"]]
    if not sorting:
        return
    first_profile, *other_profiles = sorting
    first_plugin, *_ = first_profile.plugins["queueSort"]

    for profile in other_profiles:
        name = profile.scheduler_name
        plugin, *_ = profile.plugins["queueSort"]
        if plugin != first_plugin:
            problem = f'different queue sort plugins for profile "{name}": "{plugin}", first: "{first_plugin}"'
            raise ConfigurationError(problem)
        if profile.args.get(plugin) != first_profile.args.get(plugin):
            raise ConfigurationError(f'different queue sort plugin args for profile "{name}"')
