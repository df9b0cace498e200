"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, StoredJob, StoredWorkload, Struct
from kschedctl.api.observed.failed_creation import JOB_ENDED
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import identity, make
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_fix_steps import (
    POD_SECURITY_VIOLATED,
    SERVICE_ACCOUNT_MISSING,
    DeniedPod,
    suggest_steps,
)
from kschedctl.replay.controllers.creation_fixes import build_object_fix
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.controllers.workload_pod_counts import WantedPods
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.text.counts import counted

PARALLEL = "Parallel"
TOO_MANY = "TooManyReplicas"
"""The reason of ScalingLimited where the metrics ask for more than the maximum."""


def why_fewer(cluster: Cluster, owner: Owner) -> tuple[str, ...]:
    """What keeps the workload from making more pods, in words; nothing where it is not read."""
    field = FIELDS.get(owner.kind)
    there = cluster.in_namespace(field, owner.namespace) if field else ()
    workload = next((candidate for candidate in there if candidate.metadata.name == owner.name), None)
    own = _REASONS[owner.kind](workload, cluster, owner) if workload is not None and owner.kind in _REASONS else ()
    return (*own, *(_autoscaled(workload, cluster, owner) if workload is not None else ()))


def _autoscaled(workload: Any, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """What a HorizontalPodAutoscaler has to do with it. Upstream: pkg/controller/podautoscaler/horizontal.go."""
    for autoscaler in cluster.in_namespace("horizontal_pod_autoscalers", owner.namespace):
        spec, conditions = autoscaler.spec, {c.type: c for c in autoscaler.status.conditions if c.status}
        replicas = getattr(workload.spec, "replicas", None)
        if (spec.scale_target_ref.kind, spec.scale_target_ref.name) != (owner.kind, owner.name) or replicas == 0:
            continue
        name, limited, active = (
            autoscaler.metadata.name,
            conditions.get("ScalingLimited"),
            conditions.get("ScalingActive"),
        )
        if active is not None and active.status == "False":
            why = f": {active.message}" if active.message else ""
            yield f"HorizontalPodAutoscaler {name} does not scale it, {active.reason or 'its condition says'}{why}"
        elif limited is not None and (limited.status, limited.reason) == ("True", TOO_MANY):
            yield f"HorizontalPodAutoscaler {name} is at its maximum of {spec.max_replicas:,}, and would make more"
        elif replicas is not None and replicas >= spec.max_replicas > 0:
            yield f"HorizontalPodAutoscaler {name} is at its maximum of {spec.max_replicas:,}"


def _deployment(deployment: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    if deployment.spec.paused:
        made = WantedPods(cluster, [owner]).made(owner)
        yield "it is paused: " + ("a changed template makes no pods" if made else "it makes no ReplicaSet, and no pods")
    yield from _none(deployment)


def _none(workload: StoredWorkload, *_: object) -> Iterator[str]:
    if workload.spec.replicas == 0:
        yield "it wants 0 replicas"


def _stateful_set(stateful_set: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """The pods of one that is not parallel wait for the one before."""
    yield from _none(stateful_set)
    if stateful_set.spec.pod_management_policy == PARALLEL:
        return
    first, wanted = (
        stateful_set.spec.ordinals.start,
        1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas,
    )
    for ordinal in range(first, first + wanted - 1):
        pod = cluster.pod(owner.namespace, f"{owner.name}-{ordinal}")
        if pod is None or pod.terminated:
            return
        if why := _not_ready(pod):
            later = first + wanted - 1 - ordinal
            yield f"{counted(later, 'pod')} after {pod.metadata.name} {'waits' if later == 1 else 'wait'}: it {why}"
            return


def _not_ready(pod: Pod) -> str:
    """What a pod lacks that the next one waits for; empty where it lacks nothing, or nobody knows."""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if not pod.spec.node_name:
        return "has no node"
    ready = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    return "is not ready" if ready is not None and ready.status != "True" else ""


def _daemon_set(daemon_set: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    wanted, nodes = daemon_set.status.desired_number_scheduled, len(cluster.nodes)
    if wanted is not None and wanted < nodes and cluster.gap("Node") is None:
        rest = f"{nodes - wanted:,} of {counted(nodes, 'node')}"
        yield f"it wants none on {rest}, which its node selection and tolerations leave out"


def _job(job: StoredJob, cluster: Cluster, owner: Owner) -> Iterator[str]:
    spec, status = job.spec, job.status
    ended = next(
        (condition for condition in status.conditions if condition.type in JOB_ENDED and condition.status == "True"),
        None,
    )
    if ended is not None:
        yield f"it has ended, {ended.type}{f': {ended.message}' if ended.message else ''}"
        return
    if spec.suspend:
        yield "it is suspended"
        return
    if status.failed:
        limit = 6 if spec.backoff_limit is None else spec.backoff_limit
        yield f"{counted(status.failed, 'pod')} failed, of {limit:,} allowed; the next comes after a delay"
    side_by_side = 1 if spec.parallelism is None else spec.parallelism
    left = None if spec.completions is None else spec.completions - (status.succeeded or 0)
    if left is not None and side_by_side < left:
        yield f"no more than {side_by_side:,} at a time (parallelism), and {left:,} still to complete"


_REASONS: Mapping[str, Callable[[Any, Cluster, Owner], Iterator[str]]] = {
    "Deployment": _deployment,
    "ReplicaSet": _none,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
}


def replayed(
    cluster: Cluster, owner: Owner, template: Struct | None, document: JsonObject | None = None
) -> NotCreated | None:
    """What admission says to the pods that the workload lacks, where nothing else tells of it; None where they pass.

    ``template``: what makes its pods, as far as it is known; ``document``: the same in full, where files hold it.
    """
    change = _lacking(cluster, owner, template)
    if change is None or template is None:
        return None
    written = {identity(template): document} if document is not None else {}
    refused = Admissions(cluster, written).admit(template, change)
    return replace(refused, workload=str(owner)) if refused is not None else None


def _lacking(cluster: Cluster, owner: Owner, template: Struct | None) -> WorkloadChange | None:
    """The pods that the workload lacks, as they would come; None for none."""
    counts = WantedPods(cluster, [owner]).counts(owner)
    pods = make(template, cluster.nodes).pods if template is not None and counts.missing else ()
    if not pods or not counts.missing:
        return None
    return WorkloadChange(str(owner), kept=[pods[0]] * counts.there, new=[pods[0]] * counts.missing)


def fixes_as_told(
    cluster: Cluster, owner: Owner, template: Struct | None, lacking: NotCreated
) -> tuple[CreationFix, ...]:
    """What helps against a refusal that is not replayed, as what decides it of the pods is not read."""
    message = lacking.failures[0].message if lacking.failures else ""
    change = _lacking(cluster, owner, template) if POD_SECURITY_VIOLATED in message else None
    if change is None or template is None:
        return _of_account(cluster, message, owner.namespace)
    change.denied = len(change.new)
    return Admissions(cluster, {}).find_fixes_by_message(identity(template), template, change, message)


def _of_account(cluster: Cluster, message: str, namespace: str) -> tuple[CreationFix, ...]:
    """The account that the API server missed and that is not there, as scheduling does not read whose pods' it is."""
    if SERVICE_ACCOUNT_MISSING not in message or cluster.gap("ServiceAccount", namespace) is not None:
        return ()
    there = {account.metadata.name for account in cluster.in_namespace("service_accounts", namespace)}
    found = suggest_steps(DeniedPod(cluster, namespace, {}, message))
    return tuple(build_object_fix(way) for way in found if way.objects[0].name not in there)
