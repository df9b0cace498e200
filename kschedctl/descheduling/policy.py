"""The DeschedulerPolicy v1alpha2, validated and defaulted as the descheduler does it, and the built-in policy.

Upstream: pkg/descheduler/policyconfig.go, pkg/api/v1alpha2/types.go, pkg/framework/profile/profile.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, iter_unknown_fields
from kschedctl.api.json_values import JsonObject, drop_nulls
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from kschedctl.api.objects import Struct
from kschedctl.descheduling import arguments
from kschedctl.descheduling.arguments import REQUIRED, DefaultEvictorArgs, PluginArguments, Unsigned
from kschedctl.descheduling.metrics_providers import MetricsCollector, MetricsProvider, validate_metrics
from kschedctl.errors import InputError

GROUP, VERSION, KIND = "descheduler", "v1alpha2", "DeschedulerPolicy"
EVICTOR = "DefaultEvictor"
DESCHEDULE, BALANCE, FILTER, PRE_EVICTION_FILTER = "deschedule", "balance", "filter", "preevictionfilter"
POINTS = (DESCHEDULE, BALANCE, FILTER, PRE_EVICTION_FILTER)
T = TypeVar("T")


class KnownPlugin(NamedTuple):
    """The type of a plugin's arguments, and its extension points."""

    arguments: type[PluginArguments]
    points: tuple[str, ...]


PLUGINS: Mapping[str, KnownPlugin] = {
    EVICTOR: KnownPlugin(DefaultEvictorArgs, (FILTER, PRE_EVICTION_FILTER)),
    "RemovePodsViolatingNodeAffinity": KnownPlugin(arguments.RemovePodsViolatingNodeAffinityArgs, (DESCHEDULE,)),
    "RemovePodsViolatingNodeTaints": KnownPlugin(arguments.RemovePodsViolatingNodeTaintsArgs, (DESCHEDULE,)),
    "RemovePodsViolatingInterPodAntiAffinity": KnownPlugin(
        arguments.RemovePodsViolatingInterPodAntiAffinityArgs, (DESCHEDULE,)
    ),
    "PodLifeTime": KnownPlugin(arguments.PodLifeTimeArgs, (DESCHEDULE,)),
    "RemovePodsHavingTooManyRestarts": KnownPlugin(arguments.RemovePodsHavingTooManyRestartsArgs, (DESCHEDULE,)),
    "RemoveFailedPods": KnownPlugin(arguments.RemoveFailedPodsArgs, (DESCHEDULE,)),
    "RemoveDuplicates": KnownPlugin(arguments.RemoveDuplicatesArgs, (BALANCE,)),
    "RemovePodsViolatingTopologySpreadConstraint": KnownPlugin(
        arguments.RemovePodsViolatingTopologySpreadConstraintArgs, (BALANCE,)
    ),
    "LowNodeUtilization": KnownPlugin(arguments.LowNodeUtilizationArgs, (BALANCE,)),
    "HighNodeUtilization": KnownPlugin(arguments.HighNodeUtilizationArgs, (BALANCE,)),
}


class _PluginConfig(Struct, frozen=True):
    """The arguments of one plugin in a policy document."""

    name: str = ""
    args: dict[str, object] = msgspec.field(default_factory=dict)


class _PluginSet(Struct, frozen=True):
    """The enabled and disabled plugins of an extension point."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class _Plugins(Struct, frozen=True):
    """The plugins of a profile by extension point."""

    presort: _PluginSet = _PluginSet()
    sort: _PluginSet = _PluginSet()
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    preevictionfilter: _PluginSet = _PluginSet()


class _Profile(Struct, frozen=True):
    """A profile in a policy document."""

    name: str = ""
    plugin_config: tuple[_PluginConfig, ...] = ()
    plugins: _Plugins = _Plugins()


class _Document(Struct, frozen=True):
    """A DeschedulerPolicy document."""

    api_version: str = ""
    kind: str = ""
    profiles: tuple[_Profile, ...] = ()
    node_selector: str | None = None
    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    max_no_of_pods_to_evict_total: Unsigned | None = None
    eviction_failure_event_notification: bool | None = None
    metrics_collector: MetricsCollector | None = None
    metrics_providers: tuple[MetricsProvider, ...] = ()
    grace_period_seconds: int | None = None


class PluginRun(NamedTuple):
    """A plugin that a profile runs, with its arguments."""

    name: str
    arguments: PluginArguments


class DeschedulerProfile(NamedTuple):
    """A profile of a policy."""

    name: str
    evictor: DefaultEvictorArgs
    """Arguments of DefaultEvictor, which decide which pods may be evicted."""
    deschedule: tuple[PluginRun, ...] = ()
    """Plugins of the extension point ``deschedule`` in order."""
    balance: tuple[PluginRun, ...] = ()
    """Plugins of the extension point ``balance`` in order."""


class PolicyEvictionLimits(NamedTuple):
    """Maximum numbers of pods that a round evicts, or None if unlimited."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class DeschedulerPolicy(NamedTuple):
    """A decoded DeschedulerPolicy."""

    profiles: tuple[DeschedulerProfile, ...]
    nodes: Selector = EVERYTHING
    """Selector of the nodes that plugins consider."""
    limits: PolicyEvictionLimits = PolicyEvictionLimits()
    ignored: tuple[str, ...] = ()
    """Errors about fields that the descheduler does not know."""
    grace_seconds: int | None = None
    """Seconds that pods have to terminate, or None for their own grace period."""

    def iter_runs(self) -> Iterator[tuple[int, PluginRun]]:
        """Yield the plugins of a round with the index of their profile, first for deschedule, then for balance."""
        yield from ((index, run) for index, profile in enumerate(self.profiles) for run in profile.deschedule)
        yield from ((index, run) for index, profile in enumerate(self.profiles) for run in profile.balance)


def read_policy(document: JsonObject, where: str = "policy") -> DeschedulerPolicy:
    """Decode and validate a policy. Raises InputError, with ``where`` as the location."""
    _validate_version(document, where)
    cleaned = drop_nulls(document)
    decoded = _decode(cleaned, _Document, where)
    unknown_paths = (path for path, _ in iter_unknown_fields(cleaned, _Document, NEWEST_MINOR))
    limits = PolicyEvictionLimits(
        decoded.max_no_of_pods_to_evict_per_node,
        decoded.max_no_of_pods_to_evict_per_namespace,
        decoded.max_no_of_pods_to_evict_total,
    )
    for fault in validate_metrics(decoded.metrics_collector, decoded.metrics_providers):
        raise InputError(fault.message, where=_join_path(where, fault.field))
    return DeschedulerPolicy(
        tuple(_read_profile(profile, f"{where}, profiles[{i}]") for i, profile in enumerate(decoded.profiles)),
        _parse_node_selector(decoded.node_selector or "", where),
        limits,
        tuple(f'unknown field "{path}"' for path in unknown_paths),
        decoded.grace_period_seconds,
    )


def _validate_version(document: JsonObject, where: str) -> None:
    """Raise InputError if the document is not a DeschedulerPolicy of the supported version."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND or not isinstance(version, str) or version.partition("/")[0] != GROUP:
        shown = f"{version or 'no apiVersion'}, {kind or 'no kind'}"
        raise InputError(
            f"not a {KIND}: {shown}", where=where, hint=f"want apiVersion: {GROUP}/{VERSION}, kind: {KIND}"
        )
    if version != f"{GROUP}/{VERSION}":
        hint = "the descheduler reads strategies no more: write profiles" if version.endswith("v1alpha1") else ""
        raise InputError(f"apiVersion {version} is not read, only {GROUP}/{VERSION}", where=where, hint=hint)


def _decode(document: object, target_type: type[T], where: str) -> T:
    """Decode a document. Raises InputError if a type is wrong."""
    try:
        return convert_builtins(document, target_type)
    except msgspec.ValidationError as error:
        message, _, path = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
        raise InputError(message[:1].lower() + message[1:], where=_join_path(where, path.lstrip("."))) from None


def _join_path(where: str, path: str) -> str:
    """Join a location and the path of a field. The location is a file, or a field in a file."""
    if not path:
        return where
    return f"{where}.{path}" if ", " in where else f"{where}, {path}"


def _parse_node_selector(text: str, where: str) -> Selector:
    """Parse a node selector. An empty one selects all nodes. Raises InputError."""
    try:
        return parse_selector(text) if text else EVERYTHING
    except SelectorError as error:
        raise InputError(error.what, where=_join_path(where, "nodeSelector")) from None


def _read_profile(profile: _Profile, where: str) -> DeschedulerProfile:
    """Validate a profile and read its plugins. Raises InputError."""
    configured: dict[str, PluginArguments] = {}
    for index, config in enumerate(profile.plugin_config):
        config_place = f"{where}.pluginConfig[{index}]"
        plugin_arguments = _read_arguments(config, config_place)
        configured.setdefault(config.name, plugin_arguments)  # the first entry of a plugin counts
    evictor = configured.setdefault(EVICTOR, DefaultEvictorArgs())
    assert isinstance(evictor, DefaultEvictorArgs)
    _parse_node_selector(evictor.node_selector, f"{where}.pluginConfig")
    runs_by_point = {point: _read_enabled_plugins(profile.plugins, point, configured, where) for point in POINTS}
    return DeschedulerProfile(profile.name, evictor, runs_by_point[DESCHEDULE], runs_by_point[BALANCE])


def _read_arguments(config: _PluginConfig, where: str) -> PluginArguments:
    """Decode and validate the arguments of a plugin. Raises InputError."""
    plugin = PLUGINS.get(config.name)
    if plugin is None:
        raise InputError(
            f'unknown plugin "{config.name}"', where=f"{where}.name", hint=_suggest_name(config.name, PLUGINS)
        )
    place = f"{where}.args"
    decoded = _decode(config.args, plugin.arguments, place)
    for path, _ in iter_unknown_fields(config.args, plugin.arguments, NEWEST_MINOR):
        names = [field.encode_name for field in msgspec.structs.fields(plugin.arguments)]
        hint = "" if "." in path or "[" in path else _suggest_name(path, names)
        raise InputError(f'unknown field "{path}" of {config.name}', where=place, hint=hint)
    for fault in decoded.validate():
        raise InputError(fault.message, where=_join_path(place, fault.field))
    return decoded.with_defaults()


def _read_enabled_plugins(
    plugins: _Plugins, point: str, configured: Mapping[str, PluginArguments], where: str
) -> tuple[PluginRun, ...]:
    """Return the enabled plugins of an extension point. Raises InputError.

    Each plugin must have the extension point and a configuration.
    """
    enabled: Sequence[str] = getattr(plugins, point).enabled
    for index, name in enumerate(enabled):
        place = f"{where}.plugins.{point}.enabled[{index}]"
        plugin = PLUGINS.get(name)
        if plugin is None:
            raise InputError(f'unknown plugin "{name}"', where=place, hint=_suggest_name(name, PLUGINS))
        if point not in plugin.points:
            raise InputError(f"{name} has no extension point {point}", where=place, hint=f"it has {plugin.points[0]}")
        if name not in configured:
            raise InputError(f"{name} has no pluginConfig", where=place, hint="the descheduler does not start without")
    return tuple(PluginRun(name, configured[name]) for name in enabled)


def _suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a hint with the most similar name, or with all names."""
    candidates = list(names)
    similar = get_close_matches(name, candidates, 1)
    return f"did you mean {similar[0]}?" if similar else f"known: {', '.join(candidates)}"


PROFILE_NAME = "default"
_ARGUMENTS: dict[str, JsonObject] = {
    "DefaultEvictor": {"nodeFit": True},
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [REQUIRED]},
    "RemovePodsViolatingInterPodAntiAffinity": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
}
_BALANCE_PLUGINS = ("RemovePodsViolatingTopologySpreadConstraint",)
DEFAULT_POLICY: JsonObject = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": PROFILE_NAME,
            "pluginConfig": [{"name": name, "args": args} for name, args in _ARGUMENTS.items()],
            "plugins": {
                "deschedule": {"enabled": [name for name in list(_ARGUMENTS)[1:] if name not in _BALANCE_PLUGINS]},
                "balance": {"enabled": list(_BALANCE_PLUGINS)},
            },
        }
    ],
}
"""The policy that is replayed if none is given. It restores constraints that pods declare themselves."""
