"""The answer to "how many pods would be given room that another one has?": kind Races."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.section import Section


class RaceResult(Document, frozen=True, kw_only=True):
    """What became of the pods of all runs with one size, rate and expiry.

    ``ttl_seconds``: None where assumed pods never expire. ``pods`` were assumed, ``expired`` of them dropped by the
    cache before the informer told of them (``expected_expired``: by the distribution of its lag alone), and
    ``double_booked`` refused by a node that other pods had filled. ``share`` is double_booked / pods, ``least_share``
    and ``most_share`` those of single runs. ``waiting``: pods for which there was no room in the end.
    """

    nodes: Annotated[int, Column()]
    pods_per_second: Annotated[float, Column("pods/s", form=".3g")]
    expiry: Annotated[str, Column(keep=True)]
    ttl_seconds: Annotated[float | None, Column("seconds", csv_only=True)]
    pods: Annotated[int, Column()]
    expired: Annotated[int, Column()]
    expected_expired: Annotated[float, Column("expected", form=",.1f")]
    double_booked: Annotated[int, Column("double-booked")]
    share: Annotated[float, Column()]
    least_share: float
    most_share: float
    waiting: Annotated[int, Column()]


class MeasuredLags(Document, frozen=True, kw_only=True):
    """How long the kubelets took to notice bindings, in seconds; the API's times have a resolution of one."""

    pods: int
    median: float
    p99: float
    longest: float


class RaceAssumptions(Document, frozen=True, kw_only=True):
    """What is simulated besides sizes, rates and expiries; times in seconds, distributions as the options name them.

    ``from_cluster``: what of all that was taken from the cluster; ``measured``: where the lags are its own.
    """

    instances: int
    binding_latency: str
    informer_lag: str
    pods_per_node: int
    load: float
    seconds: float
    seed: int
    runs: int
    from_cluster: tuple[str, ...] = ()
    measured: MeasuredLags | None = None


class Races(Report, frozen=True, kw_only=True):
    """``headline``: what to do, and what it spares. ``results``: by size, rate and expiry, in the order asked for."""

    headline: str
    recommendation: str
    assumptions: RaceAssumptions
    results: tuple[RaceResult, ...]
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Races"

    def csv_table(self) -> CsvTable:
        """Return a row for each size, rate and expiry."""
        return to_csv_table(RaceResult, self.results)


class RacesSection(Section, frozen=True, kw_only=True, tag="races"):
    """``rivals``: schedulers that place pods on ``shared_nodes`` nodes on which this one does too, and are not seen by
    it in time. ``races``: simulated with the cluster's own sizes; None where these are not known.
    """

    rivals: tuple[str, ...] = ()
    shared_nodes: int = 0
    races: Races | None = None
