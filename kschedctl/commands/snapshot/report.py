"""What a snapshot holds, and what lies between two of them, as documents (apiVersion kschedctl.dev/v1)."""

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
    """A field's value in both snapshots as JSON; None where it is not set."""

    field: str
    before: str | None
    after: str | None


class ObjectChange(Document, frozen=True):
    """``change`` is added, removed, changed or (the same name, another object) recreated."""

    kind: str
    name: str
    change: str
    fields: tuple[FieldChange, ...] = ()


class SnapshotDiff(Report, frozen=True):
    """All that differs and that scheduling reads; ``scheduler``: its configuration, gates and version."""

    before: str
    after: str
    changes: tuple[ObjectChange, ...] = ()
    scheduler: tuple[FieldChange, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "SnapshotDiff"

    def first_line(self) -> tuple[str, ...]:
        """How much differs."""
        if not (self.changes or self.scheduler):
            return "No difference", "that scheduling reads"
        return counted(len(self.changes), "difference"), f"{self.before} → {self.after}"
