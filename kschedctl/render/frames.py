"""The main table of a document as a DataFrame, by polars or pandas, whichever there is."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kschedctl.errors import UsageError
from kschedctl.render.csv_table import table_of
from kschedctl.reports.document import Document

LIBRARIES = ("polars", "pandas")


def to_frame(document: Document) -> Any:
    """One column for each of the CSV's. Raises UsageError where neither library is, or the document has no table."""
    header, rows = table_of(document)
    columns = {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=False)}
    for library in LIBRARIES:
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns or {name: [] for name in header})
    raise UsageError("neither polars nor pandas is installed", hint="pip install polars")
