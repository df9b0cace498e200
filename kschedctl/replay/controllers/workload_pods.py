"""The pods of a workload that the cluster has: pending ones, or one more replica made like the others.

CronJobs are not read, and Deployments, Jobs and DaemonSets not always; their pods and ReplicaSets name them.
Upstream: metadata.ownerReferences and the label pod-template-hash (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from kschedctl.api.api_object import ApiObject, object_key
from kschedctl.api.labels import parse_selector
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
from kschedctl.api.ownership import Owner, find_controller, find_owner
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
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.creation import create
from kschedctl.replay.controllers.plan_change import is_pod_of
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.target_creation import apply_creation, create_targets
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_change import get_ordinal
from kschedctl.replay.controllers.workload_pod_counts import objects_of
from kschedctl.replay.edits import pods_where
from kschedctl.scheduler.scheduler import Scheduler

_OF_CRON_JOB = re.compile(r"-\d+$")


def of_workload(scheduler: Scheduler, owner: Owner, manifest: Struct | None = None) -> list[TargetPod]:
    """The workload's waiting pods, one for those alike; else one more, made of ``manifest`` or as its others are.

    Of a DaemonSet whose template nobody knows one of the pods that it has. Raises UsageError when there is nothing to
    go by, InputError.
    """
    cluster = scheduler.cluster
    pods = pods_of(cluster, owner)
    if waiting := [pod for pod in pods if is_waiting(pod)]:
        return _waiting(scheduler, owner, waiting)
    if isinstance(manifest, StatefulSet) and pods:
        return create_targets(scheduler, [_after(manifest, pods)])
    if manifest is not None:
        return create_targets(scheduler, [manifest])
    if pods and owner.kind == "DaemonSet":
        several = f"one of {len(pods):,} pods of {owner}, none of which is pending"
        note = several if len(pods) > 1 else f"the only pod of {owner}, which is not pending"
        return [TargetPod(scheduler, scheduler.view.stored(pods[0]), note)]
    if pods:
        return [one_more(scheduler, owner, pods, f"one more pod of {owner}, none of which is pending")]
    if (template := template_of(cluster, owner)) is not None:
        return create_targets(scheduler, [template])
    raise _not_found(cluster, owner)


def is_waiting(pod: Pod) -> bool:
    """Whether it is the scheduler's turn: without a node, neither ended nor being deleted."""
    return not (pod.spec.node_name or pod.terminated or pod.metadata.deletion_timestamp)


def pods_of(cluster: Cluster, owner: Owner) -> list[Pod]:
    """The pods that it controls, itself or through ReplicaSets or Jobs; those that have ended too."""
    kind, namespace, name = owner
    sets = {rs.metadata.name for rs in cluster.replica_sets if controls(owner, rs)} if kind == "Deployment" else ()

    def mine(pod: Pod) -> bool:
        if is_pod_of(pod, kind, namespace, name):
            return True
        found_kind, found_namespace, owner_name = find_owner(pod)
        of_cron_job = kind == "CronJob" and found_kind == "Job" and _cron_job(owner_name) == name
        return found_namespace == namespace and (of_cron_job or (found_kind == "ReplicaSet" and owner_name in sets))

    return pods_where(cluster, mine, ended=True)


def workloads(cluster: Cluster) -> Iterator[Owner]:
    """What makes pods, as far as it can be seen, some more than once."""
    for pod in cluster.pods.templates:
        if not pod.metadata.owner_references:
            continue
        owner = find_owner(pod)
        yield owner
        if owner.kind == "Job" and _cron_job(owner.name) != owner.name:
            yield Owner("CronJob", owner.namespace, _cron_job(owner.name))
    yield from objects_of(cluster)
    for replica_set in cluster.replica_sets:
        if (deployment := find_controller(replica_set.metadata)) is not None:
            yield Owner(deployment.kind, replica_set.metadata.namespace, deployment.name)


def _cron_job(job: str) -> str:
    """The CronJob that made a Job of this name, if one did."""
    return _OF_CRON_JOB.sub("", job)


def _waiting(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod]) -> list[TargetPod]:
    columns = scheduler.view.pods
    groups: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name), []).append(pod)
    return [
        TargetPod(scheduler, scheduler.view.stored(alike[0]), _of_the_waiting(len(alike), len(pods), owner))
        for alike in groups.values()
    ]


def _of_the_waiting(alike: int, pods: int, owner: Owner) -> str:
    if pods == 1:
        return f"the only pending pod of {owner}"
    shared = f", {alike:,} of which are alike" if 1 < alike < pods else ", which are alike" if alike > 1 else ""
    return f"one of the {pods:,} pending pods of {owner}{shared}"


def _after(manifest: StatefulSet, pods: Sequence[Pod]) -> StatefulSet:
    """One that makes the pod after those that there are."""
    start = max(map(get_ordinal, pods)) + 1
    spec = replace(manifest.spec, replicas=1, ordinals=replace(manifest.spec.ordinals, start=start))
    return replace(manifest, spec=spec)


def _not_found(cluster: Cluster, owner: Owner) -> UsageError:
    kind, namespace, name = owner
    known = dict.fromkeys(workload for workload in workloads(cluster) if workload[0] == kind)
    names = [name, *get_close_matches(name, {owner[2] for owner in known})]
    near = [f"{kind.lower()}/{owner[2]} -n {owner[1]}" for owner in known if owner[2] in names]
    hint = f"did you mean {' or '.join(near[:3])}?" if near else "no pod and no ReplicaSet of it can be seen"
    return UsageError(f'{kind.lower()} "{namespace}/{name}" not found', hint=hint)


ORDINAL_LABELS = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})


def one_more(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod], note: str) -> TargetPod:
    """Like the youngest of its pods, with their priority; a StatefulSet's has the next ordinal and claims like theirs.

    Raises InputError.
    """
    stateful = owner.kind == "StatefulSet"
    like = max(pods, key=get_ordinal if stateful else _created)
    workload = _stateful_set(scheduler.cluster, owner, like) if stateful else _like(like)
    creation = create(scheduler.cluster, [workload])
    create_allowed_claims(scheduler.cluster, creation, creation.pods)
    ((made,),) = creation.pods.values()
    spec = replace(
        made.spec,
        priority_class_name=like.spec.priority_class_name,
        priority=like.spec.priority,
        preemption_policy=like.spec.preemption_policy,
    )
    applied = apply_creation(creation, scheduler)
    return TargetPod(applied, applied.view.stored(replace(made, spec=spec)), note)


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
            ordinals=StatefulSetOrdinals(get_ordinal(pod) + 1),
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


def waiting(cluster: Cluster, namespace: str | None, selector: str | None = None) -> list[Pod]:
    """The pods that wait for a node; not those that are being deleted. ``namespace``: None for all."""
    chosen = parse_selector(selector) if selector else None
    return [
        pod
        for pod in cluster.unbound_pods()
        if is_waiting(pod)
        and namespace in (None, pod.metadata.namespace)
        and (chosen is None or chosen.matches(pod.metadata.labels))
    ]


def described(namespace: str | None, selector: str | None = None) -> str:
    """``in namespace shop with labels app=web``."""
    where = "in all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{where} with labels {selector}" if selector else where
