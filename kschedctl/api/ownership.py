"""Whose pods are: their controller, the workload behind it, and the labels by which it marks them."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.objects import ObjectMeta, OwnerReference, Pod, PodMeta

TEMPLATE_HASH = "pod-template-hash"
REVISION = "controller-revision-hash"
_JOB_LABELS = (
    *("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
    "batch.kubernetes.io/job-completion-index",
)

ADDED_LABELS: dict[str, tuple[str, ...]] = {
    "ReplicaSet": (TEMPLATE_HASH,),
    "Deployment": (TEMPLATE_HASH,),
    "StatefulSet": (REVISION, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"),
    "DaemonSet": (REVISION, "pod-template-generation"),
    "Job": _JOB_LABELS,
    "CronJob": _JOB_LABELS,
}
"""Kind -> the labels that its controller puts on the pods."""


class Owner(NamedTuple):
    """A workload that pods belong to."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """``Deployment shop/web``."""
        return f"{self.kind} {self.namespace}/{self.name}"


def controller_of(metadata: ObjectMeta | PodMeta) -> OwnerReference | None:
    """The reference to the controller of an object; None for one that nobody controls.

    Upstream: GetControllerOfNoCopy in staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go (v1.36).
    """
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


def in_revision(pod: Pod) -> bool:
    """Whether the pod is of a revision of a workload, told apart by TEMPLATE_HASH."""
    return TEMPLATE_HASH in pod.metadata.labels and controller_of(pod.metadata) is not None


def owner_of(pod: Pod) -> Owner:
    """The workload that a pod belongs to, of a ReplicaSet the Deployment behind it; a bare pod is its own."""
    meta = pod.metadata
    owner = controller_of(meta)
    if owner is None:
        return Owner("Pod", meta.namespace, meta.name)
    template_hash = meta.labels.get(TEMPLATE_HASH)
    if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
        return Owner("Deployment", meta.namespace, owner.name.removesuffix(f"-{template_hash}"))
    return Owner(owner.kind, meta.namespace, owner.name)
