"""PreFilter: plugins examine the pod, and may reject it or restrict the nodes, before nodes are filtered.

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

StateT = TypeVar("StateT")


@dataclass(frozen=True)
class PreFilterOutcome:
    """The combined answer of all PreFilter plugins."""

    results: Mapping[str, PreFilterResult]
    """Plugin -> its own answer."""
    status: Status = SUCCESS
    """The framework's answer."""
    plugin: str = ""
    """The plugin that gave `status`; empty if the framework did."""
    reached: tuple[str, ...] = ()
    """The plugins that upstream asks before it stops."""
    node_names: frozenset[str] | None = None
    """The only nodes that can pass; None for all."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that restricted the nodes."""

    def find_state(self, plugin: type[DeclaredPlugin[StateT, Any]]) -> StateT | None:
        """Return the state that a plugin's PreFilter passes to its Filter, or None."""
        result = self.results.get(plugin.name)
        return None if result is None else cast("StateT | None", result.state)


def run_pre_filter(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> PreFilterOutcome:
    """Run every PreFilter plugin and return the combined outcome. Raises PluginError.

    Upstream stops at the first plugin that rejects the pod for good, or once no node is left. The outcome has
    upstream's status, but the results of all plugins. Errors of plugins that upstream does not reach are ignored.
    """
    results: dict[str, PreFilterResult] = {}
    reached: list[str] = []
    narrowing: list[str] = []
    names: frozenset[str] | None = None
    status, deciding_plugin, stopped = SUCCESS, "", False
    for plugin in plugins:
        if not offers(plugin, PreFilterPlugin):
            continue
        if not stopped:
            reached.append(plugin.name)
        try:
            result = results[plugin.name] = plugin.pre_filter(info, view)
        except PluginError as failure:
            if stopped:
                continue
            raise PluginError(f'running PreFilter plugin "{plugin.name}": {failure}') from None
        if stopped or result.status.code is Code.SKIP:
            continue
        if result.status.rejected:
            status, deciding_plugin = result.status, plugin.name
            stopped = result.status.code is Code.UNRESOLVABLE
            continue
        if result.node_names is not None:
            narrowing.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                status = Status(Code.UNRESOLVABLE, (_format_conflict(narrowing),))
                deciding_plugin, stopped = "", True
    return PreFilterOutcome(
        results, status, plugin=deciding_plugin, reached=tuple(reached), node_names=names, narrowed_by=tuple(narrowing)
    )


def _format_conflict(plugins: list[str]) -> str:
    """Return upstream's message for plugins whose sets of node names have no node in common."""
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def select_allowed_nodes(pre_filter: PreFilterOutcome, view: Fork) -> Bools:
    """Return a mask (N,) of the nodes to which PreFilter plugins restricted the pod, all nodes if none did."""
    names = pre_filter.node_names
    if names is None:
        return np.ones(len(view.nodes), np.bool_)
    return np.array([name in names for name in view.nodes.names], np.bool_)
