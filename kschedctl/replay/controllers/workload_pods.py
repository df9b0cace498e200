"""The pods that stand for a workload of the cluster: its pending pods, or one more pod like the existing ones.

CronJobs are not read, and Deployments, Jobs and DaemonSets not always; their pods and ReplicaSets name them. Upstream:
metadata.ownerReferences and the label pod-template-hash (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import (
    ObjectMeta,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    StatefulSetOrdinals,
    Struct,
)
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.api.workloads import (
    NEW_TEMPLATE_HASH,
    StatefulSet,
    StatefulSetSpec,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.controllers.plan_change import is_controlled_by, is_pod_of_workload
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.stored_workloads import (
    find_owner_manifest,
    get_creation_time,
    recover_claim_templates,
)
from kschedctl.replay.controllers.target_creation import add_created_objects, create_targets
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_change import ORDINAL_LABELS, get_ordinal
from kschedctl.replay.controllers.workload_pod_counts import find_pod_creators
from kschedctl.replay.edits import select_pods
from kschedctl.replay.pending_pods import is_pending
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import join_words

_CRON_JOB_SUFFIX = re.compile(r"-\d+$")


def find_targets_of_workload(scheduler: Scheduler, owner: Owner, manifest: Struct | None = None) -> list[TargetPod]:
    """Return targets that stand for the pods of a workload.

    There is one target for each group of identical pending pods. If no pod is pending, the only target is one more pod.
    This pod is created from ``manifest`` or, without a manifest, as a copy of the workload's other pods or from the
    workload's stored template. For a DaemonSet without a manifest, the target is one of the existing pods.

    Raises UsageError if nothing is known about the pods, and InputError if admission denies the additional pod.
    """
    cluster = scheduler.cluster
    pods = find_pods_of_owner(cluster, owner)
    pending = [pod for pod in pods if is_pending(pod)]
    if pending:
        return _build_targets_of_pending_pods(scheduler, owner, pending)

    # One more pod from the manifest
    if isinstance(manifest, StatefulSet) and pods:
        return create_targets(scheduler, [_start_at_next_ordinal(manifest, pods)])
    if manifest is not None:
        return create_targets(scheduler, [manifest])

    # One more pod like the others
    if pods and owner.kind == "DaemonSet":
        note = f"the only pod of {owner}, which is not pending"
        if len(pods) > 1:
            note = f"one of {len(pods):,} pods of {owner}, none of which is pending"
        return [TargetPod(scheduler, scheduler.view.build_stored_pod(pods[0]), note)]
    if pods:
        return [build_additional_pod(scheduler, owner, pods, f"one more pod of {owner}, none of which is pending")]

    # The first pod of the stored template
    template = find_owner_manifest(cluster, owner)
    if template is not None:
        return create_targets(scheduler, [template])
    raise _build_not_found_error(cluster, owner)


def find_pods_of_owner(cluster: Cluster, owner: Owner) -> list[Pod]:
    """Return the pods that the owner controls directly or through ReplicaSets or Jobs, including ended ones.

    Jobs of a CronJob are recognized by their names.
    """
    kind, namespace, name = owner
    replica_sets = set()
    if kind == "Deployment":
        replica_sets = {stored.metadata.name for stored in cluster.replica_sets if is_controlled_by(owner, stored)}

    def is_controlled(pod: Pod) -> bool:
        """Return whether the owner controls the pod directly, through a ReplicaSet or, for a CronJob, through a Job."""
        if is_pod_of_workload(pod, kind, namespace, name):
            return True
        pod_owner = find_owner(pod)
        if pod_owner.namespace != namespace:
            return False
        if pod_owner.kind == "ReplicaSet":
            return pod_owner.name in replica_sets
        return kind == "CronJob" and pod_owner.kind == "Job" and _guess_cron_job_name(pod_owner.name) == name

    return select_pods(cluster, is_controlled, include_ended=True)


def iter_workloads(cluster: Cluster) -> Iterator[Owner]:
    """Yield the workloads that were read, and the workloads that pods and ReplicaSets name as owners.

    A pod of a Job also yields the CronJob that may have created the Job. Some workloads are yielded more than once.
    """
    for pod in cluster.pods.templates:
        if not pod.metadata.owner_references:
            continue
        owner = find_owner(pod)
        yield owner
        if owner.kind == "Job" and _guess_cron_job_name(owner.name) != owner.name:
            yield Owner("CronJob", owner.namespace, _guess_cron_job_name(owner.name))
    yield from find_pod_creators(cluster)
    for replica_set in cluster.replica_sets:
        controller = find_controller(replica_set.metadata)
        if controller is not None:
            yield Owner(controller.kind, replica_set.metadata.namespace, controller.name)


def _guess_cron_job_name(job: str) -> str:
    """Return the name of the CronJob that may have created a Job of this name: the name without "-" and a number."""
    return _CRON_JOB_SUFFIX.sub("", job)


def _build_targets_of_pending_pods(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod]) -> list[TargetPod]:
    """Return a target for each group of pending pods that look the same and have the same nominated node.

    Pods look the same if the scheduler sees no difference between them.
    """
    table = scheduler.view.pods
    groups: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        info_code = table.get_info_number(table.index[pod.key])  # equal for pods that look the same to the scheduler
        groups.setdefault((info_code, pod.status.nominated_node_name), []).append(pod)
    return [
        TargetPod(
            scheduler,
            scheduler.view.build_stored_pod(group[0]),
            _describe_pending_target(len(group), len(pods), owner),
            pending_replicas=len(pods),
        )
        for group in groups.values()
    ]


def _describe_pending_target(alike: int, pods: int, owner: Owner) -> str:
    """Describe one of the owner's ``pods`` pending pods. ``alike`` of them, including this one, are identical."""
    if pods == 1:
        return f"the only pending pod of {owner}"
    shared = ""
    if 1 < alike < pods:
        shared = f", {alike:,} of which are identical"
    elif alike > 1:
        shared = ", which are identical"
    return f"one of the {pods:,} pending pods of {owner}{shared}"


def _start_at_next_ordinal(manifest: StatefulSet, pods: Sequence[Pod]) -> StatefulSet:
    """Return the StatefulSet, changed so that it creates only the pod after the existing ones."""
    start = max(map(get_ordinal, pods)) + 1
    spec = replace(manifest.spec, replicas=1, ordinals=replace(manifest.spec.ordinals, start=start))
    return replace(manifest, spec=spec)


def _build_not_found_error(cluster: Cluster, owner: Owner) -> UsageError:
    """Build the error for an unknown workload, which suggests workloads of other kinds, and similar names."""
    kind, namespace, name = owner
    suggestions = suggest_workloads(cluster, name, kind)
    no_pod = "it has no pod and no ReplicaSet" if kind == "Deployment" else "it has no pod"
    hint = f"did you mean {join_words(suggestions[:3], 'or')}?" if suggestions else no_pod
    return UsageError(f'{kind.lower()} "{namespace}/{name}" not found', hint=hint)


def suggest_workloads(cluster: Cluster, name: str, kind: str = "", namespace: str | None = None) -> list[str]:
    """Suggest workloads that the user may have meant, such as `job/train -n ml`, best first.

    Workloads of the `kind` with the name come first, followed by workloads of the `kind` with a similar name. If no
    such workload exists, workloads of other kinds with the name are suggested. With `namespace`, workloads in other
    namespaces are left out.
    """
    candidates = dict.fromkeys((*iter_workloads(cluster), *_iter_pod_holders_and_owners(cluster)))
    if namespace is not None:
        candidates = {candidate: None for candidate in candidates if candidate.namespace == namespace}
    of_kind = [candidate for candidate in candidates if candidate.kind == kind]
    similar_names = [name, *get_close_matches(name, {candidate.name for candidate in of_kind})]
    similar = [candidate for candidate in of_kind if candidate.name in similar_names]
    similar.sort(key=lambda candidate: candidate.name != name)  # equal names first
    of_other_kinds = [candidate for candidate in candidates if candidate.name == name and candidate.kind != "Pod"]
    suggested = similar or of_other_kinds
    return [f"{candidate.kind.lower()}/{candidate.name} -n {candidate.namespace}" for candidate in suggested]


def _iter_pod_holders_and_owners(cluster: Cluster) -> Iterator[Owner]:
    """Yield all Workloads and PodGroups, which may hold pods back from kube-scheduler, each after its owners."""
    holders = [
        *(("Workload", workload.metadata) for workload in cluster.kueue_workloads),
        *(("PodGroup", group.metadata) for group in cluster.pod_groups),
        *(("PodGroup", group.metadata) for group in cluster.coscheduling_pod_groups),
        *(("PodGroup", group.metadata) for group in cluster.volcano_pod_groups),
    ]
    for kind, metadata in holders:
        for reference in metadata.owner_references:
            yield Owner(reference.kind, metadata.namespace, reference.name)
        yield Owner(kind, metadata.namespace, metadata.name)


def build_additional_pod(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod], note: str) -> TargetPod:
    """Build one more pod like a workload's newest pod, and add it to a copy of the scheduler.

    For a StatefulSet, the new pod is like the pod with the highest ordinal. The new pod has the next ordinal, and its
    claims are like the existing pod's claims. The result holds the copied scheduler and the new pod, whose priority is
    that of the existing pod. ``note`` describes the target. Raises InputError if admission denies the pod.
    """
    workload: StatefulSet | Pod
    if owner.kind == "StatefulSet":
        model = max(pods, key=get_ordinal)
        next_ordinal = get_ordinal(model) + 1
        workload = build_stateful_set_like(scheduler.cluster, owner, model, range(next_ordinal, next_ordinal + 1))
    else:
        model = max(pods, key=get_creation_time)
        workload = _copy_as_bare_pod(model)
    creation = create_workload_objects(scheduler.cluster, [workload])
    create_allowed_claims(scheduler.cluster, creation, creation.pods)
    [created_pods] = creation.pods.values()  # of the only workload
    [pod] = created_pods
    spec = replace(
        pod.spec,
        priority_class_name=model.spec.priority_class_name,
        priority=model.spec.priority,
        preemption_policy=model.spec.preemption_policy,
    )
    applied_scheduler = add_created_objects(creation, scheduler)
    return TargetPod(applied_scheduler, applied_scheduler.view.build_stored_pod(replace(pod, spec=spec)), note)


def _copy_as_bare_pod(pod: Pod) -> Pod:
    """Return a new pending pod with the labels, annotations and controller of the pod, but without its node.

    The new pod has the name that its controller would generate. The pod must have a controller.
    """
    meta = pod.metadata
    owner = next(reference.name for reference in meta.owner_references if reference.controller)
    new_metadata = PodMeta(
        f"{owner}-{NEW_TEMPLATE_HASH}",
        meta.namespace,
        labels=meta.labels,
        owner_references=meta.owner_references,
        annotations=meta.annotations,
    )
    return Pod(new_metadata, _build_unplaced_spec(pod), PodStatus("Pending"))


def _build_unplaced_spec(pod: Pod) -> PodSpec:
    """Return the pod's spec without a node and without the settings of its PriorityClass, which may be gone."""
    return replace(pod.spec, node_name="", priority=None, preemption_policy=None, priority_class_name="")


def build_stateful_set_like(cluster: Cluster, owner: Owner, pod: Pod, ordinals: range) -> StatefulSet:
    """Build a StatefulSet that creates pods like `pod` with these consecutive ordinals.

    The claims of the new pods are like the claims of `pod`.
    """
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in ORDINAL_LABELS}
    claims = dict(recover_claim_templates(cluster, pod))
    volumes = tuple(volume for volume in pod.spec.volumes if volume.name not in claims)
    template = PodTemplateSpec(
        PodMeta(labels=labels, annotations=pod.metadata.annotations),
        replace(_build_unplaced_spec(pod), volumes=volumes),
    )
    return StatefulSet(
        ObjectMeta(owner.name, owner.namespace),
        StatefulSetSpec(
            replicas=len(ordinals),
            template=template,
            volume_claim_templates=tuple(claims.values()),
            ordinals=StatefulSetOrdinals(ordinals.start),
        ),
    )
