"""Fixtures that open reports in Chromium; tests are skipped without one."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.document import Document

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
Opens = Callable[..., Any]
WIDTHS = (1280, 390)
ABOUT_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe whose answers another colour scheme could change."""


def find_accessibility_problems(page: Any) -> list[tuple[str, str, str]]:
    """Return the accessibility problems of a page at several widths, light and dark.

    Each is a tuple of the width, the rule of axe, and an example.
    """
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - not without Chromium

    page.evaluate(Axe().axe_script)
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append((str(width), "the page is wider than the screen", ""))
        for scheme, only in (("light", {}), ("dark", {"runOnly": ABOUT_COLOURS})):
            page.emulate_media(color_scheme=scheme)
            told = page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **only})["violations"]
            found += [(f"{width} {scheme}", each["id"], each["nodes"][0]["html"][:200]) for each in told]
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Run Chromium for the tests of a module, or skip them if it is not installed."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine, so no report was opened: apt-get install chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not without Chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """Return the errors of the browser, and the URLs that it would have fetched."""
    return []


@pytest.fixture(scope="module")
def unused_pages(chromium: Any) -> dict[str, list[Any]]:
    """Return the blank pages of earlier tests by their settings, because each new page takes a new process."""
    return defaultdict(list)


@pytest.fixture
def opened_file(
    chromium: Any, unused_pages: dict[str, list[Any]], tmp_path: Path, complaints: list[str]
) -> Iterator[Opens]:
    """Return a function that opens the text of a report. At the end, check that the browser had no errors."""
    used = []

    def opens(text: str, **settings: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(text, "utf-8")
        unused = unused_pages[repr(settings)]
        page = unused.pop() if unused else chromium.new_context(**settings).new_page()
        listeners = {
            "console": lambda said: complaints.append(said.text),
            "pageerror": lambda error: complaints.append(str(error)),
            "request": lambda asked: asked.url == file.as_uri() or complaints.append(asked.url[:100]),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
        used.append((page, page.viewport_size, listeners, unused))
        page.goto(file.as_uri())
        return page

    yield opens
    for page, viewport, listeners, unused in used:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.goto("about:blank")
        page.set_viewport_size(viewport)
        page.emulate_media(media="null", color_scheme="null")
        unused.append(page)
    assert complaints == []


@pytest.fixture
def opened(opened_file: Opens) -> Opens:
    """Return a function that opens a document as HTML."""

    def opens(document: Document, **settings: Any) -> Any:
        return opened_file(RENDERERS["html"](document, Style()), **settings)

    return opens
