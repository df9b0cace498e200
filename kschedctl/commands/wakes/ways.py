"""The kinds of change that wake a pod which a plugin rejected, in the plugin's words or derived from its
registrations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.kinds import get_api_kind
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    ActionType,
    ClusterEventWithHint,
    pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import (
    BY_THE_PLUGIN,
    UPDATE,
    AdmittingPlugin,
    WakeTrigger,
    WakingPlugin,
    join_words,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class WakeQuery(NamedTuple):
    """A rejected pod, and the plugin that is asked what wakes it."""

    info: PodInfo
    plugin: Plugin | None
    """None for extenders, which register no events."""
    view: Fork
    gates: FeatureGates
    gated: bool = False
    """Whether the plugin keeps the pod from being tried until it changes its answer."""


FREEING = {NODE: ActionType.DELETE, POD: ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN}
OF_RESIZES = " that is being resized"
REACHING = {NODE: " that would then take it", POD: " at which its pod affinity or spreading may look"}
"""Which changes of a kind reach the pod (scheduler/queueing/pre_checks.py)."""
THEN = {NODE: ", and would then take the pod", POD: ", and the pod's own affinity may look at that one"}
"""Which changes of a kind reach the pod, as a continuation of a plugin's own words."""
ITSELF = "the pod itself is updated, in more than its status"
ANY_TAINTS = "any taint of a node changes (the scheduler adds this, lest a new node is missed)"


def iter_wake_triggers(
    waiting: WakeQuery, asked: tuple[ClusterEventWithHint, ...], hinted: bool
) -> Iterator[WakeTrigger]:
    """Yield the kinds of change that wake the pod among those that the plugin registered for.

    Without queueing hints (``hinted``) every registered change that reaches the pod wakes it, and so does any update of
    the pod itself. The same holds for events that older versions, which pre-check nodes anyway, register without a
    hint.
    """
    info, plugin, view, gates, gated = waiting
    if gated and offers(plugin, AdmittingPlugin):
        yield from plugin.admitting_changes(info, view, gates)
        return
    checked = pre_checked_resources(gates)
    plain = [event for event in asked if not hinted or (NODE in checked and event.hint is None)]
    yield from (change for event in plain for change in _iter_unhinted_triggers(event, checked))
    if hinted:
        yield from _iter_hinted_triggers(waiting, [event for event in asked if event not in plain], checked)
    else:
        yield WakeTrigger(POD, UPDATE, ITSELF)


def _iter_hinted_triggers(
    waiting: WakeQuery, asked: Sequence[ClusterEventWithHint], checked: Collection[str]
) -> Iterator[WakeTrigger]:
    info, plugin, view, gates, _ = waiting
    if not offers(plugin, WakingPlugin):
        yield from (
            WakeTrigger(registration.kind, registration.action, _describe_any(registration.kind, registration.action))
            for registration in asked
        )
        return
    wanted: dict[str, ActionType] = {}
    for event in asked:
        wanted[event.kind] = wanted.get(event.kind, ActionType(0)) | event.action
    for change in plugin.waking_changes(info, view, gates):
        if change.action & wanted.get(change.kind, ActionType(0)) or change.action == BY_THE_PLUGIN:
            reaching = "" if _reaches_all_pods(change, checked) else THEN[change.kind]
            yield change._replace(words=f"{change.words}{reaching}")
    if any(registration.hint is None and registration.event == _IMPLIED for registration in asked):
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, ANY_TAINTS)


_IMPLIED = ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT).event


def _reaches_all_pods(change: WakeTrigger, checked: Collection[str]) -> bool:
    if change.kind == NODE:
        return NODE not in checked
    return change.kind != POD or ASSIGNED_POD not in checked or bool(change.action & FREEING[POD])


def _iter_unhinted_triggers(asked: ClusterEventWithHint, checked: Collection[str]) -> Iterator[WakeTrigger]:
    """Yield triggers for an event without a hint. Changes that free resources reach all pods.

    Other changes of pre-checked nodes and pods reach the pods they may concern.
    """
    if (ASSIGNED_POD if asked.kind == POD else asked.kind) not in checked:
        yield WakeTrigger(asked.kind, asked.action, _describe_any(asked.kind, asked.action))
        return
    freeing = asked.action & FREEING.get(asked.kind, asked.action)
    if asked.kind == POD and UPDATE in asked.action:  # then no kind of update has an event of its own
        freeing &= ~UPDATE
    others = asked.action & ~freeing
    if freeing:
        yield WakeTrigger(asked.kind, freeing, _describe_any(asked.kind, freeing))
    if others:
        resizes = asked.kind == POD and not others & ActionType.ADD  # who asks for updates alone asks for these
        reaching = OF_RESIZES if resizes else REACHING[asked.kind]
        yield WakeTrigger(asked.kind, others, f"{_describe_any(asked.kind, others)}{reaching}")


def _describe_any(kind: str, action: ActionType) -> str:
    return f"any {join_words([label.lower() for label in action_labels(action)], 'or')} of a {get_api_kind(kind)}"


def action_labels(action: ActionType) -> tuple[str, ...]:
    """Return upstream's names of the actions.

    >>> action_labels(ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
    ('Add', 'UpdateNodeLabel')
    >>> action_labels(ActionType.DELETE | ActionType.UPDATE)
    ('Delete', 'Update')
    """
    update = UPDATE in action
    single = [action_type for action_type in ActionType if action_type.bit_count() == 1 and action_type & action]
    basic = (action_type.label for action_type in single if not (update and action_type & UPDATE))
    return (*basic, *(("Update",) if update else ()))
