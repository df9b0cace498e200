"""Manifests of workloads that exist in the cluster, rebuilt from the stored objects that were read.

`find_owner_manifest` creates pods like those of a workload, and `build_current_manifest` changes nothing in it. A
HorizontalPodAutoscaler brings the replicas of the workload that it scales within its bounds as soon as either of the
two is applied. Upstream: pkg/controller/podautoscaler (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import (
    ApiObject,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodTemplateSpec,
    StoredAutoscaler,
    StoredWorkload,
    Struct,
    get_object_key,
)
from kschedctl.api.ownership import TEMPLATE_HASH, Owner
from kschedctl.api.workloads import (
    SCALED_KINDS,
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    ReplicaSetManifest,
    ReplicationControllerManifest,
    StatefulSet,
    StatefulSetSpec,
    get_identity,
    with_replicas,
)
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.manifests import ClassifiedManifests
from kschedctl.replay.controllers.plan_change import ExistingPods, is_controlled_by
from kschedctl.replay.controllers.workload_change import get_ordinal


def find_owner_manifest(cluster: Cluster, owner: Owner) -> Struct | None:
    """Return a manifest that creates pods like the owner's, or None if none was read.

    A Deployment's manifest is built from its newest ReplicaSet, if there is one. In all other cases, the manifest is
    built from the stored workload.
    """
    kind, namespace, name = owner
    replica_sets = [stored for stored in cluster.replica_sets if is_controlled_by(owner, stored)]
    if kind == "Deployment" and replica_sets:
        replica_sets.sort(key=get_creation_time)
        return ReplicaSetManifest(replica_sets[-1].metadata, replica_sets[-1].spec)
    candidates = getattr(cluster, FIELDS[kind]) if kind in _MANIFEST_BUILDERS else ()
    for stored in candidates:
        if get_object_key(stored) == (namespace, name):
            return _MANIFEST_BUILDERS[kind](stored)
    return None


_MANIFEST_BUILDERS: Mapping[str, Callable[[Any], Struct]] = {
    "ReplicaSet": lambda obj: ReplicaSetManifest(obj.metadata, obj.spec),
    "ReplicationController": lambda obj: ReplicationControllerManifest(obj.metadata, obj.spec),
    "StatefulSet": lambda obj: StatefulSet(obj.metadata, StatefulSetSpec(template=obj.spec.template)),
    "Deployment": lambda obj: Deployment(
        obj.metadata, DeploymentSpec(1, obj.spec.template, selector=obj.spec.selector)
    ),
    "DaemonSet": lambda obj: DaemonSet(obj.metadata, DaemonSetSpec(obj.spec.template)),
    "Job": lambda obj: Job(obj.metadata, JobSpec(completion_mode=obj.spec.completion_mode, template=obj.spec.template)),
}
"""Workload kind -> function that turns a stored workload into a manifest that creates such pods."""


def get_creation_time(api_object: ApiObject) -> str:
    """Return the creation time of an object, or an empty string if it is unknown."""
    return api_object.metadata.creation_timestamp or ""


def build_current_manifest(cluster: Cluster, owner: Owner) -> Struct | None:
    """Build a manifest that would change nothing in a workload of the cluster.

    Return None if the workload does not exist or its pod template was not read. A Deployment that was not read is built
    from the youngest of its ReplicaSets.
    """
    candidates = cluster.list_in_namespace(FIELDS[owner.kind], owner.namespace)
    stored = next((candidate for candidate in candidates if candidate.metadata.name == owner.name), None)
    if stored is None and owner.kind == "Deployment":
        return _build_deployment_from_replica_sets(cluster, owner)
    if stored is None or stored.spec.template is None or not stored.spec.template.spec.containers:
        return None
    match owner.kind:
        case "Deployment":
            spec = stored.spec
            return Deployment(
                stored.metadata,
                DeploymentSpec(spec.replicas, spec.template, selector=spec.selector, paused=spec.paused),
            )
        case "StatefulSet":
            return _build_stateful_set(cluster, stored)
        case "ReplicaSet":
            return ReplicaSetManifest(stored.metadata, stored.spec)
        case _:  # the only other kind with a stored template is ReplicationController
            return ReplicationControllerManifest(stored.metadata, stored.spec)


def _build_deployment_from_replica_sets(cluster: Cluster, owner: Owner) -> Deployment | None:
    """Build a Deployment with the template of its youngest ReplicaSet, without the label with the template's hash.

    Return None if the Deployment has no ReplicaSet, or if the template has no containers. The replicas are left open,
    as for a manifest that does not set them.
    """
    replica_sets = [stored for stored in cluster.replica_sets if is_controlled_by(owner, stored)]
    if not replica_sets:
        return None
    youngest = max(replica_sets, key=get_creation_time)
    template = youngest.spec.template
    if not template.spec.containers:
        return None
    labels = {key: value for key, value in template.metadata.labels.items() if key != TEMPLATE_HASH}
    metadata = replace(youngest.metadata, name=owner.name, owner_references=())
    return Deployment(
        metadata, DeploymentSpec(template=PodTemplateSpec(replace(template.metadata, labels=labels), template.spec))
    )


def _build_stateful_set(cluster: Cluster, stored: StoredWorkload) -> StatefulSet:
    """Build a StatefulSet from the stored one. Its claim templates are recovered from the claims of its last pod."""
    spec = stored.spec
    pods = ExistingPods(cluster).find_workload_pods("StatefulSet", stored.metadata.namespace, stored.metadata.name)
    claims = dict(recover_claim_templates(cluster, max(pods, key=get_ordinal))) if pods else {}
    return StatefulSet(
        stored.metadata,
        StatefulSetSpec(
            replicas=spec.replicas,
            template=spec.template,
            volume_claim_templates=tuple(claims.values()),
            ordinals=spec.ordinals,
            selector=spec.selector,
            pod_management_policy=spec.pod_management_policy,
        ),
    )


def recover_claim_templates(cluster: Cluster, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim]]:
    """Yield the names of a StatefulSet's claim templates, each with a template like the claim that was created from it.

    A StatefulSet names its claims after the volume and the pod. Claims that were not read are left out.
    """
    claims = cluster.list_in_namespace("persistent_volume_claims", pod.metadata.namespace)
    claims_by_name = {claim.metadata.name: claim for claim in claims}
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is None or source.claim_name != f"{volume.name}-{pod.metadata.name}":
            continue
        claim = claims_by_name.get(source.claim_name)
        if claim is not None:
            metadata = ObjectMeta(volume.name, labels=claim.metadata.labels)
            yield volume.name, PersistentVolumeClaim(metadata, replace(claim.spec, volume_name=""))


_DEFAULT_MIN_REPLICAS = 1


def find_autoscaled_workloads(
    cluster: Cluster, autoscalers: Iterable[StoredAutoscaler], applied: Container[tuple[str, str, str]]
) -> list[Struct]:
    """Return manifests of the cluster's workloads that the autoscalers scale, as the workloads are now.

    Workloads that are applied themselves are left out, and so are workloads whose pod template was not read.
    """
    workloads: dict[Owner, Struct] = {}
    for autoscaler in autoscalers:
        target = get_scale_target(autoscaler)
        if target.kind in SCALED_KINDS and target not in applied and target not in workloads:
            manifest = build_current_manifest(cluster, target)
            if manifest is not None:
                workloads[target] = manifest
    return list(workloads.values())


def add_autoscaled_workloads(manifests: ClassifiedManifests, cluster: Cluster) -> None:
    """Add the workloads of the cluster that new autoscalers among the manifests scale. New ones have no UID."""
    autoscalers: Sequence[Any] = manifests.objects.get("HorizontalPodAutoscaler", ())
    new_autoscalers = [autoscaler for autoscaler in autoscalers if not autoscaler.metadata.uid]
    for workload in find_autoscaled_workloads(cluster, new_autoscalers, manifests.workloads):
        manifests.workloads[get_identity(workload)] = workload


def get_scale_target(autoscaler: StoredAutoscaler) -> Owner:
    """Return kind, namespace and name of the workload that the autoscaler scales."""
    reference = autoscaler.spec.scale_target_ref
    return Owner(reference.kind, autoscaler.metadata.namespace, reference.name)


class _AutoscaledWorkload(NamedTuple):
    """A workload after its HorizontalPodAutoscaler has brought its replicas within the bounds."""

    workload: Struct
    note: str = ""
    """The change in words, or an empty string if the replicas stay."""


def clamp_replicas_to_autoscaler(cluster: Cluster, workload: Struct) -> _AutoscaledWorkload:
    """Return the workload with its replicas within its HorizontalPodAutoscaler's bounds, and a note if they changed.

    An autoscaler applies its bounds at once, regardless of the metrics. The workload is returned unchanged if it has no
    autoscaler, or if it has 0 replicas, which turns autoscaling off.
    """
    owner = get_identity(workload)
    spec: Any = workload.spec  # type: ignore[attr-defined]
    if owner.kind not in SCALED_KINDS or spec.replicas == 0:
        return _AutoscaledWorkload(workload)
    bounded = bound_replicas(cluster, owner, 1 if spec.replicas is None else spec.replicas)
    if not bounded.note:
        return _AutoscaledWorkload(workload)
    return _AutoscaledWorkload(with_replicas(workload, bounded.replicas), bounded.note)


class BoundedReplicas(NamedTuple):
    """A workload's number of replicas within the bounds of its HorizontalPodAutoscaler."""

    replicas: int
    note: str = ""
    """A sentence that says which bound changes the number, empty if none does."""


def bound_replicas(cluster: Cluster, owner: Owner, replicas: int) -> BoundedReplicas:
    """Return how many replicas a workload has once its HorizontalPodAutoscaler, if any, has applied its bounds.

    With 0 replicas, the autoscaler does nothing.
    """
    autoscalers = cluster.list_in_namespace("horizontal_pod_autoscalers", owner.namespace)
    autoscaler = next((candidate for candidate in autoscalers if get_scale_target(candidate) == owner), None)
    if autoscaler is None or not replicas:
        return BoundedReplicas(replicas)
    bounded, limit = _clamp_replicas(autoscaler, replicas)
    if bounded == replicas:
        return BoundedReplicas(replicas)
    verb = "raises" if bounded > replicas else "lowers"
    change = f"{verb} {owner} from {replicas:,} to {bounded:,} replicas at once ({limit})"
    return BoundedReplicas(bounded, f"HorizontalPodAutoscaler {autoscaler.metadata.name} {change}")


def _clamp_replicas(autoscaler: StoredAutoscaler, replicas: int) -> tuple[int, str]:
    """Return the replicas within the autoscaler's bounds, and the name of the bound that changes them.

    The name is an empty string if the replicas stay.
    """
    minimum = autoscaler.spec.min_replicas
    minimum = _DEFAULT_MIN_REPLICAS if minimum is None else minimum
    if 0 < autoscaler.spec.max_replicas < replicas:
        return autoscaler.spec.max_replicas, "maxReplicas"
    if replicas < minimum:
        return minimum, "minReplicas"
    return replicas, ""
