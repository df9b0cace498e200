"""What admission does to a pod that is about to be created in a cluster: its priority, its RuntimeClass."""

from __future__ import annotations

from kschedctl.api.admission import admit_runtime_class
from kschedctl.api.objects import Pod
from kschedctl.api.priority import admit_priority
from kschedctl.cluster import Cluster


def admit(pod: Pod, cluster: Cluster) -> Pod:
    """The pod as it would be created. Raises InputError where its class or priority does not allow for it."""
    all_known = cluster.gap("PriorityClass") is None
    return admit_runtime_class(admit_priority(pod, cluster.priority_classes, all_known), cluster.runtime_classes)
