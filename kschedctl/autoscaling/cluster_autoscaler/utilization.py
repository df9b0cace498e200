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
from kschedctl.autoscaling.cluster_autoscaler.pods import is_daemon_set_pod, is_mirror
from kschedctl.reports.scale_down import Utilization

Requested = Mapping[str, int]
"""Requested amounts by resource in millicores, bytes or units."""


class UtilizationRules(NamedTuple):
    """Which pods are left out of a node's utilization."""

    skip_daemon_sets: bool
    skip_mirror_pods: bool
    now: int

    @classmethod
    def for_group(cls, options: AutoscalerOptions, group: AutoscaledGroup, now: int) -> UtilizationRules:
        own = group.options.ignore_daemon_sets_utilization
        aside = options.ignore_daemon_sets_utilization if own is None else own
        return cls(aside, options.ignore_mirror_pods_utilization, now)

    def is_skipped(self, pod: Pod) -> bool:
        return (self.skip_daemon_sets and is_daemon_set_pod(pod)) or (self.skip_mirror_pods and is_mirror(pod))


def compute_utilization(
    node: Node, pods: Iterable[tuple[Pod, Requested]], counted: UtilizationRules, options: AutoscalerOptions
) -> Utilization | None:
    """Compute the utilization of a node, or return None if it offers nothing."""
    pods, offered = list(pods), node_facts.get_allocatable(node)
    if has_gpu_label(node, options):
        gpu = _compute_share(node_facts.GPU, offered, pods, counted)
        return Utilization(gpu=gpu or 0.0, resource=node_facts.GPU, value=gpu or 0.0)
    cpu, memory = (_compute_share(name, offered, pods, counted) for name in ("cpu", "memory"))
    if cpu is None or memory is None:
        return None
    return Utilization(cpu, memory, 0.0, "cpu" if cpu > memory else "memory", max(cpu, memory))


def has_gpu_label(node: Node, options: AutoscalerOptions) -> bool:
    return options.gpu_label in node.metadata.labels


def _compute_share(
    name: str, offered: Requested, pods: Iterable[tuple[Pod, Requested]], counted: UtilizationRules
) -> float | None:
    """Return the requested share of a resource, or None if the node does not offer it."""
    available, requested = offered.get(name, 0), 0
    if not available:
        return None
    for pod, requests in pods:
        if counted.is_skipped(pod):
            available -= requests.get(name, 0)
        elif not is_long_terminating(pod, counted.now):
            requested += requests.get(name, 0)
    return requested / available if available else float("inf") if requested else float("nan")
