"""Check sources, formats and exit codes of `simulate`, `capacity`, `drain`, `failures` and `whatif`."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from command_line import Run, Write, build_pod

from kschedctl.cluster import Cluster
from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.commands.simulate import simulate
from kschedctl.replay.parallel import Progress

Json = dict[str, Any]


def build_node(name: str, zone: str, cpu: str = "4") -> Json:
    labels = {"topology.kubernetes.io/zone": zone, "pool": "p"}
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def build_running_pod(name: str, node_name: str, cpu: str = "1") -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    metadata = {"name": name, "namespace": "d", "uid": name, "ownerReferences": [owner]}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node_name, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def build_waiting_pod(name: str, cpu: str) -> Json:
    found = build_running_pod(name, "", cpu)
    return found | {"status": {"phase": "Pending"}}


def build_deployment(replicas: int, cpu: str = "1") -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "api"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": spec}


CLUSTER = [build_node("n1", "a"), build_node("n2", "b"), build_running_pod("r1", "n1")]


@pytest.fixture
def files(write: Write) -> list[str]:
    """Write a cluster, and a manifest of a workload that it does not have yet."""
    return ["-f", write(*CLUSTER), "-f", write(build_deployment(5), name="api.json")]


def test_simulate(run: Run, files: list[str]) -> None:
    found = run("simulate", *files)
    assert found.code == 0
    assert "All scheduled: 5 of 5 pods get a node" in found.out
    assert "Deployment default/api 5/5" in " ".join(found.out.split())


def test_simulate_pods_that_do_not_fit(run: Run, write: Write) -> None:
    found = run("simulate", "-f", write(*CLUSTER), "-f", write(build_deployment(9), name="api.json"))
    assert found.code == 1
    assert "2 pods not scheduled: 7 of 9 pods get a node" in found.out
    assert "fit on none of the 2 nodes: 2 lack CPU" in found.out


def test_simulate_from_standard_input(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO(yaml.dump(build_deployment(1)).encode()))
    monkeypatch.setattr("sys.stdin", text)
    assert "1 of 1 pod get" in run("simulate", "-f", write(*CLUSTER), "-f", "-").out


def test_simulate_in_the_demo_cluster(run: Run, write: Write) -> None:
    found = run(
        "simulate", "--demo", "-n", "shop", "-f", write(build_deployment(1, "100m"), name="api.json"), "-o", "json"
    )
    assert json.loads(found.out)["placements"].keys() == {"shop/api-new-0"}


def test_without_manifests(run: Run, write: Write) -> None:
    assert run("simulate", "--demo").code == 2
    found = run("simulate", "-f", write(*CLUSTER))
    assert (found.code, found.err.startswith("error: ")) == (2, True)
    assert "no workload among the manifests" in found.err


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "markdown", "csv"])
@pytest.mark.parametrize("command", ["simulate", "capacity", "drain", "failures", "whatif"])
def test_every_form(run: Run, write: Write, files: list[str], command: str, form: str) -> None:
    scenario = Path(files[1]).parent / "scenario.yaml"
    scenario.write_text("steps: [{cordon: {nodes: [n2]}}, {fail: {zone: a}}]")
    arguments = {
        "simulate": files,
        "capacity": [*files, "--max", "3"],
        "drain": ["-f", write(*CLUSTER), "n1"],
        "failures": ["-f", write(*CLUSTER), "--jobs", "1"],
        "whatif": ["-f", write(*CLUSTER), str(scenario)],
    }
    found = run(command, *arguments[command], "-o", form)
    assert (found.code, found.err) == (1 if command == "whatif" else 0, "")
    if form in ("json", "yaml"):
        document = yaml.safe_load(found.out)
        assert document["apiVersion"] == "kschedctl.dev/v1"
        jsonschema.validate(document, build_schema(DOCUMENTS[command.replace("simulate", "simulation")]))
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(found.out)))
        assert rows
        assert all(None not in row and None not in row.values() for row in rows)
    else:
        assert found.out


def test_capacity(run: Run, write: Write) -> None:
    shape = write(build_deployment(1, "2"), name="shape.json")
    found = run("capacity", "-f", write(*CLUSTER), "-f", shape)
    assert found.code == 0
    assert "Deployment default/api: 3 more fit on 2 nodes" in found.out
    assert run("capacity", "-f", write(*CLUSTER), "-f", shape, "--max", "4").code == 1
    assert run("capacity", "-f", write(*CLUSTER), "-f", shape, "--max", "0").code == 2


def test_drain(run: Run, write: Write) -> None:
    cluster = write(*CLUSTER)
    outage = "n1 can be drained, but this leaves ReplicaSet d/web without a running pod for a while; "
    assert run("drain", "-f", cluster, "n1").out.startswith(outage)
    assert run("drain", "-f", cluster, "-l", "topology.kubernetes.io/zone=a").code == 0
    assert run("drain", "-f", cluster).code == 2
    assert 'node "n11" not found (did you mean' in run("drain", "-f", cluster, "n11").err
    crowded = write(
        *CLUSTER, build_running_pod("r2", "n1", "4"), build_running_pod("r3", "n2", "3"), name="crowded.json"
    )
    assert run("drain", "-f", crowded, "n1").code == 1


def test_failures(run: Run, write: Write) -> None:
    cluster = write(*CLUSTER)
    found = run("failures", "-f", cluster)
    assert (found.code, "Any zone can be lost: every recreated pod gets a node" in found.out) == (0, True)
    crowded = write(
        *CLUSTER, build_running_pod("r2", "n1", "4"), build_running_pod("r3", "n2", "3"), name="crowded.json"
    )
    found = run("failures", "-f", crowded, "--nodes")
    assert (found.code, "lost without disruption" in found.out) == (1, True)
    assert run("failures", "-f", cluster, "--nodes", "--zones").code == 2
    assert run("failures", "-f", cluster, "--jobs", "-1").code == 2


def test_whatif(run: Run, write: Write, tmp_path: Path) -> None:
    cluster, scenario = write(*CLUSTER), tmp_path / "scenario.yaml"
    (tmp_path / "api.yaml").write_text(yaml.dump(build_deployment(2)))
    scenario.write_text("steps: [{apply: {files: [api.yaml]}}]")
    found = run("whatif", "-f", cluster, str(scenario))
    assert found.code == 0
    assert "Effect on pods: 2 created" in found.out
    scenario.write_text("steps: [{drain: {nodes: [n9]}}]")
    found = run("whatif", "-f", cluster, str(scenario))
    assert (found.code, f'error: {scenario}: step 1 (drain): node "n9" not found' in found.err) == (2, True)
    assert run("whatif", "-f", cluster).code == 2


@pytest.mark.parametrize("form", [[], ["--brief"], ["-o", "json", "--summary"]], ids=["page", "brief", "summary"])
def test_whatif_of_a_drain_that_a_budget_blocks(run: Run, write: Write, form: list[str]) -> None:
    meta = {"name": "b", "namespace": "d"}
    spec = {"maxUnavailable": 0, "selector": {}}
    cluster = write(
        *CLUSTER, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    )
    found = run("whatif", "-f", cluster, '{"steps": [{"drain": {"nodes": ["n1"]}}]}', *form)
    assert found.code == 1
    assert "Step 1 cannot be completed: n1 – 1 pod cannot be evicted" in found.out
    assert "never allows an eviction: its maxUnavailable is 0" in found.out


def test_whatif_of_pods_that_are_not_created(run: Run, write: Write, tmp_path: Path) -> None:
    limits = {"hard": {"pods": "1"}}
    meta = {"name": "q", "namespace": "default"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": limits}
    cluster = write(*CLUSTER, {**quota, "status": {**limits, "used": {"pods": "0"}}})
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(yaml.dump({"steps": [{"apply": {"manifests": [build_deployment(3, "100m")]}}]}))
    found = run("whatif", "-f", cluster, str(scenario), "--assume-complete")
    assert (found.code, found.out.startswith("Not created: 2 of 3 pods")) == (1, True)


def test_whatif_without_moves_and_with_unread_kinds(run: Run, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(yaml.dump(build_node("n1", "a")))
    found = run("whatif", "-f", str(tmp_path / "node.yaml"), "--compare-version", "1.36", "1.37")
    assert found.code == 5
    assert found.out.startswith("No pending pod ends up elsewhere (not certain: ")


@pytest.mark.parametrize(("versions", "is_verified"), [(("1.35", "1.36"), True), (("1.36", "1.37"), False)])
def test_version_known_only_from_its_sources(run: Run, versions: tuple[str, str], is_verified: bool) -> None:
    said = "kube-scheduler 1.37 is replayed from its sources, without a comparison with a real scheduler; 4 changes are"
    for arguments in (["whatif", "--demo", "--compare-version", *versions], ["versions", *versions]):
        for form in ([], ["--brief"], ["-o", "json", "--summary"], ["-o", "markdown"]):
            found = run(*arguments, *form)
            assert found.code == 0
            assert (said in " ".join(found.out.split())) == (not is_verified)


def test_two_configurations(run: Run, write: Write, tmp_path: Path) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    strategy = "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}}"
    packed = f"{head}profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {strategy}}}]}}]\n"
    (tmp_path / "even.yaml").write_text(head)
    (tmp_path / "packed.yaml").write_text(packed)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(yaml.dump({"steps": [{"apply": {"manifests": [build_deployment(1, "500m")]}}]}))
    both = (str(tmp_path / "even.yaml"), str(tmp_path / "packed.yaml"))
    found = run("whatif", "-f", write(*CLUSTER), str(scenario), "--compare-config", *both)
    assert found.code == 0
    assert "Effect on pods: 1 moved" in found.out


def test_configurations_are_compared_for_running_pods(run: Run, write: Write, tmp_path: Path) -> None:
    """Without r3, 2 of 4 CPUs are requested on n1 and none on n2, so r3 gets n2 or n1.

    Without r1, 1 is requested on both. w1 fits only on n2, which has 3 CPUs free, and w2 fits nowhere, so these pods do
    not differ between the configurations.
    """
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    strategy = "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}"
    fit = f"pluginConfig: [{{name: NodeResourcesFit, args: {strategy}}}]"
    plugins = "plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}"
    (tmp_path / "even.yaml").write_text(f"{head}profiles: [{{{plugins}}}]\n")
    (tmp_path / "packed.yaml").write_text(f"{head}profiles: [{{{plugins}, {fit}}}]\n")
    both = (str(tmp_path / "even.yaml"), str(tmp_path / "packed.yaml"))
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b"),
        build_running_pod("r1", "n1"),
        build_running_pod("r2", "n1"),
        build_running_pod("r3", "n2"),
    ]
    cluster = write(*objects, build_waiting_pod("w1", "3"), build_waiting_pod("w2", "9"))

    found = run("whatif", "-f", cluster, "--assume-complete", "--compare-config", *both)
    assert found.out.startswith(
        "No pending pod ends up elsewhere; 1 of 3 pods would get a different best node if recreated"
    )
    assert "even without the steps" not in found.out
    assert "BECAUSE OF" not in found.out

    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(yaml.dump({"steps": [{"cordon": {"nodes": ["n2"]}}]}))
    arguments = ("whatif", "-f", cluster, "--assume-complete", str(scenario), "--compare-config", *both)
    found = run(*arguments)
    assert found.out.count("Steps") == 1
    assert "each once the steps are taken" in found.out
    assert json.loads(run(*arguments, "-o", "json").out)["stepsBefore"][0]["step"] == "cordon"


class InterruptingProgress:
    """The user presses Ctrl-C after three pods."""

    def begin(self, what: str, total: int) -> Any:
        seen = 0

        def done(number: int) -> None:
            nonlocal seen
            seen += number
            if seen == 3:
                raise KeyboardInterrupt

        return done


def test_interrupted_simulation_shows_the_results_so_far() -> None:
    progress: Progress = InterruptingProgress()
    report = simulate(Cluster.from_objects(CLUSTER), [build_deployment(6)], progress=progress)
    assert report.interrupted
    assert (report.placed, report.unplaced) == (3, 3)
    assert [group.verdict for group in report.pending] == ["NotTried"]
    runs = simulate(Cluster.from_objects(CLUSTER), [build_deployment(6)], runs=9, progress=progress)
    assert runs.interrupted
    assert runs.variation is not None
    assert runs.variation.runs == 3


CROWDED = [*CLUSTER, build_running_pod("r2", "n1", "4"), build_running_pod("r3", "n2", "3")]


@pytest.mark.parametrize(
    ("arguments", "pods"),
    [(("drain", "n1"), {"d/r2"}), (("failures", "--nodes"), {"d/r2"}), (("whatif", "-"), {"d/r2"})],
    ids=["drain", "failures", "whatif"],
)
def test_names_of_the_pods_without_a_node(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], pods: set[str]
) -> None:
    """r2 needs four cores, and n2 has one left; r1 fits."""
    text = io.TextIOWrapper(io.BytesIO(b"steps: [{fail: {nodes: [n1]}}]"))
    monkeypatch.setattr("sys.stdin", text)
    found = run(*arguments, "-f", write(*CROWDED), "-o", "name")
    assert found.code == 1
    assert pods <= set(found.out.split())


def test_capacity_names_no_pods(run: Run, files: list[str]) -> None:
    found = run("capacity", *files, "-o", "name")
    assert found.code == 2
    assert "'name' is not one of 'table'" in found.err


def test_shape_that_does_not_fit_has_a_row(run: Run, write: Write) -> None:
    found = run("capacity", "-f", write(*CLUSTER), "-f", write(build_deployment(1, "9"), name="big.json"), "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(found.out))
    assert (row["shape"], row["fits"], row["node"], row["pods"]) == ("Deployment default/api", "0", "", "0")
    assert row["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


@pytest.mark.parametrize("command", [["drain", "n1"], ["failures", "--nodes"]], ids=["drain", "failures"])
def test_suggested_scenario_runs_and_helps(run: Run, write: Write, command: list[str]) -> None:
    """The command is complete, does not read standard input, and leaves no pod without a node.

    One more node like n1 is not enough, since r1 takes a part of it and r2 needs a whole node.
    """
    question = [*command, "-f", write(*CROWDED), "--seed", "7"]
    (line,) = run(*question).commands
    assert not {"|", "<", "-"} & set(shlex.split(line))
    program, *arguments = shlex.split(line)
    assert (program, arguments[:1], arguments[2:4]) == ("kschedctl", ["whatif"], ["--seed", "7"])
    assert '"count": 2' in arguments[1]
    assert json.loads(arguments[1]) == json.loads(run(*question, "-o", "json").out)["remedy"]
    assert run(*arguments).code == 0


@pytest.mark.parametrize("command", [["drain", "n1"], ["failures", "--nodes"]], ids=["drain", "failures"])
def test_useless_nodes_are_not_proposed(run: Run, write: Write, command: list[str]) -> None:
    """r9 can run only on n1, so more nodes do not help."""
    pinned = build_running_pod("r9", "n1")
    pinned["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    found = run(*command, "-f", write(*CLUSTER, pinned), "-o", "json")
    assert found.code == 1
    assert json.loads(found.out)["remedy"] is None


def test_new_node_is_not_modeled_on_a_cordoned_node(run: Run, write: Write) -> None:
    """n1 is already cordoned, as is usual before a drain, and one more like it would be, too."""
    cordoned = [build_node("n1", "a") | {"spec": {"unschedulable": True}}, *CROWDED[1:]]
    for line in run("drain", "n1", "-f", write(*cordoned)).commands:
        assert '"like": "n1"' not in line


@pytest.mark.parametrize("command", [["explain", "-A"], ["drain", "n1"], ["failures", "--nodes"]], ids=lambda c: c[0])
def test_suggested_command_does_not_wait_for_standard_input(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    text = json.dumps({"kind": "List", "items": [*CROWDED, build_waiting_pod("waits", "9")]})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = run(*command, "-f", "-", "--assume-complete")
    assert found.code == 1
    assert "kschedctl" not in found.out


def test_suggested_command_uses_the_same_scheduler(run: Run, write: Write) -> None:
    found = run("explain", "-n", "d", "-f", write(*CLUSTER, build_waiting_pod("big", "9")), "--kube-version", "1.33")
    (line,) = found.commands
    assert "--kube-version 1.33" in line


def test_scenario_on_the_command_line(run: Run, write: Write) -> None:
    file = write(*CROWDED)
    assert "Effect on pods:" in run("whatif", '{"steps": [{"fail": {"nodes": ["n1"]}}]}', "-f", file).out
    found = run("whatif", '{"steps": [{"fial": {}}]}', "-f", file)
    assert found.code == 2
    assert found.err.startswith("error: SCENARIO")


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("command", [["drain", "n1"], ["failures", "--nodes"]], ids=["drain", "failures"])
def test_processes_and_runs(run: Run, write: Write, command: list[str], jobs: str) -> None:
    cluster = write(*CLUSTER)
    alone = run(*command, "-f", cluster, "--runs", "3", "--jobs", "1", "-o", "json")
    found = run(*command, "-f", cluster, "--runs", "3", "--jobs", jobs, "-o", "json")
    assert (found.code, found.out) == (0, alone.out)
    assert json.loads(found.out)["runs"] == 3
    assert run(*command, "-f", cluster, "--runs", "0").code == 2


def test_nodes_without_a_zone_are_reported(run: Run, write: Write) -> None:
    outside = build_node("n3", "a")
    outside["metadata"]["labels"] = {}
    found = run("failures", "-f", write(*CLUSTER, outside))
    assert "1 node belongs to no zone: n3 (without a zone label, so no simulated loss includes them)" in found.out
    assert (
        "No pair of zones can be lost without disruption"
        in run("failures", "--zones", "--pairs", "-f", write(*CLUSTER)).out
    )


def test_node_of_a_pod_that_is_pending_now_is_marked(run: Run, write: Write) -> None:
    """Pod p would get n1 without the drain, and pod old runs there."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "old", "uid": "r", "controller": True}
    old = build_pod("old", "1", nodeName="n1", uid="old")
    waiting = build_pod("p", "1", uid="p")
    for pod in (old, waiting):
        pod["metadata"]["ownerReferences"] = [owner]
    scenario = json.dumps({"steps": [{"drain": {"nodes": ["n1"]}}]})
    question = ["whatif", scenario, "-f", write(build_node("n1", "a"), old, waiting)]
    changes = {change["pod"]: change for change in json.loads(run(*question, "-o", "json").out)["changes"]}
    assert {pod: (change["before"], change["waitsNow"]) for pod, change in changes.items()} == {
        "default/old": ("n1", False),
        "default/p": ("n1", True),
    }
    out = run(*question).out
    assert re.search(r"default/p +newly pending +n1 \(pending now\)", out)
    assert re.search(r"default/old +newly pending +n1\s*$", out, re.MULTILINE)
