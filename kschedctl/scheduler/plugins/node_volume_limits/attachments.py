"""The CSI volumes that pods attach to nodes, and the limits in the nodes' allocatable resources.

Upstream: csi.go (v1.36) and utils.go (v1.31) in pkg/scheduler/framework/plugins/nodevolumelimits, and
pkg/volume/util/attach_limit.go (v1.31).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, Volume
from kschedctl.api.resource_names import ATTACHABLE_VOLUMES_PREFIX
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.scheduler.plugins.helper.csi_migration import (
    BY_NAME,
    NO_LIMIT,
    TranslationError,
    find_in_tree_plugin,
    translate_handle,
    translate_volume_handle,
)
from kschedctl.scheduler.plugins.helper.volume_listers import (
    Listers,
    NotFoundError,
    find_claim_volume,
    format_claim_key,
    get_claim_class,
    get_listers,
    require_owner,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pod_infos import DistinctInfos
from kschedctl.text.counts import counted

Keys = npt.NDArray[np.int64]


class AttachedVolume(NamedTuple):
    """A volume as its CSI driver identifies it."""

    driver: str
    handle: str
    """The volume handle, or the claim of a volume that is yet to be provisioned."""


def find_attachable_volumes(
    info: PodInfo, listers: Listers, *, counts_in_tree: bool, is_new: bool
) -> list[AttachedVolume]:
    """Return the distinct CSI volumes that a pod needs attached, in the order of the pod's volumes.

    If `counts_in_tree` is true, as on nodes with a CSINode, in-tree volumes are included as CSI volumes. Volumes
    without a driver or handle are skipped. If `is_new` is true, as for the pod that is being scheduled, NotFoundError
    is raised for a missing claim. Otherwise, missing claims are skipped. Raises PluginError for a claim or inline
    volume that the pod cannot use.
    """
    distinct_volumes: dict[AttachedVolume, None] = {}
    for pod_volume in info.spec.volumes:
        volume = _find_attached_volume(pod_volume, info, listers, counts_in_tree=counts_in_tree, is_new=is_new)
        if volume is not None and volume.driver and volume.handle:
            distinct_volumes[volume] = None
    return list(distinct_volumes)


def _find_attached_volume(
    volume: Volume, info: PodInfo, listers: Listers, *, counts_in_tree: bool, is_new: bool
) -> AttachedVolume | None:
    """Return the CSI volume behind a pod's volume, or None if no CSI driver attaches the volume.

    Arguments and errors are those of `find_attachable_volumes`.
    """
    if volume.persistent_volume_claim is None and volume.ephemeral is None:
        return _translate_inline_volume(volume, listers) if counts_in_tree else None
    claim = find_claim_of_volume(volume, info, listers, is_new=is_new)
    if claim is None:
        return None
    return _find_volume_of_claim(claim, listers, counts_in_tree=counts_in_tree)


def find_claim_of_volume(
    volume: Volume, info: PodInfo, listers: Listers, *, is_new: bool
) -> PersistentVolumeClaim | None:
    """Return the claim that a volume of the pod uses, or None if the volume uses no claim.

    For a missing claim, raise NotFoundError if `is_new` is true, as for the pod that is being scheduled, and otherwise
    return None. Raises PluginError for a claim without a name, and for an ephemeral volume's claim that belongs to
    another pod.
    """
    claim_volume = find_claim_volume(info.pod, volume)
    if claim_volume is None:
        return None
    if not claim_volume.claim_name:
        raise PluginError("PersistentVolumeClaim had no name")
    try:
        claim = listers.get_claim(info.namespace, claim_volume.claim_name)
    except NotFoundError as missing:
        if is_new:
            raise NotFoundError(f"looking up PVC {info.namespace}/{claim_volume.claim_name}: {missing}") from None
        return None
    if claim_volume.ephemeral:
        require_owner(info.pod, claim)
    return claim


def _translate_inline_volume(volume: Volume, listers: Listers) -> AttachedVolume | None:
    """Return the CSI volume that an inline in-tree volume is migrated to, or None if it is not migrated.

    Raises PluginError if the volume cannot be translated.
    """
    plugin = find_in_tree_plugin(volume)
    if plugin is None or not listers.counts_as_csi(plugin):
        return None
    try:
        return AttachedVolume(plugin.driver, translate_handle(getattr(volume, plugin.field)))
    except TranslationError as error:
        raise PluginError(f"converting volume({volume.name}) from inline to csi: {error}") from None


def _find_volume_of_claim(
    claim: PersistentVolumeClaim, listers: Listers, *, counts_in_tree: bool
) -> AttachedVolume | None:
    """Return the CSI volume of a claim, or None if the claim's volume does not count as a CSI volume.

    If the claim has no volume, return the volume that its class would provision. In-tree volumes are included only if
    `counts_in_tree` is True.
    """
    volume = listers.volumes.get(claim.spec.volume_name)
    if volume is None:
        return _predict_provisioned_volume(claim, listers, counts_in_tree=counts_in_tree)
    if volume.spec.csi is not None:
        return AttachedVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    plugin = find_in_tree_plugin(volume.spec)
    if plugin is None or not listers.counts_as_csi(plugin) or not counts_in_tree:
        return None
    try:
        return AttachedVolume(plugin.driver, translate_volume_handle(volume, plugin))
    except TranslationError:
        return None  # upstream does not count a volume that it cannot translate


def _predict_provisioned_volume(
    claim: PersistentVolumeClaim, listers: Listers, *, counts_in_tree: bool
) -> AttachedVolume | None:
    """Return the CSI volume that the claim's class would provision, with the claim's key in place of the volume handle.

    For a class with an in-tree provisioner, the driver is the CSI driver that replaces the in-tree plugin. Return None
    if the class is missing, or if it has an in-tree provisioner and in-tree volumes do not count.
    """
    storage_class = listers.classes.get(get_claim_class(claim))
    if storage_class is None:
        return None
    driver = storage_class.provisioner
    plugin = BY_NAME.get(storage_class.provisioner)
    if plugin is not None:
        if not counts_in_tree or not listers.counts_as_csi(plugin):
            return None
        driver = plugin.driver
    return AttachedVolume(driver, f"claim {format_claim_key(claim)}")


VolumesOfPod = Callable[[PodInfo, Listers], list[AttachedVolume]]
"""Returns the volumes that a running pod has attached. Raises PluginError if they cannot be determined."""


def find_csi_volumes(info: PodInfo, listers: Listers) -> list[AttachedVolume]:
    """Return the distinct volumes of a running pod that count as CSI volumes, including in-tree volumes.

    Missing claims are skipped. Raises PluginError for a claim or inline volume that the pod cannot use.
    """
    return find_attachable_volumes(info, listers, counts_in_tree=True, is_new=False)


class AttachedVolumes:
    """The volumes of a snapshot's pod infos and VolumeAttachments, numbered in order of appearance."""

    def __init__(self, listers: Listers, of_pod: VolumesOfPod) -> None:
        self.listers, self._find_volumes = listers, of_pod
        self.numbers: dict[AttachedVolume, int] = {}
        """The number of each volume."""
        self._driver_numbers: dict[str, int] = {}
        self._drivers: list[int] = []
        """The number of each volume's driver."""
        self.errors: dict[int, str] = {}
        """The messages for the pod infos, by number, whose volumes cannot be determined."""
        self._volumes = np.empty(0, np.int64)
        """The numbers of the volumes of all pod infos, one info after the other."""
        self._counts = np.empty(0, np.int64)
        """The number of volumes of each pod info."""

    def select_driver(self, driver: str) -> Bools:
        """Return a mask over all volume numbers of the driver's volumes."""
        no_driver = -1
        is_of_driver: Bools = np.array(self._drivers, np.int64) == self._driver_numbers.get(driver, no_driver)
        return is_of_driver

    def find_node_attachments(self, view: Fork, delta: Delta) -> NodeAttachments:
        """Return the volumes that pods or VolumeAttachments attach to each node, after hypothetical pod changes.

        Volumes of new PodInfos are looked up first.
        """
        self._add_volumes_of_new_infos(view.pods.distinct.infos)

        # The bound pods that have volumes, followed by the hypothetical changes of pods, whose sign is 1 or -1
        bound = np.flatnonzero((view.node >= 0) & (self._counts[view.pods.info] > 0))
        pod_rows = np.concatenate((view.node[bound], delta.node)).astype(np.int64)
        pod_signs = np.concatenate((np.ones(len(bound), np.int64), delta.sign))
        pod_infos = np.concatenate((view.pods.info[bound], delta.info)).astype(np.int64)
        pod_indices, pod_volumes = self._list_volumes_of_infos(pod_infos)

        # A pair of node and volume is coded as one number, `row * width + volume`.
        attached_rows, attached_volumes = self._locate_attachments(view)
        width = max(len(self.numbers), 1)
        pod_keys = pod_rows[pod_indices] * width + pod_volumes
        attachment_keys = attached_rows * width + attached_volumes

        # A pair is in use if more pods use it than leave it.
        distinct_keys, key_indices = np.unique(pod_keys, return_inverse=True)
        uses = np.bincount(key_indices, pod_signs[pod_indices], len(distinct_keys))
        return NodeAttachments(
            self, len(view.nodes), width, by_pods=distinct_keys[uses > 0], by_attachments=attachment_keys
        )

    def _get_volume_number(self, volume: AttachedVolume) -> int:
        """Return the number of the volume. A new volume gets the next free number, and its driver is recorded."""
        if volume not in self.numbers:
            self.numbers[volume] = len(self.numbers)
            self._drivers.append(self._driver_numbers.setdefault(volume.driver, len(self._driver_numbers)))
        return self.numbers[volume]

    @cached_property
    def _attachments(self) -> list[tuple[str, int]]:
        """The node name and volume number of each VolumeAttachment of a CSI volume.

        Attachments are left out if they have no attacher, or if their volume is missing or not a CSI volume.
        """
        attachments = []
        for attachment in self.listers.attachments:
            spec = attachment.spec
            volume = self.listers.volumes.get(spec.source.persistent_volume_name or "")
            if not spec.attacher or volume is None or volume.spec.csi is None:
                continue
            number = self._get_volume_number(AttachedVolume(spec.attacher, volume.spec.csi.volume_handle))
            attachments.append((spec.node_name, number))
        return attachments

    def _locate_attachments(self, view: Fork) -> tuple[Counts, Counts]:
        """Return the node row and the volume number of each VolumeAttachment to one of the view's nodes.

        Both arrays have one entry for each attachment. They are cached for views with the same nodes.
        """

        def locate() -> tuple[Counts, Counts]:
            row_by_name = view.nodes.index
            pairs = [(row_by_name[name], number) for name, number in self._attachments if name in row_by_name]
            rows, volumes = np.array(pairs, np.int64).reshape(-1, 2).T  # the shape matters if there are no pairs
            return rows, volumes

        inputs = (self, view.nodes.names)  # the cached arrays are valid while these stay the same objects
        return view.objects.index((AttachedVolumes, "rows"), locate, of=inputs)

    def _add_volumes_of_new_infos(self, infos: DistinctInfos) -> None:
        """Look up and number the volumes of the pod infos that were added since the last call.

        `infos` holds all pod infos, including those of earlier calls. Only infos with volumes are built. If the volumes
        of an info cannot be determined, the message is recorded in `errors`, and the info gets no volumes.
        """
        numbers_by_info: list[list[int]] = []
        num_known_infos = len(self._counts)
        for info_number in range(num_known_infos, len(infos)):
            volumes: list[AttachedVolume] = []
            if infos.templates[info_number].spec.volumes:
                try:
                    volumes = self._find_volumes(infos[info_number], self.listers)
                except PluginError as error:
                    self.errors[info_number] = str(error)
            numbers_by_info.append([self._get_volume_number(volume) for volume in volumes])
        if numbers_by_info:
            self._counts = np.append(self._counts, [len(numbers) for numbers in numbers_by_info])
            self._volumes = np.append(self._volumes, np.array(list(chain.from_iterable(numbers_by_info)), np.int64))

    def _list_volumes_of_infos(self, infos: Counts) -> tuple[Counts, Counts]:
        """Return the volumes of the pod infos with these numbers, sorted by info, as two arrays.

        For each volume, the first array has the index in `infos` of the info that uses it. The second array has the
        number of the volume.
        """
        counts = self._counts[infos]
        indices = np.repeat(np.arange(len(infos)), counts)
        # An info's volumes start at `source` in self._volumes and at `target` in the result.
        source = (np.cumsum(self._counts) - self._counts)[infos]
        target = np.cumsum(counts) - counts
        source_of_each = np.repeat(source - target, counts) + np.arange(len(indices))
        return indices, self._volumes[source_of_each]


class CurrentVolumes:
    """The volumes of a fork's pod infos, valid until a claim or volume is replaced."""

    def __init__(self, view: Fork, of_pod: VolumesOfPod) -> None:
        self.listers = get_listers(view)
        self.of_pod = of_pod
        self.volumes = _get_cached_attached_volumes(view, of_pod)

    def replace_object(self, obj: PersistentVolumeClaim | PersistentVolume) -> None:
        """Discard all volumes, so that they are looked up again, because claims may refer to other volumes now."""
        self.volumes = AttachedVolumes(self.listers, self.of_pod)


def _get_cached_attached_volumes(view: Fork, of_pod: VolumesOfPod) -> AttachedVolumes:
    """Return the attached volumes of the fork's objects, computed once for all forks with the same objects.

    The result does not depend on nodes, so forks without some nodes share it as well. Callers must not change it.
    """
    migrates_portworx = view.settings.migrates_portworx

    def look_up_volumes(*_objects: object) -> AttachedVolumes:
        """Look up the volumes through listers, which find the objects themselves."""
        return AttachedVolumes(Listers(view.objects.fork(), view.nodes, migrates_portworx), of_pod)

    # The volumes are looked up again once an object of these kinds or a pod differs
    kinds = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "VolumeAttachment")
    cache_key = (AttachedVolumes, of_pod, migrates_portworx)
    return view.objects.index(cache_key, look_up_volumes, *kinds, of=(view.pods.infos,))


def find_node_attachments(view: Fork, delta: Delta, of_pod: VolumesOfPod = find_csi_volumes) -> NodeAttachments:
    """Return the volumes attached to each node of a fork, including hypothetical pod changes.

    `of_pod` returns the volumes of a running pod that count.
    """
    kinds = ("PersistentVolumeClaim", "PersistentVolume")
    latest = view.objects.get_derived_value((CurrentVolumes, of_pod), lambda: CurrentVolumes(view, of_pod), *kinds)
    return latest.volumes.find_node_attachments(view, delta)


@dataclass(frozen=True)
class NodeAttachments:
    """Volumes attached to nodes, as keys `row * width + volume`."""

    source: AttachedVolumes
    node_count: int
    width: int
    by_pods: Keys
    """Keys of the volumes that pods use."""
    by_attachments: Keys
    """Keys of the volumes that have a VolumeAttachment."""

    @cached_property
    def _attached(self) -> Keys:
        """Keys of all attached volumes."""
        return np.union1d(self.by_pods, self.by_attachments)

    def find_nodes_with_volume(self, volume: AttachedVolume) -> Bools:
        """Return a mask (N,) of the nodes on which a pod uses the volume."""
        rows, volumes = np.divmod(self.by_pods, self.width)  # each key is `row * width + volume`
        unknown_volume = -1
        number = self.source.numbers.get(volume, unknown_volume)
        mask = np.zeros(self.node_count, np.bool_)
        mask[rows[volumes == number]] = True
        return mask

    def count_volumes(self, driver: str, *, with_unused: bool) -> Counts:
        """Return, for each node, the number of the driver's volumes that are attached to it.

        If `with_unused` is True, volumes that have a VolumeAttachment count even if no pod uses them.
        """
        keys = self._attached if with_unused else self.by_pods
        rows, volumes = np.divmod(keys, self.width)  # each key is `row * width + volume`
        is_of_driver = self.source.select_driver(driver)[volumes]
        return np.bincount(rows[is_of_driver], minlength=self.node_count)

    def iter_errors(self, view: Fork, delta: Delta) -> Iterator[tuple[Bools, str]]:
        """Yield upstream's message for each pod info whose volumes could not be determined.

        Each message comes with a mask (N,) of the nodes that have pods with this info after the hypothetical changes.
        """
        for number, message in self.source.errors.items():
            is_info = np.arange(len(view.pods.infos)) == number
            has_pod = view.count_by_node(is_info) + delta.count_changes(is_info, len(view.nodes)) > 0
            yield has_pod, message


CSI_PREFIX = f"{ATTACHABLE_VOLUMES_PREFIX}csi-"
MAX_NAME_LENGTH = 63
DRIVER_LENGTH, HASH_LENGTH = 23, 16
"""The number of characters that are used of a driver name that is too long, and of its hash."""


class NodesWithLimits:
    """Masks (N,) of the nodes that declare limits, by resource and in total."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.by_resource: dict[str, Bools] = {}
        """The nodes that declare each resource."""
        self.by_any_resource = np.zeros(len(nodes), np.bool_)
        """The nodes that declare some limit."""
        for row, node in enumerate(nodes.objects):
            for name in node.status.allocatable:
                if not name.startswith(ATTACHABLE_VOLUMES_PREFIX):
                    continue
                if name not in self.by_resource:
                    self.by_resource[name] = np.zeros(len(nodes), np.bool_)
                self.by_resource[name][row] = True
                self.by_any_resource[row] = True


def find_nodes_with_limits(view: Fork) -> NodesWithLimits:
    """Return the masks of the fork's nodes that declare limits in their allocatable resources, computed once."""
    return view.objects.index(NodesWithLimits, lambda: NodesWithLimits(view.nodes), of=(view.nodes,))


def find_node_limits(view: Fork, resource: str) -> Counts:
    """Return each node's allocatable amount of a resource that limits volumes, or NO_LIMIT if a node declares none."""
    declares_limit = find_nodes_with_limits(view).by_resource.get(resource)
    if declares_limit is None:
        return np.full(len(view.nodes), NO_LIMIT)
    return np.where(declares_limit, view.allocatable[:, view.resources[resource]], NO_LIMIT)


def build_limit_resource_name(driver: str) -> str:
    """Return the name of the allocatable resource that limits the driver's volumes.

    If the driver name is too long, it is cut, and its hash is appended.

    >>> build_limit_resource_name("ebs.csi.aws.com")
    'attachable-volumes-csi-ebs.csi.aws.com'
    """
    if len(CSI_PREFIX) + len(driver) < MAX_NAME_LENGTH:
        return CSI_PREFIX + driver
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few drivers have names that long

    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return CSI_PREFIX + driver[:DRIVER_LENGTH] + digest[:HASH_LENGTH]


class DriverLimit(Detail, frozen=True):
    """A CSI driver that would exceed its limit on a node."""

    driver: str
    attached: int
    """The number of its volumes that are attached."""
    limit: int
    more: int
    """The number of volumes that the pod adds."""


class TooManyVolumes(Fact, frozen=True):
    """The CSI drivers that would exceed their limits on a node."""

    drivers: tuple[DriverLimit, ...]

    def describe(self) -> str:
        """Describe each driver's attached volumes, its limit, and the volumes that the pod adds.

        >>> TooManyVolumes((DriverLimit("csi", attached=2, limit=2, more=1),)).describe()
        'the pod needs 1 more volume of driver csi, but the node has 2 attached and a limit of 2'
        """
        return "; ".join(
            f"the pod needs {counted(d.more, 'more volume')} of driver {d.driver}, but the node has {d.attached} "
            f"attached and a limit of {d.limit}"
            for d in self.drivers
        )
