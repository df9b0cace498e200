"""The submission of a pod-group cycle's result: pods are bound, or put back with a reason and perhaps a nomination.

Upstream: submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go (v1.36, v1.37).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.objects import PodGroup
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors
from kschedctl.scheduler.engine.pod_groups.cycle import UNSCHEDULABLE_GROUP, GroupResult, MemberResult
from kschedctl.scheduler.engine.pod_groups.since_1_37 import CONDITION
from kschedctl.scheduler.framework import Code, Status
from kschedctl.snapshot.fork import Fork


class MemberFailure(NamedTuple):
    """The reason why a pod of the group is not bound, and its nomination afterwards."""

    status: Status
    nominated: Row | None = NO_ROW
    """The nominated row, NO_ROW if the nomination is cleared, or None if it stays as it was."""
    rejectors: Rejectors = NO_REJECTORS

    @property
    def message(self) -> str:
        """The reasons of the status as text."""
        return ", ".join(self.status.reasons)


class PodGroupCondition(NamedTuple):
    """The condition that the scheduler writes into the group's status, with the API's fields."""

    type: str
    status: str
    reason: str
    message: str


def find_bound_members(result: GroupResult) -> dict[Position, Row]:
    """Return the members that are bound, with their rows. No member is bound if the group does not fit."""
    return {member.position: member.row for member in result.members if member.placed} if result.placed else {}


def find_failed_members(result: GroupResult, members: Sequence[Position], view: Fork) -> dict[Position, MemberFailure]:
    """Return the failure of each member that is not bound, in the order of `members`.

    Members that were not tried fail for the group's reason.
    """
    tried = {member.position: member for member in result.members}
    bound = find_bound_members(result)
    # Only results of v1.37 or later have nominations for the group as a whole.
    build_failure = _build_failure_before_1_37 if result.nominated_rows is None else _build_failure_since_1_37
    failures = {}
    for member in members:
        if member not in bound:
            failures[member] = build_failure(result, member, tried.get(member), view)
    return failures


def _build_failure_before_1_37(
    result: GroupResult, position: Position, member: MemberResult | None, view: Fork
) -> MemberFailure:
    """Build a member's failure as versions before v1.37 report it. Only newer versions need its `position`.

    `member` is None if the pod was not tried. The first case that applies decides:

    - After an error of the group, the failure is the member's own error or, if it has none, the group's error.
    - A member that was not tried fails with the group's status.
    - If the group waits for preemption, a placed member fails with the group's status and is nominated for its node.
    - A member that fits, although too few others do, is Unschedulable because of its group.
    - Any other member fails with its own status.
    """
    if result.status.code is Code.ERROR:
        return _build_error_failure(result, member)
    if member is None:
        return MemberFailure(result.status, nominated=None)
    if member.placed and result.waiting_on_preemption:
        return MemberFailure(result.status, member.row)
    if member.permit is not None and not result.waiting_on_preemption:  # it fits, but too few others do
        reasons = (UNSCHEDULABLE_GROUP, ", ".join(member.permit.reasons))
        return MemberFailure(Status(Code.UNSCHEDULABLE, reasons))
    return MemberFailure(member.status, _find_nominated_row(member, view), member.rejectors)


def _build_failure_since_1_37(
    result: GroupResult, position: Position, member: MemberResult | None, view: Fork
) -> MemberFailure:
    """Build a member's failure as versions since v1.37 report it.

    `member` is None if the pod was not tried. If the group preempts, the member is nominated for the node that it will
    get. The first case that applies decides:

    - After an error of the group, the failure is the member's own error or, if it has none, the group's error.
    - A member that was not tried fails with the status that the group had before preemption.
    - A member without a node fails with its own status.
    - If the group waits for preemption, a placed member fails with the group's status.
    - Any other placed member is Unschedulable because its group does not fit.
    """
    nominated_row = (result.nominated_rows or {}).get(position)
    if result.status.code is Code.ERROR:
        return _build_error_failure(result, member)
    if member is None:
        return MemberFailure(result.before_preemption or result.status, nominated_row)
    if not member.placed:
        nomination = _find_nominated_row(member, view) if nominated_row is None else nominated_row
        return MemberFailure(member.status, nomination, member.rejectors)
    if result.waiting_on_preemption:
        return MemberFailure(result.status, nominated_row)
    return MemberFailure(Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, result.message)))


def _build_error_failure(result: GroupResult, member: MemberResult | None) -> MemberFailure:
    """Build the failure of a member whose group ended with an error.

    The failure is the error of the member or, if the member has none, the error of the group.
    """
    if member is not None and member.status.code is Code.ERROR:
        return MemberFailure(member.status)
    return MemberFailure(result.status)


def _find_nominated_row(member: MemberResult, view: Fork) -> Row | None:
    """Return the member's nominated row, or NO_ROW if the nomination is cleared.

    Return None if the nomination stays as it was.
    """
    if member.nominated is None:
        return None
    return Row(view.nodes.index.get(member.nominated, NO_ROW))


def find_new_condition(result: GroupResult, group: PodGroup | None, release: KubeVersion) -> PodGroupCondition | None:
    """Return the condition to write into the group's status, or None if the status stays as it is.

    The status stays if the condition has not changed or if the group's object does not exist. A condition that the
    group is scheduled stays even if the group is not scheduled now.
    """
    if group is None:
        return None
    condition = build_group_condition(result, CONDITION.at(release))
    old = next((existing for existing in group.status.conditions if existing.type == condition.type), None)
    if old is None:
        return condition
    is_unchanged = (old.status, old.reason, old.message) == (condition.status, condition.reason, condition.message)
    is_only_old_scheduled = old.status == "True" and condition.status != "True"
    return None if is_unchanged or is_only_old_scheduled else condition


def build_group_condition(result: GroupResult, type_: str) -> PodGroupCondition:
    """Build the group's condition of this type from the result of its cycle."""
    if result.placed:
        return PodGroupCondition(type_, "True", "Scheduled", result.message)
    reason = "Unschedulable" if result.status.rejected else "SchedulerError"
    return PodGroupCondition(type_, "False", reason, result.message)
