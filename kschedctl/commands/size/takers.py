"""Which shapes of nodes take a pod, as far as it alone decides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.commands.size.shapes import NodeShape, without_others
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

Place = tuple[str, str]
"""A shape and one of its zones."""
Places = dict[str, tuple[Place, ...]]
"""Pod -> where it can be."""
Takers = dict[str, tuple[str, ...]]
"""Pod -> the shapes that take it."""


def places_of(view: Fork, shapes: Mapping[str, NodeShape]) -> Places:
    """Of the pods of a cluster that has a node of each shape in each of its zones.

    All of them, where none takes it alone and other pods may let it in.
    """
    scheduler, place_of = Scheduler(view.cluster), _place_of_row(shapes)
    by_info: dict[int, tuple[Place, ...]] = {}
    places: Places = {}
    for position in np.flatnonzero(view.node < 0).tolist():
        number = int(view.pods.info[position])
        if number not in by_info:
            by_info[number] = _of_pod(scheduler, view.pods.infos[number].pod, place_of)
        places[view.pods.objects[position].key] = by_info[number]
    return places


def _place_of_row(shapes: Mapping[str, NodeShape]) -> dict[str, Place]:
    return {
        shape.node_name(number): (name, zone)
        for name, shape in shapes.items()
        for number, zone in enumerate(shape.zones)
    }


def _of_pod(scheduler: Scheduler, pod: Pod, place_of: Mapping[str, Place]) -> tuple[Place, ...]:
    framework = scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        return ()
    cycle = scheduler.cycle(framework.unasked(), pod)
    if cycle.gated:
        return ()
    if cycle.schedulable:
        return tuple(place_of[name] for name in cycle.passed.names)
    hangs_on_others = scheduler.cycle(framework.unasked(), without_others(pod)).schedulable
    return tuple(place_of.values()) if hangs_on_others else ()


def split_by_zone(shapes: Mapping[str, NodeShape], places: Places) -> dict[str, NodeShape]:
    """With a shape of its own for each zone where some pod has to be, such as that of its volume.

    Nodes of the others go to all zones in turn.
    """
    every = {name: frozenset(shape.zones) for name, shape in shapes.items()}
    needed: dict[str, set[str]] = {}
    for some in frozenset(places.values()):
        zones: dict[str, set[str]] = {}
        for name, zone in some:
            zones.setdefault(name, set()).add(zone)
        for name, own in zones.items():
            if own < every[name]:
                needed.setdefault(name, set()).update(own)
    return {
        **shapes,
        **{
            (alone := shape.only_in(zone)).name: alone
            for name, shape in shapes.items()
            for zone in sorted(needed.get(name, ()))
        },
    }


def takers_of(places: Places, shapes: Mapping[str, NodeShape]) -> Takers:
    """``shapes``: those of one zone of another, too."""
    of_place: dict[Place, list[str]] = {}
    for name, shape in shapes.items():
        for zone in shape.zones:
            of_place.setdefault((shape.of or name, zone), []).append(name)
    known = {
        some: tuple(dict.fromkeys(name for place in some for name in of_place[place])) for some in set(places.values())
    }
    return {pod: known[some] for pod, some in places.items()}
