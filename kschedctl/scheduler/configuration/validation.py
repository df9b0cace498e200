"""Validation of a KubeSchedulerConfiguration, and names in it that belong to other versions of kube-scheduler.

Upstream: pkg/scheduler/apis/config/validation/validation.go and component-base/config/validation/validation.go (v1.36).
Version mismatches follow from what plugins, points and arguments declare. Whether such a name is rejected or ignored is
decided where the configuration is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.decoding import iter_unknown_fields
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.kinds import describe_lifecycle
from kschedctl.api.kube_version import OLDEST_MINOR, ByVersion
from kschedctl.api.resource_names import is_extended
from kschedctl.scheduler.configuration.document import (
    API_VERSION,
    KIND,
    ClientConnection,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
)
from kschedctl.scheduler.configuration.profile import FORMER_PLUGINS
from kschedctl.scheduler.engine.extenders import Extender
from kschedctl.scheduler.framework.arguments import PluginArgs, duplicate, invalid, required, validate_qualified_name
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import split_path
from kschedctl.scheduler.in_tree_plugins import IN_TREE, REMOVED
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit

NONE_INVALID: frozenset[str] = frozenset()
INVALID_PLUGINS = ByVersion(
    "removed plugins that a profile may not enable, disable or configure",
    (("", NONE_INVALID), ("1.31", REMOVED)),
    "#124500",
)


def validate_configuration(document: KubeSchedulerConfiguration, gates: FeatureGates) -> Iterator[str]:
    """Yield the field errors of a document in which defaults are set."""
    yield from _validate_client_connection(document.client_connection)
    yield from _validate_leader_election(document.leader_election)
    if document.parallelism <= 0:
        yield invalid("parallelism", document.parallelism, "should be an integer value greater than zero")
    yield from _validate_profiles(document.profiles, gates)
    yield from _validate_percentage("percentageOfNodesToScore", document.percentage_of_nodes_to_score)
    initial, longest = document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        yield invalid("podMaxBackoffSeconds", longest, "must be greater than or equal to PodInitialBackoffSeconds")
    yield from _validate_extenders(document.extenders)


def _validate_client_connection(connection: ClientConnection) -> Iterator[str]:
    """Yield the errors in clientConnection."""
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")


def _validate_leader_election(election: LeaderElection) -> Iterator[str]:
    """Yield the errors in leaderElection. If leader election is disabled, nothing is checked."""
    if not election.leader_elect:
        return
    lease = election.lease_duration or 15  # the defaults of leader election, in seconds
    renew = election.renew_deadline or 10
    retry = election.retry_period or 2
    for name, seconds in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if seconds <= 0:
            yield invalid(f"leaderElection.{name}", f"{seconds:g}s", "must be greater than zero")
    if lease <= renew:  # upstream's message shows renewDeadline as the wrong value
        yield invalid("leaderElection.leaseDuration", f"{renew:g}s", "must be greater than `RenewDeadline`")
    if election.resource_lock not in ("", "leases"):
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _validate_profiles(profiles: tuple[KubeSchedulerProfile, ...], gates: FeatureGates) -> Iterator[str]:
    """Yield the errors in the profiles' names, percentages, plugins and arguments.

    It is also an error if profiles differ in their QueueSort plugin or its arguments.
    """
    index_by_name: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name or ""
        if not name:
            yield required(f"{path}.schedulerName")
        yield from _validate_percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _validate_plugin_names(path, profile, INVALID_PLUGINS.at(gates.release))
        yield from _validate_plugin_config(path, profile, gates)
        if name in index_by_name:
            yield duplicate(f"{path}.schedulerName", f"profiles[{index_by_name[name]}].schedulerName")
        index_by_name[name] = i
    yield from _validate_common_queue_sort(profiles)


def _validate_percentage(path: str, percentage: int | None) -> Iterator[str]:
    """Yield an error unless the percentage is unset or between 0 and 100."""
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _validate_plugin_names(path: str, profile: KubeSchedulerProfile, removed: frozenset[str]) -> Iterator[str]:
    """Yield an error for each plugin in `removed` that the profile at this path enables."""
    for point, plugin_set in profile.plugins.map_sets_by_point().items():
        for i, plugin in enumerate(plugin_set.enabled):
            if plugin.name in removed:
                yield _format_removed_plugin(f"{path}.plugins.{point}.enabled[{i}]", plugin.name)


def _format_removed_plugin(path: str, name: str) -> str:
    """Return the error for a removed plugin at a path."""
    return invalid(
        path, name, f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _validate_plugin_config(path: str, profile: KubeSchedulerProfile, gates: FeatureGates) -> Iterator[str]:
    """Yield the errors in pluginConfig of the profile at this path.

    Errors are plugins that are listed twice or were removed, and invalid arguments. As in upstream, the arguments of
    NodeResourcesFit are not validated.
    """
    seen_names = set()
    removed_plugins = INVALID_PLUGINS.at(gates.release)
    for i, config in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{i}]"
        if config.name in seen_names:
            yield duplicate(entry_path, config.name)
        seen_names.add(config.name)
        if config.name in removed_plugins:
            yield _format_removed_plugin(entry_path, config.name)
        # Upstream checks for this name, which is not a plugin's, by mistake.
        elif config.name == "NodeResourcesFitArgs":
            yield invalid(f"{entry_path}.args", config.args, "has to match plugin args")
        elif config.name != NodeResourcesFit.name and isinstance(config.args, PluginArgs):
            yield from (f"{entry_path}.args.{error}" for error in config.args.validate(gates))


def _validate_common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> Iterator[str]:
    """Yield an error for each profile whose QueueSort plugins differ from the first profile's.

    If the arguments of the first profile's plugin differ, this is a separate error. It is also an error if the first
    profile enables several QueueSort plugins.
    """
    first_profile, *other_profiles = profiles
    first_set = first_profile.plugins.queue_sort
    if len(first_set.enabled) > 1:
        rule = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(first_set.enabled), rule)

    # Compare the other profiles with the plugin and the arguments of the first one.
    first_name = first_set.enabled[0].name if first_set.enabled else None
    first_args = None
    for config in first_profile.plugin_config:
        if config.name == first_name:
            first_args = config.args
    for i, profile in enumerate(other_profiles, start=1):
        if profile.plugins.queue_sort != first_set:
            rule = "must be the same for all profiles"
            yield invalid(f"profiles[{i}].plugins.queueSort", profile.plugins.queue_sort, rule)
        for config in profile.plugin_config:
            if config.name == first_name and config.args != first_args:
                rule = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{i}].pluginConfig.args", config.args, rule)


def _validate_extenders(extenders: tuple[Extender, ...]) -> Iterator[str]:
    """Yield the errors in the extenders' weights and managed resources, and an error if several extenders bind."""
    seen_names = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            name_path = f"{path}.managedResources[{j}].name"
            yield from _validate_extended_resource_name(name_path, resource.name)
            if resource.name in seen_names:
                yield invalid(name_path, resource.name, "duplicate extender managed resource name")
            seen_names.add(resource.name)

    binder_count = sum(1 for extender in extenders if extender.bind_verb)
    if binder_count > 1:
        problem = f"found {binder_count} extenders implementing bind"
        yield invalid("extenders", problem, "only one extender can implement bind")


def _validate_extended_resource_name(path: str, name: str) -> Iterator[str]:
    """Yield the errors in the name of an extended resource."""
    errors = validate_qualified_name(path, name)
    yield from errors
    if not errors and not is_extended(name):
        yield invalid(path, name, "is an invalid extended resource name")


Path = tuple[str | int, ...]


class VersionMismatch(NamedTuple):
    """A name in a configuration that the version does not have."""

    path: Path
    name: str
    """For example `NodeDeclaredFeatures`."""
    what: str
    """For example `needs Kubernetes 1.35`."""

    def __str__(self) -> str:
        return f"{self.name} {self.what}"


def iter_version_mismatches(document: JsonObject | None, minor: int) -> Iterator[VersionMismatch]:
    """Yield the names in a document that this minor version lacks but other versions have.

    These are the API version, fields, plugins and arguments of plugins. The document need not be valid. Nothing is
    yielded if the document is not an object.
    """
    if not isinstance(document, Mapping):
        return
    version = str(document.get("apiVersion"))
    if explanation := describe_lifecycle(version, KIND):
        yield VersionMismatch(("apiVersion",), version, explanation)
    for path, since in iter_unknown_fields(document, KubeSchedulerConfiguration, minor):
        if since is not None:  # otherwise no version has the field
            _, _, field_name = path.rpartition(".")
            yield VersionMismatch(split_path(path), field_name, f"needs Kubernetes 1.{since}")
    for i, profile in enumerate(_list_objects_in_field(document, "profiles")):
        yield from _iter_plugin_set_mismatches(profile, ("profiles", i), minor)
        yield from _iter_plugin_config_mismatches(profile, ("profiles", i), minor)


def _iter_plugin_set_mismatches(profile: JsonObject, path: Path, minor: int) -> Iterator[VersionMismatch]:
    """Yield the plugins in a profile's plugin sets that the version does not have.

    A plugin is also yielded if the version has it, but not at the point that enables it. Nothing is yielded if the
    profile has no plugin sets.
    """
    plugins = profile.get("plugins")
    if not isinstance(plugins, Mapping):
        return
    for point, plugin_set in plugins.items():
        for list_name in ("enabled", "disabled"):
            for j, entry in enumerate(_list_objects_in_field(plugin_set, list_name)):
                name = str(entry.get("name"))
                explanation = _explain_missing_plugin(name, minor)
                if not explanation and list_name == "enabled":
                    explanation = _explain_missing_point(name, point, minor)
                if explanation:
                    yield VersionMismatch((*path, "plugins", point, list_name, j, "name"), name, explanation)


def _iter_plugin_config_mismatches(profile: JsonObject, path: Path, minor: int) -> Iterator[VersionMismatch]:
    """Yield the plugins, plugin arguments and argument fields in a profile's pluginConfig that 1.`minor` does not have.

    Fields that no version of kube-scheduler has are left out.
    """
    for j, config in enumerate(_list_objects_in_field(profile, "pluginConfig")):
        entry_path = (*path, "pluginConfig", j)
        name = str(config.get("name"))
        declared = IN_TREE.get(name)
        if explanation := _explain_missing_plugin(name, minor):
            yield VersionMismatch((*entry_path, "name"), name, explanation)
        elif declared is not None and declared.args_type is not None:
            if minor < declared.args_since:
                yield VersionMismatch(entry_path, f"arguments of {name}", f"need 1.{declared.args_since}")
                continue
            for field, since in iter_unknown_fields(config.get("args"), declared.args_type, minor):
                if since is not None:  # otherwise no version has the field
                    yield VersionMismatch(
                        (*entry_path, "args", *split_path(field)), field, f"needs Kubernetes 1.{since}"
                    )


def _explain_missing_plugin(name: str, minor: int) -> str:
    """Return why this minor version lacks the plugin, or "" if it has the plugin or no version has it."""
    if name in FORMER_PLUGINS:
        return f"was removed before 1.{OLDEST_MINOR}"
    declared = IN_TREE.get(name)
    if declared is None or declared.restrict_to_minor(minor) is not None:
        return ""
    if declared.until is not None and minor > declared.until:
        return f"was removed in 1.{declared.until + 1}"
    return f"needs Kubernetes 1.{declared.since}"


def _explain_missing_point(name: str, point: str, minor: int) -> str:
    """Return the version since which the plugin runs at the point, as a clause.

    Return "" if the plugin runs there in this minor version, never runs there, or is not an in-tree plugin.
    """
    declared = IN_TREE.get(name)
    since = declared.points_since.get(point, minor) if declared is not None else minor
    return f"needs Kubernetes 1.{since} at {point}" if since > minor else ""


def _list_objects_in_field(value: Json, key: str) -> list[JsonObject]:
    """Return the items of the list in a document's field `key`, or [] if the field has no list.

    Items that are not objects are replaced with {}, so that indices stay the same.
    """
    items = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(items, list):
        return []
    return [item if isinstance(item, Mapping) else {} for item in items]
