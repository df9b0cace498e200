"""Check what each key of ``kschedctl browse`` does on the demo."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import build_node, build_pod
from driven_browser import (
    CHECKOUT,
    drive,
    get_flat_text_above_tabs,
    get_text_above_tabs,
    get_widget_text,
    list_lines,
    list_overlay_lines,
    press,
    read_screen,
    start_demo_session,
    start_session,
    wait_until,
    wait_until_settled,
    write,
)
from textual.pilot import Pilot
from textual.widgets import Input

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.app import Browser
from kschedctl.commands.browse.lines import LineList, Openable
from kschedctl.commands.browse.screens import HelpScreen
from kschedctl.fixes.supposing import apply_suppositions
from kschedctl.scheduler.scheduler import Scheduler

NO_SENSE = {
    "priority=one": 'as if: priority "one" is not a number',
    "priority=2147483648": "as if: priority 2147483648 is out of range: it must be a 32-bit integer",
    "cpu=lots": 'as if: cpu: "lots" is not a quantity, write 500m or 2',
    "memory=8GB": 'as if: memory: "8GB" is not a quantity, write 8G or 8Gi',
    "cpu=-1": "as if: cpu: -1 is negative",
    "cpi=1": 'as if: "cpi" is not a resource that the scheduler counts',
    "nonsense": 'as if: "nonsense" must have the form NAME=VALUE',
    "tolerate=gpu:Never": 'as if: "Never" is not a taint effect (NoSchedule, PreferNoSchedule, NoExecute)',
    "class=nope": 'no PriorityClass "nope" (available: batch-low,',
    "node=nope": 'node "nope" not found',
}
"""Invalid assumptions, each with its error message."""


def test_list_groups_pending_pods_by_cause_and_explains_the_first() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        names = list_lines(browser.pod_list)
        heading = names[names.index(CHECKOUT) - 2 : names.index(CHECKOUT)]
        assert heading == ["1 · too little CPU is free", "(Insufficient cpu)"]
        ingress = "platform/ingress-nginx-7b4f6c9d85-wt7jd"
        assert get_flat_text_above_tabs(browser).startswith(
            f"{ingress} Unschedulable: a host port is taken on both candidate nodes"
        )
        assert get_widget_text(browser, "#head") == "10 pending pods · across all namespaces · 12 nodes"
        await press(browser, pilot, "down")
        assert get_flat_text_above_tabs(browser).startswith(
            "batch/embedder-t7x4w Unschedulable: taint nvidia.com/gpu=present:NoSchedule"
        )

    drive(start_demo_session(), steps)


def test_search_finds_pods_nodes_and_workloads() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await press(browser, pilot, "slash", *"insufficient")
        assert browser.pod_list.subjects == [Openable("pod", CHECKOUT)]
        assert get_widget_text(browser, "#head").startswith('search "insufficient" (Esc to clear)')
        await press(browser, pilot, "escape")
        assert len(browser.pod_list.subjects) == 10
        await write(browser, pilot, "slash", "general-a")
        assert [each.name for each in browser.pod_list.subjects if each.kind == "node"] == [
            "general-a1", "general-a2", "general-a3",
        ]  # fmt: skip
        await write(browser, pilot, "slash", "no such thing")
        assert " ".join(list_lines(browser.pod_list)) == "no pod, node or workload has a name with this text"
        await press(browser, pilot, "escape")
        assert len(browser.pod_list.subjects) == 10

    drive(start_demo_session(), steps)


def test_choosing_a_pod_on_a_node_shows_it_and_ends_the_search() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "general-b2")
        await press(browser, pilot, "enter")
        found = list_overlay_lines(browser)
        fitting = "Would fit here on their own: 1 of 10 pending pods"
        assert found[found.index(fitting) + 1] == "shop/web-6d4cf56db6-h8s2k"
        await press(browser, pilot, "enter")
        assert browser.chosen_key == "shop/web-6d4cf56db6-h8s2k"
        assert get_text_above_tabs(browser).startswith("shop/web-6d4cf56db6-h8s2k\nSchedulable")
        assert len(browser.screen_stack) == 1
        assert not browser.search_text

    drive(start_demo_session(), steps)


def test_assumption_shows_both_answers_and_escape_reverts_it() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "checkout")
        before = "before: Unschedulable: needs 1.5 CPUs"
        for words, now in (
            ("cpu=500m", "now: Schedulable: on general-b2, the best of 6 feasible nodes"),
            ("node=general-a1", "now: Schedulable: on general-a1-more-0"),
            ("cpu=500m tolerate=example.com/spot", "now: Schedulable: on "),
        ):
            await write(browser, pilot, "a", words)
            assert get_flat_text_above_tabs(browser).startswith(f"{CHECKOUT} as if {words} {before}")
            assert now in get_flat_text_above_tabs(browser)
            assert not browser.ask_line.display
        await write(browser, pilot, "a", "cpu=500m")
        why = get_widget_text(browser, "#why-text")
        assert "0    6  feasible nodes" in why
        assert "7    1  NodeResourcesFit:" in why
        await press(browser, pilot, "escape")
        assert get_flat_text_above_tabs(browser).startswith(f"{CHECKOUT} Unschedulable: needs 1.5 CPUs")

    drive(start_demo_session(), steps)


def test_invalid_assumption_can_be_corrected() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        was = get_text_above_tabs(browser)
        for words, why in NO_SENSE.items():
            await write(browser, pilot, "a", words)
            assert get_widget_text(browser, "#note").startswith(why), words
            assert browser.ask_line.display
            assert browser.ask_line.query_one(Input).value == words
            assert get_text_above_tabs(browser) == was
            await press(browser, pilot, "escape")
            assert not browser.ask_line.display
            assert get_widget_text(browser, "#note") == ""

    drive(start_demo_session(), steps)


def test_keys_can_be_clicked() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        bottom = browser.size.height - 1
        line = read_screen(browser)[bottom]
        await pilot.click(offset=(line.index("Help") + 3, bottom))
        await wait_until_settled(browser, pilot)
        assert isinstance(browser.screen, HelpScreen)
        await pilot.click(offset=(len(line), bottom))
        await wait_until_settled(browser, pilot)
        assert isinstance(browser.screen, HelpScreen)
        await pilot.click(offset=(read_screen(browser)[bottom].index("Back"), bottom))
        await wait_until_settled(browser, pilot)
        assert len(browser.screen_stack) == 1
        await pilot.click(offset=(line.index("Search"), bottom))
        await wait_until_settled(browser, pilot)
        assert browser.ask_line.purpose == "search"

    drive(start_demo_session(), steps)


def test_assumed_toleration_can_be_limited_to_an_effect() -> None:
    asked = start_demo_session().build_target(CHECKOUT)
    (added,) = apply_suppositions(asked, "tolerate=a=b:NoExecute").pod.spec.tolerations[
        len(asked.pod.spec.tolerations) :
    ]
    assert (added.key, added.operator, added.value, added.effect) == ("a", "Equal", "b", "NoExecute")


@pytest.mark.parametrize("words", ["node=general-a1", "node=gpu-a1", "node=spot-c1 node=spot-c1 cpu=1"])
def test_assumed_nodes_give_the_answer_of_a_cluster_that_has_them(words: str) -> None:
    """All columns are built again, with another order of nodes."""
    session = start_demo_session()
    for pending_pod in session.pending_pods:
        asked = session.build_target(pending_pod.key, words)
        anew = asked._replace(scheduler=Scheduler(asked.scheduler.cluster))
        quick, slow = session.explain(asked), session.explain(anew)
        assert (quick.verdict, quick.message, quick.total) == (slow.verdict, slow.message, slow.total)
        assert {node.name: node.refusals for node in quick.nodes} == {node.name: node.refusals for node in slow.nodes}
        assert len(quick.nodes) in (0, 12 + words.count("node="))


def test_nodes_show_their_obstacles_and_pods() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "checkout")
        await press(browser, pilot, "2")
        assert len(browser.answer_pane.node_list.subjects) == 12
        # A narrow list has only what each node has
        first = " ".join(list_lines(browser.answer_pane.node_list)[1].split())
        assert first == "general-b2 1.2 of 3.9 CPUs free"
        assert "the pod needs 1.5 CPUs, but the node has 1.2 of 3.9 free" in " ".join(
            get_widget_text(browser, "#node-fact").split()
        )
        await press(browser, pilot, "slash", *"gpu-")
        assert [each.name for each in browser.answer_pane.node_list.subjects] == ["gpu-a1", "gpu-b1"]
        await press(browser, pilot, "enter", "enter")
        assert list_overlay_lines(browser)[:2] == [
            "Node gpu-a1 · pool gpu · eu-west-1a",
            "taint nvidia.com/gpu=present:NoSchedule",
        ]
        await press(browser, pilot, "escape", "escape")
        assert len(browser.answer_pane.node_list.subjects) == 12
        await press(browser, pilot, "home", "enter")
        found = list_overlay_lines(browser)
        assert found[0] == "Node general-b2 · pool general · eu-west-1b"
        assert "Pods (3)" in found
        assert "topology.kubernetes.io/zone=eu-west-1b" in found
        assert ["cpu", "1.2", "3.9"] in [line.split() for line in found]

    drive(start_demo_session(), steps)


def test_workload_leads_to_its_nodes_and_back() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "shop/cart")
        await press(browser, pilot, "w")
        found = list_overlay_lines(browser)
        assert found[0] == "Deployment shop/cart · 6 pods, 1 pending"
        placed = [line.split() for line in found[found.index("Placed (5)") + 2 :]]
        by_zone = {line[-2] if line[-1].startswith("■") else line[-1]: int(line[0]) for line in list_zone_rows(found)}
        assert by_zone == {zone: sum(row[2] == zone for row in placed) for zone in by_zone}
        assert found[found.index("Pending (1)") + 2].startswith("shop/cart-5f7b8c9d4-zr5mt")
        await press(browser, pilot, "down", "enter")
        assert list_overlay_lines(browser)[0].startswith(f"Node {placed[0][1]} ")
        await press(browser, pilot, "escape")
        assert list_overlay_lines(browser)[0] == "Deployment shop/cart · 6 pods, 1 pending"
        await press(browser, pilot, "escape")
        assert browser.chosen_key == "shop/cart-5f7b8c9d4-zr5mt"

    drive(start_demo_session(), steps)


def test_pod_without_a_controller_is_its_own_workload() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "waits")
        await press(browser, pilot, "w")
        found = list_overlay_lines(browser)
        assert found[0] == "Pod default/waits · 1 pod, 1 pending"
        assert found[found.index("Pending (1)") + 2].startswith("default/waits")

    drive(start_session(build_node("n1", "2"), build_pod("waits", "3")), steps)


def list_zone_rows(found: list[str]) -> list[list[str]]:
    """Return the rows below "By zone"."""
    start = found.index("By zone") + 2
    return [line.split() for line in found[start : found.index("", start)]]


def test_remedies_are_chosen_opened_and_copied() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "checkout")
        await press(browser, pilot, "4")
        first = list_lines(browser.answer_pane.query_one("#remedy-list", LineList))[0]
        assert first.startswith("1 Find out why node general-c2 is cordoned,")
        await press(browser, pilot, "enter")
        assert "kubectl uncordon general-c2" in list_overlay_lines(browser)
        await press(browser, pilot, "enter", "c")
        assert browser.clipboard.splitlines() == [
            "# find out first why node general-c2 is cordoned: kubectl describe node general-c2",
            "kubectl uncordon general-c2",
        ]
        assert get_widget_text(browser, "#note") == "copied 2 lines: kubectl uncordon general-c2 …"
        # The screen of the fix copies the same commands, and closes so that the note is visible
        await press(browser, pilot, "enter", "c")
        assert len(browser.screen_stack) == 1
        assert browser.copied[0] == browser.copied[1]

    drive(start_demo_session(), steps)


def test_copied_command_includes_the_assumption() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "checkout")
        await press(browser, pilot, "c")
        assert browser.clipboard == f"kschedctl explain {CHECKOUT} --demo"
        await write(browser, pilot, "a", "cpu=500m   node=general-a1")
        await press(browser, pilot, "c")

    browser = drive(start_demo_session(), steps)
    supposed_too = f"kschedctl explain {CHECKOUT} --as-if cpu=500m --as-if node=general-a1 --demo"
    assert browser.copied == [f"kschedctl explain {CHECKOUT} --demo", supposed_too]


def test_tab_moves_to_the_other_side_and_escape_returns() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert browser.pod_list.has_focus
        await press(browser, pilot, "tab")
        assert browser.answer_pane.query_one("#why").has_focus
        await press(browser, pilot, "3")
        assert browser.answer_pane.query_one("#scores").has_focus
        await press(browser, pilot, "escape")
        assert browser.pod_list.has_focus
        await press(browser, pilot, "enter")
        assert browser.answer_pane.query_one("#scores").has_focus

    drive(start_demo_session(), steps)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
@pytest.mark.parametrize("before", [(), ("question_mark",), ("w",)], ids=["list", "help", "workload"])
def test_quit(key: str, before: tuple[str, ...]) -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await press(browser, pilot, *before)
        await pilot.press(key)
        await wait_until(pilot, lambda: browser.return_code == 0)

    drive(start_demo_session(), steps)


def test_keys_are_letters_while_typing() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await press(browser, pilot, "slash", *"qacw?r1")
        assert browser.search_text == "qacw?r1"
        assert len(browser.screen_stack) == 1
        assert not browser.copied
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: browser.return_code == 0)

    drive(start_demo_session(), steps)


def test_workloads_are_found_with_their_kinds() -> None:
    assert start_demo_session().search("shop/web").workloads == (
        Owner("Deployment", "shop", "web"), Owner("ReplicaSet", "shop", "web-6d4cf56db6"),
    )  # fmt: skip


def test_only_the_latest_question_is_answered() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await pilot.press(*["down"] * 9)
        await wait_until_settled(browser, pilot)
        assert browser.chosen_key == "shop/web-6d4cf56db6-h8s2k"
        assert get_text_above_tabs(browser).startswith(f"{browser.chosen_key}\nSchedulable")

    drive(start_demo_session(), steps)


def test_colon_goes_to_the_places_of_k9s() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "colon", "ns shop")
        assert {subject.name.split("/")[0] for subject in browser.pod_list.subjects} == {"shop"}
        await write(browser, pilot, "colon", "ns all")
        assert len(browser.pod_list.subjects) == 10
        await write(browser, pilot, "colon", "no general-b")
        assert browser.answer_pane.current_tab == "nodes"
        assert browser.answer_pane.node_filter == "general-b"
        await write(browser, pilot, "colon", "fixes")
        assert browser.answer_pane.current_tab == "fixes"
        await write(browser, pilot, "colon", "checkout")
        assert Openable("pod", CHECKOUT) in browser.pod_list.subjects
        assert len(browser.pod_list.subjects) < 10
        await write(browser, pilot, "colon", "po")
        assert len(browser.pod_list.subjects) == 10
        await write(browser, pilot, "colon", "help")
        assert isinstance(browser.screen, HelpScreen)

    drive(start_demo_session(), steps)


def test_d_describes_what_enter_opens() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await write(browser, pilot, "slash", "general-b2")
        await press(browser, pilot, "d")
        assert "Would fit here on their own: 1 of 10 pending pods" in list_overlay_lines(browser)
        await press(browser, pilot, "escape", "escape")
        await press(browser, pilot, "d")
        assert not browser.pod_list.has_focus

    drive(start_demo_session(), steps)
