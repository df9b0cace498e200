"""Check that PodGroups of other projects are never taken for Kubernetes' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api_server import Response, answer_path, replay_response, serve_api
from live_fixtures import fixture_server_at, nobody  # noqa: F401 - fixtures

from kschedctl.api.gangs import GangKey, GangProject, find_gangs
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.archive_file import read_archive, write_archive
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.reading import ReadingOptions, read_live_cluster
from kschedctl.sources.read import read_paths

Json = dict[str, Any]
OWN, COSCHEDULING, VOLCANO = (
    "scheduling.k8s.io/v1alpha2",
    "scheduling.x-k8s.io/v1alpha1",
    "scheduling.volcano.sh/v1beta1",
)
SPECS: dict[str, Json] = {
    OWN: {"schedulingPolicy": {"gang": {"minCount": 2}}},
    COSCHEDULING: {"minMember": 3, "minResources": {"cpu": "6"}},
    VOLCANO: {"minMember": 4, "minTaskMember": {"worker": 3}, "queue": "research"},
}
FIELDS = {OWN: "pod_groups", COSCHEDULING: "coscheduling_pod_groups", VOLCANO: "volcano_pod_groups"}


def build_group(version: str, **changes: Any) -> Json:
    meta = {"name": "train", "namespace": "ml"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": SPECS[version], **changes}


def build_pod(name: str, labels: Json | None = None, annotations: Json | None = None) -> Json:
    meta = {"name": name, "namespace": "ml", "uid": name, "labels": labels or {}, "annotations": annotations or {}}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


GROUPS = [build_group(version) for version in SPECS]
PODS = [
    build_pod("a", {"scheduling.x-k8s.io/pod-group": "train"}),
    build_pod(
        "b", annotations={"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": "worker", "other": "x"}
    ),
    build_pod("c", {"kueue.x-k8s.io/pod-group-name": "train"}, {"kueue.x-k8s.io/pod-group-total-count": "5"}),
    build_pod("d"),
]
WANTED = {"a": GangProject.COSCHEDULING, "b": GangProject.VOLCANO, "c": GangProject.KUEUE}
MANY = [build_pod(f"p{number:05d}", annotations={"padding": "x" * 600}) for number in range(400)]
"""A length beyond which lists are read in pieces."""


def build_list(kind: str, version: str, items: list[Json]) -> Json:
    """Build a list of these items."""
    return {"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}


def check(cluster: Cluster) -> None:
    assert {version: len(getattr(cluster, field)) for version, field in FIELDS.items()} == dict.fromkeys(SPECS, 1)
    gang = cluster.pod_groups[0].spec.scheduling_policy.gang
    found = cluster.coscheduling_pod_groups[0].spec, cluster.volcano_pod_groups[0].spec
    assert [gang and gang.min_count, *(spec.min_member for spec in found)] == [2, 3, 4]
    assert (found[0].min_resources, found[1].min_task_member, found[1].queue) == (
        {"cpu": "6"},
        {"worker": 3},
        "research",
    )
    gangs = {each.metadata.name: list(find_gangs(each)) for each in cluster.pods if each.metadata.name in "abcd"}
    assert gangs == {name: [GangKey(WANTED[name], "ml", "train")] if name in WANTED else [] for name in "abcd"}


@pytest.mark.parametrize("padding", [[], MANY])
@pytest.mark.parametrize("as_lists", [True, False])
def test_pod_groups_in_files(tmp_path: Path, as_lists: bool, padding: list[Json]) -> None:
    objects = [*padding, *PODS, *GROUPS]
    typed = [
        build_list("PodList", "v1", [*padding, *PODS]),
        *(build_list("PodGroupList", v, [build_group(v)]) for v in SPECS),
    ]
    for number, document in enumerate(typed if as_lists else [build_list("List", "v1", objects)]):
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    found = read_paths([str(tmp_path)])
    cluster = Cluster.of(found.objects, gaps=found.gaps)
    check(cluster)
    assert not found.skipped
    assert not {"PodGroup", "CoschedulingPodGroup", "VolcanoPodGroup"} & cluster.gaps.keys()


def test_typed_list_items_without_a_kind(tmp_path: Path) -> None:
    bare = {key: value for key, value in build_group(VOLCANO).items() if key not in ("kind", "apiVersion")}
    (tmp_path / "g.json").write_text(json.dumps(build_list("PodGroupList", VOLCANO, [bare])))
    assert list(read_paths([str(tmp_path)]).objects) == ["VolcanoPodGroup"]


def test_pod_groups_in_objects() -> None:
    cluster = Cluster.from_objects([*GROUPS, *PODS], assume_complete=False)
    check(cluster)
    part = Cluster.from_objects([build_list("PodGroupList", VOLCANO, [build_group(VOLCANO)])], assume_complete=False)
    assert part.find_gap("VolcanoPodGroup") is None
    assert part.find_gap("PodGroup") is not None


def test_other_versions_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(build_group(VOLCANO, apiVersion="scheduling.volcano.sh/v1alpha1")))
    found = read_paths([str(tmp_path)])
    assert (dict(found.objects), found.skipped) == ({}, {"PodGroup": 1})


def test_pod_groups_in_snapshots(tmp_path: Path) -> None:
    file = str(tmp_path / "x.ksnap")
    write_archive(Cluster.from_objects([*GROUPS, *PODS]), file)
    check(read_archive(file))


def test_pseudonyms_of_groups_and_references_agree() -> None:
    made = anonymize_cluster(Cluster.from_objects([*GROUPS, *PODS])).cluster
    named = {each.metadata.name for each in (*made.coscheduling_pod_groups, *made.volcano_pod_groups)}
    gangs = [key for each in made.pods for key in find_gangs(each)]
    assert [key.project for key in gangs] == [WANTED[name] for name in "abc"]
    assert {key.name for key in gangs} == named
    assert "train" not in named
    assert {key.namespace for key in gangs} == {made.volcano_pod_groups[0].metadata.namespace}
    tasks = {each.metadata.annotations.task_spec for each in made.pods} - {""}
    assert tasks == made.volcano_pod_groups[0].spec.min_task_member.keys()
    counts = {each.metadata.annotations.pod_group_total_count for each in made.pods}
    assert counts == {"", "5"}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"minMember": 10**30}, "number out of range"),
        ({"minMember": "two"}, "expected int, got str"),
        ({"minResources": {"cpu": "lots"}}, "spec.minResources.cpu"),
    ],
)
def test_bad_input_is_a_one_line_error(tmp_path: Path, spec: Json, error: str) -> None:
    (tmp_path / "g.json").write_text(json.dumps(build_group(COSCHEDULING, spec=spec)))
    with pytest.raises(InputError, match=error.replace(".", r"\.")):
        read_paths([str(tmp_path)])


def test_live_cluster_reads_the_groups_that_pods_name(server_at: Any) -> None:
    paths = {version: f"/apis/{version}/podgroups" for version in (COSCHEDULING, VOLCANO)}

    def lists(pods: list[Json], *answers: Any) -> tuple[Cluster, set[str]]:
        body = json.dumps(build_list("PodList", "v1", pods) | {"metadata": {"resourceVersion": "1429"}}).encode()
        with serve_api(*answers, answer_path("/api/v1/pods", Response(body=body)), replay_response) as api:
            cluster = read_live_cluster(Connection(server_at(api.url), "here", "ml"), ReadingOptions()).build_cluster()
            return cluster, {path for path in api.paths() if path.endswith("podgroups")}

    document = build_list("PodGroupList", COSCHEDULING, [build_group(COSCHEDULING)]) | {
        "metadata": {"resourceVersion": "1429"}
    }
    served = answer_path(paths[COSCHEDULING], Response(body=json.dumps(document).encode()))
    assert lists(PODS[3:])[1] == set()
    found, asked = lists(PODS[:2], served)
    assert asked == set(paths.values())
    assert [each.spec.min_member for each in found.coscheduling_pod_groups] == [3]
    assert found.find_gap("VolcanoPodGroup") is None  # not installed, so there is none
