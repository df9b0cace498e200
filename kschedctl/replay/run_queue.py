"""A run of the scheduling queue and the report on it: the order of attempts, their results, and who still waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

import msgspec
from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.cluster import Cluster
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS
from kschedctl.scheduler.engine.pod_groups.cycle import MemberResult
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.queue_run.pod_groups import QueuedPodGroups
from kschedctl.scheduler.queue_run.queue_run import CycleRecord, GroupRecord, QueueReplay
from kschedctl.scheduler.queueing.scheduling_loop import Failed
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted


def run_queue(cluster: Cluster, closed_loop: bool = False) -> QueueRun:
    """Schedule the pending pods in the order of the queue, with the clock stopped, and report every cycle.

    With ``closed_loop``, the effects of each cycle return as events before the next cycle. These events may put pods
    back into the queue, until no pod is left to try. Without ``closed_loop``, the scheduler sees no bindings, and no
    victim leaves. Ties between nodes go to the first node by name. Raises InputError if a pod is invalid, and
    ConfigurationError if the scheduler's configuration is invalid.

    >>> from kschedctl import Cluster, run_queue
    >>> pod = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}
    >>> run_queue(Cluster.from_objects([pod])).cycles[0].failed["shop/web"].message
    'no nodes available to schedule pods'
    """
    scheduler = Scheduler(cluster)
    loop = QueueReplay(scheduler, QueuedPodGroups(scheduler))
    loop.fill_queue()
    gated = _report_gated_pods(loop)
    records = list(loop.replay_closed_loop() if closed_loop else loop.replay_open_loop())

    get_key = _build_key_getter(loop)
    waiting_on_permit = {}
    for position, waiting in loop.waiting.pods.items():
        waiting_on_permit[get_key(position)] = loop.view.nodes.names[waiting.choice.row]
    basis = build_cluster_basis(find_simulation_unknowns(loop.pods), scheduler)
    return QueueRun(
        cycles=tuple(_build_cycle_report(loop, record) for record in records),
        gated=gated,
        queue_after={get_key(pod.position): queue_name for pod, queue_name in loop.queue},
        waiting_on_permit=waiting_on_permit,
        closed_loop=closed_loop,
        not_replayed=basis["not_replayed"],
        ignored=basis["ignored"],
        unknown=basis["unknown"],
        undecided=basis["undecided"],
    )


def _report_gated_pods(loop: QueueReplay) -> dict[str, GatedPod]:
    """Build the reports on the gated pods in the queue, by pod key."""
    gated_pods = {}
    for pod, _queue_name in loop.queue:
        if pod.gated:
            _plugin, status = loop.plugins.run_pre_enqueue(pod)
            report = GatedPod(pod.gating_plugin, status.code, status.reasons)
            gated_pods[loop.view.pods.objects[pod.position].key] = report
    return gated_pods


def _build_cycle_report(loop: QueueReplay, record: CycleRecord) -> QueueCycle:
    """Build the report on one scheduling cycle, of a single pod or of a pod group.

    The node counts are None if the cycle chose no node.
    """
    get_key = _build_key_getter(loop)
    nodes = loop.view.nodes.names
    choice = record.scheduled
    return QueueCycle(
        popped=get_key(record.popped),
        bound={get_key(position): nodes[row] for position, row in record.bound.items()},
        failed={get_key(position): _build_failed_pod(failure, nodes) for position, failure in record.failed.items()},
        waiting={get_key(position): nodes[row] for position, row in record.waiting.items()},
        victims=tuple(map(get_key, record.victims)),
        feasible=choice.feasible if choice else None,
        evaluated=choice.evaluated if choice else None,
        batched=choice is not None and choice.batched,
        nominations_cleared=tuple(map(get_key, record.cleared)),
        **_build_group_fields(loop, record.group),
    )


class _GroupFields(TypedDict, total=False):
    """The fields of a QueueCycle that are about a pod group."""

    group: str
    order: tuple[str, ...]
    status: GroupStatus
    waiting_on_preemption: bool
    pods: tuple[TriedMember, ...]
    condition: GroupCondition | None
    groups: dict[str, GroupOutcome]


def _build_group_fields(loop: QueueReplay, record: GroupRecord | None) -> _GroupFields:
    """Build the report fields about a pod group. Return {} for the cycle of a single pod."""
    if record is None:
        return {}
    get_key = _build_key_getter(loop)
    result = record.result
    pod_groups = record.below or (record,)  # a group outside of a tree is its own only PodGroup
    members = [member for pod_group in pod_groups for member in pod_group.result.members]
    return {
        "group": "/".join(record.key),
        "order": tuple(map(get_key, record.order)),
        "status": GroupStatus(result.status.code, result.message),
        "waiting_on_preemption": result.waiting_on_preemption,
        "pods": tuple(_build_tried_member(loop, member) for member in members),
        "condition": _build_group_condition(record),
        "groups": {"/".join(tried_group.key): _report_child_group(tried_group) for tried_group in record.below},
    }


def _build_group_condition(record: GroupRecord) -> GroupCondition | None:
    """Build the report on the condition that the cycle writes to a pod group. Return None if it writes none."""
    return GroupCondition(*record.condition) if record.condition else None


def _report_child_group(record: GroupRecord) -> GroupOutcome:
    """Build the report on one PodGroup of a CompositePodGroup."""
    status = record.result.status
    return GroupOutcome(GroupStatus(status.code, record.result.message), _build_group_condition(record))


def _build_tried_member(loop: QueueReplay, member: MemberResult) -> TriedMember:
    """Build the report on one tried pod of a group.

    Like upstream, a Permit result is reported only for pods that are placed and for pods that are told to wait.
    """
    view = loop.view
    permit_code = ""
    if member.permit is not None and (member.placed or member.permit.code is Code.WAIT):
        permit_code = member.permit.code
    return TriedMember(
        pod=view.pods.objects[member.position].key,
        code=member.status.code,
        node=view.nodes.names[member.row] if member.row != NO_ROW else "",
        feasible=member.feasible,
        evaluated=member.evaluated,
        message=", ".join(member.status.reasons),
        permit=permit_code,
        requires_preemption=member.requires_preemption,
    )


def _build_failed_pod(failure: Failed, nodes: Sequence[str]) -> FailedPod:
    """Build the report on a pod that was not placed. ``nodes`` are the names of all nodes."""
    nominated = "" if failure.nominated is None or failure.nominated == NO_ROW else nodes[failure.nominated]
    rejectors = failure.rejectors or NO_REJECTORS
    return FailedPod(failure.code, message=failure.message, nominated=nominated, rejectors=tuple(sorted(rejectors.all)))


def _build_key_getter(loop: QueueReplay) -> Callable[[Position], str]:
    """Return a function that maps a position to the pod's key."""
    pods = loop.view.pods.objects
    return lambda position: pods[position].key


class GatedPod(Document, frozen=True):
    """A gated pod, with the first PreEnqueue plugin that rejects it and the reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class FailedPod(Document, frozen=True):
    """The result for a pod that was not placed."""

    code: str
    message: str
    nominated: str = ""
    """The node on which preemption makes room."""
    rejectors: tuple[str, ...] = ()
    """The plugins that rejected the pod."""


class GroupStatus(Document, frozen=True):
    """The result of a pod group's cycle."""

    code: str
    message: str = ""


class GroupCondition(Document, frozen=True):
    """A condition written to a pod group's status."""

    type: str
    status: str
    reason: str
    message: str = ""


class GroupOutcome(Document, frozen=True, omit_defaults=True):
    """The result for one PodGroup of a CompositePodGroup."""

    status: GroupStatus
    condition: GroupCondition | None = None


class TriedMember(Document, frozen=True):
    """The attempt to place one pod of a group, after the pods before it."""

    pod: str
    code: str
    node: str = ""
    """The node where the pod fits, or would fit after preemption."""
    feasible: int = 0
    """The number of evaluated nodes that fit."""
    evaluated: int = 0
    message: str = ""
    permit: str = ""
    """Permit's answer, Success or Wait; empty if it does not matter."""
    requires_preemption: bool = False


class QueueCycle(Document, frozen=True, omit_defaults=True):
    """One scheduling cycle of a pod or of a pod group."""

    popped: str
    """The pod that was next in the queue."""
    bound: dict[str, str] = {}
    """Pod -> node."""
    failed: dict[str, FailedPod] = {}
    victims: tuple[str, ...] = ()
    """Pods that are preempted."""
    feasible: int | None = None
    """The number of nodes that fit a single pod that was placed."""
    evaluated: int | None = None
    """The number of nodes that were evaluated for a single pod that was placed."""
    batched: bool = False
    """True if the pod got the node that the cycle of an identical pod found next best."""
    waiting: dict[str, str] = {}
    """Pod -> node on which Permit lets it wait; a later cycle binds it or lets it fail."""
    nominations_cleared: tuple[str, ...] = ()
    """Pods that lose their nominated node."""
    group: str = ""
    """The pod group, or the root of its CompositePodGroup."""
    order: tuple[str, ...] = ()
    """The order in which the group's pods were tried."""
    status: GroupStatus | None = None
    """The result of the pod group's cycle."""
    waiting_on_preemption: bool = False
    pods: tuple[TriedMember, ...] = ()
    condition: GroupCondition | None = None
    """The new condition of the pod group, if there is one."""
    groups: dict[str, GroupOutcome] = {}
    """The results for the PodGroups of a CompositePodGroup."""


class QueueRun(Report, frozen=True):
    """A run of the scheduling queue."""

    cycles: tuple[QueueCycle, ...]
    gated: dict[str, GatedPod] = msgspec.field(default_factory=dict)
    """Pods that no cycle tries."""
    queue_after: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod -> active, backoff or unschedulable, in the end."""
    waiting_on_permit: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod -> node that it holds without being bound."""
    closed_loop: bool = False
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    kind: str = "QueueRun"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the number of bound pods, and a sentence about cycles and waiting pods."""
        bound = sum(len(cycle.bound) for cycle in self.cycles)
        waiting = counted(len(self.queue_after), "pod")
        sentence = f"in {counted(len(self.cycles), 'cycle')}, {waiting} left in the queue{describe_doubt(self.unknown)}"
        return (f"{counted(bound, 'pod')} bound", sentence)

    @property
    def headline_names_unread(self) -> bool:
        """True, since the headline names the unread kinds."""
        return True

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with victims, the numbers of bound and waiting pods, and messages of waiting pods.

        A pod that is still queued has its last message. A gated pod has the reasons of its gate.
        """
        last_messages = {pod: "; ".join(gate.reasons) for pod, gate in self.gated.items()}
        for cycle in self.cycles:
            for pod, failure in cycle.failed.items():
                if pod in self.queue_after:
                    last_messages[pod] = failure.message
        figures = {"bound": sum(len(cycle.bound) for cycle in self.cycles), "waiting": len(self.queue_after)}
        victims = tuple(victim for cycle in self.cycles for victim in cycle.victims)
        pods = tuple(ShortPods(pods=1, such_as=pod, workload="", why=message) for pod, message in last_messages.items())
        return replace(summary, pods=pods, victims=victims, figures=figures)
