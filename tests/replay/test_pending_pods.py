"""Check the order of pending pods of equal priority, for which kube-scheduler compares the times of queueing."""

from __future__ import annotations

from small import Json, build_node, build_pod

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.replay.settling import find_pods_still_pending
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

REJECTED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def build_waiting_pod(name: str, minute: int | None = None, *, tried: bool = True) -> Json:
    """Build a pod that was created in this minute, or that does not exist yet if the minute is None."""
    pod = build_pod(name, "", "500m")
    if minute is not None:
        pod["metadata"]["creationTimestamp"] = f"2026-11-30T20:{minute:02}:00Z"
    pod["status"] = REJECTED if tried else {"phase": "Pending"}
    return pod


def list_pending_pods(*objects: Json) -> list[str]:
    """Return the names of the pending pods in the order in which a simulation queues them."""
    simulation = Simulation(Scheduler(Cluster.from_objects(list(objects))))
    pods = simulation.view.pods.objects
    return [pods[position].metadata.name for position in find_pods_still_pending(simulation)]


def test_oldest_pod_is_scheduled_first() -> None:
    younger, older = build_waiting_pod("cache", 5), build_waiting_pod("web", 1)
    report = simulate(Cluster.from_objects([build_node("a", cpu="600m"), younger, older]), [], pending=True)
    assert {pod.rpartition("/")[2]: node for pod, node in report.placements.items() if node} == {"web": "a"}


def test_replacements_and_new_pods_queue_behind_rejected_pods() -> None:
    """The replacement of an evicted pod has the creation time of the evicted pod."""
    pods = [
        build_waiting_pod("a-new", None, tried=False),
        build_waiting_pod("b-replacement", 1, tried=False),
        build_waiting_pod("c-young", 9),
        build_waiting_pod("d-old", 3),
    ]
    assert list_pending_pods(*pods) == ["d-old", "c-young", "b-replacement", "a-new"]


def test_pods_of_equal_age_keep_the_order_of_their_names() -> None:
    assert list_pending_pods(build_waiting_pod("b", 1), build_waiting_pod("a", 1)) == ["a", "b"]
