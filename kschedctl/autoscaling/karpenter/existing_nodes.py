"""Existing and in-flight nodes in a scheduling run.

Upstream: pkg/controllers/provisioning/scheduling/existingnode.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import ZERO, Amounts, requests_of, subtract, thousandths
from kschedctl.autoscaling.karpenter.claims import untolerated
from kschedctl.autoscaling.karpenter.daemons import Daemons
from kschedctl.autoscaling.karpenter.host_ports import Port, clash, host_ports
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.pod_data import PodData
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.topology import RunTopology, TopologyRefusal
from kschedctl.autoscaling.karpenter.volumes import DriverVolumes, Volumes


@dataclass(frozen=True, eq=False)
class ExistingNode:
    """An existing or in-flight node before a run."""

    state: StateNode
    room: Amounts
    """Available amounts in thousandths, with what expected DaemonSets need subtracted."""
    requirements: Requirements
    ports: tuple[tuple[str, Port], ...]
    limits: Mapping[str, int]
    """CSI driver -> maximum number of volumes."""
    volumes: DriverVolumes
    settling: bool = False
    """Whether the node is too new to take pods from other nodes."""

    @classmethod
    def of(
        cls, state: StateNode, daemons: Daemons, limits: Mapping[str, int], volumes: Volumes, settling: bool
    ) -> ExistingNode:
        """Build the node from its state. Raises QuantityError."""
        requirements = Requirements.of_labels(state.labels)
        requirements.add([LabelRequirement.of(HOSTNAME, IN, (state.hostname,))])
        ports = tuple((pod.key, port) for pod in state.pods for port in host_ports(pod))
        taken: dict[str, frozenset[str]] = {}
        for pod in state.pods if limits else ():
            taken = union(taken, volumes.by_driver(pod))
        room = thousandths(subtract(state.available, _remaining_daemon_requests(state, daemons)))
        return cls(state, room, requirements, ports, limits, taken, settling)


@dataclass(eq=False)
class RunNode:
    """An existing node as it changes in one run."""

    existing: ExistingNode
    room: dict[str, int]
    requirements: Requirements
    ports: list[tuple[str, Port]]
    volumes: DriverVolumes
    pods: list[Pod] = field(default_factory=list)

    @classmethod
    def of(cls, existing: ExistingNode) -> RunNode:
        """Create the node as it is at the start of a run."""
        return cls(existing, dict(existing.room), existing.requirements, list(existing.ports), existing.volumes)

    def tried(self, data: PodData, topology: RunTopology) -> Requirements | None:
        """Return the node's requirements with the pod, or None if the pod cannot join."""
        state = self.existing.state
        taken = [port for key, port in self.ports if key != data.pod.key]
        if untolerated(state.taints, data.pod) or self._has_too_many(data.by_driver) or clash(data.ports, taken):
            return None
        if not holds(self.room, data.amounts) or not self.requirements.compatible(data.requirements):
            return None
        together = self.requirements.plus(data.requirements)
        for volumes in data.volumes or (Requirements(),):
            if together.compatible(volumes):
                narrowed = self._narrowed(data, topology, together.plus(volumes))
                if narrowed is not None:
                    return narrowed
        return None

    def _narrowed(self, data: PodData, topology: RunTopology, requirements: Requirements) -> Requirements | None:
        """Narrow the requirements by the pod's topology constraints, or return None if they cannot be met."""
        narrowed = topology.narrowed(data.pod, self.existing.state.taints, data.strict, requirements)
        if isinstance(narrowed, TopologyRefusal) or not requirements.compatible(narrowed):
            return None
        return requirements.plus(narrowed)

    def _has_too_many(self, volumes: DriverVolumes) -> bool:
        """Return whether the node would exceed the volume limit of a CSI driver."""
        limits = self.existing.limits
        both = union(self.volumes, volumes) if limits else {}
        return any(driver in limits and len(claims) > limits[driver] for driver, claims in both.items())

    def add(self, data: PodData, requirements: Requirements, topology: RunTopology) -> None:
        """Add the pod, and record its amounts, topology, ports and volumes."""
        self.pods.append(data.pod)
        for name, amount in data.amounts.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = requirements
        topology.record(data.pod, self.existing.state.taints, requirements)
        self.ports.extend((data.pod.key, port) for port in data.ports)
        self.volumes = union(self.volumes, data.by_driver)


def union(left: DriverVolumes, right: DriverVolumes) -> dict[str, frozenset[str]]:
    """Return driver -> claims of both mappings."""
    return {driver: left.get(driver, frozenset()) | right.get(driver, frozenset()) for driver in {**left, **right}}


def holds(room: Amounts, amounts: Amounts) -> bool:
    """Return whether all amounts fit. Nothing fits if any resource is overdrawn."""
    return all(left >= 0 for left in room.values()) and all(room.get(n, 0) >= amount for n, amount in amounts.items())


def _remaining_daemon_requests(state: StateNode, daemons: Daemons) -> Quantities:
    """Return the requests of expected DaemonSet pods that are not on the node yet."""
    expected = requests_of(daemons.expected(state))
    here = state.daemon_requests
    return {name: max(amount.sub(here.get(name, ZERO)), ZERO) for name, amount in expected.items()}
