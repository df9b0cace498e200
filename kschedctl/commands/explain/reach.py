"""What stands against each node, and which nodes are within a pod's reach: the nearest are looked for there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.resource_names import is_scalar
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders.extender import NAME as EXTENDERS
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.facts import Fact, Said
from kschedctl.scheduler.plugins.dynamic_resources.claims import CANNOT_ALLOCATE
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.helper.volumes.listers import listers
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import Cordoned
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.scheduler.plugins.volume_binding.facts import NotEnoughStorage
from kschedctl.scheduler.registry.facts import AnyFact, as_fact

NEAR, KEPT_AWAY, OUT_OF_REACH = 0, 1, 2
"""A node that would do if there were room; one that a taint or a cordon keeps the pod from; one that the pod's own
constraints, its volumes or its devices leave out, or that offers none of a resource that it needs."""
NO_REASON, LEFT_OUT = "no reason given", "left out by an extender without a reason"

Levels = npt.NDArray[np.int8]
Distances = npt.NDArray[np.float64]
FactOf = Callable[[int], AnyFact | None]
"""Row -> what stands behind an obstacle there."""


class Obstacle(NamedTuple):
    """One reason of one plugin against the nodes of ``mask`` (N,), each at a level (N,): NEAR, KEPT_AWAY, OUT_OF_REACH.

    ``looked_at``: the framework looked at these nodes. ``reported`` (N,): the nodes for which it reports this reason.
    """

    plugin: str
    reason: str
    mask: Bools
    level: Levels
    reported: Bools
    fact: FactOf | None = None
    distance: Distances | None = None
    looked_at: bool = True


FOUND_BEFORE = "enough nodes that fit were found before"
"""Why the search for nodes did not come to one; kube-scheduler says nothing of it."""


def obstacles(cycle: Cycle) -> list[Obstacle]:
    """All that stands against nodes: what keeps them from being looked at, the plugins in order, and the extenders."""
    return [*_not_looked_at(cycle), *_filtered(cycle), *_extended(cycle)]


def _not_looked_at(cycle: Cycle) -> Iterator[Obstacle]:
    absent = ~cycle.considered
    if not absent.any():
        return
    outcome = cycle.pre_filter
    refused = outcome.status.rejected
    level = np.full(len(absent), NEAR if refused and outcome.plugin else OUT_OF_REACH, np.int8)
    result = outcome.results.get(outcome.plugin)

    def fact(row: int) -> AnyFact | None:
        if result is not None:
            return as_fact(result.fact)
        facts = (_fact_of(cycle, plugin, row) for plugin in outcome.narrowed_by)
        return next((fact for fact in facts if fact), None)

    enough = cycle.search is not None and not outcome.narrowed_by
    for reason in (FOUND_BEFORE,) if enough else cycle.absent_status().reasons:
        yield Obstacle(outcome.plugin, reason, absent, level, absent, fact, looked_at=False)


def _fact_of(cycle: Cycle, plugin: str, row: int) -> AnyFact | None:
    verdict = cycle.filter.verdicts.get(plugin)
    rejections = verdict.rejections if verdict else ()
    return next((as_fact(r.fact(row)) for r in rejections if r.mask[row] and r.fact), None)


def _filtered(cycle: Cycle) -> Iterator[Obstacle]:
    """Each plugin's refusals; of the plugin that is reported because of nominated pods those with them there."""
    outcome = cycle.filter
    for position, (plugin, verdict) in enumerate(outcome.verdicts.items()):
        mine = cycle.considered & (outcome.first == position)
        crowded = mine & outcome.by_nominated
        told_before = ~cycle.considered if plugin in cycle.pre_filter.narrowed_by else np.zeros_like(mine)
        for rejection in verdict.rejections:
            yield _obstacle(cycle, plugin, rejection, rejection.mask & ~crowded & ~told_before, mine)
        for rejection in outcome.with_nominated[plugin].rejections if crowded.any() else ():
            obstacle = _obstacle(cycle, plugin, rejection, rejection.mask & crowded, mine)
            yield obstacle._replace(fact=_with_nominated(obstacle.fact))


def _extended(cycle: Cycle) -> Iterator[Obstacle]:
    """What extenders refuse, each by its messages, and what they leave out without one, which nobody reports."""
    consultation, index = cycle.consultation, cycle.view.nodes.index
    by_message: dict[tuple[str, str], list[int]] = {}
    for url, refusals in consultation.refusals.items():
        for name, message in refusals.items():
            if name in index:
                by_message.setdefault((url, message), []).append(index[name])
    for (url, message), rows in by_message.items():
        refused = np.zeros(len(cycle.considered), np.bool_)
        refused[rows] = True
        never = [row for row in rows if cycle.extender_statuses[Row(row)].code is Code.UNRESOLVABLE]
        level = np.full(len(refused), NEAR, np.int8)
        level[never] = OUT_OF_REACH
        yield Obstacle(EXTENDERS, message or NO_REASON, refused, level, refused, _said(f"refused by {url}"))
    dropped = cycle.silently_dropped if consultation.narrowed and cycle.error is None else np.zeros(0, np.bool_)
    if dropped.any():
        silent = np.zeros_like(dropped)
        yield Obstacle(EXTENDERS, LEFT_OUT, dropped, np.full(len(dropped), NEAR, np.int8), silent)


def _said(text: str) -> FactOf:
    return lambda row: Said(text)


def _with_nominated(fact: FactOf | None) -> FactOf:
    return lambda row: replace((fact(row) if fact else None) or Said(""), nominated=True)


def _obstacle(cycle: Cycle, plugin: str, rejection: Rejection, mask: Bools, mine: Bools) -> Obstacle:
    level = _level(cycle, plugin, rejection)
    return Obstacle(plugin, rejection.reason, mask, level, mask & mine, _as_facts(rejection.fact), rejection.distance)


def _as_facts(fact: Callable[[int], Fact | str | None] | None) -> FactOf | None:
    return None if fact is None else lambda row: as_fact(fact(row))


def _level(cycle: Cycle, plugin: str, rejection: Rejection) -> Levels:
    nodes = len(rejection.mask)
    if plugin == DynamicResources.name and rejection.reason == CANNOT_ALLOCATE:
        return np.where(_without_devices(cycle, rejection.mask), OUT_OF_REACH, NEAR).astype(np.int8)
    match rejection.fact(int(rejection.mask.argmax())) if rejection.fact else None:
        case Cordoned() | UntoleratedTaint():
            return np.full(nodes, KEPT_AWAY, np.int8)
        case Insufficient(resource=name):
            return np.where(_offers_none(cycle, name, rejection.mask), OUT_OF_REACH, NEAR).astype(np.int8)
        case NotEnoughStorage(storage_class=name):
            return np.where(_has_storage_pools(cycle, name), NEAR, OUT_OF_REACH).astype(np.int8)
    return np.full(nodes, OUT_OF_REACH if rejection.code is Code.UNRESOLVABLE else NEAR, np.int8)


def _offers_none(cycle: Cycle, resource: str, mask: Bools) -> Bools:
    """(N,): those of the nodes without any of the resource, where only some nodes have it, as they have GPUs."""
    if not is_scalar(resource):
        return np.zeros(len(mask), np.bool_)
    column = cycle.view.resources.get(resource)
    return mask.copy() if column is None else mask & (cycle.view.allocatable[:, column] == 0)


def _has_storage_pools(cycle: Cycle, storage_class: str) -> Bools:
    """Return (N,) which nodes some CSIStorageCapacity of the class is for; all nodes if there is none for any node.

    A driver that publishes no capacity at all does not tell by that which nodes its volumes can be used on.
    """
    served = np.zeros(len(cycle.view.nodes), np.bool_)
    for pool in listers(cycle.view).pools_of_class.get(storage_class, ()):
        if pool.limit is not None:
            served[pool.rows] = True
    return served if served.any() else ~served


def _without_devices(cycle: Cycle, mask: Bools) -> Bools:
    """(N,): those of the nodes that no device is for."""
    bare = np.zeros(len(mask), np.bool_)
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    for row in np.flatnonzero(mask).tolist():
        bare[row] = not (evaluation and any(pool.devices for pool in evaluation.inventory.pools(row)))
    return bare


def but_for_room(cycle: Cycle) -> Bools:
    """(N,): the nodes that would take the pod if they had room: nothing but the resources that are left refuses it."""
    free = cycle.considered.copy()
    for plugin, verdict in cycle.filter.verdicts.items():
        if plugin != NodeResourcesFit.name:
            free &= ~verdict.rejected
    return free


class Standing(NamedTuple):
    """(N,) each: how far a node is out of reach, how many things stand against it, and how far it is from passing."""

    level: Levels
    against: npt.NDArray[np.int64]
    distance: Distances

    def nearest(self, mask: Bools, distance: Distances | None = None) -> npt.NDArray[np.int64]:
        """The rows of the mask, the nearest first."""
        rows = np.flatnonzero(mask)
        far = self.distance if distance is None else distance
        return rows[np.lexsort((far[rows], self.against[rows], self.level[rows]))]


def standing(obstacles: Iterable[Obstacle], nodes: int) -> Standing:
    """What all obstacles together make of the nodes."""
    level, count = np.zeros(nodes, np.int8), np.zeros(nodes, np.int64)
    distance = np.zeros(nodes, np.float64)
    for obstacle in obstacles:
        level = np.maximum(level, np.where(obstacle.mask, obstacle.level, NEAR))
        count += obstacle.mask
        if obstacle.distance is not None:
            distance = np.where(obstacle.reported, obstacle.distance, distance)
    return Standing(level, count, distance)
