"""A run of the scheduling queue: in which order pods are tried, with which result, and where the rest waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.cluster import Cluster
from kschedctl.replay import queue_run_report as reports
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS
from kschedctl.scheduler.engine.pod_groups.cycle import MemberResult
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.queue_run.pod_groups import QueuedPodGroups
from kschedctl.scheduler.queue_run.queue_run import CycleRecord, GroupRecord, QueueReplay
from kschedctl.scheduler.queueing.scheduling_loop import Failed
from kschedctl.scheduler.scheduler import Scheduler


def run_queue(cluster: Cluster, closed_loop: bool = False) -> reports.QueueRun:
    """Schedule the pending pods in the order of the queue, while time stands still.

    With ``closed_loop`` what a cycle does comes back as events before the next one, which may put pods back into the
    queue, until no pod is left to try; without it no binding is seen and no victim goes. Of equal nodes the first by
    name is taken. Raises InputError, ConfigurationError.

    >>> from kschedctl import Cluster, run_queue
    >>> pod = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}
    >>> run_queue(Cluster.from_objects([pod])).cycles[0].failed["shop/web"].message
    'no nodes available to schedule pods'
    """
    scheduler = Scheduler(cluster)
    loop = QueueReplay(scheduler, QueuedPodGroups(scheduler))
    loop.fill()
    gated = _report_gated(loop)
    records = list(loop.run_closed_loop() if closed_loop else loop.run_open_loop())
    key, basis = _key_getter(loop), build_cluster_basis(find_simulation_unknowns(loop.pods), scheduler)
    return reports.QueueRun(
        cycles=tuple(_report_cycle(loop, record) for record in records),
        gated=gated,
        queue_after={key(pod.position): place for pod, place in loop.queue},
        waiting_on_permit={
            key(p): loop.view.nodes.names[waiting.choice.row] for p, waiting in loop.waiting.pods.items()
        },
        closed_loop=closed_loop,
        not_replayed=basis["not_replayed"],
        ignored=basis["ignored"],
        unknown=basis["unknown"],
        undecided=basis["undecided"],
    )


def _report_gated(loop: QueueReplay) -> dict[str, reports.GatedPod]:
    """Return the reports on gated pods by key."""
    gated_pods = {}
    for pod, _ in loop.queue:
        if pod.gated:
            _, status = loop.plugins.run_pre_enqueue(pod)
            report = reports.GatedPod(pod.gating_plugin, status.code, status.reasons)
            gated_pods[loop.view.pods.objects[pod.position].key] = report
    return gated_pods


def _report_cycle(loop: QueueReplay, record: CycleRecord) -> reports.QueueCycle:
    """Build the report on one cycle."""
    key, nodes = _key_getter(loop), loop.view.nodes.names
    single = record.scheduled
    return reports.QueueCycle(
        popped=key(record.popped),
        bound={key(position): nodes[row] for position, row in record.bound.items()},
        failed={key(position): _report_failure(failure, nodes) for position, failure in record.failed.items()},
        waiting={key(position): nodes[row] for position, row in record.waiting.items()},
        victims=tuple(map(key, record.victims)),
        feasible=single.feasible if single else None,
        evaluated=single.evaluated if single else None,
        batched=single is not None and single.batched,
        nominations_cleared=tuple(map(key, record.cleared)),
        **_group_fields(loop, record.group),
    )


class _GroupFields(TypedDict, total=False):
    """The fields of a QueueCycle that are about a pod group."""

    group: str
    order: tuple[str, ...]
    status: reports.GroupStatus
    waiting_on_preemption: bool
    pods: tuple[reports.TriedMember, ...]
    condition: reports.GroupCondition | None
    groups: dict[str, reports.GroupOutcome]


def _group_fields(loop: QueueReplay, record: GroupRecord | None) -> _GroupFields:
    """Return the report fields about a pod group, or nothing for the cycle of a single pod."""
    if record is None:
        return {}
    key, result, tried_groups = _key_getter(loop), record.result, record.below or (record,)
    return {
        "group": "/".join(record.key),
        "order": tuple(map(key, record.order)),
        "status": reports.GroupStatus(result.status.code, result.message),
        "waiting_on_preemption": result.waiting_on_preemption,
        "pods": tuple(
            _report_member(loop, member) for tried_group in tried_groups for member in tried_group.result.members
        ),
        "condition": _report_condition(record),
        "groups": {"/".join(tried_group.key): _report_group(tried_group) for tried_group in record.below},
    }


def _report_condition(record: GroupRecord) -> reports.GroupCondition | None:
    """Return the condition that is written to a pod group, or None."""
    return reports.GroupCondition(*record.condition) if record.condition else None


def _report_group(record: GroupRecord) -> reports.GroupOutcome:
    """Build the report on one PodGroup of a CompositePodGroup."""
    status = record.result.status
    return reports.GroupOutcome(reports.GroupStatus(status.code, record.result.message), _report_condition(record))


def _report_member(loop: QueueReplay, member: MemberResult) -> reports.TriedMember:
    """Build the report on one tried member.

    Like upstream, a successful Permit is only reported for pods that need no preemption.
    """
    waits = member.permit is not None and member.permit.code is Code.WAIT
    return reports.TriedMember(
        pod=_key_getter(loop)(member.position),
        code=member.status.code,
        node=loop.view.nodes.names[member.row] if member.row != NO_ROW else "",
        feasible=member.feasible,
        evaluated=member.evaluated,
        message=", ".join(member.status.reasons),
        permit=member.permit.code if member.permit and (member.placed or waits) else "",
        requires_preemption=member.requires_preemption,
    )


def _report_failure(failure: Failed, nodes: Sequence[str]) -> reports.FailedPod:
    """Build the report on a pod that was not placed."""
    return reports.FailedPod(
        failure.code,
        failure.message,
        nodes[failure.nominated] if failure.nominated not in (None, NO_ROW) else "",
        tuple(sorted((failure.rejectors or NO_REJECTORS).all)),
    )


def _key_getter(loop: QueueReplay) -> Callable[[Position], str]:
    """Return a function that returns the key of the pod at a position."""
    pods = loop.view.pods.objects
    return lambda position: pods[position].key
