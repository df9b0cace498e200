"""VolumeRestrictions plugin: rejects nodes where a disk or a ReadWriteOncePod claim is in use by another pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Volume
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    Code,
    Fragment,
    PluginError,
    PreFilterResult,
    Rejection,
    Status,
)
from kschedctl.scheduler.framework.declaration import USES_DISKS, DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency
from kschedctl.scheduler.framework.events import (
    ADD,
    DELETE,
    NODE,
    POD,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volumes.hints import (
    LOOK_AT_CLAIM,
    describe_claims,
    is_schedulable_after_named_claim_change,
    iter_claim_dependencies,
)
from kschedctl.scheduler.plugins.helper.volumes.listers import READ_WRITE_ONCE_POD, Listers, NotFoundError, get_listers
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON_DISK = "node(s) had no available disk"
REASON_READ_WRITE_ONCE_POD = ByVersion(
    "reason for a ReadWriteOncePod claim in use",
    (
        ("", "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"),
        (
            "1.34",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
            " another pod",
        ),
    ),
    "#129145",
)

REGISTERS_ONLY_NEW_CLAIMS = ByVersion(
    "only new claims, not changed ones, are wake-up events", (("", False), ("1.31", True))
)
REGISTERS_NODE_UPDATES = ByVersion(
    "node updates are wake-up events while queueing hints are off", (("", False), ("1.32", True))
)


class DiskMounted(Fact, frozen=True):
    """A disk that a pod of the node has mounted. Both fields are empty if only a nominated pod uses it."""

    disk: str = ""
    pod: str = ""

    def words(self) -> str:
        """Return the fact as a sentence.

        >>> DiskMounted("GCE disk d1", "shop/web").words(), DiskMounted().words()
        ('GCE disk d1 is mounted by shop/web', 'the disk is mounted by a nominated pod')
        """
        return f"{self.disk} is mounted by {self.pod}" if self.pod else "the disk is mounted by a nominated pod"


class ClaimInUse(Fact, frozen=True):
    """A ReadWriteOncePod claim that another pod uses. All fields are empty if only a nominated pod uses it."""

    claim: str = ""
    pod: str = ""
    node: str = ""

    def words(self) -> str:
        """Return the fact as a sentence.

        >>> ClaimInUse("shop/data", "shop/db", "w1").words(), ClaimInUse().words()
        ('claim shop/data is used by shop/db on w1', 'the claim is used by a nominated pod')
        """
        if not self.pod:
            return "the claim is used by a nominated pod"
        return f"claim {self.claim} is used by {self.pod} on {self.node}"


class RestrictionState(NamedTuple):
    """The state that PreFilter passes to Filter."""

    claims: frozenset[str]
    """The names of the pod's ReadWriteOncePod claims."""
    conflicts: int
    """The number of these claims that another pod uses."""


class VolumeRestrictions(DeclaredPlugin[RestrictionState, None]):
    """Plugin that rejects nodes where the pod's in-line disk is mounted in a conflicting way.

    It rejects all nodes while another pod uses the pod's ReadWriteOncePod claim. As in upstream, claims of hypothetical
    pods are compared only by name, not by namespace.

    Upstream: pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
    """

    name = "VolumeRestrictions"
    facts = (DiskMounted, ClaimInUse)
    changed = (
        REASON_READ_WRITE_ONCE_POD,
        REGISTERS_NODE_UPDATES,
        REGISTERS_ONLY_NEW_CLAIMS,
    )
    hints_since = 31
    without = "volumes for one node or pod are used by several"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step_within_reach = NextStep(
        "EndVolumeUser", "The volume is for one pod at a time: the pod that uses it must end first"
    )
    next_step = LOOK_AT_CLAIM
    kinds = ("PersistentVolumeClaim",)
    kinds_matter_to = USES_DISKS

    def __init__(self, version: KubeVersion = VERIFIED) -> None:
        self.reason_in_use = REASON_READ_WRITE_ONCE_POD.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.release)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        return iter_claim_dependencies(info, get_listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        yield ClusterEventWithHint(POD, ActionType.DELETE, self._is_schedulable_after_pod_deleted)
        node_events = (
            resolve_node_actions(ActionType.ADD, gates) if REGISTERS_NODE_UPDATES.at(gates.release) else ActionType.ADD
        )
        yield ClusterEventWithHint(NODE, node_events)
        claim_events = ActionType.ADD | (
            ActionType(0) if REGISTERS_ONLY_NEW_CLAIMS.at(gates.release) else ActionType.UPDATE
        )
        yield ClusterEventWithHint("PersistentVolumeClaim", claim_events, is_schedulable_after_named_claim_change)

    def _is_schedulable_after_pod_deleted(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the deleted pod of the same namespace used a disk or claim of the waiting pod."""
        deleted = PodInfo(change.old, view.settings.requests)
        if deleted.namespace != info.namespace:
            return False
        return _find_conflicting_disk(info, deleted) is not None or not set(_list_claim_names(info)).isdisjoint(
            _list_claim_names(deleted)
        )

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[RestrictionState]:
        """Count the uses of the pod's ReadWriteOncePod claims, or skip Filter if nothing is restricted."""
        try:
            claims = frozenset(_iter_exclusive_claims(info, get_listers(view)))
        except NotFoundError as missing:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(missing),)))
        conflicts = sum(bool(_find_pods_using_claim(info.namespace, name, view).any()) for name in claims)
        if not conflicts and not any(map(_is_restricted, info.spec.volumes)):
            return PRE_FILTER_SKIP
        return PreFilterResult(state=RestrictionState(claims, conflicts))

    def filter(self, info: PodInfo, view: Fork, state: RestrictionState | None, delta: Delta) -> Iterator[Rejection]:
        """Yield a rejection of the nodes where a disk is mounted, then of all nodes if a claim is in use."""
        users_of_disks = _find_infos_with_conflicting_disk(info, view)
        mounted = view.count_by_node(users_of_disks) + delta.counts(users_of_disks, len(view.nodes)) > 0
        yield Rejection(mounted, Code.UNSCHEDULABLE, REASON_DISK, lambda row: _build_disk_mounted_fact(info, view, row))
        if state is None:
            raise PluginError(f'cannot read "PreFilter{self.name}" from cycleState')
        claim_in_use = state.conflicts + _count_use_changes(state.claims, view, delta) > 0
        reason = self.reason_in_use
        yield Rejection(
            claim_in_use & ~mounted, Code.UNSCHEDULABLE, reason, lambda row: _build_claim_in_use_fact(info, state, view)
        )

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        claims = describe_claims(info, ephemeral=False)
        yield WakeTrigger(
            POD,
            DELETE,
            f"a pod in namespace {info.namespace} that uses claim {claims} or one of its disks leaves its node",
        )
        yield WakeTrigger("PersistentVolumeClaim", ADD, f"claim {claims} is created")
        yield WakeTrigger(NODE, ADD, "a node is added")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return sign_volumes(info)


def _iter_exclusive_claims(info: PodInfo, storage: Listers) -> Iterator[str]:
    """Yield the names of the pod's claims with access mode ReadWriteOncePod.

    Raises NotFoundError for a claim that does not exist.
    """
    for name in _list_claim_names(info):
        if READ_WRITE_ONCE_POD in storage.claim(info.namespace, name).spec.access_modes:
            yield name


def _list_claim_names(info: PodInfo) -> list[str]:
    """Return the names of the claims that the pod's volumes use."""
    volumes = info.spec.volumes
    return [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]


def _find_pods_using_claim(namespace: str, claim: str, view: Fork) -> Bools:
    """Return a mask (P,) of the pods on nodes that use the claim.

    Pods placed in the current cycle of a pod group do not count, because upstream lists claims in use when it begins.
    """
    infos = view.pods.where(lambda info: info.namespace == namespace and claim in _list_claim_names(info))
    return infos[view.pods.info] & view.placed_before()


def _count_use_changes(claims: frozenset[str], view: Fork, delta: Delta) -> npt.NDArray[np.int64]:
    """Return the change (N,) in the number of uses of the claims on each node by the hypothetical pod changes."""
    changes = np.zeros(len(view.nodes), np.int64)
    if delta and claims:
        names = [_list_claim_names(view.pods.infos[number]) for number in delta.info.tolist()]
        uses = np.array([sum(name in claims for name in used) for used in names], np.int64)
        np.add.at(changes, delta.node, delta.sign * uses)
    return changes


def _is_restricted(volume: Volume) -> bool:
    """Return whether volumes of this kind can be mounted only by a limited number of pods."""
    sources = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
    return any(source is not None for source in sources)


def _find_infos_with_conflicting_disk(info: PodInfo, view: Fork) -> Bools:
    """Return a mask (T,) of the pod infos that have a disk that conflicts with the pod's."""
    if not any(map(_is_restricted, info.spec.volumes)):
        return np.zeros(len(view.pods.infos), np.bool_)
    return view.pods.where(lambda other: _find_conflicting_disk(info, other) is not None)


def _find_conflicting_disk(info: PodInfo, other: PodInfo) -> str | None:
    """Return a description of the in-line disk that both pods use and cannot mount together, or None."""
    other_volumes = [other_volume for other_volume in other.spec.volumes if _is_restricted(other_volume)]
    for own_volume in info.spec.volumes if other_volumes else ():
        for other_volume in other_volumes:
            if disk := _find_shared_disk(own_volume, other_volume):
                return disk
    return None


def _find_shared_disk(volume: Volume, other_volume: Volume) -> str | None:
    """Return a description of the disk of both volumes, or None if they differ or may be shared.

    GCE, iSCSI and RBD disks may be shared by read-only mounts. EBS volumes may not be shared at all.
    """
    gce, ebs, iscsi, rbd = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
    if gce and (other_gce := other_volume.gce_persistent_disk) and gce.pd_name == other_gce.pd_name:
        return None if gce.read_only and other_gce.read_only else f"GCE disk {gce.pd_name}"
    if ebs and (other_ebs := other_volume.aws_elastic_block_store) and ebs.volume_id == other_ebs.volume_id:
        return f"EBS volume {ebs.volume_id}"
    if iscsi and (other_iscsi := other_volume.iscsi) and iscsi.iqn == other_iscsi.iqn:
        return None if iscsi.read_only and other_iscsi.read_only else f"iSCSI target {iscsi.iqn}"
    if rbd and (other_rbd := other_volume.rbd) and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image):
        same_cluster = not set(rbd.monitors).isdisjoint(other_rbd.monitors)
        if same_cluster and not (rbd.read_only and other_rbd.read_only):
            return f"RBD image {rbd.pool}/{rbd.image}"
    return None


def _build_disk_mounted_fact(info: PodInfo, view: Fork, row: int) -> DiskMounted:
    """Build the fact about the first pod on the node that has a conflicting disk mounted."""
    for position in np.flatnonzero(view.node == row).tolist():
        if disk := _find_conflicting_disk(info, view.pods.infos[view.pods.info[position]]):
            return DiskMounted(disk, view.pods.objects[position].key)
    return DiskMounted()


def _build_claim_in_use_fact(info: PodInfo, state: RestrictionState, view: Fork) -> ClaimInUse:
    """Build the fact about the first pod that uses one of the exclusive claims."""
    for name in sorted(state.claims):
        for position in np.flatnonzero(_find_pods_using_claim(info.namespace, name, view)).tolist():
            user = view.pods.objects[position].key
            node = view.nodes.names[view.node[position]]
            return ClaimInUse(f"{info.namespace}/{name}", user, node)
    return ClaimInUse()
