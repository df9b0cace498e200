"""Plans in which evicted pods are still terminating while kube-scheduler tries their replacements.

The node of the terminating pod is cordoned, so its requests keep nobody away. But pods with affinity or anti-affinity
by zone count it, whereas spread constraints do not. Upstream: interpodaffinity, and countPodsMatchSelector of
podtopologyspread, in pkg/scheduler/framework/plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.commands.make_room.rehearsal import Rehearsal
from kschedctl.replay.controllers.eviction import (
    ObjectNames,
    as_terminating,
    find_jobs_that_wait,
    terminates_beside_replacement,
)
from kschedctl.replay.edits import change_pods
from kschedctl.replay.settling import build_resulting_cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork


class PlanCourse(NamedTuple):
    """A plan to be replayed, with the pods it is for and others that wait."""

    stage: Rehearsal
    unit: tuple[Position, ...]
    others: tuple[Position, ...]
    plan: tuple[Position, ...]


def add_terminating_pods(course: PlanCourse) -> PlanCourse | None:
    """Return the course with the pods that linger while terminating, or None if that makes no difference."""
    stage, view = course.stage, course.stage.view
    patient = find_jobs_that_wait(view.cluster)
    lingers = [position for position in course.plan if _may_linger(view, position, patient)]
    if not lingers:
        return None
    leaving = {
        position: as_terminating(view.pods.objects[position], _node_name(view, position)) for position in lingers
    }
    there = {(pod.metadata.namespace, pod.metadata.name): pod for pod in leaving.values()}
    scheduler = Scheduler(
        change_pods(build_resulting_cluster(stage.build_simulation()), there), stage.scheduler.call_extender
    )
    now = scheduler.view.fork()
    index = now.pods.index
    for pod in leaving.values():
        now.forget(index[pod.key])

    def moved(positions: Sequence[Position]) -> tuple[Position, ...]:
        return tuple(index[view.pods.objects[position].key] for position in positions)

    places = {moved([position])[0]: index[pod.key] for position, pod in leaving.items()}
    then = Rehearsal(scheduler, now, now.nodes.objects, seed=stage.seed, lingering=places)
    return PlanCourse(then, moved(course.unit), moved(course.others), moved(course.plan))


def _may_linger(view: Fork, position: Position, patient: ObjectNames) -> bool:
    """Return whether the pod may terminate slowly and its replacement has (anti-)affinity to pods like it."""
    info = view.pods.infos[view.pods.info[position]]
    if not terminates_beside_replacement(info.pod, patient):
        return False
    labels = view.namespace_labels.get(info.namespace, {})
    terms = (
        *(*info.required_affinity, *info.required_anti_affinity),
        *(*info.preferred_affinity, *info.preferred_anti_affinity),
    )
    return any(term.matches(info.namespace, info.labels, labels) for term in terms)


def _node_name(view: Fork, position: Position) -> str:
    return view.nodes.names[int(view.node[position])]
