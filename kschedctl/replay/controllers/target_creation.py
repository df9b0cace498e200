"""The creation of pods that stand for workloads, as their controllers would create them.

Upstream: pkg/controller/{replicaset,statefulset,daemon,job}, pkg/controller/cronjob (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kschedctl.api.events import shorten_api_message
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    StatefulSet,
    create_pods,
    format_title,
    get_identity,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.admissions import Admissions, create_new_claims_and_groups
from kschedctl.replay.controllers.creation import Creation, create_workload_objects
from kschedctl.replay.controllers.plan_change import ExistingPods, looks_same_to_scheduler, plan_change
from kschedctl.replay.controllers.pod_defaults import WorkloadNote
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.stored_workloads import clamp_replicas_to_autoscaler
from kschedctl.replay.controllers.target_pod import TargetPod, find_groups_of_pod
from kschedctl.replay.controllers.workload_change import get_ordinal
from kschedctl.replay.edits import change_pods
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted

PARALLEL = "Parallel"
"""The podManagementPolicy of a StatefulSet whose pods do not wait for each other."""

WorkloadSpec = TypeVar("WorkloadSpec", bound=Struct)


def find_group_workload(existing: ExistingPods, workload: Struct) -> Struct | None:
    """Return the workload if its pods form a group and are all created at once, otherwise None.

    The scheduler places such a group as a whole, so one pod cannot stand for it. A suspended Job or CronJob is returned
    resumed. Also return None if the workload already has pods in the cluster.
    """
    creates_in_order = isinstance(workload, StatefulSet) and workload.spec.pod_management_policy != PARALLEL
    if isinstance(workload, Pod | DaemonSet) or creates_in_order:
        return None
    if existing.find_workload_pods(*get_identity(workload)):
        return None
    if isinstance(workload, Job | CronJob):
        workload = replace(workload, spec=replace(workload.spec, suspend=False))
    pods = create_pods(workload, nodes=()).pods
    return workload if len(pods) > 1 and find_groups_of_pod(pods[0]) else None


def find_new_group_members(pod: Pod, created_pods: Iterable[Pod], cluster: Cluster) -> list[Pod]:
    """Return the other created pods that belong to the pod's groups and are not in the cluster yet.

    Return [] for a pod without groups.
    """
    groups = find_groups_of_pod(pod)
    if not groups:
        return []
    members = (member for member in created_pods if member.key != pod.key and groups & find_groups_of_pod(member))
    return [member for member in members if cluster.pod(member.metadata.namespace, member.metadata.name) is None]


class _ReducedWorkload(NamedTuple):
    """A workload, changed to create as few pods as possible, and the existing pods replaced by its pods."""

    workload: Struct
    replaced: Sequence[Pod] = ()
    controller: tuple[str, Struct] | None = None
    """The kind and the object that controls the pod, if ``workload`` is a pod and its controller is created, too."""


def create_targets(
    scheduler: Scheduler, workloads: Iterable[Struct], written: Mapping[Owner, JsonObject] = MappingProxyType({})
) -> list[TargetPod]:
    """Create the pod that stands for each workload, or all pods of its group, and return one target per workload.

    A workload is reduced to one pod unless its pods form a group that is scheduled as a whole. Before that, its
    HorizontalPodAutoscaler bounds its replicas. If only some of its pods can be created, the first pod that cannot
    stands for it. The clusters of the targets also have the claims and other objects of the new pods.

    Some pods replace the pods of the same name in the cluster: bare pods, the pods of a DaemonSet, and the last pod of
    a complete StatefulSet. `written` maps workloads to their manifests, if these are known. Raises InputError if a pod
    is denied, and UsageError for a DaemonSet that fits no node's labels and taints.
    """
    cluster, denied = create_new_claims_and_groups(scheduler.cluster)
    if denied:
        scheduler = Scheduler(cluster, scheduler.call_extender)
    existing = ExistingPods(scheduler.cluster)

    # Create the pods, as few as possible
    workload_by_identity = {get_identity(workload): workload for workload in workloads}
    current_workloads = map(existing.with_current_replicas, workload_by_identity.values())
    autoscaled = [clamp_replicas_to_autoscaler(scheduler.cluster, workload) for workload in current_workloads]
    unique_workloads = [scaled.workload for scaled in autoscaled]
    admissions = Admissions(scheduler.cluster, written)
    admitted_workloads = [_admit_new_pods(admissions, existing, workload) for workload in unique_workloads]
    reduced_workloads = []
    for workload, admitted in zip(unique_workloads, admitted_workloads, strict=True):
        group = find_group_workload(existing, workload)
        denied_pod = admitted.first_denied
        if group is not None:
            reduced = _ReducedWorkload(group)
        elif denied_pod is None or isinstance(workload, StatefulSet | DaemonSet):
            reduced = _reduce_workload_to_one_pod(existing, workload, denied_pod)
        else:
            reduced = _ReducedWorkload(denied_pod, controller=create_pods(workload, nodes=()).owner)
        reduced_workloads.append(reduced)
    creation = create_workload_objects(
        scheduler.cluster, [reduced.workload for reduced in reduced_workloads], include_denied=True
    )
    for reduced in reduced_workloads:
        if reduced.controller is not None:
            creation.add(*reduced.controller)
    create_allowed_claims(scheduler.cluster, creation, creation.pods)
    scheduler_with_objects = add_created_objects(creation, scheduler) if unique_workloads else scheduler

    # Build a target for each workload, in a cluster without the pods that its pods replace
    # Targets that replace the same pods share a scheduler
    scheduler_by_replaced: dict[tuple[str, ...], Scheduler] = {(): scheduler_with_objects}
    targets = []
    for workload, reduced, admitted in zip(unique_workloads, reduced_workloads, admitted_workloads, strict=True):
        keys = tuple(pod.key for pod in reduced.replaced)
        if keys not in scheduler_by_replaced:
            remaining = _remove_pods(scheduler_with_objects.cluster, reduced.replaced)
            scheduler_by_replaced[keys] = Scheduler(remaining, scheduler_with_objects.call_extender)
        pods = creation.pods[format_title(reduced.workload)]
        target = _choose_target_pod(scheduler_by_replaced[keys], workload, pods)._replace(workload=workload)
        target = _build_target_with_group(target, creation)
        targets.append(target._replace(not_created=admitted.not_created, admitted=admitted.is_replayed_in_full))
    scaling_notes = (WorkloadNote(format_title(scaled.workload), scaled.note) for scaled in autoscaled if scaled.note)
    notes = (*scaling_notes, *creation.notes, *admissions.notes)
    return [_add_workload_notes(target, notes, denied) for target in targets]


def _add_workload_notes(
    target: TargetPod, notes: Iterable[WorkloadNote], denied: Mapping[Owner, NotCreated]
) -> TargetPod:
    """Return the target with notes about its workload and about denied objects in its namespace."""
    workload = format_title(target.workload) if target.workload is not None else ""
    texts = [target.note]
    texts += [note.text for note in notes if note.workload == workload]
    for owner, report in denied.items():
        if owner.namespace == target.pod.metadata.namespace:
            texts.append(f"{owner} is not created: {shorten_api_message(report.failures[0].message)}")
    return target._replace(note="; ".join(filter(None, texts)))


class _AdmittedPods(NamedTuple):
    """The outcome of the admission of all pods that a workload would create now."""

    not_created: NotCreated | None
    """The report on the pods that cannot be created; None if all can."""
    first_denied: Pod | None
    """The first of these pods, if others can be created."""
    is_replayed_in_full: bool
    """True if all of admission is replayed."""


def _admit_new_pods(admissions: Admissions, existing: ExistingPods, workload: Struct) -> _AdmittedPods:
    """Replay the admission of all pods that the workload would create now, and report the denied ones."""
    sized = existing.with_current_replicas(workload)
    created_pods = list(create_pods(sized, existing.cluster.nodes).pods)
    change = plan_change(existing, sized, format_title(workload), created_pods, forced=False)
    new_pods = list(change.new)
    not_created = admissions.admit(sized, change)  # drops denied pods from the change
    admitted_count = len(change.new)
    return _AdmittedPods(
        not_created,
        first_denied=new_pods[admitted_count] if 0 < admitted_count < len(new_pods) else None,
        is_replayed_in_full=all(admissions.map_full_replay_by_namespace([sized]).values()),
    )


def _build_target_with_group(target: TargetPod, creation: Creation) -> TargetPod:
    """Return the target with the other new pods of its group in its scheduler's cluster, and with a note about them.

    If there are no other new pods, the target is returned unchanged.
    """
    scheduler = target.scheduler
    members = find_new_group_members(target.pod, chain.from_iterable(creation.pods.values()), scheduler.cluster)
    if not members:
        return target
    scheduler_with_group = Scheduler(scheduler.cluster.with_objects({"Pod": members}), scheduler.call_extender)
    note = ", ".join(filter(None, (target.note, f"with {len(members):,} more of its group")))
    return target._replace(scheduler=scheduler_with_group, note=note)


def add_created_objects(creation: Creation, scheduler: Scheduler) -> Scheduler:
    """Return a scheduler of the cluster with the created objects, or the same scheduler if only pods are created."""
    cluster = creation.apply_to(scheduler.cluster)
    return scheduler if cluster is scheduler.cluster else Scheduler(cluster, scheduler.call_extender)


def _reduce_workload_to_one_pod(existing: ExistingPods, workload: Struct, first_denied: Pod | None) -> _ReducedWorkload:
    """Reduce a workload to one pod, and find the pods in the cluster that this pod replaces.

    A bare pod replaces the pod of the same name. A DaemonSet is not reduced. A StatefulSet is reduced to one ordinal,
    which is that of ``first_denied`` if this is given. A Deployment becomes a bare pod with the labels and owner of an
    existing pod, if both look the same to the scheduler. Other workloads get one replica and replace no pod.
    """
    kind, namespace, name = get_identity(workload)
    match workload:
        case Pod():
            existing_pod = existing.cluster.pod(namespace, name)
            return _ReducedWorkload(workload, () if existing_pod is None else (existing_pod,))
        case DaemonSet():
            return _ReducedWorkload(workload, existing.find_workload_pods(kind, namespace, name))
        case StatefulSet():
            existing_pods = existing.find_workload_pods(kind, namespace, name)
            ordinal = None if first_denied is None else get_ordinal(first_denied)
            return _reduce_stateful_set_to_ordinal(workload, {pod.metadata.name: pod for pod in existing_pods}, ordinal)
        case CronJob():
            job = workload.spec.job_template
            spec = replace(workload.spec, suspend=False, job_template=replace(job, spec=_limit_to_one_pod(job.spec)))
            return _ReducedWorkload(replace(workload, spec=spec))

    # Reduce a Deployment, ReplicaSet, ReplicationController or Job.
    single = replace(workload, spec=_limit_to_one_pod(workload.spec))  # type: ignore[attr-defined]
    deployment_pods = existing.find_workload_pods(kind, namespace, name) if isinstance(workload, Deployment) else []
    if deployment_pods:
        (pod,) = create_pods(single, nodes=()).pods
        if looks_same_to_scheduler(pod, deployment_pods[0]):
            return _ReducedWorkload(_copy_labels_and_owner(pod, deployment_pods[0]))
    return _ReducedWorkload(single)


def _limit_to_one_pod(spec: WorkloadSpec) -> WorkloadSpec:
    """Return the spec changed so that the workload creates one pod."""
    fields = {"replicas": 1, "parallelism": 1, "completions": None, "suspend": False}
    fields_of_kind = {name: value for name, value in fields.items() if hasattr(spec, name)}
    return replace(spec, **fields_of_kind)


def _reduce_stateful_set_to_ordinal(
    workload: StatefulSet, existing: Mapping[str, Pod], ordinal: int | None
) -> _ReducedWorkload:
    """Reduce a StatefulSet to this ordinal or, if it is None, to the first ordinal without a node.

    If all ordinals have nodes, the last one is chosen, because an update replaces it first. ``existing`` has the
    existing pods by name. If one of them has the chosen ordinal, it is replaced.
    """
    spec = workload.spec
    name = workload.metadata.name
    first = spec.ordinals.start
    count = 1 if spec.replicas is None else max(spec.replicas, 1)
    bound = {pod_name for pod_name, pod in existing.items() if pod.spec.node_name}
    ordinals = range(first, first + count)
    if ordinal is None:
        ordinal = next((number for number in ordinals if f"{name}-{number}" not in bound), ordinals[-1])
    spec = replace(spec, replicas=1, ordinals=replace(spec.ordinals, start=ordinal))
    replaced = existing.get(f"{name}-{ordinal}")
    return _ReducedWorkload(replace(workload, spec=spec), () if replaced is None else (replaced,))


def _copy_labels_and_owner(pod: Pod, existing: Pod) -> Pod:
    """Return a new pod with the labels and owner of an existing pod of the same ReplicaSet."""
    meta = replace(pod.metadata, labels=existing.metadata.labels, owner_references=existing.metadata.owner_references)
    return replace(pod, metadata=meta)


def _remove_pods(cluster: Cluster, pods: Sequence[Pod]) -> Cluster:
    """Return the cluster without these pods."""
    return change_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): None for pod in pods})


def _choose_target_pod(scheduler: Scheduler, workload: Struct, pods: Sequence[Pod]) -> TargetPod:
    """Choose the pod that stands for the workload: the first of ``pods``, unless the workload is a DaemonSet.

    For a DaemonSet, it is the first pod that would not be scheduled, or the first of all if every pod would be. Raises
    UsageError if the DaemonSet has no pods.
    """
    if isinstance(workload, Pod):
        return TargetPod(scheduler, pods[0])
    if isinstance(workload, DaemonSet):
        return _choose_daemon_pod(scheduler, format_title(workload), pods)
    return TargetPod(
        scheduler,
        pods[0],
        f"a pod of {format_title(workload)}, as its controller would create it{_describe_why_idle(workload)}",
    )


def _describe_why_idle(workload: Struct) -> str:
    """Return a clause that says why the workload currently creates no pods, or an empty string."""
    spec = workload.spec  # type: ignore[attr-defined]
    if isinstance(workload, CronJob | Job) and spec.suspend:
        return "; now it is suspended"
    has_no_replicas = getattr(spec, "replicas", None) == 0 or getattr(spec, "parallelism", None) == 0
    return "; now it has 0 replicas" if has_no_replicas else ""


def _choose_daemon_pod(scheduler: Scheduler, name: str, pods: Sequence[Pod]) -> TargetPod:
    """Choose the DaemonSet's first pod that would not be scheduled, or simply the first if all would be.

    Raises UsageError if the DaemonSet has no pods.
    """
    if not pods:
        nodes = len(scheduler.cluster.nodes)
        hint = f"its node selection and tolerations exclude all of the {counted(nodes, 'node')}"
        raise UsageError(f"{name} creates no pod on any node", hint=hint)
    unschedulable = [pod for pod in pods if not _is_schedulable(scheduler, pod)]
    pod = unschedulable[0] if unschedulable else pods[0]
    if len(pods) == 1:
        return TargetPod(scheduler, pod, f"the only pod of {name}, which runs one on each node that it may use")
    fitting = len(pods) - len(unschedulable)
    note = f"one of {len(pods):,} pods of {name}, each for a node of its own, of which {fitting:,} would be scheduled"
    return TargetPod(scheduler, pod, note)


def _is_schedulable(scheduler: Scheduler, pod: Pod) -> bool:
    """Return whether a node is feasible for the pod."""
    framework = scheduler.find_framework(pod.spec.scheduler_name)
    return framework is not None and scheduler.run_cycle(framework.without_extenders(), pod).schedulable
