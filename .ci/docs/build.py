"""Build the documentation site: `.ci/site FOLDER`.

Read in this order: build.py collects the pages and runs zensical; site_pages.py has the pages, their links and the
navigation; command_pages.py, example_page.py, reference_pages.py and library_page.py generate pages from the code, and
terminal_picture.py draws what commands print. The folder pages/ has the pages that exist for the site alone. All others
are README.md, CONTRIBUTING.md, CHANGELOG.md, the help topics and RULES.md. Generated pages are not committed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from command_pages import COLOUR, build_command_index, build_command_page, build_terminal_pictures
from example_page import EXAMPLES, build_example_page
from library_page import build_library_page
from reference_pages import build_options_page, build_rule_pages, build_schema_pages, link_rules
from site_pages import Nav, Site

from kschedctl.cli.main import COMMANDS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from documents import TOPICS, refresh_examples  # noqa: E402 - the module that runs the examples of the documents

HOW_TOPICS = ("fidelity", "versions", "comparison", "speed", "stability")
REFERENCE_TOPICS = ("exit-codes", "rights", "sources", "output", "plugins", "library")
INSERTION = re.compile(r"^\{README(?:: (?P<heading>.+))?\}$", re.MULTILINE)
"""A line of a page that stands for a section of README.md, or for its first paragraph."""
NOT_SEARCHED = re.compile(r"changelog\.html|reference/json/(?!index\.html)")
TITLE_BEFORE_COLON = re.compile(r"^# ([^:\n]+)")


def build(folder: Path) -> None:
    """Build the site into the folder, which is replaced."""
    with tempfile.TemporaryDirectory() as working_folder:
        site = Site(Path(working_folder), ROOT)
        nav = collect_pages(site)
        site.pictures = build_terminal_pictures()
        site.write_sources(nav, assets=(HERE / "style.css", HERE / "iframe-worker.js"))
        zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
        result = subprocess.run(zensical, cwd=working_folder, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit("zensical failed:\n" + COLOUR.sub("", result.stdout + result.stderr))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(working_folder) / "site", folder)
    shorten_search_index(folder)


def shorten_search_index(folder: Path) -> None:
    """Remove the changelog and the JSON documents from the search index: they would hide the pages that explain."""
    index = json.loads((folder / "search.json").read_text())
    index["items"] = [item for item in index["items"] if not NOT_SEARCHED.match(item["location"])]
    text = json.dumps(index, separators=(",", ":"))
    (folder / "search.json").write_text(text)
    (folder / "search.js").write_text(f"var __index = {text};")  # for a site that is opened from files


def collect_pages(site: Site) -> Nav:
    """Add all pages to the site and return its navigation."""
    readme = (ROOT / "README.md").read_text()
    for page in sorted((HERE / "pages").rglob("*.md")):
        text = INSERTION.sub(lambda match: extract_readme(readme, match["heading"]), page.read_text())
        name = str(page.relative_to(HERE / "pages"))
        site.add(name, refresh_examples(text), source=".ci/docs/pages/" + name)
    for topic, path in TOPICS.items():
        site.add(name_topic_page(topic), path.read_text(), source=f"kschedctl/cli/topics/{topic}.md")
    site.add("contributing.md", (ROOT / "CONTRIBUTING.md").read_text(), source="CONTRIBUTING.md")
    site.add("changelog.md", (ROOT / "CHANGELOG.md").read_text(), source="CHANGELOG.md")
    site.alias("README.md", "start/questions.md")

    site.add("guides/examples.md", build_example_page(ROOT / "tests" / "examples"))
    for name in EXAMPLES:
        site.alias(f"tests/examples/{name}", "guides/examples.md")

    site.add("questions/index.md", build_command_index())
    for name in COMMANDS:
        site.add(f"questions/{name}.md", build_command_page(name, TOPICS))
    site.add("reference/options.md", build_options_page())
    site.add("reference/library-functions.md", build_library_page())
    for name, text in {**build_schema_pages(), **build_rule_pages()}.items():
        site.add(name, text)
    rules = (ROOT / "kschedctl" / "lint" / "RULES.md").read_text()
    site.add("reference/lint/index.md", link_rules(rules), source="kschedctl/lint/RULES.md")
    return build_nav(site)


def name_topic_page(topic: str) -> str:
    """Return the path of a help topic on the site."""
    if topic in HOW_TOPICS:
        return f"how/{topic}.md"
    return f"reference/{topic}.md" if topic in REFERENCE_TOPICS else f"guides/{topic}.md"


def extract_readme(readme: str, heading: str | None) -> str:
    """Return the text of a section of the README, or its first paragraph without a heading."""
    if heading is None:
        return readme.split("\n\n")[1]
    sections = re.split(r"^## ", readme, flags=re.MULTILINE)
    bodies = [body.partition("\n")[2].strip() for body in sections if body.startswith(f"{heading}\n")]
    if not bodies:
        sys.exit(f"README.md has no section {heading!r}")
    return bodies[0]


def build_nav(site: Site) -> Nav:
    """Return the navigation: section -> pages, in the order in which a new reader needs them."""
    guides = [topic for topic in TOPICS if topic not in HOW_TOPICS and topic not in REFERENCE_TOPICS]
    commands: Nav = [("All questions", "questions/index.md")]
    for heading, entries in groupby(COMMANDS.values(), key=lambda entry: entry.heading):
        commands.append((heading, [(entry.name, f"questions/{entry.name}.md") for entry in entries]))
    return [
        (
            "Start",
            [
                ("Overview", "index.md"),
                ("Install", "start/install.md"),
                ("First answer: the demo", "start/demo.md"),
                ("First answer: your cluster", "start/cluster.md"),
                ("Questions and answers", "start/questions.md"),
            ],
        ),
        ("Questions", commands),
        ("Guides", [*(link_topic(site, topic) for topic in guides), ("Examples to copy", "guides/examples.md")]),
        (
            "How it works",
            [
                ("The replay", "how/replay.md"),
                ("Unknown and undecided", "how/unknown.md"),
                *(link_topic(site, topic) for topic in HOW_TOPICS if topic in TOPICS),
            ],
        ),
        (
            "Reference",
            [
                *(link_topic(site, topic) for topic in REFERENCE_TOPICS),
                ("Functions of the library", "reference/library-functions.md"),
                ("Options", "reference/options.md"),
                ("JSON documents", "reference/json/index.md"),
                ("Lint rules", "reference/lint/index.md"),
            ],
        ),
        ("Contributors", [("Contributing", "contributing.md"), ("Changelog", "changelog.md")]),
    ]


def link_topic(site: Site, topic: str) -> tuple[str, str]:
    """Return the entry of a help topic in the navigation: its title up to a colon, and its page."""
    page = name_topic_page(topic)
    title = TITLE_BEFORE_COLON.match(site.texts[page])
    return title[1] if title else topic, page


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
