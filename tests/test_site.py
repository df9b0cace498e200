"""Check that the documentation site can be built, that no link is broken, and that Chromium shows and searches it.

The site is built once, so the steps are one test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from opened_reports import WIDTHS, chromium  # noqa: F401 - a fixture

from kschedctl.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
IN_BROWSER = ("index.html", "questions/explain.html")


class References(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)


def find_broken_links(folder: Path) -> list[str]:
    """Return the links within the site that lead to no file or to no anchor."""
    pages = {path: References(path.read_text()) for path in folder.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, references in pages.items():
        for target in references.targets:
            if "://" in target or target.startswith(("data:", "mailto:")):
                continue
            name, _, anchor = unquote(target).partition("#")
            file = (path.parent / name.partition("?")[0]).resolve() if name else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].anchors):
                broken.append(f"{path.relative_to(folder)}: {target}")
    return broken


@pytest.mark.skipif(not (find_spec("zensical") and find_spec("griffe")), reason="pip install -e '.[docs]'")
def test_site(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHON": sys.executable}
    result = subprocess.run([ROOT / ".ci" / "site", site], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [name for name in COMMANDS if not (site / "questions" / f"{name}.html").exists()] == []
    assert find_broken_links(site) == []

    browser = request.getfixturevalue("chromium")
    for width in WIDTHS:
        check_in_browser(browser, site, width)


def check_in_browser(browser: Any, site: Path, width: int) -> None:
    """Open pages from files and search them. The browser must not report errors or load anything from elsewhere."""
    page = browser.new_page(viewport={"width": width, "height": 850})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith("file:") or complaints.append(asked.url))
    for name in IN_BROWSER:
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.keyboard.press("/")
    page.keyboard.type("preemption", delay=20)
    assert page.get_by_role("combobox", name="Search").input_value() == "preemption"
    page.get_by_role("option").filter(has_text="preemption").first.wait_for()
    page.close()
    assert complaints == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#no">B</a><a href="c.html">C</a><a href="#top">A</a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#top">A</a><img src="no.png">')
    assert sorted(find_broken_links(tmp_path)) == ["a.html: b.html#no", "a.html: c.html", "b.html: no.png"]
