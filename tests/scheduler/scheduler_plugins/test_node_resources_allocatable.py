"""Check NodeResourcesAllocatable of scheduler-plugins against its formula, node by node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.errors import ConfigurationError

NAME = "NodeResourcesAllocatable"
GIB = 1 << 30


def build_cluster(nodes: dict[str, dict[str, Any]], **args: Any) -> Cluster:
    """Build a cluster with a pending pod web, in which only this plugin scores."""
    profile = {
        "plugins": {"score": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": NAME, "args": args}] if args else [],
    }
    objects: list[dict[str, Any]] = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"pods": "9", **amounts}}}
        for name, amounts in nodes.items()
    ]
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return Cluster.from_objects([*objects, pod], config={**config, "profiles": [profile]}, other_builds=True)


def compute_scores(found: Cluster, key: str = "normalized") -> dict[str, int]:
    report: dict[str, Any] = explain(found, "default/web").to_dict()
    return dict(report[key][NAME])


def test_smallest_node_is_best_by_default() -> None:
    """A millicore weighs as much as a MiB: (1000 * 2^20 + 1 GiB) / (2^20 + 1) and so on.

    Of about 4 parts from a to c, b is 1 part from a.
    """
    nodes = {
        "a": {"cpu": "1", "memory": "1Gi"},
        "b": {"cpu": "2", "memory": "1Gi"},
        "c": {"cpu": "4", "memory": f"{2 * GIB}"},
    }
    weight = (1 << 20) + 1
    total = [-(cpu * (1 << 20) + memory) for cpu, memory in ((1000, GIB), (2000, GIB), (4000, 2 * GIB))]
    raw = [-(-each // weight) for each in total]
    assert compute_scores(build_cluster(nodes), "score") == dict(zip("abc", raw, strict=True))
    assert compute_scores(build_cluster(nodes)) == {"a": 100, "b": (raw[1] - raw[2]) * 100 // (raw[0] - raw[2]), "c": 0}


def test_mode_most_with_one_resource() -> None:
    nodes = {name: {"cpu": "8", "example.com/fpga": str(n)} for name, n in zip("abc", (1, 2, 5), strict=True)}
    args = {"mode": "Most", "resources": [{"name": "example.com/fpga", "weight": 3}]}
    assert compute_scores(build_cluster(nodes, **args)) == {"a": 0, "b": 25, "c": 100}


def test_equal_nodes_get_zero() -> None:
    assert compute_scores(build_cluster({"a": {"cpu": "1"}, "b": {"cpu": "1"}})) == {"a": 0, "b": 0}


@given(
    st.lists(st.tuples(st.integers(0, 64_000), st.integers(0, 1 << 40)), min_size=2, max_size=6),
    st.integers(1, 1 << 21),
    st.integers(1, 9),
    st.sampled_from(["Least", "Most"]),
)
def test_scores_equal_the_formula(amounts: list[tuple[int, int]], cpu: int, memory: int, mode: str) -> None:
    nodes = {f"n{i}": {"cpu": f"{c}m", "memory": str(m)} for i, (c, m) in enumerate(amounts)}
    args = {"mode": mode, "resources": [{"name": "cpu", "weight": cpu}, {"name": "memory", "weight": memory}]}
    raw = {}
    for i, (c, m) in enumerate(amounts):
        size = (c * cpu + m * memory) // (cpu + memory)
        raw[f"n{i}"] = size if mode == "Most" else -size
    low, width = min(raw.values()), max(raw.values()) - min(raw.values())
    wanted = {name: (each - low) * 100 // width if width else 0 for name, each in raw.items()}
    assert compute_scores(build_cluster(nodes, **args)) == wanted


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"mode": "Some"}, 'mode: Invalid value: "Some": invalid support ModeType'),
        (
            {"resources": [{"name": "cpu", "weight": -1}]},
            "resources[0].weight: Invalid value: -1: resource weight of cpu should be a positive value, got :-1",
        ),
        ({"resource": []}, 'unknown field "resource"'),
    ],
)
def test_invalid_arguments_are_rejected(args: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        explain(build_cluster({"a": {"cpu": "1"}}, **args), "default/web")
    assert said in error.value.what


def test_released_kube_scheduler_does_not_have_the_plugin() -> None:
    found = replace(build_cluster({"a": {"cpu": "1"}}), other_builds=False)
    with pytest.raises(ConfigurationError, match=f'ScorePlugin "{NAME}" does not exist'):
        explain(found, "default/web")
