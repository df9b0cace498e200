"""Check `simulate` as users call it: charts, namespaces, errors, the first and the last lines."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.api.workloads import count_pods, decode_workload
from kschedctl.commands import capacity as capacity_study

Json = dict[str, Any]
NODES = [build_node("n1"), build_node("n2")]


def build_deployment(name: str, replicas: int, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


def build_running_pod(name: str) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f", "controller": True}
    found = build_pod(name, uid=name, nodeName="n1")
    found["metadata"] |= {"labels": {"app": "web", "pod-template-hash": "5f"}, "ownerReferences": [owner]}
    return found


def test_other_objects_of_a_chart(run: Run, write: Write) -> None:
    hook = build_pod("try", cpu="100m")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "test"}
    migration = build_pod("migrate", cpu="100m")
    migration["metadata"]["annotations"] = {"helm.sh/hook": "pre-install,pre-upgrade"}
    other = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}, "spec": {}}
    chart = write(build_deployment("web", 1), hook, migration, other, name="chart.json")
    found = run("simulate", "-f", write(*NODES), "-f", chart, "-o", "json")
    assert json.loads(found.out)["placements"].keys() == {"default/web-new-0", "default/migrate"}
    assert found.err.splitlines() == [
        "note: not checked: Rollout/r (kschedctl does not know what pods their operators create)",
        "note: left out, as Helm creates them neither on install nor on upgrade: Pod default/try",
    ]


def test_pending_pods_without_manifests(run: Run, write: Write) -> None:
    cluster = write(*NODES, build_pod("small", cpu="1", uid="small"), build_pod("huge", cpu="99", uid="huge"))
    saved = cluster.replace("json", "ksnap")
    assert run("snapshot", "save", "-f", cluster, "-o", saved).code == 0
    code, out, _ = run("simulate", "--pending", "--snapshot", saved, "-o", "json")
    assert (code, json.loads(out)["placements"].keys()) == (1, {"default/small"})
    shown = run("simulate", "--pending", "--snapshot", saved).out
    assert shown.endswith(
        f"Next (find fixes for the pods without a node)\n  kschedctl remedies -A --snapshot {saved}\n"
    )
    assert run("simulate", "--pending", "-n", "shop", "--demo").err.startswith("error: -n needs manifests")
    assert run("simulate", "--demo").err.startswith("error: no manifests")


def test_default_namespace_of_manifests(run: Run, write: Write) -> None:
    """Exactly one pod is created, and it finds the claim beside it."""
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    asked = {"requests": {"storage": "1Gi"}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": asked}
    late = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, **late}
    bare = build_pod("bare", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    del bare["metadata"]["namespace"]
    found = run("simulate", "-f", write(*NODES, storage), "-f", write(bare, claim, name="a.json"), "-n", "shop")
    assert found.out.startswith("All scheduled: 1 of 1 pod gets a node\n")
    assert "Pod shop/bare" in found.out


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({**build_deployment("web", 1), "metadata": {}}, "items[0].metadata.name: required"),
        (
            build_deployment("web", 1, "1x"),
            "items[0].spec.template.spec.containers[0].resources.requests.cpu: quantities",
        ),
        (build_deployment("web", "3"), "items[0].spec.replicas: expected int, got str"),  # type: ignore[arg-type]
    ],
    ids=["no name", "quantity", "type"],
)
def test_error_names_file_document_and_field(run: Run, write: Write, manifest: Json, message: str) -> None:
    path = write(manifest, name="bad.json")
    found = run("simulate", "-f", write(*NODES), "-f", path)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error: {path}: document 1, {message}")
    assert found.err.count("\n") == 1


def test_pods_of_a_missing_class_are_not_created(run: Run, write: Write) -> None:
    path = write(build_deployment("web", 2, priorityClassName="gold"), name="a.json")
    bare = write(build_pod("web", priorityClassName="gold"), name="b.json")
    for command in ("simulate", "explain"):
        found = run(command, "-f", write(*NODES), "-f", path)
        assert found.code == 1
        said = "Not created: 2 of 2 pods: no PriorityClass with name gold was found"
        assert said in " ".join(found.out.split())
        found = run(command, "-f", write(*NODES), "-f", bare)
        assert found.code == 1
        said = "Not created: 1 of 1 pod: no PriorityClass with name gold was found"
        assert said in " ".join(found.out.split())
    found = run("capacity", "-f", write(*NODES), "-f", path)
    assert found.code == 1
    assert "They are not created: no PriorityClass with name gold was found" in found.out


def test_objects_of_the_cluster_are_no_manifests(run: Run, write: Write) -> None:
    found = run("simulate", "--demo", "-f", write(build_pod("p", uid="u")))
    assert (found.code, "remove metadata.uid" in found.err) == (2, True)


def test_suggested_command_repeats_the_rollout_with_waiting_pods(run: Run, write: Write) -> None:
    files = ["-f", write(*NODES, build_pod("p", uid="u")), "-f", write(build_deployment("web", 1), name="web.json")]
    assert run("simulate", *files, "--rollout").out.rstrip().endswith("--pending --rollout")


def test_complete_answer_about_a_rollout(run: Run, write: Write) -> None:
    files = [
        "-f",
        write(*NODES, build_running_pod("web-5f-1")),
        "-f",
        write(build_deployment("web", 1, "5"), name="web.json"),
    ]
    found = run("simulate", *files, "--rollout")
    assert (found.code, found.out.splitlines()[0]) == (
        1,
        "Rollout of Deployment default/web stuck: 0 of 1 new pod run, 1 old pod is left",
    )
    plain = run("simulate", *files).out
    commands = [line.strip() for line in plain.splitlines() if line.startswith("  kschedctl ")]
    assert [command.split()[1] for command in commands] == ["remedies", "simulate"]
    assert commands[1].endswith("--rollout")


def test_next_command_helps(run: Run, write: Write) -> None:
    """Waiting pods do not matter for pods that are not created."""
    cluster = write(*NODES, build_pod("p", uid="u"))
    too_large, unknown_class = build_deployment("web", 1, "5"), build_deployment("web", 1, priorityClassName="gold")
    for manifest, expected in ((too_large, ["remedies", "simulate"]), (unknown_class, ["remedies"])):
        found = run("simulate", "-f", cluster, "-f", write(manifest, name="web.json"))
        commands = [line.split() for line in found.out.splitlines() if line.startswith("  kschedctl ")]
        assert [command[1] for command in commands] == expected
        assert run(*commands[0][1:]).code == 1
    found = run("simulate", "--pending", "-f", write(*NODES, build_pod("p", cpu="9", uid="p")))
    (command,) = [line.split() for line in found.out.splitlines() if line.startswith("  kschedctl ")]
    assert command[1:3] == ["remedies", "-A"]


def test_worst_of_several_runs_counts(run: Run, write: Write) -> None:
    """The small pod takes one of two equal nodes, and the large pod needs n1."""
    small, large = build_pod("small", "1"), build_pod("large", "4", nodeSelector={"kubernetes.io/hostname": "n1"})
    found = run("simulate", "-f", write(*NODES), "-f", write(small, large, name="a.json"), "--runs", "8", "--jobs", "1")
    assert found.code == 1
    assert found.out.startswith("0 to 1 pods not scheduled: 1 to 2 of 2 pods get a node")


@pytest.mark.parametrize("width", ["80", "160"])
def test_no_line_is_wider_than_the_terminal(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    cluster, chart = write(*NODES), write(build_deployment("web", 12), name="web.json")
    run_wide = run("simulate", "-f", cluster, "-f", chart, "-o", "json")
    assert json.loads(run_wide.out)["unplaced"] == 4
    monkeypatch.setenv("COLUMNS", width)
    found = run("simulate", "-f", cluster, "-f", chart)
    table = [line for line in found.out.splitlines() if not line.startswith("  kschedctl ")]
    assert max(map(len, table)) <= int(width)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("runs", ["1", "4"])
def test_ctrl_c_ends_at_once(write: Write, runs: str) -> None:
    """This also holds if other processes do the work, which takes many seconds more."""
    cluster, web = write(*NODES), write(build_deployment("web", 150_000, "1m"), name="web.json")
    program = [sys.executable, "-m", "kschedctl"]
    arguments = ["simulate", "-f", cluster, "-f", web, "--runs", runs, "--jobs", "2"]
    with subprocess.Popen([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "")
    assert "Traceback" not in out


TOO_MANY = {
    "one": ({"replicas": 2_000_000_000}, "2,000,000,000 pods, 2,000,000,000 with all manifests, are too many"),
    "together": ({"replicas": 100_000}, "100,000 pods, 200,000 with all manifests, are too many to simulate"),
}


@pytest.mark.parametrize("command", ["simulate", "whatif"])
@pytest.mark.parametrize("name", TOO_MANY)
def test_too_many_pods_are_an_error(run: Run, write: Write, tmp_path: Path, command: str, name: str) -> None:
    """Kubernetes supports at most 150,000 pods per cluster."""
    spec, said = TOO_MANY[name]
    manifests = [build_deployment(f"web-{i}", spec["replicas"]) for i in range(1 if name == "one" else 2)]
    if command == "whatif":
        scenario = {"steps": [{"apply": {"manifests": manifests}}]}
        (tmp_path / "scenario.json").write_text(json.dumps(scenario))
        code, _, err = run("whatif", str(tmp_path / "scenario.json"), "-f", write(build_node("n1")))
    else:
        code, _, err = run("simulate", "-f", write(build_node("n1")), "-f", write(*manifests, name="m.json"))
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert "the limit is 150,000 pods" in err


@pytest.mark.parametrize(
    ("kind", "spec", "number"),
    [
        ("Deployment", {"replicas": 7}, 7),
        ("StatefulSet", {}, 1),
        ("DaemonSet", {}, 50),
        ("Job", {"parallelism": 9, "completions": 4}, 4),
        ("CronJob", {"jobTemplate": {"spec": {"parallelism": 6}}}, 6),
        ("Pod", {}, 1),
    ],
)
def test_number_of_pods_of_a_workload(kind: str, spec: Json, number: int) -> None:
    assert count_pods(decode_workload({"kind": kind, "metadata": {"name": "a"}, "spec": spec}), 50) == number


def test_unlimited_capacity_is_cut(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node takes any number of pods, and the pod requests nothing."""
    monkeypatch.setattr(capacity_study, "MAX_PODS", 300)
    endless = build_node("n1")
    endless["status"]["allocatable"]["pods"] = str(2**60)
    shape = build_deployment("web", 1, cpu="0")
    found = json.loads(run("capacity", "-f", write(endless), "-f", write(shape, name="m.json"), "-o", "json").out)
    assert (found["shapes"][0]["fits"], found["shapes"][0]["limited"]) == (300, True)
    assert run("capacity", "-f", write(endless), "-f", write(shape, name="m.json"), "--max", "150001").code == 2


# -- objects that are no workloads -------------------------------------------------------------------------------------

AUTOSCALER: Json = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 4,
        "maxReplicas": 6,
    },
}


def build_stored_web(replicas: int) -> list[Json]:
    """Return nodes, Deployment web as a cluster holds it, its ReplicaSet, and its running pods."""
    web = build_deployment("web", replicas)
    web["metadata"] |= {"uid": "w", "namespace": "default"}
    template = web["spec"]["template"]
    hashed = {**template, "metadata": {"labels": {"app": "web", "pod-template-hash": "5f"}}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-5f",
            "namespace": "default",
            "uid": "rs",
            "ownerReferences": [owner],
            "labels": hashed["metadata"]["labels"],
        },
        "spec": {"replicas": replicas, "template": hashed},
    }
    return [*NODES, web, replica_set, *(build_running_pod(f"web-5f-{number}") for number in range(replicas))]


@pytest.mark.parametrize("kept", ["Deployment and ReplicaSet", "ReplicaSet"])
def test_autoscaler_alone_scales_a_workload_of_the_cluster(run: Run, write: Write, kept: str) -> None:
    """Two pods of one CPU run on two nodes of 4 CPUs. The autoscaler creates two more, and six more fit in all."""
    objects = [obj for obj in build_stored_web(2) if kept != "ReplicaSet" or obj["kind"] != "Deployment"]
    options = ["-f", write(*objects), "-f", write(AUTOSCALER, name="new.json"), "--assume-complete"]
    scaled = "HorizontalPodAutoscaler web raises Deployment default/web from 2 to 4 replicas at once (minReplicas)"

    found = run("simulate", *options)
    assert found.code == 0
    assert found.out.startswith("All scheduled: 2 of 2 pods get a node\n" + scaled)
    assert "4/4" in found.out
    found = run("capacity", *options)
    assert found.out.startswith("Deployment default/web: 6 more fit on 2 nodes\n" + scaled)
    found = run("explain", *options)
    assert found.out.startswith("default/web-new-0 Schedulable")
    assert scaled.replace("\n", " ") in found.out.replace("\n", " ")


def test_autoscaler_without_its_target(run: Run, write: Write) -> None:
    other: Json = json.loads(json.dumps(AUTOSCALER).replace('"name": "web"}', '"name": "wob"}'))
    for command in ("simulate", "capacity"):
        found = run(command, "-f", write(*build_stored_web(1)), "-f", write(other, name="new.json"))
        assert found.code == 2
        assert "its target Deployment default/wob is not among the workloads of the cluster" in found.err
        assert "did you mean deployment/web -n default?" in found.err


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 1}},
            "PodDisruptionBudget default/new",
        ),
        ({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "9"}}}, "ResourceQuota default/new"),
        ({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}, "PriorityClass new"),
    ],
    ids=["budget", "quota", "class"],
)
def test_objects_that_create_no_pods(run: Run, write: Write, document: Json, title: str) -> None:
    new = {**document, "metadata": {"name": "new"}}
    options = ["-f", write(*build_stored_web(1)), "-f", write(new, name="new.json"), "--assume-complete"]
    found = run("simulate", *options)
    assert (found.code, found.out.splitlines()[0]) == (0, f"Nothing to schedule: {title} creates no pods")
    found = run("capacity", *options)
    assert (found.code, found.err.strip()) == (2, f"error: no workload to try: {title} creates no pods")


def test_autoscaler_of_the_cluster_scales_nothing(run: Run, write: Write) -> None:
    """It is no manifest, although this file has no UIDs."""
    found = run("simulate", "-f", write(*NODES, AUTOSCALER), "-f", write(build_deployment("api", 1), name="new.json"))
    assert found.out.startswith("All scheduled: 1 of 1 pod gets a node")


def test_pods_that_waited_before_do_not_count_against_the_manifests(run: Run, write: Write) -> None:
    cluster = write(*NODES, build_pod("huge", cpu="99", uid="huge"))
    small = write(build_deployment("web", 2), name="small.json")
    code, out, _ = run("simulate", "-f", cluster, "-f", small, "--pending", "--assume-complete")
    assert out.startswith("Scheduled: all 2 pods of the manifests get a node; 1 of 1 waiting pod still waits\n")
    assert code == 0
    (command,) = [line.split() for line in out.splitlines() if line.startswith("  kschedctl ")]
    assert command[1:3] == ["explain", "default/huge"]
    assert run(*command[1:]).out.startswith("default/huge Unschedulable")
    for options in (["--runs", "2", "--jobs", "1"], ["-o", "junit"], ["-o", "json", "--summary"]):
        found = run("simulate", "-f", cluster, "-f", small, "--pending", "--assume-complete", *options)
        assert found.code == 0
        assert "<failure" not in found.out
        assert "Not all scheduled" not in found.out

    large = write(build_deployment("web", 2, cpu="50"), name="large.json")
    found = run("simulate", "-f", cluster, "-f", large, "--pending", "--assume-complete", "--brief")
    first, cause, *_ = found.out.splitlines()
    assert first == "2 pods not scheduled: 0 of 2 pods of the manifests get a node; 1 of 1 waiting pod still waits"
    assert "default/web" in cause
    assert found.code == 1


def test_waiting_pods_of_the_cluster_are_explained_without_the_manifests(run: Run, write: Write) -> None:
    small = write(build_deployment("small", 1, cpu="100m"), name="small.json")
    found = run("simulate", "-f", small, "-n", "shop", "--demo", "--pending")
    assert found.code == 0
    assert found.out.endswith("Next (see why pods still wait)\n  kschedctl explain -A --demo\n")
