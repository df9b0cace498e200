"""VolumeBinding plugin: rejects nodes where a pod's volumes cannot be reached, bound or provisioned.

Upstream: plugins/volumebinding/volume_binding.go, and for the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

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
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.declaration import USES_DISKS, DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.framework.events import (
    ADD,
    ADD_OR_UPDATE,
    NODE,
    UPDATE,
    ActionType,
    ClusterEventWithHint,
    WakeTrigger,
    join_words,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper import volume_hints
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    MAX_CUSTOM_PRIORITY_SCORE,
    UtilizationShapePoint,
    scale_points,
    validate_utilization_shape,
)
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volume_hints import (
    CLAIM_KINDS,
    LOOK_AT_CLAIM,
    describe_claim_changes,
    iter_claim_dependencies,
)
from kschedctl.scheduler.plugins.helper.volume_listers import (
    Listers,
    NotFoundError,
    format_claim_key,
    get_listers,
    get_usable_claim,
    iter_claim_volumes,
)
from kschedctl.scheduler.plugins.volume_binding.binder import (
    PodVolumeClaims,
    PodVolumes,
    build_assumed_objects,
    build_bound_objects,
    find_eligible_hostnames,
    group_claims_by_state,
)
from kschedctl.scheduler.plugins.volume_binding.capacity_scoring import (
    SCORES_PROVISIONING,
    SKIPS_SCORING,
    score_by_capacity,
)
from kschedctl.scheduler.plugins.volume_binding.facts import (
    ClaimsUnbound,
    NotEnoughStorage,
    NoVolume,
    ProvisionedElsewhere,
    VolumeMissing,
    VolumeOutOfReach,
    build_bind_conflict_fact,
    build_missing_fact,
    build_node_conflict_fact,
    build_not_enough_space_fact,
    build_unbound_fact,
    compute_space_shortfall,
)
from kschedctl.scheduler.plugins.volume_binding.matching import NO_MATCH
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

CAPACITY_SCORING_GATE = ByVersion(
    "feature gate for scoring by storage capacity",
    (("", "VolumeCapacityPriority"), ("1.33", "StorageCapacityScoring")),
    "#128184",
)
DEFAULT_CAPACITY_SCORES = ByVersion(
    "default scores for storage that is 0% and 100% used",
    (("", (0, MAX_CUSTOM_PRIORITY_SCORE)), ("1.33", (MAX_CUSTOM_PRIORITY_SCORE, 0))),
    "#128184",
)


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: Int64 = 600
    """The time in which the volumes of a pod must be bound."""
    shape: tuple[UtilizationShapePoint, ...] | None = None
    """The scores of utilizations of storage capacity, or None if capacity is not scored."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments, with the version's default shape if capacity scoring is on and no shape is set."""
        if self.shape or not gates.enabled(CAPACITY_SCORING_GATE.at(gates.release)):
            return self
        empty, full = DEFAULT_CAPACITY_SCORES.at(gates.release)
        return replace(self, shape=(UtilizationShapePoint(0, empty), UtilizationShapePoint(100, full)))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors for a negative timeout, for an invalid shape, and for a shape without its feature gate."""
        if self.bind_timeout_seconds < 0:
            rule = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, rule)
        gate = CAPACITY_SCORING_GATE.at(gates.release)
        if gates.enabled(gate):
            yield from validate_utilization_shape(self.shape or (), "shape")
        elif self.shape is not None:
            rule = f"unexpected field `shape`, remove it or turn on the feature gate {gate}"
            yield invalid("shape", self.shape, rule)


REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NODE_CONFLICT = ByVersion(
    "reason for a volume that a node cannot reach",
    (
        ("", "node(s) had volume node affinity conflict"),
        ("1.33", "node(s) didn't match PersistentVolume's node affinity"),
    ),
    "#129887",
)
NARROWS_BY_HOSTNAME = ByVersion(
    "nodes that are evaluated if the affinity of bound volumes names nodes by hostname",
    (("", True), ("1.30.7 1.31.3", False)),
    "#125398",
    bool_texts=("all nodes", "only the named nodes"),
)
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class BindingState:
    """The pod's claims, and their evaluation on all nodes, which is computed on first use."""

    def __init__(self, claims: PodVolumeClaims, listers: Listers, attributes_class: bool) -> None:
        self.claims, self.listers, self.attributes_class = claims, listers, attributes_class

    @cached_property
    def volumes(self) -> PodVolumes:
        """The evaluation of the claims on all nodes."""
        return PodVolumes(self.claims, self.listers, self.attributes_class)


class VolumeBinding(DeclaredPlugin[BindingState, BindingState]):
    """Plugin that rejects nodes that cannot reach a pod's bound volumes or satisfy its unbound claims.

    A claim is satisfied by a PersistentVolume or by a class that can provision one. With a `shape` (gate
    StorageCapacityScoring or its predecessor), nodes are scored by the utilization of the storage that the claims would
    use. `attributes_class` is the gate VolumeAttributesClass.

    Upstream: pkg/scheduler/framework/plugins/volumebinding (v1.36).
    """

    name = "VolumeBinding"
    facts = (ClaimsUnbound, VolumeOutOfReach, ProvisionedElsewhere, NoVolume, NotEnoughStorage, VolumeMissing)
    changed = (
        REASON_NODE_CONFLICT,
        NARROWS_BY_HOSTNAME,
        CAPACITY_SCORING_GATE,
        DEFAULT_CAPACITY_SCORES,
        SCORES_PROVISIONING,
        SKIPS_SCORING,
        volume_hints.REGISTERS_NEW_DRIVERS,
        volume_hints.HAS_DRIVER_HINT,
    )
    hints_since = 31
    without = "claims that wait for their first consumer are never bound"
    fixes = "volumes"
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
        self.skips_scoring = SKIPS_SCORING.at(version)
        self.narrows_by_hostname = NARROWS_BY_HOSTNAME.at(version)
        self.shape = scale_points(shape or ())
        self.attributes_class = attributes_class

    @classmethod
    def make(cls, args: VolumeBindingArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments and the feature gates of a release.

        Without the gate for scoring by storage capacity, the plugin does not score.
        """
        scores_capacity = gates.enabled(CAPACITY_SCORING_GATE.at(gates.release))
        return cls(
            args.shape if scores_capacity else None,
            attributes_class=gates.enabled("VolumeAttributesClass"),
            version=gates.release,
        )

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the results for the pod's claims."""
        return iter_claim_dependencies(info, get_listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        return volume_hints.iter_volume_binding_events(gates)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[BindingState]:
        """Look up the pod's claims and group them by state, or skip Filter if there are none.

        The pod is rejected as unresolvable if a claim is missing or cannot be used, or if an immediate claim is not
        bound yet. Older versions evaluate only the nodes whose hostnames the bound volumes name.
        """
        listers = get_listers(view)
        try:
            claims = [
                get_usable_claim(info, listers, claim_volume.claim_name, ephemeral=claim_volume.ephemeral)
                for claim_volume in iter_claim_volumes(info.pod)
            ]
        except (NotFoundError, PluginError) as error:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(error),)))
        if not claims:
            return PRE_FILTER_SKIP
        grouped_claims = group_claims_by_state(claims, listers)
        if grouped_claims.immediate:
            fact = build_unbound_fact(grouped_claims.immediate, listers)
            return PreFilterResult(Status(Code.UNRESOLVABLE, (REASON_IMMEDIATE,)), fact=fact)
        node_names = find_eligible_hostnames(grouped_claims, listers) if self.narrows_by_hostname else None
        state = BindingState(grouped_claims, listers, self.attributes_class)
        return PreFilterResult(node_names=node_names, state=state)

    def filter(self, info: PodInfo, view: Fork, state: BindingState | None, delta: Delta) -> Iterator[Rejection]:
        """Yield rejections of the nodes with errors, then one rejection of other nodes for each of four reasons.

        The reasons are a bound volume out of the node's reach, no available volume to bind, too little free storage,
        and a missing bound volume. Raises PluginError if PreFilter did not run.
        """
        if state is None:
            raise PluginError("not found")
        volumes: PodVolumes = state.volumes
        for mask, message in volumes.errors:
            yield Rejection(mask, Code.ERROR, message)
        without_error = ~volumes.find_failed_nodes()

        def build_rejection(
            claim_indices: npt.NDArray[np.int32], reason: str, build_fact: Callable[[PodVolumes, int], Fact]
        ) -> Rejection:
            mask = without_error & (claim_indices != NO_MATCH)
            return Rejection(mask, Code.UNRESOLVABLE, reason, partial(build_fact, volumes))

        yield build_rejection(volumes.node_conflict, self.reason_node_conflict, build_node_conflict_fact)
        yield build_rejection(volumes.bind_conflict, REASON_BIND_CONFLICT, build_bind_conflict_fact)
        too_full = build_rejection(volumes.not_enough_space, REASON_NOT_ENOUGH_SPACE, build_not_enough_space_fact)
        yield too_full._replace(distance=compute_space_shortfall(volumes))
        yield build_rejection(volumes.missing, REASON_MISSING, build_missing_fact)

    # -- Score ---------------------------------------------------------------------------------------------------

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult[BindingState]:
        """Look up the claims again as PreFilter does, or skip Score if no shape is set.

        The shape maps the utilization of storage to scores. Versions before 1.33 also skip Score if no existing volume
        would be bound on the nodes at `rows`.
        """
        if not self.shape:
            return PRE_SCORE_SKIP
        state = self.pre_filter(info, view).state
        if not self.skips_scoring or (state is not None and state.volumes.is_any_volume_bound(rows)):
            return PreScoreResult(state)
        return PRE_SCORE_SKIP

    def score(self, info: PodInfo, view: Fork, state: BindingState | None, rows: Rows) -> Scores:
        """Score the nodes in `rows` by the utilization of the storage that the claims would use.

        All scores are 0 if no shape is set or the pod has no claims.
        """
        if state is None or not self.shape:
            return np.zeros(len(rows), np.int64)
        return score_by_capacity(self.shape, state.volumes, rows, provisioning=self.scores_provisioning)

    def normalize(self, state: BindingState | None, scores: Scores) -> Scores:
        """Return the scores unchanged."""
        return scores

    # -- Reserve -------------------------------------------------------------------------------------------------

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: BindingState | None) -> Changes:
        """Return the claims and volumes that change in PreBind, or no changes for a pod without claims."""
        return build_bound_objects(state.volumes, row, view.nodes.names[row]) if state else {}

    def assume(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: BindingState | None) -> Changes:
        """Return the claims and volumes that are assumed to change before PreBind.

        There are no changes for a pod without claims.
        """
        return build_assumed_objects(state.volumes, row, view.nodes.names[row]) if state else {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        """Return no changes, because claims and volumes outlive their pods."""
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: BindingState | None) -> Reservation:
        """Return the volumes to which the claims would be bound on the node, and the claims to be provisioned.

        Volume names are given by the claim's ``namespace/name``. The reservation is empty for a pod without claims.
        """
        if state is None:
            return Reservation()
        volume_names = {
            format_claim_key(claim): volume.metadata.name for claim, volume in state.volumes.iter_bindings(row)
        }
        provisioned_claims = tuple(map(format_claim_key, state.volumes.list_provisioned_claims(row)))
        return Reservation(volume_names, provisioned_claims)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        claim_change = describe_claim_changes(info, view)
        yield WakeTrigger("PersistentVolumeClaim", ADD_OR_UPDATE, claim_change)
        yield WakeTrigger("PersistentVolume", ADD_OR_UPDATE, "a PersistentVolume is added or changed")
        yield WakeTrigger("StorageClass", ADD_OR_UPDATE, "a StorageClass is added, or its allowedTopologies change")
        more_room = "a CSIStorageCapacity is added, or allows larger volumes"
        yield WakeTrigger("CSIStorageCapacity", ADD_OR_UPDATE, more_room)
        yield WakeTrigger(
            "CSINode", ADD_OR_UPDATE, "a CSINode is added, or the in-tree plugins that are migrated to CSI on it change"
        )
        drivers = [volume.csi.driver for volume in info.spec.volumes if volume.csi is not None]
        if drivers:
            no_longer_published = f"driver {join_words(drivers, 'or')} no longer publishes its free storage"
            yield WakeTrigger("CSIDriver", UPDATE, no_longer_published)
        yield WakeTrigger(NODE, ADD | ActionType.UPDATE_NODE_LABEL, "a node is added, or its labels change")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sources of the pod's volumes as part of its signature."""
        return sign_volumes(info)
