"""Check that the server's answers contain the facts an agent needs, without a model.

Seven cases are those of HolmesGPT's evaluation about scheduling (``tests/llm/fixtures/test_ask_holmes``: 13a, 13b, 14,
24, 78b, 80, 82): the same fault in objects of ours, and the facts that its ``expected_output`` asks for, but for one:
13b also wants a node to be given the label, which is not proposed, as a label says how a node is. Twelve are pods that
a real control plane left Pending; what has to be said of them stands in their manifests and in those of the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from test_recordings import PENDING

import kschedctl
from kschedctl.commands.mcp.tools import TOOLS, ToolCall
from kschedctl.replay.parallel import NO_PROGRESS

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"


class Case(NamedTuple):
    """``facts``: words that are all to be found in the answer of the tool."""

    tool: str
    arguments: Json
    facts: tuple[str, ...]
    objects: Sequence[Json] = ()


def build_node(name: str) -> Json:
    room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room},
    }


def build_deployment(name: str, namespace: str, replicas: int, spec: Mapping[str, Any]) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata = {"name": name, "namespace": namespace}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def build_spec(requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None, **more: Any) -> Json:
    resources = {"requests": requests or {"cpu": "10m"}, "limits": limits or {}}
    return {"containers": [{"name": "main", "image": "nginx", "resources": resources}], **more}


def build_pod(name: str, namespace: str, of: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": of}


def build_claim(name: str, namespace: str, storage_class: str) -> Json:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": namespace}
    spec = {**wanted, "storageClassName": storage_class}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def build_spec_with_claim(name: str) -> Json:
    return build_spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])


CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
HARD = {"requests.cpu": "20m", "requests.memory": "500Mi", "limits.cpu": "100m", "limits.memory": "500Mi"}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "compute-quota", "namespace": "n78"},
    "spec": {"hard": HARD},
    "status": {"hard": HARD, "used": dict.fromkeys(HARD, "0")},
}
AMOUNTS = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "20m", "memory": "64Mi"}}
APART = {"labelSelector": {"matchLabels": {"app": "silver-puffin"}}, "topologyKey": "kubernetes.io/hostname"}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}
SELECTING = build_pod("user-profile-import", "n13", build_spec(nodeSelector={"label": "someLabel"}))
REDIS = "redis-standard-pvc"
GPUS = {"nvidia.com/gpu": "5", "cpu": "3", "memory": "5Gi"}
CASES: dict[str, Case] = {
    "holmes 13a: node selector": Case(
        "explain_pod", {"pod": "n13/user-profile-import"}, ("node affinity/selector",), [SELECTING]
    ),
    "holmes 13b: which label, and a fix": Case(
        "explain_pod",
        {"pod": "n13/user-profile-import"},
        ("needs label=someLabel", "has no label label", "Remove nodeSelector label=someLabel"),
        [SELECTING],
    ),
    "holmes 14: GPUs": Case(
        "explain_pod",
        {"pod": "n14/user-profile-resources"},
        ("Insufficient nvidia.com/gpu", "5"),
        [build_pod("user-profile-resources", "n14", build_spec(GPUS, GPUS))],
    ),
    "holmes 24: a misconfigured claim": Case(
        "explain_pod",
        {"pod": "n24/redis"},
        ("n24/redis-standard-pvc", "standard-v2", "standard instead of standard-v2"),
        [
            CLASS,
            build_claim(REDIS, "n24", "standard-v2"),
            build_pod("redis", "n24", build_spec_with_claim(REDIS)),
        ],
    ),
    "holmes 78b: a quota": Case(
        "simulate_apply",
        {"manifests": [build_deployment("api-server", "n78", 3, build_spec(**AMOUNTS))]},
        ("compute-quota", "requests.cpu", "20m", "10m", "api-server"),
        [QUOTA],
    ),
    "holmes 80: a storage class that is not there": Case(
        "explain_pod",
        {"pod": "n80/database-0"},
        ("n80/database-pvc", "fast-ssd", "standard instead of fast-ssd"),
        [
            CLASS,
            build_claim("database-pvc", "n80", "fast-ssd"),
            build_pod("database-0", "n80", build_spec_with_claim("database-pvc")),
        ],
    ),
    "holmes 82: more pods than nodes": Case(
        "simulate_apply",
        {"manifests": [build_deployment("silver-puffin", "n82", 8, build_spec(affinity=ANTI))]},
        ("didn't match pod anti-affinity rules", "silver-puffin"),
    ),
}
RECORDED: dict[str, tuple[str, ...]] = {
    "lab/p01-cpu": ("Insufficient cpu", "needs 6 CPUs"),
    "lab/p03-gpu": ("Insufficient nvidia.com/gpu",),
    "lab/p04-unknown-extended": ("example.com/fpga",),
    "lab/p05-taint": ("nvidia.com/gpu=present:NoSchedule is not tolerated", "Tolerate"),
    "lab/p06-nodeselector": ("needs disk=floppy", "ssd"),
    "lab/p11-spread": ("topology.kubernetes.io/zone=zone-a has 3 matching pods", "maxSkew is 1"),
    "lab/p13-hostport": ("TCP port 9100 by platform/node-agent-",),
    "lab/p14-pvc-immediate": ("lab/immediate-unbound", "manual-immediate"),
    "lab/p16-pvc-missing": ("does-not-exist",),
    "lab/p20-rwop": ("claim lab/rwop is ReadWriteOncePod", "lab/uses-rwop on node w4"),
    "lab/p21-gated": ("example.com/quota", "example.com/review"),
    "lab/p29-cordoned": ("w10", "cordoned", "kubectl uncordon w10"),
}
CASES |= {name: Case("explain_pod", {"pod": name}, facts) for name, facts in RECORDED.items()}
NODES = [build_node("a"), build_node("b")]
RECORDED_CLUSTER = kschedctl.Cluster.from_objects(PENDING["objects"])


def answer(case: Case) -> str:
    """Return the text that the agent gets."""
    recorded = case.arguments.get("pod") in RECORDED
    cluster = RECORDED_CLUSTER if recorded else kschedctl.Cluster.from_objects([*NODES, *case.objects])
    tool = next(tool for tool in TOOLS if tool.name == case.tool)
    report = tool.answer(ToolCall(cluster, NOW, NO_PROGRESS), case.arguments)
    return json.dumps(report.summary().to_dict(), ensure_ascii=False)


@pytest.mark.parametrize("name", CASES)
def test_answer_has_the_facts(name: str) -> None:
    text = answer(CASES[name])
    assert [fact for fact in CASES[name].facts if fact not in text] == []


def test_schedulers_messages_have_few_of_the_facts() -> None:
    """These messages are what agents have without this server. A pod that was never tried has no message."""
    there = [
        name
        for name, facts in RECORDED.items()
        if any(all(fact in message for fact in facts) for message in PENDING["messages"].get(name, ()))
    ]
    assert there == ["lab/p03-gpu", "lab/p04-unknown-extended", "lab/p16-pvc-missing"]
