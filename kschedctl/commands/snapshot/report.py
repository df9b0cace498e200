"""The reports of `snapshot`: apiVersion kschedctl.dev/v1, kinds SnapshotReport and SnapshotDiff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kschedctl.reports.document import Document, RootDocument
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.text.counts import counted, first_few

LONGEST_VALUES = 60
"""The number of characters of two values that the summary shows."""


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
    """True if the snapshot contains a scheduler configuration."""
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
    not_compared: tuple[str, ...] = ()
    """The kinds that were read for only one of the snapshots."""
    kind: str = "SnapshotDiff"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the number of differences and the names of the snapshots."""
        if not (self.changes or self.scheduler):
            return "No difference", "that matters for scheduling"
        return counted(len(self.changes), "difference"), f"{self.before} → {self.after}"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with descriptions of the changes as its warnings, and with the number of changes.

        Unread kinds come first, followed by changes of nodes, of pods, of the scheduler and of other objects. These
        replace the summary's warnings.
        """
        descriptions = (
            *self.describe_unread_kinds(),
            *_describe_node_changes(self._select_changes("Node")),
            *_describe_pod_changes(self._select_changes("Pod")),
            *(f"scheduler: {_describe_field_change(field)}" for field in self.scheduler),
            *_describe_other_changes(self._select_other_changes()),
        )
        change_count = len(self.changes)
        # The summary has descriptions only, so all entries of the report's list of changes are left out
        left_out = {"changes": change_count} if change_count else {}
        return replace(summary, warnings=descriptions, figures={"changes": change_count}, left_out=left_out)

    def _select_changes(self, kind: str) -> list[ObjectChange]:
        """Return the changes of objects of a kind."""
        return [change for change in self.changes if change.kind == kind]

    def _select_other_changes(self) -> list[ObjectChange]:
        """Return the changes of objects other than nodes and pods. ReplicaSets, which follow Deployments, come last."""
        other_changes = [change for change in self.changes if change.kind not in ("Node", "Pod")]
        return sorted(other_changes, key=lambda change: change.kind == "ReplicaSet")

    def describe_unread_kinds(self) -> tuple[str, ...]:
        """Return a sentence, as a tuple, on the kinds that were not compared, or () if all were."""
        if not self.not_compared:
            return ()
        return (f"not compared, since only one snapshot has them: {first_few(self.not_compared)}",)


def _describe_node_changes(changes: Sequence[ObjectChange]) -> Iterator[str]:
    """Yield a clause for each kind of change of nodes: cordoned, uncordoned, otherwise changed, added, and so on."""
    names_by_change: dict[str, list[str]] = {}
    for change in changes:
        values = {field.field: field.after for field in change.fields}
        change_text = change.change
        if "spec.unschedulable" in values:
            change_text = "cordoned" if values["spec.unschedulable"] == "true" else "uncordoned"
        elif change.fields:
            change_text = f"{change.change} ({first_few(list(values))})"
        names_by_change.setdefault(change_text, []).append(change.name)
    for change_text, names in names_by_change.items():
        yield f"{counted(len(names), 'node')} {change_text}: {first_few(names)}"


def _describe_pod_changes(changes: Sequence[ObjectChange]) -> Iterator[str]:
    """Yield a clause for each kind of change of pods: without a node now, moved, with a node now, added, and so on."""
    without_node: list[str] = []
    names_by_change = {"without a node now": without_node}  # the gravest kind of change comes first
    for change in changes:
        node_change = next((field for field in change.fields if field.field == "spec.nodeName"), None)
        if node_change is None or change.change == "recreated":
            names_by_change.setdefault(change.change, []).append(change.name)
        elif node_change.before and node_change.after:
            names_by_change.setdefault("moved to another node", []).append(change.name)
        elif node_change.before:
            without_node.append(change.name)
        else:
            names_by_change.setdefault("with a node now", []).append(change.name)
    for change_text, names in names_by_change.items():
        if names:
            yield f"{counted(len(names), 'pod')} {change_text}: {first_few(names)}"


def _describe_other_changes(changes: Iterable[ObjectChange]) -> Iterator[str]:
    """Yield clauses on other objects: each changed object with its fields, and the names of added and removed ones."""
    names_by_change: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        if change.fields:
            fields = first_few([_describe_field_change(field) for field in change.fields])
            yield f"{change.kind} {change.name}: {fields}"
        else:
            names_by_change.setdefault((change.kind, change.change), []).append(change.name)
    for (kind, change_text), names in names_by_change.items():
        yield f"{kind} {change_text}: {first_few(names)}"


def _describe_field_change(change: FieldChange) -> str:
    """Return the field with its values before and after, or only the field if they are long."""
    before, after = change.before or "–", change.after or "–"
    if len(before) + len(after) > LONGEST_VALUES:
        return change.field
    return f"{change.field} {before} → {after}"
