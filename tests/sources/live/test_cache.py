"""Check that ``--cache`` keeps what was read, so that the next reading requests only changes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_server import Answer, ApiServer, Response, answer_lists, build_status, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.cluster import FIELDS, Cluster
from kschedctl.sources.live import cache
from kschedctl.sources.live.connection import Access, connect
from kschedctl.sources.live.reading import ReadingOptions, read_live_cluster

Json = dict[str, Any]
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
SYSTEM = "/api/v1/namespaces/kube-system"
KEPT = ReadingOptions(cache=True)


def build_node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}}


def build_pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def answer_system_namespace(uid: str = "one") -> Answer:
    """Answer with the namespace whose UID identifies the cluster."""
    body = json.dumps({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}).encode()
    return lambda path, query: Response(body=body) if path == SYSTEM else None


def answer_watches(events: dict[str, list[Json]]) -> Answer:
    """Answer watches with these events, by path."""

    def answer(path: str, query: dict[str, str]) -> Response | None:
        if "watch" not in query:
            return None
        return Response(chunks=[json.dumps(event).encode() + b"\n" for event in events.get(path, ())])

    return answer


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Cluster, ApiServer]]:
    """Return a function that reads a cluster with these answers. For the cache, all of them have the same address."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def read(*answers: Answer, criteria: ReadingOptions = KEPT) -> tuple[Cluster, ApiServer]:
        with serve_api(*answers) as api:
            connection = connect(Access(kubeconfig=write_kubeconfig(api.url, tmp_path / "config")))
            of, server = cache.ReadingCache.open, connection.server.host
            monkeypatch.setattr(
                cache.ReadingCache, "open", lambda *key: of(*("server" if part == server else part for part in key))
            )
            try:
                return read_live_cluster(connection, criteria).build_cluster(), api
            finally:
                monkeypatch.setattr(cache.ReadingCache, "open", of)

    return read


Read = Callable[..., tuple[Cluster, ApiServer]]
OBJECTS = [build_node("n1"), build_node("n2"), build_pod("web"), build_pod("db", nodeName="n1")]


def build_objects(cluster: Cluster) -> dict[str, list[object]]:
    return {kind: list(getattr(cluster, field)) for kind, field in FIELDS.items()}


def find_kept_file(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "caches" / "kschedctl").iterdir()
    return file


def test_second_reading_only_watches(read: Read) -> None:
    first, before = read(answer_system_namespace(), answer_lists(OBJECTS))
    second, after = read(answer_system_namespace(), answer_lists(OBJECTS))
    assert build_objects(first) == build_objects(second)
    assert first.gaps == second.gaps
    assert {PODS, NODES} <= {*before.paths()}
    assert not {PODS, NODES} & {*after.paths()}
    versions = {target.partition("resourceVersion=")[2][:1] for _, target, _ in after.requests if "watch=1" in target}
    assert versions == {"1"}


def test_changes_since_the_first_reading_are_applied(read: Read) -> None:
    read(answer_system_namespace(), answer_lists(OBJECTS))
    bound = build_pod("web", nodeName="n2")
    bound["metadata"]["resourceVersion"] = "7"
    events = {
        PODS: [{"type": "MODIFIED", "object": bound}, {"type": "DELETED", "object": OBJECTS[3]}],
        NODES: [{"type": "ADDED", "object": build_node("n3")}],
    }
    changed, _ = read(answer_system_namespace(), answer_watches(events), answer_lists(OBJECTS))
    whole, _ = read(
        answer_system_namespace(), answer_lists([*OBJECTS[:2], build_node("n3"), bound]), criteria=ReadingOptions()
    )
    assert build_objects(changed) == build_objects(whole)
    third, after = read(answer_system_namespace(), answer_lists([]))  # the changes were kept, too
    assert build_objects(third) == build_objects(whole)
    assert any(
        f"{PODS}?watch=1&allowWatchBookmarks=true&resourceVersion=7" in target for _, target, _ in after.requests
    )


@pytest.mark.parametrize(
    "fault",
    [
        Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',)),
        build_status(410, "too old resource version"),
        Response(chunks=(b'{"type":"ADDED"',), cut=1),
        build_status(504, "too large resource version"),
    ],
    ids=["gone", "refused", "cut", "not that far yet"],
)
def test_kind_whose_watch_fails_is_listed_again(fault: Response, read: Read) -> None:
    read(answer_system_namespace(), answer_lists(OBJECTS))

    def pods(path: str, query: dict[str, str]) -> Response | None:
        return fault if path == PODS and "watch" in query else None

    again, after = read(answer_system_namespace(), pods, answer_lists([*OBJECTS, build_pod("late")]))
    assert {pod.metadata.name for pod in again.pods} == {"web", "db", "late"}
    assert PODS in after.paths()
    assert NODES not in after.paths()


def test_cache_of_another_cluster_is_not_used(read: Read) -> None:
    read(answer_system_namespace("one"), answer_lists(OBJECTS))
    other, _ = read(answer_system_namespace("another"), answer_lists([build_node("other")]))
    assert [each.metadata.name for each in other.nodes] == ["other"]


def test_nothing_is_cached_without_a_cluster_uid(read: Read, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refused: Answer = lambda path, query: build_status(403, "no") if path == SYSTEM else None  # noqa: E731
    read(refused, answer_lists(OBJECTS))
    assert not (tmp_path / "caches").exists()
    assert "--cache has no effect" in caplog.text


def test_forbidden_kinds_are_requested_again(read: Read) -> None:
    quotas = "/api/v1/persistentvolumes"
    refused: Answer = lambda path, query: build_status(403, "no") if path == quotas else None  # noqa: E731
    first, _ = read(answer_system_namespace(), refused, answer_lists(OBJECTS))
    second, after = read(answer_system_namespace(), answer_lists(OBJECTS))
    assert first.find_gap("PersistentVolume") is not None
    assert second.find_gap("PersistentVolume") is None
    assert quotas in after.paths()


@pytest.mark.parametrize("damage", ["old", "from the future", "cut", "empty", "another version"])
def test_unusable_cache_files_are_ignored(
    damage: str, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(answer_system_namespace(), answer_lists([build_node("stale")]))
    file = find_kept_file(tmp_path)
    now = file.stat().st_mtime
    match damage:
        case "old":
            os.utime(file, (now, now - cache.FRESH_SECONDS - 1))
        case "from the future":
            os.utime(file, (now, now + 99))
        case "cut":
            file.write_bytes(file.read_bytes()[:-30])
        case "empty":
            file.write_bytes(b"")
        case "another version":
            monkeypatch.setattr(cache, "VERSION", "99")
    found, _ = read(answer_system_namespace(), answer_lists(OBJECTS))
    assert [each.metadata.name for each in found.nodes] == ["n1", "n2"]


def test_cache_is_readable_only_by_its_owner(read: Read, tmp_path: Path) -> None:
    read(answer_system_namespace(), answer_lists(OBJECTS))
    file = find_kept_file(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_old_files_are_removed(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "caches" / "kschedctl"
    folder.mkdir(parents=True)
    old = folder / f"old{cache.SUFFIX}"
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    read(answer_system_namespace(), answer_lists(OBJECTS))
    assert not old.exists()


def test_cache_is_not_shared_between_users(read: Read, tmp_path: Path) -> None:
    """A user with fewer rights must not see what another user has read."""
    one, other = (
        connect(Access(kubeconfig=write_kubeconfig("http://127.0.0.1:1", tmp_path / "c"), as_user=name)).user_key
        for name in ("one", "other")
    )
    assert one != other
    assert cache.ReadingCache.open("server", one) != cache.ReadingCache.open("server", other)
