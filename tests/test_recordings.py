"""Pods that a real control plane (v1.36) left Pending, with its messages, and pods that it placed, with its scores.

The cluster: twelve nodes in three zones, two of them tainted, one cordoned. ``recordings/pending.json.xz`` holds its
objects and each Pending pod's FailedScheduling messages, ``recordings/placed.jsonl.xz`` the objects just before a pod
came, that pod, and what the scheduler logged of it.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kschedctl

FOLDER = Path(__file__).parent / "recordings"
PENDING = json.loads(lzma.open(FOLDER / "pending.json.xz").read())
PLACED = [json.loads(line) for line in lzma.open(FOLDER / "placed.jsonl.xz")]

NEVER_TRIED = {
    "lab/p21-gated": "Gated",
    "lab/p22-other-scheduler": "NotResponsible",
    "lab/p28-dra-claim-missing": "Gated",
    "lab/p33-template-claim-noclass": "Gated",
}
"""Pods without a message, and our verdict on them."""


@cache
def cluster() -> kschedctl.Cluster:
    return kschedctl.Cluster.from_objects(PENDING["objects"])


def explained(pod: str) -> dict[str, Any]:
    return kschedctl.explain(cluster(), pod).to_dict()


@pytest.mark.parametrize("pod", [pod for pod, messages in PENDING["messages"].items() if messages])
def test_message(pod: str) -> None:
    """An event can be older than the recording, so any of the pod's messages counts."""
    assert explained(pod)["message"] in PENDING["messages"][pod]


@pytest.mark.parametrize("pod", [pod for pod, messages in PENDING["messages"].items() if not messages])
def test_verdict_without_message(pod: str) -> None:
    assert explained(pod)["verdict"] == NEVER_TRIED[pod]


@pytest.mark.parametrize("case", PLACED, ids=[case["name"] for case in PLACED])
def test_scores(case: dict[str, Any]) -> None:
    """The scheduler's choice is among our best nodes, and every weighted score is the logged one."""
    result = case["result"]
    found = kschedctl.explain(kschedctl.Cluster.from_objects(case["objects"]), case["pod"]).to_dict()
    by_node = {
        node: {plugin: scores[node] for plugin, scores in found["weighted"].items()} for node in found["feasible"]
    }
    assert by_node == {node: scored["plugins"] for node, scored in result["scored"].items()}
    assert found["total"] == {node: scored["final"] for node, scored in result["scored"].items()}
    assert len(found["feasible"]) == result["feasibleNodes"]
    assert sorted(found["best"]) == sorted(result["best"])
    assert result["chosen"] in found["best"]
