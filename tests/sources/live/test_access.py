"""Check access to clusters: kubeconfig lists, contexts, credentials, impersonation, TLS, proxies, service accounts."""

from __future__ import annotations

import json
import os
import stat
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from api_server import TLS, ApiServer, Response, answer_path, build_status, replay_response, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.errors import ClusterError, KschedctlError, UsageError
from kschedctl.sources.live.connection import Access, Connection, connect, parse_timeout

VERSION = "/version"


def request_list(connection: Connection, api: ApiServer) -> ApiServer:
    """Let the connection request a list, and return the server."""
    connection.server.get(VERSION)
    return api


def test_token_context_and_namespace(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        connection = connect(Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config")))
        request_list(connection, api)
    assert api.header("authorization") == ["Bearer secret-token"]
    assert (connection.context, connection.namespace) == ("here", "lab")


def test_kubeconfig_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing files are skipped, and the first current-context counts, as for kubectl."""
    with serve_api(replay_response) as api:
        first = write_kubeconfig(api.url, tmp_path / "one", name="one", token="1")
        second = write_kubeconfig(api.url, tmp_path / "two", name="two", token="2")
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join((str(tmp_path / "none"), first, second)))
        assert request_list(connect(Access()), api).header("authorization") == ["Bearer 1"]
        assert request_list(connect(Access(context="two")), api).header("authorization") == ["Bearer 2"]
        assert request_list(connect(Access(user="two-user")), api).header("authorization") == ["Bearer 2"]
        both = Access(context="one", cluster="two-cluster", user="two-user")
        assert request_list(connect(both), api).header("authorization") == ["Bearer 2"]


def test_default_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    with serve_api(replay_response) as api:
        write_kubeconfig(api.url, tmp_path / ".kube" / "config")
        assert request_list(connect(Access()), api).header("authorization") == ["Bearer secret-token"]


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access(context="mars"), r'no context "mars" \(available: here\)'),
        (Access(cluster="mars"), r'--cluster: no cluster "mars" \(available: here-cluster\)'),
        (Access(user="mars"), r'--user: no user "mars" \(available: here-user\)'),
        (Access(request_timeout="soon"), '"soon" is not a duration'),
    ],
)
def test_missing_kubeconfig_entries_are_errors(access: Access, words: str, tmp_path: Path) -> None:
    path = write_kubeconfig("http://127.0.0.1:1", tmp_path / "config")
    settings = {name: getattr(access, name) for name in ("context", "cluster", "user", "request_timeout")}
    with pytest.raises(KschedctlError, match=words):
        connect(Access(kubeconfig=path, **settings))


@pytest.mark.parametrize("text", ["", "[]", "a: b: c", "clusters: 1", "current-context: x"])
def test_invalid_kubeconfig_is_a_one_line_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ClusterError) as error:
        connect(Access(kubeconfig=str(path)))
    assert "\n" not in str(error.value)


def test_no_kubeconfig() -> None:
    with pytest.raises(ClusterError, match=r"no kubeconfig .*--demo"):
        connect(Access())
    with pytest.raises(ClusterError, match="nowhere: no such file"):
        connect(Access(kubeconfig="nowhere"))


def test_token_file_and_basic_auth(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    with serve_api(replay_response) as api:
        path = write_kubeconfig(api.url, tmp_path / "config", tokenFile="token")
        assert request_list(connect(Access(kubeconfig=path)), api).header("authorization") == ["Bearer from-file"]
        path = write_kubeconfig(api.url, tmp_path / "config", username="u", password="p")
        assert request_list(connect(Access(kubeconfig=path)), api).header("authorization") == ["Basic dTpw"]


def test_impersonation(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        path = write_kubeconfig(api.url, tmp_path / "config", token="t", **{"as": "eve", "as-groups": ["g"]})
        request_list(connect(Access(kubeconfig=path)), api)
        assert (api.header("impersonate-user"), api.header("impersonate-group")) == (["eve"], ["g"])
        request_list(connect(Access(kubeconfig=path, as_user="bob", as_groups=("dev", "ops"))), api)
        assert (api.header("impersonate-user"), api.header("impersonate-group")) == (["bob"], ["dev", "ops"])
    path = write_kubeconfig(api.url, tmp_path / "config")
    with pytest.raises(UsageError, match="--as-group needs --as"):
        connect(Access(kubeconfig=path, as_groups=("dev",))).server.get(VERSION)


def write_plugin(folder: Path, script: str) -> dict[str, object]:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def test_exec_plugin(tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "made"},
    }
    with serve_api(replay_response) as api:
        user = write_plugin(tmp_path, f"print({json.dumps(json.dumps(credential))})")
        path = write_kubeconfig(api.url, tmp_path / "config", **user)
        assert request_list(connect(Access(kubeconfig=path)), api).header("authorization") == ["Bearer made"]


def test_failing_exec_plugin_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user = write_plugin(tmp_path, "import sys; sys.exit('log in first')")
    path = write_kubeconfig("http://127.0.0.1:1", tmp_path / "config", **user)
    with pytest.raises(ClusterError, match=r"no credentials: exec: process returned 1\. log in first"):
        connect(Access(kubeconfig=path))
    assert capfd.readouterr().err == ""


def test_client_certificate(tmp_path: Path) -> None:
    with serve_api(replay_response, tls=True) as api:
        cluster = {"certificate-authority": str(TLS / "ca.pem")}
        user = {"client-certificate": str(TLS / "client.pem"), "client-key": str(TLS / "client.pem")}
        path = write_kubeconfig(api.url, tmp_path / "config", cluster=cluster, **user)
        connect(Access(kubeconfig=path)).server.get(VERSION)


def test_untrusted_server_certificate_is_rejected(tmp_path: Path) -> None:
    with serve_api(replay_response, tls=True) as api:
        path = write_kubeconfig(api.url, tmp_path / "config")
        with pytest.raises(ClusterError, match=r"no trusted connection: .*certificate") as error:
            connect(Access(kubeconfig=path)).server.get(VERSION)
        assert error.value.exit_code == 3
        path = write_kubeconfig(api.url, tmp_path / "config", cluster={"insecure-skip-tls-verify": True})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            connect(Access(kubeconfig=path)).server.get(VERSION)


def test_proxy(tmp_path: Path) -> None:
    with serve_api(replay_response) as proxy:
        path = write_kubeconfig("http://api.example.invalid", tmp_path / "config", cluster={"proxy-url": proxy.url})
        connect(Access(kubeconfig=path)).server.get(VERSION)
    assert proxy.requests[0][1] == "http://api.example.invalid/version"


@pytest.mark.parametrize(
    ("environment", "proxied"),
    [
        ({"HTTP_PROXY": "http://HERE"}, True),
        ({"http_proxy": "HERE"}, True),
        ({"HTTPS_PROXY": "http://HERE"}, False),
        ({"HTTP_PROXY": "http://HERE", "NO_PROXY": "other.invalid,.example.invalid"}, False),
        ({"HTTP_PROXY": "http://HERE", "no_proxy": "other.invalid"}, True),
    ],
)
def test_proxies_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], proxied: bool
) -> None:
    """There is a proxy variable for each scheme. A host in NO_PROXY is contacted directly, which fails here."""
    path = write_kubeconfig("http://api.example.invalid", tmp_path / "config")
    with serve_api(replay_response) as proxy:
        for name, value in environment.items():
            monkeypatch.setenv(name, value.replace("HERE", proxy.url.removeprefix("http://")))
        if proxied:
            connect(Access(kubeconfig=path)).server.get(VERSION)
        else:
            with pytest.raises(ClusterError, match="cannot be reached"):
                connect(Access(kubeconfig=path)).server.get(VERSION)
    assert [target for _, target, _ in proxy.requests] == ["http://api.example.invalid/version"] * proxied


def test_proxy_of_the_cluster_entry_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "*")
    test_proxy(tmp_path)


def test_loopback_needs_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serve_api(replay_response) as api:
        for url in (api.url, api.url.replace("127.0.0.1", "localhost")):
            connect(Access(kubeconfig=write_kubeconfig(url, tmp_path / "config"))).server.get(VERSION)
        assert len(api.requests) == 2


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "pod-token\n"), ("namespace", "shop"), ("ca.crt", (TLS / "ca.pem").read_text())):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("kschedctl.sources.live.connection.SERVICE_ACCOUNT", tmp_path)
    with serve_api(replay_response, tls=True) as api:
        host, _, port = api.url.removeprefix("https://").partition(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        connection = connect(Access())
        assert request_list(connection, api).header("authorization") == ["bearer pod-token"]
    assert (connection.context, connection.namespace) == ("in-cluster", "shop")


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("5", 5), ("1m30s", 90), ("250ms", 0.25), ("2h", 7200)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_timeout(text) == seconds


def test_kubeconfig_is_never_written(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        path = Path(write_kubeconfig(api.url, tmp_path / "config"))
        before = path.read_bytes(), path.stat().st_mtime_ns
        request_list(connect(Access(kubeconfig=str(path))), api)
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def write_rotating_plugin(folder: Path, **more: object) -> dict[str, object]:
    """Build a credential plugin that returns another token on each run: t1, t2, …"""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": dict(more)}
    count = folder / "count"
    script = f"""
import json, pathlib
count = pathlib.Path({str(count)!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
credential = {credential!r}
credential["status"]["token"] = f"t{{number}}"
print(json.dumps(credential))
"""
    return write_plugin(folder, script)


def accept_tokens(api: ApiServer, *tokens: str) -> None:
    """Accept only these tokens from now on."""
    wanted = [f"Bearer {token}" for token in tokens]
    refused = build_status(401, "Unauthorized")
    api.answers.insert(0, lambda *_: None if api.header("authorization")[0] in wanted else refused)


def test_rotated_token_is_requested_from_the_plugin_again(tmp_path: Path) -> None:
    """Without an expirationTimestamp only a 401 shows that a token expired.

    The plugin runs once for all requests that get one.
    """
    with serve_api(replay_response) as api:
        connection = connect(
            Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config", **write_rotating_plugin(tmp_path)))
        )
        request_list(connection, api)
        accept_tokens(api, "t2")
        with ThreadPoolExecutor(8) as threads:
            for answer in [threads.submit(connection.server.get, VERSION) for _ in range(8)]:
                assert b"gitVersion" in answer.result()
        assert api.header("authorization") == ["Bearer t2"]
    assert (tmp_path / "count").read_text() == "2"


def test_second_401_is_an_error(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        path = write_kubeconfig(api.url, tmp_path / "config", **write_rotating_plugin(tmp_path))
        accept_tokens(api, "none")
        with pytest.raises(ClusterError, match="does not accept these credentials: Unauthorized"):
            request_list(connect(Access(kubeconfig=path)), api)
    assert len(api.requests) == 2


def test_plugin_that_fails_later_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serve_api(replay_response) as api:
        connection = connect(
            Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config", **write_rotating_plugin(tmp_path)))
        )
        write_plugin(tmp_path, "import sys; sys.exit('log in again')")
        accept_tokens(api, "t2")
        with pytest.raises(ClusterError, match=r"no credentials: exec: process returned 1\. log in again"):
            request_list(connection, api)
    assert capfd.readouterr().err == ""


def test_expired_token_is_renewed_before_a_401(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        user = write_rotating_plugin(tmp_path, expirationTimestamp="2020-01-01T00:00:00Z")
        connection = connect(Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config", **user)))
        assert request_list(connection, api).header("authorization") == ["Bearer t2"]


def test_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    with serve_api(replay_response) as api:
        connection = connect(Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config", tokenFile="token")))
        (tmp_path / "token").write_text("new")
        accept_tokens(api, "new")
        assert request_list(connection, api).header("authorization") == ["Bearer new"]


def test_certificate_is_requested_from_the_plugin_again(tmp_path: Path) -> None:
    """The server does not trust the first certificate, so the client reconnects with the second."""
    pem = (TLS / "client.pem").read_text()
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    credential["status"] = {"clientCertificateData": pem, "clientKeyData": pem}  # type: ignore[assignment]
    with serve_api(replay_response, tls=True) as api:
        user = write_plugin(tmp_path, f"print({json.dumps(json.dumps(credential))})")
        path = write_kubeconfig(
            api.url, tmp_path / "config", cluster={"certificate-authority": str(TLS / "ca.pem")}, **user
        )
        connection = connect(Access(kubeconfig=path))
        request_list(connection, api)
        credential["status"] = {"clientCertificateData": pem + "\n", "clientKeyData": pem}  # type: ignore[assignment]
        write_plugin(tmp_path, f"print({json.dumps(json.dumps(credential))})")
        first = connection.server.pool.connection_pool_kw["cert_file"]
        api.answers.insert(
            0, answer_path(VERSION, build_status(401, "rotated"), replay_response(VERSION, {}) or Response())
        )
        request_list(connection, api)
        assert connection.server.pool.connection_pool_kw["cert_file"] != first


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"token": "one\ntwo"}, "the token of this user cannot be sent"),
        ({"token": "t", "as": "eve\r\nX: y"}, r'"eve\s+X: y" cannot be sent'),
        ({"token": "t", "as": "eve", "as-groups": ["a\0b"]}, "cannot be sent: it contains a line break or another"),
    ],
)
def test_invalid_token_is_reported_without_its_text(user: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=words) as error:
        connect(Access(kubeconfig=write_kubeconfig("http://127.0.0.1:1", tmp_path / "config", **user))).server.get(
            VERSION
        )
    assert "two" not in str(error.value)


def test_non_ascii_credentials_are_sent_as_utf_8(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        path = write_kubeconfig(api.url, tmp_path / "config")
        request_list(connect(Access(kubeconfig=path, as_user="zoë-Δ")), api)
    assert api.header("impersonate-user")[0].encode("latin-1").decode() == "zoë-Δ"


def test_deeply_nested_kubeconfig_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: " + "[" * 5000)
    with pytest.raises(ClusterError) as error:
        connect(Access(kubeconfig=str(tmp_path / "config")))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
