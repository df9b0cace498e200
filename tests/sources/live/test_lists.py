"""Check lists over loopback, as a real API server sent them, and with network failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from api_server import (
    Response,
    answer_path,
    build_status,
    get_recorded_error,
    read_recordings,
    replay_pages,
    replay_response,
    serve_api,
)
from live_fixtures import WAITED, fixture_server_at, nobody  # noqa: F401 - fixtures

from kschedctl.api.kinds import KINDS
from kschedctl.cluster import CREATION_KINDS, OBSERVED
from kschedctl.errors import ClusterError, InputError
from kschedctl.sources.live import http as live_http
from kschedctl.sources.live import lists as live_lists
from kschedctl.sources.live.http import RefusedError, Server
from kschedctl.sources.live.lists import iter_list_paths, read_list

ServerAt = Callable[..., Server]
PODS = "/api/v1/pods"
NOT_RECORDED = {
    "RuntimeClass",
    "DeviceTaintRule",
    "PodGroup",
    "CompositePodGroup",
    "ElasticQuota",
    "NodeResourceTopology",
}
NOT_RECORDED |= {"CoschedulingPodGroup", "VolcanoPodGroup", *OBSERVED, *CREATION_KINDS}


def build_page(*names: str, version: str = "7", token: str = "", kind: str = "Pod") -> Response:
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    items = [{"metadata": {"name": name, "namespace": "a"}} for name in names]
    return Response(body=json.dumps({"kind": f"{kind}List", "metadata": metadata, "items": items}).encode())


def list_names(listing: live_lists.Listing) -> list[str]:
    return [obj.metadata.name for obj in listing.objects]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NOT_RECORDED])
def test_recorded_lists(kind: str, server_at: ServerAt) -> None:
    path = next(iter_list_paths(kind))
    recorded = json.loads(next(r["body"] for r in read_recordings() if r["request"] == path))
    with serve_api(replay_response) as api:
        listing = read_list(server_at(api.url), kind)
    wanted = sorted((i["metadata"].get("namespace", ""), i["metadata"]["name"]) for i in recorded["items"] or [])
    found = [(o.metadata.namespace, o.metadata.name) for o in listing.objects]  # type: ignore[attr-defined]
    assert sorted(found) == wanted
    assert listing.resource_version == recorded["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("kind", "total"), [("Pod", 114), ("Node", 12)])
def test_recorded_pages(kind: str, total: int, server_at: ServerAt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_lists, "PAGE_SIZE", 5)
    with serve_api(replay_pages) as api:
        listing = read_list(server_at(api.url), kind)
    assert len(listing.objects) == total
    assert len(set(map(str, list_names(listing)))) >= total - 2  # some pods of two namespaces share a name
    assert len(api.requests) == -(-total // 5)


def test_expired_continue_token_restarts_the_list(server_at: ServerAt) -> None:
    """The server sends the recorded 410, after which the items of the first try do not count."""

    def answer(path: str, query: dict[str, str]) -> Response:
        if "continue" not in query:
            first.append(1)
            return build_page("gone", token="old") if len(first) == 1 else build_page("here", token="new", version="9")
        return get_recorded_error("410-old-rv-token") if query["continue"] == "old" else build_page("too")

    first: list[int] = []
    with serve_api(answer) as api:
        listing = read_list(server_at(api.url), "Pod")
    assert list_names(listing) == ["here", "too"]
    assert listing.resource_version == "9"


def test_list_whose_token_always_expires_is_an_error(server_at: ServerAt) -> None:
    def answer(path: str, query: dict[str, str]) -> Response:
        return get_recorded_error("410-old-rv-token") if "continue" in query else build_page("a", token="old")

    with serve_api(answer) as api, pytest.raises(RefusedError, match="too old"):
        read_list(server_at(api.url), "Pod")
    assert len(api.requests) == 2 * (live_lists.MAX_RESTARTS + 1)


def test_unauthorized_is_a_one_line_error(server_at: ServerAt) -> None:
    with serve_api(lambda *_: get_recorded_error("401-bad-token")) as api, pytest.raises(ClusterError) as error:
        read_list(server_at(api.url), "Pod")
    assert "does not accept these credentials: Unauthorized" in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 3
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("403-nobody-list-pods", 403, 'pods is forbidden: User "nobody" cannot list resource "pods"'),
        ("404-unknown-group", 404, "HTTP 404"),
        ("404-unknown-version", 404, "the server could not find the requested resource"),
        ("406-not-acceptable", 406, "406: Not Acceptable Available representations"),
        ("400-bad-continue", 400, "invalid continue token"),
    ],
)
def test_recorded_errors(name: str, code: int, words: str, server_at: ServerAt) -> None:
    with serve_api(lambda *_: get_recorded_error(name)) as api, pytest.raises(RefusedError, match=words) as error:
        read_list(server_at(api.url), "Pod")
    assert error.value.code == code


def test_second_version_is_read_if_the_first_is_not_served(server_at: ServerAt) -> None:
    old = "/apis/resource.k8s.io/v1beta2/deviceclasses"
    with serve_api(answer_path(old, build_page("gpu", kind="DeviceClass"))) as api:
        listing = read_list(server_at(api.url), "DeviceClass")
    assert listing.path == old
    assert list_names(listing) == ["gpu"]


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_transient_errors_are_retried(code: int, server_at: ServerAt) -> None:
    fault = build_status(code, "busy")
    with serve_api(answer_path(PODS, fault, fault, build_page("web"))) as api:
        assert list_names(read_list(server_at(api.url), "Pod")) == ["web"]
    assert pytest.approx([0.2, 0.4]) == WAITED


def test_retry_after_is_respected_up_to_a_limit(server_at: ServerAt) -> None:
    faults = [build_status(429, "slow down", headers={"Retry-After": after}) for after in ("3", "86400")]
    with serve_api(answer_path(PODS, *faults, get_recorded_error("504-future-rv"), build_page("web"))) as api:
        assert list_names(read_list(server_at(api.url, seconds=60), "Pod")) == ["web"]
    assert WAITED == [3.0, live_http.LONGEST_WAIT, 1.0]


def test_retries_are_limited(server_at: ServerAt) -> None:
    with (
        serve_api(answer_path(PODS, build_status(503, "down for good"))) as api,
        pytest.raises(ClusterError, match="503: down for"),
    ):
        read_list(server_at(api.url), "Pod")
    assert len(api.requests) == live_http.TRIES


FAULTS: dict[str, Response] = {
    "cut": Response(body=b"x" * 100, cut=60),
    "cut in a chunk": Response(chunks=(b'{"kind":"PodList","metadata":{"resource',), cut=1),
    "no end of the JSON": Response(body=build_page("lost").body[:-2]),
    "not JSON": Response(body=b"<html>log in first</html>"),
    "another kind": build_page("lost", kind="Node"),
    "empty": Response(body=b""),
}


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_names_with_a_slash_are_rejected(kind: str, server_at: ServerAt) -> None:
    """No API server has such names, and a/b/c would be ambiguous."""
    answers = answer_path(next(iter_list_paths(kind)), build_page("b/c", kind=kind))
    with serve_api(answers) as api, pytest.raises(ClusterError, match='the name "b/c" contains "/"'):
        read_list(server_at(api.url), kind)


@pytest.mark.parametrize("fault", FAULTS)
def test_invalid_response_is_requested_again(fault: str, server_at: ServerAt) -> None:
    with serve_api(answer_path(PODS, FAULTS[fault], build_page("web"))) as api:
        assert list_names(read_list(server_at(api.url), "Pod")) == ["web"]
    with serve_api(answer_path(PODS, FAULTS[fault])) as api, pytest.raises(ClusterError):
        read_list(server_at(api.url), "Pod")
    assert len(api.requests) == live_http.TRIES


def test_truncated_page_is_discarded(server_at: ServerAt) -> None:
    def answer(path: str, query: dict[str, str]) -> Response:
        return FAULTS["no end of the JSON"] if "continue" in query else build_page("web", token="more")

    with serve_api(answer) as api, pytest.raises(ClusterError, match="unexpected response"):
        read_list(server_at(api.url), "Pod")


def test_server_lost_during_a_list(server_at: ServerAt) -> None:
    gone: list[Any] = []

    def answer(path: str, query: dict[str, str]) -> Response:
        gone.append(query)
        return (
            build_page("web", token="more")
            if len(gone) == 1
            else Response(body=b"x", cut=1, headers={"Connection": "close"})
        )

    with serve_api(answer) as api, pytest.raises(ClusterError) as error:
        read_list(server_at(api.url), "Pod")
    assert str(error.value).startswith(api.url)


def test_slow_body_is_bounded_by_the_timeout(server_at: ServerAt) -> None:
    slow = Response(chunks=tuple(b"{" * 1 for _ in range(100)), pause=0.05)
    with (
        serve_api(answer_path(PODS, slow)) as api,
        pytest.raises(ClusterError, match=r"no complete response within 0\.3 s"),
    ):
        read_list(server_at(api.url, seconds=0.3), "Pod")


def test_broken_connection_is_not_reused(server_at: ServerAt) -> None:
    """The body has the announced length, so it looks complete, but the server closes the connection a little later."""
    start = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"
    broken = answer_path(PODS, Response(raw=[start + b"{" * 9], pause=0.2))
    with serve_api(broken) as api, pytest.raises(ClusterError, match="connection lost"):
        read_list(server_at(api.url), "Pod")
    assert len(api.requests) == live_http.TRIES


def test_silent_server_is_bounded_by_the_timeout(server_at: ServerAt) -> None:
    silent = answer_path(PODS, Response(hang=600))
    with serve_api(silent) as api, pytest.raises(ClusterError, match=r"no complete response within 0\.2 s"):
        read_list(server_at(api.url, seconds=0.2), "Pod")


def test_refused_connection_is_an_error(server_at: ServerAt) -> None:
    with serve_api() as api:
        pass
    with pytest.raises(ClusterError, match=r"cannot be reached: .*[Rr]efused"):
        read_list(server_at(api.url), "Pod")
    assert WAITED == []


def test_redirects_are_not_followed(server_at: ServerAt) -> None:
    answer = Response(302, headers={"Location": "http://elsewhere.example.com/"})
    with serve_api(lambda *_: answer) as api, pytest.raises(ClusterError, match="redirects"):
        read_list(server_at(api.url), "Pod")


def test_nulls_are_absent_fields(server_at: ServerAt) -> None:
    """The API server prints ``drivers: null`` for nodes without CSI."""
    item = {"metadata": {"name": "n1", "labels": None, "creationTimestamp": None}, "spec": {"drivers": None}}
    body = json.dumps({"kind": "CSINodeList", "metadata": {"resourceVersion": "1"}, "items": [item]}).encode()
    nothing = json.dumps({"kind": "CSIDriverList", "metadata": {"resourceVersion": "1"}, "items": None}).encode()
    answers = [
        answer_path(f"/apis/storage.k8s.io/v1/{name}", Response(body=b))
        for name, b in (("csinodes", body), ("csidrivers", nothing))
    ]
    with serve_api(*answers) as api:
        assert list_names(read_list(server_at(api.url), "CSINode")) == ["n1"]
        assert read_list(server_at(api.url), "CSIDriver").objects == ()


def test_responses_other_than_lists_are_errors(server_at: ServerAt) -> None:
    body = b'{"kind":"NodeList","metadata":{},"items":[{"spec":{"taints":"none"}}]}'
    with (
        serve_api(lambda *_: Response(body=body)) as api,
        pytest.raises(ClusterError, match=r"Expected `array`.*taints"),
    ):
        read_list(server_at(api.url), "Node")


def test_annotations_and_managed_fields_are_dropped(server_at: ServerAt) -> None:
    with serve_api(replay_response) as api:
        nodes = read_list(server_at(api.url), "Node").objects
    assert all(not node.metadata.annotations for node in nodes)  # type: ignore[attr-defined]


def test_page_size_shrinks_if_pages_are_too_large(server_at: ServerAt, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 200 of the 600 nodes of 1 kB each fit into a response, so pages of 50 are requested."""
    monkeypatch.setattr(live_http, "MAX_BYTES", 200_000)
    items = [{"metadata": {"name": f"n{number:03}", "labels": {"x": "y" * 960}}} for number in range(600)]

    def answer(path: str, query: dict[str, str]) -> Response:
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        token = str(start + limit) if start + limit < len(items) else ""
        metadata = {"resourceVersion": "1", "continue": token}
        found = {"kind": "NodeList", "metadata": metadata, "items": items[start : start + limit]}
        return Response(body=json.dumps(found).encode())

    with serve_api(answer) as api:
        listing = read_list(server_at(api.url), "Node")
    assert list_names(listing) == [item["metadata"]["name"] for item in items]  # type: ignore[index]


def test_failed_list_cancels_the_others(server_at: ServerAt) -> None:
    """Lists that are still being read are abandoned."""
    with serve_api(answer_path(PODS, Response(hang=600))) as api, ThreadPoolExecutor(1) as threads:
        server = server_at(api.url)
        reading = threads.submit(read_list, server, "Pod")
        while not server.limits:
            time.sleep(0.01)
        time.sleep(0.3)
        server.close()
        with pytest.raises(ClusterError):
            reading.result()


@pytest.mark.parametrize("namespace", ["../nodes", "a/b", "..", "%2e%2e", "a?b"])
def test_namespace_cannot_change_the_path(namespace: str) -> None:
    if namespace == "a?b":
        assert list(iter_list_paths("Pod", namespace)) == ["/api/v1/namespaces/a%3Fb/pods"]
    else:
        with pytest.raises(InputError, match="is not an object name"):
            list(iter_list_paths("Pod", namespace))


def test_client_does_not_request_managed_fields(server_at: ServerAt) -> None:
    """The client asks every server for JSON without managed fields. Older servers ignore the parameter."""
    with serve_api(replay_response) as api:
        read_list(server_at(api.url), "Node")
    assert api.header("accept") == ["application/json;drop=metadata.managedFields"]


def test_dropped_managed_fields_change_no_answer(server_at: ServerAt) -> None:
    """The second server omits managed fields, as requested, like one of version 1.38."""

    def dropping(path: str, query: dict[str, str]) -> Response:
        response = replay_response(path, query)
        document = json.loads(response.body)
        for item in document.get("items") or ():
            assert item["metadata"].pop("managedFields")
        return replace(response, body=json.dumps(document).encode())

    with serve_api(replay_response) as api, serve_api(dropping) as newer:
        whole, less = read_list(server_at(api.url), "Pod"), read_list(server_at(newer.url), "Pod")
    assert list(whole.objects) == list(less.objects)
