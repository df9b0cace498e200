"""What ``lint --diff`` would write, as a document: apiVersion kschedctl.dev/v1, kind LintFixes."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.findings import Finding


class FileFixes(Document, frozen=True):
    """A file: a unified diff of it, and the findings that are gone then."""

    file: str
    diff: str
    findings: tuple[Finding, ...]


class LintFixes(Document, frozen=True):
    """The files that would change."""

    files: tuple[FileFixes, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "LintFixes"
