"""What the figures mean: for each thing that is measured whether it is well, and what likely helps where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kschedctl.api.digits import format_significant
from kschedctl.commands.audit.latency import rules
from kschedctl.commands.audit.latency.figures import total_count, total_time
from kschedctl.commands.audit.latency.time_parts import BINDING, PERMIT_WAIT, time_parts
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
)
from kschedctl.sources.metrics.histograms import Histogram
from kschedctl.sources.metrics.measured import Measured

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def seconds_text(seconds: float) -> str:
    """Three digits, in a unit that suits.

    >>> seconds_text(0.0123456), seconds_text(2e-5), seconds_text(12.5), seconds_text(0), seconds_text(16384)
    ('12.3 ms', '20 µs', '12.5 s', '0 s', '16,384 s')
    """
    unit, name = next((entry for entry in UNITS if abs(seconds) >= entry[0]), (1e-6, "µs") if seconds else UNITS[0])
    value = seconds / unit
    return f"{format_significant(value, 3)} {name}"


def number_of(count: float) -> str:
    """Counts of a rate are no whole numbers.

    >>> number_of(12345.0), number_of(0.25), number_of(3.7)
    ('12,345', '0.25', '3.7')
    """
    return f"{count:,.0f}" if count == int(count) else format_significant(count, 2)


def _number_and_noun(count: float, noun: str) -> str:
    """Return a count that may be no whole number, and its noun.

    >>> _number_and_noun(1.0, "pod"), _number_and_noun(0.25, "pod")
    ('1 pod', '0.25 pods')
    """
    return f"{number_of(count)} {_verb(count, noun, noun + 's')}"


def _verb(count: float, singular: str, plural: str) -> str:
    """Return the form of a word that agrees with a count that may be no whole number."""
    return singular if number_of(count) == "1" else plural


SCHEDULED = "scheduled"


@dataclass(frozen=True)
class LatencyLimits:
    """From where on a figure is a finding; times in seconds."""

    target: float = 0.1
    sli: float = 5.0
    """The service level objective of pods' start is 5 s, without what they wait for capacity."""
    backlog: float = 30.0
    waiting: int = 100
    """Fewer pods than these in a queue are told, and no finding."""
    unschedulable_share: float = 0.1
    assumed_share: float = 0.01
    in_flight: int = 10_000


@dataclass(frozen=True)
class Verdict:
    """``rule``: what is wrong by it, None where all is well; ``known``: there was something to tell it from.

    ``open``: it happened, and nobody knows whether it is well: the buckets end too low, or are not there.
    """

    about: str
    told: str
    rule: AuditRule | None = None
    lever: str = ""
    known: bool = True
    open: bool = False
    severity: str = ""


def verdicts(measured: Measured, limits: LatencyLimits) -> tuple[Verdict, ...]:
    """One or more for everything that is judged, in the order in which they are read."""
    return tuple(verdict for judge in JUDGES for verdict in judge(measured, limits))


def _nothing(about: str, words: str = "nothing was counted") -> tuple[Verdict, ...]:
    return (Verdict(about, words, known=False),)


def _attempts(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    histograms = {labels: histogram for labels, histogram in measured.of(ATTEMPTS).items() if histogram.count > 0}
    if not histograms:
        return _nothing("attempts")
    return [
        _attempt(measured, limits, f"attempts: {result}, {profile}", histogram)
        for (result, profile), histogram in sorted(histograms.items(), key=lambda labelled: -labelled[1].count)
    ]


def _attempt(measured: Measured, limits: LatencyLimits, about: str, histogram: Histogram) -> Verdict:
    words = quantiles_text(histogram)
    above = _above(histogram, limits.target)
    if not above:
        return _well(about, words, above)
    parts = time_parts(measured)
    why = f"; {parts[0].told()}" if parts else ""
    lever = parts[0].lever() if parts else rules.ATTEMPTS.fix
    severe = "error" if histogram.quantile(0.5) > limits.target else ""
    return Verdict(about, f"{words}, target {seconds_text(limits.target)}{why}", rules.ATTEMPTS, lever, severity=severe)


def _plugins(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    """The plugin that takes most time, and those of which a single call may be long."""
    histograms = {labels: histogram for labels, histogram in measured.of(PLUGINS).items() if histogram.count > 0}
    if not histograms:
        return _nothing("plugins", "no cycle was timed: one in ten is")
    slow = [labels for labels, histogram in histograms.items() if histogram.at_least(0.99)]
    if not slow:
        most = max(histograms, key=lambda labels: (histograms[labels].quantile(0.99), labels))
        return (Verdict("plugins", f"the longest is {most[0]} at {most[1]}: {quantiles_text(histograms[most])}"),)
    return [
        Verdict(
            f"plugin {plugin} at {point}",
            quantiles_text(histograms[plugin, point]),
            rules.PLUGIN,
            f"see what {plugin} does at {point}: the pods that use it, and what it asks elsewhere",
        )
        for plugin, point in sorted(slow)
    ]


def _binding(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    points = {point: histogram for (point, _), histogram in measured.of(POINTS).items() if point in BINDING}
    points |= {f"{PERMIT_WAIT} ({result})": histogram for (result,), histogram in measured.of(PERMIT).items()}
    points |= {f"API call {call}": histogram for (call, _), histogram in measured.of(API_CALLS).items()}
    histograms = {point: histogram for point, histogram in points.items() if histogram.count > 0}
    if not histograms:
        return _nothing("binding", "nothing was bound")
    slowest = max(histograms, key=lambda point: (_or_zero(histograms[point].quantile(0.99)), point))
    histogram = histograms[slowest]
    message = f"the longest is {slowest}: {quantiles_text(histogram)}"
    above = _above(histogram, limits.target)
    if not above:
        return (_well("binding", message, above),)
    posts = measured.of(REQUESTS).get(("POST",))
    of_requests = f"; POST requests themselves: {quantiles_text(posts)}" if posts and posts.count > 0 else ""
    lever = rules.BINDING_LEVERS.get(slowest.partition(" ")[0], rules.BINDING.fix)
    return (Verdict("binding", f"{message}{of_requests}", rules.BINDING, lever),)


def _client(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    """Requests that the client holds back. Told where the time is known alone, since all clients have it."""
    by_verb = {verb: histogram for (verb,), histogram in measured.of(THROTTLING).items() if histogram.count > 0}
    if not by_verb:
        return ()
    slowest = max(by_verb, key=lambda verb: (_or_zero(by_verb[verb].quantile(0.99)), verb))
    message = f"{slowest} requests are held back: {quantiles_text(by_verb[slowest])}"
    if not _above(by_verb[slowest], limits.target):
        return (Verdict("client", message),)
    return (Verdict("client", message, rules.CLIENT, rules.CLIENT.fix),)


def _sli(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    by_tries = {tries: histogram for (tries,), histogram in measured.of(SLI).items() if histogram.count > 0}
    if not by_tries:
        return _nothing("pods, from queue to bound", "no pod was scheduled")
    first = by_tries.get("1")
    pods = sum(histogram.count for histogram in by_tries.values())
    several = pods - (first.count if first else 0.0)
    again = f"; {number_of(several)} of {_number_and_noun(pods, 'pod')} needed several attempts" if several else ""
    if first is None:
        return (Verdict("pods, from queue to bound", f"none at the first attempt{again}"),)
    message = f"at the first attempt {quantiles_text(first)}{again}"
    above = _above(first, limits.sli)
    if not above:
        return (_well("pods, from queue to bound", message, above),)
    return (Verdict("pods, from queue to bound", message, rules.SLI, rules.SLI.fix),)


def _results(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    number = measured.numbers.get(RESULTS, {})
    by_result: dict[str, float] = {}
    for (result, _), count in number.items():
        by_result[result] = by_result.get(result, 0.0) + count
    attempts = sum(by_result.values())
    if not attempts:
        return _nothing("results")
    message = ", ".join(
        f"{number_of(count)} {result}" for result, count in sorted(by_result.items(), key=lambda r: -r[1])
    )
    errors, refused = by_result.get("error", 0.0), by_result.get("unschedulable", 0.0)
    if errors:
        severe = "error" if errors > attempts / 100 else ""
        return (Verdict("results", message, rules.ERRORS, rules.ERRORS.fix, severity=severe),)
    if refused > attempts / 2 and refused >= limits.waiting:
        return (Verdict("results", message, rules.REFUSED, rules.REFUSED.fix),)
    return (Verdict("results", message),)


def _queues(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    counts = {queue: count for (queue,), count in measured.numbers.get(QUEUES, {}).items()}
    if not counts:
        return _nothing("queues", "their lengths are not there")
    message = ", ".join(f"{number_of(count)} {queue}" for queue, count in counts.items())
    wrong = list(_long_queues(measured, limits, counts))
    return wrong or (Verdict("queues", message),)


def _long_queues(measured: Measured, limits: LatencyLimits, by_queue: dict[str, float]) -> Iterable[Verdict]:
    active, backoff, refused = (by_queue.get(queue, 0.0) for queue in ("active", "backoff", "unschedulable"))
    spent, attempts = total_time(measured, ATTEMPTS), total_count(measured, ATTEMPTS)
    backlog = active * spent / attempts if spent and attempts else 0.0
    if active > limits.waiting and backlog > limits.backlog:
        message = (
            f"{_number_and_noun(active, 'pod')} {_verb(active, 'is', 'are')} ready: {seconds_text(backlog)} of "
            "attempts one after the other"
        )
        yield Verdict("queue active", message, rules.ACTIVE, rules.ACTIVE.fix)
    if backoff > limits.waiting and backoff > active:
        message = (
            f"{_number_and_noun(backoff, 'pod')} {_verb(backoff, 'waits', 'wait')} to be tried again, "
            f"{number_of(active)} {_verb(active, 'is', 'are')} ready"
        )
        yield Verdict("queue backoff", message, rules.BACKOFF, rules.BACKOFF.fix)
    pods = measured.number(CACHE, ("pods",))
    if refused > limits.waiting and (pods is None or refused > limits.unschedulable_share * pods):
        of = f", {number_of(pods)} {_verb(pods, 'runs', 'run')}" if pods is not None else ""
        message = f"{_number_and_noun(refused, 'pod')} {_verb(refused, 'fits', 'fit')} on no node{of}"
        yield Verdict("queue unschedulable", message, rules.UNSCHEDULABLE, rules.UNSCHEDULABLE.fix)


def _flushed(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    count = measured.number(FLUSHED)
    if count is None:
        return ()
    if not count:
        return (Verdict("wake-ups", "no pod that fitted had to wait for the flush after five minutes"),)
    message = (
        f"{_number_and_noun(count, 'pod')} fitted, and {_verb(count, 'was', 'were')} only tried again by the "
        "flush after five minutes"
    )
    return (Verdict("wake-ups", message, rules.FLUSHED, rules.FLUSHED.fix),)


def _preemption(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    tried, victims = measured.number(PREEMPTIONS), next(iter(measured.of(VICTIMS).values()), None)
    if tried is None:
        return _nothing("preemption")
    won = victims.count if victims is not None else 0.0
    evicted = f", {_number_and_noun(victims.total, 'victim')}" if victims is not None and won else ""
    message = f"{_number_and_noun(tried, 'attempt')}, {number_of(won)} with victims{evicted}"
    failed = measured.number(PREEMPTION_CALLS, ("error",))
    if failed:
        return (Verdict("preemption", f"{message}; {number_of(failed)} failed", rules.EVICTING, rules.EVICTING.fix),)
    if tried >= limits.waiting and won < tried / 10:
        return (Verdict("preemption", message, rules.VAIN, rules.VAIN.fix),)
    return (Verdict("preemption", message),)


def _cache(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    counts = {kind: count for (kind,), count in measured.numbers.get(CACHE, {}).items()}
    if not counts:
        return _nothing("cache", "its size is not there")
    message = ", ".join(f"{number_of(count)} {kind.replace('_', ' ')}" for kind, count in sorted(counts.items()))
    assumed, pods = counts.get("assumed_pods", 0.0), counts.get("pods", 0.0)
    if assumed > limits.waiting and assumed > limits.assumed_share * pods:
        return (Verdict("cache", message, rules.ASSUMED, rules.ASSUMED.fix),)
    return (Verdict("cache", message),)


def _hints(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    histograms = measured.of(HINTS)
    if not histograms:
        return _nothing("hints")
    counts: dict[str, float] = {}
    for (_, _, hint), histogram in histograms.items():
        counts[hint] = counts.get(hint, 0.0) + histogram.count
    message = ", ".join(f"{number_of(count)} {hint}" for hint, count in sorted(counts.items()))
    failing = sorted(
        {plugin for plugin, _, hint in histograms if hint == "Error" and histograms[plugin, _, hint].count}
    )
    if failing:
        return (Verdict("hints", f"{message}: of {', '.join(failing)}", rules.HINTS, rules.HINTS.fix),)
    return (Verdict("hints", message),)


def _in_flight(measured: Measured, limits: LatencyLimits) -> Iterable[Verdict]:
    events = measured.total(IN_FLIGHT)
    if events is None:
        return _nothing("events in flight")
    message = f"{number_of(events)} {_verb(events, 'is', 'are')} kept for pods that are being tried"
    if events > limits.in_flight:
        return (Verdict("events in flight", message, rules.EVENTS, rules.EVENTS.fix),)
    return (Verdict("events in flight", message),)


def quantiles_text(histogram: Histogram) -> str:
    """``P50 1.2 ms, P90 3 ms, P99 at least 200 ms``."""
    parts = []
    for name, q in (("P50", 0.5), ("P90", 0.9), ("P99", 0.99)):
        value = histogram.quantile(q)
        at_least = "at least " if histogram.at_least(q) else ""
        parts.append(f"{name} {at_least}{seconds_text(value)}" if math.isfinite(value) else f"{name} not known")
    return ", ".join(parts)


def _well(about: str, words: str, above: bool | None) -> Verdict:
    """The verdict on what is not above its limit, or of which nobody knows that."""
    return Verdict(about, words, known=above is not None, open=above is None)


def _above(histogram: Histogram, limit: float) -> bool | None:
    """Whether one in a hundred is longer; None where the buckets do not tell: the highest begins below the limit."""
    p99 = histogram.quantile(0.99)
    if math.isnan(p99) or (p99 <= limit and histogram.at_least(0.99)):
        return None
    return p99 > limit


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


JUDGES: tuple[Callable[[Measured, LatencyLimits], Iterable[Verdict]], ...] = (
    _attempts,
    _plugins,
    _binding,
    _client,
    _sli,
    _results,
    _queues,
    _flushed,
    _preemption,
    _cache,
    _hints,
    _in_flight,
)
