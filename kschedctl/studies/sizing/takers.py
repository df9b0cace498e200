"""Which shapes of nodes take a pod, as far as it alone decides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.sizing.shapes import NodeShape, without_others

Takers = dict[str, tuple[str, ...]]
"""Pod -> the shapes that take it."""


def takers_of(view: Fork, shapes: Mapping[str, NodeShape]) -> Takers:
    """Of the pods of a cluster that has a node of each shape in each of its zones.

    All shapes, where none takes it alone and other pods may let it in.
    """
    scheduler, shape_of = Scheduler(view.cluster), _shape_of_row(shapes)
    by_info: dict[int, tuple[str, ...]] = {}
    takers: Takers = {}
    for position in np.flatnonzero(view.node < 0).tolist():
        number = int(view.pods.info[position])
        if number not in by_info:
            by_info[number] = _of_pod(scheduler, view.pods.infos[number].pod, shapes, shape_of)
        takers[view.pods.objects[position].key] = by_info[number]
    return takers


def _shape_of_row(shapes: Mapping[str, NodeShape]) -> dict[str, str]:
    return {shape.node_name(number): name for name, shape in shapes.items() for number in range(len(shape.zones))}


def _of_pod(
    scheduler: Scheduler, pod: Pod, shapes: Mapping[str, NodeShape], shape_of: Mapping[str, str]
) -> tuple[str, ...]:
    framework = scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        return ()
    cycle = scheduler.cycle(framework.unasked(), pod)
    if cycle.gated:
        return ()
    if cycle.schedulable:
        return tuple(dict.fromkeys(shape_of[name] for name in cycle.passed.names))
    hangs_on_others = scheduler.cycle(framework.unasked(), without_others(pod)).schedulable
    return tuple(shapes) if hangs_on_others else ()
