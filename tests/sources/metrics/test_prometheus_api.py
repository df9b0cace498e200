"""Check queries of Prometheus' HTTP API, with classic and native histograms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from metrics_server import MetricsServer, serve_metrics

from kschedctl.errors import ClusterError, KschedctlError, UsageError
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.metrics.catalogue import METRICS, MetricsReading
from kschedctl.sources.metrics.http import MetricsAccess
from kschedctl.sources.metrics.prometheus import build_metric_query, read_prometheus

LABELS = {"result": "scheduled", "profile": "default-scheduler"}
KEY = ("scheduled", "default-scheduler")


def fail_if_connected() -> Connection:
    raise AssertionError("no kubeconfig is needed")


def build_sample(name: str, value: str, **labels: str) -> dict[str, Any]:
    return {"metric": {"kschedctl_part": name, **LABELS, **labels}, "value": [1, value]}


def build_vector(*samples: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": samples}}).encode()


def read(answer: Callable[[str], bytes], matchers: str = "") -> tuple[MetricsReading, list[str]]:
    asked = []

    def answered(path: str, query: dict[str, str]) -> tuple[int, bytes]:
        assert path == "/prefix/api/v1/query"
        asked.append(query["query"])
        return 200, answer(query["query"])

    with serve_metrics(MetricsServer(answered)) as server:
        measured = read_prometheus(MetricsAccess(fail_if_connected), f"{server.url}/prefix/", 3600, matchers)
    return measured, asked


def answer_attempts(*samples: dict[str, Any]) -> Callable[[str], bytes]:
    return lambda query: build_vector(*samples) if "scheduler_scheduling_attempt_duration" in query else build_vector()


def test_classic_histogram() -> None:
    buckets = [
        build_sample("bucket", count, le=le) for le, count in (("0.1", "5"), ("+Inf", "12"), ("0.2", "7"), ("1", "11"))
    ]
    measured, asked = read(answer_attempts(*buckets, build_sample("sum", "6"), build_sample("count", "12")))
    found = measured.get_histograms("scheduling_attempt")[KEY]
    # Prometheus' testhistogram: its 0.2-quantile is 0.048, 0.5 is 0.15.
    assert found.estimate_quantile(0.2) == pytest.approx(0.048)
    assert found.estimate_quantile(0.5) == pytest.approx(0.15)
    assert (found.count, found.total, measured.seconds) == (12, 6, 3600)
    assert not any("rest_client" in query for query in asked)


def test_native_histogram_is_preferred() -> None:
    # As web/api/v1 writes the histogram {{schema:0 count:12 sum:100 z_bucket:2 z_bucket_w:0.001 buckets:[2 3 0 1 4]}}.
    buckets = [[3, "-0.001", "0.001", "2"], [0, "0.5", "1", "2"], [0, "1", "2", "3"]]
    buckets += [[0, "4", "8", "1"], [0, "8", "16", "4"]]
    native = {
        "metric": {"kschedctl_part": "native", **LABELS},
        "histogram": [1, {"count": "12", "sum": "100", "buckets": buckets}],
    }
    measured, _ = read(
        answer_attempts(build_sample("bucket", "12", le="+Inf"), build_sample("bucket", "1", le="1"), native)
    )
    found = measured.get_histograms("scheduling_attempt")[KEY]
    assert found.estimate_quantile(0.9) == pytest.approx(12.99603834169977)
    assert found.estimate_quantile(0.1) == pytest.approx(0.0006)


def test_shared_metrics_are_queried_only_with_matchers() -> None:
    depth = {"metric": {"queue": "active"}, "value": [1, "3"]}
    _, asked = read(
        lambda query: build_vector(depth) if "pending_pods" in query else build_vector(),
        'job="kube-scheduler", cluster=~"a|b"',
    )
    held_back = next(query for query in asked if "rest_client_rate_limiter" in query)
    assert (
        'increase(rest_client_rate_limiter_duration_seconds_bucket{job="kube-scheduler", cluster=~"a|b"}[3600s])'
        in (held_back)
    )


def test_queue_metrics_are_those_of_the_leader() -> None:
    metric = next(metric for metric in METRICS if metric.key == "pending_pods")
    assert build_metric_query(metric, "scheduler_pending_pods", 60) == (
        "max by (queue) (scheduler_pending_pods{} and on (instance) (leader_election_master_status{} == 1))"
        " or max by (queue) (scheduler_pending_pods{})"
    )


def test_older_name_is_queried_if_the_newer_has_no_result() -> None:
    nodes = {"metric": {"type": "nodes"}, "value": [1, "12"]}
    measured, _ = read(
        lambda query: build_vector(nodes) if "(scheduler_scheduler_cache_size" in query else build_vector()
    )
    assert measured.get_number("cache_size", ("nodes",)) == 12


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "much"])
def test_invalid_values_are_skipped(value: str) -> None:
    measured, _ = read(answer_attempts(build_sample("bucket", value, le="1"), build_sample("bucket", "3", le="+Inf")))
    assert measured.unusable == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>", "does not answer as Prometheus' HTTP API"),
        (b'{"status":"error","error":"unknown\\u001b[31m function\\n"}', "rejects a query"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "did not answer a query with a vector"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1}}]}}', "does not answer"),
        (b"[" * 100_000, "does not answer"),
    ],
)
def test_invalid_responses_are_errors(body: bytes, expected: str) -> None:
    with pytest.raises(ClusterError, match=expected) as raised:
        read(lambda query: body)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("matchers", ["job", 'job="a"}) or vector(1)', 'job="a" or b="c"', '{job="a"}'])
def test_invalid_matchers_are_errors(matchers: str) -> None:
    with pytest.raises(UsageError, match="not label matchers"):
        read(lambda query: build_vector(), matchers)


def test_http_errors_are_reported() -> None:
    with (
        serve_metrics(MetricsServer(lambda path, query: (503, b"no"))) as server,
        pytest.raises(KschedctlError, match="503"),
    ):
        read_prometheus(MetricsAccess(fail_if_connected), server.url, 60)


@pytest.mark.parametrize("url", ["http://p:9090/?a=b", "http://p:9090/#graph"])
def test_base_url_must_not_have_a_query(url: str) -> None:
    with pytest.raises(UsageError, match="not a base URL"):
        read_prometheus(MetricsAccess(fail_if_connected), url, 60)
