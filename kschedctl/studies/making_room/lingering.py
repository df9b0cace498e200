"""A plan in a cluster where evicted pods terminate while kube-scheduler tries the pods that are created instead.

All controllers but that of StatefulSets may create the other pod as soon as the first is being deleted. The node of
that one is cordoned, so that its requests keep nobody away; but pods count it that have affinity, or anti-affinity, to
such pods by zone, while spread constraints do not. Upstream: FilterActivePods in pkg/controller/controller_utils.go;
interpodaffinity, and countPodsMatchSelector of podtopologyspread, in pkg/scheduler/framework/plugins (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.basics.edits import with_pods
from kschedctl.studies.controllers.asked_pod import groups_of
from kschedctl.studies.making_room.rehearsal import Rehearsal
from kschedctl.studies.what_if.settling import after

EVICTED_AT = "2000-01-01T00:00:00Z"
"""Whether a pod is being deleted is asked, not since when."""


class PlanCourse(NamedTuple):
    """A plan to be played on a stage: for the pods of a unit, while others wait, too."""

    stage: Rehearsal
    unit: tuple[Position, ...]
    others: tuple[Position, ...]
    plan: tuple[Position, ...]


def lingering_course(course: PlanCourse) -> PlanCourse | None:
    """The same with those pods of the plan in the cluster that linger; None where that makes no difference."""
    stage, view = course.stage, course.stage.view
    lingers = [position for position in course.plan if _lingers(view, position)]
    if not lingers:
        return None
    leaving = {position: _leaving(view.pods.objects[position], _node(view, position)) for position in lingers}
    there = {(pod.metadata.namespace, pod.metadata.name): pod for pod in leaving.values()}
    scheduler = Scheduler(with_pods(after(stage.simulation()), there), stage.scheduler.call_extender)
    now = scheduler.view.fork()
    index = now.pods.index
    for pod in leaving.values():
        now.forget(index[pod.key])

    def moved(positions: Sequence[Position]) -> tuple[Position, ...]:
        return tuple(index[view.pods.objects[position].key] for position in positions)

    places = {moved([position])[0]: index[pod.key] for position, pod in leaving.items()}
    then = Rehearsal(scheduler, now, now.nodes.objects, seed=stage.seed, lingering=places)
    return PlanCourse(then, moved(course.unit), moved(course.others), moved(course.plan))


def _lingers(view: Fork, position: Position) -> bool:
    """Whether a pod may terminate slowly, and the one in its place has to do with pods like it.

    Members of gangs are left out, as these count them.
    """
    info = view.pods.infos[view.pods.info[position]]
    at_once = info.spec.termination_grace_period_seconds == 0
    if at_once or owner_of(info.pod).kind == "StatefulSet" or groups_of(info.pod):
        return False
    labels = view.namespace_labels.get(info.namespace, {})
    terms = (
        *(*info.required_affinity, *info.required_anti_affinity),
        *(*info.preferred_affinity, *info.preferred_anti_affinity),
    )
    return any(term.matches(info.namespace, info.labels, labels) for term in terms)


def _node(view: Fork, position: Position) -> str:
    return view.nodes.names[int(view.node[position])]


def _leaving(pod: Pod, node: str) -> Pod:
    """The pod on its node as it terminates, under a name of its own."""
    meta = pod.metadata
    name, uid = f"{meta.name}.terminating", f"{meta.uid}.terminating"
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=uid, deletion_timestamp=EVICTED_AT),
        spec=replace(pod.spec, node_name=node),
    )
