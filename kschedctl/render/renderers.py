"""The ways to show a document, and the page of each kind of document."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kschedctl.api.copying import replace
from kschedctl.api.json_values import Json
from kschedctl.errors import UsageError
from kschedctl.render.page import UNFOLDED, Page, Style, plots_of
from kschedctl.reports.command import all_commands
from kschedctl.reports.document import Document
from kschedctl.reports.findings import WithFindings
from kschedctl.reports.unknown import doubt

PAGES = {"Answers": "render.answers_page:answers_page"}
"""The kind of a document -> the module and function that make its page. Commands declare theirs in their table."""
HTML_WIDGETS: dict[str, str] = {}
"""The kind of a document -> the function that returns the sections that only its HTML form has."""
for _command in all_commands():
    PAGES.update(_command.pages)
    HTML_WIDGETS.update(_command.html_widgets)
COMPACT = "commands.explain.compact:compact"
"""The function that folds nodes with the same answer together."""
SUMMARY = "render.summary_page:summary_page"
"""Pages of documents that the library alone gives."""


def kind_of(document: Document) -> str:
    return str(getattr(document, "kind", ""))


def page_of(document: Document, style: Style) -> Page:
    page: Page = _load(PAGES.get(kind_of(document), SUMMARY))(document, style)
    return page


def to_compact(document: Document) -> Document:
    """Return the document with nodes that share an answer folded together. Raises UsageError for other kinds."""
    compact: Document = _load(COMPACT)(document)
    return compact


def _paged(show: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(show)(page_of(document, style), style)


def _data(write: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(write)(_headed(document.to_dict()))


def _template(fill: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(fill)(_headed(document.to_dict()), style.template)


def _html(document: Document, style: Style) -> str:
    html = import_module("kschedctl.render.html.document")  # Jinja
    own = replace(html.style_of(document, style), commands=style.commands)
    reference = HTML_WIDGETS.get(kind_of(document))
    widgets = _load(reference)(document) if reference else []
    text: str = html.show(document, page_of(document, own), widgets, style.about)
    return text


def _picture(form: str) -> Callable[[Document, Style], str | bytes]:
    def show(document: Document, style: Style) -> str | bytes:
        plots = plots_of(page_of(document, replace(style, width=UNFOLDED, wide=True, plots=True)))
        if not plots:
            raise UsageError(f"-o {form} draws plots, and this answer has none", hint="-o html has everything")
        picture: str | bytes = _load(f"render.plots.pictures:{form}")(plots, _doubt(document))
        return picture

    return show


def _doubt(document: Document) -> str:
    """A picture stands without the words around it: an answer that could be another says so in it."""
    if not getattr(document, "undecided", False):
        return ""
    leaning = doubt(getattr(document, "unknown", ()))
    return f"This holds{leaning}" if leaning else "Undecided: not everything it depends on was read or asked"


def _brief(document: Document, style: Style) -> str:
    return str(_load("render.brief:to_brief")(document, style))


def _of_findings(write: str) -> Callable[[Document, Style], str]:
    def show(document: Document, style: Style) -> str:
        if not isinstance(document, WithFindings):
            form = write.partition(":")[0].rpartition(".")[2]
            raise UsageError(
                f"-o {form} shows findings, and these are {kind_of(document)}", hint="-o json has everything"
            )
        return str(_load(write)(document.as_findings()))

    return show


def _headed(document: dict[str, Json]) -> dict[str, Json]:
    """With apiVersion and kind in front, where readers of Kubernetes documents look for them."""
    return {key: document[key] for key in ("apiVersion", "kind")} | document


def _load(reference: str) -> Callable[..., Any]:
    """``module:function`` of this package: a page, or a format's libraries, are imported when they are asked for."""
    module, _, function = reference.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"kschedctl.{module}"), function)
    return loaded


RENDERERS: dict[str, Callable[[Document, Style], str | bytes]] = {
    "table": _paged("render.terminal:show"),
    "brief": _brief,
    "wide": _paged("render.terminal:show"),
    "json": _data("render.data:to_json"),
    "yaml": _data("render.data:to_yaml"),
    "markdown": lambda document, style: _paged("render.markdown:show")(document, replace(style, width=UNFOLDED)),
    "html": _html,
    "svg": _picture("svg"),
    "png": _picture("png"),
    "csv": lambda document, style: _load("render.csv_table:to_csv")(document),
    "name": lambda document, style: _load("render.names:pod_names")(document),
    "jsonpath": _template("render.templates:jsonpath"),
    "custom-columns": _template("render.templates:custom_columns"),
    "patch": lambda document, style: _load("commands.remedies.patch:to_patch")(document),
    "diff": lambda document, style: _load("commands.lint.diff:to_diff")(document),
    "sarif": _of_findings("render.sarif:to_sarif"),
    "junit": _of_findings("render.junit:to_junit"),
    "github": _of_findings("render.github:to_github"),
    "openmetrics": lambda document, style: _load("commands.watch.openmetrics:to_openmetrics")(document),
}
"""``-o`` -> what gives the text, or of a picture that is none the bytes."""
