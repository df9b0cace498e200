"""Whether the Cluster Autoscaler would grow a group for one pod: what each group says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Condition, Pod
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import NewNode, PoolVerdict
from kschedctl.reports.scale_up import ScaleUp

NAME = "the Cluster Autoscaler"
ROOM = "a node that exists or is on its way"
REFUSED = Condition("PodScheduled", "False", "Unschedulable")


def new_node(
    cluster: Cluster, pod: Pod, groups: Sequence[JsonObject], options: Mapping[str, object], now: str
) -> NewNode:
    """For a pod as if the scheduler had refused it just now. Raises InputError."""
    conditions = (*(each for each in pod.status.conditions if each.type != REFUSED.type), REFUSED)
    waiting = replace(pod, status=replace(pod.status, phase="Pending", conditions=conditions))
    pods = cluster.pods.with_changes({(pod.metadata.namespace, pod.metadata.name): waiting})
    report = scale_up(replace(cluster, pods=pods), groups, options, now=now)
    if pod.key in report.filtered_out:
        return NewNode(NAME, existing_node=ROOM)
    remaining = report.remaining.get(pod.key)
    message = (remaining and remaining.message) or report.error or report.loop_error or ""
    return NewNode(NAME, tuple(_verdicts(report, pod, groups)), message=message)


def _verdicts(report: ScaleUp, pod: Pod, groups: Sequence[JsonObject]) -> Iterator[PoolVerdict]:
    taking = {option.group: option.nodes for option in report.options if pod.key in option.pods}
    remaining = report.remaining.get(pod.key)
    for name in (str(group["id"]) for group in groups):
        if name in taking:
            yield PoolVerdict(name, True, "takes it")
        elif remaining and name in remaining.rejected:
            refusal = remaining.rejected[name]
            yield PoolVerdict(name, False, f"{refusal.plugin}: {', '.join(refusal.reasons)}")
        elif remaining and name in remaining.skipped:
            yield PoolVerdict(name, False, "; ".join(remaining.skipped[name]))
        else:
            yield PoolVerdict(name, False, report.result or "not looked at")
