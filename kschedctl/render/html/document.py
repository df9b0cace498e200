"""A report as a self-contained HTML file.

The file allows only its own script and style, by their hashes, and loads nothing (CSP level 3). Jinja escapes all
strings; the script's data is JSON without `<`, `>` and `&`. A row of tiles at the top shows the main figures, the best
fix and the certainty of the answer.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from kschedctl.api.copying import replace
from kschedctl.render.fixes import TITLES
from kschedctl.render.html.sections import HtmlSection, Words, split_camel_case, split_into_sections, truncate
from kschedctl.render.page import Page, Style
from kschedctl.render.renderers import get_document_kind
from kschedctl.reports.document import Document
from kschedctl.reports.report import PlainReport
from kschedctl.reports.section import PENDING_PODS
from kschedctl.reports.summary import ShortFix, Summary
from kschedctl.text.printable import printable

WIDTH = 200
"""Columns for which the page is made: no column of a table is left out, and none is put beneath another."""

_MAX_FIGURES = 4
LABELS = {
    "tried": "nodes tried",
    "withConsequences": "disruptive failures",
    "placed": "pods that get a node",
    "unplaced": "pods without a node",
    "evicted": "pods evicted",
    "displaced": "pods displaced",
    "moved": "pods that move",
    "lost": "pods lost",
    "moves": "pods to move",
    "missing": "pods without room",
    "again": "pods evicted again",
    "unsafe": "harmful evictions left out",
    "waiting": "waiting",
    "cleared": "pods that get a node",
    "elsewhere": "pods of other schedulers",
    "wouldGetQuota": "would get quota now",
    "inactiveQueues": "inactive queues",
    "pending": "pending pods",
    "waitingElsewhere": "objects that wait elsewhere",
    "neverScheduled": "pods that no new node would help",
    "pendingBefore": "pending before",
    "pendingAfter": "pending after",
    "changes": "pods affected",
    "removable": "nodes that could be removed",
    "staying": "nodes that must stay",
}
"""Name of a figure -> its label, if that is not the name itself."""


def render_html(
    document: Document, page: Page, widgets: Sequence[HtmlSection] = (), about: Sequence[tuple[str, str]] = ()
) -> str:
    """Render the document as a self-contained HTML file, with its style and its script.

    `page` must be built with the style from `choose_style`. `widgets` are additional sections that only HTML has.
    `about` contains names and values for the header, such as the cluster and the command.
    """
    style, script = _read_asset("report.css"), _read_asset("report.js")
    return _load_template().render(
        title=truncate(printable(_build_title(document))),
        heading=truncate(printable(_format_report_kind(document))),
        policy=f"default-src 'none'; style-src '{_hash_for_csp(style)}'; script-src '{_hash_for_csp(script)}'; "
        "img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        tiles=build_tiles(document) if isinstance(document, PlainReport) else [],
        about=[(name, truncate(printable(value))) for name, value in about],
        sections=_arrange_sections(document, split_into_sections(page), widgets),
    )


def choose_style(document: Document, style: Style) -> Style:
    """Return the style for an HTML page. It has all rows, which the script lays out on demand.

    A report whose HTML form has a matrix of all nodes keeps its short tables.
    """
    wide = get_document_kind(document) not in ("Explanation", "Explanations")
    return replace(style, width=WIDTH, color=False, wide=wide, fixes=True, patches=True, answer_first=True)


def _build_title(document: Document) -> str:
    """Build the title of the browser's tab: the heading, and the pod that the report is about."""
    pod = getattr(document, "pod", "")
    heading = _format_report_kind(document)
    return f"{heading} of {pod}" if pod else heading


def _format_report_kind(document: Document) -> str:
    """Return the kind of report in words, as the page's heading. The heading of an audit section names the section."""
    kind = get_document_kind(document)
    if kind == "AuditSection":
        return f"Audit: {getattr(document, 'title', '')}"
    if kind in HEADINGS:
        return HEADINGS[kind]
    first, *other_words = split_camel_case(kind)
    return " ".join((first, *map(str.lower, other_words)))


HEADINGS = {
    "RemediesOfMany": "Fixes for pending pods",
    "WakeUpsOfMany": "What wakes pending pods",
    "WakesOfMany": "Pods that the events wake",
    "FollowedRollout": "Rollout compared with the replay",
}


"""Kind of a document -> its heading, if that is not the kind in words."""


SCHEDULER_PREFIX = "kube-scheduler:"


def _arrange_sections(
    document: Document, parts: list[HtmlSection], widgets: Sequence[HtmlSection]
) -> list[HtmlSection]:
    """Return the sections in order: the answer, the fixes, for one pod the widgets, then the evidence.

    In reports about many pods, the widgets come last. Sections of an audit can be folded, and those without errors and
    warnings are folded at first. `parts` are the sections of the page.
    """
    first_parts = parts[:1]
    if first_parts and not first_parts[0].title:
        first_parts = _split_off_answer(first_parts[0])
    other_parts = parts[1:]
    if isinstance(document, PlainReport) and (states := document.describe_sections()):
        opened = document.list_open_sections()
        other_parts = [
            replace(section, folded=True, opened=section.title in opened, state=states.get(section.title, ""))
            for section in other_parts
        ]

    sections = [*first_parts, *other_parts]
    fixes = [section for section in sections[1:] if section.title in TITLES]
    evidence = [section for section in sections[1:] if section not in fixes]
    if get_document_kind(document) == "Explanation":
        return [*sections[:1], *fixes, *widgets, *evidence]
    return [*sections[:1], *fixes, *evidence, *widgets]


def _split_off_answer(first: HtmlSection) -> list[HtmlSection]:
    """Split the first section into the answer, which is the texts before the first table, and the remaining blocks.

    If one of the two parts is empty, it is left out.
    """
    texts = list(takewhile(lambda block: block[0] in TEXT_BLOCKS, first.blocks))
    answer = HtmlSection("", [_fold_scheduler_message(*block) for block in texts], tone=_find_answer_tone(texts))
    remainder = HtmlSection("", first.blocks[len(texts) :])
    return [section for section in (answer, remainder) if section.blocks]


TEXT_BLOCKS = ("paragraph", "bullets")


def _find_answer_tone(answer: Sequence[tuple[str, object]]) -> str:
    """Return the tone of the first words in the answer that are good, bad or a warning, or "" if there are none."""
    for _, content in answer:
        if not isinstance(content, tuple):
            continue
        for words in content:
            if isinstance(words, Words) and words.tone in ("good", "bad", "warning"):
                return words.tone
    return ""


def _fold_scheduler_message(kind: str, content: object) -> tuple[str, object]:
    """Turn kube-scheduler's message into a block that is folded at first."""
    if kind == "paragraph" and isinstance(content, tuple) and content[0].text == SCHEDULER_PREFIX and len(content) == 2:
        return "said", (Words("kube-scheduler's own message", "faint"), content[1])
    return kind, content


@cache
def _load_template() -> jinja2.Template:
    """Load the Jinja template of the report, with the filters that it uses. The result is cached."""
    loader = jinja2.FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8"))
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(humps=split_camel_case, cut=truncate)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.get_template("report.html.j2")


@cache
def _read_asset(name: str) -> str:
    """Read a file of this package."""
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash_for_csp(text: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


class Tile(NamedTuple):
    """A figure or a short text with its label."""

    label: str
    text: str
    tone: str = "plain"
    detail: str = ""
    """A second line, such as the cost of a fix."""


def build_tiles(report: PlainReport) -> list[Tile]:
    """Build the tiles of a report from its summary. Reports without figures have none."""
    summary = report.summary()
    tiles = _build_figure_tiles(summary)
    if not tiles:
        return []
    if summary.fixes:
        tiles.append(_build_fix_tile(summary.fixes[0]))
    tiles.append(_build_certainty_tile(summary, report.describe_gaps()))
    return tiles


def _build_figure_tiles(summary: Summary) -> list[Tile]:
    """Build a tile for each of the first figures. Figures of zero are left out if there are too many.

    An Audit's tiles sum up its figures, and an Explanation's tiles are about nodes.
    """
    figures = summary.figures
    if summary.summarizes == "Audit":
        findings = [number for name, number in figures.items() if name != PENDING_PODS]
        with_findings = sum(number > 0 for number in findings)
        return [
            Tile("findings, with notes", f"{sum(findings):,}"),
            Tile("sections with findings", f"{with_findings} of {len(findings)}"),
        ]
    if summary.summarizes == "Explanation":
        return _build_node_tiles(summary)
    if len(figures) > _MAX_FIGURES:
        figures = {name: number for name, number in figures.items() if number}
    shown = list(figures.items())[:_MAX_FIGURES]
    if summary.summarizes == "Capacity":
        return [Tile(f"more of {shape} fit", f"{number:,}") for shape, number in shown]
    return [Tile(_get_label(summary, name), f"{number:,}") for name, number in shown]


def _get_label(summary: Summary, figure: str) -> str:
    """Return the label of a figure, which for an unknown figure are the words of its name."""
    if (summary.summarizes, figure) == ("Failures", "tried"):
        return "failures simulated"
    return LABELS.get(figure) or " ".join(split_camel_case(figure)).lower()


def _build_node_tiles(summary: Summary) -> list[Tile]:
    """Build tiles with the numbers of eligible and feasible nodes, or return [] if the report has no nodes.

    The eligible nodes, which users know as candidate nodes, have a tile only if not all nodes are eligible.
    """
    nodes = summary.figures["nodes"]
    if not nodes:
        return []
    tiles = [Tile("feasible nodes", f"{summary.figures['feasibleNodes']:,} of {nodes:,}")]
    # Each cause found by filtering nodes counts all eligible nodes. A cause found before, in PreFilter, counts none.
    eligible = max((cause.of_nodes for cause in summary.causes), default=0)
    if 0 < eligible < nodes:
        tiles.insert(0, Tile("candidate nodes", f"{eligible:,} of {nodes:,}"))
    return tiles


def _build_fix_tile(fix: ShortFix) -> Tile:
    """Build the tile of the best fix, with its drawbacks below it, such as other pods that take the room first.

    The label says if the fix is not enough or not worth it.
    """
    drawback = f"but {fix.but}" if fix.but else ""
    label = "not enough" if fix.rival_count else "not worth it" if fix.costs_more_pods else "best fix"
    return Tile(label, printable(fix.summary), detail=printable(drawback))


def _build_certainty_tile(summary: Summary, gaps: str) -> Tile:
    """Build the tile that says whether the answer could change because of something not read or not replayed.

    `gaps` describes parts of the question that the report leaves open, if there are any.
    """
    doubts = printable("; ".join(summary.doubts))
    if summary.undecided:
        return Tile("certainty", "undecided", "warning", doubts)
    if doubts:
        return Tile("certainty", "with caveats", "warning", doubts)
    if gaps:
        return Tile("certainty", "with gaps", "plain", printable(gaps))
    return Tile("certainty", "no known caveats", "good")
