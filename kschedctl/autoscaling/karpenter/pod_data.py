"""A pod's requests, requirements, volumes and host ports, computed once for all nodes and claims.

Upstream: PodData in pkg/controllers/provisioning/scheduling/scheduler.go, pkg/scheduling/hostportusage.go
(sigs.k8s.io/karpenter v1.14.1). Only the host ports of regular containers count, and protocols are compared as written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import Amounts, convert_to_thousandths, sum_pod_requests
from kschedctl.autoscaling.karpenter.requirements import Requirements, build_pod_requirements, build_strict_requirements
from kschedctl.autoscaling.karpenter.volumes import DriverVolumes

_ALL_ADDRESSES = frozenset(("", "0.0.0.0", "::"))


class Port(NamedTuple):
    """A host port of a pod."""

    address: str
    """The address in canonical form, or "" for all addresses."""
    number: int
    protocol: str

    def conflicts_with(self, other: Port) -> bool:
        """Return whether pods on the same node cannot use both of these host ports."""
        if self.number != other.number or self.protocol != other.protocol:
            return False
        return self.address == other.address or not self.address or not other.address


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
    claims_by_driver: DriverVolumes
    ports: tuple[Port, ...]

    def with_relaxed_pod(self, pod: Pod, *, ignores_preferences: bool) -> PodData:
        """Return the data of a relaxed form of the pod. Only its requirements differ.

        With ``ignores_preferences``, the requirements exclude preferred node affinity.
        """
        strict = build_strict_requirements(pod)
        requirements = strict if ignores_preferences else build_pod_requirements(pod)
        return PodData(
            pod,
            self.requests,
            self.amounts,
            requirements=requirements,
            strict=strict,
            volumes=self.volumes,
            claims_by_driver=self.claims_by_driver,
            ports=self.ports,
        )


def build_pod_data(
    pod: Pod, volumes: tuple[Requirements, ...], claims_by_driver: DriverVolumes, *, ignores_preferences: bool
) -> PodData:
    """Compute the data that is needed to place a pod.

    ``volumes`` are the alternative node requirements of its volumes. With ``ignores_preferences``, preferred node
    affinity is not required. Raises QuantityError if a request is malformed.
    """
    requests = sum_pod_requests([pod])
    strict = build_strict_requirements(pod)
    return PodData(
        pod,
        requests,
        convert_to_thousandths(requests),
        requirements=strict if ignores_preferences else build_pod_requirements(pod),
        strict=strict,
        volumes=volumes,
        claims_by_driver=claims_by_driver,
        ports=get_host_ports(pod),
    )


def get_host_ports(pod: Pod) -> tuple[Port, ...]:
    """Return the host ports of the pod's regular containers."""
    return tuple(
        Port(_normalize_address(port.host_ip), port.host_port, port.protocol)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def has_port_conflict(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Return whether any of the wanted host ports conflicts with any of the taken host ports."""
    taken_ports = list(taken)
    return any(wanted_port.conflicts_with(taken_port) for wanted_port in wanted for taken_port in taken_ports)


def _normalize_address(text: str) -> str:
    """Return the IP address in canonical form, or "" if it stands for all addresses.

    An invalid address is returned as written.
    """
    if text in _ALL_ADDRESSES:
        return ""
    try:
        return str(ip_address(text))
    except ValueError:
        return text
