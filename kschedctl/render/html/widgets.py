"""What a report in the browser has besides its page, by the kind of the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kschedctl.render.html.sections import HtmlSection
from kschedctl.reports.document import Document

WIDGETS: Mapping[str, str] = {
    "Explanation": "explanation:explanation_widgets",
    "Explanations": "explanation:explanations_widgets",
    "PendingPods": "explanation:pending_widgets",
    "Simulation": "explanation:simulation_widgets",
    "WhatIf": "explanation:whatif_widgets",
}
"""The kind of a document -> the module and function that make its widgets."""


def widgets_of(document: Document) -> list[HtmlSection]:
    """Sections that stand behind the answer."""
    reference = WIDGETS.get(str(getattr(document, "kind", "")))
    if reference is None:
        return []
    module, _, function = reference.partition(":")
    make: Callable[[Any], list[HtmlSection]] = getattr(import_module(f"kschedctl.render.html.{module}"), function)
    return make(document)
