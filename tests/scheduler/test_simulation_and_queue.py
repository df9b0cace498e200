"""Check that simulations place pods like the queue's engine, which runs full cycles and handles all events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.scheduler.queue_run.pod_groups import QueuedPodGroups
from kschedctl.scheduler.queue_run.queue_run import CycleRecord, QueueReplay
from kschedctl.scheduler.queueing.waiting_pods import MAX_ROUNDS, PREEMPTION_LOOP
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.queued_pods import QueuedPods
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

Json = dict[str, Any]
GANGS = {"GenericWorkload": True, "GangScheduling": True}
GOING_ROUND = 5346
"""A seed with which waiting pods of a gang are preempted by a pod of the same gang again and again."""
DIFFERED = (
    ("1.36", 801174),  # while a pod preempts, no pod like it is kept out of the queue, only itself
    ("1.31", 300532),  # a gang is left alone at the end of an attempt as it was at its beginning
    ("1.31", 700496),
    ("1.36", 800272),  # a pod loses the node it was promised before its victims on another node go
)
OUTDONE = 13
"""A seed with which a gang preempts pods in vain on a node for which a less urgent pod of another gang waits."""
STARVING = 3033915
"""A seed with which a gang returns at once each time, ahead of pods whose backoff ends in the same second."""
WHOLE_GANGS = {**GANGS, "WorkloadAwarePreemption": True}


class First(Random):
    """A Random that picks the first of equal nodes, whose names make it the first by name, too."""

    def randrange(self, *_: Any, **__: Any) -> int:
        return 0


# -- random clusters -------------------------------------------------------------------------------------------------


def build_node(name: str, cpu: int, zone: str) -> Json:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": zone}},
        "status": {"allocatable": allocatable},
    }


def build_pod(random: Random, name: str, priority: int, **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": str(random.randint(1, 3))}}}
    meta = {"name": name, "namespace": "d", "uid": name, "labels": {"app": random.choice("xy")}}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], "priority": priority, **spec}}


def draw_affinity(random: Random) -> Json:
    """Draw affinity to pods that may come later or go."""
    if random.random() < 0.7:
        return {}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": random.choice("xy")}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def iter_members(random: Random, name: str) -> Iterator[Json]:
    policy = {"gang": {"minCount": random.randint(1, 4)}}
    meta = {"name": name, "namespace": "d"}
    version = "scheduling.k8s.io/v1alpha2"
    yield {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": policy}}
    for i in range(random.randint(0, 5)):
        priority = random.choice((0, 0, 10))
        yield build_pod(random, f"{name}-{i}", priority, schedulingGroup={"podGroupName": name})


def build_objects(random: Random, gangs: int) -> list[Json]:
    found = [build_node(f"n{i}", random.randint(2, 4), f"z{i % 2}") for i in range(random.randint(1, 4))]
    nodes = len(found)
    for i in range(random.randint(0, 6)):
        running = build_pod(random, f"b{i}", random.choice((-5, 0, 5)), nodeName=f"n{random.randrange(nodes)}")
        found.append({**running, "status": {"startTime": f"2026-01-01T00:00:{i:02}Z"}})
    for i in range(gangs):
        found += iter_members(random, f"g{i}")
    for i in range(random.randint(0, 8)):
        found.append(build_pod(random, f"s{i}", random.choice((0, 0, 10, 20)), **draw_affinity(random)))
    return found


def draw_coscheduled_objects(random: Random) -> list[Json]:
    """Draw the objects with groups of Coscheduling, in which some pods may never fit."""
    found = build_objects(random, 0)
    for i in range(random.randint(1, 3)):
        meta = {"name": f"g{i}", "namespace": "d", "creationTimestamp": f"2026-01-01T00:00:{random.randint(0, 3):02}Z"}
        spec: Json = {"minMember": random.randint(1, 4)}
        if random.random() < 0.3:
            spec["scheduleTimeoutSeconds"] = random.choice((1, 20, 400))
        if random.random() < 0.3:
            spec["minResources"] = {"cpu": str(random.randint(1, 9))}
        version = "scheduling.x-k8s.io/v1alpha1"
        found.append({"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec})
        for member in range(random.randint(0, 5)):
            made = build_pod(random, f"g{i}-{member}", random.choice((0, 0, 10)), **draw_affinity(random))
            made["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = f"g{i}"
            found.append(made)
    random.shuffle(found)
    return sorted(found, key=lambda each: (each["kind"] != "Node", each["kind"] == "Node" and each["metadata"]["name"]))


def draw_coscheduling_profile(random: Random) -> Json:
    """Draw a profile in which Coscheduling runs after preemption, or before."""
    enabled: Json = {point: {"enabled": [{"name": "Coscheduling"}]} for point in ("preFilter", "permit", "reserve")}
    preempting = [{"name": "DefaultPreemption"}, {"name": "Coscheduling"}]
    enabled["postFilter"] = {"disabled": [{"name": "*"}], "enabled": preempting[:: random.choice((1, -1))]}
    if random.random() < 0.8:
        enabled["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "Coscheduling"}]}
    args = {
        "podGroupBackoffSeconds": random.choice((0, 0, 5, 100)),
        "podGroupRejectPercentage": random.choice((0, 10, 50, 100)),
        "permitWaitingTimeSeconds": random.choice((3, 60, 1000)),
    }
    profile: Json = {"schedulerName": "default-scheduler", "plugins": enabled}
    profile["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


# -- both engines ----------------------------------------------------------------------------------------------------


def get_placements(view: Fork) -> dict[str, str]:
    pods, names = view.pods.objects, view.nodes.names
    return {pods[position].metadata.name: names[row] for position, row in enumerate(view.node.tolist()) if row >= 0}


def get_simulated_placements(scheduler: Scheduler) -> dict[str, str]:
    """Simulate the pods and return their placements."""
    simulation = Simulation(scheduler)
    simulation.placements.random = First()
    simulation.schedule(np.flatnonzero(simulation.view.node < 0).tolist())
    return get_placements(simulation.view)


def place_by_queue(scheduler: Scheduler) -> dict[str, str]:
    loop = QueueReplay(scheduler, QueuedPodGroups(scheduler))
    loop.fill_queue()
    for record in iter_cycles(loop):
        loop.apply_effects(record)
    return get_placements(loop.view)


def iter_cycles(loop: QueueReplay) -> Iterator[CycleRecord]:
    """Yield the cycles until only groups are left that were all tried in vain, also after a while.

    Time passes as they run. When no pod can be tried, backoffs and waits end.
    """
    in_vain, waited = 0, False
    while True:
        if record := loop.schedule_one():
            yield record
            done = bool(record.bound or record.victims)
            in_vain, waited = 0 if done else in_vain + 1, waited and not done
            if record.group is not None and in_vain > 3 * sum(1 for _ in loop.queue):
                if waited or not end_backoff(loop):
                    return
                in_vain, waited = 0, True
        elif (end := loop.queue.backoff.find_next_completion()) is not None and end <= (
            loop.waiting.find_first_timeout() or end
        ):
            end_backoff(loop)
        elif record := loop.time_out_waiting_pods():
            yield record
        else:
            return


def end_backoff(loop: QueueReplay) -> bool:
    """End the backoff of the first pods that back off, and return whether there were any."""
    end = loop.queue.backoff.find_next_completion()
    if end is not None:
        loop.queue.clock.time = max(loop.queue.clock.time, end)
        loop.queue.flush_backoff()
    return end is not None


def pass_backoffs_only(time_passes: Any) -> Any:
    """Let only backoffs end, without the flush after five minutes."""

    def passes(self: QueuedPods) -> bool:
        return self.scheduling_queue.backoff.find_next_completion() is not None and time_passes(self)

    return passes


@pytest.mark.parametrize("gates", [GANGS, WHOLE_GANGS], ids=["gangs", "whole gangs"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=OUTDONE)
@example(seed=STARVING)
def test_gangs_are_placed_alike(gates: dict[str, bool], seed: int) -> None:
    random = Random(seed)
    compare(Cluster.from_objects(build_objects(random, random.randint(1, 3)), feature_gates=gates))


@pytest.mark.parametrize("version", ["1.31", "1.33", "1.36"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_pods_are_placed_alike(version: str, seed: int) -> None:
    compare(Cluster.from_objects(build_objects(Random(seed), 0), kube_version=version))


@pytest.mark.parametrize("version", ["1.31", "1.33", "1.36"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=GOING_ROUND)
def test_coscheduled_pods_are_placed_alike(version: str, seed: int) -> None:
    compare(draw_coscheduling_cluster(seed, version))


@pytest.mark.parametrize(("version", "seed"), DIFFERED)
def test_seeds_that_once_differed_are_placed_alike(version: str, seed: int) -> None:
    compare(draw_coscheduling_cluster(seed, version))


def draw_coscheduling_cluster(seed: int, version: str) -> Cluster:
    random = Random(seed)
    found, config = draw_coscheduled_objects(random), draw_coscheduling_profile(random)
    return Cluster.from_objects(found, config=config, other_builds=True, kube_version=version)


def test_cyclic_preemption_within_a_gang_ends() -> None:
    """Each waiting sibling activates g1-0, which fits nowhere while the sibling is there, preempts it, and still does
    not fit."""
    scheduler = Scheduler(draw_coscheduling_cluster(GOING_ROUND, "1.36"))
    simulation = Simulation(scheduler)
    simulation.placements.random = First()
    outcomes = simulation.run(np.flatnonzero(simulation.view.node < 0).tolist())
    messages = {simulation.view.pods.objects[outcome.position].metadata.name: outcome.message for outcome in outcomes}
    assert {name for name, message in messages.items() if message == PREEMPTION_LOOP.message} == {
        "g1-0",
        "g1-1",
        "g1-2",
        "g1-3",
    }
    run = QueueReplay(scheduler, QueuedPodGroups(scheduler))
    run.fill_queue()
    records = list(run.replay_closed_loop())
    failures = Counter(failed.message for record in records for failed in record.failed.values())
    assert failures[PREEMPTION_LOOP.message] == 4
    popped = Counter(run.build_info(record.popped).pod.metadata.name for record in records if record.victims)
    assert popped["g1-0"] == 3 + MAX_ROUNDS


def compare(cluster: Cluster) -> None:
    scheduler = Scheduler(cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueuedPods, "_advance_time", pass_backoffs_only(QueuedPods._advance_time))
        assert get_simulated_placements(scheduler) == place_by_queue(scheduler)
