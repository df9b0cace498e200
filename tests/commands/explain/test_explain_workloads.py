"""Check ``kschedctl explain`` of manifests and workloads: in which cluster, and which pod represents them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Json, Run, Write, build_node, build_pod

from kschedctl.scheduler.scheduler import Scheduler

REPOSITORY = Path(__file__).parents[3]
CHART = str(REPOSITORY / "tests/lint/charts/web-app.yaml")
VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1", "Pod": "v1"}


def build_workload(kind: str, name: str = "web", cpu: str = "1", uid: str = "", **spec: Any) -> Json:
    """Build a manifest whose pods request an amount of CPU."""
    made = build_pod(name, cpu)
    template = {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}
    if kind in ("Job", "CronJob"):
        made["spec"]["restartPolicy"] = "Never"
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template, **spec}}}
    elif kind == "Job":
        spec = {"template": template, **spec}
    elif kind != "Pod":
        selector = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
        spec = {"selector": selector, "template": template, **spec}
    else:
        spec = made["spec"]
    metadata = {"name": name} | ({"uid": uid} if uid else {})
    return {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, "spec": spec}


def build_owned_pod(name: str, kind: str, owner: str, cpu: str = "1", labels: Json | None = None, **spec: Any) -> Json:
    """Build an existing pod of a controller."""
    made = build_pod(name, cpu, uid=f"uid-{name}", **spec)
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "controller": True, "uid": owner}]
    made["metadata"]["labels"] = labels or {"app": owner}
    return made


def explain_document(run: Run, *arguments: str) -> Json:
    """Return the document of an explanation."""
    document: Json = json.loads(run("explain", *arguments, "-o", "json").out)
    return document


MADE = {
    "Pod": "default/web",
    "Deployment": "default/web-new-0",
    "ReplicaSet": "default/web-0",
    "ReplicationController": "default/web-0",
    "StatefulSet": "default/web-0",
    "DaemonSet": "default/web-n1",
    "Job": "default/web-0",
    "CronJob": "default/web-0-0",
}


@pytest.mark.parametrize(("cpu", "code", "verdict"), [("3", 0, "Schedulable"), ("5", 1, "Unschedulable")])
@pytest.mark.parametrize("kind", MADE)
def test_pod_of_the_template_is_explained(
    run: Run, write: Write, kind: str, *, cpu: str, code: int, verdict: str
) -> None:
    files = ("-f", write(build_node("n1", "4")), "-f", write(build_workload(kind, cpu=cpu), name="manifest.json"))
    outcome = run("explain", *files, "-o", "json")
    document = json.loads(outcome.out)
    assert (outcome.code, document["verdict"], document["pod"]) == (code, verdict, MADE[kind])
    assert (f"{kind} default/web" in document["standsFor"]) == (kind != "Pod")


@pytest.mark.parametrize("kind", MADE)
def test_manifests_without_nodes_are_placed_in_the_named_cluster(run: Run, write: Write, kind: str) -> None:
    cluster, manifest = write(build_node("n1", "4")), write(build_workload(kind, cpu="3"), name="manifest.json")
    saved = cluster.replace(".json", ".ksnap")
    run("snapshot", "save", "-f", cluster, "-o", saved)
    assert explain_document(run, "-f", manifest, "--snapshot", saved)["verdict"] == "Schedulable"
    assert (
        len(explain_document(run, "-f", manifest, "--demo")["nodeOrder"]) == (1 if kind == "DaemonSet" else 12) or kind
    )


def test_live_cluster_is_the_default(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for kind in MADE:
        code, out, err = run("explain", "-f", write(build_workload(kind)))
        assert (code, out) == (3, "")
        assert "no kubeconfig was found" in err


def test_workload_that_creates_no_pods_now_is_explained(run: Run, write: Write) -> None:
    cases = [("Deployment", {"replicas": 0}, "0 replicas"), ("Job", {"suspend": True}, "suspended")]
    for kind, spec, said in cases:
        document = explain_document(
            run, "-f", write(build_node("n1")), "-f", write(build_workload(kind, **spec), name="m.json")
        )
        assert document["verdict"] == "Schedulable"
        assert said in document["standsFor"]


def test_daemon_set_is_explained_by_its_first_pod_that_does_not_fit(run: Run, write: Write) -> None:
    """One of the three nodes is too small, and the DaemonSet does not select another one."""
    tainted = build_node("n3", taints=[{"key": "k", "effect": "NoSchedule"}])
    files = (
        write(build_node("n1", "4"), build_node("n2", "2"), tainted),
        write(build_workload("DaemonSet", cpu="3"), name="m.json"),
    )
    document = explain_document(run, "-f", files[0], "-f", files[1])
    assert (document["pod"], document["verdict"]) == ("default/web-n2", "Unschedulable")
    assert "one of 2 pods of DaemonSet default/web" in document["standsFor"]
    assert "of which 1 would be scheduled" in document["standsFor"]


def test_daemon_set_that_selects_no_node_creates_no_pod(run: Run, write: Write) -> None:
    tainted = build_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    code, _, err = run("explain", "-f", write(tainted), "-f", write(build_workload("DaemonSet"), name="m.json"))
    assert code == 2
    assert "DaemonSet default/web creates no pod on any node" in err


def test_existing_pods_of_a_daemon_set_are_replaced(run: Run, write: Write) -> None:
    cluster = write(build_node("n1", "4"), build_owned_pod("web-x", "DaemonSet", "web", "3", nodeName="n1"))
    manifest = write(build_workload("DaemonSet", cpu="3"), name="m.json")
    assert explain_document(run, "-f", cluster, "-f", manifest)["verdict"] == "Schedulable"


def test_stateful_set_is_explained_by_its_first_pod_without_a_node(run: Run, write: Write) -> None:
    """If all pods have nodes, it is explained by the last one, which an update deletes first.

    2 of 4 CPUs are free, and 3 without that pod.
    """
    there = [build_owned_pod(f"web-{i}", "StatefulSet", "web", "1", nodeName="n1") for i in range(2)]
    manifest = write(build_workload("StatefulSet", cpu="3", replicas=2), name="m.json")
    document = explain_document(run, "-f", write(build_node("n1", "4"), *there), "-f", manifest)
    assert (document["pod"], document["verdict"]) == ("default/web-1", "Schedulable")
    document = explain_document(run, "-f", write(build_node("n1", "4"), there[1]), "-f", manifest)
    assert (document["pod"], document["verdict"]) == ("default/web-0", "Schedulable")


def test_unchanged_deployment_is_explained_by_an_additional_pod(run: Run, write: Write) -> None:
    """The pod has the hash of the template, by which spread constraints distinguish it from earlier revisions."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    labels = {"app": "web", "pod-template-hash": "5f"}
    there = build_owned_pod(
        "web-5f-a", "ReplicaSet", "web-5f", labels=labels, nodeName="n1", topologySpreadConstraints=[spread]
    )
    manifest = build_workload("Deployment")
    manifest["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread]
    files = ("-f", write(build_node("n1"), build_node("n2"), there), "-f", write(manifest, name="m.json"))
    assert explain_document(run, *files)["best"] == ["n2"]


@pytest.mark.parametrize(
    "words", [["deploy/web"], ["deployment", "web"], ["Deployments.apps/web"], ["deploy/web", "-A"]]
)
def test_pending_pods_of_a_workload_are_explained(run: Run, write: Write, words: list[str]) -> None:
    labels = {"app": "web", "pod-template-hash": "5f"}
    pods = [build_owned_pod(f"web-5f-{i}", "ReplicaSet", "web-5f", "9", labels) for i in range(3)]
    cluster = write(
        build_node("n1", "4"),
        *pods,
        build_pod("other", "9"),
        build_owned_pod("webs-5f-a", "ReplicaSet", "webs-5f", "9"),
    )
    document = explain_document(run, *words, "-f", cluster)
    assert (document["pod"], document["verdict"]) == ("default/web-5f-0", "Unschedulable")
    assert document["standsFor"] == "one of the 3 pending pods of Deployment default/web, which are identical"


@pytest.mark.parametrize(
    ("word", "kind", "owner", "made"),
    [
        ("deploy/web", "ReplicaSet", "web-5f", "default/web-5f-new"),
        ("rs/web-5f", "ReplicaSet", "web-5f", "default/web-5f-new"),
        ("job/web", "Job", "web", "default/web-new"),
        ("cj/web", "Job", "web-29012345", "default/web-29012345-new"),
        ("rc/web", "ReplicationController", "web", "default/web-new"),
        ("sts/web", "StatefulSet", "web", "default/web-2"),
    ],
)
def test_workload_without_pending_pods_gets_an_additional_pod(
    run: Run, write: Write, word: str, *, kind: str, owner: str, made: str
) -> None:
    """Each of its two pods uses 2 of 4 CPUs on its own node, so that a third pod does not fit."""
    labels = {"app": "web", "pod-template-hash": "5f"}
    pods = [build_owned_pod(f"web-{i}", kind, owner, "2", labels, nodeName=f"n{i}") for i in range(2)]
    rest = [build_pod(f"rest-{i}", "1", nodeName=f"n{i}") for i in range(2)]
    document = explain_document(run, word, "-f", write(build_node("n0"), build_node("n1"), *pods, *rest))
    assert (document["pod"], document["verdict"]) == (made, "Unschedulable")
    assert document["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert document["standsFor"].startswith("one more pod of")


def test_several_objects_are_explained_from_one_snapshot(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One workload has pending pods, the other one gets an additional pod, and a bare pod is named as well."""
    made: list[int] = []
    build = Scheduler.view.func  # type: ignore[attr-defined]

    def counted(scheduler: Scheduler) -> object:
        made.extend([len(scheduler.cluster.nodes)] * bool(scheduler.cluster.nodes))
        return build(scheduler)

    monkeypatch.setattr(Scheduler.view, "func", counted)
    labels = {"app": "web", "pod-template-hash": "5f"}
    waiting = build_owned_pod("web-5f-a", "ReplicaSet", "web-5f", "9", labels)
    objects = [waiting, build_owned_pod("db-a", "ReplicaSet", "db", nodeName="n1"), build_pod("bare", "9")]
    document = explain_document(
        run, "deploy/web", "rs/db", "bare", "-f", write(build_node("n1"), *objects), "--no-remedies"
    )
    assert [each["pod"] for each in document["explanations"]] == ["default/web-5f-a", "default/db-new", "default/bare"]
    assert made == [1]


def test_next_pod_of_a_stateful_set_gets_its_own_claim(run: Run, write: Write) -> None:
    """The other pod's claim is bound to a volume of its node. The new claim waits for its first consumer."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "namespace": "default", "uid": "c"},
        "spec": {"storageClassName": "local", "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "example.com/local",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    there = build_owned_pod("web-0", "StatefulSet", "web", nodeName="n1", volumes=volumes)
    document = explain_document(run, "sts/web", "-f", write(build_node("n1"), build_node("n2"), there, claim, storage))
    assert document["verdict"] == "Schedulable"
    assert document["volumes"]["n2"]["provisions"] == ["default/data-web-1"]


def test_deployment_without_pods_is_explained_by_its_replica_set(run: Run, write: Write) -> None:
    rs = build_workload("ReplicaSet", "web-5f", cpu="9", uid="u", replicas=0)
    rs["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "web", "controller": True}]
    document = explain_document(run, "deploy/web", "-f", write(build_node("n1"), rs))
    assert (document["pod"], document["verdict"]) == ("default/web-5f-0", "Unschedulable")


def test_daemon_set_without_pending_pods_is_bound(run: Run, write: Write) -> None:
    document = explain_document(
        run, "ds/web", "-f", write(build_node("n1"), build_owned_pod("web-x", "DaemonSet", "web", nodeName="n1"))
    )
    assert document["verdict"] == "Bound"
    assert document["standsFor"] == "the only pod of DaemonSet default/web, which is not pending"


def test_workload_printed_by_kubectl_is_the_one_in_the_cluster(run: Run, write: Write) -> None:
    labels = {"app": "web", "pod-template-hash": "5f"}
    waiting = build_owned_pod("web-5f-a", "ReplicaSet", "web-5f", "9", labels)
    printed = write(build_workload("Deployment", cpu="9", uid="u"), name="m.json")
    assert (
        explain_document(run, "-f", write(build_node("n1"), waiting), "-f", printed)["kind"] == "PendingPods"
    )  # a dump's list
    Path(printed).write_text(json.dumps(build_workload("Deployment", cpu="9", uid="u")))
    assert explain_document(run, "-f", write(build_node("n1"), waiting), "-f", printed)["pod"] == "default/web-5f-a"
    assert explain_document(run, "-f", write(build_node("n1")), "-f", printed)["pod"] == "default/web-new-0"


def test_error_about_a_missing_workload_suggests_others(run: Run, write: Write) -> None:
    labels = {"app": "web", "pod-template-hash": "5f"}
    cluster = write(build_node("n1"), build_owned_pod("web-5f-a", "ReplicaSet", "web-5f", labels=labels))
    for words in (["deploy/wbe"], ["deploy/web", "-n", "shop"]):
        code, _, err = run("explain", *words, "-f", cluster)
        assert code == 2
        assert "did you mean deployment/web -n default?" in err
    assert "use drain to see where" in run("explain", "node/n1", "-f", cluster).err


def test_error_about_a_missing_name_suggests_other_kinds(run: Run, write: Write) -> None:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}}
    group["metadata"] = {"name": "small", "namespace": "ml"}
    cluster = write(build_node("n1"), build_owned_pod("train-a", "Job", "train"), group)
    assert "did you mean job/train -n default?" in run("explain", "deploy/train", "-f", cluster).err
    assert "did you mean podgroup/small -n ml?" in run("explain", "ml/small", "-f", cluster).err


def test_workload_in_the_files_is_suggested_with_its_namespace(run: Run, write: Write, tmp_path: Path) -> None:
    manifest = tmp_path / "web.yaml"
    deployment = build_workload("Deployment")
    deployment["metadata"]["namespace"] = "d"
    manifest.write_text(json.dumps(deployment))
    run("snapshot", "save", "-f", write(build_node("n1")), "-o", tmp_path / "state.ksnap")
    err = run("explain", "deploy/web", "-f", manifest, "--snapshot", tmp_path / "state.ksnap").err
    assert "did you mean deployment/web -n d?" in err


def test_several_pods_at_once(run: Run, write: Write) -> None:
    cluster = write(build_node("n1"), build_pod("a", "9"), build_pod("b"), build_pod("c", namespace="shop"))
    for words in (["a", "b", "shop/c"], ["pod", "a", "b", "shop/c"], ["pod/a", "po/b", "shop/c"]):
        code, out, _ = run("explain", *words, "-f", cluster)
        assert code == 1
        assert out.startswith("2 of 3 pods have a node or would get one, each by itself")
        assert "default/a Unschedulable: needs 9 CPUs, but the only node, n1, has only 4" in " ".join(out.split())
    document = explain_document(run, "a", "b", "-f", cluster)
    assert document["kind"] == "Explanations"
    assert [each["pod"] for each in document["explanations"]] == ["default/a", "default/b"]
    assert run("explain", "b", "shop/c", "-f", cluster, "-o", "name") == (0, "default/b\nshop/c\n", "")
    assert run("explain", "pod", "b", "-f", cluster).code == 0


def test_helm_output_is_explained_and_other_objects_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(CHART).read_bytes())))
    code, out, err = run("explain", "-f", "-", "--demo", "-o", "json")
    assert code == 0
    asked = [each["standsFor"].split(",")[0] for each in json.loads(out)["explanations"]]
    kinds = [d["kind"] for d in yaml.safe_load_all(Path(CHART).read_text()) if d]
    assert [text.split()[3] for text in asked] == [kind for kind in kinds if kind in MADE]
    assert "taken into account: 1 HorizontalPodAutoscaler, 1 PodDisruptionBudget\n" in err


def test_hooks_that_are_not_installed_are_named(run: Run, write: Write) -> None:
    hook = build_workload("Pod", "probe")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "test"}
    manifest = write(build_workload("Deployment"), hook, name="m.json")
    code, out, err = run("explain", "-f", write(build_node("n1")), "-f", manifest, "-o", "name")
    assert (code, out) == (0, "default/web-new-0\n")
    assert "Pod probe" in err


def test_file_with_a_workload_is_not_answered_by_nothing_is_pending(run: Run, write: Write) -> None:
    world = write(build_node("n1"), build_workload("Deployment", cpu="9"), build_pod("running", nodeName="n1"))
    code, out, _ = run("explain", "-f", world)
    assert code == 1
    assert out.startswith("default/web-new-0 Unschedulable")
    world = write(build_node("n1"), build_workload("Deployment", cpu="9"), build_pod("stuck", "9"))
    code, out, err = run("explain", "-f", world)
    assert "1 pod pending" in out
    assert "Deployment default/web" in err


def test_file_without_pods_or_workloads_is_an_error(run: Run, write: Write) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    code, _, err = run("explain", "-f", write(settings), "--demo")
    assert code == 2
    assert "no pod and nothing that creates pods, only ConfigMap" in err


def test_bound_pod_of_a_file_is_reported_as_bound(run: Run, write: Write) -> None:
    assert (
        explain_document(run, "-f", write(build_pod("web", uid="u", nodeName="general-a1")), "--demo")["verdict"]
        == "Bound"
    )


def test_suggestions_prefer_pending_pods(run: Run, write: Write) -> None:
    pods = [build_pod(f"web-5f-{i}", nodeName="n1") for i in range(5)]
    _, _, err = run("explain", "web", "-f", write(build_node("n1"), *pods, build_pod("web-zz", namespace="shop")))
    assert "did you mean shop/web-zz, default" in err


@pytest.mark.parametrize("fault", [{"spec": 5}, {"metadata": {"name": ["x"], "uid": "u"}}, {"metadata": {"uid": "u"}}])
def test_workload_of_a_dump_is_explained_on_request(run: Run, write: Write, fault: Json) -> None:
    stored = build_workload("Deployment", uid="u") | fault
    cluster = write(build_node("n1"), build_pod("stuck", "9"), stored)
    assert run("explain", "stuck", "-f", cluster).code == 1
    assert run("explain", "-A", "-f", cluster).code == 1
    code, _, err = run("explain", "-f", write(stored, name="m.json"), "--demo")
    assert (code, err.count("\n")) == (2, 1)


def make_quota(pods: int) -> Json:
    """Build a quota of pods of which none is used yet."""
    hard = {"hard": {"pods": str(pods)}}
    status = {**hard, "used": {"pods": "0"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard, "status": status}


@pytest.mark.parametrize(
    ("kind", "spec", "denied"),
    [
        ("Job", {"parallelism": 3, "completions": 3}, "default/web-2"),
        ("StatefulSet", {"replicas": 3}, "default/web-2"),
        ("ReplicaSet", {"replicas": 3}, "default/web-2"),
        ("Deployment", {"replicas": 3}, "default/web-new-2"),
        ("CronJob", {"parallelism": 3, "completions": 3}, "default/web-0-2"),
    ],
)
def test_the_first_pod_that_cannot_be_created_is_explained(
    run: Run, write: Write, kind: str, spec: Json, denied: str
) -> None:
    """The quota allows two of the three pods. Every pod has room on the node."""
    cluster, manifest = write(build_node("n1"), make_quota(2)), write(build_workload(kind, **spec), name="m.json")
    document = explain_document(run, "-f", cluster, "-f", manifest)
    assert (document["pod"], document["verdict"]) == (denied, "NotCreated")
    failures = document["notCreated"]
    assert (failures["wanted"], failures["there"], failures["creatable"], failures["missing"]) == (3, 0, 2, 1)
    assert document["headline"].startswith("1 of 3 pods (3 wanted, 2 can be created): exceeded quota: q")
    assert document["onceCreated"]["verdict"] == "Schedulable"


def test_workloads_count_as_a_whole(run: Run, write: Write) -> None:
    """Four CPUs take two of three pods of two CPUs; a pod of one CPU fits by itself."""
    manifests = write(
        build_workload("Job", "import", "2", parallelism=3), build_workload("Job", "small"), name="m.json"
    )
    options = ("-f", write(build_node("n1")), "-f", manifests)
    found = run("explain", *options)
    text = " ".join(found.out.split())
    assert found.code == 1
    assert text.startswith("1 of 2 workloads gets a node for every pod, each by itself")
    assert "Only 2 of the 3 pods of Job default/import get a node" in text
    # Once in the table, and once above the answer
    assert text.count("a pod of Job default/import, as its controller would create it") == 2
    assert "default/import-2: only 2 of the 3 pods of Job default/import get a node: needs 2 CPUs" in " ".join(
        run("explain", *options, "--brief").out.split()
    )
