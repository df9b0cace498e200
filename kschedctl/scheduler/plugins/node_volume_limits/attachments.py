"""The CSI volumes that pods attach to nodes: which ones a pod needs, and how many a node has.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, Volume
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import (
    BY_NAME,
    TranslationError,
    find_in_tree_plugin,
    translate_handle,
    translate_volume_handle,
)
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    Listers,
    NotFoundError,
    claim_class,
    claim_key,
    find_claim_volume,
    listers,
    require_owner,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

Keys = npt.NDArray[np.int64]


class AttachedVolume(NamedTuple):
    """A volume as its CSI driver knows it; one that is yet to be made has its claim for a handle."""

    driver: str
    handle: str


def attachable_volumes(info: PodInfo, storage: Listers, migrated: bool, new: bool) -> list[AttachedVolume]:
    """The distinct volumes that a pod needs attached, in the pod's order.

    ``migrated``: on a node that has a CSINode, where in-tree volumes count as CSI ones. A ``new`` pod's claims must
    exist; those of others are left out. Raises NotFoundError, PluginError.
    """
    volumes = (_attachable(volume, info, storage, migrated, new) for volume in info.spec.volumes)
    return list(dict.fromkeys(volume for volume in volumes if volume is not None and all(volume)))


def _attachable(volume: Volume, info: PodInfo, storage: Listers, migrated: bool, new: bool) -> AttachedVolume | None:
    if volume.persistent_volume_claim is None and volume.ephemeral is None:
        return _inline(volume, storage) if migrated else None
    claim = claim_of(volume, info, storage, new)
    return None if claim is None else _of_claim(claim, storage, migrated)


def claim_of(volume: Volume, info: PodInfo, storage: Listers, new: bool) -> PersistentVolumeClaim | None:
    """The claim that a volume of a pod stands for, None where it is none or, unless the pod is ``new``, is not there.

    Raises NotFoundError, PluginError.
    """
    wanted = find_claim_volume(info.pod, volume)
    if wanted is None:
        return None
    if not wanted.claim_name:
        raise PluginError("PersistentVolumeClaim had no name")
    try:
        claim = storage.claim(info.namespace, wanted.claim_name)
    except NotFoundError as missing:
        if new:
            raise NotFoundError(f"looking up PVC {info.namespace}/{wanted.claim_name}: {missing}") from None
        return None
    if wanted.ephemeral:
        require_owner(info.pod, claim)
    return claim


def _inline(volume: Volume, storage: Listers) -> AttachedVolume | None:
    plugin = find_in_tree_plugin(volume)
    if plugin is None or not storage.counts_as_csi(plugin):
        return None
    try:
        return AttachedVolume(plugin.driver, translate_handle(getattr(volume, plugin.field)))
    except TranslationError as error:
        raise PluginError(f"converting volume({volume.name}) from inline to csi: {error}") from None


def _of_claim(claim: PersistentVolumeClaim, storage: Listers, migrated: bool) -> AttachedVolume | None:
    """The claim's volume; where that is not known, one of the class's driver."""
    volume = storage.volumes.get(claim.spec.volume_name)
    if volume is None:
        return _of_class(claim, storage, migrated)
    if volume.spec.csi is not None:
        return AttachedVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    plugin = find_in_tree_plugin(volume.spec)
    if plugin is None or not storage.counts_as_csi(plugin) or not migrated:
        return None
    try:
        return AttachedVolume(plugin.driver, translate_volume_handle(volume, plugin))
    except TranslationError:
        return None  # upstream does not count it


def _of_class(claim: PersistentVolumeClaim, storage: Listers, migrated: bool) -> AttachedVolume | None:
    storage_class = storage.classes.get(claim_class(claim))
    if storage_class is None:
        return None
    handle = f"claim {claim_key(claim)}"
    plugin = BY_NAME.get(storage_class.provisioner)
    if plugin is None:
        return AttachedVolume(storage_class.provisioner, handle)
    return AttachedVolume(plugin.driver, handle) if storage.counts_as_csi(plugin) and migrated else None


VolumesOfPod = Callable[[PodInfo, Listers], list[AttachedVolume]]
"""The volumes that a pod that runs has attached. Raises PluginError where that cannot be told."""


def csi_volumes(info: PodInfo, storage: Listers) -> list[AttachedVolume]:
    """The pod's volumes that count as CSI ones, in-tree volumes included."""
    return attachable_volumes(info, storage, migrated=True, new=False)


class AttachedVolumes:
    """The volumes of a snapshot's PodInfos and VolumeAttachments, numbered in the order of their appearance."""

    def __init__(self, storage: Listers, of_pod: VolumesOfPod) -> None:
        self.listers, self._of_pod = storage, of_pod
        self.numbers: dict[AttachedVolume, int] = {}
        self._drivers: dict[str, int] = {}
        self._driver_of: list[int] = []
        self.errors: dict[int, str] = {}
        self._volumes = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def of_driver(self, driver: str) -> Bools:
        """By number: the volumes of a driver."""
        chosen: Bools = np.array(self._driver_of, np.int64) == self._drivers.get(driver, -1)
        return chosen

    def on_nodes(self, view: Fork, delta: Delta) -> NodeAttachments:
        """What is attached to each node under a hypothesis."""
        self._add_kinds(view.pods.infos)
        bound = np.flatnonzero((view.node >= 0) & (self._counts[view.pods.info] > 0))
        rows = np.concatenate((view.node[bound], delta.node)).astype(np.int64)
        sign = np.concatenate((np.ones(len(bound), np.int64), delta.sign))
        which, volumes = self._gather(np.concatenate((view.pods.info[bound], delta.info)))
        attached_rows, attached_volumes = self._attachments
        width = max(len(self.numbers), 1)
        keys, inverse = np.unique(rows[which] * width + volumes, return_inverse=True)
        uses = np.bincount(inverse, sign[which], len(keys))
        return NodeAttachments(self, width, keys[uses > 0], attached_rows * width + attached_volumes)

    def _number(self, volume: AttachedVolume) -> int:
        number = self.numbers.setdefault(volume, len(self.numbers))
        if number == len(self._driver_of):
            self._driver_of.append(self._drivers.setdefault(volume.driver, len(self._drivers)))
        return number

    @cached_property
    def _attachments(self) -> tuple[Counts, Counts]:
        """Rows and volumes of the VolumeAttachments of CSI volumes."""
        pairs = []
        for attachment in self.listers.attachments:
            row = self.listers.nodes.index.get(attachment.spec.node_name)
            volume = self.listers.volumes.get(attachment.spec.source.persistent_volume_name or "")
            if row is not None and attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                handle = volume.spec.csi.volume_handle
                pairs.append((row, self._number(AttachedVolume(attachment.spec.attacher, handle))))
        rows, volumes = np.array(pairs, np.int64).reshape(-1, 2).T
        return rows, volumes

    def _add_kinds(self, infos: Sequence[PodInfo]) -> None:
        """Look up the volumes of the infos that are new; ``errors`` has those for which they cannot be told."""
        added: list[list[int]] = []
        for number in range(len(self._counts), len(infos)):
            attached_volumes: list[AttachedVolume] = []
            if infos[number].spec.volumes:
                try:
                    attached_volumes = self._of_pod(infos[number], self.listers)
                except PluginError as error:
                    self.errors[number] = str(error)
            added.append([self._number(volume) for volume in attached_volumes])
        if added:
            self._counts = np.append(self._counts, [len(numbers) for numbers in added])
            self._volumes = np.append(self._volumes, np.array([n for numbers in added for n in numbers], np.int64))

    def _gather(self, infos: Counts) -> tuple[Counts, Counts]:
        """One entry for each volume of each of the infos: the position among ``infos``, and the volume."""
        counts = self._counts[infos]
        which = np.repeat(np.arange(len(infos)), counts)
        first, begin = np.cumsum(self._counts) - self._counts, np.cumsum(counts) - counts
        return which, self._volumes[np.repeat(first[infos] - begin, counts) + np.arange(len(which))]


class Latest:
    """The volumes of a fork's infos as they are known until a claim or a volume is replaced."""

    def __init__(self, view: Fork, of_pod: VolumesOfPod) -> None:
        self.listers, self.of_pod = listers(view), of_pod
        self.volumes = _shared(view, of_pod)

    def replaced(self, obj: PersistentVolumeClaim | PersistentVolume) -> None:
        """Another volume may be meant."""
        self.volumes = AttachedVolumes(self.listers, self.of_pod)


def _shared(view: Fork, of_pod: VolumesOfPod) -> AttachedVolumes:
    """What pods have attached by the fork's objects: once for all forks of them, a copy that nobody changes.

    Of the nodes it asks for nothing but their names: it serves where some are cordoned, too.
    """
    kinds = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "VolumeAttachment")
    return view.objects.index(
        (AttachedVolumes, of_pod, view.settings.migrates_portworx),
        lambda *_: AttachedVolumes(Listers(view.objects.fork(), view.nodes, view.settings.migrates_portworx), of_pod),
        *kinds,
        of=(view.nodes.names, view.pods.infos),
    )


def node_attachments(view: Fork, delta: Delta, of_pod: VolumesOfPod = csi_volumes) -> NodeAttachments:
    """What is attached to each node of a fork under a hypothesis."""
    kinds = ("PersistentVolumeClaim", "PersistentVolume")
    latest = view.objects.follow((Latest, of_pod), lambda: Latest(view, of_pod), *kinds)
    return latest.volumes.on_nodes(view, delta)


@dataclass(frozen=True)
class NodeAttachments:
    """Pairs of row and volume as ``row * width + volume``: those that pods use, and those of VolumeAttachments."""

    source: AttachedVolumes
    width: int
    by_pods: Keys
    by_attachments: Keys

    @cached_property
    def _attached(self) -> Keys:
        return np.union1d(self.by_pods, self.by_attachments)

    def has(self, volume: AttachedVolume) -> Bools:
        """(N,): the nodes on which a pod uses the volume."""
        mask = np.zeros(len(self.source.listers.nodes), np.bool_)
        number = self.source.numbers.get(volume, -1)
        mask[self.by_pods[self.by_pods % self.width == number] // self.width] = True
        return mask

    def count(self, driver: str, without_pods: bool) -> Counts:
        """(N,): how many volumes of a driver are attached; those ``without_pods`` have a VolumeAttachment alone."""
        attached = self._attached if without_pods else self.by_pods
        chosen = self.source.of_driver(driver)[attached % self.width]
        return np.bincount(attached[chosen] // self.width, minlength=len(self.source.listers.nodes))

    def errors(self, view: Fork, delta: Delta) -> Iterator[tuple[Bools, str]]:
        """The nodes (N,) with a pod whose volumes cannot be told, and upstream's words for it."""
        for number, text in self.source.errors.items():
            infos = np.arange(len(view.pods.infos)) == number
            yield view.count_by_node(infos) + delta.counts(infos, len(view.nodes)) > 0, text
