"""TODO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypedDict, TypeVar

from msgspec.structs import replace

from kschedctl.api.gangs import find_gangs
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.observed.failed_creation import shorten_api_message
from kschedctl.api.ownership import Owner
from kschedctl.api.priority import find_priority_class
from kschedctl.api.workloads import CronJob, DaemonSet, Deployment, Job, StatefulSet, identity, make, title
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.admissions import Admissions, with_new_objects
from kschedctl.replay.controllers.creation import Creation, create
from kschedctl.replay.controllers.plan_change import Existing, alike, plan
from kschedctl.replay.controllers.pod_defaults import WorkloadNote
from kschedctl.replay.controllers.remaining_quotas import claims_within_quotas
from kschedctl.replay.edits import with_pods
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pods import AnyGroupKey, group_key
from kschedctl.text.counts import counted

AT_ONCE = "Parallel"
"""The podManagementPolicy of a StatefulSet whose pods do not wait for each other."""

WorkloadSpec = TypeVar("WorkloadSpec", bound=Struct)


def groups_of(pod: Pod) -> frozenset[AnyGroupKey]:
    """The groups, of Kubernetes and of other projects, that the pod says that it is of."""
    own = group_key(pod)
    return frozenset((*find_gangs(pod), *([own] if own else ())))


def made_together(existing: Existing, workload: Struct) -> Struct | None:
    """The workload, to be made with all its pods, which are of a group and come at once; None for one that is not, or
    of which the cluster has pods.
    """
    ordered = isinstance(workload, StatefulSet) and workload.spec.pod_management_policy != AT_ONCE
    if isinstance(workload, Pod | DaemonSet) or ordered or existing.of(*identity(workload)):
        return None
    if isinstance(workload, Job | CronJob):
        workload = replace(workload, spec=replace(workload.spec, suspend=False))
    pods = make(workload, ()).pods
    return workload if len(pods) > 1 and groups_of(pods[0]) else None


def siblings(pod: Pod, made: Iterable[Pod], cluster: Cluster) -> list[Pod]:
    """The pods just made that share a group with this one and are new to the cluster."""
    groups = groups_of(pod)
    if not groups:
        return []
    others = (sibling for sibling in made if sibling.key != pod.key and groups & groups_of(sibling))
    return [other for other in others if cluster.pod(other.metadata.namespace, other.metadata.name) is None]


class AskedPod(NamedTuple):
    """A pod as the API server holds it or would hold it, and the scheduler of the cluster that it is in or comes to.

    ``note`` says for whom it stands; empty for a pod that was itself asked about. ``workload``: as it is written, where
    the pod comes of a manifest; a bare pod's is the pod. ``not_created``: of the workload, pods that could not be;
    ``unread``: what would tell of such. ``is_known``: what its pods are like; else there is nothing to replay.
    ``admitted``: whether all of admission is replayed, None for nothing of it. ``fewer``: why the workload has no more
    pods, where nobody refuses them. ``waiting_elsewhere``: what keeps the workload from making any pod yet.
    """

    scheduler: Scheduler
    pod: Pod
    note: str = ""
    workload: Struct | None = None
    not_created: NotCreated | None = None
    unread: tuple[UnknownKind, ...] = ()
    is_known: bool = True
    admitted: bool | None = None
    fewer: tuple[str, ...] = ()
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()

    @property
    def never_created(self) -> NotCreated | None:
        """Why no pod of the workload is created, so that no scheduler sees one; None where some are."""
        lacking = self.not_created
        return None if lacking is None or lacking.past or lacking.there else lacking


class _Reduced(NamedTuple):
    """A workload that makes as few pods as it can, and the pods of the cluster in whose place they come."""

    workload: Struct
    replaced: Sequence[Pod] = ()


def created(
    scheduler: Scheduler, workloads: Iterable[Struct], written: Mapping[Owner, JsonObject] = MappingProxyType({})
) -> list[AskedPod]:
    """One pod of each workload, whose objects are all created in the scheduler's cluster; each pod by itself, but for
    those of a group, which come with all of that group.

    A bare pod, the pods of a DaemonSet and the last pod of a StatefulSet that is complete come in the place of those
    that the cluster has. Raises InputError, and UsageError for a DaemonSet that is for none of the nodes.
    """
    cluster, refused = with_new_objects(scheduler.cluster)
    if refused:
        scheduler = Scheduler(cluster, scheduler.call_extender)
    existing = Existing(scheduler.cluster)
    wanted = list({identity(workload): workload for workload in workloads}.values())
    whole = {identity(workload): made_together(existing, workload) for workload in wanted}
    reduced = [_Reduced(together) if (together := whole[identity(w)]) else _reduced(existing, w) for w in wanted]
    creation = create(scheduler.cluster, [smaller.workload for smaller in reduced], refused_too=True)
    claims_within_quotas(scheduler.cluster, creation, creation.pods)
    admissions = Admissions(scheduler.cluster, written)
    applied = scheduler_of(creation, scheduler) if wanted else scheduler
    schedulers: dict[tuple[str, ...], Scheduler] = {(): applied}
    asked_pods = []
    for workload, (made, replaced) in zip(wanted, reduced, strict=True):
        keys = tuple(pod.key for pod in replaced)
        if keys not in schedulers:
            schedulers[keys] = Scheduler(_without(applied.cluster, replaced), applied.call_extender)
        asked = _chosen(schedulers[keys], workload, creation.pods[title(made)])._replace(workload=workload)
        asked_pods.append(_with_siblings(asked, creation)._replace(**_admission(admissions, existing, workload)))
    notes = (*creation.notes, *admissions.notes)
    return [_with_notes(target, notes, refused) for target in asked_pods]


def _with_notes(target: AskedPod, notes: Iterable[WorkloadNote], denied: Mapping[Owner, NotCreated]) -> AskedPod:
    """Return the target with the notes about its workload and about denied objects of its namespace."""
    workload = title(target.workload) if target.workload is not None else ""
    texts = [target.note]
    texts += [note.text for note in notes if note.workload == workload]
    for owner, report in denied.items():
        if owner.namespace == target.pod.metadata.namespace:
            texts.append(f"{owner} is not created: {shorten_api_message(report.failures[0].message)}")
    return target._replace(note="; ".join(filter(None, texts)))


class _Admission(TypedDict):
    not_created: NotCreated | None
    admitted: bool


def _admission(admissions: Admissions, existing: Existing, workload: Struct) -> _Admission:
    """What the API server says to all pods that the workload lacks."""
    sized = existing.sized(workload)
    change = plan(existing, sized, title(workload), list(make(sized, existing.cluster.nodes).pods), forced=False)
    return {"not_created": admissions.take(sized, change), "admitted": all(admissions.namespaces([sized]).values())}


def _with_siblings(asked: AskedPod, creation: Creation) -> AskedPod:
    """In a cluster to which the others of its group come as well."""
    scheduler, pod, note = asked.scheduler, asked.pod, asked.note
    others = siblings(pod, chain.from_iterable(creation.pods.values()), scheduler.cluster)
    if not others:
        return asked
    together = Scheduler(scheduler.cluster.with_objects({"Pod": others}), scheduler.call_extender)
    note = ", ".join(filter(None, (note, f"with {len(others):,} more of its group")))
    return asked._replace(scheduler=together, note=note)


def scheduler_of(creation: Creation, scheduler: Scheduler) -> Scheduler:
    """The scheduler of the cluster with what is created; the one given where nothing but pods is."""
    applied = creation.applied(scheduler.cluster)
    return scheduler if applied is scheduler.cluster else Scheduler(applied, scheduler.call_extender)


def _reduced(existing: Existing, workload: Struct) -> _Reduced:
    kind, namespace, name = identity(workload)
    match workload:
        case Pod():
            there = existing.cluster.pod(namespace, name)
            return _Reduced(workload, () if there is None else (there,))
        case DaemonSet():
            return _Reduced(workload, existing.of(kind, namespace, name))
        case StatefulSet():
            return _reduced_to_ordinal(workload, {p.metadata.name: p for p in existing.of(kind, namespace, name)})
        case CronJob():
            job = workload.spec.job_template
            spec = replace(workload.spec, suspend=False, job_template=replace(job, spec=_one_of(job.spec)))
            return _Reduced(replace(workload, spec=spec))
    one = replace(workload, spec=_one_of(workload.spec))  # type: ignore[attr-defined]
    if isinstance(workload, Deployment) and (old := existing.of(kind, namespace, name)):
        (pod,) = make(one, ()).pods
        return _Reduced(_of_revision(pod, old[0]) if alike(pod, old[0]) else one)
    return _Reduced(one)


def _one_of(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec of a workload that makes one pod."""
    fields = {"replicas": 1, "parallelism": 1, "completions": None, "suspend": False}
    return replace(spec, **{name: value for name, value in fields.items() if name in spec.__struct_fields__})


def _reduced_to_ordinal(workload: StatefulSet, there: Mapping[str, Pod]) -> _Reduced:
    """The first ordinal that has no node yet; when all have one, the last, which an update replaces first."""
    spec, name = workload.spec, workload.metadata.name
    first, count = spec.ordinals.start, 1 if spec.replicas is None else max(spec.replicas, 1)
    bound = {own for own, pod in there.items() if pod.spec.node_name}
    ordinals = range(first, first + count)
    chosen = next((number for number in ordinals if f"{name}-{number}" not in bound), ordinals[-1])
    spec = replace(spec, replicas=1, ordinals=replace(spec.ordinals, start=chosen))
    replaced = there.get(f"{name}-{chosen}")
    return _Reduced(replace(workload, spec=spec), () if replaced is None else (replaced,))


def _of_revision(pod: Pod, old: Pod) -> Pod:
    """A new pod of the ReplicaSet that is there: with the hash of its template among its labels."""
    meta = replace(pod.metadata, labels=old.metadata.labels, owner_references=old.metadata.owner_references)
    return replace(pod, metadata=meta)


def _without(cluster: Cluster, pods: Sequence[Pod]) -> Cluster:
    return with_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): None for pod in pods})


def _chosen(scheduler: Scheduler, workload: Struct, pods: Sequence[Pod]) -> AskedPod:
    """The pod of the workload; of a DaemonSet's the first that would not be scheduled."""
    if isinstance(workload, Pod):
        return AskedPod(scheduler, pods[0])
    if isinstance(workload, DaemonSet):
        return _daemon(scheduler, title(workload), pods)
    return AskedPod(
        scheduler, pods[0], f"a pod of {title(workload)}, as its controller would create it{_idle(workload)}"
    )


def _idle(workload: Struct) -> str:
    """Why a workload makes none as it is written."""
    spec = workload.spec  # type: ignore[attr-defined]
    if isinstance(workload, CronJob | Job) and spec.suspend:
        return "; now it is suspended"
    none = getattr(spec, "replicas", None) == 0 or getattr(spec, "parallelism", None) == 0
    return "; now it has 0 replicas" if none else ""


def _daemon(scheduler: Scheduler, name: str, pods: Sequence[Pod]) -> AskedPod:
    if not pods:
        nodes = len(scheduler.cluster.nodes)
        hint = f"its node selection and tolerations leave none of the {counted(nodes, 'node')}"
        raise UsageError(f"{name} makes no pod here", hint=hint)
    refused = [pod for pod in pods if not _fits(scheduler, pod)]
    fitting = len(pods) - len(refused)
    several = (
        f"one of {len(pods):,} pods of {name}, each for a node of its own, of which {fitting:,} would be scheduled"
    )
    note = several if len(pods) > 1 else f"the only pod of {name}, which runs one on each node that it may use"
    return AskedPod(scheduler, (refused or pods)[0], note)


def _fits(scheduler: Scheduler, pod: Pod) -> bool:
    framework = scheduler.framework(pod.spec.scheduler_name)
    return framework is not None and scheduler.cycle(framework.unasked(), pod).schedulable


def as_if(asked: AskedPod, as_if_priority: int | None = None, as_if_priority_class: str = "") -> Pod:
    """The pod with another priority. Raises UsageError when there is no such class."""
    pod = asked.pod
    if as_if_priority_class:
        pod = with_priority_class(pod, as_if_priority_class, asked.scheduler.cluster)
    if as_if_priority is not None:
        pod = replace(pod, spec=replace(pod.spec, priority=as_if_priority))
    return pod


def with_priority_class(pod: Pod, name: str, cluster: Cluster) -> Pod:
    """The pod as it would be in another PriorityClass. Raises UsageError when there is no such class."""
    class_ = find_priority_class(name, cluster.priority_classes)
    if class_ is None:
        known = ", ".join(sorted(c.metadata.name for c in cluster.priority_classes)) or "none but the system's"
        raise UsageError(f'no PriorityClass "{name}"', hint=f"there are: {known}")
    policy = class_.preemption_policy or "PreemptLowerPriority"
    spec = replace(pod.spec, priority_class_name=name, priority=class_.value, preemption_policy=policy)
    return replace(pod, spec=spec)
