"""The command `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.errors import UsageError
from kschedctl.lint.engine import build_settings_schema
from kschedctl.reports.scenario import build_scenario_schema

EXAMPLES = (
    "kschedctl schema",
    "kschedctl schema explanation",
    "kschedctl schema scenario > scenario.schema.json",
)
INPUT_SCHEMAS = {"scenario": build_scenario_schema, "lint-settings": build_settings_schema}
"""The functions that build the schemas of documents that users write."""


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="A kind of document, such as explanation.")] = "",
) -> int:
    """Print the JSON Schema of a document, or list the kinds of documents.

    KIND is a name from the list or the "kind" of a document: explanation, or Explanation.
    """
    if not kind:
        typer.echo("\n".join(sorted([*DOCUMENTS, *INPUT_SCHEMAS])))
        return 0
    typer.echo(json.dumps(_find_schema(kind), indent=2))
    return 0


def _find_schema(kind: str) -> dict[str, object]:
    """Return the schema of the document with this name or kind. Raises UsageError if there is none."""
    names = {name.replace("-", ""): name for name in (*DOCUMENTS, *INPUT_SCHEMAS)}
    name = names.get(kind.replace("-", "").lower())
    if name is None:
        raise UsageError(f'no kind of document "{kind}"', hint="list all kinds with: kschedctl schema")
    return INPUT_SCHEMAS[name]() if name in INPUT_SCHEMAS else build_schema(DOCUMENTS[name])
