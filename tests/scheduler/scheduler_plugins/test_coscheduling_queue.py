"""Check Coscheduling in the queue: order, backoff and retries, against its own tables.

Upstream: TestLess, TestLessAfterScheduleFailure and TestPodGroupBackoffTime in pkg/coscheduling/coscheduling_test.go,
TestMarkAndClearPodGroupScheduleFailure in pkg/coscheduling/core/core_test.go of scheduler-plugins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_coscheduling import Json, build_cluster, build_config, build_group, build_node, build_pod

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.replay.run_queue import QueueRun, run_queue
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.queued_pod import Clock, QueuedPod
from kschedctl.scheduler.queueing.queue_order import ChangingHeap
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.scheduler_plugins.coscheduling import Coscheduling
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.gang_history import GangHistory


class TriedPod(NamedTuple):
    """A pod of the table, with its first possible attempt in seconds from now."""

    name: str
    namespace: str
    priority: int
    group: str = ""
    initial: int = 0


class Created(NamedTuple):
    name: str
    namespace: str
    seconds: int = 0


HIGH, LOW = 100, 10
LESS = {
    "p1.priority less than p2.priority": (TriedPod("p1", "ns1", LOW), TriedPod("p2", "ns2", HIGH), [], False),
    "p1.priority greater than p2.priority": (TriedPod("p1", "ns1", HIGH), TriedPod("p2", "ns2", LOW), [], True),
    "p1 is added earlier than p2": (TriedPod("p1", "ns1", HIGH, "", 1), TriedPod("p2", "ns2", HIGH, "", 2), [], True),
    "p2 is added earlier than p1": (TriedPod("p1", "ns1", HIGH, "", 2), TriedPod("p2", "ns2", HIGH, "", 1), [], False),
    "less, p1 belongs to pg1": (
        TriedPod("p1", "ns1", LOW, "pg1"),
        TriedPod("p2", "ns2", HIGH),
        [Created("pg1", "ns1")],
        False,
    ),
    "greater, p1 belongs to pg1": (
        TriedPod("p1", "ns1", HIGH, "pg1"),
        TriedPod("p2", "ns2", LOW),
        [Created("pg1", "ns1")],
        True,
    ),
    "p1 is earlier, and of pg1": (
        TriedPod("p1", "ns1", HIGH, "pg1", 1),
        TriedPod("p2", "ns2", HIGH, "", 2),
        [Created("pg1", "ns1", 1)],
        True,
    ),
    "p2 is earlier, p1 of pg1": (
        TriedPod("p1", "ns1", HIGH, "pg1", 2),
        TriedPod("p2", "ns2", HIGH, "", 1),
        [Created("pg1", "ns1", 2)],
        False,
    ),
    "less, of two groups": (
        TriedPod("p1", "ns1", LOW, "pg1"),
        TriedPod("p2", "ns2", HIGH, "pg2"),
        [Created("pg1", "ns1", 1), Created("pg2", "ns2", 2)],
        False,
    ),
    "greater, of two groups": (
        TriedPod("p1", "ns1", HIGH, "pg1"),
        TriedPod("p2", "ns2", LOW, "pg1"),
        [Created("pg1", "ns1", 1), Created("pg2", "ns2", 2)],
        True,
    ),
    "p1 is earlier, of two groups": (
        TriedPod("p1", "ns1", HIGH, "pg1", 1),
        TriedPod("p2", "ns2", HIGH, "pg2", 2),
        [Created("pg1", "ns1", 1), Created("pg2", "ns2", 2)],
        True,
    ),
    "lower and earlier, of two groups": (
        TriedPod("p1", "ns", LOW, "pg2", 1),
        TriedPod("p2", "ns", HIGH, "pg1", 2),
        [Created("pg1", "ns", 1), Created("pg2", "ns", 2)],
        False,
    ),
    "equal priority and time, p1's group does not exist": (
        TriedPod("p1", "ns1", HIGH, "pg2", 1),
        TriedPod("p2", "ns2", HIGH, "pg2", 1),
        [Created("pg1", "ns1", 1), Created("pg2", "ns2", 2)],
        True,
    ),
    "equal priority and time, p2 belongs to pg2": (
        TriedPod("p1", "ns1", HIGH, "", 1),
        TriedPod("p2", "ns2", HIGH, "pg2", 1),
        [Created("pg2", "ns2", 2)],
        True,
    ),
}


def format_time(seconds: int) -> str:
    """Return a time with these seconds."""
    return f"2026-01-01T00:00:{seconds:02d}Z"


def build_pod_at_start(each: TriedPod) -> Json:
    """Build the pod with its creation time."""
    made = build_pod(each.name, each.group, namespace=each.namespace, priority=each.priority)
    return {**made, "metadata": {**made["metadata"], "creationTimestamp": format_time(each.initial)}}


def find_plugin(cluster: Cluster) -> tuple[Coscheduling, Fork]:
    scheduler = Scheduler(cluster)
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    plugin = find_gang_plugin(framework)
    assert isinstance(plugin, Coscheduling)
    return plugin, scheduler.view


@pytest.mark.parametrize("case", LESS.values(), ids=LESS.keys())
def test_less(case: tuple[TriedPod, TriedPod, list[Created], bool]) -> None:
    """The first possible attempt of a waiting pod is at its creation."""
    one, two, groups, want = case
    objects = [build_group(each.name, 1, each.namespace, created=format_time(each.seconds)) for each in groups]
    plugin, view = find_plugin(
        build_cluster(build_node("node"), build_pod_at_start(one), build_pod_at_start(two), *objects)
    )
    came = sorted((one, two), key=lambda each: each.initial)
    positions = [view.pods.index[f"{each.namespace}/{each.name}"] for each in came]
    keys = dict(zip([each.name for each in came], plugin.sort_keys(view, positions), strict=True))
    assert (keys["p1"] < keys["p2"]) is want


@pytest.mark.parametrize(("version", "after_others"), [("1.33", False), ("1.34", True), ("1.36", True)])
def test_less_after_schedule_failure(version: str, after_others: bool) -> None:
    """The older group is first.

    After it failed the younger one is first, and once the failure is forgotten the older again.
    """
    pods = [build_pod("p1", "pg1", priority=HIGH), build_pod("p2", "pg2", priority=HIGH)]
    groups = [build_group("pg1", 3, created=format_time(0)), build_group("pg2", 3, created=format_time(5))]
    objects = [build_node("node"), *pods, *groups]
    cluster = Cluster.from_objects(objects, config=build_config(), other_builds=True, kube_version=version)
    plugin, view = find_plugin(cluster)
    view.gang_history = GangHistory(Clock())
    one, two = (QueuedPod(view.pods.index[f"ns/{name}"], HIGH) for name in ("p1", "p2"))

    def less() -> bool:
        return plugin.build_queue_key(one, view) < plugin.build_queue_key(two, view)

    member = view.pods.objects[one.position]
    assert less()
    plugin.record_failure(member, view)
    assert less() is not after_others
    plugin.handle_permit_result(member, view, waits=True)
    assert less() is not after_others
    plugin.handle_permit_result(member, view, waits=False)
    assert less()


def test_pod_group_backoff_time() -> None:
    """The first pod waits and activates its siblings, the second fits nowhere, and the last is not tried at all."""
    pods = [build_pod(f"pod{i}", "pg1", cpu="3") for i in (1, 2, 3)]
    run = run_queue(build_cluster(build_node("node"), *pods, build_group("pg1", 3), podGroupBackoffSeconds=1))
    assert [cycle.popped for cycle in run.cycles] == ["ns/pod1", "ns/pod2", "ns/pod3"]
    assert run.cycles[0].waiting == {"ns/pod1": "node"}
    refused = run.cycles[2].failed["ns/pod3"]
    assert refused.message.startswith("0/1 nodes are available: podGroup ns/pg1 failed recently.")
    assert refused.rejectors == ("Coscheduling",)
    without = run_queue(build_cluster(build_node("node"), *pods, build_group("pg1", 3)))
    assert "failed recently" not in str(without)


def test_incomplete_group_gets_no_backoff() -> None:
    pods = [build_pod(f"pod{i}", "pg1", cpu="9") for i in (1, 2)]
    run = run_queue(build_cluster(build_node("node"), *pods, build_group("pg1", 3), podGroupBackoffSeconds=1))
    messages = [failed.message for cycle in run.cycles for failed in cycle.failed.values()]
    assert len(messages) == 2
    assert all("cannot find enough sibling pods" in message for message in messages)


def test_first_permitted_pod_activates_its_siblings() -> None:
    running = build_pod("r", "pg2", on="node")
    objects = [
        build_pod("a", "pg1"),
        build_pod("b", "pg1"),
        build_pod("c", "pg1"),
        running,
        build_pod("s", "pg2"),
        build_pod("t", "pg2"),
    ]
    plugin, view = find_plugin(
        build_cluster(build_node("node"), *objects, build_group("pg1", 3), build_group("pg2", 4))
    )

    def woken(name: str, *, waits: bool = True) -> set[str]:
        position = view.pods.index[f"ns/{name}"]
        view.assume(position, 0)
        found = plugin.handle_permit_result(view.pods.objects[position], view, waits=waits)
        return {view.pods.objects[each].metadata.name for each in found}

    assert woken("a") == {"b", "c"}
    assert woken("b") == set()  # the second
    assert woken("c", waits=False) == set()
    assert woken("s") == set()  # another has a node already


def list_popped_pods(run: QueueRun) -> list[str]:
    return [cycle.popped.removeprefix("ns/") for cycle in run.cycles]


@pytest.mark.parametrize(
    ("version", "order"), [("1.36", "a1 a2 b1 b2 b3 a3"), ("1.33", "a1 a2 a3 b1 b2 b3")], ids=["1.36", "1.33"]
)
def test_failed_group_is_ordered_later(version: str, order: str) -> None:
    """The failure of the older group has no effect until pods are compared: its second pod is already at the top of the
    heap."""
    pods = [build_pod(f"{name}{i}", f"pg-{name}", cpu=cpu) for name, cpu in (("a", "9"), ("b", "1")) for i in (1, 2, 3)]
    groups = [build_group("pg-a", 3, created=format_time(0)), build_group("pg-b", 3, created=format_time(5))]
    objects = [build_node("node"), *pods, *groups]
    run = run_queue(Cluster.from_objects(objects, config=build_config(), other_builds=True, kube_version=version))
    assert list_popped_pods(run) == order.split()
    assert run.cycles[order.split().index("b3")].bound.keys() == {"ns/b1", "ns/b2", "ns/b3"}


def test_order_of_the_queue() -> None:
    """Pods are ordered by priority, then groups by age, then pods by arrival. Nothing is reported as not replayed."""
    objects = [
        *(
            build_pod("a", priority=1),
            build_pod("b"),
            build_pod("c", "young"),
            build_pod("d", "old"),
            build_pod("e", "young"),
            build_pod("f", "none"),
        ),
        *(build_group("young", 1, created=format_time(5)), build_group("old", 1, created=format_time(0))),
    ]
    run = run_queue(build_cluster(build_node("node"), *objects))
    assert list_popped_pods(run) == ["a", "d", "c", "e", "b", "f"]
    assert run.not_replayed == ()


def test_granted_resources_are_not_checked_again() -> None:
    """The first pod of the group is granted 3 CPUs for all.

    Then a pod of higher priority than the second takes them.
    """
    wanted = {"cpu": "3"}
    pods = [
        build_pod("a", "pg1", cpu="1", priority=3),
        build_pod("b", cpu="3", priority=2),
        build_pod("c", "pg1", cpu="1", priority=1),
    ]
    run = run_queue(
        build_cluster(
            build_node("node"), *pods, build_group("pg1", 2, minResources=wanted), podGroupRejectPercentage=100
        )
    )
    assert list_popped_pods(run) == ["a", "b", "c"]
    assert "Insufficient cpu" in run.cycles[2].failed["ns/c"].message
    assert "resource gap" not in str(run)


# -- the heap ---------------------------------------------------------------------------------------------------------


@given(keys=st.lists(st.integers(0, 9), max_size=30), gone=st.sets(st.integers(0, 29)))
def test_constant_keys_are_popped_in_order(keys: list[int], gone: set[int]) -> None:
    heap = ChangingHeap(lambda queued: (-queued.priority, queued.position))
    for position, key in enumerate(keys):
        heap.add(QueuedPod(Position(position), -key))
    for position in gone:
        found = heap.delete(Position(position))
        assert (found is not None) is (position < len(keys))
    left = [each for each in range(len(keys)) if each not in gone]
    assert [each.position for each in heap] == left
    found_order = [each.position for each in iter(heap.pop, None)]
    assert found_order == sorted(left, key=lambda position: (keys[position], position))
    assert (len(heap), heap.peek(), heap.pop()) == (0, None, None)


def test_changed_keys_are_popped_as_by_go() -> None:
    """Traced by hand through Go's container/heap: [0 1 2 3 4 5], pop 0, then 1 and 2 are ordered after all others."""
    late: dict[int, Any] = {}
    heap = ChangingHeap(lambda queued: (late.get(queued.position, 0), queued.position))
    for position in range(6):
        heap.add(QueuedPod(Position(position), 0))
    assert heap.pop() is not None
    late.update({1: 1, 2: 1})
    assert [each.position for each in iter(heap.pop, None)] == [1, 3, 4, 5, 2]


def test_unsupported_order_is_reported() -> None:
    settings = build_config()
    settings["profiles"][0]["plugins"]["queueSort"]["enabled"] = [{"name": "QOSSort"}]
    run = run_queue(Cluster.from_objects([build_node("node"), build_pod("a")], config=settings, other_builds=True))
    assert run.not_replayed == ("plugin QOSSort at queueSort",)
