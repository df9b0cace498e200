"""Manifests applied to a cluster: the objects that controllers and admission would make of them.

Upstream: the controllers of pkg/controller/volume/ephemeral, pkg/controller/resourceclaim and
pkg/controller/volume/persistentvolume, and the admission plugins Priority, DefaultTolerationSeconds and
DefaultStorageClass (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

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
from kschedctl.cluster import LIMITS, NOT_GIVEN, Cluster
from kschedctl.errors import InputError
from kschedctl.reports.unknown import UnknownKind, reasons
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_key,
)
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.basics.unknown import CREATION, VERDICT
from kschedctl.studies.controllers.admissions import is_counted
from kschedctl.studies.controllers.hooks_not_asked import HOOK_KINDS
from kschedctl.studies.controllers.limit_ranges import LimitRangeDefaults


def admit(pod: Pod, cluster: Cluster) -> Pod:
    """The pod as it would be created. Raises InputError where its class or priority does not allow for it."""
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
    limits = LimitRangeDefaults(cluster)
    for workload in workloads:
        made = make(workload, cluster.nodes)
        if made.owner:
            creation.add(*made.owner)
        pods = [_identified(pod) for pod in made.pods]
        for claim in (*made.claims, *(claim for pod in pods for claim in _ephemeral_claims(pod))):
            if (claim.metadata.namespace, claim.metadata.name) not in claims:
                _create_claim(claim, cluster, creation)
        pods = [_with_resource_claims(pod, cluster, creation) for pod in pods]
        pods = limits.fill_in(made.workload, pods)
        try:
            admitted = [admit(pod, cluster) for pod in pods]
        except InputError as error:
            if not refused_too:
                raise InputError(error.what, where=made.workload, hint=error.hint) from None
            admitted = pods
        creation.pods.setdefault(made.workload, []).extend(view.admitted(view.stored(pod)) for pod in admitted)
    creation.assumed += limits.told
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
    statuses = tuple(_resource_claims(pod, cluster, creation))
    status = replace(pod.status, resource_claim_statuses=(*pod.status.resource_claim_statuses, *statuses))
    return replace(pod, status=status) if statuses else pod


def _resource_claims(pod: Pod, cluster: Cluster, creation: Creation) -> Iterator[PodResourceClaimStatus]:
    known = {status.name for status in pod.status.resource_claim_statuses}
    meta = pod.metadata
    for reference in pod.spec.resource_claims:
        wanted = meta.namespace, reference.resource_claim_template_name or ""
        same = (t for t in cluster.resource_claim_templates if (t.metadata.namespace, t.metadata.name) == wanted)
        template = next(same, None)
        if template is not None and reference.name not in known:
            name = f"{meta.name}-{reference.name}"
            claim_meta = ObjectMeta(name, meta.namespace, owner_references=(_owned_by(pod),))
            creation.add("ResourceClaim", ResourceClaim(claim_meta, template.spec.spec))
            yield PodResourceClaimStatus(reference.name, name)


def _owned_by(pod: Pod) -> OwnerReference:
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)


ENFORCE, PRIVILEGED = "pod-security.kubernetes.io/enforce", "privileged"
NOT_LOOKED_AT = "quotas, limits and policies, by which the API server may refuse to create the pods"
NAMED, NAMED_IN_FULL = 3, 3
"""Namespaces, and objects of one."""


def limits_not_looked_at(
    cluster: Cluster, namespaces: Iterable[str], counted: Mapping[str, bool] = MappingProxyType({})
) -> tuple[str, ...]:
    """A line where one of the namespaces in which pods are created has such, or may have; else nothing.

    ``counted``: the namespaces whose quotas and LimitRanges are replayed, and whether all of admission is.
    """
    within = sorted(set(namespaces))
    found = {name: what for name in within if (what := list(_limits(cluster, name, counted.get(name))))}
    unread = list(_unread(cluster, within))
    told = [*_named(found), *([reasons(unread)] if unread else [])]
    return (f"{NOT_LOOKED_AT}: {'; '.join(told)}",) if told else ()


def unread_limits(cluster: Cluster, namespaces: Iterable[str]) -> tuple[UnknownKind, ...]:
    """What may keep pods of these namespaces from being created and could not be read; files need not tell of it.

    Of webhooks and policies ``hooks_not_asked`` tells.
    """
    found = _unread(cluster, sorted(set(namespaces)), VERDICT)
    own = (each for each in found if each.kind not in HOOK_KINDS.values())
    return tuple(each for each in own if not each.why.startswith(NOT_GIVEN))


def _unread(cluster: Cluster, namespaces: Iterable[str], affects: str = CREATION) -> Iterator[UnknownKind]:
    namespaces = list(namespaces)
    gaps = {
        HOOK_KINDS.get(kind, kind): gap
        for kind in (*LIMITS, "Namespace")
        if (gap := next(filter(None, (cluster.gap(kind, namespace) for namespace in namespaces)), None))
    }
    yield from (UnknownKind(kind, gap.why, affects) for kind, gap in gaps.items())


def _limits(cluster: Cluster, namespace: str, counted: bool | None) -> Iterator[str]:
    """``ResourceQuota gold``, ``Pod Security restricted``: what a namespace has, less what is ``counted``."""
    for quota in cluster.in_namespace("resource_quotas", namespace):
        if counted is None or not is_counted(quota, in_full=counted):
            yield f"ResourceQuota {quota.metadata.name}"
    for limit_range in cluster.in_namespace("limit_ranges", namespace) if counted is None else ():
        yield f"LimitRange {limit_range.metadata.name}"
    for each in () if counted else cluster.namespaces:
        level = each.metadata.labels.get(ENFORCE, PRIVILEGED)
        if each.metadata.name == namespace and level != PRIVILEGED:
            yield f"Pod Security {level}"


def _named(found: Mapping[str, list[str]]) -> Iterator[str]:
    for namespace in list(found)[:NAMED]:
        what = found[namespace]
        more = f" and {len(what) - NAMED_IN_FULL:,} more" if len(what) > NAMED_IN_FULL else ""
        yield f"namespace {namespace} has {', '.join(what[:NAMED_IN_FULL])}{more}"
    if len(found) > NAMED:
        yield f"and {len(found) - NAMED:,} more namespaces"
