"""Reasons for which a workload has fewer pods than it wants, apart from denials that events report.

Upstream: pkg/controller/{deployment,statefulset,daemon,job} (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api.events import JOB_ENDED
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod, StoredJob, StoredWorkload, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import create_pods, get_identity, scales_workload
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_fix_steps import (
    POD_SECURITY_VIOLATED,
    SERVICE_ACCOUNT_MISSING,
    DeniedPod,
    suggest_steps,
)
from kschedctl.replay.controllers.creation_fixes import build_object_change_fix
from kschedctl.replay.controllers.job_failures import DEFAULT_BACKOFF_LIMIT
from kschedctl.replay.controllers.workload_change import WorkloadChange
from kschedctl.replay.controllers.workload_pod_counts import WorkloadPodCounts
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.text.counts import agreeing, counted

PARALLEL = "Parallel"
TOO_MANY_REPLICAS = "TooManyReplicas"
"""The reason of ScalingLimited if the metrics ask for more than the maximum."""


def explain_fewer_pods(cluster: Cluster, owner: Owner) -> tuple[str, ...]:
    """Return clauses that explain why the workload creates no more pods, or () if the workload was not read."""
    field = FIELDS.get(owner.kind)
    candidates = cluster.list_in_namespace(field, owner.namespace) if field else ()
    workload = next((candidate for candidate in candidates if candidate.metadata.name == owner.name), None)
    if workload is None:
        return ()
    explain = _EXPLANATIONS.get(owner.kind)
    reasons = explain(workload, cluster, owner) if explain is not None else ()
    return (*reasons, *_explain_autoscaling_limits(workload, cluster, owner))


def _explain_autoscaling_limits(workload: Any, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """Yield clauses that say how HorizontalPodAutoscalers limit the workload, unless it wants 0 replicas.

    An autoscaler has a clause if it is inactive, or if it is at its maximum. Upstream:
    pkg/controller/podautoscaler/horizontal.go.
    """
    replicas = getattr(workload.spec, "replicas", None)
    if replicas == 0:
        return
    for autoscaler in cluster.list_in_namespace("horizontal_pod_autoscalers", owner.namespace):
        if not scales_workload(autoscaler, owner):
            continue
        spec = autoscaler.spec
        name = f"HorizontalPodAutoscaler {autoscaler.metadata.name}"
        conditions = {condition.type: condition for condition in autoscaler.status.conditions if condition.status}
        active = conditions.get("ScalingActive")
        limited = conditions.get("ScalingLimited")
        if active is not None and active.status == "False":
            message = f": {active.message}" if active.message else ""
            yield f"{name} does not scale it, {active.reason or 'its condition says'}{message}"
        elif limited is not None and (limited.status, limited.reason) == ("True", TOO_MANY_REPLICAS):
            yield f"{name} is at its maximum of {spec.max_replicas:,}, and would create more pods"
        elif replicas is not None and replicas >= spec.max_replicas > 0:
            yield f"{name} is at its maximum of {spec.max_replicas:,}"


def _explain_missing_deployment_pods(deployment: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """Yield the reasons why a Deployment creates no more pods: it is paused, or wants 0 replicas."""
    if deployment.spec.paused:
        replica_sets = WorkloadPodCounts(cluster, [owner]).find_created_workloads(owner)
        if replica_sets:
            yield "it is paused: a changed template creates no pods"
        else:
            yield "it is paused: it creates no ReplicaSet and no pods"
    yield from _explain_zero_replicas(deployment)


def _explain_zero_replicas(workload: StoredWorkload, *_: object) -> Iterator[str]:
    """Yield a clause if the workload wants 0 replicas."""
    if workload.spec.replicas == 0:
        yield "it wants 0 replicas"


def _explain_missing_stateful_set_pods(stateful_set: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """Yield the reasons why a StatefulSet creates no more pods.

    One possible reason is that it wants 0 replicas. The other is that the next pods wait for an earlier pod, unless the
    pod management policy is Parallel.
    """
    yield from _explain_zero_replicas(stateful_set)
    if stateful_set.spec.pod_management_policy == PARALLEL:
        return
    first = stateful_set.spec.ordinals.start
    wanted = 1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas
    # No pod waits for the last one
    for ordinal in range(first, first + wanted - 1):
        pod = cluster.pod(owner.namespace, f"{owner.name}-{ordinal}")
        if pod is None or pod.terminated:
            return  # the controller creates this pod next, without waiting for another one
        if reason := _describe_why_next_pod_waits(pod):
            later = first + wanted - 1 - ordinal
            wait = agreeing(later, "waits", "wait")
            yield f"{counted(later, 'pod')} {wait} for {pod.metadata.name}, which {reason}"
            return


def _describe_why_next_pod_waits(pod: Pod) -> str:
    """Describe why the next pod of a StatefulSet waits for this one, or return an empty string if it does not."""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if not pod.spec.node_name:
        return "has no node"
    ready = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    return "is not ready" if ready is not None and ready.status != "True" else ""


def _explain_missing_daemon_pods(daemon_set: StoredWorkload, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """Yield a clause about the nodes on which a DaemonSet wants no pod.

    Nothing is yielded if there are no such nodes, or if not all nodes were read.
    """
    wanted = daemon_set.status.desired_number_scheduled
    nodes = len(cluster.nodes)
    if wanted is not None and wanted < nodes and cluster.find_gap("Node") is None:
        excluded = f"{nodes - wanted:,} of {counted(nodes, 'node')}"
        yield f"it needs no pod on {excluded}, which are excluded by its node selection and tolerations"


def _explain_missing_job_pods(job: StoredJob, cluster: Cluster, owner: Owner) -> Iterator[str]:
    """Yield the reasons why a Job creates no more pods.

    An ended or suspended Job has only this reason. Any other Job may wait after failed pods, may run as many pods as
    its parallelism allows, or both.
    """
    spec, status = job.spec, job.status
    ended = next(
        (condition for condition in status.conditions if condition.type in JOB_ENDED and condition.status == "True"),
        None,
    )
    if ended is not None:
        message = f": {ended.message}" if ended.message else ""
        yield f"it has ended, {ended.type}{message}"
        return
    if spec.suspend:
        yield "it is suspended"
        return
    # The Job is active: it waits after failures, or for its parallelism
    if status.failed:
        limit = DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
        yield f"{counted(status.failed, 'pod')} failed, of {limit:,} allowed; it creates the next one after a delay"
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    remaining = None if spec.completions is None else spec.completions - (status.succeeded or 0)
    if remaining is not None and parallelism < remaining:
        yield f"no more than {parallelism:,} at a time (parallelism), and {remaining:,} still to complete"


_EXPLANATIONS: Mapping[str, Callable[[Any, Cluster, Owner], Iterator[str]]] = {
    "Deployment": _explain_missing_deployment_pods,
    "ReplicaSet": _explain_zero_replicas,
    "StatefulSet": _explain_missing_stateful_set_pods,
    "DaemonSet": _explain_missing_daemon_pods,
    "Job": _explain_missing_job_pods,
}


def replay_admission_of_missing_pods(
    cluster: Cluster, owner: Owner, template: Struct | None, document: JsonObject | None = None
) -> NotCreated | None:
    """Replay admission for the pods that the workload lacks, and return a report on denied pods.

    Return None if no pod is denied or missing. ``template`` is a manifest that creates the workload's pods. If it is
    None, nothing can be replayed, and the result is None. ``document`` is the workload's full manifest, if the files
    contain it.
    """
    change = _build_change_for_missing_pods(cluster, owner, template)
    if change is None or template is None:
        return None
    documents = {get_identity(template): document} if document is not None else {}
    denied = Admissions(cluster, documents).admit(template, change)
    return replace(denied, workload=str(owner)) if denied is not None else None


def _build_change_for_missing_pods(cluster: Cluster, owner: Owner, template: Struct | None) -> WorkloadChange | None:
    """Build a change that adds the workload's missing pods.

    Return None if no pods are missing, or if ``template`` is None or creates no pods.
    """
    counts = WorkloadPodCounts(cluster, [owner]).count_pods(owner)
    if template is None or not counts.missing:
        return None
    pods = create_pods(template, cluster.nodes).pods
    if not pods:
        return None
    # All pods are admitted alike, so the first one stands for each
    return WorkloadChange(str(owner), kept=[pods[0]] * counts.existing, new=[pods[0]] * counts.missing)


def find_fixes_for_report(
    cluster: Cluster, owner: Owner, template: Struct | None, report: NotCreated
) -> tuple[CreationFix, ...]:
    """Return fixes for a denial that events report: a missing ServiceAccount or a violation of Pod Security.

    The fixes are derived from the denial's message, because a replay of admission may lack the fields that cause such a
    denial. Return () for any other denial. For a violation of Pod Security, return () as well if no pods are missing,
    or if ``template``, the manifest that creates the workload's pods, is None.
    """
    message = report.failures[0].message if report.failures else ""
    if POD_SECURITY_VIOLATED not in message:
        return _find_service_account_fix(cluster, message, owner.namespace)
    change = _build_change_for_missing_pods(cluster, owner, template)
    if change is None or template is None:
        return ()
    change.denied = len(change.new)  # the events say so, without a replay
    admissions = Admissions(cluster, manifests={})
    return admissions.find_fixes_by_message(get_identity(template), template, change, message)


def _find_service_account_fix(cluster: Cluster, message: str, namespace: str) -> tuple[CreationFix, ...]:
    """Return the fix that creates the missing ServiceAccount, as a tuple with one or no element.

    The tuple is empty if the message is not about a missing ServiceAccount, if ServiceAccounts were not read, or if the
    ServiceAccount exists by now.
    """
    if SERVICE_ACCOUNT_MISSING not in message or cluster.find_gap("ServiceAccount", namespace) is not None:
        return ()
    existing = {account.metadata.name for account in cluster.list_in_namespace("service_accounts", namespace)}
    steps = suggest_steps(DeniedPod(cluster, namespace, manifest={}, message=message))
    return tuple(build_object_change_fix(step) for step in steps if step.objects[0].name not in existing)
