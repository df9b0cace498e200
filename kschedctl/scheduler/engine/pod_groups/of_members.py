"""What preemption is to the pods of groups: whether they preempt by themselves, and who is held back meanwhile.

Upstream: PostFilter and PreEnqueue in pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import group_key

NO_GROUP = "pod group for pod not found"
CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
WORKLOAD_AWARE = "not eligible due to workload aware preemption enabled"


def not_by_itself(pod: Pod, view: Fork, topology_aware: bool, workload_aware: bool) -> str:
    """Why no room is made for this pod by itself, by the gates: its group is tried in placements, or preempts."""
    key = group_key(pod)
    if key is not None and topology_aware:
        group = find_pod_group(view, key)
        if group is None or group.spec.scheduling_constraints is not None:
            return NO_GROUP if group is None else CONSTRAINED
    return WORKLOAD_AWARE if key is not None and workload_aware else ""


def preempting_as(pod: Pod, workload_aware: bool) -> str:
    """By what a pod is known whose victims are being evicted: with the gate by its group."""
    key = group_key(pod) if workload_aware else None
    return f"PodGroup {key[0]}/{key[1]}" if key else pod.key
