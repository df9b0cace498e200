"""The text of a FailedScheduling event.

Upstream: FitError in pkg/scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.cycle import NO_NODES, Cycle

ABSENT_COUNT = ByVersion(
    "whether the message counts nodes that PreFilter plugins left out",
    (("", True), ("1.30.2", False), ("1.32", True)),
    "#125306, #126022",
)


def fit_error(cycle: Cycle, post_filter: str = "") -> str:
    """Why the pod fits no node, in the scheduler's words; ``post_filter`` is what the PostFilter plugins say."""
    nodes = len(cycle.view.nodes)
    if nodes == 0:
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        message = f"0/{nodes} nodes are available: {', '.join(cycle.pre_filter.status.reasons)}."
    else:
        message = histogram(nodes, reason_counts(cycle))
    return f"{message} {post_filter}" if post_filter else message


def histogram(nodes: int, counts: Mapping[str, int]) -> str:
    """How many nodes have each reason, sorted as texts.

    >>> histogram(12, {"Insufficient cpu": 9, "node(s) were unschedulable": 12})
    '0/12 nodes are available: 12 node(s) were unschedulable, 9 Insufficient cpu.'
    """
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available:" + (f" {', '.join(reasons)}." if reasons else "")


def reason_counts(cycle: Cycle) -> Counter[str]:
    """How many nodes the framework reports for each reason; the nodes that it did not look at share one."""
    found = cycle.filter.reason_counts(cycle.considered)
    absent = int((~cycle.considered).sum())
    if absent and ABSENT_COUNT.at(cycle.framework.release):
        found.update(dict.fromkeys(cycle.absent_status().reasons, absent))
    return found
