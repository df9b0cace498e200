"""``kschedctl explain``: why is this pod Pending, or why are all of these?"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated, Any

import typer
from msgspec.structs import replace as altered

from kschedctl.api.objects import Pod
from kschedctl.cli import pods
from kschedctl.cli.answer import Answer
from kschedctl.cli.options import DEFAULT_NAMESPACE, Format, Scope, Source, View, with_options
from kschedctl.cli.program import command_line
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import in_context, load, lone_pod
from kschedctl.cli.watching import watched
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.pending import PendingPods
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies import explain as study
from kschedctl.studies.pending import FINE, pending_pods

log = logging.getLogger(__name__)


@with_options
def explain(
    *,
    source: Source,
    scope: Scope,
    view: View,
    pod: Annotated[str | None, typer.Argument(metavar="[POD]", help="name, pod/name or namespace/name.")] = None,
    priority: Annotated[
        int | None, typer.Option("--as-if-priority", metavar="NUMBER", help="Replay POD with this priority.")
    ] = None,
    priority_class: Annotated[
        str, typer.Option("--as-if-priority-class", metavar="NAME", help="Replay POD in this PriorityClass.")
    ] = "",
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Keep watching the live cluster; answer again when it changes.")
    ] = False,
) -> Answer | int:
    """Why is this pod Pending? Replays kube-scheduler's scheduling cycle for it.

    Without POD: when just one of the files has no nodes and a single Pod that is not bound, as a manifest has, that
    Pod is explained, as if it were created now. Else every pending pod of the namespace (with -A of all) is, and they
    are grouped by cause.
    """
    if pod and scope.selector:
        raise UsageError("-l chooses among many pods, POD is one", hint="leave one of them out")
    as_if = {"as_if_priority": priority, "as_if_priority_class": priority_class}

    def answer(cluster: Cluster) -> Answer:
        return _answer(_report(asking_for(cluster, scope.scheduler_name), source, scope, pod, as_if), view)

    if watch:
        return watched(source, scope, answer)
    return answer(load(source, scope.namespace))


def _report(
    cluster: Cluster, source: Source, scope: Scope, pod: str | None, as_if: dict[str, Any]
) -> Explanation | PendingPods:
    """What the command line asks about this cluster. Raises KschedctlError."""
    scope = scope if pod and pods.names_namespace(pod) else in_context(scope, source, cluster)
    lone = None if pod else lone_pod(cluster)
    if pod:
        return study.as_events(study.explain(cluster, pods.find(cluster, pod, scope).key, **as_if))
    if lone and lone.metadata.uid:
        return study.as_events(study.explain(cluster, lone.key, **as_if))
    if lone:
        return study.as_events(study.explain(without(cluster, lone), created(lone, scope), **as_if))
    if as_if["as_if_priority"] is not None or as_if["as_if_priority_class"]:
        raise UsageError("--as-if-priority and --as-if-priority-class need a POD")
    return summary(cluster, source, scope)


def _answer(report: Explanation | PendingPods, view: View) -> Answer:
    if view.output is Format.NAME:  # the names alone: what the other forms say goes to stderr
        for what in report.not_replayed:
            log.warning("not replayed yet: %s", what)
    return view.answer(report, exit_code(fine(report), interrupted=False, undecided=report.undecided))


def fine(report: Explanation | PendingPods) -> bool:
    """Whether the pod, or each of the pods by itself, has a node or would get one; also when nothing is pending."""
    verdicts = [report.verdict] if isinstance(report, Explanation) else [group.verdict for group in report.groups]
    return all(verdict in FINE for verdict in verdicts)


def asking_for(cluster: Cluster, scheduler_name: str | None) -> Cluster:
    """The cluster with all unbound pods asking for this scheduler."""
    if scheduler_name is None:
        return cluster
    asking = (
        pod if pod.spec.node_name else altered(pod, spec=altered(pod.spec, scheduler_name=scheduler_name))
        for pod in cluster.pods
    )
    return replace(cluster, pods=tuple(asking))


def without(cluster: Cluster, pod: Pod) -> Cluster:
    return cluster.without_pod(pod)


def created(pod: Pod, scope: Scope) -> Pod:
    """The pod of a manifest with the name and namespace that it would be created with. Raises UsageError."""
    namespace = scope.namespace or pod.metadata.namespace
    if pod.metadata.namespace not in (namespace, DEFAULT_NAMESPACE):
        raise UsageError(f'the manifest says namespace "{pod.metadata.namespace}", not "{namespace}"')
    name = pod.metadata.name or pod.metadata.generate_name
    return altered(pod, metadata=altered(pod.metadata, name=name, namespace=namespace))


def summary(cluster: Cluster, source: Source, scope: Scope) -> PendingPods:
    """All pending pods of the scope, grouped by cause."""
    arguments = [*source.arguments(), *scope.arguments()]
    waiting, where = pods.pending(cluster, scope), pods.describe(scope)
    report = pending_pods(Scheduler(cluster), waiting, where, lambda pod: command_line("explain", pod, arguments))
    if waiting or not pods.pending(cluster, Scope(all_namespaces=True)):
        return report
    return altered(report, hints=(command_line("explain", "-A", source.arguments()),))
