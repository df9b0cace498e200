"""Short nodes with devices, and pods that claim some."""

from __future__ import annotations

from collections.abc import Sequence

from small import Json, build_pod

DRIVER = "gpu.example.com"
CLASS: Json = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


def build_device_slice(node: str, count: int, everywhere: bool = False) -> Json:
    """Build a ResourceSlice with ``count`` devices of a node, named ``NODE-0`` and so on.

    With ``everywhere``, all nodes can use the devices.
    """
    where: Json = {"allNodes": True} if everywhere else {"nodeName": node}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"{node}-{number}"} for number in range(count)]
    spec = {"driver": DRIVER, "pool": pool, "devices": devices, **where}
    return {"kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}


def build_template(count: int) -> Json:
    """Build a template for claims of this many devices."""
    return {
        "kind": "ResourceClaimTemplate",
        "metadata": _build_meta(f"gpus-{count}"),
        "spec": {"spec": _build_device_request(count)},
    }


def build_claiming_pod(name: str, count: int, held: Sequence[str] = (), on: str = "", **more: object) -> list[Json]:
    """Build a pod of a ReplicaSet, and its claim from a template for ``count`` devices.

    If ``held`` names devices, they are allocated to the claim.
    """
    made = build_pod(name, on, "1", {"kind": "ReplicaSet", "name": f"rs-{name}"}, **more)
    made["metadata"]["labels"] = {"app": name}
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{count}"}]
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    owner = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": f"uid-{name}", "controller": True}
    claim = {
        "kind": "ResourceClaim",
        "metadata": _build_meta(f"{name}-gpu", ownerReferences=[owner]),
        "spec": _build_device_request(count),
    }
    if held:
        claim["status"] = build_allocated_status(held, [made])
    return [claim, made]


def build_allocated_status(held: Sequence[str], users: Sequence[Json]) -> Json:
    """Build the status of a claim with allocated devices of one pool, reserved for the users."""
    pool = held[0].rpartition("-")[0]
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device} for device in held]
    reserved = [{"resource": "pods", "name": u["metadata"]["name"], "uid": u["metadata"]["uid"]} for u in users]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
    at_node: Json = {} if pool == "fabric" else {"nodeSelector": {"nodeSelectorTerms": [term]}}
    return {"allocation": {"devices": {"results": results}, **at_node}, "reservedFor": reserved}


def build_shared_claim(held: Sequence[str], users: Sequence[Json]) -> Json:
    """Build a claim with allocated devices, and make all the pods use it."""
    for user in users:
        user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "common"}]
    claim = {"kind": "ResourceClaim", "metadata": _build_meta("common"), "spec": _build_device_request(len(held))}
    return {**claim, "status": build_allocated_status(held, users)}


def _build_meta(name: str, **more: object) -> Json:
    return {"name": name, "namespace": "d", "uid": f"uid-{name}", **more}


def _build_device_request(count: int) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
