"""Helpers that drive the browser with Textual's pilot and wait until a condition holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

from textual.pilot import Pilot
from textual.widgets import Input, Static

from kschedctl.cli.options import Scope, Source
from kschedctl.cli.source import load_cluster
from kschedctl.cluster import Cluster
from kschedctl.commands.browse.app import Browser
from kschedctl.commands.browse.background import LiveSessions
from kschedctl.commands.browse.lines import LineList
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.demo import DEMO_TIME

CHECKOUT = "shop/checkout-7d9f6c5b8-x2x4q"
SMALL, LARGE = (80, 24), (160, 50)
PATIENCE_SECONDS = 120.0
CELL_WIDTH = 12.2
"""The width of a character cell in Textual's SVG of a screen."""
Steps = Callable[[Browser, Pilot[Any]], Awaitable[None]]
EVERYWHERE = Scope(all_namespaces=True)


@cache
def start_demo_session() -> BrowseSession:
    source = Source(demo=True)
    return BrowseSession(load_cluster(source), source, EVERYWHERE, DEMO_TIME)


def start_session(*objects: dict[str, Any]) -> BrowseSession:
    return BrowseSession(Cluster.from_objects(objects), Source(filename=["state.json"]), EVERYWHERE)


def drive(
    session: BrowseSession, steps: Steps, size: tuple[int, int] = SMALL, live: LiveSessions | None = None
) -> Browser:
    """Run the browser, take the steps once the list and the first answer are shown, and return the browser.

    Raises the exception with which the browser failed.
    """
    browser = Browser(session, live)

    async def run() -> None:
        async with browser.run_test(size=size) as pilot:
            await wait_until_settled(browser, pilot)
            await steps(browser, pilot)

    asyncio.run(run())
    if browser.failure is not None:
        raise browser.failure
    return browser


async def wait_until(pilot: Pilot[Any], holds: Callable[[], bool], what: str = "") -> None:
    """Wait until the condition holds. Fails after PATIENCE_SECONDS, or if the browser ends before."""
    end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not holds():
        assert pilot.app.is_running, f"the browser ended before: {what}"
        if asyncio.get_running_loop().time() > end:
            raise AssertionError(f"it did not come to hold: {what}\n" + "\n".join(read_screen(pilot.app)))
        await asyncio.sleep(0.01)


async def wait_until_settled(browser: Browser, pilot: Pilot[Any]) -> None:
    """Wait until nothing is being computed and the result is shown."""
    for _ in range(2):
        await pilot.pause()
        await wait_until(pilot, lambda: not browser.questions.is_busy)
        await pilot.pause()


async def press(browser: Browser, pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys)
    await wait_until_settled(browser, pilot)


async def write(browser: Browser, pilot: Pilot[Any], key: str, text: str) -> None:
    """Open a line by its key, and say something there."""
    await pilot.press(key)
    browser.ask_line.query_one(Input).value = text
    await press(browser, pilot, "enter")


def get_text_above_tabs(browser: Browser) -> str:
    """Return the text above the tabs."""
    return str(browser.answer_pane.query_one("#verdict", Static).content)


def get_flat_text_above_tabs(browser: Browser) -> str:
    """Return the text above the tabs without line breaks."""
    return " ".join(get_text_above_tabs(browser).split())


def get_widget_text(browser: Browser, name: str) -> str:
    return str(browser.screen_stack[0].query_one(name, Static).content)


def list_lines(listed: LineList) -> list[str]:
    return [listed.lines[row].text.strip() for row in range(len(listed.lines))]


def list_overlay_lines(browser: Browser) -> list[str]:
    """Return the lines of the screen over the browser."""
    return list_lines(browser.screen.query_one("#lines", LineList))


def read_screen(browser: Any) -> list[str]:
    """Return the lines of text on the screen, read from the SVG that Textual exports."""
    found: dict[float, dict[int, str]] = {}
    for element in ElementTree.fromstring(browser.export_screenshot()).iter("{http://www.w3.org/2000/svg}text"):
        if element.get("x") is None or "line" not in str(element.get("clip-path")):
            continue
        cells = found.setdefault(float(element.get("y", 0)), {})
        start = round(float(element.get("x", 0)) / CELL_WIDTH)
        cells.update({start + i: character for i, character in enumerate(element.text or "")})
    rows = ["".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)) for _, cells in sorted(found.items())]
    return [row.replace("\xa0", " ").rstrip() for row in rows]
