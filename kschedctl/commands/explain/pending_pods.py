"""``pending``: all pods that wait for a node."""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.api.copying import replace
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_groups import pending_pods
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import FINE
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.replay.controllers.workload_pods import describe_scope, find_pending_pods
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.replay.waiting_elsewhere import find_unread_waiting_kinds, find_waiting_elsewhere
from kschedctl.reports.growth import NodeGrowth
from kschedctl.reports.unknown import undecided
from kschedctl.reports.waiting_elsewhere import is_not_admitted, is_not_checked
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import moment_of

UNSCHEDULABLE = "Unschedulable"


def pending(
    cluster: Cluster,
    namespace: str = "",
    *,
    selector: str = "",
    in_full: int = 0,
    call_extender: CallExtender | None = None,
    now: str = "",
    growth: bool = True,
) -> PendingPods:
    """All pods that wait for a node, grouped by cause, and the workloads that lack pods nobody could create.

    Of one ``namespace``, or of all; ``selector``: of these labels alone, as ``app=web``. ``in_full``: of how many kinds
    of pods each node is told. ``now``: the RFC 3339 time at which ages are taken; when the cluster was read.
    Of all namespaces it also tells which nodes an autoscaler makes for them, where one is known, unless ``growth`` is
    False. Raises InputError.

    >>> import kschedctl
    >>> str(pending(kschedctl.Cluster.from_objects([])))
    'Nothing is pending in all namespaces'
    """
    scheduler = Scheduler(cluster, call_extender)
    now = now or moment_of(cluster)
    report = pending_in(scheduler, namespace or None, selector, now, in_full)
    return report if namespace or selector or not growth else with_growth(report, lambda: _growth(cluster, now))


def _growth(cluster: Cluster, now: str) -> NodeGrowth | None:
    from kschedctl.fixes.new_node import node_growth  # noqa: PLC0415 - only where pods wait for a node

    return node_growth(cluster, now)


def with_growth(report: PendingPods, growth: Callable[[], NodeGrowth | None]) -> PendingPods:
    """The report with the nodes that come for its pods, if any of them waits for one."""
    waits = any(group.verdict == UNSCHEDULABLE for group in report.groups)
    return replace(report, growth=growth()) if waits else report


def pending_in(
    scheduler: Scheduler, namespace: str | None, selector: str | None, now: str, in_full: int = 0
) -> PendingPods:
    """Pending pods of a scheduler that is there; ``namespace``: None for all."""
    cluster = scheduler.cluster
    pods = find_pending_pods(cluster, namespace, selector)
    lacking = (
        () if selector else CreationFailures(cluster, now).report_current(namespace)
    )  # pods that are not have no labels
    report = pending_pods(scheduler, pods, describe_scope(namespace, selector), now, in_full, not_created=lacking)
    if not selector:  # what has no pods has no labels of pods
        report = with_waiting_elsewhere(report, cluster, namespace, now)
    report = replace(
        report, unknown=merge_unknown_kinds((report.unknown, () if selector else find_unread_kinds(cluster)))
    )
    return replace(report, elsewhere=0 if pods else len(find_pending_pods(cluster, None)))


def with_waiting_elsewhere(report: PendingPods, cluster: Cluster, namespace: str | None, now: str) -> PendingPods:
    """Return the report with what waits before kube-scheduler sees a pod of it, which decides the verdict, too."""
    elsewhere = find_waiting_elsewhere(cluster, namespace, now)
    unread_queues = find_unread_waiting_kinds(cluster)
    pending = any(group.verdict not in FINE for group in report.groups) and not report.undecided
    certain = pending or bool(report.not_created) or is_not_admitted(elsewhere)
    doubtful = report.undecided or is_not_checked(elsewhere) or undecided(unread_queues)
    return replace(
        report,
        waiting_elsewhere=elsewhere,
        unknown=merge_unknown_kinds((report.unknown, unread_queues)),
        undecided=doubtful and not certain,
    )
