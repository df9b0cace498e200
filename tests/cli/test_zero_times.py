"""Check that Go's zero time counts as unset in fields that are not pointers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import kschedctl
from kschedctl.cli.main import main

ZERO, FIRST, LAST = "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"
DEMO = Path(kschedctl.__file__).parent / "demo" / "cluster.yaml"
COMMANDS = {
    "explain": ["explain", "-A"],
    "simulate": ["simulate", "--pending"],
    "capacity": ["capacity", "-f", "pod.json"],
    "drain": ["drain", "general-a1"],
    "failures": ["failures"],
    "whatif": ["whatif", "steps.json"],
    "remedies": ["remedies", "shop/cart-5f7b8c9d4-w9dhs"],
    "wakes": ["wakes", "-A"],
    "audit": ["audit", "--now", "2026-05-06T12:00:00Z"],
    "priorities": ["priorities", "--now", "2026-05-06T12:00:00Z"],
    "races": ["races"],
    "lint": ["lint", "pod.json"],
    "snapshot": ["snapshot", "save", "-o", "x.ksched"],
}
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "one"},
    "spec": {"containers": [{"name": "c", "image": "a"}]},
}
STEPS = {"apiVersion": "kschedctl.dev/v1", "kind": "Scenario", "steps": [{"cordon": {"nodes": ["general-a1"]}}]}


def read_demo_documents() -> list[dict[str, Any]]:
    def flat(documents: Any) -> list[dict[str, Any]]:
        items = ([d] if not d["kind"].endswith("List") else flat(d["items"]) for d in documents)
        return [item for some in items for item in some]

    return flat(d for d in yaml.load_all(DEMO.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if d)


def set_creation_time(document: dict[str, Any], time: str | None) -> None:
    document["metadata"]["creationTimestamp"] = time


def set_condition_times(document: dict[str, Any], time: str | None) -> None:
    for condition in document.get("status", {}).get("conditions", ()):
        condition["lastTransitionTime"] = time


def start(document: dict[str, Any], time: str | None) -> None:
    if document["kind"] == "Pod":
        document.setdefault("status", {})["startTime"] = time


def answers(change: Callable[..., None], time: str | None, folder: Path, capsys: Any) -> Mapping[str, tuple[int, str]]:
    """Return the answer of each command about the demo with all times of a kind set to zero."""
    documents = read_demo_documents()
    for document in documents:
        change(document, time)
    (folder / "c.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": documents}))
    (folder / "pod.json").write_text(json.dumps(POD))
    (folder / "steps.json").write_text(json.dumps(STEPS))
    found = {}
    for name, command in COMMANDS.items():
        source = ["--with-cluster", "c.json"] if name == "lint" else ["-f", "c.json"]
        code, (out, err) = main([*command, *source]), capsys.readouterr()
        found[name] = code, out + err if name != "snapshot" else ""
    return found


@pytest.mark.parametrize("change", [set_creation_time, set_condition_times])
def test_zero_time_counts_as_unset(
    change: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zero, none = (answers(change, time, tmp_path, capsys) for time in (ZERO, None))
    assert zero == none
    assert {code for code, _ in zero.values()} <= {0, 1, 5}


@pytest.mark.parametrize("time", [ZERO, FIRST, LAST])
def test_every_start_time_is_accepted(
    time: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert {code for code, _ in answers(start, time, tmp_path, capsys).values()} <= {0, 1, 5}


@pytest.mark.parametrize(
    ("on_a", "on_b", "victim"),
    [
        (ZERO, "2020-01-01T00:00:00Z", "b"),
        ("2020-01-01T00:00:00Z", ZERO, "a"),
        (ZERO, None, "b"),
        (FIRST, ZERO, "b"),
        ("2300-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "a"),
    ],
)
def test_last_started_pod_is_preempted(on_a: str, on_b: str | None, victim: str) -> None:
    """A pod without a startTime counts as started now.

    A pod whose startTime is zero started before all others. Upstream: GetPodStartTime in pkg/scheduler/util/utils.go,
    and pickOneNodeForPreemption (v1.36).
    """

    def pod(name: str, priority: int, node: str = "", time: str | None = None) -> dict[str, Any]:
        containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
        spec = {"priority": priority, "containers": containers, **({"nodeName": node} if node else {})}
        meta = {"name": name, "namespace": "shop"}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": {"startTime": time}}

    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
        for name in "ab"
    ]
    cluster = kschedctl.Cluster.from_objects([*nodes, pod("x", 0, "a", on_a), pod("y", 0, "b", on_b), pod("new", 9)])
    preemption = kschedctl.explain(cluster, "shop/new").preemption
    assert preemption is not None
    assert (preemption.chosen, preemption.tied) == (victim, (victim,))
