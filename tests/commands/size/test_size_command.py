"""Check ``kschedctl size`` as users see it: files alone, gaps in a catalogue, plots, Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from kschedctl.commands.size.replays import NodeSets

Json = dict[str, Any]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "3"}}}]},
        },
    },
}
TYPE = {
    "name": "small",
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "4", "memory": "16Gi", "pods": "20"},
    "overhead": {"cpu": "0", "memory": "0"},
    "offerings": [{"Price": 0.25, "Available": True, "Requirements": []}],
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a Deployment of three pods with 3 CPUs, and an instance type with 4 CPUs."""
    (tmp_path / "app.json").write_text(json.dumps(DEPLOYMENT))
    (tmp_path / "types.json").write_text(json.dumps([TYPE]))
    return ["-f", str(tmp_path / "app.json"), "--instance-types", str(tmp_path / "types.json")]


def test_workloads_of_files_on_nodes_of_a_catalog(run: Run, files: list[str]) -> None:
    code, out, _ = run("size", *files, "--assume-complete")
    assert code == 0
    assert out.splitlines()[0] == "3 nodes for $0.75 an hour can run 3 pods; their requests alone need at least $0.75"


def test_error_says_how_files_become_a_cluster(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, out, err = run("size", *files)
    assert (code, out) == (3, "")
    assert err.rstrip().endswith("--assume-complete if the files are the whole cluster)")


def test_plots_of_pools_before_and_after(run: Run) -> None:
    code, out, _ = run("size", "--demo", "--plot")
    assert code == 1  # some pods of the demo get no node of any set
    assert "Nodes by pool, before and after" in out
    assert run("size", "--demo", "-o", "svg").out.startswith("<svg ")
    page = run("size", "--demo", "-o", "html").out
    assert "Pools, before → after" in page
    assert "2 → 1" in page
    assert "Nodes by pool, before and after" in page


@pytest.mark.parametrize("output", ["table", "json"])
def test_ctrl_c_prints_the_best_so_far(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """The user interrupts after the first replay, in which three nodes take all pods."""
    whole, replays = NodeSets.find_pods_without_node, list[int]()

    def waiting(sets: NodeSets, counts: Any) -> Any:
        replays.append(1)
        if len(replays) > 1:
            raise KeyboardInterrupt
        return whole(sets, counts)

    monkeypatch.setattr(NodeSets, "find_pods_without_node", waiting)
    code, out, _ = run("size", *files, "--assume-complete", "-o", output)
    assert code == 130
    if output == "json":
        report = json.loads(out)
        assert (report["interrupted"], report["nodes"], report.get("never", [])) == (True, 3, [])
    else:
        assert out.splitlines()[0].startswith("Interrupted:")
        assert "3 nodes for $0.75 an hour can run 3 pods" in out
