"""VolumeBinding: volumes that cannot be reached from a node, and claims that nothing on it can satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    Changes,
    Code,
    Fragment,
    Peers,
    PluginError,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Reservation,
    Status,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.framework.events import NODE, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.pod_traits import USES_DISKS
from kschedctl.scheduler.framework.waking import ADD, ADD_OR_UPDATE, UPDATE, WakeTrigger, join_words
from kschedctl.scheduler.plugins.helper.shape import UtilizationShapePoint, scale_points
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volumes import hints
from kschedctl.scheduler.plugins.helper.volumes.claim_dependencies import CLAIM_KINDS, LOOK_AT_CLAIM, claim_dependencies
from kschedctl.scheduler.plugins.helper.volumes.hints import describe_claims
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    Listers,
    NotFoundError,
    claim_key,
    find_usable_claim,
    iter_claim_volumes,
    listers,
)
from kschedctl.scheduler.plugins.volume_binding.arguments import CAPACITY_GATE, CAPACITY_SHAPE, VolumeBindingArgs
from kschedctl.scheduler.plugins.volume_binding.binder import (
    PodVolumeClaims,
    PodVolumes,
    eligible_nodes,
    pod_volume_claims,
)
from kschedctl.scheduler.plugins.volume_binding.capacity_scoring import (
    SCORES_PROVISIONING,
    score_by_capacity,
)
from kschedctl.scheduler.plugins.volume_binding.facts import (
    ClaimsUnbound,
    NotEnoughStorage,
    NoVolume,
    ProvisionedElsewhere,
    VolumeMissing,
    VolumeOutOfReach,
    bind_conflict,
    immediate,
    lacking_space,
    missing,
    node_conflict,
    not_enough_space,
)
from kschedctl.scheduler.plugins.volume_binding.matching import NONE
from kschedctl.scheduler.plugins.volume_binding.reservation import assumed_volumes, bound_volumes
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NODE_CONFLICT = ByVersion(
    "the reason for a volume that a node cannot reach",
    (
        ("", "node(s) had volume node affinity conflict"),
        ("1.33", "node(s) didn't match PersistentVolume's node affinity"),
    ),
    "#129887",
)
NARROWS_BY_HOSTNAME = ByVersion(
    "whether hostnames in the affinity of bound volumes are taken for the only nodes to look at",
    (("", True), ("1.30.7 1.31.3", False)),
    "#125398",
)
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class BindingState:
    """The pod's claims, and the search on all nodes, made when it is first asked for."""

    def __init__(self, claims: PodVolumeClaims, storage: Listers, attributes_class: bool) -> None:
        self.claims, self.listers, self.attributes_class = claims, storage, attributes_class

    @cached_property
    def volumes(self) -> PodVolumes:
        return PodVolumes(self.claims, self.listers, self.attributes_class)


class VolumeBinding(DeclaredPlugin[BindingState, BindingState]):
    """Rejects nodes that a pod's bound volumes cannot be reached from, and those where its unbound claims find neither
    a PersistentVolume nor a class that could provision one. With a ``shape`` (the gate StorageCapacityScoring, or what
    came before it) it prefers nodes by the utilization of the storage that the claims would take.

    Upstream: pkg/scheduler/framework/plugins/volumebinding (v1.36). ``attributes_class``: gate VolumeAttributesClass.
    """

    name = "VolumeBinding"
    facts = (ClaimsUnbound, VolumeOutOfReach, ProvisionedElsewhere, NoVolume, NotEnoughStorage, VolumeMissing)
    changed = (
        REASON_NODE_CONFLICT,
        NARROWS_BY_HOSTNAME,
        CAPACITY_GATE,
        CAPACITY_SHAPE,
        SCORES_PROVISIONING,
        hints.HAS_DRIVER_HINT,
    )
    hints_since = 31
    without = "claims that wait for their first consumer are never bound"
    takes_less_time = "volumeBindingMode and the number of PersistentVolumes without a class decide its work"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    one_state = True
    next_step = LOOK_AT_CLAIM
    points = ("preBind",)
    kinds = (*CLAIM_KINDS, "CSINode", "CSIDriver", "CSIStorageCapacity")
    kinds_matter_to = USES_DISKS
    args_type = VolumeBindingArgs
    reads = Reads.NODES
    peers = Peers.NONE

    def __init__(
        self,
        shape: Sequence[UtilizationShapePoint] | None = None,
        attributes_class: bool = True,
        version: KubeVersion = VERIFIED,
    ) -> None:
        self.reason_node_conflict = REASON_NODE_CONFLICT.at(version)
        self.scores_provisioning = SCORES_PROVISIONING.at(version)
        self.narrows_by_hostname = NARROWS_BY_HOSTNAME.at(version)
        self.shape = scale_points(shape or ())
        self.attributes_class = attributes_class

    @classmethod
    def make(cls, args: VolumeBindingArgs, gates: FeatureGates) -> Self:
        shape = args.shape if gates.enabled(CAPACITY_GATE.at(gates.release)) else None
        return cls(shape, gates.enabled("VolumeAttributesClass"), gates.release)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        return claim_dependencies(info, listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        return hints.volume_binding_events(gates)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[BindingState]:
        storage = listers(view)
        try:
            claims = [find_usable_claim(info, storage, *volume[1:]) for volume in iter_claim_volumes(info.pod)]
        except (NotFoundError, PluginError) as problem:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(problem),)))
        if not claims:
            return PRE_FILTER_SKIP
        sorted_claims = pod_volume_claims(claims, storage)
        if sorted_claims.immediate:
            fact = immediate(sorted_claims.immediate, storage)
            return PreFilterResult(Status(Code.UNRESOLVABLE, (REASON_IMMEDIATE,)), fact=fact)
        names = eligible_nodes(sorted_claims, storage) if self.narrows_by_hostname else None
        return PreFilterResult(node_names=names, state=BindingState(sorted_claims, storage, self.attributes_class))

    def filter(self, info: PodInfo, view: Fork, state: BindingState | None, delta: Delta) -> Iterator[Rejection]:
        if state is None:
            raise PluginError("not found")
        volumes: PodVolumes = state.volumes
        for mask, text in volumes.errors:
            yield Rejection(mask, Code.ERROR, text)
        ok = ~volumes.failed()
        refusals: tuple[tuple[npt.NDArray[np.int32], str, Callable[[PodVolumes, int], Fact]], ...] = (
            (volumes.node_conflict, self.reason_node_conflict, node_conflict),
            (volumes.bind_conflict, REASON_BIND_CONFLICT, bind_conflict),
            (volumes.not_enough_space, REASON_NOT_ENOUGH_SPACE, not_enough_space),
            (volumes.missing, REASON_MISSING, missing),
        )
        for culprits, reason, fact in refusals:
            yield Rejection(
                ok & (culprits != NONE),
                Code.UNRESOLVABLE,
                reason,
                lambda row, fact=fact: fact(volumes, row),  # type: ignore[misc]
                lacking_space(volumes) if fact is not_enough_space else None,
            )

    # -- Score ---------------------------------------------------------------------------------------------------

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[BindingState]:
        if not self.shape:
            return PRE_SCORE_SKIP
        state = self.pre_filter(info, view).state
        scored = self.scores_provisioning or (state and state.volumes.bound_on_any(rows))
        return PreScoreResult(state) if scored else PRE_SCORE_SKIP

    def score(self, info: PodInfo, view: Fork, state: BindingState | None, rows: Rows) -> Scores:
        if state is None or not self.shape:
            return np.zeros(len(rows), np.int64)
        return score_by_capacity(self.shape, state.volumes, rows, self.scores_provisioning)

    def normalize(self, state: BindingState | None, scores: Scores) -> Scores:
        return scores

    # -- Reserve -------------------------------------------------------------------------------------------------

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: BindingState | None) -> Changes:
        return bound_volumes(state.volumes, row, view.nodes.names[row]) if state else {}

    def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: BindingState | None) -> Changes:
        return assumed_volumes(state.volumes, row, view.nodes.names[row]) if state else {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """Claims outlive their pods, and so do their volumes."""
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: BindingState | None) -> Reservation:
        if state is None:
            return Reservation()
        bound = {claim_key(claim): volume.metadata.name for claim, volume in state.volumes.bound_on(row)}
        return Reservation(bound, tuple(map(claim_key, state.volumes.provisioned_on(row))))

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        yield WakeTrigger(
            "PersistentVolumeClaim",
            ADD_OR_UPDATE,
            f"claim {describe_claims(info)} is created or changes, such as by being bound",
        )
        yield WakeTrigger("PersistentVolume", ADD_OR_UPDATE, "a PersistentVolume is added or changed")
        yield WakeTrigger("StorageClass", ADD_OR_UPDATE, "a StorageClass is added, or allows other topologies")
        yield WakeTrigger(
            "CSIStorageCapacity", ADD_OR_UPDATE, "a CSIStorageCapacity is added, or has room for larger volumes"
        )
        yield WakeTrigger("CSINode", ADD_OR_UPDATE, "a CSINode is added, or other in-tree plugins are migrated on it")
        drivers = [volume.csi.driver for volume in info.spec.volumes if volume.csi is not None]
        if drivers:
            yield WakeTrigger(
                "CSIDriver", UPDATE, f"driver {join_words(drivers, 'or')} no longer publishes its free storage"
            )
        yield WakeTrigger(NODE, ADD | ActionType.UPDATE_NODE_LABEL, "a node is added, or its labels change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return sign_volumes(info)
