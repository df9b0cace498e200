"""The DeschedulerPolicy v1alpha2, validated and defaulted as the descheduler does it, and the built-in policy.

Upstream: pkg/descheduler/policyconfig.go, pkg/api/v1alpha2/types.go, pkg/framework/profile/profile.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from kschedctl.api.decoding import convert_builtins, iter_unknown_fields
from kschedctl.api.json_values import JsonObject, drop_nulls
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from kschedctl.api.objects import Struct
from kschedctl.descheduling import arguments
from kschedctl.descheduling.arguments import REQUIRED, ArgumentError, DefaultEvictorArgs, PluginArguments, Unsigned
from kschedctl.errors import InputError

GROUP, VERSION, KIND = "descheduler", "v1alpha2", "DeschedulerPolicy"
EVICTOR = "DefaultEvictor"
DESCHEDULE, BALANCE, FILTER, PRE_EVICTION_FILTER = "deschedule", "balance", "filter", "preevictionfilter"
POINTS = (DESCHEDULE, BALANCE, FILTER, PRE_EVICTION_FILTER)
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
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


class MetricsCollector(Struct, frozen=True):
    """The deprecated collector of usage from the metrics server."""

    enabled: bool = False


class TokenSecret(Struct, frozen=True):
    """A reference to the Secret with a token."""

    namespace: str = ""
    name: str = ""


class AuthToken(Struct, frozen=True):
    """The token for a Prometheus server."""

    secret_reference: TokenSecret | None = None


class PrometheusServer(Struct, frozen=True):
    """A Prometheus server."""

    url: str = ""
    auth_token: AuthToken | None = None

    def validate(self, path: str) -> Iterator[ArgumentError]:
        """Yield the errors for which upstream rejects the server: its URL or its reference to a Secret is invalid.

        ``path`` is the server's path in the policy.
        """
        if not self.url:
            yield ArgumentError(f"{path}.url", "must be set")
        elif not _can_parse_as_url(self.url):
            yield ArgumentError(f"{path}.url", f'"{self.url}" is not a URL')
        if self.auth_token is not None:
            secret = self.auth_token.secret_reference
            if secret is None or not (secret.namespace and secret.name):
                yield ArgumentError(f"{path}.authToken.secretReference", "must have a namespace and a name")


class MetricsProvider(Struct, frozen=True):
    """A source of actual usage."""

    source: str = ""
    prometheus: PrometheusServer | None = None


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
    """Errors about fields that the descheduler does not know and ignores."""
    grace_seconds: int | None = None
    """The grace period of evictions in seconds, or None for the pods' own grace periods."""

    def iter_runs(self) -> Iterator[tuple[int, PluginRun]]:
        """Yield the plugins in the order in which a round runs them, each with the index of its profile.

        All profiles' plugins for ``deschedule`` come before the plugins for ``balance``.
        """
        yield from ((index, run) for index, profile in enumerate(self.profiles) for run in profile.deschedule)
        yield from ((index, run) for index, profile in enumerate(self.profiles) for run in profile.balance)


def read_policy(document: JsonObject, where: str = "policy") -> DeschedulerPolicy:
    """Decode and validate a policy, and fill in its defaults.

    Unknown fields outside of plugin arguments are only reported in the result. Raises InputError, with ``where`` as the
    location, for all other errors.
    """
    _validate_version_and_kind(document, where)
    cleaned = drop_nulls(document)
    decoded = _decode_document(cleaned, _Document, where)
    for fault in validate_metrics(decoded.metrics_collector, decoded.metrics_providers):
        raise InputError(fault.message, where=_join_path(where, fault.field))

    profiles = tuple(
        _read_profile(profile, f"{where}, profiles[{index}]") for index, profile in enumerate(decoded.profiles)
    )
    unknown_paths = (path for path, _ in iter_unknown_fields(cleaned, _Document, NEWEST_MINOR))
    limits = PolicyEvictionLimits(
        per_node=decoded.max_no_of_pods_to_evict_per_node,
        per_namespace=decoded.max_no_of_pods_to_evict_per_namespace,
        total=decoded.max_no_of_pods_to_evict_total,
    )
    return DeschedulerPolicy(
        profiles,
        _parse_node_selector(decoded.node_selector or "", where),
        limits,
        ignored=tuple(f'unknown field "{path}"' for path in unknown_paths),
        grace_seconds=decoded.grace_period_seconds,
    )


def _validate_version_and_kind(document: JsonObject, where: str) -> None:
    """Raise InputError if the document is not a DeschedulerPolicy of the supported version."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND or not isinstance(version, str) or version.partition("/")[0] != GROUP:
        actual = f"{version or 'no apiVersion'}, {kind or 'no kind'}"
        hint = f"write apiVersion: {GROUP}/{VERSION}, kind: {KIND}"
        raise InputError(f"not a {KIND}: {actual}", where=where, hint=hint)
    if version != f"{GROUP}/{VERSION}":
        is_strategy_version = version.endswith("v1alpha1")
        hint = "the descheduler no longer reads strategies: write profiles" if is_strategy_version else ""
        raise InputError(f"apiVersion {version} is not supported, only {GROUP}/{VERSION}", where=where, hint=hint)


def _decode_document(document: object, target_type: type[T], where: str) -> T:
    """Decode a document to the target type. Raises InputError, which names the field, if a value has a wrong type."""
    try:
        return convert_builtins(document, target_type)
    except msgspec.ValidationError as error:
        # msgspec writes, for example: Expected `int | null`, got `str` - at `$.nodeFit`
        message, _, path = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
        raise InputError(message[:1].lower() + message[1:], where=_join_path(where, path.lstrip("."))) from None


def _join_path(where: str, path: str) -> str:
    """Append a field's path to ``where``, the name of a file or of a field in a file. An empty path appends nothing."""
    if not path:
        return where
    names_field = ", " in where
    return f"{where}.{path}" if names_field else f"{where}, {path}"


def _parse_node_selector(text: str, where: str) -> Selector:
    """Parse a node selector. An empty text selects all nodes. Raises InputError if the selector is invalid."""
    try:
        return parse_selector(text) if text else EVERYTHING
    except SelectorError as error:
        raise InputError(error.what, where=_join_path(where, "nodeSelector")) from None


def validate_metrics(
    collector: MetricsCollector | None, providers: tuple[MetricsProvider, ...]
) -> Iterator[ArgumentError]:
    """Yield the errors in the metrics collector and the metrics providers.

    If several providers have the same source, only the first is validated further.
    """
    provider_by_source: dict[str, tuple[int, MetricsProvider]] = {}
    for index, provider in enumerate(providers):
        if provider.source in provider_by_source:
            yield ArgumentError(f"metricsProviders[{index}].source", f'"{provider.source}" is configured twice')
        provider_by_source.setdefault(provider.source, (index, provider))
    if collector is not None and collector.enabled and KUBERNETES_METRICS in provider_by_source:
        yield ArgumentError("metricsProviders", "cannot be combined with metricsCollector")
    if PROMETHEUS in provider_by_source:
        index, provider = provider_by_source[PROMETHEUS]
        path = f"metricsProviders[{index}].prometheus"
        if provider.prometheus is None:
            yield ArgumentError(path, "must be set")
        else:
            yield from provider.prometheus.validate(path)


def _can_parse_as_url(text: str) -> bool:
    """Return whether the text can be parsed as a URL. Only malformed hosts and ports are errors.

    >>> _can_parse_as_url("https://prometheus:9090"), _can_parse_as_url("http://example.com:-80")
    (True, False)
    """
    try:
        url = urlsplit(text)
        _port = url.port  # urlsplit leaves the check of the port to this property
    except ValueError:
        return False
    return True


def _read_profile(profile: _Profile, where: str) -> DeschedulerProfile:
    """Validate a profile of a policy document, and read its plugins with their arguments.

    If a plugin is configured several times, its first arguments are used. DefaultEvictor always takes part. Raises
    InputError if the profile is invalid.
    """
    arguments_by_plugin: dict[str, PluginArguments] = {}
    for index, config in enumerate(profile.plugin_config):
        plugin_arguments = _read_plugin_arguments(config, f"{where}.pluginConfig[{index}]")
        arguments_by_plugin.setdefault(config.name, plugin_arguments)
    evictor = arguments_by_plugin.setdefault(EVICTOR, DefaultEvictorArgs())
    assert isinstance(evictor, DefaultEvictorArgs)
    _parse_node_selector(evictor.node_selector, f"{where}.pluginConfig")  # only for its errors

    runs_by_point = {
        point: _read_enabled_plugins(profile.plugins, point, arguments_by_plugin, where) for point in POINTS
    }
    return DeschedulerProfile(
        profile.name, evictor=evictor, deschedule=runs_by_point[DESCHEDULE], balance=runs_by_point[BALANCE]
    )


def _read_plugin_arguments(config: _PluginConfig, where: str) -> PluginArguments:
    """Decode and validate the arguments of a plugin, and fill in its defaults.

    Raises InputError if the plugin is unknown or its arguments are invalid.
    """
    plugin = PLUGINS.get(config.name)
    if plugin is None:
        hint = _build_name_hint(config.name, PLUGINS)
        raise InputError(f'unknown plugin "{config.name}"', where=f"{where}.name", hint=hint)
    args_path = f"{where}.args"
    decoded = _decode_document(config.args, plugin.arguments, args_path)

    unknown_fields = iter_unknown_fields(config.args, plugin.arguments, NEWEST_MINOR)
    unknown_path = next((path for path, _ in unknown_fields), None)
    if unknown_path is not None:
        names = [field.encode_name for field in msgspec.structs.fields(plugin.arguments)]
        is_nested = "." in unknown_path or "[" in unknown_path
        hint = "" if is_nested else _build_name_hint(unknown_path, names)
        raise InputError(f'unknown field "{unknown_path}" of {config.name}', where=args_path, hint=hint)

    error = next(decoded.validate(), None)
    if error is not None:
        raise InputError(error.message, where=_join_path(args_path, error.field))
    return decoded.with_defaults()


def _read_enabled_plugins(
    plugins: _Plugins, point: str, arguments_by_plugin: Mapping[str, PluginArguments], where: str
) -> tuple[PluginRun, ...]:
    """Return the enabled plugins of an extension point with their arguments, in order.

    Raises InputError if a plugin is unknown, lacks the extension point or has no arguments in the profile.
    """
    enabled: Sequence[str] = getattr(plugins, point).enabled
    for index, name in enumerate(enabled):
        path = f"{where}.plugins.{point}.enabled[{index}]"
        plugin = PLUGINS.get(name)
        if plugin is None:
            raise InputError(f'unknown plugin "{name}"', where=path, hint=_build_name_hint(name, PLUGINS))
        if point not in plugin.points:
            hint = f"enable it at {plugin.points[0]}"
            raise InputError(f"{name} has no extension point {point}", where=path, hint=hint)
        if name not in arguments_by_plugin:
            raise InputError(
                f"{name} has no pluginConfig", where=path, hint="the descheduler does not start without one"
            )
    return tuple(PluginRun(name, arguments_by_plugin[name]) for name in enabled)


def _build_name_hint(name: str, names: Iterable[str]) -> str:
    """Return a hint that suggests the most similar of the known names, or lists all if none is similar."""
    candidates = list(names)
    similar_names = get_close_matches(name, candidates, 1)
    if similar_names:
        return f"did you mean {similar_names[0]}?"
    return f"known: {', '.join(candidates)}"


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
