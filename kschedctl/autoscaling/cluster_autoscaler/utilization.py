"""Utilization of nodes by the requests of their pods.

Upstream: simulator/utilization/info.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.drainability import is_long_terminating
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions
from kschedctl.autoscaling.cluster_autoscaler.pods import is_daemon_set_pod, is_mirror_pod
from kschedctl.reports.cluster_autoscaler import Utilization

Requested = Mapping[str, int]
"""Requested amounts by resource in millicores, bytes or units."""


class UtilizationRules(NamedTuple):
    """Rules that decide which pods are left out of a node's utilization."""

    skip_daemon_sets: bool
    skip_mirror_pods: bool
    now: int

    @classmethod
    def for_group(cls, options: AutoscalerOptions, group: AutoscaledGroup, now: int) -> UtilizationRules:
        """Build the rules for a group, whose options override the flags."""
        group_option = group.options.ignore_daemon_sets_utilization
        skip_daemon_sets = options.ignore_daemon_sets_utilization if group_option is None else group_option
        return cls(skip_daemon_sets, options.ignore_mirror_pods_utilization, now)

    def is_pod_skipped(self, pod: Pod) -> bool:
        """Return whether the utilization leaves out pods of this kind under the rules."""
        if self.skip_daemon_sets and is_daemon_set_pod(pod):
            return True
        return self.skip_mirror_pods and is_mirror_pod(pod)


def compute_utilization(
    node: Node, pods: Iterable[tuple[Pod, Requested]], rules: UtilizationRules, options: AutoscalerOptions
) -> Utilization | None:
    """Compute a node's utilization from its pods' requests.

    On GPU nodes, only the utilization of the GPU counts. On other nodes, the higher utilization of CPU and memory
    counts. The result is None if such a node offers no CPU or no memory.
    """
    pods = list(pods)
    allocatable = node_facts.get_allocatable_amounts(node)
    if has_gpu_label(node, options):
        gpu = _compute_requested_share(node_facts.GPU, allocatable, pods, rules)
        return Utilization(gpu=gpu or 0.0, resource=node_facts.GPU, value=gpu or 0.0)
    cpu, memory = (_compute_requested_share(name, allocatable, pods, rules) for name in ("cpu", "memory"))
    if cpu is None or memory is None:
        return None
    return Utilization(cpu, memory, 0.0, "cpu" if cpu > memory else "memory", max(cpu, memory))


def has_gpu_label(node: Node, options: AutoscalerOptions) -> bool:
    """Return whether the node has the label that marks nodes with GPUs."""
    return options.gpu_label in node.metadata.labels


def _compute_requested_share(
    name: str, allocatable: Requested, pods: Iterable[tuple[Pod, Requested]], rules: UtilizationRules
) -> float | None:
    """Return the share of a resource that pods request, or None if the node does not offer the resource.

    The requests of pods that the rules skip are subtracted from the available amount.
    """
    available = allocatable.get(name, 0)
    requested = 0
    if not available:
        return None
    for pod, requests in pods:
        if rules.is_pod_skipped(pod):
            available -= requests.get(name, 0)
        elif not is_long_terminating(pod, rules.now):
            requested += requests.get(name, 0)
    if available:
        return requested / available
    # as upstream's division of floats by 0, if skipped pods request all there is
    return float("inf") if requested else float("nan")
