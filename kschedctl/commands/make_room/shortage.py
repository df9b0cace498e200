"""Prove that no moves can make room, because the pods need more in total than moves can free on the nodes they may use.

The amount that can be free is an upper bound. It consists of what is free now, and of the requests of all pods that
may leave these nodes for others. Moves among the nodes free nothing in total. Moves off the nodes count as possible
unless a plugin rejects all other nodes, whichever pods run there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.movable import find_reasons_against_moving
from kschedctl.commands.make_room.report import ProposedNodes, ResourceShortage
from kschedctl.commands.make_room.room import RoomMaking
from kschedctl.replay.edits import get_zone
from kschedctl.replay.scenarios import reject_file
from kschedctl.replay.scenarios.steps import add_nodes
from kschedctl.replay.settling import find_pods_still_pending, schedule_victims_until_stable, settle
from kschedctl.reports.scenario import AddNodes
from kschedctl.scheduler.engine.cycle import Filtering, run_pre_filter
from kschedctl.scheduler.framework import PluginError, PluginVerdict
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

MAX_NODE_SETS = 20
"""The maximum number of sets of nodes that are examined."""
MAX_TRIED_COUNTS = 4
"""The maximum number of replays with new nodes."""
MAX_NEW_NODES = 1_000
"""More new nodes are not replayed."""


class PossibleNodes:
    """The nodes that pods may ever get, whichever pods move."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._nodes_by_info: dict[int, Bools] = {}

    def find_usable_nodes(self, position: Position) -> Bools:
        """Return the mask (N,) of the nodes that the pod may use if no other pod is in its way.

        The mask is cached by PodInfo. Allocated devices rule out no node, because pods that move may release them.
        """
        number = int(self._simulation.view.pods.info[position])
        if number not in self._nodes_by_info:
            self._nodes_by_info[number] = self._compute_usable_nodes(position)
        return self._nodes_by_info[number]

    def _compute_usable_nodes(self, position: Position) -> Bools:
        """Return the mask (N,) of the nodes that the pod may use if no other pod is in its way.

        All nodes are included if a plugin fails or no profile serves the pod.
        """
        view, framework = self._simulation.view, self._simulation.find_framework(position)
        all_nodes = np.ones(len(view.nodes), np.bool_)
        if framework is None:
            return all_nodes
        info = self._simulation.get_shared_incoming_info(position)
        # Which devices are free depends on other pods, so the plugin's own verdict does not count
        accepts_all_nodes = PluginVerdict.from_rejections(iter(()), len(view.nodes))
        try:
            pre_filter = run_pre_filter(framework.plugins_at("preFilter"), info, view)
            filtering = Filtering.from_framework(framework, pre_filter, info, view)
            return ~filtering.find_nodes_rejected_regardless_of_pods({DynamicResources.name: accepts_all_nodes})
        except PluginError:
            return all_nodes


def find_shortages(room: RoomMaking) -> tuple[ResourceShortage, ...]:
    """Return the resources of which the wanted pods need more than any moves can free, the scarcest first.

    For each set of nodes that an unplaced pod can use, only the wanted pods that can run nowhere else count. At most
    MAX_NODE_SETS sets are examined. Return () if all pods fit, or if no shortage is proven.
    """
    simulation = room.before.build_simulation()
    possible_nodes = PossibleNodes(simulation)
    usable_by_pod: dict[Position, Bools] = {}
    for position in room.wanted:
        usable = possible_nodes.find_usable_nodes(position)
        if usable.any():  # pods that can run nowhere show no shortage
            usable_by_pod[position] = usable
    distinct_node_sets = {usable.tobytes(): usable for pod, usable in usable_by_pod.items() if pod not in room.rows}

    shortages: list[ResourceShortage] = []
    for nodes in islice(distinct_node_sets.values(), MAX_NODE_SETS):
        confined = [position for position, usable in usable_by_pod.items() if not (usable & ~nodes).any()]
        shortages += _find_shortages_on_nodes(room, simulation, possible_nodes, confined, nodes)
    return tuple(sorted(shortages, key=lambda shortage: shortage.obtainable / shortage.needed))


def _find_shortages_on_nodes(
    room: RoomMaking, simulation: Simulation, possible_nodes: PossibleNodes, confined: Sequence[Position], nodes: Bools
) -> list[ResourceShortage]:
    """Return the resources that are too scarce on `nodes`, a mask (N,), for the `confined` pods.

    These pods may run on no other nodes. Resources that none of the nodes offers are left out.
    """
    view = simulation.view
    needed_amounts = view.get_requests(list(confined))
    free_amounts = np.maximum(view.allocatable - view.requested, 0)[nodes]
    leaving_pods: list[Position] | None = None  # found once, and only if free amounts are not enough
    shortages = []
    for resource, column in view.resources.items():
        needed = sum(needed_amounts[:, column].tolist())  # integers of Python do not overflow
        free = sum(free_amounts[:, column].tolist())
        if needed <= free or not all(_limits_resource(simulation, position, resource) for position in confined):
            continue
        if leaving_pods is None:
            leaving_pods = _find_pods_that_may_leave(room, simulation, possible_nodes, nodes)
        freed_by_moves = sum(view.get_requests(leaving_pods)[:, column].tolist())
        if needed <= free + freed_by_moves or not view.allocatable[nodes, column].any():
            continue
        offered = view.allocatable[:, column].tolist()
        largest_rows = _find_largest_node_of_each_zone(view, nodes, offered)
        shortages.append(
            ResourceShortage(
                resource=resource,
                needed=needed,
                free=free,
                freed_by_moves=freed_by_moves,
                nodes=int(nodes.sum()),
                pods=len(confined),
                largest_request=int(needed_amounts[:, column].max()),
                example=view.pods.objects[confined[0]].key,
                largest_nodes=tuple(view.nodes.names[row] for row in largest_rows),
                on_largest_node=offered[largest_rows[0]],
            )
        )
    return shortages


def _find_largest_node_of_each_zone(view: Fork, nodes: Bools, offered: Sequence[int]) -> list[Row]:
    """Return the row of the node that offers most in each zone, the largest first.

    `nodes` (N,) marks the nodes to consider, and `offered` has what each node of the cluster offers.
    """
    largest_by_zone: dict[str, Row] = {}
    for row in sorted(np.flatnonzero(nodes).tolist(), key=lambda row: -offered[row]):
        largest_by_zone.setdefault(get_zone(view.nodes.objects[row]), Row(row))
    return list(largest_by_zone.values())


def _limits_resource(simulation: Simulation, position: Position, resource: str) -> bool:
    """Return whether kube-scheduler gives the pod only nodes with enough of the resource."""
    framework = simulation.find_framework(position)
    plugins = framework.plugins_at("filter") if framework else ()
    return any(
        isinstance(plugin, NodeResourcesFit) and plugin.limits_resource(resource, simulation.view) for plugin in plugins
    )


def _find_pods_that_may_leave(
    room: RoomMaking, simulation: Simulation, possible_nodes: PossibleNodes, nodes: Bools
) -> list[Position]:
    """Return the pods on `nodes`, a mask (N,), that other nodes may take.

    PodDisruptionBudgets are ignored, since they may allow evictions later. Pods that only the replay has placed may be
    placed elsewhere, even if they may not be evicted.
    """
    view = simulation.view
    # The replay's view has the pods of the cluster first, and then those that the replay has added
    rows_in_cluster = room.before.scheduler.view.node
    is_placed_by_replay = np.ones(len(view.node), np.bool_)
    is_placed_by_replay[: len(rows_in_cluster)] = view.node[: len(rows_in_cluster)] != rows_in_cluster
    is_held_info = np.array([bool(reason) for reason in find_reasons_against_moving(view, room.keep)], np.bool_)

    leaving_pods = []
    for position in map(Position, np.flatnonzero(view.mask_placed()).tolist()):
        row = Row(int(view.node[position]))
        may_be_evicted = bool(room.nodes[row]) and not is_held_info[view.pods.info[position]]
        is_leaving_possible = nodes[row] and (may_be_evicted or is_placed_by_replay[position])
        if is_leaving_possible and (possible_nodes.find_usable_nodes(position) & ~nodes).any():
            leaving_pods.append(position)
    return leaving_pods


def find_sufficient_new_nodes(room: RoomMaking, shortage: ResourceShortage) -> ProposedNodes | None:
    """Find how many new nodes are enough for all wanted pods, verified by replays.

    The new nodes copy the largest node or, since pods may have to spread, the largest node of each zone. The search
    starts with the number that the shortage makes necessary. The nodes have to be enough whether they are added before
    or after the pods that fit now get their nodes.

    If no tried number is enough, or if the numbers are too large to be tried, return the smallest possible number
    according to the shortage. It is then marked as not known to be enough.

    Return None if extenders would have to be called, if a pod requests more than the largest node offers, or if new
    nodes would not take the pods.
    """
    scheduler, seed = room.before.scheduler, room.before.seed
    if scheduler.call_extender is not None and scheduler.extenders:
        return None
    if shortage.largest_request > shortage.on_largest_node:
        return None
    settled_cluster = settle(scheduler.cluster, seed).cluster  # DaemonSets have pods here, which new nodes get as well
    wanted = [room.before.view.pods.objects[position].key for position in room.wanted]
    missing_amount = shortage.needed - shortage.obtainable
    largest_node = shortage.largest_nodes[:1]
    for models in dict.fromkeys((largest_node, shortage.largest_nodes)):  # once if there is a single zone
        fewest = _divide_rounding_up(missing_amount, shortage.on_largest_node * len(models))
        if (fewest + MAX_TRIED_COUNTS) * len(models) > MAX_NEW_NODES:
            continue
        for count in range(fewest, fewest + MAX_TRIED_COUNTS):
            new_nodes = ProposedNodes(models, count)
            larger_clusters = (_add_nodes(cluster, new_nodes) for cluster in (scheduler.cluster, settled_cluster))
            if all(_fit_after_other_pods(cluster, wanted, seed) for cluster in larger_clusters):
                return new_nodes
    if not _may_run_on_new_node(scheduler.cluster, shortage):
        return None
    fewest = _divide_rounding_up(missing_amount, shortage.on_largest_node)
    return ProposedNodes(largest_node, fewest, enough=False)


def _divide_rounding_up(amount: int, divisor: int) -> int:
    """Return the quotient of two integers, rounded up."""
    return -(-amount // divisor)


def _may_run_on_new_node(cluster: Cluster, shortage: ResourceShortage) -> bool:
    """Return whether the shortage's example pod may run on a copy of the largest node."""
    simulation = Simulation(Scheduler(_add_nodes(cluster, ProposedNodes(shortage.largest_nodes[:1], 1))))
    nodes = PossibleNodes(simulation).find_usable_nodes(Position(simulation.view.pods.index[shortage.example]))
    existing = {node.metadata.name for node in cluster.nodes}
    return any(nodes[row] for row, name in enumerate(simulation.view.nodes.names) if name not in existing)


def _add_nodes(cluster: Cluster, new_nodes: ProposedNodes) -> Cluster:
    """Return the cluster with `count` more nodes like each of the nodes that `new_nodes` copies."""
    for model in new_nodes.like:
        step = AddNodes(like=model, count=new_nodes.count, name=f"{model}-more")
        cluster = add_nodes(step, cluster, reject_file).resulting_cluster
    return cluster


def _fit_after_other_pods(cluster: Cluster, keys: Sequence[str], seed: int) -> bool:
    """Return whether the pods `keys` all get nodes without preemption, even if other waiting pods are tried first.

    Pods of lower priority than all of these pods come later in the queue, and so are not tried first.
    """
    simulation = Simulation(Scheduler(cluster), seed=seed)
    pods = simulation.view.pods
    wanted = [Position(pods.index[key]) for key in keys]
    waiting = find_pods_still_pending(simulation)
    lowest_priority = min(pods.get_priorities(wanted).tolist())
    earlier = [
        position for position in waiting if position not in wanted and pods.get_priority(position) >= lowest_priority
    ]
    schedule_victims_until_stable(simulation, simulation.schedule(earlier))
    outcomes = simulation.schedule(position for position in waiting if position in wanted)
    has_victims = any(outcome.victims for outcome in outcomes)
    return not has_victims and bool((simulation.view.node[wanted] >= 0).all())
