"""The report of a comparison of expiries (kind Races), and of section "races"."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.section import Section


class RaceResult(Document, frozen=True, kw_only=True):
    """The outcome of all runs with one size, rate and expiry."""

    nodes: Annotated[int, Column()]
    pods_per_second: Annotated[float, Column("pods per s", form=".3g")]
    expiry: Annotated[str, Column("expire after", csv="expiry", keep=True)]
    ttl_seconds: Annotated[float | None, Column("seconds", csv_only=True)]
    """The expiry in seconds, None if assumed pods never expire."""
    pods: Annotated[int, Column()]
    """The number of pods that were assumed."""
    expired: Annotated[int, Column()]
    """The number of pods that expired before the informer confirmed them."""
    expected_expired: Annotated[float, Column("expected to expire", form=",.1f")]
    """The number of expired pods that the distribution of the informer lag predicts."""
    double_booked: Annotated[int, Column("double-booked")]
    """The number of pods that were rejected by a full node."""
    share: Annotated[float, Column("double-booked %", csv="of all pods")]
    """The share of double-booked pods."""
    least_share: float
    """The smallest share of a single run."""
    most_share: float
    """The largest share of a single run."""
    waiting: Annotated[int, Column("pending at end")]
    """The number of pods without a node in the end."""


class MeasuredLags(Document, frozen=True, kw_only=True):
    """The times that kubelets take to notice bindings, in seconds. The API's times have a resolution of one second."""

    pods: int
    median: float
    p99: float
    longest: float
    slow: int = 0
    """The number of pods that took longer than the start-up SLO of SIG Scalability allows, 5 seconds."""
    slowest_pods: tuple[str, ...] = ()
    """The slowest of these pods, the slowest first."""


class RaceAssumptions(Document, frozen=True, kw_only=True):
    """The parameters besides size, rate and expiry. Times are in seconds, distributions are named as in options."""

    instances: int
    binding_latency: str
    informer_lag: str
    pods_per_node: int
    load: float
    seconds: float
    seed: int
    runs: int
    from_cluster: tuple[str, ...] = ()
    """Descriptions of the parameters that were taken from the cluster."""
    measured: MeasuredLags | None = None
    """The cluster's lags if they are used."""


class Races(Report, frozen=True, kw_only=True):
    """A comparison of expiries of assumed pods."""

    headline: str
    """The advice, and the worst case that it avoids."""
    recommendation: str
    assumptions: RaceAssumptions
    results: tuple[RaceResult, ...]
    """The results by size, rate and expiry, in the order of the options."""
    interrupted: bool = False
    """True if the user interrupted, so that results are missing or have fewer runs."""
    kind: str = "Races"

    def build_csv_table(self) -> CsvTable:
        """Return a row for each size, rate and expiry."""
        return to_csv_table(RaceResult, self.results)


class RacesSection(Section, frozen=True, kw_only=True, tag="races"):
    """The section about double-booked pods."""

    rivals: tuple[str, ...] = ()
    """Other schedulers that place pods on the same nodes."""
    shared_nodes: int = 0
    """The number of nodes on which this scheduler and others place pods."""
    races: Races | None = None
    """The simulation with the cluster's own parameters, None if they are unknown."""
