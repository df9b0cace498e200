"""kubernetes/autoscaler#8799: a GPU node group without nodes does not grow for a pod that requests a GPU.

Right answer: group gpu's template lacks nvidia.com/gpu; add the node-template resource tag.
"""

from __future__ import annotations

import pytest
from autoscaling_cases import get_case_path, run, run_json

CASE = "16-ca-gpu-from-zero"
ASK = ("-f", get_case_path(CASE), "--node-groups", get_case_path(CASE, "groups.yaml"))
TAG = "tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu=1"


def test_scale_names_the_resource_and_the_tag_first(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "scale", "up", *ASK)
    assert "Node group gpu has no nodes, and its template lacks the resource nvidia.com/gpu." in text
    assert TAG in text


def test_explain_says_what_the_template_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    pools = run_json(capsys, "explain", "default/train-x", *ASK)["newNode"]["pools"]
    missing = {pool["pool"]: pool.get("missing") for pool in pools}
    assert missing["cpu"] is None
    assert TAG in missing["gpu"][0]


def test_fix_adds_the_tag_for_the_resource(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "remedies", "default/train-x", *ASK)
    assert "Add the node-template tag for resource nvidia.com/gpu=1 to node group gpu" in text


def test_group_whose_taint_repels_the_pod_has_no_gap(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    """Without the toleration, the group's taint repels the pod, with or without the tag."""
    with open(get_case_path(CASE), encoding="utf-8") as file:
        text = file.read().replace("key: nvidia.com/gpu, operator: Exists", "key: other, operator: Exists")
    path = f"{tmp_path}/in.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    report = run_json(capsys, "scale", "up", "-f", path, "--node-groups", get_case_path(CASE, "groups.yaml"))
    assert not report.get("templateGaps")
