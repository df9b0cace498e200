"""The pages of the site: their text, the links between them, and the configuration of zensical."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kschedctl.cli.main import COMMANDS

Nav = list[tuple[str, "str | Nav"]]
"""Titles with the page or the subsection that they stand for."""

FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<label>[^\]]+)\]\((?P<target>[^)\s]+)\)")
HELP_COMMAND = re.compile(r"(?<!\[)`kschedctl (?:help (?P<topic>[\w-]+)|(?P<command>[\w-]+) --help)`")
LIST_ITEM = re.compile(r"^ {2,3}(?=[-*] |\d+\. )", re.MULTILINE)
PICTURES = "kschedctl/cli/topics/pictures"

CONFIGURATION = """\
[project]
site_name = "kschedctl"
site_description = "Why is this pod Pending, where would it go, and what if?"
docs_dir = "docs"
extra_css = ["style.css"]
nav = {nav}

[project.theme]
language = "en"
font = false
features = ["navigation.tabs", "navigation.top", "navigation.path", "navigation.sections", "navigation.footer",
  "content.code.copy", "search.highlight", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.extra]
generator = false
polyfills = ["iframe-worker.js"]

[project.plugins.search]

[project.plugins.offline]
enabled = true

[project.markdown_extensions]
tables = {{}}
admonition = {{}}
attr_list = {{}}
md_in_html = {{}}
toc.permalink = true
pymdownx.details = {{}}
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""


class Site:
    """The pages of the site by path, and the files of the repository that they come from."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.texts: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        """Path of a page -> path of its file in the repository."""
        self.pages: dict[str, str] = {}
        """Path of a file in the repository -> path of its page."""
        self.pictures: Mapping[str, str] = {}
        """File name of a generated picture -> its SVG."""

    def add(self, page: str, text: str, source: str = "") -> None:
        """Add a page, whose links are relative to its file in the repository if it has one."""
        self.texts[page] = text
        if source:
            self.sources[page] = source
            self.pages[source] = page

    def alias(self, source: str, page: str) -> None:
        """Make links to a file of the repository lead to a page."""
        self.pages[source] = page

    def write_sources(self, nav: Nav, assets: Iterable[Path]) -> None:
        """Write the Markdown, the pictures and the configuration from which zensical builds the site."""
        docs = self.folder / "docs"
        for page, text in self.texts.items():
            path = docs / page
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._adapt(page, text) if page.endswith(".md") else text)
        shutil.copytree(self.root / PICTURES, docs / "pictures")
        for name, svg in self.pictures.items():
            (docs / "pictures" / name).write_text(svg)
        for asset in assets:
            shutil.copy(asset, docs)
        (self.folder / "zensical.toml").write_text(CONFIGURATION.format(nav=_format_nav(nav)))

    def _adapt(self, page: str, text: str) -> str:
        """Adapt Markdown of the repository to the site: links, and list items that Python-Markdown would not nest."""

        def adapt_prose(prose: str) -> str:
            prose = HELP_COMMAND.sub(lambda match: self._link_help(page, match), prose)
            prose = LINK.sub(lambda match: self._link(page, match), prose)
            return LIST_ITEM.sub("    ", prose)

        return _map_prose(text, adapt_prose)

    def _link_help(self, page: str, match: re.Match[str]) -> str:
        """Return a command such as `kschedctl help rights` as a link to what it prints, if the site has the page."""
        name = match["topic"] or match["command"]
        target = self.pages.get(f"kschedctl/cli/topics/{name}.md")
        if target is None and name in COMMANDS:
            target = f"questions/{name}.md"
        return f"[{match[0]}]({_make_relative(target, page)})" if target and target != page else match[0]

    def _link(self, page: str, match: re.Match[str]) -> str:
        """Return a link with its target on the site, or only its label if the site does not have the target."""
        target, hash_sign, anchor = match["target"].partition("#")
        if "://" in target or not target:
            return match[0]
        source_folder = posixpath.dirname(self.sources.get(page, ""))
        in_repository = posixpath.normpath(posixpath.join(source_folder, target))
        beside_page = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if beside_page in self.texts or beside_page.startswith("pictures/"):
            found = beside_page
        elif in_repository.startswith(PICTURES):
            found = in_repository.replace(PICTURES, "pictures")
        elif in_repository in self.pages:
            found = self.pages[in_repository]
        elif (self.root / in_repository).exists() or (self.root / target).exists():
            return match["label"]  # a file that stands in the repository alone
        else:
            raise SystemExit(f"{page}: no page and no file {target!r}")
        return f"{match['image']}[{match['label']}]({_make_relative(found, page)}{hash_sign}{anchor})"


def _map_prose(text: str, function: Callable[[str], str]) -> str:
    """Return Markdown with the function applied to everything outside of code blocks."""
    return "".join(part if part.startswith("```") else function(part) for part in FENCE.split(text))


def _make_relative(target: str, page: str) -> str:
    """Return the path of a file of the site relative to a page."""
    return posixpath.relpath(target, posixpath.dirname(page) or os.curdir)


def _format_nav(nav: Nav) -> str:
    """Format the navigation as a value of TOML."""
    entries = (
        f"{{{json.dumps(title)} = {json.dumps(value) if isinstance(value, str) else _format_nav(value)}}}"
        for title, value in nav
    )
    return f"[{', '.join(entries)}]"


def escape_cell(text: str) -> str:
    """Escape plain text for a cell of a Markdown table."""
    text = re.sub(r"([\\|*_\[\]`])", r"\\\1", " ".join(text.split()))
    return text.replace("<", "&lt;").replace(">", "&gt;")
