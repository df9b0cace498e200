"""Compare the browser's screens with stored ones. UPDATE_SCREENS=1 renews them for review."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from driven_browser import LARGE, SMALL, drive, press, read_screen, start_demo_session, write
from textual.pilot import Pilot

from kschedctl.commands.browse.answers import TABS
from kschedctl.commands.browse.app import Browser

SCREENS = Path(__file__).parent / "screens"
UPDATE = "UPDATE_SCREENS"
KEYS = {
    "why": ("1",), "nodes": ("2",), "scores": ("3",), "remedies": ("4",), "node": ("2", "enter"),
    "as-if": ("a", *"cpu=500m", "enter", "1"), "supposing": ("a",), "bad-as-if": ("a", *"cpi=1", "enter"),
    "remedy": ("4", "enter"), "copied": ("c",), "help": ("question_mark",),
}  # fmt: skip
"""The keys for each screen of one pod, which was found by a search."""
TINY = (40, 10)


async def leave_answer(browser: Browser, pilot: Pilot[Any]) -> None:
    """Back to the list with what was searched for, and to the first tab."""
    while (
        len(browser.screen_stack) > 1
        or browser.ask_line.purpose
        or browser.assumptions
        or not browser.pod_list.has_focus
    ):
        await press(browser, pilot, "escape")
    if browser.answer_pane.current_tab != TABS[0]:
        await press(browser, pilot, "1", "escape")


def draw_screens(size: tuple[int, int]) -> dict[str, str]:
    """Return the screens of one session."""
    found = {}

    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        def look(name: str) -> None:
            found[name] = "\n".join(read_screen(browser)) + "\n"

        look("open")
        await write(browser, pilot, "slash", "checkout")
        await press(browser, pilot, "slash")
        look("search")
        await press(browser, pilot, "enter")
        for name, keys in KEYS.items():
            await press(browser, pilot, *keys)
            look(name)
            await leave_answer(browser, pilot)
        await write(browser, pilot, "slash", "shop/cart")
        await press(browser, pilot, "w")
        look("workload")

    drive(start_demo_session(), steps, size)
    return found


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x50"])
def test_screens_are_unchanged(size: tuple[int, int]) -> None:
    found = draw_screens(size)
    files = {name: SCREENS / f"{name}-{size[0]}x{size[1]}.txt" for name in found}
    if os.environ.get(UPDATE):
        for name, file in files.items():
            file.write_text(found[name])
    for name, file in files.items():
        assert found[name] == file.read_text(), name


def test_sides_are_stacked_on_a_narrow_screen() -> None:
    async def steps(browser: Browser, pilot: Pilot[Any]) -> None:
        before = read_screen(browser)
        await pilot.resize_terminal(*TINY)
        await press(browser, pilot)
        tiny = read_screen(browser)
        assert len(tiny) == TINY[1]
        assert max(map(len, tiny)) <= TINY[0]
        assert any("platform/ingress-nginx" in line for line in tiny[1:4])
        assert any("1 Why" in line for line in tiny)
        await press(browser, pilot, "2", "down", "enter", "escape", "escape", "a", *"cpu=1", "enter", "escape", "1")
        await press(browser, pilot, "escape")
        await pilot.resize_terminal(*SMALL)
        await press(browser, pilot)
        assert read_screen(browser) == before

    drive(start_demo_session(), steps)


def test_help_shows_one_of_the_screens() -> None:
    lines = (SCREENS / "as-if-80x24.txt").read_text().splitlines()
    topic = Path(__file__).parents[3] / "kschedctl/cli/topics/output.md"
    assert "".join(f"{line.rstrip()}\n" for line in lines) in topic.read_text()
