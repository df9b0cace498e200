"""Reports on a snapshot and on the differences between two of them (apiVersion kschedctl.dev/v1)."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class SnapshotReport(Document, frozen=True):
    """``objects`` by kind; ``size`` of the file in bytes; ``stays``: what keeps its name in one that is ``anonymized``;
    ``unread`` kinds and why; ``server`` and what follows it are of the live cluster that was read, if it was one."""

    file: str
    size: int
    written_at: str
    written_by: str
    anonymized: bool
    kube_version: str
    objects: dict[str, int]
    stays: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    configured: bool = False
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    server: str = ""
    context: str = ""
    server_version: str = ""
    read_at: str = ""
    leader: str = ""
    configured_by: str = ""
    resource_versions: dict[str, str] = msgspec.field(default_factory=dict)
    changed: dict[str, int] = msgspec.field(default_factory=dict)
    api_version: str = "kschedctl.dev/v1"
    kind: str = "SnapshotReport"


class FieldChange(Document, frozen=True):
    """The values of a field in both snapshots."""

    field: str
    before: str | None
    """The value as JSON, or None if it is not set."""
    after: str | None


class ObjectChange(Document, frozen=True):
    """A change of an object."""

    kind: str
    name: str
    change: str
    """added, removed, changed, or recreated (another object with the same name)."""
    fields: tuple[FieldChange, ...] = ()


class SnapshotDiff(Report, frozen=True):
    """All differences that scheduling reads."""

    before: str
    after: str
    changes: tuple[ObjectChange, ...] = ()
    scheduler: tuple[FieldChange, ...] = ()
    """Changes of the scheduler's configuration, feature gates and version."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "SnapshotDiff"

    def first_line(self) -> tuple[str, ...]:
        """Return the number of differences and the names of the snapshots."""
        if not (self.changes or self.scheduler):
            return "No difference", "that scheduling reads"
        return counted(len(self.changes), "difference"), f"{self.before} → {self.after}"
