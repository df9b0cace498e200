"""Find what leaving pods release in other objects, such as the devices of their claims.

A plugin that looks only at nodes and objects does not notice that pods are assumed to be gone. It is run again with the
objects as they are without the pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.objects import ApiObject, Struct, get_object_key
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, Verdicts
from kschedctl.scheduler.engine.reserve import find_reserve_plugins
from kschedctl.scheduler.framework import Changes, PluginError, PreFilterPlugin, ReservePlugin, offers
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import Delta


class ReleasableHoldings:
    """Resources that pods hold, and because of which plugins reject nodes for the incoming pod.

    The value is true if there are any. `plugins` reject the pod and hold something for other pods. `holders` (T,) is
    the mask of PodInfos for which they may hold something, and `alone` (N,) the mask of nodes that no other plugin
    rejects.
    """

    def __init__(self, cycle: Cycle) -> None:
        verdicts = cycle.filter.verdicts
        refusing = [
            plugin
            for plugin in find_reserve_plugins(cycle.framework, cycle.info.spec)
            if plugin.name in verdicts and verdicts[plugin.name].rejected.any()
        ]
        self.cycle = cycle
        self.view = cycle.view.fork() if refusing else cycle.view
        self.plugins: list[ReservePlugin] = []
        self.holders = np.zeros(len(self.view.pods.infos), np.bool_)
        for plugin in refusing:
            self._add_plugin(plugin)
        self.names = frozenset(plugin.name for plugin in self.plugins)
        self.alone = np.ones(len(self.view.nodes), np.bool_)
        for verdict in self._other_verdicts.values():
            self.alone &= ~verdict.rejected

    def __bool__(self) -> bool:
        return bool(self.plugins)

    def find_passing(self, leaving_pods: Rows, delta: Delta, among: Bools) -> Bools:
        """Return the mask (N,) of nodes in the mask `among` where the pod fits once `leaving_pods` have left.

        `delta` takes the pods off their nodes. What they held for other nodes becomes free as well.
        """
        before = self._release_holdings(leaving_pods)
        try:
            return self._build_filtering().judge(delta, self._other_verdicts, among).passing
        except PluginError:
            return np.zeros(len(among), np.bool_)
        finally:
            self.view.objects.replace(before)

    def _add_plugin(self, plugin: ReservePlugin) -> None:
        """Add a plugin if it holds something for a pod that is on a node."""
        pods, framework = self.view.pods, self.cycle.framework
        may_hold = pods.where(lambda info: plugin in find_reserve_plugins(framework, info.spec))
        bound = np.flatnonzero(may_hold[pods.info] & (self.view.node >= 0)).tolist()
        if any(plugin.release(self.view, bound).values()):
            self.plugins.append(plugin)
            self.holders |= may_hold

    @property
    def _other_verdicts(self) -> Verdicts:
        """The verdicts of the other plugins, which need not run again."""
        return {name: verdict for name, verdict in self.cycle.filter.verdicts.items() if name not in self.names}

    def _build_filtering(self) -> Filtering:
        """Build the filters with the plugins' answers for the current objects. Raises PluginError."""
        cycle = self.cycle
        rerun_plugins = [plugin for plugin in self.plugins if offers(plugin, PreFilterPlugin)]
        results = {plugin.name: plugin.pre_filter(cycle.info, self.view) for plugin in rerun_plugins}
        before = replace(cycle.pre_filter, results={**cycle.pre_filter.results, **results})
        return Filtering.from_framework(cycle.framework, before, cycle.info, self.view)

    def _release_holdings(self, leaving_pods: Rows) -> Changes:
        """Release what the pods hold. Return the objects as they were before."""
        infos = self.view.pods.info[leaving_pods]
        pods = leaving_pods[self.holders[infos]].tolist()
        original_objects = self.cycle.view.objects
        before: dict[str, list[Struct]] = {}
        for plugin in self.plugins:
            changes = plugin.release(self.view, pods)
            for kind, objects in changes.items():
                names = map(get_object_key, cast("Sequence[ApiObject]", objects))
                before.setdefault(kind, []).extend(filter(None, (original_objects.find(kind, *name) for name in names)))
            self.view.objects.replace(changes)
        return before


def releases_resources_on_exit(simulation: Simulation, position: Position) -> bool:
    """Return whether the pod releases something when it leaves, so that filters answer differently afterwards."""
    framework = simulation.framework(position)
    if framework is None:
        return False
    plugins = find_reserve_plugins(framework, simulation.view.pods.objects[position].spec)
    return any(any(plugin.release(simulation.view, [position]).values()) for plugin in plugins)
