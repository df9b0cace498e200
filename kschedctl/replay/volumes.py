"""Limits that volumes set for pods that get a node: the nodes to which they confine pods, and the storage of drivers.

kube-scheduler checks each claim alone against the capacity that CSI drivers published, and does not subtract the claims
before it. Only the driver does so, once it has made the volumes. Upstream:
pkg/scheduler/framework/plugins/volumebinding (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.objects import CSIDriver, PersistentVolume, PersistentVolumeClaim, Pod, VolumeNodeAffinity
from kschedctl.api.resource_names import EPHEMERAL_STORAGE, format_amount
from kschedctl.reports.placements import PinnedVolume
from kschedctl.scheduler.plugins.helper.volume_listers import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    format_claim_key,
    get_claim_class,
    get_listers,
    iter_claim_volumes,
    parse_requested_storage,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, first_few

PoolKey = tuple[str, tuple[int, ...]]
"""A StorageClass, and the indices of its pools that a node can use."""
ATTACHED_SOURCES = ("gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "cinder", "vsphere_volume")
"""The fields of a PersistentVolume's spec with a source that is attached to nodes, besides `csi`."""
SHARED_MODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))


def find_pinned_volumes(view: Fork, rows: Rows, positions: Iterable[Position]) -> tuple[PinnedVolume, ...]:
    """Return the volumes of these pods that can be used from some of the nodes at `rows`, but from no other node.

    `view` contains all nodes, including those at `rows`. Claims that are not bound to a volume are left out.
    """
    return tuple(volume for position in positions for volume in _iter_pinned_volumes(view, rows, position))


def _iter_pinned_volumes(view: Fork, rows: Rows, position: Position) -> Iterator[PinnedVolume]:
    """Yield the bound volumes of a pod that can be used only from the nodes at `rows`.

    Volumes that no node can use are left out.
    """
    pod = view.pods.objects[position]
    for claim, volume in _iter_bound_volumes(view, pod):
        reachable = get_listers(view).topology.find_reachable_rows(volume.spec.node_affinity).tolist()
        if reachable and set(reachable).issubset(rows.tolist()):
            yield PinnedVolume(
                volume=volume.metadata.name,
                claim=format_claim_key(claim),
                pod=pod.key,
                nodes=tuple(view.nodes.names[row] for row in reachable),
                local=volume.spec.local is not None or volume.spec.host_path is not None,
                domain=_describe_volume_domain(volume.spec.node_affinity),
            )


class ConfiningClaim(NamedTuple):
    """A claim of a pod whose volume can be used from some nodes only."""

    claim: PersistentVolumeClaim
    nodes: tuple[str, ...]
    """The names of these nodes; empty if there is no such node."""
    domain: str
    """The zone or another domain of these nodes, or an empty string."""
    users: tuple[str, ...]
    """The keys of the other pods with a node that use the claim."""

    def describe_confinement(self) -> str:
        """Describe in a clause why room on other nodes does not help the pod."""
        if not self.claim.spec.volume_name:
            claim = self._add_other_users(f"claim {format_claim_key(self.claim)}")
            return f"{claim} is being provisioned for node {self.nodes[0]}, so other nodes do not help"

        volume = self._add_other_users("its volume")
        if not self.nodes:
            return f"{volume} can be used only from {self.domain}, where there is no node"

        nodes = first_few(self.nodes)
        place = f"{self.domain} ({nodes})" if self.domain else nodes
        return f"{volume} can be used only from {place}, so room on other nodes does not help"

    def _add_other_users(self, subject: str) -> str:
        """Append the pods that also use the claim to the subject of a clause, if there are such pods."""
        if not self.users:
            return subject
        verb = agreeing(len(self.users), "uses", "use")
        return f"{subject}, which {first_few(self.users)} also {verb},"


def find_confining_claim(view: Fork, pod: Pod) -> ConfiningClaim | None:
    """Return the pod's first claim whose volume can be used from some nodes only, or None if there is none.

    A claim without a volume counts if the volume is about to be provisioned for a selected node. A bound volume that no
    node can use counts only if its zone or another domain is known.
    """
    listers = get_listers(view)
    for claim_volume in iter_claim_volumes(pod):
        claim = listers.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        if claim is None:
            continue
        volume = listers.volumes.get(claim.spec.volume_name)
        if volume is not None:
            rows = listers.topology.find_reachable_rows(volume.spec.node_affinity).tolist()
            domain = _describe_volume_domain(volume.spec.node_affinity)
            if len(rows) < len(view.nodes) and (rows or domain):
                nodes = tuple(view.nodes.names[row] for row in rows)
                return ConfiningClaim(claim, nodes, domain, _list_other_users(view, claim, pod))
        elif _waits_for_first_consumer(listers, claim):
            selected_node = claim.metadata.annotations.get(SELECTED_NODE)
            if selected_node:
                return ConfiningClaim(claim, (selected_node,), domain="", users=_list_other_users(view, claim, pod))
    return None


def _waits_for_first_consumer(listers: Listers, claim: PersistentVolumeClaim) -> bool:
    """Return whether the claim has no volume and gets one only once a node is chosen for a pod that uses the claim."""
    storage_class = listers.classes.get(get_claim_class(claim))
    is_delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return is_delayed and not claim.spec.volume_name


def _list_other_users(view: Fork, claim: PersistentVolumeClaim, pod: Pod) -> tuple[str, ...]:
    """Return the keys of the pods with a node that use the claim, apart from this pod."""
    infos_by_claim = view.memo_of_pods("PodInfos by claim", lambda: _group_infos_by_claim(view))
    uses_claim = np.zeros(len(view.pods.infos), np.bool_)
    uses_claim[infos_by_claim.get((claim.metadata.namespace, claim.metadata.name), [])] = True
    users = np.sort(view.pods.find_positions(uses_claim))
    keys = map(view.pods.objects.get_key, users[view.node[users] >= 0].tolist())
    return tuple(key for key in keys if key != pod.key)


def _group_infos_by_claim(view: Fork) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of the PodInfos whose pods use a claim, by the namespace and name of the claim."""
    has_claims = view.pods.distinct.mask_templates(
        lambda pod: any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    )
    numbers_by_claim: dict[tuple[str, str], list[int]] = {}
    for number in np.flatnonzero(has_claims).tolist():
        info = view.pods.infos[number]
        for claim_name in {volume.claim_name for volume in iter_claim_volumes(info.pod)}:
            numbers_by_claim.setdefault((info.namespace, claim_name), []).append(number)
    return numbers_by_claim


def explain_confining_volume(view: Fork, pod: Pod) -> str:
    """Return a clause about the claim that confines the pod to some nodes, so that room on other nodes does not help.

    Return "" if no claim confines the pod.
    """
    confining_claim = find_confining_claim(view, pod)
    return confining_claim.describe_confinement() if confining_claim else ""


def _iter_bound_volumes(view: Fork, pod: Pod) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
    """Yield the claims of the pod that are bound to a volume, with their volumes."""
    storage = get_listers(view)
    for claim_volume in iter_claim_volumes(pod):
        claim = storage.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        volume = storage.volumes.get(claim.spec.volume_name) if claim else None
        if claim is not None and volume is not None:
            yield claim, volume


def _describe_volume_domain(affinity: VolumeNodeAffinity | None) -> str:
    """Describe the zones, or the values of another node label, from which a volume can be used, such as `zone a`.

    The region is disregarded, because the zone implies it. Return "" if the volume names nodes, or if its node affinity
    has other forms.
    """
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    if len(terms) != 1 or terms[0].match_fields:
        return ""
    values_by_key = {
        requirement.key: requirement.values or ()
        for requirement in terms[0].match_expressions
        if requirement.operator == "In" and not requirement.key.endswith("/region")
    }
    has_other_operators = any(requirement.operator != "In" for requirement in terms[0].match_expressions)
    if has_other_operators or len(values_by_key) != 1:
        return ""
    [(key, values)] = values_by_key.items()
    if key.endswith("/hostname"):
        return ""
    label = agreeing(len(values), "zone", "zones") if key.endswith("/zone") else key
    return f"{label} {first_few(values)}"


def describe_volumes_on_several_nodes(view: Fork, placed: Sequence[Position]) -> tuple[str, ...]:
    """Return a sentence for each claim of the placed pods that is used on several nodes but attached to only one.

    kube-scheduler does not check this: the attach-detach controller refuses to attach the volume to a second node.
    Upstream: isMultiAttachForbidden in pkg/controller/volume/attachdetach/util/util.go (v1.36).
    """
    listers = get_listers(view)
    pods = view.pods.objects
    keys = {
        (pods[position].metadata.namespace, volume.claim_name)
        for position in _select_claim_users(view, placed)
        for volume in iter_claim_volumes(pods[position])
    }
    claims = {
        key for key in keys if key in listers.claims and _uses_volume_attached_to_one_node(listers, listers.claims[key])
    }
    if not claims:
        return ()
    return tuple(
        f"PersistentVolumeClaim {namespace}/{name} can be attached to only one node at a time, but its pods are on "
        f"{first_few(sorted(nodes))}: only the pods on one of these nodes can start"
        for (namespace, name), nodes in sorted(_find_nodes_by_claim(view, claims).items())
        if len(nodes) > 1
    )


def _select_claim_users(view: Fork, placed: Sequence[Position]) -> list[Position]:
    """Return the placed pods that use claims.

    Only one pod per PodInfo is looked at, because pods with equal PodInfos all use claims or none of them does.
    """
    numbers = view.pods.info[np.array(placed, np.int64)]
    numbers_with_claims = {
        number for number in np.unique(numbers).tolist() if any(iter_claim_volumes(view.pods.infos[number].pod))
    }
    return [
        position for position, number in zip(placed, numbers.tolist(), strict=True) if number in numbers_with_claims
    ]


def _find_nodes_by_claim(view: Fork, claims: Collection[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Return, for each of these claims, the names of the nodes on which pods use it. Unused claims are left out.

    Claims are given by namespace and name.
    """
    namespaces = {namespace for namespace, _ in claims}
    may_use_claims = view.pods.where(lambda info: info.namespace in namespaces)
    nodes_by_claim: dict[tuple[str, str], set[str]] = {}
    for position in map(Position, np.flatnonzero(may_use_claims[view.pods.info]).tolist()):
        if not view.has_node(position):
            continue
        pod = view.pods.objects[position]
        for volume in iter_claim_volumes(pod):
            key = (pod.metadata.namespace, volume.claim_name)
            if key in claims:
                nodes_by_claim.setdefault(key, set()).add(view.nodes.names[view.node[position]])
    return nodes_by_claim


def _uses_volume_attached_to_one_node(listers: Listers, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume of the claim is attached to nodes, and to only one at a time.

    For a claim without a volume, the driver of its class has to be known.
    """
    volume = listers.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return is_attached_to_one_node(volume, listers.drivers)
    storage_class = listers.classes.get(get_claim_class(claim))
    driver = listers.drivers.get(storage_class.provisioner) if storage_class else None
    is_attached = driver is not None and driver.spec.attach_required is not False
    return is_attached and _allow_only_one_node(claim.spec.access_modes)


def is_attached_to_one_node(volume: PersistentVolume, drivers: Mapping[str, CSIDriver]) -> bool:
    """Return whether the volume is attached to nodes, and to no more than one at a time. ``drivers`` are by name."""
    spec = volume.spec
    if not _allow_only_one_node(spec.access_modes):
        return False
    if spec.csi is None:
        return any(getattr(spec, field) is not None for field in ATTACHED_SOURCES)
    driver = drivers.get(spec.csi.driver)
    return driver is None or driver.spec.attach_required is not False


def _allow_only_one_node(access_modes: Sequence[str]) -> bool:
    """Return whether there are access modes, and none of them is for several nodes."""
    return bool(access_modes) and SHARED_MODES.isdisjoint(access_modes)


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

    The pools are those of the storage class that the pod's node can use. Volumes without such pools and volumes whose
    driver publishes no capacity are left out.
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
        # The number of volumes that fit if they are made in this order
        enough_for = sum(used <= published for used in accumulate(sizes))
        names = [f"{pool.capacity.metadata.namespace}/{pool.capacity.metadata.name}" for pool in pools]
        needed = format_amount(EPHEMERAL_STORAGE, sum(sizes))
        free = format_amount(EPHEMERAL_STORAGE, published)
        yield (
            f"{len(sizes):,} new volumes of class {class_name} need {needed}, but only {free} are published"
            f" ({first_few(names)}), enough for {enough_for:,}: kube-scheduler checks each claim alone, and the driver"
            " may fail to make the others"
        )
