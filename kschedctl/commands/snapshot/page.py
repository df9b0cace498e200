"""The pages of a snapshot and of the comparison of two snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.kinds import KINDS
from kschedctl.commands.snapshot.report import FieldChange, ObjectChange, SnapshotDiff, SnapshotReport
from kschedctl.render.page import Bullets, Marked, Page, Style, limit_rows_by_style, paragraph, section
from kschedctl.render.tables import Row, build_table, keep_row, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import capitalize

CHANGES_SHOWN = 30
LONGEST_VALUE = 60
AROUND = 12
"""The number of equal characters to show before and after the difference of two long values."""
TONES = {"added": Tone.GOOD, "removed": Tone.BAD}


def build_snapshot_page(report: SnapshotReport, style: Style) -> Page:
    """Build the page of a snapshot: its origin, its objects, the names that it keeps, and the kinds that it lacks."""
    # The pairs of a kind and its number of objects are complete rows
    object_counts = [(kind, f"{number:,}") for kind, number in report.objects.items()]
    count_columns = (Column("kind"), *number_columns("objects"))
    counts_table = build_table(object_counts, count_columns, keep_row, limit=None, title="Objects")
    unread_lines = tuple(
        Marked(f"{_summarize_kind_names(unread_kinds, style)}: {reason}", Tone.WARNING)
        for reason, unread_kinds in _group_unread_kinds(report).items()
    )
    return (
        paragraph(Marked(report.file, Tone.STRONG), f"{report.size:,} bytes, {report.written_at}, {report.written_by}"),
        *section("Cluster and scheduler", Bullets(tuple(_describe_cluster_and_scheduler(report)))),
        *counts_table,
        *(section("Not pseudonymized", Bullets(report.stays)) if report.stays else ()),
        *(section("Not in the snapshot", Bullets(unread_lines)) if unread_lines else ()),
    )


def _group_unread_kinds(report: SnapshotReport) -> dict[str, list[str]]:
    """Map each reason to the kinds that could not be read for that reason."""
    kinds: dict[str, list[str]] = {}
    for kind, why in report.unread.items():
        kinds.setdefault(why, []).append(kind)
    return kinds


def _summarize_kind_names(names: Sequence[str], style: Style) -> str:
    """Join the names of the kinds. Unless the output is wide, replace custom resources by their number.

    A single kind of custom resources is still named.
    """
    custom_kinds = [name for name in names if name in KINDS and is_custom_api(KINDS[name].versions[0])]
    if style.wide or len(custom_kinds) < 2:
        return ", ".join(names)
    built_in_kinds = [name for name in names if name not in custom_kinds]
    return ", ".join((*built_in_kinds, f"{len(custom_kinds):,} kinds of custom resources (-o wide lists them)"))


def _describe_cluster_and_scheduler(report: SnapshotReport) -> Iterator[str]:
    """Yield the facts about the cluster and its scheduler, one per line.

    The facts are the server and its version, the replayed version, the configuration, the feature gates, the objects
    that changed while they were read, and the anonymization. Facts that do not apply are left out.
    """
    if report.server:
        context = f" (context {report.context})" if report.context else ""
        yield f"{report.server}{context}, read at {report.read_at}"
        yield f"server {report.server_version or '?'}, kube-scheduler leader {report.leader or 'not known'}"
    yield f"replayed as kube-scheduler {report.kube_version}"
    configured = report.configured_by or "as given" if report.configured else "kube-scheduler's defaults"
    yield f"configuration: {configured}"
    if report.feature_gates:
        yield "feature gates: " + ", ".join(f"{gate}={str(on).lower()}" for gate, on in report.feature_gates.items())
    if report.changed:
        moved = ", ".join(f"{number:,} {kind}" for kind, number in report.changed.items())
        yield f"changed while being read, so their latest state was recorded: {moved}"
    if report.anonymized:
        yield "anonymized: names, keys, label values and images are pseudonyms"


def build_diff_page(report: SnapshotDiff, style: Style) -> Page:
    """Build the page of a comparison: a summary, the scheduler's changes, changed objects by kind, and each change."""
    summary, names = report.build_headline_parts()
    if not (report.changes or report.scheduler):
        return (paragraph(Marked(summary, Tone.GOOD), names),)
    field_columns = (Column("field"), Column("before"), Column("after", beneath="→"))
    return (
        paragraph(Marked(summary, Tone.STRONG), names),
        *(paragraph(Marked(f"{capitalize(text)}.", Tone.WARNING)) for text in report.describe_unread_kinds()),
        *build_table(
            report.scheduler, field_columns, partial(_build_field_row, style=style), limit=None, title="Scheduler"
        ),
        *_build_count_table(report.changes),
        *_build_change_table(report.changes, field_columns, style),
    )


def _build_count_table(changes: tuple[ObjectChange, ...]) -> Page:
    """Build the table that counts the changes by kind."""
    counts = Counter((change.kind, change.change) for change in changes)
    rows = [(kind, Marked(what, TONES.get(what, Tone.PLAIN)), f"{number:,}") for (kind, what), number in counts.items()]
    return build_table(
        rows,
        (Column("kind"), Column("change"), *number_columns("objects")),
        keep_row,
        limit=None,
        title="Changes by kind",
    )


def _build_change_table(changes: tuple[ObjectChange, ...], field_columns: tuple[Column, ...], style: Style) -> Page:
    """Build the table of changes, with a row per changed field."""
    shown, note = limit_rows_by_style(changes, style, CHANGES_SHOWN)
    rows = [row for change in shown for row in _iter_change_rows(change, style)]
    columns = (Column("kind"), Column("name", keep=True), Column("change"), *field_columns)
    return build_table(rows, columns, keep_row, limit=None, title="Changes", note=note)


def _iter_change_rows(change: ObjectChange, style: Style) -> Iterator[Row]:
    """Yield one row per changed field of an object, of which only the first row names the object.

    An object without changed fields, such as an added one, has one row.
    """
    what = Marked(change.change, TONES.get(change.change, Tone.PLAIN))
    if not change.fields:
        yield (change.kind, change.name, what, "", "", "")
    for number, field in enumerate(change.fields):
        first: Row = (change.kind, change.name, what) if number == 0 else ("", "", "")
        yield (*first, *_build_field_row(field, style))


def _build_field_row(change: FieldChange, style: Style) -> Row:
    """Build the cells about a changed field. Only output of limited width shortens its values."""
    return (change.field, *_shorten_to_difference(change.before, change.after, max(LONGEST_VALUE, style.width // 2)))


def _shorten_to_difference(before: str | None, after: str | None, longest: int) -> tuple[str, str]:
    """Return both values as texts. If one has more than `longest` characters, both are reduced to where they differ.

    AROUND equal characters before and after the difference are kept.

    >>> _shorten_to_difference("x" * 99 + "cpu=1" + "y" * 99, "x" * 99 + "cpu=2" + "y" * 99, 60)
    ('…xxxxxxxxcpu=1yyyyyyyyyyyy…', '…xxxxxxxxcpu=2yyyyyyyyyyyy…')
    """
    old = "–" if before is None else before
    new = "–" if after is None else after
    if max(len(old), len(new)) <= longest:
        return old, new
    start = max(_count_common_prefix(old, new) - AROUND, 0)
    end = max(_count_common_prefix(old[::-1], new[::-1]) - AROUND, 0)
    return _cut_out_difference(old, start, end, longest), _cut_out_difference(new, start, end, longest)


def _count_common_prefix(first: str, second: str) -> int:
    """Return the length of the common prefix of two strings."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _cut_out_difference(text: str, start: int, end: int, longest: int) -> str:
    """Cut ``start`` characters from the beginning and ``end`` from the end. Shorten what remains to ``longest``.

    Ellipses mark what is cut off.
    """
    shown = text[start : len(text) - end]
    is_cut_at_end = end > 0
    if len(shown) > longest:
        shown, is_cut_at_end = shown[: longest - 1], True
    before = "…" if start else ""
    after = "…" if is_cut_at_end else ""
    return f"{before}{shown}{after}"
