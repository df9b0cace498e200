"""Existing and in-flight nodes in a scheduling run.

Upstream: pkg/controllers/provisioning/scheduling/existingnode.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Quantities
from kschedctl.autoscaling.karpenter.amounts import ZERO, Amounts, subtract_quantities, sum_pod_requests, to_thousandths
from kschedctl.autoscaling.karpenter.claims import describe_untolerated_taints
from kschedctl.autoscaling.karpenter.daemons import Daemons
from kschedctl.autoscaling.karpenter.host_ports import Port, get_host_ports, has_port_conflict
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
    """Available amounts in thousandths, minus the requests of expected DaemonSet pods."""
    requirements: Requirements
    ports: tuple[tuple[str, Port], ...]
    limits: Mapping[str, int]
    """CSI driver -> maximum number of volumes."""
    volumes: DriverVolumes
    settling: bool = False
    """Whether the node may not take pods from other nodes yet."""

    @classmethod
    def from_state(
        cls, state: StateNode, daemons: Daemons, limits: Mapping[str, int], volumes: Volumes, settling: bool
    ) -> ExistingNode:
        """Build the node from its state. Raises QuantityError."""
        requirements = Requirements.of_labels(state.labels)
        requirements.add([LabelRequirement.of(HOSTNAME, IN, (state.hostname,))])
        ports = tuple((pod.key, port) for pod in state.pods for port in get_host_ports(pod))
        taken: dict[str, frozenset[str]] = {}
        for pod in state.pods if limits else ():
            taken = merge_volumes(taken, volumes.map_claims_by_driver(pod))
        room = to_thousandths(subtract_quantities(state.available, _compute_missing_daemon_requests(state, daemons)))
        return cls(state, room, requirements, ports, limits, taken, settling)


@dataclass(eq=False)
class RunNode:
    """An existing node with the pods added to it in one run."""

    existing: ExistingNode
    room: dict[str, int]
    requirements: Requirements
    ports: list[tuple[str, Port]]
    volumes: DriverVolumes
    pods: list[Pod] = field(default_factory=list)

    @classmethod
    def from_existing(cls, existing: ExistingNode) -> RunNode:
        """Create the node in its state at the start of a run."""
        return cls(existing, dict(existing.room), existing.requirements, list(existing.ports), existing.volumes)

    def can_add(self, data: PodData, topology: RunTopology) -> Requirements | None:
        """Return the node's requirements after adding the pod, or None if the pod does not fit."""
        state = self.existing.state
        taken_ports = [port for key, port in self.ports if key != data.pod.key]
        if (
            describe_untolerated_taints(state.taints, data.pod)
            or self._exceeds_volume_limits(data.by_driver)
            or has_port_conflict(data.ports, taken_ports)
        ):
            return None
        if not has_room(self.room, data.amounts) or not self.requirements.compatible(data.requirements):
            return None
        combined = self.requirements.plus(data.requirements)
        for volumes in data.volumes or (Requirements(),):
            if combined.compatible(volumes):
                narrowed = self._apply_topology(data, topology, combined.plus(volumes))
                if narrowed is not None:
                    return narrowed
        return None

    def _apply_topology(self, data: PodData, topology: RunTopology, requirements: Requirements) -> Requirements | None:
        """Narrow the requirements by the pod's topology constraints, or return None if they cannot be met."""
        narrowed = topology.add_requirements(data.pod, self.existing.state.taints, data.strict, requirements)
        if isinstance(narrowed, TopologyRefusal) or not requirements.compatible(narrowed):
            return None
        return requirements.plus(narrowed)

    def _exceeds_volume_limits(self, volumes: DriverVolumes) -> bool:
        """Return whether further volumes would exceed the node's limit for a CSI driver."""
        limits = self.existing.limits
        both = merge_volumes(self.volumes, volumes) if limits else {}
        return any(driver in limits and len(claims) > limits[driver] for driver, claims in both.items())

    def add(self, data: PodData, requirements: Requirements, topology: RunTopology) -> None:
        """Add the pod, and record its requests, topology, ports and volumes."""
        self.pods.append(data.pod)
        for name, amount in data.amounts.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = requirements
        topology.record(data.pod, self.existing.state.taints, requirements)
        self.ports.extend((data.pod.key, port) for port in data.ports)
        self.volumes = merge_volumes(self.volumes, data.by_driver)


def merge_volumes(left: DriverVolumes, right: DriverVolumes) -> dict[str, frozenset[str]]:
    """Combine the claims of each driver in both mappings."""
    return {driver: left.get(driver, frozenset()) | right.get(driver, frozenset()) for driver in {**left, **right}}


def has_room(room: Amounts, amounts: Amounts) -> bool:
    """Return whether all amounts fit. Nothing fits if any resource in ``room`` is negative."""
    return all(left >= 0 for left in room.values()) and all(room.get(n, 0) >= amount for n, amount in amounts.items())


def _compute_missing_daemon_requests(state: StateNode, daemons: Daemons) -> Quantities:
    """Return the requests of the DaemonSet pods that are expected on the node but not there yet."""
    expected = sum_pod_requests(daemons.find_expected_pods(state))
    present = state.daemon_requests
    return {name: max(amount.sub(present.get(name, ZERO)), ZERO) for name, amount in expected.items()}
