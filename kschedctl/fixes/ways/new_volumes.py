"""Fixes that add storage: a PersistentVolume for a claim, or capacity in a CSI driver's storage pool."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import (
    CSIDriver,
    CSIPersistentVolumeSource,
    CSIStorageCapacity,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    SelectorRequirement,
    VolumeNodeAffinity,
)
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.ways.claims import (
    ClaimChange,
    Deletion,
    build_claim_binding,
    plan_claim_deletion,
    render_volume_claim_recreation,
    reset_claim,
)
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.helper.volume_listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    ClassVolumes,
    Listers,
    StoragePool,
    format_claim_key,
    get_claim_class,
    get_listers,
)
from kschedctl.scheduler.plugins.volume_binding.binder import bind_claim, bind_volume
from kschedctl.scheduler.plugins.volume_binding.facts import NotEnoughStorage
from kschedctl.snapshot.nodes import HOSTNAME

PROVISIONED, NEW_VOLUME = 5, 36
"""The costs of waiting for a volume that is being provisioned, and of creating one."""
PROVISIONER_SURCHARGE = 30
"""Added to the cost of a new volume if the claim's class provisions volumes itself."""
LOST = "Lost"
"""The phase of a claim whose volume is gone."""
ANY_SOURCE = "the volume source (spec.csi, spec.nfs, …)"
"""The missing part of a volume if nothing in the cluster reveals the kind of its storage."""


def iter_volume_creation_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield the fix that creates a volume that the claim can use on the tried node. The user completes the manifest.

    The volume gets the name that the claim requests, if any. If a volume of that name exists, the new volume gets
    another name, and the claim is recreated for it, unless the claim's class provisions volumes. A claim that the trial
    already changes gets no fix.
    """
    key = ObjectKey.of(claim)
    if key in trial_node.trial.edits:
        return
    storage = get_listers(trial_node.cycle.view)
    requested_name = claim.spec.volume_name
    if requested_name and requested_name not in storage.volumes:
        yield _build_named_volume_fix(trial_node, claim, storage)
        return

    # A new volume under a free name
    name = _find_free_volume_name(f"{claim.metadata.name}-volume", storage)
    volume = _build_volume_for_claim(trial_node, claim, name, storage)
    bind, volume_edit = build_claim_binding(claim, volume, storage)
    if not requested_name:
        edits = (volume_edit,) if bind is None else (ObjectEdit(key, bind), volume_edit)
        yield _build_volume_creation_fix(trial_node, claim, volume, edits)
    elif not _has_provisioner(claim, storage):
        deletion = plan_claim_deletion(trial_node, claim)
        if deletion is not None:
            claim_edit = ObjectEdit(key, _build_reset_and_bind_change(bind))
            yield _build_volume_creation_fix(
                trial_node, claim, volume, (*deletion.edits, claim_edit, volume_edit), deletion
            )


def _build_named_volume_fix(trial_node: TrialNode, claim: PersistentVolumeClaim, storage: Listers) -> Fix:
    """Build the fix that creates the volume that the claim names, bound to the claim.

    The volume controller then binds the claim, or marks a lost claim as bound again.
    """
    key = ObjectKey.of(claim)
    name = claim.spec.volume_name
    volume = _build_volume_for_claim(trial_node, claim, name, storage)
    bound_volume = bind_volume(volume, claim)
    claim_edits: tuple[ObjectEdit, ...] = ()
    if claim.status.phase == LOST:
        claim_edits = (ObjectEdit(key, _mark_claim_bound),)
    elif BIND_COMPLETED not in claim.metadata.annotations:
        claim_edits = (ObjectEdit(key, lambda current: bind_claim(current, name)),)
    volume_edit = ObjectEdit.create(bound_volume)
    return _build_volume_creation_fix(trial_node, claim, volume, (*claim_edits, volume_edit))


def build_provisioner_wait_fix(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Fix:
    """Build the fix that waits until the provisioner of the claim's class has made a volume near the tried node."""
    storage = get_listers(trial_node.cycle.view)
    provisioner = storage.classes[get_claim_class(claim)].provisioner
    name = _find_free_volume_name(f"{claim.metadata.name}-volume", storage)
    volume = _build_volume_for_claim(trial_node, claim, name, storage)
    # The provisioner's volume belongs to a CSI driver, even if the class's existing volumes are local or hostPath ones
    csi_source = volume.spec.csi or CSIPersistentVolumeSource(provisioner, name)
    volume = replace(volume, spec=replace(volume.spec, csi=csi_source, local=None, host_path=None))
    bind, volume_edit = build_claim_binding(claim, volume, storage)
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, bind), volume_edit) if bind else (volume_edit,)
    text = f"wait until {provisioner} has provisioned a volume for claim {format_claim_key(claim)} (see its events)"
    command = kubectl.render_command("describe", *kubectl.build_object_arguments(key))
    return Fix(
        kind=FixKind.WAIT, target=key, text=text, by="operator", edits=edits, cost=PROVISIONED, commands=(command,)
    )


def _mark_claim_bound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim with phase Bound, which the volume controller sets once its volume exists again."""
    return replace(claim, status=PhaseStatus("Bound"))


def _build_reset_and_bind_change(bind: ClaimChange | None) -> ClaimChange:
    """Return a function that resets a claim as if it were new and, if `bind` is not None, binds it."""
    return lambda current: bind(reset_claim(current)) if bind else reset_claim(current)


def _build_volume_creation_fix(
    trial_node: TrialNode,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    edits: tuple[ObjectEdit, ...],
    deletion: Deletion | None = None,
) -> Fix:
    """Build the fix that creates the volume for the claim. If `deletion` is given, the fix also recreates the claim.

    The user has to complete the volume's manifest. The cost is higher if the claim's class provisions volumes itself.
    """
    name = volume.metadata.name
    key_text = format_claim_key(claim)
    size = str(claim.spec.resources.requests.get("storage", "any size"))
    where = _describe_labels_required_by_volume(volume)
    nodes = f", for nodes with {where}" if where else ""
    text = f"create PersistentVolume {name} ({size}{nodes}) for claim {key_text}"

    # The manifest reserves the volume for the claim and leaves its source to the user.
    claim_ref = {"claimRef": {"namespace": claim.metadata.namespace, "name": claim.metadata.name}}
    source, missing_field = _build_volume_source(volume)
    base_manifest = kubectl.build_manifest(ObjectKey.of(volume), replace(volume, spec=replace(volume.spec, csi=None)))
    manifest = {**base_manifest, "spec": {**object_at(base_manifest, "spec"), **claim_ref, **source}}

    commands: list[str] = []
    weakens = ""
    price = None
    if deletion is not None:
        text += ", and recreate the claim"
        commands += [*deletion.preparation, render_volume_claim_recreation(claim, reset_claim(claim))]
        weakens = deletion.weakens
        price = deletion.price
    is_on_no_particular_node = volume.spec.csi is None and volume.spec.node_affinity is None
    if volume.spec.host_path is not None and is_on_no_particular_node:
        directories = "a hostPath is a different directory on each node, so a pod that moves leaves its data behind"
        weakens = "; ".join(filter(None, (weakens, directories)))
    cost = NEW_VOLUME
    if _has_provisioner(claim, get_listers(trial_node.cycle.view)):
        cost += PROVISIONER_SURCHARGE
    return Fix(
        kind=FixKind.CREATE_VOLUME,
        target=(key_text, where),
        text=text,
        by="operator",
        edits=edits,
        cost=cost,
        weakens=weakens,
        commands=tuple(commands),
        variant_of=key_text,
        where=where,
        price=price,
        needs_values=(f"{missing_field} of PersistentVolume {name}",),
        manifests=(manifest,),
    )


def _has_provisioner(claim: PersistentVolumeClaim, storage: Listers) -> bool:
    """Return whether the claim's class provisions volumes."""
    storage_class = storage.classes.get(get_claim_class(claim))
    return storage_class is not None and storage_class.provisioner not in ("", NO_PROVISIONER)


def _build_volume_for_claim(
    trial_node: TrialNode, claim: PersistentVolumeClaim, name: str, storage: Listers
) -> PersistentVolume:
    """Build a volume of this name for the claim, modelled on the first volume of the claim's class.

    The driver and the node affinity come from the model. Without a model, the class's provisioner is the driver. The
    size is the requested one, or 1Gi if the claim requests none.
    """
    spec = claim.spec
    class_name = get_claim_class(claim)
    class_volumes = storage.volumes_of_class.get(class_name, ClassVolumes())
    model_volume = next(iter(class_volumes.volumes), None)
    driver = _find_csi_driver(trial_node, claim, model_volume)
    topology_keys = get_topology_keys(trial_node, class_name) if driver else ()
    return PersistentVolume(
        ObjectMeta(name, labels=dict(spec.selector.match_labels) if spec.selector else {}),
        PersistentVolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
            access_modes=spec.access_modes,
            storage_class_name=class_name,
            volume_mode=spec.volume_mode,
            node_affinity=_build_volume_node_affinity(trial_node, model_volume, topology_keys),
            volume_attributes_class_name=spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(driver, name) if driver else None,
            local=model_volume.spec.local if model_volume else None,
            host_path=model_volume.spec.host_path if model_volume else None,
        ),
        PhaseStatus("Available"),
    )


def _find_csi_driver(trial_node: TrialNode, claim: PersistentVolumeClaim, model_volume: PersistentVolume | None) -> str:
    """Return the name of the CSI driver for a new volume of the claim, or "" if no CSI driver serves it.

    This is the driver of the model volume. Without a model, it is the provisioner of the claim's class if that is a CSI
    driver.
    """
    if model_volume is not None:
        return model_volume.spec.csi.driver if model_volume.spec.csi else ""
    class_ = get_listers(trial_node.cycle.view).classes.get(get_claim_class(claim))
    drivers = {driver.metadata.name for driver in trial_node.cycle.view.cluster.csi_drivers}
    return class_.provisioner if class_ is not None and class_.provisioner in drivers else ""


def _build_volume_node_affinity(
    trial_node: TrialNode, model_volume: PersistentVolume | None, topology_keys: tuple[str, ...]
) -> VolumeNodeAffinity | None:
    """Build the node affinity of a new volume that the tried node can reach.

    The affinity requires the node's values of the labels in the model volume's affinity or, without a model, of the
    driver's topology keys. The result is None if the node has none of these labels, or no node is tried.
    """
    if trial_node.row is None:
        return None
    if model_volume is None:
        keys = set(topology_keys)
    else:
        affinity = model_volume.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
        keys = {expression.key for term in terms for expression in term.match_expressions}
    labels = trial_node.cycle.view.nodes.objects[trial_node.row].metadata.labels
    requirements = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(keys & labels.keys()))
    return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(requirements),))) if requirements else None


def _describe_labels_required_by_volume(volume: PersistentVolume) -> str:
    """Describe the labels that the new volume's node affinity requires, or return "" if it has no affinity."""
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    labels = []
    for term in terms:
        for expression in term.match_expressions:
            first_value = expression.values[0] if expression.values else ""
            labels.append(f"{expression.key}={first_value}")
    return ", ".join(labels)


def _build_volume_source(volume: PersistentVolume) -> tuple[JsonObject, str]:
    """Return the volume's source with its unknown field left empty, and the path of this field.

    The API server rejects a volume without a source or with an empty required field, so the volume cannot be created
    before the user fills in the field.
    """
    spec = volume.spec
    if spec.csi is not None:
        return {"csi": {"driver": spec.csi.driver, "volumeHandle": ""}}, "spec.csi.volumeHandle"
    if spec.local is not None:
        return {"local": {"path": ""}}, "spec.local.path"
    if spec.host_path is not None:
        return {"hostPath": {"path": ""}}, "spec.hostPath.path"
    return {}, ANY_SOURCE


def _find_free_volume_name(prefix: str, storage: Listers) -> str:
    """Return the first volume name that is not used yet among PREFIX, PREFIX-1, PREFIX-2 and so on."""
    names = (prefix, *(f"{prefix}-{number}" for number in range(1, len(storage.volumes) + 1)))
    return next(name for name in names if name not in storage.volumes)


IGNORE, ENLARGE, PUBLISH = 35, 40, 45
"""The costs of ignoring a driver's capacity, of enlarging a pool, and of adding one."""
NAMESPACE = "kube-system"
"""The namespace of a new pool whose class has none yet. A driver publishes pools in its own namespace, which is
unknown.
"""


def build_storage_capacity_fix(trial_node: TrialNode, claim: PersistentVolumeClaim, fact: NotEnoughStorage) -> Fix:
    """Build the fix that enlarges the largest storage pool that the node can reach, or adds a pool if there is none.

    The fix has no commands. Storage is added outside of Kubernetes, and its driver then publishes the capacity.
    """
    name = get_claim_class(claim)
    pools = get_listers(trial_node.cycle.view).pools_of_class.get(name, ())
    reachable_pools = [pool for pool in pools if trial_node.known_row in pool.rows]
    if not reachable_pools:
        return _build_new_storage_pool_fix(trial_node, claim, pools, fact.size)
    largest = max(reachable_pools, key=lambda pool: pool.limit or 0)
    # A published capacity of 0 may be wrong, so the fix then names the driver that publishes it
    doubtful_driver = fact.driver if fact.largest == 0 else ""
    return _build_storage_pool_enlargement_fix(name, largest, fact.size, driver=doubtful_driver)


def iter_fixes_ignoring_capacity(trial_node: TrialNode, fact: NotEnoughStorage) -> Iterator[Fix]:
    """Yield the fix that stops kube-scheduler from checking a driver's capacity, if it publishes none or only 0.

    There is no fix if the driver publishes capacity only for other nodes, because it may not run on this node. A
    capacity of 0 can also mean that the storage is full, so the fix costs a guarantee if the driver's volumes are local
    to some nodes.
    """
    publishes_only_elsewhere = fact.largest is None and bool(fact.pools)
    if fact.largest or not fact.driver or publishes_only_elsewhere:
        return
    key = ObjectKey("CSIDriver", "", fact.driver)
    published = "publishes a capacity of 0" if fact.largest == 0 else "publishes no capacity"
    text = f"set storageCapacity: false in CSIDriver {fact.driver}, which {published} for class {fact.storage_class}"
    yield Fix(
        kind=FixKind.IGNORE_STORAGE_CAPACITY,
        target=fact.driver,
        text=text,
        by="operator",
        edits=(ObjectEdit(key, _disable_storage_capacity),),
        cost=IGNORE,
        weakens=f"kube-scheduler no longer checks the free storage of {fact.driver}",
        commands=(kubectl.render_patch(key, {"spec": {"storageCapacity": False}}),),
        price=Price.GUARANTEE if _has_local_volumes(trial_node, fact.driver) else None,
    )


def _disable_storage_capacity(driver: CSIDriver) -> CSIDriver:
    """Return the CSIDriver with storageCapacity set to false."""
    return replace(driver, spec=replace(driver.spec, storage_capacity=False))


def _has_local_volumes(trial_node: TrialNode, driver: str) -> bool:
    """Return whether the driver has a volume that the tried node can reach but some other node cannot."""
    storage = get_listers(trial_node.cycle.view)
    node_count = len(trial_node.cycle.view.nodes)
    for volume in storage.volumes.values():
        if volume.spec.csi is None or volume.spec.csi.driver != driver or volume.spec.node_affinity is None:
            continue
        rows = storage.topology.find_reachable_rows(volume.spec.node_affinity)
        if trial_node.known_row in rows and len(rows) < node_count:
            return True
    return False


def _build_storage_pool_enlargement_fix(class_name: str, pool: StoragePool, size: str, driver: str) -> Fix:
    """Build the fix that raises the capacity of a storage pool to `size`.

    `driver` names the pool's driver if the driver publishes a capacity of 0, which may be wrong. Otherwise it is empty.
    """
    capacity = pool.capacity
    key = ObjectKey.of(capacity)

    def change(current: CSIStorageCapacity) -> CSIStorageCapacity:
        """Return the pool with the larger capacity."""
        maximum_size = None if current.maximum_volume_size is None else size
        return replace(current, capacity=size, maximum_volume_size=maximum_size)

    pool_text = f"{key.namespace}/{key.name} of class {class_name}"
    if driver:
        text = f"correct the capacity that {driver} publishes in CSIStorageCapacity {pool_text}, or add storage"
        text += f", since the claim needs {size}"
    else:
        published = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        available = "none" if published is None else f"only {published}"
        text = (
            f"add capacity to the storage that CSIStorageCapacity {pool_text} describes: the claim needs {size}, but "
            f"{available} is available"
        )
    return Fix(
        kind=FixKind.RAISE_CAPACITY,
        target=(key, size),
        text=text,
        by="operator",
        edits=(ObjectEdit(key, change),),
        cost=ENLARGE,
        variant_of=class_name,
        where=key.name,
    )


def _build_new_storage_pool_fix(
    trial_node: TrialNode, claim: PersistentVolumeClaim, pools: tuple[StoragePool, ...], size: str
) -> Fix:
    """Build the fix that adds a storage pool of this size for the node's topology domain.

    The domain is given by the node's values of the driver's topology labels or, if it has none of them, by its
    hostname. `pools` are the existing pools of the class, whose namespace the new pool gets.
    """
    class_name = get_claim_class(claim)
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    namespace = pools[0].capacity.metadata.namespace if pools else NAMESPACE
    labels = node.metadata.labels
    keys = [key for key in get_topology_keys(trial_node, class_name) if key in labels]
    if not keys and HOSTNAME in labels:
        keys = [HOSTNAME]
    new_pool = CSIStorageCapacity(
        ObjectMeta(f"{class_name}-{node.metadata.name}", namespace),
        storage_class_name=class_name,
        node_topology=LabelSelector(match_labels={key: labels[key] for key in keys}),
        capacity=size,
    )
    topology = ", ".join(f"{key}={labels[key]}" for key in keys) or "all nodes"
    text = (
        f"add storage of class {class_name} for {topology}: the claim needs {size}, but the driver publishes none there"
    )
    edits = (ObjectEdit.create(new_pool),)
    return Fix(
        kind=FixKind.RAISE_CAPACITY,
        target=(ObjectKey.of(new_pool), size),
        text=text,
        by="operator",
        edits=edits,
        cost=PUBLISH,
        variant_of=class_name,
        where=topology,
    )


def get_topology_keys(trial_node: TrialNode, class_name: str) -> tuple[str, ...]:
    """Return the label keys that the class's driver uses for topology, according to the node's CSINode.

    The result is empty if no node is tried, or if the class or the driver's entry in the CSINode is missing.
    """
    storage = get_listers(trial_node.cycle.view)
    if trial_node.row is None or class_name not in storage.classes:
        return ()
    csi_node = storage.csi_nodes.nodes[trial_node.known_row]
    provisioner = storage.classes[class_name].provisioner
    drivers = csi_node.spec.drivers if csi_node else ()
    return next((driver.topology_keys for driver in drivers if driver.name == provisioner), ())
