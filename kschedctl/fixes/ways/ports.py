"""Fixes for host ports: use another port, or none."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Container, ContainerPort, Pod
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, waiting
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort

OTHER_PORT, NO_PORT = 20, 30
LAST_PORT = 65535


def change_port(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that use another host port, or none, for each port that is taken on the node."""
    info = tried.cycle.info
    for port in dict.fromkeys(info.host_ports):
        if any(port.conflicts(other) for other in _iter_held_ports(tried)):
            other = _find_free_port(tried, port)
            if other:
                yield _use_port(tried, port, other)
            if not info.spec.host_network:
                yield _use_port(tried, port, 0)


def _iter_held_ports(tried: TriedNode) -> Iterator[HostPort]:
    """Yield the host ports of the node's pods and of the pods nominated for it."""
    view = tried.cycle.view
    rows, nominated = view.nominations
    for position in (*view.pods_on(tried.at), *nominated[rows == tried.at].tolist()):
        yield from view.pods.infos[view.pods.info[position]].host_ports


def _find_free_port(tried: TriedNode, port: HostPort) -> int:
    """Return the next port that no pod of the cluster holds, or 0."""
    base = tried.trial.scheduler.view
    taken = base.memo(
        "taken ports", lambda: {host_port.port for info in base.pods.infos for host_port in info.host_ports}
    )
    own = {host_port.port for host_port in tried.cycle.info.host_ports}
    return next((n for n in range(port.port + 1, LAST_PORT + 1) if n not in taken and n not in own), 0)


def _use_port(tried: TriedNode, port: HostPort, new: int) -> Fix:
    """Build the fix that uses another host port, or none if it is 0."""
    on_host = tried.cycle.info.spec.host_network

    def in_container(container: Container) -> Container:
        ports = tuple(
            _other(container_port, new, on_host) if _is(container_port, port, on_host) else container_port
            for container_port in container.ports
        )
        return replace(container, ports=ports)

    def change(pod: Pod) -> Pod:
        spec = pod.spec
        both = {name: tuple(map(in_container, getattr(spec, name))) for name in ("containers", "init_containers")}
        return replace(pod, spec=replace(spec, **both))

    text = f"use host port {new} instead of {port.port}" if new else f"drop host port {port.port}"
    text += ", and let the program listen there" * on_host
    edits = on_pod(tried.trial.pod, change)
    kind = FixKind.OTHER_HOST_PORT if new else FixKind.DROP_HOST_PORT
    return Fix(kind, (port, new), text, "author", edits, OTHER_PORT if new else NO_PORT)


def _is(container_port: ContainerPort, port: HostPort, on_host: bool) -> bool:
    """Whether a port is one of the container alone; as read, one of the host's network may be written so."""
    number = container_port.host_port or (container_port.container_port if on_host else 0)
    return (container_port.host_ip or ALL_HOST_IPS, container_port.protocol or "TCP", number) == port


def _other(port: ContainerPort, new: int, on_host: bool) -> ContainerPort:
    return replace(port, host_port=new, container_port=new if on_host else port.container_port)


REMEDIES = {
    NodePorts: PluginRemedies((waiting.await_terminating, change_port, neighbours.move_or_drop), facts_tell_all=True)
}
