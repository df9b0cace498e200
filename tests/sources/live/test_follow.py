"""Check that a followed cluster stays current: events, bookmarks, and interrupted or late watches."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from api_server import Answer, ApiServer, Response, build_status, get_recorded_error, replay_response, serve_api
from live_fixtures import fixture_server_at, nobody  # noqa: F401 - fixtures

from kschedctl.cluster import Cluster
from kschedctl.errors import ClusterError
from kschedctl.sources.live import follow as live_follow
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.follow import Follower
from kschedctl.sources.live.http import Server
from kschedctl.sources.live.reading import read_live_cluster

ServerAt = Callable[..., Server]
PODS = "/api/v1/pods"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_follow, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(live_follow, "MAX_WAIT", 0.02)
    monkeypatch.setattr(live_follow, "POLL_SECONDS", 0.01)


def build_event(kind: str, name: str, version: int, **spec: Any) -> bytes:
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "lab", "resourceVersion": str(version)}, "spec": spec}
    return json.dumps({"type": kind, "object": pod}).encode() + b"\n"


class Watches:
    """An answer to the watches of pods: each response once, then the last one forever. Other watches stay silent."""

    def __init__(self, *responses: Response) -> None:
        self.left = list(responses)
        self.versions: list[str] = []
        self.done = threading.Event()

    def __call__(self, path: str, query: dict[str, str]) -> Response | None:
        if "watch" not in query:
            return None
        if path != PODS or not self.left:
            self.done.wait(10)
            return Response(chunks=())
        self.versions.append(query["resourceVersion"])
        return self.left.pop(0)


def follow_server(
    server_at: ServerAt, watches: Watches, *answers: Answer
) -> Iterator[tuple[ApiServer, Iterator[Cluster]]]:
    with serve_api(*answers, watches, replay_response) as api:
        connection = Connection(server_at(api.url), "here", "lab")
        with closing(
            Follower(connection.server, read_live_cluster(connection), settle=0.2).iter_clusters()
        ) as clusters:
            try:
                yield api, clusters
            finally:
                watches.done.set()


def list_names(cluster: Cluster) -> set[str]:
    return {pod.metadata.name for pod in cluster.pods}


def test_events_are_applied_and_watches_resumed(server_at: ServerAt) -> None:
    first = Response(
        chunks=(build_event("ADDED", "new", 1500), build_event("MODIFIED", "p01-cpu", 1501, nodeName="w1"))
    )
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"1600"}}}\n'
    second = Response(
        chunks=(build_event("DELETED", "new", 1502), bookmark, build_event("ADDED", "half", 1503)[:20]), cut=1
    )
    watches = Watches(first, second, Response(chunks=(build_event("ADDED", "last", 1601),)))
    for _, clusters in follow_server(server_at, watches):
        start = next(clusters)
        assert "new" not in list_names(start)
        while "last" not in list_names(latest := next(clusters)):
            pass
        assert list_names(latest) == list_names(start) | {"last"}
        bound = latest.pod("lab", "p01-cpu")
        assert bound is not None
        assert bound.spec.node_name == "w1"
    assert watches.versions[:3] == ["1429", "1501", "1600"]


@pytest.mark.parametrize(
    "late",
    [
        Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',)),
        get_recorded_error("410-exact-old-rv"),
    ],
)
def test_expired_watch_lists_again(late: Response, server_at: ServerAt) -> None:
    again = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "2000"}, "items": []}).encode()
    watches = Watches(late, Response(chunks=(build_event("ADDED", "only", 2001),)))

    def relist(path: str, query: dict[str, str]) -> Response | None:
        return Response(body=again) if path == PODS and "watch" not in query and watches.versions else None

    for _, clusters in follow_server(server_at, watches, relist):
        assert len(list_names(next(clusters))) > 50
        while (latest := list_names(next(clusters))) != {"only"}:
            assert latest == set()
    assert watches.versions[:2] == ["1429", "2000"]


class Waits(threading.Event):
    """An Event whose wait() returns at once and records the timeout. The fourth wait is the last."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        if len(self.seconds) == 4:
            self.set()
        return self.is_set()


def test_expired_watches_back_off(server_at: ServerAt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_follow, "MAX_WAIT", 0.05)
    late = Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',))
    watches = Watches(*[late] * 20)
    with serve_api(watches, replay_response) as api:
        connection = Connection(server_at(api.url), "here", "lab")
        reading = read_live_cluster(connection)
        waits = Waits()
        Follower(connection.server, reading, stopped=waits)._watch_kind("Pod", reading.listings["Pod"])
    assert waits.seconds == [0.02, 0.04, 0.05, 0.05]
    assert len(watches.versions) == 5


def test_kind_that_cannot_be_watched_is_polled(server_at: ServerAt) -> None:
    watches = Watches(*[build_status(403, "cannot watch")] * 3)
    for api, clusters in follow_server(server_at, watches):
        next(clusters)
        next(clusters)
        assert api.paths().count(PODS) >= 2


def test_lost_server_ends_following(server_at: ServerAt) -> None:
    watches = Watches(*[Response(chunks=(b"{",), cut=1)] * 20)
    for api, clusters in follow_server(server_at, watches):
        next(clusters)
        with pytest.raises(ClusterError) as error:
            next(clusters)
        assert str(error.value).startswith(api.url)
    assert len(watches.versions) == live_follow.MAX_FAILURES + 1
