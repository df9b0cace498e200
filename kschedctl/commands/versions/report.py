"""The report of `versions`: apiVersion kschedctl.dev/v1, kind VersionChanges."""

from __future__ import annotations

from typing import Literal

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted

Basis = Literal["answers", "source", "release notes"]


class VersionChange(Document, frozen=True):
    """A difference between versions of kube-scheduler."""

    sort: str
    """rule, plugin or gate."""
    where: str
    """The plugin or feature gate, or "kube-scheduler"."""
    what: str
    """The aspect that differs."""
    since: tuple[str, ...]
    """The release that brought `after`, after those to which it was backported."""
    before: str
    after: str
    upstream: str = ""
    """Upstream's change, if it is known."""
    basis: Basis = "answers"
    """How the change is known: from answers of real schedulers, from source code or from release notes."""


class VersionChanges(Report, frozen=True):
    """Differences between versions of kube-scheduler, newest first within each sort."""

    versions: tuple[str, ...]
    """The two versions that are compared, or all that are replayed."""
    compared: bool
    changes: tuple[VersionChange, ...] = ()
    kind: str = "VersionChanges"

    def build_first_line(self) -> tuple[str, ...]:
        """Return the number of changes and the range of versions."""
        return counted(len(self.changes), "change"), f"from {self.versions[0]} to {self.versions[-1]}"
