"""A document as a self-contained HTML file.

The file may run the one script and use the one style that are in it, by their hashes, and load nothing (CSP level 3).
Every string is escaped by Jinja, those for the script as JSON without ``<``, ``>`` and ``&``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files

import jinja2
from markupsafe import Markup

from kschedctl.render.html.sections import HtmlSection, cut, sections
from kschedctl.render.html.widgets import widgets_of
from kschedctl.render.page import Page, Style
from kschedctl.render.printable import printable
from kschedctl.reports.audit.section import Section
from kschedctl.reports.document import Document
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations

WIDTH = 200
"""Columns for which the page is made: no column of a table is left out, and none is put beneath another."""
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


def show(document: Document, page: Page) -> str:
    """The document as HTML. ``page``: what it says, made in the style of it; widgets are added here."""
    style, script = _asset("report.css"), _asset("report.js")
    return _template().render(
        title=cut(printable(_title(document))),
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        sections=_with_widgets(sections(page), widgets_of(document)),
    )


def style_of(document: Document, style: Style) -> Style:
    """With all rows, which are not laid out before they are looked at; all nodes are in the matrix of a pod."""
    wide = not isinstance(document, Explanation | Explanations)
    return replace(style, width=WIDTH, color=False, wide=wide, fixes=True, patches=True, answer_first=True)


def _title(document: Document) -> str:
    """What the document is, and of what."""
    first, *others = humps(str(getattr(document, "kind", "")))
    kind = " ".join((first, *map(str.lower, others)))
    pod = getattr(document, "pod", "")
    if isinstance(document, Section):
        return f"Audit: {document.title}"
    return f"{kind} of {pod}" if pod else kind


def humps(name: str) -> list[str]:
    """The words of a name.

    >>> humps("ImageLocality")
    ['Node', 'Resources', 'Fit']
    """
    return _HUMP.split(name)


def _with_widgets(found: list[HtmlSection], widgets: list[HtmlSection]) -> list[HtmlSection]:
    """Widgets stand behind the answer."""
    return [*found[:1], *widgets, *found[1:]]


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
