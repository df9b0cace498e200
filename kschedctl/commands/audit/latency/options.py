"""Command line options that say where kube-scheduler's metrics are and which latency is expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.errors import UsageError

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection
    from kschedctl.sources.metrics.measured import MetricsReading

DEFAULT_WINDOW = 3600
MAX_WINDOW = 366 * 86400
MAX_WAIT = 3600


@dataclass(frozen=True)
class MetricsOptions:
    """Options for kube-scheduler's metrics."""

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
        """Return the limits above which a figure is a finding. Raises UsageError."""
        return LatencyLimits(target=_parse_positive_duration(self.target, "--target"))

    def read_metrics(self, connect: Callable[[], Connection]) -> MetricsReading:
        """Read the metrics. `connect` is called only for metrics behind the API server's proxy. Raises
        KschedctlError.
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
        """Raise UsageError for options that do not fit together."""
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
    from kschedctl.sources.live.connection import seconds_of  # noqa: PLC0415

    seconds = seconds_of(duration, option)
    if not 0 < seconds <= MAX_WINDOW:
        raise UsageError(f'"{duration}" is no time', where=option, hint="such as 100ms or 1h")
    return seconds
