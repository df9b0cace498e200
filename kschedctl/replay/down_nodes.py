"""Find the pods that stay Terminating because the kubelets of their nodes cannot end them.

A pod that is deleted disappears once the kubelet has ended it. Without the kubelet it disappears if it is
force-deleted, or if its node is deleted or has the out-of-service taint. A ReplicaSet replaces terminating pods at
once. A StatefulSet replaces a pod only after the pod has disappeared, and so does a Job whose podReplacementPolicy is
Failed. Upstream: pkg/controller/podgc/gc_controller.go, pkg/controller/statefulset/stateful_set_control.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.node_health import NodeHealth, get_node_health, is_out_of_service
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_controller
from kschedctl.replay.controllers.eviction import ObjectNames, find_jobs_awaiting_termination
from kschedctl.reports.down_nodes import DownNode
from kschedctl.snapshot.fork import Fork


def find_down_nodes(view: Fork, deleted_pods: Iterable[Pod]) -> tuple[DownNode, ...]:
    """Return the nodes of these pods whose kubelets cannot end them.

    `deleted_pods` are bound pods that are evicted or already being deleted.
    """
    pods_by_node: dict[str, list[Pod]] = {}
    for pod in deleted_pods:
        pods_by_node.setdefault(pod.spec.node_name, []).append(pod)

    waiting_jobs = find_jobs_awaiting_termination(view.cluster)
    down_nodes = []
    for name, pods in pods_by_node.items():
        node = view.nodes.objects[view.nodes.index[name]]
        health = get_node_health(node)
        if health is NodeHealth.READY or is_out_of_service(node):
            continue
        not_replaced = tuple(pod.key for pod in pods if _is_replaced_after_its_end(pod, waiting_jobs))
        down_nodes.append(DownNode(name, health, tuple(pod.key for pod in pods), not_replaced))
    return tuple(down_nodes)


def _is_replaced_after_its_end(pod: Pod, waiting_jobs: ObjectNames) -> bool:
    """Return whether the pod's controller creates a replacement only once the pod has disappeared."""
    controller = find_controller(pod.metadata)
    if controller is None:
        return False
    is_of_waiting_job = controller.kind == "Job" and (pod.metadata.namespace, controller.name) in waiting_jobs
    return controller.kind == "StatefulSet" or is_of_waiting_job
