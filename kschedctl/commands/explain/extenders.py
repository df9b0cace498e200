"""The fields of an explanation that say what extenders were asked and what they answered."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kschedctl.replay.shared_cluster import EXTENDER_INPUT_NOTE
from kschedctl.reports.plugin_answers import ExtenderCallReport, ExtenderErrorReport, FirstFailReport
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.extenders.extender import CallWithFullPods
from kschedctl.scheduler.scheduler import Scheduler

EXTENDERS_GOT_MORE = "extenders got the pod without its environment and what else is for kubelets alone"


class ExtenderFields(TypedDict, total=False):
    """The fields of an Explanation that are about extenders."""

    extended: tuple[str, ...]
    extender_order: tuple[str, ...]
    binder: str
    calls: tuple[ExtenderCallReport, ...]
    extender_errors: tuple[ExtenderErrorReport, ...]
    extender_refusals: dict[str, dict[str, str]]
    diagnosis: dict[str, FirstFailReport]
    extender_scores: dict[str, dict[str, int]]


def extended(cycle: Cycle, scheduler: Scheduler) -> ExtenderFields:
    """None where the configuration has no extenders."""
    if not scheduler.extenders:
        return {}
    calls = cycle.consultation.calls
    scores: dict[str, dict[str, int]] = {}
    for url, added in cycle.scores.extended:
        of_node = scores.setdefault(url, {})
        for name, score in zip(cycle.passed.names, added.tolist(), strict=True):
            of_node[name] = of_node.get(name, 0) + score
    pod = cycle.info.pod
    binders = (
        extender.url for extender in scheduler.extenders if extender.settings.bind_verb and extender.is_interested(pod)
    )
    return {
        "extended": (_got(pod.key, scheduler),) if calls else (),
        "extender_order": tuple(extender.url for extender in scheduler.extenders),
        "binder": next(binders, ""),
        "calls": tuple(ExtenderCallReport(call.extender, call.verb, call.nodes, call.full) for call in calls),
        "extender_errors": tuple(ExtenderErrorReport(c.extender, c.verb, c.error) for c in calls if c.error),
        "extender_refusals": cycle.consultation.refusals,
        "diagnosis": diagnosis(cycle),
        "extender_scores": scores,
    }


def _got(pod: str, scheduler: Scheduler) -> str:
    call = scheduler.call_extender
    more = isinstance(call, CallWithFullPods) and pod in call.full_pods
    return EXTENDERS_GOT_MORE if more else EXTENDER_INPUT_NOTE


def diagnosis(cycle: Cycle) -> dict[str, FirstFailReport]:
    """What kube-scheduler's diagnosis says of each node that has a status of its own."""
    reports = {}
    for row in np.flatnonzero(cycle.considered & ~cycle.filter.passing).tolist():
        plugin, status = cycle.filter.first_fail(row)
        reports[cycle.view.nodes.names[row]] = FirstFailReport(plugin, status.code, status.reasons)
    for name, status in cycle.consultation.statuses.items():
        reports[name] = FirstFailReport("", status.code, status.reasons)
    return reports
