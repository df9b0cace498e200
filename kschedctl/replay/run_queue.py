"""The scheduling queue worked off: which pod is tried when, what comes of it, and where the rest waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.cluster import Cluster
from kschedctl.replay import queue_run_report as reports
from kschedctl.replay.shared_cluster import cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.scheduler.engine.pod_groups.cycle import MemberResult
from kschedctl.scheduler.engine.rejectors import NONE
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.queue_run.pod_groups import QueuedPodGroups
from kschedctl.scheduler.queue_run.queue_run import CycleRecord, GroupRecord, QueueReplay
from kschedctl.scheduler.queueing.scheduling_loop import Failed
from kschedctl.scheduler.scheduler import Scheduler


def run_queue(cluster: Cluster, closed_loop: bool = False) -> reports.QueueRun:
    """Schedule the pods that wait for a node, in the order of the queue; time stands still.

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
    gated = _gated(loop)
    records = list(loop.closed_loop() if closed_loop else loop.open_loop())
    key, basis = _keys(loop), cluster_basis(find_simulation_unknowns(loop.pods), scheduler)
    return reports.QueueRun(
        cycles=tuple(_cycle(loop, record) for record in records),
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


def _gated(loop: QueueReplay) -> dict[str, reports.GatedPod]:
    gated_pods = {}
    for pod, _ in loop.queue:
        if pod.gated:
            _, status = loop.plugins.gate(pod)
            report = reports.GatedPod(pod.gating_plugin, status.code, status.reasons)
            gated_pods[loop.view.pods.objects[pod.position].key] = report
    return gated_pods


def _cycle(loop: QueueReplay, record: CycleRecord) -> reports.QueueCycle:
    key, nodes = _keys(loop), loop.view.nodes.names
    single = record.scheduled
    return reports.QueueCycle(
        popped=key(record.popped),
        bound={key(position): nodes[row] for position, row in record.bound.items()},
        failed={key(position): _failed(failure, nodes) for position, failure in record.failed.items()},
        waiting={key(position): nodes[row] for position, row in record.waiting.items()},
        victims=tuple(map(key, record.victims)),
        feasible=single.feasible if single else None,
        evaluated=single.evaluated if single else None,
        batched=single is not None and single.batched,
        nominations_cleared=tuple(map(key, record.cleared)),
        **_of_group(loop, record.group),
    )


class _GroupFields(TypedDict, total=False):
    group: str
    order: tuple[str, ...]
    status: reports.GroupStatus
    waiting_on_preemption: bool
    pods: tuple[reports.TriedMember, ...]
    condition: reports.GroupCondition | None
    groups: dict[str, reports.GroupOutcome]


def _of_group(loop: QueueReplay, record: GroupRecord | None) -> _GroupFields:
    """What a cycle tells of a pod group, nothing in the cycle of a single pod."""
    if record is None:
        return {}
    key, result, tried = _keys(loop), record.result, record.below or (record,)
    return {
        "group": "/".join(record.key),
        "order": tuple(map(key, record.order)),
        "status": reports.GroupStatus(result.status.code, result.message),
        "waiting_on_preemption": result.waiting_on_preemption,
        "pods": tuple(_tried(loop, member) for of in tried for member in of.result.members),
        "condition": _condition(record),
        "groups": {"/".join(of.key): _outcome(of) for of in record.below},
    }


def _condition(record: GroupRecord) -> reports.GroupCondition | None:
    return reports.GroupCondition(*record.condition) if record.condition else None


def _outcome(record: GroupRecord) -> reports.GroupOutcome:
    status = record.result.status
    return reports.GroupOutcome(reports.GroupStatus(status.code, record.result.message), _condition(record))


def _tried(loop: QueueReplay, member: MemberResult) -> reports.TriedMember:
    """Upstream tells of a Permit that succeeded only for pods that need no preemption."""
    waits = member.permit is not None and member.permit.code is Code.WAIT
    return reports.TriedMember(
        pod=_keys(loop)(member.position),
        code=member.status.code,
        node=loop.view.nodes.names[member.row] if member.row != NO_ROW else "",
        feasible=member.feasible,
        evaluated=member.evaluated,
        message=", ".join(member.status.reasons),
        permit=member.permit.code if member.permit and (member.placed or waits) else "",
        requires_preemption=member.requires_preemption,
    )


def _failed(failure: Failed, nodes: Sequence[str]) -> reports.FailedPod:
    return reports.FailedPod(
        failure.code,
        failure.message,
        nodes[failure.nominated] if failure.nominated not in (None, NO_ROW) else "",
        tuple(sorted((failure.rejectors or NONE).all)),
    )


def _keys(loop: QueueReplay) -> Callable[[Position], str]:
    pods = loop.view.pods.objects
    return lambda position: pods[position].key
