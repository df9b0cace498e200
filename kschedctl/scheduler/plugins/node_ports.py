"""NodePorts plugin: rejects nodes where another pod uses a host port that the pod requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PreFilterResult, Rejection, require_state
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.events import (
    ADD,
    DELETE,
    NODE,
    NOMINATED_PODS_FREE_ROOM,
    POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    frees_room,
    join_words,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.facts import CauseScope, Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort, PodInfo

SIDECAR_PORTS = ByVersion(
    "host ports of sidecars (restartable init containers) are checked for conflicts",
    (("", False), ("1.33.6 1.34", True)),
    "#132040, backported by #133390",
)
REASON = "node(s) didn't have free ports for the requested pod ports"


class HostPortHeld(Fact, frozen=True):
    """A requested host port that another pod uses. All fields are empty if only a nominated pod uses it."""

    protocol: str = ""
    port: int = 0
    address: str = ""
    holder: str = ""
    """The pod that uses the port, as namespace/name."""

    def describe(self) -> str:
        """Say which port is held by which pod.

        >>> HostPortHeld("TCP", 80, "0.0.0.0", "shop/web").describe()
        'TCP port 80 is held by shop/web'
        """
        if not self.holder:
            return "the port is held by a nominated pod"
        return f"{self.protocol} port {self.port} is held by {self.holder}"

    def describe_cause(self, scope: CauseScope) -> str:
        """Say on how many nodes a host port is taken, with the pod that holds it on the node of `scope` as an example.

        For a single node, or if no pod is known to hold the port, there is no example.

        >>> both = CauseScope("a1", "", " (rules out both candidate nodes)", nodes="both candidate nodes")
        >>> HostPortHeld("TCP", 80, "0.0.0.0", "shop/web").describe_cause(both)
        'a host port is taken on both candidate nodes (on a1, for example, TCP port 80 by shop/web)'
        """
        if not self.holder or not scope.has_several_nodes:
            return super().describe_cause(scope)
        text = f"on {scope.node}, for example, {self.protocol} port {self.port} by {self.holder}"
        return f"a host port is taken on {scope.nodes} ({text})"


class NodePorts(DeclaredPlugin[tuple[HostPort, ...], None]):
    """Plugin that rejects nodes where a requested host port is in use on the same or on all addresses.

    As in upstream, a port that two pods of a node use becomes free when one of the pods leaves.

    Upstream: pkg/scheduler/framework/plugins/nodeports and HostPortInfo in framework/types.go (v1.36).
    """

    name = "NodePorts"
    facts = (HostPortHeld,)
    changed = (SIDECAR_PORTS,)
    looks_at_own_pods = True
    without = "pods with the same host port are placed together, and kubelets reject them"
    fixes = "ports"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step = NextStep(
        "DropHostPort",
        "Only one pod per node can use a host port: drop hostPort if the pod does not need it, or run fewer replicas",
    )

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[tuple[HostPort, ...]]:
        """Return the pod's host ports, or skip Filter if it has none."""
        if not info.host_ports:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=info.host_ports)

    def filter(
        self, info: PodInfo, view: Fork, state: tuple[HostPort, ...] | None, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield a rejection of the nodes where a port in use conflicts with a host port of the pod.

        Raises PluginError if PreFilter did not run.
        """
        requested_ports = require_state(state, 'reading "PreFilterNodePorts" from cycleState: not found')
        rejected = np.zeros(len(view.nodes), np.bool_)
        for port in view.pods.host_ports:
            if any(port.conflicts_with(requested) for requested in requested_ports):
                rejected |= _find_nodes_using_port(port, view, delta)

        def build_fact(row: int) -> HostPortHeld:
            return _build_host_port_held_fact(requested_ports, view, Row(row))

        yield Rejection(rejected, Code.UNSCHEDULABLE, REASON, build_fact)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        counts_nominated = NOMINATED_PODS_FREE_ROOM.at(gates.release)
        pod_hint = partial(_is_schedulable_after_pod_deleted, counts_nominated=counts_nominated)
        yield ClusterEventWithHint(POD, ActionType.DELETE, pod_hint)
        # Ports depend only on pods, so that of all node events, only a new node is of use
        yield ClusterEventWithHint(NODE, resolve_node_actions(ActionType.ADD, gates, all_updates_before_1_32=True))

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        ports = [f"{port.protocol} port {_format_port(port)}" for port in info.host_ports]
        yield WakeTrigger(POD, DELETE, f"a pod that holds {join_words(ports, 'or')} leaves its node")
        yield WakeTrigger(NODE, ADD, "a node is added")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the pod's sorted host port numbers as part of its signature.

        As in upstream, protocols and addresses are left out.
        """
        containers = (*info.spec.containers, *info.spec.init_containers)
        ports = {port.host_port for container in containers for port in container.ports if port.host_port}
        return {"ports": sorted(ports)}


def _is_schedulable_after_pod_deleted(info: PodInfo, change: ChangedObject, view: Fork, counts_nominated: bool) -> bool:
    """Return whether the deleted pod had a node and used a host port that conflicts with the waiting pod's ports.

    If `counts_nominated` is true, a nominated node is enough.
    """
    if not frees_room(change.old, counts_nominated=counts_nominated):
        return False
    freed_ports = PodInfo(change.old, view.settings.requests).host_ports
    return any(freed.conflicts_with(requested) for freed in freed_ports for requested in info.host_ports)


def _find_nodes_using_port(port: HostPort, view: Fork, delta: Delta) -> Bools:
    """Return a mask (N,) of the nodes on which the port is in use after the hypothetical pod changes.

    If several changes on a node concern the port, only the last one is applied.
    """
    uses_port = view.memo(("NodePorts", port), lambda: view.pods.mask_with_host_port(lambda used: used == port))
    in_use = view.tally(("NodePorts", port), lambda: uses_port.astype(np.int64)) > 0
    concerns_port = uses_port[delta.info]
    is_added = delta.sign[concerns_port] > 0
    in_use[delta.node[concerns_port]] = is_added  # numpy keeps the last value for a node with several changes
    return in_use


def _build_host_port_held_fact(requested_ports: tuple[HostPort, ...], view: Fork, row: Row) -> HostPortHeld:
    """Build the fact about the first pod on the node that uses a requested host port.

    If no pod on the node uses a requested port, a nominated pod uses it, and the fact names neither pod nor port.
    """
    for position in view.pods_on(row):
        for port in view.pods.get_info(position).host_ports:
            if any(port.conflicts_with(requested) for requested in requested_ports):
                return HostPortHeld(port.protocol, port.port, port.ip, view.pods.objects[position].key)
    return HostPortHeld()


def _format_port(port: HostPort) -> str:
    """Return the port number, with its address unless it is for all addresses.

    >>> _format_port(HostPort("0.0.0.0", "TCP", 80)), _format_port(HostPort("::1", "TCP", 80))
    ('80', '80 of ::1')
    """
    if port.ip == ALL_HOST_IPS:
        return str(port.port)
    return f"{port.port} of {port.ip}"
