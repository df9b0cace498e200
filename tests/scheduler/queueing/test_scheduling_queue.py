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


class ScriptedPlugins:
    """Plugins whose answers a test sets."""

    def __init__(self, strategy: QueueingStrategy = QueueingStrategy.AFTER_BACKOFF) -> None:
        self.answer, self.gated, self.asked = strategy, frozenset[int](), True

    def find_gating_plugin(self, pod: QueuedPod) -> str:
        return "SchedulingGates" if pod.position in self.gated else ""

    def is_any_rejector_registered(self, rejectors: Rejectors, event: ClusterEvent) -> bool:
        return True

    def is_any_plugin_registered(self, event: ClusterEvent) -> bool:
        return self.asked

    def is_concerned(self, pod: QueuedPod, occurrence: Occurrence) -> bool:
        return not pod.gating_plugin

    def choose_queueing_strategy(
        self, pod: QueuedPod, occurrence: Occurrence, in_flight: bool = False
    ) -> QueueingStrategy:
        return self.answer


USUAL = QueueRules()


def queue_of(count: int, plugins: ScriptedPlugins | None = None, rules: QueueRules = USUAL) -> SchedulingQueue:
    queue = SchedulingQueue(plugins or ScriptedPlugins(), rules, Clock())
    for number in range(count):
        queue.add(QueuedPod(Position(number), 0))
    return queue


def pop(queue: SchedulingQueue) -> QueuedPod:
    found = queue.pop()
    assert found is not None
    return found


def get_places(queue: SchedulingQueue) -> dict[int, str]:
    return {pod.position: place for pod, place in queue}


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_pods_are_popped_by_priority_then_by_arrival(priorities: list[int]) -> None:
    queue = SchedulingQueue(ScriptedPlugins(), QueueRules(), Clock())
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
def test_each_pod_is_in_exactly_one_place(operations: list[str], count: int, pops_early: bool) -> None:
    plugins = ScriptedPlugins()
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
def test_pod_activated_during_its_attempt(lasts: bool, place: str) -> None:
    """In v1.31, Activate finds pods only if they are in a queue."""
    queue = queue_of(1, rules=QueueRules(activation_lasts=lasts))
    pod = pop(queue)
    queue.activate([pod.position])
    queue.add_unschedulable_pod(pod, FIT)
    assert get_places(queue) == {0: place}


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (60, 10)], ids=str)
def test_backoff_doubles_with_each_failure(failures: int, seconds: int) -> None:
    queue = queue_of(1)
    for _ in range(failures - 1):
        queue.add_unschedulable_pod(pop(queue), FIT)
        queue.activate([Position(0)])
    pod = pop(queue)
    queue.add_unschedulable_pod(pod, FIT)
    queue.move(POD_GONE)
    assert get_places(queue) == {0: BACKOFF}
    failed_at = pod.timestamp
    queue.clock.time = (failed_at // NANOSECONDS + seconds) * NANOSECONDS + NANOSECONDS - 2  # the window is not over
    queue.flush_backoff()
    assert get_places(queue) == {0: BACKOFF}
    queue.clock.time += 2
    queue.flush_backoff()
    assert get_places(queue) == {0: ACTIVE}


@pytest.mark.parametrize(("version", "seconds"), [("1.33", 4), ("1.34", 1)])
def test_backoff_after_earlier_errors(version: str, seconds: int) -> None:
    """Up to v1.33, the third failed attempt leads to a back-off of 4 s, whatever caused the failures.

    Since v1.34, earlier errors do not count (getBackoffTime).
    """
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


def test_pods_whose_backoff_ends_in_the_same_second_are_popped_by_priority() -> None:
    queue = SchedulingQueue(ScriptedPlugins(), QueueRules(), Clock())
    for number, priority in enumerate((0, 5, 9)):
        queue.add(QueuedPod(Position(number), priority))
    for pod in [pop(queue), pop(queue), pop(queue)]:
        queue.add_unschedulable_pod(pod, FIT)
    queue.move(POD_GONE)
    assert set(get_places(queue).values()) == {BACKOFF}
    assert [pop(queue).position for _ in range(3)] == [2, 1, 0]


def test_pods_in_backoff_are_not_popped_without_the_feature_gate() -> None:
    queue = queue_of(1, rules=QueueRules(Backoff(pops_early=False)))
    queue.add_unschedulable_pod(pop(queue), FIT)
    queue.move(POD_GONE)
    assert queue.pop() is None
    queue.clock.time += 2 * NANOSECONDS
    queue.flush_backoff()
    assert pop(queue).position == 0


def test_pods_that_failed_with_errors_complete_their_backoff() -> None:
    queue = queue_of(1)
    queue.add_unschedulable_pod(pop(queue), NO_REJECTORS)
    assert get_places(queue) == {0: BACKOFF}
    assert queue.pop() is None


def test_events_during_an_attempt_count_when_the_pod_returns() -> None:
    plugins = ScriptedPlugins(QueueingStrategy.SKIP)
    queue = queue_of(2, plugins)
    first, second = pop(queue), pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(first, FIT)
    plugins.answer = QueueingStrategy.AFTER_BACKOFF
    queue.add_unschedulable_pod(second, FIT)
    assert get_places(queue) == {0: UNSCHEDULABLE, 1: BACKOFF}
    again = pop(queue)
    queue.add_unschedulable_pod(again, FIT)
    assert get_places(queue) == {0: UNSCHEDULABLE, 1: UNSCHEDULABLE}, "nothing happened since it was popped again"


def test_pod_rejected_as_pending_skips_the_backoff() -> None:
    queue = queue_of(1, ScriptedPlugins(QueueingStrategy.IMMEDIATELY))
    queue.add_unschedulable_pod(pop(queue), Rejectors(pending=frozenset({"DynamicResources"})))
    queue.move(POD_GONE)
    assert get_places(queue) == {0: ACTIVE}


def test_members_of_pod_groups_return_to_backoff() -> None:
    queue = queue_of(1, ScriptedPlugins(QueueingStrategy.SKIP), QueueRules(in_groups=frozenset({Position(0)})))
    queue.add_unschedulable_pod(pop(queue), FIT)
    assert get_places(queue) == {0: BACKOFF}


def test_any_event_during_an_attempt_requeues_the_pod_without_hints() -> None:
    rules = QueueRules(by_hints=False)
    queue = queue_of(2, ScriptedPlugins(QueueingStrategy.SKIP), rules)
    queue.add_unschedulable_pod(pop(queue), FIT)
    second = pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(second, FIT)
    assert get_places(queue) == {0: UNSCHEDULABLE, 1: BACKOFF}


def test_unregistered_event_requeues_no_pod() -> None:
    plugins = ScriptedPlugins(QueueingStrategy.SKIP)
    plugins.asked = False
    queue = queue_of(1, plugins, QueueRules(by_hints=False))
    tried = pop(queue)
    queue.move(POD_GONE)
    queue.add_unschedulable_pod(tried, FIT)
    assert get_places(queue) == {0: UNSCHEDULABLE}


def test_gated_pod_enters_the_active_queue_once_its_gate_is_removed() -> None:
    plugins = ScriptedPlugins()
    plugins.gated = frozenset({0})
    queue = queue_of(1, plugins)
    waiting = queue.get(Position(0))
    assert queue.pop() is None
    assert waiting is not None
    assert (waiting.gating_plugin, waiting.rejectors.all) == ("SchedulingGates", {"SchedulingGates"})
    plugins.gated = frozenset()
    queue.update(Position(0), POD_GONE)
    assert pop(queue) is waiting, "it never failed, so that it need not back off"


def test_unschedulable_pod_is_retried_after_five_minutes() -> None:
    queue = queue_of(1)
    queue.add_unschedulable_pod(pop(queue), FIT)
    queue.clock.time += MAX_UNSCHEDULABLE_TIME - NANOSECONDS
    queue.flush_unschedulable_pods()
    assert get_places(queue) == {0: UNSCHEDULABLE}
    queue.clock.time += 2 * NANOSECONDS
    queue.flush_unschedulable_pods()
    assert get_places(queue) == {0: ACTIVE}
    assert cast(QueuedPod, queue.get(Position(0))).flushed


def test_gated_pod_is_not_retried_after_five_minutes() -> None:
    """Gating plugins do not register for the timeout's event (MatchAnyClusterEvent, v1.36)."""
    plugins = ScriptedPlugins()
    plugins.gated = frozenset({0})
    queue = queue_of(1, plugins)
    plugins.gated = frozenset()
    queue.clock.time += 2 * MAX_UNSCHEDULABLE_TIME
    queue.flush_unschedulable_pods()
    assert get_places(queue) == {0: UNSCHEDULABLE}


def test_a_given_pod_is_popped_from_any_queue() -> None:
    queue = queue_of(3)
    queue.add_unschedulable_pod(pop(queue), FIT)
    assert [found.position for number in (2, 0) if (found := queue.pop_specific(Position(number)))] == [2, 0]
    assert queue.pop_specific(Position(0)) is None
    assert get_places(queue) == {1: ACTIVE}
