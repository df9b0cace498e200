"""A live cluster kept current: events, bookmarks, watches that break off or come too late."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from api_server import Answer, ApiServer, Response, for_path, recorded_error, replayed, serving, status
from live_fixtures import fixture_server_at, nobody  # noqa: F401 - fixtures

from kschedctl.cluster import Cluster
from kschedctl.errors import ClusterError
from kschedctl.sources import live_follow, live_kind
from kschedctl.sources.live import Connection
from kschedctl.sources.live_follow import Follower
from kschedctl.sources.live_http import Server
from kschedctl.sources.live_reading import read_live

ServerAt = Callable[..., Server]
PODS = "/api/v1/pods"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_kind, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(live_kind, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(live_kind, "POLL_SECONDS", 0.01)


@pytest.fixture(name="said")
def fixture_said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the user is told."""
    said: list[str] = []
    for module in (live_follow, live_kind):
        monkeypatch.setattr(module.log, "warning", lambda words, *values: said.append(words % values))
    return said


def event(kind: str, name: str, version: int, **spec: Any) -> bytes:
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "lab", "resourceVersion": str(version)}, "spec": spec}
    return json.dumps({"type": kind, "object": pod}).encode() + b"\n"


class Watches:
    """Answers to the watches of pods, one after the other, the last for good; other watches say nothing for long."""

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


def following(server_at: ServerAt, watches: Watches, *answers: Answer) -> Iterator[tuple[ApiServer, Iterator[Cluster]]]:
    with serving(*answers, watches, replayed) as api:
        connection = Connection(server_at(api.url), "here", "lab")
        with closing(Follower(connection.server, read_live(connection), settle=0.2).clusters()) as clusters:
            try:
                yield api, clusters
            finally:
                watches.done.set()


def names(cluster: Cluster) -> set[str]:
    return {pod.metadata.name for pod in cluster.pods}


def test_events_are_taken_in_and_a_watch_is_taken_up_again(server_at: ServerAt) -> None:
    first = Response(chunks=(event("ADDED", "new", 1500), event("MODIFIED", "p01-cpu", 1501, nodeName="w1")))
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"1600"}}}\n'
    second = Response(chunks=(event("DELETED", "new", 1502), bookmark, event("ADDED", "half", 1503)[:20]), cut=1)
    watches = Watches(first, second, Response(chunks=(event("ADDED", "last", 1601),)))
    for _, clusters in following(server_at, watches):
        start = next(clusters)
        assert "new" not in names(start)
        while "last" not in names(latest := next(clusters)):
            pass
        assert names(latest) == names(start) | {"last"}
        bound = latest.pod("lab", "p01-cpu")
        assert bound is not None
        assert bound.spec.node_name == "w1"
    assert watches.versions[:3] == ["1429", "1501", "1600"]


@pytest.mark.parametrize(
    "late",
    [
        Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',)),
        recorded_error("410-exact-old-rv"),
    ],
)
def test_a_watch_that_comes_too_late_lists_again(late: Response, server_at: ServerAt) -> None:
    again = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "2000"}, "items": []}).encode()
    watches = Watches(late, Response(chunks=(event("ADDED", "only", 2001),)))

    def relist(path: str, query: dict[str, str]) -> Response | None:
        return Response(body=again) if path == PODS and "watch" not in query and watches.versions else None

    for _, clusters in following(server_at, watches, relist):
        assert len(names(next(clusters))) > 50
        while (latest := names(next(clusters))) != {"only"}:
            assert latest == set()
    assert watches.versions[:2] == ["1429", "2000"]


def test_a_list_that_is_refused_for_a_moment_is_asked_for_again(server_at: ServerAt) -> None:
    """An API server that starts anew forbids what it grants a little later."""
    watches = Watches(recorded_error("410-exact-old-rv"), Response(chunks=(event("ADDED", "only", 2001),)))
    again = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "2000"}, "items": []}).encode()
    starting = [status(403, "not yet"), status(401, "not yet"), status(403, "not yet")]
    relist = for_path(PODS, *starting, Response(body=again))

    def after_the_watch(path: str, query: dict[str, str]) -> Response | None:
        return relist(path, query) if watches.versions else None

    for _, clusters in following(server_at, watches, after_the_watch):
        next(clusters)
        while names(next(clusters)) != {"only"}:
            pass


PASSING = {
    "403": status(403, "cannot watch"),
    "401": status(401, "Unauthorized"),
    "404": status(404, "not found"),
    "500": status(500, "etcdserver: no leader"),
    "500 in the stream": Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',)),
    "no code in the stream": Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status"}}\n',)),
    "cut": Response(chunks=(b"{",), cut=1),
    "garbage": Response(chunks=(b"\x00\n",)),
}


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_not_taken_for_good(fault: str, server_at: ServerAt, said: list[str]) -> None:
    """The watch is taken up again at the version that it had: nothing is listed, nothing need be said."""
    watches = Watches(*[PASSING[fault]] * 3, Response(chunks=(event("ADDED", "new", 1500),)))
    for api, clusters in following(server_at, watches):
        next(clusters)
        listed = api.paths().count(PODS)
        assert "new" in names(next(clusters))
        assert api.paths().count(PODS) == listed
    assert watches.versions[:4] == ["1429"] * 4
    assert said == []


@pytest.mark.parametrize("fault", PASSING)
def test_what_cannot_be_watched_for_long_is_listed_now_and_then(
    fault: str, server_at: ServerAt, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(live_kind, "STARTING_SECONDS", 0.05)
    monkeypatch.setattr(live_kind, "WORTH_TELLING", 999)
    monkeypatch.setattr(live_follow, "LONGEST_SETTLE", 0.1)
    watches = Watches(*[PASSING[fault]] * 99)
    for api, clusters in following(server_at, watches):
        for _ in range(4):
            next(clusters)
        assert api.paths().count(PODS) >= 4
    (words,) = said
    assert words.startswith("warning: pods cannot be watched (")
    assert words.endswith("): listed every 0.01 s")


def test_a_server_that_does_not_come_back_ends_it(
    server_at: ServerAt, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(live_kind, "STARTING_SECONDS", 0.1)
    monkeypatch.setattr(live_kind, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(live_kind, "WORTH_TELLING", 1)
    watches = Watches()
    for api, clusters in following(server_at, watches):
        next(clusters)
        api.answers.insert(0, lambda *_: status(503, "down for good"))
        watches.done.set()
        with pytest.raises(ClusterError, match="the API server answers 503: down for good"):
            next(clusters)
        (words,) = said
        assert words.startswith(f"warning: {api.url}: the API server answers 503: down for good: answers are of ")


def test_a_server_that_is_back_is_told_of_too(server_at: ServerAt, said: list[str]) -> None:
    watches = Watches(*[status(503, "starting")] * 4, Response(chunks=(event("ADDED", "new", 1500),)))
    for api, clusters in following(server_at, watches):
        next(clusters)
        assert "new" in names(next(clusters))
        assert said[0].startswith(f"warning: {api.url}: the API server answers 503: starting: answers are of ")
        assert said[1:] == [f"note: {api.url} is back"]


def test_a_flood_of_events_is_taken_in_as_it_can_be(server_at: ServerAt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_follow, "LONGEST_SETTLE", 0.2)
    flood = [event("ADDED", f"flood-{number}", 1500 + number) for number in range(50)]
    monkeypatch.setattr(live_follow, "MOST_UPDATES", 9)
    for _, clusters in following(server_at, Watches(Response(chunks=itertools.cycle(flood)))):
        start = time.monotonic()
        next(clusters)
        next(clusters)
        assert "flood-49" in names(next(clusters))
    assert time.monotonic() - start < 5


def test_when_it_ends_no_watch_goes_on(server_at: ServerAt) -> None:
    before = threading.active_count()
    for _, clusters in following(server_at, Watches(Response(chunks=(event("ADDED", "new", 1500),)))):
        next(clusters)
        next(clusters)
        assert threading.active_count() > before + 10
    end = time.monotonic() + 3
    while any(thread.name.startswith("watch-") for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.02)
