"""Coscheduling: the pods of a PodGroup of scheduler-plugins are bound when enough of them have a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Self

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.gangs import GangKey, find_coscheduling_gang
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import CoschedulingPodGroup, Pod
from kschedctl.api.times import format_go_duration
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import Rejectors, format_histogram
from kschedctl.scheduler.engine.permit import MAX_TIMEOUT_SECONDS, TIMED_OUT
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
from kschedctl.scheduler.engine.pod_groups.gangs import (
    GangPods,
    find_coscheduling_group,
    find_gang_pods,
    find_gang_terms,
)
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, find_failed_members
from kschedctl.scheduler.engine.queued_pod import QueuedPod
from kschedctl.scheduler.framework import (
    SUCCESS,
    Code,
    PostFilterResult,
    PreFilterResult,
    Reads,
    Status,
)
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import invalid
from kschedctl.scheduler.framework.strict_decoding import Int32, Int64
from kschedctl.scheduler.framework.waking import ADD, BY_THE_PLUGIN, UPDATE, WakeTrigger
from kschedctl.scheduler.scheduler_plugins.cluster_resources import resource_gap
from kschedctl.scheduler.scheduler_plugins.placed_is_reserved import PlacedIsReserved
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

KIND = "CoschedulingPodGroup"
TOO_FEW = "pre-filter pod {} cannot find enough sibling pods, current pods number: {}, minMember of group: {}"
GATED = "pre-filter pod {} cannot proceed due to gated pods in the same PodGroup"
NO_GROUP = "can not find pod group"
NOT_FOUND = "PodGroup not found"
FAILED = "podGroup {} failed recently"
REJECTED = "PodGroup {} gets rejected due to Pod {} is unschedulable even after PostFilter"
OPTIMISTIC = "optimistic rejection in PostFilter"
UNRESERVED = "rejection in Unreserve"
NOT_SAID = 60
"""Seconds to wait where neither the group nor the arguments say how long."""
LAST = "~"
"""Sorts after every time: of what is still to be created."""
GRANTED_SECONDS = 3
"""For so long a group counts as having its resources where the arguments say that nobody waits."""
COMES_AFTER_OTHERS = ByVersion(
    "a group of Coscheduling that failed is tried after younger ones",
    (("", False), ("1.34", True)),
    "https://github.com/kubernetes-sigs/scheduler-plugins: pkg/coscheduling/core/core.go of release-1.34",
)
COUNTS_GATED = ByVersion(
    "Coscheduling counts pods with scheduling gates as missing",
    (("", False), ("1.34", True)),
    "https://github.com/kubernetes-sigs/scheduler-plugins: pkg/coscheduling/core/core.go of release-1.34",
)


class CoschedulingArgs(PluginArgs, frozen=True):
    """Upstream: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go of scheduler-plugins."""

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        if self.permit_waiting_time_seconds < 0:
            yield invalid("permitWaitingTimeSeconds", self.permit_waiting_time_seconds, "must be greater than 0")
        if self.pod_group_backoff_seconds < 0:
            yield invalid("podGroupBackoffSeconds", self.pod_group_backoff_seconds, "must be greater than 0")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            what = "must be between 0 and 100"
            yield invalid("podGroupRejectPercentage", self.pod_group_reject_percentage, what)


class _KnownGang(NamedTuple):
    """The group of a pod, which exists."""

    key: GangKey
    group: CoschedulingPodGroup

    @property
    def name(self) -> str:
        return f"{self.key.namespace}/{self.key.name}"


def _known_gang(pod: Pod, view: Fork) -> _KnownGang | None:
    key = find_coscheduling_gang(pod)
    group = find_coscheduling_group(view, key) if key else None
    return _KnownGang(key, group) if key and group else None


class Coscheduling(PlacedIsReserved, DeclaredPlugin):
    """Refuses a pod whose group lacks pods, or resources in the whole cluster; lets it wait until enough have nodes.

    Pods of a group are next to each other in the queue. When one fits nowhere those that wait are given up, unless few
    are missing; then others come before the group, and by the arguments it is left alone for some time.

    Upstream: pkg/coscheduling of kubernetes-sigs/scheduler-plugins.
    """

    name = "Coscheduling"
    changed = (
        COMES_AFTER_OTHERS,
        COUNTS_GATED,
    )
    points = ("queueSort",)
    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    args_type = CoschedulingArgs

    def __init__(self, args: CoschedulingArgs, release: KubeVersion) -> None:
        self.args = args
        self._comes_after_others = COMES_AFTER_OTHERS.at(release)
        self._counts_gated = COUNTS_GATED.at(release)

    @classmethod
    def make(cls, args: CoschedulingArgs, gates: FeatureGates) -> Self:
        return cls(args, gates.release)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """What wakes its pods, without hints. A created pod makes no event, but may be the first to get a node."""
        key = find_coscheduling_gang(info.pod)
        if key is None:
            return
        pods = find_gang_pods(view, key)
        missing = max((find_gang_terms(view, key).least or 0) - pods.size, 0)
        yield WakeTrigger(POD, ADD, "any pod gets a node")
        yield WakeTrigger(
            "CoschedulingPodGroup", ADD | UPDATE, f"any PodGroup is created or changed, {key.name} or another"
        )
        if not len(pods.assigned) and missing + len(pods.waiting) > 1:
            first = f"{missing:,} more of {key.name} are created and one" if missing else f"a first pod of {key.name}"
            yield WakeTrigger(POD, BY_THE_PLUGIN, f"{first} gets a node: then the plugin has all of them tried")

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.ADD)
        yield ClusterEventWithHint(KIND, ActionType.ADD | ActionType.UPDATE)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        if find_coscheduling_gang(info.pod) and _known_gang(info.pod, view) is None:
            yield Dependency(KIND, Effect.REFUSES)

    def sort_keys(self, view: Fork, positions: Sequence[Position]) -> list[tuple[int, str, bool, int, str]]:
        """By priority, then by the age of the group, or when a pod without one came, then by the name of the pod."""
        return [self._sort_key(view, position, time) for time, position in enumerate(positions)]

    def _sort_key(self, view: Fork, position: Position, time: int) -> tuple[int, str, bool, int, str]:
        pod, priority = view.pods.objects[position], view.pods.infos[view.pods.info[position]].priority
        gang = _known_gang(pod, view)
        if gang is None:  # in the queue a time has nanoseconds, so that no two are the same
            return -priority, pod.metadata.creation_timestamp or LAST, True, time, pod.key
        return -priority, gang.group.metadata.creation_timestamp or LAST, False, 0, pod.key

    def queue_key(self, pod: QueuedPod, view: Fork) -> tuple[int, bool, str | int, str]:
        """By priority, then by the age of the group, or when it failed last, or else when the pod could be tried first.

        Whatever waits was created before the queue is worked off.
        """
        waiting = view.pods.objects[pod.position]
        key, gang = find_coscheduling_gang(waiting), _known_gang(waiting, view)
        failed = view.gang_history.failed.get(key) if key and view.gang_history and self._comes_after_others else None
        if gang is None or failed is not None:
            return -pod.priority, True, pod.initial_attempt if failed is None else failed, waiting.key
        return -pod.priority, False, gang.group.metadata.creation_timestamp or LAST, waiting.key

    def gang(self, pod: Pod) -> GangKey | None:
        return find_coscheduling_gang(pod)

    def failures(self, result: GroupResult, members: Sequence[Position], view: Fork) -> dict[Position, MemberFailure]:
        """Pods that wait in vain are given up with one that fits nowhere, or else when their time is over."""
        messages = find_failed_members(result, members, view)
        waited = [member.position for member in result.members if member.placed and member.position in messages]
        if waited:
            first = self._end_of_wait(result, view.pods.infos[view.pods.info[waited[0]]], view)
            others = OPTIMISTIC if first == OPTIMISTIC else UNRESERVED
            messages |= {position: self._given_up(others) for position in waited[1:]}
            messages[waited[0]] = self._given_up(first)
        return messages

    def _given_up(self, reason: str) -> MemberFailure:
        status = Status(Code.UNSCHEDULABLE, (format_histogram(1, {reason: 1}),))
        return MemberFailure(status, rejectors=Rejectors(frozenset((self.name,))))

    def _end_of_wait(self, result: GroupResult, info: PodInfo, view: Fork) -> str:
        """Why the first that waits leaves."""
        gang = _known_gang(info.pod, view)
        assert gang is not None  # nobody waits without
        placed = sum(member.row != NO_ROW for member in result.members)
        stuck = any(member.row == NO_ROW and member.status.rejected for member in result.members)
        if stuck and self._lacks_many(gang, len(find_gang_pods(view, gang.key).assigned) + placed):
            return OPTIMISTIC
        return TIMED_OUT.format(
            format_go_duration(min(self.permit_timeout(info, view), MAX_TIMEOUT_SECONDS)), self.name
        )

    def permit_timeout(self, info: PodInfo, view: Fork) -> int:
        """The seconds that a pod waits: as its group says, else the arguments."""
        gang = _known_gang(info.pod, view)
        own = gang.group.spec.schedule_timeout_seconds if gang else None
        if own is None and not self.args.permit_waiting_time_seconds:
            return NOT_SAID
        return own or self.args.permit_waiting_time_seconds

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        gang = _known_gang(info.pod, view)
        if gang is None:
            return PreFilterResult(reads=Reads.NODES)
        pods, group, history = find_gang_pods(view, gang.key), gang.group, view.gang_history
        if history and history.is_backing_off(gang.key):
            return PreFilterResult(Status(Code.UNRESOLVABLE, (FAILED.format(gang.name),)))
        if why := self._lacking(info, view, pods, group):
            return PreFilterResult(Status(Code.UNRESOLVABLE, (why,)))
        if group.spec.min_resources is None or (history and history.is_granted(gang.key)):
            return PreFilterResult()
        if gap := resource_gap(group, view, pods):
            return PreFilterResult(Status(Code.UNRESOLVABLE, (gap.message,)), fact=gap.fact)
        if history:
            history.grant(gang.key, self.args.permit_waiting_time_seconds or GRANTED_SECONDS)
        return PreFilterResult()

    def _lacking(self, info: PodInfo, view: Fork, pods: GangPods, group: CoschedulingPodGroup) -> str:
        """Why too few pods of the group can be tried; empty where they are enough."""
        name = info.pod.metadata.name
        asked = view.pods.find_position(info.pod.key) is None  # about a pod that is to be created
        size, least = pods.size + asked, group.spec.min_member
        if size < least:
            return TOO_FEW.format(name, size, least)
        if not self._counts_gated:
            return ""
        gated = pods.count_gated(view) + (asked and bool(info.spec.scheduling_gates))
        return GATED.format(name) if least - size + gated > 0 else ""

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        gang = _known_gang(cycle.info.pod, cycle.view)
        if gang is None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, (NO_GROUP,)))
        reason = REJECTED.format(gang.name, cycle.info.pod.metadata.name)
        return PostFilterResult(
            Status(Code.UNSCHEDULABLE, (reason,) if self.gives_up(cycle.info.pod, cycle.view) else ())
        )

    def gives_up(self, pod: Pod, view: Fork) -> str:
        gang = _known_gang(pod, view)
        lacks_many = gang and self._lacks_many(gang, len(find_gang_pods(view, gang.key).assigned))
        return OPTIMISTIC if lacks_many else ""

    @property
    def after_another(self) -> str:
        return UNRESERVED

    def failed(self, pod: Pod, view: Fork, *, fits_nowhere: bool = False) -> None:
        """Where one fits nowhere though all pods are there, the group is left alone as long as the arguments say."""
        gang, history = _known_gang(pod, view), view.gang_history
        if gang is None or history is None:
            return
        if fits_nowhere and find_gang_pods(view, gang.key).size >= gang.group.spec.min_member:
            history.back_off(gang.key, self.args.pod_group_backoff_seconds)
        history.fail(gang.key)

    def permitted(self, pod: Pod, view: Fork, *, waits: bool) -> Sequence[Position]:
        """The first of a group to get a node has the others tried; once enough have one it has not failed any more."""
        gang = _known_gang(pod, view)
        if gang is None:
            return ()
        pods = find_gang_pods(view, gang.key)
        if waits:
            return [Position(position) for position in pods.waiting.tolist()] if len(pods.assigned) == 1 else ()
        if view.gang_history:
            view.gang_history.failed.pop(gang.key, None)
        return ()

    def _lacks_many(self, gang: _KnownGang, assigned: int) -> bool:
        """Whether so many are missing that a pod which fits nowhere makes those of its group that wait be given up."""
        least = gang.group.spec.min_member
        return assigned < least and (least - assigned) / least > self.args.pod_group_reject_percentage / 100.0

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        if find_coscheduling_gang(info.pod) is None:
            return SUCCESS
        gang = _known_gang(info.pod, view)
        if gang is None:
            return Status(Code.UNSCHEDULABLE, (NOT_FOUND,))
        pods = find_gang_pods(view, gang.key)
        itself = view.pods.find_position(info.pod.key)
        assigned = len(pods.assigned) + (itself is None or itself not in pods.assigned)
        return SUCCESS if assigned >= gang.group.spec.min_member else Status(Code.WAIT)
