"""Fixes for host ports: use another host port, or give up the host port."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from kschedctl.api.objects import Container, ContainerPort, Pod
from kschedctl.fixes.trial.changes import Fix, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import neighbours, waiting
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort

OTHER_PORT, NO_PORT = 20, 30
"""The costs of using another host port, and of dropping it."""
LAST_PORT = 65535
NO_HOST_PORT = 0
"""The number that stands for dropping the host port."""


def iter_host_port_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that change or drop each of the pod's host ports that is taken on the node.

    A port of a pod with host networking cannot be dropped, so it is only changed.
    """
    info = trial_node.cycle.info
    for port in dict.fromkeys(info.host_ports):
        if any(port.conflicts_with(used_port) for used_port in _iter_used_host_ports(trial_node)):
            free_port = _find_free_port(trial_node, port)
            if free_port:
                yield _build_host_port_fix(trial_node, port, free_port)
            if not info.spec.host_network:
                yield _build_host_port_fix(trial_node, port, NO_HOST_PORT)


def _iter_used_host_ports(trial_node: TrialNode) -> Iterator[HostPort]:
    """Yield the host ports of the pods on the node and of the pods nominated for it."""
    view = trial_node.cycle.view
    rows, nominated = view.nominations
    nominated_here = nominated[rows == trial_node.known_row].tolist()
    for position in (*view.pods_on(trial_node.known_row), *nominated_here):
        info_code = view.pods.info[position]
        yield from view.pods.infos[info_code].host_ports


def _find_free_port(trial_node: TrialNode, port: HostPort) -> int:
    """Return the next higher port number that no pod of the cluster uses as a host port, or 0 if there is none."""
    base = trial_node.trial.scheduler.view
    taken_ports = {host_port.port for host_port in base.pods.host_ports}
    own_ports = {host_port.port for host_port in trial_node.cycle.info.host_ports}
    higher_ports = range(port.port + 1, LAST_PORT + 1)
    return next((number for number in higher_ports if number not in taken_ports and number not in own_ports), 0)


def _build_host_port_fix(trial_node: TrialNode, port: HostPort, new_port: int) -> Fix:
    """Build the fix that replaces the pod's host port by `new_port`, or removes the host port if `new_port` is 0.

    All containers and init containers that use the host port are changed. With host networking, the text adds that the
    program has to listen on the new port.
    """
    host_network = trial_node.cycle.info.spec.host_network
    change = partial(_replace_host_port_of_pod, port=port, new_port=new_port, host_network=host_network)
    edits = build_pod_edits(trial_node.trial.pod, change)
    target = (port, new_port)
    if new_port == NO_HOST_PORT:
        text = f"drop host port {port.port}"
        return Fix(kind=FixKind.DROP_HOST_PORT, target=target, text=text, by="author", edits=edits, cost=NO_PORT)
    text = f"use host port {new_port} instead of {port.port}"
    if host_network:
        text += ", and make the program listen on it"
    return Fix(kind=FixKind.OTHER_HOST_PORT, target=target, text=text, by="author", edits=edits, cost=OTHER_PORT)


def _replace_host_port_of_pod(pod: Pod, port: HostPort, new_port: int, *, host_network: bool) -> Pod:
    """Return the pod with `port` replaced by `new_port` in all of its containers and init containers."""
    replace_host_port = partial(_replace_host_port, port=port, new_port=new_port, host_network=host_network)
    spec = replace(
        pod.spec,
        containers=tuple(map(replace_host_port, pod.spec.containers)),
        init_containers=tuple(map(replace_host_port, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec)


def _replace_host_port(container: Container, port: HostPort, new_port: int, *, host_network: bool) -> Container:
    """Return the container with `port` replaced by `new_port`. Its other ports stay."""
    ports = tuple(
        _set_host_port(container_port, new_port, host_network)
        if _uses_host_port(container_port, port, host_network)
        else container_port
        for container_port in container.ports
    )
    return replace(container, ports=ports)


def _uses_host_port(container_port: ContainerPort, port: HostPort, host_network: bool) -> bool:
    """Return whether the container port uses this host port: the same address, protocol and number.

    With host networking, a container port without a host port counts as the host port.
    """
    number = container_port.host_port
    if not number and host_network:
        number = container_port.container_port
    return (container_port.host_ip or ALL_HOST_IPS, container_port.protocol or "TCP", number or 0) == port


def _set_host_port(port: ContainerPort, new_port: int, host_network: bool) -> ContainerPort:
    """Return the container port with a new host port, and with host networking also a new container port."""
    return replace(port, host_port=new_port, container_port=new_port if host_network else port.container_port)


REMEDIES = {
    NodePorts: PluginRemedies(
        (waiting.iter_termination_wait_fixes, iter_host_port_fixes, neighbours.iter_neighbour_removal_fixes),
        facts_reveal_every_effect=True,
    )
}
