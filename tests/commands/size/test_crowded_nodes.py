"""Check nodes that some pods need and others fill: a replay confirms each report, and proposals leave room."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import kschedctl
from kschedctl.commands.size import search
from kschedctl.commands.size.fill_levels import find_crowded_shapes, measure_levels_when_full
from kschedctl.commands.size.program import PackingProgram, build_program
from kschedctl.commands.size.replays import NodeSets
from kschedctl.commands.size.shapes import find_places_of_pending_pods, map_pods_to_shapes
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.commands.size.type_shapes import build_type_shapes
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
ZONE, HOSTNAME, GPU = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/gpu"


def build_pod(name: str, cpu: float, mebibytes: int, *, gpu: bool = False, priority: int = 0) -> Json:
    device = {GPU: "1"} if gpu else {}
    requests = {"cpu": f"{int(1000 * cpu)}m", "memory": f"{mebibytes}Mi", **device}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}, "ownerReferences": [owner]}
    container = {"name": "c", "image": "c", "resources": {"requests": requests, "limits": device}}
    spec = {"containers": [container], "priority": priority}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def build_instance_type(name: str, cpu: int, gibibytes: int, price: float, gpus: int = 0) -> Json:
    term = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    offers = {"cpu": str(cpu), "memory": f"{gibibytes}Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    zone = {"key": ZONE, "operator": "In", "values": ["a"]}
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": offers,
        "overhead": {"cpu": "0", "memory": "0"},
        "offerings": [{"Price": price, "Available": True, "Requirements": [term, zone]}],
    }


TYPES = [
    build_instance_type("lean", 8, 16, 0.34),
    build_instance_type("even", 8, 32, 0.4),
    build_instance_type("gpu", 8, 64, 1.0, 1),
]


def build_workloads(seed: int, number: int = 80) -> list[Json]:
    """Build small pods, and a few with a device that come last."""
    random = Random(seed)
    small = [build_pod(f"p{at}", random.choice((0.1, 0.25, 0.5, 1)), 512, priority=1) for at in range(number)]
    return [*small, *(build_pod(f"train{at}", 0.5, 1024, gpu=True) for at in range(4))]


def size_nodes(pods: list[Json], seconds: float = 20) -> Any:
    cluster = kschedctl.Cluster.from_objects(pods)
    return kschedctl.size(cluster, criteria=SizingCriteria(seconds=seconds), instance_types=TYPES)


def build_program_and_sets(pods: list[Json]) -> tuple[PackingProgram, NodeSets]:
    cluster = kschedctl.Cluster.from_objects(pods)
    shapes = {shape.name: shape for shape in build_type_shapes(cluster, TYPES)}
    sets = NodeSets(cluster, shapes)
    view = Scheduler(sets.build_cluster(dict.fromkeys(shapes, 1))).view
    rows = {name: view.nodes.index[shape.get_first_node_name("a")] for name, shape in shapes.items()}
    prices = {sold["name"]: sold["offerings"][0]["Price"] for sold in TYPES}
    return build_program(
        view, rows, prices, map_pods_to_shapes(find_places_of_pending_pods(view, shapes), shapes)
    ), sets


def list_waiting_pods(pods: list[Json], counts: dict[str, int]) -> list[str]:
    """Return the pods that wait after a separate replay."""
    return list(build_program_and_sets(pods)[1].find_pods_without_node(counts))


@pytest.mark.parametrize("seed", range(6))
def test_devices_stay_free_for_later_pods_that_need_them(seed: int) -> None:
    pods = build_workloads(seed)
    report = size_nodes(pods)
    counts = {shape.shape: shape.nodes for shape in report.shapes}
    assert (report.never, list_waiting_pods(pods, counts)) == ((), [])


def test_no_set_is_claimed_if_the_search_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one replay is made, in which pods are pending that one more node would take."""
    monkeypatch.setattr(search, "MAX_ROUNDS", 1)
    report = size_nodes(build_workloads(0))
    for alternative in report.alternatives:
        counts = {name: int(number) for number, name in (part.split(" × ") for part in alternative.shapes.split(", "))}
        assert len(list_waiting_pods(build_workloads(0), counts)) == report.homeless
    assert not report.complete


@pytest.mark.parametrize("seed", range(4))
def test_fill_level_of_other_nodes_when_devices_ran_out(seed: int) -> None:
    """The result must equal a loop over the pods in the order of placement."""
    pods, counts = build_workloads(seed, 100), {"lean": 1, "even": 1, "gpu": 4}
    program, sets = build_program_and_sets(pods)
    late = list(sets.find_pods_without_node(counts))
    assert any(key.startswith("default/train") for key in late)
    simulation, outcomes, nodes = sets.replay_with_outcomes(counts)
    free = {
        name: np.array([[8000, size << 30]] * counts[name]) for name, size in (("lean", 16), ("even", 32), ("gpu", 64))
    }
    began = {name: some.copy() for name, some in free.items()}
    names = {row: (name, at) for name, rows in nodes.items() for at, row in enumerate(rows.tolist())}
    for outcome in outcomes:
        if outcome.row >= 0:
            requests = simulation.view.pods.objects[outcome.position].spec.containers[0].resources.requests
            name, at = names[outcome.row]
            free[name][at] -= (int(str(requests["cpu"])[:-1]), int(str(requests["memory"])[:-2]) << 20)
            if sum((left < (500, 1 << 30)).any() for left in free["gpu"]) == 2:  # half of the four
                break
    (told,) = measure_levels_when_full(program, nodes, simulation, outcomes, late)
    assert told.needed == "gpu"
    for name, some in free.items():
        full = ((began[name] - some) / began[name]).mean(axis=0).max()
        assert told.shares[program.names.index(name)] == pytest.approx(full), name


def test_pods_that_fit_anywhere_crowd_out_no_pods() -> None:
    program, _ = build_program_and_sets(build_workloads(0))
    assert find_crowded_shapes(program, ["default/train0"]).tolist() == [name == "gpu" for name in program.names]
    assert not find_crowded_shapes(program, ["default/p0"]).any()
