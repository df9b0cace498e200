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
    "Explanation": "commands.explain.page:explanation_page",
    "Explanations": "commands.explain.page:explanations_page",
    "PendingPods": "commands.explain.pending_page:pending_page",
    "SnapshotReport": "commands.snapshot.page:snapshot_page",
    "SnapshotDiff": "commands.snapshot.page:diff_page",
    "Findings": "commands.lint.page:findings_page",
    "Audit": "commands.audit.page:audit_page",
    "AuditSection": "commands.audit.page:section_page",
    "EffectiveConfiguration": "commands.config.page:configuration_page",
    "VersionChanges": "commands.versions.page:version_changes_page",
    "Version": "commands.version.page:version_page",
    "LintRules": "commands.lint.page:rule_list_page",
    "LintRule": "commands.lint.page:rule_page",
    "Simulation": "commands.simulate.page:simulation_page",
    "FollowedRollout": "commands.simulate.followed_rollout_page:followed_rollout_page",
    "SamplingCosts": "commands.audit.sampling.page:sampling_page",
    "Capacity": "commands.capacity.page:capacity_page",
    "Drain": "commands.drain.page:drain_page",
    "Failures": "commands.failures.page:failures_page",
    "WhatIf": "commands.whatif.page:whatif_page",
    "MakeRoom": "commands.make_room.page:make_room_page",
    "NodeSizing": "commands.size.page:sizing_page",
    "Rebalancing": "commands.rebalance.page:rebalancing_page",
    "Answers": "render.answers_page:answers_page",
    "Remedies": "commands.remedies.page:remedies_page",
    "RemediesOfMany": "commands.remedies.page:many_page",
    "WakeUps": "commands.wakes.page:wake_ups_page",
    "WakeUpsOfMany": "commands.wakes.page:wake_ups_of_many_page",
    "WakesOfMany": "commands.wakes.page:wakes_page",
    "WakesBetween": "commands.wakes.page:between_page",
    "Races": "commands.audit.races.page:races_page",
    "NodePools": "commands.pools.page:pools_page",
    "ScaleUp": "commands.scale.page:scale_up_page",
    "ScaleDown": "commands.scale.page:scale_down_page",
    "Provisioning": "commands.provision.page:provisioning_page",
    "Consolidation": "commands.consolidate.page:consolidation_page",
    "Disruption": "commands.provision.page:disruption_page",
    "ClusterMetrics": "commands.watch.page:cluster_metrics_page",
}
"""The kind of a document -> the module and function that make its page."""
HTML_WIDGETS = {
    "Explanation": "commands.explain.html_widgets:explanation_widgets",
    "Explanations": "commands.explain.html_widgets:explanations_widgets",
    "PendingPods": "commands.explain.html_widgets:pending_widgets",
    "Simulation": "commands.simulate.html_widgets:simulation_widgets",
    "WhatIf": "commands.whatif.html_widgets:whatif_widgets",
}
"""The kind of a document -> the function that returns the sections that only its HTML form has."""
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
