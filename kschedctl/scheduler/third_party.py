"""Plugins that other installed packages register: made when a profile enables them, and answerable for their faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from kschedctl.errors import ConfigurationError, KschedctlError, ThirdPartyError
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.framework import (
    Plugin,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    PreScoreResult,
    Rejection,
    Status,
    reads_of,
)
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.registry import Factory

ENTRY_POINTS = "kschedctl.plugins"
"""The entry-point group: name -> a factory like those of ``registry.PLUGINS``, called with the plugin's arguments as
the configuration has them (None where it has none) and the feature gates."""

ANSWERS: Mapping[str, type] = {
    "pre_enqueue": Status,
    "pre_filter": PreFilterResult,
    "post_filter": PostFilterResult,
    "pre_score": PreScoreResult,
    "score": np.ndarray,
    "normalize": np.ndarray,
}
"""Method of a plugin -> what it answers; ``filter`` yields Rejections."""


def third_party_plugins() -> dict[str, Factory]:
    """The registered plugins by name, each loaded when it is made.

    Raises ConfigurationError for one that takes the name of an in-tree plugin, as kube-scheduler's registry does.
    """
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    for name in sorted(IN_TREE.keys() & found.keys()):
        raise ConfigurationError(f"a plugin named {name} already exists", where=_package(found[name]))
    return {name: _factory(point) for name, point in found.items()}


def _factory(point: EntryPoint) -> Factory:
    """Raises ThirdPartyError for whatever goes wrong when the plugin is loaded and made."""
    what = f'plugin "{point.name}" of {_package(point)}'

    def make(args: Any, gates: FeatureGates) -> Plugin:
        plugin = _guarded(lambda: point.load()(args, gates), f"{what} cannot be made")()
        return _answerable(plugin, point.name, what)

    return make


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"module {point.module}"


def _answerable(plugin: Any, name: str, what: str) -> Plugin:
    """The plugin under the name by which it is registered, each of its methods guarded."""
    members: dict[str, Any] = {
        method: staticmethod(_guarded(_typed(getattr(plugin, method), answer), f"{what} fails in {method}"))
        for method, answer in ANSWERS.items()
        if callable(getattr(plugin, method, None))
    }
    if callable(getattr(plugin, "filter", None)):
        members["filter"] = staticmethod(_guarded_filter(plugin.filter, f"{what} fails in filter"))
    members |= {"name": name, "reads": reads_of(plugin)}
    made: Plugin = type(name, (), members)()
    return made


def _typed(method: Callable[..., Any], answer: type) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        found = method(*arguments)
        if not isinstance(found, answer):
            raise TypeError(f"it answers with {type(found).__name__}, not with {answer.__name__}")
        return found

    return call


def _guarded(method: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Every fault but those that a plugin may raise becomes a ThirdPartyError."""

    def call(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except (PluginError, KschedctlError):
            raise
        except Exception as fault:
            raise ThirdPartyError(f"{what}: {type(fault).__name__}: {fault}") from fault

    return call


def _guarded_filter(method: Callable[..., Any], what: str) -> Callable[..., Iterator[Rejection]]:
    def rejections(*arguments: Any) -> list[Rejection]:
        found = list(method(*arguments) or ())
        for each in found:
            if not isinstance(each, Rejection):
                raise TypeError(f"it yields {type(each).__name__}, not Rejection")
        return found

    guarded = _guarded(rejections, what)
    return lambda *arguments: iter(guarded(*arguments))
