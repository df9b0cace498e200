"""DefaultPreemption for pods of groups: whether a member preempts by itself, and whose victims are being evicted.

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


def find_member_ineligibility(pod: Pod, view: Fork, topology_aware: bool, workload_aware: bool) -> str:
    """Return why this pod does not preempt by itself, or an empty string."""
    key = group_key(pod)
    if key is not None and topology_aware:
        group = find_pod_group(view, key)
        if group is None or group.spec.scheduling_constraints is not None:
            return NO_GROUP if group is None else CONSTRAINED
    return WORKLOAD_AWARE if key is not None and workload_aware else ""


def preemptor_key(pod: Pod, workload_aware: bool) -> str:
    """Return the name under which a pod's victims are being evicted; with the gate, that of its group."""
    key = group_key(pod) if workload_aware else None
    return f"PodGroup {key[0]}/{key[1]}" if key else pod.key
