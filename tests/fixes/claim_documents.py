"""Short documents of the namespace ``d`` for pods that claim volumes or devices."""

from __future__ import annotations

from typing import Any

from control_plane.validation import REQUIRED

Json = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "csi.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def build_node(name: str, zone: str = "a", **labels: str) -> Json:
    meta = {"name": name, "labels": {ZONE: zone, HOSTNAME: name, **labels}}
    return {"kind": "Node", "metadata": meta, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}


def build_pod(name: str = "asked", on: str = "", owner: Json | None = None, **spec: Any) -> Json:
    """Build a pod with the UID ``uid-NAME`` and the label app=db."""
    meta: Json = {"name": name, "namespace": "d", "uid": f"uid-{name}", "labels": {"app": "db"}}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "controller": True, **owner}]
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    found = {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "default-scheduler", "containers": containers, **spec},
        "status": {},
    }
    if on:
        found["spec"]["nodeName"] = on
        found["status"] = {"phase": "Running"}
    return found


def build_pod_volumes(*claims: str) -> Json:
    """Build the volumes of a pod."""
    return {"volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]}


def build_storage_class(
    name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer", **fields: Any
) -> Json:
    """Build a StorageClass."""
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


LOCAL = build_storage_class("local", "kubernetes.io/no-provisioner")
MANUAL = build_storage_class("manual", "kubernetes.io/no-provisioner", "Immediate")


def build_claim(name: str = "data", of: str = "local", size: str = "10Gi", volume: str = "", **spec: Any) -> Json:
    """Build a claim that waits for its volume or is bound to one."""
    meta: Json = {"name": name, "namespace": "d", "uid": f"uid-{name}"}
    fields: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": of,
        **spec,
    }
    if volume:
        meta["annotations"], fields["volumeName"] = dict(BOUND), volume
    phase = "Bound" if volume else "Pending"
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": fields, "status": {"phase": phase}}


def build_volume(
    name: str, of: str = "local", size: str = "10Gi", on: Json | None = None, held_by: str = "", **spec: Any
) -> Json:
    """Build a volume that is available or held by a claim. ``on`` has the node label and its values."""
    fields: Json = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": of, **spec}
    if not fields.keys() & REQUIRED.keys():
        fields["nfs"] = {"server": "files", "path": "/exports"}
    if on:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in on.items()]
        fields["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if held_by:
        fields["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": "d",
            "name": held_by,
            "uid": f"uid-{held_by}",
        }
    phase = "Bound" if held_by else "Available"
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": fields, "status": {"phase": phase}}


def build_csi_volume(name: str, held_by: str = "", **fields: Any) -> Json:
    return build_volume(name, "csi", held_by=held_by, csi={"driver": DRIVER, "volumeHandle": name}, **fields)


def build_csi_node(name: str, count: int, driver: str = DRIVER) -> Json:
    drivers = [{"name": driver, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": count}}]
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}


def build_attachment(of: str, to: str) -> Json:
    spec = {"attacher": DRIVER, "nodeName": to, "source": {"persistentVolumeName": of}}
    return {"kind": "VolumeAttachment", "metadata": {"name": f"{of}-{to}"}, "spec": spec}


DRIVER_WITH_POOLS = {"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}


def build_pool(name: str, size: str, zone: str, of: str = "csi") -> Json:
    """Build the CSIStorageCapacity of a class in a zone."""
    return {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": of,
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": size,
    }


def build_disk(name: str) -> Json:
    """Build a disk that only one pod of a node may mount."""
    return {"volumes": [{"name": "disk", "awsElasticBlockStore": {"volumeID": name}}]}


# -- devices ---------------------------------------------------------------------------------------------------------


def build_device_class(name: str, expression: str = "", **spec: Any) -> Json:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


GPU = build_device_class("gpu", 'device.driver == "gpu.example.com"')


def build_device_slice(on: str, *found: Json, driver: str = "gpu.example.com") -> Json:
    """Build the devices of a node, in a pool of its name."""
    named = [{"name": f"gpu-{i}", **each} for i, each in enumerate(found)]
    own = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": on, "pool": own, "devices": named}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{on}"}, "spec": spec}


def build_attributes(**found: str) -> Json:
    return {"attributes": {name: {"string": value} for name, value in found.items()}}


def request(name: str = "r", of: str = "gpu", count: int = 1, **fields: Any) -> Json:
    exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **fields}
    return {"name": name, "exactly": exactly}


def build_resource_claim(name: str, *requests: Json, owner: str = "", **fields: Any) -> Json:
    """Build a ResourceClaim that is not allocated, maybe owned by a pod."""
    meta: Json = {"name": name, "namespace": "d", "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}"}]
        meta["ownerReferences"][0]["controller"] = True
    spec = {"devices": {"requests": list(requests), **fields}}
    return {"kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": {}}


def allocate_devices(found: Json, on: str, *names: str, users: tuple[str, ...] = ()) -> Json:
    """Return the claim with devices of a node allocated to it, reserved for the ``users``."""
    results = [{"request": "r", "driver": "gpu.example.com", "pool": on, "device": name} for name in names]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    return {**found, "status": {"allocation": allocation, "reservedFor": reserved}}


def build_claims(**names: str) -> Json:
    """Build the pod fields about claims: the pod's name for each claim, and the claim's name."""
    return {"resourceClaims": [{"name": name, "resourceClaimName": claim} for name, claim in names.items()]}
