"""Check whether a pod gets its new node while other pods wait for room, and how many nodes would be enough.

A node has 4 CPUs and each waiting pod requests 3, so that each needs a node of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.commands.explain.new_node_page import build_new_node_section
from kschedctl.commands.explain.one_pod import find_or_create_target
from kschedctl.fixes.new_node import predict_new_node
from kschedctl.render.page import Style
from kschedctl.reports.new_node import NewNode

Json = dict[str, Any]
NOW = "2026-03-04T12:00:00Z"


def build_node(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:00Z"}],
        },
    }


def build_waiting_pod(name: str, priority: int, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "creationTimestamp": "2026-03-04T10:00:00Z"},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}],
            **spec,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def answer(maximum: int, *pods: Json) -> NewNode:
    """Explain whether a node comes for pod d/last, with a node group of one full node and this maximum."""
    full = build_waiting_pod("full", 100, nodeName="n1")
    full["status"] = {"phase": "Running"}
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), full, *pods], assume_complete=True)
    groups = [{"id": "a", "min": 1, "max": maximum, "target": 1, "nodes": ["n1"]}]
    told = predict_new_node(find_or_create_target(cluster, "d/last"), NOW, UserGroups(groups, {}, "", ""))
    assert told is not None
    return told


LAST, FIRST, SECOND = build_waiting_pod("last", 0), build_waiting_pod("first", 20), build_waiting_pod("second", 10)


def test_single_pod_has_no_rivals() -> None:
    told = answer(3, LAST)
    assert (told.would_launch, told.queue) == (True, None)


def test_pod_shares_new_nodes_with_pods_ahead() -> None:
    told = answer(4, LAST, FIRST, SECOND).queue
    assert told is not None
    assert (told.nodes, told.placed, told.enough) == (3, True, 3)
    assert sorted(told.rivals) == ["d/first", "d/second"]


def test_pods_ahead_take_all_new_nodes() -> None:
    """The group allows two more nodes, and both go to pods of a higher priority. Three would be enough."""
    told = answer(3, LAST, FIRST, SECOND).queue
    assert told is not None
    assert (told.nodes, told.placed, told.enough) == (2, False, 3)
    assert sorted(told.rivals) == ["d/first", "d/second"]


def test_pod_too_large_for_any_node_needs_no_number() -> None:
    told = answer(3, build_waiting_pod("last", 0, nodeSelector={"a": "b"}), FIRST)
    assert (told.would_launch, told.queue) == (False, None)


@pytest.mark.parametrize(
    ("maximum", "sentence"),
    [
        (4, "Yes, by the Cluster Autoscaler: 3 new nodes (3 of a), which the pod shares with 2 other waiting pods"),
        (3, "Not for this pod: the Cluster Autoscaler adds 2 new nodes (2 of a), but 2 other waiting pods"),
    ],
)
def test_sentence_about_new_nodes(maximum: int, sentence: str) -> None:
    page = repr(build_new_node_section(answer(maximum, LAST, FIRST, SECOND), Style()))
    assert sentence in page
    assert ("need this capacity; without size limits, 3 new nodes would be enough for all" in page) == (maximum == 3)


def run_scale_up(*pods: Json) -> Any:
    """Run the next loop for a node group of one full node that may have two more."""
    full = build_waiting_pod("full", 100, nodeName="n1")
    full["status"] = {"phase": "Running"}
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), full, *pods], assume_complete=True)
    groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    return kschedctl.scale_up(cluster, groups, now=NOW)


def test_unseen_pod_takes_the_new_node() -> None:
    """kube-scheduler has not rejected d/first yet, so one node comes for d/last, but d/first gets it."""
    unseen = build_waiting_pod("first", 20)
    unseen["status"]["conditions"] = []
    report = run_scale_up(LAST, unseen)
    assert [(grown.source, grown.target) for grown in report.increases] == [(1, 2)]
    assert list(report.still_pending) == ["d/last"]
    assert (report.rivals, report.enough) == (("d/first",), 2)
    assert not report.are_all_placed


def test_maximum_may_be_too_low_for_all_pods() -> None:
    unseen = [build_waiting_pod(name, 20) for name in ("first", "second")]
    for pod in unseen:
        pod["status"]["conditions"] = []
    report = run_scale_up(LAST, *unseen)
    assert (sorted(report.still_pending), report.enough) == (["d/last"], None)


def test_no_pod_stays_pending_if_all_are_seen() -> None:
    report = run_scale_up(LAST, FIRST)
    assert (report.still_pending, report.rivals, report.enough) == ({}, (), None)
    assert report.are_all_placed


def test_pod_behind_in_the_queue_is_no_rival() -> None:
    """d/first takes the node that comes for d/last. d/small has a lower priority and only uses the remaining room."""
    unseen, small = build_waiting_pod("first", 20), build_waiting_pod("small", -5)
    unseen["status"]["conditions"] = small["status"]["conditions"] = []
    small["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    report = run_scale_up(LAST, unseen, small)
    assert (list(report.still_pending), report.rivals) == (["d/last"], ("d/first",))


def answer_with_two_groups(maximum: int, *pods: Json) -> NewNode:
    """Explain whether a node comes for pod d/last, with a full node in group a and another one in tainted group b.

    Group a may have this many nodes, and group b may grow.
    """
    nodes = [build_node("n1"), build_node("n2")]
    nodes[1]["metadata"]["labels"]["group"] = "b"
    nodes[1]["spec"] = {"taints": [{"key": "dedicated", "value": "b", "effect": "NoSchedule"}]}
    full = [build_waiting_pod(f"full-{name}", 100, nodeName=name) for name in ("n1", "n2")]
    for pod in full:
        pod["status"] = {"phase": "Running"}
    cluster = kschedctl.Cluster.from_objects([*nodes, *full, *pods], assume_complete=True)
    groups = [
        {"id": "a", "min": 1, "max": maximum, "target": 1, "nodes": ["n1"]},
        {"id": "b", "min": 1, "max": 5, "target": 1, "nodes": ["n2"]},
    ]
    told = predict_new_node(find_or_create_target(cluster, "d/last"), NOW, UserGroups(groups, {}, "", ""))
    assert told is not None
    return told


OF_GROUP_B = build_waiting_pod(
    "other", 20, nodeSelector={"group": "b"}, tolerations=[{"key": "dedicated", "operator": "Exists"}]
)


def test_nodes_that_the_pod_cannot_use_do_not_matter_to_it() -> None:
    """Group b grows for another pod, but d/last does not tolerate its taint."""
    told = answer_with_two_groups(1, LAST, OF_GROUP_B)
    assert (told.would_launch, told.queue) == (False, None)
    assert told.answer == "No, not by the Cluster Autoscaler (a: at its maximum of 1; one more node would take the pod)"


def test_only_nodes_of_groups_that_take_the_pod_are_counted() -> None:
    told = answer_with_two_groups(3, LAST, OF_GROUP_B)
    assert told.queue is not None
    assert (told.queue.nodes, told.queue.placed, told.queue.rivals) == (1, True, ())
    assert told.answer == "Yes, by the Cluster Autoscaler: 1 new node (1 of a), regardless of other waiting pods"


def test_enough_nodes_are_counted_only_in_groups_that_take_the_pod() -> None:
    told = answer_with_two_groups(2, LAST, FIRST, OF_GROUP_B)
    assert told.queue is not None
    assert (told.queue.placed, told.queue.rivals, told.queue.enough) == (False, ("d/first",), 2)
