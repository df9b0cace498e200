"""One more pod of a workload that the cluster has, made as its others are.

Upstream: pkg/controller/{replicaset,statefulset} (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kschedctl.api.api_object import ApiObject, object_key
from kschedctl.api.objects import (
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    StatefulSetOrdinals,
    StoredWorkload,
    Struct,
)
from kschedctl.api.ownership import Owner, find_controller
from kschedctl.api.workloads import (
    NEW,
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    Replicated,
    ReplicationControllerManifest,
    StatefulSet,
    StatefulSetSpec,
)
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.asked_pod import AskedPod, scheduler_of
from kschedctl.replay.controllers.creation import create
from kschedctl.replay.controllers.rollout_limits import ordinal
from kschedctl.replay.controllers.template_claims import claims_within_quotas
from kschedctl.scheduler.scheduler import Scheduler

ORDINAL_LABELS = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})


def one_more(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod], note: str) -> AskedPod:
    """Like the youngest of its pods, with their priority; a StatefulSet's has the next ordinal and claims like theirs.

    Raises InputError.
    """
    stateful = owner.kind == "StatefulSet"
    like = max(pods, key=ordinal if stateful else _created)
    workload = _stateful_set(scheduler.cluster, owner, like) if stateful else _like(like)
    creation = create(scheduler.cluster, [workload])
    claims_within_quotas(scheduler.cluster, creation, creation.pods)
    ((made,),) = creation.pods.values()
    spec = replace(
        made.spec,
        priority_class_name=like.spec.priority_class_name,
        priority=like.spec.priority,
        preemption_policy=like.spec.preemption_policy,
    )
    applied = scheduler_of(creation, scheduler)
    return AskedPod(applied, applied.view.stored(replace(made, spec=spec)), note)


def template_of(cluster: Cluster, owner: Owner) -> Struct | None:
    """What makes such pods: the youngest ReplicaSet of a Deployment, or the workload itself where it is read."""
    kind, namespace, name = owner
    sets = sorted((rs for rs in cluster.replica_sets if controls(owner, rs)), key=_created)
    if kind == "Deployment" and sets:
        return Replicated(sets[-1].metadata, sets[-1].spec)
    there = getattr(cluster, FIELDS[kind]) if kind in _AS_READ else ()
    obj = next((obj for obj in there if object_key(obj) == (namespace, name)), None)
    return None if obj is None else _AS_READ[kind](obj)


_AS_READ: Mapping[str, Callable[[Any], Struct]] = {
    "ReplicaSet": lambda obj: Replicated(obj.metadata, obj.spec),
    "ReplicationController": lambda obj: ReplicationControllerManifest(obj.metadata, obj.spec),
    "StatefulSet": lambda obj: StatefulSet(obj.metadata, StatefulSetSpec(template=obj.spec.template)),
    "Deployment": lambda obj: Deployment(
        obj.metadata, DeploymentSpec(1, obj.spec.template, selector=obj.spec.selector)
    ),
    "DaemonSet": lambda obj: DaemonSet(obj.metadata, DaemonSetSpec(obj.spec.template)),
    "Job": lambda obj: Job(obj.metadata, JobSpec(completion_mode=obj.spec.completion_mode, template=obj.spec.template)),
}
"""Kind -> the workload, of one of the cluster, as far as it says what its pods are like."""


def controls(owner: Owner, stored_workload: StoredWorkload) -> bool:
    """Whether the object names this owner as its controller."""
    meta = stored_workload.metadata
    by = find_controller(meta)
    return by is not None and Owner(by.kind, meta.namespace, by.name) == owner


def _created(api_object: ApiObject) -> str:
    return api_object.metadata.creation_timestamp or ""


def _like(pod: Pod) -> Pod:
    """A bare pod that names the same controller."""
    meta = pod.metadata
    owner = next(o.name for o in meta.owner_references if o.controller)
    made = PodMeta(
        f"{owner}-{NEW}",
        meta.namespace,
        labels=meta.labels,
        owner_references=meta.owner_references,
        annotations=meta.annotations,
    )
    return Pod(made, _unplaced(pod), PodStatus("Pending"))


def _unplaced(pod: Pod) -> PodSpec:
    """The spec without a node and without what admission makes of a PriorityClass, which may be gone."""
    return replace(pod.spec, node_name="", priority=None, preemption_policy=None, priority_class_name="")


def _stateful_set(cluster: Cluster, owner: Owner, pod: Pod) -> StatefulSet:
    """One that makes just the next pod after this one."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in ORDINAL_LABELS}
    claims = dict(_claim_templates(cluster, pod))
    volumes = tuple(volume for volume in pod.spec.volumes if volume.name not in claims)
    template = PodTemplateSpec(
        PodMeta(labels=labels, annotations=pod.metadata.annotations), replace(_unplaced(pod), volumes=volumes)
    )
    return StatefulSet(
        ObjectMeta(owner.name, owner.namespace),
        StatefulSetSpec(
            replicas=1,
            template=template,
            volume_claim_templates=tuple(claims.values()),
            ordinals=StatefulSetOrdinals(ordinal(pod) + 1),
        ),
    )


def _claim_templates(cluster: Cluster, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim]]:
    """Volume -> the template of its claim, which is named after volume and pod; as far as such claims can be seen."""
    claims = cluster.in_namespace("persistent_volume_claims", pod.metadata.namespace)
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == f"{volume.name}-{pod.metadata.name}":
            for like in (claim for claim in claims if claim.metadata.name == source.claim_name):
                meta = ObjectMeta(volume.name, labels=like.metadata.labels)
                yield volume.name, PersistentVolumeClaim(meta, replace(like.spec, volume_name=""))
