"""Check how the browser sorts and filters its lists, and the map of nodes."""

from __future__ import annotations

from typing import Any

import small
from driven_browser import (
    CHECKOUT,
    LARGE,
    drive,
    get_widget_text,
    list_lines,
    list_overlay_lines,
    press,
    read_screen,
    start_demo_session,
    start_session,
    write,
)
from textual.pilot import Pilot

from kschedctl.cluster import Cluster
from kschedctl.commands.browse.answer_pane import TabLine
from kschedctl.commands.browse.answers import list_node_lines, list_node_map_lines
from kschedctl.commands.browse.app import Browser
from kschedctl.commands.browse.lines import LineList
from kschedctl.commands.browse.session import format_fix_commands
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.explain.report import Explanation, NodeReport, Refusal
from kschedctl.reports.remedy import Remedy


def build_pod(name: str, created: str, namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": created}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


AGED = (
    build_pod("c-old", "2026-01-01T00:00:00Z"),
    build_pod("a-young", "2026-03-01T00:00:00Z"),
    build_pod("b-middle", "2026-02-01T00:00:00Z", "batch"),
)


def list_subject_names(browser: Browser) -> list[str]:
    return [subject.name for subject in browser.pod_list.subjects]


def test_pods_are_sorted_by_cause_age_or_name() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await press(browser, pilot, "s")
        assert list_subject_names(browser) == ["shop/c-old", "batch/b-middle", "shop/a-young"]
        assert "by age" in get_widget_text(browser, "#head")
        await press(browser, pilot, "s")
        assert list_subject_names(browser) == ["batch/b-middle", "shop/a-young", "shop/c-old"]
        await press(browser, pilot, "s")
        assert "by " not in get_widget_text(browser, "#head")

    drive(start_session(*AGED), steps)


def test_namespace_is_selected_and_left() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await press(browser, pilot, "n")
        assert [line.split() for line in list_overlay_lines(browser)[1:]] == [
            ["3", "all"],
            ["1", "batch"],
            ["2", "shop"],
        ]
        await press(browser, pilot, "down", "enter")
        assert list_subject_names(browser) == ["batch/b-middle"]
        assert browser.chosen_key == "batch/b-middle"
        assert "namespace batch" in get_widget_text(browser, "#head")
        await press(browser, pilot, "escape")
        assert len(list_subject_names(browser)) == 3

    drive(start_session(*AGED), steps)


def test_shown_tab_is_in_brackets() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        for key, name in zip("12345", ("Why", "Nodes", "Scores", "Fixes", "Map"), strict=True):
            await press(browser, pilot, key)
            (line,) = [row for row in read_screen(browser) if "1 Why" in row]
            assert f"[{key} {name}]" in line
            assert line.count("[") == 1
            assert len(browser.answer_pane.query_one(TabLine).render().plain) <= 46  # of 80 columns less the list

    drive(start_demo_session(), steps)


def test_nodes_are_sorted() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", CHECKOUT)
        await press(browser, pilot, "2", "s")
        found = [line.split()[0] for line in list_lines(browser.answer_pane.node_list)[1:]]
        assert found == sorted(found)
        assert len(found) == 12
        assert get_widget_text(browser, "#note") == "nodes by name"

    drive(start_demo_session(), steps)


def test_entry_of_the_map_lists_its_nodes() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", CHECKOUT)
        await press(browser, pilot, "5")
        listed = list_lines(browser.answer_pane.query_one("#map-list", LineList))
        assert listed[:3] == [
            "a 7 Insufficient cpu",
            "b 4 node(s) had untolerated taint(s)",
            "c 1 node(s) were unschedulable",
        ]
        assert [line.split()[-1] for line in listed[4:]] == ["aaa", "aaa", "ac", "b", "b", "b", "b"]
        await press(browser, pilot, "down", "enter")
        assert {line.split()[0] for line in list_lines(browser.answer_pane.node_list)[1:]} == {
            "gpu-a1",
            "gpu-b1",
            "spot-a1",
            "spot-c1",
        }

    drive(start_demo_session(), steps, LARGE)


def test_map_of_thousands_of_nodes_has_a_character_for_each() -> None:
    refusal = Refusal("NodeResourcesFit", "Insufficient cpu")
    nodes = tuple(
        NodeReport(f"n{i}", f"z{i % 3}", "general", i % 50 == 0, () if i % 50 == 0 else (refusal,))
        for i in range(5_000)
    )
    report = Explanation("d/p", "Schedulable", "", nodes=nodes, best=("n100",))
    found = [line.text for line in list_node_map_lines(report, 60)]
    assert found[:3] == ["+ 100 fits", "a 4,900 Insufficient cpu", "* kube-scheduler would choose"]
    cells = "".join(line for line in found[4:] if not line.startswith("general"))
    assert (cells.count("+"), cells.count("*"), cells.count("a")) == (99, 1, 4_900)
    assert max(map(len, found)) <= 60


def test_comments_are_not_copied() -> None:
    told = ("# after finding out why\nkubectl uncordon n1", "  # then", "kubectl get nodes # all")
    remedy = Remedy("", "operator", None, (), told, ())
    assert format_fix_commands(remedy) == "kubectl uncordon n1 &&\nkubectl get nodes # all"
    assert format_fix_commands(Remedy("", "operator", None, (), ("# call somebody",), ())) == ""


def test_pod_that_a_quota_denies_is_listed_and_explained() -> None:
    """No pod is pending. Only the ReplicaSet's event shows the third pod."""
    replica_set = {
        "kind": "ReplicaSet",
        "metadata": {"name": "web-5f", "namespace": "shop", "uid": "u1"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}},
        "status": {"replicas": 0},
    }
    event = {
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": "shop"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'Error creating: pods "web-5f-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, '
        "limited: pods=2",
        "involvedObject": {"kind": "ReplicaSet", "name": "web-5f", "namespace": "shop", "uid": "u1"},
        "lastTimestamp": "2026-03-01T00:00:00Z",
    }

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert "Pods that could not be created" in list_lines(browser.pod_list)
        assert "1 workload lacks pods" in get_widget_text(browser, "#head")
        await press(browser, pilot, "enter")
        assert "exceeded quota: q" in " ".join(list_overlay_lines(browser))
        await press(browser, pilot, "escape")
        await write(browser, pilot, "slash", "nothing-like-it")
        assert "Pods that could not be created" not in list_lines(browser.pod_list)

    drive(start_session(replica_set, event), steps)


def test_object_that_waits_for_another_controller_is_listed_and_explained() -> None:
    job = {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "train", "namespace": "ml", "uid": "u1"},
        "spec": {
            "suspend": True,
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {"containers": [{"name": "c"}]}},
        },
    }

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert list_lines(browser.pod_list) == ["Not seen by kube-scheduler yet", "Job ml/train"]
        await press(browser, pilot, "enter")
        assert any("suspend" in line for line in list_overlay_lines(browser))

    drive(start_session(job), steps)


def test_a_narrow_node_list_shows_what_each_node_has() -> None:
    """The list of an 80-column terminal has 46 columns, in which the pod's demand and the figures do not fit."""
    skewed = {**small.build_spread(), **small.build_pod_spec("1")}
    objects = [
        small.build_node("general-b2", cpu="3900m"),
        small.build_node("general-a3", "b"),
        small.build_node("general-c1", "c", cpu="8"),
        small.build_replica("r1", "general-a3"),
        small.build_pod("big", cpu="4100m", nodeSelector={"pool": "p"}),
        small.build_pod("elsewhere", nodeSelector={"disk": "ssd"}),
        {**small.build_pod("spread"), "spec": skewed},
    ]
    objects.append(small.build_pod("filler", "general-c1", "7"))
    cluster = Cluster.from_objects(objects)
    answers = {}
    for name in ("big", "elsewhere", "spread"):
        rows = list_node_lines(explain(cluster, f"d/{name}"), 46)
        cells = [rows[place].text.split() for place in range(1, len(rows))]
        answers[name] = {node_name: " ".join(words) for node_name, *words in cells}
    assert answers["big"] == {
        "general-b2": "3.9 of 3.9 CPUs free",
        "general-a3": "3 of 4 CPUs free",
        "general-c1": "1 of 8 CPUs free",
    }
    assert set(answers["elsewhere"].values()) == {"no label disk"}
    assert answers["spread"]["general-a3"] == "b has 1 pod, fewest is 0"
