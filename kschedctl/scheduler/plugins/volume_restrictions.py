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
from kschedctl.scheduler.plugins.helper.volume_hints import (
    LOOK_AT_CLAIM,
    describe_claim_creation,
    describe_claims,
    is_schedulable_after_named_claim_change,
    iter_claim_dependencies,
)
from kschedctl.scheduler.plugins.helper.volume_listers import READ_WRITE_ONCE_POD, Listers, NotFoundError, get_listers
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON_DISK = "node(s) had no available disk"
REASON_READ_WRITE_ONCE_POD = ByVersion(
    "rejection reason when another pod already uses the ReadWriteOncePod claim",
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

REGISTERS_CLAIM_UPDATES = ByVersion(
    "a changed PersistentVolumeClaim can make the scheduler retry a rejected pod", (("", True), ("1.31", False))
)
REGISTERS_NODE_UPDATES = ByVersion(
    "an update to a node can make the scheduler retry a rejected pod while queueing hints are off",
    (("", False), ("1.32", True)),
)


class DiskMounted(Fact, frozen=True):
    """A disk that a pod of the node has mounted. Both fields are empty if only a nominated pod uses it."""

    disk: str = ""
    pod: str = ""

    def describe(self) -> str:
        """Say which disk is mounted by which pod.

        >>> DiskMounted("GCE disk d1", "shop/web").describe(), DiskMounted().describe()
        ('GCE disk d1 is mounted by shop/web', 'the disk is mounted by a nominated pod')
        """
        if not self.pod:
            return "the disk is mounted by a nominated pod"
        return f"{self.disk} is mounted by {self.pod}"


class ClaimInUse(Fact, frozen=True):
    """A ReadWriteOncePod claim that another pod uses. All fields are empty if only a nominated pod uses it."""

    claim: str = ""
    pod: str = ""
    node: str = ""

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Say which pod uses the claim, and on which node."""
        if not self.pod:
            return "the claim is used by a nominated pod"
        return f"claim {self.claim} is ReadWriteOncePod, and pod {self.pod} on node {self.node} already uses it"

    @property
    def is_same_on_all_nodes(self) -> bool:
        """True, since the claim is in use wherever the pod would run."""
        return True


class RestrictionState(NamedTuple):
    """The state that PreFilter passes to Filter."""

    claims: frozenset[str]
    """The names of the pod's ReadWriteOncePod claims."""
    conflicts: int
    """The number of these claims that another pod uses."""


class VolumeRestrictions(DeclaredPlugin[RestrictionState, None]):
    """Plugin that rejects nodes where the pod's inline disk is mounted in a conflicting way.

    It rejects all nodes while another pod uses the pod's ReadWriteOncePod claim. As in upstream, claims of hypothetical
    pods are compared only by name, not by namespace.

    Upstream: pkg/scheduler/framework/plugins/volumerestrictions (v1.36).
    """

    name = "VolumeRestrictions"
    facts = (DiskMounted, ClaimInUse)
    changed = (
        REASON_READ_WRITE_ONCE_POD,
        REGISTERS_NODE_UPDATES,
        REGISTERS_CLAIM_UPDATES,
    )
    hints_since = 31
    without = "volumes for one node or pod are used by several"
    fixes = "held_volumes"
    needs_state: ClassVar[Mapping[str, str]] = {"filter": "preFilter"}
    next_step_within_reach = NextStep(
        "EndVolumeUser", "Only one pod at a time may use the volume: wait for the other pod to end, or stop it"
    )
    next_step = LOOK_AT_CLAIM
    kinds = ("PersistentVolumeClaim",)
    kinds_matter_to = USES_DISKS

    def __init__(self, version: KubeVersion = VERIFIED) -> None:
        self.reason_in_use = REASON_READ_WRITE_ONCE_POD.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin for the version of the feature gates. It takes no arguments."""
        return cls(gates.release)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the results for the pod's claims."""
        return iter_claim_dependencies(info, get_listers(view))

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        yield ClusterEventWithHint(POD, ActionType.DELETE, self._is_schedulable_after_pod_deleted)
        node_actions = ActionType.ADD
        if REGISTERS_NODE_UPDATES.at(gates.release):
            node_actions = resolve_node_actions(node_actions, gates)
        yield ClusterEventWithHint(NODE, node_actions)
        claim_actions = ActionType.ADD
        if REGISTERS_CLAIM_UPDATES.at(gates.release):
            claim_actions |= ActionType.UPDATE
        yield ClusterEventWithHint("PersistentVolumeClaim", claim_actions, is_schedulable_after_named_claim_change)

    def _is_schedulable_after_pod_deleted(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return whether the deleted pod was in the waiting pod's namespace and used one of its disks or claims."""
        deleted = PodInfo(change.old, view.settings.requests)
        if deleted.namespace != info.namespace:
            return False
        if _describe_conflicting_disk(info, deleted) is not None:
            return True
        return not set(_list_claim_names(info)).isdisjoint(_list_claim_names(deleted))

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[RestrictionState]:
        """Find the pod's ReadWriteOncePod claims, and count the claims that another pod uses.

        Filter is skipped if none of these claims is in use and the pod has no inline disk that could conflict. The pod
        is rejected as unresolvable if one of its claims is missing.
        """
        try:
            claims = frozenset(_iter_exclusive_claims(info, get_listers(view)))
        except NotFoundError as missing:
            return PreFilterResult(Status(Code.UNRESOLVABLE, (str(missing),)))
        claims_in_use = [name for name in claims if _find_pods_using_claim(info.namespace, name, view).any()]
        has_exclusive_disk = any(_has_exclusive_disk(volume) for volume in info.spec.volumes)
        if not claims_in_use and not has_exclusive_disk:
            return PRE_FILTER_SKIP
        return PreFilterResult(state=RestrictionState(claims, len(claims_in_use)))

    def filter(self, info: PodInfo, view: Fork, state: RestrictionState | None, delta: Delta) -> Iterator[Rejection]:
        """Yield a rejection of nodes where a conflicting disk is mounted, then of nodes where a claim is in use.

        If another pod uses a claim, the claim is in use on all nodes. A pod in `delta`, however, uses or frees a claim
        only on the node where `delta` adds or removes the pod. Raises PluginError if PreFilter did not run.
        """
        # Disks come first, as they need nothing from PreFilter.
        conflicts_with_disk = _find_infos_with_conflicting_disk(info, view)
        existing_conflicts = view.count_by_node(conflicts_with_disk)
        changed_conflicts = delta.count_changes(conflicts_with_disk, len(view.nodes))
        is_mounted = existing_conflicts + changed_conflicts > 0
        yield Rejection(
            is_mounted, Code.UNSCHEDULABLE, REASON_DISK, lambda row: _build_disk_mounted_fact(info, view, row)
        )

        # Then the claims, on nodes where no disk conflicts.
        if state is None:
            raise PluginError(f'cannot read "PreFilter{self.name}" from cycleState')
        is_claim_in_use = state.conflicts + _count_claim_use_changes(state.claims, view, delta) > 0
        yield Rejection(
            is_claim_in_use & ~is_mounted,
            Code.UNSCHEDULABLE,
            self.reason_in_use,
            lambda row: _build_claim_in_use_fact(info, state, view),
        )

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        claims = describe_claims(info, ephemeral=False)
        freed = f"a pod in namespace {info.namespace} that uses claim {claims} or one of its disks leaves its node"
        yield WakeTrigger(POD, DELETE, freed)
        yield WakeTrigger("PersistentVolumeClaim", ADD, describe_claim_creation(info, view, ephemeral=False))
        yield WakeTrigger(NODE, ADD, "a node is added")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sources of the pod's volumes as part of its signature."""
        return sign_volumes(info)


def _iter_exclusive_claims(info: PodInfo, listers: Listers) -> Iterator[str]:
    """Yield the names of the pod's claims with access mode ReadWriteOncePod.

    Raises NotFoundError for a claim that does not exist.
    """
    for name in _list_claim_names(info):
        if READ_WRITE_ONCE_POD in listers.get_claim(info.namespace, name).spec.access_modes:
            yield name


def _list_claim_names(info: PodInfo) -> list[str]:
    """Return the names of the claims to which the pod's volumes refer, without the claims of ephemeral volumes."""
    claim_sources = [volume.persistent_volume_claim for volume in info.spec.volumes]
    return [source.claim_name for source in claim_sources if source is not None]


def _find_pods_using_claim(namespace: str, claim: str, view: Fork) -> Bools:
    """Return a mask over all pods that marks the pods on nodes that use the claim.

    Pods placed in the current cycle of a pod group do not count, because upstream lists the claims in use before the
    cycle.
    """
    uses_claim = view.pods.where(lambda info: info.namespace == namespace and claim in _list_claim_names(info))
    return uses_claim[view.pods.info] & view.mask_placed_before_group()


def _count_claim_use_changes(claims: frozenset[str], view: Fork, delta: Delta) -> npt.NDArray[np.int64]:
    """Return, for each node, by how much the hypothetical pod changes raise the number of uses of the claims.

    An added pod raises the number on its node by its volumes that use one of the claims. A removed pod lowers it. As in
    upstream, claims are compared only by name.
    """
    changes = np.zeros(len(view.nodes), np.int64)
    if not delta or not claims:
        return changes
    uses_by_change = []
    for info_number in delta.info.tolist():
        claim_names = _list_claim_names(view.pods.infos[info_number])
        uses_by_change.append(sum(name in claims for name in claim_names))
    np.add.at(changes, delta.node, delta.sign * np.array(uses_by_change, np.int64))  # the sign is 1 or -1
    return changes


def _has_exclusive_disk(volume: Volume) -> bool:
    """Return whether the volume is an inline disk of a kind that several pods of a node may not be able to mount."""
    sources = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
    return any(source is not None for source in sources)


def _find_infos_with_conflicting_disk(info: PodInfo, view: Fork) -> Bools:
    """Return a mask of the pod infos that have an inline disk which conflicts with one of the pod's disks."""
    has_exclusive_disk = any(_has_exclusive_disk(volume) for volume in info.spec.volumes)
    if not has_exclusive_disk:
        return np.zeros(len(view.pods.infos), np.bool_)
    return view.pods.where(lambda other: _describe_conflicting_disk(info, other) is not None)


def _describe_conflicting_disk(info: PodInfo, other: PodInfo) -> str | None:
    """Describe the first inline disk that both pods use and cannot mount together, or return None."""
    other_volumes = [volume for volume in other.spec.volumes if _has_exclusive_disk(volume)]
    if not other_volumes:
        return None
    for own_volume in info.spec.volumes:
        for other_volume in other_volumes:
            disk = _find_disk_conflict(own_volume, other_volume)
            if disk is not None:
                return disk
    return None


def _find_disk_conflict(volume: Volume, other: Volume) -> str | None:
    """Describe the disk that both volumes use, or return None if the disks differ or may be shared.

    GCE, iSCSI and RBD disks may be shared by read-only mounts. EBS volumes may not be shared at all.
    """
    gce, other_gce = volume.gce_persistent_disk, other.gce_persistent_disk
    if gce and other_gce and gce.pd_name == other_gce.pd_name:
        both_read_only = gce.read_only and other_gce.read_only
        return None if both_read_only else f"GCE disk {gce.pd_name}"

    ebs, other_ebs = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs and other_ebs and ebs.volume_id == other_ebs.volume_id:
        return f"EBS volume {ebs.volume_id}"

    iscsi, other_iscsi = volume.iscsi, other.iscsi
    if iscsi and other_iscsi and iscsi.iqn == other_iscsi.iqn:
        both_read_only = iscsi.read_only and other_iscsi.read_only
        return None if both_read_only else f"iSCSI target {iscsi.iqn}"

    rbd, other_rbd = volume.rbd, other.rbd
    if rbd and other_rbd and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image):
        same_cluster = not set(rbd.monitors).isdisjoint(other_rbd.monitors)
        both_read_only = rbd.read_only and other_rbd.read_only
        if same_cluster and not both_read_only:
            return f"RBD image {rbd.pool}/{rbd.image}"
    return None


def _build_disk_mounted_fact(info: PodInfo, view: Fork, row: int) -> DiskMounted:
    """Build the fact about the first pod on the node that has mounted a conflicting disk.

    The fact names no pod if only a nominated pod uses the disk.
    """
    for position in np.flatnonzero(view.node == row).tolist():
        existing = view.pods.get_info(position)
        disk = _describe_conflicting_disk(info, existing)
        if disk is not None:
            return DiskMounted(disk, view.pods.objects[position].key)
    return DiskMounted()


def _build_claim_in_use_fact(info: PodInfo, state: RestrictionState, view: Fork) -> ClaimInUse:
    """Build the fact about the first pod on a node that uses one of the pod's ReadWriteOncePod claims.

    If no pod on a node does, a nominated pod uses the claim, and the fact names no pod.
    """
    for name in sorted(state.claims):
        users = np.flatnonzero(_find_pods_using_claim(info.namespace, name, view))
        if len(users) > 0:
            first_user = int(users[0])
            node = view.nodes.names[view.node[first_user]]
            return ClaimInUse(f"{info.namespace}/{name}", view.pods.objects[first_user].key, node)
    return ClaimInUse()
