"""The report of the section about kube-scheduler's latency."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section

STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.FAINT}


class Timing(Document, frozen=True, kw_only=True):
    """Observations of a duration with the same labels, in seconds."""

    labels: dict[str, str]
    count: float
    mean: float | None
    """Null if it cannot be determined, as are the quantiles."""
    p50: float | None
    """The median as PromQL's `histogram_quantile` estimates it, as are the other quantiles."""
    p90: float | None
    p99: float | None
    at_least: tuple[str, ...] = ()
    """The quantiles that lie in the last bucket, so that they may be larger."""
    at_most: dict[str, float] = {}
    """The quantiles that lie in the first bucket, of which only its bound is known. Their estimates say nothing."""
    share: float | None = None
    """The share of the total time of attempts (0 to 1), null if it is no part of attempts."""


class Number(Document, frozen=True, kw_only=True):
    """A count with its labels."""

    labels: dict[str, str]
    count: float
    per_second: float | None = None
    """The rate of a counter, null for gauges or if the time is unknown."""


class LatencyVerdict(Document, frozen=True, kw_only=True):
    """The judgement of one aspect."""

    about: Annotated[str, Column()]
    state: Annotated[str, Column(keep=True, place=-1, tones=STATES)]
    """sound, findings or unknown."""
    told: Annotated[str, Column("figures")]
    """The figures."""
    lever: str = ""
    """The advice, if something is wrong."""


class LatencyCurve(Document, frozen=True, kw_only=True):
    """The distribution of a duration."""

    labels: dict[str, str]
    within: tuple[tuple[float, float], ...]
    """The bounds of the buckets in seconds, each with the share of observations (0 to 1) up to it."""


class LatencySection(Section, frozen=True, kw_only=True, tag="latency"):
    """The section about kube-scheduler's latency.

    Durations of plugins at Filter and Score are for one node. They are measured in one cycle out of ten.
    """

    source: str = ""
    scheduler_version: str = ""
    period: str = ""
    """The period that the counters cover."""
    seconds: float | None = None
    """The length of the period, None if unknown."""
    restarted: bool = False
    """True if the scheduler restarted within the period."""
    target: float = 0.0
    """The target in seconds for the 99th percentile of attempts."""
    verdicts: tuple[LatencyVerdict, ...] = ()
    attempts: tuple[Timing, ...] = ()
    attempt_curves: tuple[LatencyCurve, ...] = ()
    algorithm: tuple[Timing, ...] = ()
    extension_points: tuple[Timing, ...] = ()
    plugins: tuple[Timing, ...] = ()
    permit_waits: tuple[Timing, ...] = ()
    api_calls: tuple[Timing, ...] = ()
    client_waits: tuple[Timing, ...] = ()
    client_requests: tuple[Timing, ...] = ()
    pod_scheduling_sli: tuple[Timing, ...] = ()
    hints: tuple[Timing, ...] = ()
    results: tuple[Number, ...] = ()
    queues: tuple[Number, ...] = ()
    in_flight_events: tuple[Number, ...] = ()
    cache: tuple[Number, ...] = ()
    preemption_attempts: Number | None = None
    preemption_victims: Timing | None = None
    scheduled_after_flush: Number | None = None
    missing: dict[str, str] = {}
    """The metrics that are not available, and why."""
