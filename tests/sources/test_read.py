"""Check that every form of input gives the same cluster."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import kschedctl
from kschedctl.api.objects import PodMeta, PodSpec, PodStatus
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.snapshot.fork import Fork
from kschedctl.sources import json_lists
from kschedctl.sources import read as reading
from kschedctl.sources.collector import Collector
from kschedctl.sources.documents import documents
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.place import Place
from kschedctl.sources.json_lists import ListReader, match_list_head
from kschedctl.sources.read import ReadResult, load_configuration_file, read_paths

UID = "00000000-0000-0000-0000-000000000001"
TIME = "2026-01-02T03:04:05Z"


def build_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": UID, "labels": {"app": "web", "on": name}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}], **spec},
    }


def build_node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "2"}, "images": [{"names": ["web:1"], "sizeBytes": 5}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": UID}}
KNATIVE = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "web"}}
OBJECTS = [build_pod("a", nodeName="n1"), build_pod("b"), build_node("n1"), build_node("n2"), DEPLOYMENT, KNATIVE]
LIST = {"apiVersion": "v1", "kind": "List", "items": OBJECTS, "metadata": {"resourceVersion": ""}}


def build_cluster(result: ReadResult) -> Cluster:
    return Cluster.of(result.objects)


def have_equal_columns(left: Cluster, right: Cluster) -> bool:
    """Return whether all columns of two tables are equal."""
    return all(tuple(getattr(left, field)) == tuple(getattr(right, field)) for field in FIELDS.values())


def encode_documents(*documents: Any) -> io.BytesIO:
    return io.BytesIO(b"\n".join(json.dumps(document).encode() for document in documents))


FORMS = {
    "list.json": json.dumps(LIST),
    "indented.json": json.dumps(LIST, indent=4),
    "documents.json": "\n".join(map(json.dumps, OBJECTS)),
    "list.yaml": yaml.safe_dump(LIST),
    "documents.yaml": yaml.safe_dump_all(OBJECTS),
    "bom.yaml": "\ufeff" + yaml.safe_dump_all(OBJECTS),
    "json.yaml": "---\n" + "\n---\n".join(json.dumps(o, indent=2) for o in OBJECTS),
    "flow.yaml": "{kind: List, items: " + json.dumps(OBJECTS) + "}",
    "lists.json": json.dumps({"kind": "List", "items": [LIST, {"kind": "PodList", "items": None}]}),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_all_forms_give_the_same_cluster(name: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(FORMS[name].encode()) if packed else FORMS[name].encode())
    expected = Cluster.from_objects(OBJECTS[:5])
    for result in (read_paths([str(path)]), read_paths(["-"], stdin=io.BytesIO(path.read_bytes()))):
        assert have_equal_columns(build_cluster(result), expected)
        assert result.skipped == {"Service": 1}


def test_items_of_a_typed_list_need_no_kind() -> None:
    items = [{k: v for k, v in build_node(n).items() if k not in ("kind", "apiVersion")} for n in "ab"]
    result = read_paths(["-"], stdin=encode_documents({"kind": "NodeList", "apiVersion": "v1", "items": items}))
    assert have_equal_columns(build_cluster(result), Cluster.from_objects([build_node("a"), build_node("b")]))


def test_later_files_add_and_replace(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps(build_pod("a")) + json.dumps(build_pod("b")))
    (tmp_path / "2.yml").write_text(
        yaml.safe_dump_all([build_node("n1"), build_pod("b", nodeName="n1"), build_pod("c")])
    )
    result = read_paths([str(tmp_path)])
    cluster = build_cluster(result)
    assert [(p.metadata.name, p.spec.node_name) for p in cluster.pods] == [("a", ""), ("b", "n1"), ("c", "")]
    assert result.origins["Pod", "shop", "a"] == str(tmp_path / "1.json")
    assert result.origins["Pod", "shop", "b"] == f"{tmp_path / '2.yml'}, document 2"
    assert result.origins["Node", "", "n1"] == str(tmp_path / "2.yml")


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.json").write_text(json.dumps(build_node("a")))
    (tmp_path / "values.yaml").write_text("replicas: 1")
    (tmp_path / "logs.txt").write_text("started")
    (tmp_path / "deep" / "b.yaml.gz").write_bytes(gzip.compress(json.dumps(build_node("b")).encode()))
    flat, deep = read_paths([str(tmp_path)]), read_paths([str(tmp_path)], recursive=True)
    assert [len(result.objects["Node"]) for result in (flat, deep)] == [1, 2]
    assert (flat.skipped_files, deep.skipped_files) == (1, 1)
    assert flat.warnings == (f"{tmp_path / 'values.yaml'}: ignored, since it contains no Kubernetes objects",)


def test_cluster_info_dump(tmp_path: Path) -> None:
    """``kubectl cluster-info dump --output-directory`` writes typed lists, and logs in folders of pods."""
    (tmp_path / "shop" / "a").mkdir(parents=True)
    (tmp_path / "nodes.json").write_text(
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [build_node("n1")]})
    )
    pods = {"kind": "PodList", "apiVersion": "v1", "items": [build_pod("a")]}
    (tmp_path / "shop" / "pods.json").write_text(json.dumps(pods))
    (tmp_path / "shop" / "events.json").write_text('{"kind":"EventList","apiVersion":"v1","items":[{},{}]}')
    (tmp_path / "shop" / "services.json").write_text('{"kind":"ServiceList","apiVersion":"v1","items":null}')
    (tmp_path / "shop" / "a" / "logs.txt").write_text("==== START logs ====")
    result = read_paths([str(tmp_path)])
    assert {kind: len(found) for kind, found in result.objects.items()} == {"Node": 1, "Pod": 1}
    assert (result.skipped, result.skipped_files) == ({"Event": 2}, 1)
    assert "a cluster-info dump does not include namespaces" in result.warnings[0]


def test_nulls_are_absent_fields() -> None:
    document = build_pod("a", affinity=None, volumes=[{"name": "v", "emptyDir": None}]) | {"status": None}
    document["metadata"]["annotations"] = None
    other = document | {"metadata": document["metadata"] | {"name": "b"}}
    big = {"kind": "PodList", "apiVersion": "v1", "items": [document, other]}
    a, b = PodTable.from_pods(Cluster.from_objects([build_pod("a"), other]).pods)
    assert list(read_paths(["-"], stdin=encode_documents(document)).objects["Pod"]) == [a]
    assert list(collect_stream(json.dumps(big).encode()).objects["Pod"]) == [a, b]


def test_configuration_among_the_files(tmp_path: Path) -> None:
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(build_node("a")))
    assert kschedctl.Cluster.from_paths([tmp_path]).configuration == document
    other = document | {"parallelism": 1}
    assert kschedctl.Cluster.from_paths([tmp_path], config=other).configuration == other
    assert load_configuration_file(str(tmp_path / "scheduler.yaml")) == document
    for text, what in ("", "found 0 documents"), ("a: 1\n---\nb: 2", "found 2 documents"), ("- a", "got array"):
        (tmp_path / "other.yaml").write_text(text)
        with pytest.raises(kschedctl.KschedctlError, match=what):
            load_configuration_file(str(tmp_path / "other.yaml"))


def test_manifests_in_removed_versions() -> None:
    """The versions are from Kubernetes' deprecated API migration guide."""
    old = [("extensions/v1beta1", "Deployment"), ("batch/v1beta1", "CronJob"), ("apps/v1", "Deployment")]
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": f"a{number}"}}
        for number, (version, kind) in enumerate(old)
    ]
    assert read_paths(["-"], stdin=encode_documents(*documents)).warnings == (
        "standard input: document 1: Deployment in apiVersion extensions/v1beta1 was removed in 1.16",
        "standard input: document 2 (line 2): CronJob in apiVersion batch/v1beta1 was removed in 1.25",
    )


def test_manifests_are_distinguished_from_stored_objects() -> None:
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeSelecter": {}}}
    result = read_paths(
        ["-"],
        stdin=encode_documents(build_pod("b"), written, {"kind": "Job", "spec": {"template": {"spec": {"x": 1}}}}),
    )
    assert [m.document["kind"] for m in result.manifests] == ["Pod", "Job"]
    assert result.warnings == (
        'standard input: document 2 (line 2): unknown field "spec.nodeSelecter"',
        'standard input: document 3 (line 3): unknown field "spec.template.spec.x"',
    )


def test_incomplete_list_gives_a_warning() -> None:
    page = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": "abc"}, "items": [build_node("a")]}
    assert read_paths(["-"], stdin=encode_documents(page)).warnings == (
        "standard input: document 1: incomplete list, because it was read with a limit",
    )


def test_names_are_not_interpreted() -> None:
    (found,) = read_paths(["-"], stdin=encode_documents(build_node("\x1b[31m"))).objects["Node"]
    assert found.metadata.name == "\x1b[31m"  # type: ignore[attr-defined]


NO_LIST = 'the kind of a list must end in "List"'

# -- big lists ------------------------------------------------------------------------------------------------------


def collect_stream(data: bytes) -> Collector:
    """Collect the objects of a list that is read in pieces."""
    collector = Collector()
    head = match_list_head(data)
    assert head is not None
    rest = ListReader(
        data[: head.end() + 20], head, Reader("-", io.BytesIO(data[head.end() + 20 :])), collector, Place("-")
    ).read_list()
    assert not rest.strip()
    return collector


TRICKY = st.sampled_from(
    ['},{"metadata":{"name":"', '"', "\\", "é", "]}", '},\n{"apiVersion":"v1","kind":"Pod","metadata":{', "web"]
)
ITEMS = st.builds(
    lambda kind, name, noise, more: {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "uid": UID, "annotations": {"a": noise, "b": more}},
        "spec": {"volumes": [{"metadata": {"name": more}}, {"metadata": {"name": noise}, "name": None}]},
    },
    st.sampled_from(["Pod", "Node", "Event"]),
    TRICKY,
    TRICKY,
    TRICKY,
)


@given(st.lists(ITEMS, min_size=1, max_size=8), st.sampled_from([None, 1, 4]), st.integers(1, 400))
def test_pieces_of_any_size(items: list[Any], indent: int | None, step: int) -> None:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lists, "CHUNK_SIZE", step)
        collector = collect_stream(data)
    expected = Cluster.from_objects(item | {"spec": {}} for item in items if item["kind"] != "Event")
    assert have_equal_columns(Cluster.of(collector.objects), expected)
    assert collector.skipped == ({"Event": n} if (n := sum(item["kind"] == "Event" for item in items)) else {})


def build_pod_list(pods: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).encode()


def test_listed_pods_share_equal_parts() -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}]
    tolerations = [{"key": "spot", "operator": "Exists"}]
    pods = [
        build_pod(n, tolerations=tolerations) | {"status": {"conditions": conditions, "startTime": TIME}} for n in "abc"
    ]
    pods[1]["spec"]["nodeName"] = "n1"
    a, b, c = collect_stream(build_pod_list(pods)).objects["Pod"]
    assert a.spec.containers is b.spec.containers is c.spec.containers
    assert a.spec.tolerations is b.spec.tolerations is c.spec.tolerations
    assert [p.metadata.labels["on"] for p in (a, b, c)] == ["a", "b", "c"]
    assert [p.spec.node_name for p in (a, b, c)] == ["", "n1", ""]


_PART = {"requests": {"cpu": "1"}}
_SELECTOR = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
ONE_FIELD: dict[str, dict[str, Any]] = {
    "metadata": {
        "namespace": "other",
        "labels": {"app": "db"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        "creationTimestamp": TIME,
        "deletionTimestamp": TIME,
        "generateName": "web-",
        "annotations": {"scheduling.k8s.io/group-name": "g"},
        "uid": "00000000-0000-0000-0000-000000000002",
    },
    "spec": {
        "containers": [{"name": "c", "image": "db"}],
        "initContainers": [{"name": "i", "resources": _PART}],
        "nodeName": "n1",
        "nodeSelector": {"a": "b"},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_SELECTOR]}},
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 3}],
        "topologySpreadConstraints": [{"maxSkew": 1, **_SELECTOR}],
        "schedulerName": "other",
        "priority": 5,
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "overhead": {"cpu": "1"},
        "resources": _PART,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "r", "resourceClaimName": "c"}],
        "schedulingGates": [{"name": "g"}],
        "hostNetwork": True,
        "hostUsers": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "schedulingGroup": {"podGroupName": "g"},
        "runtimeClassName": "kata",
        "os": {"name": "windows"},
    },
    "status": {
        "phase": "Running",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "nominatedNodeName": "n1",
        "startTime": TIME,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": TIME}],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}, "restartCount": 2}],
        "initContainerStatuses": [{"name": "i", "resources": _PART, "state": {"waiting": {"reason": "Other"}}}],
        "ephemeralContainerStatuses": [{"name": "e", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
        "resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "c"},
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}],
        "resources": _PART,
        "allocatedResources": {"cpu": "1"},
        "resize": "Infeasible",
    },
}
"""Fields of a pod, each with a value that differs from that of a plain pod."""


def test_listed_pods_differ_in_every_field_that_is_read() -> None:
    for part, struct in (("metadata", PodMeta), ("spec", PodSpec), ("status", PodStatus)):
        assert ONE_FIELD[part].keys() | {"name"} == {*struct.__struct_encode_fields__, "name"}
    pods = [build_pod("plain")]
    for part, values in ONE_FIELD.items():
        for field, value in values.items():
            changed = build_pod(f"{part}-{field}".lower())
            changed[part] = changed.get(part, {}) | {field: value}
            pods.append(changed)
    found = collect_stream(build_pod_list(pods)).objects["Pod"]
    assert list(found) == list(PodTable.from_pods(Cluster.from_objects(pods).pods))


def test_consecutive_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SMALL", 10)
    monkeypatch.setattr(documents, "SMALL", 10)
    monkeypatch.setattr(json_lists, "CHUNK_SIZE", 64)
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [build_pod(f"p{i}") for i in range(20)]}
    nodes = {"apiVersion": "v1", "items": [build_node(f"n{i}") for i in range(20)], "kind": "List"}
    result = read_paths(
        ["-"], stdin=encode_documents(pods, nodes, {"kind": "EventList", "items": [{}]}, build_pod("last"))
    )
    assert have_equal_columns(
        build_cluster(result), Cluster.from_objects([*pods["items"], *nodes["items"], build_pod("last")])
    )  # type: ignore[misc]
    assert result.origins["Pod", "shop", "last"] == "standard input, document 4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"na',
            "items[1]: invalid JSON: the file ends in the middle of it",
        ),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"}}',
            "items[0]: invalid JSON: the file ends in the middle of it",
        ),
        ('{"kind":"PodList","items":[{"metadata":{"name":"a"}}],', "invalid JSON: the end of the list is missing"),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"}} {}]}',
            "items[0]: invalid JSON: expected , or ] after it",
        ),
        ('{"items":[{"kind":"Pod","metadata":{"name":"a"}}]}', NO_LIST),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"nodeName":5}}]}',
            "items[0].spec.nodeName: expected str, got int",
        ),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"overhead":{"cpu":"-1"}}}]}',
            "items[0].spec.overhead.cpu: resource cpu: must be greater than or equal to 0 (got -1)",
        ),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"},"status":{"conditions":5}}]}',
            "items[0].status.conditions: expected array, got int",
        ),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"priority":99999999999999999999}}]}',
            "items[0].spec.priority: number out of range",
        ),
        (
            '{"kind":"PodList","apiVersion":"apps/v1","items":[{"metadata":{"name":"a"}}]}',
            "Pod in apiVersion apps/v1 is not known (kschedctl reads v1)",
        ),
        ('{"kind":"List","items":[{"metadata":{"name":"a"}}]}', "items[0]: not a Kubernetes object: it has no kind"),
    ],
)
def test_broken_big_lists(text: str, message: str) -> None:
    with pytest.raises(kschedctl.KschedctlError) as raised:
        collect_stream(text.encode())
    where = "-: document 1, " if message.startswith("items[") else "-: document 1: "
    assert str(raised.value) == where + message


def test_shared_parts_do_not_change_the_snapshot() -> None:
    """Pods that share parts compare like pods that do not."""
    ephemeral = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    resizing = [{"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": TIME}]
    documents = [
        build_pod("a"),
        build_pod("b", nodeName="n1"),
        build_pod("c", priority=5),
        build_pod("d", nodeName="n2"),
    ]
    documents += [
        build_pod("e", volumes=ephemeral),
        build_pod("f", volumes=ephemeral),
        build_pod("g", volumes=[{"name": "x"}]),
    ]
    documents += [
        build_pod("h", nodeName="n1") | {"status": {"conditions": resizing}},
        build_node("n1"),
        build_node("n2"),
    ]
    for document in documents:
        document["metadata"]["labels"] = {"app": "web"}
    plain, shared = (
        Cluster.from_objects(documents),
        build_cluster(read_paths(["-"], stdin=encode_documents(*documents))),
    )
    expected, found = Fork.from_cluster(plain), Fork.from_cluster(shared)
    assert found.pods.info.tolist() == expected.pods.info.tolist() == [0, 1, 2, 1, 3, 4, 0, 5]
    assert found.node.tolist() == expected.node.tolist()


def build_budget(min_available: int, uid: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop", "uid": uid},
        "spec": {"minAvailable": min_available},
    }


def build_deployment(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        },
    }


@pytest.mark.parametrize(
    ("earlier", "later", "title"),
    [
        (build_budget(1, UID), build_budget(2, UID), "PodDisruptionBudget shop/web"),
        (build_budget(1), build_budget(2), "PodDisruptionBudget shop/web"),
        (build_pod("a"), build_pod("a", nodeName="n1"), "Pod shop/a"),
        (build_pod("a"), build_pod("a", priority=5), "Pod shop/a"),
        (build_node("n1"), {**build_node("n1"), "spec": {"unschedulable": True}}, "Node n1"),
        (build_deployment(1), build_deployment(2), "Deployment default/web"),
    ],
)
def test_objects_that_differ_between_files_are_named(
    earlier: dict[str, Any], later: dict[str, Any], title: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps(earlier))
    second.write_text(json.dumps(later))
    result = read_paths([str(tmp_path)])
    assert result.warnings == (f"{title} differs between {first} and {second}; the one in {second} is used",)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (build_budget(1), build_budget(1)),
        (build_pod("a"), build_pod("a")),
        (build_deployment(1), build_deployment(1)),
        (build_budget(1, UID), build_budget(2)),  # the manifest changes the stored object
        (build_pod("a"), build_pod("b")),
    ],
)
def test_equal_objects_and_changes_by_manifests_give_no_warning(
    earlier: dict[str, Any], later: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "1.json").write_text(json.dumps(earlier))
    (tmp_path / "2.json").write_text(json.dumps(later))
    assert read_paths([str(tmp_path)]).warnings == ()


@pytest.mark.parametrize("stored_first", [True, False])
def test_stored_workload_is_not_replaced_by_a_manifest(tmp_path: Path, stored_first: bool) -> None:
    """The manifest is what would be applied to the cluster, in whichever order the files are read."""
    manifest = {**build_deployment(2), "kind": "StatefulSet"}
    stored = {**build_deployment(1), "kind": "StatefulSet", "metadata": {"name": "web", "uid": UID}}
    for number, document in enumerate([stored, manifest] if stored_first else [manifest, stored]):
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    result = read_paths([str(tmp_path)])
    assert [workload.metadata.uid for workload in result.objects["StatefulSet"]] == [UID]
    assert [entry.document["spec"]["replicas"] for entry in result.manifests] == [2]
    assert result.warnings == ()


def test_only_the_first_conflicts_are_named(tmp_path: Path) -> None:
    for file, node in (("1.json", ""), ("2.json", "n1")):
        (tmp_path / file).write_text("".join(json.dumps(build_pod(f"a{i}", nodeName=node)) for i in range(8)))
    warnings = read_paths([str(tmp_path)]).warnings
    assert len(warnings) == 6
    assert warnings[-1] == "3 more objects differ between documents"
