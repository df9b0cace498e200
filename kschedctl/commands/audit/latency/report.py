"""The section of an audit about what kube-scheduler's own metrics say: how long it takes, and what waits."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section

STATES = {"sound": Tone.GOOD, "findings": Tone.BAD, "unknown": Tone.FAINT}


class Timing(Document, frozen=True, kw_only=True):
    """Observations of one kind, as ``labels`` tells them apart, in seconds.

    ``mean`` and the quantiles (as ``histogram_quantile`` estimates them) are null where there is nothing to tell them
    from. ``at_least``: the quantiles that lie in a bucket without an end, so that they may be any larger. ``share``: of
    the time of all attempts, 0 to 1; null for what is no part of them.
    """

    labels: dict[str, str]
    count: float
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    at_least: tuple[str, ...] = ()
    share: float | None = None


class Number(Document, frozen=True, kw_only=True):
    """A count, ``per_second`` where the time is known in which it grew; of gauges it is null."""

    labels: dict[str, str]
    count: float
    per_second: float | None = None


class LatencyVerdict(Document, frozen=True, kw_only=True):
    """``state`` is sound, findings or unknown; ``told``: the figures; ``lever``: what likely helps, if something is
    wrong."""

    about: Annotated[str, Column()]
    state: Annotated[str, Column(keep=True, place=-1, tones=STATES)]
    told: Annotated[str, Column("figures")]
    lever: str = ""


class LatencyCurve(Document, frozen=True, kw_only=True):
    """``within``: seconds, and the share of the observations that took no longer, 0 to 1, at the bounds of buckets."""

    labels: dict[str, str]
    within: tuple[tuple[float, float], ...]


class LatencySection(Section, frozen=True, kw_only=True, tag="latency"):
    """``period``: what time the counters are of, of ``seconds`` where that is known. ``restarted``: within it.

    ``target``: seconds within which 99 of 100 attempts should be. ``missing``: the metrics that are not there, and why.
    Plugins' durations at Filter and Score are of one node; they are taken of one cycle in ten.
    """

    source: str = ""
    scheduler_version: str = ""
    period: str = ""
    seconds: float | None = None
    restarted: bool = False
    target: float = 0.0
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
