"""The plugins that refused a pod, of which it is remembered until one of them sees reason to try again.

Upstream: Diagnosis in pkg/scheduler/framework/types.go, findNodesThatFitPod in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.scheduler.engine.cycle import Cycle


class Rejectors(NamedTuple):
    """``pending``: those that wait for something of their own; when it comes the pod does not back off."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.unschedulable | self.pending


NONE = Rejectors()


def rejectors_of(cycle: Cycle) -> Rejectors:
    """The plugins that reject in a finished cycle; none where a plugin failed, or where there is no node to refuse."""
    if cycle.error is not None or cycle.schedulable:
        return NONE
    return Rejectors(cycle.unschedulable_plugins)
