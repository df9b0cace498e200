"""Check by hand what wakes a pod that Coscheduling binds only together with others.

Upstream: EventsToRegister in pkg/coscheduling/coscheduling.go of scheduler-plugins: Pod Add, PodGroup Add and Update,
without hints.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import validate
from test_gangs_of_others import CONFIG, COSCHEDULING, NODES, build_coscheduling_pod, build_group, build_pod

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.schema import build_schema
from kschedctl.commands.wakes.between import find_wakes_between
from kschedctl.commands.wakes.changes_that_wake import find_wake_ups
from kschedctl.commands.wakes.many import find_wake_ups_of_pods
from kschedctl.commands.wakes.report import WakeUps
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
OPTIMISTIC = "0/1 nodes are available: 1 optimistic rejection in PostFilter."


def build_cluster(*objects: Json) -> Cluster:
    return Cluster.from_objects([*NODES, *objects], config=CONFIG, other_builds=True)


def find_wakes(name: str, *objects: Json) -> WakeUps:
    """Find the events that wake a pod."""
    scheduler = Scheduler(build_cluster(*objects))
    position = scheduler.view.pods.index[f"ml/{name}"]
    report = find_wake_ups(scheduler, scheduler.view.build_stored_pod(scheduler.view.pods.objects[position]))
    validate(json.loads(json.dumps(report.to_dict())), build_schema(WakeUps))
    return report


def list_hints(report: WakeUps) -> list[str]:
    return [each.words for rejector in report.rejectors for each in rejector.wake_ups]


def test_member_that_waits_for_a_member_that_fits_nowhere() -> None:
    """Three of four pods fit and are rejected by Coscheduling, and the last one by NodeResourcesFit."""
    objects = [*map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 4)]
    report = find_wakes("a", *objects)
    assert report.headline == "its gang train needs nodes for 4 pods at once, but only 3 fit"
    assert (report.queue, report.message) == ("unschedulable", OPTIMISTIC)
    assert [each.plugin for each in report.rejectors] == ["Coscheduling"]
    assert list_hints(report) == [
        "any pod gets a node",
        "any PodGroup is created or changed, train or another",
        "a first pod of train gets a node: then the plugin retries the whole group",
    ]
    last = find_wakes("d", *objects)
    assert (last.headline, [each.plugin for each in last.rejectors]) == (report.headline, ["NodeResourcesFit"])
    assert last.pod_group is not None
    assert last.pod_group.fitting == 3


def test_incomplete_gang() -> None:
    report = find_wakes("a", *map(build_coscheduling_pod, "ab"), build_group(COSCHEDULING, 4))
    assert report.headline == "its gang train has 2 of the 4 pods that it needs; until they exist, no pod is tried"
    assert list_hints(report) == [
        "any pod gets a node",
        "any PodGroup is created or changed, train or another",
        "2 more pods of train are created and one of the group gets a node: then the plugin retries the whole group",
    ]


def test_no_member_is_first_if_some_have_nodes() -> None:
    objects = [
        build_coscheduling_pod("a", nodeName="n2"),
        *map(build_coscheduling_pod, "bcd"),
        build_group(COSCHEDULING, 4),
    ]
    report = find_wakes("b", *objects)
    assert [each.plugin for each in report.rejectors] == ["Coscheduling"]
    assert list_hints(report) == ["any pod gets a node", "any PodGroup is created or changed, train or another"]


def test_gang_that_fits() -> None:
    report = find_wakes("a", *map(build_coscheduling_pod, "abc"), build_group(COSCHEDULING, 3))
    assert report.headline == "fits now with its gang train, so no change is needed"
    assert (report.queue, report.rejectors, report.message) == ("", (), None)


def test_pod_beyond_the_minimum_of_a_gang() -> None:
    """Two pods need a node and three get one. The fourth waits for room, like a single pod."""
    report = find_wakes("d", *map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 2))
    assert report.headline == "is rejected by NodeResourcesFit; 5 kinds of changes would make the scheduler retry it"


def test_missing_group() -> None:
    report = find_wakes("a", build_coscheduling_pod("a"))
    assert report.headline == "its PodGroup does not exist"
    assert report.message == "0/1 nodes are available: 1 PodGroup not found."
    assert [each.plugin for each in report.rejectors] == ["Coscheduling"]


@pytest.mark.parametrize(
    ("event", "moved"),
    [
        pytest.param({"action": "Add", "new": build_pod("x", nodeName="n1")}, True, id="any pod with a node"),
        pytest.param({"action": "Add", "new": build_pod("x")}, False, id="a pod without one"),
        pytest.param({"action": "Add", "new": build_group(COSCHEDULING, 9)}, True, id="its group"),
        pytest.param({"action": "Add", "new": NODES[0] | {"metadata": {"name": "n3"}}}, False, id="a node"),
        pytest.param({"action": "Delete", "old": build_pod("x", nodeName="n1")}, False, id="a pod leaves"),
    ],
)
def test_events_and_a_member_that_fits_by_itself(event: Json, moved: bool) -> None:
    cluster = build_cluster(*map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 4))
    found = kschedctl.wakes(cluster, "ml/a", event)
    assert (found.before, found.moved, found.unschedulable_plugins) == ("unschedulable", moved, ("Coscheduling",))


def test_answer_about_many_pods_names_each_gang() -> None:
    cluster = build_cluster(*map(build_coscheduling_pod, "abcd"), build_pod("alone"), build_group(COSCHEDULING, 4))
    report = find_wake_ups_of_pods(Scheduler(cluster), cluster.unbound_pods(), "in ml")
    refused = {each.pod: [found.plugin for found in each.rejectors] for each in report.pods}
    coscheduling = {f"ml/{name}": ["Coscheduling"] for name in "abc"}
    assert refused == {**coscheduling, "ml/d": ["NodeResourcesFit"], "ml/alone": []}


def test_member_whose_gang_does_not_fit_is_not_missed() -> None:
    """It fits by itself in both snapshots, but never with its gang, so no event should have woken it."""
    objects = [*map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 4)]
    before, after = (Scheduler(build_cluster(*objects)) for _ in range(2))
    report = find_wakes_between(before, after, None, ("before", "after"))
    assert not any(each.missed for each in report.pods)
    assert len(report.pods) == 4


def test_descriptions_without_hints() -> None:
    """In 1.30, freed room wakes all pods, and a node wakes the pods that it would take.

    Resizes are read from the status.
    """
    gates = {"InPlacePodVerticalScaling": True}
    huge = build_pod("huge")
    huge["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    cluster = Cluster.from_objects([NODES[0], huge], kube_version="1.30", feature_gates=gates)
    (report,) = find_wake_ups_of_pods(Scheduler(cluster), cluster.unbound_pods(), "").pods
    assert list_hints(report) == [
        "any delete of a Pod",
        "any update of a Pod that is being resized",
        "any add or update of a Node that would then take it",
        "the pod itself is updated, in more than its status",
    ]
    assert not report.undecided
