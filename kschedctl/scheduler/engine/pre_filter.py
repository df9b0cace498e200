"""PreFilter: what of the pod alone is known before nodes are looked at.

Upstream: RunPreFilterPlugins in pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.framework import (
    SUCCESS,
    Code,
    Plugin,
    PluginError,
    PreFilterPlugin,
    PreFilterResult,
    Status,
    offers,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

Left = TypeVar("Left")


@dataclass(frozen=True)
class PreFilterOutcome:
    """What the framework makes of all PreFilter plugins.

    ``results``: each plugin by itself. ``status``: the framework's answer; ``plugin`` gave it, empty when it is the
    framework's own. ``node_names``: the only nodes to look at; ``narrowed_by``: the plugins that said so. ``reached``:
    the plugins that the framework asks before it stops.
    """

    results: Mapping[str, PreFilterResult]
    status: Status = SUCCESS
    plugin: str = ""
    reached: tuple[str, ...] = ()
    node_names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()

    def state_of(self, plugin: type[DeclaredPlugin[Left, Any]]) -> Left | None:
        """What a plugin left to its Filter; None where it was not asked, or has nothing to say of the pod."""
        result = self.results.get(plugin.name)
        return None if result is None else cast("Left | None", result.state)


def run_pre_filter(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> PreFilterOutcome:
    """Every plugin is asked, and the framework's answer is what it would be had it stopped where it stops.

    Raises PluginError.
    """
    results: dict[str, PreFilterResult] = {}
    reached: list[str] = []
    narrowed: list[str] = []
    names: frozenset[str] | None = None
    answer, by, settled = SUCCESS, "", False
    for plugin in plugins:
        if not offers(plugin, PreFilterPlugin):
            continue
        if not settled:
            reached.append(plugin.name)
        try:
            result = results[plugin.name] = plugin.pre_filter(info, view)
        except PluginError as failure:
            if settled:
                continue
            raise PluginError(f'running PreFilter plugin "{plugin.name}": {failure}') from None
        if settled or result.status.code is Code.SKIP:
            continue
        if result.status.rejected:
            answer, by = result.status, plugin.name
            settled = result.status.code is Code.UNRESOLVABLE
            continue
        if result.node_names is not None:
            narrowed.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                answer, by, settled = Status(Code.UNRESOLVABLE, (_nothing_left(narrowed),)), "", True
    return PreFilterOutcome(results, answer, by, tuple(reached), names, tuple(narrowed))


def _nothing_left(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def selected_by_name(pre_filter: PreFilterOutcome, view: Fork) -> Bools:
    """(N,): the nodes that the PreFilter plugins leave."""
    names = pre_filter.node_names
    if names is None:
        return np.ones(len(view.nodes), np.bool_)
    return np.array([name in names for name in view.nodes.names], np.bool_)
