"""VolumeRestrictions: disks that one node must not mount twice, and claims that only one pod may use."""

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
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency
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
from kschedctl.scheduler.framework.pod_traits import USES_DISKS
from kschedctl.scheduler.framework.waking import ADD, DELETE, WakeTrigger
from kschedctl.scheduler.plugins.helper.signing import signed_volumes
from kschedctl.scheduler.plugins.helper.volumes.claim_dependencies import LOOK_AT_CLAIM, claim_dependencies
from kschedctl.scheduler.plugins.helper.volumes.hints import after_named_claim, named_claims
from kschedctl.scheduler.plugins.helper.volumes.listers import READ_WRITE_ONCE_POD, Listers, NotFoundError, listers
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON_DISK = "node(s) had no available disk"
REASON_READ_WRITE_ONCE_POD = ByVersion(
    "the reason for a ReadWriteOncePod claim in use",
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

HEARS_OF_NEW_CLAIMS = ByVersion(
    "whether VolumeRestrictions asks for new claims alone, not for changed ones", (("", False), ("1.31", True))
)
HEARS_OF_UPDATES = ByVersion(
    "whether VolumeRestrictions asks for updates of nodes where queueing hints are off", (("", False), ("1.32", True))
)


class DiskMounted(Fact, frozen=True):
    """A ``pod`` of the node has the ``disk`` mounted; nothing is known of one that is nominated."""

    disk: str = ""
    pod: str = ""

    def words(self) -> str:
        """
        >>> DiskMounted("GCE disk d1", "shop/web").words(), DiskMounted().words()
        ('GCE disk d1 is mounted by shop/web', 'the disk is mounted by a nominated pod')
        """
        return f"{self.disk} is mounted by {self.pod}" if self.pod else "the disk is mounted by a nominated pod"


class ClaimInUse(Fact, frozen=True):
    """A claim for one pod only is used by a ``pod`` on a ``node``; nothing is known of a nominated one."""

    claim: str = ""
    pod: str = ""
    node: str = ""

    def words(self) -> str:
        """
        >>> ClaimInUse("shop/data", "shop/db", "w1").words(), ClaimInUse().words()
        ('claim shop/data is used by shop/db on w1', 'the claim is used by a nominated pod')
        """
        if not self.pod:
            return "the claim is used by a nominated pod"
        return f"claim {self.claim} is used by {self.pod} on {self.node}"


class RestrictionState(NamedTuple):
    """The pod's claims that no other pod may use, and how many of them one does."""

    claims: frozenset[str]
    conflicts: int


class VolumeRestrictions(DeclaredPlugin[RestrictionState, None]):
    """Rejects nodes that have the pod's in-line disk mounted in a way that does not allow for another mount, and all
    nodes while another pod uses its ReadWriteOncePod claim.

    Upstream: pkg/scheduler/framework/plugins/volumerestrictions (v1.36). Like there, pods that come or go in a
    hypothesis are compared by the claim's name only, whatever their namespace.
    """

    name = "VolumeRestrictions"
    facts = (DiskMounted, ClaimInUse)
    changed = (
        REASON_READ_WRITE_ONCE_POD,
        HEARS_OF_UPDATES,
        HEARS_OF_NEW_CLAIMS,
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
        return claim_dependencies(info, listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.DELETE, self._after_pod_deleted)
        of_nodes = node_actions(ActionType.ADD, gates) if HEARS_OF_UPDATES.at(gates.release) else ActionType.ADD
        yield ClusterEventWithHint(NODE, of_nodes)
        of_claims = ActionType.ADD | (ActionType(0) if HEARS_OF_NEW_CLAIMS.at(gates.release) else ActionType.UPDATE)
        yield ClusterEventWithHint("PersistentVolumeClaim", of_claims, after_named_claim)

    def _after_pod_deleted(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """A pod of the same namespace with the disk or a claim that this one wants."""
        gone = PodInfo(change.old, view.settings.requests)
        if gone.namespace != info.namespace:
            return False
        return _conflict(info, gone) is not None or not set(_claim_names(info)).isdisjoint(_claim_names(gone))

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[RestrictionState]:
        try:
            claims = frozenset(_exclusive_claims(info, listers(view)))
        except NotFoundError as missing:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(missing),)))
        conflicts = sum(bool(_users(info.namespace, name, view).any()) for name in claims)
        if not conflicts and not any(map(_is_restricted, info.spec.volumes)):
            return PRE_FILTER_SKIP
        return PreFilterResult(state=RestrictionState(claims, conflicts))

    def filter(self, info: PodInfo, view: Fork, state: RestrictionState | None, delta: Delta) -> Iterator[Rejection]:
        holders = _holders(info, view)
        mounted = view.count_by_node(holders) + delta.counts(holders, len(view.nodes)) > 0
        yield Rejection(mounted, Code.UNSCHEDULABLE, REASON_DISK, lambda row: _mounted(info, view, row))
        if state is None:
            raise PluginError(f'cannot read "PreFilter{self.name}" from cycleState')
        used = state.conflicts + _change(state.claims, view, delta) > 0
        reason = self.reason_in_use
        yield Rejection(used & ~mounted, Code.UNSCHEDULABLE, reason, lambda row: _user(info, state, view))

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        claims = named_claims(info, ephemeral=False)
        yield WakeTrigger(
            POD,
            DELETE,
            f"a pod in namespace {info.namespace} that uses claim {claims} or one of its disks leaves its node",
        )
        yield WakeTrigger("PersistentVolumeClaim", ADD, f"claim {claims} is created")
        yield WakeTrigger(NODE, ADD, "a node is added")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return signed_volumes(info)


def _exclusive_claims(info: PodInfo, storage: Listers) -> Iterator[str]:
    """Raises NotFoundError."""
    for name in _claim_names(info):
        if READ_WRITE_ONCE_POD in storage.claim(info.namespace, name).spec.access_modes:
            yield name


def _claim_names(info: PodInfo) -> list[str]:
    volumes = info.spec.volumes
    return [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]


def _users(namespace: str, claim: str, view: Fork) -> Bools:
    """(P,): the pods on nodes that use a claim; upstream lists the claims in use when a pod group's cycle begins."""
    infos = view.pods.where(lambda info: info.namespace == namespace and claim in _claim_names(info))
    return infos[view.pods.info] & view.placed_before()


def _change(claims: frozenset[str], view: Fork, delta: Delta) -> npt.NDArray[np.int64]:
    """(N,): by how much the uses of the claims change on each node."""
    changes = np.zeros(len(view.nodes), np.int64)
    if delta and claims:
        names = [_claim_names(view.pods.infos[number]) for number in delta.info.tolist()]
        uses = np.array([sum(name in claims for name in used) for used in names], np.int64)
        np.add.at(changes, delta.node, delta.sign * uses)
    return changes


def _is_restricted(volume: Volume) -> bool:
    sources = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
    return any(source is not None for source in sources)


def _holders(info: PodInfo, view: Fork) -> Bools:
    """(T,): the infos of pods that have a disk of this one in the way."""
    if not any(map(_is_restricted, info.spec.volumes)):
        return np.zeros(len(view.pods.infos), np.bool_)
    return view.pods.where(lambda other: _conflict(info, other) is not None)


def _conflict(info: PodInfo, other: PodInfo) -> str | None:
    """The disk that both have in-line and that cannot be mounted twice, in words."""
    theirs = [volume for volume in other.spec.volumes if _is_restricted(volume)]
    for mine in info.spec.volumes if theirs else ():
        for volume in theirs:
            if disk := _shared_disk(mine, volume):
                return disk
    return None


def _shared_disk(mine: Volume, other: Volume) -> str | None:
    """GCE, iSCSI and RBD disks may be shared by read-only mounts; EBS volumes may not be shared at all."""
    gce, ebs, iscsi, rbd = mine.gce_persistent_disk, mine.aws_elastic_block_store, mine.iscsi, mine.rbd
    if gce and (theirs := other.gce_persistent_disk) and gce.pd_name == theirs.pd_name:
        return None if gce.read_only and theirs.read_only else f"GCE disk {gce.pd_name}"
    if ebs and (volume := other.aws_elastic_block_store) and ebs.volume_id == volume.volume_id:
        return f"EBS volume {ebs.volume_id}"
    if iscsi and (target := other.iscsi) and iscsi.iqn == target.iqn:
        return None if iscsi.read_only and target.read_only else f"iSCSI target {iscsi.iqn}"
    if rbd and (image := other.rbd) and (rbd.pool, rbd.image) == (image.pool, image.image):
        apart = set(rbd.monitors).isdisjoint(image.monitors)
        return None if apart or (rbd.read_only and image.read_only) else f"RBD image {rbd.pool}/{rbd.image}"
    return None


def _mounted(info: PodInfo, view: Fork, row: int) -> DiskMounted:
    for position in np.flatnonzero(view.node == row).tolist():
        if disk := _conflict(info, view.pods.infos[view.pods.info[position]]):
            return DiskMounted(disk, view.pods.objects[position].key)
    return DiskMounted()


def _user(info: PodInfo, state: RestrictionState, view: Fork) -> ClaimInUse:
    for name in sorted(state.claims):
        for position in np.flatnonzero(_users(info.namespace, name, view)).tolist():
            user, node = view.pods.objects[position].key, view.nodes.names[view.node[position]]
            return ClaimInUse(f"{info.namespace}/{name}", user, node)
    return ClaimInUse()
