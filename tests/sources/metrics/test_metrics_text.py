"""Check the parsing of /metrics, and that invalid text gets one line."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from metrics_texts import ATTEMPT, write_attempts, write_histogram, write_queues, write_sample

from kschedctl.errors import InputError
from kschedctl.sources.metrics.exposition import (
    MAX_LINE_LENGTH,
    compute_metrics_between,
    compute_metrics_since_start,
    parse_exposition,
)

RECORDED = Path(__file__).parents[2] / "recordings" / "metrics.txt.xz"


def test_series_by_labels_and_a_size_by_its_older_name() -> None:
    text = write_attempts({0.0005: 3, 0.003: 1}) + write_queues(active=2, backoff=0)
    text += (
        write_sample("scheduler_scheduler_cache_size", 7, type="nodes") + 'go_goroutines 12\nother{a="x"} nonsense\n'
    )
    measured = compute_metrics_since_start(parse_exposition(text.encode(), "a"))
    (histogram,) = measured.get_histograms("scheduling_attempt").values()
    assert (histogram.count, histogram.total) == (4, pytest.approx(0.0045))
    assert measured.get_number("pending_pods", ("active",)) == 2
    assert measured.get_number("cache_size", ("nodes",)) == 7


def test_newer_name_counts_if_a_version_has_both() -> None:
    both = "".join(
        write_sample(name, size, type="nodes")
        for name, size in (("scheduler_scheduler_cache_size", 7), ("scheduler_cache_size", 8))
    )
    assert compute_metrics_since_start(parse_exposition(both.encode(), "a")).get_number("cache_size", ("nodes",)) == 8


def test_buckets_are_summed_over_other_labels() -> None:
    lines = write_histogram(
        ATTEMPT, (0.1, 0.2), {0.05: 1, 0.15: 1}, result="scheduled", profile="a", shard="1"
    ).splitlines()
    other = write_histogram(ATTEMPT, (0.1, 0.2), {0.05: 1}, result="scheduled", profile="a", shard="2").replace(
        "0.1", "1e-1"
    )
    measured = compute_metrics_since_start(parse_exposition("\n".join([*reversed(lines), other]).encode(), "a"))
    found = measured.get_histograms("scheduling_attempt")["scheduled", "a"]
    # Three observations, two of them at most 0.1: the second third of them ends there.
    assert found.estimate_quantile(2 / 3) == pytest.approx(0.1)
    assert found.count == 3


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
def test_invalid_values_are_skipped_and_counted(value: str) -> None:
    text = write_queues(active=1) + f'scheduler_pending_pods{{queue="backoff"}} {value}\n'
    measured = compute_metrics_since_start(parse_exposition(text.encode(), "a"))
    assert measured.unusable == 1
    assert measured.get_number("pending_pods", ("backoff",)) is None
    assert measured.get_number("pending_pods", ("active",)) == 1


def test_buckets_with_invalid_bounds_are_skipped_and_counted() -> None:
    labels = 'result="scheduled",profile="a"'
    text = f'{ATTEMPT}_bucket{{{labels},le="soon"}} 1\n{ATTEMPT}_bucket{{{labels},le="+Inf"}} 2\n'
    measured = compute_metrics_since_start(parse_exposition(text.encode(), "a"))
    assert measured.unusable == 1
    assert measured.get_histograms("scheduling_attempt")["scheduled", "a"].count == 2


BAD = {
    "not UTF-8": (b'scheduler_pending_pods{queue="a"} 1\n\xff', "not UTF-8"),
    "no value": (b'scheduler_pending_pods{queue="a"}', "line 1: not a sample"),
    "no number": (b'scheduler_pending_pods{queue="a"} many', "line 1: not a sample"),
    "beyond all numbers": (b"scheduler_inflight_events " + b"9" * 400, "line 1: not a sample"),
    "open label": (b'x 1\nscheduler_pending_pods{queue="a 1', "line 2: not a sample"),
    "label twice": (b'scheduler_pending_pods{queue="a",queue="a"} 1', "line 1: not a sample"),
    "escapes": (b"\nscheduler_pending_pods{queue=\\} \x1b[31m", "line 2: not a sample"),
    "series twice": (b'scheduler_pending_pods{queue="a"} 1\n' * 2, "line 2: scheduler_pending_pods occurs twice"),
    "endless line": (b"scheduler_pending_pods{" + b"\\" * MAX_LINE_LENGTH, "longer than"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text_is_a_one_line_error(name: str) -> None:
    body, expected = BAD[name]
    with pytest.raises(InputError, match=expected) as raised:
        parse_exposition(body, "metrics.txt")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("metrics.txt")


def test_difference_of_two_texts() -> None:
    started = write_sample("process_start_time_seconds", 1000)
    old = parse_exposition((started + write_attempts({0.0005: 100})).encode(), "old")
    new = parse_exposition((started + write_attempts({0.0005: 100, 0.05: 10})).encode(), "new")
    measured = compute_metrics_between(old, new, 60.0)
    found = measured.get_histograms("scheduling_attempt")["scheduled", "default-scheduler"]
    # Only the ten of 50 ms: all in the bucket from 32 to 64 ms, of which the half is 48 ms.
    assert (found.count, found.estimate_quantile(0.5)) == (10, pytest.approx(0.048))
    assert measured.get_number("schedule_attempts_total", ("scheduled", "default-scheduler")) == 10
    assert (measured.seconds, measured.restarted) == (60.0, False)


@pytest.mark.parametrize("starts", [(1000, 2000), (None, None)], ids=["said by the process", "seen by counters"])
def test_counters_restart_after_a_restart(starts: tuple[int | None, int | None]) -> None:
    said = [write_sample("process_start_time_seconds", at) if at else "" for at in starts]
    old = parse_exposition((said[0] + write_attempts({0.0005: 100})).encode(), "old")
    new = parse_exposition((said[1] + write_attempts({0.0005: 7})).encode(), "new")
    measured = compute_metrics_between(old, new, 60.0)
    assert measured.restarted
    assert measured.seconds is None
    assert measured.get_number("schedule_attempts_total", ("scheduled", "default-scheduler")) == 7


@pytest.mark.parametrize("starts", [(1000, 1000), (2000, 1000)], ids=["one process", "an older process"])
def test_texts_in_the_wrong_order_are_rejected(starts: tuple[int, int]) -> None:
    old, new = (
        parse_exposition((write_sample("process_start_time_seconds", at) + write_attempts({0.001: n})).encode(), name)
        for at, n, name in zip(starts, (9, 4), ("old", "new"), strict=True)
    )
    with pytest.raises(InputError, match=r"^new: .*--metrics OLD --metrics NEW"):
        compute_metrics_between(old, new)


def test_recorded_text_of_1_36() -> None:
    measured = compute_metrics_since_start(parse_exposition(lzma.decompress(RECORDED.read_bytes()), "metrics.txt"))
    assert (measured.version, measured.is_leader, measured.unusable) == ("1.36.2", True, 0)
    found = measured.get_histograms("scheduling_attempt")["unschedulable", "default-scheduler"]
    # 31 of 32 within the first bucket of 1 ms, one within the next.
    assert found.estimate_quantile(0.5) == pytest.approx(16 / 31 * 0.001)
    assert found.estimate_quantile(0.99) == pytest.approx(0.001 + (0.99 * 32 - 31) * 0.001)
    assert {queue: count for (queue,), count in measured.numbers["pending_pods"].items()} == {
        "active": 0,
        "backoff": 0,
        "gated": 3,
        "unschedulable": 32,
    }
    missing = measured.explain_missing_metrics()
    assert missing["scheduler_queueing_hint_execution_duration_seconds"] == "has counted nothing"
    assert "scheduler_pending_pods" not in missing
