"""A pod's requests, requirements and volumes, computed once for all nodes and claims on which it is tried.

Upstream: PodData in pkg/controllers/provisioning/scheduling/scheduler.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import Amounts, sum_pod_requests, to_thousandths
from kschedctl.autoscaling.karpenter.host_ports import Port, get_host_ports
from kschedctl.autoscaling.karpenter.requirements import Requirements, build_pod_requirements, build_strict_requirements
from kschedctl.autoscaling.karpenter.volumes import DriverVolumes


@dataclass(frozen=True, eq=False)
class PodData:
    """A pod with the data that is needed to place it."""

    pod: Pod
    requests: Quantities
    amounts: Amounts
    requirements: Requirements
    """Node requirements, including the heaviest preference."""
    strict: Requirements
    """Node requirements without preferences."""
    volumes: tuple[Requirements, ...]
    """Alternative node requirements of its volumes, or an empty tuple if they have none."""
    by_driver: DriverVolumes
    ports: tuple[Port, ...]

    def with_relaxed_pod(self, pod: Pod, ignores_preferences: bool) -> PodData:
        """Return the data for the relaxed pod, keeping the requests and volumes."""
        strict = build_strict_requirements(pod)
        wanted = strict if ignores_preferences else build_pod_requirements(pod)
        return PodData(pod, self.requests, self.amounts, wanted, strict, self.volumes, self.by_driver, self.ports)


def build_pod_data(
    pod: Pod, volumes: tuple[Requirements, ...], by_driver: DriverVolumes, ignores_preferences: bool
) -> PodData:
    """Compute a pod's data. Raises QuantityError."""
    requests = sum_pod_requests([pod])
    empty = Requirements()
    data = PodData(pod, requests, to_thousandths(requests), empty, empty, volumes, by_driver, get_host_ports(pod))
    return data.with_relaxed_pod(pod, ignores_preferences)
