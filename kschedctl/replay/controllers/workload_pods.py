"""The pods of a workload that the cluster has: those that wait for a node, else one more replica.

CronJobs are not read, Deployments, Jobs and DaemonSets not always; their pods, and ReplicaSets, tell of them.
Upstream: metadata.ownerReferences and the label pod-template-hash (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.api.workloads import StatefulSet
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.asked_pod import AskedPod, created
from kschedctl.replay.controllers.changed_workloads import belongs
from kschedctl.replay.controllers.one_more import controls, one_more, template_of
from kschedctl.replay.controllers.rollout_limits import ordinal
from kschedctl.replay.controllers.wanted_pods import objects_of
from kschedctl.replay.edits import pods_where
from kschedctl.scheduler.scheduler import Scheduler

_OF_CRON_JOB = re.compile(r"-\d+$")


def of_workload(scheduler: Scheduler, owner: Owner, manifest: Struct | None = None) -> list[AskedPod]:
    """The workload's waiting pods, one for those alike; else one more, made of ``manifest`` or as its others are.

    Of a DaemonSet whose template nobody knows one of the pods that it has. Raises UsageError when there is nothing to
    go by, InputError.
    """
    cluster = scheduler.cluster
    pods = pods_of(cluster, owner)
    if waiting := [pod for pod in pods if is_waiting(pod)]:
        return _waiting(scheduler, owner, waiting)
    if isinstance(manifest, StatefulSet) and pods:
        return created(scheduler, [_after(manifest, pods)])
    if manifest is not None:
        return created(scheduler, [manifest])
    if pods and owner.kind == "DaemonSet":
        several = f"one of {len(pods):,} pods of {owner}, none of which is pending"
        note = several if len(pods) > 1 else f"the only pod of {owner}, which is not pending"
        return [AskedPod(scheduler, scheduler.view.stored(pods[0]), note)]
    if pods:
        return [one_more(scheduler, owner, pods, f"one more pod of {owner}, none of which is pending")]
    if (template := template_of(cluster, owner)) is not None:
        return created(scheduler, [template])
    raise _not_found(cluster, owner)


def is_waiting(pod: Pod) -> bool:
    """Whether it is the scheduler's turn: without a node, neither ended nor being deleted."""
    return not (pod.spec.node_name or pod.terminated or pod.metadata.deletion_timestamp)


def pods_of(cluster: Cluster, owner: Owner) -> list[Pod]:
    """The pods that it controls, itself or through ReplicaSets or Jobs; those that have ended too."""
    kind, namespace, name = owner
    sets = {rs.metadata.name for rs in cluster.replica_sets if controls(owner, rs)} if kind == "Deployment" else ()

    def mine(pod: Pod) -> bool:
        if belongs(pod, kind, namespace, name):
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


def _waiting(scheduler: Scheduler, owner: Owner, pods: Sequence[Pod]) -> list[AskedPod]:
    columns = scheduler.view.pods
    groups: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name), []).append(pod)
    return [
        AskedPod(scheduler, scheduler.view.stored(alike[0]), _of_the_waiting(len(alike), len(pods), owner))
        for alike in groups.values()
    ]


def _of_the_waiting(alike: int, pods: int, owner: Owner) -> str:
    if pods == 1:
        return f"the only pending pod of {owner}"
    shared = f", {alike:,} of which are alike" if 1 < alike < pods else ", which are alike" if alike > 1 else ""
    return f"one of the {pods:,} pending pods of {owner}{shared}"


def _after(manifest: StatefulSet, pods: Sequence[Pod]) -> StatefulSet:
    """One that makes the pod after those that there are."""
    start = max(map(ordinal, pods)) + 1
    spec = replace(manifest.spec, replicas=1, ordinals=replace(manifest.spec.ordinals, start=start))
    return replace(manifest, spec=spec)


def _not_found(cluster: Cluster, owner: Owner) -> UsageError:
    kind, namespace, name = owner
    known = dict.fromkeys(workload for workload in workloads(cluster) if workload[0] == kind)
    names = [name, *get_close_matches(name, {owner[2] for owner in known})]
    near = [f"{kind.lower()}/{owner[2]} -n {owner[1]}" for owner in known if owner[2] in names]
    hint = f"did you mean {' or '.join(near[:3])}?" if near else "no pod and no ReplicaSet of it can be seen"
    return UsageError(f'{kind.lower()} "{namespace}/{name}" not found', hint=hint)
