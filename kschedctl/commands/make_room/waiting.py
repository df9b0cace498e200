"""The waiting pods that certainly fit nowhere while a plan is replayed, so that they need not be tried.

The nodes that pods leave are cordoned while these pods are evicted, and other nodes only get more pods. Most waiting
pods that every node rejects before the plan are therefore rejected everywhere until the cordons are lifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row, Rows
from kschedctl.scheduler.engine.cycle import Filtering, run_pre_filter
from kschedctl.scheduler.engine.reserve import find_reserve_plugins
from kschedctl.scheduler.framework import (
    CordonRejectingPlugin,
    PluginError,
    can_more_pods_help,
    looks_at_own_pods,
    offers,
)
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork, OwnRows
from kschedctl.snapshot.pod_info import PodInfo


class _Rejections(NamedTuple):
    """The nodes that reject a pod before the plan, as far as the nodes themselves and the pods on them decide."""

    filtering: Filtering
    """The filters that decide, apart from those that look at more of a node's pods than their requests."""
    regardless_of_pods: Bools
    """(N,): the nodes that reject the pod no matter which pods run there."""
    before_plan: Bools
    """(N,): the nodes that reject the pod before the plan, and after it unless pods leave them."""


class WaitingPodsOfPlan:
    """The waiting pods of a plan, with the nodes that reject them before the plan.

    This state is that of a simulation, which must not change. The plan may uncordon the nodes in `cordoned` later.
    """

    def __init__(self, simulation: Simulation, cordoned: frozenset[Row]) -> None:
        self._simulation = simulation
        self._cordoned = cordoned
        self._rejections_by_pod: dict[Position, _Rejections | None] = {}

    def select_pods_that_may_fit(
        self, positions: Sequence[Position], view: Fork, cordoned: frozenset[Row]
    ) -> list[Position]:
        """Return the pods that some node may take in a later state, without those that certainly fit nowhere.

        `view` is the later state, and `cordoned` are the nodes that the plan keeps cordoned in it.
        """
        # Only nodes that pods have left, and nodes that were cordoned before, may have more room than before.
        node_before = self._simulation.view.node
        left_rows = node_before[(view.node != node_before) & (node_before != NO_ROW)]
        may_have_room = np.zeros(len(view.nodes), np.bool_)
        may_have_room[left_rows] = True
        may_have_room[list(self._cordoned)] = True
        is_open = np.ones(len(view.nodes), np.bool_)
        is_open[list(cordoned)] = False

        pods_that_may_fit = []
        for position in positions:
            rejections = self._find_rejections(position)
            if rejections is None or (is_open & ~rejections.before_plan).any():
                may_fit = True
            else:
                rows_with_room = np.flatnonzero(is_open & may_have_room & ~rejections.regardless_of_pods)
                may_fit = _may_any_row_accept(rejections, view, rows_with_room)
            if may_fit:
                pods_that_may_fit.append(position)
        return pods_that_may_fit

    def _find_rejections(self, position: Position) -> _Rejections | None:
        """Return the nodes that reject a pod, from a cache if possible, or None if any node may take it later."""
        if position not in self._rejections_by_pod:
            self._rejections_by_pod[position] = self._compute_rejections(position)
        return self._rejections_by_pod[position]

    def _compute_rejections(self, position: Position) -> _Rejections | None:
        """Compute which nodes reject a pod, or return None if any node may take the pod later.

        None is returned for a pod that is nominated, belongs to a group, tolerates cordons or is rejected by PreFilter.
        It is also returned if no profile serves the pod, if an eviction might make a plugin reject a node, or if a
        plugin fails. Filters that look at a pod's volumes or devices are left out, because the volumes and devices may
        become available.
        """
        simulation, view = self._simulation, self._simulation.view
        framework = simulation.find_framework(position)
        if framework is None or view.get_nominated_row(position) != NO_ROW:
            return None
        info = simulation.get_shared_incoming_info(position)
        filters = framework.plugins_at("filter")
        rejects_cordoned = any(
            offers(plugin, CordonRejectingPlugin) and plugin.rejects_cordoned(info) for plugin in filters
        )
        if not rejects_cordoned or simulation.gangs.find_group_key(position) is not None:
            return None
        try:
            pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, view)
            if pre_filter.status.rejected:
                return None
            full_filtering = Filtering.from_framework(framework, pre_filter, info, view)
            names_of_reserving = {plugin.name for plugin in find_reserve_plugins(framework, info.spec)}
            lasting_filters = [plugin for plugin in full_filtering.plugins if plugin.name not in names_of_reserving]
            filtering = replace(full_filtering, plugins=lasting_filters)
            if not filtering.can_evictions_only_help():
                return None
            regardless_of_pods = filtering.find_nodes_rejected_regardless_of_pods({})
            before_plan = regardless_of_pods | filtering.mask_rejected_rows(OwnRows(view, view.nodes.rows), NO_CHANGE)
            if not names_of_reserving:
                before_plan |= _find_rejected_despite_more_pods(filtering, info)
        except PluginError:
            return None
        return _Rejections(filtering, regardless_of_pods=regardless_of_pods, before_plan=before_plan)


def _find_rejected_despite_more_pods(filtering: Filtering, info: PodInfo) -> Bools:
    """Return the nodes (N,) that filters reject because of the pods there, and still reject when more pods come."""
    verdicts = filtering.run_filters().verdicts
    rejected = np.zeros(len(filtering.view.nodes), np.bool_)
    for plugin in filtering.plugins:
        if looks_at_own_pods(plugin) and not can_more_pods_help(plugin, info):
            rejected |= verdicts[plugin.name].rejected
    return rejected


def _may_any_row_accept(rejections: _Rejections, view: Fork, rows: Rows) -> bool:
    """Return whether the node at any of these rows may accept the pod in `view`, a later state of the cluster.

    Return True if a plugin fails.
    """
    if not len(rows):
        return False
    later_filtering = replace(rejections.filtering, view=view)
    later_rows = OwnRows(view, rows)
    try:
        # The later state is judged as it is, without hypothetical evictions
        is_rejected = later_filtering.mask_rejected_rows(later_rows, NO_CHANGE)
    except PluginError:
        return True
    return not is_rejected.all()
