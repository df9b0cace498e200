"""Check which settings are compared, by options or by the cluster's own, and each cell of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races.compare import compare_expiries, format_percent
from kschedctl.commands.audit.races.latency import ConstantLatency, ExponentialLatency, MeasuredLatency
from kschedctl.commands.audit.races.question import (
    Measures,
    RaceQuestion,
    build_race_question,
    measure_cluster,
    measure_kubelet_lags,
    measure_peak_creation_rate,
    parse_expiry,
    summarize_lags,
)
from kschedctl.errors import UsageError
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
SMALL = RaceQuestion(nodes=(20, 50), rates=(5.0,), room=4, seconds=200.0, informer=ExponentialLatency(10.0))


def build_node(name: str) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def build_pod(number: int, bound: str, started: str, *, created: str = "", owner: str = "ReplicaSet") -> Json:
    """Build a pod on node n1 with the times that the API server and the kubelet set."""
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}] if bound else []
    metadata = {"name": f"p{number:03}", "namespace": "d", "creationTimestamp": created or "2026-05-06T08:00:00Z"}
    owners = [{"controller": True, "apiVersion": "apps/v1", "kind": owner, "name": "web"}]
    return {
        "kind": "Pod",
        "metadata": metadata | {"ownerReferences": owners},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": "Running", "startTime": started, "conditions": conditions},
    }


def format_time(second: int) -> str:
    """Return a time with this second."""
    return f"2026-05-06T08:00:{second:02}Z"


def test_lags_last_from_the_binding_to_the_kubelets_start() -> None:
    """There are nineteen lags of one second and one of nine.

    One pod started before its binding, which counts as no lag.
    """
    pods = [build_pod(i, format_time(1), format_time(2)) for i in range(19)] + [
        build_pod(19, format_time(1), format_time(10)),
        build_pod(20, format_time(5), format_time(4)),
    ]
    lags = measure_kubelet_lags(Cluster.from_objects([build_node("n1"), *pods]))
    assert lags is not None
    assert lags.times.tolist() == [0.0, *[1.0] * 19, 9.0]
    assert (lags.get_quantile(0.5), lags.get_quantile(0.99)) == (1.0, 9.0)

    # Only the pod that took longer than 5 seconds is slow
    summary = summarize_lags(lags)
    assert (summary.slow, len(lags.slowest_pods)) == (1, 3)
    assert summary.slowest_pods == lags.slowest_pods[:1]
    assert summary.slowest_pods[0].endswith("19")


def test_static_pods_and_pods_without_times_have_no_lag() -> None:
    pods = [build_pod(i, format_time(1), format_time(2), owner="Node") for i in range(30)] + [
        build_pod(30 + i, "", format_time(2)) for i in range(30)
    ]
    assert measure_kubelet_lags(Cluster.from_objects([build_node("n1"), *pods])) is None
    few = [build_pod(i, format_time(1), format_time(2)) for i in range(19)]
    assert measure_kubelet_lags(Cluster.from_objects([build_node("n1"), *few])) is None


def test_busiest_minute() -> None:
    """Six pods come in the minute from 8:01 on, and one in each of the next six minutes."""
    times = [f"2026-05-06T08:{minute:02}:{10 * i:02}Z" for i in range(6) for minute in (1, i + 2)]
    pods = [build_pod(i, "", "", created=time) for i, time in enumerate(times)]
    assert measure_peak_creation_rate(Cluster.from_objects([build_node("n1"), *pods])) == pytest.approx(0.1)


def test_size_and_fullness_of_a_cluster() -> None:
    """Six pods are on two nodes for ten pods each. 6 of 20 is a larger share than 600m of 8 CPUs."""
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), *(build_pod(i, "", "") for i in range(6))])
    found = measure_cluster(Scheduler(cluster).view)
    assert (found.nodes, found.room, found.load) == (2, 10, pytest.approx(0.3))


def test_nearly_empty_cluster_can_be_simulated() -> None:
    """The cluster has one pod and room for a thousand."""
    cluster = Cluster.from_objects(
        [*(build_node(f"n{i}") for i in range(100)), build_pod(1, "", "", created=format_time(1))]
    )
    found = measure_cluster(Scheduler(cluster).view)
    assert (found.room, found.load) == (10, 0.01)
    build_race_question({}, found)


def test_empty_cluster_has_no_rate() -> None:
    assert measure_cluster(Scheduler(Cluster.from_objects([])).view) == Measures(None, None, None, None, None)


def test_options_take_precedence_over_the_cluster() -> None:
    lags = MeasuredLatency(np.array([1.0, 2.0]))
    measures = Measures(7, 12, 0.5, 3.0, lags)
    found = build_race_question({"nodes": (100,)}, measures)
    assert (found.nodes, found.rates, found.room, found.load, found.informer_lag) == ((100,), (3.0,), 12, 0.5, lags)
    assert "the number of nodes" not in found.from_cluster
    assert len(found.from_cluster) == 4
    assert found.measured is not None
    assert (found.measured.pods, found.measured.median, found.measured.longest) == (2, 1.0, 2.0)
    given = build_race_question({"binding": ConstantLatency(1.0)}, measures)
    assert (given.measured, given.informer_lag) == (None, ConstantLatency(1.0))
    assert build_race_question({}, None) == RaceQuestion()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", (0,)),
        ("nodes", (10, 200_000)),
        ("rates", (0.0,)),
        ("rates", (float("nan"),)),
        ("room", 0),
        ("load", 0.0),
        ("instances", 0),
        ("runs", 0),
        ("seed", -1),
        ("seconds", 1e9),
        ("nodes", (100_000,)),
    ],
)
def test_invalid_settings_are_errors(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match="--"):
        build_race_question({"room": 1000, field: value}, None)


def test_minute_without_arrivals() -> None:
    report = compare_expiries(replace(SMALL, rates=(0.01,), seconds=0.5, instances=2))
    assert {(result.pods, result.share) for result in report.results} == {(0, 0.0)}


def test_duration_is_long_enough_for_expiries() -> None:
    """It is three times the lag that only one in a thousand exceeds: exp(-t/100) = 0.001 at 690 s."""
    slow = RaceQuestion(informer=ExponentialLatency(100.0), expiries=[parse_expiry("10m"), parse_expiry("20m")])
    assert slow.arrival_seconds == 1800.0
    assert RaceQuestion().arrival_seconds == 300.0
    assert RaceQuestion(seconds=60.0).arrival_seconds == 60.0


def test_each_size_is_combined_with_each_expiry() -> None:
    report = compare_expiries(replace(SMALL, expiries=[parse_expiry("10s"), parse_expiry("never")], runs=3))
    assert [(r.nodes, r.expiry) for r in report.results] == [(20, "10s"), (20, "never"), (50, "10s"), (50, "never")]
    short, never = report.results[2:]
    assert never.double_booked == never.expired == 0
    assert short.share == short.double_booked / short.pods > 0
    assert short.least_share <= short.share <= short.most_share
    assert short.expected_expired == pytest.approx(short.pods * 0.36787944)  # exp(-1)
    assert report.headline.startswith(
        "Nothing to change: kube-scheduler has not expired assumed pods since 1.25. With expiry 10s, "
    )
    assert f"{short.share * 100:.1f}% of pods" in report.headline or "20 nodes" in report.headline
    assert compare_expiries(replace(SMALL, expiries=[parse_expiry("10s"), parse_expiry("never")], runs=3)) == report


def test_expiry_beyond_all_lags_equals_no_expiry() -> None:
    report = compare_expiries(
        replace(SMALL, informer=ConstantLatency(29.0), expiries=[parse_expiry("30s"), parse_expiry("never")])
    )
    assert (
        report.headline == "No pod is bound to a full node, whichever expiry of assumed pods is simulated: 30s, never"
    )
    for nodes in SMALL.nodes:
        one, other = (r for r in report.results if r.nodes == nodes)
        assert (one.pods, one.waiting) == (other.pods, other.waiting)


def test_longest_of_the_best_expiries_is_recommended() -> None:
    lag = ConstantLatency(45.0)
    report = compare_expiries(
        replace(SMALL, informer=lag, expiries=[parse_expiry(text) for text in ("30s", "1m", "2m")])
    )
    assert report.headline.startswith("Expire after 2m: with expiry 30s, ")


def test_single_expiry_is_described_without_a_recommendation() -> None:
    assert compare_expiries(replace(SMALL, expiries=[parse_expiry("10s")])).headline.startswith("With expiry 10s, ")


def test_several_instances_race_with_any_expiry() -> None:
    report = compare_expiries(replace(SMALL, instances=2))
    assert report.headline.startswith("Let one instance place pods: 2 instances double-book up to ")
    assert report.headline.endswith("even without expiry")
    assert next(r for r in report.results if r.expiry == "never").double_booked > 0


def test_shares_in_words() -> None:
    assert [format_percent(share) for share in (0.0, 0.0001, 0.0123, 1.0)] == [
        "0%",
        "less than 0.1%",
        "1.2%",
        "100.0%",
    ]
