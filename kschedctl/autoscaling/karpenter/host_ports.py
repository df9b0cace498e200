"""Host ports of pods and their conflicts.

Upstream: pkg/scheduling/hostportusage.go (sigs.k8s.io/karpenter v1.14.1). Only regular containers count, and protocols
are compared as written.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from kschedctl.api.objects import Pod

Port = tuple[str, int, str]
"""Address (empty for all), port, protocol."""
_ALL = frozenset(("", "0.0.0.0", "::"))


def get_host_ports(pod: Pod) -> tuple[Port, ...]:
    """Return the host ports of the pod's regular containers."""
    return tuple(
        (_normalize_address(port.host_ip), port.host_port, port.protocol)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def has_port_conflict(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Return whether a wanted port conflicts with a taken one."""
    taken_ports = list(taken)
    return any(a[1:] == b[1:] and (a[0] == b[0] or not a[0] or not b[0]) for a in wanted for b in taken_ports)


def _normalize_address(text: str) -> str:
    """Return the address in canonical form, or "" if it stands for all addresses."""
    if text in _ALL:
        return ""
    try:
        return str(ip_address(text))
    except ValueError:
        return text
