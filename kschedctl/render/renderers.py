"""The ways to show a document, and the page of each kind of document."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kschedctl.api.copying import replace
from kschedctl.api.json_values import Json
from kschedctl.errors import UsageError
from kschedctl.render.page import UNFOLDED, Page, Style, plots_of
from kschedctl.reports.document import Document
from kschedctl.reports.findings import WithFindings
from kschedctl.reports.unknown import doubt

PAGES = {
    "Explanation": "render.pages.explanation:explanation_page",
    "Explanations": "render.pages.explanation:explanations_page",
    "PendingPods": "render.pages.pending:pending_page",
    "SnapshotReport": "render.pages.archive:snapshot_page",
    "SnapshotDiff": "render.pages.archive:diff_page",
    "Findings": "render.pages.lint:findings_page",
    "Audit": "render.pages.audit.audit:audit_page",
    "AuditSection": "render.pages.audit.audit:section_page",
    "EffectiveConfiguration": "render.pages.configuration:configuration_page",
    "VersionChanges": "render.pages.configuration:version_changes_page",
    "Version": "render.pages.configuration:version_page",
    "LintRules": "render.pages.lint:rule_list_page",
    "LintRule": "render.pages.lint:rule_page",
    "Simulation": "render.pages.simulation:simulation_page",
    "FollowedRollout": "render.pages.followed_rollout:followed_rollout_page",
    "SamplingCosts": "render.pages.audit.sampling:sampling_page",
    "Capacity": "render.pages.capacity:capacity_page",
    "Drain": "render.pages.node_losses:drain_page",
    "Failures": "render.pages.node_losses:failures_page",
    "WhatIf": "render.pages.whatif:whatif_page",
    "MakeRoom": "render.pages.make_room:make_room_page",
    "NodeSizing": "render.pages.sizing:sizing_page",
    "Rebalancing": "render.pages.rebalancing:rebalancing_page",
    "Answers": "render.pages.answers:answers_page",
    "Remedies": "render.pages.remedies:remedies_page",
    "RemediesOfMany": "render.pages.remedies:many_page",
    "WakeUps": "render.pages.wakes:wake_ups_page",
    "WakeUpsOfMany": "render.pages.wakes:wake_ups_of_many_page",
    "WakesOfMany": "render.pages.wakes:wakes_page",
    "WakesBetween": "render.pages.wakes:between_page",
    "Races": "render.pages.audit.races:races_page",
    "NodePools": "render.pages.pools:pools_page",
    "ScaleUp": "render.pages.cluster_autoscaler:scale_up_page",
    "ScaleDown": "render.pages.cluster_autoscaler:scale_down_page",
    "Provisioning": "render.pages.karpenter:provisioning_page",
    "Consolidation": "render.pages.consolidation:consolidation_page",
    "Disruption": "render.pages.karpenter:disruption_page",
    "ClusterMetrics": "render.pages.cluster_metrics:cluster_metrics_page",
}
"""The kind of a document -> the module and function that make its page."""
HTML_WIDGETS = {
    "Explanation": "render.html.widgets:explanation_widgets",
    "Explanations": "render.html.widgets:explanations_widgets",
    "PendingPods": "render.html.widgets:pending_widgets",
    "Simulation": "render.html.widgets:simulation_widgets",
    "WhatIf": "render.html.widgets:whatif_widgets",
}
"""The kind of a document -> the function that returns the sections that only its HTML form has."""
COMPACT = "reports.compact:compact"
"""The function that folds nodes with the same answer together."""
SUMMARY = "render.pages.summary:summary_page"
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
    "patch": lambda document, style: _load("render.patch:to_patch")(document),
    "diff": lambda document, style: _load("render.diff:to_diff")(document),
    "sarif": _of_findings("render.sarif:to_sarif"),
    "junit": _of_findings("render.junit:to_junit"),
    "github": _of_findings("render.github:to_github"),
    "openmetrics": lambda document, style: _load("render.openmetrics:to_openmetrics")(document),
}
"""``-o`` -> what gives the text, or of a picture that is none the bytes."""
