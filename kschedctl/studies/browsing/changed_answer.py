"""What is another between two explanations of a pod."""

from __future__ import annotations

from kschedctl.reports.browsing.changed_answer import ChangedAnswer, RefusingReason
from kschedctl.reports.explanation import Explanation


def changed_answer(before: Explanation, after: Explanation) -> ChangedAnswer:
    """From the pod as it is to the pod, or the cluster, as it is supposed."""
    old, new = ({(each.plugin, each.reason): each.nodes for each in r.eliminations} for r in (before, after))
    reasons = (
        RefusingReason(plugin, reason, old.get((plugin, reason), 0), new.get((plugin, reason), 0))
        for plugin, reason in dict.fromkeys((*old, *new))
    )
    was, now = frozenset(before.feasible), frozenset(after.feasible)
    return ChangedAnswer(
        fit=(len(was), len(now)),
        gained=tuple(name for name in after.feasible if name not in was),
        lost=tuple(name for name in before.feasible if name not in now),
        best=(before.best, after.best),
        reasons=tuple(each for each in reasons if each.before != each.after),
    )
