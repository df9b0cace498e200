"""Find sets of pods on one node without which an incoming pod fits there, cheapest first.

The scheduler's own filters judge each set as if its pods were gone, on all nodes at once. Sets that free too little of
the lacking resources are skipped before.

Pods also release what they hold in other objects, such as the devices of their claims. A plugin that looks only at
nodes and objects does not notice that pods are assumed to be gone, so it is run again with the objects as they are
without the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import cast

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools, Position, Rows
from kschedctl.api.objects import ApiObject, Struct, get_object_key
from kschedctl.api.resource_names import PODS
from kschedctl.commands.make_room.movable import MovablePods
from kschedctl.scheduler.engine.cycle import Cycle, Filtering, Verdicts
from kschedctl.scheduler.engine.preemption.candidates import rank_within_runs
from kschedctl.scheduler.engine.reserve import find_reserve_plugins
from kschedctl.scheduler.framework import Changes, PluginError, PreFilterPlugin, ReservePlugin, offers
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, NodeResourcesFit, TooManyPods
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import OwnRows


class ReleasableHoldings:
    """Resources held by pods, such as devices, for lack of which plugins reject nodes for the incoming pod.

    The object is true if there are such resources.
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
            self._add_plugin_if_holding(plugin)
        self.names = frozenset(plugin.name for plugin in self.plugins)
        self.passes_others = np.ones(len(self.view.nodes), np.bool_)
        """The mask (N,) of nodes that no other plugin rejects."""
        for verdict in self._other_verdicts.values():
            self.passes_others &= ~verdict.rejected

    def __bool__(self) -> bool:
        return bool(self.plugins)

    def find_fitting_nodes(self, leaving_pods: Rows, delta: Delta, nodes: Bools) -> Bools:
        """Return the mask (N,) of nodes in the mask `nodes` where the incoming pod fits once `leaving_pods` have left.

        `delta` takes the pods off their nodes. What they hold in other objects is released while the filters run. No
        node is in the result if a plugin fails.
        """
        original_objects = self._release_holdings(leaving_pods)
        try:
            return self._build_filtering_for_view().run_filters(delta, self._other_verdicts, nodes).passing
        except PluginError:
            return np.zeros(len(nodes), np.bool_)
        finally:
            self.view.objects.replace_objects(original_objects)

    def _add_plugin_if_holding(self, plugin: ReservePlugin) -> None:
        """Record the plugin, and the PodInfos that may use it, if it holds something for a pod on a node.

        The plugin is added to `plugins`, and the PodInfos are added to the mask `holders`.
        """
        pods, framework = self.view.pods, self.cycle.framework
        may_hold = pods.where(lambda info: plugin in find_reserve_plugins(framework, info.spec))
        bound = np.flatnonzero(may_hold[pods.info] & self.view.mask_placed()).tolist()
        if any(plugin.release(self.view, bound).values()):
            self.plugins.append(plugin)
            self.holders |= may_hold

    @property
    def _other_verdicts(self) -> Verdicts:
        """The verdicts of the other plugins, which need not run again."""
        return {name: verdict for name, verdict in self.cycle.filter.verdicts.items() if name not in self.names}

    def _build_filtering_for_view(self) -> Filtering:
        """Build the filters for the view's current objects.

        PreFilter is run again for the plugins that hold something for pods, such as devices. Raises PluginError if a
        plugin fails.
        """
        cycle = self.cycle
        rerun_plugins = [plugin for plugin in self.plugins if offers(plugin, PreFilterPlugin)]
        results = {plugin.name: plugin.pre_filter(cycle.info, self.view) for plugin in rerun_plugins}
        pre_filter = replace(cycle.pre_filter, results={**cycle.pre_filter.results, **results})
        return Filtering.from_framework(cycle.framework, pre_filter, cycle.info, self.view)

    def _release_holdings(self, leaving_pods: Rows) -> Changes:
        """Release what the pods hold in the view's objects, and return the changed objects as they were before.

        The objects are grouped by kind, so that they can be put back.
        """
        may_hold = self.holders[self.view.pods.info[leaving_pods]]
        pods = leaving_pods[may_hold].tolist()
        objects_before: dict[str, list[Struct]] = {}
        for plugin in self.plugins:
            changes = plugin.release(self.view, pods)
            for kind, changed_objects in changes.items():
                objects_before.setdefault(kind, []).extend(self._iter_originals(kind, changed_objects))
            self.view.objects.replace_objects(changes)
        return objects_before

    def _iter_originals(self, kind: str, changed_objects: Sequence[Struct]) -> Iterator[Struct]:
        """Yield the originals of the objects of this kind, from the view of the pod's cycle, which is not changed."""
        for changed_object in cast("Sequence[ApiObject]", changed_objects):
            original = self.cycle.view.objects.find(kind, *get_object_key(changed_object))
            if original is not None:
                yield original


def releases_resources_on_exit(simulation: Simulation, position: Position) -> bool:
    """Return whether the pod releases something in other objects when it leaves, such as the devices of its claim."""
    framework = simulation.find_framework(position)
    if framework is None:
        return False
    plugins = find_reserve_plugins(framework, simulation.view.pods.objects[position].spec)
    return any(any(plugin.release(simulation.view, [position]).values()) for plugin in plugins)


Sets = npt.NDArray[np.int64]
"""Sets of K pods each as positions, shape (S, K). The pods of one set are on one node."""
JUDGED_AT_ONCE, JUDGED_WITH_OBJECTS = 2_048, 256
"""The number of sets judged at once: in general, and if pods also release other objects."""
MAX_PODS_PER_NODE = {1: 256, 2: 96, 3: 24}
"""Size of a set -> the number of distinct pods per node, cheapest first, that such sets are made of."""


MAX_SHORTAGE = 2.0**62
"""The cap on a node's shortage. A larger float may not fit into int64."""


class SetsOnNodes:
    """Sets of movable pods whose removal from their node makes room for an incoming pod."""

    truncated = False
    """True if some node has too many pods to look at all sets."""

    def __init__(self, cycle: Cycle, movable: MovablePods, pods: Rows, nodes: Bools) -> None:
        self.cycle, self.movable, self.view = cycle, movable, cycle.view
        self.filtering = Filtering.from_framework(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
        self.holdings = ReleasableHoldings(cycle)

        # The pods (M,) by node, and on each node the cheapest first.
        pods = pods[self.view.node[pods] >= 0]
        costs = self._compute_set_costs(pods[:, None])
        order = np.lexsort((pods, *costs[::-1], self.view.node[pods]))
        self.pods = self.all_pods = pods[order]

        self.promising = self._find_promising(nodes & cycle.considered & ~cycle.filter.passing)
        """The mask (N,) of nodes where the pod fits without any movable pods."""
        self.held_elsewhere = self._find_holders_elsewhere()
        """The mask (T,) of PodInfos with pods that hold what a promising node lacks."""
        self.pods = self.pods[self._find_useful_pods()]

    @property
    def lacks_held_resources(self) -> bool:
        """True if plugins reject nodes because pods hold resources, such as devices, that the incoming pod lacks."""
        return bool(self.holdings)

    def can_moves_elsewhere_help(self) -> bool:
        """Return whether the pod may fit on some node after pods on other nodes move.

        The result is False only if each node certainly rejects the pod even without the movable pods there: because of
        the node itself, or because of the pods that stay.
        """
        if self.holdings or not self.filtering.can_evictions_only_help():
            return True
        leaving = self.all_pods
        delta = Delta.from_changes(
            self.view.node[leaving], self.view.pods.info[leaving], np.full(len(leaving), -1, np.int64)
        )
        try:
            rejected = self.filtering.find_nodes_rejected_regardless_of_pods(self.cycle.filter.verdicts)
            rejected |= self.filtering.mask_rejected_rows(OwnRows(self.view, self.view.nodes.rows), delta)
        except PluginError:
            return True
        return bool((self.cycle.considered & ~rejected).any())

    def _find_promising(self, nodes: Bools) -> Bools:
        """Return the mask (N,) of nodes where the pod fits without any movable pods."""
        if not nodes.any() or not len(self.pods):
            return np.zeros(len(nodes), np.bool_)
        return nodes & self._find_fitting_nodes(self.pods, nodes)

    def _find_useful_pods(self) -> Bools:
        """Return the mask (M,) of the pods on promising nodes whose removal may help.

        Some nodes lack only resources held by pods. There, removing a pod without such resources does not help.
        """
        node = self.view.node[self.pods]
        lacks_only_held = self.holdings.passes_others[node] & bool(self.holdings)
        return self.promising[node] & (self._holding_pods | ~lacks_only_held)

    @property
    def _holding_pods(self) -> Bools:
        """The mask (M,) of pods that may hold what the incoming pod lacks."""
        return self.holdings.holders[self.view.pods.info[self.pods]]

    def _find_holders_elsewhere(self) -> Bools:
        """Return the mask (T,) of the PodInfos whose pods may hold resources that a promising node lacks.

        If each promising node itself runs pods that hold resources, no pod on another node has to leave. The mask is
        then all False.
        """
        if not self.holdings:
            return self.holdings.holders.copy()
        has_holders = np.zeros(len(self.promising), np.bool_)
        holding_pods = self.pods[self._holding_pods]
        has_holders[self.view.node[holding_pods]] = True
        lacks_holders = self.promising & ~has_holders
        if not lacks_holders.any():
            return np.zeros_like(self.holdings.holders)
        return self.holdings.holders.copy()

    def _find_fitting_nodes(self, leaving_pods: Rows, nodes: Bools) -> Bools:
        """Return the mask (N,) of nodes in the mask `nodes` where the pod fits once `leaving_pods` have left."""
        info = self.view.pods.info[leaving_pods]
        signs = np.full(len(leaving_pods), -1, np.int64)  # each of the pods is removed from its node
        delta = Delta.from_changes(self.view.node[leaving_pods], info, signs)
        # If the pods hold devices or claims, these have to be released as well
        if self.holdings:
            return self.holdings.find_fitting_nodes(leaving_pods, delta, nodes)
        return self.filtering.run_filters(delta, self.cycle.filter.verdicts, nodes).passing

    def _compute_set_costs(self, sets: Sets) -> tuple[Rows, Rows, Amounts]:
        """Return the costs of each set, the most important cost first.

        The costs are the highest reluctance, the highest priority and the total size of the set's pods. Each is an
        array (S,).
        """
        movable = self.movable
        return (
            movable.reluctance[sets].max(axis=1),
            movable.priority[sets].max(axis=1),
            movable.size[sets].sum(axis=1),
        )

    def iter_sufficient_sets(self, size: int) -> Iterator[tuple[Position, ...]]:
        """Yield the sets of `size` pods of one node that make room there for the incoming pod, the cheapest first."""
        sets = self._build_candidate_sets(size)
        first_pods = sets[:, 0]
        most_important_cost_last = self._compute_set_costs(sets)[::-1]
        # lexsort compares the last key first: by the costs in their order, and then by the first pod
        sets = sets[np.lexsort((first_pods, *most_important_cost_last))]
        at_once = JUDGED_WITH_OBJECTS if self.holdings else JUDGED_AT_ONCE
        for start in range(0, len(sets), at_once):
            batch = sets[start : start + at_once]
            for chosen in batch[self._find_sufficient_sets(batch)].tolist():
                yield tuple(map(Position, chosen))

    def _find_sufficient_sets(self, sets: Sets) -> Bools:
        """Return for each of the S sets whether the incoming pod fits on the node once the set's pods have left.

        The result is a mask (S,). The filters judge all nodes at once, with one set per node. Sets of the same node are
        therefore judged one after another.
        """
        # Number the sets of each node: in turn K, the K-th set of every node is judged.
        node = self.view.node[sets[:, 0]]
        order = np.argsort(node, kind="stable")
        turns = np.empty(len(sets), np.int64)
        turns[order] = rank_within_runs(node[order])

        sufficient = np.zeros(len(sets), np.bool_)
        for turn in range(int(turns.max(initial=-1)) + 1):
            is_judged = turns == turn
            leaving_pods = sets[is_judged].reshape(-1)
            fitting_nodes = self._find_fitting_nodes(leaving_pods, self.promising)
            sufficient[is_judged] = fitting_nodes[node[is_judged]]
        return sufficient

    def _build_candidate_sets(self, size: int) -> Sets:
        """Return an array (S, size) of sets of pods, one per row, that could make room for the incoming pod.

        The pods of a set are on the same node, and together they request at least what the node lacks. Of equal pods on
        a node, only as many are used as fit in one set.
        """
        columns, shortages = self._find_node_shortages()
        pods = self._drop_surplus_equal_pods(self._select_pods_freeing_enough(size, columns, shortages), size)
        requests = self._get_requests(pods, columns)

        # The pods are sorted by node. The pods of a node form a run: its start in `pods`, and its number of pods.
        node = self.view.node[pods]
        starts = np.searchsorted(node, np.unique(node))
        counts = np.diff(starts, append=len(pods))

        sets = [np.empty((0, size), np.int64)]
        for places in combinations(range(int(counts.max(initial=0))), size):
            # Choose the pods at these places in the run of each node whose run is long enough.
            run_starts = starts[counts > places[-1]]
            chosen = run_starts[:, None] + np.array(places)  # indexes into `pods`, (sets, size)
            freed = requests[chosen].sum(axis=1)
            rows = node[run_starts]
            is_enough = (freed >= shortages[rows]).all(axis=1)
            sets.append(pods[chosen[is_enough]])
        return np.concatenate(sets)

    def _get_requests(self, pods: Rows, columns: list[int]) -> Amounts:
        """Return the pods' requests (M, C) for the resources in these columns."""
        return self.view.get_requests(pods)[:, columns]

    def _select_pods_freeing_enough(self, size: int, columns: list[int], shortages: Amounts) -> Rows:
        """Return the pods that can belong to a set of `size` pods that frees enough of each resource.

        Each of the other `size` - 1 pods is assumed to be as large as the largest pod on the node. `columns` are the
        resources, and `shortages` (N, C) are the amounts of them that each node lacks.
        """
        node = self.view.node[self.pods]
        requests = self._get_requests(self.pods, columns)
        largest = np.zeros_like(shortages)
        np.maximum.at(largest, node, requests)
        most_freed = requests + (size - 1) * largest[node]
        return self.pods[(most_freed >= shortages[node]).all(axis=1)]

    def _drop_surplus_equal_pods(self, pods: Rows, size: int) -> Rows:
        """Keep only the first `size` equal pods of each node, since a set cannot contain more of them.

        Pods with the same PodInfo are equal. At most MAX_PODS_PER_NODE[size] pods of each node are returned. If a node
        has more, `truncated` is set.
        """
        # Number the equal pods of each node in their order, and drop those after the first `size`.
        node = self.view.node[pods]
        info = self.view.pods.info[pods]
        grouped_order = np.lexsort((np.arange(len(info)), info, node))
        _, group = np.unique(np.stack((node, info)), axis=1, return_inverse=True)
        rank_among_equal = np.empty(len(info), np.int64)
        rank_among_equal[grouped_order] = rank_within_runs(group.reshape(-1)[grouped_order])
        pods = pods[rank_among_equal < size]

        # Apply the limit per node. The pods are grouped by node.
        is_within_limit = rank_within_runs(self.view.node[pods]) < MAX_PODS_PER_NODE[size]
        self.truncated |= not is_within_limit.all()
        return pods[is_within_limit]

    def _find_node_shortages(self) -> tuple[list[int], Amounts]:
        """Return the columns (C) of the resources that nodes lack, and how much of them each node lacks, (N, C).

        The amount is 0 for a node that has enough of a resource.
        """
        verdict = self.cycle.filter.verdicts.get(NodeResourcesFit.name)
        rejections = verdict.rejections if verdict else ()
        columns: list[int] = []
        amounts: list[Amounts] = []
        for rejection in rejections:
            rows = np.flatnonzero(rejection.mask)
            if rejection.fact is None or rejection.distance is None or not len(rows):
                continue
            # The first rejected node shows which resource the rejection is about.
            match rejection.fact(int(rows[0])):
                case Insufficient(resource=resource):
                    columns.append(self.view.resources[resource])
                case TooManyPods():
                    columns.append(self.view.resources[PODS])
                case _:
                    continue
            distance = np.minimum(np.ceil(rejection.distance), MAX_SHORTAGE)
            amounts.append(np.where(rejection.mask, distance, 0).astype(np.int64))
        if not amounts:
            return columns, np.empty((len(self.view.nodes), 0), np.int64)
        return columns, np.stack(amounts, axis=1)
