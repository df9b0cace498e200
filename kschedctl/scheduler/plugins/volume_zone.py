"""VolumeZone: bound volumes whose zone or region labels the node does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PreFilterResult, Reads, Rejection, Status
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.framework.events import NODE, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.facts import Fact, LabelDemand
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.pod_traits import USES_DISKS
from kschedctl.scheduler.framework.waking import ADD, ADD_OR_UPDATE, WakeTrigger
from kschedctl.scheduler.plugins.helper.signing import signed_volumes
from kschedctl.scheduler.plugins.helper.volumes import hints
from kschedctl.scheduler.plugins.helper.volumes.claim_dependencies import CLAIM_KINDS, LOOK_AT_CLAIM, claim_dependencies
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_DELIMITER,
)
from kschedctl.scheduler.plugins.helper.volumes.hints import named_claims
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    NotFoundError,
    claim_class,
    claim_key,
    claim_volumes,
    listers,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) had no available volume zone"
REASON_NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
REASON_NO_VOLUME_NAME = "PersistentVolume had no name"
REASON_NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"

LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
STABLE = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""Old label -> the one by which it was replaced."""


class VolumeInOtherZone(Fact, frozen=True):
    """A volume that is in the ``values`` of a zone or region label, of which the node has ``found``."""

    volume: str
    claim: str
    key: str
    values: tuple[str, ...]
    found: str | None

    def words(self) -> str:
        """
        >>> VolumeInOtherZone("pv1", "shop/data", "zone", ("a", "b"), "c").words()
        'PersistentVolume pv1 of claim shop/data is in zone=a or b, the node is in c'
        """
        place = "has no such label" if self.found is None else f"is in {self.found}"
        wanted = f"{self.key}={' or '.join(self.values)}"
        return f"PersistentVolume {self.volume} of claim {self.claim} is in {wanted}, the node {place}"

    def demands(self) -> tuple[LabelDemand, ...]:
        return (LabelDemand("its volume", self.key, self.values, self.claim),)


class VolumeTopology(NamedTuple):
    """A zone or region label of a volume: the values that it allows, and the claim through which the pod uses it."""

    volume: str
    claim: str
    key: str
    values: frozenset[str]


class UnboundError(Exception):
    """A claim without a volume that should have one."""


class VolumeZone(DeclaredPlugin[list[VolumeTopology], None]):
    """Rejects labelled nodes that are not in the zones and regions of the pod's bound volumes.

    Upstream: pkg/scheduler/framework/plugins/volumezone (v1.36). Ephemeral volumes are not looked at, as there.
    """

    name = "VolumeZone"
    facts = (VolumeInOtherZone,)
    changed = (hints.HEARS_OF_BOUND_CLAIMS,)
    hints_since = 31
    without = "pods are placed in other zones than their volumes"
    next_step = LOOK_AT_CLAIM
    kinds = CLAIM_KINDS
    kinds_matter_to = USES_DISKS
    reads = Reads.NODES

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        return claim_dependencies(info, listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        return hints.volume_zone_events(gates)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[list[VolumeTopology]]:
        try:
            volume_topologies = _volume_topologies(info, listers(view))
        except (NotFoundError, UnboundError) as problem:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(problem),)))
        return PreFilterResult(state=volume_topologies) if volume_topologies else PRE_FILTER_SKIP

    def filter(
        self, info: PodInfo, view: Fork, state: list[VolumeTopology] | None, delta: Delta
    ) -> Iterator[Rejection]:
        if state is None:  # without PreFilter the volumes are looked up here
            result = self.pre_filter(info, view)
            for reason in result.status.reasons:
                yield Rejection(np.ones(len(view.nodes), np.bool_), Code.UNRESOLVABLE, reason)
            state = result.state or []
        labelled = np.logical_or.reduce([view.nodes.label(key).present for key in LABELS])
        outside = np.zeros(len(view.nodes), np.bool_)
        for topology in state:
            outside |= labelled & ~_inside(topology, view.nodes)
        yield Rejection(outside, Code.UNRESOLVABLE, REASON, lambda row: _outside(state, view.nodes, row))

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        yield WakeTrigger(
            "PersistentVolumeClaim", ADD_OR_UPDATE, f"claim {named_claims(info, ephemeral=False)} is created or changes"
        )
        yield WakeTrigger(
            "PersistentVolume", ADD_OR_UPDATE, "a PersistentVolume is added, or its zone or region labels change"
        )
        yield WakeTrigger("StorageClass", ADD, "a StorageClass is added that binds once a pod needs the claim")
        yield WakeTrigger(NODE, ADD | ActionType.UPDATE_NODE_LABEL, "a node is added, or its labels change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return signed_volumes(info)


def _volume_topologies(info: PodInfo, listers: Listers) -> list[VolumeTopology]:
    """Zones and regions of the volumes of the pod's bound claims. Raises NotFoundError, UnboundError."""
    topologies = []
    for _, name, ephemeral in claim_volumes(info.pod):
        if ephemeral:
            continue
        if not name:
            raise UnboundError(REASON_NO_CLAIM_NAME)
        claim = listers.claim(info.namespace, name)
        if not claim.spec.volume_name:
            _check_unbound(claim_class(claim), listers)
            continue
        volume = listers.volume(claim.spec.volume_name)
        for key in LABELS:
            values = [value.strip() for value in volume.metadata.labels.get(key, "").split(ZONE_DELIMITER)]
            if all(values):  # upstream ignores a label with an empty value in it
                topologies.append(VolumeTopology(volume.metadata.name, claim_key(claim), key, frozenset(values)))
    return topologies


def _check_unbound(name: str, listers: Listers) -> None:
    """Only a claim that waits for its first consumer may be without a volume. Raises NotFoundError, UnboundError."""
    if not name:
        raise UnboundError(REASON_NO_CLASS)
    if listers.storage_class(name).volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        raise UnboundError(REASON_NO_VOLUME_NAME)


def _inside(topology: VolumeTopology, nodes: NodeColumns) -> Bools:
    """(N,): the nodes with one of the values; where the old label is absent, the new one counts."""
    column = nodes.label(topology.key)
    inside = _has_value(topology.key, topology.values, nodes)
    if topology.key in STABLE:
        inside |= ~column.present & _has_value(STABLE[topology.key], topology.values, nodes)
    return inside


def _has_value(key: str, values: frozenset[str], nodes: NodeColumns) -> Bools:
    column = nodes.label(key)
    return np.array([*(value in values for value in column.values), False])[column.codes]


def _outside(topologies: list[VolumeTopology], nodes: NodeColumns, row: int) -> VolumeInOtherZone | None:
    labels = nodes.objects[row].metadata.labels
    for volume, claim, key, values in topologies:
        value = labels.get(key, labels.get(STABLE.get(key, key)))
        if value not in values:
            return VolumeInOtherZone(volume, claim, key, tuple(sorted(values)), value)
    return None
