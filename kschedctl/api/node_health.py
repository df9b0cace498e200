"""The health of nodes: whether the kubelet reports to the API server, and whether it is ready.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/podgc/gc_controller.go (v1.36).
"""

from __future__ import annotations

from enum import StrEnum

from kschedctl.api.objects import Node

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


class NodeHealth(StrEnum):
    """The state of a node's kubelet, as the API server knows it."""

    READY = "Ready"
    NOT_READY = "NotReady"
    """The kubelet reports, but it is not ready, for example because its container runtime does not work."""
    UNREACHABLE = "Unreachable"
    """The kubelet no longer reports."""

    @property
    def adjective(self) -> str:
        """The state in words, such as `not ready`."""
        return {"Ready": "ready", "NotReady": "not ready", "Unreachable": "unreachable"}[self.value]


_HEALTH_BY_STATUS = {
    "True": NodeHealth.READY,
    "False": NodeHealth.NOT_READY,
    "Unknown": NodeHealth.UNREACHABLE,
}


def get_node_health(node: Node) -> NodeHealth:
    """Return the health of a node by its condition Ready or, if it has none, by its taints.

    A node without the condition and the taints is ready. An unknown status counts as unreachable.
    """
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return _HEALTH_BY_STATUS.get(condition.status, NodeHealth.UNREACHABLE)
    taint_keys = {taint.key for taint in node.spec.taints}
    if UNREACHABLE_TAINT in taint_keys:
        return NodeHealth.UNREACHABLE
    return NodeHealth.NOT_READY if NOT_READY_TAINT in taint_keys else NodeHealth.READY


def is_out_of_service(node: Node) -> bool:
    """Return whether the node has the out-of-service taint, so that its terminating pods are force-deleted."""
    return any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.spec.taints)
