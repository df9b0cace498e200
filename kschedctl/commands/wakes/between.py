"""Find the changes between two moments that woke pods, and pods that should have been woken but were not.

Kubernetes issue 49314 and similar ones: a pod that would fit keeps waiting because no event makes the scheduler retry
it.
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
    drop_updates_of_other_pods,
    is_registered,
    merge_bases,
    replay_hints,
    try_pod,
)
from kschedctl.commands.wakes.many import iter_rejected_groups
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakingChange
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework.events import POD, ChangedObject, QueueingHint, join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod

MAX_SHOWN_NODES = 3
MAX_KEPT_CHANGES = 100
"""The maximum number of waking changes that are kept per pod. Further ones are only counted."""


class WatchedChange(NamedTuple):
    """A change that the scheduler watches, with the events that it causes."""

    change: ChangedObject
    occurrences: Sequence[Occurrence]


class Moments(NamedTuple):
    """The schedulers at two moments, and the changes between them that are watched."""

    before: Scheduler
    after: Scheduler
    watched: Sequence[WatchedChange]
    unwatched_count: int

    @classmethod
    def compare(cls, before: Scheduler, after: Scheduler) -> Moments:
        """Compare the clusters of two schedulers, and count the changes that are not watched."""
        handlers = before.event_handlers
        changes = [
            WatchedChange(change, handlers.list_occurrences(change)) for change in iter_changes(before.view, after.view)
        ]
        watched = [change for change in changes if change.occurrences]
        return cls(before, after, watched, len(changes) - len(watched))


def find_wakes_between(
    before: Scheduler,
    after: Scheduler,
    keys: Collection[str] | None,
    names: tuple[str, str],
    max_waking_changes: int | None = None,
    *,
    include_ended: bool = False,
) -> WakesBetween:
    """Find what woke pods that were pending at both moments.

    `keys` (`namespace/name`) limits the pods. Once `max_waking_changes` changes wake a pod, further changes are not
    tried. With `include_ended`, pods that no longer wait at the second moment are included. Each pod is tried at the
    first moment. Because the order of the changes is unknown, each change is judged by itself, with the claims and
    classes of the second moment.
    """
    moments = Moments.compare(before, after)
    waiting = [
        pod for pod in before.cluster.unbound_pods() if _is_subject(pod, moments, keys, include_ended=include_ended)
    ]
    groups = list(iter_rejected_groups(before, waiting))
    answers = [
        answer
        for rejected, equal_pods in groups
        for answer in _iter_answers(rejected, equal_pods, moments, max_waking_changes)
    ]
    missed_first = sorted((answer for answer, _ in answers), key=lambda pod: not pod.missed)
    bases = [build_basis(before, rejected) for rejected, _ in groups]
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


def _is_subject(pod: Pod, moments: Moments, keys: Collection[str] | None, *, include_ended: bool) -> bool:
    """Return whether the answer covers the pod: it waits, a profile serves it, and `keys` does not exclude it."""
    served = moments.before.view.stored(pod).spec.scheduler_name in moments.before.configuration.profiles
    waits = is_pending(pod) and (include_ended or not _describe_end(pod, moments.after))
    return served and waits and (keys is None or pod.key in keys)


def _find_later_pod(pod: Pod, after: Scheduler) -> Pod | None:
    """Find the pod at the second moment. Return None if it no longer exists."""
    later_pod = after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    return later_pod if later_pod is not None and is_same_pod(later_pod, pod) else None


def _describe_end(pod: Pod, after: Scheduler) -> str:
    """Describe why the pod no longer waits at the second moment. Return an empty string if it still does."""
    later_pod = _find_later_pod(pod, after)
    if later_pod is None:
        return "is gone"
    if later_pod.terminated:
        return "has finished"
    if later_pod.spec.node_name:
        return f"is on {later_pod.spec.node_name}"
    return "is being deleted" if not is_pending(later_pod) else ""


AnsweredPod = tuple[PodBetween, RejectedPod | None]
"""The answer about a pod, and the attempt to schedule it at the second moment if it still waits."""


def _iter_answers(
    rejected: RejectedPod, equal_pods: Sequence[Pod], moments: Moments, max_waking_changes: int | None
) -> Iterator[AnsweredPod]:
    """Yield the answers for equal pods. Only pods that changed or stopped waiting need their own."""
    changed = {event.change.object.key for event in moments.watched if event.change.kind == POD}
    shared = None
    for pod in equal_pods:
        if pod.key in changed or _describe_end(pod, moments.after):
            yield _answer_pod(
                try_pod(moments.before, moments.before.view.stored(pod)), pod, moments, max_waking_changes
            )
        else:
            shared = shared or _answer_pod(rejected, pod, moments, max_waking_changes)
            yield replace(shared[0], pod=pod.key), shared[1]


def _answer_pod(rejected: RejectedPod, pod: Pod, moments: Moments, max_waking_changes: int | None) -> AnsweredPod:
    """Replay the changes for a pod, and answer what woke it."""
    ended = _describe_end(pod, moments.after)
    events = [event for event in moments.watched if not (ended and _is_about_pod(event.change, pod))]
    woken_by: list[WakingChange] = []
    waking = not_waking = 0
    for event in events if rejected.queue == UNSCHEDULABLE else ():
        if waking == max_waking_changes:
            break
        woken = _find_waking_change(rejected, event, moments)
        waking, not_waking = (waking + 1, not_waking) if woken else (waking, not_waking + 1)
        if woken and waking <= MAX_KEPT_CHANGES:
            woken_by.append(woken)
    later_state = LaterState.find(pod, ended, moments.after)
    between = PodBetween(
        pod=pod.key,
        headline=_build_headline(rejected, waking, woken_by, later_state, len(events)),
        refused_by=tuple(sorted(rejected.attempt.rejectors.all)),
        woken_by=tuple(woken_by),
        waking_changes=waking,
        not_woken_by=not_waking,
        fits=later_state.fits,
        missed=bool(later_state.fits) and rejected.queue == UNSCHEDULABLE and not woken_by,
        ended=ended,
    )
    return between, later_state.tried


def _is_about_pod(change: ChangedObject, pod: Pod) -> bool:
    """Return whether the changed object is the pod itself."""
    return change.kind == POD and is_same_pod(change.object, pod)


def _find_waking_change(rejected: RejectedPod, watched: WatchedChange, moments: Moments) -> WakingChange | None:
    """Return the report on the change if it wakes the pod, otherwise None."""
    occurrences = drop_updates_of_other_pods(watched.occurrences, rejected.info)
    if not is_registered(rejected, occurrences):
        return None
    events, queue = replay_hints(rejected, occurrences, moments.after.view)
    if queue == UNSCHEDULABLE:
        return None
    queued = {plugin for event in events for plugin, hint in event.hints.items() if hint == QueueingHint.QUEUE}
    return WakingChange(describe_change(watched.change), tuple(event.event for event in events), tuple(sorted(queued)))


class LaterState(NamedTuple):
    """The state of a pod at the second moment."""

    ended: str
    """Why the pod no longer waits, or an empty string."""
    tried: RejectedPod | None = None
    """The attempt to schedule the pod if it still waits."""
    fits: tuple[str, ...] = ()
    """The nodes on which the pod fits."""

    @classmethod
    def find(cls, pod: Pod, ended: str, after: Scheduler) -> LaterState:
        """Find the state of the pod at the second moment. Schedule it if it still waits."""
        later_pod = None if ended else _find_later_pod(pod, after)
        if later_pod is None:
            return cls(ended)
        tried, names = try_pod(after, after.view.stored(later_pod)), after.view.nodes.names
        cycle = tried.attempt.cycle
        fits = tuple(names[row] for row in cycle.feasible.tolist()) if cycle and tried.fits else ()
        return cls(ended, tried, fits)

    @property
    def description(self) -> str:
        """The state as a clause that follows "it"."""
        if self.tried is None:
            return self.ended
        if self.tried.attempt.gating_plugin:
            return f"is held back by {self.tried.attempt.gating_plugin}"
        more = f" and {len(self.fits) - MAX_SHOWN_NODES:,} more" if len(self.fits) > MAX_SHOWN_NODES else ""
        return f"fits on {join_words(self.fits[:MAX_SHOWN_NODES], 'or')}{more}" if self.fits else "fits nowhere"


def _build_headline(
    rejected: RejectedPod,
    waking_count: int,
    woken_by: Sequence[WakingChange],
    later_state: LaterState,
    event_count: int,
) -> str:
    """Describe what woke the pod, or why nothing did, and the pod's state at the second moment."""
    if rejected.queue == NONE:
        end = f"; at the second it {later_state.description}" if later_state.ended else ""
        return f"fitted at the first moment: nothing had to wake it{end}"
    if rejected.queue != UNSCHEDULABLE:
        return "had nobody to wait for, and is tried again after its back-off"
    if waking_count:
        number = f"{waking_count:,} of {event_count:,} changes" if waking_count > 1 else woken_by[0].change
        return f"{number} woke it; at the second moment it {later_state.description}"
    nothing = f"none of {event_count:,} changes woke it" if event_count > 1 else "nothing woke it"
    if later_state.ended:
        return f"{later_state.description} at the second moment; {nothing} that both moments show"
    return (
        f"{later_state.description} at the second moment, but {nothing}"
        if later_state.fits
        else f"{nothing}, rightly: it {later_state.description}"
    )
