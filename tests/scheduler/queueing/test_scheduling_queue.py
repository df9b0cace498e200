"""Check the scheduling queue alone: where pods are, the order of popping, and what puts them back."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api.arrays import Position
from kschedctl.api.objects import ObjectMeta, Pod
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS, Rejectors
from kschedctl.scheduler.engine.queued_pod import NANOSECONDS, Clock, QueuedPod
from kschedctl.scheduler.event_handling import Occurrence
from kschedctl.scheduler.framework.events import ASSIGNED_POD, POD, ActionType, ChangedObject, ClusterEvent
from kschedctl.scheduler.queueing.backoff_queue import Backoff
from kschedctl.scheduler.queueing.queue_plugins import QueueingStrategy
from kschedctl.scheduler.queueing.scheduling_queue import (
    ACTIVE,
    BACKOFF,
    MAX_UNSCHEDULABLE_TIME,
    UNSCHEDULABLE,
    QueueRules,
    SchedulingQueue,
)
from kschedctl.scheduler.scheduler import Scheduler

FIT = Rejectors(frozenset({"NodeResourcesFit"}))
POD_GONE = Occurrence(
    ClusterEvent(ASSIGNED_POD, ActionType.DELETE), ChangedObject(POD, Pod(metadata=ObjectMeta(name="gone")), None)
)


class Said:
    """Plugins that say what a test wants."""

    def __init__(self, strategy: QueueingStrategy = QueueingStrategy.AFTER_BACKOFF) -> None:
        self.answer, self.gated, self.asked = strategy, frozenset[int](), True

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        return "SchedulingGates" if pod.position in self.gated else ""

    def is_interested(self, rejectors: Rejectors, event: ClusterEvent) -> bool:
        return True

    def is_registered(self, event: ClusterEvent) -> bool:
        return self.asked

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        return not pod.gating_plugin

    def choose_strategy(self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False) -> QueueingStrategy:
        return self.answer


USUAL = QueueRules()


def queue_of(count: int, plugins: Said | None = None, rules: QueueRules = USUAL) -> SchedulingQueue:
    queue = SchedulingQueue(plugins or Said(), rules, Clock())
    for number in range(count):
        queue.add(QueuedPod(Position(number), 0))
    return queue


def pop(queue: SchedulingQueue) -> QueuedPod:
    found = queue.pop()
    assert found is not None
    return found


def places(queue: SchedulingQueue) -> dict[int, str]:
    return {pod.position: place for pod, place in queue}


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_pods_are_popped_by_priority_then_by_the_time_at_which_they_came(priorities: list[int]) -> None:
    queue = SchedulingQueue(Said(), QueueRules(), Clock())
    for number, priority in enumerate(priorities):
        queue.add(QueuedPod(Position(number), priority))
    wanted = sorted(range(len(priorities)), key=lambda number: (-priorities[number], number))
    assert [pop(queue).position for _ in priorities] == wanted
    assert queue.pop() is None


OPERATIONS = st.lists(
    st.sampled_from(["pop", "fail", "error", "bind", "move", "skip", "activate", "wait", "flush", "delete"]),
    max_size=60,
)


@given(OPERATIONS, st.integers(1, 6), st.booleans())
def test_a_pod_is_in_one_queue_or_in_none_while_it_is_tried(
    operations: list[str], count: int, pops_early: bool
) -> None:
    plugins = Said()
    queue = queue_of(count, plugins, QueueRules(Backoff(pops_early=pops_early)))
    tried: list[QueuedPod] = []
    gone: set[int] = set()
    for operation in operations:
        if operation == "pop" and (found := queue.pop()):
            tried.append(found)
        elif operation in ("fail", "error") and tried:
            queue.add_unschedulable_pod(tried.pop(), FIT if operation == "fail" else NO_REJECTORS)
        elif operation == "bind" and tried:
            queue.done(tried[-1].position)
            gone.add(tried.pop().position)
        elif operation in ("move", "skip"):
            plugins.answer = QueueingStrategy.AFTER_BACKOFF if operation == "move" else QueueingStrategy.SKIP
            queue.move(POD_GONE)
        elif operation == "activate":
            queue.activate([Position(0)])
        elif operation == "wait":
            queue.clock.time += 3 * NANOSECONDS
            queue.flush_backoff()
        elif operation == "flush":
            queue.clock.time += MAX_UNSCHEDULABLE_TIME
            queue.flush_unschedulable_pods()
        elif operation == "delete" and 0 not in {pod.position for pod in tried}:
            queue.delete(Position(0))
            gone.add(0)
        where = [pod.position for pod, _ in queue] + [pod.position for pod in tried]
        assert sorted(where) == sorted(set(range(count)) - gone)


@pytest.mark.parametrize(("lasts", "place"), [(True, BACKOFF), (False, UNSCHEDULABLE)])
def test_a_pod_that_is_activated_while_it_is_tried(lasts: bool, place: str) -> None:
    """Activate of v1.31 knows of pods in the queues alone."""
    queue = queue_of(1, rules=QueueRules(activation_lasts=lasts))
    pod = pop(queue)
    queue.activate([pod.position])
    queue.add_unschedulable_pod(pod, FIT)
    assert places(queue) == {0: place}


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (60, 10)], ids=str)
def test_a_pod_backs_off_twice_as_long_after_each_failure(failures: int, seconds: int) -> None:
    queue = queue_of(1)
    for _ in range(failures - 1):
        queue.add_unschedulable_pod(pop(queue), FIT)
        queue.activate([Position(0)])
    pod = pop(queue)
    queue.add_unschedulable_pod(pod, FIT)
    queue.move(POD_GONE)
    assert places(queue) == {0: BACKOFF}
    failed_at = pod.timestamp
    queue.clock.time = (failed_at // NANOSECONDS + seconds) * NANOSECONDS + NANOSECONDS - 2  # the window is not over
    queue.flush_backoff()
    assert places(queue) == {0: BACKOFF}
    queue.clock.time += 2
    queue.flush_backoff()
    assert places(queue) == {0: ACTIVE}


@pytest.mark.parametrize(("version", "seconds"), [("1.33", 4), ("1.34", 1)])
def test_errors_of_long_ago(version: str, seconds: int) -> None:
    """Until v1.33 a third attempt has a pod back off for 4 s, whatever ended the others; since v1.34 errors that are
    over do not count (getBackoffTime)."""
    scheduler = Scheduler(Cluster.from_objects([], kube_version=version))
    backoff = Backoff.from_configuration(scheduler.configuration, scheduler.gates)
    queue = queue_of(1, rules=QueueRules(backoff))
    for _ in range(2):
        queue.add_unschedulable_pod(pop(queue), NO_REJECTORS)
        queue.clock.time += 20 * NANOSECONDS
        queue.flush_backoff()
    pod = pop(queue)
    queue.add_unschedulable_pod(pod, FIT)
    assert backoff.compute_duration(backoff.count_failures(pod)) == seconds * NANOSECONDS
    assert queue.backoff.get_backoff_expiration(pod) == backoff.align_to_window(pod.timestamp + seconds * NANOSECONDS)


def test_within_a_second_pods_that_back_off_are_popped_by_priority() -> None:
    queue = SchedulingQueue(Said(), QueueRules(), Clock())
    for number, priority in enumerate((0, 5, 9)):
        queue.add(QueuedPod(Position(number), priority))
    for pod in [pop(queue), pop(queue), pop(queue)]:
        queue.add_unschedulable_pod(pod, FIT)
    queue.move(POD_GONE)
    assert set(places(queue).values()) == {BACKOFF}
    assert [pop(queue).position for _ in range(3)] == [2, 1, 0]


def test_without_the_gate_pods_that_back_off_are_not_popped() -> None:
    queue = queue_of(1, rules=QueueRules(Backoff(pops_early=False)))
    queue.add_unschedulable_pod(pop(queue), FIT)
    queue.move(POD_GONE)
    assert queue.pop() is None
    queue.clock.time += 2 * NANOSECONDS
    queue.flush_backoff()
    assert pop(queue).position == 0


def test_pods_that_failed_by_errors_wait_until_their_time_is_over() -> None:
    queue = queue_of(1)
    queue.add_unschedulable_pod(pop(queue), NO_REJECTORS)
    assert places(queue) == {0: BACKOFF}
    assert queue.pop() is None


def test_what_happens_while_a_pod_is_tried_counts_when_it_comes_back() -> None:
    plugins = Said(QueueingStrategy.SKIP)
    queue = queue_of(2, plugins)
    first, second = pop(queue), pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(first, FIT)
    plugins.answer = QueueingStrategy.AFTER_BACKOFF
    queue.add_unschedulable_pod(second, FIT)
    assert places(queue) == {0: UNSCHEDULABLE, 1: BACKOFF}
    again = pop(queue)
    queue.add_unschedulable_pod(again, FIT)
    assert places(queue) == {0: UNSCHEDULABLE, 1: UNSCHEDULABLE}, "nothing happened since it was popped again"


def test_a_plugin_that_said_pending_spares_the_backoff() -> None:
    queue = queue_of(1, Said(QueueingStrategy.IMMEDIATELY))
    queue.add_unschedulable_pod(pop(queue), Rejectors(pending=frozenset({"DynamicResources"})))
    queue.move(POD_GONE)
    assert places(queue) == {0: ACTIVE}


def test_members_of_pod_groups_come_back_by_backoff_alone() -> None:
    queue = queue_of(1, Said(QueueingStrategy.SKIP), QueueRules(in_groups=frozenset({Position(0)})))
    queue.add_unschedulable_pod(pop(queue), FIT)
    assert places(queue) == {0: BACKOFF}


def test_without_hints_any_event_during_the_cycle_puts_the_pod_back() -> None:
    rules = QueueRules(by_hints=False)
    queue = queue_of(2, Said(QueueingStrategy.SKIP), rules)
    queue.add_unschedulable_pod(pop(queue), FIT)
    second = pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(second, FIT)
    assert places(queue) == {0: UNSCHEDULABLE, 1: BACKOFF}


def test_an_event_that_no_plugin_asked_for_puts_no_pod_back() -> None:
    plugins = Said(QueueingStrategy.SKIP)
    plugins.asked = False
    queue = queue_of(1, plugins, QueueRules(by_hints=False))
    tried = pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(tried, FIT)
    assert places(queue) == {0: UNSCHEDULABLE}


def test_a_gated_pod_is_never_popped_and_comes_in_when_the_gate_goes() -> None:
    plugins = Said()
    plugins.gated = frozenset({0})
    queue = queue_of(1, plugins)
    waiting = queue.get(Position(0))
    assert queue.pop() is None
    assert waiting is not None
    assert (waiting.gating_plugin, waiting.rejectors.all) == ("SchedulingGates", {"SchedulingGates"})
    plugins.gated = frozenset()
    queue.update(Position(0), POD_GONE)
    assert pop(queue) is waiting, "it never failed, so that it need not back off"


def test_after_five_minutes_an_unschedulable_pod_is_tried_again() -> None:
    queue = queue_of(1)
    queue.add_unschedulable_pod(pop(queue), FIT)
    queue.clock.time += MAX_UNSCHEDULABLE_TIME - NANOSECONDS
    queue.flush_unschedulable_pods()
    assert places(queue) == {0: UNSCHEDULABLE}
    queue.clock.time += 2 * NANOSECONDS
    queue.flush_unschedulable_pods()
    assert places(queue) == {0: ACTIVE}
    assert cast(QueuedPod, queue.get(Position(0))).flushed


def test_a_gated_pod_is_not_tried_again_after_five_minutes() -> None:
    """The event of the timeout is none that a gating plugin asks for (MatchAnyClusterEvent, v1.36)."""
    plugins = Said()
    plugins.gated = frozenset({0})
    queue = queue_of(1, plugins)
    plugins.gated = frozenset()
    queue.clock.time += 2 * MAX_UNSCHEDULABLE_TIME
    queue.flush_unschedulable_pods()
    assert places(queue) == {0: UNSCHEDULABLE}


def test_a_certain_pod_is_popped_from_wherever_it_waits() -> None:
    queue = queue_of(3)
    queue.add_unschedulable_pod(pop(queue), FIT)
    assert [found.position for number in (2, 0) if (found := queue.pop_specific(Position(number)))] == [2, 0]
    assert queue.pop_specific(Position(0)) is None
    assert places(queue) == {1: ACTIVE}
