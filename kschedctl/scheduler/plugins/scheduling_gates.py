"""SchedulingGates: pods that something still holds back."""

from __future__ import annotations

from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.snapshot.fork import Fork
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
