"""The plugins that refused a pod, of which it is remembered until one of them sees reason to try again.

Upstream: Diagnosis in pkg/scheduler/framework/types.go, findNodesThatFitPod in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.framework import Code


class Rejectors(NamedTuple):
    """``pending``: those that wait for something of their own; when it comes the pod does not back off."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.unschedulable | self.pending


NONE = Rejectors()


def rejectors_of(cycle: Cycle) -> Rejectors:
    """Those of a finished cycle; none where a plugin failed, or where there is no node to refuse."""
    if cycle.error is not None or cycle.schedulable:
        return NONE
    found = cycle.pre_filter
    if found.status.rejected:
        narrowed = found.narrowed_by if not found.plugin or found.status.code is Code.UNSCHEDULABLE else ()
        return Rejectors(frozenset(filter(None, (found.plugin, *narrowed))))
    first = [plugin for plugin, _, mine in cycle.filter.reported() if (mine & cycle.considered).any()]
    return Rejectors(frozenset((*first, *found.narrowed_by)))
