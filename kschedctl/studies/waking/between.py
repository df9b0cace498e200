"""What lies between two moments of a cluster that woke pods, and which pods it should have woken and did not.

Kubernetes issue 49314 and those like it: a pod that fits, and waits all the same, since nothing told the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.reports.wakes import PodBetween, WakesBetween, WakingChange
from kschedctl.scheduler.queueing.event_handlers import Occurrence
from kschedctl.scheduler.queueing.events import POD, ChangedObject, QueueingHint
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import same_pod
from kschedctl.studies.unknown import together
from kschedctl.studies.waking.changes import changes_between, told
from kschedctl.studies.waking.many import refused_pods
from kschedctl.studies.waking.wakes import NONE, UNSCHEDULABLE, Refused, asked, concerning, leaning, try_once
from kschedctl.studies.waking.ways.told import listed

FITS_TOLD = 3


class Moments(NamedTuple):
    """The scheduler at both moments, and what lies between as far as it hears of it."""

    before: Scheduler
    after: Scheduler
    heard: Sequence[ChangedObject]
    unheard: int

    @classmethod
    def of(cls, before: Scheduler, after: Scheduler) -> Moments:
        changes = list(changes_between(before.view, after.view))
        heard = [change for change in changes if before.event_handlers.occurrences(change)]
        return cls(before, after, heard, len(changes) - len(heard))


def wakes_between(
    before: Scheduler,
    after: Scheduler,
    keys: Collection[str] | None,
    names: tuple[str, str],
    enough: int | None = None,
) -> WakesBetween:
    """Of these pods (``namespace/name``), or of all that were pending at both moments.

    ``enough``: of a pod that so many changes woke no more are looked for. A pod was tried at the first moment. In which
    order changes came is not known: each is judged by itself, with the claims and classes as they are in the end.
    """
    moments = Moments.of(before, after)
    waiting = [pod for pod in before.cluster.unbound_pods() if _is_asked(pod, moments, keys)]
    groups = list(refused_pods(before, waiting))
    found = [each for refused, alike in groups for each in _pods(refused, alike, moments, enough)]
    found.sort(key=lambda pod: not pod.missed)
    leans = [leaning(before, refused) for refused, _ in groups]
    unknown = together(each["unknown"] for each in leans)
    return WakesBetween(
        before=names[0],
        after=names[1],
        changes=len(moments.heard),
        unheard=moments.unheard,
        pods=tuple(found),
        kube_version=before.cluster.kube_version,
        not_replayed=tuple(dict.fromkeys(what for each in leans for what in each["not_replayed"])),
        unknown=unknown,
        undecided=any(each["undecided"] for each in leans),
    )


def _is_asked(pod: Pod, moments: Moments, keys: Collection[str] | None) -> bool:
    """Whether it is meant, waits, and is served by the scheduler, at both moments."""
    now = moments.after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    if now is None or not same_pod(now, pod) or now.spec.node_name or pod.terminated or now.terminated:
        return False
    served = moments.before.configuration.profiles
    wanted = keys is None or pod.key in keys
    return wanted and moments.before.view.stored(pod).spec.scheduler_name in served


def _pods(refused: Refused, alike: Sequence[Pod], moments: Moments, enough: int | None) -> Iterator[PodBetween]:
    """Pods that are alike; those that changed themselves are told apart."""
    changed = {(each.old or each.new).key for each in moments.heard if each.kind == POD}
    shared = None
    for pod in alike:
        if pod.key in changed:
            yield _pod(try_once(moments.before, moments.before.view.stored(pod)), pod, moments, enough)
        else:
            shared = shared or _pod(refused, pod, moments, enough)
            yield replace(shared, pod=pod.key)


def _pod(refused: Refused, pod: Pod, moments: Moments, enough: int | None) -> PodBetween:
    woken_by: list[WakingChange] = []
    others = 0
    for change in moments.heard if refused.queue == UNSCHEDULABLE else ():
        if len(woken_by) == enough:
            break
        occurrences = concerning(moments.before, refused.info, change)
        events, queue = asked(refused, occurrences, moments.after.view)
        if queue != UNSCHEDULABLE:
            woken_by.append(_waking(change, occurrences, [each.hints for each in events]))
        others += queue == UNSCHEDULABLE
    gate, fits = _in_the_end(pod, moments.after)
    missed = bool(fits) and refused.queue == UNSCHEDULABLE and not woken_by
    return PodBetween(
        pod=pod.key,
        headline=_headline(refused, woken_by, _where(gate, fits), bool(fits), len(moments.heard)),
        refused_by=tuple(sorted(refused.attempt.rejectors.all)),
        woken_by=tuple(woken_by),
        not_woken_by=others,
        fits=fits,
        missed=missed,
    )


def _waking(change: ChangedObject, occurrences: Sequence[Occurrence], hints: Sequence[dict[str, str]]) -> WakingChange:
    queued = sorted({plugin for said_ in hints for plugin, hint in said_.items() if hint == QueueingHint.QUEUE})
    return WakingChange(told(change), tuple(each.event.label for each in occurrences), tuple(queued))


def _in_the_end(pod: Pod, after: Scheduler) -> tuple[str, tuple[str, ...]]:
    """The plugin that holds the pod back at the second moment, empty for none, and the nodes that it fits on."""
    now = after.cluster.pod(pod.metadata.namespace, pod.metadata.name)
    assert now is not None
    tried, names = try_once(after, after.view.stored(now)), after.view.nodes.names
    cycle = tried.attempt.cycle
    fits = tuple(names[row] for row in cycle.feasible.tolist()) if cycle and tried.fits else ()
    return tried.attempt.gating_plugin, fits


def _where(gate: str, fits: Sequence[str]) -> str:
    """What would become of the pod at the second moment."""
    if gate:
        return f"is held back by {gate}"
    more = f" and {len(fits) - FITS_TOLD:,} more" if len(fits) > FITS_TOLD else ""
    return f"fits on {listed(fits[:FITS_TOLD], 'or')}{more}" if fits else "fits nowhere"


def _headline(refused: Refused, woken_by: Sequence[WakingChange], where: str, fits: bool, heard: int) -> str:
    if refused.queue == NONE:
        return "fitted at the first moment: nothing had to wake it"
    if refused.queue != UNSCHEDULABLE:
        return "had nobody to wait for, and is tried again after its back-off"
    if woken_by:
        number = f"{len(woken_by):,} of {heard:,} changes" if len(woken_by) > 1 else woken_by[0].change
        return f"{number} woke it; at the second moment it {where}"
    nothing = f"none of {heard:,} changes woke it" if heard > 1 else "nothing woke it"
    return f"{where} at the second moment, but {nothing}" if fits else f"{nothing}, rightly: it {where}"
