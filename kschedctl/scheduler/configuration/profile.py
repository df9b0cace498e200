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
from kschedctl.scheduler.framework.declaration import EXTENSION_POINTS
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.framework.strict_decoding import Int32
from kschedctl.scheduler.in_tree_plugins import IN_TREE, get_in_tree_plugins_for_gates

MAX_INT64 = 2**63 - 1

FORMER_PLUGINS = frozenset(
    {
        *("NodeLabel", "NodePreferAvoidPods", "ServiceAffinity", "SelectorSpread", "NodeResourcesLeastAllocated"),
        *("NodeResourcesMostAllocated", "RequestedToCapacityRatio"),
    }
)
"""Plugins that were in-tree before the oldest version that is replayed."""
OWN_PLUGINS = FORMER_PLUGINS | IN_TREE.keys()
"""In-tree plugins of any version. Enabling one of these names means kube-scheduler's plugin, not a third party's."""


class PluginEntry(Struct, frozen=True):
    """A plugin to enable or disable. The weight matters to score plugins, for which 0 and None stand for 1."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Struct, frozen=True):
    """The plugins enabled and disabled at one extension point. `*` disables all."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()

    @property
    def enabled_names(self) -> frozenset[str]:
        """The names of the plugins enabled here."""
        return frozenset(plugin.name for plugin in self.enabled)

    @property
    def disabled_names(self) -> frozenset[str]:
        """The names of the plugins disabled here, in which `*` stands for all."""
        return frozenset(plugin.name for plugin in self.disabled)


class Plugins(Struct, frozen=True):
    """A plugin set for every extension point, and `multi_point` for all points that a plugin implements."""

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

    def map_sets_by_point(self) -> dict[str, PluginSet]:
        """Return the plugin sets, without multiPoint, by extension point as named in the document (like preFilter)."""
        return {point: getattr(self, _FIELDS[point]) for point in EXTENSION_POINTS}

    @property
    def enabled_names(self) -> frozenset[str]:
        """The names of the plugins enabled at any point."""
        plugin_sets = (self.multi_point, *self.map_sets_by_point().values())
        return frozenset(name for plugin_set in plugin_sets for name in plugin_set.enabled_names)


_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


class Profile(Struct, frozen=True):
    """The profile of one schedulerName. Every mapping by extension point has all EXTENSION_POINTS as keys."""

    scheduler_name: str
    plugins: Mapping[str, tuple[str, ...]]
    """By extension point, the plugins in order of execution."""
    weights: Mapping[str, int]
    """The weights of enabled score plugins. As in upstream, plugins disabled at that point are included."""
    placement_weights: Mapping[str, int]
    """The weights of enabled placementScore plugins, under the same rule."""
    args: Mapping[str, object]
    """By plugin, typed arguments for in-tree plugins that have some, and the plain document for others."""
    origins: Mapping[str, Mapping[str, str]]
    """By point and plugin, what enabled it: `default`, `multiPoint` or the point itself."""
    percentage_of_nodes_to_score: int | None = None
    foreign: tuple[str, ...] = ()
    """Plugins assumed to be compiled in. Only the points at which the document names them are known."""

    @property
    def enabled_names(self) -> frozenset[str]:
        """The names of the plugins that run at any known point."""
        return frozenset(name for names in self.plugins.values() for name in names)


def list_default_plugins(gates: FeatureGates) -> tuple[PluginEntry, ...]:
    """Return the default plugins, in order, with their default weights."""
    return tuple(
        PluginEntry(name, declared.default_weight)
        for name, declared in get_in_tree_plugins_for_gates(gates).items()
        if declared.is_default(gates)
    )


def merge_default_plugins(custom: Plugins, gates: FeatureGates) -> Plugins:
    """Return the custom plugins with the default plugins merged into multiPoint.

    A default plugin that multiPoint also lists keeps its place in the defaults, with the listed weight. Disabled
    default plugins are left out. All other custom plugins come last.
    """
    multi = custom.multi_point
    last_index = {plugin.name: index for index, plugin in enumerate(multi.enabled)}
    merged = []
    reconfiguring_indexes = set()
    for plugin in list_default_plugins(gates):
        if plugin.name in multi.disabled_names or "*" in multi.disabled_names:
            continue
        if plugin.name in last_index:  # the last entry counts if a plugin is listed twice
            index = last_index[plugin.name]
            reconfiguring_indexes.add(index)
            merged.append(multi.enabled[index])
        else:
            merged.append(plugin)
    merged += [plugin for index, plugin in enumerate(multi.enabled) if index not in reconfiguring_indexes]
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
    """Build a profile from `plugins`, the default plugins with the `custom` plugins merged in.

    `registry` has the extension points that each plugin implements. `foreign` has the points at which plugins of other
    builds are enabled. Raises ConfigurationError for plugins that do not exist, are listed twice or cannot run at their
    point, and for weights that could overflow. Also raises ConfigurationError unless exactly one plugin sorts the
    queue, at least one binds and at most one generates placements. A foreign plugin in multiPoint may be the one that
    sorts the queue or binds.
    """
    registry = {**registry, **foreign}
    by_point = _list_plugins_by_point(plugins, registry)
    has_unknown_points = any(plugin.name in foreign for plugin in plugins.multi_point.enabled)
    _validate_plugin_counts(name, by_point, has_unknown_points=has_unknown_points)
    return Profile(
        scheduler_name=name,
        plugins=by_point,
        weights=_compute_plugin_weights("score", "score", plugins, registry),
        placement_weights=_compute_plugin_weights("placementScore", "placement score", plugins, registry),
        args=args,
        origins={point: _find_plugin_origins(point, names, custom) for point, names in by_point.items()},
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        foreign=tuple(sorted(foreign)),
    )


def find_foreign_plugins(plugins: Plugins, registry: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the enabled plugins that neither the registry nor any version of kube-scheduler has.

    Each comes with the points at which the document enables it. A plugin that only multiPoint enables has no points. A
    scheduler built by another vendor may contain these plugins.
    """
    foreign_names = plugins.enabled_names - registry.keys() - OWN_PLUGINS - {""}
    points_by_name: dict[str, set[str]] = {name: set() for name in foreign_names}
    for point, plugin_set in plugins.map_sets_by_point().items():
        for name in plugin_set.enabled_names & foreign_names:
            points_by_name[name].add(point)
    return {name: frozenset(points) for name, points in points_by_name.items()}


def _validate_plugin_counts(name: str, by_point: Mapping[str, tuple[str, ...]], *, has_unknown_points: bool) -> None:
    """Raise ConfigurationError for a wrong number of plugins that sort the queue, bind or generate placements.

    Exactly one plugin must sort the queue, at least one must bind, and at most one may generate placements. Set
    `has_unknown_points` if the points of some plugin are not known. That plugin may then be the one that sorts the
    queue or binds.
    """
    sorting = len(by_point["queueSort"])
    if sorting > 1 or not (sorting or has_unknown_points):
        message = f'only one queue sort plugin required for profile with scheduler name "{name}", but got {sorting}'
        raise ConfigurationError(message)
    if not by_point["bind"] and not has_unknown_points:
        raise ConfigurationError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    if len(by_point["placementGenerate"]) > 1:
        message = "at most one placement generate plugin is allowed for profile with scheduler name"
        raise ConfigurationError(f'{message} "{name}"')


def _compute_plugin_weights(
    point: str, label: str, plugins: Plugins, registry: Mapping[str, frozenset[str]]
) -> dict[str, int]:
    """Return the weight of each plugin at a scoring point. `label` names the point in error messages.

    Weights set at the point take precedence over weights in multiPoint, and 0 means 1. Raises ConfigurationError if the
    total score could overflow. Totals wrap around like Go's int64, as in upstream.
    """
    weights: dict[str, int] = {}
    total = 0
    # The plugins at the point come before those in multiPoint, so their weights are found first.
    for plugin in (*plugins.map_sets_by_point()[point].enabled, *plugins.multi_point.enabled):
        runs_at_point = point in registry.get(plugin.name, ())
        if not runs_at_point or plugin.name in weights:
            continue
        weights[plugin.name] = plugin.weight or 1
        highest = weights[plugin.name] * MAX_NODE_SCORE
        if highest > _wrap_int64(MAX_INT64 - total):
            raise ConfigurationError(f"{label} plugins: total score of Score plugins could overflow")
        total += highest
    return weights


def _wrap_int64(number: int) -> int:
    """Wrap a number around as int64 arithmetic does.

    >>> _wrap_int64(2**63) == -(2**63)
    True
    """
    return (number + 2**63) % 2**64 - 2**63


def _find_plugin_origins(point: str, names: tuple[str, ...], custom: Plugins) -> dict[str, str]:
    """Return, by plugin name, the setting that enabled the plugin at this extension point.

    The setting is the extension point itself, multiPoint or the defaults.
    """
    enabled_at_point = custom.map_sets_by_point()[point].enabled_names
    enabled_at_multi_point = custom.multi_point.enabled_names
    origins = {}
    for name in names:
        if name in enabled_at_point:
            origins[name] = point
        elif name in enabled_at_multi_point:
            origins[name] = "multiPoint"
        else:
            origins[name] = "default"
    return origins


def _list_plugins_by_point(plugins: Plugins, registry: Mapping[str, frozenset[str]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the plugins that run at each point, in order.

    Raises ConfigurationError for a plugin that does not exist, cannot run at its point or is listed twice.
    """
    sets = plugins.map_sets_by_point()
    explicit = {point: _list_explicit_plugins(point, plugin_set, registry) for point, plugin_set in sets.items()}
    return {
        point: _merge_multi_point(point, explicit[point], plugin_set.disabled_names, plugins.multi_point, registry)
        for point, plugin_set in sets.items()
    }


def _list_explicit_plugins(
    point: str, plugin_set: PluginSet, registry: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """Return the names of the plugins that the point itself enables, in order.

    Raises ConfigurationError for a plugin that does not exist, does not run at the point, or is listed twice.
    """
    names: list[str] = []
    for name in (plugin.name for plugin in plugin_set.enabled):
        if point not in _get_implemented_points(name, point, registry):
            raise ConfigurationError(f'plugin "{name}" does not extend {EXTENSION_POINTS[point].interface} plugin')
        _append_once(names, name, point)
    return tuple(names)


def _merge_multi_point(
    point: str,
    explicit: tuple[str, ...],
    disabled: frozenset[str],
    multi: PluginSet,
    registry: Mapping[str, frozenset[str]],
) -> tuple[str, ...]:
    """Return the plugins that run at a point, in order. `explicit` are the plugins that the point lists.

    First come the plugins that both multiPoint and the point list, then the other plugins of multiPoint, and last the
    plugins that only the point lists. The plugins of multiPoint in `disabled` are left out, and all of them if the
    point disables "*". Raises ConfigurationError for a plugin that does not exist or is listed twice.
    """
    if "*" in disabled:
        return explicit

    # Find the plugins that multiPoint adds, and those of them that the point reconfigures.
    added: list[str] = []
    reconfigured = set()
    for plugin in multi.enabled:
        name = plugin.name
        if point not in _get_implemented_points(name, point, registry) or name in disabled:
            continue
        if name in explicit:
            reconfigured.add(name)
        else:
            _append_once(added, name, point)

    first = [name for name in explicit if name in reconfigured]
    last = [name for name in explicit if name not in reconfigured]
    return (*first, *added, *last)


def _get_implemented_points(name: str, point: str, registry: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the points that a plugin implements. Raises ConfigurationError if the plugin does not exist."""
    if name not in registry:
        raise ConfigurationError(f'{EXTENSION_POINTS[point].interface} "{name}" does not exist')
    return registry[name]


def _append_once(names: list[str], name: str, point: str) -> None:
    """Append a plugin's name to `names`.

    Raises ConfigurationError naming the extension point `point` if the name is already listed.
    """
    if name in names:
        raise ConfigurationError(f'plugin "{name}" already registered as "{EXTENSION_POINTS[point].interface}"')
    names.append(name)
