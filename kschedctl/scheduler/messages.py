"""The text of a FailedScheduling event.

Upstream: FitError in pkg/scheduler/framework/types.go (v1.36).
"""

from __future__ import annotations

from collections import Counter

from kschedctl.scheduler.cycle import NO_NODES, Cycle


def fit_error(cycle: Cycle, post_filter: str = "") -> str:
    """Why the pod fits no node, in the scheduler's words; ``post_filter`` is what preemption has to say."""
    nodes = len(cycle.view.nodes)
    if nodes == 0:
        return NO_NODES
    message = f"0/{nodes} nodes are available:"
    if cycle.pre_filter.status.rejected:
        message += f" {', '.join(cycle.pre_filter.status.reasons)}."
    else:
        histogram = sorted(f"{count} {reason}" for reason, count in reason_counts(cycle).items())
        if histogram:
            message += f" {', '.join(histogram)}."
    return f"{message} {post_filter}" if post_filter else message


def reason_counts(cycle: Cycle) -> Counter[str]:
    """How many nodes the framework reports for each reason; the nodes that it did not look at share one."""
    found: Counter[str] = Counter()
    outcome = cycle.filter
    reported = cycle.considered & (outcome.first >= 0)
    for position, plugin in enumerate(outcome.order):
        mine = reported & (outcome.first == position)
        for verdicts, mask in (
            (outcome.verdicts, ~outcome.by_nominated),
            (outcome.with_nominated, outcome.by_nominated),
        ):
            for rejection in verdicts[plugin].rejections if plugin in verdicts else ():
                found[rejection.reason] += int((rejection.mask & mine & mask).sum())
    absent = int((~cycle.considered).sum())
    if absent:
        found.update(dict.fromkeys(cycle.absent_status().reasons, absent))
    return Counter({reason: count for reason, count in found.items() if count})
