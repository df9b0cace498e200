"""Host ports: another one, or none."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Container, Pod
from kschedctl.snapshot.pod_info import HostPort
from kschedctl.studies.remedies.changes import Fix, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site

OTHER_PORT, NO_PORT = 20, 30
LAST_PORT = 65535


def free_ports(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The next port that no pod of the cluster holds, and no host port at all, for each that the node has not free."""
    view, row = site.cycle.view, site.at
    there = [port for position in view.pods_on(row) for port in view.pods.infos[view.pods.info[position]].host_ports]
    for port in site.cycle.info.host_ports:
        if any(port.conflicts(other) for other in there):
            other = _next_free(site, port)
            if other and not site.cycle.info.spec.host_network:
                yield _with_port(site, port, other)
            if not site.cycle.info.spec.host_network:
                yield _with_port(site, port, 0)


def _next_free(site: Site, port: HostPort) -> int:
    """The first one after it; 0 where there is none."""
    taken = {each.port for info in site.cycle.view.pods.infos for each in info.host_ports}
    taken |= {each.port for each in site.cycle.info.host_ports}
    return next((number for number in range(port.port + 1, LAST_PORT + 1) if number not in taken), 0)


def _with_port(site: Site, port: HostPort, new: int) -> Fix:
    def in_container(container: Container) -> Container:
        ports = tuple(
            replace(each, host_port=new)
            if each.host_port == port.port and (each.protocol or "TCP") == port.protocol
            else each
            for each in container.ports
        )
        return replace(container, ports=ports)

    def change(pod: Pod) -> Pod:
        spec = pod.spec
        both = {name: tuple(map(in_container, getattr(spec, name))) for name in ("containers", "init_containers")}
        return replace(pod, spec=replace(spec, **both))

    text = f"use host port {new} instead of {port.port}" if new else f"do without host port {port.port}"
    edits = on_pod(site.trial.pod, change)
    kind = "OtherHostPort" if new else "DropHostPort"
    return Fix(kind, (port, new), text, "author", edits, OTHER_PORT if new else NO_PORT)
