"""Check the queue of a simulation: the order of attempts, and what puts unschedulable pods back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from golden_cases import SETTINGS, Json, family_lines

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


def node(name: str, cpu: str) -> Json:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}
    return {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: "z"}}, "status": status}


def pod(name: str, priority: int = 0, cpu: str = "1", **spec: Any) -> Json:
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
def test_a_pod_is_tried_again_once_the_one_that_it_needs_is_there(version: str) -> None:
    """It backs off meanwhile, so that the last one goes first, whatever its priority."""
    objects = [node("a", "4"), pod("first", 9, affinity=build_affinity("second")), pod("second", 5), pod("third")]
    _, placed, retried = run_simulation(*objects, kube_version=version)
    assert placed == [("second", 0), ("third", 0), ("first", 0)]
    assert retried == {"first": ["AssignedPodAdd"]}


def test_what_plugins_do_not_ask_for_puts_no_pod_back_before_its_time() -> None:
    """A pod that comes makes no room: only when nothing else is left to try, five minutes later, is it tried again."""
    _, placed, retried = run_simulation(node("a", "4"), pod("large", 9, cpu="5"), pod("small"))
    assert placed == [("small", 0), ("large", -1)]
    assert retried == {"large": ["UnschedulableTimeout"]}


def test_a_pod_that_leaves_puts_those_back_that_lack_room() -> None:
    """The first never preempts. The second evicts who has two cpus; but both are tried again then, and to one of lower
    priority nobody yields: so that the first, which backs off for a shorter time, takes the room."""
    never = pod("first", 20, cpu="2", preemptionPolicy="Never")
    running = pod("low", cpu="2", nodeName="a")
    simulation, placed, retried = run_simulation(node("a", "2"), running, never, pod("second", 10))
    assert placed == [("first", 0), ("second", -1)]
    assert retried["first"] == ["AssignedPodDelete"]
    assert retried["second"][0] == "AssignedPodDelete"
    assert len(simulation.evicted_from) == 1


def test_who_preempted_is_nominated_and_others_yield() -> None:
    """The third would fit beside the victim's place, but not once the second is there, which comes later."""
    running = pod("low", cpu="3", nodeName="a")
    simulation, placed, retried = run_simulation(node("a", "4"), running, pod("second", 10, cpu="3500m"), pod("third"))
    assert placed == [("second", 0), ("third", -1)]
    assert retried["second"] == ["AssignedPodDelete"]
    assert len(simulation.view.nominations[0]) == 0


def test_of_equal_pods_that_came_the_last_one_goes() -> None:
    """Whom the run placed has started since, one after the other; the most urgent pod comes when it is near another."""
    late = pod("late", 10, affinity=build_affinity("anchor"))
    anchor = pod("anchor", 10, cpu="0", affinity=build_affinity("second"))
    low = [pod("first"), pod("second"), pod("third")]
    simulation, placed, _ = run_simulation(node("a", "3"), late, anchor, *low)
    assert placed[:5] == [("first", 0), ("second", 0), ("third", 0), ("anchor", 0), ("late", 0)]
    assert [simulation.view.pods.objects[position].metadata.name for position in simulation.evicted_from] == ["third"]


def test_where_nothing_moves_nobody_is_tried_again() -> None:
    _, placed, retried = run_simulation(node("a", "1"), pod("first", cpu="2"), pod("second", cpu="3"))
    assert [row for _, row in placed] == [-1, -1]
    assert retried == {}


@pytest.mark.parametrize("share", range(SHARES))
def test_pods_come_to_nodes_as_with_kube_scheduler(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where equal nodes and candidates are taken by name. Afterwards five minutes may help others."""

    def by_name(self: Placements, info: PodInfo, best: Rows, feasible: int, before: Any) -> Choice | None:
        rows = sorted(best.tolist(), key=self.view.nodes.names.__getitem__)
        return Choice(info, rows[0], best, feasible, before) if feasible else None

    monkeypatch.setattr(Placements, "_pick_node", by_name)
    cases = [json.loads(line) for line in family_lines("over_time/run")]
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
        outcomes = simulation.schedule(find_pods_still_pending(simulation))
        found = [(pods[o.position].key, names[o.row]) for o in outcomes if o.row >= 0]
        wanted = [bound for cycle in case["want"]["cycles"] for bound in cycle.get("bound", {}).items()]
        assert found[: len(wanted)] == wanted, case["id"]
        later = {
            pods[position].key for position, labels in simulation.retried.items() if labels[-1].endswith("Timeout")
        }
        assert {key for key, _ in found[len(wanted) :]} <= later, case["id"]
