"""Coscheduling: the pods of a PodGroup of scheduler-plugins are bound when enough of them have a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.gangs import GangKey, coscheduling_gang
from kschedctl.api.objects import CoschedulingPodGroup, Pod
from kschedctl.api.times import go_seconds
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.field_errors import invalid
from kschedctl.scheduler.configuration.plugin_args import PluginArgs
from kschedctl.scheduler.configuration.strict_decoding import Int32, Int64
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.framework import (
    SUCCESS,
    Changes,
    Code,
    PostFilterResult,
    PreFilterResult,
    Reads,
    Reservation,
    Status,
)
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.messages import histogram
from kschedctl.scheduler.pod_groups.cycle import GroupResult
from kschedctl.scheduler.pod_groups.gangs import coscheduling_group, gang_pods
from kschedctl.scheduler.pod_groups.submission import MemberFailure, failed_members
from kschedctl.scheduler.queueing.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.queueing.rejectors import Rejectors
from kschedctl.scheduler.scheduler_plugins.cluster_resources import resource_gap
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

KIND = "CoschedulingPodGroup"
TOO_FEW = "pre-filter pod {} cannot find enough sibling pods, current pods number: {}, minMember of group: {}"
GATED = "pre-filter pod {} cannot proceed due to gated pods in the same PodGroup"
NO_GROUP = "can not find pod group"
NOT_FOUND = "PodGroup not found"
REJECTED = "PodGroup {} gets rejected due to Pod {} is unschedulable even after PostFilter"
OPTIMISTIC = "optimistic rejection in PostFilter"
TIMED_OUT = "rejected due to timeout after waiting {} at plugin {}"
NOT_SAID = 60
"""Seconds to wait where neither the group nor the arguments say how long."""
LAST = "~"
"""Sorts after every time: of what is still to be created."""


class CoschedulingArgs(PluginArgs, frozen=True):
    """Upstream: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go of scheduler-plugins."""

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        if self.permit_waiting_time_seconds < 0:
            yield invalid("permitWaitingTimeSeconds", self.permit_waiting_time_seconds, "must be greater than 0")
        if self.pod_group_backoff_seconds < 0:
            yield invalid("podGroupBackoffSeconds", self.pod_group_backoff_seconds, "must be greater than 0")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            what = "must be between 0 and 100"
            yield invalid("podGroupRejectPercentage", self.pod_group_reject_percentage, what)


class Coscheduling(DeclaredPlugin):
    """Refuses a pod whose group lacks pods, or resources in the whole cluster; lets it wait until enough have nodes.

    Pods of a group are next to each other in the queue. When one fits nowhere those that wait are given up, unless few
    are missing. How long groups that were given up are left alone, and how long one waits, is time, which stands still.

    Upstream: pkg/coscheduling of kubernetes-sigs/scheduler-plugins.
    """

    name = "Coscheduling"
    points = ("queueSort",)
    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    args_type = CoschedulingArgs

    def __init__(self, args: CoschedulingArgs) -> None:
        self.args = args

    @classmethod
    def make(cls, args: CoschedulingArgs, gates: FeatureGates) -> Self:
        return cls(args)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.ADD)
        yield ClusterEventWithHint(KIND, ActionType.ADD | ActionType.UPDATE)

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        key = coscheduling_gang(info.pod)
        if key is not None and coscheduling_group(view, key) is None:
            yield Lean(KIND, Effect.REFUSES)

    def sort_keys(self, view: Fork, positions: Sequence[Position]) -> list[tuple[int, str, bool, int, str]]:
        """By priority, then by the age of the group, or when a pod without one came, then by the name of the pod."""
        return [self._sort_key(view, position, time) for time, position in enumerate(positions)]

    def _sort_key(self, view: Fork, position: Position, time: int) -> tuple[int, str, bool, int, str]:
        info = view.pods.infos[view.pods.info[position]]
        key = coscheduling_gang(info.pod)
        group = coscheduling_group(view, key) if key else None
        pod = view.pods.objects[position]
        if group is None:  # in the queue a time has nanoseconds, so that no two are the same
            return -info.priority, pod.metadata.creation_timestamp or LAST, True, time, pod.key
        return -info.priority, group.metadata.creation_timestamp or LAST, False, 0, pod.key

    def gang(self, pod: Pod) -> GangKey | None:
        return coscheduling_gang(pod)

    def failures(self, result: GroupResult, members: Sequence[Position], view: Fork) -> dict[Position, MemberFailure]:
        """Those that wait in vain are given up with one that fits nowhere, or else when their time is over."""
        found = failed_members(result, members, view)
        waited = {member.position for member in result.members if member.placed}
        if not waited & found.keys():
            return found
        reason = histogram(1, {self._end_of_wait(result, members[0], view): 1})
        plugin = frozenset((self.name,))
        ended = MemberFailure(Status(Code.UNSCHEDULABLE, (reason,)), rejectors=Rejectors(plugin))
        return {position: ended if position in waited else failure for position, failure in found.items()}

    def _end_of_wait(self, result: GroupResult, member: Position, view: Fork) -> str:
        key = coscheduling_gang(view.pods.infos[view.pods.info[member]].pod)
        group = coscheduling_group(view, key) if key else None
        assert key is not None  # nobody waits without
        assert group is not None
        placed = sum(each.row != NO_ROW for each in result.members)
        stuck = any(each.row == NO_ROW and each.status.rejected for each in result.members)
        if stuck and self._gives_up(group, len(gang_pods(view, key).assigned) + placed):
            return OPTIMISTIC
        own = group.spec.schedule_timeout_seconds
        return TIMED_OUT.format(go_seconds(own or self.args.permit_waiting_time_seconds or NOT_SAID), self.name)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        key = coscheduling_gang(info.pod)
        group = coscheduling_group(view, key) if key else None
        if key is None or group is None:
            return PreFilterResult(reads=Reads.NODES)
        if why := self._lacking(info, view, key, group):
            return PreFilterResult(Status(Code.UNRESOLVABLE, (why,)))
        gap = resource_gap(group, view, gang_pods(view, key)) if group.spec.min_resources is not None else None
        return PreFilterResult(Status(Code.UNRESOLVABLE, (gap.message,)), fact=gap.fact) if gap else PreFilterResult()

    def _lacking(self, info: PodInfo, view: Fork, key: GangKey, group: CoschedulingPodGroup) -> str:
        """Why too few pods of the group can be tried; empty where they are enough."""
        pods, name = gang_pods(view, key), info.pod.metadata.name
        asked = view.pods.position(info.pod.key) is None  # about a pod that is to be created
        size, least = pods.size + asked, group.spec.min_member
        if size < least:
            return TOO_FEW.format(name, size, least)
        gated = pods.gated(view) + (asked and bool(info.spec.scheduling_gates))
        return GATED.format(name) if least - size + gated > 0 else ""

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        pod, view = cycle.info.pod, cycle.view
        key = coscheduling_gang(pod)
        group = coscheduling_group(view, key) if key else None
        if key is None or group is None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, (NO_GROUP,)))
        if not self._gives_up(group, len(gang_pods(view, key).assigned)):
            return PostFilterResult(Status(Code.UNSCHEDULABLE))
        reason = REJECTED.format(f"{key.namespace}/{key.name}", pod.metadata.name)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, (reason,)))

    def _gives_up(self, group: CoschedulingPodGroup, assigned: int) -> bool:
        """Whether a pod that fits nowhere makes those of its group that wait be given up."""
        least = group.spec.min_member
        return assigned < least and (least - assigned) / least > self.args.pod_group_reject_percentage / 100.0

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        key = coscheduling_gang(info.pod)
        if key is None:
            return SUCCESS
        group = coscheduling_group(view, key)
        if group is None:
            return Status(Code.UNSCHEDULABLE, (NOT_FOUND,))
        pods = gang_pods(view, key)
        itself = view.pods.position(info.pod.key)
        assigned = len(pods.assigned) + (itself is None or itself not in pods.assigned)
        return SUCCESS if assigned >= group.spec.min_member else Status(Code.WAIT)

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: Any) -> Changes:
        """Who has a node follows from where the pods are."""
        return {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: Any) -> Reservation:
        return Reservation()
