"""Readiness and resources of nodes, as the Cluster Autoscaler sees them.

Upstream: utils/kubernetes/ready.go, utils/taints/taints.go, processors/customresources/gpu_processor.go (1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.snapshot.pod_info import to_amounts

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
STARTUP_PREFIXES = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
STATUS_PREFIXES = ("status-taint.cluster-autoscaler.kubernetes.io/",)
CONDITION_TAINTS = frozenset(
    (
        *(
            f"node.kubernetes.io/{name}"
            for name in (
                "not-ready",
                "unreachable",
                "unschedulable",
                "memory-pressure",
                "disk-pressure",
                "network-unavailable",
                "pid-pressure",
            )
        ),
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    )
)
_NOT_READY = {f"node.kubernetes.io/{name}" for name in ("not-ready", "disk-pressure", "network-unavailable")}
_UNREADY_IF = {"Ready": ("False", "Unknown"), "DiskPressure": ("True",), "NetworkUnavailable": ("True",)}
GPU = "nvidia.com/gpu"
GPU_RESOURCES = (GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
NEVER = parse_microseconds("0001-01-01T00:00:00Z")
STARTUP_TIME = 15 * 60 * 10**6
"""Microseconds within which a new node may become ready (--max-node-startup-time)."""
STABLE_AFTER = 60 * 10**6


class NodeReadiness(NamedTuple):
    """Whether a node is ready, and since when."""

    ready: bool
    since: int
    """Microseconds since 1970."""


def get_readiness(node: Node) -> NodeReadiness:
    """Return whether a node can take pods, judging by its conditions and the taints that mirror them."""
    conditions = [condition for condition in node.status.conditions if condition.type in _UNREADY_IF]
    since = max(
        (parse_microseconds(c.last_transition_time) for c in conditions if c.last_transition_time), default=NEVER
    )
    ready = any(condition.type == "Ready" for condition in conditions)
    ready &= not any(condition.status in _UNREADY_IF[condition.type] for condition in conditions)
    return NodeReadiness(ready and not any(taint.key in _NOT_READY for taint in node.spec.taints), since)


def process_node(node: Node, options: AutoscalerOptions) -> Node:
    """Mark the node unready if it has a startup taint or lacks the GPU its label promises, and return it."""
    if not is_ready_and_schedulable(node):
        return node
    has_startup_taint = any(is_startup_taint(taint.key, options) for taint in node.spec.taints)
    if has_startup_taint or _lacks_gpu(node, options):
        return _mark_unready(node)
    return node


def is_ready_and_schedulable(node: Node) -> bool:
    """Return whether the node is ready and not cordoned."""
    return get_readiness(node).ready and not node.spec.unschedulable


def is_startup_taint(key: str, options: AutoscalerOptions) -> bool:
    """Return whether nodes have this taint only until they have started."""
    return key in options.startup_taints or key.startswith(STARTUP_PREFIXES)


def is_status_taint(key: str, options: AutoscalerOptions) -> bool:
    """Return whether this taint reports a node's status, so that new nodes lack it."""
    return key in options.status_taints or key.startswith(STATUS_PREFIXES)


def get_allocatable(node: Node) -> dict[str, int]:
    """Return the node's allocatable amounts in millicores, bytes or units."""
    return to_amounts(parse_quantities(node.status.allocatable or node.status.capacity))


def get_capacity(node: Node) -> dict[str, int]:
    """Return the node's capacity in millicores, bytes or units."""
    return to_amounts(parse_quantities(node.status.capacity))


def _lacks_gpu(node: Node, options: AutoscalerOptions) -> bool:
    """Return whether the node's label promises a GPU but none is allocatable."""
    if options.gpu_label not in node.metadata.labels:
        return False
    return not any(get_allocatable(node).get(resource, 0) for resource in GPU_RESOURCES)


def _mark_unready(node: Node) -> Node:
    """Return the node with the condition Ready set to False since its creation."""
    since = node.metadata.creation_timestamp
    other_conditions = tuple(condition for condition in node.status.conditions if condition.type != "Ready")
    conditions = (*other_conditions, Condition("Ready", "False", last_transition_time=since))
    return replace(node, status=replace(node.status, conditions=conditions))
