"""VolumeZone plugin: rejects nodes outside the zones and regions of the pod's bound volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PreFilterResult, Reads, Rejection, Status
from kschedctl.scheduler.framework.declaration import USES_DISKS, DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.framework.events import ADD, ADD_OR_UPDATE, NODE, ActionType, ClusterEventWithHint, WakeTrigger
from kschedctl.scheduler.framework.facts import Fact, LabelDemand
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper import volume_hints
from kschedctl.scheduler.plugins.helper.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
)
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volume_hints import (
    CLAIM_KINDS,
    LOOK_AT_CLAIM,
    TOPOLOGY_LABELS,
    describe_claim_changes,
    iter_claim_dependencies,
    list_topology_labels,
)
from kschedctl.scheduler.plugins.helper.volume_listers import (
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    NotFoundError,
    format_claim_key,
    get_claim_class,
    get_listers,
    iter_claim_volumes,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) had no available volume zone"
REASON_NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
REASON_NO_VOLUME_NAME = "PersistentVolume had no name"
REASON_NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"

STABLE_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""Deprecated label -> the label that replaced it."""


class VolumeInOtherZone(Fact, frozen=True):
    """A volume that is restricted to zones or regions other than the node's."""

    volume: str
    claim: str
    key: str
    values: tuple[str, ...]
    """The values of the label that the volume allows."""
    found: str | None
    """The node's value of the label, or None if it has no such label."""

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Say in which zones or regions the volume is, and in which the node is.

        >>> VolumeInOtherZone("pv1", "shop/data", "zone", ("a", "b"), "c").describe()
        'PersistentVolume pv1 of claim shop/data is in zone=a or b, but the node is in c'
        """
        place = "has no such label" if self.found is None else f"is in {self.found}"
        allowed = f"{self.key}={' or '.join(self.values)}"
        return f"PersistentVolume {self.volume} of claim {self.claim} is in {allowed}, but the node {place}"

    def list_label_demands(self) -> tuple[LabelDemand, ...]:
        """Return the zone or region label with the values that the volume demands of its node."""
        return (LabelDemand("its volume", self.key, self.values, self.claim),)


class VolumeTopology(NamedTuple):
    """A zone or region label of a volume."""

    volume: str
    claim: str
    """The claim through which the pod uses the volume, as namespace/name."""
    key: str
    values: frozenset[str]
    """The values of the label that the volume allows."""


class UnboundError(Exception):
    """The error for a claim without a volume that should already be bound."""


class VolumeZone(DeclaredPlugin[list[VolumeTopology], None]):
    """Plugin that rejects labelled nodes outside the zones and regions of the pod's bound volumes.

    As in upstream, ephemeral volumes are ignored.

    Upstream: pkg/scheduler/framework/plugins/volumezone (v1.36).
    """

    name = "VolumeZone"
    facts = (VolumeInOtherZone,)
    changed = (volume_hints.REGISTERS_CLAIM_UPDATES,)
    hints_since = 31
    without = "pods are placed in other zones than their volumes"
    fixes = "volumes"
    next_step = LOOK_AT_CLAIM
    kinds = CLAIM_KINDS
    kinds_matter_to = USES_DISKS
    reads = Reads.NODES

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the results for the pod's claims."""
        return iter_claim_dependencies(info, get_listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        return volume_hints.iter_volume_zone_events(gates)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[list[VolumeTopology]]:
        """Collect the zone and region labels of the pod's volumes, or skip Filter if there are none.

        The pod is rejected as unresolvable if a claim, its volume or its class is missing. It is also rejected if a
        claim is unbound and does not wait for its first consumer.
        """
        try:
            volume_topologies = _find_volume_topologies(info, get_listers(view))
        except (NotFoundError, UnboundError) as error:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(error),)))
        if not volume_topologies:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=volume_topologies)

    def filter(
        self, info: PodInfo, view: Fork, state: list[VolumeTopology] | None, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield a rejection of the nodes outside a zone or region of the pod's volumes.

        Nodes without any zone or region label pass. If PreFilter did not run, the volumes are looked up here, and all
        nodes are rejected if this fails.
        """
        if state is None:
            result = self.pre_filter(info, view)
            if result.status.rejected:
                all_nodes = np.ones(len(view.nodes), np.bool_)
                for reason in result.status.reasons:
                    yield Rejection(all_nodes, Code.UNRESOLVABLE, reason)
                return
            state = result.state or []
        is_labelled = np.logical_or.reduce([view.nodes.label(key).present for key in TOPOLOGY_LABELS])
        is_outside = np.zeros(len(view.nodes), np.bool_)
        for topology in state:
            is_outside |= is_labelled & ~_find_nodes_in_topology(topology, view.nodes)
        yield Rejection(
            is_outside, Code.UNRESOLVABLE, REASON, lambda row: _find_volume_in_other_zone(state, view.nodes, row)
        )

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        claim_change = describe_claim_changes(info, view, ephemeral=False)
        yield WakeTrigger("PersistentVolumeClaim", ADD_OR_UPDATE, claim_change)
        volume_change = "a PersistentVolume is added, or its zone or region labels change"
        yield WakeTrigger("PersistentVolume", ADD_OR_UPDATE, volume_change)
        yield WakeTrigger("StorageClass", ADD, "a StorageClass that waits for the first consumer is added")
        yield WakeTrigger(NODE, ADD | ActionType.UPDATE_NODE_LABEL, "a node is added, or its labels change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sources of the pod's volumes as part of its signature."""
        return sign_volumes(info)


def _find_volume_topologies(info: PodInfo, listers: Listers) -> list[VolumeTopology]:
    """Return the zone and region labels of the volumes of the pod's bound claims.

    Ephemeral volumes, claims that wait for their first consumer, and labels with an empty value are skipped. Raises
    NotFoundError if a claim, volume or class is missing. Raises UnboundError for a claim that should already be bound,
    and for a volume that names no claim.
    """
    topologies = []
    for claim_volume in iter_claim_volumes(info.pod):
        if claim_volume.ephemeral:
            continue
        if not claim_volume.claim_name:
            raise UnboundError(REASON_NO_CLAIM_NAME)
        claim = listers.get_claim(info.namespace, claim_volume.claim_name)
        if not claim.spec.volume_name:
            _require_wait_for_first_consumer(get_claim_class(claim), listers)
            continue
        volume = listers.get_volume(claim.spec.volume_name)
        for key, values in list_topology_labels(volume):
            topologies.append(VolumeTopology(volume.metadata.name, format_claim_key(claim), key, values))
    return topologies


def _require_wait_for_first_consumer(class_name: str, listers: Listers) -> None:
    """Raise UnboundError unless the StorageClass delays binding until the first pod with a claim is scheduled.

    UnboundError is also raised if `class_name` is empty, which means that the claim has no class. Raises NotFoundError
    if the class does not exist.
    """
    if not class_name:
        raise UnboundError(REASON_NO_CLASS)
    if listers.get_storage_class(class_name).volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        raise UnboundError(REASON_NO_VOLUME_NAME)


def _find_nodes_in_topology(topology: VolumeTopology, nodes: NodeColumns) -> Bools:
    """Return a mask (N,) of the nodes whose zone or region label has one of the topology's values.

    A deprecated label is replaced by its stable label on nodes that lack the deprecated label.
    """
    is_inside = _find_nodes_with_value(topology.key, topology.values, nodes)
    if topology.key in STABLE_LABELS:
        lacks_label = ~nodes.label(topology.key).present
        is_inside |= lacks_label & _find_nodes_with_value(STABLE_LABELS[topology.key], topology.values, nodes)
    return is_inside


def _find_nodes_with_value(key: str, values: frozenset[str], nodes: NodeColumns) -> Bools:
    """Return a mask (N,) of the nodes whose label `key` has one of the values."""
    column = nodes.label(key)
    is_accepted = np.array([*(value in values for value in column.values), False])
    return is_accepted[column.codes]  # code -1, for no label, selects the last entry


def _find_volume_in_other_zone(
    topologies: list[VolumeTopology], nodes: NodeColumns, row: int
) -> VolumeInOtherZone | None:
    """Return the fact about the first zone or region of a volume that the node is not in, or None if there is none."""
    labels = nodes.objects[row].metadata.labels
    for topology in topologies:
        stable_key = STABLE_LABELS.get(topology.key, topology.key)
        value = labels.get(topology.key, labels.get(stable_key))
        if value not in topology.values:
            allowed = tuple(sorted(topology.values))
            return VolumeInOtherZone(topology.volume, topology.claim, topology.key, allowed, value)
    return None
