"""Manifests applied to a cluster: the objects that controllers and admission would make of them.

Upstream: the controllers of pkg/controller/volume/ephemeral, pkg/controller/resourceclaim and
pkg/controller/volume/persistentvolume, and the admission plugins Priority, DefaultTolerationSeconds and
DefaultStorageClass (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kschedctl.api.admission import admit_runtime_class
from kschedctl.api.copying import replace
from kschedctl.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    Pod,
    PodResourceClaimStatus,
    ResourceClaim,
    SelectorRequirement,
    StorageClass,
    Struct,
    TypedObjectReference,
    VolumeNodeAffinity,
)
from kschedctl.api.pod_table import NO_PODS
from kschedctl.api.priority import admit_priority
from kschedctl.api.workloads import make, number_of_pods, title
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.pod_defaults import PodDefaults, WorkloadNote
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_key,
)
from kschedctl.scheduler.scheduler import Scheduler


def admit(pod: Pod, cluster: Cluster) -> Pod:
    """The pod as it would be created. Raises InputError where its class or priority does not allow for it."""
    (pod,) = PodDefaults(cluster).fill_in(f"Pod {pod.key}", [pod])
    return _classed(pod, cluster)


def _classed(pod: Pod, cluster: Cluster) -> Pod:
    """With what its PriorityClass and its RuntimeClass give it. Raises InputError."""
    all_known = cluster.gap("PriorityClass") is None
    return admit_runtime_class(admit_priority(pod, cluster.priority_classes, all_known), cluster.runtime_classes)


MOST_PODS = 150_000
"""How many pods manifests may make together: no cluster is made for more.
Source: https://kubernetes.io/docs/setup/best-practices/cluster-large/"""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass
class Creation:
    """What is made: pods by workload, and the other objects by kind. ``assumed`` are the guesses, in words."""

    pods: dict[str, list[Pod]] = field(default_factory=dict)
    objects: dict[str, list[Struct]] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    notes: list[WorkloadNote] = field(default_factory=list)

    def applied(self, cluster: Cluster) -> Cluster:
        """The cluster with the objects, but without the pods; itself where there are none."""
        return cluster.with_objects(self.objects) if self.objects else cluster

    def add(self, kind: str, found: Struct) -> None:
        self.objects.setdefault(kind, []).append(found)


def create(cluster: Cluster, workloads: Iterable[Struct], *, refused_too: bool = False) -> Creation:
    """What would come to be in the cluster; pods are as the API server would hold them. Raises InputError.

    ``refused_too``: also pods that admission refuses, about which somebody else says so.

    Volumes and claims of the cluster that no API server has seen yet, having neither UID nor phase, come to be too.
    """
    workloads = list(workloads)
    _check_number(workloads, len(cluster.nodes))
    creation = Creation()
    view = Scheduler(replace(cluster, pods=NO_PODS, nodes=())).view
    for volume in filter(_is_new, cluster.persistent_volumes):
        creation.add("PersistentVolume", replace(volume, status=PhaseStatus("Available")))
    for claim in filter(_is_new, cluster.persistent_volume_claims):
        _create_claim(claim, cluster, creation)
    claims = {(c.metadata.namespace, c.metadata.name) for c in cluster.persistent_volume_claims}
    defaults = PodDefaults(cluster)
    for workload in workloads:
        made = make(workload, cluster.nodes)
        if made.owner:
            creation.add(*made.owner)
        pods = [_identified(pod) for pod in made.pods]
        for claim in (*made.claims, *(claim for pod in pods for claim in _ephemeral_claims(pod))):
            if (claim.metadata.namespace, claim.metadata.name) not in claims:
                _create_claim(claim, cluster, creation)
        pods = [_with_resource_claims(pod, cluster, creation) for pod in pods]
        try:
            pods = defaults.fill_in(made.workload, pods)
            admitted = [_classed(pod, cluster) for pod in pods]
        except InputError as error:
            if not refused_too:
                raise InputError(error.what, where=made.workload, hint=error.hint) from None
            admitted = pods
        creation.pods.setdefault(made.workload, []).extend(view.admitted(view.stored(pod)) for pod in admitted)
    creation.notes += defaults.notes
    return creation


def _check_number(workloads: Sequence[Struct], nodes: int) -> None:
    """Raises InputError that names the workload of most pods where there are too many."""
    numbers = [number_of_pods(workload, nodes) for workload in workloads]
    if sum(numbers) > MOST_PODS:
        most = max(range(len(numbers)), key=numbers.__getitem__)
        what = f"{numbers[most]:,} pods, {sum(numbers):,} with all manifests, are too many to simulate"
        hint = f"up to {MOST_PODS:,} are, as many as a cluster can have"
        raise InputError(what, where=title(workloads[most]), hint=hint)


def _is_new(found: PersistentVolume | PersistentVolumeClaim) -> bool:
    return not (found.metadata.uid or found.status.phase)


def _identified(pod: Pod) -> Pod:
    """With a UID, which what is made for the pod refers to."""
    meta = pod.metadata
    return pod if meta.uid else replace(pod, metadata=replace(meta, uid=f"{meta.namespace}/{meta.name}"))


# -- volumes ------------------------------------------------------------------------------------------------------


def _ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is not None and template.spec is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            meta = ObjectMeta(name, pod.metadata.namespace, owner_references=(_owned_by(pod),))
            yield PersistentVolumeClaim(meta, template.spec)


def _create_claim(claim: PersistentVolumeClaim, cluster: Cluster, creation: Creation) -> None:
    """A claim of a class that does not wait for a pod is provisioned at once, on nodes that nobody knows yet."""
    if not claim_class(claim) and claim.spec.storage_class_name is None:
        default = default_class(cluster.storage_classes)
        claim = replace(claim, spec=replace(claim.spec, storage_class_name=default)) if default else claim
    storage_class = next((c for c in cluster.storage_classes if c.metadata.name == claim_class(claim)), None)
    if storage_class is not None and not claim.spec.volume_name and _provisions_at_once(storage_class):
        volume = _provisioned(claim, storage_class)
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
        claim = PersistentVolumeClaim(
            replace(claim.metadata, annotations=annotations),
            replace(claim.spec, volume_name=volume.metadata.name),
            PhaseStatus("Bound"),
        )
        creation.add("PersistentVolume", volume)
        where = "in its topologies" if volume.spec.node_affinity else "from every node"
        name = storage_class.metadata.name
        creation.assumed.append(
            f"the volume that class {name} makes for claim {claim_key(claim)} can be reached {where}"
        )
    creation.add("PersistentVolumeClaim", claim)


def default_class(classes: Sequence[StorageClass]) -> str | None:
    """The class of claims that name none: the newest that is marked as default, of those the first by name."""
    marked = [c for c in classes if c.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    newest = max((c.metadata.creation_timestamp or "" for c in marked), default="")
    names = [c.metadata.name for c in marked if (c.metadata.creation_timestamp or "") == newest]
    return min(names, default=None)


def _provisions_at_once(storage_class: StorageClass) -> bool:
    waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return not waits and storage_class.provisioner not in ("", NO_PROVISIONER)


def _provisioned(claim: PersistentVolumeClaim, storage_class: StorageClass) -> PersistentVolume:
    meta = claim.metadata
    terms = tuple(
        NodeSelectorTerm(tuple(SelectorRequirement(e.key, "In", e.values) for e in term.match_label_expressions))
        for term in storage_class.allowed_topologies
    )
    spec = PersistentVolumeSpec(
        capacity=claim.spec.resources.requests,
        access_modes=claim.spec.access_modes,
        claim_ref=TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        storage_class_name=storage_class.metadata.name,
        volume_mode=claim.spec.volume_mode,
        node_affinity=VolumeNodeAffinity(NodeSelector(terms)) if terms else None,
    )
    return PersistentVolume(ObjectMeta(f"pvc-{meta.namespace}-{meta.name}"), spec, PhaseStatus("Bound"))


# -- devices ------------------------------------------------------------------------------------------------------


def _with_resource_claims(pod: Pod, cluster: Cluster, creation: Creation) -> Pod:
    """The pod with the names of the claims that are made for it from templates."""
    made = tuple(_resource_claims(pod, cluster))
    for _, claim in made:
        creation.add("ResourceClaim", claim)
    statuses = (*pod.status.resource_claim_statuses, *(status for status, _ in made))
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses)) if made else pod


def _resource_claims(pod: Pod, cluster: Cluster) -> Iterator[tuple[PodResourceClaimStatus, ResourceClaim]]:
    known = {status.name for status in pod.status.resource_claim_statuses}
    meta = pod.metadata
    for reference in pod.spec.resource_claims:
        wanted = meta.namespace, reference.resource_claim_template_name or ""
        same = (t for t in cluster.resource_claim_templates if (t.metadata.namespace, t.metadata.name) == wanted)
        template = next(same, None)
        if template is not None and reference.name not in known:
            name = f"{meta.name}-{reference.name}"
            claim_meta = ObjectMeta(name, meta.namespace, owner_references=(_owned_by(pod),))
            yield PodResourceClaimStatus(reference.name, name), ResourceClaim(claim_meta, template.spec.spec)


def _owned_by(pod: Pod) -> OwnerReference:
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)
