"""The ways to show a document, and the page of each kind of document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from kschedctl.render.explanation import explanation_page
from kschedctl.render.findings import findings_page
from kschedctl.render.lint_rules import rule_list_page, rule_page
from kschedctl.render.page import UNFOLDED, Page, Style
from kschedctl.render.pending import pending_page
from kschedctl.render.snapshot import diff_page, snapshot_page
from kschedctl.reports.explanation import Document

PAGES: dict[str, Callable[[Any, Style], Page]] = {
    "Explanation": explanation_page,
    "PendingPods": pending_page,
    "SnapshotReport": snapshot_page,
    "SnapshotDiff": diff_page,
    "Findings": findings_page,
    "LintRules": rule_list_page,
    "LintRule": rule_page,
}
"""The kind of a document -> what makes its page."""


def page_of(document: Any, style: Style) -> Page:
    return PAGES[document.kind](document, style)


def _paged(show: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(show)(page_of(document, style), style)


def _data(write: str) -> Callable[[Document, Style], str]:
    return lambda document, style: _load(write)(_headed(document.to_dict()))


def _headed(document: dict[str, Any]) -> dict[str, Any]:
    """With apiVersion and kind in front, where readers of Kubernetes documents look for them."""
    return {key: document[key] for key in ("apiVersion", "kind")} | document


def _load(reference: str) -> Callable[..., str]:
    """``module:function`` of this package: a format's libraries are imported when the format is asked for."""
    module, _, function = reference.partition(":")
    loaded: Callable[..., str] = getattr(import_module(f"kschedctl.render.{module}"), function)
    return loaded


RENDERERS: dict[str, Callable[[Document, Style], str]] = {
    "table": _paged("terminal:show"),
    "wide": _paged("terminal:show"),
    "json": _data("data:to_json"),
    "yaml": _data("data:to_yaml"),
    "markdown": lambda document, style: _paged("markdown:show")(document, replace(style, width=UNFOLDED)),
    "name": _data("names:pod_names"),
    "sarif": lambda document, style: _load("sarif:to_sarif")(document),
    "junit": lambda document, style: _load("junit:to_junit")(document),
    "github": lambda document, style: _load("github:to_github")(document),
}
"""``-o`` -> what gives the text."""
