"""Check extenders that filter, prioritize, fail, hang and lie: the scheduler's outcome, or a conditional answer."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest
from extender_server import TLS, ExtenderServer, serve_extender

import kschedctl
from kschedctl.sources import extender_http as http
from kschedctl.sources.extender_http import HTTPCaller
from kschedctl.sources.extender_recording import Recorder

Json = dict[str, Any]
NODES = [
    {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
    for name in ("n1", "n2", "n3")
]
POD = {
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def build_configuration(server: ExtenderServer | str, **settings: Any) -> Json:
    url = server if isinstance(server, str) else server.url
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": url, **verbs, "httpTimeout": "2s", **settings}],
    }


def explain_pod(server: ExtenderServer | str, **settings: Any) -> Json:
    """Explain the pod shop/web with calls to the server."""
    cluster = kschedctl.Cluster.from_objects([*NODES, POD], config=build_configuration(server, **settings))
    return kschedctl.explain(cluster, "shop/web", call_extender=HTTPCaller()).to_dict()


@pytest.mark.parametrize("by_name", [True, False], ids=["names", "whole nodes"])
def test_extender_filters_and_scores(by_name: bool) -> None:
    script = {"filter": {"refuse": {"n1": "busy"}}, "prioritize": {"scores": {"n2": 3, "n3": -4}}}
    with serve_extender(script=script) as server:
        found = explain_pod(f"{server.url}/", nodeCacheCapable=by_name)
    assert found["feasible"] == ["n2", "n3"]
    assert found["extenderScores"] == {f"{server.url}/": {"n2": 30, "n3": -40}}
    assert found["total"]["n2"] - found["total"]["n3"] == 70  # the nodes are alike
    assert [path for path, *_ in server.requests] == ["/filter", "/prioritize"]
    assert server.requests[0][1]["content-type"] == "application/json"
    sent = server.requests[0][2]
    assert (sent["NodeNames"] is None, sent["Nodes"] is None) == (not by_name, by_name)
    assert not found["undecided"]


FAILING = {
    "status": ({"status": 500}, "failed filter with extender at URL {url}/filter, code 500"),
    "its own words": ({"script": {"filter": {"error": "no GPU left"}}}, "no GPU left"),
    "garbage": ({"raw": b"<html>"}, "invalid character '<' looking for beginning of value"),
    "cut short": ({"raw": b'{"NodeNames": ["n1"'}, "unexpected EOF"),
    "nothing": ({"raw": b""}, "EOF"),
    "a list": ({"raw": b"[]"}, "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
    "names that are none": (
        {"raw": b'{"NodeNames": [1]}'},
        "json: cannot unmarshal number into Go struct field ExtenderFilterResult.NodeNames of type string",
    ),
    "nested": ({"raw": b"[" * 100_000}, "exceeded max depth"),
    "unknown node": (
        {"script": {"filter": {"ghost": ["ghost"]}}},
        'extender "{url}" claims a filtered node "ghost" which is not found in the input node list',
    ),
    "hangs up": ({"hang_up": True}, 'Post "{url}/filter": EOF'),
}


@pytest.mark.parametrize(("behaviour", "words"), FAILING.values(), ids=FAILING)
def test_failure_is_a_scheduler_error_unless_ignorable(behaviour: Json, words: str) -> None:
    with serve_extender(**behaviour) as server:
        found = explain_pod(server)
        ignored = explain_pod(server, ignorable=True)
    assert (found["verdict"], found["message"]) == ("Error", words.format(url=server.url))
    assert (ignored["verdict"], len(ignored["feasible"])) == ("Schedulable", 3)
    assert ignored["extenderErrors"][0]["error"] == words.format(url=server.url)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (
            {"hang": 600.0},
            'Post "{url}/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        ),
        (
            {"raw": b'{"NodeNames": ["n1", "n2"]}', "drip": 0.1},
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
        ),
    ],
    ids=["silence", "a byte now and then"],
)
def test_timeout_of_the_configuration_applies(behaviour: Json, words: str) -> None:
    with serve_extender(**behaviour) as server:
        found = explain_pod(server, httpTimeout="300ms", prioritizeVerb="")
    assert (found["verdict"], found["message"]) == ("Error", words.format(url=server.url))


def test_redirects_are_not_followed() -> None:
    with serve_extender() as other, serve_extender(status=307, headers={"Location": f"{other.url}/filter"}) as server:
        found = explain_pod(server, prioritizeVerb="")
    assert other.requests == []
    assert (found["verdict"], found["undecided"]) == ("Schedulable", True)
    assert (
        found["unknown"][0]["why"]
        == f"did not all answer: {server.url}/filter redirects elsewhere, which is not followed"
    )


def test_too_large_response_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is conditional, because the end of the response is unknown."""
    monkeypatch.setattr(http, "MAX_BODY_SIZE", 4 << 20)
    with serve_extender(endless=1024) as server:
        found = explain_pod(server, prioritizeVerb="", httpTimeout="30s")
    assert found["undecided"]
    assert found["unknown"][0]["why"].endswith("sent more than 4 MiB")


def test_unreachable_extender_makes_the_answer_conditional() -> None:
    with serve_extender() as server:
        gone = server.url
    found = explain_pod(gone, prioritizeVerb="")
    assert found["undecided"]
    assert found["unknown"][0]["why"] == f"were not all reached from here: {gone}/filter: Connection refused"


def test_text_after_the_first_json_value_is_ignored() -> None:
    with serve_extender(raw=b' {"nodenames": ["n2"]} garbage') as server:
        assert explain_pod(server, prioritizeVerb="")["feasible"] == ["n2"]


def test_compressed_response_is_decompressed() -> None:
    body = gzip.compress(b'{"NodeNames": ["n2"]}')
    with serve_extender(raw=body, headers={"Content-Encoding": "gzip"}) as server:
        assert explain_pod(server, prioritizeVerb="")["feasible"] == ["n2"]
    with serve_extender(raw=b"{}", headers={"Content-Encoding": "gzip"}) as server:
        assert explain_pod(server)["message"] == "gzip: invalid header"


def test_too_large_compressed_response_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY_SIZE", 4 << 20)
    with serve_extender(raw=gzip.compress(b" " * (5 << 20)), headers={"Content-Encoding": "gzip"}) as server:
        found = explain_pod(server, prioritizeVerb="")
    assert found["unknown"][0]["why"].endswith("sent more than 4 MiB")


def test_empty_nodes_of_an_extender_are_accepted() -> None:
    """The extender returns two whole nodes without a name.

    Both are called "" in the next request, and no score names them.
    """
    with serve_extender(raw=b'{"Nodes": {"items": [{}, {"metadata": null}]}}') as server:
        cluster = kschedctl.Cluster.from_objects(
            [*NODES, POD], config=build_configuration(server, nodeCacheCapable=False)
        )
        recorder = Recorder(HTTPCaller())
        found = kschedctl.explain(cluster, "shop/web", call_extender=recorder).to_dict()
    assert [(each.verb, each.nodes) for each in recorder.answers] == [
        ("filter", ("n1", "n2", "n3")),
        ("prioritize", ("", "")),
    ]
    assert found["verdict"] == "Schedulable"


@pytest.mark.parametrize("field", ["error", "refuse"])
def test_long_messages_are_truncated_as_in_events(field: str) -> None:
    words = "m" * 5000
    script = {"filter": {field: words if field == "error" else dict.fromkeys(("n1", "n2", "n3"), words)}}
    with serve_extender(script=script) as server:
        found = explain_pod(server)
    said = "m" * 1020 + " ..."
    assert found["message"].startswith(said if field == "error" else f"0/3 nodes are available: 3 {said}. ")


def test_other_url_schemes_are_errors() -> None:
    found = explain_pod("file:///etc", prioritizeVerb="")
    assert found["message"] == 'Post "file:///etc/filter": unsupported protocol scheme "file"'


def test_credentials_in_the_url_are_not_printed() -> None:
    with serve_extender(status=503) as server:
        found = explain_pod(server.url.replace("//", "//me:hunter2@"), prioritizeVerb="")
    expected = base64.b64encode(b"me:hunter2").decode()
    assert server.requests[0][1]["authorization"] == f"Basic {expected}"
    assert "hunter2" not in str(found)
    assert found["message"] == f"failed filter with extender at URL {server.url}/filter, code 503"


def read_pem(name: str) -> str:
    return base64.b64encode((TLS / name).read_bytes()).decode()


@pytest.mark.parametrize("as_data", [True, False], ids=["data", "files"])
def test_tls_options_of_the_configuration_apply(as_data: bool) -> None:
    if as_data:
        tls = {"caData": read_pem("ca.pem"), "certData": read_pem("client.pem"), "keyData": read_pem("client.pem")}
    else:
        tls = {"caFile": str(TLS / "ca.pem"), "certFile": str(TLS / "client.pem"), "keyFile": str(TLS / "client.pem")}
    with serve_extender(tls=True, script={"filter": {"refuse": {"n1": "busy"}}}) as server:
        found = explain_pod(server, enableHTTPS=True, tlsConfig=tls, prioritizeVerb="")
        strange = explain_pod(
            server, enableHTTPS=True, tlsConfig={**tls, "serverName": "else.example"}, prioritizeVerb=""
        )
    assert found["feasible"] == ["n2", "n3"]
    assert strange["undecided"]
    assert "certificate verify failed" in strange["unknown"][0]["why"]


def test_removed_keys_must_be_supplied() -> None:
    tls = {"keyData": "REDACTED", "certData": "REDACTED"}
    with pytest.raises(kschedctl.KschedctlError, match="removed when the cluster was saved"):
        explain_pod("https://127.0.0.1:1", tlsConfig=tls)
