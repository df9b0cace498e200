"""Options of commands that report findings: output and exit code, the cluster's time, and kube-scheduler's metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cli.answer import DOES_NOT_SCHEDULE, SCHEDULES, UNDECIDED, Answer
from kschedctl.cli.options import Source
from kschedctl.cli.output_options import (
    COMMON_FORMATS,
    FINDING_FORMATS,
    PICTURES,
    TABLE,
    Drawing,
    FailOn,
    Output,
    OutputFormat,
    output_option,
)
from kschedctl.cli.source import load_cluster
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.commands.audit.report import Audit
from kschedctl.demo import DEMO_TIME
from kschedctl.errors import InputError, UsageError
from kschedctl.render.page import NO_COMMANDS, Commands
from kschedctl.reports.section import Section

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection
    from kschedctl.sources.metrics.catalogue import MetricsReading


@dataclass(frozen=True)
class FindingsOutput(Output):
    """Options for how findings are shown, and for the severity from which they are a failure."""

    output: Annotated[
        OutputFormat, output_option("table", "wide", "json", "yaml", "markdown", "html", "sarif", "junit", "github")
    ] = TABLE
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", metavar="|".join(FailOn), help="Exit 1 from this severity up.")
    ] = FailOn.WARNING

    def build_answer(self, report: Audit | Section, commands: Commands = NO_COMMANDS) -> Answer:
        """Return the answer with its exit code: failed, undecided if needed data was not read, or successful.

        `commands` are the commands that help with the findings, by fingerprint.
        """
        answer = self.answer(report, commands=commands)
        if self.fail_on is not FailOn.NEVER and report.has_at_least(self.fail_on):
            return replace(answer, exit_code=DOES_NOT_SCHEDULE)
        return replace(answer, exit_code=UNDECIDED if report.undecided else SCHEDULES)


@dataclass(frozen=True)
class DrawableFindingsOutput(Drawing, FindingsOutput):
    """Options for how findings are shown, including as pictures."""

    output: Annotated[OutputFormat, output_option(*COMMON_FORMATS, *PICTURES, *FINDING_FORMATS)] = TABLE


@dataclass(frozen=True)
class TimeOption:
    """The option `--now`."""

    now: Annotated[
        str,
        typer.Option(
            "--now", metavar="TIME", help="When the cluster was as it is, RFC 3339.  [default: when it was read]"
        ),
    ] = ""

    def resolve_time(self, source: Source, cluster: Cluster) -> str:
        """Return the RFC 3339 time of the cluster, empty if unknown. Raises UsageError for a malformed time."""
        if self.now:
            try:
                parse_nanoseconds(self.now)
            except InputError as error:
                raise UsageError(str(error), where="--now") from None
            return self.now
        if source.demo:
            return DEMO_TIME
        return cluster.provenance.read_at if cluster.provenance else ""


@dataclass(frozen=True)
class AuditTimeOptions(TimeOption):
    """The options `--now` and `--since`."""

    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="FILE", help="A snapshot of it from before: whether what changed since woke pods."
        ),
    ] = ""

    def load_earlier_cluster(self, source: Source, cluster: Cluster) -> Cluster | None:
        """Load the cluster named by --since, or return None without the option.

        Raises UsageError if it is not older.
        """
        if not self.since:
            return None
        earlier = load_cluster(replace(source, snapshot=[self.since], filename=[], demo=False))
        times = [
            provenance.read_at
            for provenance in (earlier.provenance, cluster.provenance)
            if provenance and provenance.read_at
        ]
        if len(times) == 2 and parse_nanoseconds(times[0]) >= parse_nanoseconds(times[1]):
            problem = f"{self.since} is of {times[0]}, the cluster of {times[1]}"
            raise UsageError(problem, where="--since", hint="want a snapshot from before")
        return earlier


DEFAULT_WINDOW = 3600
MAX_WINDOW = 366 * 86400
MAX_WAIT = 3600


@dataclass(frozen=True)
class MetricsOptions:
    """Options for the source of kube-scheduler's metrics and the expected latency."""

    metrics: Annotated[
        list[str],
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="A /metrics of kube-scheduler: URL, saved text or - (stdin). Twice, the older first: what happened in "
            "between.",
        ),
    ] = field(default_factory=list)
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Ask the HTTP API of this Prometheus.")
    ] = None
    prometheus_labels: Annotated[
        str,
        typer.Option("--prometheus-labels", metavar="MATCHERS", help="Whose metrics, as 'job=\"kube-scheduler\"'."),
    ] = ""
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="DURATION",
            help="Of Prometheus: what time to look at (default 1h). Of a URL: read it again after so long. Of two "
            "files: how far apart they are.",
        ),
    ] = None
    target: Annotated[
        str, typer.Option("--target", metavar="DURATION", help="Target for the 99th percentile of attempts.")
    ] = "100ms"
    metrics_token_file: Annotated[
        str | None,
        typer.Option("--metrics-token-file", metavar="FILE", help="A bearer token for the metrics' server."),
    ] = None
    metrics_ca_file: Annotated[
        str | None, typer.Option("--metrics-ca-file", metavar="FILE", help="CA certificate of the metrics server.")
    ] = None
    metrics_insecure: Annotated[
        bool, typer.Option("--metrics-insecure", help="Skip TLS verification of the metrics server.")
    ] = False

    @property
    def has_source(self) -> bool:
        """Whether a source of metrics was given."""
        return bool(self.metrics or self.prometheus)

    def build_limits(self) -> LatencyLimits:
        """Return the limits above which a figure is a finding. Raises UsageError for an invalid target."""
        return LatencyLimits(target=_parse_positive_duration(self.target, "--target"))

    def read_metrics(self, connect: Callable[[], Connection]) -> MetricsReading:
        """Read the metrics.

        `connect` is called only for metrics behind the API server's proxy. Raises KschedctlError.
        """
        from kschedctl.sources.metrics.http import MetricsAccess  # noqa: PLC0415 - where metrics are asked for
        from kschedctl.sources.metrics.prometheus import read_prometheus  # noqa: PLC0415
        from kschedctl.sources.metrics.read import read_metrics  # noqa: PLC0415

        window = None if self.window is None else round(_parse_positive_duration(self.window, "--window"))
        self._validate(window)
        access = MetricsAccess(connect, self.metrics_token_file, self.metrics_ca_file, self.metrics_insecure)
        if self.prometheus is None:
            return read_metrics(self.metrics, access, window)
        return read_prometheus(access, self.prometheus, window or DEFAULT_WINDOW, self.prometheus_labels)

    def _validate(self, window: int | None) -> None:
        """Raise UsageError for options that cannot be combined and for an invalid window."""
        if not self.has_source:
            raise UsageError("no metrics given", hint="--metrics URL or FILE, or --prometheus URL")
        if self.metrics and self.prometheus:
            raise UsageError("--metrics and --prometheus cannot be combined", hint="leave one of them out")
        if self.prometheus_labels and not self.prometheus:
            raise UsageError("--prometheus-labels needs --prometheus")
        longest = MAX_WAIT if len(self.metrics) == 1 else MAX_WINDOW
        if window is not None and not 1 <= window <= longest:
            raise UsageError(f'"{self.window}" is too short or too long', where="--window", hint="such as 30s or 1h")


def _parse_positive_duration(duration: str, option: str) -> float:
    """Return a duration in seconds. Raises UsageError if it is not positive or too long."""
    from kschedctl.sources.live.connection import parse_timeout  # noqa: PLC0415

    seconds = parse_timeout(duration, option)
    if not 0 < seconds <= MAX_WINDOW:
        raise UsageError(f'"{duration}" is no time', where=option, hint="such as 100ms or 1h")
    return seconds
