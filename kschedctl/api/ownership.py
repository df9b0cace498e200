"""Owners of pods: the controller, the workload behind it, and the labels it puts on its pods."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.objects import ObjectMeta, OwnerReference, Pod, PodMeta

TEMPLATE_HASH = "pod-template-hash"
REVISION = "controller-revision-hash"
COPIED_FROM_NODES = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Labels that admission copies from the node when a pod is bound. Upstream: plugin/pkg/admission/podtopologylabels."""
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
"""The labels that the controller of each kind adds to its pods."""


class Owner(NamedTuple):
    """A workload that owns pods."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the owner as ``Deployment shop/web``."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @classmethod
    def parse(cls, title: str) -> Owner:
        """Parse the title of an owner, such as ``Pod shop/web``, which is the owner's ``str``.

        The namespace is "" if the title has none, as in ``Node w1``.
        """
        kind, _, key = title.partition(" ")
        namespace, _, name = key.rpartition("/")
        return cls(kind, namespace, name)


def find_controller(metadata: ObjectMeta | PodMeta) -> OwnerReference | None:
    """Return the owner reference to the controller of an object, or None if it has no controller.

    Upstream: GetControllerOfNoCopy in staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go (v1.36).
    """
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


def has_template_hash(pod: Pod) -> bool:
    """Return whether a controller owns the pod and labels it with a hash of the pod template."""
    return TEMPLATE_HASH in pod.metadata.labels and find_controller(pod.metadata) is not None


def find_owner(pod: Pod) -> Owner:
    """Return the workload that owns the pod: its controller, the controller's Deployment, or the pod itself.

    A ReplicaSet belongs to a Deployment if its name ends with the hash of the pod template. A pod without a controller
    is its own owner.
    """
    meta = pod.metadata
    owner = find_controller(meta)
    if owner is None:
        return Owner("Pod", meta.namespace, meta.name)
    template_hash = meta.labels.get(TEMPLATE_HASH)
    if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
        return Owner("Deployment", meta.namespace, owner.name.removesuffix(f"-{template_hash}"))
    return Owner(owner.kind, meta.namespace, owner.name)
