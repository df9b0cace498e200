"""Find the obstacles that keep a pod from each node, and which nodes are within the pod's reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.resource_names import is_scalar
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders import NAME as EXTENDERS
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.facts import Fact, Said
from kschedctl.scheduler.in_tree_plugins import AnyFact, to_fact
from kschedctl.scheduler.plugins.dynamic_resources.claims import CANNOT_ALLOCATE
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.helper.volume_listers import get_listers
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient
from kschedctl.scheduler.plugins.node_unschedulable import Cordoned
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.scheduler.plugins.volume_binding.facts import NotEnoughStorage

NEAR, KEPT_AWAY, OUT_OF_REACH = 0, 1, 2
"""The levels at which a node that rejects the pod is out of reach.

NEAR: it would fit if there were room. KEPT_AWAY: a taint or a cordon keeps the pod away. OUT_OF_REACH: the pod's own
constraints, volumes or devices exclude the node, or the node offers none of a resource that the pod needs.
"""
NO_REASON, LEFT_OUT = "no reason given", "left out by an extender without a reason"

Levels = npt.NDArray[np.int8]
Distances = npt.NDArray[np.float64]
FindFact = Callable[[int], AnyFact | None]
"""Finds the fact behind an obstacle, given the row of the node."""


class Obstacle(NamedTuple):
    """A plugin's reason for rejecting some of the nodes."""

    plugin: str
    reason: str
    mask: Bools
    """The nodes (N,) that the reason rejects."""
    level: Levels
    """The level at which the reason puts each node (N,) out of reach: NEAR, KEPT_AWAY or OUT_OF_REACH."""
    reported: Bools
    """The nodes (N,) for which kube-scheduler reports this reason."""
    fact: FindFact | None = None
    distance: Distances | None = None
    """The distance of each node (N,) from passing, in a unit that depends on the plugin."""
    was_examined: bool = True
    """True if kube-scheduler examined these nodes."""


ENOUGH_FOUND = "enough feasible nodes had already been found"
"""The reason why the search did not reach a node. kube-scheduler does not report such nodes."""


def find_obstacles(cycle: Cycle) -> list[Obstacle]:
    """Find all reasons that keep the pod from nodes: before Filter, by Filter plugins, and by extenders."""
    return [
        *_iter_obstacles_of_unexamined_nodes(cycle),
        *_iter_filter_obstacles(cycle),
        *_iter_extender_obstacles(cycle),
    ]


def _iter_obstacles_of_unexamined_nodes(cycle: Cycle) -> Iterator[Obstacle]:
    """Yield an obstacle for each reason why Filter did not examine some nodes.

    Either PreFilter left these nodes out or rejected the pod, or the search had already found enough feasible nodes.
    """
    unexamined = ~cycle.considered
    if not unexamined.any():
        return
    pre_filter = cycle.pre_filter

    # A rejection of the pod itself says nothing about nodes, while nodes that PreFilter left out are out of reach
    is_pod_rejected = pre_filter.status.rejected and bool(pre_filter.plugin)
    level = np.full(len(unexamined), NEAR if is_pod_rejected else OUT_OF_REACH, np.int8)

    has_search_ended_early = cycle.search is not None and not pre_filter.narrowed_by
    reasons = (ENOUGH_FOUND,) if has_search_ended_early else cycle.build_unexamined_status().reasons
    for reason in reasons:
        yield Obstacle(
            pre_filter.plugin,
            reason,
            mask=unexamined,
            level=level,
            reported=unexamined,
            fact=partial(_find_pre_filter_fact, cycle),
            was_examined=False,
        )


def _find_pre_filter_fact(cycle: Cycle, row: int) -> AnyFact | None:
    """Return the fact behind the result of PreFilter, or else the first fact of a plugin that left out the node.

    Return None if there is no fact.
    """
    pre_filter = cycle.pre_filter
    result = pre_filter.results.get(pre_filter.plugin)
    if result is not None:
        return to_fact(result.fact)
    facts = (_find_rejection_fact(cycle, plugin, row) for plugin in pre_filter.narrowed_by)
    return next((fact for fact in facts if fact), None)


def _find_rejection_fact(cycle: Cycle, plugin: str, row: int) -> AnyFact | None:
    """Return the figures behind a Filter plugin's rejection of the node at `row`.

    Return None if the plugin did not reject the node, or has no figures for it.
    """
    verdict = cycle.filter.verdicts.get(plugin)
    if verdict is None:
        return None
    for rejection in verdict.rejections:
        if rejection.mask[row] and rejection.fact:
            return to_fact(rejection.fact(row))
    return None


def _iter_filter_obstacles(cycle: Cycle) -> Iterator[Obstacle]:
    """Yield an obstacle for each rejection by a Filter plugin, whether with or without the nominated pods.

    A node that has room only without the nominated pods gets its obstacles from the filter run that counts these pods.
    """
    for position, plugin in enumerate(cycle.filter.verdicts):
        # `first` has, per node, the position of the first plugin that rejects it
        is_rejected_first = cycle.considered & (cycle.filter.first == position)
        yield from _iter_obstacles_without_nominated_pods(cycle, plugin, is_rejected_first)
        yield from _iter_obstacles_of_nominated_pods(cycle, plugin, is_rejected_first)


def _iter_obstacles_without_nominated_pods(cycle: Cycle, plugin: str, first_rejected: Bools) -> Iterator[Obstacle]:
    """Yield an obstacle for each rejection that the Filter plugin also reports without nominated pods.

    `first_rejected` is a mask (N,) of the nodes that this plugin rejects first. Nodes that the plugin already left out
    in PreFilter are not reported again.
    """
    mask = ~(first_rejected & cycle.filter.by_nominated)
    if plugin in cycle.pre_filter.narrowed_by:
        mask &= cycle.considered
    for rejection in cycle.filter.verdicts[plugin].rejections:
        yield _build_obstacle(cycle, plugin, rejection, rejection.mask & mask, first_rejected)


def _iter_obstacles_of_nominated_pods(cycle: Cycle, plugin: str, first_rejected: Bools) -> Iterator[Obstacle]:
    """Yield an obstacle for each rejection that the Filter plugin reports only because nominated pods are counted.

    `first_rejected` is a mask (N,) of the nodes that this plugin rejects first.
    """
    rejected_with_nominated = first_rejected & cycle.filter.by_nominated
    if not rejected_with_nominated.any():
        return
    for rejection in cycle.filter.with_nominated[plugin].rejections:
        mask = rejection.mask & rejected_with_nominated
        obstacle = _build_obstacle(cycle, plugin, rejection, mask, first_rejected)
        yield obstacle._replace(fact=_mark_facts_as_nominated(obstacle.fact))


def _iter_extender_obstacles(cycle: Cycle) -> Iterator[Obstacle]:
    """Yield an obstacle for each message with which an extender rejects nodes.

    Another obstacle follows for nodes that extenders leave out without a message. Nodes that an extender names but that
    do not exist are ignored.
    """
    consultation, index = cycle.consultation, cycle.view.nodes.index
    rows_by_message: dict[tuple[str, str], list[int]] = {}
    for url, refusals in consultation.refusals.items():
        for name, message in refusals.items():
            if name in index:
                rows_by_message.setdefault((url, message), []).append(index[name])

    for (url, message), rows in rows_by_message.items():
        rejected = np.zeros(len(cycle.considered), np.bool_)
        rejected[rows] = True
        unresolvable = [row for row in rows if cycle.extender_statuses[Row(row)].code is Code.UNRESOLVABLE]
        level = np.full(len(rejected), NEAR, np.int8)
        level[unresolvable] = OUT_OF_REACH
        yield Obstacle(
            EXTENDERS,
            message or NO_REASON,
            mask=rejected,
            level=level,
            reported=rejected,
            fact=_build_constant_fact_finder(f"rejected by {url}"),
        )

    # kube-scheduler reports nothing for a node that an extender just does not return
    if not consultation.narrowed or cycle.error is not None:
        return
    dropped = cycle.silently_dropped
    if dropped.any():
        level = np.full(len(dropped), NEAR, np.int8)
        yield Obstacle(EXTENDERS, LEFT_OUT, mask=dropped, level=level, reported=np.zeros_like(dropped))


def _build_constant_fact_finder(text: str) -> FindFact:
    """Build a function that returns the same fact, made of the text, for every node."""
    return lambda row: Said(text)


def _mark_facts_as_nominated(find_fact: FindFact | None) -> FindFact:
    """Return a function like `find_fact` that marks each fact as caused by nominated pods.

    If `find_fact` is None or finds no fact, the new function returns an empty fact with the mark.
    """

    def find_nominated_fact(row: int) -> AnyFact:
        """Return the marked fact about the node at `row`."""
        unmarked_fact = find_fact(row) if find_fact else None
        return replace(unmarked_fact or Said(""), nominated=True)

    return find_nominated_fact


def _build_obstacle(cycle: Cycle, plugin: str, rejection: Rejection, mask: Bools, first_rejected: Bools) -> Obstacle:
    """Build the obstacle for a plugin's rejection of the nodes in `mask` (N,).

    `first_rejected` (N,) marks the nodes that this plugin is the first to reject. On nodes in both masks, the rejection
    is the one that kube-scheduler reports.
    """
    level = _compute_rejection_levels(cycle, plugin, rejection)
    return Obstacle(
        plugin,
        rejection.reason,
        mask=mask,
        level=level,
        reported=mask & first_rejected,
        fact=_wrap_plugin_fact_finder(rejection.fact),
        distance=rejection.distance,
    )


def _wrap_plugin_fact_finder(fact: Callable[[int], Fact | str | None] | None) -> FindFact | None:
    """Wrap a plugin's function that finds facts so that plain texts become facts. Return None if `fact` is None."""
    return None if fact is None else lambda row: to_fact(fact(row))


def _compute_rejection_levels(cycle: Cycle, plugin: str, rejection: Rejection) -> Levels:
    """Return how far the rejection puts each node (N,) out of reach: NEAR, KEPT_AWAY or OUT_OF_REACH.

    The kind of the rejection is judged by its fact on the first node that it rejects.
    """
    nodes = len(rejection.mask)
    if plugin == DynamicResources.name and rejection.reason == CANNOT_ALLOCATE:
        return _build_levels(is_out_of_reach=_find_nodes_without_devices(cycle, rejection.mask))
    first_rejected = int(rejection.mask.argmax())
    fact = rejection.fact(first_rejected) if rejection.fact else None
    match fact:
        case Cordoned() | UntoleratedTaint():
            return np.full(nodes, KEPT_AWAY, np.int8)
        case Insufficient(resource=name):
            return _build_levels(is_out_of_reach=_find_nodes_without_resource(cycle, name, rejection.mask))
        case NotEnoughStorage(storage_class=name):
            return _build_levels(is_out_of_reach=~_find_nodes_with_published_storage(cycle, name))
    return np.full(nodes, OUT_OF_REACH if rejection.code is Code.UNRESOLVABLE else NEAR, np.int8)


def _build_levels(is_out_of_reach: Bools) -> Levels:
    """Return the level OUT_OF_REACH for the nodes in the mask (N,), and NEAR for all others."""
    return np.where(is_out_of_reach, OUT_OF_REACH, NEAR).astype(np.int8)


def _find_nodes_without_resource(cycle: Cycle, resource: str, mask: Bools) -> Bools:
    """Return a mask (N,) of the nodes in `mask` that offer none of the resource.

    No node is marked for CPU, memory, ephemeral storage and pods, which every node offers.
    """
    if not is_scalar(resource):
        return np.zeros(len(mask), np.bool_)
    column = cycle.view.resources.get(resource)
    return mask.copy() if column is None else mask & (cycle.view.allocatable[:, column] == 0)


def _find_nodes_with_published_storage(cycle: Cycle, storage_class: str) -> Bools:
    """Return a mask (N,) of the nodes covered by a CSIStorageCapacity of the class, or of all nodes if none is covered.

    A driver that publishes no capacity does not say where its volumes can be used.
    """
    served = np.zeros(len(cycle.view.nodes), np.bool_)
    for pool in get_listers(cycle.view).pools_of_class.get(storage_class, ()):
        if pool.limit is not None:
            served[pool.rows] = True
    return served if served.any() else ~served


def _find_nodes_without_devices(cycle: Cycle, mask: Bools) -> Bools:
    """Return a mask (N,) of the nodes in `mask` whose pools publish no device at all.

    If DynamicResources was skipped and so has no state, return all nodes in `mask`.
    """
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if not evaluation:
        return mask.copy()
    without_devices = np.zeros(len(mask), np.bool_)
    for row in np.flatnonzero(mask).tolist():
        without_devices[row] = not any(pool.devices for pool in evaluation.inventory.get_pools(row))
    return without_devices


class NodeCloseness(NamedTuple):
    """The closeness of each node to fitting the pod, as arrays of shape (N,)."""

    level: Levels
    """The level at which the node is out of reach: NEAR, KEPT_AWAY or OUT_OF_REACH."""
    obstacle_count: npt.NDArray[np.int64]
    """The number of obstacles."""
    distance: Distances
    """The distance of the node from passing the reported reason."""

    def sort_by_closeness(self, mask: Bools, distance: Distances | None = None) -> npt.NDArray[np.int64]:
        """Return the rows in the mask (N,), closest to fitting first. `distance` (N,) overrides the field."""
        rows = np.flatnonzero(mask)
        distances = self.distance if distance is None else distance
        # lexsort sorts by its last key first: by level, then by obstacles, then by distance
        return rows[np.lexsort((distances[rows], self.obstacle_count[rows], self.level[rows]))]


def measure_node_closeness(obstacles: Iterable[Obstacle], nodes: int) -> NodeCloseness:
    """Measure how close each node is to fitting, by combining its obstacles.

    The level of a node is the highest level among its obstacles. The distance of a node comes from the obstacle that
    kube-scheduler reports there. An unknown distance is 0. `nodes` is the number of nodes.
    """
    level, count = np.zeros(nodes, np.int8), np.zeros(nodes, np.int64)
    distance = np.zeros(nodes, np.float64)
    for obstacle in obstacles:
        level = np.maximum(level, np.where(obstacle.mask, obstacle.level, NEAR))
        count += obstacle.mask
        if obstacle.distance is not None:
            distance = np.where(obstacle.reported, obstacle.distance, distance)
    return NodeCloseness(level, count, distance)
