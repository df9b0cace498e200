"""Check that fields of newer API versions are reported once, in files and lists of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import Response, serve_api
from golden_cases import FAMILIES, iter_family_lines
from live_fixtures import fixture_server_at  # noqa: F401 - a fixture
from test_lists import ServerAt

from kschedctl.api.json_values import drop_nulls
from kschedctl.api.versions_read import iter_unread_relevant_paths
from kschedctl.sources.documents.documents import SMALL
from kschedctl.sources.live.lists import read_list
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS
from kschedctl.sources.read import read_paths

Json = dict[str, Any]
TOLD = "which this version of kschedctl does not know (reported once)"


def build_group(name: str, **spec: object) -> Json:
    policy = {"schedulingPolicy": {"basic": {}}}
    metadata = {"name": name, "namespace": "a"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": policy | spec}


def build_pod(name: str, **spec: object) -> Json:
    metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}


GROUPS = [build_group("g1"), build_group("g2", shiny=[{"at": 1}]), build_group("g3", shiny=[])]


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_objects_have_only_known_fields(family: str) -> None:
    """Structs of these kinds have every field of real objects, so that only new fields are reported as unknown."""
    for case in map(json.loads, iter_family_lines(family)):
        for document in case["objects"]:
            if document["kind"] in FULLY_KNOWN_KINDS:
                assert list(iter_unread_relevant_paths(document["kind"], drop_nulls(document))) == []


@pytest.mark.parametrize("form", ["documents", "list", "typed list"])
def test_unknown_field_of_a_group_is_reported_once(tmp_path: Path, form: str) -> None:
    file = tmp_path / "groups"
    if form == "documents":
        file = file.with_suffix(".yaml")
        file.write_text(yaml.safe_dump_all(GROUPS))
    else:
        kind = "List" if form == "list" else "PodGroupList"
        version = "v1" if form == "list" else "scheduling.k8s.io/v1beta1"
        file = file.with_suffix(".json")
        file.write_text(json.dumps({"apiVersion": version, "kind": kind, "items": GROUPS}))
    (warning,) = read_paths([str(file)]).warnings
    assert warning.endswith(f'unknown field "spec.shiny" of a PodGroup, {TOLD}')


def test_unknown_field_of_a_list_is_reported_once(server_at: ServerAt) -> None:
    pods = [build_pod("p1"), build_pod("p2", shiny=True), build_pod("p3", shiny=False)]
    items = {"Pod": pods, "PodGroup": GROUPS}

    def answer(path: str, query: dict[str, str]) -> Response:
        kind = "Pod" if path.endswith("/pods") else "PodGroup"
        body = {"kind": f"{kind}List", "metadata": {"resourceVersion": "7"}, "items": items[kind]}
        return Response(body=json.dumps(body).encode())

    with serve_api(answer) as api:
        server = server_at(api.url)
        assert read_list(server, "Pod").warnings == (f'Pod a/p2: unknown field "spec.shiny", {TOLD}',)
        assert read_list(server, "PodGroup").warnings == (
            f'PodGroup a/g2: unknown field "spec.shiny" of a PodGroup, {TOLD}',
        )


@pytest.mark.parametrize("kind", ["ReplicaSet", "Workflow", "Node"])
def test_one_pod_per_template_is_checked(tmp_path: Path, kind: str) -> None:
    owner = {"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    pods = [build_pod("p1"), build_pod("p2", shiny=True)]
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner]
    told = [f'unknown field "spec.shiny", {TOLD}'] if kind != "ReplicaSet" else []
    assert [
        warning.partition("items[1]: ")[2] for warning in read_paths([write_long_list(tmp_path, pods)]).warnings
    ] == told


def test_flags_are_found_in_all_static_pods(tmp_path: Path) -> None:
    """All static pods of a node have the same owner, their Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
    pods = [build_pod("etcd-n"), build_pod("kube-apiserver-n")]
    pods[1]["metadata"]["namespace"] = "kube-system"
    command = ["kube-apiserver", "--enable-admission-plugins=PodNodeSelector"]
    pods[1]["spec"]["containers"] = [{"name": "kube-apiserver", "command": command}]
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner]
    assert read_paths([write_long_list(tmp_path, pods)]).api_server is not None


def write_long_list(folder: Path, pods: list[Json]) -> str:
    """Write a file that is large enough to be read in pieces."""
    file = folder / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}) + " " * SMALL)
    return str(file)
