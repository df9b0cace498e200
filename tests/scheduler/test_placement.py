"""Check placements against the real scheduler, and that cached results for identical pods stay current."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import draw_objects

from kschedctl.api.workloads import decode_workload
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation import alike_pods, grouped_ranking, placement, ranked_groups
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot import tallies
from kschedctl.snapshot.changed_nodes import ClosedNodes
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

RECORDINGS = Path(__file__).parents[1] / "recordings" / "placed.jsonl.xz"
PLACED = [json.loads(line) for line in lzma.decompress(RECORDINGS.read_bytes()).splitlines()]


@pytest.fixture(autouse=True, scope="module")
def no_full_cycles() -> Iterator[None]:
    """Let even the first pods of a kind get cached answers, which are then compared with full cycles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "FULL_CYCLES_PER_KIND", 0)
        yield


def find_framework(scheduler: Scheduler) -> Framework:
    found = scheduler.find_framework("default-scheduler")
    assert found is not None
    return found


@pytest.mark.parametrize("case", PLACED, ids=[case["name"] for case in PLACED])
def test_real_scheduler_chose_one_of_the_tied_nodes(case: dict[str, Any]) -> None:
    """Each pod is created from its manifest, in the cluster as it was at that time."""
    cluster = Cluster.from_objects(case["objects"])
    (pods,) = create_workload_objects(cluster, [decode_workload(case["pod"])]).pods.values()
    scheduler = Scheduler(add_or_replace_pods(cluster, pods))
    view = scheduler.view.fork()
    choice = Placements(view).choose_node(find_framework(scheduler), view.pods.index[pods[0].key])
    assert choice is not None
    assert case["result"]["chosen"] in {view.nodes.names[row] for row in choice.tied}
    assert choice.feasible == case["result"]["feasibleNodes"]


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from((1, 4)), st.sampled_from((0, 32)))
def test_cached_answers_equal_full_cycles_while_pods_move(
    seed: int, nominated: bool, from_so_many: int, most_changed: int
) -> None:
    """Pods are placed and removed in any order, many equal pods at a time.

    Some pods may be nominated for nodes, so that others yield to them until they have a node. Nodes are grouped from
    the first equal pod on or later, and again after further rejections or not.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alike_pods, "GROUPING_THRESHOLD", from_so_many)
        patched.setattr(grouped_ranking, "MAX_CHANGED_REJECTIONS", most_changed)
        patched.setattr(grouped_ranking, "PATIENCE", 2)
        random = Random(seed)
        scheduler, keys = _build_scheduler(random, nominated)
        _move_and_compare(random, scheduler, scheduler.view.fork(), keys)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from((0, 8)))
def test_cached_answers_equal_full_cycles_with_closed_nodes(seed: int, nominated: bool, few_infos: int) -> None:
    """With closed nodes, each row is judged separately. Tallies are small, or have narrow numbers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tallies, "FEW_INFOS", few_infos)
        random = Random(seed)
        scheduler, keys = _build_scheduler(random, nominated)
        view = scheduler.view.fork()
        view.closed = ClosedNodes(len(view.nodes))
        _move_and_compare(random, scheduler, view, keys)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_cached_answers_equal_full_cycles_in_forks_without_some_nodes(
    seed: int, nominated: bool, whole_moves: bool
) -> None:
    """Forks of one fork share cached data about its nodes, unless pods have moved there since."""
    random = Random(seed)
    scheduler, keys = _build_scheduler(random, nominated)
    whole = scheduler.view.fork()
    forks = [whole.without_nodes(np.arange(len(whole.nodes)) % 4 == remainder) for remainder in range(3)]
    for fork in forks:
        if whole_moves:
            whole.assume(whole.pods.index[random.choice(keys)], random.randrange(len(whole.nodes)))
        if len(fork.nodes):
            _move_and_compare(random, scheduler, fork, keys)


def _build_scheduler(random: Random, nominated: bool) -> tuple[Scheduler, list[str]]:
    """Build the scheduler of a random cluster, and return it with the keys of the pods to move."""
    documents, keys = draw_objects(random)
    if nominated:
        documents = [nominate_some_pods(each, random) for each in documents]
    return Scheduler(Cluster.from_objects(documents)), keys


def _move_and_compare(random: Random, scheduler: Scheduler, view: Fork, keys: list[str]) -> None:
    """Place and remove pods at random, and compare each answer with that of a full cycle."""
    placements = Placements(view, random.randrange(2**32))
    positions = [view.pods.index[key] for key in keys]
    for position in list(positions):
        if not view.pods.objects[position].status.nominated_node_name:
            positions += view.add_clones(position, random.randint(0, 12))
    for _ in range(60):
        position = random.choice(positions)
        if view.node[position] >= 0:
            view.forget(position)
            continue
        if random.random() < 0.2:  # somebody else binds it, so that several moves are taken in at once
            view.assume(position, random.randrange(len(view.nodes)))
            continue
        info = placements.get_incoming_info(int(view.pods.info[position]))
        alone = PodInfo(placements.build_stored_pod(position), info.options)  # of which nothing is known
        expected = run_cycle(find_framework(scheduler), alone, view)
        choice = placements.choose_node(find_framework(scheduler), position)
        if choice is None:
            assert not len(expected.feasible)
            continue
        assert (choice.feasible, choice.tied.tolist()) == (len(expected.feasible), expected.scores.best.tolist())
        view.assume(position, choice.row)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from((1, 8)))
def test_identical_pods_get_the_nodes_of_full_cycles(seed: int, small_count: int) -> None:
    """Each pod gets the node that a full cycle chooses with the same random numbers, until no node is feasible."""
    random = Random(seed)
    scheduler = Scheduler(Cluster.from_objects(build_uneven_nodes(random)))
    view = scheduler.view.fork()
    placements = Placements(view, seed)
    same_random = Random(seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranked_groups, "SMALL_COUNT", small_count)
        for position in view.add_clones(view.pods.index["default/more"], 150):
            info = placements.get_incoming_info(int(view.pods.info[position]))
            alone = PodInfo(placements.build_stored_pod(position), info.options)
            best = run_cycle(find_framework(scheduler), alone, view).scores.best
            choice = placements.choose_node(find_framework(scheduler), position)
            if choice is None:
                assert not len(best)
                return
            assert choice.row == best[same_random.randrange(len(best)) if len(best) > 1 else 0]
            view.assume(position, choice.row)


def build_uneven_nodes(random: Random) -> list[dict[str, Any]]:
    """Build nodes of a few sizes in three zones, running pods, and the pod ``more`` that spreads softly over them."""
    documents = []
    labels = {"app": "more"}
    for number in range(random.randint(10, 40)):
        name = f"n{number}"
        node_labels = {"topology.kubernetes.io/zone": f"z{random.randrange(3)}", "kubernetes.io/hostname": name}
        allocatable = {"cpu": random.choice(("2", "4")), "memory": "16Gi", "pods": "20"}
        documents.append(
            {"kind": "Node", "metadata": {"name": name, "labels": node_labels}, "status": {"allocatable": allocatable}}
        )
        for other in range(random.randrange(4)):
            spec = {"nodeName": name, "containers": [{"name": "c", "image": "i"}]}
            documents.append(
                {
                    "kind": "Pod",
                    "metadata": {"name": f"{name}-{other}", "namespace": "default", "labels": labels},
                    "spec": spec,
                }
            )
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    requests = {"cpu": random.choice(("100m", "300m", "1")), "memory": "1Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    spec = {"containers": containers, "topologySpreadConstraints": constraints[: random.randrange(3)]}
    documents.append(
        {"kind": "Pod", "metadata": {"name": "more", "namespace": "default", "labels": labels}, "spec": spec}
    )
    return documents


def nominate_some_pods(document: dict[str, Any], random: Random) -> dict[str, Any]:
    """Nominate one in three of the pods without a node for some node, and make it more important than others."""
    if document["kind"] != "Pod" or document["spec"].get("nodeName") or random.random() > 0.33:
        return document
    spec = document["spec"] | {"priority": random.choice((0, 1, 50))}
    return document | {"spec": spec, "status": {"nominatedNodeName": f"n{random.randint(0, 4)}"}}


def build_plain_nodes(documents: int, cpu: str = "4") -> list[dict[str, Any]]:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}
    return [{"kind": "Node", "metadata": {"name": f"n{i:03}"}, "status": status} for i in range(documents)]


def test_pod_that_requires_two_node_names_fits_nowhere() -> None:
    """NodeAffinity's PreFilter rejects the pod, so that no Filter plugin is prepared for it."""
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n000", "n001")]
    required = {"nodeSelectorTerms": [{"matchFields": names}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"containers": [{"name": "c", "image": "i"}], "affinity": affinity}
    pod = {"kind": "Pod", "metadata": {"name": "torn", "namespace": "d"}, "spec": spec}
    nodes = build_plain_nodes(2)
    scheduler = Scheduler(Cluster.from_objects([*nodes, pod]))
    mask = Placements(scheduler.view.fork()).find_feasible_mask(find_framework(scheduler), 0)
    assert mask is not None
    assert mask.tolist() == [False, False]


def test_answers_computed_ahead_equal_full_cycles() -> None:
    """Hundreds of equal pods are placed on equal nodes."""
    container = {"name": "c", "resources": {"requests": {"cpu": "150m", "memory": "100Mi"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container]}}
    scheduler = Scheduler(Cluster.from_objects([*build_plain_nodes(8), pod]))
    view = scheduler.view.fork()
    placements = Placements(view, 1)
    placed = 0
    for position in view.add_clones(0, 300):
        expected = run_cycle(find_framework(scheduler), view.pods.infos[0], view)
        choice = placements.choose_node(find_framework(scheduler), position)
        if choice is None:
            assert not len(expected.feasible)
            break
        assert choice.tied.tolist() == expected.scores.best.tolist()
        assert choice.feasible == len(expected.feasible)
        view.assume(position, choice.row)
        placed += 1
    assert placed == 8 * (4000 // 150)


def test_templates_with_equal_requests_share_cached_data() -> None:
    """Pods of three templates, which differ in node selectors and anti-affinity, are placed until no pod fits."""
    container = {"name": "c", "resources": {"requests": {"cpu": "150m", "memory": "100Mi"}}}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    anti = {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]}
    }
    specs: list[dict[str, Any]] = [{}, {"nodeSelector": {"zone": "1"}}, {"affinity": anti}]
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [container], **spec},
        }
        for name, spec in zip("abc", specs, strict=True)
    ]
    nodes = build_plain_nodes(8)
    for i, node in enumerate(nodes):
        node["metadata"]["labels"] = {"zone": str(i % 3)}
    nodes[0]["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    scheduler = Scheduler(Cluster.from_objects([*nodes, *pods]))
    view = scheduler.view.fork()
    placements, random = Placements(view, 1), Random(1)
    positions = [position for first in range(3) for position in view.add_clones(first, 80)]
    random.shuffle(positions)
    placed = 0
    for position in positions:
        expected = run_cycle(find_framework(scheduler), view.pods.infos[view.pods.info[position]], view)
        choice = placements.choose_node(find_framework(scheduler), position)
        if choice is None:
            assert not len(expected.feasible)
            continue
        assert (choice.feasible, choice.tied.tolist()) == (len(expected.feasible), expected.scores.best.tolist())
        view.assume(position, choice.row)
        placed += 1
    assert placed == 7 * (4000 // 150)


def test_snapshot_without_nodes_equals_a_cluster_without_them() -> None:
    random = Random(11)
    for _ in range(20):
        documents, keys = draw_objects(random)
        scheduler = Scheduler(Cluster.from_objects(documents))
        gone = np.array([random.random() < 0.3 for _ in scheduler.view.nodes.names])
        names = {name for name, lost in zip(scheduler.view.nodes.names, gone, strict=True) if lost}
        kept = [d for d in documents if d["metadata"]["name"] not in names]
        kept = [d for d in kept if d["kind"] != "Pod" or d["spec"].get("nodeName") not in names]
        fresh = Scheduler(Cluster.from_objects(kept))
        view = scheduler.view.without_nodes(gone)
        for key in keys:
            info = fresh.view.pods.infos[fresh.view.pods.info[fresh.view.pods.index[key]]]
            ours, theirs = (
                run_cycle(find_framework(scheduler), info, view),
                run_cycle(find_framework(fresh), info, fresh.view),
            )
            assert list_best_nodes(ours) == list_best_nodes(theirs)


def list_best_nodes(cycle: Any) -> set[str]:
    return {cycle.view.nodes.names[row] for row in cycle.scores.best.tolist()}


@pytest.mark.parametrize("most", [4, 8, 12], ids=["never in groups", "given up", "put in groups again"])
def test_answers_with_too_many_groups_of_nodes(most: int) -> None:
    """The nodes hold ever more different numbers of pods and are in racks of two.

    Scores must equal those of the full cycle.
    """
    container = {"name": "c", "resources": {"requests": {"cpu": "10m"}}}
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "p"}},
        }
        for key in ("kubernetes.io/hostname", "rack")
    ]
    spec = {"containers": [container], "topologySpreadConstraints": spread}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", "labels": {"app": "p"}}, "spec": spec}
    nodes = build_plain_nodes(6)
    for i, node in enumerate(nodes):
        node["metadata"]["labels"] = {"kubernetes.io/hostname": f"h{i}", "rack": f"r{i // 2}"}
    scheduler = Scheduler(Cluster.from_objects([*nodes, pod]))
    view = scheduler.view.fork()
    placements, random = Placements(view, 1), Random(3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grouped_ranking, "MAX_GROUPS", most)
        for position in view.add_clones(0, 60):
            expected = run_cycle(find_framework(scheduler), view.pods.infos[0], view)
            choice = placements.choose_node(find_framework(scheduler), position)
            assert choice is not None
            assert (choice.feasible, choice.tied.tolist()) == (len(expected.feasible), expected.scores.best.tolist())
            view.assume(position, random.randrange(6))
