"""Section "latency": the speed and the queues of kube-scheduler according to its own metrics.

`figures` computes figures from metrics, `verdicts` judges them by `rules`, `report` has the structs, and `page` shows
figures and verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kschedctl.commands.audit.audited_cluster import AuditedCluster, LatencyLimits
from kschedctl.commands.audit.latency.figures import build_curves, build_timings, get_only_number, list_metric_values
from kschedctl.commands.audit.latency.report import LatencySection, LatencyVerdict
from kschedctl.commands.audit.latency.rules import RULES, STALE
from kschedctl.commands.audit.latency.verdicts import Aspect, Verdict, format_seconds, judge_metrics
from kschedctl.replay.audit_rules import build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.section import FINDINGS, SOUND, UNKNOWN
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.sources.metrics.catalogue import (
    ALGORITHM,
    API_CALLS,
    ATTEMPTS,
    CACHE,
    FLUSHED,
    HINTS,
    IN_FLIGHT,
    PERMIT,
    PLUGINS,
    POINTS,
    PREEMPTIONS,
    QUEUES,
    REQUESTS,
    RESULTS,
    SLI,
    THROTTLING,
    VICTIMS,
    MetricsReading,
)
from kschedctl.text.counts import agreeing, capitalize, counted

TITLE = "Latency"
OBJECT = "Scheduler kube-scheduler"
STANDBY = UnknownKind("Metric", "come from an instance that is not the leader and schedules nothing", VERDICT)
NOT_GIVEN = UnknownKind("Metric", "of kube-scheduler were not given (specify --metrics or --prometheus)", VERDICT)
NO_ATTEMPTS = UnknownKind("Metric", "show no attempt to schedule a pod", VERDICT)


def build_latency_section(audited: AuditedCluster) -> LatencySection:
    """Build the section from the metrics that were read. Without metrics, the section's state is unknown."""
    if audited.measured is None:
        return LatencySection(
            title=TITLE, headline="Not audited: no metrics were given", **build_verdict(RULES, (), (NOT_GIVEN,))
        )
    nodes = None if audited.cluster.find_gap("Node") else len(audited.cluster.nodes)
    return build_section_from_metrics(audited.measured, audited.thresholds.latency, nodes)


def build_section_from_metrics(
    measured: MetricsReading, limits: LatencyLimits, nodes: int | None = None
) -> LatencySection:
    """Build the section from metrics. `nodes` is the number of nodes in the cluster, or None if unknown.

    If the metrics come from a scheduler that is not the leader, the section has no findings.
    """
    verdicts = (*judge_metrics(measured, limits), *_compare_node_counts(measured, nodes))
    is_standby = measured.is_leader is False
    findings = () if is_standby else tuple(_iter_findings(verdicts))
    timings = partial(build_timings, measured)
    return LatencySection(
        title=TITLE,
        headline=_build_headline(measured, verdicts, limits.target),
        source=measured.source,
        scheduler_version=measured.version,
        period=str(measured.period),
        seconds=measured.seconds,
        restarted=measured.restarted,
        target=limits.target,
        verdicts=tuple(map(_build_verdict_report, verdicts)),
        missing=measured.explain_missing_metrics(),
        attempts=timings(ATTEMPTS),
        algorithm=timings(ALGORITHM),
        extension_points=timings(POINTS),
        plugins=timings(PLUGINS),
        permit_waits=timings(PERMIT),
        api_calls=timings(API_CALLS),
        client_waits=timings(THROTTLING),
        client_requests=timings(REQUESTS),
        pod_scheduling_sli=timings(SLI),
        hints=timings(HINTS),
        attempt_curves=build_curves(measured, ATTEMPTS),
        results=list_metric_values(measured, RESULTS),
        queues=list_metric_values(measured, QUEUES),
        in_flight_events=list_metric_values(measured, IN_FLIGHT),
        cache=list_metric_values(measured, CACHE),
        preemption_attempts=get_only_number(list_metric_values(measured, PREEMPTIONS)),
        preemption_victims=next(iter(timings(VICTIMS)), None),
        scheduled_after_flush=get_only_number(list_metric_values(measured, FLUSHED)),
        **build_verdict(RULES, findings, _iter_unknowns(measured, verdicts)),
    )


def _iter_unknowns(measured: MetricsReading, verdicts: Sequence[Verdict]) -> Iterator[UnknownKind]:
    """Yield the reasons why the section's verdicts are uncertain.

    The instance may not be the leader or may have made no attempts. Some aspects may be undecided, and invalid values
    may have been ignored.
    """
    if measured.is_leader is False:
        yield STANDBY
    elif not any(histogram.count for histogram in measured.get_histograms(ATTEMPTS).values()):
        yield NO_ATTEMPTS
    if undecided := [verdict.about for verdict in verdicts if verdict.is_undecided]:
        reason = f"leave {', '.join(undecided)} undecided: buckets end below the limit or are missing"
        yield UnknownKind("Metric", reason, VERDICT)
    if measured.unusable:
        reason = (
            f"have {counted(measured.unusable, 'value')} that {agreeing(measured.unusable, 'was', 'were')} ignored: "
            "NaN, infinite or negative"
        )
        yield UnknownKind("Metric", reason, VERDICT)


def _compare_node_counts(measured: MetricsReading, nodes: int | None) -> Iterator[Verdict]:
    """Yield a verdict if the number of nodes in the scheduler's cache differs from that of the cluster.

    There is no verdict if either number is unknown.
    """
    cached = measured.get_number(CACHE, ("nodes",))
    if nodes is not None and cached is not None and cached != nodes:
        figures = f"{cached:,.0f} in the scheduler's cache, {nodes:,} in the cluster"
        yield Verdict(Aspect.NODES, figures, STALE, STALE.fix)


def _iter_findings(verdicts: Sequence[Verdict]) -> Iterator[Finding]:
    """Yield a finding for each verdict that breaks a rule."""
    for verdict in verdicts:
        if verdict.rule is not None:
            yield verdict.rule.build_finding(
                OBJECT,
                f"{verdict.about}: {verdict.text}",
                verdict.advice,
                path=verdict.about,
                severity=verdict.severity,
            )


def _build_verdict_report(verdict: Verdict) -> LatencyVerdict:
    """Build the report's entry about a verdict.

    Its state is FINDINGS for a warning or an error. Otherwise, it is SOUND if there is data, and UNKNOWN if not.
    """
    if verdict.is_warning_or_error:
        state = FINDINGS
    elif verdict.has_data:
        state = SOUND
    else:
        state = UNKNOWN
    return LatencyVerdict(about=verdict.about, state=state, told=verdict.text, lever=verdict.advice)


def _build_headline(measured: MetricsReading, verdicts: Sequence[Verdict], target: float) -> str:
    """Summarize the first verdict on attempts, and name the other aspects with findings.

    `target` is the longest good duration of an attempt in seconds. If the scheduler is not the leader, the headline
    only says so, since such an instance makes no attempts.
    """
    if measured.is_leader is False:
        return "This instance is not the leader and schedules nothing: query the leader"
    attempts = next(verdict for verdict in verdicts if verdict.aspect is Aspect.ATTEMPTS)
    is_within_target = attempts.has_data and attempts.rule is None
    if is_within_target:
        attempts_text = (
            f"attempts ({attempts.part}) are within the target of {format_seconds(target)}: {attempts.figures}"
        )
    else:
        attempts_text = f"{attempts.about}: {attempts.figures}"
    is_nothing_bound = any(verdict.aspect is Aspect.BINDING and not verdict.has_data for verdict in verdicts)
    headline = f"{capitalize(attempts_text)}{'; nothing was bound' if is_nothing_bound else ''}"
    other_aspects = dict.fromkeys(
        verdict.about for verdict in verdicts if verdict.is_warning_or_error and verdict is not attempts
    )
    return f"{headline}; needs attention: {', '.join(other_aspects)}" if other_aspects else headline
