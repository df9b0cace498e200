"""Cases that the real Karpenter answered, as objects of a cluster."""

from __future__ import annotations

from golden_cases import Json

KINDS = {
    "nodePools": ("karpenter.sh/v1", "NodePool"),
    "nodeOverlays": ("karpenter.sh/v1alpha1", "NodeOverlay"),
    "nodeClaims": ("karpenter.sh/v1", "NodeClaim"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "daemonSets": ("apps/v1", "DaemonSet"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "persistentVolumes": ("v1", "PersistentVolume"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "namespaces": ("v1", "Namespace"),
}
"""Key of a case -> the API version and the kind of its objects."""


def build_objects(given: Json) -> list[Json]:
    """Return the objects of a case with their kinds."""
    return [
        {"apiVersion": version, "kind": kind, **each}
        for key, (version, kind) in KINDS.items()
        for each in given.get(key) or ()
    ]
