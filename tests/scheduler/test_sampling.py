"""Check node sampling against upstream's own tables, and the rotating start against a loop node by node."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from golden_cases import Json

from kschedctl.api.kube_version import KubeVersion
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling, SearchTerms, count_nodes_to_find
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

NUMBERS = [(0, 10, 10), (40, 10, 10), (0, 1000, 420), (40, 1000, 400), (0, 6000, 300), (40, 6000, 2400)]
"""Upstream's TestNumFeasibleNodesToFind: the percentage, the number of nodes, and the number of nodes to find."""
STARTS = [150, 300, 450, 100, 250, 400, 50, 200]
"""Upstream's TestFairEvaluationForNodes: starts of the next searches over 500 feasible nodes at 30 %."""


@pytest.mark.parametrize(("percentage", "nodes", "enough"), NUMBERS)
def test_number_of_nodes_to_find(percentage: int, nodes: int, enough: int) -> None:
    assert count_nodes_to_find(percentage, nodes) == enough


def test_every_node_gets_its_turn() -> None:
    sampling = Sampling(30)
    for start in STARTS:
        assert len(sampling.search_nodes(np.zeros(500, np.bool_), np.arange(500)).feasible) == 150
        assert sampling.start == start


def sample_naively(refused: list[bool], start: int, enough: int) -> tuple[list[int], int]:
    """Return the nodes that a loop finds from ``start`` on, and the start of the next loop."""
    found, failed = [], 0
    for i in range(len(refused)):
        row = (start + i) % len(refused)
        if refused[row]:
            failed += 1
        elif len(found) == enough:
            break
        else:
            found.append(row)
    return found, (start + len(found) + failed) % len(refused)


def test_samples_equal_those_of_a_loop() -> None:
    random = Random(3)
    for _ in range(200):
        nodes, percentage = random.randint(1, 400), random.choice([0, 5, 30, 70, 100])
        sampling, start = Sampling(percentage), 0
        enough = count_nodes_to_find(percentage, nodes)
        for _ in range(6):
            refused = [random.random() < 0.4 for _ in range(nodes)]
            expected, start = sample_naively(refused, start, enough)
            found = sampling.search_nodes(np.array(refused), np.arange(nodes)).feasible
            assert (found.tolist(), sampling.start) == (expected, start)


@pytest.mark.parametrize(("extended", "found"), [(False, [1]), (True, [1, 2])])
def test_without_scoring_one_node_is_enough(extended: bool, found: list[int]) -> None:
    sampling = Sampling(extended=extended)
    refused = np.array([True, False, False])
    assert sampling.search_nodes(refused, np.arange(3), SearchTerms(scoring=False)).feasible.tolist() == found
    assert sampling.start == (0 if extended else 2)


def test_search_ends_at_a_failing_plugin() -> None:
    """As in upstream's code, nodes found before the failure count, and the failing node does not."""
    sampling = Sampling(start=1)
    failed = np.array([False, False, False, True, False])
    search = sampling.search_nodes(failed.copy(), np.arange(5), failed=failed)
    assert (search.feasible.tolist(), search.next) == ([1, 2], 3)
    assert np.flatnonzero(search.examined).tolist() == [1, 2, 3]


def test_rejecting_nominated_node_counts_as_examined() -> None:
    """PreFilter allows nodes 0 and 1 of 5, and node 4 is nominated, so three nodes have a verdict."""
    sampling = Sampling()
    refused = np.array([False, True, False, False, True])
    assert sampling.search_nodes(refused, np.arange(2), nominated_row=4).next == 3


@pytest.mark.parametrize(("version", "start"), [("1.30.1", 0), ("1.30.2", 2)])
def test_excluded_nodes_counted_as_examined_in_1_30(version: str, start: int) -> None:
    """Up to v1.30.1 each excluded node had its own status."""
    profile = next(iter(Scheduler(Cluster.from_objects([])).configuration.profiles.values()))
    sampling = Sampling()
    sampling.search_nodes(
        np.zeros(5, np.bool_), np.arange(2), SearchTerms.from_profile(profile, KubeVersion.parse(version))
    )
    assert sampling.start == start


def test_consecutive_searches_start_at_different_nodes() -> None:
    configuration = Scheduler(Cluster.from_objects([])).configuration
    starts = [SampledFrom().start_sampling(configuration, 1000, seed).start for seed in range(20)]
    assert starts[0] == 0
    assert len(set(starts)) == 20
    assert {SampledFrom(1007).start_sampling(configuration, 1000, seed).start for seed in range(20)} == {7}


def build_nodes(count: int) -> list[Json]:
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}
    return [{"kind": "Node", "metadata": {"name": f"n{i:04}"}, "status": status} for i in range(count)]


def build_pods(count: int) -> list[Json]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    return [{"kind": "Pod", "metadata": {"name": f"p{i:02}", "namespace": "d"}, "spec": spec} for i in range(count)]


@pytest.mark.parametrize("percentage", [10, 40])
def test_simulation_examines_as_many_nodes_as_upstream(percentage: int) -> None:
    """All nodes fit, so that the nodes examined for each pod follow those of the pod before."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": percentage,
    }
    cluster = Cluster.from_objects([*build_nodes(1500), *build_pods(12)], config=config)
    simulation = Simulation(Scheduler(cluster), sampling=SampledFrom())
    enough = max(1500 * percentage // 100, 100)
    for i, position in enumerate(range(12)):
        outcome = simulation.attempt_pod(position)
        assert outcome is not None
        assert outcome.feasible == enough
        assert (outcome.row - i * enough) % 1500 < enough
