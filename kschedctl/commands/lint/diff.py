"""``-o diff``: what fixes change, as patch and git apply take it."""

from __future__ import annotations

from kschedctl.commands.lint.fixes_report import LintFixes
from kschedctl.errors import UsageError
from kschedctl.reports.document import Document
from kschedctl.text.printable import printable


def to_diff(document: Document) -> str:
    """The diffs of all files, what could steer a terminal written as escapes. Raises UsageError."""
    if not isinstance(document, LintFixes):
        raise UsageError("a diff is of fixes: lint --diff")
    return "".join(f"{_line(line)}\n" for file in document.files for line in file.diff.split("\n")[:-1])


def _line(line: str) -> str:
    """Tabs, and the line ends of Windows, belong to a text."""
    end = "\r" if line.endswith("\r") else ""
    return "\t".join(map(printable, line.removesuffix("\r").split("\t"))) + end
