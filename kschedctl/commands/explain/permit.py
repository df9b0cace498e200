"""What Permit plugins say of a pod on the nodes that it may be placed on."""

from __future__ import annotations

from collections import Counter

from kschedctl.reports.plugin_answers import FirstFailReport
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.messages import format_histogram
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import gang_object, gang_plugin
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.pods import group_key

REFUSED = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


def permit_reports(cycle: Cycle) -> dict[str, FirstFailReport]:
    """Best node -> why the pod is not bound there, or not yet; one that is placed with others is not asked about."""
    if not cycle.schedulable or _is_grouped(cycle) or not cycle.framework.plugins_at("permit"):
        return {}
    reports = {}
    for row in cycle.scores.best.tolist():
        outcome = run_permit(cycle.framework, cycle.info, cycle.view, row) if row >= 0 else None
        if outcome is not None and outcome.status.code is not Code.SUCCESS:
            name = cycle.view.nodes.names[row]
            reports[name] = FirstFailReport(outcome.plugin, outcome.status.code, outcome.status.reasons)
    return reports


def _is_grouped(cycle: Cycle) -> bool:
    """Whether it is of a group that exists, whose pods are bound together."""
    plugin = gang_plugin(cycle.framework)
    gang = plugin.gang(cycle.info.pod) if plugin else None
    return group_key(cycle.info.pod) is not None or (gang is not None and gang_object(cycle.view, gang) is not None)


def permitted(cycle: Cycle, reports: dict[str, FirstFailReport]) -> tuple[str, str | None]:
    """The verdict on a pod that fits, and kube-scheduler's message where every one of the best nodes is refused.

    Upstream: the scheduling cycle ends there with a FitError about the one node that was chosen.
    """
    best = [cycle.passed.names[i] for i in cycle.scores.top.tolist()]
    said = [reports.get(name) for name in best]
    first = said[0] if said else None
    if first is None or any(report is None or report.code == Code.WAIT for report in said):
        return "Schedulable", None
    if first.code in REFUSED:
        return "Unschedulable", format_histogram(1, Counter(first.reasons))
    return "Error", ", ".join(first.reasons)
