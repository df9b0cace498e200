"""The text of a FailedScheduling event.

Upstream: FitError in pkg/scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle
from kschedctl.scheduler.framework import Status

ABSENT_COUNT = ByVersion(
    "whether the message counts nodes that PreFilter plugins left out",
    (("", True), ("1.30.2", False), ("1.32", True)),
    "#125306, #126022",
)


def fit_error(cycle: Cycle, post_filter: str = "") -> str:
    """Why the pod fits no node, in the scheduler's words; ``post_filter`` is what the PostFilter plugins say."""
    nodes = cycle.view.nodes_in_placement
    if nodes == 0:
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        message = refused_before(nodes, cycle.pre_filter.status)
    else:
        message = histogram(nodes, reason_counts(cycle))
    return f"{message} {post_filter}" if post_filter else message


def refused_before(nodes: int, status: Status) -> str:
    """The message where a PreFilter refuses the pod, so that no node is looked at.

    >>> from kschedctl.scheduler.framework import Code
    >>> refused_before(12, Status(Code.UNRESOLVABLE, ("pod has unbound claims",)))
    '0/12 nodes are available: pod has unbound claims.'
    """
    return f"0/{nodes} nodes are available: {', '.join(status.reasons)}."


def histogram(nodes: int, counts: Mapping[str, int]) -> str:
    """How many nodes have each reason, sorted as texts.

    >>> histogram(12, {"Insufficient cpu": 9, "node(s) were unschedulable": 12})
    '0/12 nodes are available: 12 node(s) were unschedulable, 9 Insufficient cpu.'
    """
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available:" + (f" {', '.join(reasons)}." if reasons else "")


def reason_counts(cycle: Cycle) -> Counter[str]:
    """How many nodes the framework reports for each reason; the nodes that it did not look at share one."""
    by_extenders = np.zeros(len(cycle.considered), np.bool_)
    by_extenders[list(cycle.told)] = True
    counts = cycle.filter.reason_counts(cycle.considered & ~by_extenders)
    for status in cycle.consultation.statuses.values():
        counts.update(status.reasons)
    absent = _absent(cycle, by_extenders)
    if absent > 0 and ABSENT_COUNT.at(cycle.framework.release):
        counts.update(dict.fromkeys(cycle.absent_status().reasons, absent))
    return counts


def _absent(cycle: Cycle, by_extenders: Bools) -> int:
    """How many nodes share the status of those that PreFilter plugins left out.

    Since there is such a status (v1.32), that is all nodes less those that have one of their own; extenders may give
    one to nodes that there are not.
    """
    left_out = int((cycle.view.in_placement & ~cycle.considered).sum())
    if not left_out or not cycle.consultation.calls:
        return left_out
    own = int((by_extenders | (cycle.considered & ~cycle.filter.passing)).sum())
    return cycle.view.nodes_in_placement - own - (len(cycle.consultation.statuses) - len(cycle.told))
