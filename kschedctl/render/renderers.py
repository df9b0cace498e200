"""The renderer of each `-o` format, and the page of each kind of document.

Commands declare the pages of their documents, and formats that only they have, in kschedctl/commands/table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kschedctl.api.copying import replace
from kschedctl.api.json_values import Json
from kschedctl.errors import UsageError
from kschedctl.render.page import UNFOLDED, Page, Style, find_plots
from kschedctl.reports.command import load_command_table
from kschedctl.reports.document import Document
from kschedctl.reports.unknown import describe_verdict_doubts

PAGES = {"Answers": "render.answers_page:build_answers_page"}
"""Kind of a document -> the function that builds the document's page."""
HTML_WIDGETS: dict[str, str] = {}
"""Kind of a document -> the function that returns the sections that only the HTML form has."""
COMPACT_FORMS: dict[str, str] = {}
"""Kind of a document -> the function that folds nodes with the same answer together."""
SUMMARY_PAGE = "render.answers_page:build_summary_page"
"""The page of documents without a page of their own: those that only the library returns."""

for _command in load_command_table():
    PAGES.update(_command.pages)
    HTML_WIDGETS.update(_command.html_widgets)
    COMPACT_FORMS.update(_command.compact_forms)


def get_document_kind(document: Document) -> str:
    """Return the kind of a document, or "" if it has none."""
    return str(getattr(document, "kind", ""))


def build_page(document: Document, style: Style) -> Page:
    """Build the page of a document, from which tables, Markdown and HTML are rendered."""
    page: Page = _import_function(PAGES.get(get_document_kind(document), SUMMARY_PAGE))(document, style)
    return page


def to_compact_form(document: Document) -> Document:
    """Return the document with nodes that have the same answer merged.

    Documents without answers per node are returned unchanged.
    """
    reference = COMPACT_FORMS.get(get_document_kind(document))
    if reference is None:
        return document
    compact: Document = _import_function(reference)(document)
    return compact


def _make_page_renderer(reference: str) -> Callable[[Document, Style], str]:
    """Return a renderer that builds the page of a document and passes it to a function."""
    return lambda document, style: _import_function(reference)(build_page(document, style), style)


def _make_data_renderer(reference: str) -> Callable[[Document, Style], str]:
    """Return a renderer that passes the document as plain data to a function."""
    return lambda document, style: _import_function(reference)(_put_kind_first(document.to_dict()))


def _make_template_renderer(reference: str) -> Callable[[Document, Style], str]:
    """Return a renderer that passes the document's data and the template to a function."""
    return lambda document, style: _import_function(reference)(_put_kind_first(document.to_dict()), style.template)


def _make_document_renderer(reference: str) -> Callable[[Document, Style], str]:
    """Return a renderer that passes the document itself to a function."""
    return lambda document, style: _import_function(reference)(document)


def _render_markdown(document: Document, style: Style) -> str:
    """Render the document as Markdown. Tables are not folded."""
    return _make_page_renderer("render.markdown:render_markdown")(document, replace(style, width=UNFOLDED))


def _render_html(document: Document, style: Style) -> str:
    """Render the document as an HTML page with the widgets of its kind."""
    html = import_module("kschedctl.render.html.document")  # Jinja
    html_style = replace(html.choose_style(document, style), commands=style.commands)
    reference = HTML_WIDGETS.get(get_document_kind(document))
    widgets = _import_function(reference)(document) if reference else []
    text: str = html.render_html(document, build_page(document, html_style), widgets, style.about)
    return text


def _make_picture_renderer(format: str) -> Callable[[Document, Style], str | bytes]:
    """Return a renderer that draws the plots of the document's page in a picture format."""

    def render(document: Document, style: Style) -> str | bytes:
        """Draw the plots of the document's page. Raises UsageError if the page has none."""
        plots = find_plots(build_page(document, replace(style, width=UNFOLDED, wide=True, plots=True)))
        if not plots:
            raise UsageError(f"-o {format} draws plots, and this answer has none", hint="-o html has everything")
        render_plots = _import_function(f"render.plots.pictures:render_{format}")
        picture: str | bytes = render_plots(plots, _describe_uncertainty(document))
        return picture

    return render


def _describe_uncertainty(document: Document) -> str:
    """Return a sentence on why the answer is undecided, or "" if it is decided.

    Pictures show the sentence, because they may be seen without the rest of the answer.
    """
    if not getattr(document, "undecided", False):
        return ""
    doubts = describe_verdict_doubts(getattr(document, "unknown", ()))
    return f"Not certain: {doubts}" if doubts else "Undecided: something that the answer depends on was not read"


def _render_brief(document: Document, style: Style) -> str:
    """Render the document in at most 12 lines."""
    return str(_import_function("render.brief:to_brief")(document, style))


def _render_markdown_brief(document: Document, style: Style) -> str:
    """Render as Markdown what the brief form has of the document."""
    return str(_import_function("render.brief:to_markdown_brief")(document, style))


def _make_findings_renderer(format: str) -> Callable[[Document, Style], str]:
    """Return a renderer that writes the document's findings in a format of CI systems."""

    def render(document: Document, style: Style) -> str:
        """Render the findings of the document. Raises UsageError for a document without findings."""
        from kschedctl.reports.findings import WithFindings  # noqa: PLC0415 - few formats need it

        if not isinstance(document, WithFindings):
            raise UsageError(
                f"-o {format} works only for findings, but this is {get_document_kind(document)}",
                hint="-o json has everything",
            )
        return str(_import_function(f"render.ci_formats:to_{format}")(document.as_findings()))

    return render


def _put_kind_first(document: dict[str, Json]) -> dict[str, Json]:
    """Return the document with apiVersion and kind first, as in all Kubernetes documents."""
    return {key: document[key] for key in ("apiVersion", "kind")} | document


def _import_function(reference: str) -> Callable[..., Any]:
    """Import `module:function` of this package when needed, because pages and formats import heavy libraries."""
    module, _, function = reference.partition(":")
    imported: Callable[..., Any] = getattr(import_module(f"kschedctl.{module}"), function)
    return imported


RENDERERS: dict[str, Callable[[Document, Style], str | bytes]] = {
    "table": _make_page_renderer("render.terminal:render_text"),
    "brief": _render_brief,
    "brief-markdown": _render_markdown_brief,
    "wide": _make_page_renderer("render.terminal:render_text"),
    "json": _make_data_renderer("render.data:to_json"),
    "yaml": _make_data_renderer("render.data:to_yaml"),
    "markdown": _render_markdown,
    "html": _render_html,
    "svg": _make_picture_renderer("svg"),
    "png": _make_picture_renderer("png"),
    "csv": _make_document_renderer("render.main_table:to_csv"),
    "name": _make_document_renderer("render.main_table:render_pod_names"),
    "jsonpath": _make_template_renderer("render.templates:render_jsonpath"),
    "custom-columns": _make_template_renderer("render.templates:render_custom_columns"),
    "sarif": _make_findings_renderer("sarif"),
    "junit": _make_findings_renderer("junit"),
    "github": _make_findings_renderer("github"),
}
"""Format of `-o` -> its renderer, which returns text, or bytes for a PNG."""
for _command in load_command_table():
    for _format, _reference in _command.formats.items():
        RENDERERS[_format] = _make_document_renderer(_reference)
