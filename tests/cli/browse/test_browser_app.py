"""``kschedctl browse`` driven by Textual's pilot: what each key does, and how screens look at two sizes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, OptionList, Static, TabbedContent
from textual.worker import WorkerCancelled

from kschedctl.api.ownership import Owner
from kschedctl.cli.browse.app import Browser
from kschedctl.cli.browse.session import BrowseSession
from kschedctl.cli.options import Scope, Source
from kschedctl.cli.source import load
from kschedctl.cluster import Cluster
from kschedctl.demo import DEMO_TIME

SCREENS = Path(__file__).parent / "screens"
UPDATE = "UPDATE_SCREENS"
"""Set it to have the screens written that the tests compare with, and look at the difference."""
CHECKOUT = "shop/checkout-7d9f6c5b8-x2x4q"
SMALL, LARGE = (80, 24), (160, 50)
Steps = Callable[[Browser, Pilot[Any]], Awaitable[None]]


@cache
def demo() -> BrowseSession:
    source = Source(demo=True)
    return BrowseSession(load(source), source, Scope(all_namespaces=True), DEMO_TIME)


def drive(session: BrowseSession, steps: Steps, size: tuple[int, int] = SMALL, **settings: Any) -> None:
    """Takes the steps when the list is there."""

    async def run() -> None:
        browser = Browser(session, **settings)
        async with browser.run_test(size=size) as pilot:
            await settled(browser, pilot)
            await steps(browser, pilot)

    asyncio.run(run())


async def settled(browser: Browser, pilot: Pilot[Any]) -> None:
    """Until nothing is being computed any more and all of it is shown."""
    for _ in range(3):
        await pilot.pause()
        with suppress(WorkerCancelled):  # by a newer question
            await browser.workers.wait_for_complete()
    await pilot.pause()


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Wait for it, while something else goes on that does not end."""
    for _ in range(600):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError("it did not come to hold")


async def find(browser: Browser, pilot: Pilot[Any], text: str) -> None:
    await pilot.press("slash")
    browser.query_one(Input).value = text
    await pilot.press("enter")
    await settled(browser, pilot)


def said(browser: Browser) -> str:
    return str(browser.query_one("#verdict", Static).content)


def on_screen(browser: Browser) -> list[str]:
    """The characters of the screen: from the SVG that Textual makes of it, whose cells are 12.2 wide."""
    lines: dict[float, dict[int, str]] = {}
    for text in ElementTree.fromstring(browser.export_screenshot()).iter("{http://www.w3.org/2000/svg}text"):
        if (
            (text.get("clip-path") or "").endswith("title)")
            or text.get("x") is None
            or "line" not in str(text.get("clip-path"))
        ):
            continue
        cells = lines.setdefault(float(text.get("y", 0)), {})
        start = round(float(text.get("x", 0)) / 12.2)
        cells.update({start + i: character for i, character in enumerate(text.text or "")})
    return [
        "".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)).replace("\xa0", " ").rstrip()
        for _, cells in sorted(lines.items())
    ]


def test_the_list_has_pending_pods_under_their_causes_and_the_first_is_explained() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        options = browser.query_one(OptionList)
        names = [str(options.get_option_at_index(i).prompt) for i in range(options.option_count)]
        at = names.index(f"  {CHECKOUT}")
        assert names[at - 1] == "Insufficient cpu (1)"
        assert said(browser).startswith("batch/embedder-t7x4w\nUnschedulable: node(s) had untolerated taint(s)")

    drive(demo(), steps)


def test_search_finds_pods_by_name_and_cause_and_nodes_and_workloads() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await pilot.press("slash", *"insufficient")
        await settled(browser, pilot)
        assert list(browser.listed) == ["heading Insufficient cpu (1)", f"pod {CHECKOUT}"]
        await pilot.press("escape")
        await settled(browser, pilot)
        await find(browser, pilot, "general-a")
        assert [name for name in browser.listed if name.startswith("node ")] == [
            "node general-a1", "node general-a2", "node general-a3",
        ]  # fmt: skip
        await pilot.press("escape")
        await find(browser, pilot, "no such thing")
        assert list(browser.listed) == ["heading nothing has this in its name"]

    drive(demo(), steps)


def test_as_if_changes_the_answer_and_escape_takes_it_back() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await find(browser, pilot, "checkout")
        assert "Unschedulable: Insufficient cpu" in said(browser)
        for words, answer in (
            ("cpu=500m", "Schedulable: would be scheduled: node general-b2, of 6 that fit"),
            ("node=general-a1", "Schedulable: would be scheduled: node general-a1-0, of 1 that fit"),
            ("priority=one", 'as if: priority "one" is not a number'),
            ("cpu=lots", "as if: cpu: quantities must match the regular expression"),
            ("nonsense", 'as if: "nonsense" is not NAME=VALUE'),
        ):
            await pilot.press("a")
            browser.query_one(Input).value = words
            await pilot.press("enter")
            await settled(browser, pilot)
            assert answer in said(browser)
        await pilot.press("escape")
        await settled(browser, pilot)
        assert said(browser).startswith(f"{CHECKOUT}\nUnschedulable: Insufficient cpu")

    drive(demo(), steps)


def test_tabs_nodes_and_what_is_on_them() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await find(browser, pilot, "checkout")
        await pilot.press("2")
        assert browser.query_one(TabbedContent).active == "nodes"
        table = browser.query_one(DataTable)
        assert table.row_count == 12
        assert [str(cell) for cell in table.get_row_at(0)] == ["general-b2", "NodeResourcesFit: Insufficient cpu", ""]
        await pilot.press("enter")
        await settled(browser, pilot)
        shown = str(browser.screen.query_one(Static).content)
        assert "Would fit here: 1 of 10 pending pods" in shown
        assert "shop/payments-7c5d98b6f4-rm2tw" in shown
        await pilot.press("escape")
        await pilot.press("4")
        assert "Remedies, each replayed" in str(browser.query_one("#remedies-text", Static).content)
        await pilot.press("w")
        await settled(browser, pilot)
        assert "Deployment shop/checkout" in str(browser.screen.query_one(Static).content)

    drive(demo(), steps)


def test_the_command_that_asks_the_same_is_copied() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await find(browser, pilot, "checkout")
        await pilot.press("c")
        assert browser.clipboard == f"kschedctl explain {CHECKOUT} --demo"

    drive(demo(), steps)


def test_quit() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await pilot.press("q")
        assert browser.return_code == 0

    drive(demo(), steps)


def test_a_changed_cluster_takes_the_place_of_the_old_one_and_the_choice_stays() -> None:
    first = demo()
    gone = [node for node in first.cluster.nodes if node.metadata.name != "general-c1"]

    changed = threading.Event()
    later = BrowseSession(Cluster.of({"Node": gone, "Pod": first.cluster.pods}), first.source, first.scope, DEMO_TIME)

    def clusters() -> Iterator[BrowseSession]:
        changed.wait(60)
        yield later

    async def run() -> None:
        browser = Browser(first, clusters())
        async with browser.run_test(size=SMALL) as pilot:
            await until(pilot, lambda: said(browser).startswith("batch/embedder-t7x4w"))
            await pilot.press("down")
            await until(pilot, lambda: said(browser).startswith("batch/etl-ln6zq"))
            await pilot.press("a")
            browser.query_one(Input).value = "priority=7"
            await pilot.press("enter")
            await until(pilot, lambda: said(browser).startswith("batch/etl-ln6zq as if priority=7\n"))
            changed.set()
            await until(pilot, lambda: "11 nodes" in str(browser.query_one("#head", Static).content))
            await settled(browser, pilot)
            assert said(browser).startswith("batch/etl-ln6zq as if priority=7\n")

    asyncio.run(run())


def test_a_cluster_without_pending_pods_and_hostile_names() -> None:
    hostile = "[red]x[/]\x1b[2J"
    pod = {"kind": "Pod", "metadata": {"name": hostile, "namespace": "d"}, "spec": {"containers": [{"name": "c"}]}}

    async def empty(browser: Browser, pilot: Pilot[Any]) -> None:
        assert list(browser.listed) == ["heading no pod is pending here"]
        await pilot.press("w", "c", "2", "escape", "question_mark", "escape")

    async def named(browser: Browser, pilot: Pilot[Any]) -> None:
        assert "[red]x[/]\\x1b[2J" in said(browser)
        assert any("[red]x[/]\\x1b[2J" in line for line in on_screen(browser))

    for objects, steps in (([], empty), ([pod], named)):
        cluster = Cluster.from_objects(objects)
        drive(BrowseSession(cluster, Source(), Scope(all_namespaces=True)), steps)


def test_five_thousand_nodes() -> None:
    node = {"kind": "Node", "spec": {}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}}
    nodes = [
        {**node, "metadata": {"name": f"n{i:04}", "labels": {"kubernetes.io/hostname": f"n{i}"}}} for i in range(5000)
    ]
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    pod = {"kind": "Pod", "metadata": {"name": "big", "namespace": "d"}, "spec": {"containers": [container]}}

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        assert "Insufficient cpu" in said(browser)
        await pilot.press("2")
        assert browser.query_one(DataTable).row_count == 5000
        await pilot.press("end", "enter")
        await settled(browser, pilot)
        assert "Would fit here: 0 of 1 pending pod" in str(browser.screen.query_one(Static).content)

    drive(BrowseSession(Cluster.from_objects([*nodes, pod]), Source(), Scope(all_namespaces=True)), steps)


def test_workloads_can_be_opened_from_the_list() -> None:
    assert demo().search("shop/web").workloads == (
        Owner("Deployment", "shop", "web"), Owner("ReplicaSet", "shop", "web-6d4cf56db6"),
    )  # fmt: skip


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x50"])
@pytest.mark.parametrize("name", ["why", "nodes", "remedies", "node", "as-if", "help"])
def test_screens_look_as_they_did(name: str, size: tuple[int, int]) -> None:
    keys = {
        "why": ["1"], "nodes": ["2"], "remedies": ["4"], "node": ["2", "enter"], "help": ["question_mark"],
        "as-if": ["a", *"cpu=500m", "enter"],
    }  # fmt: skip
    file = SCREENS / f"{name}-{size[0]}x{size[1]}.txt"

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        await find(browser, pilot, "checkout")
        await pilot.press(*keys[name])
        await settled(browser, pilot)
        found = "\n".join(on_screen(browser)) + "\n"
        if os.environ.get(UPDATE):
            file.write_text(found)
        assert found == file.read_text()

    drive(demo(), steps, size)
