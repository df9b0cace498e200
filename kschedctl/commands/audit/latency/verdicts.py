"""The judgement of kube-scheduler's metrics: which aspects are good, and what likely helps with bad ones.

Each function `_judge_…` returns the verdicts on one aspect. Unless it says otherwise, it returns a verdict without data
if the metrics of the aspect are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.commands.audit.latency import rules
from kschedctl.commands.audit.latency.figures import (
    BINDING,
    PERMIT_WAIT,
    count_observations,
    split_attempt_time,
    sum_seconds,
)
from kschedctl.replay.audit_rules import ERROR, NOTE, AuditRule
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

GRAVE_ERROR_SHARE = 0.01
"""The share of attempts that end in errors above which the errors are a grave finding."""
LEAST_SUCCESS_SHARE = 0.1
"""The share of preemption attempts that have to find victims."""


def format_seconds(seconds: float) -> str:
    """Format seconds with three significant digits in a suitable unit. Whole seconds keep all their digits.

    >>> format_seconds(0.0123456), format_seconds(2e-5), format_seconds(12.5), format_seconds(0), format_seconds(16384)
    ('12.3 ms', '20 µs', '12.5 s', '0 s', '16,384 s')
    """
    if abs(seconds) >= 1 or not seconds:
        return f"{format_significant(seconds, 3)} s"
    if abs(seconds) >= 1e-3:
        return f"{format_significant(seconds * 1e3, 3)} ms"
    return f"{format_significant(seconds * 1e6, 3)} µs"


def format_count(count: float) -> str:
    """Return a count as text; counts that come from rates are not whole numbers.

    >>> format_count(12345.0), format_count(0.25), format_count(3.7)
    ('12,345', '0.25', '3.7')
    """
    return f"{count:,.0f}" if count == int(count) else format_significant(count, 2)


def _format_count_of(count: float, noun: str) -> str:
    """Return a count and a noun that agrees with it.

    >>> _format_count_of(1.0, "pod"), _format_count_of(0.25, "pod")
    ('1 pod', '0.25 pods')
    """
    return f"{format_count(count)} {_agreeing(count, noun, noun + 's')}"


def _agreeing(count: float, singular: str, plural: str) -> str:
    """Return the form of a word that agrees with a count."""
    return singular if format_count(count) == "1" else plural


SCHEDULED = "scheduled"


class Aspect(StrEnum):
    """The aspects of kube-scheduler that are judged."""

    ATTEMPTS = "attempts"
    PLUGINS = "plugins"
    PLUGIN = "plugin"
    BINDING = "binding"
    CLIENT = "client"
    PODS = "pods, from queue to bound"
    RESULTS = "results"
    QUEUES = "queues"
    QUEUE = "queue"
    WAKE_UPS = "wake-ups"
    PREEMPTION = "preemption"
    CACHE = "cache"
    HINTS = "hints"
    EVENTS_IN_FLIGHT = "events in flight"
    NODES = "nodes"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one aspect."""

    aspect: Aspect
    figures: str
    """The figures as text."""
    rule: AuditRule | None = None
    """The rule that is broken, None if the aspect is good."""
    advice: str = ""
    """The advice, empty if the aspect is good."""
    has_data: bool = True
    """True if there was anything to judge."""
    is_undecided: bool = False
    """True if the data does not decide, because the buckets end too low or are missing."""
    own_severity: str = ""
    """The severity if it differs from the rule's."""
    explanation: str = ""
    """A text that explains the figures, or an empty string."""
    part: str = ""
    """The part of the aspect that is judged, such as a queue, or an empty string for all of it."""

    @property
    def about(self) -> str:
        """The aspect and the judged part of it, such as `attempts: scheduled, default-scheduler`."""
        if not self.part:
            return self.aspect.value
        separator = ": " if self.aspect is Aspect.ATTEMPTS else " "
        return f"{self.aspect.value}{separator}{self.part}"

    @property
    def text(self) -> str:
        """The figures, with what explains them."""
        return f"{self.figures}; {self.explanation}" if self.explanation else self.figures

    @property
    def severity(self) -> str:
        """The severity of the finding, empty if the aspect is good."""
        rule_severity = self.rule.severity if self.rule is not None else ""
        return self.own_severity or rule_severity

    @property
    def is_warning_or_error(self) -> bool:
        """True if a rule is broken that is more than a note."""
        return self.rule is not None and self.severity != NOTE


def judge_metrics(measured: MetricsReading, limits: LatencyLimits) -> tuple[Verdict, ...]:
    """Return the verdicts on all aspects, in reading order. Aspects that not all sources have may be missing."""
    return tuple(verdict for judge in JUDGES for verdict in judge(measured, limits))


def _build_no_data_verdict(aspect: Aspect, figures: str = "nothing was counted") -> tuple[Verdict, ...]:
    """Return the only verdict on an aspect without data, as a tuple."""
    return (Verdict(aspect, figures, has_data=False),)


def _judge_attempt_durations(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how long attempts take, for each result and profile, the most frequent first."""
    histograms = _get_observed_histograms(measured, ATTEMPTS)
    if not histograms:
        return _build_no_data_verdict(Aspect.ATTEMPTS)
    return [
        _judge_attempt_histogram(measured, limits, f"{result}, {profile}", histograms[result, profile])
        for result, profile in sorted(histograms, key=lambda labels: -histograms[labels].count)
    ]


def _get_observed_histograms(measured: MetricsReading, metric: str) -> dict[tuple[str, ...], Histogram]:
    """Return the histograms of a metric that have observations, by label values."""
    return {labels: histogram for labels, histogram in measured.get_histograms(metric).items() if histogram.count > 0}


def _judge_attempt_histogram(
    measured: MetricsReading, limits: LatencyLimits, result_and_profile: str, histogram: Histogram
) -> Verdict:
    """Judge the duration of attempts with one result and profile, which `result_and_profile` names.

    If the 99th percentile is above the target, the verdict names the part of the attempts that takes the most time. The
    severity is error if even the median is above the target.
    """
    quantiles = format_quantiles(histogram)
    comparison = _compare_p99(histogram, limits.target)
    if comparison is not _Comparison.ABOVE:
        return _build_good_verdict(Aspect.ATTEMPTS, quantiles, comparison, part=result_and_profile)
    is_median_above = histogram.estimate_quantile(0.5) > limits.target
    parts = split_attempt_time(measured)
    return Verdict(
        Aspect.ATTEMPTS,
        f"{quantiles}, target {format_seconds(limits.target)}",
        rules.ATTEMPTS,
        parts[0].get_advice() if parts else rules.ATTEMPTS.fix,
        own_severity=ERROR if is_median_above else "",
        explanation=parts[0].describe() if parts else "",
        part=result_and_profile,
    )


def _judge_plugins(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge each plugin with calls beyond the last bucket of its histogram, or the slowest plugin if there are none."""
    histograms = _get_observed_histograms(measured, PLUGINS)
    if not histograms:
        return _build_no_data_verdict(
            Aspect.PLUGINS, "no plugin calls were timed: kube-scheduler times one scheduling cycle in ten"
        )
    beyond_last_bucket = [labels for labels, histogram in histograms.items() if histogram.is_lower_limit(0.99)]
    if not beyond_last_bucket:
        plugin, point = max(histograms, key=lambda labels: (histograms[labels].estimate_quantile(0.99), labels))
        figures = f"the slowest is {plugin} at {point}: {format_quantiles(histograms[plugin, point])}"
        return (Verdict(Aspect.PLUGINS, figures),)
    return [
        Verdict(
            Aspect.PLUGIN,
            format_quantiles(histograms[plugin, point]),
            rules.PLUGIN,
            f"find out what {plugin} does at {point}: which pods use it, and which services it calls",
            part=f"{plugin} at {point}",
        )
        for plugin, point in sorted(beyond_last_bucket)
    ]


def _judge_binding(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the slowest step of binding: an extension point, a wait at Permit or a call of the API dispatcher.

    If the step is too slow, the verdict also has the duration of POST requests, which shows how much of the time the
    API server takes.
    """
    steps = {point: histogram for (point, _), histogram in measured.get_histograms(POINTS).items() if point in BINDING}
    permit_waits = {
        f"{PERMIT_WAIT} ({result})": histogram for (result,), histogram in measured.get_histograms(PERMIT).items()
    }
    steps |= permit_waits
    steps |= {f"API call {call}": histogram for (call, _), histogram in measured.get_histograms(API_CALLS).items()}
    observed_steps = {step: histogram for step, histogram in steps.items() if histogram.count > 0}
    if not observed_steps:
        return _build_no_data_verdict(Aspect.BINDING, "nothing was bound")

    slowest_step = _find_slowest(observed_steps)
    histogram = observed_steps[slowest_step]
    figures = f"the slowest is {slowest_step}: {format_quantiles(histogram)}"
    comparison = _compare_p99(histogram, limits.target)
    if comparison is not _Comparison.ABOVE:
        return (_build_good_verdict(Aspect.BINDING, figures, comparison),)
    posts = measured.get_histograms(REQUESTS).get(("POST",))
    explanation = f"POST requests themselves: {format_quantiles(posts)}" if posts and posts.count > 0 else ""
    extension_point = PERMIT_WAIT if slowest_step in permit_waits else slowest_step
    advice = rules.BINDING_FIXES.get(extension_point, rules.BINDING.fix)
    return (Verdict(Aspect.BINDING, figures, rules.BINDING, advice, explanation=explanation),)


def _find_slowest(histograms: Mapping[str, Histogram]) -> str:
    """Return the key of the histogram with the highest 99th percentile. An unknown percentile counts as 0."""
    return max(histograms, key=lambda key: (_replace_nan_by_zero(histograms[key].estimate_quantile(0.99)), key))


def _judge_client_throttling(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how long the client's rate limit holds back the requests of the verb that waits longest.

    Return no verdict without data, since not all sources have this metric.
    """
    by_verb = {verb: histogram for (verb,), histogram in _get_observed_histograms(measured, THROTTLING).items()}
    if not by_verb:
        return ()
    slowest_verb = _find_slowest(by_verb)
    quantiles = format_quantiles(by_verb[slowest_verb])
    if _compare_p99(by_verb[slowest_verb], limits.target) is not _Comparison.ABOVE:
        return (Verdict(Aspect.CLIENT, f"the client's rate limit hardly delays {slowest_verb} requests: {quantiles}"),)
    figures = f"the client's rate limit delays {slowest_verb} requests: {quantiles}"
    return (Verdict(Aspect.CLIENT, figures, rules.CLIENT, rules.CLIENT.fix),)


def _judge_pod_scheduling_sli(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how long pods took from entering the queue to being bound, if they were scheduled at the first attempt.

    Pods that needed several attempts are only counted.
    """
    aspect = Aspect.PODS
    by_attempts = {attempts: histogram for (attempts,), histogram in _get_observed_histograms(measured, SLI).items()}
    if not by_attempts:
        return _build_no_data_verdict(aspect, "no pod was scheduled")
    first_attempt = by_attempts.get("1")
    pods = sum(histogram.count for histogram in by_attempts.values())
    retried = pods - (first_attempt.count if first_attempt else 0.0)
    retried_text = ""
    if retried:
        retried_text = f"; {format_count(retried)} of {_format_count_of(pods, 'pod')} needed several attempts"
    if first_attempt is None:
        return (Verdict(aspect, f"none was scheduled at the first attempt{retried_text}"),)
    figures = f"at the first attempt {format_quantiles(first_attempt)}{retried_text}"
    comparison = _compare_p99(first_attempt, limits.sli)
    if comparison is _Comparison.ABOVE:
        return (Verdict(aspect, figures, rules.SLI, rules.SLI.fix),)
    return (_build_good_verdict(aspect, figures, comparison),)


def _judge_attempt_results(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge whether attempts end in errors, and whether most of them find no node.

    If there are errors, the only verdict is about them. Its severity is error if they are more than one in a hundred
    attempts. Attempts without a node are a finding only if there are at least as many as `limits.waiting`.
    """
    by_result: dict[str, float] = {}
    for (result, _), count in measured.numbers.get(RESULTS, {}).items():
        by_result[result] = by_result.get(result, 0.0) + count
    attempts = sum(by_result.values())
    if not attempts:
        return _build_no_data_verdict(Aspect.RESULTS)
    most_frequent_first = sorted(by_result, key=lambda result: -by_result[result])
    figures = ", ".join(f"{format_count(by_result[result])} {result}" for result in most_frequent_first)
    errors = by_result.get("error", 0.0)
    unschedulable = by_result.get("unschedulable", 0.0)
    if errors:
        own_severity = ERROR if errors > attempts * GRAVE_ERROR_SHARE else ""
        return (Verdict(Aspect.RESULTS, figures, rules.ERRORS, rules.ERRORS.fix, own_severity=own_severity),)
    if unschedulable > attempts / 2 and unschedulable >= limits.waiting:
        return (Verdict(Aspect.RESULTS, figures, rules.REFUSED, rules.REFUSED.fix),)
    return (Verdict(Aspect.RESULTS, figures),)


def _judge_queues(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the lengths of the queues. Each queue that is too long has a verdict.

    If no queue is too long, one verdict is about all queues.
    """
    count_by_queue = {queue: count for (queue,), count in measured.numbers.get(QUEUES, {}).items()}
    if not count_by_queue:
        return _build_no_data_verdict(Aspect.QUEUES, "their lengths are missing")
    active, backoff, unschedulable = (
        count_by_queue.get(queue, 0.0) for queue in ("active", "backoff", "unschedulable")
    )
    long_queues = [
        *_judge_active_queue(measured, limits, active),
        *_judge_backoff_queue(limits, backoff, active),
        *_judge_unschedulable_queue(measured, limits, unschedulable),
    ]
    figures = ", ".join(f"{format_count(count)} {queue}" for queue, count in count_by_queue.items())
    return long_queues or (Verdict(Aspect.QUEUES, figures),)


def _judge_active_queue(measured: MetricsReading, limits: LatencyLimits, active: float) -> Iterable[Verdict]:
    """Yield a verdict if attempts for all ready pods, one after the other, would take too long."""
    attempts_seconds = sum_seconds(measured, ATTEMPTS)
    attempts = count_observations(measured, ATTEMPTS)
    if not attempts_seconds or not attempts:
        return
    seconds_per_attempt = attempts_seconds / attempts
    backlog_seconds = active * seconds_per_attempt
    if active > limits.waiting and backlog_seconds > limits.backlog:
        figures = (
            f"{_format_count_of(active, 'pod')} {_agreeing(active, 'is', 'are')} ready: trying them one after the "
            f"other takes {format_seconds(backlog_seconds)}"
        )
        yield Verdict(Aspect.QUEUE, figures, rules.ACTIVE, rules.ACTIVE.fix, part="active")


def _judge_backoff_queue(limits: LatencyLimits, backoff: float, active: float) -> Iterable[Verdict]:
    """Yield a verdict if many pods are in back-off, and more than are ready."""
    if backoff > limits.waiting and backoff > active:
        figures = (
            f"{_format_count_of(backoff, 'pod')} in back-off, "
            f"{format_count(active)} {_agreeing(active, 'is', 'are')} ready"
        )
        yield Verdict(Aspect.QUEUE, figures, rules.BACKOFF, rules.BACKOFF.fix, part="backoff")


def _judge_unschedulable_queue(
    measured: MetricsReading, limits: LatencyLimits, unschedulable: float
) -> Iterable[Verdict]:
    """Yield a verdict if many pods are unschedulable, in absolute terms and compared with the running pods."""
    running = measured.get_number(CACHE, ("pods",))
    is_large_share = running is None or unschedulable > limits.unschedulable_share * running
    if unschedulable > limits.waiting and is_large_share:
        verb = _agreeing(unschedulable, "fits", "fit")
        figures = f"{_format_count_of(unschedulable, 'pod')} {verb} on no node"
        if running is not None:
            figures += f", {format_count(running)} {_agreeing(running, 'is', 'are')} running"
        yield Verdict(Aspect.QUEUE, figures, rules.UNSCHEDULABLE, rules.UNSCHEDULABLE.fix, part="unschedulable")


def _judge_flushed_pods(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how many pods fitted but were only retried when kube-scheduler flushed its unschedulable pods.

    Return no verdict without data, since not all versions have this metric.
    """
    count = measured.get_number(FLUSHED)
    if count is None:
        return ()
    if not count:
        return (Verdict(Aspect.WAKE_UPS, "no fitting pod had to wait for the flush after five minutes"),)
    message = (
        f"{_format_count_of(count, 'pod')} fitted, but {_agreeing(count, 'was', 'were')} only retried by the flush "
        "after five minutes"
    )
    return (Verdict(Aspect.WAKE_UPS, message, rules.FLUSHED, rules.FLUSHED.fix),)


def _judge_preemption(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge how often preemption was tried, found victims and failed.

    A verdict about failed evictions takes precedence over one about attempts without victims.
    """
    attempts = measured.get_number(PREEMPTIONS)
    if attempts is None:
        return _build_no_data_verdict(Aspect.PREEMPTION)
    victims = next(iter(measured.get_histograms(VICTIMS).values()), None)  # the histogram has no labels
    successes = victims.count if victims is not None else 0.0
    victims_text = f", {_format_count_of(victims.total, 'victim')}" if victims is not None and successes else ""
    message = f"{_format_count_of(attempts, 'attempt')}, {format_count(successes)} with victims{victims_text}"
    failed = measured.get_number(PREEMPTION_CALLS, ("error",))
    if failed:
        return (
            Verdict(Aspect.PREEMPTION, f"{message}; {format_count(failed)} failed", rules.EVICTING, rules.EVICTING.fix),
        )
    if attempts >= limits.waiting and successes < attempts * LEAST_SUCCESS_SHARE:
        return (Verdict(Aspect.PREEMPTION, message, rules.VAIN, rules.VAIN.fix),)
    return (Verdict(Aspect.PREEMPTION, message),)


def _judge_assumed_pods(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge whether many pods in the cache are only assumed, in absolute terms and compared with all cached pods."""
    count_by_kind = {kind: count for (kind,), count in measured.numbers.get(CACHE, {}).items()}
    if not count_by_kind:
        return _build_no_data_verdict(Aspect.CACHE, "its size is missing")
    message = ", ".join(
        f"{format_count(count)} {kind.replace('_', ' ')}" for kind, count in sorted(count_by_kind.items())
    )
    assumed = count_by_kind.get("assumed_pods", 0.0)
    if assumed > limits.waiting and assumed > limits.assumed_share * count_by_kind.get("pods", 0.0):
        return (Verdict(Aspect.CACHE, message, rules.ASSUMED, rules.ASSUMED.fix),)
    return (Verdict(Aspect.CACHE, message),)


def _judge_queueing_hints(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the results of queueing hints. Hints that fail lead to a finding that names their plugins."""
    histograms = measured.get_histograms(HINTS)
    if not histograms:
        return _build_no_data_verdict(Aspect.HINTS)
    count_by_hint: dict[str, float] = {}
    failing_plugins = set()
    for (plugin, _, hint), histogram in histograms.items():
        count_by_hint[hint] = count_by_hint.get(hint, 0.0) + histogram.count
        if hint == "Error" and histogram.count:
            failing_plugins.add(plugin)
    message = ", ".join(f"{format_count(count)} {hint}" for hint, count in sorted(count_by_hint.items()))
    if failing_plugins:
        figures = f"{message} (errors in {', '.join(sorted(failing_plugins))})"
        return (Verdict(Aspect.HINTS, figures, rules.HINTS, rules.HINTS.fix),)
    return (Verdict(Aspect.HINTS, message),)


def _judge_in_flight_events(measured: MetricsReading, limits: LatencyLimits) -> Iterable[Verdict]:
    """Judge the number of events that are kept for pods in flight."""
    events = measured.get_total(IN_FLIGHT)
    if events is None:
        return _build_no_data_verdict(Aspect.EVENTS_IN_FLIGHT)
    message = f"{format_count(events)} {_agreeing(events, 'is', 'are')} kept for pods that are being tried"
    if events > limits.in_flight:
        return (Verdict(Aspect.EVENTS_IN_FLIGHT, message, rules.EVENTS, rules.EVENTS.fix),)
    return (Verdict(Aspect.EVENTS_IN_FLIGHT, message),)


def format_quantiles(histogram: Histogram) -> str:
    """Format the quantiles of a histogram, such as `P50 1.2 ms, P90 3 ms, P99 at least 200 ms`.

    A quantile in the last bucket is shown as "at least", a quantile in the first bucket as "under", and an undetermined
    quantile as "not known". If even the 99th percentile is in the first bucket, the text is just `99% under 1 ms`.
    """
    first_bucket_limit = histogram.find_upper_limit(0.99)
    if first_bucket_limit is not None:
        return f"99% under {format_seconds(first_bucket_limit)}"
    parts = []
    for name, q in (("P50", 0.5), ("P90", 0.9), ("P99", 0.99)):
        limit = histogram.find_upper_limit(q)
        if limit is not None:
            parts.append(f"{name} under {format_seconds(limit)}")
            continue
        value = histogram.estimate_quantile(q)
        at_least = "at least " if histogram.is_lower_limit(q) else ""
        parts.append(f"{name} {at_least}{format_seconds(value)}" if math.isfinite(value) else f"{name} not known")
    return ", ".join(parts)


class _Comparison(Enum):
    """The result of comparing a 99th percentile with a limit."""

    WITHIN = 0
    ABOVE = 1
    UNDECIDED = 2
    """The histogram has no data, or its buckets end too low to decide."""


def _compare_p99(histogram: Histogram, limit: float) -> _Comparison:
    """Compare the 99th percentile with the limit."""
    p99 = histogram.estimate_quantile(0.99)
    if math.isnan(p99):
        return _Comparison.UNDECIDED
    if p99 > limit:
        return _Comparison.ABOVE
    return _Comparison.UNDECIDED if histogram.is_lower_limit(0.99) else _Comparison.WITHIN


def _build_good_verdict(aspect: Aspect, figures: str, comparison: _Comparison, *, part: str = "") -> Verdict:
    """Build the verdict that an aspect is within its limit, or that it is undecided.

    `part` names the part of the aspect that was judged.
    """
    is_undecided = comparison is _Comparison.UNDECIDED
    return Verdict(aspect, figures, has_data=not is_undecided, is_undecided=is_undecided, part=part)


def _replace_nan_by_zero(value: float) -> float:
    """Return 0.0 for NaN, otherwise the value."""
    return 0.0 if math.isnan(value) else value


JUDGES: tuple[Callable[[MetricsReading, LatencyLimits], Iterable[Verdict]], ...] = (
    _judge_attempt_durations,
    _judge_plugins,
    _judge_binding,
    _judge_client_throttling,
    _judge_pod_scheduling_sli,
    _judge_attempt_results,
    _judge_queues,
    _judge_flushed_pods,
    _judge_preemption,
    _judge_assumed_pods,
    _judge_queueing_hints,
    _judge_in_flight_events,
)
