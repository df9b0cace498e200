"""The command `watch`: metrics of a cluster's scheduling for Prometheus.

Read `cluster_metrics`, then `openmetrics`, which renders the metrics and serves them at `/metrics`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Resources
from kschedctl.api.quantity import parse_milli_value
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import audit
from kschedctl.commands.audit.report import PendingSection
from kschedctl.commands.capacity import capacity
from kschedctl.commands.capacity.report import Capacity
from kschedctl.commands.explain.pending_pods import pending
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.failures import simulate_failures
from kschedctl.commands.failures.report import Failures
from kschedctl.commands.watch.report import (
    EVICTED,
    FAMILIES,
    HARD,
    OLDEST,
    PENDING,
    ROOM,
    STUCK,
    UNCREATED,
    UNDECIDED,
    UNPLACED,
    USED,
    ClusterMetrics,
    MetricValue,
)
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.section import Section
from kschedctl.reports.unknown import merge_notes
from kschedctl.sources.cluster import get_read_time


def cluster_metrics(
    cluster: Cluster, shapes: Sequence[JsonObject] = (), *, units: Iterable[str] = (), now: str = ""
) -> ClusterMetrics:
    """Compute metrics of pending and stuck pods, quotas, room for pods and the effect of losses.

    Arguments:
        cluster: the cluster.
        shapes: manifests (dicts) of pods or workloads, as for `capacity`.
        units: the kinds of failure domains whose loss is simulated (node, zone, pool), as for `failures`.
        now: the RFC 3339 time as of which ages are computed. The default is the time when the cluster was read.

    Raises the errors of `pending`, `capacity` and `failures`.

    >>> import kschedctl
    >>> str(cluster_metrics(kschedctl.Cluster.from_objects([])))
    '0 pending pods'
    """
    now = now or get_read_time(cluster)
    reports: dict[str, PendingPods | Section | Capacity | Failures] = {
        "pending": pending(cluster, now=now, growth=False),
        "stuck": audit(cluster, ["pending"], now=now).sections[0],
    }
    if shapes:
        reports["room"] = capacity(cluster, shapes)
    reports |= {f"loss of a {unit}": simulate_failures(cluster, unit) for unit in units}
    metrics = [
        MetricValue(UNDECIDED, {"question": question}, float(report.undecided)) for question, report in reports.items()
    ]
    metrics += _iter_quota_metrics(cluster)
    for report in reports.values():
        metrics += _iter_metrics(report)
    order = tuple(FAMILIES)
    return ClusterMetrics(
        tuple(sorted(metrics, key=lambda metric: order.index(metric.metric))),
        not_replayed=merge_notes(report.not_replayed for report in reports.values()),
        unknown=merge_unknown_kinds(report.unknown for report in reports.values()),
        undecided=any(report.undecided for report in reports.values()),
    )


def _iter_metrics(report: PendingPods | Section | Capacity | Failures) -> Iterator[MetricValue]:
    """Iterate over the metrics of a report. The only section with metrics is that of pending pods."""
    match report:
        case PendingPods():
            return _iter_pending_metrics(report)
        case PendingSection():
            return _iter_stuck_pods_metric(report)
        case Capacity():
            return _iter_room_metrics(report)
        case Failures():
            return _iter_loss_metrics(report)
    return iter(())


def _iter_pending_metrics(report: PendingPods) -> Iterator[MetricValue]:
    """Yield the number of pending pods and the creation time of the oldest one, for each verdict and cause.

    Then yield, for each workload whose pods still cannot be created, the number of missing pods.
    """
    groups = defaultdict(list)
    for group in report.groups:
        groups[group.verdict, group.cause].append(group)
    for (verdict, cause), groups_of_cause in groups.items():
        labels = {"verdict": verdict, "cause": cause}
        yield MetricValue(PENDING, labels, sum(len(group.pods) for group in groups_of_cause))
        if created := [pod.created for group in groups_of_cause for pod in group.members if pod.created]:
            yield MetricValue(OLDEST, labels, datetime.fromisoformat(min(created)).timestamp())
    for failure in report.not_created:
        if failure.missing and not failure.past:
            yield MetricValue(UNCREATED, {"workload": failure.workload}, failure.missing)


def _iter_stuck_pods_metric(section: PendingSection) -> Iterator[MetricValue]:
    """Yield the number of stuck pods."""
    yield MetricValue(STUCK, {}, sum(len(waiting.pods) for waiting in section.waiting if waiting.cause == "stuck"))


def _iter_room_metrics(report: Capacity) -> Iterator[MetricValue]:
    """Yield the number of further pods of each shape that would run."""
    return (MetricValue(ROOM, {"shape": shape.shape}, shape.most) for shape in report.shapes)


def _iter_loss_metrics(report: Failures) -> Iterator[MetricValue]:
    """Yield how many pods each simulated loss leaves without a node, and how many it evicts."""
    for loss in report.failures:
        labels = {"unit": report.unit, "name": loss.name}
        yield MetricValue(UNPLACED, labels, loss.unplaced)
        yield MetricValue(EVICTED, labels, loss.evicted)


def _iter_quota_metrics(cluster: Cluster) -> Iterator[MetricValue]:
    """Yield the limits and usage of each ResourceQuota, as its status states them."""
    for quota in cluster.resource_quotas:
        labels = {"namespace": quota.metadata.namespace, "quota": quota.metadata.name}
        yield from _iter_amount_metrics(HARD, labels, quota.status.hard)
        yield from _iter_amount_metrics(USED, labels, quota.status.used)


def _iter_amount_metrics(metric: str, labels: dict[str, str], amounts: Resources) -> Iterator[MetricValue]:
    """Yield a value of the metric for each resource. ``labels`` are the labels that all values share."""
    return (
        MetricValue(metric, {**labels, "resource": name}, parse_milli_value(amount) / 1000)
        for name, amount in amounts.items()
    )
