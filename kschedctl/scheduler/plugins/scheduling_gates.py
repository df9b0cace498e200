"""SchedulingGates: pods that something still holds back."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.scheduler.queueing.events import POD, QUEUEING_HINTS, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo


class SchedulingGates(DeclaredPlugin):
    """Keeps a pod out of the queue while its spec.schedulingGates are not empty.

    Upstream: pkg/scheduler/framework/plugins/schedulinggates (v1.36).
    """

    name = "SchedulingGates"

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        gates = [gate.name for gate in info.spec.scheduling_gates]
        if not gates:
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{' '.join(gates)}]",))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        if gates.enabled(QUEUEING_HINTS):
            yield ClusterEventWithHint(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._after_release)

    def _after_release(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """The pod itself."""
        return same_pod(change.new, info.pod)
