"""The Cluster Autoscaler's answer for one pod: whether a group would grow, with each group's verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.observed.events import NOT_TRIGGERED, is_event_about, last_seen
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, NodeGroupList, read_groups, read_options
from kschedctl.autoscaling.cluster_autoscaler.scale_up import (
    AT_MAXIMUM,
    BACKED_OFF,
    NOT_READY,
    ScaleUpRun,
    run_loop,
    would_take,
)
from kschedctl.autoscaling.cluster_autoscaler.template_gaps import find_template_gaps
from kschedctl.autoscaling.growth import mark_unschedulable
from kschedctl.autoscaling.node_groups.found import NodeGroups
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import AutoscalerSaid, NewNode, PoolVerdict
from kschedctl.reports.scale_up import ScaleUp

NAME = "the Cluster Autoscaler"
ROOM = "a node that exists or is on its way"
_PART = re.compile(r", (?=\d+ )")


def explain_new_node(cluster: Cluster, pod: Pod, node_groups: NodeGroups, now: str) -> NewNode:
    """Explain whether a group would grow for a pod that the scheduler has just rejected. Raises InputError."""
    waiting = mark_unschedulable(pod)
    pods = cluster.pods.apply_changes({(pod.metadata.namespace, pod.metadata.name): waiting})
    groups, (flags, faults) = read_groups(node_groups.groups), read_options(node_groups.options)
    made = run_loop(AutoscalerLoop.begin(replace(cluster, pods=pods), groups, flags, now, node_groups.active_scale_ups))
    report = made.report()
    doubts = (*report.doubts, *node_groups.doubts, *node_groups.faults, *groups.errors, *faults)
    if not node_groups.limits_known:
        doubts = ("node groups by labels; their minimum and maximum are not known", *doubts)
    if pod.key in report.filtered_out:
        return NewNode(NAME, existing_node=ROOM, doubts=doubts, sources=node_groups.sources)
    remaining = report.remaining.get(pod.key)
    message = (remaining and remaining.message) or report.error or report.loop_error or ""

    def takes(changed: NodeGroupList, group: str, refused: Pod) -> bool:
        return would_take(
            AutoscalerLoop.begin(replace(cluster, pods=pods), changed, flags, now, node_groups.active_scale_ups),
            group,
            refused,
        )

    mine = [alike for alike in made.remaining_alike() if pod.key in alike[1]]
    gaps = {gap.group: gap for gap in find_template_gaps(groups, made.loop.nodes, mine, takes)}
    verdicts = tuple(
        verdict if verdict.pool not in gaps else replace(verdict, missing=(gaps[verdict.pool].sentence,))
        for verdict in _GroupVerdicts(made, report, waiting).iter_verdicts()
    )
    said = _find_event(cluster, pod, message)
    return NewNode(NAME, verdicts, message=message, said=said, doubts=doubts, sources=node_groups.sources)


class _GroupVerdicts:
    """The verdict of each group on a pod."""

    def __init__(self, made: ScaleUpRun, report: ScaleUp, pod: Pod) -> None:
        self._made, self._pod = made, pod
        self._taking = {option.group for option in report.options if pod.key in option.pods}
        self._remaining = report.remaining.get(pod.key)
        self._otherwise = report.result or report.loop_error or "not looked at"
        self._skipped: Mapping[str, tuple[str, ...]] = made.skipped

    def iter_verdicts(self) -> Iterator[PoolVerdict]:
        for group in self._made.loop.groups.all:
            takes = group.id in self._taking
            yield PoolVerdict(group.id, True, "one more node takes it") if takes else self._build_rejection(group)

    def _build_rejection(self, group: AutoscaledGroup) -> PoolVerdict:
        """Return the verdict of a group that does not grow for the pod."""
        rejected = self._remaining.rejected if self._remaining else {}
        known = group.id in self._made.loop.templates
        figures = self._made.figures(self._pod, group.id) if known else ""
        if group.id in self._skipped:
            return self._build_skipped(group, figures, self._explain_skipped(group))
        if group.id in rejected:
            refusal = rejected[group.id]
            answer = ": ".join(filter(None, (refusal.plugin, ", ".join(refusal.reasons), figures)))
            return PoolVerdict(group.id, False, answer, plugin=refusal.plugin)
        if figures is None:
            return PoolVerdict(group.id, False, "one more node would take it; not in this loop", would_take=True)
        return PoolVerdict(group.id, False, figures or self._otherwise)

    def _build_skipped(self, group: AutoscaledGroup, figures: str | None, why: str) -> PoolVerdict:
        """Return the verdict of a group that may not grow, and whether its node would take the pod."""
        if group.id not in self._made.loop.templates:
            return PoolVerdict(group.id, False, why)
        would = "one more node would take it" if figures is None else "nor would a node of it take it"
        return PoolVerdict(group.id, False, f"{why}; {would}", would_take=figures is None)

    def _explain_skipped(self, group: AutoscaledGroup) -> str:
        """Return why the group may not grow."""
        reasons = self._skipped[group.id]
        if reasons == (AT_MAXIMUM,):
            return f"at its maximum of {group.max:,}"
        if reasons == (BACKED_OFF,):
            return f"in back-off after a failed scale-up{f': {group.back_off}' if group.back_off else ''}"
        if reasons == (NOT_READY,) and (group.unhealthy or not self._made.loop.health.is_healthy(group)):
            return "unhealthy"
        return "; ".join(reasons)


# -- what the autoscaler said itself ------------------------------------------------------------------------------


def _find_event(cluster: Cluster, pod: Pod, message: str) -> AutoscalerSaid | None:
    """Return the last event about the pod, with whether it agrees with the replay, or None."""
    own = [event for event in cluster.events if event.reason == NOT_TRIGGERED and is_event_about(event, pod)]
    if not own:
        return None
    last = max(own, key=last_seen)
    return AutoscalerSaid(last.message, last_seen(last), split_counts(last.message) == split_counts(message))


def split_counts(message: str) -> frozenset[frozenset[str]]:
    """Return what a message counts, in any order: the order of groups and of quota resources is random.

    >>> split_counts("pod didn't trigger scale-up: 1 a, 2 b") == split_counts("pod didn't trigger scale-up: 2 b, 1 a")
    True
    """
    counts = message.partition(": ")[2]
    return frozenset(frozenset(re.split(r"[ ,]+", part)) for part in _PART.split(counts))
