"""What differs between versions of kube-scheduler, as a document: apiVersion kschedctl.dev/v1, kind VersionChanges."""

from __future__ import annotations

from typing import Literal

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted

Basis = Literal["answers", "source", "release notes"]


class VersionChange(Document, frozen=True):
    """``sort``: rule, plugin or gate; ``where``: the plugin, the gate, or all of kube-scheduler; ``what`` changed.

    ``since``: the release that brought ``after``, the last of several where it was brought back to older minors.
    ``upstream``: the change behind it, where it is known. ``basis``: how the change is known: from the answers of
    real schedulers, from upstream's source alone, or from its release notes alone.
    """

    sort: str
    where: str
    what: str
    since: tuple[str, ...]
    before: str
    after: str
    upstream: str = ""
    basis: Basis = "answers"


class VersionChanges(Report, frozen=True):
    """``versions``: the two that are compared, else all that are replayed; the newest changes of each sort first."""

    versions: tuple[str, ...]
    compared: bool
    changes: tuple[VersionChange, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "VersionChanges"

    def first_line(self) -> tuple[str, ...]:
        return counted(len(self.changes), "change"), f"from {self.versions[0]} to {self.versions[-1]}"
