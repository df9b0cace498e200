"""Parser for the text of /metrics, which reads only the samples that the catalogue names.

The text has no native histograms. Components write those only in the protobuf format, along with the classic ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from kschedctl.errors import InputError
from kschedctl.sources.live.http import shortened
from kschedctl.sources.metrics.catalogue import get_sample_names
from kschedctl.sources.metrics.samples import Exposition

MOST_BYTES = 64 << 20
MOST_SAMPLES = 200_000
LONGEST_LINE = 4_096
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def read_text(body: bytes, source: str, read_at: float | None = None) -> Exposition:
    """Parse the text of /metrics. Raises InputError with the number of an invalid line."""
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for count, (number, line) in enumerate(_iter_catalogue_lines(body, source)):
        name, labels, value = _parse_sample(line, f"{source}, line {number}")
        if count >= MOST_SAMPLES:
            raise InputError(f"more than {MOST_SAMPLES:,} samples of kube-scheduler", where=source)
        series = samples.setdefault(name, {})
        if labels in series:
            hint = "one scheduler's text at a time"
            raise InputError(f"{name} a second time with the same labels", where=f"{source}, line {number}", hint=hint)
        series[labels] = value if value >= 0 and math.isfinite(value) else math.nan
    kept = {name: {key: v for key, v in series.items() if not math.isnan(v)} for name, series in samples.items()}
    unusable = sum(len(samples[name]) - len(series) for name, series in kept.items())
    return Exposition(source, kept, read_at, unusable)


def _iter_catalogue_lines(body: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with samples of the catalogue, with their numbers. Raises InputError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8: no text of metrics", where=source) from None
    names = get_sample_names()
    for number, line in enumerate(text.split("\n"), 1):
        name = _NAME.match(line)
        if name is None or name[0] not in names:
            continue
        if len(line) > LONGEST_LINE:
            raise InputError(f"longer than {LONGEST_LINE:,} characters", where=f"{source}, line {number}")
        yield number, line


def _parse_sample(line: str, where: str) -> tuple[str, tuple[tuple[str, str], ...], float]:
    """Parse a line into the sample's name, sorted labels and value. Raises InputError."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - for metrics alone

    try:
        sample = next(iter(text_string_to_metric_families(line))).samples[0]
        return sample.name, tuple(sorted(sample.labels.items())), float(sample.value)
    except (ValueError, IndexError, KeyError, OverflowError, StopIteration):
        raise InputError(f"not a sample: {shortened(line[:200])}", where=where) from None
