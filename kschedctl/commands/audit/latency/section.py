"""What kube-scheduler's own metrics say: how long it takes, what waits, and what likely helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.latency.figures import curves, durations, numbers, only
from kschedctl.commands.audit.latency.report import LatencySection, LatencyVerdict
from kschedctl.commands.audit.latency.rules import RULES, STALE
from kschedctl.commands.audit.latency.verdicts import LatencyLimits, Verdict, verdicts
from kschedctl.replay.audit_rules import NOTE, build_verdict
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
)
from kschedctl.sources.metrics.measured import Measured
from kschedctl.text.counts import agreeing, counted

TITLE = "Latency"
OBJECT = "Scheduler kube-scheduler"
STANDBY = UnknownKind("Metric", "are of a scheduler that does not lead: it schedules nothing", VERDICT)
NOT_GIVEN = UnknownKind("Metric", "of kube-scheduler were not given: --metrics or --prometheus", VERDICT)
NO_ATTEMPTS = UnknownKind("Metric", "say of no attempt to schedule a pod", VERDICT)


def latency_section(audited: AuditedCluster) -> LatencySection:
    """The metrics that were given; without any nothing is known."""
    if audited.measured is None:
        return LatencySection(
            title=TITLE, headline="Not asked: no metrics were given", **build_verdict(RULES, (), (NOT_GIVEN,))
        )
    nodes = None if audited.cluster.gap("Node") else len(audited.cluster.nodes)
    return measured_section(audited.measured, audited.thresholds.latency, nodes)


def measured_section(measured: Measured, limits: LatencyLimits, nodes: int | None = None) -> LatencySection:
    """What was measured, with a verdict about each thing; ``nodes``: how many the cluster has, where it was read."""
    judgements = (*verdicts(measured, limits), *_of_nodes(measured, nodes))
    timings = partial(durations, measured)
    return LatencySection(
        title=TITLE,
        headline=_headline(measured, judgements),
        source=measured.source,
        scheduler_version=measured.version,
        period=str(measured.period),
        seconds=measured.seconds,
        restarted=measured.restarted,
        target=limits.target,
        verdicts=tuple(map(_verdict, judgements)),
        missing=measured.missing(),
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
        attempt_curves=curves(measured, ATTEMPTS),
        results=numbers(measured, RESULTS),
        queues=numbers(measured, QUEUES),
        in_flight_events=numbers(measured, IN_FLIGHT),
        cache=numbers(measured, CACHE),
        preemption_attempts=only(numbers(measured, PREEMPTIONS)),
        preemption_victims=next(iter(timings(VICTIMS)), None),
        scheduled_after_flush=only(numbers(measured, FLUSHED)),
        **build_verdict(
            RULES, _findings(judgements) if measured.leads is not False else (), _unknown(measured, judgements)
        ),
    )


def _unknown(measured: Measured, judgements: Sequence[Verdict]) -> Iterator[UnknownKind]:
    if measured.leads is False:
        yield STANDBY
    elif not any(histogram.count for histogram in measured.of(ATTEMPTS).values()):
        yield NO_ATTEMPTS
    if vague := [verdict.about for verdict in judgements if verdict.open]:
        why = f"do not tell enough of {', '.join(vague)}: buckets end below the limit, or are not there"
        yield UnknownKind("Metric", why, VERDICT)
    if measured.unusable:
        why = (
            f"have {counted(measured.unusable, 'value')} that "
            f"{agreeing(measured.unusable, 'is no count and was', 'are no counts and were')} left out: NaN, "
            "infinite or negative"
        )
        yield UnknownKind("Metric", why, VERDICT)


def _of_nodes(measured: Measured, nodes: int | None) -> Iterator[Verdict]:
    """Where the scheduler knows of another number."""
    cached = measured.number(CACHE, ("nodes",))
    if nodes is not None and cached is not None and cached != nodes:
        yield Verdict("nodes", f"{cached:,.0f} in the scheduler's cache, {nodes:,} in the cluster", STALE, STALE.fix)


def _findings(judgements: Sequence[Verdict]) -> Iterator[Finding]:
    for verdict in judgements:
        if verdict.rule is not None:
            severity = verdict.severity or verdict.rule.severity
            yield verdict.rule.build_finding(
                OBJECT, f"{verdict.about}: {verdict.told}", verdict.lever, path=verdict.about, severity=severity
            )


def _verdict(verdict: Verdict) -> LatencyVerdict:
    if verdict.rule is None:
        return LatencyVerdict(about=verdict.about, state=SOUND if verdict.known else UNKNOWN, told=verdict.told)
    state = FINDINGS if (verdict.severity or verdict.rule.severity) != NOTE else SOUND
    return LatencyVerdict(about=verdict.about, state=state, told=verdict.told, lever=verdict.lever)


def _headline(measured: Measured, judgements: Sequence[Verdict]) -> str:
    if measured.leads is False:
        return "This scheduler does not lead and schedules nothing: ask the leader"
    attempts = [verdict for verdict in judgements if verdict.about.startswith("attempts")]
    wrong = [
        verdict
        for verdict in judgements
        if verdict.rule is not None and (verdict.severity or verdict.rule.severity) != NOTE
    ]
    said = f"{attempts[0].about}: {attempts[0].told.partition(';')[0]}"
    others = [verdict.about for verdict in wrong if verdict not in attempts[:1]]
    also = f"; not well: {', '.join(dict.fromkeys(others))}" if others else ""
    return said[:1].upper() + said[1:] + also
