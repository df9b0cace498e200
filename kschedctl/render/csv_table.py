"""The main table of a report as CSV (RFC 4180), with a header."""

from __future__ import annotations

import csv
import io

from kschedctl.errors import UsageError
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report, kind_of_answers
from kschedctl.text.printable import printable

_FORMULA = ("=", "+", "-", "@")


def to_csv(document: Document) -> str:
    """Return the main table as CSV. Raises UsageError if the document has none."""
    header, rows = get_csv_table(document)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_escape_cell(value) for value in row] for row in rows)
    return text.getvalue()


def get_csv_table(document: Document) -> CsvTable:
    """Return the main table of a document. Raises UsageError if it has none."""
    table = document.csv_table() if isinstance(document, Report) else None
    if table is None:
        raise UsageError(f"{kind_of_answers(document)} has no CSV form", hint="-o json has everything")
    return table


def _escape_cell(value: object) -> object:
    """Escape text so that no spreadsheet runs it as a formula.

    Source: OWASP, CSV Injection. Tabs and carriage returns, which OWASP names too, become escapes.
    """
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip().startswith(_FORMULA) else printable(value)
