"""Claims, volumes, classes and CSI objects by name, and the claims that a pod's volumes stand for.

Upstream: the listers of client-go, staging/src/k8s.io/component-helpers/storage/{volume/helpers.go,
volume/pv_helpers.go,ephemeral} (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self, TypeVar

import numpy as np
from msgspec.structs import replace

from kschedctl.api.api_object import ApiObject
from kschedctl.api.arrays import Rows
from kschedctl.api.labels import NOTHING, SelectorError, selector_from_api
from kschedctl.api.objects import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Resources,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kschedctl.api.ownership import find_controller
from kschedctl.api.quantity import Quantity, QuantityError, parse
from kschedctl.errors import InputError
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import PORTWORX, InTreePlugin
from kschedctl.scheduler.plugins.helper.volumes.csi_nodes import CSINodes
from kschedctl.scheduler.plugins.helper.volumes.topology import Topology
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.pod_info import PodInfo

Named = TypeVar("Named", bound=ApiObject)
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class NotFoundError(Exception):
    """An object that is not there; ``str()`` is the API's wording."""


class ClassVolumes(NamedTuple):
    """The volumes of a class, their sizes in billionths of a byte, and their positions from the smallest up."""

    volumes: tuple[PersistentVolume, ...] = ()
    sizes: tuple[int, ...] = ()
    by_size: tuple[int, ...] = ()

    @classmethod
    def of(cls, volumes: Sequence[PersistentVolume]) -> Self:
        sizes = tuple(billionths(volume_storage(volume)) for volume in volumes)
        return cls(tuple(volumes), sizes, tuple(sorted(range(len(sizes)), key=sizes.__getitem__)))


class StoragePool(NamedTuple):
    """A CSIStorageCapacity: the largest volume that fits, its free space (both bytes), the rows that can use it.

    Upstream: volumeLimit and nodeHasAccess in pkg/scheduler/framework/plugins/volumebinding/binder.go (v1.36).
    """

    capacity: CSIStorageCapacity
    limit: int | None
    free: int
    rows: Rows

    @classmethod
    def of(cls, capacity: CSIStorageCapacity, topology: Topology) -> Self:
        """A pool whose topology is unknown or unreadable cannot be used by any node. Raises InputError."""
        where = f"{capacity.metadata.namespace}/{capacity.metadata.name}"
        free, largest = (
            None if text is None else size(text, "CSIStorageCapacity", where).value()
            for text in (capacity.capacity, capacity.maximum_volume_size)
        )
        try:
            access = topology.selected(selector_from_api(capacity.node_topology))
        except SelectorError:
            access = topology.selected(NOTHING)
        return cls(capacity, free if largest is None else largest, free or 0, np.flatnonzero(access))


class Listers:
    """What the volume plugins look up, kept up to date as claims and volumes of a fork are replaced.

    Lists keep the API's order, by namespace and name, which decides among volumes and capacities that are equally good.
    """

    def __init__(self, objects: ClusterObjects, nodes: NodeColumns, migrates_portworx: bool = True) -> None:
        self.objects, self.nodes, self.migrates_portworx = objects, nodes, migrates_portworx
        self.attachments: tuple[VolumeAttachment, ...] = objects.of("VolumeAttachment")
        self.classes: dict[str, StorageClass] = objects.index("storage classes", _stored_classes, "StorageClass")
        self.drivers: dict[str, CSIDriver] = objects.index("CSI drivers", _by_name, "CSIDriver")
        self.topology = objects.index(Topology, lambda: Topology(nodes), of=(nodes,))
        self._volumes_of_class: dict[str, ClassVolumes] | None = None

    @cached_property
    def csi_nodes(self) -> CSINodes:
        """CSINodes of these nodes; most pods have no volume that needs them."""
        names = self.nodes.names
        return self.objects.index(CSINodes, lambda csi_nodes: CSINodes(names, csi_nodes), "CSINode", of=(names,))

    def counts_as_csi(self, plugin: InTreePlugin | None) -> bool:
        """Whether the scheduler takes the plugin's volumes for those of its CSI driver, where nodes do so too."""
        return plugin is not None and plugin.enabled and (self.migrates_portworx or plugin.name != PORTWORX)

    def replaced(self, obj: PersistentVolumeClaim | PersistentVolume) -> None:
        """A claim or a volume came into the place of the one of its name."""
        if isinstance(obj, PersistentVolumeClaim):
            self.claims[obj.metadata.namespace, obj.metadata.name] = obj
        else:
            before = self.volumes.get(obj.metadata.name)
            self.volumes[obj.metadata.name] = obj
            self._replace_in_class(before, obj)

    def _replace_in_class(self, before: PersistentVolume | None, volume: PersistentVolume) -> None:
        """In its place where its size is the same, else all are looked through again when they are asked for."""
        name = volume_class(volume)
        if before is None or volume_class(before) != name or before.spec.capacity != volume.spec.capacity:
            self._volumes_of_class = None
        elif self._volumes_of_class is not None:
            known = self._volumes_of_class[name]
            volumes = tuple(volume if v.metadata.name == volume.metadata.name else v for v in known.volumes)
            self._volumes_of_class[name] = known._replace(volumes=volumes)

    @cached_property
    def claims(self) -> dict[tuple[str, str], PersistentVolumeClaim]:
        """By namespace and name."""
        return dict(self.objects.index("volume claims", _by_namespace, "PersistentVolumeClaim"))

    @cached_property
    def volumes(self) -> dict[str, PersistentVolume]:
        """By name."""
        return dict(self.objects.index("volumes", _by_name, "PersistentVolume"))

    @property
    def volumes_of_class(self) -> Mapping[str, ClassVolumes]:
        """Class name -> its volumes. Raises InputError."""
        if self._volumes_of_class is None:
            self._volumes_of_class = dict(self.objects.index(ClassVolumes, _classified, "PersistentVolume"))
        return self._volumes_of_class

    @cached_property
    def pools_of_class(self) -> dict[str, tuple[StoragePool, ...]]:
        """Class name -> the pools out of which its volumes are made. Raises InputError."""
        return self.objects.index(StoragePool, self._pools, "CSIStorageCapacity", of=(self.topology,))

    def _pools(self, capacities: Iterable[CSIStorageCapacity]) -> dict[str, tuple[StoragePool, ...]]:
        storage_pools: dict[str, list[StoragePool]] = {}
        for capacity in capacities:
            storage_pools.setdefault(capacity.storage_class_name, []).append(StoragePool.of(capacity, self.topology))
        return {name: tuple(pools) for name, pools in storage_pools.items()}

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """Raises NotFoundError."""
        if (namespace, name) not in self.claims:
            raise NotFoundError(f'persistentvolumeclaim "{name}" not found')
        return self.claims[namespace, name]

    def volume(self, name: str) -> PersistentVolume:
        """Raises NotFoundError."""
        if name not in self.volumes:
            raise NotFoundError(f'persistentvolume "{name}" not found')
        return self.volumes[name]

    def storage_class(self, name: str) -> StorageClass:
        """Raises NotFoundError."""
        if name not in self.classes:
            raise NotFoundError(f'storageclass.storage.k8s.io "{name}" not found')
        return self.classes[name]


def listers(view: Fork) -> Listers:
    """The listers of a fork, made on first use."""
    migrates = view.settings.migrates_portworx
    return view.objects.follow(
        Listers, lambda: Listers(view.objects, view.nodes, migrates), "PersistentVolumeClaim", "PersistentVolume"
    )


def _by_name(objects: Iterable[Named]) -> dict[str, Named]:
    return {obj.metadata.name: obj for obj in objects}


def _by_namespace(
    claims: Iterable[PersistentVolumeClaim],
) -> dict[tuple[str, str], PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}


def _classified(volumes: Iterable[PersistentVolume]) -> dict[str, ClassVolumes]:
    by_class: dict[str, list[PersistentVolume]] = {}
    for volume in volumes:
        by_class.setdefault(volume_class(volume), []).append(volume)
    return {name: ClassVolumes.of(volumes) for name, volumes in by_class.items()}


def _stored_classes(classes: Iterable[StorageClass]) -> dict[str, StorageClass]:
    return {class_.metadata.name: _default_class(class_) for class_ in classes}


def _default_class(class_: StorageClass) -> StorageClass:
    """The default class as the API server stores it."""
    return class_ if class_.volume_binding_mode else replace(class_, volume_binding_mode="Immediate")


# -- claims of a pod ----------------------------------------------------------------------------------------------


class ClaimVolume(NamedTuple):
    """A volume of a pod that stands for a claim; ``ephemeral`` claims are made for the pod and must be its own."""

    volume: Volume
    claim_name: str
    ephemeral: bool


def claim_volumes(pod: Pod) -> Iterator[ClaimVolume]:
    """The volumes of a pod that stand for claims, in the pod's order."""
    for volume in pod.spec.volumes:
        if named := claim_volume(pod, volume):
            yield named


def claim_volume(pod: Pod, volume: Volume) -> ClaimVolume | None:
    """What claim a volume stands for, if it does."""
    if volume.persistent_volume_claim is not None:
        return ClaimVolume(volume, volume.persistent_volume_claim.claim_name, ephemeral=False)
    if volume.ephemeral is not None:
        return ClaimVolume(volume, f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Raises PluginError unless the claim was made for the pod."""
    controller = find_controller(claim.metadata)
    if controller is None or controller.uid != pod.metadata.uid:
        raise PluginError(f"PVC {claim_key(claim)} was not created for pod {pod.key} (pod is not owner)")


def usable_claim(info: PodInfo, storage: Listers, name: str, ephemeral: bool) -> PersistentVolumeClaim:
    """The claim, unless it is in a state in which no pod can use it. Raises NotFoundError, PluginError."""
    try:
        claim = storage.claim(info.namespace, name)
    except NotFoundError:
        if not ephemeral:
            raise
        waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        raise NotFoundError(f'{waiting} "{name}"') from None
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        raise PluginError(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
    if claim.metadata.deletion_timestamp is not None:
        raise PluginError(f'persistentvolumeclaim "{name}" is being deleted')
    if ephemeral:
        check_owner(info.pod, claim)
    return claim


# -- fields that need a rule to read ------------------------------------------------------------------------------


def claim_key(claim: PersistentVolumeClaim) -> str:
    """``namespace/name``."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The name of the class that a claim asks for, empty for none; the old annotation goes before the field."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The name of a volume's class, likewise."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def requested_storage(claim: PersistentVolumeClaim) -> Quantity | None:
    """The size that a claim asks for. Raises InputError."""
    return _storage(claim.spec.resources.requests, "PersistentVolumeClaim", claim_key(claim))


def volume_storage(volume: PersistentVolume) -> Quantity | None:
    """A volume's size. Raises InputError."""
    return _storage(volume.spec.capacity, "PersistentVolume", volume.metadata.name)


def billionths(quantity: Quantity | None) -> int:
    """A quantity in the finest unit that it knows, none as 0: integers are quick to compare."""
    return quantity.mantissa * 10 ** (quantity.scale + 9) if quantity else 0


def _storage(resources: Resources, kind: str, name: str) -> Quantity | None:
    return size(resources["storage"], kind, name) if "storage" in resources else None


def size(text: str | int | float, kind: str, name: str) -> Quantity:
    """A quantity of the named object. Raises InputError that names it."""
    try:
        return parse(str(text).strip())
    except QuantityError as error:
        raise InputError(error.what, where=f"{kind} {name}", hint=error.hint) from None
