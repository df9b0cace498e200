"""Check that each command that replays names the fields that the replayed version ignores, in one line and in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Run, Write

Json = dict[str, Any]
IGNORED = [
    "spec.resources needs Kubernetes 1.34, or 1.32 and the feature gate PodLevelResources",
    "spec.extendedResourceName of DeviceClass needs Kubernetes 1.36, or 1.34 and the feature gate DRAExtendedResource",
]
WORDS = "this version's API server drops it from new objects, or its scheduler ignores or rejects it"
LINE = f"Ignored: {'; '.join(IGNORED)}: {WORDS}"


def build_pod(name: str, node_name: str = "", **spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    metadata = {"name": name, "namespace": "d", "uid": name, "ownerReferences": [owner] if node_name else []}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node_name, "containers": containers, **spec},
    }


def build_node(name: str) -> Json:
    metadata = {"name": name, "labels": {"topology.kubernetes.io/zone": name}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }


@pytest.fixture
def cluster(write: Write) -> str:
    """Write two nodes, a running and a waiting pod with pod-level resources, and a DeviceClass with a resource."""
    own = {"resources": {"requests": {"cpu": "2"}}}
    device_class = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "x.io/gpu"}}
    device_class["apiVersion"] = "resource.k8s.io/v1"
    return write(
        build_node("n1"), build_node("n2"), build_pod("runs", "n1", **own), build_pod("waits", **own), device_class
    )


@pytest.fixture
def manifest(write: Write) -> str:
    new = build_pod("new")
    return write(new | {"metadata": {"name": "new", "namespace": "d"}}, name="new.json")


COMMANDS = (
    ("explain", "d/waits"),
    ("explain", "d/waits", "d/runs"),
    ("explain", "-A"),
    ("remedies", "d/waits"),
    ("remedies", "-A"),
    ("simulate", "-f", "MANIFEST"),
    ("capacity", "-f", "MANIFEST"),
    ("drain", "n1"),
    ("failures",),
    ("whatif", '{"steps": [{"cordon": {"nodes": ["n2"]}}]}'),
    ("whatif", "--compare-version", "1.31", "1.36"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_names_ignored_fields(command: tuple[str, ...], cluster: str, manifest: str, run: Run) -> None:
    words = [manifest if word == "MANIFEST" else word for word in command]
    asked = [*words, "-f", cluster]
    shown, data = (run(*asked, "--kube-version", "1.31", *more) for more in ((), ("-o", "json")))
    assert " ".join(shown.out.split()).count(LINE) == 1
    assert json.loads(data.out)["ignored"] == IGNORED


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=" ".join)
def test_nothing_is_reported_if_the_version_reads_all_fields(
    command: tuple[str, ...], cluster: str, manifest: str, run: Run
) -> None:
    words = [manifest if word == "MANIFEST" else word for word in command]
    found = run(*words, "-f", cluster, "--kube-version", "1.36", "-o", "json")
    assert json.loads(found.out)["ignored"] == []
