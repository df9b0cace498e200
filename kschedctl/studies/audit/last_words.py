"""What schedulers last said of a pod, in events and in its condition PodScheduled, and for how long nobody tried it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.objects import Condition, Event, Pod
from kschedctl.api.observed.events import FAILED_SCHEDULING, SCHEDULED, last_time, reporter, times_seen
from kschedctl.reports.audit.pending import LastWords
from kschedctl.studies.ages import age
from kschedctl.studies.audit.ground import Ground
from kschedctl.studies.scheduler_instances.gang_schedulers import schedulers_of_gangs

CONDITION, EVENT = "PodScheduled", "FailedScheduling"
SERIES_LAG_SECONDS = 1800
"""So seldom is a series of events that are alike written: staging/src/k8s.io/client-go/tools/events (v1.36)."""


def refusals(ground: Ground) -> Mapping[tuple[str, str], Sequence[Event]]:
    """Namespace and name of a pod -> the events of its refusals, the newest last."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in ground.cluster.events:
        if event.reason == FAILED_SCHEDULING:
            found.setdefault((event.involved_object.namespace, event.involved_object.name), []).append(event)
    for events in found.values():
        events.sort(key=last_time)
    return found


def other_schedulers(ground: Ground) -> frozenset[str]:
    """The names under which schedulers are at work that are no profiles of this one: they write events, lead, or have
    PodGroups of their own."""
    writers = {reporter(event) for event in ground.cluster.events if event.reason in (SCHEDULED, FAILED_SCHEDULING)}
    leaders = {lease.metadata.name for lease in ground.cluster.leases if lease.spec.holder_identity}
    found = writers | leaders | schedulers_of_gangs(ground.cluster)
    return frozenset(found - ground.scheduler.configuration.profiles.keys())


def was_refused(pod: Pod) -> bool:
    """Whether the scheduler tried it, in vain."""
    return _condition(pod) is not None


def last_words(pod: Pod, ground: Ground) -> LastWords | None:
    """None where nothing is known to have been said."""
    if events := _events(pod, ground):
        at, attempts = last_time(events[-1]), sum(map(times_seen, events))
        message = events[-1].message
        return LastWords(message=message, at=at, age=age(at, ground.now), source=f"event {EVENT}", attempts=attempts)
    found = _condition(pod)
    if found is None or not found.message:
        return None
    at = found.last_transition_time or ""
    return LastWords(message=found.message, at=at, age=age(at, ground.now), source=f"condition {CONDITION}", attempts=1)


def untried_seconds(pod: Pod, ground: Ground) -> float | None:
    """For how long nobody tried it, for certain: since its last refusal, or since it was made; None: not known."""
    if events := _events(pod, ground):
        seconds = ground.seconds_since(last_time(events[-1]))
        return seconds - SERIES_LAG_SECONDS if seconds is not None and events[-1].series else seconds
    return None if was_refused(pod) else ground.seconds_since(pod.metadata.creation_timestamp)


def _events(pod: Pod, ground: Ground) -> Sequence[Event]:
    """Not those of an earlier pod of its name."""
    found = ground.once(refusals).get((pod.metadata.namespace, pod.metadata.name), ())
    return [each for each in found if not pod.metadata.uid or each.involved_object.uid in ("", pod.metadata.uid)]


def _condition(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == CONDITION and each.status == "False"), None)
