"""JSON Schemas of the documents that users see, made from the structs.

``python -m kschedctl.reports.schema`` writes them to ``kschedctl/reports/schemas/``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from kschedctl.reports.configuration import EffectiveConfiguration
from kschedctl.reports.explanation import Document, Explanation
from kschedctl.reports.findings import Findings, RuleList, RuleReport
from kschedctl.reports.pending import PendingPods

DOCUMENTS: dict[str, type[Document]] = {
    "explanation": Explanation,
    "pending-pods": PendingPods,
    "findings": Findings,
    "lint-rules": RuleList,
    "lint-rule": RuleReport,
    "effective-configuration": EffectiveConfiguration,
}
"""File name -> the document that it describes."""

FOLDER = Path(__file__).parent / "schemas"


def schema_of(document: type[Document]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a document."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(document)}


def schema_text(document: type[Document]) -> str:
    """The schema as the file holds it."""
    return json.dumps(schema_of(document), indent=1) + "\n"


if __name__ == "__main__":
    for name, document in DOCUMENTS.items():
        (FOLDER / f"{name}.json").write_text(schema_text(document))
