"""Nodes that were promised to pods that preempted others there.

Upstream: handleSchedulingFailure in pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from kschedctl.scheduler.engine.post_filter import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.framework import Code


def takes_back(outcome: PostFilterOutcome) -> bool:
    """Whether PostFilter took back what the pod was promised: preemption was tried, and helps nowhere."""
    reports = [result.report for result in outcome.results.values()]
    tried = any(isinstance(report, Preemption) and report.eligible for report in reports)
    return not reports or (tried and outcome.status.code is Code.UNSCHEDULABLE)
