"""Lookups of claims, volumes, storage classes and CSI objects by name, and of the claims that a pod's volumes use.

The node selectors of volumes and storage classes are evaluated on all nodes, cached per selector.

Upstream: the listers of client-go, staging/src/k8s.io/component-helpers/storage/{volume/helpers.go,
volume/pv_helpers.go,ephemeral} (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self, TypeVar

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.labels import (
    IN,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    build_selector,
    selector_from_api,
    validate_requirement,
)
from kschedctl.api.node_selector import compile_node_selector
from kschedctl.api.objects import (
    ApiObject,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Resources,
    StorageClass,
    TopologySelectorTerm,
    Volume,
    VolumeAttachment,
    VolumeNodeAffinity,
)
from kschedctl.api.ownership import find_controller
from kschedctl.api.quantity import Quantity, QuantityError, parse_quantity
from kschedctl.errors import InputError
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.csi_migration import PORTWORX, CSINodes, InTreePlugin
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
    """The error for an object that does not exist, with the API's message."""


class ClassVolumes(NamedTuple):
    """The volumes of a storage class."""

    volumes: tuple[PersistentVolume, ...] = ()
    sizes: tuple[int, ...] = ()
    """Their sizes in billionths of a byte."""
    by_size: tuple[int, ...] = ()
    """Their indices in ascending order of size."""

    @classmethod
    def from_volumes(cls, volumes: Sequence[PersistentVolume]) -> Self:
        """Build the record of a class's volumes, with their sizes and their order by size.

        Raises InputError for an invalid size.
        """
        sizes = tuple(to_billionths(parse_volume_storage(volume)) for volume in volumes)
        by_size = sorted(range(len(sizes)), key=lambda i: sizes[i])
        return cls(tuple(volumes), sizes, tuple(by_size))


class StoragePool(NamedTuple):
    """A CSIStorageCapacity, resolved for the nodes of a snapshot.

    Upstream: volumeLimit and nodeHasAccess in pkg/scheduler/framework/plugins/volumebinding/binder.go (v1.36).
    """

    capacity: CSIStorageCapacity
    limit: int | None
    """The size in bytes of the largest volume that fits, or None if unknown."""
    free: int
    """The free space in bytes."""
    rows: Rows
    """The rows of the nodes that can use it."""

    @classmethod
    def from_capacity(cls, capacity: CSIStorageCapacity, topology: VolumeReachability) -> Self:
        """Build the pool from a CSIStorageCapacity and find the nodes in its topology.

        No node can use a pool whose topology is missing or invalid. The limit is the maximum volume size or, if none is
        published, the free capacity. Raises InputError for an invalid size.
        """
        name = f"{capacity.metadata.namespace}/{capacity.metadata.name}"
        free = None
        if capacity.capacity is not None:
            free = parse_size(capacity.capacity, "CSIStorageCapacity", name).value()
        largest = None
        if capacity.maximum_volume_size is not None:
            largest = parse_size(capacity.maximum_volume_size, "CSIStorageCapacity", name).value()
        try:
            selector = selector_from_api(capacity.node_topology)
        except SelectorError:
            selector = NOTHING
        rows = np.flatnonzero(topology.find_selected_nodes(selector))
        return cls(capacity, limit=free if largest is None else largest, free=free or 0, rows=rows)


class Listers:
    """Storage objects by name, kept up to date while the claims and volumes of a fork are replaced.

    Lists keep the API's order by namespace and name. This order decides between volumes or capacities that are equally
    good.
    """

    def __init__(self, objects: ClusterObjects, nodes: NodeColumns, migrates_portworx: bool = True) -> None:
        self.objects, self.nodes, self.migrates_portworx = objects, nodes, migrates_portworx
        self.attachments: tuple[VolumeAttachment, ...] = objects.of("VolumeAttachment")
        self.classes: dict[str, StorageClass] = objects.index("storage classes", _index_storage_classes, "StorageClass")
        self.drivers: dict[str, CSIDriver] = objects.index("CSI drivers", _index_by_name, "CSIDriver")
        self.topology = objects.index(VolumeReachability, lambda: VolumeReachability(nodes), of=(nodes,))
        self._volumes_of_class: dict[str, ClassVolumes] | None = None

    @cached_property
    def csi_nodes(self) -> CSINodes:
        """The CSINodes of these nodes, loaded on demand because most pods have no volume that needs them."""
        names = self.nodes.names
        return self.objects.index(CSINodes, lambda csi_nodes: CSINodes(names, csi_nodes), "CSINode", of=(names,))

    def counts_as_csi(self, plugin: InTreePlugin | None) -> bool:
        """Return whether the plugin's volumes count as volumes of its CSI driver on nodes that migrated the plugin.

        Return False for None. Volumes of Portworx count only if `migrates_portworx` is true.
        """
        return plugin is not None and plugin.enabled and (self.migrates_portworx or plugin.name != PORTWORX)

    def replace_object(self, obj: PersistentVolumeClaim | PersistentVolume) -> None:
        """Store a new claim or volume, or replace the object of the same name."""
        if isinstance(obj, PersistentVolumeClaim):
            self.claims[obj.metadata.namespace, obj.metadata.name] = obj
        else:
            previous = self.volumes.get(obj.metadata.name)
            self.volumes[obj.metadata.name] = obj
            self._replace_volume_in_class(previous, obj)

    def _replace_volume_in_class(self, previous: PersistentVolume | None, volume: PersistentVolume) -> None:
        """Replace the volume in the cached list of its class.

        If the volume is new, or if its class or size has changed, the order by size may change. The lists of all
        classes are then dropped.
        """
        class_name = get_volume_class(volume)
        if (
            previous is None
            or get_volume_class(previous) != class_name
            or previous.spec.capacity != volume.spec.capacity
        ):
            self._volumes_of_class = None
        elif self._volumes_of_class is not None:
            class_volumes = self._volumes_of_class[class_name]
            volumes = tuple(
                volume if other.metadata.name == volume.metadata.name else other for other in class_volumes.volumes
            )
            self._volumes_of_class[class_name] = class_volumes._replace(volumes=volumes)

    @cached_property
    def claims(self) -> dict[tuple[str, str], PersistentVolumeClaim]:
        """The claims by namespace and name."""
        return dict(self.objects.index("volume claims", _index_by_namespace_and_name, "PersistentVolumeClaim"))

    @cached_property
    def volumes(self) -> dict[str, PersistentVolume]:
        """The volumes by name."""
        return dict(self.objects.index("volumes", _index_by_name, "PersistentVolume"))

    @property
    def volumes_of_class(self) -> Mapping[str, ClassVolumes]:
        """The volumes of each storage class, by class name. Raises InputError for an invalid size."""
        if self._volumes_of_class is None:
            self._volumes_of_class = dict(self.objects.index(ClassVolumes, _group_volumes_by_class, "PersistentVolume"))
        return self._volumes_of_class

    @cached_property
    def pools_of_class(self) -> dict[str, tuple[StoragePool, ...]]:
        """The pools from which the volumes of each storage class are provisioned, by class name.

        Raises InputError for an invalid size.
        """
        return self.objects.index(StoragePool, self._build_pools_by_class, "CSIStorageCapacity", of=(self.topology,))

    def _build_pools_by_class(self, capacities: Iterable[CSIStorageCapacity]) -> dict[str, tuple[StoragePool, ...]]:
        """Return the pools of each storage class, by class name. Raises InputError for an invalid size."""
        by_class: dict[str, list[StoragePool]] = {}
        for capacity in capacities:
            pool = StoragePool.from_capacity(capacity, self.topology)
            by_class.setdefault(capacity.storage_class_name, []).append(pool)
        return {name: tuple(pools) for name, pools in by_class.items()}

    def get_claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """Return the claim with this namespace and name. Raises NotFoundError if it does not exist."""
        if (namespace, name) not in self.claims:
            raise NotFoundError(f'persistentvolumeclaim "{name}" not found')
        return self.claims[namespace, name]

    def get_volume(self, name: str) -> PersistentVolume:
        """Return the PersistentVolume with this name. Raises NotFoundError if it does not exist."""
        if name not in self.volumes:
            raise NotFoundError(f'persistentvolume "{name}" not found')
        return self.volumes[name]

    def get_storage_class(self, name: str) -> StorageClass:
        """Return the StorageClass with this name. Raises NotFoundError if it does not exist."""
        if name not in self.classes:
            raise NotFoundError(f'storageclass.storage.k8s.io "{name}" not found')
        return self.classes[name]


def get_listers(view: Fork) -> Listers:
    """Return a fork's listers, created on first use and kept up to date as claims and volumes change."""
    migrates_portworx = view.settings.migrates_portworx
    return view.objects.get_derived_value(
        Listers,
        lambda: Listers(view.objects, view.nodes, migrates_portworx),
        "PersistentVolumeClaim",
        "PersistentVolume",
    )


def _index_by_name(objects: Iterable[Named]) -> dict[str, Named]:
    """Return the objects by name."""
    return {obj.metadata.name: obj for obj in objects}


def _index_by_namespace_and_name(
    claims: Iterable[PersistentVolumeClaim],
) -> dict[tuple[str, str], PersistentVolumeClaim]:
    """Return the claims by namespace and name."""
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}


def _group_volumes_by_class(volumes: Iterable[PersistentVolume]) -> dict[str, ClassVolumes]:
    """Return the volumes of each storage class, by class name. Raises InputError for an invalid size."""
    by_class: dict[str, list[PersistentVolume]] = {}
    for volume in volumes:
        by_class.setdefault(get_volume_class(volume), []).append(volume)
    return {name: ClassVolumes.from_volumes(volumes) for name, volumes in by_class.items()}


def _index_storage_classes(classes: Iterable[StorageClass]) -> dict[str, StorageClass]:
    """Return the storage classes by name, with their binding modes defaulted."""
    return {class_.metadata.name: _with_default_binding_mode(class_) for class_ in classes}


def _with_default_binding_mode(class_: StorageClass) -> StorageClass:
    """Return the storage class with the binding mode Immediate if it has none, as the API server sets it."""
    if class_.volume_binding_mode:
        return class_
    return replace(class_, volume_binding_mode="Immediate")


# -- claims of a pod ----------------------------------------------------------------------------------------------


class ClaimVolume(NamedTuple):
    """A volume of a pod that uses a claim."""

    volume: Volume
    claim_name: str
    ephemeral: bool
    """True if the claim is created for the pod, which must own it."""


def iter_claim_volumes(pod: Pod) -> Iterator[ClaimVolume]:
    """Yield the volumes of the pod that use claims, in the pod's order."""
    for volume in pod.spec.volumes:
        claim_volume = find_claim_volume(pod, volume)
        if claim_volume is not None:
            yield claim_volume


def find_claim_volume(pod: Pod, volume: Volume) -> ClaimVolume | None:
    """Return the pod's volume together with the name of its claim, or None if the volume uses no claim.

    The claim of an ephemeral volume is named after the pod and the volume.
    """
    if volume.persistent_volume_claim is not None:
        return ClaimVolume(volume, volume.persistent_volume_claim.claim_name, ephemeral=False)
    if volume.ephemeral is not None:
        return ClaimVolume(volume, f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


def require_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """Raise PluginError unless the pod is the controller of the claim, so that the claim was created for the pod."""
    controller = find_controller(claim.metadata)
    if controller is None or controller.uid != pod.metadata.uid:
        raise PluginError(f"PVC {format_claim_key(claim)} was not created for pod {pod.key} (pod is not owner)")


def get_usable_claim(info: PodInfo, listers: Listers, name: str, *, ephemeral: bool) -> PersistentVolumeClaim:
    """Return the claim with this name in the pod's namespace, after checking that the pod can use it.

    Raises NotFoundError if the claim does not exist. Raises PluginError if the claim is lost or being deleted. If
    `ephemeral` is true, PluginError is also raised if the claim was created for another pod.
    """
    try:
        claim = listers.get_claim(info.namespace, name)
    except NotFoundError:
        if not ephemeral:
            raise
        problem = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        raise NotFoundError(f'{problem} "{name}"') from None
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        raise PluginError(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
    if claim.metadata.deletion_timestamp is not None:
        raise PluginError(f'persistentvolumeclaim "{name}" is being deleted')
    if ephemeral:
        require_owner(info.pod, claim)
    return claim


# -- fields that need a rule to read ------------------------------------------------------------------------------


def format_claim_key(claim: PersistentVolumeClaim) -> str:
    """Return the claim's `namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def get_claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's storage class, or "" for none. The beta annotation overrides the field."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def get_volume_class(volume: PersistentVolume) -> str:
    """Return the name of the volume's storage class, or "" for none. The beta annotation overrides the field."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def parse_requested_storage(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the size that the claim requests, or None if it requests no size. Raises InputError if it is invalid."""
    return _parse_storage(claim.spec.resources.requests, "PersistentVolumeClaim", format_claim_key(claim))


def parse_volume_storage(volume: PersistentVolume) -> Quantity | None:
    """Return the volume's size, or None if the volume has no size. Raises InputError if it is invalid."""
    return _parse_storage(volume.spec.capacity, "PersistentVolume", volume.metadata.name)


def to_billionths(quantity: Quantity | None) -> int:
    """Return a quantity as a whole number of billionths, or 0 for None.

    A billionth is the finest unit of quantities, and integers are faster to compare.
    """
    if quantity is None:
        return 0
    billionths: int = quantity.mantissa * 10 ** (quantity.scale + 9)
    return billionths


def _parse_storage(resources: Resources, kind: str, name: str) -> Quantity | None:
    """Return the storage amount among an object's resources, or None if storage is not among them.

    Raises InputError with the object's kind and name if the amount is invalid.
    """
    if "storage" not in resources:
        return None
    return parse_size(resources["storage"], kind, name)


def parse_size(text: str | int | float, kind: str, name: str) -> Quantity:
    """Parse a quantity of an object. Raises InputError naming the object if the quantity is invalid."""
    try:
        return parse_quantity(str(text).strip())
    except QuantityError as error:
        raise InputError(error.what, where=f"{kind} {name}", hint=error.hint) from None


_EQUALITY = frozenset(("in", "=", "=="))


class VolumeReachability:
    """Evaluator of selectors on N nodes.

    There may be as many selectors as nodes (local volumes), so a selector must not cost Python work per node.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self._codes_by_value: dict[str, dict[str, int]] = {}
        """The code of each value of a label, by label key."""
        self._rows_by_affinity: dict[VolumeNodeAffinity | None, Rows] = {}

    def find_reachable_rows(self, affinity: VolumeNodeAffinity | None) -> Rows:
        """Return the rows of the nodes from which a volume with this node affinity can be used. They are cached.

        A volume without an affinity (None) can be used from all nodes. As in upstream, matchFields are ignored.
        """
        if affinity not in self._rows_by_affinity:
            mask = np.ones(len(self.nodes), np.bool_)
            if affinity is not None and affinity.required is not None:
                # A term with an error matches no node. The `selector` of a term has only its matchExpressions.
                valid_terms = [term for term in compile_node_selector(affinity.required).terms if not term.errors]
                mask = self._find_nodes_selected_by_any([term.selector for term in valid_terms])
            self._rows_by_affinity[affinity] = np.flatnonzero(mask)
        return self._rows_by_affinity[affinity]

    def find_reachable_nodes(self, affinity: VolumeNodeAffinity | None) -> Bools:
        """Return a mask (N,) of the nodes from which a volume with this affinity can be used."""
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[self.find_reachable_rows(affinity)] = True
        return mask

    def find_allowed_nodes(self, terms: tuple[TopologySelectorTerm, ...]) -> Bools:
        """Return a mask (N,) of the nodes that a storage class allows by the topologies in its `terms`.

        If there are no terms, all nodes are allowed. An empty or invalid term allows no node.
        """
        if not terms:
            return np.ones(len(self.nodes), np.bool_)
        alternatives = []
        for term in terms:
            requirements = [Requirement(r.key, IN, r.values) for r in term.match_label_expressions]
            has_error = any(validate_requirement(r.key, r.operator, r.values) for r in requirements)
            if requirements and not has_error:
                alternatives.append(build_selector(requirements))
        return self._find_nodes_selected_by_any(alternatives)

    def find_selected_nodes(self, selector: Selector) -> Bools:
        """Return a mask (N,) of the nodes whose labels the selector matches."""
        mask = np.full(len(self.nodes), not selector.matches_nothing)
        for requirement in selector.requirements:
            mask &= self._find_nodes_meeting_requirement(requirement)
        return mask

    def _find_nodes_selected_by_any(self, alternatives: list[Selector]) -> Bools:
        """Return a mask (N,) of the nodes that any of the selectors matches."""
        mask = np.zeros(len(self.nodes), np.bool_)
        for alternative in alternatives:
            mask |= self.find_selected_nodes(alternative)
        return mask

    def _find_nodes_meeting_requirement(self, requirement: Requirement) -> Bools:
        """Return a mask (N,) of the nodes whose labels meet the requirement.

        The requirement is evaluated once for each value of the label, and once for nodes without the label.
        """
        key = requirement.key
        column = self.nodes.label(key)
        is_met_by_code = np.zeros(len(column.values) + 1, np.bool_)  # the last entry is for code -1, without the label
        if requirement.operator in _EQUALITY:  # looked up, since there may be as many values as nodes
            if key not in self._codes_by_value:
                self._codes_by_value[key] = {value: code for code, value in enumerate(column.values)}
            codes = self._codes_by_value[key]
            is_met_by_code[[codes[value] for value in requirement.values if value in codes]] = True
        else:
            is_met_by_code[:-1] = [requirement.matches({key: value}) for value in column.values]
            is_met_by_code[-1] = requirement.matches({})
        return is_met_by_code[column.codes]
