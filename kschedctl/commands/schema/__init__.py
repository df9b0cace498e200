"""`schema`: the JSON Schemas of all documents, generated from their structs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from kschedctl.api.json_values import Json
from kschedctl.reports.command import load_command_table
from kschedctl.reports.document import Document

SHARED_DOCUMENTS = {
    "answers": "reports.report:Answers",
    "extender-answers": "reports.plugin_answers:ExtenderAnswers",
    "queue-run": "replay.run_queue:QueueRun",
    "summary": "reports.summary:Summary",
}
"""Documents of several commands, or of the library only."""


def load_struct(reference: str) -> Any:
    """Return the struct to which `module:name` refers. The module's path is relative to the package kschedctl."""
    module, _, name = reference.partition(":")
    return getattr(import_module(f"kschedctl.{module}"), name)


DOCUMENTS: dict[str, Any] = {
    name: load_struct(reference)
    for schemas in (SHARED_DOCUMENTS, *(command.schemas for command in load_command_table()))
    for name, reference in schemas.items()
}
"""The struct of each kind of document."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def build_schema(document: type[Document]) -> dict[str, Json]:
    """Build the JSON Schema (draft 2020-12) of a document."""
    return {"$schema": DIALECT, **msgspec.json.schema(document)}
