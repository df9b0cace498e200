"""What wakes a pod that a plugin refused: in the plugin's own words, where it has none by its registrations."""

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


class Waiting(NamedTuple):
    """A pod that was refused, and the plugin that is asked what wakes it: None for extenders, which say nothing.

    ``gated``: the plugin keeps the pod from being tried at all, until it says otherwise itself.
    """

    info: PodInfo
    plugin: Plugin | None
    view: Fork
    gates: FeatureGates
    gated: bool = False


FREEING = {NODE: ActionType.DELETE, POD: ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN}
OF_RESIZES = " that is being resized"
REACHING = {NODE: " that would then take it", POD: " at which its pod affinity or spreading may look"}
"""Kind -> which changes reach the pod (scheduler/queueing/pre_checks.py)."""
THEN = {NODE: ", and would then take the pod", POD: ", and the pod's own affinity may look at that one"}
"""Kind -> which changes reach the pod, after a plugin's own words."""
ITSELF = "the pod itself is updated, in more than its status"
ANY_TAINTS = "any taint of a node changes (the scheduler adds this, lest a new node is missed)"


def ways(waiting: Waiting, asked: tuple[ClusterEventWithHint, ...], hinted: bool) -> Iterator[WakeTrigger]:
    """The kinds of change that wake the pod, of those that the plugin asked for.

    Without queueing hints (``hinted``) every change that was asked for does, if it reaches the pod, and any update of
    the pod itself; so do those that older versions, where nodes are pre-checked all the same, ask for without a hint.
    """
    info, plugin, view, gates, gated = waiting
    if gated and offers(plugin, AdmittingPlugin):
        yield from plugin.admitting_changes(info, view, gates)
        return
    checked = pre_checked_resources(gates)
    plain = [event for event in asked if not hinted or (NODE in checked and event.hint is None)]
    yield from (change for event in plain for change in _without_hint(event, checked))
    if hinted:
        yield from _by_hints(waiting, [event for event in asked if event not in plain], checked)
    else:
        yield WakeTrigger(POD, UPDATE, ITSELF)


def _by_hints(
    waiting: Waiting, asked: Sequence[ClusterEventWithHint], checked: Collection[str]
) -> Iterator[WakeTrigger]:
    info, plugin, view, gates, _ = waiting
    if not offers(plugin, WakingPlugin):
        yield from (
            WakeTrigger(registration.kind, registration.action, _any(registration.kind, registration.action))
            for registration in asked
        )
        return
    wanted: dict[str, ActionType] = {}
    for event in asked:
        wanted[event.kind] = wanted.get(event.kind, ActionType(0)) | event.action
    for change in plugin.waking_changes(info, view, gates):
        if change.action & wanted.get(change.kind, ActionType(0)) or change.action == BY_THE_PLUGIN:
            reaching = "" if _reaches_all(change, checked) else THEN[change.kind]
            yield change._replace(words=f"{change.words}{reaching}")
    if any(registration.hint is None and registration.event == _IMPLIED for registration in asked):
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, ANY_TAINTS)


_IMPLIED = ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT).event


def _reaches_all(change: WakeTrigger, checked: Collection[str]) -> bool:
    if change.kind == NODE:
        return NODE not in checked
    return change.kind != POD or ASSIGNED_POD not in checked or bool(change.action & FREEING[POD])


def _without_hint(asked: ClusterEventWithHint, checked: Collection[str]) -> Iterator[WakeTrigger]:
    """What makes room reaches all pods, other changes of nodes and pods, where these are pre-checked, those that they
    may concern."""
    if (ASSIGNED_POD if asked.kind == POD else asked.kind) not in checked:
        yield WakeTrigger(asked.kind, asked.action, _any(asked.kind, asked.action))
        return
    freeing = asked.action & FREEING.get(asked.kind, asked.action)
    if asked.kind == POD and UPDATE in asked.action:  # then no kind of update has an event of its own
        freeing &= ~UPDATE
    others = asked.action & ~freeing
    if freeing:
        yield WakeTrigger(asked.kind, freeing, _any(asked.kind, freeing))
    if others:
        resizes = asked.kind == POD and not others & ActionType.ADD  # who asks for updates alone asks for these
        reaching = OF_RESIZES if resizes else REACHING[asked.kind]
        yield WakeTrigger(asked.kind, others, f"{_any(asked.kind, others)}{reaching}")


def _any(kind: str, action: ActionType) -> str:
    return f"any {join_words([label.lower() for label in labels(action)], 'or')} of a {get_api_kind(kind)}"


def labels(action: ActionType) -> tuple[str, ...]:
    """Upstream's names of the ways to change.

    >>> labels(ActionType.ADD | ActionType.UPDATE_NODE_LABEL), labels(ActionType.DELETE | ActionType.UPDATE)
    (('Add', 'UpdateNodeLabel'), ('Delete', 'Update'))
    """
    update = UPDATE in action
    single = [action_type for action_type in ActionType if action_type.bit_count() == 1 and action_type & action]
    basic = (action_type.label for action_type in single if not (update and action_type & UPDATE))
    return (*basic, *(("Update",) if update else ()))
