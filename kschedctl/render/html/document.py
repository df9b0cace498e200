"""A document as a self-contained HTML file.

The file may run the one script and use the one style that are in it, by their hashes, and load nothing (CSP level 3).
Every string is escaped by Jinja, those for the script as JSON without ``<``, ``>`` and ``&``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import takewhile

import jinja2
from markupsafe import Markup

from kschedctl.api.copying import replace
from kschedctl.render.fixes import TITLE, TITLE_OF_INCOMPLETE, TITLE_WITH_RIVALS
from kschedctl.render.html.sections import HtmlSection, Words, cut, sections
from kschedctl.render.page import Page, Style
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.printable import printable

WIDTH = 200
"""Columns for which the page is made: no column of a table is left out, and none is put beneath another."""
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


def show(
    document: Document, page: Page, widgets: Sequence[HtmlSection] = (), about: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the document as HTML.

    ``page`` was made in the style of ``style_of``. ``widgets`` are sections that other formats do not have. ``about``
    has the names and values for the header, such as the cluster and the command.
    """
    style, script = _asset("report.css"), _asset("report.js")
    return _template().render(
        title=cut(printable(_title(document))),
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        about=[(name, cut(printable(value))) for name, value in about],
        sections=_arranged(document, sections(page), widgets),
    )


def style_of(document: Document, style: Style) -> Style:
    """Return the style with all rows, which the script lays out on demand.

    A report whose HTML form has a matrix of all nodes keeps its short tables.
    """
    wide = kind_of(document) not in ("Explanation", "Explanations")
    return replace(style, width=WIDTH, color=False, wide=wide, fixes=True, patches=True, answer_first=True)


def kind_of(document: Document) -> str:
    """Return the kind that the document declares, or an empty string."""
    return str(getattr(document, "kind", ""))


def _title(document: Document) -> str:
    """What the document is, and of what."""
    first, *others = humps(kind_of(document))
    kind = " ".join((first, *map(str.lower, others)))
    pod = getattr(document, "pod", "")
    if kind_of(document) == "AuditSection":
        return f"Audit: {getattr(document, 'title', '')}"
    return f"{kind} of {pod}" if pod else kind


def humps(name: str) -> list[str]:
    """The words of a name.

    >>> humps("ImageLocality")
    ['Image', 'Locality']
    """
    return _HUMP.split(name)


SAID = "kube-scheduler:"


def _arranged(document: Document, parts: list[HtmlSection], widgets: Sequence[HtmlSection]) -> list[HtmlSection]:
    """The answer, what to do, the map of the nodes of one pod, the evidence; the sections of an audit are folded.

    What there is for each of many pods comes last.
    """
    if answers := document.answers_of_sections() if isinstance(document, Report) else {}:
        answers = {title: cut(printable(answer)) for title, answer in answers.items()}
        parts[1:] = [replace(section, folded=True, answer=answers.get(section.title, "")) for section in parts[1:]]
    if parts and not parts[0].title:
        words = list(takewhile(lambda block: block[0] in IN_WORDS, parts[0].blocks))
        answer = HtmlSection("", [_folded_words(*block) for block in words], tone=_tone(words))
        rest = HtmlSection("", parts[0].blocks[len(words) :])
        parts[:1] = [section for section in (answer, rest) if section.blocks]
    fixes = [section for section in parts[1:] if section.title in (TITLE, TITLE_WITH_RIVALS, TITLE_OF_INCOMPLETE)]
    evidence = [section for section in parts[1:] if section not in fixes]
    behind = [*widgets, *evidence] if kind_of(document) == "Explanation" else [*evidence, *widgets]
    return [*parts[:1], *fixes, *behind]


IN_WORDS = ("paragraph", "bullets")


def _tone(answer: Sequence[tuple[str, object]]) -> str:
    """The tone of the first words of the answer that judge."""
    contents = (content for _, content in answer if isinstance(content, tuple))
    words = (content_words for content in contents for content_words in content if isinstance(content_words, Words))
    return next((word.tone for word in words if word.tone in ("good", "bad", "warning")), "")


def _folded_words(kind: str, content: object) -> tuple[str, object]:
    """kube-scheduler's own message is there for who looks for it."""
    if kind == "paragraph" and isinstance(content, tuple) and content[0].text == SAID and len(content) == 2:
        return "said", (Words("kube-scheduler's own message", "faint"), content[1])
    return kind, content


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8"))
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(humps=humps, cut=cut)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.get_template("report.html.j2")


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
