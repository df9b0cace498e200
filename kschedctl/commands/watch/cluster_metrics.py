"""``cluster_metrics``: the numbers that dashboards and alerts show of a cluster's scheduling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Resources
from kschedctl.api.quantity import parse_milli_value
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import audit
from kschedctl.commands.audit.pending.report import PendingSection
from kschedctl.commands.capacity import capacity
from kschedctl.commands.capacity.report import Capacity
from kschedctl.commands.explain.pending_pods import pending
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.failures.losses import failures
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
from kschedctl.sources.cluster import get_read_time


def cluster_metrics(
    cluster: Cluster, shapes: Sequence[JsonObject] = (), *, units: Iterable[str] = (), now: str = ""
) -> ClusterMetrics:
    """Pending pods by cause, those that are stuck, quotas; room for ``shapes``, what a loss of ``units`` would do.

    ``shapes``: manifests (dicts) as for ``capacity``; ``units``: node, zone, pool, as for ``failures``. ``now``: the
    RFC 3339 time at which pods are as old as they are; when the cluster was read. Raises InputError, UsageError,
    ConfigurationError.

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
    reports |= {f"loss of a {unit}": failures(cluster, unit) for unit in units}
    undecided = [
        MetricValue(UNDECIDED, {"question": question}, float(report.undecided)) for question, report in reports.items()
    ]
    numbers = [*undecided, *_quotas(cluster), *(number for report in reports.values() for number in _numbers(report))]
    order = tuple(FAMILIES)
    return ClusterMetrics(
        tuple(sorted(numbers, key=lambda number: order.index(number.metric))),
        not_replayed=tuple(dict.fromkeys(what for report in reports.values() for what in report.not_replayed)),
        unknown=merge_unknown_kinds(report.unknown for report in reports.values()),
        undecided=any(number.value for number in undecided),
    )


def _numbers(report: PendingPods | Section | Capacity | Failures) -> Iterator[MetricValue]:
    match report:
        case PendingPods():
            return _pending(report)
        case PendingSection():
            return _stuck(report)
        case Capacity():
            return _rooms(report)
        case Failures():
            return _losses(report)
    return iter(())


def _pending(report: PendingPods) -> Iterator[MetricValue]:
    """By verdict and cause, of which several groups may be; and the pods that could not be created."""
    groups = defaultdict(list)
    for group in report.groups:
        groups[group.verdict, group.cause].append(group)
    for (verdict, cause), alike in groups.items():
        labels = {"verdict": verdict, "cause": cause}
        yield MetricValue(PENDING, labels, sum(len(group.pods) for group in alike))
        if created := [pod.created for group in alike for pod in group.members if pod.created]:
            yield MetricValue(OLDEST, labels, datetime.fromisoformat(min(created)).timestamp())
    for lacking in report.not_created:
        if lacking.missing and not lacking.past:
            yield MetricValue(UNCREATED, {"workload": lacking.workload}, lacking.missing)


def _stuck(section: PendingSection) -> Iterator[MetricValue]:
    yield MetricValue(STUCK, {}, sum(len(waiting.pods) for waiting in section.waiting if waiting.cause == "stuck"))


def _rooms(report: Capacity) -> Iterator[MetricValue]:
    return (MetricValue(ROOM, {"shape": shape.shape}, shape.most) for shape in report.shapes)


def _losses(report: Failures) -> Iterator[MetricValue]:
    for loss in report.failures:
        labels = {"unit": report.unit, "name": loss.name}
        yield MetricValue(UNPLACED, labels, loss.unplaced)
        yield MetricValue(EVICTED, labels, loss.evicted)


def _quotas(cluster: Cluster) -> Iterator[MetricValue]:
    """Quotas by what their status says: nothing else binds."""
    for quota in cluster.resource_quotas:
        labels = {"namespace": quota.metadata.namespace, "quota": quota.metadata.name}
        yield from _amounts(HARD, labels, quota.status.hard)
        yield from _amounts(USED, labels, quota.status.used)


def _amounts(metric: str, labels: dict[str, str], amounts: Resources) -> Iterator[MetricValue]:
    return (
        MetricValue(metric, {**labels, "resource": name}, parse_milli_value(text) / 1000)
        for name, text in amounts.items()
    )
