"""Check the strategy LeastNUMANodes against upstream's own tables (least_numa_test.go, score_test.go) and a loop."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api.objects import NodeResourceTopology
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler_plugins.numa_nodes import NumaList, build_numa_list
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    choose_numa_nodes,
    score_containers,
    score_nodes_for_whole_pod,
)

Json = dict[str, Any]
NAME, GPU = "NodeResourceTopologyMatch", "example.com/gpu"
Cell = tuple[int, Json, dict[int, int]]
"""A NUMA node: its number, its available amounts, and the distances of other nodes by their numbers."""


def build_topology(name: str, cells: list[Cell], scope: str = "container", **attributes: str) -> Json:
    named = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": scope, **attributes}
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [{"name": resource, "available": amount} for resource, amount in available.items()],
            "costs": [{"name": f"node-{other}", "value": cost} for other, cost in costs.items()],
        }
        for number, available, costs in cells
    ]
    listed = [{"name": key, "value": value} for key, value in named.items()]
    return {"kind": "NodeResourceTopology", "metadata": {"name": name}, "zones": zones, "attributes": listed}


def read(*topologies: Json) -> NumaList:
    found = [msgspec.convert(each, NodeResourceTopology) for each in topologies]
    return build_numa_list(found, {each.metadata.name: row for row, each in enumerate(found)})


# -- upstream's tables -----------------------------------------------------------------------------------------------

GI = 1 << 30
ALL: Json = {"cpu": 4, "memory": 5 * GI, GPU: 1}
NO_GPU: Json = {**ALL, GPU: 0}
NO_MEMORY: Json = {"cpu": 4, GPU: 1}
PLAIN: Json = {"cpu": 8, "memory": 10 * GI}
FOUR = [[10, 12, 20, 20], [12, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
EIGHT = {
    0: [10, 20, 40, 30, 20, 30, 50, 40],
    3: [30, 40, 20, 10, 30, 20, 40, 50],
    5: [30, 20, 50, 20, 50, 10, 50, 40],
    7: [40, 50, 30, 50, 20, 40, 30, 10],
    1: [20, 10, 30, 40, 50, 20, 40, 50],
    6: [50, 40, 20, 40, 30, 50, 10, 30],
    2: [40, 30, 10, 20, 40, 50, 20, 30],
    4: [20, 50, 40, 30, 10, 50, 30, 20],
}


def build_four_cells(*available: Json, step: int = 1) -> list[Cell]:
    costs = [{step * other: cost for other, cost in enumerate(each)} for each in FOUR]
    return [(step * i, each, costs[i]) for i, each in enumerate(available)]


def build_eight_cells(*without_memory: int) -> list[Cell]:
    return [(i, NO_MEMORY if i in without_memory else ALL, dict(enumerate(costs))) for i, costs in EIGHT.items()]


def build_pod_requests(cpu: int, gpus: int = 0) -> dict[str, int]:
    return {"cpu": 1000 * cpu, "memory": 2 * GI, **({GPU: gpus} if gpus else {})}


@pytest.mark.parametrize(
    ("cells", "requests", "numbers", "nearest"),
    [
        ([(0, PLAIN, {})], build_pod_requests(2), {0}, True),
        ([(0, PLAIN, {}), (1, PLAIN, {})], build_pod_requests(12), {0, 1}, True),
        ([(0, PLAIN, {}), (1, PLAIN, {})], build_pod_requests(22), set(), False),
        (build_four_cells(ALL, ALL, NO_GPU, NO_GPU), build_pod_requests(2, 2), {0, 1}, True),
        (build_four_cells(ALL, NO_GPU, ALL, NO_GPU), build_pod_requests(2, 2), {0, 2}, False),
        (build_eight_cells(), build_pod_requests(3, 3), {0, 1, 5}, True),
        (build_eight_cells(1, 3, 5, 7), build_pod_requests(3, 3), {2, 4, 6}, False),
        (build_four_cells(ALL, ALL, NO_GPU, NO_GPU, step=2), build_pod_requests(2, 2), {0, 2}, True),
        (build_four_cells(ALL, NO_GPU, NO_GPU, ALL, step=2), build_pod_requests(2, 2), {0, 6}, False),
        (build_four_cells(ALL, NO_MEMORY, ALL, NO_MEMORY, step=2), build_pod_requests(2, 2), {0, 4}, False),
    ],
    ids=[
        "simple case, fit on 1 NUMA node",
        "simple case, fit on 2 NUMA node",
        "can't fit",
        "4 NUMA node optimal distance",
        "4 NUMA node non optimal distance",
        "8 NUMA node optimal distance, not sorted ids",
        "8 NUMA node non optimal distance, not sorted ids, odd digit NUMA node without memory",
        "4 NUMA node optimal distance, non sequential ids",
        "4 NUMA node non optimal distance, non sequential ids",
        "4 NUMA node non optimal distance, non sequential ids, NUMA node-2 and node-6 without memory",
    ],
)
def test_numa_nodes_required_table(
    cells: list[Cell], requests: dict[str, int], numbers: set[int], nearest: bool
) -> None:
    numa = read(build_topology("n", cells))
    chosen = choose_numa_nodes(requests, numa.available, numa, np.ones(1, np.bool_))
    assert set(numa.numbers[chosen.places].tolist()) == numbers
    assert chosen.is_nearest.tolist() == [nearest]


MI50 = "50Mi"
THREE: dict[str, Json] = {
    "Node1": {"cpu": "4", "memory": "500Mi"},
    "Node2": {"cpu": "2", "memory": MI50},
    "Node3": {"cpu": "6", "memory": "60Mi"},
}
SMALL = {"cpu": "2", "memory": MI50, GPU: "1"}
SMALL_NO_GPU = {**SMALL, GPU: "0"}
WITH_GPUS = {
    "Node1": build_four_cells(SMALL, SMALL, SMALL_NO_GPU, SMALL_NO_GPU),
    "Node2": build_four_cells(SMALL, SMALL_NO_GPU, SMALL, SMALL_NO_GPU),
}


def compute_scores(topologies: list[Json], *containers: Json) -> Json:
    """Return the scores by node for a pod with these containers, whose limits equal their requests."""
    spec = [{"name": f"c{i}", "resources": {"requests": c, "limits": c}} for i, c in enumerate(containers)]
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": spec}}
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "50", GPU: "8", "non-numa.example.com/x": "9"}
    nodes = [
        {"kind": "Node", "metadata": {"name": each["metadata"]["name"]}, "status": {"allocatable": allocatable}}
        for each in topologies
    ]
    args = {"scoringStrategy": {"type": "LeastNUMANodes"}}
    profile = {
        "plugins": {"score": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": NAME, "args": args}],
    }
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = Cluster.from_objects(
        [*nodes, *topologies, pod], config={**config, "profiles": [profile]}, other_builds=True
    )
    report: Json = explain(cluster, "default/web").to_dict()
    assert report["notReplayed"] == []
    found: Json = report["score"][NAME]
    return found


def build_requests(cpu: str, gpus: str = "") -> Json:
    """Build requests of CPU, memory and GPUs."""
    return {"cpu": cpu, "memory": MI50, **({GPU: gpus} if gpus else {})}


@pytest.mark.parametrize(
    ("scope", "cpus", "expected"),
    [
        ("container", ["2"], [94, 94, 94]),
        ("container", ["4"], [94, 82, 94]),
        ("container", ["6"], [82, 0, 94]),
        ("container", ["2", "2"], [94, 94, 94]),
        ("container", ["1", "3"], [94, 82, 94]),
        ("container", ["5", "3"], [82, 0, 94]),
        ("pod", ["2", "2"], [94, 82, 82]),
        ("pod", ["1", "3"], [94, 82, 82]),
        ("pod", ["5", "3"], [82, 0, 82]),
    ],
)
def test_score_table(scope: str, cpus: list[str], expected: list[int]) -> None:
    topologies = [build_topology(name, [(0, each, {}), (1, each, {})], scope) for name, each in THREE.items()]
    assert compute_scores(topologies, *map(build_requests, cpus)) == dict(zip(THREE, expected, strict=True))


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_resources_of_no_numa_node_table(scope: str) -> None:
    """Upstream's pods of one such resource are Guaranteed. Here CPU and memory outside the NUMA nodes make them so."""
    topologies = [build_topology(name, [(0, {GPU: "1"}, {}), (1, {GPU: "1"}, {})], scope) for name in THREE]
    other = {"cpu": "1", "memory": MI50, "non-numa.example.com/x": "1"}
    assert compute_scores(topologies, other) == dict.fromkeys(THREE, 100)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([build_requests("2", "1")], {"Node1": 94, "Node2": 94}),
        ([build_requests("2", "2")], {"Node1": 82, "Node2": 76}),
        ([build_requests("2", "2"), build_requests("2")], {"Node1": 82, "Node2": 76}),
    ],
)
def test_score_table_of_devices(containers: list[Json], expected: Json) -> None:
    assert compute_scores([build_topology(name, cells) for name, cells in WITH_GPUS.items()], *containers) == expected


@pytest.mark.parametrize(
    ("count", "nearest", "expected"), [(1, 0, 88), (2, 0, 76), (8, 0, 4), (1, 1, 94), (2, 1, 82), (8, 1, 10)]
)
def test_normalize_score_table(count: int, nearest: int, expected: int) -> None:
    """The table gives the number of needed NUMA nodes out of nine.

    The last, which has no resources, may be the nearest to others.
    """
    far = dict.fromkeys(range(9), 10 if nearest else 20)
    cells: list[Cell] = [(i, {"cpu": 1}, far) for i in range(8)] + [(8, {"cpu": 0}, dict.fromkeys(range(9), 10))]
    assert score_nodes_for_whole_pod({"cpu": 1000 * count}, read(build_topology("n", cells))).tolist() == [expected]


def test_kubelet_option_limits_the_numa_nodes() -> None:
    """The score falls by 100 // 4 per NUMA node, of which half is given back for the nearest nodes.

    1 and texts are ignored, and 5,000 counts as 1,024.
    """
    cells: list[Cell] = [(0, {"cpu": 1}, {})]
    for said, expected in {"4": 87, "1": 94, "+4": 87, "four": 94, "5000": 100}.items():
        numa = read(build_topology("n", cells, topologyManagerMaxNUMANodes=said))
        assert score_nodes_for_whole_pod({"cpu": 1000}, numa).tolist() == [expected]


def test_nodes_without_a_topology_have_no_score() -> None:
    numa = build_numa_list([], {"n": 0})
    assert not numa.has_topology.any()


def test_too_many_combinations() -> None:
    cells: list[Cell] = [(i, {"cpu": 1}, {}) for i in range(40)]
    with pytest.raises(PluginError, match="too many NUMA nodes to try all combinations of 4"):
        score_nodes_for_whole_pod({"cpu": 9000}, read(build_topology("n", cells)))


# -- against a loop --------------------------------------------------------------------------------------------------


def find_required_naively(cells: list[Cell], left: list[Json], requests: Json) -> tuple[list[int], bool] | None:
    """Return the NUMA nodes of upstream's combination, and whether they are reported as nearest."""
    for size in range(1, len(cells) + 1):
        least, best, found = np.float32(255), np.float32(256), None
        every = list(combinations(range(len(cells)), size))
        for each in every:
            least = min(least, compute_distance_naively(cells, each))
        for each in every:
            if any(name not in left[i] for i in each for name in requests):
                continue
            if any(amount and sum(left[i][name] for i in each) < amount for name, amount in requests.items()):
                continue
            distance = compute_distance_naively(cells, each)
            if distance == least:
                return list(each), True
            if distance < best:
                best, found = distance, list(each)
        if found is not None:
            return found, False
    return None


def compute_distance_naively(cells: list[Cell], places: tuple[int, ...]) -> np.float32:
    total = sum(cells[i][2].get(cells[j][0], 255) for i in places for j in places)
    return np.float32(total) / np.float32(len(places) ** 2)


def score_naively(cells: list[Cell], containers: list[Json]) -> int:
    left = [dict(available) for _, available, _ in cells]
    most, all_nearest = 0, True
    for requests in containers:
        if not any(name in each for each in left for name in requests):
            continue
        found = find_required_naively(cells, left, requests)
        if found is None:
            return 0
        places, nearest = found
        all_nearest &= nearest
        most = max(most, len(places))
        for name, wanted in requests.items():
            take_naively(name, wanted, [left[number] for number in sorted(cells[place][0] for place in places)])
    step = 100 // 8
    return 100 if not most else 100 - most * step + (step // 2 if all_nearest else 0)


def take_naively(name: str, wanted: int, chosen: list[Json]) -> None:
    for each in chosen:
        taken = min(each.get(name, 0), wanted)
        if name in each:
            each[name] -= taken
        wanted -= taken


amounts = st.dictionaries(st.sampled_from(["memory", GPU]), st.integers(0, 4), max_size=2)
costs = st.dictionaries(st.integers(0, 3), st.sampled_from([10, 12, 20, 300]))
machines = st.lists(st.tuples(amounts, costs), min_size=1, max_size=4).flatmap(
    lambda found: st.permutations(range(len(found))).map(
        lambda numbers: [(number, available, near) for number, (available, near) in zip(numbers, found, strict=True)]
    )
)


@given(st.lists(machines, min_size=1, max_size=3), st.lists(amounts, min_size=1, max_size=3))
def test_scores_agree_with_a_loop(found: list[list[Cell]], containers: list[Json]) -> None:
    numa = read(*(build_topology(f"n{i}", cells) for i, cells in enumerate(found)))
    expected = [score_naively(cells, containers) for cells in found]
    assert score_containers(containers, numa).tolist() == expected
