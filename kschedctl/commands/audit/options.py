"""Options of commands that report findings: output and exit code, the cluster's time, and kube-scheduler's metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.copying import replace
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cli.options import Source
from kschedctl.cli.output_options import (
    COMMON_FORMATS,
    DOES_NOT_SCHEDULE,
    FINDING_FORMATS,
    PICTURES,
    SCHEDULES,
    TABLE,
    UNDECIDED,
    Answer,
    Drawing,
    FailOn,
    Output,
    OutputFormat,
    declare_output_option,
)
from kschedctl.cli.run_options import INTERRUPTED
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
        OutputFormat,
        declare_output_option("table", "wide", "json", "yaml", "markdown", "html", "sarif", "junit", "github"),
    ] = TABLE
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on", metavar="|".join(FailOn), help="Exit with 1 if there are findings of this severity or higher."
        ),
    ] = FailOn.WARNING

    def build_answer_with_exit_code(self, report: Audit | Section, commands: Commands = NO_COMMANDS) -> Answer:
        """Return the answer, with an exit code for an interrupted, failing or undecided report.

        An interruption takes precedence over findings. The report fails if a finding is at least as grave as --fail-on.
        `commands` are the commands to run next, by a finding's fingerprint or a section's name.
        """
        has_failing_findings = self.fail_on is not FailOn.NEVER and report.has_at_least(self.fail_on)
        if report.interrupted:
            exit_code = INTERRUPTED
        elif has_failing_findings:
            exit_code = DOES_NOT_SCHEDULE  # 1, as for a pod without a node
        elif report.undecided:
            exit_code = UNDECIDED
        else:
            exit_code = SCHEDULES  # 0
        return replace(self.build_answer(report, commands=commands), exit_code=exit_code)


@dataclass(frozen=True)
class DrawableFindingsOutput(Drawing, FindingsOutput):
    """Options for how findings are shown, including as pictures."""

    output: Annotated[OutputFormat, declare_output_option(*COMMON_FORMATS, *PICTURES, *FINDING_FORMATS)] = TABLE


@dataclass(frozen=True)
class TimeOption:
    """The option `--now`."""

    now: Annotated[
        str,
        typer.Option(
            "--now",
            metavar="TIME",
            help="Time to treat as now, in RFC 3339 format, such as 2026-05-06T09:12:00Z.  [default: the time at "
            "which the cluster was read]",
        ),
    ] = ""

    def resolve_time(self, source: Source, cluster: Cluster) -> str:
        """Return --now if it is given, otherwise the RFC 3339 time at which the cluster was read, "" if unknown.

        The demo cluster has a fixed time, DEMO_TIME. Raises UsageError for a malformed --now.
        """
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
            "--since",
            metavar="FILE",
            help="Report pods that still wait although a change since this earlier snapshot should have made the "
            "scheduler retry them.",
        ),
    ] = ""

    def load_earlier_cluster(self, source: Source, cluster: Cluster) -> Cluster | None:
        """Load the cluster that --since names, or return None if the option was not given.

        Raises UsageError if it is known that the loaded cluster was not read earlier than `cluster`.
        """
        if not self.since:
            return None
        earlier = load_cluster(replace(source, snapshot=[self.since], filename=[], demo=False))
        earlier_time = earlier.provenance.read_at if earlier.provenance else ""
        cluster_time = cluster.provenance.read_at if cluster.provenance else ""
        if earlier_time and cluster_time and parse_nanoseconds(earlier_time) >= parse_nanoseconds(cluster_time):
            problem = f"{self.since} was read at {earlier_time}, the cluster at {cluster_time}"
            raise UsageError(problem, where="--since", hint="needs an earlier snapshot")
        return earlier


DEFAULT_WINDOW = 3600
"""The period in seconds for which Prometheus is queried by default."""
MAX_WINDOW = 366 * 86400
"""The longest period in seconds."""
MAX_WAIT = 3600
"""The longest time in seconds to wait before a single source is read again."""


@dataclass(frozen=True)
class MetricsOptions:
    """Options for the source of kube-scheduler's metrics and the expected latency."""

    metrics: Annotated[
        list[str],
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="kube-scheduler's metrics: the URL of its /metrics endpoint, a saved file or - (stdin). "
            "Pass it twice, the older scrape first, to cover only the time between the two.",
        ),
    ] = field(default_factory=list)
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Query the scheduler's metrics from the Prometheus server at this base URL.",
        ),
    ] = None
    prometheus_labels: Annotated[
        str,
        typer.Option(
            "--prometheus-labels",
            metavar="MATCHER,…",
            help="With --prometheus: label matchers that select the scheduler's metrics, such as "
            "'job=\"kube-scheduler\"'.",
        ),
    ] = ""
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="DURATION",
            help="Period to measure. With --prometheus: the period to query (default 1h). With one --metrics URL: "
            "the time to wait before reading the URL again. With two --metrics files: the time between them.",
        ),
    ] = None
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="DURATION",
            help="Target for the 99th percentile of the scheduling attempt duration, such as 100ms.",
        ),
    ] = "100ms"
    metrics_token_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-token-file",
            metavar="FILE",
            help="File with the bearer token for the --metrics and --prometheus servers.",
        ),
    ] = None
    metrics_ca_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-ca-file",
            metavar="FILE",
            help="File with the CA certificate for the --metrics and --prometheus servers.",
        ),
    ] = None
    metrics_insecure: Annotated[
        bool,
        typer.Option(
            "--metrics-insecure", help="Skip TLS certificate verification for the --metrics and --prometheus servers."
        ),
    ] = False

    @property
    def has_source(self) -> bool:
        """True if a source of metrics was given."""
        return bool(self.metrics or self.prometheus)

    def build_limits(self) -> LatencyLimits:
        """Return the limits above which a figure is a finding. Raises UsageError for an invalid target."""
        return LatencyLimits(target=_parse_positive_duration(self.target, "--target"))

    def read_metrics(self, connect: Callable[[], Connection]) -> MetricsReading:
        """Read the metrics from Prometheus if its URL was given, otherwise from the files or URLs of --metrics.

        `connect` is called only for metrics behind the API server's proxy. Raises UsageError for options that cannot be
        combined, and KschedctlError if the metrics cannot be read.
        """
        from kschedctl.sources.metrics.exposition import read_metrics  # noqa: PLC0415
        from kschedctl.sources.metrics.http import MetricsAccess  # noqa: PLC0415 - only if metrics are read
        from kschedctl.sources.metrics.prometheus import read_prometheus  # noqa: PLC0415

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
            raise UsageError("--metrics and --prometheus cannot be combined", hint="use only one of them")
        if self.prometheus_labels and not self.prometheus:
            raise UsageError("--prometheus-labels needs --prometheus")
        longest = MAX_WAIT if len(self.metrics) == 1 else MAX_WINDOW
        if window is not None and not 1 <= window <= longest:
            problem = f'"{self.window}" must be between 1s and {longest:,}s'
            raise UsageError(problem, where="--window", hint="such as 30s or 1h")


def _parse_positive_duration(duration: str, option: str) -> float:
    """Parse a duration and return it in seconds. Raises UsageError if it is not positive or longer than MAX_WINDOW."""
    from kschedctl.sources.live.connection import parse_timeout  # noqa: PLC0415

    seconds = parse_timeout(duration, option)
    if not 0 < seconds <= MAX_WINDOW:
        raise UsageError(
            f'"{duration}" must be more than 0 and at most 366 days', where=option, hint="such as 100ms or 1h"
        )
    return seconds
