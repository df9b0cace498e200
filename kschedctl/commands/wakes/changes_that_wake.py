"""Find the kinds of changes that wake a rejected pod, from its rejectors' descriptions or their registered events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.kinds import get_api_kind
from kschedctl.api.objects import Pod
from kschedctl.commands.explain.eliminations import report_eliminations
from kschedctl.commands.explain.pod_group_report import describe_bound_gang_failure
from kschedctl.commands.explain.reach import find_obstacles
from kschedctl.commands.wakes.event_replay import (
    BACKOFF,
    NONE,
    UNSCHEDULABLE,
    RejectedPod,
    build_caveat_fields,
    try_pod,
)
from kschedctl.commands.wakes.report import RejectorReport, WakeUp, WakeUps
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.scheduler.framework.events import (
    ASSIGNED_POD,
    BY_THE_PLUGIN,
    NODE,
    POD,
    UPDATE,
    ActionType,
    AdmittingPlugin,
    ClusterEventWithHint,
    WakeTrigger,
    WakingPlugin,
    join_words,
    list_pre_checked_resources,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import counted

NOTHING = "no change is needed"


def find_wake_ups(scheduler: Scheduler, pod: Pod) -> WakeUps:
    """Find what would wake a pod, given as the API server stores it. Raises UsageError if it is not pending."""
    return build_wake_ups_report(scheduler, try_pod(scheduler, pod))


def build_wake_ups_report(scheduler: Scheduler, rejected: RejectedPod) -> WakeUps:
    """Build the report on what would wake a pod that could not be scheduled.

    Rejectors are reported only for pods in the unschedulable queue.
    """
    pod = rejected.info.pod
    rejectors: tuple[RejectorReport, ...] = ()
    if rejected.queue == UNSCHEDULABLE:
        rejectors = tuple(
            _build_rejector_report(scheduler, rejected, plugin) for plugin in _list_rejectors_in_profile_order(rejected)
        )
    kinds = {wake_up.words for rejector in rejectors for wake_up in rejector.wake_ups}
    return WakeUps(
        pod=pod.key,
        headline=_describe_awaited_changes(rejected, len(kinds)),
        queue=rejected.queue,
        message=rejected.message,
        gating_plugin=rejected.attempt.gating_plugin,
        rejectors=rejectors,
        kube_version=scheduler.cluster.kube_version,
        ignored=scheduler.list_ignored_fields((pod.spec,)),
        pod_group=rejected.gang.report if rejected.gang else rejected.pod_group,
        **build_caveat_fields(scheduler, rejected),
    )


def build_not_created_report(scheduler: Scheduler, pod: Pod, failure: NotCreated) -> WakeUps:
    """Build the report for a pod that cannot be created, so that no scheduler sees it."""
    return WakeUps(
        pod=pod.key,
        headline=f"Not created: {failure.headline}",
        queue=NONE,
        kube_version=scheduler.cluster.kube_version,
        not_created=failure,
    )


def _list_rejectors_in_profile_order(rejected: RejectedPod) -> list[str]:
    """Return the plugins that rejected the pod, in the order of the profile."""
    order = [*rejected.framework.plugins, *rejected.registrations.by_plugin]
    return sorted(rejected.attempt.rejectors.all, key=order.index)


def _describe_awaited_changes(rejected: RejectedPod, kind_count: int) -> str:
    """Describe what the pod waits for, or that it waits for nothing.

    Groups, rejectors and back-off are considered in this order. `kind_count` is the number of kinds of changes that
    wake the pod.
    """
    if rejected.gang and (group_failure := describe_bound_gang_failure(rejected.gang.report)):
        return group_failure
    if rejected.pod_group and not rejected.fits:
        group_failure = describe_bound_gang_failure(rejected.pod_group)
        if not group_failure:
            group_failure = f"its pod group {rejected.pod_group.short_name} is not placed"
        return f"{group_failure}; its pods are retried after their back-off in any case"
    if rejected.attempt.rejectors.all:
        plugins = join_words(_list_rejectors_in_profile_order(rejected))
        verb = "is held back by" if rejected.attempt.gating_plugin else "is rejected by"
        kinds = f"{kind_count} kinds of changes" if kind_count != 1 else "one kind of change"
        return f"{verb} {plugins}; {kinds} would make the scheduler retry it"
    if rejected.queue == BACKOFF:
        return f"does not wait for an event: it is retried after its back-off ({rejected.message})"
    group = rejected.gang.report if rejected.gang else rejected.pod_group
    if group is None:
        return f"fits now, so {NOTHING}"
    noun = "gang" if group.policy == "gang" else "group"
    return f"fits now with its {noun} {group.short_name}, so {NOTHING}"


def _build_rejector_report(scheduler: Scheduler, rejected: RejectedPod, plugin: str) -> RejectorReport:
    """Build the report on a plugin that rejected the pod, with its reasons and the changes that would wake the pod."""
    query = WakeQuery(
        rejected.info,
        rejected.framework.plugins.get(plugin),
        scheduler.view,
        scheduler.gates,
        gated=plugin == rejected.attempt.gating_plugin,
    )
    registered = rejected.registrations.by_plugin.get(plugin, ())
    triggers = iter_wake_triggers(query, registered, rejected.registrations.hinted)
    return RejectorReport(
        plugin,
        "; ".join(_iter_rejection_reasons(rejected, plugin)),
        tuple(WakeUp(trigger.kind, list_action_labels(trigger.action), trigger.words) for trigger in triggers),
    )


def _iter_rejection_reasons(rejected: RejectedPod, plugin: str) -> Iterator[str]:
    """Yield the plugin's reasons for rejecting nodes, each with the number of nodes and the closest node.

    A gated pod is not tried on any node, so the gate's reasons are yielded instead.
    """
    cycle = rejected.attempt.cycle
    if cycle is None:
        yield from rejected.attempt.gate.reasons
        return
    node_count = counted(len(cycle.view.nodes), "node")
    for elimination in report_eliminations(find_obstacles(cycle), cycle):
        is_before_filter = elimination.plugin == ""  # these reasons are not of one plugin
        if is_before_filter or elimination.plugin == plugin:
            nearest = elimination.nearest
            nodes_text = f"{elimination.nodes:,} of {node_count}: {elimination.reason}"
            if nearest is None:
                yield nodes_text
            elif nearest.is_same_on_all_nodes:
                yield f"{nodes_text} ({nearest.fact})"
            else:
                closest = "" if elimination.nodes == 1 else " is closest to fitting"
                yield f"{nodes_text} ({nearest.node}{closest}: {nearest.fact})"


class WakeQuery(NamedTuple):
    """A rejected pod and one of its rejectors: the question is what wakes the pod."""

    info: PodInfo
    plugin: Plugin | None
    """The plugin; None for extenders, which register no events."""
    view: Fork
    gates: FeatureGates
    gated: bool = False
    """True if the plugin gates the pod, so that the pod is not tried at all."""


FREEING = {NODE: ActionType.DELETE, POD: ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN}
"""Kind of object -> the actions that free resources, so that they reach all pods."""
RESIZED_CLAUSE = " that is being resized"
REACHING = {NODE: " that would then take it", POD: " that its pod affinity or spreading may consider"}
"""Kind of object -> a clause about which of its changes reach the pod (scheduler/queueing/queue_plugins.py)."""
REACHING_CLAUSES = {NODE: ", and would then take the pod", POD: ", and the pod's own affinity may consider that pod"}
"""Kind of object -> a clause about which changes reach the pod, to follow a plugin's own description."""
ITSELF = "the pod itself is updated, in more than its status"
ANY_TAINTS = "the taints of a node change (a new node may be usable only after its startup taints are removed)"
IMPLIED_EVENT = ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT).event
"""The event that the scheduler registers for each plugin that registers for nodes."""


def iter_wake_triggers(
    query: WakeQuery, registrations: tuple[ClusterEventWithHint, ...], hinted: bool
) -> Iterator[WakeTrigger]:
    """Yield the changes that wake the pod, among the kinds of changes for which the plugin registered.

    If the plugin holds the pod back before an attempt (`gated`), and can describe the changes itself, only the changes
    that it describes are yielded. Without queueing hints (`hinted` is false), every registered change that reaches the
    pod wakes it, and so does any update of the pod. In versions that pre-check nodes, every node event without a hint
    wakes it as well.
    """
    plugin = query.plugin
    if query.gated and offers(plugin, AdmittingPlugin):
        yield from plugin.iter_admitting_changes(query.info, query.view, query.gates)
        return
    pre_checked = list_pre_checked_resources(query.gates)
    decided_by_hint: list[ClusterEventWithHint] = []
    for registration in registrations:
        lacks_hint = not hinted or (NODE in pre_checked and registration.hint is None)
        if lacks_hint:
            yield from _iter_triggers_without_hint(registration, pre_checked)
        else:
            decided_by_hint.append(registration)
    if hinted:
        yield from _iter_registered_triggers(query, decided_by_hint, pre_checked)
    else:
        yield WakeTrigger(POD, UPDATE, ITSELF)


def _iter_registered_triggers(
    query: WakeQuery, registrations: Sequence[ClusterEventWithHint], pre_checked: Collection[str]
) -> Iterator[WakeTrigger]:
    """Yield the kinds of changes that may wake the pod, among those for which the plugin registered.

    If the plugin does not describe the changes itself, these are all registered changes. Otherwise they are the changes
    that it describes, limited to registered actions and to changes that need no event. If the changes do not reach
    every pod, because the queue pre-checks objects of their kind (`pre_checked`), a clause about that is added to the
    description. Changes of node taints come last, if the scheduler registered for them on the plugin's behalf.
    """
    plugin = query.plugin
    if not offers(plugin, WakingPlugin):
        for registration in registrations:
            description = _describe_any_change(registration.kind, registration.action)
            yield WakeTrigger(registration.kind, registration.action, description)
        return

    registered_actions: defaultdict[str, ActionType] = defaultdict(lambda: ActionType(0))
    for registration in registrations:
        registered_actions[registration.kind] |= registration.action
    for change in plugin.iter_waking_changes(query.info, query.view, query.gates):
        is_registered = bool(change.action & registered_actions[change.kind])
        needs_no_event = change.action == BY_THE_PLUGIN
        if is_registered or needs_no_event:
            reaching = "" if _reaches_all_pods(change, pre_checked) else REACHING_CLAUSES[change.kind]
            yield change._replace(words=f"{change.words}{reaching}")

    is_registered_by_scheduler = any(
        registration.hint is None and registration.event == IMPLIED_EVENT for registration in registrations
    )
    if is_registered_by_scheduler:
        yield WakeTrigger(NODE, ActionType.UPDATE_NODE_TAINT, ANY_TAINTS)


def _reaches_all_pods(change: WakeTrigger, pre_checked: Collection[str]) -> bool:
    """Return whether the change is not pre-checked, so that it reaches every pod.

    Objects of the kinds in `pre_checked` are pre-checked, except for changes of pods that free resources.
    """
    if change.kind == NODE:
        return NODE not in pre_checked
    if change.kind == POD:
        frees_resources = bool(change.action & FREEING[POD])
        return frees_resources or ASSIGNED_POD not in pre_checked
    return True


def _iter_triggers_without_hint(
    registration: ClusterEventWithHint, pre_checked: Collection[str]
) -> Iterator[WakeTrigger]:
    """Yield the changes of one kind for which the plugin registered without a queueing hint.

    Each change has a description of the pods that it wakes. Those are usually all pods that the plugin rejected. For
    kinds in `pre_checked`, upstream first checks which pods a change may help, unless the change frees resources.
    """
    resource = ASSIGNED_POD if registration.kind == POD else registration.kind
    if resource not in pre_checked:
        description = _describe_any_change(registration.kind, registration.action)
        yield WakeTrigger(registration.kind, registration.action, description)
        return

    # Split the actions into those that free resources and the others
    freeing = registration.action & FREEING.get(registration.kind, registration.action)
    if registration.kind == POD and UPDATE in registration.action:  # then no kind of update has an event of its own
        freeing &= ~UPDATE
    not_freeing = registration.action & ~freeing

    if freeing:
        yield WakeTrigger(registration.kind, freeing, _describe_any_change(registration.kind, freeing))
    if not_freeing:
        # A plugin that registered for updates of pods, but not for new pods, is interested in resizes
        only_resizes = registration.kind == POD and not not_freeing & ActionType.ADD
        reaching = RESIZED_CLAUSE if only_resizes else REACHING[registration.kind]
        description = f"{_describe_any_change(registration.kind, not_freeing)}{reaching}"
        yield WakeTrigger(registration.kind, not_freeing, description)


def _describe_any_change(kind: str, action: ActionType) -> str:
    """Describe any change of an object by one of the actions, such as `any add or delete of a Node`."""
    actions = join_words([label.lower() for label in list_action_labels(action)], "or")
    return f"any {actions} of a {get_api_kind(kind)}"


def list_action_labels(action: ActionType) -> tuple[str, ...]:
    """List upstream's names of the actions. All kinds of updates together are `Update`.

    >>> list_action_labels(ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
    ('Add', 'UpdateNodeLabel')
    >>> list_action_labels(ActionType.DELETE | ActionType.UPDATE)
    ('Delete', 'Update')
    """
    single_actions = [single for single in ActionType if single.bit_count() == 1 and single & action]
    has_every_update = UPDATE in action
    if not has_every_update:
        return tuple(single.label for single in single_actions)
    not_updates = (single.label for single in single_actions if not single & UPDATE)
    return (*not_updates, "Update")
