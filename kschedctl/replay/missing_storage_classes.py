"""Claims of pods with a StorageClass that does not exist, which kube-scheduler's message does not name."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.objects import PersistentVolumeClaim, Pod
from kschedctl.cluster import Cluster


class MissingStorageClass(NamedTuple):
    """A StorageClass that does not exist and a claim that names it."""

    name: str
    claim: str
    """``namespace/name``."""


class MissingStorageClasses:
    """Finds the StorageClasses that claims of pods name and that the cluster does not have."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._existing = {storage_class.metadata.name for storage_class in cluster.storage_classes}
        self._of_volumes = {volume.spec.storage_class_name for volume in cluster.persistent_volumes}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        if cluster.gap("StorageClass") is None:
            self._claims = {
                (claim.metadata.namespace, claim.metadata.name): claim
                for claim in cluster.persistent_volume_claims
                if self._lacks_class(claim)
            }

    def find(self, pod: Pod) -> MissingStorageClass | None:
        """Return the first missing StorageClass that a claim of the pod names, or None."""
        for volume in pod.spec.volumes if self._claims else ():
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is not None:
                return MissingStorageClass(claim.spec.storage_class_name or "", f"{claim.metadata.namespace}/{name}")
        return None

    def explain(self, pod: Pod) -> str:
        """Return a sentence about the missing StorageClass of the pod, or an empty string."""
        missing = self.find(pod)
        if missing is None:
            return ""
        return f"StorageClass {missing.name} does not exist, so claim {missing.claim} gets no volume"

    def _lacks_class(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether nothing provisions the claim. Volumes made by hand may have a class without an object."""
        name = claim.spec.storage_class_name
        return bool(name) and not claim.spec.volume_name and name not in self._existing and name not in self._of_volumes
