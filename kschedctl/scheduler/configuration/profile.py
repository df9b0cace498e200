"""A scheduler profile: which plugins run at which extension point, in which order, with which weights and arguments.

Upstream: pkg/scheduler/apis/config/v1/default_plugins.go (merging) and pkg/scheduler/framework/runtime/framework.go
(MultiPoint expansion, weights) (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kschedctl.api.decoding import introduced_in
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.framework.extension_points import EXTENSION_POINTS
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.framework.strict_decoding import Int32
from kschedctl.scheduler.registry.in_tree import IN_TREE, in_tree_of

MAX_INT64 = 2**63 - 1

FORMER_PLUGINS = frozenset(
    {
        *("NodeLabel", "NodePreferAvoidPods", "ServiceAffinity", "SelectorSpread", "NodeResourcesLeastAllocated"),
        *("NodeResourcesMostAllocated", "RequestedToCapacityRatio"),
    }
)
"""Plugins that were in-tree before the oldest version that is replayed."""
OWN_PLUGINS = FORMER_PLUGINS | IN_TREE.keys()
"""Who enables one of them means kube-scheduler's own, in whichever version there is one."""


class PluginEntry(Struct, frozen=True):
    """A plugin to enable or disable; the weight matters to those that score, 0 and None stand for 1."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Struct, frozen=True):
    """The plugins enabled and disabled at one extension point; ``*`` disables all."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()

    @property
    def enabled_names(self) -> frozenset[str]:
        """The plugins switched on here."""
        return frozenset(plugin.name for plugin in self.enabled)

    @property
    def disabled_names(self) -> frozenset[str]:
        """The plugins switched off here, ``*`` for all."""
        return frozenset(plugin.name for plugin in self.disabled)


class Plugins(Struct, frozen=True):
    """A plugin set for every extension point, and ``multi_point`` for all points that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: Annotated[PluginSet, introduced_in(36)] = PluginSet()
    placement_score: Annotated[PluginSet, introduced_in(36)] = PluginSet()

    def by_point(self) -> dict[str, PluginSet]:
        """The sets by the name that the document gives them (``preFilter``), less ``multiPoint``."""
        return {point: getattr(self, _FIELDS[point]) for point in EXTENSION_POINTS}

    @property
    def enabled_names(self) -> frozenset[str]:
        """The plugins enabled anywhere."""
        return frozenset[str]().union(*(s.enabled_names for s in (self.multi_point, *self.by_point().values())))


_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


class Profile(Struct, frozen=True):
    """What one schedulerName stands for. Every mapping by extension point has all EXTENSION_POINTS as keys.

    ``plugins`` are in order of execution. ``weights`` and ``placement_weights`` cover the enabled plugins that
    implement score and placementScore, as upstream even those that are disabled at that point. ``args`` are typed for
    in-tree plugins that have some, the plain document for others. ``origins`` tells by point and plugin who enabled
    it: ``default``, ``multiPoint`` or the point itself. ``foreign`` are the plugins taken for compiled in, of which
    only the points are known at which the document names them.
    """

    scheduler_name: str
    plugins: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]
    args: Mapping[str, object]
    origins: Mapping[str, Mapping[str, str]]
    percentage_of_nodes_to_score: int | None = None
    foreign: tuple[str, ...] = ()

    @property
    def enabled_names(self) -> frozenset[str]:
        """The plugins that it runs at some point that is known."""
        return frozenset(name for names in self.plugins.values() for name in names)


def default_plugins(gates: FeatureGates) -> tuple[PluginEntry, ...]:
    """The plugins of a profile that names none, in order, for all points that they implement."""
    return tuple(
        PluginEntry(name, declared.default_weight)
        for name, declared in in_tree_of(gates).items()
        if declared.is_default(gates)
    )


def with_default_plugins(custom: Plugins, gates: FeatureGates) -> Plugins:
    """The custom plugins merged into the default ones: those that it re-configures keep their place."""
    multi = custom.multi_point
    last = {plugin.name: index for index, plugin in enumerate(multi.enabled)}
    off = multi.disabled_names
    kept = [plugin for plugin in default_plugins(gates) if plugin.name not in off and "*" not in off]
    replacing = {last[plugin.name] for plugin in kept if plugin.name in last}
    merged = [multi.enabled[last[plugin.name]] if plugin.name in last else plugin for plugin in kept]
    merged += [plugin for index, plugin in enumerate(multi.enabled) if index not in replacing]
    return msgspec.structs.replace(custom, multi_point=PluginSet(tuple(merged), multi.disabled))


def build_profile(
    name: str,
    plugins: Plugins,
    custom: Plugins,
    registry: Mapping[str, frozenset[str]],
    *,
    args: JsonObject,
    percentage_of_nodes_to_score: int | None,
    foreign: Mapping[str, frozenset[str]],
) -> Profile:
    """The profile of ``plugins``, which are ``custom`` merged into the default ones.

    ``registry`` gives the extension points that each plugin implements, ``foreign`` those of plugins that may run at
    others too. Raises ConfigurationError for plugins that do not exist, that stand twice or where they cannot run, for
    weights that could overflow, and unless one plugin sorts the queue and some plugin binds.
    """
    registry = {**registry, **foreign}
    by_point = _plugins_by_point(plugins, registry)
    _check_points(name, by_point, somewhere=any(plugin.name in foreign for plugin in plugins.multi_point.enabled))
    return Profile(
        scheduler_name=name,
        plugins=by_point,
        weights=_weights("score", "score", plugins, registry),
        placement_weights=_weights("placementScore", "placement score", plugins, registry),
        args=args,
        origins={point: _origins(point, names, custom) for point, names in by_point.items()},
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        foreign=tuple(sorted(foreign)),
    )


def foreign_plugins(plugins: Plugins, registry: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The enabled plugins that are not in the registry, with the points that name them: other builds have such."""
    return {
        name: frozenset(point for point, plugin_set in plugins.by_point().items() if name in plugin_set.enabled_names)
        for name in plugins.enabled_names - registry.keys() - OWN_PLUGINS - {""}
    }


def _check_points(name: str, by_point: Mapping[str, tuple[str, ...]], *, somewhere: bool) -> None:
    """``somewhere``: a plugin runs at points that are not known, and may be the one that sorts the queue or binds."""
    sorting = len(by_point["queueSort"])
    if sorting > 1 or not (sorting or somewhere):
        what = f'only one queue sort plugin required for profile with scheduler name "{name}", but got {sorting}'
        raise ConfigurationError(what)
    if not by_point["bind"] and not somewhere:
        raise ConfigurationError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    if len(by_point["placementGenerate"]) > 1:
        what = "at most one placement generate plugin is allowed for profile with scheduler name"
        raise ConfigurationError(f'{what} "{name}"')


def _weights(point: str, what: str, plugins: Plugins, registry: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """The weights at a scoring point: the point's own go before multiPoint's, 0 is 1.

    Raises ConfigurationError as upstream does: it subtracts in int64, so what a negative total leaves wraps.
    """
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*plugins.by_point()[point].enabled, *plugins.multi_point.enabled):
        if point not in registry.get(plugin.name, ()) or plugin.name in weights:
            continue
        weights[plugin.name] = plugin.weight or 1
        highest = weights[plugin.name] * MAX_NODE_SCORE
        if highest > _as_int64(MAX_INT64 - total):
            raise ConfigurationError(f"{what} plugins: total score of Score plugins could overflow")
        total += highest
    return weights


def _as_int64(number: int) -> int:
    """
    >>> _as_int64(2**63) == -(2**63)
    True
    """
    return (number + 2**63) % 2**64 - 2**63


def _origins(point: str, names: tuple[str, ...], custom: Plugins) -> dict[str, str]:
    own = {plugin.name: point for plugin in custom.by_point()[point].enabled}
    multi = {plugin.name: "multiPoint" for plugin in custom.multi_point.enabled}
    return {name: own.get(name) or multi.get(name, "default") for name in names}


def _plugins_by_point(plugins: Plugins, registry: Mapping[str, frozenset[str]]) -> dict[str, tuple[str, ...]]:
    sets = plugins.by_point()
    explicit = {point: _explicit(point, plugin_set, registry) for point, plugin_set in sets.items()}
    return {
        point: _expanded(point, explicit[point], plugin_set.disabled_names, plugins.multi_point, registry)
        for point, plugin_set in sets.items()
    }


def _explicit(point: str, plugin_set: PluginSet, registry: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    names: list[str] = []
    for name in (plugin.name for plugin in plugin_set.enabled):
        if point not in _implemented(name, point, registry):
            raise ConfigurationError(f'plugin "{name}" does not extend {EXTENSION_POINTS[point].interface} plugin')
        _append_once(names, name, point)
    return tuple(names)


def _expanded(
    point: str, explicit: tuple[str, ...], off: frozenset[str], multi: PluginSet, registry: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """The re-configured plugins of multiPoint, its other ones, then those that only the point itself names."""
    if "*" in off:
        return explicit
    added: list[str] = []
    overridden = set()
    for name in (plugin.name for plugin in multi.enabled):
        if point not in _implemented(name, point, registry) or name in off:
            continue
        if name in explicit:
            overridden.add(name)
        else:
            _append_once(added, name, point)
    first = [name for name in explicit if name in overridden]
    return (*first, *added, *(name for name in explicit if name not in overridden))


def _implemented(name: str, point: str, registry: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if name not in registry:
        raise ConfigurationError(f'{EXTENSION_POINTS[point].interface} "{name}" does not exist')
    return registry[name]


def _append_once(names: list[str], name: str, point: str) -> None:
    if name in names:
        raise ConfigurationError(f'plugin "{name}" already registered as "{EXTENSION_POINTS[point].interface}"')
    names.append(name)
