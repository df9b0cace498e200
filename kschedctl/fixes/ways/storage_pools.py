"""Room for volumes that are to be made: what drivers publish as CSIStorageCapacity."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import CSIDriver, CSIStorageCapacity, LabelSelector, ObjectMeta, PersistentVolumeClaim
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import StoragePool, claim_class, listers
from kschedctl.scheduler.plugins.volume_binding.facts import NotEnoughStorage
from kschedctl.snapshot.node_order import HOSTNAME

IGNORE, ENLARGE, PUBLISH = 35, 40, 45
NAMESPACE = "kube-system"
"""Where a pool is published whose class has none yet: a driver publishes it where it runs, which is not known."""


def enlarged(tried: TriedNode, claim: PersistentVolumeClaim, fact: NotEnoughStorage) -> Fix:
    """The largest pool within the node's reach with room for the claim; where there is none, one for the node.

    There are no commands for it: the storage is added where it is, and its driver publishes what it has.
    """
    name = claim_class(claim)
    pools = listers(tried.cycle.view).pools_of_class.get(name, ())
    largest = max((pool for pool in pools if tried.at in pool.rows), key=lambda pool: pool.limit or 0, default=None)
    if largest is None:
        return _published(tried, claim, pools, fact.size)
    return _larger(name, largest, fact.size, fact.driver if fact.largest == 0 else "")


def ignored(tried: TriedNode, fact: NotEnoughStorage) -> Iterator[Fix]:
    """Yield the fix that keeps kube-scheduler from comparing with a driver's capacity, if that is 0 or not published.

    A driver that publishes capacity for other nodes only may not run on this one.
    A driver may publish 0 because its storage is used up. So it is no correction if volumes of the driver can be used
    on the node and not on every node, as local ones: then the scheduler would only be told less.
    """
    if fact.largest or not fact.driver or (fact.largest is None and fact.pools):
        return
    key = ObjectKey("CSIDriver", "", fact.driver)
    published = "publishes a capacity of 0" if fact.largest == 0 else "publishes no capacity"
    text = f"set storageCapacity: false in CSIDriver {fact.driver}, which {published} for class {fact.storage_class}"
    yield Fix(
        "IgnoreStorageCapacity",
        fact.driver,
        text,
        "operator",
        (ObjectEdit(key, _without_storage_capacity),),
        IGNORE,
        f"kube-scheduler no longer looks at the free storage of {fact.driver}",
        (kubectl.render_patch(key, {"spec": {"storageCapacity": False}}),),
        price=Price.GUARANTEE if _has_local_volumes(tried, fact.driver) else None,
    )


def _without_storage_capacity(driver: CSIDriver) -> CSIDriver:
    return replace(driver, spec=replace(driver.spec, storage_capacity=False))


def _has_local_volumes(tried: TriedNode, driver: str) -> bool:
    """Return whether some volume of the driver can be used on the node, but not on every node."""
    storage = listers(tried.cycle.view)
    of_driver = (v for v in storage.volumes.values() if v.spec.csi is not None and v.spec.csi.driver == driver)
    reached = (
        storage.topology.reachable_rows(v.spec.node_affinity) for v in of_driver if v.spec.node_affinity is not None
    )
    return any(tried.at in rows and len(rows) < len(tried.cycle.view.nodes) for rows in reached)


def _larger(name: str, pool: StoragePool, size: str, driver: str) -> Fix:
    """Return the fix that raises a pool's capacity. ``driver`` is set if it publishes 0, which may be wrong."""
    own = pool.capacity
    key = ObjectKey.of(own)

    def change(known: CSIStorageCapacity) -> CSIStorageCapacity:
        largest = None if known.maximum_volume_size is None else size
        return replace(known, capacity=size, maximum_volume_size=largest)

    before = own.capacity if own.maximum_volume_size is None else own.maximum_volume_size
    had = "nothing known" if before is None else f"{before}"
    text = f"add storage to pool {key.namespace}/{key.name} of class {name}: room for {size} instead of {had}"
    if driver:
        named = f"CSIStorageCapacity {key.namespace}/{key.name} of class {name}"
        text = f"correct what {driver} publishes in {named}, or add storage: room for {size} instead of 0"
    return Fix(
        "RaiseCapacity", (key, size), text, "operator", (ObjectEdit(key, change),), ENLARGE, "", (), name, key.name
    )


def _published(tried: TriedNode, claim: PersistentVolumeClaim, pools: tuple[StoragePool, ...], size: str) -> Fix:
    """A pool for the topology by which the driver tells the node from others."""
    name, node = claim_class(claim), tried.cycle.view.nodes.objects[tried.at]
    namespace = pools[0].capacity.metadata.namespace if pools else NAMESPACE
    labels = node.metadata.labels
    keys = [key for key in topology_keys(tried, name) if key in labels] or [key for key in (HOSTNAME,) if key in labels]
    new = CSIStorageCapacity(
        ObjectMeta(f"{name}-{node.metadata.name}", namespace),
        storage_class_name=name,
        node_topology=LabelSelector(match_labels={key: labels[key] for key in keys}),
        capacity=size,
    )
    where = ", ".join(f"{key}={labels[key]}" for key in keys) or "all nodes"
    text = f"add storage of class {name} for {where}: room for {size}, of which its driver publishes none there"
    edits = (ObjectEdit(ObjectKey.of(new), lambda _: new),)
    return Fix("RaiseCapacity", (ObjectKey.of(new), size), text, "operator", edits, PUBLISH, "", (), name, where)


def topology_keys(tried: TriedNode, name: str) -> tuple[str, ...]:
    """Return the labels by which the class's driver tells nodes apart, which the node's CSINode names."""
    storage = listers(tried.cycle.view)
    if tried.row is None or name not in storage.classes:
        return ()
    csi_node = storage.csi_nodes.nodes[tried.at]
    provisioner = storage.classes[name].provisioner
    drivers = csi_node.spec.drivers if csi_node else ()
    return next((driver.topology_keys for driver in drivers if driver.name == provisioner), ())
