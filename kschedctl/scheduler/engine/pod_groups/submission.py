"""What becomes of the pods of a group after its cycle: bound, or put back with a reason and maybe a promised node.

Upstream: submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.objects import PodGroup
from kschedctl.scheduler.engine.pod_groups.cycle import UNSCHEDULABLE_GROUP, GroupResult, MemberResult
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors
from kschedctl.scheduler.framework import Code, Status
from kschedctl.snapshot.fork import Fork

SCHEDULED_CONDITION = "PodGroupScheduled"


class MemberFailure(NamedTuple):
    """Why a pod of the group is not bound.

    ``nominated``: the row that it is promised, NO_ROW for none any more, None where that stays as it was.
    """

    status: Status
    nominated: Row | None = NO_ROW
    rejectors: Rejectors = NONE

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
    return {member: _failure(result, tried.get(member), view) for member in members if member not in bound}


def _failure(result: GroupResult, member: MemberResult | None, view: Fork) -> MemberFailure:
    if result.status.code is Code.ERROR:
        own = member is not None and member.status.code is Code.ERROR
        return MemberFailure(member.status if own and member else result.status)
    if member is None:
        return MemberFailure(result.status, None)
    if member.placed and result.waiting_on_preemption:
        return MemberFailure(result.status, member.row)
    if member.permit is not None and not result.waiting_on_preemption:
        reasons = (UNSCHEDULABLE_GROUP, ", ".join(member.permit.reasons))
        return MemberFailure(Status(Code.UNSCHEDULABLE, reasons))
    return MemberFailure(member.status, _nominated(member, view), member.rejectors)


def _nominated(member: MemberResult, view: Fork) -> Row | None:
    return None if member.nominated is None else Row(view.nodes.index.get(member.nominated, NO_ROW))


def written_condition(result: GroupResult, group: PodGroup | None) -> PodGroupCondition | None:
    """What is written, if that is something new; a group that was scheduled once stays so, whatever comes later."""
    if group is None:
        return None
    condition = condition_of(result)
    before = next((known for known in group.status.conditions if known.type == condition.type), None)
    if before is None:
        return condition
    same = (before.status, before.reason, before.message) == (condition.status, condition.reason, condition.message)
    return None if same or (before.status == "True" and condition.status != "True") else condition


def condition_of(result: GroupResult) -> PodGroupCondition:
    """What the scheduler says of the group."""
    if result.placed:
        return PodGroupCondition(SCHEDULED_CONDITION, "True", "Scheduled", result.message)
    reason = "Unschedulable" if result.status.rejected else "SchedulerError"
    return PodGroupCondition(SCHEDULED_CONDITION, "False", reason, result.message)
