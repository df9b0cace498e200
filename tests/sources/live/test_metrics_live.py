"""Check that ``kschedctl watch --metrics`` follows a live cluster for hours in constant memory."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import subprocess
import threading
import time
import tracemalloc
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from api_server import Answer, Response, answer_lists, build_status, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures
from prometheus_client.parser import text_string_to_metric_families

from kschedctl.cli.main import main
from kschedctl.commands import watch as monitoring
from kschedctl.commands.watch import openmetrics as serving_metrics
from kschedctl.errors import ClusterError
from kschedctl.sources.live import follow

Json = dict[str, Any]
PODS = "/api/v1/pods"
PATIENCE_SECONDS = 120.0


def build_node(name: str, cpu: str) -> Json:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def build_event(kind: str, name: str, version: int, cpu: str = "1", **spec: Any) -> bytes:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    return json.dumps({"type": kind, "object": pod}).encode() + b"\n"


class Feed:
    """An answer to the watch of pods that sends the events put into it. Other watches stay silent until the end."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.more, self.over = threading.Condition(), False

    def put(self, *events: bytes) -> None:
        with self.more:
            self.batches.append(b"".join(events))
            self.more.notify_all()

    def end(self) -> None:
        with self.more:
            self.over = True
            self.more.notify_all()

    def __call__(self, path: str, query: dict[str, str]) -> Response | None:
        if "watch" not in query:
            return None
        return Response(chunks=self._chunks(path == PODS))

    def _chunks(self, pods: bool) -> Iterator[bytes]:
        while True:
            with self.more:
                self.more.wait_for(lambda: self.over or (pods and self.batches))
                if self.over:
                    return
                batch = self.batches.pop(0)
            yield batch


class Watch(NamedTuple):
    """A running ``watch`` command: the feed of its cluster, its exit code, its number of rounds, and its /metrics."""

    feed: Feed
    codes: list[int]
    rounds: Callable[[], int]
    address: Callable[[], str]
    scraped: Callable[[], str]


Start = Callable[..., Watch]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """Return a function that runs the command in a thread against a server of these objects until the test ends.

    A thread that computes for long could hold a lock at the moment at which another test forks its workers.
    """
    over, threads = threading.Event(), list[threading.Thread]()
    servers: list[serving_metrics.MetricsServer] = []
    shown: list[float] = []
    ends: list[Callable[[], object]] = []

    class Telling(serving_metrics.MetricsServer):
        def __enter__(self) -> Any:
            servers.append(super().__enter__())
            return self

        def publish(self, report: Any, seconds: float) -> None:
            if over.is_set():
                raise ClusterError("the test is over")
            super().publish(report, seconds)
            shown.append(seconds)

    monkeypatch.setattr(serving_metrics, "MetricsServer", Telling)
    monkeypatch.setattr(follow, "SETTLE_SECONDS", 0.001)

    def start(*objects: Json, answers: tuple[Answer, ...] = (), every: str = "1ms") -> Watch:
        feed, codes = Feed(), list[int]()
        server = serve_api(*answers, feed, answer_lists(objects))
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(server.__enter__().url, tmp_path / "config"))
        ends.extend((feed.end, lambda: server.__exit__(None, None, None)))
        arguments = ["watch", "--metrics", "127.0.0.1:0", "--every", every, "-q"]
        threads.append(threading.Thread(target=lambda: codes.append(main(arguments)), daemon=True))
        threads[-1].start()

        def address() -> str:
            wait_until(lambda: bool(servers))
            return f"127.0.0.1:{servers[0].port}"

        def scraped() -> str:
            with urllib.request.urlopen(f"http://{address()}/metrics", timeout=60) as response:
                return str(response.read().decode())

        return Watch(feed, codes, lambda: len(shown), address, scraped)

    yield start
    over.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    for end in ends:
        end()


def wait_until(true: Callable[[], bool], pause: float = 0.005) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(pause)


def sum_values(text: str, name: str) -> float:
    """Return the sum over all labels, or 0 if there is no such metric."""
    families = text_string_to_metric_families(text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def test_metrics_follow_the_cluster(start: Start) -> None:
    watch = start(build_node("n1", "4"))
    pending = lambda: sum_values(watch.scraped(), "kschedctl_pending_pods")  # noqa: E731
    wait_until(lambda: watch.rounds() > 0)
    assert pending() == 0
    watch.feed.put(build_event("ADDED", "big", 10, cpu="9"), build_event("ADDED", "small", 11))
    wait_until(lambda: pending() == 2)
    watch.feed.put(build_event("MODIFIED", "small", 12, nodeName="n1"))
    wait_until(lambda: pending() == 1)
    text = watch.scraped()
    assert 'verdict="Unschedulable"' in text
    assert sum_values(text, "kschedctl_answers_total") >= 3
    assert 0 < time.time() - sum_values(text, "kschedctl_answer_timestamp_seconds") < PATIENCE_SECONDS


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_prometheus_scrapes_it_and_evaluates_the_alerts(start: Start, tmp_path: Path) -> None:
    watch = start(build_node("n1", "4"))
    watch.feed.put(build_event("ADDED", "big", 10, cpu="9"))
    wait_until(lambda: sum_values(watch.scraped(), "kschedctl_pending_pods") == 1)
    rules = Path(monitoring.__file__).with_name("rules.yaml")
    jobs = [{"job_name": "kschedctl", "static_configs": [{"targets": [watch.address()]}]}]
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": [str(rules)], "scrape_configs": jobs}
    (tmp_path / "prometheus.yaml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
    ]
    with subprocess.Popen([*command, f"--web.listen-address={where}"], stderr=subprocess.DEVNULL) as prometheus:
        try:
            numbers = "/api/v1/query?query=kschedctl_pending_pods"
            wait_until(lambda: bool(_query_prometheus(where, numbers).get("result")), pause=0.2)
            (series,) = _query_prometheus(where, numbers)["result"]
            assert (series["value"][1], series["metric"]["verdict"]) == ("1", "Unschedulable")
            groups = _query_prometheus(where, "/api/v1/rules")["groups"]
            wait_until(lambda: {rule["health"] for rule in _list_alerts(where)} == {"ok"}, pause=0.2)
            assert len(groups) == 1
        finally:
            prometheus.terminate()


def _list_alerts(where: str) -> list[Json]:
    return [rule for group in _query_prometheus(where, "/api/v1/rules")["groups"] for rule in group["rules"]]


def _query_prometheus(where: str, path: str) -> Json:
    """Return the answer of Prometheus, or nothing while it starts."""
    try:
        with urllib.request.urlopen(f"http://{where}{path}", timeout=60) as response:
            data: Json = json.load(response)["data"]
            return data
    except OSError:
        return {}


def test_metrics_are_absent_before_the_first_answer(start: Start) -> None:
    """/metrics is served already, but a value that is still unknown is absent, not zero."""
    slow = threading.Event()

    def nodes(path: str, query: dict[str, str]) -> Response | None:
        if path == "/api/v1/nodes":
            slow.wait(PATIENCE_SECONDS)
        return None

    watch = start(build_node("n1", "4"), answers=(nodes,))
    text = watch.scraped()
    slow.set()
    assert (sum_values(text, "kschedctl_build_info"), sum_values(text, "kschedctl_answers_total")) == (1, 0)
    assert "kschedctl_pending_pods" not in text
    assert "kschedctl_answer_timestamp_seconds" not in text
    wait_until(lambda: "kschedctl_answer_timestamp_seconds" in watch.scraped())


def test_lost_cluster_ends_the_command(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with exit code 3, so that its supervisor restarts it."""
    monkeypatch.setattr(follow, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(follow, "MAX_WAIT", 0.001)

    def refused(path: str, query: dict[str, str]) -> Response | None:
        return build_status(401, "Unauthorized", "Unauthorized") if "watch" in query else None

    watch = start(build_node("n1", "4"), answers=(refused,))
    wait_until(lambda: bool(watch.codes))
    assert watch.codes == [3]


def test_memory_is_constant_over_hours_of_changes(start: Start) -> None:
    """Pods come and go, with one change every 90 s for three hours. A report takes a few KB."""
    watch = start(*(build_node(f"n{number}", "4") for number in range(3)))

    def hour(name: str) -> int:
        for number in range(40):
            key, version, before = f"{name}-{number}", 10 + 10 * number, watch.rounds()
            come = build_event("ADDED", key, version, cpu="9" if number % 3 else "1")
            gone = build_event("DELETED", f"{name}-{number - 5}", version + 1)
            watch.feed.put(come, *([gone] if number >= 5 else []))
            wait_until(lambda before=before: watch.rounds() > before)  # type: ignore[misc]
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # what waits to be collected, while the watch goes on, is no leak
    tracemalloc.start()
    try:
        used = [hour(name) for name in ("first", "second", "third")]
    finally:
        tracemalloc.stop()
        gc.set_threshold(*thresholds)
    assert used[2] - used[1] < 40_000, used
    assert sum_values(watch.scraped(), "kschedctl_pending_pods") == 15  # of each hour the last five
