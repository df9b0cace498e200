"""Check metrics over HTTP: only GET, only the given URL, bounded size, and credentials for their host only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import urllib3
from metrics_server import TLS, MetricsServer, serve_metrics
from metrics_texts import write_attempts, write_sample

from kschedctl.errors import ClusterError, InputError, KschedctlError, UsageError
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.http import Server
from kschedctl.sources.live.limits import enforce_limits
from kschedctl.sources.metrics.exposition import read_metrics
from kschedctl.sources.metrics.http import MAX_BYTES, MetricsAccess

TEXT = (write_sample("process_start_time_seconds", 1.0) + write_attempts({0.0005: 4})).encode()
PROXY = "/api/v1/namespaces/kube-system/pods/https:kube-scheduler-cp1:10259/proxy/metrics"


def fail_if_connected() -> Connection:
    raise AssertionError("no kubeconfig is needed")


def build_server(body: bytes, status: int = 200, **more: Any) -> MetricsServer:
    return MetricsServer(lambda path, query: (status, body), **more)


def test_metrics_are_read_by_one_get_without_credentials() -> None:
    with serve_metrics(build_server(TEXT)) as server:
        measured = read_metrics([f"{server.url}/metrics"], MetricsAccess(fail_if_connected))
    ((method, path, headers),) = server.asked
    assert (method, path) == ("GET", "/metrics")
    assert "authorization" not in headers
    assert measured.seconds is not None  # since 1970
    assert measured.seconds > 1e9


def test_credentials_are_sent_but_never_printed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cr3t\n")
    with serve_metrics(build_server(TEXT)) as server:
        read_metrics([f"{server.url}/metrics"], MetricsAccess(fail_if_connected, token_file=str(token)))
        with_user = server.url.replace("://", "://me:hünter2@")
        measured = read_metrics([f"{with_user}/metrics"], MetricsAccess(fail_if_connected))
    assert server.asked[0][2]["authorization"] == "Bearer s3cr3t"
    assert server.asked[1][2]["authorization"].startswith("Basic ")
    assert "nter2" not in measured.source


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (build_server(b"", 302, headers={"Location": "http://169.254.169.254/"}), "redirects elsewhere"),
        (build_server(b"", 401), "answers 401 .*--metrics-token-file"),
        (build_server(b"", 403), "answers 403"),
        (build_server(b"", 404), "answers 404"),
        (build_server(b"", endless=(MAX_BYTES >> 20) + 1), "more than 64 MiB"),
        (build_server(TEXT, drip=0.2), "no complete response within"),
    ],
    ids=["redirect", "401", "403", "404", "endless", "slow"],
)
def test_invalid_responses_are_errors(server: MetricsServer, expected: str) -> None:
    with serve_metrics(server), pytest.raises(ClusterError, match=expected) as raised:  # noqa: PT012
        url = server.url.replace("://", "://me:hunter2@")
        read_metrics([f"{url}/metrics"], MetricsAccess(fail_if_connected, seconds=1 if server.drip else 60))
    assert "hunter2" not in str(raised.value)
    assert len(server.asked) == 1


def test_refused_connection_is_a_one_line_error() -> None:
    with pytest.raises(ClusterError, match="cannot be reached: Connection refused"):
        read_metrics(["http://127.0.0.1:1/metrics"], MetricsAccess(fail_if_connected))


def test_server_certificate_is_verified() -> None:
    with serve_metrics(build_server(TEXT, tls=True)) as server:
        url = f"{server.url}/metrics"
        with pytest.raises(ClusterError, match=r"no trusted connection.*--metrics-ca-file"):
            read_metrics([url], MetricsAccess(fail_if_connected))
        read_metrics([url], MetricsAccess(fail_if_connected, ca_file=str(TLS / "ca.pem")))
        read_metrics([url], MetricsAccess(fail_if_connected, insecure=True))
    assert len(server.asked) == 2


def test_invalid_authority_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InputError, match="--metrics-ca-file"):
        read_metrics(["https://127.0.0.1:1/"], MetricsAccess(fail_if_connected, ca_file=str(tmp_path / "ca.pem")))


@pytest.mark.parametrize("text", ["", "two words", "tab\there"])
def test_invalid_token_is_not_sent(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InputError, match="not a bearer token"):
        read_metrics(
            ["http://127.0.0.1:1/metrics"], MetricsAccess(fail_if_connected, token_file=str(tmp_path / "token"))
        )


def build_connection(host: str) -> Connection:
    headers = urllib3.HTTPHeaderDict({"Authorization": "Bearer kubeconfig"})
    return Connection(Server(host, enforce_limits(urllib3.PoolManager()), headers.copy), "ctx", "default")


def test_kubeconfig_credentials_are_sent_to_the_api_server_proxy() -> None:
    with serve_metrics(build_server(TEXT)) as server:
        access = MetricsAccess(lambda: build_connection(server.url))
        read_metrics([f"{server.url}{PROXY}"], access)
    assert server.asked[0][1] == PROXY
    assert server.asked[0][2]["authorization"] == "Bearer kubeconfig"


@pytest.mark.parametrize("path", ["/metrics", PROXY, f"/metrics?x={PROXY}", f"/metrics#{PROXY}"])
def test_kubeconfig_credentials_are_sent_nowhere_else(path: str) -> None:
    with serve_metrics(build_server(TEXT)) as server:
        access = MetricsAccess(lambda: build_connection(f"{server.url}1"))  # another port
        read_metrics([f"{server.url}{path}"], access)
    assert "authorization" not in server.asked[0][2]


def test_url_read_twice_gives_the_difference() -> None:
    texts = iter([write_attempts({0.0005: 4}), write_attempts({0.0005: 4, 0.05: 2})])
    with serve_metrics(MetricsServer(lambda path, query: (200, next(texts).encode()))) as server:
        measured = read_metrics([f"{server.url}/metrics"], MetricsAccess(fail_if_connected), window=1)
    assert measured.get_number("schedule_attempts_total", ("scheduled", "default-scheduler")) == 2
    assert measured.seconds == pytest.approx(1, abs=0.9)


@pytest.mark.parametrize(
    ("places", "window", "expected"),
    [
        (["a", "b", "c"], None, "more than two readings"),
        (["FILE"], 30, "--window needs two readings"),
        (["http://"], None, "not a server address"),
        (["http://[::1/metrics"], None, "not a server address"),
        (["http://a:port/metrics"], None, "not a server address"),
    ],
)
def test_unusable_sources_and_windows_are_errors(
    places: list[str], window: int | None, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "m.txt").write_bytes(TEXT)
    named = [str(tmp_path / "m.txt") if place == "FILE" else place for place in places]
    with pytest.raises(UsageError, match=expected):
        read_metrics(named, MetricsAccess(fail_if_connected), window)


@pytest.mark.parametrize("text", ["", "<html>", "go_goroutines 1\n", "process_start_time_seconds 1\n"])
def test_metrics_of_other_programs_are_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(KschedctlError, match="no metrics of kube-scheduler"):
        read_metrics([str(tmp_path / "m.txt")], MetricsAccess(fail_if_connected))
