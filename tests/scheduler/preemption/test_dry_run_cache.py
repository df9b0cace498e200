"""Check that cached dry-run results equal a dry run on all nodes after any moves."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.dry_run_cache import VictimCache
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.candidates import choose_best_candidates
from kschedctl.scheduler.engine.preemption.dry_run import dry_run
from kschedctl.scheduler.engine.preemption.victims import LowerPriority
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork

Json = dict[str, Any]


class OnAllNodes(LowerPriority):
    """A selection of the same victims whose dry run always judges all nodes at once."""

    filters_decide = False


def build_cluster(random: Random) -> list[Json]:
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": {"zone": random.choice("ab")}},
            "status": {"allocatable": {"cpu": str(random.randint(2, 4)), "memory": "8Gi", "pods": "6"}},
        }
        for i in range(6)
    ]
    running = [
        build_pod(random, f"r{i}", random.choice((0, 3, 5, 9)), nodeName=f"n{random.randrange(6)}") for i in range(22)
    ]
    waiting = [build_pod(random, f"w{i}", priority, "2") for i, priority in enumerate((5, 10, 20))]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": random.randint(0, 2)},
    }
    return [*nodes, *running, *waiting, budget]


def build_pod(random: Random, name: str, priority: int, cpu: str = "", **spec: Any) -> Json:
    ports = [{"containerPort": 80, "hostPort": 80}] if random.random() < 0.2 else []
    requests = {"cpu": cpu or random.choice(("500m", "1", "2"))}
    spec |= {"containers": [{"name": "c", "resources": {"requests": requests}, "ports": ports}], "priority": priority}
    if random.random() < 0.2:
        spec["nodeSelector"] = {"zone": "a"}
    meta = {"name": name, "namespace": "d", "labels": {"app": random.choice("xy")}}
    return {"kind": "Pod", "metadata": meta, "spec": spec}


def get_best_candidates(cycle: Cycle, selection: LowerPriority) -> list[tuple[int, list[int]]] | dict[str, int]:
    """Return the best candidates with their victims, or the number of nodes per reason without help."""
    run = dry_run(cycle, np.ones(len(cycle.view.nodes), np.bool_), selection)
    helpful = run.candidates.select(np.flatnonzero(run.candidates.sizes))
    if not len(helpful):
        return dict(run.count_unhelpful_nodes())
    return [(int(found.row), list(found.victims)) for found in choose_best_candidates(cycle.view, helpful).tied]


def list_candidates(cycle: Cycle, selection: LowerPriority) -> list[tuple[int, list[int], list[bool]]]:
    found = dry_run(cycle, np.ones(len(cycle.view.nodes), np.bool_), selection).candidates
    parts = (slice(found.starts[i], found.starts[i + 1]) for i in range(len(found.row)))
    return [
        (row, found.victims[part].tolist(), found.violating[part].tolist())
        for row, part in zip(found.row.tolist(), parts, strict=True)
    ]


def move_random_pod(random: Random, view: Fork, positions: list[int]) -> None:
    """Add a pod to a node, remove it, nominate it to a node, or let its PDB allow one disruption more or less."""
    position, row = random.choice(positions), random.randrange(len(view.nodes))
    if random.random() < 0.2:
        budgets = get_budgets(view)
        record_change = random.choice((budgets.record_evicted_pods, budgets.record_running_pods))
        record_change([position])  # type: ignore[list-item]
    elif view.node[position] >= 0:
        view.forget(position)  # type: ignore[arg-type]
    elif random.random() < 0.5:
        view.assume(position, row)  # type: ignore[arg-type]
    else:
        view.nominate(position, row)  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.sampled_from((0.0, 0.5, 1.0)))
def test_cached_results_equal_a_dry_run_on_all_nodes(seed: int, best_alone: float) -> None:
    """If only the best candidates are requested, they are the best of all candidates."""
    random, kept = Random(seed), VictimCache()
    scheduler = Scheduler(Cluster.from_objects(build_cluster(random)))
    framework, view = scheduler.find_framework("default-scheduler"), scheduler.view.fork()
    assert framework is not None
    askers = [view.pods.index[f"d/w{i}"] for i in range(3)]
    others = [position for position in range(len(view.pods)) if position not in askers]
    for _ in range(25):
        info = view.pods.infos[int(view.pods.info[random.choice(askers)])]
        cycle = replace(run_cycle(framework, info, view), victim_cache=kept)
        if cycle.error is None and not len(cycle.feasible):
            lower, everywhere = LowerPriority(view, info.priority), OnAllNodes(view, info.priority)
            if random.random() < best_alone:
                assert get_best_candidates(replace(cycle, only_best_candidates=True), lower) == get_best_candidates(
                    cycle, everywhere
                )
            else:
                assert list_candidates(cycle, lower) == list_candidates(cycle, everywhere)
        for _ in range(random.randint(0, 2)):
            move_random_pod(random, view, others)
