"""Evicted pods that terminate while kube-scheduler tries those that controllers create in their place already.

All controllers but that of StatefulSets may do so as soon as a pod is being deleted, that of Jobs unless they replace
failed pods alone. Upstream: FilterActivePods in pkg/controller/controller_utils.go, onlyReplaceFailedPods in
pkg/controller/job/job_controller.go (v1.36).
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.asked_pod import groups_of

EVICTED_AT = "2000-01-01T00:00:00Z"
"""Whether a pod is being deleted is asked, not since when."""


Names = frozenset[tuple[str, str]]
"""Namespaces and names of objects."""


def patient_jobs(cluster: Cluster) -> Names:
    """The Jobs that create a pod only when the one before it is gone."""
    return frozenset(
        (job.metadata.namespace, job.metadata.name)
        for job in cluster.jobs
        if job.spec.pod_replacement_policy == "Failed"
    )


def terminates_slowly(pod: Pod, patient: Names, grace: int | None = None) -> bool:
    """Whether a pod may still be there when the one in its place is scheduled.

    ``patient``: Jobs that wait until it is gone. ``grace``: how many seconds the eviction gives it, None for what it
    says itself. Members of gangs are left out, as a gang would count such a pod as one more.
    """
    at_once = (pod.spec.termination_grace_period_seconds if grace is None else grace) == 0
    controller = find_controller(pod.metadata)
    if controller is not None and controller.kind == "Job" and (pod.metadata.namespace, controller.name) in patient:
        return False
    return not (at_once or find_owner(pod).kind == "StatefulSet" or groups_of(pod))


def terminating(pod: Pod, node: str) -> Pod:
    """The pod on a node as it terminates, under a name of its own."""
    meta = pod.metadata
    name, uid = f"{meta.name}.terminating", f"{meta.uid}.terminating"
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=uid, deletion_timestamp=EVICTED_AT),
        spec=replace(pod.spec, node_name=node),
    )
