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

    The value is true if there are any.
    """

    def __init__(self, cycle: Cycle) -> None:
        verdicts = cycle.filter.verdicts
        rejecting_plugins = [
            plugin
            for plugin in find_reserve_plugins(cycle.framework, cycle.info.spec)
            if plugin.name in verdicts and verdicts[plugin.name].rejected.any()
        ]
        self.cycle = cycle
        self.view = cycle.view.fork() if rejecting_plugins else cycle.view
        self.plugins: list[ReservePlugin] = []
        """The plugins that reject the pod and hold something for other pods."""
        self.holders = np.zeros(len(self.view.pods.infos), np.bool_)
        """The mask (T,) of PodInfos for which these plugins may hold something."""
        for plugin in rejecting_plugins:
            self._add_if_holding(plugin)
        self.names = frozenset(plugin.name for plugin in self.plugins)
        self.passes_others = np.ones(len(self.view.nodes), np.bool_)
        """The mask (N,) of nodes that no other plugin rejects."""
        for verdict in self._other_verdicts.values():
            self.passes_others &= ~verdict.rejected

    def __bool__(self) -> bool:
        return bool(self.plugins)

    def find_passing(self, leaving_pods: Rows, delta: Delta, among: Bools) -> Bools:
        """Return the mask (N,) of nodes in the mask `among` where the pod fits once `leaving_pods` have left.

        `delta` takes the pods off their nodes. What they held for other nodes becomes free as well. No node passes if
        a plugin fails.
        """
        original_objects = self._release_holdings(leaving_pods)
        try:
            return self._build_filtering().judge(delta, self._other_verdicts, among).passing
        except PluginError:
            return np.zeros(len(among), np.bool_)
        finally:
            self.view.objects.replace(original_objects)

    def _add_if_holding(self, plugin: ReservePlugin) -> None:
        """Add a plugin and its holders if it holds something for a pod that is on a node."""
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
        pre_filter = replace(cycle.pre_filter, results={**cycle.pre_filter.results, **results})
        return Filtering.from_framework(cycle.framework, pre_filter, cycle.info, self.view)

    def _release_holdings(self, leaving_pods: Rows) -> Changes:
        """Release what the pods hold in the view's objects. Return the changed objects as they were before, by kind."""
        infos = self.view.pods.info[leaving_pods]
        pods = leaving_pods[self.holders[infos]].tolist()
        objects_before: dict[str, list[Struct]] = {}
        for plugin in self.plugins:
            changes = plugin.release(self.view, pods)
            for kind, objects in changes.items():
                kind_before = objects_before.setdefault(kind, [])
                for changed_object in cast("Sequence[ApiObject]", objects):
                    original = self.cycle.view.objects.find(kind, *get_object_key(changed_object))
                    if original is not None:
                        kind_before.append(original)
            self.view.objects.replace(changes)
        return objects_before


def releases_resources_on_exit(simulation: Simulation, position: Position) -> bool:
    """Return whether the pod releases something when it leaves, such as devices, so that filters answer differently."""
    framework = simulation.framework(position)
    if framework is None:
        return False
    plugins = find_reserve_plugins(framework, simulation.view.pods.objects[position].spec)
    return any(any(plugin.release(simulation.view, [position]).values()) for plugin in plugins)
