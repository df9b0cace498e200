"""Fixtures that open reports in Chromium; tests are skipped without one."""

from __future__ import annotations

import shutil
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


def obstacles(page: Any) -> list[tuple[str, str, str]]:
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


@pytest.fixture
def opened_file(chromium: Any, tmp_path: Path, complaints: list[str]) -> Iterator[Opens]:
    """Return a function that opens the text of a report. At the end, check that the browser had no errors."""
    contexts = []

    def opens(text: str, **settings: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(text, "utf-8")
        contexts.append(chromium.new_context(**settings))
        page = contexts[-1].new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: asked.url == file.as_uri() or complaints.append(asked.url[:100]))
        page.goto(file.as_uri())
        return page

    yield opens
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def opened(opened_file: Opens) -> Opens:
    """Return a function that opens a document as HTML."""

    def opens(document: Document, **settings: Any) -> Any:
        return opened_file(RENDERERS["html"](document, Style()), **settings)

    return opens
