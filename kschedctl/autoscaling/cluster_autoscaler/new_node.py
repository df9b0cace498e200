"""The Cluster Autoscaler's answer for one pod: the verdict of each node group on whether it would grow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.events import NOT_TRIGGERED, get_last_time, is_event_about
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import (
    AutoscaledGroup,
    NodeGroupList,
    read_autoscaled_groups,
    read_autoscaler_options,
)
from kschedctl.autoscaling.cluster_autoscaler.pods import is_expendable
from kschedctl.autoscaling.cluster_autoscaler.scale_up import (
    AT_MAXIMUM,
    BACKED_OFF,
    NOT_READY,
    ScaleUpRun,
    run_scale_up_loop,
    would_group_accept_pod,
)
from kschedctl.autoscaling.cluster_autoscaler.template_gaps import iter_template_gaps
from kschedctl.autoscaling.growth import mark_pod_unschedulable
from kschedctl.autoscaling.node_groups.discovery import NodeGroups
from kschedctl.cluster import Cluster
from kschedctl.reports.cluster_autoscaler import ScaleUp
from kschedctl.reports.new_node import LastAutoscalerEvent, NewNode, PoolVerdict

NAME = "the Cluster Autoscaler"
ROOM = "an existing or upcoming node"
UNKNOWN_LIMITS = "node groups are known only from node labels, so their minimum and maximum sizes are unknown"
_PART = re.compile(r", (?=\d+ )")


def predict_new_node(cluster: Cluster, pod: Pod, node_groups: NodeGroups, now: str) -> NewNode:
    """Explain for each node group whether it would grow for a pod that kube-scheduler has just rejected.

    No group is explained if the autoscaler ignores the pod because of its low priority, or if the pod fits on an
    existing or upcoming node. Raises InputError if ``now`` is invalid.
    """
    waiting = mark_pod_unschedulable(pod)
    pods = cluster.pods.apply_changes({(pod.metadata.namespace, pod.metadata.name): waiting})
    groups = read_autoscaled_groups(node_groups.groups)
    flags, faults = read_autoscaler_options(node_groups.options)

    def begin_loop(loop_groups: NodeGroupList) -> AutoscalerLoop:
        """Begin a loop with these node groups in which the pod is waiting."""
        waiting_cluster = replace(cluster, pods=pods)
        return AutoscalerLoop.from_cluster(waiting_cluster, loop_groups, flags, now, node_groups.active_scale_ups)

    def accepts_with_groups(changed: NodeGroupList, group: str, refused: Pod) -> bool:
        """Return whether the group would accept the pod in a new loop with the changed groups."""
        return would_group_accept_pod(begin_loop(changed), group, refused)

    # Run the loop. The autoscaler may ignore the pod, or may need no new node for it.
    run = run_scale_up_loop(begin_loop(groups))
    report = run.build_report()
    sources = node_groups.sources
    doubts = [*report.doubts, *node_groups.doubts, *node_groups.faults, *groups.errors, *faults]
    if not node_groups.limits_known:
        doubts = [UNKNOWN_LIMITS, *doubts]
    if is_expendable(waiting, flags):
        reason = f"it ignores pods with a priority below {flags.expendable_pods_priority_cutoff:,}, and this pod has "
        reason += f"{waiting.spec.priority or 0:,}"
        return NewNode(NAME, ignored_because=reason, doubts=tuple(doubts), sources=sources)
    if pod.key in report.filtered_out:
        return NewNode(NAME, existing_node=ROOM, doubts=tuple(doubts), sources=sources)

    # Build the verdicts, with the labels and resources that a tag or an annotation has to declare for a group to grow.
    pods_without_group = [unhelped for unhelped in run.iter_unhelped_pods() if pod.key in unhelped.keys]
    gaps = iter_template_gaps(groups, run.loop.nodes, pods_without_group, accepts_with_groups)
    sentence_by_group = {gap.group: gap.sentence for gap in gaps}
    verdicts = []
    for verdict in _GroupVerdicts(run, report, waiting).iter_verdicts():
        sentence = sentence_by_group.get(verdict.pool)
        verdicts.append(verdict if sentence is None else replace(verdict, missing=(sentence,)))

    rejected = report.remaining.get(pod.key)
    message = (rejected.message if rejected else "") or report.error or report.loop_error or ""
    last_event = _find_last_not_triggered_event(cluster, pod, message)
    return NewNode(NAME, tuple(verdicts), message=message, said=last_event, doubts=tuple(doubts), sources=sources)


class _GroupVerdicts:
    """The verdicts of all node groups on one pod."""

    def __init__(self, run: ScaleUpRun, report: ScaleUp, pod: Pod) -> None:
        self._run, self._pod = run, pod
        self._accepting_groups = {option.group for option in report.options if pod.key in option.pods}
        self._remaining = report.remaining.get(pod.key)
        self._default_answer = report.result or report.loop_error or "not evaluated"
        self._skipped: Mapping[str, tuple[str, ...]] = run.skipped

    def iter_verdicts(self) -> Iterator[PoolVerdict]:
        """Yield the verdict of each node group."""
        for group in self._run.loop.groups.all:
            if group.id in self._accepting_groups:
                yield PoolVerdict(group.id, takes=True, answer="one more node takes it")
            else:
                yield self._build_negative_verdict(group)

    def _build_negative_verdict(self, group: AutoscaledGroup) -> PoolVerdict:
        """Build the verdict for a group that does not grow for the pod, with the most specific known reason."""
        # The amounts that a new node lacks, as text: None if it would accept the pod, empty if they are not known.
        has_template = group.id in self._run.loop.templates
        missing = self._run.describe_rejection_by_new_node(self._pod, group.id) if has_template else ""
        accepts_pod = missing is None
        if group.id in self._skipped:
            return self._build_skipped_verdict(group, self._describe_skip_reason(group), accepts_pod=accepts_pod)

        rejected = self._remaining.rejected if self._remaining else {}
        if group.id in rejected:
            rejection = rejected[group.id]
            answer = ": ".join(filter(None, (rejection.plugin, ", ".join(rejection.reasons), missing)))
            return PoolVerdict(group.id, takes=False, answer=answer, plugin=rejection.plugin)
        if accepts_pod:
            return PoolVerdict(
                group.id, takes=False, answer="one more node would take the pod; not in this loop", would_take=True
            )
        return PoolVerdict(group.id, takes=False, answer=missing or self._default_answer)

    def _build_skipped_verdict(self, group: AutoscaledGroup, reason: str, *, accepts_pod: bool) -> PoolVerdict:
        """Build the verdict for a group that may not grow: the reason, and whether a new node would accept the pod.

        For a group without a template, ``accepts_pod`` is ignored and the verdict gives only the reason.
        """
        if group.id not in self._run.loop.templates:
            return PoolVerdict(group.id, takes=False, answer=reason)
        template_answer = "one more node would take the pod" if accepts_pod else "nor would one more node take the pod"
        return PoolVerdict(group.id, takes=False, answer=f"{reason}; {template_answer}", would_take=accepts_pod)

    def _describe_skip_reason(self, group: AutoscaledGroup) -> str:
        """Return the reason why the group may not grow, in words for users."""
        reason = "; ".join(self._skipped[group.id])  # groups rarely have more than one reason
        if reason == AT_MAXIMUM:
            return f"at its maximum of {group.max:,}"
        if reason == BACKED_OFF:
            cause = f": {group.back_off}" if group.back_off else ""
            return f"in back-off after a failed scale-up{cause}"
        # A healthy group without a node template is "not ready" as well
        is_unhealthy = group.unhealthy or not self._run.loop.health.is_group_healthy(group)
        if reason == NOT_READY and is_unhealthy:
            return "unhealthy"
        return reason


# -- the autoscaler's own events ----------------------------------------------------------------------------------


def _find_last_not_triggered_event(cluster: Cluster, pod: Pod, message: str) -> LastAutoscalerEvent | None:
    """Return the autoscaler's last NotTriggerScaleUp event about the pod, or None if there is none.

    The result also says whether the event agrees with ``message``, the replay's answer.
    """
    pod_events = [event for event in cluster.events if event.reason == NOT_TRIGGERED and is_event_about(event, pod)]
    if not pod_events:
        return None
    last = max(pod_events, key=get_last_time)
    agrees = split_event_reasons(last.message) == split_event_reasons(message)
    return LastAutoscalerEvent(last.message, get_last_time(last), agrees)


def split_event_reasons(message: str) -> frozenset[frozenset[str]]:
    """Split an event's message into its counted reasons.

    The result does not depend on their order, which is random upstream.

    >>> split_event_reasons("not triggered: 1 a, 2 b") == split_event_reasons("not triggered: 2 b, 1 a")
    True
    """
    _, _, counted_reasons = message.partition(": ")
    # The words of a reason are compared as a set, too, because it may list resources in random order.
    return frozenset(frozenset(re.split(r"[ ,]+", part)) for part in _PART.split(counted_reasons))
