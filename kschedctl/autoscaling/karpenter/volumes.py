"""Node requirements, validity and driver limits of pods' volumes.

Upstream: pkg/controllers/provisioning/scheduling/volumetopology.go, pkg/scheduling/volumeusage.go
(sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kschedctl.api.objects import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    TopologySelectorTerm,
    Volume,
)
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements, build_term_requirements
from kschedctl.cluster import Cluster

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
EBS = "ebs.csi.aws.com"
CSI_NAMES = {
    "kubernetes.io/aws-ebs": EBS,
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""Provisioners in the tree -> the drivers that took over (k8s.io/csi-translation-lib)."""

DriverVolumes = Mapping[str, frozenset[str]]
"""CSI driver -> the claims that it serves."""


@dataclass(frozen=True, eq=False)
class Volumes:
    """The PersistentVolumeClaims, PersistentVolumes and StorageClasses of a cluster."""

    cluster: Cluster

    @cached_property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return {f"{c.metadata.namespace}/{c.metadata.name}": c for c in self.cluster.persistent_volume_claims}

    @cached_property
    def volumes(self) -> dict[str, PersistentVolume]:
        return {volume.metadata.name: volume for volume in self.cluster.persistent_volumes}

    @cached_property
    def classes(self) -> dict[str, StorageClass]:
        return {storage_class.metadata.name: storage_class for storage_class in self.cluster.storage_classes}

    def find_fault(self, pod: Pod) -> str:
        """Return why the pod is rejected because of a claim, in Karpenter's words, or ""."""
        for volume in pod.spec.volumes:
            key = find_claim_key(pod, volume)
            if key and (fault := self._find_claim_fault(key)):
                return fault
        return ""

    def _find_claim_fault(self, key: str) -> str:
        """Return what is wrong with a claim, or ""."""
        claim, name = self.claims.get(key), key.partition("/")[2]
        if claim is None:
            missing = f'persistentvolumeclaims "{name}" not found'
            return f"getting persistent volume claim, {missing} (PersistentVolumeClaim={name})"
        volume, of_class = claim.spec.volume_name, claim.spec.storage_class_name or ""
        if claim.metadata.deletion_timestamp is not None:
            return f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})"
        if claim.status.phase == "Lost":
            where = f"PersistentVolume={volume}, PersistentVolumeClaim={key}"
            return f"persistentvolumeclaim bound to non-existent persistentvolume ({where})"
        return self._find_bound_fault(key, claim) if volume else self._find_unbound_fault(key, of_class)

    def _find_bound_fault(self, key: str, claim: PersistentVolumeClaim) -> str:
        """Return what is wrong with a claim that names a volume, or ""."""
        volume, of_class = claim.spec.volume_name, claim.spec.storage_class_name or ""
        known = self.volumes.get(volume)
        if known is None or known.metadata.deletion_timestamp is not None:
            why = f'persistentvolumes "{volume}" not found' if known is None else "persistentvolume is being deleted"
            where = f"PersistentVolume={volume}, PersistentVolumeClaim={key}, StorageClass={of_class}"
            return f"failed to validate pvc, {why} ({where})"
        if BIND_COMPLETED not in claim.metadata.annotations:
            where = (
                f"PersistentVolume={volume}, PersistentVolumeClaim={claim.metadata.name}, annotation={BIND_COMPLETED}"
            )
            return f"pvc is considered unbound because it does not contain annotation ({where})"
        return ""

    def _find_unbound_fault(self, key: str, of_class: str) -> str:
        """Return what is wrong with the StorageClass of an unbound claim, or ""."""
        where = f"PersistentVolumeClaim={key}, StorageClass={of_class}"
        if not of_class:
            return f"unbound pvc must define a storage class ({where})"
        known = self.classes.get(of_class)
        if known is None:
            why = f'storageclasses.storage.k8s.io "{of_class}" not found'
            return f"failed to validate pvc, failed to get storage class, {why} ({where})"
        if known.volume_binding_mode == "Immediate":
            return f"failed to validate pvc, pvc with immediate volume binding mode must be bound ({where})"
        return ""

    def alternatives(self, pod: Pod) -> list[Requirements] | None:
        """What a node has to be for all volumes, one of these; empty: anything; None: something is missing.

        Several volumes: what goes together, or all combinations where nothing does. A volume that names no claim counts
        as missing: the recorded answers are those of a client that finds no volume here (it asks for one with a
        namespace, which a real server ignores), and in a cluster every volume that is bound names its claim.
        """
        combinations: list[Requirements] = []
        for volume in pod.spec.volumes:
            own = self._volume_alternatives(pod, volume)
            if own is None:
                return None
            if not own:
                continue
            pairs = [(a, b) for a in combinations or [Requirements()] for b in own]
            combinations = [a.plus(b) for a, b in pairs if a.intersects(b)] or [a.plus(b) for a, b in pairs]
        return combinations

    def _volume_alternatives(self, pod: Pod, volume: Volume) -> list[Requirements] | None:
        """Return alternative node requirements of one volume, or None if an object is missing."""
        key = find_claim_key(pod, volume)
        if not key:
            return []
        claim = self.claims.get(key)
        if claim is None:
            return None
        if claim.spec.volume_name:
            known = self.volumes.get(claim.spec.volume_name)
            return None if known is None or known.spec.claim_ref is None else list(_iter_volume_requirements(known))
        if not claim.spec.storage_class_name:
            return []
        of_class = self.classes.get(claim.spec.storage_class_name)
        return None if of_class is None else list(_iter_class_requirements(of_class))

    def claims_by_driver(self, pod: Pod) -> DriverVolumes:
        """Return CSI driver -> claims of the pod that it serves, for known drivers."""
        volumes: dict[str, frozenset[str]] = {}
        for volume in pod.spec.volumes:
            key = find_claim_key(pod, volume)
            claim = self.claims.get(key)
            if claim is not None and (driver := self._find_driver(claim)):
                volumes[driver] = volumes.get(driver, frozenset()) | {key}
        return volumes

    def _find_driver(self, claim: PersistentVolumeClaim) -> str:
        """Return the CSI driver of a claim, or "" if it is not known."""
        if claim.spec.volume_name:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                return ""
            if volume.spec.csi is not None:
                return volume.spec.csi.driver
            return EBS if volume.spec.aws_elastic_block_store is not None else ""
        of_class = self.classes.get(claim.spec.storage_class_name or "")
        return CSI_NAMES.get(of_class.provisioner, of_class.provisioner) if of_class else ""


def find_claim_key(pod: Pod, volume: Volume) -> str:
    """Return ``namespace/name`` of the claim behind a pod's volume, or ""."""
    if volume.persistent_volume_claim is not None:
        return f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
    if volume.ephemeral is not None:
        return f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"
    return ""


def _iter_volume_requirements(volume: PersistentVolume) -> Iterator[Requirements]:
    """Yield each affinity term of a volume as an alternative. Local volumes ignore the hostname."""
    affinity = volume.spec.node_affinity and volume.spec.node_affinity.required
    is_local = volume.spec.local is not None or volume.spec.host_path is not None
    for term in affinity.node_selector_terms if affinity else ():
        kept = tuple(e for e in term.match_expressions if not (is_local and e.key == HOSTNAME))
        if kept or (is_local and term.match_expressions):
            yield build_term_requirements(NodeSelectorTerm(kept))


def _iter_class_requirements(of_class: StorageClass) -> Iterator[Requirements]:
    """Yield each allowed topology of a StorageClass as an alternative."""
    for term in of_class.allowed_topologies:
        if term.match_label_expressions:
            yield _build_topology_requirements(term)


def _build_topology_requirements(term: TopologySelectorTerm) -> Requirements:
    """Return the requirements of an allowed topology."""
    return Requirements.of(LabelRequirement.of(e.key, IN, e.values) for e in term.match_label_expressions)
