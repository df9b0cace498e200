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
from kschedctl.replay.controllers.workload_pod_counts import WorkloadPodCounts, find_pod_creators
from kschedctl.replay.unknown import CREATION
from kschedctl.reports.not_created import CreationFailure, NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import agreeing, counted, spell_age

EVIDENCE_KINDS = {"Deployment": ("ReplicaSet", "Deployment", "Event"), "CronJob": ("Job", "Event")}
"""Workload kind -> kinds whose conditions and events show its failures; for others the kind itself and Event."""
KINDS_WITHOUT_PODS = {"PersistentVolumeClaim": "claim", "ResourceClaim": "claim", "PodGroup": "group"}
"""Kinds that are denied themselves and create no pods, in words."""
REPLAYED, BY_CHANCE = "replayed admission", "replayed admission, by chance instead"
NO_REASON = "no reason is given"


class _FailureSigns(NamedTuple):
    """The condition and the events which say that an object could not create another one."""

    condition: Condition | None
    events: Sequence[Event]


class _FailedCreator(NamedTuple):
    """An object that could not create another one."""

    owner: Owner
    object: str
    """The kind that could not be created."""
    failures: tuple[CreationFailure, ...]
    past: bool
    """True if the failure is past."""


class CreationFailures:
    """The objects of a cluster that could not create others. ``now`` is the time for ages, or empty."""

    def __init__(self, cluster: Cluster, now: str = "") -> None:
        self._now = now
        self._signs_by_owner = _collect_creation_failure_signs(cluster)
        self._pod_counts = WorkloadPodCounts(cluster, self._signs_by_owner)

    def report_current_failures(self, namespace: str | None = None) -> tuple[NotCreated, ...]:
        """Return reports on the workloads that lack pods now, in one namespace or in all, sorted by workload."""
        top_owners = sorted(
            {self._pod_counts.find_top_owner(failed.owner) for failed in self._failed_creators if not failed.past}
        )
        reports = (self.report_workload(owner) for owner in top_owners if namespace in (None, owner.namespace))
        return tuple(report for report in reports if report is not None)

    def report_workload(self, workload: Owner) -> NotCreated | None:
        """Report which pods of a workload were not created and why, or return None if all were created.

        Past failures are included only if there are no current ones.
        """
        failed_creators = [
            failed
            for failed in self._failed_creators
            if workload in (failed.owner, self._pod_counts.find_top_owner(failed.owner))
        ]
        if not failed_creators:
            return None
        current = [failed for failed in failed_creators if not failed.past]
        return self._build_workload_report(workload, current or failed_creators)

    def _build_workload_report(self, workload: Owner, failed_creators: Sequence[_FailedCreator]) -> NotCreated:
        """Build the report on a workload from the failures of its controllers.

        The failures are either all current or all past. The number of missing pods is None if it is unknown, or if an
        object other than a pod could not be created.
        """
        counts = self._pod_counts.count_pods(workload)
        missing_counts = [self._pod_counts.count_pods(creator.owner).missing for creator in failed_creators]
        is_unknown = None in missing_counts
        missing = None if is_unknown else sum(count or 0 for count in missing_counts)
        uncreated_kind = next((creator.object for creator in failed_creators if creator.object != "Pod"), "Pod")
        report = NotCreated(
            workload=str(workload),
            headline="",
            wanted=counts.wanted,
            there=counts.existing,
            missing=missing if uncreated_kind == "Pod" else None,
            failures=tuple(failure for creator in failed_creators for failure in creator.failures),
            object=uncreated_kind,
            past=failed_creators[0].past,
        )
        return add_headline_and_reason(report)

    @cached_property
    def _failed_creators(self) -> list[_FailedCreator]:
        """The objects that could not create something, now or before."""
        creators = (self._classify_failure(owner, signs) for owner, signs in self._signs_by_owner.items())
        return [creator for creator in creators if creator.failures]

    def _classify_failure(self, owner: Owner, signs: _FailureSigns) -> _FailedCreator:
        """Return the owner with its failures, which are either all current or all past.

        A current condition makes them current. Otherwise, they are past if the owner has created an object since the
        newest event. Failures to create pods are also past if no pod is missing now.
        """
        condition, events = signs
        uncreated_kind = self._determine_uncreated_kind(owner, signs)
        if condition is not None and self._is_condition_current(owner, uncreated_kind, condition):
            failures = tuple(self._iter_failures(owner, condition, events))
            return _FailedCreator(owner, uncreated_kind, failures, past=False)

        # Without a current condition, the events since the newest creation decide
        newest = self._pod_counts.find_last_creation_time(owner)
        recent = [event for event in events if not _is_in_earlier_second(get_last_time(event), newest)]
        are_all_pods_there = uncreated_kind == "Pod" and self._pod_counts.count_pods(owner).missing == 0
        past = not recent or are_all_pods_there
        failures = tuple(self._iter_failures(owner, condition=None, events=events if past else recent))
        return _FailedCreator(owner, uncreated_kind, failures, past)

    def _determine_uncreated_kind(self, owner: Owner, signs: _FailureSigns) -> str:
        """Return the kind that could not be created: Job for a CronJob, ReplicaSet or Pod for a Deployment, else Pod.

        For a Deployment, the kind is ReplicaSet only if the reason of the condition or of an event says so.
        """
        if owner.kind == "CronJob":
            return "Job"
        reasons = {event.reason for event in signs.events}
        if signs.condition:
            reasons.add(signs.condition.reason)
        return "ReplicaSet" if owner.kind == "Deployment" and NO_REPLICA_SET in reasons else "Pod"

    def _is_condition_current(self, owner: Owner, uncreated_kind: str, condition: Condition) -> bool:
        """Return whether a condition about a failed creation still applies.

        ``uncreated_kind`` is the kind that the owner could not create. A condition about a kind other than Pod always
        applies. A Deployment's condition about pods never applies if its ReplicaSets are known, because these have
        their own conditions. All other conditions apply while pods are missing, while the number of missing pods is
        unknown, or while a Deployment has outdated pods.
        """
        if uncreated_kind != "Pod":
            return True
        workload = self._pod_counts.workloads[owner]
        if owner.kind == "Deployment" and self._pod_counts.find_created_workloads(owner):
            return False
        counts = self._pod_counts.count_pods(owner)
        updated = workload.status.updated_replicas if owner.kind == "Deployment" else None
        has_outdated_pods = updated is not None and updated < (counts.wanted or 0)
        # None, an unknown number of missing pods, does not clear the condition
        return counts.missing != 0 or has_outdated_pods

    def _iter_failures(
        self, owner: Owner, condition: Condition | None, events: Iterable[Event]
    ) -> Iterator[CreationFailure]:
        """Yield a failure for each distinct shortened message.

        Failures that events report come first, starting with the newest. The condition's failure comes last.
        """
        # The failures that events report
        events_by_message: dict[str, list[Event]] = {}
        for event in sorted(events, key=get_last_time, reverse=True):
            short_message = shorten_api_message(extract_api_message(event.message))
            events_by_message.setdefault(short_message, []).append(event)
        for similar_events in events_by_message.values():
            newest = similar_events[0]
            last = get_last_time(newest)
            by = f"event {newest.reason} of {owner}"
            yield CreationFailure(
                extract_api_message(newest.message),
                by=by,
                last=last,
                age=format_age(last, self._now),
                times=_count_creation_attempts(similar_events),
            )

        # The failure that the condition reports, unless an event reports it as well
        if condition is None:
            return
        message = extract_api_message(condition.message)
        if shorten_api_message(message) not in events_by_message:
            last = condition.last_transition_time or ""
            by = f"condition {condition.type} of {owner}"
            yield CreationFailure(message, by=by, last=last, age=format_age(last, self._now))


def find_unread_kinds(cluster: Cluster, kind: str = "") -> tuple[UnknownKind, ...]:
    """Return the unread kinds that would show creation failures of a workload of this kind.

    If `kind` is empty, return the unread kinds that would show creation failures of any workload.
    """
    kinds = EVIDENCE_KINDS.get(kind, (kind, "Event")) if kind else FAILURE_SOURCES
    return tuple(UnknownKind(kind, gap.why, CREATION) for kind in kinds if (gap := cluster.find_gap(kind)))


def _collect_creation_failure_signs(cluster: Cluster) -> Mapping[Owner, _FailureSigns]:
    """Return, for each owner that failed to create objects, the condition and the events that say so.

    Owners that are known only from events are included if they may exist. Objects that are being deleted are left out.
    """
    events_by_owner = _group_failure_events(cluster)
    creators = find_pod_creators(cluster)
    signs = {}
    for owner, obj in creators.items():
        own_events = [event for event in events_by_owner.get(owner, ()) if _is_about_uid(event, obj.metadata.uid)]
        condition = find_creation_failure(obj.status.conditions)
        has_failed = bool(own_events) or condition is not None
        if has_failed and obj.metadata.deletion_timestamp is None:
            signs[owner] = _FailureSigns(condition, own_events)
    for owner, own_events in events_by_owner.items():
        if owner not in creators and _may_exist_unread(owner, cluster):
            signs[owner] = _FailureSigns(condition=None, events=own_events)
    return signs


def _may_exist_unread(owner: Owner, cluster: Cluster) -> bool:
    """Return whether the owner may exist, because objects of its kind are never read or were not read here."""
    return owner.kind not in POD_CREATORS or cluster.find_gap(owner.kind, owner.namespace) is not None


def _group_failure_events(cluster: Cluster) -> dict[Owner, list[Event]]:
    """Group the events about failed creations by the object that failed."""
    events: dict[Owner, list[Event]] = {}
    for event in cluster.events:
        subject = event.involved_object
        if event.reason in (FAILED_CREATE, NO_REPLICA_SET) and subject.kind in (*POD_CREATORS, "CronJob"):
            events.setdefault(Owner(subject.kind, subject.namespace, subject.name), []).append(event)
    return events


def _count_creation_attempts(events: Iterable[Event]) -> int:
    """Count the attempts at a creation: the highest total among events whose messages have the same prefix.

    A StatefulSet reports one denied claim by two events with different prefixes.
    """
    counts_by_prefix: Counter[str] = Counter()
    for event in events:
        counts_by_prefix[extract_controller_prefix(event.message)] += count_occurrences(event)
    return max(counts_by_prefix.values())


def _is_about_uid(event: Event, uid: str) -> bool:
    """Return whether the event is about the object with this UID rather than an earlier object of its name."""
    return not uid or event.involved_object.uid in ("", uid)


def _is_in_earlier_second(time: str, other_time: str) -> bool:
    """Return whether `time` is in an earlier second than `other_time`.

    Return False if either time is missing or malformed.
    """
    if not (time and other_time):
        return False
    try:
        return parse_nanoseconds(time) // 10**9 < parse_nanoseconds(other_time) // 10**9
    except InputError:
        return False


def build_denied_pods_report(
    owner: Owner,
    messages: Iterable[str],
    wanted: int,
    denied: int,
    *,
    creatable: int = 0,
    defaults: tuple[str, ...] = (),
) -> NotCreated:
    """Build the report on a workload of which ``denied`` out of ``wanted`` pods are denied.

    ``messages`` are alternatives for each of the denied pods: the API server returns one of them at random. The report
    gives the first as the reason. Another ``creatable`` pods do not exist yet, but can be created. ``defaults`` are the
    requests and limits that LimitRanges set.
    """
    failures = tuple(
        CreationFailure(message, BY_CHANCE if index else REPLAYED) for index, message in enumerate(messages)
    )
    return add_headline_and_reason(
        NotCreated(
            workload=str(owner),
            headline="",  # added once the other fields are known
            wanted=wanted,
            there=wanted - denied - creatable,
            missing=denied,
            failures=failures,
            creatable=creatable,
            defaults=defaults,
        )
    )


def build_report_from_messages_by_pod(
    owner: Owner, messages_by_pod: Sequence[Sequence[str]], wanted: int
) -> NotCreated:
    """Build the report on the denied pods of a workload, given the possible messages for each pod.

    ``wanted`` is the number of pods that the workload wants. If every pod can get every message, the messages are
    alternatives, and only one is the reason. Otherwise, the pods differ, and each message is a reason of its own.
    """
    denied = len(messages_by_pod)
    all_messages = dict.fromkeys(message for messages in messages_by_pod for message in messages)
    are_alternatives = all(set(messages) == all_messages.keys() for messages in messages_by_pod)
    if are_alternatives:
        return build_denied_pods_report(owner, all_messages, wanted, denied)
    return add_headline_and_reason(
        NotCreated(
            workload=str(owner),
            headline="",  # added once the other fields are known
            wanted=wanted,
            there=wanted - denied,
            missing=denied,
            failures=tuple(CreationFailure(message, REPLAYED) for message in all_messages),
        )
    )


def add_headline_and_reason(not_created: NotCreated) -> NotCreated:
    """Return the report with its headline and its reason.

    A headline reads like ``1 of 6 pods (6 wanted, 5 exist): exceeded quota: …``. If the failures are past, it reads
    like ``some could not be created 5 min ago, all exist now: exceeded quota: …``. The reason is the part of the
    headline from the newest failure's message on, or the whole headline if the failures are past.
    """
    newest, *older = not_created.failures
    message = shorten_api_message(newest.message)
    reason = f"{message or NO_REASON}{_describe_other_reasons(older)}"
    # the denial may be about requests or limits that a LimitRange set
    if not_created.defaults and any(resource in message for resource in _DEFAULTED_RESOURCES):
        reason += f" ({'; '.join(not_created.defaults)})"
    if not_created.past:
        ago = f" {spell_age(newest.age)} ago" if newest.age else ""
        headline = f"some could not be created{ago}, {_describe_past_failure(not_created)}: {reason}"
        return replace(not_created, headline=headline, reason=headline)
    headline = f"{_describe_uncreated_objects(not_created)}: {reason}"
    return replace(not_created, headline=headline, reason=reason)


_DEFAULTED_RESOURCES = ("cpu", "memory", "storage")
"""Resources for which LimitRanges usually set defaults; a denial that names none of them has another cause."""


def _describe_other_reasons(failures: Sequence[CreationFailure]) -> str:
    """Return a clause about further failures, or about other messages that may be given by chance.

    The clause is empty if there are no further failures.
    """
    if failures and all(failure.by == BY_CHANCE for failure in failures):
        first, *further_failures = failures
        more = f", or {counted(len(further_failures), 'more')}" if further_failures else ""
        return f" (or, by chance: {shorten_api_message(first.message)}{more})"
    return f" (and {counted(len(failures), 'more reason')})" if failures else ""


def _describe_uncreated_objects(not_created: NotCreated) -> str:
    """Return a phrase for what could not be created: pods, the workload itself, or an object such as a Job.

    Examples are `3 of 5 pods (5 wanted, 2 exist)`, `5 of 5 pods`, `its next Job` and
    `pods (2 exist, the wanted number is unknown)`.
    """
    kind = Owner.parse(not_created.workload).kind
    if kind in KINDS_WITHOUT_PODS:
        return f"the {KINDS_WITHOUT_PODS[kind]} itself"
    if not_created.object == "Job":
        return "its next Job"
    existing = f"{not_created.there:,} {agreeing(not_created.there, 'exists', 'exist')}"
    if not_created.wanted is None:
        return f"pods ({existing}, the wanted number is unknown)"

    counts = [f"{not_created.wanted:,} wanted"]
    if not_created.there or not not_created.creatable:
        counts.append(existing)
    if not_created.creatable:
        counts.append(f"{not_created.creatable:,} can be created")
    in_brackets = f"({', '.join(counts)})"
    if not_created.object != "Pod":
        return f"its new {not_created.object} {in_brackets}"
    if not not_created.missing:
        return f"pods of its new template {in_brackets}"
    missing = f"{not_created.missing:,} of {counted(not_created.wanted, 'pod')}"
    return missing if not_created.missing == not_created.wanted else f"{missing} {in_brackets}"


def _describe_past_failure(not_created: NotCreated) -> str:
    """Describe why the failure is past."""
    if not_created.wanted is None or not_created.there < not_created.wanted:
        return "others have been created since"
    return "all exist now"
