"""Find the changes between two moments that woke pods, and pods that should have been woken but were not.

Kubernetes issue 49314 and similar ones: a pod that would fit keeps waiting because no event makes the scheduler retry
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.wakes.changes import describe_change, iter_changes
from kschedctl.commands.wakes.event_replay import (
    NONE,
    UNSCHEDULABLE,
    RejectedPod,
    build_caveat_fields,
    drop_updates_of_other_pods,
    has_registered_rejector,
    merge_caveat_fields,
    replay_queueing_hints,
    try_pod,
)
from kschedctl.commands.wakes.many import iter_groups_of_rejected_pods
from kschedctl.commands.wakes.report import PodBetween, WakesBetween, WakingChange
from kschedctl.replay.pending_pods import is_pending
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework.events import POD, ChangedObject, QueueingHint, join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import is_same_pod

MAX_SHOWN_NODES = 3
MAX_KEPT_CHANGES = 100
"""The maximum number of waking changes that are kept per pod. Further ones are only counted."""


class WatchedChange(NamedTuple):
    """A change watched by the scheduler, and the events that it causes."""

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
        """Find the changes from one scheduler's cluster to the other's, and count the changes that nothing watches."""
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
    """Find which changes woke the pods that were pending both before and after.

    Missed pods come first: they fit after the changes although none of these woke them.

    `keys` (`namespace/name`) limits the pods, and `names` are the names of the two states in the report. Once
    `max_waking_changes` changes wake a pod, no further changes are tried. `include_ended` includes pods that no longer
    wait in ``after``.

    Each pod is tried in ``before``. Because the order of the changes is unknown, each change is judged separately, with
    the claims and classes in ``after``.
    """
    moments = Moments.compare(before, after)
    waiting = [
        pod for pod in before.cluster.unbound_pods() if _is_pod_covered(pod, moments, keys, include_ended=include_ended)
    ]
    groups = list(iter_groups_of_rejected_pods(before, waiting))
    answers = [
        answer
        for rejected, equal_pods in groups
        for answer in _iter_wake_up_answers(rejected, equal_pods, moments, max_waking_changes)
    ]
    # Equal pods share an attempt, so that each is counted once
    later_attempts = {id(answer.later_attempt): answer.later_attempt for answer in answers if answer.later_attempt}
    fields_of_attempts = [build_caveat_fields(before, rejected) for rejected, _ in groups]
    fields_of_attempts += [build_caveat_fields(after, attempt) for attempt in later_attempts.values()]
    before_name, after_name = names
    return WakesBetween(
        before=before_name,
        after=after_name,
        changes=len(moments.watched),
        unheard=moments.unwatched_count,
        pods=tuple(sorted((answer.pod for answer in answers), key=lambda pod: not pod.missed)),
        kube_version=before.cluster.kube_version,
        **merge_caveat_fields(fields_of_attempts),
    )


def _is_pod_covered(pod: Pod, moments: Moments, keys: Collection[str] | None, *, include_ended: bool) -> bool:
    """Return whether the answer covers the pod: it waits at both moments, a profile serves it, and it is in `keys`.

    Without `keys` (None), all pods are covered. With `include_ended`, the pod has to wait only at the first moment.
    """
    is_served = moments.before.view.build_stored_pod(pod).spec.scheduler_name in moments.before.configuration.profiles
    waits = is_pending(pod) and (include_ended or not _describe_end_of_wait(pod, moments.after))
    is_wanted = keys is None or pod.key in keys
    return is_served and waits and is_wanted


def _find_pod_after_changes(pod: Pod, after: Scheduler) -> Pod | None:
    """Return the pod as it is in ``after``, or None if it no longer exists or was recreated."""
    later_pod = after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    if later_pod is None or not is_same_pod(later_pod, pod):
        return None
    return later_pod


def _describe_end_of_wait(pod: Pod, after: Scheduler) -> str:
    """Describe why the pod no longer waits in ``after``, or return "" if it still does."""
    later_pod = _find_pod_after_changes(pod, after)
    if later_pod is None:
        return "is gone"
    if later_pod.terminated:
        return "has finished"
    if later_pod.spec.node_name:
        return f"is on {later_pod.spec.node_name}"
    return "is being deleted" if not is_pending(later_pod) else ""


class AnsweredPod(NamedTuple):
    """The answer about a pod."""

    pod: PodBetween
    later_attempt: RejectedPod | None
    """The attempt to schedule the pod at the second moment, None if it no longer waits."""


def _iter_wake_up_answers(
    rejected: RejectedPod, equal_pods: Sequence[Pod], moments: Moments, max_waking_changes: int | None
) -> Iterator[AnsweredPod]:
    """Yield the answer for each of the equal pods, which says what woke the pod.

    `rejected` is the attempt to schedule one of the pods at the first moment. Pods that still wait unchanged share the
    answer for this attempt. Each other pod gets an attempt and an answer of its own. No more changes are tried once
    `max_waking_changes` have woken a pod.
    """
    changed_pods = {watched.change.object.key for watched in moments.watched if watched.change.kind == POD}
    shared_answer = None
    for pod in equal_pods:
        if pod.key in changed_pods or _describe_end_of_wait(pod, moments.after):
            own_attempt = try_pod(moments.before, moments.before.view.build_stored_pod(pod))
            yield _build_pod_answer(own_attempt, pod, moments, max_waking_changes)
            continue
        if shared_answer is None:
            shared_answer = _build_pod_answer(rejected, pod, moments, max_waking_changes)
        yield shared_answer._replace(pod=replace(shared_answer.pod, pod=pod.key))


def _build_pod_answer(rejected: RejectedPod, pod: Pod, moments: Moments, max_waking_changes: int | None) -> AnsweredPod:
    """Replay the changes for a pod, and build the answer: what woke it, and whether it fits afterwards.

    If the pod has stopped waiting, the changes of the pod itself are left out. Only unschedulable pods can be woken.
    Once `max_waking_changes` changes have woken the pod, the remaining changes are not tried. None means no limit.
    """
    ended = _describe_end_of_wait(pod, moments.after)
    changes = [watched for watched in moments.watched if not (ended and _is_about_pod(watched.change, pod))]
    is_unschedulable = rejected.queue == UNSCHEDULABLE
    tried = _TriedChanges()
    if is_unschedulable:
        tried = _try_changes(rejected, changes, moments, max_waking_changes)

    later_state = LaterState.determine(pod, ended, moments.after)
    report = PodBetween(
        pod=pod.key,
        headline=_describe_wakes(rejected, tried.waking_count, tried.first_waking, later_state, len(changes)),
        refused_by=tuple(sorted(rejected.attempt.rejectors.all)),
        woken_by=tried.first_waking,
        waking_changes=tried.waking_count,
        not_woken_by=tried.not_waking_count,
        fits=later_state.fits,
        missed=bool(later_state.fits) and is_unschedulable and not tried.waking_count,
        ended=ended,
    )
    return AnsweredPod(report, later_state.tried_pod)


class _TriedChanges(NamedTuple):
    """The changes that were replayed for a rejected pod, by whether they wake the pod."""

    first_waking: tuple[WakingChange, ...] = ()
    """The first MAX_KEPT_CHANGES changes that wake the pod."""
    waking_count: int = 0
    not_waking_count: int = 0


def _try_changes(
    rejected: RejectedPod, changes: Iterable[WatchedChange], moments: Moments, max_waking_changes: int | None
) -> _TriedChanges:
    """Replay the changes for a rejected pod until `max_waking_changes` of them have woken the pod.

    All changes are replayed if `max_waking_changes` is None.
    """
    first_waking: list[WakingChange] = []
    waking_count = not_waking_count = 0
    for watched in changes:
        if waking_count == max_waking_changes:
            break
        waking_change = _find_waking_change(rejected, watched, moments)
        if waking_change is None:
            not_waking_count += 1
            continue
        waking_count += 1
        if waking_count <= MAX_KEPT_CHANGES:
            first_waking.append(waking_change)
    return _TriedChanges(tuple(first_waking), waking_count=waking_count, not_waking_count=not_waking_count)


def _is_about_pod(change: ChangedObject, pod: Pod) -> bool:
    """Return whether the changed object is the pod itself."""
    return change.kind == POD and is_same_pod(change.object, pod)


def _find_waking_change(rejected: RejectedPod, watched: WatchedChange, moments: Moments) -> WakingChange | None:
    """Return the report on a change, with the plugins that queue the pod because of it.

    Return None if the change does not wake the pod, for example because no rejecting plugin registered for its events.
    """
    occurrences = drop_updates_of_other_pods(watched.occurrences, rejected.info)
    if not has_registered_rejector(rejected, occurrences):
        return None
    events, queue = replay_queueing_hints(rejected, occurrences, moments.after.view)
    if queue == UNSCHEDULABLE:
        return None
    queued = {plugin for event in events for plugin, hint in event.hints.items() if hint == QueueingHint.QUEUE}
    return WakingChange(
        describe_change(watched.change), events=tuple(event.event for event in events), by=tuple(sorted(queued))
    )


class LaterState(NamedTuple):
    """The state of a pod at the second moment."""

    ended: str
    """The reason why the pod no longer waits, or an empty string."""
    tried_pod: RejectedPod | None = None
    """The pod after an attempt to schedule it if it still waits, otherwise None."""
    fits: tuple[str, ...] = ()
    """The nodes on which the pod fits."""

    @classmethod
    def determine(cls, pod: Pod, ended: str, after: Scheduler) -> LaterState:
        """Determine the state of the pod at the second moment, by an attempt to schedule it if it still waits.

        `ended` says why the pod no longer waits, as `_describe_end_of_wait` does, and is empty if it still waits. If
        the pod no longer waits, the result has no attempt and no nodes.
        """
        if ended:
            return cls(ended)
        later_pod = _find_pod_after_changes(pod, after)
        assert later_pod is not None  # a pod that is gone has ended its wait
        tried_pod = try_pod(after, after.view.build_stored_pod(later_pod))
        cycle = tried_pod.attempt.cycle
        if cycle is None or not tried_pod.fits:
            return cls(ended, tried_pod)
        node_names = after.view.nodes.names
        return cls(ended, tried_pod, fits=tuple(node_names[row] for row in cycle.feasible.tolist()))

    @property
    def description(self) -> str:
        """The state as a clause that follows "it", such as "fits on w1 or w2"."""
        if self.tried_pod is None:
            return self.ended
        gating_plugin = self.tried_pod.attempt.gating_plugin
        if gating_plugin:
            return f"is held back by {gating_plugin}"
        if not self.fits:
            return "fits nowhere"
        further = len(self.fits) - MAX_SHOWN_NODES
        more = f" and {further:,} more" if further > 0 else ""
        return f"fits on {join_words(self.fits[:MAX_SHOWN_NODES], 'or')}{more}"


def _describe_wakes(
    rejected: RejectedPod,
    waking_count: int,
    woken_by: Sequence[WakingChange],
    later_state: LaterState,
    change_count: int,
) -> str:
    """Describe what woke the pod, or why nothing did, and the pod's state at the second moment.

    `waking_count` of `change_count` changes woke the pod. `woken_by` has only the first of them.
    """
    if rejected.queue == NONE:
        end = f"; at the second it {later_state.description}" if later_state.ended else ""
        return f"fitted at the first moment, so no change had to trigger a retry{end}"
    if rejected.queue != UNSCHEDULABLE:
        return "did not wait for an event: it is retried after its back-off"
    if waking_count:
        changes = f"{waking_count:,} of {change_count:,} changes" if waking_count > 1 else woken_by[0].change
        return f"{changes} woke it; at the second moment it {later_state.description}"
    nothing = f"none of {change_count:,} changes woke it" if change_count > 1 else "nothing woke it"
    if later_state.ended:
        return f"{later_state.description} at the second moment; {nothing}, as far as both moments show"
    if later_state.fits:
        return f"{later_state.description} at the second moment, but {nothing}"
    return f"{nothing}, rightly: it {later_state.description}"
