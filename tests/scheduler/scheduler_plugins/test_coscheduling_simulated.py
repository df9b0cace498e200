"""Check gangs of Coscheduling in simulations: incomplete gangs, gangs that wait in vain, and preempted pods.

By hand, from what pkg/coscheduling of scheduler-plugins does when a pod fits nowhere or leaves its node. That
simulations do what the queue does is in tests/scheduler/test_simulation_and_queue.py.
"""

from __future__ import annotations

import pytest
from test_coscheduling import Json, build_cluster, build_config, build_group, build_node, build_pod

from kschedctl.cluster import Cluster
from kschedctl.replay.run_queue import run_queue
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def build_affinity(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def add_labels(document: Json, **labels: str) -> Json:
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}


HERE = add_labels(build_node("n"), **{"kubernetes.io/hostname": "n"})


def run_simulation(cluster: Cluster) -> Simulation:
    """Simulate the cluster."""
    simulation = Simulation(Scheduler(cluster))
    view = simulation.view
    simulation.run([position for position in view.pods.index.values() if view.node[position] < 0])
    return simulation


def get_placed_names(simulation: Simulation) -> set[str]:
    """Return the names of the pods with a node."""
    view = simulation.view
    return {pod.metadata.name for position, pod in enumerate(view.pods.objects) if view.node[position] >= 0}


def build_cluster_of_version(version: str, objects: list[Json], **args: int) -> Cluster:
    return Cluster.from_objects(objects, config=build_config(**args), other_builds=True, kube_version=version)


@pytest.mark.parametrize(("seconds", "placed"), [(0, {"a1", "a3"}), (100, {"z"})])
def test_backoff_of_a_gang(seconds: int, placed: set[str]) -> None:
    """Two of three pods suffice, but the second fits nowhere, so the waiting first pod is rejected.

    Then the third pod activates the first again, unless the backoff of the gang leaves the room to others.
    """
    pods = [
        build_pod("a1", "pg", cpu="2"),
        build_pod("a2", "pg", cpu="9"),
        build_pod("a3", "pg", cpu="2"),
        build_pod("z", cpu="4"),
    ]
    objects = [build_node("n"), *pods, build_group("pg", 2, created="2026-01-01T00:00:00Z")]
    assert (
        get_placed_names(run_simulation(build_cluster_of_version("1.33", objects, podGroupBackoffSeconds=seconds)))
        == placed
    )


def test_simulation_waits_for_the_backoff_of_a_gang() -> None:
    """Both pods need a later pod on their node.

    They get the event, but the backoff is longer than any other waiting time.
    """
    gang = [build_pod(name, "pg", priority=1, **build_affinity("x")) for name in "ab"]
    objects = [HERE, *gang, add_labels(build_pod("z"), app="x"), build_group("pg", 2)]
    for seconds in (0, 20, 1000, 10**8):
        assert get_placed_names(run_simulation(build_cluster(*objects, podGroupBackoffSeconds=seconds))) == {
            "a",
            "b",
            "z",
        }


def test_timed_out_gang_leaves_its_room_to_others() -> None:
    """One of two pods waits until it times out. Then the pod that found no room beside it gets the node."""
    objects = [build_node("n"), build_pod("a", "pg", cpu="2"), build_pod("b", "pg", cpu="9"), build_pod("z", cpu="3")]
    cluster = build_cluster(
        *objects, build_group("pg", 2, created="2026-01-01T00:00:00Z"), podGroupRejectPercentage=100
    )
    assert get_placed_names(run_simulation(cluster)) == {"z"}
    run = run_queue(cluster, closed_loop=True)
    assert [cycle.bound for cycle in run.cycles if cycle.bound] == [{"ns/z": "n"}]
    assert run.waiting_on_permit == {}


def test_members_of_a_gang_preempt_separately() -> None:
    """Two members preempt one pod each and wait on their nodes.

    The third finds no victims, so that both evictions were in vain.
    """
    low = [build_pod(f"low{i}", cpu="2", on="n", priority=-1) for i in range(2)]
    gang = [build_pod(f"g{i}", "pg", cpu="2") for i in range(3)]
    simulation = run_simulation(build_cluster(build_node("n"), *low, *gang, build_group("pg", 3)))
    objects = simulation.view.pods.objects
    assert {objects[position].metadata.name for position in simulation.gone} == {"low0", "low1"}
    assert get_placed_names(simulation) == set()


def test_waiting_pods_free_their_resources_once() -> None:
    """Two members wait for a third of another scheduler, when the most urgent pod finds the pod that it needs.

    Both are preempted together, and their resources are freed once, so that the last pod finds no room.
    """
    gang = [*(build_pod(name, "pg", cpu="2", priority=1) for name in "ab"), build_pod("c", "pg", schedulerName="other")]
    late = add_labels(build_pod("e"), app="e"), add_labels(build_pod("f", priority=9, **build_affinity("e")), app="f")
    urgent = build_pod("u", cpu="4", priority=9, **build_affinity("f"))
    cluster = build_cluster(HERE, *gang, *late, urgent, build_pod("z", cpu="2", priority=-1), build_group("pg", 3))
    assert get_placed_names(run_simulation(cluster)) == {"e", "f", "u"}
    run = run_queue(cluster, closed_loop=True)
    assert {name for cycle in run.cycles for name in cycle.bound} == {"ns/e", "ns/f", "ns/u"}
    preempted = next(cycle for cycle in run.cycles if cycle.victims)
    assert set(preempted.victims) == {"ns/a", "ns/b"}
    told = {name: preempted.failed[name].message for name in ("ns/a", "ns/b")}
    assert set(told.values()) == {"waiting on permit for pod: preempted"}
