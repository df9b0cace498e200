"""Pods that name their node while a WaitForFirstConsumer claim waits for the scheduler to choose one."""

from __future__ import annotations

import json

import pytest
from command_line import Json, Run, Write, build_node, build_pod

CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM_VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
EPHEMERAL = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "late"}}}}


def build_claim(name: str, **spec: object) -> Json:
    modes = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"storageClassName": "late", **modes, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def build_pinned_pod(volume: Json, phase: str = "Pending") -> Json:
    return build_pod("pinned", nodeName="n1", volumes=[volume]) | {"status": {"phase": phase}}


@pytest.mark.parametrize(("volume", "name"), [(CLAIM_VOLUME, "data"), (EPHEMERAL, "pinned-data")])
def test_pods_that_bypass_the_scheduler_are_listed_and_counted(run: Run, write: Write, volume: Json, name: str) -> None:
    cluster = write(build_node("n1"), build_pinned_pod(volume), build_claim(name), CLASS)
    outcome = run("explain", "-A", "-f", cluster, "-o", "json")
    assert outcome.code == 1
    (entry,) = json.loads(outcome.out)["waitingElsewhere"]
    assert (entry["resource"], entry["state"]) == ("Pod default/pinned", "BypassesScheduler")
    assert f"claim default/{name} waits for the scheduler" in entry["headline"]
    assert run("explain", "pinned", "-f", cluster).code == 1
    audit = run("audit", "--section", "pending", "-f", cluster)
    assert "Pod default/pinned" in audit.out
    assert "nodeSelector" in audit.out


def test_pods_with_bound_claims_are_not_listed(run: Run, write: Write) -> None:
    """A running pod has its volume, and so has a pod whose claim is bound."""
    running = write(
        build_node("n1"), build_pinned_pod(CLAIM_VOLUME, "Running"), build_claim("data"), CLASS, name="running.json"
    )
    bound = write(
        build_node("n1"), build_pinned_pod(CLAIM_VOLUME), build_claim("data", volumeName="v1"), CLASS, name="bound.json"
    )
    for cluster in (running, bound):
        assert run("explain", "-A", "-f", cluster).code == 0
