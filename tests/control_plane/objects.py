"""The controllers of claims and volumes: creation for pods, binding, release, and detaching.

Upstream: pkg/controller/{resourceclaim,volume/persistentvolume,volume/ephemeral,volume/attachdetach} (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from control_plane.store import Key, Store, build_owner_reference, list_claims

Json = dict[str, Any]
WAITS = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"


def reconcile_storage(store: Store) -> None:
    """Run each controller of claims and volumes once."""
    for pod in store.of_kind("Pod"):
        _create_ephemeral_claims(store, pod)
        _create_resource_claims(store, pod)
    _release_devices(store)
    _release_volumes(store)
    for claim in store.of_kind("PersistentVolumeClaim"):
        _bind(store, claim)
    _delete_unused_attachments(store)


# -- ResourceClaims ----------------------------------------------------------------------------------------------------


def _create_resource_claims(store: Store, pod: Json) -> None:
    """Create the claim of each template that the pod names, unless the pod has it."""
    namespace = pod["metadata"].get("namespace") or "default"
    statuses = pod.setdefault("status", {}).setdefault("resourceClaimStatuses", [])
    for reference in pod["spec"].get("resourceClaims") or ():
        known = next((each for each in statuses if each["name"] == reference["name"]), None)
        template = store.get(Key("ResourceClaimTemplate", namespace, reference.get("resourceClaimTemplateName") or ""))
        if known is not None and Key("ResourceClaim", namespace, known["resourceClaimName"]) in store.objects:
            continue
        if template is None:
            continue
        name = f"{pod['metadata']['name']}-{reference['name']}-{next(store.numbers)}"
        meta = {"name": name, "namespace": namespace, "ownerReferences": [build_owner_reference(pod)]}
        spec = deepcopy(template["spec"]["spec"])
        store.create({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": meta, "spec": spec})
        statuses[:] = [each for each in statuses if each is not known]
        statuses.append({"name": reference["name"], "resourceClaimName": name})


def _release_devices(store: Store) -> None:
    """Remove pods that are gone from claims, and release the devices of unused claims."""
    uids = {pod["metadata"]["uid"] for pod in store.of_kind("Pod")}
    for claim in store.of_kind("ResourceClaim"):
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        left = [each for each in users if each["uid"] in uids]
        if len(left) < len(users):
            status["reservedFor"] = left
            if not left:
                status.pop("allocation", None)


# -- volumes -----------------------------------------------------------------------------------------------------------


def _create_ephemeral_claims(store: Store, pod: Json) -> None:
    """Create the missing claims of the pod's ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        meta = {"name": f"{pod['metadata']['name']}-{volume['name']}", "namespace": pod["metadata"].get("namespace")}
        claim = {"kind": "PersistentVolumeClaim", "metadata": {**meta, "ownerReferences": [build_owner_reference(pod)]}}
        if Key.of(claim) not in store.objects:
            store.create({**claim, "spec": deepcopy(template["spec"])})


def _release_volumes(store: Store) -> None:
    """Retain or delete the volumes whose claim was deleted, according to their reclaim policy."""
    for volume in store.of_kind("PersistentVolume"):
        holder, phase = volume["spec"].get("claimRef"), (volume.get("status") or {}).get("phase")
        if holder is None:
            volume["status"] = {"phase": "Available"}
            continue
        claim = store.get(Key("PersistentVolumeClaim", holder["namespace"], holder["name"]))
        same = claim is not None and holder.get("uid") in ("", None, claim["metadata"]["uid"])
        if same or phase != "Bound":
            continue
        if volume["spec"].get("persistentVolumeReclaimPolicy", "Retain") == "Delete":
            del store.objects[Key.of(volume)]
            store.log.append(f"DATA LOST with volume {volume['metadata']['name']}")
        else:
            volume["status"] = {"phase": "Released"}


def _bind(store: Store, claim: Json) -> None:
    """Bind the claim to a volume: one reserved for it, the one that it names, a free one, or a new one.

    A claim whose StorageClass waits for a pod is not bound to a free or new volume.
    """
    spec = claim["spec"]
    claim.setdefault("status", {"phase": "Pending"})
    if claim["status"].get("phase") == "Bound":
        return
    volume = next(_iter_reserved_volumes(store, claim), None)
    if spec.get("volumeName"):
        volume = store.get(Key("PersistentVolume", "", spec["volumeName"]))
        if volume is None or not _is_for(volume, claim):
            return
    storage_class = store.get(Key("StorageClass", "", spec.get("storageClassName") or "")) or {}
    if volume is None and not _is_waiting_for_pod(claim, storage_class):
        volume = next(_iter_free_volumes(store, claim), None)
        if volume is None and storage_class.get("provisioner", NO_PROVISIONER) != NO_PROVISIONER:
            volume = _provision_volume(store, claim, storage_class)
    if volume is not None:
        bind(claim, volume)


def bind(claim: Json, volume: Json) -> None:
    """Bind a claim and a volume to each other."""
    meta = claim["metadata"]
    own = {"namespace": meta.get("namespace") or "default", "name": meta["name"], "uid": meta["uid"]}
    volume["spec"]["claimRef"], volume["status"] = own, {"phase": "Bound"}
    claim["spec"]["volumeName"], claim["status"] = volume["metadata"]["name"], {"phase": "Bound"}
    meta["annotations"] = {**(meta.get("annotations") or {}), BOUND: "yes"}


def _is_for(volume: Json, claim: Json) -> bool:
    """Return whether the volume is free or reserved for the claim."""
    holder, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if holder is None:
        return True
    named = (holder["namespace"], holder["name"]) == (meta.get("namespace") or "default", meta["name"])
    return named and holder.get("uid") in ("", None, meta["uid"])


def _iter_reserved_volumes(store: Store, claim: Json) -> Iterator[Json]:
    for volume in store.of_kind("PersistentVolume"):
        if volume["spec"].get("claimRef") is not None and _is_for(volume, claim):
            yield volume


def _iter_free_volumes(store: Store, claim: Json) -> Iterator[Json]:
    """Yield the matching volumes, the smallest first."""
    free = [each for each in store.of_kind("PersistentVolume") if each["spec"].get("claimRef") is None]
    yield from sorted((each for each in free if _is_matching(each, claim["spec"])), key=_get_volume_size)


def _is_matching(volume: Json, wanted: Json) -> bool:
    """Return whether a volume matches by class, mode, access, size and labels."""
    own, labels = volume["spec"], volume["metadata"].get("labels") or {}
    selected = (wanted.get("selector") or {}).get("matchLabels") or {}
    same = (("storageClassName", ""), ("volumeMode", "Filesystem"))
    return (
        all((own.get(name) or default) == (wanted.get(name) or default) for name, default in same)
        and set(wanted.get("accessModes") or ()) <= set(own.get("accessModes") or ())
        and _get_volume_size(volume)
        >= _parse_bytes(((wanted.get("resources") or {}).get("requests") or {}).get("storage", "0"))
        and selected.items() <= labels.items()
    )


def _get_volume_size(volume: Json) -> int:
    return _parse_bytes((volume["spec"].get("capacity") or {}).get("storage", "0"))


def _parse_bytes(size: str) -> int:
    units = {"Ti": 1 << 40, "Gi": 1 << 30, "Mi": 1 << 20}
    unit = size[-2:]
    return int(size[:-2]) * units[unit] if unit in units else int(size)


def _is_waiting_for_pod(claim: Json, storage_class: Json) -> bool:
    """Return whether the scheduler has yet to choose a node for the first pod of the claim."""
    annotations = claim["metadata"].get("annotations") or {}
    return storage_class.get("volumeBindingMode") == WAITS and SELECTED not in annotations


def _provision_volume(store: Store, claim: Json, made_by: Json) -> Json:
    """Create a volume for the claim, which all nodes can reach, with the StorageClass ``made_by``."""
    spec = {
        "capacity": claim["spec"]["resources"]["requests"],
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": made_by["metadata"]["name"],
        "persistentVolumeReclaimPolicy": made_by.get("reclaimPolicy", "Delete"),
        "csi": {"driver": made_by["provisioner"], "volumeHandle": f"vol-{next(store.numbers)}"},
    }
    meta = {"name": f"pvc-{next(store.numbers)}"}
    return store.create({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": meta, "spec": spec})


# -- attachments -------------------------------------------------------------------------------------------------------


def _delete_unused_attachments(store: Store) -> None:
    """Delete the VolumeAttachments that a pod on their node used and that no pod uses any more."""
    used = set()
    for pod in store.of_kind("Pod"):
        for name in list_claims(pod) if pod["spec"].get("nodeName") else ():
            claim = store.get(Key("PersistentVolumeClaim", pod["metadata"].get("namespace") or "default", name))
            used.add((pod["spec"]["nodeName"], (claim or {"spec": {}})["spec"].get("volumeName")))
    for found in store.of_kind("VolumeAttachment"):
        at = found["spec"]["nodeName"], found["spec"]["source"].get("persistentVolumeName")
        if at in used:
            found["metadata"].setdefault("annotations", {})["used"] = "yes"
        elif (found["metadata"].get("annotations") or {}).get("used"):
            del store.objects[Key.of(found)]
