"""Changes between two moments of a cluster that woke pods, and pods that should have been woken but were not.

This is about Kubernetes issue 49314 and its kind: a pod that would fit keeps waiting because nothing told the
scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.wakes.changes import describe_change, iter_changes
from kschedctl.commands.wakes.event_replay import (
    NONE,
    UNSCHEDULABLE,
    RejectedPod,
    build_basis,
    filter_relevant,
    is_registered,
    merge_bases,
    replay_hints,
    try_once,
)
from kschedctl.commands.wakes.many import iter_rejected_groups
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakingChange
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework.events import POD, ChangedObject, QueueingHint
from kschedctl.scheduler.framework.waking import join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod

MAX_SHOWN_NODES = 3
MAX_KEPT_CHANGES = 100
"""The number of waking changes kept per pod. Thousands may wake a pod, so further ones are only counted."""


class WatchedChange(NamedTuple):
    """A change and the events that the scheduler makes of it."""

    change: ChangedObject
    occurrences: Sequence[Occurrence]


class Moments(NamedTuple):
    """The scheduler at both moments, and the changes between them that it watches."""

    before: Scheduler
    after: Scheduler
    watched: Sequence[WatchedChange]
    unwatched_count: int

    @classmethod
    def compare(cls, before: Scheduler, after: Scheduler) -> Moments:
        handlers = before.event_handlers
        changes = [
            WatchedChange(change, handlers.list_occurrences(change)) for change in iter_changes(before.view, after.view)
        ]
        heard = [change for change in changes if change.occurrences]
        return cls(before, after, heard, len(changes) - len(heard))


def wakes_between(
    before: Scheduler,
    after: Scheduler,
    keys: Collection[str] | None,
    names: tuple[str, str],
    enough: int | None = None,
    *,
    ended: bool = False,
) -> WakesBetween:
    """Find what woke the given pods (``namespace/name``), or all, that were pending at both moments.

    A pod needs no further changes once ``enough`` of them woke it. With ``ended``, pods that no longer wait at the
    second moment are included. Each pod was tried at the first moment. Since the order of the changes is unknown, each
    is judged by itself, with claims and classes as they are at the end.
    """
    moments = Moments.compare(before, after)
    waiting = [pod for pod in before.cluster.unbound_pods() if _is_subject(pod, moments, keys, ended=ended)]
    groups = list(iter_rejected_groups(before, waiting))
    answers = [answer for refused, alike in groups for answer in _iter_group(refused, alike, moments, enough)]
    missed_first = sorted((answer for answer, _ in answers), key=lambda pod: not pod.missed)
    bases = [build_basis(before, refused) for refused, _ in groups]
    bases += [build_basis(after, tried) for tried in {id(tried): tried for _, tried in answers if tried}.values()]
    return WakesBetween(
        before=names[0],
        after=names[1],
        changes=len(moments.watched),
        unheard=moments.unwatched_count,
        pods=tuple(missed_first),
        kube_version=before.cluster.kube_version,
        **merge_bases(bases),
    )


def _is_subject(pod: Pod, moments: Moments, keys: Collection[str] | None, *, ended: bool) -> bool:
    """Return whether the pod is among the subjects, waits for a node, and is served by the scheduler."""
    served = moments.before.view.stored(pod).spec.scheduler_name in moments.before.configuration.profiles
    waits = is_pending(pod) and (ended or not _describe_end(pod, moments.after))
    return served and waits and (keys is None or pod.key in keys)


def _find_later_pod(pod: Pod, after: Scheduler) -> Pod | None:
    """Return the pod at the second moment, or None if it no longer exists."""
    later_pod = after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    return later_pod if later_pod is not None and is_same_pod(later_pod, pod) else None


def _describe_end(pod: Pod, after: Scheduler) -> str:
    """Return what became of a pod that no longer waits at the second moment, or ""."""
    later_pod = _find_later_pod(pod, after)
    if later_pod is None:
        return "is gone"
    if later_pod.terminated:
        return "has finished"
    if later_pod.spec.node_name:
        return f"is on {later_pod.spec.node_name}"
    return "is being deleted" if not is_pending(later_pod) else ""


Told = tuple[PodBetween, RejectedPod | None]
"""What is told of a pod, and the attempt at it at the second moment, where it still waits then."""


def _iter_group(refused: RejectedPod, alike: Sequence[Pod], moments: Moments, enough: int | None) -> Iterator[Told]:
    """Yield the answers for equal pods. Pods that changed or stopped waiting get their own."""
    changed = {event.change.object.key for event in moments.watched if event.change.kind == POD}
    shared = None
    for pod in alike:
        if pod.key in changed or _describe_end(pod, moments.after):
            yield _answer_pod(try_once(moments.before, moments.before.view.stored(pod)), pod, moments, enough)
        else:
            shared = shared or _answer_pod(refused, pod, moments, enough)
            yield replace(shared[0], pod=pod.key), shared[1]


def _answer_pod(refused: RejectedPod, pod: Pod, moments: Moments, enough: int | None) -> Told:
    ended = _describe_end(pod, moments.after)
    heard = [event for event in moments.watched if not (ended and _is_about_pod(event.change, pod))]
    woken_by: list[WakingChange] = []
    waking = others = 0
    for event in heard if refused.queue == UNSCHEDULABLE else ():
        if waking == enough:
            break
        woken = _find_waking_change(refused, event, moments)
        waking, others = (waking + 1, others) if woken else (waking, others + 1)
        if woken and waking <= MAX_KEPT_CHANGES:
            woken_by.append(woken)
    then = LaterState.at(pod, ended, moments.after)
    between = PodBetween(
        pod=pod.key,
        headline=_build_headline(refused, waking, woken_by, then, len(heard)),
        refused_by=tuple(sorted(refused.attempt.rejectors.all)),
        woken_by=tuple(woken_by),
        waking_changes=waking,
        not_woken_by=others,
        fits=then.fits,
        missed=bool(then.fits) and refused.queue == UNSCHEDULABLE and not woken_by,
        ended=ended,
    )
    return between, then.tried


def _is_about_pod(change: ChangedObject, pod: Pod) -> bool:
    """Return whether the change is about the pod itself."""
    return change.kind == POD and is_same_pod(change.object, pod)


def _find_waking_change(refused: RejectedPod, heard: WatchedChange, moments: Moments) -> WakingChange | None:
    """Return the change if it wakes the pod."""
    occurrences = filter_relevant(heard.occurrences, refused.info)
    if not is_registered(refused, occurrences):
        return None
    events, queue = replay_hints(refused, occurrences, moments.after.view)
    if queue == UNSCHEDULABLE:
        return None
    queued = {plugin for event in events for plugin, hint in event.hints.items() if hint == QueueingHint.QUEUE}
    return WakingChange(describe_change(heard.change), tuple(event.event for event in events), tuple(sorted(queued)))


class LaterState(NamedTuple):
    """A pod at the second moment: what became of it, or the attempt at it and the nodes that it fits on."""

    ended: str
    tried: RejectedPod | None = None
    fits: tuple[str, ...] = ()

    @classmethod
    def at(cls, pod: Pod, ended: str, after: Scheduler) -> LaterState:
        now = None if ended else _find_later_pod(pod, after)
        if now is None:
            return cls(ended)
        tried, names = try_once(after, after.view.stored(now)), after.view.nodes.names
        cycle = tried.attempt.cycle
        fits = tuple(names[row] for row in cycle.feasible.tolist()) if cycle and tried.fits else ()
        return cls(ended, tried, fits)

    @property
    def describe(self) -> str:
        if self.tried is None:
            return self.ended
        if self.tried.attempt.gating_plugin:
            return f"is held back by {self.tried.attempt.gating_plugin}"
        more = f" and {len(self.fits) - MAX_SHOWN_NODES:,} more" if len(self.fits) > MAX_SHOWN_NODES else ""
        return f"fits on {join_words(self.fits[:MAX_SHOWN_NODES], 'or')}{more}" if self.fits else "fits nowhere"


def _build_headline(
    refused: RejectedPod, waking: int, woken_by: Sequence[WakingChange], then: LaterState, heard: int
) -> str:
    if refused.queue == NONE:
        end = f"; at the second it {then.describe}" if then.ended else ""
        return f"fitted at the first moment: nothing had to wake it{end}"
    if refused.queue != UNSCHEDULABLE:
        return "had nobody to wait for, and is tried again after its back-off"
    if waking:
        number = f"{waking:,} of {heard:,} changes" if waking > 1 else woken_by[0].change
        return f"{number} woke it; at the second moment it {then.describe}"
    nothing = f"none of {heard:,} changes woke it" if heard > 1 else "nothing woke it"
    if then.ended:
        return f"{then.describe} at the second moment; {nothing} that both moments show"
    return (
        f"{then.describe} at the second moment, but {nothing}"
        if then.fits
        else f"{nothing}, rightly: it {then.describe}"
    )
