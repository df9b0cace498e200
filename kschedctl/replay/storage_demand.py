"""Compare what new volumes need in total with the capacity that CSI drivers published.

kube-scheduler checks each claim alone against the published capacity, and does not subtract the claims before it. Only
the driver does so, once it has made the volumes. Upstream: pkg/scheduler/framework/plugins/volumebinding (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.arrays import Position
from kschedctl.api.resource_names import EPHEMERAL_STORAGE, format_amount
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    Listers,
    get_claim_class,
    get_listers,
    iter_claim_volumes,
    parse_requested_storage,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import first_few

PoolKey = tuple[str, tuple[int, ...]]
"""A StorageClass, and the indices of its pools that a node can use."""


def describe_exceeded_storage(view: Fork, placed: Iterable[Position]) -> tuple[str, ...]:
    """Return a sentence for each set of storage pools whose published capacity is too small for several placed pods.

    `placed` are the pods that got a node, in this order. If a node can use several pools, they form one set. Each
    sentence says for how many of the claims the published capacity is enough. Return () if no capacity was published.
    """
    if not view.cluster.csi_storage_capacities:
        return ()
    listers = get_listers(view)
    sizes_by_pools: dict[PoolKey, list[int]] = {}
    for position in placed:
        for key, size in _iter_new_volumes(listers, view, position):
            sizes_by_pools.setdefault(key, []).append(size)
    return tuple(_iter_exceeded_storage(listers, sizes_by_pools))


def _iter_new_volumes(listers: Listers, view: Fork, position: Position) -> Iterator[tuple[PoolKey, int]]:
    """Yield the pools and the size in bytes of each volume that a driver makes for the placed pod.

    The pools are those of the storage class that the pod's node can use. Volumes without such pools are left out. So
    are volumes whose driver publishes no capacity.
    """
    pod = view.pods.objects[position]
    for claim_volume in iter_claim_volumes(pod):
        claim = listers.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        if claim is None or claim.spec.volume_name:
            continue
        class_name = get_claim_class(claim)
        storage_class = listers.classes.get(class_name)
        driver = listers.drivers.get(storage_class.provisioner) if storage_class else None
        size = parse_requested_storage(claim)
        if driver is None or not driver.spec.storage_capacity or size is None:
            continue
        pools = listers.pools_of_class.get(class_name, ())
        usable = tuple(index for index, pool in enumerate(pools) if int(view.node[position]) in pool.rows)
        if usable:
            yield (class_name, usable), size.value()


def _iter_exceeded_storage(listers: Listers, sizes_by_pools: dict[PoolKey, list[int]]) -> Iterator[str]:
    """Yield a sentence for each set of pools whose published capacity is smaller than its volumes together.

    A set with only one volume is skipped, because kube-scheduler checks each claim by itself.
    """
    for (class_name, indices), sizes in sizes_by_pools.items():
        pools = [listers.pools_of_class[class_name][index] for index in indices]
        published = sum(pool.free for pool in pools)
        if len(sizes) < 2 or sum(sizes) <= published:
            continue
        enough_for = used = 0
        for size in sizes:
            used += size
            # Count the volumes that fit if they are made in this order
            enough_for += used <= published
        names = [f"{pool.capacity.metadata.namespace}/{pool.capacity.metadata.name}" for pool in pools]
        needed, free = (format_amount(EPHEMERAL_STORAGE, amount) for amount in (sum(sizes), published))
        yield (
            f"{len(sizes):,} new volumes of class {class_name} need {needed}, but only {free} are published"
            f" ({first_few(names)}), enough for {enough_for:,}: kube-scheduler checks each claim alone, and the driver"
            " may fail to make the others"
        )
