"""Why is this pod Pending? One cycle replayed, and its findings put into the document that users see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster, convert
from kschedctl.errors import InputError, UsageError
from kschedctl.reports.explanation import (
    Elimination,
    Explanation,
    FirstFailReport,
    NodeReport,
    PreFilterReport,
    StatusReport,
)
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.framework import Scores
from kschedctl.scheduler.messages import fit_error
from kschedctl.scheduler.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.node_order import zone_key
from kschedctl.studies.preemption_report import preemption_report

POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "node.kubernetes.io/pool",
    "pool",
)
"""Labels by which providers and people name a node pool, the most specific first."""


def explain(cluster: Cluster, pod: str | Mapping[str, Any] | Pod) -> Explanation:
    """Explain a pod of the cluster (``namespace/name``), or a manifest that is not in it yet.

    Raises UsageError when there is no such pod, InputError and ConfigurationError for what cannot be read.
    """
    scheduler = Scheduler(cluster)
    return explain_pod(scheduler, find_pod(scheduler, pod))


def find_pod(scheduler: Scheduler, pod: str | Mapping[str, Any] | Pod) -> Pod:
    """The pod as the API server holds it, or would hold it once created."""
    if isinstance(pod, str):
        found = next((p for p in scheduler.cluster.pods if p.key == pod), None)
        if found is None:
            raise UsageError(f'pod "{pod}" not found')
        return scheduler.view.stored(found)
    if not isinstance(pod, Pod):
        converted = convert(pod)
        if not isinstance(converted, Pod):
            raise InputError("not a Pod", where=str(pod.get("kind")))
        pod = converted
    return scheduler.view.admitted(scheduler.view.stored(pod))


def explain_pod(scheduler: Scheduler, pod: Pod) -> Explanation:
    """One pod's explanation; the pod is as the API server holds it."""
    common = {"pod": pod.key, "scheduler_name": pod.spec.scheduler_name, "kube_version": scheduler.cluster.kube_version}
    framework = scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        known = ", ".join(scheduler.configuration.profiles)
        headline = f'no profile serves scheduler name "{pod.spec.scheduler_name}" (known: {known})'
        return Explanation(verdict="NotResponsible", headline=headline, **common)
    if pod.metadata.deletion_timestamp is not None:
        return Explanation(verdict="NotResponsible", headline="the pod is being deleted", **common)
    cycle = scheduler.cycle(framework, pod)
    return _document(cycle, common)


def _document(cycle: Cycle, common: Mapping[str, Any]) -> Explanation:
    names = cycle.view.nodes.names
    verdict = _verdict(cycle)
    post_filter = PostFilterOutcome() if cycle.schedulable or cycle.error else run_post_filter(cycle)
    message = None if cycle.schedulable or cycle.error else fit_error(cycle, post_filter.message)
    rows = cycle.feasible.tolist()
    scored = {
        row: int(total) for row, total in zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True)
    }
    return Explanation(
        **common,
        verdict=verdict,
        headline=message or cycle.error or verdict,
        message=message,
        node_order=names,
        queue={name: StatusReport(s.code, s.reasons) for name, s in cycle.queue.items()},
        pre_filter={
            name: PreFilterReport(
                r.status.code, r.status.reasons, None if r.node_names is None else tuple(sorted(r.node_names))
            )
            for name, r in cycle.pre_filter.results.items()
        },
        filter=_filter(cycle),
        first_fail=_first_fail(cycle),
        feasible=tuple(names[row] for row in rows),
        score=_scores(cycle, cycle.scores.raw),
        normalized=_scores(cycle, cycle.scores.normalized),
        weighted=_scores(cycle, cycle.scores.weighted),
        weights={name: cycle.framework.profile.weights[name] for name in cycle.scores.raw},
        total={names[row]: total for row, total in scored.items()},
        best=tuple(names[row] for row in cycle.scores.best.tolist()),
        eliminations=_eliminations(cycle),
        nodes=tuple(_node(cycle, row, scored) for row in range(len(names))),
        preemption=None if message is None or not names else preemption_report(post_filter, cycle),
    )


def _verdict(cycle: Cycle) -> str:
    if cycle.gated:
        return "Gated"
    if cycle.error is not None:
        return "Error"
    return "Schedulable" if cycle.schedulable else "Unschedulable"


def _filter(cycle: Cycle) -> dict[str, dict[str, StatusReport]]:
    found: dict[str, dict[str, StatusReport]] = {}
    for name, verdict in cycle.filter.verdicts.items():
        for row in np.flatnonzero(verdict.refused).tolist():
            status = verdict.status(row)
            found.setdefault(cycle.view.nodes.names[row], {})[name] = StatusReport(status.code, status.reasons)
    return found


def _first_fail(cycle: Cycle) -> dict[str, FirstFailReport]:
    found = {}
    for row in np.flatnonzero(cycle.considered & ~cycle.filter.passing).tolist():
        plugin, status = cycle.filter.first_fail(row)
        found[cycle.view.nodes.names[row]] = FirstFailReport(plugin, status.code, status.reasons)
    return found


def _scores(cycle: Cycle, scores: Mapping[str, Scores]) -> dict[str, dict[str, int]]:
    names = [cycle.view.nodes.names[row] for row in cycle.scores.rows.tolist()]
    return {plugin: dict(zip(names, values.tolist(), strict=True)) for plugin, values in scores.items()}


def _eliminations(cycle: Cycle) -> tuple[Elimination, ...]:
    return ()


def _node(cycle: Cycle, row: int, scored: Mapping[int, int]) -> NodeReport:
    node = cycle.view.nodes.objects[row]
    labels = node.metadata.labels
    return NodeReport(
        name=node.metadata.name,
        zone=zone_key(node)[1],
        pool=next((labels[label] for label in POOL_LABELS if label in labels), ""),
        feasible=row in scored,
        total=scored.get(row),
    )
