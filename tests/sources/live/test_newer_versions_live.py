"""Check a server that serves some kinds only in newer API versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from api_server import Answer, Response, answer_lists, answer_path, build_status, serve_api
from live_fixtures import fixture_server_at, nobody  # noqa: F401 - fixtures

from kschedctl.api.kinds import KINDS
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.http import RefusedError, Server
from kschedctl.sources.live.lists import LeftOutError, catch_up_with_changes, read_list
from kschedctl.sources.live.reading import ReadingOptions, read_live_cluster

ServerAt = Callable[..., Server]
GROUP, PATH = "/apis/scheduling.k8s.io", "/apis/scheduling.k8s.io/v1beta2/podgroups"


def answer_versions(*names: str) -> Answer:
    found = [{"groupVersion": f"scheduling.k8s.io/{name}", "version": name} for name in names]
    return answer_path(GROUP, Response(body=json.dumps({"kind": "APIGroup", "versions": found}).encode()))


def answer_groups(**spec: Any) -> Answer:
    item = {"metadata": {"name": "x", "namespace": "a", "managedFields": []}, "spec": spec}
    document = {"kind": "PodGroupList", "metadata": {"resourceVersion": "7"}, "items": [item]}
    return answer_path(PATH, Response(body=json.dumps(document).encode()))


def test_newer_version_with_known_fields_is_read(server_at: ServerAt) -> None:
    gang = {"gang": {"minCount": 3}}
    with serve_api(answer_versions("v1", "v1beta2", "v1alpha1"), answer_groups(schedulingPolicy=gang)) as api:
        found = read_list(server_at(api.url), "PodGroup")
    assert [group.spec.scheduling_policy.gang.min_count for group in found.objects] == [3]  # type: ignore[attr-defined]
    assert api.paths()[3:] == [GROUP, PATH]  # after those that are known, the nearest first


def test_unknown_field_leaves_the_kind_out(server_at: ServerAt) -> None:
    with serve_api(answer_versions("v1beta2"), answer_groups(novelty=1)) as api, pytest.raises(LeftOutError) as raised:
        read_list(server_at(api.url), "PodGroup")
    assert "scheduling.k8s.io/v1beta2, which is newer" in raised.value.what
    assert "(spec.novelty is not known)" in raised.value.what


@pytest.mark.parametrize(
    "group", [answer_versions("v1alpha1"), answer_path(GROUP, build_status(403, "no")), answer_versions()]
)
def test_kind_without_any_version_is_absent(group: Answer, server_at: ServerAt) -> None:
    with serve_api(group) as api, pytest.raises(RefusedError) as raised:
        read_list(server_at(api.url), "PodGroup")
    assert raised.value.code == 404


def test_events_are_checked_for_unknown_fields(server_at: ServerAt) -> None:
    """An event with an unknown field ends the watch."""
    novel = {"metadata": {"name": "y", "namespace": "a", "resourceVersion": "8"}, "spec": {"novelty": 1}}
    event = json.dumps({"type": "ADDED", "object": novel}).encode() + b"\n"
    watched = answer_path(PATH, Response(chunks=(event,)), watch=True)
    with serve_api(answer_versions("v1beta2"), answer_groups(), watched) as api:
        server = server_at(api.url)
        found = read_list(server, "PodGroup")
        with pytest.raises(LeftOutError):
            catch_up_with_changes(server, "PodGroup", found)


def test_field_of_another_type_leaves_the_kind_out(server_at: ServerAt) -> None:
    with (
        serve_api(answer_versions("v1beta2"), answer_groups(priorityClassName=3)) as api,
        pytest.raises(LeftOutError, match="Expected str, got int"),
    ):
        read_list(server_at(api.url), "PodGroup")


@pytest.mark.parametrize(("spec", "gap", "warned"), [({}, "", True), ({"novelty": 1}, "spec.novelty", False)])
def test_cluster_reports_the_newer_version(spec: dict[str, Any], gap: str, warned: bool, server_at: ServerAt) -> None:
    paths = (f"/apis/{version}/podgroups" for version in KINDS["PodGroup"].versions)
    lacking = [answer_path(path, build_status(404, "not found")) for path in paths]
    with serve_api(*lacking, answer_versions("v1beta2"), answer_groups(**spec), answer_lists([])) as api:
        connection = Connection(server_at(api.url), "here", "lab")
        cluster = read_live_cluster(connection, ReadingOptions(also=("PodGroup",), kube_version="1.36")).build_cluster()
    found = cluster.gaps.get("PodGroup")
    assert (gap in found.why) if found else not gap
    assert [group.metadata.name for group in cluster.pod_groups] == ["x"] * warned
    assert any("PodGroup in apiVersion scheduling.k8s.io/v1beta2" in each for each in cluster.warnings) is warned
