"""Check the queue of a simulation: the order of attempts, and what puts unschedulable pods back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from golden_cases import SETTINGS, Json, iter_family_lines

from kschedctl.api.arrays import Rows
from kschedctl.cluster import Cluster
from kschedctl.replay.settling import find_pods_still_pending
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.evaluator import get_tied_candidates
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.placement import Choice, Placements
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.pod_info import PodInfo

SHARES = 4
ZONE = "topology.kubernetes.io/zone"


def build_node(name: str, cpu: str) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}
    return {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: "z"}}, "status": status}


def build_pod(name: str, priority: int = 0, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], "priority": priority, **spec}}


def build_affinity(app: str) -> Json:
    """Build affinity to the pods of an app."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def run_simulation(*objects: Json, **settings: Any) -> tuple[Simulation, list[tuple[str, int]], dict[str, list[str]]]:
    """Return the simulation, the row of each pod in the order of placement, and the retries by pod."""
    simulation = Simulation(Scheduler(Cluster.from_objects(list(objects), **settings)))
    name = [pod.metadata.name for pod in simulation.view.pods.objects]
    outcomes = simulation.schedule(find_pods_still_pending(simulation))
    retried = {name[position]: labels for position, labels in simulation.retried.items()}
    return simulation, [(name[outcome.position], outcome.row) for outcome in outcomes], retried


@pytest.mark.parametrize("version", ["1.31", "1.32", "1.36"])
def test_pod_is_retried_once_the_pod_that_it_needs_is_placed(version: str) -> None:
    """The pod is in back-off meanwhile, so the last pod is tried before it despite its lower priority."""
    objects = [
        build_node("a", "4"),
        build_pod("first", 9, affinity=build_affinity("second")),
        build_pod("second", 5),
        build_pod("third"),
    ]
    _, placed, retried = run_simulation(*objects, kube_version=version)
    assert placed == [("second", 0), ("third", 0), ("first", 0)]
    assert retried == {"first": ["AssignedPodAdd"]}


def test_unregistered_event_does_not_requeue_a_pod() -> None:
    """An added pod frees no room. The pod is retried only after the timeout of five minutes."""
    _, placed, retried = run_simulation(build_node("a", "4"), build_pod("large", 9, cpu="5"), build_pod("small"))
    assert placed == [("small", 0), ("large", -1)]
    assert retried == {"large": ["UnschedulableTimeout"]}


def test_deleted_pod_requeues_pods_that_lack_room() -> None:
    """The first pod never preempts.

    The second pod evicts a pod with 2 CPUs. Then both are retried. The first one has a higher priority, so it ignores
    the nomination of the second, and its back-off is shorter. It takes the room.
    """
    never = build_pod("first", 20, cpu="2", preemptionPolicy="Never")
    running = build_pod("low", cpu="2", nodeName="a")
    simulation, placed, retried = run_simulation(build_node("a", "2"), running, never, build_pod("second", 10))
    assert placed == [("first", 0), ("second", -1)]
    assert retried["first"] == ["AssignedPodDelete"]
    assert retried["second"][0] == "AssignedPodDelete"
    assert len(simulation.evicted_from) == 1


def test_preemptor_is_nominated_and_other_pods_yield() -> None:
    """The third pod would fit beside the victim's room, but not once the second pod, which comes later, is there."""
    running = build_pod("low", cpu="3", nodeName="a")
    simulation, placed, retried = run_simulation(
        build_node("a", "4"), running, build_pod("second", 10, cpu="3500m"), build_pod("third")
    )
    assert placed == [("second", 0), ("third", -1)]
    assert retried["second"] == ["AssignedPodDelete"]
    assert len(simulation.view.nominations[0]) == 0


def test_latest_of_equal_pods_is_the_victim() -> None:
    """Pods that the run placed have started one after the other.

    The preemptor is tried once its required pod is placed.
    """
    late = build_pod("late", 10, affinity=build_affinity("anchor"))
    anchor = build_pod("anchor", 10, cpu="0", affinity=build_affinity("second"))
    low = [build_pod("first"), build_pod("second"), build_pod("third")]
    simulation, placed, _ = run_simulation(build_node("a", "3"), late, anchor, *low)
    assert placed[:5] == [("first", 0), ("second", 0), ("third", 0), ("anchor", 0), ("late", 0)]
    assert [simulation.view.pods.objects[position].metadata.name for position in simulation.evicted_from] == ["third"]


def test_no_retries_if_no_pod_moves() -> None:
    _, placed, retried = run_simulation(build_node("a", "1"), build_pod("first", cpu="2"), build_pod("second", cpu="3"))
    assert [row for _, row in placed] == [-1, -1]
    assert retried == {}


@pytest.mark.parametrize("share", range(SHARES))
def test_pods_get_the_nodes_that_kube_scheduler_chose(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties between nodes and between candidates are broken by name. Later retries may only come from the timeout.

    The pods reached the recorded scheduler in the order of their names, whatever their creation times.
    """

    def by_name(self: Placements, info: PodInfo, best: Rows, feasible: int, before: Any) -> Choice | None:
        rows = sorted(best.tolist(), key=self.view.nodes.names.__getitem__)
        return Choice(info, rows[0], best, feasible, before) if feasible else None

    monkeypatch.setattr(Placements, "_pick_node", by_name)
    cases = [json.loads(line) for line in iter_family_lines("over_time/run")]
    plain = [c for c in cases if not any(cycle.get("batched") for cycle in c["want"]["cycles"])]
    assert len(plain) > 100
    for case in plain[share::SHARES]:
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        simulation = Simulation(Scheduler(Cluster.from_objects(case["objects"], **settings)))
        names, pods = simulation.view.nodes.names, simulation.view.pods.objects

        def nominated(outcome: PostFilterOutcome, _: Any, names: Sequence[str] = names) -> Candidate | None:
            tied = [each for result in outcome.results.values() for each in get_tied_candidates(result)]
            return next((each for each in tied if names[each.row] == outcome.nominated_node), None)

        monkeypatch.setattr("kschedctl.scheduler.simulation.reused_answers.choose_candidate", nominated)
        outcomes = simulation.schedule(sorted(find_pods_still_pending(simulation)))
        found = [(pods[o.position].key, names[o.row]) for o in outcomes if o.row >= 0]
        wanted = [bound for cycle in case["want"]["cycles"] for bound in cycle.get("bound", {}).items()]
        assert found[: len(wanted)] == wanted, case["id"]
        later = {
            pods[position].key for position, labels in simulation.retried.items() if labels[-1].endswith("Timeout")
        }
        assert {key for key, _ in found[len(wanted) :]} <= later, case["id"]
