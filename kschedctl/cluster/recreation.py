"""The pods that controllers create from their templates in place of deleted pods.

Since Kubernetes 1.35, admission copies the zone and region of the node to a pod when it is bound. A controller creates
the replacement from its template, which usually lacks these labels. Upstream: plugin/pkg/admission/podtopologylabels
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import COPIED_FROM_NODES, Owner, find_controller, find_owner
from kschedctl.api.workloads import build_pending_pod
from kschedctl.cluster import Cluster


def recreate_pod(pod: Pod, cluster: Cluster) -> Pod:
    """Return the pod that a controller creates in place of a deleted pod.

    The new pod is pending. The name and UID of the deleted pod stay, and thereby its claims. The zone and region labels
    of the old pod's node are replaced by those of the controller's template. A template that was not read is assumed to
    lack these labels. A pod without a node keeps its labels.
    """
    labels = pod.metadata.labels
    pending = build_pending_pod(pod)
    if not pod.spec.node_name or COPIED_FROM_NODES.isdisjoint(labels):
        return pending
    own_labels = {key: value for key, value in labels.items() if key not in COPIED_FROM_NODES}
    own_labels |= _find_topology_labels_of_template(pod, cluster)
    return replace(pending, metadata=replace(pending.metadata, labels=own_labels))


def _find_topology_labels_of_template(pod: Pod, cluster: Cluster) -> Mapping[str, str]:
    """Return the zone and region labels in the template of the pod's controller, or {} if there are none.

    A Deployment's template counts only if its ReplicaSet has no such labels.
    """
    controller = find_controller(pod.metadata)
    if controller is None:
        return {}
    labels_by_workload = cluster.topology_labels_of_templates
    direct_owner = Owner(controller.kind, pod.metadata.namespace, controller.name)
    return labels_by_workload.get(direct_owner) or labels_by_workload.get(find_owner(pod)) or {}
