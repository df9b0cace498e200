"""Check what answers about manifests say of namespaces that do not exist, autoscaled replicas, and LimitRanges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Run, Write

Json = dict[str, Any]


def build_deployment(namespace: str, replicas: int, **requests: str) -> Json:
    container = {"name": "a", "image": "x", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "api"}},
            "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}},
        },
    }


@pytest.mark.parametrize("command", ["capacity", "explain", "simulate"])
@pytest.mark.parametrize("form", [(), ("--brief",)])
def test_answer_names_a_missing_namespace(run: Run, write: Write, command: str, form: tuple[str, ...]) -> None:
    manifest = write(build_deployment("shopp", 2, cpu="10m"), name="api.json")
    out = " ".join(run(command, "-f", manifest, "--demo", *form).out.split())
    assert "if namespace shopp (did you mean shop?), which does not exist, is created" in out
    existing = write(build_deployment("shop", 2, cpu="10m"), name="api.json")
    assert "does not exist" not in run(command, "-f", existing, "--demo", *form).out


def test_explain_replays_the_replicas_that_an_autoscaler_sets_at_once(run: Run, write: Write) -> None:
    """At 900m per pod, the demo cluster has room for 4 pods. The manifest has 2 replicas, and minReplicas is 6."""
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"},
            "minReplicas": 6,
            "maxReplicas": 9,
        },
    }
    manifest = build_deployment("shop", 2, cpu="900m")
    assert run("explain", "-f", write(manifest, name="api.json"), "--demo").code == 0
    scaled = run("explain", "-f", write(manifest, autoscaler, name="api.json"), "--demo")
    out = " ".join(scaled.out.split())
    assert scaled.code == 1
    assert "Only 4 of the 6 pods of Deployment shop/api get a node" in out
    assert "HorizontalPodAutoscaler api raises Deployment shop/api from 2 to 6 replicas at once (minReplicas)" in out


def test_limit_set_by_a_limit_range_is_not_shown_as_written(run: Run, write: Write) -> None:
    """The manifest has a request of 512Mi and no limit; the LimitRange sets a limit of 256Mi."""
    limits = [{"type": "Container", "default": {"memory": "256Mi"}, "min": {"cpu": "100m"}}]
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "team"}},
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "lr", "namespace": "team"},
            "spec": {"limits": limits},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
        },
    ]
    manifest = write(build_deployment("team", 1, cpu="50m", memory="512Mi"), name="api.json")
    files = ["-f", write(*objects, name="cluster.json"), "-f", manifest, "--assume-complete"]
    for command in ("explain", "simulate"):
        out = " ".join(run(command, *files).out.split())
        assert "memory limit of 256Mi (limits.memory 256Mi by LimitRange team/lr)" in out
        assert "request 0.1 CPUs instead of 0.05, limit memory to 512 MiB instead of the default of 256 MiB" in out
    report = json.loads(run("simulate", *files, "-o", "json").out)
    assert report["notCreated"][0]["defaults"] == ["limits.memory 256Mi by LimitRange team/lr"]
