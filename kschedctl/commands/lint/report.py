"""The report of `lint --diff` (kind LintFixes)."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.findings import Finding


class FileFixes(Document, frozen=True):
    """The fixes of a file."""

    file: str
    diff: str
    """The unified diff of the file."""
    findings: tuple[Finding, ...]
    """The findings that the fixes correct."""


class LintFixes(Document, frozen=True):
    """The files that --fix would change."""

    files: tuple[FileFixes, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "LintFixes"
