"""Admission of a pod that is recreated after a fix has changed its spec.

Most fields of a pod are immutable, so a changed pod is created anew by a person or its controller. Admission then
restores what comes from the RuntimeClass and from LimitRanges, and denies a pod that contradicts them. Upstream:
plugin/pkg/admission/{runtimeclass,limitranger} (v1.36).
"""

from __future__ import annotations

from kschedctl.api.defaults import admit_runtime_class
from kschedctl.api.objects import Pod, RuntimeClass
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.trial.immutable import is_valid_update
from kschedctl.replay.controllers.pod_defaults import PodDefaults


def readmit(before: Pod, after: Pod, cluster: Cluster) -> Pod | None:
    """Return the changed pod as the API server would store it, or None if admission denies it."""
    if before.spec == after.spec or (find_owner(before).kind == "Pod" and is_valid_update(before, after)):
        return after
    runtime_class = find_runtime_class(after, cluster)
    if runtime_class is not None and contradicts_runtime_class(after, runtime_class):
        return None
    pod = admit_runtime_class(after, cluster.runtime_classes)
    if any(limits.metadata.namespace == pod.metadata.namespace for limits in cluster.limit_ranges):
        try:
            (pod,) = PodDefaults(cluster).fill_in(f"Pod {pod.key}", [pod])
        except InputError:
            return None
    return pod


def find_runtime_class(pod: Pod, cluster: Cluster) -> RuntimeClass | None:
    """Return the pod's RuntimeClass, or None if it has none or the class was not read."""
    name = pod.spec.runtime_class_name
    return next((known for known in cluster.runtime_classes if known.metadata.name == name), None) if name else None


def contradicts_runtime_class(pod: Pod, runtime_class: RuntimeClass) -> bool:
    """Return whether the nodeSelector conflicts with that of the RuntimeClass, which admission denies."""
    if runtime_class.scheduling is None:
        return False
    selector = pod.spec.node_selector
    return any(selector.get(key, value) != value for key, value in runtime_class.scheduling.node_selector.items())
