"""Check node names, exit codes in the help, and errors about kubeconfigs, namespaces and other input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.cli.main import COMMANDS
from kschedctl.reports.command import EXIT_CODES


def test_error_names_a_missing_kubeconfig(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nope/config")
    code, _, err = run("explain", "-A")
    assert code == 3
    assert "KUBECONFIG names /nope/config, which does not exist" in err


def test_error_repeats_the_kubeconfig_option(run: Run) -> None:
    code, _, err = run("explain", "-A", "--kubeconfig", "/nope")
    assert (code, err) == (3, "error: --kubeconfig /nope: no such file\n")


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_options_about_a_live_cluster_are_said_to_have_no_effect_on_files(run: Run, write: Write, command: str) -> None:
    files = write(build_node("n1"), build_pod("web"))
    _, _, err = run(command, "-f", files, "--assume-complete", "--context", "prod", "--as", "jane")
    assert err.splitlines()[0] == f"note: --context and --as have no effect on the cluster in {files}"


def test_options_about_a_live_cluster_are_said_to_have_no_effect_on_the_demo(run: Run) -> None:
    assert run("explain", "-A", "--demo", "--cluster", "prod").err.startswith(
        "note: --cluster has no effect on the demo cluster\n"
    )


@pytest.mark.parametrize("words", [["node/n1"], ["nodes/n1"], ["no/n1"], ["node", "n1"], ["n1"]])
def test_ways_to_name_a_node(run: Run, write: Write, words: list[str]) -> None:
    found = json.loads(
        run("drain", *words, "-f", write(build_node("n1"), build_node("n2")), "--assume-complete", "-o", "json").out
    )
    assert found["nodes"] == ["n1"]


def test_scenarios_accept_the_same_node_names(run: Run, write: Write, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("steps: [{addNodes: {like: node/n1, count: 1}}, {cordon: {nodes: [node/n1]}}]")
    code, _, err = run("whatif", str(scenario), "-f", write(build_node("n1"), build_pod("web")), "--assume-complete")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_the_exit_codes_of_the_command(run: Run, name: str) -> None:
    text = " ".join(run(name, "--help").out.split())
    findings = name in ("lint", "config", "audit", "latency", "priorities", "packing", "topology")
    assert ("0 no findings at or above --fail-on, 1 findings" in text) == findings
    assert ("1 does not schedule" in text) == (COMMANDS[name].exit_codes == EXIT_CODES)


@pytest.mark.parametrize("command", ["explain", "remedies", "wakes"])
def test_missing_namespace_is_named(command: str, run: Run, write: Write) -> None:
    """It can be known to be missing only if namespaces were read."""
    code, out, err = run(command, "-n", "shp", "--demo")
    assert (code, out, err) == (2, "", 'error: namespace "shp" not found (did you mean shop?)\n')
    assert run(command, "-n", "default", "--demo").code == 0
    assert run(command, "-n", "shp", "-f", write(build_node("n1"), build_pod("a", uid="a"), whole=False)).code != 2


def test_explain_service_points_to_its_pods(run: Run) -> None:
    code, _, err = run("explain", "svc/web", "-n", "shop", "--demo")
    assert (code, err) == (2, 'error: "svc/web" is a Service, not a pod (its pending pods: -n shop -l app=web)\n')
    assert run("explain", "-n", "shop", "-l", "app=web", "--demo").code in (0, 1)
    assert "deploy/NAME" in run("remedies", "services", "nope", "--demo").err


def test_kustomization_among_the_files_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [pod.json]\nnamePrefix: prod-\n"
    )
    (tmp_path / "pod.json").write_text(json.dumps(build_pod("web")))
    for command in ("simulate", "capacity"):
        assert "not built, so its files are read as they are" in run(command, "-f", str(tmp_path), "--demo").err


@pytest.mark.parametrize(("text", "told"), [("List\nitems: []", ""), ("ConfigMap", ", only ConfigMap")])
def test_files_without_pods_or_workloads(text: str, told: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"apiVersion: v1\nkind: {text}\n")
    code, _, err = run("explain", "-f", str(tmp_path / "x.yaml"), "--demo")
    assert (code, err.endswith(f"nothing that creates pods{told}\n")) == (2, True), err
