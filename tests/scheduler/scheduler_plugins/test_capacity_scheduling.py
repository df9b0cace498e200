"""Check which pods CapacityScheduling of scheduler-plugins rejects, and its messages, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.errors import InputError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
NAME = "CapacityScheduling"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"preFilter": {"enabled": [{"name": NAME}]}, "reserve": {"enabled": [{"name": NAME}]}}}],
}
NODE: Json = {
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "50", "example.com/gpu": "50"}},
}
MAX = "Pod a/web is rejected in PreFilter because ElasticQuota a is more than Max"
MIN = "Pod a/web is rejected in PreFilter because total ElasticQuota used is more than min"


def build_quota(namespace: str, least: Json | None, most: Json | None) -> Json:
    spec = {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    return {"kind": "ElasticQuota", "metadata": {"name": f"of-{namespace}", "namespace": namespace}, "spec": spec}


def build_pod(key: str, node: str = "", priority: int = 0, nominated: str = "", **requests: str) -> Json:
    namespace, name = key.split("/")
    amounts = {resource.replace("gpu", "example.com/gpu"): amount for resource, amount in requests.items()}
    container = {"name": "c", "image": "c", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler"}
    document: Json = {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": spec}
    if node:
        spec["nodeName"] = node
    if nominated:
        document["status"] = {"nominatedNodeName": nominated}
    return document


def list_reasons(*objects: Json) -> list[str]:
    """Return why the plugin's PreFilter rejects pod a/web, or [] if it passes."""
    cluster = Cluster.from_objects([NODE, *objects], config=CONFIG, other_builds=True)
    report: Json = explain(cluster, "a/web").to_dict()
    found: list[str] = report["preFilter"].get(NAME, {}).get("reasons", [])
    return found


BOTH = build_quota("a", {"cpu": "4"}, {"cpu": "6"}), build_quota("b", {"cpu": "4"}, {"cpu": "8"})


@pytest.mark.parametrize(
    ("used", "wanted"),
    [
        ({}, "6"),  # of others' min
        ({"a": "3"}, "3"),
        ({"b": "6"}, "2"),
    ],
)
def test_within_max_and_all_mins(used: dict[str, str], wanted: str) -> None:
    running = [build_pod(f"{namespace}/old", "n1", cpu=cpu) for namespace, cpu in used.items()]
    assert list_reasons(*BOTH, *running, build_pod("a/web", cpu=wanted)) == []


def test_more_than_max() -> None:
    assert list_reasons(*BOTH, build_pod("a/old", "n1", cpu="3"), build_pod("a/web", cpu="3001m")) == [MAX]


def test_more_than_all_mins_together() -> None:
    assert list_reasons(*BOTH, build_pod("b/old", "n1", cpu="7"), build_pod("a/web", cpu="1001m")) == [MIN]


def test_namespace_without_a_quota_passes() -> None:
    assert list_reasons(BOTH[1], build_pod("b/old", "n1", cpu="8"), build_pod("a/web", cpu="9")) == []


def test_max_without_memory_allows_no_memory() -> None:
    """Upstream takes a missing amount as 0, but a missing extended resource as unlimited."""
    assert list_reasons(
        build_quota("a", {"cpu": "9", "memory": "9Gi"}, {"cpu": "9"}), build_pod("a/web", cpu="1", memory="1")
    ) == [MAX]
    assert (
        list_reasons(
            build_quota("a", {"cpu": "9", "example.com/gpu": "1"}, {"cpu": "9"}), build_pod("a/web", cpu="1", gpu="1")
        )
        == []
    )


def test_no_min_guarantees_nothing() -> None:
    assert list_reasons(build_quota("a", None, {"cpu": "9"}), build_pod("a/web", cpu="1")) == [MIN]
    assert list_reasons(build_quota("a", {"cpu": "9"}, None), build_pod("a/web", cpu="1")) == []


def test_nominated_pods_of_the_namespace_count() -> None:
    waiting = [build_pod("a/first", priority=5, nominated="n1", cpu="4")]
    assert list_reasons(*BOTH, *waiting, build_pod("a/web", priority=5, cpu="3")) == [MAX]
    assert list_reasons(*BOTH, *waiting, build_pod("a/web", priority=6, cpu="3")) == []


def test_nominated_pods_within_the_min_of_others_count() -> None:
    """b/first counts while b uses no more than its min of 4."""
    waiting = build_pod("b/first", nominated="n1", cpu="3")
    assert list_reasons(*BOTH, waiting, build_pod("a/web", cpu="6")) == [MIN]
    assert list_reasons(*BOTH, waiting, build_pod("b/old", "n1", cpu="5"), build_pod("a/web", cpu="3")) == []


def test_sidecars_count_as_init_containers() -> None:
    web = build_pod("a/web", cpu="4")
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
    web["spec"]["initContainers"] = [sidecar]
    assert list_reasons(*BOTH, web) == []


def test_placed_pods_use_up_the_quota() -> None:
    """Six pods of 1 CPU each are in a namespace with a max of 3 CPUs."""
    pods = [build_pod(f"a/p{i}", cpu="1") for i in range(6)]
    objects = [NODE, build_quota("a", {"cpu": "9"}, {"cpu": "3"}), *pods]
    scheduler = Scheduler(Cluster.from_objects(objects, config=CONFIG, other_builds=True))
    simulation = Simulation(scheduler)
    simulation.schedule([simulation.view.pods.index[f"a/p{i}"] for i in range(6)])
    assert simulation.view.node.tolist() == [0, 0, 0, -1, -1, -1]


def test_invalid_amount_names_the_quota() -> None:
    with pytest.raises(InputError) as error:
        list_reasons(build_quota("a", {"cpu": "four"}, None), build_pod("a/web", cpu="1"))
    assert error.value.where == "ElasticQuota a/of-a, spec.min"
