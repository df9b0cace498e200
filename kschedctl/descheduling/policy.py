"""DeschedulerPolicy, v1alpha2: read, checked and defaulted as the descheduler does it.

Upstream: pkg/descheduler/policyconfig.go, pkg/api/v1alpha2/types.go, pkg/framework/profile/profile.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, iter_unknown_fields
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from kschedctl.api.objects import Struct
from kschedctl.cluster import without_nulls
from kschedctl.descheduling import arguments
from kschedctl.descheduling.arguments import DefaultEvictorArgs, PluginArguments, Unsigned
from kschedctl.descheduling.metrics_providers import MetricsCollector, MetricsProvider, faults_of_metrics
from kschedctl.errors import InputError

GROUP, VERSION, KIND = "descheduler", "v1alpha2", "DeschedulerPolicy"
EVICTOR = "DefaultEvictor"
DESCHEDULE, BALANCE, FILTER, BEFORE_EVICTION = "deschedule", "balance", "filter", "preevictionfilter"
POINTS = (DESCHEDULE, BALANCE, FILTER, BEFORE_EVICTION)
T = TypeVar("T")


class KnownPlugin(NamedTuple):
    """The type of its arguments, and the extension points that it has."""

    arguments: type[PluginArguments]
    points: tuple[str, ...]


PLUGINS: Mapping[str, KnownPlugin] = {
    EVICTOR: KnownPlugin(DefaultEvictorArgs, (FILTER, BEFORE_EVICTION)),
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
    name: str = ""
    args: dict[str, object] = msgspec.field(default_factory=dict)


class _PluginSet(Struct, frozen=True):
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class _Plugins(Struct, frozen=True):
    presort: _PluginSet = _PluginSet()
    sort: _PluginSet = _PluginSet()
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    preevictionfilter: _PluginSet = _PluginSet()


class _Profile(Struct, frozen=True):
    name: str = ""
    plugin_config: tuple[_PluginConfig, ...] = ()
    plugins: _Plugins = _Plugins()


class _Document(Struct, frozen=True):
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
    """A plugin of a profile, with its arguments."""

    name: str
    arguments: PluginArguments


class DeschedulerProfile(NamedTuple):
    """``deschedule`` and ``balance``: the plugins in their order; ``evictor``: who may be evicted at all."""

    name: str
    evictor: DefaultEvictorArgs
    deschedule: tuple[PluginRun, ...] = ()
    balance: tuple[PluginRun, ...] = ()


class EvictionLimitsOfPolicy(NamedTuple):
    """How many pods a round evicts at most; None for any number."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class DeschedulerPolicy(NamedTuple):
    """``nodes`` selects those that plugins look at; ``ignored``: fields that the descheduler does not know.

    ``grace``: how many seconds pods have to terminate, None for what they say themselves.
    """

    profiles: tuple[DeschedulerProfile, ...]
    nodes: Selector = EVERYTHING
    limits: EvictionLimitsOfPolicy = EvictionLimitsOfPolicy()
    ignored: tuple[str, ...] = ()
    grace: int | None = None

    def runs(self) -> Iterator[tuple[int, PluginRun]]:
        """What a round runs, in its order, and of which profile: what all deschedule, and then what they balance."""
        yield from ((number, run) for number, profile in enumerate(self.profiles) for run in profile.deschedule)
        yield from ((number, run) for number, profile in enumerate(self.profiles) for run in profile.balance)


def read_policy(document: JsonObject, where: str = "policy") -> DeschedulerPolicy:
    """The policy of a document; ``where`` it was found. Raises InputError."""
    _check_version(document, where)
    without = without_nulls(document)
    read = _decoded(without, _Document, where)
    unknown = (path for path, _ in iter_unknown_fields(without, _Document, NEWEST_MINOR))
    limits = EvictionLimitsOfPolicy(
        read.max_no_of_pods_to_evict_per_node,
        read.max_no_of_pods_to_evict_per_namespace,
        read.max_no_of_pods_to_evict_total,
    )
    for fault in faults_of_metrics(read.metrics_collector, read.metrics_providers):
        raise InputError(fault.what, where=_at(where, fault.field))
    return DeschedulerPolicy(
        tuple(_profile(profile, f"{where}, profiles[{i}]") for i, profile in enumerate(read.profiles)),
        _node_selector(read.node_selector or "", where),
        limits,
        tuple(f'unknown field "{path}"' for path in unknown),
        read.grace_period_seconds,
    )


def _check_version(document: JsonObject, where: str) -> None:
    """Raises InputError for what is no DeschedulerPolicy of this version."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND or not isinstance(version, str) or version.partition("/")[0] != GROUP:
        shown = f"{version or 'no apiVersion'}, {kind or 'no kind'}"
        raise InputError(
            f"not a {KIND}: {shown}", where=where, hint=f"want apiVersion: {GROUP}/{VERSION}, kind: {KIND}"
        )
    if version != f"{GROUP}/{VERSION}":
        hint = "the descheduler reads strategies no more: write profiles" if version.endswith("v1alpha1") else ""
        raise InputError(f"apiVersion {version} is not read, only {GROUP}/{VERSION}", where=where, hint=hint)


def _decoded(document: object, into: type[T], where: str) -> T:
    """Raises InputError for a wrong type."""
    try:
        return convert_builtins(document, into)
    except msgspec.ValidationError as error:
        what, _, path = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
        raise InputError(what[:1].lower() + what[1:], where=_at(where, path.lstrip("."))) from None


def _at(where: str, path: str) -> str:
    """A field of what stands at ``where``, which is a file or a field itself."""
    if not path:
        return where
    return f"{where}.{path}" if ", " in where else f"{where}, {path}"


def _node_selector(text: str, where: str) -> Selector:
    """Raises InputError."""
    try:
        return parse_selector(text) if text else EVERYTHING
    except SelectorError as error:
        raise InputError(error.what, where=_at(where, "nodeSelector")) from None


def _profile(profile: _Profile, where: str) -> DeschedulerProfile:
    """Raises InputError."""
    configured: dict[str, PluginArguments] = {}
    for number, config in enumerate(profile.plugin_config):
        at = f"{where}.pluginConfig[{number}]"
        made = _arguments(config, at)
        configured.setdefault(config.name, made)  # of two of a name the first counts
    evictor = configured.setdefault(EVICTOR, DefaultEvictorArgs())
    assert isinstance(evictor, DefaultEvictorArgs)
    _node_selector(evictor.node_selector, f"{where}.pluginConfig")
    sets = {point: _enabled(profile.plugins, point, configured, where) for point in POINTS}
    return DeschedulerProfile(profile.name, evictor, sets[DESCHEDULE], sets[BALANCE])


def _arguments(config: _PluginConfig, where: str) -> PluginArguments:
    """Raises InputError for a plugin that there is not, a field that it has not, or what upstream refuses."""
    known = PLUGINS.get(config.name)
    if known is None:
        raise InputError(f'unknown plugin "{config.name}"', where=f"{where}.name", hint=_known(config.name, PLUGINS))
    at = f"{where}.args"
    read = _decoded(config.args, known.arguments, at)
    for path, _ in iter_unknown_fields(config.args, known.arguments, NEWEST_MINOR):
        names = [field.encode_name for field in msgspec.structs.fields(known.arguments)]
        hint = "" if "." in path or "[" in path else _known(path, names)
        raise InputError(f'unknown field "{path}" of {config.name}', where=at, hint=hint)
    for fault in read.faults():
        raise InputError(fault.what, where=_at(at, fault.field))
    return read.defaulted()


def _enabled(
    plugins: _Plugins, point: str, configured: Mapping[str, PluginArguments], where: str
) -> tuple[PluginRun, ...]:
    """The plugins of an extension point. Raises InputError for those that do not have it, or no configuration."""
    enabled: Sequence[str] = getattr(plugins, point).enabled
    for number, name in enumerate(enabled):
        at = f"{where}.plugins.{point}.enabled[{number}]"
        known = PLUGINS.get(name)
        if known is None:
            raise InputError(f'unknown plugin "{name}"', where=at, hint=_known(name, PLUGINS))
        if point not in known.points:
            raise InputError(f"{name} has no extension point {point}", where=at, hint=f"it has {known.points[0]}")
        if name not in configured:
            raise InputError(f"{name} has no pluginConfig", where=at, hint="the descheduler does not start without")
    return tuple(PluginRun(name, configured[name]) for name in enabled)


def _known(name: str, names: Iterable[str]) -> str:
    """The name that was meant, or all."""
    known = list(names)
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
