"""Section "sampling": the costs of sampling nodes for the most frequent pods, measured at a few percentages."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.sampling.report import SampledProfile, SamplingCosts, SamplingSection
from kschedctl.commands.audit.sampling.sampled_searches import (
    SamplingLimits,
    compute_sampling_costs_of_largest_workloads,
)
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.text.counts import counted

MAX_KINDS = 3
"""The number of workloads with which each percentage is measured."""
PERCENTAGES = (5, 10, 20, 30, 40, 50, 70, 100)
"""The percentages to measure, as many as take a second or two on 5,000 nodes."""
SOURCE = "numFeasibleNodesToFind in pkg/scheduler/schedule_one.go"
FIX = "Set percentageOfNodesToScore: {} in the KubeSchedulerConfiguration; run sampling to see the whole curve"
LOSES = AuditRule(
    "audit-sampling-loses",
    WARNING,
    "Pods miss much better nodes because only some nodes are evaluated",
    "The search ends once enough nodes fit, and the best of these may score far below the best of all nodes. "
    "Preferences and spreading then have little effect.",
    FIX.format("PERCENTAGE"),
    source=SOURCE,
)
WASTES = AuditRule(
    "audit-sampling-wastes",
    NOTE,
    "Evaluating fewer nodes would be enough",
    "Each evaluated node costs time in every scheduling cycle.",
    FIX.format("PERCENTAGE"),
    source=SOURCE,
)


def build_sampling_section(audited: AuditedCluster) -> SamplingSection:
    """Build the section from the most frequent pending pods, or from running pods if no pending pod fits on a node."""
    report = compute_sampling_costs_of_largest_workloads(
        audited.scheduler, MAX_KINDS, limits=SamplingLimits(percentages=PERCENTAGES), progress=audited.progress
    )
    findings = (finding for profile in report.profiles for finding in _iter_findings(profile, audited))
    return SamplingSection(
        title="Sampling: what percentageOfNodesToScore costs and saves",
        headline=_build_headline(report),
        profiles=report.profiles,
        not_replayed=report.not_replayed,
        interrupted=report.interrupted,
        **build_verdict((LOSES, WASTES), findings, report.unknown),
    )


def _build_headline(report: SamplingCosts) -> str:
    """Describe the loss of the profile that loses most by sampling.

    If no profile samples nodes, return the report's headline, with a small first letter.
    """
    current_points = [
        profile.advice.now for profile in report.profiles if profile.advice.now and profile.advice.verdict != "idle"
    ]
    if not current_points:
        return report.headline[:1].lower() + report.headline[1:]
    worst = max(current_points, key=lambda point: point.loss)
    nodes = f"{worst.examined:,.0f} nodes are evaluated for each pod"
    return f"at {worst.percentage}%, {nodes}, which loses {worst.loss:.1f} points"


def _iter_findings(profile: SampledProfile, audited: AuditedCluster) -> Iterator[Finding]:
    """Yield a finding if pods of a profile lose too much, or if evaluating fewer nodes would be enough.

    Yield nothing if all nodes are evaluated at any percentage, or if no pod could be measured.
    """
    advice = profile.advice
    evaluates_all_nodes = advice.verdict == "idle"
    is_lower_enough = advice.verdict == "lower"
    # The costs under the current and the advised percentage, which are None if no pod could be measured.
    current, advised = advice.now, advice.then
    if evaluates_all_nodes or current is None or advised is None:
        return
    object_ = f"KubeSchedulerConfiguration {profile.scheduler_name}"
    fix = FIX.format(advised.percentage)
    max_loss = audited.thresholds.sampling_loss_points
    if current.loss > max_loss:
        nodes = f"{current.examined:,.0f} of {counted(profile.setting.nodes, 'node')} are evaluated"
        loss = f"pods lose {current.loss:.1f} score points on average, above the limit of {max_loss:g}"
        yield LOSES.build_finding(object_, f"at {current.percentage}%, {nodes}, and {loss}", fix)
    elif is_lower_enough:
        now_text = f"at {current.percentage}%, {current.examined:,.0f} nodes are evaluated for each pod"
        then_text = (
            f"at {advised.percentage}%, {advised.examined:,.0f} are enough and cost {advised.loss:.1f} score points"
        )
        yield WASTES.build_finding(object_, f"{now_text}; {then_text}", fix)
