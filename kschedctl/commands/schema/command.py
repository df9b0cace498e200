"""``kschedctl schema``: the JSON Schema of a kind of document."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kschedctl.commands.schema.schemas import DOCUMENTS, schema_of
from kschedctl.errors import UsageError
from kschedctl.lint.settings import build_settings_schema
from kschedctl.reports.scenario import build_scenario_schema

EXAMPLES = (
    "kschedctl schema",
    "kschedctl schema explanation",
    "kschedctl schema scenario > scenario.schema.json",
)
READ = {"scenario": build_scenario_schema, "lint-settings": build_settings_schema}
"""Kinds that users write: a scenario for whatif, .kschedctl.yaml."""


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="A kind of document, such as explanation.")] = "",
) -> int:
    """Print the JSON Schema of a document, or list the kinds.

    KIND is a name from the list or the "kind" of a document: explanation, or Explanation.
    """
    if not kind:
        typer.echo("\n".join(sorted([*DOCUMENTS, *READ])))
        return 0
    typer.echo(json.dumps(_schema(kind), indent=2))
    return 0


def _schema(kind: str) -> dict[str, object]:
    """Raises UsageError for a kind that there is not."""
    names = {name.replace("-", ""): name for name in (*DOCUMENTS, *READ)}
    name = names.get(kind.replace("-", "").lower())
    if name is None:
        raise UsageError(f'no kind of document "{kind}"', hint="kschedctl schema lists them")
    return READ[name]() if name in READ else schema_of(DOCUMENTS[name])
