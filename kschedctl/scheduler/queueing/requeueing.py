"""Whether an event is worth another try of a pod that was refused.

Upstream: isPodWorthRequeuing and movePodsToActiveOrBackoffQueue in pkg/scheduler/backend/queue/scheduling_queue.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.rejectors import Rejectors
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.event_handling.registrations import Registrations
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.events import ClusterEvent, HintFunction, QueueingHint
from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates
from kschedctl.scheduler.queueing.pre_checks import reached, really_updated
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo


class QueueingStrategy(StrEnum):
    """What becomes of the pod: it stays, is tried again after its back-off, or at once."""

    SKIP = "QueueSkip"
    AFTER_BACKOFF = "QueueAfterBackoff"
    IMMEDIATELY = "QueueImmediately"


SKIP, AFTER_BACKOFF = QueueingStrategy.SKIP, QueueingStrategy.AFTER_BACKOFF
GATE_DECIDES = ByVersion(
    "whether a pod that is gated hears of what its gating plugin asked for, and of nothing else",
    (("", False), ("1.34", True)),
)


def hints(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, view: Fork
) -> dict[str, QueueingHint]:
    """What each plugin that refused the pod says to an event; ``view`` is as HintFunction says.

    Upstream stops at the first Queue; here all are asked. An error of a hint counts as Queue.
    """
    event = occurrence.event
    return {
        plugin: _hint(registrations.hints(plugin, event), info, occurrence, view) for plugin in sorted(rejectors.all)
    }


def strategy(
    registrations: Registrations,
    rejectors: Rejectors,
    info: PodInfo,
    occurrence: Occurrence,
    view: Fork,
    *,
    said: Mapping[str, QueueingHint] | None = None,
    in_flight: bool = False,
) -> QueueingStrategy:
    """What becomes of a pod that these refused when an event comes; ``said``: the hints, where they are known.

    With no rejector there is no reason to wait. Of kinds that are pre-checked only events that reach the pod count,
    unless it was ``in_flight``, being tried, and every update of the pod itself, but for its status, is worth another
    try.
    """
    checked = occurrence.event.resource in registrations.pre_checked
    if checked and occurrence.itself:
        return AFTER_BACKOFF if really_updated(occurrence.change) else SKIP
    if checked and not in_flight and not reached(info, rejectors, occurrence, view, registrations.gates):
        return SKIP
    if not rejectors.all:
        return AFTER_BACKOFF
    answers = hints(registrations, rejectors, info, occurrence, view) if said is None else said
    queued = {plugin for plugin, hint in answers.items() if hint is QueueingHint.QUEUE}
    if queued & rejectors.pending:
        return QueueingStrategy.IMMEDIATELY
    return AFTER_BACKOFF if queued else SKIP


def may_queue(registrations: Registrations, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    """Whether an event could put a pod back into the queue, whichever plugins refused it."""
    event = occurrence.event
    asking = registrations.asking(event)
    if not asking:
        return False
    if event.resource in registrations.pre_checked:
        return strategy(registrations, Rejectors(asking), info, occurrence, view) is not SKIP
    asked = [registrations.hints(plugin, event) for plugin in asking]
    return any(None in hints_ for hints_ in asked) or any(
        _worth(hint, info, occurrence, view) for hints_ in asked for hint in hints_ if hint is not None
    )


def hears(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, gating_plugin: str = ""
) -> bool:
    """Whether what the plugins say that refused a pod counts at all.

    Not about what concerns other pods only, nor, for a pod that ``gating_plugin`` keeps out of the queue, about what
    that plugin did not ask for, unless it is the pod itself that was updated. Before GATE_DECIDES nothing counted once
    there were scheduling gates.
    """
    if occurrence.itself:
        return is_same_pod(occurrence.change.new, info.pod)
    if occurrence.up_to_priority is not None and info.priority > occurrence.up_to_priority:
        return False
    if gating_plugin and not GATE_DECIDES.at(registrations.gates.release):
        return SchedulingGates.name not in rejectors.unschedulable
    return not gating_plugin or interests(registrations, gating_plugin, occurrence.event)


def interests(registrations: Registrations, plugin: str, event: ClusterEvent) -> bool:
    """Whether a plugin asked for an event."""
    return bool(registrations.hints(plugin, event))


def _hint(asked: tuple[HintFunction | None, ...], info: PodInfo, occurrence: Occurrence, view: Fork) -> QueueingHint:
    if not asked:
        return QueueingHint.NOT_REGISTERED
    worth = any(hint is None or _worth(hint, info, occurrence, view) for hint in asked)
    return QueueingHint.QUEUE if worth else QueueingHint.SKIP


def _worth(hint: HintFunction, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    try:
        return hint(info, occurrence.change, view)
    except PluginError:
        return True
