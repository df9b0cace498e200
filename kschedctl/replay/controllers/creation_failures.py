"""TODO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.ages import format_age
from kschedctl.api.objects import Condition, Event
from kschedctl.api.observed.events import count_occurrences, last_seen
from kschedctl.api.observed.failed_creation import (
    FAILED_CREATE,
    FAILURE_SOURCES,
    NO_REPLICA_SET,
    POD_CREATORS,
    extract_api_message,
    extract_controller_prefix,
    find_creation_failure,
    shorten_api_message,
)
from kschedctl.api.ownership import Owner
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_pod_counts import ABOVE, WantedPods, objects_of
from kschedctl.replay.unknown import CREATION
from kschedctl.reports.not_created import CreationFailure, NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted

OF = {"Deployment": ("ReplicaSet", "Deployment", "Event"), "CronJob": ("Job", "Event")}
"""Kind of a workload -> the kinds that tell it of one, where it is not that kind and Event alone."""
THEMSELVES = {"PersistentVolumeClaim": "claim", "ResourceClaim": "claim", "PodGroup": "group"}
"""What is refused itself and makes no pods, in words."""
REPLAYED, BY_CHANCE = "admission, replayed", "admission, replayed: by chance instead"
NO_WORDS = "the API server's reason is not told here"


class _Told(NamedTuple):
    """What says that one could not create: its condition, and events."""

    condition: Condition | None
    events: Sequence[Event]


class _Failed(NamedTuple):
    """One that could not create ``object``, why, and whether that is past."""

    owner: Owner
    object: str
    failures: tuple[CreationFailure, ...]
    past: bool


class Creations:
    """What could not be created in a cluster; ``now``: the time at which ages are taken, empty for none."""

    def __init__(self, cluster: Cluster, now: str = "") -> None:
        self._now = now
        self._told = _told(cluster)
        self._makers = WantedPods(cluster, self._told)

    def failing(self, namespace: str | None = None) -> tuple[NotCreated, ...]:
        """The workloads of a namespace, or of all, that lack pods now, in order."""
        tops = sorted({self._makers.top(failed.owner) for failed in self._failed if not failed.past})
        lacking = (self.of(top) for top in tops if namespace in (None, top.namespace))
        return tuple(workload for workload in lacking if workload is not None)

    def of(self, workload: Owner) -> NotCreated | None:
        """Which pods of a workload were not created, and why; failures that are past only where there are no others."""
        mine = [failed for failed in self._failed if workload in (failed.owner, self._makers.top(failed.owner))]
        chosen = [failed for failed in mine if not failed.past] or mine
        return self._not_created(workload, chosen) if chosen else None

    def _not_created(self, workload: Owner, failed: Sequence[_Failed]) -> NotCreated:
        counts = self._makers.counts(workload)
        missing = [self._makers.counts(maker.owner).missing for maker in failed]
        object_ = next((maker.object for maker in failed if maker.object != "Pod"), "Pod")
        report = NotCreated(
            workload=str(workload),
            headline="",
            wanted=counts.wanted,
            there=counts.there,
            missing=None if None in missing or object_ != "Pod" else sum(count or 0 for count in missing),
            failures=tuple(failure for maker in failed for failure in maker.failures),
            object=object_,
            past=failed[0].past,
        )
        return with_headline(report)

    @cached_property
    def _failed(self) -> list[_Failed]:
        judged = (self._judged(owner, signs) for owner, signs in self._told.items())
        return [maker for maker in judged if maker.failures]

    def _judged(self, owner: Owner, signs: _Told) -> _Failed:
        """Whether it is so now: it lacks what it wants, and the last that it made is not younger than the failure."""
        condition, events = signs
        makes = self._what(owner, signs)
        if condition is not None and self._lacks(owner, makes, condition):
            return _Failed(owner, makes, tuple(self._failures(owner, condition, events)), past=False)
        newest = self._makers.newest(owner)
        recent = [event for event in events if not _is_before(last_seen(event), newest)]
        past = not recent or (makes == "Pod" and self._makers.counts(owner).missing == 0)
        return _Failed(owner, makes, tuple(self._failures(owner, None, events if past else recent)), past)

    def _what(self, owner: Owner, signs: _Told) -> str:
        """What it could not create. A Deployment whose ReplicaSets are not known stands for them."""
        reasons = {event.reason for event in signs.events} | {signs.condition.reason if signs.condition else ""}
        return ABOVE.get(owner.kind, "Pod") if owner.kind == "CronJob" or NO_REPLICA_SET in reasons else "Pod"

    def _lacks(self, owner: Owner, makes: str, condition: Condition) -> bool:
        """Whether its condition is of now; where a Deployment's ReplicaSets are known these tell it."""
        if makes != "Pod":
            return True
        workload = self._makers.objects[owner]
        if owner.kind == "Deployment" and self._makers.made(owner):
            return False
        counts = self._makers.counts(owner)
        updated = workload.status.updated_replicas if owner.kind == "Deployment" else None
        return counts.missing != 0 or (updated is not None and updated < (counts.wanted or 0))

    def _failures(
        self, owner: Owner, condition: Condition | None, events: Iterable[Event]
    ) -> Iterator[CreationFailure]:
        """Each reason once, the newest first: what events tell, else the condition."""
        alike: dict[str, list[Event]] = {}
        for event in sorted(events, key=last_seen, reverse=True):
            alike.setdefault(shorten_api_message(extract_api_message(event.message)), []).append(event)
        for same in alike.values():
            last = last_seen(same[0])
            words, by = extract_api_message(same[0].message), f"event {same[0].reason} of {owner}"
            yield CreationFailure(words, by, last, format_age(last, self._now), _tries(same))
        if condition is not None and shorten_api_message(extract_api_message(condition.message)) not in alike:
            last, by = condition.last_transition_time or "", f"condition {condition.type} of {owner}"
            yield CreationFailure(extract_api_message(condition.message), by, last, format_age(last, self._now))


def unread(cluster: Cluster, kind: str = "") -> tuple[UnknownKind, ...]:
    """The kinds that would tell that pods could not be created, of a workload of this kind or of any."""
    kinds = OF.get(kind, (kind, "Event")) if kind else FAILURE_SOURCES
    return tuple(UnknownKind(kind, gap.why, CREATION) for kind in kinds if (gap := cluster.gap(kind)))


def _told(cluster: Cluster) -> Mapping[Owner, _Told]:
    """Whoever could not create, now or before; not what is leaving or gone."""
    events, signs = _events(cluster), {}
    for owner, obj in objects_of(cluster).items():
        mine = [event for event in events.pop(owner, ()) if _is_of(event, obj.metadata.uid)]
        condition = find_creation_failure(obj.status.conditions)
        if (mine or condition is not None) and obj.metadata.deletion_timestamp is None:
            signs[owner] = _Told(condition, mine)
    return signs | {owner: _Told(None, mine) for owner, mine in events.items() if _may_be_there(owner, cluster)}


def _may_be_there(owner: Owner, cluster: Cluster) -> bool:
    """Whether it may exist without having been read."""
    return owner.kind not in POD_CREATORS or cluster.gap(owner.kind, owner.namespace) is not None


def _events(cluster: Cluster) -> dict[Owner, list[Event]]:
    events: dict[Owner, list[Event]] = {}
    for event in cluster.events:
        about = event.involved_object
        if event.reason in (FAILED_CREATE, NO_REPLICA_SET) and about.kind in (*POD_CREATORS, "CronJob"):
            events.setdefault(Owner(about.kind, about.namespace, about.name), []).append(event)
    return events


def _tries(alike: Iterable[Event]) -> int:
    """How often: of a StatefulSet's claim that was refused two events tell, about the claim and about its pod."""
    by_controllers_words: Counter[str] = Counter()
    for event in alike:
        by_controllers_words[extract_controller_prefix(event.message)] += count_occurrences(event)
    return max(by_controllers_words.values())


def _is_of(event: Event, uid: str) -> bool:
    """Not of an earlier object of that name."""
    return not uid or event.involved_object.uid in ("", uid)


def _is_before(time: str, other: str) -> bool:
    """Whether it was in an earlier second; not so where one of the two is not known."""
    try:
        return bool(time and other) and parse_nanoseconds(time) // 10**9 < parse_nanoseconds(other) // 10**9
    except InputError:
        return False


def refusal(owner: Owner, words: Iterable[str], wanted: int, refused: int) -> NotCreated:
    """A refusal of so many of the pods that a workload wants, and why: chance decides which of the words are said."""
    failures = tuple(CreationFailure(message, BY_CHANCE if at else REPLAYED) for at, message in enumerate(words))
    return with_headline(NotCreated(str(owner), "", wanted, wanted - refused, refused, failures))


def refusal_of(owner: Owner, said: Sequence[Sequence[str]], wanted: int) -> NotCreated:
    """A refusal of pods of a workload; ``said``: to each of them."""
    all_words = dict.fromkeys(message for words in said for message in words)
    if all(len(words) == len(all_words) for words in said):
        return refusal(owner, all_words, wanted, len(said))
    failures = tuple(CreationFailure(message, REPLAYED) for message in all_words)
    return with_headline(NotCreated(str(owner), "", wanted, wanted - len(said), len(said), failures))


def with_headline(not_created: NotCreated) -> NotCreated:
    return replace(not_created, headline=_headline(not_created))


def _headline(not_created: NotCreated) -> str:
    """``1 of 6 pods (6 wanted, 5 there): exceeded quota: …``."""
    newest, *others = not_created.failures
    why = f"{shorten_api_message(newest.message) or NO_WORDS}{_others(others)}"
    if not_created.past:
        ago = f" {newest.age} ago" if newest.age else ""
        return f"some could not be created{ago}, {_since(not_created)}: {why}"
    return f"{_number(not_created)}: {why}"


def _others(failures: Sequence[CreationFailure]) -> str:
    """What else is said, or by chance is said instead."""
    if failures and all(failure.by == BY_CHANCE for failure in failures):
        first, *more = failures
        others = f", or another of {len(more):,}" if more else ""
        return f" (or, by chance: {shorten_api_message(first.message)}{others})"
    return f" (and {counted(len(failures), 'more reason')})" if failures else ""


def _number(not_created: NotCreated) -> str:
    if itself := THEMSELVES.get(not_created.workload.partition(" ")[0]):
        return f"the {itself} itself"
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


def _since(not_created: NotCreated) -> str:
    """Why that is past."""
    if not_created.wanted is None or not_created.there < not_created.wanted:
        return "others were created since"
    return "all are there now"
