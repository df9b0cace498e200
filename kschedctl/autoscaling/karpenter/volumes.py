"""Volumes of pods: the node requirements that follow from them, their faults, and the claims of each CSI driver.

Upstream: pkg/controllers/provisioning/scheduling/volumetopology.go, pkg/scheduling/volumeusage.go
(sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

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
"""In-tree provisioner -> the CSI driver that replaced it (k8s.io/csi-translation-lib)."""

DriverVolumes = Mapping[str, frozenset[str]]
"""CSI driver -> the claims that it serves."""


@dataclass(frozen=True, eq=False)
class Volumes:
    """The PersistentVolumeClaims, PersistentVolumes and StorageClasses of a cluster."""

    cluster: Cluster

    @cached_property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        """The claims by ``namespace/name``."""
        return {
            f"{claim.metadata.namespace}/{claim.metadata.name}": claim
            for claim in self.cluster.persistent_volume_claims
        }

    @cached_property
    def volumes(self) -> dict[str, PersistentVolume]:
        """The volumes by name."""
        return {volume.metadata.name: volume for volume in self.cluster.persistent_volumes}

    @cached_property
    def classes(self) -> dict[str, StorageClass]:
        """The StorageClasses by name."""
        return {storage_class.metadata.name: storage_class for storage_class in self.cluster.storage_classes}

    def describe_claim_fault_of_pod(self, pod: Pod) -> str:
        """Describe in Karpenter's words the first faulty claim of the pod, which makes Karpenter reject the pod.

        Return "" if no claim is faulty.
        """
        for volume in pod.spec.volumes:
            key = find_claim_key(pod, volume)
            if key and (fault := self._describe_claim_fault(key)):
                return fault
        return ""

    def _describe_claim_fault(self, key: str) -> str:
        """Describe the fault of the claim ``namespace/name``, or return "" if it has none.

        The claim may be missing or being deleted, or may have a problem with its volume or StorageClass.
        """
        claim = self.claims.get(key)
        name = key.partition("/")[2]
        if claim is None:
            missing = f'persistentvolumeclaims "{name}" not found'
            return f"getting persistent volume claim, {missing} (PersistentVolumeClaim={name})"
        volume = claim.spec.volume_name
        class_name = claim.spec.storage_class_name or ""
        if claim.metadata.deletion_timestamp is not None:
            return f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})"
        if claim.status.phase == "Lost":
            where = f"PersistentVolume={volume}, PersistentVolumeClaim={key}"
            return f"persistentvolumeclaim bound to non-existent persistentvolume ({where})"
        if volume:
            return self._describe_bound_claim_fault(key, claim)
        return self._describe_unbound_claim_fault(key, class_name)

    def _describe_bound_claim_fault(self, key: str, claim: PersistentVolumeClaim) -> str:
        """Describe the fault of a claim with a volume, or return "" if it has no fault.

        The volume must exist and must not be terminating, and the claim must be marked as bound.
        """
        volume = claim.spec.volume_name
        class_name = claim.spec.storage_class_name or ""
        persistent_volume = self.volumes.get(volume)
        volume_fault = ""
        if persistent_volume is None:
            volume_fault = f'persistentvolumes "{volume}" not found'
        elif persistent_volume.metadata.deletion_timestamp is not None:
            volume_fault = "persistentvolume is being deleted"
        if volume_fault:
            objects = f"PersistentVolume={volume}, PersistentVolumeClaim={key}, StorageClass={class_name}"
            return f"failed to validate pvc, {volume_fault} ({objects})"

        if BIND_COMPLETED not in claim.metadata.annotations:
            objects = (
                f"PersistentVolume={volume}, PersistentVolumeClaim={claim.metadata.name}, annotation={BIND_COMPLETED}"
            )
            return f"pvc is considered unbound because it does not contain annotation ({objects})"
        return ""

    def _describe_unbound_claim_fault(self, key: str, class_name: str) -> str:
        """Describe the fault of a claim without a volume, or return "" if it has no fault.

        The claim must name a StorageClass that exists and does not bind volumes immediately.
        """
        where = f"PersistentVolumeClaim={key}, StorageClass={class_name}"
        if not class_name:
            return f"unbound pvc must define a storage class ({where})"
        storage_class = self.classes.get(class_name)
        if storage_class is None:
            reason = f'storageclasses.storage.k8s.io "{class_name}" not found'
            return f"failed to validate pvc, failed to get storage class, {reason} ({where})"
        if storage_class.volume_binding_mode == "Immediate":
            return f"failed to validate pvc, pvc with immediate volume binding mode must be bound ({where})"
        return ""

    def find_node_requirements(self, pod: Pod) -> list[Requirements] | None:
        """Return the alternative node requirements of the pod's volumes, or None if an object is missing.

        A node must meet one alternative, and an empty list allows any node. The alternatives of several volumes are
        combined in pairs. Contradictory pairs are left out unless all pairs are contradictory.
        """
        combinations: list[Requirements] = []
        for volume in pod.spec.volumes:
            volume_requirements = self._find_volume_requirements(pod, volume)
            if volume_requirements is None:
                return None
            if not volume_requirements:
                continue
            pairs = list(product(combinations or [Requirements()], volume_requirements))
            consistent_pairs = [(left, right) for left, right in pairs if left.intersects(right)]
            combinations = [left.combined_with(right) for left, right in consistent_pairs or pairs]
        return combinations

    def _find_volume_requirements(self, pod: Pod, volume: Volume) -> list[Requirements] | None:
        """Return the alternative node requirements of one volume, or None if an object is missing.

        The list is empty if the volume allows any node.
        """
        key = find_claim_key(pod, volume)
        if not key:
            return []
        claim = self.claims.get(key)
        if claim is None:
            return None
        if claim.spec.volume_name:
            persistent_volume = self.volumes.get(claim.spec.volume_name)
            # Upstream's test client finds no claim for a volume without a claimRef. Real bound volumes have one.
            if persistent_volume is None or persistent_volume.spec.claim_ref is None:
                return None
            return list(_iter_volume_requirements(persistent_volume))
        if not claim.spec.storage_class_name:
            return []
        storage_class = self.classes.get(claim.spec.storage_class_name)
        return None if storage_class is None else list(_iter_class_requirements(storage_class))

    def map_claims_by_driver(self, pod: Pod) -> DriverVolumes:
        """Return ``namespace/name`` of the pod's claims, grouped by CSI driver.

        Claims that do not exist or whose driver is unknown are left out.
        """
        volumes: dict[str, frozenset[str]] = {}
        for volume in pod.spec.volumes:
            key = find_claim_key(pod, volume)
            claim = self.claims.get(key)
            if claim is not None and (driver := self._find_csi_driver(claim)):
                volumes[driver] = volumes.get(driver, frozenset()) | {key}
        return volumes

    def _find_csi_driver(self, claim: PersistentVolumeClaim) -> str:
        """Return the name of a claim's CSI driver, or "" if it is unknown.

        In-tree provisioners and EBS volumes count as the CSI drivers that replaced them.
        """
        if claim.spec.volume_name:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                return ""
            if volume.spec.csi is not None:
                return volume.spec.csi.driver
            return EBS if volume.spec.aws_elastic_block_store is not None else ""
        storage_class = self.classes.get(claim.spec.storage_class_name or "")
        if storage_class is None:
            return ""
        return CSI_NAMES.get(storage_class.provisioner, storage_class.provisioner)


def find_claim_key(pod: Pod, volume: Volume) -> str:
    """Return the ``namespace/name`` of the claim that a pod's volume uses, or "" if it uses no claim.

    The claim of an ephemeral volume is named after the pod and the volume.
    """
    if volume.persistent_volume_claim is not None:
        return f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
    if volume.ephemeral is not None:
        return f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"
    return ""


def _iter_volume_requirements(volume: PersistentVolume) -> Iterator[Requirements]:
    """Yield the requirements of each node affinity term of a volume. Terms without expressions are skipped.

    Hostnames of local volumes are ignored, because a new node has another hostname.
    """
    affinity = volume.spec.node_affinity and volume.spec.node_affinity.required
    is_local = volume.spec.local is not None or volume.spec.host_path is not None
    for term in affinity.node_selector_terms if affinity else ():
        expressions = term.match_expressions
        if is_local:
            expressions = tuple(expression for expression in expressions if expression.key != HOSTNAME)
        # A term that names only the hostname of a local volume allows all nodes.
        if expressions or (is_local and term.match_expressions):
            yield build_term_requirements(NodeSelectorTerm(expressions))


def _iter_class_requirements(storage_class: StorageClass) -> Iterator[Requirements]:
    """Yield the node requirements of each allowed topology of a StorageClass. Empty topologies are skipped."""
    for term in storage_class.allowed_topologies:
        if term.match_label_expressions:
            yield _build_topology_requirements(term)


def _build_topology_requirements(term: TopologySelectorTerm) -> Requirements:
    """Build the node requirements of an allowed topology of a StorageClass."""
    return Requirements.from_list(
        LabelRequirement.from_operator(expression.key, IN, expression.values)
        for expression in term.match_label_expressions
    )
