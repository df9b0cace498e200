"""Check in every command that CapacityScheduling reclaims borrowed quota by preemption."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Write, build_node, build_pod

Json = dict[str, Any]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
"""
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}


@pytest.fixture
def config(tmp_path: Path) -> Sequence[str]:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGURATION)
    return "--config", str(path)


def build_quota(namespace: str) -> Json:
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    return {**kind, "metadata": {"name": "q", "namespace": namespace}, "spec": {"min": {"cpu": "3"}}}


def build_lent_quota() -> list[Json]:
    """Build a cluster in which b uses all of a's 3 CPUs, with more important pods that are created again.

    Both quotas have 6 CPUs in total, as has the node. A pod that comes back once a/web is nominated would exceed them.
    """
    found = [build_node("w1", "6"), build_pod("web", "2", "a")]
    for i in range(3):
        borrower = build_pod(f"p{i}", "2", "b", nodeName="w1", priority=1000 + i)
        borrower["metadata"]["ownerReferences"] = [OWNER]
        found.append(borrower)
    return found


def test_explain_names_the_plugin_and_its_victim(run: Run, write: Write, config: Sequence[str]) -> None:
    cluster = write(*build_lent_quota(), build_quota("a"), build_quota("b"))
    code, out, _ = run("explain", "a/web", "-f", cluster, *config)
    assert code == 1
    assert "Preemption by CapacityScheduling" in out
    found = json.loads(run("explain", "a/web", "-f", cluster, *config, "-o", "json").out)
    assert (found["preemption"]["chosen"], found["preemption"]["plugin"]) == ("w1", "CapacityScheduling")
    assert found["preemption"]["candidates"]["w1"]["victims"] == ["b/p0"]
    assert found["notReplayed"] == []


def test_simulate_evicts_and_places(run: Run, write: Write, config: Sequence[str]) -> None:
    out = run(
        "simulate", "-f", write(*build_lent_quota(), build_quota("a"), build_quota("b")), *config, "-o", "json"
    ).out
    found = json.loads(out)
    assert (found["placed"], found["unplaced"]) == (1, 0)
    assert [each["pod"] for each in found["evicted"]] == ["b/p0"]


def test_without_quotas_it_is_undecided(run: Run, write: Write, config: Sequence[str]) -> None:
    code, out, _ = run("explain", "a/web", "-f", write(*build_lent_quota(), whole=False), *config)
    assert code == 5
    assert "the files may lack ElasticQuotas" in " ".join(out.split())
