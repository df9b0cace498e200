"""Metrics from the source that the user names: the URL of /metrics, one or two saved texts, or Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kschedctl.errors import ClusterError, InputError, UsageError
from kschedctl.sources.documents.files import display_path, open_file
from kschedctl.sources.metrics.catalogue import MetricsReading
from kschedctl.sources.metrics.exposition import (
    MAX_BYTES,
    Exposition,
    compute_difference,
    compute_since_start,
    parse_exposition,
)
from kschedctl.sources.metrics.http import MetricsAccess
from kschedctl.text.printable import strip_url

NO_SCHEDULER_METRIC = "contains no metric of kube-scheduler"


def read_metrics(places: Sequence[str], access: MetricsAccess, window: int | None = None) -> MetricsReading:
    """Read metrics from one place, or from two places of which the first is the older reading.

    ``window`` is the number of seconds between two readings, or to wait for a second reading from a URL. Raises
    InputError, ClusterError, UsageError.
    """
    if len(places) > 2:
        raise UsageError("more than two readings", where="--metrics", hint="one, or an older and a newer one")
    first = _read_exposition(places[0], access)
    if len(places) == 2:
        second = _read_exposition(places[1], access)
        seconds = None if window is None else float(window)
        return _require_scheduler_metrics(compute_difference(first, second, seconds))
    if window is None:
        return compute_reading_since_start(first)
    if not _is_url(places[0]):
        raise UsageError("--window needs two readings, a URL or Prometheus", hint="--metrics OLD --metrics NEW")
    time.sleep(window)
    return _require_scheduler_metrics(compute_difference(first, _read_exposition(places[0], access)))


def _read_exposition(place: str, access: MetricsAccess) -> Exposition:
    """Read an exposition from a file or URL. Raises InputError, ClusterError, UsageError."""
    if not _is_url(place):
        with open_file(place) as file:
            body = file.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise InputError(f"more than {MAX_BYTES >> 20} MiB", where=display_path(place))
        return parse_exposition(body, display_path(place))
    status, body = access.get(place)
    if status != 200:
        raise ClusterError(f"answers {status}", where=strip_url(place), hint="kube-scheduler's is at /metrics")
    return parse_exposition(body, strip_url(place), time.time())


def _is_url(place: str) -> bool:
    """Return whether the place is an HTTP URL."""
    return place.startswith(("http://", "https://"))


def compute_reading_since_start(exposition: Exposition) -> MetricsReading:
    """Compute the metrics since the scheduler's start from one reading.

    Raises InputError if the reading has no metric of kube-scheduler.
    """
    return _require_scheduler_metrics(compute_since_start(exposition))


def _require_scheduler_metrics(measured: MetricsReading) -> MetricsReading:
    """Return the reading. Raises InputError if it has no metric of kube-scheduler."""
    if measured.is_empty:
        hint = "give the text of kube-scheduler's /metrics"
        raise InputError(NO_SCHEDULER_METRIC, where=measured.source, hint=hint)
    return measured
