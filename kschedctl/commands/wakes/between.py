"""What lies between two moments of a cluster that woke pods, and which pods it should have woken and did not.

Kubernetes issue 49314 and those like it: a pod that fits, and waits all the same, since nothing told the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.wakes.changes import changes_between, told
from kschedctl.commands.wakes.event_replay import (
    NONE,
    UNSCHEDULABLE,
    Refused,
    asked,
    asked_for,
    basis_of,
    basis_of_many,
    concerning,
    try_once,
)
from kschedctl.commands.wakes.many import refused_pods
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakingChange
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework.events import POD, ChangedObject, QueueingHint
from kschedctl.scheduler.framework.waking import join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod

FITS_TOLD = 3
CHANGES_KEPT = 100
"""Thousands of changes may wake a pod: more than these are counted only."""


class Heard(NamedTuple):
    """A change, and the events that the scheduler makes of it."""

    change: ChangedObject
    occurrences: Sequence[Occurrence]


class Moments(NamedTuple):
    """The scheduler at both moments, and what lies between as far as it hears of it."""

    before: Scheduler
    after: Scheduler
    heard: Sequence[Heard]
    unheard: int

    @classmethod
    def of(cls, before: Scheduler, after: Scheduler) -> Moments:
        handlers = before.event_handlers
        changes = [Heard(change, handlers.occurrences(change)) for change in changes_between(before.view, after.view)]
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
    """What woke these pods (``namespace/name``), or all, that were pending at both moments.

    ``enough``: of a pod that so many changes woke no more are looked for; ``ended``: those are told too that no longer
    wait at the second moment. A pod was tried at the first moment. In which order changes came is not known: each is
    judged by itself, with the claims and classes as they are in the end.
    """
    moments = Moments.of(before, after)
    waiting = [pod for pod in before.cluster.unbound_pods() if _is_asked(pod, moments, keys, ended=ended)]
    groups = list(refused_pods(before, waiting))
    answers = [answer for refused, alike in groups for answer in _pods(refused, alike, moments, enough)]
    missed_first = sorted((answer for answer, _ in answers), key=lambda pod: not pod.missed)
    bases = [basis_of(before, refused) for refused, _ in groups]
    bases += [basis_of(after, tried) for tried in {id(tried): tried for _, tried in answers if tried}.values()]
    return WakesBetween(
        before=names[0],
        after=names[1],
        changes=len(moments.heard),
        unheard=moments.unheard,
        pods=tuple(missed_first),
        kube_version=before.cluster.kube_version,
        **basis_of_many(bases),
    )


def _is_asked(pod: Pod, moments: Moments, keys: Collection[str] | None, *, ended: bool) -> bool:
    """Whether it is meant, waits for a node, and is served by the scheduler."""
    served = moments.before.view.stored(pod).spec.scheduler_name in moments.before.configuration.profiles
    waits = is_pending(pod) and (ended or not _ended(pod, moments.after))
    return served and waits and (keys is None or pod.key in keys)


def _now(pod: Pod, after: Scheduler) -> Pod | None:
    """The pod at the second moment, where it is still there."""
    now = after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    return now if now is not None and is_same_pod(now, pod) else None


def _ended(pod: Pod, after: Scheduler) -> str:
    """What became of a pod that no longer waits at the second moment; empty for one that does."""
    now = _now(pod, after)
    if now is None:
        return "is gone"
    if now.terminated:
        return "has finished"
    if now.spec.node_name:
        return f"is on {now.spec.node_name}"
    return "is being deleted" if not is_pending(now) else ""


Told = tuple[PodBetween, Refused | None]
"""What is told of a pod, and the attempt at it at the second moment, where it still waits then."""


def _pods(refused: Refused, alike: Sequence[Pod], moments: Moments, enough: int | None) -> Iterator[Told]:
    """Pods that are alike; those that changed themselves, or do not wait to the end, are told apart."""
    changed = {event.change.object.key for event in moments.heard if event.change.kind == POD}
    shared = None
    for pod in alike:
        if pod.key in changed or _ended(pod, moments.after):
            yield _pod(try_once(moments.before, moments.before.view.stored(pod)), pod, moments, enough)
        else:
            shared = shared or _pod(refused, pod, moments, enough)
            yield replace(shared[0], pod=pod.key), shared[1]


def _pod(refused: Refused, pod: Pod, moments: Moments, enough: int | None) -> Told:
    ended = _ended(pod, moments.after)
    heard = [event for event in moments.heard if not (ended and _is_of(event.change, pod))]
    woken_by: list[WakingChange] = []
    waking = others = 0
    for event in heard if refused.queue == UNSCHEDULABLE else ():
        if waking == enough:
            break
        woken = _woken_by(refused, event, moments)
        waking, others = (waking + 1, others) if woken else (waking, others + 1)
        if woken and waking <= CHANGES_KEPT:
            woken_by.append(woken)
    then = Then.of(pod, ended, moments.after)
    between = PodBetween(
        pod=pod.key,
        headline=_headline(refused, waking, woken_by, then, len(heard)),
        refused_by=tuple(sorted(refused.attempt.rejectors.all)),
        woken_by=tuple(woken_by),
        waking_changes=waking,
        not_woken_by=others,
        fits=then.fits,
        missed=bool(then.fits) and refused.queue == UNSCHEDULABLE and not woken_by,
        ended=ended,
    )
    return between, then.tried


def _is_of(change: ChangedObject, pod: Pod) -> bool:
    """Whether it is the end of the pod's own waiting."""
    return change.kind == POD and is_same_pod(change.object, pod)


def _woken_by(refused: Refused, heard: Heard, moments: Moments) -> WakingChange | None:
    """The change, where it wakes the pod."""
    occurrences = concerning(heard.occurrences, refused.info)
    if not asked_for(refused, occurrences):
        return None
    events, queue = asked(refused, occurrences, moments.after.view)
    if queue == UNSCHEDULABLE:
        return None
    queued = {plugin for event in events for plugin, hint in event.hints.items() if hint == QueueingHint.QUEUE}
    return WakingChange(told(heard.change), tuple(event.event for event in events), tuple(sorted(queued)))


class Then(NamedTuple):
    """A pod at the second moment: what became of it, or the attempt at it and the nodes that it fits on."""

    ended: str
    tried: Refused | None = None
    fits: tuple[str, ...] = ()

    @classmethod
    def of(cls, pod: Pod, ended: str, after: Scheduler) -> Then:
        now = None if ended else _now(pod, after)
        if now is None:
            return cls(ended)
        tried, names = try_once(after, after.view.stored(now)), after.view.nodes.names
        cycle = tried.attempt.cycle
        fits = tuple(names[row] for row in cycle.feasible.tolist()) if cycle and tried.fits else ()
        return cls(ended, tried, fits)

    @property
    def words(self) -> str:
        if self.tried is None:
            return self.ended
        if self.tried.attempt.gating_plugin:
            return f"is held back by {self.tried.attempt.gating_plugin}"
        more = f" and {len(self.fits) - FITS_TOLD:,} more" if len(self.fits) > FITS_TOLD else ""
        return f"fits on {join_words(self.fits[:FITS_TOLD], 'or')}{more}" if self.fits else "fits nowhere"


def _headline(refused: Refused, waking: int, woken_by: Sequence[WakingChange], then: Then, heard: int) -> str:
    if refused.queue == NONE:
        end = f"; at the second it {then.words}" if then.ended else ""
        return f"fitted at the first moment: nothing had to wake it{end}"
    if refused.queue != UNSCHEDULABLE:
        return "had nobody to wait for, and is tried again after its back-off"
    if waking:
        number = f"{waking:,} of {heard:,} changes" if waking > 1 else woken_by[0].change
        return f"{number} woke it; at the second moment it {then.words}"
    nothing = f"none of {heard:,} changes woke it" if heard > 1 else "nothing woke it"
    if then.ended:
        return f"{then.words} at the second moment; {nothing} that both moments show"
    return f"{then.words} at the second moment, but {nothing}" if then.fits else f"{nothing}, rightly: it {then.words}"
