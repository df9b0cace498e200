"""Check that defaults of LimitRanges count as requests in placement."""

from __future__ import annotations

from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate

Json = dict[str, Any]


def build_node(name: str, cpu: str) -> Json:
    offers = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": offers}}


def build_limit_range(name: str, **item: Any) -> Json:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def build_deployment(replicas: int, **resources: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": resources}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


def simulate_workload(limits: list[Json], workload: Json) -> tuple[int, tuple[str, ...]]:
    """Return how many pods of the workload are placed, and the assumptions."""
    report = simulate(Cluster.from_objects([build_node("n", "1"), *limits]), [workload])
    return report.placed, report.assumed


def test_default_request_fills_the_node() -> None:
    """Three pods of 400m do not fit one CPU. Without a LimitRange, they request nothing."""
    assert simulate_workload([], build_deployment(3))[0] == 3
    count, assumed = simulate_workload([build_limit_range("lr", defaultRequest={"cpu": "400m"})], build_deployment(3))
    assert count == 2
    assert "Deployment shop/web: requests.cpu 400m by LimitRange shop/lr" in assumed


def test_requests_of_the_pod_stay() -> None:
    lr = build_limit_range("lr", defaultRequest={"cpu": "400m"})
    assert simulate_workload([lr], build_deployment(3, requests={"cpu": "100m"}))[0] == 3


def test_maximum_alone_is_a_default() -> None:
    """As in SetDefaults_LimitRangeItem, max sets the default limit and request."""
    assert simulate_workload([build_limit_range("lr", max={"cpu": "500m"})], build_deployment(3))[0] == 2


def test_different_limit_ranges_are_reported_as_random() -> None:
    limits = [
        build_limit_range("a", defaultRequest={"cpu": "400m"}),
        build_limit_range("b", defaultRequest={"cpu": "100m"}),
    ]
    told = (
        "depending on which of several LimitRanges the API server checks first: requests.cpu 400m by LimitRange shop/a"
    )
    assert any(
        f"{told} or requests.cpu 100m by LimitRange shop/b" in line
        for line in simulate_workload(limits, build_deployment(1))[1]
    )


def test_limit_ranges_of_other_namespaces_do_not_apply() -> None:
    lr = build_limit_range("lr", defaultRequest={"cpu": "400m"})
    lr["metadata"]["namespace"] = "else"
    assert simulate_workload([lr], build_deployment(3))[0] == 3
