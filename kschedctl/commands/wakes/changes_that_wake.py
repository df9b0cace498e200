"""Every kind of change that the plugins which rejected a pod wait for."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.eliminations import report_eliminations
from kschedctl.commands.explain.group_headline import describe_bound_gang_failure
from kschedctl.commands.explain.reach import find_obstacles
from kschedctl.commands.wakes.event_replay import BACKOFF, NONE, UNSCHEDULABLE, RejectedPod, build_basis, try_once
from kschedctl.commands.wakes.report import RejectorReport, WakeUp, WakeUps
from kschedctl.commands.wakes.ways import WakeQuery, action_labels, iter_wake_triggers
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.framework.waking import join_words
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted

NOTHING = "nothing has to wake it"


def wake_ups(scheduler: Scheduler, pod: Pod) -> WakeUps:
    """Return what wakes a pod as the API server stores it. Raises UsageError if it is not pending."""
    return wake_ups_after_attempt(scheduler, try_once(scheduler, pod))


def wake_ups_after_attempt(scheduler: Scheduler, refused: RejectedPod) -> WakeUps:
    """Return what wakes a pod that was tried."""
    pod = refused.info.pod
    waits = refused.queue == UNSCHEDULABLE
    rejectors = (
        tuple(_build_rejector(scheduler, refused, plugin) for plugin in _sort_rejectors(refused)) if waits else ()
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


def build_not_created(scheduler: Scheduler, pod: Pod, failure: NotCreated) -> WakeUps:
    """Return the answer for a pod that the API server would not create, so that no scheduler sees it."""
    return WakeUps(
        pod=pod.key,
        headline=f"Not created: {failure.headline}",
        queue=NONE,
        kube_version=scheduler.cluster.kube_version,
        not_created=failure,
    )


def _sort_rejectors(refused: RejectedPod) -> list[str]:
    """Return the rejectors in the order of the profile."""
    order = [*refused.framework.plugins, *refused.registrations.by_plugin]
    return sorted(refused.attempt.rejectors.all, key=order.index)


def _build_headline(refused: RejectedPod, number: int) -> str:
    if refused.gang and (words := describe_bound_gang_failure(refused.gang.report)):
        return words
    if refused.pod_group and not refused.fits:
        words = (
            describe_bound_gang_failure(refused.pod_group)
            or f"its pod group {refused.pod_group.short_name} is not placed"
        )
        return f"{words}; its pods are tried again after their back-off, whatever happens"
    if refused.attempt.rejectors.all:
        by = join_words(_sort_rejectors(refused))
        held = "held back by" if refused.attempt.gating_plugin else "refused by"
        kinds = f"{number} kinds of change wake it" if number != 1 else "one kind of change wakes it"
        return f"{held} {by}; {kinds}"
    if refused.queue == BACKOFF:
        return f"waits for nothing: it is tried again after its back-off ({refused.message})"
    if group := refused.gang.report if refused.gang else refused.pod_group:
        return f"fits now with its {'gang' if group.policy == 'gang' else 'group'} {group.short_name}: {NOTHING}"
    return f"fits now: {NOTHING}"


def _build_rejector(scheduler: Scheduler, refused: RejectedPod, plugin: str) -> RejectorReport:
    made, gated = refused.framework.plugins.get(plugin), plugin == refused.attempt.gating_plugin
    waiting = WakeQuery(refused.info, made, scheduler.view, scheduler.gates, gated)
    registered = refused.registrations.by_plugin.get(plugin, ())
    triggers = iter_wake_triggers(waiting, registered, refused.registrations.hinted)
    return RejectorReport(
        plugin,
        "; ".join(_iter_reasons(refused, plugin)),
        tuple(WakeUp(trigger.kind, action_labels(trigger.action), trigger.words) for trigger in triggers),
    )


def _iter_reasons(refused: RejectedPod, plugin: str) -> Iterator[str]:
    """Yield the plugin's reasons, each with the fact on the nearest node."""
    cycle = refused.attempt.cycle
    if cycle is None:
        yield from refused.attempt.gate.reasons
        return
    nodes = len(cycle.view.nodes)
    for elimination in report_eliminations(find_obstacles(cycle), cycle):
        if elimination.plugin in (plugin, ""):
            fact = f", closest {elimination.nearest.node}: {elimination.nearest.fact}" if elimination.nearest else ""
            yield f"{elimination.reason} ({elimination.nodes:,} of {counted(nodes, 'node')}{fact})"
