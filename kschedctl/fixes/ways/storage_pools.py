"""Fixes for storage that is short according to a driver's CSIStorageCapacity objects."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import CSIDriver, CSIStorageCapacity, LabelSelector, ObjectMeta, PersistentVolumeClaim
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import StoragePool, get_claim_class, get_listers
from kschedctl.scheduler.plugins.volume_binding.facts import NotEnoughStorage
from kschedctl.snapshot.nodes import HOSTNAME

IGNORE, ENLARGE, PUBLISH = 35, 40, 45
"""The costs of ignoring a driver's capacity, of enlarging a pool, and of adding one."""
NAMESPACE = "kube-system"
"""The namespace of a new pool whose class has none yet. A driver publishes pools in its own namespace, which is
unknown.
"""


def build_storage_fix(tried: TriedNode, claim: PersistentVolumeClaim, fact: NotEnoughStorage) -> Fix:
    """Build the fix that enlarges the largest storage pool in the node's reach, or adds a pool for the node.

    It has no commands, since storage is added outside of Kubernetes and its driver then publishes the capacity.
    """
    name = get_claim_class(claim)
    pools = get_listers(tried.cycle.view).pools_of_class.get(name, ())
    reachable_pools = [pool for pool in pools if tried.known_row in pool.rows]
    if not reachable_pools:
        return _build_new_pool_fix(tried, claim, pools, fact.size)
    largest = max(reachable_pools, key=lambda pool: pool.limit or 0)
    return _build_enlargement_fix(name, largest, fact.size, driver=fact.driver if fact.largest == 0 else "")


def iter_ignored_capacity_fixes(tried: TriedNode, fact: NotEnoughStorage) -> Iterator[Fix]:
    """Yield the fix that stops kube-scheduler from checking a driver's capacity, if that is 0 or unpublished.

    A driver that publishes capacity only for other nodes may not run on this one, so there is no fix then. A capacity
    of 0 can also mean that the storage is used up. The fix is therefore no correction if volumes of the driver are
    local, that is, usable on the node but not on every node.
    """
    if fact.largest or not fact.driver or (fact.largest is None and fact.pools):
        return
    key = ObjectKey("CSIDriver", "", fact.driver)
    published = "publishes a capacity of 0" if fact.largest == 0 else "publishes no capacity"
    text = f"set storageCapacity: false in CSIDriver {fact.driver}, which {published} for class {fact.storage_class}"
    yield Fix(
        FixKind.IGNORE_STORAGE_CAPACITY,
        fact.driver,
        text,
        by="operator",
        edits=(ObjectEdit(key, _disable_storage_capacity),),
        cost=IGNORE,
        weakens=f"kube-scheduler no longer checks the free storage of {fact.driver}",
        commands=(kubectl.render_patch(key, {"spec": {"storageCapacity": False}}),),
        price=Price.GUARANTEE if _has_local_volumes(tried, fact.driver) else None,
    )


def _disable_storage_capacity(driver: CSIDriver) -> CSIDriver:
    """Return the CSIDriver with storageCapacity set to false."""
    return replace(driver, spec=replace(driver.spec, storage_capacity=False))


def _has_local_volumes(tried: TriedNode, driver: str) -> bool:
    """Return whether the driver has a volume that the node reaches but not every node."""
    storage = get_listers(tried.cycle.view)
    node_count = len(tried.cycle.view.nodes)
    for volume in storage.volumes.values():
        if volume.spec.csi is None or volume.spec.csi.driver != driver or volume.spec.node_affinity is None:
            continue
        rows = storage.topology.find_reachable_rows(volume.spec.node_affinity)
        if tried.known_row in rows and len(rows) < node_count:
            return True
    return False


def _build_enlargement_fix(class_name: str, pool: StoragePool, size: str, driver: str) -> Fix:
    """Build the fix that raises a pool's capacity.

    `driver` is the pool's driver if it publishes a capacity of 0, which may be wrong, and otherwise empty.
    """
    capacity = pool.capacity
    key = ObjectKey.of(capacity)

    def change(known: CSIStorageCapacity) -> CSIStorageCapacity:
        """Return the pool with the larger capacity."""
        maximum_size = None if known.maximum_volume_size is None else size
        return replace(known, capacity=size, maximum_volume_size=maximum_size)

    pool_text = f"{key.namespace}/{key.name} of class {class_name}"
    if driver:
        text = f"correct what {driver} publishes in CSIStorageCapacity {pool_text}, or add storage"
        text += f": {size} needed, 0 published"
    else:
        published = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        text = f"add storage to pool {pool_text}: {size} needed, {'none' if published is None else published} published"
    return Fix(
        FixKind.RAISE_CAPACITY,
        (key, size),
        text,
        by="operator",
        edits=(ObjectEdit(key, change),),
        cost=ENLARGE,
        variant_of=class_name,
        where=key.name,
    )


def _build_new_pool_fix(
    tried: TriedNode, claim: PersistentVolumeClaim, pools: tuple[StoragePool, ...], size: str
) -> Fix:
    """Build the fix that adds a pool for the node's topology, by the labels that the driver uses."""
    class_name = get_claim_class(claim)
    node = tried.cycle.view.nodes.objects[tried.known_row]
    namespace = pools[0].capacity.metadata.namespace if pools else NAMESPACE
    labels = node.metadata.labels
    keys = [key for key in get_topology_keys(tried, class_name) if key in labels]
    if not keys and HOSTNAME in labels:
        keys = [HOSTNAME]
    new_pool = CSIStorageCapacity(
        ObjectMeta(f"{class_name}-{node.metadata.name}", namespace),
        storage_class_name=class_name,
        node_topology=LabelSelector(match_labels={key: labels[key] for key in keys}),
        capacity=size,
    )
    topology = ", ".join(f"{key}={labels[key]}" for key in keys) or "all nodes"
    text = f"add storage of class {class_name} for {topology}: {size} needed, none published by its driver"
    edits = (ObjectEdit(ObjectKey.of(new_pool), lambda _: new_pool),)
    return Fix(
        FixKind.RAISE_CAPACITY,
        (ObjectKey.of(new_pool), size),
        text,
        by="operator",
        edits=edits,
        cost=PUBLISH,
        variant_of=class_name,
        where=topology,
    )


def get_topology_keys(tried: TriedNode, class_name: str) -> tuple[str, ...]:
    """Return the node labels by which the class's driver describes topology, according to the node's CSINode."""
    storage = get_listers(tried.cycle.view)
    if tried.row is None or class_name not in storage.classes:
        return ()
    csi_node = storage.csi_nodes.nodes[tried.known_row]
    provisioner = storage.classes[class_name].provisioner
    drivers = csi_node.spec.drivers if csi_node else ()
    return next((driver.topology_keys for driver in drivers if driver.name == provisioner), ())
