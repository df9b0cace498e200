"""Check that completion of names takes one short request with the kubeconfig's credentials."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest
from api_server import TLS, Response, answer_path, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.cli.completing import iter_candidates

HOME = "/api/v1/namespaces/lab/pods"


def build_list_response(*pods: str) -> Response:
    """Build the response with a list of names."""
    items = [{"metadata": {"namespace": pod.split("/")[0], "name": pod.split("/")[1]}} for pod in pods]
    return Response(body=json.dumps({"kind": "PartialObjectMetadataList", "items": items}).encode())


def list_candidates(*words: str) -> list[str]:
    return list(iter_candidates(words[0], words[1:]))


def test_pending_pods_first_then_those_of_the_context_s_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        answer_path("/api/v1/pods", build_list_response("lab/waits", "shop/waits-too")),
        answer_path(HOME, build_list_response("lab/runs", "lab/waits")),
        answer_path("/api/v1/nodes", build_list_response("/n1")),
    )
    with serve_api(*answers) as api:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
        assert list_candidates("pods", "explain", "") == ["waits", "shop/waits-too", "runs"]
        assert list_candidates("nodes", "drain", "") == ["n1"]
        assert "fieldSelector=spec.nodeName%3D" in api.requests[0][1]
        assert api.header("accept")[0].startswith("application/json;as=PartialObjectMetadataList")
        assert {method for method, _, _ in api.requests} == {"GET"}


@pytest.mark.parametrize("inline", [False, True])
def test_client_certificates_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool) -> None:
    """The server requires one. A key inside the kubeconfig is not written to a file."""

    def given(name: str, file: str) -> dict[str, str]:
        data = (TLS / file).read_bytes()
        return {f"{name}-data": base64.b64encode(data).decode()} if inline else {name: str(TLS / file)}

    with serve_api(answer_path("/api/v1/nodes", build_list_response("/n1")), tls=True) as api:
        user = given("client-certificate", "client.pem") | given("client-key", "client.pem")
        cluster = given("certificate-authority", "ca.pem")
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config", cluster=cluster, **user))
        assert list_candidates("nodes", "drain", "") == ["n1"]
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config", **user))
        with pytest.raises(ssl.SSLError):
            list_candidates("nodes", "drain", "")


def test_completion_runs_no_credential_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_api(answer_path("/api/v1/nodes", build_list_response("/n1"))) as api:
        user = {"exec": {"command": "touch", "args": [str(tmp_path / "ran")]}}
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config", **user))
        assert list_candidates("nodes", "drain", "") == []
        assert not api.requests
    assert not (tmp_path / "ran").exists()


def test_denied_request_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_api(answer_path("/api/v1/nodes", Response(status=403))) as api:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
        assert list_candidates("nodes", "drain", "") == []
