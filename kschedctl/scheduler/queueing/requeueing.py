"""The decision whether an event makes a rejected pod worth another attempt.

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
from kschedctl.scheduler.queueing.pre_checks import is_pod_updated, passes_pre_check
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo


class QueueingStrategy(StrEnum):
    """What happens to a pod after an event: it stays, is tried again after its backoff, or at once."""

    SKIP = "QueueSkip"
    AFTER_BACKOFF = "QueueAfterBackoff"
    IMMEDIATELY = "QueueImmediately"


SKIP, AFTER_BACKOFF = QueueingStrategy.SKIP, QueueingStrategy.AFTER_BACKOFF
GATE_DECIDES = ByVersion(
    "whether a pod that is gated hears of what its gating plugin asked for, and of nothing else",
    (("", False), ("1.34", True)),
)


def collect_hints(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, view: Fork
) -> dict[str, QueueingHint]:
    """Return the hint of each plugin that rejected the pod; `view` is as for HintFunction.

    Upstream stops at the first Queue; here all plugins are asked. An error of a hint counts as Queue.
    """
    event = occurrence.event
    return {
        plugin: _combine_hints(registrations.hints(plugin, event), info, occurrence, view)
        for plugin in sorted(rejectors.all)
    }


def choose_strategy(
    registrations: Registrations,
    rejectors: Rejectors,
    info: PodInfo,
    occurrence: Occurrence,
    view: Fork,
    *,
    known_hints: Mapping[str, QueueingHint] | None = None,
    in_flight: bool = False,
) -> QueueingStrategy:
    """Return what happens to a pod that these plugins rejected; `said` has the hints if they are known.

    A pod without rejectors has no reason to wait. For pre-checked kinds only events that reach the pod count, unless it
    was `in_flight`, and every update of the pod itself, except of its status, is worth another attempt.
    """
    checked = occurrence.event.resource in registrations.pre_checked
    if checked and occurrence.itself:
        return AFTER_BACKOFF if is_pod_updated(occurrence.change) else SKIP
    if checked and not in_flight and not passes_pre_check(info, rejectors, occurrence, view, registrations.gates):
        return SKIP
    if not rejectors.all:
        return AFTER_BACKOFF
    answers = collect_hints(registrations, rejectors, info, occurrence, view) if known_hints is None else known_hints
    queued = {plugin for plugin, hint in answers.items() if hint is QueueingHint.QUEUE}
    if queued & rejectors.pending:
        return QueueingStrategy.IMMEDIATELY
    return AFTER_BACKOFF if queued else SKIP


def may_queue(registrations: Registrations, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    """Return whether an event could put a pod back into the queue, whichever plugins rejected it."""
    event = occurrence.event
    asking = registrations.find_registered_plugins(event)
    if not asking:
        return False
    if event.resource in registrations.pre_checked:
        return choose_strategy(registrations, Rejectors(asking), info, occurrence, view) is not SKIP
    asked = [registrations.hints(plugin, event) for plugin in asking]
    return any(None in hints_ for hints_ in asked) or any(
        _ask_hint(hint, info, occurrence, view) for hints_ in asked for hint in hints_ if hint is not None
    )


def is_concerned(
    registrations: Registrations, rejectors: Rejectors, info: PodInfo, occurrence: Occurrence, gating_plugin: str = ""
) -> bool:
    """Return whether the hints of the plugins that rejected the pod count at all for this event.

    Events that concern only other pods do not count. For a gated pod, events that its gating plugin did not register
    for do not count, unless the pod itself was updated. Before GATE_DECIDES nothing counted for pods with scheduling
    gates.
    """
    if occurrence.itself:
        return is_same_pod(occurrence.change.new, info.pod)
    if occurrence.up_to_priority is not None and info.priority > occurrence.up_to_priority:
        return False
    if gating_plugin and not GATE_DECIDES.at(registrations.gates.release):
        return SchedulingGates.name not in rejectors.unschedulable
    return not gating_plugin or is_registered(registrations, gating_plugin, occurrence.event)


def is_registered(registrations: Registrations, plugin: str, event: ClusterEvent) -> bool:
    """Return whether a plugin registered for an event."""
    return bool(registrations.hints(plugin, event))


def _combine_hints(
    asked: tuple[HintFunction | None, ...], info: PodInfo, occurrence: Occurrence, view: Fork
) -> QueueingHint:
    """Return a plugin's answer from its hints; no hints means that it did not register."""
    if not asked:
        return QueueingHint.NOT_REGISTERED
    worth = any(hint is None or _ask_hint(hint, info, occurrence, view) for hint in asked)
    return QueueingHint.QUEUE if worth else QueueingHint.SKIP


def _ask_hint(hint: HintFunction, info: PodInfo, occurrence: Occurrence, view: Fork) -> bool:
    """Return whether a hint says Queue; an error counts as Queue."""
    try:
        return hint(info, occurrence.change, view)
    except PluginError:
        return True
