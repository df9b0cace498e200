"""NodePorts: host ports that another pod of the node holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PreFilterResult, Rejection, required_state
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.events import (
    NODE,
    POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    node_actions,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import ADD, DELETE, WakeTrigger, join_words
from kschedctl.scheduler.plugins.helper.placed_pods import FREES_PROMISES, placed
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort, PodInfo

SIDECAR_PORTS = ByVersion(
    "whether host ports of restartable init containers count",
    (("", False), ("1.33.6 1.34", True)),
    "#132040, brought back by #133390",
)
REASON = "node(s) didn't have free ports for the requested pod ports"


class HostPortHeld(Fact, frozen=True):
    """A port that the pod wants is held by another one; nothing is known of one that only a nominated pod holds."""

    protocol: str = ""
    port: int = 0
    address: str = ""
    holder: str = ""

    def words(self) -> str:
        """
        >>> HostPortHeld("TCP", 80, "0.0.0.0", "shop/web").words()
        'TCP port 80 is held by shop/web'
        """
        if not self.holder:
            return "the port is held by a nominated pod"
        return f"{self.protocol} port {self.port} is held by {self.holder}"


class NodePorts(DeclaredPlugin[tuple[HostPort, ...], None]):
    """Rejects nodes where a host port that the pod wants is taken, on the same or on all addresses.

    Upstream: pkg/scheduler/framework/plugins/nodeports and HostPortInfo in framework/types.go (v1.36). Like there,
    a port that two pods of a node hold is free as soon as one of them leaves.
    """

    name = "NodePorts"
    facts = (HostPortHeld,)
    changed = (SIDECAR_PORTS,)
    without = "pods with the same host port are placed together, and kubelets refuse them"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step = NextStep(
        "DropHostPort", "A host port can be used once per node: does it need hostPort, and this many replicas?"
    )

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[tuple[HostPort, ...]]:
        return PreFilterResult(state=info.host_ports) if info.host_ports else PRE_FILTER_SKIP

    def filter(
        self, info: PodInfo, view: Fork, state: tuple[HostPort, ...] | None, delta: Delta
    ) -> Iterator[Rejection]:
        wanted = required_state(state, 'reading "PreFilterNodePorts" from cycleState: not found')
        held = view.memo(self.name, lambda: {port for other in view.pods.infos for port in other.host_ports})
        refused = np.zeros(len(view.nodes), np.bool_)
        for port in held:
            if any(port.conflicts(mine) for mine in wanted):
                refused |= _holders(port, view, delta)
        yield Rejection(refused, Code.UNSCHEDULABLE, REASON, lambda row: _holder(wanted, view, Row(row)))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        promised = FREES_PROMISES.at(gates.release)
        yield ClusterEventWithHint(POD, ActionType.DELETE, partial(_after_pod_deleted, promised=promised))
        yield ClusterEventWithHint(NODE, node_actions(ActionType.ADD, gates, broad=True))

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        ports = [f"{port.protocol} {_port(port)}" for port in info.host_ports]
        yield WakeTrigger(POD, DELETE, f"a pod leaves a node that holds host port {join_words(ports, 'or')}")
        yield WakeTrigger(NODE, ADD, "a node is added")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """The numbers alone: protocols and addresses make no difference upstream."""
        containers = (*info.spec.containers, *info.spec.init_containers)
        ports = {port.host_port for container in containers for port in container.ports if port.host_port}
        return {"ports": sorted(ports)}


def _after_pod_deleted(info: PodInfo, change: ChangedObject, view: Fork, promised: bool) -> bool:
    """A pod that had a place, with a port that is in the way."""
    if not placed(change.old, promised):
        return False
    freed = PodInfo(change.old, view.settings.requests).host_ports
    return any(port.conflicts(mine) for port in freed for mine in info.host_ports)


def _holders(port: HostPort, view: Fork, delta: Delta) -> Bools:
    """(N,): the nodes where the port is held; under a hypothesis the last pod with it to come or go decides."""
    holding = view.memo(("NodePorts", port), lambda: view.pods.where(lambda info: port in info.host_ports))
    held = view.tally(("NodePorts", port), lambda: holding.astype(np.int64)) > 0
    relevant = holding[delta.info]
    held[delta.node[relevant]] = delta.sign[relevant] > 0  # of several changes to a node the last one stays
    return held


def _holder(wanted: tuple[HostPort, ...], view: Fork, row: Row) -> HostPortHeld:
    for position in view.pods_on(row):
        for port in view.pods.infos[view.pods.info[position]].host_ports:
            if any(port.conflicts(mine) for mine in wanted):
                return HostPortHeld(port.protocol, port.port, port.ip, view.pods.objects[position].key)
    return HostPortHeld()


def _port(port: HostPort) -> str:
    """
    >>> _port(HostPort("0.0.0.0", "TCP", 80)), _port(HostPort("::1", "TCP", 80))
    ('80', '80 of ::1')
    """
    return str(port.port) if port.ip == ALL_HOST_IPS else f"{port.port} of {port.ip}"
