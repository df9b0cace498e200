"""The output form ``diff``: fixes in the format of patch and git apply."""

from __future__ import annotations

from kschedctl.commands.lint.report import LintFixes
from kschedctl.errors import UsageError
from kschedctl.reports.document import Document
from kschedctl.text.printable import printable


def render_diff(document: Document) -> str:
    """Render the diffs of all files, with control characters escaped. Raises UsageError for other documents."""
    if not isinstance(document, LintFixes):
        raise UsageError("a diff is of fixes: lint --diff")
    return "".join(f"{_escape_line(line)}\n" for file in document.files for line in file.diff.split("\n")[:-1])


def _escape_line(line: str) -> str:
    """Escape control characters of a line, apart from tabs and the line ends of Windows."""
    end = "\r" if line.endswith("\r") else ""
    return "\t".join(map(printable, line.removesuffix("\r").split("\t"))) + end
