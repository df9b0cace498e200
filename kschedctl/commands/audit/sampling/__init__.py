"""Section "sampling": the costs of sampling nodes for the most frequent pods, measured at a few percentages."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.sampling.report import SampledProfile, SamplingCosts, SamplingSection
from kschedctl.commands.audit.sampling.sampled_searches import SamplingLimits, compute_default_costs
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.text.counts import counted

MAX_KINDS = 3
PERCENTAGES = (5, 10, 20, 30, 40, 50, 70, 100)
"""The percentages to measure, as many as take a second or two on 5,000 nodes."""
SOURCE = "numFeasibleNodesToFind in pkg/scheduler/schedule_one.go"
FIX = "percentageOfNodesToScore: {} in the KubeSchedulerConfiguration; sampling draws the whole curve"
LOSES = AuditRule(
    "audit-sampling-loses",
    WARNING,
    "Pods miss much better nodes because only part of the nodes is looked at",
    "The search ends once enough nodes fit, and the best of these may be far from the best of all: what preferences "
    "and spreading ask for is given up.",
    FIX.format("PERCENTAGE"),
    source=SOURCE,
)
WASTES = AuditRule(
    "audit-sampling-wastes",
    NOTE,
    "Fewer nodes would do as well",
    "Each node that is looked at costs time in every scheduling cycle.",
    FIX.format("PERCENTAGE"),
    source=SOURCE,
)


def build_sampling_section(audited: AuditedCluster) -> SamplingSection:
    """Build the section from the most frequent pending pods, or from running pods if no pending pod fits on a node."""
    report = compute_default_costs(
        audited.scheduler, MAX_KINDS, limits=SamplingLimits(percentages=PERCENTAGES), progress=audited.progress
    )
    findings = (finding for profile in report.profiles for finding in _iter_findings(profile, audited))
    return SamplingSection(
        title="Sampling: what percentageOfNodesToScore costs and saves",
        headline=_build_headline(report),
        profiles=report.profiles,
        not_replayed=report.not_replayed,
        **build_verdict((LOSES, WASTES), findings, report.unknown),
    )


def _build_headline(report: SamplingCosts) -> str:
    """Return the loss of the profile that loses most, or the report's headline, as text."""
    measured = [
        profile.advice.now for profile in report.profiles if profile.advice.now and profile.advice.verdict != "idle"
    ]
    if not measured:
        return report.headline[:1].lower() + report.headline[1:]
    now = max(measured, key=lambda point: point.loss)
    return f"at {now.percentage} % {now.examined:,.0f} nodes are looked at for a pod, which loses {now.loss:.1f} points"


def _iter_findings(profile: SampledProfile, audited: AuditedCluster) -> Iterator[Finding]:
    """Yield the finding that pods of a profile lose too much, or that fewer nodes would be enough."""
    advice, object_ = profile.advice, f"KubeSchedulerConfiguration {profile.scheduler_name}"
    if advice.now is None or advice.then is None or advice.verdict == "idle":
        return
    now, then, limit = advice.now, advice.then, audited.thresholds.sampling_loss_points
    fix = FIX.format(then.percentage)
    if now.loss > limit:
        examined_text = f"{now.examined:,.0f} of {counted(profile.setting.nodes, 'node')} are looked at"
        message = f"at {now.percentage} % {examined_text}, and a pod loses {now.loss:.1f} points of score on average"
        yield LOSES.build_finding(object_, f"{message}, more than {limit:g}", fix)
    elif advice.verdict == "lower":
        message = f"at {now.percentage} % {now.examined:,.0f} nodes are looked at for a pod; at {then.percentage} % "
        yield WASTES.build_finding(
            object_, f"{message}{then.examined:,.0f}, and {then.loss:.1f} points of score lost", fix
        )
