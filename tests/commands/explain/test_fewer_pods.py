"""Check ``explain`` of workloads that have fewer pods than desired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Json, Run, Write, build_node, build_pod

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web")["spec"]}
SELECTOR = {"matchLabels": {"app": "web"}}


def build_workload(kind: str, status: Json | None = None, **spec: Any) -> Json:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": SELECTOR}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "w"},
        "spec": {"template": TEMPLATE, **selector, **spec},
        "status": status or {},
    }


def build_member(kind: str, name: str, ready: str = "True", **spec: Any) -> Json:
    """Build a pod of the workload, on a node unless ``spec`` says otherwise."""
    found = build_pod(name, namespace="shop", uid=name, **{"nodeName": "n1", **spec})
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "controller": True, "uid": "w"}
    found["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": [owner]}
    return found | {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}


def build_quota(pods: str, used: str) -> Json:
    status = {"hard": {"pods": pods}, "used": {"pods": used}}
    metadata = {"name": "q", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {}, "status": status}


def get_report(run: Run, *arguments: str) -> Json:
    """Return the report of a command."""
    report: Json = json.loads(run(*arguments, "-o", "json").out)
    return report


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached its limit"}


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (build_workload("Deployment", replicas=3, paused=True), ["it is paused: it creates no ReplicaSet and no pods"]),
        (build_workload("Deployment", replicas=0), ["it wants 0 replicas"]),
        (build_workload("Job", suspend=True), ["it is suspended"]),
        (build_workload("Job", {"conditions": [FAILED]}), ["it has ended, Failed: Job has reached its limit"]),
        (
            build_workload("Job", {"failed": 2}, backoffLimit=4),
            ["2 pods failed, of 4 allowed; it creates the next one after a delay"],
        ),
        (
            build_workload("Job", {"succeeded": 1}, parallelism=2, completions=9),
            ["no more than 2 at a time (parallelism), and 8 still to complete"],
        ),
        (
            build_workload("DaemonSet", {"desiredNumberScheduled": 1}),
            ["it needs no pod on 1 of 2 nodes, which are excluded by its node selection and tolerations"],
        ),
        (build_workload("Job"), []),
        (build_workload("Deployment", replicas=1), []),
    ],
    ids=["paused", "none wanted", "suspended", "ended", "backing off", "side by side", "daemons", "job", "deployment"],
)
def test_reason_for_fewer_pods(run: Run, write: Write, found: Json, reasons: list[str]) -> None:
    cluster = write(build_node("n1"), build_node("n2"), found)
    kind = {"Deployment": "deploy", "DaemonSet": "ds", "Job": "job"}[found["kind"]]
    answer = get_report(run, "explain", f"{kind}/web", "-n", "shop", "-f", cluster)
    assert answer.get("fewerPods", []) == reasons
    page = " ".join(run("explain", f"{kind}/web", "-n", "shop", "-f", cluster).out.split())
    assert all(f"No more pods: {reason}" in page for reason in reasons)


@pytest.mark.parametrize(
    ("policy", "second", "reasons"),
    [
        ("", {"ready": "False"}, ["2 pods wait for web-1, which is not ready"]),
        ("OrderedReady", {"nodeName": ""}, ["2 pods wait for web-1, which has no node"]),
        ("Parallel", {"ready": "False"}, []),
        ("", {}, []),
    ],
    ids=["not ready", "pending", "parallel", "ready"],
)
def test_pods_of_a_stateful_set_wait_for_the_previous_ordinal(
    run: Run, write: Write, policy: str, second: dict[str, Any], reasons: list[str]
) -> None:
    wanted = build_workload("StatefulSet", replicas=4, podManagementPolicy=policy)
    pods = [build_member("StatefulSet", "web-0"), build_member("StatefulSet", "web-1", **second)]
    answer = get_report(run, "explain", "sts/web", "-n", "shop", "-f", write(build_node("n1"), wanted, *pods))
    assert answer.get("fewerPods", []) == reasons


def test_quota_is_replayed_without_conditions_and_events(run: Run, write: Write) -> None:
    """Five pods are desired, one exists, and the quota allows two more."""
    wanted = build_workload("ReplicaSet", replicas=5)
    found = run(
        "explain",
        "rs/web",
        "-n",
        "shop",
        "-f",
        write(build_node("n1"), wanted, build_member("ReplicaSet", "a"), build_quota("3", "1")),
    )
    assert found.code == 1
    counts = "2 of 5 pods (5 wanted, 1 exists, 2 can be created)"
    said = f"ReplicaSet shop/web Not created: {counts}: exceeded quota: q, requested: pods=1"
    assert said in " ".join(found.out.split())


def test_existing_pods_are_not_denied(run: Run, write: Write) -> None:
    """The quota is exceeded, but the workload has all desired pods."""
    wanted = build_workload("ReplicaSet", replicas=1)
    cluster = write(build_node("n1"), wanted, build_member("ReplicaSet", "a"), build_quota("1", "1"))
    assert run("explain", "rs/web", "-n", "shop", "-f", cluster).code == 0


def build_autoscaler(most: int, *conditions: Json) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "maxReplicas": most},
        "status": {"conditions": list(conditions)},
    }


TOO_MANY = {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}
NO_METRICS = {"type": "ScalingActive", "status": "False", "reason": "FailedGetMetric", "message": "no metrics"}


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (
            build_autoscaler(2, TOO_MANY),
            ["HorizontalPodAutoscaler h is at its maximum of 2, and would create more pods"],
        ),
        (build_autoscaler(2), ["HorizontalPodAutoscaler h is at its maximum of 2"]),
        (
            build_autoscaler(3, NO_METRICS),
            ["HorizontalPodAutoscaler h does not scale it, FailedGetMetric: no metrics"],
        ),
        (build_autoscaler(3), []),
    ],
    ids=["limited", "at the maximum", "no metrics", "below"],
)
def test_autoscaler_that_creates_no_more_pods(run: Run, write: Write, found: Json, reasons: list[str]) -> None:
    cluster = write(build_node("n1"), build_workload("Deployment", replicas=2), found)
    assert get_report(run, "explain", "deploy/web", "-n", "shop", "-f", cluster).get("fewerPods", []) == reasons
