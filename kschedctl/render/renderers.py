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
    "Explanation": "pages.explanation:explanation_page",
    "Explanations": "pages.explanation:explanations_page",
    "PendingPods": "pages.pending:pending_page",
    "SnapshotReport": "pages.archive:snapshot_page",
    "SnapshotDiff": "pages.archive:diff_page",
    "Findings": "pages.lint:findings_page",
    "Audit": "pages.audit.audit:audit_page",
    "AuditSection": "pages.audit.audit:section_page",
    "EffectiveConfiguration": "pages.configuration:configuration_page",
    "VersionChanges": "pages.configuration:version_changes_page",
    "Version": "pages.configuration:version_page",
    "LintRules": "pages.lint:rule_list_page",
    "LintRule": "pages.lint:rule_page",
    "Simulation": "pages.simulation:simulation_page",
    "FollowedRollout": "pages.followed_rollout:followed_rollout_page",
    "SamplingCosts": "pages.audit.sampling:sampling_page",
    "Capacity": "pages.capacity:capacity_page",
    "Drain": "pages.node_losses:drain_page",
    "Failures": "pages.node_losses:failures_page",
    "WhatIf": "pages.whatif:whatif_page",
    "MakeRoom": "pages.make_room:make_room_page",
    "NodeSizing": "pages.sizing:sizing_page",
    "Rebalancing": "pages.rebalancing:rebalancing_page",
    "Answers": "pages.answers:answers_page",
    "Remedies": "pages.remedies:remedies_page",
    "RemediesOfMany": "pages.remedies:many_page",
    "WakeUps": "pages.wakes:wake_ups_page",
    "WakeUpsOfMany": "pages.wakes:wake_ups_of_many_page",
    "WakesOfMany": "pages.wakes:wakes_page",
    "WakesBetween": "pages.wakes:between_page",
    "Races": "pages.audit.races:races_page",
    "NodePools": "pages.pools:pools_page",
    "ScaleUp": "pages.cluster_autoscaler:scale_up_page",
    "ScaleDown": "pages.cluster_autoscaler:scale_down_page",
    "Provisioning": "pages.karpenter:provisioning_page",
    "Consolidation": "pages.consolidation:consolidation_page",
    "Disruption": "pages.karpenter:disruption_page",
    "ClusterMetrics": "pages.cluster_metrics:cluster_metrics_page",
}
"""The kind of a document -> the module and function that make its page."""
SUMMARY = "pages.summary:summary_page"
"""Pages of documents that the library alone gives."""


def kind_of(document: Document) -> str:
    return str(getattr(document, "kind", ""))


def page_of(document: Document, style: Style) -> Page:
    page: Page = _load(PAGES.get(kind_of(document), SUMMARY))(document, style)
    return page


def _paged(show: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(show)(page_of(document, style), style)


def _data(write: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(write)(_headed(document.to_dict()))


def _template(fill: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(fill)(_headed(document.to_dict()), style.template)


def _html(document: Document, style: Style) -> str:
    html = import_module("kschedctl.render.html.document")  # Jinja
    own = replace(html.style_of(document, style), commands=style.commands)
    text: str = html.show(document, page_of(document, own), style.about)
    return text


def _picture(form: str) -> Callable[[Document, Style], str | bytes]:
    def show(document: Document, style: Style) -> str | bytes:
        plots = plots_of(page_of(document, replace(style, width=UNFOLDED, wide=True, plots=True)))
        if not plots:
            raise UsageError(f"-o {form} draws plots, and this answer has none", hint="-o html has everything")
        picture: str | bytes = _load(f"plots.pictures:{form}")(plots, _doubt(document))
        return picture

    return show


def _doubt(document: Document) -> str:
    """A picture stands without the words around it: an answer that could be another says so in it."""
    if not getattr(document, "undecided", False):
        return ""
    leaning = doubt(getattr(document, "unknown", ()))
    return f"This holds{leaning}" if leaning else "Undecided: not everything it depends on was read or asked"


def _brief(document: Document, style: Style) -> str:
    return str(_load("brief:to_brief")(document, style))


def _of_findings(write: str) -> Callable[[Document, Style], str]:
    def show(document: Document, style: Style) -> str:
        if not isinstance(document, WithFindings):
            form = write.partition(":")[0]
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
    loaded: Callable[..., Any] = getattr(import_module(f"kschedctl.render.{module}"), function)
    return loaded


RENDERERS: dict[str, Callable[[Document, Style], str | bytes]] = {
    "table": _paged("terminal:show"),
    "brief": _brief,
    "wide": _paged("terminal:show"),
    "json": _data("data:to_json"),
    "yaml": _data("data:to_yaml"),
    "markdown": lambda document, style: _paged("markdown:show")(document, replace(style, width=UNFOLDED)),
    "html": _html,
    "svg": _picture("svg"),
    "png": _picture("png"),
    "csv": lambda document, style: _load("csv_table:to_csv")(document),
    "name": lambda document, style: _load("names:pod_names")(document),
    "jsonpath": _template("templates:jsonpath"),
    "custom-columns": _template("templates:custom_columns"),
    "patch": lambda document, style: _load("patch:to_patch")(document),
    "diff": lambda document, style: _load("diff:to_diff")(document),
    "sarif": _of_findings("sarif:to_sarif"),
    "junit": _of_findings("junit:to_junit"),
    "github": _of_findings("github:to_github"),
    "openmetrics": lambda document, style: _load("openmetrics:to_openmetrics")(document),
}
"""``-o`` -> what gives the text, or of a picture that is none the bytes."""
