"""The plugins that rejected a pod, which the queue asks whether an event can help the pod.

Upstream: Diagnosis in pkg/scheduler/framework/types.go, findNodesThatFitPod in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.scheduler.engine.cycle import Cycle


class Rejectors(NamedTuple):
    """The plugins that rejected a pod."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    """Plugins that wait for an event of their own, after which the pod does not back off."""

    @property
    def all(self) -> frozenset[str]:
        """All plugins that rejected the pod."""
        return self.unschedulable | self.pending


NO_REJECTORS = Rejectors()


def find_rejectors(cycle: Cycle) -> Rejectors:
    """Return the plugins that reject in a finished cycle; none after an error or if the pod is schedulable."""
    if cycle.error is not None or cycle.schedulable:
        return NO_REJECTORS
    return Rejectors(cycle.unschedulable_plugins)
