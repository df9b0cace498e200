"""SchedulingGates: pods that something still holds back."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import (
    POD,
    UNSCHEDULABLE_POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    pod_actions,
    pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import WakeTrigger
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo


class SchedulingGates(DeclaredPlugin):
    """Keeps a pod out of the queue while its spec.schedulingGates are not empty.

    Upstream: pkg/scheduler/framework/plugins/schedulinggates (v1.36).
    """

    name = "SchedulingGates"
    without = "pods with scheduling gates are scheduled at once"

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        gates = [gate.name for gate in info.spec.scheduling_gates]
        if not gates:
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{' '.join(gates)}]",))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        if UNSCHEDULABLE_POD not in pre_checked_resources(gates):
            actions = pod_actions(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, gates)
            yield ClusterEventWithHint(POD, actions, self._after_release)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        names = [gate.name for gate in info.spec.scheduling_gates]
        released = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        yield WakeTrigger(POD, released, f"the last of its scheduling gates is removed: {', '.join(names)}")

    admitting_changes = waking_changes

    def _after_release(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """The pod itself, once no gate is left."""
        return same_pod(change.new, info.pod) and not change.new.spec.scheduling_gates
