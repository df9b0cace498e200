"""The reports of `snapshot`: apiVersion kschedctl.dev/v1, kinds SnapshotReport and SnapshotDiff."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document, RootDocument
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class SnapshotReport(RootDocument, frozen=True):
    """The contents of a snapshot, and the live cluster that was read for it."""

    file: str
    size: int
    """The size of the file in bytes."""
    written_at: str
    written_by: str
    anonymized: bool
    kube_version: str
    objects: dict[str, int]
    """Kind -> the number of objects."""
    stays: tuple[str, ...] = ()
    """Names that an anonymized snapshot keeps."""
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    configured: bool = False
    """Whether the snapshot contains a scheduler configuration."""
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    """Kind that could not be read -> the reason."""
    server: str = ""
    """The API server. This field and the following ones are empty unless a live cluster was read."""
    context: str = ""
    """The context of the kubeconfig."""
    server_version: str = ""
    read_at: str = ""
    leader: str = ""
    """The scheduler that holds the lease."""
    configured_by: str = ""
    """The source of the scheduler configuration."""
    resource_versions: dict[str, str] = msgspec.field(default_factory=dict)
    changed: dict[str, int] = msgspec.field(default_factory=dict)
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
    kind: str = "SnapshotDiff"

    def build_first_line(self) -> tuple[str, ...]:
        """Return the number of differences and the names of the snapshots."""
        if not (self.changes or self.scheduler):
            return "No difference", "that matters for scheduling"
        return counted(len(self.changes), "difference"), f"{self.before} → {self.after}"
