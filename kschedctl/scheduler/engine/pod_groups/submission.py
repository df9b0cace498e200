"""What becomes of the pods of a group after its cycle: bound, or put back with a reason and maybe a promised node.

Upstream: submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go (v1.36, v1.37).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.objects import PodGroup
from kschedctl.scheduler.engine.pod_groups.cycle import UNSCHEDULABLE_GROUP, GroupResult, MemberResult
from kschedctl.scheduler.engine.pod_groups.since_1_37 import CONDITION
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS, Rejectors
from kschedctl.scheduler.framework import Code, Status
from kschedctl.snapshot.fork import Fork


class MemberFailure(NamedTuple):
    """Why a pod of the group is not bound.

    ``nominated``: the row that it is promised, NO_ROW for none any more, None where that stays as it was.
    """

    status: Status
    nominated: Row | None = NO_ROW
    rejectors: Rejectors = NO_REJECTORS

    @property
    def message(self) -> str:
        return ", ".join(self.status.reasons)


class PodGroupCondition(NamedTuple):
    """What the scheduler writes into the status of the group; the fields are those of the API."""

    type: str
    status: str
    reason: str
    message: str


def bound_members(result: GroupResult) -> dict[Position, Row]:
    """The pods that are bound, and where."""
    return {member.position: member.row for member in result.members if member.placed} if result.placed else {}


def failed_members(result: GroupResult, members: Sequence[Position], view: Fork) -> dict[Position, MemberFailure]:
    """Members that failed, in the order of ``members``, some of which may not have been tried."""
    tried = {member.position: member for member in result.members}
    bound = bound_members(result)
    failure = _failure if result.promised is None else _failure_since_1_37
    return {member: failure(result, member, tried.get(member), view) for member in members if member not in bound}


def _failure(result: GroupResult, position: Position, member: MemberResult | None, view: Fork) -> MemberFailure:
    if result.status.code is Code.ERROR:
        return _error(result, member)
    if member is None:
        return MemberFailure(result.status, None)
    if member.placed and result.waiting_on_preemption:
        return MemberFailure(result.status, member.row)
    if member.permit is not None and not result.waiting_on_preemption:
        reasons = (UNSCHEDULABLE_GROUP, ", ".join(member.permit.reasons))
        return MemberFailure(Status(Code.UNSCHEDULABLE, reasons))
    return MemberFailure(member.status, _nominated(member, view), member.rejectors)


def _failure_since_1_37(
    result: GroupResult, position: Position, member: MemberResult | None, view: Fork
) -> MemberFailure:
    """It is nominated as the group preempts, not where it was placed meanwhile."""
    promised = (result.promised or {}).get(position)
    if result.status.code is Code.ERROR:
        return _error(result, member)
    if member is None:
        return MemberFailure(result.before_preemption or result.status, promised)
    if not member.placed:
        kept = _nominated(member, view) if promised is None else promised
        return MemberFailure(member.status, kept, member.rejectors)
    if result.waiting_on_preemption:
        return MemberFailure(result.status, promised)
    return MemberFailure(Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, result.message)))


def _error(result: GroupResult, member: MemberResult | None) -> MemberFailure:
    own = member is not None and member.status.code is Code.ERROR
    return MemberFailure(member.status if own and member else result.status)


def _nominated(member: MemberResult, view: Fork) -> Row | None:
    return None if member.nominated is None else Row(view.nodes.index.get(member.nominated, NO_ROW))


def written_condition(result: GroupResult, group: PodGroup | None, release: KubeVersion) -> PodGroupCondition | None:
    """What is written, if that is something new; a group that was scheduled once stays so, whatever comes later."""
    if group is None:
        return None
    condition = condition_of(result, CONDITION.at(release))
    before = next((known for known in group.status.conditions if known.type == condition.type), None)
    if before is None:
        return condition
    same = (before.status, before.reason, before.message) == (condition.status, condition.reason, condition.message)
    return None if same or (before.status == "True" and condition.status != "True") else condition


def condition_of(result: GroupResult, type_: str) -> PodGroupCondition:
    """What the scheduler says of the group."""
    if result.placed:
        return PodGroupCondition(type_, "True", "Scheduled", result.message)
    reason = "Unschedulable" if result.status.rejected else "SchedulerError"
    return PodGroupCondition(type_, "False", reason, result.message)
