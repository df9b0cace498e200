"""The shapes of nodes that can take a pod, judged by the pod alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.commands.size.shapes import NodeShape, drop_pod_relations
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

Place = tuple[str, str]
"""A shape and one of its zones."""
Places = dict[str, tuple[Place, ...]]
"""The places where each pod can be."""
Takers = dict[str, tuple[str, ...]]
"""The shapes that take each pod."""


def find_places(view: Fork, shapes: Mapping[str, NodeShape]) -> Places:
    """Return the places of the pods of a cluster that has a node of each shape in each zone.

    A pod gets all places if none takes it alone but other pods may let it in.
    """
    scheduler, place_of = Scheduler(view.cluster), _index_places(shapes)
    by_info: dict[int, tuple[Place, ...]] = {}
    places: Places = {}
    for position in np.flatnonzero(view.node < 0).tolist():
        number = int(view.pods.info[position])
        if number not in by_info:
            by_info[number] = _find_pod_places(scheduler, view.pods.infos[number].pod, place_of)
        places[view.pods.objects[position].key] = by_info[number]
    return places


def _index_places(shapes: Mapping[str, NodeShape]) -> dict[str, Place]:
    return {
        shape.node_name(number): (name, zone)
        for name, shape in shapes.items()
        for number, zone in enumerate(shape.zones)
    }


def _find_pod_places(scheduler: Scheduler, pod: Pod, place_of: Mapping[str, Place]) -> tuple[Place, ...]:
    framework = scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        return ()
    cycle = scheduler.cycle(framework.without_extenders(), pod)
    if cycle.gated:
        return ()
    if cycle.schedulable:
        return tuple(place_of[name] for name in cycle.passed.names)
    depends_on_other_pods = scheduler.cycle(framework.without_extenders(), drop_pod_relations(pod)).schedulable
    return tuple(place_of.values()) if depends_on_other_pods else ()


def split_by_zone(shapes: Mapping[str, NodeShape], places: Places) -> dict[str, NodeShape]:
    """Return the shapes, with an additional shape per zone in which some pod has to be, for example because of its
    volume.

    Nodes of the other shapes go to all zones in turn.
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
            (alone := shape.limit_to_zone(zone)).name: alone
            for name, shape in shapes.items()
            for zone in sorted(needed.get(name, ()))
        },
    }


def find_takers(places: Places, shapes: Mapping[str, NodeShape]) -> Takers:
    """Return the shapes that take each pod, including shapes limited to one zone."""
    of_place: dict[Place, list[str]] = {}
    for name, shape in shapes.items():
        for zone in shape.zones:
            of_place.setdefault((shape.base_name or name, zone), []).append(name)
    known = {
        some: tuple(dict.fromkeys(name for place in some for name in of_place[place])) for some in set(places.values())
    }
    return {pod: known[some] for pod, some in places.items()}
