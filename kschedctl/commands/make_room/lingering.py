"""A plan in a cluster where evicted pods terminate while kube-scheduler tries the pods that are created instead.

The node of the one that terminates is cordoned, so that its requests keep nobody away; but pods count it that have
affinity, or anti-affinity, to such pods by zone, while spread constraints do not. Upstream: interpodaffinity, and
countPodsMatchSelector of podtopologyspread, in pkg/scheduler/framework/plugins (v1.36).
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
    """A plan to be played on a stage: for the pods of a unit, while others wait, too."""

    stage: Rehearsal
    unit: tuple[Position, ...]
    others: tuple[Position, ...]
    plan: tuple[Position, ...]


def lingering_course(course: PlanCourse) -> PlanCourse | None:
    """The same with those pods of the plan in the cluster that linger; None where that makes no difference."""
    stage, view = course.stage, course.stage.view
    patient = find_jobs_that_wait(view.cluster)
    lingers = [position for position in course.plan if _lingers(view, position, patient)]
    if not lingers:
        return None
    leaving = {position: as_terminating(view.pods.objects[position], _node(view, position)) for position in lingers}
    there = {(pod.metadata.namespace, pod.metadata.name): pod for pod in leaving.values()}
    scheduler = Scheduler(
        change_pods(build_resulting_cluster(stage.simulation()), there), stage.scheduler.call_extender
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


def _lingers(view: Fork, position: Position, patient: ObjectNames) -> bool:
    """Whether a pod may terminate slowly, and the one in its place has to do with pods like it."""
    info = view.pods.infos[view.pods.info[position]]
    if not terminates_beside_replacement(info.pod, patient):
        return False
    labels = view.namespace_labels.get(info.namespace, {})
    terms = (
        *(*info.required_affinity, *info.required_anti_affinity),
        *(*info.preferred_affinity, *info.preferred_anti_affinity),
    )
    return any(term.matches(info.namespace, info.labels, labels) for term in terms)


def _node(view: Fork, position: Position) -> str:
    return view.nodes.names[int(view.node[position])]
