"""Workloads whose pods could not be created, according to their conditions and events.

A condition describes the last try of its controller. An event may be old: if pods were created since then or all pods
exist, the failure is past. Upstream: pkg/controller/replicaset/replica_set_utils.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.events import (
    FAILED_CREATE,
    FAILURE_SOURCES,
    NO_REPLICA_SET,
    POD_CREATORS,
    count_occurrences,
    extract_api_message,
    extract_controller_prefix,
    find_creation_failure,
    get_last_time,
    shorten_api_message,
)
from kschedctl.api.objects import Condition, Event
from kschedctl.api.ownership import Owner
from kschedctl.api.times import format_age, parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_pod_counts import CREATED_KINDS, WorkloadPodCounts, find_pod_creators
from kschedctl.replay.unknown import CREATION
from kschedctl.reports.not_created import CreationFailure, NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted

TELLING_KINDS = {"Deployment": ("ReplicaSet", "Deployment", "Event"), "CronJob": ("Job", "Event")}
"""Workload kind -> kinds whose conditions and events tell about it; for other kinds the kind itself and Event."""
KINDS_WITHOUT_PODS = {"PersistentVolumeClaim": "claim", "ResourceClaim": "claim", "PodGroup": "group"}
"""Kinds that are denied themselves and create no pods, in words."""
REPLAYED, BY_CHANCE = "admission, replayed", "admission, replayed: by chance instead"
NO_REASON = "the API server's reason is not told here"


class _FailureSigns(NamedTuple):
    """The condition and the events that report that an object could not create another one."""

    condition: Condition | None
    events: Sequence[Event]


class _FailedCreator(NamedTuple):
    """An object that could not create another one."""

    owner: Owner
    object: str
    """The kind that could not be created."""
    failures: tuple[CreationFailure, ...]
    past: bool
    """Whether the failure is past."""


class CreationFailures:
    """The objects of a cluster that could not create others. ``now`` is the time for ages, or empty."""

    def __init__(self, cluster: Cluster, now: str = "") -> None:
        self._now = now
        self._signs_by_owner = _find_failure_signs(cluster)
        self._pod_counts = WorkloadPodCounts(cluster, self._signs_by_owner)

    def report_current(self, namespace: str | None = None) -> tuple[NotCreated, ...]:
        """Return reports on the workloads that lack pods now, in one namespace or in all."""
        top_owners = sorted(
            {self._pod_counts.find_top_owner(failed.owner) for failed in self._failed_creators if not failed.past}
        )
        reports = (self.report_workload(top) for top in top_owners if namespace in (None, top.namespace))
        return tuple(workload for workload in reports if workload is not None)

    def report_workload(self, workload: Owner) -> NotCreated | None:
        """Report which pods of a workload were not created and why, or return None if all were created.

        Past failures are included only if there are no current ones.
        """
        mine = [
            failed
            for failed in self._failed_creators
            if workload in (failed.owner, self._pod_counts.find_top_owner(failed.owner))
        ]
        chosen = [failed for failed in mine if not failed.past] or mine
        return self._build_report(workload, chosen) if chosen else None

    def _build_report(self, workload: Owner, failed: Sequence[_FailedCreator]) -> NotCreated:
        """Build the report on a workload from the objects that failed to create others."""
        counts = self._pod_counts.count_pods(workload)
        missing = [self._pod_counts.count_pods(maker.owner).missing for maker in failed]
        object_ = next((maker.object for maker in failed if maker.object != "Pod"), "Pod")
        report = NotCreated(
            workload=str(workload),
            headline="",
            wanted=counts.wanted,
            there=counts.existing,
            missing=None if None in missing or object_ != "Pod" else sum(count or 0 for count in missing),
            failures=tuple(failure for maker in failed for failure in maker.failures),
            object=object_,
            past=failed[0].past,
        )
        return add_headline(report)

    @cached_property
    def _failed_creators(self) -> list[_FailedCreator]:
        """The objects that could not create something, now or before."""
        judged = (self._judge_failure(owner, signs) for owner, signs in self._signs_by_owner.items())
        return [maker for maker in judged if maker.failures]

    def _judge_failure(self, owner: Owner, signs: _FailureSigns) -> _FailedCreator:
        """Decide whether a failure is current or past.

        A failure is current if pods of the object are still missing and none was created since the failure.
        """
        condition, events = signs
        created_kind = self._find_failed_kind(owner, signs)
        if condition is not None and self._is_current(owner, created_kind, condition):
            return _FailedCreator(owner, created_kind, tuple(self._iter_failures(owner, condition, events)), past=False)
        newest = self._pod_counts.find_newest_creation(owner)
        recent = [event for event in events if not _is_before(get_last_time(event), newest)]
        past = not recent or (created_kind == "Pod" and self._pod_counts.count_pods(owner).missing == 0)
        return _FailedCreator(
            owner, created_kind, tuple(self._iter_failures(owner, None, events if past else recent)), past
        )

    def _find_failed_kind(self, owner: Owner, signs: _FailureSigns) -> str:
        """Return the kind that could not be created.

        A Deployment stands for its ReplicaSets if these are unknown.
        """
        reasons = {event.reason for event in signs.events} | {signs.condition.reason if signs.condition else ""}
        return CREATED_KINDS.get(owner.kind, "Pod") if owner.kind == "CronJob" or NO_REPLICA_SET in reasons else "Pod"

    def _is_current(self, owner: Owner, created_kind: str, condition: Condition) -> bool:
        """Return whether the condition is current. Known ReplicaSets of a Deployment have their own conditions."""
        if created_kind != "Pod":
            return True
        workload = self._pod_counts.workloads[owner]
        if owner.kind == "Deployment" and self._pod_counts.find_created(owner):
            return False
        counts = self._pod_counts.count_pods(owner)
        updated = workload.status.updated_replicas if owner.kind == "Deployment" else None
        return counts.missing != 0 or (updated is not None and updated < (counts.wanted or 0))

    def _iter_failures(
        self, owner: Owner, condition: Condition | None, events: Iterable[Event]
    ) -> Iterator[CreationFailure]:
        """Yield each failure reason once, those of events before that of the condition.

        Reasons of events are sorted by time, the newest first.
        """
        events_by_reason: dict[str, list[Event]] = {}
        for event in sorted(events, key=get_last_time, reverse=True):
            events_by_reason.setdefault(shorten_api_message(extract_api_message(event.message)), []).append(event)
        for similar_events in events_by_reason.values():
            last = get_last_time(similar_events[0])
            words = extract_api_message(similar_events[0].message)
            by = f"event {similar_events[0].reason} of {owner}"
            yield CreationFailure(words, by, last, format_age(last, self._now), _count_tries(similar_events))
        if (
            condition is not None
            and shorten_api_message(extract_api_message(condition.message)) not in events_by_reason
        ):
            last = condition.last_transition_time or ""
            by = f"condition {condition.type} of {owner}"
            yield CreationFailure(extract_api_message(condition.message), by, last, format_age(last, self._now))


def find_unread_kinds(cluster: Cluster, kind: str = "") -> tuple[UnknownKind, ...]:
    """Return the unread kinds that would show creation failures of a workload kind, or of any kind."""
    kinds = TELLING_KINDS.get(kind, (kind, "Event")) if kind else FAILURE_SOURCES
    return tuple(UnknownKind(kind, gap.why, CREATION) for kind in kinds if (gap := cluster.gap(kind)))


def _find_failure_signs(cluster: Cluster) -> Mapping[Owner, _FailureSigns]:
    """Return the failure signs of all objects that exist or may exist."""
    events = _group_failure_events(cluster)
    signs = {}
    for owner, obj in find_pod_creators(cluster).items():
        own_events = [event for event in events.pop(owner, ()) if _is_about_uid(event, obj.metadata.uid)]
        condition = find_creation_failure(obj.status.conditions)
        if (own_events or condition is not None) and obj.metadata.deletion_timestamp is None:
            signs[owner] = _FailureSigns(condition, own_events)
    return signs | {
        owner: _FailureSigns(None, own_events) for owner, own_events in events.items() if _may_exist(owner, cluster)
    }


def _may_exist(owner: Owner, cluster: Cluster) -> bool:
    """Return whether the object may exist although it was not read."""
    return owner.kind not in POD_CREATORS or cluster.gap(owner.kind, owner.namespace) is not None


def _group_failure_events(cluster: Cluster) -> dict[Owner, list[Event]]:
    """Group the events about failed creations by the object that failed."""
    events: dict[Owner, list[Event]] = {}
    for event in cluster.events:
        subject = event.involved_object
        if event.reason in (FAILED_CREATE, NO_REPLICA_SET) and subject.kind in (*POD_CREATORS, "CronJob"):
            events.setdefault(Owner(subject.kind, subject.namespace, subject.name), []).append(event)
    return events


def _count_tries(events: Iterable[Event]) -> int:
    """Count the attempts at a creation. A StatefulSet reports one denied claim by two events."""
    counts_by_message: Counter[str] = Counter()
    for event in events:
        counts_by_message[extract_controller_prefix(event.message)] += count_occurrences(event)
    return max(counts_by_message.values())


def _is_about_uid(event: Event, uid: str) -> bool:
    """Return whether the event is about the object with this UID rather than an earlier object of its name."""
    return not uid or event.involved_object.uid in ("", uid)


def _is_before(time: str, other: str) -> bool:
    """Return whether a time is in an earlier second than another. Unknown times are never earlier."""
    try:
        return bool(time and other) and parse_nanoseconds(time) // 10**9 < parse_nanoseconds(other) // 10**9
    except InputError:
        return False


def report_denied(owner: Owner, messages: Iterable[str], wanted: int, denied: int) -> NotCreated:
    """Report that ``denied`` of a workload's ``wanted`` pods are denied. Only one of the messages is given, by
    chance.
    """
    failures = tuple(
        CreationFailure(message, BY_CHANCE if index else REPLAYED) for index, message in enumerate(messages)
    )
    return add_headline(NotCreated(str(owner), "", wanted, there=wanted - denied, missing=denied, failures=failures))


def report_denied_pods(owner: Owner, messages_by_pod: Sequence[Sequence[str]], wanted: int) -> NotCreated:
    """Report the denied pods of a workload, given the possible messages for each pod."""
    all_messages = dict.fromkeys(message for messages in messages_by_pod for message in messages)
    if all(len(messages) == len(all_messages) for messages in messages_by_pod):
        return report_denied(owner, all_messages, wanted, len(messages_by_pod))
    failures = tuple(CreationFailure(message, REPLAYED) for message in all_messages)
    return add_headline(
        NotCreated(
            str(owner), "", wanted, there=wanted - len(messages_by_pod), missing=len(messages_by_pod), failures=failures
        )
    )


def add_headline(not_created: NotCreated) -> NotCreated:
    """Return the report with its headline."""
    return replace(not_created, headline=_render_headline(not_created))


def _render_headline(not_created: NotCreated) -> str:
    """Return the headline, such as ``1 of 6 pods (6 wanted, 5 there): exceeded quota: …``."""
    newest, *older = not_created.failures
    reason = f"{shorten_api_message(newest.message) or NO_REASON}{_render_other_reasons(older)}"
    if not_created.past:
        ago = f" {newest.age} ago" if newest.age else ""
        return f"some could not be created{ago}, {_render_past(not_created)}: {reason}"
    return f"{_render_missing(not_created)}: {reason}"


def _render_other_reasons(failures: Sequence[CreationFailure]) -> str:
    """Return a clause about further failures, or about other messages that may be given by chance."""
    if failures and all(failure.by == BY_CHANCE for failure in failures):
        first, *more = failures
        more_clause = f", or another of {len(more):,}" if more else ""
        return f" (or, by chance: {shorten_api_message(first.message)}{more_clause})"
    return f" (and {counted(len(failures), 'more reason')})" if failures else ""


def _render_missing(not_created: NotCreated) -> str:
    """Describe how many pods, or what other object, is missing."""
    if noun := KINDS_WITHOUT_PODS.get(not_created.workload.partition(" ")[0]):
        return f"the {noun} itself"
    if not_created.object == "Job":
        return "its next Job"
    if not_created.wanted is None:
        return f"pods ({not_created.there:,} there, how many are wanted is not known)"
    counts = f"({not_created.wanted:,} wanted, {not_created.there:,} there)"
    if not_created.object != "Pod":
        return f"its new {not_created.object} {counts}"
    if not not_created.missing:
        return f"pods of its new template {counts}"
    return f"{not_created.missing:,} of {counted(not_created.wanted, 'pod')} {counts}"


def _render_past(not_created: NotCreated) -> str:
    """Describe why the failure is past."""
    if not_created.wanted is None or not_created.there < not_created.wanted:
        return "others were created since"
    return "all are there now"
