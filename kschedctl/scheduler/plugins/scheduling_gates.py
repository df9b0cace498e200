"""SchedulingGates plugin: keeps pods with scheduling gates out of the queue."""

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
    WakeTrigger,
    list_pre_checked_resources,
    resolve_pod_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo


class SchedulingGates(DeclaredPlugin):
    """Plugin that keeps a pod out of the queue while its spec.schedulingGates are not empty.

    Upstream: pkg/scheduler/framework/plugins/schedulinggates (v1.36).
    """

    name = "SchedulingGates"
    without = "pods with scheduling gates are scheduled at once"

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success if the pod has no scheduling gates, otherwise a rejection that names them."""
        gates = [gate.name for gate in info.spec.scheduling_gates]
        if not gates:
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{' '.join(gates)}]",))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the event that the pod's scheduling gates are removed, unless the queue checks pod updates itself."""
        if UNSCHEDULABLE_POD not in list_pre_checked_resources(gates):
            actions = resolve_pod_actions(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, gates)
            yield ClusterEventWithHint(POD, actions, self._is_schedulable_after_gates_eliminated)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of the change that lets the pod into the queue: the removal of its last gate."""
        names = [gate.name for gate in info.spec.scheduling_gates]
        gates_eliminated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        yield WakeTrigger(POD, gates_eliminated, f"the last of its scheduling gates is removed: {', '.join(names)}")

    iter_admitting_changes = iter_waking_changes

    def _is_schedulable_after_gates_eliminated(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the pod itself was updated and has no scheduling gate left."""
        return is_same_pod(change.new, info.pod) and not change.new.spec.scheduling_gates
