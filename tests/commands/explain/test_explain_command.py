"""Check which pod ``kschedctl explain`` selects, its output and its exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from command_line import Run, Write, build_node, build_pod

CONTRACT = {
    "pod",
    "verdict",
    "message",
    "nodeOrder",
    "queue",
    "preFilter",
    "filter",
    "firstFail",
    "feasible",
    "score",
    "normalized",
    "weighted",
    "total",
    "best",
    "preemption",
}


def test_pod_that_fits_exits_0_and_names_the_node(run: Run, write: Write) -> None:
    file = write(build_node("small", "1"), build_node("large", "8"), build_pod("web", "2"))
    code, out, err = run("explain", "web", "-f", file)
    assert (code, err) == (0, "")
    assert out.startswith("default/web Schedulable: on large")


def test_pod_that_does_not_fit_exits_1_with_the_cause_first_and_then_the_message(run: Run, write: Write) -> None:
    file = write(build_node("small", "1"), build_pod("web", "2"))
    code, out, _ = run("explain", "web", "-f", file)
    assert code == 1
    first, fix, *_ = lines = out.split("\n\n")[0].splitlines()
    assert first.startswith("default/web Unschedulable: needs 2 CPUs, but the only node, small, has only 1")
    assert fix == "Best fix: Add a node like small but with 2 CPUs"
    assert any(line.startswith("kube-scheduler: 0/1 nodes are available: 1 Insufficient cpu.") for line in lines)
    assert "needs 2 CPUs" in out
    assert "small" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["web", "-n", "shop"],
        ["pod/web", "-n", "shop"],
        ["po/web", "--namespace", "shop"],
        ["shop/web"],
        ["shop/web", "-n", "shop"],
        ["web", "-A"],
    ],
)
def test_ways_to_name_a_pod(run: Run, write: Write, arguments: list[str]) -> None:
    file = write(build_node("n1"), build_pod("web", namespace="shop"), build_pod("other", "9"))
    code, out, _ = run("explain", *arguments, "-f", file, "-o", "name")
    assert (code, out) == (0, "shop/web\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["web"], 'pod "default/web" not found (did you mean shop/web or team/web?)'),
        (["shop/wbe"], 'pod "shop/wbe" not found (did you mean shop/web or team/web?)'),
        (["shop/front"], "did you mean shop/front-7d9f-x2x4q?"),
        (["shop/forn"], "did you mean shop/front-7d9f-x2x4q?"),
        (["shop/api"], 'pod "shop/api" not found (did you mean deployment/api -n shop?)'),
        (["zzz"], 'pod "default/zzz" not found\n'),
        (["web", "-A"], '"web" names 2 pods: shop/web, team/web'),
        (["shop/web", "-n", "team"], '"shop/web" is not in namespace "team"'),
        (["a/b/c"], '"a/b/c" does not name a pod'),
        (["/web"], '"/web" does not name a pod'),
        (["shop/"], '"shop/" does not name a pod'),
        (["shop/web", "-l", "app=web"], "POD and -l cannot be combined"),
        (["-A", "--as-if-priority", "7"], "need a POD"),
    ],
)
def test_absent_and_ambiguous_pods_exit_2(run: Run, write: Write, arguments: list[str], said: str) -> None:
    pods = [
        build_pod("web", namespace="shop"),
        build_pod("web", namespace="team"),
        build_pod("front-7d9f-x2x4q", namespace="shop"),
        build_pod("api-5f-x2x4q", namespace="shop"),
    ]
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-5f", "uid": "u", "controller": True}
    pods[-1]["metadata"] |= {"ownerReferences": [replica_set], "labels": {"pod-template-hash": "5f"}}
    code, out, err = run("explain", *arguments, "-f", write(build_node("n1"), *pods))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


def test_only_pod_of_a_file_without_nodes_is_explained(run: Run, write: Write) -> None:
    cluster = write(build_node("n1", "4"), build_pod("running", "3", nodeName="n1"), build_pod("stuck", "9"))
    manifest = write(build_pod("new", "2"), name="pod.json")
    code, out, _ = run("explain", "-f", cluster, "-f", manifest)
    assert code == 1
    assert out.startswith("default/new Unschedulable")


def test_manifest_is_created_in_the_requested_namespace(run: Run, write: Write) -> None:
    cluster = write(build_node("n1"))
    unplaced = build_pod("new")
    del unplaced["metadata"]["namespace"]
    file = write(unplaced, name="pod.json")
    assert run("explain", "-f", cluster, "-f", file, "-n", "shop", "-o", "name").out == "shop/new\n"
    file = write(build_pod("new", namespace="team"), name="pod.json")
    assert "the manifest says namespace" in run("explain", "-f", cluster, "-f", file, "-n", "shop").err


def test_manifest_replaces_the_pod_of_its_name(run: Run, write: Write) -> None:
    """The pod does not conflict with its own host port."""
    ports = [{"name": "c", "image": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    cluster = write(build_node("n1"), build_pod("new", "4", nodeName="n1"))
    manifest = write(build_pod("new") | {"spec": {"containers": ports}}, name="pod.json")
    assert run("explain", "-f", cluster, "-f", manifest).code == 0


def test_manifest_from_stdin(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = write(build_node("n1"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(build_pod("piped")).encode())))
    assert run("explain", "-f", cluster, "-f", "-", "-o", "name").out == "default/piped\n"


def test_manifest_without_labels_or_status(run: Run, write: Write, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {generateName: web-}, spec: {containers: [{name: c, image: w}]}}"
    )
    code, out, _ = run("explain", "-f", write(build_node("n1")), "-f", str(file))
    assert code == 0
    assert out.startswith("default/web- Schedulable")


def test_pending_pods_are_grouped_by_cause(run: Run, write: Write) -> None:
    wanting = [build_pod(f"big-{i}", "9") for i in range(3)]
    gated = build_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    running, ended = build_pod("running", nodeName="n1"), build_pod("ended") | {"status": {"phase": "Succeeded"}}
    file = write(
        build_node("n1"), *wanting, gated, running, ended, build_pod("elsewhere", namespace="shop"), build_pod("fine")
    )
    code, out, _ = run("explain", "-f", file, "-o", "json")
    assert code == 1
    document = json.loads(out)
    assert (document["apiVersion"], document["kind"]) == ("kschedctl.dev/v1", "PendingPods")
    groups = {group["verdict"]: group["pods"] for group in document["groups"]}
    assert groups == {
        "Unschedulable": ["default/big-0", "default/big-1", "default/big-2"],
        "Gated": ["default/gated"],
        "Schedulable": ["default/fine"],
    }
    assert document["groups"][0]["cause"] == "Insufficient cpu"
    assert "kschedctl explain" not in out
    assert run("explain", "-f", file).commands == [f"kschedctl explain default/big-0 -f {file}"]
    assert document["groups"][-1]["verdict"] == "Schedulable"


def test_suggested_command_gives_the_promised_answer(run: Run, write: Write) -> None:
    file = write(build_node("n1"), build_pod("big", "9"), name="a file.json")
    (next_command,) = run("explain", "-f", file).commands
    assert next_command.endswith(f"-f '{file}'")
    assert run("explain", "default/big", "-f", file).code == 1


def test_selector_and_namespaces_choose_pods(run: Run, write: Write) -> None:
    file = write(build_node("n1"), build_pod("a", "9"), build_pod("b", "9"), build_pod("c", "9", namespace="shop"))
    assert run("explain", "-f", file, "-l", "app in (b, c)", "-o", "name").out == "default/b\n"
    assert run("explain", "-f", file, "-A", "-l", "app!=a", "-o", "name").out == "default/b\nshop/c\n"
    code, _, err = run("explain", "-f", file, "-l", "app in (")
    assert code == 2
    assert err.startswith("error: unable to parse requirement")


def test_nothing_pending_exits_0_and_suggests_other_namespaces(run: Run, write: Write) -> None:
    file = write(build_node("n1"), build_pod("running", nodeName="n1"), build_pod("stuck", "9", namespace="shop"))
    code, out, _ = run("explain", "-f", file)
    assert code == 0
    assert out.startswith("Nothing is pending in namespace default")
    assert f"kschedctl explain -A -f {file}" in out
    assert run("explain", "-f", write(build_node("n1"), build_pod("running", nodeName="n1")), "-A").out.count("\n") == 1


def test_bound_pod_exits_0(run: Run, write: Write) -> None:
    code, out, _ = run("explain", "web", "-f", write(build_node("n1"), build_pod("web", nodeName="n1")))
    assert code == 0
    assert "already on node n1" in out


def test_json_has_the_contract_keys_and_matches_yaml(run: Run, write: Write) -> None:
    file = write(build_node("n1", "1"), build_pod("web", "2"))
    document = json.loads(run("explain", "web", "-f", file, "-o", "json").out)
    assert document.keys() >= CONTRACT
    assert list(document)[:2] == ["apiVersion", "kind"]
    assert document["firstFail"]["n1"]["plugin"] == "NodeResourcesFit"
    assert yaml.safe_load(run("explain", "web", "-f", file, "-o", "yaml").out) == document


def test_markdown_has_the_same_answer(run: Run, write: Write) -> None:
    out = run("explain", "web", "-f", write(build_node("n1", "1"), build_pod("web", "2")), "-o", "markdown").out
    assert out.startswith("**default/web** **Unschedulable:** needs 2 CPUs, but the only node, n1, has only 1")
    assert "kube-scheduler: 0/1 nodes are available" in out.replace("_", "").replace("*", "")
    assert "| 1 | **1** | NodeResourcesFit | Insufficient cpu |" in out


def test_many_nodes_fit_one_screen_unless_all_are_requested(run: Run, write: Write) -> None:
    file = write(*(build_node(f"node-{i}", "1") for i in range(500)), build_pod("web", "2"))
    out = run("explain", "web", "-f", file).out
    assert out.count("\n") < 40
    assert ["500", "node-0,", "node-1,", "…", "NodeResourcesFit"] in [line.split()[:5] for line in out.splitlines()]
    for option in (["--each-node"], ["-o", "wide"]):
        out = run("explain", "web", "-f", file, *option).out
        assert all(f"node-{i} " in out for i in range(500))


def test_options_of_the_scheduler(run: Run, write: Write, tmp_path: Path) -> None:
    profiles = "[{schedulerName: batch, plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]"
    config = tmp_path / "config.yaml"
    config.write_text(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: {profiles}\n"
    )
    file = write(build_node("n1", "1"), build_pod("web", "2"))
    code, out, _ = run("explain", "web", "-f", file, "--config", str(config))
    assert code == 1
    assert out.startswith("default/web Handled by another scheduler")
    assert run("explain", "web", "-f", file, "--config", str(config), "--scheduler-name", "batch").code == 0
    assert run("explain", "web", "-f", file, "-f", str(config), "--scheduler-name", "batch").code == 0
    document = json.loads(run("explain", "web", "-f", file, "--kube-version", "1.33", "-o", "json").out)
    assert document["kubeVersion"] == "1.33"


def test_higher_priority_makes_room_by_preemption(run: Run, write: Write) -> None:
    file = write(
        build_node("n1", "2"), build_pod("running", "2", nodeName="n1", priority=5), build_pod("web", "1", priority=0)
    )
    assert json.loads(run("explain", "web", "-f", file, "-o", "json").out)["preemption"]["candidates"] == {}
    code, out, _ = run("explain", "web", "-f", file, "--as-if-priority", "9")
    assert code == 1
    assert "kube-scheduler would make room on n1 by evicting 1 pod" in out
    assert "default/running" in out


def test_read_files_are_reported_only_on_request(run: Run, write: Write) -> None:
    file = write(
        build_node("n1"), build_pod("web"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    )
    assert run("explain", "web", "-f", file).err == ""
    told = run("explain", "web", "-f", file, "-v").err
    assert "1 Node" in told
    assert "1 ConfigMap" in told


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "json", "yaml", "name"])
@pytest.mark.parametrize("which", [["web"], ["-A"]], ids=["pod", "all"])
def test_every_form_names_what_is_not_replayed(
    run: Run, write: Write, tmp_path: Path, form: str, which: list[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: https://x.example, filterVerb: filter}]\n"
    )
    file = write(build_node("n1"), build_pod("web"))
    _, out, err = run("explain", *which, "-f", file, "--config", str(config), "-o", form)
    if form in ("json", "yaml"):
        assert yaml.safe_load(out)["notReplayed"] == ["extender https://x.example"]
    else:
        line = "not replayed: extender https://x.example"
        told, line = (err, line) if form == "name" else (out.replace("`", ""), line.capitalize())
        assert told.splitlines().count(line) == 1


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--as-if", "cpu=2"], (0, "on large")),
        (["--as-if", "node=large"], (1, "needs 12 CPUs")),
        (
            ["--as-if", "cpu=9", "--as-if", "memory=0"],
            (1, "needs 9 CPUs, but the largest node has only"),
        ),
        (["--as-if", "cpu=1", "--as-if", "node=small", "--as-if-priority", "9"], (0, "of 3 feasible nodes")),
    ],
)
def test_pod_with_assumed_changes(options: list[str], answer: tuple[int, str], run: Run, write: Write) -> None:
    file = write(build_node("small", "1"), build_node("large", "8"), build_pod("web", "12"))
    code, out, _ = run("explain", "web", "-f", file, "--no-remedies", *options)
    assert (code, answer[1] in " ".join(out.split())) == (answer[0], True)


@pytest.mark.parametrize("words", ["cpu", "cpu=x", "cpu=-1", "gpu=1", "tolerate=a:b", "node=none", "priority=1e3"])
def test_invalid_assumption_is_an_error_of_one_line(words: str, run: Run, write: Write) -> None:
    file = write(build_node("small", "1"), build_pod("web", "12"))
    code, out, err = run("explain", "web", "-f", file, "--as-if", words)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_ages_count_until_today_if_files_have_no_time(run: Run, write: Write, tmp_path: Path) -> None:
    """A snapshot says when the cluster was read, and the demo has a time of its own."""
    waiting = build_pod("web", "9")
    waiting["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    note = "Ages are as of today"
    file = write(build_node("small", "1"), waiting)
    assert note in run("explain", "-A", "-f", file).out
    assert json.loads(run("explain", "-A", "-f", file, "-o", "json").out)["agedUntilNow"] is True
    assert (
        note not in run("explain", "-A", "-f", write(build_node("small", "1"), build_pod("web", "9"))).out
    )  # no age is shown
    assert note not in run("explain", "-A", "--demo").out


def test_brief_form_of_several_workloads_has_a_fix_and_a_command(run: Run, write: Write) -> None:
    cluster = write(build_node("n1"))
    manifests = write(build_pod("small"), build_pod("big", "9"), build_pod("bigger", "19"), name="pods.json")
    found = run("explain", "-f", cluster, "-f", manifests, "--assume-complete", "--brief")
    lines = found.out.splitlines()
    assert lines[0].startswith("1 of 3 pods ")
    assert lines[1].startswith("fix: for default/big: ")
    assert lines[-1] == f"more: kschedctl explain -f {cluster} -f {manifests} --assume-complete"
