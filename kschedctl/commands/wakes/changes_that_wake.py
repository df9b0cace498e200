"""The kinds of changes that would wake a pod, according to the plugins that rejected it."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.eliminations import report_eliminations
from kschedctl.commands.explain.group_headline import describe_bound_gang_failure
from kschedctl.commands.explain.reach import find_obstacles
from kschedctl.commands.wakes.event_replay import BACKOFF, NONE, UNSCHEDULABLE, RejectedPod, build_basis, try_pod
from kschedctl.commands.wakes.report import RejectorReport, WakeUp, WakeUps
from kschedctl.commands.wakes.ways import WakeQuery, iter_wake_triggers, list_action_labels
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.framework.waking import join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted

NOTHING = "nothing has to wake it"


def find_wake_ups(scheduler: Scheduler, pod: Pod) -> WakeUps:
    """Find what would wake a pod, given as the API server stores it. Raises UsageError if it is not pending."""
    return build_wake_ups_report(scheduler, try_pod(scheduler, pod))


def build_wake_ups_report(scheduler: Scheduler, refused: RejectedPod) -> WakeUps:
    """Build the report on what would wake a pod that was tried."""
    pod = refused.info.pod
    waits = refused.queue == UNSCHEDULABLE
    rejectors = (
        tuple(_build_rejector_report(scheduler, refused, plugin) for plugin in _sort_rejectors(refused))
        if waits
        else ()
    )
    return WakeUps(
        pod=pod.key,
        headline=_build_headline(refused, sum(len(rejector.wake_ups) for rejector in rejectors)),
        queue=refused.queue,
        message=refused.message,
        gating_plugin=refused.attempt.gating_plugin,
        rejectors=rejectors,
        kube_version=scheduler.cluster.kube_version,
        ignored=scheduler.ignored((pod.spec,)),
        pod_group=refused.gang.report if refused.gang else refused.pod_group,
        **build_basis(scheduler, refused),
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


def _sort_rejectors(refused: RejectedPod) -> list[str]:
    """Return the plugins that rejected the pod, in the order of the profile."""
    order = [*refused.framework.plugins, *refused.registrations.by_plugin]
    return sorted(refused.attempt.rejectors.all, key=order.index)


def _build_headline(refused: RejectedPod, kind_count: int) -> str:
    """Describe what the pod waits for, or that it waits for nothing."""
    if refused.gang and (group_failure := describe_bound_gang_failure(refused.gang.report)):
        return group_failure
    if refused.pod_group and not refused.fits:
        group_failure = (
            describe_bound_gang_failure(refused.pod_group)
            or f"its pod group {refused.pod_group.short_name} is not placed"
        )
        return f"{group_failure}; its pods are tried again after their back-off, whatever happens"
    if refused.attempt.rejectors.all:
        plugins = join_words(_sort_rejectors(refused))
        rejected = "held back by" if refused.attempt.gating_plugin else "refused by"
        kinds = f"{kind_count} kinds of change wake it" if kind_count != 1 else "one kind of change wakes it"
        return f"{rejected} {plugins}; {kinds}"
    if refused.queue == BACKOFF:
        return f"waits for nothing: it is tried again after its back-off ({refused.message})"
    if group := refused.gang.report if refused.gang else refused.pod_group:
        return f"fits now with its {'gang' if group.policy == 'gang' else 'group'} {group.short_name}: {NOTHING}"
    return f"fits now: {NOTHING}"


def _build_rejector_report(scheduler: Scheduler, refused: RejectedPod, plugin: str) -> RejectorReport:
    """Build the report on a plugin that rejected the pod, with the changes that would wake the pod."""
    instance, gated = refused.framework.plugins.get(plugin), plugin == refused.attempt.gating_plugin
    query = WakeQuery(refused.info, instance, scheduler.view, scheduler.gates, gated)
    registered = refused.registrations.by_plugin.get(plugin, ())
    triggers = iter_wake_triggers(query, registered, refused.registrations.hinted)
    return RejectorReport(
        plugin,
        "; ".join(_iter_reasons(refused, plugin)),
        tuple(WakeUp(trigger.kind, list_action_labels(trigger.action), trigger.words) for trigger in triggers),
    )


def _iter_reasons(refused: RejectedPod, plugin: str) -> Iterator[str]:
    """Yield the plugin's reasons, each with the closest node."""
    cycle = refused.attempt.cycle
    if cycle is None:
        yield from refused.attempt.gate.reasons
        return
    nodes = len(cycle.view.nodes)
    for elimination in report_eliminations(find_obstacles(cycle), cycle):
        if elimination.plugin in (plugin, ""):
            fact = f", closest {elimination.nearest.node}: {elimination.nearest.fact}" if elimination.nearest else ""
            yield f"{elimination.reason} ({elimination.nodes:,} of {counted(nodes, 'node')}{fact})"
