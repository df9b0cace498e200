"""Existing and in-flight nodes in a scheduling run, with columns to find quickly the nodes worth trying.

Upstream: pkg/controllers/provisioning/scheduling/existingnode.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Pod, Taint, Toleration
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import (
    ZERO,
    AmountColumns,
    Amounts,
    convert_to_thousandths,
    subtract_quantities,
    sum_pod_requests,
)
from kschedctl.autoscaling.karpenter.claims import describe_untolerated_taints
from kschedctl.autoscaling.karpenter.daemons import Daemons
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.pod_data import PodData, Port, get_host_ports, has_port_conflict
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.topology import RunTopology, TopologyRefusal
from kschedctl.autoscaling.karpenter.volumes import DriverVolumes, Volumes

Key = TypeVar("Key")


class ExistingColumns:
    """Columns of N existing nodes in the order in which they are tried, with cached checks."""

    def __init__(self, existing: Sequence[ExistingNode]) -> None:
        self.existing = tuple(existing)
        self.rooms = AmountColumns([node.room for node in self.existing])
        self.settling: Bools = np.array([node.settling for node in self.existing], np.bool_)
        self._codes: dict[str, tuple[list[str | None], np.ndarray]] = {}
        self._meeting: dict[LabelRequirement, Bools] = {}
        self._tolerated: dict[tuple[Toleration, ...], Bools] = {}

    @cached_property
    def states(self) -> list[StateNode]:
        """The nodes as Karpenter tracks them."""
        return [node.state for node in self.existing]

    @cached_property
    def hosts(self) -> set[str]:
        """The host names of the nodes."""
        return {node.state.hostname for node in self.existing}

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each node, by the node's name."""
        return {node.state.name: row for row, node in enumerate(self.existing)}

    @cached_property
    def _taints(self) -> tuple[list[tuple[Taint, ...]], np.ndarray]:
        """The distinct lists of taints, and the index of each node's list among them, (N,)."""
        return _encode_distinct_keys([node.state.taints for node in self.existing])

    def encode_label_values(self, key: str) -> tuple[list[str | None], np.ndarray]:
        """Return the distinct values of a label, and an array (N,) with the index of each node's value among them.

        The value of nodes without the label is None. The result is cached.
        """
        if key not in self._codes:
            requirements = (node.requirements.get(key) for node in self.existing)
            # the requirement of an existing node is its label, with a single value
            values = [next(iter(requirement.values)) if requirement else None for requirement in requirements]
            self._codes[key] = _encode_distinct_keys(values)
        return self._codes[key]

    def find_nodes_by_label_value(self, key: str, predicate: Callable[[str], bool], *, without: bool = False) -> Bools:
        """Return an (N,) mask of the nodes whose label value satisfies ``predicate``.

        Nodes without the label are selected if ``without`` is set.
        """
        values, codes = self.encode_label_values(key)
        is_selected = np.array([without if value is None else predicate(value) for value in values], np.bool_)
        return np.asarray(is_selected[codes], np.bool_)

    def find_nodes_meeting_requirement(self, requirement: LabelRequirement) -> Bools:
        """Return an (N,) mask of the nodes whose labels meet the requirement. The result is cached."""
        if requirement not in self._meeting:
            self._meeting[requirement] = self.find_nodes_by_label_value(
                requirement.key, requirement.allows_value, without=requirement.negative
            )
        return self._meeting[requirement]

    def find_tolerated_nodes(self, tolerations: tuple[Toleration, ...]) -> Bools:
        """Return an (N,) mask of the nodes whose taints are all tolerated. The result is cached."""
        if tolerations not in self._tolerated:
            taint_sets, codes = self._taints
            tolerated = [
                all(is_tolerated(tolerations, taint, comparison_operators=True) for taint in taint_set)
                for taint_set in taint_sets
            ]
            self._tolerated[tolerations] = np.array(tolerated, np.bool_)[codes]
        return self._tolerated[tolerations]


class RunNodes:
    """The nodes of one run, except those named in ``without``.

    A RunNode is created when a node takes its first pod.
    """

    def __init__(self, columns: ExistingColumns, without: Collection[str] = ()) -> None:
        self.columns = columns
        self._room = columns.rooms.values.copy()
        self._is_included = np.ones(len(columns.existing), np.bool_)
        self._is_included[[columns.rows[name] for name in without if name in columns.rows]] = False
        self._used: dict[int, RunNode] = {}

    @property
    def used(self) -> list[RunNode]:
        """The nodes that took pods in this run, in the order of their rows."""
        return [self._used[row] for row in sorted(self._used)]

    def place_pod_on_accepting_node(self, data: PodData, topology: RunTopology, *, movable: bool) -> bool:
        """Add the pod to the first node that accepts it, and return whether any node does.

        If ``movable`` is set, settling nodes, whose last pod event is more recent than consolidateAfter, may also take
        the pod.
        """
        for row in np.flatnonzero(self._find_possible_nodes(data, topology, movable=movable)).tolist():
            node = self._used.get(row) or RunNode.from_existing(self.columns.existing[row])
            requirements = node.find_requirements_with_pod(data, topology)
            if requirements is not None:
                node.add_pod(data, requirements, topology)
                self._used[row] = node
                self._subtract_requests_from_room(row, data)
                return True
        return False

    def _find_possible_nodes(self, data: PodData, topology: RunTopology, *, movable: bool) -> Bools:
        """Return an (N,) mask of the nodes that are worth trying for the pod.

        Settling nodes take only movable pods. Nodes that took pods in this run are judged only by their free capacity,
        because their requirements have changed.
        """
        columns = self.columns
        possible = columns.find_tolerated_nodes(data.pod.spec.tolerations).copy()
        for requirement in data.requirements.values():
            possible &= columns.find_nodes_meeting_requirement(requirement)
        for key, holds in topology.iter_domain_predicates(data.pod, data.strict):
            possible &= columns.find_nodes_by_label_value(key, holds)
        possible[list(self._used)] = True

        possible &= self._is_included & columns.rooms.mask_fitting_rows(data.amounts, self._room)
        return possible if movable else possible & ~columns.settling

    def _subtract_requests_from_room(self, row: int, data: PodData) -> None:
        """Subtract the pod's requests from the available amounts of the node in a row."""
        for name, amount in data.amounts.items():
            if name in self.columns.rooms.names:
                self._room[row, self.columns.rooms.names[name]] -= amount


def _encode_distinct_keys(keys: Sequence[Key]) -> tuple[list[Key], np.ndarray]:
    """Return the distinct keys, and an array with the index of each key among them."""
    indexes: dict[Key, int] = {}
    codes = np.array([indexes.setdefault(key, len(indexes)) for key in keys], np.int64)
    return list(indexes), codes


@dataclass(frozen=True, eq=False)
class ExistingNode:
    """An existing or in-flight node at the start of a run."""

    state: StateNode
    room: Amounts
    """Available amounts in thousandths, minus the requests of expected DaemonSet pods."""
    requirements: Requirements
    ports: tuple[tuple[str, Port], ...]
    limits: Mapping[str, int]
    """CSI driver -> maximum number of volumes."""
    volumes: DriverVolumes
    settling: bool = False
    """True if the node may not take pods from other nodes yet."""

    @classmethod
    def from_state(
        cls, state: StateNode, daemons: Daemons, limits: Mapping[str, int], volumes: Volumes, *, settling: bool
    ) -> ExistingNode:
        """Build the node from its tracked state.

        The requests of DaemonSet pods that are still missing are subtracted from its room. ``limits`` are the maximum
        numbers of volumes by CSI driver, and ``volumes`` are all volumes of the cluster. A node that is ``settling``
        takes only movable pods. Raises QuantityError if a quantity is malformed.
        """
        requirements = Requirements.from_labels(state.labels)
        requirements.add([LabelRequirement.from_operator(HOSTNAME, IN, (state.hostname,))])
        ports = tuple((pod.key, port) for pod in state.pods for port in get_host_ports(pod))
        used_volumes: dict[str, frozenset[str]] = {}
        if limits:  # without limits, the volumes do not matter
            for pod in state.pods:
                used_volumes = merge_driver_volumes(used_volumes, volumes.map_claims_by_driver(pod))
        room = convert_to_thousandths(
            subtract_quantities(state.available, _compute_missing_daemon_requests(state, daemons))
        )
        return cls(state, room, requirements, ports=ports, limits=limits, volumes=used_volumes, settling=settling)


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
        """Create the node as it is at the start of a run, without additional pods."""
        return cls(existing, dict(existing.room), existing.requirements, list(existing.ports), existing.volumes)

    def find_requirements_with_pod(self, data: PodData, topology: RunTopology) -> Requirements | None:
        """Return the requirements that the node would have with the pod, or None if the pod does not fit.

        The pod's volumes may allow several alternatives, of which the first that works is taken.
        """
        if describe_untolerated_taints(self.existing.state.taints, data.pod):
            return None
        if self._exceeds_volume_limits(data.claims_by_driver):
            return None
        taken_ports = [port for key, port in self.ports if key != data.pod.key]
        if has_port_conflict(data.ports, taken_ports):
            return None
        if not has_room_for(self.room, data.amounts) or not self.requirements.is_compatible_with(data.requirements):
            return None

        combined = self.requirements.combined_with(data.requirements)
        for volumes in data.volumes or (Requirements(),):  # a pod without volumes has one alternative
            if combined.is_compatible_with(volumes):
                narrowed = self._apply_topology(data, topology, combined.combined_with(volumes))
                if narrowed is not None:
                    return narrowed
        return None

    def _apply_topology(self, data: PodData, topology: RunTopology, requirements: Requirements) -> Requirements | None:
        """Return the requirements narrowed to the pod's allowed topology domains, or None if no domain is left."""
        narrowed = topology.narrow_requirements(data.pod, self.existing.state.taints, data.strict, requirements)
        if isinstance(narrowed, TopologyRefusal) or not requirements.is_compatible_with(narrowed):
            return None
        return requirements.combined_with(narrowed)

    def _exceeds_volume_limits(self, volumes: DriverVolumes) -> bool:
        """Return whether the node would exceed the volume limit of a CSI driver with these additional volumes."""
        limits = self.existing.limits
        if not limits:
            return False
        combined = merge_driver_volumes(self.volumes, volumes)
        return any(driver in limits and len(claims) > limits[driver] for driver, claims in combined.items())

    def add_pod(self, data: PodData, requirements: Requirements, topology: RunTopology) -> None:
        """Add the pod, and account for its requests, topology, ports and volumes.

        ``requirements`` are the requirements of the node, combined with those of the pod.
        """
        self.pods.append(data.pod)
        for name, amount in data.amounts.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = requirements
        topology.record_placement(data.pod, self.existing.state.taints, requirements)
        self.ports.extend((data.pod.key, port) for port in data.ports)
        self.volumes = merge_driver_volumes(self.volumes, data.claims_by_driver)


def merge_driver_volumes(left: DriverVolumes, right: DriverVolumes) -> dict[str, frozenset[str]]:
    """Return the union of both sets of claims of each CSI driver."""
    return {driver: left.get(driver, frozenset()) | right.get(driver, frozenset()) for driver in {**left, **right}}


def has_room_for(room: Amounts, amounts: Amounts) -> bool:
    """Return whether all amounts fit in the room. Nothing fits if any amount of ``room`` is negative."""
    if any(available < 0 for available in room.values()):
        return False
    return all(room.get(name, 0) >= amount for name, amount in amounts.items())


def _compute_missing_daemon_requests(state: StateNode, daemons: Daemons) -> Quantities:
    """Return the requests of the DaemonSet pods expected on the node, minus those of its existing DaemonSet pods."""
    expected = sum_pod_requests(daemons.find_expected_pods(state))
    present = state.daemon_requests
    return {name: max(amount.sub(present.get(name, ZERO)), ZERO) for name, amount in expected.items()}
