"""Check that a simulation places a pod group as a whole or not at all."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
from group_clusters import GATES, build_cluster, build_gang, build_node, build_pod
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.commands.explain.one_pod import explain
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

WORKLOAD_AWARE = {**GATES, "WorkloadAwarePreemption": True}
TOPOLOGY_AWARE = {**GATES, "TopologyAwareWorkloadScheduling": True}
ZONE = "zone"

groups = st.lists(
    st.tuples(
        st.integers(1, 5),  # minCount
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from((0, 10))), max_size=6),  # cpu and priority of each pod
        st.booleans(),  # in one zone
    ),
    min_size=1,
    max_size=4,
)
loads = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from((-5, 5))), max_size=6)


def simulate(objects: list, gates: dict = GATES) -> tuple[Simulation, list[Outcome]]:
    simulation = Simulation(Scheduler(build_cluster(objects, gates)))
    waiting = np.flatnonzero(simulation.view.node < 0).tolist()
    return simulation, simulation.run(waiting)


@given(groups, loads, st.sampled_from((GATES, TOPOLOGY_AWARE, WORKLOAD_AWARE)))
def test_all_or_nothing(wanted: list, load: list, gates: dict) -> None:
    nodes = [build_node(f"n{i}", 4, zone=f"z{i % 2}") for i in range(4)]
    running = [
        build_pod(f"b{i}", cpu=cpu, priority=priority, bound=f"n{on}") for i, (on, cpu, priority) in enumerate(load)
    ]
    gangs = [
        [
            build_gang(f"g{i}", count, ZONE if together else ""),
            *(build_pod(f"g{i}-{j}", f"g{i}", *p) for j, p in enumerate(pods)),
        ]
        for i, (count, pods, together) in enumerate(wanted)
    ]
    simulation, outcomes = simulate([*nodes, *running, *chain(*gangs)], gates)
    view = simulation.view
    placed = Counter(view.pods.objects[o.position].metadata.name[:2] for o in outcomes if o.verdict == "Scheduled")
    for i, (count, pods, together) in enumerate(wanted):
        assert placed[f"g{i}"] == 0 or placed[f"g{i}"] >= count
        rows = {int(view.node[o.position]) for o in outcomes if view.pods.objects[o.position].key.startswith(f"a/g{i}")}
        if together and gates is TOPOLOGY_AWARE:  # some of it may have been evicted since
            assert len({view.cluster.nodes[row].metadata.labels[ZONE] for row in rows - {-1}}) <= 1
        assert placed[f"g{i}"] <= len(pods)
    sums = np.zeros_like(view.requested)
    for position, row in enumerate(view.node.tolist()):
        sums[row] += view.requests[view.pods.info[position]] if row >= 0 else 0
    assert (view.requested == sums).all()


def test_single_pods_get_the_room_of_a_gang_that_does_not_fit() -> None:
    """Four pods of the gang fit, but it needs five. The single pods, which come after it, get the room."""
    members = [build_pod(f"g-{i}", "g", priority=9) for i in range(5)]
    _, outcomes = simulate([build_node("n"), build_gang("g", 5), *members, *(build_pod(f"s{i}") for i in range(4))])
    assert Counter(o.verdict for o in outcomes) == {"Scheduled": 4, "Unschedulable": 5}
    texts = {o.message for o in outcomes if o.verdict == "Unschedulable"}
    assert "0/1 nodes are available: 1 Insufficient cpu." in " ".join(texts)


def test_gang_preempts() -> None:
    running = [build_pod(f"b{i}", cpu=2, priority=-1, bound="n") for i in range(2)]
    simulation, outcomes = simulate(
        [build_node("n"), build_gang("g", 3), *running, *(build_pod(f"g-{i}", "g") for i in range(3))]
    )
    assert [o.verdict for o in outcomes] == ["Scheduled"] * 3
    gone = chain(*(o.victims for o in outcomes))
    assert sorted(simulation.view.pods.objects[position].metadata.name for position in gone) == ["b0", "b1"]


def test_members_preempt_although_their_gang_does_not_fit() -> None:
    """Each member preempts by itself. The gang as a whole does not preempt if that would not help."""
    running = [build_pod("b0", cpu=2, priority=-1, bound="n")]
    objects = [build_node("n"), build_gang("g", 5), *running, *(build_pod(f"g-{i}", "g") for i in range(5))]
    for gates, evicted in ((GATES, True), (WORKLOAD_AWARE, False)):
        simulation, outcomes = simulate(objects, gates)
        assert {o.verdict for o in outcomes} == {"Unschedulable"}
        assert simulation.preempted is evicted


def test_gang_waits_for_its_victims_room_and_other_pods_yield() -> None:
    """The single pod has a lower priority.

    It would fit beside the victims, but not beside the gang, which is placed later. Two of the three members fit at
    once, and wait for the third on their nominated nodes.
    """
    running = [build_pod("b0", cpu=1, priority=-1, bound="n"), build_pod("b1", cpu=1, priority=-2, bound="n")]
    members = [build_pod(f"g-{i}", "g", priority=9) for i in range(3)]
    simulation, outcomes = simulate([build_node("n"), build_gang("g", 3), *running, *members, build_pod("s", cpu=2)])
    names = [simulation.view.pods.objects[o.position].metadata.name for o in outcomes if o.row >= 0]
    assert names == ["g-2", "g-0", "g-1"]
    gone = [simulation.view.pods.objects[each].metadata.name for o in outcomes for each in o.victims]
    assert gone == ["b1"]
    assert len(simulation.view.nominations[0]) == 0


def test_members_of_several_schedulers_are_rejected() -> None:
    """The pod that completed the gang comes first."""
    other = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    names = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    members = [build_pod("g-0", "g"), build_pod("g-1", "g", schedulerName="other")]
    found = build_cluster([build_node("n"), build_gang("g", 2), *members])
    simulation = Simulation(Scheduler(type(found)(**{**vars(found), "configuration": {**other, "profiles": names}})))
    outcomes = simulation.run(range(2))
    wanted = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "other" and'
    assert all(o.verdict == "Error" and o.message.startswith(wanted) for o in outcomes)
    report = explain(simulation.view.cluster, "a/g-0")
    assert (report.verdict, (report.message or "").startswith(wanted)) == ("Error", True)


def test_members_do_not_see_the_anti_affinity_of_other_members() -> None:
    """g-1 completes the gang and comes first. Then g-0 is placed beside it, as in the group's cycle."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shunned = build_pod("g-0", "g")
    shunned["metadata"]["labels"] = {"app": "b"}
    members = [shunned, build_pod("g-1", "g", affinity=apart)]
    objects = [build_node("n", **{"kubernetes.io/hostname": "n"}), build_gang("g", 2), *members]
    assert {o.verdict for o in simulate(objects)[1]} == {"Scheduled"}
    assert {explain(build_cluster(objects), f"a/g-{i}").verdict for i in range(2)} == {"Schedulable"}


def test_gangs_wait_for_their_pods_and_pods_for_their_gang() -> None:
    _, outcomes = simulate([build_node("n"), build_gang("g", 2), build_pod("g-0", "g"), build_pod("h-0", "h")])
    assert [(o.verdict, o.message) for o in outcomes] == [
        ("Gated", "waiting for minCount pods from a gang to appear in scheduling queue"),
        ("Gated", 'waiting for pods\'s pod group "h" to appear in scheduling queue'),
    ]
