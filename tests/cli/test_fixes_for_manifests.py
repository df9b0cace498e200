"""Fixes for manifests that are not applied yet, in clusters where other pods wait for a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Run, Write

CONTAINERS = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]


def _workload(kind: str, name: str, namespace: str, containers: list[Any] = CONTAINERS) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": template["spec"]}
    if kind == "Job":
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("command", ["explain", "remedies"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "Pod"])
@pytest.mark.parametrize("namespace", ["default", "shop", "not-there"])
def test_fixes_of_a_manifest_are_checked_with_the_pods_that_wait(
    run: Run, write: Write, command: str, kind: str, namespace: str
) -> None:
    """Fixes that leave the pod as it is, such as one more node, are tried with the pod in the cluster, too."""
    outcome = run(command, "-f", write(_workload(kind, "redis", namespace)), "--demo", "-o", "json")
    assert outcome.code == 1, outcome.err
    fixes = json.loads(outcome.out)["remedies"]
    assert any(fix["kinds"] == ["AddNode"] and fix["holds"] for fix in fixes)
