"""Validation of a KubeSchedulerConfiguration before any profile is built.

Upstream: pkg/scheduler/apis/config/validation/validation.go and component-base/config/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.resource_names import is_extended
from kschedctl.scheduler.configuration.document import (
    API_VERSION,
    ClientConnection,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
)
from kschedctl.scheduler.engine.extenders.settings import Extender
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import duplicate, invalid, required, validate_qualified_name
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.registry.in_tree import REMOVED

NONE_INVALID: frozenset[str] = frozenset()
INVALID_PLUGINS = ByVersion(
    "plugins that a profile may no longer name at a point or give arguments",
    (("", NONE_INVALID), ("1.31", REMOVED)),
    "#124500",
)


def validate_configuration(document: KubeSchedulerConfiguration, gates: FeatureGates) -> Iterator[str]:
    """Yield the field errors of a defaulted document."""
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
    """Yield the errors in leaderElection."""
    if not election.leader_elect:
        return
    lease, renew, retry = election.lease_duration or 15, election.renew_deadline or 10, election.retry_period or 2
    for name, seconds in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if seconds <= 0:
            yield invalid(f"leaderElection.{name}", f"{seconds:g}s", "must be greater than zero")
    if lease <= renew:
        yield invalid("leaderElection.leaseDuration", f"{renew:g}s", "must be greater than `RenewDeadline`")
    if election.resource_lock not in ("", "leases"):
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _validate_profiles(profiles: tuple[KubeSchedulerProfile, ...], gates: FeatureGates) -> Iterator[str]:
    """Yield the errors in profiles."""
    first: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path, name = f"profiles[{i}]", profile.scheduler_name or ""
        if not name:
            yield required(f"{path}.schedulerName")
        yield from _validate_percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _validate_plugin_names(path, profile, INVALID_PLUGINS.at(gates.release))
        yield from _validate_plugin_config(path, profile, gates)
        if name in first:
            yield duplicate(f"{path}.schedulerName", f"profiles[{first[name]}].schedulerName")
        first[name] = i
    yield from _validate_common_queue_sort(profiles)


def _validate_percentage(path: str, percentage: int | None) -> Iterator[str]:
    """Yield an error unless the percentage is between 0 and 100."""
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _validate_plugin_names(path: str, profile: KubeSchedulerProfile, names: frozenset[str]) -> Iterator[str]:
    """Yield an error for each removed plugin that a profile enables."""
    for point, plugin_set in profile.plugins.map_sets_by_point().items():
        for i, plugin in enumerate(plugin_set.enabled):
            if plugin.name in names:
                yield _format_removed_plugin(f"{path}.plugins.{point}.enabled[{i}]", plugin.name)


def _format_removed_plugin(path: str, name: str) -> str:
    """Return the error for a removed plugin."""
    return invalid(
        path, name, f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _validate_plugin_config(path: str, profile: KubeSchedulerProfile, gates: FeatureGates) -> Iterator[str]:
    """Yield the errors in pluginConfig."""
    seen = set()
    for i, config in enumerate(profile.plugin_config):
        at = f"{path}.pluginConfig[{i}]"
        if config.name in seen:
            yield duplicate(at, config.name)
        seen.add(config.name)
        if config.name in INVALID_PLUGINS.at(gates.release):
            yield _format_removed_plugin(at, config.name)
        elif config.name == "NodeResourcesFitArgs":  # upstream validates by this name, so the plugin's own passes here
            yield invalid(f"{at}.args", config.args, "has to match plugin args")
        elif config.name != NodeResourcesFit.name and isinstance(config.args, PluginArgs):
            yield from (f"{at}.args.{error}" for error in config.args.validate(gates))


def _validate_common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> Iterator[str]:
    """Yield an error for each profile with another QueueSort plugin or arguments than the first."""
    canon = profiles[0].plugins.queue_sort
    if len(canon.enabled) > 1:
        rule = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(canon.enabled), rule)
    name = canon.enabled[0].name if canon.enabled else None
    args = [config.args for config in profiles[0].plugin_config if config.name == name]
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != canon:
            rule = "must be the same for all profiles"
            yield invalid(f"profiles[{i}].plugins.queueSort", profile.plugins.queue_sort, rule)
        for config in profile.plugin_config:
            if config.name == name and config.args != (args[-1] if args else None):
                rule = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{i}].pluginConfig.args", config.args, rule)


def _validate_extenders(extenders: tuple[Extender, ...]) -> Iterator[str]:
    """Yield the errors in extenders."""
    seen = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            at = f"{path}.managedResources[{j}].name"
            yield from _validate_extended_resource_name(at, resource.name)
            if resource.name in seen:
                yield invalid(at, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        yield invalid(
            "extenders", f"found {binders} extenders implementing bind", "only one extender can implement bind"
        )


def _validate_extended_resource_name(path: str, name: str) -> Iterator[str]:
    """Yield the errors in the name of an extended resource."""
    errors = validate_qualified_name(path, name)
    yield from errors
    if not errors and not is_extended(name):
        yield invalid(path, name, "is an invalid extended resource name")
