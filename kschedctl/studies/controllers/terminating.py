"""Evicted pods that terminate while kube-scheduler tries those that controllers create in their place already.

All controllers but that of StatefulSets may do so as soon as a pod is being deleted.
Upstream: FilterActivePods in pkg/controller/controller_utils.go (v1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.studies.controllers.asked_pod import groups_of

EVICTED_AT = "2000-01-01T00:00:00Z"
"""Whether a pod is being deleted is asked, not since when."""


def terminates_slowly(pod: Pod, grace: int | None = None) -> bool:
    """Whether a pod may still be there when the one in its place is scheduled.

    ``grace``: how many seconds the eviction gives it, None for what it says itself. Members of gangs are left out, as a
    gang would count such a pod as one more.
    """
    at_once = (pod.spec.termination_grace_period_seconds if grace is None else grace) == 0
    return not (at_once or owner_of(pod).kind == "StatefulSet" or groups_of(pod))


def terminating(pod: Pod, node: str) -> Pod:
    """The pod on a node as it terminates, under a name of its own."""
    meta = pod.metadata
    name, uid = f"{meta.name}.terminating", f"{meta.uid}.terminating"
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=uid, deletion_timestamp=EVICTED_AT),
        spec=replace(pod.spec, node_name=node),
    )
