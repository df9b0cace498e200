"""Coscheduling: pods of a scheduler-plugins PodGroup are bound once enough of them have a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import NO_ROW, Counts, Position
from kschedctl.api.gangs import GangKey, find_coscheduling_gang
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import CoschedulingPodGroup, Pod
from kschedctl.api.quantity import MILLI, Quantity, QuantityError, parse_quantity
from kschedctl.api.resource_names import CPU, PODS
from kschedctl.api.times import format_go_duration
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import Rejectors, format_histogram
from kschedctl.scheduler.engine.permit import MAX_TIMEOUT_SECONDS, TIMED_OUT
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
from kschedctl.scheduler.engine.pod_groups.gangs import (
    GangPods,
    find_coscheduling_group,
    find_gang_pods,
    get_gang_minimum,
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
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    ADD,
    BY_THE_PLUGIN,
    POD,
    UPDATE,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import Int32, Int64
from kschedctl.scheduler.scheduler_plugins import PlacedIsReserved
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import agreeing, counted

KIND = "CoschedulingPodGroup"
TOO_FEW = "pre-filter pod {} cannot find enough sibling pods, current pods number: {}, minMember of group: {}"
GATED = "pre-filter pod {} cannot proceed due to gated pods in the same PodGroup"
NO_GROUP = "can not find pod group"
NOT_FOUND = "PodGroup not found"
FAILED = "podGroup {} failed recently"
REJECTED = "PodGroup {} gets rejected due to Pod {} is unschedulable even after PostFilter"
OPTIMISTIC = "optimistic rejection in PostFilter"
UNRESERVED = "rejection in Unreserve"
DEFAULT_WAIT_SECONDS = 60
"""Seconds a pod waits if neither its group nor the plugin's arguments set a time."""
LAST = "~"
"""A sort key greater than every timestamp, for objects that are not created yet."""
GRANTED_SECONDS = 3
"""Seconds for which a group counts as having its resources if permitWaitingTimeSeconds is 0."""
COMES_AFTER_OTHERS = ByVersion(
    "a pod group that failed is tried after younger groups",
    (("", False), ("1.34", True)),
    "https://github.com/kubernetes-sigs/scheduler-plugins: pkg/coscheduling/core/core.go of release-1.34",
)
COUNTS_GATED = ByVersion(
    "pods with scheduling gates count as missing from their pod group",
    (("", False), ("1.34", True)),
    "https://github.com/kubernetes-sigs/scheduler-plugins: pkg/coscheduling/core/core.go of release-1.34",
)


class CoschedulingArgs(PluginArgs, frozen=True):
    """Arguments of Coscheduling.

    Upstream: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go of scheduler-plugins.
    """

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for each negative time, and for a percentage that is not between 0 and 100."""
        # Upstream also accepts 0, although its messages say "greater than 0"
        if self.permit_waiting_time_seconds < 0:
            yield invalid("permitWaitingTimeSeconds", self.permit_waiting_time_seconds, "must be greater than 0")
        if self.pod_group_backoff_seconds < 0:
            yield invalid("podGroupBackoffSeconds", self.pod_group_backoff_seconds, "must be greater than 0")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            message = "must be between 0 and 100"
            yield invalid("podGroupRejectPercentage", self.pod_group_reject_percentage, message)


class _ExistingGang(NamedTuple):
    """A pod's PodGroup that exists in the cluster."""

    key: GangKey
    group: CoschedulingPodGroup

    @property
    def name(self) -> str:
        """The group's name with its namespace."""
        return f"{self.key.namespace}/{self.key.name}"


def _find_existing_gang(pod: Pod, view: Fork) -> _ExistingGang | None:
    """Return a pod's PodGroup, or None if the pod names none or the group does not exist."""
    key = find_coscheduling_gang(pod)
    group = find_coscheduling_group(view, key) if key else None
    return _ExistingGang(key, group) if key and group else None


class Coscheduling(PlacedIsReserved, DeclaredPlugin):
    """Plugin that lets the pods of a PodGroup wait until enough of them have a node.

    It rejects a pod if its group has too few pods or if the whole cluster lacks the group's minResources. The queue
    keeps the pods of a group next to each other. If a pod of the group fits on no node, the waiting pods are given up
    unless only a few are missing. Then other pods go first, and the group may have to back off.

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
        """Build the plugin for the profile's arguments and the version of kube-scheduler."""
        return cls(args, gates.release)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves the pods of this pod's group back to the active queue.

        The plugin has no queueing hints. Creating another pod of the group triggers no event, but the first pod that
        gets a node activates the other pods. Nothing is yielded for a pod without a group.
        """
        key = find_coscheduling_gang(info.pod)
        if key is None:
            return
        yield WakeTrigger(POD, ADD, "any pod gets a node")
        yield WakeTrigger(
            "CoschedulingPodGroup", ADD | UPDATE, f"any PodGroup is created or changed, {key.name} or another"
        )

        # While no pod of the group has a node, the first pod that gets one wakes the others.
        pods = find_gang_pods(view, key)
        missing_count = max((get_gang_minimum(view, key).least or 0) - pods.size, 0)
        is_any_assigned = len(pods.assigned) > 0
        unassigned_count = missing_count + len(pods.waiting)
        if not is_any_assigned and unassigned_count > 1:
            first_pod = f"a first pod of {key.name}"
            if missing_count:
                verb = agreeing(missing_count, "is", "are")
                first_pod = f"{counted(missing_count, 'more pod')} of {key.name} {verb} created and one of the group"
            yield WakeTrigger(POD, BY_THE_PLUGIN, f"{first_pod} gets a node: then the plugin retries the whole group")

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod is retried.

        These are pods that get a node, and new or changed PodGroups.
        """
        yield ClusterEventWithHint(POD, ActionType.ADD)
        yield ClusterEventWithHint(KIND, ActionType.ADD | ActionType.UPDATE)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on PodGroups if the pod's PodGroup does not exist."""
        if find_coscheduling_gang(info.pod) and _find_existing_gang(info.pod, view) is None:
            yield Dependency(KIND, Effect.REFUSES)

    def sort_keys(self, view: Fork, positions: Sequence[Position]) -> list[tuple[int, str, bool, int, str]]:
        """Return the sort key of each pod.

        Pods are sorted by priority, then by the group's creation or the pod's arrival.
        """
        return [self._build_sort_key(view, position, time) for time, position in enumerate(positions)]

    def _build_sort_key(self, view: Fork, position: Position, arrival: int) -> tuple[int, str, bool, int, str]:
        """Build a pod's key for `sort_keys`: priority, creation time and tie-breakers.

        `arrival` is the pod's place in the order of arrival. A pod of a group is sorted by the group's creation time,
        and goes before pods without a group that have the same time. A pod whose group does not exist counts as a pod
        without a group.
        """
        pod = view.pods.objects[position]
        priority = view.pods.get_info(position).priority
        gang = _find_existing_gang(pod, view)
        if gang is None:
            # The queue's times have nanoseconds and never tie. The arrival stands for what timestamps leave out.
            return -priority, pod.metadata.creation_timestamp or LAST, True, arrival, pod.key
        return -priority, gang.group.metadata.creation_timestamp or LAST, False, 0, pod.key

    def build_queue_key(self, pod: QueuedPod, view: Fork) -> tuple[int, bool, str | int, str]:
        """Build the key by which the queue sorts a pod: priority, then a time, then name.

        If the pod's group has failed (since 1.34), the time is its last failure. Otherwise, it is the group's creation
        time or, for a pod without a group, the time of the pod's first attempt. Creation times sort first, because they
        precede everything that happens in the queue.
        """
        waiting_pod = view.pods.objects[pod.position]
        failure_time = self._find_failure_time(waiting_pod, view)
        if failure_time is not None:
            return -pod.priority, True, failure_time, waiting_pod.key
        gang = _find_existing_gang(waiting_pod, view)
        if gang is None:
            return -pod.priority, True, pod.initial_attempt, waiting_pod.key
        return -pod.priority, False, gang.group.metadata.creation_timestamp or LAST, waiting_pod.key

    def _find_failure_time(self, pod: Pod, view: Fork) -> int | None:
        """Return the time of the last failure of the pod's group.

        Return None if the group has not failed, if the pod has no group, or if the order of the queue does not depend
        on failures.
        """
        key = find_coscheduling_gang(pod)
        if key is None or view.gang_history is None or not self._comes_after_others:
            return None
        return view.gang_history.failed.get(key)

    def find_gang(self, pod: Pod) -> GangKey | None:
        """Return the key of the pod's PodGroup, or None if the pod has none."""
        return find_coscheduling_gang(pod)

    def find_member_failures(
        self, result: GroupResult, members: Sequence[Position], view: Fork
    ) -> dict[Position, MemberFailure]:
        """Return the failure of each gang member that stays unscheduled, by position.

        Members that waited at Permit fail together. If the plugin gives up the group because another member fits on no
        node, all of them fail for this reason. Otherwise, the first of them times out, and the others fail because of
        its rejection, which ends their wait.
        """
        failures = find_failed_members(result, members, view)
        waited = [member.position for member in result.members if member.placed and member.position in failures]
        if not waited:
            return failures
        first, *other_members = waited
        first_info = view.pods.get_info(first)
        first_reason = self._find_wait_end_reason(result, first_info, view)
        other_reason = OPTIMISTIC if first_reason == OPTIMISTIC else UNRESERVED
        failures[first] = self._build_wait_failure(first_reason)
        for position in other_members:
            failures[position] = self._build_wait_failure(other_reason)
        return failures

    def _build_wait_failure(self, reason: str) -> MemberFailure:
        """Build the failure of a member whose wait at Permit was unsuccessful."""
        status = Status(Code.UNSCHEDULABLE, (format_histogram(1, {reason: 1}),))
        return MemberFailure(status, rejectors=Rejectors(frozenset((self.name,))))

    def _find_wait_end_reason(self, result: GroupResult, info: PodInfo, view: Fork) -> str:
        """Return the reason why the first waiting member stops waiting.

        The member is rejected if another member fits nowhere and the share of missing members exceeds
        podGroupRejectPercentage. Otherwise, it times out.
        """
        gang = _find_existing_gang(info.pod, view)
        assert gang is not None  # only pods of an existing group wait
        placed_count = sum(member.row != NO_ROW for member in result.members)
        is_any_rejected = any(member.row == NO_ROW and member.status.rejected for member in result.members)
        assigned_count = len(find_gang_pods(view, gang.key).assigned) + placed_count
        if is_any_rejected and self._lacks_many_members(gang, assigned_count):
            return OPTIMISTIC
        timeout = min(self.permit_timeout(info, view), MAX_TIMEOUT_SECONDS)
        return TIMED_OUT.format(format_go_duration(timeout), self.name)

    def permit_timeout(self, info: PodInfo, view: Fork) -> int:
        """Return the number of seconds that a pod waits at Permit.

        The pod's group sets this time or, if the group sets none, the plugin's arguments. If neither sets it, it is
        DEFAULT_WAIT_SECONDS.
        """
        gang = _find_existing_gang(info.pod, view)
        group_timeout = gang.group.spec.schedule_timeout_seconds if gang else None
        configured_timeout = self.args.permit_waiting_time_seconds
        if group_timeout is None:
            return configured_timeout or DEFAULT_WAIT_SECONDS
        # As in upstream, a group's timeout of 0 is replaced by the configured timeout, even if that is 0 as well.
        return group_timeout or configured_timeout

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        """Reject the pod if its group backs off, has too few pods or lacks resources in the whole cluster.

        A pod without an existing group passes. Resources are checked only if the group has minResources. If they
        suffice, the gang history records it so that the check is skipped for a while.
        """
        gang = _find_existing_gang(info.pod, view)
        if gang is None:
            return PreFilterResult(reads=Reads.NODES)

        history = view.gang_history  # None outside a replay of the queue
        if history and history.is_backing_off(gang.key):
            return _build_group_rejection(FAILED.format(gang.name))

        pods = find_gang_pods(view, gang.key)
        if reason := self._describe_pod_shortage(info, view, pods, gang.group):
            return _build_group_rejection(reason)

        is_check_skipped = history is not None and history.has_granted_resources(gang.key)
        if gang.group.spec.min_resources is None or is_check_skipped:
            return PreFilterResult()
        if gap := find_resource_gap(gang.group, view, pods):
            return _build_group_rejection(gap.message, gap.fact)
        if history:
            history.grant_resources(gang.key, self.args.permit_waiting_time_seconds or GRANTED_SECONDS)
        return PreFilterResult()

    def _describe_pod_shortage(self, info: PodInfo, view: Fork, pods: GangPods, group: CoschedulingPodGroup) -> str:
        """Return the message that the group has too few pods, or "" if it has enough.

        Since 1.34, pods with scheduling gates count as missing.
        """
        name = info.pod.metadata.name
        is_new = view.pods.find_position(info.pod.key) is None  # the pod does not exist yet, as in "what if"
        size = pods.size + 1 if is_new else pods.size
        min_member = group.spec.min_member
        if size < min_member:
            return TOO_FEW.format(name, size, min_member)
        if not self._counts_gated:
            return ""
        gated_count = pods.count_gated_pods(view)
        if is_new and info.spec.scheduling_gates:
            gated_count += 1
        return GATED.format(name) if size - gated_count < min_member else ""

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        """Return a rejection of the pod, because this plugin does not preempt.

        The reason is NO_GROUP for a pod without a group. If too many members of the group are missing, the reason says
        that the whole group is rejected. If only a few are missing, there is no reason.
        """
        pod = cycle.info.pod
        gang = _find_existing_gang(pod, cycle.view)
        if gang is None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, (NO_GROUP,)))
        if not self.find_reason_to_give_up(pod, cycle.view):
            return PostFilterResult(Status(Code.UNSCHEDULABLE, ()))
        return PostFilterResult(Status(Code.UNSCHEDULABLE, (REJECTED.format(gang.name, pod.metadata.name),)))

    def find_reason_to_give_up(self, pod: Pod, view: Fork) -> str:
        """Return the reason to give up the group's waiting pods because this pod fits nowhere.

        Return "" if they keep waiting, because only a few pods are missing, or if the pod has no group.
        """
        gang = _find_existing_gang(pod, view)
        if gang is None:
            return ""
        assigned_count = len(find_gang_pods(view, gang.key).assigned)
        return OPTIMISTIC if self._lacks_many_members(gang, assigned_count) else ""

    @property
    def sibling_rejection_reason(self) -> str:
        """The reason with which waiting pods are rejected after another pod of their group was rejected."""
        return UNRESERVED

    def record_failure(self, pod: Pod, view: Fork, *, fits_nowhere: bool = False) -> None:
        """Record that a pod's group failed. If `fits_nowhere` is true, a complete group must also back off.

        Set `fits_nowhere` if no node is feasible for the pod. A group is complete if at least minMember of its pods
        exist. Nothing is recorded for a pod without an existing group, or outside a replay of the queue.
        """
        gang = _find_existing_gang(pod, view)
        history = view.gang_history
        if gang is None or history is None:
            return
        if fits_nowhere and find_gang_pods(view, gang.key).size >= gang.group.spec.min_member:
            history.back_off(gang.key, self.args.pod_group_backoff_seconds)
        history.record_failure(gang.key)

    def handle_permit_result(self, pod: Pod, view: Fork, *, waits: bool) -> Sequence[Position]:
        """Record that a pod passed Permit, or return the pods to activate if it waits there.

        A pod passes if its group has enough pods, so an earlier failure of the group is removed from the view's
        history. If the pod waits and is the first pod of its group with a node, the other pods of the group are
        activated. Nothing happens for a pod without an existing group.
        """
        gang = _find_existing_gang(pod, view)
        if gang is None:
            return ()
        if not waits:
            if view.gang_history:
                view.gang_history.failed.pop(gang.key, None)
            return ()
        pods = find_gang_pods(view, gang.key)
        is_first_assigned = len(pods.assigned) == 1  # the pod that waits counts as assigned
        if not is_first_assigned:
            return ()
        return [Position(position) for position in pods.waiting.tolist()]

    def _lacks_many_members(self, gang: _ExistingGang, assigned: int) -> bool:
        """Return whether the share of missing members exceeds podGroupRejectPercentage.

        `assigned` is the number of members that have a node. Members are missing until this number reaches minMember.
        """
        min_member = gang.group.spec.min_member
        if assigned >= min_member:
            return False
        return (min_member - assigned) / min_member > self.args.pod_group_reject_percentage / 100.0

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        """Let the pod pass if it has no group or if enough pods of its group have a node. Otherwise, make it wait.

        A pod whose group does not exist is rejected. The pod itself counts as having a node.
        """
        if find_coscheduling_gang(info.pod) is None:
            return SUCCESS
        gang = _find_existing_gang(info.pod, view)
        if gang is None:
            return Status(Code.UNSCHEDULABLE, (NOT_FOUND,))
        pods = find_gang_pods(view, gang.key)
        assigned_count = len(pods.assigned)
        position = view.pods.find_position(info.pod.key)
        if position is None or position not in pods.assigned:  # the pod itself counts, too
            assigned_count += 1
        return SUCCESS if assigned_count >= gang.group.spec.min_member else Status(Code.WAIT)


def _build_group_rejection(reason: str, fact: str = "") -> PreFilterResult[None]:
    """Build a PreFilter result that rejects a pod on all nodes because of its group."""
    return PreFilterResult(Status(Code.UNRESOLVABLE, (reason,)), fact=fact)


class ResourceGap(NamedTuple):
    """Resources that a PodGroup requests and all nodes together lack."""

    message: str
    """The gap as upstream's message prints it."""
    fact: str
    """The gap as a sentence for users."""


def find_resource_gap(group: CoschedulingPodGroup, view: Fork, pods: GangPods) -> ResourceGap | None:
    """Return the amounts of the group's minResources that all nodes together lack, or None if they have enough.

    The group also requests `minMember` units of the resource "pods". As in upstream, the free amounts of a resource are
    added up node by node only until they cover the request. Overcommitted nodes after that point do not count. Raises
    InputError for invalid minResources.

    Upstream: CheckClusterResource in pkg/coscheduling/core/core.go of kubernetes-sigs/scheduler-plugins.
    """
    gaps = []
    facts = []
    for name, requested in sorted(_parse_min_resources(group).items()):
        column = view.resources.get(name)
        scale = MILLI if name == CPU else 0
        free_amounts = np.empty(0, np.int64)  # no node knows the resource
        if column is not None:
            free_amounts = _compute_free_amounts(view, pods, column)
        missing = _find_missing_amount(requested, free_amounts, scale)
        if missing is not None:
            free = Quantity(int(free_amounts.sum()), scale, requested.format)
            gaps.append(f"{name}:{_format_like_go(missing)}")
            facts.append(f"{name}: the group requests {requested}; all nodes together have {free} free")
    if not gaps:
        return None
    return ResourceGap(f"resource gap: map[{' '.join(gaps)}]", "; ".join(facts))


def _parse_min_resources(group: CoschedulingPodGroup) -> dict[str, Quantity]:
    """Parse a group's minResources, and add one unit of "pods" per member. Raises InputError for an invalid amount."""
    quantities = {}
    for name, amount in (group.spec.min_resources or {}).items():
        try:
            quantities[name] = parse_quantity(amount)
        except QuantityError as error:
            field = f"PodGroup {group.metadata.namespace}/{group.metadata.name}, spec.minResources"
            raise InputError(error.what, where=field, hint=error.hint) from None
    quantities[PODS] = Quantity(group.spec.min_member)
    return quantities


def _compute_free_amounts(view: Fork, pods: GangPods, column: int) -> Counts:
    """Return the free amount (N,) of a resource on each node, not counting the group's own pods.

    The amount is negative for an overcommitted node.
    """
    free = view.allocatable[:, column] - view.requested[:, column]
    is_placed = view.node[pods.assigned] >= 0
    placed = pods.assigned[is_placed]
    np.add.at(free, view.node[placed], view.get_requests(placed)[:, column])
    return free


def _find_missing_amount(requested: Quantity, free: Counts, scale: int) -> Quantity | None:
    """Return how much of a resource all nodes together lack, or None if upstream finds enough of it.

    Upstream adds up the nodes one by one and stops at the first sum that covers the request, so overcommitted nodes
    after that point do not count. `free` (N,) has the free amounts in units of `10**scale`, and is empty if no node has
    the resource.
    """
    if not len(free):
        return requested
    largest_running_sum = Quantity(int(np.cumsum(free).max()), scale)
    if requested.cmp(largest_running_sum) <= 0:
        return None
    if not free.any():  # then upstream prints the request as it is written
        return requested
    missing = requested.sub(Quantity(int(free.sum()), scale))
    return _rescale_quantity(missing, scale)


def _rescale_quantity(quantity: Quantity, scale: int) -> Quantity:
    """Convert a quantity of a larger scale to `scale`, as Quantity.Sub of Go does. A smaller scale is kept."""
    if quantity.scale <= scale:
        return quantity
    return Quantity(quantity.mantissa * 10 ** (quantity.scale - scale), scale, quantity.format)


def _format_like_go(quantity: Quantity) -> str:
    """Format a quantity as Go prints the struct Quantity with %v inside a map."""
    return f"{{{{{quantity.mantissa} {quantity.scale}}} {{<nil>}}  {quantity.format}}}"
