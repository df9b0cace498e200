"""The judgement of kube-scheduler's metrics: which aspects are good, and what likely helps with the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.commands.audit.latency import rules
from kschedctl.commands.audit.latency.figures import (
    BINDING,
    PERMIT_WAIT,
    count_observations,
    split_attempt_time,
    sum_seconds,
)
from kschedctl.replay.audit_rules import AuditRule
from kschedctl.sources.metrics.catalogue import (
    API_CALLS,
    ATTEMPTS,
    CACHE,
    FLUSHED,
    HINTS,
    IN_FLIGHT,
    PERMIT,
    PLUGINS,
    POINTS,
    PREEMPTION_CALLS,
    PREEMPTIONS,
    QUEUES,
    REQUESTS,
    RESULTS,
    SLI,
    THROTTLING,
    VICTIMS,
    MetricsReading,
)
from kschedctl.sources.metrics.histograms import Histogram
from kschedctl.text.counts import format_significant

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def format_seconds(seconds: float) -> str:
    """Return seconds with three digits in a suitable unit.

    >>> format_seconds(0.0123456), format_seconds(2e-5), format_seconds(12.5), format_seconds(0), format_seconds(16384)
    ('12.3 ms', '20 µs', '12.5 s', '0 s', '16,384 s')
    """
    unit, name = next((entry for entry in UNITS if abs(seconds) >= entry[0]), (1e-6, "µs") if seconds else UNITS[0])
    value = seconds / unit
    return f"{format_significant(value, 3)} {name}"


def format_count(count: float) -> str:
    """Return a count as text; counts that come from rates are not whole numbers.

    >>> format_count(12345.0), format_count(0.25), format_count(3.7)
    ('12,345', '0.25', '3.7')
    """
    return f"{count:,.0f}" if count == int(count) else format_significant(count, 2)


def _format_count_of(count: float, noun: str) -> str:
    """Return a count and its noun in the right number.

    >>> _format_count_of(1.0, "pod"), _format_count_of(0.25, "pod")
    ('1 pod', '0.25 pods')
    """
    return f"{format_count(count)} {_choose_form(count, noun, noun + 's')}"


def _choose_form(count: float, singular: str, plural: str) -> str:
    """Return the form of a word that agrees with a count."""
    return singular if format_count(count) == "1" else plural


SCHEDULED = "scheduled"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one aspect."""

    about: str
    """The aspect."""
    figures: str
    """The figures as text."""
    rule: AuditRule | None = None
    """The rule that is broken, None if the aspect is good."""
    lever: str = ""
    """The advice, empty if the aspect is good."""
    has_data: bool = True
    """Whether there was anything to judge."""
    is_undecided: bool = False
    """Whether the data does not decide, because the buckets end too low or are missing."""
    severity: str = ""
    """The severity if it differs from the rule's."""


def judge_metrics(measured: MetricsReading, limits: LatencyLimits) -> tuple[Verdict, ...]:
    """Return one or more verdicts for each aspect, in reading order."""
    return tuple(verdict for judge in JUDGES for verdict in judge(measured, limits))


def _build_no_data_verdict(about: str, figures: str = "nothing was counted") -> tuple[Verdict, ...]:
    """Return the verdict for an aspect without data."""
    return (Verdict(about, figures, has_data=False),)


def _judge_attempts(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the duration of attempts by result and profile."""
    histograms = {labels: histogram for labels, histogram in measured.of(ATTEMPTS).items() if histogram.count > 0}
    if not histograms:
        return _build_no_data_verdict("attempts")
    return [
        _judge_attempt_histogram(measured, limits, f"attempts: {result}, {profile}", histogram)
        for (result, profile), histogram in sorted(histograms.items(), key=lambda labelled: -labelled[1].count)
    ]


def _judge_attempt_histogram(
    measured: MetricsReading, limits: LatencyLimits, about: str, histogram: Histogram
) -> Verdict:
    """Judge the duration of attempts with one result and profile."""
    words = format_quantiles(histogram)
    is_above = _is_p99_above(histogram, limits.target)
    if not is_above:
        return _build_good_verdict(about, words, is_above)
    parts = split_attempt_time(measured)
    largest_part = f"; {parts[0].describe()}" if parts else ""
    lever = parts[0].get_advice() if parts else rules.ATTEMPTS.fix
    severity = "error" if histogram.estimate_quantile(0.5) > limits.target else ""
    return Verdict(
        about,
        f"{words}, target {format_seconds(limits.target)}{largest_part}",
        rules.ATTEMPTS,
        lever,
        severity=severity,
    )


def _judge_plugins(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the plugins whose single calls may be long, or the slowest plugin if there are none."""
    histograms = {labels: histogram for labels, histogram in measured.of(PLUGINS).items() if histogram.count > 0}
    if not histograms:
        return _build_no_data_verdict("plugins", "no cycle was timed: one in ten is")
    slow = [labels for labels, histogram in histograms.items() if histogram.is_lower_limit(0.99)]
    if not slow:
        slowest = max(histograms, key=lambda labels: (histograms[labels].estimate_quantile(0.99), labels))
        return (
            Verdict("plugins", f"the longest is {slowest[0]} at {slowest[1]}: {format_quantiles(histograms[slowest])}"),
        )
    return [
        Verdict(
            f"plugin {plugin} at {point}",
            format_quantiles(histograms[plugin, point]),
            rules.PLUGIN,
            f"see what {plugin} does at {point}: the pods that use it, and what it asks elsewhere",
        )
        for plugin, point in sorted(slow)
    ]


def _judge_binding(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the slowest step of binding."""
    points = {point: histogram for (point, _), histogram in measured.of(POINTS).items() if point in BINDING}
    points |= {f"{PERMIT_WAIT} ({result})": histogram for (result,), histogram in measured.of(PERMIT).items()}
    points |= {f"API call {call}": histogram for (call, _), histogram in measured.of(API_CALLS).items()}
    histograms = {point: histogram for point, histogram in points.items() if histogram.count > 0}
    if not histograms:
        return _build_no_data_verdict("binding", "nothing was bound")
    slowest = max(histograms, key=lambda point: (_nan_to_zero(histograms[point].estimate_quantile(0.99)), point))
    histogram = histograms[slowest]
    message = f"the longest is {slowest}: {format_quantiles(histogram)}"
    is_above = _is_p99_above(histogram, limits.target)
    if not is_above:
        return (_build_good_verdict("binding", message, is_above),)
    posts = measured.of(REQUESTS).get(("POST",))
    requests_text = f"; POST requests themselves: {format_quantiles(posts)}" if posts and posts.count > 0 else ""
    lever = rules.BINDING_FIXES.get(slowest.partition(" ")[0], rules.BINDING.fix)
    return (Verdict("binding", f"{message}{requests_text}", rules.BINDING, lever),)


def _judge_client_throttling(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the client's rate limit on requests.

    Returns no verdict without data, since not all sources have this metric.
    """
    by_verb = {verb: histogram for (verb,), histogram in measured.of(THROTTLING).items() if histogram.count > 0}
    if not by_verb:
        return ()
    slowest = max(by_verb, key=lambda verb: (_nan_to_zero(by_verb[verb].estimate_quantile(0.99)), verb))
    message = f"{slowest} requests are held back: {format_quantiles(by_verb[slowest])}"
    if not _is_p99_above(by_verb[slowest], limits.target):
        return (Verdict("client", message),)
    return (Verdict("client", message, rules.CLIENT, rules.CLIENT.fix),)


def _judge_pod_scheduling_sli(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the time from queue to bound of pods that were scheduled at the first attempt."""
    histograms = {tries: histogram for (tries,), histogram in measured.of(SLI).items() if histogram.count > 0}
    if not histograms:
        return _build_no_data_verdict("pods, from queue to bound", "no pod was scheduled")
    first = histograms.get("1")
    pods = sum(histogram.count for histogram in histograms.values())
    retried = pods - (first.count if first else 0.0)
    retried_text = (
        f"; {format_count(retried)} of {_format_count_of(pods, 'pod')} needed several attempts" if retried else ""
    )
    if first is None:
        return (Verdict("pods, from queue to bound", f"none at the first attempt{retried_text}"),)
    message = f"at the first attempt {format_quantiles(first)}{retried_text}"
    is_above = _is_p99_above(first, limits.sli)
    if not is_above:
        return (_build_good_verdict("pods, from queue to bound", message, is_above),)
    return (Verdict("pods, from queue to bound", message, rules.SLI, rules.SLI.fix),)


def _judge_results(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the results of attempts: whether there are errors, or mostly attempts without a node."""
    number = measured.numbers.get(RESULTS, {})
    by_result: dict[str, float] = {}
    for (result, _), count in number.items():
        by_result[result] = by_result.get(result, 0.0) + count
    attempts = sum(by_result.values())
    if not attempts:
        return _build_no_data_verdict("results")
    message = ", ".join(
        f"{format_count(count)} {result}" for result, count in sorted(by_result.items(), key=lambda r: -r[1])
    )
    errors, unschedulable = by_result.get("error", 0.0), by_result.get("unschedulable", 0.0)
    if errors:
        severity = "error" if errors > attempts / 100 else ""
        return (Verdict("results", message, rules.ERRORS, rules.ERRORS.fix, severity=severity),)
    if unschedulable > attempts / 2 and unschedulable >= limits.waiting:
        return (Verdict("results", message, rules.REFUSED, rules.REFUSED.fix),)
    return (Verdict("results", message),)


def _judge_queues(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the lengths of the queues."""
    counts = {queue: count for (queue,), count in measured.numbers.get(QUEUES, {}).items()}
    if not counts:
        return _build_no_data_verdict("queues", "their lengths are not there")
    message = ", ".join(f"{format_count(count)} {queue}" for queue, count in counts.items())
    long_queues = list(_iter_long_queues(measured, limits, counts))
    return long_queues or (Verdict("queues", message),)


def _iter_long_queues(measured: MetricsReading, limits: LatencyLimits, by_queue: dict[str, float]) -> Iterable[Verdict]:
    """Yield a verdict for each queue that is too long."""
    active, backoff, unschedulable = (by_queue.get(queue, 0.0) for queue in ("active", "backoff", "unschedulable"))
    attempts_seconds, attempts = sum_seconds(measured, ATTEMPTS), count_observations(measured, ATTEMPTS)
    backlog = active * attempts_seconds / attempts if attempts_seconds and attempts else 0.0
    if active > limits.waiting and backlog > limits.backlog:
        message = (
            f"{_format_count_of(active, 'pod')} {_choose_form(active, 'is', 'are')} ready: "
            f"{format_seconds(backlog)} of attempts one after the other"
        )
        yield Verdict("queue active", message, rules.ACTIVE, rules.ACTIVE.fix)
    if backoff > limits.waiting and backoff > active:
        message = (
            f"{_format_count_of(backoff, 'pod')} {_choose_form(backoff, 'waits', 'wait')} to be tried again, "
            f"{format_count(active)} {_choose_form(active, 'is', 'are')} ready"
        )
        yield Verdict("queue backoff", message, rules.BACKOFF, rules.BACKOFF.fix)
    pods = measured.get_number(CACHE, ("pods",))
    if unschedulable > limits.waiting and (pods is None or unschedulable > limits.unschedulable_share * pods):
        running_text = f", {format_count(pods)} {_choose_form(pods, 'runs', 'run')}" if pods is not None else ""
        verb = _choose_form(unschedulable, "fits", "fit")
        message = f"{_format_count_of(unschedulable, 'pod')} {verb} on no node{running_text}"
        yield Verdict("queue unschedulable", message, rules.UNSCHEDULABLE, rules.UNSCHEDULABLE.fix)


def _judge_flushed_pods(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the number of pods that fitted but were only retried by the flush of unschedulable pods."""
    count = measured.get_number(FLUSHED)
    if count is None:
        return ()
    if not count:
        return (Verdict("wake-ups", "no pod that fitted had to wait for the flush after five minutes"),)
    message = (
        f"{_format_count_of(count, 'pod')} fitted, and {_choose_form(count, 'was', 'were')} only tried again by the "
        "flush after five minutes"
    )
    return (Verdict("wake-ups", message, rules.FLUSHED, rules.FLUSHED.fix),)


def _judge_preemption(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how often preemption was tried, helped and failed."""
    attempts, victims = measured.get_number(PREEMPTIONS), next(iter(measured.of(VICTIMS).values()), None)
    if attempts is None:
        return _build_no_data_verdict("preemption")
    successes = victims.count if victims is not None else 0.0
    victims_text = f", {_format_count_of(victims.total, 'victim')}" if victims is not None and successes else ""
    message = f"{_format_count_of(attempts, 'attempt')}, {format_count(successes)} with victims{victims_text}"
    failed = measured.get_number(PREEMPTION_CALLS, ("error",))
    if failed:
        return (Verdict("preemption", f"{message}; {format_count(failed)} failed", rules.EVICTING, rules.EVICTING.fix),)
    if attempts >= limits.waiting and successes < attempts / 10:
        return (Verdict("preemption", message, rules.VAIN, rules.VAIN.fix),)
    return (Verdict("preemption", message),)


def _judge_cache(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the number of assumed pods in the cache."""
    counts = {kind: count for (kind,), count in measured.numbers.get(CACHE, {}).items()}
    if not counts:
        return _build_no_data_verdict("cache", "its size is not there")
    message = ", ".join(f"{format_count(count)} {kind.replace('_', ' ')}" for kind, count in sorted(counts.items()))
    assumed, pods = counts.get("assumed_pods", 0.0), counts.get("pods", 0.0)
    if assumed > limits.waiting and assumed > limits.assumed_share * pods:
        return (Verdict("cache", message, rules.ASSUMED, rules.ASSUMED.fix),)
    return (Verdict("cache", message),)


def _judge_hints(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the results of queueing hints."""
    histograms = measured.of(HINTS)
    if not histograms:
        return _build_no_data_verdict("hints")
    counts: dict[str, float] = {}
    for (_, _, hint), histogram in histograms.items():
        counts[hint] = counts.get(hint, 0.0) + histogram.count
    message = ", ".join(f"{format_count(count)} {hint}" for hint, count in sorted(counts.items()))
    failing = sorted(
        {plugin for plugin, _, hint in histograms if hint == "Error" and histograms[plugin, _, hint].count}
    )
    if failing:
        return (Verdict("hints", f"{message}: of {', '.join(failing)}", rules.HINTS, rules.HINTS.fix),)
    return (Verdict("hints", message),)


def _judge_in_flight_events(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the number of events that are kept for pods in flight."""
    events = measured.get_total(IN_FLIGHT)
    if events is None:
        return _build_no_data_verdict("events in flight")
    message = f"{format_count(events)} {_choose_form(events, 'is', 'are')} kept for pods that are being tried"
    if events > limits.in_flight:
        return (Verdict("events in flight", message, rules.EVENTS, rules.EVENTS.fix),)
    return (Verdict("events in flight", message),)


def format_quantiles(histogram: Histogram) -> str:
    """Return the quantiles of a histogram, such as `P50 1.2 ms, P90 3 ms, P99 at least 200 ms`."""
    parts = []
    for name, q in (("P50", 0.5), ("P90", 0.9), ("P99", 0.99)):
        value = histogram.estimate_quantile(q)
        at_least = "at least " if histogram.is_lower_limit(q) else ""
        parts.append(f"{name} {at_least}{format_seconds(value)}" if math.isfinite(value) else f"{name} not known")
    return ", ".join(parts)


def _build_good_verdict(about: str, figures: str, is_above: bool | None) -> Verdict:
    """Return the verdict that an aspect is within its limit, or undecided if `is_above` is None."""
    return Verdict(about, figures, has_data=is_above is not None, is_undecided=is_above is None)


def _is_p99_above(histogram: Histogram, limit: float) -> bool | None:
    """Return whether the 99th percentile is above the limit, or None if the buckets end too low to decide."""
    p99 = histogram.estimate_quantile(0.99)
    if math.isnan(p99) or (p99 <= limit and histogram.is_lower_limit(0.99)):
        return None
    return p99 > limit


def _nan_to_zero(value: float) -> float:
    """Return 0.0 for NaN, otherwise the value."""
    return 0.0 if math.isnan(value) else value


JUDGES: tuple[Callable[[MetricsReading, LatencyLimits], Iterable[Verdict]], ...] = (
    _judge_attempts,
    _judge_plugins,
    _judge_binding,
    _judge_client_throttling,
    _judge_pod_scheduling_sli,
    _judge_results,
    _judge_queues,
    _judge_flushed_pods,
    _judge_preemption,
    _judge_cache,
    _judge_hints,
    _judge_in_flight_events,
)
