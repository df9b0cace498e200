"""berops/claudie#1508: a PodDisruptionBudget allows nothing because one of its pods is not Ready.

Right answer: n1 cannot be drained until dns-b is Ready, and dns-b is named; n2, where the unready pod itself runs, can.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from autoscaling_cases import get_case_path, run, run_json

CASE = "25-pdb-unhealthy-drain"
NAMED = "kube-system/dns-b on n2 is not Ready, which uses up the budget"


@pytest.mark.parametrize("file", ["in.yaml", "in2.yaml"])
def test_unready_pod_is_named(capsys: pytest.CaptureFixture[str], file: str) -> None:
    code, text = run(capsys, "drain", "n1", "-f", get_case_path(CASE, file))
    assert code == 1
    assert "n1 cannot be drained:" in text
    assert NAMED in text
    # In in2.yaml, the budget demands both pods, so that a healthy dns-b is not enough
    assert ("even with both pods healthy, it would allow none" in text) == (file == "in2.yaml")
    (blocked,) = run_json(capsys, "drain", "n1", "-f", get_case_path(CASE, file))["blocked"]
    assert blocked["unhealthy"] == ["kube-system/dns-b"]


def test_node_of_the_unready_pod_can_be_drained(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "drain", "n2", "-f", get_case_path(CASE))
    assert text.startswith("n2 is probably safe to drain:")
    assert "the files may lack Services or ReplicaSets" in " ".join(text.split())


def test_order_of_the_nodes_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """dns-a may be evicted only once the replacement of dns-b is Ready, so kubectl drain n1 n2 would hang on n1."""
    (delayed,) = run_json(capsys, "drain", "n1", "n2", "-f", get_case_path(CASE))["delayed"]
    assert (delayed["pod"], delayed["node"]) == ("kube-system/dns-a", "n1")
    _, text = run(capsys, "drain", "n1", "n2", "-f", get_case_path(CASE), "--brief")
    assert "drain n2 first; n1 only once the replacements are ready" in " ".join(text.split())
    assert run_json(capsys, "drain", "n2", "-f", get_case_path(CASE))["delayed"] == []


def test_safe_order_is_given_if_a_node_alone_cannot_be_drained(capsys: pytest.CaptureFixture[str]) -> None:
    """Once the replacement of dns-b on n3 is healthy, the PDB allows the eviction of dns-a."""
    path = get_case_path(CASE)
    assert run_json(capsys, "drain", "n1", "-f", path)["drainFirst"] == ["n2"]
    for options in ((), ("--brief",)):
        _, text = run(capsys, "drain", "n1", "-f", path, *options)
        sentence = "the drain is possible if n2 is drained first and the replacement of kube-system/dns-b becomes Ready"
        assert sentence in " ".join(text.split())
        assert f"kschedctl drain n2 n1 -f {path}" in text
    assert run_json(capsys, "drain", "n1", "n2", "-f", path)["commands"] == ["kubectl drain n2 n1"]

    # In in2.yaml, the budget demands both pods, so that no order is safe
    assert run_json(capsys, "drain", "n1", "-f", get_case_path(CASE, "in2.yaml"))["drainFirst"] == []


def test_consolidate_names_the_unready_pod(capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "consolidate", "-f", get_case_path(CASE))
    (staying,) = report["staying"]
    assert staying["node"] == "n1"
    assert NAMED in staying["why"]


def test_cluster_autoscaler_names_the_unready_pod(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same PDB keeps n1 in a scale-down, with the reason NotEnoughPdb."""
    groups = tmp_path / "groups.yaml"
    group = "nodeGroups:\n- {id: a, min: 1, max: 5, target: 3, nodes: [n1, n2, n3]}\n"
    groups.write_text(f"{group}options: {{skipNodesWithCustomControllerPods: false}}\n")
    _, text = run(capsys, "scale", "down", "-f", get_case_path(CASE), "--node-groups", str(groups))
    assert "kept by kube-system/dns-a: its PDB allows no disruption (NotEnoughPdb)" in text
    assert NAMED in text
