"""What the scheduler last said of a pod: in its condition PodScheduled."""

from __future__ import annotations

from kschedctl.api.objects import Condition, Pod
from kschedctl.reports.audit.pending import LastWords
from kschedctl.studies.ages import age
from kschedctl.studies.audit.ground import Ground

CONDITION = "PodScheduled"


def was_refused(pod: Pod) -> bool:
    """Whether the scheduler tried it, in vain."""
    return _condition(pod) is not None


def last_words(pod: Pod, ground: Ground) -> LastWords | None:
    """None where nothing is known to have been said."""
    found = _condition(pod)
    if found is None or not found.message:
        return None
    at = found.last_transition_time or ""
    return LastWords(message=found.message, at=at, age=age(at, ground.now), source=f"condition {CONDITION}")


def _condition(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == CONDITION and each.status == "False"), None)
