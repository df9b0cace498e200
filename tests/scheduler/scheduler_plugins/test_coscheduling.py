"""Check Coscheduling of scheduler-plugins by hand and against its own tables.

Upstream: pkg/coscheduling/coscheduling_test.go and pkg/coscheduling/core/core_test.go of scheduler-plugins.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.errors import ConfigurationError, InputError
from kschedctl.replay.run_queue import run_queue
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import SCHEDULED
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.pod_info import PodInfo

Json = dict[str, Any]
LABEL = "scheduling.x-k8s.io/pod-group"
POINTS = ("preFilter", "postFilter", "permit", "reserve")


def build_config(**args: int) -> Json:
    enabled = {point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS}
    plugins = {**enabled, "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}}
    profile: Json = {"schedulerName": "default-scheduler", "plugins": plugins}
    if args:
        profile["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def build_node(name: str, cpu: str = "4", **more: str) -> Json:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110", **more}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def build_pod(name: str, group: str = "", cpu: str = "", on: str = "", namespace: str = "ns", **spec: Any) -> Json:
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {LABEL: group} if group else {}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {}), **spec}
    return {"kind": "Pod", "metadata": meta, "spec": spec}


def build_group(name: str, least: int, namespace: str = "ns", created: str = "", **spec: Any) -> Json:
    meta = {"name": name, "namespace": namespace} | ({"creationTimestamp": created} if created else {})
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": least, **spec},
    }


def build_cluster(*objects: Json, **args: int) -> Cluster:
    return Cluster.from_objects(objects, config=build_config(**args), other_builds=True)


GATED = {"schedulingGates": [{"name": "example-gate"}]}
A, B, C = (build_pod(f"p1{letter}", "pg1") for letter in "abc")
TOO_FEW = "pre-filter pod p1a cannot find enough sibling pods, current pods number: 1, minMember of group: 2"
GATES = "pre-filter pod p1a cannot proceed due to gated pods in the same PodGroup"


@pytest.mark.parametrize(
    ("objects", "refused"),
    [
        pytest.param([build_pod("p1a"), B, build_group("pg1", 1)], "", id="no group"),
        pytest.param([build_pod("p1a", "other"), build_group("pg1", 1)], "", id="a group that does not exist"),
        pytest.param(
            [A, build_pod("x", "pg2"), build_group("pg1", 2), build_group("pg2", 2)], TOO_FEW, id="fewer than minMember"
        ),
        pytest.param(
            [A, build_pod("p1b", "pg1", namespace="other"), build_group("pg1", 2)], TOO_FEW, id="of another namespace"
        ),
        pytest.param([A, B, build_group("pg1", 2)], "", id="as many"),
        pytest.param([A, B, C, build_group("pg1", 2)], "", id="more"),
        pytest.param([A, B, build_pod("p1c", "pg1", **GATED), build_group("pg1", 2)], "", id="gated, and still enough"),
        pytest.param([A, build_pod("p1b", "pg1", **GATED), C, build_group("pg1", 3)], GATES, id="gated, and too few"),
        pytest.param(
            [A, *(build_pod(f"x{i}", "pg1", **GATED) for i in "bc"), build_group("pg1", 2)],
            GATES,
            id="all others gated",
        ),
        pytest.param([A, B, build_group("pg1", 2, minResources={"cpu": "6"})], "", id="resources enough"),
        pytest.param([A, build_group("pg1", 0)], "", id="none is needed"),
        pytest.param([A, build_group("pg1", -3)], "", id="less than none"),
        pytest.param(
            [A, B, build_group("pg1", 2, minResources={"cpu": "10"})],
            "resource gap: map[cpu:{{2000 -3} {<nil>}  DecimalSI}]",
            id="two nodes of 4 cpu are no 10",
        ),
    ],
)
def test_pre_filter(objects: list[Json], refused: str) -> None:
    report = explain(build_cluster(build_node("node-a"), build_node("node-b"), *objects), "ns/p1a").to_dict()
    found = report["preFilter"]["Coscheduling"]
    assert found["reasons"] == ([refused] if refused else [])
    assert found["code"] == ("UnschedulableAndUnresolvable" if refused else "Success")


@pytest.mark.parametrize(
    ("running", "wanted", "gap"),
    [
        ([build_pod("p1", cpu="2", on="node-a")], {"cpu": "4"}, ""),
        (
            [build_pod("p1", cpu="2", on="node-a"), build_pod("p2", cpu="1", on="node-b")],
            {"cpu": "4"},
            "cpu:{{1000 -3}",
        ),
        ([build_pod("p1", "pg1", cpu="2", on="node-a"), build_pod("p2", cpu="1", on="node-b")], {"cpu": "4"}, ""),
        ([], {"memory": "130Gi"}, "memory:{{2147483648 0} {<nil>}  BinarySI}"),
        ([], {"cpu": "1.5", "memory": "1"}, ""),
        ([], {"example.com/gpu": "3"}, "example.com/gpu:{{1 0} {<nil>}  DecimalSI}"),
        ([], {"example.com/none": "3"}, "example.com/none:{{3 0} {<nil>}  DecimalSI}"),
        ([], {"example.com/gpu": "1k"}, "example.com/gpu:{{998 0} {<nil>}  DecimalSI}"),
        ([], {"cpu": "7", "example.com/gpu": "5"}, "cpu:{{1000 -3} {<nil>}  DecimalSI} example.com/gpu:{{3 0}"),
    ],
)
def test_cluster_resources(running: list[Json], wanted: Json, gap: str) -> None:
    """There are two nodes of 3 CPUs, where resources of the group's own pods count as free."""
    nodes = [build_node("node-a", "3", **{"example.com/gpu": "2"}), build_node("node-b", "3")]
    report = explain(
        build_cluster(*nodes, *running, A, B, build_group("pg1", 2, minResources=wanted)), "ns/p1a"
    ).to_dict()
    reasons = report["preFilter"]["Coscheduling"]["reasons"]
    assert len(reasons) == bool(gap)
    assert not gap or reasons[0].startswith(f"resource gap: map[{gap}")


def test_resources_stay_covered_once_found() -> None:
    """One node of 4 CPUs is free, and the other is overcommitted by 2, which counts only before the 4 wanted CPUs are
    found."""
    for overbooked, gap in (("node-b", []), ("node-a", ["resource gap: map[cpu:{{2000 -3} {<nil>}  DecimalSI}]"])):
        pods = [build_pod(name, cpu="3", on=overbooked) for name in "xy"]
        wanted = build_group("pg1", 2, minResources={"cpu": "4"})
        report = explain(
            build_cluster(build_node("node-a"), build_node("node-b"), *pods, A, B, wanted), "ns/p1a"
        ).to_dict()
        assert report["preFilter"]["Coscheduling"]["reasons"] == gap


@pytest.mark.parametrize(
    ("objects", "code", "reasons"),
    [
        ([build_pod("p"), build_group("pg1", 2)], Code.SUCCESS, ()),
        ([build_pod("p", "none"), build_group("pg1", 2)], Code.UNSCHEDULABLE, ("PodGroup not found",)),
        ([build_pod("p", "pg1"), build_group("pg1", 2)], Code.WAIT, None),
        ([build_pod("p", "pg1"), build_pod("p1b", "pg1", on="node"), build_group("pg1", 2)], Code.SUCCESS, ()),
        (
            [build_pod("p", "pg1"), build_pod("p1b", "pg1", on="a node that is gone"), build_group("pg1", 2)],
            Code.SUCCESS,
            (),
        ),
        ([build_pod("p", "pg1"), build_group("pg1", 1)], Code.SUCCESS, ()),
    ],
)
def test_permit(objects: list[Json], code: Code, reasons: tuple[str, ...] | None) -> None:
    scheduler = Scheduler(build_cluster(build_node("node"), *objects))
    position = scheduler.view.pods.index["ns/p"]
    info = PodInfo(scheduler.view.pods.objects[position], scheduler.view.settings.requests)
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    assert framework.missing == []
    status = run_permit(framework, info, scheduler.view, 0).status
    assert status.code is code
    assert reasons is None or status.reasons == reasons


REJECTED = "PodGroup ns/pg1 gets rejected due to Pod p is unschedulable even after PostFilter"


@pytest.mark.parametrize(
    ("objects", "reasons"),
    [
        ([build_pod("p", cpu="9")], ["can not find pod group"]),
        ([build_pod("p", "none", cpu="9")], ["can not find pod group"]),
        ([build_pod("p", "pg1", cpu="9"), build_pod("p1", "pg1", on="node"), build_group("pg1", 1)], []),
        ([build_pod("p", "pg1", cpu="9"), build_pod("p1", "pg1", on="node"), build_group("pg1", 2)], [REJECTED]),
        (
            [
                build_pod("p", "pg1", cpu="9"),
                *(build_pod(f"p{i}", "pg1", on="node") for i in range(9)),
                build_group("pg1", 10),
            ],
            [],
        ),
        (
            [
                build_pod("p", "pg1", cpu="9"),
                *(build_pod(f"p{i}", "pg1", on="node") for i in range(8)),
                build_group("pg1", 9),
            ],
            [REJECTED],
        ),
    ],
)
def test_post_filter(objects: list[Json], reasons: list[str]) -> None:
    """If a tenth of the pods is missing, the gap is small enough, but not with a ninth."""
    report = explain(build_cluster(build_node("node"), *objects), "ns/p")
    assert report.message is not None
    assert report.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert [each for each in (REJECTED, "can not find pod group") if each in report.message] == reasons


def test_percentage_determines_the_small_gap() -> None:
    objects = [
        build_node("node"),
        build_pod("p", "pg1", cpu="9"),
        build_pod("p1", "pg1", on="node"),
        build_group("pg1", 2),
    ]
    for percentage, given_up in ((50, False), (49, True), (0, True), (100, False)):
        report = explain(build_cluster(*objects, podGroupRejectPercentage=percentage), "ns/p")
        assert (REJECTED in (report.message or "")) is given_up


EARLY, LATE = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def set_creation_time(document: Json, when: str) -> Json:
    return {**document, "metadata": {**document["metadata"], "creationTimestamp": when}}


@pytest.mark.parametrize(
    ("pods", "groups", "order"),
    [
        pytest.param([build_pod("a", priority=1), build_pod("b", priority=2)], [], "ba", id="priority"),
        pytest.param(
            [set_creation_time(build_pod("a"), LATE), set_creation_time(build_pod("b"), EARLY)], [], "ba", id="age"
        ),
        pytest.param(
            [build_pod("a", "pg1", priority=1), build_pod("b", priority=2)],
            [build_group("pg1", 1)],
            "ba",
            id="priority before groups",
        ),
        pytest.param(
            [set_creation_time(build_pod("a", "pg1"), EARLY), set_creation_time(build_pod("b", "pg2"), LATE)],
            [build_group("pg1", 1, created=LATE), build_group("pg2", 1, created=EARLY)],
            "ba",
            id="the age of the group, not of the pod",
        ),
        pytest.param(
            [set_creation_time(build_pod("a", "pg1"), EARLY), set_creation_time(build_pod("b"), LATE)],
            [build_group("pg1", 1, created="2026-01-01T00:00:03Z")],
            "ba",
            id="a pod older than the group",
        ),
        pytest.param(
            [build_pod("a", "pg2"), build_pod("b", "pg1"), build_pod("c", "pg2")],
            [build_group("pg1", 1, created=LATE), build_group("pg2", 1, created=EARLY)],
            "acb",
            id="a group's pods one after the other",
        ),
        pytest.param(
            [set_creation_time(build_pod("a", "none"), LATE), set_creation_time(build_pod("b"), EARLY)],
            [],
            "ba",
            id="a group that does not exist",
        ),
    ],
)
def test_queue_sort(pods: list[Json], groups: list[Json], order: str) -> None:
    simulation = Simulation(Scheduler(build_cluster(build_node("node"), *pods, *groups)))
    objects = simulation.view.pods.objects
    found = simulation.sort_for_queue(simulation.view.pods.index.values())
    assert "".join(objects[position].metadata.name for position in found) == order


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"permitWaitingTimeSeconds": -1}, "must be greater than 0"),
        ({"podGroupBackoffSeconds": -1}, "must be greater than 0"),
        ({"podGroupRejectPercentage": 101}, "must be between 0 and 100"),
    ],
)
def test_arguments(args: dict[str, int], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Scheduler(build_cluster(build_node("node"), **args))


def test_invalid_amounts_are_errors() -> None:
    with pytest.raises(InputError, match=r"PodGroup ns/pg1, spec\.minResources"):
        explain(build_cluster(build_node("node"), A, build_group("pg1", 1, minResources={"cpu": "lots"})), "ns/p1a")


# -- pods one after another -------------------------------------------------------------------------------------------


def place_pods(*objects: Json, **args: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the node of each scheduled pod, and the message of each other pod."""
    simulation = Simulation(Scheduler(build_cluster(*objects, **args)))
    view = simulation.view
    waiting = [position for position in view.pods.index.values() if view.node[position] < 0]
    outcomes = simulation.run(waiting)
    names = {outcome.position: view.pods.objects[outcome.position].metadata.name for outcome in outcomes}
    there = {names[o.position]: view.nodes.names[o.row] for o in outcomes if o.verdict == SCHEDULED}
    assert {names[p] for p in waiting if view.node[p] >= 0} == there.keys()
    return there, {names[o.position]: o.message for o in outcomes if o.verdict != SCHEDULED}


def test_gang_is_placed_when_it_is_complete() -> None:
    there, _ = place_pods(build_node("n"), *(build_pod(name, "pg1", cpu="1") for name in "abc"), build_group("pg1", 3))
    assert there.keys() == set("abc")


def test_gang_that_does_not_fit_leaves_its_room_to_others() -> None:
    """Three of its four pods would fit. The older gang is tried first, and the pod after it gets the room."""
    gang = [build_pod(f"g{i}", "pg1", cpu="1.3") for i in range(4)]
    there, messages = place_pods(build_node("n"), *gang, build_pod("z", cpu="4"), build_group("pg1", 4, created=EARLY))
    assert there == {"z": "n"}
    assert len(messages) == 4
    assert all(message.startswith("0/1 nodes are available: 1 Insufficient cpu.") for message in messages.values())


def test_waiting_pods_get_the_reason_of_their_rejection() -> None:
    gang = [build_pod(f"g{i}", "pg1", cpu="1.3") for i in range(4)]
    _, messages = place_pods(build_node("n"), *gang, build_group("pg1", 4))
    waited = "0/1 nodes are available: 1 optimistic rejection in PostFilter."
    assert [messages[f"g{i}"] for i in range(3)] == [waited] * 3
    assert "Insufficient cpu" in messages["g3"]
    _, messages = place_pods(build_node("n"), *gang, build_group("pg1", 4), podGroupRejectPercentage=25)
    late = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Coscheduling."
    with_it = "0/1 nodes are available: 1 rejection in Unreserve."
    assert [messages[f"g{i}"] for i in range(3)] == [late, with_it, with_it]


@pytest.mark.parametrize(
    ("own", "args", "seconds"),
    [(10, 60, "10s"), (None, 90, "1m30s"), (None, 0, "1m0s"), (0, 30, "30s"), (0, 0, "0s"), (7200, 60, "15m0s")],
)
def test_waiting_time_of_a_gang(own: int | None, args: int, seconds: str) -> None:
    """The group's own time comes first, then the argument, then a minute. The framework allows at most 15 minutes."""
    spec = {} if own is None else {"scheduleTimeoutSeconds": own}
    gang = [build_pod("a", "pg1"), build_pod("b", "pg1", schedulerName="other")]
    _, messages = place_pods(build_node("n"), *gang, build_group("pg1", 2, **spec), permitWaitingTimeSeconds=args)
    told = f"1 rejected due to timeout after waiting {seconds} at plugin Coscheduling."
    assert messages["a"] == f"0/1 nodes are available: {told}"


def test_more_pods_than_needed_are_placed_as_they_fit() -> None:
    there, messages = place_pods(
        build_node("n"), *(build_pod(f"g{i}", "pg1", cpu="1.3") for i in range(5)), build_group("pg1", 2)
    )
    assert (len(there), len(messages)) == (3, 2)


def test_running_pods_count_for_the_gang() -> None:
    running = build_pod("run", "pg1", cpu="1", on="n")
    there, _ = place_pods(build_node("n"), running, build_pod("a", "pg1", cpu="3"), build_group("pg1", 2))
    assert there == {"a": "n"}


def test_missing_group() -> None:
    there, messages = place_pods(build_node("n"), build_pod("a", "none"), build_pod("b"))
    assert there == {"b": "n"}
    assert messages == {"a": "0/1 nodes are available: 1 PodGroup not found."}


def test_gang_preempts_as_a_whole_or_not_at_all() -> None:
    low = [build_pod(f"low{i}", cpu="2", on="n", priority=-1) for i in range(2)]
    gang = [build_pod(f"g{i}", "pg1", cpu="2") for i in range(2)]
    there, _ = place_pods(build_node("n"), *low, *gang, build_group("pg1", 2))
    assert there.keys() == {"g0", "g1"}
    there, messages = place_pods(build_node("n"), *low, *gang, build_pod("g2", "pg1", cpu="2"), build_group("pg1", 3))
    assert (there, messages.keys()) == ({}, {"g0", "g1", "g2"})


def test_members_of_another_scheduler_never_complete_the_gang() -> None:
    """The other scheduler does not know groups. Its pod is a sibling, but this scheduler cannot place it."""
    gang = [build_pod("a", "pg1", cpu="1"), build_pod("b", "pg1", cpu="1", schedulerName="other")]
    there, messages = place_pods(build_node("n"), *gang, build_group("pg1", 2))
    assert there == {}
    assert "timeout" in messages["a"]
    assert 'no scheduler profile is named "other"' in messages["b"]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 5)), min_size=1, max_size=5),
    cpus=st.lists(st.integers(1, 4), min_size=20, max_size=20),
    priorities=st.lists(st.integers(-1, 2), min_size=20, max_size=20),
    running=st.integers(0, 3),
    nodes=st.integers(1, 3),
)
def test_gang_is_never_placed_partially(
    sizes: list[tuple[int, int]], cpus: list[int], priorities: list[int], running: int, nodes: int
) -> None:
    """If no pod of a gang had a node before, either none has one afterwards, or at least as many as the gang needs."""
    objects = [build_node(f"n{i}") for i in range(nodes)]
    objects += [build_pod(f"run{i}", cpu="2", on="n0", priority=-1) for i in range(running)]
    numbers = iter(range(20))
    for index, (size, least) in enumerate(sizes):
        objects.append(build_group(f"pg{index}", least))
        for number in (next(numbers) for _ in range(size)):
            cpu, priority = str(cpus[number]), priorities[number]
            objects.append(build_pod(f"p{number:02d}", f"pg{index}", cpu=cpu, priority=priority))
    simulation = Simulation(Scheduler(build_cluster(*objects)))
    view = simulation.view
    simulation.run([position for position in view.pods.index.values() if view.node[position] < 0])
    evicted = simulation.gone
    for index, (_, least) in enumerate(sizes):
        members = [
            p for p in view.pods.index.values() if view.pods.objects[p].metadata.labels.get(LABEL) == f"pg{index}"
        ]
        there = sum(view.node[p] >= 0 for p in members)
        assert there == 0 or there >= least or evicted & set(members)


# -- in the queue -----------------------------------------------------------------------------------------------------


def run_closed_queue(*objects: Json, **args: int) -> tuple[dict[str, str], list[str]]:
    """Return the node of each pod that the closed loop binds, and all messages."""
    run = run_queue(build_cluster(*objects, **args), closed_loop=True)
    assert run.not_replayed == ()
    bound = {pod: where for cycle in run.cycles for pod, where in cycle.bound.items()}
    return bound, [failed.message for cycle in run.cycles for failed in cycle.failed.values()]


def test_queue_binds_a_gang_when_it_is_complete() -> None:
    gang = [build_pod(f"g{i}", "pg1", cpu="1") for i in range(3)]
    assert run_closed_queue(build_node("n"), *gang, build_group("pg1", 3))[0] == {f"ns/g{i}": "n" for i in range(3)}


def test_queue_never_binds_a_part_of_a_gang() -> None:
    gang = [build_pod(f"g{i}", "pg1", cpu="1.3") for i in range(4)]
    bound, messages = run_closed_queue(build_node("n"), *gang, build_group("pg1", 4))
    assert bound == {}
    assert "0/1 nodes are available: 1 optimistic rejection in PostFilter." in messages
    bound, messages = run_closed_queue(build_node("n"), *gang, build_group("pg1", 4), podGroupRejectPercentage=100)
    late = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Coscheduling."
    assert (bound, late in messages) == ({}, True)
    assert "0/1 nodes are available: 1 rejection in Unreserve." in messages
