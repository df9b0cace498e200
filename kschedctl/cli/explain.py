"""``kschedctl explain``: why is this pod Pending, or why are all of these?"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated

import typer
from msgspec.structs import replace as altered

from kschedctl.api.objects import Pod, PodStatus
from kschedctl.cli import pending, pods
from kschedctl.cli.answer import DOES_NOT_SCHEDULE, SCHEDULES, Answer
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope, Source, View, with_options
from kschedctl.cli.source import load, manifest_pod
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.render.pending import PendingPods
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import explain_pod

log = logging.getLogger(__name__)


@with_options
def explain(
    source: Source,
    scope: Scope,
    view: View,
    pod: Annotated[str | None, typer.Argument(metavar="[POD]", help="name, pod/name or namespace/name.")] = None,
) -> Answer:
    """Why is this pod Pending? Replays kube-scheduler's scheduling cycle for it.

    Without POD: if just one file has no nodes and a single Pod, not bound, that Pod is explained as if it were created
    now. Else every pending pod of the namespace (with -A of all) is explained, and they are grouped by cause.
    """
    report: Explanation | PendingPods
    cluster = asking_for(load(source), scope.scheduler_name)
    if pod is not None:
        report = existing(cluster, pods.find(cluster, pod, scope))
    elif (manifest := manifest_pod(cluster)) is not None:
        report = created(cluster, manifest, scope)
    else:
        report = summary(cluster, source, scope)
    return view.answer(report, SCHEDULES if schedulable(report) else DOES_NOT_SCHEDULE)


def schedulable(report: Explanation | PendingPods) -> bool:
    """Whether the pod, or each of the pods by itself, would get a node; also when nothing is pending."""
    verdicts = [report.verdict] if isinstance(report, Explanation) else [group.verdict for group in report.groups]
    return all(verdict == "Schedulable" for verdict in verdicts)


def asking_for(cluster: Cluster, scheduler_name: str | None) -> Cluster:
    """The cluster with all unbound pods asking for this scheduler."""
    if scheduler_name is None:
        return cluster
    asking = (
        pod if pod.spec.node_name else altered(pod, spec=altered(pod.spec, scheduler_name=scheduler_name))
        for pod in cluster.pods
    )
    return replace(cluster, pods=tuple(asking))


def existing(cluster: Cluster, pod: Pod) -> Explanation:
    """A pod of the cluster explained; one that is bound as if it were pending again. Raises UsageError."""
    if pod.terminated:
        raise UsageError(f"pod {pod.key} has ended ({pod.status.phase}): there is nothing to schedule")
    if pod.spec.node_name:
        log.warning("note: %s is bound to %s; replayed as if it were pending now", pod.key, pod.spec.node_name)
        cluster = without(cluster, pod)
        pod = altered(pod, spec=altered(pod.spec, node_name=""), status=PodStatus())
    scheduler = Scheduler(cluster)
    return explain_pod(scheduler, scheduler.view.stored(pod))


def created(cluster: Cluster, pod: Pod, scope: Scope) -> Explanation:
    """The pod of a manifest, explained as if it were created in the rest of the cluster. Raises UsageError."""
    scheduler = Scheduler(without(cluster, pod))
    namespace = scope.namespace or pod.metadata.namespace
    if pod.metadata.namespace not in (namespace, DEFAULT_NAMESPACE):
        raise UsageError(f'the manifest says namespace "{pod.metadata.namespace}", not "{namespace}"')
    name = pod.metadata.name or pod.metadata.generate_name
    pod = altered(pod, metadata=altered(pod.metadata, name=name, namespace=namespace))
    return explain_pod(scheduler, scheduler.view.admitted(scheduler.view.stored(pod)))


def without(cluster: Cluster, pod: Pod) -> Cluster:
    return replace(cluster, pods=tuple(other for other in cluster.pods if other is not pod))


def summary(cluster: Cluster, source: Source, scope: Scope) -> PendingPods:
    """All pending pods of the scope, grouped by cause."""
    found = pending.explain_all(Scheduler(cluster), pods.pending(cluster, scope))
    groups = pending.groups(found, [*source.arguments(), *scope.arguments()])
    return PendingPods(scope=pods.describe(scope), groups=groups)
