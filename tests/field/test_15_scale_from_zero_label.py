"""kubernetes/autoscaler#8341: a node group without nodes does not grow for a pod that selects a label of its own.

Right answer: group win has no nodes and its template lacks the label grp=windows; add the node-template tag.
"""

from __future__ import annotations

import pytest
from autoscaling_cases import get_case_path, run, run_json

CASE = "15-ca-from-zero-label"
TAG = "tag k8s.io/cluster-autoscaler/node-template/label/grp=windows"
FILES = ["in.yaml", "in2.yaml"]


def build_options(file: str) -> tuple[str, ...]:
    return ("-f", get_case_path(CASE, file), "--node-groups", get_case_path(CASE, "groups.yaml"))


@pytest.mark.parametrize("file", FILES)
def test_scale_names_the_label_and_the_tag_first(capsys: pytest.CaptureFixture[str], file: str) -> None:
    code, text = run(capsys, "scale", "up", *build_options(file))
    assert code == 1
    assert text.startswith(
        "No group grows for 1 unschedulable pod Node group win has no nodes, and its template lacks the label "
        f"grp=windows. With it, a new node would take default/iis-1-a. Add this to the group: {TAG} "
    )


@pytest.mark.parametrize("file", FILES)
def test_document_names_no_other_group(capsys: pytest.CaptureFixture[str], file: str) -> None:
    (gap,) = run_json(capsys, "scale", "up", *build_options(file))["templateGaps"]
    assert (gap["group"], gap["pods"]) == ("win", ["default/iis-1-a"])
    assert (gap["lacks"], gap["settings"], gap["provider"]) == (["label grp=windows"], [TAG], "AWS")


@pytest.mark.parametrize("file", FILES)
def test_explain_says_what_the_template_lacks(capsys: pytest.CaptureFixture[str], file: str) -> None:
    pools = run_json(capsys, "explain", "default/iis-1-a", *build_options(file))["newNode"]["pools"]
    (win,) = [pool for pool in pools if pool["pool"] == "win"]
    assert win["missing"] == [
        f"it has no nodes, and its template lacks the label grp=windows; with the {TAG} it would take the pod"
    ]
    assert all("missing" not in pool for pool in pools if pool["pool"] == "lin")
